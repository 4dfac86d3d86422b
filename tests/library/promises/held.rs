//! The tests' databases: creating, filling and querying them in each way, and the SQL that each
//! needs for the same result.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use rowstream::database::DatabaseKind;
use tempfile::TempDir;

use super::ways::{Engine, Way};
use super::{ITEMS, UUID};
use crate::support::{
    Faults, MariaDb, Sail, SailMode, Server, TcpProxy, TestDb, drivers, mariadb_port, pg_port, program,
};

/// A database for a single test, with the way to query it. Sail is an exception: it starts slowly,
/// so all tests share one.
pub(super) struct Held {
    pub(super) way: Way,
    data: Data,
}

enum Data {
    /// The folder of a file.
    File(TempDir),
    Postgres(TestDb),
    MariaDb(MariaDb),
    Sail(&'static Sail),
}

/// The parts of statements that differ between databases: types, the rows of a series, and the text
/// after the table's name in `insert`.
pub(super) struct Words {
    decimal: &'static str,
    float: &'static str,
    instant: &'static str,
    datetime: &'static str,
    time: &'static str,
    uuid: &'static str,
    bytes: &'static str,
    /// Two bytes, 0x68 and 0x69.
    two_bytes: &'static str,
    document: &'static str,
    insert_items: String,
    /// Rows of `i` and `t`, ordered by `i`. `most` is the number of rows.
    pub(super) series: &'static str,
    /// An expression that fails at the row with this number, and is a number otherwise.
    pub(super) fails_at: fn(usize) -> String,
    /// Produces rows for a long time.
    pub(super) endless: &'static str,
    /// True if an integer `i` is in the list `:v`.
    pub(super) in_list: &'static str,
    /// True if the instant `z` is `:v`.
    pub(super) at_instant: &'static str,
    /// True if `:v` is a document whose member `a` is 1.
    pub(super) is_document: &'static str,
    /// True if `:v` is a duration of 90 minutes.
    pub(super) is_duration: &'static str,
    /// True if the UUID `u` is `:v`.
    pub(super) is_uuid: &'static str,
}

impl Engine {
    pub(super) fn words(self) -> Words {
        match self {
            Self::Sqlite => Words {
                decimal: "decimal",
                float: "double precision",
                instant: "timestamptz",
                datetime: "timestamp",
                time: "time",
                uuid: "uuid",
                bytes: "blob",
                two_bytes: "x'6869'",
                document: "json",
                insert_items: format!(
                    "with recursive n(i) as (select 1 union all select i + 1 from n where i < {ITEMS})
                     insert into item select i, 'name ' || i from n"
                ),
                series: "with recursive n(i) as (select 1 union all select i + 1 from n where i < most)
                     select i, 'row ' || i as t from n",
                fails_at: |n| format!("case when i = {n} then json('{{') else 1 end"),
                endless: "with recursive n(i) as (select 1 union all select i + 1 from n)
                     select i, 'some more text for each of the rows' as t from n",
                in_list: "i in (select value from json_each(:v))",
                at_instant: "strftime('%Y-%m-%d %H:%M:%f', z) = strftime('%Y-%m-%d %H:%M:%f', :v)",
                is_document: "json_extract(:v, '$.a') = 1",
                is_duration: "'PT1H30M' = :v",
                is_uuid: "u = :v",
            },
            Self::Postgres => Words {
                decimal: "decimal(20, 1)",
                float: "double precision",
                instant: "timestamptz",
                datetime: "timestamp",
                time: "time",
                uuid: "uuid",
                bytes: "bytea",
                two_bytes: r"'\x6869'",
                document: "json",
                insert_items: format!(
                    "insert into item select i, 'name ' || i from generate_series(1, {ITEMS}) i"
                ),
                series: "select i, 'row ' || i as t from generate_series(1, most) i",
                fails_at: |n| format!("1 / (i - {n})"),
                endless: "select generate_series(1, 1000000000) as i, 'some more text for each of the rows' as t",
                in_list: "i = any(:v)",
                at_instant: "z = :v",
                is_document: "(:v::json ->> 'a')::int = 1",
                is_duration: "interval '90 minutes' = :v",
                is_uuid: "u = :v",
            },
            Self::MariaDb => Words {
                decimal: "decimal(20, 1)",
                float: "double precision",
                instant: "timestamp(6)",
                datetime: "datetime(6)",
                time: "time(6)",
                uuid: "uuid",
                bytes: "blob",
                two_bytes: "x'6869'",
                document: "json",
                insert_items: format!(
                    "insert into item select seq, concat('name ', seq) from seq_1_to_{ITEMS}"
                ),
                series: "select seq as i, concat('row ', seq) as t from seq_1_to_most",
                fails_at: |n| format!("if(i = {n}, (select seq from seq_1_to_2 where seq <= i + 1), 1)"),
                endless: "select seq as i, 'some more text for each of the rows' as t from seq_1_to_1000000000",
                in_list: "i in (select v from json_table(:v, '$[*]' columns (v bigint path '$')) as l)",
                at_instant: "z = :v",
                is_document: "json_value(:v, '$.a') = 1",
                is_duration: ":v in ('PT1H30M', '1:30:00.000000')",
                is_uuid: "u = :v",
            },
            Self::DuckDb => Words {
                decimal: "decimal(20, 1)",
                float: "double precision",
                instant: "timestamptz",
                datetime: "timestamp",
                time: "time",
                uuid: "uuid",
                bytes: "blob",
                two_bytes: r"'\x68\x69'",
                document: "json",
                insert_items: format!(
                    "insert into item select range, 'name ' || range from range(1, {ITEMS} + 1)"
                ),
                series: "select range as i, 'row ' || range as t from range(1, most + 1)",
                fails_at: |n| format!("case when i = {n} then error('no') else 1 end"),
                endless: "select range as i, 'some more text for each of the rows' as t from range(100000000000)",
                in_list: "list_contains(:v, i)",
                at_instant: "z = :v",
                is_document: "json_extract(:v, '$.a') = 1",
                is_duration: "'PT1H30M' = :v",
                is_uuid: "u = :v",
            },
            // It has no types for times or UUIDs. The order of rows depends on its threads.
            Self::Sail => Words {
                decimal: "decimal(20, 1)",
                float: "double",
                instant: "timestamp",
                datetime: "timestamp_ntz",
                time: "string",
                uuid: "string",
                bytes: "binary",
                two_bytes: "X'6869'",
                document: "string",
                insert_items: format!(
                    "insert into item select cast(id as int), concat('name ', id) from range(1, {ITEMS} + 1)"
                ),
                series: "select id as i, concat('row ', id) as t from range(1, most + 1) order by i",
                fails_at: |n| format!("case when i = {n} then raise_error('no') else 1 end"),
                endless: "select id as i, 'some more text for each of the rows' as t from range(1, 100000000000)",
                in_list: "array_contains(:v, i)",
                at_instant: "z = :v",
                is_document: "get_json_object(:v, '$.a') = 1",
                is_duration: "'PT1H30M' = :v",
                is_uuid: "u = :v",
            },
        }
    }

