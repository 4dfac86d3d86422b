//! Names of files that DuckDB reads as tables, so that a command line can name such a file alone.
//!
//! Builds without DuckDB know them as well: they then say what is missing.

const ENDINGS: [&str; 9] =
    [".parquet", ".csv", ".csv.gz", ".tsv", ".json", ".jsonl", ".ndjson", ".json.gz", ".ndjson.gz"];

/// Returns true if DuckDB reads a file of this name as a table.
pub(crate) fn is_table_file(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    ENDINGS.iter().any(|ending| path.ends_with(ending))
}
