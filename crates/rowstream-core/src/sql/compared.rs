//! Finds the parameters that a statement compares as single values. A list isn't one: no row is equal
//! to it, and each is different from it. It judges by the tokens around a parameter, and doubts are for
//! the statement.

use super::dialect::Dialect;
use super::lexer::{Token, TokenKind};
use super::limit::{numbers, significant};

/// The placeholders that are items of `in (…)`, by the numbers of their arguments, from 1.
pub fn items_of_in(text: &str, dialect: &'static Dialect) -> Vec<usize> {
    Comparisons::new(text, dialect).numbers(Comparisons::is_item)
}

/// The placeholders that are compared as one value, by the numbers of their arguments, from 1: items of
/// `in (…)`, and operands of `=`, `<>`, `between` and the like. A comparison with a literal isn't meant:
/// `:ids = '[]'`.
pub fn compared_values(text: &str, dialect: &'static Dialect) -> Vec<usize> {
    Comparisons::new(text, dialect).numbers(Comparisons::is_compared)
}

const COMPARISONS: [&str; 9] = ["=", "==", "<>", "!=", "<", ">", "<=", ">=", "<=>"];

/// Words before a bracket that don't call a function.
const KEYWORDS: [&str; 22] = [
    "and", "between", "by", "case", "distinct", "else", "from", "glob", "having", "is", "like", "not", "on",
    "or", "regexp", "rlike", "select", "then", "using", "values", "when", "where",
];

/// Words before a bracket with the values, or a query of them, to compare with.
const MEMBERSHIPS: [&str; 4] = ["in", "any", "some", "all"];

/// A statement's tokens, and their brackets.
struct Comparisons<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    /// The number of each token's argument.
    numbers: Vec<Option<usize>>,
    /// The bracket around each token.
    brackets: Vec<Option<usize>>,
    /// The closing bracket of each opening one.
    ends: Vec<Option<usize>>,
}

/// A value in a statement, by its first and its last token.
#[derive(Clone, Copy)]
struct Operand {
    first: usize,
    last: usize,
}

impl<'a> Comparisons<'a> {
    fn new(text: &'a str, dialect: &'static Dialect) -> Self {
        let tokens = significant(text, dialect).unwrap_or_default();
        let numbers = numbers(text, &tokens, dialect);
        let (mut open, mut brackets, mut ends) = (Vec::new(), Vec::new(), vec![None; tokens.len()]);
        for (index, token) in tokens.iter().enumerate() {
            let word = &text[token.start..token.end];
            if word == ")"
                && let Some(start) = open.pop()
            {
                ends[start] = Some(index);
            }
            brackets.push(open.last().copied());
            if word == "(" {
                open.push(index);
            }
        }
        Self { text, tokens, numbers, brackets, ends }
    }

    fn numbers(&self, is_meant: impl Fn(&Self, Operand) -> bool) -> Vec<usize> {
        let meant = |(index, number): (usize, &Option<usize>)| {
            number.filter(|_| is_meant(self, Operand { first: index, last: index }))
        };
        self.numbers.iter().enumerate().filter_map(meant).collect()
    }

    /// The word or the symbol at an index, in lower case. Empty outside of the statement, and for names in
    /// quotes.
    fn word(&self, index: usize) -> String {
        match self.tokens.get(index) {
            Some(token) if token.kind != TokenKind::Quoted => {
                self.text[token.start..token.end].to_ascii_lowercase()
            }
            _ => String::new(),
        }
    }

    fn before(&self, index: usize, distance: usize) -> String {
        index.checked_sub(distance).map_or_else(String::new, |index| self.word(index))
    }

    /// True for `a in (x)`, `a in (x, …)`, `(a, b) in ((x, …))` and `a in (select x)`.
    fn is_item(&self, operand: Operand) -> bool {
        let Some(outer) = self.outer(operand) else { return false };
        self.before(outer.first, 1) == "in" || self.is_item(outer)
    }

    /// The brackets around a value, or around a row or a query with it. `None` if it's part of an
    /// expression or an argument.
    fn outer(&self, Operand { first, last }: Operand) -> Option<Operand> {
        let bracket = self.brackets[first]?;
        let end = self.ends[bracket]?;
        let (before, after) = (self.before(first, 1), self.word(last + 1));
        let is_whole = match &*self.word(bracket + 1) {
            "select" => first == bracket + 2 && last + 1 == end,
            "values" => ["values", ","].contains(&&*before) && [",", ")"].contains(&&*after),
            _ => ["(", ","].contains(&&*before) && [",", ")"].contains(&&*after),
        };
        (is_whole && !self.is_call(bracket)).then_some(Operand { first: bracket, last: end })
    }

    /// True if a bracket has the arguments of a function.
    fn is_call(&self, bracket: usize) -> bool {
        let Some(name) = bracket.checked_sub(1).map(|name| &self.tokens[name]) else { return false };
        let word = self.before(bracket, 1);
        let is_keyword = KEYWORDS.contains(&&*word) || MEMBERSHIPS.contains(&&*word);
        matches!(name.kind, TokenKind::Word | TokenKind::Quoted) && !is_keyword
    }

    fn is_compared(&self, operand: Operand) -> bool {
        let is_in_brackets = |brackets: Operand| {
            MEMBERSHIPS.contains(&&*self.before(brackets.first, 1)) || self.is_compared(brackets)
        };
        self.is_operand(operand) || self.outer(operand).is_some_and(is_in_brackets)
    }

