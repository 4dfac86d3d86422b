//! `/` without an endpoint there, and the list of endpoints that a server prints at its start.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Request;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{Client, Launch, Reply, Server, get, sha256};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

const CONFIG: &str = "[source.main]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n";
const DATA: (&str, &str) = ("t.sql", "create table t(a)");
const LIST: &str = "/*\nsummary = \"All <b>\\\"books\\\"</b> & 'more'\"\nformats = [\"ndjson\", \"csv\"]\n\
    [params]\nn = { type = \"integer\", default = 3, min = 1, max = 9, summary = \"how <many>\" }\n\
    q = { type = \"text[]\", optional = true }\n*/\nselect :n as n, :q as q";
const ONE: &str = "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect :id as id";

async fn page(server: &Server, headers: &[(&str, &str)]) -> Reply {
    let request = headers
        .iter()
        .fold(Request::get(server.url("/")), |request, (name, value)| request.header(*name, *value));
    Client::HTTP1.send(request.body(String::new()).expect("a request")).await
}

fn paths(reply: &Reply) -> Vec<String> {
    let endpoints = reply.json()["endpoints"].as_array().expect("a list").clone();
    endpoints.iter().map(|endpoint| endpoint["path"].as_str().expect("a path").to_owned()).collect()
}

#[tokio::test]
async fn programs_read_the_endpoints_as_json() {
    let files =
        [DATA, ("rowstream.toml", CONFIG), ("endpoints/a/{id}.sql", ONE), ("endpoints/größe x.sql", LIST)];
    let server = Server::start(&files).await;
    let reply = get(&server.url("/")).await;
    assert_eq!((reply.status.as_u16(), reply.header("content-type")), (200, Some("application/json")));
    assert_eq!(reply.header("vary"), Some("accept, accept-encoding, authorization"));
    assert_eq!(reply.header("cache-control"), Some("no-cache"));
    let all = json!(["json", "ndjson", "csv", "sse", "json-seq", "arrow"]);
    let id = json!({"name": "id", "type": "integer", "list": false, "in": "path", "header": null, "required": true,
        "default": null, "min": null, "max": null, "allowed": [], "summary": null});
    let mut found = reply.json()["endpoints"].clone();
    assert_eq!(
        found[0],
        json!({"path": "/a/{id}", "method": "GET", "summary": null, "parameters": [id], "formats": all})
    );
    let book = found[1].take();
    assert_eq!(book["path"], "/größe x");
    assert_eq!(book["formats"], json!(["ndjson", "csv"]));
    let part = |name: &str| book["parameters"].as_array().unwrap().iter().map(|p| p[name].clone()).collect();
    let parts: Vec<Vec<Value>> = ["name", "list", "default", "max"].map(part).into();
    assert_eq!(json!(parts), json!([["n", "q"], [false, true], ["3", null], ["9", null]]));
    let head = Request::head(server.url("/")).body(String::new()).unwrap();
    let head = Client::HTTP1.send(head).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    let post = Client::HTTP1.send(Request::post(server.url("/")).body(String::new()).unwrap()).await;
    assert_eq!(post.status.as_u16(), 405);
}

#[tokio::test]
async fn browsers_get_a_page_without_scripts() {
    let files =
        [DATA, ("rowstream.toml", CONFIG), ("endpoints/a/{id}.sql", ONE), ("endpoints/größe x.sql", LIST)];
    let server = Server::start(&files).await;
    let reply = page(&server, &[("accept", BROWSER)]).await;
    assert_eq!(reply.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = reply.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    let text = reply.text();
    let style = text.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    assert!(
        policy.contains(&format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(style)))),
        "{policy}"
    );
    assert!(!text.contains("<script") && !text.contains("<b>") && !text.contains(" style="), "{text}");
    for expected in [
        "All &lt;b&gt;&quot;books&quot;&lt;/b&gt; &amp; &#39;more&#39;",
        ">GET /a/{id}</a>",
        "<tr><th>id<td>integer<td>path<td>required<td></tr>",
        "<tr><th>n<td>integer<td>query<td>3<td>how &lt;many&gt;</tr>",
        "<tr><th>q<td>text[]<td>query<td>optional<td></tr>",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    // An endpoint whose required value is missing has no link.
    let links: Vec<_> = text.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let list = [
        "./_rowstream/",
        "./_rowstream/#/endpoints/a/{id}",
        "./_rowstream/#/endpoints/gr%C3%B6%C3%9Fe%20x",
        "./gr%C3%B6%C3%9Fe%20x.ndjson",
        "./gr%C3%B6%C3%9Fe%20x.csv",
        "./_rowstream/openapi.json",
    ];
    assert_eq!(links, list);
    for link in links {
        assert_eq!(get(&server.url(&link[1..])).await.status.as_u16(), 200, "{link}");
    }
}

