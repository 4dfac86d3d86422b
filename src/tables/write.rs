//! The endpoint files of a table.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rowstream_core::filter::is_reserved;
use rowstream_core::params::ParamType;
use rowstream_core::sql::is_name;

use super::EndpointFile;
use super::catalog::{Column, Table};
use super::links::{Link, Links};
use crate::endpoint::MOST_PARAMS;

/// The number of columns in a summary. `check` and the first row show all.
const SUMMARISED: usize = 12;
/// The longest name of a file, without its extension. Systems refuse more than 255 bytes.
const LONGEST_NAME: usize = 200;
/// The longest name of a parameter, which is a folder's name too.
const LONGEST_PARAM: usize = 100;

/// The files of a table: the list of all rows, the lookup of one row, and for each foreign key to
/// the table a list of the rows that refer to this row.
pub(super) fn files(table: &Table, links: &Links<'_>, names: &mut FileNames) -> Vec<EndpointFile> {
    let place = Place::default().below(&table.name, names);
    let see = see(table, links);
    let summary = format!("{}{see}", summary(table));
    let mut files = vec![list(table, links, &place, &summary, None)];
    files.extend(lookup(table, links, &place, &see));
    let mut names = FileNames::default();
    // Without a path of the row, its lists have none either. One warning for the row is enough.
    let has_lists = table.key().len() <= MOST_PARAMS;
    for link in links.to(table).filter(|_| has_lists) {
        let place = place.below_params(&link.param_names()).below(&link.reference.list, &mut names);
        files.push(list(link.child, links, &place, &link.summary(), Some(link)));
    }
    files
}

/// A list of a table's rows: all of them, or those of a link.
fn list(
    table: &Table,
    links: &Links<'_>,
    place: &Place,
    summary: &str,
    link: Option<&Link<'_>>,
) -> EndpointFile {
    let key = table.page_key();
    let mut text = format!("/*\nsummary = {}\n", toml(summary));
    place.write(&mut text);
    if !key.is_empty() {
        let columns: Vec<_> = key.iter().map(|column| toml(&key_name(&column.name))).collect();
        let _ = writeln!(text, "key = [{}]", columns.join(", "));
    }
    text.push_str("filter = true\nsort = true\nselect = true\ntotal = true\n");
    text.push_str(&setting(&own_link(table).into_iter().chain(links.parents(table)).collect::<Vec<_>>()));
    if let Some(link) = link {
        text.push_str(&params(&link.param_names(), &link.parent.key()));
    }
    text.push_str("*/\n");
    text.push_str(&select(table));
    if let Some(link) = link {
        let _ = writeln!(text, "where {}", link.conditions().join("\n  and "));
    }
    if !key.is_empty() {
        let columns: Vec<_> = key.iter().map(|column| table.dialect.quoted(&column.name)).collect();
        let _ = writeln!(text, "order by {}", columns.join(", "));
    }
    place.file(text)
}

/// The endpoint of one row by its key; `None` if the table has no key.
fn lookup(table: &Table, links: &Links<'_>, place: &Place, see: &str) -> Option<EndpointFile> {
    let key = table.key();
    if key.is_empty() {
        return None;
    }
    let names = param_names(table, &names(&key));
    let place = place.below_params(&names);
    let mut text =
        format!("/*\nsummary = {}\n", toml(&format!("One row of {} {}{see}", table.kind, table.name)));
    place.write(&mut text);
    text.push_str("result = \"one\"\n");
    let list = format!("/{}", table.name);
    let own = [list].into_iter().chain(links.parents(table)).chain(links.lists(table));
    text.push_str(&setting(&own.collect::<Vec<_>>()));
    text.push_str(&params(&names, &key));
    text.push_str("*/\n");
    text.push_str(&select(table));
    let _ = writeln!(text, "where {}{}", conditions(table, &names).join("\n  and "), exact(table, &names));
    Some(place.file(text))
}

