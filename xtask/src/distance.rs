//! Whether two places far from each other can be made on this machine: a network namespace for
//! each, and a TUN device in it.
//!
//! Where they cannot (not as root, or in a container that may not administer its network), the
//! tests with them are skipped, and the summary says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, needs};

const DEVICE: &str = "/dev/net/tun";

/// The device that gives packets to programs, once it was seen to work.
pub(crate) fn prepare(_: &Path) -> Result<PathBuf> {
    let probe = ["--net", "ip", "tuntap", "add", "dev", "probe", "mode", "tun"];
    needs::run(Command::new("unshare").args(probe))?;
    Ok(DEVICE.into())
}
