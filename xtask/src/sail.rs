//! Sail, an engine that speaks Arrow Flight SQL: in a virtual environment of its own below
//! `target/`, pinned by version and hash, as its wheel is larger than all others.
//!
//! Where it is not to be had (no Python, no package index, another processor), its tests are
//! skipped, and the summary says so.

use std::path::{Path, PathBuf};

use crate::test::workspace;
use crate::{Result, installed, python};

/// In the environment.
const PROGRAM: &str = "bin/sail";

/// The program; installs it where it is missing or another than pinned.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let requirements = workspace().join("tests/sail/requirements.txt");
    let pins = std::slice::from_ref(&requirements);
    installed::prepare(target, ("test-sail", PROGRAM), pins, |folder| python::install(folder, &requirements))
}
