//! The values of `postgres/values.tsv`, each with the JSON that PostgreSQL itself made of it.
//!
//! `postgres/values.sql` says how the file is made again.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use rowstream_encode::{Value, write_value};

fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().as_chunks::<2>().0;
    pairs.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The JSON of a value that is given by its kind and its text.
fn json(kind: &str, input: &str) -> String {
    let int = || input.parse::<i64>().unwrap();
    let bytes = unhex(if matches!(kind, "text" | "bytea" | "uuid") { input } else { "" });
    let value = match kind {
        "float8" => Value::Float(f64::from_bits(int() as u64)),
        "float4" => Value::Float4(f32::from_bits(int() as u32)),
        "date" => Value::Date(int().try_into().unwrap()),
        "time" => Value::Time(int()),
        "timestamp" => Value::Timestamp(int()),
        "timestamptz" => Value::TimestampTz(int()),
        "text" => Value::Text(str::from_utf8(&bytes).unwrap()),
        "bytea" => Value::Bytes(&bytes),
        "uuid" => Value::Uuid(bytes.as_slice().try_into().unwrap()),
        _ => panic!("unknown kind {kind}"),
    };
    let mut out = Vec::new();
    write_value(value, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn values_are_written_as_postgres_writes_them() {
    let lines = include_str!("postgres/values.tsv").split_terminator('\n');
    let mut checked = 0;
    for line in lines {
        let mut fields = line.splitn(3, '\t');
        let mut field = || fields.next().unwrap();
        let (kind, input, expected) = (field(), field(), field());
        assert_eq!(json(kind, input), expected, "{kind} {input}");
        checked += 1;
    }
    assert!(checked > 500, "only {checked} values");
}
