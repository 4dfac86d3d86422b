//! Finds the columns of a result that are calls, casts or integers. It also looks into the
//! statements in brackets after `from`.
//!
//! There's no grammar of expressions here. A longer expression, such as `count(*) + 1`, isn't
//! understood, and neither is a column of a view.

use std::collections::HashSet;
use std::iter::repeat_n;

use super::{NamedColumn, Outline, Part, UNIONS, is_star};

/// How deep statements in brackets are read.
const DEPTH: usize = 16;
/// The words that may follow the list of columns.
const BEHIND_LIST: [&str; 8] = ["from", "where", "group", "having", "window", "order", "limit", ";"];
/// The words that may end an expression, like an alias.
const LAST_WORDS: [&str; 3] = ["isnull", "notnull", "end"];
/// The names that SQLite replaces by `column1`, with the column's number.
const REPLACED_NAMES: [&str; 2] = ["true", "false"];
/// The characters that begin a quoted part of a type.
const QUOTES: [char; 4] = ['"', '\'', '`', '['];

/// A computed column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Computed<'a> {
    /// A call of this function, as in `count(*)` or `count(*) over w`. The name is in lower case.
    Call(String),
    /// A cast to this type.
    Cast(&'a str),
    /// An integer of at most 64 bits.
    Integer,
}

/// A part of a list of columns.
#[derive(Debug, Clone)]
enum Selected<'a> {
    Column(ResultColumn<'a>),
    /// The columns of a `*` that only the database knows.
    Unknown,
}

#[derive(Debug, Clone)]
struct ResultColumn<'a> {
    /// Its name in its comparable form. `None` if only the database knows it.
    name: Option<String>,
    computed: Option<Computed<'a>>,
}

/// The tables of a statement that are statements in brackets.
#[derive(Default)]
struct NestedTables<'a> {
    /// Their names and their lists of columns.
    lists: Vec<(Option<String>, Vec<Selected<'a>>)>,
    /// True if the only one of them is the only table.
    is_alone: bool,
}

impl<'a> NestedTables<'a> {
    /// The columns of the table of this name. `None` as a name: of the only table.
    fn list(&self, name: Option<&str>) -> Option<&[Selected<'a>]> {
        let found = match name {
            Some(_) => self.lists.iter().find(|(own, _)| own.as_deref() == name),
            None => self.lists.first().filter(|_| self.is_alone),
        };
        found.map(|(_, list)| &list[..])
    }

    /// The computed column of this name. It may also be any column in front whose name is unknown.
    fn column(&self, named: &NamedColumn) -> Option<Computed<'a>> {
        let may_be = |selected: &&Selected<'a>| match selected {
            Selected::Column(column) => column.name.as_ref().is_none_or(|name| *name == named.column),
            Selected::Unknown => true,
        };
        match self.list(named.table.as_deref())?.iter().find(may_be)? {
            Selected::Column(ResultColumn { name: Some(_), computed }) => computed.clone(),
            _ => None,
        }
    }
}

