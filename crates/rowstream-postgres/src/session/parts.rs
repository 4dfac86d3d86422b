//! Parts of one table, which several sessions read in parallel from one snapshot.
//!
//! A part is a range of the table's pages. The place of a row (`ctid`) belongs to the snapshot as
//! much as its values do, unless a command rewrites the table (`vacuum full`, `alter table`). So
//! each session locks the table before it asks for its rows.
//!
//! ```text
//!   first     begin ─ lock ─ pg_export_snapshot, pages ──┬─ prepare ─ execute, part 1 ─ rows
//!   further                begin ─ set snapshot ─ lock ──┴─ prepare ─ execute, part n ─ rows
//! ```
//!
//! A shard is one part that a response reads by itself. A session that reads nothing keeps its
//! snapshot ([`super::snapshots`]), for the responses that read the other shards. A shard that was
//! cut continues after the place of a row, in the same snapshot.
//!
//! Invariants:
//! 1. the first session takes its lock before the snapshot: rows that `alter table` has rewritten
//!    are invisible to older snapshots (PostgreSQL manual, "Caveats" of concurrency control);
//! 2. the further sessions take their locks while the first one has its own, and don't wait for
//!    them. Otherwise there could be a deadlock: a command that wants the table exclusively would
//!    wait for the first session, and the further ones would wait for the command. If a lock isn't
//!    free, the response has fewer parts;
//! 3. the ranges are computed once the number of parts is known. They don't overlap, and the last
//!    one has no end;
//! 4. rows end with `None` only after the rows of each session, and with the error of the first
//!    session that fails;
//! 5. a session that reads the snapshot of another response takes the lock before it asks for the
//!    table's file. If that isn't the file of the snapshot, the session reads nothing;
//! 6. rows are by place only if the plan can't be another one than a scan of the table from its
//!    first page to its last. So the session has no parallel workers, and scans don't join those of
//!    others ([`BY_PLACE`]). The statement's own condition is opaque to the planner, so that it can
//!    neither use an index nor become a join. A policy of row security isn't opaque, and a function
//!    that returns a set makes several rows of one place ([`is_by_place`]).

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::future::join_all;
use postgres_protocol::message::frontend;
use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::params::{ParamValue, Shard};
use rowstream_core::pool::{Patience, Priority};
use rowstream_database::{
    Database, DatabaseSession, PartsKind, RowOrder, RowPlace, ShardRead, Snapshot, Statement, TableParts,
    TableSnapshot,
};
use rowstream_encode::Column;

use super::snapshots::{self, Reader};
use super::{Session, unsendable};
use crate::Source;
use crate::value::Row;

/// The fewest pages that are worth a connection: 256 KiB if pages have PostgreSQL's usual size.
const LEAST_PAGES: u64 = 32;
/// The page after the last one that a table can have (`MaxBlockNumber`).
const BEYOND: u64 = 0xFFFF_FFFF;
/// The most rows of one session before the next one that has rows. For most tables, a read buffer
/// holds fewer.
const TURN: u32 = 256;
/// `lock_not_available`
const LOCKED: &str = "55P03";
/// PostgreSQL's errors for a snapshot that isn't exported any more: its file is missing, its
/// exporter has ended or was in another database. Also the error for a table that no longer exists.
const GONE: [&str; 5] = ["22023", "42704", "55000", "0A000", "42P01"];
/// The settings of a transaction whose rows are by place.
const BY_PLACE: &str =
    "; set local synchronize_seqscans = off; set local max_parallel_workers_per_gather = 0";

/// Sessions that each read a part of one table.
pub struct Parts {
    /// The sessions whose rows haven't ended.
    sessions: Vec<Session>,
    snapshot: TableSnapshot,
    /// The part of the first session, and the table's number of parts.
    shard: Shard,
    is_shard: bool,
    /// The place after which the first session reads. `None`: from the start of its part.
    after: Option<RowPlace>,
    is_by_place: bool,
    /// Keeps the snapshot from expiring, if this process keeps it.
    _reader: Option<Reader>,
    /// The session whose rows we return, and how many more before the next session's.
    at: usize,
    left: u32,
}

