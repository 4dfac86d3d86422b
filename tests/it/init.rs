//! `rowstream init` writes a configuration that works immediately, and overwrites nothing.

use std::path::Path;
use std::process::Command;

use crate::support::{Launch, TestDb, get, program, rowstream};

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

/// The names below a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// `init` printed "Next: rowstream check", which failed, because the example's file is created when
/// it's first served.
#[tokio::test]
async fn what_init_says_to_do_next_works() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "\"$0\" init --dir \"$1\" 2>&1 >/dev/null | sed -n \"s|^  rowstream check|exec '$0' check|p\"";
    for name in ["new", "it's new"] {
        let mut init = Command::new("sh");
        init.args(["-c", script]).arg(program()).arg(name).current_dir(&folder);
        let next = text(&init.output().unwrap().stdout);
        let next = next.split("   ").next().unwrap();
        let ran = Command::new("sh").args(["-c", next]).current_dir(&folder).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{next}: {}", text(&ran.stderr));
        let shown = text(&ran.stdout);
        assert!(shown.contains("rows :many -> id INTEGER, title TEXT, author TEXT"), "{shown}");
        assert!(shown.ends_with("OK, 2 endpoints\n"), "{shown}");
        let dir = folder.path().join(name);
        assert_eq!(names(&dir), ["data.sql", "endpoints", "rowstream.schema.json", "rowstream.toml"]);
        // Its scripts and statements are checked.
        std::fs::write(dir.join("endpoints/books.sql"), "select isbn from book").unwrap();
        let ran = rowstream(&["check", dir.to_str().unwrap()]).await;
        assert!(text(&ran.stderr).contains("no such column: isbn"), "{}", text(&ran.stderr));
        std::fs::write(dir.join("data.sql"), "create table book (id);\ncreate tables").unwrap();
        let ran = rowstream(&["check", dir.to_str().unwrap()]).await;
        assert_eq!(ran.status.code(), Some(1));
        assert!(
            text(&ran.stderr).contains("data.sql:2: near \"tables\": syntax error"),
            "{}",
            text(&ran.stderr)
        );
        assert!(!dir.join("shop.db").exists() && !dir.join("shop.db.partial").exists());
    }
}

#[tokio::test]
async fn what_is_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    std::fs::write(folder.path().join("data.sql"), "mine").unwrap();
    let ran = rowstream(&["init", "--dir", dir]).await;
    assert_eq!(ran.status.code(), Some(1));
    let said = text(&ran.stderr);
    assert!(said.contains("data.sql already exists, so nothing was written"), "{said}");
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
    // A name with braces can't be a path, so the first table is left out.
    let server = Launch::folder(&dir).start().await;
    assert_eq!(get(&server.url("/a")).await.text(), "[]");
}

/// If no table of a database could have a path, the configuration had no endpoints, which `check`
/// refuses.
#[tokio::test]
async fn a_database_without_usable_names_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, sql, left_out) in [
        ("empty.db", "pragma user_version = 1", false),
        (
            "odd.db",
            "create table \"a/b\" (id integer primary key); create view \"50%\" as select 1 as n",
            true,
        ),
    ] {
        let file = sqlite(&folder.path().join(name), sql);
        let dir = folder.path().join("served");
        let ran = rowstream(&["init", &file, "--dir", dir.to_str().unwrap()]).await;
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.contains("no readable table or view whose name can be a path"), "{said}");
        assert!(said.contains("create view NAME as select") && said.contains("without a database"), "{said}");
        assert_eq!(said.contains("a segment of a path can't contain `/`"), left_out, "{said}");
        assert!(!dir.exists(), "nothing is written");
    }
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

    // A duplicate id isn't a key.
    let other = path("other");
    let ran = rowstream(&["init", &path("twice.CSV"), "--dir", &other]).await;
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let server = Launch::folder(&other).start().await;
    assert_eq!(get(&server.url("/twice?limit=9")).await.text(), r#"[{"id":1,"v":1},{"id":1,"v":2}]"#);

    for (file, expected) in [
        ("readings.csv", "readings.db already exists, so nothing was written"),
        ("uneven.csv", "uneven.csv: line 3: the row has 1 values, but there are 2 columns"),
    ] {
        let ran = rowstream(&["init", &path(file), "--dir", &path("third")]).await;
        assert_eq!(ran.status.code(), Some(1), "{file}");
        assert!(text(&ran.stderr).contains(expected), "{}", text(&ran.stderr));
    }
    let ran = rowstream(&["init", &path("uneven.csv"), "--dir", &made]).await;
    assert!(text(&ran.stderr).contains("rowstream.toml already exists"), "{}", text(&ran.stderr));
    let left = |name: &str| folder.path().join(name).exists();
    assert!(!left("uneven.db") && !left("uneven.db.partial") && !left("third"));
}

