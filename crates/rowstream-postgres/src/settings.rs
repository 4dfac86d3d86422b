//! The settings of a source that not every database has.

use rowstream_core::diagnostic::reader::{Value, set};
use rowstream_core::settings::{Pooler, Roles, SourceSettings};
use rowstream_database::{Elsewhere, OwnSetting, SourceContext, password_command};

/// In the order in which they're read: roles need `role_claim`.
pub(super) const OWN: &[OwnSetting] = &[
    password_command::SETTING,
    OwnSetting {
        name: "pooler",
        read: |value, _, settings| set(&mut settings.pooler, read_pooler(value)),
        elsewhere: Elsewhere::IgnoredIfChosen,
        hint: "leave it out",
    },
    OwnSetting {
        name: "max_lag",
        read: |value, _, settings| settings.max_lag = value.duration(),
        elsewhere: Elsewhere::Refused,
        hint: "leave it out; we don't know the lag of other databases, so it couldn't keep them from being read",
    },
    role("role_claim", read_claim),
    role("anonymous_role", |value, _, settings| {
        with_roles(value, settings, |roles| roles.anonymous = value.string());
    }),
    role("roles", |value, _, settings| {
        with_roles(value, settings, |roles| {
            roles.allowed = value.strings().unwrap_or_default().into_iter().map(|(role, _)| role).collect();
        });
    }),
];

/// A setting of the database roles of requests, by their tokens.
const fn role(
    name: &'static str,
    read: fn(&Value<'_>, &SourceContext<'_>, &mut SourceSettings),
) -> OwnSetting {
    OwnSetting { name, read, elsewhere: Elsewhere::Refused, hint: "leave it out, or filter by `:jwt.sub`" }
}

fn read_claim(value: &Value<'_>, context: &SourceContext<'_>, settings: &mut SourceSettings) {
    if !context.has_claims {
        value.error_with(
            "without `[jwt]`, no request has a claim that names its role",
            "add `[jwt]` with `issuer` and `audience`",
        );
    }
    let claim = value.string().unwrap_or_default();
    settings.roles = Some(Roles { claim, anonymous: None, allowed: Vec::new() });
}

fn with_roles(value: &Value<'_>, settings: &mut SourceSettings, change: impl FnOnce(&mut Roles)) {
    match &mut settings.roles {
        Some(roles) => change(roles),
        None => value.error_with("this needs `role_claim`", "write `role_claim = \"role\"` beside it"),
    }
}

fn read_pooler(value: &Value<'_>) -> Option<Pooler> {
    let text = value.string()?;
    match text.as_str() {
        "transaction" => Some(Pooler::Transaction),
        "session" => Some(Pooler::Session),
        _ => {
            let message = format!("{} isn't a mode of a pooler", value.shown(&text));
            value.error_with(message, r#"write "transaction" or "session", or leave it out"#);
            None
        }
    }
}
