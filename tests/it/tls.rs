//! TLS for clients: it keeps the promises of plain HTTP, and refuses clients without a certificate.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::support::upstream::Certificate;
use crate::support::{Curl, Server, TestDb, curl, get, repository, rowstream, wait_until};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const ROWS: &str = "select n, repeat('x', 100) as t from generate_series(1, 20000) n";
/// Endless rows.
const LONG: &str = "select generate_series(1, 1000000000) as n, repeat('x', 100) as t";
/// Fails after many chunks.
const FAILS: &str = "select n, 1 / (50000 - n) as x, repeat('x', 100) as t from generate_series(1, 99999) n";

/// A server with this certificate, and additional `settings` in `[tls]`.
async fn server(db: &TestDb, certificate: &Certificate, before: &str, settings: &str) -> Server {
    let (file, key) = (certificate.certificate(), certificate.key());
    let config = format!(
        "{before}\n[source.db]\nurl = \"{}\"\n[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n{settings}\n",
        db.url(),
        file.display(),
        key.display()
    );
    let files = [
        ("rowstream.toml", &*config),
        ("endpoints/rows.sql", ROWS),
        ("endpoints/long.sql", LONG),
        ("endpoints/fails.sql", FAILS),
    ];
    Server::start(&files).await
}

/// The URL of a path, with the name in the certificate.
fn https(server: &Server, path: &str) -> String {
    let (_, port) = server.address().rsplit_once(':').expect("it has a port");
    format!("https://localhost:{port}{path}")
}

/// curl's result with `authority` as the trusted certificate.
async fn trusting(authority: &Path, arguments: &[&str]) -> Curl {
    let authority = authority.to_str().expect("a path is text");
    curl(&[&["--cacert", authority, "--ipv4"], arguments].concat()).await
}

/// A TLS connection whose bytes the test sends and reads itself.
async fn connect(server: &Server, certificate: &Certificate) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate.ca()).expect("openssl made it")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.expect("there are versions").with_root_certificates(roots).with_no_client_auth();
    let socket = TcpStream::connect(server.address()).await.expect("it listens");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.expect("it is trusted")
}

#[tokio::test]
async fn both_versions_of_http_come_over_tls() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "", "hsts = \"365d\"").await;
    assert!(server.stderr().contains("listening on https://"), "{}", server.stderr());
    let url = https(&server, "/rows.ndjson");
    for (version, number) in [("--http1.1", "1.1"), ("--http2", "2")] {
        for tls in ["1.2", "1.3"] {
            let least = format!("--tlsv{tls}");
            let format = "\n%{http_version} %{http_code} %header{strict-transport-security}";
            let arguments = [version, &least, "--tls-max", tls, "-w", format, &url];
            let got = trusting(&certificate.ca(), &arguments).await;
            assert_eq!(got.code, 0, "{}", got.stderr);
            let text = String::from_utf8(got.stdout).expect("text");
            assert_eq!(text.lines().filter(|line| line.starts_with('{')).count(), 20_000);
            assert_eq!(text.lines().last(), Some(&*format!("{number} 200 max-age=31536000")));
        }
    }
}

#[tokio::test]
async fn what_fails_after_its_head_is_broken_over_tls_too() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "", "").await;
    for (version, code) in [("--http1.1", 18), ("--http2", 92)] {
        for path in ["/fails", "/fails.ndjson", "/fails.csv"] {
            let url = https(&server, path);
            let got = trusting(&certificate.ca(), &[version, &url]).await;
            assert_eq!(got.code, code, "{path} {}", got.stderr);
            assert!(!got.stdout.is_empty());
        }
    }
    // Without a proper end of TLS.
    let mut stream = connect(&server, &certificate).await;
    stream.write_all(b"GET /fails.csv HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it is open");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect_err("there is no close_notify");
    assert!(answer.starts_with(b"HTTP/1.1 200 ") && !answer.ends_with(b"0\r\n\r\n"));
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_ended_over_tls_too() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "write_timeout = \"1s\"", "").await;
    let mut stream = connect(&server, &certificate).await;
    stream.write_all(b"GET /long.ndjson HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it is open");
    server.wait_for_stdout(" 200 client_stalled ").await;
}

