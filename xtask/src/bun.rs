//! Bun for tests of the JavaScript client: pinned, from npm, below `target/`.
//!
//! If it can't be installed (no npm, no package index, another processor), those tests are skipped,
//! and the summary reports that.

use std::path::{Path, PathBuf};

use crate::{Result, npm};

/// The path of the program, relative to npm's folder.
const PROGRAM: &str = "node_modules/@oven/bun-linux-x64-baseline/bin/bun";

/// Returns the program's path. Installs it if it's missing or differs from the pinned one.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    npm::prepare(target, ("test-bun", PROGRAM), "xtask/bun", |_| Ok(()))
}
