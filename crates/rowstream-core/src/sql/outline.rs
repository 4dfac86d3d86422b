//! Finds out how a statement's rows are ordered, which table they're from, and if each of them is a
//! row of that table.
//!
//! Only plain statements are understood. For all others the answer is "unknown".

mod computed;
mod writes;

use std::ops::Range;

use super::dialect::{Dialect, Names, Quotes, TableName};
use super::lexer::{Lexer, TokenKind};

pub use self::computed::Computed;

/// The words that may follow the tables of a statement whose result rows are rows of those tables.
const BEHIND_TABLE: [&str; 6] = ["where", "order", "limit", "offset", "fetch", "for"];
/// The words that may follow the terms of an order.
pub(super) const BEHIND_ORDER: [&str; 4] = ["limit", "offset", "fetch", "for"];
/// The words that begin a limit or an offset.
const LIMITS: [&str; 3] = ["limit", "offset", "fetch"];
/// The words that are followed by an operand, such as a column.
const BEFORE_OPERAND: [&str; 19] = [
    "select", "distinct", "all", "as", "by", "where", "on", "and", "or", "not", "having", "when", "then",
    "else", "case", "is", "like", "in", "between",
];
/// The words that may follow a term of an order and change only its direction.
const DIRECTIONS: [&str; 5] = ["asc", "desc", "nulls", "first", "last"];
/// The words that combine the rows of several statements.
pub const UNIONS: [&str; 3] = ["union", "intersect", "except"];
/// The words that a [`RowSelect`] statement can't have. All of them are reserved, so outside of
/// brackets they have no other meaning.
const NOT_BY_ROW: [&str; 14] = [
    "union",
    "intersect",
    "except",
    "into",
    "join",
    "group",
    "having",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    ";",
];

/// The parts of a statement that selects rows of one table, each independently.
#[derive(Debug, PartialEq, Eq)]
pub struct RowSelect<'a> {
    /// The text before `from`.
    pub list: &'a str,
    /// The text from `from` on, before the condition.
    pub from: &'a str,
    /// The condition, without `where`.
    pub condition: Option<&'a str>,
    /// The table, as it's written.
    pub table: String,
}

/// A term of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderedBy {
    /// A column of a key, by its index there; true if it's descending.
    Key(usize, bool),
    /// Another column of the result.
    Other,
    /// An expression, or a column that isn't in the result.
    Unknown,
}

/// A statement's tokens, split by clauses.
pub struct Outline<'a> {
    text: &'a str,
    parts: Vec<Part<'a>>,
    dialect: &'static Dialect,
}

/// A token that isn't a blank or a comment.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    text: &'a str,
    /// Its start in the statement, in bytes.
    start: usize,
    /// The number of brackets around it. A bracket counts itself.
    depth: usize,
}

impl Part<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }

    fn is(&self, word: &str) -> bool {
        self.depth == 0 && self.text.eq_ignore_ascii_case(word)
    }

    fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }
}

