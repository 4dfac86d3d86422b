//! Replaces the named parameters of a statement with placeholders.
//!
//! There's no SQL grammar here. The lexer knows quotes, comments and the few uses of a colon that
//! aren't a parameter. That's enough to replace `:name` and to find the end of a statement.
//! Everything else reaches the database unchanged.

mod compared;
pub mod dialect;
mod lexer;
mod limit;
mod operator;
mod optional;
mod outline;
mod sort;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

pub use self::compared::{compared_values, items_of_in};
pub use self::dialect::Dialect;
use self::dialect::{Affixes, Placeholders};
use self::lexer::{Lexer, Token, TokenKind};
pub use self::limit::{Limit, LimitPart, limit_placeholders, numbered_placeholders};
pub use self::operator::Operator;
pub use self::optional::{OptionalPart, optional_parts, without_parts};
pub use self::outline::{Computed, OrderedBy, Outline, RowSelect, UNIONS};
pub use self::sort::sort_place;

/// Marks a statement whose row contains refcursors that other statements read. It replaces the
/// cardinality.
const REFCURSORS: &str = ":refcursors";
/// Introduces the name of the statement whose refcursor is read.
const FROM: &str = "from";

/// The number of rows that a statement returns, and so the JSON value that it becomes.
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
    /// The name of each argument, in the order of the database's arguments. With numbered
    /// placeholders each name appears once. Otherwise it's repeated for each of its places.
    pub names: Vec<String>,
    /// The start of each copied piece in `text` and in the original, in bytes.
    pub pieces: Vec<(usize, usize)>,
    /// For each of `names`, the place of its `:` in the original, in bytes. If one argument has
    /// several places, it's the first of them.
    pub places: Vec<usize>,
}

/// The reason why a text isn't a single statement with named parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// The place, in bytes from the start of the text.
    pub offset: usize,
    /// The error message.
    pub message: String,
    /// The remedy.
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
    /// Each name once, with its first place.
    pub fn distinct(&self) -> impl Iterator<Item = (&str, usize)> {
        let names = self.names.iter().zip(&self.places).enumerate();
        names
            .filter(|(index, (name, _))| !self.names[..*index].contains(name))
            .map(|(_, (name, &at))| (name.as_str(), at))
    }

    /// Reads one statement and makes its named parameters positional. A `;` at the end is cut, with
    /// everything after it. If a parameter is the whole limit or offset, we wrap it in
    /// [`Dialect::null_limit`], because not every database accepts NULL there.
    ///
    /// # Errors
    /// A quote or comment isn't closed, a second statement follows, or there's no statement at all.
    /// A placeholder has a number instead of a name. The text contains a NUL character, which would
    /// end it early in the database.
    pub fn parse(text: &str, dialect: &'static Dialect) -> Result<Self, SqlError> {
        if let Some(offset) = text.find('\0') {
            return Err(SqlError::new(offset, "a NUL character in a statement", Some("remove it")));
        }
        let mut lexer = Lexer::new(text, dialect);
        let (mut tokens, mut comments) = (Vec::new(), Vec::new());
        let mut end = None;
        while let Some(token) = lexer.next()? {
            match token.kind {
                TokenKind::Blank => continue,
                TokenKind::LineComment | TokenKind::BlockComment => comments.push(token),
                _ if end.is_some() => return Err(second_statement(token.start)),
                TokenKind::Semicolon => end = Some(token.start),
                TokenKind::Placeholder => return Err(placeholder(text, &token)),
                TokenKind::Parameter | TokenKind::Quoted | TokenKind::Word | TokenKind::Other => {
                    tokens.push(token);
                }
            }
        }
        if tokens.is_empty() {
            return Err(SqlError::new(0, "there is no statement here", None));
        }
        let text = &*in_ascii(text, &comments);
        let mut rewriter = Rewriter::new(text, dialect);
        for (index, token) in
            tokens.iter().enumerate().filter(|(_, token)| token.kind == TokenKind::Parameter)
        {
            rewriter.parameter(token, limit::is_whole(text, &tokens, index));
        }
        Ok(rewriter.finish(end.unwrap_or(text.len())))
    }
}

/// Replaces the non-ASCII characters of these comments, without changing the length of the text. A
/// database in another encoding refuses the letters that it lacks, even in comments. Hints stay,
/// because they name tables.
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
    SqlError::new(offset, "there are two statements, but one is expected", Some(hint))
}

fn placeholder(text: &str, token: &Token) -> SqlError {
    let message = format!("the placeholder `{}` has no name", &text[token.start..token.end]);
    SqlError::new(token.start, message, Some("parameters are written `:name`, and declared in `[params]`"))
}

