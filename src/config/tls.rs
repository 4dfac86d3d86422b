//! `[tls]`: by what clients know this server, and how they are led to it.

use std::path::Path;
use std::time::Duration;

use http::HeaderValue;

use super::read::read_listen;
use crate::diagnostic::reader::Value;
use crate::tls::Identity;

/// `[tls]`.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate and its key.
    pub identity: Identity,
    /// Where plain HTTP is answered by where to go instead; `None`: nowhere.
    pub redirect: Option<String>,
    /// `Strict-Transport-Security` of each answer (RFC 6797).
    pub hsts: Option<HeaderValue>,
    /// Whether HTTP/3 is spoken at the same port of UDP.
    pub http3: bool,
}

/// The files are named relative to the folder `base`.
pub(super) fn read(value: &Value<'_>, base: &Path) -> Option<Tls> {
    const HINT: &str = "`certificate` is a PEM file of the certificate and those that lead to its authority, `key` one of its private key";
    let mut table = value.table("[tls]")?;
    let certificate = table.require("certificate", HINT);
    let key = table.require("key", HINT);
    let clients = table.take("client_ca");
    let redirect = table.take("redirect").and_then(|value| read_listen(&value));
    let hsts = table.take("hsts").and_then(|value| value.duration()).map(strict);
    let http3 = table.take("http3").is_some_and(|value| read_http3(&value));
    table.finish();
    let path = |value: &Value<'_>| value.string().map(|name| base.join(name));
    let clients = match clients {
        Some(value) => Some(path(&value)?),
        None => None,
    };
    let (certificate, key) = (path(&certificate?)?, path(&key?)?);
    match Identity::read(&certificate, &key, clients.as_deref()) {
        Ok(identity) => Some(Tls { identity, redirect, hsts, http3 }),
        Err(error) => {
            value.error_with(error.to_string(), HINT);
            None
        }
    }
}

/// Whether it is asked for; it is an error where this program has it not.
fn read_http3(value: &Value<'_>) -> bool {
    let wanted = value.boolean().unwrap_or(false);
    if wanted && !cfg!(feature = "http3") {
        value.error_with(
            "this program was built without HTTP/3",
            "take a released binary, or build with `cargo build --release --features http3`",
        );
    }
    wanted
}

/// The header by which browsers come by HTTPS alone for so long.
fn strict(time: Duration) -> HeaderValue {
    let header = format!("max-age={}", time.as_secs());
    HeaderValue::try_from(header).expect("a number is a header")
}
