//! The packages that the console is built of and checked with: pinned, from npm, below `target/`.
//!
//! Where they are not to be had (no npm, no package index), the test that builds the console anew
//! is skipped, and so is that of its accessibility; the summary says so.

use std::path::{Path, PathBuf};

use crate::{Result, npm};

/// The folder of the packages; installs them where they are missing or others than pinned.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    npm::prepare(target, ("test-console", "node_modules"), "console", |_| Ok(()))
}
