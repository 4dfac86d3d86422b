//! `parallel` and `shards`: rows of one table that are read in parts, by several connections of one
//! response or by several requests.
//!
//! A statement can be read so if each of its rows is made of one row of the table: then the rows of
//! the parts together are those of the whole, in any order. What words tell of that is asked here;
//! what only the catalog knows is asked when the statements are prepared.

use std::iter;

use super::{Cardinality, Endpoint};
use crate::Error;
use crate::cursor::Signer;
use crate::database::{self, TableSnapshot};
use crate::params::{AskedShard, BindType, ParamValue};
use crate::sql::dialect::{Dialect, Parts, Placeholders};
use crate::sql::{ByRow, Outline};

/// The most parts of one response.
pub(crate) const MOST: usize = 64;
/// The most shards of a table.
pub(crate) const MOST_SHARDS: usize = 1024;

/// How the rows of an endpoint's only statement are read in parts.
#[derive(Debug, Clone)]
pub struct Parallel {
    /// How many connections read them at most.
    pub parts: usize,
    /// What each of them reads.
    pub divided: Divided,
}

/// How several requests read the rows of an endpoint's only statement.
#[derive(Debug, Clone)]
pub struct Shards {
    /// How many may read them.
    pub most: u32,
    /// What each of them reads.
    pub divided: Divided,
    /// Signs the tokens of snapshots.
    signer: Signer,
}

/// A statement that can be read in parts of its table.
#[derive(Debug, Clone)]
pub struct Divided {
    /// The statement for one part, whose first and last bound are its last two arguments.
    pub query: database::Statement,
    /// The table as the statement names it.
    pub table: String,
    /// What the statement may call.
    pub(crate) functions: Vec<String>,
    /// The key of the file that asks for it.
    pub(crate) key: &'static str,
    /// Where that stands, in bytes.
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
        Ok(Self { parts, divided: Divided::new(endpoint, dialect, ("parallel", offset))? })
    }
}

impl Shards {
    /// Those of an endpoint.
    ///
    /// # Errors
    /// Why it cannot be read so, and what to do.
    pub(super) fn new(
        endpoint: &Endpoint,
        most: u32,
        (dialect, secret): (&'static Dialect, &str),
        offset: usize,
    ) -> Result<Self, (String, String)> {
        let divided = Divided::new(endpoint, dialect, ("shards", offset))?;
        let signer = Signer::new(secret, &["shards", &endpoint.path, &divided.query.sql]);
        Ok(Self { most, divided, signer })
    }

    /// What a request may ask for.
    ///
    /// # Errors
    /// 400: there are not so many shards, or it does not say which snapshot they are of.
    pub(crate) fn check(&self, asked: &AskedShard) -> Result<(), Error> {
        let wrong = |name: &str, why: String| Err(Error::invalid_parameters(vec![(name.to_owned(), why)]));
        if asked.shard.of > self.most {
            return wrong("_shard", format!("there are at most {} shards", self.most));
        }
        if asked.shard.index > 0 && asked.snapshot.is_none() {
            let why = "all shards are of one snapshot: ask for `_shard=1/n` first, whose header `Rowstream-Snapshot` is its token";
            return wrong("_snapshot", why.to_owned());
        }
        Ok(())
    }

    /// The token of a snapshot, of which there are so many shards, for a request with these values.
    pub(crate) fn seal(&self, snapshot: &TableSnapshot, of: u32, values: &[ParamValue]) -> String {
        let mut token = Vec::new();
        self.signer(of, values).seal(&snapshot.to_json(), &mut token);
        String::from_utf8_lossy(&token).into_owned()
    }

    /// The snapshot of a token.
    ///
    /// # Errors
    /// 400: it is none of this endpoint, with as many shards and these values.
    pub(crate) fn open(&self, token: &str, of: u32, values: &[ParamValue]) -> Result<TableSnapshot, Error> {
        let opened = self.signer(of, values).open(token, TableSnapshot::VALUES).ok();
        opened.and_then(TableSnapshot::of_values).ok_or_else(|| {
            let why = "it is no token of this endpoint with these parameters and so many shards";
            Error::invalid_parameters(vec![("_snapshot".to_owned(), why.to_owned())])
        })
    }

    fn signer(&self, of: u32, values: &[ParamValue]) -> Signer {
        self.signer.bind(values.iter().chain(iter::once(&ParamValue::Integer(of.into()))))
    }
}

impl Divided {
    fn new(
        endpoint: &Endpoint,
        dialect: &'static Dialect,
        (key, offset): (&'static str, usize),
    ) -> Result<Self, (String, String)> {
        let refused = |why: &str, hint: &str| {
            Err((
                format!("`{key}` reads the rows of one table in any order, and {why}"),
                format!("leave out {hint}"),
            ))
        };
        let rules = dialect.parts.as_ref().map_err(|no| (no.message.to_owned(), no.hint.to_owned()))?;
        if endpoint.key().is_some() {
            return refused("a cursor needs theirs", &format!("`key`, or `{key}`"));
        }
        if endpoint.per_row().is_some() {
            return refused("calls for them keep theirs", &format!("the calls, or `{key}`"));
        }
        let [statement] = endpoint.statements() else {
            let why = "this endpoint has several statements";
            return refused(why, &format!("`{key}`, or give each an endpoint of its own"));
        };
        if statement.cardinality != Cardinality::Many || statement.opener.is_some() {
            return refused("this endpoint has no list of them", &format!("`{key}`"));
        }
        let outline = Outline::new(&statement.query.sql, dialect);
        let by_row = outline.as_ref().map_or(Err("it cannot be read".to_owned()), Outline::by_row);
        match by_row {
            Ok(by_row) => Ok(Self {
                query: part(&by_row, &statement.query, rules, dialect),
                functions: outline.map_or_else(Vec::new, |outline| outline.functions_or_columns()),
                table: by_row.table,
                key,
                offset,
            }),
            Err(why) => Err((
                format!("this statement cannot be read in parts: {why}"),
                format!("write `select … from TABLE`, with `where …` or without, or leave out `{key}`"),
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
