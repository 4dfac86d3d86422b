//! The place of a request's order in a statement: `order by /*sort*/ created desc, id`.
//!
//! To other SQL tools the mark is a comment, so they run the statement in its own order.

use std::ops::Range;

use super::SqlError;
use super::dialect::Dialect;
use super::lexer::{Lexer, Token, TokenKind};
use super::outline::BEHIND_ORDER;

/// The place of `/*sort*/` in a text, in bytes. `None` if there's none.
///
/// # Errors
/// There are two marks, or one isn't between an `order by` outside of brackets and its first term, or
/// is spelled in another way. Or a quote or comment isn't closed.
pub fn sort_place(text: &str, dialect: &'static Dialect) -> Result<Option<Range<usize>>, SqlError> {
    let mut lexer = Lexer::new(text, dialect);
    let mut words = Words::default();
    let mut place: Option<Range<usize>> = None;
    while let Some(token) = lexer.next()? {
        let (is_blank, word) = (is_blank(&token), &text[token.start..token.end]);
        match is_mark(&token, word) {
            Some(_) if place.is_some() => {
                let hint = "remove one: a request's order has one place";
                return Err(SqlError::new(token.start, "there are two `/*sort*/`", Some(hint)));
            }
            Some(true) if words.begin_order() => place = Some(token.start..token.end),
            Some(true) => {
                let hint = "write it there, before the order that all requests have: `order by /*sort*/ id`";
                let message = "`/*sort*/` isn't directly after an `order by` outside of brackets";
                return Err(SqlError::new(token.start, message, Some(hint)));
            }
            Some(false) => {
                let message = "this comment looks like the place of a request's order, but isn't one";
                let hint = "write `/*sort*/` in lower case, or change the comment";
                return Err(SqlError::new(token.start, message, Some(hint)));
            }
            None if is_blank => {}
            None => words.add(word),
        }
    }
    match &place {
        Some(place) if !has_term(&text[place.end..], dialect)? => {
            let hint = "write the order that all requests have after it: `order by /*sort*/ id`";
            let message = "`order by /*sort*/` has no order of its own";
            Err(SqlError::new(place.start, message, Some(hint)))
        }
        _ => Ok(place),
    }
}

/// The last words before a place, and the brackets around it.
#[derive(Default)]
struct Words<'a> {
    last: [&'a str; 2],
    depth: usize,
}

impl<'a> Words<'a> {
    fn add(&mut self, word: &'a str) {
        match word {
            "(" | "[" => self.depth += 1,
            ")" | "]" => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.last = [self.last[1], word];
    }

    /// True if the terms of the outermost order begin here.
    fn begin_order(&self) -> bool {
        let [order, by] = self.last;
        self.depth == 0 && order.eq_ignore_ascii_case("order") && by.eq_ignore_ascii_case("by")
    }
}

fn is_blank(token: &Token) -> bool {
    matches!(token.kind, TokenKind::Blank | TokenKind::LineComment | TokenKind::BlockComment)
}

/// True for `/*sort*/`, and false for a comment with this word in another spelling. `None` for all
/// other tokens.
fn is_mark(token: &Token, word: &str) -> Option<bool> {
    let inner =
        word.strip_prefix("/*")?.strip_suffix("*/").filter(|_| token.kind == TokenKind::BlockComment)?;
    match inner.trim_ascii() {
        "sort" => Some(true),
        other => {
            let letters = other.trim_matches(|c: char| c.is_ascii_punctuation() || !c.is_ascii());
            letters.eq_ignore_ascii_case("sort").then_some(false)
        }
    }
}

/// The words and signs that follow a term of an order.
const BEHIND_TERM: [&str; 9] = ["asc", "desc", "nulls", "collate", "limit", ",", ";", ".", ")"];

/// Returns true if a text begins with a term of an order. A column may be called `offset`.
fn has_term(text: &str, dialect: &'static Dialect) -> Result<bool, SqlError> {
    let mut lexer = Lexer::new(text, dialect);
    let mut words = Vec::with_capacity(2);
    while let Some(token) = lexer.next()?
        && words.len() < 2
    {
        if !is_blank(&token) {
            words.push(&text[token.start..token.end]);
        }
    }
    let Some(first) = words.first() else { return Ok(false) };
    let is_one = |word: &str, of: &[&str]| of.iter().any(|one| word.eq_ignore_ascii_case(one));
    let is_offset = first.eq_ignore_ascii_case("offset");
    let is_column = is_offset && words.get(1).is_none_or(|next| is_one(next, &BEHIND_TERM));
    Ok(is_column || !is_one(first, &BEHIND_ORDER) && !is_one(first, &[";", ",", ")"]))
}

#[cfg(test)]
mod tests {
    use super::super::dialect::samples::ANONYMOUS;
    use super::*;

    #[test]
    fn the_place_is_before_the_terms_of_the_outermost_order() {
        let misplaced = Err("`/*sort*/` isn't directly after an `order by` outside of brackets");
        let spelled = Err("this comment looks like the place of a request's order, but isn't one");
        let alone = Err("`order by /*sort*/` has no order of its own");
        for (text, expected) in [
            ("select 1 order by /*sort*/ id limit 5", Ok(Some("/*sort*/"))),
            (
                "select (select 1 order by a) from t ORDER -- x\n BY /* x */ /* sort */ (a) desc",
                Ok(Some("/* sort */")),
            ),
            ("select 1 order by id", Ok(None)),
            ("select '/*sort*/', \"/*sort*/\" -- /*sort*/", Ok(None)),
            ("select 1 /* sort by date */ order by id", Ok(None)),
            ("select 1 order by id /*sort*/", misplaced),
            ("select 1 /*sort*/ order by id", misplaced),
            ("select 1 order by id, /*sort*/ a", misplaced),
            ("select * from (select 1 order by /*sort*/ id limit 5)", misplaced),
            ("select row_number() over (order by /*sort*/ id)", misplaced),
            ("select 'order by' /*sort*/ id", misplaced),
            ("select 1 order by /*SORT*/ id", spelled),
            ("select 1 order by /*:sort*/ id", spelled),
            // Letters beyond ASCII are dots in the statement that runs.
            ("select 1 order by /*\u{a0}sort*/ id", spelled),
            ("select 1 /*«sort»*/ order by /*sort*/ id", spelled),
            ("select 1 order by /*sort*/ /*sort*/ id", Err("there are two `/*sort*/`")),
            ("select 1 order by /*sort*/ a; select 1 order by /*sort*/ a", Err("there are two `/*sort*/`")),
            ("select 1 order by /*sort*/", alone),
            ("select 1 order by /*sort*/ -- id", alone),
            ("select 1 order by /*sort*/ limit 5", alone),
            ("select 1 order by /*sort*/ offset 5", alone),
            ("select 1 order by /*sort*/ offset", Ok(Some("/*sort*/"))),
            ("select 1 order by /*sort*/ offset desc limit 5", Ok(Some("/*sort*/"))),
            ("select 1 order by /*sort*/ \"limit\"", Ok(Some("/*sort*/"))),
            ("select 1 order by /*sort*/, id", alone),
        ] {
            let found = sort_place(text, &ANONYMOUS).map(|place| place.map(|place| &text[place]));
            assert_eq!(found.map_err(|error| error.message), expected.map_err(str::to_owned), "{text}");
        }
    }
}
