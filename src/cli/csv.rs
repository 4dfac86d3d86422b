//! A CSV as the table of a SQLite database beside it, for `rowstream init FILE.csv`.
//!
//! The types are guessed of all its rows: integer, real or text; an empty cell is NULL. It is read
//! twice, so that no row has to be kept.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use ::csv::{Reader, ReaderBuilder, StringRecord};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, params_from_iter};

use super::Failure;

/// What the values of a column are, the more general one later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Empty,
    Integer,
    Real,
    Text,
}

/// A column of the table.
struct Column {
    name: String,
    kind: Kind,
    has_empty: bool,
}

/// Whether a column called `id` is the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Id,
    None,
}

/// Makes the database of a CSV, and gives its path.
pub(super) fn database(path: &Path) -> Result<PathBuf, Failure> {
    let made = path.with_extension("db");
    if made.exists() {
        let hint = format!("go on with it: `rowstream init {}`", made.display());
        let message =
            format!("{} is there already, and nothing was written\n    hint: {hint}", made.display());
        return Err(Failure::Message(message));
    }
    let partial = path.with_extension("db.partial");
    let filled = fill(path, &partial).inspect_err(|_| {
        let _ = fs::remove_file(&partial);
    });
    filled.map_err(|error| Failure::Message(format!("{}: {error}", path.display())))?;
    fs::rename(&partial, &made)?;
    Ok(made)
}

fn fill(path: &Path, database: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let delimiter = delimiter(path)?;
    let columns = columns(&mut open(path, delimiter)?)?;
    let table = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for key in [Key::Id, Key::None] {
        let _ = fs::remove_file(database);
        let inserted = insert(&mut open(path, delimiter)?, database, (&table, &columns, key));
        match inserted {
            // Two rows have the same id: it is no key.
            Err(error) if key == Key::Id && is_constraint(&*error) => {}
            inserted => return inserted,
        }
    }
    Ok(())
}

fn is_constraint(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
    error == Some(ErrorCode::ConstraintViolation)
}

fn open(path: &Path, delimiter: u8) -> ::csv::Result<Reader<fs::File>> {
    ReaderBuilder::new().delimiter(delimiter).from_path(path)
}

/// What divides the names in the first line most often.
fn delimiter(path: &Path) -> std::io::Result<u8> {
    let mut line = Vec::new();
    BufReader::new(fs::File::open(path)?).read_until(b'\n', &mut line)?;
    let count = |delimiter: &u8| line.iter().filter(|byte| *byte == delimiter).count();
    // Of equals the last one is taken.
    Ok(*b"|\t;,".iter().max_by_key(|delimiter| count(delimiter)).unwrap_or(&b','))
}

fn columns(reader: &mut Reader<fs::File>) -> ::csv::Result<Vec<Column>> {
    let mut taken = HashSet::new();
    let mut columns: Vec<_> = Vec::new();
    for (number, name) in (1..).zip(reader.headers()?) {
        let name = name.trim();
        let is_free = !name.is_empty() && taken.insert(name.to_lowercase());
        let name = if is_free { name.to_owned() } else { format!("column_{number}") };
        columns.push(Column { name, kind: Kind::Empty, has_empty: false });
    }
    let mut record = StringRecord::new();
    while reader.read_record(&mut record)? {
        for (column, text) in columns.iter_mut().zip(&record) {
            column.kind = column.kind.max(Kind::of(text));
            column.has_empty |= text.is_empty();
        }
    }
    Ok(columns)
}

impl Kind {
    /// Digits with a zero before them are a code, and no number.
    fn of(text: &str) -> Self {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let whole = unsigned.split(['.', 'e', 'E']).next().unwrap_or_default();
        let is_number = whole == "0" || whole.starts_with(|c: char| matches!(c, '1'..='9'));
        match text {
            "" => Self::Empty,
            _ if !is_number || text == "-0" => Self::Text,
            _ if text.parse::<i64>().is_ok() => Self::Integer,
            _ if text.parse::<f64>().is_ok_and(f64::is_finite) && text.contains(['.', 'e', 'E']) => {
                Self::Real
            }
            _ => Self::Text,
        }
    }

    fn type_name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Empty | Self::Text => "text",
        }
    }

    fn value(self, text: &str) -> Value {
        let number = match self {
            _ if text.is_empty() => Some(Value::Null),
            Self::Integer => text.parse().ok().map(Value::Integer),
            Self::Real => text.parse().ok().map(Value::Real),
            Self::Empty | Self::Text => None,
        };
        number.unwrap_or_else(|| Value::Text(text.to_owned()))
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn insert(
    reader: &mut Reader<fs::File>,
    database: &Path,
    (table, columns, key): (&str, &[Column], Key),
) -> Result<(), Box<dyn std::error::Error>> {
    let mut connection = Connection::open(database)?;
    let declared = columns.iter().map(|column| {
        let is_key = key == Key::Id && !column.has_empty && column.name.eq_ignore_ascii_case("id");
        let key = if is_key { " primary key" } else { "" };
        format!("{} {}{key}", quoted(&column.name), column.kind.type_name())
    });
    let declared: Vec<_> = declared.collect();
    let transaction = connection.transaction()?;
    transaction.execute(&format!("create table {} ({})", quoted(table), declared.join(", ")), [])?;
    let places = vec!["?"; columns.len()].join(", ");
    let mut statement = transaction.prepare(&format!("insert into {} values ({places})", quoted(table)))?;
    let mut record = StringRecord::new();
    while reader.read_record(&mut record)? {
        let values = columns.iter().zip(&record).map(|(column, text)| column.kind.value(text));
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
            ("", Kind::Empty),
            ("0", Kind::Integer),
            ("-18", Kind::Integer),
            ("9223372036854775807", Kind::Integer),
            ("9223372036854775808", Kind::Text),
            ("1.50", Kind::Real),
            ("-0.5", Kind::Real),
            ("1e3", Kind::Real),
            ("1e999", Kind::Text),
            ("007", Kind::Text),
            ("+5", Kind::Text),
            ("-0", Kind::Text),
            ("-", Kind::Text),
            (".5", Kind::Text),
            ("inf", Kind::Text),
            ("1 2", Kind::Text),
            ("2024-01-02", Kind::Text),
        ] {
            assert_eq!(Kind::of(text), kind, "{text}");
        }
    }
}
