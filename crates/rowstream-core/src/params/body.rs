//! Parameters in the body of a request: a JSON object, or the pairs of a form.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::bind::check_count;
use super::{Param, ParamType, ParamValue, decimal, query_decode};
use crate::Error;

/// The parameters in the body of a request.
#[derive(Debug)]
pub enum BodyParams {
    /// The members of a JSON object, in their order.
    Json(Vec<(String, Box<RawValue>)>),
    /// The pairs of a form, encoded like a query.
    Form(String),
}

/// The media type of a body that holds parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyType {
    /// `application/json`.
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
}

/// The memory for each value of a list: its position in the JSON, and its [`ParamValue`].
const VALUE: usize = 64;
/// How often the bytes of a body may exist: as received, decoded, typed, and as the database's text.
const COPIES: usize = 4;

impl BodyType {
    /// Both media types, as a header lists them.
    pub const NAMES: &str = "application/json, application/x-www-form-urlencoded";

    /// The type with this name, which may have parameters: `application/json; charset=utf-8`.
    pub fn from_media_type(text: &str) -> Option<Self> {
        let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
        let charset = parameters.split(';').filter_map(|parameter| parameter.trim().split_once('='));
        let mut charset = charset.filter(|(name, _)| name.eq_ignore_ascii_case("charset"));
        if charset.any(|(_, value)| !value.trim_matches('"').eq_ignore_ascii_case("utf-8")) {
            return None;
        }
        match name.trim().to_ascii_lowercase().as_str() {
            "application/json" => Some(Self::Json),
            "application/x-www-form-urlencoded" => Some(Self::Form),
            _ => None,
        }
    }
}

/// The memory that the parameters of a body may need, with their values in the statement, in bytes.
pub fn memory_of_values(body: &[u8]) -> usize {
    let separators = body.iter().filter(|byte| matches!(byte, b',' | b'&')).count();
    body.len() * COPIES + (separators + 1) * VALUE
}

impl BodyParams {
    /// Reads a body.
    ///
    /// # Errors
    /// The reason why it isn't valid.
    pub fn read(kind: BodyType, body: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
        match kind {
            BodyType::Form => Ok(Self::Form(text.to_owned())),
            BodyType::Json => {
                let Members(members) = serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text))
                    .map_err(|error| format!("it is not a JSON object: {error}"))?;
                Ok(Self::Json(members))
            }
        }
    }

    /// True if it gives a parameter of this name. `null` is the same as no member.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Form(form) => has_name(form, name),
            Self::Json(members) => members.iter().any(|(own, json)| own == name && json.get() != "null"),
        }
    }

    /// Removes the pairs for which `is_own` is true, and returns them decoded. A list is a pair for
    /// each of its elements. Names that can't be decoded stay.
    ///
    /// # Errors
    /// 400: the value of a pair isn't a text, or there are too many pairs.
    pub fn take(&mut self, is_own: impl Fn(&str) -> bool) -> Result<TakenPairs, Error> {
        let mut own = TakenPairs::default();
        match self {
            Self::Form(form) => {
                let (pairs, rest) = take_pairs(form, is_own)?;
                (own.pairs, *form) = (pairs, rest);
            }
            Self::Json(members) => {
                let mut rest = Vec::new();
                for (name, value) in std::mem::take(members) {
                    if !is_own(&name) {
                        rest.push((name, value));
                    } else if value.get() == "null" {
                        check_count(own.nulls.len() + 1)?;
                        own.nulls.push(name);
                    } else {
                        take_texts(&name, &value, &mut own.pairs)?;
                    }
                }
                *members = rest;
            }
        }
        Ok(own)
    }
}

/// The pairs that [`BodyParams::take`] removes.
#[derive(Debug, Default)]
pub struct TakenPairs {
    /// The decoded pairs.
    pub pairs: Vec<Pair>,
    /// The names of members that are `null`.
    pub nulls: Vec<String>,
}

