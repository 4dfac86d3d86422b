//! The text of an `hstore` (`"a"=>"1", "b"=>NULL`) to JSON (`{"a": "1", "b": null}`).
//!
//! If a type has a cast to `json`, `to_jsonb` uses it. This is hstore's cast, including the blanks.

use rowstream_encode::{Value, write_value};

use super::text::{BadField, unquote};

/// Appends the hstore `text` as a JSON object of strings. NULLs stay in it, because its keys are
/// data.
pub(super) fn write_json(text: &str, out: &mut Vec<u8>) -> Result<(), BadField> {
    let mut rest = text;
    let mut unescaped = String::new();
    out.push(b'{');
    while !rest.is_empty() {
        if rest.len() < text.len() {
            rest = rest.strip_prefix(", ").ok_or(BadField::Malformed)?;
            out.extend_from_slice(b", ");
        }
        rest = unquote(rest, &mut unescaped)?;
        write_value(Value::Text(&unescaped), out);
        rest = rest.strip_prefix("=>").ok_or(BadField::Malformed)?;
        out.extend_from_slice(b": ");
        rest = match rest.strip_prefix("NULL") {
            Some(rest) => {
                write_value(Value::Null, out);
                rest
            }
            None => {
                let rest = unquote(rest, &mut unescaped)?;
                write_value(Value::Text(&unescaped), out);
                rest
            }
        };
    }
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<String, BadField> {
        let mut out = Vec::new();
        write_json(text, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn pairs_become_members() {
        for (text, expected) in [
            ("", "{}"),
            (r#""a"=>"1""#, r#"{"a": "1"}"#),
            (r#""a"=>NULL, ""=>"NULL""#, r#"{"a": null, "": "NULL"}"#),
            (r#""=>, "=>"\"\\ é""#, r#"{"=>, ": "\"\\ é"}"#),
        ] {
            assert_eq!(json(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_pair_is_malformed() {
        for text in [
            "a",
            "\"a\"",
            "\"a\"=>",
            "\"a\"=>1",
            "\"a\"=>\"1",
            "\"a\"=>\"1\",",
            "\"a\"=>NULL, ",
            "\"a\"=>NULLx",
        ] {
            assert_eq!(json(text), Err(BadField::Malformed), "{text}");
        }
    }
}
