//! `parallel` and `shards`: read the rows of one table in parts. Several connections of one
//! response, or several requests, read them.
//!
//! A statement can be read in parts if each of its rows is computed from a single row of the table.
//! Then the rows of all parts together are those of the whole, in any order. This module checks
//! what the text of the statement can prove. The catalog is checked when statements are prepared.
//!
//! Shards are requested with a token that contains all about their snapshot, and is signed like a
//! cursor. So any replica can read them, and only PostgreSQL knows if the snapshot still exists.
//! Within a snapshot, each row has a place. If a shard is read in the order of the places, its
//! cursors contain the place of a row, so the statement needs no key.

use std::iter;

use rowstream_core::Error;
use rowstream_core::cursor::{self, KeyTypes, Signer};
use rowstream_core::params::{BindType, ParamValue, RequestedShard, Shard};
use rowstream_core::sql::dialect::{Affixes, Dialect, Parts, Placeholders};
use rowstream_core::sql::{Outline, RowSelect};

use super::{Cardinality, Endpoint, ResponseSettings};
use crate::database::{self, RowPlace, TableSnapshot};

/// The most parts of one response.
pub(crate) const MOST: usize = 64;
/// The most shards of a table.
pub(crate) const MOST_SHARDS: usize = 1024;

/// Reads the rows of an endpoint's only statement in parts.
#[derive(Debug, Clone)]
pub struct ParallelRead {
    /// The most connections that read them.
    pub parts: usize,
    /// The statement for one connection.
    pub divided: PartStatement,
}

/// Lets several requests read the rows of an endpoint's only statement.
#[derive(Debug, Clone)]
pub struct Shards {
    /// The most requests that may read them.
    pub most: u32,
    /// The statement for one request.
    pub divided: PartStatement,
    /// Signs the tokens of snapshots.
    signer: Signer,
}

/// A statement that can be read in parts of its table.
#[derive(Debug, Clone)]
pub struct PartStatement {
    /// The statement for one part. Its last two arguments are the part's first and last bounds.
    pub query: database::Statement,
    /// The same with each row's place as its last column. The database can't use the statement's
    /// own condition to read the rows in another order than that of their places.
    pub(crate) placed: database::Statement,
    /// The table as the statement names it.
    pub table: String,
    /// The functions that the statement may call.
    pub(crate) functions: Vec<String>,
    /// The setting in the file: `parallel` or `shards`.
    pub(crate) key: &'static str,
    /// The setting's offset in the file, in bytes.
    pub offset: usize,
}

impl ParallelRead {
    /// Prepares an endpoint for parallel reads.
    ///
    /// # Errors
    /// The reason why it can't be read in parts, and a hint.
    pub(crate) fn new(
        endpoint: &Endpoint,
        parts: usize,
        dialect: &'static Dialect,
        offset: usize,
    ) -> Result<Self, (String, String)> {
        Ok(Self { parts, divided: PartStatement::new(endpoint, dialect, "parallel", offset)? })
    }
}

impl Shards {
    /// Prepares an endpoint for shards.
    ///
    /// # Errors
    /// The reason why it can't be read in parts, and a hint.
    pub(super) fn new(
        endpoint: &Endpoint,
        most: u32,
        dialect: &'static Dialect,
        secret: &str,
        offset: usize,
    ) -> Result<Self, (String, String)> {
        let divided = PartStatement::new(endpoint, dialect, "shards", offset)?;
        let ResponseSettings { csv, values, .. } = &endpoint.response;
        // After a reload that changes how rows are written, other shards wouldn't fit those before it.
        let form = format!("{csv:?} {values:?}");
        let signer = Signer::new(secret, &["shards", &endpoint.path, &divided.query.sql, &form]);
        Ok(Self { most, divided, signer })
    }

    /// Checks the shard that a request asks for.
    ///
    /// # Errors
    /// 400: there are fewer shards, or the request doesn't name their snapshot.
    pub(crate) fn check(&self, requested: &RequestedShard) -> Result<(), Error> {
        let wrong = |name: &str, why: String| Err(Error::invalid_parameters(vec![(name.to_owned(), why)]));
        if requested.shard.of > self.most {
            return Err(Error::too_many_shards(self.most));
        }
        if requested.shard.index > 0 && requested.snapshot.is_none() {
            let why = "all shards read one snapshot: request `_shard=1/n` first, and send its header \
                `Rowstream-Snapshot` as `_snapshot`";
            return wrong("_snapshot", why.to_owned());
        }
        Ok(())
    }

    /// The token for a snapshot with `of` shards, for requests with these values.
    pub(crate) fn seal(&self, snapshot: &TableSnapshot, of: u32, values: &[ParamValue]) -> String {
        let mut token = Vec::new();
        self.signer(of, values).seal(&[&snapshot.to_json()], &mut token);
        String::from_utf8_lossy(&token).into_owned()
    }

    /// Opens the token of a snapshot.
    ///
    /// # Errors
    /// 400: the token isn't for this endpoint with this number of shards and these values.
    pub(crate) fn open(&self, token: &str, of: u32, values: &[ParamValue]) -> Result<TableSnapshot, Error> {
        let opened = self.signer(of, values).open(token);
        opened.and_then(|opened| TableSnapshot::of_values(cursor::values(&opened)?)).ok_or_else(|| {
            let why = "it isn't a token of this endpoint with these parameters and this number of shards, or the \
                endpoint or its settings have changed";
            Error::invalid_parameters(vec![("_snapshot".to_owned(), why.to_owned())])
        })
    }

