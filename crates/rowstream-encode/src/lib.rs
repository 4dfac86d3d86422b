//! Turns values into bytes: [`Value`], the formats, and the body template. With the features
//! `http-body` and `axum`, also turns streams into responses.
//!
//! # Pure bytes
//!
//! No I/O, no async, no allocation per row. A caller lends values one by one and owns the buffer
//! they're written to. This part never sees a socket or a database. Rows become JSON
//! ([`RowEncoder`]) or CSV ([`CsvEncoder`]):
//!
//! ```
//! use rowstream_encode::{Column, ColumnKind, RowEncoder, RowWriter, Shape, Value};
//!
//! let column = |name: &str| Column { name: name.to_owned(), type_name: String::new(), kind: ColumnKind::Text };
//! let columns = ["id", "name"].map(column);
//! let mut encoder = RowEncoder::new(Shape::Array, &columns);
//! let mut out = Vec::new();
//! encoder.start(&mut out);
//! for (id, name) in [(1, "Lovelace"), (2, "Knuth")] {
//!     encoder.begin_row(&mut out);
//!     encoder.value(Value::Int(id), &mut out);
//!     encoder.value(Value::Text(name), &mut out);
//!     encoder.end_row(&mut out);
//! }
//! encoder.finish(&mut out);
//! assert_eq!(out, br#"[{"id":1,"name":"Lovelace"},{"id":2,"name":"Knuth"}]"#);
//! ```
//!
//! A [`Template`] is the JSON around the rows, cut at its placeholders:
//!
//! ```
//! use rowstream_encode::{Segment, Template};
//!
//! let template = Template::new(&serde_json::json!({"_embedded": {"articles": "$articles"}, "total": "$count"}))?;
//! let shown = |segment: &Segment| match segment {
//!     Segment::Literal(json) => String::from_utf8_lossy(json).into_owned(),
//!     Segment::Placeholder(name) => format!("<{name}>"),
//!     Segment::Count(_) => "<count>".to_owned(),
//!     Segment::Next => "<next>".to_owned(),
//!     Segment::Digest => "<digest>".to_owned(),
//! };
//! let pieces: Vec<_> = template.segments.iter().map(shown).collect();
//! assert_eq!(pieces, [r#"{"_embedded":{"articles":"#, "<articles>", r#"},"total":"#, "<count>", "}"]);
//! # Ok::<_, rowstream_encode::TemplateError>(())
//! ```
//!
//! # Responses with streams in them
//!
//! With the feature `axum`, a handler returns any serialisable structure that contains streams, in
//! the memory of one chunk. With the feature `http-body`, other HTTP libraries do:
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! use futures_util::stream;
//! use rowstream_encode::responses::{StreamError, Streamed, StreamedJson};
//! use serde::Serialize;
//!
//! #[derive(Serialize)]
//! struct Articles {
//!     articles: Streamed<&'static str>, // where a Vec<&'static str> would be
//!     total: u64,
//! }
//!
//! async fn articles() -> Result<StreamedJson, StreamError> {
//!     let articles = Streamed::infallible(stream::iter(["On streams", "On chunks"]));
//!     StreamedJson::new(Articles { articles, total: 2 })?.first().await
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # use axum::response::IntoResponse;
//! let body = articles().await.into_response().into_body();
//! let body = axum::body::to_bytes(body, usize::MAX).await?;
//! assert_eq!(body, r#"{"articles":["On streams","On chunks"],"total":2}"#);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # }
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! NDJSON, CSV and server-sent events work in the same way. See the module `responses`.

mod append;
#[cfg(feature = "arrow")]
mod arrow;
mod csv;
mod datetime;
mod escape;
mod float;
mod format;
mod framing;
mod hex;
pub mod html;
mod integer;
mod json;
mod list;
mod number;
mod options;
#[cfg(feature = "http-body")]
pub mod responses;
mod rows;
mod template;
mod value;

#[cfg(feature = "arrow")]
pub use arrow::{
    ArrowEncoder, ArrowLevel, BatchEncoder, Misfit, NestedArrowEncoder, NestedColumns, NestedMisfit,
    decimal_units,
};
pub use csv::{CsvChoice, CsvDialect, CsvEncoder, Quote, Separator};
pub use format::Format;
pub use framing::Framing;
pub use json::write_value;
pub use list::ListEncoder;
pub use number::is_json_number;
pub use options::{BytesForm, Choice, Intervals, Nulls, Numbers, ValueOptions};
pub use rows::{OptionsEncoder, RowEncoder, RowWriter, Shape};
pub use template::{Segment, Template, TemplateError};
pub use value::{Column, ColumnKind, ScalarKind, Value};

/// The code of the README compiles, and its assertions are true.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../README.md")]
struct Readme;
