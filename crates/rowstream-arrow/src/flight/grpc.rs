//! Calls of gRPC over HTTP/2: how messages are framed, and how an answer ends.
//!
//! ```text
//! message = 0 (not compressed), length (u32, big-endian), bytes
//! ```
//!
//! An answer is complete if its last message is, and the status in its trailers is 0. Everything
//! else is a [`Failure`]. The stream's window limits how much the server can send before we read
//! it. The window opens again as we take bytes.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::ResponseFuture;
use http::{HeaderMap, Response, StatusCode};
use percent_encoding::percent_decode_str;

use super::error::{Failure, code};

/// The length of the prefix of a message.
const PREFIX: usize = 5;

/// Encodes a message with its prefix.
pub(super) fn framed(message: &impl prost::Message) -> Bytes {
    let length = message.encoded_len();
    let mut framed = Vec::with_capacity(PREFIX + length);
    framed.push(0);
    framed.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    framed.extend_from_slice(&message.encode_to_vec());
    framed.into()
}

/// The value of `grpc-timeout`: at most eight digits, and a unit.
pub(super) fn timeout_field(timeout: Duration) -> String {
    match timeout.as_millis() {
        millis @ 0..100_000_000 => format!("{millis}m"),
        _ => format!("{}S", timeout.as_secs().min(99_999_999)),
    }
}

/// A call, and the part of its answer that has arrived. If dropped, it resets its stream.
pub(super) struct Call {
    state: State,
    frames: Frames,
    /// The header fields of the answer.
    pub(super) fields: HeaderMap,
}

/// Received bytes that aren't a complete message yet.
pub(super) struct Frames {
    /// The beginning of a message.
    partial: BytesMut,
    /// The longest message that we accept.
    limit: usize,
}

enum State {
    Asked(ResponseFuture),
    Answered(RecvStream),
    Ended,
}

impl Call {
    pub(super) fn new(response: ResponseFuture, limit: usize) -> Self {
        Self { state: State::Asked(response), frames: Frames::new(limit), fields: HeaderMap::new() }
    }

    /// Returns true if the next message has arrived in part.
    pub(super) fn is_amid_message(&self) -> bool {
        !self.frames.partial.is_empty()
    }

    /// Polls for the next message. Returns `None` when the answer is complete. The caller has to
    /// drive the connection too.
    pub(super) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        loop {
            if let Some(message) = self.frames.message()? {
                return Poll::Ready(Ok(Some(message)));
            }
            match &mut self.state {
                State::Asked(response) => {
                    let answer =
                        ready!(std::pin::Pin::new(response).poll(cx)).map_err(|error| lost(&error))?;
                    self.answered(answer)?;
                }
                State::Answered(body) => match ready!(body.poll_data(cx)) {
                    Some(data) => {
                        let data = data.map_err(|error| lost(&error))?;
                        body.flow_control().release_capacity(data.len()).map_err(|error| lost(&error))?;
                        self.frames.push(&data);
                    }
                    None => {
                        let trailers = ready!(body.poll_trailers(cx)).map_err(|error| lost(&error))?;
                        self.ended(&trailers.unwrap_or_default())?;
                    }
                },
                State::Ended => return Poll::Ready(Ok(None)),
            }
        }
    }

    fn answered(&mut self, answer: Response<RecvStream>) -> Result<(), Failure> {
        let (head, body) = answer.into_parts();
        if head.status != StatusCode::OK {
            return Err(Failure::broken(format!("the answer has the status {} of HTTP", head.status)));
        }
        self.state = State::Answered(body);
        self.fields = head.headers;
        // An answer without messages can have its status here.
        match status(&self.fields) {
            Some(Err(failure)) => Err(failure),
            _ => Ok(()),
        }
    }

    fn ended(&mut self, trailers: &HeaderMap) -> Result<(), Failure> {
        let status = status(trailers).or_else(|| status(&self.fields));
        status.unwrap_or_else(|| Err(Failure::broken("an answer ended without a status")))?;
        if self.is_amid_message() {
            return Err(Failure::broken("an answer ended in the middle of a message"));
        }
        self.fields.extend(trailers.clone());
        self.state = State::Ended;
        Ok(())
    }
}

impl Frames {
    pub(super) fn new(limit: usize) -> Self {
        Self { partial: BytesMut::new(), limit }
    }

    /// Adds received bytes.
    pub(super) fn push(&mut self, data: &[u8]) {
        self.partial.extend_from_slice(data);
    }

    /// Takes the first message, if it's complete.
    pub(super) fn message(&mut self) -> Result<Option<Bytes>, Failure> {
        let Some((&[flag, ref length @ ..], _)) = self.partial.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if flag != 0 {
            return Err(Failure::broken("a message is compressed, although the request didn't allow that"));
        }
        if length > self.limit {
            return Err(Failure::TooLong(length as u64));
        }
        if self.partial.len() < PREFIX + length {
            // All at once, because growing by copies would hold the message twice. Untouched pages
            // cost nothing, so a false length is free.
            self.partial.reserve(PREFIX + length - self.partial.len());
            return Ok(None);
        }
        self.partial.advance(PREFIX);
        let message = self.partial.split_to(length).freeze();
        // Copied: otherwise these bytes would keep the whole message's memory.
        self.partial = BytesMut::from(&*self.partial);
        Ok(Some(message))
    }
}

/// Reads the status from header fields or trailers.
fn status(fields: &HeaderMap) -> Option<Result<(), Failure>> {
    let number = fields.get("grpc-status")?;
    Some(match number.to_str().ok().and_then(|number| number.parse().ok()) {
        Some(0) => Ok(()),
        Some(number) => Err(Failure::Status(number, message(fields))),
        None => Err(Failure::broken("the status of an answer isn't a number")),
    })
}

fn message(fields: &HeaderMap) -> String {
    let message = fields.get("grpc-message").map_or(&b""[..], |message| message.as_bytes());
    percent_decode_str(&String::from_utf8_lossy(message)).decode_utf8_lossy().into_owned()
}

/// Maps the HTTP/2 code of a reset stream: servers use it to cancel or refuse a call.
fn lost(error: &h2::Error) -> Failure {
    match error.reason() {
        Some(h2::Reason::CANCEL) if error.is_remote() => {
            Failure::Status(code::CANCELLED, "the server cancelled the call".to_owned())
        }
        _ => Failure::Lost(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_at_most_eight_digits() {
        for (timeout, expected) in [
            (Duration::from_millis(1500), "1500m"),
            (Duration::from_secs(99_999), "99999000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::MAX, "99999999S"),
        ] {
            assert_eq!(timeout_field(timeout), expected);
        }
    }

    #[test]
    fn a_status_is_read_with_its_message() {
        let mut fields = HeaderMap::new();
        assert_eq!(status(&fields), None);
        fields.insert("grpc-status", "3".parse().unwrap());
        fields.insert("grpc-message", "no%20table".parse().unwrap());
        assert_eq!(status(&fields), Some(Err(Failure::Status(3, "no table".to_owned()))));
        fields.insert("grpc-status", "0".parse().unwrap());
        assert_eq!(status(&fields), Some(Ok(())));
        fields.insert("grpc-status", "x".parse().unwrap());
        assert!(matches!(status(&fields), Some(Err(Failure::Broken(_)))));
    }
}
