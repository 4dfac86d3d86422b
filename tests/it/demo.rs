//! `rowstream demo` works as the README says, also at the second start and after being killed in
//! the middle.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::support::{Ended, Reply, get, release_program, wait_until};
use crate::worked;
use http::StatusCode;
use worked::{Listening, Started};

fn start(folder: &Path) -> Started {
    let folder = folder.to_str().expect("a temporary folder's name is UTF-8");
    Started::new(release_program(), &["demo", "--dir", folder, "--listen", "127.0.0.1:0", "--log-format=off"])
}

async fn ok(demo: &Listening, path: &str) -> Reply {
    let reply = get(&demo.url(path)).await;
    assert_eq!(
        (reply.status, &reply.ended),
        (StatusCode::OK, &Ended::Complete),
        "{path}: {:.300}",
        reply.text()
    );
    reply
}

async fn refuses(demo: &Listening, path: &str, status: u16, names: &str) {
    let reply = get(&demo.url(path)).await;
    assert_eq!(reply.status, status, "{path}: {:.300}", reply.text());
    assert!(reply.text().contains(names), "{path}: {}", reply.text());
}

/// The examples of the README.
async fn keeps_its_promises(demo: &Listening) {
    assert_eq!(worked::rows(&ok(demo, "/events.ndjson").await.body), 1_000_000);
    assert_eq!(worked::rows(&ok(demo, "/authors.ndjson").await.body), 100_000);
    let last = ok(demo, "/events?lastEventNo=999990").await.json();
    let numbers: Vec<_> =
        last["events"].as_array().expect("a list").iter().map(|row| &row["eventNo"]).collect();
    assert_eq!(numbers, (999_991..=1_000_000).collect::<Vec<_>>());
    refuses(demo, "/events?lastEventNo=x", 400, "lastEventNo").await;
    let articles = ok(demo, "/articles").await.json();
    assert_eq!(articles["_embedded"]["articles"].as_array().map(Vec::len), Some(100_000));
    assert_eq!(articles["total"], 100_000);
    assert_eq!(ok(demo, "/authors/7").await.json()["id"], 7);
    refuses(demo, "/authors/0", 404, "").await;
    let film = ok(demo, "/films/133").await.json();
    assert!(film["title"].is_string() && film.as_object().is_some_and(|film| film.len() == 1), "{film}");
}

/// Distinguishes a file from its replacement, and from itself after a write.
fn identity(folder: &Path) -> (u64, i64, i64, u64) {
    let file = std::fs::metadata(folder.join("demo.db")).expect("the database is there");
    (file.ino(), file.mtime(), file.mtime_nsec(), file.len())
}

/// The second start keeps the user's changes. The data are generated only once.
#[tokio::test]
async fn the_demo_serves_what_is_promised_and_starts_again_with_what_is_there() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = temporary.path().join("not/there/yet");
    let demo = start(&folder).listening().await;
    keeps_its_promises(&demo).await;
    drop(demo);

    let made = identity(&folder);
    std::fs::write(folder.join("endpoints/films.sql"), "select 'mine' as whose").expect("a file");
    let demo = start(&folder).listening().await;
    assert_eq!(ok(&demo, "/films").await.text(), r#"[{"whose":"mine"}]"#);
    assert_eq!(
        ok(&demo, "/events?lastEventNo=999990").await.json()["events"].as_array().map(Vec::len),
        Some(10)
    );
    drop(demo);
    assert_eq!(identity(&folder), made);

    // Users easily start two demos. The error says how to run both.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let dir = folder.to_str().expect("UTF-8");
    let refused = Started::new(release_program(), &["demo", "--dir", dir, "--listen", &address]);
    let (status, said) = refused.ended().await;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("--listen") && said.contains(&address), "{said}");
}

/// A user who presses Ctrl-C twice, or a power failure, must not leave a permanently incomplete
/// database.
#[tokio::test]
async fn a_demo_that_was_killed_while_it_filled_starts_again_from_the_beginning() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = temporary.path();
    let demo = start(folder);
    // By then the first script has run, but not the second one with most of the rows.
    let partial = folder.join("demo.db.partial");
    wait_until("half of it is filled", async || {
        assert!(!folder.join("demo.db").exists(), "it was filled before it could be killed");
        std::fs::metadata(&partial).is_ok_and(|file| file.len() >= 20_000_000)
    })
    .await;
    drop(demo);
    assert!(!folder.join("demo.db").exists(), "half of the data has the name of the whole");

    let demo = start(folder).listening().await;
    assert!(!partial.exists(), "what was left over is gone");
    for (path, rows) in [("authors", 100_000), ("events", 1_000_000), ("films", 1000), ("articles", 100_000)]
    {
        assert_eq!(worked::rows(&ok(&demo, &format!("/{path}.ndjson")).await.body), rows, "{path}");
    }
}
