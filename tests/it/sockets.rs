//! Unix sockets, and the PROXY protocol: clients behind a real nginx and HAProxy, which use both.

use std::os::unix::fs::PermissionsExt as _;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use crate::support::hops::HTTP1_1;
use crate::support::{Client, Ended, Hop, Launch, Server, get, wait};

/// More than all buffers on the way can hold.
const ROWS: usize = 200_000;

/// A server whose endpoint `fails` fails in the middle.
fn launch(head: &str) -> Launch {
    let rows = |n: &str| {
        format!(
            "with recursive r(n) as (select 1 union all select n + 1 from r where n < {ROWS}) select {n} as n from r"
        )
    };
    Launch::files(&[
        ("rowstream.toml", &format!("{head}\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n")),
        ("t.sql", "create table t (n)"),
        ("endpoints/one.sql", "select 1 as n"),
        ("endpoints/long.sql", &rows("n")),
        ("endpoints/fails.sql", &rows("case when n < 150000 then n else abs(-9223372036854775807 - 1) end")),
    ])
}

/// The response over a Unix socket.
async fn ask(path: &std::path::Path, request: &str) -> String {
    let mut stream = UnixStream::connect(path).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = Vec::new();
    let _ = wait("it ends", stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_unix_socket_answers_and_goes_with_its_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http.sock");
    let listen = format!("unix:{}", path.display());
    // A killed process left its socket file behind.
    drop(std::os::unix::net::UnixListener::bind(&path));
    let mut server = launch("socket_mode = \"0600\"").listen(&listen).start().await;
    assert_eq!(server.address(), listen);
    assert_eq!(std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    let one = ask(&path, "GET /one HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert!(one.starts_with("HTTP/1.1 200") && one.ends_with("[{\"n\":1}]"), "{one}");
    let long = ask(&path, "GET /long HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert!(long.ends_with("\r\n0\r\n\r\n") && long.contains(&ROWS.to_string()));
    let cut = ask(&path, "GET /fails HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert!(cut.starts_with("HTTP/1.1 200") && !cut.ends_with("\r\n0\r\n\r\n"), "it fails visibly");
    // A truncated response would look complete.
    let old = ask(&path, "GET /fails HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 505") && old.contains("http_version"), "{old}");
    assert!(ask(&path, "GET /_rowstream/live HTTP/1.0\r\n\r\n").await.starts_with("HTTP/1.0 200"));
    // hyper added `keep-alive` to `close` for this client, whose body isn't read.
    let unread = "GET /one HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\n";
    let unread = ask(&path, unread).await.to_ascii_lowercase();
    assert!(unread.contains("\r\nconnection: close\r\n") && !unread.contains("keep-alive"), "{unread}");
    // Another server doesn't replace it.
    let second = launch("").listen(&listen).try_start().await.err().expect("it is taken");
    assert!(second.stderr.contains("cannot listen on unix:"), "{}", second.stderr);
    server.terminate();
    server.wait_drained().await;
    assert!(!path.exists(), "the file goes with its server");
}

#[tokio::test]
async fn nginx_asks_over_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http.sock");
    let server = launch("trusted_proxies = [\"unix\"]\nsocket_mode = \"0666\"")
        .listen(&format!("unix:{}", path.display()))
        .start()
        .await;
    let asks = format!("{HTTP1_1} proxy_set_header X-Forwarded-For 192.0.2.7;");
    let nginx = Hop::nginx_of_socket(&path, &asks).await;
    let url = |path: &str| format!("http://{}{path}", nginx.http1);
    assert_eq!(get(&url("/one")).await.text(), "[{\"n\":1}]");
    let long = get(&url("/long.ndjson")).await;
    assert_eq!((long.text().lines().count(), long.ended), (ROWS, Ended::Complete));
    assert_ne!(get(&url("/fails.ndjson")).await.ended, Ended::Complete);
    server.wait_for_stdout("address=192.0.2.7").await;
    // nginx's default.
    let nginx = Hop::nginx_of_socket(&path, "").await;
    assert_eq!(get(&format!("http://{}/one", nginx.http1)).await.status, 505);
}

/// HAProxy's own address is 127.0.0.1, which a client would also have by default. So the client
/// uses another one.
async fn get_from(address: &str, to: std::net::SocketAddr) -> String {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(format!("{address}:0").parse().expect("an address")).expect("it is of this machine");
    let mut stream = socket.connect(to).await.expect("it listens");
    stream.write_all(b"GET /one HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.expect("it reads");
    let mut answer = String::new();
    wait("it ends", stream.read_to_string(&mut answer)).await.expect("in order");
    answer
}

async fn through_haproxy(server: &Server, target: &str, ways: &[&str]) {
    for (how, client) in ways.iter().zip(["127.0.0.2", "127.0.0.3"]) {
        let hop = Hop::haproxy_announcing(target, how).await;
        let answer = get_from(client, hop.http1).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{how}: {answer}");
        server.wait_for_stdout(&format!("address={client}")).await;
        let long = Client::HTTP1.get(&format!("http://{}/long.ndjson", hop.http1)).await;
        assert_eq!((long.text().lines().count(), long.ended), (ROWS, Ended::Complete), "{how}");
    }
}

#[tokio::test]
async fn haproxy_announces_its_clients() {
    let server = launch("proxy_protocol = [\"127.0.0.1\"]").start().await;
    through_haproxy(&server, server.address(), &["send-proxy", "send-proxy-v2"]).await;
    // The protocol is ignored from untrusted peers, and required from trusted ones.
    for (from, said, expected) in [
        (
            "127.0.0.9",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /one HTTP/1.1\r\nhost: a\r\n\r\n",
            "HTTP/1.1 400",
        ),
        ("127.0.0.1", "GET /one HTTP/1.1\r\nhost: a\r\n\r\n", ""),
        ("127.0.0.1", "PROXY TCP4 192.0.2.1\r\nGET /one HTTP/1.1\r\nhost: a\r\n\r\n", ""),
    ] {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(format!("{from}:0").parse().expect("an address")).expect("it is of this machine");
        let address = server.address().parse().expect("an address");
        let mut stream: TcpStream = socket.connect(address).await.expect("it listens");
        stream.write_all(said.as_bytes()).await.expect("it reads");
        let mut answer = Vec::new();
        let _ = wait("it ends", stream.read_to_end(&mut answer)).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with(expected) && answer.is_empty() == expected.is_empty(), "{said}: {answer}");
    }
    server.wait_for_stderr("which is in `proxy_protocol`, was closed").await;
}

#[tokio::test]
async fn haproxy_announces_its_clients_over_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http.sock");
    let server = launch("proxy_protocol = [\"unix\"]\nsocket_mode = \"0666\"")
        .listen(&format!("unix:{}", path.display()))
        .start()
        .await;
    through_haproxy(&server, &format!("unix@{}", path.display()), &["send-proxy", "send-proxy-v2"]).await;
}
