//! Fills a SQLite file that does not exist yet from SQL scripts (`create = […]` of a source).
//!
//! The file is made beside its place, as `FILE.partial`, and renamed when it is whole: whoever
//! finds FILE finds all of it, also when a run before was killed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::StatusCode;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rusqlite::Connection;

use super::{connection, fault, library};
use rowstream_core::Error;
use rowstream_core::diagnostic::encoding::{NotUtf8, read_utf8};
use rowstream_core::log;
use rowstream_core::settings::SourceSettings;

/// Nothing of the file is worth saving when a run fails, so it has no journal and waits for no
/// disk.
const FAST: &str = "pragma journal_mode = off; pragma synchronous = off; pragma locking_mode = exclusive;
    pragma cache_size = -8192; pragma temp_store = memory";

/// Runs the scripts of `create` when the source is a SQLite file that does not exist. Whether it
/// did. Tells what it does on stderr: a bar on a terminal, a line per script elsewhere.
///
/// # Errors
/// A script cannot be read or fails, another process fills the file at this moment, or the file
/// cannot be written.
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

/// The file beside `file` whose name has this at its end.
pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// The partial file, locked and empty; `None` when the whole file is there by now. Without the
/// lock, of two processes one could rename what the other has half filled.
fn lock(partial: &Path, file: &Path) -> Result<Option<File>, Error> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(partial);
    let lock = open.map_err(|error| failed(partial, error))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => being_filled(file),
        TryLockError::Error(error) => failed(partial, error),
    })?;
    // Between our open and our lock the other may have renamed it: what is locked then is the whole
    // file.
    if file.exists() {
        return Ok(None);
    }
    lock.set_len(0).and_then(|()| remove_logs(partial)).map_err(|error| failed(partial, error))?;
    Ok(Some(lock))
}

/// Removes what SQLite keeps beside `file`. The log of a file that was deleted would be played into
/// the new one: it does not know whose it is.
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
    // Readers and a writer do not lock each other out in this mode, which the file keeps.
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
    // The rename must not reach the disk before the rows do.
    File::open(partial)?.sync_all()?;
    remove_logs(file)?;
    std::fs::rename(partial, file)
}

fn being_filled(file: &Path) -> Error {
    Error::source_unavailable(format!("another process fills {} at this moment", file.display()))
}

fn failed(file: &Path, error: io::Error) -> Error {
    create_failed(format!("{}: {error}", file.display())).cause(error)
}

fn not_utf8(script: &Path, error: &NotUtf8) -> Error {
    let script = script.display();
    let message = match error {
        NotUtf8::Utf16 => format!("{script}: the file is UTF-16"),
        NotUtf8::From(line, column) => {
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

/// The line of a fault: SQLite names a place in what was left of the script, which is its end.
fn line(script: &str, error: &rusqlite::Error) -> Option<usize> {
    let rusqlite::Error::SqlInputError { sql, offset, .. } = error else { return None };
    let rest = script.len().checked_sub(sql.len())?;
    let before = script.get(..rest + usize::try_from(*offset).ok()?)?;
    Some(before.matches('\n').count() + 1)
}

fn create_failed(message: String) -> Error {
    Error::new("create_failed", StatusCode::INTERNAL_SERVER_ERROR, message)
}

/// What is seen of one script while it runs.
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

    /// One line that stays.
    fn finish(self, took: Duration) {
        let rows = HumanCount(self.bar.position());
        self.bar.finish_and_clear();
        log::info!("{}: {rows} rows in {:.1} s", self.script, took.as_secs_f64());
    }
}
