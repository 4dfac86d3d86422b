//! Parts of a structure that aren't available yet: a stream of items, or the value of a future.

use std::fmt;
use std::future::Future;
use std::sync::Mutex;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use serde::ser::{Error as _, Serialize, Serializer};

use super::BoxError;
use super::document::{self, ItemFraming, List, write_json};

/// Polls for the next item. `None` after the last one.
pub(super) type NextItem<T> = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<T, BoxError>>> + Send>;

/// The error for a serializer other than [`write_json`].
const OUTSIDE: &str = "a stream or a future can only be serialised into streamed JSON";
/// The error for a stream that is serialised twice by reference.
const TAKEN: &str = "a stream or a future was serialised before: it can only be read once";

/// A stream of items in place of a `Vec<T>`. In a [`StreamedJson`](super::StreamedJson) it becomes
/// a JSON array.
///
/// [`Ndjson`](super::Ndjson), [`Csv`](super::Csv) and [`Sse`](super::Sse) consist of one. The
/// stream isn't polled before the response's body, and is dropped with the body or after its last
/// item.
///
/// Other serializers, such as [`serde_json::to_string`], return an error, and so does serialising
/// it twice. In a `serde_json::json!` it panics; use a tuple or a map for a document without its
/// own type.
pub struct Streamed<T>(StreamSlot<T>);

impl<T> Streamed<T> {
    /// A stream that may fail.
    ///
    /// An error aborts the response: it never becomes an item, and the stream isn't read any
    /// further. To see it on the server, use [`on_error`](super::StreamedJson::on_error).
    ///
    /// ```
    /// # use futures_util::stream;
    /// # use rowstream_encode::responses::Streamed;
    /// let lines = stream::iter([Ok("one"), Ok("two"), Err("the file was truncated")]);
    /// let lines: Streamed<&str> = Streamed::new(lines);
    /// ```
    pub fn new<E: Into<BoxError>>(stream: impl Stream<Item = Result<T, E>> + Send + 'static) -> Self {
        let mut stream = Box::pin(stream);
        Self(StreamSlot::new(move |cx| {
            let item = ready!(stream.as_mut().poll_next(cx));
            Poll::Ready(item.map(|item| item.map_err(Into::into)))
        }))
    }

    /// A stream that can't fail. For a stream of `Result`s use [`new`](Self::new), because serde
    /// would write these as items.
    pub fn infallible(stream: impl Stream<Item = T> + Send + 'static) -> Self {
        let mut stream = Box::pin(stream);
        Self(StreamSlot::new(move |cx| stream.as_mut().poll_next(cx).map(|item| item.map(Ok))))
    }

    /// The stream. If it was serialised before, the result fails when polled.
    pub(super) fn into_next(self) -> NextItem<T> {
        match self.0.take() {
            Some(next) => next,
            None => Box::new(|_| Poll::Ready(Some(Err(TAKEN.into())))),
        }
    }
}

impl<T: Serialize + 'static> Serialize for Streamed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(ItemFraming::Array, serializer)
    }
}

impl<T> fmt::Debug for Streamed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Streamed").finish_non_exhaustive()
    }
}

/// The value of a future, in place of a `T` in a [`StreamedJson`](super::StreamedJson).
///
/// The future is polled when the body reaches it. So a count after a stream can use the items that
/// the stream returned.
pub struct Awaited<T>(StreamSlot<T>);

impl<T> Awaited<T> {
    /// A future that may fail, which aborts the response.
    pub fn new<E: Into<BoxError>>(future: impl Future<Output = Result<T, E>> + Send + 'static) -> Self {
        let mut future = Some(Box::pin(future));
        Self(StreamSlot::new(move |cx| {
            let Some(running) = &mut future else { return Poll::Ready(None) };
            let value = ready!(running.as_mut().poll(cx));
            future = None;
            Poll::Ready(Some(value.map_err(Into::into)))
        }))
    }

    /// A future that can't fail. For one of a `Result` use [`new`](Self::new), because serde would
    /// write this as a value.
    pub fn infallible(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self::new(async move { Ok::<_, BoxError>(future.await) })
    }
}

impl<T: Serialize + 'static> Serialize for Awaited<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(ItemFraming::Value, serializer)
    }
}

impl<T> fmt::Debug for Awaited<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Awaited").finish_non_exhaustive()
    }
}

/// The stream or future until it's taken. `Serialize` only borrows it. The lock keeps structures
/// with streams `Sync`.
struct StreamSlot<T>(Mutex<Option<NextItem<T>>>);

impl<T> StreamSlot<T> {
    fn new(next: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<T, BoxError>>> + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(next))))
    }

    fn take(&self) -> Option<NextItem<T>> {
        self.0.lock().ok()?.take()
    }
}

impl<T: Serialize + 'static> StreamSlot<T> {
    fn serialize<S: Serializer>(&self, framing: ItemFraming, serializer: S) -> Result<S::Ok, S::Error> {
        let whitespace = document::collecting().ok_or_else(|| S::Error::custom(OUTSIDE))?;
        let next = self.take().ok_or_else(|| S::Error::custom(TAKEN))?;
        let list = List::new(next, framing, whitespace, write_json);
        document::stand_in(list, serializer)
    }
}
