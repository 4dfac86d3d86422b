//! The header `Range` of PostgREST: `0-24` are the first rows of a list with filters.

use http::Request;
use serde_json::json;

use crate::support::{Client, Reply, Server};

const ROWS: &str = "create table item (id integer primary key, name text);
    with recursive n(n) as (select 1 union all select n + 1 from n where n < 10)
    insert into item select n, 'name ' || n from n;";
const LIST: &str =
    "/*\nkey = [\"id\"]\nfilter = true\nsort = true\ntotal = true\n*/\nselect id, name from item order by id";
const UNORDERED: &str = "/*\nfilter = true\n*/\nselect id from item";
const LIMITED: &str = "/*\nkey = [\"id\"]\nfilter = true\n*/\nselect id from item order by id limit 4";
const PLAIN: &str = "select id from item order by id";

async fn server() -> Server {
    let files = [
        (
            "rowstream.toml",
            "cursor_secret = \"0123456789abcdef0123456789abcdef\"\n[cors]\norigins = [\"*\"]\n\
             [source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"rows.sql\"]\n",
        ),
        ("rows.sql", ROWS),
        ("endpoints/list.sql", LIST),
        ("endpoints/unordered.sql", UNORDERED),
        ("endpoints/limited.sql", LIMITED),
        ("endpoints/plain.sql", PLAIN),
    ];
    Server::start(&files).await
}

/// The answer to a request with the header `Range`, and those in `more`.
async fn ask(server: &Server, method: &str, path: &str, range: &str, more: &[(&str, &str)]) -> Reply {
    let mut request = Request::builder().method(method).uri(server.url(path)).header("range", range);
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    let has_body = matches!(method, "QUERY" | "POST");
    let body = if has_body { "{\"id\": \"gt.2\", \"limit\": \"3\"}" } else { "" };
    Client::HTTP1.send(request.body(body.to_owned()).expect("a request")).await
}

fn ids(reply: &Reply) -> Vec<i64> {
    let rows = reply.json();
    let rows = rows.as_array().unwrap_or_else(|| panic!("{}", reply.text()));
    rows.iter().map(|row| row["id"].as_i64().expect("an id")).collect()
}

/// The header was ignored, so that its client got all rows.
#[tokio::test]
async fn a_range_is_a_page() {
    let server = server().await;
    for (path, range, expected, total) in [
        ("/list?_count=exact", "0-2", &[1, 2, 3][..], Some("0-2/10")),
        ("/list?_count=exact", "3-4", &[4, 5], Some("3-4/10")),
        ("/list?_count=exact", "8-", &[9, 10], Some("8-9/10")),
        ("/list?_count=exact", "8-99", &[9, 10], Some("8-9/10")),
        ("/list?_count=exact", "99-", &[], Some("*/10")),
        ("/list?_count=exact&id=gt.5&order=id.desc", "1-2", &[9, 8], Some("1-2/5")),
        ("/list", "5-5", &[6], None),
        ("/list", "7-9223372036854775807", &[8, 9, 10], None),
        ("/unordered", "8-9", &[9, 10], None),
        // With a page in the URL, the rows are in both.
        ("/list?_count=exact&limit=3", "0-5", &[1, 2, 3], Some("0-2/10")),
        ("/list?_count=exact&limit=8", "2-3", &[3, 4], Some("2-3/10")),
        ("/list?_count=exact&offset=4", "2-5", &[5, 6], Some("4-5/10")),
        ("/list?_count=exact&offset=1&limit=3", "2-", &[3, 4], Some("2-3/10")),
        ("/list?_count=exact&limit=2", "5-6", &[], Some("*/10")),
        ("/list?limit=9223372036854775807&offset=1", "8-", &[9, 10], None),
    ] {
        for more in [&[][..], &[("range-unit", "items")]] {
            let reply = ask(&server, "GET", path, range, more).await;
            assert_eq!(reply.status, 200, "{path} {range}: {}", reply.text());
            assert_eq!(
                (ids(&reply), reply.header("content-range")),
                (expected.to_vec(), total),
                "{path} {range}"
            );
            assert!(varies_by_range(&reply), "{path} {range}");
        }
    }
    let head = ask(&server, "HEAD", "/list?_count=exact", "3-4", &[]).await;
    assert_eq!(head.header("content-range"), Some("3-4/10"));
    let csv = ask(&server, "GET", "/list.csv", "0-0", &[]).await;
    assert_eq!(csv.text(), "id,name\r\n1,name 1\r\n");
}

