//! A reader who follows a page: writes its files, enters its commands one after another, and
//! compares the output with the page's.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::page::{Block, Commands, Database, Kind, Page, is_shown};
use crate::support::{program, repository, wait_until_blocking};
use crate::worked::{self, fill_limit};

/// The servers' addresses in pages.
const ADDRESSES: [&str; 2] = ["localhost:8080", "localhost:8081"];

/// The argument of the second server in pages.
const SECOND: &str = " --listen 127.0.0.1:8081";
/// PostgreSQL's URL in pages, before the name of the database.
const POSTGRES: &str = "postgres://localhost/";

/// Precedes each block: servers listen at any free port, and end with their shell. PostgreSQL's
/// database already exists.
const PRELUDE: &str = r#"
rowstream() {
  case $1 in
    serve | demo) exec "$ROWSTREAM" "$@" --listen 127.0.0.1:0 ;;
    *) "$ROWSTREAM" "$@" ;;
  esac
}
createdb() { true; }
set -e
"#;

pub(super) struct PageReader<'a> {
    page: &'a Page,
    database: Database,
    folder: tempfile::TempDir,
    /// The shell's folder after the last command.
    current: PathBuf,
    /// Assignments of variables, in shell syntax.
    variables: String,
    environment: Vec<(String, String)>,
    /// The URL of PostgreSQL's database.
    postgres: String,
    /// The Python with the tests' libraries.
    python: Option<String>,
    /// The servers at the pages' addresses.
    servers: [Option<Running>; 2],
    others: Vec<(usize, Running, Option<String>)>,
}

impl<'a> PageReader<'a> {
    /// In an empty folder, or in a copy of the page's example.
    pub(super) fn new(page: &'a Page, database: Database, postgres: String) -> Self {
        let environment = match (&page.example, database) {
            (Some(example), Database::Postgres) => vec![(variable(example), postgres.clone())],
            _ => Vec::new(),
        };
        let folder = match &page.example {
            Some(example) => worked::copy(&example["examples/".len()..]),
            None => tempfile::tempdir().expect("a temporary folder"),
        };
        // A page that begins with `cd examples/NAME` is read in the repository.
        if let Some((example, _)) = page.name.strip_prefix("examples/").and_then(|name| name.split_once('/'))
        {
            worked::copy_folder(&worked::example(example), &folder.path().join("examples").join(example));
        }
        let current = folder.path().to_owned();
        let (servers, others) = ([None, None], Vec::new());
        let python = std::env::var("ROWSTREAM_TEST_PYTHON").ok();
        let variables = String::new();
        Self { page, database, folder, current, variables, environment, postgres, python, servers, others }
    }

    /// Follows the whole page.
    pub(super) fn follow(mut self) {
        if self.page.example.is_some() {
            self.prepare();
        }
        let (page, database) = (self.page, self.database);
        for block in page.blocks.iter().filter(|block| block.on.is_none_or(|on| on == database)) {
            self.block(block);
        }
        for (line, running, answer) in std::mem::take(&mut self.others) {
            self.wait_for(line, &running, &answer.unwrap_or_default());
        }
    }

    /// Prepares the page's folder, database and servers.
    fn prepare(&mut self) {
        for block in &self.page.blocks {
            match &block.kind {
                Kind::File(path, text) => self.write(path, text),
                Kind::Database(text) => {
                    self.write(".setup.sql", text);
                    let psql = format!("psql -q -v ON_ERROR_STOP=1 -f .setup.sql {POSTGRES}shop");
                    let status = self.shell(&psql, &self.current).status().expect("a shell");
                    assert!(status.success(), "{}", self.place(block.line));
                }
                _ => {}
            }
        }
        if let Some(folder) = &self.page.second {
            self.serve(0, &format!("rowstream serve {folder}{SECOND}"));
        }
        self.serve(0, "rowstream serve");
    }

