//! The clients' view of an incomplete response, directly and through proxies: never a success
//! with fewer rows.
//!
//! A client succeeds if the status is 200, it saw no failure, and the end mark is present if the
//! format has one or the request asked for it. If there's no end mark and a proxy hides the abort,
//! `streams/{id}` has to report it. The results are the table in `docs/src/explanation/clients.md`.
//! This test writes the table if `ROWSTREAM_WRITE_DOCS` is set, and otherwise compares the clients
//! with it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Browser, Cut, Faults, Hop, Launch, Server, TcpProxy, TestDb, get, pg_port, repository};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// More than sockets and proxies buffer, so that a failure happens during the transfer.
const ROWS: u64 = 40_000;
/// The position in the rows where a connection to the database is cut.
const CUT_AFTER: u64 = 1_500_000;

/// A client's requests: a format, and its path.
const FORMATS: [(&str, &str); 8] = [
    ("json", "rows.json"),
    ("template", "template.json"),
    ("ndjson", "rows.ndjson"),
    ("ndjson, framed", "rows.ndjson?_end=1"),
    ("csv", "rows.csv"),
    ("sse", "rows.sse"),
    ("sse, framed", "rows.sse?_end=1"),
    ("arrow", "rows.arrow"),
];

/// The fault of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Nothing,
    DatabaseCloses,
    DatabaseResets,
    DatabaseStalls,
    StatementFails,
    BackendTerminated,
    ServerKilled,
}

impl Fault {
    const ALL: [Self; 7] = [
        Self::Nothing,
        Self::DatabaseCloses,
        Self::DatabaseResets,
        Self::DatabaseStalls,
        Self::StatementFails,
        Self::BackendTerminated,
        Self::ServerKilled,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::DatabaseCloses => "the database closes the connection",
            Self::DatabaseResets => "it is reset",
            Self::DatabaseStalls => "it stalls, for longer than `timeout`",
            Self::StatementFails => "the statement fails",
            Self::BackendTerminated => "its backend is terminated",
            Self::ServerKilled => "the server is killed",
        }
    }

    /// The source, and a column of each row.
    fn endpoint(self) -> (&'static str, &'static str) {
        match self {
            Self::Nothing => ("whole", "0"),
            Self::DatabaseCloses => ("closes", "0"),
            Self::DatabaseResets => ("resets", "0"),
            Self::DatabaseStalls => ("stalls", "0"),
            Self::StatementFails => ("whole", "1 / (i - 30000)"),
            Self::BackendTerminated => {
                ("whole", "case when i = 30000 then pg_terminate_backend(pg_backend_pid()) end::text")
            }
            Self::ServerKilled => ("whole", "pg_sleep(0.001)::text"),
        }
    }

    /// The time limit of a response, because a stalled one would never end without it.
    fn timeout(self) -> &'static str {
        match self {
            Self::DatabaseStalls => "timeout = { total = \"3s\" }",
            _ => "",
        }
    }

    fn folder(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reader {
    Curl,
    CurlHttp2,
    Fetch,
    NodeHttp2,
    Urllib,
    Chromium,
}

impl Reader {
    const ALL: [Self; 6] =
        [Self::Curl, Self::CurlHttp2, Self::Fetch, Self::NodeHttp2, Self::Urllib, Self::Chromium];

    fn name(self) -> &'static str {
        match self {
            Self::Curl => "curl, HTTP/1.1",
            Self::CurlHttp2 => "curl, HTTP/2",
            Self::Fetch => "Node's fetch, HTTP/1.1",
            Self::NodeHttp2 => "Node's http2",
            Self::Urllib => "Python's urllib, HTTP/1.1",
            Self::Chromium => "Chromium's fetch, HTTP/1.1",
        }
    }

    fn is_http2(self) -> bool {
        matches!(self, Self::CurlHttp2 | Self::NodeHttp2)
    }
}

/// A body as a client saw it.
#[derive(Debug)]
struct Seen {
    /// The client saw no failure.
    clean: bool,
    tail: Vec<u8>,
    tag: String,
    stream: String,
}

impl Seen {
    fn read(told: &Value) -> Self {
        let text = |name: &str| told[name].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
        let tail = BASE64_STANDARD.decode(text("tail")).unwrap();
        let clean = told["clean"].as_bool().unwrap();
        Self { clean, tail, tag: text("tag"), stream: text("stream") }
    }

