//! `rowstream get` behind proxies that drop trailers and damage bodies: a file is complete only if something
//! proves it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::stream::once;
use http::{Request, header};

use crate::get::{download, file, names, server, whole};
use crate::support::hops::Hop;
use crate::support::upstream::{Scripted, Speaks, Upstream, reply, stream};
use crate::support::{Client, Server};

/// The answer of a proxy to questions for the state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum States {
    Passed,
    Hidden,
}

/// The damage that a proxy does to a body, which then ends cleanly.
#[derive(Debug, Clone, Copy)]
enum Damage {
    None,
    /// The body ends after this many bytes.
    CutAt(usize),
    /// The text of row 70000 is another one. The number of rows stays right.
    Torn(&'static str),
    /// The same, in the first body only.
    TornOnce(&'static str),
}

impl Damage {
    /// Damages a body, which is the first one or a later one.
    fn apply(self, body: Bytes, is_first: bool) -> Bytes {
        match self {
            Self::CutAt(length) => body.slice(..length.min(body.len())),
            Self::Torn(text) => torn(&body, text),
            Self::TornOnce(text) if is_first => torn(&body, text),
            Self::None | Self::TornOnce(_) => body,
        }
    }
}

/// The body with another text in row 70000.
fn torn(body: &[u8], text: &str) -> Bytes {
    String::from_utf8(body.to_vec()).unwrap().replace("row 70000", text).into()
}

/// A proxy that passes on neither `TE` nor trailers, and damages bodies.
async fn lossy_proxy(server: &Server, damage: Damage, states: States) -> Upstream {
    let root = server.url("");
    let bodies = Arc::new(AtomicUsize::new(0));
    Upstream::start(Speaks::Http1, move |_, asked| {
        let mut request = Request::get(format!("{root}{}", asked.target));
        *request.headers_mut().unwrap() = asked.headers;
        let bodies = Arc::clone(&bodies);
        async move {
            let is_state = asked.target.starts_with("/_rowstream/");
            if is_state && states == States::Hidden {
                return reply(404, "text/plain", "");
            }
            for name in [header::TE, header::CONNECTION, header::HOST] {
                request.headers_mut().unwrap().remove(name);
            }
            let mut whole = Client::HTTP1.send(request.body(String::new()).unwrap()).await;
            if !is_state {
                whole.body = damage.apply(whole.body, bodies.fetch_add(1, Ordering::SeqCst) == 0);
            }
            let mut response = stream(once(async { Ok(whole.body) }));
            *response.headers_mut() = whole.headers;
            for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
                response.headers_mut().remove(name);
            }
            response
        }
    })
    .await
}

/// A proxy changed a digit, or lost bytes within a row. The counts were right, so the file was verified.
#[tokio::test]
async fn a_torn_row_is_noticed_although_the_counts_are_right() {
    let server = server().await;
    let (digest, counts) = ("error: the digest differs", "error: the server sent 100000 rows in ");
    for (path, told_if_shorter) in [
        ("/rows.ndjson", digest),
        ("/plain.ndjson", digest),
        ("/rows.json-seq", digest),
        ("/plain", digest),
        ("/rows.csv", counts),
        ("/rows.json", counts),
        ("/rows.sse", counts),
        ("/plain.sse", counts),
    ] {
        for (text, told) in [("row 70001", digest), ("row 7", told_if_shorter)] {
            let proxy = lossy_proxy(&server, Damage::Torn(text), States::Passed).await;
            let (folder, _, name) = file("rows");
            let url = format!("http://{}{path}", proxy.address());
            let (status, said) = download(&[&url, "-o", &name, "--retries", "0"]).await;
            assert!(status == Some(1) && said.contains(told), "{path} {text} {said}");
            assert!(!names(&folder).contains(&"rows".to_owned()), "{path} {text} {said}");
        }
    }
}

/// The rows before the last right mark are kept.
#[tokio::test]
async fn a_torn_row_is_requested_again() {
    let server = server().await;
    for path in ["/rows.ndjson", "/plain.ndjson", "/rows.json-seq", "/plain.csv", "/rows.json"] {
        let proxy = lossy_proxy(&server, Damage::TornOnce("row 70001"), States::Passed).await;
        let (_folder, saved, name) = file("rows");
        let url = format!("http://{}{path}", proxy.address());
        let (status, told) = download(&[&url, "-o", &name]).await;
        assert!(status == Some(0) && told.contains("digest; requested again once\n"), "{path} {told}");
        assert!(fs::read_to_string(saved).unwrap() == whole(&server, path).await, "{path}");
    }
}

/// CSV was called complete after any clean end, also in the middle of a number, and with `_digest`.
#[tokio::test]
async fn a_body_that_a_proxy_cut_cleanly_gets_no_name() {
    let server = server().await;
    let csv = whole(&server, "/plain.csv").await;
    let (in_number, after_row) = (csv.find("0,row 70000\r\n").unwrap(), csv.find("70000,").unwrap());
    let event_of = async |path| whole(&server, path).await.find("data: {\"n\":70000,").unwrap();
    let (after_event, after_id) = (event_of("/plain.sse").await, event_of("/rows.sse").await);
    for (path, length, states, told) in [
        ("/plain.csv", in_number, States::Passed, "error: the server sent 100000 rows in "),
        ("/plain.csv", after_row, States::Passed, "bytes, but 69999 rows in "),
        (
            "/plain.csv",
            in_number,
            States::Hidden,
            "the server's state of the stream can't be read\n    hint: ",
        ),
        ("/plain.csv?_digest=sha-256", after_row, States::Passed, "error: the server sent 100000 rows in "),
        ("/plain.csv?_digest=sha-256", after_row, States::Hidden, "the response has none\n    hint: "),
        ("/rows.csv", after_row, States::Passed, "error: the server sent 100000 rows in "),
        ("/plain.sse", after_event, States::Passed, "error: the server sent 100000 rows in "),
        ("/rows.sse", after_id, States::Passed, "error: the last event is missing"),
    ] {
        let proxy = lossy_proxy(&server, Damage::CutAt(length), states).await;
        let (folder, _, text) = file("rows");
        let url = format!("http://{}{path}", proxy.address());
        let (status, said) = download(&[&url, "-o", &text, "--retries", "0"]).await;
        assert_eq!((status, names(&folder)), (Some(1), Vec::new()), "{path} {states:?} {said}");
        assert!(said.contains(told), "{path} {states:?} {said}");
    }
}

#[tokio::test]
async fn the_server_knows_the_end_without_trailers() {
    let server = server().await;
    for (path, states, proof) in [
        ("/plain.csv", States::Passed, "its digest"),
        ("/plain.sse", States::Passed, "its digest"),
        ("/plain.csv?_digest=sha-256", States::Passed, "its digest"),
        ("/rows.json", States::Passed, "its digest"),
        ("/rows.json", States::Hidden, "the end of its format"),
        ("/rows.sse", States::Hidden, "its last event"),
    ] {
        let proxy = lossy_proxy(&server, Damage::None, states).await;
        let (_folder, saved, text) = file("rows");
        let url = format!("http://{}{path}", proxy.address());
        let (status, told) = download(&[&url, "-o", &text, "--retries", "0"]).await;
        assert!(status == Some(0) && told.ends_with(&format!("verified by {proof}\n")), "{path} {told}");
        assert!(fs::read_to_string(saved).unwrap() == whole(&server, path).await, "{path}");
    }
}

/// nginx lets the server compress a response, decompresses it, and keeps the digest of the compressed body. The error
/// only said that the digest differs, as if rows were damaged.
#[tokio::test]
async fn a_proxy_that_decompresses_is_named() {
    let rows =
        "with recursive r(n) as (select 1 union all select n + 1 from r where n < 3000) select n from r";
    let config = "compression = \"on\"\n[source.db]\nurl = \"sqlite:a.db\"\ncreate = [\"a.sql\"]\n";
    let files = [("rowstream.toml", config), ("a.sql", "create table a (n)"), ("endpoints/rows.sql", rows)];
    let server = Server::start(&files).await;
    let gunzip = "proxy_set_header Accept-Encoding gzip; gunzip on;";
    let nginx = Hop::nginx_set(server.address().parse().unwrap(), gunzip).await;
    for path in ["/rows.csv?_wait=end", "/rows?_wait=end"] {
        let (folder, _, name) = file("rows");
        let url = format!("http://{}{path}", nginx.http1);
        let (status, told) = download(&[&url, "-o", &name, "--retries", "0"]).await;
        assert!(status == Some(1) && told.contains("nginx: `gunzip off;`"), "{path} {told}");
        assert_eq!(names(&folder), Vec::<String>::new(), "{path} {told}");
    }
    let (_folder, saved, name) = file("rows");
    let (status, told) = download(&[&format!("http://{}/rows.csv", nginx.http1), "-o", &name]).await;
    assert!(status == Some(0) && told.contains("verified by the server's state of the stream"), "{told}");
    assert_eq!(fs::read_to_string(saved).unwrap(), whole(&server, "/rows.csv").await);
}

/// The page of a login became `orders.csv`, and replaced the earlier file.
#[tokio::test]
async fn a_response_in_another_format_keeps_the_earlier_file() {
    let peer = Scripted::start(|target, _| {
        let (kind, body) = match target.split_once(['.', '?']).map(|(path, _)| path) {
            Some("/login") => ("Content-Type: text/html\r\n", "<form>"),
            Some("/value") => ("Content-Type: text/plain\r\n", "n\r\n1\r\n"),
            _ => ("", ""),
        };
        format!("HTTP/1.1 200 OK\r\n{kind}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    })
    .await;
    for (path, told) in [
        ("/login.ndjson", "the content type \"text/html\", but ndjson is application/x-ndjson\n    hint: "),
        ("/login.csv", "the content type \"text/html\", but csv is text/csv\n    hint: "),
        ("/login?_format=json", "the content type \"text/html\", but json is application/json\n    hint: "),
        ("/value?_format=csv", "the content type \"text/plain\", but csv is text/csv\n    hint: "),
        ("/empty.json", "the content type \"\", but json is application/json\n    hint: "),
    ] {
        let (folder, saved, text) = file("orders");
        fs::write(&saved, "earlier").unwrap();
        let (status, said) = download(&[&format!("{}{path}", peer.url), "-o", &text]).await;
        assert!(status == Some(1) && said.contains(told), "{path} {said}");
        assert_eq!(
            (names(&folder), fs::read_to_string(&saved).unwrap()),
            (vec!["orders".to_owned()], "earlier".to_owned())
        );
    }
    // The suffix can belong to a value: `/file/{name}`.
    let (_folder, saved, text) = file("report");
    let (status, said) = download(&[&format!("{}/value.csv", peer.url), "-o", &text]).await;
    assert_eq!((status, fs::read_to_string(saved).unwrap()), (Some(0), "n\r\n1\r\n".to_owned()), "{said}");
}
