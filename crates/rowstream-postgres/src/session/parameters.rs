//! The types of a statement's parameters: those that PostgreSQL infers from the statement, and the
//! declared one for a parameter that nothing determines.
//!
//! PostgreSQL goes first, because a declared type can be too much: `char(3) = $1` with a text
//! compares blanks that `char(3)` doesn't have, and `f($1)` of an `integer` isn't found for a
//! `bigint`. Each place of a parameter has its own type, as a literal would ([`Numbering`]).
//!
//! PostgreSQL says text of a parameter that meets nothing with a type (`$1 > $2`), as of one that is
//! compared with a text: then 9 would be more than 10. So if it says text of a parameter that was
//! declared as something else, we try the declared type, and keep it unless PostgreSQL refuses the
//! statement with it.
//!
//! So we do with a list that PostgreSQL takes for one value, as in `name in ($1)`. If PostgreSQL refuses
//! it as an array, we refuse the statement, because the value would be the text `{a,b}`: no row would be
//! equal to it, and every row different.

use std::sync::Arc;

use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::ParameterDescriptionBody;
use rowstream_core::Error;
use rowstream_core::params::{BindType, ParamType};
use rowstream_database::Statement;

use super::super::dialect::DIALECT;
use super::super::error::DatabaseError;
use super::super::statement::{SentStatement, parameter_type};
use super::numbering::Numbering;
use super::{COMPOSITES, Field, Session, of_composite};

/// A statement that the server has parsed.
pub(super) struct ParsedStatement {
    /// Its name there.
    pub(super) name: String,
    /// The types of its parameters.
    pub(super) parameters: Vec<u32>,
    pub(super) fields: Vec<Field>,
}

impl ParsedStatement {
    /// Made from the server's answers: the types of the parameters, and the columns.
    pub(super) fn new(name: String, parameters: Vec<u32>, fields: Option<Vec<Field>>) -> Result<Self, Error> {
        match fields {
            Some(_) if parameters.iter().any(|oid| COMPOSITES.contains(oid)) => Err(of_composite()),
            Some(fields) => Ok(Self { name, parameters, fields }),
            None => Err(Error::endpoint("the statement has no result: only queries can be streamed")),
        }
    }
}

impl Session {
    /// Parses the statement on the server, with its final numbers and types.
    pub(super) async fn describe_typed(
        &mut self,
        statement: &Statement,
    ) -> Result<(Arc<SentStatement>, ParsedStatement), Error> {
        if let Some(sent) = self.explained(statement).await {
            let described = self.describe(&sent).await?;
            return match described {
                Ok(described) => Ok((Arc::new(sent), described)),
                Err(refused) => Err(refused.into_refusal(None)),
            };
        }
        self.describe_inferred(statement).await
    }

    /// For `explain …`: the numbering of the explained statement. PostgreSQL infers other types for
    /// an `explain`, so its plan wouldn't be the statement's. `None` if this isn't an `explain`, or
    /// if the explained statement can't be described by itself.
    async fn explained(&mut self, statement: &Statement) -> Option<SentStatement> {
        let explain = DIALECT.explain?;
        let sql = statement.sql.strip_prefix(explain)?;
        let explained =
            Statement { sql: sql.into(), types: statement.types.clone(), ad_hoc: statement.ad_hoc };
        let (sent, described) = self.describe_inferred(&explained).await.ok()?;
        let text = [explain, &sent.text].concat().into();
        Some(SentStatement { text, types: described.parameters, arguments: sent.arguments.clone() })
    }

    /// Parses the statement with a numbering that PostgreSQL accepts. If we don't know one yet, we
    /// find it by trial, and remember it.
    async fn describe_inferred(
        &mut self,
        statement: &Statement,
    ) -> Result<(Arc<SentStatement>, ParsedStatement), Error> {
        if let Some(known) = self.shared.descriptions.sent(statement)
            && let Ok(described) = self.describe(&known).await?
        {
            return Ok((known, described));
        }
        let plain = Numbering::of(statement);
        let split = plain.clone().split();
        let found = match split == plain {
            true => self.find(statement, plain).await?,
            false => match self.find(statement, split).await? {
                Ok((numbering, described)) => self.merge(statement, numbering, described).await?,
                Err(_) => self.find(statement, plain).await?,
            },
        };
        let (numbering, described) = found?;
        let (numbering, described) = self.describe_declared_texts(statement, numbering, described).await?;
        let sent = Arc::new(numbering.sent(&statement.sql));
        if !statement.ad_hoc {
            self.shared.descriptions.learn_sent(statement, &sent);
        }
        Ok((sent, described))
    }

