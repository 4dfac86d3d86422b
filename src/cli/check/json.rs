//! The results of `rowstream check` as a JSON document for editors and pipelines.
//!
//! Every member is always present, and null if it doesn't apply. Users' programs read it, so
//! members may be added, but never changed.

use rowstream_core::Error;
use rowstream_core::diagnostic::{CODE, Diagnostic};
use rowstream_core::params::Param;
use rowstream_encode::{Column, Format};
use serde_json::{Value, json};

use super::{CheckedSource, ExplainedRequest, ReleaseChange, Report, rows};
use crate::check::{CheckedEndpoint, Columns, StatementRefusal};
use crate::database::HostReport;
use crate::endpoint::{Cardinality, Endpoint, Handler, Statement};

pub(super) fn document(report: &Report<'_>) -> Value {
    let of_files = report.errors.iter().map(|error| of_file(error));
    let of_statements = report.refusals().into_iter().map(of_statement);
    let of_sources = report.failed().map(|(source, error)| of_source(source, error));
    let sources = report.sources.iter().map(|CheckedSource { source, checked, hosts }| {
        let hosts: Vec<_> = hosts.iter().map(host).collect();
        json!({"name": source.name, "reached": checked.is_reached(), "hosts": hosts})
    });
    json!({
        "errors": of_files.chain(of_statements).chain(of_sources).collect::<Vec<_>>(),
        "warnings": report.warnings().into_iter().map(of_statement).collect::<Vec<_>>(),
        "sources": sources.collect::<Vec<_>>(),
        "endpoints": report.endpoints().map(endpoint).collect::<Vec<_>>(),
        "plans": report.plans.iter().map(plan).collect::<Vec<_>>(),
        "changes": report.changes.as_ref().map(|changes| changes.iter().map(change).collect::<Vec<_>>()),
    })
}

fn host(host: &HostReport) -> Value {
    let error = host.said.as_ref().err().map(Error::for_operators);
    json!({"name": host.name, "says": host.said.as_ref().ok(), "error": error})
}

fn of_file(error: &Diagnostic) -> Value {
    json!({
        "file": error.file.to_string_lossy(),
        "line": error.line,
        "column": error.column,
        "code": CODE,
        "sqlstate": null,
        "message": error.message,
        "hint": error.hint,
        "endpoint": null,
        "source": null,
    })
}

fn of_statement(refusal: &StatementRefusal) -> Value {
    let mut error = of_file(&refusal.diagnostic);
    error["code"] = refusal.code.into();
    error["sqlstate"] = refusal.sqlstate.clone().into();
    error["endpoint"] = refusal.endpoint.clone().into();
    error["source"] = refusal.source.clone().into();
    error
}

fn of_source(source: &str, error: &Error) -> Value {
    json!({
        "file": null,
        "line": null,
        "column": null,
        "code": error.code(),
        "sqlstate": error.sqlstate_text(),
        "message": error.for_operators(),
        "hint": error.hint_text(),
        "endpoint": null,
        "source": source,
    })
}

fn plan(plan: &ExplainedRequest) -> Value {
    json!({
        "request": plan.target,
        "statements": plan.answer.as_ref().ok().map(|plans| &plans["statements"]),
        "error": plan.answer.as_ref().err(),
    })
}

fn change(change: &ReleaseChange) -> Value {
    json!({
        "endpoint": change.endpoint,
        "breaks": change.effect.broken(),
        "message": change.message,
        "affected": change.affected,
    })
}

fn endpoint(checked: &CheckedEndpoint<'_>) -> Value {
    let CheckedEndpoint { endpoint, results, .. } = checked;
    let formats: Vec<_> = endpoint.formats.iter().copied().map(Format::name).collect();
    let statements = match &endpoint.handler {
        Handler::Sql(sql) => {
            let checked = sql.statements.iter().zip(results);
            checked.map(|(one, columns)| statement(endpoint, one, columns.as_ref())).collect()
        }
        Handler::Pages(pages) => vec![of_upstream(&pages.columns())],
        Handler::Calls(calls) => vec![of_upstream(&calls.columns())],
        Handler::Proxy(_) => Vec::new(),
    };
    json!({
        "path": endpoint.path,
        "file": endpoint.file.to_string_lossy(),
        "source": endpoint.source.name(),
        "summary": endpoint.summary,
        "formats": formats,
        "parameters": endpoint.params.iter().map(Param::to_json).collect::<Vec<_>>(),
        "statements": statements,
    })
}

/// The rows of an upstream, as if they were those of a statement.
fn of_upstream(rows: &[Column]) -> Value {
    let cardinality = self::rows(Cardinality::Many);
    json!({"name": Endpoint::ONLY, "rows": cardinality, "nested_in": null, "columns": columns(rows)})
}

fn statement(endpoint: &Endpoint, statement: &Statement, result: Option<&Columns>) -> Value {
    let columns = match result {
        Some(Columns::Own(own)) => Some(columns(own)),
        Some(Columns::Refcursor(_) | Columns::Result(_)) | None => None,
    };
    let parent = statement.nested.as_ref().map(|nested| endpoint.statements()[nested.parent].name.as_str());
    json!({
        "name": statement.name,
        "rows": rows(statement.cardinality),
        "nested_in": parent,
        "columns": columns,
    })
}

fn columns(columns: &[Column]) -> Value {
    columns.iter().map(|column| json!({"name": column.name, "type": column.type_name})).collect()
}
