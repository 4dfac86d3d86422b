//! Opening, refusing and losing connections: logins, TLS, addresses that don't respond, and a
//! server that restarts.
//!
//! Errors for users contain no host, user or password. Errors in the log contain the cause.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rowstream_core::Error;

use crate::support::{
    Faults, Login, TcpProxy, TestDb, free_port, logins, pg_bin, pg_ca, pg_port, pg_socket, wait, wait_until,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rowstream::config::Config;
use rowstream::source::Source;
use rowstream::stream::RowStream;
use rowstream_encode::Format;
use tokio::time::timeout;

pub(super) fn source(url: &str) -> Result<Source, Error> {
    let mut config =
        Config::single(url, "select 1").unwrap_or_else(|errors| panic!("{errors:?}")).sources.remove(0);
    config.pool.max = 2;
    Source::open(&config)
}

pub(super) async fn run(source: &Source, sql: &str) -> Result<String, Error> {
    let endpoint = Config::single("postgres://unused", sql).unwrap().endpoints.remove(0);
    let mut stream = RowStream::open(&endpoint, source, Format::Ndjson, Vec::new()).await?;
    let mut out = Vec::new();
    while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
        out.extend_from_slice(&chunk?);
    }
    Ok(String::from_utf8(out).unwrap())
}

/// The logged-in user, and if the connection uses TLS.
pub(super) async fn who(url: &str) -> Result<String, Error> {
    let sql = "select session_user as u, coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as s";
    wait("a login and its answer", run(&source(url)?, sql)).await
}

async fn lets_in(url: &str, user: &str, tls: bool) {
    let told = who(url).await.unwrap_or_else(|error| panic!("{url}: {error:?}"));
    assert_eq!(told, format!("{{\"u\":\"{user}\",\"s\":{tls}}}\n"), "{url}");
}

/// Checks that the user's error contains none of `secrets`, and that the log's contains `cause`.
async fn refuses(url: &str, sqlstate: Option<&str>, cause: &str, secrets: &[&str]) {
    let error = match who(url).await {
        Ok(told) => panic!("{url} lets {told} in"),
        Err(error) => error,
    };
    assert_eq!((error.code(), error.status().as_u16()), ("source_unavailable", 503), "{url}: {error:?}");
    assert_eq!(error.sqlstate_text(), sqlstate, "{url}: {error:?}");
    assert!(error.retry_delay().is_some(), "{url}");
    for told in [error.message(), &error.to_string(), &error.problem(), error.hint_text().unwrap_or_default()]
    {
        for secret in secrets.iter().chain(&["127.0.0.1", "localhost"]) {
            assert!(!told.contains(secret), "{secret} is in {told}");
        }
        assert!(!told.contains(&pg_port().to_string()), "{told}");
    }
    let log = format!("{error:?}");
    assert!(log.contains(cause), "{url}: {log}");
}

/// The URL of a login with some changes.
fn url(db: &TestDb, login: &Login, query: &str, change: impl FnOnce(String) -> String) -> String {
    change(db.url_of(login, query))
}

fn ca(path: &Path) -> String {
    utf8_percent_encode(path.to_str().unwrap(), NON_ALPHANUMERIC).to_string()
}

// --- Logins --------------------------------------------------------------------------------------

#[tokio::test]
async fn every_way_to_log_in() {
    let db = TestDb::new().await;
    for login in [logins::SCRAM, logins::MD5, logins::CLEARTEXT] {
        lets_in(&db.url_of(&login, "sslmode=disable"), login.user, false).await;
        lets_in(&db.url_of(&login, "sslmode=require"), login.user, true).await;
        let password = utf8_percent_encode(login.password, NON_ALPHANUMERIC);
        let named = format!(
            "postgres://?host=localhost&port={}&user={}&password={password}&dbname={}",
            pg_port(),
            login.user,
            db.name()
        );
        lets_in(&named, login.user, true).await;
    }
    lets_in(&db.url(), "postgres", false).await;
}

/// Neon's URLs have `channel_binding=require`. The server checks the certificate that we saw.
#[tokio::test]
async fn a_login_is_bound_to_its_tls() {
    let db = TestDb::new().await;
    let scram = |query: &str| db.url_of(&logins::SCRAM, query);
    for binding in ["disable", "prefer", "require"] {
        let url = scram(&format!("sslmode=require&channel_binding={binding}"));
        lets_in(&url, logins::SCRAM.user, true).await;
    }
    let cause = "doesn't bind the login to TLS";
    refuses(&scram("sslmode=disable&channel_binding=require"), None, cause, &[]).await;
    for login in [logins::MD5, logins::CLEARTEXT] {
        let url = db.url_of(&login, "sslmode=require&channel_binding=require");
        refuses(&url, None, cause, &[]).await;
    }
    let trusted = format!("{}&channel_binding=require", db.url());
    refuses(&trusted, None, cause, &[]).await;
}

