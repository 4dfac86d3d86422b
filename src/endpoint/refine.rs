//! `filter`, `sort` and `select`: what requests may ask of an endpoint's rows, and the endpoint that
//! answers such a request.
//!
//! The statement isn't parsed: it's put into another one, below its limit, where databases move the
//! condition to its tables.
//!
//! ```sql
//! select "id", "amount" as "total" from (
//! select …                                    -- the statement, without its order and its limit
//! ) as rowstream
//! where "status" = $2 and "amount" >= $3      -- the request's conditions
//! order by "created" desc, "id"               -- its order, and then the key
//! limit $4 offset $5                          -- its page, or the statement's own limit
//! ```
//!
//! The exception is a statement with `/*sort*/` (`placed`).

mod conditions;
mod placed;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::diagnostic::reader::Value;
use rowstream_core::diagnostic::{shown, suggest};
use rowstream_core::filter::{
    self, Comparison, Condition, OrderTerm, Refinement, SelectedColumn, TotalKind, Truth,
};
use rowstream_core::params::{BindType, Param, ParamType, ParamValue};
use rowstream_core::sql::dialect::{Dialect, Filters, Names, Placeholders, Refusal};
use rowstream_core::sql::{Limit, Operator, Outline, sort_place};
use rowstream_encode::{Column, ColumnKind};

use self::conditions::Conditions;
pub(crate) use self::placed::refuses_order;
use super::key::{KeySettings, Selection, order_by, unordered};
use super::{
    Cardinality, Endpoint, KeyColumn, KeyNulls, OneRow, Piece, RequestedTotal, RowKey, Statement,
    TotalReading, TotalStatement,
};
use crate::database;

/// `CouchDB`'s parameter for live tails, which all endpoints know. A column of this name can be
/// compared in `and=(…)`.
pub(crate) const FEED: &str = "feed";

/// The rows that a request for the only row reads: a second one shows that it isn't the only one.
const OF_ONLY_ROW: i64 = 2;

/// The words that begin the part of a statement after its order.
const AT_END: [&str; 4] = ["limit", "offset", "fetch", "for"];

/// The numbers of all rows that requests may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedTotals {
    None,
    /// Rows are counted.
    Exact,
    /// The planner may guess, too. Its guess also depends on rows that the client can't read.
    Planned,
}

impl AllowedTotals {
    fn read(value: &Value<'_>, dialect: &Dialect) -> Option<Self> {
        if !value.is_string() {
            return Some(if value.boolean()? { Self::Exact } else { Self::None });
        }
        if value.string()? != "planned" {
            value.error_with("there are no such totals", "write `true`, `false` or `\"planned\"`");
            return None;
        }
        if dialect.estimate.is_none() {
            let message = format!("{} estimates no rows", dialect.name);
            value.error_with(message, "write `total = true`, so that rows can be counted");
            return None;
        }
        Some(Self::Planned)
    }
}

/// The refinements of an endpoint's rows that requests may ask for.
#[derive(Debug, Clone)]
pub struct RefineSettings {
    /// The columns that they may compare.
    filter: Allowed<FilteredColumn>,
    /// The columns that they may sort by.
    sort: Allowed<SortedColumn>,
    /// True if they may choose columns.
    select: bool,
    /// The numbers of all rows that they may request.
    total: AllowedTotals,
    /// The secret that signs cursors.
    secret: Arc<str>,
    dialect: &'static Dialect,
    filters: Filters,
    /// True if the statement has a limit of its own, so that requests can't choose another.
    pub(crate) has_limit: bool,
    /// The place of a request's order in the statement. `None`: the order is put around it.
    place: Option<Range<usize>>,
    /// The offset of the first of these settings in the file, in bytes.
    pub offset: usize,
}

/// The columns for which something is allowed.
#[derive(Debug, Clone)]
enum Allowed<T> {
    All,
    These(Vec<T>),
}

impl<T> Allowed<T> {
    /// The columns by name; none if they're not listed.
    fn names<'a>(&'a self, name: impl Fn(&'a T) -> &'a String) -> Vec<&'a str> {
        self.all_or(name).unwrap_or_default()
    }

    /// `None` if all columns are allowed.
    fn all_or<'a>(&'a self, name: impl Fn(&'a T) -> &'a String) -> Option<Vec<&'a str>> {
        match self {
            Self::All => None,
            Self::These(columns) => Some(columns.iter().map(|column| name(column).as_str()).collect()),
        }
    }
}

/// An item of `filter = […]`.
#[derive(Debug, Clone)]
struct FilteredColumn {
    name: String,
    /// The operators that are allowed only if they're named: regular expressions.
    costly: bool,
}

