//! A Flight SQL server that follows a script, byte by byte. It checks our requests, and our
//! handling of responses that are truncated, wrong, endless or elsewhere.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_ipc::CompressionType;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::support::upstream::Certificate;
use crate::support::{
    Client, Ended, Launch, Reply, Server, drivers, get, peak_memory_bytes, rowstream, wait_until,
};

const UNIMPLEMENTED: u32 = 12;
const UNAUTHENTICATED: u32 = 16;

/// A call.
#[derive(Debug, Clone)]
struct Asked {
    method: String,
    authorization: String,
    body: Bytes,
    /// The number of equal calls before this one.
    before: usize,
}

impl Asked {
    /// Returns true if the call has this name. For actions, it's the action's name.
    fn is(&self, name: &str) -> bool {
        self.method == name || (self.method == "DoAction" && self.mentions(name))
    }

    fn mentions(&self, text: &str) -> bool {
        self.body.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

/// An answer: messages, and its end.
struct Answer {
    messages: Vec<Bytes>,
    end: End,
    authorization: Option<&'static str>,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Status(u32),
    /// Like HTTP's end, without trailers.
    NoStatus,
    Reset,
    /// The connection is closed.
    Cut,
    /// A message begins, but the answer ends normally.
    AmidMessage,
    /// The last message is repeated forever.
    Never,
}

fn whole(messages: Vec<Bytes>) -> Answer {
    ends(messages, End::Status(0))
}

fn ends(messages: Vec<Bytes>, end: End) -> Answer {
    Answer { messages, end, authorization: None }
}

fn fails(status: u32) -> Answer {
    ends(Vec::new(), End::Status(status))
}

type Script = dyn Fn(&Asked) -> Answer + Send + Sync;

/// The server.
struct Peer {
    address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// The number of answers that the client cancelled.
    reset: Arc<Mutex<usize>>,
}

impl Peer {
    async fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_by(None, script).await
    }

    /// The same, over TLS if there's a certificate.
    async fn start_by(
        certificate: Option<&Certificate>,
        script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let tls = certificate.map(|certificate| certificate.acceptor(&[b"h2"]));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let peer = Self { address, asked: Arc::default(), reset: Arc::default() };
        let (asked, reset) = (Arc::clone(&peer.asked), Arc::clone(&peer.reset));
        let script: Arc<Script> = Arc::new(script);
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.expect("a connection");
                let (asked, reset, script) = (Arc::clone(&asked), Arc::clone(&reset), Arc::clone(&script));
                match tls.clone() {
                    None => drop(tokio::spawn(connection(socket, asked, reset, script))),
                    Some(tls) => drop(tokio::spawn(async move {
                        let Ok(socket) = tls.accept(socket).await else { return };
                        connection(socket, asked, reset, script).await;
                    })),
                }
            }
        });
        peer
    }

    fn url(&self) -> String {
        format!("flightsql://{}", self.address)
    }

    /// The number of calls, or of actions, with this name.
    fn count(&self, name: &str) -> usize {
        self.asked.lock().expect("no panic").iter().filter(|asked| asked.is(name)).count()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        wait_until(what, async || is_so(self)).await;
    }

    /// Our server with one endpoint, `/rows`.
    async fn serve(&self, url_parameters: &str, sql: &str) -> Server {
        let config = format!("[source.lake]\nurl = \"{}{url_parameters}\"\n", self.url());
        Launch::files(&[("rowstream.toml", &config), ("endpoints/rows.sql", sql)]).start().await
    }
}

async fn connection(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    asked: Arc<Mutex<Vec<Asked>>>,
    reset: Arc<Mutex<usize>>,
    script: Arc<Script>,
) {
    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
    let (cut, mut is_cut) = tokio::sync::mpsc::channel::<()>(1);
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                let (asked, reset) = (Arc::clone(&asked), Arc::clone(&reset));
                let (script, cut) = (Arc::clone(&script), cut.clone());
                tokio::spawn(async move {
                    match answer(request, respond, &asked, &*script).await {
                        Some(End::Cut) => cut.send(()).await.expect("the connection is there"),
                        None => *reset.lock().expect("no panic") += 1,
                        Some(_) => {}
                    }
                });
            }
            _ = is_cut.recv() => return,
        }
    }
}

