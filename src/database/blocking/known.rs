//! What is known of a source's statements, so that preparing one again does not ask a worker.
//!
//! It is the source's and not the connection's: what one connection has learnt serves all. What is
//! known may have become wrong, since tables change; a driver compares it with what the database
//! says at the first row of each run, and it is forgotten when the two differ.

use std::collections::HashMap;
use std::sync::Arc;

use rowstream_encode::Column;

use super::lookups::Slow;
use rowstream_core::lock::Mutex;

/// A statement as the database has described it.
#[derive(Debug)]
pub struct Described<P> {
    /// Its text.
    pub sql: Arc<str>,
    /// How many values are bound to it.
    pub placeholders: usize,
    /// Its columns.
    pub columns: Arc<[Column]>,
    /// What its rows are read by.
    pub plan: P,
    /// Whether it holds up other lookups.
    pub(super) slow: Slow,
}

/// The statements of one source, by their text.
pub(super) struct Known<P> {
    statements: Mutex<HashMap<Arc<str>, Arc<Described<P>>>>,
    /// Most statements that are known at a time.
    capacity: usize,
}

impl<P> Known<P> {
    /// Nothing is known yet.
    pub(super) fn new(capacity: usize) -> Self {
        Self { statements: Mutex::new(HashMap::new()), capacity }
    }

    /// What is known of the statement.
    pub(super) fn get(&self, sql: &str) -> Option<Arc<Described<P>>> {
        self.statements.lock().get(sql).cloned()
    }

    /// Remembers a statement, if there is room: endpoints have a fixed set of them.
    pub(super) fn learn(&self, described: &Arc<Described<P>>) {
        let mut statements = self.statements.lock();
        if statements.len() < self.capacity {
            statements.insert(Arc::clone(&described.sql), Arc::clone(described));
        }
    }

    /// Forgets a statement.
    pub(super) fn forget(&self, sql: &str) {
        self.statements.lock().remove(sql);
    }
}
