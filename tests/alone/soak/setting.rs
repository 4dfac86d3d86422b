//! The databases, the server, and the expected responses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_ipc::reader::StreamReader;
use sha2::{Digest, Sha256};

use crate::support::{Client, Ended, Launch, Reply, Server, TcpProxy, TestDb, pg_port};

/// The rows of a list: more than the buffers of a stream, so that most lists are still being sent
/// when something happens.
pub(crate) const ROWS: usize = 20_000;
/// The number of rows that contain nested ones.
const PARENTS: usize = 2000;
/// The server's limit on streams. The next constant is the limit of each source's pool.
pub(crate) const MAX_STREAMS: usize = 48;
pub(crate) const PLACES: usize = 28;
/// Ends a client that reads nothing.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// PostgreSQL, PostgreSQL behind a proxy with faults, and SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Direct,
    Faulty,
    Lite,
}

impl Source {
    pub(crate) const ALL: [Self; 3] = [Self::Direct, Self::Faulty, Self::Lite];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Faulty => "faulty",
            Self::Lite => "lite",
        }
    }
}

/// The requests for complete results.
pub(crate) const SHAPES: [&str; 8] = [
    "rows.json",
    "rows.ndjson",
    "rows.ndjson?_end=1",
    "rows.csv",
    "rows.sse",
    "rows.json-seq?_end=1",
    "rows.arrow",
    "nested.json",
];

/// The settings that a reload changes.
pub(crate) struct Reloaded {
    /// In seconds.
    pub(crate) heartbeat: u64,
    /// A setting of the source `faulty`. Changing it replaces the source.
    pub(crate) statement_cache: usize,
    /// The longest duration of a response, and the longest time that a client may read nothing.
    pub(crate) total: Duration,
    pub(crate) write_timeout: Duration,
}

impl Default for Reloaded {
    fn default() -> Self {
        let total = Duration::from_secs(12);
        Self { heartbeat: 15, statement_cache: 1000, total, write_timeout: WRITE_TIMEOUT }
    }
}

/// The environment of a soak.
pub(crate) struct Setting {
    pub(crate) db: TestDb,
    pub(crate) server: Server,
    pub(crate) proxy: TcpProxy,
    /// The digest of a complete response, by target.
    whole: BTreeMap<&'static str, [u8; 32]>,
    /// The number of current bursts, and the end of the last one. Limits may be reached only during
    /// a burst and shortly after it.
    pub(crate) bursts: AtomicUsize,
    pub(crate) last_burst: Mutex<Option<Instant>>,
}

impl Setting {
    pub(crate) async fn start() -> Self {
        let db = TestDb::new().await;
        db.execute(&format!(
            "create table event as select i::bigint as n, 'event ' || i || repeat(' é\"', i % 9) || repeat('x', 40) as t
               from generate_series(1, {ROWS}) as i; alter table event add primary key (n); analyze event"
        ))
        .await;
        let proxy = TcpProxy::transparent(([127, 0, 0, 1], pg_port()).into()).await;
        let mut files = vec![("rowstream.toml".to_owned(), config(&db, &proxy, &Reloaded::default()))];
        files.push(("lite.sql".to_owned(), format!(
            "create table event (n integer primary key, t text);
             with recursive c(i) as (select 1 union all select i + 1 from c where i < {ROWS})
             insert into event select i, 'event ' || i || replace(hex(zeroblob(i % 9)), '00', ' é\"') || replace(hex(zeroblob(20)), '0', 'x') from c;
             pragma journal_mode = wal"
        )));
        for source in Source::ALL {
            files.extend(endpoints(source));
        }
        let files: Vec<_> = files.iter().map(|(name, text)| (&name[..], &text[..])).collect();
        let server = Launch::files(&files).argument("--log-format=off").start().await;
        Self {
            db,
            server,
            proxy,
            whole: BTreeMap::new(),
            bursts: AtomicUsize::new(0),
            last_burst: Mutex::new(None),
        }
    }

