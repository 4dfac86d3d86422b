//! The steps of a run. Each one runs even if earlier ones failed, and the summary lists all of
//! them.

use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// Not run, with the reason.
    Skipped(&'static str),
}

impl Outcome {
    /// Runs a command and passes its output through. A command that can't be started counts as
    /// failed.
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::of_result(crate::needs::run(command))
    }

    pub(crate) fn of_result(result: crate::Result<()>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(message) => {
                eprintln!("{message}");
                Self::Failed
            }
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed => f.write_str("FAILED"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

struct Step {
    name: String,
    outcome: Outcome,
    took: Duration,
}

impl Step {
    fn run(name: &str, work: impl FnOnce() -> Outcome) -> Self {
        let start = Instant::now();
        let outcome = work();
        Self { name: name.to_owned(), outcome, took: start.elapsed() }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>7.1} s  {}: {}", self.took.as_secs_f64(), self.name, self.outcome)
    }
}

/// A step that runs in parallel with others.
pub(crate) struct Beside(JoinHandle<Step>);

/// The completed steps.
#[derive(Default)]
pub(crate) struct Steps(Vec<Step>);

impl Steps {
    pub(crate) fn run(&mut self, name: &str, work: impl FnOnce() -> Outcome) {
        println!("\n==> {name}");
        self.add(Step::run(name, work));
    }

    /// Starts a step that runs until [`Steps::end`] waits for it.
    pub(crate) fn begin(&self, name: &'static str, work: fn() -> Outcome) -> Beside {
        println!("\n==> {name}, beside the next steps");
        Beside(std::thread::spawn(move || Step::run(name, work)))
    }

    pub(crate) fn end(&mut self, step: Beside) {
        println!();
        self.add(step.0.join().expect("a step does not panic"));
    }

    fn add(&mut self, step: Step) {
        println!("{step}");
        self.0.push(step);
    }

    pub(crate) fn all_passed(&self) -> bool {
        self.0.iter().all(|step| step.outcome != Outcome::Failed)
    }

    pub(crate) fn print_summary(&self) {
        println!("\nSummary");
        for step in &self.0 {
            println!("{step}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_remembered_and_stops_nothing() {
        let mut steps = Steps::default();
        steps.run("first", || Outcome::of(&mut Command::new("false")));
        steps.run("second", || Outcome::of(&mut Command::new("true")));
        steps.run("third", || Outcome::Skipped("for no reason"));
        assert_eq!(steps.0.len(), 3);
        assert!(!steps.all_passed());
    }

    #[test]
    fn a_step_goes_on_beside_others() {
        let mut steps = Steps::default();
        let first = steps.begin("first", || Outcome::of(&mut Command::new("false")));
        steps.run("second", || Outcome::of(&mut Command::new("true")));
        assert!(steps.all_passed());
        steps.end(first);
        assert!(!steps.all_passed());
    }

    #[test]
    fn a_skipped_step_is_no_failure() {
        let mut steps = Steps::default();
        steps.run("only", || Outcome::Skipped("for no reason"));
        assert!(steps.all_passed());
    }
}
