//! The commands: their output, and their exit statuses.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::drivers::duckdb;
use crate::support::{
    Exit, Launch, Login, MariaDb, Server, TestDb, get, logins, pg_port, program, rowstream,
};

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// SQLite and MySQL get a list as a text of JSON. `id in (:ids)` compared with that text, so there were no
/// rows, and no error.
#[tokio::test]
async fn a_list_is_no_item_of_in() {
    let create = "create table item (id integer primary key, name varchar(10), day date);\n\
        insert into item values (1, 'a', '2026-01-01'), (2, 'b', '2026-01-02'), (3, 'c', '2026-01-03');";
    let maria = MariaDb::new(create);
    let maria = maria.url();
    for (url, (kind, column, query)) in [
        ("sqlite:item.db", ("integer[]", "id", "3,1")),
        ("sqlite:item.db", ("text[]", "name", "c&ids=a")),
        (&maria, ("integer[]", "id", "3,1")),
        (&maria, ("number[]", "id", "3,1")),
        (&maria, ("text[]", "name", "c&ids=a")),
        (&maria, ("date[]", "day", "2026-01-03,2026-01-01")),
    ] {
        let config = format!("[source.db]\nurl = \"{url}\"\ncreate = [\"item.sql\"]\n");
        let endpoint = |item: &str| {
            let sql = format!("select id from item where :ids is null or {column} in ({item}) order by id");
            format!("/*\n[params]\nids = {{ type = \"{kind}\", optional = true }}\n*/\n{sql}")
        };
        let wrong = endpoint(":ids");
        let checked =
            check(&[("rowstream.toml", &config), ("item.sql", create), ("endpoints/a.sql", &wrong)]).await;
        let said = stderr(&checked);
        assert_eq!(code(&checked), Some(1), "{url}: {said}");
        let complaint = "the list `:ids` is compared as one value";
        assert_eq!(said.matches(complaint).count(), 1, "{url}: {said}");
        let hint = said.split("write `in (").nth(1).and_then(|hint| hint.split(")`").next()).expect(&said);

        let right = endpoint(hint);
        let files = [("rowstream.toml", &*config), ("item.sql", create), ("endpoints/a.sql", &right)];
        let server = Server::start(&files).await;
        let listed = get(&server.url(&format!("/a?ids={query}"))).await;
        assert_eq!(listed.text(), "[{\"id\":1},{\"id\":3}]", "{url}: {right}");
        let all = get(&server.url("/a")).await;
        assert_eq!(all.text(), "[{\"id\":1},{\"id\":2},{\"id\":3}]", "{url}: {right}");
    }
    let ran =
        rowstream(&["query", &maria, "select id from item where id in (:ids)", "-p", "ids:integer[]=1,2"])
            .await;
    assert!(!ran.status.success(), "{ran:?}");
    assert!(stderr(&ran).contains("the list `:ids` is compared as one value"), "{ran:?}");
}

/// PostgreSQL takes the list in `name in (:l)` for one text. So `in` found no row, `not in` each one, and `check`
/// was silent. With other types, and in DuckDB, each request was a 400. SQLite and MariaDB refused only `in (:l)`.
#[tokio::test]
async fn a_list_is_no_value_to_compare_with() {
    let create = "create table item (id integer primary key, name varchar(10), code char(3));\n\
        insert into item values (1, 'a', 'a'), (2, 'b', 'b'), (3, 'c', 'c');";
    let db = TestDb::new().await;
    db.execute("create extension if not exists citext").await;
    db.execute("create type mood as enum ('a', 'b')").await;
    db.execute("create domain names as text[]").await;
    db.execute(create).await;
    db.execute("alter table item add mail citext default 'a', add mood mood default 'a'").await;
    db.execute("alter table item add tags text[] default '{a,b}', add moods mood[] default '{a,b}'").await;
    db.execute("alter table item add shares int[] default '{1}', add about jsonb default '[]'").await;
    db.execute("alter table item add named names default '{a,b}'").await;
    let maria = MariaDb::new(create);
    let duckdb = format!("adbc:{}?entrypoint=duckdb_adbc_init", duckdb());
    let (postgres, maria, sqlite) = (db.url(), maria.url(), "sqlite:item.db".to_owned());
    let any = "write `= any(";
    let each = "write `in (";
    for (url, kind, condition, refused) in [
        (&postgres, "text[]", "name in (:l)", any),
        (&postgres, "text[]", "name not in (:l)", any),
        (&postgres, "text[]", "(:l is null or name in (:l)) and name in (:l, 'b')", any),
        (&postgres, "text[]", "name = :l or name <> :l", any),
        (&postgres, "text[]", "code in (:l)", any),
        (&postgres, "text[]", "mail in (:l)", any),
        (&postgres, "text[]", "mood in (:l)", any),
        (&postgres, "text[]", "(name, id) in ((:l, 1))", any),
        (&postgres, "text[]", "case name when :l then true end", any),
        (&postgres, "integer[]", "id in (:l)", any),
        (&postgres, "json[]", "about in (:l)", any),
        (&postgres, "text[]", "about @> :l", "`to_jsonb(…)` is its JSON"),
        (&postgres, "text[]", "md5(:l) = name", "`…::text` its text"),
        (&sqlite, "text[]", "name not in (:l)", each),
        (&sqlite, "text[]", "name = :l", each),
        (&sqlite, "text[]", "name in (select :l)", each),
        (&sqlite, "text[]", "(name, id) in ((:l, 1))", each),
        (&maria, "text[]", "name <> :l", each),
        (&maria, "text[]", "name in ((:l))", each),
        (&maria, "text[]", "name between 'a' and :l", each),
        (&sqlite, "text[]", "(id = 1) and (:l is name or name is not :l)", each),
        (&duckdb, "text[]", "name not in (:l)", any),
        (&duckdb, "text[]", "[name] in (:l)", "for a column of lists, `= :l`"),
        (&duckdb, "integer[]", "(name, id) in (('a', :l))", any),
    ] {
        let checked = check_list(url, create, kind, condition).await;
        let said = stderr(&checked);
        assert_eq!(code(&checked), Some(1), "{url} {condition}: {said}");
        assert!(said.contains("a.sql:5:") && said.contains(refused), "{url} {condition}: {said}");
    }
    for (url, kind, condition) in [
        (&postgres, "text[]", "name = any(:l) and code <> all(:l) and mail = any(:l) and mood = any(:l)"),
        (&postgres, "text[]", "tags = :l and moods = :l and :l is not null and named = :l and :l && tags"),
        (
            &postgres,
            "integer[]",
            "shares = :l and id in (select unnest(:l)) and cardinality(:l) = 1 and :l <> '{}'",
        ),
        (&postgres, "text[]", "about ?| :l and :l::text <> '{}' and :l::varchar <> '{}'"),
        (&postgres, "json[]", "about = any(:l) and to_json(:l) is not null"),
        (&postgres, "text[]", "about @> to_jsonb(:l) and md5(:l::text) <> name"),
        (&sqlite, "text[]", ":l = '[]' or name in (select value from json_each(:l)) or '[]' = json(:l)"),
        (
            &sqlite,
            "text[]",
            "id = 0 and :l like '%a%' or :l in ('[]', '') or :l is '[]' or :l = json_array()",
        ),
        (&maria, "text[]", ":l = '[]' or json_contains(:l, json_quote(name))"),
        (
            &maria,
            "text[]",
            "id = 0 and :l regexp 'a' or :l = \"[]\" or :l = N'[]' or :l = cast('[]' as char)",
        ),
        (&duckdb, "text[]", "name = any(:l) or name <> all(:l) or [name] = :l"),
    ] {
        let checked = check_list(url, create, kind, condition).await;
        assert_eq!(code(&checked), Some(0), "{url} {condition}: {}", stderr(&checked));
    }
}

