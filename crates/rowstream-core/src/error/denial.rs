//! Why a request may not have what it asks for, by what it shows of who it is from.

use http::StatusCode;

use super::Error;

/// A reason, as `rowstream_denied_total` counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
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
    /// The database refuses the statement to the role that it has.
    Role,
}

impl Denial {
    /// Each of them, in order.
    pub const ALL: [Self; 6] =
        [Self::Missing, Self::Invalid, Self::Expired, Self::Forbidden, Self::Claim, Self::Role];

    /// The label of the metric.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::Expired => "expired",
            Self::Forbidden => "forbidden",
            Self::Claim => "claim",
            Self::Role => "role",
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Missing | Self::Invalid => "unauthorized",
            Self::Expired => "token_expired",
            Self::Forbidden => "forbidden",
            Self::Claim => "claim_missing",
            Self::Role => "role_forbidden",
        }
    }

    /// The status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Missing | Self::Invalid | Self::Expired => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::Claim | Self::Role => StatusCode::FORBIDDEN,
        }
    }

    /// What `WWW-Authenticate` says of bearer tokens (RFC 6750, section 3). Who has shown nothing
    /// learns of no error.
    pub fn challenge(self) -> &'static str {
        match self {
            Self::Missing => "Bearer realm=\"rowstream\"",
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
    /// The request may not have what it asks for: 401, where other credentials would help it, or
    /// 403.
    pub fn denied(denial: Denial, message: impl Into<String>) -> Self {
        let mut error = Self::new(denial.code(), denial.status(), message);
        error.0.denial = Some(denial);
        error
    }

    /// The database refused it to the role of a request, which may not have what it asks for.
    #[must_use]
    pub fn denied_by_database(mut self, denial: Denial) -> Self {
        self.0.code = denial.code();
        self.0.status = denial.status();
        self.0.denial = Some(denial);
        self
    }

    /// Why the request was denied, if that is what went wrong.
    pub fn denial(&self) -> Option<Denial> {
        self.0.denial
    }
}
