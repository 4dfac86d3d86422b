//! Array literals (`{1,NULL,"a b"}`) to JSON (`[1,null,"a b"]`), as `to_jsonb` has them.
//!
//! The grammar is that of the PostgreSQL manual, "Array Input and Output Syntax": lower bounds may stand in front
//! (`[2:3]={…}`) and are dropped, sub-arrays are braces, elements are quoted where they have to be.

use postgres_types::Type;
use rowstream_encode::{Value, write_value};

use super::text::{BadField, boolean, number};

/// How the text of an element becomes JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    Bool,
    Number,
    Text,
    Json,
    Timestamp,
    TimestampTz,
}

impl Element {
    /// The kind of an element's type.
    pub(super) fn of(oid: u32) -> Self {
        match Type::from_oid(oid) {
            Some(Type::BOOL) => Self::Bool,
            Some(Type::INT2 | Type::INT4 | Type::INT8 | Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC) => {
                Self::Number
            }
            Some(Type::JSON | Type::JSONB) => Self::Json,
            Some(Type::TIMESTAMP) => Self::Timestamp,
            Some(Type::TIMESTAMPTZ) => Self::TimestampTz,
            _ => Self::Text,
        }
    }

    fn write(self, text: &str, out: &mut Vec<u8>) -> Result<(), BadField> {
        let converted;
        let value = match self {
            Self::Bool => Value::Bool(boolean(text.as_bytes())?),
            Self::Number => number(text)?,
            Self::Json => Value::Json(text),
            Self::Text => Value::Text(text),
            Self::Timestamp | Self::TimestampTz => {
                converted = rfc3339(text);
                Value::Text(&converted)
            }
        };
        write_value(value, out);
        Ok(())
    }
}

/// A timestamp in PostgreSQL's ISO style, in UTC, as RFC 3339: `2024-01-01 00:00:00+00` becomes `2024-01-01T00:00:00Z`.
fn rfc3339(text: &str) -> String {
    let (text, era) = match text.strip_suffix(" BC") {
        Some(text) => (text, " BC"),
        None => (text, ""),
    };
    let (text, zone) = match text.strip_suffix("+00") {
        Some(text) => (text, "Z"),
        None => (text, ""),
    };
    text.replacen(' ', "T", 1) + zone + era
}

/// Appends the array literal `text` as a JSON array.
pub(super) fn write_json(
    text: &str,
    element: Element,
    delimiter: u8,
    out: &mut Vec<u8>,
) -> Result<(), BadField> {
    let start = text.find('{').ok_or(BadField::Malformed)?;
    let mut literal = Literal { text, at: start, element, delimiter, unescaped: String::new() };
    literal.array(out)?;
    if literal.at == text.len() { Ok(()) } else { Err(BadField::Malformed) }
}

/// Appends an `int2vector` or `oidvector` (`1 2 3`), which are arrays to the catalog and to `to_jsonb` but not in their text.
pub(super) fn write_vector(text: &str, element: Element, out: &mut Vec<u8>) -> Result<(), BadField> {
    out.push(b'[');
    for (index, text) in text.split_ascii_whitespace().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        element.write(text, out)?;
    }
    out.push(b']');
    Ok(())
}

/// A cursor over an array literal.
struct Literal<'a> {
    text: &'a str,
    at: usize,
    element: Element,
    delimiter: u8,
    unescaped: String,
}

impl Literal<'_> {
    fn peek(&self) -> Result<u8, BadField> {
        self.text.as_bytes().get(self.at).copied().ok_or(BadField::Malformed)
    }

    /// One array with its sub-arrays. PostgreSQL allows six dimensions; a loop over the depth needs no stack at all.
    fn array(&mut self, out: &mut Vec<u8>) -> Result<(), BadField> {
        let mut depth = 0_usize;
        // Whether an element or a sub-array has just ended: then only a delimiter or a brace may follow.
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
        self.unescaped.clear();
        let mut chars = self.text[self.at + 1..].char_indices();
        loop {
            match chars.next().ok_or(BadField::Malformed)? {
                (offset, '"') => {
                    self.at += 1 + offset + 1;
                    return self.element.write(&self.unescaped, out);
                }
                (_, '\\') => self.unescaped.push(chars.next().ok_or(BadField::Malformed)?.1),
                (_, char) => self.unescaped.push(char),
            }
        }
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
            element => self.element.write(element, out)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str, element: Element) -> Result<String, BadField> {
        let mut out = Vec::new();
        write_json(text, element, b',', &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn literals_become_json() {
        for (text, element, expected) in [
            ("{}", Element::Number, "[]"),
            ("{1,-2,NULL}", Element::Number, "[1,-2,null]"),
            ("{1.5,NaN,Infinity,1e+20}", Element::Number, r#"[1.5,"NaN","Infinity",1e+20]"#),
            ("{{1,2},{3,4}}", Element::Number, "[[1,2],[3,4]]"),
            ("[2:3]={7,8}", Element::Number, "[7,8]"),
            ("[0:0][-1:0]={{7,8}}", Element::Number, "[[7,8]]"),
            ("{t,f}", Element::Bool, "[true,false]"),
            (
                r#"{a,"b c","NULL","","x\"y\\z","{",","}"#,
                Element::Text,
                r#"["a","b c","NULL","","x\"y\\z","{",","]"#,
            ),
            (r#"{"{\"a\": 1}",NULL}"#, Element::Json, r#"[{"a": 1},null]"#),
            (
                r#"{"2024-01-01 00:00:00+00","0044-03-15 00:00:00+00 BC",infinity}"#,
                Element::TimestampTz,
                r#"["2024-01-01T00:00:00Z","0044-03-15T00:00:00Z BC","infinity"]"#,
            ),
            (r#"{"2024-01-01 00:00:00.5"}"#, Element::Timestamp, r#"["2024-01-01T00:00:00.5"]"#),
            ("{{},{}}", Element::Text, "[[],[]]"),
            ("{é,日本}", Element::Text, r#"["é","日本"]"#),
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
            assert_eq!(json(text, Element::Number), Err(BadField::Malformed), "{text}");
        }
    }
}