/// Checks an endpoint with the list `:l` of this type in its condition.
async fn check_list(url: &str, create: &str, kind: &str, condition: &str) -> Output {
    let config = format!("[source.db]\nurl = \"{url}\"\ncreate = [\"item.sql\"]\n");
    let table = if url.starts_with("adbc") { "(values (1, 'a')) as item(id, name)" } else { "item" };
    let sql = format!("/*\n[params]\nl = \"{kind}\"\n*/\nselect id from {table} where {condition}");
    check(&[("rowstream.toml", &config), ("item.sql", create), ("endpoints/a.sql", &sql)]).await
}

/// `check` accepted a statement that locks rows or writes, and each request was a 500, because
/// transactions are read-only.
#[tokio::test]
async fn check_refuses_locks_and_writes() {
    let db = TestDb::new().await;
    db.execute("create table item (id int primary key, name text, share int)").await;
    let maria = MariaDb::new("create table item (id int primary key, name text, share int)");
    let (postgres, maria) = (db.url(), maria.url());
    for (url, (sql, refused)) in [
        (&postgres, ("select id from item for update", "for update")),
        (&postgres, ("select id from item FOR NO  KEY UPDATE skip locked", "FOR NO  KEY UPDATE")),
        (&postgres, ("select id from item for share", "for share")),
        (&postgres, ("with x as (select id from item for key share) select id from x", "for key share")),
        (&postgres, ("select id from (select id from item for update) as x", "for update")),
        (&postgres, ("insert into item values (1) returning id", "insert")),
        (&postgres, ("with x as (insert into item values (1) returning id) select id from x", "insert")),
        (&postgres, ("with x as (delete from item returning id) select id from x", "delete")),
        (&postgres, ("with x as (update item set name = '' returning id) select id from x", "update")),
        (&postgres, ("with x as (select 1 as n) update item set id = n from x returning id", "update")),
        (&postgres, ("update item set name = 'a' returning id", "update")),
        (&postgres, ("select substring(name from 1 for share) as id from item -- for update", "")),
        (&maria, ("select id from item for update", "for update")),
        (&maria, ("select id from item lock in share mode", "")),
    ] {
        let config = format!("[source.db]\nurl = \"{url}\"\n");
        let checked = check(&[("rowstream.toml", &config), ("endpoints/a.sql", sql)]).await;
        let said = stderr(&checked);
        if refused.is_empty() {
            assert_eq!(code(&checked), Some(0), "{sql}: {said}");
            let server = Server::start(&[("rowstream.toml", &config), ("endpoints/a.sql", sql)]).await;
            assert_eq!(get(&server.url("/a")).await.text(), "[]", "{sql}");
        } else {
            assert_eq!(code(&checked), Some(1), "{sql}: {said}");
            assert!(said.contains(&format!("with `{refused}`, but Rowstream only reads")), "{sql}: {said}");
            let column = sql.find(refused).unwrap() + 1;
            assert!(said.contains(&format!("a.sql:1:{column}: ")), "{sql}: {said}");
        }
    }
}

/// A SQLite file with a table of two rows, and its URL.
fn sqlite(folder: &Path) -> String {
    let file = folder.join("test.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection
        .execute_batch("create table t(n integer, s text); insert into t values (1, 'a'), (2, 'b')")
        .unwrap();
    format!("sqlite:{}", file.display())
}

const FAILS_LATE: &str = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 100000)
    select i, abs(-9223372036854775807 - i / 50000) as v from c";
const LONG: &str =
    "with recursive c(i) as (select 1 union all select i + 1 from c where i < 1000000) select i from c";

#[tokio::test]
async fn query_writes_rows() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    for (arguments, expected) in [
        (&["select n, s from t order by n"][..], "{\"n\":1,\"s\":\"a\"}\n{\"n\":2,\"s\":\"b\"}\n"),
        (&["select n from t order by n", "--format", "json"], "[{\"n\":1},{\"n\":2}]"),
        (&["select n from t where s = :s", "-p", "s=b"], "{\"n\":2}\n"),
        (&["select :a || :b as x", "-p", "a=1&b=2", "--param", "b==%20 ä"], "{\"x\":\"1&b=2=%20 ä\"}\n"),
        (&["select n from t where false"], ""),
        (
            &[
                "select n, null as z, x'6869' as b from t where n = 1",
                "--numbers",
                "string",
                "--bytes",
                "base64",
                "--nulls",
                "omit",
            ],
            "{\"n\":\"1\",\"b\":\"aGk=\"}\n",
        ),
        (
            &[
                "select n, null as z from t order by n",
                "--format",
                "csv",
                "--csv-separator",
                "semicolon",
                "--csv-null",
                "\\N",
                "--csv-bom",
            ],
            "\u{feff}n;z\r\n1;\\N\r\n2;\\N\r\n",
        ),
        (&["select '=' || s as f from t where n = 1", "--format", "csv", "--csv-guard"], "f\r\n\"'=a\"\r\n"),
    ] {
        let ran = rowstream(&[&["query", &url], arguments].concat()).await;
        assert_eq!((code(&ran), stdout(&ran), stderr(&ran)), (Some(0), expected.to_owned(), String::new()));
    }
}

