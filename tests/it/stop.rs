//! Streams in flight: their list, and how one is stopped.

use std::time::Duration;

use http::Request;
use serde_json::{Value as Json, json};

use crate::support::{Client, Ended, Reply, Server, TestDb, get, sha256};

/// Rows without end, as they are made.
const LONG: &str = "select generate_series(1, 1000000000) as n, repeat('x', 100) as t";

async fn server(db: &TestDb, settings: &str, more: &str) -> Server {
    let config = format!("{settings}\n[source.db]\nurl = \"{}\"\n{more}\n", db.url());
    Server::start(&[("rowstream.toml", &config), ("endpoints/long.sql", LONG)]).await
}

/// The streams in flight.
async fn listed(server: &Server) -> Vec<Json> {
    let list = get(&server.url("/_rowstream/streams")).await.json();
    assert_eq!(list["more"], 0);
    list["streams"].as_array().expect("a list").clone()
}

async fn stop(server: &Server, id: &str, token: Option<&str>) -> Reply {
    let request = Request::delete(server.url(&format!("/_rowstream/streams/{id}")));
    let request = match token {
        Some(token) => request.header("authorization", format!("Bearer {token}")),
        None => request,
    };
    Client::HTTP1.send(request.body(String::new()).expect("a request")).await
}

/// Whether its client reads or not, by either version of HTTP, a stream that is stopped is seen to
/// have failed, and its statement ends.
#[tokio::test]
async fn a_stream_that_is_stopped_is_aborted_and_its_statement_ends() {
    let db = TestDb::new().await;
    let server = server(&db, "", "").await;
    for client in [Client::HTTP1, Client::H2C] {
        for reads in [true, false] {
            let what = format!("{client:?}, reading: {reads}");
            let mut stream = client.receive_buffer(64 * 1024).stream(&server.url("/long.ndjson")).await;
            stream.at_least(1000).await;
            let id = stream.headers["rowstream-stream"].to_str().expect("an id").to_owned();
            let [running] = &listed(&server).await[..] else { panic!("{what}: one runs") };
            assert_eq!((&running["id"], &running["state"]), (&json!(id), &json!("running")), "{what}");
            assert!(running["rows"].as_u64() > Some(0) && running["ms"]["client"].is_u64(), "{running}");
            let reading = tokio::spawn(async move {
                if !reads {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                }
                stream.rest().await.ended
            });
            assert_eq!(stop(&server, &id, None).await.status, 204, "{what}");
            db.until_none_active().await;
            assert!(matches!(reading.await.unwrap(), Ended::Broken(_)), "{what}");
            let report = get(&server.url(&format!("/_rowstream/streams/{id}"))).await.json();
            assert_eq!(
                (&report["state"], &report["error"]["code"]),
                (&json!("failed"), &json!("stream_stopped"))
            );
            assert_eq!(stop(&server, &id, None).await.json()["code"], "stream_ended", "{what}");
            assert!(listed(&server).await.is_empty(), "{what}");
        }
    }
    assert_eq!(stop(&server, &"0".repeat(32), None).await.status, 404);
    server.wait_for_stdout("stream_stopped").await;
}

/// Who may, `[admin]` says; who may only call the endpoint may not.
#[tokio::test]
async fn a_stream_is_stopped_by_those_who_may() {
    let token = |name: &str| format!("[token.{name}]\nsha256 = \"{}\"\n", sha256(name));
    let db = TestDb::new().await;
    let tokens = format!("{}{}[admin]\nauthorization = [\"operator\"]\n", token("reader"), token("operator"));
    let server = server(&db, "authorization = \"public\"", &tokens).await;
    let mut stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/long.ndjson")).await;
    stream.at_least(1000).await;
    let id = stream.headers["rowstream-stream"].to_str().expect("an id").to_owned();
    for (token, status) in [(None, 401), (Some("reader"), 403), (Some("operator"), 204)] {
        assert_eq!(stop(&server, &id, token).await.status, status, "{token:?}");
    }
    db.until_none_active().await;
    assert_eq!(get(&server.url("/_rowstream/streams")).await.status, 401, "ids of others' streams");
}

/// Without tokens, those on other machines may not: here, one for whom a proxy asks.
#[tokio::test]
async fn without_tokens_other_machines_stop_nothing() {
    let db = TestDb::new().await;
    let server = server(&db, "", "").await;
    let mut stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/long.ndjson")).await;
    stream.at_least(1000).await;
    let id = stream.headers["rowstream-stream"].to_str().expect("an id").to_owned();
    let request = Request::delete(server.url(&format!("/_rowstream/streams/{id}")));
    let request = request.header("x-forwarded-for", "192.0.2.1").body(String::new()).expect("a request");
    let refused = Client::HTTP1.send(request).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (403, &json!("forbidden")));
    stream.at_least(1 << 20).await;
    assert_eq!(listed(&server).await.len(), 1, "it goes on");
}