impl Parts {
    /// Begins with `first`, and takes further connections while some are free and the table has
    /// enough pages for them. There are at most `most` in all.
    pub async fn begin(
        mut first: Session,
        source: &Source,
        priority: Priority,
        client: Client,
        table: &str,
        most: usize,
    ) -> Result<Self, Error> {
        let snapshot = first.export_snapshot(table).await?;
        let worth = usize::try_from(snapshot.pages / LEAST_PAGES).unwrap_or(most);
        let mut further = Vec::new();
        for _ in 1..most.min(worth) {
            further.push(Self::further(source.clone(), priority, client, &snapshot, table));
        }
        let mut sessions = vec![first];
        for session in join_all(further).await {
            sessions.extend(session?);
        }
        let shard = Shard { index: 0, of: sessions.len() as u32 };
        Ok(Self {
            sessions,
            snapshot,
            shard,
            is_shard: false,
            after: None,
            is_by_place: false,
            _reader: None,
            at: 0,
            left: TURN,
        })
    }

    /// A further session that reads the snapshot. `None` if no connection or no lock is free at
    /// once.
    async fn further(
        source: Source,
        priority: Priority,
        client: Client,
        snapshot: &TableSnapshot,
        table: &str,
    ) -> Result<Option<Session>, Error> {
        let Some(mut session) = source.another(priority, client).await else { return Ok(None) };
        match session.read_snapshot(snapshot, table, RowOrder::Any).await {
            Err(error) if error.sqlstate_text() == Some(LOCKED) => Ok(None),
            read => read.map(|_| Some(session)),
        }
    }

    /// A session that reads a shard of a table. It keeps a new snapshot for other responses.
    ///
    /// # Errors
    /// The pool's; 503 if too many snapshots are kept, or a command waits to lock the table
    /// exclusively; 410 if the snapshot isn't kept any more.
    pub async fn of_shard(
        source: &Source,
        ShardRead { table, shard, snapshot: given, after, order }: ShardRead<'_>,
        priority: Priority,
        patience: Patience<'_>,
    ) -> Result<Self, Error> {
        // The keeper's connection is the first. Two responses that each had one and waited for the
        // keeper's could wait for each other.
        let (snapshot, keeper) = match given {
            Some(snapshot) => (snapshot, None),
            None => {
                let room = source.0.snapshots.room()?;
                let mut session = source.acquire(Snapshot::Transaction, priority, patience).await?;
                (session.export_snapshot(table).await?, Some((session, room)))
            }
        };
        // From now on the snapshot doesn't expire.
        let known = source.0.snapshots.reader(&snapshot);
        let mut session = source.acquire(Snapshot::Transaction, priority, patience).await?;
        let is_by_place = session.read_snapshot(&snapshot, table, order).await?;
        let reader = match keeper {
            Some((session, room)) => Some(snapshots::keep(session, room, &snapshot)),
            None => known,
        };
        let sessions = vec![session];
        Ok(Self {
            sessions,
            snapshot,
            shard,
            is_shard: true,
            after,
            is_by_place,
            _reader: reader,
            at: 0,
            left: TURN,
        })
    }

    fn next_turn(&mut self) {
        (self.at, self.left) = ((self.at + 1) % self.sessions.len(), TURN);
    }
}

impl TableParts for Parts {
    type Row<'a> = Row<'a>;

    fn kind(&self) -> PartsKind<'_> {
        match self.is_shard {
            true => PartsKind::Shard { snapshot: &self.snapshot, is_by_place: self.is_by_place },
            false => PartsKind::All(self.sessions.len()),
        }
    }

    fn read_by(&self) -> Option<Instant> {
        self.sessions.iter().filter_map(DatabaseSession::read_by).min()
    }

    async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
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
        columns.ok_or_else(|| Error::protocol("no part is left to read"))
    }

    fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        let Shard { index: first, of } = self.shard;
        for (part, session) in (first..).zip(&mut self.sessions) {
            let bounds = bounds(self.snapshot.pages, part.into(), of.into());
            let [begin, end] = bounds.map(|page| format!("({page},0)"));
            let begin = self.after.map_or(begin, |place| place.next().to_string());
            let bounds = [begin, end].map(ParamValue::Text);
            let args: Vec<_> = args.iter().copied().chain(&bounds).collect();
            session.execute(index, &args);
        }
    }

    fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
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
                // Its connection is free for other requests.
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
}

/// The first page of a part, and the page after its last one. The last part has no end.
fn bounds(pages: u64, part: u64, of: u64) -> [u64; 2] {
    let end = if part + 1 == of { BEYOND } else { pages * (part + 1) / of };
    [pages * part / of, end]
}

