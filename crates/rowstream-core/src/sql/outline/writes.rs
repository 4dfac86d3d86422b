//! Finds words that lock rows or write, which a read-only transaction refuses.

use std::ops::Range;

use super::{Outline, Part};

/// Functions whose arguments may have the word `for`: `substring(name for share)`.
const WITH_FOR: [&str; 3] = ["substring", "substr", "overlay"];
/// The first words of statements that write.
const FIRST_WORDS: [&[&str]; 5] = [&["insert"], &["update"], &["delete"], &["merge"], &["replace"]];

impl Outline<'_> {
    /// The place of the first of the dialect's [writes](super::Dialect::writes), in bytes. A statement
    /// that begins with `update`, for example, is one of them if the dialect has any.
    pub fn write(&self) -> Option<Range<usize>> {
        let writes = self.dialect.writes;
        if writes.is_empty() {
            return None;
        }
        let mut places = (0..self.parts.len()).filter(|&at| !self.is_in_function(at));
        begins(&self.parts, &FIRST_WORDS).or_else(|| places.find_map(|at| begins(&self.parts[at..], writes)))
    }

    /// True if the innermost bracket around a part is that of a function with the word `for`.
    fn is_in_function(&self, at: usize) -> bool {
        let before = &self.parts[..at];
        let open = before.iter().rposition(|part| part.text == "(" && part.depth == self.parts[at].depth);
        let name = open.and_then(|open| before[..open].last());
        name.is_some_and(|name| WITH_FOR.iter().any(|function| is_word(name, function)))
    }
}

/// The place of the phrase at the beginning of these parts.
fn begins(parts: &[Part<'_>], phrases: &[&[&str]]) -> Option<Range<usize>> {
    let is_here = |phrase: &&&[&str]| {
        phrase.len() <= parts.len() && phrase.iter().zip(parts).all(|(word, part)| is_word(part, word))
    };
    let phrase = phrases.iter().find(is_here)?;
    Some(parts[0].start..parts[phrase.len() - 1].end())
}

/// True for this word at any depth.
fn is_word(part: &Part<'_>, word: &str) -> bool {
    part.text.eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use crate::sql::Outline;
    use crate::sql::dialect::samples::{ANONYMOUS, NUMBERED};

    #[test]
    fn writes() {
        for (sql, expected) in [
            ("select a from t for update", Some("for update")),
            ("select a from t FOR\n/* x */ Share nowait", Some("FOR\n/* x */ Share")),
            ("with x as (select a from t for update) select * from x", Some("for update")),
            ("select (select substring(a for 2) from t for share)", Some("for share")),
            ("with x as (insert into t values (1) returning a) select * from x", Some("insert into")),
            ("update t set a = 1 returning a", Some("update")),
            ("select substring(a from 1 for share), 'for update', \"for\" update from t", None),
            ("select insert, update, delete from t -- for update", None),
        ] {
            let outline = Outline::new(sql, &NUMBERED).unwrap();
            assert_eq!(outline.write().map(|place| &sql[place]), expected, "{sql}");
            assert_eq!(Outline::new(sql, &ANONYMOUS).unwrap().write(), None, "{sql}");
        }
    }
}
