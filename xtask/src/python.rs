//! pyarrow, polars and duckdb, which read our Arrow in a test: pinned versions in a virtual environment below `target/`.
//!
//! Where they are not to be had (no Python, no package index), that test is skipped, and the summary says so.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test::workspace;
use crate::{Result, needs};

/// Debian's package without which its Python makes no virtual environments.
const PACKAGE: &str = "python3-venv";

/// The Python that has the libraries; installs them where they are missing or others than the test wants.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let requirements = workspace().join("tests/readers/requirements.txt");
    let read = |path: &Path| fs::read(path).map_err(|fault| format!("{}: {fault}", path.display()));
    let wanted = read(&requirements)?;
    let folder = target.join("test-python");
    let _lock = lock(&target.join("test-python.lock"))?;
    let (python, made) = (folder.join("bin/python"), folder.join("made-of.txt"));
    if read(&made).is_ok_and(|made| made == wanted) && python.exists() {
        return Ok(python);
    }
    eprintln!("installing the libraries of {}", requirements.display());
    make(&folder)?;
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "2"];
    let install = ["install", "--only-binary", ":all:", "--requirement"];
    needs::run(Command::new(&python).args(pip).args(install).arg(&requirements))?;
    // Last, so that what is half there is made anew.
    fs::write(&made, wanted).map_err(|fault| format!("{}: {fault}", made.display()))?;
    Ok(python)
}

/// An empty environment in the place of what is there.
fn make(folder: &Path) -> Result<()> {
    let make = || needs::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder));
    make().or_else(|message| match needs::is_root() && needs::find("apt-get").is_some() {
        true => needs::install(&[PACKAGE]).and_then(|()| make()),
        false => Err(format!("{message}\nInstall it with\n  sudo apt-get install {PACKAGE}")),
    })
}

/// Held until it is dropped: several runs may go on at once.
fn lock(path: &Path) -> Result<File> {
    let cannot = |fault| format!("{}: {fault}", path.display());
    let file = File::create(path).map_err(cannot)?;
    file.lock().map_err(cannot)?;
    Ok(file)
}
