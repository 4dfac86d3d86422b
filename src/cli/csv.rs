//! Converts a CSV to a table in a SQLite database beside it, for `rowstream init FILE.csv`.
//!
//! The types are guessed from all its rows: integer, real or text; an empty cell is NULL. The file
//! is read twice, so that no row must be kept.

mod layout;
mod rows;
mod syntax;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, params_from_iter};

use self::layout::CsvLayout;
use self::rows::{CsvRow, CsvRows};
use super::Failure;

/// The kind of a column's values. A later kind is more general.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CsvKind {
    Empty,
    Integer,
    /// An integer with more digits than a real can represent.
    LongInteger,
    Real,
    Text,
}

/// A column of the table.
struct CsvColumn {
    name: String,
    kind: CsvKind,
    has_empty: bool,
}

/// The role of the column `id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdRole {
    Id,
    None,
}

/// A real can represent all integers up to here.
const LONGEST: u64 = 1 << f64::MANTISSA_DIGITS;

/// The limit of SQLite.
const MOST_COLUMNS: usize = 2000;

/// Any error that can be shown in a message.
type CsvError = Box<dyn std::error::Error>;

/// Creates the database of a CSV, and returns its path.
pub(super) fn database(path: &Path) -> Result<PathBuf, Failure> {
    let made = path.with_extension("db");
    if made.exists() {
        let hint = format!("continue with it: `rowstream init {}`", made.display());
        let message = format!("{} already exists, so nothing was written\n    hint: {hint}", made.display());
        return Err(Failure::Message(message));
    }
    let partial = path.with_extension("db.partial");
    let filled = fill(path, &partial).inspect_err(|_| {
        let _ = fs::remove_file(&partial);
    });
    let renamed = filled.map_err(|error| Failure::Message(format!("{}: {error}", path.display())))?;
    fs::rename(&partial, &made)?;
    for note in renamed {
        eprintln!("{}: {note}", path.display());
    }
    Ok(made)
}

/// Fills the database. Returns notes on the columns that have names of our own.
fn fill(path: &Path, database: &Path) -> Result<Vec<String>, CsvError> {
    let layout = CsvLayout::read(path)?;
    CsvRows::open(path, &layout)?.check()?;
    let mut renamed = Vec::new();
    let columns = columns(CsvRows::open(path, &layout)?, &mut renamed)?;
    let table = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if columns.len() > MOST_COLUMNS {
        let hint = "`rowstream serve` reads such a file with DuckDB's library";
        return Err(format!("a table of SQLite has at most {MOST_COLUMNS} columns\n    hint: {hint}").into());
    }
    if table.to_ascii_lowercase().starts_with("sqlite_") {
        let hint = "rename the file";
        return Err(format!("SQLite reserves names that begin with `sqlite_`\n    hint: {hint}").into());
    }
    for key in [IdRole::Id, IdRole::None] {
        let _ = fs::remove_file(database);
        let inserted = insert(CsvRows::open(path, &layout)?, database, (&table, &columns, key));
        match inserted {
            // Two rows have the same id, so it isn't a key.
            Err(error) if key == IdRole::Id && is_constraint(&*error) => {}
            inserted => return inserted.map(|()| renamed),
        }
    }
    Ok(renamed)
}

fn is_constraint(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
    error == Some(ErrorCode::ConstraintViolation)
}

fn columns(mut rows: CsvRows<'_>, renamed: &mut Vec<String>) -> Result<Vec<CsvColumn>, CsvError> {
    let mut taken = HashSet::new();
    let mut columns: Vec<_> = Vec::new();
    for (number, name) in (1..).zip(rows.next()?.iter().flat_map(CsvRow::values)) {
        let name = free_name(name.trim(), number, &mut taken, renamed);
        columns.push(CsvColumn { name, kind: CsvKind::Empty, has_empty: false });
    }
    while let Some(row) = rows.next()? {
        for (column, text) in columns.iter_mut().zip(row.values()) {
            column.kind = column.kind.or(CsvKind::of(text));
            column.has_empty |= text.is_empty();
        }
    }
    Ok(columns)
}

/// The name of a column, or another one if it has none or shares it.
fn free_name(name: &str, number: usize, taken: &mut HashSet<String>, renamed: &mut Vec<String>) -> String {
    if !name.is_empty() && taken.insert(name.to_lowercase()) {
        return name.to_owned();
    }
    let numbered = (number..).map(|number| format!("column_{number}"));
    let free = numbered.into_iter().find(|name| taken.insert(name.clone())).unwrap_or_default();
    renamed.push(match name {
        "" => format!("column {number} has no name, and is called `{free}`"),
        name => format!("column {number} is called `{free}`: there is another `{name}`"),
    });
    free
}

impl CsvKind {
    /// The kind of a value. Digits with a leading zero are a code, so they're text. A number whose
    /// digits would change is text too: `1e5`, or a decimal with more digits than a real.
    fn of(text: &str) -> Self {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let whole = unsigned.split('.').next().unwrap_or_default();
        let is_number = whole == "0" || whole.starts_with(|c: char| matches!(c, '1'..='9'));
        match text.parse::<i64>() {
            _ if text.is_empty() => Self::Empty,
            _ if !is_number || text == "-0" => Self::Text,
            Ok(integer) if integer.unsigned_abs() <= LONGEST => Self::Integer,
            Ok(_) => Self::LongInteger,
            Err(_) if text.contains('.') && is_real(text) => Self::Real,
            Err(_) => Self::Text,
        }
    }

