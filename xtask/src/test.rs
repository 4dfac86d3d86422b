//! `cargo xtask test`: what the README, CONTRIBUTING.md and CI call.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::instructions::Mode;
use crate::postgres::Postgres;
use crate::steps::{Outcome, Steps};
use crate::{Result, instructions, needs, newer, python, target_folder};

const NO_PYTHON: &str = "they cannot be installed here, so no test reads our Arrow with them";
const NO_NEWER: &str = "it cannot be installed here, so the tests run against the system's PostgreSQL alone";

/// Runs all steps, or with a filter those that a test of that name needs. True if all passed.
pub(crate) fn run(filters: &[&str]) -> Result<bool> {
    needs::require()?;
    let target = target_folder()?;
    let mut steps = Steps::default();
    let mut counts = Counts::default();
    let (mut python, mut newer) = (None, None);
    if filters.is_empty() {
        steps.run("formatting", || Outcome::of(cargo().args(["fmt", "--all", "--check"])));
        steps.run("clippy", clippy);
    }
    steps.run("release build", || Outcome::of(cargo().args(["build", "--release", "--locked"])));
    steps.run("Python's libraries", || obtain(python::prepare(&target), &mut python, NO_PYTHON));
    steps.run("a newer PostgreSQL", || obtain(newer::prepare(&target), &mut newer, NO_NEWER));
    steps.run("tests", || {
        tests(all(filters, python.as_deref()), &target, Postgres::start(&target), &mut counts)
    });
    if let Some(bin) = newer {
        steps.run("tests of PostgreSQL, with the newer one", || {
            tests(
                of_postgres(filters, python.as_deref()),
                &target,
                Postgres::start_from(&bin, &target),
                &mut counts,
            )
        });
    }
    if filters.is_empty() {
        steps.run("instructions", instructions);
        steps.run("documentation", documentation);
        steps.run("dependencies", dependencies);
    }
    steps.print_summary();
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
    Ok(steps.all_passed())
}

/// The cargo that runs us, in the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    command
}

/// The root of the workspace.
pub(crate) fn workspace() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

fn clippy() -> Outcome {
    let arguments = ["clippy", "--workspace", "--all-features", "--all-targets", "--locked"];
    Outcome::of(cargo().args(arguments).args(["--", "-D", "warnings"]))
}

/// Keeps what was installed for tests; those that need it are left out where it cannot be had.
fn obtain(prepared: Result<PathBuf>, place: &mut Option<PathBuf>, without: &'static str) -> Outcome {
    match prepared {
        Ok(prepared) => {
            *place = Some(prepared);
            Outcome::Passed
        }
        Err(message) => {
            eprintln!("{message}");
            Outcome::Skipped(without)
        }
    }
}

/// The hot paths against their base line, which holds for one kind of processor.
fn instructions() -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        return Outcome::Skipped("the base line is of x86-64");
    }
    match instructions::run(Mode::Compare) {
        Ok(true) => Outcome::Passed,
        Ok(false) => Outcome::Failed,
        Err(message) => Outcome::of_result(Err(message)),
    }
}

/// With private items: those who read it work on the code. Links to them are then no fault, and are checked like all others.
fn documentation() -> Outcome {
    let arguments =
        ["doc", "--workspace", "--all-features", "--no-deps", "--document-private-items", "--locked"];
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    Outcome::of(cargo().args(arguments).env("RUSTDOCFLAGS", flags))
}

/// Licences, bans and sources need nothing but the lock file. Advisories need a copy of their database, which
/// `cargo deny fetch` gets: they are checked where it is, so that a run needs no network and no one day breaks old commits.
fn dependencies() -> Outcome {
    let installed =
        Command::new("cargo-deny").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        return Outcome::Skipped("cargo-deny is not installed");
    }
    let mut command = cargo();
    command.args(["deny", "--offline", "--locked", "--workspace", "check", "licenses", "bans", "sources"]);
    if advisory_database().is_some_and(|folder| folder.is_dir()) {
        command.arg("advisories");
    }
    Outcome::of(&mut command)
}

/// Where cargo-deny keeps the databases that it fetched.
fn advisory_database() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")))?;
    Some(home.join("advisory-dbs"))
}

/// All tests.
fn all(filters: &[&str], python: Option<&Path>) -> Command {
    cargo_test(&[], filters, python)
}

/// The modules of tests in which another version of PostgreSQL could make a difference.
const OF_POSTGRES: [&str; 3] = ["postgres_", "strings::", "python::"];

/// The tests of [`OF_POSTGRES`]; with filters those that they name, whatever their modules, for
/// test programs cannot ask for both.
fn of_postgres(filters: &[&str], python: Option<&Path>) -> Command {
    let filters = if filters.is_empty() { &OF_POSTGRES } else { filters };
    cargo_test(&["--test", "it"], filters, python)
}

/// Tests of the workspace; always with the same options, so that nothing is compiled twice. Those that call Python are run where it
/// has its libraries.
fn cargo_test(which: &[&str], filters: &[&str], python: Option<&Path>) -> Command {
    let mut command = cargo();
    command.args(["test", "--workspace", "--all-features", "--locked", "--no-fail-fast"]).args(which);
    command.arg("--").args(filters);
    match python {
        Some(python) => command.env("ROWSTREAM_TEST_PYTHON", python),
        None => command.args(["--skip", "python_reads_"]),
    };
    command
}

/// Tests against a PostgreSQL of their own.
fn tests(command: Command, target: &Path, postgres: Result<Postgres>, counts: &mut Counts) -> Outcome {
    let outcome = match postgres {
        Ok(postgres) => Outcome::of_result(run_tests(command, target, &postgres, counts)),
        Err(message) => Outcome::of_result(Err(message)),
    };
    // Tests that did not compile, or a test program that crashed, leave no line to be counted.
    if outcome == Outcome::Failed {
        counts.failed = counts.failed.max(1);
    }
    outcome
}

/// Gives tests their PostgreSQL, and the programs that they run.
pub(crate) fn give(command: &mut Command, target: &Path, postgres: &Postgres) {
    // A developer's own PGHOST or PGSSLMODE is not what the tests are about.
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.env("PATH", needs::path()).envs(postgres.environment());
    command.env("ROWSTREAM_TEST_RELEASE_BIN", target.join("release/rowstream"));
}

fn run_tests(mut command: Command, target: &Path, postgres: &Postgres, counts: &mut Counts) -> Result<()> {
    give(&mut command, target, postgres);
    run_and_count(&mut command, counts)
}

/// Passes the output through, and adds up what the test programs say at their ends.
fn run_and_count(command: &mut Command, counts: &mut Counts) -> Result<()> {
    let cannot = |fault| format!("cannot run cargo test: {fault}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    for line in child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).split(b'\n')) {
        let line = line.map_err(cannot)?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        counts.add(&line);
    }
    let status = child.wait().map_err(cannot)?;
    if status.success() { Ok(()) } else { Err(format!("cargo test failed: {status}")) }
}

/// The tests that ran.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// Adds a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
    fn add(&mut self, line: &str) {
        let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for (number, word) in numbers.split("; ").filter_map(|part| part.split_once(' ')) {
            let number: u64 = number.parse().unwrap_or(0);
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up() {
        let mut counts = Counts::default();
        counts.add(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s",
        );
        counts.add("test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.01s");
        counts.add("test a_test ... ok");
        counts.add("it said: test result: ok. 9 passed; 0 failed");
        assert_eq!(counts, Counts { passed: 13, failed: 2, skipped: 1 });
    }
}
