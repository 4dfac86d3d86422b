//! `cargo xtask clients`: the runs of `tests/it/client_faults.rs`, more of them than in a test run.

use crate::postgres::Postgres;
use crate::test::{give, test_program};
use crate::{Result, console, needs, python, target_folder};

/// The default number of runs of each client through each proxy.
const RUNS: u32 = 500;

/// Makes the runs, keeps their results, and writes the table of the documentation from them.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let runs = read(words)?;
    needs::require()?;
    let target = target_folder()?;
    let postgres = Postgres::start(&target)?;
    let [python, console] = [python::prepare(&target)?, console::prepare(&target)?];
    let test = |filter: &str| -> Result<std::process::Command> {
        let mut command = test_program("it")?;
        command.args(["--nocapture", filter]);
        give(&mut command, &postgres);
        command.env("ROWSTREAM_TEST_PYTHON", &python).env("ROWSTREAM_TEST_CONSOLE", &console);
        Ok(command)
    };
    needs::run(test("loses_no_row_silently")?.env("ROWSTREAM_CLIENT_RUNS", runs.to_string()))?;
    needs::run(test("client_faults::the_table_is_that_of_the_runs")?.env("ROWSTREAM_WRITE_DOCS", "1"))
}

/// `[RUNS]`.
fn read(words: &[&str]) -> Result<u32> {
    match words {
        [] => Ok(RUNS),
        [runs] => runs.parse().map_err(|_| format!("{runs} isn't a number of runs")),
        _ => Err("write `cargo xtask clients [RUNS]`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(read(&[]), Ok(500));
        assert_eq!(read(&["40"]), Ok(40));
        for wrong in [&["many"][..], &["-1"], &["40", "50"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
