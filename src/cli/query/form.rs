//! The form of a query's rows: a table for people, or a format of endpoints.

use std::io::{self, IsTerminal as _};
use std::path::Path;

use rowstream_core::diagnostic::shown;
use rowstream_encode::Format;

use crate::cli::Failure;
use crate::negotiate::named;

/// The form of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowForm {
    /// A table for people.
    Table,
    /// A format of endpoints.
    Format(Format),
}

/// Suffixes of formats that `query` doesn't write. NDJSON in a file with such a name would mislead.
const FOREIGN: [&str; 23] = [
    "avro", "br", "bz2", "db", "duckdb", "feather", "gz", "htm", "html", "lz4", "ods", "orc", "parquet",
    "sql", "sqlite", "xls", "xlsx", "xml", "xz", "yaml", "yml", "zip", "zst",
];

/// The formats of endpoints that `query` writes. Pages are for browsers.
fn formats() -> impl Iterator<Item = Format> {
    Format::ALL.into_iter().filter(|format| *format != Format::Html)
}

/// Reads the name of a form.
pub(super) fn parse(name: &str) -> Result<RowForm, String> {
    if name == "table" {
        return Ok(RowForm::Table);
    }
    let format = formats().find(|format| format.name() == name);
    format.map(RowForm::Format).ok_or_else(|| {
        let names: Vec<_> = formats().map(Format::name).collect();
        format!("the formats are table, {}", names.join(", "))
    })
}

/// The form if there's no `--format`. It depends on the file's suffix, or else on the reader of
/// standard output.
///
/// # Errors
/// The suffix belongs to a format that we don't write.
pub(super) fn default(output: Option<&Path>) -> Result<RowForm, Failure> {
    let Some(output) = output else {
        return Ok(if io::stdout().is_terminal() { RowForm::Table } else { RowForm::Format(Format::Ndjson) });
    };
    let suffix = output.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if FOREIGN.contains(&&*suffix) {
        let names: Vec<_> = formats().map(|format| format!(".{}", format.name())).collect();
        return Err(Failure::Message(format!(
            "{} would be `.{suffix}`, which `query` doesn't write\n    hint: the suffixes are {}, .jsonl, .tsv; `--format` writes its format under any name",
            shown(&output.to_string_lossy()),
            names.join(", ")
        )));
    }
    Ok(RowForm::Format(of_suffix(&suffix).unwrap_or(Format::Ndjson)))
}

fn of_suffix(suffix: &str) -> Option<Format> {
    match suffix {
        "arrows" => Some(Format::Arrow),
        name => named(name).map(|(format, _)| format),
    }
}
