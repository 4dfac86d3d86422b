//! The chunk that a stream fills, and the size at which it's full.

use std::mem;
use std::time::Duration;

use bytes::Bytes;

use crate::budget::CHUNK;
use crate::completeness::digest::ChunkDigest;

/// The first chunk is full earlier, because the client's first byte matters more than one write.
pub(super) const FIRST_CHUNK: usize = 4 * 1024;
/// The size of a full chunk until we know that the client keeps up. Hundreds of clients may not,
/// and each of their streams has one or two chunks in memory for most of its time.
const SMALL_CHUNK: usize = 8 * 1024;
/// A client keeps up once it has read this much without a pause: more than the buffers of the
/// sockets.
const FLOWING_AFTER: usize = 512 * 1024;
/// A client that leaves a chunk unread for this long is slow. A fast client on a busy machine takes
/// a few time slices.
const SLOW_AFTER: Duration = Duration::from_millis(50);

/// The state of the headers: they wait for a row, or they may be sent and chunks have a full size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeaderState {
    /// No chunk is full or flushed. So an error before the first row has a real status, even if the
    /// body begins with literals, and even if the database is slow. The rows of `:one` and `:value`
    /// don't count, because a second row would be an error.
    Held,
    /// The headers may be sent, and a chunk with this many bytes is full.
    Sent(usize),
}

/// The open chunk of a stream.
pub(super) struct OpenChunk {
    pub(super) bytes: Vec<u8>,
    head: HeaderState,
    /// Bytes since the start, or since the client was last slow.
    flowing: usize,
    /// The last byte of the chunk before it.
    previous: Option<u8>,
    digest: Option<Box<ChunkDigest>>,
}

impl OpenChunk {
    /// The first chunk, with room for `capacity` bytes. The digest covers it if `has_digest`.
    pub(super) fn first(capacity: usize, has_digest: bool) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
            head: HeaderState::Held,
            flowing: 0,
            previous: None,
            digest: has_digest.then(Box::default),
        }
    }

    /// Computes a digest of all chunks, or none. Only before the first byte.
    pub(super) fn set_digest(&mut self, has_digest: bool) {
        self.digest = has_digest.then(Box::default);
    }

    /// True if the previous chunk was taken, and this one isn't allocated.
    pub(super) fn is_taken(&self) -> bool {
        self.bytes.capacity() == 0
    }

    /// Allocates the chunk, `waited` after the previous one.
    pub(super) fn begin(&mut self, waited: Duration) {
        if waited > SLOW_AFTER {
            self.flowing = 0;
        }
        let full = if self.keeps_up() { CHUNK } else { SMALL_CHUNK };
        self.head = HeaderState::Sent(full);
        // A row may exceed the limit. With this slack, most rows don't make the buffer grow.
        self.bytes.reserve(full + full / 8);
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        matches!(self.head, HeaderState::Sent(full) if self.bytes.len() >= full)
    }

    /// True if the headers still wait for a row.
    pub(super) fn holds_head(&self) -> bool {
        self.head == HeaderState::Held
    }

    /// Lets the headers be sent. Returns true if they had to wait until now.
    pub(super) fn send_head(&mut self) -> bool {
        let held = self.holds_head();
        if held {
            self.head = HeaderState::Sent(FIRST_CHUNK);
        }
        held
    }

    /// The chunk's bytes. The next one is empty.
    pub(super) fn take(&mut self) -> Bytes {
        self.flowing += self.bytes.len();
        self.previous = self.bytes.last().copied().or(self.previous);
        if let Some(digest) = &mut self.digest {
            digest.close(&self.bytes);
        }
        Bytes::from(mem::take(&mut self.bytes))
    }

    /// True if a chunk was taken.
    pub(super) fn has_previous(&self) -> bool {
        self.previous.is_some()
    }

    /// The last byte so far, in this chunk or the previous one.
    pub(super) fn last_byte(&self) -> Option<u8> {
        self.bytes.last().copied().or(self.previous)
    }

    /// True if we know that the client keeps up.
    pub(super) fn keeps_up(&self) -> bool {
        self.flowing >= FLOWING_AFTER
    }

    /// True if a digest is computed.
    pub(super) fn has_digest(&self) -> bool {
        self.digest.is_some()
    }

    /// The digest of all bytes that were taken. `None` if there's no digest.
    pub(super) fn taken_digest(&self) -> Option<String> {
        self.digest.as_ref().map(|digest| digest.of_closed())
    }

    /// The digest of all bytes so far. `None` if there's no digest.
    pub(super) fn digest(&mut self) -> Option<String> {
        self.digest.as_mut().map(|digest| digest.up_to(&self.bytes))
    }
}