/// Removes all names of a list if one is repeated: SQLite calls the second `n:1`. A `*` may have any
/// names.
fn remove_repeated(list: &mut [Selected<'_>]) {
    let mut names = HashSet::new();
    let is_known = list.iter().all(|selected| match selected {
        Selected::Column(column) => column.name.as_ref().is_none_or(|name| names.insert(name)),
        Selected::Unknown => false,
    });
    if is_known {
        return;
    }
    for selected in list {
        if let Selected::Column(column) = selected {
            column.name = None;
        }
    }
}

impl<'a> Outline<'a> {
    /// The computed columns of the result, which has this many columns. `None` for all others, and
    /// for expressions that aren't understood.
    pub fn computed(&self, columns: usize) -> Vec<Option<Computed<'a>>> {
        let list = self.selected_list(DEPTH);
        let known = |selected: &Selected<'a>| match selected {
            Selected::Column(column) => Some(column.computed.clone()),
            Selected::Unknown => None,
        };
        let front: Vec<_> = list.iter().map_while(known).collect();
        let is_whole = front.len() == list.len();
        let behind: Vec<_> = match is_whole {
            true => Vec::new(),
            false => list.iter().rev().map_while(known).collect(),
        };
        let between = columns.checked_sub(front.len() + behind.len());
        let Some(between) = between.filter(|between| !is_whole || *between == 0) else {
            return vec![None; columns];
        };
        front.into_iter().chain(repeat_n(None, between)).chain(behind.into_iter().rev()).collect()
    }

    /// The list of columns. A `*` is replaced by the columns of its nested statement.
    fn selected_list(&self, depth: usize) -> Vec<Selected<'a>> {
        let Some((list, tables)) = self.list_and_tables().filter(|_| depth > 0) else {
            return vec![Selected::Unknown];
        };
        let tables = self.nested_tables(tables, depth);
        let items = list.split(|part| part.is(","));
        let mut list: Vec<_> = items.flat_map(|item| self.selected_item(item, &tables)).collect();
        remove_repeated(&mut list);
        list
    }

    /// The list of columns and the tables. `None` if it isn't a plain `select`.
    fn list_and_tables(&self) -> Option<(&[Part<'a>], &[Part<'a>])> {
        let is_select = self.begins_with("select") || self.begins_with("with");
        if !is_select || self.has_outside(&UNIONS) {
            return None;
        }
        let select = self.parts.iter().position(|part| part.is("select"))?;
        let rest = match &self.parts[select + 1..] {
            [first, rest @ ..] if first.is_any(&["all", "distinct"]) => rest,
            rest => rest,
        };
        // `a is distinct from b` is an operator.
        let ends = |at: &usize| rest[*at].is_any(&BEHIND_LIST) && (*at == 0 || !rest[at - 1].is("distinct"));
        let end = (0..rest.len()).find(ends).unwrap_or(rest.len());
        let (list, behind) = rest.split_at(end);
        let tables = match behind {
            [from, tables @ ..] if from.is("from") => tables,
            _ => &[],
        };
        let end = tables.iter().position(|part| part.is_any(&BEHIND_LIST)).unwrap_or(tables.len());
        Some((list, &tables[..end]))
    }

    fn nested_tables(&self, tables: &[Part<'a>], depth: usize) -> NestedTables<'a> {
        let mut nested = NestedTables::default();
        for at in 0..tables.len() {
            let begins_table = at == 0 || tables[at - 1].is_any(&[",", "join"]);
            let Some((inner, rest)) = self.bracket(&tables[at..]).filter(|_| begins_table) else { continue };
            let rest = match rest {
                [first, rest @ ..] if first.is("as") => rest,
                rest => rest,
            };
            let name = rest.first().and_then(|part| self.name(part.text));
            nested.is_alone = at == 0 && rest.len() == usize::from(name.is_some());
            let name = name.filter(|name| !self.is_repeated(name, tables));
            let list = Outline::new(inner, self.dialect).map(|inner| inner.selected_list(depth - 1));
            nested.lists.push((name, list.unwrap_or_else(|| vec![Selected::Unknown])));
        }
        nested
    }

    /// Returns true if another table may have this name.
    fn is_repeated(&self, name: &str, tables: &[Part<'a>]) -> bool {
        let is_table = |at: &usize| {
            let (part, next) = (tables[*at], tables.get(at + 1));
            part.depth == 0
                && next.is_none_or(|next| next.text != ".")
                && self.alias(part).is_some_and(|own| own == name)
        };
        (0..tables.len()).filter(is_table).count() > 1
    }

    fn selected_item(&self, item: &[Part<'a>], tables: &NestedTables<'a>) -> Vec<Selected<'a>> {
        let list = match item {
            [_] if is_star(item) => tables.list(None),
            [table, _, _] if is_star(item) => self.name(table.text).and_then(|name| tables.list(Some(&name))),
            _ => return vec![Selected::Column(self.selected_column(item, tables))],
        };
        list.map_or_else(|| vec![Selected::Unknown], <[_]>::to_vec)
    }

    fn selected_column(&self, item: &[Part<'a>], tables: &NestedTables<'a>) -> ResultColumn<'a> {
        let (expression, alias) = self.split_alias(item);
        let is_whole = expression.len() == item.len();
        let (own, computed) = match self.named(expression) {
            Some(named) => (Some(named.column.clone()), tables.column(&named)),
            None => (None, self.computed_by(expression)),
        };
        let name = if is_whole { own } else { alias };
        ResultColumn { name: name.filter(|name| !REPLACED_NAMES.contains(&name.as_str())), computed }
    }

    /// Splits `EXPRESSION as NAME`, or `EXPRESSION NAME` if the expression is understood or ends
    /// with a bracket.
    fn split_alias<'p>(&self, item: &'p [Part<'a>]) -> (&'p [Part<'a>], Option<String>) {
        match item {
            [expression @ .., word, alias] if word.is("as") => (expression, self.alias(*alias)),
            [expression @ .., alias] if !alias.is_any(&LAST_WORDS) && self.may_have(expression, *alias) => {
                match self.alias(*alias) {
                    Some(name) => (expression, Some(name)),
                    None => (item, None),
                }
            }
            _ => (item, None),
        }
    }

    /// Returns true if this may be the alias of this expression. `x'07'` and `not a` aren't columns with
    /// an alias.
    fn may_have(&self, expression: &[Part<'a>], alias: Part<'a>) -> bool {
        expression.last().is_some_and(|part| part.text == ")")
            || self.named(expression).is_some() && !expression[0].is("not") && !alias.text.starts_with('\'')
            || self.computed_by(expression).is_some()
    }

    /// An alias in its comparable form. SQLite accepts single quotes around it.
    fn alias(&self, part: Part<'a>) -> Option<String> {
        match part.text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
            Some(text) => Some(self.fold(&text.replace("''", "'"))),
            None => self.name(part.text),
        }
    }

    fn computed_by(&self, expression: &[Part<'a>]) -> Option<Computed<'a>> {
        let (first, rest) = expression.split_first()?;
        if let Some((inner, behind)) = self.bracket(rest) {
            let function = self.name(first.text)?;
            return match function.as_str() {
                "cast" if behind.is_empty() => Outline::new(inner, self.dialect)?.cast_type(),
                "cast" => None,
                _ => self.is_behind_call(behind).then_some(Computed::Call(function)),
            };
        }
        let text = &self.text[first.start..expression.last()?.end()];
        text.parse::<i64>().ok().map(|_| Computed::Integer)
    }

    /// The type in `VALUE as TYPE`. `None` if it contains comments, or quotes around only a part of
    /// it: SQLite takes the former for words of the type, and ignores words behind the latter.
    fn cast_type(&self) -> Option<Computed<'a>> {
        let word = self.parts.iter().rposition(|part| part.is("as"))?;
        let parts = &self.parts[word + 1..];
        let (first, last) = (parts.first()?, parts.last()?);
        let has_comment = |pair: &[Part<'a>]| !self.text[pair[0].end()..pair[1].start].trim().is_empty();
        let has_quotes = parts.len() > 1 && parts.iter().any(|part| part.text.starts_with(QUOTES));
        let is_plain = !has_quotes && !parts.windows(2).any(has_comment);
        is_plain.then(|| Computed::Cast(&self.text[first.start..last.end()]))
    }

    /// Returns true if only `filter (…)` and `over …` follow a call.
    fn is_behind_call(&self, parts: &[Part<'a>]) -> bool {
        let over = match parts {
            [filter, bracket @ ..] if filter.is("filter") => match self.bracket(bracket) {
                Some((_, over)) => over,
                None => return false,
            },
            over => over,
        };
        match over {
            [] => true,
            [word, _] => word.is("over"),
            [word, window @ ..] => {
                word.is("over") && self.bracket(window).is_some_and(|(_, rest)| rest.is_empty())
            }
        }
    }

    /// The text in the bracket that begins here, and the tokens after it.
    fn bracket<'p>(&self, parts: &'p [Part<'a>]) -> Option<(&'a str, &'p [Part<'a>])> {
        let open = parts.first().filter(|part| part.text == "(")?;
        let close = parts.iter().position(|part| part.text == ")" && part.depth == open.depth)?;
        Some((&self.text[open.end()..parts[close].start], &parts[close + 1..]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::dialect::samples::BRACKETED;
    use super::*;

    /// The computed columns, in short: functions, casts after a colon, `#` for integers.
    fn computed(sql: &str, columns: usize) -> Vec<String> {
        let computed = Outline::new(sql, &BRACKETED).expect(sql).computed(columns);
        assert_eq!(computed.len(), columns, "{sql}");
        let short = |computed: Option<Computed<'_>>| match computed {
            Some(Computed::Call(function)) => function,
            Some(Computed::Cast(name)) => format!(":{name}"),
            Some(Computed::Integer) => "#".to_owned(),
            None => "-".to_owned(),
        };
        computed.into_iter().map(short).collect()
    }

    #[test]
    fn calls_casts_and_integers_are_found() {
        for (list, expected) in [
            ("count(*), COUNT(distinct a) as n, \"Count\"(*) \"n\"", &["count", "count", "count"][..]),
            ("all count(*) filter (where a > 1) n, max(a)", &["count", "max"]),
            ("distinct count(*) over (partition by a, b), count(*) over w", &["count", "count"]),
            ("count(*) filter (where a) over w as n, count(*) over (order by a) n", &["count", "count"]),
            (
                "cast(a as integer), cast(cast(a as text) || 'as' as Varchar (20)) n",
                &[":integer", ":Varchar (20)"],
            ),
            ("1, -5 as n, 9223372036854775807 k, -5 'n'", &["#", "#", "#", "#"]),
            ("rank() over w pr, count(*) as 'n', count(*) 'it''s'", &["rank", "count", "count"]),
            ("exists (select 1 from u, v), a is distinct from b, 1", &["exists", "-", "#"]),
            ("count(*) + 1, 1 + count(*), (count(*)), a.count, count, -count(*)", &["-"; 6]),
            ("9223372036854775808, 1.0, '1', 1e3, 0x10, 1 + 1, ?1", &["-"; 7]),
            ("count(*) isnull, count(*) is null, cast(a as blob) notnull", &["-"; 3]),
            ("cast(a as integer) + 1, case when a then count(*) end, count(*) -> 'a'", &["-"; 3]),
        ] {
            for behind in ["", " from t", " from t where count(*)", " group by a", " limit 1"] {
                let sql = format!("with c as (select 'x' union select 'y') select {list}{behind}");
                assert_eq!(computed(&sql, expected.len()), expected, "{sql}");
            }
        }
    }

    /// Comments behind the type were read as words of it, so a decimal with "an int" in its comment was
    /// an integer.
    #[test]
    fn types_of_casts_have_no_comments_and_are_quoted_as_a_whole() {
        for (cast, expected) in [
            ("a as decimal /* an int */", ":decimal"),
            ("a as numeric -- a point\n", ":numeric"),
            ("a as /* int */ varchar (20) -- int\n", ":varchar (20)"),
            ("a as double\n precision", ":double\n precision"),
            ("a as varchar /* int */ (20)", "-"),
            ("a as double -- int\n precision", "-"),
            ("a as \"int\"", ":\"int\""),
            ("a as [int] /* a */", ":[int]"),
            ("a as \"a\" int", "-"),
            ("a as 'a' int", "-"),
            ("a as `a`(20)", "-"),
            ("a as int \"a\"", "-"),
            ("a as ", "-"),
        ] {
            assert_eq!(computed(&format!("select cast({cast}) as k from t"), 1), [expected], "{cast}");
        }
    }

    #[test]
    fn stars_have_the_columns_of_the_result() {
        for (sql, expected) in [
            ("select *, count(*) over () as n from t", &["-", "-", "count"][..]),
            ("select 1, * from t", &["#", "-", "-"]),
            ("select 1, t.*, 'x', u.*, 2 from t join u", &["#", "-", "-", "-", "#"]),
            ("select 1, * from t", &["#"]),
            ("select 1, 2, * from t", &["-"]),
            ("select 1", &["-", "-"]),
            ("select 1 union select 'x'", &["-"]),
            ("values (1)", &["-"]),
        ] {
            assert_eq!(computed(sql, expected.len()), expected, "{sql}");
        }
    }

    #[test]
    fn columns_of_nested_statements_are_found() {
        let counted = "(\nselect a, count(*) as N, length(b) b from t group by a\n)";
        for (sql, expected) in [
            (format!("select * from {counted} as x where n > 1"), &["-", "count", "length"][..]),
            (format!("select *, +\"n\" as k from {counted} order by n"), &["-", "count", "length", "-"]),
            (
                format!("select b, \"n\" as m, x.n, y.n from {counted} as x"),
                &["length", "count", "count", "-"],
            ),
            (format!("select n from (select * from {counted} limit 1) limit 2"), &["count"]),
            (
                format!("select x.*, p.k from (select 1 as k) as p left join {counted} x on true"),
                &["-", "count", "length", "#"],
            ),
            (format!("select n, * from {counted} as x join u using (n)"), &["-", "-", "-"]),
            (format!("select * from {counted} x, u"), &["-", "-", "-"]),
            ("select n from (select *, count(*) as n from t)".to_owned(), &["-"]),
            ("select n from (select count(*) as n, 'x' as n)".to_owned(), &["-"]),
            ("select n from t where n in (select 1 as n)".to_owned(), &["-"]),
            ("select * from (select 1, * from t) as x".to_owned(), &["#", "-"]),
        ] {
            assert_eq!(computed(&sql, expected.len()), expected, "{sql}");
        }
    }

    /// SQLite takes the first column of a name. Names that we didn't understand were skipped, so a
    /// later column was found.
    #[test]
    fn columns_behind_unknown_names_or_with_repeated_ones_are_not_found() {
        for (name, list, expected) in [
            ("n", "'x' as 'n', count(*) as n", "-"),
            ("s", "s collate nocase, count(*) as s", "-"),
            ("n", "s collate nocase, count(*) as n", "-"),
            ("n", "count(*) as n, s collate nocase", "count"),
            ("\"n:1\"", "1 as n, 2.5 as N, 5 as \"n:1\"", "-"),
            ("k", "1 as n, 2.5 as [N], 5 as k", "-"),
            ("\"'q'\"", "'q', 5 as \"'q'\"", "-"),
            ("\"not a\"", "not a, 5 as \"not a\"", "-"),
            ("\"x'07'\"", "x'07', 5 as \"x'07'\"", "-"),
            ("k", "case when a then (b) end, 5 as k", "-"),
            ("column1", "true, 5 as column1", "-"),
            ("column1", "a as 'False', 5 as column1", "-"),
            ("n", "count(*) as 'N'", "count"),
            ("\"it's\"", "count(*) 'it''s'", "count"),
            ("k", "a as 'n', a 'm', 5 as k", "-"),
            ("k", "a as 'n', a as b, t.c, (1) 'd', 5 k", "#"),
        ] {
            for sql in [
                format!("select {name} as k from (select {list} from t)"),
                format!("select x.{name} from (select * from (select {list} from t)) x"),
            ] {
                assert_eq!(computed(&sql, 1), [expected], "{sql}");
            }
        }
        for tables in ["(select 'a' as k) x", "t as x", "x", "t as 'X'"] {
            let inner = format!("select x.*, 5 as k from (select 1 as n) x join {tables}");
            assert_eq!(computed(&format!("select k from ({inner})"), 1), ["-"], "{inner}");
        }
    }

    #[test]
    fn statements_are_read_to_a_depth() {
        let deep = (0..100).fold("select 1 as n".to_owned(), |sql, _| format!("select * from ({sql})"));
        assert_eq!(computed(&deep, 1), ["-"]);
    }
}
