//! Framed responses, digests and trailers: the proofs that nothing is missing.

use std::collections::BTreeMap;
use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::stream::{self, Stream, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rowstream_encode::responses::{
    Csv, Event, Ndjson, Sse, StreamError, Streamed, StreamedBody, StreamedJson,
};
use rowstream_encode::{Column, ColumnKind};
use sha2::{Digest as _, Sha256};

use crate::client::{Reply, ResponseEnd, fetch};
use crate::hyper::server;

type Row = BTreeMap<&'static str, usize>;

fn columns() -> [Column; 1] {
    [Column::new("id", ColumnKind::Int64)]
}

fn rows(count: usize) -> impl Stream<Item = io::Result<Row>> + Send + 'static {
    stream::iter(0..count).map(|id| Ok(Row::from([("id", id)])))
}

fn failing(count: usize) -> impl Stream<Item = io::Result<Row>> + Send + 'static {
    rows(count).chain(stream::once(async { Err(io::Error::other("the secret cause")) }))
}

fn framed(rows: impl Stream<Item = io::Result<Row>> + Send + 'static) -> Ndjson {
    Ndjson::new(Streamed::new(rows)).framed(&columns()).unwrap()
}

/// The lines of a framed response, whose tag is replaced by `TAG`.
fn lines(reply: &Reply) -> Vec<String> {
    let tag = reply.header("rowstream-tag").unwrap();
    assert!(tag.len() == 32 && tag.bytes().all(|byte| byte.is_ascii_hexdigit()), "{tag}");
    reply.text().split_terminator('\n').map(|line| line.replace(tag, "TAG")).collect()
}

const COLUMNS: &str = r#"{"$rowstream":"TAG","columns":[{"name":"id","type":"int64"}]}"#;
const ERROR: &str = r#"{"$rowstream":"TAG","error":{"status":500,"detail":"a stream of the response failed","code":"stream_failed","retry":false}}"#;

