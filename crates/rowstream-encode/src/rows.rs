//! The rows of one statement as part of a body.
//!
//! Nothing here can fail: a source that can't read a value reports that before it lends the value.
//! The caller checks the number of rows that a statement may return, with the help of
//! [`RowEncoder::rows`].

mod by_options;

use std::sync::Arc;

use crate::append::{Prefix, Slot};
use crate::datetime::LastHour;
use crate::{Column, Value, ValueOptions, escape, json};

pub use by_options::OptionsEncoder;

/// Receives the values of rows: `(begin_row value* end_row)*`, one `value` for each column in
/// order. Each call may have another buffer. Values beyond the last column aren't written.
pub trait RowWriter {
    /// Begins a row.
    fn begin_row(&mut self, out: &mut Vec<u8>);

    /// Writes the next value of the row.
    fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>);

    /// Ends the row.
    fn end_row(&mut self, out: &mut Vec<u8>);

    /// The options for JSON that a source writes itself, for example an array's.
    #[inline]
    fn options(&self) -> ValueOptions {
        ValueOptions::DEFAULT
    }
}

/// The place of one statement's rows in a JSON body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A JSON array of objects, `[]` without rows.
    Array,
    /// One JSON object, `null` without a row.
    Object,
    /// The first column of one row, `null` without a row.
    Scalar,
    /// NDJSON: one object per line.
    Lines,
    /// A JSON text sequence (RFC 7464): a record separator before each object, a line feed after
    /// it.
    Sequence,
    /// Server-sent events: each object is the data of one, followed by an empty line.
    Event,
    /// The objects of a nested list, or of one that contains nested lists. They stay open, without
    /// separators. A [`ListEncoder`](crate::ListEncoder) writes the bytes around them.
    Part,
    /// The same within a line, without raw line breaks.
    LinePart,
}

/// The first byte of a text in a sequence. It can't occur in JSON.
pub(crate) const RECORD_SEPARATOR: u8 = 0x1e;

/// Writes the rows of one statement as JSON.
///
/// The calls are `start`, those of [`RowWriter`], `finish`. If the shape is for a single row, rows
/// after the first aren't written.
#[derive(Debug)]
pub struct RowEncoder {
    shape: Shape,
    rows: u64,
    /// The text before each value; empty before a scalar.
    keys: Arc<[Prefix]>,
    /// The column of the next value.
    column: usize,
    last_hour: LastHour,
}

/// The text before each value of a row: `{"a":`, `,"b":`, … `before` returns the brace or comma for
/// a column's number.
fn keys(columns: &[Column], before: impl Fn(usize) -> &'static [u8]) -> Arc<[Prefix]> {
    let mut text = Vec::new();
    let key = |(index, column): (usize, &Column)| {
        text.clear();
        text.extend_from_slice(before(index));
        escape::write_string(&column.name, &mut text);
        text.push(b':');
        Prefix::new(&text)
    };
    columns.iter().enumerate().map(key).collect()
}

/// The bytes that open a row.
fn opening(shape: Shape) -> &'static [u8] {
    match shape {
        Shape::Sequence => &[RECORD_SEPARATOR, b'{'],
        Shape::Event => b"data: {",
        Shape::Array | Shape::Object | Shape::Scalar | Shape::Lines | Shape::Part | Shape::LinePart => b"{",
    }
}

impl RowEncoder {
    /// An encoder for rows of `columns`. The keys are escaped here, once.
    pub fn new(shape: Shape, columns: &[Column]) -> Self {
        let keys = match shape {
            Shape::Scalar => columns.iter().take(1).map(|_| Prefix::new(b"")).collect(),
            _ => keys(columns, |index| if index == 0 { opening(shape) } else { b"," }),
        };
        Self { shape, rows: 0, keys, column: 0, last_hour: LastHour::default() }
    }

    /// An encoder for more rows of the same columns, which shares the escaped keys.
    pub fn again(&self) -> Self {
        let keys = Arc::clone(&self.keys);
        Self { shape: self.shape, rows: 0, keys, column: 0, last_hour: LastHour::default() }
    }