#[tokio::test]
async fn a_unix_socket() {
    let db = TestDb::new().await;
    let folder = ca(&pg_socket());
    let told = who(&format!("postgres://postgres@{folder}:{}/{}", pg_port(), db.name())).await.unwrap();
    assert_eq!(told, "{\"u\":\"postgres\",\"s\":false}\n");
    // libpq never uses TLS on a Unix socket, whatever the mode.
    let url =
        format!("postgres:///{}?host={folder}&port={}&user=postgres&sslmode=require", db.name(), pg_port());
    lets_in(&url, "postgres", false).await;
    let password = utf8_percent_encode(logins::SCRAM.password, NON_ALPHANUMERIC);
    lets_in(
        &format!("postgres://scram_user:{password}@{folder}:{}/{}", pg_port(), db.name()),
        "scram_user",
        false,
    )
    .await;
    refuses(&format!("postgres://u@{folder}x:{}/d", pg_port()), None, "No such file", &[]).await;
    // A cancel request uses the same socket.
    let source = source(&format!("postgres://postgres@{folder}:{}/{}", pg_port(), db.name())).unwrap();
    for _ in 0..5 {
        assert!(timeout(Duration::from_millis(50), run(&source, "select pg_sleep(1000)")).await.is_err());
    }
    assert_eq!(wait("an answer", run(&source, "select 1 as v")).await.unwrap(), "{\"v\":1}\n");
}

#[tokio::test]
async fn logins_that_are_refused() {
    let db = TestDb::new().await;
    for login in [logins::SCRAM, logins::MD5, logins::CLEARTEXT] {
        let wrong = Login { user: login.user, password: "wr0ng-pass" };
        let cause = "password authentication failed";
        refuses(&db.url_of(&wrong, "sslmode=disable"), Some("28P01"), cause, &["wr0ng-pass", login.user])
            .await;
        let none = url(&db, &login, "sslmode=disable", |url| {
            url.replace(&format!(":{}@", utf8_percent_encode(login.password, NON_ALPHANUMERIC)), "@")
        });
        refuses(&none, None, "asks for a password, but none is configured", &[login.user]).await;
    }
    let empty = Login { user: "scram_user", password: "" };
    let error = who(&db.url_of(&empty, "")).await.unwrap_err();
    assert_eq!(error.code(), "source_unavailable", "{error:?}");
    refuses(&db.url_of(&logins::REFUSED, ""), Some("28000"), "pg_hba.conf rejects", &["nobody"]).await;
    let unknown = Login { user: "no_such_user", password: "s3cret" };
    refuses(&db.url_of(&unknown, ""), Some("28000"), "no_such_user", &["no_such_user", "s3cret"]).await;
    let elsewhere = db.url().replace(db.name(), "no_such_database");
    refuses(&elsewhere, Some("3D000"), "no_such_database", &["no_such_database", "postgres"]).await;
}

/// The log and `check` suggest a solution for each error.
#[tokio::test]
async fn what_helps_is_said() {
    let db = TestDb::new().await;
    let wrong = Login { user: "scram_user", password: "wrong" };
    let right = ca(&pg_ca());
    let (port, nowhere) = (pg_port(), "postgres://u@localhost:1/d".to_owned());
    for (url, sqlstate, remedy) in [
        (db.url_of(&wrong, ""), Some("28P01"), "correct the user and the password"),
        (db.url_of(&logins::REFUSED, ""), Some("28000"), "pg_hba.conf"),
        (db.url_of(&logins::TLS_ONLY, "sslmode=disable"), Some("28000"), "must connect over TLS"),
        (db.url().replace(db.name(), "nowhere"), Some("3D000"), "correct the database"),
        (nowhere, None, "no server listens there"),
        (format!("postgres://u@no-such-host.invalid:{port}/d"), None, "the host isn't known"),
        (format!("postgres://u@%2Fno%2Fsuch:{port}/d"), None, "the socket doesn't exist"),
        (db.url_of(&logins::SCRAM, "sslmode=verify-full"), None, "`sslrootcert`"),
        (
            db.url_of(&logins::SCRAM, &format!("sslmode=verify-full&sslrootcert={right}"))
                .replace("localhost", "127.0.0.1"),
            None,
            "and write the host as in the certificate",
        ),
    ] {
        refuses(&url, sqlstate, remedy, &[]).await;
    }
}

