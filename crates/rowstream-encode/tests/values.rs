//! The corpus of values, for sources whose lent value is known: each value is built from its Arrow
//! form.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

#[path = "../../../tests/support/corpus.rs"]
mod corpus;

use corpus::{Arrow, Line, Written};
use rowstream_encode::{
    Column, ColumnKind, CsvDialect, CsvEncoder, Format, OptionsEncoder, RowWriter, Shape, Value,
    ValueOptions, write_value,
};

fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().as_chunks::<2>().0;
    pairs.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The value of a line. `bytes` holds its bytes, if any. `None` if Arrow doesn't determine it.
fn value<'a>(line: &'a Line, bytes: &'a mut Vec<u8>) -> Option<Value<'a>> {
    let json = line.written.json.as_deref().unwrap();
    let (kind, text) = match &line.arrow {
        Arrow::Value(_, None) => return Some(Value::Null),
        Arrow::Value(kind, Some(text)) => (kind.as_str(), text.as_str()),
        Arrow::Error(_) => return beyond_arrow(&line.type_name, json),
    };
    let int = || text.parse::<i64>().unwrap();
    if matches!(kind, "binary" | "extension<arrow.uuid>") {
        *bytes = unhex(text);
    }
    Some(match kind {
        "bool" => Value::Bool(text == "true"),
        "int16" | "int32" => Value::Int4(int()),
        "int64" => Value::Int(int()),
        "float" => Value::Float4(text.parse().unwrap()),
        "double" => Value::Float(text.parse().unwrap()),
        "date32[day]" => Value::Date(int().try_into().unwrap()),
        "time64[us]" => Value::Time(int()),
        "timestamp[us]" => Value::Timestamp(int()),
        "timestamp[us, tz=UTC]" => Value::TimestampTz(int()),
        "extension<arrow.uuid>" => Value::Uuid(bytes.as_slice().try_into().unwrap()),
        // Invalid JSON in a SQLite column of JSON.
        "extension<arrow.json>" if line.source == "sqlite" && json.starts_with('"') => return None,
        "extension<arrow.json>" => Value::Json(text),
        // Sources lend arrays as JSON.
        kind if kind.starts_with("list<") => Value::Json(json),
        "binary" => Value::Bytes(bytes),
        "string" if json.starts_with('"') => Value::Text(text),
        // SQLite has no decimals. Its decimal and untyped columns contain integers and floats.
        _ if line.source == "sqlite" => {
            let is_decimal = ["DECIMAL", "NUMERIC"].iter().any(|name| line.type_name.starts_with(name));
            let float = if is_decimal { Value::Real } else { Value::Float };
            json.parse().map_or_else(|_| float(json.parse().unwrap()), Value::Int)
        }
        _ => Value::Number(json),
    })
}

fn beyond_arrow(type_name: &str, json: &str) -> Option<Value<'static>> {
    Some(match (type_name, json) {
        ("date", "\"infinity\"") => Value::Date(i32::MAX),
        ("date", "\"-infinity\"") => Value::Date(i32::MIN),
        ("timestamp", "\"infinity\"") => Value::Timestamp(i64::MAX),
        ("timestamp", "\"-infinity\"") => Value::Timestamp(i64::MIN),
        ("timestamptz", "\"infinity\"") => Value::TimestampTz(i64::MAX),
        ("timestamptz", "\"-infinity\"") => Value::TimestampTz(i64::MIN),
        ("time", "\"24:00:00\"") => Value::Time(86_400_000_000),
        _ => return None,
    })
}

/// A row of the value and another one.
fn write(value: Value<'_>, encoder: &mut impl RowWriter, out: &mut Vec<u8>) {
    encoder.begin_row(out);
    encoder.value(value, out);
    encoder.value(Value::Text("x"), out);
    encoder.end_row(out);
}

fn written(value: Value<'_>, options: ValueOptions) -> Written {
    let column =
        |name: &str| Column { name: name.to_owned(), type_name: String::new(), kind: ColumnKind::Text };
    let columns = ["v", "e"].map(column);
    let mut lines = OptionsEncoder::new(Shape::Lines, options, &columns);
    let csv = options.in_format(Format::Csv);
    let mut records = CsvEncoder::new(CsvDialect::default(), &columns).with_options(csv);
    let (mut ndjson, mut csv) = (Vec::new(), Vec::new());
    lines.start(&mut ndjson);
    write(value, &mut lines, &mut ndjson);
    lines.finish(&mut ndjson);
    records.start(&mut csv);
    write(value, &mut records, &mut csv);
    Written::in_bodies(str::from_utf8(&ndjson).unwrap(), str::from_utf8(&csv).unwrap())
}

#[test]
fn the_corpus_is_what_we_write() {
    let mut checked = 0;
    for line in corpus::lines() {
        let mut bytes = Vec::new();
        let Some(value) = value(line, &mut bytes) else { continue };
        // A line break would end the row only in NDJSON.
        let mut plain = Vec::new();
        write_value(value, &mut plain);
        let plain = String::from_utf8(plain).unwrap().replace(['\n', '\r'], " ");
        assert_eq!(Some(plain), line.written.json, "{}", line.name());
        // A source applies the options to its own JSON and texts, such as intervals.
        let of_the_source = matches!(value, Value::Json(_) | Value::Text(_));
        let expected = line.expected();
        let expected = if of_the_source { &expected[..1] } else { &expected[..] };
        for (options, expected) in expected {
            let by = options.changes().collect::<Vec<_>>();
            assert_eq!(written(value, *options), **expected, "{} {by:?}", line.name());
            checked += 1;
        }
    }
    assert!(checked > 1000, "{checked}");
}
