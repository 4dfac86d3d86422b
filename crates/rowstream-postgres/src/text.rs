//! Values in PostgreSQL's text form, as in columns, array elements and attributes of composites.

use rowstream_encode::{Value, is_json_number};

/// A field that doesn't fit its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadField {
    /// Its length or its text is impossible for the type.
    Malformed,
    /// Text that isn't UTF-8.
    NotUtf8,
}

pub(super) fn boolean(field: &[u8]) -> Result<bool, BadField> {
    match field {
        b"t" => Ok(true),
        b"f" => Ok(false),
        _ => Err(BadField::Malformed),
    }
}

/// A numeric or float in text form. JSON has no numbers for NaN and the infinities, so they become
/// text, as in `to_jsonb`.
pub(super) fn number(text: &str) -> Result<Value<'_>, BadField> {
    match text {
        "NaN" | "Infinity" | "-Infinity" => Ok(Value::Text(text)),
        _ if is_json_number(text.as_bytes()) => Ok(Value::Number(text)),
        _ => Err(BadField::Malformed),
    }
}

/// The bytes of PostgreSQL's hex form.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, BadField> {
    let digits = text.strip_prefix("\\x").ok_or(BadField::Malformed)?;
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return Err(BadField::Malformed) };
    let byte = |&[high, low]: &[u8; 2]| Some((hex_digit(high)? << 4) | hex_digit(low)?);
    pairs.iter().map(byte).collect::<Option<_>>().ok_or(BadField::Malformed)
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

/// Takes a quoted text off the front of `text` and writes it to `unescaped`. A backslash precedes
/// each quote and each backslash in it. Returns the rest after it.
pub(super) fn unquote<'a>(text: &'a str, unescaped: &mut String) -> Result<&'a str, BadField> {
    let mut rest = text.strip_prefix('"').ok_or(BadField::Malformed)?;
    unescaped.clear();
    loop {
        let end = memchr::memchr2(b'"', b'\\', rest.as_bytes()).ok_or(BadField::Malformed)?;
        unescaped.push_str(&rest[..end]);
        let special = &rest[end..];
        if let Some(behind) = special.strip_prefix('"') {
            return Ok(behind);
        }
        let mut chars = special[1..].chars();
        unescaped.push(chars.next().ok_or(BadField::Malformed)?);
        rest = chars.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_pairs_of_digits() {
        assert_eq!(bytes("\\x"), Ok(vec![]));
        assert_eq!(bytes("\\x00fF"), Ok(vec![0, 255]));
        for bad in ["", "00", "\\x0", "\\x0g", "\\xé", "x00"] {
            assert_eq!(bytes(bad), Err(BadField::Malformed), "{bad}");
        }
    }

    #[test]
    fn quotes_end_where_no_backslash_is() {
        let mut unescaped = String::new();
        assert_eq!(unquote(r#""a\\"b"#, &mut unescaped), Ok("b"));
        assert_eq!(unescaped, r"a\");
        assert_eq!(unquote(r#""\"é","x""#, &mut unescaped), Ok(r#","x""#));
        assert_eq!(unescaped, "\"é");
        for bad in ["", "a", "\"", "\"a", "\"a\\", "\"a\\\""] {
            assert_eq!(unquote(bad, &mut unescaped), Err(BadField::Malformed), "{bad}");
        }
    }

    #[test]
    fn only_json_numbers_pass_as_numbers() {
        for good in ["0", "-0", "12.50", "1e+20", "1E-5", "123456789012345678901234567890.5", "0.0"] {
            assert_eq!(number(good), Ok(Value::Number(good)), "{good}");
        }
        for bad in ["", "-", "01", "1.", ".5", "1e", "+1", "1,2", "0x10", "1 ", "nan"] {
            assert_eq!(number(bad), Err(BadField::Malformed), "{bad}");
        }
        assert_eq!(number("NaN"), Ok(Value::Text("NaN")));
    }
}