    /// The statements that create and fill the tables.
    fn schema(self) -> String {
        let Words {
            decimal,
            float,
            instant,
            datetime,
            time,
            uuid,
            bytes,
            two_bytes,
            document,
            insert_items,
            ..
        } = self.words();
        let zone = if self == Self::Sqlite { "Z" } else { "" };
        // Sail's escape of a quote in a text isn't an escape for us.
        let quoted = match self {
            Self::Sail => "concat('it', chr(39), 's \"x\" ü 😀')",
            _ => "'it''s \"x\" ü 😀'",
        };
        // Sail has no keys.
        let (key, keys) = match self {
            Self::Sail => ("not null", ""),
            _ => ("primary key", ", primary key (item, number)"),
        };
        format!(
            "create table item (id integer {key}, name varchar(40) not null);
             {insert_items};
             create table part (item integer not null, number integer not null{keys});
             insert into part select id % 100 + 1, id from item where id <= 300;
             create table typed (i bigint, n {decimal}, t varchar(40), b boolean, d date, z {instant}, u {uuid}, e integer,
               s smallint, f {float}, x {bytes}, l {datetime}, c {time}, j {document});
             insert into typed values (9007199254740993, 1234.5, {quoted}, true, '2024-02-29',
               '2024-02-29 12:00:00.25{zone}', '{UUID}', null, -32768, 0.1, {two_bytes}, '2024-02-29 12:00:00.25',
               '12:00:00.5', '{{\"a\": [1, 2.50]}}')"
        )
    }
}

impl Held {
    pub(super) async fn sqlite() -> Self {
        Self::of(Engine::Sqlite, DatabaseKind::Sqlite).await
    }

