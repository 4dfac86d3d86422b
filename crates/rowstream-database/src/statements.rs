//! The prepared statements of one connection. The least recently used one is removed
//! first. Those of requests have room of their own, so that they never remove those of files.
//!
//! Sends nothing: the caller closes removed statements on the server.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many statements of requests are kept.
const AD_HOC: usize = 64;

/// Prepared statements of type `P`, by their texts, or by all that a driver tells them apart by.
#[derive(Debug)]
pub struct Statements<K, P> {
    limit: usize,
    entries: BTreeMap<K, Entry<P>>,
    /// Counts lookups, to find the least recently used statement.
    clock: u64,
}

#[derive(Debug)]
struct Entry<P> {
    prepared: Arc<P>,
    used: u64,
    ad_hoc: bool,
}

impl<K: Ord + Clone, P> Statements<K, P> {
    /// An empty cache for `limit` statements, at least one.
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), entries: BTreeMap::new(), clock: 0 }
    }

    /// The prepared statement for this key, which is then the most recently used one.
    pub fn get<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<Arc<P>>
    where
        K: Borrow<Q>,
    {
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.clock;
        Some(Arc::clone(&entry.prepared))
    }

    /// Adds a statement, and calls `close` for each one that it removes. A statement that a session
    /// holds may still run, so it stays. So a response with many statements can exceed the limit
    /// for a while. `ad_hoc` is true for the statement of a request.
    pub fn insert(&mut self, key: K, prepared: Arc<P>, ad_hoc: bool, mut close: impl FnMut(&P)) {
        let limit = if ad_hoc { AD_HOC } else { self.limit };
        while self.entries.values().filter(|entry| entry.ad_hoc == ad_hoc).count() >= limit {
            let Some(gone) = self.remove_oldest_of(|entry| entry.ad_hoc == ad_hoc) else { break };
            close(&gone);
        }
        self.entries.insert(key, Entry { prepared, used: self.clock, ad_hoc });
    }

    /// Removes the least recently used statement that no session holds. The caller closes it.
    pub fn remove_oldest(&mut self) -> Option<Arc<P>> {
        self.remove_oldest_of(|_| true)
    }

    fn remove_oldest_of(&mut self, is_meant: impl Fn(&Entry<P>) -> bool) -> Option<Arc<P>> {
        let is_free = |entry: &Entry<P>| Arc::strong_count(&entry.prepared) == 1 && is_meant(entry);
        let free = self.entries.iter().filter(|(_, entry)| is_free(entry));
        let (key, _) = free.min_by_key(|(_, entry)| entry.used)?;
        let key = key.clone();
        self.remove(&key)
    }

    /// Removes a statement. The caller closes it.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<Arc<P>>
    where
        K: Borrow<Q>,
    {
        self.entries.remove(key).map(|entry| entry.prepared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(statements: &mut Statements<Arc<str>, ()>, sql: &str, ad_hoc: bool) {
        statements.insert(sql.into(), Arc::new(()), ad_hoc, |()| {});
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
