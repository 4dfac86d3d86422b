//! The differences between databases, as data. Each database has one [`Dialect`], in its own
//! folder.
//!
//! Code outside `src/database/` never asks for the kind of a database. If a new one differs in
//! another way, add a field here. The compiler then lists the dialects that lack it.

use std::fmt::Write as _;

use super::Operator;

/// The SQL of a database, and the features that it supports.
#[derive(Debug)]
pub struct Dialect {
    /// The name of the database, for messages.
    pub name: &'static str,
    /// The URLs of its sources.
    pub urls: Urls,
    /// The syntax of strings, comments and names.
    pub syntax: Syntax,
    /// The form of a statement's placeholders.
    pub placeholders: Placeholders,
    /// The origin of the parameters' types.
    pub parameter_types: ParameterTypes,
    /// The treatment of a decimal that is bound.
    pub decimals: Decimals,
    /// SQL around a parameter that is the whole limit or offset, so that NULL means "no limit".
    /// `None` if NULL already means that, or if the driver binds another value for it.
    pub null_limit: Option<Affixes>,
    /// The form of a list that is bound.
    pub lists: Lists,
    /// The way to read a statement in the order of a key, and after a given row.
    pub keys: Keys,
    /// The SQL of the conditions and orders that requests ask for.
    pub filters: Result<Filters, Refusal>,
    /// Words that lock rows or write, which a read-only transaction refuses. Empty if there's no such
    /// transaction, or if the database itself refuses these statements early.
    pub writes: &'static [&'static [&'static str]],
    /// The visibility of new rows, which decides how they can be followed.
    pub commits: Commits,
    /// The results that a statement can open for others to read.
    pub refcursors: Result<OpenedResults, Refusal>,
    /// `Ok` if a connection can read several statements side by side, as nested rows require.
    pub interleaved: Result<(), Refusal>,
    /// `Ok` if the statements of a response can read one snapshot.
    pub snapshots: Result<(), Refusal>,
    /// The way to read parts of one table on several connections.
    pub parts: Result<Parts, Refusal>,
    /// SQL that makes the database explain the statement that follows. `None` if there's no such
    /// SQL, or if we don't know it.
    pub explain: Option<&'static str>,
    /// The way to ask how many rows the database expects of a statement. `None` if it doesn't say, or
    /// if we don't know how.
    pub estimate: Option<Estimate>,
    /// The query for unique keys; `None` if we don't ask the catalog for them.
    pub unique_keys: Option<UniqueKeys>,
    /// The query for tables; `None` if we don't ask the catalog for them.
    pub catalog: Option<Catalog>,
}

/// The form of a list that is bound, which decides how a statement compares with its items.
#[derive(Debug, Clone, Copy)]
pub enum Lists {
    /// An array, if the database has arrays. It checks the comparisons of lists itself, if it knows the types
    /// of parameters when it prepares a statement.
    Arrays,
    /// An array whose type the database knows only when the statement runs.
    LateArrays,
    /// A text of JSON. Writes a query of the items of a list, which has this name and this type in its
    /// file.
    Texts(fn(&str, &str) -> String),
}

/// The way to ask how many rows the database expects of a statement.
#[derive(Debug)]
pub struct Estimate {
    /// SQL before the statement. The first column of the first row is its plan, as a text.
    pub explain: &'static str,
    /// Reads the number from the plan. `None` if it isn't there.
    pub rows: fn(&str) -> Option<u64>,
}

/// The way to read parts of one table on several connections.
#[derive(Debug)]
pub struct Parts {
    /// SQL before, between and after the first and the last bound of a part.
    pub condition: [&'static str; 3],
    /// A row's place in the table, as a text. The bounds of a part are places.
    pub place: &'static str,
    /// SQL around a statement's own condition, so that the database can't use it to choose another
    /// order of rows than that of their places.
    pub opaque: Affixes,
    /// Queries about the table as it's written (`$1`) and the functions that its statement may call
    /// (`$2`, see [`super::Outline::functions_or_columns`]). A row means that parts of the table
    /// can't be read, for this reason.
    pub refusals: &'static [(&'static str, Refusal)],
}

/// The reason why a database can't do something, and an alternative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub message: &'static str,
    /// The remedy.
    pub hint: &'static str,
}

/// A result that a statement opens for others to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenedResults {
    /// Refcursors. A reader gets the column of the row that has its name.
    Refcursors,
    /// The results of the procedure that it calls, in their order.
    Results,
}