/// An item of `sort = […]`.
#[derive(Debug, Clone)]
struct SortedColumn {
    name: String,
    /// True if it's only allowed from the greatest value on.
    descending: bool,
}

/// An endpoint for requests that ask for the same, apart from values.
pub(crate) struct RefinedEndpoint {
    /// Sets it apart from others of the same endpoint: the SQL that it runs, if it counts, and if it
    /// returns the only row.
    pub(crate) text: String,
    /// The values that follow those of the endpoint's own parameters.
    pub(crate) values: Vec<ParamValue>,
    parts: RefinedParts,
}

/// The parts that [`RefinedEndpoint::build`] needs.
struct RefinedParts {
    plain: database::Statement,
    args: Vec<usize>,
    /// The statement for a key: without an order, and with all columns.
    keyed: database::Statement,
    keyed_args: Vec<usize>,
    key: Option<KeySettings>,
    /// The list of columns, as SQL. `None`: all.
    list: Option<String>,
    offset: Option<String>,
    /// The conditions, without their values. Cursors depend on them.
    scope: String,
    /// True if the request has an order of its own.
    is_ordered: bool,
    total: Option<RequestedTotal>,
    /// True if the response is the only row.
    only_row: bool,
}

/// The settings of an endpoint's file. `None`: the file has none of them.
pub(super) struct RefineValues<'a> {
    pub(super) filter: Option<Value<'a>>,
    pub(super) sort: Option<Value<'a>>,
    pub(super) select: Option<Value<'a>>,
    pub(super) total: Option<Value<'a>>,
}

impl RefineValues<'_> {
    /// Reads the settings, for an endpoint whose other settings have been read. `None` if there are
    /// none, or after an error.
    pub(super) fn read(
        &self,
        endpoint: &Endpoint,
        dialect: &'static Dialect,
        secret: &str,
    ) -> Option<RefineSettings> {
        let first = [&self.filter, &self.sort, &self.select, &self.total].into_iter().flatten().next()?;
        let filters = match dialect.filters {
            Ok(filters) => filters,
            Err(Refusal { message, hint }) => {
                first.error_with(message, hint);
                return None;
            }
        };
        let sql = endpoint.statements().first().map_or("", |statement| &statement.query.sql);
        let place = sort_place(sql, dialect).ok().flatten();
        if let Err((message, hint)) = refinable(endpoint, place.as_ref(), dialect) {
            first.error_with(message, hint);
            return None;
        }
        let filter = self.filter.as_ref().map_or(Some(Allowed::These(Vec::new())), read_filter)?;
        let is_costly =
            matches!(&filter, Allowed::These(columns) if columns.iter().any(|column| column.costly));
        if is_costly && filters.sql(Operator::Match).is_none() {
            let message = format!("{} has no `match`", dialect.name);
            first.error_with(message, "name the column alone: `like` and `ilike` have patterns");
            return None;
        }
        let sort = self.sort.as_ref().map_or(Some(Allowed::These(Vec::new())), read_sort)?;
        let select = self.select.as_ref().map_or(Some(false), Value::boolean)?;
        let none = Some(AllowedTotals::None);
        let total = self.total.as_ref().map_or(none, |value| AllowedTotals::read(value, dialect))?;
        let taken = endpoint.params.iter().find(|param| {
            filter::is_reserved(&param.name)
                || matches!(&filter, Allowed::These(columns) if columns.iter().any(|column| column.name == param.name))
        });
        if let Some(param) = taken {
            let message = format!("the parameter `{}` has a name that filters use", param.name);
            first.error_with(message, "rename the parameter, or leave `filter`, `sort` and `select` out");
            return None;
        }
        let has_limit = match place {
            Some(ref place) => placed::has_end(&sql[place.end..], dialect),
            None => Limit::find(sql, dialect).is_some(),
        };
        let (secret, offset) = (Arc::from(secret), first.offset());
        Some(RefineSettings {
            filter,
            sort,
            select,
            total,
            secret,
            dialect,
            filters,
            has_limit,
            place,
            offset,
        })
    }
}

