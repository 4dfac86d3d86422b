//! Starts, restarts and ends the driver process of a source.
//!
//! The process is this program, run as `rowstream worker`. Its standard output is the socket that
//! it listens on, in a folder that other users can't enter. Its standard input is a pipe without
//! data. When the server ends, even if it's killed, the pipe closes, and the driver process ends
//! too, and removes the folder. If both were killed, the folder remains until the next process of this
//! user starts.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rowstream_core::Error;
use rowstream_core::lock::Mutex;
use tempfile::TempDir;

/// A process that has lived this long ends by chance, not because it can't work.
const HEALTHY: Duration = Duration::from_secs(30);
/// The pause before the third start of a process.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause, after many starts.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause that a request waits for. With a longer one it is refused.
const WAITED: Duration = Duration::from_secs(1);
/// How long we wait for the exit of a process that has closed its sockets.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The names of the folders with sockets begin with it.
const PREFIX: &str = "rowstream-worker-";
/// The socket in its folder.
const SOCKET: &str = "socket";
/// A folder that is as old as this has had a process.
const STARTED: Duration = Duration::from_secs(60);

/// The driver process of a source.
pub(super) struct Process {
    source: String,
    /// The memory that it can allocate, in bytes.
    memory: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<RunningProcess>,
    /// How many processes in a row have ended early. A process that lived long resets it to 1.
    failures: u32,
    /// When the next process may be started.
    not_before: Option<Instant>,
    /// The exit status of the last process.
    last: Option<ExitStatus>,
}

/// A running process. Dropping it kills the process.
struct RunningProcess {
    child: Child,
    since: Instant,
    folder: TempDir,
}

impl RunningProcess {
    fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // It may have ended by itself. We always wait for it, so that no zombie is left.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub(super) fn new(source: &str, memory: usize) -> Self {
        Self { source: source.to_owned(), memory, state: Mutex::default() }
    }

    /// Connects to the process, and starts it if necessary. Waits a little if the last one has just
    /// ended.
    ///
    /// # Errors
    /// 503: it can't be started, or the pause before the next start is too long.
    pub(super) fn connect(&self) -> Result<UnixStream, Error> {
        loop {
            let mut state = self.state.lock();
            state.reap();
            let Some(pause) = state.pause() else {
                return self.reach(&mut state);
            };
            if pause > WAITED {
                return Err(self.ended(state.last).retry_after(pause));
            }
            drop(state);
            std::thread::sleep(pause);
        }
    }

    fn reach(&self, state: &mut State) -> Result<UnixStream, Error> {
        let running = match &mut state.running {
            Some(running) => running,
            none => none.insert(start(self.memory).map_err(|error| self.failed("cannot be started", error))?),
        };
        UnixStream::connect(running.socket()).map_err(|error| self.failed("does not answer", error))
    }

    /// Kills the process, with all its statements.
    pub(super) fn kill(&self) {
        let mut state = self.state.lock();
        if let Some(running) = &mut state.running {
            let _ = running.child.kill();
        }
        state.reap_within(LAST_WORDS);
    }

    /// Returns the error for a connection that the process has closed.
    pub(super) fn closed(&self) -> Error {
        let mut state = self.state.lock();
        state.reap_within(LAST_WORDS);
        let status = state.last.filter(|_| state.running.is_none());
        self.ended(status)
    }

    fn ended(&self, status: Option<ExitStatus>) -> Error {
        let how = status.map_or_else(|| "it closed a connection".to_owned(), |status| status.to_string());
        Error::source_unavailable(format!("the worker of source `{}` has ended", self.source))
            .hint("its driver crashed the process, or needed more than `worker_memory`; see its output on standard error")
            .cause(how)
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        Error::source_unavailable(format!("the worker of source `{}` {what}", self.source)).cause(error)
    }
}

