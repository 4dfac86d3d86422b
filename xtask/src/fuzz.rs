//! `cargo xtask fuzz`: libFuzzer searches for inputs that violate a property in `fuzz/`.
//!
//! It needs a nightly compiler and cargo-fuzz; no other command does. The tests run the kept inputs
//! without either.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use crate::steps::{Outcome, Steps};
use crate::test::workspace;
use crate::{Result, needs, target_folder};

/// The default time per property, in seconds.
const SECONDS: &str = "600";

/// The time limit of an input in seconds, and the memory limit of the process in MB. Exceeding
/// either is a finding too.
const LIMITS: [&str; 2] = ["-timeout=10", "-rss_limit_mb=512"];

/// The longest kept input, in bytes.
const LONGEST_KEPT: &str = "-max_len=1000";

/// The number of unnamed inputs kept per property. Inputs that a person named are extra.
const MOST_KEPT: usize = 48;

/// Fuzzes the named properties, or all, for the given seconds each. Returns true without findings.
pub(crate) fn run(words: &[&str]) -> Result<bool> {
    require()?;
    let (seconds, names) = match words.split_first() {
        Some((seconds, names)) if seconds.parse::<u64>().is_ok() => (*seconds, names),
        _ => (SECONDS, words),
    };
    let mut steps = Steps::default();
    for property in chosen(names)? {
        steps.run(&property.name, || Outcome::of_result(property.look(seconds)));
    }
    steps.print_summary();
    Ok(steps.all_passed())
}

/// Selects the inputs to keep, from the current ones and those that runs have found: a few that
/// together reach much code.
pub(crate) fn keep(names: &[&str]) -> Result<()> {
    require()?;
    chosen(names)?.iter().try_for_each(Property::keep)
}

/// The properties with these names, or all.
fn chosen(names: &[&str]) -> Result<Vec<Property>> {
    let all = properties()?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|property| property.name == **name)) {
        let known: Vec<_> = all.iter().map(|property| property.name.as_str()).collect();
        return Err(format!("there is no property {unknown}; there are {}", known.join(", ")));
    }
    let is_chosen = |property: &Property| names.is_empty() || names.contains(&property.name.as_str());
    Ok(all.into_iter().filter(is_chosen).collect())
}

fn properties() -> Result<Vec<Property>> {
    let folder = workspace().join("fuzz/fuzz_targets");
    let stem = |file: &PathBuf| Some(file.file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = files(&folder)?.iter().filter_map(stem).collect();
    names.sort_unstable();
    let target = target_folder()?;
    Ok(names.into_iter().map(|name| Property::new(name, &target)).collect())
}

/// A property and its inputs.
struct Property {
    name: String,
    /// The kept inputs.
    kept: PathBuf,
    /// The inputs that runs on this machine have found.
    found: PathBuf,
    dictionary: PathBuf,
}

impl Property {
    fn new(name: String, target: &Path) -> Self {
        let fuzz = workspace().join("fuzz");
        let dictionary = fuzz.join("dictionaries").join(&name).with_extension("dict");
        Self {
            kept: fuzz.join("corpus").join(&name),
            found: target.join("fuzz").join(&name),
            dictionary,
            name,
        }
    }

    /// libFuzzer writes new inputs into the first folder.
    fn look(&self, seconds: &str) -> Result<()> {
        let mut command = self.command([&self.found, &self.kept])?;
        command.arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
        if self.dictionary.is_file() {
            command.arg(format!("-dict={}", self.dictionary.display()));
        }
        needs::run(&mut command)
    }

    fn keep(&self) -> Result<()> {
        let merged = self.found.with_extension("merged");
        if merged.exists() {
            fs::remove_dir_all(&merged).map_err(|error| cannot(&merged, &error))?;
        }
        let mut command = self.command([&merged, &self.kept, &self.found])?;
        // Count only if code is reached, not how often. That needs few inputs.
        needs::run(command.args(["-set_cover_merge=1", "-use_counters=0", LONGEST_KEPT]))?;
        for old in files(&self.kept)?.into_iter().filter(|file| is_hash(file)) {
            fs::remove_file(&old).map_err(|error| cannot(&old, &error))?;
        }
        let mut chosen = files(&merged)?;
        // Larger ones reach more code.
        chosen.sort_by_cached_key(|file| Reverse(file.metadata().map_or(0, |data| data.len())));
        for file in chosen.iter().take(MOST_KEPT) {
            let kept = self.kept.join(file.file_name().unwrap_or_default());
            fs::copy(file, &kept).map_err(|error| cannot(&kept, &error))?;
        }
        Ok(())
    }

    fn command<const N: usize>(&self, folders: [&Path; N]) -> Result<Command> {
        for folder in folders {
            fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
        }
        let mut command = cargo_fuzz();
        // The only `unsafe` on these paths treats bytes as UTF-8, and the properties check that. A
        // sanitizer would find nothing else.
        command.args(["run", "--sanitizer", "none", &self.name]).args(folders).arg("--").args(LIMITS);
        // Link-time optimisation would remove libFuzzer's instrumentation.
        command.env("CARGO_PROFILE_RELEASE_LTO", "off");
        Ok(command)
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| cannot(folder, &error))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

/// Returns true if libFuzzer named the file, after its SHA-1.
fn is_hash(file: &Path) -> bool {
    let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn cannot(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// cargo-fuzz of the nightly compiler, in the root of the workspace.
fn cargo_fuzz() -> Command {
    let mut command = nightly("cargo");
    command.arg("fuzz").current_dir(workspace());
    command
}

fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    // These variables are the stable compiler's, whose cargo runs this program.
    command.args(["run", "nightly", program]).env_remove("CARGO").env_remove("RUSTC");
    command
}

fn require() -> Result<()> {
    let is_here =
        |mut command: Command| command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let tools = [
        (nightly("rustc"), "rustup toolchain install nightly --profile minimal"),
        (cargo_fuzz(), "cargo install cargo-fuzz"),
    ];
    let missing = tools.into_iter().filter_map(|(command, how)| {
        let here = is_here(command).is_ok_and(|status| status.success());
        (!here).then(|| format!("  {how}\n"))
    });
    let missing: String = missing.collect();
    match missing.as_str() {
        "" => Ok(()),
        _ => Err(format!(
            "Fuzzing needs a nightly compiler, cargo-fuzz and a C++ compiler. Install what is not here with\n{missing}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_chosen_by_their_names() {
        let names = |names: &[&str]| -> Result<Vec<String>> {
            Ok(chosen(names)?.into_iter().map(|property| property.name).collect())
        };
        let all = names(&[]).unwrap();
        assert!(all.is_sorted() && all.iter().any(|name| name == "json"), "{all:?}");
        assert_eq!(names(&["sql", "json"]).unwrap(), ["json", "sql"]);
        assert!(
            is_hash(Path::new("a/0123456789abcdef0123456789abcdef01234567")) && !is_hash(Path::new("a/seed"))
        );
        assert!(names(&["json", "x"]).unwrap_err().contains("no property x; there are arrow, "));
    }
}
