//! `[enrich.NAME]` of an endpoint file, and `each` of its `[upstream]`: upstream calls for the rows
//! of a statement.

use std::sync::Arc;

use rowstream_core::diagnostic::File;
use rowstream_core::diagnostic::reader::{Table, Value};

use super::{NameResolver, choice, choose_source, read_pointer, read_template};
use crate::endpoint::params::DeclaredParam;
use crate::endpoint::read::Defaults;
use crate::endpoint::{
    CallsPerRow, Cardinality, Endpoint, ErrorTreatment, Order, PerRowCalls, ReplyForm, RowCall, SourceRef,
    Statement,
};
use crate::source::SourceConfig;

/// Calls whose statement isn't known yet.
pub(in crate::endpoint) struct CallDraft {
    /// The upstreams, and the number of slots of each.
    upstreams: Vec<(SourceRef, usize)>,
    calls: Vec<RowCall>,
    /// The columns that requests use.
    columns: Vec<String>,
    form: ReplyForm,
    /// For each parameter, true if a request uses it.
    pub(in crate::endpoint) used: Vec<bool>,
    /// The setting's offset in the file, in bytes.
    offset: usize,
}

/// The statement of `each`, and its calls.
pub(in crate::endpoint) struct EachTable<'a> {
    pub(in crate::endpoint) sql: Value<'a>,
    /// The name of the database, if it's given.
    pub(in crate::endpoint) source: Option<Value<'a>>,
    pub(in crate::endpoint) draft: CallDraft,
}

/// Returns true if `[upstream]` has calls for the rows of a statement.
pub(in crate::endpoint) fn has_each(upstream: &Value<'_>) -> bool {
    upstream.is_table() && upstream.table("[upstream]").is_some_and(|mut table| table.take("each").is_some())
}

/// Reads each `[enrich.NAME]`. Returns `None` and records the reason if one of them can't be used.
pub(in crate::endpoint) fn read_enrich(
    value: &Value<'_>,
    declared: &[DeclaredParam],
    defaults: &Defaults<'_>,
) -> Option<CallDraft> {
    let mut names = NameResolver { columns: Some(Vec::new()), ..NameResolver::new(declared) };
    let mut reading = CallReader { names: &mut names, defaults, upstreams: Vec::new() };
    let entries = value.table("[enrich]").map(Table::entries)?;
    if entries.is_empty() {
        value.error_with("`[enrich]` adds nothing", "write `[enrich.NAME]`");
    }
    let calls: Vec<_> = entries.iter().map(|(_, name, value)| reading.member(name, value)).collect();
    let upstreams = reading.upstreams;
    let calls = calls.into_iter().collect::<Option<Vec<_>>>()?;
    Some(names.draft(upstreams, calls, ReplyForm::Enrich, value.offset()))
}

/// Reads `[upstream]` with `each`. Returns `None` and records the reason if it can't be used.
pub(in crate::endpoint) fn read_each<'a>(
    value: &Value<'a>,
    declared: &[DeclaredParam],
    defaults: &Defaults<'_>,
) -> Option<EachTable<'a>> {
    let mut table = value.table("[upstream]")?;
    table.refuse(
        "repeat",
        "can't be combined with `each`",
        "remove one: calls are made for each number or for each row",
    );
    let each = table.require("each", "write `each = \"select …\"`");
    let order = table.take("order");
    let order =
        order.map(|value| choice(&value, [("completion", Order::Completion), ("input", Order::Input)]));
    let on_error = table.take("on_error");
    let on_error =
        on_error.map(|value| choice(&value, [("fail", ErrorTreatment::Fail), ("row", ErrorTreatment::Row)]));
    let mut names = NameResolver { columns: Some(Vec::new()), ..NameResolver::new(declared) };
    let mut reading = CallReader { names: &mut names, defaults, upstreams: Vec::new() };
    let call = reading.call("each", value, &mut table);
    let upstreams = reading.upstreams;
    table.finish();
    let (sql, source) = read_statement(each?)?;
    let on_error = on_error.unwrap_or_else(|| Some(ErrorTreatment::default()))?;
    let form = ReplyForm::Each(order.unwrap_or_else(|| Some(Order::default()))?);
    let call = RowCall { on_error, ..call? };
    let offset = sql.offset();
    Some(EachTable { sql, source, draft: names.draft(upstreams, vec![call], form, offset) })
}

/// Reads `each = "select …"`, or `{ sql = "select …", source = "main" }`.
fn read_statement(each: Value<'_>) -> Option<(Value<'_>, Option<Value<'_>>)> {
    if each.is_string() {
        return Some((each, None));
    }
    let mut table = each.table("`each`")?;
    let sql = table.require("sql", "write `each = { sql = \"select …\", source = \"NAME\" }`");
    let source = table.take("source");
    table.finish();
    Some((sql?, source))
}

impl NameResolver<'_> {
    fn draft(
        self,
        upstreams: Vec<(SourceRef, usize)>,
        calls: Vec<RowCall>,
        form: ReplyForm,
        offset: usize,
    ) -> CallDraft {
        CallDraft {
            upstreams,
            calls,
            columns: self.columns.unwrap_or_default(),
            form,
            used: self.used,
            offset,
        }
    }
}

