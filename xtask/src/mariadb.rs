//! A private MariaDB for one run of the tests: its own folder, port, socket, users and
//! certificates.
//!
//! The guarantees of the private PostgreSQL ([`crate::postgres`]) apply: it never touches a system
//! instance, doesn't outlive the run, and can run beside others of its kind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::postgres::{
    Folder, Owner, STOP_TIMEOUT, ends_within, free_port, make_certificates, quietly, signal, wait_until_ready,
};
use crate::{Result, needs};

/// The passwords are those of `tests/library/mysql.rs`. `native_user`'s contains characters that a
/// URL must escape, and a two-byte letter.
const USERS: &str = "
create user native_user@'%' identified by 'pä ss/w@rd:%';
grant all on *.* to native_user@'%';
create user tls_user@'%' identified by 'tls' require ssl;
grant all on *.* to tls_user@'%';
create user ed25519_user@'%' identified via ed25519 using password('ed25519');
";

/// A running server. Dropping it stops it and removes its folder.
pub(crate) struct MariaDb {
    server: Child,
    port: u16,
    folder: Folder,
}

impl MariaDb {
    /// The system's MariaDB, with a new data folder below `target`.
    pub(crate) fn start(target: &Path) -> Result<Self> {
        // MariaDB blocks SIGINT, and it has nothing to write back.
        let owner = Owner::ourselves("KILL");
        let folder = Folder::new(target, "mariadb", &owner)?;
        make_certificates(&owner, &folder.path.join("tls"))?;
        let mut install = owner.command("mariadb-install-db", &folder.path);
        install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        install.arg(format!("--datadir={}", folder.path.join("data").display())).env("TMPDIR", &folder.path);
        quietly(install.args(["--skip-test-db", "--skip-name-resolve"]).args(as_root()))?;
        let port = free_port()?;
        let server = spawn(&owner, &folder.path, port)?;
        let mut mariadb = Self { server, port, folder };
        let mut probe = mariadb.client();
        probe.args(["--execute", "select 1"]);
        wait_until_ready("MariaDB", &mut mariadb.server, &mut probe, &mariadb.folder)?;
        quietly(mariadb.client().args(["--execute", USERS]))?;
        Ok(mariadb)
    }

    /// The variables that `tests/support` reads and documents.
    pub(crate) fn environment(&self) -> [(&'static str, String); 3] {
        let path = |name: &str| self.folder.path.join(name).display().to_string();
        [
            (
                "ROWSTREAM_TEST_MARIADB",
                format!("mysql://root@127.0.0.1:{}/mysql?ssl-mode=disabled", self.port),
            ),
            ("ROWSTREAM_TEST_MARIADB_SOCKET", path(SOCKET)),
            ("ROWSTREAM_TEST_MARIADB_CA", path("tls/ca.crt")),
        ]
    }

    /// The command-line client, connected to this server.
    fn client(&self) -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--user=root", "--default-character-set=utf8mb4", "--batch"]);
        command.arg("--socket").arg(self.folder.path.join(SOCKET));
        command
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        signal(self.server.id(), "TERM");
        if !ends_within(&mut self.server, STOP_TIMEOUT) {
            eprintln!("MariaDB does not stop, so it is killed");
            let _ = self.server.kill();
            let _ = self.server.wait();
        }
    }
}

/// Relative to the run's folder.
const SOCKET: &str = "s/mariadb.sock";

/// MariaDB runs as root only on request.
fn as_root() -> Option<&'static str> {
    needs::is_root().then_some("--user=root")
}

/// Nothing here has to survive a crash.
fn spawn(owner: &Owner, folder: &Path, port: u16) -> Result<Child> {
    let cannot = |error| format!("cannot start MariaDB: {error}");
    let log = File::create(folder.join("log")).map_err(cannot)?;
    // A starting MariaDB deletes other instances' files in the folder for temporary tables.
    let temporary = folder.join("tmp");
    std::fs::create_dir(&temporary).map_err(cannot)?;
    let program = needs::find("mariadbd").unwrap_or_else(|| PathBuf::from("mariadbd"));
    let mut command = owner.command(program, folder);
    command.args([
        "--no-defaults",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        "--max-connections=300",
    ]);
    command.args(["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"]);
    command.args(["--character-set-server=utf8mb4", "--plugin-load-add=auth_ed25519"]);
    command.args(["--ssl-ca=../tls/ca.crt", "--ssl-cert=../tls/server.crt", "--ssl-key=../tls/server.key"]);
    command.arg("--datadir").arg(folder.join("data")).arg("--tmpdir").arg(temporary);
    command.arg("--socket").arg(folder.join(SOCKET));
    command.arg("--pid-file").arg(folder.join("data/pid"));
    command.arg(format!("--port={port}")).args(as_root());
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(cannot)?).stderr(log);
    command.spawn().map_err(cannot)
}
