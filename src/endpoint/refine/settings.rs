//! Reads `filter`, `sort`, `select` and `total` of an endpoint's file.

use std::ops::Range;
use std::sync::Arc;

use rowstream_core::diagnostic::reader::Value;
use rowstream_core::filter;
use rowstream_core::sql::dialect::{Dialect, Refusal};
use rowstream_core::sql::{Limit, Operator, Outline, sort_place};

use super::sql::OwnPlaces;
use super::{Allowed, AllowedTotals, FilteredColumn, RefineSettings, SortedColumn, placed};
use crate::endpoint::{Cardinality, Endpoint};

/// The words that begin the part of a statement after its order.
const AT_END: [&str; 4] = ["limit", "offset", "fetch", "for"];

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

/// The settings of an endpoint's file. `None`: the file has none of them.
pub(in crate::endpoint) struct RefineValues<'a> {
    pub(in crate::endpoint) filter: Option<Value<'a>>,
    pub(in crate::endpoint) sort: Option<Value<'a>>,
    pub(in crate::endpoint) select: Option<Value<'a>>,
    pub(in crate::endpoint) total: Option<Value<'a>>,
}

impl RefineValues<'_> {
    /// Reads the settings, for an endpoint whose other settings have been read. `None` if there are
    /// none, or after an error.
    pub(in crate::endpoint) fn read(
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
        let own = OwnPlaces::find(sql, dialect);
        let has_limit = match place {
            Some(ref place) => placed::has_end(&sql[place.end..], dialect),
            None => own.has_limit(),
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
            own,
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
