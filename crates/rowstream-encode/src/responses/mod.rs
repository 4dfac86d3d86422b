//! Streaming responses: JSON that contains streams, NDJSON, CSV and server-sent events.
//!
//! A handler of [axum](https://docs.rs/axum) returns a [`StreamedJson`] of any structure that
//! [`serde`] can serialise (feature `axum`). [Other libraries](#without-axum) take it too. A
//! [`Streamed`] in it becomes a JSON array, whose items are written as they arrive. An [`Awaited`]
//! becomes the value of a future. Nothing is collected: memory is one chunk, regardless of the
//! number of items.
//!
//! ```
//! use axum::Router;
//! use axum::routing::get;
//! use futures_util::stream;
//! use rowstream_encode::responses::{StreamError, Streamed, StreamedJson};
//! use serde::Serialize;
//!
//! #[derive(Serialize)]
//! struct Page {
//!     _embedded: Embedded,
//!     total: u64,
//! }
//!
//! #[derive(Serialize)]
//! struct Embedded {
//!     articles: Streamed<Article>, // where a Vec<Article> would be
//! }
//!
//! #[derive(Serialize)]
//! struct Article {
//!     id: u64,
//! }
//!
//! async fn articles() -> Result<StreamedJson, StreamError> {
//!     let articles = stream::iter((1..=3).map(|id| Ok::<_, std::io::Error>(Article { id })));
//!     let page = Page { _embedded: Embedded { articles: Streamed::new(articles) }, total: 3 };
//!     StreamedJson::new(page)
//! }
//!
//! let app: Router = Router::new().route("/articles", get(articles));
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # use axum::response::IntoResponse;
//! let body = articles().await.into_response().into_body();
//! let body = axum::body::to_bytes(body, usize::MAX).await?;
//! assert_eq!(body, r#"{"_embedded":{"articles":[{"id":1},{"id":2},{"id":3}]},"total":3}"#);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A stream can replace any value: in a struct, a map, a tuple, an enum, an `Option`, a `Vec`, as
//! the whole document, and in the items of another stream. The structure is serialised before the
//! first byte, and its streams are read one after another, in document order. Placeholders are
//! recognised by their address and not by their contents, so data can't be mistaken for one.
//!
//! [`Ndjson`], [`Csv`] and [`Sse`] consist of a single stream.
//!
//! # Without axum
//!
//! [`into_http`](StreamedJson::into_http) returns an [`http::Response`] with a body that every library
//! of the crate `http-body` takes, such as hyper. It needs only the feature `http-body`:
//!
//! ```
//! use futures_util::stream;
//! use http::{Request, Response};
//! use rowstream_encode::responses::{Ndjson, Streamed, StreamedBody};
//!
//! async fn numbers<B>(_: Request<B>) -> Result<Response<StreamedBody>, std::convert::Infallible> {
//!     Ok(Ndjson::new(Streamed::infallible(stream::iter([1, 2]))).into_http())
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # use http_body_util::BodyExt;
//! let body = numbers(Request::new(())).await?.into_body().collect().await?.to_bytes();
//! assert_eq!(body, "1\n2\n");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # When something fails
//!
//! No failure looks like the end of a response, and none becomes an item.
//!
//! - The structure can't be serialised: [`StreamedJson::new`] returns an error before there's a
//!   response.
//! - A stream fails, or an item can't be serialised: the body returns an error. hyper then closes
//!   the connection without the last chunk (HTTP/1.1) or resets the stream (HTTP/2), so that
//!   clients notice that something is missing. The brackets of the document stay open. Bytes that
//!   haven't left by then are lost too: the items of the current chunk, and hyper's own buffer.
//!   HTTP/1.0 doesn't mark ends, so there only the missing brackets show the failure.
//! - A stream fails before its first item: the same, because by then the response has its status
//!   200. To avoid this, the handler can wait for the first item with `first`. That returns the
//!   error, and the handler responds with a real status:
//!
//! ```
//! use axum::http::StatusCode;
//! use axum::response::{IntoResponse, Response};
//! use futures_util::stream;
//! use rowstream_encode::responses::{StreamError, Streamed, StreamedJson};
//! use std::error::Error as _;
//! use std::io;
//!
//! async fn articles() -> Result<StreamedJson, Response> {
//!     let articles = stream::iter([Err::<u64, _>(io::Error::from(io::ErrorKind::TimedOut))]);
//!     let page = StreamedJson::new(Streamed::new(articles)).map_err(IntoResponse::into_response)?;
//!     page.first().await.map_err(refusal)
//! }
//!
//! fn refusal(error: StreamError) -> Response {
//!     match error.source().and_then(|cause| cause.downcast_ref::<io::Error>()) {
//!         Some(cause) if cause.kind() == io::ErrorKind::TimedOut => StatusCode::GATEWAY_TIMEOUT.into_response(),
//!         _ => error.into_response(),
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! assert_eq!(articles().await.into_response().status(), StatusCode::GATEWAY_TIMEOUT);
//! # });
//! # Ok::<_, std::io::Error>(())
//! ```
//!
//! The client learns nothing of the cause. [`on_error`](StreamedJson::on_error) passes it to the
//! server's log:
//!
//! ```
//! use std::error::Error as _;
//! use futures_util::stream;
//! use rowstream_encode::responses::{Ndjson, Streamed};
//!
//! async fn lines() -> Ndjson {
//!     let lines = stream::iter([Ok("one"), Err("the file was truncated")]);
//!     Ndjson::new(Streamed::new(lines)).on_error(|error| match error.source() {
//!         Some(cause) => eprintln!("{error}: {cause}"),
//!         None => eprintln!("{error}"),
//!     })
//! }
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # use http_body_util::BodyExt;
//! # assert!(lines().await.into_http().into_body().collect().await.is_err());
//! # });
//! # Ok::<_, std::io::Error>(())
//! ```
//!
//! # Framed responses
//!
//! Some clients and proxies take a cut response for a complete one. A framed response has a record at
//! its end, which is only there if nothing is missing, and Rowstream's clients for JavaScript and
//! Python raise an error without it:
//!
//! ```
//! use futures_util::stream;
//! use rowstream_encode::responses::{Ndjson, StreamError, Streamed};
//! use rowstream_encode::{Column, ColumnKind};
//! use serde::Serialize;
//!
//! #[derive(Serialize)]
//! struct Article {
//!     id: i64,
//! }
//!
//! async fn articles() -> Result<Ndjson, StreamError> {
//!     let articles = stream::iter((1..=2).map(|id| Article { id }));
//!     Ndjson::new(Streamed::infallible(articles)).framed(&[Column::new("id", ColumnKind::Int64)])
//! }
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # use http_body_util::BodyExt;
//! let response = articles().await?.into_http();
//! let tag = response.headers()["rowstream-tag"].to_str()?.to_owned();
//! let body = response.into_body().collect().await?.to_bytes();
//! let expected = [
//!     r#"{"$rowstream":"TAG","columns":[{"name":"id","type":"int64"}]}"#,
//!     r#"{"id":1}"#,
//!     r#"{"id":2}"#,
//!     r#"{"$rowstream":"TAG","end":{"rows":2}}"#,
//!     "",
//! ];
//! assert_eq!(body, expected.join("\n").replace("TAG", &tag));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! - The tag is random, 128 bits in hex, and differs for each response. So no row looks like a record.
//! - If a stream fails, the last record is an error with the code `stream_failed`, without the cause.
//!   The complete rows and the record leave before the body fails.
//! - [`digest`](Ndjson::digest) adds a digest to the end record.
//! - There's no timer for heartbeats, and so no header `Rowstream-Heartbeat`: clients wait without
//!   limit. There are no marks, so clients can't resume the response (`Rowstream-Resume: none`).
//! - Pages of another origin need `Access-Control-Expose-Headers: Rowstream-Tag, Rowstream-Wire,
//!   Rowstream-Resume`.
//!
//! Other formats can have [`trailers`](Csv::trailers), for clients and proxies that pass them on.
//!
//! # When bytes leave
//!
//! Items are collected until a chunk is full: 4 KiB for the first one, then 32 KiB. When a stream
//! has nothing ready, the collected bytes leave at once, so slow items are sent as they arrive. A
//! stream that waits for each item produces a chunk per item. One that reads its source in batches
//! produces few chunks.
//!
//! The HTTP library polls the body when the client reads more. So a slow client slows the streams
//! down, and a client that disconnects drops them. While a client doesn't read, hyper holds the
//! bytes that it polled before: some 400 KB per connection unless `max_buf_size` is set.
//!
//! The headers ask proxies not to hold bytes back: `Cache-Control: no-transform`,
//! `X-Accel-Buffering: no`, `Incremental: ?1`. A handler can replace them:
//! `([(header::CACHE_CONTROL, "no-store")], page)`.

