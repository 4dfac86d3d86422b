//! `cargo xtask reproducible`: builds the released program twice from the same commit in two
//! folders, and checks that the bytes are identical. So anyone with the source and the compiler can
//! verify the origin of a program.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test::workspace;
use crate::{Result, needs, target_folder};

/// The features of the Debian package in addition to the default ones.
pub(crate) const FEATURES: &str = "acme,adbc,discovery";
/// The source path that a released program contains.
const SOURCES: &str = "/rowstream";
const REGISTRY: &str = "/cargo";
/// Folders whose paths have different lengths.
const FOLDERS: [&str; 2] = ["one", "another/folder"];

/// Builds twice. Returns true if both programs are identical.
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

/// Builds the program from the last commit in a separate folder.
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

/// The folder with Cargo's sources of dependencies.
fn registry() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let default = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    home.or_else(default).ok_or_else(|| "neither CARGO_HOME nor HOME is set".into())
}