/// The links of pages. A page needs none.
fn setting(links: &[String]) -> String {
    let links: Vec<_> = links.iter().map(|link| toml(link)).collect();
    if links.is_empty() { String::new() } else { format!("links = [{}]\n", links.join(", ")) }
}

/// The path of a row of `table` whose key is in these columns. `None` if braces can't contain one of
/// their names, or a path can't have so many parameters.
pub(super) fn row_link(table: &Table, key: &[&str]) -> Option<String> {
    let is_plain = |name: &&str| !name.contains(['/', '{', '}']);
    let segments: Vec<_> = key.iter().map(|name| format!("{{{name}}}")).collect();
    let has_key = !key.is_empty() && key.iter().all(is_plain);
    (has_key && key.len() <= MOST_PARAMS).then(|| format!("/{}/{}", table.name, segments.join("/")))
}

/// The path of a row of `table` in its list.
fn own_link(table: &Table) -> Option<String> {
    row_link(table, &names(&table.key()))
}

/// The settings of parameters that are the columns of a key.
fn params(names: &[String], key: &[&Column]) -> String {
    let mut text = "[params]\n".to_owned();
    for (name, column) in names.iter().zip(key) {
        let kind = column.param.unwrap_or(ParamType::Text).name();
        let _ = match column.local {
            true => writeln!(text, "{name} = {{ type = \"{kind}\", local = true }}"),
            false => writeln!(text, "{name} = \"{kind}\""),
        };
    }
    text
}

/// The conditions of the row whose key is in these parameters.
pub(super) fn conditions(table: &Table, names: &[String]) -> Vec<String> {
    let condition =
        |(name, column): (&String, &Column)| condition(&table.dialect.quoted(&column.name), name, column);
    names.iter().zip(table.key()).map(condition).collect()
}

/// The end of a statement of the row whose key is in these parameters: rows may have equal values in other
/// forms, and the one with the same form is meant.
pub(super) fn exact(table: &Table, names: &[String]) -> String {
    let by_value = |(name, column): (&String, &Column)| {
        column.equal.as_ref()?;
        Some(format!("{} = :{name} desc", table.dialect.quoted(&column.name)))
    };
    let terms: Vec<_> = names.iter().zip(table.key()).filter_map(by_value).collect();
    if terms.is_empty() { String::new() } else { format!("\norder by {}\nlimit 1", terms.join(", ")) }
}

/// The condition that a quoted column has the value of a parameter, compared as values of `column`.
pub(super) fn condition(quoted: &str, name: &str, column: &Column) -> String {
    let value = column.cast.as_ref().map_or(format!(":{name}"), |kind| format!("cast(:{name} as {kind})"));
    let equal = column.equal.as_deref().unwrap_or("{c} = {v}");
    equal.replace("{v}", &value).replace("{c}", quoted)
}

/// `select … from …`, on two lines. The database itself says what's wrong with a view that has no columns.
fn select(table: &Table) -> String {
    let quoted: Vec<_> = table.columns.iter().map(|column| table.dialect.quoted(&column.name)).collect();
    let columns = if quoted.is_empty() { "*".to_owned() } else { quoted.join(", ") };
    format!("select {columns}\nfrom {}\n", table.dialect.quoted(&table.name))
}

fn summary(table: &Table) -> String {
    let columns = table.columns.iter().take(SUMMARISED);
    let columns: Vec<_> = columns.map(|column| format!("{} {}", column.name, column.type_name)).collect();
    let more = table.columns.len() - columns.len();
    let more = if more > 0 { format!(", and {more} more columns") } else { String::new() };
    format!("{} {}: {}{more}", table.kind, table.name, columns.join(", "))
}

