//! Parts of one table, which several sessions read side by side from one snapshot.
//!
//! A part is a range of the table's pages. Where rows lie (`ctid`) is as much a part of the
//! snapshot as what they hold, as long as nothing writes the table anew (`vacuum full`, `alter
//! table`): so each session holds a lock on the table before its own rows are asked for.
//!
//! ```text
//!   first     begin ─ lock ─ pg_export_snapshot, pages ──┬─ prepare ─ execute, part 1 ─ rows
//!   further                begin ─ set snapshot ─ lock ──┴─ prepare ─ execute, part n ─ rows
//! ```
//!
//! Invariants:
//! 1. the first lock is taken before the snapshot: rows that `alter table` has written anew are
//!    invisible to snapshots from before (PostgreSQL manual, "Caveats" of concurrency control);
//! 2. the further locks are taken while the first is held, and none is waited for: whoever waits to
//!    lock the table alone would wait for the first, and they for it. Where one is not free, the
//!    response has fewer parts;
//! 3. the parts are set once it is known how many there are; they do not overlap, and the
//!    last one has no end;
//! 4. rows end with `None` only after each session's have, and with the error of the first that
//!    fails.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::join_all;
use postgres_protocol::message::frontend;
use rowstream_encode::Column;

use super::{Session, unsendable};
use crate::Error;
use crate::database::postgres::Source;
use crate::database::postgres::value::Row;
use crate::database::{DatabaseSession, Statement};
use crate::params::ParamValue;
use crate::pool::Priority;

/// The fewest pages that are worth a connection: 256 KiB in PostgreSQL's usual pages.
const LEAST_PAGES: u64 = 32;
/// A page beyond all that a table can have (`MaxBlockNumber` is the one before).
const BEYOND: u64 = 0xFFFF_FFFF;
/// Rows of one session before it is the turn of the next, where that has some. More than a read
/// buffer holds of most tables.
const TURN: u32 = 256;
/// `lock_not_available`
const LOCKED: &str = "55P03";

/// Sessions that each read a part of one table.
pub struct Parts {
    /// Those whose rows have not ended.
    sessions: Vec<Session>,
    pages: u64,
    /// Whose turn it is, and for how many rows.
    at: usize,
    left: u32,
}

/// What the further sessions read with.
struct Exported {
    snapshot: String,
    pages: u64,
}

impl Parts {
    /// Begins with `first`, and takes further connections, `most` in all, if there are enough pages
    /// for them and as long as some are free.
    pub(in crate::database::postgres) async fn begin(
        mut first: Session,
        (source, priority): (&Source, Priority),
        table: &str,
        most: usize,
    ) -> Result<Self, Error> {
        let Exported { snapshot, pages } = first.export_snapshot(table).await?;
        let worth = usize::try_from(pages / LEAST_PAGES).unwrap_or(most);
        let mut further = Vec::new();
        for _ in 1..most.min(worth) {
            further.push(Self::further(source.clone(), priority, &snapshot, table));
        }
        let mut sessions = vec![first];
        for session in join_all(further).await {
            sessions.extend(session?);
        }
        Ok(Self { sessions, pages, at: 0, left: TURN })
    }

    /// A further session that reads the snapshot, if there is a connection at once, and the lock.
    async fn further(
        source: Source,
        priority: Priority,
        snapshot: &str,
        table: &str,
    ) -> Result<Option<Session>, Error> {
        let Some(mut session) = source.another(priority).await else { return Ok(None) };
        Ok(session.read_snapshot(snapshot, table).await?.then_some(session))
    }

    /// How many there are.
    pub(in crate::database) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// See [`crate::database::Parts::prepare`].
    pub(in crate::database) async fn prepare(
        &mut self,
        statement: &Statement,
    ) -> Result<Arc<[Column]>, Error> {
        let mut describing = Vec::new();
        for session in &mut self.sessions {
            describing.push(session.prepare(statement));
        }
        let mut columns: Option<Arc<[Column]>> = None;
        for described in join_all(describing).await {
            let described = described?;
            if columns.as_ref().is_some_and(|columns| *columns != described) {
                return Err(Error::protocol("the database described one statement in several ways"));
            }
            columns = Some(described);
        }
        columns.ok_or_else(|| Error::protocol("there is no part to be read"))
    }

