//! `cargo xtask reproducible`: the released program, built twice from the same commit in two
//! folders, is the same to the byte. So whoever has its source and its compiler can see that a
//! program was made of nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test::workspace;
use crate::{Result, needs, target_folder};

/// The features of the Debian package beside the default ones.
pub(crate) const FEATURES: &str = "acme,adbc,discovery";
/// Where the sources of a program stand that is released, as far as it can tell.
const SOURCES: &str = "/rowstream";
const REGISTRY: &str = "/cargo";
/// Folders whose paths have different lengths.
const FOLDERS: [&str; 2] = ["one", "another/folder"];

/// Builds twice. True if both programs are the same.
pub(crate) fn run() -> Result<bool> {
    let scratch = target_folder()?.join("reproducible");
    let programs = FOLDERS.map(|name| build(&scratch.join(name)));
    let [one, other] = programs;
    let (one, other) = (one?, other?);
    let is_same = std::fs::read(&one).ok() == std::fs::read(&other).ok();
    needs::run(Command::new("sha256sum").args([&one, &other]))?;
    println!("{}", if is_same { "both are the same" } else { "they differ" });
    Ok(is_same)
}

/// Builds the program of the last commit in a folder of its own.
fn build(folder: &Path) -> Result<PathBuf> {
    let cannot = |error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(cannot)?;
    }
    needs::run(Command::new("git").args(["clone", "--quiet"]).args([workspace(), folder]))?;
    let mut cargo = crate::test::cargo();
    cargo.args(["build", "--quiet", "--profile", "dist", "--locked", "--package", "rowstream"]);
    cargo.args(["--features", FEATURES]).current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target"));
    let registry = registry()?;
    let from = [(folder, SOURCES), (registry.as_path(), REGISTRY)];
    let flags =
        |option: &str| from.map(|(path, name)| format!("{option}={}={name}", path.display())).join(" ");
    cargo.env("RUSTFLAGS", flags("--remap-path-prefix")).env("CFLAGS", flags("-ffile-prefix-map"));
    needs::run(cargo.env_remove("CARGO_INCREMENTAL"))?;
    Ok(folder.join("target/dist/rowstream"))
}

/// Where Cargo keeps the sources of dependencies.
fn registry() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let default = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    home.or_else(default).ok_or_else(|| "neither CARGO_HOME nor HOME is set".into())
}
