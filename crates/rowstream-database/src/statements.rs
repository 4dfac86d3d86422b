//! The prepared statements of one connection, by text. The least recently used one is removed
//! first. Those of requests have room of their own, so that they never remove those of files.
//!
//! Sends nothing: the caller closes removed statements on the server.

use std::collections::HashMap;
use std::sync::Arc;

/// How many statements of requests are kept.
const AD_HOC: usize = 64;

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
    ad_hoc: bool,
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
    /// for a while. `ad_hoc` is true for the statement of a request.
    pub fn insert(&mut self, sql: &Arc<str>, prepared: Arc<P>, ad_hoc: bool, mut close: impl FnMut(&P)) {
        let limit = if ad_hoc { AD_HOC } else { self.limit };
        while self.entries.values().filter(|entry| entry.ad_hoc == ad_hoc).count() >= limit {
            let Some(gone) = self.remove_oldest_of(|entry| entry.ad_hoc == ad_hoc) else { break };
            close(&gone);
        }
        self.entries.insert(Arc::clone(sql), Entry { prepared, used: self.clock, ad_hoc });
    }

    /// Removes the least recently used statement that no session holds. The caller closes it.
    pub fn remove_oldest(&mut self) -> Option<Arc<P>> {
        self.remove_oldest_of(|_| true)
    }

    fn remove_oldest_of(&mut self, is_meant: impl Fn(&Entry<P>) -> bool) -> Option<Arc<P>> {
        let is_free = |entry: &Entry<P>| Arc::strong_count(&entry.prepared) == 1 && is_meant(entry);
        let free = self.entries.iter().filter(|(_, entry)| is_free(entry));
        let (sql, _) = free.min_by_key(|(_, entry)| entry.used)?;
        let sql = Arc::clone(sql);
        self.remove(&sql)
    }

    /// Removes a statement. The caller closes it.
    pub fn remove(&mut self, sql: &str) -> Option<Arc<P>> {
        self.entries.remove(sql).map(|entry| entry.prepared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(statements: &mut Statements<()>, sql: &str, ad_hoc: bool) {
        statements.insert(&sql.into(), Arc::new(()), ad_hoc, |()| {});
    }

    #[test]
    fn statements_of_requests_never_remove_those_of_files() {
        let mut statements = Statements::new(2);
        ["a", "b"].iter().for_each(|sql| insert(&mut statements, sql, false));
        (0..1000).for_each(|number| insert(&mut statements, &format!("ad hoc {number}"), true));
        assert_eq!(statements.entries.len(), 2 + AD_HOC);
        assert!(statements.get("a").is_some() && statements.get("ad hoc 999").is_some());
        insert(&mut statements, "c", false);
        assert!(statements.get("b").is_none() && statements.get("c").is_some());
        assert!(statements.get("ad hoc 999").is_some());
    }
}
