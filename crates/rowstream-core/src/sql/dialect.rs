//! What databases differ in, as data: one [`Dialect`] for each, which stands in the folder of the
//! database.
//!
//! Nobody outside of `src/database/` asks which database it is. Where a new one differs in what no
//! field says yet, it gets a field here, and the compiler names the dialects that lack it.

use std::fmt::Write as _;

/// Whose SQL it is, and what the database can do.
#[derive(Debug)]
pub struct Dialect {
    /// The name of the database, for messages.
    pub name: &'static str,
    /// How its sources are named.
    pub urls: Urls,
    /// What is a string, a comment or a name in its SQL.
    pub syntax: Syntax,
    /// How parameters stand in a statement that the database gets.
    pub placeholders: Placeholders,
    /// Who says of what types the parameters are.
    pub parameter_types: ParameterTypes,
    /// The treatment of a decimal that is bound.
    pub decimals: Decimals,
    /// What stands around a parameter that is all of a limit or of an offset, so that NULL is none;
    /// `None` where NULL is none by itself, or what is bound in its place is.
    pub null_limit: Option<Around>,
    /// How a statement is read in the order of a key, and from behind a row.
    pub keys: Keys,
    /// How rows become visible, which decides by what they can be followed.
    pub commits: Commits,
    /// The results that a statement can open for others to read.
    pub refcursors: Result<Opens, Refusal>,
    /// True if a connection reads several statements side by side, as rows that nest need it.
    pub interleaved: Result<(), Refusal>,
    /// True if the statements of a response can read one snapshot.
    pub snapshots: Result<(), Refusal>,
    /// How several connections read parts of one table.
    pub parts: Result<Parts, Refusal>,
    /// What has the database say how it would run the statement that follows; `None`: none of its
    /// SQL does, or that is not known.
    pub explain: Option<&'static str>,
    /// How the catalog is asked for unique keys; `None`: it is not asked.
    pub unique_keys: Option<UniqueKeys>,
    /// How the catalog is asked for tables; `None`: it is not asked.
    pub catalog: Option<Catalog>,
}

/// How several connections read parts of one table.
#[derive(Debug)]
pub struct Parts {
    /// What stands before and after the first and the last bound of a part.
    pub condition: [&'static str; 3],
    /// Questions about the table as it is written (`$1`) and what its statement may call (`$2`, see
    /// [`super::Outline::functions_or_columns`]), which have a row where parts of it cannot be
    /// read, for this reason.
    pub refusals: &'static [(&'static str, Refusal)],
}

/// Why a database cannot do what is asked for, and what to do instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub message: &'static str,
    /// The remedy.
    pub hint: &'static str,
}

/// A result that a statement opens for others to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opens {
    /// Refcursors: each is the column of its row that has the reader's name.
    Refcursors,
    /// The results of the procedure that it calls, in the order in which they come.
    Results,
}

/// How the sources of a database are named.
#[derive(Debug)]
pub struct Urls {
    /// The schemes, in small letters.
    pub schemes: &'static [&'static str],
    /// What stands behind them.
    pub location: Location,
    /// A URL, for hints.
    pub example: &'static str,
    /// Variables of the environment that count where a URL says nothing, as in the database's own
    /// clients.
    pub variables: &'static [&'static str],
    /// The source of a login's password.
    pub password: PasswordFrom,
}

/// The source of a login's password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordFrom {
    /// The URL as it was read, if there are logins at all.
    Url,
    /// The URL, which is read again if a login fails, or a command.
    UrlOrCommand,
}

/// What the URL of a database names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// A server: `//user:password@host/database`.
    Server,
    /// A file: its path, which is relative to the configuration, and nothing secret.
    File,
    /// A library that drives a database, and what it is given; a path in it is relative to the
    /// configuration.
    Driver,
}

