//! `rows` of `[upstream]` and the keys that belong to it: a list whose elements are read as rows,
//! page by page.

use percent_encoding::utf8_percent_encode;
use rowstream_core::diagnostic::reader::{Table, Value};
use rowstream_core::diagnostic::shown;
use rowstream_upstream::json_columns::{DeclaredColumn, JsonKind, Plan};
use rowstream_upstream::payload::Payload;
use rowstream_upstream::pointer::Pointer;
use rowstream_upstream::template::{ENCODED, Name};

use super::{NameResolver, read_pointer};
use crate::endpoint::{CURSOR, MissingRows, NextPage};

/// The default limit on the pages of a response.
const MOST: usize = 1000;

/// The settings of a list, without its request.
pub(super) struct ListSettings {
    pub(super) payload: Option<Payload>,
    pub(super) rows: Pointer,
    pub(super) absent: MissingRows,
    pub(super) error: Option<Pointer>,
    pub(super) plan: Plan,
    pub(super) next: Option<NextPage>,
    pub(super) most: u64,
}

/// Reads the keys of a list; `request` is its text in the file. Returns `None` if there's no list,
/// or records the reason if it can't be used.
pub(super) fn read(
    table: &mut Table<'_>,
    rows: Option<&Value<'_>>,
    request: Option<&str>,
    names: &mut NameResolver<'_>,
) -> Option<ListSettings> {
    let [body, next, pages, error] = ["body", "next", "pages", "error"].map(|key| table.take(key));
    let Some(rows) = rows else {
        let columns = table.take("columns");
        for value in [body, columns, next, pages, error].into_iter().flatten() {
            let hint = "add `rows`, a JSON pointer to the rows in the reply, or remove it";
            value.error_with("this needs a reply that is split into rows", hint);
        }
        return None;
    };
    let hint = "rows have the declared columns: write `columns = { id = \"integer\", name = \"text\" }`";
    let columns = table.require("columns", hint);
    let place = read_rows(rows);
    // If the request couldn't be read, we assume that it's a POST if there's a body.
    let is_post = request.map_or(body.is_some(), |request| request.starts_with("POST "));
    let payload = read_payload(body.as_ref(), rows, is_post, names);
    let plan = columns.and_then(|value| read_columns(&value));
    let error = error.map(|value| read_pointer(&value));
    let most = pages.map_or(Some(MOST), |value| value.count(1));
    let next = next.map(|value| read_next(&value, request.unwrap_or_default(), names));
    let (rows, absent) = place?;
    Some(ListSettings {
        payload: payload?,
        rows,
        absent,
        error: error.map_or(Some(None), |error| error.map(Some))?,
        plan: plan?,
        next: next.map_or(Some(None), |next| next.map(Some))?,
        most: most? as u64,
    })
}

/// Reads `"/items"`, or `{ at = "/items", optional = true }`.
fn read_rows(value: &Value<'_>) -> Option<(Pointer, MissingRows)> {
    if value.is_string() {
        return Some((read_pointer(value)?, MissingRows::default()));
    }
    let mut table = value.table("`rows`")?;
    let at = table.require("at", "write their place in the reply: `at = \"/items\"`");
    let optional = table.take("optional").map_or(Some(false), |value| value.boolean());
    table.finish();
    let absent = if optional? { MissingRows::IsEmpty } else { MissingRows::Fails };
    Some((read_pointer(&at?)?, absent))
}

/// Reads the body of the request. `Some(None)` if it has none.
fn read_payload(
    body: Option<&Value<'_>>,
    rows: &Value<'_>,
    is_post: bool,
    names: &mut NameResolver<'_>,
) -> Option<Option<Payload>> {
    match (body, is_post) {
        (None, false) => Some(None),
        (Some(body), true) => {
            let parsed = Payload::parse(&body.string()?, &mut |name| names.find(name));
            parsed.map_err(|(message, hint)| body.error_with(message, hint)).ok().map(Some)
        }
        (Some(body), false) => {
            body.error_with("a GET request has no body", "write `request = \"POST /path\"`, or remove it");
            None
        }
        (None, true) => {
            rows.error_with("the request is a POST, but has no body", "add `body = '{ … }'`");
            None
        }
    }
}

/// Reads the columns, each a type, or `{ type = "…", at = "/…" }`.
fn read_columns(value: &Value<'_>) -> Option<Plan> {
    let entries = value.table("`columns`")?.entries();
    if entries.is_empty() {
        value.error_with("`columns` is empty", "write `columns = { id = \"integer\", name = \"text\" }`");
        return None;
    }
    let count = entries.len();
    let columns: Vec<_> =
        entries.into_iter().filter_map(|(_, name, value)| read_column(name, &value)).collect();
    (columns.len() == count).then(|| Plan::new(&columns))
}

