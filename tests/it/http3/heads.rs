//! Malformed request heads (RFC 9114, sections 4.2 and 4.3). h3 accepts duplicate paths, using the
//! last one, and connection-specific headers, which other programs interpret differently. We
//! answered these requests normally.

use serde_json::{Value, json};

use super::{client, seen, server};
use crate::support::TestDb;
use crate::support::upstream::Certificate;

/// A HEADERS frame with field lines (RFC 9114, section 7.2.2), after QPACK's prefix.
fn headers(lines: &[Vec<u8>]) -> Vec<u8> {
    let section = [vec![0, 0], lines.concat()].concat();
    let length = u16::try_from(section.len()).expect("a short section") | 0x4000;
    [&[1][..], &length.to_be_bytes(), &section].concat()
}

/// An integer in the last bits of its first byte (RFC 7541, section 5.1).
fn integer(first: u8, bits: u32, value: usize) -> Vec<u8> {
    let largest = (1 << bits) - 1;
    if value < largest {
        return vec![first | u8::try_from(value).expect("a byte")];
    }
    vec![first | u8::try_from(largest).expect("a byte"), u8::try_from(value - largest).expect("a short text")]
}

fn value(value: &str) -> Vec<u8> {
    [integer(0, 7, value.len()), value.into()].concat()
}

/// A line with a literal name and value.
fn line(name: &str, text: &str) -> Vec<u8> {
    [integer(0x20, 3, name.len()), name.into(), value(text)].concat()
}

/// The same with a Huffman-coded name.
fn huffman(name: &[u8], text: &str) -> Vec<u8> {
    [integer(0x28, 3, name.len()), name.into(), value(text)].concat()
}

/// A line whose name is in QPACK's static table. `indexed` also has its value there.
fn named(index: usize, text: &str) -> Vec<u8> {
    [integer(0x50, 4, index), value(text)].concat()
}

fn indexed(index: usize) -> Vec<u8> {
    integer(0xc0, 6, index)
}

/// `:method: GET`, `:scheme: https`, `:authority: a`, `:path: /one`.
fn get() -> [Vec<u8>; 4] {
    [indexed(17), indexed(23), named(0, "a"), named(1, "/one")]
}

fn with(lines: &[Vec<u8>]) -> Vec<Vec<u8>> {
    [&get(), lines].concat()
}

fn without(index: usize) -> Vec<Vec<u8>> {
    let mut lines = Vec::from(get());
    lines.remove(index);
    lines
}

/// The client's results for these requests on one connection.
async fn answers(requests: &[Vec<Vec<u8>>]) -> Vec<Value> {
    let requests: Vec<_> = requests.iter().map(|lines| headers(lines)).collect();
    answers_to("raw", &requests, "").await
}

/// The same for streams with these bytes. `option` says if they end.
async fn answers_to(option: &str, streams: &[Vec<u8>], settings: &str) -> Vec<Value> {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, settings).await;
    let hex = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let raw = format!("{option}={}", streams.iter().map(hex).collect::<Vec<String>>().join(","));
    let mut answers = seen(client(&server, &certificate, "/one", &[&raw])).await;
    // The connection stays usable.
    assert_eq!(answers.pop().expect("the client's own request")["status"], 200, "{answers:?}");
    answers
}

#[tokio::test]
async fn sound_heads_are_answered_however_they_are_written() {
    let names: [(&[u8], &str); 4] = [
        (b"\xb9\x49\x53\x39\xe4", "GET"),
        (b"\xb8\x82\x4e\x5a\x4b", "https"),
        (b"\xb8\x3b\x53\x39\xec\x32\x7d\x7f", "a"),
        (b"\xb9\x58\xd3\x3f", "/one"),
    ];
    let requests = [
        with(&[]),
        with(&[line("te", "trailers"), line("host", "a")]),
        vec![
            line(":path", "/one"),
            line(":authority", "a"),
            line(":scheme", "https"),
            line(":method", "GET"),
        ],
        names.map(|(name, text)| huffman(name, text)).to_vec(),
    ];
    for (number, answer) in answers(&requests).await.iter().enumerate() {
        let (status, ended) = (&answer["status"], &answer["ended"]);
        assert_eq!((status, ended), (&200.into(), &"whole".into()), "request {number}: {answer}");
    }
}