/// Checks that the rows of an endpoint can be refined.
///
/// # Errors
/// The reason why they can't, and a hint.
fn refinable(
    endpoint: &Endpoint,
    place: Option<&Range<usize>>,
    dialect: &'static Dialect,
) -> Result<(), (&'static str, &'static str)> {
    let [statement] = endpoint.statements() else {
        return Err((
            "`filter`, `sort` and `select` are for an endpoint with one list, but this one has another shape",
            "remove them, or write an endpoint for that list alone",
        ));
    };
    if statement.cardinality != Cardinality::Many || statement.opener.is_some() {
        return Err((
            "`filter`, `sort` and `select` are for a list of a statement's own rows",
            "remove them",
        ));
    }
    if endpoint.per_row().is_some() || endpoint.parallel().is_some() || endpoint.shards().is_some() {
        return Err((
            "`filter`, `sort` and `select` can't be combined with `parallel`, `shards` and `enrich`",
            "remove them, or write another endpoint",
        ));
    }
    let sql = &statement.query.sql;
    let Some(outline) = Outline::new(sql, dialect) else {
        return Err(("the statement can't be read", "write it in the SQL of its database"));
    };
    if outline.has_session_variable() {
        return Err((
            "the statement sets variables of its session, so a condition would change its values",
            "use a window function, such as `row_number() over (order by id)`",
        ));
    }
    if place.is_some() {
        return Ok(());
    }
    if Limit::find(sql, dialect).is_none() && outline.has_outside(&AT_END) {
        return Err((
            "`filter`, `sort` and `select` apply before the limit of a statement, but this one's end can't be moved",
            "end it with `limit N`, and leave `offset`, `fetch` and `for` out: requests have `limit` and `offset`",
        ));
    }
    if endpoint.key().is_none() && outline.order_place().is_some() {
        return Err((
            "the `order by` of a statement without a `key` would be lost in a filtered list",
            "name the columns that order the rows, `key = [\"created desc\", \"id\"]`; or with `sort` alone, write `order by /*sort*/ …`",
        ));
    }
    Ok(())
}

fn read_filter(value: &Value<'_>) -> Option<Allowed<FilteredColumn>> {
    if value.is_boolean() {
        return all_or_none(value);
    }
    let names = value.strings()?;
    let column = |text: String| match text.strip_suffix(".match") {
        Some(name) => FilteredColumn { name: name.to_owned(), costly: true },
        None => FilteredColumn { name: text, costly: false },
    };
    Some(Allowed::These(names.into_iter().map(|(name, _)| column(name)).collect()))
}

fn read_sort(value: &Value<'_>) -> Option<Allowed<SortedColumn>> {
    if value.is_boolean() {
        return all_or_none(value);
    }
    let names = value.strings()?;
    let column = |text: String| match text.strip_prefix('-') {
        Some(name) => SortedColumn { name: name.to_owned(), descending: true },
        None => SortedColumn { name: text, descending: false },
    };
    Some(Allowed::These(names.into_iter().map(|(name, _)| column(name)).collect()))
}

fn all_or_none<T>(value: &Value<'_>) -> Option<Allowed<T>> {
    Some(if value.boolean()? { Allowed::All } else { Allowed::These(Vec::new()) })
}

/// A wrong pair of the request, and the reason.
type WrongPair = (String, String);

impl RefineSettings {
    /// Checks the columns that the file names. Returns examples of what requests may ask.
    ///
    /// # Errors
    /// One isn't a column of the result, or two columns of it share a name.
    pub(crate) fn check(&self, columns: &[Column]) -> Result<Vec<Refinement>, Error> {
        let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
        if let Some(name) = self.repeated(&names) {
            let message =
                format!("the result has two columns called {}, so neither can be filtered", shown(name));
            return Err(Error::endpoint(message).hint("rename one of them with `as`"));
        }
        let filter = self.filter.names(|column| &column.name);
        let sort = self.sort.names(|column| &column.name);
        if let Some(name) = filter.iter().chain(&sort).find(|name| !names.contains(name)) {
            let message = format!("{} isn't a column of the result", shown(name));
            return Err(Error::endpoint(message).hint(suggest(
                "the columns are",
                name,
                names.iter().copied(),
            )));
        }
        for name in sort {
            let term = OrderTerm { column: name.to_owned(), descending: true, nulls_first: None };
            self.sorted(&term, columns).map_err(Error::endpoint)?;
        }
        let condition = filter.first().map(|name| Condition::Column {
            column: (*name).to_owned(),
            comparison: Comparison::Is(Truth::NotNull),
        });
        match self.place {
            Some(_) => Ok(self.placed_examples(columns)),
            None => {
                let conditions = condition.into_iter().collect();
                Ok(vec![Refinement { conditions, ..Refinement::default() }])
            }
        }
    }