/// Answers a call. `None` if the client has cancelled it.
async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    log: &Mutex<Vec<Asked>>,
    script: &Script,
) -> Option<End> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let authorization = request.headers().get("authorization");
    let authorization = authorization.map_or("", |value| value.to_str().expect("text")).to_owned();
    let mut stream = request.into_body();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data.ok()?;
        body.extend_from_slice(&data);
        stream.flow_control().release_capacity(data.len()).ok()?;
    }
    let mut asked = Asked { method, authorization, body: body.into(), before: 0 };
    {
        let mut log = log.lock().expect("no panic");
        asked.before =
            log.iter().filter(|one| (&one.method, &one.body) == (&asked.method, &asked.body)).count();
        log.push(asked.clone());
    }
    let answer = script(&asked);
    let mut head = Response::builder().header("content-type", "application/grpc");
    if let Some(authorization) = answer.authorization {
        head = head.header("authorization", authorization);
    }
    let mut out = respond.send_response(head.body(()).expect("a head"), false).ok()?;
    send_all(&answer, &mut out).await?;
    end(answer.end, &mut out).await?;
    Some(answer.end)
}

async fn send_all(answer: &Answer, out: &mut SendStream<Bytes>) -> Option<()> {
    for message in &answer.messages {
        send(framed(message), out).await?;
    }
    while let (End::Never, Some(message)) = (answer.end, answer.messages.last()) {
        send(framed(message), out).await?;
    }
    Some(())
}

/// Sends bytes as fast as the client reads.
async fn send(mut bytes: Bytes, out: &mut SendStream<Bytes>) -> Option<()> {
    while !bytes.is_empty() {
        out.reserve_capacity(bytes.len());
        let room = poll_fn(|cx| out.poll_capacity(cx)).await?.ok()?;
        out.send_data(bytes.split_to(room.min(bytes.len())), false).ok()?;
    }
    Some(())
}

async fn end(end: End, out: &mut SendStream<Bytes>) -> Option<()> {
    let status = match end {
        End::Status(status) => status,
        End::AmidMessage => {
            send(Bytes::from_static(&[0, 0, 0, 1, 0, 7]), out).await?;
            0
        }
        End::NoStatus => return out.send_data(Bytes::new(), true).ok(),
        End::Reset => {
            out.send_reset(Reason::INTERNAL_ERROR);
            return Some(());
        }
        End::Cut | End::Never => {
            // The client reads the bytes before the connection closes.
            tokio::time::sleep(Duration::from_millis(200)).await;
            return Some(());
        }
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.into());
    trailers.insert("grpc-message", "the%20script%20says%20so".parse().expect("a value"));
    out.send_trailers(trailers).ok()
}

fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("a length");
    [&[0][..], &length.to_be_bytes(), message].concat().into()
}

/// A protobuf field with a text, bytes or a message.
fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn number(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 127 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn any(name: &str, message: &[u8]) -> Vec<u8> {
    let name = format!("type.googleapis.com/arrow.flight.protocol.sql.{name}");
    [field(1, name.as_bytes()), field(2, message)].concat()
}

fn schema(name: &str) -> Schema {
    Schema::new(vec![Field::new(name, DataType::Int64, false)])
}

fn encoded(schema: &Schema) -> EncodedData {
    let mut tracker = DictionaryTracker::new(false);
    let options = IpcWriteOptions::default();
    IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &options)
}

/// A schema in the form of `FlightInfo`.
fn encapsulated(schema: &Schema) -> Vec<u8> {
    let message = encoded(schema).ipc_message;
    let length = u32::try_from(message.len()).expect("a length");
    [&[0xff; 4][..], &length.to_le_bytes(), &message].concat()
}

fn data(header: &[u8], body: &[u8]) -> Bytes {
    [field(2, header), field(1000, body)].concat().into()
}

/// The message for rows with one column of this name.
fn begin(name: &str) -> Bytes {
    data(&encoded(&schema(name)).ipc_message, &[])
}

fn batch(rows: impl IntoIterator<Item = i64>) -> EncodedData {
    batch_by(None, rows)
}

fn batch_by(compression: Option<CompressionType>, rows: impl IntoIterator<Item = i64>) -> EncodedData {
    let column = Int64Array::from_iter_values(rows);
    let batch = RecordBatch::try_new(Arc::new(schema("n")), vec![Arc::new(column)]).expect("a batch");
    let mut tracker = DictionaryTracker::new(false);
    let options = IpcWriteOptions::default().try_with_compression(compression).expect("a codec");
    let mut context = IpcWriteContext::default();
    IpcDataGenerator::default().encode(&batch, &mut tracker, &options, &mut context).expect("bytes").1
}

/// A message with rows.
fn rows(rows: impl IntoIterator<Item = i64>) -> Bytes {
    let batch = batch(rows);
    data(&batch.ipc_message, &batch.arrow_data)
}

