//! HTTP/1.1, with as little as possible between the socket and the counters. A thread has one large
//! buffer, and passes bodies on in the pieces that the kernel returned.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::chunked::ChunkDecoder;
use super::connection::{Trouble, Wire, timed_out};
use super::reply::{Failure, FailureKind, Framing, Reply, RowFields, TAG};
use super::throttle::Throttle;

/// The largest response head; larger ones are refused.
const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// A connection, between requests or during one.
pub(super) struct Http1 {
    stream: TcpStream,
    throttle: Throttle,
    /// It has carried a request, so the server can close it at any time.
    used: bool,
    /// It can carry another request.
    pub(super) reusable: bool,
}

impl Http1 {
    pub(super) fn new(stream: TcpStream, throttle: Throttle) -> Self {
        Self { stream, throttle, used: false, reusable: false }
    }

    /// Sends a request and reads its response.
    pub(super) async fn exchange(
        &mut self,
        path: &str,
        wire: &Wire,
        reply: &mut Reply<'_>,
    ) -> Result<Framing, Trouble> {
        let used = std::mem::replace(&mut self.used, true);
        self.reusable = false;
        let ended = self.send_and_read(path, wire, reply).await;
        ended.map_err(|failure| match failure.kind {
            // The server closed it while it was idle, so this request didn't fail.
            FailureKind::Cut if used && reply.first_byte.is_none() => Trouble::Stale,
            _ => Trouble::Failed(failure),
        })
    }

    async fn send_and_read(
        &mut self,
        path: &str,
        wire: &Wire,
        reply: &mut Reply<'_>,
    ) -> Result<Framing, Failure> {
        let request = wire.headers.http1(path);
        let sent = timeout(wire.timeout, self.stream.write_all(&request)).await;
        sent.map_err(|_| timed_out(wire.timeout))?.map_err(|error| cut(&error))?;
        let mut decoder = Decoder::default();
        loop {
            let limit = self.throttle.allowance().await;
            let read = timeout(wire.timeout, self.read(limit, wire, &mut decoder, reply)).await;
            match read.map_err(|_| timed_out(wire.timeout))?? {
                0 => return decoder.closed(),
                read => self.throttle.took(read),
            }
            if decoder.ended() {
                self.reusable = decoder.keep_alive;
                return Ok(Framing::Marked);
            }
        }
    }

    /// Reads once and passes the bytes on. It borrows the thread's buffer only until then, so all
    /// connections of a thread can share it.
    async fn read(
        &mut self,
        limit: usize,
        wire: &Wire,
        decoder: &mut Decoder,
        reply: &mut Reply<'_>,
    ) -> Result<usize, Failure> {
        poll_fn(|cx| {
            let mut buffer = wire.buffer.borrow_mut();
            let length = buffer.len().min(limit);
            let mut part = ReadBuf::new(&mut buffer[..length]);
            if let Err(error) = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part)) {
                return Poll::Ready(Err(cut(&error)));
            }
            let bytes = part.filled();
            Poll::Ready(decoder.feed(bytes, reply).map(|()| bytes.len()))
        })
        .await
    }
}

fn cut(error: &std::io::Error) -> Failure {
    let detail = match error.kind() {
        ErrorKind::ConnectionReset => "the connection was reset".to_owned(),
        _ => error.to_string(),
    };
    Failure::new(FailureKind::Cut, detail)
}

fn protocol(detail: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Protocol, detail)
}

/// Reads one response from arbitrary slices.
#[derive(Default)]
struct Decoder {
    /// The start of a head that didn't arrive in one piece.
    head: Vec<u8>,
    state: State,
    keep_alive: bool,
}

#[derive(Default)]
enum State {
    #[default]
    Head,
    /// This many bytes of the body are missing.
    Length(u64),
    Chunks(ChunkDecoder),
    UntilClose,
    End,
}

impl Decoder {
    fn ended(&self) -> bool {
        matches!(self.state, State::End)
    }

    fn feed(&mut self, bytes: &[u8], reply: &mut Reply<'_>) -> Result<(), Failure> {
        if bytes.is_empty() {
            return Ok(());
        }
        reply.arrived();
        match self.state {
            State::Head => self.head(bytes, reply),
            _ => self.body(bytes, reply),
        }
    }

    /// Handles that the server closed the connection.
    fn closed(&self) -> Result<Framing, Failure> {
        match &self.state {
            State::UntilClose => Ok(Framing::Closed),
            State::Length(left) => {
                let detail = format!("the connection closed, {left} bytes before the promised end");
                Err(Failure::new(FailureKind::Cut, detail))
            }
            State::Head => {
                Err(Failure::new(FailureKind::Cut, "the connection closed before the head was whole"))
            }
            _ => Err(Failure::new(FailureKind::Cut, "the connection closed before the last chunk")),
        }
    }

