//! Body templates: the JSON around streamed placeholders.
//!
//! A template is cut once, when the configuration is read. A response sends the literals, and
//! replaces each placeholder by its statement's rows. This module doesn't check that the statements
//! exist.

use crate::escape;
use serde_json::Value as Json;
use std::fmt;

/// A piece of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// JSON text that is sent unchanged.
    Literal(Vec<u8>),
    /// The rows of the statement with this name.
    Placeholder(String),
    /// The number of rows of the statement with this name, or of the only list.
    Count(Option<String>),
    /// The cursor of the last row, for the only list with cursors.
    Next,
    /// The digest of all bytes before it.
    Digest,
}

/// A body template, cut at its placeholders.
///
/// A string `$name` is a placeholder. `$count` and `$count(name)` are a number of rows, `$next` is
/// a cursor, and `$digest` is a digest of the bytes before it. A string that begins with `$$` loses
/// its first `$`. All other strings and all keys are sent unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The pieces in order. Two literals are never neighbours.
    pub segments: Vec<Segment>,
}

/// The reason why a template was refused: a string begins with `$`, but is neither a placeholder
/// nor escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    string: String,
}

impl Template {
    /// Cuts `body` at its placeholders.
    ///
    /// # Errors
    /// A string begins with `$`, but is neither a placeholder nor escaped.
    pub fn new(body: &Json) -> Result<Self, TemplateError> {
        let mut template = Self { segments: Vec::new() };
        template.push(body)?;
        Ok(template)
    }

    /// The names of the placeholders, in output order.
    pub fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Placeholder(name) => Some(name.as_str()),
            Segment::Literal(_) | Segment::Count(_) | Segment::Next | Segment::Digest => None,
        })
    }

    fn push(&mut self, json: &Json) -> Result<(), TemplateError> {
        match json {
            Json::Null | Json::Bool(_) | Json::Number(_) => {
                self.literal().extend_from_slice(json.to_string().as_bytes());
            }
            Json::String(string) => self.push_string(string)?,
            Json::Array(elements) => self.push_array(elements)?,
            Json::Object(members) => self.push_object(members)?,
        }
        Ok(())
    }

    fn push_string(&mut self, string: &str) -> Result<(), TemplateError> {
        match string.strip_prefix('$') {
            None => escape::write_string(string, self.literal()),
            Some(escaped) if escaped.starts_with('$') => escape::write_string(escaped, self.literal()),
            Some(name) => match placeholder(name) {
                Some(segment) => self.segments.push(segment),
                None => return Err(TemplateError { string: string.to_owned() }),
            },
        }
        Ok(())
    }

    fn push_array(&mut self, elements: &[Json]) -> Result<(), TemplateError> {
        self.literal().push(b'[');
        for (index, element) in elements.iter().enumerate() {
            if index > 0 {
                self.literal().push(b',');
            }
            self.push(element)?;
        }
        self.literal().push(b']');
        Ok(())
    }

    fn push_object(&mut self, members: &serde_json::Map<String, Json>) -> Result<(), TemplateError> {
        self.literal().push(b'{');
        for (index, (key, member)) in members.iter().enumerate() {
            let literal = self.literal();
            if index > 0 {
                literal.push(b',');
            }
            escape::write_string(key, literal);
            literal.push(b':');
            self.push(member)?;
        }
        self.literal().push(b'}');
        Ok(())
    }

    /// The literal at the end. Adds one after a placeholder.
    fn literal(&mut self) -> &mut Vec<u8> {
        if !matches!(self.segments.last(), Some(Segment::Literal(_))) {
            self.segments.push(Segment::Literal(Vec::new()));
        }
        match self.segments.last_mut() {
            Some(Segment::Literal(bytes)) => bytes,
            _ => unreachable!("a literal was pushed above"),
        }
    }
}

