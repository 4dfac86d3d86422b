//! Pinned npm packages below `target/`, by a `package-lock.json` with their hashes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::test::workspace;
use crate::{Result, installed, needs};

/// The files that pin the packages, in a folder of the repository.
const PINS: [&str; 2] = ["package.json", "package-lock.json"];

/// Returns the path `product` in the folder where npm installs the packages of `PINNED/`. `finish`
/// gets the folder before it's used. Scripts of packages don't run.
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
    // npm's standard output would be mixed into the variables that `cargo xtask pg` prints.
    needs::run(Command::new("npm").arg("ci").args(quietly).current_dir(folder).stdout(Stdio::null()))
}
