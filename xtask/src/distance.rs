//! Checks if this machine can simulate two distant hosts: a network namespace for each, with a TUN
//! device.
//!
//! If it can't (without root, or in a container without network administration), the tests that
//! need them are skipped, and the summary reports that.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, needs};

const DEVICE: &str = "/dev/net/tun";

/// Returns the device that passes packets to programs, after a test.
pub(crate) fn prepare(_: &Path) -> Result<PathBuf> {
    let probe = ["--net", "ip", "tuntap", "add", "dev", "probe", "mode", "tun"];
    needs::run(Command::new("unshare").args(probe))?;
    Ok(DEVICE.into())
}
