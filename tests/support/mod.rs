//! Shared by the integration tests: databases, a running server, HTTP clients, and faults between
//! them.
//!
//! `cargo xtask test` starts a private PostgreSQL, MariaDB and MySQL 8. These variables of the
//! environment describe them, the release binary, and other programs:
//!
//! | variable | meaning |
//! |---|---|
//! | `ROWSTREAM_TEST_PG` | a URL of its superuser over TCP without TLS: `postgres://postgres@127.0.0.1:PORT/postgres?sslmode=disable` |
//! | `ROWSTREAM_TEST_PG_SOCKET` | the folder of its Unix socket; the port is that of the URL |
//! | `ROWSTREAM_TEST_PG_CA` | the PEM file of the CA that signed its certificate, which is valid only for `localhost` |
//! | `ROWSTREAM_TEST_PG_BIN` | the folder of PostgreSQL's programs, for `psql` and `pgbench` |
//! | `ROWSTREAM_TEST_MARIADB` | a URL of the private MariaDB's root over TCP without TLS: `mysql://root@127.0.0.1:PORT/mysql?ssl-mode=disabled` |
//! | `ROWSTREAM_TEST_MARIADB_SOCKET` | its Unix socket |
//! | `ROWSTREAM_TEST_MARIADB_CA` | the PEM file of the CA that signed its certificate, which is valid only for `localhost` |
//! | `ROWSTREAM_TEST_MYSQL8` | a URL of the private MySQL 8's root over TCP without TLS, like MariaDB's; not set if it can't be installed |
//! | `ROWSTREAM_TEST_MYSQL8_SOCKET` | its Unix socket |
//! | `ROWSTREAM_TEST_MYSQL8_FOLDER` | the folder of its programs, and of the `data` that a new server starts with |
//! | `ROWSTREAM_TEST_RELEASE_BIN` | the `rowstream` of the release build, for claims about memory and speed; if it's not set, the first test that needs it builds it |
//! | `ROWSTREAM_TEST_PYTHON` | a Python with pyarrow, polars, duckdb and ADBC drivers; not set if they can't be installed |
//! | `ROWSTREAM_TEST_DUCKDB` | the library of DuckDB; not set if it can't be installed |
//! | `ROWSTREAM_TEST_SAIL` | the program of Sail; not set if it can't be installed |
//! | `ROWSTREAM_TEST_TUN` | the device for simulated networks; not set if this machine can't have them |
//! | `ROWSTREAM_TEST_CONSOLE` | the npm packages that build and check the console and the JavaScript client; not set if they can't be installed |
//! | `ROWSTREAM_TEST_JARS` | the folder of H2's and QuestDB's jars; not set if they or Java can't be installed |
//!
//! To run tests without it, start `cargo xtask pg` in another terminal and set the printed
//! variables.
//!
//! Nothing is mocked: the database, the server and the sockets are real.

#![allow(dead_code, unreachable_pub, unused_macros, reason = "each of the test programs uses a part of this")]
#![allow(unused_imports, reason = "the same holds for what is exported here")]

mod altered;
pub mod arrow;
mod browser;
mod clients;
pub mod corpus;
mod db;
mod decode;
pub mod drivers;
pub mod hops;
mod mariadb;
mod mariadb_replica;
mod own_mysql;
mod pgbouncer;
mod ports;
mod program;
mod prometheus;
mod proxy;
mod replicas;
mod sail;
mod server;
mod tokens;
pub mod upstream;
mod wait;

pub use altered::altered_conversations;
pub use browser::{BACKSPACE, Browser, DOWN, ENTER, TAB};
pub use clients::{Client, Curl, Ended, Reply, Streaming, curl, get, get_h2c};
pub use db::{Login, TestDb, logins, pg_bin, pg_ca, pg_port, pg_socket, pg_url};
pub use decode::{CODINGS, decode, decoder};
pub use hops::Hop;
pub(crate) use mariadb::with_both;
pub use mariadb::{MariaDb, MySqlDb, Product, mariadb_ca, mariadb_port, mariadb_socket};
pub use mariadb_replica::MariaReplica;
pub use own_mysql::OwnServer;
pub use pgbouncer::PgBouncer;
pub use ports::{free_port, free_ports};
pub use program::{program, release_program, repository};
pub use prometheus::{Prometheus, promtool};
pub use proxy::{Cut, Faults, Pieces, TcpProxy, polled};
pub use replicas::Replicas;
pub use sail::{Sail, SailMode};
pub use server::{
    Exit, Launch, Server, anonymous_bytes, file_bytes, open_descriptors, peak_memory_bytes, rowstream,
};
pub use tokens::sha256;
pub use wait::{limit, wait, wait_until, wait_until_blocking};

/// A variable that `cargo xtask test` sets.
pub fn given(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `cargo xtask test`"))
}