    fn block(&mut self, block: &Block) {
        match &block.kind {
            Kind::File(path, text) if self.page.example.is_none() => self.write(path, text),
            Kind::From(path, text) => {
                let file = fs::read_to_string(self.folder.path().join(path));
                let file = file.unwrap_or_else(|error| panic!("{}: {path}: {error}", self.place(block.line)));
                assert_eq!(&file, text, "{}: {path} is not as shown", self.place(block.line));
            }
            Kind::Commands(commands) if commands.serves() => self.serve(block.line, &commands.text),
            Kind::Commands(commands) if commands.goes_on => {
                let running = Running::start(self.shell(&commands.text, &self.current));
                self.others.push((block.line, running, commands.answer.clone()));
            }
            Kind::Commands(commands) if commands.libraries && self.python.is_none() => {}
            Kind::Commands(commands) => self.run(block.line, commands),
            Kind::File(..) | Kind::Database(_) | Kind::NotRun(_) => {}
        }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.current.join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Runs commands to their end.
    fn run(&mut self, line: usize, commands: &Commands) {
        let script = format!("{}\npwd > \"$FOLDER/.current\"\n", commands.text);
        let deadline = Instant::now() + fill_limit();
        while let Err(wrong) = self.enter(&script, commands) {
            let may_try = commands.soon && Instant::now() < deadline;
            assert!(may_try, "{}\n{}\n{wrong}", self.place(line), commands.text);
        }
        self.variables
            .extend(commands.text.lines().filter(|line| sets(line)).map(|line| format!("{line}\n")));
        if let Ok(current) = fs::read_to_string(self.folder.path().join(".current")) {
            self.current = current.trim().into();
        }
    }

    /// Runs a script. The error is the difference from the page.
    fn enter(&self, script: &str, commands: &Commands) -> Result<(), String> {
        let ended = Running::start(self.shell(script, &self.current)).end();
        let (status, printed, said) = ended.ok_or("does not end")?;
        let (printed, said) = (self.shown(&printed), self.shown(&said));
        let all = format!("{printed}{said}");
        if status != Some(commands.status) {
            return Err(format!("ends with {status:?}\n{all}"));
        }
        let Some(answer) = &commands.answer else { return Ok(()) };
        let is_shown = [&printed, &said, &all].iter().any(|text| is_shown(answer, text));
        is_shown.then_some(()).ok_or_else(|| format!("shows\n{answer}\nbut prints\n{all}"))
    }

    /// Starts a server. It replaces one that the page started earlier at the same address.
    fn serve(&mut self, line: usize, script: &str) {
        let (before, script) = script.trim_end().rsplit_once('\n').unwrap_or(("", script));
        self.run(line, &Commands::new(before));
        let place = usize::from(script.contains(SECOND));
        self.servers[place] = None;
        let script = script.replace(SECOND, "");
        let mut running = Running::start(self.shell(&script, &self.current));
        running.listen().unwrap_or_else(|said| panic!("{}\n{script}\n{said}", self.place(line)));
        self.servers[place] = Some(running);
    }

    /// Waits until running commands have printed the page's output.
    fn wait_for(&self, line: usize, running: &Running, answer: &str) {
        wait_until_blocking(&format!("{}: shows\n{answer}", self.place(line)), || {
            let printed = self.shown(&running.printed());
            let found = is_shown(&format!("{}…", answer.trim_end()), &printed);
            if found { Ok(()) } else { Err(format!("but prints\n{printed}")) }
        });
    }

    fn shell(&self, script: &str, current: &Path) -> Command {
        let mut script = format!("{PRELUDE}{}{script}", self.variables);
        for (shown, server) in self.addresses() {
            let port = shown.rsplit(':').next().expect("a port");
            script = script.replace(shown, server);
            script = script.replace(&format!("127.0.0.1:{port}"), server);
        }
        let script = with_database(&script, &self.postgres);
        let mut command = Command::new("bash");
        command.args(["-c", &script]).current_dir(current).stdin(Stdio::null());
        command.env("ROWSTREAM", program()).env("FOLDER", self.folder.path());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.envs(self.python.iter().map(|python| ("PYTHON", python)));
        command.env("PYTHONPATH", repository().join("clients/python/src"));
        command.envs(self.servers[1].iter().map(|server| ("CRM_URL", format!("http://{}", server.address))));
        command
    }

    /// The servers' names in the page, and their addresses.
    fn addresses(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let servers = ADDRESSES.into_iter().zip(&self.servers);
        servers.filter_map(|(shown, server)| Some((shown, server.as_ref()?.address.as_str())))
    }

    /// The output in the page's form.
    fn shown(&self, printed: &[u8]) -> String {
        let mut printed = String::from_utf8_lossy(printed).into_owned();
        for (shown, server) in self.addresses() {
            printed = printed.replace(server, shown);
        }
        printed
    }

    fn place(&self, line: usize) -> String {
        format!("{}:{line}, on {:?}", self.page.name, self.database)
    }
}

/// Returns true if a line only sets a variable.
fn sets(line: &str) -> bool {
    let line = line.trim_start_matches("export ");
    let name = line.split('=').next().unwrap_or_default();
    line.contains('=')
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        && !line.contains(" rowstream ")
}

type Collected = Arc<Mutex<Vec<u8>>>;

/// A process in the background, with its output so far. Dropping it kills it.
struct Running {
    child: Child,
    printed: Collected,
    said: Collected,
    readers: Vec<JoinHandle<()>>,
    killed: bool,
    address: String,
}

impl Running {
    /// Starts it in its own process group, so that all of it can be killed.
    fn start(mut command: Command) -> Self {
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        let (printed, first) = collect(child.stdout.take().expect("it is piped"));
        let (said, second) = collect(child.stderr.take().expect("it is piped"));
        Self { child, printed, said, readers: vec![first, second], killed: false, address: String::new() }
    }

