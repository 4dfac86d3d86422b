//! `[tls]`: the certificate of this server, and how clients are led from HTTP to HTTPS.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use rowstream_core::diagnostic::reader::{Table, Value};

use super::acme::{self, Acme};
use super::features;
use super::read::read_listen;
use crate::certificate::Identity;

/// `[tls]`.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate and its key.
    pub identity: Identity,
    /// The authority that issues them. `None`: they're read from files.
    pub acme: Option<Acme>,
    /// A PEM file of the authorities that issue certificates for clients. `None`: clients need no
    /// certificate.
    pub clients: Option<PathBuf>,
    /// The address at which plain HTTP requests are redirected to HTTPS. `None`: there's no
    /// redirect.
    pub redirect: Option<String>,
    /// The value of `Strict-Transport-Security` in each response (RFC 6797).
    pub hsts: Option<HeaderValue>,
    /// True if the server also speaks HTTP/3, on the UDP port of the same number.
    pub http3: bool,
}

impl Tls {
    /// Keeps the certificate that an authority issued under the settings `before`. If either
    /// settings have an authority, the old authority and certificate stay until the process ends.
    ///
    /// # Errors
    /// The file of the clients' authorities can't be read.
    pub(crate) fn go_on(&mut self, before: &Self) -> Result<(), String> {
        match &before.acme {
            Some(acme) => {
                let identity = Identity::issued(Arc::clone(&acme.issued), self.clients.as_deref());
                self.identity = identity.map_err(|error| error.to_string())?;
            }
            None if self.acme.is_some() => self.identity = before.identity.clone(),
            None => {}
        }
        self.acme.clone_from(&before.acme);
        Ok(())
    }
}

impl Tls {
    /// A warning if the certificate was read from a file and has expired.
    pub(crate) fn expired(&self) -> Option<String> {
        self.identity.until().filter(|until| *until < SystemTime::now())?;
        let file = self.identity.files.first().filter(|_| self.acme.is_none())?.display();
        Some(format!(
            "warning: tls: the certificate {file} has expired, so clients refuse it\n    \
             hint: put a new one in its place, and reload"
        ))
    }
}

/// Reads `[tls]`. Paths are relative to the folder `base`.
pub(super) fn read(value: &Value<'_>, base: &Path) -> Option<Tls> {
    let mut table = value.table("[tls]")?;
    let clients = table.take("client_ca");
    let redirect = table.take("redirect").and_then(|value| read_listen(&value));
    let hsts = table.take("hsts").and_then(|value| value.duration()).map(strict);
    let http3 = table.take("http3").is_some_and(|value| read_http3(&value));
    let clients = match clients {
        Some(value) => Some(base.join(value.string()?)),
        None => None,
    };
    let acme = table.take("acme");
    let (identity, acme) = match acme {
        Some(acme) => {
            features::require(cfg!(feature = "acme"), &acme, "ACME", "acme");
            for key in ["certificate", "key"] {
                table.refuse(
                    key,
                    "can't be combined with `[tls.acme]`",
                    "the authority issues it: remove one of the two",
                );
            }
            table.finish();
            let acme = acme::read(&acme, base)?;
            (Identity::issued(Arc::clone(&acme.issued), clients.as_deref()), Some(acme))
        }
        None => (read_files(table, base, clients.as_deref())?, None),
    };
    match identity {
        Ok(identity) => Some(Tls { identity, acme, clients, redirect, hsts, http3 }),
        Err(error) => {
            value.error_with(error.to_string(), HINT);
            None
        }
    }
}

const HINT: &str = "`certificate` is a PEM file with the certificate and the chain to its authority, `key` \
    one with its private key; or let an authority issue them with `[tls.acme]`";

/// Reads the certificate and the key from files. The inner result is an error if they're unusable.
fn read_files(
    mut table: Table<'_>,
    base: &Path,
    clients: Option<&Path>,
) -> Option<Result<Identity, Box<dyn Error>>> {
    let (certificate, key) = (table.require("certificate", HINT), table.require("key", HINT));
    table.finish();
    let path = |value: Value<'_>| value.string().map(|name| base.join(name));
    let (certificate, key) = (path(certificate?)?, path(key?)?);
    Some(Identity::read(&certificate, &key, clients))
}

/// Reads `http3`. Reports an error if it's wanted and this build lacks it.
fn read_http3(value: &Value<'_>) -> bool {
    let wanted = value.boolean().unwrap_or(false);
    if wanted {
        features::require(cfg!(feature = "http3"), value, "HTTP/3", "http3");
    }
    wanted
}

/// The header that makes browsers use only HTTPS for this long.
fn strict(time: Duration) -> HeaderValue {
    let header = format!("max-age={}", time.as_secs());
    HeaderValue::try_from(header).expect("a number is a header")
}
