//! Runs one case so many times, and does nothing else: what `cargo xtask instructions` counts.
//!
//! `instructions` prints the name of each case and its items per pass; `instructions CASE PASSES` runs one.

use std::process::ExitCode;

use rowstream_micro::{Case, cases};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let case = |name: &str| cases().into_iter().find(|case| case.name == name);
    match words.as_slice() {
        [] => cases().iter().for_each(|case| println!("{} {}", case.name, case.items)),
        [name, passes] => match (case(name), passes.parse()) {
            (Some(case), Ok(passes)) => run(case, passes),
            _ => return usage(),
        },
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn run(mut case: Case, passes: usize) {
    let mut out = Vec::new();
    (0..passes).for_each(|_| case.run(&mut out));
}

fn usage() -> ExitCode {
    eprintln!("usage: instructions [CASE PASSES]");
    ExitCode::from(2)
}