/// The message for a condition that is `null`.
pub const NULL_CONDITION: &str = "it is `null`: leave it out, or write the condition `is.null`";

/// True if a query or a form has a pair of this name.
pub fn has_name(query: &str, name: &str) -> bool {
    let names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    names.filter_map(query_decode).any(|own| own == name)
}

/// A pair of a query, decoded.
pub type Pair = (String, String);

/// Separates the pairs of a query or a form for which `is_own` is true from the rest of it. A name
/// that can't be decoded stays in the rest.
///
/// # Errors
/// 400: the value of a pair can't be decoded, or there are too many pairs.
pub fn take_pairs(query: &str, is_own: impl Fn(&str) -> bool) -> Result<(Vec<Pair>, String), Error> {
    let (mut own, mut rest) = (Vec::new(), Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match query_decode(name) {
            Some(name) if is_own(&name) => {
                let value = query_decode(value).ok_or_else(|| wrong(&name, super::BAD_ENCODING))?;
                check_count(own.len() + 1)?;
                own.push((name, value));
            }
            _ => rest.push(pair),
        }
    }
    Ok((own, rest.join("&")))
}

fn wrong(name: &str, why: &str) -> Error {
    Error::invalid_parameters(vec![(name.to_owned(), why.to_owned())])
}

/// Adds a pair for each text of a JSON value that isn't a parameter's: one, or those of a list.
/// Leaving a condition out would return more rows, so a list can't be empty.
fn take_texts(name: &str, value: &RawValue, pairs: &mut Vec<Pair>) -> Result<(), Error> {
    let values = match value.get().as_bytes()[0] {
        b'[' => elements(value),
        _ => vec![value],
    };
    if values.is_empty() {
        return Err(wrong(name, "it is an empty list: leave it out, or write the condition `in.()`"));
    }
    check_count(pairs.len() + values.len())?;
    for value in values {
        let text = integer_text(value).map_err(|why| wrong(name, &why))?;
        pairs.push((name.to_owned(), text.into_owned()));
    }
    Ok(())
}

/// The text of a JSON value: the contents of a string, and JSON for numbers and booleans.
///
/// # Errors
/// It's another kind of value.
fn text(value: &RawValue) -> Result<Cow<'_, str>, String> {
    let json = value.get();
    match json.as_bytes()[0] {
        // The characters of two escapes may not be a pair.
        b'"' => match serde_json::from_str::<String>(json) {
            Ok(text) => Ok(text.into()),
            Err(_) => Err("it has characters that Unicode doesn't have".to_owned()),
        },
        b'{' => Err("it is an object: write a string, a number, `true` or `false`".to_owned()),
        b'[' => Err("it is a list: write one value".to_owned()),
        b'n' => Err("it has a `null`: leave it out".to_owned()),
        _ => Ok(json.into()),
    }
}

/// The same for an integer. JSON has one type of number, and some programs write 3 as `3.0`.
fn integer_text(value: &RawValue) -> Result<Cow<'_, str>, String> {
    let text = text(value)?;
    let is_string = value.get().starts_with('"');
    Ok(decimal::whole(&text).filter(|_| !is_string).map_or(text, Cow::from))
}

fn elements(list: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(list.get()).unwrap_or_default()
}

/// The value of a parameter that is a member of a JSON object. `None` if it's `null`, which is the
/// same as no member.
pub(super) fn value(param: &Param, json: &RawValue) -> Result<Option<ParamValue>, String> {
    let text = |value| match param.kind {
        ParamType::Json => Ok(Cow::from(RawValue::get(value))),
        ParamType::Integer => integer_text(value),
        _ => text(value),
    };
    match json.get().as_bytes()[0] {
        b'n' => Ok(None),
        b'[' if param.list => {
            let items = elements(json).into_iter().map(|item| param.parse_one(&text(item)?));
            Ok(Some(ParamValue::List(items.collect::<Result<_, _>>()?)))
        }
        _ => Ok(Some(param.parse(&text(json)?)?)),
    }
}

