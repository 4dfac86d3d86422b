//! Sources with several hosts, on a real primary and its streaming replicas: the choice of a host,
//! a host that stops under load, and lagging replicas, which aren't read.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Client, Ended, Replicas, Server, Streaming, get, rowstream, wait_until};
use bytes::Bytes;
use serde_json::Value;
use tokio::task::JoinSet;

const TABLE: &str = "create table item (id bigint primary key, note text);
    insert into item select i, repeat('x', 1000) from generate_series(1, 20000) i;
    analyze item";

const ENDPOINTS: &[(&str, &str)] = &[
    ("endpoints/items.sql", "/* key = [\"id\"] */ select id, note from item order by id"),
    ("endpoints/item/{id}.sql", "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect id, pg_is_in_recovery() as replica, inet_server_port() as port from item where id = :id"),
    ("endpoints/who.sql", "select pg_is_in_recovery() as replica, inet_server_port() as port, count(*) as items from item"),
    (
        "endpoints/news.sql",
        "/* key = [\"id\"]\nfollow = { commits = \"ordered\", channel = \"news\", poll = \"50ms\" }\nheartbeat = \"1s\" */
        select id, note from item where id > 20000 order by id",
    ),
];

async fn server(url: &str, settings: &str) -> Server {
    let config = format!("[source.db]\nurl = \"{url}\"\npool = {{ max = 20 }}\n{settings}\n");
    let files: Vec<_> =
        [("rowstream.toml", &config[..])].into_iter().chain(ENDPOINTS.iter().copied()).collect();
    Server::start(&files).await
}

/// The hosts that answered some requests: the number of responses by port.
async fn asked(server: &Server, path: &str, requests: usize) -> BTreeMap<u64, usize> {
    let mut ports = BTreeMap::new();
    for _ in 0..requests {
        let reply = get(&server.url(path)).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let port = match reply.json() {
            Value::Array(rows) => rows[0]["port"].as_u64(),
            row => row["port"].as_u64(),
        };
        *ports.entry(port.unwrap()).or_default() += 1;
    }
    ports
}

/// Waits until exactly these nodes answer requests.
async fn until_asked(server: &Server, replicas: &Replicas, path: &str, nodes: &[usize]) {
    let wanted: BTreeSet<_> = nodes.iter().map(|&node| u64::from(replicas.port(node))).collect();
    wait_until(&format!("{path} is answered by {wanted:?}"), async || {
        let ports = asked(server, path, 20).await;
        if ports.keys().copied().collect::<BTreeSet<_>>() == wanted {
            Ok(())
        } else {
            Err(format!("{ports:?}"))
        }
    })
    .await;
}

/// A metric's value for one host.
async fn metric(server: &Server, family: &str, port: u16) -> Option<f64> {
    let metrics = get(&server.url("/_rowstream/metrics")).await;
    let line = metrics
        .text()
        .lines()
        .find(|line| line.starts_with(&format!("{family}{{")) && line.contains(&format!(":{port}\"")))?;
    line.rsplit(' ').next()?.parse().ok()
}

async fn until_metric(server: &Server, family: &str, port: u16, is: impl Fn(f64) -> bool) {
    wait_until(&format!("{family} of {port}"), async || {
        let value = metric(server, family, port).await;
        if value.is_some_and(&is) { Ok(()) } else { Err(format!("{value:?}")) }
    })
    .await;
}

