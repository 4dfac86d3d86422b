//! The project's own commands, so that a fresh machine needs one line and no other tool.
//!
//! Its parts: [`needs`] (the programs that the tests use), [`python`] (the libraries that read our
//! Arrow streams in a test), [`postgres`] (a private PostgreSQL), [`mariadb`] (a private MariaDB),
//! [`mysql`] (a private MySQL 8), [`newer`] (the programs of a newer PostgreSQL), [`pebble`] (a
//! certificate authority), [`sail`] (a Flight SQL engine), [`mod@console`] (the console's build
//! tools), [`deny`] (the check of dependencies), [`book`] (the documentation), [`installed`]
//! (installs from package indexes), [`instructions`] (the cost of the hot paths), [`compare`]
//! (starts the comparisons, a separate program), [`fuzz`] (inputs that violate a property),
//! [`attack`] (third-party attack tools), [`clients`] (our clients with damaged responses),
//! [`consul`] (a real Consul agent), [`reproducible`] (the released program, built twice),
//! [`same_code`] (if two versions differ only in comments), [`soak`] (the mixed soak, for longer),
//! [`steps`] (the steps of a run and their results), [`mod@test`] (the test command) and [`wire`]
//! (a peer that certifies clients). It doesn't depend on the contents of the tests.

mod attack;
mod book;
mod bun;
mod clients;
mod compare;
mod console;
mod consul;
mod deny;
mod distance;
mod duckdb;
mod fuzz;
mod installed;
mod instructions;
mod jars;
mod mariadb;
mod mysql;
mod needs;
mod newer;
mod npm;
mod pebble;
mod postgres;
mod postgrest;
mod python;
mod reproducible;
mod sail;
mod same_code;
mod soak;
mod steps;
mod test;
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use instructions::Mode;
use mariadb::MariaDb;
use mysql::MySql;
use postgres::Postgres;
use same_code::Texts;

const USAGE: &str = "\
usage: cargo xtask test [FILTER…]          everything that has to pass; with a FILTER only the tests whose names contain one
       cargo xtask test --fast [FILTER…]   what of it answers within minutes
       cargo xtask test --part=PART        one of checks, library, program and alone: machines that run one each have run everything
       cargo xtask book                    the documentation as web pages, in target/book
       cargo xtask instructions [--renew]  the instructions of the hot paths against their base line; or as the new one
       cargo xtask compare [--install] [--quick] [--runs N] [ROW…]
                                           Rowstream beside others and the databases' floors; --quick tries whether it works
       cargo xtask compare --beside COMMIT [--profile PROFILE] [--quick] [--runs N] [ROW…]
                                           this version beside an older one, by turns
       cargo xtask compare report [RUNDIR] benches/report.md and docs/src/performance.md again, from raw runs
       cargo xtask fuzz [SECONDS] [PROPERTY…]
                                           looks for inputs for which a property of fuzz/ does not hold; 600 s for each
       cargo xtask fuzz keep [PROPERTY…]   chooses anew what fuzz/corpus holds, of that and of what such runs have found
       cargo xtask soak [MINUTES] [--seed N]
                                           all that can go right and wrong at once, at random, for 20 minutes
       cargo xtask clients [RUNS]          our clients through proxies, with responses that are cut or damaged; 500 runs of each
       cargo xtask attack                  tools of others and crowds against a server; a finding that nothing explains fails
       cargo xtask consul                  a real agent of Consul, and the tests that need it
       cargo xtask reproducible            the released program, built twice in two folders: the same to the byte
       cargo xtask same-code COMMIT [--messages]
                                           fails if Rust code has changed since a commit; comments may, and with --messages texts
       cargo xtask wire [--listen ADDR] [NAME…]
                                           plays the scripts of testdata/wire to a client, until Ctrl-C
       cargo xtask pg [--newer]            a private PostgreSQL, the system's or a newer one, and a private MariaDB and a private MySQL 8 with the users of the tests, until Ctrl-C";

