//! What every database promises: one list of promises, and one of databases, each of which keeps
//! all of them. A database that is new gets a variant of [`Held`] and a line at the end.
//!
//! What only one of them does, and what values of its own types become, stands in the modules of
//! the databases.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rowstream::database::DatabaseKind;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::support::{
    Client, Cut, Ended, Faults, MariaDb, Pieces, Server, TcpProxy, TestDb, get, mariadb_port, pg_port,
};

/// Longer than a pool takes to bring a connection back (2 s), shorter than a test that hangs.
const SOON: Duration = Duration::from_secs(10);
const ITEMS: usize = 50_000;
const UUID: &str = "5f0c5f0c-0000-4000-8000-000000000001";

/// A database of one test's own.
enum Held {
    Sqlite(TempDir),
    Postgres(TestDb),
    MariaDb(MariaDb),
}

/// What the schema has of each database's own: types, the rows of a series, and what follows the
/// name of the table in `insert`.
struct Words {
    decimal: &'static str,
    boolean: &'static str,
    instant: &'static str,
    uuid: &'static str,
    insert_items: String,
    /// Fails at the row with this number, and is a number otherwise.
    fails_at: fn(usize) -> String,
    /// Rows for a long time.
    endless: &'static str,
    /// What a true boolean is in JSON.
    yes: &'static str,
    /// Whether an integer `i` is in the list `:v`.
    in_list: &'static str,
}

