//! The shared parts of Rowstream's databases, upstreams and server.
//!
//! Nothing in this crate depends on a certain database, an endpoint or a configuration file. The
//! modules form layers. A module may use those below it, and in its own layer those to its left.
//!
//! ```text
//! cursor fetch settings
//! params pool filter
//! error
//! diagnostic tcp tls
//! sql log histogram client
//! lock timer datetime
//! ```
//!
//! - [`sql`] turns named parameters into a database's placeholders. [`params`] checks the values of
//!   a request, [`filter`] reads what it asks of a list, and [`cursor`] signs the values that a list
//!   resumes after.
//! - [`error`] describes a request's failure, and [`diagnostic`] a mistake in a file, with its
//!   line.
//! - [`pool`] shares connections among clients, and [`settings`] has the limits of a source.
//! - [`tcp`], [`tls`] and [`fetch`] connect to other hosts.
//!
//! ```
//! use rowstream_core::sql::Sql;
//! use rowstream_core::sql::dialect::samples::NUMBERED;
//!
//! let text = "select id, name from films where year >= :year and (:year = 2006 or rating = :rating)";
//! let sql = Sql::parse(text, &NUMBERED)?;
//! assert_eq!(sql.text, "select id, name from films where year >= $1 and ($1 = 2006 or rating = $2)");
//! assert_eq!(sql.names, ["year", "rating"]);
//! # Ok::<(), rowstream_core::sql::SqlError>(())
//! ```

// Tests may unwrap, but production code may not.
#![warn(clippy::unwrap_used)]

pub mod client;
pub mod cursor;
pub mod datetime;
pub mod diagnostic;
pub mod error;
pub mod fetch;
pub mod filter;
pub mod histogram;
pub mod lock;
pub mod log;
pub mod params;
pub mod pool;
pub mod settings;
pub mod sql;
pub mod tcp;
pub mod timer;
pub mod tls;

pub use error::Error;
