//! HTTP/2 as an attacker writes it: requests with malformed bodies (RFC 9113, section 8.1.1).
//! Endpoints need no body, so the response may be complete before one arrives. Then we ignored the
//! rest of the stream.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Launch, Server, wait};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PROTOCOL_ERROR: [u8; 4] = [0, 0, 0, 1];

struct Frame {
    kind: u8,
    flags: u8,
    payload: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The head of `GET /one` with additional fields, which use names from HPACK's static table.
fn head(flags: u8, stream: u32, fields: &[u8]) -> Vec<u8> {
    let fields = [b"\x82\x86\x04\x04/one\x01\x01a", fields].concat();
    frame(HEADERS, END_HEADERS | flags, stream, &fields)
}

/// `content-length`.
fn length(digit: char) -> Vec<u8> {
    vec![0x0f, 0x0d, 1, u8::try_from(digit).expect("a digit")]
}

/// A connection on which these frames have been sent.
async fn connect(server: &Server, frames: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect(server.address()).await.expect("it listens");
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..]].concat();
    client.write_all(&[&preface, frames].concat()).await.expect("it reads");
    client
}

/// The next frame of a stream, or a reset of another one.
async fn next(client: &mut TcpStream, number: u32) -> Frame {
    wait("a frame arrives", async {
        loop {
            let mut head = [0; 9];
            client.read_exact(&mut head).await.expect("a frame");
            let [a, b, c, kind, flags, stream @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            client.read_exact(&mut payload).await.expect("its payload");
            if u32::from_be_bytes(stream) == number || kind == RST_STREAM {
                return Frame { kind, flags, payload };
            }
        }
    })
    .await
}

/// Reads the response of a stream to its end.
async fn answered(client: &mut TcpStream, stream: u32) {
    loop {
        let frame = next(client, stream).await;
        assert_ne!(frame.kind, RST_STREAM, "{:?}", frame.payload);
        if frame.flags & END_STREAM != 0 && [DATA, HEADERS].contains(&frame.kind) {
            return;
        }
    }
}

/// The error code of a stream's reset.
async fn reset(client: &mut TcpStream, stream: u32) -> Vec<u8> {
    loop {
        let frame = next(client, stream).await;
        if frame.kind == RST_STREAM {
            return frame.payload;
        }
    }
}

async fn server() -> Server {
    // On a busy machine, a body may take longer than its response.
    let config = "header_timeout = \"1h\"\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n";
    Launch::files(&[
        ("rowstream.toml", config),
        ("t.sql", "create table t (n)"),
        ("endpoints/one.sql", "select 1 as n"),
    ])
    .start()
    .await
}

#[tokio::test]
async fn a_malformed_body_is_a_stream_error_before_and_after_the_answer() {
    let server = server().await;
    let trailers = frame(HEADERS, END_HEADERS, 1, &[0x0f, 0x0d, 1, b'1']);
    let cases = [
        ("more than content-length", length('1'), frame(DATA, END_STREAM, 1, b"test")),
        (
            "more than content-length, in pieces",
            length('5'),
            [frame(DATA, 0, 1, b"test"), frame(DATA, END_STREAM, 1, b"test")].concat(),
        ),
        ("less than content-length", length('5'), frame(DATA, END_STREAM, 1, b"test")),
        ("nothing", length('5'), frame(DATA, END_STREAM, 1, b"")),
        ("trailers that don't end the stream", Vec::new(), trailers),
    ];
    for (what, fields, body) in cases {
        let head = head(0, 1, &fields);
        let mut client = connect(&server, &[&head[..], &body].concat()).await;
        assert_eq!(reset(&mut client, 1).await, PROTOCOL_ERROR, "{what}");
        let mut client = connect(&server, &head).await;
        answered(&mut client, 1).await;
        client.write_all(&body).await.expect("it reads");
        assert_eq!(reset(&mut client, 1).await, PROTOCOL_ERROR, "{what}, after the answer");
    }
}

#[tokio::test]
async fn a_sound_body_is_read_and_ignored() {
    let server = server().await;
    let mut client = connect(&server, &head(0, 1, &length('4'))).await;
    answered(&mut client, 1).await;
    client.write_all(&frame(DATA, END_STREAM, 1, b"test")).await.expect("it reads");
    // If the first stream was reset, the reset precedes this response.
    client.write_all(&head(END_STREAM, 3, &[])).await.expect("it reads");
    answered(&mut client, 3).await;
}

/// A client may send more than an endpoint reads. After the response, the server asks it to stop.
#[tokio::test]
async fn a_long_body_is_not_read_to_its_end() {
    const NO_ERROR: [u8; 4] = [0; 4];
    let server = server().await;
    let mut client = connect(&server, &head(0, 1, &[])).await;
    answered(&mut client, 1).await;
    for _ in 0..5 {
        client.write_all(&frame(DATA, 0, 1, &[b'x'; 16_000])).await.expect("it reads");
    }
    assert_eq!(reset(&mut client, 1).await, NO_ERROR);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_holds_up_no_drain() {
    let mut server = server().await;
    let socket = TcpStream::connect(server.address()).await.expect("it listens");
    let (mut sender, connection) = h2::client::handshake(socket).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let request = http::Request::get("http://a/one").body(()).expect("a request");
    let (response, _never_ended) = sender.send_request(request, false).expect("room for a stream");
    let mut body = response.await.expect("an answer").into_body();
    while !body.is_end_stream() {
        body.data().await.expect("more").expect("a whole answer");
    }
    drop(sender);
    server.terminate();
    server.wait_drained().await;
}
