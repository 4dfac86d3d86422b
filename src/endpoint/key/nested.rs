//! Nested statements of an endpoint with a `key`. They read only the rows whose parents are in the
//! response.
//!
//! Each one is joined to its parents' statement, which [`super::sql`] has wrapped, and brought into
//! the same order. So the rows of both are merged as they stream, whatever the order of the file is:
//!
//! ```sql
//! select rowstream.*, rowstream_parents.rowstream_key_1 as rowstream_path_1 from (
//! select …                          -- the parents, after a cursor and within their limit
//! ) as rowstream_parents join (
//! select …                          -- the nested statement, without its order
//! ) as rowstream on rowstream."author_id" = rowstream_parents."id"
//! order by rowstream_parents."name", rowstream_parents."id", rowstream.title
//! ```
//!
//! The columns of the path follow those of the result. They identify the row's parent: the key of
//! the outermost row, and then the columns that order the rows of each statement between them. If
//! others are nested in the statement, the columns that order its own rows follow. So only the
//! database decides which rows belong together, and never the form of their values.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use rowstream_core::Error;
use rowstream_core::error::Reason;
use rowstream_core::sql::dialect::{Dialect, Placeholders};
use rowstream_core::sql::{Outline, UNIONS, numbered_placeholders};

use super::super::refine::without_order;
use super::super::{Endpoint, NestedRows, Statement};
use super::{KeyColumn, KeyRefusal, RowKey, direction};
use crate::database;

/// The alias of the parents' rows.
const PARENTS: &str = "rowstream_parents";

/// The alias of the rows of the statement itself.
const OWN: &str = "rowstream";

/// A statement nested in the statement with a key, at any depth.
#[derive(Debug, Clone)]
pub struct NestedStatement {
    /// Its index in the endpoint.
    pub statement: usize,
    /// Its rows for the parents of [`RowKey::ordered`].
    pub ordered: database::Statement,
    /// Its rows for the parents of [`RowKey::rest`].
    pub rest: database::Statement,
    /// The number of columns that follow those of its result and identify its parent.
    pub path: usize,
    /// The number of columns that follow these and identify its own row within the parent's.
    pub own: usize,
    /// Orders its rows by the columns that nest it, each together with its parent's. It's prepared and
    /// never runs: the database refuses it if it can't compare the two, because of their collations.
    pub collated: database::Statement,
    /// For each collation, a statement that returns a row if rows would be left out: if only the parent's
    /// column has it. Empty if the database refuses `collated` then.
    pub other_collations: Vec<(&'static str, database::Statement)>,
    /// The arguments that follow those of the parents, as indices of parameters.
    args: Vec<usize>,
}

impl NestedStatement {
    /// The error of columns with different collations. `None` if the error of `collated` is another
    /// one. PostgreSQL's message names the collations.
    pub fn explain_collations(error: &Error, own: &Statement, parent: &str) -> Option<Error> {
        if error.reason() != Some(Reason::Collations) {
            return None;
        }
        let text = error.to_string();
        // The second one is that of the parent.
        let collation = text.split('"').nth(3).map_or_else(|| "…".to_owned(), |name| format!("\"{name}\""));
        Some(Self::collations_differ(own, parent, &collation).state_of(error).cause(text))
    }

    /// The error of columns with another collation than those of the parent, which have this one.
    pub fn collations_differ(own: &Statement, parent: &str, collation: &str) -> Error {
        let pairs = own.nested.as_ref().map_or(&[][..], |nested| &nested.on);
        let hint = match pairs {
            [(column, _)] => format!(
                "give the column the collation that it has in `{parent}`: `{column} collate {collation} as {column}`"
            ),
            _ => {
                let names: Vec<_> = pairs.iter().map(|(column, _)| format!("`{column}`")).collect();
                let names = names.join(", ");
                format!(
                    "one of the columns {names} needs the collation that it has in `{parent}`: write `collate {collation}` after it, and `as` with its name"
                )
            }
        };
        let message =
            "it's nested by a column with another collation than its parent's, so the two can't be compared";
        Error::endpoint(message).hint(hint)
    }

