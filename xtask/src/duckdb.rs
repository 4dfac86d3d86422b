//! DuckDB's library for the driver tests: pinned, from npm, below `target/`.
//!
//! If it can't be installed (no npm, no package index, another processor), those tests are skipped,
//! and the summary reports that.

use std::path::{Path, PathBuf};

use crate::{Result, npm};

/// The path of the library, relative to npm's folder.
const LIBRARY: &str = "node_modules/@duckdb/node-bindings-linux-x64/libduckdb.so";

/// Returns the library's path. Installs it if it's missing or differs from the pinned one.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    npm::prepare(target, ("test-duckdb", LIBRARY), "xtask/duckdb", |_| Ok(()))
}
