//! Reads one endpoint file: `.sql` with TOML in its first comment, or `.toml` with `sql = "…"` or
//! `[upstream]`.
//!
//! After an error, reading continues. The endpoint of a file with errors is only good for finding
//! more of them.

mod refcursors;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rowstream_core::diagnostic::reader::{Table, Value};
use rowstream_core::diagnostic::{File, place, shown, suggest};
use rowstream_core::params::{BindType, Param, ParamPlace};
use rowstream_core::sql::dialect::Refusal;
use rowstream_core::sql::{self, Dialect, Nesting, OptionalPart, Refcursors, Section, Sql, SqlError};
use rowstream_encode::{CsvDialect, Format, Segment, Template as Body, ValueOptions};

use super::lookup::EncoderCache;
use super::params::{self, DeclaredParam};
use super::refine::RefineValues;
use super::upstream::per_row;
use super::{
    Authorization, Cardinality, Compression, Endpoint, Handler, NestedRows, OneRow, Origin, ParallelRead,
    Piece, RowKey, Shards, SlowClients, SourceRef, Statement, Timeout, compression, csv, follow, handler,
    key::{self, KeyRefusal},
    links, optional, parallel, path, slow_clients, timeout, upstream, values,
};
use crate::database;
use crate::source::{SourceConfig, SourceKind};

/// Names after a `$` with a special meaning, now or later.
const RESERVED: [&str; 3] = ["count", "next", "digest"];

/// The default silence before a heartbeat in a stream of events. Proxies consider a connection dead
/// after 30 s or more.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// How the server can identify clients.
#[derive(Debug, Default)]
pub(crate) struct ClientIdentification {
    /// True if the configuration has tokens or `[jwt]`.
    pub(crate) asks: bool,
    /// True if tokens have claims.
    pub(crate) has_claims: bool,
    /// The names that `authorization` may use: those of tokens, and of scopes.
    pub(crate) scopes: Vec<String>,
}

/// Names that an endpoint file may refer to, and defaults for the settings that it lacks.
pub(crate) struct Defaults<'a> {
    /// The sources by name. A source with an error has no settings.
    pub(crate) sources: &'a [(String, Option<SourceConfig>)],
    /// How the server can identify clients.
    pub(crate) identification: &'a ClientIdentification,
    /// The default authorization of endpoints. `None`: each endpoint must set its own.
    pub(crate) authorization: Option<Authorization>,
    /// The default for CSV.
    pub(crate) csv: CsvDialect,
    /// The default for values.
    pub(crate) options: ValueOptions,
    /// The default for compression.
    pub(crate) compression: Compression,
    /// The default for heartbeats.
    pub(crate) heartbeat: Duration,
    /// The secret that signs cursors.
    pub(crate) cursor_secret: &'a str,
    /// The default time limits.
    pub(crate) timeout: Timeout,
    /// The default treatment of slow clients.
    pub(crate) slow_clients: SlowClients,
}

impl<'a> Defaults<'a> {
    /// The defaults of a server whose configuration sets none of them. Every client may call its
    /// endpoints.
    pub(crate) fn new(
        sources: &'a [(String, Option<SourceConfig>)],
        identification: &'a ClientIdentification,
    ) -> Self {
        Self {
            sources,
            identification,
            authorization: Some(Authorization::Public),
            csv: CsvDialect::default(),
            options: ValueOptions::DEFAULT,
            compression: Compression::default(),
            heartbeat: HEARTBEAT,
            cursor_secret: "",
            timeout: Timeout::default(),
            slow_clients: SlowClients::default(),
        }
    }

    /// The database with this name, if it has no error.
    fn database(&self, name: &str) -> Option<(SourceRef, &'static Dialect)> {
        let (_, source) = self.sources.iter().find(|(known, _)| known == name)?;
        Some((SourceRef::bind(self.sources, name)?, dialect_of(source.as_ref())?))
    }
}

/// Reads an endpoint file. `relative` is its path below the folder of endpoints. Returns `None` and
/// records the reason if too much of it can't be read.
pub(crate) fn read(file: File<'_>, relative: &Path, defaults: &Defaults<'_>) -> Option<Endpoint> {
    let errors = file.errors.count();
    let mut endpoint = read_form(file, relative, defaults, None)?;
    if file.errors.count() > errors {
        return Some(endpoint);
    }
    optional::add_forms(file, &mut endpoint, |file, left_out| {
        read_form(file, relative, defaults, Some(left_out))
    });
    Some(endpoint)
}

