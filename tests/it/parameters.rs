//! Parameters as databases get them: absent, empty, and with a type that the statement doesn't
//! determine. SQLite and PostgreSQL have the same results.

use serde_json::json;

use crate::support::{Client, Ended, MariaDb, Reply, Server, TestDb, get, repository, rowstream};

/// A server with the same files on SQLite and on PostgreSQL.
struct Both {
    servers: [Server; 2],
    _folder: tempfile::TempDir,
    _db: TestDb,
}

impl Both {
    /// `setup` runs in each database.
    async fn start(setup: &str, endpoints: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db");
        rusqlite::Connection::open(&file).unwrap().execute_batch(setup).unwrap();
        let db = TestDb::new().await;
        db.execute(setup).await;
        let sqlite = serve(&format!("sqlite:{}", file.display()), endpoints).await;
        let postgres = serve(&db.url(), endpoints).await;
        Self { servers: [sqlite, postgres], _folder: folder, _db: db }
    }

    /// The response, which must be the same from both.
    async fn get(&self, path: &str) -> Reply {
        let [sqlite, postgres] = &self.servers;
        let (sqlite, postgres) = (get(&sqlite.url(path)).await, get(&postgres.url(path)).await);
        assert_eq!((sqlite.status, sqlite.text()), (postgres.status, postgres.text()), "{path}");
        sqlite
    }

    async fn answers(&self, path: &str, expected: &str) {
        let reply = self.get(path).await;
        assert_eq!((reply.text(), reply.status.as_u16()), (expected, 200), "{path}");
        assert_eq!(reply.ended, Ended::Complete, "{path}");
    }
}

async fn serve(url: &str, endpoints: &[(&str, &str)]) -> Server {
    let config = format!("[source.shop]\nurl = \"{url}\"\n");
    let files: Vec<_> = endpoints.iter().map(|(name, sql)| (format!("endpoints/{name}.sql"), *sql)).collect();
    let mut files: Vec<_> = files.iter().map(|(name, sql)| (name.as_str(), *sql)).collect();
    files.push(("rowstream.toml", &config));
    Server::start(&files).await
}