    /// Returns true if the format's end mark is present. `None` if the format has none.
    fn end(&self, format: &str) -> Option<bool> {
        let tail = String::from_utf8_lossy(&self.tail);
        let record = || {
            let line = tail.trim_end().rsplit(['\n', '\u{1e}']).next().unwrap_or_default();
            let record: Value = serde_json::from_str(line.strip_prefix("data: ").unwrap_or(line)).ok()?;
            (!self.tag.is_empty() && record["$rowstream"] == *self.tag)
                .then(|| record["end"]["rows"].as_u64())?
        };
        match format {
            "json" => Some(tail.ends_with("}]")),
            "template" => Some(tail.ends_with(&format!("}}],\"count\":{ROWS}}}"))),
            "ndjson, framed" | "sse, framed" => Some(record() == Some(ROWS)),
            "arrow" => Some(self.tail.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])),
            _ => None,
        }
    }
}

/// A server with an endpoint in each shape for each fault, and the proxies in front of it.
struct Setting {
    server: Server,
    hops: Vec<(&'static str, SocketAddr, SocketAddr)>,
    _proxies: ([TcpProxy; 3], Hop, Hop),
}

impl Setting {
    async fn new(db: &TestDb) -> Self {
        let postgres = SocketAddr::from(([127, 0, 0, 1], pg_port()));
        let cut =
            |how| TcpProxy::to_client(postgres, Faults { cut: Some((CUT_AFTER, how)), ..Faults::default() });
        let cuts = [cut(Cut::Close).await, cut(Cut::Reset).await, cut(Cut::Stall).await];
        let [closes, resets, stalls] = cuts.each_ref().map(TcpProxy::port);
        let url = |port: u16| db.url().replace(&format!(":{}/", pg_port()), &format!(":{port}/"));
        let mut config = "[cors]\norigins = [\"*\"]\n".to_owned();
        for (name, port) in [("whole", pg_port()), ("closes", closes), ("resets", resets), ("stalls", stalls)]
        {
            let _ = writeln!(
                config,
                "[source.{name}]\nurl = \"{}\"\npool = {{ max = 30, waiting = 500, acquire_timeout = \"60s\" }}",
                url(port)
            );
        }
        let mut files = vec![("rowstream.toml".to_owned(), config)];
        for fault in Fault::ALL {
            let (source, column) = fault.endpoint();
            let select = format!(
                "select i, repeat('x', 50) as pad, {column} as a from generate_series(1, {ROWS}) as i"
            );
            for (name, body) in
                [("rows", ""), ("template", "body = { rows = \"$rows\", count = \"$count\" }")]
            {
                let timeout = fault.timeout();
                let text = format!("/*\nsource = \"{source}\"\n{timeout}\n{body}\n*/ {select}");
                files.push((format!("endpoints/{}/{name}.sql", fault.folder()), text));
            }
        }
        let files: Vec<_> = files.iter().map(|(name, text)| (&name[..], &text[..])).collect();
        let server = Launch::files(&files).release().argument("--log-format=off").start().await;
        let target: SocketAddr = server.address().parse().unwrap();
        let (nginx, haproxy) = (Hop::nginx(target).await, Hop::haproxy(target).await);
        let hops = vec![
            ("directly", target, target),
            ("nginx", nginx.http1, nginx.http2),
            ("HAProxy", haproxy.http1, haproxy.http2),
        ];
        Self { server, hops, _proxies: (cuts, nginx, haproxy) }
    }