    /// Waits until it ends, and returns its status and its output. `None` if it doesn't end.
    fn end(mut self) -> Option<(Option<i32>, Vec<u8>, Vec<u8>)> {
        let deadline = Instant::now() + fill_limit();
        let status = loop {
            match self.child.try_wait().expect("it is our child") {
                Some(status) => break status.code(),
                None if Instant::now() > deadline => return None,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        self.kill();
        for reader in std::mem::take(&mut self.readers) {
            reader.join().expect("it reads to the end");
        }
        Some((status, self.printed(), self.said()))
    }

    /// Kills it with all of its children.
    fn kill(&mut self) {
        if std::mem::replace(&mut self.killed, true) {
            return; // Another process may have its number by now.
        }
        let group = format!("-{}", self.child.id());
        let mut kill = Command::new("kill");
        drop(kill.args(["-s", "KILL", "--", &group]).stderr(Stdio::null()).status());
        drop(self.child.wait());
    }

    fn said(&self) -> Vec<u8> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn printed(&self) -> Vec<u8> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it listens. Otherwise the error is its output.
    fn listen(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + fill_limit();
        loop {
            // In this order, because a server that has ended has printed everything before we look.
            let ended = self.child.try_wait().expect("it is our child").is_some();
            let said = String::from_utf8_lossy(&self.said()).into_owned();
            let rest = said.split("listening on http://").nth(1).unwrap_or_default();
            if let Some((address, _)) = rest.split_once(['\n', ' ', ',']) {
                address.trim_end_matches('/').clone_into(&mut self.address);
                return Ok(());
            }
            if ended || Instant::now() > deadline {
                return Err(said);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Replaces the URL of PostgreSQL's database in a script by the real one.
fn with_database(script: &str, url: &str) -> String {
    let mut pieces = script.split(POSTGRES);
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |script, piece| {
        let end = piece.find(|c: char| !c.is_alphanumeric()).unwrap_or(piece.len());
        script + url + &piece[end..]
    })
}

/// The variable for the database of an example.
fn variable(example: &str) -> String {
    let name = example.rsplit('/').next().unwrap_or_default();
    format!("{}_URL", name.to_uppercase())
}

/// Reads the output as it arrives, so that the pipe never fills.
fn collect(from: impl std::io::Read + Send + 'static) -> (Collected, JoinHandle<()>) {
    let all = Collected::default();
    let into = Arc::clone(&all);
    let reading = std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        loop {
            let length = match from.fill_buf() {
                Ok([]) | Err(_) => return,
                Ok(bytes) => {
                    into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
                    bytes.len()
                }
            };
            from.consume(length);
        }
    });
    (all, reading)
}
