//! A MariaDB that lies: impossible lengths, counts, types and packets. All of them end in an error,
//! within memory limits and without a panic.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowstream::config::Config;
use rowstream::database::{Answer, Snapshot, Statement};
use rowstream::source::Source;
use rowstream::stream::RowStream;
use rowstream_core::Error;
use rowstream_core::pool::{Priority, Waiter};
use rowstream_encode::{Format, RowEncoder, Shape};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::support::{altered_conversations, wait};

const SQL: &str = "select n, t";
const GOOD_ROWS: &str = "{\"n\":7,\"t\":\"seven\"}\n{\"n\":8,\"t\":\"é\"}\n";
const MAX_ROW_BYTES: usize = 1 << 20;

const INT: u8 = 3;
const VARCHAR: u8 = 253;

/// The longest payload of one packet.
const LONGEST: usize = 0xff_ffff;

/// Payloads as packets, numbered from `first`.
fn packets(first: u8, payloads: &[Vec<u8>]) -> Vec<u8> {
    let packet = |(number, payload): (usize, &Vec<u8>)| {
        let [a, b, c, _] = (payload.len() as u32).to_le_bytes();
        [&[a, b, c, first.wrapping_add(number as u8)][..], payload].concat()
    };
    payloads.iter().enumerate().flat_map(packet).collect()
}

/// The packets that answer a command.
fn answer(payloads: &[Vec<u8>]) -> Vec<u8> {
    packets(1, payloads)
}

fn ok() -> Vec<u8> {
    vec![0, 0, 0, 2, 0, 0, 0]
}

fn eof(status: u16) -> Vec<u8> {
    let [low, high] = status.to_le_bytes();
    vec![0xfe, 0, 0, low, high]
}

fn short_text(text: &[u8]) -> Vec<u8> {
    [&[text.len() as u8][..], text].concat()
}

fn column(name: &[u8], kind: u8) -> Vec<u8> {
    let around = [short_text(b"def"), vec![0, 0, 0], short_text(name), vec![0]].concat();
    [&around[..], &[12, 45, 0, 40, 0, 0, 0, kind, 0, 0, 0, 0, 0]].concat()
}

fn row(number: i32, text: &[u8]) -> Vec<u8> {
    [&[0, 0][..], &number.to_le_bytes(), &short_text(text)].concat()
}

/// Without the capabilities to report changes of a session, so an EOF ends columns and rows.
fn greeting() -> Vec<u8> {
    let mut greeting = b"\x0a5.5.5-10.11.6-MariaDB\0\x07\0\0\0abcdefgh\0".to_vec();
    greeting.extend_from_slice(b"\xfe\xf7\x2d\x02\0\x7f\x80\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0");
    greeting.extend_from_slice(b"mysql_native_password\0");
    greeting
}

fn columns() -> [Vec<u8>; 2] {
    [column(b"n", INT), column(b"t", VARCHAR)]
}

/// The answer to COM_STMT_PREPARE: the numbers of columns and parameters, and their definitions.
fn prepared(columns: u16, parameters: u16, described: &[Vec<u8>]) -> Vec<u8> {
    let mut head = vec![0, 1, 0, 0, 0];
    head.extend_from_slice(&columns.to_le_bytes());
    head.extend_from_slice(&parameters.to_le_bytes());
    head.extend_from_slice(&[0; 3]);
    answer(&[&[head][..], described].concat())
}

/// The answer to COM_STMT_EXECUTE: the head of a result with two columns, and `rest`.
fn result(rest: &[Vec<u8>]) -> Vec<u8> {
    let [n, t] = columns();
    answer(&[&[vec![2], n, t, eof(2)][..], rest].concat())
}

/// The steps of a script: the start, and the answers to the login, to two settings, to the prepared
/// statement, and to its execution.
const START: usize = 0;
const LOGIN: usize = 1;
const SETTING: usize = 2;
const PREPARED: usize = 4;
const ROWS: usize = 5;

