//! The file descriptors that clients may use: the process's limit, minus those that databases and
//! files need.
//!
//! Clients, pools and files share one limit (`ulimit -n`). If clients used all of it, a pool
//! couldn't open a connection, and requests would fail because of idle clients.

use rowstream_core::settings::SettingOrigin;
use rowstream_procfs::ProcessFiles;

use super::ADMIN_CONNECTIONS;
use crate::budget::RESERVED_CONNECTIONS;
use crate::config::Config;

/// Descriptors of a connection to a source: a socket and one for cancelling, or a file and its log.
const OF_SOURCE: usize = 2;
/// One descriptor in this many is for files: of slow clients, of held results, and of sorts.
const FILES_PART: usize = 8;
/// Descriptors of connections that have given way and are closing.
const LEAVING: usize = 32;
/// Connections that clients have in any case.
const LEAST: usize = 16;

/// The descriptors of this process at its start.
pub(super) struct Descriptors {
    limit: usize,
    /// The descriptors that the program already has open.
    open: usize,
}

impl Descriptors {
    /// Counts them. `None` if there's no limit, or the system doesn't report it.
    pub(super) fn count() -> Option<Self> {
        let files = ProcessFiles::own();
        let (limit, open) = (files.max_fds()?, files.open_fds()?);
        Some(Self { limit: usize::try_from(limit).ok()?, open: usize::try_from(open).ok()? })
    }

    /// The number of client connections, next to the sources of `config`.
    pub(super) fn seats(&self, config: &Config) -> usize {
        let kept = [self.open, of_sources(config), self.limit / FILES_PART, beside_seats(config)];
        let left = kept.into_iter().fold(self.limit, usize::saturating_sub);
        left.max(LEAST).min(config.limits.max_connections)
    }

    /// The reason and the remedy, if that's fewer than the configuration asks for, or hardly any.
    pub(super) fn warning(&self, config: &Config) -> Option<String> {
        let (seats, wanted) = (self.seats(config), config.limits.max_connections);
        let is_chosen = config.limits.max_connections_by == SettingOrigin::User;
        if seats == wanted || !is_chosen && seats > LEAST {
            return None;
        }
        let parts = [self.open, of_sources(config), beside_seats(config), wanted];
        let needed = parts.into_iter().fold(1, usize::saturating_add);
        let needed = needed.saturating_add(needed.div_ceil(FILES_PART - 1));
        Some(format!(
            "the limit of {} descriptors leaves {seats} connections of clients instead of {wanted}, because databases and files need the rest\n    hint: raise it to {needed} (`ulimit -n`, `LimitNOFILE` of systemd), or lower `max_connections` or `pool.max`",
            self.limit
        ))
    }
}

/// Descriptors of full pools, with one more connection for each readiness check.
fn of_sources(config: &Config) -> usize {
    let of_source = |max: usize| max.saturating_add(1).saturating_mul(OF_SOURCE);
    config.sources.iter().map(|source| of_source(source.pool.max)).fold(0, usize::saturating_add)
}

/// Descriptors of client connections without a seat.
fn beside_seats(config: &Config) -> usize {
    RESERVED_CONNECTIONS + LEAVING + config.admin_listen.as_ref().map_or(0, |_| ADMIN_CONNECTIONS)
}