/// Copies a text piece by piece, with placeholders instead of names.
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

    /// Writes the placeholder of a parameter. If the parameter is the `whole` limit or offset, it
    /// may be NULL.
    fn parameter(&mut self, token: &Token, whole: bool) {
        self.sql.text.push_str(&self.text[self.copied..token.start]);
        let number = self.number(&self.text[token.start + 1..token.end], token.start);
        let around = self.dialect.null_limit.filter(|_| whole).unwrap_or(Affixes::NOTHING);
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

/// The parent of a nested statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nesting {
    /// The name of the parent statement.
    pub parent: String,
    /// The pairs of columns that match in a row and its parent row: first the nested statement's,
    /// then the parent's.
    pub on: Vec<(String, String)>,
}

/// The use of refcursors by a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refcursors {
    /// The statement doesn't use refcursors.
    None,
    /// `:refcursors`: the columns of its only row are refcursors that other statements read.
    Opens,
    /// `from OPENER`: the statement has no text, and returns the rows of that statement's
    /// refcursor.
    From(String),
}

/// One statement of a text that contains one or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name and cardinality; `None` before the first `-- name:` line.
    pub name: Option<(String, Cardinality)>,
    /// The parent, if the statement is nested.
    pub nesting: Option<Nesting>,
    /// The refcursors that it opens or reads.
    pub refcursors: Refcursors,
    /// The start of its `-- name:` line, or of its text if there's no such line, in bytes.
    pub offset: usize,
    /// The place of its text in the whole, in bytes, without the `-- name:` line.
    pub range: Range<usize>,
}

impl Section {
    /// The section's name.
    pub fn name_text(&self) -> Option<&str> {
        self.name.as_ref().map(|(name, _)| name.as_str())
    }

    /// The name of the section that opens the refcursor read here.
    pub fn opener(&self) -> Option<&str> {
        match &self.refcursors {
            Refcursors::From(opener) => Some(opener),
            Refcursors::None | Refcursors::Opens => None,
        }
    }
}

/// Splits a text at its lines `-- name: NAME :many|:one|:value [nested in …|from …]` and `-- name:
/// NAME :refcursors`. Text before the first of them is a separate section, unless it contains only
/// blanks and comments. A text without these lines is one section.
///
/// # Errors
/// A `-- name:` line can't be read, or a quote or comment isn't closed.
pub fn sections(text: &str, dialect: &'static Dialect) -> Result<Vec<Section>, SqlError> {
    let mut lexer = Lexer::new(text, dialect);
    let mut sections = Vec::new();
    let mut current =
        Section { name: None, nesting: None, refcursors: Refcursors::None, offset: 0, range: 0..text.len() };
    let mut empty = true;
    while let Some(token) = lexer.next()? {
        if token.kind == TokenKind::LineComment
            && begins_line(text, token.start)
            && let Some(next) = marker(text, &token)?
        {
            current.range.end = token.start;
            let done = std::mem::replace(&mut current, next);
            if done.name.is_some() || !empty {
                sections.push(done);
            }
        }
        empty &= matches!(token.kind, TokenKind::Blank | TokenKind::LineComment | TokenKind::BlockComment);
    }
    sections.push(current);
    Ok(sections)
}

/// Returns true if a text contains only blanks and comments.
///
/// # Errors
/// A quote or comment isn't closed.
pub fn is_blank(text: &str, dialect: &'static Dialect) -> Result<bool, SqlError> {
    let mut lexer = Lexer::new(text, dialect);
    while let Some(token) = lexer.next()? {
        if !matches!(token.kind, TokenKind::Blank | TokenKind::LineComment | TokenKind::BlockComment) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn begins_line(text: &str, offset: usize) -> bool {
    let line_start = text[..offset].rfind('\n').map_or(0, |end| end + 1);
    text[line_start..offset].bytes().all(|byte| byte.is_ascii_whitespace())
}

/// The section that a comment `-- name: NAME :many` begins; `None` for any other comment.
fn marker(text: &str, token: &Token) -> Result<Option<Section>, SqlError> {
    let comment = text[token.start..token.end].trim_start_matches('-').trim_start();
    let Some(rest) = comment.strip_prefix("name:") else { return Ok(None) };
    let (name, rest) = split_word(rest);
    let (word, rest) = split_word(rest);
    let cardinality = cardinality(word).filter(|_| is_name(name)).ok_or_else(|| {
        let hint = "write `-- name: NAME :many`, `:one` or `:value`, with NAME of ASCII letters, digits and \
             underscores";
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

/// Reads the clause after a statement's name and `word`. An error is a hint about the right syntax.
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

/// Splits a text after its first word.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

fn unreadable(offset: usize, hint: &str) -> SqlError {
    let message = "a line that begins with `-- name:` names a statement, but this one can't be read";
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

/// Unescapes the doubled quotes of a column's name.
fn column(quoted: &str) -> String {
    quoted.replace("\"\"", "\"")
}

/// Distinguishes a quoted word, which is always a name, from keywords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Bare,
    Quoted,
}

/// Words, `=`, and texts in double quotes; `None` if a quote isn't closed.
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

/// The place of the first quote that isn't doubled.
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

/// Returns true if `name` is an ASCII letter or underscore, followed by letters, digits and
/// underscores.
pub fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(lexer::begins_name) && bytes.all(lexer::continues_name)
}

#[cfg(test)]
mod tests;
