//! Writes the statements that answer a request.
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
//! The exception is a statement with `/*sort*/` ([`super::placed`]).

use std::ops::Range;

use rowstream_core::filter::{self, Refinement, TotalKind};
use rowstream_core::params::{BindType, ParamType, ParamValue};
use rowstream_core::sql::dialect::{Dialect, Placeholders};
use rowstream_core::sql::{Limit, Outline};
use rowstream_encode::Column;

use super::conditions::Conditions;
use super::endpoint::{RefinedEndpoint, RefinedParts};
use super::{ReadRefinement, RefineSettings, WrongPair};
use crate::database;
use crate::endpoint::key::{KeySettings, order_by};
use crate::endpoint::{
    Endpoint, KeyColumn, KeyNulls, RequestedTotal, Statement, TotalReading, TotalStatement,
};

/// The rows that a request for the only row reads: a second one shows that it isn't the only one.
pub(super) const OF_ONLY_ROW: i64 = 2;

impl RefineSettings {
    /// Writes the statements that answer a request.
    pub(super) fn write(
        &self,
        endpoint: &Endpoint,
        columns: &[Column],
        asked: &Refinement,
        ReadRefinement { list, order }: ReadRefinement,
        wrong: &mut Vec<WrongPair>,
    ) -> Option<RefinedEndpoint> {
        let is_ordered = !order.is_empty();
        let own = self.own.of(
            &endpoint.statements()[0],
            self.dialect.placeholders,
            endpoint.key().is_some() || is_ordered,
        );
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
pub(super) fn most_rows(asked: &Refinement, has_own_limit: bool) -> Option<i64> {
    match asked.only_row && !has_own_limit {
        true => Some(asked.limit.map_or(OF_ONLY_ROW, |rows| rows.min(OF_ONLY_ROW))),
        false => asked.limit,
    }
}

/// The SQL of a request's offset, after this limit.
pub(super) fn offset(asked: &Refinement, limit: &str, args: &mut BoundArgs) -> Option<String> {
    let rows = asked.offset.filter(|rows| *rows > 0)?;
    let all = if limit.is_empty() { format!("limit {} ", i64::MAX) } else { String::new() };
    Some(format!(" {all}offset {}", args.add(rows)))
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

/// The arguments of a statement in the order of its text, and the values of the request.
pub(super) struct BoundArgs {
    pub(super) placeholders: Placeholders,
    /// How many parameters precede the values.
    pub(super) params: usize,
    pub(super) args: Vec<usize>,
    pub(super) types: Vec<BindType>,
    pub(super) values: Vec<ParamValue>,
}

impl BoundArgs {
    /// Adds a number of rows at the end of the text. Returns its placeholder.
    pub(super) fn add(&mut self, rows: i64) -> String {
        self.args.push(self.params + self.values.len());
        self.types.push(ParamType::Integer.into());
        self.values.push(ParamValue::Integer(rows));
        let mut placeholder = String::new();
        self.placeholders.write(self.args.len(), &mut placeholder);
        placeholder
    }
}

/// The places of the order and the limit in an endpoint's own statement.
#[derive(Debug, Clone)]
pub(super) struct OwnPlaces {
    /// The place of an order that may be left out, in bytes.
    order: Option<Range<usize>>,
    limit: Option<Limit>,
}

impl OwnPlaces {
    pub(super) fn find(sql: &str, dialect: &'static Dialect) -> Self {
        let limit = Limit::find(sql, dialect);
        let text = limit.as_ref().map_or(sql, |limit| &sql[..limit.start]);
        Self { order: needless_order(text, dialect), limit }
    }

    pub(super) fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// The parts of the statement, without its order if the rows are ordered by the request or a
    /// key.
    fn of(&self, statement: &Statement, placeholders: Placeholders, is_ordered: bool) -> OwnParts {
        let (sql, args, types) = (&*statement.query.sql, &statement.args, &statement.query.types);
        let end = self.limit.as_ref().map_or(sql.len(), |limit| limit.start);
        let order = self.order.clone().filter(|_| is_ordered).unwrap_or(end..end);
        let of_limit = match (placeholders, &self.limit) {
            (Placeholders::ByOccurrence, Some(limit)) => limit.only.len(),
            _ => 0,
        };
        let split = args.len() - of_limit;
        OwnParts {
            text: [&sql[..order.start], &sql[order.end..end]].concat().trim().to_owned(),
            limit: self.limit.is_some().then(|| sql[end..].to_owned()),
            args_before: args[..split].to_vec(),
            types_before: types[..split].to_vec(),
            args_of_limit: args[split..].to_vec(),
            types_of_limit: types[split..].to_vec(),
        }
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
    /// The arguments of the statement with these conditions and its own limit.
    fn args(&self, placeholders: Placeholders, params: usize, conditions: Conditions<'_>) -> BoundArgs {
        let Conditions { args, types, values, .. } = conditions;
        // With numbers, the limit's own arguments are among those before.
        let args = [&self.args_before[..], &args, &self.args_of_limit].concat();
        let types = [&self.types_before[..], &types, &self.types_of_limit].concat();
        BoundArgs { placeholders, params, args, types, values }
    }

    /// The number of rows that meet the condition, without the statement's limit.
    fn total(
        &self,
        kind: TotalKind,
        condition: &str,
        args: &BoundArgs,
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

/// A statement without its order, unless it needs it.
pub(in crate::endpoint) fn without_order(sql: &str, dialect: &'static Dialect) -> String {
    match needless_order(sql, dialect) {
        Some(place) => [&sql[..place.start], &sql[place.end..]].concat(),
        None => sql.to_owned(),
    }
}

/// The place of an order that would only cost time inside of another statement. `None`: there isn't
/// one, it chooses rows (`distinct on`), or it has parameters.
fn needless_order(sql: &str, dialect: &'static Dialect) -> Option<Range<usize>> {
    let outline = Outline::new(sql, dialect)?;
    let chooses_rows = outline.has_any(&["on"]) && outline.has_any(&["distinct"]);
    let place = outline.order_place().filter(|_| !chooses_rows)?;
    let parameters = rowstream_core::sql::numbered_placeholders(&sql[place.clone()], dialect);
    parameters.is_empty().then_some(place)
}