    /// Begins with a numbering, and follows PostgreSQL's errors to one that it accepts. Otherwise
    /// returns the error to show.
    async fn find(
        &mut self,
        statement: &Statement,
        mut numbering: Numbering,
    ) -> Result<NumberingResult, Error> {
        // Later errors may be those of a type that we tried.
        let mut first = None;
        loop {
            let sent = numbering.sent(&statement.sql);
            let refused = match self.describe(&sent).await? {
                Ok(described) => return Ok(Ok((numbering, described))),
                Err(refused) => refused,
            };
            let at = numbering.place_of(&refused, &sent);
            let next = match &*refused.sqlstate {
                AMBIGUOUS => self.disambiguate(statement, &numbering, at).await?,
                "42P18" | "42P08" => numbering.follow(&refused, at, &statement.types),
                _ if refused.is_mistyped() => self.declare_one(statement, &numbering, at).await?,
                _ => None,
            };
            let Some(next) = next else {
                let declared = self.describe_declared(statement, refused, at).await?;
                return Ok(declared.map_err(|error| first.unwrap_or(error)));
            };
            numbering = next;
            if first.is_none() && refused.is_mistyped() {
                first = Some(refused.into_refusal(at));
            }
        }
    }

    /// A numbering with further declared types, for a call that could mean several functions or
    /// operators. We declare the type of each place that alone gets PostgreSQL further than `at`.
    async fn disambiguate(
        &mut self,
        statement: &Statement,
        numbering: &Numbering,
        at: Option<usize>,
    ) -> Result<Option<Numbering>, Error> {
        let places = numbering.untyped_places(at, &statement.types);
        let mut decisive = Vec::new();
        for &place in &places {
            let typed = numbering.declared_at(&[place], &statement.types);
            if self.gets_further(statement, &typed, at).await? {
                decisive.push(place);
            }
        }
        let all = numbering.declared_at(&decisive, &statement.types);
        // If there is no such place, a function may need the types of several arguments.
        let next = match (&decisive[..], places.first()) {
            ([], None) => return Ok(None),
            ([], Some(&first)) => numbering.declared_at(&[first], &statement.types),
            ([first, _, ..], _) if !self.gets_further(statement, &all, at).await? => {
                numbering.declared_at(&[*first], &statement.types)
            }
            _ => all,
        };
        Ok(Some(next))
    }

    /// A numbering with one further declared type that PostgreSQL accepts, or with which it gets
    /// further than `at`. It takes a parameter for text in `(select $1)` and `array[$1]`, and doesn't
    /// know the type of a list in `cardinality($1)`. Types of numbers aren't tried, because
    /// `real_column = (select 0.1)` doesn't find 0.1.
    async fn declare_one(
        &mut self,
        statement: &Statement,
        numbering: &Numbering,
        at: Option<usize>,
    ) -> Result<Option<Numbering>, Error> {
        let number = BindType::One(ParamType::Number);
        let mut places = numbering.untyped_places_near(at, &statement.types);
        places.retain(|&place| numbering.declared(place, &statement.types) != number);
        let mut further = None;
        for place in places.into_iter().take(NEAREST) {
            let typed = numbering.declared_at(&[place], &statement.types);
            let sent = typed.sent(&statement.sql);
            match self.describe(&sent).await? {
                Ok(_) => return Ok(Some(typed)),
                Err(refused)
                    if further.is_none() && is_further(&refused, typed.place_of(&refused, &sent), at) =>
                {
                    further = Some(typed);
                }
                Err(_) => {}
            }
        }
        Ok(further)
    }

    /// True if PostgreSQL accepts the statement by a numbering, or doesn't know the type of a parameter
    /// at another place.
    async fn gets_further(
        &mut self,
        statement: &Statement,
        numbering: &Numbering,
        at: Option<usize>,
    ) -> Result<bool, Error> {
        let sent = numbering.sent(&statement.sql);
        Ok(match self.describe(&sent).await? {
            Ok(_) => true,
            Err(refused) => refused.is_undetermined() && numbering.place_of(&refused, &sent) != at,
        })
    }

    /// One number for all places of a parameter that have one type.
    async fn merge(
        &mut self,
        statement: &Statement,
        numbering: Numbering,
        described: ParsedStatement,
    ) -> Result<NumberingResult, Error> {
        let merged = numbering.merged(&described.parameters);
        if merged == numbering {
            return Ok(Ok((numbering, described)));
        }
        match self.describe(&merged.sent(&statement.sql)).await? {
            Ok(described) => Ok(Ok((merged, described))),
            Err(_) => self.find(statement, numbering).await,
        }
    }

