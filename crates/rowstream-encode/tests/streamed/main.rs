//! Responses of axum handlers and of hyper, over sockets.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod client;
mod delivery;
mod examples;
mod failures;
mod formats;
mod framed;
mod hyper;
mod json;
mod placement;
