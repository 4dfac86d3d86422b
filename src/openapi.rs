//! Describes endpoints as an OpenAPI document: the parameters of requests and the contents of
//! responses. Their types are those of the statements in their databases.
//!
//! | module | describes |
//! |---|---|
//! | [`operation`] | an endpoint: parameters, responses, errors |
//! | [`request_body`] | the same with its parameters in a body |
//! | [`schema`] | JSON Schemas of values, rows and bodies |
//!
//! The same configuration always has the same document. Names are derived from the endpoints'
//! paths, in their order. Operations refer to components for their common parts.

mod operation;
mod request_body;
pub(crate) mod schema;

use std::collections::BTreeSet;
use std::io::{self, Write};

use rowstream_core::Error;
use rowstream_core::params::{self, ChosenOptions, Param, ParamType, ParamValue};
use rowstream_encode::{Choice, ValueOptions};
use serde_json::{Map, Value, json};

use self::operation::{Operation, SharedComponents};
use crate::check::Columns;
use crate::config::Config;
use crate::endpoint::{Authorization, Endpoint};
use crate::route;

/// The media type of a document (the draft of the OpenAPI media types).
pub(crate) const MEDIA_TYPE: &str = "application/json";

/// The versions of OpenAPI that a document can have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OpenApiVersion {
    /// 3.1, which describes a stream as text.
    #[default]
    V3_1,
    /// 3.2, which describes the items of a stream (`itemSchema`).
    V3_2,
}

impl Choice for OpenApiVersion {
    const ALL: &'static [Self] = &[Self::V3_1, Self::V3_2];

    fn name(self) -> &'static str {
        match self {
            Self::V3_1 => "3.1",
            Self::V3_2 => "3.2",
        }
    }
}

/// The options of a requested document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DocumentOptions {
    version: OpenApiVersion,
    /// The value options of the requests that it describes, if they differ from the defaults.
    options: ChosenOptions,
}

impl DocumentOptions {
    /// Reads a query: `version`, and the control parameters of values.
    ///
    /// # Errors
    /// 400 for an unknown or invalid parameter.
    pub(crate) fn read(query: Option<&str>) -> Result<Self, Error> {
        let text = |version: &OpenApiVersion| ParamValue::Text(version.name().to_owned());
        let version = Param {
            default: Some(text(&OpenApiVersion::default())),
            allowed: OpenApiVersion::ALL.iter().map(text).collect(),
            ..Param::new("version", ParamType::Text)
        };
        let bound = params::bind(&[version], &[] as &[(&str, &str)], query, &http::HeaderMap::new())?;
        let version = match bound.values.first() {
            Some(ParamValue::Text(name)) => OpenApiVersion::from_name(name),
            _ => None,
        };
        Ok(Self { version: version.unwrap_or_default(), options: bound.options })
    }

    fn options(self, endpoint: &Endpoint) -> ValueOptions {
        self.options.over(endpoint.response.values)
    }
}

/// An endpoint, and the columns of its statements if they are known.
pub(crate) type DescribedEndpoint<'a> = (&'a Endpoint, Option<&'a [Option<Columns>]>);

/// Writes the document of some endpoints. `server` is the base URL of the paths, relative to the
/// document. Only one operation is in memory at a time.
///
/// # Errors
/// The writer failed.
pub(crate) fn write<'a>(
    out: &mut dyn Write,
    config: &Config,
    endpoints: impl Iterator<Item = DescribedEndpoint<'a>> + Clone,
    requested: DocumentOptions,
    server: Option<&str>,
) -> io::Result<()> {
    let mut names = BTreeSet::from(["Problem".to_owned()]);
    let operations: Vec<_> = endpoints
        .map(|(endpoint, columns)| {
            let mut operation = Operation { config, endpoint, columns, requested, name: String::new() };
            let suffixes: Vec<_> = operation.schemas().map(|(name, _)| name).collect();
            operation.name = unused(&pascal(&endpoint.path), &suffixes, &mut names);
            operation
        })
        .collect();
    let info = json!({
        "title": "Rowstream",
        "description": "SQL as streaming HTTP endpoints. A response that is cut is incomplete, even if its \
         status is 200. Parameters can also be in the body of a POST, and of a QUERY, which is the same \
         and isn't listed here.",
        "version": "1",
    });
    write!(out, "{{\"openapi\":\"{}.0\",\"info\":{info},", requested.version.name())?;
    if let Some(server) = server {
        write!(out, "\"servers\":{},", json!([{"url": server}]))?;
    }
    out.write_all(b"\"paths\":")?;
    let mut shared = SharedComponents::default();
    let paths = operations.iter().map(|operation| {
        let path = route::encoded(&operation.endpoint.path);
        let mut methods = json!({"get": operation.describe(&mut shared)});
        if let Some(post) = operation.describe_post(&mut shared) {
            methods["post"] = post;
        }
        (path, methods)
    });
    write_object(out, paths)?;
    out.write_all(b",\"components\":{\"schemas\":")?;
    let schemas = operations.iter().flat_map(Operation::schemas);
    write_object(out, [("Problem".to_owned(), problem())].into_iter().chain(schemas))?;
    let rest = [
        ("responses", shared.responses()),
        ("parameters", shared.parameters(requested.options)),
        ("headers", operation::headers()),
        ("securitySchemes", security_schemes(config).into()),
    ];
    for (name, components) in rest {
        write!(out, ",\"{name}\":{components}")?;
    }
    out.write_all(b"}}\n")
}

