//! Databases that stop responding: `statement_timeout` applies although only the database could end
//! its statements, and nothing leaks.

use serde_json::json;
use tokio::task::spawn_blocking;

use crate::support::{
    Cut, Launch, Product, Server, TcpProxy, TestDb, get, pg_port, wait, wait_until, with_both,
};

const LIST: &str = "select 1 as n union all select 2";

/// A pool with one connection, and one endpoint of each kind.
async fn server(url: &str) -> Server {
    let config = format!(
        "[source.db]\nurl = \"{url}\"\nstatement_timeout = \"200ms\"\n\
         pool = {{ max = 1 }}\n[admin]\npublic = [\"metrics\"]\n"
    );
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/list.sql", LIST),
        ("endpoints/other.sql", "select 3 as n"),
    ];
    Launch::files(&files).start().await
}

/// If preparing may take as long as a statement, and has to be cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prepares {
    AtOnce,
    ByRunning,
}

/// Requests on a connection without a response: a prepared statement, and one to prepare.
async fn ends_in_time(proxy: &TcpProxy, server: &Server, prepares: Prepares) {
    for path in ["/list", "/other"] {
        let list = get(&server.url("/list")).await;
        assert_eq!(list.json(), json!([{"n": 1}, {"n": 2}]));
        let before = proxy.connections();
        proxy.cut_now(Cut::Stall);
        let reply = wait("an answer", get(&server.url(path))).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (504, &json!("statement_timeout")));
        // A statement that may still run is cancelled, on a separate connection.
        if path == "/list" || prepares == Prepares::ByRunning {
            wait_until("it is cancelled", async || proxy.connections() > before).await;
        }
    }
    let list = wait("the place is free again", get(&server.url("/list"))).await;
    assert_eq!(list.status, 200);
}

#[tokio::test]
async fn a_silent_postgres_is_given_up() {
    let db = TestDb::new().await;
    let proxy = TcpProxy::transparent(([127, 0, 0, 1], pg_port()).into()).await;
    let url = format!("postgres://postgres@{}/{}?sslmode=disable", proxy.address(), db.name());
    ends_in_time(&proxy, &server(&url).await, Prepares::ByRunning).await;
}

async fn a_silent_server_of_mysql_is_given_up(on: Product) {
    let db = spawn_blocking(move || on.database("")).await.expect("a database");
    let proxy = TcpProxy::transparent(([127, 0, 0, 1], on.port()).into()).await;
    ends_in_time(&proxy, &server(&db.url_at(proxy.port())).await, Prepares::AtOnce).await;
}

with_both! {
    a_silent_server_of_mysql_is_given_up
}
