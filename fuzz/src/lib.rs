//! Properties that hold for any input.
//!
//! Each property builds its input from bytes, and panics if it's violated. libFuzzer searches for
//! such bytes (`cargo xtask fuzz`, one program per property in `fuzz_targets/`). Each test run
//! checks the kept inputs in `corpus/` with the stable compiler. The oracles are other libraries,
//! or simple readers that share no code with the tested ones.

mod arrow;
mod count;
mod csv;
mod cursor;
mod discovery;
mod endpoint;
mod filter;
mod flight;
mod json;
mod jwt;
mod mysql;
mod proxy_protocol;
mod request;
mod row;
mod signed_url;
mod split;
mod sql;
mod template;
mod value;
mod wire;
mod worker;

pub use arrow::arrow;
pub use count::count;
pub use csv::csv;
pub use cursor::cursor;
pub use discovery::discovery;
pub use endpoint::endpoint;
pub use filter::filter;
pub use flight::{flight_answer, flight_batches};
pub use json::json;
pub use jwt::jwt;
pub use mysql::{mysql_row, mysql_wire};
pub use proxy_protocol::proxy_protocol;
pub use request::request;
pub use row::{postgres_row, postgres_values};
pub use signed_url::signed_url;
pub use split::split;
pub use sql::{sql, sql_tokens};
pub use template::template;
pub use wire::postgres_wire;
pub use worker::worker_batches;

/// A property.
pub type Property = fn(&[u8]);

/// All properties by name. A property's program and corpus have the same name.
pub const PROPERTIES: &[(&str, Property)] = &[
    ("arrow", arrow),
    ("count", count),
    ("csv", csv),
    ("cursor", cursor),
    ("discovery", discovery),
    ("endpoint", endpoint),
    ("filter", filter),
    ("flight_answer", flight_answer),
    ("flight_batches", flight_batches),
    ("json", json),
    ("jwt", jwt),
    ("mysql_row", mysql_row),
    ("mysql_wire", mysql_wire),
    ("postgres_row", postgres_row),
    ("postgres_values", postgres_values),
    ("postgres_wire", postgres_wire),
    ("proxy_protocol", proxy_protocol),
    ("request", request),
    ("signed_url", signed_url),
    ("split", split),
    ("sql", sql),
    ("sql_tokens", sql_tokens),
    ("template", template),
    ("worker_batches", worker_batches),
];

/// The program of a property: libFuzzer's. Otherwise it runs the files in its arguments, for a
/// debugger.
#[macro_export]
macro_rules! program {
    ($property:path) => {
        #[cfg(fuzzing)]
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $property(data));

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            std::env::args_os().skip(1).try_for_each(|file| std::fs::read(file).map(|data| $property(&data)))
        }
    };
}

#[cfg(fuzzing)]
pub use libfuzzer_sys;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::panic;
    use std::path::{Path, PathBuf};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn the_kept_inputs_hold() {
        for (name, property) in PROPERTIES {
            let inputs = files(&folder("corpus").join(name));
            assert!(!inputs.is_empty(), "{name} has a corpus");
            for input in inputs {
                let data = fs::read(&input).unwrap();
                assert!(panic::catch_unwind(|| property(&data)).is_ok(), "{}", input.display());
            }
        }
    }

    #[test]
    fn each_property_has_a_program_and_a_corpus() {
        let names: BTreeSet<_> = PROPERTIES.iter().map(|(name, _)| PathBuf::from(name)).collect();
        let stems = |folder: &Path| -> BTreeSet<PathBuf> {
            files(folder).iter().map(|path| PathBuf::from(path.file_stem().unwrap())).collect()
        };
        assert_eq!(stems(&folder("fuzz_targets")), names);
        assert_eq!(stems(&folder("corpus")), names);
    }
}
