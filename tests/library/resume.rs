//! Cursors: streams that are resumed after any of their rows, pages that are followed to the end,
//! and refused cursors.

use std::path::Path;
use std::time::Duration;

use crate::support::{Client, Cut, Ended, Launch, MariaDb, Reply, Server, Streaming, TcpProxy, TestDb, get};
use http::{Request, StatusCode};
use rowstream::config::Config;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A server of one source with these endpoints.
async fn server(url: &str, endpoints: &[(&str, &str)]) -> Server {
    launch(url, endpoints).start().await
}

fn launch(url: &str, endpoints: &[(&str, &str)]) -> Launch {
    let files = files(url, endpoints);
    Launch::files(&files.iter().map(|(name, text)| (&name[..], &text[..])).collect::<Vec<_>>())
}

fn files(url: &str, endpoints: &[(&str, &str)]) -> Vec<(String, String)> {
    let config = format!("[source.db]\nurl = \"{url}\"\n");
    let endpoint = |(name, sql): &(&str, &str)| (format!("endpoints/{name}.sql"), (*sql).to_owned());
    [("rowstream.toml".to_owned(), config)].into_iter().chain(endpoints.iter().map(endpoint)).collect()
}

/// A SQLite file in a new folder, filled by `sql`, and its URL.
fn sqlite(sql: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap();
    (folder, format!("sqlite:{}", file.display()))
}

/// A server-sent event: its id and its data.
type Event = (Option<String>, Value);

/// The complete events. Bytes after the last empty line don't count, as in a browser.
fn events(body: &[u8]) -> Vec<Event> {
    let text = std::str::from_utf8(body).expect("events are UTF-8");
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
    let field =
        |event: &str, name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let event = |event: &str| {
        let data = field(event, "data: ")?;
        Some((field(event, "id: "), serde_json::from_str(&data).unwrap()))
    };
    whole.split("\n\n").filter_map(event).collect()
}

/// All events of a complete response.
async fn all_events(url: &str) -> Vec<Event> {
    let reply = get(url).await;
    if reply.status == StatusCode::NO_CONTENT {
        return Vec::new();
    }
    assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{:?}", reply.body);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    events(&reply.body)
}

/// Checks that a stream can be resumed after each of its rows: the response contains exactly the
/// remaining rows.
async fn assert_resumable(server: &Server, path: &str, rows: usize) {
    let whole = all_events(&server.url(&format!("{path}.sse"))).await;
    assert_eq!(whole.len(), rows, "{path}");
    for (at, (id, _)) in whole.iter().enumerate() {
        let id = id.as_ref().expect("each event has its cursor");
        let rest = all_events(&server.url(&format!("{path}.sse?_after={id}"))).await;
        assert!(rest == whole[at + 1..], "{path} after row {at}: {rest:?}");
    }
    let id = whole[rows / 2].0.as_ref().unwrap();
    let rest: Vec<_> = whole[rows / 2 + 1..].iter().map(|(_, row)| row.clone()).collect();
    let lines = get(&server.url(&format!("{path}.ndjson?_after={id}"))).await;
    let lines: Vec<Value> = lines.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, rest, "{path}");
    assert_eq!(
        get(&server.url(&format!("{path}.json?_after={id}"))).await.json(),
        Value::Array(rest),
        "{path}"
    );
    let csv = get(&server.url(&format!("{path}.csv?_after={id}"))).await;
    assert_eq!(csv.text().lines().count(), rows - rows / 2, "{path}: {}", csv.text());
}