/// Reads an endpoint file without the optional parts of some parameters; `None` leaves nothing out.
fn read_form(
    file: File<'_>,
    relative: &Path,
    defaults: &Defaults<'_>,
    left_out: Option<&[&str]>,
) -> Option<Endpoint> {
    let (mut table, definition) = open(file)?;
    if let DataDefinition::Upstream(value) = &definition {
        upstream::refuse_others(&mut table, value);
    }
    let path = path::read(file, &mut table, relative);
    let mut declared = params::read(file, &mut table, &path);
    let summary = table.take("summary").and_then(|value| value.string());
    let (key, version) = (table.take("key"), table.take("cursor_version"));
    let key = key::read_settings(key.as_ref(), version.as_ref());
    let refine = RefineValues {
        filter: table.take("filter"),
        sort: table.take("sort"),
        select: table.take("select"),
        total: table.take("total"),
    };
    let follow = table.take("follow");
    let parallel = table.take("parallel");
    let shards = table.take("shards");
    let enrich = table.take("enrich").map(|value| per_row::read_enrich(&value, &declared, defaults));
    let authorization = endpoint_authorization(file, table.take("authorization"), defaults);
    let source = match &definition {
        DataDefinition::Sql(_) => choose_source(file, table.take("source").as_ref(), defaults),
        DataDefinition::Upstream(_) => None,
    };
    let result = table.take("result").map(|value| (cardinality(&value), value));
    let body = table.take("body").map(|value| (read_template(&value), value));
    let next = body.as_ref().map_or(0, |(_, value)| value.find(|text| text == "$next"));
    let formats = table.take("formats").map(|value| read_formats(&value));
    let links = table.take("links").map(|value| links::read(&value));
    let csv = match table.take("csv") {
        Some(value) => csv::read(&value, defaults.csv.clone()),
        None => defaults.csv.clone(),
    };
    let options =
        table.take("values").map_or(defaults.options, |value| values::read(&value, defaults.options));
    let compression = table.take("compression").and_then(|value| compression::read(&value));
    let heartbeat = table.take("heartbeat").and_then(|value| value.duration());
    let max_streams = table.take("max_streams").and_then(|value| value.count(1));
    let expected_duration = table.take("expected_duration").and_then(|value| value.duration());
    let timeout =
        table.take("timeout").map_or(defaults.timeout, |value| timeout::read(&value, defaults.timeout));
    let slow_clients = table.take("slow_clients").and_then(|value| slow_clients::read(&value));
    table.finish();

    // Everything below depends on the parts above, so we stop at the first error: it would cause
    // others.
    let mut calls = match enrich {
        Some(enrich) => Some(enrich?),
        None => None,
    };
    let mut optional = None;
    let (source, dialect, handler) = match definition {
        DataDefinition::Sql(text) => {
            let (source, dialect) = source?;
            let mut text = text?;
            let parts = text.optional_parts(file, dialect)?;
            optional = match left_out {
                None => optional::read(file, &parts, &declared, |at| text.offset(at)),
                Some(_) => None,
            };
            text.declare_claims(dialect, &mut declared);
            text.text = sql::without_parts(&text.text, &parts, left_out.unwrap_or_default());
            let in_requests = calls.as_ref().map(|calls| &calls.used[..]);
            let is_whole = left_out.is_none();
            let statements =
                StatementReader { file, text, dialect, declared: &declared, in_requests, is_whole };
            let statements = statements.read(result.as_ref())?;
            let is_required = result.is_some() && statements.first()?.cardinality == Cardinality::One;
            let one_row = if is_required { OneRow::Required } else { OneRow::Optional };
            let sql = handler::Sql { one_row, ..handler::Sql::new(statements) };
            (source, Some(dialect), Handler::Sql(sql))
        }
        DataDefinition::Upstream(value) if per_row::has_each(&value) => {
            let each = per_row::read_each(&value, &declared, defaults)?;
            let (source, dialect) = each_source(file, &each, defaults)?;
            let text = toml_sql(&each.sql)?;
            let in_requests = Some(&each.draft.used[..]);
            text.refuse_optional_parts(file, dialect);
            let statements =
                StatementReader { file, text, dialect, declared: &declared, in_requests, is_whole: true };
            let statements = statements.read(None).filter(|statements| each.is_list(statements))?;
            calls = Some(each.draft);
            (source, Some(dialect), Handler::Sql(handler::Sql::new(statements)))
        }
        DataDefinition::Upstream(value) => {
            let read = upstream::read(file, &value, &declared, defaults)?;
            (read.source, None, read.handler)
        }
    };
    let body = match body {
        _ if matches!(handler, Handler::Proxy(_)) => Vec::new(),
        Some((template, value)) => read_body(file, &value, template?, &row_sets(&handler))?,
        None => default_body(file, &row_sets(&handler))?,
    };
    let mut endpoint = Endpoint {
        path: path.text,
        summary,
        source,
        params: declared.into_iter().map(|declared| declared.param).collect(),
        handler,
        body,
        formats: Vec::new(),
        csv,
        options,
        compression: compression.unwrap_or(defaults.compression),
        max_streams,
        timeout,
        expected_duration,
        slow_clients: slow_clients.unwrap_or(defaults.slow_clients),
        heartbeat: heartbeat.unwrap_or(defaults.heartbeat),
        authorization,
        links: links.unwrap_or_default(),
        explained: None,
        longest_row: usize::MAX,
        file: file.path.to_owned(),
    };
    if let (Some(value), Some(dialect), Some(sql)) = (&follow, dialect, endpoint.sql_mut()) {
        sql.follow = follow::read(value, dialect);
    }
    if let (Some(key), Some(dialect)) = (key, dialect) {
        let key = read_key(file, &endpoint, key, (dialect, defaults.cursor_secret));
        endpoint.sql_mut()?.key = key;
    } else if let Some(value) = &follow
        && endpoint.follow().is_some()
    {
        value.error_with(
            "`follow` needs a `key`, but this endpoint has none",
            "name its columns: `key = [\"…\"]`",
        );
    }
    check_next(file, &endpoint, next);
    check_claims(file, &endpoint, defaults.identification);
    if let Some(calls) = calls {
        let per_row = calls.place(file, &endpoint);
        endpoint.sql_mut()?.per_row = per_row;
    }
    if let (Some(value), Some(dialect)) = (&parallel, dialect) {
        let read = read_parallel(value, &endpoint, dialect, defaults);
        endpoint.sql_mut()?.parallel = read;
    }
    if let (Some(value), Some(dialect)) = (&shards, dialect) {
        let read = read_shards(value, &endpoint, dialect, defaults);
        endpoint.sql_mut()?.shards = read;
    }
    if let Some(dialect) = dialect {
        let settings = refine.read(&endpoint, dialect, defaults.cursor_secret);
        endpoint.sql_mut()?.refine = settings;
    }
    if let (Some(optional), Some(sql)) = (optional, endpoint.sql_mut()) {
        sql.optional = Some(Box::new(optional));
    }
    check_optional(file, &endpoint);
    endpoint.formats = match formats {
        _ if matches!(endpoint.handler, Handler::Proxy(_)) => Vec::new(),
        Some(formats) => carried_formats(&formats, &endpoint),
        None => all_formats(&endpoint),
    };
    Some(endpoint)
}

/// Reads the endpoint `/rows` of one statement, from a file of only SQL. `declare` gets a name and
/// the offset of its first use. It returns the parameter, and the type to bind it as.
pub(crate) fn single(
    file: File<'_>,
    source: &str,
    dialect: &'static Dialect,
    declare: &mut dyn FnMut(&str, usize) -> (Param, BindType),
) -> Option<Endpoint> {
    let text = SqlText { text: file.text.to_owned(), origin: SqlOrigin::Verbatim(0) };
    text.refuse_optional_parts(file, dialect);
    let sql = Sql::parse(&text.text, dialect).map_err(|error| sql_error(file, &text, 0, error)).ok()?;
    for (name, offset) in sql.distinct() {
        if name.starts_with('_') {
            let hint =
                "names that begin with an underscore are reserved for the server (`_format`): rename it"
                    .to_owned();
            file.error(offset, format!("the name {} begins with an underscore", shown(name)), Some(hint));
        }
    }
    let (params, types): (Vec<Param>, Vec<_>) =
        sql.distinct().map(|(name, offset)| declare(name, offset)).unzip();
    let index = |name: &String| params.iter().position(|param| param.name == *name);
    let args: Vec<_> = sql.names.iter().filter_map(index).collect();
    let types = args.iter().map(|&arg| types[arg]).collect();
    let mut statement =
        text.statement(file, (Endpoint::ONLY.to_owned(), Cardinality::Many), 0, sql, args, &params);
    statement.query.types = types;
    let mut endpoint = Endpoint {
        path: "/rows".to_owned(),
        summary: None,
        source: SourceRef::only(source),
        params,
        handler: Handler::Sql(handler::Sql::new(vec![statement])),
        body: vec![Piece::Rows(0)],
        formats: Vec::new(),
        csv: CsvDialect::default(),
        options: ValueOptions::DEFAULT,
        compression: Compression::default(),
        max_streams: None,
        timeout: Timeout::default(),
        expected_duration: None,
        slow_clients: SlowClients::default(),
        heartbeat: HEARTBEAT,
        authorization: Authorization::Public,
        links: Vec::new(),
        explained: None,
        longest_row: usize::MAX,
        file: file.path.to_owned(),
    };
    endpoint.formats = all_formats(&endpoint);
    Some(endpoint)
}

