//! Refinements of a list that a request asks for: conditions, an order, columns, and a page.
//! The grammar is PostgREST's, so that its clients can read from us.
//!
//! ```text
//! ?status=eq.PAID&or=(amount.gte.100,customer.in.(3,"Eve, Inc."))
//! &select=id,total:amount&order=created.desc.nullslast,id&limit=100&offset=20
//! ```
//!
//! This module only parses. The list decides later which columns and values are allowed.

mod parse;

pub use parse::{COUNT, RESERVED, is_reserved, read};

pub use crate::sql::Operator;

/// The most conditions of a request. Each can cost the database a reading of the table.
pub const MOST_CONDITIONS: usize = 32;
/// The deepest nesting of `and` and `or`.
pub const DEEPEST: usize = 5;
/// The most values of all `in` of a request.
pub const MOST_VALUES: usize = 1000;
/// The most rows that are counted for a total of [`TotalKind::Estimated`].
pub const MOST_COUNTED: u64 = 10_000;
/// The most columns of an order.
pub const MOST_ORDERED: usize = 8;
/// The most columns of `select`. `*` is all of them.
pub const MOST_SELECTED: usize = 256;

/// The refinements of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refinement {
    /// The conditions. A row has to meet all of them.
    pub conditions: Vec<Condition>,
    /// The columns, in their order. `None`: all.
    pub select: Option<Vec<SelectedColumn>>,
    /// The columns that order the rows. The first one has the highest rank.
    pub order: Vec<OrderTerm>,
    /// How many rows at most.
    pub limit: Option<i64>,
    /// How many rows to leave out at the beginning.
    pub offset: Option<i64>,
    /// How to find the number of rows that meet the conditions. `None`: it isn't stated.
    pub total: Option<TotalKind>,
    /// True if the response is the only row, as an object. The grammar has no word for that.
    pub only_row: bool,
}

/// The ways to find the number of rows that meet the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TotalKind {
    /// They are counted.
    Exact,
    /// The database's planner guesses their number.
    Planned,
    /// [`MOST_COUNTED`] are counted at most. If there are more, the planner guesses.
    Estimated,
}

impl TotalKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Planned, Self::Estimated];

    /// Its name in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Planned => "planned",
            Self::Estimated => "estimated",
        }
    }

    /// The kind of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A condition on a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The column `column` is compared.
    Column {
        /// Its name.
        column: String,
        /// The comparison.
        comparison: Comparison,
    },
    /// All of these. None: true.
    All(Vec<Condition>),
    /// One of these. None: false.
    Any(Vec<Condition>),
    /// Not this one.
    Not(Box<Condition>),
}

/// A comparison of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// With a value.
    With(Operator, String),
    /// With each of these values: one has to be equal.
    In(Vec<String>),
    /// With NULL, true or false.
    Is(Truth),
}

/// The operand of `is`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// `is.null`, and `is.unknown` for booleans.
    Null,
    /// `is.not_null`
    NotNull,
    /// `is.true`
    True,
    /// `is.false`
    False,
}

/// A column of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectedColumn {
    /// `*`: all columns.
    All,
    /// One column.
    One {
        /// Its name in the list.
        column: String,
        /// Its name in the response, if that's another one.
        alias: Option<String>,
    },
}

/// A column that orders the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderTerm {
    /// Its name.
    pub column: String,
    /// True if the greatest value is first.
    pub descending: bool,
    /// True if rows with NULL are first, false if they're last. `None`: where the database puts them.
    pub nulls_first: Option<bool>,
}

#[cfg(test)]
mod tests;