/// Parses the text after the `$` of a placeholder: `name`, `count`, `count(name)`, `next` or
/// `digest`.
fn placeholder(text: &str) -> Option<Segment> {
    match text {
        "count" => return Some(Segment::Count(None)),
        "next" => return Some(Segment::Next),
        "digest" => return Some(Segment::Digest),
        _ => {}
    }
    let counted = text.strip_prefix("count(").and_then(|rest| rest.strip_suffix(')'));
    let name = counted.unwrap_or(text);
    is_name(name).then(|| match counted {
        Some(name) => Segment::Count(Some(name.to_owned())),
        None => Segment::Placeholder(name.to_owned()),
    })
}

/// Returns true if `name` can name a statement: an ASCII letter or underscore, then letters, digits
/// and underscores.
fn is_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_word) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

impl TemplateError {
    /// The refused string.
    pub fn string(&self) -> &str {
        &self.string
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let string = &self.string;
        write!(
            f,
            "{string:?} is not a placeholder: `$` is followed by a letter or underscore, then letters, digits and \
             underscores; for this text itself, write \"$\" twice: {:?}",
            format_args!("${string}").to_string()
        )
    }
}

impl std::error::Error for TemplateError {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The body with `<name>` in place of rows.
    fn cut(body: &Json) -> String {
        let template = Template::new(body).unwrap();
        let segment = |segment: &Segment| match segment {
            Segment::Literal(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            Segment::Placeholder(name) => format!("<{name}>"),
            Segment::Count(name) => format!("<#{}>", name.as_deref().unwrap_or_default()),
            Segment::Next => "<next>".to_owned(),
            Segment::Digest => "<digest>".to_owned(),
        };
        template.segments.iter().map(segment).collect()
    }

    #[test]
    fn cuts_at_placeholders() {
        for (body, expected) in [
            (json!("$rows"), "<rows>"),
            (json!({"events": "$rows"}), r#"{"events":<rows>}"#),
            (
                json!({"_embedded": {"articles": "$articles"}, "total": "$total"}),
                r#"{"_embedded":{"articles":<articles>},"total":<total>}"#,
            ),
            (json!(["$a", "$b", "$_c9"]), "[<a>,<b>,<_c9>]"),
            (json!({"$key": "$a"}), r#"{"$key":<a>}"#),
            (
                json!({"z": 1, "a": [null, true, -2.5, 12345678901u64]}),
                r#"{"z":1,"a":[null,true,-2.5,12345678901]}"#,
            ),
            (json!([]), "[]"),
            (json!({}), "{}"),
            (json!(["$$", "$$rows", "$$$x", "a$b", ""]), r#"["$","$rows","$$x","a$b",""]"#),
            (json!(["$a", "$count", "$count(a)", "$counts", "$next"]), "[<a>,<#>,<#a>,<counts>,<next>]"),
            (json!({"a": "$a", "digest": "$digest"}), r#"{"a":<a>,"digest":<digest>}"#),
            (json!({"a\"\n": "\u{1}é"}), r#"{"a\"\n":"\u0001é"}"#),
        ] {
            assert_eq!(cut(&body), expected);
        }
    }

    #[test]
    fn merges_literals() {
        let template = Template::new(&json!({"a": [1, {"b": "$$"}], "rows": "$rows", "c": [2]})).unwrap();
        assert_eq!(template.segments.len(), 3);
        assert_eq!(template.placeholders().collect::<Vec<_>>(), ["rows"]);
    }

    #[test]
    fn refuses_what_is_neither_placeholder_nor_escaped() {
        for string in [
            "$",
            "$5",
            "$a b",
            "$a-b",
            "$é",
            "$aé",
            "$a$",
            "$a\n",
            "$count()",
            "$count(1)",
            "$count(a",
            "$next(a)",
        ] {
            let error = Template::new(&json!([{"x": string}])).unwrap_err();
            assert_eq!(error.string(), string);
            let message = error.to_string();
            assert!(message.starts_with(&format!("{string:?} ")), "{message}");
            assert!(message.ends_with(&format!("{:?}", format!("${string}"))), "{message}");
        }
    }
}
