//! One endpoint of the document: the parameters of its requests, and its responses.

use std::collections::BTreeMap;

use rowstream_core::error;
use rowstream_core::params::completeness::{AwaitedEvent, DigestAlgorithm, End};
use rowstream_core::params::{ChosenOptions, Param, ParamPlace, ParamType, ParamValue};
use rowstream_encode::{BytesForm, Choice, Format, Intervals, Nulls, Numbers};
use serde_json::{Map, Value, json};

use super::schema::{ResponseSchemas, reference};
use super::{DocumentOptions, OpenApiVersion, request_body, security};
use crate::check::Columns;
use crate::config::Config;
use crate::endpoint::{Authorization, Endpoint, FollowMode, Handler, RefineSettings};
use crate::{error_pages, negotiate};

/// A described endpoint.
pub(super) struct Operation<'a> {
    pub(super) config: &'a Config,
    pub(super) endpoint: &'a Endpoint,
    /// The columns of its statements, if they are known.
    pub(super) columns: Option<&'a [Option<Columns>]>,
    pub(super) requested: DocumentOptions,
    /// Its name, which its schemas share.
    pub(super) name: String,
}

/// Parts that many operations share, with their component names.
#[derive(Default)]
pub(super) struct SharedComponents {
    /// Problem documents, by status and codes.
    failures: BTreeMap<(u16, Vec<&'static str>), String>,
    /// The parameter `_format`, by its values.
    formats: BTreeMap<Vec<&'static str>, String>,
}

/// The response of an event stream with no row left.
const NO_ROW: &str = "NoRow";

impl SharedComponents {
    /// The components that [`Operation::describe`] refers to as responses.
    pub(super) fn responses(&self) -> Value {
        let failures = self.failures.iter().map(|((_, codes), name)| (name.clone(), failure(codes)));
        let description = "An `EventSource` has all rows, or can't resume, so it doesn't connect again.";
        let no_row = (NO_ROW.to_owned(), json!({"description": description}));
        failures.chain([no_row]).collect::<Map<_, _>>().into()
    }

    /// The components that [`Operation::describe`] refers to as parameters.
    pub(super) fn parameters(&self, chosen: ChosenOptions) -> Value {
        let format = |(formats, name): (&Vec<&str>, &String)| {
            let schema = json!({"type": "string", "enum": formats});
            let format =
                json!({"name": "_format", "in": "query", "description": "the format", "schema": schema});
            (name.clone(), format)
        };
        let shared = refined().chain(controls(chosen));
        self.formats.iter().map(format).chain(shared).collect::<Map<_, _>>().into()
    }

    fn failure(&mut self, status: u16, codes: Vec<&'static str>) -> Value {
        let number = self.failures.keys().filter(|(known, _)| *known == status).count();
        let name = self
            .failures
            .entry((status, codes))
            .or_insert_with(|| numbered(&format!("Error{status}"), number));
        json!({"$ref": format!("#/components/responses/{name}")})
    }

    fn format(&mut self, formats: Vec<&'static str>) -> Value {
        let number = self.formats.len();
        let name = self.formats.entry(formats).or_insert_with(|| numbered("format", number));
        json!({"$ref": format!("#/components/parameters/{name}")})
    }
}

/// The name of a component, after `before` others of its kind.
fn numbered(kind: &str, before: usize) -> String {
    if before == 0 { kind.to_owned() } else { format!("{kind}-{}", before + 1) }
}

impl Operation<'_> {
    /// The operation object of a GET.
    pub(super) fn describe(&self, shared: &mut SharedComponents) -> Value {
        let mut operation = self.begin("get");
        operation["parameters"] = self.parameters(shared);
        operation["responses"] = self.responses(shared).into();
        operation["security"] = security(self.config, &self.endpoint.authorization, |_| true);
        operation
    }

    /// The operation object of `method`, without its parameters and its responses.
    pub(super) fn begin(&self, method: &str) -> Value {
        let mut operation = json!({"operationId": format!("{method}{}", self.name)});
        if let Some(summary) = &self.endpoint.summary {
            operation["summary"] = summary.as_str().into();
        }
        operation
    }