#[tokio::test]
async fn who_is_asked() {
    let replicas = Replicas::start(2).await;
    replicas.execute(0, TABLE).await;
    replicas.until_caught_up().await;
    for (more, nodes) in [
        ("", &[1, 2][..]),
        ("&target_session_attrs=prefer-standby", &[1, 2]),
        ("&target_session_attrs=standby", &[1, 2]),
        ("&target_session_attrs=primary", &[0]),
        ("&target_session_attrs=any", &[0, 1, 2]),
    ] {
        let server = server(&replicas.url(&[0, 1, 2], more), "").await;
        until_asked(&server, &replicas, "/who", nodes).await;
    }
    // The initial state in every command: no host is known yet.
    let query = async |nodes: &[usize], more: &str| {
        let sql = "select inet_server_port() as port";
        let run = rowstream(&["query", &replicas.url(nodes, more), sql, "--format", "ndjson"]).await;
        (
            run.status.success(),
            String::from_utf8(run.stdout).unwrap() + &String::from_utf8(run.stderr).unwrap(),
        )
    };
    for _ in 0..5 {
        let (_, said) = query(&[0, 2], "").await;
        assert!(said.contains(&format!("{{\"port\":{}}}", replicas.port(2))), "{said}");
        let (_, said) = query(&[1, 0, 2], "&target_session_attrs=read-write").await;
        assert!(said.contains(&format!("{{\"port\":{}}}", replicas.port(0))), "{said}");
    }
    let (success, said) = query(&[1, 2], "&target_session_attrs=primary").await;
    assert!(!success && said.contains("has no primary"), "{said}");
    // Each host reports its role.
    let folder = tempfile::tempdir().unwrap();
    let url = replicas.url(&[0, 1], "").replace("/postgres?", ",127.0.0.1:1/postgres?");
    std::fs::write(folder.path().join("rowstream.toml"), format!("[source.db]\nurl = \"{url}\"\n")).unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    std::fs::write(folder.path().join("endpoints/one.sql"), "select 1 as one").unwrap();
    let checked = rowstream(&["check", folder.path().to_str().unwrap()]).await;
    let (said, warned) =
        (String::from_utf8(checked.stdout).unwrap(), String::from_utf8(checked.stderr).unwrap());
    let [primary, replica] = [0, 1].map(|node| format!("  127.0.0.1:{}: PostgreSQL ", replicas.port(node)));
    let line =
        |begin: &str| said.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{said}"));
    assert!(line(&primary).ends_with(", primary") && line(&replica).contains(", replica, "), "{said}");
    assert!(warned.contains("host 127.0.0.1:1: ") && warned.contains("no server listens there"), "{warned}");
    assert!(checked.status.success(), "{said}{warned}");
}

/// `target_session_attrs` was ignored if the URL had one host, and `read-write` accepted sessions
/// that were read-only by default. Both now behave as in libpq.
#[tokio::test]
async fn what_is_asked_of_a_host_is_asked_of_the_only_one_too() {
    let replicas = Replicas::start(1).await;
    let (only_reads, writes, replica) =
        ("has no host that only reads", "has no host that can be written to", "has no replica");
    let (any, preferred) = (("any", None), ("prefer-standby", None));
    let is_writable = [
        any,
        preferred,
        ("read-write", None),
        ("primary", None),
        ("read-only", Some(only_reads)),
        ("standby", Some(replica)),
    ];
    has_to_suit(&replicas, 0, "primary", &is_writable).await;
    let is_replica = [
        any,
        preferred,
        ("read-only", None),
        ("standby", None),
        ("read-write", Some(writes)),
        ("primary", Some("has no primary")),
    ];
    has_to_suit(&replicas, 1, "replica", &is_replica).await;
    replicas.execute(0, "alter system set default_transaction_read_only = on").await;
    replicas.execute(0, "select pg_reload_conf()").await;
    while replicas.execute(0, "show default_transaction_read_only").await.as_deref() != Some("on") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let only_reads = [any, ("read-only", None), ("primary", None), ("read-write", Some(writes))];
    let role = "primary whose `default_transaction_read_only` is on";
    has_to_suit(&replicas, 0, role, &only_reads).await;
    // The same for several hosts.
    let said = asks(&replicas.url(&[0, 1], "&target_session_attrs=read-write")).await.unwrap_err();
    let [one, other] = [0, 1].map(|node| format!("127.0.0.1:{} is a ", replicas.port(node)));
    assert!(said.contains(&format!("{one}{role}, {other}replica; name such a host")), "{said}");
}

