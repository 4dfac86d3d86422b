//! No failure looks like the end of a response, and none becomes an item.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io;
use std::mem;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use http_body::Body as _;
use rowstream_encode::responses::{Awaited, Csv, Event, Ndjson, Sse, StreamError, Streamed, StreamedJson};
use serde::Serialize;

use crate::client::{ResponseEnd, body, fetch};

fn failure<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::TimedOut, "the secret cause"))
}

#[derive(Serialize)]
struct Row {
    id: u32,
}

/// `rows` rows and then a failure.
fn failing(rows: u32) -> impl Stream<Item = io::Result<Row>> + Send + 'static {
    stream::iter(0..rows).map(|id| Ok(Row { id })).chain(stream::once(async { failure() }))
}

fn each_format<S: Stream<Item = io::Result<Row>> + Send + 'static>(stream: impl Fn() -> S) -> [Response; 4] {
    let document = (Streamed::new(stream()), "the end");
    let events = Streamed::new(stream().map(|row| row.map(Event::new)));
    [
        StreamedJson::new(document).unwrap().into_response(),
        Ndjson::new(Streamed::new(stream())).into_response(),
        Csv::new(Streamed::new(stream())).into_response(),
        Sse::new(events).into_response(),
    ]
}

#[tokio::test]
async fn a_failure_half_way_breaks_the_response_off() {
    for response in each_format(|| failing(100_000)) {
        let reply = fetch(response).await;
        assert_eq!((reply.status(), reply.ended), ("200", ResponseEnd::Broken));
        let text = String::from_utf8_lossy(&reply.body);
        assert!(text.contains("1000") && !text.contains("secret") && !text.contains("the end"));
    }
    for response in each_format(|| failing(100_000).take(100_000)) {
        let reply = fetch(response).await;
        assert_eq!(reply.ended, ResponseEnd::Complete);
    }
}

/// A failure before the first byte isn't a normal end either.
#[tokio::test]
async fn a_failure_at_the_start_is_no_end_either() {
    for rows in [0, 1, 100] {
        for response in each_format(|| failing(rows)) {
            let reply = fetch(response).await;
            assert_eq!(reply.ended, ResponseEnd::Broken, "{rows}");
            assert!(!reply.text().contains("the end") && !reply.text().contains("secret"));
        }
    }
}

#[tokio::test]
async fn a_value_that_fails_breaks_the_response_off() {
    let document = (Streamed::infallible(stream::iter(0..200_000)), Awaited::new(async { failure::<u8>() }));
    let reply = fetch(StreamedJson::new(document).unwrap()).await;
    assert_eq!((reply.status(), reply.ended), ("200", ResponseEnd::Broken));
}

#[tokio::test]
async fn an_item_that_is_no_json_breaks_the_response_off() {
    let items = stream::iter(0..400_000).map(|id| {
        let key = (id == 399_999).then_some([id]);
        BTreeMap::from_iter(key.map(|key| (key, id)))
    });
    let reply = fetch(StreamedJson::new(Streamed::infallible(items)).unwrap()).await;
    assert_eq!(reply.ended, ResponseEnd::Broken);
    assert!(reply.text().starts_with("[{},{}"));
}

#[test]
fn a_document_that_is_no_json_is_refused() {
    let error = StreamedJson::new(BTreeMap::from([([1], 2)])).unwrap_err();
    assert_eq!(error.to_string(), "the response holds what its format cannot");
    assert_eq!(error.source().unwrap().to_string(), "key must be a string");
}

#[tokio::test]
async fn nothing_follows_a_failure() {
    for response in each_format(|| failing(3).chain(stream::iter([Ok(Row { id: 7 })]))) {
        let mut body = body(response).into_data_stream();
        for _ in 0..3 {
            assert!(body.next().await.unwrap().is_err());
        }
    }
}

#[tokio::test]
async fn a_failed_body_has_no_end() {
    let mut failed = Box::pin(body(Ndjson::new(Streamed::new(failing(0)))));
    let polled = std::future::poll_fn(|cx| failed.as_mut().poll_frame(cx)).await;
    assert!(polled.unwrap().is_err());
    assert!(!failed.is_end_stream());
    assert_eq!(failed.size_hint().exact(), None);
}

/// Chooses a status by the kind of failure, like a handler.
fn refusal(error: StreamError) -> Response {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        Some(io::ErrorKind::TimedOut) => StatusCode::GATEWAY_TIMEOUT.into_response(),
        _ => error.into_response(),
    }
}

