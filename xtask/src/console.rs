//! The npm packages that build and check the console, pinned, below `target/`.
//!
//! If they can't be installed (no npm, no package index), two tests are skipped: the one that
//! rebuilds the console, and the one for its accessibility. The summary reports that.

use std::path::{Path, PathBuf};

use crate::{Result, npm};

/// Returns the folder of the packages. Installs them if they're missing or differ from the pinned
/// ones.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    npm::prepare(target, ("test-console", "node_modules"), "console", |_| Ok(()))
}