    /// A name that is the same as an earlier one for the database.
    fn repeated<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        let is_same = |one: &str, other: &str| match self.dialect.syntax.names {
            Names::Exact => one == other,
            Names::Caseless => one.to_lowercase() == other.to_lowercase(),
        };
        let is_repeated =
            |(index, name): &(usize, &&str)| names[..*index].iter().any(|before| is_same(before, name));
        names.iter().enumerate().find(is_repeated).map(|(_, name)| *name)
    }

    /// The columns that requests may compare: all of them, or these.
    pub(crate) fn filtered_names(&self) -> Option<Vec<&str>> {
        self.filter.all_or(|column| &column.name)
    }

    /// The columns that requests may sort by: all of them, or these.
    pub(crate) fn sorted_names(&self) -> Option<Vec<&str>> {
        self.sort.all_or(|column| &column.name)
    }

    /// True if requests may compare the column.
    pub(crate) fn filters_by(&self, name: &str) -> bool {
        !filter::is_reserved(name)
            && !name.starts_with('_')
            && name != FEED
            && self.filtered_names().is_none_or(|names| names.contains(&name))
    }

    /// True if requests may sort by the column in this direction.
    pub(crate) fn sorts_by(&self, name: &str, descending: bool, columns: &[Column]) -> bool {
        let term = OrderTerm { column: name.to_owned(), descending, nulls_first: None };
        self.sorted(&term, columns).is_ok()
    }

    /// Allows guesses of the planner, if the rows may be counted and the database can guess.
    pub(crate) fn allow_planned_totals(&mut self) {
        if self.total == AllowedTotals::Exact && self.dialect.estimate.is_some() {
            self.total = AllowedTotals::Planned;
        }
    }

    /// True if a request's order is in that of the statement.
    pub(crate) fn sorts_in_place(&self) -> bool {
        self.place.is_some()
    }

    /// True if requests may choose columns.
    pub(crate) fn selects(&self) -> bool {
        self.select
    }

    /// The parameters that requests may use, as a summary: `filters`, `order`, …
    pub(crate) fn words(&self) -> Vec<&'static str> {
        let allows = |names: Option<Vec<&str>>| names.is_none_or(|names| !names.is_empty());
        let words = [
            ("filters", allows(self.filtered_names())),
            ("order", allows(self.sorted_names())),
            ("select", self.select),
            (filter::COUNT, self.total != AllowedTotals::None),
            ("limit", !self.has_limit),
            ("offset", !self.has_limit),
        ];
        words.into_iter().filter(|(_, is_allowed)| *is_allowed).map(|(word, _)| word).collect()
    }

    /// The column that a request may compare.
    fn filtered<'a>(&self, name: &str, columns: &'a [Column]) -> Result<&'a Column, String> {
        let known: Vec<_> = match &self.filter {
            Allowed::All => columns.iter().map(|column| column.name.as_str()).collect(),
            Allowed::These(these) => these.iter().map(|column| column.name.as_str()).collect(),
        };
        let allowed = known.contains(&name).then(|| columns.iter().find(|column| column.name == name));
        allowed
            .flatten()
            .ok_or_else(|| not_among("can't be filtered", "the columns with filters are", name, &known))
    }

    /// True if a request may compare the column with regular expressions.
    fn allows_costly(&self, name: &str) -> bool {
        match &self.filter {
            Allowed::All => false,
            Allowed::These(these) => these.iter().any(|column| column.name == name && column.costly),
        }
    }

    /// The column of a request's order.
    fn sorted(&self, term: &OrderTerm, columns: &[Column]) -> Result<KeyColumn, String> {
        let OrderTerm { column: name, descending, nulls_first } = term;
        let allowed = |only_descending: bool| !only_descending || *descending;
        let known: Vec<_> = match &self.sort {
            Allowed::All => columns.iter().map(|column| (column.name.as_str(), true)).collect(),
            Allowed::These(these) => {
                these.iter().map(|column| (column.name.as_str(), allowed(column.descending))).collect()
            }
        };
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        let not_sorted = || not_among("can't order the rows", "the columns that can are", name, &names);
        let (_, allowed) = known.iter().find(|(known, _)| known == name).ok_or_else(not_sorted)?;
        if !allowed {
            return Err(format!(
                "{} orders the rows only from its greatest value on: write `{name}.desc`",
                shown(name)
            ));
        }
        let column = columns.iter().find(|column| column.name == *name).ok_or_else(not_sorted)?;
        let is_bytes = matches!(column.kind, ColumnKind::Bytes | ColumnKind::Uuid);
        let is_json = matches!(column.kind, ColumnKind::Json | ColumnKind::List(_));
        if is_json || is_bytes && self.dialect.keys.bytes.is_err() {
            return Err(format!(
                "{} has values that a cursor can't hold: {}",
                shown(name),
                shown(&column.type_name)
            ));
        }
        if let Some(types) = unordered(self.dialect.keys.unordered, column) {
            return Err(format!("{} has values that {}", shown(name), types.why));
        }
        let by_default = self.filters.nulls.is_first(*descending);
        let first = nulls_first.unwrap_or(by_default);
        let nulls = KeyNulls::Placed { first, by_default: first == by_default };
        Ok(KeyColumn { name: name.clone(), descending: *descending, nulls })
    }

    /// The list of columns of the response, as SQL.
    fn selected(&self, selected: &[SelectedColumn], columns: &[Column]) -> Result<String, String> {
        if !self.select {
            return Err("this endpoint has no `select`: it has the same columns for all requests".to_owned());
        }
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut list = Vec::new();
        for item in selected {
            match item {
                SelectedColumn::All => {
                    for column in columns {
                        add_name(&mut names, &column.name)?;
                        list.push(self.dialect.quoted(&column.name));
                    }
                }
                SelectedColumn::One { column, alias } => {
                    let known = columns.iter().map(|column| column.name.as_str());
                    if !known.clone().any(|known| known == column) {
                        let known: Vec<_> = known.collect();
                        return Err(not_among("isn't a column", "the columns are", column, &known));
                    }
                    if let Some(alias) = alias {
                        check_alias(alias)?;
                    }
                    add_name(&mut names, alias.as_ref().unwrap_or(column))?;
                    let quoted = self.dialect.quoted(column);
                    list.push(match alias {
                        Some(alias) => format!("{quoted} as {}", self.dialect.quoted(alias)),
                        None => quoted,
                    });
                }
            }
        }
        Ok(list.join(", "))
    }

    /// The endpoint for a request.
    ///
    /// # Errors
    /// 400: it asks for something that the endpoint doesn't have.
    pub(crate) fn refine(
        &self,
        endpoint: &Endpoint,
        columns: &[Column],
        asked: &Refinement,
    ) -> Result<RefinedEndpoint, Error> {
        let mut wrong = Vec::new();
        let parts = self.read(columns, asked, &mut wrong);
        let parts = parts.and_then(|parts| match &self.place {
            Some(place) => self.write_placed(endpoint, place, asked, columns, &parts.order, &mut wrong),
            None => self.write(endpoint, columns, asked, parts, &mut wrong),
        });
        match parts {
            Some(parts) if wrong.is_empty() => Ok(parts),
            _ => Err(Error::invalid_parameters(wrong)),
        }
    }

    /// Reads the columns and the order of a request.
    fn read(
        &self,
        columns: &[Column],
        asked: &Refinement,
        wrong: &mut Vec<WrongPair>,
    ) -> Option<ReadRefinement> {
        let list = match &asked.select {
            Some(selected) => Some(kept("select", self.selected(selected, columns), wrong)?),
            None => None,
        };
        let order: Option<_> =
            asked.order.iter().map(|term| kept("order", self.sorted(term, columns), wrong)).collect();
        for (name, is_given) in [("limit", asked.limit.is_some()), ("offset", asked.offset.is_some())] {
            if self.has_limit && is_given {
                wrong.push((name.to_owned(), "this endpoint's statement has a limit of its own".to_owned()));
            }
        }
        if let Some(kind) = asked.total
            && let Err(why) = self.check_total(kind)
        {
            wrong.push((filter::COUNT.to_owned(), why));
        }
        Some(ReadRefinement { list, order: order? })
    }

    /// Checks that the endpoint can find a total in this way.
    ///
    /// # Errors
    /// The reason, for the client.
    pub(crate) fn check_total(&self, kind: TotalKind) -> Result<(), String> {
        match (self.total, kind) {
            (AllowedTotals::None, _) => Err("this endpoint has no totals".to_owned()),
            (AllowedTotals::Planned, _) | (_, TotalKind::Exact) => Ok(()),
            (AllowedTotals::Exact, TotalKind::Planned | TotalKind::Estimated) => {
                let name = kind.name();
                Err(format!("this endpoint has no {name} totals: write `exact`, which counts all rows"))
            }
        }
    }

    /// Writes the statements that answer a request.
    fn write(
        &self,
        endpoint: &Endpoint,
        columns: &[Column],
        asked: &Refinement,
        ReadRefinement { list, order }: ReadRefinement,
        wrong: &mut Vec<WrongPair>,
    ) -> Option<RefinedEndpoint> {
        let is_ordered = !order.is_empty();
        let own =
            OwnParts::of(&endpoint.statements()[0], self.dialect, endpoint.key().is_some() || is_ordered);
        let mut conditions = Conditions::new(self, columns, endpoint.params.len(), own.args_before.len());
        let condition = conditions.write(&asked.conditions, wrong)?;
        let mut args = own.args(self.dialect.placeholders, endpoint.params.len(), conditions);
        let total = asked.total.map(|kind| own.total(kind, &condition, &args, self.dialect));
        let limit = match most_rows(asked, own.limit.is_some()) {
            Some(rows) => format!("limit {}", args.add(rows)),
            None => own.limit.clone().unwrap_or_default(),
        };
        let (keyed_args, keyed_types) = (args.args.clone(), args.types.clone());
        let offset = offset(asked, &limit, &mut args);
        let key = key(endpoint, &order);
        let order = key.as_ref().map_or(&order[..], |key| &key.columns);
        let order = match order {
            [] => String::new(),
            columns => format!("\norder by {}", order_by(columns, self.dialect)),
        };
        let filtered = if condition.is_empty() { String::new() } else { format!(" where {condition}") };
        let from = format!("from (\n{}\n) as rowstream{filtered}", own.text);
        let selected = list.as_deref().unwrap_or("*");
        let text = match (asked.only_row, &own.limit) {
            (true, Some(_)) => format!(
                "select {selected} from (\nselect * {from}{order}\n{limit}\n) as rowstream\nlimit {OF_ONLY_ROW}"
            ),
            _ => format!("select {selected} {from}{order}\n{limit}{}", offset.as_deref().unwrap_or_default()),
        };
        let keyed = format!("select * {from}\n{limit}");
        let parts = RefinedParts {
            plain: database::Statement { sql: text.as_str().into(), types: args.types, ad_hoc: true },
            args: args.args,
            keyed: database::Statement { sql: keyed.into(), types: keyed_types, ad_hoc: true },
            keyed_args,
            // One row has no cursors.
            key: key.filter(|_| !asked.only_row),
            list,
            offset,
            scope: condition,
            is_ordered,
            total,
            only_row: asked.only_row,
        };
        let text = match asked.total {
            Some(kind) => format!("{text}\n{} {}", filter::COUNT, kind.name()),
            None => text,
        };
        let text = if asked.only_row { format!("{text}\nobject") } else { text };
        Some(RefinedEndpoint { text, values: args.values, parts })
    }
}