    /// See [`crate::database::Parts::execute`].
    pub(in crate::database) fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        let count = self.sessions.len() as u64;
        for (part, session) in (0..).zip(&mut self.sessions) {
            let last = if part + 1 == count { BEYOND } else { self.pages * (part + 1) / count };
            let bounds =
                [self.pages * part / count, last].map(|page| ParamValue::Text(format!("({page},0)")));
            let args: Vec<_> = args.iter().copied().chain(&bounds).collect();
            session.execute(index, &args);
        }
    }

    /// See [`crate::database::Parts::poll_row`].
    pub(in crate::database) fn poll_row(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Row<'_>>, Error>> {
        let mut pending = 0;
        while pending < self.sessions.len() {
            match self.sessions[self.at].poll_row_frame(cx)? {
                Poll::Ready(Some(frame)) => {
                    let at = self.at;
                    self.left -= 1;
                    if self.left == 0 {
                        self.next_turn();
                    }
                    return Poll::Ready(self.sessions[at].row(&frame).map(Some));
                }
                // Its connection is free for others.
                Poll::Ready(None) => {
                    self.sessions.remove(self.at);
                    (self.at, self.left, pending) =
                        (if self.at < self.sessions.len() { self.at } else { 0 }, TURN, 0);
                }
                Poll::Pending => {
                    pending += 1;
                    self.next_turn();
                }
            }
        }
        if self.sessions.is_empty() { Poll::Ready(Ok(None)) } else { Poll::Pending }
    }

    fn next_turn(&mut self) {
        (self.at, self.left) = ((self.at + 1) % self.sessions.len(), TURN);
    }
}

impl Session {
    /// Opens the transaction, locks the table against being written anew, and exports the snapshot.
    async fn export_snapshot(&mut self, table: &str) -> Result<Exported, Error> {
        let name = table.replace('\'', "''");
        let sql = format!(
            "{}; lock table {table} in access share mode; \
             select pg_export_snapshot(), pg_relation_size(oid) / current_setting('block_size')::int \
             from pg_class where oid = '{name}'::regclass and relkind = 'r'",
            self.begin_sql(""),
        );
        let row = self.run(&sql, 2).await?;
        let exported = row.and_then(|row| {
            let [snapshot, pages] = <[_; 2]>::try_from(row).ok()?;
            Some(Exported { snapshot: snapshot?, pages: pages?.parse().ok()? })
        });
        exported.ok_or_else(|| {
            Error::endpoint(format!("{table} is no table whose parts can be read"))
                .hint("run `rowstream check`, which says why")
        })
    }

    /// Opens a transaction of that snapshot, and locks the table as well. Whether that could be
    /// done at once.
    async fn read_snapshot(&mut self, snapshot: &str, table: &str) -> Result<bool, Error> {
        let begin = self.begin_sql(&format!("; set transaction snapshot '{snapshot}'"));
        let sql = format!("{begin}; lock table {table} in access share mode nowait");
        match self.run(&sql, 0).await {
            Err(error) if error.sqlstate_text() == Some(LOCKED) => Ok(false),
            ran => ran.map(|_| true),
        }
    }

    /// What opens the transaction, with `then` before the role, as nothing may be read before it.
    fn begin_sql(&mut self, then: &str) -> String {
        let is_pooled = self.connection().is_pooled;
        let role = self.actor.as_ref().map_or("", |actor| actor.sql());
        [self.shared.hosts.begin(is_pooled), then, role].concat()
    }

    /// Runs statements of our own, and returns the texts of their last row.
    async fn run(&mut self, sql: &str, columns: usize) -> Result<Option<Vec<Option<String>>>, Error> {
        frontend::query(sql, &mut self.connection().wire.write).map_err(unsendable)?;
        self.answering(1)?;
        let (mut row, mut failed) = (None, None);
        while self.state.in_flight() > 0 {
            let frame = self.frame().await?;
            match frame.tag {
                b'D' => row = Some(self.names(&frame, columns)),
                b'E' => failed = Some(self.error_of(&frame)?.into_error(None)),
                _ => self.note_ready(&frame)?,
            }
        }
        failed.map_or(Ok(row), Err)
    }
}
