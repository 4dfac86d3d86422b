//! The private MariaDB: a database for each test, filled and queried by MariaDB's own client.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::given;

/// The port of the server on 127.0.0.1.
pub fn mariadb_port() -> u16 {
    let url = given("ROWSTREAM_TEST_MARIADB");
    let address = url.split(['@', '/']).nth(3).expect("ROWSTREAM_TEST_MARIADB is a URL");
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    port.expect("ROWSTREAM_TEST_MARIADB has a port")
}

/// The Unix socket.
pub fn mariadb_socket() -> PathBuf {
    given("ROWSTREAM_TEST_MARIADB_SOCKET").into()
}

/// The CA certificate. `localhost` passes verification with it, but `127.0.0.1` doesn't.
pub fn mariadb_ca() -> PathBuf {
    given("ROWSTREAM_TEST_MARIADB_CA").into()
}

/// A database for a single test, so that tests can run in parallel. Dropping it drops the database.
pub struct MariaDb {
    name: String,
}

impl MariaDb {
    /// A database filled by `sql`.
    pub fn new(sql: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run("mysql", &format!("create database {name} character set utf8mb4"));
        let this = Self { name };
        this.execute(sql);
        this
    }

    /// A database filled by a script, which can change the separator of statements with
    /// `delimiter`.
    pub fn script(sql: &str) -> Self {
        let this = Self::new("select 1");
        let mut client = client(&this.name).stdin(Stdio::piped()).spawn().expect("MariaDB's client runs");
        client.stdin.take().expect("it is piped").write_all(sql.as_bytes()).expect("the client reads");
        assert!(client.wait().expect("it is our child").success(), "{sql}");
        this
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Root's URL of this database, over TCP without TLS.
    pub fn url(&self) -> String {
        self.url_at(mariadb_port())
    }

    /// The same with another port.
    pub fn url_at(&self, port: u16) -> String {
        format!("mysql://root@127.0.0.1:{port}/{}?ssl-mode=disabled", self.name)
    }

    /// Another user's URL, with the host `localhost`. `query` is the text after the `?`.
    pub fn url_of(&self, login: &str, query: &str) -> String {
        format!("mysql://{login}@localhost:{}/{}?{query}", mariadb_port(), self.name)
    }

    /// Runs statements, separated by `;`. Panics with the client's message if one fails.
    pub fn execute(&self, sql: &str) {
        run(&self.name, sql);
    }

    /// The rows of a statement, one per line, with values separated by tabs.
    pub fn ask(&self, sql: &str) -> String {
        run(&self.name, sql)
    }

    /// Ends the connections to this database. A test that panicked may have an open transaction,
    /// and dropping a table waits for its end.
    fn disconnect_all(&self) {
        let kills = run(
            "mysql",
            &format!(
                "select concat('kill ', id, ';') from information_schema.processlist where db = '{}'",
                self.name
            ),
        );
        // A connection may have ended by itself. That must not cause a panic during a panic.
        let killed = client("mysql").args(["--force", "--execute", &kills]).output();
        drop(killed);
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.disconnect_all();
        }
        run("mysql", &format!("drop database {}", self.name));
    }
}

/// MariaDB's own client.
fn client(database: &str) -> Command {
    client_at(mariadb_port(), database)
}

pub(super) fn client_at(port: u16, database: &str) -> Command {
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "--user=root", "--host=127.0.0.1", "--default-character-set=utf8mb4"]);
    client.args(["--batch", "--raw", "--skip-column-names", "--skip-ssl"]);
    client.arg(format!("--port={port}")).arg(database);
    client
}

fn run(database: &str, sql: &str) -> String {
    run_at(mariadb_port(), database, sql)
}

/// Passes the statements on standard input, because an argument has at most 128 KiB.
pub(super) fn run_at(port: u16, database: &str, sql: &str) -> String {
    let mut client = client_at(port, database);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().expect("MariaDB's client runs");
    // After an error it doesn't read the rest, and its message matters more.
    drop(client.stdin.take().expect("it is piped").write_all(sql.as_bytes()));
    let output = client.wait_with_output().expect("it is our child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\nin: {sql}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