    /// Parses the statement once more, with the declared types of the parameters that PostgreSQL
    /// takes for text, unless it refuses one.
    async fn describe_declared_texts(
        &mut self,
        statement: &Statement,
        mut numbering: Numbering,
        described: ParsedStatement,
    ) -> Result<(Numbering, ParsedStatement), Error> {
        let lists = self.single_lists(statement, &numbering, &described).await?;
        let texts = numbering.declared_texts(&described.parameters, &statement.types, &lists);
        if texts.is_empty() {
            return Ok((numbering, described));
        }
        let all = numbering.with(&texts);
        if let Ok(described) = self.describe(&all.sent(&statement.sql)).await? {
            return Ok((all, described));
        }
        for text in texts {
            let more = numbering.with(&[text]);
            if self.describe(&more.sent(&statement.sql)).await?.is_ok() {
                numbering = more;
            }
        }
        // Each attempt has given up the name of the previous one.
        let described =
            self.describe(&numbering.sent(&statement.sql)).await?.map_err(DatabaseError::into_error)?;
        match self.single_lists(statement, &numbering, &described).await?.first() {
            Some(&list) => Err(self.list_as_value(&numbering, &described, list)),
            None => Ok((numbering, described)),
        }
    }

    /// The numbers of lists that PostgreSQL takes for one value. Other servers may have other types.
    async fn single_lists(
        &mut self,
        statement: &Statement,
        numbering: &Numbering,
        described: &ParsedStatement,
    ) -> Result<Vec<usize>, Error> {
        let lists = numbering.lists(&described.parameters, &statement.types);
        if lists.is_empty() || self.connection().other.is_some() {
            return Ok(Vec::new());
        }
        self.learn_types(lists.iter().map(|&(_, oid)| oid)).await?;
        let types = &self.shared.types;
        let single = lists.into_iter().filter(|&(_, oid)| types.is_single(oid));
        Ok(single.map(|(number, _)| number).collect())
    }

    /// The error of a list that PostgreSQL takes for one value, and refuses as an array.
    fn list_as_value(&self, numbering: &Numbering, described: &ParsedStatement, number: usize) -> Error {
        let name = self.shared.types.name(described.parameters[number]);
        let error = Error::endpoint(format!("the list is one value here, of the type `{name}`"));
        let error = error.hint(
            "to compare with each item, write `= any(…)` for `=` and `in`, and `<> all(…)` for `<>` and \
            `not in`; for a function or an operator, `to_jsonb(…)` is its JSON, and `…::text` its text",
        );
        match numbering.start_of(number) {
            Some(place) => error.position(place),
            None => error,
        }
    }

    /// The last attempt, after an error that we couldn't follow: with all declared types, for a
    /// server that doesn't say which parameter it means.
    async fn describe_declared(
        &mut self,
        statement: &Statement,
        refused: DatabaseError,
        at: Option<usize>,
    ) -> Result<NumberingResult, Error> {
        if !refused.is_undetermined() {
            return Ok(Err(refused.into_refusal(at)));
        }
        let types: Vec<_> =
            statement.types.iter().map(|&declared| parameter_type(declared)).enumerate().collect();
        let declared = Numbering::of(statement).with(&types);
        if types.iter().all(|&(_, oid)| oid == 0) {
            return Ok(Err(undeclared(refused.into_refusal(at))));
        }
        let sent = declared.sent(&statement.sql);
        Ok(match self.describe(&sent).await? {
            Ok(described) => Ok((declared, described)),
            Err(refused) => {
                let at = declared.place_of(&refused, &sent);
                let is_undeclared = refused.is_undetermined() && types.iter().any(|&(_, oid)| oid == 0);
                let error = refused.into_refusal(at);
                Err(if is_undeclared { undeclared(error) } else { error })
            }
        })
    }
}

/// A numbering that PostgreSQL accepts with its statement, or the reason why it accepts none.
type NumberingResult = Result<(Numbering, ParsedStatement), Error>;

/// The most places whose declared types are tried after one error.
const NEAREST: usize = 8;

/// True if an error at `place` shows that a type has mended the one at `at`. An operator that refuses
/// an operand before `at` may refuse just that type.
fn is_further(refused: &DatabaseError, place: Option<usize>, at: Option<usize>) -> bool {
    refused.is_undetermined() && place != at || refused.is_mistyped() && place > at
}

/// `ambiguous_function`: several functions or operators could be meant.
const AMBIGUOUS: &str = "42725";

fn undeclared(error: Error) -> Error {
    error.hint(
        "the statement doesn't determine the type of each parameter: write it, as in `-p \
        NAME:integer=VALUE`, `--param NAME:integer` or `:NAME::integer`",
    )
}

/// The server's description of a statement's parameters.
pub(super) fn of_parameters(body: &ParameterDescriptionBody) -> Result<Vec<u32>, Error> {
    body.parameters()
        .collect()
        .map_err(|cause| Error::protocol("the database sent types that cannot be read").cause(cause))
}
