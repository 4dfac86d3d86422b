//! Requests that filter, sort and select: the endpoint that answers them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, Method, Request, StatusCode, header};
use rowstream_core::Error;
use rowstream_core::diagnostic::did_you_mean;
use rowstream_core::error::{COMPOSITE, INVALID_DATA, Reason, STATEMENT_FAILED, bounds};
use rowstream_core::filter::{self, Refinement, TotalKind};
use rowstream_core::lock::Mutex;
use rowstream_core::params::{self, BodyParams, Pair, Param, ParamPlace, ParamValue, TakenPairs};
use rowstream_database::statements::Statements;
use rowstream_encode::{Column, Format};

use super::app::App;
use super::columns::ResultColumns;
use super::request_body::has_body;
use crate::check::{self, Columns};
use crate::endpoint::{Endpoint, FEED, RefineSettings, refuses_order};
use crate::html::{self, RowLimit};
use crate::negotiate;
use crate::route::{Match, Suffix};

/// How many refined endpoints are kept.
const KEPT: usize = 64;
/// A preference of a client (RFC 7240).
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The longest SQL of a refined endpoint that is kept, in bytes.
const LONGEST_TEXT: usize = 16 * 1024;
/// The most values of a refined endpoint that is kept.
const MOST_VALUES: usize = 64;

/// How often the columns of an endpoint's statement are read again, at most.
const REREAD_EVERY: Duration = Duration::from_secs(1);

/// Numbers texts of statements that no connection has prepared.
static TEXTS: AtomicU64 = AtomicU64::new(0);

/// Refined endpoints, by what they run. The least recently used one is removed first.
pub(super) struct RefinedEndpoints {
    kept: Mutex<Statements<Arc<str>, Endpoint>>,
    /// The endpoints to refine instead of the configuration's own ones, whose texts connections have
    /// prepared with other types.
    fresh: Mutex<HashMap<usize, Arc<Endpoint>>>,
    /// True if connections may have prepared statements for a former configuration.
    is_reloaded: bool,
    /// The last time that the columns of an endpoint were read again. Locked meanwhile.
    reread: Mutex<HashMap<usize, Arc<tokio::sync::Mutex<Option<Reread>>>>>,
}

/// The columns of a statement that were read again.
#[derive(Clone, Copy)]
struct Reread {
    at: Instant,
    /// True if they were others than before.
    changed: bool,
}

/// The refinement of an endpoint that a request asks for.
pub(super) struct Refined {
    /// The endpoint that answers it.
    pub(super) endpoint: Arc<Endpoint>,
    /// The values of its last parameters.
    pub(super) values: Vec<ParamValue>,
    /// The rest of the query.
    pub(super) query: String,
    /// True if it can't be followed, because its rows have another order or another beginning, or
    /// are counted, or it's only one.
    pub(super) is_fixed: bool,
    /// True if its order is in that of the statement, which may not suit it.
    is_sorted_in_place: bool,
    /// Set if the rows are counted.
    pub(super) total: Option<Box<Total>>,
    /// The most rows of a page for browsers.
    pub(super) limit: RowLimit,
}

/// The total of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Total {
    pub(super) page: RowPage,
    /// True if the statement has a limit of its own.
    pub(super) has_own_limit: bool,
    /// The kind of total that the client prefers, if it doesn't demand one.
    pub(super) preferred: Option<TotalKind>,
}

impl Total {
    /// The same for a response of at most `rows`, if that's known, that begins `after` a cursor or
    /// not. Without a page nothing is known about the place of its rows.
    pub(super) fn of_response(&self, rows: Option<u64>, after: bool) -> CountedResponse {
        let most = self.page.most.or(rows);
        let is_known = !after && (most.is_some() || !self.has_own_limit);
        let page = RowPage { most, ..self.page };
        CountedResponse { page: is_known.then_some(page), preferred: self.preferred }
    }
}

/// A response that states the number of all rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedResponse {
    /// Its page, if it's known.
    pub(super) page: Option<RowPage>,
    /// The kind of total that the client prefers, if it doesn't demand one.
    pub(super) preferred: Option<TotalKind>,
}