    /// A client's requests: each format over each hop.
    fn jobs(&self, reader: Reader, fault: Fault) -> Vec<Job> {
        let job = |(hop, http1, http2): &(&'static str, SocketAddr, SocketAddr)| {
            let address = if reader.is_http2() { *http2 } else { *http1 };
            let folder = fault.folder();
            let hop = *hop;
            FORMATS.map(|(format, path)| Job {
                hop,
                format,
                url: format!("http://{address}/{folder}/{path}"),
            })
        };
        self.hops.iter().flat_map(job).collect()
    }
}

struct Job {
    hop: &'static str,
    format: &'static str,
    url: String,
}

/// Makes a client read all of them at once.
async fn read(reader: Reader, jobs: &[Job], browser: &Browser) -> Vec<Seen> {
    match reader {
        Reader::Curl | Reader::CurlHttp2 => {
            let reading = jobs.iter().map(|job| curl(job.url.clone(), reader.is_http2()));
            let reading: Vec<_> = reading.map(|read| tokio::task::spawn_blocking(read)).collect();
            let mut seen = Vec::new();
            for read in reading {
                seen.push(read.await.unwrap());
            }
            seen
        }
        Reader::Fetch | Reader::NodeHttp2 => {
            let jobs = jobs.iter().map(|job| json!({"url": job.url, "h2": reader.is_http2()}));
            script("node", "bodies.mjs", jobs.collect()).await
        }
        Reader::Urllib => {
            let jobs = jobs.iter().map(|job| json!({"url": job.url}));
            script("python3", "bodies.py", jobs.collect()).await
        }
        Reader::Chromium => {
            let urls: Vec<_> = jobs.iter().map(|job| &job.url).collect();
            told(&browser.run(&IN_A_PAGE.replace("URLS", &json!(urls).to_string())).await)
        }
    }
}

const IN_A_PAGE: &str = "
    const read = async (url) => {
      let clean = true, tail = new Uint8Array(0), headers = new Headers();
      try {
        const response = await fetch(url);
        headers = response.headers;
        clean = response.ok;
        const reader = response.body.getReader();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          tail = Uint8Array.from([...tail, ...value.slice(-400)].slice(-400));
        }
      } catch { clean = false; }
      const text = (name) => headers.get(name) ?? '';
      return { clean, tail: btoa(String.fromCharCode(...tail)), tag: text('rowstream-tag'), stream: text('rowstream-stream') };
    };
    return Promise.all(URLS.map(read));";

fn told(told: &Value) -> Vec<Seen> {
    told.as_array().unwrap_or_else(|| panic!("{told}")).iter().map(Seen::read).collect()
}

