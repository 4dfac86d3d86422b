//! The corpus of values; see `testdata/README.md` for its format.
//!
//! Tests without a server read it too, so this module uses no other support module.

#![allow(dead_code, unreachable_pub, reason = "each of the two test programs uses a part of this")]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rowstream_encode::{BytesForm, Intervals, Nulls, Numbers, ValueOptions};
use serde_json::Value as Json;

const VALUES: &str = include_str!("../../testdata/values.ndjson");
const STRINGS: &str = include_str!("../../testdata/strings.ndjson");

/// SQL to run in a PostgreSQL database before values that need their own types and tables.
pub const POSTGRES_SETUP: &str = include_str!("../../testdata/postgres.sql");

/// A line of `testdata/values.ndjson`.
pub struct Line {
    /// `postgres`, `sqlite` or `both`.
    pub source: String,
    pub type_name: String,
    pub sql: String,
    /// The first major version of PostgreSQL with this value.
    since: u64,
    /// With default options.
    pub written: Written,
    /// For each option that changes something.
    options: BTreeMap<String, Written>,
    pub arrow: Arrow,
}

/// A value in the output formats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// `None` if the object has no member for the value.
    pub json: Option<String>,
    pub csv: String,
}

/// A value in Arrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrow {
    /// Its type, and its value unless it's NULL.
    Value(String, Option<String>),
    /// The code of the error.
    Error(String),
}

type Choose = fn(ValueOptions) -> ValueOptions;

/// Each option with its name in `Rowstream-Changes`.
const OPTIONS: &[(&str, Choose)] = &[
    ("numbers=string", |options| ValueOptions { numbers: Numbers::String, ..options }),
    ("bytes=base64", |options| ValueOptions { bytes: BytesForm::Base64, ..options }),
    ("intervals=iso", |options| ValueOptions { intervals: Intervals::Iso, ..options }),
    ("nulls=omit", |options| ValueOptions { nulls: Nulls::Omit, ..options }),
];

/// All lines.
pub fn lines() -> &'static [Line] {
    static LINES: LazyLock<Vec<Line>> = LazyLock::new(|| VALUES.lines().map(Line::read).collect());
    &LINES
}

/// The PostgreSQL lines that a server of this major version supports.
pub fn postgres(version: u64) -> impl Iterator<Item = &'static Line> {
    lines().iter().filter(move |line| line.source != "sqlite" && line.since <= version)
}

pub fn sqlite() -> impl Iterator<Item = &'static Line> {
    lines().iter().filter(|line| line.source != "postgres")
}

/// A SQLite table `t` with one row and a column for each line: `c0`, `c1`, …
pub fn sqlite_table(lines: &[&Line]) -> String {
    let columns: Vec<_> = (0..).zip(lines).map(|(n, line)| format!("c{n} {}", line.type_name)).collect();
    let values: Vec<_> = lines.iter().map(|line| line.sql.as_str()).collect();
    format!("create table t ({}); insert into t values ({})", columns.join(", "), values.join(", "))
}

/// The texts of `testdata/strings.ndjson`.
pub fn strings() -> Vec<String> {
    let read = |line| serde_json::from_str(line).unwrap_or_else(|fault| panic!("{fault}: {line}"));
    STRINGS.lines().map(read).collect()
}

impl Line {
    fn read(line: &str) -> Self {
        let json: Json = serde_json::from_str(line).unwrap_or_else(|fault| panic!("{fault}: {line}"));
        let known = ["source", "type", "sql", "since", "json", "csv", "arrow", "options"];
        let members = json.as_object().into_iter().flatten();
        members.for_each(|(name, _)| assert!(known.contains(&name.as_str()), "{name} is no field: {line}"));
        let text = |name: &str| json[name].as_str().unwrap_or_else(|| panic!("no {name}: {line}")).to_owned();
        let written = Written { json: Some(text("json")), csv: text("csv") };
        let options = json["options"].as_object().into_iter().flatten();
        for (name, _) in options.clone() {
            assert!(OPTIONS.iter().any(|(known, _)| known == name), "{name} is no option: {line}");
        }
        Self {
            source: text("source"),
            type_name: text("type"),
            sql: text("sql"),
            since: json["since"].as_u64().unwrap_or(0),
            options: options.map(|(name, by)| (name.clone(), Written::read(by, &written))).collect(),
            written,
            arrow: Arrow::read(&json["arrow"]),
        }
    }

    /// The value as a PostgreSQL expression.
    pub fn expression(&self) -> String {
        format!("({})::{}", self.sql, self.type_name)
    }

    /// The forms with default options, with each option that changes something, and with all other
    /// options at once.
    pub fn expected(&self) -> Vec<(ValueOptions, &Written)> {
        let (mut others, mut expected) =
            (ValueOptions::DEFAULT, vec![(ValueOptions::DEFAULT, &self.written)]);
        for (name, choose) in OPTIONS {
            match self.options.get(*name) {
                Some(written) => expected.push((choose(ValueOptions::DEFAULT), written)),
                None => others = choose(others),
            }
        }
        expected.push((others, &self.written));
        expected
    }

    /// The name in the messages of failed tests.
    pub fn name(&self) -> String {
        format!("{} {}", self.type_name, self.sql)
    }
}

impl Written {
    /// Extracts the value from bodies with one row, whose columns are the value `v` and the text
    /// `x` as `e`.
    pub fn in_bodies(ndjson: &str, csv: &str) -> Self {
        let members = ndjson.strip_prefix('{').and_then(|line| line.strip_suffix("\"e\":\"x\"}\n"));
        let value = members.unwrap_or_else(|| panic!("{ndjson}")).strip_prefix("\"v\":");
        let field = csv.strip_prefix("v,e\r\n").and_then(|record| record.strip_suffix(",x\r\n"));
        Self {
            json: value.map(|value| value.strip_suffix(',').unwrap_or(value).to_owned()),
            csv: field.unwrap_or_else(|| panic!("{csv}")).to_owned(),
        }
    }

    /// Applies an option's changes to the default form.
    fn read(changes: &Json, default: &Self) -> Self {
        let text = |text: &Json| text.as_str().map(str::to_owned);
        Self {
            json: changes.get("json").map_or(default.json.clone(), text),
            csv: changes.get("csv").and_then(text).unwrap_or(default.csv.clone()),
        }
    }
}

impl Arrow {
    fn read(json: &Json) -> Self {
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        match (text("type"), text("error")) {
            (Some(type_name), None) => Self::Value(type_name, text("value")),
            (None, Some(code)) => Self::Error(code),
            _ => panic!("neither a type nor an error: {json}"),
        }
    }
}