    /// The place in a shard of this snapshot after which a request reads.
    ///
    /// # Errors
    /// 400: the cursor isn't one of this shard.
    pub(crate) fn place(
        &self,
        cursor: &str,
        shard: Shard,
        snapshot: &TableSnapshot,
        values: &[ParamValue],
    ) -> Result<RowPlace, Error> {
        let position = self.cursors(shard, snapshot, values).position(cursor, 1)?;
        match &position.key[..] {
            [ParamValue::Text(place)] => RowPlace::read(place).ok_or_else(cursor::changed),
            _ => Err(cursor::changed()),
        }
    }

    /// The signer for the cursors of a shard.
    pub(crate) fn cursors(
        &self,
        Shard { index, of }: Shard,
        snapshot: &TableSnapshot,
        values: &[ParamValue],
    ) -> Signer {
        let snapshot = ParamValue::Text(String::from_utf8_lossy(&snapshot.to_json()).into_owned());
        let shard = ParamValue::Integer(index.into());
        self.signer(of, values).bind([("shard", &shard), ("snapshot", &snapshot)].into_iter())
    }

    /// The type of a place, as cursors contain it.
    pub(crate) fn place_type() -> KeyTypes {
        KeyTypes::of(["place"].into_iter())
    }

    fn signer(&self, of: u32, values: &[ParamValue]) -> Signer {
        let of = ParamValue::Integer(of.into());
        let values = values.iter().chain(iter::once(&of));
        self.signer.bind(values.map(|value| ("", value)))
    }
}

impl PartStatement {
    fn new(
        endpoint: &Endpoint,
        dialect: &'static Dialect,
        key: &'static str,
        offset: usize,
    ) -> Result<Self, (String, String)> {
        let refused = |why: &str, hint: &str| {
            Err((
                format!("`{key}` reads the rows of one table in any order, but {why}"),
                format!("leave out {hint}"),
            ))
        };
        let rules = dialect.parts.as_ref().map_err(|no| (no.message.to_owned(), no.hint.to_owned()))?;
        if endpoint.key().is_some() {
            let hint = format!("`{key}`, or `key`: a shard (`shards`) can be resumed without one");
            return refused("a cursor needs an order", &hint);
        }
        if endpoint.per_row().is_some() {
            return refused("calls for each row keep the order", &format!("the calls, or `{key}`"));
        }
        let [statement] = endpoint.statements() else {
            let why = "this endpoint has several statements";
            return refused(why, &format!("`{key}`, or give each an endpoint of its own"));
        };
        if statement.cardinality != Cardinality::Many || statement.opener.is_some() {
            return refused("this endpoint has no list of rows", &format!("`{key}`"));
        }
        let outline = Outline::new(&statement.query.sql, dialect);
        let by_row = outline.as_ref().map_or(Err("it cannot be read".to_owned()), Outline::by_row);
        match by_row {
            Ok(by_row) => Ok(Self {
                query: part(&by_row, &statement.query, rules, dialect, PartColumns::Own),
                placed: part(&by_row, &statement.query, rules, dialect, PartColumns::WithPlace),
                functions: outline.map_or_else(Vec::new, |outline| outline.functions_or_columns()),
                table: by_row.table,
                key,
                offset,
            }),
            Err(why) => Err((
                format!("this statement can't be read in parts: {why}"),
                format!("write `select … from TABLE`, with `where …` or without, or leave out `{key}`"),
            )),
        }
    }
}

/// The columns of the statement for one part.
#[derive(Debug, Clone, Copy)]
enum PartColumns {
    /// Those of the endpoint's statement.
    Own,
    /// And each row's place.
    WithPlace,
}

/// The statement for one part of its table.
fn part(
    by_row: &RowSelect<'_>,
    whole: &database::Statement,
    rules: &Parts,
    dialect: &'static Dialect,
    columns: PartColumns,
) -> database::Statement {
    let bound = |number: usize| match dialect.placeholders {
        Placeholders::ByNumber(sign) => format!("{sign}{}", whole.types.len() + number),
        Placeholders::ByOccurrence => "?".to_owned(),
    };
    let [first, between, last] = rules.condition;
    let within = format!("{first}{}{between}{}{last}", bound(1), bound(2));
    let RowSelect { list, from, .. } = by_row;
    let (place, around) = match columns {
        PartColumns::Own => (String::new(), Affixes { before: "(", behind: ")" }),
        PartColumns::WithPlace => (format!(", {} as rowstream_place ", rules.place), rules.opaque),
    };
    let Affixes { before, behind } = around;
    let sql = match by_row.condition {
        Some(condition) => format!("{list}{place}{from}where {before}{condition}{behind} and {within}"),
        None => format!("{list}{place}{from} where {within}"),
    };
    let types = whole.types.iter().copied().chain([BindType::Inferred; 2]).collect();
    database::Statement { sql: sql.into(), types, ad_hoc: false }
}
