//! Values of parameters never leave their places. Random ones go through the real server to an
//! upstream that records its requests' bytes. The request has the lines, segments and pairs of its
//! template, and each value is unchanged.

use std::sync::{Arc, Mutex};

use crate::support::{Client, Ended, Reply, Server, get};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ENDPOINT: &str = r#"
[params]
a = "text"
b = "text"
c = "text"
d = { type = "text", in = "header", header = "X-Given", optional = true }
[upstream]
request = "GET /p/{a}/q?x={b}&fixed=1&y=({a})"
headers = { X-Value = "{c}", X-Within = "id={c};end", X-Other = "{d}" }
"#;

/// The same for one of several calls.
const CALLS: &str = r#"
[params]
a = "text"
b = "text"
c = "text"
[upstream]
request = "GET /p/{a}/q?x={b}&fixed=1&y=({a})"
headers = { X-Value = "{c}", X-Within = "id={c};end" }
repeat  = 1
"#;

type Heads = Arc<Mutex<Vec<Vec<u8>>>>;

/// Records everything up to an empty line as a request, and answers it.
async fn upstream() -> (String, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let heads = Heads::default();
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket, Arc::clone(&kept)));
        }
    });
    (url, heads)
}

async fn answer(mut socket: TcpStream, heads: Heads) {
    let mut bytes = Vec::new();
    loop {
        while let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            heads.lock().expect("no panic").push(bytes.drain(..end + 4).collect());
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-type: application/json\r\n\r\n1";
            socket.write_all(answer).await.expect("the server reads");
        }
        match socket.read_buf(&mut bytes).await {
            Ok(1..) => {}
            _ if bytes.is_empty() => return,
            // The count of requests reveals any remaining bytes.
            _ => return heads.lock().expect("no panic").push(bytes),
        }
    }
}

/// Texts with characters that HTTP treats specially, apparent escapes, dots, and random ones.
fn values() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[a-z0-9 ]{0,4}",
        2 => "[\r\n\0\t:;=&?/#%+ .\"'<>{}\\\\@\u{7f}\u{80}-\u{ff}]{1,3}",
        1 => any::<char>().prop_map(String::from),
        2 => prop::sample::select(vec![
            "..", ".", "%2f", "%2e%2e", "%0d%0a", "/../", "//", "\r\nX-Evil: 1", "\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
            "&fixed=2", "?x=1", "#frag", "; HttpOnly", "größe", "\u{2028}", "%", "%00", "%zz", "{n}", "${PATH}", "transfer-encoding",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

/// The lines of a received head, beginning with the request line.
fn lines(head: &[u8]) -> Vec<Vec<u8>> {
    let text = head.strip_suffix(b"\r\n\r\n").unwrap_or_else(|| panic!("no end: {head:?}"));
    let mut all = vec![Vec::new()];
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' if bytes.peek() == Some(&b'\n') => {
                bytes.next();
                all.push(Vec::new());
            }
            b'\r' | b'\n' | 0 => panic!("a control stands alone: {head:?}"),
            byte => all.last_mut().expect("it has one").push(byte),
        }
    }
    all
}

fn field<'a>(lines: &'a [Vec<u8>], name: &str) -> &'a [u8] {
    let of = |line: &'a Vec<u8>| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        line[..colon].eq_ignore_ascii_case(name.as_bytes()).then(|| &line[colon + 2..])
    };
    let mut found = lines.iter().filter_map(of);
    let first = found.next().unwrap_or_else(|| panic!("there is no {name}"));
    assert!(found.next().is_none(), "there are two of {name}");
    first
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().expect("UTF-8").into_owned()
}

