//! Runs one case a number of times, for `cargo xtask instructions` to count.
//!
//! `instructions` prints the name of each case. `instructions CASE PASSES` runs one, and prints its
//! items per pass.

use std::process::ExitCode;

use rowstream_micro::{Pass, cases};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let case = |name: &str| cases().into_iter().find(|case| case.name == name);
    match words.as_slice() {
        [] => cases().iter().for_each(|case| println!("{}", case.name)),
        [name, passes] => match (case(name), passes.parse()) {
            (Some(case), Ok(passes)) => run(case.build(), passes),
            _ => return usage(),
        },
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn run(mut pass: Pass, passes: usize) {
    let mut out = Vec::new();
    (0..passes).for_each(|_| pass.run(&mut out));
    println!("{}", pass.items);
}

fn usage() -> ExitCode {
    eprintln!("usage: instructions [CASE PASSES]");
    ExitCode::from(2)
}