/// A part of the rows, identified by its ticket.
fn endpoint(ticket: &str, location: Option<&str>, expires: Option<u64>) -> Vec<u8> {
    let location = location.map(|uri| field(2, &field(1, uri.as_bytes())));
    let expires = expires.map(|seconds| field(3, &number(1, seconds)));
    let ticket = field(1, &field(1, ticket.as_bytes()));
    [ticket, location.unwrap_or_default(), expires.unwrap_or_default()].concat()
}

fn info(endpoints: &[Vec<u8>], is_ordered: bool) -> Bytes {
    let endpoints: Vec<_> = endpoints.iter().map(|endpoint| field(3, endpoint)).collect();
    [field(1, &encapsulated(&schema("n"))), endpoints.concat(), number(6, is_ordered.into())].concat().into()
}

/// A server without prepared statements. `info` describes the rows, and `get` answers tickets.
async fn unprepared(info: Bytes, get: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Peer {
    Peer::start(move |asked| match asked.method.as_str() {
        "GetSchema" => whole(vec![field(1, &encapsulated(&schema("n"))).into()]),
        "GetFlightInfo" => whole(vec![info.clone()]),
        "DoGet" => get(asked),
        _ => fails(UNIMPLEMENTED),
    })
    .await
}

fn numbers(reply: &Reply) -> Vec<i64> {
    reply
        .text()
        .lines()
        .map(|line| line.parse::<serde_json::Value>().expect("a row")["n"].as_i64().expect("n"))
        .collect()
}

#[tokio::test]
async fn endpoints_are_read_side_by_side_and_in_order_where_the_server_says_so() {
    let endpoints: Vec<_> = (0..9).map(|i| endpoint(&format!("part {i}"), None, None)).collect();
    for is_ordered in [true, false] {
        let peer = unprepared(info(&endpoints, is_ordered), |asked| {
            let part = (0..9).find(|i| asked.mentions(&format!("part {i}"))).expect("a part");
            let first = part * 10_000;
            whole(vec![begin("n"), rows(first..first + 5000), rows(first + 5000..first + 10_000)])
        })
        .await;
        let server = peer.serve("", "select n").await;
        let reply = get(&server.url("/rows.ndjson")).await;
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete));
        let mut found = numbers(&reply);
        if !is_ordered {
            found.sort_unstable();
        }
        assert!(found.into_iter().eq(0..90_000), "is_ordered: {is_ordered}");
        assert_eq!(peer.count("DoGet"), 9);
        // As batches, which are split to the same size as batches built from rows.
        let reply = get(&server.url("/rows.arrow")).await;
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete));
        let batches = StreamReader::try_new(&*reply.body, None).expect("a stream");
        let batches: Vec<_> = batches.map(|batch| batch.expect("a batch")).collect();
        assert!(batches.iter().all(|batch| batch.num_rows() <= 8192));
        let rows =
            batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
        let mut found: Vec<_> = rows.collect();
        if !is_ordered {
            found.sort_unstable();
        }
        assert!(found.into_iter().eq(0..90_000), "is_ordered: {is_ordered}");
    }
}

/// A batch compressed with LZ4 or zstd was an error that blamed the server.
#[tokio::test]
async fn compressed_batches_are_decoded() {
    for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let peer = unprepared(info(&[endpoint("a", None, None)], true), move |_| {
            // With two rows, compressing the buffer would make it longer.
            let batches = [(0..100_000), (100_000..100_002)];
            let batches = batches.map(|rows| batch_by(Some(compression), rows));
            let rows = batches.iter().map(|batch| data(&batch.ipc_message, &batch.arrow_data));
            whole([begin("n")].into_iter().chain(rows).collect())
        })
        .await;
        let server = peer.serve("", "select n").await;
        let reply = get(&server.url("/rows.ndjson")).await;
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{compression:?}");
        assert!(numbers(&reply).into_iter().eq(0..100_002), "{compression:?}");
    }
}

