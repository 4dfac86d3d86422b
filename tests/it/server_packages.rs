//! The packages `rowstream-server` for PyPI and npm, as users install them: from files, with pip and
//! npm. Their program is that of this build, without the symbols of its debugger.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::sync::OnceLock;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Client, Ended, get, given, program, repository};
use crate::worked::{Listening, Started};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PROCESSORS: [&str; 2] = ["x86_64", "aarch64"];
/// More than sockets buffer, so the stream waits for its client.
const ROWS: &str = "with recursive r(n) as (select 1 union all select n + 1 from r where n < 200000)
    select n, printf('%.*c', 100, 'x') as text from r";

fn ran(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: run `cargo xtask test`"))
}

/// Runs a command that must succeed, and returns its output.
fn run(command: &mut Command) -> String {
    let output = ran(command);
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The status of a command that must fail, and its messages.
fn failure(command: &mut Command) -> (Option<i32>, String) {
    let output = ran(command);
    assert!(!output.status.success(), "{command:?}: {output:?}");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn python() -> Command {
    Command::new(given("ROWSTREAM_TEST_PYTHON"))
}

fn pip(arguments: &[&str]) -> Command {
    let mut pip = python();
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]).args(arguments);
    pip
}

/// A folder with the packages.
struct Packages(TempDir);

impl Packages {
    /// The program is for this processor.
    fn build(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let other = folder.path().join("other");
        let mut bytes = std::fs::read(program).expect("it can be read");
        // The other processor's number in ELF's header: 183 is aarch64, 62 is x86_64.
        bytes[18] = if std::env::consts::ARCH == "x86_64" { 183 } else { 62 };
        std::fs::write(&other, bytes).expect("it can be written");
        let programs = PROCESSORS.map(|processor| {
            let program = if processor == std::env::consts::ARCH { program } else { &other };
            format!("{processor}={}", program.display())
        });
        run(python().arg(repository().join("packages/build.py")).arg(folder.path()).args(programs));
        Self(folder)
    }

    /// Packages with a shell, for tests that don't run the server.
    fn of_shell() -> Self {
        Self::build(Path::new("/bin/sh"))
    }

    /// Packages with the server.
    fn of_server() -> &'static Self {
        static PACKAGES: OnceLock<Packages> = OnceLock::new();
        PACKAGES.get_or_init(|| {
            let stripped = tempfile::NamedTempFile::new().expect("a file");
            run(Command::new("strip").arg("-o").arg(stripped.path()).arg(program()));
            Self::build(stripped.path())
        })
    }

    fn python(&self) -> String {
        self.0.path().join("python").display().to_string()
    }

    /// The file of an npm package.
    fn npm(&self, name: &str) -> String {
        self.0.path().join(format!("npm/{name}-{VERSION}.tgz")).display().to_string()
    }

    /// Each file, by name.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let folders =
            ["python", "npm"].map(|name| std::fs::read_dir(self.0.path().join(name)).expect("built"));
        let paths = folders.into_iter().flatten().map(|entry| entry.expect("it can be listed").path());
        let mut files: Vec<_> = paths
            .map(|path| {
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                (name, std::fs::read(path).expect("it can be read"))
            })
            .collect();
        files.sort();
        files
    }
}

/// npm's name for this processor.
fn node_processor() -> &'static str {
    if std::env::consts::ARCH == "x86_64" { "x64" } else { "arm64" }
}

/// An npm project that installed packages, without an index.
struct Project(TempDir);

impl Project {
    fn install(files: &[String]) -> Self {
        let project = Self(tempfile::tempdir().expect("a folder"));
        std::fs::write(project.0.path().join("package.json"), "{}").expect("it can be written");
        let quietly = ["--offline", "--no-audit", "--no-fund", "--loglevel=error"];
        run(project.command("npm").arg("install").args(quietly).args(files));
        project
    }

    /// The packages that `npx` gets from the index.
    fn of_server() -> Self {
        let packages = Packages::of_server();
        let program = format!("rowstream-server-linux-{}", node_processor());
        Self::install(&[packages.npm("rowstream-server"), packages.npm(&program)])
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.0.path()).env("npm_config_cache", self.0.path().join("cache"));
        command
    }

    fn wrapper(&self) -> PathBuf {
        self.0.path().join("node_modules/.bin/rowstream-server")
    }
}

