//! Tests that call the library in addition to the program.
//!
//! Each module has a subject. Tests that only start the program are in `tests/it`, which isn't
//! compiled again when the library changes.

#[path = "../support/mod.rs"]
mod support;
#[path = "../worked/mod.rs"]
mod worked;

mod arrow;
mod canary;
mod certificates;
mod compression;
mod config;
mod deployment;
mod error_pages;
mod fragments;
mod metrics;
mod monitoring;
mod mysql;
mod mysql_peer;
mod parallel;
mod postgres_connect;
mod postgres_session;
mod postgres_values;
mod procedures;
mod promises;
mod resume;
mod schema;
mod shards;
mod sqlite;
mod streams;
mod strings;
