//! Finds the limit at the end of a statement. We remove it to resume the statement after a row.

use std::ops::Range;

use super::dialect::Dialect;
use super::lexer::{Lexer, Token, TokenKind};

/// `limit …` at the end of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Its start, in bytes.
    pub start: usize,
    /// The place of the row count, in bytes: what follows the word `limit`.
    pub count: Range<usize>,
    /// The placeholders that appear only in the limit, by the numbers of their arguments.
    pub only: Vec<usize>,
    /// The placeholder of the row count. `None` if the count is fixed, or an expression that we
    /// don't understand.
    pub placeholder: Option<usize>,
    /// The row count if the placeholder is missing or NULL; `None` if we don't know it.
    pub rows: Option<u64>,
}

impl Limit {
    /// The limit of a statement with positional placeholders. `None` if there's no limit, or if we
    /// can't remove it because there's an offset or another syntax.
    pub fn find(text: &str, dialect: &'static Dialect) -> Option<Self> {
        let tokens = significant(text, dialect)?;
        let mut depth = 0_usize;
        let mut at = None;
        for (index, token) in tokens.iter().enumerate() {
            let word = &text[token.start..token.end];
            match word.to_ascii_lowercase().as_str() {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                "limit" if depth == 0 && !is_name(text, &tokens[..index]) => at = Some(index),
                "offset" | "fetch" | "for" if depth == 0 => return None,
                // `limit 10, 20` has an offset, and a union begins another statement.
                "," | "union" | "except" | "intersect" if depth == 0 && at.is_some() => return None,
                _ => {}
            }
        }
        let at = at?;
        let numbers = numbers(text, &tokens, dialect);
        let (outside, inside) = numbers.split_at(at);
        let is_only = |number: &usize| !outside.contains(&Some(*number));
        let only = inside.iter().copied().flatten().filter(is_only).collect();
        let of_count = &tokens[at + 1..];
        let count = of_count.first()?.start..of_count.last()?.end;
        let words: Vec<_> = of_count.iter().map(|token| &text[token.start..token.end]).collect();
        let (placeholder, rows) = rows(&words, &numbers[at + 1..]);
        Some(Self { start: tokens[at].start, count, only, placeholder, rows })
    }
}

/// Returns true if the parameter at `index` is a whole limit or offset: `limit :n`, `limit (:n)
/// offset :o`, `limit :o, :n`.
pub(super) fn is_whole(text: &str, tokens: &[Token], index: usize) -> bool {
    let word = |token: &Token| &text[token.start..token.end];
    let is = |token: Option<&Token>, wanted: &str| {
        token.is_some_and(|token| token.kind != TokenKind::Quoted && word(token).eq_ignore_ascii_case(wanted))
    };
    let (mut before, mut after) = (&tokens[..index], &tokens[index + 1..]);
    while is(before.last(), "(") && is(after.first(), ")") {
        (before, after) = (&before[..before.len() - 1], &after[1..]);
    }
    let ends = after.is_empty() || [")", ",", "offset"].iter().any(|end| is(after.first(), end));
    let begins = is(before.last(), "limit")
        || is(before.last(), "offset")
        || (is(before.last(), ",") && is_in_limit(text, &before[..before.len() - 1]));
    begins && ends
}

/// Returns true if the place after these tokens belongs to a limit: `limit 10, :n`, but not `select
/// a, :n` or `f(a, :n)`.
fn is_in_limit(text: &str, before: &[Token]) -> bool {
    let mut depth = 0_usize;
    for token in before.iter().rev() {
        match text[token.start..token.end].to_ascii_lowercase().as_str() {
            ")" => depth += 1,
            "(" if depth == 0 => return false,
            "(" => depth -= 1,
            "limit" if depth == 0 => return true,
            "," | "select" if depth == 0 => return false,
            _ => {}
        }
    }
    false
}

/// Returns true if the word after these tokens is a name: `t.limit`, `1 as limit`.
fn is_name(text: &str, before: &[Token]) -> bool {
    let last = before.last().map(|token| &text[token.start..token.end]);
    last.is_some_and(|last| last == "." || last.eq_ignore_ascii_case("as"))
}

/// The meaning of a limit's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitPart {
    /// The maximum number of rows.
    Rows,
    /// The number of rows to skip.
    Offset,
}

/// The placeholders that are a whole limit or offset, in a statement without numbered ones. They're
/// counted from 0.
pub fn limit_placeholders(text: &str, dialect: &'static Dialect) -> Vec<(usize, LimitPart)> {
    let tokens = significant(text, dialect).unwrap_or_default();
    let is = |token: Option<&Token>, wanted: &str| {
        token.is_some_and(|token| text[token.start..token.end].eq_ignore_ascii_case(wanted))
    };
    let placeholders = tokens.iter().enumerate().filter(|(_, token)| token.kind == TokenKind::Placeholder);
    let whole = placeholders.enumerate().filter(|(_, (index, _))| is_whole(text, &tokens, *index));
    let part = |(number, (index, _)): (usize, (usize, &Token))| {
        let before = index.checked_sub(1).and_then(|before| tokens.get(before));
        let is_offset = is(before, "offset") || is(tokens.get(index + 1), ",");
        (number, if is_offset { LimitPart::Offset } else { LimitPart::Rows })
    };
    whole.map(part).collect()
}