/// A compressed buffer begins with a length, which the server may get wrong.
#[tokio::test]
async fn the_length_of_a_compressed_buffer_is_bounded() {
    let terabyte = 1_i64 << 40;
    for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        for (length, status, code) in [
            // Longer than any batch, and the maximum length of a batch.
            (terabyte, 500, "row_too_large"),
            (i64::MAX, 500, "row_too_large"),
            (16 << 20, 500, "row_too_large"),
            (15 << 20, 502, "source_protocol"),
            (8, 502, "source_protocol"),
            (-7, 502, "source_protocol"),
        ] {
            let peer = unprepared(info(&[endpoint("a", None, None)], true), move |_| {
                let mut batch = batch_by(Some(compression), 0..10_000);
                // The column has no NULL, so its first buffer is empty.
                batch.arrow_data[..8].copy_from_slice(&length.to_le_bytes());
                whole(vec![begin("n"), data(&batch.ipc_message, &batch.arrow_data)])
            })
            .await;
            let server = peer.serve("", "select n").await;
            let reply = get(&server.url("/rows")).await;
            let said = (reply.status.as_u16(), reply.json()["code"].as_str().map(str::to_owned));
            assert_eq!(said, (status, Some(code.to_owned())), "{compression:?}, {length}: {}", reply.text());
            assert!(peak_memory_bytes(server.pid()) < 400 << 20, "{compression:?}, {length}");
        }
    }
}

/// With any wrong end, the rows never look complete.
#[tokio::test]
async fn what_ends_early_never_looks_whole() {
    for end in [
        End::NoStatus,
        End::Reset,
        End::Cut,
        End::AmidMessage,
        End::Status(13),
        End::Status(14),
        End::Status(5),
    ] {
        let endpoints = [endpoint("a", None, None), endpoint("b", None, None)];
        let peer = unprepared(info(&endpoints, true), move |asked| {
            let last = if asked.mentions("b") { end } else { End::Status(0) };
            ends(vec![begin("n"), rows(0..50_000)], last)
        })
        .await;
        let server = peer.serve("", "select n").await;
        let reply = get(&server.url("/rows.csv")).await;
        assert_eq!(reply.status, 200, "{end:?}: {}", reply.text());
        assert_ne!(reply.ended, Ended::Complete, "{end:?}");
        assert_eq!(peer.count("GetFlightInfo"), 1, "{end:?}");
        let reply = get(&server.url("/rows.arrow")).await;
        assert_ne!(reply.ended, Ended::Complete, "{end:?}");
        assert!(!reply.body.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]), "{end:?}: there is an end");
        let output = rowstream(&["query", &peer.url(), "select n"]).await;
        assert_eq!(output.status.code(), Some(1), "{end:?}");
    }
}

/// Before the first row, an error has a status.
#[tokio::test]
async fn what_fails_before_the_first_row_has_a_status() {
    for (end, status, code) in [
        (End::Status(3), 500, "statement_failed"),
        (End::Status(4), 504, "statement_timeout"),
        (End::Status(14), 503, "source_unavailable"),
        (End::NoStatus, 502, "source_protocol"),
        (End::Reset, 503, "source_unavailable"),
    ] {
        let peer =
            unprepared(info(&[endpoint("a", None, None)], true), move |_| ends(vec![begin("n")], end)).await;
        let server = peer.serve("", "select n").await;
        let reply = get(&server.url("/rows")).await;
        assert_eq!(reply.status, status, "{end:?}: {}", reply.text());
        assert_eq!(reply.json()["code"], code, "{end:?}");
    }
}

/// An expired ticket is requested again, as long as no row has been sent.
#[tokio::test]
async fn tickets_that_expired_are_asked_for_once_more() {
    let once = |first: fn() -> Answer| {
        move |asked: &Asked| match asked.before {
            0 => first(),
            _ => whole(vec![begin("n"), rows(0..3)]),
        }
    };
    for first in [|| fails(5), || fails(14), || ends(Vec::new(), End::Reset)] {
        let peer = unprepared(info(&[endpoint("a", None, None)], false), once(first)).await;
        let server = peer.serve("", "select n").await;
        let reply = get(&server.url("/rows.ndjson")).await;
        assert_eq!((reply.status.as_u16(), numbers(&reply)), (200, vec![0, 1, 2]), "{}", reply.text());
        assert_eq!(peer.count("DoGet"), 2);
    }
    // The ticket has expired, so it isn't used.
    let peer = unprepared(info(&[endpoint("a", None, Some(1))], false), once(|| fails(5))).await;
    let server = peer.serve("", "select n").await;
    assert_eq!(get(&server.url("/rows")).await.status, 503);
    assert_eq!((peer.count("DoGet"), peer.count("GetFlightInfo")), (0, 2));
}

