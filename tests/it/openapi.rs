//! `/_rowstream/openapi.json`: another program finds it valid, and responses match it.
//!
//! Tests that call Python begin with `python_reads_`; see `python.rs`.

use http::Request;
use serde_json::{Value, json};

use crate::delegate;
use crate::support::corpus::{self, Arrow, Line, POSTGRES_SETUP};
use crate::support::{
    Client, Ended, Launch, Server, TestDb, decode, get, program, repository, rowstream, sha256,
};
use crate::worked;

/// The responses of a server, and its document.
struct Seen {
    base: String,
    document: Value,
    answers: Vec<Value>,
}

impl Seen {
    async fn new(base: &str, asked: &str) -> Self {
        let reply = get(&format!("{base}/_rowstream/openapi.json{asked}")).await;
        assert_eq!(
            (reply.status.as_u16(), reply.header("vary")),
            (200, Some("accept-encoding, authorization"))
        );
        Self { base: base.to_owned(), document: reply.json(), answers: Vec::new() }
    }

    async fn of(server: &Server, asked: &str) -> Self {
        Self::new(server.url("").trim_end_matches('/'), asked).await
    }

    /// Requests `path` of the endpoint `template`.
    async fn ask(&mut self, template: &str, path: &str, status: u16) {
        let reply = get(&format!("{}{path}", self.base)).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.ended),
            (status, &Ended::Complete),
            "{path}: {:.300}",
            reply.text()
        );
        let kind = reply.header("content-type").unwrap_or_default().split(';').next();
        self.answers
            .push(json!({"template": template, "status": status, "type": kind, "body": reply.text()}));
    }

    /// Fails unless the document is valid and all responses match it.
    fn agree(&self) {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let asked = json!({"document": self.document, "answers": self.answers});
        std::fs::write(&file, asked.to_string()).expect("it can be written");
        let python = std::env::var_os("ROWSTREAM_TEST_PYTHON");
        let python = python.expect("ROWSTREAM_TEST_PYTHON is not set: run `cargo xtask test`");
        let script = repository().join("tests/readers/openapi.py");
        let ran = std::process::Command::new(python).arg(script).arg(file.path()).output();
        let ran = ran.expect("Python can be started");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "[]");
    }
}

/// The formats whose items are rows.
const STREAMS: [&str; 4] = ["json", "ndjson", "sse", "json-seq"];

#[tokio::test]
async fn python_reads_documents_of_every_value() {
    let db = TestDb::new().await;
    db.execute(POSTGRES_SETUP).await;
    let lines = corpus::postgres(db.version().await);
    let values: Vec<_> = (0..).zip(lines).map(|(n, line)| format!("{} as c{n}", line.expression())).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("values.db");
    // Excludes values that the column doesn't promise. Arrow refuses them, or has them as texts
    // like all decimals.
    let is_promised = |line: &&Line| matches!(line.arrow, Arrow::Value(..)) && line.sql != "'n/a'";
    let lines: Vec<_> = corpus::sqlite().filter(is_promised).collect();
    let connection = rusqlite::Connection::open(&file).expect("a database");
    connection.execute_batch(&corpus::sqlite_table(&lines)).expect("a table");
    let config =
        format!("[source.db]\nurl = \"{}\"\n[source.file]\nurl = \"sqlite:{}\"\n", db.url(), file.display());
    let postgres = format!("/*\nsource = \"db\"\n*/\nselect {}", values.join(", "));
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/values.sql", &postgres),
        ("endpoints/file.sql", "/*\nsource = \"file\"\n*/\nselect * from t"),
    ])
    .await;
    for options in ["", "_numbers=string&_bytes=base64&_intervals=iso", "_nulls=omit"] {
        for version in ["3.1", "3.2"] {
            let mut seen = Seen::of(&server, &format!("?version={version}&{options}")).await;
            assert_eq!(seen.document["openapi"], format!("{version}.0"));
            for format in STREAMS {
                seen.ask("/values", &format!("/values.{format}?{options}"), 200).await;
                seen.ask("/file", &format!("/file.{format}?{options}"), 200).await;
            }
            seen.agree();
        }
    }
}

