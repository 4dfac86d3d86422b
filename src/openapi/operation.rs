//! One endpoint of the document: what its requests may give, and how they are answered.

use std::collections::BTreeMap;

use rowstream_encode::{BytesForm, Choice, Format, Intervals, Nulls, Numbers};
use serde_json::{Map, Value, json};

use super::schema::{Answers, reference};
use super::{Asked, Version, security};
use crate::check::Columns;
use crate::completeness::digest::Algorithm;
use crate::completeness::{End, Wait};
use crate::config::Config;
use crate::endpoint::{Authorization, Endpoint, Followed, Handler};
use crate::error::{self, pages};
use crate::params::{Param, ParamPlace, ParamType, ParamValue};

/// An endpoint that is described.
pub(super) struct Operation<'a> {
    pub(super) config: &'a Config,
    pub(super) endpoint: &'a Endpoint,
    /// The columns of its statements, where they are known.
    pub(super) columns: Option<&'a [Option<Columns>]>,
    pub(super) asked: Asked,
    /// Its name, which its schemas have as well.
    pub(super) name: &'a str,
}

impl Operation<'_> {
    /// The operation object; its schemas are added to those of the document.
    pub(super) fn describe(&self, schemas: &mut Map<String, Value>) -> Value {
        let mut operation = json!({"operationId": format!("get{}", self.name)});
        if let Some(summary) = &self.endpoint.summary {
            operation["summary"] = summary.as_str().into();
        }
        operation["parameters"] = self.parameters();
        operation["responses"] = self.responses(schemas).into();
        operation["security"] = security(self.config, &self.endpoint.authorization);
        operation
    }

    fn parameters(&self) -> Value {
        let own = self.endpoint.params.iter().filter_map(parameter);
        let controls = self.controls().map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
        let format = (!self.is_proxy()).then(|| {
            let formats: Vec<_> = self.endpoint.formats.iter().copied().map(Format::name).collect();
            let schema = json!({"type": "string", "enum": formats});
            json!({"name": "_format", "in": "query", "description": "the format", "schema": schema})
        });
        own.chain(format).chain(controls).collect()
    }

    fn is_proxy(&self) -> bool {
        matches!(self.endpoint.handler, Handler::Proxy(_))
    }

    /// The control parameters, but for `_format`.
    fn controls(&self) -> impl Iterator<Item = &'static str> {
        let (has_key, is_followed) = (self.endpoint.key().is_some(), self.endpoint.follow().is_some());
        let has_shards = self.endpoint.shards().is_some();
        let is_explained = self.endpoint.explained.is_some();
        let is_taken = move |name: &&str| match *name {
            "after" => has_key,
            "follow" => is_followed,
            "shard" | "snapshot" => has_shards,
            "explain" => is_explained,
            _ => true,
        };
        let is_proxy = self.is_proxy();
        CONTROLS.iter().map(|(name, ..)| *name).filter(move |name| !is_proxy && is_taken(name))
    }

    fn responses(&self, schemas: &mut Map<String, Value>) -> Map<String, Value> {
        let mut responses = Map::new();
        responses.insert("200".to_owned(), self.success(schemas));
        if self.endpoint.formats.contains(&Format::Sse) && self.endpoint.key().is_some() {
            let description = "No row is left: an `EventSource` does not connect again.";
            responses.insert("204".to_owned(), json!({"description": description}));
        }
        for (status, codes) in self.errors() {
            responses.insert(status.to_string(), failure(&codes));
        }
        responses
    }

    fn success(&self, schemas: &mut Map<String, Value>) -> Value {
        if self.is_proxy() {
            return json!({"description": "What the upstream answers, as it comes.", "content": {"*/*": {}}});
        }
        let answers = Answers::new(self.endpoint, self.columns, self.asked, self.name);
        let row = answers.add_row(schemas);
        let mut content = Map::new();
        for format in &self.endpoint.formats {
            let described = match format {
                Format::Json => {
                    schemas.insert(self.name.to_owned(), answers.body(row.as_deref()));
                    json!({"schema": reference(self.name)})
                }
                Format::Ndjson | Format::JsonSeq | Format::Sse => self.stream(*format, row.as_deref()),
                Format::Csv => text("a line for each row, as RFC 4180 has them"),
                Format::Arrow => json!({}),
            };
            content.insert(format.media_type().to_owned(), described);
        }
        let key = self.endpoint.key().is_some();
        let names = HEADERS.iter().map(|(name, ..)| *name);
        let (parallel, shards) = (self.endpoint.parallel().is_some(), self.endpoint.shards().is_some());
        let names = names.filter(|name| match *name {
            "Rowstream-Page" | "Link" => key,
            "Rowstream-Parts" => parallel,
            "Rowstream-Snapshot" => shards,
            _ => true,
        });
        let headers: Map<_, _> = names
            .filter(|name| *name != RETRY_AFTER)
            .map(|name| (name.to_owned(), json!({"$ref": format!("#/components/headers/{name}")})))
            .collect();
        let description = "The rows. An answer that breaks off is not whole.";
        json!({"description": description, "headers": headers, "content": content})
    }

    /// A format whose items are rows.
    fn stream(&self, format: Format, row: Option<&str>) -> Value {
        let row = row.map_or_else(|| json!({"type": "object"}), reference);
        let item = match format {
            Format::Sse => json!({
                "type": "object",
                "required": ["data"],
                "properties": {
                    "event": {"type": "string"},
                    "id": {"type": "string", "description": "the cursor of the row"},
                    "data": {
                        "type": "string", "contentMediaType": "application/json", "contentSchema": row,
                    },
                },
            }),
            _ => row,
        };
        match self.asked.version {
            Version::V3_1 => {
                let mut described = text("each of its items is as `x-itemSchema` says");
                described["x-itemSchema"] = item;
                described
            }
            Version::V3_2 => json!({"itemSchema": item}),
        }
    }

    /// The codes of the errors that it may answer with, by their status.
    fn errors(&self) -> BTreeMap<u16, Vec<&'static str>> {
        let mut errors = BTreeMap::<u16, Vec<_>>::new();
        for code in error::codes().filter(|code| self.may_fail_with(code)) {
            if let Some(status) = pages::status(code) {
                errors.entry(status).or_default().push(code);
            }
        }
        errors
    }

    fn may_fail_with(&self, code: &str) -> bool {
        let endpoint = self.endpoint;
        let is_sql = matches!(endpoint.handler, Handler::Sql(_));
        let asks_token = endpoint.authorization != Authorization::Public;
        match code {
            // Of the command line, of the admin endpoints, and of requests that are no GET of it.
            "create_failed" | "demo_failed" | "not_ready" | "no_endpoint" | "method_not_allowed" => false,
            "unauthorized" | "token_expired" | "forbidden" => asks_token,
            "keys_unavailable" => asks_token && self.config.jwt.is_some(),
            "claim_missing" => endpoint.params.iter().any(|param| param.place == ParamPlace::Claim),
            "invalid_cursor" => endpoint.key().is_some(),
            "cursor_ahead" => endpoint.follow().is_some(),
            "snapshot_expired" | "too_many_snapshots" => endpoint.shards().is_some(),
            "not_found" => endpoint.not_found(),
            "too_many_streams_of_client" => self.config.limits.max_streams_per_client.is_some(),
            "too_many_streams_of_endpoint" => endpoint.max_streams.is_some(),
            "conflict" | "invalid_data" => is_sql,
            _ if code.starts_with("statement_") || code.starts_with("source_") => is_sql,
            _ if code.starts_with("upstream_") => endpoint.asks_upstreams(),
            _ => true,
        }
    }
}