/// The placeholders of a statement: the place of each in bytes, and the number of its argument,
/// from 1.
pub fn numbered_placeholders(text: &str, dialect: &'static Dialect) -> Vec<(Range<usize>, usize)> {
    let tokens = significant(text, dialect).unwrap_or_default();
    let numbers = numbers(text, &tokens, dialect);
    let placeholders = tokens.iter().zip(numbers);
    placeholders.filter_map(|(token, number)| Some((token.start..token.end, number?))).collect()
}

/// The tokens except blanks and comments.
pub(super) fn significant(text: &str, dialect: &'static Dialect) -> Option<Vec<Token>> {
    let mut lexer = Lexer::new(text, dialect);
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next().ok()? {
        if !matches!(token.kind, TokenKind::Blank | TokenKind::LineComment | TokenKind::BlockComment) {
            tokens.push(token);
        }
    }
    Some(tokens)
}

/// For each token, the number of its argument if it's a placeholder.
pub(super) fn numbers(text: &str, tokens: &[Token], dialect: &Dialect) -> Vec<Option<usize>> {
    let mut before = 0;
    let number = |token: &Token| {
        let placeholder = (token.kind == TokenKind::Placeholder).then(|| &text[token.start..token.end])?;
        let number = dialect.placeholders.number(placeholder, before);
        before += 1;
        number
    };
    tokens.iter().map(number).collect()
}

/// Reads `:n`, `10`, and `coalesce(:n, 10)` or `ifnull(:n, 10)`; -1 means no limit. Returns the
/// placeholder, and the count without it.
fn rows(words: &[&str], numbers: &[Option<usize>]) -> (Option<usize>, Option<u64>) {
    let (function, number, rows) = match (words, numbers) {
        ([one], [number]) => return (*number, one.parse().ok()),
        ([function, "(", _, ",", rows, ")"], [_, _, number, ..]) => (function, number, rows.parse().ok()),
        ([function, "(", _, ",", "-", "1", ")"], [_, _, number, ..]) => (function, number, None),
        _ => return (None, None),
    };
    let is_known = ["coalesce", "ifnull"].iter().any(|known| function.eq_ignore_ascii_case(known));
    match number.filter(|_| is_known) {
        Some(number) => (Some(number), rows),
        None => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::dialect::samples::{ANONYMOUS, BRACKETED, NUMBERED};

    #[test]
    fn limits_at_the_end() {
        for (text, limit, only, placeholder, rows) in [
            ("select 1 limit $2", "limit $2", &[2][..], Some(2), None),
            ("select $1 from t LIMIT 10", "LIMIT 10", &[], None, Some(10)),
            (
                "select 1 limit coalesce($1, 500) -- x",
                "limit coalesce($1, 500) -- x",
                &[1],
                Some(1),
                Some(500),
            ),
            ("select $1 limit $1", "limit $1", &[], Some(1), None),
            ("select 1 limit ifnull($1, -1)", "limit ifnull($1, -1)", &[1], Some(1), None),
            ("select 1 limit least($1, 500)", "limit least($1, 500)", &[1], None, None),
            ("select 1 limit $1 + $2", "limit $1 + $2", &[1, 2], None, None),
            ("select (select 1 limit 5) limit all", "limit all", &[], None, None),
            ("(select 1 limit 2) union (select 2 limit 3) limit 4", "limit 4", &[], None, Some(4)),
        ] {
            let found = Limit::find(text, &NUMBERED).unwrap();
            assert_eq!(&text[found.start..], limit);
            assert_eq!(&text[found.count], limit[6..].trim_end_matches(" -- x"), "{text}");
            assert_eq!((&found.only[..], found.placeholder, found.rows), (only, placeholder, rows), "{text}");
        }
    }

    /// Each placeholder is a separate argument.
    #[test]
    fn limits_of_placeholders_without_numbers() {
        for (text, only, placeholder) in [
            ("select 1 limit ?", &[1][..], Some(1)),
            ("select ? from t where a = ? limit ?", &[3], Some(3)),
            ("select ?, '?' limit coalesce(?, 500)", &[2], Some(2)),
            ("select ? limit ? + ?", &[2, 3], None),
            ("select ? limit 10", &[], None),
        ] {
            let found = Limit::find(text, &ANONYMOUS).unwrap();
            assert_eq!((&found.only[..], found.placeholder), (only, placeholder), "{text}");
        }
    }

    #[test]
    fn placeholders_that_are_all_of_a_limit() {
        use LimitPart::{Offset, Rows};
        for (text, expected) in [
            ("select ? limit ?", &[(1, Rows)][..]),
            ("select 1 limit ? offset ?", &[(0, Rows), (1, Offset)]),
            ("select 1 limit ?, ?", &[(0, Offset), (1, Rows)]),
            ("select (select 1 limit ?), ?", &[(0, Rows)]),
            ("select ?, f(1, ?) from t where a in (?, ?)", &[]),
        ] {
            assert_eq!(limit_placeholders(text, &ANONYMOUS), expected, "{text}");
        }
    }

    #[test]
    fn limits_that_stay() {
        for text in [
            "select 1",
            "select (select 1 limit 5)",
            "with a as (select 1 limit 5) select * from a",
            "select 1 limit 10 offset 20",
            "select 1 offset 20 limit 10",
            "select 1 limit 10, 20",
            "select 1 fetch first 3 rows only",
            "select 'limit 5' as \"limit\"",
            "select t.limit, 1 as limit from t",
            "select 1 limit '",
        ] {
            assert_eq!(Limit::find(text, &BRACKETED), None, "{text}");
        }
    }
}
