//! Paths: the repository's folders, and Cargo's target folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

/// The folder for everything that we build or write, except the runs: `target/compare`.
pub(crate) fn scratch() -> Result<PathBuf> {
    let folder = target()?.join("compare");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    Ok(folder)
}

/// Cargo's target folder, even if it was moved: this program is in `target/PROFILE/`.
fn target() -> Result<PathBuf> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    // A test program is one folder deeper, in `deps`.
    let mut folders = program.ancestors().skip(1).filter(|folder| !folder.ends_with("deps"));
    Ok(folders.nth(1).ok_or("this program is not in a target folder")?.to_path_buf())
}

/// The measured Rowstream.
pub(crate) fn rowstream() -> Result<PathBuf> {
    let program = std::env::var_os("ROWSTREAM_COMPARE_PROGRAM").map(PathBuf::from);
    program
        .filter(|program| program.is_file())
        .ok_or("there is no program: call `cargo xtask compare`".into())
}

/// The trimmed output of a program. `None` if it doesn't exist or fails.
pub(crate) fn output_of(words: &[&str]) -> Option<String> {
    let output = Command::new(words.first()?).args(&words[1..]).current_dir(root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The path of a program, if it's in `PATH` or in the system's folders.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].into_iter().map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Reads a file that must exist.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Writes a file, and creates its folders.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let cannot = |error| format!("cannot write {}: {error}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(cannot)?;
    std::fs::write(path, text).map_err(cannot)
}
