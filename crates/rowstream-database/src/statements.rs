//! The prepared statements of one connection, by text. The least recently used one is removed
//! first.
//!
//! Sends nothing: the caller closes removed statements on the server.

use std::collections::HashMap;
use std::sync::Arc;

/// Prepared statements of type `P`.
#[derive(Debug)]
pub struct Statements<P> {
    limit: usize,
    entries: HashMap<Arc<str>, Entry<P>>,
    /// Counts lookups, to find the least recently used statement.
    clock: u64,
}

#[derive(Debug)]
struct Entry<P> {
    prepared: Arc<P>,
    used: u64,
}

impl<P> Statements<P> {
    /// An empty cache for `limit` statements, at least one.
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), entries: HashMap::new(), clock: 0 }
    }

    /// The prepared statement for this text, which is then the most recently used one.
    pub fn get(&mut self, sql: &str) -> Option<Arc<P>> {
        self.clock += 1;
        let entry = self.entries.get_mut(sql)?;
        entry.used = self.clock;
        Some(Arc::clone(&entry.prepared))
    }

    /// Adds a statement, and calls `close` for each one that it removes. A statement that a session
    /// holds may still run, so it stays. So a response with many statements can exceed the limit
    /// for a while.
    pub fn insert(&mut self, sql: &Arc<str>, prepared: Arc<P>, mut close: impl FnMut(&P)) {
        while self.entries.len() >= self.limit {
            let Some(gone) = self.remove_oldest() else { break };
            close(&gone);
        }
        self.entries.insert(Arc::clone(sql), Entry { prepared, used: self.clock });
    }

    /// Removes the least recently used statement that no session holds. The caller closes it.
    pub fn remove_oldest(&mut self) -> Option<Arc<P>> {
        let free = self.entries.iter().filter(|(_, entry)| Arc::strong_count(&entry.prepared) == 1);
        let (sql, _) = free.min_by_key(|(_, entry)| entry.used)?;
        let sql = Arc::clone(sql);
        self.remove(&sql)
    }

    /// Removes a statement. The caller closes it.
    pub fn remove(&mut self, sql: &str) -> Option<Arc<P>> {
        self.entries.remove(sql).map(|entry| entry.prepared)
    }
}
