//! The proof that nothing of a response is missing.

use std::fmt;

/// The need for a digest. Each request asks for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestNeed {
    /// The URL asks for it, so a response without one proves nothing.
    Required,
    /// A server, or a proxy that drops the request's header, may leave it out.
    Optional,
}

/// The proofs, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Proof {
    LastChunk,
    LastEvent,
    Length,
    Format,
    StreamState,
    Trailers,
    EndRecord,
    Digest,
    EndRecordAndDigest,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LastChunk => "HTTP's last chunk only",
            Self::LastEvent => "its last event",
            Self::Length => "its length",
            Self::Format => "the end of its format",
            Self::StreamState => "the server's state of the stream",
            Self::Trailers => "its trailers",
            Self::EndRecord => "its end record",
            Self::Digest => "its digest",
            Self::EndRecordAndDigest => "its end record and digest",
        })
    }
}
