//! The server as users run it: a process, its configuration files, and its output.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use super::{program, release_program, wait_until};

/// The text on standard error before the address that it listens on.
const LISTENING: &str = "listening on ";

/// The way to start a server.
pub struct Launch {
    folder: Folder,
    program: PathBuf,
    script: Option<String>,
    address: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    stdin: Option<OwnedFd>,
}

enum Folder {
    /// Created for this server, and removed with it.
    Own(tempfile::TempDir),
    Given(PathBuf),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Own(folder) => folder.path(),
            Self::Given(path) => path,
        }
    }
}

impl Launch {
    /// With these files: paths below the folder of `rowstream.toml`, and their contents.
    pub fn files(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files {
            write(&folder.path().join(name), text);
        }
        Self::new(Folder::Own(folder))
    }

    /// With the files of an existing folder, such as an example's.
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        Self::new(Folder::Given(folder.into()))
    }

    /// The folder of the files.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn new(folder: Folder) -> Self {
        let program = program().to_owned();
        let address = "127.0.0.1:0".to_owned();
        Self {
            folder,
            program,
            script: None,
            address,
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: None,
        }
    }

    /// The release build, for claims about memory and speed.
    pub fn release(self) -> Self {
        self.program(release_program())
    }

    /// Another program instead of the server.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// Through a shell, whose script finds the program in `$0` and its arguments in `$@`.
    ///
    /// We don't write the script to a file. The system doesn't execute a file that's still open for
    /// writing (`ETXTBSY`), and a process that another test starts at that moment inherits the open
    /// file.
    pub fn shell(mut self, script: &str) -> Self {
        self.script = Some(script.into());
        self
    }

    /// A specific address instead of a free port.
    pub fn listen(self, address: &str) -> Self {
        Self { address: address.into(), ..self }
    }

    /// An additional argument, after `serve CONFIG --listen ADDRESS`.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// An additional environment variable.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Its standard input, which is empty by default.
    pub fn stdin(self, descriptor: impl Into<OwnedFd>) -> Self {
        Self { stdin: Some(descriptor.into()), ..self }
    }

    /// Starts it, and waits until it listens. If it doesn't, the test fails with its output.
    pub async fn start(self) -> Server {
        self.try_start().await.unwrap_or_else(|exit| panic!("no server: {:?}\n{}", exit.status, exit.stderr))
    }

    /// Starts it, and waits until it listens or ends.
    pub async fn try_start(self) -> Result<Server, Exit> {
        let mut child = self.command().spawn().expect("the program can be started");
        let stdout = Said::read(child.stdout.take().expect("it is piped"));
        let stderr = Said::read(child.stderr.take().expect("it is piped"));
        let mut server = Server { child, stdout, stderr, address: String::new(), folder: self.folder };
        server.wait_until_listening().await?;
        Ok(server)
    }

    fn command(&self) -> Command {
        let mut command = match &self.script {
            Some(script) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", script]).arg(&self.program);
                shell
            }
            None => Command::new(&self.program),
        };
        command.arg("serve").arg(self.folder.path().join("rowstream.toml")).args(["--listen", &self.address]);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        let stdin = self.stdin.as_ref().map(|stdin| stdin.try_clone().expect("a descriptor"));
        command.stdin(stdin.map_or_else(Stdio::null, Stdio::from));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// A program that has ended, with its output.
#[derive(Debug)]
pub struct Exit {
    pub status: ExitStatus,
    pub stderr: String,
}

/// A listening server. Dropping it kills it.
pub struct Server {
    child: Child,
    stdout: Said,
    stderr: Said,
    address: String,
    folder: Folder,
}

impl Server {
    /// Starts this build's server with these files.
    pub async fn start(files: &[(&str, &str)]) -> Self {
        Launch::files(files).start().await
    }

    /// The URL of a path. The path begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The folder of `rowstream.toml`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The lines of its access log so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// The number of lines on standard error that contain these words.
    pub fn count_stderr(&self, words: &str) -> usize {
        self.stderr.text().lines().filter(|line| line.contains(words)).count()
    }

    /// Waits until its access log contains these words. Otherwise the test fails with the log.
    pub async fn wait_for_stdout(&self, words: &str) {
        self.stdout.wait_for(words).await;
    }

    /// Waits until its standard error contains these words. Otherwise the test fails with the
    /// output.
    pub async fn wait_for_stderr(&self, words: &str) {
        self.stderr.wait_for(words).await;
    }