    /// Writes the configuration for the next reload.
    pub(crate) fn write_config(&self, reloaded: &Reloaded) {
        let text = config(&self.db, &self.proxy, reloaded);
        std::fs::write(self.server.folder().join("rowstream.toml"), text).expect("a file");
    }

    /// Requests the complete responses of each source while nothing fails, and compares them with
    /// the expected rows.
    pub(crate) async fn learn(&mut self) {
        let expected = expected_rows();
        for shape in SHAPES {
            for source in Source::ALL {
                let reply = Client::HTTP1.get(&self.url(source, shape)).await;
                assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{shape}");
                if let Some(rows) = rows_of(shape, &reply) {
                    assert!(rows == expected, "{source:?} {shape}");
                }
                let digest =
                    digest(shape, &reply, &reply.body).unwrap_or_else(|why| panic!("{shape}: {why}"));
                assert_eq!(*self.whole.entry(shape).or_insert(digest), digest, "{source:?} {shape}");
            }
        }
    }

    pub(crate) fn url(&self, source: Source, target: &str) -> String {
        self.server.url(&format!("/{}/{target}", source.name()))
    }

    /// Compares a complete body with the expected one.
    pub(crate) fn check(&self, shape: &str, reply: &Reply, body: &[u8]) -> Result<(), String> {
        match digest(shape, reply, body)? == self.whole[shape] {
            true => Ok(()),
            false => Err(format!("{} bytes that are not the result", body.len())),
        }
    }

    /// Returns true during and shortly after a burst, because its resources aren't free at once.
    pub(crate) fn is_crowded(&self) -> bool {
        let last = *self.last_burst.lock().expect("nobody panics with it");
        self.bursts.load(std::sync::atomic::Ordering::Relaxed) > 0
            || last.is_some_and(|last| last.elapsed() < Duration::from_secs(10))
    }
}

