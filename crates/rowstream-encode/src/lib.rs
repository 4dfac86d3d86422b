//! How values become bytes: [`Value`], the formats, and the body template.
//!
//! Pure bytes: no I/O, no async, no allocation per row. A caller lends values one by one and owns the
//! buffer they are written to; this crate never sees a socket or a database.

mod append;
#[cfg(feature = "arrow")]
mod arrow;
mod csv;
mod datetime;
mod escape;
mod float;
mod format;
mod hex;
mod integer;
mod json;
mod number;
mod rows;
mod template;
mod value;

#[cfg(feature = "arrow")]
pub use arrow::{ArrowEncoder, Misfit};
pub use csv::{CsvDialect, CsvEncoder, Quote, Separator};
pub use format::Format;
pub use json::write_value;
pub use number::is_json_number;
pub use rows::{RowEncoder, RowWriter, Shape};
pub use template::{Segment, Template, TemplateError};
pub use value::{Column, ColumnKind, Value};
