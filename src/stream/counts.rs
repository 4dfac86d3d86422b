//! Counts the rows of a response by their place in it. A client can count the elements of the lists
//! that it reads, so they are counted separately from the rows inside of them and beside them.

use super::steps::Step;
use crate::endpoint::Cardinality;
use crate::outcome::{ListCount, RowCounts, RowTotal};

/// The rows of one statement, and of those nested in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatementRows {
    pub(super) cardinality: Cardinality,
    pub(super) rows: u64,
    /// `None` if no statement is nested in it.
    pub(super) nested: Option<u64>,
}

impl StatementRows {
    /// The rows of a statement without nested ones.
    pub(super) fn of(cardinality: Cardinality, rows: u64) -> Self {
        Self { cardinality, rows, nested: None }
    }
}

/// The rows of the statements that have ended.
#[derive(Debug)]
pub(super) struct Counts {
    ended: RowCounts,
    /// The number of lists in the response that aren't inside of rows.
    lists: usize,
    /// The lists that have ended, if there are several.
    ended_lists: Vec<ListCount>,
    /// The number of all rows of the list, if the request asked for it.
    pub(super) total: Option<RowTotal>,
}

impl Counts {
    /// For a response of these steps, before its first row.
    pub(super) fn of(steps: &[Step]) -> Self {
        let is_list = |step: &&Step| match step {
            Step::Rows(rows) => rows.cardinality == Cardinality::Many,
            Step::Nest(nest) => nest.count().cardinality == Cardinality::Many,
            Step::Literal(_)
            | Step::Probe(_)
            | Step::Total(_)
            | Step::Count(_)
            | Step::Next
            | Step::Digest
            | Step::PageEnd(_) => false,
        };
        let lists = steps.iter().filter(is_list).count();
        let nested = steps.iter().any(|step| matches!(step, Step::Nest(_))).then_some(0);
        Self {
            ended: RowCounts { nested, ..RowCounts::default() },
            lists,
            ended_lists: Vec::new(),
            total: None,
        }
    }

    /// Adds the statement `name`, which has ended.
    pub(super) fn end(&mut self, name: &str, count: StatementRows) {
        self.keep(Some(count));
        if self.lists > 1 && count.cardinality == Cardinality::Many {
            self.ended_lists.push(ListCount { name: name.into(), rows: count.rows });
        }
    }

    /// Adds the rows of a statement whose reading has ended.
    pub(super) fn keep(&mut self, count: Option<StatementRows>) {
        self.ended = self.with(count);
    }

    /// The rows so far, with those of the `current` statement.
    pub(super) fn with(&self, current: Option<StatementRows>) -> RowCounts {
        let Some(StatementRows { cardinality, rows, nested }) = current else { return self.ended };
        let is_beside = self.lists > 0 && cardinality != Cardinality::Many;
        let (rows, beside) = if is_beside { (0, rows) } else { (rows, 0) };
        self.ended + RowCounts { rows, nested, beside }
    }

    /// The lists that have ended, if there are several.
    pub(super) fn lists(&self) -> &[ListCount] {
        &self.ended_lists
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(lists: usize) -> Counts {
        Counts { ended: RowCounts::default(), lists, ended_lists: Vec::new(), total: None }
    }

    /// A list of 4 rows with 7 rows inside was reported as 11 rows, so that each client that counted
    /// took the response for truncated.
    #[test]
    fn rows_inside_of_others_are_counted_separately() {
        let mut counts = counts(1);
        let customers = StatementRows { cardinality: Cardinality::Many, rows: 4, nested: Some(7) };
        assert_eq!(counts.with(Some(customers)), RowCounts { rows: 4, nested: Some(7), beside: 0 });
        counts.end("customers", customers);
        counts.end("total", StatementRows::of(Cardinality::Value, 1));
        let all = counts.with(None);
        assert_eq!(all, RowCounts { rows: 4, nested: Some(7), beside: 1 });
        assert_eq!((all.all(), counts.lists()), (12, &[][..]));
    }

    #[test]
    fn several_lists_are_counted_by_name() {
        let mut counts = counts(2);
        counts.end("articles", StatementRows::of(Cardinality::Many, 100));
        counts.end("newest", StatementRows::of(Cardinality::One, 1));
        counts.end("authors", StatementRows::of(Cardinality::Many, 2));
        assert_eq!(counts.with(None), RowCounts { rows: 102, nested: None, beside: 1 });
        let lists: Vec<_> = counts.lists().iter().map(|list| (&*list.name, list.rows)).collect();
        assert_eq!(lists, [("articles", 100), ("authors", 2)]);
    }

    #[test]
    fn without_a_list_all_statements_count() {
        let mut counts = counts(0);
        counts.end("one", StatementRows::of(Cardinality::One, 1));
        assert_eq!(counts.with(Some(StatementRows::of(Cardinality::Value, 1))), RowCounts::of(2));
    }
}
