//! `cargo xtask test`: the command that the README, CONTRIBUTING.md and CI use.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::instructions::Mode;
use crate::mariadb::MariaDb;
use crate::mysql::MySql;
use crate::postgres::Postgres;
use crate::steps::{Outcome, Steps};
use crate::{
    Result, book, bun, console, deny, distance, duckdb, instructions, jars, mysql, needs, newer, pebble,
    postgrest, python, sail, target_folder,
};

/// A dependency of some tests that no machine has by default. If it can't be installed, those tests
/// are skipped, and the summary reports that.
struct Extra {
    step: &'static str,
    prepare: fn(&Path) -> Result<PathBuf>,
    without: &'static str,
    /// The variable that passes its path to the tests.
    variable: &'static str,
    /// Words in the names of the tests that use it.
    tests: &'static [&'static str],
}

const EXTRAS: [Extra; 12] = [
    Extra {
        step: "Python's libraries",
        prepare: python::prepare,
        without: "they cannot be installed here, so no test reads our Arrow with them, runs the Python client, or builds the server's packages",
        variable: "ROWSTREAM_TEST_PYTHON",
        tests: &[
            "python_reads_",
            "by_wheel",
            "client_python::",
            "client_faults::python_",
            "server_packages::",
        ],
    },
    Extra {
        step: "DuckDB's library",
        prepare: duckdb::prepare,
        without: "it cannot be installed here, so no test runs drivers",
        variable: "ROWSTREAM_TEST_DUCKDB",
        tests: &["drivers::", "::duckdb"],
    },
    Extra {
        step: "packages of the console",
        prepare: console::prepare,
        without: "they cannot be installed here, so no test builds the console, checks its accessibility, builds the JavaScript client, or installs the server's packages",
        variable: "ROWSTREAM_TEST_CONSOLE",
        tests: &["console::packages_", "client_js::", "client_faults::javascript_", "server_packages::"],
    },
    Extra {
        step: "PostgREST's JavaScript client",
        prepare: postgrest::prepare,
        without: "it cannot be installed here, so no test reads tables with it",
        variable: "ROWSTREAM_TEST_POSTGREST",
        tests: &["postgrest::javascript_"],
    },
    Extra {
        step: "Bun",
        prepare: bun::prepare,
        without: "it cannot be installed here, so no test runs the JavaScript client in it",
        variable: "ROWSTREAM_TEST_BUN",
        tests: &["client_js::bun_"],
    },
    Extra {
        step: "H2, QuestDB and Gson",
        prepare: jars::prepare,
        without: "they cannot be installed here, so no test asks H2 or QuestDB, or runs the client in Java",
        variable: "ROWSTREAM_TEST_JARS",
        tests: &["others::", "other_languages::java_"],
    },
    Extra {
        step: "MySQL 8",
        prepare: mysql::prepare,
        without: "it cannot be installed here, so the tests of MySQL run against MariaDB alone",
        variable: MYSQL8,
        tests: &["mysql8::", "mysql::logins::"],
    },
    Extra {
        step: "Go",
        prepare: |_| needs::go(),
        without: "it is not here, so no test runs the client in Go",
        variable: "ROWSTREAM_TEST_GO",
        tests: &["other_languages::go_"],
    },
    Extra {
        step: "crates of the client in Rust",
        prepare: fetch_crates,
        without: "they cannot be fetched here, so no test runs the client in Rust",
        variable: "ROWSTREAM_TEST_RUST_CLIENT",
        tests: &["other_languages::rust_"],
    },
    Extra {
        step: "Pebble",
        prepare: pebble::prepare,
        without: "it cannot be built here, so no test has certificates issued",
        variable: "ROWSTREAM_TEST_PEBBLE",
        tests: &["acme::"],
    },
    Extra {
        step: "Sail",
        prepare: sail::prepare,
        without: "it cannot be installed here, so no test asks an engine of Arrow Flight SQL",
        variable: "ROWSTREAM_TEST_SAIL",
        tests: &["sail::", "::sail"],
    },
    Extra {
        step: "places far from each other",
        prepare: distance::prepare,
        without: "they cannot be made here, so no client and no database of the tests is far",
        variable: "ROWSTREAM_TEST_TUN",
        tests: &["distance::"],
    },
];

