//! `rowstream demo`: the worked examples in one folder, with one source and no setup.
//!
//! This module writes the folder and suggests URLs to try. The database is filled and served like
//! that of any other configuration.

use std::path::{Path, PathBuf};
use std::{fs, io};

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::log;

use super::Failure;
use super::serve::{ListenArgs, serve};
use crate::config::Config;
use crate::server::{EndpointOrigin, PreparationTime, ReloadSettings, Roles};

/// Writes a demo (a SQLite database, a configuration, endpoints) and serves it.
#[derive(Debug, clap::Args)]
pub(super) struct DemoArgs {
    /// The folder to write to; files that exist there are kept.
    #[arg(long, value_name = "DIR", default_value = "rowstream-demo")]
    dir: PathBuf,
    /// Reload when the configuration or an endpoint file changes, as on SIGHUP.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    listen: ListenArgs,
}

impl DemoArgs {
    /// The folder of `.env`.
    pub(super) fn folder(&self) -> PathBuf {
        self.dir.clone()
    }
}

pub(super) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let (path, preparing) = (write(&args.dir)?, PreparationTime::Ahead);
    let config = Config::load(&path)?;
    let listen = args.listen.address(&config.listen);
    let (inherited, log) = (Roles::default(), args.listen.log_format);
    let reload = ReloadSettings {
        origin: EndpointOrigin::file(path, &config),
        listen,
        inherited,
        log,
        watch: args.watch,
        preparing,
    };
    serve(config, &args.listen, preparing, Some(reload), |url| log::info!("\n{}", banner(url)))
}

const CONFIG: &str = r#"# Written by `rowstream demo`, and yours to change: it does not overwrite what is here.
listen    = "127.0.0.1:8080"
endpoints = "endpoints"
explain   = true                      # the console shows the SQL and its plan

# Delete demo.db, and the next start makes it again.
[source.demo]
url    = "sqlite:demo.db"
create = ["data/authors.sql", "data/events.sql", "data/films.sql", "data/articles.sql"]

# articles.html is opened from a file, or from wherever you put it.
[cors]
origins = ["*"]
"#;

/// The files below the folder, and their contents.
const FILES: [(&str, &str); 12] = [
    ("rowstream.toml", CONFIG),
    ("data/authors.sql", include_str!("../../examples/authors/data/sqlite.sql")),
    ("data/events.sql", include_str!("../../examples/events/data/sqlite.sql")),
    ("data/films.sql", include_str!("../../examples/films/data/sqlite.sql")),
    ("data/articles.sql", include_str!("../../examples/articles/data/sqlite.sql")),
    ("endpoints/authors.sql", include_str!("../../examples/authors/endpoints/authors.sql")),
    ("endpoints/authors/{id}.sql", include_str!("../../examples/authors/endpoints/authors/{id}.sql")),
    ("endpoints/events.sql", include_str!("../../examples/events/endpoints/events.sql")),
    ("endpoints/films.sql", include_str!("../../examples/films/endpoints/films.sql")),
    ("endpoints/films/{id}.sql", include_str!("../../examples/films/endpoints/films/{id}.sql")),
    ("endpoints/articles.sql", include_str!("../../examples/articles/endpoints/articles.sql")),
    ("articles.html", include_str!("../../examples/articles/page.html")),
];

/// Writes the demo into `dir`, which is created if it doesn't exist, and returns the path of its
/// configuration. Existing files are left unchanged: a user's changes stay, and the data are
/// created only once.
///
/// # Errors
/// A file or folder can't be written.
fn write(dir: &Path) -> Result<PathBuf, Error> {
    for (name, text) in FILES {
        let path = dir.join(name);
        write_new(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(dir.join("rowstream.toml"))
}

/// Writes a file that doesn't exist yet. It only gets its name when it's complete; otherwise a
/// later start would treat a partial file as the user's.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    fs::write(&partial, text)?;
    fs::rename(partial, path)
}

fn failed(path: &Path, error: io::Error) -> Error {
    let message = format!("{} cannot be written: {error}", path.display());
    Error::new("demo_failed", StatusCode::INTERNAL_SERVER_ERROR, message).cause(error)
}

/// Suggestions to try, for a server at `base_url` (`http://127.0.0.1:8080`, without a slash at the
/// end).
fn banner(base_url: &str) -> String {
    // The descriptions are in one column, whatever the URL's length.
    let column = " ".repeat(base_url.len());
    format!(
        "Look at {base_url}/_rowstream/ in a browser: the console runs endpoints, and shows rows as they \
         arrive.
Or try, in another terminal:

  curl -s {base_url}/authors | head -c 500             100,000 authors as a JSON array
  curl -s {base_url}/authors.ndjson | head -n 2        the same, one object a line
  curl {base_url}/authors/4711                         one of them
  curl '{base_url}/events?maxEvents=2'                 two of 1,000,000 payment events
  curl '{base_url}/events?lastEventNo=999998'          the ones after your last one
  curl -N '{base_url}/events.ndjson?lastEventNo=999998&_follow=1'
  {column}                                           the same, and new ones as they are booked
  curl -o /dev/null {base_url}/events                  all of them: watch the server's memory
  curl {base_url}/films/7                              one film, by a lookup
  curl -s {base_url}/articles | tail -c 60             a document around the rows

You can change the files. One of them is a page that fills a table while rows arrive; open it in a browser as
articles.html?url={base_url}/articles
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("rowstream-demo");
        let config = write(&dir).unwrap();
        assert_eq!(fs::read_to_string(&config).unwrap(), CONFIG);
        fs::write(&config, "mine").unwrap();
        fs::remove_file(dir.join("endpoints/films/{id}.sql")).unwrap();
        assert_eq!(write(&dir).unwrap(), config);
        assert_eq!(fs::read_to_string(&config).unwrap(), "mine");
        assert!(dir.join("endpoints/films/{id}.sql").exists());
    }

    /// One description was 22 columns left of the others.
    #[test]
    fn descriptions_are_in_one_column() {
        for url in ["http://h", "http://127.0.0.1:18008"] {
            let banner = banner(url);
            let column = |text: &str| banner.lines().find_map(|line| line.find(text));
            let all =
                ["100,000 authors", "two of", "the same, and new ones", "a document around"].map(column);
            assert!(all[0].is_some() && all.iter().all(|at| *at == all[0]), "{all:?}: {banner}");
        }
    }

    #[test]
    fn every_url_of_the_banner_has_an_endpoint() {
        let banner = banner("http://h");
        let urls =
            banner.split_whitespace().filter_map(|word| word.trim_matches('\'').strip_prefix("http://h/"));
        // The console isn't a file of the demo.
        for url in urls.filter(|url| *url != "_rowstream/") {
            let path = url.split('?').next().unwrap_or_default().trim_end_matches(".ndjson");
            let file = match path.split_once('/') {
                Some((list, _)) => format!("endpoints/{list}/{{id}}.sql"),
                None => format!("endpoints/{path}.sql"),
            };
            assert!(FILES.iter().any(|(name, _)| *name == file), "{url}");
        }
    }
}