/// Runs `rowstream query` with `arguments` and this standard input.
fn query_with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(program());
    command.arg("query").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn statements_are_read_from_files_and_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let file = folder.path().join("t.sql");
    let path = file.to_str().unwrap();
    let sql = "/* summary = \"a head\" */\n-- and a remark\nselect n from t\nwhere s = :s;\n";
    std::fs::write(&file, sql).unwrap();
    for (arguments, input) in [
        (&["-f", path][..], ""),
        (&["--file", path], "nobody reads this"),
        (&["-"], sql),
        (&["-f", "-"], sql),
    ] {
        let ran = query_with_input(&[&[&url, "-p", "s=b"], arguments].concat(), input.as_bytes());
        let expected = (Some(0), "{\"n\":2}\n".to_owned(), String::new());
        assert_eq!((code(&ran), stdout(&ran), stderr(&ran)), expected, "{arguments:?}");
    }
    for (arguments, input, status, words) in [
        (&["-f", path][..], &b""[..], 1, format!("{path}:4:11: the parameter `s` has no value")),
        (&["-"], b"select n\nfrom t where n = :n", 1, "stdin:2:18: the parameter `n`".to_owned()),
        (&["-"], b"", 1, "stdin:1:1: ".to_owned()),
        (&["-"], b"select '\xff'", 1, "standard input cannot be read".to_owned()),
        (&["-f", "/nowhere.sql"], b"", 1, "`/nowhere.sql` cannot be read".to_owned()),
        (&["-f", path, "select 1"], b"", 2, "cannot be used with".to_owned()),
    ] {
        let ran = query_with_input(&[&[url.as_str()], arguments].concat(), input);
        assert_eq!((code(&ran), stdout(&ran)), (Some(status), String::new()), "{arguments:?}");
        assert!(stderr(&ran).contains(&words), "{words}\n{}", stderr(&ran));
    }
}

/// Editors on Windows begin a file with a byte order mark, and PowerShell writes UTF-16. The mark
/// was sent to PostgreSQL, which reported a syntax error at or near `select`, although that looks
/// correct.
#[tokio::test]
async fn a_byte_order_mark_is_no_part_of_a_statement() {
    let db = TestDb::new().await;
    let url = db.url();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.sql");
    let path = file.to_str().unwrap();
    let marked = "\u{feff}select 1 as n";
    std::fs::write(&file, marked).unwrap();
    for (arguments, input) in [(&["-f", path][..], ""), (&["-"], marked), (&[marked], "")] {
        let ran = query_with_input(&[&[&*url], arguments].concat(), input.as_bytes());
        assert_eq!((code(&ran), stdout(&ran), stderr(&ran)), (Some(0), "{\"n\":1}\n".into(), String::new()));
    }
    let ran = query_with_input(&[&url, "-"], "\u{feff}select :x".as_bytes());
    assert!(stderr(&ran).starts_with("stdin:1:8: "), "{}", stderr(&ran));
    for mark in [&b"\xff\xfe"[..], b""] {
        let utf16: Vec<_> = "select 1".encode_utf16().flat_map(u16::to_le_bytes).collect();
        std::fs::write(&file, [mark, &utf16].concat()).unwrap();
        let ran = query_with_input(&[&url, "-f", path], b"");
        let expected = format!(
            "error: the statement in `{path}` cannot be read: it is UTF-16\n    hint: save it as UTF-8\n"
        );
        assert_eq!((code(&ran), stderr(&ran)), (Some(1), expected));
    }
}

/// For SQLite, a UTF-16 script without a mark is full of NULs: `near "c": syntax error`.
#[tokio::test]
async fn files_in_utf_16_are_named_so() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let utf16: Vec<_> = "create table t (n)".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let config = "[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n";
    write("rowstream.toml", config.as_bytes());
    write("t.sql", &utf16);
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    write("endpoints/t.sql", b"select n from t");
    let path = folder.path().join("rowstream.toml");
    let path = path.to_str().unwrap();
    let ran = rowstream(&["serve", path, "--listen", "127.0.0.1:0"]).await;
    assert!(stderr(&ran).contains("t.sql: the file is UTF-16"), "{}", stderr(&ran));
    assert!(!folder.path().join("t.db").exists());
    write("endpoints/t.sql", &[b"\xfe\xff", &*utf16].concat());
    let ran = rowstream(&["check", path]).await;
    assert!(
        stderr(&ran).contains("t.sql:1:1: the file is UTF-16\n    hint: save it as UTF-8"),
        "{}",
        stderr(&ran)
    );
}

#[tokio::test]
async fn query_counts_rows_and_writes_tables_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let ran = rowstream(&["query", &url, "select n, s from t order by n", "--stats"]).await;
    assert_eq!(stdout(&ran).lines().count(), 2);
    let stats = stderr(&ran);
    assert!(stats.starts_with("2 rows in ") && stats.ends_with(" rows/s)\n"), "{stats}");
    let ran = rowstream(&["query", &url, "select n, s from t order by n", "--format", "table"]).await;
    assert_eq!((stdout(&ran), stderr(&ran)), ("n  s\n─  ─\n1  a\n2  b\n".to_owned(), String::new()));
}

/// As in psql. A JSON object can have a member name only once, so JSON refuses the second one.
#[tokio::test]
async fn columns_of_one_name_stay_in_csv_and_tables() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let sql = "select n, s as n from t order by t.n";
    for (format, text) in [("csv", "n,n\r\n1,a\r\n2,b\r\n"), ("table", "n  n\n─  ─\n1  a\n2  b\n")] {
        let ran = rowstream(&["query", &url, sql, "--format", format]).await;
        assert_eq!((stdout(&ran), stderr(&ran)), (text.to_owned(), String::new()), "{format}");
    }
    let ran = rowstream(&["query", &url, sql, "--format", "ndjson"]).await;
    assert!(
        stderr(&ran).contains("two columns called `n`") && stderr(&ran).contains("CSV"),
        "{}",
        stderr(&ran)
    );
    let config = format!("[source.db]\nurl = \"{url}\"\n");
    let only = format!("/*\nformats = [\"csv\"]\n*/\n{sql}");
    let files = [("rowstream.toml", config.as_str()), ("endpoints/both.sql", &only)];
    let server = Launch::files(&files).start().await;
    assert_eq!(get(&server.url("/both")).await.text(), "n,n\r\n1,a\r\n2,b\r\n");
}

#[tokio::test]
async fn query_writes_files_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let file = folder.path().join("out.ndjson");
    let path = file.to_str().unwrap();
    let ran = rowstream(&["query", &url, FAILS_LATE, "-o", path]).await;
    assert_eq!(code(&ran), Some(1));
    assert!(stderr(&ran).contains("integer overflow"), "{}", stderr(&ran));
    let names = || {
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["test.db"], "nothing is left of what failed");
    let ran = rowstream(&["query", &url, "select n from t order by n", "-o", path]).await;
    assert_eq!((code(&ran), stdout(&ran)), (Some(0), String::new()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"n\":1}\n{\"n\":2}\n");
    let ran = rowstream(&["query", &url, FAILS_LATE, "-o", path]).await;
    assert_eq!(code(&ran), Some(1));
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "{\"n\":1}\n{\"n\":2}\n",
        "the file of before is as it was"
    );
    let ran = rowstream(&["query", &url, "select 1", "-o", "/nowhere/out"]).await;
    assert_eq!(code(&ran), Some(1));
    assert!(stderr(&ran).contains("/nowhere/out"), "{}", stderr(&ran));
}

