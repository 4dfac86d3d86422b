//! Optional parts of a statement: `/*if status*/ and status = :status /*end*/`.
//!
//! To other SQL tools the marks are comments, so they run the statement with all of its parts.

use std::ops::Range;

use super::dialect::Dialect;
use super::lexer::{Lexer, Token, TokenKind};
use super::{SqlError, begins_line, is_name, marker};

/// A part that a statement has only if a parameter is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionalPart {
    /// The parameter.
    pub name: String,
    /// Its place in the text with both marks, in bytes.
    pub range: Range<usize>,
}

/// A mark of a part.
enum Mark<'a> {
    If(&'a str),
    End,
    /// A comment that begins or ends like a mark. It's only a comment if there are no such pairs.
    Almost {
        is_end: bool,
    },
}

/// The optional parts of a text with one or more statements, in their order.
///
/// # Errors
/// A part has no end, contains another part, or reaches into the next statement. A mark is spelled
/// in another way. Or a quote or comment isn't closed.
pub fn optional_parts(text: &str, dialect: &'static Dialect) -> Result<Vec<OptionalPart>, SqlError> {
    let mut lexer = Lexer::new(text, dialect);
    let (mut parts, mut open) = (Vec::new(), None::<(usize, &str)>);
    let mut almost = None;
    while let Some(token) = lexer.next()? {
        match (mark(text, &token), open) {
            (None, Some((start, name))) if ends_statement(text, &token)? => {
                return Err(without_end(start, name));
            }
            (None, _) => {}
            (Some(Mark::If(name)), None) => open = Some((token.start, name)),
            (Some(Mark::If(_)), Some(_)) => {
                let hint = "write `/*end*/` before it: parts can't contain each other";
                return Err(SqlError::new(token.start, "an optional part begins in another one", Some(hint)));
            }
            (Some(Mark::End), Some((start, name))) => {
                parts.push(OptionalPart { name: name.to_owned(), range: start..token.end });
                open = None;
            }
            (Some(Mark::Almost { is_end: false }), None) => almost = almost.or(Some(token.start)),
            (Some(Mark::End | Mark::Almost { is_end: true }), None) if let Some(start) = almost => {
                let hint =
                    "write `/*if NAME*/` with the name of a parameter, and `/*end*/`; or change the comment";
                let message = "this comment looks like the mark of an optional part, but isn't one";
                return Err(SqlError::new(start, message, Some(hint)));
            }
            (Some(Mark::Almost { .. }), _) => {}
            // Without a part before it, it's a comment like any other.
            (Some(Mark::End), None) if parts.is_empty() => {}
            (Some(Mark::End), None) => {
                let hint = "remove it, or write `/*if NAME*/` before the optional part";
                return Err(SqlError::new(token.start, "`/*end*/` ends no optional part", Some(hint)));
            }
        }
    }
    open.map_or(Ok(parts), |(start, name)| Err(without_end(start, name)))
}

/// The text with blanks instead of the parts of these parameters, so that all places stay the same.
pub fn without_parts(text: &str, parts: &[OptionalPart], left_out: &[&str]) -> String {
    let mut text = text.to_owned();
    for part in parts.iter().filter(|part| left_out.contains(&part.name.as_str())) {
        let blank = |byte: u8| if byte == b'\n' { '\n' } else { ' ' };
        let blanks: String = text[part.range.clone()].bytes().map(blank).collect();
        text.replace_range(part.range.clone(), &blanks);
    }
    text
}

