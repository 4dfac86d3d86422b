//! How values become bytes: [`Value`], the formats, and the body template.
//!
//! Pure bytes: no I/O, no async, no allocation per row. A caller lends values one by one and owns the
//! buffer they are written to; this crate never sees a socket or a database.

mod append;
mod csv;
mod datetime;
mod escape;
mod float;
mod format;
mod hex;
mod integer;
mod json;
mod number;
mod options;
mod rows;
mod template;
mod value;

pub use csv::{CsvDialect, CsvEncoder, Quote, Separator};
pub use format::Format;
pub use json::write_value;
pub use number::is_json_number;
pub use options::{BytesForm, Choice, Intervals, Nulls, Numbers, ValueOptions};
pub use rows::{OptionsEncoder, RowEncoder, RowWriter, Shape};
pub use template::{Segment, Template, TemplateError};
pub use value::{Column, Value};