/// A correct conversation: two rows with a number and a text.
fn good() -> Vec<Vec<u8>> {
    let [n, t] = columns();
    vec![
        packets(0, &[greeting()]),
        packets(2, &[ok()]),
        answer(&[ok()]),
        answer(&[ok()]),
        prepared(2, 0, &[n, t, eof(2)]),
        result(&[row(7, b"seven"), row(8, "é".as_bytes()), eof(2)]),
    ]
}

/// The OK that ends rows of a newer server.
fn ok_end(status: u8) -> Vec<u8> {
    vec![0xfe, 0, 0, status, 0, 0, 0]
}

/// The same result of a newer server.
fn newer_result(rest: &[Vec<u8>]) -> Vec<u8> {
    let [n, t] = columns();
    answer(&[&[vec![2], n, t][..], rest].concat())
}

/// A correct conversation with a server that ends rows with an OK, and reports changes of its sessions.
fn newer() -> Vec<Vec<u8>> {
    let greeting = greeting();
    let at = greeting.windows(2).position(|two| two == b"\x7f\x80").unwrap();
    let mut script = good();
    script[START] = packets(0, &[[&greeting[..at], b"\xff\x81", &greeting[at + 2..]].concat()]);
    script[PREPARED] = prepared(2, 0, &columns());
    script[ROWS] = newer_result(&[row(7, b"seven"), row(8, "é".as_bytes()), ok_end(2)]);
    script
}

/// The peer's behaviour after its last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Close,
    /// Sends the last answer repeatedly.
    Repeat,
}

/// A server that plays a script on every connection, and records the clients' bytes.
struct Peer {
    url: String,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Peer {
    async fn new(script: Vec<Vec<u8>>, after: After) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url =
            format!("mysql://u@{}/d?ssl-mode=disabled&connect-timeout=1", listener.local_addr().unwrap());
        let (script, sent) = (Arc::new(script), Arc::default());
        let noted = Arc::clone(&sent);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (script, noted) = (Arc::clone(&script), Arc::clone(&noted));
                // The client may disconnect at any time.
                tokio::spawn(async move { drop(play(socket, &script, after, &noted).await) });
            }
        });
        Self { url, sent }
    }

    fn source(&self) -> Source {
        self.source_of(1)
    }

    /// A source with this many connections. With four, lookups share one of them.
    fn source_of(&self, connections: usize) -> Source {
        let mut config = Config::single(&self.url, "select 1").unwrap().sources.remove(0);
        config.pool.max = connections;
        config.max_row_bytes = MAX_ROW_BYTES;
        Source::open(&config).unwrap()
    }
}

/// Closes once the client has been silent for a while, because a client may correctly wait for
/// bytes that never arrive.
async fn play(
    mut socket: TcpStream,
    script: &[Vec<u8>],
    after: After,
    noted: &Mutex<Vec<u8>>,
) -> std::io::Result<()> {
    for (index, answer) in script.iter().enumerate() {
        if index > 0 && !command(&mut socket, noted).await? {
            return Ok(());
        }
        socket.write_all(answer).await?;
    }
    if after == After::Close {
        return command(&mut socket, noted).await.map(drop);
    }
    loop {
        socket.write_all(script.last().unwrap()).await?;
        tokio::task::yield_now().await;
    }
}

/// Reads a packet that requires an answer of the script. Returns false if the client is silent. The peer has no
/// catalog.
async fn command(socket: &mut TcpStream, noted: &Mutex<Vec<u8>>) -> std::io::Result<bool> {
    const COM_STMT_CLOSE: u8 = 0x19;
    const CATALOG: &[u8] = b"information_schema.routines";
    loop {
        let mut header = [0; 4];
        match timeout(Duration::from_millis(150), socket.read_exact(&mut header)).await {
            Ok(read) => read?,
            Err(_) => return Ok(false),
        };
        let [a, b, c, _] = header;
        let mut body = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
        socket.read_exact(&mut body).await?;
        noted.lock().unwrap().extend_from_slice(&body);
        if body.windows(CATALOG.len()).any(|part| part == CATALOG) {
            socket.write_all(&answer(&[b"\xff\x7a\x04#42S02no".to_vec()])).await?;
        } else if body.first() != Some(&COM_STMT_CLOSE) {
            return Ok(true);
        }
    }
}

