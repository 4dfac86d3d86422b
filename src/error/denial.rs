//! Why a request may not have what it asks for, by what it shows of who it is from.

use http::StatusCode;

use super::Error;

/// A reason, as `rowstream_denied_total` counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// It shows nothing.
    Missing,
    /// It shows what nobody has.
    Invalid,
    /// What it shows was valid once.
    Expired,
    /// It is known who asks, and that is not enough.
    Forbidden,
    /// What it shows does not say what its endpoint needs.
    Claim,
}

impl Denial {
    /// Each of them, in order.
    pub(crate) const ALL: [Self; 5] =
        [Self::Missing, Self::Invalid, Self::Expired, Self::Forbidden, Self::Claim];

    /// The label of the metric.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::Expired => "expired",
            Self::Forbidden => "forbidden",
            Self::Claim => "claim",
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Missing | Self::Invalid => "unauthorized",
            Self::Expired => "token_expired",
            Self::Forbidden => "forbidden",
            Self::Claim => "claim_missing",
        }
    }

    /// The status of the answer.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Missing | Self::Invalid | Self::Expired => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::Claim => StatusCode::FORBIDDEN,
        }
    }

    /// What `WWW-Authenticate` says of bearer tokens (RFC 6750, section 3). Who has shown nothing
    /// learns of no error.
    pub(crate) fn challenge(self) -> &'static str {
        match self {
            Self::Missing => "Bearer realm=\"rowstream\"",
            Self::Invalid => "Bearer realm=\"rowstream\", error=\"invalid_token\"",
            Self::Expired => {
                "Bearer realm=\"rowstream\", error=\"invalid_token\", error_description=\"the token has expired\""
            }
            Self::Forbidden | Self::Claim => "Bearer realm=\"rowstream\", error=\"insufficient_scope\"",
        }
    }
}

impl Error {
    /// The request may not have what it asks for: 401, where other credentials would help it, or
    /// 403.
    pub(crate) fn denied(denial: Denial, message: impl Into<String>) -> Self {
        let mut error = Self::new(denial.code(), denial.status(), message);
        error.0.denial = Some(denial);
        error
    }

    /// Why the request was denied, if that is what went wrong.
    pub(crate) fn denial(&self) -> Option<Denial> {
        self.0.denial
    }
}
