//! The text of an endpoint file: its TOML, its SQL, and the offsets of both.

use std::sync::Arc;

use rowstream_core::diagnostic::File;
use rowstream_core::diagnostic::reader::{Table, Value};
use rowstream_core::params::Param;
use rowstream_core::sql::dialect::Lists;
use rowstream_core::sql::{self, Dialect, OptionalPart, Sql, SqlError};

use crate::database;
use crate::endpoint::lookup::EncoderCache;
use crate::endpoint::params::{self, DeclaredParam};
use crate::endpoint::{Cardinality, Origin, Statement};

/// The statements of a file.
pub(super) struct SqlText {
    pub(super) text: String,
    origin: SqlOrigin,
}

/// How the SQL is written in its file.
#[derive(Clone, Copy)]
enum SqlOrigin {
    /// Unchanged, beginning at this offset.
    Verbatim(usize),
    /// With escapes, in a TOML string at this offset. All positions in the SQL map to this offset.
    Escaped(usize),
}

impl SqlText {
    /// The text of a file of only SQL.
    pub(super) fn whole(text: &str) -> Self {
        Self { text: text.to_owned(), origin: SqlOrigin::Verbatim(0) }
    }

    /// The offset in the file of a position in the SQL.
    pub(super) fn offset(&self, within: usize) -> usize {
        match self.origin {
            SqlOrigin::Verbatim(start) => start + within,
            SqlOrigin::Escaped(start) => start,
        }
    }

    /// The parts that depend on parameters. `None` after an error.
    pub(super) fn optional_parts(
        &self,
        file: File<'_>,
        dialect: &'static Dialect,
    ) -> Option<Vec<OptionalPart>> {
        sql::optional_parts(&self.text, dialect).map_err(|error| sql_error(file, self, 0, error)).ok()
    }

    /// The place of a request's order in the file, if there's one. `None` after an error.
    pub(super) fn sort_place(&self, file: File<'_>, dialect: &'static Dialect) -> Option<Option<usize>> {
        let place =
            sql::sort_place(&self.text, dialect).map_err(|error| sql_error(file, self, 0, error)).ok()?;
        Some(place.map(|place| self.offset(place.start)))
    }

    /// Reports optional parts of SQL that always has all of its parts.
    pub(super) fn refuse_optional_parts(&self, file: File<'_>, dialect: &'static Dialect) {
        // Other errors of the text are reported when it's parsed.
        let parts = sql::optional_parts(&self.text, dialect).unwrap_or_default();
        if let Some(part) = parts.first() {
            let hint = "write `:name is null or …` instead".to_owned();
            let message = "optional parts are for the statements of an endpoint file";
            file.error(self.offset(part.range.start), message, Some(hint));
        }
    }

    /// Refuses a list that a statement, which begins at `start`, compares as one value: `id in (:ids)`.
    pub(super) fn refuse_list_as_value(
        &self,
        file: File<'_>,
        start: usize,
        sql: &Sql,
        dialect: &'static Dialect,
        params: &[Param],
    ) {
        let values = match dialect.lists {
            Lists::Arrays => return,
            // `= :ids` may be a comparison with a column of arrays.
            Lists::LateArrays => sql::items_of_in(&sql.text, dialect),
            Lists::Texts(_) => sql::compared_values(&sql.text, dialect),
        };
        let list = |value: usize| params.iter().find(|param| param.list && param.name == sql.names[value]);
        let mut values = values.into_iter().map(|number| number - 1);
        if let Some((value, Param { name, kind, .. })) = values.find_map(|value| Some((value, list(value)?)))
        {
            let hint = match dialect.lists {
                Lists::Texts(items) => {
                    let items = items(name, kind.name());
                    format!("compare with its items: write `in ({items})`, or `not in (…)`")
                }
                _ => format!(
                    "write `= any(:{name})` for `in (:{name})`, and `<> all(:{name})` for `not in`; for a column of \
                    lists, `= :{name}` and `<> :{name}`"
                ),
            };
            let message = format!("the list `:{name}` is compared as one value");
            file.error(self.offset(start + sql.places[value]), message, Some(hint));
        }
    }

    /// Declares the claims that the statements use. Errors in the statements are reported later.
    pub(super) fn declare_claims(&self, dialect: &'static Dialect, declared: &mut Vec<DeclaredParam>) {
        for section in sql::sections(&self.text, dialect).unwrap_or_default() {
            let start = section.range.start;
            if let Ok(sql) = Sql::parse(&self.text[section.range], dialect) {
                let names = sql.distinct().map(|(name, at)| (name, self.offset(start + at)));
                params::declare_claims(names, declared);
            }
        }
    }

