//! `cargo xtask instructions`: counts the instructions of the hot paths, and compares them with a
//! committed base line.
//!
//! On a shared machine, time varies by more than any gain worth finding. Instructions under
//! valgrind's callgrind don't vary at all. Each case of `benches/micro` runs twice, with few and
//! with more passes over its data. We divide the difference by the items of the additional passes,
//! which cancels startup and warm-up. [Lookups](served) through the whole server are counted in the
//! same way.
//!
//! Each case has two numbers. **Instructions** are those of our own program file. We leave out
//! libc, because its `memcpy` depends on the processor and the version. Our own code has no
//! run-time detection of the processor. **Calls** out of our file are counted too, so that work
//! can't hide there. Only the compiler remains, and `rust-toolchain.toml` pins it.

mod served;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use crate::test::{cargo, workspace};
use crate::{Result, needs, target_folder};

/// The path of the base line, relative to the root of the workspace.
const BASE_LINE: &str = "benches/instructions.txt";
/// The relative change that instructions may have. Adding another case to the program changes the
/// compiler's decisions by that much.
const TOLERANCE: f64 = 0.03;
/// The relative change that calls may have. Most are of `memcpy`, and the compiler decides from the
/// code around them if it copies without a call.
const TOLERANCE_OF_CALLS: f64 = 0.08;
/// The absolute change that's allowed in addition, because the base line has two decimals.
const ROUNDING: f64 = 0.01;
/// Passes over a case's data. The first one grows the buffer, and all others are identical.
const PASSES: [u32; 2] = [2, 4];

/// The use of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Compare them with the base line.
    Compare,
    /// Write them as the base line.
    Renew,
}

/// Counts all cases. Returns true unless a count grew, or a case was added or removed.
pub(crate) fn run(mode: Mode) -> Result<bool> {
    let program = build()?;
    let base_line = workspace().join(BASE_LINE);
    let cannot = |error| format!("{}: {error}", base_line.display());
    let base = fs::read_to_string(&base_line).map_err(cannot).and_then(|text| BaseLine::read(&text));
    let base = match mode {
        Mode::Compare => base?,
        Mode::Renew => base.unwrap_or_default(),
    };
    let mut now = count_all(&program)?;
    now.0.extend(served::count_all()?.into_iter().map(|(case, count)| (case.to_owned(), count)));
    print!("{}", table(&base, &now));
    match mode {
        Mode::Compare => Ok(judge(&base, &now)),
        Mode::Renew => fs::write(&base_line, now.text()).map_err(cannot).map(|()| true),
    }
}

/// Builds the program with the cases from the crates of the release build.
pub(crate) fn build() -> Result<PathBuf> {
    let package = ["--locked", "--package", "rowstream-micro", "--bin", "instructions"];
    let mut build = cargo();
    build.args(["build", "--quiet", "--release"]).args(package);
    // An incremental build is split differently and needs some more instructions.
    needs::run(build.env_remove("CARGO_INCREMENTAL"))?;
    Ok(target_folder()?.join("release/instructions"))
}

fn count_all(program: &Path) -> Result<BaseLine> {
    let cannot = |error| format!("cannot run {}: {error}", program.display());
    let listed = Command::new(program).output().map_err(cannot)?;
    let mut counts = BaseLine::default();
    for case in String::from_utf8_lossy(&listed.stdout).lines() {
        counts.0.insert(case.to_owned(), count(program, case)?);
    }
    Ok(counts)
}

/// Counts one case, with its two runs in parallel.
fn count(program: &Path, case: &str) -> Result<Count> {
    let runs = PASSES.map(|passes| Callgrind::start(program, case, passes));
    let [few, many] = runs.map(|run| run?.finish(program));
    let ((items, few), (_, many)) = (few?, many?);
    Ok(Count::between(&few, &many, (PASSES[1] - PASSES[0]) * items))
}

/// A program that runs under callgrind.
struct Callgrind {
    child: Child,
    profile: PathBuf,
}

impl Callgrind {
    fn start(program: &Path, case: &str, passes: u32) -> Result<Self> {
        let profile = program.with_extension(format!("{passes}.callgrind"));
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--tool=callgrind"]);
        command.arg(format!("--callgrind-out-file={}", profile.display()));
        command.arg(program).args([case, &passes.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|error| format!("cannot run valgrind, of the package valgrind: {error}"))?;
        Ok(Self { child, profile })
    }

    /// Returns the items of a pass, which the program prints, and callgrind's profile.
    fn finish(self, program: &Path) -> Result<(u32, Profile)> {
        let cannot = |error| format!("{}: {error}", self.profile.display());
        let output = self.child.wait_with_output().map_err(cannot)?;
        if !output.status.success() {
            return Err(format!("valgrind failed: {}", output.status));
        }
        let items = first_number(String::from_utf8_lossy(&output.stdout).trim_end())?;
        let profile = Profile::read(&fs::read_to_string(&self.profile).map_err(cannot)?, program)?;
        Ok((items, profile))
    }
}

/// The instructions of one run in our own program file, and its calls out of that file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Profile {
    instructions: u64,
    calls: u64,
}

