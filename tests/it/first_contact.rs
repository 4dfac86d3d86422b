//! The first commands of a new user: each mistake leads to the command that helps.

use std::path::Path;
use std::process::Command;

use crate::support::{Launch, get, program, rowstream};

/// Standard error of `rowstream` in a folder, without DuckDB's library.
fn said(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program());
    let output = command.args(arguments).current_dir(folder).env_remove("ROWSTREAM_DUCKDB").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// In an empty folder, `serve` suggested `demo`. `serve x.csv` suggested a build with drivers, and
/// a damaged database an editor.
#[test]
fn signposts_lead_to_the_command_that_helps() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("x.csv"), "id,t\n1,a\n").unwrap();
    std::fs::write(path("x.tsv"), "id\tt\n1\ta\n").unwrap();
    std::fs::write(path("zero.db"), "").unwrap();
    std::fs::write(path("damaged.db"), [b"SQLite f", &[0xff; 5000][..]].concat()).unwrap();
    std::fs::write(path("text.sqlite3"), "this is no database at all\n").unwrap();
    let shop = rusqlite::Connection::open(path("shop.db")).unwrap();
    shop.execute_batch("create table t (id integer primary key)").unwrap();
    for (arguments, words) in [
        (
            &["serve"][..],
            "there is no file `rowstream.toml`\n    hint: `rowstream init` writes a configuration",
        ),
        (&["check"], "there is no file `rowstream.toml`\n    hint: `rowstream init` writes a configuration"),
        (
            &["serve", "."],
            "there is no rowstream.toml in the folder `.`\n    hint: `rowstream init --dir .` writes one",
        ),
        (
            &["serve", "x.csv"],
            "hint: `rowstream init x.csv` makes a SQLite database of it, which needs no driver; or ",
        ),
        (
            &["serve", "x.tsv"],
            "hint: `rowstream init x.tsv` makes a SQLite database of it, which needs no driver; or ",
        ),
        (&["serve", "zero.db"], "this database has no readable table or view"),
        (&["serve", "damaged.db"], "file is not a database"),
        (&["init", "damaged.db"], "file is not a database"),
        (&["query", "damaged.db", "select 1"], "file is not a database"),
        (&["query", "shop.db", "select * from nope"], "error: no such table: nope (SQLite code 1)\n"),
        (&["serve", "text.sqlite3"], "file is not a database"),
        (
            &["check", "shop.db"],
            "`shop.db` is a database, not a configuration\n    hint: `rowstream serve sqlite:shop.db` serves \
             its tables, `rowstream init sqlite:shop.db` writes a configuration for it, and `rowstream query \
             sqlite:shop.db 'select …'` queries it\n",
        ),
        (&["check", "zero.db"], "`zero.db` is a database, not a configuration"),
        (
            &["query", "jdbc:postgresql://h/d", "select 1"],
            "hint: leave out `jdbc:`: the URL begins with `postgresql:`",
        ),
    ] {
        let said = said(folder.path(), arguments);
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert!(!said.contains("UTF-8") && !said.contains("UTF-16"), "{arguments:?}: {said}");
        // SQLite's words were repeated as the cause.
        for words in ["file is not a database", "no such table"] {
            assert!(said.matches(words).count() <= 1, "{arguments:?}: {said}");
        }
    }
}

/// Standard output and standard error of `check`, of a configuration with one endpoint.
async fn checked(config: &str, endpoint: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    std::fs::write(folder.path().join("endpoints/t.sql"), endpoint).unwrap();
    let file = folder.path().join("rowstream.toml");
    std::fs::write(&file, config).unwrap();
    let ran = rowstream(&["check", file.to_str().unwrap()]).await;
    String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap()
}