    /// Maps the pieces of a statement, which begins at `start` of the SQL, to the file.
    fn pieces(&self, start: usize, pieces: &[(usize, usize)]) -> Vec<(usize, usize)> {
        match self.origin {
            SqlOrigin::Verbatim(_) => {
                pieces.iter().map(|&(new, old)| (new, self.offset(start + old))).collect()
            }
            // No position reaches the second piece, so every position maps to `place`.
            SqlOrigin::Escaped(place) => vec![(0, place), (usize::MAX, place)],
        }
    }

    /// Completes a statement, which begins at `start` of the text.
    pub(super) fn statement(
        &self,
        file: File<'_>,
        (name, cardinality): (String, Cardinality),
        start: usize,
        sql: Sql,
        args: Vec<usize>,
        params: &[Param],
    ) -> Statement {
        let origin = Origin { pieces: self.pieces(start, &sql.pieces), text: Arc::from(file.text) };
        let types = args.iter().map(|&arg| params[arg].bind_type()).collect();
        let query = database::Statement { sql: Arc::from(sql.text), types, ad_hoc: false };
        let kept = EncoderCache::default();
        Statement { name, cardinality, query, args, nested: None, opener: None, origin, kept }
    }
}

/// Reports an error in a statement, which begins at `start` of the text.
pub(super) fn sql_error(file: File<'_>, text: &SqlText, start: usize, error: SqlError) {
    file.error(text.offset(start + error.offset), error.message, error.hint);
}

/// The definition of an endpoint's data.
pub(super) enum DataDefinition<'a> {
    /// Statements. `None` if there's an error in their text.
    Sql(Option<SqlText>),
    Upstream(Value<'a>),
}

/// The TOML of a file, and the definition of its endpoint's data.
pub(super) fn open<'a>(file: File<'a>) -> Option<(Table<'a>, DataDefinition<'a>)> {
    if file.path.extension().is_some_and(|extension| extension == "toml") {
        let mut table = Table::parse(file, 0..file.text.len(), None)?;
        if let Some(upstream) = table.take("upstream") {
            return Some((table, DataDefinition::Upstream(upstream)));
        }
        let hint = "an endpoint needs SQL (`sql = \"\"\"…\"\"\"`) or requests (`[upstream]`)";
        let sql = table.require("sql", hint);
        return Some((table, DataDefinition::Sql(sql.and_then(|value| toml_sql(&value)))));
    }
    const HINT: &str = "the first comment of an endpoint file is TOML: write other words with `--`";
    let Some((toml, sql)) = front_matter(file.text) else {
        file.error(
            0,
            "the comment at the start of the file has no end",
            Some("close it with `*/`".to_owned()),
        );
        return None;
    };
    let text = SqlText { text: file.text[sql..].to_owned(), origin: SqlOrigin::Verbatim(sql) };
    Some((Table::parse(file, toml, Some(HINT))?, DataDefinition::Sql(Some(text))))
}

/// The statements of a TOML string.
pub(super) fn toml_sql(value: &Value<'_>) -> Option<SqlText> {
    let text = value.string()?;
    let origin = match value.source_text().find(&text) {
        Some(at) => SqlOrigin::Verbatim(value.offset() + at),
        None => SqlOrigin::Escaped(value.offset()),
    };
    Some(SqlText { text, origin })
}

/// The range of the TOML in the first comment, and the offset of the SQL. `None` if the comment has
/// no end. A file that doesn't begin with `/* … */` is only SQL.
fn front_matter(text: &str) -> Option<(std::ops::Range<usize>, usize)> {
    let bare = text.trim_start();
    let start = text.len() - bare.len();
    if !bare.starts_with("/*") {
        return Some((start..start, start));
    }
    let toml = start + "/*".len();
    let end = toml + text[toml..].find("*/")?;
    Some((toml..end, end + "*/".len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_the_first_comment() {
        for (text, toml, sql) in [
            ("select 1", "", "select 1"),
            ("/* a */ select 1", " a ", " select 1"),
            ("\n /* a */select 1", " a ", "select 1"),
            ("/**/select /* b */ 1", "", "select /* b */ 1"),
            ("-- c\n/* a */ select 1", "", "-- c\n/* a */ select 1"),
            ("/*/ a */ b", "/ a ", " b"),
            ("", "", ""),
        ] {
            let (range, at) = front_matter(text).unwrap();
            assert_eq!((&text[range], &text[at..]), (toml, sql), "{text}");
        }
        assert_eq!(front_matter("/*/"), None);
        assert_eq!(front_matter(" /* a"), None);
    }
}
