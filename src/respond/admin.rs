//! The admin endpoints, below [`ADMIN`]: what the server says of itself.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Request, Response};

use super::app::App;
use super::body::Answer;
use super::head::no_endpoint;
use crate::Error;
use crate::admission::Holder;
use crate::metrics::{Exposition, Metrics};

/// Before the path of each admin endpoint.
pub(super) const ADMIN: &str = "/_rowstream/";
/// Below [`ADMIN`]: whether it answers at all.
const LIVE: &str = "live";
/// Below [`ADMIN`]: whether requests should come here.
pub(super) const READY: &str = "ready";
/// Where the metrics are, below [`ADMIN`].
pub(super) const METRICS: &str = "metrics";
/// Where it is told how streams go, below [`ADMIN`].
const STREAMS: &str = "streams/";

/// In a request's extensions: it came to the port of the admin endpoints.
#[derive(Debug, Clone, Copy)]
pub struct Admin;

/// Whether a request asks how the server is.
pub(crate) fn is_check<B>(request: &Request<B>) -> bool {
    matches!(request.uri().path().strip_prefix(ADMIN), Some(LIVE | READY))
}

/// Who holds memory for a request.
pub(super) fn holder<B>(request: &Request<B>) -> Holder {
    match request.uri().path().starts_with(ADMIN) {
        true => Holder::Admin,
        false => Holder::Client,
    }
}

/// Whether a request came to the port of the admin endpoints.
pub(super) fn is_admin<B>(request: &Request<B>) -> bool {
    request.extensions().get::<Admin>().is_some()
}

impl App {
    /// Whether an admin endpoint can be asked for where a request has come. How a stream went is told
    /// wherever streams are.
    pub(super) fn serves_admin<B>(&self, path: &str, request: &Request<B>) -> bool {
        self.config.admin_listen.is_none() || is_admin(request) || path.starts_with(STREAMS)
    }

    /// What an admin endpoint answers.
    pub(super) fn admin_endpoint(&self, path: &str) -> Result<Response<Answer>, Error> {
        let told = path.strip_prefix(STREAMS).and_then(|id| self.state.streams.told(id));
        match (path, told) {
            (LIVE | READY, _) => Ok(report(Bytes::from_static(b"ok\n"), "text/plain")),
            (_, Some(told)) => Ok(report(Bytes::from(told), "application/json")),
            (_, None) => Err(no_endpoint(&format!("{ADMIN}{path}"))),
        }
    }
}

/// What `/_rowstream/metrics` tells.
pub(super) async fn metrics(app: Arc<App>, exposition: Exposition) -> Result<Response<Answer>, Error> {
    let told = Metrics::tell(app, exposition).await?;
    let mut response = report(Bytes::from(told), exposition.media_type());
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// What the server says of itself, now.
fn report(body: Bytes, media_type: &'static str) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
