//! Sail, an engine that speaks Arrow Flight SQL: pinned by version and hash, below `target/`. It
//! has a separate virtual environment, because its wheel is larger than all others.
//!
//! If it can't be installed (no Python, no package index, another processor), its tests are
//! skipped, and the summary reports that.

use std::path::{Path, PathBuf};

use crate::test::workspace;
use crate::{Result, installed, python};

/// Relative to the environment.
const PROGRAM: &str = "bin/sail";

/// Returns the program. Installs it if it's missing or differs from the pinned version.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let requirements = workspace().join("tests/sail/requirements.txt");
    let pins = std::slice::from_ref(&requirements);
    installed::prepare(target, ("test-sail", PROGRAM), pins, |folder| python::install(folder, &requirements))
}
