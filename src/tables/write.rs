//! The endpoint files of a table.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use rowstream_core::params::ParamType;
use rowstream_core::sql::is_name;

use super::EndpointFile;
use super::catalog::{Column, Table};

/// The number of columns in a summary. `check` and the first row show all.
const SUMMARISED: usize = 12;

/// The endpoint of all rows.
pub(crate) fn list(table: &Table) -> EndpointFile {
    let key = table.page_key();
    let mut text = format!("/*\nsummary = {}\n", toml(&summary(table)));
    let place = TableFiles::new(table);
    place.write(&mut text, "");
    if !key.is_empty() {
        let columns: Vec<_> = key.iter().map(|column| toml(&key_name(&column.name))).collect();
        let _ = writeln!(text, "key = [{}]", columns.join(", "));
    }
    text.push_str("filter = true\nsort = true\nselect = true\ntotal = true\n*/\n");
    text.push_str(&select(table));
    if !key.is_empty() {
        let columns: Vec<_> = key.iter().map(|column| table.dialect.quoted(&column.name)).collect();
        let _ = writeln!(text, "order by {}", columns.join(", "));
    }
    EndpointFile { path: format!("{}.sql", place.file).into(), text }
}

/// The endpoint of one row by its key; `None` if the table has no key.
pub(crate) fn lookup(table: &Table) -> Option<EndpointFile> {
    let key = table.key();
    if key.is_empty() {
        return None;
    }
    let names = param_names(&key);
    let segments: Vec<_> = names.iter().map(|name| format!("{{{name}}}")).collect();
    let below = segments.join("/");
    let place = TableFiles::new(table);
    let mut text = format!("/*\nsummary = {}\n", toml(&format!("One row of {} {}", table.kind, table.name)));
    place.write(&mut text, &below);
    text.push_str("result = \"one\"\n[params]\n");
    for (name, column) in names.iter().zip(&key) {
        let _ = writeln!(text, "{name} = \"{}\"", column.param.unwrap_or(ParamType::Text).name());
    }
    text.push_str("*/\n");
    text.push_str(&select(table));
    let condition = |(name, column): (&String, &&Column)| {
        let value =
            column.cast.as_ref().map_or(format!(":{name}"), |kind| format!("cast(:{name} as {kind})"));
        format!("{} = {value}", table.dialect.quoted(&column.name))
    };
    let conditions: Vec<_> = names.iter().zip(&key).map(condition).collect();
    let _ = writeln!(text, "where {}", conditions.join("\n  and "));
    let path: PathBuf = format!("{}/{below}.sql", place.file).into();
    Some(EndpointFile { path, text })
}

/// `select … from …`, on two lines.
fn select(table: &Table) -> String {
    let quoted: Vec<_> = table.columns.iter().map(|column| table.dialect.quoted(&column.name)).collect();
    format!("select {}\nfrom {}\n", quoted.join(", "), table.dialect.quoted(&table.name))
}

fn summary(table: &Table) -> String {
    let columns = table.columns.iter().take(SUMMARISED);
    let columns: Vec<_> = columns.map(|column| format!("{} {}", column.name, column.type_name)).collect();
    let more = table.columns.len() - columns.len();
    let more = if more > 0 { format!(", and {more} more columns") } else { String::new() };
    format!("{} {}: {}{more}", table.kind, table.name, columns.join(", "))
}

/// The names of a lookup's parameters: those of the columns, if they're valid as such.
fn param_names(key: &[&Column]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let name = |(number, column): (usize, &&Column)| {
        let own = is_name(&column.name) && !column.name.starts_with('_') && taken.insert(column.name.clone());
        if own { column.name.clone() } else { format!("key_{number}") }
    };
    (1..).zip(key).map(name).collect()
}

/// The name of a column for `key`. If the name could end in a direction, we add one.
fn key_name(name: &str) -> String {
    if name.contains(char::is_whitespace) { format!("{name} asc") } else { name.to_owned() }
}

/// The location of a table's files, and their `path`.
struct TableFiles<'a> {
    /// The name of the file or folder.
    file: String,
    /// The table's name, if the path differs from the file's.
    path: Option<&'a str>,
}

impl<'a> TableFiles<'a> {
    fn new(table: &'a Table) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let plain: String = table.name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        // Files that begin with `_` are ignored, and `index` means the folder's own path.
        let file = if plain.starts_with('_') || plain == "index" { format!("table-{plain}") } else { plain };
        let path = (file != table.name).then_some(table.name.as_str());
        Self { file, path }
    }

    fn write(&self, text: &mut String, below: &str) {
        if let Some(name) = self.path {
            let below = if below.is_empty() { String::new() } else { format!("/{below}") };
            let _ = writeln!(text, "path = {}", toml(&format!("/{name}{below}")));
        }
    }
}

/// A TOML string inside of an SQL comment.
fn toml(text: &str) -> String {
    // JSON strings are valid TOML basic strings, except for one character.
    let quoted = serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f");
    quoted.replace("*/", "*\\u002f").replace("/*", "\\u002f*")
}