#[tokio::test]
async fn a_failure_before_the_first_item_can_have_a_status() {
    let document = (1, Streamed::new(failing(0)));
    let json = StreamedJson::new(document).unwrap().first().await;
    let csv = Csv::new(Streamed::new(failing(0))).first().await;
    let ndjson = Ndjson::new(Streamed::new(failing(0))).first().await;
    let sse = Sse::new(Streamed::<Event<u8>>::new(stream::iter([failure()]))).first().await;
    for response in [
        json.map_err(refusal).into_response(),
        csv.map_err(refusal).into_response(),
        ndjson.map_err(refusal).into_response(),
        sse.map_err(refusal).into_response(),
    ] {
        let reply = fetch(response).await;
        assert_eq!((reply.status(), reply.ended), ("504", ResponseEnd::Complete));
    }
}

/// After an empty list or a value, the next list can still fail.
#[tokio::test]
async fn the_first_item_may_be_that_of_a_later_list() {
    let empty = Streamed::infallible(stream::empty::<u8>());
    let value = Awaited::infallible(async { 1 });
    let document = (empty, value, Streamed::new(failing(0)));
    let error = StreamedJson::new(document).unwrap().first().await.unwrap_err();
    assert_eq!(error.to_string(), "a stream of the response failed");
    assert_eq!(error.source().unwrap().to_string(), "the secret cause");
}

#[tokio::test]
async fn an_error_as_a_response_says_nothing_of_its_cause() {
    let error = Ndjson::new(Streamed::new(failing(0))).first().await.unwrap_err();
    let reply = fetch(error).await;
    assert_eq!((reply.status(), reply.text()), ("500", "the response could not be made\n"));
}

/// A stream that one response has read can't be read by another.
#[tokio::test]
async fn a_stream_that_was_taken_fails() {
    let numbers = Streamed::infallible(stream::iter([1, 2]));
    drop(StreamedJson::new(&numbers).unwrap());
    let error = Ndjson::new(numbers).first().await.unwrap_err();
    assert!(error.source().unwrap().to_string().starts_with("a stream or a future was serialised before"));
}

/// A hook, and the causes of the errors that it got.
fn hook() -> (impl FnOnce(&StreamError) + Send + Clone + 'static, Arc<Mutex<Vec<String>>>) {
    let causes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&causes);
    (move |error: &StreamError| seen.lock().unwrap().push(error.source().unwrap().to_string()), causes)
}

#[tokio::test]
async fn a_hook_gets_the_error_once() {
    for rows in [0, 1, 100_000] {
        let (hook, causes) = hook();
        let events = Streamed::new(failing(rows).map(|row| row.map(Event::new)));
        for response in [
            StreamedJson::new((Streamed::new(failing(rows)), 1)).unwrap().on_error(hook.clone()).into_http(),
            Ndjson::new(Streamed::new(failing(rows))).on_error(hook.clone()).into_http(),
            Csv::new(Streamed::new(failing(rows))).on_error(hook.clone()).into_http(),
            Sse::new(events).on_error(hook).into_http(),
        ] {
            let mut body = body(response.map(axum::body::Body::new)).into_data_stream();
            while body.next().await.unwrap().is_ok() {}
            assert!(body.next().await.unwrap().is_err());
            assert_eq!(mem::take(&mut *causes.lock().unwrap()), ["the secret cause"]);
        }
    }
}

/// An item that can't be written is an error too.
#[tokio::test]
async fn a_hook_gets_the_error_of_an_item() {
    let (hook, causes) = hook();
    let items = Streamed::infallible(stream::iter([BTreeMap::from([([1], 2)])]));
    assert_eq!(fetch(Ndjson::new(items).on_error(hook)).await.ended, ResponseEnd::Broken);
    assert_eq!(*causes.lock().unwrap(), ["key must be a string"]);
}

#[tokio::test]
async fn a_hook_gets_only_errors_that_abort_the_response() {
    let (hook, causes) = hook();
    Ndjson::new(Streamed::new(failing(0))).on_error(hook.clone()).first().await.unwrap_err();
    fetch(Ndjson::new(Streamed::new(failing(1).take(1))).on_error(hook.clone())).await.whole();
    drop(body(Ndjson::new(Streamed::new(failing(1))).on_error(hook.clone())));
    assert!(causes.lock().unwrap().is_empty());
    // A hook that is set before `first` is still there after it.
    let response = Ndjson::new(Streamed::new(failing(1))).on_error(hook).first().await.unwrap();
    assert_eq!(fetch(response).await.ended, ResponseEnd::Broken);
    assert_eq!(*causes.lock().unwrap(), ["the secret cause"]);
}
