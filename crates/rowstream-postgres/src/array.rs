//! Array literals (`{1,NULL,"a b"}`) to JSON (`[1,null,"a b"]`), as `to_jsonb` writes them.
//!
//! The grammar is that of the PostgreSQL manual, "Array Input and Output Syntax". Lower bounds may
//! precede an array (`[2:3]={…}`); we drop them. Sub-arrays are in braces, and elements are quoted
//! if necessary.

use rowstream_encode::{Value, write_value};

use super::nested::Writer;
use super::text::{BadField, unquote};

/// Appends the array literal `text` as a JSON array. Its elements have the form `element`.
pub(super) fn write_json(
    writer: Writer<'_>,
    element: usize,
    delimiter: u8,
    text: &str,
    out: &mut Vec<u8>,
) -> Result<(), BadField> {
    let start = text.find('{').ok_or(BadField::Malformed)?;
    let mut literal = Literal { writer, text, at: start, element, delimiter, unescaped: String::new() };
    literal.array(out)?;
    if literal.at == text.len() { Ok(()) } else { Err(BadField::Malformed) }
}

/// Appends an `int2vector` or `oidvector` (`1 2 3`). The catalog and `to_jsonb` treat them as
/// arrays, but their text has another form.
pub(super) fn write_vector(
    writer: Writer<'_>,
    element: usize,
    text: &str,
    out: &mut Vec<u8>,
) -> Result<(), BadField> {
    out.push(b'[');
    for (index, text) in text.split_ascii_whitespace().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        writer.write(element, text, out)?;
    }
    out.push(b']');
    Ok(())
}

/// A cursor over an array literal.
struct Literal<'a> {
    writer: Writer<'a>,
    text: &'a str,
    at: usize,
    element: usize,
    delimiter: u8,
    unescaped: String,
}

impl Literal<'_> {
    fn peek(&self) -> Result<u8, BadField> {
        self.text.as_bytes().get(self.at).copied().ok_or(BadField::Malformed)
    }

    /// One array with its sub-arrays. PostgreSQL allows six dimensions, but a loop over the depth
    /// needs no stack at all.
    fn array(&mut self, out: &mut Vec<u8>) -> Result<(), BadField> {
        let mut depth = 0_usize;
        // True if an element or a sub-array has just ended. Then only a delimiter or a brace may
        // follow.
        let mut ended = false;
        loop {
            match self.peek()? {
                b'}' => {
                    out.push(b']');
                    self.at += 1;
                    depth = depth.checked_sub(1).ok_or(BadField::Malformed)?;
                    ended = true;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                byte if byte == self.delimiter && ended => {
                    out.push(b',');
                    self.at += 1;
                    ended = false;
                }
                _ if ended => return Err(BadField::Malformed),
                b'{' => {
                    depth += 1;
                    out.push(b'[');
                    self.at += 1;
                }
                quote_or_text => {
                    if quote_or_text == b'"' { self.quoted(out) } else { self.bare(out) }?;
                    ended = true;
                }
            }
        }
    }

    fn quoted(&mut self, out: &mut Vec<u8>) -> Result<(), BadField> {
        let rest = unquote(&self.text[self.at..], &mut self.unescaped)?;
        self.at = self.text.len() - rest.len();
        self.writer.write(self.element, &self.unescaped, out)
    }

    fn bare(&mut self, out: &mut Vec<u8>) -> Result<(), BadField> {
        let rest = &self.text[self.at..];
        let end = rest
            .bytes()
            .position(|byte| byte == self.delimiter || byte == b'}')
            .ok_or(BadField::Malformed)?;
        self.at += end;
        match &rest[..end] {
            "NULL" => write_value(Value::Null, out),
            element => self.writer.write(self.element, element, out)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::nested::{Form, NestedForms};
    use super::*;

    fn json(text: &str, element: Form) -> Result<String, BadField> {
        let mut out = Vec::new();
        let array = Form::Array { element: 1, delimiter: b',' };
        NestedForms::of(vec![array, element]).write(text, Default::default(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn literals_become_json() {
        for (text, element, expected) in [
            ("{}", Form::Number, "[]"),
            ("{1,-2,NULL}", Form::Number, "[1,-2,null]"),
            ("{1.5,NaN,Infinity,1e+20}", Form::Exact, r#"[1.5,"NaN","Infinity",1e+20]"#),
            ("{{1,2},{3,4}}", Form::Number, "[[1,2],[3,4]]"),
            ("[2:3]={7,8}", Form::Number, "[7,8]"),
            ("[0:0][-1:0]={{7,8}}", Form::Number, "[[7,8]]"),
            ("{t,f}", Form::Bool, "[true,false]"),
            (
                r#"{a,"b c","NULL","","x\"y\\z","{",","}"#,
                Form::Text,
                r#"["a","b c","NULL","","x\"y\\z","{",","]"#,
            ),
            (r#"{"{\"a\": 1}",NULL}"#, Form::Json, r#"[{"a": 1},null]"#),
            (
                r#"{"2024-01-01 00:00:00+00","0044-03-15 00:00:00+00 BC",infinity}"#,
                Form::TimestampTz,
                r#"["2024-01-01T00:00:00Z","0044-03-15T00:00:00Z BC","infinity"]"#,
            ),
            (r#"{"2024-01-01 00:00:00.5"}"#, Form::Timestamp, r#"["2024-01-01T00:00:00.5"]"#),
            ("{{},{}}", Form::Text, "[[],[]]"),
            ("{é,日本}", Form::Text, r#"["é","日本"]"#),
        ] {
            assert_eq!(json(text, element).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_literal_is_malformed() {
        for text in [
            "",
            "1,2",
            "{",
            "{1",
            "{1}}",
            "{\"a",
            "{\"a\\",
            "{1}x",
            "}",
            "{abc}",
            "{1,,2}",
            "{\"1\"\"2\"}",
            "{{1}2}",
        ] {
            assert_eq!(json(text, Form::Number), Err(BadField::Malformed), "{text}");
        }
    }
}
