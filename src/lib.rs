//! Rowstream turns SQL into streaming HTTP endpoints.
//!
//! The way of the data, and the modules along it:
//!
//! ```text
//! request ─► route ─► params ─► admission ─► pool ─► source (rows) ─► encoder ─► body ─► client
//! ```
//!
//! The HTTP library polls [`body`]; the body pulls rows; rows pull the database's socket. `ARCHITECTURE.md` is the code map.

// Tests may unwrap; what runs in production may not.
#![warn(clippy::unwrap_used)]

pub mod access_log;
pub mod admission;
pub mod auth;
mod bench;
pub mod body;
mod capacity;
mod check;
pub mod cli;
pub mod client;
pub mod compress;
pub mod config;
pub mod cursor;
mod encoder;
pub mod endpoint;
pub mod error;
pub mod fault;
mod feed;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod memory;
pub mod metrics;
pub mod negotiate;
pub mod outcome;
pub mod params;
mod pass;
pub mod pointer;
pub mod pool;
mod procfs;
pub mod proof;
mod readiness;
pub mod respond;
pub mod route;
pub mod server;
pub mod source;
mod spill;
pub mod split;
pub mod sql;
mod watchdog;

pub use error::Error;