    fn head(&mut self, bytes: &[u8], reply: &mut Reply<'_>) -> Result<(), Failure> {
        let before = self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(MAX_HEAD)]);
        let head = std::mem::take(&mut self.head);
        match self.parse_head(&head, reply)? {
            // An incomplete head ends in these bytes.
            Some(length) => self.feed(&bytes[length.saturating_sub(before)..], reply),
            None if head.len() >= MAX_HEAD => Err(protocol("the head is larger than 64 KiB")),
            None => {
                self.head = head;
                Ok(())
            }
        }
    }

    /// The length of the head if it's complete.
    fn parse_head(&mut self, bytes: &[u8], reply: &mut Reply<'_>) -> Result<Option<usize>, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut head = httparse::Response::new(&mut headers);
        let parsed = head.parse(bytes).map_err(|error| protocol(format!("the head is not HTTP: {error}")))?;
        let httparse::Status::Complete(length) = parsed else { return Ok(None) };
        let status = head.code.unwrap_or_default();
        if status >= 200 {
            let fields = Fields::read(head.headers)?;
            reply.head(status, &fields.rows);
            self.keep_alive = match head.version {
                Some(1) => !fields.close,
                _ => fields.keep_alive,
            };
            self.state = fields.framing(status);
        }
        Ok(Some(length))
    }

    fn body(&mut self, mut bytes: &[u8], reply: &mut Reply<'_>) -> Result<(), Failure> {
        match &mut self.state {
            State::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                let (data, rest) = bytes.split_at(length);
                reply.body(data);
                *left -= length as u64;
                bytes = rest;
                if *left == 0 {
                    self.state = State::End;
                }
            }
            State::Chunks(chunked) => {
                let malformed = |_| protocol("the body is not in the chunked coding");
                while let Some(data) = chunked.next(&mut bytes).map_err(malformed)? {
                    reply.body(data);
                }
                if chunked.ended() {
                    self.state = State::End;
                }
            }
            State::UntilClose => {
                reply.body(bytes);
                bytes = &[];
            }
            State::Head | State::End => {}
        }
        match bytes.len() {
            0 => Ok(()),
            left => Err(protocol(format!("{left} bytes follow the end of the response"))),
        }
    }
}

/// The header fields that decide how a response is read.
#[derive(Default)]
struct Fields<'a> {
    rows: RowFields<'a>,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl<'a> Fields<'a> {
    fn read(headers: &[httparse::Header<'a>]) -> Result<Self, Failure> {
        let mut fields = Self::default();
        for header in headers {
            let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
            let name = header.name;
            if name.eq_ignore_ascii_case("content-type") {
                fields.rows.content_type = value;
            } else if name.eq_ignore_ascii_case("content-encoding") {
                fields.rows.content_encoding = value;
            } else if name.eq_ignore_ascii_case(TAG) {
                fields.rows.tag = value;
            } else if name.eq_ignore_ascii_case("content-length") {
                fields.set_length(value)?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                fields.chunked = has_token(value, "chunked");
            } else if name.eq_ignore_ascii_case("connection") {
                fields.close |= has_token(value, "close");
                fields.keep_alive |= has_token(value, "keep-alive");
            }
        }
        Ok(fields)
    }

    fn set_length(&mut self, value: &str) -> Result<(), Failure> {
        let digits = value.bytes().all(|byte| byte.is_ascii_digit());
        let length = value.parse().ok().filter(|_| digits);
        let length = length.ok_or_else(|| protocol(format!("`{value}` is no Content-Length")))?;
        match self.length.replace(length) {
            Some(other) if other != length => Err(protocol("two Content-Lengths")),
            _ => Ok(()),
        }
    }

    /// Decides how the body of a response to a GET ends (RFC 9112, 6.3).
    fn framing(&self, status: u16) -> State {
        match self.length {
            _ if matches!(status, 204 | 304) => State::End,
            _ if self.chunked => State::Chunks(ChunkDecoder::default()),
            Some(0) => State::End,
            Some(length) => State::Length(length),
            None => State::UntilClose,
        }
    }
}

fn has_token(list: &str, token: &str) -> bool {
    list.split(',').any(|entry| entry.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::reply::LiveCounts;
    use super::*;

    /// The status, the bytes of the body, and how it ended once the connection closed.
    fn read(pieces: &[&[u8]]) -> (Option<u16>, u64, Result<Framing, FailureKind>) {
        let live = LiveCounts::default();
        let (mut decoder, mut reply) = (Decoder::default(), Reply::new(&live));
        let fed = pieces.iter().try_for_each(|piece| decoder.feed(piece, &mut reply));
        let ended = match fed {
            Ok(()) if decoder.ended() => Ok(Framing::Marked),
            Ok(()) => decoder.closed(),
            Err(failure) => Err(failure),
        };
        (reply.status, reply.bytes, ended.map_err(|failure| failure.kind))
    }

    const RESPONSES: [(&str, u16, u64, Result<Framing, FailureKind>); 12] = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, 3, Ok(Framing::Marked)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", 200, 2, Err(FailureKind::Cut)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", 200, 3, Err(FailureKind::Protocol)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, 0, Ok(Framing::Marked)),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, 0, Ok(Framing::Marked)),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\ncontent-length: 1\r\n\r\nx",
            404,
            1,
            Ok(Framing::Marked),
        ),
        ("HTTP/1.0 200 OK\r\n\r\nabc", 200, 3, Ok(Framing::Closed)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            200,
            3,
            Ok(Framing::Marked),
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 200, 3, Err(FailureKind::Cut)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nx",
            200,
            3,
            Err(FailureKind::Protocol),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
            200,
            3,
            Err(FailureKind::Protocol),
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Enc", 0, 0, Err(FailureKind::Cut)),
    ];

    proptest! {
        #[test]
        fn any_cut_gives_the_same(size in 1_usize..90, which in 0..RESPONSES.len()) {
            let (text, status, bytes, ended) = RESPONSES[which];
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(read(&pieces), (Some(status).filter(|status| *status > 0), bytes, ended));
        }
    }

    #[test]
    fn heads_that_are_none() {
        for text in [
            "SSH-2.0\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            &format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(MAX_HEAD)),
        ] {
            assert_eq!(read(&[text.as_bytes()]).2, Err(FailureKind::Protocol), "{text:.60}");
        }
    }
}
