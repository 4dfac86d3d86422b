//! Tests of the test helpers. If a client treated a truncated body as complete, or a proxy didn't
//! cut, the other tests would pass but prove nothing.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::{
    Client, Cut, Ended, Faults, Launch, Pieces, Server, TcpProxy, TestDb, curl, get, get_h2c, logins,
    open_descriptors, peak_memory_bytes, pg_bin, pg_ca, pg_port, pg_socket, pg_url, repository, rowstream,
    wait,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Long enough for pending bytes to arrive, short enough to wait for.
const A_MOMENT: Duration = Duration::from_millis(200);

// --- The proxy -----------------------------------------------------------------------------------

/// A peer that echoes its input.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = socket.split();
                drop(tokio::io::copy(&mut read, &mut write).await);
            });
        }
    });
    address
}

async fn through(proxy: &TcpProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

#[tokio::test]
async fn a_transparent_proxy_passes_all_bytes_and_the_end_and_counts() {
    let proxy = TcpProxy::transparent(echo().await).await;
    let mut socket = through(&proxy).await;
    let sent: Vec<u8> = (0..200_000u32).map(|i| i as u8).collect();
    let (mut read, mut write) = socket.split();
    let mut received = Vec::new();
    let sending = async {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    };
    tokio::join!(sending, async { read.read_to_end(&mut received).await.unwrap() });
    assert_eq!(received, sent);
    assert_eq!(
        (proxy.bytes_to_target(), proxy.bytes_to_client(), proxy.connections()),
        (200_000, 200_000, 1)
    );
}

#[tokio::test]
async fn pieces_arrive_one_by_one() {
    let pieces = Pieces { bytes: 3, pause: Duration::from_millis(20) };
    let proxy = TcpProxy::to_client(echo().await, Faults { pieces: Some(pieces), ..Faults::default() }).await;
    let mut socket = through(&proxy).await;
    socket.write_all(b"12345678").await.unwrap();
    let mut buffer = [0; 100];
    let mut read: Vec<Vec<u8>> = Vec::new();
    while read.concat().len() < 8 {
        let n = socket.read(&mut buffer).await.unwrap();
        read.push(buffer[..n].to_vec());
    }
    assert_eq!(read, [b"123".to_vec(), b"456".to_vec(), b"78".to_vec()]);
}

async fn cut_after_five(cut: Cut) -> (Vec<u8>, std::io::Result<usize>) {
    let proxy = TcpProxy::to_client(echo().await, Faults { cut: Some((5, cut)), ..Faults::default() }).await;
    let mut socket = through(&proxy).await;
    socket.write_all(b"0123456789").await.unwrap();
    let mut received = vec![0; 5];
    socket.read_exact(&mut received).await.unwrap();
    let then = wait("the other end", socket.read(&mut [0; 100])).await;
    (received, then)
}

#[tokio::test]
async fn a_close_comes_after_exactly_the_bytes() {
    let (received, then) = cut_after_five(Cut::Close).await;
    assert_eq!(received, b"01234");
    assert_eq!(then.unwrap(), 0);
}

#[tokio::test]
async fn a_reset_comes_after_exactly_the_bytes() {
    let (received, then) = cut_after_five(Cut::Reset).await;
    assert_eq!(received, b"01234");
    assert_eq!(then.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_stall_holds_the_bytes_until_it_is_over() {
    let proxy = TcpProxy::to_client(echo().await, Faults { stall_after: Some(4), ..Faults::default() }).await;
    let mut socket = through(&proxy).await;
    socket.write_all(b"01234567").await.unwrap();
    let mut first = [0; 4];
    socket.read_exact(&mut first).await.unwrap();
    assert!(timeout(A_MOMENT, socket.read_u8()).await.is_err(), "a byte passed the stall");
    proxy.resume();
    let mut second = [0; 4];
    wait("the other end", socket.read_exact(&mut second)).await.unwrap();
    assert_eq!((&first, &second), (b"0123", b"4567"));
}

#[tokio::test]
async fn a_stall_can_begin_at_any_time() {
    let proxy = TcpProxy::transparent(echo().await).await;
    let mut socket = through(&proxy).await;
    socket.write_all(b"a").await.unwrap();
    assert_eq!(socket.read_u8().await.unwrap(), b'a');
    proxy.stall();
    socket.write_all(b"b").await.unwrap();
    assert!(timeout(A_MOMENT, socket.read_u8()).await.is_err(), "a byte passed the stall");
    proxy.resume();
    assert_eq!(wait("the other end", socket.read_u8()).await.unwrap(), b'b');
}

#[tokio::test]
async fn a_proxy_that_is_dropped_closes_its_connections() {
    let proxy = TcpProxy::transparent(echo().await).await;
    let mut socket = through(&proxy).await;
    socket.write_all(b"a").await.unwrap();
    socket.read_u8().await.unwrap();
    drop(proxy);
    let then = wait("the other end", socket.read(&mut [0; 1])).await;
    assert!(matches!(then, Ok(0) | Err(_)));
}

// --- The clients ---------------------------------------------------------------------------------

/// A server with one connection that sends these bytes for any request, then closes.
async fn answer(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 1000]).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        socket.shutdown().await.unwrap();
        // Unread bytes at a close would turn it into a reset.
        drop(tokio::io::copy(&mut socket, &mut tokio::io::sink()).await);
    });
    format!("http://{address}/path?query")
}

