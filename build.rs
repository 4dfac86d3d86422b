//! Adds the commit to `rowstream -V`, if git knows it.
//!
//! This applies only to release builds, because a development build would be recompiled after each
//! commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut version = env!("CARGO_PKG_VERSION").to_owned();
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && let Some(commit) = git(&["log", "-1", "--format=%h %cs"])
    {
        version = format!("{version} ({commit})");
        // Each change of HEAD is recorded in this file.
        if let Some(log) =
            git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists())
        {
            println!("cargo::rerun-if-changed={log}");
        }
    }
    println!("cargo::rustc-env=ROWSTREAM_VERSION={version}");
}

/// The output of git about this package's repository. `None` outside of it, for example in a crate
/// from a registry that's inside another repository.
fn git(arguments: &[&str]) -> Option<String> {
    let run = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let root = run(&["rev-parse", "--show-toplevel"])?;
    let own = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    (Path::new(&root).canonicalize().ok()? == Path::new(&own).canonicalize().ok()?).then(|| run(arguments))?
}
