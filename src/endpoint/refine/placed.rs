//! `order by /*sort*/ id`: a request's order in the statement's own, before its limit.
//!
//! The statement isn't put into another one, so its own order follows that of the request, whatever
//! its terms are. The columns are those of the result, because an order outside of brackets looks for
//! a bare name there first.
//!
//! ```sql
//! select … order by "amount" desc, created desc, id
//! limit 10
//! ```

use std::ops::Range;

use rowstream_core::Error;
use rowstream_core::diagnostic::reader::Value;
use rowstream_core::diagnostic::{File, shown};
use rowstream_core::error::{Reason, STATEMENT_FAILED};
use rowstream_core::filter::{OrderTerm, Refinement};
use rowstream_core::sql::Outline;
use rowstream_core::sql::dialect::Dialect;
use rowstream_encode::Column;

use super::conditions::Conditions;
use super::endpoint::{RefinedEndpoint, RefinedParts};
use super::sql::{BoundArgs, OF_ONLY_ROW, most_rows, offset};
use super::{Allowed, RefineSettings, RefineValues, WrongPair, kept};
use crate::database;
use crate::endpoint::key::direction;
use crate::endpoint::{Endpoint, KeyColumn, KeyNulls};

/// The words that begin the part of a statement after its order.
const BEHIND_ORDER: [&str; 7] = ["limit", "offset", "fetch", "for", "lock", "procedure", "into"];

/// True if a part of the statement follows its order, so that nothing can be added there.
pub(super) fn has_end(order: &str, dialect: &'static Dialect) -> bool {
    Outline::new(order, dialect).is_none_or(|outline| outline.has_clause(&BEHIND_ORDER))
}

/// True for a setting that allows nothing.
fn is_off(value: &Value<'_>) -> bool {
    match value.is_list() {
        true => value.list().is_some_and(|items| items.is_empty()),
        false => value.is_boolean() && value.boolean() == Some(false),
    }
}

/// True if the database refuses the order of a request, although the statement itself may be right:
/// a name, or an expression that `distinct` and `union` don't allow there.
pub(crate) fn refuses_order(error: &Error) -> bool {
    error.code() == STATEMENT_FAILED
        && matches!(error.reason(), Some(Reason::Column | Reason::Order | Reason::Unsupported))
}

impl RefineValues<'_> {
    /// Checks that the settings of an endpoint suit the `/*sort*/` at this offset of its file.
    pub(in crate::endpoint) fn check_place(&self, file: File<'_>, at: usize, has_key: bool) {
        let is_set = |value: &Option<Value<'_>>| value.as_ref().is_some_and(|value| !is_off(value));
        if !is_set(&self.sort) {
            let hint = "name the columns that requests may sort by, `sort = [\"created\", \"-id\"]`, or remove the comment";
            let message = "`/*sort*/` is the place of a request's order, but this endpoint has no `sort`";
            file.error(at, message, Some(hint.to_owned()));
        }
        if has_key {
            let hint = "remove the comment: with a `key`, a request's order precedes the key, and the statement's limit follows it";
            file.error(at, "`/*sort*/` can't be combined with a `key`", Some(hint.to_owned()));
        }
        if [&self.filter, &self.select, &self.total].into_iter().any(is_set) {
            let hint = "remove the comment, and name the order in a `key`: then these apply before the statement's limit";
            let message = "`/*sort*/` can't be combined with `filter`, `select` and `total`";
            file.error(at, message, Some(hint.to_owned()));
        }
    }
}

impl RefineSettings {
    /// An order by each column that requests may sort by. The database may refuse one that it accepts
    /// after others. They have a page, if requests may have one.
    pub(super) fn placed_examples(&self, columns: &[Column]) -> Vec<Refinement> {
        let term = |name: &str| OrderTerm { column: name.to_owned(), descending: true, nulls_first: None };
        let names = columns.iter().map(|column| column.name.as_str());
        let terms = names.map(term).filter(|term| self.sorted(term, columns).is_ok());
        let limit = (!self.has_limit).then_some(1);
        terms.map(|term| Refinement { order: vec![term], limit, ..Refinement::default() }).collect()
    }