/// A server that only describes columns together with the rows may have begun to compute these. We
/// cancel them, or request them and disconnect.
#[tokio::test]
async fn rows_that_nobody_reads_are_let_go() {
    let script = |asked: &Asked| match asked.method.as_str() {
        "GetFlightInfo" => whole(vec![info(&[endpoint("a", None, None)], false)]),
        "DoGet" => ends(vec![begin("n"), rows(0..8192)], End::Never),
        _ => fails(UNIMPLEMENTED),
    };
    let peer = Peer::start(script).await;
    let server = peer.serve("", "select n").await;
    assert_eq!((peer.count("GetFlightInfo"), peer.count("DoGet")), (1, 1));
    peer.until("it is reset", |peer| *peer.reset.lock().expect("no panic") == 1).await;
    // The columns are known, so they aren't requested again.
    let mut stream = Client::HTTP1.stream(&server.url("/rows.ndjson")).await;
    stream.at_least(100_000).await;
    assert_eq!((peer.count("GetFlightInfo"), peer.count("DoGet")), (2, 2));
}

#[tokio::test]
async fn what_lies_ends_the_stream() {
    let batch = batch(0..1000);
    let (header, body) = (batch.ipc_message, batch.arrow_data);
    let mut broken = header.clone();
    broken.truncate(header.len() / 2);
    let compressed = Bytes::from(field(2, &header));
    for (what, message) in [
        ("a body that is cut", data(&header, &body[..100])),
        ("a body that is too long", data(&header, &[&body[..], &body[..]].concat())),
        ("a header that is cut", data(&broken, &body)),
        ("no header", data(b"nonsense", &body)),
        ("no message", Bytes::from_static(&[0xff; 40])),
        ("rows without a body", compressed),
        ("another schema in the middle", begin("m")),
    ] {
        let peer = unprepared(info(&[endpoint("a", None, None)], false), {
            let message = message.clone();
            move |_| whole(vec![begin("n"), message.clone(), rows(0..10)])
        })
        .await;
        let server = peer.serve("", "select n").await;
        let reply = get(&server.url("/rows")).await;
        assert!([502, 503].contains(&reply.status.as_u16()), "{what}: {} {}", reply.status, reply.text());
    }
    // Columns that differ from their description.
    let peer =
        unprepared(info(&[endpoint("a", None, None)], false), |_| whole(vec![begin("m"), rows(0..10)])).await;
    let server = peer.serve("", "select n").await;
    let reply = get(&server.url("/rows")).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (503, &"statement_changed".into()));
}

/// A message longer than the limit isn't read, even if its header differs.
#[tokio::test]
async fn messages_are_bounded() {
    let peer = unprepared(info(&[endpoint("a", None, None)], false), |_| {
        whole(vec![begin("n"), rows(0..1_000_000)])
    })
    .await;
    let config = format!("[source.lake]\nurl = \"{}\"\nmax_row_bytes = \"1MiB\"\n", peer.url());
    let server =
        Launch::files(&[("rowstream.toml", &config), ("endpoints/rows.sql", "select n")]).start().await;
    let reply = get(&server.url("/rows")).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (500, &"row_too_large".into()));
    assert!(peak_memory_bytes(server.pid()) < 64 << 20);
}

/// A slow client makes the server wait, a client that disconnects ends the query, and memory stays
/// constant.
#[tokio::test]
async fn endless_rows_wait_for_the_client_and_end_with_it() {
    let peer = unprepared(info(&[endpoint("a", None, None), endpoint("b", None, None)], false), |_| {
        ends(vec![begin("n"), rows(0..8192)], End::Never)
    })
    .await;
    let server = peer.serve("", "select n").await;
    let mut stream = Client::HTTP1.stream(&server.url("/rows.ndjson")).await;
    stream.at_least(50 << 20).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(*peer.reset.lock().expect("no panic"), 0);
    drop(stream);
    peer.until("both are reset", |peer| *peer.reset.lock().expect("no panic") == 2).await;
    peer.until("it is told to cancel", |peer| peer.count("CancelFlightInfo") == 1).await;
    assert!(peak_memory_bytes(server.pid()) < 96 << 20, "{}", peak_memory_bytes(server.pid()));
}

#[tokio::test]
async fn rows_elsewhere_are_read_where_the_url_allows_it() {
    let elsewhere = unprepared(Bytes::new(), |_| whole(vec![begin("n"), rows(5..8)])).await;
    let location = format!("grpc://{}", elsewhere.address);
    let endpoints = [endpoint("a", None, None), endpoint("b", Some(&location), None)];
    let peer = unprepared(info(&endpoints, true), |_| whole(vec![begin("n"), rows(0..5)])).await;
    let server = peer.serve("", "select n").await;
    let reply = get(&server.url("/rows")).await;
    assert_eq!(reply.status, 500, "{}", reply.text());
    assert!(elsewhere.asked.lock().expect("no panic").is_empty());
    let server = peer.serve(&format!("?location={}", elsewhere.address), "select n").await;
    let reply = get(&server.url("/rows.ndjson")).await;
    assert_eq!(numbers(&reply), [0, 1, 2, 3, 4, 5, 6, 7], "{}", reply.text());
}

