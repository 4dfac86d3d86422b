//! Results that are read to their end before their head, which then says what only the end knows.
//!
//! Who waits for a length alone, or for the next page, is streamed to where the result is too long
//! to wait.

use std::future::poll_fn;

use http::Response;
use rowstream_encode::Format;

use super::app::App;
use super::body::Answer;
use super::head::{head, tell_digest, tell_if_empty, tell_page};
use super::request::StreamRequest;
use super::streaming::Streaming;
use super::tracker::RequestTracker;
use crate::Error;
use crate::completeness::trailers::{PAGE, STREAMED};
use crate::compress::Coding;
use crate::endpoint::Followed;
use crate::log;
use crate::spool::whole::{self, Spool};
use crate::stream::SHORT_PAGE;

/// The longest page that waits for its end, in bytes as they are sent: a thousand rows of 4 KiB.
/// Who asks for a longer one wants its rows, and not a pause.
const LONGEST_PAGE: u64 = 4 << 20;

/// Why a result waits for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// `_wait=end`: it is answered as a whole, or not at all.
    Asked,
    /// HTTP/1.0 has no chunks: without a length, the end of a body is the close of its connection,
    /// and a server that died closes it, too.
    ForLength,
    /// It is a page, and its head names the next one.
    ForNextPage,
}

impl Waits {
    /// The longest result that waits, in bytes.
    fn longest(self) -> u64 {
        match self {
            Self::Asked | Self::ForLength => u64::MAX,
            Self::ForNextPage => LONGEST_PAGE,
        }
    }
}

impl StreamRequest<'_> {
    /// Whether the answer waits for its end, and why.
    pub(super) fn waits(&self) -> Option<Waits> {
        match self.reading.format {
            _ if self.asked.wait => Some(Waits::Asked),
            _ if self.followed == Followed::Continuously => None,
            _ if self.asked.without_chunks => Some(Waits::ForLength),
            // Each event has its cursor, and whoever reads them wants them as they come.
            Format::Sse => None,
            _ if self.page.is_some_and(|rows| rows <= SHORT_PAGE) => Some(Waits::ForNextPage),
            _ => None,
        }
    }
}

impl App {
    /// The answer of a result that waits for its end, or of one that is streamed because it is too
    /// long for that.
    pub(super) async fn hold(
        &self,
        (request, waits): (&StreamRequest<'_>, Waits),
        coding: Option<Coding>,
        mut streaming: Streaming,
        tracker: &mut RequestTracker,
    ) -> Result<Response<Answer>, Error> {
        let mut spool = Spool::new(&self.config.limits.spooling, &self.state.spooled, waits.longest());
        while let Some(chunk) = poll_fn(|cx| streaming.poll_chunk(cx)).await {
            tracker.note(&streaming.stream);
            if let Err(error) = spool.put(&chunk?).await {
                if waits == Waits::Asked {
                    return Err(error);
                }
                if error.code() == whole::FAILED {
                    log::warning!("a result cannot wait for its end, and is streamed: {error:?}");
                }
                streaming.ahead = Some(Box::new(spool.so_far()));
                return self.begin_stream(request, coding, streaming, tracker);
            }
        }
        if waits == Waits::Asked {
            spool.finish().await?;
        }
        let (mut response, spooled) = (head(request, coding), spool.so_far());
        tell_page(request, &streaming.stream, response.headers_mut());
        tell_digest(response.headers_mut(), streaming.content_digest().as_deref());
        tell_if_empty(response.headers_mut(), spooled.left());
        Ok(response.map(|()| match spooled.in_memory() {
            Some(bytes) => Answer::Whole(bytes),
            None => Answer::File(Box::new(spooled)),
        }))
    }
}

/// Says of a page that is streamed that its head cannot know what follows it.
pub(super) fn tell_streamed(request: &StreamRequest<'_>, response: &mut Response<()>) {
    if request.page.is_some() && request.followed != Followed::Continuously {
        response.headers_mut().insert(PAGE, STREAMED);
    }
}