/// The next page has the same length without the header.
#[tokio::test]
async fn a_range_links_to_the_next_page() {
    let server = server().await;
    let first = ask(&server, "GET", "/list", "0-3", &[]).await;
    let link =
        first.header("link").and_then(|link| link.strip_prefix('<')?.split_once('>')).expect("a page").0;
    assert_eq!(ids(&Client::HTTP1.get(&server.url(&format!("/list{link}"))).await), [5, 6, 7, 8]);
}

#[tokio::test]
async fn other_ranges_are_ignored() {
    let server = server().await;
    let all: Vec<_> = (1..=10).collect();
    for (path, range, more) in [
        ("/list", "bytes=0-4", &[][..]),
        ("/list", "0-4", &[("range-unit", "bytes")]),
        ("/list", "items=0-4", &[]),
        ("/list", "-5", &[]),
        ("/list", "0-1,4-5", &[]),
        ("/list", "", &[]),
        ("/plain", "0-4", &[]),
        ("/plain", "4-0", &[]),
    ] {
        let reply = ask(&server, "GET", path, range, more).await;
        assert_eq!((reply.status.as_u16(), ids(&reply)), (200, all.clone()), "{path} {range}");
    }
    assert_eq!(ids(&ask(&server, "GET", "/limited", "0-1", &[]).await), [1, 2, 3, 4]);
    // Only GET has ranges. A limit in the body besides that of the range was a 400.
    for method in ["QUERY", "POST"] {
        let reply = ask(&server, method, "/list", "0-1", &[("content-type", "application/json")]).await;
        assert_eq!((reply.status.as_u16(), ids(&reply)), (200, vec![3, 4, 5]), "{method}");
        assert!(!varies_by_range(&reply), "{method}");
    }
}

fn varies_by_range(reply: &Reply) -> bool {
    reply.headers.get_all("vary").iter().any(|name| name == "range")
}

/// Only responses to requests with a range had it, so a cache returned all rows for a range.
#[tokio::test]
async fn vary_names_the_range_of_each_list_with_pages() {
    let server = server().await;
    for (path, varies) in [
        ("/list", true),
        ("/list.csv", true),
        ("/list?id=gt.2", true),
        ("/unordered", true),
        ("/limited", false),
        ("/limited?id=gt.2", false),
        ("/plain", false),
    ] {
        for method in ["GET", "HEAD"] {
            let request = Request::builder().method(method).uri(server.url(path)).body(String::new());
            let reply = Client::HTTP1.send(request.expect("a request")).await;
            assert_eq!((reply.status.as_u16(), varies_by_range(&reply)), (200, varies), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn wrong_ranges_are_refused() {
    let server = server().await;
    for (path, range, name, part) in [
        ("/list", "5-2", "Range", "`5-2` isn't a range of rows"),
        ("/list", "0-9223372036854775808", "Range", "isn't a range of rows"),
        ("/list", "99999999999999999999-", "Range", "isn't a range of rows"),
        ("/list?limit=x", "0-4", "limit", "is not a number of rows"),
        ("/list?limit=1&limit=2", "0-4", "limit", "more than once"),
    ] {
        let reply = ask(&server, "GET", path, range, &[]).await;
        assert_eq!(reply.status, 400, "{path} {range}: {}", reply.text());
        assert_eq!(reply.json()["parameters"][0]["name"], json!(name), "{path} {range}");
        assert!(reply.text().contains(part), "{path} {range}: {}", reply.text());
    }
}

/// Pages of other origins need the place of the rows.
#[tokio::test]
async fn pages_may_read_the_range() {
    let server = server().await;
    let reply = ask(&server, "GET", "/list?_count=exact", "0-2", &[("origin", "https://a.example")]).await;
    assert_eq!(reply.header("content-range"), Some("0-2/10"));
    let exposed = reply.header("access-control-expose-headers").expect("exposed headers");
    assert!(exposed.split(", ").any(|name| name == "content-range"), "{exposed}");
}
