//! Requests built from parameters: `GET /users/{id}?fields={fields}`, and header fields.
//!
//! A template is parsed once. Each value is escaped for its position, so that it can't end there
//! and begin something else. The path always has as many segments as in the template, the query as
//! many pairs, and the head as many fields.
//!
//! | position | a value | NULL | a list |
//! |---|---|---|---|
//! | path segment | percent-encoded; a segment cannot become empty, `.` or `..` | 400 | joined by commas |
//! | query value | percent-encoded | if it's the whole value, the pair is left out | if it's the whole value, a pair for each |
//! | header field | unchanged; characters that a header can't contain are a 400 | if it's the whole value, the field is left out | joined by commas |

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rowstream_core::Error;
use rowstream_core::params::ParamValue;

use super::Call;

/// The characters that are encoded in paths and queries: all except RFC 3986's unreserved ones.
pub const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The name of the number of a call among several.
pub const NUMBER: &str = "n";

/// A request with placeholders for values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The segments after the first slash.
    path: Vec<Text>,
    /// Each with the text before its value: `fields=`.
    query: Vec<(String, Text)>,
    headers: Vec<(HeaderName, Text)>,
}

/// Alternating literal text and values.
type Text = Vec<Part>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Value(Name),
}

/// The meaning of a `{name}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// The parameter with this index.
    Param(usize),
    /// The number of the call.
    Number,
}

/// The message and the hint for an error in a template.
type TemplateError = (String, String);

/// The values of one request.
pub struct Values<'a> {
    /// The names of the parameters, for messages.
    pub names: &'a [String],
    /// Their values.
    pub values: &'a [ParamValue],
    /// The number of the request in its response, from 1.
    pub number: u64,
}

impl Template {
    /// Reads `GET /path?query`; `find` resolves a name.
    ///
    /// # Errors
    /// The message and the hint.
    pub fn parse(text: &str, find: &mut dyn FnMut(&str) -> Option<Name>) -> Result<Self, TemplateError> {
        const WRITE: &str = "write `GET /path/{parameter}?name={parameter}`";
        let error = |message: &str| (message.to_owned(), WRITE.to_owned());
        let Some(target) = text.strip_prefix("GET ") else {
            return Err(error("a request must begin with `GET` and a space: other methods aren't sent"));
        };
        let Some(target) = target.strip_prefix('/') else {
            return Err(error("the path of a request must begin with a slash: the host is the source's"));
        };
        check_literals(target)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = path.split('/').map(|segment| parse_text(segment, find)).collect::<Result<Vec<_>, _>>()?;
        let is_dots = |segment: &Text| matches!(&segment[..], [Part::Literal(text)] if is_dots(text));
        if path.iter().any(is_dots) {
            return Err(error("the path of a request has a segment `.` or `..`"));
        }
        let mut pairs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if name.contains(['{', '}']) {
                return Err(error("a parameter can't be the name in a query"));
            }
            let name = if pair.contains('=') { format!("{name}=") } else { name.to_owned() };
            pairs.push((name, parse_text(value, find)?));
        }
        Ok(Self { path, query: pairs, headers: Vec::new() })
    }

    /// Adds a header field.
    ///
    /// # Errors
    /// The message and the hint.
    pub fn header(
        &mut self,
        name: HeaderName,
        text: &str,
        find: &mut dyn FnMut(&str) -> Option<Name>,
    ) -> Result<(), TemplateError> {
        if HeaderValue::from_str(text).is_err() {
            return Err((
                "a header field can't contain this".to_owned(),
                "use printable ASCII only".to_owned(),
            ));
        }
        self.headers.push((name, parse_text(text, find)?));
        Ok(())
    }

    /// The names of the header fields, including those that a request may leave out.
    pub fn header_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.headers.iter().map(|(name, _)| name)
    }

    /// The request with `values` instead of the placeholders.
    ///
    /// # Errors
    /// 400 with the name of a parameter whose value can't be used at its position.
    pub fn fill(&self, values: &Values<'_>) -> Result<Call, Error> {
        let (target, headers) = (self.fill_target(values)?, self.fill_headers(values)?);
        Ok(Call { method: Method::GET, target, headers, body: None })
    }

    /// The path and the query with `values` instead of the placeholders.
    ///
    /// # Errors
    /// Those of [`Template::fill`].
    pub fn fill_target(&self, values: &Values<'_>) -> Result<String, Error> {
        let mut target = String::new();
        for segment in &self.path {
            target.push('/');
            let begin = target.len();
            values.write(segment, &mut target, "a path")?;
            let written = &target[begin..];
            // A row's columns follow the parameters. If there's one, we name it, because it's the
            // part that differs between requests.
            if let Some(name) = params(segment).max().filter(|_| written.is_empty() || is_dots(written)) {
                return Err(values.wrong(name, "it would change the path of the request"));
            }
        }
        let mut sign = '?';
        for (name, value) in &self.query {
            for text in values.of_pair(value)? {
                target.push(std::mem::replace(&mut sign, '&'));
                target.push_str(name);
                target.push_str(&text);
            }
        }
        Ok(target)
    }

    /// The parameters in the path and the query, and those in the header fields.
    pub fn params(&self) -> [Vec<usize>; 2] {
        let target = self.path.iter().chain(self.query.iter().map(|(_, text)| text));
        let headers = self.headers.iter().map(|(_, text)| text);
        [target.flat_map(params).collect(), headers.flat_map(params).collect()]
    }

    /// The header fields with `values` instead of the placeholders.
    ///
    /// # Errors
    /// Those of [`Template::fill`].
    pub fn fill_headers(&self, values: &Values<'_>) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        for (name, text) in &self.headers {
            if let [Part::Value(only)] = &text[..]
                && values.text(*only).is_none()
            {
                continue;
            }
            let mut out = String::new();
            for part in text {
                match part {
                    Part::Literal(literal) => out.push_str(literal),
                    Part::Value(name) => out.push_str(&values.text(*name).unwrap_or_default()),
                }
            }
            let value = header_value(&out);
            headers.append(
                name,
                value.ok_or_else(|| values.wrong(unfit(text, values), "a header can't contain it"))?,
            );
        }
        Ok(headers)
    }
}