/// A page of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowPage {
    /// The rows that are left out at the beginning.
    pub(super) first: u64,
    /// The most rows; `None`: all.
    pub(super) most: Option<u64>,
}

impl RowPage {
    /// The rows of the page among all `total` ones, as `Content-Range` states them.
    pub(super) fn of(self, total: u64) -> Option<String> {
        let rows = total.saturating_sub(self.first).min(self.most.unwrap_or(u64::MAX));
        Some(format!("{}-{}/{total}", self.first, self.first + rows.checked_sub(1)?))
    }
}

/// The preference for a total of this kind.
pub(super) fn preference(kind: TotalKind) -> &'static str {
    match kind {
        TotalKind::Exact => "count=exact",
        TotalKind::Planned => "count=planned",
        TotalKind::Estimated => "count=estimated",
    }
}

/// The total that a request prefers to have (RFC 7240).
fn preferred_total(headers: &HeaderMap) -> Option<TotalKind> {
    let lines = headers.get_all(PREFER).into_iter().filter_map(|line| line.to_str().ok());
    let preferences = lines.flat_map(|line| line.split(',')).filter_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        Some((name.trim(), value.trim().trim_matches('"')))
    });
    let mut counts = preferences.filter(|(name, _)| name.eq_ignore_ascii_case("count"));
    counts.next().and_then(|(_, value)| TotalKind::of(value))
}

/// True if a request has a parameter of this name.
fn has(name: &str, query: &str, body: Option<&BodyParams>) -> bool {
    params::has_name(query, name) || body.is_some_and(|body| body.has(name))
}

/// True if a request waits for future rows.
fn follows(query: &str, body: Option<&BodyParams>) -> bool {
    ["_follow", FEED].iter().any(|name| has(name, query, body))
}

/// True if a request wants a page for browsers. A body has no form's empty fields.
fn wants_page<B>(endpoint: &Endpoint, suffix: &Suffix, request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    if has_body(request.method()) || !endpoint.formats.contains(&Format::Html) || follows(query, None) {
        return false;
    }
    // Few queries write this name in another way, and only those are decoded.
    let plain = query.split('&').find_map(|pair| pair.strip_prefix("_format="));
    let decoded = query.contains('%').then(|| params::take_pairs(query, |name| name == "_format"));
    let decoded = decoded.and_then(Result::ok).and_then(|(pairs, _)| pairs.into_iter().next());
    let format = decoded.as_ref().map(|(_, format)| format.as_str()).or(plain);
    let accept = request.headers().get_all(header::ACCEPT);
    let choice = negotiate::choose(suffix, format, accept, &endpoint.formats);
    choice.is_ok_and(|choice| choice.format == Format::Html)
}

/// Reads the limit of a page for browsers, and adds it if there's none. Removes the pairs that are
/// empty, because a browser sends each field of a form. An empty limit is that of the link to all rows.
fn limit_page(asked: &mut Vec<Pair>, settings: &RefineSettings) -> RowLimit {
    let chosen = asked.iter().find(|(name, _)| name == "limit").map(|(_, value)| value.clone());
    asked.retain(|(_, value)| !value.is_empty());
    match chosen {
        _ if settings.has_limit => RowLimit::Own,
        Some(rows) => rows.parse().map_or(RowLimit::Own, RowLimit::Chosen),
        None => {
            asked.push(("limit".to_owned(), html::ROWS.to_string()));
            RowLimit::Default
        }
    }
}

/// True if a request wants the only row of a list, as an object: `Accept` says so, and nothing else
/// chooses a format.
fn wants_only_row<B>(
    endpoint: &Endpoint,
    suffix: &Suffix,
    request: &Request<B>,
    body: Option<&BodyParams>,
) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let accept = request.headers().get_all(header::ACCEPT);
    *suffix == Suffix::None
        && negotiate::prefers_only_row(accept, &endpoint.formats)
        && !has("_format", query, body)
        && !follows(query, body)
}

