//! Finds the named parameters of a statement: a lexer that knows where SQL text is not SQL.
//!
//! It parses no grammar. It knows quotes, comments and the few places in which a colon means
//! something else, which is all that is needed to replace `:name` and to find where a statement
//! ends. What it leaves alone reaches the database as it was written.

pub mod dialect;
mod lexer;
mod limit;
mod outline;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

pub use self::dialect::Dialect;
use self::dialect::{Around, Placeholders};
use self::lexer::{Kind, Lexer, Token};
pub use self::limit::{Limit, LimitPart, limit_placeholders, numbered_placeholders};
pub use self::outline::{ByRow, Outline, UNIONS};

/// In place of how many rows it answers with: a statement whose row holds refcursors that others
/// read.
const REFCURSORS: &str = ":refcursors";
/// Before the name of such a statement: whose refcursor is read.
const FROM: &str = "from";

/// How many rows a statement answers with, and so what stands in the body for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cardinality {
    /// `:many`: a list of objects.
    Many,
    /// `:one`: an object, or `null`; a second row is an error.
    One,
    /// `:value`: the only column of the only row, or `null`; a second row or column is an error.
    Value,
}

/// A statement whose named parameters have become positional ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sql {
    /// The text for the database, with its own placeholders for the parameters.
    pub text: String,
    /// The name of each argument, in the order in which the database takes them: by number each
    /// name once, by occurrence as often as it stands in the text.
    pub names: Vec<String>,
    /// For each piece copied from the original: where it begins in `text`, and where in the
    /// original, in bytes.
    pub pieces: Vec<(usize, usize)>,
    /// For each of `names`, where its `:` stands in the original (first, where it is one
    /// argument in several places), in bytes.
    pub places: Vec<usize>,
}

/// Why a text is not one statement with named parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// Where, in bytes from the start of the text.
    pub offset: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl SqlError {
    fn new(offset: usize, message: impl Into<String>, hint: Option<&str>) -> Self {
        Self { offset, message: message.into(), hint: hint.map(str::to_owned) }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SqlError {}

impl Sql {
    /// Each name once, and where it first stands.
    pub fn distinct(&self) -> impl Iterator<Item = (&str, usize)> {
        let names = self.names.iter().zip(&self.places).enumerate();
        names
            .filter(|(index, (name, _))| !self.names[..*index].contains(name))
            .map(|(_, (name, &at))| (name.as_str(), at))
    }

    /// Reads one statement and makes its named parameters positional. A `;` at the end is cut, with
    /// what follows it. A parameter that is all of a limit or an offset may be NULL, which not
    /// every database takes there: the dialect says what stands around it.
    ///
    /// # Errors
    /// A quote or comment that does not end, a second statement, no statement at all, a placeholder
    /// that has a number instead of a name, or a NUL character (which would end the text early in
    /// the database).
    pub fn parse(text: &str, dialect: &'static Dialect) -> Result<Self, SqlError> {
        if let Some(offset) = text.find('\0') {
            return Err(SqlError::new(offset, "a NUL character in a statement", Some("remove it")));
        }
        let mut lexer = Lexer::new(text, dialect);
        let (mut tokens, mut comments) = (Vec::new(), Vec::new());
        let mut end = None;
        while let Some(token) = lexer.next()? {
            match token.kind {
                Kind::Blank => continue,
                Kind::LineComment | Kind::BlockComment => comments.push(token),
                _ if end.is_some() => return Err(second_statement(token.start)),
                Kind::Semicolon => end = Some(token.start),
                Kind::Placeholder => return Err(placeholder(text, &token)),
                Kind::Parameter | Kind::Quoted | Kind::Word | Kind::Other => tokens.push(token),
            }
        }
        if tokens.is_empty() {
            return Err(SqlError::new(0, "there is no statement here", None));
        }
        let text = &*in_ascii(text, &comments);
        let mut rewriter = Rewriter::new(text, dialect);
        for (index, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Parameter) {
            rewriter.parameter(token, limit::is_whole(text, &tokens, index));
        }
        Ok(rewriter.finish(end.unwrap_or(text.len())))
    }
}

/// A text of the same length with nothing but ASCII in these comments: a database in another encoding
/// refuses the letters that it lacks, also there. Hints stay, because they name tables.
fn in_ascii<'a>(text: &'a str, comments: &[Token]) -> Cow<'a, str> {
    let mut plain = Cow::Borrowed(text);
    for comment in comments.iter().map(|comment| comment.start..comment.end) {
        if !text[comment.clone()].is_ascii() && !text[comment.clone()].starts_with("/*+") {
            let in_ascii = |c: char| if c.is_ascii() { c.to_string() } else { ".".repeat(c.len_utf8()) };
            let replacement: String = text[comment.clone()].chars().map(in_ascii).collect();
            plain.to_mut().replace_range(comment, &replacement);
        }
    }
    plain
}