/// A configuration with an endpoint that has many rows.
fn config() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("endpoints")).expect("a folder");
    let source = "[source.db]\nurl = \"sqlite:rows.db\"\ncreate = [\"create.sql\"]\n";
    let files = [
        ("rowstream.toml", source),
        ("create.sql", "create table t as select 1 as n"),
        ("endpoints/rows.sql", ROWS),
    ];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("it can be written");
    }
    folder
}

/// Sends a signal while a client reads slowly. The server must drain, so the client gets all rows.
/// Returns the status.
async fn drains(server: Listening, signal: impl FnOnce(&Started)) -> ExitStatus {
    let mut stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/rows.ndjson")).await;
    stream.at_least(1000).await;
    signal(&server.started);
    let started = server.started.said("draining: 1 connections, 1 streams").await;
    assert_eq!(stream.rest().await.ended, Ended::Complete);
    let (status, said) = started.ended().await;
    assert!(!said.contains("second signal"), "{status}: {said}");
    status
}

/// A terminal, and the path of its other side.
fn terminal() -> (OwnedFd, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("it's ours");
    unlockpt(&terminal).expect("it's ours");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    (terminal, name.into_string().expect("UTF-8"))
}

#[tokio::test]
async fn pip_installs_the_demo() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = folder.path().join("environment");
    run(python().args(["-m", "venv", "--without-pip"]).arg(&environment));
    let own = environment.join("bin/python").display().to_string();
    let packages = Packages::of_server().python();
    run(&mut pip(&[
        "--python",
        &own,
        "install",
        "--no-index",
        "--find-links",
        &packages,
        "rowstream-server",
    ]));
    let server = environment.join("bin/rowstream-server");
    let version = |program: &Path| run(Command::new(program).arg("--version"));
    assert_eq!(version(&server), version(program()));
    let demo = folder.path().join("demo").display().to_string();
    let demo = Started::new(&server, &["demo", "--dir", &demo, "--listen", "127.0.0.1:0"]).listening().await;
    assert_eq!(get(&demo.url("/authors/4711")).await.json()["id"], 4711);
}

#[tokio::test]
async fn npx_passes_the_status_and_the_wrapper_passes_sigterm() {
    let project = Project::of_server();
    let npx = |arguments: &[&str]| {
        let mut npx = project.command("npx");
        npx.args(["--offline", "rowstream-server"]).args(arguments);
        npx
    };
    assert_eq!(run(&mut npx(&["--version"])), run(Command::new(program()).arg("--version")));
    for arguments in [&["check", "missing.toml"][..], &["--wrong"]] {
        let (status, _) = failure(Command::new(program()).args(arguments));
        assert_eq!(failure(&mut npx(arguments)).0, status, "{arguments:?}");
    }
    let config = config();
    let folder = config.path().to_str().expect("UTF-8");
    let server = Started::new(&project.wrapper(), &["serve", folder, "--listen", "127.0.0.1:0"]);
    let status = drains(server.listening().await, |wrapper| {
        // Only the wrapper gets it.
        run(Command::new("kill").args(["-s", "TERM", &wrapper.pid().to_string()]));
    })
    .await;
    assert!(status.success(), "{status}");
}

/// A terminal sends Ctrl-C to npx, the wrapper and the server, and npx passes it on. A second signal
/// would abort the streams. At the end, npx reports the signal.
#[tokio::test]
async fn the_server_gets_ctrl_c_once() {
    use std::io::Write as _;
    let (project, config, (terminal, name)) = (Project::of_server(), config(), terminal());
    let serve = format!(
        "cd '{}' && exec setsid --ctty npx --offline rowstream-server serve '{}' --listen 127.0.0.1:0 <{name}",
        project.0.path().display(),
        config.path().display()
    );
    let server = Started::new(Path::new("sh"), &["-c", &serve]).listening().await;
    let mut terminal = File::from(terminal);
    drains(server, |_| terminal.write_all(b"\x03").expect("a key")).await;
}

