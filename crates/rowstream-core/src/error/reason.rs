//! The reasons of a database to refuse a statement that the server treats differently.

/// A reason. The driver chooses it, because databases have SQLSTATEs, numbers or only texts for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A column isn't known by its name, or several have it.
    Column,
    /// No operator or function has operands of these types.
    NoOperator,
    /// An operator could be one of several types, or isn't a condition.
    Operator,
    /// The order isn't one that `distinct` and `union` allow.
    Order,
    /// Two columns of one order have different collations.
    Collations,
    /// The user lacks a privilege.
    Privilege,
    /// The statement is wrong in another way.
    Statement,
    /// The database lacks a feature.
    Unsupported,
    /// The user may not see the plan of the statement.
    Unexplained,
}
