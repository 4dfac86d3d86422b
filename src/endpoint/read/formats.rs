//! The formats of an endpoint's responses.

use rowstream_core::diagnostic::reader::Value;
use rowstream_core::diagnostic::{shown, suggest};
use rowstream_encode::Format;

use crate::endpoint::Endpoint;

/// The formats that a file lists, each once and with its position.
pub(super) fn read<'a>(value: &Value<'a>) -> Vec<(Format, Value<'a>)> {
    let Some(names) = value.strings() else { return Vec::new() };
    if names.is_empty() {
        value.error_with("`formats` is empty", "leave it out to offer all");
    }
    let mut formats: Vec<(Format, Value<'a>)> = Vec::new();
    for (name, item) in names {
        match Format::from_name(&name) {
            None => {
                let hint = suggest("the formats are", &name, Format::ALL.map(Format::name));
                item.error_with(format!("there is no format {}", shown(&name)), hint);
            }
            Some(format) if formats.iter().any(|(listed, _)| *listed == format) => {
                item.error(format!("the format `{name}` is listed twice"));
            }
            Some(format) => formats.push((format, item)),
        }
    }
    formats
}

/// The formats of an endpoint: the listed ones, or all that can carry it. None if its responses are
/// proxied.
pub(super) fn of(listed: Option<&[(Format, Value<'_>)]>, endpoint: &Endpoint) -> Vec<Format> {
    match listed {
        _ if endpoint.is_proxy() => Vec::new(),
        Some(listed) => carried(listed, endpoint),
        None => all(endpoint),
    }
}

/// The listed formats. A format that can't carry the endpoint is an error.
fn carried(listed: &[(Format, Value<'_>)], endpoint: &Endpoint) -> Vec<Format> {
    for (format, item) in listed {
        if let Some(reason) = reason_not_to_carry(*format, endpoint) {
            item.error(format!("`{}` {reason}", format.name()));
        }
    }
    listed.iter().map(|(format, _)| *format).collect()
}

/// All formats that can carry an endpoint. Pages for browsers are only for endpoints that give them
/// something to follow or to choose.
pub(super) fn all(endpoint: &Endpoint) -> Vec<Format> {
    let has_pages = endpoint.refine_settings().is_some() || !endpoint.links.is_empty();
    let carried = |format: &Format| {
        (*format != Format::Html || has_pages) && reason_not_to_carry(*format, endpoint).is_none()
    };
    Format::ALL.into_iter().filter(carried).collect()
}

/// The reason why a format can't carry an endpoint. All except JSON contain only the rows of one
/// statement, and tables can't have lists in their rows.
fn reason_not_to_carry(format: Format, endpoint: &Endpoint) -> Option<&'static str> {
    match (format, endpoint.rows_statement()) {
        (Format::Json, _) => None,
        (_, None) => Some("holds the rows of one list, but this endpoint has several"),
        (Format::Csv | Format::Html, Some(rows)) if endpoint.children(rows).next().is_some() => {
            Some("can't hold lists within rows, but this endpoint nests statements")
        }
        (_, Some(_)) => None,
    }
}
