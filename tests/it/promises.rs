//! What every database promises: one list of promises, and one of databases, each of which keeps
//! all of them. A database that is new gets a variant of [`Held`] and a line at the end.
//!
//! What only one of them does, and what values of its own types become, stands in the modules of
//! the databases.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rowstream::database::DatabaseKind;
use rowstream::sql::dialect::Dialect;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::support::{
    Client, Cut, Ended, Faults, MariaDb, Pieces, Server, TcpProxy, TestDb, get, mariadb_port,
    peak_memory_bytes, pg_port, rowstream,
};

/// Longer than a pool takes to bring a connection back (2 s), shorter than a test that hangs.
const SOON: Duration = Duration::from_secs(10);
const ITEMS: usize = 50_000;
const MANY: usize = 1_000_000;
/// What a server of tests, which is not optimised, may take at most. The rows of [`MANY`] are as
/// much, and a buffer that grew with them would be more.
const CEILING: u64 = 40_000_000;
const UUID: &str = "5f0c5f0c-0000-4000-8000-000000000001";

/// A database of one test's own.
enum Held {
    Sqlite(TempDir),
    Postgres(TestDb),
    MariaDb(MariaDb),
    DuckDb(TempDir),
}

/// What the schema has of each database's own: types, the rows of a series, and what follows the
/// name of the table in `insert`.
struct Words {
    decimal: &'static str,
    boolean: &'static str,
    instant: &'static str,
    datetime: &'static str,
    time: &'static str,
    uuid: &'static str,
    bytes: &'static str,
    /// Two bytes, 0x68 and 0x69.
    two_bytes: &'static str,
    insert_items: String,
    /// So many rows of `i` and `t`, in the order of `i`, where `most` stands for how many.
    series: &'static str,
    /// Fails at the row with this number, and is a number otherwise.
    fails_at: fn(usize) -> String,
    /// Rows for a long time.
    endless: &'static str,
    /// What a true boolean is in JSON.
    yes: &'static str,
    /// What a JSON document is in JSON.
    document: &'static str,
    /// Whether an integer `i` is in the list `:v`.
    in_list: &'static str,
    /// Whether the instant `z` is `:v`.
    at_instant: &'static str,
    /// Whether `:v` is a document whose member `a` is 1.
    is_document: &'static str,
    /// Whether `:v` is a duration of 90 minutes.
    is_duration: &'static str,
}

