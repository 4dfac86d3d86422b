//! `cargo xtask compare`: provides a PostgreSQL, a MariaDB and the release binary, and runs the
//! comparisons (`benches/compare`) with them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mariadb::MariaDb;
use crate::postgres::Postgres;
use crate::test::{cargo, workspace};
use crate::{Result, duckdb, needs, python, reproducible, sail, target_folder};

type Prepare = fn(&Path) -> Result<PathBuf>;

/// Programs that some rows need, each with the variable for its path. A row without its program is
/// left out.
const EXTRAS: [(&str, Prepare); 3] = [
    ("ROWSTREAM_TEST_PYTHON", python::prepare),
    ("ROWSTREAM_TEST_DUCKDB", duckdb::prepare),
    ("ROWSTREAM_TEST_SAIL", sail::prepare),
];

/// Runs the comparisons. With `--install`, installs the compared programs first.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (install, mut words): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| **word == "--install");
    if !install.is_empty() {
        needs::install_compared()?;
    }
    let profile = option(&mut words, "--profile")?.unwrap_or("dist");
    let beside = option(&mut words, "--beside")?;
    if beside.is_none() && profile != "dist" {
        return Err("--profile needs --beside, because only released programs are published".into());
    }
    let mut command = cargo();
    command.args(["run", "--release", "--locked", "--quiet", "--package", "compare", "--"]).args(&words);
    if words.first() == Some(&"report") {
        return needs::run(&mut command);
    }
    let target = target_folder()?;
    match beside {
        // Both with the default features, as an older version may not know the others.
        Some(commit) => {
            command.arg("--beside").arg(older(commit, profile, &target)?);
            needs::run(cargo().args(["build", "--profile", profile, "--locked"]))?;
        }
        None => {
            let features = ["--features", reproducible::FEATURES];
            needs::run(cargo().args(["build", "--profile", profile, "--locked"]).args(features))?;
        }
    }
    command.env("ROWSTREAM_COMPARE_PROGRAM", target.join(profile).join("rowstream"));
    let postgres = Postgres::start(&target)?;
    let mariadb = MariaDb::start(&target)?;
    for (variable, prepare) in EXTRAS {
        match prepare(&target) {
            Ok(place) => {
                command.env(variable, place);
            }
            Err(message) => eprintln!("{message}"),
        }
    }
    // Processes below this one are measured. All others disturb the measurement.
    command.env("ROWSTREAM_COMPARE_ROOT", std::process::id().to_string());
    needs::run(command.envs(postgres.environment()).envs(mariadb.environment()))
}

/// Takes an option and its value out of the words.
fn option<'a>(words: &mut Vec<&'a str>, name: &str) -> Result<Option<&'a str>> {
    let Some(at) = words.iter().position(|word| *word == name) else { return Ok(None) };
    words.remove(at);
    if at == words.len() {
        return Err(format!("{name} needs a value"));
    }
    Ok(Some(words.remove(at)))
}

/// Builds an older commit in a clone of its own, and returns its program.
fn older(commit: &str, profile: &str, target: &Path) -> Result<PathBuf> {
    let folder = target.join("compare/older");
    if !folder.exists() {
        needs::run(Command::new("git").args(["clone", "--quiet"]).args([workspace(), &folder]))?;
    }
    let git = |arguments: &[&str]| needs::run(Command::new("git").args(arguments).current_dir(&folder));
    let mut name = Command::new("git");
    name.args(["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")]).current_dir(workspace());
    let output = name.output().map_err(|error| format!("cannot run git: {error}"))?;
    let hash = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if hash.is_empty() {
        return Err(format!("there is no commit {commit}"));
    }
    println!("the older version is {hash}");
    git(&["fetch", "--quiet", "origin"])?;
    git(&["checkout", "--quiet", "--detach", &hash])?;
    let mut build = cargo();
    build.args(["build", "--profile", profile, "--locked"]).current_dir(&folder);
    needs::run(build.env("CARGO_TARGET_DIR", folder.join("target")))?;
    Ok(folder.join("target").join(profile).join("rowstream"))
}