/// The variable with the installation of MySQL 8.
const MYSQL8: &str = "ROWSTREAM_TEST_MYSQL8_FOLDER";

const NO_NEWER: &str = "it cannot be installed here, so the tests run against the system's PostgreSQL alone";

/// Tests mostly wait, for timeouts and for processes, so more of them run at once than a small
/// machine has processors.
const AT_ONCE: &str = "--test-threads=4";

/// The tests that `--fast` leaves out: those that check the release build's claims, and those that
/// wait long, for timeouts or for many processes. A test's name contains the word.
const NOT_FAST: &[&str] = &[
    ALONE,
    "arrow::a_million_rows_come_in_bounded_batches",
    "book::",
    "bounds::",
    "browser::",
    "client_faults::",
    "client_python::no_row_is_lost",
    "console::",
    "contract::",
    "cut_lists::",
    "cuts::",
    "demo::",
    "enrich::memory_does_not_hang_on_the_number_of_rows",
    "examples::",
    "features::",
    "other_languages::",
    "nested::memory_is_constant_while_nested_rows_are_read",
    "procedures::refcursors_in_fragments_of_any_size_are_the_same",
    "resume::a_million_rows_through_a_connection_that_is_cut_again_and_again",
    "releases::",
    "rolling::",
    "slow::",
    "streams::a_thousand_disconnects_leave_nothing_behind",
    "support_works::rows_arrive_whole",
    "turns::",
];

/// The modules of `tests/alone`, which need the machine for themselves.
const ALONE: &str = "alone::";

/// More failures than this aren't caused by a busy machine, so we don't repeat them.
const FEW: usize = 5;

/// A part of a whole run. Machines that run one part each have together run everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Formatting, lints, dependencies and documents, but no tests.
    Checks,
    /// Tests of the packages, and those that call the library.
    Library,
    /// Tests that only start the program, in parallel.
    Program,
    /// Tests that need the machine for themselves, and the counts of instructions.
    Alone,
}

impl Part {
    const ALL: [(&str, Self); 4] = [
        ("checks", Self::Checks),
        ("library", Self::Library),
        ("program", Self::Program),
        ("alone", Self::Alone),
    ];

    fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        let names = || Self::ALL.map(|(name, _)| name).join(", ");
        found.map(|(_, part)| part).ok_or_else(|| format!("unknown part {name:?}: it is one of {}", names()))
    }
}

/// A file with the number of tests that may need a second try.
const FLAKES: &str = "tests/flakes.txt";

/// The extent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Everything that has to pass.
    Everything,
    /// Everything that finishes within minutes: no release build, second PostgreSQL or
    /// documentation.
    Fast,
    Only(Part),
}

impl Scope {
    fn has(self, part: Part) -> bool {
        match self {
            Self::Everything => true,
            Self::Fast => part != Part::Alone,
            Self::Only(only) => only == part,
        }
    }

    /// [`cargo_test`] for the packages of this scope. All steps of a scope select the same
    /// packages, because Cargo compiles some dependencies once per selection.
    fn cargo_test(self) -> Command {
        let mut command = cargo_test();
        if self == Self::Only(Part::Library) {
            command.args(["--exclude", "rowstream-tests"]);
        }
        command
    }
}

