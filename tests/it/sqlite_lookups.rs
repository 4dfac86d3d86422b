//! SQLite lookups that share a connection and its thread.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rusqlite::Connection;

use crate::support::{Server, get};

/// A server with these endpoints, and a database with the books 1 to 1000. On any machine, lists
/// leave at least one shared connection to lookups.
async fn server(endpoints: &[(&str, &str)]) -> (tempfile::TempDir, Server) {
    server_with("wal", endpoints).await
}

async fn server_with(journal: &str, endpoints: &[(&str, &str)]) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("books.db");
    database(&file)
        .execute_batch(&format!(
            "pragma journal_mode = {journal};
             create table book (id integer primary key, title text);
             with recursive n(i) as (values (1) union all select i + 1 from n where i < 1000)
             insert into book select i, 'book ' || i from n"
        ))
        .unwrap();
    let config = format!("[source.db]\nurl = \"sqlite:{}\"\npool = {{ max = 20 }}\n", file.display());
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let files = names.iter().zip(endpoints).map(|(name, (_, sql))| (name.as_str(), *sql));
    let files: Vec<_> = [("rowstream.toml", config.as_str())].into_iter().chain(files).collect();
    (folder, Server::start(&files).await)
}

fn database(file: &Path) -> Connection {
    Connection::open(file).unwrap()
}

const BOOK: (&str, &str) = (
    "books/{id}",
    "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect id, title from book where id = :id",
);

/// A metric's value.
async fn metric(server: &Server, name: &str) -> f64 {
    let reply = get(&server.url("/_rowstream/metrics")).await;
    let line = reply.text().lines().find(|line| line.starts_with(name)).map(str::to_owned);
    let line = line.unwrap_or_else(|| panic!("no {name}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn each_has_its_own_answer() {
    let two = ("two", "/*\nresult = \"one\"\n*/\nselect id from book where id < 3");
    let fails = (
        "fails/{id}",
        "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect abs(:id - 9223372036854775807 - 1) as n",
    );
    let (_folder, server) = server(&[BOOK, two, fails]).await;
    // The first request of each endpoint has its own connection.
    for path in ["/books/1", "/two", "/fails/5"] {
        get(&server.url(path)).await;
    }
    for round in 0..10 {
        let asked = (0..100).map(|i| {
            let path = match i % 10 {
                0 => "/two".to_owned(),
                1 => "/fails/0".to_owned(),
                2 => format!("/books/{}", 2000 + i),
                _ => format!("/books/{}", round * 100 + i),
            };
            let url = server.url(&path);
            async move { (path, get(&url).await) }
        });
        for (i, (path, reply)) in (0..100).zip(join_all(asked).await) {
            let expected = match i % 10 {
                0 => (500, None),
                1 => (400, None),
                2 => (404, None),
                _ => (200, Some(format!(r#"{{"id":{0},"title":"book {0}"}}"#, round * 100 + i))),
            };
            assert_eq!(reply.status, expected.0, "{path}: {}", reply.text());
            if let Some(text) = expected.1 {
                assert_eq!(reply.text(), text, "{path}");
            }
        }
    }
    let name = "rowstream_pool_batch_size_";
    let (count, sum) =
        (metric(&server, &format!("{name}count")).await, metric(&server, &format!("{name}sum")).await);
    assert!(sum >= 900.0 && count <= sum, "{count} batches of {sum} lookups");
}

#[tokio::test]
async fn a_slow_one_holds_up_the_others_once() {
    let slow = (
        "slow",
        "/*\nresult = \"one\"\n*/\nwith recursive n(i) as (values (1) union all select i + 1 from n where i < 3000000)
         select count(*) as n from n",
    );
    let (_folder, server) = server(&[BOOK, slow]).await;
    get(&server.url("/books/1")).await;
    let begun = Instant::now();
    assert_eq!(get(&server.url("/slow")).await.json()["n"], 3_000_000);
    let alone = begun.elapsed();
    let urls = [(); 4].map(|()| server.url("/slow"));
    let slow = tokio::spawn(async move { join_all(urls.map(get_owned)).await });
    let mut longest = Duration::ZERO;
    while !slow.is_finished() {
        let begun = Instant::now();
        assert_eq!(get(&server.url("/books/7")).await.json()["id"], 7);
        longest = longest.max(begun.elapsed());
    }
    for reply in slow.await.unwrap() {
        assert_eq!(reply.json()["n"], 3_000_000);
    }
    assert!(longest < alone, "one took {longest:?}, as long as a slow one, {alone:?}");
}

async fn get_owned(url: String) -> crate::support::Reply {
    get(&url).await
}

/// A writer holds a lock for longer than lookups wait for each other.
#[tokio::test]
async fn a_lock_is_waited_for_elsewhere() {
    let (folder, server) = server_with("delete", &[BOOK]).await;
    get(&server.url("/books/1")).await;
    let writer = database(&folder.path().join("books.db"));
    writer.execute_batch("begin exclusive; delete from book where id = 3").unwrap();
    let urls = [server.url("/books/2"), server.url("/books/3")];
    let asked = tokio::spawn(async move { join_all(urls.map(get_owned)).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!asked.is_finished());
    writer.execute_batch("commit").unwrap();
    let replies = asked.await.unwrap();
    assert_eq!([replies[0].status.as_u16(), replies[1].status.as_u16()], [200, 404]);
    assert_eq!(replies[0].json()["title"], "book 2");
}

/// Changed columns are described again, and no row is read with the old description.
#[tokio::test]
async fn columns_that_changed_are_described_anew() {
    let all = (
        "all/{id}",
        "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect * from book where id = :id",
    );
    let (folder, server) = server(&[all]).await;
    for _ in 0..3 {
        assert_eq!(get(&server.url("/all/1")).await.text(), r#"{"id":1,"title":"book 1"}"#);
    }
    let writer = database(&folder.path().join("books.db"));
    writer.execute_batch("alter table book add column pages integer; update book set pages = 7").unwrap();
    for _ in 0..3 {
        let reply = get(&server.url("/all/1")).await;
        let is_error = reply.status == 503 && reply.json()["code"] == "statement_changed";
        assert!(is_error || reply.text() == r#"{"id":1,"title":"book 1","pages":7}"#, "{}", reply.text());
    }
    assert_eq!(get(&server.url("/all/1")).await.json()["pages"], 7);
}