/// Writes an object member by member.
fn write_object(out: &mut dyn Write, members: impl Iterator<Item = (String, Value)>) -> io::Result<()> {
    out.write_all(b"{")?;
    for (index, (name, value)) in members.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(out, "{comma}{}:{value}", Value::from(name))?;
    }
    out.write_all(b"}")
}

/// The scheme of signed URLs, which only a GET can have.
const SIGNED_URL: &str = "signedUrl";

/// The ways to authenticate, by name.
fn security_schemes(config: &Config) -> Map<String, Value> {
    let mut schemes = Map::new();
    if !config.tokens.is_empty() {
        schemes.insert("token".to_owned(), json!({"type": "http", "scheme": "bearer"}));
        let description = "The name of the token is the user, and the token is the password.";
        schemes.insert(
            "basic".to_owned(),
            json!({"type": "http", "scheme": "basic", "description": description}),
        );
    }
    if config.jwt.is_some() {
        schemes.insert("jwt".to_owned(), json!({"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}));
    }
    if config.url_signer.is_some() && !schemes.is_empty() {
        let description = "A signature of the path and the other parameters, for clients that can't send \
            headers. `_sign=SECONDS` and a token return a signed URL.";
        schemes.insert(
            SIGNED_URL.to_owned(),
            json!({"type": "apiKey", "in": "query", "name": "_signature", "description": description}),
        );
    }
    schemes
}

/// The schemes that give access to an endpoint. Any one of them is enough, and a public endpoint
/// needs none.
fn security(config: &Config, authorization: &Authorization, is_of_method: impl Fn(&str) -> bool) -> Value {
    match authorization {
        Authorization::Public => json!([]),
        Authorization::Authenticated | Authorization::Tokens(_) => {
            let schemes = security_schemes(config);
            schemes.keys().filter(|scheme| is_of_method(scheme)).map(|scheme| json!({scheme: []})).collect()
        }
    }
}

/// A problem document (RFC 9457).
fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "code", "retry"],
        "properties": {
            "type": {"type": "string", "format": "uri-reference", "description": "the page about the code"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"type": "string"},
            "retry": {
                "type": "boolean",
                "description": "true if the same request may succeed later, without any change",
            },
            "retry_after": {
                "type": "integer",
                "description": "the seconds to wait before another try, as in `Retry-After`",
            },
            "hint": {"type": "string"},
            "message": {"type": "string", "description": "`detail` again, of lists with filters"},
            "details": {"type": "string", "description": "`detail` again, of the code `PGRST116`"},
            "sqlstate": {"type": "string"},
            "parameters": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "message"],
                    "properties": {"name": {"type": "string"}, "message": {"type": "string"}},
                },
            },
        },
    })
}

/// A path template as a name: `/authors/{id}` is `AuthorsById`.
fn pascal(path: &str) -> String {
    let mut name = String::new();
    for segment in path.split('/') {
        let parameter = route::parameter_name(segment);
        name.push_str(parameter.map_or("", |_| "By"));
        let words = parameter.unwrap_or(segment).split(|c: char| !c.is_ascii_alphanumeric());
        for word in words.filter(|word| !word.is_empty()) {
            name.push_str(&word[..1].to_ascii_uppercase());
            name.push_str(&word[1..]);
        }
    }
    if name.is_empty() { "Root".to_owned() } else { name }
}

/// Makes a name unique, if necessary with the smallest number. The names with these suffixes, which
/// its schemas have, must be unique too.
fn unused(name: &str, suffixes: &[String], names: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}{number}"));
    let mut all = std::iter::once(name.to_owned()).chain(numbered);
    let of = |name: &str| -> Vec<_> {
        let suffixed = suffixes.iter().map(|suffix| format!("{name}{suffix}"));
        std::iter::once(name.to_owned()).chain(suffixed).collect()
    };
    let free = all.find(|name| of(name).iter().all(|name| !names.contains(name))).unwrap_or_default();
    names.extend(of(&free));
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_names() {
        for (path, expected) in [
            ("/", "Root"),
            ("/authors", "Authors"),
            ("/authors/{id}", "AuthorsById"),
            ("/a-b/c_d/{theId}/x", "ABCDByTheIdX"),
            ("/größe", "GrE"),
        ] {
            assert_eq!(pascal(path), expected, "{path}");
        }
        let mut names = BTreeSet::new();
        let suffixes = ["".to_owned(), schema::row_name("")];
        let all = ["A", "A", "ARow", "Row", "A2", "AParameters", "A"];
        let all = all.map(|name| unused(name, &suffixes, &mut names));
        assert_eq!(all, ["A", "A2", "ARow2", "Row", "A22", "AParameters", "A3"]);
        let with_body = [suffixes.as_slice(), &[request_body::parameters_name("")]].concat();
        assert_eq!(unused("A", &with_body, &mut names), "A4");
        let mut names = BTreeSet::from(["AParameters".to_owned()]);
        assert_eq!(unused("A", &with_body, &mut names), "A2");
    }

    #[test]
    fn what_is_asked_for_is_checked() {
        assert_eq!(DocumentOptions::read(None).unwrap().version, OpenApiVersion::V3_1);
        assert_eq!(
            DocumentOptions::read(Some("version=3.2&_numbers=string")).unwrap().version,
            OpenApiVersion::V3_2
        );
        for wrong in ["version=2", "v=3.1", "_numbers=no"] {
            assert_eq!(
                DocumentOptions::read(Some(wrong)).unwrap_err().code(),
                "invalid_parameter",
                "{wrong}"
            );
        }
    }
}