/// The URLs of a database's sources.
#[derive(Debug)]
pub struct Urls {
    /// The schemes, in lower case.
    pub schemes: &'static [&'static str],
    /// The target after the scheme.
    pub location: Location,
    /// An example of a URL, for hints.
    pub example: &'static str,
    /// Environment variables that fill in parts missing from the URL, as in the database's own
    /// clients.
    pub variables: &'static [&'static str],
    /// Variables and files that the driver reads a password from.
    pub password_places: &'static [&'static str],
}

/// The target of a database's URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// A server: `//user:password@host/database`.
    Server,
    /// A file, by its path relative to the configuration. Nothing in it is secret.
    File,
    /// A driver library or a file, and options. A path is relative to the configuration.
    Driver {
        /// The schemes whose URLs can have the name of a library instead of its path.
        by_name: &'static [&'static str],
    },
    /// A connection string for a driver. Paths in it are up to the driver.
    ConnectionString,
}

/// The syntax of strings, comments and names. `'…'` is always a string. `"…"` is a name, unless
/// [`Strings`] say otherwise. The quote is doubled in both.
#[derive(Debug)]
pub struct Syntax {
    /// The quote around names that the server writes.
    pub quote: char,
    /// The quotes of names, apart from `"…"`.
    pub identifiers: &'static [Quotes],
    /// The forms of strings, apart from `'…'`.
    pub strings: &'static [Strings],
    /// The beginnings of a comment that ends with its line.
    pub line_comments: &'static [LineComment],
    /// The nesting of comments `/* … */`.
    pub block_comments: BlockComments,
    /// The bytes that end a line and its comment.
    pub line_ends: &'static [u8],
    /// The characters before the name or number of the database's own parameters.
    pub variables: &'static [u8],
    /// The comparison of names.
    pub names: Names,
}

/// The quotes of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    /// The same quote on both sides, and doubled inside.
    Doubled(u8),
    /// An opening and a closing quote. The name can't contain the closing one.
    Pair(u8, u8),
}

impl Syntax {
    /// The quotes, apart from `"…"`, that `first` opens.
    pub(super) fn quotes(&self, first: u8) -> Option<Quotes> {
        let opens = |quotes: &Quotes| match *quotes {
            Quotes::Doubled(open) | Quotes::Pair(open, _) => open == first,
        };
        self.identifiers.iter().copied().find(opens)
    }
}

/// Forms of strings that not every database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strings {
    /// `E'…'`, with backslash escapes.
    Escape,
    /// `$tag$…$tag$`.
    Dollar,
    /// `'…'` and `"…"` are both strings with backslash escapes.
    Backslash,
}

/// The beginning of a comment that ends with its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineComment {
    /// `--`.
    Dashes,
    /// `--` before a blank or a line end. Otherwise they're two minus signs.
    DashesAndBlank,
    /// `#`.
    Hash,
}

/// Comments between `/*` and `*/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockComments {
    /// They nest.
    Nested,
    /// The first `*/` ends it.
    Flat,
    /// Like `Flat`, but some versions execute the text in `/*! … */` and `/*M! … */`.
    FlatOrExecuted,
}

/// The comparison of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Case matters in quotes. Other names are folded to lower case.
    Exact,
    /// Case doesn't matter, even in quotes.
    Caseless,
}

/// The form of a statement's placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholders {
    /// By number, after this character (`$1`, `?1`). A parameter is sent once, even if it's
    /// repeated.
    ByNumber(char),
    /// By occurrence, each a `?`. Arguments are sent in the order of the text, and repeated like
    /// it.
    ByOccurrence,
}

impl Placeholders {
    /// Writes the placeholder of the argument `number`, from 1.
    pub fn write(self, number: usize, sql: &mut String) {
        let _ = match self {
            Self::ByNumber(sigil) => write!(sql, "{sigil}{number}"),
            Self::ByOccurrence => write!(sql, "?"),
        };
    }

    /// The number of the argument for the placeholder `text`, with `before` placeholders in front
    /// of it.
    pub(super) fn number(self, text: &str, before: usize) -> Option<usize> {
        match self {
            Self::ByNumber(sigil) => text.strip_prefix(sigil)?.parse().ok(),
            Self::ByOccurrence => Some(before + 1),
        }
    }
}

/// The origin of a statement's parameter types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterTypes {
    /// The database infers those that aren't declared.
    Inferred,
    /// The endpoint declares them. The database compares values of any types, so a wrong type would
    /// silently return a wrong answer.
    Declared,
}