/// The limit of a request, unless that of the statement applies.
fn most_rows(asked: &Refinement, has_own_limit: bool) -> Option<i64> {
    match asked.only_row && !has_own_limit {
        true => Some(asked.limit.map_or(OF_ONLY_ROW, |rows| rows.min(OF_ONLY_ROW))),
        false => asked.limit,
    }
}

/// The SQL of a request's offset, after this limit.
fn offset(asked: &Refinement, limit: &str, args: &mut Args) -> Option<String> {
    let rows = asked.offset.filter(|rows| *rows > 0)?;
    let all = if limit.is_empty() { format!("limit {} ", i64::MAX) } else { String::new() };
    Some(format!(" {all}offset {}", args.add(rows)))
}

/// The columns and the order of a request.
struct ReadRefinement {
    /// The list of columns, as SQL. `None`: all.
    list: Option<String>,
    order: Vec<KeyColumn>,
}

/// The key of the rows in an order: its columns, and then those of the endpoint's key.
fn key(endpoint: &Endpoint, order: &[KeyColumn]) -> Option<KeySettings> {
    let key = endpoint.key()?;
    let mut columns = order.to_vec();
    for column in &key.columns {
        match columns.iter_mut().find(|ordered| ordered.name == column.name) {
            // The columns of the key have no NULLs.
            Some(ordered) => ordered.nulls = KeyNulls::Refused,
            None => columns.push(column.clone()),
        }
    }
    Some(KeySettings { columns, offset: key.offset, version: key.version })
}

