//! Optional parts of statements, on PostgreSQL, MariaDB and SQLite.

use http::StatusCode;
use serde_json::{Value, json};

use crate::support::{MariaDb, Server, TestDb, get, rowstream};

const TABLES: &str = "create table customer (id integer primary key, city varchar(20));
    create table orders (id integer primary key, customer_id integer, total integer);
    insert into customer values (1, 'Basel'), (2, 'Bern');
    insert into orders values (1, 1, 10), (2, 2, 20), (3, 1, 30), (4, 2, 40), (5, 1, 50), (6, 9, 60);";

const PARAMS: &str = "[params]
city = { type = \"text\", optional = true }
least = { type = \"integer\", optional = true }
n = { type = \"integer\", optional = true }";

/// A join, a condition with other parameters in front of it, and a limit.
const LIST: &str = "select orders.id, total from orders
    /*if city*/ join customer on customer.id = customer_id and city = :city /*end*/
    where orders.id > 0 /* if least */ and total >= :least /* end */
    order by orders.id limit :n";

const ONE: &str =
    "/*\nresult = \"one\"\n[params]\nid = \"integer\"\nleast = { type = \"integer\", optional = true }\n*/
    select id from orders where id = :id /*if least*/ and total >= :least /*end*/";

/// Both statements depend on the same parameter.
const NESTED: &str = "/*\nkey = [\"id\"]\n[params]\nleast = { type = \"integer\", optional = true }\nn = { type = \"integer\", default = 1 }\n*/
    -- name: customers :many
    select id, city from customer limit :n;
    -- name: orders :many nested in customers on customer_id = id
    select customer_id, id from orders where true /*if least*/ and total >= :least /*end*/ order by id";

async fn server(url: &str) -> Server {
    let config = format!(
        "explain = true\ncursor_secret = \"0123456789abcdef0123456789abcdef\"\n[source.db]\nurl = \"{url}\"\n"
    );
    let list = format!("/*\nkey = [\"id\"]\n{PARAMS}\n*/\n{LIST}");
    let escaped = LIST.replace('"', "\\\"").replace('\n', "\\n");
    let toml = format!("sql = \"{escaped}\"\n{PARAMS}\n");
    let files = [
        ("rowstream.toml", &*config),
        ("endpoints/list.sql", &list),
        ("endpoints/escaped.toml", &toml),
        ("endpoints/one/{id}.sql", ONE),
        ("endpoints/nested.sql", NESTED),
    ];
    Server::start(&files).await
}

/// The ids of the rows, and the cursor of the next page.
async fn ids(server: &Server, path: &str) -> (Vec<i64>, Option<String>) {
    let reply = get(&server.url(path)).await;
    assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.text());
    let rows = reply.json();
    let ids = rows.as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect();
    let link = reply.headers.get("link").map(|link| link.to_str().unwrap());
    let next = link.map(|link| link[link.find("_after=").unwrap() + 7..link.find('>').unwrap()].to_owned());
    (ids, next)
}

async fn has_the_parts_of_each_request(url: &str) {
    let server = server(url).await;
    for path in ["/list", "/escaped"] {
        for (query, expected) in [
            ("", &[1, 2, 3, 4, 5, 6][..]),
            ("city=Basel", &[1, 3, 5]),
            ("least=30", &[3, 4, 5, 6]),
            ("least=30&city=Basel", &[3, 5]),
            ("city=Basel&least=30&n=1", &[3]),
            ("city=nowhere", &[]),
            ("city=", &[]),
        ] {
            let found = ids(&server, &format!("{path}?{query}")).await.0;
            assert_eq!(found, expected, "{path}?{query}");
        }
    }
    // Pages keep their parts, and a cursor isn't valid for other ones.
    let (first, next) = ids(&server, "/list?city=Basel&n=2").await;
    let next = next.expect("a page has a next one");
    let (second, _) = ids(&server, &format!("/list?city=Basel&n=2&_after={next}")).await;
    assert_eq!([first, second].concat(), [1, 3, 5]);
    let other = get(&server.url(&format!("/list?n=2&_after={next}"))).await;
    assert_eq!((other.status.as_u16(), &other.json()["code"]), (400, &json!("invalid_cursor")));
    // A row's lookup, and lists in rows.
    for (path, status) in [("/one/4", 200), ("/one/4?least=40", 200), ("/one/4?least=41", 404)] {
        assert_eq!(get(&server.url(path)).await.status.as_u16(), status, "{path}");
    }
    let customers = get(&server.url("/nested?least=20")).await.json();
    assert_eq!(
        customers,
        json!([{"id": 1, "city": "Basel", "orders": [{"customer_id": 1, "id": 3}, {"customer_id": 1, "id": 5}]}])
    );
    // The plan is that of the statement with its parts.
    let plan = get(&server.url("/list?least=1&_explain=1")).await.json();
    let sql = plan["statements"][0]["sql"].as_str().unwrap();
    assert!(sql.contains("total >= ") && !sql.contains("join"), "{sql}");
}

#[tokio::test]
async fn statements_of_postgres_have_optional_parts() {
    let db = TestDb::new().await;
    db.execute(TABLES).await;
    has_the_parts_of_each_request(&db.url()).await;
}

#[tokio::test]
async fn statements_of_mariadb_have_optional_parts() {
    has_the_parts_of_each_request(&MariaDb::new(TABLES).url()).await;
}

#[tokio::test]
async fn statements_of_sqlite_have_optional_parts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch(TABLES).unwrap();
    has_the_parts_of_each_request(&format!("sqlite:{}", file.display())).await;
}

#[tokio::test]
async fn parts_that_cannot_be_left_out_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
    connection.execute_batch(TABLES).unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    std::fs::write(folder.path().join("rowstream.toml"), "[source.db]\nurl = \"sqlite:test.db\"\n").unwrap();
    let six = ["a", "b", "c", "d", "e", "f"];
    let params: String =
        six.iter().map(|name| format!("{name} = {{ type = \"integer\", optional = true }}\n")).collect();
    let parts: String = six.iter().map(|name| format!("/*if {name}*/ and id = :{name} /*end*/\n")).collect();
    for (settings, sql, message, hint) in [
        (
            "",
            "select id from orders where true /*if cyti*/ and total = :city /*end*/",
            "an optional part depends on `cyti`, which isn't a parameter",
            "the parameters are `city`",
        ),
        (
            "",
            "select id from orders where total = :city /*if fixed*/ and id = :fixed /*end*/",
            "an optional part depends on `fixed`, which always has a value",
            "make it optional",
        ),
        (
            "",
            "select id from orders where true /*if city*/ and total = :city",
            "the optional part `/*if city*/` has no end in its statement",
            "write `/*end*/` after it",
        ),
        (
            "",
            "select id from orders where /*if city*/ total = :city /*end*/",
            "without the optional parts of `city`: statement `rows`:",
            "",
        ),
        (
            "",
            "select id /*if city*/ , :city as city /*end*/ from orders",
            "without the optional parts of `city`: statement `rows`: its columns are others",
            "put only conditions, joins and orders into optional parts",
        ),
        (
            "filter = true",
            "select id from orders where true /*if city*/ and total = :city /*end*/",
            "`filter`, `sort`, `select` and `total` can't be combined with optional parts",
            "write `:name is null or …`",
        ),
        // The place of a request's order, around a part, within one and beside it.
        (
            "sort = true",
            "select id from orders where total = :city order by /*sort*/ /*if city*/ total, /*end*/ id",
            "`filter`, `sort`, `select` and `total` can't be combined with optional parts",
            "write `:name is null or …`",
        ),
        (
            "sort = true",
            "select id from orders where total = :city /*if city*/ order by /*sort*/ id /*end*/",
            "`filter`, `sort`, `select` and `total` can't be combined with optional parts",
            "write `:name is null or …`",
        ),
        (
            "sort = true",
            "select id from orders /*if city*/ where total = :city /*end*/ order by /*sort*/ id",
            "`filter`, `sort`, `select` and `total` can't be combined with optional parts",
            "write `:name is null or …`",
        ),
        (
            "",
            "select id from orders where total = :city order by /*if city*/ /*sort*/ total, /*end*/ id",
            "`/*sort*/` is the place of a request's order, but this endpoint has no `sort`",
            "or remove the comment",
        ),
        (
            "",
            "select id, /*if city*/ null as /*end*/ total from orders where total = :city",
            "without the optional parts of `city`: statement `rows`: its columns are others",
            "put only conditions, joins and orders into optional parts",
        ),
        (
            &params,
            &format!("select id from orders where :city = 1 {parts}"),
            "the optional parts depend on 6 parameters, which gives 64 statements",
            "use at most 5",
        ),
    ] {
        let (before, params) = if settings.contains(" = {") { ("", settings) } else { (settings, "") };
        let fixed = if sql.contains("fixed") { "fixed = { type = \"integer\", default = 1 }\n" } else { "" };
        let city = "city = { type = \"text\", optional = true }\n";
        let text = format!("/*\n{before}\n[params]\n{params}{fixed}{city}*/\n{sql}");
        std::fs::write(folder.path().join("endpoints/a.sql"), text).unwrap();
        let ran = rowstream(&["check", folder.path().to_str().unwrap()]).await;
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{sql}: {errors}");
        assert!(errors.contains(message) && errors.contains(hint), "{sql}: {errors}");
    }
}

/// A statement on the command line always has all of its parts, so marks would be misleading.
#[tokio::test]
async fn the_command_line_has_no_optional_parts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch(TABLES).unwrap();
    let ran =
        rowstream(&["query", file.to_str().unwrap(), "select 1 /*if a*/ where :a = 1 /*end*/", "-p", "a=1"])
            .await;
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(errors.contains("optional parts are for the statements of an endpoint file"), "{errors}");
    let described: Result<Value, _> = serde_json::from_slice(&ran.stdout);
    assert!(described.is_err(), "it returns no rows");
}
