//! The parameters in the body of a request. A `QUERY` or `POST` has the same answer as a `GET` with
//! these parameters in its URL.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body::Body;
use rowstream_core::Error;
use rowstream_core::diagnostic::shown;
use rowstream_core::params::{self, BodyParams, BodyType, memory_of_values};
use tokio::time::timeout;

use super::exchange::Exchange;
use crate::admission::Holder;
use crate::endpoint::Endpoint;
use crate::negotiate;
use crate::outcome::Outcome;
use crate::route::Suffix;

/// The name of the method that reads with a body (draft-ietf-httpbis-safe-method-w-body).
const QUERY: &str = "QUERY";

/// True if the parameters of a request may be in its body.
pub(crate) fn has_body(method: &Method) -> bool {
    *method == Method::POST || method.as_str() == QUERY
}

impl Exchange<'_> {
    /// Reads the parameters in the body of a request. `None`: the body is empty. Its memory counts as
    /// the client's until the request is admitted.
    ///
    /// # Errors
    /// 400: it isn't valid. 408: it doesn't arrive in time. 413: it's too long. 415: it's of another
    /// type. 503: there's no memory for it.
    pub(super) async fn read_body<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        &mut self,
        body: &mut B,
    ) -> Result<Option<Box<BodyParams>>, Error> {
        let headers = self.request.headers();
        let kind = body_type(headers);
        // A client that waits for `100 Continue` gets a refusal instead. Of other clients, the body is
        // read first, because it's on its way and may be empty.
        let kind = if headers.contains_key(header::EXPECT) { Ok(kind?) } else { kind };
        let length = headers.get(header::CONTENT_LENGTH).cloned();
        if self.tracker.permit.is_none() {
            self.tracker.permit = Some(self.app.admission.holding_for(self.network()));
        }
        let limit = self.app.config.limits.header_timeout;
        let received = timeout(limit, self.receive(body));
        let bytes = received.await.map_err(|_| {
            let message = format!("the body of the request was not complete within {limit:?}");
            Error::new("body_timeout", StatusCode::REQUEST_TIMEOUT, message)
                .hint("send a shorter body, or raise `header_timeout`")
        })??;
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length != bytes.len() as u64) {
            return Err(invalid("its length isn't the one in `Content-Length`"));
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let kind = kind?;
        self.hold_body(memory_of_values(&bytes))?;
        let read = BodyParams::read(kind, &bytes).map_err(|why| invalid(&why))?;
        Ok(Some(Box::new(read)))
    }

    /// Receives a whole body. If the client leaves meanwhile, that's how the request ended.
    async fn receive<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        &mut self,
        body: &mut B,
    ) -> Result<Bytes, Error> {
        let most = self.app.config.limits.max_body;
        let is_too_long = |bytes: u64| bytes > most as u64;
        if is_too_long(body.size_hint().lower()) {
            return Err(longer_than(most));
        }
        let mut bytes = BytesMut::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            let frame = frame.map_err(|error| match is_malformed(&error) {
                true => invalid("its chunks or its length aren't HTTP"),
                false => {
                    self.tracker.outcome = Some(Outcome::Aborted);
                    invalid("it ended early")
                }
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if is_too_long((bytes.len() + data.remaining()) as u64) {
                return Err(longer_than(most));
            }
            self.hold_body(data.remaining())?;
            bytes.put(data);
        }
        Ok(bytes.freeze())
    }

    fn hold_body(&mut self, bytes: usize) -> Result<(), Error> {
        let admission = &self.app.admission;
        if bytes > admission.share() {
            let message = "the values in the body need more memory than one client may have";
            return Err(too_long(message).hint("send fewer parameters, or raise `memory`"));
        }
        let Some(permit) = &mut self.tracker.permit else { return Ok(()) };
        admission.widen(permit, bytes, Holder::Client)?;
        self.tracker.body_memory += bytes;
        Ok(())
    }
}

/// Refuses the format in the URL of a request before a client that waits for `100 Continue` sends the
/// body. `Accept` and a suffix alone decide nothing, because the body may have `_format`.
///
/// # Errors
/// 406: the endpoint doesn't have the format.
pub(super) fn refuse_format<B>(
    endpoint: &Endpoint,
    suffix: &Suffix,
    request: &Request<B>,
) -> Result<(), Error> {
    // A plan has a format of its own.
    if !request.headers().contains_key(header::EXPECT) || endpoint.explained.is_some() {
        return Ok(());
    }
    let query = request.uri().query().unwrap_or_default();
    let (formats, _) = params::take_pairs(query, |name| name == "_format")?;
    let format = formats.first().map(|(_, format)| format.as_str());
    negotiate::check_url(suffix, format, &endpoint.formats)
}

/// True if a body breaks the rules of HTTP. Otherwise, its client has ended it or has left.
fn is_malformed(error: &(dyn StdError + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(io, Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput))
        || error.downcast_ref::<h2::Error>().is_some_and(h2::Error::is_library)
        || error.source().is_some_and(is_malformed)
}

/// The type of the parameters in a body.
///
/// # Errors
/// 415: they have another type or a coding.
fn body_type(headers: &HeaderMap) -> Result<BodyType, Error> {
    let refused =
        |message: String| Error::new("unsupported_media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    if let Some(coding) = codings.find(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        let coding = shown(&String::from_utf8_lossy(coding.as_bytes()));
        return Err(refused(format!("the body has the content coding {coding}"))
            .hint("send it without `Content-Encoding`"));
    }
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let sent = types.next().and_then(|sent| sent.to_str().ok()).unwrap_or_default();
    // Another program on the path may have read the body as the other type.
    if types.next().is_some() {
        return Err(refused("the request has two `Content-Type` headers".to_owned()).hint("send one"));
    }
    BodyType::from_media_type(sent).ok_or_else(|| {
        let message = if sent.is_empty() {
            "the body has no `Content-Type`".to_owned()
        } else {
            format!("parameters can't be read from a body of the type {}", shown(sent))
        };
        refused(message).hint(format!("send one of these, in UTF-8: {}", BodyType::NAMES))
    })
}

fn invalid(why: &str) -> Error {
    let message = format!("the body of the request can't be read: {why}");
    Error::new("invalid_body", StatusCode::BAD_REQUEST, message)
        .hint("send a JSON object with a member for each parameter, or a form")
}

fn longer_than(most: usize) -> Error {
    too_long(&format!("the body of the request has more than {most} bytes"))
        .hint("send fewer parameters, or raise `max_body`")
}

fn too_long(message: &str) -> Error {
    Error::new("body_too_long", StatusCode::PAYLOAD_TOO_LARGE, message)
}