mod chunks;
mod delivery;
mod document;
mod error;
mod events;
mod framed;
mod proof;
mod records;
mod streamed;
mod unsent;

use std::error::Error;

use serde::Serialize;

use crate::{Column, CsvDialect, Format, Framing};
use document::{Document, ItemFraming, List, Whitespace, write_json};
use records::Records;
use unsent::UnsentResponse;

pub use chunks::StreamedBody;
pub use error::StreamError;
pub use events::Event;
pub use streamed::{Awaited, Streamed};

/// An error of a stream.
type BoxError = Box<dyn Error + Send + Sync>;

/// A JSON document that contains streams (`application/json`).
///
/// The [module](self) describes it.
#[derive(Debug)]
#[must_use]
pub struct StreamedJson(UnsentResponse);

impl StreamedJson {
    /// Serialises `value`, which can contain [`Streamed`] and [`Awaited`] anywhere. They're read
    /// together with the body.
    ///
    /// # Errors
    /// `value` can't be JSON, or one of its streams was serialised before. The same applies to a
    /// stream in an enum's variant that serde has to buffer, because the enum is flattened
    /// (`serde(flatten)`), or nested in an internally tagged one (`serde(tag = "…")`). A stream
    /// can't be flattened or tagged itself either.
    pub fn new(value: impl Serialize) -> Result<Self, StreamError> {
        Self::with_whitespace(&value, Whitespace::Compact)
    }