#[tokio::test]
async fn a_client_that_leaves_is_seen_over_tls_too() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "", "").await;
    let mut stream = connect(&server, &certificate).await;
    stream.write_all(b"GET /long.ndjson HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it is open");
    let mut first = [0; 1000];
    stream.read_exact(&mut first).await.expect("rows come");
    drop(stream);
    server.wait_for_stdout(" 200 aborted ").await;
}

#[tokio::test]
async fn who_speaks_plain_http_hears_what_to_do() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "admin_listen = \"127.0.0.1:0\"", "").await;
    let reply = get(&format!("http://{}/rows", server.address())).await;
    assert_eq!(
        (reply.status.as_u16(), reply.text()),
        (400, "HTTPS is spoken here: write https:// instead\n")
    );
    // Silent clients and nonsense both count as failures, and affect nothing else.
    for nonsense in [&[22, 3, 1, 255, 255, 0][..], &[22], &[]] {
        let mut stream = TcpStream::connect(server.address()).await.expect("it listens");
        stream.write_all(nonsense).await.expect("it is open");
    }
    server.wait_for_stderr("admin endpoints at ").await;
    let said = server.stderr();
    let (_, admin) = said.split_once("admin endpoints at ").expect("it says where");
    let metrics = format!("{}metrics", admin.lines().next().expect("a line"));
    wait_until("four failures", async || {
        let told = get(&metrics).await.text().to_owned();
        if told.contains("\nrowstream_tls_failures_total 4\n") { Ok(()) } else { Err(told) }
    })
    .await;
    assert_eq!(trusting(&certificate.ca(), &[&https(&server, "/rows")]).await.code, 0);
}

#[tokio::test]
async fn plain_http_leads_to_https() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "", "redirect = \"127.0.0.1:0\"").await;
    server.wait_for_stderr(" redirects there").await;
    let said = server.stderr();
    let plain = said.lines().find_map(|line| line.strip_suffix(" redirects there")).expect("it says where");
    let (_, port) = plain.rsplit_once(':').expect("it has a port");
    let url = format!("http://localhost:{port}/rows.csv?n=1%20");
    let reply = get(&url).await;
    assert_eq!(reply.status, 308);
    assert_eq!(reply.header("location"), Some(&*https(&server, "/rows.csv?n=1%20")));
    assert_eq!(reply.header("strict-transport-security"), None);
    // The signature of a signed URL isn't a part of it inside the server.
    let signed = get(&format!("http://localhost:{port}/rows.csv?n=1&_signature=x")).await;
    assert_eq!(signed.header("location"), Some(&*https(&server, "/rows.csv?n=1&_signature=x")));
    let url = format!("http://localhost:{port}/rows.ndjson");
    let got = trusting(&certificate.ca(), &["--location", &url]).await;
    assert_eq!((got.code, got.stdout.iter().filter(|byte| **byte == b'\n').count()), (0, 20_000));
    let odd = ["-H", "Host: a b", "-w", "%{http_code}", "-o", "/dev/null", &url];
    assert_eq!(trusting(&certificate.ca(), &odd).await.stdout, b"400");
}

#[tokio::test]
async fn who_needs_a_certificate_is_out_without_one() {
    let (db, certificate, others) = (TestDb::new().await, Certificate::new(), Certificate::new());
    let authority = format!("client_ca = \"{}\"", certificate.ca().display());
    let server = server(&db, &certificate, "", &authority).await;
    let url = https(&server, "/rows");
    let with = |own: &Certificate| {
        [own.certificate(), own.key()].map(|path| path.to_str().expect("a path is text").to_owned())
    };
    assert_ne!(trusting(&certificate.ca(), &[&url]).await.code, 0);
    for (own, is_in) in [(&certificate, true), (&others, false)] {
        let [file, key] = with(own);
        let got = trusting(&certificate.ca(), &["--cert", &file, "--key", &key, &url]).await;
        assert_eq!((got.code == 0, got.stdout.is_empty()), (is_in, !is_in), "{}", got.stderr);
    }
}

