//! `[upstream]` of an endpoint file: one request whose response is proxied, several requests whose
//! replies are rows, or the pages of a list whose elements are rows.

mod pages;

pub(super) mod per_row;

use std::sync::Arc;

use http::HeaderName;
use rowstream_core::Error;
use rowstream_core::diagnostic::reader::{Table, Value};
use rowstream_core::diagnostic::{File, list, shown, suggest};
use rowstream_core::params::{ParamType, ParamValue};
use rowstream_upstream::Call;
use rowstream_upstream::fields::is_of_connection;
use rowstream_upstream::pointer::Pointer;
use rowstream_upstream::template::{NUMBER, Name, Template, Values};

use super::params::DeclaredParam;
use super::read::Defaults;
use super::{Calls, ErrorTreatment, Handler, Order, Pages, RepeatCount, SourceRef};
use crate::source::{SourceConfig, SourceKind};

/// A request whose response is proxied.
#[derive(Debug)]
pub struct ProxyHandler {
    template: Template,
    /// The names of the endpoint's parameters.
    names: Vec<String>,
}

impl ProxyHandler {
    /// The header fields that the endpoint itself sets, even if the client sends them too.
    pub fn header_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.template.header_names()
    }

    /// The request with these values.
    ///
    /// # Errors
    /// 400 with the name of a parameter whose value can't be used at its position.
    pub fn call(&self, values: &[ParamValue]) -> Result<Call, Error> {
        self.template.fill(&Values { names: &self.names, values, number: 0 })
    }
}

/// The contents of `[upstream]`.
pub(super) struct UpstreamTable {
    pub(super) source: SourceRef,
    pub(super) handler: Handler,
}

/// Reads `[upstream]`. Returns `None` and records the reason if it can't be used.
pub(super) fn read(
    file: File<'_>,
    value: &Value<'_>,
    declared: &[DeclaredParam],
    defaults: &Defaults<'_>,
) -> Option<UpstreamTable> {
    let mut table = value.table("[upstream]")?;
    let source = choose_source(value, table.take("source"), defaults);
    let repeat = table.take("repeat");
    let mut names = NameResolver { numbered: repeat.is_some(), ..NameResolver::new(declared) };
    if repeat.is_some() {
        names.check();
    }
    let rows = table.take("rows");
    if let (Some(rows), Some(_)) = (&rows, &repeat) {
        let message = "`rows` and `repeat` exclude each other: with `repeat`, each reply is a row";
        rows.error_with(message, "remove one of them");
    }
    let template = read_template(&mut table, rows.is_some(), &mut names);
    let calls = read_calls(&mut table, repeat.as_ref(), &mut names);
    let request = template.as_ref().map(|(_, request)| request.as_str());
    let list = pages::read(&mut table, rows.as_ref(), request, &mut names);
    table.finish();
    let (template, _) = template?;
    for (declared, _) in declared.iter().zip(&names.used).filter(|(_, used)| !**used) {
        let name = &declared.param.name;
        let hint = format!("use `{{{name}}}` in the request, or remove the parameter");
        file.error(declared.offset, format!("the request doesn't use the parameter `{name}`"), Some(hint));
    }
    let source = source?;
    let names = declared.iter().map(|declared| declared.param.name.clone()).collect();
    let handler = match (repeat, rows) {
        (None, Some(_)) => {
            let pages::ListSettings { payload, rows, absent, error, plan, next, most } = list?;
            let max_row = source.max_row_bytes;
            let list = Pages { template, payload, names, rows, absent, error, plan, next, most, max_row };
            Handler::Pages(Arc::new(list))
        }
        (None, None) => Handler::Proxy(Arc::new(ProxyHandler { template, names })),
        (Some(_), _) => {
            let (repeat, concurrency, order, on_error) = calls?;
            let places = source.pool.max;
            Handler::Calls(Arc::new(Calls {
                template,
                names,
                repeat,
                // Further requests would wait for each other in the pool, and be refused there.
                concurrency: concurrency.unwrap_or(places).min(places),
                wanted: concurrency,
                order,
                on_error,
                max_reply: source.max_row_bytes,
            }))
        }
    };
    Some(UpstreamTable { source: SourceRef::bind(defaults.sources, &source.name)?, handler })
}