/// Connects to one node with each `target_session_attrs`, which succeeds or is refused with a
/// reason.
async fn has_to_suit(replicas: &Replicas, node: usize, role: &str, attrs: &[(&str, Option<&str>)]) {
    for (attrs, refused) in attrs {
        let asked = asks(&replicas.url(&[node], &format!("&target_session_attrs={attrs}"))).await;
        let Some(refused) = refused else {
            assert_eq!(asked.as_deref(), Ok("{\"one\":1}\n"), "{attrs} of a {role}");
            continue;
        };
        let said = asked.expect_err(attrs);
        let host = format!("127.0.0.1:{} is a {role}; ", replicas.port(node));
        let remedy = "name such a host in the source's `url`, or correct its `target_session_attrs`";
        for words in [*refused, &host, remedy] {
            assert!(said.contains(words), "{attrs}: {words}: {said}");
        }
    }
}

/// The output of `rowstream query`, or its error.
async fn asks(url: &str) -> Result<String, String> {
    let run = rowstream(&["query", url, "select 1 as one", "--format", "ndjson"]).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if run.status.success() { Ok(text(run.stdout)) } else { Err(text(run.stderr)) }
}

/// Reads a list that has begun. If it's cut, reads the rest after its last mark. Returns true if it
/// was cut.
async fn read_whole(url: &str, (begin, begun): (Bytes, Streaming)) -> bool {
    let (mut ids, mut cut) = (Vec::new(), false);
    let mut reply = begun.rest().await;
    reply.body = [begin, reply.body].concat().into();
    loop {
        assert_eq!(reply.status, 200, "no request fails before its first byte: {}", reply.text());
        // The last line may be half a row.
        let whole = reply.text().rfind('\n').map_or("", |end| &reply.text()[..end]);
        let (mut cursor, mut marked) = (None, ids.len());
        for line in whole.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            match row.get("$rowstream").and(row.pointer("/mark/next")) {
                Some(next) => (cursor, marked) = (next.as_str().map(str::to_owned), ids.len()),
                None => ids.extend(row["id"].as_u64()),
            }
        }
        if reply.ended == Ended::Complete {
            assert_eq!(ids, (1..=20_000).collect::<Vec<_>>(), "each row once");
            return cut;
        }
        cut = true;
        ids.truncate(marked);
        let after = cursor.map_or(String::new(), |cursor| format!("&_after={cursor}"));
        reply = Client::HTTP1.get(&format!("{url}{after}")).await;
    }
}

