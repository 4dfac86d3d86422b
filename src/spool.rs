//! What of a result waits in this server: in memory up to a bound, then in a temporary file.
//!
//! A result that waits for its end, before its head is sent, waits [`whole`]. What a slow client
//! has not taken yet is [spilled](spill). Both share the [files](mod@file) and their quota. Nothing
//! here knows of rows but their number.

pub(crate) mod file;
pub(crate) mod spill;
pub(crate) mod whole;

use std::path::PathBuf;

/// How results are spooled: those that wait for their end, and those that wait for their client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spooling {
    /// The longest result that waits for its end, in bytes as they are sent, beyond: 507; and the
    /// most that waits of one for its client.
    pub limit: u64,
    /// What all of them may take together in files, in bytes.
    pub quota: u64,
    /// The folder of the temporary files; `None`: the system's.
    pub folder: Option<PathBuf>,
}

impl Default for Spooling {
    fn default() -> Self {
        Self { limit: 1 << 30, quota: 8 << 30, folder: None }
    }
}