fn second_statement(offset: usize) -> SqlError {
    let hint = "give each a name in a line of its own before it: `-- name: NAME :many`, `:one` or `:value`";
    SqlError::new(offset, "two statements where one is expected", Some(hint))
}

fn placeholder(text: &str, token: &Token) -> SqlError {
    let message = format!("the placeholder `{}` has no name", &text[token.start..token.end]);
    SqlError::new(token.start, message, Some("parameters are written `:name`, and declared in `[params]`"))
}

/// Copies a text piece by piece, with placeholders for names.
struct Rewriter<'a> {
    text: &'a str,
    dialect: &'static Dialect,
    copied: usize,
    sql: Sql,
}

impl<'a> Rewriter<'a> {
    fn new(text: &'a str, dialect: &'static Dialect) -> Self {
        let sql = Sql {
            text: String::with_capacity(text.len()),
            names: Vec::new(),
            pieces: vec![(0, 0)],
            places: Vec::new(),
        };
        Self { text, dialect, copied: 0, sql }
    }

    /// Puts the placeholder of a parameter in its place; one that is `whole` may be NULL in a
    /// limit.
    fn parameter(&mut self, token: &Token, whole: bool) {
        self.sql.text.push_str(&self.text[self.copied..token.start]);
        let number = self.number(&self.text[token.start + 1..token.end], token.start);
        let around = self.dialect.null_limit.filter(|_| whole).unwrap_or(Around::NOTHING);
        around.write(&mut self.sql.text, |sql| self.dialect.placeholders.write(number, sql));
        self.sql.pieces.push((self.sql.text.len(), token.end));
        self.copied = token.end;
    }

    /// The number of the argument for a name, from 1.
    fn number(&mut self, name: &str, place: usize) -> usize {
        let known = match self.dialect.placeholders {
            Placeholders::ByNumber(_) => self.sql.names.iter().position(|known| known == name),
            Placeholders::ByOccurrence => None,
        };
        if let Some(index) = known {
            return index + 1;
        }
        self.sql.names.push(name.to_owned());
        self.sql.places.push(place);
        self.sql.names.len()
    }

    fn finish(mut self, end: usize) -> Sql {
        self.sql.text.push_str(&self.text[self.copied..end]);
        self.sql
    }
}

/// In whose rows the rows of a statement stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nesting {
    /// The name of the other statement.
    pub parent: String,
    /// The columns that are the same in a row and in the row that it stands in: the statement's
    /// own, and the other's.
    pub on: Vec<(String, String)>,
}

/// What a statement has to do with the refcursors of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refcursors {
    /// Nothing.
    None,
    /// `:refcursors`: the columns of its only row are refcursors, which other statements read.
    Opens,
    /// `from OPENER`: its rows are those of a refcursor of that statement, and it has no text of
    /// its own.
    From(String),
}