impl Held {
    fn words(&self) -> Words {
        match self {
            Self::Sqlite(_) => Words {
                decimal: "decimal",
                boolean: "boolean",
                instant: "timestamptz",
                datetime: "timestamp",
                time: "time",
                uuid: "uuid",
                bytes: "blob",
                two_bytes: "x'6869'",
                insert_items: format!(
                    "with recursive n(i) as (select 1 union all select i + 1 from n where i < {ITEMS})
                     insert into item select i, 'name ' || i from n"
                ),
                series: "with recursive n(i) as (select 1 union all select i + 1 from n where i < most)
                     select i, 'row ' || i as t from n",
                fails_at: |n| format!("case when i = {n} then json('{{') else 1 end"),
                endless: "with recursive n(i) as (select 1 union all select i + 1 from n)
                     select i, 'some more text for each of the rows' as t from n",
                yes: "true",
                document: r#"{"a": [1, 2.50]}"#,
                in_list: "i in (select value from json_each(:v))",
                at_instant: "datetime(z, 'subsec') = datetime(:v, 'subsec')",
                is_document: "json_extract(:v, '$.a') = 1",
                is_duration: "'PT1H30M' = :v",
            },
            Self::Postgres(_) => Words {
                decimal: "decimal(20, 1)",
                boolean: "boolean",
                instant: "timestamptz",
                datetime: "timestamp",
                time: "time",
                uuid: "uuid",
                bytes: "bytea",
                two_bytes: r"'\x6869'",
                insert_items: format!(
                    "insert into item select i, 'name ' || i from generate_series(1, {ITEMS}) i"
                ),
                series: "select i, 'row ' || i as t from generate_series(1, most) i",
                fails_at: |n| format!("1 / (i - {n})"),
                endless: "select generate_series(1, 100000000) as i, 'some more text for each of the rows' as t",
                yes: "true",
                document: r#"{"a": [1, 2.50]}"#,
                in_list: "i = any(:v)",
                at_instant: "z = :v",
                is_document: "(:v::json ->> 'a')::int = 1",
                is_duration: "interval '90 minutes' = :v",
            },
            Self::MariaDb(_) => Words {
                decimal: "decimal(20, 1)",
                boolean: "boolean",
                instant: "timestamp(6)",
                datetime: "datetime(6)",
                time: "time(6)",
                uuid: "uuid",
                bytes: "blob",
                two_bytes: "x'6869'",
                insert_items: format!(
                    "insert into item select seq, concat('name ', seq) from seq_1_to_{ITEMS}"
                ),
                series: "select seq as i, concat('row ', seq) as t from seq_1_to_most",
                fails_at: |n| format!("if(i = {n}, (select seq from seq_1_to_2 where seq <= i + 1), 1)"),
                endless: "select seq as i, 'some more text for each of the rows' as t from seq_1_to_100000000",
                yes: "1",
                document: r#"{"a": [1, 2.50]}"#,
                in_list: "i in (select v from json_table(:v, '$[*]' columns (v bigint path '$')) as l)",
                at_instant: "z = :v",
                is_document: "json_value(:v, '$.a') = 1",
                is_duration: "'PT1H30M' = :v",
            },
            Self::DuckDb(_) => Words {
                decimal: "decimal(20, 1)",
                boolean: "boolean",
                instant: "timestamptz",
                datetime: "timestamp",
                time: "time",
                uuid: "uuid",
                bytes: "blob",
                two_bytes: r"'\x68\x69'",
                insert_items: format!(
                    "insert into item select range, 'name ' || range from range(1, {ITEMS} + 1)"
                ),
                series: "select range as i, 'row ' || range as t from range(1, most + 1)",
                fails_at: |n| format!("case when i = {n} then error('no') else 1 end"),
                endless: "select range as i, 'some more text for each of the rows' as t from range(100000000000)",
                yes: "true",
                // A driver's JSON is a text.
                document: r#""{\"a\": [1, 2.50]}""#,
                in_list: "list_contains(:v, i)",
                at_instant: "z = :v",
                is_document: "json_extract(:v, '$.a') = 1",
                is_duration: "'PT1H30M' = :v",
            },
        }
    }