#[tokio::test]
async fn wrong_values_say_what_to_write() {
    const SOURCE: &str = "[source.db]\nurl = \"sqlite:t.db\"\n";
    for (config, endpoint, words) in [
        (
            "write_timeout = 60\n",
            "",
            "`write_timeout` must be a string, not an integer\n    hint: write its unit, too: \"60s\"",
        ),
        (
            "listen = 8080\n",
            "",
            "`listen` must be a string, not an integer\n    hint: write \"127.0.0.1:8080\" for this machine \
             only, or \":8080\" for all its addresses",
        ),
        ("listen = \":1\"\nlisten = \":2\"\n", "", "duplicate key\n    hint: remove one of the two"),
        (
            "",
            "timeout = \"10s\"",
            "`timeout` must be a table, not a string\n    hint: write `timeout = { total = \"10s\" }`, or `first_row`",
        ),
        ("", "[params]\nq = \"int\"", "there is no type `int`\n    hint: did you mean `integer`?"),
        ("", "[params]\nq = \"varchar[]\"", "there is no type `varchar[]`\n    hint: did you mean `text`?"),
        (
            "",
            "[params]\nq = \"text\"",
            "no statement uses the parameter `q`\n    hint: in quotes and comments `:q` is text: write it \
             outside them, as in `like concat('%', :q, '%')`",
        ),
    ] {
        let endpoint = format!("/*\n{endpoint}\n*/\nselect 1 as n where 'a' like '%:q%'");
        let said = checked(&format!("{config}{SOURCE}"), &endpoint).await;
        assert!(said.contains(words), "{config}{endpoint}: {said}");
    }
    let said = checked(&format!("{SOURCE}pool = 20\n"), "select 1 as n").await;
    assert!(
        said.contains("`pool` must be a table, not an integer\n    hint: write `pool = { max = 20 }`"),
        "{said}"
    );
}

/// `.jsonl` was treated as a typo of `json`, and `?x=1` as one of `n`.
#[tokio::test]
async fn slips_are_not_made_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db");
    rusqlite::Connection::open(&file)
        .unwrap()
        .execute_batch("create table t (n integer primary key)")
        .unwrap();
    let config = format!("[source.db]\nurl = \"sqlite:{}\"\n", file.display());
    let sql = "/*\n[params]\nn = { type = \"integer\", optional = true }\n*/\nselect n from t where n = :n";
    let server = Launch::files(&[("rowstream.toml", &config), ("endpoints/t.sql", sql)]).start().await;
    for (path, hint) in [
        ("/t?_format=jsonlines", "did you mean `ndjson`?"),
        ("/t?_format=arrows", "did you mean `arrow`?"),
        ("/t?_format=jsn", "did you mean `json`?"),
    ] {
        let problem = get(&server.url(path)).await.json();
        assert_eq!(problem["hint"], hint, "{problem}");
    }
    let reply = get(&server.url("/t.jsonl")).await;
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"), "{}", reply.text());
    let reply = get(&server.url("/t?x=1")).await.text().to_owned();
    assert!(
        reply.contains("this endpoint has no such parameter") && !reply.contains("did you mean"),
        "{reply}"
    );
}

/// "a path cannot have one of its characters" didn't say which one.
#[tokio::test]
async fn the_character_that_no_path_has_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db");
    let sql = "create table t (n); create table \"50%\" (n); create table \"a#b\" (n);
        create table \"what?\" (n); create table \"a\nb\" (n)";
    rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap();
    let script = format!("exec \"$0\" serve {} --listen 127.0.0.1:0", file.display());
    let server = Launch::folder(folder.path()).shell(&script).start().await;
    for c in ["%", "#", "?", "\\u{a}"] {
        server.wait_for_stderr(&format!("a segment of a path can't contain `{c}`")).await;
    }
}

/// The start printed "8589.9 MB" for "8GiB".
#[tokio::test]
async fn sizes_are_as_they_are_written() {
    for (quota, shown) in
        [("", "8GiB"), ("spool_quota = \"3GB\"\n", "3GB"), ("spool_quota = \"1500MB\"\n", "1500MB")]
    {
        let config = format!("{quota}[source.db]\nurl = \"sqlite:t.db\"\n");
        let said = checked(&config, "select 1 as n").await;
        assert!(said.contains(&format!("; {shown} in temporary files")), "{said}");
    }
}