impl Profile {
    /// Reads callgrind's profile (Valgrind manual, "Callgrind Format Specification"). `ob=` names
    /// the program file of the following costs, and `cob=` the one of the function that the next
    /// `calls=` calls. The line after that is the cost of the callee, which we skip, because the
    /// callee's own entry contains it.
    fn read(text: &str, program: &Path) -> Result<Self> {
        let (mut profile, mut objects) = (Self::default(), Objects { program, id: None });
        let (mut own, mut outward, mut callee) = (false, false, false);
        for line in text.lines() {
            match line.split_once('=') {
                Some(("ob", object)) => own = objects.is_program(object),
                Some(("cob", object)) => outward = !objects.is_program(object) && own,
                Some(("calls", calls)) => {
                    profile.calls += if outward { first_number::<u64>(calls)? } else { 0 };
                    (outward, callee) = (false, true);
                }
                None if line.starts_with(|first| matches!(first, '0'..='9' | '+' | '-' | '*')) => {
                    let cost = line.split_once(' ').map_or("", |(_, cost)| cost);
                    profile.instructions += if own && !callee { first_number::<u64>(cost)? } else { 0 };
                    callee = false;
                }
                _ => {}
            }
        }
        if profile.instructions == 0 { Err("callgrind saw nothing of our own".into()) } else { Ok(profile) }
    }
}

/// The program files of a profile: `(1) /path` the first time, `(1)` after that.
struct Objects<'a> {
    program: &'a Path,
    id: Option<&'a str>,
}

impl<'a> Objects<'a> {
    fn is_program(&mut self, object: &'a str) -> bool {
        let (id, path) = object.split_once(' ').unwrap_or((object, ""));
        if Path::new(path) == self.program {
            self.id = Some(id);
        }
        self.id == Some(id)
    }
}

fn first_number<T: FromStr>(text: &str) -> Result<T> {
    let word = text.split(' ').next().unwrap_or_default();
    word.parse().map_err(|_| format!("not a number: {text}"))
}

/// The cost of a case per item.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Count {
    instructions: f64,
    calls: f64,
}

impl Count {
    /// The cost per item, from the difference between two runs.
    fn between(few: &Profile, many: &Profile, items: u32) -> Self {
        let items = f64::from(items);
        Self {
            instructions: (many.instructions - few.instructions) as f64 / items,
            calls: (many.calls - few.calls) as f64 / items,
        }
    }
}

/// The counts of all cases by name.
#[derive(Debug, Default, PartialEq)]
struct BaseLine(BTreeMap<String, Count>);

impl BaseLine {
    /// Reads lines with a case, its instructions and its calls. Lines that begin with `#` are
    /// comments.
    fn read(text: &str) -> Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let case = |line: &str| {
            let (rest, calls) = line.rsplit_once(' ')?;
            let (case, instructions) = rest.trim_end().rsplit_once(' ')?;
            let count = Count { instructions: instructions.parse().ok()?, calls: calls.parse().ok()? };
            Some((case.trim_end().to_owned(), count))
        };
        lines
            .map(|line| case(line).ok_or_else(|| format!("not a case and its counts: {line}")))
            .collect::<Result<_>>()
            .map(Self)
    }

    fn text(&self) -> String {
        let mut text =
            String::from("# Per item: the instructions of our own code, and its calls out of it.\n");
        text += "# `cargo xtask instructions --renew` writes this file.\n";
        for (case, Count { instructions, calls }) in &self.0 {
            let _ = writeln!(text, "{case:<40} {instructions:>10.2} {calls:>6.2}");
        }
        text
    }
}

/// The result of comparing a case with the base line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Same,
    /// One of its numbers is larger. This fails.
    Grew,
    /// No number is larger, and at least one is smaller.
    Fell,
    /// Only one side has the case. This fails, because the case isn't checked.
    Unpaired,
}

impl Verdict {
    fn of(base: Option<&Count>, now: Option<&Count>) -> Self {
        let (Some(base), Some(now)) = (base, now) else { return Self::Unpaired };
        let pairs =
            [(base.instructions, now.instructions, TOLERANCE), (base.calls, now.calls, TOLERANCE_OF_CALLS)];
        if pairs.iter().any(|(base, now, tolerance)| *now > base * (1.0 + tolerance) + ROUNDING) {
            Self::Grew
        } else if pairs.iter().any(|(base, now, tolerance)| *now < base * (1.0 - tolerance) - ROUNDING) {
            Self::Fell
        } else {
            Self::Same
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Same => "",
            Self::Grew => "GREW",
            Self::Fell => "fell",
            Self::Unpaired => "not in both",
        }
    }
}

