//! `rowstream get` behind a proxy that drops trailers: a body is complete only if something proves it.

use std::fs;

use futures_util::stream::once;
use http::header;

use crate::get::{download, file, names, server, whole};
use crate::support::upstream::{Scripted, Speaks, Upstream, reply, stream};
use crate::support::{Server, get};

/// The answer of a proxy to questions for the state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum States {
    Passed,
    Hidden,
}

/// A proxy that sends no `TE`, and ends each body cleanly after this many bytes.
async fn lossy_proxy(server: &Server, length: usize, states: States) -> Upstream {
    let root = server.url("");
    Upstream::start(Speaks::Http1, move |_, asked| {
        let url = format!("{root}{}", asked.target);
        async move {
            let is_state = asked.target.starts_with("/_rowstream/");
            if is_state && states == States::Hidden {
                return reply(404, "text/plain", "");
            }
            let mut whole = get(&url).await;
            if !is_state {
                whole.body.truncate(length);
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
        ("/plain.csv?_digest=sha-256", after_row, States::Passed, "error: the digest differs"),
        ("/plain.csv?_digest=sha-256", after_row, States::Hidden, "the response has none\n    hint: "),
        ("/rows.csv", after_row, States::Passed, "error: the server sent 100000 rows in "),
        ("/plain.sse", after_event, States::Passed, "error: the server sent 100000 rows in "),
        ("/rows.sse", after_id, States::Passed, "error: the last event is missing"),
    ] {
        let proxy = lossy_proxy(&server, length, states).await;
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
    let proxy = lossy_proxy(&server, usize::MAX, States::Passed).await;
    for (path, proof) in [
        ("/plain.csv", "the server's state of the stream"),
        ("/plain.sse", "the server's state of the stream"),
        ("/plain.csv?_digest=sha-256", "its digest"),
        ("/rows.json?_digest=sha-256", "its digest"),
        ("/rows.json", "the end of its format"),
        ("/rows.sse", "its last event"),
    ] {
        let (_folder, saved, text) = file("rows");
        let url = format!("http://{}{path}", proxy.address());
        let (status, told) = download(&[&url, "-o", &text, "--retries", "0"]).await;
        assert!(status == Some(0) && told.ends_with(&format!("verified by {proof}\n")), "{path} {told}");
        assert!(fs::read_to_string(saved).unwrap() == whole(&server, path).await, "{path}");
    }
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
