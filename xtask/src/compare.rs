//! `cargo xtask compare`: gives the comparisons (`benches/compare`) a PostgreSQL, a MariaDB and
//! the binary as we release it, and calls them.

use crate::mariadb::MariaDb;
use crate::postgres::Postgres;
use crate::test::cargo;
use crate::{Result, needs, target_folder};

/// Runs the comparisons; with `--install` first gets what they use.
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
    needs::run(cargo().args(["build", "--profile", "dist", "--locked"]))?;
    let postgres = Postgres::start(&target_folder()?)?;
    let mariadb = MariaDb::start(&target_folder()?)?;
    // What runs below this process is measured; all else disturbs it.
    command.env("ROWSTREAM_COMPARE_ROOT", std::process::id().to_string());
    needs::run(command.envs(postgres.environment()).envs(mariadb.environment()))
}
