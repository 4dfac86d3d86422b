//! `[params]` of an endpoint.

use std::cmp::Ordering;

use http::HeaderName;
use rowstream_core::diagnostic::reader::{Table, Value};
use rowstream_core::diagnostic::{File, shown};
use rowstream_core::params::{CLAIMS, Param, ParamPlace, ParamType, ParamValue};
use rowstream_core::sql::is_name;

use super::path::PathTemplate;

/// A declared parameter, and the offset of its declaration, in bytes.
pub(super) struct DeclaredParam {
    pub(super) param: Param,
    pub(super) offset: usize,
}

/// Reads `[params]`. A path parameter that isn't declared is an error. It's added all the same, so
/// that the statements that use it aren't reported too.
pub(super) fn read(file: File<'_>, table: &mut Table<'_>, path: &PathTemplate) -> Vec<DeclaredParam> {
    let entries = table.take("params").and_then(|value| value.table("[params]")).map(Table::entries);
    let mut declared = Vec::new();
    for (offset, name, value) in entries.unwrap_or_default() {
        check_name(file, offset, &name);
        let param = declare(&name, &value, path.names.contains(&name));
        declared.push(DeclaredParam { param, offset });
    }
    for name in &path.names {
        if !declared.iter().any(|known| known.param.name == *name) {
            declared.push(DeclaredParam { param: undeclared(file, path, name), offset: path.offset });
        }
    }
    declared
}

fn undeclared(file: File<'_>, path: &PathTemplate, name: &str) -> Param {
    let message = format!("the parameter `{{{name}}}` of the path is not declared");
    file.error(path.offset, message, Some(how_to_declare(name)));
    Param { place: ParamPlace::Path, ..Param::new(name, ParamType::Text) }
}

/// A hint that shows how to declare a parameter.
pub(super) fn how_to_declare(name: &str) -> String {
    format!("declare it below `[params]`: `{name} = \"integer\"`, or another type")
}

/// Adds to the hint about a parameter how to write a colon of SQL, if it may be one: as in
/// `map {1:id}`, it's behind a word or a text. `before` is the statement before the colon.
pub(crate) fn or_colon(hint: String, before: &str, name: &str) -> String {
    let is_behind_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    match is_behind_word || before.trim_end().ends_with(['\'', '"']) {
        true => format!("{hint}; if the colon belongs to SQL, write a space after it: `: {name}`"),
        false => hint,
    }
}

/// Declares the claims that statements use without a declaration. Each is a text.
pub(super) fn declare_claims<'a>(
    names: impl Iterator<Item = (&'a str, usize)>,
    declared: &mut Vec<DeclaredParam>,
) {
    for (name, offset) in names {
        if is_claim(name) && !declared.iter().any(|known| known.param.name == name) {
            let param = Param { place: ParamPlace::Claim, ..Param::new(name, ParamType::Text) };
            declared.push(DeclaredParam { param, offset });
        }
    }
}

fn is_claim(name: &str) -> bool {
    name.strip_prefix(CLAIMS).is_some_and(|path| path.split('.').all(is_name))
}

fn check_name(file: File<'_>, offset: usize, name: &str) {
    if is_claim(name) {
        return;
    }
    if !is_name(name) {
        let message = format!("{} cannot be the name of a parameter", shown(name));
        file.error(offset, message, Some("names are ASCII letters, digits and underscores".to_owned()));
    } else if name.starts_with('_') {
        let message = format!("the name {} begins with an underscore", shown(name));
        file.error(
            offset,
            message,
            Some(
                "names that begin with an underscore are reserved for the server (`_format`): rename it"
                    .to_owned(),
            ),
        );
    }
}

/// Reads a parameter: `NAME = "type"` or `NAME = { type = "type", … }`.
fn declare(name: &str, value: &Value<'_>, in_path: bool) -> Param {
    let mut param = Param::new(name, ParamType::Text);
    if in_path {
        param.place = ParamPlace::Path;
    } else if is_claim(name) {
        param.place = ParamPlace::Claim;
    }
    if value.is_string() {
        read_type(value, &mut param);
    } else if let Some(table) = value.table(format!("the parameter `{name}`")) {
        read_table(table, &mut param);
    }
    param
}

fn read_table(mut table: Table<'_>, param: &mut Param) {
    let hint = format!("the types are {}", types());
    let typed = table.require("type", &hint).is_some_and(|value| read_type(&value, param));
    param.summary = table.take("summary").and_then(|value| value.string());
    read_place(&mut table, param);
    let local = table.take("local");
    let optional = table.take("optional");
    let bounds = (table.take("min"), table.take("max"), table.take("enum"), table.take("default"));
    // If the type is unknown, its values can't be checked.
    if typed {
        let (min, max, allowed, default) = bounds;
        read_local(local, param);
        read_bounds(min.as_ref(), max.as_ref(), param);
        read_allowed(allowed, param);
        read_default(optional, default, param);
    }
    table.finish();
}

fn types() -> String {
    let names = rowstream_core::diagnostic::list(ParamType::ALL.map(ParamType::name));
    format!("{names}, each also as a list: `integer[]`")
}

/// Returns true if the type could be read.
fn read_type(value: &Value<'_>, param: &mut Param) -> bool {
    let Some(text) = value.string() else { return false };
    let (name, list) = text.strip_suffix("[]").map_or((text.as_str(), false), |name| (name, true));
    let Some(kind) = ParamType::from_name(name) else {
        value.error_with(format!("there is no type {}", shown(&text)), ParamType::suggest(name));
        return false;
    };
    (param.kind, param.list) = (kind, list);
    true
}

