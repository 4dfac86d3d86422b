//! Settings outside the command line: variables for flags, `.env`, and their precedence.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{Launch, get, program};

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// A folder with these files, and an endpoint that reads a SQLite file with one row.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, n) in [("one.db", 1), ("two.db", 2)] {
        let connection = rusqlite::Connection::open(folder.path().join(name)).unwrap();
        connection.execute_batch(&format!("create table t(n integer); insert into t values ({n})")).unwrap();
    }
    write(
        folder.path(),
        &[
            ("rowstream.toml", "[source.main]\nurl = \"sqlite:${DB:-one.db}\"\n"),
            ("endpoints/t.sql", "select n from t"),
        ],
    );
    write(folder.path(), files);
    folder
}

/// Runs a command in a folder, with these variables of ours and no others.
fn run(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.current_dir(folder).args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    command.output().unwrap()
}

const QUERY: [&str; 3] = ["query", "sqlite:one.db", "select n, null as z from t"];

#[test]
fn a_flag_has_a_variable_and_the_command_line_wins() {
    let folder = folder(&[]);
    for (variables, more, expected) in [
        (&[][..], &[][..], "{\"n\":1,\"z\":null}\n"),
        (&[("ROWSTREAM_QUERY_FORMAT", "json")], &[], "[{\"n\":1,\"z\":null}]"),
        (&[("ROWSTREAM_QUERY_FORMAT", "json")], &["--format", "ndjson"], "{\"n\":1,\"z\":null}\n"),
        (&[("ROWSTREAM_QUERY_NULLS", "omit")], &[], "{\"n\":1}\n"),
        // A variable without a value isn't set, and another command's variables don't apply.
        (&[("ROWSTREAM_QUERY_FORMAT", "")], &[], "{\"n\":1,\"z\":null}\n"),
        (&[("ROWSTREAM_CHECK_FORMAT", "json")], &[], "{\"n\":1,\"z\":null}\n"),
    ] {
        let ran = run(folder.path(), variables, &[&QUERY, more].concat());
        assert_eq!((stdout(&ran), stderr(&ran)), (expected.to_owned(), String::new()), "{variables:?}");
    }
    let ran = run(folder.path(), &[("ROWSTREAM_QUERY_FORMAT", "xml")], &QUERY);
    assert_eq!(ran.status.code(), Some(2));
    let expected = "error: the variable ROWSTREAM_QUERY_FORMAT has an invalid value: the formats are table, ";
    assert!(stderr(&ran).starts_with(expected), "{}", stderr(&ran));
    for (variable, value, arguments, words) in [
        (
            "ROWSTREAM_LISTEN",
            "80hunter2",
            &["serve"][..],
            "ROWSTREAM_LISTEN has an invalid value: write host and port",
        ),
        ("ROWSTREAM_PORT", "hunter2", &["serve"], "ROWSTREAM_PORT has an invalid value: invalid digit"),
        ("ROWSTREAM_LOG_FORMAT", "hunter2", &["serve"], "the choices are text, json, off"),
        ("ROWSTREAM_WATCH", "hunter2", &["demo"], "ROWSTREAM_DEMO_WATCH"),
    ] {
        let ran = run(folder.path(), &[(variable, value), ("ROWSTREAM_DEMO_WATCH", "hunter2")], arguments);
        assert_eq!(ran.status.code(), Some(2));
        assert!(stderr(&ran).contains(words) && !stderr(&ran).contains("hunter2"), "{}", stderr(&ran));
    }
    // The error for a flag on the command line refers to the command line.
    let ran = run(folder.path(), &[("ROWSTREAM_PORT", "80")], &["serve", "--port", "x"]);
    assert!(stderr(&ran).contains("invalid value 'x' for '--port"), "{}", stderr(&ran));
    let ran = run(folder.path(), &[("ROWSTREAM_PORT", "80")], &["serve", "--log-format=x"]);
    assert!(stderr(&ran).contains("invalid value 'x' for '--log-format"), "{}", stderr(&ran));
    for (value, code) in [("1", 0), ("true", 0), ("yes", 0), ("0", 0), ("", 0), ("maybe", 2)] {
        let ran = run(folder.path(), &[("ROWSTREAM_WATCH", value)], &["serve", "--help"]);
        assert_eq!(ran.status.code(), Some(0), "help is answered before");
        let ran = run(folder.path(), &[("ROWSTREAM_WATCH", value)], &["serve", "missing.toml"]);
        assert_eq!(ran.status.code(), Some(if code == 0 { 1 } else { 2 }), "{value}: {}", stderr(&ran));
    }
}

#[test]
fn help_names_the_variables_and_shows_no_value() {
    let folder = folder(&[]);
    let variables = [("ROWSTREAM_LISTEN", "hunter2"), ("ROWSTREAM_QUERY_PARAM", "hunter2")];
    for (arguments, words) in [
        (["serve", "--help"], "[env: ROWSTREAM_LISTEN]"),
        (["query", "--help"], "[env: ROWSTREAM_QUERY_PARAM]"),
        (["bench", "-h"], "[env: ROWSTREAM_BENCH_CONNECTIONS]"),
    ] {
        let help = stdout(&run(folder.path(), &variables, &arguments));
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(words) && !help.contains("hunter2"), "{help}");
    }
}

