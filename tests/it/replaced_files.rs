//! A SQLite file that is replaced while it's served, for example by a job that builds a new one and
//! moves it to the old name.
//!
//! Open connections kept the old file, and new ones opened the new file. One endpoint returned rows
//! from both, as long as the server ran and even after a reload.

use std::path::Path;

use futures_util::future::join_all;

use crate::support::{Client, Ended, Server, get, wait_until};

const LIST: &str = "select id, name from t where id < 3 order by id";
const ENDPOINTS: &[(&str, &str)] = &[
    ("endpoints/list.sql", LIST),
    ("endpoints/all.sql", "select id, name, printf('%0100d', id) as text from t order by id"),
    (
        "endpoints/one/{id}.sql",
        "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect id, name from t where id = :id",
    ),
    (
        "endpoints/both.sql",
        "/*\nbody = { rows = \"$rows\", name = \"$name\" }\n*/\n-- name: rows :many\nselect id, name from t where id < 3 order by id;\n\
         -- name: name :value\nselect max(name) from t",
    ),
];
/// The number of rows in the table.
const ROWS: usize = 100_000;

/// Creates a file at `path` with `name` in each row.
fn create(path: &Path, name: &str, journal: &str) {
    let file = rusqlite::Connection::open(path).expect("a file");
    file.pragma_update(None, "journal_mode", journal).expect("a journal");
    file.execute_batch(&format!(
        "create table t (id integer primary key, name text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
         insert into t select i, '{name}' from n"
    ))
    .expect("a table");
}

async fn server(file: &Path, pool: &str) -> Server {
    let config = format!("[source.shop]\nurl = \"sqlite:{}\"\n{pool}", file.display());
    Server::start(&[&[("rowstream.toml", config.as_str())], ENDPOINTS].concat()).await
}

async fn names(server: &Server) -> Vec<String> {
    names_at(server, &["/list", "/one/1", "/both", "/one/2"], 20).await
}

/// Requests each path `times` times, all at once. Returns the names in the responses, which must
/// each have one.
pub(crate) async fn names_at(server: &Server, paths: &[&str], times: usize) -> Vec<String> {
    let asked = paths.iter().cycle().take(paths.len() * times).map(|path| server.url(path));
    let answers = join_all(asked.map(async |url| {
        let reply = get(&url).await;
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{url}: {}", reply.text());
        let found = |name: &&&str| reply.text().contains(&format!("\"{name}\""));
        let names: Vec<_> = ["old", "new", "newer"].iter().filter(found).copied().collect();
        assert_eq!(names.len(), 1, "{url}: {}", reply.text());
        names[0].to_owned()
    }))
    .await;
    let mut names = answers;
    names.sort_unstable();
    names.dedup();
    names
}

#[tokio::test]
async fn all_requests_after_a_file_was_replaced_read_the_new_one() {
    for journal in ["delete", "wal"] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("shop.db");
        create(&file, "old", journal);
        for pool in ["", "pool = { max = 1 }\n"] {
            let server = server(&file, pool).await;
            let before = names(&server).await;
            assert_eq!(before.len(), 1, "{before:?}");
            for name in ["new", "newer", "old"] {
                let next = folder.path().join("next.db");
                create(&next, name, journal);
                std::fs::rename(&next, &file).expect("it is moved");
                assert_eq!(names(&server).await, [name], "{journal} {pool}");
            }
        }
    }
}

/// A stream completes with the rows of the file that it opened.
#[tokio::test]
async fn a_stream_keeps_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.db");
    create(&file, "old", "delete");
    let server = server(&file, "").await;
    let mut stream = Client::HTTP1.stream(&server.url("/all")).await;
    let begun = stream.at_least(100_000).await;
    assert!(begun.len() < ROWS * 100, "it has not ended");
    let next = folder.path().join("next.db");
    create(&next, "new", "delete");
    std::fs::rename(&next, &file).expect("it is moved");
    assert_eq!(names(&server).await, ["new"]);
    let rest = stream.rest().await;
    assert_eq!(rest.ended, Ended::Complete);
    let text = String::from_utf8([&begun[..], rest.text().as_bytes()].concat()).expect("UTF-8");
    assert_eq!((text.matches("\"old\"").count(), text.matches("\"new\"").count()), (ROWS, 0));
}

/// While the file is missing, no request reads the removed one.
#[tokio::test]
async fn a_file_that_was_removed_is_unavailable_until_there_is_one_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.db");
    create(&file, "old", "delete");
    let server = server(&file, "").await;
    assert_eq!(names(&server).await, ["old"]);
    std::fs::remove_file(&file).expect("it is removed");
    for path in ["/list", "/one/1", "/both"] {
        let reply = get(&server.url(path)).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["code"]),
            (503, &"source_unavailable".into()),
            "{path}"
        );
    }
    create(&file, "new", "delete");
    wait_until("it is read again", async || get(&server.url("/one/1")).await.status == 200).await;
    assert_eq!(names(&server).await, ["new"]);
}
