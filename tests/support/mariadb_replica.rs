//! A MariaDB and its replica, for a single test. Neither has TLS.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::mariadb::{client_at, run_at};
use super::ports::free_ports;
use super::wait_until_blocking;

/// The primary (0) and the replica (1). Dropping it ends both.
pub struct MariaReplica {
    ports: [u16; 2],
    servers: Vec<Child>,
    folder: tempfile::TempDir,
}

impl MariaReplica {
    /// Starts both. Returns once the replica follows the primary.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.args(["--skip-name-resolve", "--innodb-log-file-size=4M", "--user=root"]);
        // A starting MariaDB deletes other instances' temporary tables in the folder that it uses.
        install.env("TMPDIR", folder.path());
        run(install.arg(format!("--datadir={}", data_of(folder.path(), 0).display())));
        run(Command::new("cp").arg("-a").args([0, 1].map(|node| data_of(folder.path(), node))));
        let (one, other) = free_ports();
        let mut this = Self { ports: [one.port(), other.port()], servers: Vec::new(), folder };
        for node in [0, 1] {
            let server = this.server(node).spawn().expect("MariaDB can be started");
            this.servers.push(server);
        }
        this.until_it_answers(0);
        this.until_it_answers(1);
        let primary = this.port(0);
        this.ask(1, &format!("change master to master_host = '127.0.0.1', master_port = {primary}, master_user = 'root', master_use_gtid = slave_pos; start slave"));
        this
    }

    fn server(&self, node: usize) -> Command {
        let data = data_of(self.folder.path(), node);
        let log = File::create(self.folder.path().join(format!("{node}.log"))).expect("it is writable");
        let temporary = self.folder.path().join(format!("{node}.tmp"));
        std::fs::create_dir(&temporary).expect("it is writable");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "mariadbd", "--no-defaults", "--user=root", "--skip-ssl"]);
        command.args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--innodb-buffer-pool-size=16M"]);
        command.args(["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"]);
        command.args(["--log-bin=binlog", "--relay-log=relay"]).arg(format!("--server-id={}", node + 1));
        command.arg(format!("--port={}", self.ports[node])).arg("--datadir").arg(&data);
        command.arg("--tmpdir").arg(temporary).arg("--socket").arg(data.join("socket"));
        command.arg("--pid-file").arg(data.join("pid"));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor")).stderr(log);
        command
    }

    fn until_it_answers(&self, node: usize) {
        self.until(node, "select 1", |said| said.trim() == "1");
    }

    /// Waits until the result of a statement at a node passes the test `is`.
    pub fn until(&self, node: usize, sql: &str, is: impl Fn(&str) -> bool) {
        let log = self.folder.path().join(format!("{node}.log"));
        wait_until_blocking(sql, || {
            let output = client_at(self.port(node), "mysql").args(["--execute", sql]).output();
            let output = output.expect("MariaDB's client runs");
            let found = output.status.success() && is(&String::from_utf8_lossy(&output.stdout));
            found.then_some(()).ok_or_else(|| format!("{output:?}\n{:?}", std::fs::read_to_string(&log)))
        });
    }

    /// The rows of statements at a node, one per line.
    pub fn ask(&self, node: usize, sql: &str) -> String {
        run_at(self.port(node), "mysql", sql)
    }

    pub fn port(&self, node: usize) -> u16 {
        self.ports[node]
    }

    /// Root's URL of a node. `query` is the text after the `?`.
    pub fn url(&self, node: usize, query: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/mysql?{query}", self.port(node))
    }
}

impl Drop for MariaReplica {
    fn drop(&mut self) {
        for server in &mut self.servers {
            drop(server.kill());
            drop(server.wait());
        }
    }
}

fn data_of(folder: &Path, node: usize) -> PathBuf {
    folder.join(node.to_string())
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