/// Notes the reason why a pair is wrong.
fn kept<T>(name: &str, read: Result<T, String>, wrong: &mut Vec<WrongPair>) -> Option<T> {
    read.map_err(|why| wrong.push((name.to_owned(), why))).ok()
}

/// Notes the name of a column in the response.
fn add_name<'a>(names: &mut BTreeSet<&'a str>, name: &'a str) -> Result<(), String> {
    match names.insert(name) {
        true => Ok(()),
        false => Err(format!("it has two columns called {}: rename one, `select=alias:column`", shown(name))),
    }
}

/// Checks a name that a request gives to a column.
fn check_alias(alias: &str) -> Result<(), String> {
    /// PostgreSQL cuts longer names.
    const LONGEST: usize = 63;
    if alias.len() > LONGEST {
        return Err(format!("the name {} is longer than {LONGEST} bytes", shown(alias)));
    }
    // MariaDB has no names with characters beyond 16 bits.
    let is_well = |c: char| !c.is_control() && c <= '\u{ffff}';
    if alias.trim() != alias || !alias.chars().all(is_well) {
        return Err(format!(
            "the name {} has blanks around it, or control characters or emoji in it",
            shown(alias)
        ));
    }
    Ok(())
}

/// The message for a column that a request can't use.
fn not_among(what: &str, known_are: &str, name: &str, known: &[&str]) -> String {
    match known {
        [] => format!("{} {what}: this endpoint allows it for no column", shown(name)),
        known => format!("{} {what}: {}", shown(name), suggest(known_are, name, known.iter().copied())),
    }
}

