//! Tables that are rewritten while a response begins.
//!
//! `truncate`, and an `alter table` that rewrites a table, leave rows which a snapshot from before
//! doesn't see (PostgreSQL manual, "Caveats" of concurrency control). In `repeatable read`, the
//! first statement takes the snapshot, before most tables are locked. So several statements
//! first get the locks on their tables, and we compare: a table whose file isn't the one that the
//! snapshot knows was rewritten in between. Then the response begins again.
//!
//! ```text
//!   begin ─ Describe each statement, which locks its tables ─ compare ──┬─ the statements
//!     ▲                                                                 │
//!     └──────────── rollback ◄── a table was rewritten ──────────────┘
//! ```
//!
//! A statement that is a response by itself needs none of this: in `read committed`, PostgreSQL
//! takes its snapshot once it has the locks.

use std::collections::BTreeSet;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use rowstream_core::Error;
use rowstream_core::params::ParamValue;

use super::super::error::DatabaseError;
use super::parts::literal;
use super::{Isolation, Session, column, unsendable};

/// How often a response begins again. Each time, a table was rewritten within milliseconds.
const TRIES: usize = 10;

/// The locked tables that are not as the snapshot knows them (NULL), and the names of those with
/// partitions, which are yet to be locked. A role may lock a table that it may select from. Locks on
/// more than 64 partitions would cost more than they are worth.
const COMPARE: &str = "select case when c.relhassubclass and c.relfilenode is not distinct from \
        coalesce(pg_relation_filenode(c.oid), 0) then format('%I.%I', n.nspname, c.relname) end \
    from (select distinct relation from pg_locks where locktype = 'relation' and pid = pg_backend_pid()) l \
    left join pg_class c on c.oid = l.relation left join pg_namespace n on n.oid = c.relnamespace \
    where c.oid is null \
       or c.relkind in ('r', 'm') and c.relfilenode <> 0 and c.relfilenode <> pg_relation_filenode(c.oid) \
       or c.relkind in ('r', 'p') and c.relhassubclass and has_table_privilege(c.oid, 'select') \
          and (select count(*) from pg_inherits where inhparent = c.oid) <= 64";

/// Tables that a transaction has locked, next to its snapshot.
#[derive(Default)]
struct Comparison {
    /// If one of them was rewritten after the snapshot.
    is_rewritten: bool,
    /// The names of those with partitions.
    parents: BTreeSet<String>,
}

impl Session {
    /// See [`rowstream_database::DatabaseSession::begin`].
    pub(super) async fn begin_snapshot(&mut self) -> Result<(), Error> {
        if self.isolation != Isolation::RepeatableRead || self.connection().other.is_some() {
            return Ok(());
        }
        let mut locked = BTreeSet::new();
        for _ in 0..TRIES {
            self.lock_tables(&locked).await?;
            self.lock_tables_of_functions().await?;
            let mut compared = self.compare().await?;
            compared.parents = compared.parents.difference(&locked).cloned().collect();
            if !compared.is_rewritten && !compared.parents.is_empty() {
                self.simple(&lock(&compared.parents)).await?;
                compared.is_rewritten = self.compare().await?.is_rewritten;
            }
            if !compared.is_rewritten {
                return Ok(());
            }
            locked.extend(compared.parents);
            self.simple("rollback").await?;
        }
        Err(rewritten())
    }

    /// Opens the transaction, unless it is open, and has PostgreSQL lock the tables of the prepared
    /// statements. Those of `first` are locked before the snapshot.
    async fn lock_tables(&mut self, first: &BTreeSet<String>) -> Result<(), Error> {
        let mut messages = BytesMut::new();
        if !self.write_begin(&mut messages)? {
            // Behind a pooler, they were parsed in this transaction.
            return Ok(());
        }
        if !first.is_empty() {
            frontend::query(&lock(first), &mut messages).map_err(unsendable)?;
        }
        let prepared = self.prepared.clone();
        let is_pooled = self.connection().is_pooled;
        if !is_pooled {
            for prepared in &prepared {
                frontend::describe(b'S', &prepared.name, &mut messages).map_err(unsendable)?;
            }
            frontend::sync(&mut messages);
        }
        self.connection().wire.write.unsplit(messages);
        let sent = 1 + u32::from(!first.is_empty()) + u32::from(!is_pooled);
        if let Err(error) = self.description(sent).await? {
            let stale = prepared.iter().filter(|prepared| self.forget_if_stale(prepared, &error)).count();
            return Err(if stale > 0 { error.into_changed() } else { error.into_error() });
        }
        if is_pooled {
            for prepared in &prepared {
                let described = self.describe(&prepared.sent).await?.map_err(DatabaseError::into_error)?;
                let types = self.types_of(&described.fields).await?;
                let columns = described.fields.iter().zip(&types).map(|(field, kind)| column(field, kind));
                if !columns.eq(prepared.columns.iter().cloned()) {
                    return Err(rewritten());
                }
            }
        }
        Ok(())
    }