const NESTED: &str = "/*\n\
    body = { kind = \"list\", all = { a = \"$a\" }, one = \"$one\", none = \"$none\", total = \"$total\",\n\
    n = \"$count\", x = [1, \"x\"] }\n\
    [params]\nid = \"integer\"\n\
    l = { type = \"integer[]\", default = [1, 2], min = 1, max = 9 }\n\
    d = { type = \"number\", default = \"1.50\", min = \"0.5\" }\n\
    w = { type = \"text\", optional = true, enum = [\"a\", \"b\"], summary = \"which\" }\n\
    j = { type = \"json\", optional = true }\n\
    h = { type = \"date\", optional = true, header = \"X-Day\" }\n*/\n\
    -- name: a :many\nselect n::int8 as id from generate_series(1, 2) n where :id > 0 order by 1\n;\n\
    -- name: b :many nested in a on a_id = id\nselect 1::int8 as a_id, 'x' as t\n;\n\
    -- name: one :one\nselect 1.5::numeric as v, :l as l, :d as d, :w as w, :j as j, :h as h\n;\n\
    -- name: none :one\nselect 1 as v where false\n;\n\
    -- name: total :value\nselect count(*) from generate_series(1, 3)\n";

const KEYED: &str = "/*\nkey = [\"n\"]\nbody = { rows = \"$rows\", next = \"$next\", n = \"$count\" }\n*/\n\
    select n from generate_series(1, 3) n order by n";

#[tokio::test]
async fn python_reads_documents_of_every_body() {
    let db = TestDb::new().await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/a b/{id}.sql", NESTED),
        ("endpoints/keyed.sql", KEYED),
        (
            "endpoints/one.sql",
            "/*\nresult = \"one\"\n[params]\nn = \"integer\"\n*/\nselect :n as n where :n > 0",
        ),
        ("endpoints/fails.sql", "select 1 / (n - 1) as n from generate_series(1, 1) n"),
    ])
    .await;
    let mut seen = Seen::of(&server, "").await;
    seen.ask("/a%20b/{id}", "/a%20b/7", 200).await;
    seen.ask("/a%20b/{id}", "/a%20b/x", 400).await;
    seen.ask("/keyed", "/keyed", 200).await;
    seen.ask("/keyed", "/keyed.sse", 200).await;
    seen.ask("/keyed", "/keyed?_after=x", 400).await;
    seen.ask("/one", "/one?n=1", 200).await;
    seen.ask("/one", "/one.ndjson?n=1", 200).await;
    seen.ask("/one", "/one?n=0", 404).await;
    seen.ask("/one", "/one", 400).await;
    seen.ask("/fails", "/fails", 500).await;
    seen.agree();

    let operation = &seen.document["paths"]["/a%20b/{id}"]["get"];
    assert_eq!(operation["operationId"], "getABById");
    let parameters = operation["parameters"].as_array().expect("a list");
    let own = json!([
        {"name": "id", "in": "path", "required": true, "schema": {"type": "integer", "format": "int64"}},
        {"name": "l", "in": "query", "required": false, "schema": {"type": "array",
            "items": {"type": "integer", "format": "int64", "minimum": 1, "maximum": 9}, "default": [1, 2]}},
        {"name": "d", "in": "query", "required": false,
            "schema": {"type": "number", "minimum": 0.5, "default": 1.5}},
        {"name": "w", "in": "query", "required": false, "description": "which",
            "schema": {"type": "string", "enum": ["a", "b"]}},
        {"name": "j", "in": "query", "required": false, "content": {"application/json": {"schema": {}}}},
        {"name": "X-Day", "in": "header", "required": false, "schema": {"type": "string", "format": "date"}},
    ]);
    assert_eq!(json!(parameters[..6]), own);
    let rows = &seen.document["components"]["schemas"]["ABById"]["properties"];
    let b = &rows["all"]["properties"]["a"]["items"]["$ref"];
    assert_eq!(b, "#/components/schemas/ABByIdRow");
    assert_eq!(rows["total"], json!({"type": ["integer", "null"], "format": "int64"}));
    assert_eq!(rows["kind"], json!({"const": "list"}));
}