/// The treatment of a decimal that is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decimals {
    /// The value is kept if it has at most this many digits.
    Exact(usize),
    /// Beyond 64-bit integers, the value is rounded.
    Rounded,
}

/// SQL before and after an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affixes {
    /// Before it.
    pub before: &'static str,
    /// After it.
    pub behind: &'static str,
}

impl Affixes {
    /// Nothing on either side.
    pub const NOTHING: Self = Self { before: "", behind: "" };

    /// Writes the output of `inner` with this around it.
    pub fn write(self, sql: &mut String, inner: impl FnOnce(&mut String)) {
        sql.push_str(self.before);
        inner(sql);
        sql.push_str(self.behind);
    }
}

/// The way to read a statement in the order of a key, and after a given row.
#[derive(Debug)]
pub struct Keys {
    /// Converts a column to the form stored in a cursor: its value as the database compares it, in
    /// a type that formats don't rewrite.
    pub cast: Affixes,
    /// Converts a column of a `union` to its value as it's sorted, if comparisons use another.
    pub of_union: Affixes,
    /// The comparison that finds the rows after another one.
    pub comparison: KeyComparison,
    /// The form of infinite numbers.
    pub infinities: Infinities,
    /// `Ok` if a cursor can hold bytes; otherwise a hint.
    pub bytes: Result<(), &'static str>,
    /// Types whose sort order differs from their comparisons.
    pub unordered: &'static [UnorderedTypes],
    /// Texts that are equal to `a` in a collation, and its name, if columns with different collations are
    /// compared by that of the left one. Empty if the database refuses to compare them.
    pub alike: &'static [(&'static str, &'static str)],
}

/// The form of infinite numbers in cursors and conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Infinities {
    /// Cursors can't contain them, except as texts by [`Keys::cast`].
    Refused,
    /// Infinity is this JSON number, which is beyond all others.
    Number(&'static str),
    /// Infinity is bound as a float. NaN, and infinite dates and times, are texts that the database reads back.
    Texts,
}

/// Types whose sort order differs from their comparisons, so pages cut by it would lose rows.
#[derive(Debug)]
pub struct UnorderedTypes {
    /// Their names, without a length. A name that begins with a dot is a type in a schema that has
    /// to be mentioned.
    pub types: &'static [&'static str],
    /// Values with at most this many characters are safe. Without a length, no value is.
    pub longest: u32,
    /// The reason, as the end of a message after "whose values".
    pub why: &'static str,
    /// A hint at another key.
    pub hint: &'static str,
}

impl UnorderedTypes {
    /// Recognises a type by its name, for example `varchar(20)`.
    pub fn has(&self, type_name: &str) -> bool {
        let (name, length) = type_name.split_once('(').unwrap_or((type_name, ""));
        let length = length.strip_suffix(')').and_then(|length| length.parse().ok());
        let is_named = |other: &&str| *other == name || other.starts_with('.') && name.ends_with(*other);
        self.types.iter().any(is_named) && length.is_none_or(|length: u32| length > self.longest)
    }
}

/// The comparison that finds the rows after another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyComparison {
    /// `(a, b) > (1, 2)`, if all columns have one direction. Databases search indexes for it.
    RowValues,
    /// Column by column: `a >= 1 and (a > 1 or a = 1 and b > 2)`.
    ByColumn,
}

/// The SQL of the conditions and orders that requests ask for.
#[derive(Debug, Clone, Copy)]
pub struct Filters {
    /// The operators beyond the comparisons that every database has. The database lacks the others.
    pub operators: &'static [OperatorSql],
    /// The comparisons of a column whose values have no common type, with a number `{n}` and with another
    /// text. `None`: such columns are compared like those of texts.
    pub untyped: Option<[&'static str; 2]>,
    /// Types that are compared as another type. A value is cast to its column's type, or the database would read it
    /// as that other type.
    pub cast: &'static [&'static str],
    /// The comparisons of a column of times. `None` if the database has a type for them.
    pub times: Option<TimeComparisons>,
    /// The tests of a column that it's NULL, and that it isn't: [`Filters::NULL_TESTS`], unless they mean
    /// something else for some types.
    pub null_tests: [&'static str; 2],
    /// The place of NULL in an order.
    pub nulls: NullOrder,
    /// The columns of a result in the statement's own order.
    pub own_order: OwnOrder,
}

/// How a statement's own `order by` names a column of its result.
#[derive(Debug, Clone, Copy)]
pub struct OwnOrder {
    /// The quote around a name. In it, an unknown name is an error, never a text.
    pub quote: char,
    /// The SQL behind a column that puts NULLs first, and that puts them last. `None` if there's none:
    /// an expression, `a is null`, could mean the column of a table.
    pub nulls: Option<[&'static str; 2]>,
}

impl OwnOrder {
    /// For databases with `nulls first`.
    pub const STANDARD: Self = Self { quote: '"', nulls: Some([" nulls first", " nulls last"]) };

