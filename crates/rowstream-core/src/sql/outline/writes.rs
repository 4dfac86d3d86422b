//! Finds words that lock rows or write, which a read-only transaction refuses.

use std::ops::Range;

use super::{Outline, Part};

/// Functions whose arguments may have the word `for`: `substring(name for share)`.
const WITH_FOR: [&str; 3] = ["substring", "substr", "overlay"];
/// The first words of statements that write.
const FIRST_WORDS: [&[&str]; 5] = [&["insert"], &["update"], &["delete"], &["merge"], &["replace"]];
/// Each statement that writes has one of these words behind its first one.
const BEHIND_WRITE: [&str; 4] = ["set", "from", "into", "using"];
/// The words before the bracket of a `with` query.
const BEFORE_QUERY: [&str; 2] = ["as", "materialized"];
/// The words of the clauses that may follow a `with` query.
const BEHIND_QUERY: [&str; 2] = ["search", "cycle"];
/// The first words of the statement behind the queries of `with`.
const MAIN_WORDS: [&str; 7] = ["select", "insert", "update", "delete", "merge", "values", "table"];

impl Outline<'_> {
    /// The place of the first of the dialect's [writes](super::Dialect::writes), in bytes. A statement
    /// that begins with `update`, for example, is one of them if the dialect has any.
    pub fn write(&self) -> Option<Range<usize>> {
        let writes = self.dialect.writes;
        if writes.is_empty() {
            return None;
        }
        let main = self.main_query();
        (0..self.parts.len()).find_map(|at| {
            let begins_query = at == main || self.is_query_of_with(at);
            let phrases = if begins_query { &FIRST_WORDS[..] } else { writes };
            begins(&self.parts[at..], phrases).filter(|_| !self.is_in_function(at))
        })
    }

    /// The first part of the statement itself, behind the queries of `with`.
    fn main_query(&self) -> usize {
        if !self.parts.first().is_some_and(|part| is_word(part, "with")) {
            return 0;
        }
        let is_between = |part: &Part<'_>| part.text == "," || is_word(part, "as");
        let ends = self.parts.windows(2).position(|pair| {
            let [before, part] = pair else { return false };
            before.text == ")" && part.depth == 0 && !is_between(part)
        });
        let at = ends.map_or(0, |before| before + 1);
        if !self.parts[at].is_any(&BEHIND_QUERY) {
            return at;
        }
        let begins = self.parts[at..].iter().position(|part| part.is_any(&MAIN_WORDS));
        begins.map_or(at, |skipped| at + skipped)
    }

    /// True if a part begins a query of `with x as (…)` that isn't a list of columns, as in
    /// `from f() as (update int)`: its second word is another one, or `set` follows.
    fn is_query_of_with(&self, at: usize) -> bool {
        let [.., before, open] = &self.parts[..at] else { return false };
        let begins = open.text == "(" && BEFORE_QUERY.iter().any(|word| is_word(before, word));
        let query = self.parts[at..].iter().take_while(|part| part.depth >= open.depth);
        begins && query.skip(1).any(|part| BEHIND_WRITE.iter().any(|word| is_word(part, word)))
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
            ("with x as (insert into t values (1) returning a) select * from x", Some("insert")),
            ("with x as materialized (delete from t returning a) select * from x", Some("delete")),
            ("with y as (select 1), x as (update only t set a = 1 returning a) select 1", Some("update")),
            ("with x(a) as (select 1), y as (select 2) delete from t returning a", Some("delete")),
            ("with x as (select 1) insert into t select * from x", Some("insert")),
            ("with x as (select 1 as a) select count(*) delete from x", None),
            ("with recursive x(a) as (table t) search depth first by a set o delete from x", Some("delete")),
            (
                "with x(a) as (table t) cycle a set c using p, y as (select 1) update t set a = 1",
                Some("update"),
            ),
            ("with x(a) as (table t) search breadth first by a set o select count(*) delete from x", None),
            ("update t set a = 1 returning a", Some("update")),
            ("select * from f() as (update int, delete text)", None),
            ("select trim(delete from name), substring(update from 2) from t", None),
            ("select substring(a from 1 for share), 'for update', \"for\" update from t", None),
            ("select insert, update, delete from t -- for update", None),
        ] {
            let outline = Outline::new(sql, &NUMBERED).unwrap();
            assert_eq!(outline.write().map(|place| &sql[place]), expected, "{sql}");
            assert_eq!(Outline::new(sql, &ANONYMOUS).unwrap().write(), None, "{sql}");
        }
    }
}