/// One statement of a text that holds several, or the only one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name and how many rows it answers with; `None` before the first `-- name:` line.
    pub name: Option<(String, Cardinality)>,
    /// In whose rows its own stand, if in any.
    pub nesting: Option<Nesting>,
    /// Whether it opens refcursors, or reads one.
    pub refcursors: Refcursors,
    /// Where its `-- name:` line begins, or its text when it has none, in bytes.
    pub offset: usize,
    /// Its text, without the `-- name:` line, in bytes of the whole.
    pub range: Range<usize>,
}

impl Section {
    /// Its name.
    pub fn name_text(&self) -> Option<&str> {
        self.name.as_ref().map(|(name, _)| name.as_str())
    }

    /// The name of the section whose refcursor it reads.
    pub fn opener(&self) -> Option<&str> {
        match &self.refcursors {
            Refcursors::From(opener) => Some(opener),
            Refcursors::None | Refcursors::Opens => None,
        }
    }
}

/// Cuts a text at its lines `-- name: NAME :many|:one|:value [nested in …|from …]` and `-- name:
/// NAME :refcursors`. Text before the first of them is a section of its own if there is anything
/// but blanks and comments in it, or if there are no such lines.
///
/// # Errors
/// A line `-- name:` that cannot be read, or a quote or comment that does not end.
pub fn sections(text: &str, dialect: &'static Dialect) -> Result<Vec<Section>, SqlError> {
    let mut lexer = Lexer::new(text, dialect);
    let mut sections = Vec::new();
    let mut current =
        Section { name: None, nesting: None, refcursors: Refcursors::None, offset: 0, range: 0..text.len() };
    let mut empty = true;
    while let Some(token) = lexer.next()? {
        if token.kind == Kind::LineComment
            && begins_line(text, token.start)
            && let Some(next) = marker(text, &token)?
        {
            current.range.end = token.start;
            let done = std::mem::replace(&mut current, next);
            if done.name.is_some() || !empty {
                sections.push(done);
            }
        }
        empty &= matches!(token.kind, Kind::Blank | Kind::LineComment | Kind::BlockComment);
    }
    sections.push(current);
    Ok(sections)
}

