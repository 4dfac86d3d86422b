//! Proofs that a response is complete: the number of its rows, and the digest of its bytes (RFC 9530).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

const STATUS: HeaderName = HeaderName::from_static("rowstream-status");
const ROWS: HeaderName = HeaderName::from_static("rowstream-rows");
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");

/// The trailers of a response (RFC 9110, section 6.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trailers {
    None,
    /// The status and the number of rows.
    Status,
    /// And the digest.
    StatusAndDigest,
}

impl Trailers {
    /// `Trailer`: the names of the fields. HTTP/1.1 doesn't send fields that aren't named here.
    pub(super) fn announcement(self) -> Option<HeaderValue> {
        match self {
            Self::None => None,
            Self::Status => Some(HeaderValue::from_static("rowstream-status, rowstream-rows")),
            Self::StatusAndDigest => {
                Some(HeaderValue::from_static("rowstream-status, rowstream-rows, content-digest"))
            }
        }
    }

    /// The fields after a complete body.
    pub(super) fn fields(rows: u64, digest: Option<&str>) -> HeaderMap {
        let mut fields = HeaderMap::new();
        fields.insert(STATUS, HeaderValue::from_static("complete"));
        fields.insert(ROWS, rows.into());
        if let Some(digest) = digest.and_then(|digest| HeaderValue::from_str(digest).ok()) {
            fields.insert(CONTENT_DIGEST, digest);
        }
        fields
    }
}

/// The digest of a body in chunks.
#[derive(Debug, Default)]
pub(super) struct ChunkDigest {
    hash: Sha256,
    /// The number of bytes of the open chunk that are in the hash.
    hashed: usize,
}

impl ChunkDigest {
    /// The digest of all bytes up to the end of the open chunk.
    pub(super) fn up_to(&mut self, chunk: &[u8]) -> String {
        self.hash.update(chunk.get(self.hashed..).unwrap_or_default());
        self.hashed = chunk.len();
        format!("sha-256=:{}:", BASE64_STANDARD.encode(self.hash.clone().finalize()))
    }

    /// Ends the open chunk.
    pub(super) fn close(&mut self, chunk: &[u8]) {
        self.hash.update(chunk.get(self.hashed..).unwrap_or_default());
        self.hashed = 0;
    }
}
