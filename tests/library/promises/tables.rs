//! The documentation's tables of the databases' features, generated from the dialects and the
//! promises.

use std::fmt::Write as _;
use std::fs;

use rowstream::database::DatabaseKind;
use rowstream_core::sql::dialect::{CommitOrder, Decimals, Dialect, OpenedResults, ParameterTypes};

use super::ways::{Ask, Way};
use crate::support::repository;

/// The documentation's tables match the dialects and the tested promises.
#[test]
fn the_table_of_databases_is_what_they_can_do() {
    let page = repository().join("docs/src/reference/databases.md");
    let text = fs::read_to_string(&page).unwrap();
    for table in [table(), ways()] {
        assert!(text.contains(&table), "{} should have this table:\n{table}", page.display());
    }
}

fn table() -> String {
    fn yes<T, E>(can: &Result<T, E>) -> String {
        if can.is_ok() { "yes" } else { "no" }.to_owned()
    }
    type Line = (&'static str, fn(&Dialect) -> String);
    let lines: [Line; 12] = [
        ("types of the parameters of `--sql`", |dialect| match dialect.parameter_types {
            ParameterTypes::Inferred => "the database's".to_owned(),
            ParameterTypes::Declared => "declared".to_owned(),
        }),
        ("decimals that are bound", |dialect| match dialect.decimals {
            Decimals::Exact(_) => "exact".to_owned(),
            Decimals::Rounded => "floats beyond 64-bit integers".to_owned(),
        }),
        ("nested statements", |dialect| yes(&dialect.interleaved)),
        ("several statements of one snapshot", |dialect| yes(&dialect.snapshots)),
        ("keys of bytes", |dialect| yes(&dialect.keys.bytes)),
        ("live tail: keys in the order of commits", |dialect| match dialect.commits.order {
            CommitOrder::ByKey => "by itself".to_owned(),
            CommitOrder::IfPromised(_) => "`commits = \"ordered\"` promises it".to_owned(),
            CommitOrder::Unknown(_) => "no".to_owned(),
        }),
        ("live tail: `transaction`", |dialect| yes(&dialect.commits.transactions)),
        ("live tail: `channel`", |dialect| yes(&dialect.commits.channel)),
        ("`:refcursors` statements", |dialect| match dialect.refcursors {
            Ok(OpenedResults::Refcursors) => "cursors, by name".to_owned(),
            Ok(OpenedResults::Results) => "results of a `call`, in order".to_owned(),
            Err(_) => "no".to_owned(),
        }),
        ("`parallel` and `shards`", |dialect| yes(&dialect.parts)),
        ("[filters](filters.md) of requests", |dialect| yes(&dialect.filters)),
        ("tables without a file", |dialect| if dialect.catalog.is_some() { "yes" } else { "no" }.to_owned()),
    ];
    let dialects: Vec<_> = DatabaseKind::ALL.iter().map(|kind| kind.dialect()).collect();
    let names: Vec<_> = dialects.iter().map(|dialect| dialect.name).collect();
    let mut table = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for (what, says) in lines {
        let cells: Vec<_> = dialects.iter().map(|dialect| says(dialect)).collect();
        writeln!(table, "| {what} | {} |", cells.join(" | ")).unwrap();
    }
    table
}

/// The parameter types that the suite binds.
pub(super) const TYPES: [&str; 10] =
    ["integer", "number", "text", "boolean", "date", "uuid", "integer[]", "timestamp", "json", "duration"];

/// A line for each way to each database.
fn ways() -> String {
    type Line = (&'static str, fn(Way) -> String);
    fn can(way: Way, ask: Ask) -> String {
        if way.refuses(ask).is_none() { "yes" } else { "no" }.to_owned()
    }
    fn json(text: &str) -> String {
        format!("`{text}`")
    }
    let lines: [Line; 6] = [
        ("parameters", parameters),
        ("`_after` a row", |way| can(way, Ask::Resume)),
        ("a decimal", |way| json(way.written().number)),
        ("a boolean", |way| json(way.written().boolean)),
        ("an instant", |way| json(way.written().instant)),
        ("a JSON document", |way| json(way.written().document)),
    ];
    let names: Vec<_> = lines.iter().map(|(name, _)| *name).collect();
    let mut table = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for way in Way::ALL {
        let cells: Vec<_> = lines.iter().map(|(_, says)| says(way)).collect();
        writeln!(table, "| {} | {} |", way.name(), cells.join(" | ")).unwrap();
    }
    table
}

/// The supported parameter types.
fn parameters(way: Way) -> String {
    let refused: Vec<_> = TYPES
        .iter()
        .filter(|kind| way.refuses(Ask::Parameter(kind)).is_some())
        .map(|kind| format!("`{kind}`"))
        .collect();
    match refused.len() {
        0 => "all".to_owned(),
        n if n == TYPES.len() => "none".to_owned(),
        _ => format!("all but {}", refused.join(", ")),
    }
}
