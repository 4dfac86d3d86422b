//! The private MariaDB and the private MySQL 8: a database for each test, filled and queried by
//! MariaDB's own client.

use std::io::Write as _;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::given;

/// The server of a test that can run against both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    MariaDb,
    MySql8,
}

impl Product {
    /// A new database on this server, filled by `sql`.
    pub fn database(self, sql: &str) -> MySqlDb {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run_at(self.port(), "mysql", &format!("create database {name} character set utf8mb4"));
        let this = MySqlDb { product: self, name };
        if self == Self::MySql8 {
            this.execute(&sequences());
        }
        this.execute(sql);
        this
    }

    /// The same with a script, which can change the separator of statements with `delimiter`.
    pub fn script(self, sql: &str) -> MySqlDb {
        let this = self.database("select 1");
        let mut client = client_at(self.port(), &this.name);
        let mut client = client.stdin(Stdio::piped()).spawn().expect("MariaDB's client runs");
        client.stdin.take().expect("it is piped").write_all(sql.as_bytes()).expect("the client reads");
        assert!(client.wait().expect("it is our child").success(), "{sql}");
        this
    }

    /// The server's port on 127.0.0.1.
    pub fn port(self) -> u16 {
        let variable = match self {
            Self::MariaDb => "ROWSTREAM_TEST_MARIADB",
            Self::MySql8 => "ROWSTREAM_TEST_MYSQL8",
        };
        let url = given(variable);
        let address = url.split(['@', '/']).nth(3).unwrap_or_else(|| panic!("{variable} is no URL"));
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        port.unwrap_or_else(|| panic!("{variable} has no port"))
    }

    /// The Unix socket.
    pub fn socket(self) -> PathBuf {
        match self {
            Self::MariaDb => mariadb_socket(),
            Self::MySql8 => given("ROWSTREAM_TEST_MYSQL8_SOCKET").into(),
        }
    }
}

/// Makes two tests of each function: one against MariaDB, and one against MySQL 8.
macro_rules! with_both {
    (@$server:ident $product:ident $($test:ident)*) => {
        mod $server {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::support::Product::$product).await;
            })*
        }
    };
    ($($test:ident)*) => {
        with_both!(@mariadb MariaDb $($test)*);
        with_both!(@mysql8 MySql8 $($test)*);
    };
}
pub(crate) use with_both;

/// MySQL has no tables like MariaDB's `seq_1_to_40`, so these are views for the tests' lengths.
pub(super) fn sequences() -> String {
    const LENGTHS: [u32; 19] = [
        2, 3, 7, 10, 20, 40, 100, 120, 350, 1000, 3000, 4000, 5000, 9000, 10_000, 20_000, 30_000, 100_000,
        400_000,
    ];
    let mut sql = "create table digit (d int primary key); insert into digit values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);"
        .to_owned();
    for length in LENGTHS.into_iter().chain([1_000_000, 1_000_000_000]) {
        let digits = (length - 1).ilog10();
        // Outer joins keep their order, so the numbers are in order.
        let joins = (1..=digits).map(|n| format!(" left join digit d{n} on true")).collect::<String>();
        let sum = (1..=digits).fold("d0.d".to_owned(), |sum, n| format!("10 * ({sum}) + d{n}.d"));
        sql += &format!(
            "create view seq_1_to_{length} as select {sum} + 1 as seq from digit d0{joins} where {sum} < {length};"
        );
    }
    sql
}

/// The port of MariaDB on 127.0.0.1.
pub fn mariadb_port() -> u16 {
    Product::MariaDb.port()
}

/// MariaDB's Unix socket.
pub fn mariadb_socket() -> PathBuf {
    given("ROWSTREAM_TEST_MARIADB_SOCKET").into()
}

/// The CA certificate. `localhost` passes verification with it, but `127.0.0.1` doesn't.
pub fn mariadb_ca() -> PathBuf {
    given("ROWSTREAM_TEST_MARIADB_CA").into()
}

/// A database of MariaDB for a single test.
pub struct MariaDb(MySqlDb);

impl MariaDb {
    /// A database filled by `sql`.
    pub fn new(sql: &str) -> Self {
        Self(Product::MariaDb.database(sql))
    }

    /// A database filled by a script, which can change the separator of statements with
    /// `delimiter`.
    pub fn script(sql: &str) -> Self {
        Self(Product::MariaDb.script(sql))
    }
}

impl Deref for MariaDb {
    type Target = MySqlDb;

    fn deref(&self) -> &MySqlDb {
        &self.0
    }
}

/// A database for a single test, so that tests can run in parallel. Dropping it drops the database.
pub struct MySqlDb {
    product: Product,
    name: String,
}

impl MySqlDb {
    pub fn product(&self) -> Product {
        self.product
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Root's URL of this database, over TCP without TLS.
    pub fn url(&self) -> String {
        self.url_at(self.product.port())
    }

    /// The same with another port.
    pub fn url_at(&self, port: u16) -> String {
        format!("mysql://root@127.0.0.1:{port}/{}?ssl-mode=disabled", self.name)
    }

    /// Another user's URL, with the host `localhost`. `query` is the text after the `?`.
    pub fn url_of(&self, login: &str, query: &str) -> String {
        format!("mysql://{login}@localhost:{}/{}?{query}", self.product.port(), self.name)
    }

    /// Runs statements, separated by `;`. Panics with the client's message if one fails.
    pub fn execute(&self, sql: &str) {
        self.ask(sql);
    }

    /// The rows of a statement, one per line, with values separated by tabs.
    pub fn ask(&self, sql: &str) -> String {
        run_at(self.product.port(), &self.name, sql)
    }

    /// Ends the connections to this database. A test that panicked may have an open transaction,
    /// and dropping a table waits for its end.
    fn disconnect_all(&self) {
        let kills = run_at(
            self.product.port(),
            "mysql",
            &format!(
                "select concat('kill ', id, ';') from information_schema.processlist where db = '{}'",
                self.name
            ),
        );
        // A connection may have ended by itself. That must not cause a panic during a panic.
        let killed = client_at(self.product.port(), "mysql").args(["--force", "--execute", &kills]).output();
        drop(killed);
    }
}

impl Drop for MySqlDb {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.disconnect_all();
        }
        run_at(self.product.port(), "mysql", &format!("drop database {}", self.name));
    }
}

/// MariaDB's own client.
pub(super) fn client_at(port: u16, database: &str) -> Command {
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "--user=root", "--host=127.0.0.1", "--default-character-set=utf8mb4"]);
    client.args(["--batch", "--raw", "--skip-column-names", "--skip-ssl"]);
    client.arg(format!("--port={port}")).arg(database);
    client
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
