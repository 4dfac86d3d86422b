//! URLs for foreign drivers: Debian's ODBC drivers, and the ADBC drivers in npm packages and
//! wheels.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use super::given;

/// The database `name` at a port, through PostgreSQL's ODBC driver.
///
/// Without a cursor, the driver holds the whole result.
pub fn odbc_postgres(name: &str, port: u16) -> String {
    format!(
        "odbc:Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={port};Database={name};UID=postgres;\
         UseDeclareFetch=1;Fetch=1000"
    )
}

/// The database `name` at a port, through MariaDB's ODBC driver. It holds the whole result.
pub fn odbc_mariadb(name: &str, port: u16) -> String {
    format!("odbc:Driver={{MariaDB Unicode}};Server=127.0.0.1;Port={port};Database={name};UID=root")
}

/// A file through SQLite's ODBC driver.
pub fn odbc_sqlite(file: &Path) -> String {
    format!("odbc:Driver=SQLite3;Database={}", file.display())
}

/// DuckDB's library, which is also its ADBC driver.
pub fn duckdb() -> String {
    given("ROWSTREAM_TEST_DUCKDB")
}

/// The database `name` at a port, through PostgreSQL's ADBC driver.
pub fn adbc_postgres(name: &str, port: u16) -> String {
    static DRIVER: OnceLock<String> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| of_wheel("adbc_driver_postgresql"));
    format!("adbc:{driver}?uri=postgresql%3A%2F%2Fpostgres%40127.0.0.1%3A{port}%2F{name}")
}

/// The server at a port, through the Flight SQL ADBC driver.
pub fn adbc_flight(port: u16) -> String {
    static DRIVER: OnceLock<String> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| of_wheel("adbc_driver_flightsql"));
    format!("adbc:{driver}?uri=grpc%3A%2F%2F127.0.0.1%3A{port}")
}

/// The library of a driver in a wheel.
fn of_wheel(module: &str) -> String {
    let path = format!("import {module} as driver; print(driver._driver_path(), end='')");
    let output = Command::new(given("ROWSTREAM_TEST_PYTHON")).args(["-c", &path]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a path of the tests")
}
