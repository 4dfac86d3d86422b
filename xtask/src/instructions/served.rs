//! A lookup through the whole server, from the bytes of its request to those of its response. The
//! release build serves the films of the example under callgrind, and gets requests for one film
//! after another on one connection. The database doesn't distort the count: it's either another
//! process or inside ours, with the same cost each time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use super::{Count, Profile};
use crate::postgres::{self, Postgres, START_TIMEOUT, STOP_TIMEOUT};
use crate::test::{cargo, workspace};
use crate::{Result, needs, target_folder};

/// The requests of the two runs. The first requests open connections and prepare statements.
const REQUESTS: [u32; 2] = [1000, 4000];
/// Access log lines would be most of the remaining cost.
const QUIET: &str = "\n[log]\naccess = false\n";

/// The files in which the SQL of a table is compared with the table itself.
const FILES: [(&str, &str); 2] = [
    ("film/{fid}.sql", "/*\nresult = \"one\"\n[params]\nfid = \"integer\"\n*/\n"),
    ("by.sql", "/*\n[params]\nfid = \"integer\"\n*/\n"),
];
/// The statement of those files, and of the table's endpoints.
const STATEMENT: &str =
    "select fid, title, year, minutes, rating, language, released from film where fid = :fid";

/// The endpoints of a counted server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// The example, without an access log.
    Example,
    /// [`FILES`].
    Files,
    /// The tables of the database, without any file.
    Tables,
}

/// The requests of a database in another process: their name, the content, and the path.
const CASES: [(&str, Content, &str); 5] = [
    ("lookup: PostgreSQL", Content::Example, "films/{1-1000}"),
    ("film: lookup, SQL in a file", Content::Files, "film/{1-1000}"),
    ("film: lookup, table", Content::Tables, "film/{1-1000}"),
    ("film: list, SQL in a file", Content::Files, "by?fid={1-1000}"),
    ("film: list, filter of a table", Content::Tables, "film?fid=eq.{1-1000}"),
];

/// Counts lookups of each database, and requests of a table with and without files.
pub(super) fn count_all() -> Result<Vec<(&'static str, Count)>> {
    needs::run(cargo().args(["build", "--quiet", "--release", "--locked"]))?;
    let target = target_folder()?;
    let postgres = Postgres::start(&target)?;
    postgres.psql(&read(&workspace().join("examples/films/data/postgres.sql"))?)?;
    let [(_, url), ..] = postgres.environment();
    let own = ("lookup: SQLite", count(&target, Content::Example, None, "films/{1-1000}")?);
    let counted = CASES.iter().map(|(name, content, path)| {
        let count = count(&target, *content, Some(&url), path)?;
        Ok((*name, count))
    });
    counted.chain([Ok(own)]).collect()
}

/// Counts a request of the database at `url`, or of the example's own database.
fn count(target: &Path, content: Content, url: Option<&str>, path: &str) -> Result<Count> {
    let run = |requests| Served::start(target, content, url)?.ask(path, requests);
    let [few, many] = REQUESTS.map(run);
    Ok(Count::between(&few?, &many?, REQUESTS[1] - REQUESTS[0]))
}

/// A server under callgrind. Dropping it ends it.
struct Served {
    program: PathBuf,
    folder: PathBuf,
    child: Child,
}

impl Served {
    fn start(target: &Path, content: Content, url: Option<&str>) -> Result<Self> {
        let folder = target.join("instructions");
        prepare(&folder, content)?;
        let (said, program) = (folder.join("said"), target.join("release/rowstream"));
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--tool=callgrind", "--callgrind-out-file=profile"]).arg(&program);
        command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(&folder).env_remove("FILMS_URL");
        match content {
            Content::Tables => command.args(url),
            Content::Example | Content::Files => command.envs(url.map(|url| ("FILMS_URL", url))),
        };
        let file = || File::create(&said).and_then(|file| Ok((file.try_clone()?, file)));
        let (stdout, stderr) = file().map_err(|error| format!("{}: {error}", said.display()))?;
        let child = command.stdout(stdout).stderr(stderr).spawn();
        let child =
            child.map_err(|error| format!("cannot run valgrind, of the package valgrind: {error}"))?;
        Ok(Self { program, folder, child })
    }

    /// Requests this many times a path with a random film, then ends the server.
    fn ask(mut self, path: &str, requests: u32) -> Result<Profile> {
        let films = format!("{}/{path}", self.address()?);
        let mut asking = Command::new(&self.program);
        asking.args(["bench", "-c", "1", "-n", &requests.to_string(), &films]);
        let asked = asking.output().map_err(|error| format!("cannot ask for films: {error}"))?;
        if !asked.status.success() {
            return Err(format!("films failed: {}", String::from_utf8_lossy(&asked.stderr)));
        }
        postgres::signal(self.child.id(), "TERM");
        if !postgres::ends_within(&mut self.child, STOP_TIMEOUT) {
            return Err(format!("the server does not stop:\n{}", self.said()));
        }
        Profile::read(&read(&self.folder.join("profile"))?, &self.program)
    }

    /// Waits until it listens, and returns its address.
    fn address(&mut self) -> Result<String> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let said = self.said();
            let listens = said.lines().find_map(|line| line.strip_prefix("listening on "));
            if let Some(address) = listens {
                return Ok(address.to_owned());
            }
            if Instant::now() > deadline || self.child.try_wait().ok().flatten().is_some() {
                return Err(format!("the server does not start:\n{said}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.join("said")).unwrap_or_default()
    }
}

/// Writes the files of a server into an empty folder.
fn prepare(folder: &Path, content: Content) -> Result<()> {
    let _ = fs::remove_dir_all(folder);
    needs::run(Command::new("cp").arg("-r").arg(workspace().join("examples/films")).arg(folder))?;
    let config = folder.join("rowstream.toml");
    match content {
        Content::Example => write(&config, &(read(&config)? + QUIET)),
        Content::Files => FILES.iter().try_for_each(|(path, header)| {
            let file = folder.join("endpoints").join(path);
            let _ = fs::create_dir_all(file.parent().unwrap_or(folder));
            write(&file, &format!("{header}{STATEMENT}"))
        }),
        Content::Tables => Ok(()),
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
