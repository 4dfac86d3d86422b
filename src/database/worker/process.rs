//! The worker process of a source: when it is started, and started again, and how it ends.
//!
//! It is this program, called as `rowstream worker`. Its standard output is the socket on which it
//! listens, in a folder that nobody else may enter. Its standard input is a pipe that says nothing:
//! when the server is gone, however it went, the pipe ends, and so does the worker.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use rowstream_core::Error;
use rowstream_core::lock::Mutex;

/// A process that has lived so long ends by chance, and not because it cannot work.
const HEALTHY: Duration = Duration::from_secs(30);
/// What is waited before a process is started for the third time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause, after many.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A pause that a request waits for; for a longer one it is refused.
const WAITED: Duration = Duration::from_secs(1);
/// How long a process that closed its sockets is given to have ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The worker process of a source.
pub(super) struct Process {
    source: String,
    /// What it may take of the memory, in bytes.
    memory: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    /// How many in a row did not live long.
    failures: u32,
    /// When the next one may be started.
    not_before: Option<Instant>,
    /// How the last one ended.
    last: Option<ExitStatus>,
}

/// A process that was started. Dropped, it is killed.
struct Running {
    child: Child,
    since: Instant,
    folder: TempDir,
}

impl Running {
    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; it is waited for in both cases, so that no zombie is left.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub(super) fn new(source: &str, memory: usize) -> Self {
        Self { source: source.to_owned(), memory, state: Mutex::default() }
    }

    /// A connection to the process, which is started if there is none. Waits a little where one
    /// has just ended.
    ///
    /// # Errors
    /// 503: it cannot be started, or is not started again so soon.
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

    /// Ends the process, and with it all that runs in it.
    pub(super) fn kill(&self) {
        let mut state = self.state.lock();
        if let Some(running) = &mut state.running {
            let _ = running.child.kill();
        }
        state.reap_within(LAST_WORDS);
    }

    /// The error of a connection that the process closed.
    pub(super) fn closed(&self) -> Error {
        let mut state = self.state.lock();
        state.reap_within(LAST_WORDS);
        let status = state.last.filter(|_| state.running.is_none());
        self.ended(status)
    }

    fn ended(&self, status: Option<ExitStatus>) -> Error {
        let how = status.map_or_else(|| "it closed a connection".to_owned(), |status| status.to_string());
        Error::source_unavailable(format!("the worker of source `{}` has ended", self.source))
            .hint("its driver took the process with it, or wanted more than `worker_memory`; what it wrote to standard error says why")
            .cause(how)
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        Error::source_unavailable(format!("the worker of source `{}` {what}", self.source)).cause(error)
    }
}

impl State {
    /// How long no process may be started yet, where none runs.
    fn pause(&self) -> Option<Duration> {
        let pause = self.not_before?.saturating_duration_since(Instant::now());
        (self.running.is_none() && !pause.is_zero()).then_some(pause)
    }

    /// Notices that the process has ended.
    fn reap(&mut self) {
        let Some(running) = &mut self.running else { return };
        let Ok(Some(status)) = running.child.try_wait() else { return };
        self.last = Some(status);
        self.failures = if running.since.elapsed() >= HEALTHY { 1 } else { self.failures + 1 };
        // The first time it is started again at once: the next request is to be served.
        self.not_before = self
            .failures
            .checked_sub(2)
            .map(|times| Instant::now() + FIRST_PAUSE.saturating_mul(1 << times.min(10)).min(LONGEST_PAUSE));
        self.running = None;
    }

    /// The same, for a process that is about to end.
    fn reap_within(&mut self, time: Duration) {
        let until = Instant::now() + time;
        self.reap();
        while self.running.is_some() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            self.reap();
        }
    }
}

fn start(memory: usize) -> io::Result<Running> {
    let folder = tempfile::Builder::new().prefix("rowstream-worker-").tempdir()?;
    let listener = UnixListener::bind(folder.path().join("socket"))?;
    let child = Command::new(std::env::current_exe()?)
        .arg("worker")
        .arg(memory.to_string())
        // Drivers take the time zone of their sessions from it.
        .env("TZ", "UTC")
        .env("PGTZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(OwnedFd::from(listener))
        // Ctrl-C on a terminal is for the server, which ends its streams before the worker.
        .process_group(0)
        .spawn()?;
    Ok(Running { child, since: Instant::now(), folder })
}
