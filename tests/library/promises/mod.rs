//! The promises of every database: one list of promises, and one list of databases. Each database
//! keeps all of them, or refuses the unsupported ones with a reason. A new database gets an
//! [`Engine`], a new driver for a database gets a [`Way`], and both get a line at the end.
//!
//! Special features of one database and values of its own types are tested in that database's
//! module.
//!
//! | file | contents |
//! |---|---|
//! | [`ways`] | the databases and the ways to them, and their unsupported features |
//! | [`held`] | a test's database: created, filled, served |
//! | [`tables`] | the documentation's tables, generated from both |

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

mod held;
mod tables;
mod ways;

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

use self::held::{Held, Words, config, serves};
use self::ways::{Ask, Refused, Written};
use crate::support::{
    Client, Cut, Ended, Faults, Pieces, Server, file_bytes, get, peak_memory_bytes, rowstream, wait_until,
};

const ITEMS: usize = 50_000;
const MANY: usize = 1_000_000;
/// The largest memory of a server, without the files that it maps. The rows of [`MANY`] are larger, so
/// a buffer that grows with them would exceed it.
const CEILING: u64 = 12_000_000;
const UUID: &str = "5f0c5f0c-0000-4000-8000-000000000001";

async fn rows(server: &Server, path: &str) -> Value {
    let reply = get(&server.url(path)).await;
    assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{path}: {}", reply.text());
    reply.json()
}

/// Checks that an endpoint is refused as documented: by `check`, which names the place, or in its
/// response.
async fn is_refused(db: &Held, sql: &str, refused: Refused) {
    let checked = checked(db, sql).await;
    match refused {
        Refused::ByCheck(said) => {
            let words = checked.expect_err(sql);
            assert!(words.contains("e.sql") && words.contains(said), "{sql}: {words}");
        }
        Refused::WhenAsked(said) => {
            assert_eq!(checked, Ok(()), "`check` says it: so should the table");
            let server = db.serves(2, &[("e", sql)]).await;
            let reply = get(&server.url("/e")).await;
            assert!(reply.status == 500 && reply.text().contains(said), "{sql}: {}", reply.text());
        }
    }
}

/// The output of `check` for an endpoint that it refuses.
async fn checked(db: &Held, sql: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("endpoints")).unwrap();
    fs::write(folder.path().join("rowstream.toml"), config(&db.url(), 4)).unwrap();
    fs::write(folder.path().join("endpoints/e.sql"), sql).unwrap();
    let said = rowstream(&["check", folder.path().join("rowstream.toml").to_str().unwrap()]).await;
    if said.status.success() {
        return Ok(());
    }
    assert_eq!(said.status.code(), Some(1), "{sql}");
    Err(String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned())
}

/// One row with a 1, from a column that each driver knows to contain integers.
const WELL: &str = "select number as v from part where item = 2 and number = 1";

const ALL_ITEMS: &str = "/* body = { rows = \"$rows\" } */\nselect id, name from item order by id";

/// The rows of [`ALL_ITEMS`] as lines of JSON.
fn items() -> String {
    (1..=ITEMS).fold(String::new(), |mut all, id| {
        writeln!(all, "{{\"id\":{id},\"name\":\"name {id}\"}}").unwrap();
        all
    })
}

// --- The promises --------------------------------------------------------------------------------

/// The same values have the same JSON.
async fn values_are_the_same(db: &Held) {
    let server = db.serves(2, &[("typed", "select * from typed")]).await;
    let Written { number, boolean, instant, time, uuid, document, .. } = db.way.written();
    let expected = format!(
        r#"[{{"i":9007199254740993,"n":{number},"t":"it's \"x\" ü 😀","b":{boolean},"d":"2024-02-29","z":{instant},"u":{uuid},"e":null,"s":-32768,"f":0.1,"x":"\\x6869","l":"2024-02-29T12:00:00.25","c":{time},"j":{document}}}]"#
    );
    assert_eq!(get(&server.url("/typed")).await.text(), expected);
}