    /// Explains why the database refuses an example of what requests may ask.
    pub(crate) fn explain(&self, example: &Refinement, error: Error) -> Error {
        let (Some(_), Some(term)) = (&self.place, example.order.first()) else { return error };
        let message =
            format!("the database can't sort by {}, which `sort` allows: {error}", shown(&term.column));
        let hint = match (error.reason(), &self.sort) {
            (Some(Reason::Column), _) => "give the column a name of its own: `orders.total as total`",
            (_, Allowed::These(_)) => error.hint_text().unwrap_or("leave the column out of `sort`"),
            (_, Allowed::All) => {
                "name the columns that requests may sort by: `sort = [\"created\", \"-id\"]`"
            }
        };
        Error::endpoint(message).hint(hint)
    }

    /// Writes the statement that answers a request, with its order at `place`.
    pub(super) fn write_placed(
        &self,
        endpoint: &Endpoint,
        place: &Range<usize>,
        asked: &Refinement,
        columns: &[Column],
        order: &[KeyColumn],
        wrong: &mut Vec<WrongPair>,
    ) -> Option<RefinedEndpoint> {
        // No column can be compared, so this finds the conditions that the request may not have.
        Conditions::new(self, columns, 0, 0).write(&asked.conditions, wrong)?;
        let terms = kept("order", self.own_terms(order), wrong)?;
        let statement = &endpoint.statements()[0];
        let sql = &*statement.query.sql;
        let mut text = match terms.as_str() {
            "" => sql.to_owned(),
            terms => format!("{}{terms}, {}", &sql[..place.start], sql[place.end..].trim_start()),
        };
        let mut args = BoundArgs {
            placeholders: self.dialect.placeholders,
            params: endpoint.params.len(),
            args: statement.args.clone(),
            types: statement.query.types.clone(),
            values: Vec::new(),
        };
        let limit = most_rows(asked, self.has_limit).map(|rows| format!("limit {}", args.add(rows)));
        let limit = limit.unwrap_or_default();
        let offset = offset(asked, &limit, &mut args);
        let page = limit + offset.as_deref().unwrap_or_default();
        match asked.only_row && self.has_limit {
            true => text = format!("select * from (\n{text}\n) as rowstream\nlimit {OF_ONLY_ROW}"),
            false if page.is_empty() => {}
            // The line break ends a comment at the end of the text.
            false => text.extend(["\n", &page]),
        }
        let plain = database::Statement { sql: text.as_str().into(), types: args.types, ad_hoc: true };
        let parts = RefinedParts {
            keyed: plain.clone(),
            keyed_args: args.args.clone(),
            plain,
            args: args.args,
            key: None,
            list: None,
            offset,
            scope: String::new(),
            is_ordered: !order.is_empty(),
            total: None,
            only_row: asked.only_row,
        };
        let text = if asked.only_row { format!("{text}\nobject") } else { text };
        Some(RefinedEndpoint { text, values: args.values, parts })
    }

    /// The terms of a request's order in that of the statement.
    ///
    /// # Errors
    /// The request moves NULLs, but the database can't.
    fn own_terms(&self, order: &[KeyColumn]) -> Result<String, String> {
        let own = &self.filters.own_order;
        let term = |column: &KeyColumn| {
            let term = format!("{}{}", own.quoted(&column.name), direction(column));
            match (column.nulls, own.nulls) {
                (KeyNulls::Refused | KeyNulls::Placed { by_default: true, .. }, _) => Ok(term),
                (KeyNulls::Placed { first, .. }, Some([firsts, lasts])) => {
                    Ok(term + if first { firsts } else { lasts })
                }
                (KeyNulls::Placed { first, .. }, None) => {
                    let (own, asked) = if first { ("last", "nullsfirst") } else { ("first", "nullslast") };
                    Err(format!("this endpoint can't move NULLs, which are {own} here: leave `{asked}` out"))
                }
            }
        };
        Ok(order.iter().map(term).collect::<Result<Vec<_>, _>>()?.join(", "))
    }
}