#[tokio::test]
async fn python_reads_the_documents_of_the_demo_and_the_examples() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().to_str().expect("UTF-8");
    let arguments = ["demo", "--dir", place, "--listen", "127.0.0.1:0", "--log-format=off"];
    let demo = worked::Started::new(program(), &arguments).listening().await;
    let mut seen = Seen::new(demo.url("").trim_end_matches('/'), "?version=3.2").await;
    for format in STREAMS {
        seen.ask("/authors", &format!("/authors.{format}"), 200).await;
        seen.ask("/articles", &format!("/articles.{format}"), 200).await;
        seen.ask("/events", &format!("/events.{format}?lastEventNo=999990"), 200).await;
    }
    seen.ask("/authors/{id}", "/authors/7", 200).await;
    seen.ask("/authors/{id}", "/authors/0", 404).await;
    seen.ask("/films/{id}", "/films/133", 200).await;
    seen.agree();

    let shop = worked::copy("shop");
    let server = Launch::folder(shop.path()).argument("--log-format=off").start().await;
    let mut seen = Seen::of(&server, "").await;
    seen.ask("/orders/{id}", "/orders/1", 200).await;
    seen.ask("/orders", "/orders", 200).await;
    seen.ask("/customers", "/customers", 200).await;
    seen.ask("/readings", "/readings.sse", 200).await;
    seen.agree();
}

#[tokio::test]
async fn python_reads_the_document_of_upstreams() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let upstream = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(delegate::serve(listener));
    let config = format!("[source.up]\nurl = \"{upstream}\"\n");
    let calls = "[params]\nn = { type = \"integer\", default = 2 }\n[upstream]\nsource = \"up\"\n\
        request = \"GET /demo?processDuration=PT0S&id={n}\"\nrepeat = \"n\"\n";
    let calls = calls.replace("n = {", "k = {").replace("\"n\"", "\"k\"");
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/calls.toml", &calls),
        ("endpoints/proxy.toml", PROXY),
    ];
    let server = Server::start(&files).await;
    let mut seen = Seen::of(&server, "").await;
    seen.ask("/calls", "/calls", 200).await;
    seen.ask("/calls", "/calls.ndjson", 200).await;
    seen.agree();
    assert_eq!(seen.document["paths"]["/proxy"]["get"]["responses"]["200"]["content"], json!({"*/*": {}}));
}

const PROXY: &str = "[upstream]\nsource = \"up\"\nrequest = \"GET /demo?processDuration=PT0S&id=1\"\n";

/// A server with a public endpoint, and one for the token `secret`.
async fn guarded(settings: &str) -> Server {
    let config = format!(
        "authorization = [\"reader\"]\n{settings}[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n\
         [token.reader]\nsha256 = \"{}\"\n",
        sha256("secret")
    );
    Server::start(&[
        ("rowstream.toml", &config),
        ("t.sql", "create table t(n int)"),
        ("endpoints/closed.sql", "select n from t"),
        ("endpoints/open.sql", "/*\nauthorization = \"public\"\n*/\nselect n from t"),
    ])
    .await
}

#[tokio::test]
async fn only_what_may_be_called_is_there() {
    let server = guarded("admin_listen = \"127.0.0.1:0\"\n").await;
    let document = async |token: &str| {
        let request = Request::get(server.url("/_rowstream/openapi.json"));
        let request = request.header("authorization", format!("Bearer {token}"));
        Client::HTTP1.send(request.body(String::new()).expect("a request")).await.json()
    };
    let paths =
        |document: &Value| document["paths"].as_object().expect("paths").keys().cloned().collect::<Vec<_>>();
    let others = document("wrong").await;
    assert_eq!(paths(&others), ["/open"]);
    assert_eq!(others["paths"]["/open"]["get"]["security"], json!([]));
    let own = document("secret").await;
    assert_eq!(paths(&own), ["/closed", "/open"]);
    let closed = &own["paths"]["/closed"]["get"];
    assert_eq!(closed["security"], json!([{"token": []}, {"basic": []}]));
    assert!(closed["responses"]["401"].is_object() && closed["responses"]["403"].is_object());
    assert_eq!(own["components"]["securitySchemes"]["token"], json!({"type": "http", "scheme": "bearer"}));
    let refused = get(&server.url("/_rowstream/openapi.json?version=2")).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (400, &json!("invalid_parameter")));
}

/// A document is generated once and shared. A client with a current copy doesn't get it again, and
/// a client with other permissions gets another document.
#[tokio::test]
async fn documents_are_compressed_and_asked_for_again() {
    let server = guarded("").await;
    for path in ["/", "/_rowstream/openapi.json"] {
        let ask = async |headers: &[(&str, &str)]| {
            let request = headers
                .iter()
                .fold(Request::get(server.url(path)), |request, (name, value)| request.header(*name, *value));
            Client::HTTP1.send(request.body(String::new()).expect("a request")).await
        };
        let plain = ask(&[]).await;
        assert_eq!(plain.header("content-length"), Some(plain.body.len().to_string().as_str()), "{path}");
        assert_eq!(
            (plain.header("content-encoding"), plain.header("cache-control")),
            (None, Some("no-cache"))
        );
        let packed = ask(&[("accept-encoding", "gzip")]).await;
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        assert_eq!(decode("gzip", &packed.body).expect("all of it"), plain.body);
        let tag = plain.header("etag").expect("a tag");
        assert_eq!(packed.header("etag"), Some(tag));
        let same = ask(&[("if-none-match", tag)]).await;
        assert_eq!((same.status.as_u16(), same.body.len(), same.header("etag")), (304, 0, Some(tag)));
        let reader = ask(&[("authorization", "Bearer secret"), ("if-none-match", tag)]).await;
        assert_eq!(reader.status, 200);
        assert!(reader.text().contains("/closed") && !plain.text().contains("/closed"));
    }
}

