//! Pebble, the authority for testing ACME clients, with its DNS server: pinned, from the Go module
//! proxy, below `target/`.
//!
//! If it can't be installed (no Go, no module proxy), its tests are skipped, and the summary
//! reports that.

use std::path::{Path, PathBuf};

use crate::test::workspace;
use crate::{Result, installed, needs};

const PROGRAMS: [&str; 2] = [
    "github.com/letsencrypt/pebble/v2/cmd/pebble",
    "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv",
];
/// A file that contains only its version.
const VERSION: &str = "tests/authorities/pebble.txt";

/// Returns the path of the program. Builds it if it's missing or differs from the pinned version.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let pin = workspace().join(VERSION);
    installed::prepare(target, ("test-pebble", "pebble"), std::slice::from_ref(&pin), |folder| {
        needs::go_install(&PROGRAMS, &pin, folder)
    })
}