    /// The name of a column.
    pub fn quoted(&self, name: &str) -> String {
        quoted(name, self.quote)
    }
}

impl Filters {
    /// SQL's own tests.
    pub const NULL_TESTS: [&'static str; 2] = ["is null", "is not null"];

    /// The SQL of `operator`, unless every database has it or this one lacks it.
    pub fn sql(&self, operator: Operator) -> Option<&'static OperatorSql> {
        self.operators.iter().find(|own| own.operator == operator)
    }
}

/// How a database compares times that it stores as texts of several forms, with `{c}` for the column
/// and `{v}` for the value.
#[derive(Debug, Clone, Copy)]
pub struct TimeComparisons {
    /// The function whose results can be compared. NULL for a value that isn't a time.
    pub function: &'static str,
    /// A condition that all times after the value meet, and the value itself. An index finds it.
    pub since: &'static str,
    /// The same for the times before the value.
    pub until: &'static str,
}

/// The SQL of an operator.
#[derive(Debug)]
pub struct OperatorSql {
    /// The operator.
    pub operator: Operator,
    /// The condition, with `{c}` for the column and `{v}` for the value.
    pub sql: &'static str,
    /// The form of the value.
    pub value: ValueForm,
}

/// The form of an operator's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// The text of the request.
    Unchanged,
    /// A pattern of `like`, with `%`, `_` and a backslash before these. `*` is another `%`.
    Like,
    /// The same pattern as one of `glob`, with `*`, `?` and `[…]`.
    Glob,
}

impl ValueForm {
    /// The value for the text of a request.
    pub fn write(self, text: &str) -> String {
        match self {
            Self::Unchanged => text.to_owned(),
            Self::Like => like(text),
            Self::Glob => glob(text),
        }
    }
}

/// The pattern of `like` for one that may have `*`.
fn like(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, chars.as_str().chars().next()) {
            ('*', _) => out.push('%'),
            ('\\', Some('*')) => out.extend(chars.next()),
            ('\\', Some(next)) => {
                chars.next();
                out.extend([c, next]);
            }
            _ => out.push(c),
        }
    }
    out
}

/// The pattern of `glob` for one of `like`.
fn glob(like: &str) -> String {
    let mut out = String::new();
    let mut chars = like.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' | '*' => out.push('*'),
            '_' => out.push('?'),
            c => {
                let literal = if c == '\\' { chars.next().unwrap_or(c) } else { c };
                match literal {
                    '*' | '?' | '[' => out.extend(['[', literal, ']']),
                    literal => out.push(literal),
                }
            }
        }
    }
    out
}

/// The place of NULL in an order that doesn't name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullOrder {
    /// NULL is less than all values.
    Least,
    /// NULL is greater than all values.
    Greatest,
    /// NULL is last in both directions.
    Last,
}

impl NullOrder {
    /// Returns true if rows with NULL are first.
    pub fn is_first(self, descending: bool) -> bool {
        match self {
            Self::Least => !descending,
            Self::Greatest => descending,
            Self::Last => false,
        }
    }
}

/// The visibility of committed rows to other transactions.
#[derive(Debug)]
pub struct Commits {
    /// The order of commits, compared with the rows' keys.
    pub order: CommitOrder,
    /// The SQL that identifies rows of transactions that are still running, or haven't begun.
    pub transactions: Result<Transactions, Refusal>,
    /// `Ok` if a channel can announce new rows.
    pub channel: Result<(), Refusal>,
    /// The query that checks if the database can have issued a key. `None` if it doesn't know.
    pub counters: Option<Counters>,
}

/// The order of new rows as others see them, compared with their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOrder {
    /// Rows become visible in the order of their keys.
    ByKey,
    /// They do if their writers ensure it, and the endpoint promises that.
    IfPromised(Refusal),
    /// The order is unknown, so the rows can't be followed.
    Unknown(Refusal),
}