const CHUNKS: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-one: 1\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\nx-end: yes\r\n\r\n";
const CUT_CHUNKS: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n";

#[tokio::test]
async fn a_body_with_its_last_chunk_is_complete() {
    let reply = get(&answer(CHUNKS).await).await;
    assert_eq!(reply.ended, Ended::Complete);
    assert_eq!((reply.status.as_u16(), reply.text(), reply.header("x-one")), (200, "onetwo", Some("1")));
    assert_eq!(reply.trailers.unwrap()["x-end"], "yes");
}

fn broken(ended: &Ended) -> bool {
    matches!(ended, Ended::Broken(_))
}

#[tokio::test]
async fn a_body_without_its_last_chunk_is_broken() {
    let reply = get(&answer(CUT_CHUNKS).await).await;
    assert!(broken(&reply.ended), "{reply:?}");
    assert_eq!(reply.text(), "one");
}

#[tokio::test]
async fn a_body_shorter_than_promised_is_broken() {
    let reply = get(&answer(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\none").await).await;
    assert!(broken(&reply.ended), "{reply:?}");
}

#[tokio::test]
async fn a_body_that_only_the_close_ends_is_broken() {
    let reply = get(&answer(b"HTTP/1.1 200 OK\r\n\r\none").await).await;
    assert!(broken(&reply.ended), "{reply:?}");
    assert_eq!(reply.text(), "one");
}

#[tokio::test]
async fn an_empty_body_is_complete() {
    assert_eq!(get(&answer(b"HTTP/1.1 204 No Content\r\n\r\n").await).await.ended, Ended::Complete);
    let head = http::Request::head(answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await);
    let reply = Client::HTTP1.send(head.body(String::new()).unwrap()).await;
    assert_eq!((reply.ended, reply.body.len()), (Ended::Complete, 0));
}

#[tokio::test]
async fn no_head_is_an_error_that_says_why() {
    let url = answer(b"").await;
    let request = http::Request::get(&url).body(String::new()).unwrap();
    let error = Client::HTTP1.open(request).await.err().unwrap();
    assert!(error.contains("closed"), "{error}");
}

/// The frames of an HTTP/2 server: SETTINGS, then HEADERS (`:status: 200`) and DATA (`one`) of
/// stream 1, with this flag, and then this frame.
macro_rules! h2_frames {
    ($data_flag:literal, $last:literal) => {
        &[
            b"\0\0\0\x04\0\0\0\0\0".as_slice(),
            b"\0\0\x01\x01\x04\0\0\0\x01\x88",
            concat!("\0\0\x03\0", $data_flag, "\0\0\0\x01one").as_bytes(),
            concat!($last).as_bytes(),
        ]
    };
}

async fn answer_h2(frames: &[&[u8]]) -> String {
    answer(frames.concat().leak()).await
}

#[tokio::test]
async fn an_http2_stream_with_its_end_is_complete() {
    let reply = get_h2c(&answer_h2(h2_frames!("\x01", "")).await).await;
    assert_eq!((reply.ended, reply.status.as_u16()), (Ended::Complete, 200));
    assert_eq!(&reply.body[..], b"one");
}

#[tokio::test]
async fn an_http2_stream_that_is_reset_is_broken_whatever_the_code() {
    let no_error = h2_frames!("\0", "\0\0\x04\x03\0\0\0\0\x01\0\0\0\0");
    let internal = h2_frames!("\0", "\0\0\x04\x03\0\0\0\0\x01\0\0\0\x02");
    let cancel = h2_frames!("\0", "\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08");
    for frames in [no_error, internal, cancel] {
        let reply = get_h2c(&answer_h2(frames).await).await;
        assert!(broken(&reply.ended), "{reply:?}");
    }
}

#[tokio::test]
async fn an_http2_connection_that_closes_breaks_its_stream() {
    let reply = get_h2c(&answer_h2(h2_frames!("\0", "")).await).await;
    assert!(broken(&reply.ended), "{reply:?}");
}

/// A server that sends chunks as long as it can. Returns the number of bytes.
async fn endless() -> (String, tokio::task::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sending = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        let mut sent = 0;
        while let Ok(Ok(n)) = timeout(A_MOMENT, socket.write(b"4\r\nmore\r\n")).await {
            sent += n;
        }
        sent
    });
    (url, sending)
}