/// `-o x.csv`, and even `-o x.parquet`, wrote NDJSON with exit status 0.
#[tokio::test]
async fn the_suffix_of_a_file_is_its_format() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = async |name: &str, more: &[&str]| {
        rowstream(&[&["query", &url, "select n from t order by n", "-o", &path(name)], more].concat()).await
    };
    let (lines, csv) = ("{\"n\":1}\n{\"n\":2}\n", "n\r\n1\r\n2\r\n");
    for (name, more, expected) in [
        ("a.csv", &[][..], csv),
        ("a.b.CSV", &[], csv),
        ("a.json", &[], "[{\"n\":1},{\"n\":2}]"),
        ("a.ndjson", &[], lines),
        ("a.jsonl", &[], lines),
        ("a.sse", &[], "data: {\"n\":1}\n\ndata: {\"n\":2}\n\n"),
        ("a.json-seq", &[], "\u{1e}{\"n\":1}\n\u{1e}{\"n\":2}\n"),
        ("a", &[], lines),
        ("a.txt", &[], lines),
        ("of 1.2", &[], lines),
        ("b.csv", &["--format", "ndjson"], lines),
        ("b.tsv", &[], csv),
        ("b.parquet", &["--format", "csv"], csv),
        ("b.json", &["--format", "table"], "n\n─\n1\n2\n"),
    ] {
        let ran = run(name, more).await;
        assert_eq!((code(&ran), stderr(&ran)), (Some(0), String::new()), "{name}");
        assert_eq!(std::fs::read_to_string(path(name)).unwrap(), expected, "{name}");
    }
    for name in ["a.arrow", "a.arrows"] {
        assert_eq!(code(&run(name, &[]).await), Some(0), "{name}");
        assert!(std::fs::read(path(name)).unwrap().starts_with(&[0xff; 4]), "{name}: a stream of Arrow");
    }
    for suffix in ["parquet", "xlsx", "XML"] {
        let name = format!("none.{suffix}");
        let ran = run(&name, &[]).await;
        let expected = format!(
            "error: `{}` would be `.{}`, which `query` doesn't write\n    hint: the suffixes are .json, .ndjson, .csv, .sse, .json-seq, .arrow, .jsonl, .tsv; `--format` writes its format under any name\n",
            path(&name),
            suffix.to_lowercase()
        );
        assert_eq!((code(&ran), stderr(&ran)), (Some(1), expected));
        assert!(!folder.path().join(&name).exists());
    }
    let ran = run("none.csv.gz", &[]).await;
    assert!(stderr(&ran).contains("would be `.gz`"), "{}", stderr(&ran));
}

#[tokio::test]
async fn query_says_what_fails() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    for (arguments, words) in [
        (&[url.as_str(), "select n from missing"][..], "missing"),
        (&[&url, "select :a as a"], "`a`"),
        (&[&url, "select 1", "-p", "b=1"], "`b`"),
        (&["sqlite:/nowhere/a.db", "select 1"], "error: there is no file `/nowhere/a.db`\n"),
        (&["postgres://u@127.0.0.1:1/d", "select 1"], "source `database` cannot be reached"),
        (&["oracle://h/d", "select 1"], "oracle"),
    ] {
        let ran = rowstream(&[&["query"], arguments].concat()).await;
        assert_eq!((code(&ran), stdout(&ran)), (Some(1), String::new()), "{arguments:?}");
        assert!(stderr(&ran).contains(words), "{arguments:?}: {}", stderr(&ran));
    }
}

/// Parameters were always text, and in SQLite a text is greater than any number. `n * 1 > :m` found
/// nothing, with status 0.
#[tokio::test]
async fn parameters_of_query_have_types() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    for (sql, params, expected) in [
        ("select n from t where n * 1 > :m", &["m=1"][..], "{\"n\":2}\n"),
        ("select n from t where n * 1 > :m", &["m=1.5"], "{\"n\":2}\n"),
        ("select n from t where n * 1 > :m", &["m:integer=1"], "{\"n\":2}\n"),
        ("select n from t where n * 1 > :m", &["m:number=1.5e0"], "{\"n\":2}\n"),
        ("select typeof(:m) as t", &["m=-2"], "{\"t\":\"integer\"}\n"),
        ("select typeof(:m) as t", &["m=-2.50"], "{\"t\":\"real\"}\n"),
        ("select typeof(:m) as t", &["m=007"], "{\"t\":\"text\"}\n"),
        ("select typeof(:m) as t", &["m=1e3"], "{\"t\":\"text\"}\n"),
        ("select typeof(:m) as t", &["m="], "{\"t\":\"text\"}\n"),
        ("select typeof(:m) as t", &["m:text=150"], "{\"t\":\"text\"}\n"),
        ("select typeof(:m) as t", &["m:integer="], "{\"t\":\"null\"}\n"),
        ("select typeof(:m) as t, :m as v", &["m:duration=90s"], "{\"t\":\"text\",\"v\":\"PT90S\"}\n"),
        (
            "select n from t where n in (select value from json_each(:ids))",
            &["ids:integer[]=2,3"],
            "{\"n\":2}\n",
        ),
        // Numbers that JSON writes in another way were NULL.
        (
            "select value as v from json_each(:ids)",
            &["ids:number[]=.5,5.,+007,-00.25"],
            "{\"v\":0.5}\n{\"v\":5}\n{\"v\":7}\n{\"v\":-0.25}\n",
        ),
        (
            "select n from t where s in (select value from json_each(:ids)) order by n",
            &["ids:text[]=a", "ids=b"],
            "{\"n\":1}\n{\"n\":2}\n",
        ),
    ] {
        let params: Vec<_> = params.iter().flat_map(|param| ["-p", *param]).collect();
        let ran = rowstream(&[&["query", &url, sql], &params[..]].concat()).await;
        assert_eq!((stdout(&ran), stderr(&ran)), (expected.to_owned(), String::new()), "{sql} {params:?}");
    }
    for (sql, params, words) in [
        (
            "select :minutes as m",
            &["minuts=1", "minutes=1"][..],
            "-p: the statement has no parameter `minuts`\n    hint: did you mean `minutes`?",
        ),
        ("select :a as a", &["_format=json", "a=1"], "-p: the statement has no parameter `_format`"),
        (
            "select map {1:id} as a",
            &[],
            "hint: add `-p id=VALUE`; if the colon belongs to SQL, write a space after it: `: id`",
        ),
        ("select :a as a", &[], "SQL:1:8: the parameter `a` has no value\n    hint: add `-p a=VALUE`"),
        ("select :a as a", &["a:integer=x"], "-p: parameter `a`: `x` is not an integer"),
        ("select :a as a", &["a=1", "a=2"], "-p: parameter `a`: it is given more than once"),
        ("select :a as a", &["a:text=1", "a:date=2"], "-p: parameter `a`: it has two types"),
        ("select :a as a", &["a=99999999999999999999"], "`-p a:text=VALUE`"),
    ] {
        let params: Vec<_> = params.iter().flat_map(|param| ["-p", *param]).collect();
        let ran = rowstream(&[&["query", &url, sql], &params[..]].concat()).await;
        assert_eq!((code(&ran), stdout(&ran)), (Some(1), String::new()), "{params:?}");
        assert!(stderr(&ran).contains(words), "{params:?}: {}", stderr(&ran));
    }
}

