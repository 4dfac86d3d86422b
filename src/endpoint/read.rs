//! Reads one endpoint file: `.sql` with TOML in its first comment, or `.toml` with `sql = "…"` or
//! `[upstream]`.
//!
//! After an error, reading continues. The endpoint of a file with errors is only good for finding
//! more of them.

mod access;
mod body;
mod formats;
mod refcursors;
mod shares;
mod source;
mod statements;
mod text;

use std::path::Path;
use std::time::Duration;

use rowstream_core::diagnostic::reader::{Table, Value};
use rowstream_core::diagnostic::{File, shown};
use rowstream_core::params::{BindType, Param};
use rowstream_core::sql::{self, Dialect, Sql};

pub(crate) use self::access::authorization;
use self::body::BodyTemplate;
use self::source::{choose_source, dialect_of, each_source};
use self::statements::StatementReader;
use self::text::{DataDefinition, SqlText, sql_error, toml_sql};
use super::key::{self, KeyRefusal, KeySettings};
use super::optional::{self, OptionalSql};
use super::params::{self, DeclaredParam};
use super::path::{self, PathTemplate};
use super::refine::RefineValues;
use super::upstream::per_row::{self, CallDraft};
use super::upstream::{self, UpstreamTable};
use super::{
    Authorization, Cardinality, Endpoint, Handler, LinkTemplate, OneRow, Piece, ResponseSettings, RowKey,
    SourceRef, follow, handler, links,
};
use crate::source::SourceConfig;

/// Names after a `$` with a special meaning, now or later.
const RESERVED: [&str; 3] = ["count", "next", "digest"];

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
    /// The defaults for responses.
    pub(crate) response: ResponseSettings,
    /// The secret that signs cursors.
    pub(crate) cursor_secret: &'a str,
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
            response: ResponseSettings::default(),
            cursor_secret: "",
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
    let (mut table, definition) = text::open(file)?;
    if let DataDefinition::Upstream(value) = &definition {
        upstream::refuse_others(&mut table, value);
    }
    let path = path::read(file, &mut table, relative);
    let declared = params::read(file, &mut table, &path);
    let mut list = ListValues::take(&mut table);
    let enrich = table.take("enrich").map(|value| per_row::read_enrich(&value, &declared, defaults));
    let authorization = access::of_endpoint(file, table.take("authorization"), defaults);
    let source = match &definition {
        DataDefinition::Sql(_) => choose_source(file, table.take("source").as_ref(), defaults),
        DataDefinition::Upstream(_) => None,
    };
    let result = table.take("result").map(|value| (cardinality(&value), value));
    let template = BodyTemplate::take(&mut table);
    let listed_formats = table.take("formats").map(|value| formats::read(&value));
    let own = OwnSettings::take(&mut table, defaults);
    table.finish();

    // Everything below depends on the parts above, so we stop at the first error: it would cause
    // others.
    let calls = match enrich {
        Some(enrich) => Some(enrich?),
        None => None,
    };
    let reader = DataReader { file, defaults, declared, left_out };
    let mut data = match definition {
        DataDefinition::Sql(text) => reader.statements(text, source, result.as_ref(), calls),
        DataDefinition::Upstream(value) if per_row::has_each(&value) => reader.each(&value),
        DataDefinition::Upstream(value) => reader.upstream(&value),
    }?;
    let (dialect, sort_place) = (data.dialect, data.sort_place);
    let (calls, optional) = (data.calls.take(), data.optional.take());
    let body = body::pieces(file, template.as_ref(), &data.handler)?;
    let mut endpoint = own.endpoint(file, path, authorization, data, body);
    list.add_key(file, &mut endpoint, dialect, defaults)?;
    body::check_next(file, &endpoint, template.as_ref());
    access::check_claims(file, &endpoint, defaults.identification);
    if let Some(calls) = calls {
        let per_row = calls.place(file, &endpoint);
        endpoint.sql_mut()?.per_row = per_row;
    }
    if let Some(at) = sort_place {
        list.refine.check_place(file, at, endpoint.key().is_some());
    }
    list.add_reads(&mut endpoint, dialect, defaults)?;
    if let (Some(optional), Some(sql)) = (optional, endpoint.sql_mut()) {
        sql.optional = Some(Box::new(optional));
    }
    check_optional(file, &endpoint);
    endpoint.formats = formats::of(listed_formats.as_deref(), &endpoint);
    Some(endpoint)
}

