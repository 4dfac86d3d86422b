//! Reads the elements of a list from their JSON.

use super::array::{KEPT, shrink};
use super::times;
use crate::{ScalarKind, Value};

/// Elements that aren't in the JSON in their final form.
#[derive(Default)]
pub(super) struct Scratch {
    text: String,
    bytes: Vec<u8>,
}

impl Scratch {
    /// Forgets long elements.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(KEPT);
        shrink([&mut self.bytes]);
    }
}

/// Reads the JSON of a value of this kind. A value of another form doesn't fit the kind, so that the
/// column refuses it, and so do bytes that aren't hex. `None` if it isn't JSON.
#[inline]
pub(super) fn value<'a>(kind: ScalarKind, token: &'a str, scratch: &'a mut Scratch) -> Option<Value<'a>> {
    Some(match (kind, token.as_bytes()) {
        (_, b"null") => Value::Null,
        (ScalarKind::Json, _) => Value::Json(token),
        (_, b"true") => Value::Bool(true),
        (_, b"false") => Value::Bool(false),
        (ScalarKind::Bytes, [b'"', ..]) => bytes(token, &mut scratch.bytes).unwrap_or(Value::Text(token)),
        (_, [b'"', ..]) => of_text(kind, text(token, &mut scratch.text)?),
        (_, [b'0'..=b'9' | b'-', ..]) => number(kind, token),
        _ => return None,
    })
}

fn number(kind: ScalarKind, token: &str) -> Value<'_> {
    let exact = Value::Number(token);
    match kind {
        ScalarKind::Int16 | ScalarKind::Int32 | ScalarKind::Int64 => token.parse().map_or(exact, Value::Int),
        ScalarKind::Float32 => {
            token.parse().ok().filter(|it: &f32| it.is_finite()).map_or(exact, Value::Float4)
        }
        ScalarKind::Float64 => {
            token.parse().ok().filter(|it: &f64| it.is_finite()).map_or(exact, Value::Float)
        }
        _ => exact,
    }
}

fn of_text(kind: ScalarKind, text: &str) -> Value<'_> {
    let other = Value::Text(text);
    match kind {
        ScalarKind::Float32 => not_finite(text).map_or(other, |float| Value::Float4(float as f32)),
        ScalarKind::Float64 => not_finite(text).map_or(other, Value::Float),
        ScalarKind::Date => times::date(text).map_or(other, Value::Date),
        ScalarKind::Time => times::time(text).map_or(other, Value::Time),
        ScalarKind::Timestamp => times::timestamp(text, "").map_or(other, Value::Timestamp),
        ScalarKind::TimestampTz => times::timestamp(text, "Z").map_or(other, Value::TimestampTz),
        ScalarKind::Uuid => uuid(text).map_or(other, Value::Uuid),
        _ => other,
    }
}

/// JSON has no numbers for these floats.
fn not_finite(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// The text of a JSON string.
fn text<'a>(token: &'a str, scratch: &'a mut String) -> Option<&'a str> {
    let inside = token.strip_prefix('"')?.strip_suffix('"')?;
    if !inside.contains('\\') {
        return Some(inside);
    }
    *scratch = serde_json::from_str(token).ok()?;
    Some(scratch)
}

/// The bytes of the JSON string `"\\x00ff"`.
fn bytes<'a>(token: &'a str, scratch: &'a mut Vec<u8>) -> Option<Value<'a>> {
    let digits = token.strip_prefix(r#""\\x"#)?.strip_suffix('"')?;
    scratch.clear();
    push_hex(digits, scratch).then_some(Value::Bytes(scratch))
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut bytes = Vec::with_capacity(16);
    let lengths = [8, 4, 4, 4, 12];
    let parts = text.split('-').zip(lengths).filter(|(part, length)| part.len() == *length);
    let is_whole = parts.filter(|(part, _)| push_hex(part, &mut bytes)).count() == lengths.len();
    bytes.try_into().ok().filter(|_| is_whole && text.len() == 36)
}

/// Appends the bytes of these digits. Returns false if they aren't pairs of digits.
fn push_hex(digits: &str, out: &mut Vec<u8>) -> bool {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    let before = out.len();
    out.extend(pairs.iter().map_while(byte));
    rest.is_empty() && out.len() - before == pairs.len()
}