    async fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap()).filled().await
    }

    async fn postgres() -> Self {
        Self::Postgres(TestDb::new().await).filled().await
    }

    async fn mariadb() -> Self {
        Self::MariaDb(MariaDb::new("select 1")).filled().await
    }

    async fn duckdb() -> Self {
        Self::DuckDb(tempfile::tempdir().unwrap()).filled().await
    }

    async fn filled(self) -> Self {
        if let Self::DuckDb(folder) = &self {
            let template = tokio::task::spawn_blocking(|| TEMPLATE.path()).await.unwrap();
            // The database, and what is in its log alone.
            for file in fs::read_dir(template).unwrap() {
                let file = file.unwrap();
                fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
            }
        } else {
            self.execute(&self.schema()).await;
        }
        self
    }

    fn schema(&self) -> String {
        let Words { decimal, boolean, instant, datetime, time, uuid, bytes, two_bytes, insert_items, .. } =
            self.words();
        let zone = if matches!(self, Self::Sqlite(_)) { "Z" } else { "" };
        format!(
            "create table item (id integer primary key, name varchar(40) not null);
             {insert_items};
             create table part (item integer not null, number integer not null, primary key (item, number));
             insert into part select id % 100 + 1, id from item where id <= 300;
             create table typed (i bigint, n {decimal}, t varchar(40), b {boolean}, d date, z {instant}, u {uuid}, e integer,
               s smallint, f double precision, x {bytes}, l {datetime}, c {time}, j json);
             insert into typed values (9007199254740993, 1234.5, 'it''s \"x\" ü 😀', true, '2024-02-29',
               '2024-02-29 12:00:00.25{zone}', '{UUID}', null, -32768, 0.1, {two_bytes}, '2024-02-29 12:00:00.25',
               '12:00:00.5', '{{\"a\": [1, 2.50]}}')"
        )
    }

    async fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(folder) => {
                let sql = sql.to_owned();
                let path = folder.path().join("a.db");
                let run = move || rusqlite::Connection::open(path).unwrap().execute_batch(&sql).unwrap();
                tokio::task::spawn_blocking(run).await.unwrap();
            }
            Self::Postgres(db) => db.execute(&format!("set time zone 'UTC'; {sql}")).await,
            Self::MariaDb(db) => db.execute(&format!("set time_zone = '+00:00'; {sql}")),
            Self::DuckDb(folder) => {
                for statement in sql.split(';') {
                    let url = duckdb_url(folder.path());
                    let mut command = Command::new(env!("CARGO_BIN_EXE_rowstream"));
                    let output = command.args(["query", &url, statement]).output().unwrap();
                    assert!(
                        output.status.success(),
                        "{statement}: {}",
                        String::from_utf8_lossy(&output.stderr)
                    );
                }
            }
        }
    }

    /// The address for those who only read.
    fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("a.db").display()),
            Self::Postgres(db) => db.url(),
            Self::MariaDb(db) => db.url(),
            Self::DuckDb(folder) => duckdb_url(folder.path()) + "&access_mode=READ_ONLY",
        }
    }

    /// The same by way of a proxy; `None` for a file.
    async fn proxied(&self, faults: Faults) -> Option<(TcpProxy, String)> {
        let port = match self {
            Self::Sqlite(_) | Self::DuckDb(_) => return None,
            Self::Postgres(_) => pg_port(),
            Self::MariaDb(_) => mariadb_port(),
        };
        let proxy = TcpProxy::to_client(SocketAddr::from(([127, 0, 0, 1], port)), faults).await;
        let url = self.url().replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
        Some((proxy, url))
    }

    /// A server of endpoints: their paths and statements. `pool` is its greatest number of
    /// connections.
    async fn serves(&self, pool: usize, endpoints: &[(&str, &str)]) -> Server {
        serves(&self.url(), pool, endpoints).await
    }

    fn dialect(&self) -> &'static Dialect {
        match self {
            Self::Sqlite(_) => DatabaseKind::Sqlite,
            Self::Postgres(_) => DatabaseKind::Postgres,
            Self::MariaDb(_) => DatabaseKind::Mysql,
            Self::DuckDb(_) => DatabaseKind::Adbc,
        }
        .dialect()
    }

    /// How many statements run in the database, other than the one that asks; `None` for a library.
    async fn running(&self) -> Option<i64> {
        match self {
            Self::Sqlite(_) | Self::DuckDb(_) => None,
            Self::Postgres(db) => {
                let sql = "select count(*) from pg_stat_activity where datname = current_database() and state = 'active'
                           and pid <> pg_backend_pid()";
                Some(db.client().await.query_one(sql, &[]).await.unwrap().get(0))
            }
            Self::MariaDb(db) => {
                let sql =
                    "select count(*) from information_schema.processlist where db = database() and command in
                           ('Execute', 'Query', 'Fetch') and id <> connection_id()";
                Some(db.ask(sql).trim().parse().unwrap())
            }
        }
    }
}

