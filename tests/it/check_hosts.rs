//! `rowstream check` on the hosts of databases: the role and lag of a real primary and its replica,
//! and the reason for a failed login with a solution. PostgreSQL and MariaDB have the same output.

use std::net::{SocketAddr, TcpListener};

use crate::support::{Login, MariaDb, MariaReplica, Replicas, TestDb, logins, rowstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};

/// Runs `check` for a source. Returns its success and its output.
async fn check(url: &str) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("endpoints")).expect("a folder");
    std::fs::write(folder.path().join("endpoints/one.sql"), "select 1 as one").expect("a file");
    let config = format!("[source.db]\nurl = \"{url}\"\n");
    std::fs::write(folder.path().join("rowstream.toml"), config).expect("a file");
    let checked = rowstream(&["check", &folder.path().display().to_string()]).await;
    let said = [checked.stdout, checked.stderr].concat();
    (checked.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// The output about the only host, after its version.
async fn role(url: &str) -> String {
    let (success, said) = check(url).await;
    assert!(success, "{said}");
    let line = said.lines().find(|line| line.starts_with("  127.0.0.1:"));
    let role = line.and_then(|line| line.split_once(", ")).unwrap_or_else(|| panic!("{said}")).1;
    role.to_owned()
}

/// The lag in `replica, 1.5 s late`.
fn seconds(role: &str) -> f64 {
    let seconds = role.strip_prefix("replica, ").and_then(|role| role.strip_suffix(" s late"));
    seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or_else(|| panic!("{role}"))
}

#[tokio::test]
async fn a_replica_of_postgresql_says_how_late_it_is() {
    let replicas = Replicas::start(1).await;
    let url = replicas.url(&[1], "");
    assert_eq!(role(&replicas.url(&[0], "")).await, "primary");
    replicas.execute(0, "create table item (n int)").await;
    replicas.until_caught_up().await;
    assert_eq!(seconds(&role(&url).await), 0.0);
    replicas.execute(1, "select pg_wal_replay_pause()").await;
    replicas.execute(0, "insert into item values (1)").await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(seconds(&role(&url).await) > 0.1);
}

#[tokio::test]
async fn a_replica_of_mariadb_says_how_late_it_is() {
    const RUNS: &str = "select variable_value from information_schema.global_status \
        where variable_name = 'Slave_running'";
    let servers = MariaReplica::start();
    let (primary, replica) = (servers.url(0, ""), servers.url(1, ""));
    servers.ask(0, "create table mysql.item (n int)");
    let tables = "select count(*) from information_schema.tables where table_name = 'item'";
    servers.until(1, tables, |said| said.trim() == "1");
    assert_eq!(role(&primary).await, "primary");
    assert_eq!(seconds(&role(&replica).await), 0.0);
    // New changes aren't replayed for an hour.
    servers.ask(1, "stop slave; change master to master_delay = 3600; start slave");
    servers.ask(0, "insert into mysql.item values (1)");
    servers.until(1, "show slave status", |said| said.contains("Waiting until MASTER_DELAY"));
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    assert!(seconds(&role(&replica).await) >= 1.0);
    assert!(seconds(&role(&of_older_words(servers.port(1)).await).await) >= 1.0);
    servers.ask(1, "stop slave");
    servers.until(1, RUNS, |said| said.trim() == "OFF");
    assert_eq!(role(&replica).await, "replica, which isn't replicating now");
}

/// The URL of the server posing as an older one, which doesn't know the word `replica`.
async fn of_older_words(port: u16) -> String {
    const NEW: &[u8] = b"show replica status";
    const OTHER: &[u8] = b"show replika status";
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let older = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = tokio::net::TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port)));
            let server = server.await.expect("the server is there");
            let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                (client.into_split(), server.into_split());
            tokio::spawn(async move { drop(copy(&mut from_server, &mut to_client).await) });
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                    let bytes = &mut buffer[..read];
                    if let Some(at) = bytes.windows(NEW.len()).position(|bytes| bytes == NEW) {
                        bytes[at..at + NEW.len()].copy_from_slice(OTHER);
                    }
                    to_server.write_all(bytes).await.expect("the server reads");
                }
            });
        }
    });
    format!("mysql://root@127.0.0.1:{older}/mysql")
}

