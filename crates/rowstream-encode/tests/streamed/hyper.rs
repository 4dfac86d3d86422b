//! Responses as plain bodies, which hyper sends without axum.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt};
use http_body_util::BodyExt;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rowstream_encode::responses::{Csv, Event, Ndjson, Sse, Streamed, StreamedBody, StreamedJson};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{ResponseEnd, Server};

/// The most bytes of hyper's own buffer.
const BUFFER: usize = 64 * 1024;

/// Sends `response` on the first connection.
pub(crate) async fn server(response: http::Response<StreamedBody>) -> Server {
    let response = Arc::new(Mutex::new(Some(response)));
    Server::run(|listener| async move {
        let (socket, _) = listener.accept().await.unwrap();
        let respond = |_| {
            let response = response.lock().unwrap().take().unwrap();
            async { Ok::<_, Infallible>(response) }
        };
        let mut http = http1::Builder::new();
        // A failed body is an error of the connection.
        drop(http.max_buf_size(BUFFER).serve_connection(TokioIo::new(socket), service_fn(respond)).await);
    })
    .await
}

fn failing(items: usize) -> Streamed<[(&'static str, usize); 1]> {
    let failure = stream::once(async { Err(io::Error::other("the secret cause")) });
    Streamed::new(stream::iter(0..items).map(|id| Ok([("id", id)])).chain(failure))
}

#[tokio::test]
async fn a_failed_body_is_cut() {
    for items in [0, 3, 100_000] {
        let failure = stream::once(async { Err(io::Error::other("the secret cause")) });
        let events = Streamed::new(stream::iter(0..items).map(|id| Ok(Event::new(id))).chain(failure));
        for response in [
            StreamedJson::new(failing(items)).unwrap().into_http(),
            Ndjson::new(failing(items)).into_http(),
            Sse::new(events).into_http(),
        ] {
            let reply = server(response).await.get("/").await;
            assert_eq!(reply.ended, ResponseEnd::Broken, "{items}");
            assert!(!String::from_utf8_lossy(&reply.body).contains("secret"));
        }
    }
}

#[tokio::test]
async fn a_complete_body_ends() {
    let numbers = || Streamed::infallible(stream::iter(0..100_000));
    let expected: String = (0..100_000).map(|number| format!("{number}\n")).collect();
    let reply = server(Ndjson::new(numbers()).into_http()).await.get("/").await;
    assert_eq!(reply.whole(), expected);
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    let rows = Streamed::infallible(stream::iter([std::collections::BTreeMap::from([("id", 7)])]));
    let reply = server(Csv::new(rows).first().await.unwrap().into_http()).await.get("/").await;
    assert_eq!(reply.whole(), "id\r\n7\r\n");
}

/// A client that reads nothing stops the stream, however often hyper polls.
#[tokio::test]
async fn a_client_that_does_not_read_stops_the_stream() {
    const PIPE: usize = 1024;
    // hyper stops at the end of a chunk.
    const MOST: usize = PIPE + BUFFER + 2 * 32 * 1024;
    let pulled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pulled);
    let line = "x".repeat(997);
    let endless = stream::repeat(line.clone()).inspect(move |_| {
        count.fetch_add(1000, Ordering::Relaxed);
    });
    let response = Mutex::new(Some(Ndjson::new(Streamed::infallible(endless)).into_http()));
    let respond = |_| {
        let response = response.lock().unwrap().take().unwrap();
        async { Ok::<_, Infallible>(response) }
    };
    let (mut client, socket) = tokio::io::duplex(PIPE);
    let mut http = http1::Builder::new();
    let connection = http.max_buf_size(BUFFER).serve_connection(TokioIo::new(socket), service_fn(respond));
    let mut connection = std::pin::pin!(connection);
    client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut received = 0;
    for _ in 0..10_000 {
        assert!(connection.as_mut().now_or_never().is_none(), "it has no end");
        let in_flight = pulled.load(Ordering::Relaxed).saturating_sub(received);
        assert!(in_flight <= MOST, "{in_flight}");
        received += client.read(&mut [0; 512]).await.unwrap();
    }
    assert!(pulled.load(Ordering::Relaxed) > 10 * MOST);
}

#[tokio::test]
async fn a_body_works_without_a_server() {
    let body = StreamedJson::new((1, Streamed::infallible(stream::iter([2, 3])))).unwrap().into_http();
    assert_eq!(body.into_body().collect().await.unwrap().to_bytes(), "[1,[2,3]]");
    let failed = Ndjson::new(failing(1)).into_http().into_body().collect().await.unwrap_err();
    assert_eq!(failed.to_string(), "a stream of the response failed");
}
