//! Notices files that change while a driver reads them, such as DuckDB's Parquet and CSV files.
//!
//! DuckDB reads a file piece by piece. If another program rewrites it meanwhile, the rows are of the old
//! and of the new bytes, and end like a whole result. We can't ask a driver for its files, so we look at
//! those that this process has open for reading only: after a statement is prepared, at its end, and
//! every [`INTERVAL`] in between, because the statement's own thread may wait for a slow client.
//!
//! A file that is replaced (`mv new old`) keeps its bytes, and the driver reads on from it.
//!
//! It doesn't know which statement reads a file: one that changes ends all that run. It doesn't notice a
//! file that is opened and closed between two looks, or one that changes without a new length or time.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread;
use std::time::{Duration, SystemTime};

use super::super::super::frame::{Failed, Fault};
use crate::database::blocking::FileId;
use rowstream_core::lock::{Condvar, Mutex};

/// How often the files are looked at while a statement runs. A look takes some 0.1 ms.
const INTERVAL: Duration = Duration::from_millis(50);

/// The files of this process.
static FILES: Files = Files { state: Mutex::new(State::new()), begun: Condvar::new() };

struct Files {
    state: Mutex<State>,
    /// Notified when a statement begins and none runs.
    begun: Condvar,
}

struct State {
    /// How many statements run.
    statements: usize,
    /// The files that were open at the last look.
    open: Option<HashMap<FileId, OpenFile>>,
    /// How many changes were seen, and the last file that changed.
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

/// A statement that reads files, until it's dropped.
pub(super) struct Reading {
    since: SystemTime,
    /// How many changes were seen before.
    changes: u64,
}

impl Reading {
    /// A statement that isn't prepared yet.
    pub(super) fn begin() -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| drop(thread::Builder::new().name("files".to_owned()).spawn(watch)));
        let mut state = FILES.state.lock();
        match state.statements {
            0 => state.open = None,
            // Changes before this moment aren't of this statement.
            _ => state.look(),
        }
        state.statements += 1;
        FILES.begun.notify_one();
        Self { since: SystemTime::now(), changes: state.changes }
    }

    /// Looks at the files that were opened when the statement was prepared.
    ///
    /// # Errors
    /// One of them has changed since it began.
    pub(super) fn is_prepared(&self) -> Result<(), Failed> {
        let mut state = FILES.state.lock();
        state.look();
        let mut open = state.open.iter().flat_map(HashMap::values);
        // A time in the future is that of another clock, and says nothing.
        let now = SystemTime::now();
        let is_new = |modified| self.since < modified && modified <= now;
        match open.find(|file| file.stamp.modified.is_some_and(is_new)) {
            Some(file) => Err(changed(&file.path)),
            None => self.check(&state),
        }
    }

    /// True if the process has such files open. Remote drivers have none.
    pub(super) fn has_files(&self) -> bool {
        FILES.state.lock().open.as_ref().is_some_and(|open| !open.is_empty())
    }

    /// Checks the changes that were seen until now.
    ///
    /// # Errors
    /// A file has changed.
    pub(super) fn go_on(&self) -> Result<(), Failed> {
        self.check(&FILES.state.lock())
    }

    /// Looks at the files once more.
    ///
    /// # Errors
    /// A file has changed.
    pub(super) fn end(&self) -> Result<(), Failed> {
        let mut state = FILES.state.lock();
        state.look();
        self.check(&state)
    }

    fn check(&self, state: &State) -> Result<(), Failed> {
        if state.changes == self.changes { Ok(()) } else { Err(changed(&state.changed)) }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        FILES.state.lock().statements -= 1;
    }
}

/// Looks at the files while statements run, to the end of the process.
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

    /// Compares the files that were open with those that are.
    fn look(&mut self) {
        let open = open_files();
        for (id, before) in self.open.take().into_iter().flatten() {
            let now = match open.get(&id) {
                Some(file) => Some(file.stamp),
                // It was closed. If its name is another file's, it was replaced.
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

/// The regular files that this process has open for reading only. Those that a driver writes are its own,
/// such as temporary files.
fn open_files() -> HashMap<FileId, OpenFile> {
    let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    descriptors.filter_map(|descriptor| open_file(&descriptor.path())).collect()
}

/// The file of a descriptor, which may be closed by now.
fn open_file(descriptor: &Path) -> Option<(FileId, OpenFile)> {
    const WRITABLE: u32 = 0o200;
    if fs::symlink_metadata(descriptor).ok()?.permissions().mode() & WRITABLE != 0 {
        return None;
    }
    let path = fs::read_link(descriptor).ok()?;
    // Their times are those of the look.
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
