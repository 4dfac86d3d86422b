//! The databases that a build may lack. Their schemes are known in every build, so that it can report
//! the missing feature.

/// A database that a build may lack.
#[derive(Debug)]
pub struct OptionalDatabase {
    /// The schemes of its URLs, in lower case.
    pub schemes: &'static [&'static str],
    /// Its name, as in "built without ODBC".
    pub name: &'static str,
    /// The Cargo feature of the program.
    pub feature: &'static str,
}

/// Databases of ADBC's drivers.
pub const ADBC: OptionalDatabase =
    OptionalDatabase { schemes: &["adbc"], name: "drivers of ADBC", feature: "adbc" };
/// DuckDB, with its ADBC driver.
pub const DUCKDB: OptionalDatabase =
    OptionalDatabase { schemes: &["duckdb"], name: "DuckDB", feature: "adbc" };
/// Databases of ODBC's drivers.
pub const ODBC: OptionalDatabase = OptionalDatabase { schemes: &["odbc"], name: "ODBC", feature: "odbc" };
/// Servers of Arrow Flight SQL.
pub const FLIGHT: OptionalDatabase = OptionalDatabase {
    schemes: &["flightsql", "flightsql+tls"],
    name: "Arrow Flight SQL",
    feature: "flight",
};

/// The optional database whose URLs have this scheme.
pub fn of_scheme(scheme: &str) -> Option<OptionalDatabase> {
    let has_scheme =
        |database: &OptionalDatabase| database.schemes.iter().any(|known| known.eq_ignore_ascii_case(scheme));
    [ADBC, DUCKDB, ODBC, FLIGHT].into_iter().find(has_scheme)
}