struct SqlText {
    text: String,
    origin: SqlOrigin,
}

/// How the SQL is written in its file.
#[derive(Clone, Copy)]
enum SqlOrigin {
    /// Unchanged, beginning at this offset.
    Verbatim(usize),
    /// With escapes, in a TOML string at this offset. All positions in the SQL map to this offset.
    Escaped(usize),
}

impl SqlText {
    /// The offset in the file of a position in the SQL.
    fn offset(&self, within: usize) -> usize {
        match self.origin {
            SqlOrigin::Verbatim(start) => start + within,
            SqlOrigin::Escaped(start) => start,
        }
    }

    /// The parts that depend on parameters. `None` after an error.
    fn optional_parts(&self, file: File<'_>, dialect: &'static Dialect) -> Option<Vec<OptionalPart>> {
        sql::optional_parts(&self.text, dialect).map_err(|error| sql_error(file, self, 0, error)).ok()
    }

    /// Reports optional parts of SQL that always has all of its parts.
    fn refuse_optional_parts(&self, file: File<'_>, dialect: &'static Dialect) {
        // Other errors of the text are reported when it's parsed.
        let parts = sql::optional_parts(&self.text, dialect).unwrap_or_default();
        if let Some(part) = parts.first() {
            let hint = "write `:name is null or …` instead".to_owned();
            let message = "optional parts are for the statements of an endpoint file";
            file.error(self.offset(part.range.start), message, Some(hint));
        }
    }

    /// Declares the claims that the statements use. Errors in the statements are reported later.
    fn declare_claims(&self, dialect: &'static Dialect, declared: &mut Vec<DeclaredParam>) {
        for section in sql::sections(&self.text, dialect).unwrap_or_default() {
            let start = section.range.start;
            if let Ok(sql) = Sql::parse(&self.text[section.range], dialect) {
                let names = sql.distinct().map(|(name, at)| (name, self.offset(start + at)));
                params::declare_claims(names, declared);
            }
        }
    }

    /// Maps the pieces of a statement, which begins at `start` of the SQL, to the file.
    fn pieces(&self, start: usize, pieces: &[(usize, usize)]) -> Vec<(usize, usize)> {
        match self.origin {
            SqlOrigin::Verbatim(_) => {
                pieces.iter().map(|&(new, old)| (new, self.offset(start + old))).collect()
            }
            // No position reaches the second piece, so every position maps to `place`.
            SqlOrigin::Escaped(place) => vec![(0, place), (usize::MAX, place)],
        }
    }

    fn statement(
        &self,
        file: File<'_>,
        (name, cardinality): (String, Cardinality),
        start: usize,
        sql: Sql,
        args: Vec<usize>,
        params: &[Param],
    ) -> Statement {
        let origin = Origin { pieces: self.pieces(start, &sql.pieces), text: Arc::from(file.text) };
        let types = args.iter().map(|&arg| params[arg].bind_type()).collect();
        let query = database::Statement { sql: Arc::from(sql.text), types, ad_hoc: false };
        let kept = EncoderCache::default();
        Statement { name, cardinality, query, args, nested: None, opener: None, origin, kept }
    }
}

fn sql_error(file: File<'_>, text: &SqlText, start: usize, error: SqlError) {
    file.error(text.offset(start + error.offset), error.message, error.hint);
}

/// The definition of an endpoint's data.
enum DataDefinition<'a> {
    /// Statements. `None` if there's an error in their text.
    Sql(Option<SqlText>),
    Upstream(Value<'a>),
}

/// The TOML of a file, and the definition of its endpoint's data.
fn open<'a>(file: File<'a>) -> Option<(Table<'a>, DataDefinition<'a>)> {
    if file.path.extension().is_some_and(|extension| extension == "toml") {
        let mut table = Table::parse(file, 0..file.text.len(), None)?;
        if let Some(upstream) = table.take("upstream") {
            return Some((table, DataDefinition::Upstream(upstream)));
        }
        let hint = "an endpoint needs SQL (`sql = \"\"\"…\"\"\"`) or requests (`[upstream]`)";
        let sql = table.require("sql", hint);
        return Some((table, DataDefinition::Sql(sql.and_then(|value| toml_sql(&value)))));
    }
    const HINT: &str = "the first comment of an endpoint file is TOML: write other words with `--`";
    let Some((toml, sql)) = front_matter(file.text) else {
        file.error(
            0,
            "the comment at the start of the file has no end",
            Some("close it with `*/`".to_owned()),
        );
        return None;
    };
    let text = SqlText { text: file.text[sql..].to_owned(), origin: SqlOrigin::Verbatim(sql) };
    Some((Table::parse(file, toml, Some(HINT))?, DataDefinition::Sql(Some(text))))
}

fn toml_sql(value: &Value<'_>) -> Option<SqlText> {
    let text = value.string()?;
    let origin = match value.source_text().find(&text) {
        Some(at) => SqlOrigin::Verbatim(value.offset() + at),
        None => SqlOrigin::Escaped(value.offset()),
    };
    Some(SqlText { text, origin })
}

/// The range of the TOML in the first comment, and the offset of the SQL. `None` if the comment has
/// no end. A file that doesn't begin with `/* … */` is only SQL.
fn front_matter(text: &str) -> Option<(std::ops::Range<usize>, usize)> {
    let bare = text.trim_start();
    let start = text.len() - bare.len();
    if !bare.starts_with("/*") {
        return Some((start..start, start));
    }
    let toml = start + "/*".len();
    let end = toml + text[toml..].find("*/")?;
    Some((toml..end, end + "*/".len()))
}

