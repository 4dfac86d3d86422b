//! The tests of what users see, in one program, which is linked once: the server as a process, the
//! command line and the library's interface, against real databases, clients and proxies.
//!
//! A module is a subject. What needs the machine for itself stands in `tests/alone`.

#[path = "../../examples/delegate/upstream.rs"]
mod delegate;
#[path = "../support/mod.rs"]
mod support;
#[path = "../worked/mod.rs"]
mod worked;

mod access_log;
mod answers;
mod arrow;
mod authorization;
mod bench;
mod book;
mod bounds;
mod browser;
mod canary;
mod capacity;
mod cli;
mod compression;
mod config;
mod console;
mod contract;
mod cuts;
mod demo;
mod deployment;
mod discovery;
mod docs;
mod doctor;
mod drivers;
mod enrich;
mod environment;
mod error_detail;
mod error_pages;
mod examples;
mod floors;
mod follow;
mod fragments;
mod hosts;
mod http;
mod http3;
mod index;
mod init;
mod injection;
mod jwt;
mod libpq;
mod limits;
mod metrics;
mod monitoring;
mod mysql;
mod mysql_peer;
mod nested;
mod odbc;
mod openapi;
mod others;
mod packaging;
mod pages;
mod parallel;
mod parameters;
mod pgbouncer;
mod postgres_connect;
mod postgres_lookups;
mod postgres_session;
mod postgres_values;
mod procedures;
mod promises;
mod proof;
mod python;
mod raw_http;
mod ready;
mod registry;
mod reload;
mod replicas;
mod resume;
mod roles;
mod rolling;
mod schema;
mod shards;
mod slow;
mod sockets;
mod sqlite;
mod sqlite_lookups;
mod start;
mod stop;
mod streams;
mod strings;
mod support_works;
mod systemd;
mod tables;
mod terminal;
mod tls;
mod traces;
mod turns;
mod upstream;