    /// Rows begun so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The shape of its output.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Writes the bytes before the first row.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        if self.shape == Shape::Array {
            out.push(b'[');
        }
    }

    /// Writes the next value into its slot.
    #[inline(always)]
    fn write(&mut self, value: Value<'_>, slot: Slot<'_>) {
        match value {
            Value::Json(text) if matches!(self.shape, Shape::Lines | Shape::LinePart | Shape::Event) => {
                json::write_json_in_line(text, slot.release());
            }
            value => json::write_next_value(value, &mut self.last_hour, slot),
        }
    }

    /// Writes a row without members, except its end.
    #[cold]
    fn write_empty_row(&self, out: &mut Vec<u8>) {
        match self.shape {
            Shape::Array | Shape::Lines | Shape::Sequence | Shape::Event | Shape::Part | Shape::LinePart => {
                out.extend_from_slice(opening(self.shape));
            }
            Shape::Object if self.rows == 1 => out.push(b'{'),
            Shape::Scalar if self.rows == 1 => out.extend_from_slice(b"null"),
            Shape::Object | Shape::Scalar => {}
        }
    }

    /// Writes the bytes after the last row.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        match self.shape {
            Shape::Array => out.push(b']'),
            Shape::Object | Shape::Scalar if self.rows == 0 => out.extend_from_slice(b"null"),
            _ => {}
        }
    }
}

impl RowWriter for RowEncoder {
    #[inline]
    fn begin_row(&mut self, out: &mut Vec<u8>) {
        self.rows += 1;
        self.column = 0;
        if self.rows > 1 {
            match self.shape {
                Shape::Array => out.push(b','),
                Shape::Object | Shape::Scalar => self.column = self.keys.len(),
                Shape::Lines | Shape::Sequence | Shape::Event | Shape::Part | Shape::LinePart => {}
            }
        }
    }