/// The text of a control parameter that is a member of a JSON object. `None` if it's `null`.
pub(super) fn control(json: &RawValue) -> Result<Option<String>, String> {
    if json.get() == "null" { Ok(None) } else { Ok(Some(text(json)?.into_owned())) }
}

/// The members of a JSON object. A map would hide that two have the same name.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::params::{ParamType, RequestValues, bind_with};

    fn list(kind: ParamType) -> Param {
        Param { list: true, ..Param::new("p", kind) }
    }

    fn bound(param: Param, kind: BodyType, body: &str) -> Result<RequestValues, String> {
        let body = BodyParams::read(kind, body.as_bytes())?;
        let path: &[(&str, &str)] = &[];
        bind_with(None, &[param], path, None, Some(&body), &HeaderMap::new())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_body_has_the_values_of_a_query() {
        let optional = |kind| Param { default: Some(ParamValue::Null), ..Param::new("p", kind) };
        let texts = |texts: &[&str]| {
            ParamValue::List(texts.iter().map(|text| ParamValue::Text((*text).to_owned())).collect())
        };
        let integers =
            |numbers: &[i64]| ParamValue::List(numbers.iter().copied().map(ParamValue::Integer).collect());
        for (param, body, expected) in [
            (Param::new("p", ParamType::Text), r#"{"p": "a&b\u00e9\n"}"#, ParamValue::Text("a&bé\n".into())),
            (Param::new("p", ParamType::Text), r#"{"p": 1.50}"#, ParamValue::Text("1.50".into())),
            (
                Param::new("p", ParamType::Integer),
                r#"{"p": 9007199254740993}"#,
                ParamValue::Integer(9_007_199_254_740_993),
            ),
            (Param::new("p", ParamType::Integer), r#"{"p": "7"}"#, ParamValue::Integer(7)),
            (
                Param::new("p", ParamType::Integer),
                r#"{"p": 9007199254740993.0}"#,
                ParamValue::Integer(9_007_199_254_740_993),
            ),
            (Param::new("p", ParamType::Integer), r#"{"p": -1.2E2}"#, ParamValue::Integer(-120)),
            (list(ParamType::Integer), r#"{"p": [1.0, 2e0]}"#, integers(&[1, 2])),
            (
                Param::new("p", ParamType::Number),
                r#"{"p": 0.100000000000000005551}"#,
                ParamValue::Number("0.100000000000000005551".into()),
            ),
            (Param::new("p", ParamType::Boolean), r#"{"p": true}"#, ParamValue::Boolean(true)),
            (
                Param::new("p", ParamType::Json),
                r#"{"p": {"a": [1, "x"]}}"#,
                ParamValue::Json(r#"{"a": [1, "x"]}"#.into()),
            ),
            (Param::new("p", ParamType::Text), "\u{feff}{\"p\": \"a\"}", ParamValue::Text("a".into())),
            (Param::new("p", ParamType::Json), r#"{"p": [1]}"#, ParamValue::Json("[1]".into())),
            (optional(ParamType::Text), r#"{"p": null}"#, ParamValue::Null),
            (optional(ParamType::Text), "{}", ParamValue::Null),
            (list(ParamType::Integer), r#"{"p": [1, "2", 3]}"#, integers(&[1, 2, 3])),
            (list(ParamType::Integer), r#"{"p": "1,2"}"#, integers(&[1, 2])),
            (list(ParamType::Integer), r#"{"p": []}"#, integers(&[])),
            (list(ParamType::Text), r#"{"p": ["a,b", "c"]}"#, texts(&["a,b", "c"])),
        ] {
            let values = bound(param, BodyType::Json, body).map(|bound| bound.values);
            assert_eq!(values, Ok(vec![expected]), "{body}");
        }
        let form = bound(list(ParamType::Text), BodyType::Form, "p=a%2Cb&p=c+d");
        assert_eq!(form.map(|bound| bound.values), Ok(vec![texts(&["a,b", "c d"])]));
    }

    #[test]
    fn a_wrong_body_is_refused() {
        for (param, body, expected) in [
            (Param::new("p", ParamType::Integer), "[]", "it is not a JSON object"),
            (Param::new("p", ParamType::Integer), r#"{"p": 1} x"#, "it is not a JSON object"),
            (Param::new("p", ParamType::Integer), r#"{"p": 1, "p": 1}"#, "more than once"),
            (list(ParamType::Integer), r#"{"p": [1], "p": [2]}"#, "more than once"),
            (Param::new("p", ParamType::Integer), r#"{"p": [1]}"#, "it is a list"),
            (Param::new("p", ParamType::Integer), r#"{"p": {}}"#, "it is an object"),
            (Param::new("p", ParamType::Integer), r#"{"p": 3.5}"#, "`3.5` is not an integer"),
            (Param::new("p", ParamType::Integer), r#"{"p": "3.0"}"#, "`3.0` is not an integer"),
            (Param::new("p", ParamType::Integer), r#"{"p": 1e19}"#, "beyond the integers of 64 bits"),
            (Param::new("p", ParamType::Integer), r#"{"p": null}"#, "it is missing"),
            (list(ParamType::Integer), r#"{"p": [1, null]}"#, "`null`"),
            (list(ParamType::Integer), r#"{"p": [1, "x"]}"#, "`x` is not an integer"),
            (Param::new("p", ParamType::Text), r#"{"p": "\ud800"}"#, "Unicode"),
            (Param::new("p", ParamType::Integer), r#"{"p": 1, "q": 1}"#, "no such parameter"),
            (Param::new("p", ParamType::Integer), r#"{"p": 1, "_end": 1, "_end": 1}"#, "more than once"),
            (Param::new("p", ParamType::Integer), r#"{"p": 1, "_end": null, "_end": "1"}"#, "more than once"),
            (Param::new("p", ParamType::Integer), r#"{"p": 1, "_end": "1", "_end": null}"#, "more than once"),
            (Param::new("p", ParamType::Integer), r#"{"p": 1, "p": null}"#, "more than once"),
            (Param::new("p", ParamType::Integer), r#"{"p": 1, "_nope": null}"#, "no such parameter"),
        ] {
            let refused = bound(param, BodyType::Json, body).unwrap_err();
            assert!(refused.contains(expected), "{body}: {refused}");
        }
    }

    #[test]
    fn a_name_is_in_the_url_or_in_the_body() {
        let body = BodyParams::read(BodyType::Json, br#"{"p": [2], "_end": "1"}"#).unwrap();
        let bind = |query| {
            let path: &[(&str, &str)] = &[];
            bind_with(None, &[list(ParamType::Integer)], path, Some(query), Some(&body), &HeaderMap::new())
        };
        assert!(bind("_format=csv").is_ok());
        assert!(bind("p=1").unwrap_err().to_string().contains("both in the URL and in the body"));
        assert!(bind("_end=0").unwrap_err().to_string().contains("more than once"));
    }

    #[test]
    fn null_is_not_given() {
        let body = BodyParams::read(BodyType::Json, br#"{"a": null, "b": "null", "c": [null]}"#).unwrap();
        assert_eq!(["a", "b", "c", "d"].map(|name| body.has(name)), [false, true, true, false]);
        let form = BodyParams::read(BodyType::Form, b"a=null&b=").unwrap();
        assert_eq!(["a", "b", "c"].map(|name| form.has(name)), [true, true, false]);
    }

    #[test]
    fn media_types_have_parameters() {
        for (text, expected) in [
            ("application/json", Some(BodyType::Json)),
            ("Application/JSON ; charset=\"UTF-8\"", Some(BodyType::Json)),
            ("application/x-www-form-urlencoded;charset=utf-8", Some(BodyType::Form)),
            ("application/json; charset=latin1", None),
            ("text/plain", None),
            ("", None),
        ] {
            assert_eq!(BodyType::from_media_type(text), expected, "{text}");
        }
    }
}
