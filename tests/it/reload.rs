//! Reloading by SIGHUP or by a changed file, and its effect on requests, streams and connections.

use std::time::Duration;

use crate::support::upstream::Certificate;
use crate::support::{Client, Ended, Launch, Server, TestDb, get, repository, wait_until};

/// Identifies the connection. It's a list, because lookups may share one.
const PID: &str = "select pg_backend_pid() as pid";

fn source(db: &TestDb, settings: &str) -> String {
    format!("[source.db]\nurl = \"{}\"\npool = {{ max = 1 }}\n{settings}\n", db.url())
}

fn write(server: &Server, name: &str, text: &str) {
    std::fs::write(server.folder().join(name), text).expect("a file");
}

/// Makes the server reload, and waits until it has reported the result again.
async fn reload(server: &Server, said: &str) {
    let count = || server.stderr().matches(said).count();
    let before = count();
    server.hang_up();
    wait_until(said, async || if count() > before { Ok(()) } else { Err(server.stderr()) }).await;
}

async fn text(server: &Server, target: &str) -> String {
    get(&server.url(target)).await.text().to_owned()
}

/// The number of the database's connections, without this one.
async fn connections(db: &tokio_postgres::Client) -> i64 {
    let sql = "select count(*) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()";
    db.query_one(sql, &[]).await.expect("it can be asked").get(0)
}

async fn until_connections(db: &tokio_postgres::Client, wanted: i64) {
    wait_until(&format!("{wanted} connections"), async || {
        let open = connections(db).await;
        if open == wanted { Ok(()) } else { Err(open) }
    })
    .await;
}

#[tokio::test]
async fn endpoints_and_settings_change_and_streams_go_on() {
    let db = TestDb::new().await;
    let long = "select generate_series(1, 200000) as n, repeat('x', 100) as t";
    let config = source(&db, "");
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/long.sql", long),
        ("endpoints/a.sql", "select 1 as n"),
        ("endpoints/gone.sql", "select 1 as n"),
    ];
    let server = Server::start(&files).await;
    assert_eq!(text(&server, "/a").await, "[{\"n\":1}]");
    let mut stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/long.ndjson")).await;
    let read = stream.at_least(1000).await.len();

    write(
        &server,
        "rowstream.toml",
        &format!("[cors]\norigins = [\"*\"]\n{}", source(&db, "fetch_rows = 10")),
    );
    write(&server, "endpoints/a.sql", "select 2 as n");
    write(&server, "endpoints/b.sql", "select 3 as n");
    std::fs::remove_file(server.folder().join("endpoints/gone.sql")).expect("it was there");
    std::fs::remove_file(server.folder().join("endpoints/long.sql")).expect("it was there");
    reload(&server, "reloaded: 2 endpoints, 1 sources").await;

    let reply = get(&server.url("/a")).await;
    assert_eq!((reply.text(), reply.header("access-control-allow-origin")), ("[{\"n\":2}]", Some("*")));
    assert_eq!(text(&server, "/b").await, "[{\"n\":3}]");
    for gone in ["/gone", "/long"] {
        assert_eq!(get(&server.url(gone)).await.status, 404, "{gone}");
    }
    // The old pool had one connection, which this stream holds until its last row.
    let client = db.client().await;
    assert_eq!(connections(&client).await, 2);
    let rest = stream.rest().await;
    assert_eq!(rest.ended, Ended::Complete);
    assert!(read + rest.body.len() > 20_000_000 && rest.text().ends_with("}\n"));
    assert!(rest.text().lines().last().expect("there are").starts_with("{\"n\":200000,"));
    // With its last stream, the old source and its connection are gone.
    until_connections(&client, 1).await;
}

#[tokio::test]
async fn a_fault_changes_nothing() {
    let db = TestDb::new().await;
    let config = source(&db, "");
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/a.sql", "select 1 as n"),
        ("endpoints/b.sql", PID),
    ])
    .await;
    let pid = text(&server, "/b").await;
    write(&server, "endpoints/a.sql", "/*\nresult = \"oen\"\n*/\nselect 2 as n");
    write(&server, "rowstream.toml", &format!("max_streams = 0\n{config}"));
    reload(&server, "not reloaded").await;
    let said = server.stderr();
    assert!(said.contains("endpoints/a.sql:2:10: "), "{said}");
    assert!(said.contains("rowstream.toml:1:15: `max_streams` must be an integer of at least 1"), "{said}");
    assert_eq!(text(&server, "/a").await, "[{\"n\":1}]");
    assert_eq!(text(&server, "/b").await, pid);
    // The error can be fixed.
    write(&server, "rowstream.toml", &config);
    write(&server, "endpoints/a.sql", "select 3 as n");
    reload(&server, "reloaded: 2 endpoints").await;
    assert_eq!(text(&server, "/a").await, "[{\"n\":3}]");
}

