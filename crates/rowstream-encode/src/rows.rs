//! The rows of one statement as they stand in a body.
//!
//! Nothing here can fail: a source that cannot read a value says so before it lends it. Whether a statement
//! may have one row or many is the caller's to check; [`RowEncoder::rows`] counts them for it.

use crate::append::append_front;
use crate::datetime::LastDay;
use crate::{Column, Value, escape, json};

/// How the rows of one statement stand in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A JSON array of objects, `[]` when there are none.
    Array,
    /// One JSON object, `null` when there is no row.
    Object,
    /// The first column of one row, `null` when there is no row.
    Scalar,
    /// NDJSON: one object a line.
    Lines,
}

/// Writes the rows of one statement.
///
/// The calls are `start (begin_row value* end_row)* finish`, one `value` for each column in order. The buffer
/// may be another one at each call. A value beyond the last column is not written, nor is a row beyond the
/// first where the shape has room for one only.
#[derive(Debug)]
pub struct RowEncoder {
    shape: Shape,
    rows: u64,
    keys: Vec<Key>,
    /// The column that the next value belongs to.
    column: usize,
    last_day: LastDay,
}

/// What stands before a value of a row: `{"a":`, `,"b":`, …; nothing before a scalar.
#[derive(Debug)]
struct Key {
    /// The whole key where it is short, as most are.
    block: [u8; Self::SHORT],
    text: Box<[u8]>,
}

impl Key {
    const SHORT: usize = 32;

    fn new(text: Vec<u8>) -> Self {
        let mut block = [0; Self::SHORT];
        block.iter_mut().zip(&text).for_each(|(to, from)| *to = *from);
        Self { block, text: text.into() }
    }

    fn of_each(columns: &[Column]) -> Vec<Self> {
        let text = |(index, column): (usize, &Column)| {
            let mut text = vec![if index == 0 { b'{' } else { b',' }];
            escape::write_string(&column.name, &mut text);
            text.push(b':');
            Self::new(text)
        };
        columns.iter().enumerate().map(text).collect()
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        if self.text.len() <= Self::SHORT {
            append_front(&self.block, self.text.len(), out);
        } else {
            out.extend_from_slice(&self.text);
        }
    }
}

impl RowEncoder {
    /// An encoder for rows of `columns`; the keys are escaped here, once.
    pub fn new(shape: Shape, columns: &[Column]) -> Self {
        let keys = match shape {
            Shape::Array | Shape::Object | Shape::Lines => Key::of_each(columns),
            Shape::Scalar => columns.iter().take(1).map(|_| Key::new(Vec::new())).collect(),
        };
        Self { shape, rows: 0, keys, column: 0, last_day: LastDay::default() }
    }

    /// Rows begun so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The shape that this encoder writes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Writes what stands before the first row.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        if self.shape == Shape::Array {
            out.push(b'[');
        }
    }

    /// Begins a row.
    #[inline]
    pub fn begin_row(&mut self, out: &mut Vec<u8>) {
        if self.shape == Shape::Array && self.rows > 0 {
            out.push(b',');
        }
        self.rows += 1;
        self.column = if self.is_surplus() { self.keys.len() } else { 0 };
    }

    /// Writes the next value of the row.
    #[inline]
    pub fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        let Some(key) = self.keys.get(self.column) else { return };
        key.write(out);
        self.column += 1;
        match (self.shape, value) {
            (Shape::Lines, Value::Json(text)) => json::write_json_in_line(text, out),
            (_, value) => json::write_next_value(value, &mut self.last_day, out),
        }
    }

    /// Ends the row.
    #[inline]
    pub fn end_row(&mut self, out: &mut Vec<u8>) {
        if self.is_surplus() {
            return;
        }
        let empty = self.column == 0;
        match self.shape {
            Shape::Scalar if empty => out.extend_from_slice(b"null"),
            Shape::Scalar => {}
            Shape::Array | Shape::Object => out.extend_from_slice(if empty { b"{}" } else { b"}" }),
            Shape::Lines => out.extend_from_slice(if empty { b"{}\n" } else { b"}\n" }),
        }
    }

    /// Writes what stands after the last row.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        match self.shape {
            Shape::Array => out.push(b']'),
            Shape::Object | Shape::Scalar if self.rows == 0 => out.extend_from_slice(b"null"),
            Shape::Object | Shape::Scalar | Shape::Lines => {}
        }
    }

    /// Whether the current row has no place in the shape.
    #[inline]
    fn is_surplus(&self) -> bool {
        matches!(self.shape, Shape::Object | Shape::Scalar) && self.rows > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(shape: Shape, names: &[&str], rows: &[&[Value<'_>]]) -> String {
        let column = |name: &&str| Column { name: (*name).to_owned(), type_name: String::new() };
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
        ] {
            let rows: &[&[Value<'_>]] =
                if matches!(shape, Shape::Array | Shape::Lines) { &[&[], &[]] } else { &[&[]] };
            assert_eq!(encode(shape, &[], rows), expected, "{shape:?}");
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
        assert_eq!(encode(Shape::Array, &["a"], &[row]), "[{\"a\":[1,\r\n2]}]");
    }
}
