//! Server certificates of every kind with every TLS mode: PostgreSQL, MariaDB, and a server without
//! the key of its certificate.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rowstream_core::Error;
use rustls::crypto::ring::{self, sign::any_supported_type};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::postgres_connect::{Cluster, is_root, run, source, until_it_answers, who};
use crate::support::{free_port, wait, wait_until};

/// An authority, and the certificates of a server. `version1` and `selfsigned` follow the
/// PostgreSQL manual.
const CERTIFICATES: &str = r#"set -e
san="subjectAltName=DNS:localhost"
authority() { openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=Test authority" -keyout ca.key -out ca.crt; }
signed() { # name, extensions, key
    name=$1 extensions=$2; shift 2
    openssl req -new -newkey "$@" -nodes -subj /CN=localhost -keyout $name.key -out $name.csr
    printf "$extensions" > $name.ext
    set --; test -z "$extensions" || set -- -extfile $name.ext
    openssl x509 -req -in $name.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out $name.crt "$@"
}
authority
signed plain "$san\n" rsa:2048
signed version1 "" rsa:2048
signed critical "$san\n1.2.3.4=critical,ASN1:UTF8String:x\n" rsa:2048
signed p521 "$san\n" ec -pkeyopt ec_paramgen_curve:secp521r1
signed ed448 "$san\n" ed448
signed pss "$san\n" rsa-pss -pkeyopt rsa_keygen_bits:2048
signed stranger "$san\n" rsa:2048
openssl req -new -x509 -days 2 -nodes -newkey rsa:2048 -subj /CN=localhost -out selfsigned.crt -keyout selfsigned.key
openssl pkey -in plain.key -aes128 -passout pass:secret -out encrypted.key
chmod 644 *.key
"#;

/// The kinds, with the words of the refusal by `verify-full` with the authority. `None` if it
/// connects.
const KINDS: [(&str, Option<&str>); 7] = [
    ("plain", None),
    ("version1", Some("version 1 certificate")),
    ("critical", Some("critical extension")),
    ("p521", Some("key is of P-521")),
    ("ed448", Some("key is of Ed448")),
    ("pss", None),
    ("selfsigned", Some("self-signed")),
];

fn certificates() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("rowstream-").tempdir_in("/tmp").unwrap();
    let output = Command::new("sh").args(["-c", CERTIFICATES]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

/// The log's text if a source refuses a server.
fn refusal(answer: Result<String, Error>) -> Option<String> {
    answer.err().map(|error| format!("{error:?}"))
}

/// `prefer` and `require` refused all of these except the plain one, although they check no
/// authority and psql connects. `verify-*` refused a pinned self-signed certificate.
#[tokio::test]
async fn postgresql_with_any_certificate() {
    let made = certificates();
    let file = |name: &str| made.path().join(name).display().to_string();
    let cluster = PostgresTls::start().await;
    for (kind, reason) in KINDS {
        cluster.serve(made.path(), kind, "").await;
        let (pin, authority) = (file(&format!("{kind}.crt")), file("ca.crt"));
        let of = |query: &str| cluster.url("localhost", query);
        for mode in ["sslmode=prefer", "sslmode=require"] {
            assert!(who(&of(mode)).await.unwrap().contains("\"s\":true"), "{kind}, {mode}");
        }
        for mode in ["verify-full", "verify-ca"] {
            let refused = refusal(who(&of(&format!("sslmode={mode}&sslrootcert={authority}"))).await);
            says(kind, refused, reason);
        }
        if matches!(kind, "version1" | "selfsigned" | "plain") {
            for mode in ["require", "verify-ca", "verify-full"] {
                who(&of(&format!("sslmode={mode}&sslrootcert={pin}"))).await.unwrap();
            }
            let other = cluster.url("127.0.0.1", &format!("sslmode=verify-full&sslrootcert={pin}"));
            says(kind, refusal(who(&other).await), Some("not valid for name"));
        }
    }
}

#[track_caller]
fn says(kind: &str, refused: Option<String>, reason: Option<&str>) {
    match (refused, reason) {
        (None, None) => {}
        (Some(refused), Some(reason)) => assert!(refused.contains(reason), "{kind}: {refused}"),
        (refused, reason) => panic!("{kind}: {refused:?} instead of {reason:?}"),
    }
}

/// The files of a client that logs in as the user named in its certificate.
fn shown(made: &Path, certificate: &str, key: &str, names: [&str; 2]) -> String {
    let [of_certificate, of_key] = names;
    let made = made.display();
    format!("{of_certificate}={made}/{certificate}.crt&{of_key}={made}/{key}.key")
}

#[tokio::test]
async fn postgresql_lets_a_client_in_by_its_certificate() {
    let made = certificates();
    let cluster = PostgresTls::start().await;
    let data = cluster.0.folder.path().join("data");
    fs::copy(made.path().join("ca.crt"), data.join("ca.crt")).unwrap();
    let rules = fs::read_to_string(data.join("pg_hba.conf")).unwrap();
    fs::write(data.join("pg_hba.conf"), format!("hostssl all localhost all cert\n{rules}")).unwrap();
    cluster.serve(made.path(), "plain", "ssl_ca_file = 'ca.crt'\n").await;
    run(&source(&cluster.url("localhost", "")).unwrap(), "select 1 as v").await.unwrap();
    create_role(&cluster).await;
    let url = |query: &str| cluster.url("localhost", query).replace("postgres@", "localhost@");
    let by = |certificate, key| {
        let names = ["sslcert", "sslkey"];
        url(&format!("sslmode=require&{}", shown(made.path(), certificate, key, names)))
    };
    let told = who(&by("plain", "plain")).await.unwrap();
    assert_eq!(told, "{\"u\":\"localhost\",\"s\":true}\n");
    let none = refusal(who(&url("sslmode=require")).await);
    says("none", none, Some("requires a valid client certificate"));
    for (certificate, key, reason) in [
        ("plain", "encrypted", "openssl pkey"),
        ("plain", "missing", "missing.key"),
        ("plain", "stranger", "isn't that of the certificate"),
    ] {
        says(key, source(&by(certificate, key)).err().map(|error| format!("{error:?}")), Some(reason));
    }
    let half = url(&format!("sslmode=require&sslcert={}/plain.crt", made.path().display()));
    says("half", source(&half).err().map(|error| format!("{error:?}")), Some("needs its key"));
}

async fn create_role(cluster: &PostgresTls) {
    let url = cluster.url("localhost", "sslmode=disable");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("create role localhost login").await.unwrap();
}

/// The log said only `HandshakeFailure`.
#[tokio::test]
async fn postgresql_without_a_cipher_suite_in_common() {
    let made = certificates();
    let cluster = PostgresTls::start().await;
    let settings = "ssl_ciphers = 'AES256-SHA'\nssl_max_protocol_version = 'TLSv1.2'\n";
    cluster.serve(made.path(), "plain", settings).await;
    let refused = refusal(who(&cluster.url("localhost", "sslmode=require")).await);
    says("AES256-SHA", refused, Some("Rowstream offers TLS 1.3, and TLS 1.2 with ECDHE"));
}

/// A cluster whose TLS settings can be reloaded.
struct PostgresTls(Cluster);

impl PostgresTls {
    async fn start() -> Self {
        let mut cluster = Cluster::new();
        cluster.start();
        until_it_answers(&source(&cluster.url()).unwrap(), "select 1 as v").await;
        Self(cluster)
    }

    fn url(&self, host: &str, query: &str) -> String {
        format!("postgres://postgres@{host}:{}/postgres?{query}", self.0.port)
    }

    /// Uses this certificate and these settings for new connections.
    async fn serve(&self, made: &Path, kind: &str, settings: &str) {
        let data = self.0.folder.path().join("data");
        for suffix in ["crt", "key"] {
            let from = made.join(format!("{kind}.{suffix}"));
            let own = if is_root() { "postgres" } else { "" };
            let mut install = Command::new("install");
            install.args(["-m", "600"]);
            if !own.is_empty() {
                install.args(["-o", own]);
            }
            assert!(install.arg(from).arg(data.join(format!("{kind}.{suffix}"))).status().unwrap().success());
        }
        let tls = format!("ssl = on\nssl_cert_file = '{kind}.crt'\nssl_key_file = '{kind}.key'\n{settings}");
        fs::write(data.join("postgresql.auto.conf"), tls).unwrap();
        let plain = source(&self.url("localhost", "sslmode=disable")).unwrap();
        run(&plain, "select pg_reload_conf()").await.unwrap();
        wait_until("the certificate is there", async || {
            let plain = source(&self.url("localhost", "sslmode=disable")).unwrap();
            let served = run(&plain, "select current_setting('ssl_cert_file') as v").await.unwrap();
            served.contains(&format!("\"{kind}.crt\"")).then_some(()).ok_or(served)
        })
        .await;
    }
}

#[tokio::test]
async fn mariadb_with_any_certificate() {
    let made = certificates();
    let server = MariaTls::start(made.path()).await;
    for (kind, reason) in KINDS {
        server.serve(kind).await;
        for mode in ["preferred", "required"] {
            server.ask(&format!("ssl-mode={mode}")).await.unwrap_or_else(|error| panic!("{kind}: {error:?}"));
        }
        let by = |name: &str| format!("ssl-mode=verify_identity&ssl-ca={}", made.path().join(name).display());
        says(kind, refusal(server.ask(&by("ca.crt")).await), reason);
        if matches!(kind, "version1" | "selfsigned") {
            server.ask(&by(&format!("{kind}.crt"))).await.unwrap();
        }
    }
}

#[tokio::test]
async fn mariadb_lets_a_client_in_by_its_certificate() {
    let made = certificates();
    let server = MariaTls::start(made.path()).await;
    server.execute(
        "create user client@'127.0.0.1' require x509; grant select on mysql.* to client@'127.0.0.1'",
    );
    let files = shown(made.path(), "plain", "plain", ["ssl-cert", "ssl-key"]);
    let told = server.ask_as("client", &format!("ssl-mode=required&{files}")).await.unwrap();
    assert_eq!(told, "{\"v\":1}\n");
    says("none", refusal(server.ask_as("client", "ssl-mode=required").await), Some("Access denied"));
}

/// A MariaDB whose certificate can be changed with `flush ssl`.
struct MariaTls {
    made: PathBuf,
    port: u16,
    server: Child,
    folder: tempfile::TempDir,
}

impl MariaTls {
    async fn start(made: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.args(["--skip-name-resolve", "--innodb-log-file-size=4M", "--user=root"]);
        let output = install
            .env("TMPDIR", folder.path())
            .arg(format!("--datadir={}", data.display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let port = free_port().port();
        let log = File::create(folder.path().join("log")).unwrap();
        copy(made, "plain");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "mariadbd", "--no-defaults", "--user=root"]);
        command.args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--innodb-buffer-pool-size=16M"]);
        command.arg(format!("--port={port}")).arg("--datadir").arg(&data).arg("--tmpdir").arg(folder.path());
        command.arg("--socket").arg(data.join("socket")).arg("--pid-file").arg(data.join("pid"));
        command.arg("--ssl-cert").arg(made.join("served.crt")).arg("--ssl-key").arg(made.join("served.key"));
        command.arg("--ssl-ca").arg(made.join("ca.crt"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let server = command.spawn().unwrap();
        let this = Self { made: made.to_owned(), port, server, folder };
        let log = this.folder.path().join("log");
        let told = |error| format!("{error:?}\n{:?}", fs::read_to_string(&log));
        wait_until("MariaDB answers", async || this.ask("ssl-mode=disabled").await.map_err(told)).await;
        this
    }

    /// Uses this certificate for new connections.
    async fn serve(&self, kind: &str) {
        copy(&self.made, kind);
        self.execute("flush ssl");
    }

    fn execute(&self, sql: &str) {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--protocol=tcp", "-h127.0.0.1", "-uroot", "--skip-ssl", "-e", sql]);
        let output = client.arg(format!("--port={}", self.port)).output().unwrap();
        assert!(output.status.success(), "{sql}: {output:?}");
    }

    async fn ask(&self, query: &str) -> Result<String, Error> {
        self.ask_as("root", query).await
    }

    async fn ask_as(&self, user: &str, query: &str) -> Result<String, Error> {
        let url = format!("mysql://{user}@localhost:{}/mysql?{query}", self.port);
        wait("a login and its answer", run(&source(&url)?, "select 1 as v")).await
    }
}

impl Drop for MariaTls {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

fn copy(made: &Path, kind: &str) {
    for suffix in ["crt", "key"] {
        fs::copy(made.join(format!("{kind}.{suffix}")), made.join(format!("served.{suffix}"))).unwrap();
    }
}

/// A certificate is public, so a server that shows it without its key is an impostor. We check
/// every signature that we can check, even without an authority and for version 1.
#[tokio::test]
async fn a_certificate_without_its_key() {
    let made = certificates();
    for kind in ["plain", "version1", "selfsigned", "pss"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = impostor(made.path(), kind);
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.read_exact(&mut [0; 8]).await.unwrap();
                stream.write_all(b"S").await.unwrap();
                drop(acceptor.accept(stream).await);
            }
        });
        for query in ["sslmode=prefer".to_owned(), pinned(made.path(), kind)] {
            let url = format!("postgres://u@localhost:{port}/d?{query}");
            let refused = refusal(who(&url).await);
            says(kind, refused, Some("BadSignature"));
        }
        serving.abort();
    }
}

fn pinned(made: &Path, kind: &str) -> String {
    format!("sslmode=verify-full&sslrootcert={}/{kind}.crt", made.display())
}

/// A server with one key's certificate and another key.
fn impostor(made: &Path, kind: &str) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_file(made.join(format!("{kind}.crt"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(made.join("stranger.key")).unwrap();
    let key = CertifiedKey::new(vec![certificate], any_supported_type(&key).unwrap());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    TlsAcceptor::from(Arc::new(builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)))))
}
