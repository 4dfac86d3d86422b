//! The private PostgreSQL: a database for each test, and users with different logins.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio_postgres::NoTls;

use super::{given, wait_until};

/// A user of the private PostgreSQL. `cargo xtask` creates them, and a test of this module logs in
/// as each.
pub struct Login {
    pub user: &'static str,
    pub password: &'static str,
}

/// The users, named after their logins.
pub mod logins {
    use super::Login;

    /// SCRAM-SHA-256, with a password that a URL must escape.
    pub const SCRAM: Login = Login { user: "scram_user", password: "pä ss/w@rd:%" };
    pub const MD5: Login = Login { user: "md5_user", password: "md5" };
    /// The server requests the password in clear text.
    pub const CLEARTEXT: Login = Login { user: "password_user", password: "plain" };
    /// SCRAM-SHA-256, only over TLS.
    pub const TLS_ONLY: Login = Login { user: "tls_user", password: "tls" };
    /// Always refused.
    pub const REFUSED: Login = Login { user: "nobody_user", password: "nobody" };
}

/// The URL of the superuser, over TCP without TLS, to the database `postgres`.
pub fn pg_url() -> String {
    given("ROWSTREAM_TEST_PG")
}

/// The port. The name of the Unix socket contains it.
pub fn pg_port() -> u16 {
    let config: tokio_postgres::Config = pg_url().parse().expect("ROWSTREAM_TEST_PG is a URL");
    config.get_ports()[0]
}

/// The folder of the Unix socket, which also trusts the superuser.
pub fn pg_socket() -> PathBuf {
    given("ROWSTREAM_TEST_PG_SOCKET").into()
}

/// The CA certificate. `localhost` passes verification with it, but `127.0.0.1` doesn't.
pub fn pg_ca() -> PathBuf {
    given("ROWSTREAM_TEST_PG_CA").into()
}

/// The folder of PostgreSQL's programs.
pub fn pg_bin() -> PathBuf {
    given("ROWSTREAM_TEST_PG_BIN").into()
}

/// A database for a single test, so that tests can run in parallel. Dropping it drops the database.
pub struct TestDb {
    name: String,
}

impl TestDb {
    pub async fn new() -> Self {
        // The default strategy logs each page, which needs five times as long.
        Self::with("strategy file_copy").await
    }

    /// A database with an encoding other than UTF-8.
    pub async fn encoded(encoding: &str) -> Self {
        let options = format!("encoding '{encoding}' lc_collate 'C' lc_ctype 'C' template template0");
        Self::with(&options).await
    }

    async fn with(options: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Test programs may run in parallel, so the name includes the process id.
        let name = format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        execute(&pg_url(), &format!("create database {name} {options}")).await;
        Self { name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The superuser's URL of this database, over TCP without TLS.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{}?sslmode=disable", pg_port(), self.name)
    }

    /// Another user's URL, with the host `localhost`. `query` is the text after the `?`.
    pub fn url_of(&self, login: &Login, query: &str) -> String {
        let password = utf8_percent_encode(login.password, NON_ALPHANUMERIC);
        format!("postgres://{}:{password}@localhost:{}/{}?{query}", login.user, pg_port(), self.name)
    }

    /// Runs statements, separated by `;`, on a new connection. Panics with the SQL if one fails.
    pub async fn execute(&self, sql: &str) {
        execute(&self.url(), sql).await;
    }

    /// The server's major version.
    pub async fn version(&self) -> u64 {
        let sql = "select current_setting('server_version_num')::int8 / 10000";
        let row = self.client().await.query_one(sql, &[]).await.expect("a version");
        row.get::<_, i64>(0).unsigned_abs()
    }

    /// Waits until no statement runs in the database, except this query.
    pub async fn until_none_active(&self) {
        let client = self.client().await;
        let sql = "select count(*) from pg_stat_activity
            where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()";
        wait_until("all statements end", async || {
            client.query_one(sql, &[]).await.expect("it can be asked").get::<_, i64>(0) == 0
        })
        .await;
    }

    /// A connection of the superuser. Dropping it closes it.
    pub async fn client(&self) -> tokio_postgres::Client {
        connect(&self.url()).await
    }
}

impl Drop for TestDb {
    /// `Drop` can't await, and the test's runtime may have ended, so a thread with its own runtime
    /// drops the database. After a failure, the database is removed with the whole instance.
    fn drop(&mut self) {
        let sql = format!("drop database {} with (force)", self.name);
        let drop_it = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(execute(&pg_url(), &sql));
        };
        if std::thread::spawn(drop_it).join().is_err() {
            eprintln!("the database {} is left behind", self.name);
        }
    }
}

async fn execute(url: &str, sql: &str) {
    let client = connect(url).await;
    client.batch_execute(sql).await.unwrap_or_else(|fault| panic!("{fault:?}\nin: {sql}"));
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.unwrap_or_else(|fault| panic!("cannot connect to {url}: {fault:?}"));
    // If the test itself has cut this connection, the client's next call reports it.
    tokio::spawn(async { drop(connection.await) });
    client
}