    /// Like [`new`](Self::new), with the whitespace of [`serde_json::to_string_pretty`], also for the items
    /// of streams.
    ///
    /// ```
    /// # use futures_util::stream;
    /// # use http_body_util::BodyExt;
    /// use rowstream_encode::responses::{Streamed, StreamedJson};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let numbers = Streamed::infallible(stream::iter([1, 2]));
    /// let body = StreamedJson::pretty(numbers)?.into_http().into_body();
    /// assert_eq!(body.collect().await?.to_bytes(), "[\n  1,\n  2\n]");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn pretty(value: impl Serialize) -> Result<Self, StreamError> {
        Self::with_whitespace(&value, Whitespace::Indented { depth: 0 })
    }

    fn with_whitespace(value: &impl Serialize, whitespace: Whitespace) -> Result<Self, StreamError> {
        let document = Document::new(value, whitespace)?;
        Ok(Self(UnsentResponse::new(Format::Json.media_type(), document)))
    }
}

/// The items of a stream as JSON, one per line (`application/x-ndjson`).
///
/// ```
/// # use axum::response::IntoResponse;
/// # use futures_util::stream;
/// use rowstream_encode::responses::{Ndjson, Streamed};
///
/// async fn numbers() -> Ndjson {
///     Ndjson::new(Streamed::infallible(stream::iter([1, 2])))
/// }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let body = axum::body::to_bytes(numbers().await.into_response().into_body(), usize::MAX).await?;
/// # assert_eq!(body, "1\n2\n");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Ndjson(UnsentResponse);

impl Ndjson {
    /// A line for each of `items`.
    pub fn new<T: Serialize + 'static>(items: Streamed<T>) -> Self {
        let lines = List::new(items.into_next(), ItemFraming::Lines, Whitespace::OneLine, write_json);
        Self(UnsentResponse::new(Format::Ndjson.media_type(), Document::of_list(lines)))
    }

    /// Adds records that prove to a client that nothing is missing: the
    /// [framed profile](self#framed-responses), which Rowstream's clients read.
    ///
    /// `columns` describes the items' fields in their order. Clients convert the values by these types;
    /// use [`ColumnKind::Any`](crate::ColumnKind::Any) for a list. Without columns, clients take the
    /// values as JSON has them. An item that isn't a struct or a map aborts the response.
    ///
    /// # Errors
    /// The system returns no random numbers.
    pub fn framed(self, columns: &[Column]) -> Result<Self, StreamError> {
        self.0.framed(Framing::Lines, columns).map(Self)
    }
}

