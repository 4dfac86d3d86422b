//! What `rowstream check` has found, as a JSON document for editors and pipelines.
//!
//! Every member is always there; what does not apply is null. Users' programs read it: members are
//! added and never changed.

use rowstream_encode::{Column, Format};
use serde_json::{Value, json};

use super::{Report, rows};
use crate::Error;
use crate::check::{CheckedEndpoint, Columns, Refusal};
use crate::diagnostic::{CODE, Fault};
use crate::endpoint::{Endpoint, Statement, Upstream};
use crate::params::{Param, ParamPlace, ParamValue};

pub(super) fn document(report: &Report<'_>) -> Value {
    let of_files = report.faults.iter().map(|fault| of_file(fault));
    let of_statements = report.refusals().into_iter().map(of_statement);
    let of_sources = report.failed().map(|(source, error)| of_source(source, error));
    let sources = report
        .sources
        .iter()
        .map(|(source, checked)| json!({"name": source.name, "reached": checked.is_reached()}));
    json!({
        "errors": of_files.chain(of_statements).chain(of_sources).collect::<Vec<_>>(),
        "warnings": report.warnings().into_iter().map(of_statement).collect::<Vec<_>>(),
        "sources": sources.collect::<Vec<_>>(),
        "endpoints": report.endpoints().map(endpoint).collect::<Vec<_>>(),
    })
}

fn of_file(fault: &Fault) -> Value {
    json!({
        "file": fault.file.to_string_lossy(),
        "line": fault.line,
        "column": fault.column,
        "code": CODE,
        "sqlstate": null,
        "message": fault.message,
        "hint": fault.hint,
        "endpoint": null,
        "source": null,
    })
}

fn of_statement(refusal: &Refusal) -> Value {
    let mut error = of_file(&refusal.fault);
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

fn endpoint(checked: &CheckedEndpoint<'_>) -> Value {
    let CheckedEndpoint { endpoint, results, .. } = checked;
    let formats: Vec<_> = endpoint.formats.iter().copied().map(Format::name).collect();
    let of_upstream = || match &endpoint.upstream {
        Some(Upstream::Pages(pages)) => Some(columns(&pages.columns())),
        Some(Upstream::Calls(calls)) => Some(columns(&calls.columns())),
        Some(Upstream::Pass(_)) | None => None,
    };
    let statements = endpoint.statements.iter().enumerate().map(|(index, one)| {
        let columns = match results.get(index) {
            Some(Some(Columns::Own(own))) => Some(columns(own)),
            Some(Some(Columns::Refcursor(_)) | None) => None,
            None => of_upstream(),
        };
        statement(endpoint, one, columns.as_ref())
    });
    json!({
        "path": endpoint.path,
        "file": endpoint.file.to_string_lossy(),
        "source": endpoint.source.name(),
        "summary": endpoint.summary,
        "formats": formats,
        "parameters": endpoint.params.iter().map(parameter).collect::<Vec<_>>(),
        "statements": statements.collect::<Vec<_>>(),
    })
}

fn statement(endpoint: &Endpoint, statement: &Statement, columns: Option<&Value>) -> Value {
    let parent = statement.nested.as_ref().map(|nested| endpoint.statements[nested.parent].name.as_str());
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

fn parameter(param: &Param) -> Value {
    let place = match &param.place {
        ParamPlace::Path => "path",
        ParamPlace::Query => "query",
        ParamPlace::Header(_) => "header",
    };
    let header = match &param.place {
        ParamPlace::Header(name) => Some(name.to_string()),
        ParamPlace::Path | ParamPlace::Query => None,
    };
    json!({
        "name": param.name,
        "type": param.kind.name(),
        "list": param.list,
        "in": place,
        "header": header,
        "required": param.default.is_none(),
        "default": param.default.as_ref().and_then(ParamValue::postgres_text),
    })
}