/// The arguments of a statement in the order of its text, and the values of the request.
struct Args {
    placeholders: Placeholders,
    /// How many parameters precede the values.
    params: usize,
    args: Vec<usize>,
    types: Vec<BindType>,
    values: Vec<ParamValue>,
}

impl Args {
    /// Adds a number of rows at the end of the text. Returns its placeholder.
    fn add(&mut self, rows: i64) -> String {
        self.args.push(self.params + self.values.len());
        self.types.push(ParamType::Integer.into());
        self.values.push(ParamValue::Integer(rows));
        let mut placeholder = String::new();
        self.placeholders.write(self.args.len(), &mut placeholder);
        placeholder
    }
}

/// An endpoint's own statement, without its order and its limit.
struct OwnParts {
    text: String,
    limit: Option<String>,
    /// The arguments of the text, as indices of parameters, and their types.
    args_before: Vec<usize>,
    types_before: Vec<BindType>,
    /// The arguments that only the limit has, if placeholders have no numbers.
    args_of_limit: Vec<usize>,
    types_of_limit: Vec<BindType>,
}

impl OwnParts {
    fn of(statement: &Statement, dialect: &'static Dialect, is_ordered: bool) -> Self {
        let (sql, args, types) = (&*statement.query.sql, &statement.args, &statement.query.types);
        let found = Limit::find(sql, dialect);
        let (text, limit) = match &found {
            Some(limit) => sql.split_at(limit.start),
            None => (sql, ""),
        };
        let of_limit = match (dialect.placeholders, &found) {
            (Placeholders::ByOccurrence, Some(limit)) => limit.only.len(),
            _ => 0,
        };
        let split = args.len() - of_limit;
        Self {
            text: if is_ordered { without_order(text, dialect) } else { text.to_owned() }.trim().to_owned(),
            limit: found.is_some().then(|| limit.to_owned()),
            args_before: args[..split].to_vec(),
            types_before: types[..split].to_vec(),
            args_of_limit: args[split..].to_vec(),
            types_of_limit: types[split..].to_vec(),
        }
    }
}

impl OwnParts {
    /// The arguments of the statement with these conditions and its own limit.
    fn args(&self, placeholders: Placeholders, params: usize, conditions: Conditions<'_>) -> Args {
        let Conditions { args, types, values, .. } = conditions;
        // With numbers, the limit's own arguments are among those before.
        let args = [&self.args_before[..], &args, &self.args_of_limit].concat();
        let types = [&self.types_before[..], &types, &self.types_of_limit].concat();
        Args { placeholders, params, args, types, values }
    }
}

impl OwnParts {
    /// The number of rows that meet the condition, without the statement's limit.
    fn total(
        &self,
        kind: TotalKind,
        condition: &str,
        args: &Args,
        dialect: &'static Dialect,
    ) -> RequestedTotal {
        let from = self.matching(condition);
        let name = dialect.quoted("total");
        let count = |sql: String| (sql, TotalReading::Count);
        let bounded = |sql: String| (sql, TotalReading::BoundedCount);
        let all = || count(format!("select count(*) as {name} {from}"));
        let some = || {
            let most = filter::MOST_COUNTED + 1;
            bounded(format!(
                "select count(*) as {name} from (\nselect 1 as {name} {from}\nlimit {most}\n) as rowstream"
            ))
        };
        let plan = dialect.estimate.as_ref().map(|estimate| {
            (format!("{}select 1 as {name} {from}", estimate.explain), TotalReading::Plan(estimate))
        });
        let read = match kind {
            TotalKind::Exact => vec![all()],
            TotalKind::Planned => plan.into_iter().collect(),
            TotalKind::Estimated => [some()].into_iter().chain(plan).collect(),
        };
        let statements = read.into_iter().map(|(sql, reads)| {
            let query = database::Statement { sql: sql.into(), types: args.types.clone(), ad_hoc: true };
            TotalStatement { query, args: args.args.clone(), reads }
        });
        RequestedTotal { statements: statements.collect(), is_alone: false }
    }

