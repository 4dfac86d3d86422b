//! Values in PostgreSQL's text form, as columns and the elements of arrays have them.

use rowstream_encode::{Value, is_json_number};

/// A field that is not what its type says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadField {
    /// Its length, or its text, cannot be of that type.
    Malformed,
    /// Text that is not UTF-8.
    NotUtf8,
}

pub(super) fn boolean(field: &[u8]) -> Result<bool, BadField> {
    match field {
        b"t" => Ok(true),
        b"f" => Ok(false),
        _ => Err(BadField::Malformed),
    }
}

/// A numeric or float in text form. NaN and the infinities have no JSON number and become text, as in `to_jsonb`.
pub(super) fn number(text: &str) -> Result<Value<'_>, BadField> {
    match text {
        "NaN" | "Infinity" | "-Infinity" => Ok(Value::Text(text)),
        _ if is_json_number(text.as_bytes()) => Ok(Value::Number(text)),
        _ => Err(BadField::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