/// What is a string, a comment or a name. Everywhere, `'…'` is a string and `"…"` a name, unless
/// [`Strings`] say otherwise, in both of which the quote is doubled.
#[derive(Debug)]
pub struct Syntax {
    /// The quotes of names that the server writes.
    pub quote: char,
    /// The quotes of names beside `"…"`.
    pub identifiers: &'static [Quotes],
    /// Strings beside `'…'`.
    pub strings: &'static [Strings],
    /// What begins a comment that ends with its line.
    pub line_comments: &'static [LineComment],
    /// Whether comments `/* … */` stand in one another.
    pub block_comments: BlockComments,
    /// What ends a line and its comment.
    pub line_ends: &'static [u8],
    /// What begins a parameter as the database itself writes it, before a name or a number.
    pub variables: &'static [u8],
    /// How names are compared.
    pub names: Names,
}

/// Quotes of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    /// The same on both sides, and doubled inside.
    Doubled(u8),
    /// An opening and a closing one, of which none can stand inside.
    Pair(u8, u8),
}

impl Syntax {
    /// The quotes, beside `"…"`, that `first` opens.
    pub(super) fn quotes(&self, first: u8) -> Option<Quotes> {
        let opens = |quotes: &Quotes| match *quotes {
            Quotes::Doubled(open) | Quotes::Pair(open, _) => open == first,
        };
        self.identifiers.iter().copied().find(opens)
    }
}

/// Strings that not every database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strings {
    /// `E'…'`, in which a backslash escapes the quote.
    Escape,
    /// `$tag$…$tag$`.
    Dollar,
    /// `'…'` and `"…"`, which is a string too, in both of which a backslash escapes the quote.
    Backslash,
}

/// What begins a comment that ends with its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineComment {
    /// `--`.
    Dashes,
    /// `--` before a blank or a line end; otherwise it is two signs.
    DashesAndBlank,
    /// `#`.
    Hash,
}

/// Comments between `/*` and `*/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockComments {
    /// One may stand in another.
    Nested,
    /// The first `*/` ends it.
    Flat,
    /// The same; what stands in `/*! … */` and `/*M! … */` is executed, by some versions.
    FlatOrExecuted,
}

/// How names are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// As they are written in quotes; without these, in small letters.
    Exact,
    /// Without regard to capital letters, in quotes or not.
    Caseless,
}

/// How parameters stand in a statement that the database gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholders {
    /// By number, behind this character (`$1`, `?1`): a parameter is sent once, however often it
    /// stands in the text.
    ByNumber(char),
    /// By occurrence, each a `?`: a parameter is sent as often as it stands in the text, in the
    /// order of the text.
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

    /// The number of the argument that the placeholder `text` stands for, behind so many others.
    pub(super) fn number(self, text: &str, before: usize) -> Option<usize> {
        match self {
            Self::ByNumber(sigil) => text.strip_prefix(sigil)?.parse().ok(),
            Self::ByOccurrence => Some(before + 1),
        }
    }
}

/// Who says of what types the parameters of a statement are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterTypes {
    /// The database infers those that are not declared.
    Inferred,
    /// Whoever declares them: the database compares values of whatever types, and the wrong one is
    /// a wrong answer that nobody sees.
    Declared,
}

/// What becomes of a decimal that is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decimals {
    /// It stays what it is.
    Exact,
    /// Beyond the integers of 64 bits it is rounded.
    Rounded,
}

/// What stands before and behind an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Around {
    /// Before it.
    pub before: &'static str,
    /// Behind it.
    pub behind: &'static str,
}

impl Around {
    /// Nothing on either side.
    pub const NOTHING: Self = Self { before: "", behind: "" };

    /// Writes what `inner` writes, and this around it.
    pub fn write(self, sql: &mut String, inner: impl FnOnce(&mut String)) {
        sql.push_str(self.before);
        inner(sql);
        sql.push_str(self.behind);
    }
}

