//! A primary and its streaming replicas, which tests can end, stop and restart.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tokio_postgres::NoTls;

use super::ports::free_ports;
use super::{pg_bin, wait_until};

/// Nothing here has to survive a crash.
const SETTINGS: &str = "
fsync = off
synchronous_commit = local
full_page_writes = off
listen_addresses = '127.0.0.1'
max_connections = 100
shared_buffers = 8MB
autovacuum = off
wal_retrieve_retry_interval = 100ms
";

/// A primary (0) and its replicas. Dropping it ends them.
pub struct Replicas {
    nodes: Vec<Node>,
    folder: tempfile::TempDir,
}

struct Node {
    port: u16,
    server: Option<Child>,
}

impl Replicas {
    /// Starts a primary with this many replicas, and waits until all have caught up.
    pub async fn start(replicas: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        own(folder.path());
        let primary = folder.path().join("0");
        let mut initdb = unprivileged(pg_bin().join("initdb"));
        initdb.arg("--pgdata").arg(&primary);
        initdb.args(["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]);
        run(&mut initdb);
        let ports: Vec<_> = (0..=replicas).map(|_| free_ports().0.port()).collect();
        // A cluster that never ran is its own base backup.
        for node in 1..=replicas {
            let copy = folder.path().join(node.to_string());
            run(unprivileged("cp").arg("-a").arg(&primary).arg(&copy));
            configure(&copy, &format!("primary_conninfo = 'host=127.0.0.1 port={} user=postgres'", ports[0]));
            fs::write(copy.join("standby.signal"), "").expect("the folder is writable");
            own(&copy.join("standby.signal"));
        }
        configure(&primary, "");
        let nodes = ports.into_iter().map(|port| Node { port, server: None }).collect();
        let mut this = Self { nodes, folder };
        for node in 0..=replicas {
            this.run(node).await;
        }
        this.until_caught_up().await;
        this
    }

    /// Starts a stopped node, and waits until it responds.
    pub async fn run(&mut self, node: usize) {
        let data = self.folder.path().join(node.to_string());
        let log = self.folder.path().join(format!("{node}.log"));
        let output = fs::File::create(&log).expect("it is writable");
        let mut command = unprivileged(pg_bin().join("postgres"));
        command.arg("-D").arg(&data).arg("-k").arg(self.folder.path());
        command.args(["-p", &self.nodes[node].port.to_string()]).stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a descriptor")).stderr(output);
        self.nodes[node].server = Some(command.spawn().expect("PostgreSQL can be started"));
        wait_until(&format!("node {node} starts"), async || {
            let connected = tokio_postgres::connect(&self.url_of(node), NoTls).await;
            connected.map(drop).map_err(|_| fs::read_to_string(&log).unwrap_or_default())
        })
        .await;
    }

    /// Ends a node at once, with all of its connections.
    pub fn kill(&mut self, node: usize) {
        let Some(mut server) = self.nodes[node].server.take() else { return };
        // An immediate shutdown, because SIGKILL would leave its backends running.
        run(Command::new("sh").args(["-c", &format!("kill -s QUIT {}", server.id())]));
        drop(server.wait());
    }

    pub fn port(&self, node: usize) -> u16 {
        self.nodes[node].port
    }

    fn url_of(&self, node: usize) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", self.port(node))
    }

    /// The URL of these nodes, with additional parameters.
    pub fn url(&self, nodes: &[usize], more: &str) -> String {
        let hosts: Vec<_> = nodes.iter().map(|&node| format!("127.0.0.1:{}", self.port(node))).collect();
        format!("postgres://postgres@{}/postgres?sslmode=disable{more}", hosts.join(","))
    }

    /// Runs statements at a node, and returns the first value of the first row.
    pub async fn execute(&self, node: usize, sql: &str) -> Option<String> {
        let (client, connection) = tokio_postgres::connect(&self.url_of(node), NoTls).await.expect("it runs");
        tokio::spawn(async { drop(connection.await) });
        let said = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        said.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    }

    /// Waits until all running replicas have reached the primary's current position.
    pub async fn until_caught_up(&self) {
        let position = self.execute(0, "select pg_current_wal_lsn()").await.expect("a position");
        let caught_up = format!("select coalesce(pg_last_wal_replay_lsn() >= '{position}', false)");
        for node in (1..self.nodes.len()).filter(|&node| self.nodes[node].server.is_some()) {
            wait_until(&format!("node {node} follows"), async || {
                self.execute(node, &caught_up).await.as_deref() == Some("t")
            })
            .await;
        }
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.kill(node));
    }
}

fn configure(data: &Path, more: &str) {
    let file = data.join("postgresql.conf");
    let text = fs::read_to_string(&file).expect("initdb made it");
    fs::write(&file, text + SETTINGS + more).expect("the folder is writable");
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Makes PostgreSQL's user the owner of the path, because PostgreSQL refuses to run as root.
fn own(path: &Path) {
    if is_root() {
        run(Command::new("chown").arg("postgres").arg(path));
    }
    if path.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o711)).expect("it is ours");
    }
}

fn unprivileged(program: impl Into<PathBuf>) -> Command {
    let mut command = Command::new("setpriv");
    if is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
    }
    command.args(["--pdeathsig", "QUIT", "--"]).arg(program.into());
    command.current_dir("/");
    command
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
