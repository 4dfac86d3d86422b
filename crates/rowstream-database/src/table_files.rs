//! Files that a command line can name without a scheme. Databases are recognized by their first
//! bytes, and files that DuckDB reads as tables by their names.
//!
//! Builds without DuckDB recognize its files too, so that they can report the missing feature.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::optional::DUCKDB;

const ENDINGS: [&str; 9] =
    [".parquet", ".csv", ".csv.gz", ".tsv", ".json", ".jsonl", ".ndjson", ".json.gz", ".ndjson.gz"];

/// The kinds of database files that a command line can name without a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseFile {
    /// A SQLite file.
    Sqlite,
    /// A DuckDB file.
    DuckDb,
}

impl DatabaseFile {
    /// The kind of the file at `path`, by its first bytes or else by its name: a damaged or empty
    /// database isn't a configuration either. Returns `None` for other files and unreadable ones.
    pub fn of(path: &Path) -> Option<Self> {
        Self::by_content(path).or_else(|| Self::by_name(path).filter(|_| path.is_file()))
    }

    /// The scheme of its URLs.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::DuckDb => DUCKDB.schemes[0],
        }
    }

    fn by_name(path: &Path) -> Option<Self> {
        match &*path.extension()?.to_string_lossy().to_ascii_lowercase() {
            "db" | "db3" | "sqlite" | "sqlite3" => Some(Self::Sqlite),
            "duckdb" => Some(Self::DuckDb),
            _ => None,
        }
    }

    fn by_content(path: &Path) -> Option<Self> {
        /// The start of a SQLite file.
        const SQLITE: &[u8; 16] = b"SQLite format 3\0";
        /// The bytes of a DuckDB file after its checksum.
        const DUCKDB: &[u8] = b"DUCK";
        let mut begin = [0; SQLITE.len()];
        File::open(path).and_then(|mut file| file.read_exact(&mut begin)).ok()?;
        match &begin {
            SQLITE => Some(Self::Sqlite),
            begin if begin[8..].starts_with(DUCKDB) => Some(Self::DuckDb),
            _ => None,
        }
    }
}

/// Returns true if `rowstream init` makes a database of a file of this name.
pub fn is_csv(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    [".csv", ".tsv"].iter().any(|ending| path.ends_with(ending))
}

/// Returns true if DuckDB reads a file of this name as a table.
pub fn is_table_file(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    ENDINGS.iter().any(|ending| path.ends_with(ending))
}
