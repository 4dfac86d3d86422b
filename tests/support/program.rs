//! The repository, and its programs that tests start.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::SystemTime;

/// How to build the program of [`program`] without `cargo xtask test`.
const BUILD: &str = "cargo test --workspace --all-features --no-run";

/// The root of the repository.
pub fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|folder| folder.join("Cargo.lock").exists()).expect("the root has a Cargo.lock")
}

/// The `rowstream` of this build, which lies beside the folder of the test programs.
///
/// Cargo doesn't build it for a package of tests, so it may be missing or older than its source.
/// Both fail the test: a program of yesterday proves nothing.
pub fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let program = profile_folder().join("rowstream");
        if let Some(newer) = newer_source(&program) {
            let (program, newer) = (program.display(), newer.display());
            panic!("{program} is older than {newer}. Run `cargo xtask test`, or first `{BUILD}`");
        }
        program
    });
    &PROGRAM
}

/// The `rowstream` of the release build. The first call builds it, unless
/// `ROWSTREAM_TEST_RELEASE_BIN` names one.
pub fn release_program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        if let Some(given) = std::env::var_os("ROWSTREAM_TEST_RELEASE_BIN") {
            return given.into();
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--release", "--locked"]).current_dir(repository());
        // They describe the package of this test, and Cargo compiles ring again if they change.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_a_package(&name.to_string_lossy())) {
            build.env_remove(name);
        }
        let status = build.status().unwrap_or_else(|error| panic!("{build:?}: {error}"));
        assert!(status.success(), "{build:?}: {status}");
        profile_folder().with_file_name("release").join("rowstream")
    });
    &PROGRAM
}

/// True for the variables that describe the package that Cargo runs.
fn is_of_a_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// The folder of the build's profile: test programs are in `target/PROFILE/deps`.
fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this program");
    test.ancestors().nth(2).expect("a folder of the profile").to_owned()
}

/// A file of the program's source that has changed since the program was built. A `tests.rs` isn't
/// part of the program.
fn newer_source(program: &Path) -> Option<PathBuf> {
    let built = changed(program);
    let crates = std::fs::read_dir(repository().join("crates")).expect("the crates are there");
    let crates = crates.map(|folder| folder.expect("it can be listed").path().join("src"));
    let mut folders: Vec<PathBuf> = crates.chain([repository().join("src")]).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if is_source(&path) && changed(&path) > built {
                return Some(path);
            }
        }
    }
    None
}

fn is_source(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "rs") && !file.ends_with("tests.rs")
}

/// When a file changed. `None`, which is before any time, if there is no file.
fn changed(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok()
}