fn header_value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok().filter(|_| !text.contains('\u{7f}'))
}

/// The first parameter of a header's text whose value a header can't contain.
fn unfit(text: &Text, values: &Values<'_>) -> Option<usize> {
    let fits = |index| values.text(Name::Param(index)).is_none_or(|text| header_value(&text).is_some());
    params(text).find(|&index| !fits(index))
}

/// The parameters in a text.
fn params(text: &Text) -> impl Iterator<Item = usize> {
    text.iter().filter_map(|part| match part {
        Part::Value(Name::Param(index)) => Some(*index),
        Part::Literal(_) | Part::Value(Name::Number) => None,
    })
}

impl Values<'_> {
    /// The text of a value. `None` for NULL.
    pub(super) fn text(&self, name: Name) -> Option<String> {
        match name {
            Name::Number => Some(self.number.to_string()),
            Name::Param(index) => match &self.values[index] {
                ParamValue::List(items) => {
                    Some(items.iter().filter_map(ParamValue::postgres_text).collect::<Vec<_>>().join(","))
                }
                value => value.postgres_text(),
            },
        }
    }

    /// Writes a text with its values encoded. No value may be NULL.
    fn write(&self, text: &Text, out: &mut String, place: &str) -> Result<(), Error> {
        for part in text {
            match part {
                Part::Literal(literal) => out.push_str(literal),
                Part::Value(name) => match (self.text(*name), name) {
                    (Some(value), _) => out.extend(utf8_percent_encode(&value, ENCODED)),
                    (None, Name::Param(index)) => {
                        return Err(self.wrong(*index, format!("it is missing, but {place} needs it")));
                    }
                    (None, Name::Number) => {}
                },
            }
        }
        Ok(())
    }

    /// The encoded values of a pair: one, or one for each element of a list, or none for NULL.
    fn of_pair(&self, text: &Text) -> Result<Vec<String>, Error> {
        if let [Part::Value(Name::Param(index))] = &text[..] {
            let encoded = |value: &ParamValue| {
                value.postgres_text().map(|text| utf8_percent_encode(&text, ENCODED).to_string())
            };
            return Ok(match &self.values[*index] {
                ParamValue::List(items) => items.iter().filter_map(encoded).collect(),
                value => encoded(value).into_iter().collect(),
            });
        }
        let mut out = String::new();
        self.write(text, &mut out, "a longer value")?;
        Ok(vec![out])
    }

    pub(super) fn wrong(&self, index: impl Into<Option<usize>>, message: impl Into<String>) -> Error {
        let name = index.into().and_then(|index| self.names.get(index)).cloned().unwrap_or_default();
        Error::invalid_parameters(vec![(name, message.into())])
    }
}

