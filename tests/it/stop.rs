//! Streams in flight: listing and stopping them.

use std::time::Duration;

use http::Request;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Client, Ended, Reply, Server, TestDb, get, sha256};

/// Endless rows, sent as they're produced.
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

/// Whether or not its client reads, and with both HTTP versions, a stopped stream is visibly
/// aborted and its statement ends.
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

/// Without tokens, this machine may stop streams, but pages in its browser and clients behind its
/// proxy may not.
#[tokio::test]
async fn pages_of_other_sites_and_proxies_stop_no_stream() {
    let db = TestDb::new().await;
    let server = server(&db, "", "").await;
    let mut stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/long.ndjson")).await;
    stream.at_least(1000).await;
    let id = stream.headers["rowstream-stream"].to_str().expect("an id").to_owned();
    let port = server.address().rsplit_once(':').expect("a port").1.to_owned();
    let delete = async |host: &str, more: &str| {
        let path = format!("/_rowstream/streams/{id}");
        let request = format!("DELETE {path} HTTP/1.1\r\nhost: {host}\r\n{more}connection: close\r\n\r\n");
        let mut client = TcpStream::connect(server.address()).await.expect("it listens");
        client.write_all(request.as_bytes()).await.expect("it reads");
        let mut reply = String::new();
        client.read_to_string(&mut reply).await.expect("an answer");
        reply[9..12].to_owned()
    };
    for (host, more) in [
        ("rebound.example.org", ""),
        ("192.0.2.1", ""),
        ("localhost.example.org", ""),
        ("localhost", "x-forwarded-for: 192.0.2.1\r\n"),
        ("localhost", "forwarded: for=192.0.2.1\r\n"),
        ("localhost", "via: 1.1 proxy\r\n"),
        ("localhost", "origin: http://rebound.example.org\r\n"),
        ("localhost", "origin: http://127.0.0.1\r\n"),
        ("localhost", "origin: null\r\n"),
    ] {
        assert_eq!(delete(host, more).await, "403", "{host} {more}");
    }
    let own = format!("[::1]:{port}");
    assert_eq!(delete(&own, &format!("origin: http://{own}\r\n")).await, "204");
}

/// `[admin]` names the tokens that may stop it. A client of the endpoint may not.
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

/// Without tokens, other machines may not stop it. Here a proxy forwards such a request.
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
