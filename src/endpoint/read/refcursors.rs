//! Statements that open refcursors for others: `-- name: opened :refcursors`, and `-- name: orders
//! :many from opened`.
//!
//! An opener has no rows that a body could contain, so it isn't a statement of the endpoint. Each
//! of its readers is one, and has the opener's text. Only the database knows the opener's columns.

use rowstream_core::diagnostic::{File, shown, suggest};
use rowstream_core::sql::dialect::{OpenedResults, Refusal};
use rowstream_core::sql::{self, Outline, Refcursors, Section, Sql};

use super::body::RowSet;
use super::statements::StatementReader;
use crate::endpoint;

/// A statement that opens refcursors.
pub(super) struct RefcursorOpener {
    section: Section,
    sql: Sql,
    args: Vec<usize>,
}

impl RefcursorOpener {
    fn name(&self) -> &str {
        self.section.name_text().unwrap_or_default()
    }
}

impl StatementReader<'_> {
    /// Separates the sections that are statements of the endpoint from those that open refcursors
    /// for them. Returns `None` if an opener has an error.
    pub(super) fn openers(&self, sections: Vec<Section>) -> Option<(Vec<Section>, Vec<RefcursorOpener>)> {
        let (opening, sections): (Vec<_>, Vec<_>) =
            sections.into_iter().partition(|section| section.refcursors == Refcursors::Opens);
        let count = opening.len();
        let openers: Vec<_> =
            opening.into_iter().filter_map(|section| self.opener(section, &sections)).collect();
        (openers.len() == count).then_some((sections, openers))
    }

    fn opener(&self, section: Section, others: &[Section]) -> Option<RefcursorOpener> {
        let name = section.name_text().unwrap_or_default();
        let at = self.text.offset(section.offset);
        let opens = match self.dialect.refcursors {
            Ok(opens) => opens,
            Err(Refusal { message, hint }) => {
                self.file.error(at, message, Some(hint.to_owned()));
                return None;
            }
        };
        if !others.iter().any(|other| other.opener() == Some(name)) {
            let (what, hint) = match opens {
                OpenedResults::Refcursors => ("refcursors", ", NAME a column of its row"),
                OpenedResults::Results => ("results", " for each, in the procedure's order"),
            };
            let hint = format!("write `-- name: NAME :many from {name}`{hint}");
            self.file.error(at, format!("no statement reads the {what} of `{name}`"), Some(hint));
            return None;
        }
        let (sql, args) = self.parse(&section)?;
        let calls =
            || Outline::new(&sql.text, self.dialect).is_some_and(|outline| outline.begins_with("call"));
        if opens == OpenedResults::Results && !calls() {
            let hint = "let it `call` a procedure, whose results are read in order".to_owned();
            self.file.error(at, format!("`{name}` doesn't call a procedure"), Some(hint));
            return None;
        }
        Some(RefcursorOpener { section, sql, args })
    }

    /// The section of the opener whose refcursor `section` reads, and the opener's statement.
    pub(super) fn read_from<'o>(
        &self,
        section: &Section,
        opener: &str,
        openers: &'o [RefcursorOpener],
    ) -> Option<(&'o Section, (Sql, Vec<usize>))> {
        let Some(found) = openers.iter().find(|known| known.name() == opener) else {
            let message = format!("no statement {} opens refcursors", shown(opener));
            let hint = match openers {
                [] => format!("write `-- name: {opener} :refcursors` before the statement that does"),
                _ => suggest("the ones that do are", opener, openers.iter().map(RefcursorOpener::name)),
            };
            self.file.error(self.text.offset(section.offset), message, Some(hint));
            return None;
        };
        self.is_without_text(section, opener)
            .then(|| (&found.section, (found.sql.clone(), found.args.clone())))
    }

    /// Checks that a statement that reads a refcursor has no SQL of its own.
    fn is_without_text(&self, section: &Section, opener: &str) -> bool {
        let text = &self.text.text[section.range.clone()];
        match sql::is_blank(text, self.dialect) {
            Ok(true) => return true,
            Ok(false) => {
                let start = section.range.start + (text.len() - text.trim_start().len());
                let message = format!("there is SQL below a statement that reads a refcursor of `{opener}`");
                let hint = format!("remove it, or the words `from {opener}`");
                self.file.error(self.text.offset(start), message, Some(hint));
            }
            Err(error) => self.error(section.range.start, error),
        }
        false
    }
}

/// The opener whose result `section` reads, with the position of `section` among the readers.
pub(super) fn opener(section: &Section, sections: &[Section]) -> Option<endpoint::Opener> {
    let name = section.opener()?;
    let readers = || sections.iter().filter(|other| other.opener() == Some(name));
    let place = readers().position(|other| other.range == section.range).unwrap_or_default();
    Some(endpoint::Opener { name: name.to_owned(), place, readers: readers().count() })
}

/// Reports an error and returns true if a body contains an opener.
pub(super) fn is_placed(file: File<'_>, offset: usize, name: &str, sets: &[RowSet<'_>]) -> bool {
    let mut readers = sets.iter().filter(|set| set.opener == Some(name));
    let Some(reader) = readers.next() else { return false };
    let message = format!("`{name}` opens refcursors and has no rows of its own");
    file.error(
        offset,
        message,
        Some(format!("use the statements that read them, such as `\"${}\"`", reader.name)),
    );
    true
}
