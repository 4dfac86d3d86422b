//! `rowstream check --explain`: the statements that a request would run, and their plans.
//!
//! The request is answered as the server would answer it with `_explain=1`, but nothing listens.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use rowstream_core::error::ErrorDetail;
use serde_json::Value;

use super::Failure;
use crate::config::Config;
use crate::respond::{App, Arrival};

/// The plans of a request, or the error that it gets.
pub(super) struct ExplainedRequest {
    /// Its path and its query, as they were given.
    pub(super) target: String,
    /// The statements with their plans, or a problem document.
    pub(super) answer: Result<Value, Value>,
}

/// Asks for the plans of each of these requests, in the rights of the server's own login. If
/// `create` would create a database file, it's created in the folder `made` instead.
///
/// # Errors
/// A source's settings are wrong, or a text isn't the path of a request.
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
        let answer = answer(&app, target).await?;
        explained.push(ExplainedRequest { target: target.clone(), answer });
    }
    Ok(explained)
}

async fn answer(app: &Arc<App>, target: &str) -> Result<Result<Value, Value>, Failure> {
    let separator = if target.contains('?') { '&' } else { '?' };
    let request = Request::get(format!("{target}{separator}_explain=1")).body(Empty::<Bytes>::new());
    let request = request.ok().filter(|_| target.starts_with('/'));
    let request = request.ok_or_else(|| {
        let text = format!("{target} isn't the path of a request\nhint: write '/orders?status=eq.PAID'");
        Failure::Message(text)
    })?;
    let response = Arc::clone(app).respond(Arrival::default(), request).await;
    let is_ok = response.status().is_success();
    let body = response.into_body().collect().await.map_err(|error| incomplete(target, &error))?;
    let body = serde_json::from_slice(&body.to_bytes()).map_err(|error| incomplete(target, &error))?;
    Ok(if is_ok { Ok(body) } else { Err(body) })
}

fn incomplete(target: &str, error: &impl fmt::Display) -> Failure {
    Failure::Message(format!("the plan of {target} is incomplete: {error}"))
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
