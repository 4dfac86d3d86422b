//! Tests of the program as users see it, in one binary that is linked once: the server as a process
//! and the command line, with real databases, clients and proxies.
//!
//! Each module has a subject. Tests that need the machine for themselves are in `tests/alone`, and
//! those that call the library in `tests/library`.

#[path = "../../examples/delegate/upstream.rs"]
mod delegate;
#[path = "../support/mod.rs"]
mod support;
#[path = "../worked/mod.rs"]
mod worked;

mod access_log;
mod acme;
mod against;
mod answers;
mod authorization;
mod bench;
mod book;
mod bounds;
mod browser;
mod capacity;
mod check_hosts;
mod cli;
mod console;
mod consul;
mod contract;
mod credentials;
mod cuts;
mod demo;
mod discovery;
mod distance;
mod docs;
mod doctor;
mod drivers;
mod duckdb_files;
mod enrich;
mod environment;
mod error_detail;
mod examples;
mod explain;
mod features;
mod filters;
mod first_contact;
mod flight_peer;
mod floors;
mod follow;
mod hosts;
mod http;
mod http3;
mod index;
mod init;
mod injection;
mod jwt;
mod keys;
mod libpq;
mod limits;
mod lookups;
mod mysql_lookups;
mod nested;
mod odbc;
mod openapi;
mod others;
mod packaging;
mod pages;
mod parameter_types;
mod parameters;
mod pgbouncer;
mod postgres_lookups;
mod postgres_settings;
mod proof;
mod prose;
mod python;
mod query_stops;
mod raw_http;
mod raw_http2;
mod ready;
mod recreated_types;
mod registry;
mod reload;
mod replaced_files;
mod replicas;
mod rewritten_tables;
mod roles;
mod rolling;
mod row_counts;
mod sail;
mod sessions;
mod signed_urls;
mod silence;
mod slow;
mod sockets;
mod sqlite_files;
mod sqlite_lookups;
mod start;
mod stop;
mod support_works;
mod systemd;
mod tables;
mod terminal;
mod tls;
mod traces;
mod turns;
mod upstream;
mod wire;
mod wire_columns;
mod wrong_values;
