//! The machine of a run, and the versions of the programs.

use std::fs;

use jiff::Zoned;

use crate::record::Machine;
use crate::workspace::output_of;
use crate::{Options, Size};

/// Programs whose versions matter, and the commands that print them.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("PostgreSQL", &["pg_config", "--version"]),
    ("MariaDB", &["mariadbd", "--version"]),
    ("Rust", &["rustc", "--version"]),
    ("curl", &["curl", "--version"]),
    ("Java", &["java", "--version"]),
    ("Go", &["go", "version"]),
    ("PHP", &["php", "--version"]),
    ("sqlite3", &["sqlite3", "--version"]),
];

/// Everything that a reader needs to judge the numbers.
pub(crate) fn describe(options: &Options, postgres: &str) -> Machine {
    let mut facts = vec![
        fact("Processor", Some(format!("{} cores, {}", cores(), processor().unwrap_or("unknown".into())))),
        fact("Memory", memory()),
        fact("Kernel", output_of(&["uname", "-sr"])),
        fact("System", system()),
    ];
    facts.extend(PROGRAMS.iter().map(|(name, words)| {
        let said = if *name == "PostgreSQL" { output_of(&[postgres, "--version"]) } else { output_of(words) };
        fact(name, said.map(|said| said.lines().next().unwrap_or_default().to_owned()))
    }));
    facts.push(("SQLite in Rowstream".into(), rusqlite::version().into()));
    facts.extend(libraries());
    Machine {
        date: Zoned::now().strftime("%Y-%m-%d").to_string(),
        commit: commit(),
        quick: options.size == Size::Quick,
        runs: options.runs,
        facts,
    }
}

fn fact(name: &str, value: Option<String>) -> (String, String) {
    (name.into(), value.unwrap_or_else(|| "not here".into()))
}

/// The rivals' libraries, from the files that pin them.
fn libraries() -> Vec<(String, String)> {
    let pom = include_str!("../rivals/pom.xml");
    let module = include_str!("../rivals/go-pgx/go.mod");
    let between = |from: &str, to: &str| Some(pom.split_once(from)?.1.split_once(to)?.0.to_owned());
    let pgx = module.lines().find_map(|line| line.trim().split_once("github.com/jackc/pgx/v5 "));
    let lock = include_str!("../rivals/xitca/Cargo.lock");
    let locked = |name: &str| {
        let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    vec![
        fact(
            "Spring Boot",
            between("<artifactId>spring-boot-starter-parent</artifactId>\n    <version>", "<"),
        ),
        fact("Vert.x", between("<vertx.version>", "<")),
        fact("xitca-web", locked("xitca-web")),
        fact("xitca-postgres", locked("xitca-postgres")),
        fact("pgx", pgx.map(|(_, version)| version.split(' ').next().unwrap_or(version).to_owned())),
    ]
}

/// The measured commit, marked if the work tree differs from it.
fn commit() -> String {
    let commit = output_of(&["git", "rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".into());
    match output_of(&["git", "status", "--porcelain", "--", "src", "crates", "examples", "Cargo.lock"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => commit + "+",
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, Into::into)
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(": ")?.1.to_owned())
}

fn memory() -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes: f64 = text.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok()?;
    Some(format!("{:.0} GB", kibibytes * 1024.0 / 1e9))
}

fn system() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}
