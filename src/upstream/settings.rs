//! The settings of an HTTP source beside those that every source has.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue};

use super::address::Allowed;
use super::discovery::Discover;
use super::hosts::Balance;
use super::retry::Retries;
use super::url::Base;
use crate::pool::Health;

/// How an upstream is reached and asked.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it is: one host, or several that answer alike; never none.
    pub hosts: Vec<Base>,
    /// Who knows where the one host is; `None`: its URL.
    pub discover: Option<Discover>,
    /// Which of several a request goes to.
    pub balance: Balance,
    /// Most requests in flight at each; `None`: as many as the pool has places.
    pub max_per_host: Option<usize>,
    /// When a host is ejected; `None`: never.
    pub health: Option<Health>,
    /// What is spoken.
    pub protocol: Protocol,
    /// The files of TLS.
    pub tls: TlsFiles,
    /// The addresses that its hosts may have; never empty. `None`: that of the URL, or for a name
    /// every public one.
    pub allow: Option<Vec<Allowed>>,
    /// Sent with every request; they may hold secrets.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// How long its parts may take.
    pub timeouts: Timeouts,
    /// Which requests are sent again; `None`: none.
    pub retries: Option<Retries>,
    /// How old a connection may be that takes another request; `None`: as old as it becomes.
    pub max_age: Option<Duration>,
}

impl fmt::Debug for Settings {
    /// Without what may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("hosts", &self.hosts)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

/// The files of TLS with an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// A PEM file of the certificates that sign its own; `None`: those of the system.
    pub roots: Option<PathBuf>,
    /// PEM files of the certificate that Rowstream shows, and of its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// All of them, as they were when the configuration was read. So a reload opens the source again if
    /// one has changed.
    pub read: Vec<FileStamp>,
}

/// A file, when it was changed last, and its length; `None`: it can't be seen.
pub type FileStamp = (PathBuf, Option<(SystemTime, u64)>);

/// What is spoken with an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// With TLS, HTTP/2 if the upstream has it (ALPN); else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; without TLS by prior knowledge (h2c).
    Http2,
}

/// How long the parts of a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To a connection that can be used: name, address, TLS.
    pub connect: Duration,
    /// From the request to the head of its answer.
    pub first_byte: Duration,
    /// From the request to the last byte of its answer; `None`: as long as it takes.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), first_byte: Duration::from_secs(30), total: None }
    }
}
