//! The image, the Debian package, and the workflows that test and release them. A test passes with
//! a message if a program that it needs isn't installed.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::support::{get, program, repository};

const WORKFLOWS: [&str; 2] = [".github/workflows/release.yml", ".github/workflows/test.yml"];
/// The image's name in the test's own storage.
const IMAGE: &str = "localhost/rowstream";

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn has(program: &str) -> bool {
    let ran = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

fn ran(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that must succeed, and returns its output.
fn run(command: &mut Command) -> String {
    let output = ran(command);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns true if a program succeeded. A missing permission is printed, but isn't a failure.
fn may(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let is_refused = said.contains("not permitted") || said.to_lowercase().contains("permission denied");
    assert!(output.status.success() || is_refused, "{said}");
    if !output.status.success() {
        println!("skipped: {said}");
    }
    output.status.success()
}

/// Builds and runs images, to the extent possible without a service and a network.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    Buildah,
    Podman,
}

/// An engine with its own storage.
struct Images {
    engine: Engine,
    folder: tempfile::TempDir,
}

impl Images {
    /// The installed engine.
    fn find() -> Option<Self> {
        let engines = [(Engine::Buildah, "buildah"), (Engine::Podman, "podman")];
        let engine = engines.into_iter().find(|(_, program)| has(program))?.0;
        Some(Self { engine, folder: tempfile::tempdir().expect("a folder") })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(match self.engine {
            Engine::Buildah => "buildah",
            Engine::Podman => "podman",
        });
        command.args(["--storage-driver", "vfs", "--root"]).arg(self.folder.path().join("root"));
        command.arg("--runroot").arg(self.folder.path().join("run"));
        command
    }

    /// Builds the image, with a folder instead of the first stage. Returns false if it may not: in
    /// some sandboxes, nothing can be mounted.
    fn build(&self, first: &Path) -> bool {
        let mut command = self.command();
        command.args(["build", "--isolation", "chroot", "--format", "docker", "--tag", IMAGE]);
        command.arg("--build-context").arg(format!("build={}", first.display()));
        let built =
            ran(command.arg("--file").arg(repository().join("Containerfile")).arg(self.folder.path()));
        if !may(&built) {
            return false;
        }
        if self.engine == Engine::Buildah {
            run(self.command().args(["from", "--pull-never", "--name", "test", IMAGE]));
        }
        true
    }

    /// The program in a container, with a folder as its configuration, on this machine's network.
    fn contained(&self, config: &Path) -> Command {
        let mut command = self.command();
        let volume = format!("{}:/etc/rowstream:ro", config.display());
        match self.engine {
            Engine::Buildah => command.args([
                "run",
                "--isolation",
                "chroot",
                "--volume",
                &volume,
                "test",
                "--",
                "/rowstream",
            ]),
            Engine::Podman => command.args(["run", "--rm", "--network", "host", "--volume", &volume, IMAGE]),
        };
        command
    }
}

/// The output of the first stage, with this build's program, which also needs its libraries.
fn first_stage() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    let libraries = run(Command::new("ldd").arg(program()));
    let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries {
        copy(Path::new(file), &image.join(file.trim_start_matches('/')));
    }
    copy(program(), &image.join("rowstream"));
    std::fs::create_dir(image.join("tmp")).expect("a folder");
    std::fs::set_permissions(image.join("tmp"), Permissions::from_mode(0o1777)).expect("it is ours");
    std::fs::create_dir_all(folder.path().join("data/var/lib/rowstream")).expect("a folder");
    folder
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().expect("below the folder")).expect("a folder");
    std::fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
}

/// A world-readable configuration, because the server has its own user.
fn config() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("endpoints")).expect("a folder");
    let source = "[source.db]\nurl = \"sqlite:/var/lib/rowstream/t.db\"\ncreate = [\"t.sql\"]\n";
    for (name, text) in [
        ("rowstream.toml", source),
        ("t.sql", "create table t as select 7 as n"),
        ("endpoints/t.sql", "select n from t"),
    ] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
    folder
}