/// Runs all steps, or with a filter those that a test of that name needs. Returns true if all
/// passed.
///
/// A whole run builds first, because a build would slow down parallel tests. The release build runs
/// in parallel with the other builds. With a filter, a test that needs the release build builds it.
pub(crate) fn run(words: &[&str]) -> Result<bool> {
    let (scope, filters) = read(words)?;
    needs::require()?;
    let target = target_folder()?;
    let mut steps = Steps::default();
    let mut counts = Counts::default();
    let is_whole = filters.is_empty() && scope != Scope::Fast;
    let has_tests = scope != Scope::Only(Part::Checks);
    let release = (is_whole && has_tests).then(|| steps.begin("release build", release_builds));
    if filters.is_empty() && scope.has(Part::Checks) {
        check(scope, &target, &mut steps);
    }
    if has_tests {
        steps.run("build of the tests", || Outcome::of(scope.cargo_test().arg("--no-run")));
        let extras = EXTRAS.map(|extra| {
            let mut place = None;
            steps.run(extra.step, || obtain((extra.prepare)(&target), &mut place, extra.without));
            (extra, place)
        });
        if let Some(release) = release {
            steps.end(release);
        }
        let mut mariadb = None;
        steps.run("MariaDB", || {
            Outcome::of_result(MariaDb::start(&target).map(|started| mariadb = Some(started)))
        });
        let mut mysql = None;
        let installed = extras.iter().find(|(extra, _)| extra.variable == MYSQL8);
        if let Some(installation) = installed.and_then(|(_, place)| place.as_ref()) {
            steps.run("MySQL 8's server", || {
                let started = MySql::start(installation, &target);
                Outcome::of_result(started.map(|started| mysql = Some(started)))
            });
        }
        let (mariadb, mysql) = (mariadb.as_ref(), mysql.as_ref());
        let tests = Tests { scope, filters: &filters, target: &target, extras: &extras, mariadb, mysql };
        tests.run_all(&mut steps, &mut counts);
    }
    if is_whole && scope.has(Part::Alone) {
        steps.run("instructions", instructions);
    }
    if filters.is_empty() && has_tests {
        steps.run("flakes", || Outcome::of_result(counts.check_flakes()));
    }
    steps.print_summary();
    let left_out = if filters.is_empty() && scope == Scope::Fast { counts.filtered_out } else { 0 };
    println!("{}", counts.summary(left_out));
    if has_tests && counts.passed + counts.failed + counts.skipped == 0 {
        return Err(format!("no test has {} in its name", filters.join(" or ")));
    }
    Ok(steps.all_passed())
}

/// `[--fast | --part=PART] [FILTER…]`.
fn read<'a>(words: &[&'a str]) -> Result<(Scope, Vec<&'a str>)> {
    let (options, filters): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with('-'));
    let scope = match options.as_slice() {
        [] => Scope::Everything,
        ["--fast"] => Scope::Fast,
        [option] if option.starts_with("--part=") => Scope::Only(Part::named(&option["--part=".len()..])?),
        _ => return Err("write `cargo xtask test [--fast | --part=PART] [FILTER…]`".to_owned()),
    };
    Ok((scope, filters))
}

/// The checks that don't run tests.
fn check(scope: Scope, target: &Path, steps: &mut Steps) {
    steps.run("formatting", || Outcome::of(cargo().args(["fmt", "--all", "--check"])));
    steps.run("clippy", || clippy(&["--workspace", "--all-features", "--all-targets"]));
    steps.run("dependencies", || deny::check(target));
    if scope != Scope::Fast {
        let without = ["--package", "rowstream", "--no-default-features"];
        steps.run("the smallest build", || clippy(&without));
        // The static programs of a release can't load libraries.
        let features = ["--features", "acme,discovery,flight,http3"];
        steps.run("a static release", || clippy(&[without.as_slice(), &features].concat()));
        steps.run("documentation", documentation);
        steps.run("book", || book::check(target));
    }
}

/// The cargo that runs this program, in the root of the workspace.
///
/// Cargo describes our own package in variables, and recompiles ring and all of TLS if they change.
/// We remove them, so that our builds and manual ones share dependencies.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_a_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