/// Whether there is no statement in a text: nothing but blanks and comments.
///
/// # Errors
/// A quote or comment that does not end.
pub fn is_blank(text: &str, dialect: &'static Dialect) -> Result<bool, SqlError> {
    let mut lexer = Lexer::new(text, dialect);
    while let Some(token) = lexer.next()? {
        if !matches!(token.kind, Kind::Blank | Kind::LineComment | Kind::BlockComment) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn begins_line(text: &str, offset: usize) -> bool {
    let line_start = text[..offset].rfind('\n').map_or(0, |end| end + 1);
    text[line_start..offset].bytes().all(|byte| byte.is_ascii_whitespace())
}

/// The section that a comment `-- name: NAME :many` begins; `None` when it is another comment.
fn marker(text: &str, token: &Token) -> Result<Option<Section>, SqlError> {
    let comment = text[token.start..token.end].trim_start_matches('-').trim_start();
    let Some(rest) = comment.strip_prefix("name:") else { return Ok(None) };
    let (name, rest) = split_word(rest);
    let (word, rest) = split_word(rest);
    let cardinality = cardinality(word).filter(|_| is_name(name)).ok_or_else(|| {
        let hint =
            "write `-- name: NAME :many`, `:one` or `:value`, NAME of ASCII letters, digits and underscores";
        unreadable(token.start, hint)
    })?;
    let (nesting, refcursors) = match (word, rest.trim()) {
        (REFCURSORS, "") => (None, Refcursors::Opens),
        (_, "") => (None, Refcursors::None),
        (word, rest) => clause(word, rest).map_err(|hint| unreadable(token.start, hint))?,
    };
    let (name, range) = (Some((name.to_owned(), cardinality)), token.end..text.len());
    Ok(Some(Section { name, nesting, refcursors, offset: token.start, range }))
}

/// What is said behind a statement's name and `word`; an error tells what could be.
fn clause(word: &str, rest: &str) -> Result<(Option<Nesting>, Refcursors), &'static str> {
    const OPENS: &str = "write `-- name: NAME :refcursors`, and nothing after it";
    const READS: &str = "write `-- name: NAME :many from OPENER`: the name of a `:refcursors` statement";
    const NESTS: &str = "write `-- name: NAME :many nested in PARENT on COLUMN = COLUMN`: its own column, then that of \
                         PARENT, and further pairs after `and`";
    match split_word(rest) {
        _ if word == REFCURSORS => Err(OPENS),
        (FROM, _) => Ok((None, from(rest).ok_or(READS)?)),
        _ => Ok((Some(nesting(rest).ok_or(NESTS)?), Refcursors::None)),
    }
}

/// The first word, and what follows it.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

fn unreadable(offset: usize, hint: &str) -> SqlError {
    let message = "a line that begins with `-- name:` names a statement, and this one cannot be read";
    SqlError::new(offset, message, Some(hint))
}

fn cardinality(word: &str) -> Option<Cardinality> {
    match word {
        ":many" => Some(Cardinality::Many),
        ":one" | REFCURSORS => Some(Cardinality::One),
        ":value" => Some(Cardinality::Value),
        _ => None,
    }
}

/// `from OPENER`.
fn from(text: &str) -> Option<Refcursors> {
    match words(text)?[..] {
        [(_, FROM), (Quoting::Bare, opener)] if is_name(opener) => Some(Refcursors::From(opener.to_owned())),
        _ => None,
    }
}

/// `nested in PARENT on COLUMN = COLUMN [and COLUMN = COLUMN]…`.
fn nesting(text: &str) -> Option<Nesting> {
    let words = words(text)?;
    let (head, pairs) = words.split_at_checked(4)?;
    let [(_, "nested"), (_, "in"), (Quoting::Bare, parent), (_, "on")] = head else { return None };
    let pairs = pairs.split(|word| *word == (Quoting::Bare, "and"));
    let pair = |pair: &[(Quoting, &str)]| match pair {
        [(_, own), (Quoting::Bare, "="), (_, other)] => Some((column(own), column(other))),
        _ => None,
    };
    let on = pairs.map(pair).collect::<Option<_>>()?;
    is_name(parent).then(|| Nesting { parent: (*parent).to_owned(), on })
}

/// A column's name, in which a quote is written twice.
fn column(quoted: &str) -> String {
    quoted.replace("\"\"", "\"")
}

/// Whether a word stood in quotes, and means nothing but a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Bare,
    Quoted,
}

/// Words, `=`, and what stands between double quotes; `None` when a quote has no end.
fn words(text: &str) -> Option<Vec<(Quoting, &str)>> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (quoting, word, behind) = match first {
            '"' => {
                let end = quote_end(&rest[1..])?;
                (Quoting::Quoted, &rest[1..=end], &rest[end + 2..])
            }
            '=' => (Quoting::Bare, &rest[..1], &rest[1..]),
            _ => {
                let ends = |c: char| c.is_whitespace() || matches!(c, '=' | '"');
                let end = rest.find(ends).unwrap_or(rest.len());
                (Quoting::Bare, &rest[..end], &rest[end..])
            }
        };
        words.push((quoting, word));
        rest = behind.trim_start();
    }
    Some(words)
}

/// Where the first quote stands that is not written twice.
fn quote_end(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let quote = from + text[from..].find('"')?;
        if !text[quote + 1..].starts_with('"') {
            return Some(quote);
        }
        from = quote + 2;
    }
}

/// Whether `name` is an ASCII letter or underscore, then letters, digits and underscores.
pub fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(lexer::begins_name) && bytes.all(lexer::continues_name)
}

#[cfg(test)]
mod tests;
