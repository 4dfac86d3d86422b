//! Sail, an engine that speaks Arrow Flight SQL.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{free_port, given, rowstream, wait_until_blocking};

/// Runs the program in its arguments until its standard input ends, which also happens when this
/// process ends. Then it removes the folder.
const UNTIL_LEFT: &str = "\"$@\" < /dev/null & read -r _; kill -9 $!; wait; rm -r \"$FOLDER\"";

/// A Sail server. Dropping it kills it. Otherwise it ends with the tests.
pub struct Sail {
    child: Child,
    port: u16,
    folder: PathBuf,
}

/// The kind of Sail server.
#[derive(Debug, Clone, Copy)]
pub enum SailMode {
    Local,
    /// Two workers that send their rows to a driver.
    Cluster,
}

impl Sail {
    pub fn start(mode: SailMode) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder").keep();
        let port = free_port().port();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", UNTIL_LEFT, "sh", &given("ROWSTREAM_TEST_SAIL"), "flight", "server"]);
        command.args(["--port", &port.to_string(), "--directory"]).arg(&folder).env("FOLDER", &folder);
        let mode = match mode {
            SailMode::Local => "local",
            SailMode::Cluster => "local-cluster",
        };
        command.env("SAIL_MODE", mode).env("SAIL_CLUSTER__WORKER_INITIAL_COUNT", "2");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("a shell can be started");
        wait_until_blocking("Sail listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { child, port, folder }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("flightsql://127.0.0.1:{}", self.port)
    }

    /// The folder that it reads and writes.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("it is our child");
    }

    /// The output of `rowstream query`.
    pub async fn rows(&self, sql: &str) -> String {
        let output = rowstream(&["query", &self.url(), sql]).await;
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("JSON is a text")
    }
}

impl Drop for Sail {
    fn drop(&mut self) {
        self.kill();
    }
}