    /// Explains why its rows can't be read for those of a page.
    pub fn explain(&self, error: &Error) -> Error {
        Error::endpoint(format!("its rows can't be read for those of a page: {error}"))
            .hint("it's put into another statement: order it by the names of columns of its result, each with a name of its own, and nest it by columns of the same type")
    }
}

/// The statements nested in `root`, whose rows are those of `ordered` or `rest`.
///
/// # Errors
/// One of them can't be put into another statement.
pub(super) fn read(
    endpoint: &Endpoint,
    root: usize,
    columns: &[KeyColumn],
    dialect: &'static Dialect,
    ordered: &database::Statement,
    rest: &database::Statement,
) -> Result<Vec<NestedStatement>, KeyRefusal> {
    let nest = endpoint.nest(root);
    if nest.len() > 1 && endpoint.follow().is_some() {
        return Err(("rows with lists in them can't be followed", "remove `follow`, or the lists").into());
    }
    let nested = |&statement: &usize| {
        let chain = Chain::read(endpoint, root, statement, dialect)?;
        Ok(NestedStatement {
            statement,
            ordered: chain.below(ordered, columns),
            rest: chain.below(rest, columns),
            collated: chain.collated(ordered),
            other_collations: chain.other_collations(ordered),
            path: chain.path(columns).len() - chain.own(),
            own: chain.own(),
            args: chain.args(),
        })
    };
    nest[1..].iter().map(nested).collect()
}

impl RowKey {
    /// Returns true if this statement is nested in that of the key.
    pub fn has_nested(&self, statement: usize) -> bool {
        self.nested.iter().any(|nested| nested.statement == statement)
    }

    /// The number of columns of this statement that follow those of its result and identify its
    /// parent, and the number of those that then identify its own row.
    pub(crate) fn path_of(&self, statement: usize) -> (usize, usize) {
        let nested = self.nested.iter().find(|nested| nested.statement == statement);
        nested.map_or((0, self.columns.len()), |nested| (nested.path, nested.own))
    }

    /// The statement to run instead of this one for the first rows, and its arguments, if lists are
    /// nested in the rows of the key.
    pub(in crate::endpoint) fn first_read(
        &self,
        statement: usize,
        endpoint: &Endpoint,
    ) -> Option<(&database::Statement, Vec<usize>)> {
        let own = &endpoint.statements()[self.statement].args;
        match statement == self.statement && !self.nested.is_empty() {
            true => Some((&self.ordered, own.clone())),
            false => self.nested_read(statement, own, 0..0),
        }
    }

    /// A nested statement that reads the lists of the rows after a cursor, and its arguments as indices
    /// into the values of a request. `after` is the range of the cursor's values, empty without one.
    /// `own` are the arguments of the statement with the key.
    pub(crate) fn nested_read(
        &self,
        statement: usize,
        own: &[usize],
        after: Range<usize>,
    ) -> Option<(&database::Statement, Vec<usize>)> {
        let nested = self.nested.iter().find(|nested| nested.statement == statement)?;
        let args = nested.args.iter().copied();
        Some(match after.is_empty() {
            true => (&nested.ordered, own.iter().copied().chain(args).collect()),
            false => (&nested.rest, self.rest_args(own, after).chain(args).collect()),
        })
    }
}

/// The statements between the one with the key and a nested one, which is the last of them.
struct Chain<'a> {
    links: Vec<JoinedStatement<'a>>,
    dialect: &'static Dialect,
}

/// A nested statement, prepared for the join with its parents.
struct JoinedStatement<'a> {
    statement: &'a Statement,
    nested: &'a NestedRows,
    /// Its text without its order.
    text: String,
    /// The columns that order its rows, and their directions: those of the file, and then the
    /// parents' columns of the statements nested in it. So rows with equal terms have the same order
    /// in all statements.
    order: Vec<(Cow<'a, str>, &'a str)>,
    /// True if other statements are nested in it.
    has_children: bool,
}

impl<'a> Chain<'a> {
    fn read(
        endpoint: &'a Endpoint,
        root: usize,
        last: usize,
        dialect: &'static Dialect,
    ) -> Result<Self, KeyRefusal> {
        let mut links = Vec::new();
        let mut statement = last;
        while statement != root
            && let Some(parent) = endpoint.parent(statement)
        {
            links.push(JoinedStatement::read(endpoint, statement, dialect)?);
            statement = parent;
        }
        links.reverse();
        Ok(Self { links, dialect })
    }

    fn args(&self) -> Vec<usize> {
        self.links.iter().flat_map(|link| &link.statement.args).copied().collect()
    }

    /// The statement that reads the rows of the last one for these parents.
    fn below(&self, parents: &database::Statement, columns: &[KeyColumn]) -> database::Statement {
        let path = (1..).zip(self.path(columns));
        let path: String =
            path.map(|(number, column)| format!(", {column} as {OWN}_path_{number}")).collect();
        self.joined(&format!("{OWN}.*{path}"), parents, &self.order(columns))
    }

