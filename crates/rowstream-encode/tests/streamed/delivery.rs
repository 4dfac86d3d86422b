//! When bytes leave, and the memory that is used until then.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use futures_util::FutureExt;
use futures_util::stream::{self, Stream, StreamExt};
use http_body::Body as _;
use rowstream_encode::responses::{Csv, Event, Ndjson, Sse, Streamed, StreamedJson};
use serde::Serialize;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::client::{LIMIT, Server, body, fetch};

/// A stream whose items are sent by the test.
fn sent<T: Send + 'static>() -> (UnboundedSender<T>, Streamed<T>) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    (sender, Streamed::infallible(stream::poll_fn(move |cx| receiver.poll_recv(cx))))
}

/// The next chunk, which must be ready. `None` at the end.
fn next_chunk(body: &mut Body) -> Option<Bytes> {
    poll_chunk(body).expect("a chunk is ready").map(|chunk| chunk.unwrap())
}

/// The next chunk if it's ready.
fn poll_chunk(body: &mut Body) -> Option<Option<Result<Bytes, axum::Error>>> {
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).now_or_never()?;
    Some(frame.map(|frame| frame.map(|frame| frame.into_data().unwrap())))
}

#[tokio::test]
async fn an_item_arrives_while_the_next_one_is_waited_for() {
    let (sender, items) = sent();
    let server = Server::of(StreamedJson::new(("before", items, "after")).unwrap()).await;
    let mut conversation = server.open("/").await;
    for item in ["first", "second"] {
        sender.send(item).unwrap();
        conversation.until(item).await;
    }
    drop(sender);
    assert_eq!(conversation.rest().await.whole(), r#"["before",["first","second"],"after"]"#);
}

#[tokio::test]
async fn each_format_flushes_when_nothing_is_ready() {
    #[derive(Serialize)]
    struct DeliveredRow {
        id: u32,
    }
    let items = || Streamed::infallible(stream::iter([DeliveredRow { id: 7 }]).chain(stream::pending()));
    let events = stream::iter([Event::new(DeliveredRow { id: 7 })]).chain(stream::pending());
    for (mut body, expected) in [
        (body(StreamedJson::new((1, items())).unwrap()), "[1,[{\"id\":7}"),
        (body(Ndjson::new(items())), "{\"id\":7}\n"),
        (body(Csv::new(items())), "id\r\n7\r\n"),
        (body(Sse::new(Streamed::infallible(events))), "data: {\"id\":7}\n\n"),
    ] {
        assert_eq!(next_chunk(&mut body).unwrap(), expected);
        assert!(poll_chunk(&mut body).is_none());
    }
}

/// A comma must not be written before its item is available.
#[tokio::test]
async fn nothing_is_written_for_an_item_that_is_waited_for() {
    let (sender, items) = sent();
    let mut body = body(StreamedJson::new(items).unwrap());
    assert!(poll_chunk(&mut body).is_none());
    for (item, expected) in [(1, "[1"), (2, ",2")] {
        sender.send(item).unwrap();
        assert_eq!(next_chunk(&mut body).unwrap(), expected);
        assert!(poll_chunk(&mut body).is_none());
    }
    drop(sender);
    assert_eq!(next_chunk(&mut body).unwrap(), "]");
    assert_eq!(next_chunk(&mut body), None);
}

/// A million items: each chunk has a bounded size, and contains all items that were pulled since
/// the last one.
#[tokio::test]
async fn chunks_are_bounded_and_pull_what_they_hold() {
    const ITEMS: usize = 1_000_000;
    let pulled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pulled);
    let items = stream::iter(0..ITEMS).inspect(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let mut body = body(Ndjson::new(Streamed::infallible(items)));
    let (mut sent, mut chunks) = (0, 0);
    while let Some(chunk) = next_chunk(&mut body) {
        let full = if chunks == 0 { 4 * 1024 } else { 32 * 1024 };
        let longest = "999999\n".len();
        assert!(chunk.len() < full + longest, "{}", chunk.len());
        sent += chunk.iter().filter(|&&byte| byte == b'\n').count();
        assert!(chunk.len() >= full || sent == ITEMS);
        assert_eq!(pulled.load(Ordering::Relaxed), sent);
        chunks += 1;
    }
    assert_eq!(sent, ITEMS);
    assert!(chunks > 200);
}

#[tokio::test]
async fn the_first_item_is_pulled_alone() {
    let pulled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pulled);
    let items = stream::iter(0..100).inspect(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let document = StreamedJson::new(("before", Streamed::infallible(items))).unwrap();
    assert_eq!(pulled.load(Ordering::Relaxed), 0);
    let document = document.first().await.unwrap();
    assert_eq!(pulled.load(Ordering::Relaxed), 1);
    assert!(fetch(document).await.whole().starts_with(r#"["before",[0,1,"#));
    assert_eq!(pulled.load(Ordering::Relaxed), 100);
}

/// A response that was complete before its head has a length. The others can't know theirs.
#[tokio::test]
async fn a_response_that_is_whole_has_a_length() {
    let nothing = || Streamed::infallible(stream::empty::<u8>());
    let waited = StreamedJson::new((1, nothing())).unwrap().first().await.unwrap();
    let reply = fetch(waited).await;
    assert_eq!((reply.whole(), reply.header("content-length")), ("[1,[]]", Some("6")));
    let reply = fetch(StreamedJson::new((1, nothing())).unwrap()).await;
    assert_eq!((reply.whole(), reply.header("content-length")), ("[1,[]]", None));
    let reply = fetch(Ndjson::new(nothing()).first().await.unwrap()).await;
    assert_eq!((reply.whole(), reply.header("content-length")), ("", Some("0")));
}

/// A stream that reports when it's dropped.
struct DropGuard<S> {
    inner: S,
    _guard: oneshot::Sender<Infallible>,
}

impl<S: Stream + Unpin> Stream for DropGuard<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.inner.poll_next_unpin(cx)
    }
}

fn guarded<S: Stream + Unpin>(inner: S) -> (DropGuard<S>, oneshot::Receiver<Infallible>) {
    let (guard, dropped) = oneshot::channel();
    (DropGuard { inner, _guard: guard }, dropped)
}

/// Ends when the stream is dropped.
async fn until_dropped(dropped: oneshot::Receiver<Infallible>) {
    assert!(timeout(LIMIT, dropped).await.expect("the stream is dropped").is_err());
}

#[tokio::test]
async fn a_body_that_is_dropped_drops_its_streams() {
    let ((first, first_dropped), (second, mut second_dropped)) =
        (guarded(stream::iter([1])), guarded(stream::pending::<u8>()));
    let document = (Streamed::infallible(first), Streamed::infallible(second));
    let mut body = body(StreamedJson::new(document).unwrap());
    assert_eq!(next_chunk(&mut body).unwrap(), "[[1],");
    // The first stream has ended, so its memory is free.
    until_dropped(first_dropped).await;
    assert!(second_dropped.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
    drop(body);
    until_dropped(second_dropped).await;
}

#[tokio::test]
async fn a_client_that_leaves_drops_the_streams() {
    let (numbers, dropped) = guarded(stream::iter(0_u64..));
    let server = Server::of(StreamedJson::new(Streamed::infallible(numbers)).unwrap()).await;
    let mut conversation = server.open("/").await;
    conversation.until("[0,1,2,").await;
    drop(conversation);
    until_dropped(dropped).await;
}

/// hyper notices that a client disconnected even if there's nothing to send.
#[tokio::test]
async fn a_client_that_leaves_an_idle_stream_drops_it() {
    let (idle, dropped) = guarded(stream::iter([1]).chain(stream::once(pending())).boxed());
    let server = Server::of(Ndjson::new(Streamed::infallible(idle))).await;
    let mut conversation = server.open("/").await;
    conversation.until("1\n").await;
    drop(conversation);
    until_dropped(dropped).await;
}
