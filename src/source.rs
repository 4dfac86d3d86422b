//! Sources: the databases and HTTP services that rows are read from.
//!
//! A [`Source`] has a URL and a pool. [`crate::database`] sends statements to databases, and
//! [`rowstream_upstream`] sends requests to HTTP services.

mod settings;

pub use settings::{SourceConfig, SourceKind};

use std::pin::Pin;
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::pool::{self, HostStats, Priority, Waiter};
use rowstream_upstream::discovery::DiscoveryStats as Discovered;
use tokio::sync::OwnedSemaphorePermit;

use crate::database::{AnyDatabase, HostReport, Probe, Session, SharedLookups, Snapshot};

/// A database or an HTTP service, with its pool.
#[derive(Clone)]
pub enum Source {
    /// A database.
    Database(AnyDatabase),
    /// An HTTP service.
    Upstream(rowstream_upstream::Source),
}

impl Source {
    /// A source without open connections.
    ///
    /// # Errors
    /// The URL is invalid, or root certificates can't be read.
    pub fn open(config: &SourceConfig) -> Result<Self, Error> {
        match &config.kind {
            SourceKind::Sql(kind) => AnyDatabase::open(*kind, config).map(Self::Database),
            SourceKind::Http(settings) => {
                rowstream_upstream::Source::open(config, settings).map(Self::Upstream)
            }
        }
    }

    /// Closes idle connections when they reach their `idle_timeout`, while the source is used.
    pub fn reap(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match self {
            Self::Database(database) => database.reap(),
            Self::Upstream(upstream) => Box::pin(upstream.reap()),
        }
    }

    /// A probe for readiness. `None` for an HTTP service: other replicas of this server couldn't
    /// reach it either.
    pub fn probe(&self) -> Option<Probe> {
        match self {
            Self::Database(database) => Some(database.probe()),
            Self::Upstream(_) => None,
        }
    }

    /// The name of the source.
    pub fn name(&self) -> &str {
        match self {
            Self::Database(database) => database.name(),
            Self::Upstream(upstream) => upstream.name(),
        }
    }

    /// Statistics of its pool.
    pub(crate) fn pool_stats(&self) -> pool::Stats {
        match self {
            Self::Database(database) => database.pool_stats(),
            Self::Upstream(upstream) => upstream.pool_stats(),
        }
    }

    /// The number of hosts that can run a statement. If one fails before the first row, another may
    /// answer. HTTP services handle that themselves.
    pub(crate) fn hosts(&self) -> usize {
        match self {
            Self::Database(database) => database.hosts(),
            Self::Upstream(_) => 1,
        }
    }

    /// Statistics of each host, if there are several.
    pub(crate) fn host_stats(&self) -> Vec<HostStats> {
        match self {
            Self::Database(database) => database.host_stats(),
            Self::Upstream(upstream) => upstream.host_stats(),
        }
    }

    /// The metrics of its registry; `None` if it has none.
    pub(crate) fn discovered(&self) -> Option<Discovered> {
        match self {
            Self::Database(_) => None,
            Self::Upstream(upstream) => upstream.discovered(),
        }
    }

    /// The time that followers have waited for a transaction to end; `None` if they never wait.
    pub(crate) fn longest_wait(&self) -> Option<Duration> {
        match self {
            Self::Database(database) => database.longest_wait(),
            Self::Upstream(_) => None,
        }
    }

    /// Statistics of the lookups on shared connections; `None` if none are shared.
    pub(crate) fn lookups(&self) -> Option<SharedLookups> {
        match self {
            Self::Database(database) => database.lookups(),
            Self::Upstream(_) => None,
        }
    }

    /// Keeps slots of the pool for lookups, or none if the source has no lookups (`any` is false).
    pub(crate) fn keep_for_lookups(&self, any: bool) {
        if let Self::Database(database) = self {
            database.keep_for_lookups(any);
        }
    }

    /// Makes connections prepare their statements again, as after a migration.
    pub(crate) fn forget_statements(&self) {
        if let Self::Database(database) = self {
            database.forget_statements();
        }
    }

    /// Waits until a task that isn't urgent may continue; see
    /// [`Pool::turn`](rowstream_core::pool::Pool::turn).
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Database(database) => database.turn().await,
            Self::Upstream(upstream) => upstream.turn().await,
        }
    }

    /// The limit for waiting for a connection.
    pub fn acquire_timeout(&self) -> Duration {
        match self {
            Self::Database(database) => database.acquire_timeout(),
            Self::Upstream(upstream) => upstream.acquire_timeout(),
        }
    }

    /// Waits for a connection of a database and makes it ready.
    ///
    /// # Errors
    /// The pool's (503, 504); 503 if the database can't be reached; or the source is an HTTP
    /// service.
    pub async fn acquire(&self, snapshot: Snapshot, priority: Priority) -> Result<Session, Error> {
        self.database()?.acquire(snapshot, priority, Waiter::default().begin()).await
    }

    /// Connects, to check that this is possible.
    ///
    /// # Errors
    /// The pool's, or 503 if the source can't be reached.
    pub async fn reach(&self) -> Result<(), Error> {
        match self {
            Self::Upstream(upstream) => upstream.reach().await,
            Self::Database(_) => self.acquire(Snapshot::Statement, Priority::Lookup).await.map(drop),
        }
    }

    /// Connects to each host of a database, and asks for its version and role.
    pub(crate) async fn inspect(&self) -> Vec<HostReport> {
        match self {
            Self::Database(database) => database.inspect().await,
            Self::Upstream(_) => Vec::new(),
        }
    }

    /// The database.
    ///
    /// # Errors
    /// The source is an HTTP service.
    pub fn database(&self) -> Result<&AnyDatabase, Error> {
        match self {
            Self::Database(database) => Ok(database),
            Self::Upstream(upstream) => Err(Error::endpoint(format!(
                "source `{}` is an HTTP service and can't run statements",
                upstream.name()
            ))),
        }
    }

    /// The HTTP service.
    ///
    /// # Errors
    /// The source is a database.
    pub fn upstream(&self) -> Result<&rowstream_upstream::Source, Error> {
        match self {
            Self::Upstream(upstream) => Ok(upstream),
            Self::Database(_) => Err(Error::endpoint("this source isn't an HTTP service")),
        }
    }
}