/// A host that accepts connections but sends nothing.
fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    (listener, port)
}

/// Checks that each case has the message of the server or the system, and a solution.
async fn is_said(cases: &[(String, &str, &str)]) {
    for (url, cause, remedy) in cases {
        let (success, said) = check(url).await;
        assert!(!success, "{url}: {said}");
        let line = said.lines().find(|line| line.starts_with("    cause: "));
        let line = line.unwrap_or_else(|| panic!("{url}: {said}"));
        assert!(line.contains(cause) && line.contains(remedy), "{url}: {cause}, {remedy}: {said}");
        assert!(said.contains("source db: error: source `db` cannot be reached"), "{url}: {said}");
        assert!(!said.contains("s3cret"), "{url}: {said}");
    }
    let remedies: std::collections::BTreeSet<_> = cases.iter().map(|(.., remedy)| remedy).collect();
    assert_eq!(remedies.len(), cases.len(), "each has its own");
}

const LISTENS: &str = "no server listens there: start it, or correct host and port";
const KNOWN: &str = "the host isn't known: correct it in the source's `url`";
const FIREWALL: &str = "correct host and port in the source's `url`, and check for a firewall in between";
const AUTHORITY: &str = "name its authority with `sslrootcert` (`ssl-ca` of MySQL)";

#[tokio::test]
async fn what_keeps_postgresql_from_being_checked_is_said() {
    let db = TestDb::new().await;
    let plain = Replicas::start(0).await;
    let (_listener, port) = silent();
    let wrong = Login { user: "scram_user", password: "s3cret" };
    is_said(&[
        (db.url_of(&wrong, ""), "password authentication failed", "correct the user and the password"),
        (db.url_of(&logins::REFUSED, ""), "pg_hba.conf rejects", "allow it in the server's"),
        ("postgres://u:s3cret@127.0.0.1:1/d".to_owned(), "Connection refused", LISTENS),
        ("postgres://u:s3cret@no-such-host.invalid/d".to_owned(), "no-such-host.invalid", KNOWN),
        (format!("postgres://u:s3cret@127.0.0.1:{port}/d?connect_timeout=1"), "within 1s", FIREWALL),
        (db.url().replace(db.name(), "nowhere"), "\"nowhere\" does not exist", "correct the database"),
        (db.url_of(&logins::TLS_ONLY, "sslmode=disable"), "no encryption", "leave `sslmode=disable` out"),
        (db.url_of(&logins::SCRAM, "sslmode=verify-full"), "invalid peer certificate", AUTHORITY),
        (plain.url(&[0], "").replace("disable", "require"), "the server has no TLS", "set `ssl = on`"),
    ])
    .await;
}

#[tokio::test]
async fn what_keeps_mariadb_from_being_checked_is_said() {
    let db = MariaDb::new("select 1");
    let user = db.name();
    db.execute(&format!("create user {user}@'%' identified by 's3cret'"));
    let plain = MariaReplica::start();
    let (_listener, port) = silent();
    is_said(&[
        (db.url_of("native_user:s3cret", ""), "Access denied", "correct the user and the password"),
        (db.url_of(&format!("{user}:s3cret"), ""), "Access denied", "`grant select` on it to the user"),
        ("mysql://u:s3cret@127.0.0.1:1/d".to_owned(), "Connection refused", LISTENS),
        ("mysql://u:s3cret@no-such-host.invalid/d".to_owned(), "no-such-host.invalid", KNOWN),
        (format!("mysql://u:s3cret@127.0.0.1:{port}/d?connect-timeout=1"), "within 1s", FIREWALL),
        (db.url().replace(user, "nowhere"), "Unknown database 'nowhere'", "or create it"),
        (db.url_of("tls_user:tls", "ssl-mode=disabled"), "Access denied", "leave `ssl-mode=disabled` out"),
        (db.url_of("root", "ssl-mode=verify_identity"), "invalid peer certificate", AUTHORITY),
        (plain.url(0, "ssl-mode=required"), "the server has no TLS", "set `ssl-cert` and `ssl-key`"),
    ])
    .await;
    db.execute(&format!("drop user {user}@'%'"));
}
