//! Compares Rowstream with other programs that do the same work, and with the databases' own
//! floors, on one machine in one run.
//!
//! `cargo xtask compare` calls it with a private PostgreSQL and MariaDB. Its parts: [`rows`] (the
//! comparisons, and our claims about them), [`measure`] (runs a row), [`target`] (the servers),
//! [`client`] (the clients and the floors), [`process`] (servers as processes, and their use of
//! resources), [`beside`] (lookups beside slow readers), [`canned`] (a server only for load
//! testers), [`proof`] (checks that all targets respond with the same data), [`quiet`] (checks that
//! the machine does nothing else), [`record`] (the raw runs) and [`report`]
//! (benches/report.md and a page of the book, only from the raw runs). It doesn't know how Rowstream works inside.

mod beside;
mod canned;
mod client;
mod database;
mod machine;
mod measure;
mod observed;
mod process;
mod proof;
mod quiet;
mod record;
mod report;
mod rows;
mod small;
mod sockets;
mod stats;
mod svg;
mod target;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::rows::Row;
use crate::target::Rival;

const USAGE: &str = "\
usage: compare [--quick] [--runs N] [--rivals NAME,…] [ROW…]
                                             measures these rows, or all, beside these rivals, or all, and writes the report
       compare --beside PROGRAM [--quick] [--runs N] [ROW…]
                                             measures some rows beside an older version, and prints the ratios
       compare report                        writes the report again, from the newest run of each row
       compare sqlite-floor FILE             steps through the events of a SQLite file, reads all columns, and ends";

/// An error message for people.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["report"] => report::publish(),
        ["sqlite-floor", file] => database::step_through_events(file),
        words => match Options::parse(words) {
            Some(options) => match &options.older {
                Some(older) => measure::versions::run(&options, older),
                None => measure::run(&options),
            },
            None => {
                let rows: Vec<&str> = Row::ALL.iter().map(|row| row.id()).collect();
                let rivals: Vec<&str> = Rival::ALL.iter().map(|rival| rival.name()).collect();
                eprintln!("{USAGE}\nrows:  {}\nrivals: {}", rows.join(" "), rivals.join(" "));
                return ExitCode::from(2);
            }
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The measurements to make.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Options {
    rows: Vec<Row>,
    /// The number of runs of each target of a row, after its warm-up.
    runs: usize,
    size: Size,
    rivals: Vec<Rival>,
    /// The program of an older version, to measure beside this one.
    older: Option<PathBuf>,
}

/// The amount of work of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    /// The published size.
    Full,
    /// A tenth of it, once, to check that everything works. Its numbers mean nothing.
    Quick,
}

impl Size {
    /// The full count, or a tenth.
    fn of(self, full: u64) -> u64 {
        match self {
            Self::Full => full,
            Self::Quick => full / 10,
        }
    }
}

impl Options {
    /// Returns `None` if the words are invalid.
    fn parse(words: &[&str]) -> Option<Self> {
        let rivals = Rival::ALL.to_vec();
        let mut options = Self { rows: Vec::new(), runs: 7, size: Size::Full, rivals, older: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--quick" => (options.size, options.runs) = (Size::Quick, 1),
                "--runs" => options.runs = words.next()?.parse().ok().filter(|runs| *runs > 0)?,
                "--beside" => options.older = Some(words.next()?.into()),
                "--rivals" => {
                    let rivals = words.next()?.split(',').map(Rival::from_name);
                    options.rivals = rivals.collect::<Option<_>>()?;
                }
                id => options.rows.push(Row::from_id(id)?),
            }
        }
        if options.rows.is_empty() {
            options.rows = Row::ALL.to_vec();
        }
        Some(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_options() {
        let rivals = Rival::ALL.to_vec();
        let all = Options { rows: Row::ALL.to_vec(), runs: 7, size: Size::Full, rivals, older: None };
        assert_eq!(Options::parse(&[]), Some(all.clone()));
        let rows = vec![Row::Events, Row::Sqlite];
        let quick = Options { rows, runs: 1, size: Size::Quick, ..all.clone() };
        assert_eq!(Options::parse(&["--quick", "events", "sqlite"]), Some(quick));
        let three = Options { rows: vec![Row::Growth], runs: 3, ..all.clone() };
        assert_eq!(Options::parse(&["growth", "--runs", "3"]), Some(three));
        let beside = Options { rows: vec![Row::Lookups], older: Some("older".into()), ..all.clone() };
        assert_eq!(Options::parse(&["--beside", "older", "lookups"]), Some(beside));
        let two = Options { rivals: vec![Rival::Php, Rival::GoPgx], ..all };
        assert_eq!(Options::parse(&["--rivals", "php,go-pgx"]), Some(two));
        assert_eq!(Options::parse(&["--rivals", "php,"]), None);
        assert_eq!(Options::parse(&["no-such-row"]), None);
        assert_eq!(Options::parse(&["--runs", "0"]), None);
    }
}