/// Commands that print whole lines panicked if their reader had gone.
#[tokio::test]
async fn a_reader_that_leaves_ends_every_command_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[source.db]\nurl = \"{}\"\n", sqlite(folder.path()));
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/t.sql", "select n from t")]).await;
    let url = server.url("/t");
    for arguments in [&["check", server.folder().to_str().unwrap()][..], &["token"], &["bench", &url]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran =
            Command::new(program()).args(arguments).stdout(writer.try_clone().unwrap()).output().unwrap();
        assert_eq!(code(&ran), Some(0), "{arguments:?}: {}", stderr(&ran));
        assert!(!stderr(&ran).contains("panicked"), "{}", stderr(&ran));
        // It also doesn't matter if standard error has no reader.
        let status =
            Command::new(program()).args(arguments).stdout(Stdio::null()).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(0), "{arguments:?}");
    }
}

/// SIGUSR1 ended the server immediately, but tools send it to reopen logs.
#[tokio::test]
async fn user_signals_do_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[source.db]\nurl = \"{}\"\n", sqlite(folder.path()));
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/t.sql", "select n from t")]).await;
    for name in ["USR1", "USR2"] {
        server.signal(name);
        assert_eq!(get(&server.url("/t")).await.text(), "[{\"n\":1},{\"n\":2}]", "{name}");
    }
}

#[test]
fn a_reader_that_leaves_ends_query_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let mut child = Command::new(program())
        .args(["query", &url, LONG])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = child.wait_with_output().unwrap();
    assert_eq!((code(&ran), stderr(&ran)), (Some(0), String::new()));
}

#[tokio::test]
async fn wrong_usage_exits_with_2() {
    for arguments in [
        &[][..],
        &["nothing"],
        &["query"],
        &["query", "sqlite:a.db"],
        &["query", "sqlite:a.db", "select 1", "--format", "xml"],
        &["query", "sqlite:a.db", "select 1", "-p", "noequals"],
        &["query", "sqlite:a.db", "select :a", "-p", "a:int=1"],
        &["serve", "--param", "a:integer"],
        &["query", "sqlite:a.db", "select 1", "--numbers", "text"],
        &["serve", "--log-format", "xml"],
        &["check", "a", "b"],
    ] {
        let ran = rowstream(arguments).await;
        assert_eq!((code(&ran), stdout(&ran)), (Some(2), String::new()), "{arguments:?}: {}", stderr(&ran));
    }
}

/// Runs `check` in a folder with these files.
async fn check(files: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    sqlite(folder.path());
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    rowstream(&["check", folder.path().join("rowstream.toml").to_str().unwrap()]).await
}

const SQLITE: &str = "[source.db]\nurl = \"sqlite:test.db\"\n";

#[tokio::test]
async fn check_shows_what_is_served() {
    let sql = "/*\nsummary = \"One\"\nresult = \"one\"\n[params]\nn = \"integer\"\nlike = { type = \"text\", default = \"a\" }\n*/
select n, s from t where n = :n and s like :like";
    let ran = check(&[
        ("rowstream.toml", SQLITE),
        ("endpoints/t/{n}.sql", sql),
        ("endpoints/t.sql", "select n from t"),
    ])
    .await;
    assert_eq!(code(&ran), Some(0), "{}", stderr(&ran));
    for words in [
        "source db: connected",
        "GET /t/{n}  [json, ndjson, csv, sse, json-seq, arrow]  One",
        "n integer (path, required)",
        "like text (query, default a)",
        "rows :one -> n integer, s text",
        "GET /t  [json, ndjson, csv, sse, json-seq, arrow]",
        "rows :many -> n integer",
    ] {
        assert!(stdout(&ran).to_lowercase().contains(&words.to_lowercase()), "{words}\n{}", stdout(&ran));
    }
}

/// Files that begin with `_` or end in `.SQL` were silently ignored, and their URLs returned an
/// unexplained 404.
#[tokio::test]
async fn files_that_are_not_served_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[source.db]\nurl = \"{}\"\n", sqlite(folder.path()));
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/t.sql", "select n from t"),
        ("endpoints/a/LOUD.SQL", "select n from t"),
        ("endpoints/Mixed.Toml", "sql = 'select n from t'"),
        ("endpoints/_draft.sql", "select"),
        ("endpoints/_drafts/below/x.sql", "select"),
        ("endpoints/_notes/readme.txt", "notes"),
        ("endpoints/_notes.txt", "notes"),
        ("endpoints/readme.txt", "notes"),
        ("endpoints/.hidden.sql", "select"),
    ];
    let checked = check(&files).await;
    assert_eq!(code(&checked), Some(0), "{}", stderr(&checked));
    let server = Server::start(&files).await;
    for told in [stderr(&checked), server.stderr()] {
        for words in [
            "a/LOUD.SQL is not served: names of endpoints end in `.sql` or `.toml`, in small letters\n    hint: rename ",
            "LOUD.SQL to `LOUD.sql`",
            "Mixed.Toml to `Mixed.toml`",
            "_draft.sql is not served: its name begins with `_`",
            "_drafts is not served: its name begins with `_`",
        ] {
            assert!(told.contains(words), "{words}\n{told}");
        }
        assert_eq!(told.matches("is not served").count(), 4, "{told}");
    }
    let only = check(&[("rowstream.toml", SQLITE), ("endpoints/T.SQL", "select n from t")]).await;
    assert_eq!(code(&only), Some(1));
    assert!(
        stderr(&only).contains("has no endpoints") && stderr(&only).contains("T.SQL to `T.sql`"),
        "{}",
        stderr(&only)
    );
}

