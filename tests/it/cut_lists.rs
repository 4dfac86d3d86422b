//! Lists, pages, lists in lists, shards and live tails, whose connections a proxy cuts at random
//! bytes. Each is continued after its last mark: no row is lost or doubled, and limits are kept.
//!
//! Only cuts before the end record count, and only those that a mark's cursor continued.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::net::SocketAddr;
use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::nested_pages::{AUTHORS, Library};
use crate::support::{Client, Cut, Ended, Faults, MariaDb, Server, TcpProxy, TestDb, get};

/// The file of SQLite.
const FILE: &str = "test.db";
/// The choices depend only on it.
const SEED: u64 = 20_261_128;
/// The cuts of each kind of list on each database that a mark continued.
const CUTS: usize = 39;
/// All cuts together.
const ALL_CUTS: usize = 500;
/// The rows of the table, some 30 bytes each.
const ROWS: u64 = 12_000;
/// Authors with their books, some 300 bytes each.
const WRITERS: u32 = 6_000;
/// The rows that are written while a tail is read, and those of one statement.
const NEW: u64 = 3_000;
const AT_ONCE: u64 = 150;
/// The most bytes between two cuts. A mark follows at most 1,000 rows.
const FLAT: u64 = 70_000;
const NESTED: u64 = 600_000;

const LIST: &str = "/* key = [\"id\"] */ select id, note from t order by id";
const PAGE: &str =
    "/* key = [\"id\"]\n[params]\nn = \"integer\" */ select id, note from t order by id limit :n";
const TAIL: &str =
    "/* key = [\"id\"]\nheartbeat = \"100ms\"\nfollow = { commits = \"ordered\", poll = \"20ms\" } */
    select id, note from tail order by id limit 700";
const SHARDS: &str = "/* shards = 3 */ select id, note from t";

/// A database with both tables and the library.
enum Database {
    Postgres(TestDb),
    MariaDb(MariaDb),
    Sqlite(TempDir),
}

impl Database {
    async fn all() -> [Self; 3] {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
        sqlite.pragma_update(None, "journal_mode", "wal").unwrap();
        let all = [
            Self::Postgres(TestDb::new().await),
            Self::MariaDb(MariaDb::new("select 1")),
            Self::Sqlite(folder),
        ];
        for database in &all {
            for table in ["t", "tail"] {
                database
                    .execute(&format!("create table {table} (id integer primary key, note varchar(20))"))
                    .await;
            }
            database.insert("t", 1..=ROWS).await;
            for sql in Library::new(WRITERS).statements {
                database.execute(&sql).await;
            }
        }
        all
    }

    fn url(&self) -> String {
        match self {
            Self::Postgres(db) => db.url(),
            Self::MariaDb(db) => db.url(),
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join(FILE).display()),
        }
    }

    async fn execute(&self, sql: &str) {
        match self {
            Self::Postgres(db) => db.execute(sql).await,
            Self::MariaDb(db) => db.execute(sql),
            Self::Sqlite(folder) => {
                let writer = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
                writer.busy_timeout(Duration::from_secs(30)).unwrap();
                writer.execute_batch(sql).unwrap();
            }
        }
    }

    async fn insert(&self, table: &str, ids: std::ops::RangeInclusive<u64>) {
        let rows: Vec<_> = ids.map(|id| format!("({id}, 'note {id}')")).collect();
        self.execute(&format!("insert into {table} values {}", rows.join(","))).await;
    }

    async fn server(&self) -> Server {
        let config = format!("[source.db]\nurl = \"{}\"\npool = {{ max = 8 }}\n", self.url());
        let mut files = vec![
            ("rowstream.toml", config.as_str()),
            ("endpoints/list.sql", LIST),
            ("endpoints/page.sql", PAGE),
            ("endpoints/tail.sql", TAIL),
            ("endpoints/authors.sql", AUTHORS),
        ];
        if self.has_shards() {
            files.push(("endpoints/shards.sql", SHARDS));
        }
        Server::start(&files).await
    }

    /// Only PostgreSQL's connections can share a snapshot.
    fn has_shards(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }
}

