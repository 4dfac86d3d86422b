//! Sources: the databases and HTTP services whose rows are read.
//!
//! A [`Source`] has a URL and a pool. Requests to a database are in [`crate::database`], those to an
//! HTTP service in [`crate::upstream`].

mod settings;

pub use settings::{Kind, SourceConfig};

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::database::{AnyDatabase, HostSaid, Probe, Session, SharedLookups, Snapshot};
use crate::upstream;
use crate::upstream::discovery::Seen as Discovered;
use rowstream_core::Error;
use rowstream_core::pool::{self, HostStats, Priority, Waiter};

/// A database or an HTTP service, with its pool.
#[derive(Clone)]
pub enum Source {
    /// A database.
    Database(AnyDatabase),
    /// An HTTP service.
    Upstream(upstream::Source),
}

impl Source {
    /// A source without open connections.
    ///
    /// # Errors
    /// The URL is not understood, or root certificates cannot be read.
    pub fn open(config: &SourceConfig) -> Result<Self, Error> {
        match &config.kind {
            Kind::Sql(kind) => AnyDatabase::open(*kind, config).map(Self::Database),
            Kind::Http(settings) => upstream::Source::open(config, settings).map(Self::Upstream),
        }
    }

    /// Closes idle connections as they reach their `idle_timeout`, for as long as the source is
    /// used.
    pub fn reap(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match self {
            Self::Database(database) => database.reap(),
            Self::Upstream(upstream) => Box::pin(upstream.reap()),
        }
    }

    /// What asks whether it can be reached. `None`: that is no matter of this server, whose other
    /// replicas would not reach it either.
    pub fn probe(&self) -> Option<Probe> {
        match self {
            Self::Database(database) => Some(database.probe()),
            Self::Upstream(_) => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Database(database) => database.name(),
            Self::Upstream(upstream) => upstream.name(),
        }
    }

    /// What is known of its pool.
    pub(crate) fn pool_stats(&self) -> pool::Stats {
        match self {
            Self::Database(database) => database.pool_stats(),
            Self::Upstream(upstream) => upstream.pool_stats(),
        }
    }

    /// At how many hosts a statement can be asked: where one fails before the first row, another
    /// one may answer. An HTTP service sees to that itself.
    pub(crate) fn hosts(&self) -> usize {
        match self {
            Self::Database(database) => database.hosts(),
            Self::Upstream(_) => 1,
        }
    }

    /// What is known of each of its hosts; of none, where it has no such.
    pub(crate) fn host_stats(&self) -> Vec<HostStats> {
        match self {
            Self::Database(database) => database.host_stats(),
            Self::Upstream(upstream) => upstream.host_stats(),
        }
    }

    /// What its registry has said of where it is; `None`: it has none.
    pub(crate) fn discovered(&self) -> Option<Discovered> {
        match self {
            Self::Database(_) => None,
            Self::Upstream(upstream) => upstream.discovered(),
        }
    }

    /// How long followers have waited for the end of a transaction; `None`: they never do.
    pub(crate) fn longest_wait(&self) -> Option<Duration> {
        match self {
            Self::Database(database) => database.longest_wait(),
            Self::Upstream(_) => None,
        }
    }

    /// What there is to know of lookups on shared connections; `None` where the source shares none.
    pub(crate) fn lookups(&self) -> Option<SharedLookups> {
        match self {
            Self::Database(database) => database.lookups(),
            Self::Upstream(_) => None,
        }
    }

    /// Keeps connections of the pool for lookups, or none where nobody asks for `any`.
    pub(crate) fn keep_for_lookups(&self, any: bool) {
        if let Self::Database(database) = self {
            database.keep_for_lookups(any);
        }
    }

    /// Waits for the turn of one that has time; see [`Pool::turn`](rowstream_core::pool::Pool::turn).
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Database(database) => database.turn().await,
            Self::Upstream(upstream) => upstream.turn().await,
        }
    }

    /// How long a request waits for a connection.
    pub fn acquire_timeout(&self) -> Duration {
        match self {
            Self::Database(database) => database.acquire_timeout(),
            Self::Upstream(upstream) => upstream.acquire_timeout(),
        }
    }

    /// Waits for a connection of a database and makes it ready.
    ///
    /// # Errors
    /// The pool's (503, 504), or 503 when the database cannot be reached; or it is none.
    pub async fn acquire(&self, snapshot: Snapshot, priority: Priority) -> Result<Session, Error> {
        self.database()?.acquire(snapshot, priority, Waiter::default().begin()).await
    }

    /// Connects, to see whether that can be done.
    ///
    /// # Errors
    /// The pool's, or 503 when it cannot.
    pub async fn reach(&self) -> Result<(), Error> {
        match self {
            Self::Upstream(upstream) => upstream.reach().await,
            Self::Database(_) => self.acquire(Snapshot::Statement, Priority::Lookup).await.map(drop),
        }
    }

    /// Connects to each host of a database, and asks what it is.
    pub(crate) async fn inspect(&self) -> Vec<HostSaid> {
        match self {
            Self::Database(database) => database.inspect().await,
            Self::Upstream(_) => Vec::new(),
        }
    }

    /// The database.
    ///
    /// # Errors
    /// It is an HTTP service.
    pub fn database(&self) -> Result<&AnyDatabase, Error> {
        match self {
            Self::Database(database) => Ok(database),
            Self::Upstream(upstream) => Err(Error::endpoint(format!(
                "source `{}` is an HTTP service and takes no statements",
                upstream.name()
            ))),
        }
    }

    /// The HTTP service.
    ///
    /// # Errors
    /// It is a database.
    pub fn upstream(&self) -> Result<&upstream::Source, Error> {
        match self {
            Self::Upstream(upstream) => Ok(upstream),
            Self::Database(_) => Err(Error::endpoint("this source is no HTTP service")),
        }
    }
}