/// Reads `in = "query"` or `"header"`, and `header = "X-Name"`. By default, the header has the
/// parameter's own name.
fn read_place(table: &mut Table<'_>, param: &mut Param) {
    let place = table.take("in");
    let header = table.take("header");
    if param.place == ParamPlace::Path {
        for value in place.iter().chain(&header) {
            value.error_with(format!("the path already has `{{{}}}`", param.name), "leave this out");
        }
        return;
    }
    if param.place == ParamPlace::Claim {
        for value in place.iter().chain(&header) {
            value.error_with("the token already has this parameter", "leave this out");
        }
        return;
    }
    let place = place.and_then(|value| Some((value.string()?, value)));
    match (place.as_ref().map(|(text, value)| (text.as_str(), value)), header) {
        (Some(("query", value)), Some(_)) => {
            value.error_with("a query parameter has no header", "leave out one of the two");
        }
        (None | Some(("query", _)), None) => {}
        (None | Some(("header", _)), Some(header)) => {
            let name = header.string();
            name.inspect(|name| set_header(name, &header, param));
        }
        (Some(("header", value)), None) => set_header(&param.name.clone(), value, param),
        (Some((other, value)), _) => {
            value.error_with(
                format!("a parameter cannot be in {}", shown(other)),
                "write `in = \"query\"` or `in = \"header\"`",
            );
        }
    }
}

fn set_header(name: &str, value: &Value<'_>, param: &mut Param) {
    match HeaderName::from_bytes(name.as_bytes()) {
        Ok(header) => param.place = ParamPlace::Header { name: header, spelling: name.to_owned() },
        Err(_) => value.error(format!("{} cannot be the name of a header", shown(name))),
    }
}

fn read_bounds(min: Option<&Value<'_>>, max: Option<&Value<'_>>, param: &mut Param) {
    param.min = min.and_then(|value| read_bound("min", value, param));
    param.max = max.and_then(|value| read_bound("max", value, param));
    if let (Some(min), Some(bound), Some(value)) = (&param.min, &param.max, max)
        && min.order(bound) == Ordering::Greater
    {
        value.error(format!("`max` of `{}` is less than its `min`", param.name));
        param.max = None;
    }
}

fn read_bound(key: &str, value: &Value<'_>, param: &Param) -> Option<ParamValue> {
    if !matches!(param.kind, ParamType::Integer | ParamType::Number) {
        let message =
            format!("`{key}` of `{}` has no meaning for the type `{}`", param.name, param.kind.name());
        value.error_with(message, "only `integer` and `number` have bounds");
        return None;
    }
    // Parsed without the limits of `param`, because its `min` must not apply to its `max`.
    read_one(key, value, &Param::new(&param.name, param.kind))
}

fn read_local(value: Option<Value<'_>>, param: &mut Param) {
    let Some(value) = value else { return };
    param.local = value.boolean() == Some(true);
    if param.local && param.kind != ParamType::Text {
        let message =
            format!("`local` of `{}` has no meaning for the type `{}`", param.name, param.kind.name());
        value.error_with(message, "only a `text` can be a date and time without an offset");
    }
}

fn read_allowed(value: Option<Value<'_>>, param: &mut Param) {
    let Some(value) = value else { return };
    let Some(items) = value.list() else { return };
    if items.is_empty() {
        value.error_with(format!("`enum` of `{}` is empty", param.name), "list the values, or leave it out");
    }
    param.allowed = items.iter().filter_map(|item| read_one("enum", item, param)).collect();
}

fn read_default(optional: Option<Value<'_>>, default: Option<Value<'_>>, param: &mut Param) {
    let optional = optional.and_then(|value| value.boolean().filter(|optional| *optional).map(|_| value));
    if param.place == ParamPlace::Path {
        for value in optional.iter().chain(&default) {
            let message = format!("`{}` is in the path, so it's never missing", param.name);
            value.error_with(message, "leave out `default` and `optional`");
        }
        return;
    }
    param.default = match (optional, default) {
        (Some(optional), Some(_)) => {
            let message = format!("`{}` has a default, so it's already optional", param.name);
            optional.error_with(message, "leave out one of the two: `optional` makes it NULL");
            None
        }
        (Some(_), None) => Some(ParamValue::Null),
        (None, Some(default)) if param.list => read_list(&default, param),
        (None, Some(default)) => read_one("default", &default, param),
        (None, None) => None,
    };
}

fn read_list(value: &Value<'_>, param: &Param) -> Option<ParamValue> {
    let items = value.list()?;
    Some(ParamValue::List(items.iter().filter_map(|item| read_one("default", item, param)).collect()))
}

/// Reads one value with the same parser as requests.
fn read_one(key: &str, value: &Value<'_>, param: &Param) -> Option<ParamValue> {
    let text = match param.kind {
        ParamType::Json if !value.is_string() => value.json()?.to_string(),
        _ => value.scalar_text().or_else(|| {
            value.error(format!("`{key}` of `{}` must be a single value", param.name));
            None
        })?,
    };
    match param.parse_one(&text) {
        Ok(value) => Some(value),
        Err(message) => {
            value.error(format!("`{key}` of `{}`: {message}", param.name));
            None
        }
    }
}