impl CommitOrder {
    /// Checks that rows can be followed by their key, with the endpoint's promise or without it.
    ///
    /// # Errors
    /// The rows may become visible in another order.
    pub fn check(self, is_promised: bool) -> Result<(), Refusal> {
        match self {
            Self::ByKey => Ok(()),
            Self::IfPromised(_) if is_promised => Ok(()),
            Self::IfPromised(refusal) | Self::Unknown(refusal) => Err(refusal),
        }
    }
}

/// Transactions as numbers that a row can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transactions {
    /// The oldest transaction that's still running, or else the next one. All earlier ones have
    /// ended, and the statement sees their rows.
    pub horizon: &'static str,
    /// The first transaction that hasn't begun. No visible row can have its number or a later one,
    /// except rows that were copied from another server.
    pub yet_to_come: &'static str,
    /// Returns a row if its parameter is a transaction that this server hasn't begun yet. On
    /// a replica, the primary may have begun it.
    pub ahead: &'static str,
}

/// Queries about the counter that issues a key's numbers.
#[derive(Debug, Clone, Copy)]
pub struct Counters {
    /// Returns a row if the column's counter hasn't reached the value yet, and no row of the table
    /// has. The first and the second parameter are the value. `{table}` and `{column}` are replaced
    /// by the names in the statement's form, `{table_text}` and `{column_text}` by the names as
    /// string literals.
    pub ahead: &'static str,
    /// The table's name in that query.
    pub table: TableName,
    /// Returns a row if a column's counter may issue keys that a follower has passed, and the
    /// reason. The parameters are the table and the column.
    pub lapse: (&'static str, Refusal),
}

impl Counters {
    /// [`Counters::ahead`] for a column.
    pub fn question(&self, dialect: &Dialect, table: &str, column: &str) -> String {
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let named = match self.table {
            TableName::AsWritten => table.to_owned(),
            TableName::Bare => dialect.quoted(table),
        };
        self.ahead
            .replace("{table_text}", &text(table))
            .replace("{column_text}", &text(column))
            .replace("{table}", &named)
            .replace("{column}", &dialect.quoted(column))
    }
}

/// The query for unique keys.
#[derive(Debug)]
pub struct UniqueKeys {
    /// Returns a row if a table has a unique key within a list of columns and no function repeats
    /// rows. The parameters are the table and the list.
    pub query: &'static str,
    /// Returns a row if it's a table that certainly has no unique key within a list of columns. Keys
    /// with conditions and expressions may suffice. The parameters are the table and the list.
    pub missing: &'static str,
    /// The table's name in these queries.
    pub table: TableName,
    /// The effect of the functions that the statement calls.
    pub functions: Functions,
}

/// Statements that list readable tables and views, with these result columns.
#[derive(Debug)]
pub struct Catalog {
    /// `name`, and `kind`: `table` or `view`.
    pub tables: &'static str,
    /// For the table `:table`:
    ///
    /// - `name`;
    /// - `type`;
    /// - `param`, the type of a parameter that finds a row by this column, `local` for a text that is a date
    ///   and time without an offset, or NULL;
    /// - `cast`, the type that the parameter is cast to before the comparison, or NULL;
    /// - `equal` (may be left out), a condition with the column `{c}` and the parameter `{v}`; NULL means
    ///   `{c} = {v}`;
    /// - `place`, the place in the primary key, or 0;
    /// - `comparable`, equal for columns whose values are compared alike: the type and the collation;
    ///   or NULL if equal values may not mean the same row;
    /// - `unordered`, if the sort order differs from comparisons, the reason.
    pub columns: &'static str,
    /// A condition for values of a primary key that no cursor can hold, if there are any, and the
    /// reason. Each `{}` is replaced by the column's name.
    pub misfit: Option<(&'static str, &'static str)>,
    /// The foreign keys of all tables, with a row for each of their columns: `name` (the table), `id`
    /// (the key), `column`, `parent` (the other table), `parent_column` (NULL if the key refers to the
    /// primary key without its names), and `place`, from 1. The rows of a key follow each other.
    pub references: &'static str,
}

/// The name of a table in a query of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableName {
    /// The name in the statement, with its quotes and schema.
    AsWritten,
    /// The bare name. We don't ask for a table with a schema.
    Bare,
}

/// The effect of functions on rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Functions {
    /// They may repeat rows. The third parameter of the query is the list of their names.
    RepeatRows,
    /// Each call returns one value.
    MakeValues,
}

impl Dialect {
    /// A name in quotes.
    pub fn quoted(&self, name: &str) -> String {
        quoted(name, self.syntax.quote)
    }
}