/// Returns true for the variables that describe the package that Cargo runs.
fn is_of_a_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// The root of the workspace.
pub(crate) fn workspace() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// Builds one test program, and returns the command that runs it. The caller appends arguments.
pub(crate) fn test_program(name: &str) -> Result<Command> {
    needs::run(cargo_test().arg("--no-run"))?;
    let mut command = cargo_test();
    command.args(["--test", name, "--"]);
    Ok(command)
}

/// Builds the release program, and the program that counts instructions.
fn release_builds() -> Outcome {
    Outcome::of_result(release_program().and_then(|()| instructions::build().map(drop)))
}

/// Builds the release program. A warning in our own code fails it, because every user would read it
/// in the first build.
fn release_program() -> Result<()> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--locked"]);
    let output = build.output().map_err(|error| format!("cannot run {build:?}: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    // The place of a warning in our code. Cargo's own warnings, such as those of a slow network, have
    // none.
    let is_clean = !messages.lines().any(|line| line.trim_start().starts_with("--> "));
    match output.status.success() && is_clean {
        true => Ok(()),
        false => Err(format!("{build:?}: {}\n{messages}", output.status)),
    }
}

fn clippy(options: &[&str]) -> Outcome {
    Outcome::of(cargo().args(["clippy", "--locked"]).args(options).args(["--", "-D", "warnings"]))
}

/// Stores the path of something that was installed for tests. If it's missing, its tests are left
/// out.
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

/// Fetches the crates of the client in Rust, which isn't in the workspace. Returns the folder for its
/// build.
fn fetch_crates(target: &Path) -> Result<PathBuf> {
    let manifest = workspace().join("examples/clients/rust/Cargo.toml");
    needs::run(cargo().args(["fetch", "--quiet", "--locked", "--manifest-path"]).arg(manifest))?;
    Ok(target.join("test-clients/rust"))
}

/// Compares the hot paths with their base line, which is valid for one processor architecture.
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

/// Includes private items, because its readers work on the code. So links to them aren't errors,
/// and are checked like all others.
fn documentation() -> Outcome {
    let arguments =
        ["doc", "--workspace", "--all-features", "--no-deps", "--document-private-items", "--locked"];
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    Outcome::of(cargo().args(arguments).env("RUSTDOCFLAGS", flags))
}

/// Modules of tests that could depend on the version of PostgreSQL.
const OF_POSTGRES: [&str; 3] = ["postgres_", "strings::", "python::"];

/// Tests of the workspace, always with the same options, so that nothing is compiled twice. With
/// `--test` it doesn't build the program that the tests start, so run it with `--no-run` first.
fn cargo_test() -> Command {
    let mut command = cargo();
    command.args(["test", "--workspace", "--all-features", "--locked", "--no-fail-fast"]);
    command
}

/// The tests to run, and their environment.
struct Tests<'a> {
    scope: Scope,
    filters: &'a [&'a str],
    target: &'a Path,
    /// Each with its path.
    extras: &'a [(Extra, Option<PathBuf>)],
    /// Without it, tests that need it fail.
    mariadb: Option<&'a MariaDb>,
    mysql: Option<&'a MySql>,
}