#[tokio::test]
async fn sources_that_did_not_change_keep_their_connections() {
    let db = TestDb::new().await;
    let config = source(&db, "");
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/a.sql", PID)]).await;
    let pid = text(&server, "/a").await;
    write(&server, "rowstream.toml", &format!("max_streams = 7\n{config}"));
    reload(&server, "reloaded: 1 endpoints").await;
    assert_eq!(text(&server, "/a").await, pid);

    write(&server, "rowstream.toml", &source(&db, "statement_cache = 10"));
    reload(&server, "reloaded: 1 endpoints").await;
    assert_ne!(text(&server, "/a").await, pid);
    until_connections(&db.client().await, 1).await;
}

/// Permits of the old configuration count in the new one. Otherwise a reload would double the
/// running streams.
#[tokio::test]
async fn streams_that_run_count_after_a_reload() {
    let db = TestDb::new().await;
    let config = format!("max_streams = 1\n{}", source(&db, ""));
    let long = "select generate_series(1, 1000000000) as n, repeat('x', 100) as t";
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/long.sql", long),
        ("endpoints/a.sql", "select 1 as n"),
    ];
    let server = Server::start(&files).await;
    let mut stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/long")).await;
    stream.at_least(1000).await;
    let settings = "max_connections = 9\nlisten = \"127.0.0.1:1\"\n";
    write(&server, "rowstream.toml", &format!("{settings}{}", config.replace("max = 1", "max = 2")));
    reload(&server, "reloaded: 2 endpoints").await;
    assert!(server.stderr().contains("`max_connections` takes effect at the next start"));
    // The address on the command line has precedence over the file's.
    assert!(!server.stderr().contains("`listen` changes"));
    assert_eq!(get(&server.url("/a")).await.status, 503);
    drop(stream);
    server.wait_for_stdout(" 200 aborted ").await;
    assert_eq!(text(&server, "/a").await, "[{\"n\":1}]");
}

#[tokio::test]
async fn a_watched_file_that_changes_is_reloaded() {
    let db = TestDb::new().await;
    let config = source(&db, "");
    let files = [("rowstream.toml", config.as_str()), ("endpoints/a.sql", "select 1 as n")];
    let server = Launch::files(&files).argument("--watch").start().await;
    assert_eq!(text(&server, "/a").await, "[{\"n\":1}]");
    write(&server, "endpoints/a.sql", "select 11 as n");
    server.wait_for_stderr("reloaded: 1 endpoints").await;
    assert_eq!(text(&server, "/a").await, "[{\"n\":11}]");
    write(&server, "endpoints/b.sql", "select 2 as n");
    server.wait_for_stderr("reloaded: 2 endpoints").await;
    assert_eq!(text(&server, "/b").await, "[{\"n\":2}]");
    // An error is reported once, and not every second.
    write(&server, "endpoints/b.sql", "select :x");
    server.wait_for_stderr("not reloaded").await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(server.stderr().matches("not reloaded").count(), 1, "{}", server.stderr());
    assert_eq!(text(&server, "/b").await, "[{\"n\":2}]");
}

/// A reload used to accept statements that the database refuses, and their endpoints returned 500.
#[tokio::test]
async fn a_statement_that_the_database_refuses_changes_nothing() {
    let db = TestDb::new().await;
    let config = source(&db, "");
    let files = [("rowstream.toml", config.as_str()), ("endpoints/a.sql", "select 1 as n")];
    let server = Server::start(&files).await;
    write(&server, "endpoints/a.sql", "select 2 as n,\n  missing");
    write(&server, "endpoints/b.sql", "select 3 as n");
    reload(&server, "not reloaded").await;
    let refusal = "endpoints/a.sql:2:3: statement `rows`: column \"missing\" does not exist (SQLSTATE 42703)
    2 |   missing
      |   ^";
    // Its lines arrive one by one.
    wait_until("the refusal is printed", async || server.stderr().contains(refusal)).await;
    assert_eq!(text(&server, "/a").await, "[{\"n\":1}]");
    assert_eq!(get(&server.url("/b")).await.status, 404);
    write(&server, "endpoints/a.sql", "select 2 as n");
    reload(&server, "reloaded: 2 endpoints").await;
    assert_eq!(
        (text(&server, "/a").await, text(&server, "/b").await),
        ("[{\"n\":2}]".into(), "[{\"n\":3}]".into())
    );
}

