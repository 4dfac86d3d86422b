//! The clients that may call an endpoint.

use rowstream_core::diagnostic::reader::Value;
use rowstream_core::diagnostic::{File, suggest};
use rowstream_core::params::ParamPlace;

use super::{ClientIdentification, Defaults};
use crate::endpoint::{Authorization, Endpoint};

/// The authorization of an endpoint, from its file or the defaults.
pub(super) fn of_endpoint(
    file: File<'_>,
    value: Option<Value<'_>>,
    defaults: &Defaults<'_>,
) -> Authorization {
    match (value, &defaults.authorization) {
        (Some(value), _) => authorization(&value, defaults.identification).unwrap_or(Authorization::Public),
        (None, Some(default)) => default.clone(),
        (None, None) => {
            let hint = "because tokens are configured, write `authorization = \"public\"` or a list of token \
                names, here or in the configuration file for all endpoints";
            file.error(0, "this endpoint does not say who may call it", Some(hint.to_owned()));
            Authorization::Public
        }
    }
}

/// Checks that claims are used only if clients must show a JSON Web Token.
pub(super) fn check_claims(file: File<'_>, endpoint: &Endpoint, identification: &ClientIdentification) {
    let Some(claim) = endpoint.params.iter().find(|param| param.place == ParamPlace::Claim) else { return };
    let (message, hint) = match (identification.has_claims, &endpoint.authorization) {
        (true, Authorization::Tokens(_) | Authorization::Authenticated) => return,
        (true, Authorization::Public) => (
            format!("`:{}` is read from a token, but this endpoint is public", claim.name),
            "write `authorization = \"authenticated\"`, or a list of names",
        ),
        (false, _) => (
            format!("`:{}` is read from a JSON Web Token, but this server has no `[jwt]`", claim.name),
            "add `[jwt]` to the configuration file",
        ),
    };
    file.error(0, message, Some(hint.to_owned()));
}

/// Reads `"public"`, or a list of token names.
pub(crate) fn authorization(
    value: &Value<'_>,
    identification: &ClientIdentification,
) -> Option<Authorization> {
    const HINT: &str = "write \"public\", or a list of token names";
    if value.is_string() {
        let text = value.string()?;
        match text.as_str() {
            "public" => return Some(Authorization::Public),
            "authenticated" if identification.asks => return Some(Authorization::Authenticated),
            _ => value.error_with(format!("`authorization` cannot be {}", value.shown(&text)), HINT),
        }
        return None;
    }
    let names = value.strings()?;
    if names.is_empty() {
        value.error_with("`authorization` is empty", HINT);
    }
    for (name, value) in &names {
        if !identification.scopes.contains(name) {
            let hint = suggest("the tokens are", name, identification.scopes.iter().map(String::as_str));
            value.error_with(format!("{} is not the name of a token", value.shown(name)), hint);
        }
    }
    Some(Authorization::Tokens(names.into_iter().map(|(name, _)| name).collect()))
}