    /// Requests a shutdown (SIGTERM).
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Requests a reload of its files (SIGHUP).
    pub fn hang_up(&self) {
        self.signal("HUP");
    }

    /// Sends it a signal by its name (`USR1`).
    pub fn signal(&self, name: &str) {
        // The standard library can only send SIGKILL, but every shell can send the others.
        let command = format!("kill -s {name} \"$0\"");
        let status = Command::new("sh").args(["-c", &command, &self.pid().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "the server is gone:\n{}", self.stderr());
    }

    /// Ends it at once (SIGKILL).
    pub fn kill(&mut self) {
        self.child.kill().expect("it is our child");
    }

    /// Waits for its end.
    pub async fn wait_exit(&mut self) -> ExitStatus {
        wait_until("the server ends", async || self.exit_status()).await
    }

    /// Waits until it ends with status 0, before its drain time is over.
    pub async fn wait_drained(&mut self) {
        let (status, said) = (self.wait_exit().await, self.stderr());
        assert!(status.success() && !said.contains("the drain time is over"), "{status}: {said}");
    }

    /// Returns true if it has ended by now.
    pub fn has_exited(&mut self) -> bool {
        self.exit_status().is_some()
    }

    fn exit_status(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("it is our child");
        if status.is_some() {
            self.finish_reading();
        }
        status
    }

    async fn wait_until_listening(&mut self) -> Result<(), Exit> {
        self.address = wait_until("the server listens", async || {
            // In this order, because a server that has ended has printed everything before we look.
            let ended = self.exit_status();
            let stderr = self.stderr();
            match (self.find_address(), ended) {
                (Some(address), _) => Ok(Ok(address)),
                (None, Some(status)) => Ok(Err(Exit { status, stderr })),
                (None, None) => Err(stderr),
            }
        })
        .await?;
        Ok(())
    }

    fn find_address(&self) -> Option<String> {
        let said = self.stderr();
        let (_, listening) = said.split_once(LISTENING)?;
        if listening.trim_start().starts_with("unix:") {
            return listening.lines().next().map(|line| line.trim().to_owned());
        }
        let (_, rest) = listening.split_once("://")?;
        // The line can be JSON or have more text.
        let ends = |c: char| !c.is_ascii_alphanumeric() && !".:[]".contains(c);
        Some(rest.split(ends).next().unwrap_or_default().to_owned())
    }

    /// Reads the rest of the pipes, which can contain the last output of a program that has ended.
    fn finish_reading(&mut self) {
        self.stdout.finish();
        self.stderr.finish();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        // libtest shows this only if the test failed.
        if std::thread::panicking() {
            println!("the server said:\n{}\nand its access log:\n{}", self.stderr(), self.stdout());
        }
    }
}

/// Runs another command of this build until it ends: `check`, `query`, …
pub async fn rowstream(arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null());
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    ran.expect("no panic").expect("the program can be started")
}

/// The peak memory of a process (`VmHWM`).
pub fn peak_memory_bytes(pid: u32) -> u64 {
    memory_bytes(pid, "VmHWM:")
}

/// The current memory of a process that isn't backed by files (`RssAnon`).
pub fn anonymous_bytes(pid: u32) -> u64 {
    memory_bytes(pid, "RssAnon:")
}

/// The memory of a process that maps files, such as its own program, which isn't optimised in tests.
pub fn file_bytes(pid: u32) -> u64 {
    memory_bytes(pid, "RssFile:")
}

fn memory_bytes(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it has memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("proc(5)");
    kib * 1024
}

/// The number of a process's open descriptors. Tests for leaks compare two counts.
pub fn open_descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is there").count()
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}

/// The output of a program on one of its pipes.
struct Said {
    lines: Arc<Mutex<Vec<String>>>,
    reading: Option<std::thread::JoinHandle<()>>,
}

impl Said {
    /// Reads the lines as they arrive, so that the pipe never fills. The thread ends with the
    /// program.
    fn read(pipe: impl Read + Send + 'static) -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let into = Arc::clone(&lines);
        let reading = std::thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                into.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Self { lines, reading: Some(reading) }
    }

    fn text(&self) -> String {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }

    async fn wait_for(&self, words: &str) {
        let look = async || {
            let text = self.text();
            if text.contains(words) { Ok(()) } else { Err(text) }
        };
        wait_until(&format!("the server says {words:?}"), look).await;
    }

    fn finish(&mut self) {
        if let Some(reading) = self.reading.take() {
            drop(reading.join());
        }
    }
}