/// An error message for people.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test", words @ ..] => exit(test::run(words)),
        ["book"] => exit(target_folder().and_then(|target| book::run(&target)).map(|()| true)),
        ["compare", words @ ..] => exit(compare::run(words).map(|()| true)),
        ["fuzz", "keep", names @ ..] => exit(fuzz::keep(names).map(|()| true)),
        ["fuzz", words @ ..] => exit(fuzz::run(words)),
        ["clients", words @ ..] => exit(clients::run(words).map(|()| true)),
        ["attack"] => exit(attack::run().map(|()| true)),
        ["consul"] => exit(consul::run().map(|()| true)),
        ["reproducible"] => exit(reproducible::run()),
        ["same-code", commit] => exit(same_code::run(commit, Texts::Compare)),
        ["same-code", commit, "--messages"] => exit(same_code::run(commit, Texts::Ignore)),
        ["soak", words @ ..] => exit(soak::run(words).map(|()| true)),
        ["wire", words @ ..] => exit(wire::run(words).map(|()| true)),
        ["instructions"] => exit(instructions::run(Mode::Compare)),
        ["instructions", "--renew"] => exit(instructions::run(Mode::Renew)),
        ["pg"] => exit(pg(Postgres::start).map(|()| true)),
        ["pg", "--newer"] => exit(pg(start_newer).map(|()| true)),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn exit(passed: Result<bool>) -> ExitCode {
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the tests' PostgreSQL and MariaDB for a developer's own `cargo test`.
fn pg(start: fn(&Path) -> Result<Postgres>) -> Result<()> {
    needs::require()?;
    let target = target_folder()?;
    let mut postgres = start(&target)?;
    let mariadb = MariaDb::start(&target)?;
    for (name, value) in postgres.environment().into_iter().chain(mariadb.environment()) {
        println!("export {name}='{value}'");
    }
    let mysql = mysql::prepare(&target).and_then(|installation| {
        println!("export ROWSTREAM_TEST_MYSQL8_FOLDER='{}'", installation.display());
        MySql::start(&installation, &target)
    });
    match &mysql {
        Ok(mysql) => {
            mysql.environment().iter().for_each(|(name, value)| println!("export {name}='{value}'"));
        }
        Err(message) => eprintln!("{message}\nWithout it the tests of MySQL 8 fail; all others need none."),
    }
    match python::prepare(&target) {
        Ok(python) => println!("export ROWSTREAM_TEST_PYTHON='{}'", python.display()),
        Err(message) => {
            eprintln!("{message}\nWithout it the tests of Python's libraries fail; all others need none.");
        }
    }
    match duckdb::prepare(&target) {
        Ok(library) => println!("export ROWSTREAM_TEST_DUCKDB='{}'", library.display()),
        Err(message) => eprintln!("{message}\nWithout it the tests of drivers fail; all others need none."),
    }
    match sail::prepare(&target) {
        Ok(program) => println!("export ROWSTREAM_TEST_SAIL='{}'", program.display()),
        Err(message) => eprintln!("{message}\nWithout it the tests of Sail fail; all others need none."),
    }
    match console::prepare(&target) {
        Ok(packages) => println!("export ROWSTREAM_TEST_CONSOLE='{}'", packages.display()),
        Err(message) => {
            eprintln!("{message}\nWithout them two tests of the console fail; all others need none.");
        }
    }
    match postgrest::prepare(&target) {
        Ok(packages) => println!("export ROWSTREAM_TEST_POSTGREST='{}'", packages.display()),
        Err(message) => {
            eprintln!("{message}\nWithout it a test of PostgREST's clients fails; all others need none.");
        }
    }
    match bun::prepare(&target) {
        Ok(program) => println!("export ROWSTREAM_TEST_BUN='{}'", program.display()),
        Err(message) => eprintln!("{message}\nWithout it the tests in Bun fail; all others need none."),
    }
    eprintln!("the databases run until Ctrl-C");
    postgres.wait()
}

fn start_newer(target: &Path) -> Result<Postgres> {
    Postgres::start_from(&newer::prepare(target)?, target)
}

/// Cargo's target folder, even if it was moved: this program is in `target/PROFILE/`.
fn target_folder() -> Result<PathBuf> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let folder = program.ancestors().nth(2).ok_or("this program is not in a target folder")?;
    Ok(folder.to_path_buf())
}