#[tokio::test]
async fn a_stream_that_is_not_read_holds_the_server_back() {
    let (url, sending) = endless().await;
    let mut stream = Client::HTTP1.receive_buffer(4096).stream(&url).await;
    assert!(stream.at_least(10).await.starts_with(b"moremoremo"));
    // The server's own send buffer holds megabytes. The test is that it ends at all.
    assert!(sending.await.unwrap() > 0);
    drop(stream);
}

#[tokio::test]
async fn dropping_a_stream_closes_its_connection() {
    let (url, sending) = endless().await;
    let mut stream = Client::HTTP1.stream(&url).await;
    stream.chunk().await.unwrap();
    drop(stream);
    wait("the sender", sending).await.unwrap();
}

#[tokio::test]
async fn curl_tells_a_whole_body_from_a_cut_one() {
    let whole = curl(&[&answer(CHUNKS).await]).await;
    assert_eq!((whole.code, whole.stdout.as_slice()), (0, b"onetwo".as_slice()));
    let cut = curl(&[&answer(CUT_CHUNKS).await]).await;
    assert_eq!((cut.code, cut.stdout.as_slice()), (18, b"one".as_slice()));
    assert!(cut.stderr.contains("curl: (18)"), "{}", cut.stderr);
}

// --- The database --------------------------------------------------------------------------------

#[tokio::test]
async fn databases_are_each_test_s_own() {
    let (one, two) = (TestDb::new().await, TestDb::new().await);
    one.execute("create table t (n int); insert into t values (1)").await;
    two.execute("create table t (n int); insert into t values (2)").await;
    for (db, expected) in [(&one, 1), (&two, 2)] {
        let row = db.client().await.query_one("select n from t", &[]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), expected);
    }
}

