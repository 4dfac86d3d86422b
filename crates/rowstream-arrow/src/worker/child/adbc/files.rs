//! Notices files that change while a driver reads them, for example DuckDB's Parquet and CSV files.
//!
//! DuckDB reads a file piece by piece. If another program rewrites it meanwhile, the rows mix old
//! and new bytes, but the result still looks complete. We can't ask a driver for its files, so we
//! check those that this process has open for reading only: after a statement is prepared, at its
//! end, and every [`INTERVAL`] in between, because the statement's own thread may wait for a slow
//! client.
//!
//! A replaced file (`mv new old`) keeps its bytes, and the driver continues to read it.
//!
//! We don't know which statement reads a file, so a change ends all running statements. We don't
//! notice a file that is opened and closed between two checks, or a change that keeps the length
//! and the time.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread;
use std::time::{Duration, SystemTime};

use rowstream_core::lock::{Condvar, Mutex};
use rowstream_database::blocking::FileId;

use super::super::super::frame::{Failed, Fault};

/// How often we check the files while a statement runs. A check needs some 0.1 ms.
const INTERVAL: Duration = Duration::from_millis(50);

/// The files of this process.
static FILES: Files = Files { state: Mutex::new(State::new()), begun: Condvar::new() };

struct Files {
    state: Mutex<State>,
    /// Notified when a statement begins and none runs.
    begun: Condvar,
}

struct State {
    /// The number of running statements.
    statements: usize,
    /// The files that were open at the last check.
    open: Option<HashMap<FileId, OpenFile>>,
    /// The number of changes so far, and the file that changed last.
    changes: u64,
    changed: PathBuf,
}

struct OpenFile {
    path: PathBuf,
    stamp: Stamp,
}

/// The state of a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

/// A statement that reads files. Dropping it ends the checks for it.
pub(super) struct FileStatement {
    since: SystemTime,
    /// The number of changes before it.
    changes: u64,
}

impl FileStatement {
    /// Begins a statement that isn't prepared yet.
    pub(super) fn begin() -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| drop(thread::Builder::new().name("files".to_owned()).spawn(watch)));
        let mut state = FILES.state.lock();
        match state.statements {
            0 => state.open = None,
            // Changes before this moment don't affect this statement.
            _ => state.look(),
        }
        state.statements += 1;
        FILES.begun.notify_one();
        Self { since: SystemTime::now(), changes: state.changes }
    }

    /// Checks the files that were opened when the statement was prepared.
    ///
    /// # Errors
    /// One of them has changed since the statement began.
    pub(super) fn is_prepared(&self) -> Result<(), Failed> {
        let mut state = FILES.state.lock();
        state.look();
        let mut open = state.open.iter().flat_map(HashMap::values);
        // A time in the future is from another clock, so we ignore it.
        let now = SystemTime::now();
        let is_new = |modified| self.since < modified && modified <= now;
        match open.find(|file| file.stamp.modified.is_some_and(is_new)) {
            Some(file) => Err(changed(&file.path)),
            None => self.check(&state),
        }
    }

    /// Returns true if the process has files open for reading only. Remote drivers have none.
    pub(super) fn has_files(&self) -> bool {
        FILES.state.lock().open.as_ref().is_some_and(|open| !open.is_empty())
    }

    /// Checks for changes that were already noticed.
    pub(super) fn go_on(&self) -> Result<(), Failed> {
        self.check(&FILES.state.lock())
    }

    /// Checks the files once more.
    pub(super) fn end(&self) -> Result<(), Failed> {
        let mut state = FILES.state.lock();
        state.look();
        self.check(&state)
    }

    fn check(&self, state: &State) -> Result<(), Failed> {
        if state.changes == self.changes { Ok(()) } else { Err(changed(&state.changed)) }
    }
}

impl Drop for FileStatement {
    fn drop(&mut self) {
        FILES.state.lock().statements -= 1;
    }
}

/// Checks the files while statements run, until the process ends.
fn watch() {
    loop {
        FILES.begun.wait_while(FILES.state.lock(), |state| state.statements == 0).look();
        thread::sleep(INTERVAL);
    }
}

impl State {
    const fn new() -> Self {
        Self { statements: 0, open: None, changes: 0, changed: PathBuf::new() }
    }

    /// Compares the files that were open with those that are open now.
    fn look(&mut self) {
        let open = open_files();
        for (id, before) in self.open.take().into_iter().flatten() {
            let now = match open.get(&id) {
                Some(file) => Some(file.stamp),
                // It was closed. If its path now has another file, it was replaced.
                None => file_at(&before.path).and_then(|(found, stamp)| (found == id).then_some(stamp)),
            };
            if now.is_some_and(|now| now != before.stamp) {
                self.changes += 1;
                self.changed = before.path;
            }
        }
        self.open = Some(open);
    }
}

/// Returns the regular files that this process has open for reading only. Files that a driver
/// writes, for example temporary ones, are its own.
fn open_files() -> HashMap<FileId, OpenFile> {
    let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    descriptors.filter_map(|descriptor| open_file(&descriptor.path())).collect()
}

/// Returns the file of a descriptor. It may be closed by now.
fn open_file(descriptor: &Path) -> Option<(FileId, OpenFile)> {
    const WRITABLE: u32 = 0o200;
    if fs::symlink_metadata(descriptor).ok()?.permissions().mode() & WRITABLE != 0 {
        return None;
    }
    let path = fs::read_link(descriptor).ok()?;
    // Their times are always the current time.
    if path.starts_with("/proc") || path.starts_with("/sys") {
        return None;
    }
    let (id, stamp) = file_at(descriptor)?;
    Some((id, OpenFile { path, stamp }))
}

fn file_at(path: &Path) -> Option<(FileId, Stamp)> {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let stamp = Stamp { length: file.len(), modified: file.modified().ok() };
    Some(((file.dev(), file.ino()), stamp))
}

fn changed(path: &Path) -> Failed {
    let message = format!("{} changed while it was read", path.display());
    Failed { fault: Fault::Changed, message, sqlstate: None }
}
