//! The database role for a request's statements, chosen by its credentials.

use rowstream_core::Error;
use rowstream_core::error::Reason;
use rowstream_core::error::denial::Denial;
use rowstream_core::params;
use rowstream_core::settings::Roles;
use serde_json::{Value as Json, json};

use super::Credentials;
use crate::database::Actor;

impl Credentials {
    /// The role that the token names, or that of clients without a token.
    ///
    /// # Errors
    /// 401: the credentials aren't valid, or are required and missing. 403: the token names a role
    /// that it may not have.
    pub(crate) fn actor(&self, roles: &Roles) -> Result<Actor, Error> {
        let claims = self.claims().map(|claims| &claims.all);
        match claims.and_then(|claims| Some((claims, params::claim_at(claims, &roles.claim)?))) {
            Some((claims, Json::String(role))) if roles.allows(role) => {
                Actor::new(role, &Json::Object(claims.clone()).to_string()).ok_or_else(no_role)
            }
            Some(_) => Err(no_role()),
            None => self.anonymous(roles),
        }
    }

    /// Turns the database's refusal of a role into a refusal of the client: 401 if other
    /// credentials may help, otherwise 403.
    pub(crate) fn refused_as_role(&self, error: Error) -> Error {
        match (error.reason(), self) {
            (Some(Reason::Privilege), Self::None) => error.denied_by_database(Denial::Missing),
            (Some(Reason::Privilege), _) => error.denied_by_database(Denial::Role),
            _ => error,
        }
    }

    /// Credentials that aren't valid don't make a client anonymous.
    fn anonymous(&self, roles: &Roles) -> Result<Actor, Error> {
        if !matches!(self, Self::None) {
            self.authorize(&crate::endpoint::Authorization::Authenticated)?;
        }
        let Some(role) = &roles.anonymous else {
            self.authorize(&crate::endpoint::Authorization::Authenticated)?;
            return Err(Error::denied(Denial::Claim, format!("the token has no claim `{}`", roles.claim)));
        };
        let mut claims = self.claims().map(|claims| claims.all.clone()).unwrap_or_default();
        claims.insert("role".to_owned(), json!(role));
        Actor::new(role, &Json::Object(claims).to_string()).ok_or_else(no_role)
    }
}

fn no_role() -> Error {
    Error::denied(Denial::Forbidden, "the token's role may not use this endpoint")
}