/// The items of a stream as CSV (RFC 4180, `text/csv`), in any [`CsvDialect`].
///
/// An item is a struct or a map. The header contains the names of the first item's fields. All
/// other items must have the same fields in the same order. A body without items is empty. `None`
/// and floats that aren't finite are NULL. A `RawValue` of `serde_json` is written as its text, and
/// bytes as hex digits after `\x`. A list, a map, a struct or a variant with content in a field
/// aborts the response.
///
/// ```
/// # use axum::response::IntoResponse;
/// # use futures_util::stream;
/// use rowstream_encode::responses::{Csv, Streamed};
/// use serde::Serialize;
///
/// #[derive(Serialize)]
/// struct Author {
///     id: u64,
///     name: &'static str,
///     died: Option<u16>,
/// }
///
/// async fn authors() -> Csv {
///     let authors = [
///         Author { id: 1, name: "Lovelace, Ada", died: Some(1852) },
///         Author { id: 2, name: "Knuth", died: None },
///     ];
///     Csv::new(Streamed::infallible(stream::iter(authors)))
/// }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let body = axum::body::to_bytes(authors().await.into_response().into_body(), usize::MAX).await?;
/// # assert_eq!(body, "id,name,died\r\n1,\"Lovelace, Ada\",1852\r\n2,Knuth,\r\n");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Csv(UnsentResponse);

impl Csv {
    /// A record for each of `items`, in the default dialect.
    pub fn new<T: Serialize + 'static>(items: Streamed<T>) -> Self {
        Self::with_dialect(items, CsvDialect::default())
    }

    /// A record for each of `items`, in `dialect`.
    pub fn with_dialect<T: Serialize + 'static>(items: Streamed<T>, dialect: CsvDialect) -> Self {
        let content_type = match dialect.header {
            true => "text/csv; charset=utf-8; header=present",
            false => "text/csv; charset=utf-8; header=absent",
        };
        Self(UnsentResponse::new(content_type, Records::new(items.into_next(), dialect)))
    }
}

/// The items of a stream as server-sent events (`text/event-stream`), for `EventSource` in
/// browsers.
///
/// The data of each event is an item as JSON. axum's own `Sse` sends a chunk per event. This one
/// puts events that are ready together into one chunk, and can wait for the [`first`](Self::first).
/// But it has no timer for heartbeats: if connections stay idle for long, mix [`Event::heartbeat`]
/// into the stream.
///
/// An `EventSource` can't distinguish an end from a failure. Whenever the response ends, it
/// reconnects and sends the id of the last event. So a stream should announce its end by a special
/// event, on which the page calls `close()`.
///
/// ```
/// # use axum::response::IntoResponse;
/// # use futures_util::stream;
/// use rowstream_encode::responses::{Event, Sse, Streamed};
///
/// async fn numbers() -> Sse {
///     let events = [Event::new(Some(7)).id("1"), Event::heartbeat(), Event::new(None).name("end")];
///     Sse::new(Streamed::infallible(stream::iter(events)))
/// }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let body = axum::body::to_bytes(numbers().await.into_response().into_body(), usize::MAX).await?;
/// # assert_eq!(body, "id: 1\ndata: 7\n\n:\n\nevent: end\ndata: null\n\n");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Sse(UnsentResponse);

impl Sse {
    /// Sends `events`.
    pub fn new<T: Serialize + 'static>(events: Streamed<Event<T>>) -> Self {
        let events =
            List::new(events.into_next(), ItemFraming::Events, Whitespace::OneLine, events::write_event);
        Self(UnsentResponse::new(Format::Sse.media_type(), Document::of_list(events)))
    }

    /// Adds records as events of the type `rowstream`; see [`Ndjson::framed`]. An event that has a
    /// name, or whose data isn't a struct or a map, aborts the response.
    ///
    /// `follow` of Rowstream's clients reads such a response if each event has an id. After each end
    /// and each cut, it repeats the request with the last id as the parameter `_after`. A handler that
    /// continues there sets the header `Rowstream-Resume: ids`.
    ///
    /// # Errors
    /// The system returns no random numbers.
    pub fn framed(self, columns: &[Column]) -> Result<Self, StreamError> {
        self.0.framed(Framing::Events, columns).map(Self)
    }
}