    /// The kind of a column that has values of both kinds. Integers together with reals become
    /// reals.
    fn or(self, other: Self) -> Self {
        match (self.min(other), self.max(other)) {
            (Self::LongInteger, Self::Real) => Self::Text,
            (_, more) => more,
        }
    }

    fn type_name(self) -> &'static str {
        match self {
            Self::Integer | Self::LongInteger => "integer",
            Self::Real => "real",
            Self::Empty | Self::Text => "text",
        }
    }

    fn value(self, text: &str) -> Value {
        let number = match self {
            _ if text.is_empty() => Some(Value::Null),
            Self::Integer | Self::LongInteger => text.parse().ok().map(Value::Integer),
            Self::Real => text.parse().ok().map(Value::Real),
            Self::Empty | Self::Text => None,
        };
        number.unwrap_or_else(|| Value::Text(text.to_owned()))
    }
}

/// True if a real has all digits of a decimal, apart from zeros at the end of its fraction.
fn is_real(text: &str) -> bool {
    let real = text.parse::<f64>().ok().filter(|real| *real != 0.0 || real.is_sign_positive());
    let digits = text.trim_end_matches('0').trim_end_matches('.');
    real.is_some_and(|real| real.to_string() == digits)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn insert(
    mut rows: CsvRows<'_>,
    database: &Path,
    (table, columns, key): (&str, &[CsvColumn], IdRole),
) -> Result<(), CsvError> {
    let mut connection = Connection::open(database)?;
    let declared = columns.iter().map(|column| {
        let is_key = key == IdRole::Id && !column.has_empty && column.name.eq_ignore_ascii_case("id");
        let key = if is_key { " primary key" } else { "" };
        format!("{} {}{key}", quoted(&column.name), column.kind.type_name())
    });
    let declared: Vec<_> = declared.collect();
    let transaction = connection.transaction()?;
    transaction.execute(&format!("create table {} ({})", quoted(table), declared.join(", ")), [])?;
    let places = vec!["?"; columns.len()].join(", ");
    let mut statement = transaction.prepare(&format!("insert into {} values ({places})", quoted(table)))?;
    // The names.
    rows.next()?;
    while let Some(row) = rows.next()? {
        let values = columns.iter().zip(row.values()).map(|(column, text)| column.kind.value(text));
        statement.execute(params_from_iter(values))?;
    }
    drop(statement);
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_values() {
        for (text, kind) in [
            ("", CsvKind::Empty),
            ("0", CsvKind::Integer),
            ("-18", CsvKind::Integer),
            ("9007199254740992", CsvKind::Integer),
            ("9007199254740993", CsvKind::LongInteger),
            ("9223372036854775807", CsvKind::LongInteger),
            ("-9223372036854775808", CsvKind::LongInteger),
            ("9223372036854775808", CsvKind::Text),
            ("12345678901234567890", CsvKind::Text),
            ("1.50", CsvKind::Real),
            ("100.00", CsvKind::Real),
            ("-0.5", CsvKind::Real),
            ("0.30000000000000004", CsvKind::Real),
            ("2.345678901234567890", CsvKind::Text),
            ("0.1000000000000000055", CsvKind::Text),
            ("1234567890123456.78", CsvKind::Text),
            ("1e3", CsvKind::Text),
            ("1.5E3", CsvKind::Text),
            ("1e999", CsvKind::Text),
            ("NaN", CsvKind::Text),
            ("31/12/2024", CsvKind::Text),
            ("1,5", CsvKind::Text),
            (" 1", CsvKind::Text),
            ("1.2.3", CsvKind::Text),
            ("1.", CsvKind::Real),
            ("-0.0", CsvKind::Text),
            ("007", CsvKind::Text),
            ("+5", CsvKind::Text),
            ("-0", CsvKind::Text),
            ("-", CsvKind::Text),
            (".5", CsvKind::Text),
            ("inf", CsvKind::Text),
            ("1 2", CsvKind::Text),
            ("2024-01-02", CsvKind::Text),
        ] {
            assert_eq!(CsvKind::of(text), kind, "{text}");
        }
    }

    #[test]
    fn integers_beside_reals_keep_their_digits() {
        for (texts, kind) in [
            (&["1", "2.5", ""][..], CsvKind::Real),
            (&["1", "9007199254740993"], CsvKind::LongInteger),
            (&["9007199254740993", "2.5"], CsvKind::Text),
            (&["2.5", "1", "9007199254740993"], CsvKind::Text),
            (&["2.5", "1e5"], CsvKind::Text),
            (&["", ""], CsvKind::Empty),
        ] {
            let all = texts.iter().fold(CsvKind::Empty, |kind, text| kind.or(CsvKind::of(text)));
            assert_eq!(all, kind, "{texts:?}");
        }
    }

    #[test]
    fn each_column_has_a_name_of_its_own() {
        let (mut taken, mut renamed) = (HashSet::new(), Vec::new());
        let names: Vec<_> = (1..)
            .zip(["", "Name", "name", "column_1", "column_3"])
            .map(|(number, name)| free_name(name, number, &mut taken, &mut renamed))
            .collect();
        assert_eq!(names, ["column_1", "Name", "column_3", "column_4", "column_5"]);
        let told = [
            "column 1 has no name, and is called `column_1`",
            "column 3 is called `column_3`: there is another `name`",
            "column 4 is called `column_4`: there is another `column_1`",
            "column 5 is called `column_5`: there is another `column_3`",
        ];
        assert_eq!(renamed, told);
    }
}
