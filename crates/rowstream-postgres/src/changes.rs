//! Reports that a transaction may have committed. A dedicated connection polls the snapshot and
//! listens for notifications.
//!
//! A snapshot names the running transactions. It changes once one of them has ended, so we miss no
//! transaction that wrote anything. We also report transactions that wrote something else.
//! Notifications (PostgreSQL manual, "NOTIFY") arrive without a poll.
//!
//! If followers read only rows of transactions that have ended, we also report a [`Wait`] for the
//! oldest running transaction, which holds back later rows.
//!
//! After a change we poll more often for a while. The new rows may not be readable until older
//! transactions have ended, and no notification tells us when.

use std::sync::Arc;
use std::time::Duration;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{DataRowBody, Message};
use postgres_protocol::message::frontend;
use rowstream_core::Error;
use rowstream_database::ChangeSource;
use tokio::time::{Instant, timeout, timeout_at};

use super::SourceState;
use super::connect::{Connection, Role};
use super::error::DatabaseError;
use super::waits::Wait;

/// The running transactions: none before the first number, and none from the second one on. A
/// replica's snapshot doesn't name all ended transactions, but its position in the log shows them.
/// We ask for the position first, so that the snapshot includes everything up to it.
const SNAPSHOT: &str = "select concat(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() end); \
     select pg_snapshot_xmin(s)::text, pg_snapshot_xmax(s)::text, s::text from pg_current_snapshot() as s";

/// The session of a transaction, or its name if it's prepared. Other users' sessions are hidden from a
/// role that isn't a member of `pg_read_all_stats`.
const HOLDER: &str = "select format('pid %s of user %s, since %s', pid, usename, \
       to_char(xact_start at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')) \
     from pg_stat_activity where backend_xid::text = '{}' \
     union all select format('prepared as %L by user %s, since %s', gid, owner, \
       to_char(prepared at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')) \
     from pg_prepared_xacts where transaction::text = '{}'";

const UNSEEN: &str =
    "its session isn't visible: it's hidden from this role (`grant pg_read_all_stats`), or this is a replica";

/// After a change, the first pause; each next one is twice as long.
const SOON: Duration = Duration::from_millis(10);

/// The time limit for one poll.
const PATIENCE: Duration = Duration::from_secs(10);

/// The changes of a database, as they happen.
pub struct Changes {
    connection: Connection,
    every: Duration,
    /// True if rows are also read on other hosts, whose commits this one can't see.
    always: bool,
    /// The time until the next poll.
    pause: Duration,
    seen: Option<PollResult>,
    /// We poll more often until all transactions before this one have ended.
    unsettled: u64,
    source: Arc<SourceState>,
    /// True if waits are reported.
    reports: bool,
    wait: Option<Wait>,
}

/// The result of a poll.
#[derive(PartialEq, Eq)]
struct PollResult {
    oldest: u64,
    next: u64,
    text: String,
    /// A replica's position in the log; empty on a primary.
    replayed: String,
}

impl ChangeSource for Changes {
    const IS_LOST_FOR_GOOD: bool = false;

    async fn next(&mut self) -> Result<(), Error> {
        loop {
            let notified = self.wait().await?;
            let asked = timeout(PATIENCE, self.ask()).await;
            let (seen, also_notified) = asked.unwrap_or_else(|_| Err(silent()))?;
            let notified = notified || also_notified;
            let changed = notified || self.always || self.seen.as_ref() != Some(&seen);
            self.pause_after(&seen, changed, notified);
            let also_notified = self.report(&seen).await?;
            self.seen = Some(seen);
            if changed || also_notified {
                return Ok(());
            }
        }
    }

    fn report_waits(&mut self) {
        self.reports = true;
    }
}

impl Changes {
    /// The changes of the database at the other end of `connection`, polled after each `every`.
    ///
    /// If we can't listen, polling must do. Behind a pooler, the backend serves other clients
    /// meanwhile, and a replica gets no notifications.
    ///
    /// # Errors
    /// The server refuses to listen to the channel.
    pub(super) async fn new(
        source: &Arc<SourceState>,
        mut connection: Connection,
        channel: Option<&str>,
        every: Duration,
    ) -> Result<Self, Error> {
        let always = source.hosts.are_replicas();
        if let Some(channel) = channel.filter(|_| connection.can_listen() && !always) {
            let listen = format!("listen \"{}\"", channel.replace('"', "\"\""));
            frontend::query(&listen, &mut connection.wire.write).map_err(unsendable)?;
            connection.until_ready().await?;
        }
        let (source, pause) = (Arc::clone(source), Duration::ZERO);
        Ok(Self {
            connection,
            every,
            always,
            pause,
            seen: None,
            unsettled: 0,
            source,
            reports: false,
            wait: None,
        })
    }

