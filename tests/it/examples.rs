//! The worked examples do what their READMEs say, with identical bytes on SQLite, PostgreSQL and
//! MariaDB. Each example runs in a copy of its folder, as after cloning, with the release build,
//! because a million rows are slow in a debug build. `delegate` has an upstream instead of
//! databases, and its orders have both.

use std::path::Path;

use crate::delegate;
use crate::support::{Client, Ended, Launch, MariaDb, Reply, Server, TestDb, get, release_program};
use crate::worked;
use http::{Request, StatusCode};
use serde_json::json;
use tempfile::TempDir;

/// The token in the README of the events.
const TOKEN: &str = "Bearer example-reader-token";

/// One example on each database.
struct Each {
    sqlite: Server,
    postgres: Server,
    mariadb: Server,
    authorization: Option<&'static str>,
    folder: TempDir,
    db: TestDb,
    mariadb_db: MariaDb,
    variable: &'static str,
}

impl Each {
    /// `variable` is the database's variable in the example's configuration.
    async fn start(example: &str, variable: &'static str) -> Self {
        Self::start_with(example, variable, &[]).await
    }

    /// The same with additional environment variables.
    async fn start_with(example: &str, variable: &'static str, environment: &[(&str, &str)]) -> Self {
        let (folder, db, mariadb_db) =
            tokio::join!(worked::filled(example, release_program()), postgres(example), mariadb(example));
        let launch = || {
            let launch = Launch::folder(folder.path()).release().argument("--log-format=off");
            environment.iter().fold(launch, |launch, (name, value)| launch.variable(name, value))
        };
        let sqlite = launch().start().await;
        let postgres = launch().variable(variable, &db.url()).start().await;
        let mariadb = launch().variable(variable, &mariadb_db.url()).start().await;
        Self { sqlite, postgres, mariadb, authorization: None, folder, db, mariadb_db, variable }
    }

    /// The response, which must be the same from all.
    async fn get(&self, path: &str) -> Reply {
        let ask = |server| self.ask(server, path);
        let (sqlite, postgres, mariadb) =
            tokio::join!(ask(&self.sqlite), ask(&self.postgres), ask(&self.mariadb));
        for (database, reply) in [("PostgreSQL", postgres), ("MariaDB", mariadb)] {
            assert_eq!(sqlite.status, reply.status, "{path} of {database}: {}", reply.text());
            for name in ["content-type", "content-length", "cache-control", "vary", "www-authenticate"] {
                assert_eq!(sqlite.header(name), reply.header(name), "{name} of {path} of {database}");
            }
            assert_same(&format!("{path} of {database}"), &sqlite.body, &reply.body);
            assert_eq!(reply.ended, Ended::Complete, "{path} of {database}");
        }
        assert_eq!(sqlite.ended, Ended::Complete, "{path}");
        sqlite
    }

    async fn ask(&self, server: &Server, path: &str) -> Reply {
        let mut request = Request::get(server.url(path));
        if let Some(authorization) = self.authorization {
            request = request.header("authorization", authorization);
        }
        Client::HTTP1.send(request.body(String::new()).expect("the path is one")).await
    }

    async fn ok(&self, path: &str) -> Reply {
        let reply = self.get(path).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.text());
        reply
    }

    /// Checks for an error that names the cause.
    async fn refuses(&self, path: &str, status: u16, names: &str) {
        let reply = self.get(path).await;
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{path}");
        assert_eq!(reply.json()["status"], status, "{path}");
        assert!(reply.text().contains(names), "{path}: {}", reply.text());
    }

    /// Checks a list in all formats: its number of rows, and that the JSON document is `before`,
    /// these rows and `after`.
    async fn list(&self, path: &str, count: usize, before: &str, after: &str) -> Reply {
        let (name, query) =
            path.split_once('?').map_or((path, String::new()), |(name, query)| (name, format!("?{query}")));
        let lines = self.ok(&format!("{name}.ndjson{query}")).await;
        assert_eq!(lines.header("content-type"), Some("application/x-ndjson"), "{path}");
        assert_eq!(worked::rows(&lines.body), count, "{path}");
        let json = self.ok(path).await;
        assert_eq!(json.header("content-type"), Some("application/json"), "{path}");
        assert_same(path, &json.body, &document(before, &lines.body, after));
        let csv = self.ok(&format!("{name}.csv{query}")).await;
        assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8; header=present"), "{path}");
        let records = ::csv::Reader::from_reader(&csv.body[..]).into_byte_records();
        assert_eq!(records.filter_map(Result::ok).count(), count, "{path}");
        lines
    }

    /// `rowstream check` finds no errors on any database.
    async fn check(&self) {
        for url in [None, Some(self.db.url()), Some(self.mariadb_db.url())] {
            self.check_with("rowstream.toml", url).await;
        }
    }

    /// `rowstream check` finds no errors in a configuration.
    async fn check_with(&self, config: &str, url: Option<String>) {
        let mut command = std::process::Command::new(release_program());
        command.arg("check").arg(self.folder.path().join(config));
        command.envs(url.iter().map(|url| (self.variable, url)));
        let ran = tokio::task::spawn_blocking(move || command.output()).await;
        let output = ran.expect("no panic").expect("the program can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{config}, {url:?}: {said}");
    }
}