/// Users first try the file itself. Errors were about UTF-8 and schemes.
#[tokio::test]
async fn what_was_meant_is_found_or_said() {
    let folder = tempfile::tempdir().unwrap();
    sqlite(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, missing, empty) = (path("test.db"), path("missing.db"), path("empty"));
    std::fs::create_dir(&empty).unwrap();
    let ran = rowstream(&["query", &file, "select n from t where n = :n", "-p", "n=2"]).await;
    assert_eq!((stdout(&ran), stderr(&ran)), ("{\"n\":2}\n".to_owned(), String::new()));
    let (sqlite_url, postgres) = (format!("sqlite:{file}"), "postgres://me:secret@127.0.0.1:1/d");
    for (arguments, words) in [
        (
            &["query", &missing, "select 1"][..],
            "missing.db`, and a URL begins with its scheme\n    hint: write `postgres://user@host/database`, `sqlite:FILE`",
        ),
        (&["query", &empty, "select 1"], "empty` is a folder, not a database"),
        (&["serve", postgres], "at `127.0.0.1:1` as user `me`, database `d`"),
        (
            &["serve", "oracle://me:secret@h/d"],
            "this is a URL, not a configuration\n    hint: name it in a rowstream.toml",
        ),
        (&["check", &file], &format!("`rowstream query {sqlite_url} 'select …'`")),
        (&["serve", &missing], "missing.db`\n    hint: `rowstream init` writes a configuration"),
        (&["check", &missing], "missing.db`\n    hint: `rowstream init` writes a configuration"),
        (
            &["check", &empty],
            &format!(
                "there is no rowstream.toml in the folder `{empty}`\n    hint: `rowstream init --dir {empty}` writes one"
            ),
        ),
        (&["serve", &empty], "there is no rowstream.toml in the folder"),
    ] {
        let ran = rowstream(arguments).await;
        assert_eq!((code(&ran), stdout(&ran)), (Some(1), String::new()), "{arguments:?}");
        let said = stderr(&ran);
        assert!(said.contains(words) && !said.contains("secret"), "{arguments:?}: {said}\n{words}");
    }
    // A folder means its configuration.
    std::fs::write(folder.path().join("rowstream.toml"), SQLITE).unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    std::fs::write(folder.path().join("endpoints/t.sql"), "select n from t").unwrap();
    let ran = rowstream(&["check", folder.path().to_str().unwrap()]).await;
    assert_eq!(code(&ran), Some(0), "{}", stderr(&ran));
    assert!(stdout(&ran).contains("GET /t"), "{}", stdout(&ran));
}

#[tokio::test]
async fn check_tells_every_fault_at_its_place() {
    let db = TestDb::new().await;
    db.execute("create table t(n integer, s text)").await;
    let postgres = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let files = [
        ("endpoints/a_table.sql", "/*\nsummary = \"é\"\n*/\nselect n\nfrom  missing", ":5:7"),
        ("endpoints/b_column.sql", "select n,\n  nothing from t", ":2:3"),
        (
            "endpoints/c_param.sql",
            "/*\n[params]\nlonger = \"integer\"\n*/\nselect n from t where n = :longer and\n    nothing = 1",
            ":6:5",
        ),
        ("endpoints/d_twice.sql", "select n, s as n from t", "called `n`"),
        ("endpoints/e_key.sql", "/*\nkey = [\"id\"]\n*/\nselect n from t", "`key` names `id`"),
        (
            "endpoints/f_second.sql",
            "/*\nbody = { a = \"$a\", b = \"$b\" }\n*/\n-- name: a :many\nselect n from t;\n-- name: b :many\nselect zz from t",
            ":7:8",
        ),
    ];
    for config in [postgres.as_str(), SQLITE] {
        let mut all: Vec<_> = files.iter().map(|(name, sql, _)| (*name, *sql)).collect();
        all.push(("rowstream.toml", config));
        let ran = check(&all).await;
        assert_eq!(code(&ran), Some(1));
        for (name, _, words) in files {
            let told = stderr(&ran);
            // SQLite reports no position for a missing table.
            let words = if config == SQLITE && name.contains("a_table") { "missing" } else { words };
            assert!(
                told.lines().any(|line| line.contains(name) && line.contains(words)),
                "{name} {words}:\n{told}"
            );
        }
        assert!(stderr(&ran).contains("6 errors"), "{}", stderr(&ran));
    }
}

