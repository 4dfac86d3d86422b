//! The grammar of JSON numbers, for sources with decimals as text.

/// Returns true if `text` is a JSON number (RFC 8259, section 6), as
/// [`Value::Number`](crate::Value::Number) requires: no leading zeros, and a digit on both sides of
/// the point.
pub fn is_json_number(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let Some(rest) = skip_integer(text) else { return false };
    let rest = match rest.strip_prefix(b".") {
        Some(fraction) => skip_digits(fraction),
        None => Some(rest),
    };
    let rest = match rest {
        Some([b'e' | b'E', b'+' | b'-', exponent @ ..] | [b'e' | b'E', exponent @ ..]) => {
            skip_digits(exponent)
        }
        rest => rest,
    };
    rest.is_some_and(<[u8]>::is_empty)
}

fn skip_integer(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'0', rest @ ..] => Some(rest),
        _ => skip_digits(text),
    }
}

/// The text after the leading digits. `None` if it begins with another character.
fn skip_digits(text: &[u8]) -> Option<&[u8]> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| &text[digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_numbers() {
        for number in ["0", "-0", "12", "12.50", "-0.5", "1e3", "1E+20", "12.5e-7", "123456789012345678901.1"]
        {
            assert!(is_json_number(number.as_bytes()), "{number}");
        }
        for other in ["", "-", "+1", "01", ".5", "5.", "1e", "1e+", "0x10", "1 ", "NaN", "1,5", "--1", "1.e3"]
        {
            assert!(!is_json_number(other.as_bytes()), "{other}");
        }
    }
}
