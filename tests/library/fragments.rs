//! The code fragments in the book. They aren't complete files, so we add everything that they
//! assume, and check that the parsers accept the result.

use std::fs;
use std::path::{Path, PathBuf};

use rowstream::config::Config;
use toml::{Table, Value};

use crate::support::repository;

/// The configuration and endpoints that fragments assume.
const BASE: &str = "
authorization = 'authenticated'
[source.a]
url = 'postgres://h/d'
[source.h]
url = 'http://127.0.0.1:1'
[jwt]
issuer = 'https://login.example'
audience = 'rowstream'
[token.reader]
sha256 = '…'
[token.prometheus]
sha256 = '…'
";
/// Keys that only endpoint files have.
const OF_ENDPOINTS: &[&str] = &["params", "upstream", "enrich", "sql", "body", "result", "key", "follow"];
/// Placeholders for the digits of a hash, in quotes.
const HASHES: &[&str] = &["…64 hex digits…", "…"];

/// The book's code blocks in a language, each with its place.
fn blocks(language: &str) -> Vec<(String, String)> {
    let root = repository().join("docs/src");
    let mut found = Vec::new();
    for page in pages(&root) {
        let text = fs::read_to_string(&page).unwrap();
        let mut lines = text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            let indent = line.len() - line.trim_start().len();
            if line.trim() != format!("```{language}") {
                continue;
            }
            let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
            let block: String =
                inside.map(|line| format!("{}\n", line.get(indent..).unwrap_or(""))).collect();
            found.push((format!("{}:{}", page.strip_prefix(&root).unwrap().display(), at + 1), block));
        }
    }
    found
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// Adds the entries of `base` that `table` lacks.
fn complete(table: &mut Table, base: &Table) {
    for (key, value) in base {
        match (table.get_mut(key), value) {
            (Some(Value::Table(own)), Value::Table(base)) if key == "token" || key == "source" => {
                complete(own, base);
            }
            (Some(_), _) => {}
            (None, _) => drop(table.insert(key.clone(), value.clone())),
        }
    }
}

/// The parsers' errors for a configuration with one endpoint. Files that a fragment names needn't
/// exist.
fn wrong(mut config: Table, (name, endpoint): (&str, &str)) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let digits = "0".repeat(64);
    complete(&mut config, &BASE.replace('…', &digits).parse().unwrap());
    for below in ["endpoints", "spool"] {
        fs::create_dir(folder.path().join(below)).unwrap();
    }
    fs::write(folder.path().join("endpoints").join(name), endpoint).unwrap();
    let path = folder.path().join("rowstream.toml");
    let config = config.to_string();
    fs::write(&path, &config).unwrap();
    let environment = |name: &str| {
        let value = match name {
            "SHOP_URL" => "postgres://h/d",
            "CRM_URL" => "http://127.0.0.1:1",
            "CURSOR_SECRET" | "URL_SECRET" => &digits,
            _ => "x",
        };
        let is_named = |text: &str| text.contains(&format!("${{{name}"));
        (is_named(&config) || is_named(endpoint)).then(|| value.to_owned())
    };
    let Err(errors) = Config::load_with(&path, &environment) else { return Vec::new() };
    let is_of_file = |error: &String| {
        ["there is no file", "the file doesn't exist", "No such file"].iter().any(|one| error.contains(one))
    };
    errors.iter().map(ToString::to_string).filter(|error| !is_of_file(error)).collect()
}

/// The database of a configuration fragment, or that of [`BASE`].
fn database(config: &Table) -> String {
    let sources = config.get("source").and_then(Value::as_table);
    let is_database = |(_, source): &(&String, &Value)| !source["url"].to_string().contains("http");
    sources
        .and_then(|sources| sources.iter().find(is_database))
        .map_or_else(|| "a".to_owned(), |(name, _)| name.clone())
}

/// A configuration with a database and an HTTP service under the names that an endpoint uses.
fn sources(endpoint: &Table) -> Table {
    let source = |table: &Value| Some(table.get("source")?.as_str()?.to_owned());
    let enriched = endpoint.get("enrich").and_then(Value::as_table).and_then(|all| all.values().next());
    let http = endpoint.get("upstream").or(enriched).and_then(source).unwrap_or_else(|| "h".to_owned());
    let database = endpoint.get("source").and_then(Value::as_str).unwrap_or("a");
    let text = format!("[{database}]\nurl = 'postgres://h/d'\n[{http}]\nurl = 'http://127.0.0.1:1'\n");
    let sources = Value::Table(text.parse().unwrap());
    Table::from_iter([("source".to_owned(), sources)])
}

/// The TOML of a `.sql` file.
fn head(sql: &str) -> Table {
    let comment = sql.strip_prefix("/*").and_then(|rest| rest.split_once("*/"));
    comment.map_or_else(Table::new, |(toml, _)| toml.parse().unwrap())
}

/// A statement that uses all parameters.
fn statement(endpoint: &Table) -> String {
    let names = endpoint.get("params").and_then(Value::as_table).into_iter().flat_map(Table::keys);
    let values: String = names.map(|name| format!(", :{name}")).collect();
    format!("select 1 as id{values}")
}

#[test]
fn fragments_of_toml_are_read() {
    let blocks = blocks("toml");
    assert!(blocks.len() > 25, "{}", blocks.len());
    for (place, text) in blocks {
        let digits = "0".repeat(64);
        let text = HASHES
            .iter()
            .fold(text, |text, hash| text.replace(&format!("\"{hash}\""), &format!("\"{digits}\"")));
        let table: Table = text.parse().unwrap_or_else(|error| panic!("{place}: {error}"));
        // The manifest of a client in Rust isn't ours to read.
        if table.contains_key("package") {
            continue;
        }
        let found = match OF_ENDPOINTS.iter().any(|key| table.contains_key(*key)) {
            true if table.contains_key("upstream") => wrong(sources(&table), ("e.toml", &text)),
            true => wrong(sources(&table), ("e.sql", &format!("/*{text}*/ {}", statement(&table)))),
            false => {
                wrong(table.clone(), ("e.sql", &format!("/* source = '{}' */ select 1", database(&table))))
            }
        };
        assert!(found.is_empty(), "{place}: {}\n{text}", found.join("\n"));
    }
}

#[test]
fn fragments_of_sql_are_read() {
    let blocks = blocks("sql");
    assert!(blocks.len() > 15, "{}", blocks.len());
    for (place, text) in blocks {
        let is_of_database = ["create ", "insert ", "alter "].iter().any(|word| text.starts_with(word));
        if is_of_database {
            continue;
        }
        let text = with_body(text);
        let found = wrong(sources(&head(&text)), ("e.sql", &text));
        assert!(found.is_empty(), "{place}: {}\n{text}", found.join("\n"));
    }
}

/// Adds a body with a placeholder for each named statement, if a fragment omits it.
fn with_body(sql: String) -> String {
    let names = sql.lines().filter_map(|line| line.strip_prefix("-- name: "));
    let roots = names.filter(|line| !line.contains(" nested in ")).filter_map(|line| line.split(' ').next());
    let places: Vec<_> = roots.map(|name| format!("{name} = \"${name}\"")).collect();
    match places.is_empty() || sql.starts_with("/*") {
        true => sql,
        false => format!("/* body = {{ {} }} */\n{sql}", places.join(", ")),
    }
}
