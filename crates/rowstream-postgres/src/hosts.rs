//! The hosts of a source, a primary and its replicas. A connection goes to the least busy suitable
//! one.
//!
//! A host is suitable because of its role (`target_session_attrs`) and, if it's a replica, its lag
//! (`max_lag`). Each connection that we open learns the role. If there are several hosts, we also
//! check each of them about once a second, by a connection of its own. A host is ejected as soon as
//! a connection to it fails, and we check it again after a backoff ([`Breaker`]).
//!
//! ```text
//! connection ──► hosts that are up and preferred, least busy first ──► idle connection there, or a new one
//!                     │ none, or each one failed
//!                     ├──► other suitable hosts, too ──► ejected hosts ──► the last error
//! ```
//!
//! Lag isn't a difference of clocks. It's the time since we saw the primary at the replica's
//! current position. If no primary is among the hosts, we take the replica's own estimate: the age
//! of the last transaction that it has replayed, while it has more to replay.
//!
//! None of this applies to a source with one host, except that the host must be suitable.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use postgres_protocol::message::frontend;
use rowstream_core::Error;
use rowstream_core::lock::Mutex;
use rowstream_core::log;
use rowstream_core::pool::{Breaker, Epoch, Health, HostCounts, HostStats, Lease};
use rowstream_core::settings::SourceSettings;
use rowstream_database::login::{self, ReusableConnection as _};
use rowstream_database::password_command::PasswordCommand;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::SourceState;
use super::connect::{Connection, Connector, Role, no_postgres};
use super::url::{SessionAttrs, Targets};
use super::value::text_field;

/// The time between checks of a host, unless `max_lag` needs a shorter one. It varies by a quarter,
/// so that many servers don't check at the same time.
const EVERY: Duration = Duration::from_secs(1);
/// The shortest time between checks.
const OFTENEST: Duration = Duration::from_millis(50);
/// The time limit for a check.
const PATIENCE: Duration = Duration::from_secs(3);
/// The first time that a host stays ejected. It doubles each time that the host fails again.
const BACKOFF: Duration = Duration::from_secs(1);
/// The most positions of the primary that we keep, one for each check.
const POSITIONS: usize = 1024;

/// The columns of a check, next to the role: the host's position in the log, the age of the last
/// commit that it has replayed, and its version.
const LOOK: &str = "\
     (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end - '0/0')::text, \
     (case when pg_last_wal_receive_lsn() is distinct from pg_last_wal_replay_lsn() \
     then extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp()) else 0 end)::text, \
     current_setting('server_version')";

/// The hosts of a source, at least one.
pub(super) struct Hosts {
    source: String,
    hosts: Box<[Arc<Host>]>,
    attrs: SessionAttrs,
    max_lag: Option<Duration>,
    /// The positions of the primary with their times, oldest first.
    positions: Mutex<VecDeque<(Instant, u64)>>,
}

struct Host {
    source: String,
    name: String,
    connector: Connector,
    /// Connections that are lent to sessions.
    in_use: AtomicUsize,
    /// True if no host suits better; see [`HostUse::is_welcome`].
    suits: AtomicBool,
    state: Mutex<State>,
}

/// The state of a host, as far as we know it.
struct State {
    breaker: Breaker,
    /// Unknown until we have connected.
    role: Option<Role>,
    lag: Option<Duration>,
    counts: HostCounts,
}

/// A connection in use at one of several hosts.
pub(super) struct HostUse {
    host: Arc<Host>,
    epoch: Epoch,
    /// True while it counts as use of its host.
    counts: bool,
}

/// The result of a check.
pub(super) struct HostCheck {
    role: Role,
    is_pooled: bool,
    version: String,
    position: u64,
    /// The replica's own estimate.
    lag: Option<Duration>,
}

