//! The place that a stream has reached in the list with the key.

use super::cursors::Cursors;
use crate::completeness::page::PageEnd;

/// The place after the last list that has ended. Until then, the place at which the stream began.
#[derive(Debug, Default)]
pub(super) struct StreamPosition {
    /// The cursor that begins a new page after the rows so far.
    pub(super) next: Option<String>,
    /// The cursor that continues the list. It differs from `next` if the list has a limit.
    pub(super) resume: Option<String>,
    /// True if the list has ended with a row.
    pub(super) has_moved: bool,
    /// True if the list had rows, and its limit may have cut others off.
    pub(super) may_have_more: bool,
    /// The end of the page, if the list has a known limit.
    pub(super) page: Option<PageEnd>,
}

impl StreamPosition {
    /// Moves to the end of a list with these `rows`. `page` is its limit, if its end is reported.
    pub(super) fn end_list(&mut self, cursors: Option<&Cursors>, page: Option<u64>, rows: u64) {
        if let Some(cursors) = cursors {
            self.may_have_more = cursors.may_have_more(rows);
            let last = cursors.at_end();
            self.has_moved |= last.is_some();
            self.next = last.or(self.next.take());
            self.resume = cursors.within(rows).or(self.resume.take());
        }
        if let Some(limit) = page {
            let page_end = |cursors: &Cursors| cursors.page_end(limit, rows);
            self.page = cursors.map_or_else(|| PageEnd::of(limit, rows), page_end);
        }
    }

    /// The cursor that begins the next page, once this one has ended and is full.
    pub(super) fn next_page(&self) -> Option<&str> {
        self.next.as_deref().filter(|_| self.page == Some(PageEnd::Full))
    }
}