impl State {
    /// The remaining pause before the next start, if no process runs.
    fn pause(&self) -> Option<Duration> {
        let pause = self.not_before?.saturating_duration_since(Instant::now());
        (self.running.is_none() && !pause.is_zero()).then_some(pause)
    }

    /// Records the end of the process.
    fn reap(&mut self) {
        let Some(running) = &mut self.running else { return };
        let Ok(Some(status)) = running.child.try_wait() else { return };
        self.last = Some(status);
        self.failures = if running.since.elapsed() >= HEALTHY { 1 } else { self.failures + 1 };
        // The first restart is immediate, so that the next request is served.
        self.not_before = self
            .failures
            .checked_sub(2)
            .map(|times| Instant::now() + FIRST_PAUSE.saturating_mul(1 << times.min(10)).min(LONGEST_PAUSE));
        self.running = None;
    }

    /// Like [`State::reap`], for a process that is about to end.
    fn reap_within(&mut self, time: Duration) {
        let until = Instant::now() + time;
        self.reap();
        while self.running.is_some() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            self.reap();
        }
    }
}

fn start(memory: usize) -> io::Result<RunningProcess> {
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
    remove_abandoned(folder.path());
    let listener = UnixListener::bind(folder.path().join(SOCKET))?;
    let child = Command::new(std::env::current_exe()?)
        .arg("worker")
        .arg(memory.to_string())
        // Drivers use it for the time zone of their sessions.
        .env("TZ", "UTC")
        .env("PGTZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(OwnedFd::from(listener))
        // Ctrl-C on a terminal reaches only the server, which ends its streams before the driver
        // process.
        .process_group(0)
        .spawn()?;
    Ok(RunningProcess { child, since: Instant::now(), folder })
}

/// Removes the other folders of this user whose processes are gone, next to the folder `own`.
fn remove_abandoned(own: &Path) {
    let (Some(parent), Ok(about)) = (own.parent(), fs::symlink_metadata(own)) else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_named = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if is_named && is_abandoned(&entry.path(), about.uid()) {
            remove_folder(&entry.path().join(SOCKET));
        }
    }
}

/// True if a folder of `user` has a socket without a process, or none: then its server ended before it
/// could make one.
fn is_abandoned(folder: &Path, user: u32) -> bool {
    let Ok(about) = fs::symlink_metadata(folder) else { return false };
    let age = about.modified().ok().and_then(|begun| begun.elapsed().ok());
    about.is_dir()
        && about.uid() == user
        && age.is_some_and(|age| age >= STARTED)
        && UnixStream::connect(folder.join(SOCKET)).is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
        })
}

/// Removes a socket and its folder. Another process may remove them at the same time.
pub(super) fn remove_folder(socket: &Path) {
    let _ = fs::remove_file(socket);
    let _ = socket.parent().map(fs::remove_dir);
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    /// If a driver process and its server were killed, their folder remained for ever.
    #[test]
    fn folders_without_a_process_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str, age: Duration| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            let listener = UnixListener::bind(path.join(SOCKET)).unwrap();
            fs::File::open(&path).unwrap().set_modified(SystemTime::now() - age).unwrap();
            listener
        };
        drop(folder("rowstream-worker-gone", 2 * STARTED));
        drop(folder("rowstream-worker-young", Duration::ZERO));
        drop(folder("another-gone", 2 * STARTED));
        let _running = folder("rowstream-worker-running", 2 * STARTED);
        let empty = parent.path().join("rowstream-worker-without-socket");
        fs::create_dir(&empty).unwrap();
        fs::File::open(&empty).unwrap().set_modified(SystemTime::now() - 2 * STARTED).unwrap();
        let own = parent.path().join("rowstream-worker-own");
        fs::create_dir(&own).unwrap();
        remove_abandoned(&own);
        let left = fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.map(|name| name.into_string().unwrap()).collect();
        left.sort();
        assert_eq!(
            left,
            ["another-gone", "rowstream-worker-own", "rowstream-worker-running", "rowstream-worker-young"]
        );
    }
}