/// A database with the example's own data.
async fn postgres(example: &str) -> TestDb {
    let script = worked::example(example).join("data/postgres.sql");
    let db = TestDb::new().await;
    db.execute(&read(&script)).await;
    db
}

/// The same for MariaDB.
async fn mariadb(example: &str) -> MariaDb {
    let script = read(&worked::example(example).join("data/mariadb.sql"));
    let filled = tokio::task::spawn_blocking(move || MariaDb::script(&script));
    filled.await.expect("the database can be filled")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Bodies have megabytes, so only the difference is shown.
fn assert_same(what: &str, one: &[u8], other: &[u8]) {
    if one != other {
        let at = one.iter().zip(other).take_while(|(a, b)| a == b).count();
        let near = |bytes: &[u8]| {
            let (from, to) = (at.saturating_sub(80), (at + 80).min(bytes.len()));
            String::from_utf8_lossy(&bytes[from..to]).into_owned()
        };
        panic!("{what} differs at byte {at}:\n{}\n{}", near(one), near(other));
    }
}

/// The JSON document with NDJSON's rows. Line ends inside values are escaped, so each line end is
/// the end of a row.
fn document(before: &str, lines: &[u8], after: &str) -> Vec<u8> {
    let rows = lines.strip_suffix(b"\n").unwrap_or(lines);
    let ends: Vec<_> = memchr::memchr_iter(b'\n', rows).map(|at| before.len() + at).collect();
    let mut document = [before.as_bytes(), rows, after.as_bytes()].concat();
    for at in ends {
        document[at] = b',';
    }
    document
}

fn lines(reply: &Reply) -> impl Iterator<Item = serde_json::Value> {
    reply.text().lines().map(|line| serde_json::from_str(line).expect("each line is JSON"))
}

#[tokio::test]
async fn authors() {
    let each = Each::start("authors", "AUTHORS_URL").await;
    let list = each.list("/authors", 100_000, "[", "]").await;
    for (i, author) in lines(&list).enumerate() {
        assert_eq!(author["id"], i + 1);
    }
    let all = list.text().lines().collect::<Vec<_>>();
    for id in [1, 2, 7, 4711, 99_999, 100_000] {
        let one = each.ok(&format!("/authors/{id}")).await;
        assert_eq!(one.text(), all[id - 1]);
        assert_eq!(one.header("content-length"), Some(one.body.len().to_string().as_str()));
    }
    for missing in ["0", "100001", "-1", "9223372036854775807"] {
        each.refuses(&format!("/authors/{missing}"), 404, "").await;
    }
    for wrong in ["first", "9223372036854775808", "1.5", "%20"] {
        each.refuses(&format!("/authors/{wrong}"), 400, "id").await;
    }
    each.refuses("/authors?country=DE", 400, "country").await;
    each.refuses("/authors?_format=xml", 406, "xml").await;
    each.refuses("/writers", 404, "").await;
    each.check().await;
}

#[tokio::test]
async fn events() {
    let mut each = Each::start("events", "EVENTS_URL").await;
    events_need_the_token(&mut each).await;
    let list = each.list("/events", 1_000_000, r#"{"events":["#, "]}").await;
    let all = list.text().lines().collect::<Vec<_>>();
    for at in (0..1_000_000).step_by(997).chain([999_999]) {
        assert!(all[at].starts_with(&format!(r#"{{"eventNo":{},"#, at + 1)), "{}", all[at]);
    }
    let part = |from: usize, to: usize| document(r#"{"events":["#, all[from..to].join("\n").as_bytes(), "]}");
    for (query, from, to) in [
        ("maxEvents=1", 0, 1),
        ("maxEvents=1000", 0, 1000),
        ("lastEventNo=0&maxEvents=2", 0, 2),
        ("lastEventNo=499999&maxEvents=3", 499_999, 500_002),
        ("lastEventNo=999990", 999_990, 1_000_000),
        ("lastEventNo=999998&maxEvents=9223372036854775807", 999_998, 1_000_000),
        ("lastEventNo=-9223372036854775808&maxEvents=1", 0, 1),
        ("lastEventNo=1000000", 1_000_000, 1_000_000),
        ("lastEventNo=9223372036854775807", 1_000_000, 1_000_000),
    ] {
        let reply = each.ok(&format!("/events?{query}")).await;
        assert_same(query, &reply.body, &part(from, to));
    }
    for (query, names) in [
        ("lastEventNo=x", "lastEventNo"),
        ("lastEventNo=%20", "lastEventNo"),
        ("lastEventNo=1&lastEventNo=2", "lastEventNo"),
        ("lastEventNo=9223372036854775808", "lastEventNo"),
        ("maxEvents=0", "maxEvents"),
        ("maxEvents=-1", "maxEvents"),
        ("maxEvents=1e3", "maxEvents"),
        ("lasteventno=1", "lasteventno"),
    ] {
        each.refuses(&format!("/events?{query}"), 400, names).await;
    }
    each.check().await;
    for url in [each.db.url(), each.mariadb_db.url()] {
        each.check_with("procedure.toml", Some(url.clone())).await;
        events_of_the_procedure(&each, &url, &list).await;
    }
}

/// The stored procedure returns the same rows, byte by byte.
async fn events_of_the_procedure(each: &Each, url: &str, all: &Reply) {
    let folder = worked::copy("events");
    let path = |name: &str| folder.path().join(name);
    std::fs::rename(path("procedure.toml"), path("rowstream.toml")).expect("a file");
    let server = Launch::folder(folder.path()).release().argument("--log-format=off");
    let server = server.variable("EVENTS_URL", url).start().await;
    let lines = each.ask(&server, "/bulk/events.ndjson").await;
    assert_eq!((lines.status, &lines.ended), (StatusCode::OK, &Ended::Complete));
    assert_same("/bulk/events.ndjson", &lines.body, &all.body);
    let json = each.ask(&server, "/bulk/events").await;
    assert_same("/bulk/events", &json.body, &document(r#"{"events":["#, &all.body, "]}"));
    for query in
        ["?maxEvents=1", "?maxEvents=1000", "?lastEventNo=999990", "?lastEventNo=1000000", "?maxEvents=0"]
    {
        let expected = each.get(&format!("/events{query}")).await;
        let reply = each.ask(&server, &format!("/bulk/events{query}")).await;
        assert_eq!((reply.status, &reply.ended), (expected.status, &Ended::Complete), "{query}");
        assert_same(query, &reply.body, &expected.body);
    }
    let reply = get(&server.url("/bulk/events")).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
}

/// A mistake here would give data to everyone.
async fn events_need_the_token(each: &mut Each) {
    let wrong = [
        "Bearer example-reader-toke",
        "Bearer ",
        "Basic ZXhhbXBsZS1yZWFkZXItdG9rZW4=",
        "example-reader-token",
    ];
    for authorization in [None].into_iter().chain(wrong.map(Some)) {
        each.authorization = authorization;
        for path in ["/events", "/events.ndjson", "/events?lastEventNo=x"] {
            let reply = each.get(path).await;
            assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{path} with {authorization:?}");
            let challenge = reply.header("www-authenticate").unwrap_or_default();
            assert!(challenge.starts_with("Bearer"), "{challenge:?}");
            assert!(!reply.text().contains("eventNo\":"), "{}", reply.text());
        }
    }
    each.authorization = Some(TOKEN);
    each.ok("/events?maxEvents=1").await;
}

#[tokio::test]
async fn films() {
    let each = Each::start("films", "FILMS_URL").await;
    let list = each.list("/films", 1000, "[", "]").await;
    for film in lines(&list).step_by(13) {
        let one = each.ok(&format!("/films/{}", film["fid"])).await;
        assert_eq!(one.json(), serde_json::json!({ "title": film["title"] }));
    }
    for missing in ["0", "1001"] {
        each.refuses(&format!("/films/{missing}"), 404, "").await;
    }
    each.refuses("/films/x", 400, "id").await;
    each.check().await;
}

#[tokio::test]
async fn articles() {
    let each = Each::start("articles", "ARTICLES_URL").await;
    let list =
        each.list("/articles", 100_000, r#"{"_embedded":{"articles":["#, r#"]},"total":100000}"#).await;
    for (i, article) in lines(&list).enumerate() {
        assert_eq!(article["id"], i + 1);
    }
    each.refuses("/articles/1", 404, "").await;
    each.refuses("/articles?id=1", 400, "id").await;
    each.check().await;
}

/// The upstream of `delegate`.
async fn upstream() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    tokio::spawn(delegate::serve(listener));
    url
}

#[tokio::test]
async fn orders_of_delegate() {
    let environment = [("DELEGATE_URL", &*upstream().await)];
    let each = Each::start_with("delegate/enrich", "ORDERS_URL", &environment).await;
    for protocol in ["/h1", "/h2"] {
        let reply = each.ok(&format!("{protocol}/orders.ndjson?max=300")).await;
        for (id, order) in (1_u64..).zip(lines(&reply)) {
            let customer = format!("customer {}", id * 7919 % 5000);
            let replied = json!({ "id": id, "processed_ms": 1 });
            let expected =
                json!({ "id": id, "customer": customer, "cents": id * 104_729 % 100_000, "reply": replied });
            assert_eq!(order, expected);
        }
        assert_eq!(worked::rows(&reply.body), 300);
        each.refuses(&format!("{protocol}/orders?max=0"), 400, "max").await;
    }
    let orders = "select count(*), sum(cents) from orders";
    assert_eq!(each.mariadb_db.ask(orders).trim(), "100000\t4999950000");
}

#[tokio::test]
async fn delegate() {
    let url = upstream().await;
    let folder = worked::copy("delegate");
    for config in ["rowstream.toml", "pool25.toml", "pool50.toml"] {
        let mut command = std::process::Command::new(release_program());
        command.arg("check").arg(folder.path().join(config)).env("DELEGATE_URL", &url);
        let ran = tokio::task::spawn_blocking(move || command.output()).await;
        let output = ran.expect("no panic").expect("the program can be started");
        assert!(output.status.success(), "{config}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let server = Launch::folder(folder.path()).variable("DELEGATE_URL", &url).start().await;
    for prefix in ["", "/h1", "/h2"] {
        let at = |path: &str| server.url(&format!("{prefix}/delegate/{path}"));
        let demo = get(&at("demo?processDuration=PT0.01S")).await;
        assert_eq!((demo.text(), &demo.ended), (r#"{"id":null,"processed_ms":10}"#, &Ended::Complete));
        let wrong = get(&at("demo?processDuration=10")).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
        let calls = get(&at("subcalldemo?subCalls=50&subCallDuration=PT0.01S")).await;
        let rows = calls.json();
        let mut ids: Vec<_> =
            rows.as_array().expect("a list").iter().map(|row| row["body"]["id"].as_i64()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..50).map(Some).collect::<Vec<_>>());
        for (path, expected) in [("subcallincrdemo", [10, 20, 40]), ("subcalldecrdemo", [10, 5, 2])] {
            let events = get(&at(&format!("{path}.sse?subCalls=3&subCallDuration=PT0.01S"))).await;
            assert_eq!(events.ended, Ended::Complete);
            let data = events.text().lines().filter_map(|line| line.strip_prefix("data:"));
            let mut rows: Vec<serde_json::Value> =
                data.map(|data| serde_json::from_str(data).expect("JSON")).collect();
            rows.sort_by_key(|row| row["n"].as_i64());
            let took: Vec<_> = rows.iter().map(|row| row["body"]["processed_ms"].as_i64()).collect();
            assert_eq!(took, expected.map(Some), "{path}");
        }
    }
}