/// `init x.tsv` treated the file as a SQLite database.
#[tokio::test]
async fn a_tsv_becomes_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.TSV");
    std::fs::write(&file, "id\tname\n1\ta,b\n").unwrap();
    let dir = folder.path().join("served");
    let ran = rowstream(&["init", file.to_str().unwrap(), "--dir", dir.to_str().unwrap()]).await;
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let server = Launch::folder(&dir).start().await;
    assert_eq!(get(&server.url("/x/1")).await.text(), r#"{"id":1,"name":"a,b"}"#);
}

/// An unclosed quote turned the rest of the file into one value, and `init` succeeded with one of
/// two rows. An empty file was an SQLite error, and errors about encodings had no hint.
#[tokio::test]
async fn a_csv_that_cannot_be_read_leaves_nothing() {
    for (bytes, expected) in [
        (&b"id,t\n1,\"abc\n2,b\n"[..], "u.csv: line 2: the quote isn't closed\n"),
        (b"id,t\n1,\"abc\n2,\"b\"\n", "u.csv: line 2: the quote ends on line 3 with text right behind it\n"),
        (b"sep=,\nid,t\n1,\"abc\n", "u.csv: line 3: the quote isn't closed\n"),
        (b"", "u.csv: the file is empty\n    hint: its first line has the names"),
        (b"\xef\xbb\xbf\n\n", "u.csv: the file is empty\n"),
        (b"sep=;\r\n", "u.csv: the file is empty\n"),
        (b"sep=;\nid;t\n1;a;b\n", "u.csv: line 3: the row has 3 values, but there are 2 columns"),
        (
            b"\xff\xfei\0d\0",
            "u.csv: the file is UTF-16\n    hint: write it as UTF-8: `iconv -f UTF-16 -t UTF-8 u.csv > utf8-u.csv`",
        ),
        (
            b"id,t\n1,caf\xe9\n",
            "u.csv: line 2: the text is not UTF-8\n    hint: if it's from Excel, write it as UTF-8: `iconv \
             -f WINDOWS-1252 -t UTF-8",
        ),
        (b"id,caf\xe9\n1,a\n", "u.csv: line 1: the text is not UTF-8\n"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("u.csv");
        std::fs::write(&file, bytes).unwrap();
        let made = folder.path().join("served");
        let ran = rowstream(&["init", file.to_str().unwrap(), "--dir", made.to_str().unwrap()]).await;
        assert_eq!(ran.status.code(), Some(1), "{expected}");
        assert!(text(&ran.stderr).contains(expected), "{expected}\n{}", text(&ran.stderr));
        let left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["u.csv"]);
    }
}

/// `2.345678901234567890` became a real and lost digits, `1e5` became 100000, `sep=;` became a
/// column name, and renamed columns weren't reported.
#[tokio::test]
async fn a_csv_keeps_its_digits() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("u.csv");
    let rows = "sep=;\r\nid;long;exact;code;mixed;price;;ID\r\n\
                1;12345678901234567890;2.345678901234567890;1e5;9007199254740993;1.50;x;y\r\n\
                2;5;0.5;2;0.5;2;x;z\r\n";
    std::fs::write(&file, rows).unwrap();
    let made = folder.path().join("served");
    let ran = rowstream(&["init", file.to_str().unwrap(), "--dir", made.to_str().unwrap()]).await;
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let told = "u.csv: column 7 has no name, and is called `column_7`\n";
    assert!(text(&ran.stderr).contains(told), "{}", text(&ran.stderr));
    let told = "u.csv: column 8 is called `column_8`: there is another `ID`\n";
    assert!(text(&ran.stderr).contains(told), "{}", text(&ran.stderr));
    let server = Launch::folder(&made).start().await;
    let row = r#"{"id":1,"long":"12345678901234567890","exact":"2.345678901234567890","code":"1e5","mixed":"9007199254740993","price":1.5,"column_7":"x","column_8":"y"}"#;
    assert_eq!(get(&server.url("/u/1")).await.text(), row);
    let second = get(&server.url("/u/2")).await.json();
    assert_eq!(
        (&second["long"], &second["mixed"], &second["price"]),
        (&"5".into(), &"0.5".into(), &2.into())
    );
}