impl Tests<'_> {
    /// Runs the tests of the scope, step by step.
    fn run_all(&self, steps: &mut Steps, counts: &mut Counts) {
        if self.scope != Scope::Only(Part::Alone) {
            steps.run("tests", || self.run(self.most(), Postgres::start(self.target), counts));
        }
        if self.scope.has(Part::Alone) {
            steps.run("tests that need the machine for themselves", || {
                self.run(self.alone(), Postgres::start(self.target), counts)
            });
        }
        if matches!(self.scope, Scope::Fast | Scope::Only(Part::Alone)) {
            return;
        }
        let mut newer = None;
        steps.run("a newer PostgreSQL", || obtain(newer::prepare(self.target), &mut newer, NO_NEWER));
        if let Some(bin) = newer {
            steps.run("tests of PostgreSQL, with the newer one", || {
                self.run(self.of_postgres(), Postgres::start_from(&bin, self.target), counts)
            });
        }
    }

    /// All tests except `tests/alone`. Fewer with `--fast` or for a part.
    fn most(&self) -> Command {
        let mut command = self.scope.cargo_test();
        if self.scope == Scope::Only(Part::Program) {
            command.args(["--test", "it"]);
        }
        command.args(["--", AT_ONCE]).args(self.filters);
        let skipped = if self.scope == Scope::Fast { NOT_FAST } else { &[ALONE] };
        command.args(skipped.iter().flat_map(|name| ["--skip", name]));
        command
    }

    fn alone(&self) -> Command {
        let mut command = cargo_test();
        command.args(["--test", "alone", "--"]).args(self.filters);
        command
    }

    /// The tests of [`OF_POSTGRES`]. With filters, all tests that match them, because test programs
    /// can't combine both conditions.
    fn of_postgres(&self) -> Command {
        let filters = if self.filters.is_empty() { &OF_POSTGRES } else { self.filters };
        let mut command = self.scope.cargo_test();
        for (part, program) in [(Part::Library, "library"), (Part::Program, "it")] {
            if self.scope.has(part) {
                command.args(["--test", program]);
            }
        }
        command.args(["--", AT_ONCE]).args(filters);
        command
    }

    /// Runs tests against a new PostgreSQL. Skips the tests whose extras are missing, such as
    /// Python's libraries, DuckDB's library, H2 or Sail.
    fn run(&self, mut command: Command, postgres: Result<Postgres>, counts: &mut Counts) -> Outcome {
        let missing = self.extras.iter().filter(|(_, place)| place.is_none());
        command.args(missing.flat_map(|(extra, _)| extra.tests).flat_map(|name| ["--skip", name]));
        let outcome = match postgres {
            Ok(postgres) => Outcome::of_result(self.run_on(command, &postgres, counts)),
            Err(message) => Outcome::of_result(Err(message)),
        };
        // Tests that don't compile and crashed test programs print no line to count.
        if outcome == Outcome::Failed {
            counts.failed = counts.failed.max(1);
        }
        outcome
    }

    /// Repeats a few failed tests once, one at a time. A test that passes then only failed because
    /// the machine was busy. The summary lists it anyway.
    fn run_on(&self, mut command: Command, postgres: &Postgres, counts: &mut Counts) -> Result<()> {
        self.give(&mut command, postgres);
        let mut first = Counts::default();
        let mut result = run_and_count(&mut command, &mut first);
        if result.is_err() && first.can_be_tried_again() {
            println!("\n--> once more, one at a time: {}", first.names.join(", "));
            let mut again = self.scope.cargo_test();
            again.args(["--", "--exact", "--test-threads=1"]).args(&first.names);
            self.give(&mut again, postgres);
            let mut second = Counts::default();
            result = run_and_count(&mut again, &mut second);
            first.correct(&second);
        }
        counts.add_up(first);
        result
    }

    fn give(&self, command: &mut Command, postgres: &Postgres) {
        give(command, postgres);
        command.envs(self.mariadb.into_iter().flat_map(MariaDb::environment));
        command.envs(self.mysql.into_iter().flat_map(MySql::environment));
        command.envs(self.extras.iter().filter_map(|(extra, place)| Some((extra.variable, place.as_ref()?))));
        // Without it, a test that needs the release build builds it.
        match self.scope != Scope::Fast && self.filters.is_empty() {
            true => command.env(RELEASE, self.target.join("release/rowstream")),
            false => command.env_remove(RELEASE),
        };
    }
}

/// The variable with the path of the release build.
const RELEASE: &str = "ROWSTREAM_TEST_RELEASE_BIN";

/// Passes PostgreSQL's address and the paths of programs to tests.
pub(crate) fn give(command: &mut Command, postgres: &Postgres) {
    // A developer's own PGHOST or PGSSLMODE must not affect the tests.
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.env("PATH", needs::path()).envs(postgres.environment());
}

