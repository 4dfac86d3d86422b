//! Certificates that an authority issues while the server runs. The authority is Pebble, which
//! Let's Encrypt provides to test ACME clients. It requests each proof from the server, like
//! theirs.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::upstream::Certificate;
use crate::support::{Curl, Launch, Server, curl, free_ports, get, rowstream, wait_until};
use serde_json::{Value, json};

const EXPIRY: &str = "rowstream_tls_certificate_expiry_timestamp_seconds ";
const LASTING: u64 = 90 * 24 * 60 * 60;

/// The authority, and a DNS server that resolves every name to this machine. Dropping it ends both.
struct Pebble {
    children: [Child; 2],
    folder: tempfile::TempDir,
    directory: String,
    management: SocketAddr,
    own: Certificate,
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Pebble {
    /// Starts it. It requests proofs at the port of `server`, and its certificates are valid for
    /// `seconds`. `settings` are additional members of its configuration.
    async fn start(server: SocketAddr, seconds: u64, settings: &Value) -> Self {
        let (acme, management) = free_ports();
        Self::start_at(acme, management, server, seconds, settings).await
    }

    async fn start_at(
        acme: SocketAddr,
        management: SocketAddr,
        server: SocketAddr,
        seconds: u64,
        settings: &Value,
    ) -> Self {
        let program =
            PathBuf::from(std::env::var_os("ROWSTREAM_TEST_PEBBLE").expect("run `cargo xtask test`"));
        let (dns, _) = free_ports();
        let own = Certificate::new();
        let mut pebble = json!({
            "listenAddress": acme.to_string(), "managementListenAddress": management.to_string(),
            "certificate": own.certificate(), "privateKey": own.key(), "tlsPort": server.port(),
            "keyAlgorithm": "ecdsa", "retryAfter": {"authz": 1, "order": 1},
            "profiles": {"default": {"description": "all", "validityPeriod": seconds}},
        });
        let members = settings.as_object().expect("an object").clone();
        pebble.as_object_mut().expect("an object").extend(members);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("pebble.json");
        std::fs::write(&file, json!({"pebble": pebble}).to_string()).expect("it can be written");
        let mut names = Command::new(program.with_file_name("pebble-challtestsrv"));
        names.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dnsserver", &dns.to_string()]);
        names.args(["-management", "", "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]);
        let mut authority = Command::new(&program);
        authority.args(["-config", file.to_str().expect("text"), "-dnsserver", &dns.to_string()]);
        authority.env("PEBBLE_VA_NOSLEEP", "1");
        let mut commands = [names, authority];
        for command in &mut commands {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        }
        let children = commands.each_mut().map(|command| command.spawn().expect("it starts"));
        let directory = format!("https://localhost:{}/dir", acme.port());
        let mut pebble = Self { children, folder, directory, management, own };
        wait_until("Pebble starts", async || {
            if pebble.ask("/roots/0").await.code == 0 {
                return true;
            }
            // Another connection may have taken a port since we chose it. It will end.
            for (command, child) in commands.iter_mut().zip(&mut pebble.children) {
                if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    *child = command.spawn().expect("it starts");
                }
            }
            false
        })
        .await;
        pebble
    }

    /// The response of its management port.
    async fn ask(&self, path: &str) -> Curl {
        curl(&["--insecure", "--fail", &format!("https://{}{path}", self.management)]).await
    }

    /// A file with its root certificate.
    async fn root(&self) -> PathBuf {
        let file = self.folder.path().join("root.pem");
        std::fs::write(&file, self.ask("/roots/0").await.stdout).expect("it can be written");
        file
    }

    /// `[tls.acme]` of a server for these names, with additional `settings`.
    fn section(&self, names: &[&str], settings: &str) -> String {
        format!(
            "[tls.acme]\ndomains = {names:?}\ncontact = \"ops@shop.example\"\nfolder = \"kept\"\ndirectory = \"{}\"\nroots = \"{}\"\n{settings}\n",
            self.directory,
            self.own.ca().display()
        )
    }
}

/// A server's ports: for clients, and for the admin endpoints.
fn ports() -> (SocketAddr, SocketAddr) {
    free_ports()
}

/// A server with one endpoint, and its `[tls]`.
fn launch(ports: (SocketAddr, SocketAddr), before: &str, tls: &str) -> Launch {
    let config = format!(
        "admin_listen = \"{}\"\n{before}\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n[tls]\n{tls}\n",
        ports.1
    );
    let files = [
        ("rowstream.toml", &*config),
        ("t.sql", "create table t (n)"),
        ("endpoints/rows.sql", "select 1 as n union all select 2 union all select 3"),
        (
            "endpoints/long.sql",
            "with recursive c(n) as (select 1 union all select n + 1 from c) select n, hex(zeroblob(99)) as t from c",
        ),
    ];
    Launch::files(&files).listen(&ports.0.to_string())
}

/// curl's result for a path under a name of the server, with `root` as the trusted certificate.
async fn ask(ports: (SocketAddr, SocketAddr), root: &Path, name: &str, arguments: &[&str]) -> Curl {
    let resolve = format!("{name}:{}:127.0.0.1", ports.0.port());
    let url = format!("https://{name}:{}/rows.ndjson", ports.0.port());
    let root = root.to_str().expect("a path is text");
    curl(&[&["--cacert", root, "--resolve", &resolve], arguments, &[&url]].concat()).await
}

/// The serial number of the certificate in handshakes.
fn serial(ports: (SocketAddr, SocketAddr), name: &str) -> String {
    let script = format!(
        "openssl s_client -connect {} -servername {name} < /dev/null 2> /dev/null | openssl x509 -noout -serial",
        ports.0
    );
    let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    String::from_utf8(output.stdout).expect("text")
}

async fn has_certificate(server: &Server) {
    server.wait_for_stderr("expires").await;
}

#[tokio::test]
async fn an_authority_issues_the_certificate_and_a_restart_asks_for_none() {
    let ports = ports();
    let pebble = Pebble::start(ports.0, LASTING, &json!({})).await;
    let launch = launch(ports, "", &pebble.section(&["shop.example", "WWW.shop.example"], ""));
    let folder = launch.path().to_owned();
    let mut server = launch.start().await;
    has_certificate(&server).await;
    // The authority's request for a proof doesn't count as a failed handshake.
    let metrics = get(&format!("http://{}/_rowstream/metrics", ports.1)).await;
    assert!(metrics.text().contains("\nrowstream_tls_failures_total 0\n"), "{}", metrics.text());
    let root = pebble.root().await;
    for name in ["shop.example", "www.shop.example"] {
        for version in ["--http1.1", "--http2"] {
            let got = ask(ports, &root, name, &[version]).await;
            assert_eq!(
                (got.code, &*got.stdout),
                (0, &b"{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n"[..]),
                "{}",
                got.stderr
            );
        }
    }
    assert_eq!(ask(ports, &root, "other.example", &[]).await.code, 60);
    let first = serial(ports, "shop.example");
    assert!(first.starts_with("serial="), "{first}");
    let kept = std::fs::read_dir(folder.join("kept"))
        .expect("it is there")
        .next()
        .expect("an authority")
        .expect("it");
    let mut names = Vec::new();
    for file in std::fs::read_dir(kept.path()).expect("a folder") {
        let file = file.expect("a file");
        assert_eq!(file.metadata().expect("it is there").permissions().mode() & 0o777, 0o600, "{file:?}");
        names.push(file.file_name());
    }
    names.sort();
    assert_eq!(names, ["account.json", "certificate.pem"]);
    server.terminate();
    server.wait_drained().await;
    drop(pebble);
    let server = Launch::folder(folder).listen(&ports.0.to_string()).start().await;
    has_certificate(&server).await;
    assert_eq!(serial(ports, "shop.example"), first);
    let metrics = get(&format!("http://{}/_rowstream/metrics", ports.1)).await;
    let expiry = metrics.text().lines().find_map(|line| line.strip_prefix(EXPIRY)).expect("it is known");
    let expiry = expiry.trim().parse::<f64>().expect("a number");
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64();
    assert!((expiry - now - LASTING as f64).abs() < 3600.0, "{expiry} {now}");
}

#[tokio::test]
async fn a_certificate_is_renewed_before_it_expires_and_streams_go_on() {
    let ports = ports();
    let pebble = Pebble::start(ports.0, 20, &json!({})).await;
    let server = launch(ports, "", &pebble.section(&["shop.example"], "")).start().await;
    has_certificate(&server).await;
    let root = pebble.root().await;
    let resolve = format!("shop.example:{}:127.0.0.1", ports.0.port());
    let url = format!("https://shop.example:{}/long.ndjson", ports.0.port());
    let mut running = Command::new("curl")
        .args([
            "--silent",
            "--limit-rate",
            "100k",
            "--resolve",
            &resolve,
            "--output",
            "/dev/null",
            &url,
            "--cacert",
        ])
        .arg(&root)
        .spawn()
        .expect("curl is here");
    let first = serial(ports, "shop.example");
    wait_until("another certificate", async || {
        assert_eq!(ask(ports, &root, "shop.example", &[]).await.code, 0, "there is always one");
        if serial(ports, "shop.example") != first { Ok(()) } else { Err(server.stderr()) }
    })
    .await;
    assert!(running.try_wait().expect("it is ours").is_none(), "what runs goes on");
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    assert_eq!(ask(ports, &root, "shop.example", &[]).await.code, 0);
}

#[tokio::test]
async fn names_that_were_added_and_an_account_that_was_forgotten_are_no_hindrance() {
    let ports = ports();
    let (acme, management) = free_ports();
    let pebble = Pebble::start_at(acme, management, ports.0, LASTING, &json!({})).await;
    let launch = launch(ports, "", &pebble.section(&["shop.example"], ""));
    let (folder, file) = (launch.path().to_owned(), launch.path().join("rowstream.toml"));
    let mut server = launch.start().await;
    has_certificate(&server).await;
    server.terminate();
    server.wait_exit().await;
    // It keeps no earlier state.
    drop(pebble);
    let pebble = Pebble::start_at(acme, management, ports.0, LASTING, &json!({})).await;
    let text = std::fs::read_to_string(&file).expect("it is there");
    let text = text.replace("[\"shop.example\"]", "[\"shop.example\", \"new.example\"]");
    let text = text.lines().filter(|line| !line.starts_with("roots")).collect::<Vec<_>>().join("\n");
    let roots = format!("roots = \"{}\"\n", pebble.own.ca().display());
    std::fs::write(&file, format!("{text}\n{roots}")).expect("it can be written");
    let server = Launch::folder(folder).listen(&ports.0.to_string()).start().await;
    has_certificate(&server).await;
    let root = pebble.root().await;
    assert_eq!(ask(ports, &root, "new.example", &[]).await.code, 0, "{}", server.stderr());
}

#[tokio::test]
async fn who_cannot_be_reached_learns_why_and_the_server_goes_on() {
    let ports = ports();
    // Proofs are requested at a port without a server.
    let (nobody, _) = free_ports();
    let pebble = Pebble::start(nobody, LASTING, &json!({})).await;
    let server = launch(ports, "", &pebble.section(&["shop.example"], "")).start().await;
    server.wait_for_stderr("ACME: no certificate for shop.example: shop.example: ").await;
    let said = server.stderr();
    assert!(
        said.contains("Failed to connect to 127.0.0.1") && said.contains("at port 443 of each name"),
        "{said}"
    );
    assert!(said.contains("the next try is in 2 min"), "{said}");
    assert_eq!(get(&format!("http://{}/_rowstream/live", ports.1)).await.status, 200);
    assert_eq!(serial(ports, "shop.example"), "");
    let metrics = get(&format!("http://{}/_rowstream/metrics", ports.1)).await;
    assert!(metrics.text().contains("rowstream_tls_failures_total 1"), "{}", metrics.text());
}

#[tokio::test]
async fn an_authority_that_is_not_there_is_named() {
    let ports = ports();
    let (nobody, _) = free_ports();
    let section = format!(
        "[tls.acme]\ndomains = [\"shop.example\"]\nfolder = \"kept\"\ndirectory = \"https://{nobody}/dir\"\n"
    );
    let server = launch(ports, "", &section).start().await;
    server.wait_for_stderr(&format!("https://{nobody}/dir: ")).await;
    server.wait_for_stderr("refused").await;
    assert!(!server.stderr().contains("expires"), "{}", server.stderr());
}

/// An authority has no client certificate, but still gets its proof.
#[tokio::test]
async fn clients_need_certificates_and_the_authority_none() {
    let (ports, clients) = (ports(), Certificate::new());
    let pebble = Pebble::start(ports.0, LASTING, &json!({})).await;
    let tls =
        format!("client_ca = \"{}\"\n{}", clients.ca().display(), pebble.section(&["shop.example"], ""));
    let server = launch(ports, "", &tls).start().await;
    has_certificate(&server).await;
    let root = pebble.root().await;
    let (file, key) = (clients.certificate().display().to_string(), clients.key().display().to_string());
    assert_eq!(ask(ports, &root, "shop.example", &["--cert", &file, "--key", &key]).await.code, 0);
    assert_ne!(ask(ports, &root, "shop.example", &[]).await.code, 0);
    // A client that requests an unknown proof gets no connection.
    let script = format!(
        "openssl s_client -connect {} -servername shop.example -alpn acme-tls/1 < /dev/null 2>&1",
        ports.0
    );
    let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("no peer certificate available"), "{said}");
}

#[tokio::test]
async fn a_reload_keeps_what_was_issued() {
    let ports = ports();
    let pebble = Pebble::start(ports.0, LASTING, &json!({})).await;
    let launch = launch(ports, "", &format!("hsts = \"1d\"\n{}", pebble.section(&["shop.example"], "")));
    let file = launch.path().join("rowstream.toml");
    let server = launch.start().await;
    has_certificate(&server).await;
    let (root, first) = (pebble.root().await, serial(ports, "shop.example"));
    let text = std::fs::read_to_string(&file).expect("it is there");
    let hsts = ["-w", "%header{strict-transport-security}", "-o", "/dev/null"];
    std::fs::write(&file, text.replace("\"1d\"", "\"2d\"")).expect("it can be written");
    server.hang_up();
    server.wait_for_stderr("reloaded: ").await;
    assert_eq!(ask(ports, &root, "shop.example", &hsts).await.stdout, b"max-age=172800");
    std::fs::write(&file, text.replace("\"shop.example\"", "\"other.example\"")).expect("it can be written");
    server.hang_up();
    server.wait_for_stderr("`[tls.acme]` takes effect at the next start").await;
    let certificate = Certificate::new();
    let (section, _) = text.split_once("[tls]").expect("it is there");
    let files = format!(
        "{section}[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
        certificate.certificate().display(),
        certificate.key().display()
    );
    std::fs::write(&file, files).expect("it can be written");
    server.hang_up();
    let said = async || server.count_stderr("`[tls.acme]` takes effect at the next start") >= 2;
    wait_until("it's said again", said).await;
    assert_eq!(ask(ports, &root, "shop.example", &[]).await.code, 0);
    assert_eq!(serial(ports, "shop.example"), first);
}

/// Some authorities issue certificates only to known accounts.
#[tokio::test]
async fn an_account_is_bound_to_one_that_the_authority_knows() {
    let ports = ports();
    // 32 bytes, the size of RFC 8555's keys for HS256.
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let known = json!({"externalAccountBindingRequired": true, "externalAccountMACKeys": {"kid-1": key}});
    let pebble = Pebble::start(ports.0, LASTING, &known).await;
    let server = launch(ports, "", &pebble.section(&["shop.example"], "")).start().await;
    server.wait_for_stderr("externalAccount").await;
    drop(server);
    let bound = "external_account = { id = \"kid-1\", key = \"${ACME_KEY}\" }";
    let launch = launch(ports, "", &pebble.section(&["shop.example"], bound)).variable("ACME_KEY", key);
    let server = launch.start().await;
    has_certificate(&server).await;
    assert!(!server.stderr().contains(key), "{}", server.stderr());
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_asked_for() {
    let ports = ports();
    let (nobody, _) = free_ports();
    let section = format!(
        "[tls.acme]\ndomains = [\"shop.example\"]\nfolder = \"rowstream.toml\"\ndirectory = \"https://{nobody}/dir\"\n"
    );
    let mut server = launch(ports, "", &section).start().await;
    let status = server.wait_exit().await;
    assert_eq!(status.code(), Some(1));
    let said = server.stderr();
    assert!(
        said.contains("[tls.acme]: ") && said.contains("hint: let the server's user write there"),
        "{said}"
    );
}

#[tokio::test]
async fn what_is_wrong_is_said_all_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("endpoints")).expect("a folder");
    std::fs::write(folder.path().join("endpoints/one.sql"), "select 1 as n").expect("a file");
    let config = "[source.db]\nurl = \"sqlite:t.db\"\n[tls]\ncertificate = \"a.crt\"\n[tls.acme]\n\
        domains = [\"*.shop.example\", \"10.0.0.5\", \"b\u{fc}cher.example\", \"https://shop.example\", \"a..b\"]\n\
        contact = \"ops\"\ndirectory = \"http://authority.example/dir\"\n\
        external_account = { id = \"a\", key = \"?\" }\nfoldr = \"acme\"\n";
    std::fs::write(folder.path().join("rowstream.toml"), config).expect("a file");
    let ran = rowstream(&["check", folder.path().to_str().expect("a path is text")]).await;
    let said = String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    for words in [
        "4:15: `certificate` can't be combined with `[tls.acme]`",
        "6:12: `*.shop.example` isn't a name that can be proven\n    hint: an authority can prove such a \
         name only by DNS",
        "`10.0.0.5` isn't a name that can be proven\n    hint: write the name that clients use",
        "isn't a name that can be proven\n    hint: write it in its DNS form",
        "`https://shop.example` isn't a name that can be proven\n    hint: write only the name",
        "`a..b` isn't a name that can be proven\n    hint: names are letters, digits and hyphens",
        "7:11: `ops` isn't an email address",
        "8:13: `http://authority.example/dir` isn't an https URL",
        "the key isn't base64url",
        "`folder` is missing in [tls.acme]",
        "unknown key `foldr` in [tls.acme]\n    hint: did you mean `folder`?",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
}