/// A parameter of each type finds its row, and no other row.
async fn parameters_of_each_type_find_their_row(db: &Held) {
    let Words { in_list, at_instant, is_document, is_duration, is_uuid, .. } = db.words();
    let cases = [
        ("integer", "i = :v", "9007199254740993", "9007199254740992", &["x"][..]),
        ("number", "n = :v", "1234.5", "1234.6", &["x"]),
        ("text", "t = :v", "it%27s%20%22x%22%20%C3%BC%20%F0%9F%98%80", "it%27s", &[]),
        ("boolean", "b = :v", "true", "false", &["maybe"]),
        ("date", "d = :v", "2024-02-29", "2024-02-28", &["2024-02-30"]),
        ("uuid", is_uuid, UUID, "5f0c5f0c-0000-4000-8000-000000000002", &["x"]),
        ("integer[]", in_list, "1,9007199254740993", "1,2", &["1,x"]),
        ("timestamp", at_instant, "2024-02-29T14:00:00.25%2B02:00", "2024-02-29T12:00:00.26Z", &["noon"]),
        ("json", is_document, "%7B%22a%22:1%7D", "%7B%22a%22:2%7D", &["%7B"]),
        ("duration", is_duration, "1h30m", "PT1H31M", &["long"]),
    ];
    let sql = |kind: &str, condition: &str| {
        format!("/*\n[params]\nv = \"{kind}\"\n*/\nselect s as found from typed where {condition}")
    };
    let (mut files, mut asked) = (Vec::new(), Vec::new());
    for case @ (kind, condition, ..) in cases {
        match db.way.refuses(Ask::Parameter(kind)) {
            Some(refused) => is_refused(db, &sql(kind, condition), refused).await,
            None => {
                files.push((format!("p{}", asked.len()), sql(kind, condition)));
                asked.push(case);
            }
        }
    }
    if asked.is_empty() {
        return;
    }
    let files: Vec<_> = files.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).collect();
    let server = db.serves(2, &files).await;
    for (at, (kind, _, right, other, wrong)) in asked.iter().enumerate() {
        assert_eq!(rows(&server, &format!("/p{at}?v={right}")).await, json!([{"found": -32768}]), "{kind}");
        assert_eq!(rows(&server, &format!("/p{at}?v={other}")).await, json!([]), "{kind}");
        let none = get(&server.url(&format!("/p{at}"))).await;
        assert_eq!((none.status.as_u16(), none.text().contains("`v`")), (400, true), "{kind}");
        let wrong = wrong.iter().map(|wrong| (wrong, server.url(&format!("/p{at}?v={wrong}"))));
        for (wrong, url) in wrong {
            let reply = get(&url).await;
            assert_eq!(reply.status.as_u16(), 400, "{kind} {wrong}: {}", reply.text());
        }
    }
}

/// An error before the first row has a status. A later one aborts the body. The connection stays
/// usable.
async fn errors_are_never_rows(db: &Held) {
    let Words { series, fails_at, .. } = db.words();
    let last = db.way.rows_before_an_error().unwrap_or(ITEMS);
    let failing = |at, of: usize| {
        format!("select i, {} as v from ({}) as s", fails_at(at), series.replace("most", &of.to_string()))
    };
    // Engines with several threads produce some of the rows before the first one is read.
    let (early, late) = (failing(1, 10), failing(last - 10, last));
    let server = db.serves(1, &[("early", &early), ("late", &late), ("well", WELL)]).await;
    for format in ["", ".ndjson", ".csv"] {
        let reply = get(&server.url(&format!("/early{format}"))).await;
        assert!(reply.status.is_client_error() || reply.status.is_server_error(), "{format}: {reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{format}");
        let reply = get(&server.url(&format!("/late{format}"))).await;
        if db.way.rows_before_an_error().is_some() {
            assert_eq!(reply.status.as_u16(), 200, "{format}: {}", reply.text());
            assert!(matches!(reply.ended, Ended::Broken(_)), "{format}: {:?}", reply.ended);
        } else {
            assert_eq!(reply.status.as_u16(), 500, "{format}");
        }
        assert_eq!(rows(&server, "/well").await, json!([{"v": 1}]), "{format}");
    }
}

