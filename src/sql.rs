//! Finds the named parameters of a statement: a lexer that knows where SQL text is not SQL.

/// Whose SQL it is: the dialects differ in what quotes, comments and brackets mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL: nested comments, dollar quotes, `E''` strings, brackets are subscripts; placeholders `$1`.
    Postgres,
    /// SQLite: comments do not nest, brackets and backticks quote identifiers; placeholders `?1`.
    Sqlite,
}

/// A statement whose named parameters have become positional ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sql {
    /// The text for the database, with `$1` or `?1` for each parameter.
    pub text: String,
    /// The names in the order of their positions, each once.
    pub names: Vec<String>,
    /// For each piece copied from the original: where it begins in `text`, and where in the original, in bytes.
    pub pieces: Vec<(usize, usize)>,
}