/// Returns true if an item of a list of columns is `*` or `TABLE.*`.
fn is_star(item: &[Part<'_>]) -> bool {
    item.last().is_some_and(|part| part.is("*"))
}

/// A column as a statement names it.
#[derive(Debug, PartialEq, Eq)]
struct NamedColumn {
    table: Option<String>,
    column: String,
}

impl<'a> Outline<'a> {
    /// Splits a statement; `None` if the lexer can't read it.
    pub fn new(text: &'a str, dialect: &'static Dialect) -> Option<Self> {
        let mut lexer = Lexer::new(text, dialect);
        let (mut parts, mut depth) = (Vec::new(), 0_usize);
        while let Some(token) = lexer.next().ok()? {
            let (start, text) = (token.start, &text[token.start..token.end]);
            match (token.kind, text) {
                (TokenKind::Blank | TokenKind::LineComment | TokenKind::BlockComment, _) => continue,
                (_, "(" | "[") => {
                    depth += 1;
                    parts.push(Part { text, start, depth });
                }
                (_, ")" | "]") => {
                    parts.push(Part { text, start, depth });
                    depth = depth.saturating_sub(1);
                }
                _ => parts.push(Part { text, start, depth }),
            }
        }
        Some(Self { text, parts, dialect })
    }

    /// Returns true if `word` is its first word.
    pub fn begins_with(&self, word: &str) -> bool {
        self.parts.first().is_some_and(|part| part.is(word))
    }

    /// Returns true if it begins with a bracket.
    pub fn begins_with_bracket(&self) -> bool {
        self.parts.first().is_some_and(|part| part.text == "(")
    }

    /// Looks for these words, even inside brackets.
    pub fn has_any(&self, words: &[&str]) -> bool {
        let is_one = |text: &str| words.iter().any(|word| text.eq_ignore_ascii_case(word));
        self.parts.iter().any(|part| is_one(part.text))
    }

    /// Looks for calls of these functions, even by quoted names.
    pub fn calls_any(&self, functions: &[&str]) -> bool {
        let is_one = |text: &str| {
            functions.iter().any(|function| text.trim_matches(['"', '`']).eq_ignore_ascii_case(function))
        };
        self.parts.windows(2).any(|pair| pair[1].text == "(" && is_one(pair[0].text))
    }

    /// Looks for MySQL's session variables, `@name`. (`@@name` is a variable of the server.)
    pub fn has_session_variable(&self) -> bool {
        let is_sign = |part: &Part<'_>| part.text == "@";
        let begins_name = |c: char| c.is_alphanumeric() || "_$.`'\"".contains(c);
        let is_name =
            |sign: &Part<'_>, part: &Part<'_>| sign.end() == part.start && part.text.starts_with(begins_name);
        self.parts.windows(2).enumerate().any(|(index, pair)| {
            let is_server = index.checked_sub(1).is_some_and(|before| is_sign(&self.parts[before]));
            is_sign(&pair[0]) && !is_server && is_name(&pair[0], &pair[1])
        })
    }

    /// Returns true if the rows are ordered by the columns `key` first, so that rows with equal
    /// keys are adjacent. `columns` are the names of the result's columns.
    pub fn is_ordered_by(&self, columns: &[&str], key: &[usize]) -> bool {
        let mut open = key.to_vec();
        for term in self.order() {
            match key.iter().find(|&&column| self.is_column(term, columns, column)) {
                Some(column) => open.retain(|other| other != column),
                None => break,
            }
        }
        open.is_empty()
    }

    /// The terms of its order. `columns` are the names of the result's columns, and `key` are some
    /// of them.
    pub fn order_by(&self, columns: &[&str], key: &[usize]) -> Vec<OrderedBy> {
        let term = |(term, whole): (&[Part<'a>], &[Part<'a>])| {
            let is = |&column: &usize| self.is_column(term, columns, column);
            let is_named = matches!(self.named(term), Some(NamedColumn { table: None, .. }));
            match key.iter().position(is) {
                Some(column) => OrderedBy::Key(column, whole.iter().any(|part| part.is("desc"))),
                None if is_named && (0..columns.len()).any(|column| is(&column)) => OrderedBy::Other,
                None => OrderedBy::Unknown,
            }
        };
        self.order().zip(self.order_terms()).map(term).collect()
    }

    /// The place of the order at its end, in bytes, `order by` included.
    pub fn order_place(&self) -> Option<Range<usize>> {
        let at = self.order_at()?;
        let rest = &self.parts[at..];
        let len = rest.iter().position(|part| part.is_any(&BEHIND_ORDER)).unwrap_or(rest.len());
        Some(rest[0].start..rest[len - 1].end())
    }

    /// Returns true if it has a limit or an offset outside of brackets.
    pub fn has_limit(&self) -> bool {
        self.has_clause(&LIMITS)
    }

    /// Returns true if one of these words begins a clause outside of brackets, after another one. A
    /// column may have the name of one of these words.
    pub fn has_clause(&self, words: &[&str]) -> bool {
        let is_operator = |c: char| c.is_ascii_punctuation() && !")]?'\"`".contains(c);
        let is_operand =
            |before: &Part<'_>| before.is_any(&BEFORE_OPERAND) || before.text.chars().all(is_operator);
        let follows_operand = |pair: &[Part<'_>]| pair[1].is_any(words) && !is_operand(&pair[0]);
        self.parts.windows(2).any(follows_operand)
    }

    /// Looks for these words outside of brackets.
    pub fn has_outside(&self, words: &[&str]) -> bool {
        self.parts.iter().any(|part| part.is_any(words))
    }

    fn order_at(&self) -> Option<usize> {
        self.parts.windows(2).rposition(|pair| pair[0].is("order") && pair[1].is("by"))
    }

    /// The terms of its order, without their directions.
    fn order(&self) -> impl Iterator<Item = &[Part<'a>]> {
        self.order_terms().map(|term| {
            let len = term.iter().rposition(|part| !part.is_any(&DIRECTIONS)).map_or(0, |last| last + 1);
            &term[..len]
        })
    }

    /// The terms of its order.
    fn order_terms(&self) -> impl Iterator<Item = &[Part<'a>]> {
        let terms = self.order_at().map_or(&[][..], |at| &self.parts[at + 2..]);
        let end = terms.iter().position(|part| part.is_any(&BEHIND_ORDER)).unwrap_or(terms.len());
        terms[..end].split(|part| part.is(",")).filter(|term| !term.is_empty())
    }

    /// The columns that it's ordered by, each as it's written: its name, and its direction, such as
    /// ` desc nulls last`.
    ///
    /// # Errors
    /// The first term of another form.
    pub fn order_columns(&self) -> Result<Vec<(&'a str, &'a str)>, &'a str> {
        let column = |term: &[Part<'a>]| {
            let (name, end) = (term[0], term[term.len() - 1].end());
            let is_name = self.name(name.text).is_some();
            match is_name && term[1..].iter().all(|part| part.is_any(&DIRECTIONS)) {
                true => Ok((name.text, &self.text[name.end()..end])),
                false => Err(&self.text[name.start..end]),
            }
        };
        self.order_terms().map(column).collect()
    }

    /// Returns true if a term of the order is a column of the result, by its name, its number or
    /// its expression.
    fn is_column(&self, term: &[Part<'_>], columns: &[&str], column: usize) -> bool {
        if let [Part { text, .. }] = term
            && let Ok(number) = text.parse::<usize>()
        {
            return number == column + 1;
        }
        match self.named(term) {
            Some(NamedColumn { table: None, column: name }) => {
                columns.iter().position(|other| self.fold(other) == name) == Some(column)
            }
            Some(term) => self.selected(columns, column).is_some_and(|selected| {
                selected.column == term.column && (selected.table == term.table || self.table().is_some())
            }),
            None => false,
        }
    }

    /// The table whose rows the statement returns, each at most once, in the form that the
    /// catalog's query expects. [`Outline::functions`] could repeat rows.
    pub fn table_name(&self, asked: TableName) -> Option<String> {
        let (written, table) = self.table()?;
        match (asked, table.table) {
            (TableName::AsWritten, None) => Some(written[0].text.to_owned()),
            (TableName::AsWritten, Some(_)) => Some(written[..3].iter().map(|part| part.text).collect()),
            (TableName::Bare, None) => Some(table.column),
            (TableName::Bare, Some(_)) => None,
        }
    }

    /// The tokens from the table on, and the table's name in its comparable form.
    fn table(&self) -> Option<(&[Part<'a>], NamedColumn)> {
        if !self.parts.first()?.is("select") || self.parts.iter().any(|part| part.is_any(&UNIONS)) {
            return None;
        }
        let from = self.parts.iter().position(|part| part.is("from"))?;
        let rest = &self.parts[from + 1..];
        let len = rest.iter().position(|part| part.is_any(&BEHIND_TABLE)).unwrap_or(rest.len());
        Some((rest, self.aliased(&rest[..len])?))
    }

    /// Takes a statement apart that selects rows of one table, each independently. We see only
    /// words: [`Outline::functions_or_columns`] may still combine rows.
    ///
    /// # Errors
    /// The reason why the statement isn't of this form.
    pub fn by_row(&self) -> Result<RowSelect<'a>, String> {
        let (Some(first), Some(last)) = (self.parts.first(), self.parts.last()) else {
            return Err("there is no statement".to_owned());
        };
        if !first.is("select") {
            return Err(format!("it begins with `{}`, not with `select`", first.text));
        }
        if self.parts.get(1).is_some_and(|part| part.is("distinct")) {
            return Err("it has `distinct`".to_owned());
        }
        if let Some(part) = self.parts.iter().find(|part| part.is_any(&NOT_BY_ROW)) {
            return Err(format!("it has `{}`", part.text));
        }
        // `a is distinct from b` is an operator.
        let is_from = |at: &usize| self.parts[*at].is("from") && !self.parts[at - 1].is("distinct");
        let from = (1..self.parts.len()).find(is_from).ok_or("it selects from no table")?;
        let rest = &self.parts[from + 1..];
        let end = rest.iter().position(|part| part.is("where"));
        let written = &rest[..end.unwrap_or(rest.len())];
        let named = self.aliased(written).ok_or("it selects from more than the name of one table")?;
        let name = if named.table.is_some() { 3 } else { 1 };
        let table = written[..name].iter().map(|part| part.text).collect();
        let condition = end.map(|at| &self.text[rest[at].end()..last.end()]);
        let head = end.map_or(last.end(), |at| rest[at].start);
        let (list, from) = self.text[..head].split_at(self.parts[from].start);
        Ok(RowSelect { list, from, condition, table })
    }

    /// The table's column behind a column of the result, if the statement has one table.
    pub fn origin(&self, columns: &[&str], column: usize) -> Option<String> {
        self.selected(columns, column).map(|selected| selected.column)
    }

    /// The names in its condition, among them those of columns.
    pub fn condition_names(&self) -> Vec<String> {
        let Some(at) = self.parts.iter().position(|part| part.is("where")) else { return Vec::new() };
        let end = self.order_at().unwrap_or(self.parts.len());
        self.parts[at..end.max(at)].iter().filter_map(|part| self.name(part.text)).collect()
    }

    /// The column of its only table that's called `name` in the result.
    pub fn column_of(&self, name: &str) -> Option<String> {
        self.table()?;
        let items = self.items()?;
        let name = self.fold(name);
        let is_called =
            |item: &&&[Part<'_>]| item.last().and_then(|part| self.name(part.text)) == Some(name.clone());
        match items.iter().find(is_called) {
            Some(item) => self.aliased(item).map(|named| named.column),
            None => items.iter().any(|item| is_star(item)).then_some(name),
        }
    }

    /// The names that may be those of tables, and some of columns and keywords. Aliases after `as` aren't among
    /// them, because clients may choose those.
    pub fn tables_or_columns(&self) -> Vec<String> {
        const BEFORE: [&str; 8] = ["from", "table", "join", "straight_join", "only", ",", "(", "."];
        let is_any =
            |part: &Part<'_>, words: &[&str]| words.iter().any(|word| part.text.eq_ignore_ascii_case(word));
        let reads_tables = self.parts.iter().any(|part| is_any(part, &BEFORE[..2]));
        let pairs = self.parts.windows(2).filter(|pair| reads_tables && is_any(&pair[0], &BEFORE));
        pairs.filter_map(|pair| self.name(pair[1].text)).collect()
    }

    /// The functions that the statement calls, and procedures that it calls without brackets.
    pub fn functions(&self) -> Vec<String> {
        let called = |pair: &[Part<'a>]| match pair[1].text {
            "(" => self.name(pair[0].text),
            procedure if pair[0].is("call") => self.name(procedure),
            _ => None,
        };
        self.parts.windows(2).filter_map(called).collect()
    }

    /// The functions, and each name after a dot with that dot in front. `e.count` is a column, or
    /// else the aggregate of the rows of `e`.
    pub fn functions_or_columns(&self) -> Vec<String> {
        let dotted = self.parts.windows(2).filter(|pair| pair[0].text == ".");
        let dotted = dotted.filter_map(|pair| Some(format!(".{}", self.name(pair[1].text)?)));
        self.functions().into_iter().chain(dotted).collect()
    }

    /// The items of its list of columns.
    fn items(&self) -> Option<Vec<&[Part<'a>]>> {
        let list = self.parts.split_first().filter(|(first, _)| first.is("select"))?.1;
        let list = &list[..list.iter().position(|part| part.is("from"))?];
        let list = match list.split_first() {
            Some((first, rest)) if first.is_any(&["all", "distinct"]) => rest,
            _ => list,
        };
        Some(list.split(|part| part.is(",")).collect())
    }

    /// The table's column that the statement selects as this column of its result.
    fn selected(&self, columns: &[&str], column: usize) -> Option<NamedColumn> {
        let items = self.items()?;
        match items[0] {
            // If a name is repeated, it means its first column.
            [_] if is_star(items[0]) => {
                self.table()?;
                Some(NamedColumn { table: None, column: self.fold(columns[column]) })
            }
            [table, dot, _] if is_star(items[0]) && dot.is(".") => {
                Some(NamedColumn { table: Some(self.name(table.text)?), column: self.fold(columns[column]) })
            }
            _ if items.iter().any(|item| is_star(item)) => None,
            _ => self.aliased(items.get(column)?),
        }
    }

    /// Reads `NAME` or `NAME.NAME`, with or without an alias (`as NAME` or `NAME`).
    fn aliased(&self, parts: &[Part<'_>]) -> Option<NamedColumn> {
        if let Some(named) = self.named(parts) {
            return Some(named);
        }
        let (alias, before) = parts.split_last()?;
        self.name(alias.text)?;
        match before.split_last() {
            Some((last, named)) if last.is("as") => self.named(named),
            _ => self.named(before),
        }
    }

    fn named(&self, parts: &[Part<'_>]) -> Option<NamedColumn> {
        match parts {
            [column] => Some(NamedColumn { table: None, column: self.name(column.text)? }),
            [table, Part { text: ".", .. }, column] => {
                Some(NamedColumn { table: Some(self.name(table.text)?), column: self.name(column.text)? })
            }
            _ => None,
        }
    }

    /// A name in its comparable form; `None` if the token isn't a name.
    fn name(&self, token: &str) -> Option<String> {
        let first = *token.as_bytes().first()?;
        let quotes =
            if first == b'"' { Some(Quotes::Doubled(first)) } else { self.dialect.syntax.quotes(first) };
        match quotes {
            Some(Quotes::Doubled(quote)) => {
                let quote = char::from(quote);
                let inside = token.strip_prefix(quote)?.strip_suffix(quote)?;
                Some(self.fold(&inside.replace(&format!("{quote}{quote}"), &quote.to_string())))
            }
            Some(Quotes::Pair(open, close)) => {
                let inside = token.strip_prefix(char::from(open))?.strip_suffix(char::from(close))?;
                Some(self.fold(inside))
            }
            None if first.is_ascii_alphabetic() || first == b'_' || !first.is_ascii() => {
                Some(token.to_ascii_lowercase())
            }
            None => None,
        }
    }

    /// The name of a result's column in its comparable form.
    fn fold(&self, name: &str) -> String {
        match self.dialect.syntax.names {
            Names::Exact => name.to_owned(),
            Names::Caseless => name.to_ascii_lowercase(),
        }
    }
}
