//! Rows as JSON, with options for their values.
//!
//! It's a separate encoder, so that rows with default values, which are most, don't pay for the
//! options.

use std::sync::Arc;

use super::{RowEncoder, RowWriter, Shape, keys, opening};
use crate::append::Prefix;
use crate::{Column, Nulls, Value, ValueOptions};

/// Writes the rows of one statement as JSON, with options for their values.
///
/// The calls are those of [`RowEncoder`].
#[derive(Debug)]
pub struct OptionsEncoder {
    rows: RowEncoder,
    options: ValueOptions,
    /// For each column, the text before a value that is its row's first member. Empty if NULLs are
    /// written.
    openings: Arc<[Prefix]>,
    /// The row has a member.
    open: bool,
    /// The text of one value.
    scratch: String,
}

impl OptionsEncoder {
    /// An encoder for rows of `columns`. The keys are escaped here, once.
    pub fn new(shape: Shape, options: ValueOptions, columns: &[Column]) -> Self {
        let openings = match (options.nulls, shape) {
            (Nulls::Null, _) | (_, Shape::Scalar) => Arc::default(),
            (Nulls::Omit, _) => keys(columns, |_| opening(shape)),
        };
        let rows = RowEncoder::new(shape, columns);
        Self { rows, options, openings, open: false, scratch: String::new() }
    }

    /// Rows begun so far.
    pub fn rows(&self) -> u64 {
        self.rows.rows()
    }

    /// Writes the bytes before the first row.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        self.rows.start(out);
    }

    /// Writes the bytes after the last row.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.rows.finish(out);
    }
}

impl RowWriter for OptionsEncoder {
    #[inline]
    fn begin_row(&mut self, out: &mut Vec<u8>) {
        self.open = false;
        self.rows.begin_row(out);
    }

    #[inline]
    fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        let omits = !self.openings.is_empty();
        let keys = if omits && !self.open { &self.openings } else { &self.rows.keys };
        let Some(key) = keys.get(self.rows.column) else { return };
        self.rows.column += 1;
        if omits && matches!(value, Value::Null) {
            return;
        }
        self.open = true;
        let slot = key.append(out);
        self.rows.write(self.options.apply(value, &mut self.scratch), slot);
    }

    #[inline]
    fn end_row(&mut self, out: &mut Vec<u8>) {
        if !self.open {
            self.rows.column = 0;
        }
        self.rows.end_row(out);
    }

    #[inline]
    fn options(&self) -> ValueOptions {
        self.options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BytesForm, ColumnKind, Intervals, Numbers};

    const ALL: ValueOptions = ValueOptions {
        numbers: Numbers::String,
        bytes: BytesForm::Base64,
        intervals: Intervals::Iso,
        nulls: Nulls::Omit,
    };

    fn encode(shape: Shape, options: ValueOptions, names: &[&str], rows: &[&[Value<'_>]]) -> String {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            type_name: String::new(),
            kind: ColumnKind::Text,
        };
        let columns: Vec<_> = names.iter().map(column).collect();
        let mut encoder = OptionsEncoder::new(shape, options, &columns);
        let mut out = Vec::new();
        encoder.start(&mut out);
        for row in rows {
            encoder.begin_row(&mut out);
            row.iter().for_each(|value| encoder.value(*value, &mut out));
            encoder.end_row(&mut out);
        }
        encoder.finish(&mut out);
        assert_eq!((encoder.rows(), encoder.options()), (rows.len() as u64, options));
        String::from_utf8(out).unwrap()
    }

    const NULLS: &[Value<'_>] = &[Value::Null, Value::Null, Value::Null];
    const FIRST: &[Value<'_>] = &[Value::Int(1), Value::Null, Value::Null];
    const MIDDLE: &[Value<'_>] = &[Value::Null, Value::Bytes(b"hi"), Value::Null];
    const LAST: &[Value<'_>] = &[Value::Null, Value::Null, Value::Number("1.50")];
    const ROW: &[Value<'_>] = &[Value::Int(1), Value::Json("[1,\n2]"), Value::Int4(3)];

    #[test]
    fn each_shape_without_nulls() {
        let sparse: &[&[Value<'_>]] = &[NULLS, FIRST, MIDDLE, LAST, ROW];
        for (shape, rows, expected) in [
            (Shape::Array, &[][..], "[]"),
            (
                Shape::Array,
                sparse,
                "[{},{\"a\":\"1\"},{\"b\":\"aGk=\"},{\"c\":\"1.50\"},{\"a\":\"1\",\"b\":[1,\n2],\"c\":3}]",
            ),
            (
                Shape::Lines,
                sparse,
                "{}\n{\"a\":\"1\"}\n{\"b\":\"aGk=\"}\n{\"c\":\"1.50\"}\n{\"a\":\"1\",\"b\":[1, 2],\"c\":3}\n",
            ),
            (Shape::Sequence, &[NULLS, LAST], "\u{1e}{}\n\u{1e}{\"c\":\"1.50\"}\n"),
            (Shape::Object, &[], "null"),
            (Shape::Object, &[NULLS, ROW], "{}"),
            (Shape::Object, &[MIDDLE, NULLS], r#"{"b":"aGk="}"#),
            (Shape::Scalar, &[], "null"),
            (Shape::Scalar, &[NULLS, ROW], "null"),
            (Shape::Scalar, &[FIRST, NULLS], r#""1""#),
        ] {
            assert_eq!(encode(shape, ALL, &["a", "b", "c"], rows), expected, "{shape:?} {rows:?}");
        }
        assert_eq!(encode(Shape::Array, ALL, &[], &[&[], &[]]), "[{},{}]");
    }

    #[test]
    fn nulls_stay_unless_they_are_to_be_omitted() {
        let options = ValueOptions { nulls: Nulls::Null, ..ALL };
        let lines = encode(Shape::Lines, options, &["a", "b", "c"], &[NULLS, MIDDLE]);
        assert_eq!(lines, "{\"a\":null,\"b\":null,\"c\":null}\n{\"a\":null,\"b\":\"aGk=\",\"c\":null}\n");
        assert_eq!(encode(Shape::Array, options, &[], &[&[], &[]]), "[{},{}]");
    }

    #[test]
    fn ignores_values_beyond_the_last_column() {
        assert_eq!(
            encode(Shape::Lines, ALL, &["a"], &[FIRST, LAST, ROW]),
            "{\"a\":\"1\"}\n{}\n{\"a\":\"1\"}\n"
        );
    }
}
