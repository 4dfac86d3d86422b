//! The statements of an endpoint file: their names, parameters and nesting.

use rowstream_core::diagnostic::reader::Value;
use rowstream_core::diagnostic::{File, did_you_mean, place, shown, suggest};
use rowstream_core::sql::dialect::Refusal;
use rowstream_core::sql::{self, Dialect, Nesting, Refcursors, Section, Sql, SqlError};

use super::text::{SqlText, sql_error};
use super::{RESERVED, refcursors};
use crate::endpoint::params::{self, DeclaredParam};
use crate::endpoint::{Cardinality, Endpoint, NestedRows, Statement};

/// Reads the statements of a text.
pub(super) struct StatementReader<'a> {
    pub(super) file: File<'a>,
    pub(super) text: SqlText,
    pub(super) dialect: &'static Dialect,
    pub(super) declared: &'a [DeclaredParam],
    /// For each declared parameter, true if an upstream request uses it. `None` if the statements'
    /// rows need no upstream requests.
    pub(super) in_requests: Option<&'a [bool]>,
    /// False if optional parts were left out, so that parameters may be unused.
    pub(super) is_whole: bool,
}

impl StatementReader<'_> {
    /// Reads the statements. Returns `None` if one of them has an error, because the remaining ones
    /// would only cause further errors.
    pub(super) fn read(&self, result: Option<&(Option<Cardinality>, Value<'_>)>) -> Option<Vec<Statement>> {
        let sections =
            sql::sections(&self.text.text, self.dialect).map_err(|error| self.error(0, error)).ok()?;
        let named = self.check_names(&sections);
        if let Some((_, value)) = result.filter(|_| sections.iter().any(|section| section.name.is_some())) {
            let hint = "write it after the name: `-- name: NAME :one`";
            value.error_with("`result` is for a statement without a name", hint);
        }
        let result = result.and_then(|(cardinality, _)| *cardinality).unwrap_or(Cardinality::Many);
        let params: Vec<_> = self.declared.iter().map(|declared| declared.param.clone()).collect();
        let mut statements = Vec::new();
        let mut used = self.in_requests.map_or_else(|| vec![false; params.len()], <[bool]>::to_vec);
        // Claims were declared after the parameters that requests may use.
        used.resize(params.len(), false);
        let (sections, openers) = self.openers(sections)?;
        for section in &sections {
            let parsed = match &section.refcursors {
                Refcursors::From(opener) => self.read_from(section, opener, &openers),
                Refcursors::None | Refcursors::Opens => self.parse(section).map(|parsed| (section, parsed)),
            };
            if let Some((text, (sql, args))) = parsed {
                if self.is_whole {
                    let start = text.range.start;
                    self.text.refuse_list_as_value(self.file, start, &sql, self.dialect, &params);
                }
                args.iter().for_each(|&arg| used[arg] = true);
                let name = section.name.clone().unwrap_or_else(|| (Endpoint::ONLY.to_owned(), result));
                let start = text.range.start;
                let mut statement = self.text.statement(self.file, name, start, sql, args, &params);
                statement.opener = refcursors::opener(section, &sections);
                statements.push(statement);
            }
        }
        if !named || statements.len() < sections.len() {
            return None;
        }
        let nested = self.nest(&sections, &mut statements);
        if self.is_whole {
            self.check_used(&used);
        }
        (nested && self.one_snapshot(&sections)).then_some(statements)
    }

    /// Checks that all statements can read the same snapshot of the data.
    fn one_snapshot(&self, sections: &[Section]) -> bool {
        match (sections, self.dialect.snapshots) {
            ([_, second, ..], Err(Refusal { message, hint })) => {
                self.file.error(self.text.offset(second.offset), message, Some(hint.to_owned()));
                false
            }
            _ => true,
        }
    }

    /// Finds the parent of each nested statement. Returns false after an error.
    fn nest(&self, sections: &[Section], statements: &mut [Statement]) -> bool {
        let mut well = true;
        for (i, section) in sections.iter().enumerate() {
            if let Some(nesting) = &section.nesting {
                if let Err(Refusal { message, hint }) = self.dialect.interleaved {
                    self.file.error(self.text.offset(section.offset), message, Some(hint.to_owned()));
                    return false;
                }
                let nested = self.nested(section, nesting, statements, i);
                well &= nested.is_some();
                statements[i].nested = nested;
            }
        }
        well
    }

    /// The parent of statement `i`.
    fn nested(
        &self,
        section: &Section,
        nesting: &Nesting,
        statements: &[Statement],
        i: usize,
    ) -> Option<NestedRows> {
        let (before, name) = (&statements[..i], &statements[i].name);
        let (message, hint) = match before.iter().position(|statement| statement.name == nesting.parent) {
            Some(parent) if statements[i].cardinality != Cardinality::Many => (
                format!("`{name}` is nested in `{}`, but isn't a list", statements[parent].name),
                "write `:many`".to_owned(),
            ),
            Some(parent) if statements[parent].cardinality == Cardinality::Value => (
                format!("`{name}` is nested in `{}`, which has no rows", statements[parent].name),
                "nest it in a `:many` or a `:one`".to_owned(),
            ),
            Some(parent) => {
                return Some(NestedRows {
                    parent,
                    on: nesting.on.clone(),
                    offset: self.text.offset(section.offset),
                });
            }
            None => (
                format!(
                    "`{name}` is nested in {}, and no statement above has this name",
                    shown(&nesting.parent)
                ),
                suggest("those above are", &nesting.parent, before.iter().map(|s| s.name.as_str())),
            ),
        };
        self.file.error(self.text.offset(section.offset), message, Some(hint));
        None
    }

    /// Reports an error in the statement that begins at `start` of the text.
    pub(super) fn error(&self, start: usize, error: SqlError) {
        sql_error(self.file, &self.text, start, error);
    }

    /// Checks that all statements have different names, or that there's only one statement.
    fn check_names(&self, sections: &[Section]) -> bool {
        let mut well = true;
        for (i, section) in sections.iter().enumerate() {
            let first = sections[..i].iter().find(|other| other.name_text() == section.name_text());
            match (section.name_text(), first) {
                (Some(name), Some(first)) => self.named_twice(name, section, first),
                (Some(name), None) if RESERVED.contains(&name) => self.reserved(name, section),
                (None, _) if sections.len() > 1 => self.unnamed(section),
                _ => continue,
            }
            well = false;
        }
        well
    }

    fn named_twice(&self, name: &str, section: &Section, first: &Section) {
        let (line, _) = place(self.file.text, self.text.offset(first.offset));
        let hint = format!("the first is on line {line}: rename one of them");
        let message = format!("two statements are named `{name}`");
        self.file.error(self.text.offset(section.offset), message, Some(hint));
    }

    fn reserved(&self, name: &str, section: &Section) {
        let message = format!("no statement can be named `{name}`: `${name}` is reserved");
        self.file.error(self.text.offset(section.offset), message, Some("rename it".to_owned()));
    }

    fn unnamed(&self, section: &Section) {
        let text = &self.text.text[section.range.clone()];
        let start = section.range.start + (text.len() - text.trim_start().len());
        let hint = "put a line `-- name: NAME :many`, `:one` or `:value` before it";
        let message = "this statement has no name, but others in the file have";
        self.file.error(self.text.offset(start), message, Some(hint.to_owned()));
    }

    /// Parses a section's statement, and finds the index of each of its parameters among the
    /// declared ones.
    pub(super) fn parse(&self, section: &Section) -> Option<(Sql, Vec<usize>)> {
        let start = section.range.start;
        let sql = Sql::parse(&self.text.text[section.range.clone()], self.dialect)
            .map_err(|error| self.error(start, error))
            .ok()?;
        let known: Vec<_> = sql.distinct().map(|(name, at)| (name, self.arg(name, start + at))).collect();
        let arg = |name: &String| known.iter().find(|(known, _)| known == name)?.1;
        let args: Option<Vec<_>> = sql.names.iter().map(arg).collect();
        args.map(|args| (sql, args))
    }

    fn arg(&self, name: &str, at: usize) -> Option<usize> {
        let index = self.declared.iter().position(|declared| declared.param.name == name);
        if index.is_none() {
            let names = self.declared.iter().map(|declared| declared.param.name.as_str());
            let hint = match did_you_mean(name, names) {
                Some(near) => format!("did you mean `:{near}`?"),
                None => params::how_to_declare(name),
            };
            let hint = params::or_colon(hint, &self.text.text[..at], name);
            self.file.error(
                self.text.offset(at),
                format!("the parameter `:{name}` is not declared"),
                Some(hint),
            );
        }
        index
    }

    fn check_used(&self, used: &[bool]) {
        for (declared, _) in self.declared.iter().zip(used).filter(|(_, used)| !**used) {
            let name = &declared.param.name;
            let hint = match self.text.text.contains(&format!(":{name}")) {
                true => format!(
                    "in quotes and comments `:{name}` is text: write it outside them, as in `like \
                     concat('%', :{name}, '%')`"
                ),
                false => format!("use `:{name}` in a statement, or remove the parameter"),
            };
            self.file.error(declared.offset, format!("no statement uses the parameter `{name}`"), Some(hint));
        }
    }
}