/// More people read the log than the configuration.
#[tokio::test]
async fn the_log_has_no_password() {
    let db = TestDb::new().await;
    for (url, secret) in [
        (db.url_of(&Login { user: "scram_user", password: "hunter2x" }, ""), "hunter2x"),
        (db.url_of(&Login { user: "no_such", password: "hunter2x" }, "sslmode=verify-full"), "hunter2x"),
        ("postgres://u:hunter2x@localhost:1/d".to_owned(), "hunter2x"),
    ] {
        let error = who(&url).await.unwrap_err();
        assert!(!format!("{error:?}{error}").contains(secret), "{error:?}");
    }
}

/// An unescaped `/` or `?` in a password ends the host early. The rest of the password was printed
/// as a bad port or parameter.
#[test]
fn a_url_that_is_not_understood_tells_nothing_of_its_password() {
    for url in [
        "postgres://u:hunter/twelve@h/d",
        "postgres://u:hunter?twelve@h/d",
        "postgres://u:x?hunter=twelve@h/d",
        "postgres://u:12?hunter=twelve@h/d",
        "postgres://u:12?sslmode=twelve@h/d",
        "postgres://u:hunter/tw?elve@h/d",
        "postgres://u:[hunter/twelve@h/d",
        "postgres://u:hunter,twelve/x@h/d",
        "postgres://u:hunter@h:twelve/d",
        "postgres://u:hunter%fftwelve@h/d",
        "postgres://u:hunter@h/d?sslmod=twelve",
    ] {
        let Err(error) = source(url).map(|_| ()) else { panic!("{url} is understood") };
        for secret in ["hunter", "twelve", "elve"] {
            assert!(!format!("{error:?}{error}{}", error.problem()).contains(secret), "{error:?}");
        }
    }
}

// --- TLS -----------------------------------------------------------------------------------------

#[tokio::test]
async fn every_mode_of_tls() {
    let db = TestDb::new().await;
    let login = logins::SCRAM;
    let right = ca(&pg_ca());
    for (query, tls) in [
        ("sslmode=disable".to_owned(), false),
        ("sslmode=prefer".to_owned(), true),
        (String::new(), true),
        ("sslmode=allow".to_owned(), false),
        ("sslmode=require".to_owned(), true),
        (format!("sslmode=require&sslrootcert={right}"), true),
        (format!("sslmode=verify-ca&sslrootcert={right}"), true),
        (format!("sslmode=verify-full&sslrootcert={right}"), true),
    ] {
        lets_in(&db.url_of(&login, &query), login.user, tls).await;
    }
    for mode in ["allow", "require"] {
        let url = db.url_of(&logins::TLS_ONLY, &format!("sslmode={mode}"));
        lets_in(&url, logins::TLS_ONLY.user, true).await;
    }
    refuses(&db.url_of(&logins::TLS_ONLY, "sslmode=disable"), Some("28000"), "no encryption", &["tls_user"])
        .await;
}

/// After any failure, `sslmode=allow` logged in again with TLS, so a wrong database caused two
/// logins. Only a login that the server refuses may succeed with TLS.
#[tokio::test]
async fn tls_is_tried_only_where_a_login_without_it_is_refused() {
    let db = TestDb::new().await;
    let server = SocketAddr::from(([127, 0, 0, 1], pg_port()));
    let wrong = Login { user: "scram_user", password: "wrong" };
    let nowhere = db.url_of(&logins::SCRAM, "").replace(db.name(), "nowhere");
    for (url, mode, sqlstate, logins) in [
        (nowhere.clone(), "allow", Some("3D000"), 1),
        (nowhere, "prefer", Some("3D000"), 1),
        (db.url_of(&logins::REFUSED, ""), "prefer", Some("28000"), 1),
        (db.url_of(&wrong, ""), "allow", Some("28P01"), 2),
        (db.url_of(&logins::TLS_ONLY, ""), "allow", None, 2),
        (db.url_of(&logins::SCRAM, ""), "allow", None, 1),
    ] {
        let proxy = TcpProxy::transparent(server).await;
        let url = url.replace(&format!(":{}/", pg_port()), &format!(":{}/", proxy.port()));
        let error = who(&format!("{url}sslmode={mode}")).await.err();
        let refused = error.as_ref().and_then(Error::sqlstate_text);
        assert_eq!((refused, proxy.connections()), (sqlstate, logins), "{url}, {mode}: {error:?}");
    }
}