impl Held {
    fn words(&self) -> Words {
        match self {
            Self::Sqlite(_) => Words {
                decimal: "decimal",
                boolean: "boolean",
                instant: "timestamptz",
                uuid: "uuid",
                insert_items: format!(
                    "with recursive n(i) as (select 1 union all select i + 1 from n where i < {ITEMS})
                     insert into item select i, 'name ' || i from n"
                ),
                fails_at: |n| format!("case when id = {n} then json('{{') else 1 end"),
                endless: "with recursive n(i) as (select 1 union all select i + 1 from n)
                     select i, 'some more text for each of the rows' as t from n",
                yes: "true",
                in_list: "i in (select value from json_each(:v))",
            },
            Self::Postgres(_) => Words {
                decimal: "decimal(20, 1)",
                boolean: "boolean",
                instant: "timestamptz",
                uuid: "uuid",
                insert_items: format!(
                    "insert into item select i, 'name ' || i from generate_series(1, {ITEMS}) i"
                ),
                fails_at: |n| format!("1 / (id - {n})"),
                endless: "select i, 'some more text for each of the rows' as t from generate_series(1, 100000000) i",
                yes: "true",
                in_list: "i = any(:v)",
            },
            Self::MariaDb(_) => Words {
                decimal: "decimal(20, 1)",
                boolean: "boolean",
                instant: "timestamp(6)",
                uuid: "uuid",
                insert_items: format!(
                    "insert into item select seq, concat('name ', seq) from seq_1_to_{ITEMS}"
                ),
                fails_at: |n| format!("if(id = {n}, (select seq from seq_1_to_2 where seq <= id + 1), 1)"),
                endless: "select seq as i, 'some more text for each of the rows' as t from seq_1_to_100000000",
                yes: "1",
                in_list: "i in (select v from json_table(:v, '$[*]' columns (v bigint path '$')) as l)",
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

    async fn filled(self) -> Self {
        let Words { decimal, boolean, instant, uuid, insert_items, .. } = self.words();
        let zone = if matches!(self, Self::Sqlite(_)) { "Z" } else { "" };
        self.execute(&format!(
            "create table item (id integer primary key, name varchar(40) not null);
             {insert_items};
             create table part (item integer not null, number integer not null, primary key (item, number));
             insert into part select id % 100 + 1, id from item where id <= 300;
             create table typed (i bigint, n {decimal}, t varchar(40), b {boolean}, d date, z {instant}, u {uuid}, e integer);
             insert into typed values (9007199254740993, 1234.5, 'it''s \"x\" ü 😀', true, '2024-02-29',
               '2024-02-29 12:00:00.25{zone}', '{UUID}', null)"
        ))
        .await;
        self
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
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("a.db").display()),
            Self::Postgres(db) => db.url(),
            Self::MariaDb(db) => db.url(),
        }
    }

    /// The same by way of a proxy; `None` for a file.
    async fn proxied(&self, faults: Faults) -> Option<(TcpProxy, String)> {
        let port = match self {
            Self::Sqlite(_) => return None,
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

    /// How many statements run in the database, other than the one that asks; `None` for a library.
    async fn running(&self) -> Option<i64> {
        match self {
            Self::Sqlite(_) => None,
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
    let expected = format!(
        r#"[{{"i":9007199254740993,"n":1234.5,"t":"it's \"x\" ü 😀","b":{},"d":"2024-02-29","z":"2024-02-29T12:00:00.25Z","u":"{UUID}","e":null}}]"#,
        db.words().yes
    );
    assert_eq!(get(&server.url("/typed")).await.text(), expected);
}

/// A parameter of each type finds its row, and no other.
async fn parameters_of_each_type_find_their_row(db: &Held) {
    let in_list = db.words().in_list;
    let cases = [
        ("integer", "i = :v", "9007199254740993", "9007199254740992"),
        ("number", "n = :v", "1234.5", "1234.6"),
        ("text", "t = :v", "it%27s%20%22x%22%20%C3%BC%20%F0%9F%98%80", "it%27s"),
        ("boolean", "b = :v", "true", "false"),
        ("date", "d = :v", "2024-02-29", "2024-02-28"),
        ("uuid", "u = :v", UUID, "5f0c5f0c-0000-4000-8000-000000000002"),
        ("integer[]", in_list, "1,9007199254740993", "1,2"),
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
    for (at, wrong) in [(0, "x"), (1, "x"), (3, "maybe"), (4, "2024-02-30"), (5, "x"), (6, "1,x")] {
        let reply = get(&server.url(&format!("/p{at}?v={wrong}"))).await;
        assert_eq!(reply.status.as_u16(), 400, "{wrong}: {}", reply.text());
    }
}

/// An error before the first row has a status; one after it breaks the body; the connection lives
/// on.
async fn errors_are_never_rows(db: &Held) {
    let failing = |at| format!("select id, {} as v from item", (db.words().fails_at)(at));
    let (early, late) = (failing(1), failing(ITEMS - 10));
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
    [sqlite postgres mariadb]
    values_are_the_same
    parameters_of_each_type_find_their_row
    errors_are_never_rows
    many_rows_are_these_rows
    rows_are_resumed_from_a_cursor
    statements_are_nested
    clients_that_leave_end_their_statements
    pools_have_a_limit
    connections_that_fail_are_never_a_whole_body
}

// --- What each can do ----------------------------------------------------------------------------

/// The table in the documentation is what the dialects say.
#[test]
fn the_table_of_databases_is_what_they_can_do() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/reference/databases.md");
    let text = std::fs::read_to_string(page).unwrap();
    let table = table();
    assert!(text.contains(&table), "{page} should have this table:\n{table}");
}

fn table() -> String {
    use rowstream::sql::dialect::{Comparison, Decimals, Dialect, Location, Opens, ParameterTypes};
    fn yes<T, E>(can: &Result<T, E>) -> String {
        if can.is_ok() { "yes" } else { "no" }.to_owned()
    }
    type Line = (&'static str, fn(&Dialect) -> String);
    let lines: [Line; 12] = [
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
        ("keys of bytes", |dialect| yes(&dialect.keys.bytes)),
        ("keys are compared", |dialect| match dialect.keys.comparison {
            Comparison::RowValues => "as rows".to_owned(),
            Comparison::ByColumn => "column by column".to_owned(),
        }),
        ("live tail: keys in the order of commits", |dialect| match dialect.commits.ordered {
            Ok(()) => "by itself".to_owned(),
            Err(refusal) if refusal.hint.contains("ordered") => {
                "`commits = \"ordered\"` promises it".to_owned()
            }
            Err(_) => "no".to_owned(),
        }),
        ("live tail: `transaction`", |dialect| yes(&dialect.commits.transactions)),
        ("live tail: `channel`", |dialect| yes(&dialect.commits.channel)),
        ("`:refcursors` statements", |dialect| match dialect.refcursors {
            Ok(Opens::Refcursors) => "cursors, by name".to_owned(),
            Ok(Opens::Results) => "results of a `call`, in order".to_owned(),
            Err(_) => "no".to_owned(),
        }),
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