fn rows(ids: std::ops::RangeInclusive<u64>) -> Vec<Value> {
    ids.map(|id| json!({"id": id, "note": format!("note {id}")})).collect()
}

/// The numbers of the rows.
pub(crate) fn ids_of(rows: &[Value]) -> impl Iterator<Item = u64> {
    rows.iter().map(|row| row["id"].as_u64().unwrap())
}

/// The numbers of cuts.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    cuts: usize,
    /// Those that the cursor of a mark continued.
    pub(crate) continued: usize,
}

/// Reads lists through a proxy that cuts.
pub(crate) struct Reader {
    proxy: TcpProxy,
    random: fastrand::Rng,
    pub(crate) tally: Tally,
}

/// One list, over as many connections as it needs.
#[derive(Default)]
pub(crate) struct List {
    /// The rows before the last mark, or before the end.
    pub(crate) rows: Vec<Value>,
    /// The servers behind nginx that answered, one after another.
    pub(crate) servers: Vec<String>,
    after: Option<String>,
    has_mark: bool,
    end: Option<Value>,
}

impl Reader {
    pub(crate) async fn new(server: SocketAddr) -> Self {
        let proxy = TcpProxy::transparent(server).await;
        Self { proxy, random: fastrand::Rng::with_seed(SEED), tally: Tally::default() }
    }

    /// Reads a list after a cursor to its end, or until it has `enough` rows. Connections are cut
    /// within the first `most` bytes, or not at all if they have fewer.
    pub(crate) async fn read(
        &mut self,
        target: &str,
        after: Option<String>,
        enough: usize,
        most: u64,
    ) -> List {
        let mut list = List { after, ..List::default() };
        while list.end.is_none() && list.rows.len() < enough {
            let how = if self.random.bool() { Cut::Close } else { Cut::Reset };
            let cut = Some((self.random.u64(1..most), how));
            self.proxy.set_to_client(Faults { cut, ..Faults::default() });
            let after = list.after.as_ref().map(|after| format!("&_after={after}")).unwrap_or_default();
            let url = format!("http://{}{target}{after}", self.proxy.address());
            if list.receive(&url, enough).await {
                self.tally.cuts += 1;
                self.tally.continued += usize::from(list.has_mark);
            }
        }
        list
    }

    /// Reads pages of `limit` rows up to the last one, and compares them.
    async fn pages(&mut self, target: &str, limit: usize, most: u64, expected: &[Value]) {
        let (mut after, mut pages) = (None, expected.chunks(limit).peekable());
        while let Some(page) = pages.next() {
            let list = self.read(&format!("{target}&n={limit}"), after, usize::MAX, most).await;
            assert_same(&list.rows, page, target);
            let end = list.end.unwrap();
            let is_full = page.len() == limit;
            assert_eq!(end["page"], if is_full { "full" } else { "last" }, "{target}");
            assert!(is_full || pages.peek().is_none());
            after = Some(end["next"].as_str().unwrap().to_owned());
        }
    }

    /// Repeats `step` until there were enough cuts. Returns their number.
    async fn until_cut(&mut self, mut step: impl AsyncFnMut(&mut Self)) -> usize {
        let before = self.tally.continued;
        while self.tally.continued - before < CUTS {
            step(self).await;
        }
        self.tally.continued - before
    }
}

impl List {
    /// Reads one response. Returns true if it was cut before its end.
    async fn receive(&mut self, url: &str, enough: usize) -> bool {
        let request = Request::get(url).body(String::new()).unwrap();
        let Ok(mut stream) = Client::HTTP1.open(request).await else { return true };
        let tag = stream.headers.get("rowstream-tag").map(|tag| tag.to_str().unwrap().to_owned());
        let tag = tag.unwrap_or_else(|| panic!("{} for {url}", stream.status));
        self.servers.extend(stream.headers.get("upstream").map(|server| server.to_str().unwrap().to_owned()));
        let (mut text, mut pending) = (Vec::new(), Vec::new());
        loop {
            match stream.chunk().await {
                Ok(bytes) => text.extend_from_slice(&bytes),
                Err(ended) => {
                    assert_ne!(ended, Ended::Complete, "{url} has no end record");
                    return true;
                }
            }
            let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            for line in text.drain(..whole).as_slice().split(|&byte| byte == b'\n') {
                self.line(line, &tag, &mut pending);
            }
            if self.end.is_some() || self.rows.len() >= enough {
                return false;
            }
        }
    }