    /// See [`NestedStatement::collated`].
    fn collated(&self, parents: &database::Statement) -> database::Statement {
        let Some(link) = self.links.last() else { return parents.clone() };
        let parent = self.parent_alias(self.links.len() - 1);
        let quoted = |name: &str| self.dialect.quoted(name);
        let pair = |(column, other): &(String, String)| {
            format!("coalesce({OWN}.{}, {parent}.{})", quoted(column), quoted(other))
        };
        self.joined("1", parents, &link.nested.on.iter().map(pair).collect::<Vec<_>>())
    }

    /// See [`NestedStatement::other_collations`].
    fn other_collations(&self, parents: &database::Statement) -> Vec<(&'static str, database::Statement)> {
        let alike = self.dialect.keys.alike.iter();
        alike.filter_map(|(text, name)| Some((*name, self.other_collation(parents, text)?))).collect()
    }

    /// A statement that returns a row if a column of `on` differs from `alike`, and the parent's doesn't. It
    /// compares texts of its own, which have the collations of columns without rows.
    fn other_collation(&self, parents: &database::Statement, alike: &str) -> Option<database::Statement> {
        let link = self.links.last()?;
        let parent = self.parent_alias(self.links.len() - 1);
        let pairs = || (1..).zip(&link.nested.on);
        let columns = pairs().map(|(number, (column, other))| {
            let (own, other) = (self.dialect.quoted(column), self.dialect.quoted(other));
            format!("{OWN}.{own} as own_{number}, {parent}.{other} as other_{number}")
        });
        let columns: Vec<_> = columns.collect();
        let texts: Vec<_> = pairs().map(|_| "'a', 'a'").collect();
        let differs =
            pairs().map(|(number, _)| format!("(own_{number} = '{alike}') < (other_{number} = '{alike}')"));
        let differs: Vec<_> = differs.collect();
        let database::Statement { sql, types, ad_hoc } =
            self.joined(&columns.join(", "), parents, &["1".to_owned()]);
        let sql = format!(
            "select 1 from (\nselect * from (\n{sql}\n) as compared where 1 = 0 union all select {}\n) as {OWN} where {}",
            texts.join(", "),
            differs.join(" or ")
        );
        Some(database::Statement { sql: sql.into(), types, ad_hoc })
    }

    /// The joined statements, with these columns and in this order.
    fn joined(&self, columns: &str, parents: &database::Statement, order: &[String]) -> database::Statement {
        let mut sql = format!("select {columns} from (\n{}\n) as {PARENTS}", parents.sql);
        let mut types = parents.types.clone();
        for (place, link) in self.links.iter().enumerate() {
            let (alias, parent) = (self.alias(place), self.parent_alias(place));
            let text = renumbered(&link.text, types.len(), self.dialect);
            let _ = write!(sql, " join (\n{text}\n) as {alias} on {}", self.pairs(link, &alias, &parent));
            types.extend_from_slice(&link.statement.query.types);
        }
        let _ = write!(sql, "\norder by {}", order.join(", "));
        let ad_hoc = parents.ad_hoc;
        database::Statement { sql: sql.into(), types, ad_hoc }
    }

    /// The columns that identify the parent of a row, and then the row in it.
    fn path(&self, columns: &[KeyColumn]) -> Vec<String> {
        let key = (1..=columns.len()).map(|number| format!("{PARENTS}.{OWN}_key_{number}"));
        let of_link = |(place, link): (usize, &JoinedStatement<'a>)| {
            let alias = self.alias(place);
            link.order.iter().map(move |(column, _)| format!("{alias}.{column}")).collect::<Vec<_>>()
        };
        let parents = self.links.iter().enumerate().filter(|(_, link)| link.has_children);
        key.chain(parents.flat_map(of_link)).collect()
    }

    /// The number of columns that identify the row in its parent.
    fn own(&self) -> usize {
        self.links.last().filter(|link| link.has_children).map_or(0, |link| link.order.len())
    }

    fn alias(&self, place: usize) -> String {
        if place + 1 == self.links.len() { OWN.to_owned() } else { format!("{OWN}_{}", place + 1) }
    }

    fn parent_alias(&self, place: usize) -> String {
        place.checked_sub(1).map_or_else(|| PARENTS.to_owned(), |parent| self.alias(parent))
    }

    /// The condition for the rows that belong together.
    fn pairs(&self, link: &JoinedStatement<'_>, own: &str, parent: &str) -> String {
        let quoted = |name: &str| self.dialect.quoted(name);
        let pair = |(column, other): &(String, String)| {
            format!("{own}.{} = {parent}.{}", quoted(column), quoted(other))
        };
        link.nested.on.iter().map(pair).collect::<Vec<_>>().join(" and ")
    }