/// Requests are served while a database slowly prepares the reloaded statements.
#[tokio::test]
async fn connections_are_accepted_during_a_reload() {
    let db = TestDb::new().await;
    db.execute("create table t(n integer)").await;
    let config = source(&db, "");
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/a.sql", "select 1 as n")]).await;
    let client = db.client().await;
    client.batch_execute("begin; lock table t in access exclusive mode").await.expect("a lock");
    // A transaction keeps the view of `pg_stat_activity` from its first query.
    let looks = db.client().await;
    write(&server, "endpoints/t.sql", "select n from t");
    server.hang_up();
    let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    let count = async || looks.query_one(waits, &[]).await.expect("a count").get::<_, i64>(0);
    wait_until("it waits for the lock", async || count().await > 0).await;
    assert_eq!(text(&server, "/a").await, "[{\"n\":1}]");
    assert!(!server.stderr().contains("reloaded"), "{}", server.stderr());
    client.batch_execute("rollback").await.expect("it is unlocked");
    server.wait_for_stderr("reloaded: 2 endpoints").await;
    assert_eq!(text(&server, "/t").await, "[]");
}

/// The keys that the reference marks with *start*, each as its warning names it.
fn start_keys() -> Vec<String> {
    let page = std::fs::read_to_string(repository().join("docs/src/reference/rowstream-toml.md"));
    let page = page.expect("the page");
    let marked = page.lines().filter(|line| line.ends_with("*start* |"));
    let keys = marked.map(|line| line.split('`').nth(1).expect("a key"));
    let mut names: Vec<_> = keys
        .map(|key| match key.split_once('.') {
            Some(("acme", _)) => "`[tls.acme]`".to_owned(),
            Some((part, _)) => format!("`[discovery.{part}]`"),
            None if ["redirect", "http3"].contains(&key) => format!("`{key}` of `[tls]`"),
            None => format!("`{key}`"),
        })
        .collect();
    names.dedup();
    names
}

/// A new `socket_mode` was ignored without a word. A warning about some other keys wasn't repeated,
/// and appeared when the old value was restored.
#[tokio::test]
async fn keys_that_only_change_at_the_start_are_warned_of() {
    let certificate = Certificate::new();
    let config = |top: &str, address: &str, service: &str, tls: &str| {
        format!(
            "{top}\n[discovery]\naddress = \"{address}\"\n\
             consul = {{ url = \"http://127.0.0.1:1\", service = \"{service}\" }}\n\
             [source.main]\nurl = \"sqlite:a.db\"\ncreate = [\"a.sql\"]\n[tls]\n{tls}\n"
        )
    };
    let files = format!(
        "certificate = {:?}\nkey = {:?}",
        certificate.certificate().display().to_string(),
        certificate.key().display().to_string()
    );
    let before = config("listen = \"127.0.0.1:0\"", "10.0.0.5", "one", &files);
    let after = config(
        "listen = \"127.0.0.1:1\"\nadmin_listen = \"127.0.0.1:1\"\nsocket_mode = \"0600\"\nmax_connections = 9",
        "10.0.0.6",
        "two",
        "redirect = \"127.0.0.1:1\"\nhttp3 = true\nacme = { domains = [\"a.example\"], folder = \"acme\" }",
    );
    let files = [
        ("rowstream.toml", &*before),
        ("a.sql", "create table t (n integer)"),
        ("endpoints/a.sql", "select n from t"),
    ];
    // Without `--listen`, which has precedence over the file.
    let server = Launch::files(&files).shell("exec \"$0\" \"$1\" \"$2\"").start().await;
    let warnings = || {
        let said = server.stderr();
        let warned = said.lines().filter_map(|line| line.split_once(" takes effect at the next start"));
        let mut names: Vec<_> = warned.map(|(name, _)| name.to_owned()).collect();
        names.sort();
        names
    };
    let mut expected = start_keys();
    assert!(expected.len() > 6, "{expected:?}");
    write(&server, "rowstream.toml", &after);
    reload(&server, "reloaded: 1 endpoints").await;
    let of_consul = "for Consul, `address` of `[discovery]`".to_owned();
    let all = |mut names: Vec<String>| {
        names.sort();
        names
    };
    expected.push(of_consul.clone());
    assert_eq!(warnings(), all(expected.clone()));
    // They are still different.
    let seen = warnings();
    reload(&server, "reloaded: 1 endpoints").await;
    assert_eq!(warnings(), all([seen, expected.clone()].concat()));
    // They are as they were at the start, except for the address.
    write(&server, "rowstream.toml", &before.replace("10.0.0.5", "10.0.0.6"));
    let seen = warnings();
    reload(&server, "reloaded: 1 endpoints").await;
    assert_eq!(warnings(), all([seen, vec![of_consul]].concat()));
    // Consul has this address. It was compared with the one before, so this was a warning.
    write(&server, "rowstream.toml", &before);
    let seen = warnings();
    reload(&server, "reloaded: 1 endpoints").await;
    assert_eq!(warnings(), seen);
    let (without_tls, _) = before.split_once("[tls]").expect("it is there");
    write(&server, "rowstream.toml", without_tls);
    reload(&server, "reloaded: 1 endpoints").await;
    expected = vec!["adding or removing `[tls]`".to_owned()];
    assert_eq!(warnings(), all([seen, expected].concat()));
}
