//! The README's claim about memory: the server stays under 32 MB, regardless of a result's size,
//! the number of readers or their speed. Each case has a new server process of the release build.
//! It counts the rows, because a server that sends fewer rows would need less memory.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{
    CODINGS, Client, Ended, Launch, Server, Streaming, TestDb, anonymous_bytes, decoder, file_bytes,
    peak_memory_bytes, release_program, wait_until,
};
use crate::worked;
use http::{Request, StatusCode};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Barrier;

/// The documented limit.
const CEILING: u64 = 32 * 1000 * 1000;
const EVENTS: usize = 1_000_000;
const AUTHORS: usize = 100_000;
/// The rows that each stopping reader requests: some 5 MB, more than all buffers on the way can hold.
const PART: usize = 40_000;
/// The same for compressed responses, whose size is a ninth.
const COMPRESSED_PART: usize = 100_000;
const STOPPED_READERS: usize = 50;
/// A gzip reader costs some 0.35 MB, most of it for the compressor.
const COMPRESSED_READERS: usize = 40;
const STOP: Duration = Duration::from_secs(2);

/// An example's data in one of the databases.
struct Data {
    folder: TempDir,
    db: Option<TestDb>,
}

impl Data {
    async fn sqlite(example: &str) -> Self {
        // In a separate process, because filling needs memory that serving doesn't.
        let folder = worked::filled(example, release_program()).await;
        with_places_for_all(&folder);
        Self { folder, db: None }
    }

    async fn postgres(example: &str) -> Self {
        let folder = worked::copy(example);
        with_places_for_all(&folder);
        let script = folder.path().join("data/postgres.sql");
        let db = TestDb::new().await;
        db.execute(&std::fs::read_to_string(script).expect("the example has it")).await;
        Self { folder, db: Some(db) }
    }

    async fn server(&self, variable: &str) -> Server {
        let launch = Launch::folder(self.folder.path()).release();
        match &self.db {
            Some(db) => launch.variable(variable, &db.url()).start().await,
            None => launch.start().await,
        }
    }
}

/// All readers should stream at the same time, so none may wait for a connection.
fn with_places_for_all(folder: &TempDir) {
    let path = folder.path().join("rowstream.toml");
    let config = std::fs::read_to_string(&path).expect("it has one");
    let (before, url) = config.split_once("\nurl").expect("it has a source");
    std::fs::write(path, format!("{before}\npool = {{ max = {STOPPED_READERS} }}\nurl{url}"))
        .expect("a file");
}

async fn open(client: Client, server: &Server, path: &str) -> Streaming {
    open_encoded(client, server, path, "identity").await
}

async fn open_encoded(client: Client, server: &Server, path: &str, coding: &str) -> Streaming {
    let request = Request::get(server.url(path))
        .header("authorization", "Bearer example-reader-token")
        .header("accept-encoding", coding);
    let opened = client.open(request.body(String::new()).expect("the path is one")).await;
    let stream = opened.unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(stream.status, StatusCode::OK, "{path}");
    stream
}

/// Reads until `rows` or the end, and discards the rows.
async fn read(stream: &mut Streaming, rows: usize) -> (usize, Option<Ended>) {
    let mut read = 0;
    while read < rows {
        match stream.chunk().await {
            Ok(chunk) => read += worked::newlines(&chunk),
            Err(ended) => return (read, Some(ended)),
        }
    }
    (read, None)
}

async fn read_all(client: Client, server: &Server, path: &str, rows: usize) {
    let mut stream = open(client, server, path).await;
    assert_eq!(read(&mut stream, usize::MAX).await, (rows, Some(Ended::Complete)), "{path}");
}

/// Reads half, waits until all other readers have done so too, and then reads to the end.
async fn read_with_a_stop(server: &Server, all_half: &Barrier) {
    let client = Client::HTTP1.receive_buffer(64 * 1024);
    let mut stream = open(client, server, &format!("/events.ndjson?maxEvents={PART}")).await;
    let (first, none) = read(&mut stream, PART / 2).await;
    assert_eq!(none, None, "half of the rows are not all");
    all_half.wait().await;
    tokio::time::sleep(STOP).await;
    assert_eq!(read(&mut stream, usize::MAX).await, (PART - first, Some(Ended::Complete)));
}

