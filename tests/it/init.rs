//! `rowstream init` writes what runs at once, and overwrites nothing.

use std::path::Path;

use crate::support::{Launch, TestDb, get, rowstream};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sqlite(path: &Path, sql: &str) -> String {
    rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_example_runs() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("new");
    let ran = rowstream(&["init", "--dir", dir.to_str().unwrap()]).await;
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stdout).lines().count(), 5, "{}", text(&ran.stdout));
    assert!(text(&ran.stderr).contains("rowstream serve"), "{}", text(&ran.stderr));
    let server = Launch::folder(&dir).start().await;
    assert_eq!(get(&server.url("/books?limit=1")).await.json()[0]["title"], "Frankenstein");
    assert_eq!(get(&server.url("/books/2")).await.json()["author"], "George Eliot");
    let found = get(&server.url("/books?author=Kate%20Chopin")).await.json();
    assert_eq!(found.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_is_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    std::fs::write(folder.path().join("data.sql"), "mine").unwrap();
    let ran = rowstream(&["init", "--dir", dir]).await;
    assert_eq!(ran.status.code(), Some(1));
    let said = text(&ran.stderr);
    assert!(said.contains("data.sql is there already, and nothing was written"), "{said}");
    assert!(said.contains("--dir"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(folder.path().join("data.sql")).unwrap(), "mine");
}

#[tokio::test]
async fn a_sqlite_file_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "create table a (x text); create table \"odd: ${HOME}\" (id integer primary key, v text);
        insert into \"odd: ${HOME}\" values (1, 'a')";
    let file = sqlite(&folder.path().join("o $d '\"é.db"), sql);
    let dir = folder.path().join("served");
    let ran = rowstream(&["init", &file, "--dir", dir.to_str().unwrap()]).await;
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    // A name with braces has no path; the first table is left.
    let server = Launch::folder(&dir).start().await;
    assert_eq!(get(&server.url("/a")).await.text(), "[]");
}

#[tokio::test]
async fn a_password_is_not_written() {
    let db = TestDb::new().await;
    db.execute("create table plain (v text); create table item (id integer primary key, v text)").await;
    db.execute("insert into item values (1, 'a')").await;
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("served");
    let url = db.url().replace("postgres@", "postgres:hunter2@");
    let ran = rowstream(&["init", &url, "--dir", dir.to_str().unwrap()]).await;
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let config = std::fs::read_to_string(dir.join("rowstream.toml")).unwrap();
    assert!(config.contains("url = \"${DATABASE_URL}\""), "{config}");
    let said = text(&ran.stderr) + &text(&ran.stdout);
    assert!(said.contains("DATABASE_URL") && !(said + &config).contains("hunter2"), "{config}");
    let server = Launch::folder(&dir).variable("DATABASE_URL", &url).start().await;
    assert_eq!(get(&server.url("/item/1")).await.json()["v"], "a");
    assert_eq!(get(&server.url("/item?limit=1")).await.json()[0]["id"], 1);
}

#[tokio::test]
async fn a_csv_becomes_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let rows = "\u{feff}id;Name;price;zip;;name\r\n2;\"a;\"\"b\"\"\";1.5;007;;x\r\n1;é;2;8000;;\r\n";
    std::fs::write(path("readings.csv"), rows).unwrap();
    std::fs::write(path("twice.CSV"), "id,v\n1,1\n1,2\n").unwrap();
    std::fs::write(path("uneven.csv"), "a,b\n1,2\n1\n").unwrap();

    let made = path("served");
    let ran = rowstream(&["init", &path("readings.csv"), "--dir", &made]).await;
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let server = Launch::folder(&made).start().await;
    let row = r#"{"id":1,"Name":"é","price":2,"zip":"8000","column_5":null,"column_6":null}"#;
    assert_eq!(
        get(&server.url("/readings/1")).await.json(),
        serde_json::from_str::<serde_json::Value>(row).unwrap()
    );
    let both = get(&server.url("/readings")).await.json();
    assert_eq!((&both[1]["Name"], &both[1]["zip"]), (&"a;\"b\"".into(), &"007".into()));

    // An id that is there twice is no key.
    let other = path("other");
    let ran = rowstream(&["init", &path("twice.CSV"), "--dir", &other]).await;
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let server = Launch::folder(&other).start().await;
    assert_eq!(get(&server.url("/twice?limit=9")).await.text(), r#"[{"id":1,"v":1},{"id":1,"v":2}]"#);

    for (file, expected) in [
        ("readings.csv", "readings.db is there already, and nothing was written"),
        ("uneven.csv", "uneven.csv: CSV error: record 2 (line: 3"),
    ] {
        let ran = rowstream(&["init", &path(file), "--dir", &path("third")]).await;
        assert_eq!(ran.status.code(), Some(1), "{file}");
        assert!(text(&ran.stderr).contains(expected), "{}", text(&ran.stderr));
    }
    let ran = rowstream(&["init", &path("uneven.csv"), "--dir", &made]).await;
    assert!(text(&ran.stderr).contains("rowstream.toml is there already"), "{}", text(&ran.stderr));
    let left = |name: &str| folder.path().join(name).exists();
    assert!(!left("uneven.db") && !left("uneven.db.partial") && !left("third"));
}