/// A foreground process of an engine. Dropping it kills its process group, because the server isn't
/// the engine's own process.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        drop(Command::new("kill").args(["-s", "KILL", "--", &group]).status());
        drop(self.0.wait());
    }
}

/// Starts the server in a container. Returns it and its URL.
fn serve(images: &Images, config: &Path) -> (Running, String) {
    let mut command = images.contained(config);
    command.args(["serve", "--listen", "127.0.0.1:0"]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().expect("it is installed"));
    let mut said = Vec::new();
    for line in BufReader::new(running.0.stderr.take().expect("it is piped")).lines().map_while(Result::ok) {
        if let Some((_, address)) = line.split_once("listening on ") {
            return (running, address.to_owned());
        }
        said.push(line);
    }
    panic!("no server: {}", said.join("\n"));
}

/// The Containerfile's last stage is built unchanged. The first one needs a network, so we replace
/// its output.
#[tokio::test]
async fn the_image_serves_as_nobody_and_checks_itself() {
    let Some(images) = Images::find() else {
        println!("skipped: neither buildah nor podman is installed");
        return;
    };
    if !images.build(first_stage().path()) {
        return;
    }
    let config = config();
    let version = ran(images.contained(config.path()).arg("--version"));
    if !may(&version) {
        return;
    }
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("rowstream "), "{version:?}");
    let format = "{{.Docker.Config.User}} {{.Docker.Config.Healthcheck.Test}} {{.Docker.Config.Cmd}}";
    if images.engine == Engine::Buildah {
        let says = run(images.command().args(["inspect", "--type", "image", "--format", format, IMAGE]));
        assert_eq!(says.trim(), "65532:65532 [CMD /rowstream ready] [serve]");
    }
    // It could create its database, so it owns /var/lib/rowstream.
    let (server, url) = serve(&images, config.path());
    assert_eq!(get(&format!("{url}/t")).await.text(), "[{\"n\":7}]");
    let check = |url: &str| ran(images.contained(config.path()).args(["ready", url]));
    let ready = check(&url);
    assert_eq!((ready.status.code(), &*ready.stdout), (Some(0), &b"ready\n"[..]), "{ready:?}");
    drop(server);
    assert_eq!(check("http://127.0.0.1:1").status.code(), Some(1));
}

/// The files in the package's metadata, without built ones, which don't exist yet.
fn assets() -> Vec<PathBuf> {
    let manifest: toml::Table = read("Cargo.toml").parse().expect("TOML");
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().expect("a list").clone();
    let source = |asset: &toml::Value| PathBuf::from(asset[0].as_str().expect("a path"));
    assets.iter().map(source).filter(|path| !path.starts_with("target")).collect()
}

