//! `rowstream check --explain`: the statements that a request would run, and their plans.
//!
//! The request is answered as the server would answer it with `_explain=1`, but nothing listens.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use rowstream_core::error::ErrorDetail;
use rowstream_core::params::has_name;
use serde_json::{Value, json};

use super::Failure;
use crate::config::Config;
use crate::respond::{App, Arrival, PlanAsJson};

/// The plans of a request, or the error that it gets.
pub(super) struct ExplainedRequest {
    /// Its path and its query, as they were given.
    pub(super) target: String,
    /// The statements with their plans, or a problem document.
    pub(super) answer: Result<Value, Value>,
}

impl ExplainedRequest {
    /// A request that isn't explained, because the files or their statements have errors.
    pub(super) fn not_asked(target: &str) -> Self {
        let error = json!({"detail": "it isn't explained, because of the errors in files or sources"});
        Self { target: target.to_owned(), answer: Err(error) }
    }
}

/// The longest answer that is read, in bytes.
const LONGEST: usize = 64 << 20;

/// Asks for the plans of each of these requests, in the rights of each source's own user. If `create`
/// would create a database file, it's created in the folder `made` instead.
///
/// # Errors
/// A source's settings are wrong.
pub(super) async fn explain(
    config: &Config,
    targets: &[String],
    made: &Path,
) -> Result<Vec<ExplainedRequest>, Failure> {
    let mut config = config.clone();
    config.explain_to_all();
    config.error_detail = Some(ErrorDetail::Database);
    (config.log.access, config.traces) = (false, None);
    for source in &mut config.sources {
        *source = source.created_in(made)?;
    }
    let app = Arc::new(App::new(config)?);
    let mut explained = Vec::new();
    for target in targets {
        let answer = answer(&app, target).await;
        explained.push(ExplainedRequest { target: target.clone(), answer });
    }
    Ok(explained)
}

async fn answer(app: &Arc<App>, target: &str) -> Result<Value, Value> {
    let problem = |detail: String| json!({"detail": detail});
    let request = Request::get(explained(target)).extension(PlanAsJson).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| problem(error.to_string()))?;
    let response = Arc::clone(app).respond(Arrival::default(), request).await;
    let is_ok = response.status().is_success();
    let body = Limited::new(response.into_body(), LONGEST).collect().await;
    let body = body.map_err(|error| problem(format!("the plan is incomplete: {error}")))?;
    match serde_json::from_slice::<Value>(&body.to_bytes()) {
        Ok(plans) if is_ok && plans["statements"].is_array() => Ok(plans),
        Ok(error) if !is_ok => Err(error),
        _ => Err(problem("this isn't an endpoint with statements".to_owned())),
    }
}

/// The request of the plans. `_explain` is the first parameter, in front of anything else.
fn explained(target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    format!("{path}?_explain=1&{query}")
}

/// Reads an argument: the path of a request, and its query.
///
/// # Errors
/// It's another text. The reason is for the user.
pub(super) fn read_target(text: &str) -> Result<String, String> {
    let query = text.split_once('?').map_or("", |(_, query)| query);
    let why = if text.contains("://") {
        "write only the path and the query, without the server"
    } else if !text.starts_with('/') {
        "a path begins with `/`"
    } else if text.contains('#') {
        "a request has no `#…`: write `#` as %23 in a value"
    } else if text.contains(char::is_whitespace) {
        "write a space as %20"
    } else if has_name(query, "_explain") {
        "leave `_explain` out"
    } else if let Err(error) = explained(text).parse::<Uri>() {
        return Err(error.to_string());
    } else {
        return Ok(text.to_owned());
    };
    Err(why.to_owned())
}

impl fmt::Display for ExplainedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "GET {}", self.target)?;
        match &self.answer {
            Ok(plans) => {
                plans["statements"].as_array().into_iter().flatten().try_for_each(|plan| statement(plan, f))
            }
            Err(problem) => error(problem, f),
        }
    }
}

/// Writes a statement, and its plan below it.
fn statement(statement: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "    {}", text(&statement["name"]))?;
    indented(&text(&statement["sql"]), f)?;
    writeln!(f, "    plan of {}", text(&statement["name"]))?;
    statement["plan"].as_array().into_iter().flatten().try_for_each(|line| indented(&plan_line(line), f))
}

/// A row of a plan: its only column, or each column with its name.
fn plan_line(row: &Value) -> String {
    let Some(columns) = row.as_object() else { return text(row) };
    if let (Some(only), 1) = (columns.values().next(), columns.len()) {
        return text(only);
    }
    let mut line = String::new();
    for (name, value) in columns.iter().filter(|(_, value)| !value.is_null()) {
        let _ = write!(line, "{}{name}: {}", if line.is_empty() { "" } else { ", " }, text(value));
    }
    line
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn indented(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    text.lines().try_for_each(|line| writeln!(f, "        {line}"))
}

/// Writes a problem document.
fn error(problem: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "    error: {}", text(&problem["detail"]))?;
    let parameters = problem["parameters"].as_array().filter(|parameters| parameters.len() > 1);
    for parameter in parameters.into_iter().flatten() {
        writeln!(f, "    {}: {}", text(&parameter["name"]), text(&parameter["message"]))?;
    }
    match problem["hint"].as_str() {
        Some(hint) => writeln!(f, "    hint: {hint}"),
        None => Ok(()),
    }
}
