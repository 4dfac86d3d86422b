//! Java servers that speak PostgreSQL's protocol but aren't PostgreSQL, and the JSON parser of the
//! client in Java: pinned, from Maven, below `target/`.
//!
//! If they can't be installed (no JDK, no Maven, no package index), their tests are skipped, and
//! the summary reports that.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test::workspace;
use crate::{Result, installed, needs};

const ARTIFACTS: [&str; 3] =
    ["com.h2database:h2:2.3.232", "org.questdb:questdb:9.2.2", "com.google.code.gson:gson:2.11.0"];
/// The Maven plugin that copies an artifact from Maven's own folder.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy";
pub(crate) const SUMS: &str = "SHA256SUMS";

/// Returns the folder of the jars. Installs them if they're missing or differ from the pinned ones.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    if needs::find("javac").is_none() {
        return Err("there is no JDK".into());
    }
    let pins = [workspace().join("xtask/jars").join(SUMS)];
    installed::prepare(target, ("test-jars", ""), &pins, |folder| install(&ARTIFACTS, folder, &pins[0]))
}

/// Copies artifacts to a folder, and compares them with their pinned sums.
pub(crate) fn install(artifacts: &[&str], folder: &Path, sums: &Path) -> Result<()> {
    for artifact in artifacts {
        let mut maven = Command::new("mvn");
        maven.args(["--batch-mode", "--quiet", COPY, &format!("-Dartifact={artifact}")]);
        // Maven's standard output would be mixed into the variables that `cargo xtask pg` prints.
        needs::run(maven.arg(format!("-DoutputDirectory={}", folder.display())).stdout(std::io::stderr()))?;
    }
    needs::run(
        Command::new("sha256sum").args(["--check", "--quiet", "--strict"]).arg(sums).current_dir(folder),
    )
}