#[test]
fn the_debian_package_has_what_it_names() {
    for path in assets() {
        assert!(repository().join(&path).is_file(), "{}", path.display());
    }
    if !has("cargo-deb") || !has("dpkg-deb") {
        println!("skipped: cargo-deb is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy(program(), &folder.path().join("release/rowstream"));
    let package = folder.path().join("rowstream.deb");
    let mut command = Command::new("cargo-deb");
    command.args(["--no-build", "--no-strip", "--output"]).arg(&package).current_dir(repository());
    run(command.env("CARGO_TARGET_DIR", folder.path()));
    let files = run(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for file in [
        "./usr/bin/rowstream",
        "./usr/lib/systemd/system/rowstream.service",
        "./usr/lib/systemd/system/rowstream.socket",
        "./usr/share/doc/rowstream/copyright",
    ] {
        assert!(files.lines().any(|line| line.ends_with(file)), "{file}:\n{files}");
    }
    let depends = run(Command::new("dpkg-deb").arg("--field").arg(&package).arg("Depends"));
    assert!(depends.contains("libc6") && depends.contains("ca-certificates"), "{depends}");
}

/// Releases use the same compiler as the tests.
#[test]
fn releases_have_the_compiler_of_the_tests() {
    let toolchain: toml::Table = read("rust-toolchain.toml").parse().expect("TOML");
    let version = toolchain["toolchain"]["channel"].as_str().expect("a version");
    let (minor, _) = version.rsplit_once('.').expect("three numbers");
    assert!(read("Containerfile").contains(&format!("rust:{minor}-alpine")), "{version}");
    for workflow in WORKFLOWS {
        assert!(read(workflow).contains(&format!("rust:{minor}-bookworm")), "{workflow}: {version}");
    }
}

/// Local build output isn't sent to an image build.
#[test]
fn the_image_is_not_made_of_what_is_ignored() {
    let ignored = read(".dockerignore");
    for line in read(".gitignore").lines().chain(["/.git", "/rust-toolchain.toml"]) {
        assert!(ignored.lines().any(|one| one == line), "{line}");
    }
}

/// A release is complete: its files, the image and the packages are published only if all were built.
#[test]
fn everything_is_built_before_anything_is_published() {
    let release = read(".github/workflows/release.yml");
    let (_, jobs) = release.split_once("\njobs:\n").expect("jobs");
    let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ") && line.ends_with(':');
    let mut others: Vec<_> =
        jobs.lines().filter(is_name).map(|line| line.trim().trim_end_matches(':')).collect();
    for last in ["release", "publish", "image"] {
        assert_eq!(others.pop(), Some(last));
        let needs = format!("    needs: [{}]\n", others.join(", "));
        let (_, job) = jobs.split_once(&format!("  {last}:\n")).expect("the job");
        assert!(job.contains(&needs), "{last}: {needs}");
    }
}

/// An action's tag can be moved to other code, but a commit can't.
#[test]
fn actions_are_pinned_by_commit() {
    for workflow in WORKFLOWS {
        let text = read(workflow);
        let actions: Vec<_> = text.lines().filter_map(|line| line.split_once("uses: ")).collect();
        assert!(!actions.is_empty(), "{workflow}");
        for (_, action) in actions {
            let (_, pin) = action.split_once('@').expect("a version");
            let (commit, version) = pin.split_once(" # v").expect("the version in words");
            let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_commit && !version.is_empty(), "{workflow}: {action}");
        }
    }
}

/// Neither can an image's digest, and the images here build the release.
#[test]
fn images_that_build_are_pinned_by_digest() {
    for path in WORKFLOWS.into_iter().chain(["Containerfile"]) {
        let text = read(path);
        let image = text.split_whitespace().find(|word| word.contains("rust:1.")).expect("an image of Rust");
        let (_, digest) = image.split_once("@sha256:").expect("a digest");
        assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{path}");
    }
}

/// The scripts of a workflow: the text below `run:`.
fn scripts(workflow: &str) -> Vec<String> {
    let mut scripts = Vec::new();
    let mut lines = workflow.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((before, script)) = line.split_once("run: ") else { continue };
        if script != "|" {
            scripts.push(script.to_owned());
            continue;
        }
        let is_below = |line: &&str| line.trim().is_empty() || line.starts_with(&format!("{before}  "));
        let below: Vec<_> = std::iter::from_fn(|| lines.next_if(is_below)).collect();
        scripts.push(below.join("\n"));
    }
    scripts
}

#[test]
fn the_scripts_of_the_workflows_are_well_formed() {
    let scripts: Vec<_> = WORKFLOWS.iter().flat_map(|workflow| scripts(&read(workflow))).collect();
    assert!(scripts.len() > 9, "{scripts:?}");
    for script in scripts {
        // An expression of the workflow counts as a word.
        let (mut plain, mut rest) = (String::new(), script.as_str());
        while let Some((before, after)) = rest.split_once("${{") {
            plain.push_str(before);
            plain.push_str("word");
            rest = after.split_once("}}").expect("an end").1;
        }
        plain.push_str(rest);
        match Command::new("bash").args(["-n", "-c", &plain]).output() {
            Ok(ran) => assert!(ran.status.success(), "{plain}\n{}", String::from_utf8_lossy(&ran.stderr)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return println!("skipped: there is no bash");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