/// Splits a text at its `{name}`s.
fn parse_text(text: &str, find: &mut dyn FnMut(&str) -> Option<Name>) -> Result<Text, TemplateError> {
    let brace = || {
        let hint = "write a parameter in braces, `{name}`, and a literal brace as `%7B` or `%7D`";
        ("a brace has no partner".to_owned(), hint.to_owned())
    };
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((literal, from)) = rest.split_once('{') {
        let (name, after) = from.split_once('}').ok_or_else(brace)?;
        if literal.contains('}') || name.contains('{') {
            return Err(brace());
        }
        push_literal(&mut parts, literal);
        let found = find(name).ok_or_else(|| {
            let hint = format!("declare it below `[params]`: `{name} = \"integer\"`, or another type");
            (format!("the parameter `{{{name}}}` is not declared"), hint)
        })?;
        parts.push(Part::Value(found));
        rest = after;
    }
    if rest.contains('}') {
        return Err(brace());
    }
    push_literal(&mut parts, rest);
    Ok(parts)
}

fn push_literal(parts: &mut Text, literal: &str) {
    if !literal.is_empty() {
        parts.push(Part::Literal(literal.to_owned()));
    }
}

/// Checks that literal text only has characters that a URL may contain.
fn check_literals(target: &str) -> Result<(), TemplateError> {
    let well = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/?%{}".contains(c);
    let Some(bad) = target.chars().find(|c| !well(*c)) else { return Ok(()) };
    let hint = format!("write `{}`", utf8_percent_encode(bad.encode_utf8(&mut [0; 4]), ENCODED));
    Err((format!("a request can't contain {}", rowstream_core::diagnostic::shown(&bad.to_string())), hint))
}