/// Runs a program of `tests/readers`, with the jobs on its stdin.
async fn script(program: &'static str, name: &'static str, jobs: Vec<Value>) -> Vec<Seen> {
    let run = move || {
        let path = repository().join("tests/readers").join(name);
        let mut command = Command::new(program);
        command.arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().unwrap_or_else(|fault| panic!("{program}: {fault}: run `cargo xtask test`"));
        child.stdin.take().unwrap().write_all(Value::from(jobs).to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{program} {name}: {:?}", output.status);
        told(&serde_json::from_slice(&output.stdout).unwrap())
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn curl(url: String, http2: bool) -> impl FnOnce() -> Seen {
    move || {
        let folder = tempfile::tempdir().unwrap();
        let body = folder.path().join("body");
        let version = if http2 { "--http2-prior-knowledge" } else { "--http1.1" };
        let mut command = Command::new("curl");
        command
            .args(["-s", "--fail", "--noproxy", "*", "--max-time", "120", version, "-D", "-", "-o"])
            .arg(&body)
            .arg(&url);
        let output = command.output().expect("curl is installed: run `cargo xtask test`");
        let head = String::from_utf8(output.stdout).unwrap().to_ascii_lowercase();
        let field = |name: &str| {
            head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
        };
        let read = std::fs::read(&body).unwrap_or_default();
        Seen {
            clean: output.status.success(),
            tail: read[read.len().saturating_sub(400)..].to_vec(),
            tag: field("rowstream-tag:"),
            stream: field("rowstream-stream:"),
        }
    }
}

/// For each client, hop and fault: true if some response seemed complete.
type Table = BTreeMap<(&'static str, &'static str, Fault), bool>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_client_takes_a_part_for_the_whole() {
    let db = TestDb::new().await;
    let (mut setting, browser) = tokio::join!(Setting::new(&db), Browser::start());
    let mut table = Table::new();
    for reader in Reader::ALL {
        for fault in Fault::ALL {
            let page = format!("http://{}/_rowstream/live", setting.server.address());
            if reader == Reader::Chromium {
                browser.open(&page).await;
            }
            let jobs = setting.jobs(reader, fault);
            let seen = if fault == Fault::ServerKilled {
                let kill = async {
                    tokio::time::sleep(Duration::from_millis(1500)).await;
                    setting.server.kill();
                };
                tokio::join!(read(reader, &jobs, &browser), kill).0
            } else {
                read(reader, &jobs, &browser).await
            };
            assert_eq!(seen.len(), jobs.len());
            for (job, seen) in jobs.iter().zip(&seen) {
                let what = format!("{} {} {:?} {}", reader.name(), job.hop, fault, job.format);
                check(&setting, fault, job, seen, &what).await;
                *table.entry((reader.name(), job.hop, fault)).or_default() |= seen.clean;
            }
            if fault == Fault::ServerKilled {
                setting = Setting::new(&db).await;
            }
        }
    }
    compare(&table);
}

/// Checks a client's result against the promise.
async fn check(setting: &Setting, fault: Fault, job: &Job, seen: &Seen, what: &str) {
    let end = seen.end(job.format);
    if fault == Fault::Nothing {
        assert!(seen.clean && end != Some(false), "{what}: {seen:?}");
        assert_eq!(state(setting, seen).await, "complete", "{what}");
        return;
    }
    assert!(!(seen.clean && end == Some(true)), "{what} seems whole: {seen:?}");
    // A killed server can't report anything.
    let is_told = job.hop == "directly" && fault != Fault::ServerKilled;
    assert!(!(seen.clean && is_told), "{what}: nothing told of the failure");
    if fault != Fault::ServerKilled && !seen.stream.is_empty() {
        assert_eq!(state(setting, seen).await, "failed", "{what}");
    } else if seen.clean && end.is_none() {
        assert_eq!(fault, Fault::ServerKilled, "{what}: {seen:?}");
    }
}

/// The server's state of a stream.
async fn state(setting: &Setting, seen: &Seen) -> String {
    let reply = get(&setting.server.url(&format!("/_rowstream/streams/{}", seen.stream))).await;
    reply.json()["state"].as_str().unwrap_or_else(|| panic!("{}", reply.text())).to_owned()
}

const BEGIN: &str = "<!-- written by tests/it/contract.rs -->\n";
const HOPS: [&str; 3] = ["directly", "nginx", "HAProxy"];
const FAILS: &str = "fails";
const CLEAN: &str = "**seems to end well**";

/// The results are those in the documentation or better, because a proxy may or may not learn of a
/// failure in time.
fn compare(table: &Table) {
    let path = repository().join("docs/src/explanation/clients.md");
    let docs = std::fs::read_to_string(&path).unwrap();
    let (words, old) = docs.split_once(BEGIN).expect("the table has its mark");
    if std::env::var_os("ROWSTREAM_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{words}{BEGIN}{}", written(table))).unwrap();
        return;
    }
    let new = written(table);
    let told = "run it with ROWSTREAM_WRITE_DOCS=1";
    assert_eq!(new.lines().next(), old.lines().next(), "{told}");
    assert_eq!(new.lines().count(), old.lines().count(), "{told}:\n{new}");
    for reader in Reader::ALL {
        let name = reader.name();
        let row = old.lines().find(|line| line.starts_with(&format!("| {name} |")));
        let row = row.unwrap_or_else(|| panic!("{told}: {name} has no row"));
        assert_eq!(row.split('|').count(), HOPS.len() + 3, "{row}");
        for (hop, cell) in HOPS.into_iter().zip(row.split('|').skip(2)) {
            assert!(cell.contains(FAILS) || cell.contains(CLEAN), "{name}, {hop}:{cell}");
            let is_told = |fault: &Fault| cell.trim() == CLEAN || cell.contains(fault.name());
            for fault in clean(table, name, hop) {
                assert!(
                    is_told(&fault),
                    "{name}, {hop}: {CLEAN} if {}, but the page says{cell}",
                    fault.name()
                );
            }
        }
    }
}

/// The faults whose responses seemed complete.
fn clean(table: &Table, reader: &'static str, hop: &'static str) -> Vec<Fault> {
    let faults = Fault::ALL[1..].iter().copied();
    faults.filter(|fault| table[&(reader, hop, *fault)]).collect()
}

fn written(table: &Table) -> String {
    let mut text = format!("| client | {} |\n|---{}|\n", HOPS.join(" | "), "|---".repeat(HOPS.len()));
    for reader in Reader::ALL {
        let cells = HOPS.map(|hop| match &clean(table, reader.name(), hop)[..] {
            [] => FAILS.to_owned(),
            faults if faults.len() == Fault::ALL.len() - 1 => CLEAN.to_owned(),
            faults => {
                let names: Vec<_> = faults.iter().map(|fault| fault.name()).collect();
                format!("{FAILS}; {CLEAN} if {}", names.join(", or "))
            }
        });
        let _ = writeln!(text, "| {} | {} |", reader.name(), cells.join(" | "));
    }
    text
}
