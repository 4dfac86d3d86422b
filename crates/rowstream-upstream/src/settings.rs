//! The settings that only HTTP sources have.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue};
use rowstream_core::diagnostic::Template;
use rowstream_core::pool::Health;

use super::address::AllowEntry;
use super::discovery::DiscoverySettings;
use super::hosts::Balance;
use super::retry::Retries;
use super::url::Base;

/// How an upstream is reached and called.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// One host, or several that give the same responses. Never empty.
    pub hosts: Vec<Base>,
    /// The registry that lists the addresses of the only host. `None`: its URL has the address.
    pub discover: Option<DiscoverySettings>,
    /// How a request chooses among several hosts.
    pub balance: Balance,
    /// The most requests in flight at each host. `None`: as many as the pool has slots.
    pub max_per_host: Option<usize>,
    /// When a host is ejected. `None`: never.
    pub health: Option<Health>,
    /// The HTTP version.
    pub protocol: Protocol,
    /// The TLS files.
    pub tls: TlsFiles,
    /// The addresses that the hosts may have; never empty. `None`: the address in the URL, or every
    /// public address of its name.
    pub allow: Option<Vec<AllowEntry>>,
    /// Header fields of every request. They may contain secrets.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Those whose values mention files, as in the configuration.
    pub header_files: Vec<(HeaderName, Template)>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Which requests are sent again. `None`: none.
    pub retries: Option<Retries>,
    /// The age at which a connection gets no further requests. `None`: there's no limit.
    pub max_age: Option<Duration>,
}

impl fmt::Debug for Settings {
    /// Omits values that may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("hosts", &self.hosts)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

/// The files for TLS with an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// A PEM file of the authorities that sign its certificate. `None`: those of the system.
    pub roots: Option<PathBuf>,
    /// PEM files of the certificate that Rowstream presents, and of its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// All of these files, as they were when the configuration was read. If one has changed, a
    /// reload opens the source again.
    pub read: Vec<FileStamp>,
}

/// A file, the time of its last change, and its length. `None`: it can't be read.
pub type FileStamp = (PathBuf, Option<(SystemTime, u64)>);

/// The HTTP version for an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// With TLS, HTTP/2 if the upstream offers it (ALPN). Otherwise HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2. Without TLS, by prior knowledge (h2c).
    Http2,
}

/// Time limits for the parts of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection can be used: resolving the name, TCP and TLS.
    pub connect: Duration,
    /// From the request to the head of its response.
    pub first_byte: Duration,
    /// From the request to the last byte of its response. `None`: no limit.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), first_byte: Duration::from_secs(30), total: None }
    }
}
