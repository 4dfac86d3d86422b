//! Databases: a folder each, which speaks with one kind of them.

pub mod postgres;
pub mod sqlite;