/// How a statement is read in the order of a key, and from behind a row.
#[derive(Debug)]
pub struct Keys {
    /// What makes of a column what a cursor holds: its value as the database compares it, of no
    /// type that formats write otherwise.
    pub cast: Around,
    /// What makes of a column of a `union` its value as it is sorted, if it is compared otherwise.
    pub of_union: Around,
    /// How rows are compared with the one that they are to stand behind.
    pub comparison: Comparison,
    /// An infinite number as a JSON number beyond all others, if the database reads it as one.
    pub infinity: Option<&'static str>,
    /// Whether a cursor can hold bytes; where not, what to do.
    pub bytes: Result<(), &'static str>,
    /// Types that the database sorts otherwise than it compares them.
    pub unordered: &'static [Unordered],
}

/// Types whose order isn't that of their comparisons, so pages that are cut by it would lose rows.
#[derive(Debug)]
pub struct Unordered {
    /// Their names, without a length. One that begins with a dot is that of a type in a schema that
    /// names have to mention.
    pub types: &'static [&'static str],
    /// Values of at most so many characters are well; those of a type without a length aren't.
    pub longest: u32,
    /// Why, as a message goes on after "whose values".
    pub why: &'static str,
    /// Another key.
    pub hint: &'static str,
}

impl Unordered {
    /// Recognises a type by its name, such as `varchar(20)`.
    pub fn has(&self, type_name: &str) -> bool {
        let (name, length) = type_name.split_once('(').unwrap_or((type_name, ""));
        let length = length.strip_suffix(')').and_then(|length| length.parse().ok());
        let is_named = |other: &&str| *other == name || other.starts_with('.') && name.ends_with(*other);
        self.types.iter().any(is_named) && length.is_none_or(|length: u32| length > self.longest)
    }
}

/// How the rows behind another one are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `(a, b) > (1, 2)`, where all columns have one direction: indexes are searched for it.
    RowValues,
    /// Column by column: `a >= 1 and (a > 1 or a = 1 and b > 2)`.
    ByColumn,
}

/// How rows become visible to others.
#[derive(Debug)]
pub struct Commits {
    /// Whether that is in the order of their keys.
    pub order: CommitOrder,
    /// How rows are told apart whose transactions are still running, or yet to come.
    pub transactions: Result<Transactions, Refusal>,
    /// Whether a channel can tell of new rows.
    pub channel: Result<(), Refusal>,
    /// How the database is asked if it can have issued a key; `None`: it doesn't know.
    pub counters: Option<Counters>,
}

/// Whether rows become visible in the order of their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOrder {
    /// They do.
    ByKey,
    /// They do where whoever writes the rows sees to that, and the endpoint promises it.
    IfPromised(Refusal),
    /// Nobody knows when they do, so they cannot be followed.
    Unknown(Refusal),
}

impl CommitOrder {
    /// Checks that rows can be followed by their key, with the endpoint's promise or without it.
    ///
    /// # Errors
    /// They are not known to become visible in that order.
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
    /// The oldest transaction that is still running, or the next one: each before it has ended, and
    /// what it wrote is seen by the statement.
    pub horizon: &'static str,
    /// The first transaction that has not begun: no row that is seen can be of it or of a later
    /// one, unless it was brought from another server.
    pub yet_to_come: &'static str,
    /// Has a row if its parameter is a transaction that this server has yet to begin. That of a
    /// replica may come from its primary.
    pub ahead: &'static str,
}

