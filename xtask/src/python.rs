//! pyarrow, polars and duckdb, which read our Arrow streams in a test: in a virtual environment
//! below `target/`, pinned by version and hash. So an index can't substitute another file.
//!
//! If they can't be installed (no Python, no package index), that test is skipped, and the summary
//! reports that.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test::workspace;
use crate::{Result, installed, needs};

/// The Debian package that Python's virtual environments need.
const PACKAGE: &str = "python3-venv";
/// Relative to the environment.
const PYTHON: &str = "bin/python";

/// Returns the Python with the libraries. Installs them if they're missing or differ from the
/// pinned ones.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let requirements = workspace().join("tests/readers/requirements.txt");
    let pins = std::slice::from_ref(&requirements);
    installed::prepare(target, ("test-python", PYTHON), pins, |folder| install(folder, &requirements))
}

/// Replaces the folder by a virtual environment with the requirements.
pub(crate) fn install(folder: &Path, requirements: &Path) -> Result<()> {
    make(folder)?;
    let mut python = Command::new(folder.join(PYTHON));
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "2"];
    let install = ["install", "--require-hashes", "--only-binary", ":all:", "--requirement"];
    needs::run(python.args(pip).args(install).arg(requirements))
}

/// Replaces the folder by an empty environment.
fn make(folder: &Path) -> Result<()> {
    let make = || needs::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder));
    make().or_else(|message| match needs::is_root() && needs::find("apt-get").is_some() {
        true => needs::install(&[PACKAGE]).and_then(|()| make()),
        false => Err(format!("{message}\nInstall it with\n  sudo apt-get install {PACKAGE}")),
    })
}