/// Refuses the keys of an endpoint that are only for statements. If the response isn't split into
/// rows, also refuses those that are only for rows.
pub(super) fn refuse_others(table: &mut Table<'_>, upstream: &Value<'_>) {
    const OF_STATEMENTS: [&str; 11] = [
        "result", "key", "filter", "sort", "select", "total", "follow", "enrich", "parallel", "shards",
        "links",
    ];
    const OF_ROWS: [&str; 6] = ["body", "formats", "csv", "values", "compression", "heartbeat"];
    table.refuse(
        "source",
        "belongs in `[upstream]` here, because this endpoint calls an upstream",
        "move it there",
    );
    for key in OF_STATEMENTS {
        table.refuse(key, "is for rows of a database", "remove it");
    }
    let has = |key| upstream.table("[upstream]").is_some_and(|mut table| table.take(key).is_some());
    let has_rows = has("repeat") || has("rows") || per_row::has_each(upstream);
    for key in OF_ROWS.into_iter().filter(|_| !has_rows) {
        table.refuse(key, "has no effect on a response that is passed through", "remove it");
    }
}

/// The HTTP service that an endpoint names, or the only one.
fn choose_source<'a>(
    upstream: &Value<'_>,
    value: Option<Value<'_>>,
    defaults: &Defaults<'a>,
) -> Option<&'a SourceConfig> {
    // A source with an error may be of any kind.
    let may_be = |source: &Option<SourceConfig>| {
        source.as_ref().is_none_or(|source| matches!(source.kind, SourceKind::Http(_)))
    };
    let services = || defaults.sources.iter().filter(|(_, source)| may_be(source));
    let names = || services().map(|(name, _)| name.as_str());
    let Some(value) = value else {
        let mut all = services();
        match (all.next(), all.next()) {
            (Some((_, source)), None) => return source.as_ref(),
            (None, _) => upstream.error_with(
                "the configuration has no HTTP service",
                "add a source with `url = \"https://…\"` to the configuration",
            ),
            (Some(_), Some(_)) => upstream.error_with(
                "there are several HTTP services, but this endpoint names none",
                format!("choose one: `source = \"NAME\"`, one of {}", list(names())),
            ),
        }
        return None;
    };
    let name = value.string()?;
    match defaults.sources.iter().find(|(known, _)| *known == name) {
        Some((_, source)) if may_be(source) => source.as_ref(),
        Some(_) => {
            let message = format!("the source {} is a database", shown(&name));
            value.error_with(message, format!("the HTTP services are {}", list(names())));
            None
        }
        None => {
            let hint = suggest("the HTTP services are", &name, names().collect::<Vec<_>>());
            value.error_with(format!("there is no source {}", shown(&name)), hint);
            None
        }
    }
}

/// Resolves the names in a template.
struct NameResolver<'a> {
    declared: &'a [DeclaredParam],
    used: Vec<bool>,
    /// True if the number of the call may be used.
    numbered: bool,
    /// The columns of rows that were used: every name that isn't a parameter. `None` without rows.
    columns: Option<Vec<String>>,
}

impl<'a> NameResolver<'a> {
    fn new(declared: &'a [DeclaredParam]) -> Self {
        Self { declared, used: vec![false; declared.len()], numbered: false, columns: None }
    }

    fn find(&mut self, name: &str) -> Option<Name> {
        if self.numbered && name == NUMBER {
            return Some(Name::Number);
        }
        self.param(name).or_else(|| self.column(name)).map(Name::Param)
    }

    /// Columns are numbered after the parameters.
    fn column(&mut self, name: &str) -> Option<usize> {
        let columns = self.columns.as_mut()?;
        let index = columns.iter().position(|column| column == name).unwrap_or_else(|| {
            columns.push(name.to_owned());
            columns.len() - 1
        });
        Some(self.declared.len() + index)
    }

    fn param(&mut self, name: &str) -> Option<usize> {
        let index = self.declared.iter().position(|declared| declared.param.name == name)?;
        self.used[index] = true;
        Some(index)
    }

    /// Finds a parameter that wrongly has the name of the number. It counts as used, so that it
    /// isn't reported twice.
    fn check(&mut self) -> Option<usize> {
        self.param(NUMBER)
    }
}