/// A certificate allows a connection, but doesn't replace a token. A client without one gets no
/// response, whatever its token.
#[tokio::test]
async fn a_certificate_stands_in_for_no_token() {
    let (certificate, others) = (Certificate::new(), Certificate::new());
    let path = |path: std::path::PathBuf| path.to_str().expect("a path is text").to_owned();
    let hash = |text: &str| {
        use sha2::Digest as _;
        sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let config = format!(
        "authorization = [\"reader\"]\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n\
         [token.reader]\nsha256 = \"{}\"\n[token.other]\nsha256 = \"{}\"\n\
         [tls]\ncertificate = \"{}\"\nkey = \"{}\"\nclient_ca = \"{}\"\n",
        hash("reader"),
        hash("other"),
        path(certificate.certificate()),
        path(certificate.key()),
        path(certificate.ca()),
    );
    let files = [
        ("rowstream.toml", &*config),
        ("t.sql", "create table t (n)"),
        ("endpoints/mine.sql", "select 1 as n"),
        ("endpoints/open.sql", "/*\nauthorization = \"public\"\n*/\nselect 1 as n"),
    ];
    let server = Server::start(&files).await;
    let routes = [
        ("/open", [200, 200, 200, 200]),
        ("/mine", [401, 200, 403, 401]),
        ("/", [200, 200, 200, 200]),
        ("/missing", [404, 404, 404, 404]),
        ("/_rowstream/live", [200, 200, 200, 200]),
        ("/_rowstream/metrics", [401, 403, 403, 401]),
        ("/_rowstream/history", [401, 403, 403, 401]),
        ("/_rowstream/openapi.json", [200, 200, 200, 200]),
        ("/_rowstream/streams/none", [404, 404, 404, 404]),
    ];
    let tokens = [None, Some("reader"), Some("other"), Some("nobody")];
    for (route, expected) in routes {
        for (token, status) in tokens.into_iter().zip(expected) {
            let url = https(&server, route);
            let shown = format!("authorization: Bearer {}", token.unwrap_or_default());
            let shown = if token.is_some() { &["-H", &shown][..] } else { &[] };
            for own in [Some(&certificate), Some(&others), None] {
                let pair = own.map(|own| [path(own.certificate()), path(own.key())]);
                let own_arguments: Vec<&str> =
                    pair.iter().flat_map(|[file, key]| ["--cert", file, "--key", key]).collect();
                let asked = ["-o", "/dev/null", "-w", "%{http_code}", &url];
                let got = trusting(&certificate.ca(), &[&own_arguments[..], shown, &asked].concat()).await;
                let is_in = own.is_some_and(|own| std::ptr::eq(own, &certificate));
                let wanted = if is_in { status.to_string() } else { "000".to_owned() };
                assert_eq!(
                    (String::from_utf8_lossy(&got.stdout).into_owned(), got.code == 0),
                    (wanted, is_in),
                    "{route} {token:?}"
                );
            }
        }
    }
}

/// The socket below TLS sees records, so it can't recognise hyper's own responses.
#[tokio::test]
async fn a_request_that_cannot_be_read_is_explained_over_tls() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "", "").await;
    let mut stream = connect(&server, &certificate).await;
    stream.write_all(b"GET /rows?q=\" HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it is open");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer with an end");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.contains("\"code\":\"malformed_request\""), "{answer}");
    server.wait_for_stdout(" - - HTTP/1.1 400 client_error ").await;
}

/// Certificates are valid for weeks, but servers run for years.
#[tokio::test]
async fn a_new_certificate_needs_no_new_process() {
    let (db, certificate, next) = (TestDb::new().await, Certificate::new(), Certificate::new());
    let server = server(&db, &certificate, "", "").await;
    let url = https(&server, "/rows");
    let mut running = connect(&server, &certificate).await;
    running.write_all(b"GET /long.ndjson HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it is open");
    assert_eq!(trusting(&certificate.ca(), &[&url]).await.code, 0);
    std::fs::copy(next.certificate(), certificate.certificate()).expect("a copy");
    server.hang_up();
    server.wait_for_stderr("is not the key of").await;
    assert_eq!(trusting(&certificate.ca(), &[&url]).await.code, 0, "the old configuration stays in use");
    std::fs::copy(next.key(), certificate.key()).expect("a copy");
    server.hang_up();
    server.wait_for_stderr("reloaded: 3 endpoints").await;
    assert_eq!(trusting(&next.ca(), &[&url]).await.code, 0);
    // It trusts another authority.
    assert_eq!(trusting(&certificate.ca(), &[&url]).await.code, 60);
    let mut bytes = vec![0; 1 << 20];
    running.read_exact(&mut bytes).await.expect("what runs goes on");
}

