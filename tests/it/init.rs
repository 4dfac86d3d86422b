//! `rowstream init` writes a configuration that works immediately, and overwrites nothing.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::drivers::duckdb;
use crate::support::logins::SCRAM;
use crate::support::{Launch, MariaDb, Server, TestDb, get, mariadb_port, program, repository, rowstream};

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
    assert_eq!(get(&server.url("/readings/1")).await.json(), serde_json::from_str::<Value>(row).unwrap());
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
        (
            "uneven.csv",
            "uneven.csv: line 3: the row has 1 value instead of 2\n    hint: write `,` for each empty",
        ),
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
/// two rows. An empty file was an SQLite error, and errors about encodings had no hint. Text and spaces
/// behind a closing quote lost the quote.
#[tokio::test]
async fn a_csv_that_cannot_be_read_leaves_nothing() {
    for (bytes, expected) in [
        (&b"id,t\n1,\"abc\n2,b\n"[..], "u.csv: line 2: the quote isn't closed\n    hint: close it, or write"),
        (
            b"id,t\n1,\"abc\n2,\"b\"\n",
            "u.csv: line 2: the quote ends on line 3 with text behind it\n    hint: a quote within a quoted",
        ),
        (b"id,t\n1,\"a\" b\n", "u.csv: line 2: the quote ends on line 2 with text behind it\n    hint: "),
        (b"sep=,\nid,t\n1,\"abc\n", "u.csv: line 3: the quote isn't closed\n"),
        (b"", "u.csv: the file is empty\n    hint: its first line has the names"),
        (b"\xef\xbb\xbf\n\n", "u.csv: the file is empty\n"),
        (b"sep=;\r\n", "u.csv: the file is empty\n"),
        (
            b"sep=;\nid;t\n1;a;b\n",
            "u.csv: line 3: the row has 3 values instead of 2\n    hint: write a value that contains `;` in quotes: \
             `\"a;b\"`\n",
        ),
        (
            b"id,t\r1,a\r2\r",
            "u.csv: line 3: the row has 1 value instead of 2\n    hint: write `,` for each empty",
        ),
        (b"id\n\n1,2\n", "u.csv: line 3: the row has 2 values instead of 1\n"),
        (
            b"t\r\na\rb\r\n",
            "u.csv: line 2: only some lines end with CR alone\n    hint: end all lines with LF",
        ),
        (
            b"id,t\n1,a\n2,\"b\n\0\"\n",
            "u.csv: line 4: there's a NUL byte\n    hint: remove it: `tr -d '\\0' < u.csv > clean-u.csv`\n",
        ),
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

/// Empty lines of a CSV with one column were left out, although each is a row, as in PostgreSQL and DuckDB.
/// The separator was wrong if the file began with an empty line, or if a name had a line end.
#[tokio::test]
async fn a_csv_keeps_its_rows_and_columns() {
    for (csv, expected) in [
        ("v\n1\n\n2\n\n", r#"[{"v":1},{"v":null},{"v":2},{"v":null}]"#),
        ("\n\nv\r\n1\r\n\r\n2", r#"[{"v":1},{"v":null},{"v":2}]"#),
        ("v\r\r1\r", r#"[{"v":null},{"v":1}]"#),
        ("\u{feff}v;w\n\n1;2\n\n\n3;\n\n", r#"[{"v":1,"w":2},{"v":3,"w":null}]"#),
        ("\n\nv;w\n1,5;2\n", r#"[{"v":"1,5","w":2}]"#),
        ("\"v\n,,\";w\n1;2\n", r#"[{"v\n,,":1,"w":2}]"#),
        ("SEP=|\nv|w\n1|2\n", r#"[{"v":1,"w":2}]"#),
        (
            "v,w\n1,5\" \"screw\"\n2,\"a \"\"b\"\"\"\n3, \"c\"\n4,\"d\" \n",
            r#"[{"v":1,"w":"5\" \"screw\""},{"v":2,"w":"a \"b\""},{"v":3,"w":" \"c\""},{"v":4,"w":"d "}]"#,
        ),
        ("v,w\n31/12/2024,NaN\n", r#"[{"v":"31/12/2024","w":"NaN"}]"#),
        ("v,w\n", "[]"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("u.csv");
        std::fs::write(&file, csv).unwrap();
        let made = folder.path().join("served");
        let ran = rowstream(&["init", file.to_str().unwrap(), "--dir", made.to_str().unwrap()]).await;
        assert_eq!(ran.status.code(), Some(0), "{csv:?}: {}", text(&ran.stderr));
        assert_eq!(text(&ran.stderr).matches("u.csv: column").count(), 0, "{csv:?}: {}", text(&ran.stderr));
        let server = Launch::folder(&made).start().await;
        assert_eq!(get(&server.url("/u?limit=9")).await.text(), expected, "{csv:?}");
    }
}

/// SQLite's own messages have no remedy.
#[tokio::test]
async fn a_csv_that_sqlite_cannot_have_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..2001).map(|number| format!("c{number}")).collect();
    for (name, text_of_file, expected) in [
        (
            "SQLite_x.csv",
            "id\n1\n",
            "SQLite reserves names that begin with `sqlite_`\n    hint: rename the file\n",
        ),
        ("wide.csv", &*names.join(","), "wide.csv: a table of SQLite has at most 2000 columns\n    hint: "),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, text_of_file).unwrap();
        let made = folder.path().join("served");
        let ran = rowstream(&["init", file.to_str().unwrap(), "--dir", made.to_str().unwrap()]).await;
        assert_eq!(ran.status.code(), Some(1), "{expected}");
        assert!(text(&ran.stderr).contains(expected), "{}", text(&ran.stderr));
        assert!(!made.exists() && !file.with_extension("db").exists());
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

/// Foreign keys of all kinds: several to one table, to the table itself, of several columns, to a
/// key that isn't the primary key, and to a table that isn't served. Two tables would have the same
/// file, and two lists the same path, which is the one with its table's own name.
const LINKED: &str = r#"
    create table customer (id integer primary key, code varchar(9) not null unique);
    create table address (id integer primary key);
    create table orders (id integer primary key, customer_id integer, billing integer, shipping integer,
      foreign key (customer_id) references customer (id), foreign key (billing) references address (id),
      foreign key (shipping) references address (id));
    create table coupon (id integer primary key, code varchar(9), foreign key (code) references customer (code));
    create table employee (id integer primary key, manager_id integer,
      foreign key (manager_id) references employee (id));
    create table pair (region varchar(9), number integer, primary key (number, region));
    create table "Of ""pairs"" 's" (id integer primary key, "n 1" integer, "R" varchar(9),
      foreign key ("n 1", "R") references pair (number, region));
    create table "of -pairs- -s" (id integer primary key);
    create table orders_by_billing (id integer primary key, of integer, foreign key (of) references address (id));
    create table "a/b" (id integer primary key);
    create table slashed (id integer primary key, "x/y" integer, z integer, w integer,
      foreign key ("x/y") references employee (id), foreign key (z) references employee (id),
      foreign key (w) references "a/b" (id));
    insert into customer values (1, 'a'), (2, 'b');
    insert into address values (1), (2);
    insert into orders values (1, 1, 1, 2), (2, 2, 2, 2), (3, 1, 1, 1);
    insert into coupon values (7, 'b'), (8, 'a'), (9, null);
    insert into employee values (1, null);
    insert into employee values (2, 1), (3, 1);
    insert into pair values ('eu', 1), ('us', 1);
    insert into "Of ""pairs"" 's" values (1, 1, 'eu'), (2, 1, 'us');
    insert into "of -pairs- -s" values (5);
    insert into orders_by_billing values (4, 1);
    insert into "a/b" values (1);
    insert into slashed values (1, 1, 2, 1)
"#;

/// Paths of [`LINKED`] and the ids of their rows.
const LISTS: [(&str, &[i64]); 15] = [
    ("/customer", &[1, 2]),
    ("/customer/1/orders", &[1, 3]),
    ("/customer/1/orders?limit=9&id=gt.1", &[3]),
    ("/customer/9/orders", &[]),
    ("/customer/2/coupon", &[7]),
    ("/address/1/orders_by_billing", &[4]),
    ("/address/2/orders_by_shipping", &[1, 2]),
    ("/employee/1/employee_by_manager_id", &[2, 3]),
    ("/employee/2/slashed_by_z", &[1]),
    ("/pair/1/us/Of%20%22pairs%22%20's", &[2]),
    ("/of%20-pairs-%20-s", &[5]),
    ("/Of%20%22pairs%22%20's", &[1, 2]),
    ("/orders_by_billing", &[4]),
    ("/coupon", &[7, 8, 9]),
    ("/slashed", &[1]),
];

/// Runs `rowstream`, with the URL of the database and the driver of DuckDB in its environment.
async fn run(arguments: &[&str], url: &str) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).env("DATABASE_URL", url).env("ROWSTREAM_DUCKDB", duckdb_or_none());
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

fn duckdb_or_none() -> String {
    std::env::var("ROWSTREAM_TEST_DUCKDB").unwrap_or_default()
}

async fn start(launch: Launch, url: &str) -> Server {
    launch.variable("DATABASE_URL", url).variable("ROWSTREAM_DUCKDB", &duckdb_or_none()).start().await
}

async fn listed(server: &Server) -> Vec<Value> {
    get(&server.url("/")).await.json()["endpoints"].as_array().unwrap().clone()
}

/// The files of `init URL --all`, which `check` accepts, and a server of them. `serve URL` has the
/// same endpoints.
async fn serves_all(url: &str) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let ran = run(&["init", url, "--all", "--dir", dir], url).await;
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let ran = run(&["check", dir], url).await;
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let server = start(Launch::folder(folder.path()), url).await;
    let of_tables = Launch::files(&[]).shell("exec \"$0\" serve \"$DATABASE_URL\" --listen 127.0.0.1:0");
    let of_tables = start(of_tables, url).await;
    let by_path = |one: &Value| one["path"].as_str().unwrap().to_owned();
    let (mut files, mut tables) = (listed(&server).await, listed(&of_tables).await);
    files.sort_by_key(by_path);
    tables.sort_by_key(by_path);
    assert_eq!(files, tables);
    (folder, server)
}

async fn ids(server: &Server, path: &str) -> Vec<i64> {
    let reply = get(&server.url(path)).await;
    assert_eq!(reply.status.as_u16(), 200, "{path}: {}", reply.text());
    reply.json().as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

/// Checks for each database with the tables of [`LINKED`].
async fn links_all(url: &str) {
    let (folder, server) = serves_all(url).await;
    // Names that differ only by case would be one file on some systems.
    let mut files = names(&folder.path().join("endpoints"));
    files.iter_mut().for_each(|name| name.make_ascii_lowercase());
    let count = files.len();
    files.sort_unstable();
    files.dedup();
    assert_eq!(files.len(), count);
    for (path, expected) in LISTS {
        assert_eq!(ids(&server, path).await, expected, "{path}");
    }
    for path in ["/address/1/orders", "/customer/1/orders_by_customer_id", "/employee/1/slashed", "/a/b"] {
        assert_eq!(get(&server.url(path)).await.status.as_u16(), 404, "{path}");
    }
    let reply = get(&server.url("/customer/1/orders?limit=1")).await;
    let link = reply.header("link").unwrap();
    let next = link.strip_prefix('<').unwrap().split_once('>').unwrap().0;
    assert_eq!(ids(&server, &format!("/customer/1/orders{next}")).await, [3]);
    let all = listed(&server).await;
    let of = |path: &str| all.iter().find(|one| one["path"] == path).unwrap();
    let summary = of("/orders")["summary"].as_str().unwrap();
    let mut seen: Vec<_> = summary.split_once("; see ").unwrap().1.split(", ").collect();
    seen.sort_unstable();
    assert_eq!(seen, ["/address/{shipping}", "/customer/{customer_id}"]);
    assert_eq!(of("/coupon/{id}")["summary"], "One row of table coupon");
    let summary = of("/pair/{key_1}/{R}/Of \"pairs\" 's")["summary"].as_str().unwrap();
    assert_eq!(summary, "Rows of table Of \"pairs\" 's that refer to one row of table pair by n 1, R");
    let said = warnings(url).await;
    assert_eq!(said.matches("foreign keys without a list").count(), 1, "{said}");
    let expected = [
        "`orders (billing)`: another list has its path",
        "`slashed (x/y)`: a segment of a path can't contain",
    ];
    assert!(expected.iter().all(|one| said.contains(one)), "{said}");
}

/// The warnings of `init URL --all`.
async fn warnings(url: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(&["init", url, "--all", "--dir", folder.path().to_str().unwrap()], url).await;
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    text(&ran.stderr)
}

/// Checks that the paths of lists are these, and that a warning names each of the other keys.
async fn links_only(url: &str, expected: &[&str], left_out: &[&str]) -> (tempfile::TempDir, Server) {
    let (folder, server) = serves_all(url).await;
    let all = listed(&server).await;
    let links = all.iter().filter_map(|one| one["path"].as_str()).filter(|path| path.contains("}/"));
    let mut links: Vec<_> = links.filter(|path| !path.ends_with('}')).collect();
    links.sort_unstable();
    assert_eq!(links, expected);
    let said = warnings(url).await;
    for key in left_out {
        assert!(said.contains(&format!("`{key}`: ")), "{key}: {said}");
    }
    (folder, server)
}

#[tokio::test]
async fn all_tables_of_sqlite_are_linked() {
    let folder = tempfile::tempdir().unwrap();
    links_all(&sqlite(&folder.path().join("shop.db"), LINKED)).await;
}

#[tokio::test]
async fn all_tables_of_postgres_are_linked() {
    let db = TestDb::new().await;
    db.execute(LINKED).await;
    links_all(&db.url()).await;
}

#[tokio::test]
async fn all_tables_of_mariadb_are_linked() {
    let db = MariaDb::new(&format!("set sql_mode = 'ANSI_QUOTES'; {LINKED}"));
    links_all(&db.url()).await;
}

#[tokio::test]
async fn duckdb_tables_are_linked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.duckdb");
    let writer = format!("adbc:{}?entrypoint=duckdb_adbc_init&path={}", duckdb(), file.display());
    for statement in LINKED.split(';').map(str::trim) {
        let ran = rowstream(&["query", &writer, statement]).await;
        assert!(ran.status.success(), "{statement}: {}", text(&ran.stderr));
    }
    links_all(&format!("duckdb:{}", file.display())).await;
}

/// SQLite has the names of a foreign key as they're written, and no columns if they're the primary
/// key. A key may refer to a table that doesn't exist, and a name may be too long for a file.
#[tokio::test]
async fn sqlite_foreign_keys_have_the_names_of_their_tables() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "pragma foreign_keys = off; create table Customer (Id integer primary key, Code text unique);
        create table one (id integer primary key, c integer references CUSTOMER);
        create table two (id integer primary key, c text references customer(cODE), gone integer references lost);
        create table tags (tag text primary key collate nocase) without rowid;
        create table tagged (id integer primary key, tag text references tags);
        create view totals as select count(*) as n from one; create table long as select 3 as id;
        insert into Customer values (1, 'x'); insert into one values (4, 1); insert into two values (5, 'x', 1);
        pragma writable_schema = on;
        update sqlite_schema set sql = replace(sql, 'nocase', 'unicase')";
    let long = "x".repeat(300);
    let sql = sql.replace("long", &long);
    let (dir, server) = serves_all(&sqlite(&folder.path().join("a.db"), &sql)).await;
    assert_eq!(ids(&server, &format!("/{long}")).await, [3]);
    assert_eq!(ids(&server, "/Customer/1/one").await, [4]);
    assert_eq!(ids(&server, "/Customer/1/two").await, [5]);
    assert_eq!(
        names(&dir.path().join("endpoints")),
        [
            "Customer",
            "Customer.sql",
            "one",
            "one.sql",
            "tagged",
            "tagged.sql",
            "totals.sql",
            "two",
            "two.sql",
            &format!("{}.sql", &long[..200])
        ]
    );
}

/// A parameter can't have the name of a control parameter, so the whole start failed. Another
/// column already has the name of the replacement, or the name is too long for a folder.
#[tokio::test]
async fn foreign_keys_may_have_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(300);
    let reserved = ["select", "order", "limit", "offset", "and", "or"];
    let columns: String = reserved.map(|name| format!(", \"{name}\" integer references p")).concat();
    let sql = format!(
        "create table p (id integer primary key); insert into p values (1), (2);
        create table c (id integer primary key, key_1 integer{columns}, {long} integer references p);
        insert into c values (1, 9, 1, 1, 1, 1, 1, 1, 1), (2, 9, 2, 2, 2, 2, 2, 2, 2);
        create table \"or\" (\"order\" integer, key_1 integer, id integer, primary key (\"order\", key_1));
        insert into \"or\" values (1, 2, 3)"
    );
    let (_folder, server) = serves_all(&sqlite(&folder.path().join("a.db"), &sql)).await;
    for name in reserved.into_iter().chain([long.as_str()]) {
        assert_eq!(ids(&server, &format!("/p/2/c_by_{name}")).await, [2]);
        assert_eq!(ids(&server, &format!("/p/2/c_by_{name}?key_1=eq.8")).await, [0; 0]);
        assert_eq!(ids(&server, &format!("/p/2/c_by_{name}?key_1=eq.9")).await, [2]);
    }
    assert_eq!(get(&server.url("/or/1/2")).await.json()["id"], 3);
}

/// A column that SQLite couldn't resolve was left out, and the rest of its key was added to another
/// key.
#[tokio::test]
async fn sqlite_foreign_keys_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "pragma foreign_keys = off;
        create table p (id integer primary key, code integer unique);
        create table made (id integer primary key, a integer, b integer as (a + 1) stored, unique (a, b));
        create table pair (x integer, y integer, primary key (x, y));
        create table c (id integer primary key, a integer, b integer, d integer references pair,
          e integer references p (code) references p (id), f integer references p (gone),
          foreign key (a, b) references made (a, b), foreign key (d, e) references pair (gone, y));
        insert into p values (1, 2), (2, 1); insert into made (id, a) values (7, 1), (8, 2);
        insert into c values (1, 1, 2, 5, 1, null), (2, 1, 3, 5, 1, null), (3, 2, 3, 5, 2, null)";
    let left_out = ["c (d)", "c (f)", "c (d, e)"];
    let expected = ["/made/{id}/c", "/p/{e}/c"];
    let file = sqlite(&folder.path().join("a.db"), sql);
    let (_folder, server) = links_only(&file, &expected, &left_out).await;
    assert_eq!(ids(&server, "/made/7/c").await, [1]);
    assert_eq!(ids(&server, "/made/8/c").await, [3]);
    // Of two keys with the same column, the one to the primary key is used.
    assert_eq!(ids(&server, "/p/1/c").await, [1, 2]);
}

/// Columns of different types or collations are compared otherwise than the foreign key does it:
/// lists had rows of another key, or none.
#[tokio::test]
async fn sqlite_foreign_keys_have_one_type_and_collation() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "create table p (id integer primary key); create table t (id text primary key);
        create table nocase (id text primary key collate nocase); create table plain (id varchar(9) primary key);
        create table ints (id integer primary key, n bigint references p, s text references p, u references p,
          r real references p);
        create table texts (id integer primary key, c char(5) references t, i int references t,
          k text references nocase);
        create table collated (id integer primary key, p text collate nocase references plain, n int references p)";
    let expected = ["/p/{n}/collated", "/p/{n}/ints", "/t/{c}/texts"];
    let left_out = ["ints (s)", "ints (u)", "ints (r)", "texts (i)", "texts (k)", "collated (p)"];
    links_only(&sqlite(&folder.path().join("a.db"), sql), &expected, &left_out).await;
}

#[tokio::test]
async fn postgres_foreign_keys_have_one_type_and_collation() {
    let db = TestDb::new().await;
    // PostgreSQL 18 refuses such a key.
    let is_refused = db.version().await >= 18;
    let other_collation = if is_refused { "" } else { ", o text references k" };
    db.execute(&format!(
        "create collation alike (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
        create table p (id bigint primary key, code int not null unique, name text collate alike unique);
        create table t (id varchar(5) primary key); create table k (id text collate alike primary key);
        create table c (id int primary key, small smallint references p, big bigint references p,
          v varchar(9) references t, x text references t, k text collate alike references k{other_collation});
        insert into k values ('a'); insert into c (id, k) values (1, 'A');
        create table old (id int primary key, code int unique); create table older (id int) inherits (old);
        insert into old values (1, 1), (2, 2); insert into older values (1, 2);
        create table of_old (id int primary key, o int references old (code))"
    ))
    .await;
    let expected = ["/k/{k}/c", "/p/{big}/c", "/t/{v}/c"];
    let mut left_out = vec!["c (small)", "c (x)", "of_old (o)"];
    left_out.extend((!is_refused).then_some("c (o)"));
    let (_folder, server) = links_only(&db.url(), &expected, &left_out).await;
    assert_eq!(ids(&server, "/k/a/c").await, [1]);
}

/// MariaDB compares enums of a foreign key by their numbers.
#[tokio::test]
async fn mariadb_foreign_keys_have_one_type_and_collation() {
    let db = MariaDb::new(
        "create table p (id enum('a', 'b') primary key); create table n (id int(9) primary key);
        create table t (id varchar(5) primary key);
        create table c (id int primary key, e enum('b', 'a'), s enum('a', 'b'), n int(7), t varchar(9),
          foreign key (e) references p (id), foreign key (s) references p (id),
          foreign key (n) references n (id), foreign key (t) references t (id));
        insert into p values ('a'), ('b'); insert into c values (1, 'b', 'b', null, null)",
    );
    let expected = ["/n/{n}/c", "/p/{s}/c", "/t/{t}/c"];
    let (_folder, server) = links_only(&db.url(), &expected, &["c (e)"]).await;
    assert_eq!(ids(&server, "/p/b/c").await, [1]);
}

/// A role that can read only some columns has no part of a foreign key.
#[tokio::test]
async fn mariadb_foreign_keys_are_whole() {
    let db = MariaDb::new(
        "create table p (x int, y int, primary key (x, y)); create table o (id int primary key);
        create table c (id int primary key, o int, a int, b int, foreign key (o) references o (id),
          foreign key (a, b) references p (x, y));
        insert into p values (1, 2), (1, 3); insert into c values (1, null, 1, 2)",
    );
    let user = format!("{}_part", db.name());
    db.execute(&format!("create user {user}"));
    for granted in ["select on p", "select on o", "select (id, o, a) on c"] {
        db.execute(&format!("grant {granted} to {user}"));
    }
    let url = format!("mysql://{user}@127.0.0.1:{}/{}?ssl-mode=disabled", mariadb_port(), db.name());
    links_only(&url, &[], &[]).await;
    db.execute(&format!("drop user {user}"));
}

/// Keys of types that are cast, partitions, other schemas, and a role that may not read a table.
#[tokio::test]
async fn postgres_foreign_keys_are_those_that_the_role_can_follow() {
    let db = TestDb::new().await;
    let role = SCRAM.user;
    db.execute(&format!(
        "create schema other; create table other.mood (id integer primary key);
        create type mood as enum ('glad', 'sad');
        create table moods (mood mood primary key); insert into moods values ('glad'), ('sad');
        create table hidden (id integer primary key);
        create table person (id integer primary key, mood mood references moods, other integer references other.mood,
          h integer references hidden, again mood references moods);
        alter table person add foreign key (mood) references moods;
        insert into person values (1, 'sad', null, null, 'glad'), (2, 'glad', null, null, null);
        create table parts (id integer primary key) partition by range (id);
        create table part_one partition of parts for values from (0) to (9); insert into parts values (1);
        create table of_parts (id integer primary key, p integer references parts) partition by range (id);
        create table of_parts_one partition of of_parts for values from (0) to (9); insert into of_parts values (3, 1);
        grant select on moods, person, parts, of_parts to {role}"
    ))
    .await;
    let (_folder, server) = serves_all(&db.url_of(&SCRAM, "sslmode=disable")).await;
    assert_eq!(ids(&server, "/moods/sad/person_by_mood").await, [1]);
    assert_eq!(ids(&server, "/moods/glad/person_by_again").await, [1]);
    assert_eq!(ids(&server, "/parts/1/of_parts").await, [3]);
    let all = listed(&server).await;
    let links = all.iter().filter_map(|one| one["path"].as_str()).filter(|path| path.contains("}/"));
    let expected = ["/moods/{again}/person_by_again", "/moods/{mood}/person_by_mood", "/parts/{p}/of_parts"];
    assert_eq!(links.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn mariadb_foreign_keys_need_no_more_than_select() {
    let db = MariaDb::new(
        "create table Customer (Id int primary key); create table secret (id int primary key);
        create table orders (id int primary key, CUSTOMER_ID int, s int,
          foreign key (customer_id) references Customer (ID), foreign key (s) references secret (id));
        insert into Customer values (1); insert into orders values (5, 1, null)",
    );
    let user = format!("{}_some", db.name());
    db.execute(&format!("create user {user}"));
    for table in ["Customer", "orders"] {
        db.execute(&format!("grant select on {table} to {user}"));
    }
    let url = format!("mysql://{user}@127.0.0.1:{}/{}?ssl-mode=disabled", mariadb_port(), db.name());
    let (_folder, server) = serves_all(&url).await;
    assert_eq!(ids(&server, "/Customer/1/orders").await, [5]);
    assert_eq!(listed(&server).await.len(), 5);
    db.execute(&format!("drop user {user}"));
}

#[tokio::test]
async fn tables_are_chosen_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let script = std::fs::read_to_string(repository().join("examples/shop/data.sql")).unwrap();
    let shop = sqlite(&folder.path().join("shop.db"), &script);
    let init = async |arguments: &[&str]| {
        let ran = rowstream(&[&["init", &shop], arguments].concat()).await;
        (ran.status.code(), text(&ran.stderr))
    };
    let files = |dir: &str| names(&Path::new(dir).join("endpoints"));

    let first = path("first");
    let (status, said) = init(&["--dir", &first]).await;
    assert!(status == Some(0) && said.contains("2 more tables and views: `--all` writes them too"), "{said}");
    assert_eq!(files(&first), ["customer", "customer.sql"]);

    let two = path("two");
    let (status, said) = init(&["--table", "orders", "--table", "reading", "--dir", &two]).await;
    assert!(status == Some(0) && !said.contains("more tables"), "{said}");
    assert_eq!(files(&two), ["orders", "orders.sql", "reading", "reading.sql"]);
    let orders = std::fs::read_to_string(Path::new(&two).join("endpoints/orders.sql")).unwrap();
    assert!(!orders.contains("/customer/"), "a summary shows a path that isn't written: {orders}");

    for (arguments, status, expected) in [
        (
            &["--table", "custmer"][..],
            1,
            "there's no table or view `custmer` to serve\n    hint: did you mean `customer`?",
        ),
        (&["--table", "zzzzzzzz"], 1, "hint: `--all` writes all of them"),
        (&["--all", "--table", "orders"], 2, "cannot be used with"),
    ] {
        let (code, said) = init(&[arguments, &["--dir", &path("none")]].concat()).await;
        assert!(code == Some(status) && said.contains(expected), "{arguments:?}: {said}");
    }
    assert!(!Path::new(&path("none")).exists());
    for arguments in [&["init", "--all"][..], &["init", "--table", "orders"]] {
        let ran = rowstream(arguments).await;
        assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stderr));
    }

    let (_folder, server) = serves_all(&shop).await;
    assert_eq!(ids(&server, "/customer/1/orders").await, [1, 3, 6]);
    assert_eq!(get(&server.url("/orders/1")).await.json()["customer_id"], json!(1));
}

/// Half of the files were written if a path was too long.
#[tokio::test]
async fn a_path_that_is_too_long_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let columns: Vec<_> = (0..24).map(|number| format!("{}{number}", "x".repeat(90))).collect();
    let sql =
        format!("create table t ({} int, primary key ({}))", columns.join(" int, "), columns.join(", "));
    let file = sqlite(&folder.path().join("a.db"), &sql);
    let deep = vec!["d".repeat(180); 12].join("/");
    let dir = folder.path().join(deep).join("new");
    let ran = rowstream(&["init", &file, "--dir", dir.to_str().unwrap()]).await;
    let said = text(&ran.stderr);
    assert!(ran.status.code() == Some(1) && !dir.exists(), "{said}");
    assert!(said.contains("cannot be written: File name too long"), "{said}");
}

/// The warning about a table whose key is too long for a path was printed again for each table that
/// refers to it.
#[tokio::test]
async fn a_table_without_a_path_has_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let columns: Vec<_> = (0..26).map(|number| format!("c{number}")).collect();
    let (typed, key) = (columns.join(" int, "), columns.join(", "));
    let sql = format!(
        "create table wide ({typed} int, primary key ({key}));
         create table child (id integer primary key, {typed} int, foreign key ({key}) references wide ({key}))"
    );
    let said = warnings(&sqlite(&folder.path().join("a.db"), &sql)).await;
    assert_eq!(said.matches("is left out").count(), 1, "{said}");
}

/// A table that its database refuses was written anyway, and `check` failed.
#[tokio::test]
async fn a_refused_table_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "create table made (id integer primary key, n integer generated always as (abs(id)));
        pragma writable_schema = on; update sqlite_schema set sql = replace(sql, 'abs(', 'own(')";
    let file = sqlite(&folder.path().join("a.db"), sql);
    let dir = folder.path().join("new");
    let ran = rowstream(&["init", &file, "--dir", dir.to_str().unwrap()]).await;
    let said = text(&ran.stderr);
    assert!(ran.status.code() == Some(1) && !dir.exists(), "{said}");
    assert!(said.contains("the database refuses"), "{said}");
}
