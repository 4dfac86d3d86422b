//! `[tls.acme]`: the authority that issues this server's certificate, and the names in it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Uri;
use rowstream_core::diagnostic::reader::Value;

use crate::certificate::issued::IssuedCertificate;

/// The directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// `[tls.acme]`.
#[derive(Debug, Clone)]
pub struct Acme {
    /// The names in the certificate, in lower case. There's at least one.
    pub domains: Vec<String>,
    /// Addresses at which the authority can reach the operator of this server: `mailto` URLs.
    pub contact: Vec<String>,
    /// The URL of the authority's directory (RFC 8555, section 7.1.1).
    pub directory: Uri,
    /// A PEM file of the authorities that we trust for that URL. `None`: those of the system.
    pub roots: Option<PathBuf>,
    /// An account that the operator already has with the authority. `None`: the authority doesn't
    /// require one.
    pub external_account: Option<ExternalAccount>,
    /// The folder in which the account's key and the certificate are stored.
    pub folder: PathBuf,
    /// The issued certificate. Every configuration of a process shares it.
    pub(crate) issued: Arc<IssuedCertificate>,
}

/// Binds our account to one that the authority already knows (RFC 8555, section 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The key's id.
    pub id: String,
    /// The key.
    pub key: Vec<u8>,
}

/// Omits the key.
impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Compares the settings, and ignores the issued certificate.
impl PartialEq for Acme {
    fn eq(&self, other: &Self) -> bool {
        let said = |acme: &Self| {
            let Self { domains, contact, directory, roots, external_account, folder, issued: _ } =
                acme.clone();
            (domains, contact, directory, roots, external_account, folder)
        };
        said(self) == said(other)
    }
}

const KEPT: &str =
    "the folder that keeps the account's key and the certificate across restarts: `folder = \"acme\"`";

/// Reads `[tls.acme]`. Paths are relative to the folder `base`.
pub(super) fn read(value: &Value<'_>, base: &Path) -> Option<Acme> {
    let mut table = value.table("[tls.acme]")?;
    let domains = table.require("domains", "the names of this server: `domains = [\"shop.example\"]`");
    let folder = table.require("folder", KEPT);
    let contact = table.take("contact").map_or(Some(Vec::new()), |value| read_contact(&value));
    let directory = table.take("directory");
    let directory = directory.map_or(Some(Uri::from_static(LETS_ENCRYPT)), |value| read_directory(&value));
    let roots = table.take("roots").and_then(|value| value.string());
    let external_account = table.take("external_account").map(|value| read_external(&value));
    table.finish();
    let domains = domains.and_then(|value| read_domains(&value));
    let folder = folder.and_then(|value| value.string());
    Some(Acme {
        domains: domains?,
        contact: contact?,
        directory: directory?,
        roots: roots.map(|name| base.join(name)),
        external_account: match external_account {
            Some(read) => Some(read?),
            None => None,
        },
        folder: base.join(folder?),
        issued: Arc::default(),
    })
}

/// DNS names, at least one, in lower case.
fn read_domains(value: &Value<'_>) -> Option<Vec<String>> {
    let names: Vec<_> = value.strings()?.into_iter().map(|(text, item)| read_domain(&text, &item)).collect();
    if names.is_empty() {
        value.error_with(
            "a certificate needs at least one name",
            "write the name of this server: [\"shop.example\"]",
        );
        return None;
    }
    names.into_iter().collect()
}

fn read_domain(text: &str, item: &Value<'_>) -> Option<String> {
    let is_label = |label: &str| {
        let is_well = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(is_well)
    };
    let hint = match text {
        _ if text.starts_with("*.") => {
            "an authority can prove such a name only by DNS, which isn't supported: write each name, or give \
             `certificate` and `key`"
        }
        _ if text.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok() => {
            "write the name that clients use, not its address"
        }
        _ if !text.is_ascii() => "write it in its DNS form: \"xn--bcher-kva.example\"",
        _ if text.contains(':') => "write only the name, without scheme and port: \"shop.example\"",
        _ => "names are letters, digits and hyphens, with dots between them: \"shop.example\"",
    };
    let is_name =
        text.len() <= 253 && text.split('.').all(is_label) && text.parse::<std::net::IpAddr>().is_err();
    if !is_name {
        item.error_with(format!("{} isn't a name that can be proven", item.shown(text)), hint);
    }
    is_name.then(|| text.to_ascii_lowercase())
}

/// One or more mail addresses, in the form that authorities expect: `mailto:`.
fn read_contact(value: &Value<'_>) -> Option<Vec<String>> {
    let addresses = match value.is_list() {
        true => value.strings()?.into_iter().map(|(address, _)| address).collect(),
        false => vec![value.string()?],
    };
    let wrong =
        addresses.iter().find(|address| !address.contains('@') || address.contains(char::is_whitespace));
    if let Some(wrong) = wrong {
        value.error_with(
            format!("{} isn't an email address", value.shown(wrong)),
            "write one, or a list: \"ops@shop.example\"",
        );
        return None;
    }
    let url =
        |address: String| if address.starts_with("mailto:") { address } else { format!("mailto:{address}") };
    Some(addresses.into_iter().map(url).collect())
}

fn read_directory(value: &Value<'_>) -> Option<Uri> {
    let text = value.string()?;
    let is_well = |url: &Uri| {
        url.scheme_str() == Some("https") && url.authority().is_some_and(|host| !host.as_str().contains('@'))
    };
    let url = text.parse().ok().filter(is_well);
    if url.is_none() {
        let message = format!("{} isn't an https URL", value.shown(&text));
        value.error_with(message, format!("write the URL of the authority's directory: \"{LETS_ENCRYPT}\""));
    }
    url
}

fn read_external(value: &Value<'_>) -> Option<ExternalAccount> {
    const HINT: &str =
        "the authority's website shows both: `external_account = { id = \"…\", key = \"${ACME_KEY}\" }`";
    let mut table = value.table("external_account")?;
    let (id, key) = (table.require("id", HINT), table.require("key", HINT));
    table.finish();
    let (id, key) = (id?.string()?, key?);
    let Ok(bytes) = URL_SAFE_NO_PAD.decode(key.string()?.trim_end_matches('=')) else {
        key.error_with("the key isn't base64url", HINT);
        return None;
    };
    Some(ExternalAccount { id, key: bytes })
}
