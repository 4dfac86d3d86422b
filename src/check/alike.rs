//! Warns about nested statements that are ordered or limited in another way than their parents, so
//! that their rows may not be merged. A response fails at the first such row.
//!
//! Only plain orders and limits are understood. A statement below a `key` gets both from it.

use rowstream_core::Error;
use rowstream_core::sql::{Dialect, OrderedBy, Outline};
use rowstream_encode::Column;

use super::{Columns, StatementRefusal, refusal_at};
use crate::endpoint::{Cardinality, Endpoint, Statement};
use crate::source::Source;

/// Finds nested statements whose order or limit differs from that of their parents.
pub(super) fn mismatches(
    endpoint: &Endpoint,
    results: &[Option<Columns>],
    source: &Source,
) -> Vec<StatementRefusal> {
    let Ok(database) = source.database() else { return Vec::new() };
    let mut found = Vec::new();
    for (index, statement) in endpoint.statements().iter().enumerate() {
        let Some(nested) = &statement.nested else { continue };
        let parent = &endpoint.statements()[nested.parent];
        let has_key = endpoint.key().is_some_and(|key| key.has_nested(index));
        if has_key || parent.cardinality != Cardinality::Many {
            continue;
        }
        let mut warn = |error: &Error| found.push(refusal_at(endpoint, statement, nested.offset, error));
        if is_limited_alone(parent, statement, database.dialect()) {
            warn(&limited(parent, statement));
        }
        let own = |index: usize| results[index].as_ref().and_then(Columns::own);
        let (Some(own), Some(columns)) = (own(index), own(nested.parent)) else { continue };
        let Ok(on) = endpoint.join(index, own, columns) else { continue };
        let (own_key, parent_key): (Vec<_>, Vec<_>) = on.into_iter().unzip();
        let order = |statement: &Statement, columns: &[Column], key: &[usize]| {
            let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
            let outline = Outline::new(&statement.query.sql, database.dialect());
            outline.map_or_else(Vec::new, |outline| outline.order_by(&names, key))
        };
        let orders = (order(parent, columns, &parent_key), order(statement, own, &own_key));
        if !is_alike(&orders.0, &orders.1, own_key.len()) {
            warn(&misordered(parent, statement));
        }
    }
    found
}

/// Returns true if only the parent has a limit.
fn is_limited_alone(parent: &Statement, statement: &Statement, dialect: &'static Dialect) -> bool {
    let (parent, own) =
        (Outline::new(&parent.query.sql, dialect), Outline::new(&statement.query.sql, dialect));
    parent.is_some_and(|outline| outline.has_limit())
        && own.is_some_and(|outline| !outline.has_any(&["limit", "offset", "fetch"]))
}

/// Returns true if the orders of a parent and of a statement nested in it by `key` columns may be
/// the same.
fn is_alike(parent: &[OrderedBy], own: &[OrderedBy], key: usize) -> bool {
    let mut open: Vec<usize> = (0..key).collect();
    for (parent, own) in parent.iter().zip(own) {
        match (parent, own) {
            (OrderedBy::Key(column, _), OrderedBy::Key(..)) if parent == own => {
                open.retain(|other| other != column);
            }
            (OrderedBy::Unknown, _) | (_, OrderedBy::Unknown) => return true,
            (OrderedBy::Other, OrderedBy::Other) => return true,
            _ => return false,
        }
        if open.is_empty() {
            return true;
        }
    }
    true
}

fn limited(parent: &Statement, statement: &Statement) -> Error {
    let (parent, name) = (&parent.name, &statement.name);
    Error::endpoint(format!(
        "`{parent}` has a limit, but `{name}` is read for all of its rows: the response fails at a row whose \
         parent is beyond the limit"
    ))
    .hint(format!(
        "name the columns that order `{parent}`, `key = [\"id\"]`: then only lists of its rows are read"
    ))
}

fn misordered(parent: &Statement, statement: &Statement) -> Error {
    let (parent, name) = (&parent.name, &statement.name);
    Error::endpoint(format!(
        "`{name}` is ordered in another way than `{parent}`: the response fails at a row that's out of order"
    ))
    .hint(format!(
        "order both by the same columns in the same direction, or name those of `{parent}` in a `key`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_that_cannot_be_the_same_are_found() {
        let (id, down, second) =
            (OrderedBy::Key(0, false), OrderedBy::Key(0, true), OrderedBy::Key(1, false));
        let (other, unknown) = (OrderedBy::Other, OrderedBy::Unknown);
        for (parent, own, key, alike) in [
            (&[id][..], &[id, other][..], 1, true),
            (&[id], &[down], 1, false),
            (&[id], &[other, id], 1, false),
            (&[other, id], &[id], 1, false),
            (&[other, id], &[other, id], 1, true),
            (&[id], &[], 1, true),
            (&[], &[id], 1, true),
            (&[id, second], &[id, second], 2, true),
            (&[id, second], &[id, other], 2, false),
            (&[id, second], &[second, id], 2, false),
            (&[id, other, down], &[id, second], 1, true),
            (&[id], &[unknown], 1, true),
            (&[unknown, id], &[id], 1, true),
        ] {
            assert_eq!(is_alike(parent, own, key), alike, "{parent:?}, {own:?}");
        }
    }
}