    /// The terms of the order: those of the key, and then those of each statement.
    fn order(&self, columns: &[KeyColumn]) -> Vec<String> {
        let of_key = |column: &KeyColumn| {
            format!("{PARENTS}.{}{}", self.dialect.quoted(&column.name), direction(column))
        };
        let of_link = |(place, link): (usize, &JoinedStatement<'a>)| {
            let alias = self.alias(place);
            let term =
                move |(column, direction): &(Cow<'_, str>, &str)| format!("{alias}.{column}{direction}");
            link.order.iter().map(term).collect::<Vec<_>>()
        };
        let links = self.links.iter().enumerate().flat_map(of_link);
        columns.iter().map(of_key).chain(links).collect()
    }
}

impl<'a> JoinedStatement<'a> {
    /// # Errors
    /// The statement's order or limit can't be moved.
    fn read(endpoint: &'a Endpoint, index: usize, dialect: &'static Dialect) -> Result<Self, KeyRefusal> {
        let statement = &endpoint.statements()[index];
        let Some(nested) = &statement.nested else {
            return Err(("`key` orders the rows of one list", "remove it").into());
        };
        let refusal = |message: String, hint: &'static str| KeyRefusal {
            offset: Some(nested.offset),
            message: message.into(),
            hint: hint.into(),
        };
        let (name, sql) = (&statement.name, &*statement.query.sql);
        let is_plain = |outline: &Outline<'_>| statement.opener.is_none() && !outline.begins_with_bracket();
        let outline = Outline::new(sql, dialect).filter(is_plain).ok_or_else(|| {
            let message = format!("`{name}` can't be read for the rows of a page");
            refusal(message, "write it as a `select` without brackets around it")
        })?;
        if outline.has_session_variable() {
            let message =
                format!("`{name}` sets variables of its session, so a page would change its values");
            return Err(refusal(message, "use a window function, such as `row_number() over (order by id)`"));
        }
        let has_limited_part = outline.has_outside(&UNIONS) && outline.has_any(&["limit", "fetch"]);
        if outline.has_limit() || has_limited_part {
            let message = format!(
                "`{name}` limits the rows of all its lists together, but is nested in a list with a `key`"
            );
            let hint = "remove its limit: only rows of the parents in the response are read";
            return Err(refusal(message, hint));
        }
        if outline.has_outside(&["for"]) {
            let message = format!("`{name}` ends with `for`, but is put into another statement");
            return Err(refusal(message, "remove it: endpoints only read"));
        }
        let order = outline.order_columns().map_err(|term| {
            let message =
                format!("`{name}` is ordered by `{term}`, which isn't the name of a column of its result");
            refusal(message, "select it with a name, `… as rank`, and order by that name")
        })?;
        let children =
            endpoint.children(index).filter_map(|child| endpoint.statements()[child].nested.as_ref());
        let by_children = children.flat_map(|child| &child.on);
        let by_children: Vec<_> =
            by_children.map(|(_, column)| (Cow::from(dialect.quoted(column)), "")).collect();
        let has_children = !by_children.is_empty();
        let written = order.into_iter().map(|(name, direction)| (Cow::from(name), direction));
        let order = written.chain(by_children).collect();
        Ok(Self { statement, nested, text: without_order(sql, dialect), order, has_children })
    }
}

/// The statement with arguments that follow `before` others.
fn renumbered(sql: &str, before: usize, dialect: &'static Dialect) -> String {
    if dialect.placeholders == Placeholders::ByOccurrence {
        return sql.to_owned();
    }
    let (mut text, mut end) = (String::new(), 0);
    for (place, number) in numbered_placeholders(sql, dialect) {
        text.push_str(&sql[end..place.start]);
        dialect.placeholders.write(before + number, &mut text);
        end = place.end;
    }
    text.push_str(&sql[end..]);
    text
}

#[cfg(test)]
mod tests {
    use rowstream_core::sql::dialect::samples::ANONYMOUS;
    use rowstream_postgres as postgres;

    use super::*;

    #[test]
    fn placeholders_follow_those_of_the_parents() {
        let sql = "select $1, '$1', $2 -- $3";
        assert_eq!(renumbered(sql, 3, &postgres::DIALECT), "select $4, '$1', $5 -- $3");
        assert_eq!(renumbered("select ?, ?", 3, &ANONYMOUS), "select ?, ?");
    }
}