/// Reads `request` and `headers`, and also returns the request's text from the file. It may be a
/// POST if the reply isn't passed through.
fn read_template(
    table: &mut Table<'_>,
    may_post: bool,
    names: &mut NameResolver<'_>,
) -> Option<(Template, String)> {
    let request = table.require("request", "write `request = \"GET /path?name={parameter}\"`");
    let headers = table.take("headers");
    let request = request?;
    let text = request.string()?;
    // Only the method differs from a GET.
    let target = text.strip_prefix("POST ").filter(|_| may_post).map(|target| format!("GET {target}"));
    let parsed = Template::parse(target.as_deref().unwrap_or(&text), &mut |name| names.find(name));
    let mut template = parsed.map_err(|(message, hint)| request.error_with(message, hint)).ok();
    for (_, name, value) in
        headers.and_then(|value| value.table("`headers`")).map(Table::entries).unwrap_or_default()
    {
        let (Some(text), Some(field)) = (value.string(), header_name(&name, &value)) else { continue };
        if let Some(template) = &mut template
            && let Err((message, hint)) = template.header(field, &text, &mut |name| names.find(name))
        {
            value.error_with(message, hint);
        }
    }
    Some((template?, text))
}

fn read_pointer(value: &Value<'_>) -> Option<Pointer> {
    let text = value.string()?;
    let pointer = Pointer::parse(&text);
    if pointer.is_none() {
        let hint = "write a slash before each name: `/hits/hits`; within a name, write `~1` for a slash and \
            `~0` for a tilde";
        value.error_with(format!("{} isn't a JSON pointer", shown(&text)), hint);
    }
    pointer
}

/// The name of a header field that a request may set.
pub(crate) fn header_name(name: &str, value: &Value<'_>) -> Option<HeaderName> {
    let Ok(field) = HeaderName::from_bytes(name.as_bytes()) else {
        value.error(format!("{} cannot be the name of a header", shown(name)));
        return None;
    };
    if is_of_connection(&field) {
        value.error_with(format!("the header `{field}` belongs to the connection"), "leave it out");
        return None;
    }
    Some(field)
}

/// Reads `repeat` and the keys that belong to it.
fn read_calls(
    table: &mut Table<'_>,
    repeat: Option<&Value<'_>>,
    names: &mut NameResolver<'_>,
) -> Option<(RepeatCount, Option<usize>, Order, ErrorTreatment)> {
    let (concurrency, order) = (table.take("concurrency"), table.take("order"));
    let on_error = table.take("on_error");
    let Some(repeat) = repeat else {
        for value in [concurrency, order, on_error].into_iter().flatten() {
            value.error_with("this has no effect on a single request", "remove it, or add `repeat`");
        }
        return None;
    };
    let times = read_repeat(repeat, names);
    let concurrency = concurrency.map(|value| value.count(1));
    let order =
        order.map(|value| choice(&value, [("completion", Order::Completion), ("input", Order::Input)]));
    let on_error =
        on_error.map(|value| choice(&value, [("fail", ErrorTreatment::Fail), ("row", ErrorTreatment::Row)]));
    Some((
        times?,
        concurrency.flatten(),
        order.unwrap_or_else(|| Some(Order::default()))?,
        on_error.unwrap_or_else(|| Some(ErrorTreatment::default()))?,
    ))
}

fn choice<T>(value: &Value<'_>, choices: [(&str, T); 2]) -> Option<T> {
    let text = value.string()?;
    let hint = format!("write \"{}\" or \"{}\"", choices[0].0, choices[1].0);
    let chosen = choices.into_iter().find(|(name, _)| *name == text);
    if chosen.is_none() {
        value.error_with(format!("{} isn't one of the choices", value.shown(&text)), hint);
    }
    chosen.map(|(_, choice)| choice)
}

/// A number, or the name of a numeric parameter.
fn read_repeat(value: &Value<'_>, names: &mut NameResolver<'_>) -> Option<RepeatCount> {
    if let Some(index) = names.check() {
        let message = format!("`{NUMBER}` is the number of the call, but a parameter has this name");
        value.error_with(message, format!("rename the parameter `{}`", names.declared[index].param.name));
        return None;
    }
    if !value.is_string() {
        return value.count(0).map(|times| RepeatCount::Times(times as u64));
    }
    let name = value.string()?;
    let Some(index) = names.param(&name) else {
        let known: Vec<_> = names.declared.iter().map(|declared| declared.param.name.as_str()).collect();
        let hint = suggest("the parameters are", &name, known);
        value.error_with(format!("there is no parameter {}", shown(&name)), hint);
        return None;
    };
    let param = &names.declared[index].param;
    if param.kind != ParamType::Integer || param.list || param.default == Some(ParamValue::Null) {
        let message = format!("`{name}` is the number of calls, but its value may not be a number");
        value.error_with(message, format!("declare it as `{name} = {{ type = \"integer\", max = 1000 }}`"));
        return None;
    }
    Some(RepeatCount::Param(index))
}
