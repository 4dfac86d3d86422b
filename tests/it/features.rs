//! Cargo features: those of a default build, and the error for a missing one.
//!
//! The release build is the default one. All other tests run a build with every feature.

use std::process::{Command, Stdio};

use crate::support::release_program;

/// Standard error of the release build, in a folder with this configuration.
fn stderr(config: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("rowstream.toml"), config).expect("the folder is writable");
    std::fs::create_dir(folder.path().join("endpoints")).expect("the folder is writable");
    std::fs::write(folder.path().join("sales.parquet"), "").expect("the folder is writable");
    let mut command = Command::new(release_program());
    command.args(arguments).current_dir(folder.path()).stdin(Stdio::null());
    let output = command.output().expect("the program starts");
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn a_missing_feature_is_an_error_with_the_command_that_builds_it() {
    let acme = "[tls.acme]\ndomains = [\"shop.example\"]\nfolder = \"acme\"\n";
    let discover = "[source.up]\nurl = \"http://up.internal\"\nallow = [\"10.0.0.0/8\"]\n\
                    discover = { srv = \"_http._tcp.up.example\" }\n";
    let duckdb = "[source.db]\nurl = \"duckdb:sales.duckdb\"\n";
    for (config, arguments, name, feature) in [
        ("", &["query", "duckdb:sales.duckdb", "select 1"][..], "DuckDB", "adbc"),
        ("", &["query", "sales.parquet", "select 1"], "DuckDB", "adbc"),
        ("", &["serve", "sales.parquet"], "DuckDB", "adbc"),
        ("", &["serve", "duckdb:sales.duckdb"], "DuckDB", "adbc"),
        ("", &["check", "duckdb:sales.duckdb"], "DuckDB", "adbc"),
        ("", &["query", "adbc:libx.so", "select 1"], "drivers of ADBC", "adbc"),
        (duckdb, &["check"], "DuckDB", "adbc"),
        (acme, &["check"], "ACME", "acme"),
        (discover, &["check"], "service discovery", "discovery"),
    ] {
        let message = format!("this program was built without {name}");
        let hint = format!("`cargo install --path . --features {feature}`");
        let said = stderr(config, arguments);
        assert!(said.contains(&message) && said.contains(&hint), "{arguments:?}: {said}");
    }
}

#[test]
fn a_default_build_has_flight_sql_odbc_and_http3() {
    for url in ["flightsql://127.0.0.1:1", "odbc:DSN=none"] {
        let said = stderr("", &["query", url, "select 1"]);
        assert!(said.contains("source `database` cannot be reached"), "{url}: {said}");
    }
    let said = stderr("[tls]\nhttp3 = true\ncertificate = \"none.pem\"\nkey = \"none.pem\"\n", &["check"]);
    assert!(said.contains("none.pem") && !said.contains("built without"), "{said}");
}
