//! Caches the descriptions of a source's statements, so that preparing one again doesn't involve a
//! worker.
//!
//! The source owns the cache, so all its connections share it. Tables change, so a description can
//! become outdated. At the first row of each run, the driver compares the description with the
//! columns that the database reports. If they differ, we forget it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rowstream_core::lock::Mutex;
use rowstream_encode::Column;

use super::lookups::DelayMark;
use crate::Statement;

/// A statement and the database's description of it.
#[derive(Debug)]
pub struct StatementDescription<P> {
    /// Its text and types.
    pub statement: Statement,
    /// Its columns.
    pub columns: Arc<[Column]>,
    /// The plan that reads its rows.
    pub plan: P,
    /// See [`Driver::leaves_state`](super::Driver::leaves_state).
    pub leaves_state: bool,
    /// Records if it delays other lookups.
    pub(super) slow: DelayMark,
}

/// The statements of one source.
pub(super) struct StatementCache<P> {
    statements: Mutex<BTreeMap<Statement, Arc<StatementDescription<P>>>>,
    /// How many statements we keep at most.
    capacity: usize,
}

impl<P> StatementCache<P> {
    /// Makes an empty cache.
    pub(super) fn new(capacity: usize) -> Self {
        Self { statements: Mutex::new(BTreeMap::new()), capacity }
    }

    /// Returns the statement's description.
    pub(super) fn get(&self, statement: &Statement) -> Option<Arc<StatementDescription<P>>> {
        self.statements.lock().get(statement).cloned()
    }

    /// Adds a statement if there is room. Endpoints have a fixed set of statements, so none is
    /// evicted.
    pub(super) fn learn(&self, described: &Arc<StatementDescription<P>>) {
        let mut statements = self.statements.lock();
        if statements.len() < self.capacity {
            statements.insert(described.statement.clone(), Arc::clone(described));
        }
    }

    /// Forgets a statement.
    pub(super) fn forget(&self, statement: &Statement) {
        self.statements.lock().remove(statement);
    }
}