/// The origin of an endpoint's rows.
struct EndpointData {
    source: SourceRef,
    /// `None`: the source is an HTTP service.
    dialect: Option<&'static Dialect>,
    params: Vec<Param>,
    handler: Handler,
    /// Calls for each row.
    calls: Option<CallDraft>,
    /// The parameters of the statements' optional parts.
    optional: Option<OptionalSql>,
    /// The offset of the place for a request's order.
    sort_place: Option<usize>,
}

/// Reads the statements or requests of a file whose parameters are known.
struct DataReader<'a> {
    file: File<'a>,
    defaults: &'a Defaults<'a>,
    declared: Vec<DeclaredParam>,
    left_out: Option<&'a [&'a str]>,
}

impl DataReader<'_> {
    /// Statements, with the file's `result` and its calls for each row.
    fn statements(
        mut self,
        text: Option<SqlText>,
        source: Option<(SourceRef, &'static Dialect)>,
        result: Option<&(Option<Cardinality>, Value<'_>)>,
        calls: Option<CallDraft>,
    ) -> Option<EndpointData> {
        let (source, dialect) = source?;
        let mut text = text?;
        let parts = text.optional_parts(self.file, dialect)?;
        let sort_place = text.sort_place(self.file, dialect)?;
        let optional = match self.left_out {
            None => optional::read(self.file, &parts, &self.declared, |at| text.offset(at)),
            Some(_) => None,
        };
        text.declare_claims(dialect, &mut self.declared);
        text.text = sql::without_parts(&text.text, &parts, self.left_out.unwrap_or_default());
        let in_requests = calls.as_ref().map(|calls| &calls.used[..]);
        let statements = self.reader(text, dialect, in_requests).read(result)?;
        let is_required = result.is_some() && statements.first()?.cardinality == Cardinality::One;
        let one_row = if is_required { OneRow::Required } else { OneRow::Optional };
        let handler = Handler::Sql(handler::Sql { one_row, ..handler::Sql::new(statements) });
        let dialect = Some(dialect);
        Some(EndpointData { source, dialect, params: self.params(), handler, calls, optional, sort_place })
    }

    /// The statement of `each`, with calls for its rows.
    fn each(self, value: &Value<'_>) -> Option<EndpointData> {
        let each = per_row::read_each(value, &self.declared, self.defaults)?;
        let (source, dialect) = each_source(self.file, &each, self.defaults)?;
        let text = toml_sql(&each.sql)?;
        text.refuse_optional_parts(self.file, dialect);
        let sort_place = text.sort_place(self.file, dialect)?;
        let reader = self.reader(text, dialect, Some(&each.draft.used));
        let statements = reader.read(None).filter(|statements| each.is_list(statements))?;
        let handler = Handler::Sql(handler::Sql::new(statements));
        let (dialect, calls) = (Some(dialect), Some(each.draft));
        let params = self.params();
        Some(EndpointData { source, dialect, params, handler, calls, optional: None, sort_place })
    }

    /// Requests to an HTTP service.
    fn upstream(self, value: &Value<'_>) -> Option<EndpointData> {
        let UpstreamTable { source, handler } =
            upstream::read(self.file, value, &self.declared, self.defaults)?;
        let params = self.params();
        let (calls, optional, sort_place) = (None, None, None);
        Some(EndpointData { source, dialect: None, params, handler, calls, optional, sort_place })
    }

    fn reader<'a>(
        &'a self,
        text: SqlText,
        dialect: &'static Dialect,
        in_requests: Option<&'a [bool]>,
    ) -> StatementReader<'a> {
        let is_whole = self.left_out.is_none();
        StatementReader { file: self.file, text, dialect, declared: &self.declared, in_requests, is_whole }
    }

    fn params(self) -> Vec<Param> {
        self.declared.into_iter().map(|declared| declared.param).collect()
    }
}

/// The settings of a file that concern its list. They depend on the rest of the endpoint.
struct ListValues<'a> {
    key: Option<KeySettings>,
    refine: RefineValues<'a>,
    follow: Option<Value<'a>>,
    parallel: Option<Value<'a>>,
    shards: Option<Value<'a>>,
}

impl<'a> ListValues<'a> {
    fn take(table: &mut Table<'a>) -> Self {
        let (key, version) = (table.take("key"), table.take("cursor_version"));
        Self {
            key: key::read_settings(key.as_ref(), version.as_ref()),
            refine: RefineValues {
                filter: table.take("filter"),
                sort: table.take("sort"),
                select: table.take("select"),
                total: table.take("total"),
            },
            follow: table.take("follow"),
            parallel: table.take("parallel"),
            shards: table.take("shards"),
        }
    }