async fn rows(source: &Source) -> Result<String, Error> {
    let config = Config::single("mysql://u@h/d", SQL).unwrap();
    let mut stream = RowStream::open(&config.endpoints[0], source, Format::Ndjson, Vec::new()).await?;
    let mut out = Vec::new();
    while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
        out.extend_from_slice(&chunk?);
    }
    Ok(String::from_utf8(out).unwrap())
}

/// The rows that a client reads from a peer, or its error.
async fn meets(script: Vec<Vec<u8>>, after: After) -> Result<String, Error> {
    let peer = Peer::new(script, after).await;
    wait("its rows or an error", rows(&peer.source())).await
}

/// The rows of a lookup, as NDJSON.
fn encoded(mut answer: Answer) -> Result<String, Error> {
    let mut encoder = RowEncoder::new(Shape::Lines, &answer.columns());
    let mut out = Vec::new();
    while let Some(row) = answer.next_row() {
        row.encode(&mut encoder, &mut out)?;
    }
    Ok(String::from_utf8(out).unwrap())
}

/// The result of a lookup on the connection that it shares. `None` if it needs another one.
async fn looked_up(script: Vec<Vec<u8>>, after: After) -> Result<Option<String>, Error> {
    let peer = Peer::new(script, after).await;
    let source = peer.source_of(4);
    let statement = Statement { sql: Arc::from(SQL), types: Vec::new(), ad_hoc: false };
    source.acquire(Snapshot::Statement, Priority::Stream).await?.prepare(&statement).await?;
    let waiter = Waiter::default();
    let looking_up = source.database()?.look_up(&statement, &[], waiter.begin());
    let answer = wait("its answer or an error", looking_up).await?;
    answer.map(encoded).transpose()
}

/// A script with one changed answer.
fn with(index: usize, answer: Vec<u8>) -> Vec<Vec<u8>> {
    let mut script = good();
    script[index] = answer;
    script
}

#[tokio::test]
async fn the_scripted_peer_is_believed_when_it_keeps_to_the_protocol() {
    assert_eq!(meets(good(), After::Close).await.unwrap(), GOOD_ROWS);
}

#[tokio::test]
async fn a_lookup_believes_a_peer_that_keeps_to_the_protocol() {
    assert_eq!(looked_up(good(), After::Close).await.unwrap().unwrap(), GOOD_ROWS);
    let [n, t] = columns();
    let others = answer(&[vec![2], n, t, eof(2), b"\xff\x7a\x04#42S02no".to_vec()]);
    assert_eq!(looked_up(with(ROWS, others), After::Close).await.unwrap_err().code(), "statement_failed");
}

/// A lookup doesn't accept endless rows, and doesn't block others.
#[tokio::test]
async fn a_lookup_of_endless_rows_ends() {
    let rows = result(&[row(7, b"x"), row(7, b"x"), row(7, b"x")]);
    assert_eq!(looked_up(with(ROWS, rows), After::Close).await.unwrap(), None);
    let many: Vec<_> = (0..200).map(|_| row(7, b"x")).collect();
    let two = "{\"n\":7,\"t\":\"x\"}\n".repeat(2);
    assert_eq!(looked_up(with(ROWS, result(&many)), After::Close).await.unwrap(), Some(two));
}

/// Whatever the peer sends, a lookup fails, or is repeated on its own connection, which reports the
/// reason.
#[tokio::test]
async fn a_peer_that_lies_about_rows_answers_no_lookup() {
    for (what, rows) in lies_about_rows() {
        if let Ok(Some(rows)) = looked_up(with(ROWS, rows), After::Close).await {
            panic!("{what} is taken for {rows:?}");
        }
    }
}