/// A server with prepared statements.
async fn prepared() -> Peer {
    Peer::start(with_prepared_statements()).await
}

fn with_prepared_statements() -> impl Fn(&Asked) -> Answer + Send + Sync + 'static {
    let described = [
        field(1, b"its handle"),
        field(2, &encapsulated(&schema("n"))),
        field(3, &encapsulated(&schema("1"))),
    ];
    let described = any("ActionCreatePreparedStatementResult", &described.concat());
    move |asked| match asked.method.as_str() {
        "DoAction" if asked.is("CreatePreparedStatement") => whole(vec![field(1, &described).into()]),
        "DoAction" if asked.is("ClosePreparedStatement") => whole(Vec::new()),
        "DoPut" => whole(vec![field(1, &field(1, b"another handle")).into()]),
        "GetFlightInfo" if asked.mentions("another handle") => {
            whole(vec![info(&[endpoint("a", None, None)], false)])
        }
        "DoGet" => whole(vec![begin("n"), rows(0..3)]),
        _ => fails(UNIMPLEMENTED),
    }
}

fn without_prepared_statements() -> impl Fn(&Asked) -> Answer + Send + Sync + 'static {
    let info = info(&[endpoint("a", None, None)], false);
    move |asked| match asked.method.as_str() {
        "GetFlightInfo" if asked.mentions("CommandGetSqlInfo") => fails(UNIMPLEMENTED),
        "GetFlightInfo" => whole(vec![info.clone()]),
        "DoGet" => whole(vec![begin("n"), rows(0..3)]),
        _ => fails(UNIMPLEMENTED),
    }
}

#[tokio::test]
async fn parameters_are_bound_to_what_is_prepared() {
    let peer = prepared().await;
    let sql = "/*\n[params]\nat = { type = 'integer' }\n*/\nselect n from t where n < :at";
    let server = peer.serve("", sql).await;
    let reply = get(&server.url("/rows.ndjson?at=4711")).await;
    assert_eq!((reply.status.as_u16(), numbers(&reply)), (200, vec![0, 1, 2]), "{}", reply.text());
    let bound = {
        let asked = peer.asked.lock().expect("no panic");
        asked.iter().find(|asked| asked.is("DoPut")).expect("a DoPut").body.clone()
    };
    let value = 4711_i64.to_le_bytes();
    assert!(bound.windows(8).any(|window| window == value), "the value is bound");
    peer.until("it is closed", |peer| {
        peer.count("ClosePreparedStatement") == peer.count("CreatePreparedStatement")
    })
    .await;
}

#[tokio::test]
async fn a_server_that_prepares_nothing_takes_no_parameters() {
    let peer = unprepared(info(&[], false), |_| whole(Vec::new())).await;
    let output = rowstream(&["query", &peer.url(), "select :a as n", "-p", "a=1"]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("doesn't prepare statements") && said.contains("hint"), "{said}");
}

#[tokio::test]
async fn who_we_are_is_said_with_each_call_and_to_nobody_else() {
    let script = |asked: &Asked| match asked.method.as_str() {
        "Handshake" => Answer { authorization: Some("Bearer given"), ..whole(Vec::new()) },
        "GetFlightInfo" => whole(vec![info(&[endpoint("a", None, None)], false)]),
        "DoGet" => whole(vec![begin("n"), rows(0..1)]),
        _ => fails(UNIMPLEMENTED),
    };
    let peer = Peer::start(script).await;
    for (url, said) in [
        (peer.url().replace("//", "//ann:hush@"), "Bearer given"),
        (format!("{}?token=hush", peer.url()), "Bearer hush"),
    ] {
        peer.asked.lock().expect("no panic").clear();
        let output = rowstream(&["query", &url, "select n"]).await;
        assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"n\":0}\n");
        let asked = peer.asked.lock().expect("no panic");
        let basic = asked.iter().find(|asked| asked.is("Handshake")).map(|asked| &*asked.authorization);
        assert_eq!(basic, (said == "Bearer given").then_some("Basic YW5uOmh1c2g="));
        assert!(asked.iter().filter(|asked| !asked.is("Handshake")).all(|asked| asked.authorization == said));
    }
    // There's no server. The error contains no secret.
    for url in ["flightsql://ann:hush@127.0.0.1:1", "flightsql://127.0.0.1:1?token=hush"] {
        let output = rowstream(&["query", url, "select n"]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("cannot be reached") && !said.contains("hush"), "{said}");
    }
}