    /// Has PostgreSQL plan the prepared statements that call functions of users, which locks the
    /// tables of functions that become a part of the statement. A plan for any values leaves no part
    /// out. If a statement can't be planned by itself, its functions lock their tables later.
    async fn lock_tables_of_functions(&mut self) -> Result<(), Error> {
        let plans: Vec<_> = self.prepared.iter().filter_map(|prepared| prepared.plan.clone()).collect();
        if plans.is_empty() {
            return Ok(());
        }
        let force =
            "select current_setting('plan_cache_mode'); set local plan_cache_mode = force_generic_plan";
        let Some(former) = self.attempt(force).await?.and_then(|mut row| row.pop().flatten()) else {
            return Ok(());
        };
        for plan in &plans {
            self.attempt(plan).await?;
        }
        // It may be a setting of the role, which isn't the default.
        self.simple(&format!("select set_config('plan_cache_mode', '{}', true)", literal(&former))).await
    }

    /// Runs statements of our own in a savepoint, and returns the column of their last row. If the
    /// server refuses them, `None`, and the transaction continues with its earlier locks.
    async fn attempt(&mut self, sql: &str) -> Result<Option<Vec<Option<String>>>, Error> {
        let attempted = format!("savepoint attempted; {sql}; release savepoint attempted");
        match self.run(&attempted, 1).await {
            Err(_) if self.connection().status == b'E' => {
                self.simple("rollback to savepoint attempted").await.map(|()| None)
            }
            ended => ended,
        }
    }

    /// Compares the locked tables with the snapshot.
    async fn compare(&mut self) -> Result<Comparison, Error> {
        frontend::query(COMPARE, &mut self.connection().wire.write).map_err(unsendable)?;
        self.answering(1)?;
        let (mut compared, mut failed) = (Comparison::default(), None);
        while self.state.in_flight() > 0 {
            let frame = self.frame().await?;
            match frame.tag {
                b'D' => match self.names(&frame, 1).pop().flatten() {
                    Some(parent) => drop(compared.parents.insert(parent)),
                    None => compared.is_rewritten = true,
                },
                b'E' => failed = Some(self.error_of(&frame)?.into_error()),
                _ => self.note_ready(&frame)?,
            }
        }
        failed.map_or(Ok(compared), Err)
    }

    /// Runs `call`, which opens cursors, and again as long as a table that it reads was rewritten
    /// after the snapshot.
    pub(super) async fn call_on_snapshot(
        &mut self,
        index: usize,
        args: &[&ParamValue],
    ) -> Result<Vec<Vec<Option<String>>>, Error> {
        // Cursors of other calls would be lost.
        let is_first = self.refcursors.is_empty();
        if is_first && self.isolation != Isolation::RepeatableRead {
            if self.connection().status != b'I' {
                self.simple("rollback").await?;
            }
            self.isolation = Isolation::RepeatableRead;
        }
        for _ in 0..TRIES {
            let called = self.call_opener(index, args).await?;
            if self.connection().other.is_some() || !self.compare().await?.is_rewritten {
                return Ok(called);
            }
            if !is_first {
                break;
            }
            self.simple("rollback").await?;
            self.begin_snapshot().await?;
        }
        Err(rewritten())
    }

    /// Runs a statement of our own.
    async fn simple(&mut self, sql: &str) -> Result<(), Error> {
        self.run(sql, 0).await.map(|_| ())
    }
}

fn lock(tables: &BTreeSet<String>) -> String {
    let names: Vec<_> = tables.iter().map(String::as_str).collect();
    format!("lock table {} in access share mode", names.join(", "))
}

fn rewritten() -> Error {
    Error::source_unavailable("a table of the response is being rewritten").hint("try again in a moment")
}