/// A DuckDB that is filled once, and copied by each test: its driver takes one statement at a time.
static TEMPLATE: LazyLock<TempDir> = LazyLock::new(|| {
    let held = Held::DuckDb(tempfile::tempdir().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(held.execute(&held.schema()));
    let Held::DuckDb(folder) = held else { unreachable!("it is one") };
    folder
});

fn duckdb_url(folder: &Path) -> String {
    let library = std::env::var("ROWSTREAM_TEST_DUCKDB");
    let library = library.expect("ROWSTREAM_TEST_DUCKDB is not set: run `cargo xtask test`");
    format!("adbc:{library}?entrypoint=duckdb_adbc_init&path={}", folder.join("a.duckdb").display())
}

async fn serves(url: &str, pool: usize, endpoints: &[(&str, &str)]) -> Server {
    let config = format!(
        "[source.db]\nurl = \"{url}\"\npool = {{ max = {pool}, waiting = 1, acquire_timeout = \"10s\" }}\n"
    );
    let named: Vec<_> = endpoints.iter().map(|(name, sql)| (format!("endpoints/{name}.sql"), *sql)).collect();
    let mut files = vec![("rowstream.toml", config.as_str())];
    files.extend(named.iter().map(|(name, sql)| (name.as_str(), *sql)));
    Server::start(&files).await
}

async fn rows(server: &Server, path: &str) -> Value {
    let reply = get(&server.url(path)).await;
    assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{path}: {}", reply.text());
    reply.json()
}

const ALL_ITEMS: &str = "/* key = [\"id\"]\nbody = { rows = \"$rows\", next = \"$next\" } */\nselect id, name from item order by id";

/// The rows of [`ALL_ITEMS`] as lines of JSON.
fn items() -> String {
    (1..=ITEMS).fold(String::new(), |mut all, id| {
        writeln!(all, "{{\"id\":{id},\"name\":\"name {id}\"}}").unwrap();
        all
    })
}

// --- The promises --------------------------------------------------------------------------------

/// The same values are the same JSON.
async fn values_are_the_same(db: &Held) {
    let server = db.serves(2, &[("typed", "select * from typed")]).await;
    let Words { yes, document, .. } = db.words();
    let expected = format!(
        r#"[{{"i":9007199254740993,"n":1234.5,"t":"it's \"x\" ü 😀","b":{yes},"d":"2024-02-29","z":"2024-02-29T12:00:00.25Z","u":"{UUID}","e":null,"s":-32768,"f":0.1,"x":"\\x6869","l":"2024-02-29T12:00:00.25","c":"12:00:00.5","j":{document}}}]"#
    );
    assert_eq!(get(&server.url("/typed")).await.text(), expected);
}

/// A parameter of each type finds its row, and no other.
async fn parameters_of_each_type_find_their_row(db: &Held) {
    let Words { in_list, at_instant, is_document, is_duration, .. } = db.words();
    let cases = [
        ("integer", "i = :v", "9007199254740993", "9007199254740992"),
        ("number", "n = :v", "1234.5", "1234.6"),
        ("text", "t = :v", "it%27s%20%22x%22%20%C3%BC%20%F0%9F%98%80", "it%27s"),
        ("boolean", "b = :v", "true", "false"),
        ("date", "d = :v", "2024-02-29", "2024-02-28"),
        ("uuid", "u = :v", UUID, "5f0c5f0c-0000-4000-8000-000000000002"),
        ("integer[]", in_list, "1,9007199254740993", "1,2"),
        ("timestamp", at_instant, "2024-02-29T14:00:00.25%2B02:00", "2024-02-29T12:00:00.26Z"),
        ("json", is_document, "%7B%22a%22:1%7D", "%7B%22a%22:2%7D"),
        ("duration", is_duration, "1h30m", "PT1H31M"),
    ];
    let files: Vec<_> = cases
        .iter()
        .enumerate()
        .map(|(at, (kind, condition, ..))| {
            let sql =
                format!("/*\n[params]\nv = \"{kind}\"\n*/\nselect 1 as found from typed where {condition}");
            (format!("p{at}"), sql)
        })
        .collect();
    let files: Vec<_> = files.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).collect();
    let server = db.serves(2, &files).await;
    for (at, (kind, _, right, wrong)) in cases.iter().enumerate() {
        assert_eq!(rows(&server, &format!("/p{at}?v={right}")).await, json!([{"found": 1}]), "{kind}");
        assert_eq!(rows(&server, &format!("/p{at}?v={wrong}")).await, json!([]), "{kind}");
        let none = get(&server.url(&format!("/p{at}"))).await;
        assert_eq!((none.status.as_u16(), none.text().contains("`v`")), (400, true), "{kind}");
    }
    let wrong = [
        (0, "x"),
        (1, "x"),
        (3, "maybe"),
        (4, "2024-02-30"),
        (5, "x"),
        (6, "1,x"),
        (7, "noon"),
        (8, "%7B"),
        (9, "long"),
    ];
    for (at, wrong) in wrong {
        let reply = get(&server.url(&format!("/p{at}?v={wrong}"))).await;
        assert_eq!(reply.status.as_u16(), 400, "{wrong}: {}", reply.text());
    }
}

