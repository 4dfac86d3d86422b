//! What is known of a source's statements, so that preparing one again does not ask a worker.
//!
//! It is the source's and not the connection's: what one connection has learnt serves all. What is
//! known may have become wrong, since tables change; a worker compares it with what SQLite says at
//! the first row of each run, and forgets it when the two differ.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rowstream_encode::Column;

use super::plan::Plan;

/// A statement as SQLite has described it.
pub(super) struct Described {
    /// Its text.
    pub(super) sql: Arc<str>,
    /// How many values are bound to it.
    pub(super) placeholders: usize,
    /// Its columns.
    pub(super) columns: Arc<[Column]>,
    /// What their values become.
    pub(super) plans: Box<[Plan]>,
}

impl Described {
    /// The description of a statement with these columns.
    pub(super) fn new(sql: Arc<str>, placeholders: usize, columns: Arc<[Column]>) -> Self {
        let plans = columns.iter().map(|column| Plan::of(&column.type_name)).collect();
        Self { sql, placeholders, columns, plans }
    }
}

/// The statements of one source, by their text.
pub(super) struct Known {
    statements: Mutex<HashMap<Arc<str>, Arc<Described>>>,
    /// Most statements that are known at a time.
    capacity: usize,
}

impl Known {
    /// Nothing is known yet.
    pub(super) fn new(capacity: usize) -> Self {
        Self { statements: Mutex::new(HashMap::new()), capacity }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Described>>> {
        // Nothing under this lock panics half way.
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the statement.
    pub(super) fn get(&self, sql: &str) -> Option<Arc<Described>> {
        self.lock().get(sql).cloned()
    }

    /// Remembers a statement, if there is room: endpoints have a fixed set of them.
    pub(super) fn learn(&self, described: &Arc<Described>) {
        let mut statements = self.lock();
        if statements.len() < self.capacity {
            statements.insert(Arc::clone(&described.sql), Arc::clone(described));
        }
    }

    /// Forgets a statement.
    pub(super) fn forget(&self, sql: &str) {
        self.lock().remove(sql);
    }
}
