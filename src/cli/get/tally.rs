//! The progress of a download, which may consist of several requests side by side.

use std::cell::RefCell;

use super::super::progress::Progress;

pub(super) struct Tally {
    pub(super) progress: Progress,
    parts: RefCell<Vec<PartTally>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct PartTally {
    rows: u64,
    bytes: u64,
    /// The bytes that needn't be requested again.
    safe: u64,
}

impl Tally {
    /// The progress of one request.
    pub(super) fn new(progress: Progress) -> Self {
        Self { progress, parts: RefCell::new(vec![PartTally::default()]) }
    }

    /// Begins again, with this many requests.
    pub(super) fn restart(&self, parts: usize) {
        self.parts.replace(vec![PartTally::default(); parts]);
    }

    /// Shows the rows and bytes of a part with those of the others. `all` is the number of its
    /// bytes at the end, if it's known.
    pub(super) fn show(&self, part: usize, rows: u64, bytes: u64, all: Option<u64>) {
        let mut parts = self.parts.borrow_mut();
        (parts[part].rows, parts[part].bytes) = (rows, bytes);
        let all = all.filter(|_| parts.len() == 1);
        let sum = |of: fn(&PartTally) -> u64| parts.iter().map(of).sum();
        self.progress.show(sum(|part| part.rows), sum(|part| part.bytes), all);
    }

    /// Records the bytes of a part that needn't be requested again.
    pub(super) fn keep(&self, part: usize, safe: u64) {
        self.parts.borrow_mut()[part].safe = safe;
    }

    /// The bytes of all parts that needn't be requested again.
    pub(super) fn safe(&self) -> u64 {
        self.parts.borrow().iter().map(|part| part.safe).sum()
    }
}
