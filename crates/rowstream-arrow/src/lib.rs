//! Databases whose rows arrive as Arrow record batches: Arrow Flight SQL, spoken here ([`flight`]),
//! and databases of third-party ADBC and ODBC drivers, in a process of their own ([`worker`]).
//!
//! Each kind has a feature, because its libraries are large.

// Tests may unwrap; what runs in production may not.
#![warn(clippy::unwrap_used)]

#[cfg(any(feature = "worker", feature = "flight"))]
mod arrow_rows;
#[cfg(feature = "flight")]
pub mod flight;
#[cfg(feature = "worker")]
pub mod worker;
