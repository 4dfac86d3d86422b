//! Pinned packages of npm below `target/`, by a `package-lock.json` that has their hashes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::test::workspace;
use crate::{Result, installed, needs};

/// What pins the packages, in a folder of the repository.
const PINS: [&str; 2] = ["package.json", "package-lock.json"];

/// The path `product` in the folder in which npm installs what `PINNED/` lists; `finish` gets
/// the folder before it is used. Scripts of packages are not run.
pub(crate) fn prepare(
    target: &Path,
    (name, product): (&str, &str),
    pinned: &str,
    finish: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let pins = PINS.map(|name| workspace().join(pinned).join(name));
    installed::prepare(target, (name, product), &pins, |folder| {
        install(folder, &pins)?;
        finish(folder)
    })
}

fn install(folder: &Path, pins: &[PathBuf]) -> Result<()> {
    let cannot = |error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(cannot)?;
    for (pin, name) in pins.iter().zip(PINS) {
        fs::copy(pin, folder.join(name)).map_err(cannot)?;
    }
    let quietly = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1"];
    // What it says on standard output would stand among the variables that `cargo xtask pg` prints.
    needs::run(Command::new("npm").arg("ci").args(quietly).current_dir(folder).stdout(Stdio::null()))
}