fn text(description: &str) -> Value {
    json!({"schema": {"type": "string", "description": description}})
}

/// Problem documents of one status.
fn failure(codes: &[&str]) -> Value {
    let links: Vec<_> = codes.iter().map(|code| format!("[{code}]({}{code})", pages::ADDRESS)).collect();
    let narrowed = json!({"type": "object", "properties": {"code": {"enum": codes}}});
    let mut response = json!({
        "description": links.join(", "),
        "content": {"application/problem+json": {"schema": {"allOf": [reference("Problem"), narrowed]}}},
    });
    let retries = |code: &&str| pages::of(code).is_some_and(|page| page.contains("**, with `Retry-After`"));
    if codes.iter().any(retries) {
        response["headers"] = json!({RETRY_AFTER: {"$ref": format!("#/components/headers/{RETRY_AFTER}")}});
    }
    response
}

/// A parameter of the endpoint's own; `None` where it is no part of the request but of its token.
fn parameter(param: &Param) -> Option<Value> {
    let (place, name) = match &param.place {
        ParamPlace::Path => ("path", param.name.clone()),
        ParamPlace::Query => ("query", param.name.clone()),
        ParamPlace::Header(name) => ("header", name.to_string()),
        ParamPlace::Claim => return None,
    };
    let is_required = param.default.is_none() || param.place == ParamPlace::Path;
    let mut parameter = json!({"name": name, "in": place, "required": is_required});
    if let Some(summary) = &param.summary {
        parameter["description"] = summary.as_str().into();
    }
    match (param.kind, param.list) {
        // It is a text that holds JSON.
        (ParamType::Json, false) => parameter["content"] = json!({"application/json": {"schema": {}}}),
        _ => parameter["schema"] = schema(param),
    }
    Some(parameter)
}