#[tokio::test]
async fn a_peer_that_lies_about_rows_is_an_error() {
    for (what, rows) in lies_about_rows() {
        match meets(with(ROWS, rows), After::Close).await {
            Ok(rows) => panic!("{what} is taken for {rows:?}"),
            Err(error) => {
                let codes = [
                    "source_protocol",
                    "source_unavailable",
                    "bad_value",
                    "row_too_large",
                    "statement_changed",
                    "statement_failed",
                    "endpoint",
                ];
                assert!(codes.contains(&error.code()), "{what}: {error:?}");
            }
        }
    }
}

/// Impossible answers to an execution.
fn lies_about_rows() -> Vec<(&'static str, Vec<u8>)> {
    let one = || row(7, b"x");
    let numbered = |first: u8, payloads: &[Vec<u8>]| [result(&[one()]), packets(first, payloads)].concat();
    let [n, t] = columns();
    let counted = |count: Vec<u8>| answer(&[count, n.clone(), t.clone(), eof(2), one(), eof(2)]);
    vec![
        ("a row that is cut", result(&[one()[..3].to_vec(), eof(2)])),
        ("a row without its map of NULLs", result(&[vec![0], eof(2)])),
        ("a row with more than its values", result(&[[one(), vec![0]].concat(), eof(2)])),
        (
            "a text that is longer than its row",
            result(&[[&[0, 0, 7, 0, 0, 0, 250][..], b"x"].concat(), eof(2)]),
        ),
        ("a text of 2^64 - 1 bytes", result(&[[&[0, 0, 7, 0, 0, 0, 254][..], &[0xff; 8]].concat(), eof(2)])),
        ("a length that is none", result(&[vec![0, 0, 7, 0, 0, 0, 255], eof(2)])),
        ("a text that is not UTF-8", result(&[row(7, b"\xc3("), eof(2)])),
        ("an empty packet", result(&[one(), Vec::new()])),
        ("a packet of 16 MB that never comes", [result(&[one()]), vec![0xff, 0xff, 0xff, 6, 0]].concat()),
        ("a packet whose number is not the next", numbered(7, &[eof(2)])),
        ("a packet whose number is the last one's", numbered(5, &[eof(2)])),
        ("no end", result(&[one()])),
        ("an EOF that is cut", result(&[one(), vec![0xfe, 0]])),
        ("another result", result(&[one(), eof(2 | 8)])),
        ("a result behind the end", [result(&[one(), eof(2 | 8)]), packets(7, &[ok()])].concat()),
        ("an OK in the place of columns", answer(&[ok()])),
        ("an EOF in the place of columns", answer(&[eof(2)])),
        ("a file that it wants", answer(&[b"\xfb/etc/passwd".to_vec()])),
        ("an error that is cut", answer(&[vec![0xff]])),
        ("an error in the midst of rows", result(&[one(), b"\xff\x7a\x04#42S02no".to_vec()])),
        ("fewer columns", counted(vec![1])),
        ("more columns", counted(vec![3])),
        ("2^64 - 1 columns", counted([&[254][..], &[0xff; 8]].concat())),
        ("no column, in three bytes", counted(vec![0xfc, 0, 0])),
        ("a column of another name", answer(&[vec![2], column(b"x", INT), t.clone(), eof(2), one(), eof(2)])),
        ("a column that is cut", answer(&[vec![2], n[..9].to_vec(), t.clone(), eof(2), one(), eof(2)])),
        (
            "a column of an unknown type",
            answer(&[vec![2], column(b"n", 99), t.clone(), eof(2), one(), eof(2)]),
        ),
        ("no end of the columns", answer(&[vec![2], n.clone(), t.clone(), one(), eof(2)])),
        (
            "a cursor that nobody asked for",
            answer(&[vec![2], n.clone(), t.clone(), eof(2 | 0x40), one(), eof(2)]),
        ),
    ]
}

