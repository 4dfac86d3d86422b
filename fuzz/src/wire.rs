//! The framing of PostgreSQL's messages: messages in arbitrary pieces equal those of a simple
//! parser, and nothing beyond a limit is buffered.

use arbitrary::{Arbitrary, Result, Unstructured};
use rowstream_postgres::fuzzing::{Message, messages};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// The output of a server, in pieces.
pub fn postgres_wire(data: &[u8]) {
    let _ = connection(&mut Unstructured::new(data));
}

/// A part of a server's output.
#[derive(Debug, Arbitrary)]
enum Sent<'a> {
    /// A message with any contents.
    Message { tag: u8, body: &'a [u8] },
    /// A message of a kind that we parse.
    Known { tag: Tag, body: &'a [u8] },
    /// A message that may be longer than a buffer.
    Long { tag: u8, length: u16, byte: u8 },
    /// Bytes that needn't be messages.
    Raw(&'a [u8]),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Tag {
    Authentication,
    ErrorResponse,
    RowDescription,
    ParameterDescription,
    CommandComplete,
    NoticeResponse,
    ReadyForQuery,
}

impl Tag {
    fn byte(self) -> u8 {
        match self {
            Self::Authentication => b'R',
            Self::ErrorResponse => b'E',
            Self::RowDescription => b'T',
            Self::ParameterDescription => b't',
            Self::CommandComplete => b'C',
            Self::NoticeResponse => b'N',
            Self::ReadyForQuery => b'Z',
        }
    }
}

impl Sent<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Message { tag, body } => write_message(tag, body, out),
            Self::Known { tag, body } => write_message(tag.byte(), body, out),
            Self::Long { tag, length, byte } => write_message(tag, &vec![byte; 2 * usize::from(length)], out),
            Self::Raw(bytes) => out.extend_from_slice(bytes),
        }
    }
}

fn write_message(tag: u8, body: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
}

fn connection(u: &mut Unstructured<'_>) -> Result<()> {
    let limit = *u.choose(&[100, 40_000, 100_000, 1 << 20])?;
    let mut step = usize::from(u.arbitrary::<u16>()?);
    let mut bytes = Vec::new();
    while !u.is_empty() && bytes.len() < 400_000 {
        u.arbitrary::<Sent<'_>>()?.write(&mut bytes);
    }
    // Thousands of pieces of a long message find no more bugs than hundreds.
    step = step.max(bytes.len() / 500).max(1);
    let (expected, end) = plainly_cut(&bytes, limit);
    let (read, error) = RUNTIME.with(|runtime| runtime.block_on(received(bytes, step, limit)));
    assert_eq!(read, expected);
    assert_eq!(error.code(), end, "{error}");
    Ok(())
}

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
}

/// The messages that we read if a server sends `bytes` in pieces and closes the connection.
async fn received(bytes: Vec<u8>, step: usize, limit: usize) -> (Vec<Message>, rowstream_core::Error) {
    let (server, client) = UnixStream::pair().expect("a pair of sockets can be made");
    let sending = tokio::spawn(async move {
        let mut server = server;
        for piece in bytes.chunks(step) {
            // Writing fails after the reader's first error.
            if server.write_all(piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    let received = messages(client, limit).await;
    sending.await.expect("the sender does not panic");
    received
}

/// The messages, and the code of the error after them.
fn plainly_cut(mut bytes: &[u8], limit: usize) -> (Vec<Message>, &'static str) {
    let mut messages = Vec::new();
    while let [tag, a, b, c, d, rest @ ..] = bytes {
        let length = u64::from(u32::from_be_bytes([*a, *b, *c, *d]));
        if length < 4 {
            return (messages, "source_protocol");
        }
        if length + 1 > limit as u64 {
            return (messages, if *tag == b'D' { "row_too_large" } else { "source_protocol" });
        }
        let Some((body, after)) = rest.split_at_checked(length as usize - 4) else { break };
        messages.push(Message { tag: *tag, body: body.to_vec() });
        bytes = after;
    }
    (messages, "source_unavailable")
}