    /// The schemas that it refers to: its rows, its JSON body, and its parameters in a request's body.
    pub(super) fn schemas(&self) -> impl Iterator<Item = (String, Value)> {
        let answers = (!self.endpoint.is_proxy()).then(|| self.answers());
        let row = answers.as_ref().and_then(ResponseSchemas::named_row);
        let row_name = row.as_ref().map(|(name, _)| name.clone());
        let has_body = self.endpoint.formats.contains(&Format::Json);
        let body = answers
            .filter(|_| has_body)
            .map(|answers| (self.name.clone(), answers.body(row_name.as_deref())));
        row.into_iter().chain(body).chain(self.body_schema())
    }

    fn answers(&self) -> ResponseSchemas<'_> {
        ResponseSchemas::new(self.endpoint, self.columns, self.requested, &self.name)
    }

    fn parameters(&self, shared: &mut SharedComponents) -> Value {
        let own = self.endpoint.params.iter().filter_map(parameter);
        let refined = self.refined().map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
        own.chain(refined).chain(self.shared_parameters(shared)).collect()
    }

    /// `_format` and the control parameters.
    pub(super) fn shared_parameters(&self, shared: &mut SharedComponents) -> impl Iterator<Item = Value> {
        let controls = self.controls().map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
        let formats = || self.endpoint.formats.iter().copied().map(Format::name).collect();
        let format = (!self.endpoint.is_proxy()).then(|| shared.format(formats()));
        format.into_iter().chain(controls)
    }

    /// The parameters that filter, sort and select.
    pub(super) fn refined(&self) -> impl Iterator<Item = &'static str> {
        let words = self.endpoint.refine_settings().map(RefineSettings::words).unwrap_or_default();
        let is_taken = move |name: &&str| match *name {
            "and" | "or" => words.contains(&"filters"),
            name => words.contains(&name),
        };
        REFINED.iter().map(|(name, ..)| *name).filter(is_taken)
    }

    /// The control parameters, except `_format`.
    fn controls(&self) -> impl Iterator<Item = &'static str> {
        let (has_key, is_followed) = (self.endpoint.key().is_some(), self.endpoint.follow().is_some());
        let has_shards = self.endpoint.shards().is_some();
        let is_explained = self.endpoint.explained.is_some();
        let has_csv = self.endpoint.formats.contains(&Format::Csv);
        let chosen = self.requested.options;
        let is_taken = move |name: &&str| match *name {
            "after" => has_key || has_shards,
            "follow" => is_followed,
            "shard" | "snapshot" => has_shards,
            "explain" => is_explained,
            // These change the types of values, so a document describes requests with the same
            // choice.
            "csv_separator" | "csv_bom" | "csv_null" | "csv_guard" => has_csv,
            "numbers" | "bytes" | "intervals" | "nulls" => chosen.of(name).is_some(),
            _ => true,
        };
        let is_proxy = self.endpoint.is_proxy();
        CONTROLS.iter().map(|(name, ..)| *name).filter(move |name| !is_proxy && is_taken(name))
    }

    fn responses(&self, shared: &mut SharedComponents) -> Map<String, Value> {
        let mut responses = Map::from_iter([("200".to_owned(), self.success())]);
        responses.extend(self.other_responses(shared, |code| !request_body::CODES.contains(&code)));
        responses
    }

    /// The responses without rows: the end of an event stream, and the errors with these codes.
    pub(super) fn other_responses(
        &self,
        shared: &mut SharedComponents,
        is_of_method: impl Fn(&str) -> bool,
    ) -> Map<String, Value> {
        let mut responses = Map::new();
        if self.endpoint.formats.contains(&Format::Sse) {
            responses.insert("204".to_owned(), json!({"$ref": format!("#/components/responses/{NO_ROW}")}));
        }
        for (status, codes) in self.errors(is_of_method) {
            responses.insert(status.to_string(), shared.failure(status, codes));
        }
        responses
    }

    fn success(&self) -> Value {
        if self.endpoint.is_proxy() {
            return json!({"description": "The upstream's response, unchanged.", "content": {"*/*": {}}});
        }
        let row = self.answers().row_name();
        let mut content = Map::new();
        for format in &self.endpoint.formats {
            let described = match format {
                Format::Json => json!({"schema": reference(&self.name)}),
                Format::Ndjson | Format::JsonSeq | Format::Sse => self.stream(*format, row.as_deref()),
                Format::Csv => text("a line for each row, as in RFC 4180"),
                Format::Arrow => json!({}),
                Format::Html => text("a page for browsers, with the rows as a table"),
            };
            content.insert(format.media_type().to_owned(), described);
        }
        if self.endpoint.returns_only_row() {
            let schema = row.as_deref().map_or_else(|| json!({"type": "object"}), reference);
            content.insert(negotiate::ONLY_ROW.to_owned(), json!({"schema": schema}));
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
        let description = "The rows. A response that is cut is incomplete.";
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
        match self.requested.version {
            OpenApiVersion::V3_1 => {
                let mut described = text("`x-itemSchema` describes each item");
                described["x-itemSchema"] = item;
                described
            }
            OpenApiVersion::V3_2 => json!({"itemSchema": item}),
        }
    }

    /// The codes of its possible errors, by status.
    fn errors(&self, is_of_method: impl Fn(&str) -> bool) -> BTreeMap<u16, Vec<&'static str>> {
        let mut errors = BTreeMap::<u16, Vec<_>>::new();
        for code in error::codes().filter(|code| is_of_method(code) && self.may_fail_with(code)) {
            if let Some(status) = error_pages::status(code) {
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
            // Errors of the command line, of admin endpoints, and of other methods.
            "create_failed" | "demo_failed" | "not_ready" | "no_endpoint" | "method_not_allowed" => false,
            "unauthorized" | "token_expired" | "forbidden" => asks_token,
            "invalid_signature" => asks_token && self.config.url_signer.is_some(),
            "keys_unavailable" => asks_token && self.config.jwt.is_some(),
            "claim_missing" => endpoint.params.iter().any(|param| param.place == ParamPlace::Claim),
            "invalid_cursor" => endpoint.key().is_some() || endpoint.shards().is_some(),
            "cursor_ahead" => endpoint.follow().is_some(),
            "snapshot_expired" | "too_many_snapshots" => endpoint.shards().is_some(),
            "not_found" => endpoint.not_found(),
            "PGRST116" => endpoint.returns_only_row(),
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
    let links: Vec<_> = codes.iter().map(|code| format!("[{code}]({}{code})", error::PAGES)).collect();
    let narrowed = json!({"type": "object", "properties": {"code": {"enum": codes}}});
    let mut response = json!({
        "description": links.join(", "),
        "content": {"application/problem+json": {"schema": {"allOf": [reference("Problem"), narrowed]}}},
    });
    let retries = |code: &&str| {
        error_pages::of(code).is_some_and(|page| page.contains("**, `retry: true`, with `Retry-After`"))
    };
    if codes.iter().any(retries) {
        response["headers"] = json!({RETRY_AFTER: {"$ref": format!("#/components/headers/{RETRY_AFTER}")}});
    }
    response
}

/// One of the endpoint's own parameters. `None` if it's in the token, not in the request.
pub(super) fn parameter(param: &Param) -> Option<Value> {
    let (place, name) = match &param.place {
        ParamPlace::Path => ("path", param.name.clone()),
        ParamPlace::Query => ("query", param.name.clone()),
        ParamPlace::Header { spelling, .. } => ("header", spelling.clone()),
        ParamPlace::Claim => return None,
    };
    let is_required = param.default.is_none() || param.place == ParamPlace::Path;
    let mut parameter = json!({"name": name, "in": place, "required": is_required});
    if let Some(summary) = &param.summary {
        parameter["description"] = summary.as_str().into();
    }
    match (param.kind, param.list) {
        // A text that contains JSON.
        (ParamType::Json, false) => {
            parameter["content"] = json!({"application/json": {"schema": json_value(param)}});
        }
        _ => parameter["schema"] = schema(param),
    }
    Some(parameter)
}

/// The schema of the JSON that a parameter is.
pub(super) fn json_value(param: &Param) -> Value {
    let default = param.default.as_ref().and_then(ParamValue::postgres_text);
    match default.and_then(|text| serde_json::from_str::<Value>(&text).ok()) {
        Some(default) => json!({ "default": default }),
        None => json!({}),
    }
}

/// The schema of a parameter.
pub(super) fn schema(param: &Param) -> Value {
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

/// The value of a parameter as JSON. `None` for NULL, and for numbers that JSON can't represent.
fn value(value: &ParamValue) -> Option<Value> {
    Some(match value {
        ParamValue::Null => return None,
        ParamValue::Integer(integer) => (*integer).into(),
        ParamValue::Number(text) => serde_json::from_str::<serde_json::Number>(text).ok()?.into(),
        ParamValue::Float(float) => (*float).into(),
        ParamValue::Boolean(boolean) => (*boolean).into(),
        ParamValue::List(items) => items.iter().filter_map(self::value).collect(),
        other => other.postgres_text()?.into(),
    })
}

/// Control parameters of many endpoints: the name without its underscore, the description, and the
/// values. No values means any text.
type Control = (&'static str, &'static str, fn() -> Vec<&'static str>);
const CONTROLS: &[Control] = &[
    ("after", "the cursor of a row; the response begins after it", Vec::new),
    ("follow", "waits for new rows", names::<FollowMode>),
    ("shard", "the part of the table to read: `i/n`, from `1/n` to `n/n`", Vec::new),
    ("snapshot", "the token of the snapshot that a shard reads", Vec::new),
    ("end", "a record of the server after the last row", names::<End>),
    ("digest", "a digest of the content", names::<DigestAlgorithm>),
    ("explain", "returns the database's plan of the statements", || vec!["0", "1"]),
    ("wait", "responds once the whole result is known", names::<AwaitedEvent>),
    ("download", "the file name for a browser's download", Vec::new),
    ("numbers", "the form of 64-bit integers and decimals", names::<Numbers>),
    ("bytes", "the form of bytes", names::<BytesForm>),
    ("intervals", "the form of intervals", names::<Intervals>),
    ("nulls", "the form of members that are NULL", names::<Nulls>),
    ("csv_separator", "the separator of CSV", || vec!["comma", "semicolon", "tab", "pipe"]),
    ("csv_bom", "a byte order mark before CSV, for Excel", || vec!["0", "1"]),
    ("csv_null", "the text for NULL in CSV", Vec::new),
    ("csv_guard", "an apostrophe before texts of CSV that a spreadsheet would run as formulas", || vec!["1"]),
];

/// The parameters of filtered lists: the name, the description, and the type.
pub(super) const REFINED: [(&str, &str, &str); 8] = [
    ("filters", "conditions on columns: `column=operator.value`, for example `status=eq.PAID`", "object"),
    ("and", "conditions that all have to be met: `(a.eq.1,b.gt.2)`", "string"),
    ("or", "conditions of which one has to be met: `(a.eq.1,b.gt.2)`", "string"),
    ("select", "the columns of the response: `id,total:amount`", "string"),
    ("order", "the order of the rows: `created.desc.nullslast,id`", "string"),
    ("limit", "how many rows at most", "integer"),
    ("offset", "how many rows to leave out at the beginning", "integer"),
    (
        "_count",
        "`exact`: the header `Content-Range` has the number of all rows. Endpoints that allow it also have \
         `planned` and `estimated`",
        "string",
    ),
];

/// The parameters of filtered lists as components. The names of conditions are those of columns.
fn refined() -> impl Iterator<Item = (String, Value)> {
    REFINED.iter().map(|(name, description, kind)| {
        let mut parameter =
            json!({"name": name, "in": "query", "required": false, "description": description});
        if *kind == "object" {
            (parameter["style"], parameter["explode"]) = ("form".into(), true.into());
            // The name isn't in the URL. No endpoint can have a parameter of this name.
            parameter["name"] = format!("_{name}").into();
        }
        parameter["schema"] = refined_schema(kind);
        ((*name).to_owned(), parameter)
    })
}

/// The schema of a parameter of filtered lists, by its type.
pub(super) fn refined_schema(kind: &str) -> Value {
    match kind {
        "object" => json!({"type": kind, "additionalProperties": {"type": "string"}}),
        "integer" => json!({"type": kind, "format": "int64", "minimum": 0}),
        _ => json!({"type": kind}),
    }
}

/// The pattern of `_download`: file names without folders and invisible characters. It doesn't
/// exclude those beyond 16 bits, because not all pattern dialects can express them.
const FILE_NAME: &str = r"^[^/\\\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]+$";

/// The pattern of `_csv_null`, as [`CsvChoice::null`](rowstream_encode::CsvChoice::null) reads it.
const CSV_NULL: &str = r"^[A-Za-z0-9\\_.<>/]{0,16}$";

fn names<C: Choice>() -> Vec<&'static str> {
    C::ALL.iter().map(|choice| choice.name()).collect()
}

/// The control parameters as components. If one changes the types of values, only its chosen value
/// is listed.
fn controls(chosen: ChosenOptions) -> impl Iterator<Item = (String, Value)> {
    CONTROLS.iter().map(move |(name, description, values)| {
        let mut schema = json!({"type": "string"});
        let chosen = chosen.of(name);
        let values = chosen.map_or_else(values, |value| vec![value]);
        if !values.is_empty() {
            schema["enum"] = values.into();
        }
        match *name {
            "download" => schema["pattern"] = FILE_NAME.into(),
            "csv_null" => schema["pattern"] = CSV_NULL.into(),
            _ => {}
        }
        let parameter = json!({
            "name": format!("_{name}"), "in": "query", "required": chosen.is_some(),
            "description": description, "schema": schema,
        });
        ((*name).to_owned(), parameter)
    })
}

const RETRY_AFTER: &str = "Retry-After";

/// Headers of responses: the name, the description and the type.
const HEADERS: &[(&str, &str, &str)] = &[
    ("Rowstream-Stream", "the stream's id; `/_rowstream/streams/{id}` reports its outcome", "string"),
    ("Rowstream-Root", "the server's root, relative to the request's path: `./` or `../`", "string"),
    ("Rowstream-Tag", "the tag of the server's own records, if `_end` requests them", "string"),
    (
        "Rowstream-Wire",
        "the version of the wire contract, in framed responses, `sse` and live tails",
        "integer",
    ),
    ("Rowstream-Resume", "the cursors that resume a cut response: `marks`, `ids` or `none`", "string"),
    ("Rowstream-Heartbeat", "the longest silence after the headers, in seconds", "number"),
    (
        "Rowstream-Page",
        "the kind of page, which tells if more follow: `full`, `last` or `streamed`",
        "string",
    ),
    ("Content-Range", "with `_count`, the page's rows and the number of all rows: `0-24/1234`", "string"),
    ("Rowstream-Parts", "the number of connections that read parts of the table", "integer"),
    ("Rowstream-Snapshot", "the token of the shard's snapshot, for the other shards", "string"),
    ("Link", "the next page (`rel=\"next\"`)", "string"),
    ("Rowstream-Changes", "the forms of values that differ from the default", "string"),
    ("Content-Digest", "the digest of the body (RFC 9530), if it's known before the body", "string"),
    ("Server-Timing", "the times before the headers, by phase", "string"),
    (RETRY_AFTER, "the seconds to wait before another try", "integer"),
];

/// The headers as components.
pub(super) fn headers() -> Value {
    let header = |(name, description, kind): &(&str, &str, &str)| {
        ((*name).to_owned(), json!({"description": description, "schema": {"type": kind}}))
    };
    HEADERS.iter().map(header).collect::<Map<_, _>>().into()
}