/// Passes the output through, and adds up the results of the test programs.
fn run_and_count(command: &mut Command, counts: &mut Counts) -> Result<()> {
    let cannot = |error| format!("cannot run cargo test: {error}");
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
    filtered_out: u64,
    /// The names of the failed tests.
    names: Vec<String>,
    /// Test programs that have started but not reported a result.
    running: u64,
    /// Tests that failed first and passed when repeated.
    unsteady: Vec<String>,
}

impl Counts {
    /// Adds a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered
    /// out; finished in 0.01s`, or `test module::name ... FAILED`.
    fn add(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.names.push(name.to_owned());
            return;
        }
        self.running += u64::from(begins_a_program(line));
        let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        self.running = self.running.saturating_sub(1);
        for (number, word) in numbers.split("; ").filter_map(|part| part.split_once(' ')) {
            let number: u64 = number.parse().unwrap_or(0);
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                "filtered out" => self.filtered_out += number,
                _ => {}
            }
        }
    }

    /// Returns true if each failure is a test whose name we know. A documentation test is named
    /// after its place, which can't be used as a filter. If a program crashed, the name is unknown.
    fn can_be_tried_again(&self) -> bool {
        let by_name = self.names.iter().all(|name| !name.contains(' '));
        let all_ended = self.running == 0;
        by_name
            && all_ended
            && (1..=FEW).contains(&self.names.len())
            && self.failed == self.names.len() as u64
    }

    /// Removes tests that passed the second time from the failed ones.
    fn correct(&mut self, second: &Self) {
        let failed = |name: &String| second.names.contains(name);
        // A run that ended early proves nothing.
        if second.running > 0 || second.passed + second.failed < self.failed {
            return;
        }
        self.unsteady = self.names.iter().filter(|name| !failed(name)).cloned().collect();
        self.names.retain(failed);
        self.failed = self.names.len() as u64;
        self.passed += self.unsteady.len() as u64;
    }

    fn add_up(&mut self, other: Self) {
        self.running += other.running;
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.filtered_out += other.filtered_out;
        self.names.extend(other.names);
        self.unsteady.extend(other.unsteady);
    }

    /// Fails if more tests needed a second try than `tests/flakes.txt` allows.
    fn check_flakes(&self) -> Result<()> {
        let allowed = allowed_flakes(&std::fs::read_to_string(workspace().join(FLAKES)).unwrap_or_default())?;
        match self.unsteady.len() {
            found if found > allowed => Err(format!(
                "{found} tests passed only when they were run once more, and {FLAKES} allows {allowed}: {}",
                self.unsteady.join(", ")
            )),
            _ => Ok(()),
        }
    }

    /// The last lines of a run. Tests that were left out count as skipped.
    fn summary(&self, left_out: u64) -> String {
        let mut summary = String::new();
        for name in &self.names {
            summary += &format!("failed: {name}\n");
        }
        for name in &self.unsteady {
            summary += &format!("passed only when it was run once more, by itself: {name}\n");
        }
        let skipped = self.skipped + left_out;
        summary + &format!("{} passed, {} failed, {skipped} skipped", self.passed, self.failed)
    }
}

/// The number in [`FLAKES`], after its comments.
fn allowed_flakes(text: &str) -> Result<usize> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let number = lines.next().and_then(|line| line.trim().parse().ok());
    number.ok_or_else(|| format!("{FLAKES} has no number"))
}