/// Reads what a request asks of an endpoint's rows. `None`: nothing, so the endpoint itself
/// answers it.
///
/// # Errors
/// 400: it asks for something that the endpoint doesn't have. Those of the source, if the
/// columns aren't known yet.
pub(super) async fn refine<B>(
    app: &App,
    found: &Match<'_>,
    request: &Request<B>,
    body: Option<&mut BodyParams>,
) -> Result<Option<Refined>, Error> {
    let index = found.endpoint;
    let own = &app.config.endpoints[index];
    let fresh = app.refined.fresh(index, own);
    let endpoint = fresh.as_deref().unwrap_or(own);
    let Some(settings) = endpoint.refine_settings() else { return Ok(None) };
    let query = request.uri().query();
    params::check_pairs(query)?;
    // A preference never makes a request fail.
    let preferred = preferred_total(request.headers()).filter(|kind| {
        settings.check_total(*kind).is_ok() && !follows(query.unwrap_or_default(), body.as_deref())
    });
    let only_row = wants_only_row(endpoint, &found.suffix, request, body.as_deref());
    let is_page = !only_row && wants_page(endpoint, &found.suffix, request);
    let Split { mut asked, nulls, rest: query } = split(&endpoint.params, query.unwrap_or_default(), body)?;
    let preferred = preferred.filter(|_| !asked.iter().any(|(name, _)| name == filter::COUNT));
    if let Some(kind) = preferred {
        asked.push((filter::COUNT.to_owned(), kind.name().to_owned()));
    }
    if asked.is_empty() && nulls.is_empty() && !only_row && !is_page {
        return Ok(None);
    }
    let results = results_of(app, index).await?;
    let columns = results.first().and_then(Option::as_ref).and_then(Columns::own).unwrap_or_default();
    check_names(&asked, &nulls, endpoint, settings, columns)?;
    let row_limit = if is_page { limit_page(&mut asked, settings) } else { RowLimit::Own };
    let pairs = asked.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let asked = filter::read(pairs).map_err(Error::invalid_parameters)?;
    let asked = Refinement { only_row, ..asked };
    let refined = settings.refine(endpoint, columns, &asked)?;
    let refined = if *request.method() == Method::HEAD { refined.only_total() } else { refined };
    let name = format!("{index} {}", refined.text);
    let known = app.refined.kept.lock().get(&*name);
    let built = match known {
        Some(known) => known,
        None => {
            let built = Arc::new(refined.build(endpoint, columns)?);
            if refined.values.len() <= MOST_VALUES && refined.text.len() <= LONGEST_TEXT {
                app.refined.kept.lock().insert(name.into(), Arc::clone(&built), false, |_| {});
            }
            built
        }
    };
    let Refinement { order, limit, offset, total, .. } = asked;
    let is_fixed = !order.is_empty() || offset.is_some() || total.is_some() || only_row;
    let rows = |rows: i64| u64::try_from(rows).unwrap_or_default();
    let most = if only_row { Some(1) } else { limit.map(rows) };
    let page = RowPage { first: offset.map_or(0, rows), most };
    let has_own_limit = settings.has_limit;
    Ok(Some(Refined {
        endpoint: built,
        values: refined.values,
        query,
        is_fixed,
        is_sorted_in_place: !order.is_empty() && settings.sorts_in_place(),
        total: total.map(|_| Box::new(Total { page, has_own_limit, preferred })),
        limit: row_limit,
    }))
}

/// The columns of an endpoint's only statement, which the database reports if they aren't known.
async fn results_of(app: &App, index: usize) -> Result<Arc<ResultColumns>, Error> {
    if let Some(known) = app.columns.of(index).filter(|known| known.iter().all(Option::is_some)) {
        return Ok(known);
    }
    let endpoint = &app.config.endpoints[index];
    let columns = check::prepare(endpoint, 0, app.source(&endpoint.source)).await?;
    Ok(app.columns.note(index, vec![Some(columns)]))
}

