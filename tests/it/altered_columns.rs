//! Columns that a migration alters while the server runs. Filters were written for the types that the
//! columns had at the start, until a reload: values were refused, or compared as another type.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{MariaDb, Reply, Server, TestDb, get, wait_until};

const CONNECTIONS: usize = 3;
const TABLE: &str = "create table t (id int primary key, n int); insert into t values (1, 7), (2, 8)";
/// Paths, and their rows after the change.
const PATHS: [(&str, &str); 4] = [
    ("/t?n=eq.x", r#"[{"id":2,"n":"x"}]"#),
    ("/t?n=in.(7,x)&order=n.desc", r#"[{"id":2,"n":"x"},{"id":1,"n":"7"}]"#),
    ("/t?select=n&id=eq.1", r#"[{"n":"7"}]"#),
    ("/t?select=id,n&order=n", r#"[{"id":1,"n":"7"},{"id":2,"n":"x"}]"#),
];

async fn server(url: &str) -> Server {
    let config = format!("[source.db]\nurl = \"{url}\"\npool = {{ max = {CONNECTIONS} }}\n");
    let list =
        "/*\nkey = [\"id\"]\nfilter = true\nsort = true\nselect = true\n*/\nselect id, n from t order by id";
    Server::start(&[("rowstream.toml", &*config), ("endpoints/t.sql", list)]).await
}

/// Prepares the statements of all requests on each connection.
async fn prepare(server: &Server) {
    for path in ["/t?n=eq.7", "/t?n=in.(7,8)&order=n.desc", "/t?select=n&id=eq.1", "/t?select=id,n&order=n"] {
        for reply in join_all((0..20).map(|_| async move { get(&server.url(path)).await })).await {
            assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        }
    }
}

/// Each path has its rows, after at most one 503 for each connection, and one for the columns.
async fn follows(server: &Server) {
    for (path, expected) in PATHS {
        let mut lost = 0;
        wait_until("the columns are known", async || {
            let reply = get(&server.url(path)).await;
            let is_found = reply.status == 200;
            if !is_found {
                assert_eq!(
                    (reply.status.as_u16(), &reply.json()["code"]),
                    (503, &json!("statement_changed")),
                    "{path}"
                );
                assert_eq!(reply.json()["retry"], true);
                lost += 1;
            }
            is_found
        })
        .await;
        for reply in join_all((0..20).map(|_| async move { get(&server.url(path)).await })).await {
            match reply.status.as_u16() {
                200 => assert_eq!(reply.text(), expected, "{path}"),
                _ => lost += 1,
            }
        }
        assert!(lost <= CONNECTIONS + 1, "{path}: {lost} answers lost");
    }
    wait_until("a wrong value is the client's mistake again", async || {
        get(&server.url("/t?id=eq.x")).await.status == 400
    })
    .await;
}

#[tokio::test]
async fn filters_of_postgresql_follow_a_column_that_is_altered() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let server = server(&db.url()).await;
    prepare(&server).await;
    db.execute("alter table t alter column n type text; update t set n = 'x' where id = 2").await;
    follows(&server).await;
}

/// A reload keeps the connections, and each of them has statements with parameters of the former type.
/// So filters failed until the connections ended.
#[tokio::test]
async fn filters_follow_a_column_that_is_altered_before_a_reload() {
    for is_found_before in [false, true] {
        let db = TestDb::new().await;
        db.execute(TABLE).await;
        let server = server(&db.url()).await;
        prepare(&server).await;
        db.execute("alter table t alter column n type text using n::text; update t set n = 'x' where id = 2")
            .await;
        if is_found_before {
            follows(&server).await;
        }
        server.hang_up();
        server.wait_for_stderr("reloaded: 1 endpoints").await;
        follows(&server).await;
    }
}

#[tokio::test]
async fn filters_of_mariadb_follow_a_column_that_is_altered() {
    let db = MariaDb::new(TABLE);
    let server = server(&db.url()).await;
    prepare(&server).await;
    db.execute("alter table t modify n varchar(9); update t set n = 'x' where id = 2");
    follows(&server).await;
}

/// A column that didn't exist at the start was unknown until a reload.
#[tokio::test]
async fn a_column_that_is_added_can_be_filtered() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let list = "/*\nfilter = true\n*/\nselect * from t";
    let server = Server::start(&[("rowstream.toml", &*config), ("endpoints/t.sql", list)]).await;
    assert_eq!(get(&server.url("/t?m=eq.5")).await.status, 400);
    db.execute("alter table t add column m int not null default 5").await;
    wait_until("the column is known", async || get(&server.url("/t?m=eq.5")).await.status == 200).await;
    let rows: Value = get(&server.url("/t?m=eq.5&id=eq.1")).await.json();
    assert_eq!(rows, json!([{"id": 1, "n": 7, "m": 5}]));
}

/// The parameters of a prepared statement keep their types, so after a migration each of its requests
/// failed as long as its connection lived: `operator does not exist: text = integer`, or a value that
/// the former type can't have.
#[tokio::test]
async fn parameters_of_endpoint_files_follow_a_column_that_is_altered() {
    let create =
        "create table t (id int primary key, to_text int, to_bigint int, to_numeric int, to_uuid text);
        insert into t values (1, 7, 8, 9, '0e37df36-f698-11e6-8dd4-cb9ced3df976')";
    let alter = "alter table t alter column to_text type text, alter column to_bigint type bigint,
            alter column to_numeric type numeric, alter column to_uuid type uuid using to_uuid::uuid;
        update t set to_text = 'x', to_bigint = 3000000000, to_numeric = 1.5";
    let uuid = "0e37df36-f698-11e6-8dd4-cb9ced3df976";
    let columns = [
        ("to_text", "text", "7", "x"),
        ("to_bigint", "integer", "8", "3000000000"),
        ("to_numeric", "number", "9", "1.5"),
        ("to_uuid", "text", uuid, uuid),
    ];
    let db = TestDb::new().await;
    db.execute(create).await;
    let mut files = vec![(
        "rowstream.toml".to_owned(),
        format!("[source.db]\nurl = \"{}\"\npool = {{ max = {CONNECTIONS} }}\n", db.url()),
    )];
    for (column, kind, ..) in columns {
        let params = format!("[params]\nx = {{ type = \"{kind}\", optional = true }}\n");
        for (form, settings, sql) in [
            ("list", "", format!("select id from t where {column} = :x")),
            ("optional", "", format!("select id from t where :x is null or {column} = :x")),
            ("one", "result = \"one\"\n", format!("select id from t where {column} = :x")),
        ] {
            files
                .push((format!("endpoints/{form}/{column}.sql"), format!("/*\n{settings}{params}*/\n{sql}")));
        }
        let nested = format!(
            "/*\n{params}*/\n-- name: ts :many\nselect id as n from t order by id;\n-- name: children :many nested \
             in ts on n = n\nselect id as n, id from t where {column} = :x order by n"
        );
        files.push((format!("endpoints/nested/{column}.sql"), nested));
    }
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let server = Server::start(&files).await;
    let all = async |path: &str| join_all((0..20).map(|_| get_path(&server, path))).await;
    let forms = ["list", "optional", "one", "nested"];
    for (column, _, before, _) in columns {
        for form in forms {
            for reply in all(&format!("/{form}/{column}?x={before}")).await {
                assert_eq!(reply.status, 200, "{form} {column}: {}", reply.text());
            }
        }
    }
    db.execute(alter).await;
    for (column, _, _, after) in columns {
        for form in forms {
            let mut lost = Vec::new();
            for _ in 0..5 {
                for reply in all(&format!("/{form}/{column}?x={after}")).await {
                    match reply.status.as_u16() {
                        200 => {
                            assert!(reply.text().contains("\"id\":1}"), "{form} {column}: {}", reply.text());
                        }
                        _ => lost.push(reply.text().to_owned()),
                    }
                }
            }
            assert!(lost.len() <= CONNECTIONS, "{form} {column}: {} lost: {lost:?}", lost.len());
        }
    }
}

/// A prepared statement compares with the types that its parameters had. PostgreSQL converts the column and
/// reports no error, so rows were missing as long as a connection lived, even after a reload.
const CONVERTED: [(&str, &str, &str, &str); 6] = [
    ("to_citext", "text", "Bern", "bern"),
    ("to_timestamptz", "timestamp", "2024-01-01T12:00:00", "2024-01-01T14:00:00%2B02:00"),
    ("to_double", "number", "0.5", "0.1"),
    ("to_timestamp", "date", "2024-01-01", "2024-01-01T12:00:00"),
    ("to_text", "text", "a", "a%20"),
    ("to_numeric", "number", "7", "7"),
];
const CONVERTED_TABLE: &str = "create extension citext;
    create table t (id int primary key, to_citext varchar(9), to_timestamptz timestamp, to_double real,
      to_timestamp date, to_text char(5), to_numeric int);
    insert into t values (1, 'Bern', '2024-01-01 12:00', 0.5, '2024-01-01', 'a', 7)";
const CONVERT: &str = "alter table t alter to_citext type citext, alter to_timestamptz type timestamptz,
      alter to_double type double precision, alter to_timestamp type timestamp, alter to_text type text,
      alter to_numeric type numeric;
    update t set to_double = 0.1, to_timestamp = '2024-01-01 12:00', to_text = 'a '";

/// Lists and lookups by each column, and one that shows a column.
async fn converted(db: &TestDb) -> Server {
    db.execute(CONVERTED_TABLE).await;
    let config = format!("[source.db]\nurl = \"{}\"\npool = {{ max = {CONNECTIONS} }}\n", db.url());
    let mut files = vec![("rowstream.toml".to_owned(), config)];
    for (column, kind, ..) in CONVERTED {
        // An endpoint's own date has no time.
        let kind = if kind == "date" { "text" } else { kind };
        for (form, result) in [("list", "many"), ("one", "one")] {
            let sql = format!(
                "/*\nresult = \"{result}\"\n[params]\nx = \"{kind}\"\n*/\nselect id from t where {column} = :x"
            );
            files.push((format!("endpoints/{form}/{column}.sql"), sql));
        }
    }
    files.push(("endpoints/shown.sql".to_owned(), "select to_numeric as n from t".to_owned()));
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let server = Server::start(&files).await;
    for (column, _, before, _) in CONVERTED {
        for form in ["list", "one"] {
            for reply in all(&server, &format!("/{form}/{column}?x={before}")).await {
                assert_eq!(reply.status, 200, "{form} {column}: {}", reply.text());
            }
        }
    }
    all(&server, "/shown").await;
    server
}

/// All connections have the rows that a new one has.
async fn finds_converted(server: &Server) {
    for (column, _, _, after) in CONVERTED {
        for form in ["list", "one"] {
            for reply in all(server, &format!("/{form}/{column}?x={after}")).await {
                assert!(reply.text().contains("\"id\":1}"), "{form} {column}: {}", reply.text());
            }
        }
    }
}

async fn all(server: &Server, path: &str) -> Vec<Reply> {
    join_all((0..20).map(|_| get_path(server, path))).await
}

#[tokio::test]
async fn a_reload_compares_as_the_altered_columns() {
    let db = TestDb::new().await;
    let server = converted(&db).await;
    db.execute(CONVERT).await;
    server.hang_up();
    server.wait_for_stderr("reloaded: 13 endpoints").await;
    finds_converted(&server).await;
}

/// A statement that shows an altered column is refused once. Then all statements are prepared again.
#[tokio::test]
async fn a_statement_that_shows_an_altered_column_makes_all_compare_as_it() {
    let db = TestDb::new().await;
    let server = converted(&db).await;
    db.execute(CONVERT).await;
    // One connection alone may be one that hasn't prepared the statement before.
    let shows = async || all(&server, "/shown").await.iter().any(|reply| reply.status == 503);
    wait_until("the migration is noticed", shows).await;
    finds_converted(&server).await;
}

/// The same for a lookup that a shared connection parses after the migration. The connection compared
/// with the former type for as long as it lived.
#[tokio::test]
async fn a_lookup_that_shows_an_altered_column_makes_all_compare_as_it() {
    let db = TestDb::new().await;
    db.execute(CONVERTED_TABLE).await;
    // One connection for shared lookups.
    let config = format!("[source.db]\nurl = \"{}\"\npool = {{ max = 4 }}\n", db.url());
    let find = "/*\nresult = \"one\"\n[params]\nx = \"text\"\n*/\nselect id from t where to_citext = :x";
    let show = "/*\nresult = \"one\"\n*/\nselect to_numeric as n from t";
    let files = [("rowstream.toml", &*config), ("endpoints/find.sql", find), ("endpoints/show.sql", show)];
    let server = Server::start(&files).await;
    // The first time, a connection of its own describes it. Then the shared one parses it.
    for path in ["/find?x=Bern", "/find?x=Bern", "/show"] {
        let reply = get_path(&server, path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    }
    db.execute(CONVERT).await;
    // Otherwise the connection that has run it could notice the migration.
    let shown = "datname = current_database() and query like '%to_numeric as n%' and pid <> pg_backend_pid()";
    db.execute(&format!("select pg_terminate_backend(pid) from pg_stat_activity where {shown}")).await;
    let client = db.client().await;
    wait_until("its connection is closed", async || {
        let sql = format!("select count(*) from pg_stat_activity where {shown}");
        client.query_one(&sql, &[]).await.expect("a count").get::<_, i64>(0) == 0
    })
    .await;
    wait_until("the column is shown", async || get(&server.url("/show")).await.status == 200).await;
    for _ in 0..3 {
        let reply = get_path(&server, "/find?x=bern").await;
        assert_eq!((reply.status.as_u16(), reply.text()), (200, "{\"id\":1}"));
    }
}

async fn get_path(server: &Server, path: &str) -> Reply {
    get(&server.url(path)).await
}
