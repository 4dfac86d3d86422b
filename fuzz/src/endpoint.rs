//! The parser of endpoint files: a text is a consistent endpoint, or has errors with places in it.

use std::path::Path;

use rowstream::database::DatabaseKind;
use rowstream::endpoint::{Endpoint, Handler, Piece};
use rowstream::fuzzing::{read_endpoint, read_statement};
use rowstream::route::Router;
use rowstream_core::diagnostic::Diagnostic;
use rowstream_core::params::ParamValue;

/// Parses a text as an endpoint file of either kind and for either database, and as a single
/// statement.
pub fn endpoint(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for (path, database) in [
        ("a/{id}.sql", DatabaseKind::Postgres),
        ("a.sql", DatabaseKind::Sqlite),
        ("a.toml", DatabaseKind::Postgres),
    ] {
        assert_read(text, read_endpoint(Path::new(path), text, database));
    }
    assert_read(text, read_statement(text, DatabaseKind::Postgres));
}

fn assert_read(text: &str, (endpoint, errors): (Option<Endpoint>, Vec<Diagnostic>)) {
    for error in &errors {
        let line = text.split('\n').nth(error.line - 1).expect("the line of an error is one of the text's");
        assert!((1..=line.chars().count() + 1).contains(&error.column), "{error:?}");
        assert!(!error.message.is_empty());
    }
    match endpoint {
        Some(endpoint) if errors.is_empty() => assert_endpoint(text, &endpoint),
        Some(_) => {}
        None => assert!(!errors.is_empty(), "a configuration that wasn't read has left an error"),
    }
}

fn assert_endpoint(text: &str, endpoint: &Endpoint) {
    match &endpoint.handler {
        Handler::Sql(sql) => assert_body(endpoint, sql.statements.len()),
        Handler::Proxy(_) => assert!(endpoint.body.is_empty()),
        Handler::Calls(calls) => {
            assert!(calls.concurrency > 0);
            assert_body(endpoint, 1);
        }
        Handler::Pages(pages) => {
            assert!(pages.most > 0 && !pages.columns().is_empty());
            assert_body(endpoint, 1);
        }
    }
    assert_eq!(endpoint.formats.is_empty(), matches!(endpoint.handler, Handler::Proxy(_)));
    for statement in endpoint.statements() {
        assert_eq!(statement.args.len(), statement.query.types.len());
        assert!(statement.args.iter().all(|arg| *arg < endpoint.params.len()));
        for (position, _) in statement.query.sql.char_indices() {
            assert!(statement.origin.file_offset(position) <= text.len());
        }
    }
    for param in &endpoint.params {
        let given = param.allowed.iter().chain(&param.default).filter_map(ParamValue::postgres_text);
        assert!(param.list || given.map(|text| param.parse(&text)).all(|value| value.is_ok()), "{param:?}");
    }
    assert_route(endpoint);
}

/// Checks that the body is JSON once its placeholders are filled. `rows` is the number of
/// statements.
fn assert_body(endpoint: &Endpoint, rows: usize) {
    let mut body = Vec::new();
    let mut placed = vec![0; rows];
    for piece in &endpoint.body {
        match piece {
            Piece::Literal(json) => body.extend_from_slice(json),
            Piece::Count(_) => body.push(b'0'),
            Piece::Next | Piece::Digest => body.extend_from_slice(b"null"),
            Piece::Rows(statement) => {
                placed[*statement] += 1;
                body.extend_from_slice(b"[]");
            }
        }
    }
    serde_json::from_slice::<serde_json::Value>(&body).expect("the body is JSON");
    for (index, count) in placed.into_iter().enumerate() {
        assert_eq!(count, i32::from(endpoint.parent(index).is_none()), "each statement has one place");
    }
}

/// Checks that a request for the endpoint's path finds it, with its parameters.
fn assert_route(endpoint: &Endpoint) {
    let router = Router::new([endpoint.route()].into_iter()).expect("one endpoint meets no other");
    let encoded = |segment: &str| segment.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let segment = |segment: &str| encoded(if segment.starts_with('{') { "x/ é" } else { segment });
    let path = endpoint.path.split('/').map(segment).collect::<Vec<_>>().join("/");
    let found = router.find(&path).expect("the encoding is valid").expect("the path is the endpoint's");
    assert_eq!(found.endpoint, 0);
    assert!(found.args.iter().all(|(_, value)| value == "x/ é"));
}