/// All rows arrive once in every format.
async fn many_rows_are_these_rows(db: &Held) {
    let server = db.serves(2, &[("items", ALL_ITEMS)]).await;
    let lines = get(&server.url("/items.ndjson")).await;
    assert_eq!(lines.ended, Ended::Complete);
    assert!(lines.text() == items(), "the rows are those that were written");
    let csv = get(&server.url("/items.csv")).await;
    assert_eq!(csv.text().lines().count(), ITEMS + 1);
    let array = rows(&server, "/items").await;
    assert_eq!(array["rows"].as_array().unwrap().len(), ITEMS);
}

/// A million rows match the series, and need no more memory than a few.
async fn a_million_rows_take_no_memory(db: &Held) {
    let computed = db.way.written().computed;
    let expected = (1..=MANY).fold(Sha256::new(), |mut digest, i| {
        digest.update(format!("{{\"i\":{},\"t\":\"row {i}\"}}\n", computed(i)));
        digest
    });
    let series = db.words().series.replace("most", &MANY.to_string());
    let server = db.serves(1, &[("series", &series)]).await;
    let mut stream = Client::HTTP1.stream(&server.url("/series.ndjson")).await;
    let mut digest = Sha256::new();
    let ended = loop {
        match stream.chunk().await {
            Ok(chunk) => digest.update(chunk),
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended, Ended::Complete);
    assert!(digest.finalize() == expected.finalize(), "the rows are those of the series");
    let peak = peak_memory_bytes(server.pid()).saturating_sub(file_bytes(server.pid()));
    assert!(peak < CEILING, "the server took {peak} bytes");
}

/// A stream can be resumed after any row, with each remaining row once.
async fn rows_are_resumed_from_a_cursor(db: &Held) {
    let sql = "/* key = [\"id\"]\nbody = { rows = \"$rows\", next = \"$next\" }\n[params]\nn = \"integer\" */\n\
               select id, name from item order by id limit :n";
    if let Some(refused) = db.way.refuses(Ask::Resume) {
        return is_refused(db, sql, refused).await;
    }
    let server = db.serves(2, &[("items", sql)]).await;
    let (mut after, mut ids) = (String::new(), Vec::new());
    for n in [1, 7, 20_000, 20_000, 20_000] {
        let page = rows(&server, &format!("/items?n={n}{after}")).await;
        ids.extend(page["rows"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()));
        if let Some(next) = page["next"].as_str() {
            after = format!("&_after={next}");
        }
    }
    assert_eq!(ids, (1..=ITEMS as u64).collect::<Vec<_>>());
}

/// Rows are nested in other rows, and merged as they arrive.
async fn statements_are_nested(db: &Held) {
    let sql = "/* body = \"$items\" */
-- name: items :many
select id from item where id <= 101 order by id;
-- name: parts :many nested in items on item = id
select item, number from part order by item, number";
    if let Some(refused) = db.way.refuses(Ask::Nested) {
        return is_refused(db, sql, refused).await;
    }
    let server = db.serves(2, &[("nested", sql)]).await;
    let parts = |item: usize| (1..=300).filter(move |number| number % 100 + 1 == item);
    let part = |item| parts(item).map(|number| json!({"item": item, "number": number})).collect::<Vec<_>>();
    let expected: Vec<_> = (1..=101).map(|id| json!({"id": id, "parts": part(id)})).collect();
    assert_eq!(rows(&server, "/nested").await, json!(expected));
}

/// The statements of one body appear at their places in its template.
async fn bodies_have_their_templates(db: &Held) {
    let sql =
        "/* body = { _embedded = { items = \"$items\" }, first = \"$first\", total = \"$total\", n = 7 } */
-- name: items :many
select id from item where id <= 3 order by id;
-- name: first :one
select id, name from item where id = 1;
-- name: total :value
select count(*) from item";
    if let Some(refused) = db.way.refuses(Ask::Statements) {
        return is_refused(db, sql, refused).await;
    }
    let server = db.serves(2, &[("whole", sql)]).await;
    let total: Value = (db.way.written().computed)(ITEMS).parse().unwrap();
    let expected = json!({
        "_embedded": { "items": [{"id": 1}, {"id": 2}, {"id": 3}] },
        "first": {"id": 1, "name": "name 1"}, "total": total, "n": 7,
    });
    assert_eq!(rows(&server, "/whole").await, expected);
}

/// A missing limit means no limit, and a missing offset is 0.
async fn limits_may_be_absent(db: &Held) {
    let sql = "/*
[params]
n = { type = \"integer\", optional = true }
skip = { type = \"integer\", optional = true }
*/
select id from item where id <= 10 order by id limit :n offset :skip";
    if let Some(refused) = db.way.refuses(Ask::AbsentLimit) {
        return is_refused(db, sql, refused).await;
    }
    let server = db.serves(2, &[("items", sql)]).await;
    for (query, expected) in
        [("", 1..11), ("?n=3", 1..4), ("?n=3&skip=2", 3..6), ("?skip=8", 9..11), ("?n=0", 1..1)]
    {
        let expected: Vec<_> = expected.map(|id| json!({ "id": id })).collect();
        assert_eq!(rows(&server, &format!("/items{query}")).await, json!(expected), "{query}");
    }
}

/// Rows committed after the last row also arrive, in order and once.
async fn new_rows_are_followed(db: &Held) {
    let sql = "/* key = [\"id\"]\nfollow = { commits = \"ordered\", poll = \"20ms\" } */\n\
               select id, what from event order by id";
    if let Some(refused) = db.way.refuses(Ask::Follow) {
        return is_refused(db, sql, refused).await;
    }
    db.execute("create table event (id int primary key, what varchar(20))").await;
    db.execute("insert into event values (1, 'one')").await;
    let server = db.serves(2, &[("events", sql)]).await;
    let mut stream = Client::HTTP1.stream(&server.url("/events.ndjson?_follow=1")).await;
    let (mut expected, mut seen) = ("{\"id\":1,\"what\":\"one\"}\n".to_owned(), Vec::new());
    for id in [2, 3, 10] {
        db.execute(&format!("insert into event values ({id}, 'more')")).await;
        writeln!(expected, "{{\"id\":{id},\"what\":\"more\"}}").unwrap();
        while seen.len() < expected.len() {
            seen.extend_from_slice(&stream.chunk().await.expect("the stream goes on"));
        }
        assert_eq!(String::from_utf8_lossy(&seen), expected);
    }
}

/// `check` refuses unsupported features, with the reason and an alternative.
async fn what_cannot_be_done_is_refused(db: &Held) {
    let dialect = db.way.dialect();
    let keyed =
        |settings: &str| format!("/* key = [\"id\"]\n{settings} */\nselect id, name from item order by id");
    let refcursors = "-- name: opened :refcursors\nselect 1 as a;\n-- name: a :many from opened\n";
    for (sql, refusal) in [
        (keyed("follow = true"), dialect.commits.order.check(false).err()),
        (keyed("follow = { commits = \"ordered\" }"), dialect.commits.order.check(true).err()),
        (keyed("follow = { transaction = \"id\" }"), dialect.commits.transactions.err()),
        (keyed("follow = { commits = \"ordered\", channel = \"c\" }"), dialect.commits.channel.err()),
        ("/* parallel = 3 */\nselect id, name from item".into(), dialect.parts.as_ref().err().copied()),
        (format!("/* body = {{ a = \"$a\" }} */\n{refcursors}"), dialect.refcursors.err()),
    ] {
        // If nothing is refused, other factors than the database decide.
        let Some(refusal) = refusal else { continue };
        let words = checked(db, &sql).await.expect_err(&sql);
        assert!(words.contains(refusal.message) && words.contains(refusal.hint), "{sql}: {words}");
    }
    is_refused(db, "select id,\n nothing from item", Refused::ByCheck("nothing")).await;
}

/// A client that disconnects ends its statement in the database, and its connection serves the next
/// request.
async fn clients_that_leave_end_their_statements(db: &Held) {
    let server = db.serves(1, &[("endless", db.words().endless), ("well", WELL)]).await;
    for _ in 0..3 {
        let mut streaming = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
        streaming.at_least(100_000).await;
        drop(streaming);
        assert_eq!(rows(&server, "/well").await, json!([{"v": 1}]));
    }
    wait_until("the statements end", async || db.running().await.is_none_or(|running| running == 0)).await;
}

/// Requests beyond the pool's connections and its queue are refused at once.
async fn pools_have_a_limit(db: &Held) {
    let endless = format!("/* slow_clients = \"hold\" */ {}", db.words().endless);
    let server = db.serves(1, &[("endless", &endless), ("well", WELL)]).await;
    let mut streaming = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
    streaming.at_least(100_000).await;
    let mut asked = JoinSet::new();
    for _ in 0..4 {
        let url = server.url("/well");
        asked.spawn(async move { get(&url).await });
    }
    for _ in 0..3 {
        let refused = asked.join_next().await.unwrap().unwrap();
        assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (503, &json!("pool_full")));
        assert!(refused.header("retry-after").is_some());
    }
    drop(streaming);
    assert_eq!(asked.join_next().await.unwrap().unwrap().status.as_u16(), 200);
}

/// A cut connection never produces a complete body, but one with small pieces does.
async fn connections_that_fail_are_never_a_whole_body(db: &Held) {
    let cut = |bytes| Faults { cut: Some((bytes, Cut::Reset)), ..Faults::default() };
    for bytes in [300_000, 900_000] {
        let (_proxy, url) = db.proxied(cut(bytes)).await;
        let server = serves(&url, 1, &[("items", ALL_ITEMS)]).await;
        for format in ["", ".ndjson", ".csv"] {
            let reply = get(&server.url(&format!("/items{format}"))).await;
            assert!(reply.status != 200 || reply.ended != Ended::Complete, "{bytes}{format}");
        }
    }
    let pieces = Some(Pieces { bytes: 1000, pause: Duration::ZERO });
    let (_proxy, url) = db.proxied(Faults { pieces, ..Faults::default() }).await;
    let server = serves(&url, 1, &[("items", ALL_ITEMS)]).await;
    assert!(get(&server.url("/items.ndjson")).await.text() == items());
}

macro_rules! promises {
    ($databases:tt $($promise:ident)+) => {
        $(promises! { @each $databases $promise })+
    };
    (@each [$($database:ident)+] $promise:ident) => {
        mod $promise {
            $(#[tokio::test]
            async fn $database() {
                super::$promise(&super::Held::$database().await).await;
            })+
        }
    };
}

promises! {
    [sqlite postgres mariadb duckdb sail postgresql_by_wheel sail_by_wheel odbc_postgresql odbc_mariadb odbc_sqlite]
    values_are_the_same
    parameters_of_each_type_find_their_row
    errors_are_never_rows
    many_rows_are_these_rows
    a_million_rows_take_no_memory
    rows_are_resumed_from_a_cursor
    clients_that_leave_end_their_statements
    pools_have_a_limit
    statements_are_nested
    bodies_have_their_templates
    limits_may_be_absent
    new_rows_are_followed
    what_cannot_be_done_is_refused
}

// A file has no connection to cut.
promises! {
    [postgres mariadb sail postgresql_by_wheel sail_by_wheel odbc_postgresql odbc_mariadb]
    connections_that_fail_are_never_a_whole_body
}