/// Rows in a body: those of a statement or of an upstream.
struct RowSet<'a> {
    name: &'a str,
    cardinality: Cardinality,
    /// The index of the rows that contain them, if they're nested.
    parent: Option<usize>,
    /// The statement that opens the refcursor with these rows.
    opener: Option<&'a str>,
}

impl<'a> RowSet<'a> {
    fn of_statement(statement: &'a Statement) -> Self {
        let parent = statement.nested.as_ref().map(|nested| nested.parent);
        let (name, opener) = (statement.name.as_str(), statement.opener.as_ref().map(|opener| &*opener.name));
        Self { name, cardinality: statement.cardinality, parent, opener }
    }

    fn of_upstream() -> Self {
        Self { name: Endpoint::ONLY, cardinality: Cardinality::Many, parent: None, opener: None }
    }
}

/// The rows for the body of an endpoint.
fn row_sets(handler: &Handler) -> Vec<RowSet<'_>> {
    match handler {
        Handler::Sql(sql) => sql.statements.iter().map(RowSet::of_statement).collect(),
        Handler::Calls(_) | Handler::Pages(_) => vec![RowSet::of_upstream()],
        Handler::Proxy(_) => Vec::new(),
    }
}

/// The SQL dialect of a source. `None` if the source has an error, or no SQL.
fn dialect_of(source: Option<&SourceConfig>) -> Option<&'static Dialect> {
    match source?.kind {
        SourceKind::Sql(database) => Some(database.dialect()),
        SourceKind::Http(_) => None,
    }
}

/// The database that an endpoint names, or the only one.
fn choose_source(
    file: File<'_>,
    value: Option<&Value<'_>>,
    defaults: &Defaults<'_>,
) -> Option<(SourceRef, &'static Dialect)> {
    // A source with an error may be of any kind.
    let may_be = |source: &Option<SourceConfig>| source.is_none() || dialect_of(source.as_ref()).is_some();
    let databases: Vec<_> = defaults.sources.iter().filter(|(_, source)| may_be(source)).collect();
    let names = || databases.iter().map(|(name, _)| name.as_str());
    let Some(value) = value else {
        return match databases[..] {
            [(name, _)] => defaults.database(name),
            // Without any source, the reader of the configuration file reports it.
            [] if defaults.sources.is_empty() => None,
            [] => {
                let hint = "add a source with a database, or write `[upstream]` in a `.toml` file".to_owned();
                file.error(0, "this SQL needs a database, but the configuration has none", Some(hint));
                None
            }
            _ => {
                let hint = format!(
                    "choose one: `source = \"NAME\"`, one of {}",
                    rowstream_core::diagnostic::list(names())
                );
                file.error(0, "there are several sources, but this endpoint names none", Some(hint));
                None
            }
        };
    };
    let name = value.string()?;
    let Some((_, source)) = defaults.sources.iter().find(|(known, _)| *known == name) else {
        let hint = suggest("the sources are", &name, names().collect::<Vec<_>>());
        value.error_with(format!("there is no source {}", shown(&name)), hint);
        return None;
    };
    if !may_be(source) {
        let message = format!("the source {} is an HTTP service and can't run SQL", shown(&name));
        value.error_with(message, format!("the databases are {}", rowstream_core::diagnostic::list(names())));
    }
    defaults.database(&name)
}

/// The database of `each`.
fn each_source(
    file: File<'_>,
    each: &per_row::EachTable<'_>,
    defaults: &Defaults<'_>,
) -> Option<(SourceRef, &'static Dialect)> {
    let databases = defaults.sources.iter().filter(|(_, source)| dialect_of(source.as_ref()).is_some());
    match &each.source {
        None if databases.count() > 1 => {
            let hint = "choose one: `each = { sql = \"…\", source = \"NAME\" }`";
            each.sql.error_with("there are several databases, but `each` names none", hint);
            None
        }
        source => choose_source(file, source.as_ref(), defaults),
    }
}

fn endpoint_authorization(
    file: File<'_>,
    value: Option<Value<'_>>,
    defaults: &Defaults<'_>,
) -> Authorization {
    match (value, &defaults.authorization) {
        (Some(value), _) => authorization(&value, defaults.identification).unwrap_or(Authorization::Public),
        (None, Some(default)) => default.clone(),
        (None, None) => {
            let hint = "because tokens are configured, write `authorization = \"public\"` or a list of token \
                names, here or in the configuration file for all endpoints";
            file.error(0, "this endpoint does not say who may call it", Some(hint.to_owned()));
            Authorization::Public
        }
    }
}

/// Checks that claims are used only if clients must show a JSON Web Token.
fn check_claims(file: File<'_>, endpoint: &Endpoint, identification: &ClientIdentification) {
    let Some(claim) = endpoint.params.iter().find(|param| param.place == ParamPlace::Claim) else { return };
    let (message, hint) = match (identification.has_claims, &endpoint.authorization) {
        (true, Authorization::Tokens(_) | Authorization::Authenticated) => return,
        (true, Authorization::Public) => (
            format!("`:{}` is read from a token, but this endpoint is public", claim.name),
            "write `authorization = \"authenticated\"`, or a list of names",
        ),
        (false, _) => (
            format!("`:{}` is read from a JSON Web Token, but this server has no `[jwt]`", claim.name),
            "add `[jwt]` to the configuration file",
        ),
    };
    file.error(0, message, Some(hint.to_owned()));
}

/// Reads `"public"`, or a list of token names.
pub(crate) fn authorization(
    value: &Value<'_>,
    identification: &ClientIdentification,
) -> Option<Authorization> {
    const HINT: &str = "write \"public\", or a list of token names";
    if value.is_string() {
        let text = value.string()?;
        match text.as_str() {
            "public" => return Some(Authorization::Public),
            "authenticated" if identification.asks => return Some(Authorization::Authenticated),
            _ => value.error_with(format!("`authorization` cannot be {}", value.shown(&text)), HINT),
        }
        return None;
    }
    let names = value.strings()?;
    if names.is_empty() {
        value.error_with("`authorization` is empty", HINT);
    }
    for (name, value) in &names {
        if !identification.scopes.contains(name) {
            let hint = suggest("the tokens are", name, identification.scopes.iter().map(String::as_str));
            value.error_with(format!("{} is not the name of a token", value.shown(name)), hint);
        }
    }
    Some(Authorization::Tokens(names.into_iter().map(|(name, _)| name).collect()))
}

struct StatementReader<'a> {
    file: File<'a>,
    text: SqlText,
    dialect: &'static Dialect,
    declared: &'a [DeclaredParam],
    /// For each declared parameter, true if an upstream request uses it. `None` if the statements'
    /// rows need no upstream requests.
    in_requests: Option<&'a [bool]>,
    /// False if optional parts were left out, so that parameters may be unused.
    is_whole: bool,
}