/// The end of a summary: the paths of the rows that a row refers to, with its columns in braces.
fn see(table: &Table, links: &Links<'_>) -> String {
    let path = |link: &Link<'_>| {
        let key = link.key().filter(|key| key.len() <= MOST_PARAMS)?;
        let segments: Vec<_> = key.iter().map(|column| format!("{{{column}}}")).collect();
        Some(format!("/{}/{}", link.parent.name, segments.join("/")))
    };
    let paths: Vec<_> = links.of(table).filter(|link| links.has(link.parent)).filter_map(path).collect();
    if paths.is_empty() { String::new() } else { format!("; see {}", paths.join(", ")) }
}

/// The names of columns.
pub(super) fn names<'a>(columns: &[&'a Column]) -> Vec<&'a str> {
    columns.iter().map(|column| column.name.as_str()).collect()
}

/// The names of parameters: those of the columns, if they're valid as such. The others have a number,
/// and aren't columns of `table`, whose rows the endpoint reads.
pub(super) fn param_names(table: &Table, columns: &[&str]) -> Vec<String> {
    let is_own = |name: &str| {
        let is_plain = is_name(name) && !name.starts_with('_') && !is_reserved(name);
        is_plain && name.len() <= LONGEST_PARAM
    };
    let is_column = |name: &String| {
        columns.contains(&name.as_str()) || table.columns.iter().any(|column| column.name == *name)
    };
    let mut names: Vec<String> = Vec::new();
    for (number, &column) in (1..).zip(columns) {
        let own = Some(column.to_owned()).filter(|name| is_own(name));
        let numbered =
            (number..).map(|number: usize| format!("key_{number}")).filter(|name| !is_column(name));
        names.extend(own.into_iter().chain(numbered).find(|name| !names.contains(name)));
    }
    names
}

/// The name of a column for `key`. If the name could end in a direction, we add one.
fn key_name(name: &str) -> String {
    if name.contains(char::is_whitespace) { format!("{name} asc") } else { name.to_owned() }
}

/// The file of an endpoint below a folder, without its extension, and its path.
#[derive(Debug, Clone, Default)]
struct Place {
    file: String,
    path: String,
}

impl Place {
    /// The place one segment below. A name that can't be a file's gets another file.
    fn below(&self, name: &str, names: &mut FileNames) -> Self {
        let file = if self.file.is_empty() {
            names.name(name)
        } else {
            format!("{}/{}", self.file, names.name(name))
        };
        Self { file, path: format!("{}/{name}", self.path) }
    }

    /// The place below, with a segment for each parameter.
    fn below_params(&self, names: &[String]) -> Self {
        let below: String = names.iter().map(|name| format!("/{{{name}}}")).collect();
        Self { file: format!("{}{below}", self.file), path: format!("{}{below}", self.path) }
    }

    /// Writes the path, unless it's the file's own.
    fn write(&self, text: &mut String) {
        if self.path.strip_prefix('/') != Some(&self.file) {
            let _ = writeln!(text, "path = {}", toml(&self.path));
        }
    }

    fn file(&self, text: String) -> EndpointFile {
        EndpointFile { path: format!("{}.sql", self.file).into(), text }
    }
}

/// The names of a folder's files. They differ by more than case, because some file systems ignore it.
#[derive(Debug, Default)]
pub(super) struct FileNames(BTreeSet<String>);

impl FileNames {
    /// A new name that is as similar as possible.
    fn name(&mut self, name: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let plain: String =
            name.chars().take(LONGEST_NAME).map(|c| if is_plain(c) { c } else { '-' }).collect();
        // Files that begin with `_` are ignored, and `index` means the folder's own path.
        let plain = if plain.starts_with('_') || plain == "index" { format!("table-{plain}") } else { plain };
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let mut free = std::iter::once(plain.clone()).chain(numbered);
        free.find(|name| self.0.insert(name.to_ascii_lowercase())).unwrap_or(plain)
    }
}

/// A TOML string inside of an SQL comment.
fn toml(text: &str) -> String {
    // JSON strings are valid TOML basic strings, except for one character.
    let quoted = serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f");
    quoted.replace("*/", "*\\u002f").replace("/*", "\\u002f*")
}
