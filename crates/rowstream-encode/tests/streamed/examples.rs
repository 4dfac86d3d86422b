//! The examples work as documented.

use crate::client::{ResponseEnd, Server};

#[allow(dead_code, reason = "`main` is for people")]
#[path = "../../examples/articles.rs"]
mod articles;

#[allow(dead_code, reason = "`main` is for people")]
#[path = "../../examples/exports.rs"]
mod exports;

#[allow(dead_code, reason = "`main` is for people")]
#[path = "../../examples/hyper.rs"]
mod hyper;

#[allow(dead_code, reason = "`main` is for people")]
#[path = "../../examples/framed.rs"]
mod framed;

#[tokio::test]
async fn articles() {
    let server = Server::start(articles::app()).await;
    let reply = server.get("/articles").await;
    let json: serde_json::Value = serde_json::from_str(reply.whole()).unwrap();
    assert_eq!(json["total"], 100_000);
    let articles = json["_embedded"]["articles"].as_array().unwrap();
    assert_eq!((articles.len(), &articles[99_999]["id"]), (100_000, &100_000.into()));
}

#[tokio::test]
async fn authors() {
    let server = Server::start(articles::app()).await;
    let reply = server.get("/authors").await;
    let json: serde_json::Value = serde_json::from_str(reply.whole()).unwrap();
    let authors = json.as_array().unwrap();
    assert_eq!(authors.len(), 2);
    for author in authors {
        assert_eq!(author["articles"].as_array().unwrap().len(), 1_000);
    }
}

#[tokio::test]
async fn broken() {
    let server = Server::start(articles::app()).await;
    let reply = server.get("/broken").await;
    assert_eq!((reply.status(), reply.ended), ("200", ResponseEnd::Broken));
    assert!(reply.text().starts_with(r#"[{"id":1,"title":"Article 1"},"#));
}

#[tokio::test]
async fn exports() {
    let server = Server::start(exports::app()).await;
    let ndjson = server.get("/readings.ndjson").await;
    assert!(
        ndjson
            .whole()
            .starts_with("{\"id\":1,\"place\":\"roof; \\\"north\\\"\",\"celsius\":-2.5}\n{\"id\":2,")
    );
    assert_eq!(ndjson.text().lines().count(), 20);
    let csv = server.get("/readings.csv").await;
    assert!(csv.whole().starts_with("id,place,celsius\r\n1,\"roof; \"\"north\"\"\",-2.5\r\n2,"));
    assert!(csv.text().contains("\r\n5,\"roof; \"\"north\"\"\",\r\n"));
    let excel = server.get("/readings.excel.csv").await;
    assert!(excel.whole().starts_with("\u{feff}id;place;celsius\r\n"));
    assert_eq!(excel.header("content-disposition"), Some("attachment; filename=\"readings.csv\""));
    let events = server.get("/readings").await;
    assert!(events.whole().starts_with("event: reading\ndata: {\"id\":1,"));
    assert!(events.text().ends_with("event: end\ndata: null\n\n"));
    assert_eq!(events.text().matches("\n\n").count(), 21);
}

#[tokio::test]
async fn without_axum() {
    let server = Server::run(|listener| async { hyper::serve(listener).await.unwrap() }).await;
    let json: serde_json::Value = serde_json::from_str(server.get("/rows.json").await.whole()).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 100_000);
    let csv = server.get("/rows.csv").await;
    assert!(csv.whole().starts_with("id,name\r\n1,Row 1\r\n") && csv.text().ends_with("Row 100000\r\n"));
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    let broken = server.get("/broken").await;
    assert_eq!((broken.status(), broken.ended), ("200", ResponseEnd::Broken));
    assert_eq!(server.get("/other").await.status(), "404");
}

#[tokio::test]
async fn rows_for_clients() {
    for (path, status, end) in [
        ("/articles", "200", r#","end":{"rows":10000,"digest":"sha-256=:"#),
        ("/articles.csv", "200", "\r\n10000,Article 10000,\r\n"),
        ("/other", "404", "no such path"),
    ] {
        let request = http::Request::get(path).body(()).unwrap();
        let reply = crate::hyper::server(framed::respond(request).await.unwrap()).await.get("/").await;
        assert_eq!((reply.status(), reply.ended), (status, ResponseEnd::Complete));
        assert!(reply.text().contains(end), "{path}");
    }
    let request = http::Request::get("/broken").body(()).unwrap();
    let reply = crate::hyper::server(framed::respond(request).await.unwrap()).await.get("/").await;
    assert_eq!(reply.ended, ResponseEnd::Broken);
    assert!(reply.text().contains(r#""code":"stream_failed""#));
}
