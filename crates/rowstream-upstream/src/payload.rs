//! Bodies of requests: JSON with placeholders for values, or a fixed text.
//!
//! | position | a value | NULL | a list |
//! |---|---|---|---|
//! | in a string: `"a-{name}"` | its text, escaped | 400 | joined by commas |
//! | as a value: `{"id": {name}}` | JSON of its type | `null` | an array |
//!
//! A body that isn't JSON can't have placeholders, because we don't know how to escape values in
//! it.

use http::HeaderValue;
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use serde::de::IgnoredAny;

use super::template::{Name, Values};

/// The body of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// JSON.
    Json(Vec<PayloadPart>),
    /// Any other text.
    Text(String),
}

/// A piece of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayloadPart {
    /// Unchanged text.
    Literal(String),
    /// A value within a string.
    InString(Name),
    /// A value.
    Value(Name),
}

/// The message and the hint for an error in a body.
type PayloadError = (String, String);

impl Payload {
    /// Reads a body; `find` resolves a name. A text that begins like an object or an array is JSON.
    ///
    /// # Errors
    /// The message and the hint.
    pub fn parse(text: &str, find: &mut dyn FnMut(&str) -> Option<Name>) -> Result<Self, PayloadError> {
        if !text.trim_start().starts_with(['{', '[']) {
            return match placeholders(text).next() {
                Some((_, name, _)) if find(name).is_some() => Err((
                    format!("`{{{name}}}` is in a body that isn't JSON, so its value can't be escaped"),
                    "write the body as JSON, or without values".to_owned(),
                )),
                _ => Ok(Self::Text(text.to_owned())),
            };
        }
        let (mut parts, mut sample, mut done) = (Vec::new(), String::new(), 0);
        for (at, name, in_string) in placeholders(text) {
            let found = find(name).ok_or_else(|| {
                let hint = format!("declare it below `[params]`: `{name} = \"integer\"`, or another type");
                (format!("the parameter `{{{name}}}` is not declared"), hint)
            })?;
            parts.push(PayloadPart::Literal(text[done..at].to_owned()));
            sample.push_str(&text[done..at]);
            parts.push(if in_string { PayloadPart::InString(found) } else { PayloadPart::Value(found) });
            sample.push_str(if in_string { "" } else { "null" });
            done = at + name.len() + 2;
        }
        parts.push(PayloadPart::Literal(text[done..].to_owned()));
        sample.push_str(&text[done..]);
        match serde_json::from_str::<IgnoredAny>(&sample) {
            Ok(_) => Ok(Self::Json(parts)),
            Err(error) => Err((
                format!("this body begins like JSON, but isn't valid JSON: {error}"),
                "write `{name}` for a value, inside a string or as the whole value".to_owned(),
            )),
        }
    }

    /// The body's content type.
    pub fn content_type(&self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json(_) => "application/json",
            Self::Text(_) => "text/plain; charset=utf-8",
        })
    }

    /// The body with `values` instead of the placeholders.
    ///
    /// # Errors
    /// 400 with the name of a parameter whose value can't be used at its position.
    pub fn fill(&self, values: &Values<'_>) -> Result<String, Error> {
        let parts = match self {
            Self::Json(parts) => parts,
            Self::Text(text) => return Ok(text.clone()),
        };
        let mut out = String::new();
        for part in parts {
            match part {
                PayloadPart::Literal(text) => out.push_str(text),
                PayloadPart::Value(Name::Number) => out.push_str(&values.number.to_string()),
                PayloadPart::Value(Name::Param(index)) => out.push_str(&to_json(&values.values[*index])?),
                PayloadPart::InString(name) => {
                    let text = quoted(&values.needed(*name)?)?;
                    out.push_str(&text[1..text.len() - 1]);
                }
            }
        }
        Ok(out)
    }
}

impl Values<'_> {
    /// The text of a value that must not be NULL.
    fn needed(&self, name: Name) -> Result<String, Error> {
        let missing = || {
            let index = if let Name::Param(index) = name { Some(index) } else { None };
            self.wrong(index, "it is missing, but a string needs it")
        };
        self.text(name).ok_or_else(missing)
    }
}

/// Each `{name}` of a text: its offset, its name, and true if it's in a JSON string.
fn placeholders(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let (mut in_string, mut is_escaped) = (false, false);
    text.char_indices().filter_map(move |(at, c)| {
        match c {
            _ if std::mem::take(&mut is_escaped) => {}
            '\\' if in_string => is_escaped = true,
            '"' => in_string = !in_string,
            '{' => {
                let (name, _) = text[at + 1..].split_once('}')?;
                let is_name = |c: char| c.is_alphanumeric() || c == '_';
                let begins = |c: char| c.is_alphabetic() || c == '_';
                let is_well = name.starts_with(begins) && name.chars().all(is_name);
                return is_well.then_some((at, name, in_string));
            }
            _ => {}
        }
        None
    })
}