    // As a separate function it would save and restore six registers for each value.
    #[inline(always)]
    fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        let Some(key) = self.keys.get(self.column) else { return };
        self.column += 1;
        let slot = key.append(out);
        self.write(value, slot);
    }

    #[inline]
    fn end_row(&mut self, out: &mut Vec<u8>) {
        if self.column == 0 {
            self.write_empty_row(out);
        }
        match self.shape {
            Shape::Lines | Shape::Sequence => out.extend_from_slice(b"}\n"),
            Shape::Event => out.extend_from_slice(b"}\n\n"),
            Shape::Array => out.push(b'}'),
            Shape::Object if self.rows == 1 => out.push(b'}'),
            Shape::Object | Shape::Scalar | Shape::Part | Shape::LinePart => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ColumnKind;

    fn encode(shape: Shape, names: &[&str], rows: &[&[Value<'_>]]) -> String {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            type_name: String::new(),
            kind: ColumnKind::Text,
        };
        let columns: Vec<_> = names.iter().map(column).collect();
        let mut encoder = RowEncoder::new(shape, &columns);
        let mut out = Vec::new();
        encoder.start(&mut out);
        for row in rows {
            encoder.begin_row(&mut out);
            for value in *row {
                encoder.value(*value, &mut out);
            }
            encoder.end_row(&mut out);
        }
        encoder.finish(&mut out);
        assert_eq!(encoder.rows(), rows.len() as u64);
        String::from_utf8(out).unwrap()
    }

    const ROW: &[Value<'_>] = &[Value::Int(1), Value::Text("x")];
    const NULLS: &[Value<'_>] = &[Value::Null, Value::Null];

    #[test]
    fn writes_each_shape() {
        let (array, object, scalar, lines) = (Shape::Array, Shape::Object, Shape::Scalar, Shape::Lines);
        let sequence = Shape::Sequence;
        for (shape, rows, expected) in [
            (array, &[][..], "[]"),
            (array, &[ROW], r#"[{"a":1,"b":"x"}]"#),
            (array, &[ROW, NULLS], r#"[{"a":1,"b":"x"},{"a":null,"b":null}]"#),
            (object, &[], "null"),
            (object, &[ROW], r#"{"a":1,"b":"x"}"#),
            (object, &[ROW, NULLS], r#"{"a":1,"b":"x"}"#),
            (scalar, &[], "null"),
            (scalar, &[ROW], "1"),
            (scalar, &[NULLS], "null"),
            (scalar, &[ROW, NULLS], "1"),
            (lines, &[], ""),
            (lines, &[ROW, NULLS], "{\"a\":1,\"b\":\"x\"}\n{\"a\":null,\"b\":null}\n"),
            (sequence, &[], ""),
            (sequence, &[ROW, NULLS], "\u{1e}{\"a\":1,\"b\":\"x\"}\n\u{1e}{\"a\":null,\"b\":null}\n"),
            (Shape::Event, &[], ""),
            (Shape::Event, &[ROW, NULLS], "data: {\"a\":1,\"b\":\"x\"}\n\ndata: {\"a\":null,\"b\":null}\n\n"),
            (Shape::Part, &[], ""),
            (Shape::Part, &[ROW, NULLS], r#"{"a":1,"b":"x"{"a":null,"b":null"#),
            (Shape::LinePart, &[ROW], r#"{"a":1,"b":"x""#),
        ] {
            assert_eq!(encode(shape, &["a", "b"], rows), expected, "{shape:?} {rows:?}");
        }
    }

    #[test]
    fn a_row_of_no_columns_is_an_empty_object() {
        for (shape, expected) in [
            (Shape::Array, "[{},{}]"),
            (Shape::Object, "{}"),
            (Shape::Scalar, "null"),
            (Shape::Lines, "{}\n{}\n"),
            (Shape::Sequence, "\u{1e}{}\n\u{1e}{}\n"),
            (Shape::Event, "data: {}\n\ndata: {}\n\n"),
        ] {
            let rows: &[&[Value<'_>]] =
                if matches!(shape, Shape::Object | Shape::Scalar) { &[&[]] } else { &[&[], &[]] };
            assert_eq!(encode(shape, &[], rows), expected, "{shape:?}");
        }
    }

    #[test]
    fn an_encoder_for_other_rows_begins_anew() {
        let column = Column { name: "a\"".to_owned(), type_name: String::new(), kind: ColumnKind::Text };
        let mut first = RowEncoder::new(Shape::Object, &[column]);
        for rows in 0..3 {
            let mut encoder = first.again();
            let mut out = Vec::new();
            encoder.begin_row(&mut out);
            encoder.value(Value::Int(rows), &mut out);
            encoder.end_row(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!(r#"{{"a\"":{rows}}}"#));
            first = encoder;
        }
    }

    #[test]
    fn escapes_keys() {
        assert_eq!(encode(Shape::Array, &["a\"\n", ""], &[ROW]), r#"[{"a\"\n":1,"":"x"}]"#);
    }

    #[test]
    fn ignores_values_beyond_the_last_column() {
        assert_eq!(encode(Shape::Lines, &["a"], &[ROW]), "{\"a\":1}\n");
    }

    #[test]
    fn a_line_has_no_raw_line_break() {
        let row = &[Value::Json("[1,\r\n2]"), Value::Text("\n")];
        assert_eq!(encode(Shape::Lines, &["a", "b\n"], &[row]), "{\"a\":[1,  2],\"b\\n\":\"\\n\"}\n");
        assert_eq!(encode(Shape::LinePart, &["a"], &[row]), "{\"a\":[1,  2]");
        assert_eq!(encode(Shape::Event, &["a"], &[row]), "data: {\"a\":[1,  2]}\n\n");
        assert_eq!(encode(Shape::Array, &["a"], &[row]), "[{\"a\":[1,\r\n2]}]");
        assert_eq!(encode(Shape::Part, &["a"], &[row]), "{\"a\":[1,\r\n2]");
    }
}
