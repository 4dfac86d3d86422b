//! The types of a statement's parameters: what the server infers from the statement, and what was
//! declared where that tells nothing.
//!
//! The server comes first, because a declared type can be too much: `char(3) = $1` with a text
//! compares blanks that `char(3)` does not have, and `f($1)` of an `integer` is not found for a
//! `bigint`. But of a parameter that meets nothing with a type (`$1 > $2`) it says text, as of one
//! that is compared with a text: then 9 would be more than 10. So where it says text of what was
//! declared as something else, the declared type is tried, and stays unless the server refuses the
//! statement with it.

use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::ParameterDescriptionBody;

use super::super::statement::{may_differ, parameter_type};
use super::{COMPOSITES, Field, Session, of_composite};
use crate::Error;
use crate::database::Statement;
use crate::params::BindType;

/// A statement that the server has parsed.
pub(super) struct Described {
    /// Its name there.
    pub(super) name: String,
    /// The types of its parameters.
    pub(super) parameters: Vec<u32>,
    pub(super) fields: Vec<Field>,
}

impl Described {
    /// Of what the server has told: the types of the parameters, and the columns.
    pub(super) fn new(
        name: String,
        (parameters, fields): (Vec<u32>, Option<Vec<Field>>),
    ) -> Result<Self, Error> {
        match fields {
            Some(_) if parameters.iter().any(|oid| COMPOSITES.contains(oid)) => Err(of_composite()),
            Some(fields) => Ok(Self { name, parameters, fields }),
            None => Err(Error::endpoint("the statement has no result: only queries can be streamed")),
        }
    }
}

impl Session {
    /// Parses the statement on the server. The types that were sent to the server, and what it has
    /// said.
    pub(super) async fn describe_typed(
        &mut self,
        statement: &Statement,
    ) -> Result<(Vec<u32>, Described), Error> {
        let described = match self.describe(statement, &[]).await {
            Err(error) if is_undetermined(&error) => return self.describe_declared(statement, error).await,
            described => described?,
        };
        let Some(declared) = differing(&statement.types, &described.parameters) else {
            return Ok((Vec::new(), described));
        };
        match self.describe(statement, &declared).await {
            Ok(described) => Ok((declared, described)),
            // It does meet a text. Its name was given up for the second try.
            Err(error) if error.sqlstate_text().is_some() => {
                Ok((Vec::new(), self.describe(statement, &[]).await?))
            }
            Err(error) => Err(error),
        }
    }

    /// With all types that were declared.
    async fn describe_declared(
        &mut self,
        statement: &Statement,
        undetermined: Error,
    ) -> Result<(Vec<u32>, Described), Error> {
        let types: Vec<_> = statement.types.iter().map(|&declared| parameter_type(declared)).collect();
        if types.iter().all(|&oid| oid == 0) {
            return Err(undeclared(undetermined));
        }
        match self.describe(statement, &types).await {
            Err(error) if is_undetermined(&error) && types.contains(&0) => Err(undeclared(error)),
            described => Ok((types, described?)),
        }
    }
}

/// Whether the statement alone does not tell a parameter's type: 42P18 and 42P08 say so, and 42725
/// that several functions or operators could be meant.
fn is_undetermined(error: &Error) -> bool {
    matches!(error.sqlstate_text(), Some("42P18" | "42P08" | "42725"))
}

fn undeclared(error: Error) -> Error {
    error.hint("the statement does not tell the type of each parameter: write it, as in `-p NAME:integer=VALUE`, `--param NAME:integer` or `:NAME::integer`")
}

/// The declared types of those parameters of which the server says text, and which may be none; 0
/// for the others.
fn differing(declared: &[BindType], inferred: &[u32]) -> Option<Vec<u32>> {
    let differs: Vec<_> = declared
        .iter()
        .zip(inferred)
        .map(
            |(&declared, &inferred)| {
                if may_differ(declared, inferred) { parameter_type(declared) } else { 0 }
            },
        )
        .collect();
    differs.iter().any(|&oid| oid != 0).then_some(differs)
}

/// What the server says of a statement's parameters.
pub(super) fn of_parameters(body: &ParameterDescriptionBody) -> Result<Vec<u32>, Error> {
    body.parameters()
        .collect()
        .map_err(|cause| Error::protocol("the database sent types that cannot be read").cause(cause))
}
