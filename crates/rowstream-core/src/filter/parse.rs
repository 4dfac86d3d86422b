//! Parses the pairs of a query that filter, sort and select.

use super::{
    Comparison, Condition, DEEPEST, MOST_CONDITIONS, MOST_ORDERED, MOST_SELECTED, MOST_VALUES, Operator,
    OrderTerm, Refinement, SelectedColumn, TotalKind, Truth,
};
use crate::diagnostic::{list, shown, suggest};

/// The names of a request's pairs that aren't columns.
pub const RESERVED: [&str; 8] = ["select", "order", "limit", "offset", "and", "or", "not.and", "not.or"];

/// The name of the pair that requests the number of all rows.
pub const COUNT: &str = "_count";

/// Operators of PostgREST that we don't have.
const TEXT_SEARCH: [&str; 4] = ["fts", "plfts", "phfts", "wfts"];

/// The words before a value that aren't an [`Operator`].
const OTHERS: [&str; 3] = ["in", "is", "not"];

/// Returns true if a pair of this name isn't a condition on the column of that name.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Reads the decoded pairs of a query. Other pairs must have been removed.
///
/// # Errors
/// The name of each wrong pair, and the reason.
pub fn read<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Refinement, Vec<(String, String)>> {
    let mut reader = Reader::default();
    let mut wrong = Vec::new();
    for (name, value) in pairs {
        if let Err(why) = reader.pair(name, value) {
            wrong.push((name.to_owned(), why));
        }
    }
    if wrong.is_empty() { Ok(reader.refinement) } else { Err(wrong) }
}

/// Counts of a request that are bounded.
#[derive(Default)]
struct BoundedCounts {
    conditions: usize,
    /// Values of `in`.
    values: usize,
}

/// The refinement that was read so far.
#[derive(Default)]
struct Reader {
    refinement: Refinement,
    counts: BoundedCounts,
    is_ordered: bool,
}

impl Reader {
    fn pair(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "select" => once(self.refinement.select.is_some())?,
            "order" => once(self.is_ordered)?,
            "limit" => once(self.refinement.limit.is_some())?,
            "offset" => once(self.refinement.offset.is_some())?,
            COUNT => once(self.refinement.total.is_some())?,
            _ => {}
        }
        match name {
            "select" => self.refinement.select = Some(select(value)?),
            "order" => {
                self.refinement.order = order(value)?;
                self.is_ordered = true;
            }
            "limit" => self.refinement.limit = Some(count(value)?),
            "offset" => self.refinement.offset = Some(count(value)?),
            COUNT => self.refinement.total = Some(total(value)?),
            "and" | "or" | "not.and" | "not.or" => {
                let mut text = Text { rest: value, counts: &mut self.counts };
                let condition = text.group(name, 1)?;
                text.end()?;
                self.refinement.conditions.push(condition);
            }
            _ => {
                let mut text = Text { rest: value, counts: &mut self.counts };
                let condition = text.comparison(name.to_owned(), Place::Pair)?;
                self.refinement.conditions.push(condition);
            }
        }
        Ok(())
    }
}

fn once(is_known: bool) -> Result<(), String> {
    if is_known { Err("it is given more than once".to_owned()) } else { Ok(()) }
}

/// A number of rows.
fn count(text: &str) -> Result<i64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number { text.parse().ok() } else { None };
    number.ok_or_else(|| format!("{} is not a number of rows: write 0 or more", shown(text)))
}

/// The kind of total.
fn total(text: &str) -> Result<TotalKind, String> {
    TotalKind::of(text).ok_or_else(|| {
        format!("{} is not a kind of total: write `exact`, `planned` or `estimated`", shown(text))
    })
}

/// `*,id,total:amount`.
fn select(text: &str) -> Result<Vec<SelectedColumn>, String> {
    let count = text.split(',').count();
    if count > MOST_SELECTED {
        return Err(format!(
            "it names {count} columns, but at most {MOST_SELECTED} are read: `*` is all of them"
        ));
    }
    text.split(',').map(|item| selected(item.trim())).collect()
}

