//! `[admin]`: the clients that may call the admin endpoints.

use rowstream_core::diagnostic::reader::Value;
use rowstream_core::diagnostic::suggest;

use crate::endpoint::Authorization;
use crate::endpoint::read::{self as endpoint, ClientIdentification};

/// The clients that may call each of the admin endpoints. The pages that explain errors are open to
/// every client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminAccess {
    /// `live`.
    pub live: Authorization,
    /// `ready`.
    pub ready: Authorization,
    /// `metrics`.
    pub metrics: Authorization,
    /// `streams`. A client that may call an endpoint may also see how its streams ended.
    pub streams: Authorization,
    /// Stopping a stream.
    pub stop: Authorization,
    /// The checks of `rowstream doctor`.
    pub probe: Authorization,
    /// The plans of an endpoint's statements. The client must also be allowed to call the endpoint.
    pub explain: Authorization,
}

impl AdminAccess {
    /// Every client may call every endpoint.
    pub(super) const PUBLIC: Self = Self {
        live: Authorization::Public,
        ready: Authorization::Public,
        metrics: Authorization::Public,
        streams: Authorization::Public,
        stop: Authorization::Public,
        probe: Authorization::Public,
        explain: Authorization::Public,
    };
    /// Access for clients with this authorization. The probes stay open.
    pub(super) fn of(authorization: &Authorization) -> Self {
        let mut access = Self::PUBLIC;
        for (name, wanted) in access.each() {
            if !Self::OPEN.contains(&name) {
                wanted.clone_from(authorization);
            }
        }
        access
    }

    /// The probes. Their callers rarely have a token.
    const OPEN: [&str; 2] = ["live", "ready"];

    fn each(&mut self) -> [(&'static str, &mut Authorization); 7] {
        [
            ("live", &mut self.live),
            ("ready", &mut self.ready),
            ("metrics", &mut self.metrics),
            ("streams", &mut self.streams),
            ("stop", &mut self.stop),
            ("probe", &mut self.probe),
            ("explain", &mut self.explain),
        ]
    }
}

/// Reads `[admin]`. Without tokens and `[jwt]`, all admin endpoints are open. With them, an
/// endpoint is open only if `public` names it; by default that's `live` and `ready`. The other ones
/// need `authorization`; without it, no client may call them.
pub(super) fn read(value: Option<Value<'_>>, identification: &ClientIdentification) -> AdminAccess {
    let mut access = AdminAccess::PUBLIC;
    let (mut authorization, mut public) = (None, None);
    if let Some(mut table) = value.and_then(|value| value.table("[admin]")) {
        authorization =
            table.take("authorization").and_then(|value| endpoint::authorization(&value, identification));
        public = table.take("public").map(|value| read_public(&value, &mut access));
        table.finish();
    }
    if !identification.asks {
        return access;
    }
    let public = public.unwrap_or_else(|| AdminAccess::OPEN.map(str::to_owned).to_vec());
    let authorization = authorization.unwrap_or(Authorization::Tokens(Vec::new()));
    for (name, wanted) in access.each() {
        if !public.iter().any(|open| open == name) {
            *wanted = authorization.clone();
        }
    }
    access
}

/// The names of admin endpoints that are open to every client.
fn read_public(value: &Value<'_>, access: &mut AdminAccess) -> Vec<String> {
    let names = access.each().map(|(name, _)| name);
    let open = value.strings().unwrap_or_default();
    for (name, item) in &open {
        if !names.contains(&name.as_str()) {
            let hint = suggest("they are", name, names);
            item.error_with(format!("there is no admin endpoint {}", item.shown(name)), hint);
        }
    }
    open.into_iter().map(|(name, _)| name).collect()
}
