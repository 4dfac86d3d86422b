//! Compares everything that a cursor is bound to. Statements and other columns aren't.

use rowstream_core::diagnostic::shown;
use rowstream_core::params::ParamValue;
use rowstream_encode::Column;

use super::requests::partner;
use super::{Effect, ReleaseChanges, ReleasedEndpoint};
use crate::endpoint::{Endpoint, KeyColumn, RowKey, order_of};

/// The clients that notice a broken cursor.
pub(super) const AFFECTED: &str =
    "clients that continue after an earlier response: they get a 400, `invalid_cursor`";

/// Returns true if clients keep tokens of the endpoint that `cursor_secret` signs.
pub(super) fn has_tokens(endpoint: &Endpoint) -> bool {
    endpoint.key().is_some() || endpoint.shards().is_some()
}

pub(super) fn compare([old, new]: &[ReleasedEndpoint<'_>; 2], changes: &mut ReleaseChanges<'_>) {
    let Some(key) = old.endpoint.key() else { return };
    let Some(other) = new.endpoint.key() else {
        let affected = "clients that send `_after`: they get a 400, `invalid_parameter`";
        return changes.push(Effect::Cursors, "`key` is gone", affected);
    };
    for ((what, was), (_, is)) in bindings(old.endpoint, key).iter().zip(&bindings(new.endpoint, other)) {
        // Long texts are shown cut, so they're compared before.
        if was != is {
            changes.push(
                Effect::Cursors,
                format!("{what} was {}, and is {}", shown(was), shown(is)),
                AFFECTED,
            );
        }
    }
    limits([(old.endpoint, key), (new.endpoint, other)], changes);
    types([(old, key), (new, other)], changes);
    parameters([(old.endpoint, key), (new.endpoint, other)], changes);
}

/// Compares the ends of pages. Clients that don't send the parameter of a limit notice its default.
fn limits([(old, key), (new, other)]: [(&Endpoint, &RowKey); 2], changes: &mut ReleaseChanges<'_>) {
    if key.has_unknown_limit() {
        return;
    }
    // A limit that each request sends also cuts the list.
    let had_all = page(old, key, &ParamValue::Integer(0)).is_none();
    let (message, affected) = match (other.has_unknown_limit(), page(new, other, &ParamValue::Null)) {
        (true, _) if had_all => (
            "responses end after a limit now, without a next page: it's neither a number, a parameter nor \
             `coalesce(:n, 100)`"
                .to_owned(),
            "all its clients: the rows after the limit are missing",
        ),
        (true, _) => (
            "no response has a next page anymore: the limit is neither a number, a parameter nor \
             `coalesce(:n, 100)`"
                .to_owned(),
            "clients that follow `next` and `Link` to all rows",
        ),
        (false, Some(rows)) if had_all => (
            format!("responses end after {rows} rows now, and the others are on next pages"),
            "clients that don't follow `next` or `Link`",
        ),
        _ => return,
    };
    changes.push(Effect::Responses, message, affected);
}

/// The most rows of a response to a request with only the `required` parameters.
fn page(endpoint: &Endpoint, key: &RowKey, required: &ParamValue) -> Option<u64> {
    let values = endpoint.params.iter().map(|param| param.default.as_ref().unwrap_or(required).clone());
    endpoint.page_of(key.statement, &values.collect::<Vec<_>>())
}

/// Facts that cursors are bound to, each as a text.
fn bindings(endpoint: &Endpoint, key: &RowKey) -> Vec<(&'static str, String)> {
    let column =
        |column: &KeyColumn| format!("{}{}", column.name, if column.descending { " desc" } else { "" });
    let columns: Vec<_> = key.columns.iter().map(column).collect();
    vec![
        ("the path", endpoint.path.clone()),
        ("`key`", columns.join(", ")),
        ("`cursor_version`", key.version.to_string()),
    ]
}

/// Compares the types of the key's columns. Unknown columns are noted with the responses.
fn types([old, new]: [(&ReleasedEndpoint<'_>, &RowKey); 2], changes: &mut ReleaseChanges<'_>) {
    let [Ok(columns), Ok(others)] = [old, new].map(|(version, key)| version.columns(key.statement)) else {
        return;
    };
    let find = |columns: &[Column], name: &str| columns.iter().find(|column| column.name == name).cloned();
    for name in old.1.columns.iter().map(|column| &*column.name) {
        if let (Some(was), Some(is)) = (find(&columns, name), find(&others, name))
            && order_of(&was) != order_of(&is)
        {
            let message = format!(
                "{} of `key` was {}, and is {}",
                shown(name),
                shown(&was.type_name),
                shown(&is.type_name)
            );
            changes.push(Effect::Cursors, message, AFFECTED);
        }
    }
}

/// The value that a cursor is bound to if the request doesn't send the parameter.
enum Omitted<'a> {
    /// None, because the parameter selects no rows.
    Unbound,
    /// Every request sends it.
    Required,
    /// Its default. A cursor isn't bound to NULL.
    Default(&'a ParamValue),
}

/// Compares the parameters that cursors are bound to. A parameter that's only in one release is
/// unbound in the other.
fn parameters(releases: [(&Endpoint, &RowKey); 2], changes: &mut ReleaseChanges<'_>) {
    let [(old, key), (new, _)] = releases;
    for param in &old.params {
        let name = partner(param, old, new).map_or(&*param.name, |other| &*other.name);
        parameter(releases, [&param.name, name], changes);
        if name != param.name && index_of(old, &param.name).is_some_and(|index| key.binds(index)) {
            let message = format!(
                "the parameter {} is {}, and cursors are bound to its name",
                shown(&param.name),
                shown(name)
            );
            changes.push(Effect::Cursors, message, AFFECTED);
        }
    }
    for param in new.params.iter().filter(|param| partner(param, new, old).is_none()) {
        parameter(releases, [&param.name; 2], changes);
    }
}

fn index_of(endpoint: &Endpoint, name: &str) -> Option<usize> {
    endpoint.params.iter().position(|param| param.name == name)
}

/// Compares one parameter, by its names in both releases.
fn parameter(
    [(old, key), (new, other)]: [(&Endpoint, &RowKey); 2],
    names: [&str; 2],
    changes: &mut ReleaseChanges<'_>,
) {
    if let Some(reason) = breach(&omitted(names[0], old, key), &omitted(names[1], new, other)) {
        changes.push(Effect::Cursors, format!("the parameter {} {reason}", shown(names[0])), AFFECTED);
    }
}

fn omitted<'a>(name: &str, endpoint: &'a Endpoint, key: &RowKey) -> Omitted<'a> {
    let found = index_of(endpoint, name).filter(|index| key.binds(*index));
    match found.map(|index| &endpoint.params[index].default) {
        None => Omitted::Unbound,
        Some(None) => Omitted::Required,
        Some(Some(value)) => Omitted::Default(value),
    }
}

/// The reason why a request that both releases accept has another binding.
fn breach(old: &Omitted<'_>, new: &Omitted<'_>) -> Option<&'static str> {
    let is_bound = |omitted: &Omitted<'_>| match omitted {
        Omitted::Unbound => false,
        Omitted::Required => true,
        Omitted::Default(value) => **value != ParamValue::Null,
    };
    match (old, new) {
        (Omitted::Default(was), Omitted::Default(is)) => {
            (!was.equals(is)).then_some("has another default, and cursors are bound to its value")
        }
        (Omitted::Unbound, new) if is_bound(new) => {
            Some("selects rows now, so cursors are bound to its value")
        }
        (old, Omitted::Unbound) if is_bound(old) => {
            Some("doesn't select rows anymore, but older cursors are bound to its value")
        }
        _ => None,
    }
}