    /// SQL of the rows that meet the condition.
    fn matching(&self, condition: &str) -> String {
        let mut conditions: Vec<_> = Some(condition).filter(|text| !text.is_empty()).into_iter().collect();
        // The parameters of the limit stay, because each one must be used somewhere.
        let limit = self.limit.as_ref().map(|limit| format!("coalesce((select 0\n{limit}\n), 0) = 0"));
        conditions.extend(limit.as_deref());
        let condition = match &conditions[..] {
            [] => String::new(),
            conditions => format!(" where {}", conditions.join(" and ")),
        };
        format!("from (\n{}\n) as rowstream{condition}", self.text)
    }
}

/// A statement without its order, which would only cost time inside of another one. It stays if it
/// chooses rows (`distinct on`), or has parameters.
pub(super) fn without_order(sql: &str, dialect: &'static Dialect) -> String {
    let place = Outline::new(sql, dialect)
        .filter(|outline| !outline.has_any(&["on"]) || !outline.has_any(&["distinct"]));
    let Some(place) = place.and_then(|outline| outline.order_place()) else { return sql.to_owned() };
    let has_parameters = rowstream_core::sql::numbered_placeholders(&sql[place.clone()], dialect);
    if !has_parameters.is_empty() {
        return sql.to_owned();
    }
    format!("{}{}", &sql[..place.start], &sql[place.end..])
}

impl RefinedEndpoint {
    /// The same without rows beside the total, if there's one.
    pub(crate) fn only_total(mut self) -> Self {
        if let Some(total) = &mut self.parts.total {
            total.is_alone = true;
            self.text.push_str(" alone");
        }
        self
    }

    /// The endpoint. Its parameters are those of `endpoint`, and after these one for each of the
    /// values.
    ///
    /// # Errors
    /// The statement can't have a key.
    pub(crate) fn build(&self, endpoint: &Endpoint, columns: &[Column]) -> Result<Endpoint, Error> {
        let Some(settings) = endpoint.refine_settings() else {
            return Err(Error::endpoint("this endpoint has no filters"));
        };
        let parts = &self.parts;
        let mut refined = endpoint.clone();
        let values = (1..=self.values.len()).map(|number| Param::new(format!("{number}"), ParamType::Text));
        refined.params.extend(values);
        if let Some(sql) = refined.sql_mut() {
            sql.refine = None;
            sql.total.clone_from(&parts.total);
            if parts.is_ordered || parts.offset.is_some() || parts.total.is_some() {
                sql.follow = None;
            }
            let statement = &mut sql.statements[0];
            statement.query = parts.keyed.clone();
            statement.args.clone_from(&parts.keyed_args);
        }
        let selection =
            parts.list.as_ref().map(|list| Selection { list: list.clone(), all: Arc::from(columns) });
        let key = match &parts.key {
            Some(key) => {
                let scope = match parts.scope.as_str() {
                    "" => endpoint.path.clone(),
                    conditions => format!("{}?{conditions}", endpoint.path),
                };
                let (dialect, secret) = (settings.dialect, &settings.secret);
                let key = RowKey::refined(&refined, key.clone(), dialect, secret, &scope, selection);
                let mut key = key.map_err(|refusal| Error::endpoint(refusal.message).hint(refusal.hint))?;
                if let Some(offset) = &parts.offset {
                    key.begin_at(offset, &parts.plain.types);
                }
                Some(key)
            }
            None => None,
        };
        if let Some(sql) = refined.sql_mut() {
            sql.key = key;
            let statement = &mut sql.statements[0];
            statement.query = parts.plain.clone();
            statement.args.clone_from(&parts.args);
            if parts.only_row {
                (sql.follow, sql.one_row) = (None, OneRow::Requested);
                statement.cardinality = Cardinality::One;
            }
        }
        if parts.only_row {
            refined.body = vec![Piece::Rows(0)];
        }
        if let Some(explained) = &endpoint.explained {
            refined.explained = refined.explained(settings.dialect, &explained.authorization).map(Box::new);
        }
        Ok(refined)
    }
}

impl Endpoint {
    /// This endpoint with another text of its only statement. No connection has prepared it, or a
    /// statement that is made of it. The number follows the text, so that places in it stay right.
    pub(crate) fn unprepared(&self, number: u64) -> Self {
        let mut fresh = self.clone();
        if let Some(sql) = fresh.sql_mut() {
            let query = &mut sql.statements[0].query;
            (query.sql, query.ad_hoc) = (format!("{}\n/* {number} */", query.sql).into(), true);
        }
        fresh
    }
}

/// The operators that may cost anything.
fn is_costly(operator: Operator) -> bool {
    matches!(operator, Operator::Match | Operator::Imatch)
}
