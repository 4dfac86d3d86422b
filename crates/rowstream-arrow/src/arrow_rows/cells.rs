//! The values of a row as bytes. One thread packs them, and the session reads them in place.
//!
//! ```text
//! value   = tag (u8), payload
//! payload = nothing (NULL) | u8 (Bool) | i32 (Date) | f32 | i64 | f64 | 16 bytes (Uuid)
//!         | length (u32), bytes (texts and bytes)
//! ```
//!
//! Numbers are little-endian. Both ends are in this file, so the reader trusts the bytes and panics
//! on broken ones.

use rowstream_encode::Value;

const NULL: u8 = 0;
const BOOL: u8 = 1;
const INT: u8 = 2;
const INT4: u8 = 3;
const FLOAT: u8 = 4;
const FLOAT4: u8 = 5;
const REAL: u8 = 6;
const NUMBER: u8 = 7;
const TEXT: u8 = 8;
const JSON: u8 = 9;
const BYTES: u8 = 10;
const DATE: u8 = 11;
const TIME: u8 = 12;
const TIMESTAMP: u8 = 13;
const TIMESTAMP_TZ: u8 = 14;
const UUID: u8 = 15;

/// Appends a packed value to `out`.
///
/// # Panics
/// A text has 4 GiB or more; no frame is so long.
#[inline]
pub(super) fn push(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(value) => fixed(BOOL, [u8::from(value)], out),
        Value::Int(value) => fixed(INT, value.to_le_bytes(), out),
        Value::Int4(value) => fixed(INT4, value.to_le_bytes(), out),
        Value::Float(value) => fixed(FLOAT, value.to_le_bytes(), out),
        Value::Float4(value) => fixed(FLOAT4, value.to_le_bytes(), out),
        Value::Real(value) => fixed(REAL, value.to_le_bytes(), out),
        Value::Number(text) => bytes(NUMBER, text.as_bytes(), out),
        Value::Text(text) => bytes(TEXT, text.as_bytes(), out),
        Value::Json(text) => bytes(JSON, text.as_bytes(), out),
        Value::Bytes(value) => bytes(BYTES, value, out),
        Value::Date(days) => fixed(DATE, days.to_le_bytes(), out),
        Value::Time(micros) => fixed(TIME, micros.to_le_bytes(), out),
        Value::Timestamp(micros) => fixed(TIMESTAMP, micros.to_le_bytes(), out),
        Value::TimestampTz(micros) => fixed(TIMESTAMP_TZ, micros.to_le_bytes(), out),
        Value::Uuid(value) => fixed(UUID, value, out),
    }
}

#[inline]
fn fixed<const N: usize>(tag: u8, payload: [u8; N], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&payload);
}

#[inline]
fn bytes(tag: u8, payload: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).expect("no frame holds 4 GiB");
    fixed(tag, length.to_le_bytes(), out);
    out.extend_from_slice(payload);
}

/// Takes the first of a row's remaining values.
#[inline]
pub(super) fn next<'a>(values: &mut &'a [u8]) -> Value<'a> {
    match take::<1>(values)[0] {
        NULL => Value::Null,
        BOOL => Value::Bool(take(values) != [0]),
        INT => Value::Int(i64::from_le_bytes(take(values))),
        INT4 => Value::Int4(i64::from_le_bytes(take(values))),
        FLOAT => Value::Float(f64::from_le_bytes(take(values))),
        FLOAT4 => Value::Float4(f32::from_le_bytes(take(values))),
        REAL => Value::Real(f64::from_le_bytes(take(values))),
        NUMBER => Value::Number(text(values)),
        TEXT => Value::Text(text(values)),
        JSON => Value::Json(text(values)),
        BYTES => Value::Bytes(slice(values)),
        DATE => Value::Date(i32::from_le_bytes(take(values))),
        TIME => Value::Time(i64::from_le_bytes(take(values))),
        TIMESTAMP => Value::Timestamp(i64::from_le_bytes(take(values))),
        TIMESTAMP_TZ => Value::TimestampTz(i64::from_le_bytes(take(values))),
        UUID => Value::Uuid(take(values)),
        tag => unreachable!("no value has the tag {tag}"),
    }
}

#[inline]
fn take<const N: usize>(values: &mut &[u8]) -> [u8; N] {
    let (payload, rest) = values.split_first_chunk().expect("a row has a value for each column");
    *values = rest;
    *payload
}

#[inline]
fn slice<'a>(values: &mut &'a [u8]) -> &'a [u8] {
    let length = u32::from_le_bytes(take(values)) as usize;
    let (payload, rest) = values.split_at(length);
    *values = rest;
    payload
}

#[inline]
fn text<'a>(values: &mut &'a [u8]) -> &'a str {
    std::str::from_utf8(slice(values)).expect("the packed value was a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_as_they_went_in() {
        let all = [
            Value::Null,
            Value::Bool(true),
            Value::Bool(false),
            Value::Int(i64::MIN),
            Value::Int4(-1),
            Value::Float(-0.5),
            Value::Float4(1.5),
            Value::Real(2.5),
            Value::Number("-12.50"),
            Value::Text("é"),
            Value::Text(""),
            Value::Json("{\"a\":1}"),
            Value::Bytes(&[0, 255]),
            Value::Date(i32::MIN),
            Value::Time(86_400_000_000),
            Value::Timestamp(i64::MAX),
            Value::TimestampTz(-1),
            Value::Uuid([7; 16]),
        ];
        let mut packed = Vec::new();
        all.iter().for_each(|value| push(*value, &mut packed));
        let mut rest = &*packed;
        for value in all {
            assert_eq!(next(&mut rest), value);
        }
        assert!(rest.is_empty());
    }
}
