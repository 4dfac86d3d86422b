//! One value as JSON, in the form of PostgreSQL's `row_to_json`.
//!
//! Two differences are documented: instants are in UTC, marked with `Z`, and the zone precedes `
//! BC`.

use crate::append::{Slot, put};
use crate::datetime::{self, LastHour, Zone};
use crate::{Value, escape, float, hex, integer};

/// Appends `value` as one JSON value.
pub fn write_value(value: Value<'_>, out: &mut Vec<u8>) {
    write_next_value(value, &mut LastHour::default(), Slot::new(out));
}

/// Writes `value` as one JSON value into its slot. `last` is the hour of the previous timestamp.
#[inline(always)]
pub(crate) fn write_next_value(value: Value<'_>, last: &mut LastHour, mut slot: Slot<'_>) {
    let room = slot.room();
    let length = match value {
        Value::Null => put(b"null", 0, room),
        Value::Bool(true) => put(b"true", 0, room),
        Value::Bool(false) => put(b"false", 0, room),
        Value::Int(int) | Value::Int4(int) => integer::put_int(int, room),
        Value::Uuid(uuid) => hex::put_uuid(uuid, room),
        Value::Text(text) => match escape::put_string(text, b'\\', room) {
            Some(length) => length,
            None => return escape::write_string(text, slot.release()),
        },
        Value::Date(days) => match datetime::put_date(days, room) {
            Some(length) => length,
            None => return quoted(slot.release(), |out| datetime::write_date(days, out)),
        },
        Value::Timestamp(micros) | Value::TimestampTz(micros) => {
            let zone = if matches!(value, Value::Timestamp(_)) { Zone::None } else { Zone::Utc };
            match last.put_timestamp(micros, zone, room) {
                Some(length) => length,
                None => return write_far_timestamp(micros, zone, slot.release()),
            }
        }
        Value::Float(float) | Value::Real(float) => return write_float(float, slot.release()),
        Value::Float4(float) => return write_float4(float, slot.release()),
        Value::Number(text) | Value::Json(text) => return slot.release().extend_from_slice(text.as_bytes()),
        Value::Bytes(bytes) => return write_bytes(bytes, slot.release()),
        Value::Time(micros) => return quoted(slot.release(), |out| datetime::write_time(micros, out)),
    };
    slot.keep(length);
}

/// Appends a JSON document without line breaks.
///
/// PostgreSQL's `json` keeps its original whitespace. A raw line break in valid JSON is always
/// whitespace (RFC 8259, section 7: a string must escape it), so we can replace it by a space.
pub(crate) fn write_json_in_line(json: &str, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(json.as_bytes());
    replace_line_breaks(&mut out[start..]);
}

fn replace_line_breaks(json: &mut [u8]) {
    for byte in json {
        // Every byte is written, because otherwise the compiler can't vectorise the loop.
        *byte = if matches!(*byte, b'\n' | b'\r') { b' ' } else { *byte };
    }
}

fn write_float(float: f64, out: &mut Vec<u8>) {
    if float.is_finite() {
        float::write_f64(float, out);
    } else {
        quoted(out, |out| float::write_f64(float, out));
    }
}

fn write_float4(float: f32, out: &mut Vec<u8>) {
    if float.is_finite() {
        float::write_f32(float, out);
    } else {
        quoted(out, |out| float::write_f32(float, out));
    }
}

#[cold]
fn write_far_timestamp(micros: i64, zone: Zone, out: &mut Vec<u8>) {
    quoted(out, |out| datetime::write_timestamp(micros, zone, out));
}

/// Appends the output of `write` as a JSON string. It mustn't need an escape.
#[inline]
fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

/// Appends PostgreSQL's hex form of bytes as a JSON string. The backslash of its `\x` is escaped.
fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(br#""\\x"#);
    hex::write_hex(bytes, out);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_each_value() {
        for (value, expected) in [
            (Value::Null, "null"),
            (Value::Bool(true), "true"),
            (Value::Bool(false), "false"),
            (Value::Int(0), "0"),
            (Value::Int(i64::MIN), "-9223372036854775808"),
            (Value::Int(i64::MAX), "9223372036854775807"),
            (Value::Int4(-2_147_483_648), "-2147483648"),
            (Value::Float(1e20), "1e+20"),
            (Value::Real(12.5), "12.5"),
            (Value::Real(f64::INFINITY), r#""Infinity""#),
            (Value::Float(f64::NAN), r#""NaN""#),
            (Value::Float(f64::INFINITY), r#""Infinity""#),
            (Value::Float(f64::NEG_INFINITY), r#""-Infinity""#),
            (Value::Float4(0.1), "0.1"),
            (Value::Float4(f32::NAN), r#""NaN""#),
            (Value::Float4(f32::NEG_INFINITY), r#""-Infinity""#),
            (Value::Number("-12.50"), "-12.50"),
            (Value::Number("123456789012345678901234567890.10"), "123456789012345678901234567890.10"),
            (Value::Text("a \"b\""), r#""a \"b\"""#),
            (Value::Json("{\n  \"a\": 1}"), "{\n  \"a\": 1}"),
            (Value::Bytes(b""), r#""\\x""#),
            (Value::Bytes(b"hi\x00\xff"), r#""\\x686900ff""#),
            (Value::Date(19_782), r#""2024-02-29""#),
            (Value::Date(i32::MAX), r#""infinity""#),
            (Value::Time(86_400_000_000), r#""24:00:00""#),
            (Value::Timestamp(1_709_208_000_250_000), r#""2024-02-29T12:00:00.25""#),
            (Value::TimestampTz(1_709_208_000_250_000), r#""2024-02-29T12:00:00.25Z""#),
            (Value::TimestampTz(i64::MIN), r#""-infinity""#),
            (Value::Uuid([0xab; 16]), r#""abababab-abab-abab-abab-abababababab""#),
        ] {
            assert_eq!(json(|out| write_value(value, out)), expected, "{value:?}");
        }
    }

    #[test]
    fn a_line_has_no_line_break() {
        let line = json(|out| write_json_in_line("{\r\n\t\"a\\n\": 1\n}", out));
        assert_eq!(line, "{  \t\"a\\n\": 1 }");
    }
}
