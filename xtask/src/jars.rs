//! Servers in Java that speak PostgreSQL's protocol and are none: pinned, from Maven, below
//! `target/`.
//!
//! Where they are not to be had (no Java, no Maven, no package index), the tests of them are
//! skipped, and the summary says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test::workspace;
use crate::{Result, installed, needs};

const ARTIFACTS: [&str; 2] = ["com.h2database:h2:2.3.232", "org.questdb:questdb:9.2.2"];
/// What copies an artifact out of Maven's own folder.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy";
const SUMS: &str = "SHA256SUMS";

/// The folder of the jars; installs them where they are missing or others than pinned.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    if needs::find("java").is_none() {
        return Err("there is no Java".into());
    }
    let pins = [workspace().join("xtask/jars").join(SUMS)];
    installed::prepare(target, ("test-jars", ""), &pins, |folder| install(folder, &pins[0]))
}

fn install(folder: &Path, sums: &Path) -> Result<()> {
    for artifact in ARTIFACTS {
        let mut maven = Command::new("mvn");
        maven.args(["--batch-mode", "--quiet", COPY, &format!("-Dartifact={artifact}")]);
        // What it says on standard output would stand among the variables that `cargo xtask pg`
        // prints.
        needs::run(maven.arg(format!("-DoutputDirectory={}", folder.display())).stdout(std::io::stderr()))?;
    }
    needs::run(
        Command::new("sha256sum").args(["--check", "--quiet", "--strict"]).arg(sums).current_dir(folder),
    )
}
