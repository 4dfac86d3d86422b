//! A real PgBouncer in front of the private PostgreSQL.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Child, Command, Stdio};

use tokio::net::TcpStream;

use super::ports::free_ports;
use super::{TestDb, pg_port, wait_until};

/// A running PgBouncer. Dropping it ends it.
pub struct PgBouncer {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl PgBouncer {
    /// Starts it with this `pool_mode` and number of connections per database.
    pub async fn start(pool_mode: &str, connections: usize) -> Self {
        Self::start_with(pool_mode, connections, "").await
    }

    /// The same with additional lines of configuration.
    pub async fn start_with(pool_mode: &str, connections: usize, lines: &str) -> Self {
        // Another process can take the port before PgBouncer uses it. Then we choose another one.
        for _ in 0..5 {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let open = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(folder.path(), open).expect("the folder is ours");
            let (address, _) = free_ports();
            let file = folder.path().join("pgbouncer.ini");
            let config = format!(
                "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                 listen_port = {}\nunix_socket_dir =\nauth_type = any\npool_mode = {pool_mode}\n\
                 default_pool_size = {connections}\nmax_client_conn = 1000\nserver_tls_sslmode = disable\n{lines}\n",
                pg_port(),
                address.port()
            );
            std::fs::write(&file, config).expect("the folder is writable");
            let mut command = unprivileged();
            command.arg("pgbouncer").arg(&file);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn();
            let child = child.unwrap_or_else(|fault| panic!("pgbouncer: {fault}: run `cargo xtask test`"));
            let mut bouncer = Self { child, port: address.port(), _folder: folder };
            if bouncer.listens().await {
                return bouncer;
            }
        }
        panic!("PgBouncer does not start");
    }

    /// The URL of a test's database through PgBouncer.
    pub fn url(&self, db: &TestDb) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{}?sslmode=disable", self.port, db.name())
    }

    async fn listens(&mut self) -> bool {
        wait_until("it listens or ends", async || match self.child.try_wait() {
            Ok(None) => TcpStream::connect(("127.0.0.1", self.port)).await.is_ok().then_some(true),
            _ => Some(false),
        })
        .await
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// It refuses to run as root. `setpriv` replaces itself with the program, so ending it ends the
/// program.
fn unprivileged() -> Command {
    let mut command = Command::new("setpriv");
    if std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
        command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
    }
    command.args(["--pdeathsig", "KILL", "--"]);
    command
}
