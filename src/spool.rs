//! The parts of results that wait in this server: in memory up to a bound, then in a temporary
//! file.
//!
//! A result that has to be complete before its headers are sent waits [`whole`]. Chunks that a slow
//! client hasn't read yet are [spilled](spill). Both share the [files](mod@file) and their quota.
//! This module knows nothing about rows except their number.

pub(crate) mod file;
pub(crate) mod spill;
pub(crate) mod whole;

use std::path::PathBuf;

/// How results are spooled, both those that wait for their end and those that wait for their
/// client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolSettings {
    /// The longest result that may wait for its end, in bytes as they are sent; a longer one is a
    /// 507. It's also the most that may wait in a file for a stream's client.
    pub limit: u64,
    /// The bytes that all files together may have.
    pub quota: u64,
    /// The folder of the temporary files. `None`: the system's.
    pub folder: Option<PathBuf>,
}

impl Default for SpoolSettings {
    fn default() -> Self {
        Self { limit: 1 << 30, quota: 8 << 30, folder: None }
    }
}
