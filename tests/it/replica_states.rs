//! The reason of a cut behind a balancer: only one replica knows it, and the proxy asks each.

use std::fs;
use std::net::SocketAddr;

use crate::get::{download, file};
use crate::support::{Ended, Hop, Server, TestDb, get, repository};

/// Questions about one stream. A proxy asks two replicas alternately.
const QUESTIONS: usize = 4;

/// Two replicas with an endpoint that fails after half of its rows.
async fn replicas(db: &TestDb) -> [Server; 2] {
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let fails = "select n, 1 / (50000 - n) as x, repeat('x', 100) as t from generate_series(1, 99999) n";
    let files = [("rowstream.toml", &*config), ("endpoints/fails.sql", fails)];
    [Server::start(&files).await, Server::start(&files).await]
}

fn addresses(replicas: &[Server; 2]) -> [SocketAddr; 2] {
    replicas.each_ref().map(|replica| replica.address().parse().unwrap())
}

/// The block of the book's page about proxies that begins with this text, without its servers.
pub(crate) fn of_the_book(beginning: &str) -> String {
    let page = fs::read_to_string(repository().join("docs/src/how-to/behind-a-proxy.md")).unwrap();
    let (_, block) = page.split_once(beginning).expect("the page has it");
    let (block, _) = block.split_once("```").unwrap();
    let lines = block.lines().filter(|line| !line.trim_start().starts_with("server "));
    format!("{beginning}{}", lines.map(|line| format!("{line}\n")).collect::<String>())
}

/// Cuts streams, and returns the statuses of questions about each. All that are 200 have the reason.
async fn statuses(hop: &Hop) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..2 {
        let cut = get(&format!("http://{}/fails.csv", hop.http1)).await;
        assert_ne!(cut.ended, Ended::Complete);
        let id = cut.header("rowstream-stream").unwrap();
        for _ in 0..QUESTIONS {
            let state = get(&format!("http://{}/_rowstream/streams/{id}", hop.http1)).await;
            if state.status == 200 {
                assert_eq!(state.json()["error"]["code"], "bad_value", "{}", state.text());
            }
            statuses.push(state.status.as_u16());
        }
    }
    statuses
}

/// Downloads through a proxy name the reason, however often they are tried.
async fn assert_is_answered(hop: &Hop) {
    assert_eq!(statuses(hop).await, [200; 2 * QUESTIONS]);
    let unknown = format!("http://{}/_rowstream/streams/00000000000000000000000000000001", hop.http1);
    assert_eq!(get(&unknown).await.status, 404);
    let (_folder, _, text) = file("rows");
    let (status, told) = download(&[&format!("http://{}/fails.csv", hop.http1), "-o", &text]).await;
    assert!(status == Some(1) && told.starts_with("error: bad_value: "), "{told}");
}

#[tokio::test]
async fn nginx_asks_each_replica_as_the_how_to_has_it() {
    let db = TestDb::new().await;
    let replicas = replicas(&db).await;
    let addresses = addresses(&replicas);
    let plain = Hop::nginx_of(&addresses).await;
    assert!(statuses(&plain).await.contains(&404), "a replica doesn't know the other's streams");
    let location =
        of_the_book("location /_rowstream/streams/").replace("http://rowstream", "http://replicas");
    assert_is_answered(&Hop::nginx_with_location(&addresses, &location).await).await;
}

#[tokio::test]
async fn haproxy_asks_each_replica_as_the_how_to_has_it() {
    let db = TestDb::new().await;
    let replicas = replicas(&db).await;
    let addresses = addresses(&replicas);
    let settings = of_the_book("  use_backend streams if");
    let (rule, backend) = settings.split_once("\n\n").unwrap();
    assert_is_answered(&Hop::haproxy_with_backend(&addresses, rule, backend).await).await;
}