#[tokio::test]
async fn a_database_goes_with_its_test_although_somebody_is_connected() {
    let watcher = TestDb::new().await;
    let db = TestDb::new().await;
    let name = db.name().to_owned();
    let _connected = db.client().await;
    drop(db);
    let sql = "select count(*) from pg_database where datname = $1";
    let row = watcher.client().await.query_one(sql, &[&name]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
}

/// The user of this URL, as the server sees it.
async fn who_am_i(url: &str) -> Result<String, String> {
    let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
    let (client, connection) = connected.map_err(|error| format!("{error:?}"))?;
    tokio::spawn(connection);
    Ok(client.query_one("select current_user::text", &[]).await.unwrap().get(0))
}

#[tokio::test]
async fn the_users_log_in_as_they_are_named() {
    let db = TestDb::new().await;
    for login in [logins::SCRAM, logins::MD5, logins::CLEARTEXT] {
        assert_eq!(who_am_i(&db.url_of(&login, "sslmode=disable")).await.as_deref(), Ok(login.user));
        let wrong = crate::support::Login { password: "wrong", ..login };
        assert!(who_am_i(&db.url_of(&wrong, "sslmode=disable")).await.unwrap_err().contains("28P01"));
    }
    for login in [logins::REFUSED, logins::TLS_ONLY] {
        assert!(who_am_i(&db.url_of(&login, "sslmode=disable")).await.unwrap_err().contains("28000"));
    }
}

#[tokio::test]
async fn the_superuser_is_trusted_over_the_socket_too() {
    let socket = format!("host={} port={} user=postgres", pg_socket().display(), pg_port());
    assert_eq!(who_am_i(&socket).await.as_deref(), Ok("postgres"));
    assert_eq!(who_am_i(&pg_url()).await.as_deref(), Ok("postgres"));
}

/// Logs in over TLS with psql, which checks names and certificates like libpq.
fn psql_over_tls(host: &str, mode: &str) -> Result<(), String> {
    let (port, ca) = (pg_port(), pg_ca());
    let target = format!(
        "host={host} port={port} user=tls_user dbname=postgres sslmode={mode} sslrootcert={}",
        ca.display()
    );
    let mut command = Command::new(pg_bin().join("psql"));
    command.args(["-X", "-c", "select 1", &target]).env("PGPASSWORD", logins::TLS_ONLY.password);
    let output = command.output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn the_certificate_is_for_localhost_alone() {
    psql_over_tls("localhost", "verify-full").unwrap();
    psql_over_tls("127.0.0.1", "verify-ca").unwrap();
    let refused = psql_over_tls("127.0.0.1", "verify-full").unwrap_err();
    assert!(refused.contains("does not match host name"), "{refused}");
}

#[tokio::test]
async fn a_fault_between_us_and_the_database_is_felt() {
    let db = TestDb::new().await;
    let target = SocketAddr::from(([127, 0, 0, 1], pg_port()));
    let proxy =
        TcpProxy::to_client(target, Faults { cut: Some((5000, Cut::Reset)), ..Faults::default() }).await;
    let url = db.url().replace(&format!(":{}/", pg_port()), &format!(":{}/", proxy.port()));
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async { drop(connection.await) });
    assert!(client.query("select * from generate_series(1, 100000)", &[]).await.is_err());
    assert_eq!(proxy.bytes_to_client(), 5000);
}

// --- The server ----------------------------------------------------------------------------------

fn stand_in(files: &[(&str, &str)]) -> Launch {
    let program = repository().join("tests/support/stand-in-server.sh");
    Launch::files(files).program(program).variable("STAND_IN", "set").argument("--more")
}

#[tokio::test]
async fn a_server_is_started_with_its_files_and_its_address_is_found() {
    let server = stand_in(&[("rowstream.toml", ""), ("endpoints/a/b.sql", "select 1")]).start().await;
    assert_eq!(server.url("/a/b"), "http://127.0.0.1:4321/a/b");
    assert_eq!(std::fs::read_to_string(server.folder().join("endpoints/a/b.sql")).unwrap(), "select 1");
    let config = server.folder().join("rowstream.toml");
    let called = format!("called with serve {} --listen 127.0.0.1:0 --more", config.display());
    server.wait_for_stderr(&called).await;
    server.wait_for_stderr("the variable is set").await;
}

#[tokio::test]
async fn a_server_ends_when_it_is_told_to() {
    let mut server = stand_in(&[]).start().await;
    assert!(!server.has_exited());
    server.terminate();
    assert_eq!(server.wait_exit().await.code(), Some(3));
    assert!(server.stderr().ends_with("told to end"), "{}", server.stderr());
}

#[tokio::test]
async fn a_server_goes_with_its_test() {
    let server: Server = stand_in(&[]).start().await;
    let (pid, folder) = (server.pid(), server.folder().to_path_buf());
    assert!(peak_memory_bytes(pid) > 100_000 && open_descriptors(pid) > 2);
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why_at_once() {
    let exit = Launch::files(&[]).try_start().await.err().expect("there is no rowstream.toml");
    assert!(!exit.status.success(), "{exit:?}");
}

#[tokio::test]
async fn the_other_commands_are_run_to_their_end() {
    let output = rowstream(&["no-such-command"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

/// The example in CONTRIBUTING.md, with both builds of the real server and both clients.
#[tokio::test]
async fn rows_arrive_whole() {
    let db = TestDb::new().await;
    db.execute("create table t as select generate_series(1, 3) as n").await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let files = [("rowstream.toml", config.as_str()), ("endpoints/t.sql", "select n from t order by n")];
    for launch in [Launch::files(&files), Launch::files(&files).release()] {
        let server = launch.start().await;
        for reply in [get(&server.url("/t")).await, get_h2c(&server.url("/t")).await] {
            assert_eq!(reply.ended, Ended::Complete);
            assert_eq!(reply.text(), r#"[{"n":1},{"n":2},{"n":3}]"#);
        }
    }
}
