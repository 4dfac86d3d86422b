//! A response until it's sent, and the methods that all responses have.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};

use super::chunks::Pieces;
use super::framed::RecordWriter;
use super::{Csv, Ndjson, Sse, StreamError, StreamedBody, StreamedJson};
use crate::{Column, Framing};

/// A response that isn't sent yet.
#[derive(Debug)]
pub(super) struct UnsentResponse {
    content_type: &'static str,
    body: StreamedBody,
}

impl UnsentResponse {
    pub(super) fn new(content_type: &'static str, pieces: impl Pieces + 'static) -> Self {
        Self { content_type, body: StreamedBody::new(pieces) }
    }

    async fn first(mut self) -> Result<Self, StreamError> {
        self.body.first().await?;
        Ok(self)
    }

    pub(super) fn framed(mut self, framing: Framing, columns: &[Column]) -> Result<Self, StreamError> {
        self.body.set_records(RecordWriter::new(framing, columns)?);
        Ok(self)
    }

    /// Adds headers that ask proxies not to buffer. `no-transform` (RFC 9111) prevents compression,
    /// `X-Accel-Buffering` is nginx's, and `Incremental` is draft-ietf-httpbis-incremental.
    fn into_http(self) -> http::Response<StreamedBody> {
        let (mut head, mut body) = http::Response::new(self.body).into_parts();
        let headers = &mut head.headers;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-transform"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        headers.insert(HeaderName::from_static("incremental"), HeaderValue::from_static("?1"));
        body.begin(headers);
        http::Response::from_parts(head, body)
    }
}

/// The methods of all responses.
macro_rules! responses {
    ($($response:ident),*) => {$(
        impl $response {
            /// Waits for the first item of a stream, or for the end if there are no items. So a failure
            /// until then can have a status.
            ///
            /// A response that's complete by then has a `Content-Length`.
            ///
            /// # Errors
            /// The failure. The cause is its [`source`](std::error::Error::source).
            pub async fn first(self) -> Result<Self, StreamError> {
                self.0.first().await.map(Self)
            }

            /// Calls `hook` with the error if the response is aborted, for example to log it. The client
            /// only notices that something is missing.
            ///
            /// `hook` is called once at most, by the task that sends the body, and should be short. It
            /// isn't called for an error that [`first`](Self::first) returns, or if the client leaves. A
            /// second hook replaces the first one.
            pub fn on_error(mut self, hook: impl FnOnce(&StreamError) + Send + 'static) -> Self {
                self.0.body.set_on_error(Box::new(hook));
                self
            }

            /// Announces trailers, which prove to a client that nothing is missing: `Rowstream-Status:
            /// complete`, and the number of rows in `Rowstream-Rows`. A failed response has none.
            ///
            /// hyper sends them over HTTP/1.1 only to clients that send `TE: trailers`. The rows are
            /// the items of the streams, without those of streams in an item, and without heartbeats.
            /// A response with trailers has no `Content-Length`.
            pub fn trailers(mut self) -> Self {
                self.0.body.add_trailers();
                self
            }

            /// Computes the SHA-256 of the body while it's sent. It's the trailer `Content-Digest`
            /// (RFC 9530), after those of [`trailers`](Self::trailers). The end record of a framed
            /// response has the digest of the bytes before it.
            pub fn digest(mut self) -> Self {
                self.0.body.add_digest();
                self
            }

            /// The response for HTTP libraries that take any [`http_body::Body`], such as hyper.
            /// Handlers of axum return it as it is.
            ///
            /// Use the body together with its headers.
            pub fn into_http(self) -> http::Response<StreamedBody> {
                self.0.into_http()
            }
        }

        #[cfg(feature = "axum")]
        impl axum_core::response::IntoResponse for $response {
            fn into_response(self) -> axum_core::response::Response {
                self.into_http().map(axum_core::body::Body::new)
            }
        }
    )*};
}

responses!(StreamedJson, Ndjson, Csv, Sse);