/// A document describes the value types of its own request, so it doesn't offer options that would
/// change them.
#[tokio::test]
async fn a_document_offers_the_value_options_that_it_describes() {
    let server = Server::start(&[
        ("rowstream.toml", "[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n"),
        ("t.sql", "create table t(n int)"),
        ("endpoints/t.sql", "select n from t"),
    ])
    .await;
    let names = |document: &Value| -> Vec<String> {
        let parameters = document["paths"]["/t"]["get"]["parameters"].as_array().expect("a list").clone();
        let name = |parameter: &Value| {
            parameter["$ref"].as_str().expect("a reference").rsplit('/').next().map(str::to_owned)
        };
        parameters.iter().filter_map(name).collect()
    };
    let default = get(&server.url("/_rowstream/openapi.json")).await.json();
    let all =
        ["format", "end", "digest", "wait", "download", "csv_separator", "csv_bom", "csv_null", "csv_guard"];
    assert_eq!(names(&default), all);
    let strings = get(&server.url("/_rowstream/openapi.json?_numbers=string")).await.json();
    let mut with_numbers = all.to_vec();
    with_numbers.insert(5, "numbers");
    assert_eq!(names(&strings), with_numbers);
    let numbers = &strings["components"]["parameters"]["numbers"];
    assert_eq!((&numbers["required"], &numbers["schema"]["enum"]), (&json!(true), &json!(["string"])));
}

#[tokio::test]
async fn check_writes_the_document_that_the_server_serves() {
    let files = [
        ("rowstream.toml", "[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n"),
        ("t.sql", "create table t(n int, d decimal(10, 2))"),
        ("endpoints/t.sql", "select n, d from t"),
    ];
    let server = Server::start(&files).await;
    let mut served = get(&server.url("/_rowstream/openapi.json")).await.json();
    assert_eq!(served["servers"], json!([{"url": ".."}]));
    served.as_object_mut().expect("an object").remove("servers");
    let (folder, file) = (server.folder().to_str().expect("UTF-8"), server.folder().join("openapi.json"));
    let into = file.to_str().expect("UTF-8");
    let checked = rowstream(&["check", folder, "--openapi", into]).await;
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let written: Value = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    assert_eq!(written, served);
    let nowhere = rowstream(&["check", folder, "--openapi", "/nowhere/openapi.json"]).await;
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("/nowhere/openapi.json"));
}

/// A list with many parameters and filters, beside a path with a parameter.
const ASKED: &str = "/*\nkey = [\"n\"]\nfilter = true\nsort = true\n[params]\n\
    l = { type = \"integer[]\", default = [1, 2], min = 1, max = 9, summary = \"numbers\" }\n\
    w = { type = \"text\", optional = true, enum = [\"a\", \"b\"] }\n\
    h = { type = \"date\", optional = true, header = \"X-Day\" }\n*/\n\
    select value as n from json_each('[1,2,3]') where :l <> '' and :w is null and :h is null order by n";
const OF_ID: &str = "/*\n[params]\nid = \"integer\"\nj = \"json\"\n\
    d = { type = \"json\", default = '{\"a\": [1]}' }\njs = { type = \"json[]\", optional = true }\nn = { type = \"integer\", max = 5 }\n*/\n\
    select :id as id, :j as j, :n as n where :d <> '' and :js is null";

async fn asked() -> Server {
    Server::start(&[
        ("rowstream.toml", "[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n"),
        ("t.sql", "create table t (n integer)"),
        ("endpoints/asked.sql", ASKED),
        ("endpoints/a b/{id}.sql", OF_ID),
        ("endpoints/none.sql", "select 1 as n"),
    ])
    .await
}

