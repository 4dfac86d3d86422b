//! The reasons to deny a request because of its credentials.

use http::StatusCode;

use super::Error;

/// A reason, as a label of `rowstream_denied_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// The request has no credentials.
    Missing,
    /// The credentials aren't valid.
    Invalid,
    /// The credentials have expired.
    Expired,
    /// The client is known, but it may not do this.
    Forbidden,
    /// The token lacks a claim that the endpoint needs.
    Claim,
    /// The database refuses the statement to the request's role.
    Role,
    /// The signature of the URL isn't valid, or has expired.
    Signature,
}

impl Denial {
    /// All reasons, in order.
    pub const ALL: [Self; 7] = [
        Self::Missing,
        Self::Invalid,
        Self::Expired,
        Self::Forbidden,
        Self::Claim,
        Self::Role,
        Self::Signature,
    ];

    /// The label of the metric.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::Expired => "expired",
            Self::Forbidden => "forbidden",
            Self::Claim => "claim",
            Self::Role => "role",
            Self::Signature => "signature",
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Missing | Self::Invalid => "unauthorized",
            Self::Expired => "token_expired",
            Self::Forbidden => "forbidden",
            Self::Claim => "claim_missing",
            Self::Role => "role_forbidden",
            Self::Signature => "invalid_signature",
        }
    }

    /// The status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Missing | Self::Invalid | Self::Expired => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::Claim | Self::Role | Self::Signature => StatusCode::FORBIDDEN,
        }
    }

    /// The challenge for bearer tokens in `WWW-Authenticate` (RFC 6750, section 3). It contains no
    /// error if the request had no token.
    pub fn challenge(self) -> &'static str {
        match self {
            Self::Missing | Self::Signature => "Bearer realm=\"rowstream\"",
            Self::Invalid => "Bearer realm=\"rowstream\", error=\"invalid_token\"",
            Self::Expired => {
                "Bearer realm=\"rowstream\", error=\"invalid_token\", error_description=\"the token has expired\""
            }
            Self::Forbidden | Self::Claim | Self::Role => {
                "Bearer realm=\"rowstream\", error=\"insufficient_scope\""
            }
        }
    }
}

impl Error {
    /// The request is denied: 401 if other credentials would help, otherwise 403.
    pub fn denied(denial: Denial, message: impl Into<String>) -> Self {
        let mut error = Self::new(denial.code(), denial.status(), message);
        error.0.denial = Some(denial);
        error
    }

    /// Turns a database's error into a denial, because the request's role lacks a privilege.
    #[must_use]
    pub fn denied_by_database(mut self, denial: Denial) -> Self {
        self.0.code = denial.code();
        self.0.status = denial.status();
        self.0.denial = Some(denial);
        self.0.retry_after = None;
        self
    }

    /// The reason of a denial; `None` for any other error.
    pub fn denial(&self) -> Option<Denial> {
        self.0.denial
    }
}
