//! The encoder: values in, bytes out.

use rowstream_encode::{RowEncoder, Shape, Value};

use crate::Case;
use crate::data::{self, Row};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        rows("lines: events row", Shape::Lines, &data::EVENT_NAMES, data::events()),
        rows("array: authors row", Shape::Array, &data::AUTHOR_NAMES, data::authors()),
        values("int: 64 bits", |x| Value::Int(x as i64)),
        values("text: 10 clean bytes", |_| Value::Text("AUTHORISED")),
    ]
}

/// Rows of one statement. The encoder lives on from pass to pass: what it does once per statement is not counted.
fn rows(name: &'static str, shape: Shape, names: &[&str], rows: Vec<Row>) -> Case {
    let mut encoder = RowEncoder::new(shape, &data::columns(names));
    Case::new(name, rows.len(), move |out| encode(&mut encoder, &rows, out))
}

/// Rows of one value, as lines.
fn values(name: &'static str, value: impl Fn(u64) -> Value<'static>) -> Case {
    let row = |x| vec![value(x)];
    rows(name, Shape::Lines, &["value"], data::numbers().take(data::ITEMS).map(row).collect())
}

/// One copy for all cases, so that none is optimised for what it happens to encode.
#[inline(never)]
fn encode(encoder: &mut RowEncoder, rows: &[Row], out: &mut Vec<u8>) {
    for row in rows {
        encoder.begin_row(out);
        for value in row {
            encoder.value(*value, out);
        }
        encoder.end_row(out);
    }
}