fn quoted(text: &str) -> Result<String, Error> {
    serde_json::to_string(text)
        .map_err(|cause| Error::endpoint("a value can't be written as a JSON string").cause(cause))
}

/// A value as JSON of its type.
fn to_json(value: &ParamValue) -> Result<String, Error> {
    Ok(match value {
        ParamValue::Null => "null".to_owned(),
        ParamValue::Integer(integer) => integer.to_string(),
        ParamValue::Boolean(boolean) => boolean.to_string(),
        ParamValue::Number(text) => text.clone(),
        ParamValue::Float(float) => format!("{float:e}"),
        ParamValue::Json(text) => text.clone(),
        ParamValue::List(items) => {
            let items = items.iter().map(to_json).collect::<Result<Vec<_>, _>>()?;
            format!("[{}]", items.join(","))
        }
        ParamValue::Text(_)
        | ParamValue::Date(_)
        | ParamValue::Timestamp(_)
        | ParamValue::Duration(_)
        | ParamValue::Uuid(_) => quoted(&value.postgres_text().unwrap_or_default())?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn find(name: &str) -> Option<Name> {
        ["a", "b"].iter().position(|known| *known == name).map(Name::Param)
    }

    fn fill(body: &str, a: ParamValue, b: ParamValue) -> Result<String, String> {
        let payload = Payload::parse(body, &mut find).map_err(|(message, _)| message)?;
        let values = Values { names: &["a".to_owned(), "b".to_owned()], values: &[a, b], number: 0 };
        payload.fill(&values).map_err(|error| error.message().to_owned())
    }

    fn text(text: &str) -> ParamValue {
        ParamValue::Text(text.to_owned())
    }

    #[test]
    fn values_are_escaped_for_their_place() {
        let list = ParamValue::List(vec![text("x\""), text("y")]);
        for (body, a, expected) in [
            (r#"{"q":"{a}"}"#, text("x\"},\n{"), Ok(r#"{"q":"x\"},\n{"}"#)),
            (r#"{"q":"a-{a}-\"{b}"}"#, ParamValue::Integer(7), Ok(r#"{"q":"a-7-\"z"}"#)),
            (r#"{"q":{a}}"#, text("x\\"), Ok(r#"{"q":"x\\"}"#)),
            (r#"[{a},{b}]"#, ParamValue::Integer(i64::MAX), Ok(r#"[9223372036854775807,"z"]"#)),
            (
                r#"[{a}]"#,
                ParamValue::Number("12345678901234567890.10".to_owned()),
                Ok("[12345678901234567890.10]"),
            ),
            (r#"[{a}]"#, ParamValue::Null, Ok("[null]")),
            (r#"[{a}]"#, list.clone(), Ok(r#"[["x\"","y"]]"#)),
            (r#"["{a}"]"#, list, Ok(r#"["x\",y"]"#)),
            (r#"[{a}]"#, ParamValue::Json("{\"c\":1}".to_owned()), Ok("[{\"c\":1}]")),
            (r#"["{a}"]"#, ParamValue::Null, Err("parameter `a`: it is missing, but a string needs it")),
            ("select {x} from t", text("x"), Ok("select {x} from t")),
            (
                "select {a} from t",
                text("x"),
                Err("`{a}` is in a body that isn't JSON, so its value can't be escaped"),
            ),
            (r#"{"q":{c}}"#, text("x"), Err("the parameter `{c}` is not declared")),
            (r#"{"q":{}}"#, text("x"), Ok(r#"{"q":{}}"#)),
            (
                r#"{"{a}":{"#,
                text("x"),
                Err(
                    "this body begins like JSON, but isn't valid JSON: EOF while parsing an object at line 1 \
                     column 5",
                ),
            ),
        ] {
            let filled = fill(body, a, text("z"));
            assert_eq!(filled.as_deref().map_err(String::as_str), expected, "{body}");
        }
    }

    proptest! {
        /// With any value, the body is the JSON of its template, with the value at its position.
        #[test]
        fn no_value_leaves_its_place(a in any::<String>(), b in ".{0,8}") {
            let filled = fill(r#"{"x":"1{a}2","y":{b},"z":[{a}]}"#, text(&a), text(&b)).unwrap();
            let json: serde_json::Value = serde_json::from_str(&filled).unwrap();
            prop_assert_eq!(json, serde_json::json!({ "x": format!("1{a}2"), "y": b, "z": [a] }));
        }
    }
}