fn read_column(name: String, value: &Value<'_>) -> Option<DeclaredColumn> {
    if value.is_string() {
        return Some(DeclaredColumn { name, kind: read_kind(value)?, at: None });
    }
    let mut table = value.table(format!("the column {}", shown(&name)))?;
    let kind = table.require("type", "write `type = \"text\"`, or another one");
    let at = table.take("at").map(|value| read_pointer(&value));
    table.finish();
    let kind = read_kind(&kind?)?;
    Some(DeclaredColumn { name, kind, at: at.map_or(Some(None), |at| at.map(Some))? })
}

fn read_kind(value: &Value<'_>) -> Option<JsonKind> {
    let text = value.string()?;
    let kind = JsonKind::from_name(&text);
    if kind.is_none() {
        let hint = rowstream_core::diagnostic::suggest("the types are", &text, JsonKind::NAMES);
        value.error_with(format!("{} isn't a column type", shown(&text)), hint);
    }
    kind
}

/// Reads `"link"`, or a table for one of the other ways.
fn read_next(value: &Value<'_>, request: &str, names: &mut NameResolver<'_>) -> Option<NextPage> {
    const WRITE: &str = "write \"link\", `{ at = \"/next\" }`, `{ cursor = \"after\", at = \"/cursor\" }`, \
        `{ body = '…', at = \"/cursor\" }`, `{ offset = \"offset\" }` or `{ page = \"page\" }`";
    if value.is_string() {
        let text = value.string()?;
        if text != "link" {
            value.error_with(format!("{} isn't a way to the next page", shown(&text)), WRITE);
            return None;
        }
        return Some(NextPage::Link);
    }
    let mut table = value.table("`next`")?;
    let keys = ["at", "cursor", "body", "offset", "page", "first"];
    let [at, cursor, body, offset, page, first] = keys.map(|key| table.take(key));
    table.finish();
    let counted = |value: &Value<'_>| query_name(value, request);
    match (at, cursor, body, offset, page, first) {
        (Some(at), None, None, None, None, None) => read_pointer(&at).map(NextPage::Url),
        (Some(at), Some(cursor), None, None, None, None) => {
            Some(NextPage::Cursor(encoded(&cursor.string()?), read_pointer(&at)?))
        }
        (Some(at), None, Some(body), None, None, None) => {
            Some(NextPage::Body(next_body(&body, names)?, read_pointer(&at)?))
        }
        (None, None, None, Some(offset), None, None) => counted(&offset).map(NextPage::Offset),
        (None, None, None, None, Some(page), first) => {
            let first = first.map_or(Some(1), |value| value.count(0))?;
            Some(NextPage::Page(counted(&page)?, first as u64))
        }
        _ => {
            value.error_with("this isn't a way to the next page, or it's more than one", WRITE);
            None
        }
    }
}

/// The name of a parameter as it's written in a query.
fn encoded(name: &str) -> String {
    utf8_percent_encode(name, ENCODED).to_string()
}

/// The name of a query parameter that each page sets, from the first one on. The request itself
/// must not contain it.
fn query_name(value: &Value<'_>, request: &str) -> Option<String> {
    let name = encoded(&value.string()?);
    let query = request.split_once('?').map_or("", |(_, query)| query);
    if query.split('&').any(|pair| pair.split('=').next() == Some(name.as_str())) {
        let hint = "remove it there: every page sets it, beginning with the first";
        value.error_with(format!("the request already has {}", shown(&name)), hint);
        return None;
    }
    Some(name)
}

/// The body of the requests for the second and later pages.
fn next_body(value: &Value<'_>, names: &mut NameResolver<'_>) -> Option<Payload> {
    let (cursor, mut is_used) = (Name::Param(names.declared.len()), false);
    let parsed = Payload::parse(&value.string()?, &mut |name| {
        is_used |= name == CURSOR;
        if name == CURSOR { Some(cursor) } else { names.find(name) }
    });
    let payload = parsed.map_err(|(message, hint)| value.error_with(message, hint)).ok()?;
    if !is_used {
        let hint = format!("write `{{{CURSOR}}}` for the value at `at` of the previous page");
        value.error_with("this body would be the same for each page", hint);
        return None;
    }
    Some(payload)
}
