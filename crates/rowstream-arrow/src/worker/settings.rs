//! The settings of a source that only drivers (ADBC, ODBC) have.

use std::ops::RangeInclusive;

use rowstream_core::diagnostic::reader::{Value, set};
use rowstream_database::{Elsewhere, OwnSetting};

/// The size of a driver's batch of rows, in bytes. With smaller batches, a fetch returns few rows.
/// With larger ones, a few streams fill the memory of their driver process.
const BATCHES: RangeInclusive<usize> = 4 << 10..=64 << 20;

pub(super) const FETCH_BYTES: OwnSetting = OwnSetting {
    name: "fetch_bytes",
    read: |value, _, settings| set(&mut settings.fetch_bytes, read_batch(value)),
    elsewhere: Elsewhere::IgnoredIfChosen,
    hint: "leave it out; `fetch_rows` says how many rows PostgreSQL sends at once",
};

pub(super) const WORKER_MEMORY: OwnSetting = OwnSetting {
    name: "worker_memory",
    read: |value, _, settings| set(&mut settings.worker_memory, value.size()),
    elsewhere: Elsewhere::IgnoredIfChosen,
    hint: "leave it out",
};

/// The longest batch of a driver, in bytes.
fn read_batch(value: &Value<'_>) -> Option<usize> {
    let bytes = value.size()?;
    if !BATCHES.contains(&bytes) {
        value.error_with(
            "`fetch_bytes` is between 4KiB and 64MiB",
            "write `fetch_bytes = \"1MiB\"`, or leave it out, which is the same",
        );
        return None;
    }
    Some(bytes)
}
