//! The control parameters for proofs that a response is complete.

use rowstream_encode::Choice;

/// The control parameters that ask for a proof of completeness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Controls {
    /// `_end`.
    pub end: Option<End>,
    /// `_digest`.
    pub digest: Option<DigestAlgorithm>,
    /// `_wait`.
    pub wait: Option<AwaitedEvent>,
}

/// The choice of the framed profile, which adds records among the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// No records.
    Plain,
    /// Records, in formats that don't have an end of their own.
    Framed,
}

impl Choice for End {
    const ALL: &'static [Self] = &[Self::Plain, Self::Framed];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Framed => "1",
        }
    }
}

/// An event after the first chunk that the response's headers wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwaitedEvent {
    /// The end of the result.
    End,
}

impl Choice for AwaitedEvent {
    const ALL: &'static [Self] = &[Self::End];

    fn name(self) -> &'static str {
        match self {
            Self::End => "end",
        }
    }
}

/// The algorithm of a digest (RFC 9530).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// FIPS 180-4.
    Sha256,
}

impl Choice for DigestAlgorithm {
    const ALL: &'static [Self] = &[Self::Sha256];

    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha-256",
        }
    }
}