    /// Reports the transaction that holds back rows, if any. Returns true if a notification arrived
    /// meanwhile.
    async fn report(&mut self, seen: &PollResult) -> Result<bool, Error> {
        if !self.reports {
            return Ok(false);
        }
        let SourceState { waits, name, .. } = &*self.source;
        let held_by = (seen.oldest < self.unsettled).then_some(seen.oldest);
        if self.wait.as_ref().map(|wait| wait.transaction) != held_by {
            self.wait = held_by.map(|transaction| Wait::begin(waits, name, transaction));
        }
        let Some(transaction) = self.wait.as_ref().filter(|wait| wait.is_due()).map(|wait| wait.transaction)
        else {
            return Ok(false);
        };
        let asked = timeout(PATIENCE, self.ask_holder(transaction)).await;
        let (holder, notified) = asked.unwrap_or_else(|_| Err(silent()))?;
        if let Some(wait) = &self.wait {
            wait.log(holder.as_deref().unwrap_or(UNSEEN));
        }
        Ok(notified)
    }

    /// Asks for the session or the prepared transaction that a transaction belongs to, if the role
    /// may see it. The second value is true if a notification arrived meanwhile.
    async fn ask_holder(&mut self, transaction: u64) -> Result<(Option<String>, bool), Error> {
        // The catalogs have 32 bits of it.
        let sql = HOLDER.replace("{}", &(transaction & u64::from(u32::MAX)).to_string());
        let wire = &mut self.connection.wire;
        frontend::query(&sql, &mut wire.write).map_err(unsendable)?;
        let (mut holder, mut notified) = (None, false);
        loop {
            let frame = wire.frame().await?;
            match wire.parse(&frame)? {
                Message::DataRow(row) => holder = text(&row, 0).map(str::to_owned),
                Message::NotificationResponse(_) => notified = true,
                Message::ReadyForQuery(_) => return Ok((holder, notified)),
                _ => {}
            }
        }
    }

    fn pause_after(&mut self, seen: &PollResult, changed: bool, notified: bool) {
        if self.always {
            self.pause = self.every;
            return;
        }
        let is_settling = self.pause < self.every && !notified;
        if changed {
            self.unsettled = seen.next;
        }
        self.pause = match seen.oldest < self.unsettled {
            false => self.every,
            true if is_settling => (self.pause * 2).clamp(SOON, self.every),
            true => SOON.min(self.every),
        };
    }

    /// Waits for a notification, but no longer than the pause. Returns true if there was one.
    async fn wait(&mut self) -> Result<bool, Error> {
        let until = Instant::now() + self.pause;
        loop {
            match timeout_at(until, self.connection.wire.frame()).await {
                Err(_) => return Ok(false),
                Ok(frame) => match frame?.tag {
                    b'A' => return Ok(true),
                    b'N' | b'S' => {}
                    _ => return Err(Error::source_unavailable("the database ended the connection")),
                },
            }
        }
    }

    /// Asks for the snapshot. The second value is true if a notification arrived meanwhile.
    async fn ask(&mut self) -> Result<(PollResult, bool), Error> {
        let wire = &mut self.connection.wire;
        frontend::query(SNAPSHOT, &mut wire.write).map_err(unsendable)?;
        let (mut replayed, mut seen, mut notified) = (None, None, false);
        loop {
            let frame = wire.frame().await?;
            match wire.parse(&frame)? {
                Message::DataRow(row) if replayed.is_none() => replayed = text(&row, 0).map(str::to_owned),
                Message::DataRow(row) => seen = PollResult::read(&row, replayed.clone()),
                Message::NotificationResponse(_) => notified = true,
                Message::ErrorResponse(body) => return Err(DatabaseError::new(&body).into_error()),
                Message::ReadyForQuery(_) => break,
                _ => {}
            }
        }
        let seen = seen.ok_or_else(|| Error::protocol("the database sent no snapshot"))?;
        Ok((seen, notified))
    }
}

impl PollResult {
    fn read(row: &DataRowBody, replayed: Option<String>) -> Option<Self> {
        let number = |index| text(row, index)?.parse().ok();
        Some(Self {
            oldest: number(0)?,
            next: number(1)?,
            text: text(row, 2)?.to_owned(),
            replayed: replayed?,
        })
    }
}

/// A field of a row.
fn text(row: &DataRowBody, index: usize) -> Option<&str> {
    let range = row.ranges().nth(index).ok()???;
    std::str::from_utf8(&row.buffer()[range]).ok()
}

impl Connection {
    fn can_listen(&self) -> bool {
        !self.is_pooled && self.role != Role::Replica
    }
}

fn unsendable(cause: std::io::Error) -> Error {
    Error::endpoint("the name of the channel cannot be sent").cause(cause)
}

fn silent() -> Error {
    Error::source_unavailable(format!("the database didn't answer for {PATIENCE:?}"))
}