/// A server that accepts calls with one token, and answers them by a script.
struct TokenPeer {
    peer: Peer,
    accepted: Arc<Mutex<String>>,
}

impl TokenPeer {
    async fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let accepted: Arc<Mutex<String>> = Arc::default();
        let now = Arc::clone(&accepted);
        let peer = Peer::start(move |asked| match asked.authorization == *now.lock().expect("no panic") {
            true => script(asked),
            false => fails(UNAUTHENTICATED),
        })
        .await;
        Self { peer, accepted }
    }

    fn accept(&self, authorization: &str) {
        authorization.clone_into(&mut self.accepted.lock().expect("no panic"));
    }

    /// Our server, whose URL gets these parameters.
    async fn serve(&self, parameters: &str, sql: &str) -> Server {
        let launch = Launch::files(&[("token", "one\n"), ("endpoints/rows.sql", sql)]);
        let token = launch.path().join("token");
        let url = self.peer.url();
        let source = match parameters {
            COMMAND => format!("url = \"{url}\"\npassword_command = [\"cat\", \"{}\"]", token.display()),
            _ => format!("url = \"{url}{parameters}\""),
        };
        let config = format!("[source.lake]\n{source}\npool = {{ max = 2 }}\n");
        std::fs::write(launch.path().join("rowstream.toml"), config).expect("a file");
        launch.start().await
    }
}

/// In place of parameters: the token is the output of a command.
const COMMAND: &str = "command";

fn write_token(server: &Server, token: &str) {
    std::fs::write(server.folder().join("token"), token).expect("a file");
}

/// Requests rows twice at the same time, on two connections.
async fn assert_answers(server: &Server, target: &str, status: u16, when: &str) {
    let url = server.url(target);
    for reply in futures_util::future::join_all([get(&url), get(&url)]).await {
        assert_eq!(reply.status, status, "{when}: {}\n{}", reply.text(), server.stdout());
        assert!(status != 200 || numbers(&reply) == [0, 1, 2], "{when}: {}", reply.text());
    }
}

/// A token was read only at the start and at a reload. After it had changed, each request failed
/// until someone sent SIGHUP.
#[tokio::test]
async fn a_token_that_is_refused_is_read_again() {
    let with_parameter = "/*\n[params]\nat = { type = 'integer' }\n*/\nselect n from t where n < :at";
    for (peer, sql, target) in [
        (TokenPeer::start(with_prepared_statements()).await, with_parameter, "/rows.ndjson?at=1"),
        (TokenPeer::start(without_prepared_statements()).await, "select n", "/rows.ndjson"),
    ] {
        for parameters in ["?token=${file:token}", "?header.authorization=Bearer%20${file:token}", COMMAND] {
            peer.accept("Bearer one");
            let server = peer.serve(parameters, sql).await;
            assert_answers(&server, target, 200, "at the start").await;
            assert_follows_the_file(&server, &peer, target).await;
            let said = server.stdout() + &server.stderr();
            assert!(!["two", "three", "four"].iter().any(|token| said.contains(token)), "{said}");
        }
    }
}

/// Asserts that requests have the token of the file as soon as the server accepts no other.
async fn assert_follows_the_file(server: &Server, peer: &TokenPeer, target: &str) {
    for token in ["two", "three"] {
        write_token(server, token);
        peer.accept(&format!("Bearer {token}"));
        assert_answers(server, target, 200, token).await;
    }
    peer.accept("Bearer four");
    assert_answers(server, target, 503, "a file that is late").await;
    write_token(server, "four");
    assert_answers(server, target, 200, "the file is right").await;
}

/// A driver of ADBC keeps the options of its database for all connections.
#[tokio::test]
async fn a_token_of_a_driver_that_is_refused_is_read_again() {
    let peer = TokenPeer::start(without_prepared_statements()).await;
    peer.accept("Bearer one");
    let port = peer.peer.address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let url = drivers::adbc_flight(port);
    let url = format!("{url}&adbc.flight.sql.authorization_header=Bearer%20${{file:token}}");
    let config = format!("[source.lake]\nurl = \"{url}\"\npool = {{ max = 2 }}\n");
    let files = [("rowstream.toml", &*config), ("token", "one"), ("endpoints/rows.sql", "select n")];
    let server = Server::start(&files).await;
    let target = "/rows.ndjson";
    assert_answers(&server, target, 200, "at the start").await;
    assert_follows_the_file(&server, &peer, target).await;
}