impl StatementReader<'_> {
    /// Reads the statements. Returns `None` if one of them has an error, because the remaining ones
    /// would only cause further errors.
    fn read(&self, result: Option<&(Option<Cardinality>, Value<'_>)>) -> Option<Vec<Statement>> {
        let sections =
            sql::sections(&self.text.text, self.dialect).map_err(|error| self.error(0, error)).ok()?;
        let named = self.check_names(&sections);
        if let Some((_, value)) = result.filter(|_| sections.iter().any(|section| section.name.is_some())) {
            let hint = "write it after the name: `-- name: NAME :one`";
            value.error_with("`result` is for a statement without a name", hint);
        }
        let result = result.and_then(|(cardinality, _)| *cardinality).unwrap_or(Cardinality::Many);
        let params: Vec<_> = self.declared.iter().map(|declared| declared.param.clone()).collect();
        let mut statements = Vec::new();
        let mut used = self.in_requests.map_or_else(|| vec![false; params.len()], <[bool]>::to_vec);
        // Claims were declared after the parameters that requests may use.
        used.resize(params.len(), false);
        let (sections, openers) = self.openers(sections)?;
        for section in &sections {
            let parsed = match &section.refcursors {
                Refcursors::From(opener) => self.read_from(section, opener, &openers),
                Refcursors::None | Refcursors::Opens => self.parse(section).map(|parsed| (section, parsed)),
            };
            if let Some((text, (sql, args))) = parsed {
                args.iter().for_each(|&arg| used[arg] = true);
                let name = section.name.clone().unwrap_or_else(|| (Endpoint::ONLY.to_owned(), result));
                let start = text.range.start;
                let mut statement = self.text.statement(self.file, name, start, sql, args, &params);
                statement.opener = refcursors::opener(section, &sections);
                statements.push(statement);
            }
        }
        if !named || statements.len() < sections.len() {
            return None;
        }
        let nested = self.nest(&sections, &mut statements);
        if self.is_whole {
            self.check_used(&used);
        }
        (nested && self.one_snapshot(&sections)).then_some(statements)
    }

    /// Checks that all statements can read the same snapshot of the data.
    fn one_snapshot(&self, sections: &[Section]) -> bool {
        match (sections, self.dialect.snapshots) {
            ([_, second, ..], Err(Refusal { message, hint })) => {
                self.file.error(self.text.offset(second.offset), message, Some(hint.to_owned()));
                false
            }
            _ => true,
        }
    }

    /// Finds the parent of each nested statement. Returns false after an error.
    fn nest(&self, sections: &[Section], statements: &mut [Statement]) -> bool {
        let mut well = true;
        for (i, section) in sections.iter().enumerate() {
            if let Some(nesting) = &section.nesting {
                if let Err(Refusal { message, hint }) = self.dialect.interleaved {
                    self.file.error(self.text.offset(section.offset), message, Some(hint.to_owned()));
                    return false;
                }
                let nested = self.nested(section, nesting, statements, i);
                well &= nested.is_some();
                statements[i].nested = nested;
            }
        }
        well
    }

    /// The parent of statement `i`.
    fn nested(
        &self,
        section: &Section,
        nesting: &Nesting,
        statements: &[Statement],
        i: usize,
    ) -> Option<NestedRows> {
        let (before, name) = (&statements[..i], &statements[i].name);
        let (message, hint) = match before.iter().position(|statement| statement.name == nesting.parent) {
            Some(parent) if statements[i].cardinality != Cardinality::Many => (
                format!("`{name}` is nested in `{}`, but isn't a list", statements[parent].name),
                "write `:many`".to_owned(),
            ),
            Some(parent) if statements[parent].cardinality == Cardinality::Value => (
                format!("`{name}` is nested in `{}`, which has no rows", statements[parent].name),
                "nest it in a `:many` or a `:one`".to_owned(),
            ),
            Some(parent) => {
                return Some(NestedRows {
                    parent,
                    on: nesting.on.clone(),
                    offset: self.text.offset(section.offset),
                });
            }
            None => (
                format!(
                    "`{name}` is nested in {}, and no statement above has this name",
                    shown(&nesting.parent)
                ),
                suggest("those above are", &nesting.parent, before.iter().map(|s| s.name.as_str())),
            ),
        };
        self.file.error(self.text.offset(section.offset), message, Some(hint));
        None
    }

    fn error(&self, start: usize, error: SqlError) {
        sql_error(self.file, &self.text, start, error);
    }

    /// Checks that all statements have different names, or that there's only one statement.
    fn check_names(&self, sections: &[Section]) -> bool {
        let mut well = true;
        for (i, section) in sections.iter().enumerate() {
            let first = sections[..i].iter().find(|other| other.name_text() == section.name_text());
            match (section.name_text(), first) {
                (Some(name), Some(first)) => self.named_twice(name, section, first),
                (Some(name), None) if RESERVED.contains(&name) => self.reserved(name, section),
                (None, _) if sections.len() > 1 => self.unnamed(section),
                _ => continue,
            }
            well = false;
        }
        well
    }

    fn named_twice(&self, name: &str, section: &Section, first: &Section) {
        let (line, _) = place(self.file.text, self.text.offset(first.offset));
        let hint = format!("the first is on line {line}: rename one of them");
        let message = format!("two statements are named `{name}`");
        self.file.error(self.text.offset(section.offset), message, Some(hint));
    }

    fn reserved(&self, name: &str, section: &Section) {
        let message = format!("no statement can be named `{name}`: `${name}` is reserved");
        self.file.error(self.text.offset(section.offset), message, Some("rename it".to_owned()));
    }

    fn unnamed(&self, section: &Section) {
        let text = &self.text.text[section.range.clone()];
        let start = section.range.start + (text.len() - text.trim_start().len());
        let hint = "put a line `-- name: NAME :many`, `:one` or `:value` before it";
        let message = "this statement has no name, but others in the file have";
        self.file.error(self.text.offset(start), message, Some(hint.to_owned()));
    }

    /// Parses a section's statement, and finds the index of each of its parameters among the
    /// declared ones.
    fn parse(&self, section: &Section) -> Option<(Sql, Vec<usize>)> {
        let start = section.range.start;
        let sql = Sql::parse(&self.text.text[section.range.clone()], self.dialect)
            .map_err(|error| self.error(start, error))
            .ok()?;
        let known: Vec<_> = sql.distinct().map(|(name, at)| (name, self.arg(name, start + at))).collect();
        let arg = |name: &String| known.iter().find(|(known, _)| known == name)?.1;
        let args: Option<Vec<_>> = sql.names.iter().map(arg).collect();
        args.map(|args| (sql, args))
    }

    fn arg(&self, name: &str, at: usize) -> Option<usize> {
        let index = self.declared.iter().position(|declared| declared.param.name == name);
        if index.is_none() {
            let names = self.declared.iter().map(|declared| declared.param.name.as_str());
            let hint = match rowstream_core::diagnostic::did_you_mean(name, names) {
                Some(near) => format!("did you mean `:{near}`?"),
                None => params::how_to_declare(name),
            };
            let is_behind_word = self.text.text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let hint = match is_behind_word {
                true => format!("{hint}; if the colon belongs to SQL, write a space after it: `: {name}`"),
                false => hint,
            };
            self.file.error(
                self.text.offset(at),
                format!("the parameter `:{name}` is not declared"),
                Some(hint),
            );
        }
        index
    }

    fn check_used(&self, used: &[bool]) {
        for (declared, _) in self.declared.iter().zip(used).filter(|(_, used)| !**used) {
            let name = &declared.param.name;
            let hint = match self.text.text.contains(&format!(":{name}")) {
                true => format!(
                    "in quotes and comments `:{name}` is text: write it outside them, as in `like \
                     concat('%', :{name}, '%')`"
                ),
                false => format!("use `:{name}` in a statement, or remove the parameter"),
            };
            self.file.error(declared.offset, format!("no statement uses the parameter `{name}`"), Some(hint));
        }
    }
}