/// After one error in `rowstream.toml` no SQL was checked, so users saw one error per run.
#[tokio::test]
async fn check_shows_errors_of_files_and_of_statements_together() {
    let files = [
        (
            "rowstream.toml",
            "max_streams = 0\n[source.db]\nurl = \"sqlite:test.db\"\n[source.far]\nurl = \"sqlite:none.db\"\n",
        ),
        ("endpoints/a.sql", "/*\nsource = \"db\"\nresult = \"oen\"\n*/\nselect missing from t"),
        ("endpoints/b.sql", "/*\nsource = \"db\"\n*/\nselect n,\n  missing\nfrom t"),
        ("endpoints/c.sql", "/*\nsource = \"db\"\n*/\nselect n from t"),
    ];
    let ran = check(&files).await;
    let said = stderr(&ran);
    assert_eq!(code(&ran), Some(1), "{said}");
    for words in [
        "rowstream.toml:1:15: `max_streams`",
        "a.sql:3:10: ",
        "b.sql:5:3: statement `rows`: no such column: missing (SQLite code 1)\n    5 |   missing\n      |   ^\n",
        "source far: error: the file of source `far` does not exist",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
    assert_eq!(said.lines().last(), Some("4 errors"), "{said}");
    assert!(stdout(&ran).contains("GET /c ") && !stdout(&ran).contains("OK"), "{}", stdout(&ran));

    let ran = check(&[("rowstream.toml", SQLITE), files[2], ("endpoints/b.sql", "select n from t")]).await;
    assert_eq!(stdout(&ran).lines().last(), Some("OK, 1 endpoint"), "{}", stderr(&ran));
}

#[tokio::test]
async fn check_writes_json() {
    let folder = tempfile::tempdir().unwrap();
    sqlite(folder.path());
    let config = format!("max_streams = 0\n{SQLITE}[source.far]\nurl = \"sqlite:none.db\"\n");
    let good = "/*\nsource = \"db\"\nsummary = \"One\"\nresult = \"one\"\nformats = [\"json\"]\n[params]
n = \"integer\"\nlike = { type = \"text\", default = \"a\", header = \"X-Like\" }\nids = { type = \"integer[]\", optional = true }\n*/
select n, s from t where n = :n and s like :like and :ids is null";
    let bad = "/*\nsource = \"db\"\n*/\nselect missing\nfrom t";
    for (name, text) in
        [("rowstream.toml", config.as_str()), ("endpoints/t/{n}.sql", good), ("endpoints/bad.sql", bad)]
    {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let file = |name: &str| folder.path().join(name).display().to_string();
    let config = file("rowstream.toml");
    let ran = rowstream(&["check", &config, "--format", "json"]).await;
    assert_eq!((code(&ran), stderr(&ran)), (Some(1), String::new()));
    let found: serde_json::Value = serde_json::from_str(&stdout(&ran)).unwrap();
    let errors = serde_json::json!([
        {
            "file": config, "line": 1, "column": 15, "code": "configuration", "sqlstate": null,
            "message": "`max_streams` must be an integer of at least 1", "hint": null, "endpoint": null, "source": null,
        },
        {
            "file": file("endpoints/bad.sql"), "line": 4, "column": 8, "code": "statement_failed", "sqlstate": null,
            "message": "statement `rows`: no such column: missing (SQLite code 1)", "hint": null, "endpoint": "/bad",
            "source": "db",
        },
        {
            "file": null, "line": null, "column": null, "code": "source_unavailable", "sqlstate": null,
            "message": format!("the file of source `far` does not exist: no file {}", file("none.db")),
            "hint": "`create` names the SQL scripts that create it", "endpoint": null, "source": "far",
        },
    ]);
    assert_eq!(found["errors"], errors);
    let caution = &found["sources"][0]["hosts"][0];
    assert!(
        caution["says"].as_str().is_some_and(|says| says.starts_with("it isn't in WAL mode")),
        "{caution}"
    );
    let database = serde_json::json!({ "name": file("test.db"), "says": caution["says"], "error": null });
    assert_eq!(
        found["sources"],
        serde_json::json!([{ "name": "db", "reached": true, "hosts": [database] }, { "name": "far", "reached": false, "hosts": [] }])
    );
    let parameter = |name: &str, kind: &str, place: &str| {
        serde_json::json!({
            "name": name, "type": kind, "list": false, "in": place, "header": null, "required": true, "default": null,
            "min": null, "max": null, "allowed": [], "summary": null,
        })
    };
    let mut like = parameter("like", "text", "header");
    (like["header"], like["required"], like["default"]) = ("x-like".into(), false.into(), "a".into());
    let mut ids = parameter("ids", "integer", "query");
    (ids["list"], ids["required"]) = (true.into(), false.into());
    let columns = [("n", "INTEGER"), ("s", "TEXT")];
    let columns = columns.map(|(name, kind)| serde_json::json!({ "name": name, "type": kind }));
    assert_eq!(
        found["endpoints"][1],
        serde_json::json!({
            "path": "/t/{n}", "file": file("endpoints/t/{n}.sql"), "source": "db", "summary": "One", "formats": ["json"],
            "parameters": [parameter("n", "integer", "path"), like, ids],
            "statements": [{ "name": "rows", "rows": "one", "nested_in": null, "columns": columns }],
        })
    );
    assert_eq!(found["endpoints"][0]["statements"][0]["columns"], serde_json::Value::Null);
}

#[tokio::test]
async fn check_tells_of_a_database_that_cannot_be_reached() {
    let config = "[source.db]\nurl = \"postgres://u:secret@127.0.0.1:1/d\"\n";
    let ran = check(&[("rowstream.toml", config), ("endpoints/a.sql", "select 1 as n")]).await;
    assert_eq!(code(&ran), Some(1));
    assert!(
        stderr(&ran).contains("source db: error: ") && !stderr(&ran).contains("secret"),
        "{}",
        stderr(&ran)
    );
}

#[tokio::test]
async fn faults_of_files_are_told_together() {
    let files = [
        (
            "rowstream.toml",
            "listen = 5\n[source.db]\nurl = \"sqlite:test.db\"\n[source.pg]\nurl = \"postgres:x\"\n",
        ),
        ("endpoints/a.sql", "/*\nsource = \"nothing\"\n*/\nselect 1"),
    ];
    let exit = Launch::files(&files).try_start().await.err().unwrap();
    let checked = check(&files).await;
    assert_eq!((exit.status.code(), code(&checked)), (Some(1), Some(1)));
    for told in [exit.stderr, stderr(&checked)] {
        for place in ["rowstream.toml:1:10", "rowstream.toml:5:7", "a.sql:2:10"] {
            assert!(told.contains(place), "{place}\n{told}");
        }
    }
}

#[tokio::test]
async fn a_taken_port_is_told_with_a_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let ran = rowstream(&["serve", &url, "--sql", "select 1 as n", "--listen", &address]).await;
    assert_eq!(code(&ran), Some(1));
    assert!(stderr(&ran).contains(&address) && stderr(&ran).contains("--listen"), "{}", stderr(&ran));
}

/// Runs `serve` with one statement at any free port.
async fn serve_statement(url: &str, sql: &str, more: &str) -> Result<Server, Exit> {
    // The helper always starts `serve CONFIG`, so we replace the command line.
    let script = format!("exec \"$0\" serve '{url}' --sql '{sql}' --listen 127.0.0.1:0 {more}");
    Launch::files(&[]).shell(&script).try_start().await
}

/// `serve` printed "listening on" for any statement, and then each request failed.
#[tokio::test]
async fn serve_does_not_start_with_a_statement_that_the_database_refuses() {
    let (folder, db) = (tempfile::tempdir().unwrap(), TestDb::new().await);
    let sql = "select 1 as n,\n  selec";
    let file = sqlite(folder.path());
    for (url, refusal) in [
        (file.clone(), "--sql:2:3: statement `rows`: no such column: selec (SQLite code 1)"),
        (db.url(), "--sql:2:3: statement `rows`: column \"selec\" does not exist (SQLSTATE 42703)"),
    ] {
        let exit = serve_statement(&url, sql, "").await.err().unwrap();
        assert_eq!(exit.status.code(), Some(1), "{}", exit.stderr);
        let refusal = format!("{refusal}\n    2 |   selec\n      |   ^");
        assert!(exit.stderr.contains(&refusal) && !exit.stderr.contains("listening"), "{}", exit.stderr);
        // It can be served anyway.
        let server = serve_statement(&url, sql, "--no-check").await.unwrap();
        assert_eq!(get(&server.url("/rows")).await.status, 500);
        assert_eq!(get(&server.url("/_rowstream/ready")).await.status, 200);
    }
    let url = db.url();
    let config = format!("[source.file]\nurl = \"{file}\"\n[source.pg]\nurl = \"{url}\"\n");
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/a.sql", "/*\nsource = \"pg\"\n*/\nselect * from nowhere"),
        ("endpoints/b.sql", "/*\nsource = \"file\"\n*/\nselect n from t"),
        ("endpoints/c.sql", "/*\nsource = \"file\"\nkey = [\"id\"]\n*/\nselect n from t"),
        ("endpoints/d.sql", "/*\nsource = \"pg\"\n*/\nselect 1 as n, 2 as n"),
    ];
    let exit = Launch::files(&files).try_start().await.err().unwrap();
    assert_eq!(exit.status.code(), Some(1), "{}", exit.stderr);
    let places: Vec<_> = exit.stderr.lines().filter_map(|line| line.split_once("endpoints/")).collect();
    let places: Vec<_> = places.iter().filter_map(|(_, rest)| rest.split_once(": ")).collect();
    let places: Vec<_> = places.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, ["a.sql:4:15", "c.sql:3:7", "d.sql:4:1"], "{}", exit.stderr);
}

