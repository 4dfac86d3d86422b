//! A MySQL 8 or MariaDB for a single test, whose global settings the test may change. Neither has TLS.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::mariadb::{client_at, run_at, sequences};
use super::ports::free_port;
use super::{MariaReplica, Product, given, wait_until_blocking};

/// A server for one test. Dropping it ends the server.
pub enum OwnServer {
    MariaDb(MariaReplica),
    MySql8(OwnMySql),
}

impl OwnServer {
    pub fn start(product: Product) -> Self {
        match product {
            Product::MariaDb => Self::MariaDb(MariaReplica::start()),
            Product::MySql8 => Self::MySql8(OwnMySql::start()),
        }
    }

    /// The rows of statements of root, one per line.
    pub fn ask(&self, sql: &str) -> String {
        run_at(self.port(), "mysql", sql)
    }

    /// Root's URL.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/mysql?ssl-mode=disabled", self.port())
    }

    fn port(&self) -> u16 {
        match self {
            Self::MariaDb(servers) => servers.port(0),
            Self::MySql8(server) => server.port,
        }
    }
}

/// A MySQL 8 with a copy of the data that `cargo xtask test` has made.
pub struct OwnMySql {
    port: u16,
    server: Child,
    _folder: tempfile::TempDir,
}

impl OwnMySql {
    fn start() -> Self {
        let installation = PathBuf::from(given("ROWSTREAM_TEST_MYSQL8_FOLDER"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        let copied = Command::new("cp").arg("-a").arg(installation.join("data")).arg(&data).status();
        assert!(copied.expect("cp runs").success());
        let init = folder.path().join("init.sql");
        let root = "create user root@'127.0.0.1';\ngrant all on *.* to root@'127.0.0.1' with grant option;";
        std::fs::write(&init, root).expect("it is writable");
        let log = File::create(folder.path().join("log")).expect("it is writable");
        let port = free_port().port();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(installation.join("bin/mysqld"));
        command.args(["--no-defaults", "--user=root", "--skip-ssl", "--mysqlx=off", "--skip-log-bin"]);
        command.args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--performance-schema=off"]);
        command.arg("--optimizer-switch=block_nested_loop=off");
        command.args(["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M"]);
        command.args(["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"]);
        command.arg("--lc-messages-dir").arg(installation.join("share")).arg("--init-file").arg(init);
        command.arg(format!("--port={port}")).arg("--basedir").arg(&installation).arg("--datadir").arg(&data);
        command.arg("--socket").arg(data.join("socket")).arg("--pid-file").arg(data.join("pid"));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor")).stderr(log);
        let server = command.spawn().expect("MySQL can be started");
        let this = Self { port, server, _folder: folder };
        wait_until_blocking("MySQL answers", || {
            let output = client_at(port, "mysql").args(["--execute", "select 1"]).output();
            let output = output.expect("MariaDB's client runs");
            output.status.success().then_some(()).ok_or_else(|| format!("{output:?}"))
        });
        run_at(port, "mysql", &sequences());
        this
    }
}

impl Drop for OwnMySql {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}
