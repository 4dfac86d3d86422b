//! DuckDB's library, which the tests of drivers load: pinned, from npm, below `target/`.
//!
//! Where it is not to be had (no npm, no package index, another processor), those tests are skipped,
//! and the summary says so.

use std::path::{Path, PathBuf};

use crate::{Result, npm};

/// The library, from the folder in which npm installs.
const LIBRARY: &str = "node_modules/@duckdb/node-bindings-linux-x64/libduckdb.so";

/// The path of the library; installs it where it is missing or another than pinned.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    npm::prepare(target, ("test-duckdb", LIBRARY), "xtask/duckdb", |_| Ok(()))
}