    fn line(&mut self, line: &[u8], tag: &str, pending: &mut Vec<Value>) {
        if line.is_empty() {
            return;
        }
        let record: Value = serde_json::from_slice(line).unwrap();
        if record["$rowstream"] != tag {
            pending.push(record);
        } else if let Some(next) = record["mark"]["next"].as_str() {
            self.after = Some(next.to_owned());
            self.has_mark = true;
            self.rows.append(pending);
        } else if let Some(end) = record.get("end") {
            self.rows.append(pending);
            self.end = Some(end.clone());
        } else {
            assert!(record["columns"].is_array(), "{record}");
        }
    }
}

#[track_caller]
fn assert_same(found: &[Value], expected: &[Value], what: &str) {
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    assert!(
        differs.is_none() && found.len() == expected.len(),
        "{what} with seed {SEED}: {} rows instead of {}, and row {differs:?} differs",
        found.len(),
        expected.len()
    );
}

/// The shards of one snapshot. Their rows have no order.
async fn shards(reader: &mut Reader, server: &Server) -> usize {
    let first = get(&server.url("/shards.ndjson?_shard=1/3")).await;
    let snapshot = first.header("rowstream-snapshot").unwrap().to_owned();
    let expected = rows(1..=ROWS);
    reader
        .until_cut(async |reader| {
            let mut all = Vec::new();
            for shard in 1..=3 {
                let target = format!("/shards.ndjson?_end=1&_shard={shard}/3&_snapshot={snapshot}");
                all.extend(reader.read(&target, None, usize::MAX, FLAT).await.rows);
            }
            all.sort_by_key(|row| row["id"].as_u64());
            assert_same(&all, &expected, "the shards");
        })
        .await
}

/// A tail, while rows are written.
async fn tail(reader: &mut Reader, database: &Database) -> usize {
    let mut last = 0;
    reader
        .until_cut(async |reader| {
            let (first, all) = (last + 1, last + NEW);
            let write = async {
                for id in (first..all).step_by(AT_ONCE as usize) {
                    database.insert("tail", id..=id + AT_ONCE - 1).await;
                    tokio::task::yield_now().await;
                }
            };
            let read = reader.read("/tail.ndjson?_end=1&_follow=1", None, all as usize, FLAT);
            let (list, ()) = tokio::join!(read, write);
            assert_same(&list.rows, &rows(1..=all), "the tail");
            last = all;
        })
        .await
}

/// Reads each kind of list with cuts.
async fn cuts_of(database: &Database, authors: &[Value]) -> Tally {
    let server = database.server().await;
    let mut reader = Reader::new(server.address().parse().unwrap()).await;
    let expected = rows(1..=ROWS);
    let mut cuts = vec![
        reader
            .until_cut(async |reader| {
                let list = reader.read("/list.ndjson?_end=1", None, usize::MAX, FLAT).await;
                assert_same(&list.rows, &expected, "the list");
            })
            .await,
        reader
            .until_cut(async |reader| {
                let limit = reader.random.usize(2000..7000);
                reader.pages("/page.ndjson?_end=1", limit, FLAT, &expected).await;
            })
            .await,
        reader
            .until_cut(async |reader| {
                let limit = reader.random.usize(2500..7000);
                reader.pages("/authors.ndjson?_end=1", limit, NESTED, authors).await;
            })
            .await,
        tail(&mut reader, database).await,
    ];
    if database.has_shards() {
        cuts.push(shards(&mut reader, &server).await);
    }
    println!(
        "{}: {:?}, cuts of lists, pages, nested pages, tails, shards: {cuts:?}",
        database.url(),
        reader.tally
    );
    reader.tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_cuts_lose_no_row_and_double_none() {
    let authors = Library::new(WRITERS).authors;
    let mut continued = 0;
    for database in &Database::all().await {
        continued += cuts_of(database, &authors).await.continued;
    }
    assert!(continued >= ALL_CUTS, "{continued} cuts were continued");
}
