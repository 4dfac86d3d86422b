//! Fills a missing SQLite file from SQL scripts (`create = […]` of a source).
//!
//! We write the file as `FILE.partial` beside its final path, and rename it when it's complete. So
//! FILE is always complete, even if an earlier run was killed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::StatusCode;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rowstream_core::Error;
use rowstream_core::diagnostic::encoding::{EncodingError, read_utf8};
use rowstream_core::log;
use rowstream_core::settings::SourceSettings;
use rusqlite::Connection;

use super::{connection, fault, library};

/// A file of a failed run isn't worth saving, so it needs no journal and doesn't wait for the disk.
const FAST: &str = "pragma journal_mode = off; pragma synchronous = off; pragma locking_mode = exclusive;
    pragma cache_size = -8192; pragma temp_store = memory";

/// Runs the scripts of `create` if the source is a SQLite file that doesn't exist. Returns true if
/// it ran them. Reports progress on stderr: a bar on a terminal, otherwise a line per script.
///
/// # Errors
/// A script can't be read or fails, another process is filling the file, or the file can't be
/// written.
pub(super) fn create_missing(config: &SourceSettings) -> Result<bool, Error> {
    let file = connection::path(&config.url);
    if config.create.is_empty() || !config.url.starts_with("sqlite:") || file.exists() {
        return Ok(false);
    }
    let partial = beside(&file, ".partial");
    let Some(_lock) = lock(&partial, &file)? else { return Ok(false) };
    fill(config, &partial)?;
    put_in_place(&partial, &file).map_err(|error| failed(&file, error))?;
    Ok(true)
}

/// Returns the path of `file` with `suffix` appended.
pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Opens, locks and empties the partial file. Returns `None` if the complete file exists by now.
/// Without the lock, one process could rename a file that another has half filled.
fn lock(partial: &Path, file: &Path) -> Result<Option<File>, Error> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(partial);
    let lock = open.map_err(|error| failed(partial, error))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => being_filled(file),
        TryLockError::Error(error) => failed(partial, error),
    })?;
    // Between our open and our lock, the other process may have renamed the file. We then hold a
    // lock on the complete file.
    if file.exists() {
        return Ok(None);
    }
    lock.set_len(0).and_then(|()| remove_logs(partial)).map_err(|error| failed(partial, error))?;
    Ok(Some(lock))
}

/// Removes SQLite's files beside `file`. SQLite would replay the log of a deleted file into the new
/// one, because a log doesn't identify its file.
fn remove_logs(file: &Path) -> io::Result<()> {
    for suffix in ["-wal", "-shm", "-journal"] {
        match std::fs::remove_file(beside(file, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn fill(config: &SourceSettings, partial: &Path) -> Result<(), Error> {
    let sqlite = |error| fault::of(&config.name, partial, error);
    library::configure();
    let mut connection = Connection::open(partial).map_err(sqlite)?;
    connection.execute_batch(FAST).map_err(sqlite)?;
    for script in &config.create {
        run(&mut connection, script)?;
    }
    // In WAL mode, which the file keeps, readers and a writer don't lock each other out.
    connection
        .execute_batch("pragma locking_mode = normal; pragma optimize = 0x10002; pragma journal_mode = wal")
        .map_err(sqlite)?;
    connection.close().map_err(|(_, error)| sqlite(error))
}

/// Runs one script in one transaction.
fn run(connection: &mut Connection, script: &Path) -> Result<(), Error> {
    let bytes = std::fs::read(script).map_err(|error| failed(script, error))?;
    let sql = read_utf8(bytes).map_err(|error| not_utf8(script, &error))?;
    let begun = Instant::now();
    let progress = Progress::new(script);
    let bar = progress.bar.clone();
    connection
        .update_hook(Some(move |_, _: &str, _: &str, _| bar.inc(1)))
        .and_then(|()| connection.execute_batch("begin"))
        .and_then(|()| connection.execute_batch(&sql))
        .and_then(|()| connection.execute_batch("commit"))
        .map_err(|error| script_failed(script, &sql, &error))?;
    progress.finish(begun.elapsed());
    Ok(())
}

fn put_in_place(partial: &Path, file: &Path) -> io::Result<()> {
    // The rows must reach the disk before the rename does.
    File::open(partial)?.sync_all()?;
    remove_logs(file)?;
    std::fs::rename(partial, file)
}

fn being_filled(file: &Path) -> Error {
    Error::source_unavailable(format!("another process is filling {}", file.display()))
}

fn failed(file: &Path, error: io::Error) -> Error {
    create_failed(format!("{}: {error}", file.display())).cause(error)
}

fn not_utf8(script: &Path, error: &EncodingError) -> Error {
    let script = script.display();
    let message = match error {
        EncodingError::Utf16 => format!("{script}: the file is UTF-16"),
        EncodingError::From(line, column) => {
            format!("{script}:{line}:{column}: the file is not UTF-8 from here on")
        }
    };
    create_failed(message).hint("save it as UTF-8")
}

fn script_failed(script: &Path, sql: &str, error: &rusqlite::Error) -> Error {
    match (line(sql, error), error) {
        (Some(line), rusqlite::Error::SqlInputError { msg, .. }) => {
            create_failed(format!("{}:{line}: {msg}", script.display()))
        }
        _ => create_failed(format!("{}: {error}", script.display())),
    }
}

/// The line of an error. SQLite reports an offset in the rest of the script, which is a suffix of
/// it.
fn line(script: &str, error: &rusqlite::Error) -> Option<usize> {
    let rusqlite::Error::SqlInputError { sql, offset, .. } = error else { return None };
    let rest = script.len().checked_sub(sql.len())?;
    let before = script.get(..rest + usize::try_from(*offset).ok()?)?;
    Some(before.matches('\n').count() + 1)
}

fn create_failed(message: String) -> Error {
    Error::new("create_failed", StatusCode::INTERNAL_SERVER_ERROR, message)
}

/// The progress of one script on stderr.
struct Progress {
    bar: ProgressBar,
    script: String,
}

impl Progress {
    fn new(script: &Path) -> Self {
        let script = script.display().to_string();
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {msg}: {human_pos} rows, {per_sec}");
        bar.set_style(style.expect("the template is a constant"));
        bar.set_message(script.clone());
        if io::stderr().is_terminal() {
            bar.enable_steady_tick(Duration::from_millis(100));
        } else {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        Self { bar, script }
    }

    /// Replaces the bar by one line.
    fn finish(self, took: Duration) {
        let rows = HumanCount(self.bar.position());
        self.bar.finish_and_clear();
        log::info!("{}: {rows} rows in {:.1} s", self.script, took.as_secs_f64());
    }
}