/// Checks that the settings of an endpoint suit the optional parts of its statements.
fn check_optional(file: File<'_>, endpoint: &Endpoint) {
    if endpoint.optional().is_none() {
        return;
    }
    let settings = [
        ("`filter`, `sort`, `select` and `total`", endpoint.refine_settings().is_some()),
        ("`parallel`", endpoint.parallel().is_some()),
        ("`shards`", endpoint.shards().is_some()),
        ("`enrich`", endpoint.per_row().is_some()),
    ];
    for (names, _) in settings.iter().filter(|(_, is_set)| *is_set) {
        let message = format!("{names} can't be combined with optional parts of a statement");
        file.error(0, message, Some("write `:name is null or …` instead of the parts".to_owned()));
    }
}

/// Reads `result = "…"`.
fn cardinality(value: &Value<'_>) -> Option<Cardinality> {
    match value.string()?.as_str() {
        "many" => Some(Cardinality::Many),
        "one" => Some(Cardinality::One),
        "value" => Some(Cardinality::Value),
        other => {
            value.error_with(
                format!("`result` cannot be {}", shown(other)),
                "write \"many\", \"one\" or \"value\"",
            );
            None
        }
    }
}

/// The default body of an endpoint: the rows of the only statement that isn't nested.
fn default_body(file: File<'_>, sets: &[RowSet<'_>]) -> Option<Vec<Piece>> {
    let roots: Vec<_> = (0..sets.len()).filter(|&i| sets[i].parent.is_none()).collect();
    if let [root] = roots[..] {
        return Some(vec![Piece::Rows(root)]);
    }
    let example: Vec<_> = roots.iter().map(|&i| format!("{0} = \"${0}\"", sets[i].name)).collect();
    let hint = format!("arrange them: `body = {{ {} }}`", example.join(", "));
    file.error(0, "there are several statements, so `body` is needed", Some(hint));
    None
}