fn selected(item: &str) -> Result<SelectedColumn, String> {
    if item == "*" {
        return Ok(SelectedColumn::All);
    }
    if item.is_empty() {
        return Err(
            "the name of a column is missing: write `select=id,name`, or leave `select` out".to_owned()
        );
    }
    for (sign, what) in [("(", "other tables and aggregates"), ("->", "parts of JSON"), ("::", "casts")] {
        if item.contains(sign) {
            return Err(format!(
                "{} can't be selected: `select` takes columns, not {what}; write an endpoint file for that",
                shown(item)
            ));
        }
    }
    let (alias, column) = match item.split_once(':') {
        Some((alias, column)) => (Some(alias.to_owned()), column),
        None => (None, item),
    };
    if column.is_empty() || alias.as_deref() == Some("") {
        return Err(format!("{} lacks a name: write `select=alias:column`", shown(item)));
    }
    Ok(SelectedColumn::One { column: column.to_owned(), alias })
}

/// `created.desc.nullslast,id`.
fn order(text: &str) -> Result<Vec<OrderTerm>, String> {
    let terms: Vec<_> = text.split(',').map(|term| order_term(term.trim())).collect::<Result<_, _>>()?;
    if terms.len() > MOST_ORDERED {
        return Err(format!(
            "it names {} columns, but at most {MOST_ORDERED} may order the rows",
            terms.len()
        ));
    }
    for (index, term) in terms.iter().enumerate() {
        if terms[..index].iter().any(|before| before.column == term.column) {
            return Err(format!("it names {} twice", shown(&term.column)));
        }
    }
    Ok(terms)
}

fn order_term(text: &str) -> Result<OrderTerm, String> {
    if text.contains("->") || text.contains('(') {
        return Err(format!("{} can't order the rows: only columns can", shown(text)));
    }
    // The name may have dots, so the words are read from the end.
    let (rest, nulls_first) = match text.rsplit_once('.') {
        Some((rest, "nullsfirst")) => (rest, Some(true)),
        Some((rest, "nullslast")) => (rest, Some(false)),
        _ => (text, None),
    };
    let (column, descending) = match rest.rsplit_once('.') {
        Some((column, "desc")) => (column, true),
        Some((column, "asc")) => (column, false),
        _ => (rest, false),
    };
    if column.is_empty() {
        return Err("the name of a column is missing: write `order=created.desc,id`".to_owned());
    }
    Ok(OrderTerm { column: column.to_owned(), descending, nulls_first })
}

/// The place of a comparison in the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// As the value of a pair. The rest of the text belongs to it.
    Pair,
    /// In the brackets of `and` or `or`, where a comma or a bracket ends it.
    Brackets,
}

/// The rest of a text.
struct Text<'a, 'b> {
    rest: &'a str,
    counts: &'b mut BoundedCounts,
}

