//! `filter`, `sort` and `select`: what requests may ask of an endpoint's rows, and the endpoint that
//! answers such a request.
//!
//! | file | contents |
//! |---|---|
//! | [`settings`] | the reader of the settings |
//! | [`conditions`] | the conditions as SQL |
//! | [`sql`] | the statements that answer a request |
//! | [`placed`] | the same with `/*sort*/` |
//! | [`endpoint`] | the endpoint with these statements |

mod conditions;
mod endpoint;
mod placed;
mod settings;
mod sql;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::diagnostic::{shown, suggest};
use rowstream_core::filter::{
    self, Comparison, Condition, OrderTerm, Refinement, SelectedColumn, TotalKind, Truth,
};
use rowstream_core::sql::Operator;
use rowstream_core::sql::dialect::{Dialect, Filters, Names};
use rowstream_encode::{Column, ColumnKind};

use self::endpoint::RefinedEndpoint;
pub(crate) use self::placed::refuses_order;
pub(super) use self::settings::RefineValues;
use self::sql::OwnPlaces;
pub(super) use self::sql::without_order;
use super::key::unordered;
use super::{Endpoint, KeyColumn, KeyNulls};

/// `CouchDB`'s parameter for live tails, which all endpoints know. A column of this name can be
/// compared in `and=(…)`.
pub(crate) const FEED: &str = "feed";

/// The numbers of all rows that requests may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedTotals {
    None,
    /// Rows are counted.
    Exact,
    /// The planner may guess, too. Its guess also depends on rows that the client can't read.
    Planned,
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
    own: OwnPlaces,
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
}

/// The columns and the order of a request.
struct ReadRefinement {
    /// The list of columns, as SQL. `None`: all.
    list: Option<String>,
    order: Vec<KeyColumn>,
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

/// The operators that may cost anything.
fn is_costly(operator: Operator) -> bool {
    matches!(operator, Operator::Match | Operator::Imatch)
}