/// The server that refuses the login has no TLS either. The refusal is the error to report.
#[tokio::test]
async fn without_tls_a_refused_login_is_the_error() {
    let mut cluster = Cluster::new();
    cluster.start();
    until_it_answers(&source(&cluster.url()).unwrap(), "select 1 as v").await;
    let url = cluster.url().replace("postgres@", "no_such_user@");
    refuses(&format!("{url}&sslmode=allow"), Some("28000"), "no_such_user", &["no_such_user"]).await;
}

#[tokio::test]
async fn certificates_that_do_not_verify() {
    let db = TestDb::new().await;
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.crt");
    make_ca(folder.path(), "wrong.crt");
    let (right, wrong) = (ca(&pg_ca()), ca(&wrong));
    let at_address =
        |query: String| url(&db, &logins::SCRAM, &query, |url| url.replace("localhost", "127.0.0.1"));
    let secrets = ["scram_user"];
    refuses(&at_address(format!("sslmode=verify-full&sslrootcert={right}")), None, "certificate", &secrets)
        .await;
    for mode in ["verify-full", "verify-ca", "require"] {
        let url = db.url_of(&logins::SCRAM, &format!("sslmode={mode}&sslrootcert={wrong}"));
        refuses(&url, None, "certificate", &secrets).await;
    }
    // The authority is correct, and this mode doesn't check the name.
    lets_in(&at_address(format!("sslmode=verify-ca&sslrootcert={right}")), "scram_user", true).await;
    // These modes don't check the server's identity.
    lets_in(&at_address("sslmode=require".to_owned()), "scram_user", true).await;
    lets_in(&db.url_of(&logins::SCRAM, &format!("sslmode=prefer&sslrootcert={wrong}")), "scram_user", true)
        .await;

    for (path, cause) in [("/no/such/file", "No such file"), ("/dev/null", "contains no certificate")] {
        let error = source(&format!("postgres://u:p@h/d?sslmode=verify-full&sslrootcert={path}"))
            .map(|_| ())
            .unwrap_err();
        assert!(error.message().contains(cause), "{error:?}");
    }
}

/// A certificate of an authority that signed nothing here.
fn make_ca(folder: &Path, name: &str) {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]);
    command.args(["-days", "2", "-subj", "/CN=Somebody else", "-keyout", "wrong.key", "-out", name]);
    let output = command.output().expect("openssl is installed: run `cargo xtask test`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

// --- Addresses -----------------------------------------------------------------------------------

#[tokio::test]
async fn addresses_that_do_not_answer() {
    let closed = free_port();
    refuses(&format!("postgres://secret_user:secret_pass@{closed}/d"), None, "refused", &["secret"]).await;
    refuses(
        "postgres://secret_user:secret_pass@no-such-host.invalid/d",
        None,
        "no-such-host.invalid",
        &["secret", "no-such"],
    )
    .await;

    // A server that accepts connections but sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    for mode in ["disable", "require"] {
        let began = Instant::now();
        let url = format!("postgres://secret_user:secret_pass@{address}/d?connect_timeout=1&sslmode={mode}");
        refuses(&url, None, "no answer within 1s", &["secret"]).await;
        assert!(began.elapsed() >= Duration::from_millis(900));
    }
}

/// A server without TLS answers a TLS request with `N`.
#[tokio::test]
async fn a_server_without_tls() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    for (answer, cause) in
        [(&b"N"[..], "the server has no TLS"), (b"E", "unknown way"), (b"S\0garbage", ""), (b"", "")]
    {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut request = [0; 8];
                if socket.read_exact(&mut request).await.is_ok() {
                    assert_eq!(request[4..], 80_877_103_u32.to_be_bytes());
                    drop(socket.write_all(answer).await);
                }
            }
        });
        refuses(&format!("postgres://u@{address}/d?sslmode=require&connect_timeout=2"), None, cause, &[])
            .await;
    }
}

// --- Servers that stop and restart ---------------------------------------------------------------