    /// Adds the key, and how the list is followed.
    fn add_key(
        &mut self,
        file: File<'_>,
        endpoint: &mut Endpoint,
        dialect: Option<&'static Dialect>,
        defaults: &Defaults<'_>,
    ) -> Option<()> {
        if let (Some(value), Some(dialect), Some(sql)) = (&self.follow, dialect, endpoint.sql_mut()) {
            sql.follow = follow::read(value, dialect);
        }
        if let (Some(key), Some(dialect)) = (self.key.take(), dialect) {
            let key = read_key(file, endpoint, key, dialect, defaults.cursor_secret);
            endpoint.sql_mut()?.key = key;
        } else if let Some(value) = &self.follow
            && endpoint.follow().is_some()
        {
            value.error_with(
                "`follow` needs a `key`, but this endpoint has none",
                "name its columns: `key = [\"…\"]`",
            );
        }
        Some(())
    }

    /// Adds other ways to read the list: its parts, filters and orders.
    fn add_reads(
        &self,
        endpoint: &mut Endpoint,
        dialect: Option<&'static Dialect>,
        defaults: &Defaults<'_>,
    ) -> Option<()> {
        let Some(dialect) = dialect else { return Some(()) };
        if let Some(value) = &self.parallel {
            let read = shares::parallel(value, endpoint, dialect, defaults);
            endpoint.sql_mut()?.parallel = read;
        }
        if let Some(value) = &self.shards {
            let read = shares::shards(value, endpoint, dialect, defaults);
            endpoint.sql_mut()?.shards = read;
        }
        let refine = self.refine.read(endpoint, dialect, defaults.cursor_secret);
        endpoint.sql_mut()?.refine = refine;
        Some(())
    }
}

/// The settings of a file that depend on nothing else.
struct OwnSettings {
    summary: Option<String>,
    links: Vec<LinkTemplate>,
    response: ResponseSettings,
    max_streams: Option<usize>,
    expected_duration: Option<Duration>,
}

impl OwnSettings {
    fn take(table: &mut Table<'_>, defaults: &Defaults<'_>) -> Self {
        Self {
            summary: table.take("summary").and_then(|value| value.string()),
            links: table.take("links").map(|value| links::read(&value)).unwrap_or_default(),
            response: ResponseSettings::take(table, &defaults.response),
            max_streams: table.take("max_streams").and_then(|value| value.count(1)),
            expected_duration: table.take("expected_duration").and_then(|value| value.duration()),
        }
    }

    /// The endpoint with these rows, without the settings of its list.
    fn endpoint(
        self,
        file: File<'_>,
        path: PathTemplate,
        authorization: Authorization,
        data: EndpointData,
        body: Vec<Piece>,
    ) -> Endpoint {
        Endpoint {
            path: path.text,
            summary: self.summary,
            source: data.source,
            params: data.params,
            handler: data.handler,
            body,
            formats: Vec::new(),
            response: self.response,
            max_streams: self.max_streams,
            expected_duration: self.expected_duration,
            authorization,
            links: self.links,
            explained: None,
            longest_row: usize::MAX,
            file: file.path.to_owned(),
        }
    }
}

/// Reads the endpoint `/rows` of one statement, from a file of only SQL. `declare` gets a name and
/// the offset of its first use. It returns the parameter, and the type to bind it as.
pub(crate) fn single(
    file: File<'_>,
    source: &str,
    dialect: &'static Dialect,
    declare: &mut dyn FnMut(&str, usize) -> (Param, BindType),
) -> Option<Endpoint> {
    let text = SqlText::whole(file.text);
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
    text.refuse_list_as_value(file, 0, &sql, dialect, &params);
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
        response: ResponseSettings::default(),
        max_streams: None,
        expected_duration: None,
        authorization: Authorization::Public,
        links: Vec::new(),
        explained: None,
        longest_row: usize::MAX,
        file: file.path.to_owned(),
    };
    endpoint.formats = formats::all(&endpoint);
    Some(endpoint)
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

/// The key of an endpoint whose statements and body are known.
fn read_key(
    file: File<'_>,
    endpoint: &Endpoint,
    key: KeySettings,
    dialect: &'static Dialect,
    secret: &str,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rowstream_core::diagnostic::{Collector, Variables};
    use rowstream_core::params::ParamType;
    use rowstream_core::sql::dialect::samples::ANONYMOUS;

    use super::*;
    use crate::database::DatabaseKind;

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
