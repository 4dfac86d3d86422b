//! Compares the responses of two releases of an endpoint: a tree of the body's members, with the
//! columns of rows as members.

use rowstream_core::diagnostic::{did_you_mean, shown};
use rowstream_encode::{Column, ColumnKind, Format, Nulls};
use serde_json::Value;

use super::{Effect, ReleaseChanges, ReleasedEndpoint};
use crate::endpoint::{Cardinality, Piece};
use crate::openapi::schema;

/// The form of a value whose type the database doesn't promise.
const ANY: &str = "any value";
const READERS: &str = "clients that read it";

/// A part of a body.
struct Member {
    /// Its name in the object or row around it. Empty for the whole body.
    name: String,
    /// Its form in words. Clients notice a different form.
    form: String,
    /// The members of an object or a row, or the reason why they're unknown.
    members: Result<Vec<Member>, String>,
}

pub(super) fn compare([old, new]: &[ReleasedEndpoint<'_>; 2], changes: &mut ReleaseChanges<'_>) {
    compare_member("", [&body(old), &body(new)], changes);
    compare_positions([old, new], changes);
}

fn compare_member(path: &str, [old, new]: [&Member; 2], changes: &mut ReleaseChanges<'_>) {
    let label = if path.is_empty() { "the body".to_owned() } else { shown(path) };
    let effect =
        if [old, new].iter().any(|member| member.form == ANY) { Effect::Note } else { Effect::Responses };
    changes.differ(effect, &label, [&old.form, &new.form], READERS);
    let (members, others) = match (&old.members, &new.members) {
        (Ok(members), Ok(others)) => (members, others),
        (Err(reason), _) => {
            return changes.lack(format!("the older columns of {label} aren't compared: {reason}"));
        }
        (_, Err(reason)) => {
            return changes.lack(format!("the new columns of {label} aren't compared: {reason}"));
        }
    };
    for member in members {
        let inner = if path.is_empty() { member.name.clone() } else { format!("{path}.{}", member.name) };
        let inner = inner.trim_end_matches('.');
        match others.iter().find(|other| other.name == member.name) {
            Some(other) => compare_member(inner, [member, other], changes),
            None => {
                let added = others.iter().filter(|other| !members.iter().any(|old| old.name == other.name));
                let near = did_you_mean(&member.name, added.map(|other| &*other.name));
                let near = near.map(|name| format!("; {} is new", shown(name))).unwrap_or_default();
                changes.push(Effect::Responses, format!("{} is gone{near}", shown(inner)), READERS);
            }
        }
    }
}

/// Notes columns of CSV that moved to other positions. A column that's gone is a change of its own.
fn compare_positions(versions: [&ReleasedEndpoint<'_>; 2], changes: &mut ReleaseChanges<'_>) {
    let names = versions.map(|version| {
        let rows =
            version.endpoint.rows_statement().filter(|_| version.endpoint.formats.contains(&Format::Csv));
        let columns = rows.and_then(|rows| version.columns(rows).ok()).unwrap_or_default();
        columns.into_iter().map(|column| column.name).collect::<Vec<_>>()
    });
    let [old, new] = &names;
    if !new.starts_with(old) && old.iter().all(|name| new.contains(name)) {
        let message = format!("the columns of CSV were {}, and are {}", old.join(","), new.join(","));
        changes.push(Effect::Note, message, "clients that read columns of CSV by their positions");
    }
}

fn body(version: &ReleasedEndpoint<'_>) -> Member {
    match version.endpoint.is_proxy() {
        true => Member::new("", "an upstream's response", Ok(Vec::new())),
        false => template(String::new(), &schema::template(version.endpoint), version),
    }
}

impl Member {
    fn new(name: impl Into<String>, form: impl Into<String>, members: Result<Vec<Self>, String>) -> Self {
        Self { name: name.into(), form: form.into(), members }
    }

    fn leaf(name: impl Into<String>, form: impl Into<String>) -> Self {
        Self::new(name, form, Ok(Vec::new()))
    }
}

fn template(name: String, value: &Value, version: &ReleasedEndpoint<'_>) -> Member {
    if let Some(piece) = schema::placed(version.endpoint, value) {
        return placed(name, piece, version);
    }
    let inner = |(name, value): (String, &Value)| template(name, value, version);
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), value));
            Member::new(name, "an object", Ok(members.map(inner).collect()))
        }
        Value::Array(items) => {
            let items = items.iter().enumerate().map(|(index, item)| (index.to_string(), item));
            Member::new(name, "an array", Ok(items.map(inner).collect()))
        }
        Value::String(_) => Member::leaf(name, "string"),
        Value::Number(_) => Member::leaf(name, "number"),
        Value::Bool(_) => Member::leaf(name, "boolean"),
        Value::Null => Member::leaf(name, "null"),
    }
}

fn placed(name: String, piece: &Piece, version: &ReleasedEndpoint<'_>) -> Member {
    let endpoint = version.endpoint;
    match piece {
        Piece::Rows(statement) => {
            let members = row(*statement, version);
            let form = match endpoint.cardinality(*statement) {
                Cardinality::Many => "a list of rows",
                Cardinality::One if endpoint.not_found() => "a row",
                Cardinality::One => "a row or null",
                Cardinality::Value => {
                    let unnamed = |members: Vec<Member>| {
                        members.into_iter().map(|member| Member { name: String::new(), ..member }).collect()
                    };
                    return Member::new(name, "a value", members.map(unnamed));
                }
            };
            Member::new(name, form, members)
        }
        Piece::Count(_) => Member::leaf(name, "integer"),
        Piece::Next | Piece::Digest | Piece::Literal(_) => Member::leaf(name, "string"),
    }
}

/// The members of a statement's row: its columns, and the lists that are nested in it.
fn row(statement: usize, version: &ReleasedEndpoint<'_>) -> Result<Vec<Member>, String> {
    let columns = version.columns(statement)?;
    let columns = columns.iter().map(|column| Member::leaf(&column.name, form(column, version)));
    let nested = version.endpoint.children(statement).map(|child| {
        let name = &version.endpoint.statements()[child].name;
        Member::new(name, "a list of rows", row(child, version))
    });
    Ok(columns.chain(nested).collect())
}

/// The form of a column's values, in OpenAPI's words.
fn form(column: &Column, version: &ReleasedEndpoint<'_>) -> String {
    let options = version.endpoint.response.values;
    let schema = schema::value(column, options);
    let main = schema.pointer("/anyOf/0").unwrap_or(&schema);
    let kind = main.pointer("/type/0").or(main.get("type")).and_then(Value::as_str);
    let kind = kind.unwrap_or(if column.kind == ColumnKind::Any { ANY } else { "JSON" });
    let detail = ["format", "pattern", "contentEncoding"].iter().find_map(|key| main.get(key)?.as_str());
    let detail = detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
    let omitted = if options.nulls == Nulls::Omit { ", left out if NULL" } else { "" };
    format!("{kind}{detail}{omitted}")
}
