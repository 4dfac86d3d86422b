//! The operators that requests may compare columns with.

/// An operator with one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Eq,
    /// `<>`
    Neq,
    /// `>`
    Gt,
    /// `>=`
    Gte,
    /// `<`
    Lt,
    /// `<=`
    Lte,
    /// A pattern with `%` (or `*`) and `_`.
    Like,
    /// A pattern that ignores case.
    Ilike,
    /// A regular expression.
    Match,
    /// A regular expression that ignores case.
    Imatch,
    /// The column contains the value.
    Cs,
    /// The value contains the column.
    Cd,
    /// The column and the value overlap.
    Ov,
}

impl Operator {
    /// All operators, in the order of our lists for users.
    pub const ALL: [Self; 13] = [
        Self::Eq,
        Self::Neq,
        Self::Gt,
        Self::Gte,
        Self::Lt,
        Self::Lte,
        Self::Like,
        Self::Ilike,
        Self::Match,
        Self::Imatch,
        Self::Cs,
        Self::Cd,
        Self::Ov,
    ];

    /// Its name in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Neq => "neq",
            Self::Gt => "gt",
            Self::Gte => "gte",
            Self::Lt => "lt",
            Self::Lte => "lte",
            Self::Like => "like",
            Self::Ilike => "ilike",
            Self::Match => "match",
            Self::Imatch => "imatch",
            Self::Cs => "cs",
            Self::Cd => "cd",
            Self::Ov => "ov",
        }
    }

    /// The operator of SQL, if it's a comparison that every database has.
    pub fn sql(self) -> Option<&'static str> {
        Some(match self {
            Self::Eq => "=",
            Self::Neq => "<>",
            Self::Gt => ">",
            Self::Gte => ">=",
            Self::Lt => "<",
            Self::Lte => "<=",
            _ => return None,
        })
    }

    /// The operator with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.name() == name)
    }
}
