//! `cargo xtask compare`: provides a PostgreSQL, a MariaDB and the release binary, and runs the
//! comparisons (`benches/compare`) with them.

use std::path::{Path, PathBuf};

use crate::mariadb::MariaDb;
use crate::postgres::Postgres;
use crate::test::cargo;
use crate::{Result, duckdb, needs, python, reproducible, sail, target_folder};

type Prepare = fn(&Path) -> Result<PathBuf>;

/// Programs that some rows need, each with the variable for its path. A row without its program is
/// left out.
const EXTRAS: [(&str, Prepare); 3] = [
    ("ROWSTREAM_TEST_PYTHON", python::prepare),
    ("ROWSTREAM_TEST_DUCKDB", duckdb::prepare),
    ("ROWSTREAM_TEST_SAIL", sail::prepare),
];

/// Runs the comparisons. With `--install`, installs the compared programs first.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (install, words): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| **word == "--install");
    if !install.is_empty() {
        needs::install_compared()?;
    }
    let mut command = cargo();
    command.args(["run", "--release", "--locked", "--quiet", "--package", "compare", "--"]).args(&words);
    if words.first() == Some(&"report") {
        return needs::run(&mut command);
    }
    let released = ["build", "--profile", "dist", "--locked", "--features", reproducible::FEATURES];
    needs::run(cargo().args(released))?;
    let target = target_folder()?;
    let postgres = Postgres::start(&target)?;
    let mariadb = MariaDb::start(&target)?;
    for (variable, prepare) in EXTRAS {
        match prepare(&target) {
            Ok(place) => {
                command.env(variable, place);
            }
            Err(message) => eprintln!("{message}"),
        }
    }
    // Processes below this one are measured. All others disturb the measurement.
    command.env("ROWSTREAM_COMPARE_ROOT", std::process::id().to_string());
    needs::run(command.envs(postgres.environment()).envs(mariadb.environment()))
}