/// Every case of either side with its verdict.
fn verdicts<'a>(base: &'a BaseLine, now: &'a BaseLine) -> BTreeMap<&'a str, Verdict> {
    let names = base.0.keys().chain(now.0.keys());
    names.map(|case| (case.as_str(), Verdict::of(base.0.get(case), now.0.get(case)))).collect()
}

/// The counts beside the base line, one line per case.
fn table(base: &BaseLine, now: &BaseLine) -> String {
    let mut table = format!(
        "{:<40} {:>12} {:>12} {:>7} {:>7}\n",
        "per item", "instructions", "base line", "calls", "base"
    );
    let field = |count: Option<&Count>, number: fn(&Count) -> f64| {
        count.map_or_else(|| "-".to_owned(), |count| format!("{:.2}", number(count)))
    };
    for (case, verdict) in verdicts(base, now) {
        let [now, base] = [now, base].map(|counts| counts.0.get(case));
        let [instructions, instructions_base] =
            [now, base].map(|count| field(count, |count| count.instructions));
        let [calls, calls_base] = [now, base].map(|count| field(count, |count| count.calls));
        let word = if base.is_some() { verdict.word() } else { "new" };
        let _ = writeln!(
            table,
            "{case:<40} {instructions:>12} {instructions_base:>12} {calls:>7} {calls_base:>7}  {word}"
        );
    }
    table
}

/// Prints the conclusion. Returns true if nothing is worse than the base line.
fn judge(base: &BaseLine, now: &BaseLine) -> bool {
    let verdicts = verdicts(base, now);
    let any = |verdict| verdicts.values().any(|other| *other == verdict);
    let passed = !any(Verdict::Grew) && !any(Verdict::Unpaired);
    if !passed {
        eprintln!(
            "a hot path takes more instructions than the base line allows, or is not in it ({BASE_LINE})"
        );
    }
    if !passed || any(Verdict::Fell) {
        eprintln!("what is meant to be so becomes the base line with: cargo xtask instructions --renew");
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "\
events: Ir
summary: 1000

ob=(1) /lib/libc.so.6
fn=(1) start
0 500
cob=(2) /t/release/instructions
cfn=(2) main
calls=1 10
0 400

ob=(2)
fn=(2) main
10 30
+2 5
cfn=(3) encode
calls=7 20
* 90
cob=(1)
cfn=(4) memcpy
calls=3 0
-1 60
fn=(3) encode
20 80
";

    #[test]
    fn what_is_our_own_is_told_from_the_rest() {
        let profile = Profile::read(PROFILE, Path::new("/t/release/instructions"));
        assert_eq!(profile, Ok(Profile { instructions: 30 + 5 + 80, calls: 3 }));
        assert!(Profile::read(PROFILE, Path::new("/t/release/another")).is_err());
    }

    #[test]
    fn a_base_line_reads_back_as_itself() {
        let count = Count { instructions: 607.25, calls: 5.5 };
        let base =
            BaseLine([("lines: events row".to_owned(), count), ("int: small".to_owned(), count)].into());
        assert_eq!(BaseLine::read(&base.text()), Ok(base));
        assert!(BaseLine::read("int: small 1\n").is_err());
    }

    #[test]
    fn growth_fails_and_fall_does_not() {
        let count = |instructions, calls| Count { instructions, calls };
        let base = count(100.0, 2.0);
        for (now, expected) in [
            (count(100.0, 2.0), Verdict::Same),
            (count(103.0, 2.0), Verdict::Same),
            (count(97.0, 2.0), Verdict::Same),
            (count(103.1, 2.0), Verdict::Grew),
            (count(96.9, 2.0), Verdict::Fell),
            (count(100.0, 2.15), Verdict::Same),
            (count(100.0, 2.2), Verdict::Grew),
            (count(100.0, 1.8), Verdict::Fell),
            (count(50.0, 3.0), Verdict::Grew),
        ] {
            assert_eq!(Verdict::of(Some(&base), Some(&now)), expected, "{now:?}");
            let [base, now] = [base, now].map(|count| BaseLine([("case".to_owned(), count)].into()));
            assert_eq!(judge(&base, &now), expected != Verdict::Grew);
        }
    }

    #[test]
    fn a_case_without_its_pair_fails() {
        let (none, one) = (
            BaseLine::default(),
            BaseLine([("case".to_owned(), Count { instructions: 1.0, calls: 0.0 })].into()),
        );
        assert!(!judge(&none, &one));
        assert!(!judge(&one, &none));
    }
}