/// The only message was that the source couldn't be reached. PostgreSQL's own message says what to
/// fix.
#[tokio::test]
async fn commands_say_why_a_database_does_not_let_them_in() {
    let db = TestDb::new().await;
    let (port, name) = (pg_port(), db.name());
    let at = format!("at `localhost:{port}` as user `scram_user`, database `{name}`");
    let wrong = Login { password: "hunter2x", ..logins::SCRAM };
    let unknown = Login { user: "no_such_user", password: "hunter2x" };
    for (url, cause) in [
        (
            db.url_of(&wrong, ""),
            format!("password authentication failed for user \"scram_user\" (SQLSTATE 28P01), {at}"),
        ),
        (
            db.url_of(&unknown, ""),
            format!(
                "no pg_hba.conf entry for host \"127.0.0.1\", user \"no_such_user\", database \"{name}\", SSL encryption (SQLSTATE 28000), at `localhost:{port}` as user `no_such_user`, database `{name}`"
            ),
        ),
        (
            format!("postgres://postgres:hunter2x@127.0.0.1:{port}/no_such_database"),
            format!(
                "database \"no_such_database\" does not exist (SQLSTATE 3D000), at `127.0.0.1:{port}` as user `postgres`, database `no_such_database`"
            ),
        ),
        (
            "postgres://me:hunter2x@127.0.0.1:1/shop".to_owned(),
            "Connection refused (os error 111), at `127.0.0.1:1` as user `me`, database `shop`".to_owned(),
        ),
    ] {
        let queried = rowstream(&["query", &url, "select 1"]).await;
        let config = format!("[source.main]\nurl = \"{url}\"\n");
        let checked =
            check(&[("rowstream.toml", config.as_str()), ("endpoints/a.sql", "select 1 as n")]).await;
        assert_eq!((code(&queried), code(&checked)), (Some(1), Some(1)));
        let server = serve_statement(&url, "select 1 as n", "").await.unwrap();
        for said in [stderr(&queried), stderr(&checked), server.stderr()] {
            assert!(said.contains(&cause), "{cause}\n{said}");
            assert!(!said.contains("hunter2x"), "{said}");
        }
        // HTTP clients don't see the reason.
        for path in ["/rows", "/_rowstream/ready"] {
            let reply = get(&server.url(path)).await;
            assert_eq!(reply.json()["detail"], "source `database` cannot be reached", "{}", reply.text());
            assert!(!reply.text().contains("user") && !reply.text().contains("exist"), "{}", reply.text());
        }
    }
}

#[tokio::test]
async fn one_statement_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let server =
        serve_statement(&url, "select n from t where s = :s limit :n", "--param s:text --param n:integer=")
            .await
            .unwrap();
    assert_eq!(get(&server.url("/rows?s=b")).await.text(), "[{\"n\":2}]");
    assert_eq!(get(&server.url("/rows?s=b&n=0")).await.text(), "[]");
    assert_eq!(get(&server.url("/rows")).await.status, 400);
    let sql = "select n from t where s = :s";
    for (params, words) in [
        (
            &[][..],
            "--sql:1:27: the type of the parameter `s` is not declared\n    hint: add `--param s:integer`",
        ),
        (&["--param", "s=a"], "the type of the parameter `s` is not declared"),
        (&["--param", "s:text", "--param", "x:text"], "--param: the statement has no parameter `x`"),
        (&["--param", "s:date=b"], "--param: parameter `s`: `b` is not a date"),
    ] {
        let ran = rowstream(&[&["serve", &url, "--sql", sql], params].concat()).await;
        assert_eq!(code(&ran), Some(1), "{params:?}");
        assert!(stderr(&ran).contains(words), "{params:?}: {}", stderr(&ran));
    }
}

async fn logged(format: &str) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[source.db]\nurl = \"{}\"\n", sqlite(folder.path()));
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/t.sql", "select n from t"),
        ("endpoints/late.sql", FAILS_LATE),
    ];
    let server = Launch::files(&files).argument("--log-format").argument(format).start().await;
    for path in ["/t", "/late", "/none"] {
        get(&server.url(path)).await;
    }
    (server, folder)
}

#[tokio::test]
async fn requests_are_logged_as_json() {
    let (server, _folder) = logged("json").await;
    server.wait_for_stdout("no_endpoint").await;
    let said = server.stdout();
    let lines: Vec<serde_json::Value> =
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for (line, target, status, outcome, rows) in [
        (0, "/t", 200, "complete", 2),
        (1, "/late", 200, "failed", 49_999),
        (2, "/none", 404, "client_error", 0),
    ] {
        let line = &lines[line];
        assert_eq!(
            (&line["target"], &line["status"], &line["outcome"]),
            (&target.into(), &status.into(), &outcome.into()),
            "{line}"
        );
        assert_eq!(line["rows"], rows, "{line}");
        for phase in ["ms", "pool_ms", "database_ms", "encode_ms", "client_ms"] {
            assert!(line[phase].is_number(), "{phase} {line}");
        }
    }
    assert_eq!(lines[0]["bytes"], 17);
    assert_eq!(lines[1]["code"], "bad_value");
}

/// A target can contain characters beyond ASCII. Some of them are a control sequence introducer
/// (U+009B) for terminals, or line ends (U+0085, U+2028) for tools that read logs.
#[tokio::test]
async fn a_target_cannot_forge_log_lines() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (server, _folder) = logged("text").await;
    let mut socket = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let request = "GET /t?ab\u{85}c\u{9b}d\u{2028}e HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    socket.read_to_end(&mut Vec::new()).await.unwrap();
    server.wait_for_stdout("/t?a").await;
    let said = server.stdout();
    let line = said.lines().find(|line| line.contains("/t?a")).unwrap();
    assert!(!line.contains(|c: char| c.is_control() || c == '\u{2028}'), "{line:?}");
    for words in [
        " GET /t HTTP/1.1 200 complete rows=2 bytes=17 ms=",
        " pool=",
        " database=",
        " encode=",
        " client=",
        "/none HTTP/1.1 404 client_error",
    ] {
        assert!(server.stdout().contains(words), "{words}\n{}", server.stdout());
    }
}

#[tokio::test]
async fn shells_complete_each_command_and_man_has_a_page_of_it() {
    let help = rowstream(&["--help"]).await;
    let help = String::from_utf8_lossy(&help.stdout);
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let entries = commands.lines().take_while(|line| !line.is_empty());
    // The description of a command may have several lines.
    let entries = entries.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = entries.filter_map(|entry| entry.split(' ').next()).filter(|name| *name != "help");
    let names: Vec<_> = names.collect();
    assert!(names.contains(&"serve") && names.contains(&"man"), "{names:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = rowstream(&["completions", shell]).await;
        let text = String::from_utf8_lossy(&script.stdout);
        assert!(script.status.success() && text.contains("listen"), "{shell}");
        assert!(names.iter().all(|name| text.contains(name)), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    assert!(rowstream(&["man", "--dir", dir]).await.status.success());
    for name in names.iter().map(|name| format!("rowstream-{name}.1")).chain(["rowstream.1".to_owned()]) {
        let page = std::fs::read_to_string(folder.path().join(&name)).unwrap_or_else(|_| panic!("no {name}"));
        assert!(page.contains(".SH NAME"), "{name}");
    }
    let missing = rowstream(&["man", "--dir", "/there/is/none"]).await;
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot write to /there/is/none"));
}

#[tokio::test]
async fn the_version_is_told() {
    let version = rowstream(&["-V"]).await;
    let text = String::from_utf8_lossy(&version.stdout);
    assert!(text.starts_with(concat!("rowstream ", env!("CARGO_PKG_VERSION"))), "{text}");
}