/// A client that may not call an endpoint learns nothing about it.
#[tokio::test]
async fn endpoints_are_listed_for_those_who_may_call_them() {
    let config = format!(
        "{CONFIG}[token.reader]\nsha256 = \"{}\"\n[token.other]\nsha256 = \"{}\"\n",
        sha256("r"),
        sha256("o")
    );
    let endpoint = |who: &str| format!("/* authorization = {who} */ select 1 as a");
    let files = [
        DATA,
        ("rowstream.toml", config.as_str()),
        ("endpoints/all.sql", &endpoint("\"public\"")),
        ("endpoints/others.sql", &endpoint("[\"other\"]")),
        ("endpoints/secret.sql", &endpoint("[\"reader\"]")),
    ];
    let server = Server::start(&files).await;
    for (header, expected) in [
        (&[][..], &["/all"][..]),
        (&[("authorization", "Bearer wrong")], &["/all"]),
        (&[("authorization", "Bearer r")], &["/all", "/secret"]),
        (&[("authorization", "Bearer o")], &["/all", "/others"]),
    ] {
        assert_eq!(paths(&page(&server, header).await), expected);
        let html = page(&server, &[header, &[("accept", BROWSER)]].concat()).await;
        for path in ["/all", "/others", "/secret"] {
            assert_eq!(html.text().contains(path), expected.contains(&path), "{path}");
        }
    }
}

#[tokio::test]
async fn an_endpoint_may_have_the_root() {
    let files = [DATA, ("rowstream.toml", CONFIG), ("endpoints/index.sql", "select 1 as a")];
    let server = Server::start(&files).await;
    assert_eq!(get(&server.url("/")).await.text(), "[{\"a\":1}]");
}

#[tokio::test]
async fn a_start_lists_the_endpoints() {
    let files =
        [DATA, ("rowstream.toml", CONFIG), ("endpoints/a/{id}.sql", ONE), ("endpoints/größe x.sql", LIST)];
    let server = Server::start(&files).await;
    let said = server.stderr();
    // The first line is about the created table.
    let lines: Vec<_> = said.lines().skip(1).collect();
    let base = server.url("");
    assert_eq!(
        lines[..2],
        [
            format!("GET {base}/a/{{id}}               id: integer"),
            format!(
                "GET {base}/gr%C3%B6%C3%9Fe%20x  n: integer = 3, q?: text[]  All <b>\"books\"</b> & 'more'"
            ),
        ],
        "{said}"
    );
    assert!(lines[2].starts_with("at most "), "{said}");
    let json = Launch::files(&files).argument("--log-format").argument("json").start().await;
    assert!(!json.stderr().contains("GET"), "{}", json.stderr());
}

#[tokio::test]
async fn a_start_lists_so_many_endpoints_and_says_how_many_more() {
    let names: Vec<_> = (0..43).map(|number| format!("endpoints/e{number:02}.sql")).collect();
    let endpoints = names.iter().map(|name| (name.as_str(), "select 1 as a"));
    let files: Vec<_> = [DATA, ("rowstream.toml", CONFIG)].into_iter().chain(endpoints).collect();
    let server = Server::start(&files).await;
    assert_eq!(server.count_stderr("GET http://"), 40, "{}", server.stderr());
    assert_eq!(server.count_stderr(&format!("and 3 more: {}/", server.url(""))), 1, "{}", server.stderr());
}