#[tokio::test]
async fn the_rows_are_between_the_columns_and_the_end() {
    for count in [0, 1, 100_000] {
        let reply = fetch(framed(rows(count))).await;
        assert_eq!(reply.ended, ResponseEnd::Complete);
        let lines = lines(&reply);
        assert_eq!(lines.first().unwrap(), COLUMNS);
        assert_eq!(*lines.last().unwrap(), format!(r#"{{"$rowstream":"TAG","end":{{"rows":{count}}}}}"#));
        let rows: Vec<_> = (0..count).map(|id| format!(r#"{{"id":{id}}}"#)).collect();
        assert_eq!(lines[1..=count], rows);
        assert_eq!(reply.header("content-type"), Some("application/x-ndjson; profile=framed"));
        assert_eq!(reply.header("rowstream-wire"), Some("1"));
        assert_eq!(reply.header("rowstream-resume"), Some("none"));
        assert_eq!(reply.header("rowstream-heartbeat"), None);
    }
}

#[tokio::test]
async fn each_response_has_its_own_tag() {
    let (one, other) = (fetch(framed(rows(1))).await, fetch(framed(rows(1))).await);
    assert_ne!(one.header("rowstream-tag"), other.header("rowstream-tag"));
}

/// The order of the calls doesn't matter, even if the response is complete before it's framed.
#[tokio::test]
async fn the_first_row_may_be_awaited_before_and_after() {
    for count in [0, 1, 3] {
        let before = framed(rows(count)).digest().first().await.unwrap();
        let after = Ndjson::new(Streamed::new(rows(count))).first().await.unwrap();
        let after = after.digest().framed(&columns()).unwrap().framed(&columns()).unwrap();
        let (before, after) = (fetch(before).await, fetch(after).await);
        let [mut before, mut after] = [lines(&before), lines(&after)];
        // The digests differ, because the tags do.
        for lines in [&mut before, &mut after] {
            let end = lines.pop().unwrap();
            assert!(end.starts_with(&format!(r#"{{"$rowstream":"TAG","end":{{"rows":{count},"digest":"#)));
        }
        assert_eq!(before, after);
        assert_eq!(before.len(), 1 + count);
    }
    // It's complete once it has waited for its end.
    let complete = framed(rows(0)).first().await.unwrap();
    let reply = fetch(complete).await;
    assert_eq!(reply.header("content-length"), Some(reply.body.len().to_string().as_str()));
}

#[tokio::test]
async fn a_failure_is_the_last_record() {
    for count in [0, 3, 100_000] {
        let reply = fetch(framed(failing(count))).await;
        assert_eq!((reply.status(), reply.ended), ("200", ResponseEnd::Broken), "{count}");
        let lines = lines(&reply);
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (count + 2, ERROR));
    }
}

#[tokio::test]
async fn a_failure_over_http_2_is_the_last_record() {
    for count in [0, 3, 100_000] {
        let (client, socket) = tokio::io::duplex(64 * 1024);
        let respond = hyper::service::service_fn(move |_| async move {
            Ok::<_, StreamError>(framed(failing(count)).into_http())
        });
        let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(http.serve_connection(TokioIo::new(socket), respond));
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client));
        let (mut sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::get("http://localhost/").body(Empty::<Bytes>::new()).unwrap();
        let mut body = sender.send_request(request).await.unwrap().into_body();
        let mut received = Vec::new();
        let error = loop {
            match body.frame().await.expect("no end").map(|frame| frame.into_data().unwrap()) {
                Ok(data) => received.extend_from_slice(&data),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("error"), "{error}");
        let text = String::from_utf8(received).unwrap();
        assert_eq!(text.lines().count(), count + 2);
        let (_, error) = ERROR.split_once("TAG").unwrap();
        assert!(text.ends_with(&format!("{error}\n")), "{text}");
    }
}

/// A reader that collects a body keeps its last chunk, so nothing would end the wait for it.
#[tokio::test]
async fn a_failed_body_can_be_collected() {
    let error = framed(failing(3)).into_http().into_body().collect().await.unwrap_err();
    assert_eq!(error.to_string(), "a stream of the response failed");
}

/// A row is interrupted by the failure of a list in it.
#[tokio::test]
async fn a_failure_within_a_row_has_a_line_of_its_own() {
    let row = |inner| BTreeMap::from([("list", inner)]);
    let failure = stream::iter([Ok(1), Err(io::Error::other("the secret cause"))]);
    let items = stream::iter([row(Streamed::infallible(stream::iter([1, 2]))), row(Streamed::new(failure))]);
    let response = Ndjson::new(Streamed::infallible(items)).framed(&[]).unwrap();
    let reply = fetch(response).await;
    assert_eq!(reply.ended, ResponseEnd::Broken);
    let empty = r#"{"$rowstream":"TAG","columns":[]}"#;
    assert_eq!(lines(&reply), [empty, r#"{"list":[1,2]}"#, r#"{"list":[1"#, ERROR]);
}

#[tokio::test]
async fn rows_that_are_no_objects_are_refused() {
    let numbers = || Ndjson::new(Streamed::infallible(stream::iter([1, 2])));
    let lists = Ndjson::new(Streamed::infallible(stream::iter([Streamed::infallible(stream::iter([1]))])));
    let named = stream::iter([Event::new(Row::new()).name("n")]);
    let texts = stream::iter([Event::new("{").id("data: {")]);
    for response in [
        numbers().framed(&[]).unwrap().into_http(),
        numbers().first().await.unwrap().framed(&[]).unwrap().into_http(),
        lists.framed(&[]).unwrap().into_http(),
        Sse::new(Streamed::infallible(named)).framed(&[]).unwrap().into_http(),
        Sse::new(Streamed::infallible(texts)).framed(&[]).unwrap().into_http(),
    ] {
        let reply = server(response).await.get("/").await;
        assert_eq!(reply.ended, ResponseEnd::Broken);
        assert!(reply.text().contains(r#""code":"stream_failed""#), "{}", reply.text());
        assert!(!reply.text().contains('1') || reply.text().matches('\n').count() >= 2);
    }
}

#[tokio::test]
async fn records_are_events() {
    let events = [Event::new(Row::from([("id", 7)])).id("a"), Event::heartbeat(), Event::new(Row::new())];
    let events = Streamed::infallible(stream::iter(events));
    let reply = fetch(Sse::new(events).framed(&columns()).unwrap()).await;
    assert_eq!(reply.ended, ResponseEnd::Complete);
    assert_eq!(reply.header("content-type"), Some("text/event-stream; profile=framed"));
    let expected = format!(
        "event: rowstream\ndata: {COLUMNS}\n\nid: a\ndata: {{\"id\":7}}\n\n:\n\ndata: {{}}\n\n\
         event: rowstream\ndata: {{\"$rowstream\":\"TAG\",\"end\":{{\"rows\":2}}}}\n"
    );
    assert_eq!(lines(&reply).join("\n"), expected);
}

/// The end of an event that has begun would deliver it.
#[tokio::test]
async fn an_event_that_is_interrupted_stays_open() {
    let failure = stream::iter([Ok(1), Err(io::Error::other("the secret cause"))]);
    let events = stream::iter([Event::new(BTreeMap::from([("list", Streamed::new(failure))]))]);
    let reply = fetch(Sse::new(Streamed::infallible(events)).framed(&[]).unwrap()).await;
    assert_eq!(reply.ended, ResponseEnd::Broken);
    assert!(reply.text().ends_with("data: {\"list\":[1"), "{}", reply.text());
}

fn digest_of(bytes: &[u8]) -> String {
    format!("sha-256=:{}:", BASE64_STANDARD.encode(Sha256::digest(bytes)))
}

#[tokio::test]
async fn the_end_has_the_digest_of_the_bytes_before_it() {
    for count in [0, 3, 100_000] {
        let reply = fetch(framed(rows(count)).digest()).await;
        let end = reply.text().trim_end().rfind('\n').unwrap() + 1;
        let record: serde_json::Value = serde_json::from_str(&reply.text()[end..]).unwrap();
        assert_eq!(record["end"]["digest"], digest_of(&reply.body[..end]));
    }
}

/// The response's head, its data, and the trailers.
async fn with_trailers(response: http::Response<StreamedBody>) -> (Reply, String) {
    let received = server(response).await.open_with("/", "te: trailers\r\n").await.all().await;
    let text = String::from_utf8(received.clone()).unwrap();
    let (_, trailers) = text.rsplit_once("\r\n0\r\n").unwrap_or_else(|| panic!("{text}"));
    (Reply::parse(&received).unwrap(), trailers.to_owned())
}

#[tokio::test]
async fn trailers_have_the_rows_and_the_digest() {
    let nested = |id| (id, Streamed::infallible(stream::iter([1, 2, 3])));
    let lists = || Streamed::infallible(stream::iter([nested(1), nested(2)]));
    let events = [Event::new(1), Event::heartbeat(), Event::new(2)];
    for (response, rows) in [
        (Csv::new(Streamed::new(rows(100_000))).digest().trailers().into_http(), 100_000),
        (framed(rows(3)).trailers().digest().first().await.unwrap().into_http(), 3),
        (Sse::new(Streamed::infallible(stream::iter(events))).digest().into_http(), 2),
        // Two lists in the document, without the lists in their items.
        (StreamedJson::new((lists(), lists())).unwrap().digest().into_http(), 4),
        (StreamedJson::new(1).unwrap().digest().into_http(), 0),
    ] {
        let (reply, trailers) = with_trailers(response).await;
        assert_eq!(reply.ended, ResponseEnd::Complete);
        assert_eq!(reply.header("trailer"), Some("rowstream-status, rowstream-rows, content-digest"));
        let digest = digest_of(&reply.body);
        let expected = [
            "rowstream-status: complete",
            &format!("rowstream-rows: {rows}"),
            &format!("content-digest: {digest}"),
        ];
        let mut fields: Vec<_> = trailers.split_terminator("\r\n").filter(|line| !line.is_empty()).collect();
        fields.sort_unstable_by_key(|field| expected.iter().position(|line| line == field));
        assert_eq!(fields, expected);
    }
}

#[tokio::test]
async fn trailers_are_without_a_digest_unless_it_is_wanted() {
    let (reply, trailers) = with_trailers(Ndjson::new(Streamed::new(rows(3))).trailers().into_http()).await;
    assert_eq!(reply.header("trailer"), Some("rowstream-status, rowstream-rows"));
    assert!(!trailers.contains("digest"), "{trailers}");
}

#[tokio::test]
async fn clients_that_want_no_trailers_get_none() {
    let response = Ndjson::new(Streamed::new(rows(1))).trailers().into_http();
    let received = server(response).await.open("/").await.all().await;
    assert!(received.ends_with(b"\r\n0\r\n\r\n"));
}

#[tokio::test]
async fn a_failed_response_has_no_trailers() {
    let response = Csv::new(Streamed::new(failing(100_000))).trailers().into_http();
    let received = server(response).await.open_with("/", "te: trailers\r\n").await.all().await;
    assert!(!String::from_utf8(received).unwrap().contains("complete"));
}