impl EachTable<'_> {
    /// Returns true if calls can be made for the rows of its statement. Otherwise records the
    /// reason.
    pub(in crate::endpoint) fn is_list(&self, statements: &[Statement]) -> bool {
        let is_list = matches!(statements, [only] if only.cardinality == Cardinality::Many);
        if !is_list {
            let hint = "write one statement, without a name";
            self.sql.error_with("`each` makes calls for the rows of one list", hint);
        }
        is_list
    }
}

/// Reads calls, and collects their upstreams.
struct CallReader<'n, 'd, 'k> {
    names: &'n mut NameResolver<'d>,
    defaults: &'k Defaults<'k>,
    upstreams: Vec<(SourceRef, usize)>,
}

impl CallReader<'_, '_, '_> {
    /// Reads `[enrich.NAME]`.
    fn member(&mut self, name: &str, value: &Value<'_>) -> Option<RowCall> {
        let mut table = value.table(format!("[enrich.{name}]"))?;
        let pointer = table.take("at").map(|value| read_pointer(&value));
        let on_error = table.take("on_error");
        let on_error = on_error
            .map(|value| choice(&value, [("fail", ErrorTreatment::Fail), ("null", ErrorTreatment::Row)]));
        let call = self.call(name, value, &mut table);
        table.finish();
        let on_error = on_error.unwrap_or_else(|| Some(ErrorTreatment::default()))?;
        let pointer = match pointer {
            Some(pointer) => Some(pointer?),
            None => None,
        };
        Some(RowCall { pointer, on_error, ..call? })
    }

    /// Reads the keys of every call: `source`, `request`, `headers` and `concurrency`.
    fn call(&mut self, name: &str, value: &Value<'_>, table: &mut Table<'_>) -> Option<RowCall> {
        let source = choose_source(value, table.take("source"), self.defaults);
        let concurrency = table.take("concurrency").map(|value| value.count(1));
        let template = read_template(table, false, self.names);
        let (source, (template, _)) = (source?, template?);
        let places = source.pool.max;
        let wanted = match concurrency {
            Some(concurrency) => Some(concurrency?),
            None => None,
        };
        Some(RowCall {
            name: name.to_owned(),
            upstream: self.upstream(source)?,
            template,
            pointer: None,
            // Further requests would wait for each other in the pool, and be refused there.
            concurrency: wanted.unwrap_or(places).min(places),
            wanted,
            on_error: ErrorTreatment::default(),
            max_reply: source.max_row_bytes,
        })
    }

    /// The index of an upstream in the list of those that are called.
    fn upstream(&mut self, source: &SourceConfig) -> Option<usize> {
        let bound = SourceRef::bind(self.defaults.sources, &source.name)?;
        let known = self.upstreams.iter().position(|(other, _)| *other == bound);
        Some(known.unwrap_or_else(|| {
            self.upstreams.push((bound, source.pool.max));
            self.upstreams.len() - 1
        }))
    }
}

impl CallDraft {
    /// The calls of an endpoint whose statements are known. Returns `None` and records the reason
    /// if they don't fit it.
    pub(in crate::endpoint) fn place(self, file: File<'_>, endpoint: &Endpoint) -> Option<CallsPerRow> {
        let statement = match place(self.form, endpoint) {
            Ok(statement) => statement,
            Err((message, hint)) => {
                file.error(self.offset, message, Some(hint.to_owned()));
                return None;
            }
        };
        let params = endpoint.params.len();
        let names = endpoint.params.iter().map(|param| param.name.clone()).chain(self.columns).collect();
        let (sources, places) = self.upstreams.into_iter().unzip();
        let plan = PerRowCalls {
            statement: (statement, endpoint.statements()[statement].name.clone()),
            names,
            params,
            places,
            calls: self.calls,
            form: self.form,
        };
        Some(CallsPerRow { plan: Arc::new(plan), sources })
    }
}

/// Finds the statement whose rows have calls. The error has a message and a hint.
fn place(form: ReplyForm, endpoint: &Endpoint) -> Result<usize, (&'static str, &'static str)> {
    if endpoint.statements().iter().any(|statement| statement.opener.is_some()) {
        return Err(("calls can't be combined with refcursors", "write queries"));
    }
    if form != ReplyForm::Enrich {
        return Ok(0);
    }
    if endpoint.statements().iter().any(|statement| statement.nested.is_some()) {
        return Err(("a statement with nested ones can't be enriched", "remove one or the other"));
    }
    let statement = endpoint.rows_statement().ok_or((
        "`[enrich]` adds to the rows of one list, but this endpoint has several",
        "give each list an endpoint of its own",
    ))?;
    if endpoint.statements()[statement].cardinality == Cardinality::Value {
        return Err(("`[enrich]` adds to rows, but this statement has a single value", "write `:one`"));
    }
    if endpoint.follow().is_some() {
        return Err(("rows of a live tail can't be enriched", "remove `follow`, or `[enrich]`"));
    }
    Ok(statement)
}
