//! The rows of one shard that a response reads.

use std::fmt;

use rowstream_core::params::Shard;

use super::TableSnapshot;

/// A shard of a table, or the rest of one.
pub struct ShardRead<'a> {
    /// The table as the statement names it.
    pub table: &'a str,
    /// The part of the table.
    pub shard: Shard,
    /// The snapshot to read. `None`: a new one.
    pub snapshot: Option<TableSnapshot>,
    /// Only the rows after this place are read.
    pub after: Option<RowPlace>,
    /// The wanted order of the rows.
    pub order: RowOrder<'a>,
}

/// The order of a shard's rows.
#[derive(Debug, Clone, Copy)]
pub enum RowOrder<'a> {
    /// The plan decides.
    Any,
    /// Each row has a later place than the one before it. If the database can't promise that for a
    /// statement with these functions, the order is [`RowOrder::Any`].
    ByPlace {
        /// See [`rowstream_core::sql::Outline::functions_or_columns`].
        functions: &'a [String],
    },
}

/// The place of a row in its table: PostgreSQL's `ctid`. A row that a snapshot contains keeps its
/// place as long as the snapshot exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPlace {
    page: u32,
    item: u16,
}

impl RowPlace {
    /// Reads `(page,item)`.
    pub fn read(text: &str) -> Option<Self> {
        let (page, item) = text.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
        let place = Self { page: page.parse().ok()?, item: item.parse().ok()? };
        // A page has much fewer rows, so each row has a next place.
        (place.item < u16::MAX).then_some(place)
    }

    /// The place right after this one. It may have no row.
    #[must_use]
    pub fn next(self) -> Self {
        Self { item: self.item + 1, ..self }
    }
}

impl fmt::Display for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.page, self.item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ordered_as_postgresql_orders_them() {
        let place = |text| RowPlace::read(text).unwrap();
        assert!(place("(9,2)") < place("(9,10)") && place("(9,10)") < place("(10,1)"));
        assert_eq!(place("(4294967294,290)").next().to_string(), "(4294967294,291)");
        for wrong in ["", "(1)", "(1,2", "1,2", "(-1,2)", "(1,65535)", "(4294967296,1)", "(1,2);"] {
            assert_eq!(RowPlace::read(wrong), None, "{wrong}");
        }
    }
}