#[tokio::test]
async fn a_peer_that_lies_before_the_rows_is_an_error() {
    let [n, t] = columns();
    let switch = |plugin: &str| packets(2, &[[&[0xfe][..], plugin.as_bytes(), b"\0abcdefgh\0"].concat()]);
    let cut = |at: usize| packets(0, &[greeting()[..at].to_vec()]);
    let older = [&[9][..], &greeting()[1..]].concat();
    for (what, index, answer) in [
        ("nothing", START, Vec::new()),
        ("HTTP", START, b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec()),
        ("a greeting of another version", START, packets(0, &[older])),
        ("a greeting that is cut", START, cut(30)),
        ("an empty greeting", START, cut(0)),
        ("a greeting of 16 MB", START, vec![0xff, 0xff, 0xff, 0]),
        ("an error without a state", START, packets(0, &[b"\xff\x10\x04Too many connections".to_vec()])),
        ("a plugin that nobody knows", LOGIN, switch("mysql_unknown")),
        ("the password, in the open", LOGIN, switch("mysql_clear_password")),
        ("a switch without a plugin", LOGIN, packets(2, &[vec![0xfe]])),
        ("a file that it wants", LOGIN, packets(2, &[b"\xfb/etc/passwd".to_vec()])),
        ("a number that is not the next", LOGIN, packets(9, &[ok()])),
        ("an error", LOGIN, packets(2, &[b"\xff\x15\x04#28000no".to_vec()])),
        ("a file in the place of a setting", SETTING, answer(&[b"\xfb/etc/passwd".to_vec()])),
        ("rows in the place of a setting", SETTING, result(&[row(7, b"x"), eof(2)])),
        ("a file in the place of a statement", PREPARED, answer(&[b"\xfb/etc/passwd".to_vec()])),
        ("a statement that is cut", PREPARED, answer(&[vec![0, 1, 0]])),
        ("a statement without columns", PREPARED, prepared(0, 0, &[])),
        (
            "a parameter that is none",
            PREPARED,
            prepared(2, 1, &[n.clone(), eof(2), n.clone(), t.clone(), eof(2)]),
        ),
        ("65,535 columns", PREPARED, prepared(0xffff, 0, &[n.clone(), t.clone(), eof(2)])),
        ("65,535 parameters", PREPARED, prepared(2, 0xffff, &[n.clone(), t.clone(), eof(2)])),
        ("a column that is cut", PREPARED, prepared(2, 0, &[n[..9].to_vec(), t.clone(), eof(2)])),
        ("no end of the columns", PREPARED, prepared(2, 0, &[n.clone(), t.clone(), ok()])),
        ("two columns of one name", PREPARED, prepared(2, 0, &[n.clone(), n, eof(2)])),
    ] {
        if let Ok(rows) = meets(with(index, answer), After::Close).await {
            panic!("{what} is taken for {rows:?}");
        }
    }
}

/// A server's request for a file is always refused.
#[tokio::test]
async fn no_file_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "hunter2").unwrap();
    let wanted = [b"\xfb", file.as_os_str().as_encoded_bytes()].concat();
    for index in [LOGIN, SETTING, PREPARED, ROWS] {
        let first = if index == LOGIN { 2 } else { 1 };
        let peer = Peer::new(with(index, packets(first, std::slice::from_ref(&wanted))), After::Close).await;
        wait("an error", rows(&peer.source())).await.unwrap_err();
        // Longer than the peer waits for it.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let sent = peer.sent.lock().unwrap();
        assert!(!sent.is_empty() && !sent.windows(7).any(|bytes| bytes == b"hunter2"), "{index}");
    }
}

