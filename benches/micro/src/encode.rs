//! The encoder: values in, bytes out.

use rowstream_encode::{
    ArrowEncoder, ColumnKind, CsvDialect, CsvEncoder, Nulls, Numbers, OptionsEncoder, RowEncoder, RowWriter,
    Shape, Value, ValueOptions,
};

use crate::data::{self, ITEMS, Row};
use crate::{Case, Pass};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = rows();
    cases.extend(numbers());
    cases.extend(texts());
    cases.extend(times());
    cases.push(values("value: null", |_| Value::Null));
    cases.push(values("value: bool", |x| Value::Bool(x.is_multiple_of(2))));
    cases.push(values("value: json, 40 bytes", |_| {
        Value::Json(r#"{"a": [1, 2, 3], "b": {"c": "text here"}}"#)
    }));
    cases
        .push(values("value: uuid", |x| Value::Uuid(((u128::from(x) << 64) | u128::from(!x)).to_be_bytes())));
    cases.push(values("value: 16 bytes", |_| Value::Bytes(b"\x00\x01sixteen bytes\xff")));
    cases
}

fn rows() -> Vec<Case> {
    let lines = |names: &'static [&str], rows: fn() -> Vec<Row>| move || stream(Shape::Lines, names, rows());
    let array = |names: &'static [&str], rows: fn() -> Vec<Row>| move || stream(Shape::Array, names, rows());
    vec![
        Case::new("row: events, lines", lines(&data::EVENT_NAMES, data::events)),
        Case::new("row: events, array", array(&data::EVENT_NAMES, data::events)),
        Case::new("row: authors, lines", lines(&data::AUTHOR_NAMES, data::authors)),
        Case::new("row: authors, array", array(&data::AUTHOR_NAMES, data::authors)),
        Case::new("row: authors, object", lookups),
        Case::new("row: events, lines by options", by_options),
        Case::new("row: events, csv", || csv(&data::EVENT_NAMES, data::events())),
        Case::new("row: authors, csv", || csv(&data::AUTHOR_NAMES, data::authors())),
        Case::new("row: events, arrow", || arrow(&data::EVENT_NAMES, &data::EVENT_KINDS, data::events())),
        Case::new("row: authors, arrow", || arrow(&data::AUTHOR_NAMES, &data::AUTHOR_KINDS, data::authors())),
    ]
}

fn numbers() -> Vec<Case> {
    vec![
        values("int: below 1000", |x| Value::Int((x % 1000) as i64)),
        values("int: 64 bits", |x| Value::Int(x as i64)),
        values("float: two decimals", |x| Value::Float((x % 1_000_000) as f64 / 100.0)),
        values("float: 17 digits", |x| Value::Float(x as f64 / u64::MAX as f64)),
        values("float: exponent", |x| Value::Float(x as f64 * 1e100)),
        values("float4: two decimals", |x| Value::Float4((x % 10_000) as f32 / 100.0)),
        values("numeric: 7 digits", |_| Value::Number("12345.67")),
    ]
}

fn texts() -> Vec<Case> {
    const MOTTO: &str = "Write \"drunk\", edit sober. It's only words, and words are all I have to take your heart away. \
        A path like C:\\novels is no title, nor is what stands between one line and another one.";
    vec![
        values("text: 2 bytes", |_| Value::Text("DE")),
        values("text: 10 bytes", |_| Value::Text("AUTHORISED")),
        values("text: 40 bytes", |_| Value::Text("mei-ling.vanderberg93211@post.example.de")),
        values("text: 170 bytes, 3 escapes", |_| Value::Text(MOTTO)),
        values("text: 50 bytes, beyond ASCII", |_| {
            Value::Text("Schreib, was du weißt – alles andere ist naïveté.")
        }),
        Case::new("text: 10 KB", || {
            let text: &'static str = Box::leak("0123456789".repeat(1024).into_boxed_str());
            stream(Shape::Lines, &["value"], vec![vec![Value::Text(text)]; 64])
        }),
    ]
}

fn times() -> Vec<Case> {
    /// 2024-01-01, and the step between neighbouring rows.
    const START: i64 = 1_704_067_200_000_000;
    const STEP: i64 = 31_415_926;
    vec![
        Case::new("time: timestamptz, ordered", || {
            let row = |n| vec![Value::TimestampTz(START + STEP * n)];
            stream(Shape::Lines, &["value"], (0..ITEMS as i64).map(row).collect())
        }),
        values("time: timestamptz, any order", |x| Value::TimestampTz((x >> 13) as i64)),
        values("time: timestamp, whole seconds", |x| Value::Timestamp((x >> 33) as i64 * 1_000_000)),
        values("time: date", |x| Value::Date((x % 30_000) as i32)),
        values("time: time", |x| Value::Time((x % 86_400_000_000) as i64)),
    ]
}

/// Rows with one value, as lines.
fn values(name: &'static str, value: impl Fn(u64) -> Value<'static> + 'static) -> Case {
    Case::new(name, move || {
        let rows = data::numbers().take(ITEMS).map(|x| vec![value(x)]);
        stream(Shape::Lines, &["value"], rows.collect())
    })
}

/// Rows of one statement. All passes share the encoder, so its work per statement isn't counted.
fn stream(shape: Shape, names: &[&str], rows: Vec<Row>) -> Pass {
    let mut encoder = RowEncoder::new(shape, &data::columns(names));
    Pass::new(rows.len(), move |out| encode(&mut encoder, &rows, out))
}

/// Events with numbers as strings, and without NULLs.
fn by_options() -> Pass {
    let options = ValueOptions { numbers: Numbers::String, nulls: Nulls::Omit, ..ValueOptions::DEFAULT };
    let mut encoder = OptionsEncoder::new(Shape::Lines, options, &data::columns(&data::EVENT_NAMES));
    let rows = data::events();
    Pass::new(rows.len(), move |out| encode(&mut encoder, &rows, out))
}

fn csv(names: &[&str], rows: Vec<Row>) -> Pass {
    let mut encoder = CsvEncoder::new(CsvDialect::default(), &data::columns(names));
    Pass::new(rows.len(), move |out| encode(&mut encoder, &rows, out))
}

/// Counts the record batches that become full. The remaining rows wait for the next pass.
fn arrow(names: &[&str], kinds: &[ColumnKind], rows: Vec<Row>) -> Pass {
    let mut columns = data::columns(names);
    columns.iter_mut().zip(kinds).for_each(|(column, kind)| column.kind = *kind);
    let mut encoder = ArrowEncoder::new(&columns);
    Pass::new(rows.len(), move |out| encode(&mut encoder, &rows, out))
}

/// One row per statement, including the work per statement.
fn lookups() -> Pass {
    let (columns, rows) = (data::columns(&data::AUTHOR_NAMES), data::authors());
    Pass::new(rows.len(), move |out| {
        for row in rows.chunks(1) {
            let mut encoder = RowEncoder::new(Shape::Object, &columns);
            encoder.start(out);
            encode(&mut encoder, row, out);
            encoder.finish(out);
        }
    })
}

/// One copy for all cases of an encoder, so that the compiler can't specialise it for a case's
/// data.
#[inline(never)]
fn encode(encoder: &mut impl RowWriter, rows: &[Row], out: &mut Vec<u8>) {
    for row in rows {
        encoder.begin_row(out);
        for value in row {
            encoder.value(*value, out);
        }
        encoder.end_row(out);
    }
}
