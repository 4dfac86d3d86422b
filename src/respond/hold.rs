//! Holds a result until its last row, so that the headers can state its length, digest and next
//! page.
//!
//! A result that's held only for its length or next page is streamed once it's too long to hold.

use std::future::poll_fn;

use http::Response;
use rowstream_core::Error;
use rowstream_core::log;
use rowstream_encode::Format;

use super::body::AnswerBody;
use super::head::{head, tell_digest, tell_if_empty};
use super::request::StreamRequest;
use super::run::AdmittedRequest;
use super::streaming::ActiveStream;
use crate::completeness::trailers::{PAGE, STREAMED};
use crate::compress::Coding;
use crate::endpoint::FollowMode;
use crate::spool::whole::{self, Spool};
use crate::stream::SHORT_PAGE;

/// The longest page that is held, in bytes as they are sent: a thousand rows of 4 KiB. A client
/// that requests a longer page would rather have its rows at once.
const LONGEST_PAGE: u64 = 4 << 20;

/// The reason why a result is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HoldReason {
    /// `_wait=end`: the client gets the complete answer or an error.
    Asked,
    /// HTTP/1.0 has no chunks. Without a length, a body ends when the connection is closed, which
    /// also happens when a server dies.
    ForLength,
    /// It's a page, and its headers name the next one.
    ForNextPage,
}

impl HoldReason {
    /// The longest result that is held, in bytes.
    fn longest(self) -> u64 {
        match self {
            Self::Asked | Self::ForLength => u64::MAX,
            Self::ForNextPage => LONGEST_PAGE,
        }
    }
}

impl StreamRequest<'_> {
    /// The reason why the answer is held, if it is.
    pub(super) fn waits(&self) -> Option<HoldReason> {
        match self.reading.format {
            _ if self.asked.wait => Some(HoldReason::Asked),
            _ if self.followed == FollowMode::Continuously => None,
            _ if self.asked.without_chunks => Some(HoldReason::ForLength),
            // Each event has its cursor, and a page ends with a link. Their readers want rows at once.
            Format::Sse | Format::Html => None,
            _ if self.page.is_some_and(|rows| rows <= SHORT_PAGE) => Some(HoldReason::ForNextPage),
            _ => None,
        }
    }
}

impl AdmittedRequest<'_> {
    /// Answers with a held result, or streams it because it's too long to hold.
    pub(super) async fn hold(
        &mut self,
        waits: HoldReason,
        coding: Option<Coding>,
        mut streaming: ActiveStream,
    ) -> Result<Response<AnswerBody>, Error> {
        let app = self.app;
        let mut spool = Spool::new(&app.config.limits.spooling, &app.state.spooled, waits.longest());
        while let Some(chunk) = poll_fn(|cx| streaming.poll_chunk(cx)).await {
            self.tracker.note(&streaming.stream);
            if let Err(error) = spool.put(&chunk?).await {
                if waits == HoldReason::Asked {
                    return Err(error);
                }
                if error.code() == whole::FAILED {
                    log::warning!("a result can't be held until its end, so it's streamed: {error:?}");
                }
                streaming.ahead = Some(Box::new(spool.so_far()));
                return self.begin_stream(coding, streaming);
            }
        }
        if waits == HoldReason::Asked {
            spool.finish().await?;
        }
        let (mut response, spooled) = (head(self.request, coding), spool.so_far());
        self.tell_result(&streaming.stream, response.headers_mut());
        tell_digest(response.headers_mut(), streaming.content_digest().as_deref());
        tell_if_empty(response.headers_mut(), spooled.left());
        Ok(response.map(|()| match spooled.in_memory() {
            Some(bytes) => AnswerBody::Whole(bytes),
            None => AnswerBody::File(Box::new(spooled)),
        }))
    }
}

/// Tells that a page is streamed, so its headers can't name the next one.
pub(super) fn tell_streamed(request: &StreamRequest<'_>, response: &mut Response<()>) {
    if request.page.is_some() && request.followed != FollowMode::Continuously {
        response.headers_mut().insert(PAGE, STREAMED);
    }
}
