//! pyarrow, polars and duckdb, which read our Arrow in a test: in a virtual environment below
//! `target/`, pinned by version and hash. An index cannot give another file for either.
//!
//! Where they are not to be had (no Python, no package index), that test is skipped, and the
//! summary says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test::workspace;
use crate::{Result, installed, needs};

/// Debian's package without which its Python makes no virtual environments.
const PACKAGE: &str = "python3-venv";
/// In the environment.
const PYTHON: &str = "bin/python";

/// The Python that has the libraries; installs them where they are missing or others than the test
/// wants.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let requirements = workspace().join("tests/readers/requirements.txt");
    let pins = std::slice::from_ref(&requirements);
    installed::prepare(target, ("test-python", PYTHON), pins, |folder| install(folder, &requirements))
}

/// A virtual environment in the place of what is there, with what the requirements list.
pub(crate) fn install(folder: &Path, requirements: &Path) -> Result<()> {
    make(folder)?;
    let mut python = Command::new(folder.join(PYTHON));
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "2"];
    let install = ["install", "--require-hashes", "--only-binary", ":all:", "--requirement"];
    needs::run(python.args(pip).args(install).arg(requirements))
}

/// An empty environment in the place of what is there.
fn make(folder: &Path) -> Result<()> {
    let make = || needs::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder));
    make().or_else(|message| match needs::is_root() && needs::find("apt-get").is_some() {
        true => needs::install(&[PACKAGE]).and_then(|()| make()),
        false => Err(format!("{message}\nInstall it with\n  sudo apt-get install {PACKAGE}")),
    })
}
