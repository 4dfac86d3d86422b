//! `rowstream init`: writes a configuration and endpoints that work, as a start.
//!
//! It never overwrites a file. If one of the files exists, it writes none.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rowstream_core::diagnostic::{did_you_mean, shown};
use rowstream_core::sql::dialect::Location;

use super::{Failure, csv, schema, tables};
use crate::config::Config;
use crate::database::is_csv;
use crate::source::{SourceConfig, SourceKind};
use crate::tables::{self as catalog, Table};

/// Writes a configuration with working endpoints.
#[derive(Debug, clap::Args)]
pub(super) struct InitArgs {
    /// The URL of a database, or the path of a SQLite file; or of a CSV or TSV file, from which a
    /// SQLite file is made beside it [default: a small example].
    #[arg(value_name = "URL|FILE")]
    given: Option<String>,
    /// Write the endpoints of all tables and views that `rowstream serve URL` shows, instead of one
    /// table's.
    #[arg(long, requires = "given", conflicts_with = "table")]
    all: bool,
    /// Write the endpoints of this table or view. May be repeated.
    #[arg(long, value_name = "NAME", requires = "given")]
    table: Vec<String>,
    /// The folder to write to.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// The configuration's file name.
const CONFIG: &str = "rowstream.toml";
/// The schema, which editors use to complete the configuration.
const SCHEMA: &str = "rowstream.schema.json";
/// The variable for a URL that mustn't be in a file.
const VARIABLE: &str = "DATABASE_URL";

/// The hint for a database without a table.
const EXAMPLE: &str = "begin with the example: `rowstream init` without a database";

/// The data of the example.
const DATA: &str = "\
create table book (
  id     integer primary key,
  title  text not null,
  author text not null
);

insert into book values
  (1, 'Frankenstein', 'Mary Shelley'),
  (2, 'Middlemarch', 'George Eliot'),
  (3, 'The Awakening', 'Kate Chopin');
";