/// Otherwise, it would look like success.
#[test]
fn a_signal_that_ends_the_program_ends_the_wrapper() {
    use std::os::unix::process::ExitStatusExt as _;
    let packages = Packages::of_shell();
    let program = format!("rowstream-server-linux-{}", node_processor());
    let project = Project::install(&[packages.npm("rowstream-server"), packages.npm(&program)]);
    for (name, number) in [("KILL", 9), ("PIPE", 13), ("XFSZ", 25)] {
        let status = ran(Command::new(project.wrapper()).args(["-c", &format!("kill -s {name} $$")])).status;
        let shown = status.signal().map_or(status.code(), |signal| Some(128 + signal));
        assert_eq!(shown, Some(128 + number), "{name}: {status}");
    }
}

#[test]
fn other_systems_get_an_error_that_says_what_exists() {
    let packages = Packages::of_shell();
    let source = format!("{}/rowstream_server-{VERSION}.tar.gz", packages.python());
    let (_, said) = failure(&mut pip(&["wheel", "--no-index", "--wheel-dir", &packages.python(), &source]));
    assert!(said.contains("has a wheel for Linux on") && said.contains("--no-binary"), "{said}");
    let elsewhere = "import platform, refusal; platform.system = lambda: 'Darwin'; refusal.refuse()";
    let mut python = Command::new(given("ROWSTREAM_TEST_PYTHON"));
    let (_, said) = failure(python.args(["-B", "-c", elsewhere]).current_dir(repository().join("packages")));
    assert!(said.contains("x86_64 and aarch64, but this is Darwin") && said.contains("container"), "{said}");

    let project = Project::install(&[packages.npm("rowstream-server")]);
    let (status, said) = failure(&mut Command::new(project.wrapper()));
    let missing = format!("@rowstream/server-linux-{} is missing", node_processor());
    assert!(status == Some(1) && said.contains(&missing), "{said}");
    let other = "data:text/javascript,Object.defineProperty(process, 'platform', { value: 'darwin' })";
    let (status, said) = failure(project.command("node").args(["--import", other]).arg(project.wrapper()));
    assert!(status == Some(1) && said.contains("Linux on x64 and arm64, but this is darwin"), "{said}");
}

/// pip chooses by the tags in a wheel's name: for glibc and for musl.
#[test]
fn each_processor_has_a_wheel() {
    let (packages, chosen) = (Packages::of_shell(), tempfile::tempdir().expect("a folder"));
    for processor in PROCESSORS {
        for platform in ["manylinux2014", "musllinux_1_1"] {
            let folder = chosen.path().join(platform).join(processor);
            let mut download = pip(&["download", "--no-index", "--only-binary", ":all:", "--find-links"]);
            download.arg(packages.python()).args(["--platform", &format!("{platform}_{processor}")]);
            run(download.arg("--dest").arg(&folder).arg("rowstream-server"));
            let [file] = &*std::fs::read_dir(folder).expect("a folder").collect::<Vec<_>>() else {
                panic!("one wheel")
            };
            let name = file.as_ref().expect("it can be listed").file_name();
            assert!(name.to_string_lossy().ends_with(&format!("_{processor}.whl")), "{name:?}");
        }
    }
}

#[test]
fn a_second_build_has_the_same_bytes() {
    let [one, other] = [(); 2].map(|()| Packages::of_shell().files());
    let names: Vec<_> = one.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(names.iter().all(|name| name.contains(&format!("-{VERSION}"))), "{names:?}");
    for ((name, bytes), (_, others)) in one.iter().zip(&other) {
        assert!(bytes == others, "{name}");
    }
}

/// They are released together.
#[test]
fn the_clients_have_the_version_of_the_server() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).expect("it can be read");
    let json = |path: &str| serde_json::from_str::<Value>(&read(path)).expect("JSON");
    let (package, lock) = (json("clients/js/package.json"), json("clients/js/package-lock.json"));
    for version in [&package["version"], &lock["version"], &lock["packages"][""]["version"]] {
        assert_eq!(version, VERSION);
    }
    let project: toml::Table = read("clients/python/pyproject.toml").parse().expect("TOML");
    assert_eq!(project["project"]["version"].as_str(), Some(VERSION));
}

#[test]
fn the_build_has_no_lints() {
    let config = repository().join("clients/python/pyproject.toml");
    let ruff = |command: &[&str]| {
        let mut ruff = python();
        ruff.args(["-m", "ruff"]).args(command).args(["--no-cache", "--target-version", "py311", "--config"]);
        ruff.arg(&config);
        run(ruff.arg(repository().join("packages")));
    };
    ruff(&["check"]);
    ruff(&["format", "--check"]);
}
