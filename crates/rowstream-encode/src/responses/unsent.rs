//! A response until it's sent, and the methods that all responses have.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};

use super::chunks::Pieces;
use super::{Csv, Ndjson, Sse, StreamError, StreamedBody, StreamedJson};

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

    /// Adds headers that ask proxies not to buffer. `no-transform` (RFC 9111) prevents compression,
    /// `X-Accel-Buffering` is nginx's, and `Incremental` is draft-ietf-httpbis-incremental.
    fn into_http(self) -> http::Response<StreamedBody> {
        let mut response = http::Response::new(self.body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-transform"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        headers.insert(HeaderName::from_static("incremental"), HeaderValue::from_static("?1"));
        response
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
