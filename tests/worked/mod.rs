//! The worked examples for tests: copies of their folders, and a start of the program that waits
//! until it has filled a database. For a database that is full already, see `Launch`.

#![allow(dead_code, unreachable_pub, reason = "each of the test programs uses a part of this")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{limit, repository};

/// The longest that a debug build may take to write a million rows. That's work, so it may take
/// longer than an event that a test waits for.
pub fn fill_limit() -> Duration {
    3 * limit()
}

/// The folder of an example, in the repository.
pub fn example(name: &str) -> PathBuf {
    repository().join("examples").join(name)
}

/// A copy of an example as a user has it after cloning: without data.
pub fn copy(name: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    copy_folder(&example(name), folder.path());
    folder
}

/// Leaves out the databases of a developer's own run.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("the folder is there") {
        let entry = entry.expect("it can be listed");
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            copy_folder(&path, &to.join(name));
        } else if !name.to_string_lossy().contains(".db") {
            std::fs::copy(&path, to.join(name)).expect("a file can be copied");
        }
    }
}

/// A copy with its SQLite database, filled by `program` as at any first start.
pub async fn filled(name: &str, program: &Path) -> TempDir {
    let folder = copy(name);
    let config = folder.path().join("rowstream.toml").display().to_string();
    Started::new(program, &["serve", &config, "--listen", "127.0.0.1:0"]).listening().await;
    folder
}

/// A program of ours that was started. Dropping it kills it (SIGKILL).
pub struct Started {
    child: Child,
    lines: Receiver<String>,
    said: String,
}

/// A program that listens, and its address.
pub struct Listening {
    pub started: Started,
    pub address: String,
}

impl Listening {
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Started {
    pub fn new(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program can be started");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let (send, lines) = channel();
        // It always reads on, so that the pipe never fills.
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                drop(send.send(line));
            }
        });
        Self { child, lines, said: String::new() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it listens.
    pub async fn listening(self) -> Listening {
        self.blocking(|mut started| {
            let line = started.wait_for("listening on http://");
            let (_, address) = line.split_once("http://").expect("the words are in it");
            Listening { address: address.trim().to_owned(), started }
        })
        .await
    }

    /// Waits for its end. The exit status, and the output.
    pub async fn ended(self) -> (ExitStatus, String) {
        self.blocking(|mut started| {
            let deadline = Instant::now() + fill_limit();
            while started.next_line(deadline).is_some() {}
            let status = started.child.wait().expect("it is our child");
            (status, std::mem::take(&mut started.said))
        })
        .await
    }

    /// Waits for a line with these words.
    pub async fn said(self, words: &'static str) -> Self {
        self.blocking(move |mut started| {
            started.wait_for(words);
            started
        })
        .await
    }

    async fn blocking<T: Send + 'static>(self, wait: impl FnOnce(Self) -> T + Send + 'static) -> T {
        tokio::task::spawn_blocking(move || wait(self)).await.expect("no panic")
    }

    /// The line that has these words. The test fails with the output if the program ends before.
    fn wait_for(&mut self, words: &str) -> String {
        let deadline = Instant::now() + fill_limit();
        loop {
            match self.next_line(deadline) {
                Some(line) if line.contains(words) => return line,
                Some(_) => {}
                None => panic!("it ended without {words:?}:\n{}", self.said),
            }
        }
    }

    /// The next line, or `None` at its end.
    fn next_line(&mut self, deadline: Instant) -> Option<String> {
        let within = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(within) {
            Ok(line) => {
                self.said.push_str(&line);
                self.said.push('\n');
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("not within {:?}:\n{}", fill_limit(), self.said),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// How many line ends are in these bytes.
pub fn newlines(bytes: &[u8]) -> usize {
    let (mut count, mut at) = (0, 0);
    loop {
        // The standard library's search: a loop of ours is ten times slower in a debug build.
        at += (&bytes[at..]).skip_until(b'\n').expect("memory can be read");
        count += usize::from(at > 0 && bytes[at - 1] == b'\n');
        if at == bytes.len() {
            return count;
        }
    }
}

/// How many rows are in a whole NDJSON body. One that ends within a row fails the test.
pub fn rows(body: &[u8]) -> usize {
    assert!(body.is_empty() || body.ends_with(b"\n"), "the last row has no end");
    newlines(body)
}