#[tokio::test]
async fn a_replica_that_ends_under_load_fails_no_request_before_its_first_byte() {
    let mut replicas = Replicas::start(2).await;
    replicas.execute(0, TABLE).await;
    replicas.until_caught_up().await;
    let server = server(&replicas.url(&[0, 1, 2], ""), "").await;
    until_asked(&server, &replicas, "/who", &[1, 2]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut lists = JoinSet::new();
    let mut lookups = JoinSet::new();
    // These streams are in flight when the replica stops, because they aren't read before.
    let url = server.url("/items.ndjson?_end=1");
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut stream = Client::HTTP1.receive_buffer(65_536).stream(&url).await;
        held.push((stream.at_least(10_000).await, stream));
    }
    for client in 0..4 {
        let (url, ends) = (server.url("/items.ndjson?_end=1"), Arc::clone(&stop));
        lists.spawn(async move {
            let mut cut = 0_usize;
            while !ends.load(Ordering::Relaxed) {
                cut += usize::from(read_whole(&url, (Bytes::new(), Client::HTTP1.stream(&url).await)).await);
            }
            cut
        });
        let (url, stop) = (server.url(&format!("/item/{}", client + 1)), Arc::clone(&stop));
        lookups.spawn(async move {
            let mut answered = 0;
            while !stop.load(Ordering::Relaxed) {
                let reply = get(&url).await;
                assert_eq!((reply.status.as_u16(), reply.ended), (200, Ended::Complete));
                answered += 1;
            }
            answered
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    replicas.kill(1);
    until_metric(&server, "rowstream_host_up", replicas.port(1), |up| up == 0.0).await;
    until_asked(&server, &replicas, "/who", &[2]).await;
    stop.store(true, Ordering::Relaxed);
    let mut held_cut = 0;
    for stream in held {
        held_cut += usize::from(read_whole(&url, stream).await);
    }
    assert_eq!(held_cut, 2, "half of them were at the replica that ended");
    drop(lists.join_all().await);
    let answered: usize = lookups.join_all().await.into_iter().sum();
    assert!(answered > 20, "{answered} lookups were answered");
    // A restored host is used again.
    replicas.run(1).await;
    until_metric(&server, "rowstream_host_up", replicas.port(1), |up| up > 0.0).await;
    until_asked(&server, &replicas, "/who", &[1, 2]).await;
    // Without replicas the primary is used. Without any host, the error says so.
    replicas.kill(1);
    replicas.kill(2);
    until_asked(&server, &replicas, "/who", &[0]).await;
    replicas.kill(0);
    let refused = get(&server.url("/who")).await;
    assert_eq!((refused.status.as_u16(), refused.json()["code"].as_str()), (503, Some("source_unavailable")));
    replicas.run(0).await;
    until_asked(&server, &replicas, "/who", &[0]).await;
}

#[tokio::test]
async fn a_replica_that_lags_is_not_read() {
    let replicas = Replicas::start(2).await;
    replicas.execute(0, TABLE).await;
    replicas.until_caught_up().await;
    let server = server(&replicas.url(&[0, 1, 2], ""), "max_lag = \"400ms\"").await;
    until_asked(&server, &replicas, "/who", &[1, 2]).await;
    replicas.execute(1, "select pg_wal_replay_pause()").await;
    replicas.execute(0, "insert into item values (30000, 'late')").await;
    until_metric(&server, "rowstream_host_lag_seconds", replicas.port(1), |lag| lag > 0.4).await;
    for _ in 0..100 {
        assert_eq!(asked(&server, "/who", 1).await.into_keys().next(), Some(replicas.port(2).into()));
        // Lookups share connections, which are also only to suitable hosts.
        assert_eq!(asked(&server, "/item/30000", 1).await.into_keys().next(), Some(replicas.port(2).into()));
    }
    // If both are late, the primary is used, because only its role is less suitable.
    replicas.execute(2, "select pg_wal_replay_pause()").await;
    replicas.execute(0, "insert into item values (30001, 'later')").await;
    until_metric(&server, "rowstream_host_lag_seconds", replicas.port(2), |lag| lag > 0.4).await;
    until_asked(&server, &replicas, "/item/30001", &[0]).await;
    replicas.execute(1, "select pg_wal_replay_resume()").await;
    until_asked(&server, &replicas, "/who", &[1]).await;
    until_asked(&server, &replicas, "/item/30001", &[1]).await;
}

#[tokio::test]
async fn new_rows_are_followed_whichever_replica_has_them_first() {
    let replicas = Replicas::start(2).await;
    replicas.execute(0, TABLE).await;
    replicas.until_caught_up().await;
    let server = server(&replicas.url(&[1, 2], ""), "").await;
    let mut stream = Client::HTTP1.stream(&server.url("/news.ndjson?_follow=1")).await;
    let mut read = Vec::new();
    let ids = |read: &[u8]| -> Vec<u64> {
        let text = String::from_utf8_lossy(read).into_owned();
        let rows = text.split_inclusive('\n').filter(|line| line.ends_with('\n') && line.len() > 1);
        rows.map(|row| serde_json::from_str::<Value>(row).unwrap()["id"].as_u64().unwrap()).collect()
    };
    for round in 0..6_u64 {
        // The two are late alternately.
        let late = usize::try_from(1 + round % 2).unwrap();
        replicas.execute(late, "select pg_wal_replay_pause()").await;
        replicas.execute(0, &format!("insert into item values ({}, 'new')", 20_001 + round)).await;
        if round % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        replicas.execute(late, "select pg_wal_replay_resume()").await;
        while ids(&read).len() <= usize::try_from(round).unwrap() {
            read.extend_from_slice(&stream.chunk().await.unwrap());
        }
    }
    assert_eq!(ids(&read), (20_001..20_007).collect::<Vec<_>>(), "each once, in order");
}
