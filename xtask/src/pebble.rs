//! Pebble, the authority that clients of ACME are tested with: pinned, from the Go module proxy,
//! below `target/`, with the DNS that it asks.
//!
//! Where it is not to be had (no Go, no module proxy), the tests with it are skipped, and the summary
//! says so.

use std::path::{Path, PathBuf};

use crate::test::workspace;
use crate::{Result, installed, needs};

const PROGRAMS: [&str; 2] = [
    "github.com/letsencrypt/pebble/v2/cmd/pebble",
    "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv",
];
/// Its version, and nothing else.
const VERSION: &str = "tests/authorities/pebble.txt";

/// The path of the program; builds it where it is missing or another than pinned.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let pin = workspace().join(VERSION);
    installed::prepare(target, ("test-pebble", "pebble"), std::slice::from_ref(&pin), |folder| {
        needs::go_install(&PROGRAMS, &pin, folder)
    })
}