    /// True if the tokens next to a value compare it.
    fn is_operand(&self, Operand { first, last }: Operand) -> bool {
        let (before, after) = (self.operator_before(first), self.operator_after(last + 1));
        let is_other = |operator: &str| !operator.is_empty() && !COMPARISONS.contains(&operator);
        if is_other(before) || is_other(after) {
            return false;
        }
        if !before.is_empty() && !self.is_literal(first.checked_sub(before.len() + 1)) {
            return true;
        }
        if !after.is_empty() {
            return !self.is_literal(Some(last + 1 + after.len()));
        }
        before.is_empty() && self.is_operand_of_words(first, last + 1)
    }

    /// True for the operands of `between`, `is` and so on. `after` is the index behind the operand.
    fn is_operand_of_words(&self, first: usize, after: usize) -> bool {
        let skip_not = |at: usize| at + usize::from(self.word(at) == "not");
        match &*self.word(after) {
            "is" => {
                return !["null", "true", "false", "unknown"].contains(&&*self.word(skip_not(after + 1)));
            }
            "in" | "between" => return true,
            "not" => return ["in", "between"].contains(&&*self.word(after + 1)),
            "isnull" | "notnull" => return false,
            _ => {}
        }
        match &*self.before(first, 1) {
            "like" | "glob" | "regexp" | "rlike" | "between" | "is" | "when" | "and" => true,
            "not" => self.before(first, 2) == "is",
            "from" => self.before(first, 2) == "distinct",
            "case" => self.word(after) == "when",
            _ => false,
        }
    }

    /// The operator that ends before a token. Each of its characters is a token.
    fn operator_before(&self, index: usize) -> &'a str {
        let is_part = |token: &&Token| self.is_operator(token);
        let length = self.tokens[..index].iter().rev().take_while(is_part).count();
        self.joined(index - length, index)
    }

    fn operator_after(&self, index: usize) -> &'a str {
        let rest = self.tokens.get(index..).unwrap_or_default();
        let length = rest.iter().take_while(|token| self.is_operator(token)).count();
        self.joined(index, index + length)
    }

    fn is_operator(&self, token: &Token) -> bool {
        token.kind == TokenKind::Other && !["(", ")", ","].contains(&&self.text[token.start..token.end])
    }

    fn joined(&self, first: usize, end: usize) -> &'a str {
        if first == end { "" } else { &self.text[self.tokens[first].start..self.tokens[end - 1].end] }
    }

    fn is_literal(&self, index: Option<usize>) -> bool {
        let token = index.and_then(|index| self.tokens.get(index));
        token.is_some_and(|token| self.text[token.start..].starts_with('\''))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::dialect::samples::{ANONYMOUS, NUMBERED};

    #[test]
    fn placeholders_that_are_items_of_in() {
        for (text, expected) in [
            ("select a from t where a in (?)", &[1][..]),
            ("select ? from t where a NOT IN -- x\n( ?, 1, ? ) and b in (f(?), ? + 1)", &[2, 3]),
            ("select a from t where (?) = a and a in (select ? from u where u.a = (?))", &[]),
            ("select a in ((?), ?), 'in (?)', in(?", &[1, 2]),
            (
                "select (a, b) in ((?, 1), (2, ?)), a in (select ?), a in (values (1), (?)), a = any (?)",
                &[1, 2, 3, 4],
            ),
            ("select f(?), (?), (?, 1), \"in\"(?), a in (f((?)), (select ?, 1))", &[]),
            ("?)", &[]),
        ] {
            assert_eq!(items_of_in(text, &ANONYMOUS), expected, "{text}");
        }
        assert_eq!(items_of_in("select a from t where $2 or a in ($1, $2)", &NUMBERED), [1, 2]);
    }

    #[test]
    fn placeholders_that_are_compared() {
        for text in [
            "a = ?",
            "? = a",
            "a <> ? and b",
            "a != (?)",
            "((?)) >= a",
            "a = (select ?)",
            "a in (select ?)",
            "a = any (select ?)",
            "a not in (b, ?)",
            "(a, b) in ((?, 1))",
            "(a, b) = (?, 1)",
            "a between ? and b",
            "a between b and ?",
            "? between 'a' and 'b'",
            "? not in (select a from t)",
            "case a when ? then 1 end",
            "case ? when a then 1 end",
            "a is ?",
            "a is not ?",
            "a is not distinct from ?",
            "? is distinct from a",
            "a like ?",
            "f(a = ?)",
            "a = ? collate nocase",
        ] {
            let text = format!("select 1 from t where {text}");
            assert_eq!(compared_values(&text, &ANONYMOUS), [1], "{text}");
        }
        for text in [
            "? is null or a in (select value from json_each(?))",
            "? is not null and b",
            "? = '[]'",
            "'[]' <> ? or b",
            "a = json(?)",
            "a = json((?))",
            "a = ? ->> 0",
            "a = ? || ''",
            "'' || ? = a",
            "a ->> ?",
            "? like '%' || a || '%'",
            "case when ? is null then 1 else ? end",
            "a in (select value from json_table(?, '$[*]' columns (v int path '$')))",
            "a member of(?)",
            "exists (select 1, ?)",
            "(select ?)",
        ] {
            let text = format!("select ?, ? as x from t where {text}");
            assert_eq!(compared_values(&text, &ANONYMOUS), [0; 0], "{text}");
        }
    }
}