/// Clients would refuse it one by one, without any other report.
#[tokio::test]
async fn a_certificate_that_has_expired_is_a_warning() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "", "").await;
    let expire =
        "openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -days -1 -extfile names -out server.crt";
    let folder = certificate.certificate().parent().expect("a folder").to_owned();
    let ran = Command::new("sh").args(["-c", expire]).current_dir(folder).status();
    assert!(ran.expect("a shell").success());
    server.hang_up();
    server.wait_for_stderr("server.crt has expired, so clients refuse it").await;
    let checked = rowstream(&["check", server.folder().to_str().expect("a path is text")]).await;
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && said.contains("server.crt has expired"), "{said}");
}

#[tokio::test]
async fn what_is_wrong_with_certificates_has_a_place() {
    let (one, other) = (Certificate::new(), Certificate::new());
    let [file, key, wrong] =
        [one.certificate(), one.key(), other.key()].map(|path| path.display().to_string());
    for (lines, message) in [
        (format!("certificate = \"none.crt\"\nkey = \"{key}\""), "none.crt: No such file"),
        (format!("certificate = \"{key}\"\nkey = \"{key}\""), "contains no certificate"),
        (format!("certificate = \"{file}\"\nkey = \"{file}\""), "contains no private key"),
        (format!("certificate = \"{file}\"\nkey = \"{wrong}\""), "is not the key of"),
        (format!("certificate = \"{file}\""), "`key` is missing"),
        (
            format!("certificate = \"{file}\"\nkey = \"{key}\"\nclient_ca = \"{key}\""),
            "contains no certificate",
        ),
        (
            format!("certificate = \"{file}\"\nkey = \"{key}\"\nredirect = \"80\""),
            "isn't an address to listen on",
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let config = format!("[source.db]\nurl = \"sqlite::memory:\"\n[tls]\n{lines}\n");
        std::fs::create_dir(folder.path().join("endpoints")).expect("a folder");
        std::fs::write(folder.path().join("endpoints/one.sql"), "select 1 as n").expect("a file");
        std::fs::write(folder.path().join("rowstream.toml"), config).expect("a file");
        let ran = rowstream(&["check", folder.path().to_str().expect("a path is text")]).await;
        let said = String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout);
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.contains(message) && said.contains("rowstream.toml:"), "{message}\n{said}");
    }
}

#[tokio::test]
async fn rowstream_ready_asks_over_tls() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "", "").await;
    let authority = certificate.ca();
    let url = https(&server, "");
    let ran = rowstream(&["ready", &url, "--ca", authority.to_str().expect("text")]).await;
    assert_eq!((ran.status.code(), &*ran.stdout), (Some(0), &b"ready\n"[..]), "{ran:?}");
    let ran = rowstream(&["ready", &url]).await;
    let said = [ran.stdout, ran.stderr].concat();
    assert_eq!(ran.status.code(), Some(1), "{}", String::from_utf8_lossy(&said));
}

/// The certificate that the book has one make is its own authority. curl accepted it as such, but our
/// commands didn't ("CaUsedAsEndEntity").
#[tokio::test]
async fn the_certificate_of_the_book_is_its_own_authority() {
    let page = std::fs::read_to_string(repository().join("docs/src/reference/tls.md")).expect("the page");
    let command = &page[page.find("openssl req -x509").expect("its command")..];
    let command = command.split("\ncurl ").next().expect("its lines");
    let folder = tempfile::tempdir().expect("a folder");
    let made = Command::new("sh").args(["-c", command]).current_dir(folder.path()).output().expect("a shell");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let [certificate, key] = ["server.crt", "server.key"].map(|name| folder.path().join(name));
    let (certificate, key) = (certificate.to_str().expect("text"), key.display());
    let config = format!(
        "[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n"
    );
    let files = [
        ("rowstream.toml", &*config),
        ("t.sql", "create table t (n)"),
        ("endpoints/t.sql", "select n from t"),
    ];
    let server = Server::start(&files).await;
    let url = https(&server, "");
    for command in [&["ready", &url][..], &["doctor", "--silence", "1", "--via", &url]] {
        let ran = rowstream(&[command, &["--ca", certificate]].concat()).await;
        assert_eq!(ran.status.code(), Some(0), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}