impl<'a> Text<'a, '_> {
    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn end(&self) -> Result<(), String> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("{} is left over", shown(self.rest))) }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// `(…,…)`, the group of `word`.
    fn group(&mut self, word: &str, depth: usize) -> Result<Condition, String> {
        if depth > DEEPEST {
            return Err(format!("`and` and `or` are nested more than {DEEPEST} deep"));
        }
        if !self.take("(") {
            return Err(format!("{} isn't in brackets: write `{word}=(a.eq.1,b.gt.2)`", shown(self.rest)));
        }
        let mut members = Vec::new();
        loop {
            self.skip_blanks();
            members.push(self.member(depth)?);
            self.skip_blanks();
            if self.take(")") {
                break;
            }
            if !self.take(",") {
                return Err(match self.rest {
                    "" => "the closing bracket is missing".to_owned(),
                    rest => format!("{} should be a comma or a closing bracket", shown(rest)),
                });
            }
        }
        Ok(match word {
            "and" => Condition::All(members),
            "or" => Condition::Any(members),
            "not.and" => Condition::Not(Box::new(Condition::All(members))),
            _ => Condition::Not(Box::new(Condition::Any(members))),
        })
    }

    /// A group, or `column.operator.value`.
    fn member(&mut self, depth: usize) -> Result<Condition, String> {
        for word in ["and", "or", "not.and", "not.or"] {
            if self.rest.strip_prefix(word).is_some_and(|rest| rest.starts_with('(')) {
                self.take(word);
                return self.group(word, depth + 1);
            }
        }
        let column = self.column()?;
        self.comparison(column, Place::Brackets)
    }

    /// The name of a column and the dot behind it. In quotes, the name may have dots itself.
    fn column(&mut self) -> Result<String, String> {
        let name = match self.rest.starts_with('"') {
            true => self.quoted()?,
            false => {
                let end = self.rest.find(['.', ',', '(', ')']).unwrap_or(self.rest.len());
                let (name, rest) = self.rest.split_at(end);
                self.rest = rest;
                name.to_owned()
            }
        };
        if name.is_empty() || !self.take(".") {
            return Err(format!("{} isn't a condition: write `column.operator.value`", shown(&name)));
        }
        Ok(name)
    }

    /// `operator.value`, or `not.` before it.
    fn comparison(&mut self, column: String, place: Place) -> Result<Condition, String> {
        self.counts.conditions += 1;
        if self.counts.conditions > MOST_CONDITIONS {
            return Err(format!("there are more than {MOST_CONDITIONS} conditions"));
        }
        let is_negated = self.take("not.");
        let end = self.rest.find(['.', ',', ')']).unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        let has_value = self.rest[end..].starts_with('.');
        let comparison = match Operator::from_name(word) {
            _ if !has_value => return Err(no_operator(word)),
            Some(operator) => {
                self.rest = &self.rest[end + 1..];
                Comparison::With(operator, self.value(place)?)
            }
            None if word == "in" => {
                self.rest = &self.rest[end + 1..];
                Comparison::In(self.values()?)
            }
            None if word == "is" => {
                self.rest = &self.rest[end + 1..];
                Comparison::Is(truth(&self.value(place)?)?)
            }
            None => return Err(no_operator(word)),
        };
        if place == Place::Pair {
            self.end()?;
        }
        let condition = Condition::Column { column, comparison };
        Ok(if is_negated { Condition::Not(Box::new(condition)) } else { condition })
    }

    /// A value. In brackets, one with a comma or a bracket is quoted, or an array in braces.
    fn value(&mut self, place: Place) -> Result<String, String> {
        if place == Place::Pair {
            return Ok(std::mem::take(&mut self.rest).to_owned());
        }
        if self.rest.starts_with('"') {
            return self.quoted();
        }
        let end = match self.rest.starts_with('{') {
            true => self.rest.find('}').map(|end| end + 1).ok_or("the closing brace is missing")?,
            false => self.rest.find([',', ')']).unwrap_or(self.rest.len()),
        };
        let (value, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(value.to_owned())
    }

    /// `(1,2,"a, b")`.
    fn values(&mut self) -> Result<Vec<String>, String> {
        if !self.take("(") {
            return Err("the values of `in` are in brackets: write `in.(1,2,3)`".to_owned());
        }
        let mut values = Vec::new();
        if self.take(")") {
            return Ok(values);
        }
        loop {
            values.push(self.value(Place::Brackets)?);
            self.counts.values += 1;
            if self.counts.values > MOST_VALUES {
                return Err(format!("there are more than {MOST_VALUES} values of `in`"));
            }
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return Err(match self.rest {
                    "" => "the closing bracket of `in` is missing".to_owned(),
                    rest => format!("{} should be a comma or a closing bracket", shown(rest)),
                });
            }
        }
    }

    /// `"…"`, in which a backslash is before a quote or another backslash.
    fn quoted(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c => text.push(c),
            }
        }
        Err("the closing quote is missing".to_owned())
    }
}

fn truth(text: &str) -> Result<Truth, String> {
    match text.to_ascii_lowercase().as_str() {
        "null" | "unknown" => Ok(Truth::Null),
        "not_null" => Ok(Truth::NotNull),
        "true" => Ok(Truth::True),
        "false" => Ok(Truth::False),
        _ => Err(format!(
            "`is` compares with `null`, `not_null`, `true` and `false`, not with {}",
            shown(text)
        )),
    }
}

/// The message for a word that isn't an operator.
fn no_operator(word: &str) -> String {
    let base = word.split('(').next().unwrap_or_default();
    if TEXT_SEARCH.contains(&base) {
        return format!(
            "the operator {} isn't offered: write an endpoint file for a text search",
            shown(word)
        );
    }
    let names = Operator::ALL.map(Operator::name).into_iter().chain(OTHERS);
    if base != word && names.clone().any(|name| name == base) {
        return format!(
            "{} has a modifier, which isn't offered: combine conditions with `or=(…)`",
            shown(base)
        );
    }
    if names.clone().any(|name| name == word) {
        return format!("{} has no value: write `column={word}.value`", shown(word));
    }
    let known = names.clone().collect::<Vec<_>>();
    match word.is_empty() {
        true => format!("it has no operator: write `column=eq.value`; the operators are {}", list(known)),
        false => {
            let hint = suggest("the operators are", word, known);
            format!("{} isn't an operator: write `column=eq.value`; {hint}", shown(word))
        }
    }
}
