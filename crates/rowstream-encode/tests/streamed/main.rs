//! Responses of axum handlers, over sockets.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod client;
mod delivery;
mod examples;
mod failures;
mod formats;
mod json;
mod placement;
