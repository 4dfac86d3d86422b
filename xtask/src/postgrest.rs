//! PostgREST's JavaScript client for a test: pinned, from npm, below `target/`.
//!
//! If it can't be installed (no npm, no package index), that test is skipped, and the summary
//! reports that.

use std::path::{Path, PathBuf};

use crate::{Result, npm};

/// Returns the folder of the packages. Installs them if they're missing or differ from the pinned
/// ones.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    npm::prepare(target, ("test-postgrest", "node_modules"), "xtask/postgrest", |_| Ok(()))
}