/// The error of a request for an endpoint with filters. If its columns were altered, its filters
/// were written for other types, and the next attempt may succeed.
pub(super) async fn unless_altered(app: &App, index: usize, error: Error) -> Error {
    match is_about_columns(&error) && reread_columns(app, index).await {
        true => altered(&error),
        false => error,
    }
}

/// Reads the columns of an endpoint with filters again, unless they were just read. True if they
/// are others.
async fn reread_columns(app: &App, index: usize) -> bool {
    let endpoint = &app.config.endpoints[index];
    if endpoint.refine_settings().is_none() {
        return false;
    }
    // Requests for other endpoints don't wait, because their databases may be faster.
    let last = Arc::clone(app.refined.reread.lock().entry(index).or_default());
    let mut last = last.lock().await;
    if let Some(reread) = last.filter(|reread| reread.at.elapsed() < REREAD_EVERY) {
        return reread.changed;
    }
    let Some(before) = app.columns.of(index) else { return false };
    let [Some(Columns::Own(before))] = &*before else { return false };
    let fresh = fresh(endpoint);
    let changed = match check::prepare(&fresh, 0, app.source(&endpoint.source)).await {
        Ok(Columns::Own(columns)) if columns != *before => {
            app.columns.note(index, vec![Some(Columns::Own(columns))]);
            app.refined.fresh.lock().insert(index, fresh);
            true
        }
        _ => false,
    };
    *last = Some(Reread { at: Instant::now(), changed });
    changed
}

impl RefinedEndpoints {
    /// For a configuration that replaces another one if `is_reloaded`.
    pub(super) fn new(is_reloaded: bool) -> Self {
        Self {
            kept: Mutex::new(Statements::new(KEPT)),
            fresh: Mutex::default(),
            is_reloaded,
            reread: Mutex::default(),
        }
    }

    /// The endpoint to refine, if it isn't the configuration's own one.
    fn fresh(&self, index: usize, endpoint: &Endpoint) -> Option<Arc<Endpoint>> {
        let mut endpoints = self.fresh.lock();
        if self.is_reloaded && endpoint.refine_settings().is_some() {
            endpoints.entry(index).or_insert_with(|| fresh(endpoint));
        }
        endpoints.get(&index).cloned()
    }
}

/// The endpoint with a text that no connection has prepared.
fn fresh(endpoint: &Endpoint) -> Arc<Endpoint> {
    Arc::new(endpoint.unprepared(TEXTS.fetch_add(1, Ordering::Relaxed)))
}

/// True for an error that a request can get because its filters were written for other columns: a
/// value isn't one of the column's type, or the database can't compare them.
fn is_about_columns(error: &Error) -> bool {
    let is_refused = |reason| !matches!(reason, Reason::Unsupported | Reason::Unexplained);
    error.reason().is_some_and(is_refused)
        || matches!(error.code(), "statement_changed" | "invalid_parameter" | INVALID_DATA)
}

/// The error of a request whose filters were written for other columns.
fn altered(error: &Error) -> Error {
    Error::new(
        "statement_changed",
        StatusCode::SERVICE_UNAVAILABLE,
        "the columns of the endpoint's rows were altered: their types are known now",
    )
    .retry_after(Duration::from_secs(1))
    .cause(error.to_string())
}

impl Refined {
    /// The error of a request that asked for something that the database can't do with a column.
    pub(super) fn explain(&self, error: Error) -> Error {
        let is_refused = error.code() == STATEMENT_FAILED;
        let is_of_column = error.code() == COMPOSITE
            || is_refused && matches!(error.reason(), Some(Reason::NoOperator | Reason::Operator));
        let is_of_place = self.is_sorted_in_place && refuses_order(&error);
        if !(is_of_column || is_of_place) {
            return error;
        }
        let why = "the database can't compare or sort one of the columns in this way";
        Error::new("invalid_parameter", StatusCode::BAD_REQUEST, why)
            .hint("use another operator, or leave the column out of the conditions and of `order`")
            .database(error.to_string())
    }
}

