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
    /// The most bytes so far. Those that are requested again count once.
    reached: u64,
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
        let own = &mut parts[part];
        *own = PartTally { rows, bytes, reached: own.reached.max(bytes), safe: own.safe };
        let all = all.filter(|_| parts.len() == 1);
        let sum = |of: fn(&PartTally) -> u64| parts.iter().map(of).sum();
        self.progress.show(sum(|part| part.rows), sum(|part| part.bytes), all);
    }

    /// Records the bytes of a part that needn't be requested again.
    pub(super) fn keep(&self, part: usize, safe: u64) {
        self.parts.borrow_mut()[part].safe = safe;
    }

    /// The advance that a part has seen: its own bytes that needn't be requested again, and all new
    /// bytes of the others. A part that is cut again and again at the same place doesn't advance.
    pub(super) fn advance(&self, part: usize) -> u64 {
        let parts = self.parts.borrow();
        let of = |(index, tally): (usize, &PartTally)| if index == part { tally.safe } else { tally.reached };
        parts.iter().enumerate().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_advances_by_its_marks_and_by_new_bytes_of_others() {
        let tally = Tally::new(Progress::hidden());
        tally.restart(2);
        tally.show(0, 1, 100, None);
        assert_eq!((tally.advance(0), tally.advance(1)), (0, 100), "no mark yet");
        tally.show(0, 0, 0, None);
        tally.show(0, 1, 90, None);
        assert_eq!(tally.advance(1), 100, "the same bytes, requested again");
        tally.show(0, 2, 120, None);
        tally.keep(0, 110);
        assert_eq!((tally.advance(0), tally.advance(1)), (110, 120));
    }
}
