//! Answers of an upstream that are passed through: bytes as they come, at the client's pace.
//!
//! The body of the response polls that of the answer, so a client that does not read stops the upstream, and one that leaves closes
//! the connection to it. An answer that breaks off breaks the response off.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};

use crate::Error;
use crate::endpoint::Endpoint;
use crate::params::{self, ParamValue};
use crate::pool::Patience;
use crate::route::Match;
use crate::upstream::{Call, Reply, Source, Waited, fields};

/// How long an answer that is later than its source lets it be may take to be polled and to say so.
pub(crate) const LATE: Duration = Duration::from_millis(500);

/// The body of an answer on its way.
pub(crate) struct Passed {
    reply: Reply,
    /// How many bytes are still to come, where the answer tells.
    left: Option<u64>,
}

/// The values of the parameters. What says how rows are written has no meaning here, and is refused.
///
/// # Errors
/// 400 that names every parameter that is wrong.
pub(crate) fn values<B>(
    endpoint: &Endpoint,
    found: &Match,
    request: &Request<B>,
) -> Result<Vec<ParamValue>, Error> {
    let query = request.uri().query();
    let bound = params::bind(&endpoint.params, &found.args, query, request.headers())?;
    let pairs = query.unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    let names = pairs.filter_map(params::percent_decode).filter(|name| name.starts_with('_'));
    let refused: Vec<_> = names
        .map(|name| (name.into_owned(), "it is for rows, and this answer is passed through".to_owned()))
        .collect();
    if refused.is_empty() { Ok(bound.values) } else { Err(Error::invalid_parameters(refused)) }
}

/// Asks an upstream for an answer that can be passed through.
///
/// # Errors
/// As [`Source::send`]; and 502 where the answer says that it is JSON, and is nothing.
pub(crate) async fn ask(
    source: &Source,
    call: &Call,
    patience: Patience<'_>,
) -> Result<(Reply, Waited), Error> {
    let (mut reply, waited) = source.send(call, patience).await?;
    reply.begin().await?;
    Ok((reply, waited))
}

/// The head of a response that passes an answer through, and what its body is polled from.
pub(crate) fn response(reply: Reply) -> Response<Passed> {
    let headers = fields::response(&reply.head.headers);
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let status = reply.head.status;
    // An answer without a body may tell the length of one that it does not have.
    let left = if reply.is_over() { Some(0) } else { length };
    let mut response = Response::new(Passed { reply, left });
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

impl Passed {
    /// The next bytes.
    ///
    /// # Errors
    /// The answer breaks off, or is late.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let polled = self.reply.poll_data(cx);
        if let (Poll::Ready(Some(Ok(data))), Some(left)) = (&polled, &mut self.left) {
            *left = left.saturating_sub(data.len() as u64);
        }
        polled
    }

    /// Whether the last byte has been given.
    pub(crate) fn is_done(&self) -> bool {
        self.reply.is_over() || self.left == Some(0)
    }
}
