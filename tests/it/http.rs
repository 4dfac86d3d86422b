//! The response to each request: status, headers and body, over HTTP/1.1 and HTTP/2, from a server
//! process.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Client, Ended, Launch, Reply, Server, TestDb, get, wait, wait_until};
use http::Request;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A server with the folder of its SQLite file.
struct Fixture {
    server: Server,
    _folder: TempDir,
}

/// The authors 1 to 3, and books of the first one.
const SCHEMA: &str = "create table author(id integer primary key, name text);
    insert into author values (1, 'Ada'), (2, 'Ben'), (3, 'Cy');
    create table book(author integer, title text);
    insert into book values (1, 'A'), (1, 'B');";

fn sqlite(folder: &Path) -> String {
    let file = folder.join("test.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute_batch("pragma journal_mode = wal").unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    format!("sqlite:{}", file.display())
}

impl Fixture {
    async fn start(settings: &str, endpoints: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = start(settings, &sqlite(folder.path()), "", endpoints).await;
        Self { server, _folder: folder }
    }

    async fn get(&self, path: &str) -> Reply {
        get(&self.server.url(path)).await
    }

    async fn send(&self, client: Client, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut request = Request::builder().method(method).uri(self.server.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        client.send(request.body(String::new()).unwrap()).await
    }

    async fn accept(&self, path: &str, accept: &str) -> Reply {
        self.send(Client::HTTP1, "GET", path, &[("accept", accept)]).await
    }
}

async fn start(settings: &str, url: &str, source: &str, endpoints: &[(&str, &str)]) -> Server {
    launch(settings, url, source, endpoints).start().await
}

fn launch(settings: &str, url: &str, source: &str, endpoints: &[(&str, &str)]) -> Launch {
    let config = format!("{settings}\n[source.db]\nurl = \"{url}\"\n{source}\n");
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let files = names.iter().zip(endpoints).map(|(name, (_, sql))| (name.as_str(), *sql));
    Launch::files(&[("rowstream.toml", config.as_str())].into_iter().chain(files).collect::<Vec<_>>())
}

/// Checks the rules for all problem documents, and returns the response's one.
fn problem(reply: &Reply, status: u16, code: &str) -> serde_json::Value {
    assert_eq!((reply.status.as_u16(), &reply.ended), (status, &Ended::Complete), "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    let problem = reply.json();
    assert_eq!(problem["code"], code, "{problem}");
    assert_eq!(problem["status"], status, "{problem}");
    assert_eq!(problem["type"], format!("/_rowstream/errors/{code}"));
    assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
    assert!(problem["retry"].is_boolean(), "{problem}");
    let delay = problem.get("retry_after").map(ToString::to_string);
    assert_eq!(delay.as_deref(), reply.header("retry-after"), "{problem}");
    assert!(delay.is_none() || problem["retry"] == true, "{problem}");
    problem
}

const AUTHORS: &str = "select id, name from author order by id";
const AUTHORS_JSON: &str = r#"[{"id":1,"name":"Ada"},{"id":2,"name":"Ben"},{"id":3,"name":"Cy"}]"#;
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

#[tokio::test]
async fn formats_are_negotiated() {
    let fixture = Fixture::start(
        "",
        &[
            ("authors", AUTHORS),
            ("lines", &format!("/*\nformats = [\"ndjson\", \"json\"]\n*/\n{AUTHORS}")),
            ("json", &format!("/*\nformats = [\"json\"]\n*/\n{AUTHORS}")),
        ],
    )
    .await;
    for (path, accept, expected, vary) in [
        ("/authors", "", JSON, true),
        ("/authors.json", "", JSON, false),
        ("/authors.ndjson", JSON, NDJSON, false),
        ("/authors?_format=ndjson", JSON, NDJSON, false),
        ("/authors.json?_format=ndjson", "", NDJSON, false),
        ("/authors", NDJSON, NDJSON, true),
        ("/authors", "*/*", JSON, true),
        ("/authors", "text/html, */*;q=0.1", JSON, true),
        ("/authors", "application/*", JSON, true),
        ("/authors", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", JSON, true),
        ("/authors", "application/x-ndjson;q=.9", NDJSON, true),
        ("/authors", "application/json;q=0.5, application/x-ndjson", NDJSON, true),
        ("/authors", "application/json;q=0.5, application/x-ndjson;q=0.4", JSON, true),
        ("/authors", "application/json;q=0, */*", NDJSON, true),
        ("/lines", "", NDJSON, true),
        ("/lines", "*/*", NDJSON, true),
        ("/lines", JSON, JSON, true),
    ] {
        let headers = [("accept", accept)];
        let headers = if accept.is_empty() { &[] } else { &headers[..] };
        for client in [Client::HTTP1, Client::H2C] {
            let reply = fixture.send(client, "GET", path, headers).await;
            let told = (reply.status.as_u16(), reply.header("content-type"), reply.header("vary").is_some());
            assert_eq!(told, (200, Some(expected), vary), "{path} {accept}");
            let lines = reply.text().lines().count();
            assert_eq!(lines, if expected == NDJSON { 3 } else { 1 }, "{path} {accept}: {}", reply.text());
        }
    }
    for (path, accept, offered) in [
        ("/authors", "text/html", "ndjson"),
        (
            "/authors",
            "application/json;q=0, application/x-ndjson;q=0, text/csv;q=0, application/json-seq;q=0",
            "csv",
        ),
        ("/authors?_format=xml", "", "ndjson"),
        ("/json.ndjson", "", "json"),
        ("/json", NDJSON, "json"),
    ] {
        let reply = fixture.accept(path, if accept.is_empty() { "*/*" } else { accept }).await;
        let problem = problem(&reply, 406, "not_acceptable");
        assert!(problem["detail"].as_str().unwrap().contains(offered), "{problem}");
        assert_eq!(reply.header("vary"), Some("accept"));
    }
}

const VALUES: &str = "select 1 as n, 'a;b,\"c' as t union all select null, '' union all select 2, '=1+1' || char(10) order by 1";

#[tokio::test]
async fn csv_is_that_of_the_endpoint() {
    let settings = "[csv]\nnull = \"NULL\"\nseparator = \";\"\n";
    let own = "[csv]\nheader = false\nquote = \"all\"\nguard = true\nseparator = \",\"\nbom = true\n";
    let with = format!("/*\nformats = [\"csv\"]\n{own}*/\n{VALUES}");
    let fixture =
        Fixture::start(settings, &[("a", VALUES), ("b", &with), ("none", "select 1 as a where 0")]).await;
    for (path, accept, header, changes, body) in [
        ("/a.csv", JSON, "present", None, "n;t\r\nNULL;\r\n1;\"a;b,\"\"c\"\r\n2;\"=1+1\n\"\r\n"),
        ("/a?_format=csv", JSON, "present", None, "n;t\r\nNULL;\r\n1;\"a;b,\"\"c\"\r\n2;\"=1+1\n\"\r\n"),
        (
            "/b",
            "text/csv",
            "absent",
            Some("formula-guard"),
            "\u{feff}NULL,\"\"\r\n\"1\",\"a;b,\"\"c\"\r\n\"2\",\"'=1+1\n\"\r\n",
        ),
        ("/none.csv", "*/*", "present", None, "a\r\n"),
    ] {
        for client in [Client::HTTP1, Client::H2C] {
            let reply = fixture.send(client, "GET", path, &[("accept", accept)]).await;
            assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
            let expected = format!("text/csv; charset=utf-8; header={header}");
            assert_eq!(reply.header("content-type"), Some(expected.as_str()), "{path}");
            assert_eq!(reply.header("rowstream-changes"), changes, "{path}");
            assert_eq!(reply.text(), body, "{path}");
        }
    }
}

#[tokio::test]
async fn values_are_written_by_options() {
    let sql = "select id, null as n, x'fbff' as b, cast('1.50' as text) as t from author where id = 1";
    let own = format!("/*\n[values]\nbytes = \"base64\"\n[csv]\nguard = true\n*/\n{sql}");
    let value = "/*\nresult = \"value\"\n*/\nselect null";
    let settings = "[values]\nnulls = \"omit\"\n";
    let fixture = Fixture::start(settings, &[("a", sql), ("own", &own), ("value", value)]).await;
    for (path, changes, body) in [
        ("/a", Some("nulls=omit"), r#"[{"id":1,"b":"\\xfbff","t":"1.50"}]"#),
        ("/a?_nulls=null", None, r#"[{"id":1,"n":null,"b":"\\xfbff","t":"1.50"}]"#),
        (
            "/a?_numbers=string&_bytes=base64&_intervals=iso",
            Some("numbers=string, bytes=base64, intervals=iso, nulls=omit"),
            r#"[{"id":"1","b":"+/8=","t":"1.50"}]"#,
        ),
        (
            "/a.ndjson?_numbers=string&_nulls=null",
            Some("numbers=string"),
            "{\"id\":\"1\",\"n\":null,\"b\":\"\\\\xfbff\",\"t\":\"1.50\"}\n",
        ),
        ("/a.json-seq", Some("nulls=omit"), "\u{1e}{\"id\":1,\"b\":\"\\\\xfbff\",\"t\":\"1.50\"}\n"),
        ("/a.csv?_numbers=string", None, "id,n,b,t\r\n1,,\\xfbff,1.50\r\n"),
        ("/own?_nulls=null", Some("bytes=base64"), r#"[{"id":1,"n":null,"b":"+/8=","t":"1.50"}]"#),
        ("/own.csv", Some("formula-guard, bytes=base64"), "id,n,b,t\r\n1,,\"'+/8=\",1.50\r\n"),
        ("/own.csv?_bytes=hex", Some("formula-guard"), "id,n,b,t\r\n1,,\\xfbff,1.50\r\n"),
        ("/value", Some("nulls=omit"), "null"),
    ] {
        for client in [Client::HTTP1, Client::H2C] {
            let reply = fixture.send(client, "GET", path, &[]).await;
            assert_eq!((reply.status.as_u16(), reply.text()), (200, body), "{path}");
            assert_eq!(reply.header("rowstream-changes"), changes, "{path}");
        }
        let head = fixture.send(Client::HTTP1, "HEAD", path, &[]).await;
        assert_eq!((head.status.as_u16(), head.header("rowstream-changes")), (200, changes), "{path}");
    }
    for (query, detail) in [
        ("_numbers=text", "`_numbers`: `text` is not one of `number`, `string`"),
        ("_bytes=hex&_bytes=hex", "`_bytes`: it is given more than once"),
    ] {
        let problem = problem(&fixture.get(&format!("/a?{query}")).await, 400, "invalid_parameter");
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
    }
}

#[tokio::test]
async fn a_sequence_separates_its_texts() {
    let fixture = Fixture::start("", &[("authors", AUTHORS)]).await;
    for (path, accept) in [("/authors.json-seq", "*/*"), ("/authors", "application/json-seq")] {
        let reply = fixture.accept(path, accept).await;
        assert_eq!(reply.header("content-type"), Some("application/json-seq"));
        let texts = reply.text();
        let texts: Vec<_> = texts.split('\u{1e}').collect();
        assert_eq!((texts.len(), texts[0], texts[3]), (4, "", "{\"id\":3,\"name\":\"Cy\"}\n"));
    }
}

#[tokio::test]
async fn answers_are_saved_under_a_name() {
    let fixture = Fixture::start("", &[("authors", AUTHORS)]).await;
    for (name, expected) in [
        ("authors.csv", "attachment; filename=\"authors.csv\"; filename*=UTF-8''authors%2Ecsv"),
        ("authors.CSV", "attachment; filename=\"authors.CSV\"; filename*=UTF-8''authors%2ECSV"),
        // A report had no extension, so the link determined its program.
        ("authors", "attachment; filename=\"authors.csv\"; filename*=UTF-8''authors%2Ecsv"),
        ("setup.exe", "attachment; filename=\"setup.exe.csv\"; filename*=UTF-8''setup%2Eexe%2Ecsv"),
        (
            "%C3%84%20%22b%22%25",
            "attachment; filename=\"_ _b__.csv\"; filename*=UTF-8''%C3%84%20%22b%22%25%2Ecsv",
        ),
    ] {
        for method in ["GET", "HEAD"] {
            let path = format!("/authors?_download={name}&_format=csv");
            let reply = fixture.send(Client::HTTP1, method, &path, &[]).await;
            assert_eq!(reply.header("content-disposition"), Some(expected), "{method} {name}");
        }
    }
    assert_eq!(fixture.get("/authors").await.header("content-disposition"), None);
    let lines = fixture.get("/authors.ndjson?_download=a.jsonl").await;
    assert!(lines.header("content-disposition").unwrap().contains("filename=\"a.jsonl\""));
    // Names contain no invisible characters, or ones that reverse the text, as in `exe.txt`.
    let invisible = [
        "a%E2%80%AEtxt.exe",
        "a%E2%81%A6b",
        "a%D8%9Cb",
        "a%E2%80%8Bb",
        "a%C2%ADb",
        "%F3%A0%81%81a",
        "%E3%85%A4",
    ];
    for name in ["", "a/b", "a%5Cb", "a%0Ab", "..", &"x".repeat(256)].into_iter().chain(invisible) {
        let reply = fixture.get(&format!("/authors?_download={name}")).await;
        let problem = problem(&reply, 400, "invalid_parameter");
        assert!(problem["detail"].as_str().unwrap().contains("_download"), "{problem}");
    }
}

#[tokio::test]
async fn bodies_have_their_shapes() {
    let scalar = "/*\nresult = \"value\"\n*/\nselect count(*) from author";
    let one =
        "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect id, name from author where id = :id";
    let template = r#"/*
body = { _embedded = { authors = "$authors", none = "$none" }, list = ["$total", ["$first"], "$$text"], missing = "$missing", n = 1.50, t = true }
*/
-- name: authors :many
select id from author order by id;
-- name: none :many
select id from author where false;
-- name: total :value
select count(*) from author;
-- name: first :one
select id, name from author where id = 1;
-- name: missing :one
select id, name from author where id = 9
"#;
    let fixture = Fixture::start(
        "",
        &[
            ("authors", AUTHORS),
            ("authors/{id}", one),
            ("none", "select id from author where false"),
            ("total", scalar),
            ("template", template),
            ("two", "/*\nresult = \"one\"\n*/\nselect id from author"),
            ("twovalues", "/*\nresult = \"value\"\n*/\nselect id from author"),
        ],
    )
    .await;
    for (path, expected) in [
        ("/authors", AUTHORS_JSON),
        (
            "/authors.ndjson",
            "{\"id\":1,\"name\":\"Ada\"}\n{\"id\":2,\"name\":\"Ben\"}\n{\"id\":3,\"name\":\"Cy\"}\n",
        ),
        ("/authors/2", r#"{"id":2,"name":"Ben"}"#),
        ("/authors/%32", r#"{"id":2,"name":"Ben"}"#),
        ("/%61uthors/2.json", r#"{"id":2,"name":"Ben"}"#),
        ("/authors/2.ndjson", "{\"id\":2,\"name\":\"Ben\"}\n"),
        ("/none", "[]"),
        ("/none.ndjson", ""),
        ("/total", "3"),
        (
            "/template",
            r#"{"_embedded":{"authors":[{"id":1},{"id":2},{"id":3}],"none":[]},"list":[3,[{"id":1,"name":"Ada"}],"$text"],"missing":null,"n":1.5,"t":true}"#,
        ),
    ] {
        for client in [Client::HTTP1, Client::H2C] {
            let reply = fixture.send(client, "GET", path, &[]).await;
            assert_eq!((reply.status.as_u16(), reply.text()), (200, expected), "{path}");
            assert_eq!(reply.ended, Ended::Complete);
            let length = expected.len().to_string();
            // Later statements may take longer than the first one's rows are held, and then the
            // response is streamed.
            let is_streamed = path == "/template" && reply.header("content-length").is_none();
            assert!(
                is_streamed || reply.header("content-length") == Some(length.as_str()),
                "{path}: {reply:?}"
            );
        }
    }
    for (path, status, code) in [
        ("/authors/0", 404, "not_found"),
        ("/authors/0.ndjson", 404, "not_found"),
        ("/authors/1/books", 404, "no_endpoint"),
        ("/author", 404, "no_endpoint"),
        ("/authors/", 404, "no_endpoint"),
        ("/_rowstream/nothing", 404, "no_endpoint"),
        ("/authors/%zz", 400, "invalid_path"),
        ("/two", 500, "endpoint"),
        ("/two.ndjson", 500, "endpoint"),
        ("/twovalues", 500, "endpoint"),
        ("/template.ndjson", 406, "not_acceptable"),
    ] {
        let reply = fixture.get(path).await;
        problem(&reply, status, code);
    }
    let live = fixture.get("/_rowstream/live").await;
    assert_eq!((live.status.as_u16(), live.text()), (200, "ok\n"));
}

/// A lookup of `readme.json` searched for `readme` in JSON, and even `_format` couldn't change
/// that, because the suffix won.
#[tokio::test]
async fn a_text_in_a_path_may_end_like_a_format() {
    let of = |kind: &str, sql: &str| format!("/*\n{sql}\n[params]\nname = {kind}\n*/\nselect :name as name");
    let one = "result = \"one\"";
    let file = of("\"text\"", one);
    let gone = of("\"text\"", one) + " where :name = 'there'";
    let listed = of("{ type = \"text\", enum = [\"sales\", \"stock\"] }", "");
    let day = of("\"date\"", one);
    let endpoints = [
        ("file/{name}", &*file),
        ("gone/{name}", &*gone),
        ("report/{name}", &*listed),
        ("day/{name}", &*day),
    ];
    let fixture = Fixture::start("", &endpoints).await;
    for (path, media, text) in [
        ("/file/readme.json", JSON, r#"{"name":"readme.json"}"#),
        ("/file/data.csv", JSON, r#"{"name":"data.csv"}"#),
        ("/file/data%2Ecsv", JSON, r#"{"name":"data.csv"}"#),
        ("/file/data.csv?_format=ndjson", NDJSON, "{\"name\":\"data.csv\"}\n"),
        ("/report/sales.ndjson", NDJSON, "{\"name\":\"sales\"}\n"),
        ("/report/sales.csv?_format=ndjson", NDJSON, "{\"name\":\"sales\"}\n"),
        ("/day/2026-01-02.ndjson", NDJSON, "{\"name\":\"2026-01-02\"}\n"),
    ] {
        let reply = fixture.get(path).await;
        assert_eq!((reply.header("content-type"), reply.text()), (Some(media), text), "{path}");
    }
    let lines = fixture.accept("/file/data.csv", NDJSON).await;
    assert_eq!(lines.text(), "{\"name\":\"data.csv\"}\n");
    let missing = problem(&fixture.get("/gone/readme.json").await, 404, "not_found");
    let hint = "`name` is a text, and `readme.json` is all of it: choose a format with `_format`";
    assert_eq!(missing["hint"], hint);
    assert_eq!(
        problem(&fixture.get("/gone/readme").await, 404, "not_found")["hint"],
        serde_json::Value::Null
    );
    // A percent-encoded dot is data.
    problem(&fixture.get("/day/2026-01-02%2Endjson").await, 400, "invalid_parameter");
}

/// `/authors.xml` returned 404, instead of the documented 406 with a list of formats.
#[tokio::test]
async fn slips_in_paths_and_formats_are_recognised() {
    // The SHA-256 of `reader`.
    let settings = "authorization = [\"reader\"]
[token.reader]
sha256 = \"3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30\"";
    let public = |sql: &str| format!("/*\nauthorization = \"public\"\n*/\n{sql}");
    let file = "/*\nauthorization = \"public\"\n[params]\nname = \"text\"\n*/\nselect :name as name";
    let endpoints = [("authors", &public(AUTHORS)[..]), ("files/{name}", file), ("secret", AUTHORS)];
    let fixture = Fixture::start(settings, &endpoints).await;
    let with_token = [("authorization", "Bearer reader")];
    for (path, headers, status, code, hint) in [
        ("/authors.xml", &[][..], 406, "not_acceptable", Some("choose one with `_format`")),
        ("/authors.jsn", &[], 406, "not_acceptable", Some("did you mean `json`?")),
        ("/authors?_format=jsn", &[], 406, "not_acceptable", Some("did you mean `json`?")),
        ("/author", &[], 404, "no_endpoint", Some("did you mean `/authors`?")),
        ("/authors/", &[], 404, "no_endpoint", Some("did you mean `/authors`?")),
        ("/author.csv", &[], 404, "no_endpoint", Some("did you mean `/authors.csv`?")),
        ("/file/a.xml", &[], 404, "no_endpoint", Some("did you mean `/files/a.xml`?")),
        ("/nothing-like-it", &[], 404, "no_endpoint", None),
        // A client that may not use an endpoint doesn't learn its name.
        ("/secre", &[], 404, "no_endpoint", None),
        ("/secre", &with_token, 404, "no_endpoint", Some("did you mean `/secret`?")),
        ("/secret.xml", &[], 401, "unauthorized", Some("send `Authorization")),
        ("/secret.xml", &with_token, 406, "not_acceptable", Some("choose one with `_format`")),
    ] {
        let reply = fixture.send(Client::HTTP1, "GET", path, headers).await;
        let problem = problem(&reply, status, code);
        let told = problem["hint"].as_str();
        assert!(
            told.is_some() == hint.is_some() && told.unwrap_or("").starts_with(hint.unwrap_or("")),
            "{problem}"
        );
        let has_formats = problem["detail"].as_str().unwrap().contains("`json`, `ndjson`, `csv`");
        assert_eq!(has_formats, status == 406, "{problem}");
    }
    // A parameter can contain any file name.
    for name in ["a.xml", "a.tar.gz", "a.", ".xml"] {
        let reply = fixture.get(&format!("/files/{name}")).await;
        assert_eq!(reply.json(), serde_json::json!([{ "name": name }]));
    }
}

/// Headers that Fetch exposes to other origins anyway, or that are useless to them.
const NOT_TO_BE_EXPOSED: [&str; 11] = [
    "cache-control",
    "content-encoding",
    "content-length",
    "content-type",
    "connection",
    "date",
    "timing-allow-origin",
    "transfer-encoding",
    "vary",
    "x-accel-buffering",
    "x-content-type-options",
];

/// A page from another origin couldn't read `Retry-After` or the file name.
#[tokio::test]
async fn all_that_the_server_says_is_exposed_and_none_of_it_sniffed() {
    let db = TestDb::new().await;
    let settings = "max_streams = 1\n[cors]\norigins = [\"*\"]\n[token.reader]
sha256 = \"3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30\"";
    let public =
        |sql: &str| format!("/*\nauthorization = \"public\"\nkey = [\"n\"]\n[csv]\nguard = true\n*/\n{sql}");
    let long = "select generate_series as n, repeat('x', 100) as t from generate_series(1, 1000000)";
    let endpoints = [
        ("long", &public(long)[..]),
        ("page", &public("select generate_series as n from generate_series(1, 9) order by n limit 3")),
        ("closed", "/*\nauthorization = [\"reader\"]\n*/\nselect 1 as n"),
    ];
    let server = start(settings, &db.url(), "", &endpoints).await;
    let send = async |client: Client, method: &str, path: &str| {
        let request = Request::builder().method(method).uri(server.url(path)).header("te", "trailers");
        client.open(request.body(String::new()).unwrap()).await.unwrap()
    };
    // The previous stream's permit is free soon.
    let begin = async |client: Client, path: &str| loop {
        let reply = send(client, "GET", path).await;
        if reply.status == 200 {
            return reply;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let long = "/long.ndjson?_end=1&_numbers=string";
    let mut seen = Vec::new();
    for client in [Client::HTTP1, Client::H2C] {
        let stream = begin(client, long).await;
        let refused = send(client, "GET", "/page").await;
        assert_eq!((refused.status.as_u16(), &refused.headers["retry-after"]), (503, &"1".parse().unwrap()));
        drop(stream);
        let mut replies = vec![refused, begin(client, "/page.csv?_download=a&_digest=sha-256").await];
        for (method, path) in [
            ("GET", "/closed"),
            ("GET", "/nothing"),
            ("GET", "/page?x=1"),
            ("GET", "/page.xml"),
            ("POST", "/page"),
            ("OPTIONS", "/page"),
            ("HEAD", "/page"),
            ("GET", "/_rowstream/live"),
            ("GET", "/_rowstream/ready"),
            ("GET", "/_rowstream/metrics"),
            ("GET", "/_rowstream/nothing"),
        ] {
            replies.push(send(client, method, path).await);
        }
        replies.push(begin(client, long).await);
        for reply in &replies {
            let sniffed = reply.headers.get_all("x-content-type-options").iter().collect::<Vec<_>>();
            assert_eq!(sniffed, ["nosniff"], "{:?}", reply.headers);
            let exposed = reply.headers["access-control-expose-headers"].to_str().unwrap();
            let exposed: Vec<_> = exposed.split(", ").collect();
            for name in reply.headers.keys().map(http::HeaderName::as_str) {
                let is_known = NOT_TO_BE_EXPOSED.contains(&name) || name.starts_with("access-control-");
                assert!(is_known || exposed.contains(&name), "{name} is not exposed");
                seen.push(name.to_owned());
            }
        }
    }
    for name in [
        "retry-after",
        "content-disposition",
        "link",
        "rowstream-page",
        "rowstream-stream",
        "rowstream-tag",
        "trailer",
    ] {
        assert!(seen.iter().any(|seen| seen == name), "{name} has not come");
    }
    for name in ["allow", "www-authenticate", "rowstream-changes", "content-digest", "server-timing"] {
        assert!(seen.iter().any(|seen| seen == name), "{name} has not come");
    }
}

/// RFC 9112, section 3.2: a request without a unique host is a 400.
#[tokio::test]
async fn a_request_names_its_host_once() {
    let fixture = Fixture::start("", &[("authors", AUTHORS)]).await;
    let end = "connection: close\r\n\r\n";
    for path in ["/authors", "/_rowstream/live"] {
        for (version, hosts, status) in [
            ("1.1", "", 400),
            ("1.1", "host: a\r\nhost: a\r\n", 400),
            ("1.1", "host: a\r\nHost: b\r\n", 400),
            ("1.0", "host: a\r\nhost: b\r\n", 400),
            ("1.0", "", 200),
            ("1.1", "host: a\r\n", 200),
            ("1.1", "host:\r\n", 200),
        ] {
            let reply =
                raw(&fixture.server, format!("GET {path} HTTP/{version}\r\n{hosts}{end}").as_bytes()).await;
            let told = reply.split(' ').nth(1).map(str::to_owned);
            assert_eq!(told, Some(status.to_string()), "{path} HTTP/{version} {hosts:?}: {reply}");
            assert_eq!(reply.contains("\"code\":\"invalid_host\""), status == 400, "{reply}");
        }
    }
}

#[tokio::test]
async fn wrong_parameters_are_told_all_at_once() {
    let sql = "/*
[params]
n = { type = \"integer\", min = 1, max = 10, optional = true }
kind = { type = \"text\", enum = [\"a\", \"b\"], default = \"a\" }
at = { type = \"date\" }
*/
select :n as n, :kind as kind, :at as at";
    let fixture = Fixture::start("", &[("p", sql)]).await;
    for (query, names) in [
        ("", &["at"][..]),
        ("at=2024-02-30", &["at"]),
        ("at=2024-01-01&at=2024-01-01", &["at"]),
        ("at=2024-01-01&n=x", &["n"]),
        ("at=2024-01-01&n=0", &["n"]),
        ("at=2024-01-01&n=11", &["n"]),
        ("at=2024-01-01&n=99999999999999999999", &["n"]),
        ("at=2024-01-01&kind=c", &["kind"]),
        ("at=2024-01-01&nn=1", &["nn"]),
        ("at=2024-01-01&_nn=1", &["_nn"]),
        ("at=2024-01-01&kind=%zz", &["kind"]),
        ("z=1&n=x&kind=c", &["z", "n", "kind", "at"]),
    ] {
        let reply = fixture.get(&format!("/p?{query}")).await;
        let problem = problem(&reply, 400, "invalid_parameter");
        let wrong: Vec<_> =
            problem["parameters"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
        assert_eq!(wrong, names, "{query}: {problem}");
        for name in names {
            let name = format!("`{name}`");
            assert!(problem["detail"].as_str().unwrap().contains(&name), "{problem}");
        }
    }
    let reply = fixture.get("/p?at=2024-01-01&n=%31&kind=b").await;
    assert_eq!(reply.text(), r#"[{"n":1,"kind":"b","at":"2024-01-01"}]"#);
}

/// Programs with decimal commas need semicolons, and Excel a byte order mark. A file's guard against
/// formulas can't be removed, and no text for NULL can be a formula.
#[tokio::test]
async fn a_request_chooses_the_dialect_of_csv() {
    const VALUES: &str = "select 1 as a, null as b, 'x;y' as c union all select 2, 'p', '=1+1'";
    let fixture = Fixture::start(
        "",
        &[
            ("values", VALUES),
            ("guarded", &format!("/*\n[csv]\nguard = true\nnull = \"-\"\n*/\n{VALUES}")),
            ("values.tsv/{id}", "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect :id as id"),
            ("sheet", "/*\npath = \"/sheet.tsv\"\n*/\nselect 1 as own"),
        ],
    )
    .await;
    for (path, expected) in [
        ("/values.csv", "a,b,c\r\n1,,x;y\r\n2,p,=1+1\r\n"),
        ("/values.csv?_csv_separator=semicolon", "a;b;c\r\n1;;\"x;y\"\r\n2;p;=1+1\r\n"),
        ("/values.csv?_csv_separator=%7C&_csv_null=%5CN", "a|b|c\r\n1|\\N|x;y\r\n2|p|=1+1\r\n"),
        ("/values.csv?_csv_guard=1", "a,b,c\r\n1,,x;y\r\n2,p,\"'=1+1\"\r\n"),
        ("/guarded.csv?_csv_guard=1", "a,b,c\r\n1,-,x;y\r\n2,p,\"'=1+1\"\r\n"),
        ("/values.csv?_csv_bom=1", "\u{feff}a,b,c\r\n1,,x;y\r\n2,p,=1+1\r\n"),
        ("/values.tsv", "a\tb\tc\r\n1\t\tx;y\r\n2\tp\t=1+1\r\n"),
        ("/values.tsv?_csv_separator=comma", "a,b,c\r\n1,,x;y\r\n2,p,=1+1\r\n"),
        ("/values?_format=tsv", "a\tb\tc\r\n1\t\tx;y\r\n2\tp\t=1+1\r\n"),
        ("/guarded.csv", "a,b,c\r\n1,-,x;y\r\n2,p,\"'=1+1\"\r\n"),
        ("/guarded.tsv?_csv_null=NULL", "a\tb\tc\r\n1\tNULL\tx;y\r\n2\tp\t\"'=1+1\"\r\n"),
        (
            "/values.jsonl?_csv_null=x",
            "{\"a\":1,\"b\":null,\"c\":\"x;y\"}\n{\"a\":2,\"b\":\"p\",\"c\":\"=1+1\"}\n",
        ),
        ("/values.tsv/5", "{\"id\":5}"),
        ("/sheet.tsv", "[{\"own\":1}]"),
    ] {
        let reply = fixture.get(path).await;
        assert_eq!((reply.status.as_u16(), reply.text()), (200, expected), "{path}");
        let is_guarded = expected.contains("'=");
        let changes = is_guarded.then_some("formula-guard");
        assert_eq!(reply.header("rowstream-changes"), changes, "{path}");
    }
    for (query, part) in [
        ("_csv_separator=x", "write `comma`, `semicolon`, `tab` or `pipe`"),
        ("_csv_bom=yes", "`_csv_bom`"),
        ("_csv_null=%3D1%2B1", "write at most 16 letters"),
        ("_csv_null=%2C", "write at most 16 letters"),
        ("_csv_null=12345678901234567", "write at most 16 letters"),
        ("_csv_guard=0", "`0` is not `1`"),
    ] {
        let refused = problem(&fixture.get(&format!("/values.csv?{query}")).await, 400, "invalid_parameter");
        assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains(part)), "{query}: {refused}");
    }
    problem(&fixture.get("/values.tsvx").await, 406, "not_acceptable");
}

#[tokio::test]
async fn methods() {
    let fixture = Fixture::start("", &[("authors", AUTHORS)]).await;
    for client in [Client::HTTP1, Client::H2C] {
        for (path, allow) in
            [("/authors", "GET, HEAD, QUERY, POST, OPTIONS"), ("/_rowstream/live", "GET, HEAD, OPTIONS")]
        {
            let others = ["PUT", "DELETE", "PATCH", "POST", "QUERY"].into_iter();
            for method in others.filter(|method| !allow.contains(method)) {
                let reply = fixture.send(client, method, path, &[]).await;
                problem(&reply, 405, "method_not_allowed");
                assert_eq!(reply.header("allow"), Some(allow), "{method} {path}");
            }
            let reply = fixture.send(client, "OPTIONS", path, &[]).await;
            assert_eq!((reply.status.as_u16(), reply.text()), (204, ""), "{path}");
            assert_eq!(reply.header("allow"), Some(allow));
        }
        problem(&fixture.send(client, "POST", "/nothing", &[]).await, 404, "no_endpoint");
    }
}

/// Sends raw bytes, and reads until the server closes the connection.
pub(crate) async fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    // A server that refuses a request may close before it has read everything.
    let _ = socket.write_all(bytes).await;
    let mut read = Vec::new();
    let _ = wait("the server closes the connection", socket.read_to_end(&mut read)).await;
    String::from_utf8_lossy(&read).into_owned()
}

#[tokio::test]
async fn head_runs_no_statement() {
    let db = TestDb::new().await;
    let endpoints = [("run", "select 1 as n"), ("none", "select 1 from nothing")];
    let server = launch("", &db.url(), "", &endpoints).argument("--no-check").start().await;
    for path in ["/run", "/none", "/run.ndjson"] {
        for client in [Client::HTTP1, Client::H2C] {
            let request = Request::head(server.url(path)).body(String::new()).unwrap();
            let reply = client.send(request).await;
            assert_eq!(
                (reply.status.as_u16(), reply.text(), &reply.ended),
                (200, "", &Ended::Complete),
                "{path}"
            );
            assert_eq!(
                reply.headers.get("content-length"),
                None,
                "nobody knows the length of what was not run"
            );
            assert_eq!(reply.headers["x-accel-buffering"], "no");
        }
    }
    // On one connection: the bytes after a HEAD response are the next response, and not a body.
    let two = raw(
        &server,
        b"HEAD /run HTTP/1.1\r\nhost: a\r\n\r\nGET /run HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    )
    .await;
    let (head, got) = two.split_once("\r\n\r\n").unwrap();
    assert!(got.starts_with("HTTP/1.1 200 ") && got.ends_with("[{\"n\":1}]"), "{two}");
    let names = |head: &str| {
        let lines = head.lines().skip(1).take_while(|line| !line.is_empty());
        let names = lines.map(|line| line.split(':').next().unwrap_or_default().to_owned());
        names
            .filter(|name| {
                !matches!(name.as_str(), "date" | "connection" | "content-length" | "server-timing")
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(names(head), names(got));
    let reply = get(&server.url("/run?x=1")).await;
    let request = Request::head(server.url("/run?x=1")).body(String::new()).unwrap();
    let refused = Client::HTTP1.send(request).await;
    assert_eq!((refused.status, refused.text()), (reply.status, ""));
}

#[tokio::test]
async fn proxies_are_told_not_to_buffer() {
    let long =
        "with recursive c(i) as (select 1 union all select i + 1 from c where i < 20000) select i from c";
    let fixture = Fixture::start("", &[("long", long), ("short", AUTHORS)]).await;
    for path in ["/long", "/short", "/long.ndjson"] {
        for client in [Client::HTTP1, Client::H2C] {
            let reply = fixture.send(client, "GET", path, &[]).await;
            assert_eq!(reply.ended, Ended::Complete);
            assert_eq!(reply.header("cache-control"), Some("no-transform"));
            assert_eq!(reply.header("x-accel-buffering"), Some("no"));
            assert_eq!(reply.header("incremental"), Some("?1"));
            assert_eq!(reply.header("content-length").is_some(), path == "/short", "{path}");
        }
    }
}

#[tokio::test]
async fn cross_origin_rules() {
    let endpoints = [("authors", AUTHORS)];
    let any = Fixture::start("[cors]\norigins = [\"*\"]", &endpoints).await;
    let some = Fixture::start(
        "[cors]\norigins = [\"https://a.example\", \"https://b.example\"]\nmax_age = \"1m\"",
        &endpoints,
    )
    .await;
    let none = Fixture::start("", &endpoints).await;
    let allowed = "access-control-allow-origin";
    for path in ["/authors", "/nothing"] {
        let reply = any.send(Client::HTTP1, "GET", path, &[("origin", "https://x.example")]).await;
        assert_eq!(reply.header(allowed), Some("*"), "{path}");
        let reply = none.send(Client::HTTP1, "GET", path, &[("origin", "https://x.example")]).await;
        assert_eq!(reply.header(allowed), None);
        for (origin, expected) in [
            ("https://a.example", Some("https://a.example")),
            ("https://b.example", Some("https://b.example")),
            ("https://x.example", None),
            ("https://a.example.x", None),
            ("", None),
        ] {
            let headers = [("origin", origin)];
            let headers = if origin.is_empty() { &[] } else { &headers[..] };
            let reply = some.send(Client::HTTP1, "GET", path, headers).await;
            assert_eq!(reply.header(allowed), expected, "{path} {origin}");
            let vary: Vec<_> = reply.headers.get_all("vary").iter().collect();
            assert!(vary.contains(&&"origin".parse().unwrap()), "{vary:?}");
        }
    }
    let preflight = [
        ("origin", "https://a.example"),
        ("access-control-request-method", "GET"),
        ("access-control-request-headers", "authorization"),
    ];
    let reply = some.send(Client::HTTP1, "OPTIONS", "/authors", &preflight).await;
    assert_eq!(reply.status, 204);
    for (name, expected) in [
        (allowed, "https://a.example"),
        ("access-control-allow-methods", "GET, HEAD, QUERY, POST, OPTIONS"),
        ("access-control-allow-headers", "authorization"),
        ("access-control-max-age", "60"),
    ] {
        assert_eq!(reply.header(name), Some(expected));
    }
}

#[tokio::test]
async fn tokens() {
    const BASIC: &str = r#"Basic realm="rowstream", charset="UTF-8""#;
    const INVALID: &str = r#"Bearer realm="rowstream", error="invalid_token""#;
    const EXPIRED: &str =
        r#"Bearer realm="rowstream", error="invalid_token", error_description="the token has expired""#;
    // The SHA-256 of `reader`, `other` and `old`.
    let settings = "authorization = [\"reader\"]
[token.reader]
sha256 = \"3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30\"
[token.other]
sha256 = \"d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa\"
[token.old]
sha256 = \"cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4\"
expires = \"2020-01-01\"
[admin]
authorization = [\"other\"]";
    let public = format!("/*\nauthorization = \"public\"\n*/\n{AUTHORS}");
    let fixture = Fixture::start(settings, &[("authors", AUTHORS), ("public", &public)]).await;
    for (path, token, status, code) in [
        ("/authors", None, 401, "unauthorized"),
        ("/authors", Some("Bearer wrong"), 401, "unauthorized"),
        ("/authors", Some("Bearer old"), 401, "token_expired"),
        ("/authors", Some("Basic reader"), 401, "unauthorized"),
        // `other:reader`, `reader:old`, `reader:reader`, `other:other`.
        ("/authors", Some("Basic b3RoZXI6cmVhZGVy"), 401, "unauthorized"),
        ("/authors", Some("Basic cmVhZGVyOm9sZA=="), 401, "unauthorized"),
        ("/authors", Some("Basic cmVhZGVyOnJlYWRlcg=="), 200, ""),
        ("/authors", Some("Basic b3RoZXI6b3RoZXI="), 403, "forbidden"),
        ("/authors?x=1", None, 401, "unauthorized"),
        ("/authors", Some("Bearer other"), 403, "forbidden"),
        ("/authors", Some("Bearer reader"), 200, ""),
        ("/public", None, 200, ""),
    ] {
        for client in [Client::HTTP1, Client::H2C] {
            let headers = [("authorization", token.unwrap_or_default())];
            let headers = if token.is_none() { &[] } else { &headers[..] };
            let reply = fixture.send(client, "GET", path, headers).await;
            match status {
                200 => assert_eq!((reply.status.as_u16(), reply.text()), (200, AUTHORS_JSON), "{path}"),
                _ => drop(problem(&reply, status, code)),
            }
            let challenges = reply.headers.get_all("www-authenticate").iter();
            let challenges: Vec<_> = challenges.map(|challenge| challenge.to_str().unwrap()).collect();
            let expected = match (code, token) {
                ("unauthorized", None) => vec![r#"Bearer realm="rowstream""#, BASIC],
                ("unauthorized", _) => vec![INVALID, BASIC],
                ("token_expired", _) => vec![EXPIRED, BASIC],
                ("forbidden", _) => vec![r#"Bearer realm="rowstream", error="insufficient_scope""#],
                _ => Vec::new(),
            };
            assert_eq!(challenges, expected, "{path} {token:?}");
        }
    }
    let by_other = [("authorization", "Bearer other")];
    let metrics = fixture.send(Client::HTTP1, "GET", "/_rowstream/metrics", &by_other).await;
    for (reason, count) in [("missing", 4), ("invalid", 8), ("expired", 2), ("forbidden", 4)] {
        let sample = format!("rowstream_denied_total{{reason=\"{reason}\"}} {count}");
        assert!(metrics.text().lines().any(|line| line == sample), "{sample}: {}", metrics.text());
    }
}

#[tokio::test]
async fn failing_statements_have_a_status_and_an_sqlstate() {
    let db = TestDb::new().await;
    let div = "/*\n[params]\nd = \"integer\"\n*/\nselect 1 / :d::int as n";
    let endpoints = [("div", div), ("table", "select n from missing")];
    let server = launch("", &db.url(), "", &endpoints).argument("--no-check").start().await;
    for client in [Client::HTTP1, Client::H2C] {
        let problem_of =
            async |path: &str, status, code| problem(&client.get(&server.url(path)).await, status, code);
        assert_eq!(problem_of("/div?d=0", 400, "invalid_data").await["sqlstate"], "22012");
        assert_eq!(problem_of("/table", 500, "statement_failed").await["sqlstate"], "42P01");
        assert_eq!(client.get(&server.url("/div?d=1")).await.text(), "[{\"n\":1}]");
    }
}

#[tokio::test]
async fn requests_that_cannot_be_read_do_no_harm() {
    let fixture = Fixture::start("", &[("authors", AUTHORS)]).await;
    let server = &fixture.server;
    let header = format!("GET /authors HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(200_000));
    let target = format!("GET /authors?{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(200_000));
    let fields = format!("GET /authors HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(1000));
    for request in
        [header.as_str(), &target, &fields, "GET\r\n\r\n", "\u{1}\u{2}\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"]
    {
        let reply = raw(server, request.as_bytes()).await;
        let refused = ["HTTP/1.1 400 ", "HTTP/1.1 431 ", "HTTP/1.1 414 "]
            .iter()
            .any(|status| reply.starts_with(status));
        // A server that closes with unread bytes causes a reset, which may discard its response.
        assert!(refused || reply.is_empty(), "{reply}");
        assert_eq!(fixture.get("/authors").await.text(), AUTHORS_JSON);
    }
    let many = "GET /authors HTTP/1.1\r\nhost: a\r\n\r\n".repeat(19);
    let many = many + "GET /authors HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let replies = raw(server, many.as_bytes()).await;
    assert_eq!(replies.matches(AUTHORS_JSON).count(), 20, "pipelined requests");
}

#[tokio::test]
async fn a_pool_is_bounded_in_number_and_time() {
    let db = TestDb::new().await;
    let source = "pool = { max = 1, waiting = 2, acquire_timeout = \"1s\" }";
    let server = start(
        "",
        &db.url(),
        source,
        &[("sleep", "select pg_sleep(1000)::text as s"), ("one", "select 1 as n")],
    )
    .await;
    let url = server.url("/sleep");
    let holder = tokio::spawn(async move { get(&url).await });
    let client = db.client().await;
    let busy = "select count(*) from pg_stat_activity where datname = current_database() and query like '%pg_sleep(1000)%'
        and state = 'active' and pid <> pg_backend_pid()";
    let count = async || client.query_one(busy, &[]).await.unwrap().get::<_, i64>(0);
    wait_until("the statement runs", async || count().await > 0).await;
    let began = Instant::now();
    let one = server.url("/one");
    let mut replies = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let one = one.clone();
        replies.spawn(async move { (get(&one).await, began.elapsed()) });
    }
    let mut codes = Vec::new();
    for (reply, took) in replies.join_all().await {
        let full = reply.status == 503;
        problem(&reply, if full { 503 } else { 504 }, if full { "pool_full" } else { "pool_timeout" });
        assert_eq!(reply.header("retry-after"), Some("1"));
        assert_eq!(took < Duration::from_millis(900), full, "{took:?} for {}", reply.status);
        codes.push(full);
    }
    assert_eq!(codes.iter().filter(|full| **full).count(), 4);
    holder.abort();
    drop(holder.await);
    assert_eq!(get(&one).await.text(), "[{\"n\":1}]");
}

#[tokio::test]
async fn waiting_requests_are_served_in_their_order() {
    let db = TestDb::new().await;
    db.execute("create sequence turn").await;
    let sql = "/*\nresult = \"one\"\n[params]\nwho = \"integer\"\n*/\nselect :who::int as who, nextval('turn') as turn from pg_sleep(0.1)";
    let server =
        start("", &db.url(), "pool = { max = 1, acquire_timeout = \"30s\" }", &[("turn", sql)]).await;
    let mut replies = tokio::task::JoinSet::new();
    for who in 1..=6 {
        let url = server.url(&format!("/turn?who={who}"));
        replies.spawn(async move { get(&url).await });
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    for reply in replies.join_all().await {
        let turn = reply.json();
        assert_eq!(turn["who"], turn["turn"], "{turn}");
    }
}

#[tokio::test]
async fn streams_are_bounded_in_number() {
    let long =
        "with recursive c(i) as (select 1 union all select i + 1 from c where i < 1000000) select i from c";
    let fixture = Fixture::start("max_streams = 2", &[("long", long), ("short", AUTHORS)]).await;
    let mut streams = Vec::new();
    for client in [Client::HTTP1, Client::H2C] {
        let mut stream = client.receive_buffer(16 * 1024).stream(&fixture.server.url("/long")).await;
        stream.at_least(1).await;
        streams.push(stream);
    }
    let reply = fixture.get("/short").await;
    problem(&reply, 503, "too_many_streams");
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(fixture.get("/_rowstream/live").await.status, 200);
    let whole = streams.pop().unwrap().rest().await;
    assert_eq!(whole.ended, Ended::Complete);
    assert_eq!(fixture.get("/short").await.text(), AUTHORS_JSON);
}

/// `nc -N` and other clients close their side after the request and keep reading. The server closed
/// their connections without a response.
#[tokio::test]
async fn a_client_that_has_ended_its_side_gets_its_answer() {
    const ROWS: usize = 200_000;
    let db = TestDb::new().await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let many = format!("select generate_series(1, {ROWS}) as n, repeat('x', 100) as t");
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/many.sql", &many),
        ("endpoints/late.sql", "select 1 as n, pg_sleep(0.1)::text as t"),
        ("endpoints/never.sql", "select 1 as n, pg_sleep(1000)::text as t"),
    ];
    let server = Server::start(&files).await;
    for (path, rows) in [("/late.ndjson", 1), ("/many.ndjson", ROWS)] {
        let mut socket = half_closed(&server, path).await;
        // A slow client is still connected.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer.matches(r#"{"n":"#).count(), rows, "{path}");
        assert!(rows == 1 || answer.ends_with("\r\n0\r\n\r\n"), "{path} has no end");
    }
    // If nothing can be sent, it looks like a client that has disconnected.
    let mut socket = half_closed(&server, "/never").await;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "");
    server.wait_for_stdout(" aborted ").await;
}

/// A connection with a request, whose client side is closed.
async fn half_closed(server: &Server, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
    socket
}