/// Reads the body, which must contain every statement once.
fn read_body(file: File<'_>, value: &Value<'_>, body: Body, sets: &[RowSet<'_>]) -> Option<Vec<Piece>> {
    let placeholders: Vec<_> = body.placeholders().map(str::to_owned).collect();
    let mut pieces = Vec::new();
    for segment in body.segments {
        pieces.push(match segment {
            Segment::Literal(bytes) => Piece::Literal(Bytes::from(bytes)),
            Segment::Placeholder(name) => {
                let offset = value.find(|text| text.strip_prefix('$') == Some(&name));
                Piece::Rows(placed(file, offset, &name, sets, &pieces)?)
            }
            Segment::Next => Piece::Next,
            Segment::Count(name) => {
                let counts = CountFinder { file, sets, before: &pieces, placeholders: &placeholders };
                Piece::Count(counts.read(value, name.as_deref())?)
            }
            Segment::Digest => read_digest(file, value, &pieces, placeholders.len())?,
        });
    }
    check_placed(value, sets, &pieces);
    Some(pieces)
}

/// The key of an endpoint whose statements and body are known.
fn read_key(
    file: File<'_>,
    endpoint: &Endpoint,
    key: key::KeySettings,
    (dialect, secret): (&'static Dialect, &str),
) -> Option<RowKey> {
    let offset = key.offset;
    // An empty list of columns was reported before.
    if key.columns.is_empty() {
        return None;
    }
    match RowKey::new(endpoint, key, dialect, secret) {
        Ok(key) => Some(key),
        Err(KeyRefusal { offset: cause, message, hint }) => {
            file.error(cause.unwrap_or(offset), message, Some(hint.into_owned()));
            None
        }
    }
}

/// The number of connections that read the rows of the endpoint. The rest of the endpoint must have
/// been read already.
fn read_parallel(
    value: &Value<'_>,
    endpoint: &Endpoint,
    dialect: &'static Dialect,
    defaults: &Defaults<'_>,
) -> Option<ParallelRead> {
    let parts = value.count(2)?;
    let places = places(endpoint, defaults).unwrap_or(parallel::MOST);
    if parts > places.min(parallel::MOST) {
        let hint = match places < parallel::MOST {
            true => format!(
                "the pool of source `{}` has {places} connections (`pool.max`)",
                endpoint.source.name()
            ),
            false => format!("write at most {}", parallel::MOST),
        };
        value.error_with(format!("{parts} connections cannot read one response"), hint);
        return None;
    }
    match ParallelRead::new(endpoint, parts, dialect, value.offset()) {
        Ok(parallel) => Some(parallel),
        Err((message, hint)) => {
            value.error_with(message, hint);
            None
        }
    }
}

/// The number of requests that may read one part of the endpoint's rows each. The rest of the
/// endpoint must have been read already.
fn read_shards(
    value: &Value<'_>,
    endpoint: &Endpoint,
    dialect: &'static Dialect,
    defaults: &Defaults<'_>,
) -> Option<Shards> {
    let most = u32::try_from(value.count(2)?.min(parallel::MOST_SHARDS + 1)).ok()?;
    if most as usize > parallel::MOST_SHARDS {
        value.error_with("there are too many shards", format!("write at most {}", parallel::MOST_SHARDS));
        return None;
    }
    if places(endpoint, defaults) == Some(1) {
        let name = endpoint.source.name();
        value.error_with(
            "shards need another connection that keeps their snapshot",
            format!("give the pool of source `{name}` at least 2 connections (`pool.max`)"),
        );
        return None;
    }
    match Shards::new(endpoint, most, (dialect, defaults.cursor_secret), value.offset()) {
        Ok(shards) => Some(shards),
        Err((message, hint)) => {
            value.error_with(message, hint);
            None
        }
    }
}

/// The number of slots that the endpoint's source has, if it's known.
fn places(endpoint: &Endpoint, defaults: &Defaults<'_>) -> Option<usize> {
    let (_, source) = defaults.sources.iter().find(|(name, _)| name == endpoint.source.name())?;
    Some(source.as_ref()?.pool.max)
}

/// Checks `$next`: it's the cursor of rows that precede it.
fn check_next(file: File<'_>, endpoint: &Endpoint, offset: usize) {
    let Some(at) = endpoint.body.iter().position(|piece| *piece == Piece::Next) else { return };
    let rows = endpoint.key().map(|key| Piece::Rows(key.statement));
    let (message, hint) = match rows {
        None => ("`$next` is a cursor, but this endpoint has no `key`", "name its columns: `key = [\"…\"]`"),
        Some(rows) if !endpoint.body[..at].contains(&rows) => {
            ("`$next` precedes the rows that it continues", "put it after them")
        }
        Some(_) => return,
    };
    file.error(offset, message, Some(hint.to_owned()));
}

/// Reads the body, cut at its placeholders. The crate that cuts it has no offsets, so we search for
/// them here.
fn read_template(value: &Value<'_>) -> Option<Body> {
    let json = value.json()?;
    let Ok(body) = Body::new(&json) else {
        let offset = value.find(is_no_placeholder);
        let hint = "write `$name` for a statement's rows, or `$$` for a dollar".to_owned();
        value.error_at(offset, "this text begins with a dollar, but doesn't name a statement", hint);
        return None;
    };
    Some(body)
}

/// Returns true if a text of a body begins with a dollar, but isn't a placeholder and the dollar
/// isn't doubled.
fn is_no_placeholder(text: &str) -> bool {
    text.starts_with('$') && Body::new(&text.into()).is_err()
}

/// The statement of a placeholder.
fn placed(file: File<'_>, offset: usize, name: &str, sets: &[RowSet<'_>], before: &[Piece]) -> Option<usize> {
    if RESERVED.contains(&name) {
        let hint = format!("rename the statement (write `$${name}` for the text itself)");
        file.error(offset, format!("`${name}` is reserved, but has no meaning yet"), Some(hint));
        return None;
    }
    let Some(index) = sets.iter().position(|set| set.name == name) else {
        if refcursors::is_placed(file, offset, name, sets) {
            return None;
        }
        let near = suggest("the statements are", name, sets.iter().map(|set| set.name));
        let hint = format!("{near} (write `$${name}` for the text itself)");
        file.error(offset, format!("no statement is named `{name}`"), Some(hint));
        return None;
    };
    if before.iter().any(|piece| piece.statement() == Some(index)) {
        let hint = "a statement runs once: write a second one with its own name".to_owned();
        file.error(offset, format!("the body has `${name}` twice"), Some(hint));
        return None;
    }
    if let Some(parent) = sets[index].parent {
        let message = format!("`{name}` is already nested in the rows of `{}`", sets[parent].name);
        file.error(offset, message, Some("remove it from the body".to_owned()));
        return None;
    }
    Some(index)
}

/// Reads `$digest`. It covers the bytes before it, so it must follow all rows.
fn read_digest(file: File<'_>, value: &Value<'_>, before: &[Piece], placed: usize) -> Option<Piece> {
    if before.iter().filter(|piece| piece.statement().is_some()).count() < placed {
        let offset = value.find(|text| text == "$digest");
        let hint = "put it after all rows: it covers the bytes before it".to_owned();
        file.error(offset, "`$digest` precedes rows", Some(hint));
        return None;
    }
    Some(Piece::Digest)
}

/// Finds the list that `$count` or `$count(name)` counts.
struct CountFinder<'a> {
    file: File<'a>,
    sets: &'a [RowSet<'a>],
    /// The pieces that precede it in the body.
    before: &'a [Piece],
    /// The statements in the body.
    placeholders: &'a [String],
}

impl CountFinder<'_> {
    fn read(&self, value: &Value<'_>, name: Option<&str>) -> Option<usize> {
        let shown = name.map_or("$count".to_owned(), |name| format!("$count({name})"));
        let offset = value.find(|text| text == shown);
        match name.map_or_else(|| self.only_list(), |name| self.list(name)) {
            Ok(list) if self.is_before(list) => Some(list),
            Ok(list) => {
                let name = &self.sets[self.root(list)].name;
                let hint =
                    format!("put it after `\"${name}\"`: the number of rows is known only at their end");
                self.file.error(offset, format!("`{shown}` precedes the rows that it counts"), Some(hint));
                None
            }
            Err((message, hint)) => {
                self.file.error(offset, format!("`{shown}` {message}"), Some(hint));
                None
            }
        }
    }

    /// The only list in the body. Fails if the body doesn't have exactly one.
    fn only_list(&self) -> Result<usize, (String, String)> {
        let placed = |i: &usize| {
            let set = &self.sets[*i];
            set.cardinality == Cardinality::Many && self.placeholders.iter().any(|name| name == set.name)
        };
        let lists: Vec<_> = (0..self.sets.len()).filter(placed).collect();
        match lists[..] {
            [list] => Ok(list),
            [] => Err((
                "counts the rows of a list, but the body has no list".to_owned(),
                "remove it".to_owned(),
            )),
            [first, ..] => Err((
                "doesn't name the list that it counts".to_owned(),
                format!("write `$count({})`", self.sets[first].name),
            )),
        }
    }

    fn list(&self, name: &str) -> Result<usize, (String, String)> {
        let lists = || self.sets.iter().filter(|set| set.cardinality == Cardinality::Many);
        let index = self.sets.iter().position(|set| set.name == name);
        index.filter(|&index| self.sets[index].cardinality == Cardinality::Many).ok_or_else(|| {
            let hint = suggest("the lists are", name, lists().map(|set| set.name).collect::<Vec<_>>());
            ("names something other than a list".to_owned(), hint)
        })
    }

    /// The outermost ancestor of `statement`, or `statement` itself if it isn't nested.
    fn root(&self, mut statement: usize) -> usize {
        while let Some(parent) = self.sets[statement].parent {
            statement = parent;
        }
        statement
    }

    fn is_before(&self, list: usize) -> bool {
        self.before.iter().any(|piece| piece.statement() == Some(self.root(list)))
    }
}