impl Session {
    /// Opens the transaction, locks the table so that no command can rewrite it, and exports the
    /// snapshot.
    async fn export_snapshot(&mut self, table: &str) -> Result<TableSnapshot, Error> {
        let sql = format!(
            "{}; lock table {table} in access share mode; \
             select pg_export_snapshot(), pg_relation_size(oid) / current_setting('block_size')::int, \
             pg_relation_filenode(oid) from pg_class where oid = '{}'::regclass and relkind = 'r'",
            self.begin_sql(""),
            literal(table),
        );
        let row = self.run(&sql, 3).await?;
        let exported = row.and_then(|row| TableSnapshot::read(row.into_iter().collect::<Option<Vec<_>>>()?));
        exported.ok_or_else(|| {
            Error::endpoint(format!("{table} isn't a table whose parts can be read"))
                .hint("run `rowstream check`, which reports the reason")
        })
    }

    /// Opens a transaction with that snapshot, and locks the table as well. Returns true if the rows
    /// will be by place.
    ///
    /// # Errors
    /// [`LOCKED`] if the lock isn't free; 410 if the snapshot isn't kept any more.
    async fn read_snapshot(
        &mut self,
        snapshot: &TableSnapshot,
        table: &str,
        order: RowOrder<'_>,
    ) -> Result<bool, Error> {
        let (settings, is_by_place) = match order {
            RowOrder::Any => ("", "false".to_owned()),
            RowOrder::ByPlace { functions } => (BY_PLACE, is_by_place(functions)),
        };
        let begin = self.begin_sql(&format!("; set transaction snapshot '{}'", snapshot.id));
        // A role may have other settings, so these are last.
        let sql = format!(
            "{begin}{settings}; lock table {table} in access share mode nowait; \
             select pg_relation_filenode(oid), {is_by_place} from pg_class where oid = '{}'::regclass",
            literal(table),
        );
        let row = match self.run(&sql, 2).await {
            Err(error) if error.sqlstate_text().is_some_and(|state| GONE.contains(&state)) => {
                return Err(TableSnapshot::expired().cause(error));
            }
            ran => ran?,
        };
        let file = snapshot.file.to_string();
        match row.as_deref() {
            Some([Some(of), by_place]) if *of == file => Ok(by_place.as_deref() == Some("t")),
            _ => Err(TableSnapshot::expired().cause("the table was rewritten")),
        }
    }

    /// Runs statements of our own, and returns the texts of their last row.
    pub(super) async fn run(
        &mut self,
        sql: &str,
        columns: usize,
    ) -> Result<Option<Vec<Option<String>>>, Error> {
        frontend::query(sql, &mut self.connection().wire.write).map_err(unsendable)?;
        self.answering(1)?;
        let (mut row, mut failed) = (None, None);
        while self.state.in_flight() > 0 {
            let frame = self.frame().await?;
            match frame.tag {
                b'D' => row = Some(self.names(&frame, columns)),
                b'E' => failed = Some(self.error_of(&frame)?.into_error()),
                _ => self.note_ready(&frame)?,
            }
        }
        failed.map_or(Ok(row), Err)
    }
}

/// The condition in the catalog for a table that a statement with these functions reads by place.
fn is_by_place(functions: &[String]) -> String {
    let names: Vec<_> = functions.iter().map(|name| format!("'{}'", literal(name))).collect();
    let one_of_them = format!("any (array[{}]::text[])", names.join(", "));
    format!(
        "relam = (select oid from pg_am where amname = 'heap') and not row_security_active(oid) \
         and not exists (select from pg_proc where proretset \
         and (proname::text = {one_of_them} or '.' || proname = {one_of_them}))"
    )
}

/// The text as it must be between the quotes of an SQL string.
pub(super) fn literal(text: &str) -> String {
    text.replace('\'', "''")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap_and_leave_nothing_out() {
        for pages in [0, 1, 2, 7, 64, 1000, u64::from(u32::MAX)] {
            for of in [1, 2, 3, 8, 1024] {
                let parts: Vec<_> = (0..of).map(|part| bounds(pages, part, of)).collect();
                assert_eq!((parts[0][0], parts[parts.len() - 1][1]), (0, BEYOND));
                assert!(parts.windows(2).all(|pair| pair[0][1] == pair[1][0]), "{pages} pages, {of} parts");
                assert!(parts.iter().all(|[first, end]| first <= end), "{pages} pages, {of} parts");
            }
        }
    }
}
