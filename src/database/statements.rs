//! The prepared statements of one connection, by text; the least recently used one goes first.
//!
//! It sends nothing: what a statement that goes costs on the server is up to the caller.

use std::collections::HashMap;
use std::sync::Arc;

/// Prepared statements, as `P`s.
#[derive(Debug)]
pub(super) struct Statements<P> {
    limit: usize,
    entries: HashMap<Arc<str>, Entry<P>>,
    /// Counts lookups, to tell the recent from the old.
    clock: u64,
}

#[derive(Debug)]
struct Entry<P> {
    prepared: Arc<P>,
    used: u64,
}

impl<P> Statements<P> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), entries: HashMap::new(), clock: 0 }
    }

    pub(super) fn get(&mut self, sql: &str) -> Option<Arc<P>> {
        self.clock += 1;
        let entry = self.entries.get_mut(sql)?;
        entry.used = self.clock;
        Some(Arc::clone(&entry.prepared))
    }

    /// Keeps a statement, and has those closed that have to go. A statement that a session still
    /// holds does not go: it may be yet to run. So a response of many statements exceeds the limit
    /// for its time.
    pub(super) fn insert(&mut self, sql: &Arc<str>, prepared: Arc<P>, mut close: impl FnMut(&P)) {
        while self.entries.len() >= self.limit {
            let Some(gone) = self.remove_oldest() else { break };
            close(&gone);
        }
        self.entries.insert(Arc::clone(sql), Entry { prepared, used: self.clock });
    }

    /// Forgets the least recently used statement that no session holds. It is to be closed.
    pub(super) fn remove_oldest(&mut self) -> Option<Arc<P>> {
        let free = self.entries.iter().filter(|(_, entry)| Arc::strong_count(&entry.prepared) == 1);
        let (sql, _) = free.min_by_key(|(_, entry)| entry.used)?;
        let sql = Arc::clone(sql);
        self.remove(&sql)
    }

    /// Forgets a statement, which is to be closed.
    pub(super) fn remove(&mut self, sql: &str) -> Option<Arc<P>> {
        self.entries.remove(sql).map(|entry| entry.prepared)
    }
}
