//! Digests (RFC 9530): SHA-256, computed only if a request or a body template asks for it, because
//! it reads all bytes once more.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName};
use rowstream_core::params::completeness::DigestAlgorithm;
use rowstream_encode::Choice;
use sha2::{Digest as _, Sha256};

/// The digest of the content as it was sent, after its coding.
pub(crate) const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// Asks for it.
pub(crate) const WANT_CONTENT_DIGEST: HeaderName = HeaderName::from_static("want-content-digest");

/// True if a request's headers ask for a digest that we have. A stronger preference for another one
/// (`sha-512=10`) doesn't matter, because preferences needn't be met exactly.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(WANT_CONTENT_DIGEST).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|item| {
        let (name, weight) = item.trim().split_once('=').unwrap_or_default();
        // The weight 0 forbids an algorithm.
        name == DigestAlgorithm::Sha256.name()
            && weight.parse().is_ok_and(|weight: u8| (1..=10).contains(&weight))
    })
}

/// A digest that is updated with bytes as they arrive.
#[derive(Debug, Clone, Default)]
pub(crate) struct Digest(Sha256);

impl Digest {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes so far, in the form of the header: `sha-256=:…:`.
    pub(crate) fn text(&self) -> String {
        let hash = BASE64_STANDARD.encode(self.0.clone().finalize());
        format!("{}=:{hash}:", DigestAlgorithm::Sha256.name())
    }

    /// The digest of a complete body.
    pub(crate) fn of(bytes: &[u8]) -> String {
        let mut digest = Self::default();
        digest.update(bytes);
        digest.text()
    }
}

/// The digest of a body that is sent in chunks: of the chunks that were taken, and of the open one
/// so far.
#[derive(Debug, Default)]
pub(crate) struct ChunkDigest {
    digest: Digest,
    /// How many bytes of the open chunk are in the digest.
    taken: usize,
}

impl ChunkDigest {
    /// The digest of all bytes up to the end of the open chunk.
    pub(crate) fn up_to(&mut self, open: &[u8]) -> String {
        self.digest.update(open.get(self.taken..).unwrap_or_default());
        self.taken = open.len();
        self.digest.text()
    }

    /// The digest of the chunks that were taken, once the last one is.
    pub(crate) fn of_closed(&self) -> String {
        self.digest.text()
    }

    /// Ends the open chunk, which is then taken.
    pub(crate) fn close(&mut self, chunk: &[u8]) {
        self.digest.update(chunk.get(self.taken..).unwrap_or_default());
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// FIPS 180-4's own example.
    const OF_ABC: &str = "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:";

    #[test]
    fn writes_what_the_standard_says() {
        assert_eq!(Digest::of(b"abc"), OF_ABC);
    }

    #[test]
    fn chunks_are_taken_once() {
        let mut digest = ChunkDigest::default();
        digest.close(b"a");
        digest.up_to(b"b");
        assert_eq!(digest.up_to(b"bc"), OF_ABC);
        digest.close(b"bcd");
        assert_eq!(digest.up_to(b""), Digest::of(b"abcd"));
        assert_eq!(digest.of_closed(), Digest::of(b"abcd"));
    }

    #[test]
    fn wishes() {
        for (lines, wanted) in [
            (&["sha-256=1"][..], true),
            (&["sha-512=3, sha-256=10, unixsum=0"], true),
            (&["sha-512=3", "sha-256=5"], true),
            (&["sha-256=0"], false),
            (&["sha-256=11"], false),
            (&["sha-256"], false),
            (&["sha-512=10"], false),
            (&[""], false),
            (&[], false),
        ] {
            let headers =
                lines.iter().map(|line| (WANT_CONTENT_DIGEST, HeaderValue::from_static(line))).collect();
            assert_eq!(is_wanted(&headers), wanted, "{lines:?}");
        }
    }
}