/// The values at a reference of the document.
fn at<'a>(document: &'a Value, reference: &Value) -> &'a Value {
    let pointer = reference["$ref"].as_str().and_then(|text| text.strip_prefix('#')).expect("a reference");
    let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8().expect("UTF-8");
    document.pointer(&pointer).unwrap_or_else(|| panic!("{pointer} isn't there"))
}

#[tokio::test]
async fn python_reads_documents_of_request_bodies() {
    let server = asked().await;
    let seen = Seen::of(&server, "").await;
    seen.agree();
    let (document, paths) = (&seen.document, &seen.document["paths"]);
    assert!(paths["/none"].get("post").is_none(), "no parameter can be in its body");
    let [asked, of_id] = ["/asked", "/a%20b/{id}"].map(|path| &paths[path]["post"]);
    assert_eq!((&asked["operationId"], &of_id["operationId"]), (&json!("postAsked"), &json!("postABById")));
    let content = &asked["requestBody"]["content"];
    let schema = at(document, &content["application/json"]["schema"]);
    assert_eq!(content["application/x-www-form-urlencoded"], content["application/json"]);
    assert_eq!((&asked["requestBody"]["required"], schema.get("required")), (&json!(false), None));
    let of_get = &paths["/asked"]["get"]["parameters"];
    let mut numbers = of_get[0]["schema"].clone();
    numbers["description"] = json!("numbers");
    assert_eq!(schema["properties"]["l"], numbers);
    assert_eq!(schema["properties"]["limit"], json!({"type": "integer", "format": "int64", "minimum": 0}));
    let texts = json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    assert_eq!(schema["additionalProperties"], json!({"anyOf": [{"type": "string"}, texts]}), "conditions");
    // The header isn't in the body, and a text with JSON is no member of a form.
    assert!(schema["properties"].get("h").is_none(), "{schema}");
    assert_eq!(asked["parameters"][0]["name"], "X-Day");
    assert!(of_id["requestBody"]["content"].get("application/x-www-form-urlencoded").is_none(), "{of_id}");
    let schema = at(document, &of_id["requestBody"]["content"]["application/json"]["schema"]);
    assert_eq!((&schema["required"], &of_id["requestBody"]["required"]), (&json!(["j", "n"]), &json!(true)));
    assert_eq!(schema["properties"]["j"], json!({"not": {"type": "null"}}));
    assert_eq!(schema["properties"]["d"], json!({"default": {"a": [1]}}));
    assert_eq!(schema["properties"]["js"], json!({"type": "array", "items": {}}));
    assert_eq!(schema["additionalProperties"], json!(false));
    let null = &document["components"]["parameters"]["csv_null"]["schema"];
    assert_eq!(null["pattern"], r"^[A-Za-z0-9\\_.<>/]{0,16}$");
    assert_eq!(document["components"]["parameters"]["filters"]["name"], "_filters");
    assert_eq!(of_id["parameters"][0]["name"], "id");
    for (path, post) in [("/asked", asked), ("/a%20b/{id}", of_id)] {
        let get = &paths[path]["get"]["responses"];
        assert_eq!(*at(document, &post["responses"]["200"]), get["200"]);
        assert!(post["responses"].get("415").is_some() && get.get("415").is_none(), "{post}");
        // It refers to what it shares with the GET.
        let [get, post] = [&paths[path]["get"], post].map(|operation| operation.to_string().len());
        assert!(post * 10 < get * 6, "{path}: {post} of {get} bytes");
    }
}

/// The body that the document describes has the response of a GET.
#[tokio::test]
async fn described_bodies_are_read() {
    let server = asked().await;
    for (path, body, expected) in [
        (
            "/asked",
            json!({"l": [1, 9], "order": "n.desc", "limit": 2, "n": "gt.1"}),
            json!([{"n": 3}, {"n": 2}]),
        ),
        ("/a%20b/7", json!({"j": {"a": [1]}, "n": 5}), json!([{"id": 7, "j": "{\"a\":[1]}", "n": 5}])),
    ] {
        let request = Request::post(server.url(path)).header("content-type", "application/json");
        let reply = Client::HTTP1.send(request.body(body.to_string()).expect("a request")).await;
        assert_eq!(reply.json(), expected, "{body}");
    }
    let form =
        Request::post(server.url("/asked")).header("content-type", "application/x-www-form-urlencoded");
    let reply =
        Client::HTTP1.send(form.body("l=1&l=9&order=n.desc&limit=1".to_owned()).expect("a form")).await;
    assert_eq!(reply.json(), json!([{"n": 3}]));
}