/// Metadata use no more memory than a row may, regardless of the number of columns.
#[tokio::test]
async fn columns_that_never_end_are_refused() {
    let long = [&[0xfd, 0, 0xe0, 0][..], &[b'x'; 0xe000]].concat();
    let head = [short_text(b"def"), vec![0, 0, 0], long, vec![0]].concat();
    let long = [&head[..], &[12, 45, 0, 40, 0, 0, 0, VARCHAR, 0, 0, 0, 0, 0]].concat();
    let many = vec![long; 2 * MAX_ROW_BYTES / 0xe000];
    let error = meets(with(PREPARED, prepared(0xffff, 0, &many)), After::Close).await.unwrap_err();
    assert!(error.to_string().contains("max_row_bytes"), "{error:?}");
}

/// Bytes after the end of an answer must not become part of the next one, so we close the
/// connection.
#[tokio::test]
async fn endless_ends_belong_to_no_other_answer() {
    let mut script = good();
    // Numbered like the first packet of the next answer.
    script.push(packets(1, &[eof(2)]));
    let ends = script.pop().unwrap();
    script[ROWS].extend_from_slice(&ends.repeat(100));
    let peer = Peer::new(script, After::Close).await;
    let source = peer.source();
    for _ in 0..3 {
        assert_eq!(wait("its rows", rows(&source)).await.unwrap(), GOOD_ROWS);
    }
}

/// An endless login ends with its timeout.
#[tokio::test]
async fn an_endless_login_ends_with_its_time() {
    let known = packets(2, &(0..=255).map(|_| vec![1, 3]).collect::<Vec<_>>());
    let error = meets(vec![packets(0, &[greeting()]), known], After::Repeat).await.unwrap_err();
    assert_eq!(error.code(), "source_unavailable", "{error:?}");
}

/// A server may switch the authentication plugin once. With each further switch it would get
/// another proof of the password.
#[tokio::test]
async fn a_second_switch_of_the_plugin_is_refused() {
    let switch =
        |number: u8| packets(number, &[b"\xfemysql_native_password\0abcdefghijklmnopqrst\0".to_vec()]);
    let script = |switches: u8| {
        let switches = (0..switches).map(|turn| switch(2 + 2 * turn));
        let [login, rest @ ..] = &good()[1..] else { panic!("a login") };
        let login = [&login[..3], &[2 + 2 * switches.len() as u8], &login[4..]].concat();
        [packets(0, &[greeting()])].into_iter().chain(switches).chain([login]).chain(rest.to_vec()).collect()
    };
    assert_eq!(meets(script(1), After::Close).await.unwrap(), GOOD_ROWS);
    let error = meets(script(2), After::Close).await.unwrap_err();
    assert_eq!(error.code(), "source_unavailable", "{error:?}");
}

/// A newer server ends a result with an OK instead of EOFs. If that reports that the statement has changed its
/// session, the connection is closed. We don't read the changes, so they may be cut or lie about their length.
#[tokio::test]
async fn a_connection_whose_session_has_changed_is_closed() {
    const CHANGED: u8 = 0x40;
    for (status, changes, connections) in [
        (0, &b"\x03\x02\x011"[..], 1),
        (CHANGED, b"\0\x03\x02\x011", 3),
        (CHANGED, b"", 3),
        (CHANGED, b"\0", 3),
        (CHANGED, b"\0\x03\x02", 3),
        (CHANGED, b"\0\x04\x02\xff1", 3),
        (CHANGED, b"\0\xfd\xff\xff\xff", 3),
        (CHANGED, &[0xff; 20], 3),
    ] {
        let end = [&[0xfe, 0, 0, 2, status, 0, 0][..], changes].concat();
        let mut script = newer();
        script[ROWS] = newer_result(&[row(7, b"seven"), row(8, "é".as_bytes()), end]);
        script.push(script[ROWS].clone());
        script.push(script[ROWS].clone());
        let peer = Peer::new(script, After::Close).await;
        let source = peer.source();
        for _ in 0..3 {
            assert_eq!(wait("its rows", rows(&source)).await.unwrap(), GOOD_ROWS, "{changes:?}");
        }
        let sent = peer.sent.lock().unwrap();
        let logins = sent.windows(22).filter(|part| *part == b"mysql_native_password\0").count();
        assert_eq!(logins, connections, "{changes:?}");
    }
}