const LIST: &str = "\
/*
summary = \"All books, or those of an author\"
key     = [\"id\"]
[params]
author = { type = \"text\", optional = true }
limit  = { type = \"integer\", optional = true, min = 0, summary = \"how many rows at most\" }
*/
select id, title, author
from book
where :author is null or author = :author
order by id
limit :limit
";

const ONE: &str = "\
/*
summary = \"One book\"
result  = \"one\"
[params]
id = \"integer\"
*/
select id, title, author
from book
where id = :id
";

/// The files to write, and the steps before they can be served.
struct Plan {
    /// Paths below the folder, and contents.
    files: Vec<(PathBuf, String)>,
    first: Option<String>,
    /// The number of tables that weren't asked for by name, and aren't written.
    others: usize,
}

pub(super) fn run(args: &InitArgs) -> Result<(), Failure> {
    let plan = match &args.given {
        None => example(),
        Some(given) if is_csv(given) && Path::new(given).is_file() => {
            // Checked before the database is created.
            refuse_existing(&args.dir, Path::new(CONFIG))?;
            of_database(&csv::database(Path::new(given))?.to_string_lossy(), args)?
        }
        Some(given) => of_database(given, args)?,
    };
    write(&args.dir, &plan.files)?;
    for (path, _) in &plan.files {
        println!("{}", args.dir.join(path).display());
    }
    let dir = args.dir.to_string_lossy();
    let place = if dir == "." { String::new() } else { format!(" {}", shell_word(&dir)) };
    let first = plan.first.map(|first| format!("  {first}\n")).unwrap_or_default();
    if plan.others > 0 {
        eprintln!(
            "\n{} more tables and views: `--all` writes them too, and `--table NAME` those that you name, into \
             a new folder",
            plan.others
        );
    }
    eprintln!(
        "\nNext:\n{first}  rowstream check{place}                  checks the files and the database\n  \
         rowstream serve{place} --watch --open   serves them, and reloads your changes"
    );
    Ok(())
}

/// A path, quoted for a shell.
pub(super) fn shell_word(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

fn example() -> Plan {
    let source = "# The file is made by the script at the first start.\nurl    = \"sqlite:shop.db\"\ncreate = [\"data.sql\"]\n";
    let files = [
        (CONFIG, configuration(source)),
        (SCHEMA, schema::config()),
        ("data.sql", DATA.to_owned()),
        ("endpoints/books.sql", LIST.to_owned()),
        ("endpoints/books/{id}.sql", ONE.to_owned()),
    ];
    Plan { files: files.map(|(path, text)| (path.into(), text)).into(), first: None, others: 0 }
}

/// The endpoints of the chosen tables.
fn of_database(given: &str, args: &InitArgs) -> Result<Plan, Failure> {
    let source = Config::database(given)?;
    let tables = tables::read(&source)?;
    let chosen = chosen(&tables, args)?;
    let others = if args.table.is_empty() { tables.len() - chosen.len() } else { 0 };
    let endpoints = tables::accepted(&source, catalog::endpoints_of(&tables, &chosen))?;
    let (url, first) = url(&source, &args.dir)?;
    let configuration = configuration(&format!("url = {url}\n"));
    let mut files = vec![(PathBuf::from(CONFIG), configuration), (PathBuf::from(SCHEMA), schema::config())];
    files.extend(endpoints.into_iter().map(|file| (Path::new("endpoints").join(file.path), file.text)));
    Ok(Plan { files, first, others })
}

/// The tables that the arguments choose. By default it's the first one with a key, or else the first
/// one.
fn chosen<'a>(tables: &'a [Table], args: &InitArgs) -> Result<Vec<&'a Table>, Failure> {
    let first = tables.iter().find(|table| !table.key().is_empty()).or(tables.first());
    let first = first.ok_or_else(|| catalog::none_served(EXAMPLE))?;
    if args.all {
        return Ok(tables.iter().collect());
    }
    if args.table.is_empty() {
        return Ok(vec![first]);
    }
    let names = || tables.iter().map(|table| table.name.as_str());
    if let Some(unknown) = args.table.iter().find(|name| !names().any(|known| known == *name)) {
        let hint = did_you_mean(unknown, names());
        let hint = hint
            .map_or("`--all` writes all of them".to_owned(), |near| format!("did you mean {}?", shown(near)));
        let message = format!("there's no table or view {} to serve\n    hint: {hint}", shown(unknown));
        return Err(Failure::Message(message));
    }
    Ok(tables.iter().filter(|table| args.table.contains(&table.name)).collect())
}

/// The URL for the configuration, and the step that must be done before. The URL is a variable if
/// it may contain a password, or text that would be read as a variable.
fn url(source: &SourceConfig, dir: &Path) -> Result<(String, Option<String>), Failure> {
    let location = match source.kind {
        SourceKind::Sql(database) => database.dialect().urls.location,
        SourceKind::Http(_) => Location::Server,
    };
    let (scheme, file) = source.url.split_once(':').unwrap_or_default();
    let path = match location {
        Location::File if dir == Path::new(".") => PathBuf::from(file),
        Location::File => fs::canonicalize(file)?,
        Location::Server | Location::Driver { .. } | Location::ConnectionString => PathBuf::new(),
    };
    let url = format!("{scheme}:{}", path.display());
    if location == Location::File && !url.contains("${") {
        return Ok((serde_json::Value::from(url).to_string(), None));
    }
    let first = format!("export {VARIABLE}='…'          the URL that you gave; or put it into the file .env");
    Ok((format!("\"${{{VARIABLE}}}\""), Some(first)))
}

fn configuration(source: &str) -> String {
    format!(
        "#:schema {SCHEMA}\n\
         # Written by `rowstream init`; change it as you like. `rowstream check` finds mistakes in it.\n\
         listen    = \"{}\"   # only this machine; \":8080\" is all its addresses\n\
         endpoints = \"endpoints\"        # endpoints/books/{{id}}.sql answers at /books/{{id}}\n\
         # max_streams = 1024            # more get 503\n\
         # memory = \"512MB\"              # the server's limit, with all streams\n\
         # authorization = [\"reader\"]    # `rowstream token reader` makes a token and its hash\n\
         \n[source.main]\n{source}\
         # pool = {{ max = 20, waiting = 100, acquire_timeout = \"5s\" }}\n",
        Config::LISTEN
    )
}

fn refuse_existing(dir: &Path, path: &Path) -> Result<(), Failure> {
    let path = dir.join(path);
    // A path that is too long is an error here, before the first file is written.
    if !path.try_exists().map_err(|error| unwritten(&path, &error))? {
        return Ok(());
    }
    let hint = "choose another folder: `--dir DIR`";
    Err(Failure::Message(format!(
        "{} already exists, so nothing was written\n    hint: {hint}",
        path.display()
    )))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let hint = "choose another folder: `--dir DIR`";
    Failure::Message(format!("{} cannot be written: {error}\n    hint: {hint}", path.display()))
}

/// Writes the files, unless one of them exists.
fn write(dir: &Path, files: &[(PathBuf, String)]) -> Result<(), Failure> {
    for (path, _) in files {
        refuse_existing(dir, path)?;
    }
    for (path, text) in files {
        let path = dir.join(path);
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        // A file that was created in the meantime stays unchanged.
        let written = folder.and_then(|()| File::create_new(&path)?.write_all(text.as_bytes()));
        written.map_err(|error| unwritten(&path, &error))?;
    }
    Ok(())
}