/// The README began with an example that failed on SQLite: an absent parameter in `limit
/// :maxEvents` caused a "datatype mismatch".
#[tokio::test]
async fn the_first_example_of_the_readme_works_on_both_databases() {
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let (_, example) = readme.split_once("```sql\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let setup = "create table payment_event (event_no integer, paymt_status text, status_chg_date text);
                 insert into payment_event values (1, 'OPEN', 'a'), (2, 'PAID', 'b'), (3, 'OPEN', 'c')";
    let both = Both::start(setup, &[("events", example)]).await;
    let event = |no, status, date| {
        format!(r#"{{"eventNo":{no},"paymentStatus":"{status}","statusChanged":"{date}"}}"#)
    };
    let [one, two, three] = [event(1, "OPEN", "a"), event(2, "PAID", "b"), event(3, "OPEN", "c")];
    for (query, events) in [
        ("", format!("{one},{two},{three}")),
        ("?lastEventNo=1", format!("{two},{three}")),
        ("?maxEvents=2", format!("{one},{two}")),
        ("?maxEvents=&lastEventNo=", format!("{one},{two},{three}")),
    ] {
        both.answers(&format!("/events{query}"), &format!(r#"{{"events":[{events}]}}"#)).await;
    }
}

#[tokio::test]
async fn an_absent_limit_is_none_wherever_it_stands() {
    const PARAMS: &str = "[params]\nn = { type = \"integer\", optional = true }\no = { type = \"integer\", optional = true }\n";
    let file = |head: &str, sql: &str| format!("/*\n{head}\n{PARAMS}*/\n{sql}");
    let files = [
        ("offset", file("", "select a from t order by a limit :n offset :o")),
        (
            "inner",
            file("", "select a from (select a from t order by a limit :n) as x where :o is null order by a"),
        ),
        (
            "used",
            file("", "select a from t where :n is null or a > :n - :n and :o is null order by a limit :n"),
        ),
        (
            "keyed",
            file(
                "key = [\"a\"]\nbody = { rows = \"$rows\", next = \"$next\" }",
                "select a from t where :o is null order by a limit :n",
            ),
        ),
        (
            "nested",
            file(
                "",
                "-- name: ts :many\nselect a from t order by a limit :n offset :o;\n-- name: us :many nested in ts on b = a\nselect b, c from u order by b, c limit :n",
            ),
        ),
    ];
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let setup = "create table t (a integer); insert into t values (1), (2), (3);
                 create table u (b integer, c integer); insert into u values (1, 1), (1, 2), (2, 3)";
    let both = Both::start(setup, &files).await;
    let all = r#"[{"a":1},{"a":2},{"a":3}]"#;
    for (path, expected) in [
        ("/offset", all),
        ("/offset?n=2", r#"[{"a":1},{"a":2}]"#),
        ("/offset?o=1", r#"[{"a":2},{"a":3}]"#),
        ("/offset?n=1&o=1", r#"[{"a":2}]"#),
        ("/inner", all),
        ("/inner?n=1", r#"[{"a":1}]"#),
        ("/used", all),
        ("/used?n=2", r#"[{"a":1},{"a":2}]"#),
        (
            "/nested",
            r#"[{"a":1,"us":[{"b":1,"c":1},{"b":1,"c":2}]},{"a":2,"us":[{"b":2,"c":3}]},{"a":3,"us":[]}]"#,
        ),
        ("/nested?n=1", r#"[{"a":1,"us":[{"b":1,"c":1}]}]"#),
    ] {
        both.answers(path, expected).await;
    }
    for (query, rows) in [("", 3), ("?n=2", 2), ("?n=", 3)] {
        let page = both.servers[0].url(&format!("/keyed{query}"));
        let page = get(&page).await.json();
        assert_eq!(page["rows"].as_array().map(Vec::len), Some(rows), "{query}");
        let rest = both.servers[0].url(&format!("/keyed?_after={}", page["next"].as_str().unwrap()));
        assert_eq!(get(&rest).await.json()["rows"].as_array().map(Vec::len), Some(3 - rows), "{query}");
    }
}

/// A form also sends its empty fields.
#[tokio::test]
async fn an_empty_optional_parameter_is_an_absent_one() {
    let file = "/*\n[params]\nn = { type = \"integer\", default = 2 }\nd = { type = \"date\", optional = true }\ns = { type = \"text\", optional = true }\n*/
select a from t where a >= :n and (:d is null or day > :d) and (:s is null or s = :s) order by a";
    let setup = "create table t (a integer, day date, s text);
                 insert into t values (1, '2024-01-01', ''), (2, '2024-02-01', ''), (3, '2024-03-01', 'x')";
    let both = Both::start(setup, &[("t", file)]).await;
    for (query, expected) in [
        ("", r#"[{"a":2},{"a":3}]"#),
        ("?n=&d=", r#"[{"a":2},{"a":3}]"#),
        ("?n&d=2024-02-15", r#"[{"a":3}]"#),
        ("?n=1&s=", r#"[{"a":1},{"a":2}]"#),
    ] {
        both.answers(&format!("/t{query}"), expected).await;
    }
}

#[tokio::test]
async fn durations_are_taken_in_both_spellings() {
    let file = "/*\ntimeout = { total = \"PT30S\" }\n[params]\nd = { type = \"duration\", default = \"10s\" }\n*/\nselect cast(:d as text) as d";
    let both = Both::start("create table t (a integer)", &[("d", file)]).await;
    for (query, expected) in [
        ("", "PT10S"),
        ("?d=500ms", "PT0.5S"),
        ("?d=1h30m", "PT1H30M"),
        ("?d=PT90S", "PT90S"),
        ("?d=", "PT10S"),
    ] {
        let [sqlite, postgres] = &both.servers;
        let reply = get(&sqlite.url(&format!("/d{query}"))).await;
        assert_eq!(reply.text(), format!(r#"[{{"d":"{expected}"}}]"#), "{query}");
        assert_eq!(get(&postgres.url(&format!("/d{query}"))).await.status, 200, "{query}");
    }
    let sql = "/*\n[params]\nd = \"duration\"\n*/\nselect interval '1 hour' > :d as less";
    let db = TestDb::new().await;
    let server = serve(&db.url(), &[("d", sql)]).await;
    for (d, less) in [("59m", true), ("1h30m", false), ("PT59M", true)] {
        let reply = get(&server.url(&format!("/d?d={d}"))).await;
        assert_eq!(reply.text(), format!(r#"[{{"less":{less}}}]"#), "{d}");
    }
}

/// For `:a > :b`, PostgreSQL determines both as texts, so 9 was more than 10.
#[tokio::test]
async fn postgres_has_the_declared_types_where_it_would_guess_texts() {
    let db = TestDb::new().await;
    db.execute(
        "create table t (code text, n integer, day char(12)); insert into t values ('7', 7, '2024-01-01')",
    )
    .await;
    let params = "/*\n[params]\na = \"integer\"\nb = \"integer\"\n*/\n";
    let list = "/*\n[params]\na = \"integer[]\"\n*/\n";
    let endpoints = [
        ("greater", format!("{params}select :a > :b as v")),
        ("greatest", format!("{params}select greatest(:a, :b) as v")),
        ("sum", format!("{params}select :a + :b as v")),
        // Parameters that are compared with a text stay texts.
        ("code", format!("{params}select code as v from t where code = :a and n < :b")),
        ("list", format!("{list}select sum(x) as v from unnest(:a) x")),
        ("any", format!("{list}select n as v from t where n = any(:a)")),
        ("codes", format!("{list}select n as v from t where code = any(:a)")),
    ];
    let endpoints: Vec<_> = endpoints.iter().map(|(name, sql)| (*name, sql.as_str())).collect();
    let server = serve(&db.url(), &endpoints).await;
    for (path, expected) in [
        ("/greater?a=9&b=10", "[{\"v\":false}]"),
        ("/greatest?a=9&b=10", "[{\"v\":10}]"),
        ("/sum?a=9&b=10", "[{\"v\":19}]"),
        ("/code?a=7&b=10", "[{\"v\":\"7\"}]"),
        ("/list?a=9,10", "[{\"v\":19}]"),
        ("/any?a=9,7", "[{\"v\":7}]"),
        ("/codes?a=9,7", "[{\"v\":7}]"),
    ] {
        // The second time, the statement is cached.
        for _ in 0..2 {
            let reply = get(&server.url(path)).await;
            assert_eq!((reply.text(), reply.status.as_u16()), (expected, 200), "{path}");
        }
    }
}

#[tokio::test]
async fn parameters_of_query_in_postgres() {
    let db = TestDb::new().await;
    db.execute(
        "create table t (code text, n integer); insert into t values ('150', 150), ('9', 9), ('007', 7)",
    )
    .await;
    for (sql, params, expected) in [
        ("select n from t where n * 1 > :m", &["m=9"][..], "{\"n\":150}\n"),
        ("select n from t where code = :c", &["c=150"], "{\"n\":150}\n"),
        ("select n from t where code = :c", &["c=007"], "{\"n\":7}\n"),
        ("select n from t where n = any(:ids) order by n", &["ids:integer[]=7,9"], "{\"n\":7}\n{\"n\":9}\n"),
        ("select n from t where n = any(:ids) order by n", &["ids={7,9}"], "{\"n\":7}\n{\"n\":9}\n"),
        ("select :a > :b as v", &["a=9", "b=10"], "{\"v\":false}\n"),
        ("select jsonb_build_object('a', :n) as v", &["n=5"], "{\"v\":{\"a\": 5}}\n"),
        ("select jsonb_build_object('a', :n) as v", &["n:text=5"], "{\"v\":{\"a\": \"5\"}}\n"),
        ("select n from t where code = '9' limit :n", &["n:integer="], "{\"n\":9}\n"),
    ] {
        let params: Vec<_> = params.iter().flat_map(|param| ["-p", *param]).collect();
        let url = db.url();
        let ran = rowstream(&[&["query", url.as_str(), sql], &params[..]].concat()).await;
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(
            (String::from_utf8_lossy(&ran.stdout).as_ref(), said.as_ref()),
            (expected, ""),
            "{sql} {params:?}"
        );
    }
}

/// SQLite and MariaDB got an infinite float instead of `1e400`, and returned rows for it. PostgreSQL's numbers
/// have room for it.
#[tokio::test]
async fn a_number_beyond_all_floats_is_refused() {
    let maria = MariaDb::new("create table t (n int)");
    let sql = "/*\n[params]\nx = \"number\"\nl = \"number[]\"\n*/\nselect :x as x, {} as l";
    let one = sql.replacen("*/", "*/\n-- name: one :many\n", 1);
    let nested = one.clone() + ";\n-- name: two :many nested in one on x = x\nselect :x as x, 1 as n";
    let folder = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}", folder.path().join("t.db").display());
    std::fs::write(folder.path().join("t.db"), "").unwrap();
    let db = TestDb::new().await;
    for (url, list) in [(&maria.url(), "json_length(:l)"), (&sqlite, "json_array_length(:l)")] {
        let (plain, nested) = (sql.replace("{}", list), nested.replace("{}", list));
        let one = plain.replacen("[params]", "result = \"one\"\n[params]", 1);
        let server = serve(url, &[("t", &plain), ("one", &one), ("nested", &nested)]).await;
        for path in ["t", "one", "nested"] {
            for (query, status) in [
                ("x=1e300&l=1,2", 200),
                ("x=1e400&l=1,2", 400),
                ("x=-1e400&l=1,2", 400),
                ("x=1&l=1,1e400", 400),
                ("x=1&l=1,2", 200),
            ] {
                let reply = get(&server.url(&format!("/{path}?{query}"))).await;
                assert_eq!(reply.status.as_u16(), status, "{url} {path} {query}: {}", reply.text());
                let says_so =
                    reply.text().contains("`-1e400` is beyond") || reply.text().contains("`1e400` is beyond");
                assert_eq!(says_so, status == 400, "{url} {path} {query}: {}", reply.text());
            }
        }
    }
    let server = serve(&db.url(), &[("t", &sql.replace("{}", "cardinality(:l)"))]).await;
    let reply = get(&server.url("/t?x=1e400&l=1,2")).await;
    assert_eq!(reply.text(), format!("[{{\"x\":1{},\"l\":2}}]", "0".repeat(400)));
}

/// The second 60 was bound as 59. PostgreSQL reads it as the next minute's second 0.
#[tokio::test]
async fn a_leap_second_is_the_next_second() {
    const LIST: &str = "/*\nkey = [\"id\"]\nfilter = true\nsort = true\n[params]\n\
        ts = { type = \"timestamp\", optional = true }\n*/\n\
        select id, at, local from moment where cast(:ts as timestamptz) is null or at = :ts order by id";
    let db = TestDb::new().await;
    db.execute(
        "create table moment (id int primary key, at timestamptz, local timestamp);
         insert into moment values (1, '2024-06-30 23:59:59Z', '2024-06-30 23:59:59'),
             (2, '2024-06-30 23:59:60Z', '2024-06-30 23:59:60')",
    )
    .await;
    let server = serve(&db.url(), &[("moments", LIST)]).await;
    for (query, expected) in [
        ("ts=2024-06-30T23:59:60Z", "[2]"),
        ("ts=2024-07-01T01:59:60%2B02:00", "[2]"),
        ("at=eq.2024-06-30T23:59:60Z", "[2]"),
        ("at=lt.2024-06-30T23:59:60Z", "[1]"),
        ("local=eq.2024-06-30T23:59:60", "[2]"),
        ("local=in.(2024-06-30T23:59:60,2024-06-30T23:59:59)", "[1,2]"),
    ] {
        let reply = get(&server.url(&format!("/moments?{query}"))).await;
        assert_eq!(reply.status.as_u16(), 200, "{query}: {}", reply.text());
        let rows = reply.json();
        let ids: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["id"].to_string()).collect();
        assert_eq!(format!("[{}]", ids.join(",")), expected, "{query}");
    }
    // PostgreSQL refuses a time after the end of its day. A parameter was bound as one of the next day.
    for query in
        ["ts=2024-06-30T23:59:60.5Z", "at=eq.2024-06-30T23:59:60.5Z", "local=eq.2024-06-30T23:59:60.5"]
    {
        let reply = get(&server.url(&format!("/moments?{query}"))).await;
        assert_eq!(reply.status.as_u16(), 400, "{query}: {}", reply.text());
    }
    let body = r#"{"ts": "2024-06-30T23:59:60Z"}"#;
    let request = http::Request::post(server.url("/moments")).header("content-type", "application/json");
    let reply = Client::HTTP1.send(request.body(body.to_owned()).unwrap()).await;
    assert_eq!(reply.json()[0]["id"], 2, "{}", reply.text());
}

/// MariaDB compared a time with the second 60 as NULL: no rows, and no error.
#[tokio::test]
async fn a_time_of_day_has_less_than_sixty_seconds() {
    let db =
        MariaDb::new("create table t (id int primary key, at time); insert into t values (1, '10:00:59');");
    let server = serve(&db.url(), &[("times", "/*\nfilter = true\n*/\nselect id, at from t")]).await;
    for (time, status) in
        [("10:00:59", 200), ("-838:00:00", 200), ("10:00:60", 400), ("10:60", 400), ("10:00:99.5", 400)]
    {
        let reply = get(&server.url(&format!("/times?at=eq.{time}"))).await;
        assert_eq!(reply.status.as_u16(), status, "{time}: {}", reply.text());
    }
}

/// MariaDB read the text `PT5M` as the time 0, so each row was later.
#[tokio::test]
async fn a_duration_is_compared_with_times_of_mariadb() {
    let db = MariaDb::new(
        "create table t (id int primary key, at time(6)); insert into t values (1, '0:04:59'), (2, '0:05:00.5'), (3, '30:00:00')",
    );
    let one = "/*\n[params]\nd = \"duration\"\n*/\nselect id from t where at > :d order by id";
    let list = "/*\n[params]\nd = \"duration[]\"\n*/\nselect id from t where at in \
        (select d from json_table(:d, '$[*]' columns (d time(6) path '$')) as ds) order by id";
    let server = serve(&db.url(), &[("one", one), ("list", list)]).await;
    for (path, expected) in [
        ("one?d=PT5M", json!([{"id": 2}, {"id": 3}])),
        ("one?d=300s500ms", json!([{"id": 3}])),
        ("one?d=P1DT6H", json!([])),
        ("list?d=PT4M59S&d=P1DT6H", json!([{"id": 1}, {"id": 3}])),
    ] {
        let reply = get(&server.url(&format!("/{path}"))).await;
        assert_eq!(reply.json(), expected, "{path}");
    }
    for path in ["one?d=P1M", "one?d=PT839H", "list?d=P1Y"] {
        let reply = get(&server.url(&format!("/{path}"))).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (400, &json!("invalid_data")), "{path}");
    }
}
