//! The server as a systemd service: its messages, its inherited sockets, and the units in
//! `deploy/systemd`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use http::StatusCode;

use crate::support::{Launch, get, limit, program, repository};

const CONFIG: &str = "[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n";

fn launch(settings: &str) -> Launch {
    Launch::files(&[
        ("rowstream.toml", &format!("{settings}\n{CONFIG}")),
        ("t.sql", "create table t(n)"),
        ("endpoints/one.sql", "select 1 as n"),
    ])
}

/// Passes its standard input under a name, like systemd.
fn activated(settings: &str, name: &str, socket: impl Into<std::os::fd::OwnedFd>) -> Launch {
    let variables = format!("LISTEN_FDS=1 LISTEN_PID=$$ LISTEN_FDNAMES={name}");
    let script = format!("exec 3<&0 </dev/null; export {variables}; exec \"$0\" \"$@\"");
    launch(settings).shell(&script).stdin(socket)
}

/// The service manager's end.
struct Manager {
    socket: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        socket.set_read_timeout(Some(limit())).expect("a timeout");
        Self { socket, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("notify")
    }

    /// The next message.
    fn told(&self) -> String {
        let mut message = [0; 1024];
        let length = self.socket.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..length]).into_owned()
    }
}

#[tokio::test]
async fn the_manager_is_told_of_start_reload_and_end() {
    let manager = Manager::new();
    let path = manager.path().display().to_string();
    let mut server = launch("").variable("NOTIFY_SOCKET", &path).start().await;
    assert_eq!(manager.told(), "READY=1\n");
    assert_eq!(get(&server.url("/one")).await.status, StatusCode::OK);
    for endpoint in ["select 2 as n", "select :x"] {
        std::fs::write(server.folder().join("endpoints/two.sql"), endpoint).expect("a file");
        server.hang_up();
        let reloading = manager.told();
        let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
        assert!(since.is_some_and(|since| since.trim_end().parse::<u64>().is_ok()), "{reloading}");
        assert_eq!(manager.told(), "READY=1\n", "{endpoint}");
    }
    server.terminate();
    assert_eq!(manager.told(), "STOPPING=1\n");
    server.wait_drained().await;
    manager.socket.set_nonblocking(true).expect("it is open");
    let more = manager.socket.recv(&mut [0; 16]).map_err(|error| error.kind());
    assert_eq!(more, Err(ErrorKind::WouldBlock));
}

/// A service that fails to start isn't ready.
#[tokio::test]
async fn the_manager_is_told_nothing_of_a_start_that_fails() {
    let manager = Manager::new();
    let path = manager.path().display().to_string();
    assert!(launch("listen = 1").variable("NOTIFY_SOCKET", &path).try_start().await.is_err());
    manager.socket.set_nonblocking(true).expect("it is open");
    let told = manager.socket.recv(&mut [0; 16]).map_err(|error| error.kind());
    assert_eq!(told, Err(ErrorKind::WouldBlock));
}

#[tokio::test]
async fn a_manager_that_is_gone_stops_nothing() {
    let server = launch("").variable("NOTIFY_SOCKET", "/nowhere/notify").start().await;
    server.wait_for_stderr("the service manager cannot be notified").await;
    assert_eq!(get(&server.url("/one")).await.status, StatusCode::OK);
}

/// systemd owns the socket, so a client that connects during a restart waits.
#[tokio::test]
async fn a_restart_refuses_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let hand_over = || activated("", "http", listener.try_clone().expect("a descriptor"));
    let mut server = hand_over().start().await;
    assert_eq!(server.address(), address);
    assert_eq!(get(&server.url("/one")).await.text(), "[{\"n\":1}]");
    server.hang_up();
    server.wait_for_stderr("reloaded").await;
    assert!(!server.stderr().contains("at the next start"), "{}", server.stderr());
    server.terminate();
    server.wait_drained().await;
    let url = server.url("/one");
    let waiting = tokio::spawn(async move { get(&url).await });
    let again = hand_over().start().await;
    assert_eq!(waiting.await.expect("no panic").text(), "[{\"n\":1}]");
    assert_eq!(again.address(), address);
}

