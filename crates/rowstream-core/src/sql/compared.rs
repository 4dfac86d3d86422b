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
/// `in (…)`, and operands of `=`, `<>`, `between` and the like whose other side is a column. `:ids = '[]'`
/// isn't meant.
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

/// Words that aren't the names of columns.
const VALUES: [&str; 5] = ["end", "false", "null", "true", "unknown"];

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

    /// True if the tokens next to a value compare it with a column.
    fn is_operand(&self, Operand { first, last }: Operand) -> bool {
        let (before, after) = (self.operator_before(first), self.operator_after(last + 1));
        let is_other = |operator: &str| !operator.is_empty() && !COMPARISONS.contains(&operator);
        if is_other(before) || is_other(after) {
            return false;
        }
        let left = match before {
            "" => self.compared_by_words(first),
            _ => first.checked_sub(before.len() + 1),
        };
        let right = match after {
            "" => self.compares_by_words(last + 1),
            _ => Some(last + 1 + after.len()),
        };
        left.is_some_and(|left| self.ends_column(left)) || right.is_some_and(|right| self.is_column(right))
    }

    /// The end of `a` in `a is x`, `a not between x`, `a between 1 and x` and so on. `x` begins at `index`.
    fn compared_by_words(&self, index: usize) -> Option<usize> {
        let mut first = index;
        if self.before(index, 1) == "and" {
            let is_near = |&at: &usize| self.brackets[at] == self.brackets[index];
            let mut near = (0..index - 1).rev().filter(is_near);
            first = near.find(|&at| ["between", "and"].contains(&&*self.word(at)))? + 1;
        }
        let mut compares = false;
        while ["is", "between", "not", "distinct", "from"].contains(&&*self.before(first, 1)) {
            first -= 1;
            compares |= ["is", "between"].contains(&&*self.word(first));
        }
        if compares { first.checked_sub(1) } else { None }
    }

    /// The start of `a` in `x is a`, `x between a`, `x in (a`, `x in (select a` and so on. `index` is the one
    /// behind `x`.
    fn compares_by_words(&self, index: usize) -> Option<usize> {
        let operator = index + usize::from(self.word(index) == "not");
        let words: &[&str] = match &*self.word(operator) {
            "is" => &["not", "distinct", "from"],
            "in" => &["(", "select"],
            "between" => &[],
            _ => return None,
        };
        (operator + 1..self.tokens.len()).find(|&at| !words.contains(&&*self.word(at)))
    }

    /// True if a token is the end of a column's name, and not of a longer expression.
    fn ends_column(&self, mut index: usize) -> bool {
        while self.before(index, 1) == "." && index > 1 && self.is_name(index) {
            index -= 2;
        }
        self.is_name(index) && self.operator_before(index).is_empty() && self.before(index, 1) != "collate"
    }

    /// True if a token is the start of a column's name, and not of a longer expression.
    fn is_column(&self, mut index: usize) -> bool {
        while self.word(index + 1) == "." && self.is_name(index) {
            index += 2;
        }
        let is_longer = |next: &Token| next.kind == TokenKind::Quoted || self.word(index + 1) == "(";
        let is_whole = self.operator_after(index + 1).is_empty();
        self.is_name(index) && is_whole && !self.tokens.get(index + 1).is_some_and(is_longer)
    }

    /// True for a name, also in quotes. `"[]"` may be a text.
    fn is_name(&self, index: usize) -> bool {
        let Some(token) = self.tokens.get(index) else { return false };
        let is_well = |c: char| c.is_alphabetic() || c == '_';
        match token.kind {
            TokenKind::Word => {
                let word = &*self.word(index);
                word.starts_with(is_well) && !KEYWORDS.contains(&word) && !VALUES.contains(&word)
            }
            TokenKind::Quoted => {
                let text = &self.text[token.start..token.end];
                text.starts_with(['"', '`', '[']) && text[1..].starts_with(is_well)
            }
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
            "? = t.a and b",
            "t.\"a\" = ?",
            "a between ? and b",
            "a between b and ?",
            "a not between 1 and ?",
            "? between a and 'b'",
            "? not in (select a from t)",
            "? in (a, 'b')",
            "a is ?",
            "a is not ?",
            "a is not distinct from ?",
            "? is distinct from a",
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
            "a = 0 and ? like '%a%'",
            "a between 1 and 2 and ? regexp 'a'",
            "a = 0 and ? member of (b)",
            "a = 0 and ? collate nocase = '[]'",
            "'[]' collate nocase = ?",
            "case when ? like 'a' then 1 end",
            "case ? when '[]' then 1 end",
            "case when a then '[]' end = ?",
            "? = \"[]\"",
            "? = N'[]'",
            "? = x'5b5d'",
            "? is '[]'",
            "? is not '[]'",
            "? is not true",
            "? in ('[]', '')",
            "? between '[' and ']'",
            "? = json_array()",
            "? = cast('[]' as char)",
            "? = a -> '$.tags'",
            "? = (select a from t)",
            "a || b = ?",
            "a is null and ? like b",
            "extract(year from ?)",
        ] {
            let text = format!("select ?, ? as x from t where {text}");
            assert_eq!(compared_values(&text, &ANONYMOUS), [0; 0], "{text}");
        }
    }
}