#[test]
fn a_configuration_is_named_by_position_flag_or_variable() {
    let folder = folder(&[("other/rowstream.toml", ""), ("other.toml", "")]);
    let path = folder.path().join("rowstream.toml");
    let path = path.to_str().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    for (variables, arguments) in [
        (&[][..], &["check", path][..]),
        (&[], &["check", "--config", path]),
        (&[], &["check", "--config", here]),
        (&[("ROWSTREAM_CONFIG", path)], &["check"]),
        (&[("ROWSTREAM_CONFIG", "nowhere.toml")], &["check", path]),
        (&[("ROWSTREAM_CONFIG", "nowhere.toml")], &["check", "--config", path]),
    ] {
        let ran = run(elsewhere.path(), variables, arguments);
        assert_eq!(ran.status.code(), Some(0), "{variables:?} {arguments:?}: {}", stderr(&ran));
        assert!(stdout(&ran).contains("GET /t"), "{}", stdout(&ran));
    }
    for command in ["check", "serve"] {
        let ran = run(folder.path(), &[], &[command, path, "--config", path]);
        assert_eq!(ran.status.code(), Some(2));
        assert!(stderr(&ran).contains("takes one configuration"), "{}", stderr(&ran));
    }
}

#[tokio::test]
async fn a_file_of_variables_stands_in_for_the_environment() {
    let folder = folder(&[(".env", "# which one\nexport DB='two.db'\nROWSTREAM_LOG_FORMAT=json\n")]);
    let server = Launch::folder(folder.path()).argument("--watch").start().await;
    assert_eq!(get(&server.url("/t")).await.text(), "[{\"n\":2}]");
    server.wait_for_stdout("\"target\":\"/t\"").await;
    assert!(server.stderr().lines().all(|line| line.starts_with('{')), "{}", server.stderr());
    // The reload reads it again, but flags keep their values.
    write(folder.path(), &[(".env", "DB=one.db\nROWSTREAM_LOG_FORMAT=text\n")]);
    server.wait_for_stderr("reloaded").await;
    assert_eq!(get(&server.url("/t")).await.text(), "[{\"n\":1}]");
    // The environment has precedence.
    let server = Launch::folder(folder.path()).variable("DB", "two.db").start().await;
    assert_eq!(get(&server.url("/t")).await.text(), "[{\"n\":2}]");
}

/// `max_lag` of a source of MySQL was once accepted and ignored, so that its replicas were read with any
/// lag. Settings that guard nothing may be for a database that the environment chooses.
#[test]
fn a_setting_of_another_database_is_refused() {
    let chosen = "url = \"${SHOP_URL:-sqlite:one.db}\"\n";
    let refused =
        |name: &str, database: &str| Some(format!("`{name}` is for {database}\n    hint: leave it out"));
    for (source, expected) in [
        ("url = \"mysql://h/d\"\nmax_lag = \"5s\"", refused("max_lag", "PostgreSQL")),
        ("url = \"sqlite:one.db\"\npooler = \"session\"", refused("pooler", "PostgreSQL")),
        (&format!("{chosen}max_lag = \"5s\""), refused("max_lag", "PostgreSQL")),
        (&format!("{chosen}roles = [\"a\"]"), refused("roles", "PostgreSQL")),
        (&format!("{chosen}pooler = \"session\"\nfetch_bytes = \"1MiB\""), None),
        (&format!("{chosen}pooler = \"yes\""), Some("`yes` isn't a mode of a pooler".to_owned())),
    ] {
        let folder = folder(&[("rowstream.toml", &format!("[source.main]\n{source}\n"))]);
        let checked = run(folder.path(), &[], &["check"]);
        let Some(expected) = expected else {
            assert_eq!(checked.status.code(), Some(0), "{source}: {}", stderr(&checked));
            continue;
        };
        for ran in [checked, run(folder.path(), &[], &["serve"])] {
            assert_eq!(ran.status.code(), Some(1), "{source}");
            assert!(stderr(&ran).contains(&expected), "{source}: {}", stderr(&ran));
        }
    }
}

#[test]
fn a_line_of_the_file_that_is_none_is_named_and_not_shown() {
    let folder = folder(&[(".env", "DB=two.db\n\nPASSWORD=hunter2 twelve\n")]);
    let place = ".env:3:1: this is not `NAME=VALUE`, or its quotes don't match\n    hint: ";
    let ran = run(folder.path(), &[], &["check"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(stderr(&ran).contains(place) && !stderr(&ran).contains("hunter2"), "{}", stderr(&ran));
    let ran = run(folder.path(), &[], &["serve"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(stderr(&ran).contains(place), "{}", stderr(&ran));
    let ran = run(folder.path(), &[], &["check", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&document["errors"][0]["file"], &document["errors"][0]["line"]), (&".env".into(), &3.into()));
}