#[tokio::test]
async fn the_admin_endpoints_have_a_socket_by_its_name() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let admin = format!("http://{}/_rowstream/live", listener.local_addr().expect("an address"));
    let server = activated("", "admin", listener).start().await;
    assert_eq!(get(&admin).await.status, StatusCode::OK);
    assert_eq!(get(&server.url("/one")).await.status, StatusCode::OK);
    assert_eq!(get(&server.url("/_rowstream/live")).await.status, StatusCode::NOT_FOUND);
    server.hang_up();
    server.wait_for_stderr("reloaded").await;
    assert!(!server.stderr().contains("at the next start"), "{}", server.stderr());
    assert_eq!(get(&admin).await.status, StatusCode::OK);
}

/// A socket that is a file, or only has a name. systemd removes the files that it created.
#[tokio::test]
async fn unix_sockets_are_taken_too() {
    use std::os::linux::net::SocketAddrExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http.sock");
    let name = format!("rowstream-test-{}", folder.path().display());
    let named = SocketAddr::from_abstract_name(&name).expect("a name");
    for (listener, address) in [
        (UnixListener::bind(&path), format!("unix:{}", path.display())),
        (UnixListener::bind_addr(&named), format!("unix:@{name}")),
    ] {
        let listener = listener.expect("it is free");
        let at = listener.local_addr().expect("an address");
        for _ in 0..2 {
            let socket = listener.try_clone().expect("a descriptor");
            let mut server = activated("", "http", socket).start().await;
            assert_eq!(server.address(), address);
            let mut client = UnixStream::connect_addr(&at).expect("it listens");
            client.set_read_timeout(Some(limit())).expect("a timeout");
            let request = b"GET /one HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            client.write_all(request).expect("it reads");
            let mut answer = String::new();
            client.read_to_string(&mut answer).expect("it answers");
            assert!(answer.ends_with("[{\"n\":1}]"), "{answer}");
            server.hang_up();
            server.wait_for_stderr("reloaded").await;
            assert!(!server.stderr().contains("at the next start"), "{}", server.stderr());
            server.terminate();
            server.wait_drained().await;
        }
    }
    assert!(path.exists(), "the file is systemd's");
}

/// Sockets for another process and sockets that don't listen aren't used.
#[tokio::test]
async fn only_sockets_that_listen_are_taken() {
    let exit = activated("", "http", UdpSocket::bind("127.0.0.1:0").expect("a port")).try_start().await;
    let said = exit.err().expect("it cannot be served").stderr;
    assert!(
        said.contains("the socket `http` cannot be used: it isn't a listening TCP or Unix socket"),
        "{said}"
    );
    let script = "export LISTEN_FDS=1 LISTEN_PID=1; exec \"$0\" \"$@\"";
    let server = launch("").shell(script).start().await;
    assert_eq!(get(&server.url("/one")).await.status, StatusCode::OK);
}

/// The units as installed, with this build's program.
fn units(folder: &Path) {
    let program = program().to_str().expect("UTF-8");
    for name in ["rowstream.service", "rowstream.socket"] {
        let unit = repository().join("deploy/systemd").join(name);
        let text = std::fs::read_to_string(unit).expect("it is there");
        std::fs::write(folder.join(name), text.replace("/usr/bin/rowstream", program)).expect("a file");
    }
}

/// The output of a program and whether it succeeded. `None` if it isn't installed.
fn analyzed(folder: &Path, arguments: &[&str]) -> Option<(bool, String)> {
    let mut command = Command::new("systemd-analyze");
    match command.args(arguments).current_dir(folder).output() {
        Ok(ran) => Some((ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: systemd-analyze is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_units_are_well_formed_and_hardened() {
    let folder = tempfile::tempdir().expect("a folder");
    units(folder.path());
    let verify = ["verify", "--man=no", "./rowstream.service", "./rowstream.socket"];
    let Some((is_content, said)) = analyzed(folder.path(), &verify) else { return };
    assert!(is_content && !said.contains("rowstream."), "{said}");
    // 0 means a service that can do nothing, 100 one that can do everything.
    let harden = ["security", "--no-pager", "--offline=true", "--threshold=20", "./rowstream.service"];
    let (is_content, said) = analyzed(folder.path(), &harden).expect("it is installed");
    // Before version 250, it only supports running services.
    assert!(is_content || said.contains("unrecognized option"), "{said}");
}