/// Counts the lines that are written to it.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicUsize>);

impl Lines {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.fetch_add(worked::newlines(bytes), Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// [`read_with_a_stop`] for a compressed response.
async fn read_compressed(server: &Server, coding: &str, all_half: &Barrier) {
    let client = Client::HTTP1.receive_buffer(64 * 1024);
    let path = format!("/events.ndjson?maxEvents={COMPRESSED_PART}");
    let mut stream = open_encoded(client, server, &path, coding).await;
    assert_eq!(stream.headers["content-encoding"], coding);
    let lines = Lines::default();
    let mut decoder = decoder(coding, lines.clone());
    let mut stopped = false;
    let ended = loop {
        match stream.chunk().await {
            Ok(chunk) => decoder.write_all(&chunk).expect("it can be decoded"),
            Err(ended) => break ended,
        }
        if lines.count() >= COMPRESSED_PART / 2 && !std::mem::replace(&mut stopped, true) {
            all_half.wait().await;
            tokio::time::sleep(STOP).await;
        }
    };
    decoder.flush().expect("it can be decoded");
    assert_eq!((lines.count(), ended), (COMPRESSED_PART, Ended::Complete));
}

fn assert_small(server: &Server, what: &str) {
    let peak = peak_memory_bytes(server.pid());
    println!("peak memory of {what}: {:.1} MB", peak as f64 / 1e6);
    assert!(peak < CEILING, "{what} took {peak} bytes");
}

async fn one_reader(data: &Data, database: &str) {
    let server = data.server("EVENTS_URL").await;
    read_all(Client::HTTP1, &server, "/events.ndjson", EVENTS).await;
    assert_small(&server, &format!("one reader of 1,000,000 events from {database}"));
}

async fn fifty_that_stop(data: &Data, database: &str) {
    let server = data.server("EVENTS_URL").await;
    let all_half = Barrier::new(STOPPED_READERS);
    join_all((0..STOPPED_READERS).map(|_| read_with_a_stop(&server, &all_half))).await;
    assert_small(&server, &format!("50 readers that stop for two seconds from {database}"));
}

async fn twenty_readers(data: &Data, database: &str) {
    let server = data.server("AUTHORS_URL").await;
    join_all((0..20).map(|_| read_all(Client::HTTP1, &server, "/authors.ndjson", AUTHORS))).await;
    assert_small(&server, &format!("20 readers of 100,000 authors from {database}"));
}

async fn many_compressed(data: &Data, database: &str, readers: usize) {
    let path = data.folder.path().join("rowstream.toml");
    let config = std::fs::read_to_string(&path).expect("it has one");
    std::fs::write(path, format!("compression = \"on\"\n{config}")).expect("a file");
    for coding in CODINGS {
        let server = data.server("EVENTS_URL").await;
        let all_half = Barrier::new(readers);
        join_all((0..readers).map(|_| read_compressed(&server, coding, &all_half))).await;
        assert_small(
            &server,
            &format!("{readers} readers of {coding} that stop for two seconds from {database}"),
        );
    }
}

/// Runs futures concurrently on this task.
async fn join_all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut waiting: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if waiting.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn memory_is_constant_while_events_are_read_from_sqlite() {
    let data = Data::sqlite("events").await;
    one_reader(&data, "SQLite").await;
    fifty_that_stop(&data, "SQLite").await;
}

#[tokio::test]
async fn memory_is_constant_while_events_are_read_from_postgres() {
    let data = Data::postgres("events").await;
    one_reader(&data, "PostgreSQL").await;
    fifty_that_stop(&data, "PostgreSQL").await;
}

#[tokio::test]
async fn memory_is_constant_while_a_cursor_is_read() {
    let data = Data::postgres("events").await;
    let path = |name: &str| data.folder.path().join(name);
    std::fs::rename(path("procedure.toml"), path("rowstream.toml")).expect("a file");
    let server = data.server("EVENTS_URL").await;
    read_all(Client::HTTP1, &server, "/bulk/events.ndjson", EVENTS).await;
    assert_small(&server, "one reader of 1,000,000 events from a cursor");
}

/// Three connections that read for one response need three buffers, but not three responses.
#[tokio::test]
async fn memory_is_constant_while_a_table_is_read_in_parts() {
    const IN_PARTS: u64 = 3 * 1000 * 1000;
    let data = Data::postgres("events").await;
    let in_parts = "/*\nparallel = 3\n*/\nselect * from payment_event";
    std::fs::write(data.folder.path().join("endpoints/parts.sql"), in_parts).expect("a file");
    let server = data.server("EVENTS_URL").await;
    let mut stream = open(Client::HTTP1, &server, "/parts.ndjson").await;
    assert_eq!(stream.headers["rowstream-parts"], "3");
    assert_eq!(read(&mut stream, usize::MAX).await, (EVENTS, Some(Ended::Complete)));
    // The pages of the program, which differ by build, are the larger part of the peak.
    let peak = peak_memory_bytes(server.pid()) - file_bytes(server.pid());
    println!("peak memory of 1,000,000 events in three parts: {:.1} MB", peak as f64 / 1e6);
    assert!(peak <= IN_PARTS, "{peak} bytes");
}

#[tokio::test]
async fn memory_is_constant_while_twenty_read_authors_from_sqlite() {
    twenty_readers(&Data::sqlite("authors").await, "SQLite").await;
}

#[tokio::test]
async fn memory_is_constant_while_twenty_read_authors_from_postgres() {
    twenty_readers(&Data::postgres("authors").await, "PostgreSQL").await;
}

#[tokio::test]
async fn memory_is_constant_while_answers_are_compressed_from_sqlite() {
    // Fifty connections alone need most of the limit: each has a thread, a cache and two batches of
    // rows.
    many_compressed(&Data::sqlite("events").await, "SQLite", 20).await;
}

#[tokio::test]
async fn memory_is_constant_while_answers_are_compressed_from_postgres() {
    many_compressed(&Data::postgres("events").await, "PostgreSQL", COMPRESSED_READERS).await;
}

/// 16 KiB of an incomplete head, which the server keeps until the client disconnects.
fn long_head() -> String {
    format!("GET /authors/7 HTTP/1.1\r\nhost: localhost\r\nx-long: {}", "x".repeat(14_000))
}

/// The allocator kept free memory: after 4,000 connections had closed, the server held 97 MB, of
/// which 12 MB were in use.
#[tokio::test]
async fn memory_is_given_back_when_clients_have_left() {
    const CLIENTS: usize = 800;
    // Without the program's pages, some 14 MB, because the kernel decides which to map.
    const SETTLED: u64 = 4 * 1000 * 1000;
    let data = Data::sqlite("authors").await;
    let server = data.server("AUTHORS_URL").await;
    let mut held = 0;
    for _ in 0..3 {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = TcpStream::connect(server.address()).await.expect("it listens");
            client.write_all(long_head().as_bytes()).await.expect("it is taken");
            clients.push(client);
        }
        read_all(Client::HTTP1, &server, "/authors.ndjson", AUTHORS).await;
        held = held.max(anonymous_bytes(server.pid()));
    }
    let settled = wait_until("the memory of the clients is given back", async || {
        let settled = anonymous_bytes(server.pid());
        if settled < SETTLED { Ok(settled) } else { Err(settled) }
    })
    .await;
    println!("{CLIENTS} clients took {:.1} MB, and left {:.1}", held as f64 / 1e6, settled as f64 / 1e6);
    assert!(held > SETTLED + 8_000_000, "the clients took nothing: {held} bytes");
}
