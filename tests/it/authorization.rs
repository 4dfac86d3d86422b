//! Access rules: every kind of path with every kind of credential.

use http::Request;

use crate::support::{Client, Launch, Reply, Server, get, sha256};

fn token(name: &str, more: &str) -> String {
    format!("[token.{name}]\nsha256 = \"{}\"\n{more}\n", sha256(name))
}

/// A server with the tokens `reader`, `scraper` and `old`, whose texts are their names, and
/// additional configuration.
async fn server(head: &str, more: &str) -> Server {
    let tokens = token("reader", "") + &token("scraper", "") + &token("old", "expires = \"2020-01-01\"");
    let config = format!(
        "authorization = [\"reader\"]\n{head}\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n{tokens}\n{more}\n"
    );
    let files = [
        ("rowstream.toml", config.as_str()),
        ("t.sql", "create table t (n)"),
        ("endpoints/one.sql", "select 1 as n"),
        ("endpoints/open.sql", "/*\nauthorization = \"public\"\n*/\nselect 1 as n"),
        ("endpoints/long.sql", LONG),
        ("endpoints/long-open.sql", &format!("/*\nauthorization = \"public\"\n*/\n{LONG}")),
    ];
    Launch::files(&files).start().await
}

/// Rows for more than one chunk.
const LONG: &str =
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 100000) select n from r";

async fn ask(server: &Server, path: &str, authorization: Option<&str>) -> Reply {
    let request = Request::get(server.url(path));
    let request = match authorization {
        Some(value) => request.header("authorization", value),
        None => request,
    };
    Client::HTTP1.send(request.body(String::new()).expect("a request")).await
}

async fn status(server: &Server, path: &str, token: Option<&str>) -> u16 {
    let bearer = token.map(|token| format!("Bearer {token}"));
    ask(server, path, bearer.as_deref()).await.status.as_u16()
}

/// The path with the result of a stream of `path`.
async fn stream_of(server: &Server, path: &str) -> String {
    let reply = ask(server, path, Some("Bearer reader")).await;
    format!("/_rowstream/streams/{}", reply.header("rowstream-stream").expect("it is a stream"))
}

/// The metrics contain the names of endpoints and sources. They were public even if endpoints
/// required a token.
#[tokio::test]
async fn admin_endpoints_need_a_token_unless_they_are_opened() {
    const LIVE: &str = "/_rowstream/live";
    const READY: &str = "/_rowstream/ready";
    const METRICS: &str = "/_rowstream/metrics";
    const PAGE: &str = "/_rowstream/errors/internal";
    // With no token, with one for endpoints, and with one for the admin endpoints.
    for (admin, expected) in [
        ("", [[200; 3], [200; 3], [401, 403, 403], [200; 3]]),
        ("[admin]\nauthorization = [\"scraper\"]", [[200; 3], [200; 3], [401, 403, 200], [200; 3]]),
        (
            "[admin]\nauthorization = [\"scraper\"]\npublic = [\"ready\"]",
            [[401, 403, 200], [200; 3], [401, 403, 200], [200; 3]],
        ),
        ("[admin]\npublic = [\"metrics\"]", [[401, 403, 403], [401, 403, 403], [200; 3], [200; 3]]),
        ("[admin]\nauthorization = \"public\"\npublic = []", [[200; 3]; 4]),
    ] {
        let server = server("", admin).await;
        for (path, expected) in [LIVE, READY, METRICS, PAGE].into_iter().zip(expected) {
            for (token, expected) in [None, Some("reader"), Some("scraper")].into_iter().zip(expected) {
                assert_eq!(status(&server, path, token).await, expected, "{admin}: {path} by {token:?}");
            }
        }
    }
}

/// The result of a stream is visible to clients that may call its endpoint, and to administrators.
#[tokio::test]
async fn how_a_stream_went_is_for_whoever_may_call_its_endpoint() {
    let server = server("", "[admin]\nauthorization = [\"scraper\"]").await;
    let closed = stream_of(&server, "/long.ndjson").await;
    let open = stream_of(&server, "/long-open.ndjson").await;
    for (path, token, expected) in [
        (&closed, None, 401),
        (&closed, Some("old"), 401),
        (&closed, Some("reader"), 200),
        (&closed, Some("scraper"), 200),
        (&open, None, 200),
    ] {
        assert_eq!(status(&server, path, token).await, expected, "{path} by {token:?}");
    }
}

/// Access to the port of the admin endpoints doesn't replace a token.
#[tokio::test]
async fn the_port_of_the_admin_endpoints_needs_a_token_too() {
    let server = server("admin_listen = \"127.0.0.1:0\"", "").await;
    server.wait_for_stderr("admin endpoints at ").await;
    let said = server.stderr();
    let (_, rest) = said.split_once("admin endpoints at ").expect("it says where");
    let base = rest.lines().next().expect("a line").trim_end_matches("/_rowstream/");
    for (path, expected) in [("live", 200), ("metrics", 401)] {
        assert_eq!(get(&format!("{base}/_rowstream/{path}")).await.status, expected, "{path}");
    }
}