/// An error before the first row has a status; one after it breaks the body; the connection lives
/// on.
async fn errors_are_never_rows(db: &Held) {
    let Words { series, fails_at, .. } = db.words();
    // DuckDB begins with a megabyte of rows.
    let last = 4 * ITEMS;
    let series = series.replace("most", &last.to_string());
    let failing = |at| format!("select i, {} as v from ({series}) as s", fails_at(at));
    let (early, late) = (failing(1), failing(last - 10));
    let server = db.serves(1, &[("early", &early), ("late", &late), ("well", "select 1 as v")]).await;
    for format in ["", ".ndjson", ".csv"] {
        let reply = get(&server.url(&format!("/early{format}"))).await;
        assert!(reply.status.is_client_error() || reply.status.is_server_error(), "{format}: {reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{format}");
        let reply = get(&server.url(&format!("/late{format}"))).await;
        assert_eq!(reply.status.as_u16(), 200, "{format}");
        assert!(matches!(reply.ended, Ended::Broken(_)), "{format}: {:?}", reply.ended);
        assert_eq!(rows(&server, "/well").await, json!([{"v": 1}]), "{format}");
    }
}

/// All rows arrive, each once, in every format.
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

/// A million rows are those of the series, and take no more memory than a few.
async fn a_million_rows_take_no_memory(db: &Held) {
    static EXPECTED: LazyLock<[u8; 32]> = LazyLock::new(|| {
        let mut digest = Sha256::new();
        (1..=MANY).for_each(|i| digest.update(format!("{{\"i\":{i},\"t\":\"row {i}\"}}\n")));
        digest.finalize().into()
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
    assert!(<[u8; 32]>::from(digest.finalize()) == *EXPECTED, "the rows are those of the series");
    let peak = peak_memory_bytes(server.pid());
    assert!(peak < CEILING, "the server took {peak} bytes");
}

/// From any row the rest follows, each row once.
async fn rows_are_resumed_from_a_cursor(db: &Held) {
    let sql = "/* key = [\"id\"]\nbody = { rows = \"$rows\", next = \"$next\" }\n[params]\nn = \"integer\" */\n\
               select id, name from item order by id limit :n";
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

/// Rows stand in the rows of others, merged as they come.
async fn statements_are_nested(db: &Held) {
    let sql = "/* body = \"$items\" */
-- name: items :many
select id from item where id <= 101 order by id;
-- name: parts :many nested in items on item = id
select item, number from part order by item, number";
    let server = db.serves(2, &[("nested", sql)]).await;
    let parts = |item: usize| (1..=300).filter(move |number| number % 100 + 1 == item);
    let part = |item| parts(item).map(|number| json!({"item": item, "number": number})).collect::<Vec<_>>();
    let expected: Vec<_> = (1..=101).map(|id| json!({"id": id, "parts": part(id)})).collect();
    assert_eq!(rows(&server, "/nested").await, json!(expected));
}

/// The statements of one body stand where its template says.
async fn bodies_have_their_templates(db: &Held) {
    let sql =
        "/* body = { _embedded = { items = \"$items\" }, first = \"$first\", total = \"$total\", n = 7 } */
-- name: items :many
select id from item where id <= 3 order by id;
-- name: first :one
select id, name from item where id = 1;
-- name: total :value
select count(*) from item";
    let server = db.serves(2, &[("whole", sql)]).await;
    let expected = json!({
        "_embedded": { "items": [{"id": 1}, {"id": 2}, {"id": 3}] },
        "first": {"id": 1, "name": "name 1"}, "total": ITEMS, "n": 7,
    });
    assert_eq!(rows(&server, "/whole").await, expected);
}

/// A limit that is not given is none, and an offset is 0.
async fn limits_may_be_absent(db: &Held) {
    let sql = "/*
[params]
n = { type = \"integer\", optional = true }
skip = { type = \"integer\", optional = true }
*/
select id from item where id <= 10 order by id limit :n offset :skip";
    let server = db.serves(2, &[("items", sql)]).await;
    for (query, expected) in
        [("", 1..11), ("?n=3", 1..4), ("?n=3&skip=2", 3..6), ("?skip=8", 9..11), ("?n=0", 1..1)]
    {
        let expected: Vec<_> = expected.map(|id| json!({ "id": id })).collect();
        assert_eq!(rows(&server, &format!("/items{query}")).await, json!(expected), "{query}");
    }
}

/// What is committed after the last row comes, too, in its order and once.
async fn new_rows_are_followed(db: &Held) {
    db.execute("create table event (id int primary key, what varchar(20))").await;
    db.execute("insert into event values (1, 'one')").await;
    let sql = "/* key = [\"id\"]\nfollow = { commits = \"ordered\", poll = \"20ms\" } */\n\
               select id, what from event order by id";
    let server = db.serves(2, &[("events", sql)]).await;
    let mut stream = Client::HTTP1.stream(&server.url("/events.ndjson?_follow=1")).await;
    let (mut expected, mut seen) = ("{\"id\":1,\"what\":\"one\"}\n".to_owned(), Vec::new());
    for id in [2, 3, 10] {
        db.execute(&format!("insert into event values ({id}, 'more')")).await;
        writeln!(expected, "{{\"id\":{id},\"what\":\"more\"}}").unwrap();
        while seen.len() < expected.len() {
            let chunk = tokio::time::timeout(SOON, stream.chunk()).await.expect("the row comes");
            seen.extend_from_slice(&chunk.expect("the stream goes on"));
        }
        assert_eq!(String::from_utf8_lossy(&seen), expected);
    }
}

/// What a database cannot do is refused by `check`, with the reason and what to do instead.
async fn what_cannot_be_done_is_refused(db: &Held) {
    let dialect = db.dialect();
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
        ("select id,\n nothing from item".into(), None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("endpoints")).unwrap();
        let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
        fs::write(folder.path().join("rowstream.toml"), config).unwrap();
        fs::write(folder.path().join("endpoints/e.sql"), &sql).unwrap();
        let said = rowstream(&["check", folder.path().join("rowstream.toml").to_str().unwrap()]).await;
        let words = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
        match refusal {
            Some(refusal) => {
                assert_eq!(said.status.code(), Some(1), "{sql}: {words}");
                assert!(words.contains(refusal.message) && words.contains(refusal.hint), "{sql}: {words}");
            }
            None if sql.contains("nothing") => {
                assert_eq!(said.status.code(), Some(1), "{sql}: {words}");
                assert!(words.contains("e.sql") && words.contains("nothing"), "{words}");
            }
            // Whether it can be done hangs on more than the database.
            None => {}
        }
    }
}

/// A client that leaves ends its statement in the database, and its connection serves the next.
async fn clients_that_leave_end_their_statements(db: &Held) {
    let server = db.serves(1, &[("endless", db.words().endless), ("well", "select 1 as v")]).await;
    for _ in 0..3 {
        let mut streaming = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
        streaming.at_least(100_000).await;
        drop(streaming);
        assert_eq!(rows(&server, "/well").await, json!([{"v": 1}]));
    }
    let deadline = Instant::now() + SOON;
    while db.running().await.is_some_and(|running| running > 0) {
        assert!(Instant::now() < deadline, "a statement runs on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Beyond the connections of the pool and those who may wait, requests are refused at once.
async fn pools_have_a_limit(db: &Held) {
    let endless = format!("/* slow_clients = \"hold\" */ {}", db.words().endless);
    let server = db.serves(1, &[("endless", &endless), ("well", "select 1 as v")]).await;
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

/// A connection that is cut is never a whole body, and one in small pieces is.
async fn connections_that_fail_are_never_a_whole_body(db: &Held) {
    let cut = |bytes| Faults { cut: Some((bytes, Cut::Reset)), ..Faults::default() };
    for bytes in [300_000, 900_000] {
        let Some((_proxy, url)) = db.proxied(cut(bytes)).await else { return };
        let server = serves(&url, 1, &[("items", ALL_ITEMS)]).await;
        for format in ["", ".ndjson", ".csv"] {
            let reply = get(&server.url(&format!("/items{format}"))).await;
            assert!(reply.status != 200 || reply.ended != Ended::Complete, "{bytes}{format}");
        }
    }
    let pieces = Some(Pieces { bytes: 1000, pause: Duration::ZERO });
    let Some((_proxy, url)) = db.proxied(Faults { pieces, ..Faults::default() }).await else { return };
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
    [sqlite postgres mariadb duckdb]
    values_are_the_same
    parameters_of_each_type_find_their_row
    errors_are_never_rows
    many_rows_are_these_rows
    a_million_rows_take_no_memory
    rows_are_resumed_from_a_cursor
    clients_that_leave_end_their_statements
    pools_have_a_limit
}

promises! {
    [sqlite postgres mariadb]
    statements_are_nested
    bodies_have_their_templates
    limits_may_be_absent
    new_rows_are_followed
    what_cannot_be_done_is_refused
}

promises! {
    [postgres mariadb]
    connections_that_fail_are_never_a_whole_body
}

// --- What each can do ----------------------------------------------------------------------------

/// The table in the documentation is what the dialects say.
#[test]
fn the_table_of_databases_is_what_they_can_do() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/reference/databases.md");
    let text = fs::read_to_string(page).unwrap();
    let table = table();
    assert!(text.contains(&table), "{page} should have this table:\n{table}");
}

fn table() -> String {
    use rowstream::sql::dialect::{CommitOrder, Comparison, Decimals, Location, Opens, ParameterTypes};
    fn yes<T, E>(can: &Result<T, E>) -> String {
        if can.is_ok() { "yes" } else { "no" }.to_owned()
    }
    type Line = (&'static str, fn(&Dialect) -> String);
    let lines: [Line; 14] = [
        ("schemes of its URLs", |dialect| {
            dialect.urls.schemes.iter().map(|scheme| format!("`{scheme}:`")).collect::<Vec<_>>().join(", ")
        }),
        ("is", |dialect| match dialect.urls.location {
            Location::Server => "a server".to_owned(),
            Location::File => "a file".to_owned(),
            Location::Driver => "what a driver reads".to_owned(),
        }),
        ("types of the parameters of `--sql`", |dialect| match dialect.parameter_types {
            ParameterTypes::Inferred => "the database's".to_owned(),
            ParameterTypes::Declared => "declared".to_owned(),
        }),
        ("decimals that are bound", |dialect| match dialect.decimals {
            Decimals::Exact => "exact".to_owned(),
            Decimals::Rounded => "floats beyond 64-bit integers".to_owned(),
        }),
        ("nested statements", |dialect| yes(&dialect.interleaved)),
        ("several statements of one snapshot", |dialect| yes(&dialect.snapshots)),
        ("keys of bytes", |dialect| yes(&dialect.keys.bytes)),
        ("keys are compared", |dialect| match dialect.keys.comparison {
            Comparison::RowValues => "as rows".to_owned(),
            Comparison::ByColumn => "column by column".to_owned(),
        }),
        ("live tail: keys in the order of commits", |dialect| match dialect.commits.order {
            CommitOrder::ByKey => "by itself".to_owned(),
            CommitOrder::IfPromised(_) => "`commits = \"ordered\"` promises it".to_owned(),
            CommitOrder::Unknown(_) => "no".to_owned(),
        }),
        ("live tail: `transaction`", |dialect| yes(&dialect.commits.transactions)),
        ("live tail: `channel`", |dialect| yes(&dialect.commits.channel)),
        ("`:refcursors` statements", |dialect| match dialect.refcursors {
            Ok(Opens::Refcursors) => "cursors, by name".to_owned(),
            Ok(Opens::Results) => "results of a `call`, in order".to_owned(),
            Err(_) => "no".to_owned(),
        }),
        ("`parallel` and `shards`", |dialect| yes(&dialect.parts)),
        ("tables without a file", |dialect| if dialect.catalog.is_some() { "yes" } else { "no" }.to_owned()),
    ];
    let dialects: Vec<_> = DatabaseKind::ALL.iter().map(|kind| kind.dialect()).collect();
    let names: Vec<_> = dialects.iter().map(|dialect| dialect.name).collect();
    let mut table = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for (what, says) in lines {
        let cells: Vec<_> = dialects.iter().map(|dialect| says(dialect)).collect();
        writeln!(table, "| {what} | {} |", cells.join(" | ")).unwrap();
    }
    table
}
