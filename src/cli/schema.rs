//! `rowstream schema`: the JSON Schemas that editors use to complete and check the files.
//!
//! The schemas are files beside this one. A test asks the readers of the files for all keys that
//! they know, and compares.

use std::io::Write as _;

use serde_json::{Map, Value};

use super::Failure;
use super::output::ResultOutput;

const CONFIG: &str = include_str!("schema/config.json");
const ENDPOINT: &str = include_str!("schema/endpoint.json");
/// The definitions that both schemas share.
const SHARED: &str = include_str!("schema/shared.json");

/// Writes the JSON Schema of rowstream.toml or of endpoint files, for editors.
///
/// Editors with Taplo (Even Better TOML and others) use it if the file begins with `#:schema
/// rowstream.schema.json`.
#[derive(Debug, clap::Args)]
pub(super) struct SchemaArgs {
    /// The kind of file.
    #[arg(value_enum, default_value = "config")]
    of: SchemaFile,
}

/// The files that a schema describes.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum SchemaFile {
    /// rowstream.toml
    Config,
    /// Endpoint files: `.toml`, and the first comment of `.sql` (without the key `sql`)
    Endpoint,
}

pub(super) fn run(args: &SchemaArgs) -> Result<(), Failure> {
    let text = match args.of {
        SchemaFile::Config => config(),
        SchemaFile::Endpoint => with_shared(ENDPOINT),
    };
    Ok(ResultOutput::new().write_all(text.as_bytes())?)
}

/// The schema of `rowstream.toml`.
pub(super) fn config() -> String {
    with_shared(CONFIG)
}

fn with_shared(schema: &str) -> String {
    let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text).expect("it is JSON");
    let mut schema = read(schema);
    if let Some(Value::Object(definitions)) = schema.get_mut("definitions") {
        definitions.extend(read(SHARED));
    }
    format!("{:#}\n", Value::Object(schema))
}