/// A name in quotes, with each quote inside of it doubled.
fn quoted(name: &str, quote: char) -> String {
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push(quote);
    for c in name.chars() {
        quoted.extend(std::iter::repeat_n(c, if c == quote { 2 } else { 1 }));
    }
    quoted.push(quote);
    quoted
}

pub mod samples {
    //! Dialects without a database, for tests and examples.

    use super::*;

    const REFUSAL: Refusal = Refusal { message: "not in tests", hint: "leave it out" };

    /// PostgreSQL's syntax.
    pub static NUMBERED: Dialect = Dialect {
        name: "Numbered",
        urls: urls(&["numbered"], Location::Server, "numbered://host"),
        syntax: Syntax {
            quote: '"',
            identifiers: &[],
            strings: &[Strings::Escape, Strings::Dollar],
            line_comments: &[LineComment::Dashes],
            block_comments: BlockComments::Nested,
            line_ends: b"\n\r",
            variables: b"$",
            names: Names::Exact,
        },
        placeholders: Placeholders::ByNumber('$'),
        parameter_types: ParameterTypes::Inferred,
        writes: &[&["for", "update"], &["for", "share"], &["insert", "into"]],
        ..SAMPLE
    };

    /// SQLite's syntax.
    pub static BRACKETED: Dialect = Dialect {
        name: "Bracketed",
        urls: urls(&["bracketed"], Location::File, "bracketed:FILE"),
        placeholders: Placeholders::ByNumber('?'),
        decimals: Decimals::Rounded,
        null_limit: Some(Affixes { before: "ifnull(", behind: ", -1)" }),
        lists: Lists::Texts(|list, _| format!("select value from json_each(:{list})")),
        ..SAMPLE
    };

    /// `?` for each parameter, and comparisons column by column.
    pub static ANONYMOUS: Dialect = Dialect {
        name: "Anonymous",
        urls: urls(&["anonymous"], Location::Server, "anonymous://host"),
        syntax: Syntax { quote: '`', ..BRACKETS },
        keys: Keys { comparison: KeyComparison::ByColumn, ..KEYS },
        filters: Ok(Filters { nulls: NullOrder::Least, ..FILTERS }),
        ..SAMPLE
    };

    /// The parts that most samples share.
    const SAMPLE: Dialect = Dialect {
        name: "Sample",
        urls: urls(&["sample"], Location::Server, "sample://host"),
        syntax: BRACKETS,
        placeholders: Placeholders::ByOccurrence,
        parameter_types: ParameterTypes::Declared,
        decimals: Decimals::Exact(38),
        null_limit: None,
        lists: Lists::Arrays,
        keys: KEYS,
        filters: Ok(FILTERS),
        writes: &[],
        commits: Commits {
            order: CommitOrder::ByKey,
            transactions: Err(REFUSAL),
            channel: Err(REFUSAL),
            counters: None,
        },
        refcursors: Err(REFUSAL),
        interleaved: Ok(()),
        snapshots: Ok(()),
        parts: Err(REFUSAL),
        explain: None,
        estimate: None,
        unique_keys: None,
        catalog: None,
    };

    const fn urls(schemes: &'static [&'static str], location: Location, example: &'static str) -> Urls {
        Urls { schemes, location, example, variables: &[], password_places: &[] }
    }

    const BRACKETS: Syntax = Syntax {
        quote: '"',
        identifiers: &[Quotes::Doubled(b'`'), Quotes::Pair(b'[', b']')],
        strings: &[],
        line_comments: &[LineComment::Dashes],
        block_comments: BlockComments::Flat,
        line_ends: b"\n",
        variables: b"?@$:",
        names: Names::Caseless,
    };

    const FILTERS: Filters = Filters {
        operators: &[OperatorSql {
            operator: Operator::Like,
            sql: "({c} like {v} and bytes({c}) like {v})",
            value: ValueForm::Like,
        }],
        untyped: None,
        cast: &[],
        times: None,
        null_tests: Filters::NULL_TESTS,
        nulls: NullOrder::Greatest,
        own_order: OwnOrder::STANDARD,
    };

    const KEYS: Keys = Keys {
        cast: Affixes { before: "text(", behind: ")" },
        comparison: KeyComparison::RowValues,
        bytes: Ok(()),
        unordered: &[],
        alike: &[],
        of_union: Affixes::NOTHING,
        infinities: Infinities::Refused,
    };
}