    pub(super) async fn postgres() -> Self {
        Self::of(Engine::Postgres, DatabaseKind::Postgres).await
    }

    pub(super) async fn mariadb() -> Self {
        Self::of(Engine::MariaDb, DatabaseKind::Mysql).await
    }

    pub(super) async fn duckdb() -> Self {
        Self::of(Engine::DuckDb, DatabaseKind::Adbc).await
    }

    pub(super) async fn sail() -> Self {
        Self::of(Engine::Sail, DatabaseKind::Flight).await
    }

    pub(super) async fn sail_by_wheel() -> Self {
        Self::of(Engine::Sail, DatabaseKind::Adbc).await
    }

    pub(super) async fn postgresql_by_wheel() -> Self {
        Self::of(Engine::Postgres, DatabaseKind::Adbc).await
    }

    pub(super) async fn odbc_postgresql() -> Self {
        Self::of(Engine::Postgres, DatabaseKind::Odbc).await
    }

    pub(super) async fn odbc_mariadb() -> Self {
        Self::of(Engine::MariaDb, DatabaseKind::Odbc).await
    }

    pub(super) async fn odbc_sqlite() -> Self {
        Self::of(Engine::Sqlite, DatabaseKind::Odbc).await
    }

    async fn of(engine: Engine, by: DatabaseKind) -> Self {
        let data = match engine {
            Engine::Sqlite | Engine::DuckDb => Data::File(tempfile::tempdir().unwrap()),
            Engine::Postgres => Data::Postgres(TestDb::new().await),
            Engine::MariaDb => Data::MariaDb(MariaDb::new("select 1")),
            Engine::Sail => Data::Sail(tokio::task::spawn_blocking(|| &*SAIL).await.unwrap()),
        };
        let held = Self { way: Way::of(engine, by), data };
        match engine {
            Engine::Sail => {}
            Engine::DuckDb => {
                let template = tokio::task::spawn_blocking(|| TEMPLATE.path()).await.unwrap();
                held.copy_from(template);
            }
            _ => held.execute(&engine.schema()).await,
        }
        held
    }