fn mark<'a>(text: &'a str, token: &Token) -> Option<Mark<'a>> {
    let comment = &text[token.start..token.end];
    let inner =
        comment.strip_prefix("/*")?.strip_suffix("*/").filter(|_| token.kind == TokenKind::BlockComment)?;
    let mut words = inner.split_whitespace();
    match (words.next()?, words.next(), words.next()) {
        // Claims have a dot in their names.
        ("if", Some(name), None) if name.split('.').all(is_name) => Some(Mark::If(name)),
        ("end", None, None) => Some(Mark::End),
        // A sentence isn't meant as a mark.
        (first, ..) if inner.split_whitespace().count() <= 3 => {
            let word = first.split(|c: char| !c.is_ascii_alphabetic()).next()?.to_ascii_lowercase();
            // In a single word, the blank may have been forgotten: `/*ifa*/`.
            let is = |mark: &str| word == mark || first.trim() == inner.trim() && word.starts_with(mark);
            (is("end") || is("if")).then(|| Mark::Almost { is_end: is("end") })
        }
        _ => None,
    }
}

/// Returns true if a token ends its statement.
fn ends_statement(text: &str, token: &Token) -> Result<bool, SqlError> {
    Ok(match token.kind {
        TokenKind::Semicolon => true,
        TokenKind::LineComment => begins_line(text, token.start) && marker(text, token)?.is_some(),
        _ => false,
    })
}

fn without_end(start: usize, name: &str) -> SqlError {
    let message = format!("the optional part `/*if {name}*/` has no end in its statement");
    SqlError::new(start, message, Some("write `/*end*/` after it"))
}

#[cfg(test)]
mod tests {
    use super::super::dialect::samples::ANONYMOUS;
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        let parts = optional_parts(text, &ANONYMOUS).map_err(|error| error.message)?;
        Ok(parts.into_iter().map(|part| part.name).collect())
    }

    #[test]
    fn parts_are_between_their_marks() {
        for (text, expected) in [
            ("select 1 /*if a*/ and :a /*end*/ /* if b */ x /* end */", Ok(&["a", "b"][..])),
            ("select 1 /* if this breaks, call us */ /* end */", Ok(&[])),
            ("select '/*if a*/' -- /*if a*/", Ok(&[])),
            ("select /*if a*/ 1", Err("the optional part `/*if a*/` has no end in its statement")),
            ("select /*if a*/ 1; /*end*/", Err("the optional part `/*if a*/` has no end in its statement")),
            (
                "select /*if a*/ 1\n-- name: b :many\nselect 2 /*end*/",
                Err("the optional part `/*if a*/` has no end in its statement"),
            ),
            ("/*if a*/ /*if b*/ /*end*/ /*end*/", Err("an optional part begins in another one")),
            (
                "/*IF a*/ x /*END*/",
                Err("this comment looks like the mark of an optional part, but isn't one"),
            ),
            (
                "/*if not a*/ x /*end*/",
                Err("this comment looks like the mark of an optional part, but isn't one"),
            ),
            (
                "/*if(a)*/ x /*end;*/",
                Err("this comment looks like the mark of an optional part, but isn't one"),
            ),
            (
                "select 1 /*ifa*/ and :a /*end*/",
                Err("this comment looks like the mark of an optional part, but isn't one"),
            ),
            (
                "select 1 /* ifa */ and :a /*endif*/",
                Err("this comment looks like the mark of an optional part, but isn't one"),
            ),
            ("select /*iffy*/ 1, /* ending soon */ 2", Ok(&[])),
            ("/* end of x */ /*if jwt.a*/ x /*end*/", Ok(&["jwt.a"])),
            ("/*if a*/ /*end*/ /*end*/", Err("`/*end*/` ends no optional part")),
        ] {
            let expected = expected.map(|names| names.iter().map(|&name| name.to_owned()).collect());
            assert_eq!(names(text), expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn places_stay_the_same_without_a_part() {
        let text = "a /*if x*/ ü\n/*end*/ b /*if y*/c/*end*/";
        let parts = optional_parts(text, &ANONYMOUS).unwrap();
        let without = without_parts(text, &parts, &["x"]);
        assert_eq!(without.len(), text.len());
        assert_eq!(without.split_whitespace().collect::<Vec<_>>(), ["a", "b", "/*if", "y*/c/*end*/"]);
        assert_eq!(without.find('\n'), text.find('\n'));
        assert_eq!(without_parts(text, &parts, &[]), text);
    }
}