fn schema(param: &Param) -> Value {
    let (kind, format) = match param.kind {
        ParamType::Integer => ("integer", Some("int64")),
        ParamType::Number => ("number", None),
        ParamType::Text | ParamType::Json => ("string", None),
        ParamType::Boolean => ("boolean", None),
        ParamType::Date => ("string", Some("date")),
        ParamType::Timestamp => ("string", Some("date-time")),
        ParamType::Duration => ("string", Some("duration")),
        ParamType::Uuid => ("string", Some("uuid")),
    };
    let allowed: Vec<_> = param.allowed.iter().filter_map(value).collect();
    let members = [
        ("format", format.map(Value::from)),
        ("minimum", param.min.as_ref().and_then(value)),
        ("maximum", param.max.as_ref().and_then(value)),
        ("enum", (!allowed.is_empty()).then(|| allowed.into())),
    ];
    let mut schema = json!({"type": kind});
    for (name, value) in members {
        if let Some(value) = value {
            schema[name] = value;
        }
    }
    if param.list {
        schema = json!({"type": "array", "items": schema});
    }
    if let Some(default) = param.default.as_ref().and_then(value) {
        schema["default"] = default;
    }
    schema
}

/// A value of a parameter as JSON; `None`: NULL, or a number that JSON cannot hold.
fn value(value: &ParamValue) -> Option<Value> {
    Some(match value {
        ParamValue::Null => return None,
        ParamValue::Integer(integer) => (*integer).into(),
        ParamValue::Number(text) => serde_json::from_str::<serde_json::Number>(text).ok()?.into(),
        ParamValue::Boolean(boolean) => (*boolean).into(),
        ParamValue::List(items) => items.iter().filter_map(self::value).collect(),
        other => other.postgres_text()?.into(),
    })
}

/// Control parameters that many endpoints take: the name without its underscore, what it does, and
/// its values, of which there are none where any text is one.
type Control = (&'static str, &'static str, fn() -> Vec<&'static str>);
const CONTROLS: &[Control] = &[
    ("after", "the cursor of the row after which the rows begin", Vec::new),
    ("follow", "waits for new rows", names::<Followed>),
    ("shard", "which of n parts of the table is read: `i/n`, from `1/n` to `n/n`", Vec::new),
    ("snapshot", "the token of the snapshot that a shard is of", Vec::new),
    ("end", "a record of the server's own at the end of the rows", names::<End>),
    ("digest", "a digest of what is sent", names::<Algorithm>),
    ("explain", "answers with how the database would run the statements", || vec!["0", "1"]),
    ("wait", "answers once all of the result is there", names::<Wait>),
    ("download", "the name of the file that a browser saves", Vec::new),
    ("numbers", "how integers of 64 bits and decimals are written", names::<Numbers>),
    ("bytes", "how bytes are written", names::<BytesForm>),
    ("intervals", "how intervals are written", names::<Intervals>),
    ("nulls", "what becomes of members that are NULL", names::<Nulls>),
];

/// Names of files as `_download` takes them: without folders and invisible characters, but for
/// those beyond 16 bits, which not all dialects of patterns can say.
const FILE_NAME: &str = r"^[^/\\\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]+$";

fn names<C: Choice>() -> Vec<&'static str> {
    C::ALL.iter().map(|choice| choice.name()).collect()
}

/// The control parameters as components.
pub(super) fn controls() -> Value {
    let control = |(name, description, values): &Control| {
        let mut schema = json!({"type": "string"});
        let values = values();
        if !values.is_empty() {
            schema["enum"] = values.into();
        }
        if *name == "download" {
            schema["pattern"] = FILE_NAME.into();
        }
        let parameter = json!({
            "name": format!("_{name}"), "in": "query", "description": description, "schema": schema,
        });
        ((*name).to_owned(), parameter)
    };
    CONTROLS.iter().map(control).collect::<Map<_, _>>().into()
}

const RETRY_AFTER: &str = "Retry-After";

/// Headers of answers: the name, what it says, and the type.
const HEADERS: &[(&str, &str, &str)] = &[
    ("Rowstream-Stream", "the id at which `/_rowstream/streams/{id}` says how the stream went", "string"),
    ("Rowstream-Tag", "the tag of the server's own records, where `_end` asks for them", "string"),
    ("Rowstream-Page", "whether pages follow: `full`, `last` or `streamed`", "string"),
    ("Rowstream-Parts", "how many connections read parts of the table", "integer"),
    ("Rowstream-Snapshot", "the token of the snapshot that a shard is of, for the others", "string"),
    ("Link", "the next page (`rel=\"next\"`)", "string"),
    ("Rowstream-Changes", "how values are written that are not written as by default", "string"),
    ("Content-Digest", "the digest of the body (RFC 9530), where it is known before it", "string"),
    ("Server-Timing", "where the time went until the head", "string"),
    (RETRY_AFTER, "in how many seconds another try is worth it", "integer"),
];

/// The headers as components.
pub(super) fn headers() -> Value {
    let header = |(name, description, kind): &(&str, &str, &str)| {
        ((*name).to_owned(), json!({"description": description, "schema": {"type": kind}}))
    };
    HEADERS.iter().map(header).collect::<Map<_, _>>().into()
}