#[tokio::test]
async fn malformed_heads_are_refused() {
    let after_a_header = [&[line("x", "y")][..], &get()].concat();
    let cases = [
        ("a second path", with(&[named(1, "/missing")])),
        ("a second path, by name", with(&[line(":path", "/missing")])),
        ("a second path, in Huffman's code", with(&[huffman(b"\xb9\x58\xd3\x3f", "/missing")])),
        ("the same path again", with(&[named(1, "/one")])),
        ("a second method", with(&[indexed(18)])),
        ("a second scheme", with(&[indexed(22)])),
        ("a second authority", with(&[named(0, "b")])),
        ("a status", with(&[indexed(25)])),
        ("a status, by name", with(&[line(":status", "200")])),
        ("a protocol", with(&[line(":protocol", "websocket")])),
        ("an unknown pseudo-header", with(&[line(":color", "red")])),
        ("pseudo-headers after a header", after_a_header),
        ("no method", without(0)),
        ("no scheme", without(1)),
        ("no authority", without(2)),
        ("no path", without(3)),
        ("neither scheme nor path", [indexed(17), named(0, "a")].to_vec()),
        ("an empty path", [without(3), vec![named(1, "")]].concat()),
        ("CONNECT with a path", [without(0), vec![indexed(15)]].concat()),
        ("transfer-encoding", with(&[line("transfer-encoding", "chunked")])),
        ("connection", with(&[line("connection", "close")])),
        ("keep-alive", with(&[line("keep-alive", "timeout=5")])),
        ("proxy-connection", with(&[line("proxy-connection", "close")])),
        ("upgrade", with(&[line("upgrade", "websocket")])),
        ("te", with(&[line("te", "gzip")])),
        ("te with more", with(&[line("te", "trailers, gzip")])),
        ("te, the second time", with(&[line("te", "trailers"), line("te", "gzip")])),
        ("a name in capitals", with(&[line("X", "y")])),
    ];
    let requests = cases.clone().map(|(_, lines)| lines);
    let answers = answers(&requests).await;
    let ended = |answer: &Value| json!([answer["status"], answer["ended"]]);
    let accepted: Vec<_> = cases
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| ended(answer) != json!([null, "reset 0x10e"]))
        .map(|((what, _), answer)| (*what, ended(answer)))
        .collect();
    assert_eq!((answers.len(), accepted), (cases.len(), Vec::new()));
}

/// After `header_timeout`, a stream without a response ended as if its response was complete.
#[tokio::test]
async fn half_a_head_ends_with_a_reset() {
    let whole = headers(&get());
    // The type of a frame, half of its length, half of its section, and another frame before it.
    let mut halves = [1, 2, 10, whole.len() - 1].map(|length| whole[..length].to_vec()).to_vec();
    halves.push([&[0x21, 0][..], &whole[..5]].concat());
    for answer in answers_to("open", &halves, "header_timeout = \"1s\"").await {
        assert_eq!(json!([answer["status"], answer["ended"]]), json!([null, "reset 0x10d"]), "{answer}");
    }
}

/// A client could have a hundred incomplete heads of 32 KiB on each connection, which `memory`
/// didn't count.
#[tokio::test]
async fn half_heads_of_a_connection_are_bounded() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "header_timeout = \"1h\"").await;
    let half = headers(&with(&[vec![0; 10_000]]))[..10_000].to_vec();
    let hex: String = half.iter().map(|byte| format!("{byte:02x}")).collect();
    let seen = seen(client(&server, &certificate, "/one", &[&format!("flood={hex}")])).await;
    // 26 halves of 10 KB fit into 256 KiB.
    assert_eq!(seen[0]["reset"], 74, "{seen:?}");
}

/// A client sends heads in turns, a piece of each at a time. We read only four at once. The other
/// heads' pieces filled the connection's window, so all waited for `header_timeout`.
#[tokio::test]
async fn heads_that_are_sent_in_turns_are_answered() {
    let token: String = "x".repeat(100);
    let fields: Vec<_> = (0..20).map(|_| line("x", &token)).collect();
    let answers = answers_to("halves", &[headers(&with(&fields))], "header_timeout = \"1h\"").await;
    assert_eq!(answers.len(), 60);
    for answer in answers {
        assert_eq!((&answer["status"], &answer["ended"]), (&200.into(), &"whole".into()), "{answer}");
    }
}
