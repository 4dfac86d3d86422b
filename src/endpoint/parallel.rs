//! `parallel`: rows of one table that several connections read, each a part of it.
//!
//! A statement can be read so if each of its rows is made of one row of the table: then the rows of
//! the parts together are those of the whole, in any order. What words tell of that is asked here;
//! what only the catalog knows is asked when the statements are prepared.

use super::{Cardinality, Endpoint};
use crate::database;
use crate::params::BindType;
use crate::sql::dialect::{Dialect, Parts, Placeholders};
use crate::sql::{ByRow, Outline};

/// The most parts of one response.
pub(crate) const MOST: usize = 64;

/// How the rows of an endpoint's only statement are read in parts.
#[derive(Debug, Clone)]
pub struct Parallel {
    /// How many connections read them at most.
    pub parts: usize,
    /// The statement for one part, whose first and last bound are its last two arguments.
    pub query: database::Statement,
    /// The table as the statement names it.
    pub table: String,
    /// What the statement may call.
    pub(crate) functions: Vec<String>,
    /// Where the file says so, in bytes.
    pub offset: usize,
}

impl Parallel {
    /// That of an endpoint.
    ///
    /// # Errors
    /// Why it cannot be read so, and what to do.
    pub(crate) fn new(
        endpoint: &Endpoint,
        parts: usize,
        dialect: &'static Dialect,
        offset: usize,
    ) -> Result<Self, (String, String)> {
        let refused = |why: &str, hint: &str| {
            Err((format!("`parallel` reads the rows of one table in any order, and {why}"), hint.to_owned()))
        };
        let rules = dialect.parts.as_ref().map_err(|no| (no.message.to_owned(), no.hint.to_owned()))?;
        if endpoint.key().is_some() {
            return refused("a cursor needs theirs", "leave out `key`, or `parallel`");
        }
        if endpoint.per_row().is_some() {
            return refused("calls for them keep theirs", "leave out the calls, or `parallel`");
        }
        let [statement] = endpoint.statements() else {
            return refused("this endpoint has several statements", "give each an endpoint of its own");
        };
        if statement.cardinality != Cardinality::Many || statement.opener.is_some() {
            return refused("this endpoint has no list of them", "leave it out");
        }
        let outline = Outline::new(&statement.query.sql, dialect);
        let by_row = outline.as_ref().map_or(Err("it cannot be read".to_owned()), Outline::by_row);
        match by_row {
            Ok(by_row) => Ok(Self {
                parts,
                query: part(&by_row, &statement.query, rules, dialect),
                functions: outline.map_or_else(Vec::new, |outline| outline.functions_or_columns()),
                table: by_row.table,
                offset,
            }),
            Err(why) => Err((
                format!("this statement cannot be read in parallel: {why}"),
                "write `select … from TABLE`, with `where …` or without, or leave out `parallel`".to_owned(),
            )),
        }
    }
}

/// The statement for one part of its table.
fn part(
    by_row: &ByRow<'_>,
    whole: &database::Statement,
    rules: &Parts,
    dialect: &'static Dialect,
) -> database::Statement {
    let bound = |number: usize| match dialect.placeholders {
        Placeholders::ByNumber(sign) => format!("{sign}{}", whole.types.len() + number),
        Placeholders::ByOccurrence => "?".to_owned(),
    };
    let [first, between, last] = rules.condition;
    let within = format!("{first}{}{between}{}{last}", bound(1), bound(2));
    let sql = match by_row.condition {
        Some(condition) => format!("{}where ({condition}) and {within}", by_row.head),
        None => format!("{} where {within}", by_row.head),
    };
    let types = whole.types.iter().copied().chain([BindType::Inferred; 2]).collect();
    database::Statement { sql: sql.into(), types }
}
