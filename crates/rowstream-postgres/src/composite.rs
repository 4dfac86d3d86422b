//! Composite literals (`(1,"a ""b""",)`) to JSON objects, as `to_jsonb` writes them.
//!
//! The grammar is that of the PostgreSQL manual, "Composite Type Input and Output Syntax", as far
//! as the server writes it. A field is quoted if it's empty or contains quotes, backslashes,
//! parentheses, commas or blanks. Quotes and backslashes in it are doubled. A field with no
//! characters is NULL.
//!
//! The value itself bounds the recursion: a composite within another, even in an array, is quoted,
//! and quotes double at each level. So a row of 16 MiB is at most some 24 levels deep, even if the
//! catalog describes its types wrongly.

use rowstream_encode::{Nulls, Value, write_value};

use super::nested::{Attribute, Writer};
use super::text::BadField;

/// Appends the composite literal `text` as a JSON object.
pub(super) fn write_json(
    writer: Writer<'_>,
    attributes: &[Attribute],
    text: &str,
    out: &mut Vec<u8>,
) -> Result<(), BadField> {
    let mut rest = text.strip_prefix('(').ok_or(BadField::Malformed)?;
    let mut unescaped = String::new();
    out.push(b'{');
    let start = out.len();
    for (index, attribute) in attributes.iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(',').ok_or(BadField::Malformed)?;
        }
        let field;
        (field, rest) = split_field(rest, &mut unescaped)?;
        if field.is_none() && writer.options.nulls == Nulls::Omit {
            continue;
        }
        if out.len() > start {
            out.push(b',');
        }
        out.extend_from_slice(&attribute.key);
        match field {
            Some(field) => writer.write(attribute.form, field, out)?,
            None => write_value(Value::Null, out),
        }
    }
    out.push(b'}');
    if rest == ")" { Ok(()) } else { Err(BadField::Malformed) }
}

/// The first field (`None` for NULL), which may be in `unescaped`, and the text after it.
fn split_field<'a: 'b, 'b>(
    text: &'a str,
    unescaped: &'b mut String,
) -> Result<(Option<&'b str>, &'a str), BadField> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.bytes().position(|byte| matches!(byte, b',' | b')')).ok_or(BadField::Malformed)?;
        let (field, rest) = text.split_at(end);
        return match field {
            "" => Ok((None, rest)),
            _ if field.contains(['"', '\\', '(']) => Err(BadField::Malformed),
            _ => Ok((Some(field), rest)),
        };
    };
    unescaped.clear();
    loop {
        let end = memchr::memchr2(b'"', b'\\', rest.as_bytes()).ok_or(BadField::Malformed)?;
        unescaped.push_str(&rest[..end]);
        let special = &rest[end..];
        rest = match special.as_bytes() {
            [b'"', b'"', ..] | [b'\\', b'\\', ..] => {
                unescaped.push_str(&special[..1]);
                &special[2..]
            }
            [b'"', ..] => return Ok((Some(unescaped.as_str()), &special[1..])),
            _ => return Err(BadField::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use rowstream_encode::ValueOptions;

    use super::super::nested::{Form, NestedForms};
    use super::*;

    /// A composite of a number, a text, an array of itself, and a boolean.
    fn json(text: &str, nulls: Nulls) -> Result<String, BadField> {
        let attributes = [("n", 1), ("t \"", 2), ("a", 3), ("b", 4)];
        let attributes = attributes.map(|(name, form)| Attribute::new(name, form));
        let forms = vec![
            Form::Composite(Box::new(attributes)),
            Form::Exact,
            Form::Text,
            Form::Array { element: 0, delimiter: b',' },
            Form::Bool,
        ];
        let mut out = Vec::new();
        let options = ValueOptions { nulls, ..ValueOptions::DEFAULT };
        NestedForms::of(forms).write(text, options, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn literals_become_json() {
        for (text, expected) in [
            ("(,,,)", r#"{"n":null,"t \"":null,"a":null,"b":null}"#),
            ("(-1.50,abc,{},t)", r#"{"n":-1.50,"t \"":"abc","a":[],"b":true}"#),
            (r#"(NaN,"",,f)"#, r#"{"n":"NaN","t \"":"","a":null,"b":false}"#),
            (r#"(,"x,y ""q"" \\ () é",,)"#, r#"{"n":null,"t \"":"x,y \"q\" \\ () é","a":null,"b":null}"#),
            ("(,NULL,,)", r#"{"n":null,"t \"":"NULL","a":null,"b":null}"#),
            (
                r#"(1,,"{""(2,\\""\\"",,t)"",NULL}",f)"#,
                r#"{"n":1,"t \"":null,"a":[{"n":2,"t \"":"","a":null,"b":true},null],"b":false}"#,
            ),
        ] {
            assert_eq!(json(text, Nulls::Null).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn nulls_can_be_omitted_at_any_depth() {
        for (text, expected) in [
            ("(,,,)", "{}"),
            ("(,,,t)", r#"{"b":true}"#),
            (r#"(1,,"{""(,,,t)"",NULL,""(,,,)""}",)"#, r#"{"n":1,"a":[{"b":true},null,{}]}"#),
        ] {
            assert_eq!(json(text, Nulls::Omit).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_literal_is_malformed() {
        for text in [
            "",
            "(",
            "()",
            "(1,a,{},t",
            "(1,a,{},t)x",
            "(1,a,{},t,)",
            "(1,a,{})",
            "1,a,{},t)",
            "(1,a\"b,{},t)",
            "(1,a\\b,{},t)",
            "(1,(b,{},t)",
            "(1,\"a,{},t)",
            "(1,\"a\\\"\",{},t)",
            "(1,\"a\"b,{},t)",
            "(x,a,{},t)",
            "(1,a,{(1)},t)",
        ] {
            assert_eq!(json(text, Nulls::Null), Err(BadField::Malformed), "{text}");
        }
    }

    #[test]
    fn no_altered_literal_is_read_beyond_its_end() {
        let text = r#"(1,"é ""q""","{""(2,\\""\\"",,t)"",NULL}",f)"#;
        for at in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
            let _ = json(&text[..at], Nulls::Null);
            let _ = json(&text[at..], Nulls::Null);
            for other in ["", "\"", "\\", "(", ")", ",", "{", "}", "é"] {
                let rest = text[at..].chars().next().map_or(0, char::len_utf8);
                let _ = json(&format!("{}{other}{}", &text[..at], &text[at + rest..]), Nulls::Null);
            }
        }
    }
}