    /// Copies the database, including its log.
    fn copy_from(&self, template: &Path) {
        for file in fs::read_dir(template).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), self.folder().join(file.file_name())).unwrap();
        }
    }

    pub(super) fn words(&self) -> Words {
        let words = self.way.engine.words();
        match (self.way.engine, self.way.by) {
            // These drivers read all rows before they return the first one, so more wouldn't fit
            // into memory.
            (Engine::Sqlite, DatabaseKind::Odbc) => Words {
                endless: "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
                     select i, 'some more text for each of the rows' as t from n",
                ..words
            },
            (Engine::MariaDb, DatabaseKind::Odbc) => Words {
                endless: "select seq as i, 'some more text for each of the rows' as t from seq_1_to_300000",
                ..words
            },
            // The driver sends texts with the type text.
            (Engine::Postgres, DatabaseKind::Adbc) => Words {
                is_uuid: "u = cast(:v as uuid)",
                is_duration: "interval '90 minutes' = cast(:v as interval)",
                ..words
            },
            _ => words,
        }
    }

    fn folder(&self) -> &Path {
        match &self.data {
            Data::File(folder) => folder.path(),
            _ => unreachable!("it is no file"),
        }
    }

    pub(super) async fn execute(&self, sql: &str) {
        match (&self.data, self.way.engine) {
            (Data::Postgres(db), _) => db.execute(&format!("set time zone 'UTC'; {sql}")).await,
            (Data::MariaDb(db), _) => db.execute(&format!("set time_zone = '+00:00'; {sql}")),
            (Data::File(folder), Engine::DuckDb) => run_each(&duckdb_url(folder.path()), sql),
            (Data::Sail(sail), _) => run_each(&sail.url(), sql),
            (Data::File(folder), _) => {
                let sql = sql.to_owned();
                let path = folder.path().join("a.db");
                let run = move || rusqlite::Connection::open(path).unwrap().execute_batch(&sql).unwrap();
                tokio::task::spawn_blocking(run).await.unwrap();
            }
        }
    }

    /// The URL for tests that only read.
    pub(super) fn url(&self) -> String {
        self.url_at(self.port())
    }

    /// The server's port, if it has one.
    fn port(&self) -> u16 {
        match &self.data {
            Data::File(_) => 0,
            Data::Postgres(_) => pg_port(),
            Data::MariaDb(_) => mariadb_port(),
            Data::Sail(sail) => sail.port(),
        }
    }

    fn url_at(&self, port: u16) -> String {
        match (&self.data, self.way.by) {
            (Data::File(folder), DatabaseKind::Odbc) => drivers::odbc_sqlite(&folder.path().join("a.db")),
            (Data::File(folder), DatabaseKind::Adbc) => duckdb_url(folder.path()) + "&access_mode=READ_ONLY",
            (Data::File(folder), _) => format!("sqlite:{}", folder.path().join("a.db").display()),
            (Data::Postgres(db), DatabaseKind::Odbc) => drivers::odbc_postgres(db.name(), port),
            (Data::Postgres(db), DatabaseKind::Adbc) => drivers::adbc_postgres(db.name(), port),
            (Data::Postgres(db), _) => db.url().replace(&format!(":{}/", pg_port()), &format!(":{port}/")),
            (Data::MariaDb(db), DatabaseKind::Odbc) => drivers::odbc_mariadb(db.name(), port),
            (Data::MariaDb(db), _) => db.url_at(port),
            (Data::Sail(_), DatabaseKind::Adbc) => drivers::adbc_flight(port),
            (Data::Sail(_), _) => format!("flightsql://127.0.0.1:{port}"),
        }
    }

    /// The same through a proxy.
    pub(super) async fn proxied(&self, faults: Faults) -> (TcpProxy, String) {
        let server = SocketAddr::from(([127, 0, 0, 1], self.port()));
        let proxy = TcpProxy::to_client(server, faults).await;
        let url = self.url_at(proxy.port());
        (proxy, url)
    }

    /// A server with these endpoints: paths and statements. `pool` is the maximum number of
    /// connections.
    pub(super) async fn serves(&self, pool: usize, endpoints: &[(&str, &str)]) -> Server {
        serves(&self.url(), pool, endpoints).await
    }

    /// The number of running statements in the database, without this query. `None` if it can't be
    /// queried.
    pub(super) async fn running(&self) -> Option<i64> {
        match &self.data {
            Data::File(_) | Data::Sail(_) => None,
            Data::Postgres(db) => {
                let sql = "select count(*) from pg_stat_activity where datname = current_database() and state = 'active'
                           and pid <> pg_backend_pid()";
                Some(db.client().await.query_one(sql, &[]).await.unwrap().get(0))
            }
            Data::MariaDb(db) => {
                let sql =
                    "select count(*) from information_schema.processlist where db = database() and command in
                           ('Execute', 'Query', 'Fetch') and id <> connection_id()";
                Some(db.ask(sql).trim().parse().unwrap())
            }
        }
    }
}

/// A DuckDB that's filled once and copied by each test, because its driver runs one statement at a
/// time.
static TEMPLATE: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    run_each(&duckdb_url(folder.path()), &Engine::DuckDb.schema());
    folder
});

/// The server of all tests that use Sail.
static SAIL: LazyLock<Sail> = LazyLock::new(|| {
    let sail = Sail::start(SailMode::Local);
    run_each(&sail.url(), &Engine::Sail.schema());
    sail
});

/// Runs statements one by one.
fn run_each(url: &str, sql: &str) {
    for statement in sql.split(';') {
        let mut command = Command::new(program());
        let output = command.args(["query", url, statement]).output().unwrap();
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn duckdb_url(folder: &Path) -> String {
    let (library, file) = (drivers::duckdb(), folder.join("a.duckdb"));
    format!("adbc:{library}?entrypoint=duckdb_adbc_init&path={}", file.display())
}

pub(super) async fn serves(url: &str, pool: usize, endpoints: &[(&str, &str)]) -> Server {
    let config = config(url, pool);
    let named: Vec<_> = endpoints.iter().map(|(name, sql)| (format!("endpoints/{name}.sql"), *sql)).collect();
    let mut files = vec![("rowstream.toml", config.as_str())];
    files.extend(named.iter().map(|(name, sql)| (name.as_str(), *sql)));
    Server::start(&files).await
}

pub(super) fn config(url: &str, pool: usize) -> String {
    format!(
        "write_timeout = \"1h\"\n[source.db]\nurl = \"{url}\"\npool = {{ max = {pool}, waiting = 1, acquire_timeout = \"10s\" }}\n"
    )
}
