//! The list of endpoints that a server prints at its start: one line each, with the URL, the
//! parameters and the summary.

use rowstream_core::diagnostic::is_invisible;
use rowstream_core::params::{Param, ParamValue};

use crate::config::Config;
use crate::endpoint::{Endpoint, RefineSettings};
use crate::route;

/// A longer list would push the important lines off the screen. `/` has all endpoints.
const LONGEST: usize = 40;
/// A longer line doesn't widen the columns of the others.
const WIDEST: usize = 64;

/// The lines for the endpoints of a server at `url` (without a slash at its end).
pub(super) fn lines(config: &Config, url: &str) -> Vec<String> {
    let all = &config.endpoints;
    let listed = &all[..all.len().min(LONGEST)];
    let rows: Vec<_> = listed.iter().map(|endpoint| columns(endpoint, url)).collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.filter(|width| *width <= WIDEST).max().unwrap_or_default()
    };
    let (urls, params) = (width(0), width(1));
    let line = |[url, param, summary]: &[String; 3]| {
        format!("{url:urls$}  {param:params$}  {summary}").trim_end().to_owned()
    };
    let more = all.len() - listed.len();
    let more = (more > 0).then(|| format!("and {more} more: {url}/"));
    rows.iter().map(line).chain(more).collect()
}

fn columns(endpoint: &Endpoint, url: &str) -> [String; 3] {
    let refined = endpoint.refine_settings().map(refined).unwrap_or_default();
    let params: Vec<_> = endpoint.params.iter().map(param).chain(refined).collect();
    let summary = endpoint.summary.as_deref().unwrap_or_default();
    [format!("GET {url}{}", route::encoded(&endpoint.path)), params.join(", "), plain(summary)]
}

/// The words for filters, orders and the like that requests may use. `filters` includes the others,
/// which would make the list long.
fn refined(settings: &RefineSettings) -> Vec<String> {
    let words = settings.words();
    let words = if words.contains(&"filters") { vec!["filters"] } else { words };
    words.into_iter().map(|word| format!("{word}?")).collect()
}

/// `id: integer`, `limit?: integer` if it's optional, or `n: integer = 10` with a default.
fn param(param: &Param) -> String {
    let (name, kind) = (&param.name, param.type_name());
    match &param.default {
        None => format!("{name}: {kind}"),
        Some(value) => match value.postgres_text() {
            None => format!("{name}?: {kind}"),
            Some(_) if *value == ParamValue::Text(String::new()) => format!("{name}: {kind} = ''"),
            Some(text) => format!("{name}: {kind} = {}", plain(&text)),
        },
    }
}

/// The first line of a text, without characters that move a terminal's cursor.
fn plain(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    line.chars().map(|c| if is_invisible(c) { ' ' } else { c }).collect()
}