/// Keys with many types, directions and equal values.
const KEYS: [(&str, &str, &str); 9] = [
    ("int", r#"["id"]"#, "id"),
    ("down", r#"["id desc"]"#, "id desc"),
    ("equal", r#"["part", "id"]"#, "part, id"),
    ("equal_down", r#"["part desc", "id desc"]"#, "part desc, id desc"),
    ("mixed", r#"["part", "at desc", "id"]"#, "part, at desc, id"),
    ("text", r#"["name", "id"]"#, "name, id"),
    ("exact", r#"["amount", "id desc"]"#, "amount, id desc"),
    ("float", r#"["f", "id"]"#, "f, id"),
    ("time", r#"["at", "id"]"#, "at, id"),
];

fn keyed(order: &[(&str, &str, &str)]) -> Vec<(String, String)> {
    let file = |(name, key, order): &(&str, &str, &str)| {
        ((*name).to_owned(), format!("/* key = {key} */ select * from t order by {order} -- and no more"))
    };
    order.iter().map(file).collect()
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files.iter().map(|(name, text)| (&name[..], &text[..])).collect()
}

#[tokio::test]
async fn every_row_of_postgres_can_be_resumed_from() {
    let db = TestDb::new().await;
    db.execute(
        r#"create type mood as enum ('sad', 'ok', 'happy');
           create table t as select i as id, i % 3 as part, chr(97 + i % 7) || repeat('é', i % 2) || '"' as name,
             (i % 5)::numeric / 7 as amount, 'infinity'::float8 as "F", (i % 4)::float8 / 3 as f,
             timestamptz '0044-03-15 BC' + (i % 6) * interval '1.000001 second' as at,
             md5(i::text)::uuid as u, (array['sad', 'ok', 'happy'])[1 + i % 3]::mood as m, date '2024-01-01' + i % 2 as d,
             decode(md5(i::text), 'hex') as b, array[i % 3, i] as a
           from generate_series(1, 41) as i"#,
    )
    .await;
    let mut order = KEYS.to_vec();
    order.extend([
        ("uuid", r#"["u"]"#, "u"),
        ("enum", r#"["m desc", "id"]"#, "m desc, id"),
        ("date", r#"["d", "u desc"]"#, "d, u desc"),
        ("bytes", r#"["b"]"#, "b"),
        ("array", r#"["a"]"#, "a"),
        ("quoted", r#"["F", "id"]"#, "\"F\", id"),
    ]);
    let files = keyed(&order);
    let server = server(&db.url(), &borrowed(&files)).await;
    for (name, ..) in order {
        assert_resumable(&server, &format!("/{name}"), 41).await;
    }
}

/// Rows with a column `k` of each type that PostgreSQL sorts, in this order.
const TYPES: [(&str, &str); 26] = [
    ("bool", "(values (false), (true))"),
    ("int8", "(values (1::int8), (9007199254740993))"),
    ("oid", "(values (1::oid), (4000000000))"),
    ("float8", "(values ('-Infinity'::float8), (0.1), ('Infinity'), ('NaN'))"),
    ("float4", "(values ('-Infinity'::float4), (0.1), ('NaN'))"),
    ("numeric", "(values (0.1::numeric), (12345678901234567890.5), ('NaN'))"),
    ("money", "(values (1.5::numeric::money), (1234567::numeric::money))"),
    ("text", "(values (''), ('a'), (E'b\"\\\\'))"),
    ("bpchar", "(values ('a'::char(5)), ('b'))"),
    ("name", "(values ('a'::name), ('b'))"),
    ("bytea", "(values (''::bytea), ('\\x00'), ('\\xff'))"),
    ("interval", "(values (interval '-1 s'), ('1 day'), ('1 month 2 days 3.5 s'))"),
    ("date", "(values ('-infinity'::date), ('2024-01-01'), ('infinity'))"),
    ("time", "(values (time '00:00'), ('24:00'))"),
    ("timetz", "(values (timetz '00:00+02'), ('24:00-03'))"),
    ("timestamp", "(values ('-infinity'::timestamp), ('2024-01-01 00:00:00.000001'), ('infinity'))"),
    ("ints", "(values ('{}'::int[]), ('{1,2}'), ('{1,3}'))"),
    ("texts", "(values (array['a,b', 'c\"']), (array['x', null]))"),
    ("jsonb", "(values ('[]'::jsonb), ('\"a\"'), ('1'), ('{\"a\": 1}'))"),
    ("inet", "(values (inet '10.0.0.0/8'), ('10.0.0.1'))"),
    ("varbit", "(values (varbit '101'), ('11'))"),
    ("range", "(values (int4range 'empty'), ('[1,3)'), ('[2,5)'))"),
    ("tsvector", "(values ('a'::tsvector), ('b c'))"),
    ("pg_lsn", "(values ('0/1'::pg_lsn), ('1/0'))"),
    ("pairs", "(values (array[row(1, 'a')::pair]), (array[row(2, 'b')::pair]))"),
    ("enum", "(values ('sad'::mood), ('ok'))"),
];

/// Types that can't be resumed by, with the error.
const REFUSED: [(&str, &str, &str); 8] = [
    ("named", "(values (row(1, 'a')::pair))", "`key` names `k`, whose values are composites"),
    ("domain", "(values (row(1, 'a')::couple))", "`key` names `k`, whose values are composites"),
    ("record", "(values (row(1, 'a')))", "`key` names `k`, whose values are composites"),
    ("records", "(values (array[row(1, 'a')]))", "`key` names `k`, whose values are composites"),
    ("json", "(values ('1'::json))", "could not identify an ordering operator for type json"),
    ("xml", "(values ('<a/>'::xml))", "could not identify an ordering operator for type xml"),
    ("point", "(values (point '(1,2)'))", "could not identify an ordering operator for type point"),
    ("hstore", "(values ('a=>1'::hstore))", "operator does not exist: hstore > unknown"),
];

fn by_type(sql: &str) -> String {
    format!("/* key = [\"k\"] */ select k from {sql} as v(k) order by k")
}

/// A key with composites passed `check` and returned cursors, but each cursor caused a 500.
#[tokio::test]
async fn a_key_of_any_type_is_resumed_by_or_refused() {
    let db = TestDb::new().await;
    db.execute(
        "create extension hstore; create type pair as (a int, b text); create domain couple as pair;
         create type mood as enum ('sad', 'ok')",
    )
    .await;
    let well: Vec<_> = TYPES.iter().map(|(name, sql)| ((*name).to_owned(), by_type(sql))).collect();
    let running = server(&db.url(), &borrowed(&well)).await;
    for (name, sql) in TYPES {
        assert_resumable(&running, &format!("/{name}"), sql.matches("), (").count() + 1).await;
    }
    let refused: Vec<_> = REFUSED.iter().map(|(name, sql, _)| ((*name).to_owned(), by_type(sql))).collect();
    let told = checked(&db.url(), &[borrowed(&well), borrowed(&refused)].concat()).await;
    for (name, _, message) in REFUSED {
        let line = told.lines().find(|line| line.contains(&format!("{name}.sql:1:")));
        assert!(line.is_some_and(|line| line.contains(message)), "{name}: {told}");
    }
    assert_eq!(told.matches(".sql:1:").count(), REFUSED.len(), "{told}");
    let (_folder, url) = sqlite("create table t (b blob)");
    let told = checked(&url, &[("blob", "/* key = [\"b\"] */ select b from t order by b")]).await;
    assert!(told.contains("1:10: statement `rows`: `key` names `b`, whose values are bytes"), "{told}");
}

/// The errors of `check`.
async fn checked(url: &str, endpoints: &[(&str, &str)]) -> String {
    let folder = write(&files(url, endpoints));
    let config = folder.path().join("rowstream.toml");
    let checked = crate::support::rowstream(&["check", config.to_str().unwrap()]).await;
    String::from_utf8(checked.stderr).unwrap()
}

#[tokio::test]
async fn every_row_of_sqlite_can_be_resumed_from() {
    let (_folder, url) = sqlite(
        r#"create table t (id integer primary key, part integer, name text, amount decimal(10, 2), f real, at timestamp, d date, ok boolean);
           with recursive n(i) as (select 1 union all select i + 1 from n where i < 41)
           insert into t select i, i % 3, char(97 + i % 7, 233, 34), (i % 5) / 7.0, (i % 4) / 3.0,
             datetime('2024-01-01', (i % 6) || ' seconds'), date('2024-01-01', (i % 2) || ' days'), i % 2 from n"#,
    );
    let mut order = KEYS.to_vec();
    order.extend([
        ("date", r#"["d desc", "id"]"#, "d desc, id"),
        ("boolean", r#"["ok", "id desc"]"#, "ok, id desc"),
    ]);
    let files = keyed(&order);
    let server = server(&url, &borrowed(&files)).await;
    for (name, ..) in order {
        assert_resumable(&server, &format!("/{name}"), 41).await;
    }
}

/// The endpoint of the example, with a different table size.
const EVENTS: &str = r#"/*
body = { events = "$rows", next = "$next", count = "$count" }
key  = ["eventNo"]
[params]
lastEventNo = { type = "integer", default = 0 }
maxEvents   = { type = "integer", optional = true, min = 1 }
*/
select event_no as "eventNo", 'x' || event_no as status from payment_event
where event_no > :lastEventNo order by event_no
limit :maxEvents"#;

#[tokio::test]
async fn pages_are_followed_by_their_links() {
    let db = TestDb::new().await;
    db.execute("create table payment_event as select i * 2 as event_no from generate_series(1, 95) as i")
        .await;
    let (_folder, url) = sqlite(
        "create table payment_event (event_no integer);
         with recursive n(i) as (select 2 union all select i + 2 from n where i < 190) insert into payment_event select i from n",
    );
    for url in [db.url(), url] {
        let server = server(&url, &[("events", EVENTS)]).await;
        let all = get(&server.url("/events?lastEventNo=10")).await.json();
        assert_eq!(all["count"], 90);
        let (mut rows, mut sizes) = (Vec::new(), Vec::new());
        let mut path = Some("/events?lastEventNo=10&maxEvents=20".to_owned());
        while let Some(asked) = path {
            let reply = get(&server.url(&asked)).await;
            let page = reply.json();
            let events = page["events"].as_array().unwrap();
            sizes.push(events.len());
            rows.extend(events.iter().cloned());
            path = reply.header("link").map(|link| {
                let target =
                    link.strip_suffix(">; rel=\"next\"").and_then(|link| link.strip_prefix('<')).unwrap();
                assert!(target.contains("lastEventNo=10&maxEvents=20&_after="), "{target}");
                assert!(target.ends_with(page["next"].as_str().unwrap()), "{target}");
                format!("/events{target}")
            });
        }
        assert_eq!((sizes, &rows), (vec![20, 20, 20, 20, 10], all["events"].as_array().unwrap()));

        // The size of a page can change from page to page. If a page has no rows, the cursor stays
        // the same.
        let first = get(&server.url("/events?lastEventNo=10&maxEvents=7")).await.json();
        let next = first["next"].as_str().unwrap();
        let rest = get(&server.url(&format!("/events?lastEventNo=10&_after={next}"))).await;
        assert_eq!((&rest.json()["count"], rest.header("link")), (&json!(83), None));
        let end = rest.json()["next"].as_str().unwrap().to_owned();
        let none = get(&server.url(&format!("/events?lastEventNo=10&_after={end}"))).await.json();
        assert_eq!(none, json!({"events": [], "next": end, "count": 0}));
        assert_eq!(get(&server.url("/events?lastEventNo=999")).await.json()["next"], Value::Null);

        // More rows were inserted in the meantime.
        let more = "insert into payment_event values (1000)";
        match url.strip_prefix("sqlite:") {
            Some(file) => rusqlite::Connection::open(file).unwrap().execute_batch(more).unwrap(),
            None => db.execute(more).await,
        }
        let more = get(&server.url(&format!("/events?lastEventNo=10&_after={end}"))).await.json();
        assert_eq!(more["events"], json!([{"eventNo": 1000, "status": "x1000"}]));
        let again = get(&server.url(&format!("/events?lastEventNo=10&%5Fafter={next}&maxEvents=1"))).await;
        assert_eq!(
            again.header("link").unwrap().matches("after=").count(),
            1,
            "the cursor that was given is gone"
        );
        for format in ["ndjson", "csv"] {
            let link = get(&server.url(&format!("/events.{format}?maxEvents=3"))).await;
            let link = link.header("link").unwrap().to_owned();
            assert!(link.starts_with("<?maxEvents=3&_after="), "{link}");
        }
    }
}

#[track_caller]
fn assert_refused(reply: &Reply, code: &str, words: &str) {
    let problem = reply.json();
    assert_eq!((reply.status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!(code)), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
}

#[tokio::test]
async fn a_cursor_is_for_what_it_was_given_out() {
    let (_folder, url) = sqlite("create table t (id integer); insert into t values (1), (2), (3)");
    let select =
        "/* key = [\"id\"]\n[params]\nleast = \"integer\" */ select id from t where id >= :least order by id";
    let endpoints = [
        ("a", select),
        ("b", select),
        ("none", "select id from t"),
        ("down", &select.replace("\"id\"]", "\"id desc\"]")),
    ];
    let server = server(&url, &endpoints).await;
    let cursor = all_events(&server.url("/a.sse?least=1")).await[0].0.clone().unwrap();
    let asked = async |path: &str| get(&server.url(&path.replace("CURSOR", &cursor))).await;
    assert_eq!(asked("/a?least=1&_after=CURSOR").await.json(), json!([{"id": 2}, {"id": 3}]));
    for path in [
        "/a?least=2&_after=CURSOR",
        "/b?least=1&_after=CURSOR",
        "/down?least=1&_after=CURSOR",
        "/a?least=1&_after=",
        "/a?least=1&_after=CURSORx",
        "/a?least=1&_after=x",
    ] {
        assert_refused(&asked(path).await, "invalid_cursor", "for another endpoint");
    }
    assert_refused(
        &asked("/none?_after=CURSOR").await,
        "invalid_parameter",
        "`_after`: this endpoint has no `key`",
    );
    let twice = asked("/a?least=1&_after=CURSOR&_after=CURSOR").await;
    assert_refused(&twice, "invalid_parameter", "more than once");
}

/// Replicas share a secret or the same files.
#[tokio::test]
async fn a_cursor_holds_for_any_replica() {
    let (_folder, url) = sqlite("create table t (id integer); insert into t values (1), (2)");
    let endpoint = ("endpoints/a.sql", "/* key = [\"id\"] */ select id from t order by id");
    let replica = async |secret: &str| {
        let config = format!("{secret}\n[source.db]\nurl = \"{url}\"");
        Server::start(&[("rowstream.toml", &config), endpoint]).await
    };
    let (one, other) = (replica("").await, replica("").await);
    let (secret, same) = (replica("cursor_secret = 's'").await, replica("cursor_secret = 's'").await);
    for (from, to, status) in
        [(&one, &other, 200), (&secret, &same, 200), (&one, &secret, 400), (&secret, &one, 400)]
    {
        let cursor = all_events(&from.url("/a.sse")).await[0].0.clone().unwrap();
        assert_eq!(get(&to.url(&format!("/a?_after={cursor}"))).await.status, status);
    }
}

#[tokio::test]
async fn an_event_source_goes_on_and_is_told_when_there_is_no_more() {
    let (_folder, url) = sqlite("create table t (id integer); insert into t values (1), (2), (3)");
    let server = server(
        &url,
        &[
            ("a", "/* key = [\"id\"] */ select id from t order by id"),
            ("none", "select id from t"),
            ("empty", "/* key = [\"id\"] */ select id from t where id > 9 order by id"),
        ],
    )
    .await;
    let all = all_events(&server.url("/a.sse")).await;
    let again = async |path: &str, last: &str| {
        let request =
            Request::get(server.url(path)).header("last-event-id", last).body(String::new()).unwrap();
        Client::HTTP1.send(request).await
    };
    let [first, _, last] = [0, 1, 2].map(|at: usize| all[at].0.clone().unwrap());
    assert_eq!(events(&again("/a.sse", &first).await.body), all[1..]);
    // A browser repeats its URL.
    assert_eq!(
        events(&again(&format!("/a.sse?_after={first}"), &all[1].0.clone().unwrap()).await.body),
        all[2..]
    );
    let ended = again("/a.sse", &last).await;
    assert_eq!((ended.status, ended.ended, ended.body.len()), (StatusCode::NO_CONTENT, Ended::Complete, 0));
    assert_refused(&again("/a.sse", "7").await, "invalid_cursor", "for another endpoint");
    // Other formats aren't read by event sources.
    assert_eq!(again("/a.ndjson", &last).await.text().lines().count(), 3);
    // The result was empty from the start. A browser would repeat the request forever.
    assert_eq!(get(&server.url("/empty.sse")).await.status, StatusCode::NO_CONTENT);
    assert_eq!(get(&server.url("/empty.sse?_end=1")).await.text().matches("event: rowstream").count(), 2);
    // This endpoint has no ids, so the header is meant for another one.
    assert_eq!(events(&again("/none.sse", "7").await.body).len(), 3);
    assert_eq!(again("/a.sse", "").await.status, StatusCode::OK);
}

/// Lists whose limits are written in every way that a database takes.
const LIMITS: [(&str, &str); 5] = [
    ("fixed", "limit 7 -- at most"),
    ("given", "limit :n"),
    ("optional", "limit coalesce(:n, 100)"),
    ("capped", "limit LEAST(:n, 1000)"),
    ("elsewhere", "limit :n + 0"),
];

/// SQLite reads a negative limit as none: if a release reduces a limit, nothing may be left of it.
#[tokio::test]
async fn a_limit_that_was_reduced_leaves_no_rows() {
    let (_folder, url) = sqlite(
        "create table t (id integer primary key); insert into t values (1), (2), (3), (4), (5), (6), (7), (8), (9)",
    );
    let file = |most: &str| {
        format!("/* key = [\"id\"]\n[params]\nn = \"integer\" */ select id from t order by id limit {most}")
    };
    let cursor = {
        let server = server(&url, &[("a", &file("min(:n, 8)"))]).await;
        all_events(&server.url("/a.sse?n=8")).await[5].0.clone().unwrap()
    };
    for (most, rows) in [("min(:n, 8)", 2), ("min(:n, 3)", 0), ("-1 * :n", 3)] {
        let server = server(&url, &[("a", &file(most))]).await;
        let rest = get(&server.url(&format!("/a?n=8&_after={cursor}"))).await.json();
        assert_eq!(rest.as_array().unwrap().len(), rows, "{most}: {rest}");
    }
}

fn limited(least: &str) -> Vec<(String, String)> {
    let file = |(name, limit): (&str, &str)| {
        let params = if name == "fixed" { "" } else { "[params]\nn = \"integer\"" };
        let text = format!("/* key = [\"id\"]\n{params} */ select id from t order by id {limit}");
        (name.to_owned(), text.replace("LEAST", least))
    };
    LIMITS.into_iter().map(file).collect()
}

/// A list of 100,000 rows that was cut three times once had 136,000: its limit began again at each
/// cursor.
#[tokio::test]
async fn a_limit_counts_from_the_start_of_its_list() {
    let rows = "insert into t select i from generate_series(1, 30) as i";
    let db = TestDb::new().await;
    db.execute("create table t (id integer primary key)").await;
    db.execute(rows).await;
    let (_folder, url) = sqlite(
        "create table t (id integer primary key);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 30) insert into t select i from n",
    );
    let maria =
        MariaDb::new("create table t (id integer primary key); insert into t select seq from seq_1_to_30");
    // MariaDB's limits are numbers and parameters.
    for (url, least, limits) in [(db.url(), "least", 5), (url, "min", 5), (maria.url(), "", 2)] {
        let server = server(&url, &borrowed(&limited(least)[..limits])).await;
        for (name, _) in &LIMITS[..limits] {
            let query = if *name == "fixed" { "" } else { "n=7&" };
            let whole = all_events(&server.url(&format!("/{name}.sse?{query}"))).await;
            assert_eq!(whole.len(), 7, "{name}");
            for (at, (id, _)) in whole.iter().enumerate() {
                let after = format!("{query}_after={}", id.as_ref().unwrap());
                let rest = all_events(&server.url(&format!("/{name}.sse?{after}"))).await;
                assert!(rest == whole[at + 1..], "{name} after row {at} of {url}: {rest:?}");
                let lines = get(&server.url(&format!("/{name}.ndjson?{after}"))).await;
                assert_eq!(lines.text().lines().count(), 6 - at, "{name} after row {at} of {url}");
            }
        }
    }
}

/// The end of a resumed page leads to the next page, which has its whole limit.
#[tokio::test]
async fn a_page_that_was_resumed_ends_like_any_other() {
    let (_folder, url) = sqlite(
        "create table t (id integer primary key);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 4500) insert into t select i from n",
    );
    let file = "/* key = [\"id\"]\n[params]\nn = \"integer\" */ select id from t order by id limit :n";
    let server = server(&url, &[("a", file)]).await;
    let read = async |query: &str| {
        let reply = get(&server.url(&format!("/a.ndjson?_end=1&{query}"))).await;
        let lines: Vec<Value> =
            reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let member = |name: &str| lines.iter().filter_map(|line| line.get(name)).cloned().collect::<Vec<_>>();
        (member("id"), member("mark"), member("end"))
    };
    let (ids, marks, ends) = read("n=2500").await;
    assert_eq!((ids.len(), marks.len(), &ends[0]["page"]), (2500, 2, &json!("full")));
    for mark in &marks {
        let (rest, _, ended) = read(&format!("n=2500&_after={}", mark["next"].as_str().unwrap())).await;
        let before = usize::try_from(mark["rows"].as_u64().unwrap()).unwrap();
        assert_eq!(rest, ids[before..], "{mark}");
        assert_eq!((&ended[0]["page"], &ended[0]["next"]), (&json!("full"), &ends[0]["next"]));
    }
    let (next, _, ended) = read(&format!("n=2500&_after={}", ends[0]["next"].as_str().unwrap())).await;
    assert_eq!((next.len(), &ended[0]["page"]), (2000, &json!("last")));
    // A limit may change. Within a page it counts from the page's first row.
    let (next, ..) = read(&format!("n=3&_after={}", ends[0]["next"].as_str().unwrap())).await;
    assert_eq!(next, [2501, 2502, 2503]);
    for (most, left) in [(1003, 3), (3, 0)] {
        let (rest, ..) = read(&format!("n={most}&_after={}", marks[0]["next"].as_str().unwrap())).await;
        assert_eq!(rest.len(), left, "{most}");
    }
}

/// Each deploy once ended all followers: a blank in the SQL made every cursor invalid.
#[tokio::test]
async fn a_cursor_survives_a_deploy() {
    let (_folder, url) = sqlite(
        "create table t (id integer, name text); insert into t values (1, 'a'), (2, 'b'), (3, 'c');
         create table u (id integer, x text); insert into u values (2, 'x')",
    );
    let file = |head: &str, sql: &str| format!("/* key = [\"id\"]{head} */ {sql}");
    let plain = file("", "select id from t order by id");
    let cursor_of = async |text: &str| {
        let server = server(&url, &[("a", text)]).await;
        all_events(&server.url("/a.sse")).await[0].0.clone().unwrap()
    };
    let cursor = cursor_of(&plain).await;
    let read = async |text: &str| {
        let server = server(&url, &[("a", text)]).await;
        get(&server.url(&format!("/a?_after={cursor}"))).await
    };
    for kept in [
        file("", "select id  from t -- a comment\norder by id"),
        file("", "select id, name from t order by id"),
        file("", "select t.id, x from t left join u on u.id = t.id order by t.id"),
        file("\ncursor_version = 1", "select id from t order by id"),
        file(
            "\n[params]\nleast = { type = \"integer\", optional = true }",
            "select id from t where :least is null or id > :least order by id",
        ),
    ] {
        let reply = read(&kept).await;
        let ids: Vec<_> = reply.json().as_array().unwrap().iter().map(|row| row["id"].clone()).collect();
        assert_eq!(ids, [2, 3], "{kept}");
    }
    let typed = "select cast(id as text) as id from (select 1 as id) where id > 0";
    for (broken, words) in [
        (file("\ncursor_version = 2", "select id from t order by id"), "another endpoint"),
        (plain.replace("\"id\"", "\"id desc\""), "another endpoint"),
        ("/* key = [\"name\"] */ select id, name from t order by name".to_owned(), "another endpoint"),
        (file("", typed), "other types"),
    ] {
        assert_refused(&read(&broken).await, "invalid_cursor", words);
    }
}

/// An `EventSource` connects again whenever its stream ends. Without ids, it read the rows again
/// every three seconds.
#[tokio::test]
async fn an_event_source_stops_at_the_end() {
    let (_folder, url) = sqlite("create table t (id integer); insert into t values (1), (2), (3)");
    let server = server(
        &url,
        &[
            ("keyed", "/* key = [\"id\"] */ select id from t order by id"),
            ("page", "/* key = [\"id\"] */ select id from t order by id limit 2"),
            ("plain", "select id from t"),
            ("one", "/* result = \"one\"\nformats = [\"json\", \"sse\"] */ select id from t limit 1"),
            ("empty", "select id from t where id > 9"),
        ],
    )
    .await;
    for (path, rows) in [("keyed", 3), ("page", 2), ("plain", 3), ("one", 1), ("empty", 0)] {
        for end in ["", "?_end=1"] {
            let url = server.url(&format!("/{path}.sse{end}"));
            let first = get(&url).await;
            assert_eq!((first.status, data_events(&first.body)), (StatusCode::OK, rows), "{path}{end}");
            let last = last_event_id(&first.body).expect("the stream has an id");
            let request = Request::get(&url).header("last-event-id", &last).body(String::new()).unwrap();
            let again = Client::HTTP1.send(request).await;
            assert_eq!((again.status, again.body.len()), (StatusCode::NO_CONTENT, 0), "{path}{end}: {last}");
        }
    }
    // A list without cursors can't be resumed, so it isn't read again after a cut either.
    let plain = get(&server.url("/plain.sse")).await;
    assert!(plain.text().starts_with("id: none\n\ndata: "), "{}", plain.text());
}

/// The events that reach a listener: those with data, without the server's own.
fn data_events(body: &[u8]) -> usize {
    let text = std::str::from_utf8(body).unwrap();
    let is_row = |event: &&str| event.contains("data: ") && !event.contains("event: rowstream");
    text.split("\n\n").filter(is_row).count()
}

/// The id that a browser sends when it connects again. It's also set by events without data.
fn last_event_id(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().map(str::to_owned)
}

#[tokio::test]
async fn rows_without_a_key_are_refused() {
    let db = TestDb::new().await;
    db.execute("create table t as select nullif(i, 3) as id, i as n from generate_series(1, 5) as i").await;
    let server = server(&db.url(), &[("a", "/* key = [\"id\"] */ select id, n from t order by id")]).await;
    // A plain list needs no cursors.
    assert_eq!(get(&server.url("/a")).await.json().as_array().unwrap().len(), 5);
    let reply = get(&server.url("/a.sse")).await;
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(reply.json()["detail"].as_str().unwrap().contains("NULL in `id`"), "{}", reply.text());
}

/// A row with a NULL in its key isn't after any other row. A resumed stream would end normally
/// without it.
#[tokio::test]
async fn rows_without_a_key_do_not_get_lost_behind_a_cursor() {
    let rows = "create table t (id integer, n integer, page integer); insert into t values (1, 1, 1), (2, 2, 2), (3, null, 3), (null, 4, 4)";
    let db = TestDb::new().await;
    db.execute(rows).await;
    let (_folder, url) = sqlite(rows);
    let limit = "[params]\nn = { type = \"integer\", optional = true }";
    let select = "select id, n, page from t order by id limit coalesce(:n, 9)";
    let (one, two) = (
        format!("/* key = [\"id\"]\n{limit} */ {select}"),
        format!("/* key = [\"page\", \"n\"]\n{limit} */ {select}"),
    );
    for url in [db.url(), url] {
        let server = server(&url, &[("one", &one), ("two", &two)]).await;
        for path in ["/one", "/two"] {
            let page = get(&server.url(&format!("{path}.json?n=1&_wait=end"))).await;
            // SQLite sorts NULLs first, so it reports the error immediately.
            let Some(next) = page.header("link").and_then(|link| link.split_once("_after=")) else {
                assert!(page.text().contains("NULL in `"), "{}", page.text());
                continue;
            };
            let next = next.1.trim_end_matches(">; rel=\"next\"");
            for format in ["json", "sse", "ndjson"] {
                let rest = get(&server.url(&format!("{path}.{format}?_after={next}"))).await;
                assert_eq!(
                    rest.status,
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "{path} {format}: {}",
                    rest.text()
                );
                assert!(rest.text().contains("NULL in its key"), "{}", rest.text());
            }
        }
    }
}

/// If a parameter is only tested for NULL, PostgreSQL can't determine its type. Then the declared
/// types are used.
#[tokio::test]
async fn a_statement_with_optional_filters_is_continued() {
    let db = TestDb::new().await;
    db.execute(
        "create table t as select i::bigint as id, 's' || i % 2 as status from generate_series(1, 20) as i",
    )
    .await;
    let select = "/* key = [\"id\"]\n[params]\nstatus = { type = \"text\", optional = true }\nn = { type = \"integer\", default = 3 } */
                  select id, status from t where (:status is null or status = :status) order by id limit :n";
    let server = server(&db.url(), &[("t", select)]).await;
    for (filter, rows) in [("", 20), ("status=s1&", 10)] {
        let (mut seen, mut path) = (Vec::new(), Some(format!("?{filter}n=3")));
        while let Some(asked) = path {
            let page = get(&server.url(&format!("/t{asked}"))).await;
            assert_eq!(page.status, StatusCode::OK, "{}", page.text());
            seen.extend(page.json().as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()));
            let link = page.header("link").and_then(|link| link.strip_prefix('<')?.split_once('>'));
            path = link.map(|(target, _)| target.to_owned());
        }
        assert_eq!(seen.len(), rows, "{filter}");
        assert!(seen.is_sorted(), "{seen:?}");
    }
    // An empty page has no next page.
    let first = get(&server.url("/t?n=1")).await;
    let next = first.header("link").unwrap().replacen("n=1", "n=0", 1);
    let (target, _) = next.strip_prefix('<').unwrap().split_once('>').unwrap();
    let none = get(&server.url(&format!("/t{target}"))).await;
    assert_eq!((none.json(), none.header("link")), (json!([]), None));
}

#[tokio::test]
async fn keys_that_cannot_be_are_faults() {
    let (_folder, url) = sqlite("create table t (id integer, other integer)");
    for (sql, error) in [
        ("/* key = [] */ select id from t", "1:10: `key` names no column"),
        ("/* key = [\"id\", \"id desc\"] */ select id from t", "1:17: `key` names `id` twice"),
        (
            "/* key = [\"id\"]\nresult = \"one\" */ select id from t",
            "1:10: `key` orders the rows of one list",
        ),
        (
            "/* body = { a = \"$rows\", n = \"$next\" } */ select id from t",
            "`$next` is a cursor, but this endpoint has no `key`",
        ),
        (
            "/* key = [\"id\"]\nbody = { n = \"$next\", a = \"$rows\" } */ select id from t",
            "2:14: `$next` precedes the rows that it continues",
        ),
        (
            "/* key = [\"id\"] */\n-- name: a :many\nselect id from t;\n-- name: b :many nested in a on id = id\nselect id from t limit 9",
            "4:1: `b` limits the rows of all its lists together",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files(&url, &[("a", sql)]) {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let errors = Config::load(&folder.path().join("rowstream.toml")).unwrap_err().to_string();
        assert!(errors.contains(error), "{errors}");
    }
    let missing = files(&url, &[("a", "/* key = [\"nr\"] */ select id from t")]);
    let folder = write(&missing);
    let config = folder.path().join("rowstream.toml");
    let checked = crate::support::rowstream(&["check", config.to_str().unwrap()]).await;
    let told = String::from_utf8(checked.stderr).unwrap();
    assert!(
        told.contains("1:10: statement `rows`: `key` names `nr`, which isn't a column of the result"),
        "{told}"
    );
}

fn write(files: &[(String, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// The database's plan for a resumed statement: an index finds the next row, and nothing is sorted.
#[tokio::test]
async fn the_index_finds_the_row_to_go_on_with() {
    let rest = |url: &str, sql: &str| {
        let folder = write(&files(url, &[("a", sql)]));
        let config = Config::load(&folder.path().join("rowstream.toml")).unwrap();
        config.endpoints[0].key().unwrap().rest.sql.to_string()
    };
    let keys = [
        (r#"["id"]"#, "id"),
        (r#"["id desc"]"#, "id desc"),
        (r#"["part", "id"]"#, "part, id"),
        (r#"["part desc", "id"]"#, "part desc, id"),
    ];
    let sql = |key: &str, order: &str| {
        format!(
            "/* key = {key}\n[params]\nn = \"integer\" */ select id, part, pad as p from t where pad <> '' order by {order} limit :n"
        )
    };
    let tables =
        "create table t (id integer primary key, part integer, pad text); create index up on t (part, id);
                  create index mixed on t (part desc, id);";
    let db = TestDb::new().await;
    db.execute(&format!(
        "{tables} insert into t select i, i / 10, repeat('x', 50) from generate_series(1, 20000) as i; analyze t"
    ))
    .await;
    let client = db.client().await;
    client.batch_execute("set plan_cache_mode = force_generic_plan").await.unwrap();
    for (index, (key, order)) in keys.iter().enumerate() {
        let rest = rest(&db.url(), &sql(key, order));
        let args = if order.contains("part") { "5, '100', '1005'" } else { "5, '100'" };
        client.batch_execute(&format!("prepare p{index} as {rest}")).await.unwrap();
        let plan = client.simple_query(&format!("explain execute p{index}({args})")).await.unwrap();
        let plan: Vec<_> = plan
            .iter()
            .filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            })
            .collect();
        let plan = plan.join("\n");
        // With mixed directions, the planner may expect few remaining rows and prefer to sort them.
        let sorted = plan.contains("Sort") && !key.contains("desc\", ");
        assert!(plan.contains("Index Cond") && !plan.contains("Seq Scan") && !sorted, "{key}\n{plan}");
    }
    let (folder, url) = sqlite(tables);
    let connection = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
    for (key, order) in keys {
        let rest = rest(&url, &sql(key, order));
        let mut explained = connection.prepare(&format!("explain query plan {rest}")).unwrap();
        let (mut rows, mut plan) = (explained.raw_query(), String::new());
        while let Some(row) = rows.next().unwrap() {
            plan += &(row.get::<_, String>(3).unwrap() + "\n");
        }
        assert!(plan.contains("SEARCH t USING") && !plan.contains("TEMP B-TREE"), "{key}\n{plan}");
    }
}

/// The rows of the complete events, one per line, and the id of the last one.
fn rows_and_last_id(body: &[u8]) -> (Vec<u8>, Option<&str>) {
    let text = std::str::from_utf8(body).expect("events are UTF-8");
    let whole = text.rfind("\n\n").map_or("", |end| &text[..=end]);
    let (mut rows, mut last) = (Vec::new(), None);
    for line in whole.lines() {
        if let Some(row) = line.strip_prefix("data: ") {
            rows.extend_from_slice(row.as_bytes());
            rows.push(b'\n');
        }
        last = line.strip_prefix("id: ").or(last);
    }
    (rows, last)
}

/// Cuts a stream some time after its first event. Returns the received bytes and how it ended.
async fn cut_after(proxy: &TcpProxy, mut stream: Streaming, time: Duration, how: Cut) -> (Vec<u8>, Ended) {
    let mut body = Vec::new();
    // Without a complete event, a slow machine would never make progress.
    while rows_and_last_id(&body).1.is_none() {
        match stream.chunk().await {
            Ok(chunk) => body.extend_from_slice(&chunk),
            Err(ended) => return (body, ended),
        }
    }
    let cut = async {
        tokio::time::sleep(time).await;
        proxy.cut_now(how);
    };
    let (rest, ()) = tokio::join!(stream.rest(), cut);
    body.extend_from_slice(&rest.body);
    (body, rest.ended)
}

/// A proxy cuts every connection 50 to 150 ms after its first event. Resuming until the end gives
/// the same rows as a single response.
#[tokio::test]
async fn a_million_rows_through_a_connection_that_is_cut_again_and_again() {
    const ROWS: usize = 1_000_000;
    let db = TestDb::new().await;
    db.execute(&format!(
        "create table payment_event as select i as event_no from generate_series(1, {ROWS}) as i;
         alter table payment_event add primary key (event_no)"
    ))
    .await;
    let server = launch(&db.url(), &[("events", EVENTS)]).release().start().await;
    let whole = get(&server.url("/events.sse")).await;
    let (rows, _) = rows_and_last_id(&whole.body);
    assert_eq!((whole.ended, rows.iter().filter(|&&byte| byte == b'\n').count()), (Ended::Complete, ROWS));
    assert!(rows.ends_with(b"\n{\"eventNo\":1000000,\"status\":\"x1000000\"}\n"));

    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let proxy = TcpProxy::transparent(server.address().parse().unwrap()).await;
    let url = format!("http://{}/events.sse", proxy.address());
    let (mut digest, mut last, mut cuts) = (Sha256::new(), String::new(), 0);
    loop {
        let request = Request::get(&url).header("last-event-id", &last).body(String::new()).unwrap();
        let stream = Client::HTTP1.open(request).await.unwrap();
        if stream.status == StatusCode::NO_CONTENT {
            break;
        }
        assert_eq!(stream.status, StatusCode::OK);
        let how = if random.bool() { Cut::Close } else { Cut::Reset };
        let time = Duration::from_millis(random.u64(50..150));
        let (body, ended) = cut_after(&proxy, stream, time, how).await;
        let (rows, id) = rows_and_last_id(&body);
        digest.update(&rows);
        last = id.unwrap_or_else(|| panic!("nothing came: {ended:?}")).to_owned();
        cuts += usize::from(ended != Ended::Complete);
    }
    println!("{cuts} cuts");
    assert_eq!(digest.finalize(), Sha256::digest(&rows), "seed {seed}");
    assert!(cuts >= 3, "{cuts} cuts, seed {seed}");
}

#[tokio::test]
async fn a_quiet_stream_says_that_it_is_still_there() {
    let db = TestDb::new().await;
    let slow = "/* heartbeat = \"50ms\" */ select i, pg_sleep(case i when 2 then 1 else 0 end)::text as s from generate_series(1, 2) as i";
    let config = format!("[source.db]\nurl = \"{}\"\nfetch_rows = 1", db.url());
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/a.sql", slow)]).await;
    let reply = get(&server.url("/a.sse")).await;
    let text = reply.text();
    let beats = text.matches(":\n\n").count();
    assert!(beats >= 3, "{text:?}");
    assert_eq!(
        text.replace(":\n\n", ""),
        "id: none\n\ndata: {\"i\":1,\"s\":\"\"}\n\ndata: {\"i\":2,\"s\":\"\"}\n\n"
    );
    let lines = get(&server.url("/a.ndjson")).await;
    assert_eq!(lines.text(), "{\"i\":1,\"s\":\"\"}\n{\"i\":2,\"s\":\"\"}\n");
    assert_eq!(lines.header("rowstream-heartbeat"), None);
    // Clients of framed streams know how long a silence may last.
    let framed = get(&server.url("/a.ndjson?_end=1")).await;
    assert_eq!(framed.header("rowstream-heartbeat"), Some("0.05"));
    let beats = framed.text().lines().filter(|line| line.is_empty()).count();
    assert!(beats >= 3, "{}", framed.text());
}

/// A heartbeat between a row and the rows in it was a line break, so the row became two lines.
#[tokio::test]
async fn a_heartbeat_does_not_split_a_row() {
    let db = TestDb::new().await;
    let nested = "/* heartbeat = \"50ms\" */
        -- name: a :many
        select i from generate_series(1, 3) as i order by i;
        -- name: b :many nested in a on i = i
        select i, case i when 2 then pg_sleep(1)::text end as slept from generate_series(1, 3) as i order by i";
    let config = format!("[source.db]\nurl = \"{}\"\nfetch_rows = 1", db.url());
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/a.sql", nested)]).await;
    for format in ["ndjson", "json-seq", "sse"] {
        let reply = get(&server.url(&format!("/a.{format}?_end=1"))).await;
        let rows: Vec<Value> = reply
            .text()
            .lines()
            .filter_map(|line| {
                let line = line.trim_start_matches('\u{1e}');
                let line = if format == "sse" { line.strip_prefix("data: ")? } else { line };
                (!line.is_empty()).then(|| serde_json::from_str(line).expect("a line is a row"))
            })
            .filter(|row: &Value| row["$rowstream"].is_null())
            .collect();
        assert_eq!(rows.iter().map(|row| &row["i"]).collect::<Vec<_>>(), [1, 2, 3], "{}", reply.text());
    }
}

/// A client decides before the first row if it can resume after a cut.
#[tokio::test]
async fn headers_tell_if_a_cut_stream_can_be_resumed() {
    let (_folder, url) = sqlite("create table t (id integer); insert into t values (1), (2)");
    let files =
        [("keyed", "/* key = [\"id\"] */ select id from t order by id"), ("plain", "select id from t")];
    let server = server(&url, &files).await;
    for (path, resume) in [
        ("keyed.ndjson?_end=1", Some("marks")),
        ("keyed.json-seq?_end=1", Some("marks")),
        ("keyed.sse?_end=1", Some("ids")),
        ("plain.ndjson?_end=1", Some("none")),
        ("plain.sse?_end=1", Some("none")),
        ("keyed.sse", Some("ids")),
        // Nothing in it tells rows from records.
        ("keyed.ndjson", None),
    ] {
        let reply = get(&server.url(&format!("/{path}"))).await;
        let version = resume.map(|_| "1");
        assert_eq!(
            (reply.header("rowstream-resume"), reply.header("rowstream-wire")),
            (resume, version),
            "{path}"
        );
        let head = Request::head(server.url(&format!("/{path}"))).body(String::new()).unwrap();
        let head = Client::HTTP1.send(head).await;
        assert_eq!(head.header("rowstream-resume"), resume, "HEAD {path}");
    }
}

#[tokio::test]
async fn events_hold_one_line_of_data() {
    let (_folder, url) = sqlite("create table t (j json, s text)");
    let file = Path::new(url.strip_prefix("sqlite:").unwrap());
    let connection = rusqlite::Connection::open(file).unwrap();
    connection
        .execute("insert into t values (?1, ?2)", ["{\"a\":\r\n[1,\n2]}", "x\n\ndata: y\r\u{2028}"])
        .unwrap();
    let server = server(&url, &[("a", "select j, s from t")]).await;
    let reply = get(&server.url("/a.sse")).await;
    let lines: Vec<_> = reply.text().lines().filter(|line| line.starts_with("data:")).collect();
    assert_eq!((lines.len(), reply.text().lines().count()), (1, 4), "{}", reply.text());
    assert_eq!(events(&reply.body)[0].1, json!({"j": {"a": [1, 2]}, "s": "x\n\ndata: y\r\u{2028}"}));
    assert_eq!(get(&server.url("/a.sse?_numbers=string")).await.status, StatusCode::OK);
}

/// In the framed profile, marks contain the cursor for formats whose rows have no place for it.
#[tokio::test]
async fn marks_lead_on_behind_them() {
    let (_folder, url) = sqlite(
        "create table t (id integer primary key);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 3500) insert into t select i from n",
    );
    let server = server(&url, &[("a", "/* key = [\"id\"] */ select id from t order by id")]).await;
    let framed = get(&server.url("/a.ndjson?_end=1")).await;
    let tag = framed.header("rowstream-tag").unwrap().to_owned();
    let lines: Vec<Value> = framed.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut rows, mut marks, mut end) = (0, Vec::new(), None);
    for line in lines {
        if line["$rowstream"] == *tag {
            match &line["mark"] {
                Value::Null => end = Some(line["end"].clone()),
                mark => marks.push((rows, mark.clone())),
            }
        } else {
            rows += 1;
            assert_eq!(line, json!({"id": rows}));
        }
    }
    assert_eq!((rows, marks.len()), (3500, 3));
    for (before, mark) in &marks {
        assert_eq!(mark["rows"], json!(before));
        let rest = get(&server.url(&format!("/a.csv?_after={}", mark["next"].as_str().unwrap()))).await;
        assert_eq!(rest.text().lines().nth(1), Some(&(before + 1).to_string()[..]));
    }
    let end = end.expect("there is an end");
    assert_eq!(end["rows"], 3500);
    let none = get(&server.url(&format!("/a?_after={}", end["next"].as_str().unwrap()))).await;
    assert_eq!(none.json(), json!([]));
    let events = get(&server.url("/a.sse?_end=1&_wait=end")).await;
    let tag = events.header("rowstream-tag").unwrap();
    let record =
        format!("event: rowstream\ndata: {{\"$rowstream\":\"{tag}\",\"end\":{{\"rows\":3500,\"next\":");
    assert_eq!((events.text().matches("event: ").count(), events.text().contains(&record)), (2, true));
    let trailers = Request::get(server.url("/a.csv")).header("te", "trailers").body(String::new()).unwrap();
    let trailers = Client::HTTP1.send(trailers).await.trailers.expect("they were asked for");
    assert_eq!(trailers["rowstream-next"], *end["next"].as_str().unwrap());
}

/// The last rows before a pause had no mark until the next heartbeat, so a client that waits for
/// marks held them back.
#[tokio::test]
async fn rows_get_a_mark_without_waiting_for_a_heartbeat() {
    let (_folder, url) =
        sqlite("create table t (id integer primary key); insert into t values (1), (2), (3)");
    let tail = "/* key = [\"id\"]\nheartbeat = \"1h\"\nfollow = true */ select id from t order by id";
    let server = server(&url, &[("tail", tail)]).await;
    let request = Request::get(server.url("/tail.ndjson?_follow=1&_end=1")).body(String::new()).unwrap();
    let mut stream = Client::HTTP1.open(request).await.unwrap();
    let mut body = Vec::new();
    let marked = async {
        while !String::from_utf8_lossy(&body).contains("\"mark\":{\"rows\":3,") {
            body.extend_from_slice(&stream.chunk().await.unwrap());
        }
    };
    tokio::time::timeout(Duration::from_secs(60), marked).await.expect("a mark after the last row");
}

/// A list that is read with cuts. Each is continued from the last cursor that arrived.
struct CutReader<'a> {
    server: &'a Server,
    /// The path with its format, and the query that each request repeats.
    path: &'a str,
    query: &'a str,
    ids: Vec<u64>,
    after: Option<String>,
    cuts: usize,
}

impl CutReader<'_> {
    /// Reads the rows of one connection, which is cut after `bytes`. True at the end of the list.
    async fn read(&mut self, bytes: usize) -> bool {
        let after = self.after.as_ref().map(|after| format!("&_after={after}")).unwrap_or_default();
        let url = self.server.url(&format!("/{}?_end=1&{}{after}", self.path, self.query));
        let mut stream = Client::HTTP1.open(Request::get(url).body(String::new()).unwrap()).await.unwrap();
        assert_eq!(stream.status, StatusCode::OK);
        let tag = stream.headers["rowstream-tag"].to_str().unwrap().to_owned();
        let mut body = stream.at_least(bytes).await.to_vec();
        body.truncate(bytes);
        let whole = body.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut pending = Vec::new();
        for line in body[..whole].split(|&byte| byte == b'\n') {
            let line = line.strip_prefix(b"\x1e").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let record: Value = serde_json::from_slice(line).unwrap();
            if record["$rowstream"] != *tag {
                pending.push(record["id"].as_u64().unwrap());
            } else if let Some(next) = record["mark"]["next"].as_str() {
                self.after = Some(next.to_owned());
                self.ids.append(&mut pending);
            } else if record["end"].is_object() {
                self.ids.append(&mut pending);
                return true;
            }
        }
        self.cuts += 1;
        false
    }
}

/// Lists, pages and live tails that are cut after any byte, and continued from their marks: no row
/// is lost or doubled, and each limit is kept.
#[tokio::test]
async fn lists_are_continued_after_any_cut() {
    const ROWS: u64 = 3000;
    let list = "/* key = [\"id\"] */ select id from t order by id";
    let page = "/* key = [\"id\"]\n[params]\nn = \"integer\" */ select id from t order by id limit :n";
    let tail = "/* key = [\"id\"]\nheartbeat = \"100ms\"\nfollow = { commits = \"ordered\" } */ select id from t order by id limit 700";
    // The last rows have a NULL in the column that orders them.
    let asked = "/* key = [\"id\"]\nfilter = true\nsort = true\nselect = true */ \
        select id, case when id <= 2000 then id end as b, 'x' as c from t order by id";
    let files = [("list", list), ("page", page), ("tail", tail), ("asked", asked)];
    let fill = |rows: &str| format!("create table t (id integer primary key); insert into t {rows}");
    let db = TestDb::new().await;
    db.execute(&fill(&format!("select i from generate_series(1, {ROWS}) as i"))).await;
    let recursive = format!(
        "with recursive n as (select 1 as i union all select i + 1 from n where i < {ROWS}) select i from n"
    );
    let maria = MariaDb::new(&fill(&format!("select seq from seq_1_to_{ROWS}")));
    let (_folder, sqlite) = sqlite(&fill(&recursive));
    let seed = fastrand::u64(..);
    let (mut random, mut cuts) = (fastrand::Rng::with_seed(seed), 0);
    for url in [db.url(), maria.url(), sqlite] {
        let server = server(&url, &files).await;
        for (path, query, first, rows) in [
            ("list.ndjson", "", 1, ROWS),
            ("list.json-seq", "", 1, ROWS),
            ("page.ndjson", "n=2100", 1, 2100),
            ("tail.ndjson", "_follow=1", 1, ROWS),
            ("asked.ndjson", "order=b.nullslast&c=eq.x&select=id", 1, ROWS),
            ("asked.ndjson", "order=b.nullslast&id=gt.100&limit=2100&offset=50&select=id", 151, 2100),
        ] {
            for _ in 0..5 {
                let (ids, after) = (Vec::new(), None);
                let mut reader = CutReader { server: &server, path, query, ids, after, cuts: 0 };
                // A live tail that has no row left sends only heartbeats.
                while let left @ 1.. = rows as usize - reader.ids.len()
                    && !reader.read(random.usize(1..left * 13 + 500)).await
                {}
                let expected: Vec<u64> = (first..first + rows).collect();
                assert!(reader.ids == expected, "{path} of {url}, seed {seed}: {} rows", reader.ids.len());
                cuts += reader.cuts;
            }
        }
    }
    println!("{cuts} cuts");
    assert!(cuts >= 500, "{cuts} cuts, seed {seed}");
}

/// Pages with 2,000 rows of some 300 bytes.
const WIDE: &str = "/*
key = [\"id\"]
body = { rows = \"$rows\", next = \"$next\" }
[params]
n = { type = \"integer\", default = 100 }
*/ select id, t from wide order by id limit :n";

fn wide_of_sqlite() -> (tempfile::TempDir, String) {
    sqlite(
        "create table wide (id integer primary key, t text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
         insert into wide select i, replace(hex(zeroblob(300)), '00', 'x' || i % 7) from n",
    )
}

/// The row numbers of a response in any row format.
fn ids(reply: &Reply) -> Vec<u64> {
    let of = |row: &Value| row["id"].as_u64().unwrap();
    match reply.header("content-type").unwrap() {
        "application/json" => reply.json()["rows"].as_array().unwrap().iter().map(of).collect(),
        csv if csv.starts_with("text/csv") => reply
            .text()
            .lines()
            .skip(1)
            .map(|line| line.split(',').next().unwrap().parse().unwrap())
            .collect(),
        _ => {
            let rows = reply.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            rows.filter(|row| row.get("$rowstream").is_none()).map(|row| of(&row)).collect()
        }
    }
}

/// The target of a `Link` to the next page, on the same path.
fn next(path: &str, reply: &Reply) -> Option<String> {
    let link = reply.header("link")?;
    let target = link.strip_suffix(">; rel=\"next\"").and_then(|link| link.strip_prefix('<')).unwrap();
    Some(format!("{path}{target}"))
}

/// A page of more than 4 KiB had no `Link`, although the documentation said that the last page has
/// none. A client that relied on this read 100 of 2,000 rows.
#[tokio::test]
async fn pages_of_wide_rows_are_followed_to_the_last() {
    let db = TestDb::new().await;
    db.execute("create table wide as select i as id, repeat('x' || i % 7, 300) as t from generate_series(1, 2000) as i")
        .await;
    let (_folder, url) = wide_of_sqlite();
    for url in [db.url(), url] {
        let server = server(&url, &[("wide", WIDE)]).await;
        // Pages from 30 KB to 300 KB. The largest ones wait in a file.
        for (n, client) in
            [(100, Client::HTTP1), (100, Client::H2C), (1000, Client::HTTP1), (300, Client::H2C)]
        {
            for format in ["json", "ndjson", "csv"] {
                let (mut read, mut pages) = (Vec::new(), 0);
                let path = format!("/wide.{format}");
                let mut target = Some(format!("{path}?n={n}"));
                while let Some(asked) = target {
                    let reply = client.get(&server.url(&asked)).await;
                    assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{asked}");
                    let rows = ids(&reply);
                    let end = if rows.len() == n { "full" } else { "last" };
                    assert_eq!(reply.header("rowstream-page"), Some(end), "{asked}");
                    let length = reply.body.len().to_string();
                    assert_eq!(reply.header("content-length"), Some(length.as_str()), "{asked}");
                    assert_eq!(reply.header("link").is_some(), end == "full", "{asked}");
                    (read, pages) = ([read, rows].concat(), pages + 1);
                    target = next(&path, &reply);
                }
                assert_eq!((read, pages), ((1..=2000).collect(), 2000 / n + 1), "{format}, {n} rows a page");
            }
        }
    }
}

/// A compressed page is held in its compressed form.
#[tokio::test]
async fn compressed_pages_have_their_link() {
    let (_folder, url) = wide_of_sqlite();
    let config = format!("compression = \"on\"\n[source.db]\nurl = \"{url}\"\n");
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/wide.sql", WIDE)]).await;
    for coding in crate::support::CODINGS {
        let request =
            Request::get(server.url("/wide.ndjson?_digest=sha-256")).header("accept-encoding", coding);
        let mut reply = Client::HTTP1.send(request.body(String::new()).unwrap()).await;
        let told = ["rowstream-page", "content-encoding"].map(|name| reply.header(name));
        assert_eq!(told, [Some("full"), Some(coding)]);
        assert!(next("/wide.ndjson", &reply).is_some());
        let digest = reply.header("content-digest").unwrap().to_owned();
        assert!(digest.starts_with("sha-256=:"), "{digest}");
        reply.body = crate::support::decode(coding, &reply.body).unwrap().into();
        assert_eq!(ids(&reply), (1..=100).collect::<Vec<_>>());
    }
}

/// If a page is too long to be held, its head says so, and the cursor of the next page is at its
/// end.
#[tokio::test]
async fn pages_that_are_too_long_tell_at_their_end_what_follows() {
    let (_folder, url) = wide_of_sqlite();
    let config = format!("spool_limit = \"200KB\"\n[source.db]\nurl = \"{url}\"\n");
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/wide.sql", WIDE)]).await;
    for client in [Client::HTTP1, Client::H2C] {
        // Its end record contains the next page's cursor.
        let (mut read, mut after, mut ends) = (Vec::new(), String::new(), Vec::new());
        while ends.last().is_none_or(|end| end == "full") {
            let reply = client.get(&server.url(&format!("/wide.ndjson?n=900&_end=1{after}"))).await;
            let last = reply.text().lines().last().unwrap();
            let end = serde_json::from_str::<Value>(last).unwrap()["end"].clone();
            let streamed = reply.headers.get("content-length").is_none();
            assert_eq!(streamed, ends.len() < 2, "{end}");
            assert_eq!(reply.header("rowstream-page"), Some(if streamed { "streamed" } else { "last" }));
            assert_eq!(reply.header("link"), None);
            read.extend(ids(&reply));
            after = format!("&_after={}", end["next"].as_str().unwrap());
            ends.push(end["page"].as_str().unwrap().to_owned());
        }
        assert_eq!((read, ends), ((1..=2000).collect(), ["full", "full", "last"].map(str::to_owned).into()));
        // Trailers contain it too.
        let request = Request::get(server.url("/wide.csv?n=900")).header("te", "trailers");
        let reply = client.send(request.body(String::new()).unwrap()).await;
        let announced = "rowstream-status, rowstream-rows, rowstream-next, rowstream-page";
        assert_eq!(reply.header("trailer"), Some(announced));
        assert_eq!((ids(&reply), &reply.ended), ((1..=900).collect(), &Ended::Complete));
        let trailers = reply.trailers.expect("they were asked for");
        assert_eq!(
            (&trailers["rowstream-page"], &trailers["rowstream-rows"]),
            (&"full".parse().unwrap(), &"900".parse().unwrap())
        );
        let rest = format!("/wide.csv?n=900&_after={}", trailers["rowstream-next"].to_str().unwrap());
        assert_eq!(ids(&client.get(&server.url(&rest)).await)[0], 901);
    }
    // A response that isn't a page has no link.
    let all = "/* key = [\"id\"] */ select id, t from wide order by id";
    let server = self::server(&url, &[("all", all)]).await;
    assert_eq!(get(&server.url("/all.csv")).await.header("rowstream-page"), None);
}

/// A failure within a page has its own status, because the head waits for the end.
#[tokio::test]
async fn a_page_that_fails_is_not_begun() {
    let db = TestDb::new().await;
    let fails = "/* key = [\"i\"] */ select i, repeat('x', 500) as t, 1 / (i - 90) as q from generate_series(1, 2000) as i order by i limit 100";
    let server = server(&db.url(), &[("fails", fails)]).await;
    for target in ["/fails", "/fails.csv", "/fails.ndjson?_end=1"] {
        let reply = get(&server.url(target)).await;
        let problem = reply.json();
        let told = (reply.status.as_u16(), &problem["code"], &problem["sqlstate"]);
        assert_eq!(told, (500, &json!("bad_value"), &json!("22012")), "{target}");
    }
}