/// Impossible answers of a newer server to an execution.
fn lies_of_a_newer_server() -> Vec<(&'static str, Vec<u8>)> {
    let one = || row(7, b"x");
    let end = || ok_end(0);
    let message = || [ok(), short_text(b"done")].concat();
    let [n, t] = columns();
    let ended = |end: &[u8]| newer_result(&[one(), end.to_vec()]);
    vec![
        ("no end", newer_result(&[one()])),
        ("an OK that is cut", ended(&end()[..4])),
        ("an OK of one byte", ended(&[0xfe])),
        ("an EOF", ended(&eof(2))),
        ("an EOF behind the columns", newer_result(&[eof(2), one(), end()])),
        ("a count that is longer than its OK", ended(&[0xfe, 0xfe, 1, 2, 3])),
        ("a count that is NULL", ended(&[0xfe, 0xfb, 0, 2, 0, 0, 0])),
        ("a count that is none", ended(&[0xfe, 0, 0xff, 2, 0, 0, 0])),
        ("an OK in the midst of rows", newer_result(&[one(), message(), one(), end()])),
        ("an OK in the place of a row", newer_result(&[message(), end()])),
        ("an OK in the place of columns", answer(&[end()])),
        ("an OK in the midst of columns", answer(&[vec![2], n.clone(), ok(), t, one(), end()])),
        ("an OK behind too few columns", answer(&[vec![2], n, end()])),
        ("another result", ended(&ok_end(8))),
        ("an error that is cut, in the midst of rows", ended(&[0xff, 1])),
        (
            "an OK of 16 MB that never comes",
            [newer_result(&[one()]), vec![0xff, 0xff, 0xff, 5, 0xfe]].concat(),
        ),
    ]
}

#[tokio::test]
async fn a_newer_server_that_lies_is_an_error() {
    assert_eq!(meets(newer(), After::Close).await.unwrap(), GOOD_ROWS);
    assert_eq!(looked_up(newer(), After::Close).await.unwrap().unwrap(), GOOD_ROWS);
    for (what, rows) in lies_of_a_newer_server() {
        let mut script = newer();
        script[ROWS] = rows;
        if let Ok(rows) = meets(script.clone(), After::Close).await {
            panic!("{what} is taken for {rows:?}");
        }
        if let Ok(Some(rows)) = looked_up(script, After::Close).await {
            panic!("{what} is taken for {rows:?} by a lookup");
        }
    }
}

/// A packet that begins like an OK, but has 16 MB or more, is no end.
#[tokio::test]
async fn an_end_is_shorter_than_16_mb() {
    for length in [LONGEST, LONGEST + 7] {
        let mut long = ok_end(0);
        long.resize(length, 0);
        let (first, rest) = long.split_at(LONGEST);
        let mut script = newer();
        script[ROWS] = newer_result(&[row(7, b"x"), first.to_vec(), rest.to_vec()]);
        let peer = Peer::new(script, After::Close).await;
        let mut config = Config::single(&peer.url, "select 1").unwrap().sources.remove(0);
        config.max_row_bytes = 4 * LONGEST;
        let error = wait("an error", rows(&Source::open(&config).unwrap())).await.unwrap_err();
        assert_eq!(error.code(), "source_protocol", "{length}: {error:?}");
    }
}

/// Alters bytes of a correct conversation.
#[tokio::test]
async fn no_altered_conversation_makes_a_panic() {
    for good in [good(), newer()] {
        altered_conversations(&good, |script| async {
            drop(meets(script.clone(), After::Close).await);
            drop(looked_up(script, After::Close).await);
        })
        .await;
    }
}