#[tokio::test]
async fn an_address_that_answers_again_is_used_again() {
    let db = TestDb::new().await;
    let target = SocketAddr::from(([127, 0, 0, 1], pg_port()));
    let proxy = TcpProxy::start(target, Faults::default(), Faults::default()).await;
    let url =
        format!("postgres://postgres@{}/{}?sslmode=disable&connect_timeout=1", proxy.address(), db.name());
    let source = source(&url).unwrap();
    run(&source, "select 1 as v").await.unwrap();
    proxy.stall();
    // The idle connection looks alive, so only the request notices.
    let first = timeout(Duration::from_millis(500), run(&source, "select 2 as v")).await;
    assert!(first.is_err(), "{first:?}");
    proxy.resume();
    assert_eq!(wait("an answer", run(&source, "select 3 as v")).await.unwrap(), "{\"v\":3}\n");
}

/// A cluster for this test, which can stop it. It ends with the test, because the kernel interrupts
/// it when its parent's thread ends.
pub(super) struct Cluster {
    pub(super) folder: tempfile::TempDir,
    pub(super) port: u16,
    server: Option<Child>,
}

impl Cluster {
    pub(super) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("rowstream-").tempdir_in("/tmp").unwrap();
        let port = free_port().port();
        if is_root() {
            assert!(Command::new("chown").arg("postgres").arg(folder.path()).status().unwrap().success());
        }
        let cluster = Self { folder, port, server: None };
        let mut initdb = cluster.command("initdb");
        let output = initdb
            .args(["--pgdata=data", "--username=postgres", "--auth=trust", "--no-sync", "--locale=C"])
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        cluster
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        if is_root() {
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
        }
        command
            .args(["--pdeathsig", "INT", "--"])
            .arg(pg_bin().join(program))
            .current_dir(self.folder.path());
        command
    }

    pub(super) fn start(&mut self) {
        let mut postgres = self.command("postgres");
        postgres.args([
            "-D",
            "data",
            "-k",
            ".",
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "fsync=off",
            "-p",
            &self.port.to_string(),
        ]);
        self.server =
            Some(postgres.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    /// An immediate stop, like a crash.
    fn crash(&mut self) {
        let mut server = self.server.take().unwrap();
        assert!(
            Command::new("sh")
                .args(["-c", &format!("kill -s QUIT {}", server.id())])
                .status()
                .unwrap()
                .success()
        );
        server.wait().unwrap();
    }

    pub(super) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?connect_timeout=2", self.port)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.crash();
        }
    }
}

pub(super) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// Repeats a statement until it succeeds. All failures before that are a 503 with `Retry-After`.
pub(super) async fn until_it_answers(source: &Source, sql: &str) -> String {
    wait_until("the server is back", async || run(source, sql).await.inspect_err(unavailable)).await
}

fn unavailable(error: &Error) {
    assert_eq!((error.code(), error.status().as_u16()), ("source_unavailable", 503), "{error:?}");
    assert!(error.retry_delay().is_some(), "{error:?}");
}

#[tokio::test]
async fn a_server_that_restarts_is_used_again() {
    let mut cluster = Cluster::new();
    cluster.start();
    let source = source(&cluster.url()).unwrap();
    assert_eq!(until_it_answers(&source, "select 1 as v").await, "{\"v\":1}\n");
    for round in 0..2 {
        let endless = Config::single(
            "postgres://unused",
            "select generate_series(1, 1000000000) as n, repeat('x', 100) as x",
        );
        let endpoint = endless.unwrap().endpoints.remove(0);
        let mut stream = RowStream::open(&endpoint, &source, Format::Ndjson, Vec::new()).await.unwrap();
        poll_fn(|cx| stream.poll_chunk(cx)).await.unwrap().unwrap();
        cluster.crash();
        let error = loop {
            match wait("the next chunk", poll_fn(|cx| stream.poll_chunk(cx))).await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("a cut result ended as a whole one"),
            }
        };
        unavailable(&error);
        drop(stream);
        for _ in 0..5 {
            unavailable(&run(&source, "select 1 as v").await.unwrap_err());
        }
        cluster.start();
        assert_eq!(
            until_it_answers(&source, &format!("select {round} as v")).await,
            format!("{{\"v\":{round}}}\n")
        );
    }
}

/// All notices of a statement were sent and read, regardless of their number, although no code used
/// them.
#[tokio::test]
async fn notices_are_asked_for_by_the_url_alone() {
    let db = TestDb::new().await;
    let sql = "select current_setting('client_min_messages') as told";
    for (query, expected) in [("", "error"), ("&options=-c%20client_min_messages%3Dwarning", "warning")] {
        let told = run(&source(&format!("{}{query}", db.url())).unwrap(), sql).await.unwrap();
        assert_eq!(told, format!("{{\"told\":\"{expected}\"}}\n"));
    }
}