/// Checks that the request matches the template, with these values in their places.
fn assert_is_template(head: &[u8], [a, b, c]: [&str; 3], count: usize) {
    let lines = lines(head);
    assert_eq!(lines.len(), count, "{head:?}");
    let request = std::str::from_utf8(&lines[0]).expect("it is ASCII");
    let [method, target, version] = request.split(' ').collect::<Vec<_>>()[..] else { panic!("{request}") };
    assert_eq!((method, version), ("GET", "HTTP/1.1"));
    let (path, query) = target.split_once('?').expect("it has both");
    assert_eq!(path.split('/').map(decoded).collect::<Vec<_>>(), ["", "p", a, "q"]);
    let pairs: Vec<_> = query.split('&').map(|pair| pair.split_once('=').expect("a pair")).collect();
    let pairs: Vec<_> = pairs.into_iter().map(|(name, value)| (name, decoded(value))).collect();
    assert_eq!(pairs, [("x", b.to_owned()), ("fixed", "1".to_owned()), ("y", format!("({a})"))]);
    // HTTP ignores blanks around a value.
    let trimmed = |value: &str| value.trim_matches([' ', '\t']).as_bytes().to_vec();
    assert_eq!(field(&lines, "x-value").trim_ascii(), trimmed(c));
    assert_eq!(field(&lines, "x-within"), format!("id={c};end").as_bytes());
}

async fn ask(server: &Server, path: &str, values: [&str; 3]) -> Reply {
    let [a, b, c] = values.map(|value| utf8_percent_encode(value, NON_ALPHANUMERIC));
    get(&server.url(&format!("{path}?a={a}&b={b}&c={c}"))).await
}

#[tokio::test]
async fn no_value_leaves_its_place() {
    let (url, heads) = upstream().await;
    let config = format!("[source.up]\nurl = '{url}'\nprotocol = 'http1'\n");
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/pass.toml", ENDPOINT),
        ("endpoints/calls.toml", CALLS),
    ])
    .await;
    let take = || std::mem::take(&mut *heads.lock().expect("no panic"));
    let mut runner = TestRunner::default();
    for path in ["/pass", "/calls.ndjson"] {
        assert_eq!(ask(&server, path, ["a", "b", "c"]).await.status, 200);
        let [plain] = &take()[..] else { panic!("one request was sent") };
        let count = lines(plain).len();
        let (mut sent, mut refused) = (0, 0);
        for _ in 0..400 {
            let given = (values(), values(), values()).new_tree(&mut runner).expect("values").current();
            let given = [&given.0, &given.1, &given.2].map(String::as_str);
            let reply = ask(&server, path, given).await;
            assert_eq!(reply.ended, Ended::Complete, "{given:?}");
            match (reply.status.as_u16(), &take()[..]) {
                (200, [head]) => {
                    assert_is_template(head, given, count);
                    sent += 1;
                }
                // A value that doesn't fit its place is refused without a call.
                (400, []) => {
                    assert_eq!(reply.json()["code"], "invalid_parameter", "{given:?}");
                    refused += 1;
                }
                (status, heads) => panic!("{status} and {} requests for {given:?}", heads.len()),
            }
        }
        assert!(
            sent > 50 && refused > 50,
            "{sent} were sent and {refused} refused: such values prove little"
        );
    }
}

/// A client's header values are passed on unchanged, each as one header.
#[tokio::test]
async fn a_header_of_the_client_stays_one() {
    let (url, heads) = upstream().await;
    let config = format!("[source.up]\nurl = '{url}'\nprotocol = 'http1'\n");
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/pass.toml", ENDPOINT)]).await;
    for value in ["plain", "a: b", "x, y; z=1", "größe", "\"quoted\\\"", "%0d%0aX-Evil: 1", "{c}"] {
        let request = http::Request::get(server.url("/pass?a=a&b=b&c=c"))
            .header("X-Given", http::HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        let reply = Client::HTTP1.send(request.body(String::new()).expect("a request")).await;
        assert_eq!(reply.status, 200, "{value}: {}", reply.text());
        let sent = std::mem::take(&mut *heads.lock().expect("no panic"));
        let [head] = &sent[..] else { panic!("{} requests for {value}", sent.len()) };
        assert_eq!(field(&lines(head), "x-other"), value.as_bytes());
    }
}