/// A server that gives a token for a user and a password may forget it, and the password may change.
#[tokio::test]
async fn a_login_that_has_expired_is_repeated() {
    let script = without_prepared_statements();
    let accepted: Arc<Mutex<(&str, &str)>> = Arc::new(Mutex::new(("Basic YW5uOm9uZQ==", "Bearer one")));
    let now = Arc::clone(&accepted);
    let peer = Peer::start(move |asked| {
        let (basic, bearer) = *now.lock().expect("no panic");
        match (asked.is("Handshake"), &*asked.authorization) {
            (true, given) if given == basic => Answer { authorization: Some(bearer), ..whole(Vec::new()) },
            (false, given) if given == bearer => script(asked),
            _ => fails(UNAUTHENTICATED),
        }
    })
    .await;
    let url = peer.url().replace("//", "//ann:${file:password}@");
    let config = format!("[source.lake]\nurl = \"{url}\"\npool = {{ max = 2 }}\n");
    let files = [("rowstream.toml", &*config), ("password", "one"), ("endpoints/rows.sql", "select n")];
    let server = Server::start(&files).await;
    let accept = |basic, bearer| *accepted.lock().expect("no panic") = (basic, bearer);
    assert_answers(&server, "/rows.ndjson", 200, "at the start").await;
    accept("Basic YW5uOm9uZQ==", "Bearer two");
    assert_answers(&server, "/rows.ndjson", 200, "a token that has expired").await;
    accept("Basic YW5uOnR3bw==", "Bearer three");
    assert_answers(&server, "/rows.ndjson", 503, "a file that is late").await;
    std::fs::write(server.folder().join("password"), "two").expect("a file");
    assert_answers(&server, "/rows.ndjson", 200, "another password").await;
}

/// Over TLS the server has to prove its identity. We send nothing to a server without TLS.
#[tokio::test]
async fn the_certificate_has_to_be_of_a_known_authority() {
    let script = |asked: &Asked| match asked.method.as_str() {
        "GetFlightInfo" => whole(vec![info(&[endpoint("a", None, None)], false)]),
        "DoGet" => whole(vec![begin("n"), rows(0..3)]),
        _ => fails(UNIMPLEMENTED),
    };
    let certificate = Certificate::new();
    let (secured, plain) = (Peer::start_by(Some(&certificate), script).await, Peer::start(script).await);
    let url = |peer: &Peer, scheme: &str, parameters: &str| {
        format!("{scheme}://{}{parameters}", peer.address.replace("127.0.0.1", "localhost"))
    };
    let ca = format!("?ssl-ca={}", certificate.ca().display());
    let output = rowstream(&["query", &url(&secured, "flightsql+tls", &ca), "select n"]).await;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"n\":0}\n{\"n\":1}\n{\"n\":2}\n");
    assert_eq!(output.status.code(), Some(0));
    let asked = secured.count("DoGet");
    for (url, words) in [
        (url(&secured, "flightsql+tls", ""), "UnknownIssuer"),
        (url(&plain, "flightsql+tls", &ca), "cannot be reached"),
    ] {
        let output = rowstream(&["query", &url, "select n"]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{url}: {said}");
        assert!(said.contains(words), "{url}: {said}");
    }
    assert_eq!((secured.count("DoGet"), plain.count("DoGet")), (asked, 0));
}

/// Features that need a common snapshot are refused when the files are read, with a reason.
#[tokio::test]
async fn what_flight_sql_cannot_do_is_refused() {
    let peer = unprepared(info(&[], false), |_| whole(Vec::new())).await;
    let config = format!("[source.lake]\nurl = \"{}\"\n", peer.url());
    for (sql, why) in [
        ("-- name: a :many\nselect n\n-- name: b :many\nselect n", "no common snapshot"),
        (
            "-- name: a :many\nselect n\n-- name: b :many nested in a on n = n\nselect n",
            "read no common snapshot, so rows of one",
        ),
        ("/*\nkey = ['n']\nfollow = true\n*/\nselect n", "has no live tail"),
        // The order of commits is unknown, so `ordered` is refused.
        ("/*\nkey = ['n']\nfollow = { commits = 'ordered' }\n*/\nselect n", "has no live tail"),
    ] {
        let launch = Launch::files(&[("rowstream.toml", &config), ("endpoints/rows.sql", sql)]);
        let path = launch.path().join("rowstream.toml");
        let output = rowstream(&["check", path.to_str().expect("a path")]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{sql}");
        assert!(said.contains(why) && said.contains("hint"), "{sql}: {said}");
    }
}