fn config(db: &TestDb, proxy: &TcpProxy, reloaded: &Reloaded) -> String {
    let Reloaded { heartbeat, statement_cache, total, write_timeout } = reloaded;
    let (total, write_timeout) = (total.as_secs(), write_timeout.as_secs());
    let pool =
        format!("pool = {{ max = {PLACES}, waiting = 40, acquire_timeout = \"5s\", idle_timeout = \"2s\" }}");
    let (direct, (faulty, name)) = (db.url(), (proxy.address(), db.name()));
    format!(
        // Unread rows of slow clients wait in files while there's space. There isn't enough for all
        // of them, or for an endless one.
        "max_streams = {MAX_STREAMS}\nslow_clients = \"spill\"\nspool_limit = \"4MiB\"\nspool_quota = \"32MiB\"\nheartbeat = \"{heartbeat}s\"\ncompression = \"on\"\nwrite_timeout = \"{write_timeout}s\"
timeout = {{ first_row = \"8s\", total = \"{total}s\" }}\n
[source.direct]\nurl = \"{direct}\"\n{pool}
[source.faulty]\nurl = \"postgres://postgres@{faulty}/{name}?sslmode=disable\"\n{pool}\nstatement_cache = {statement_cache}
[source.lite]\nurl = \"sqlite:lite.db\"\ncreate = [\"lite.sql\"]\n{pool}\n"
    )
}

fn endpoints(source: Source) -> Vec<(String, String)> {
    let name = source.name();
    let endless = match source {
        Source::Lite => {
            "with recursive c(i) as (select 1 union all select i + 1 from c) select i as n, printf('%100d', i) as t from c"
        }
        _ => "select generate_series(1, 100000000) as n, repeat('x', 100) as t",
    };
    let file = |file: &str, front: &str, sql: &str| {
        (format!("endpoints/{name}/{file}.sql"), format!("/*\nsource = \"{name}\"\n{front}\n*/\n{sql}"))
    };
    vec![
        file("event/{id}", "result = \"one\"\n[params]\nid = \"integer\"", "select n, t from event where n = :id"),
        file("rows", "key = [\"n\"]", "select n, t from event order by n"),
        file(
            "nested",
            "",
            &format!(
                "-- name: parents :many\nselect n from event where n <= {PARENTS} order by n;\n
                 -- name: children :many nested in parents on parent = n\nselect (n + 4) / 5 as parent, t from event
                 where n <= {PARENTS} * 5 order by n"
            ),
        ),
        file("endless", "", endless),
    ]
}

/// The expected rows as NDJSON, computed from their numbers.
fn expected_rows() -> Vec<u8> {
    let mut text = String::new();
    for n in 1..=ROWS {
        let _ = writeln!(text, "{}", row(n));
    }
    text.into_bytes()
}

/// One row as JSON.
pub(crate) fn row(n: usize) -> String {
    format!("{{\"n\":{n},\"t\":\"event {n}{}{}\"}}", " é\\\"".repeat(n % 9), "x".repeat(40))
}

/// The rows of a response as NDJSON, for shapes that can be converted.
fn rows_of(shape: &str, reply: &Reply) -> Option<Vec<u8>> {
    let text = || std::str::from_utf8(&reply.body).expect("it is UTF-8");
    let rows: String = match shape {
        "rows.ndjson" => text().to_owned(),
        "rows.json" => {
            let inner = text().strip_prefix('[').and_then(|text| text.strip_suffix(']')).expect("a list");
            inner.replace("\"},{\"", "\"}\n{\"") + "\n"
        }
        "rows.ndjson?_end=1" => lines(text(), |line| (!line.contains("\"$rowstream\"")).then_some(line)),
        "rows.json-seq?_end=1" => {
            lines(text(), |line| line.strip_prefix('\u{1e}').filter(|line| !line.contains("\"$rowstream\"")))
        }
        "rows.sse" => lines(text(), |line| line.strip_prefix("data: ")),
        "rows.csv" => {
            let mut rows = String::new();
            for record in csv::Reader::from_reader(&reply.body[..]).records() {
                let record = record.expect("a record");
                let _ =
                    writeln!(rows, "{{\"n\":{},\"t\":\"{}\"}}", &record[0], record[1].replace('"', "\\\""));
            }
            rows
        }
        _ => return None,
    };
    Some(rows.into_bytes())
}

fn lines<'a>(text: &'a str, keep: impl Fn(&'a str) -> Option<&'a str>) -> String {
    text.lines().filter_map(keep).fold(String::new(), |all, line| all + line + "\n")
}

/// The digest of a response's contents, without the parts that vary: tags, marks, cursors,
/// heartbeats, and the boundaries of batches.
///
/// # Errors
/// It has no end mark, although its shape has one.
fn digest(shape: &str, reply: &Reply, body: &[u8]) -> Result<[u8; 32], String> {
    let mut digest = Sha256::new();
    match shape.split(['.', '?']).nth(1) {
        Some("arrow") => arrow(body, &mut digest)?,
        Some("ndjson" | "json-seq" | "sse") => {
            let tag = reply.header("rowstream-tag").unwrap_or("no tag");
            let mut end = !shape.ends_with("_end=1");
            for line in body.split_inclusive(|&byte| byte == b'\n') {
                let is_record = memchr::memmem::find(line, tag.as_bytes()).is_some();
                end |= is_record
                    && memchr::memmem::find(line, format!("\"end\":{{\"rows\":{ROWS}").as_bytes()).is_some();
                if !is_record && line != b":\n" && line != b"\n" && !line.starts_with(b"id: ") {
                    digest.update(line);
                }
            }
            if !end {
                return Err("there is no record of the end".to_owned());
            }
        }
        _ => digest.update(body),
    }
    Ok(digest.finalize().into())
}

fn arrow(body: &[u8], digest: &mut Sha256) -> Result<(), String> {
    if !body.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]) {
        return Err("there is no end-of-stream marker".to_owned());
    }
    for batch in StreamReader::try_new(body, None).map_err(|fault| fault.to_string())? {
        let batch = batch.map_err(|fault| fault.to_string())?;
        let (numbers, texts) =
            (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
        for (n, t) in numbers.values().iter().zip(texts.iter()) {
            digest.update(n.to_le_bytes());
            digest.update(t.unwrap_or_default());
        }
    }
    Ok(())
}