fn check_placed(value: &Value<'_>, sets: &[RowSet<'_>], pieces: &[Piece]) {
    for (i, set) in sets.iter().enumerate() {
        if set.parent.is_none() && !pieces.iter().any(|piece| piece.statement() == Some(i)) {
            let name = set.name;
            let hint = format!("add `\"${name}\"` to the body, or remove the statement");
            value.error_with(format!("the body doesn't use the statement `{name}`"), hint);
        }
    }
}

/// The formats that a file lists, each once and with its position.
fn read_formats<'a>(value: &Value<'a>) -> Vec<(Format, Value<'a>)> {
    let Some(names) = value.strings() else { return Vec::new() };
    if names.is_empty() {
        value.error_with("`formats` is empty", "leave it out to offer all");
    }
    let mut formats: Vec<(Format, Value<'a>)> = Vec::new();
    for (name, item) in names {
        match Format::from_name(&name) {
            None => {
                let hint = suggest("the formats are", &name, Format::ALL.map(Format::name));
                item.error_with(format!("there is no format {}", shown(&name)), hint);
            }
            Some(format) if formats.iter().any(|(listed, _)| *listed == format) => {
                item.error(format!("the format `{name}` is listed twice"));
            }
            Some(format) => formats.push((format, item)),
        }
    }
    formats
}

/// The listed formats. A format that can't carry the endpoint is an error.
fn carried_formats(listed: &[(Format, Value<'_>)], endpoint: &Endpoint) -> Vec<Format> {
    for (format, item) in listed {
        if let Some(reason) = reason_not_to_carry(*format, endpoint) {
            item.error(format!("`{}` {reason}", format.name()));
        }
    }
    listed.iter().map(|(format, _)| *format).collect()
}

/// All formats that can carry an endpoint. Pages for browsers are only for endpoints that give them
/// something to follow or to choose.
fn all_formats(endpoint: &Endpoint) -> Vec<Format> {
    let has_pages = endpoint.refine_settings().is_some() || !endpoint.links.is_empty();
    let carried = |format: &Format| {
        (*format != Format::Html || has_pages) && reason_not_to_carry(*format, endpoint).is_none()
    };
    Format::ALL.into_iter().filter(carried).collect()
}

/// The reason why a format can't carry an endpoint. All except JSON contain only the rows of one
/// statement, and tables can't have lists in their rows.
fn reason_not_to_carry(format: Format, endpoint: &Endpoint) -> Option<&'static str> {
    match (format, endpoint.rows_statement()) {
        (Format::Json, _) => None,
        (_, None) => Some("holds the rows of one list, but this endpoint has several"),
        (Format::Csv | Format::Arrow | Format::Html, Some(rows))
            if endpoint.children(rows).next().is_some() =>
        {
            Some("can't hold lists within rows, but this endpoint nests statements")
        }
        (_, Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rowstream_core::diagnostic::{Collector, Variables};
    use rowstream_core::params::ParamType;
    use rowstream_core::sql::dialect::samples::ANONYMOUS;

    use super::*;
    use crate::database::DatabaseKind;

    #[test]
    fn front_matter_is_the_first_comment() {
        for (text, toml, sql) in [
            ("select 1", "", "select 1"),
            ("/* a */ select 1", " a ", " select 1"),
            ("\n /* a */select 1", " a ", "select 1"),
            ("/**/select /* b */ 1", "", "select /* b */ 1"),
            ("-- c\n/* a */ select 1", "", "-- c\n/* a */ select 1"),
            ("/*/ a */ b", "/ a ", " b"),
            ("", "", ""),
        ] {
            let (range, at) = front_matter(text).unwrap();
            assert_eq!((&text[range], &text[at..]), (toml, sql), "{text}");
        }
        assert_eq!(front_matter("/*/"), None);
        assert_eq!(front_matter(" /* a"), None);
    }

    /// If placeholders have no numbers, a parameter is bound at each of its uses.
    #[test]
    fn parameters_are_bound_by_occurrence() {
        let errors = Collector::default();
        let text = "select :a, :b where x = :a";
        let file = File { path: Path::new("SQL"), text, variables: Variables::Keep, errors: &errors };
        let mut declare = |name: &str, _: usize| {
            let kind = if name == "a" { ParamType::Integer } else { ParamType::Text };
            (Param::new(name, kind), kind.into())
        };
        let endpoint = single(file, "main", &ANONYMOUS, &mut declare).unwrap();
        let [statement] = endpoint.statements() else { panic!("one statement") };
        assert_eq!(&*statement.query.sql, "select ?, ? where x = ?");
        assert_eq!((endpoint.params.len(), &statement.args[..]), (2, &[0, 1, 0][..]));
        let types = [ParamType::Integer, ParamType::Text, ParamType::Integer].map(BindType::One);
        assert_eq!(statement.query.types, types);
    }

    fn read_text(path: &str, text: &str) {
        let errors = Collector::default();
        let file = File { path: Path::new(path), text, variables: Variables::Keep, errors: &errors };
        let main = SourceConfig::new("main", "postgres://h", DatabaseKind::Postgres);
        let sources = [("main".to_owned(), Some(main))];
        let identification = ClientIdentification::default();
        let defaults = Defaults::new(&sources, &identification);
        let endpoint = read(file, Path::new(path), &defaults);
        assert!(
            errors.finish(()).is_err() || endpoint.is_some(),
            "a configuration that wasn't read has left an error: {text}"
        );
    }

    proptest! {
        #[test]
        fn any_file_can_be_read(
            toml in "((body|sql|path|key|result|formats|\\[params\\]|a|b) ?= ?(\"[$a/{}]*\"|[0-9]{1,3}|\\[\"a\"\\]|\\{ ?a ?= ?\"\\$a\" ?\\})\n){0,5}[ä\"'=\\[\\]a-c\n]{0,6}",
            sql in "(-- name: [a-c] :(one|many)\n)?[a-c:;'\"$/* \nä-]{0,12}(-- name: [a-c] :one\nselect :a;?)?",
        ) {
            read_text("a.sql", &format!("/*{toml}*/{sql}"));
            read_text("a.sql", &sql);
            read_text("a.toml", &toml);
            read_text("a.toml", &format!("sql = '''{sql}'''\n{toml}"));
        }
    }
}
