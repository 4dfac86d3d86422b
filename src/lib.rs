//! Rowstream turns SQL into streaming HTTP endpoints.
//!
//! The way of the data, and the modules along it:
//!
//! ```text
//! request ─► route ─► params ─► admission ─► pool ─► source (rows) ─► encoder ─► body ─► client
//! ```
//!
//! The HTTP library polls [`stream`]; the body pulls rows; rows pull the database's socket.
//! `ARCHITECTURE.md` is the code map.

// Tests may unwrap; what runs in production may not.
#![warn(clippy::unwrap_used)]

pub mod access_log;
pub mod admission;
pub mod auth;
mod budget;
pub mod capacity;
mod certificate;
mod check;
pub mod cli;
pub mod completeness;
pub mod compress;
pub mod config;
pub mod database;
pub mod endpoint;
mod error_pages;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod html;
pub mod jwk;
pub mod metrics;
pub mod negotiate;
mod openapi;
pub mod outcome;
mod rate_limit;
mod readiness;
pub mod respond;
pub mod route;
pub mod server;
pub mod source;
mod spool;
pub mod stream;
mod tables;
pub mod traces;
mod watchdog;

pub use rowstream_core::Error;