/// How the database is asked for the counter that a key's numbers are taken from.
#[derive(Debug, Clone, Copy)]
pub struct Counters {
    /// Has a row if the column's counter is yet to reach the value that is the first and the second
    /// parameter, and no row of the table has reached it. `{table}` and `{column}` stand for the
    /// names as the statement has them, `{table_text}` and `{column_text}` for these as texts.
    pub ahead: &'static str,
    /// How the table is named there.
    pub table: TableName,
    /// Has a row if the counter of the column that is the second parameter, of the table that is
    /// the first, may issue keys that a follower has gone past; and why.
    pub lapse: (&'static str, Refusal),
}

impl Counters {
    /// [`Counters::ahead`] of a column.
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

/// How the catalog is asked for unique keys.
#[derive(Debug)]
pub struct UniqueKeys {
    /// Has a row if the table that is its first parameter has a unique key of no other columns than
    /// the list that is its second, and no function repeats a row.
    pub query: &'static str,
    /// How the table is named there.
    pub table: TableName,
    /// Whether the functions that the statement calls can repeat a row.
    pub functions: Functions,
}

/// How the catalog is asked for the tables and views that may be read, by two statements whose
/// columns have these names.
#[derive(Debug)]
pub struct Catalog {
    /// `name`, and `kind`: `table` or `view`.
    pub tables: &'static str,
    /// Of the table `:table`: `name`; `type`; `param`, the type of the parameter that a row is
    /// found by, NULL where there is none; `cast`, what the parameter is cast to before it is
    /// compared, or NULL; `place`, the place in the primary key, 0 where it is not in it; and if its
    /// order isn't that of its comparisons `unordered`, why.
    pub columns: &'static str,
    /// What is true of a value of a primary key that no cursor holds, with the column's name in place
    /// of each `{}`, if there are such values; and why.
    pub misfit: Option<(&'static str, &'static str)>,
}

/// How the catalog is asked for a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableName {
    /// As the statement names it, with quotes and schema.
    AsWritten,
    /// By its name alone; a table with a schema is not asked for.
    Bare,
}

/// What functions do to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Functions {
    /// They may repeat one: the list of their names is the third parameter of the question.
    RepeatRows,
    /// They make a value each.
    MakeValues,
}

impl Dialect {
    /// A name in quotes.
    pub fn quoted(&self, name: &str) -> String {
        let quote = self.syntax.quote;
        let mut quoted = String::with_capacity(name.len() + 2);
        quoted.push(quote);
        for c in name.chars() {
            quoted.extend(std::iter::repeat_n(c, if c == quote { 2 } else { 1 }));
        }
        quoted.push(quote);
        quoted
    }
}

pub mod samples {
    //! Dialects of no database, for tests and examples.

    use super::*;

    const REFUSAL: Refusal = Refusal { message: "not in tests", hint: "leave it out" };

    /// With all that PostgreSQL's SQL has.
    pub static NUMBERED: Dialect = Dialect {
        name: "Numbered",
        urls: Urls {
            schemes: &["numbered"],
            location: Location::Server,
            example: "numbered://host",
            variables: &[],
            password: PasswordFrom::Url,
        },
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
        decimals: Decimals::Exact,
        null_limit: None,
        keys: KEYS,
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
        unique_keys: None,
        catalog: None,
    };

    /// With all that SQLite's SQL has.
    pub static BRACKETED: Dialect = Dialect {
        name: "Bracketed",
        urls: Urls {
            schemes: &["bracketed"],
            location: Location::File,
            example: "bracketed:FILE",
            variables: &[],
            password: PasswordFrom::Url,
        },
        syntax: BRACKETS,
        placeholders: Placeholders::ByNumber('?'),
        parameter_types: ParameterTypes::Declared,
        decimals: Decimals::Rounded,
        null_limit: Some(Around { before: "ifnull(", behind: ", -1)" }),
        keys: KEYS,
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
        unique_keys: None,
        catalog: None,
    };

    /// With a `?` for each parameter, and no rows that can be compared.
    pub static ANONYMOUS: Dialect = Dialect {
        name: "Anonymous",
        urls: Urls {
            schemes: &["anonymous"],
            location: Location::Server,
            example: "anonymous://host",
            variables: &[],
            password: PasswordFrom::Url,
        },
        syntax: Syntax { quote: '`', ..BRACKETS },
        placeholders: Placeholders::ByOccurrence,
        parameter_types: ParameterTypes::Declared,
        decimals: Decimals::Exact,
        null_limit: None,
        keys: Keys { comparison: Comparison::ByColumn, ..KEYS },
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
        unique_keys: None,
        catalog: None,
    };

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

    const KEYS: Keys = Keys {
        cast: Around { before: "text(", behind: ")" },
        comparison: Comparison::RowValues,
        bytes: Ok(()),
        unordered: &[],
        of_union: Around::NOTHING,
        infinity: None,
    };
}