impl Hosts {
    pub(super) fn new(settings: &SourceSettings) -> Result<Self, Error> {
        let name = &settings.name;
        let Targets { hosts, attrs } = Targets::parse(&settings.url, &settings.variables)
            .map_err(|cause| Error::endpoint(format!("source `{name}`: {cause}")))?;
        let health = Health { failures: 1, backoff: BACKOFF, statuses: Vec::new() };
        let command = PasswordCommand::of(settings);
        let host = |(at, target): (usize, _)| {
            Ok(Arc::new(Host {
                source: name.clone(),
                name: super::url::Target::address(&target),
                connector: Connector::new(settings, target, at, attrs, command.clone())?,
                in_use: AtomicUsize::new(0),
                suits: AtomicBool::new(true),
                state: Mutex::new(State {
                    breaker: Breaker::new(Some(health.clone()), PATIENCE),
                    role: None,
                    lag: None,
                    counts: HostCounts::default(),
                }),
            }))
        };
        let hosts = hosts.into_iter().enumerate().map(host).collect::<Result<_, Error>>()?;
        Ok(Self {
            source: name.clone(),
            hosts,
            attrs,
            max_lag: settings.max_lag,
            positions: Mutex::default(),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Returns true if statements may run on several hosts, some of which may lag behind others.
    pub(super) fn are_replicas(&self) -> bool {
        self.count() > 1 && !matches!(self.attrs, SessionAttrs::Primary | SessionAttrs::ReadWrite)
    }

    /// The settings that follow the start of a transaction, if a session can't keep them.
    pub(super) fn transaction_settings(&self) -> &str {
        self.hosts[0].connector.transaction_settings()
    }

    /// The connector for the host of a connection.
    pub(super) fn connector(&self, connection: &Connection) -> &Connector {
        &self.hosts[connection.host].connector
    }

    /// An idle connection of the pool, or a new one for the slot `place`. Without a slot, a
    /// connection outside of the pool.
    ///
    /// # Errors
    /// No suitable host can be reached.
    pub(super) async fn connection(&self, place: Option<&Lease<Connection>>) -> Result<Connection, Error> {
        match (&*self.hosts, place) {
            ([only], Some(place)) => {
                let opened = login::reuse_or_open(place, &self.source, || only.connector.connect()).await;
                opened.and_then(|connection| self.if_it_suits(connection))
            }
            // Boxed, as in `login::reuse_or_open`.
            ([only], None) => {
                let opened = Box::pin(only.connector.connect()).await;
                let opened = opened.map_err(|cause| cause.of_source(&self.source));
                opened.and_then(|connection| self.if_it_suits(connection))
            }
            _ => Box::pin(self.of_several(place)).await,
        }
    }

    /// A connection to the only host, if the URL wants one of its role.
    fn if_it_suits(&self, connection: Connection) -> Result<Connection, Error> {
        if rank(self.attrs, connection.role).is_some() {
            return Ok(connection);
        }
        self.hosts[0].state.lock().role = Some(connection.role);
        Err(self.none_suits())
    }

    async fn of_several(&self, place: Option<&Lease<Connection>>) -> Result<Connection, Error> {
        let (mut failed, mut last) = (0_u64, None);
        for (most, ejected) in [(0, false), (1, false), (2, false), (2, true)] {
            let mut tried = failed;
            while let Some(at) = self.choose(most, ejected, tried) {
                tried |= 1 << at;
                match self.connect(at, place).await {
                    Ok(connection) if self.rank(at).is_some_and(|rank| rank <= most) => {
                        return Ok(self.lend(connection));
                    }
                    Ok(connection) => drop(place.map(|place| place.keep_idle(connection))),
                    Err(error) => {
                        failed |= 1 << at;
                        last = Some(error);
                    }
                }
            }
        }
        Err(last.unwrap_or_else(|| self.none_suits()))
    }

    /// The least busy host that we haven't tried and whose rank is at most `most`.
    fn choose(&self, most: u8, ejected: bool, tried: u64) -> Option<usize> {
        let hosts = self.hosts.iter().enumerate();
        let left = hosts.filter(|(at, host)| {
            tried & (1 << at) == 0
                && host.state.lock().breaker.is_up() != ejected
                && self.rank(*at).is_some_and(|rank| rank <= most)
        });
        // Random among equals, because turns would need a counter that all threads share.
        left.min_by_key(|(_, host)| (host.in_use.load(Ordering::Relaxed), fastrand::u8(..))).map(|(at, _)| at)
    }

    /// How well a host suits, 0 is best; `None` if it can't be used.
    fn rank(&self, at: usize) -> Option<u8> {
        let state = self.hosts[at].state.lock();
        let Some(role) = state.role else { return Some(0) };
        let rank = rank(self.attrs, role)?;
        match (self.max_lag, state.lag) {
            (Some(max), Some(lag)) if role == Role::Replica && lag > max => None,
            // The lag isn't known yet.
            (Some(_), None) if role == Role::Replica => Some(2),
            _ => Some(rank),
        }
    }

    /// A connection to the host with this index: an idle one of the slot's pool, or a new one.
    async fn connect(&self, at: usize, place: Option<&Lease<Connection>>) -> Result<Connection, Error> {
        let host = &self.hosts[at];
        if let Some(place) = place {
            let there = |connection: &Connection| connection.host == at;
            while let Some(mut connection) = place.take_idle_among(there, Connection::is_here) {
                if connection.is_alive()
                    && let Ok(connection) = connection.move_here()
                {
                    return Ok(connection);
                }
            }
            place.make_room();
        }
        let epoch = host.state.lock().breaker.begin(Instant::now());
        match host.connector.connect().await {
            Ok(connection) => {
                place.into_iter().for_each(Lease::opened);
                host.state.lock().role = Some(connection.role);
                host.answered(epoch);
                Ok(connection)
            }
            Err(cause) => {
                let error = cause.of_source(&self.source);
                host.failed(epoch, &error);
                Err(error)
            }
        }
    }

    fn lend(&self, mut connection: Connection) -> Connection {
        let host = Arc::clone(&self.hosts[connection.host]);
        host.in_use.fetch_add(1, Ordering::Relaxed);
        let epoch = {
            let mut state = host.state.lock();
            state.counts.answered += 1;
            state.breaker.begin(Instant::now())
        };
        connection.host_use = Some(HostUse { host, epoch, counts: true });
        connection
    }

    #[cold]
    fn none_suits(&self) -> Error {
        let lag = self.max_lag.map_or(String::new(), |lag| format!(" within `max_lag` of {lag:?}"));
        let wanted = match self.attrs {
            SessionAttrs::Primary => "primary".to_owned(),
            SessionAttrs::ReadWrite => "host that can be written to".to_owned(),
            SessionAttrs::ReadOnly => format!("host that only reads{lag}"),
            SessionAttrs::Any => format!("host{lag}"),
            SessionAttrs::Standby | SessionAttrs::PreferStandby => format!("replica{lag}"),
        };
        let hosts = self
            .hosts
            .iter()
            .filter_map(|host| host.state.lock().role.map(|role| format!("{} is a {role}", host.name)));
        let hosts = hosts.collect::<Vec<_>>().join(", ");
        let later = if self.max_lag.is_some() { ", or raise `max_lag`" } else { "" };
        Error::source_unavailable(format!("source `{}` has no {wanted}", self.source)).cause(format!(
            "{hosts}; name such a host in the source's `url`, or correct its `target_session_attrs`{later}"
        ))
    }

    /// The statistics of each host, if there are several.
    pub(super) fn stats(&self) -> Vec<HostStats> {
        let stats = |host: &Arc<Host>| {
            let state = host.state.lock();
            HostStats {
                name: host.name.clone(),
                in_flight: host.in_use.load(Ordering::Relaxed),
                is_up: state.breaker.is_up(),
                counts: state.counts,
                lag: state.lag,
            }
        };
        if self.count() > 1 { self.hosts.iter().map(stats).collect() } else { Vec::new() }
    }

    /// Asks each host for its description, in the order of the URL.
    pub(super) async fn inspect(&self) -> Vec<(String, Result<String, Error>)> {
        let mut said = Vec::with_capacity(self.count());
        for host in &self.hosts {
            let look = async {
                let connected = host.connector.connect().await;
                let mut connection = connected.map_err(|cause| cause.of_source(&self.source))?;
                match &connection.other {
                    Some(name) => Ok(no_postgres(name)),
                    None => look(&mut connection, &host.connector).await.map(|look| look.to_string()),
                }
            };
            said.push((host.name.clone(), look.await));
        }
        said
    }

    /// Checks a host, by a connection that is kept.
    async fn look_at(&self, at: usize, kept: &mut Option<Connection>) {
        let host = &self.hosts[at];
        let now = Instant::now();
        let epoch = {
            let mut state = host.state.lock();
            if !state.breaker.lets_through(now) {
                return;
            }
            state.breaker.begin(now)
        };
        let looked = timeout(PATIENCE, async {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => host.connector.connect().await.map_err(|cause| cause.of_source(&self.source))?,
            };
            let seen = look(&mut connection, &host.connector).await?;
            *kept = Some(connection);
            Ok(seen)
        });
        let silent = |_| Err(Error::source_unavailable(format!("no answer within {PATIENCE:?}")));
        match looked.await.unwrap_or_else(silent) {
            Ok(seen) => {
                self.note(at, now, &seen);
                host.answered(epoch);
            }
            Err(error) => host.failed(epoch, &error),
        }
        self.compare();
    }

    fn note(&self, at: usize, now: Instant, seen: &HostCheck) {
        let mut positions = self.positions.lock();
        let is_replica = seen.role == Role::Replica;
        if !is_replica {
            positions.push_back((now, seen.position));
            if positions.len() > POSITIONS {
                positions.pop_front();
            }
        }
        let lag = if is_replica { self.lag(&positions, seen) } else { Some(Duration::ZERO) };
        drop(positions);
        let mut state = self.hosts[at].state.lock();
        (state.role, state.lag) = (Some(seen.role), lag);
    }

    /// The time since the primary was at the replica's position; `None` if it isn't known yet.
    fn lag(&self, positions: &VecDeque<(Instant, u64)>, seen: &HostCheck) -> Option<Duration> {
        let (Some(oldest), Some(newest)) = (positions.front(), positions.back()) else { return seen.lag };
        if newest.1 <= seen.position {
            return Some(Duration::ZERO);
        }
        let passed = positions.iter().rev().find(|(_, position)| *position <= seen.position);
        let age = passed.unwrap_or(oldest).0.elapsed();
        (passed.is_some() || self.max_lag.is_some_and(|max| age > max)).then_some(age)
    }

    /// Records which of the hosts that are up suit best.
    fn compare(&self) {
        let is_up = |at: &usize| self.hosts[*at].state.lock().breaker.is_up();
        let ranks: Vec<_> =
            (0..self.count()).map(|at| Some(at).filter(is_up).and_then(|at| self.rank(at))).collect();
        let best = ranks.iter().flatten().min();
        for (host, rank) in self.hosts.iter().zip(&ranks) {
            host.suits.store(rank.is_some() && rank.as_ref() == best, Ordering::Relaxed);
        }
    }

    fn every(&self) -> Duration {
        self.max_lag.map_or(EVERY, |lag| (lag / 4).clamp(OFTENEST, EVERY))
    }
}

impl Host {
    fn answered(&self, epoch: Epoch) {
        if self.state.lock().breaker.answered(epoch) {
            log::info!("source {}: host {} answers again, and is restored", self.source, self.name);
        }
    }

    fn failed(&self, epoch: Epoch, why: &Error) {
        let ejected = {
            let mut state = self.state.lock();
            state.counts.failed += 1;
            let ejected = state.breaker.failed(epoch, Instant::now());
            state.counts.ejected += u64::from(ejected.is_some());
            ejected
        };
        self.suits.store(false, Ordering::Relaxed);
        if let Some(backoff) = ejected {
            let (source, name, why) = (&self.source, &self.name, why.for_operators());
            log::warning!("source {source}: host {name} is ejected for {backoff:?}: {why}");
        }
    }
}

impl HostUse {
    /// Records that its connection has failed.
    pub(super) fn failed(&self, why: &Error) {
        self.host.failed(self.epoch, why);
    }

    /// Stops counting as use of the host: many lookups share this connection, which is mostly idle.
    pub(super) fn counts_no_more(&mut self) {
        if std::mem::take(&mut self.counts) {
            self.host.in_use.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns true if the next statements should go to its host, too.
    pub(super) fn is_welcome(&self) -> bool {
        self.host.suits.load(Ordering::Relaxed)
    }
}

impl Drop for HostUse {
    fn drop(&mut self) {
        self.counts_no_more();
    }
}

/// How well a host of that role suits, 0 is best; `None` if it can't be used.
fn rank(attrs: SessionAttrs, role: Role) -> Option<u8> {
    match (attrs, role) {
        (SessionAttrs::PreferStandby, Role::Primary | Role::ReadOnly) => Some(1),
        (SessionAttrs::Any, _)
        | (SessionAttrs::ReadWrite, Role::Primary)
        | (SessionAttrs::ReadOnly, Role::ReadOnly | Role::Replica)
        | (SessionAttrs::Primary, Role::Primary | Role::ReadOnly)
        | (SessionAttrs::Standby | SessionAttrs::PreferStandby, Role::Replica) => Some(0),
        _ => None,
    }
}

/// Asks a host for its role, position, lag and version.
async fn look(connection: &mut Connection, connector: &Connector) -> Result<HostCheck, Error> {
    frontend::query(&format!("select {}, {LOOK}", connector.role), &mut connection.wire.write)
        .map_err(super::session::unsendable)?;
    let mut seen = None;
    connection.until_ready_with(|row| seen = HostCheck::read(row)).await?;
    let is_pooled = connection.is_pooled;
    let seen = seen.map(|seen| HostCheck { is_pooled, ..seen });
    seen.ok_or_else(|| Error::protocol("the database sent a row that cannot be read"))
}

impl HostCheck {
    fn read(row: &[u8]) -> Option<Self> {
        let lag = text_field(row, 3).and_then(|lag| lag.parse().ok());
        Some(Self {
            role: Role::new(text_field(row, 0)? == "t", text_field(row, 1) == Some("t")),
            is_pooled: false,
            position: text_field(row, 2)?.parse().ok()?,
            lag: lag.and_then(|lag: f64| Duration::try_from_secs_f64(lag.max(0.0)).ok()),
            version: text_field(row, 4)?.to_owned(),
        })
    }
}

impl fmt::Display for HostCheck {
    /// Version, role and lag.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {}, ", self.version)?;
        match (self.role, self.lag) {
            (Role::Replica, Some(lag)) => write!(f, "replica, {:.1} s late", lag.as_secs_f64()),
            (Role::Replica, None) => f.write_str("replica, which has replayed no transaction yet"),
            (role, _) => role.fmt(f),
        }?;
        match self.is_pooled {
            true => f.write_str(", by a pooler: a transaction for each response"),
            false => Ok(()),
        }
    }
}

/// Checks each of several hosts while the source is in use.
pub(super) async fn watch(shared: Weak<SourceState>) {
    let count = shared.upgrade().map_or(0, |shared| shared.hosts.count());
    if count < 2 {
        return;
    }
    let mut watches = JoinSet::new();
    for at in 0..count {
        watches.spawn(watch_one(Weak::clone(&shared), at));
    }
    watches.join_all().await;
}

async fn watch_one(shared: Weak<SourceState>, at: usize) {
    let mut kept = None;
    while let Some(shared) = shared.upgrade() {
        shared.hosts.look_at(at, &mut kept).await;
        let every = shared.hosts.every();
        drop(shared);
        tokio::time::sleep(every.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
    }
}