/// A query and a body, split by [`split`].
struct Split {
    /// The pairs that ask something of the rows.
    asked: Vec<Pair>,
    /// The names of conditions that are `null`. `null` isn't a condition.
    nulls: Vec<String>,
    /// The rest of the query.
    rest: String,
}

/// Separates the pairs that ask something of the rows from the rest of the query, and removes them
/// from the body. A name that can't be decoded stays there, and is reported with the parameters.
///
/// # Errors
/// 400: a value can't be decoded, a name is both in the query and in the body, or there are too many
/// pairs.
fn split(params: &[Param], query: &str, body: Option<&mut BodyParams>) -> Result<Split, Error> {
    let is_param = |name: &str| {
        params.iter().any(|param| param.name == name && !matches!(param.place, ParamPlace::Claim))
    };
    let is_asked =
        |name: &str| name == filter::COUNT || !name.starts_with('_') && name != FEED && !is_param(name);
    let (mut asked, rest) = params::take_pairs(query, is_asked)?;
    let Some(body) = body else { return Ok(Split { asked, nulls: Vec::new(), rest }) };
    let TakenPairs { pairs, mut nulls } = body.take(is_asked)?;
    let wrong = |name: &str, why: &str| Error::invalid_parameters(vec![(name.to_owned(), why.to_owned())]);
    if let Some((name, _)) = pairs.iter().find(|(name, _)| asked.iter().any(|(own, _)| own == name)) {
        return Err(wrong(name, params::IN_BOTH));
    }
    let is_double = |(index, name): &(usize, &String)| {
        nulls[..*index].contains(name) || pairs.iter().any(|(own, _)| own == *name)
    };
    if let Some((_, name)) = nulls.iter().enumerate().find(is_double) {
        return Err(wrong(name, params::MORE_THAN_ONCE));
    }
    // `null` is the same as no member, except for a condition: leaving it out would return more rows.
    nulls.retain(|name| !is_no_condition(name) || BRANCHES.contains(&name.as_str()));
    asked.extend(pairs);
    Ok(Split { asked, nulls, rest })
}

/// Names with conditions of their own.
const BRANCHES: [&str; 4] = ["and", "or", "not.and", "not.or"];

/// True for a name that asks something else of the rows than a condition on a column.
fn is_no_condition(name: &str) -> bool {
    name == filter::COUNT || filter::is_reserved(name)
}

/// Checks that each pair has the name of a column, or of something else that can be asked. Conditions
/// can't be null.
fn check_names(
    asked: &[Pair],
    nulls: &[String],
    endpoint: &Endpoint,
    settings: &RefineSettings,
    columns: &[Column],
) -> Result<(), Error> {
    let is_column = |name: &str| columns.iter().any(|column| column.name == name);
    let names = asked.iter().map(|(name, _)| name).filter(|name| !is_no_condition(name) && !is_column(name));
    let names = names.chain(nulls);
    let why = |name: &str| match is_column(name) {
        true => params::NULL_CONDITION.to_owned(),
        false if is_no_condition(name) => params::NULL_CONDITION.to_owned(),
        false => unknown(name, endpoint, settings, columns),
    };
    let wrong: Vec<_> = names.take(bounds::PARAMETERS).map(|name| (name.clone(), why(name))).collect();
    if wrong.is_empty() { Ok(()) } else { Err(Error::invalid_parameters(wrong)) }
}

fn unknown(name: &str, endpoint: &Endpoint, settings: &RefineSettings, columns: &[Column]) -> String {
    let params = endpoint.params.iter().filter(|param| !matches!(param.place, ParamPlace::Claim));
    let params = params.map(|param| param.name.as_str());
    let columns = columns.iter().map(|column| column.name.as_str());
    let columns = columns.filter(|name| settings.filtered_names().is_none_or(|names| names.contains(name)));
    let known = params.chain(columns).chain(filter::RESERVED);
    match did_you_mean(name, known) {
        Some(near) => format!("this endpoint has no such parameter or column; did you mean `{near}`?"),
        None => "this endpoint has no such parameter or column".to_owned(),
    }
}