/// Returns true if clients and servers read a segment as a path to another folder.
pub fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    matches!(plain.as_str(), "." | "..")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rowstream_core::params::percent_decode;

    use super::*;

    const NAMES: [&str; 2] = ["a", "b"];

    fn find(name: &str) -> Option<Name> {
        match NAMES.iter().position(|known| *known == name) {
            Some(index) => Some(Name::Param(index)),
            None => (name == NUMBER).then_some(Name::Number),
        }
    }

    fn template(request: &str, headers: &[(&str, &str)]) -> Result<Template, String> {
        let mut template = Template::parse(request, &mut find).map_err(|(message, _)| message)?;
        for (name, text) in headers {
            let name = name.parse().unwrap();
            template.header(name, text, &mut find).map_err(|(message, _)| message)?;
        }
        Ok(template)
    }

    fn fill(template: &Template, a: &ParamValue, b: &ParamValue) -> Result<Call, String> {
        let names = NAMES.map(str::to_owned);
        let values = Values { names: &names, values: &[a.clone(), b.clone()], number: 7 };
        template.fill(&values).map_err(|error| error.message().to_owned())
    }

    fn text(text: &str) -> ParamValue {
        ParamValue::Text(text.to_owned())
    }

    #[test]
    fn values_are_escaped_for_their_place() {
        let list = ParamValue::List(vec![text("x,y"), text("&")]);
        for (request, a, expected) in [
            ("GET /", text("x"), Ok("/")),
            ("GET /u/{a}", text("x"), Ok("/u/x")),
            ("GET /u/{a}/", text("x"), Ok("/u/x/")),
            ("GET /u/{a}", text("a/../b?c#d%"), Ok("/u/a%2F..%2Fb%3Fc%23d%25")),
            ("GET /u/{a}", text("größe x"), Ok("/u/gr%C3%B6%C3%9Fe%20x")),
            ("GET /u/{a}", text(".."), Err("parameter `a`: it would change the path of the request")),
            ("GET /u/{a}", text("."), Err("parameter `a`: it would change the path of the request")),
            ("GET /u/.{a}", text("."), Err("parameter `a`: it would change the path of the request")),
            ("GET /u/%2e{a}", text("."), Err("parameter `a`: it would change the path of the request")),
            ("GET /u/{a}", text(""), Err("parameter `a`: it would change the path of the request")),
            ("GET /u/v{a}", text(""), Ok("/u/v")),
            ("GET /u/{a}", text("..."), Ok("/u/...")),
            ("GET /u/{a}", ParamValue::Null, Err("parameter `a`: it is missing, but a path needs it")),
            ("GET /u/{n}/x", text("x"), Ok("/u/7/x")),
            ("GET /u?a={a}&id={n}", text("x&id=8"), Ok("/u?a=x%26id%3D8&id=7")),
            ("GET /u?a={a}&id={n}", ParamValue::Null, Ok("/u?id=7")),
            ("GET /u?a={a}&id={n}", list.clone(), Ok("/u?a=x%2Cy&a=%26&id=7")),
            ("GET /u?a=({a})", list, Ok("/u?a=(x%2Cy%2C%26)")),
            (
                "GET /u?a=-{a}",
                ParamValue::Null,
                Err("parameter `a`: it is missing, but a longer value needs it"),
            ),
            ("GET /u?flag&b=1", text("x"), Ok("/u?flag&b=1")),
            ("GET /u?d={a}", ParamValue::Duration("PT0.1S".into()), Ok("/u?d=PT0.1S")),
            ("GET /u?d={a}", ParamValue::Integer(-3), Ok("/u?d=-3")),
        ] {
            let filled =
                fill(&template(request, &[]).unwrap(), &a, &ParamValue::Null).map(|call| call.target);
            assert_eq!(filled.as_deref().map_err(String::as_str), expected, "{request} {a:?}");
        }
    }

    #[test]
    fn headers_hold_what_they_can() {
        let template = template("GET /", &[("x-a", "{a}"), ("x-b", "id={b};n={n}")]).unwrap();
        for (a, b, expected) in [
            (text("x y"), text("z"), Ok(vec!["x-a: x y", "x-b: id=z;n=7"])),
            (ParamValue::Null, ParamValue::Null, Ok(vec!["x-b: id=;n=7"])),
            (text("größe"), text("z"), Ok(vec!["x-a: größe", "x-b: id=z;n=7"])),
            (text("x\r\nx-c: 1"), text("z"), Err("parameter `a`: a header can't contain it")),
            (text("x"), text("\n"), Err("parameter `b`: a header can't contain it")),
            (text("\u{7f}"), text("z"), Err("parameter `a`: a header can't contain it")),
        ] {
            let filled = fill(&template, &a, &b).map(|call| {
                let field = |(name, value): (&HeaderName, &HeaderValue)| {
                    format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
                };
                call.headers.iter().map(field).collect::<Vec<_>>()
            });
            let filled = filled.as_ref().map(|fields| fields.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(filled.map_err(String::as_str), expected, "{a:?} {b:?}");
        }
    }

    #[test]
    fn templates_are_checked() {
        for (request, message) in [
            ("POST /", "a request must begin with `GET` and a space: other methods aren't sent"),
            (
                "GET http://other.example/",
                "the path of a request must begin with a slash: the host is the source's",
            ),
            ("GET a", "the path of a request must begin with a slash: the host is the source's"),
            ("GET /a b", "a request can't contain ` `"),
            ("GET /a#b", "a request can't contain `#`"),
            ("GET /ä", "a request can't contain `ä`"),
            ("GET /a\r\nx: y", "a request can't contain `\\u{d}`"),
            ("GET /../a", "the path of a request has a segment `.` or `..`"),
            ("GET /%2E%2e/a", "the path of a request has a segment `.` or `..`"),
            ("GET /{c}", "the parameter `{c}` is not declared"),
            ("GET /{", "a brace has no partner"),
            ("GET /}", "a brace has no partner"),
            ("GET /{a}}", "a brace has no partner"),
            ("GET /{{a}", "a brace has no partner"),
            ("GET /?{a}=1", "a parameter can't be the name in a query"),
        ] {
            assert_eq!(template(request, &[]).unwrap_err(), message, "{request}");
        }
        assert_eq!(template("GET /", &[("x-a", "b\nc")]).unwrap_err(), "a header field can't contain this");
    }

    proptest! {
        /// With any values, the request has the segments, pairs and fields of its template, each
        /// with its value.
        #[test]
        fn no_value_leaves_its_place(a in any::<String>(), b in "[a-z\r\n:;=&?/#% .\0\u{80}-\u{ff}]{0,12}") {
            let template = template("GET /p/{a}/q?x={b}&y={a}", &[("x-a", "{a}"), ("x-b", "b={b}")]).unwrap();
            if let Ok(call) = fill(&template, &text(&a), &text(&b)) {
                let (path, query) = call.target.split_once('?').unwrap();
                prop_assert!(call.target.parse::<http::uri::PathAndQuery>().is_ok());
                let segments: Vec<_> = path.split('/').map(|segment| percent_decode(segment).unwrap()).collect();
                prop_assert_eq!(segments, ["", "p", &a, "q"]);
                let pairs: Vec<_> = query.split('&').map(|pair| pair.split_once('=').unwrap()).collect();
                let pairs: Vec<_> = pairs.iter().map(|(name, value)| (*name, percent_decode(value).unwrap())).collect();
                prop_assert_eq!(pairs, [("x", b.as_str().into()), ("y", a.as_str().into())]);
                prop_assert_eq!(call.headers.len(), 2);
                for (name, value) in [("x-a", a.clone()), ("x-b", format!("b={b}"))] {
                    prop_assert_eq!(call.headers[name].as_bytes(), value.as_bytes());
                    prop_assert!(!value.chars().any(|c| c != '\t' && c.is_ascii_control()));
                }
            }
        }

        #[test]
        fn any_template_can_be_read(request in "(GET /)?[a-c{}?&=/%. \u{e4}]{0,16}", header in ".{0,8}") {
            let _ = template(&request, &[("x-a", &header)]);
        }
    }
}