/// True for `running 12 tests` and `running 1 test`.
fn begins_a_program(line: &str) -> bool {
    let number = line.strip_prefix("running ").and_then(|rest| rest.split_once(" test"));
    number.is_some_and(|(number, s)| number.parse::<u64>().is_ok() && (s.is_empty() || s == "s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(read(&[]), Ok((Scope::Everything, vec![])));
        assert_eq!(read(&["a", "b"]), Ok((Scope::Everything, vec!["a", "b"])));
        assert_eq!(read(&["--fast"]), Ok((Scope::Fast, vec![])));
        assert_eq!(read(&["a", "--fast"]), Ok((Scope::Fast, vec!["a"])));
        assert_eq!(read(&["--part=library", "a"]), Ok((Scope::Only(Part::Library), vec!["a"])));
        for wrong in [&["--slow"][..], &["--fast", "--fast"], &["--part"], &["--part=x"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    /// Pull requests run every part.
    #[test]
    fn the_workflow_has_each_part() {
        let workflow = std::fs::read_to_string(workspace().join(".github/workflows/test.yml")).unwrap();
        let parts = format!("part: [{}]", Part::ALL.map(|(name, _)| name).join(", "));
        assert!(workflow.contains(&parts), "{parts}");
        assert!(workflow.contains("cargo xtask test --part=${{ matrix.part }}"));
    }

    #[test]
    fn flakes_are_counted() {
        let text = std::fs::read_to_string(workspace().join(FLAKES)).unwrap();
        let allowed = allowed_flakes(&text).unwrap();
        let mut counts = Counts { unsteady: vec!["a::one".into(); allowed], ..Counts::default() };
        assert_eq!(counts.check_flakes(), Ok(()));
        counts.unsteady.push("a::two".into());
        assert!(counts.check_flakes().unwrap_err().contains("a::one, a::two"));
        assert!(allowed_flakes("# nothing\n").is_err());
    }

    #[test]
    fn what_is_not_fast_is_there() {
        let programs = workspace().join("tests");
        for name in NOT_FAST.iter().filter(|name| **name != ALONE) {
            let (module, test) = name.split_once("::").unwrap();
            let files = ["it", "library"].map(|program| programs.join(program).join(format!("{module}.rs")));
            let text = files.iter().find_map(|file| std::fs::read_to_string(file).ok());
            assert!(text.is_some_and(|text| text.contains(&format!("fn {test}"))), "{name}");
        }
    }

    #[test]
    fn results_add_up() {
        let mut counts = Counts::default();
        counts.add(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s",
        );
        counts.add("test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.01s");
        counts.add("test a_test ... ok");
        counts.add("it said: test result: ok. 9 passed; 0 failed");
        assert_eq!(
            counts,
            Counts { passed: 13, failed: 2, skipped: 1, filtered_out: 7, ..Counts::default() }
        );
        assert_eq!(counts.summary(7), "13 passed, 2 failed, 8 skipped");
    }

    /// The counts of a test program with these failed tests.
    fn failed(passed: u64, names: &[&str]) -> Counts {
        let mut counts = Counts::default();
        for name in names {
            counts.add(&format!("test {name} ... FAILED"));
        }
        let failed = names.len();
        counts.add(&format!("test result: FAILED. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.01s"));
        counts
    }

    #[test]
    fn what_passes_the_second_time_is_named() {
        let mut first = failed(10, &["a::one", "a::two"]);
        assert!(first.can_be_tried_again());
        first.correct(&failed(1, &["a::two"]));
        assert_eq!(
            first.summary(0),
            "failed: a::two\npassed only when it was run once more, by itself: a::one\n11 passed, 1 failed, 0 skipped"
        );
    }

    #[test]
    fn a_second_run_that_ends_early_mends_nothing() {
        let mut first = failed(10, &["a::one", "a::two"]);
        first.correct(&Counts::default());
        assert_eq!((first.passed, first.failed), (10, 2));
    }

    #[test]
    fn only_a_few_failures_with_names_are_tried_again() {
        assert!(!failed(10, &[]).can_be_tried_again());
        assert!(!failed(10, &["a", "b", "c", "d", "e", "f"]).can_be_tried_again());
        assert!(!failed(10, &["src/lib.rs - encode (line 3)"]).can_be_tried_again());
        let mut crashed = Counts::default();
        crashed.add("running 3 tests");
        crashed.add("test a::one ... FAILED");
        crashed.add("running 1 test");
        crashed.add("test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        assert!(!crashed.can_be_tried_again());
    }
}
