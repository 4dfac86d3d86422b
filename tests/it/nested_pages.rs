//! Lists whose rows contain lists, by pages and after cuts, on PostgreSQL, MariaDB and SQLite.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::{Ended, MariaDb, Reply, Server, TestDb, arrow, get, rowstream};

/// Authors share their names, and books their titles. Neither order of the file is that of the key.
pub(crate) const AUTHORS: &str = "/*
key = [\"name desc\", \"id\"]
[params]
n = { type = \"integer\", optional = true }
least = { type = \"integer\", default = 0 }
most = { type = \"integer\", default = 9 }
*/
-- name: authors :many
select id, name from author where id > :least order by id limit :n;
-- name: books :many nested in authors on author_id = id
select author_id, id, title from book where id > :least order by title desc;
-- name: reviews :many nested in books on book_id = id
select book_id, id, stars from review where stars <= :most order by id desc;
-- name: prizes :many nested in authors on won_by = id
select won_by, number from prize order by number";

/// PostgreSQL refused each page at its first comparison (42P22), though `check` accepted the endpoint.
#[tokio::test]
async fn columns_with_other_collations_are_found() {
    let db = TestDb::new().await;
    db.execute(
        "create table author (name text collate \"C\" primary key);
         create table book (id int primary key, author text collate \"POSIX\")",
    )
    .await;
    let endpoint = |author: &str| {
        format!(
            "/*\nkey = [\"name\"]\n*/\n-- name: authors :many\nselect name from author order by name;\n\
             -- name: books :many nested in authors on author = name\nselect id, {author} from book order by id"
        )
    };
    for (author, is_accepted) in [("author", false), ("author collate \"C\" as author", true)] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("endpoints")).unwrap();
        std::fs::write(folder.path().join("endpoints/authors.sql"), endpoint(author)).unwrap();
        let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
        std::fs::write(folder.path().join("rowstream.toml"), config).unwrap();
        let checked = rowstream(&["check", &folder.path().display().to_string()]).await;
        let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
        assert_eq!(checked.status.success(), is_accepted, "{said}");
        let hint = "the collation that it has in `authors`: `author collate \"C\" as author`";
        assert_eq!(said.contains(hint), !is_accepted, "{said}");
    }
}

/// SQLite compares by the collation of the left side, which is that of the nested statement. So the row of an
/// `ada` below `Ada` was left out, though `authors.name = books.author` finds it.
#[tokio::test]
async fn sqlite_columns_with_other_collations_are_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    let create = "create table author (id integer primary key, name text collate nocase);
        create table book (id integer primary key, author text, other text collate rtrim, writer text collate nocase);
        insert into author values (1, 'Ada'); insert into book values (1, 'ada', 'Ada', 'ada')";
    std::fs::write(folder.path().join("create.sql"), create).unwrap();
    let config = "[source.db]\nurl = \"sqlite:test.db\"\ncreate = [\"create.sql\"]\n";
    std::fs::write(folder.path().join("rowstream.toml"), config).unwrap();
    let parent = "select id, name from author where id > :least order by id limit :n";
    for (name, column, refused) in [
        ("name", "author", Some("nocase")),
        ("name", "other as author", Some("nocase")),
        ("name collate rtrim as name", "author", Some("rtrim")),
        ("name", "author collate nocase as author", None),
        ("name", "writer as author", None),
        ("upper(name) collate binary as name", "author", None),
        // The column below finds more rows than the parent's, so it loses none.
        ("name collate binary as name", "writer as author", None),
        ("id as name", "id as author", None),
    ] {
        let sql = format!(
            "/*\nkey = [\"id\"]\n[params]\nleast = \"integer\"\nn = {{ type = \"integer\", default = 9 }}\n*/\n\
             -- name: authors :many\n{};\n-- name: books :many nested in authors on author = name\n\
             select id as book, {column} from book where id > :least order by book",
            parent.replace("name", name)
        );
        std::fs::write(folder.path().join("endpoints/authors.sql"), &sql).unwrap();
        let checked = rowstream(&["check", &folder.path().display().to_string()]).await;
        let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
        assert_eq!(checked.status.success(), refused.is_none(), "{sql}: {said}");
        let hint = |name: &str| format!("that it has in `authors`: `author collate {name} as author`");
        assert!(refused.is_none_or(|name| said.contains(&hint(name))), "{sql}: {said}");
    }
}

/// The same in a body.
const BODY: &str = "body = { authors = \"$authors\", next = \"$next\", books = \"$count(books)\" }\n";

const TABLES: [&str; 4] = [
    "author (id integer primary key, name varchar(20))",
    "book (id integer primary key, author_id integer, title varchar(20))",
    "review (id integer primary key, book_id integer, stars integer)",
    "prize (won_by integer, number integer)",
];

/// Without them, a database could compare each nested row with each parent.
const INDEXES: [&str; 3] = [
    "create index book_author on book (author_id)",
    "create index review_book on review (book_id)",
    "create index prize_winner on prize (won_by)",
];

/// The rows of the tables, and the list that they form.
pub(crate) struct Library {
    pub(crate) statements: Vec<String>,
    pub(crate) authors: Vec<Value>,
}

impl Library {
    pub(crate) fn new(authors: u32) -> Self {
        let mut tables = [const { String::new() }; 4];
        let (mut book, mut review) = (0, 0);
        let mut list = Vec::new();
        for id in 1..=authors {
            let name = format!("name {:02}", id * 7 % 50);
            let _ = write!(tables[0], "({id}, '{name}'),");
            let mut books = Vec::new();
            for number in 0..id * 13 % 4 {
                book += 1;
                let title = format!("title {}", (number + id) % 2);
                let _ = write!(tables[1], "({book}, {id}, '{title}'),");
                let mut reviews = Vec::new();
                for _ in 0..book % 3 {
                    review += 1;
                    let _ = write!(tables[2], "({review}, {book}, {}),", review % 6);
                    reviews.insert(0, json!({"book_id": book, "id": review, "stars": review % 6}));
                }
                books.push(json!({"author_id": id, "id": book, "title": title, "reviews": reviews}));
            }
            books.sort_by(|one, other| other["title"].as_str().cmp(&one["title"].as_str()));
            let prizes: Vec<_> = (0..id % 3).map(|number| json!({"won_by": id, "number": number})).collect();
            for number in 0..id % 3 {
                let _ = write!(tables[3], "({id}, {number}),");
            }
            list.push(json!({"id": id, "name": name, "books": books, "prizes": prizes}));
        }
        list.sort_by(|one, other| other["name"].as_str().cmp(&one["name"].as_str()));
        let insert = |(table, rows): (&str, &String)| {
            let name = table.split(' ').next().unwrap_or_default();
            let rows = rows.trim_end_matches(',');
            [format!("create table {table}"), format!("insert into {name} values {rows}")]
        };
        let filled = TABLES.into_iter().zip(&tables).flat_map(insert);
        Self { statements: filled.chain(INDEXES.map(str::to_owned)).collect(), authors: list }
    }
}

/// The library on each database, with the endpoints `/authors` and `/body`.
async fn on_each<F: AsyncFn(Server, &[Value])>(authors: u32, test: F) {
    let Library { statements, authors } = Library::new(authors);
    let postgres = TestDb::new().await;
    let mariadb = MariaDb::new("select 1");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let sqlite = rusqlite::Connection::open(&file).unwrap();
    for sql in &statements {
        postgres.execute(sql).await;
        mariadb.execute(sql);
        sqlite.execute_batch(sql).unwrap();
    }
    for url in [postgres.url(), mariadb.url(), format!("sqlite:{}", file.display())] {
        test(server(&url).await, &authors).await;
    }
}

async fn server(url: &str) -> Server {
    let config =
        format!("cursor_secret = \"0123456789abcdef0123456789abcdef\"\n[source.db]\nurl = \"{url}\"\n");
    let body = AUTHORS.replacen("/*\n", &format!("/*\n{BODY}"), 1);
    Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/authors.sql", AUTHORS),
        ("endpoints/body.sql", &body),
    ])
    .await
}

#[track_caller]
fn whole(reply: &Reply) -> Value {
    assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
    reply.json()
}

/// Asserts that two lists are equal, without printing all of them.
#[track_caller]
fn assert_same(found: &[Value], expected: &[Value]) {
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "row {index}");
    }
    assert_eq!(found.len(), expected.len());
}

/// Reads all pages by their links.
async fn pages(server: &Server, size: usize) -> Vec<Value> {
    let (mut rows, mut path) = (Vec::new(), format!("/authors?n={size}"));
    loop {
        let reply = get(&server.url(&path)).await;
        rows.extend(whole(&reply).as_array().unwrap().iter().cloned());
        match reply.headers.get("link") {
            Some(link) => {
                let link = link.to_str().unwrap();
                path = format!("/authors{}", &link[1..link.find('>').unwrap()]);
            }
            None => {
                assert_eq!(reply.headers["rowstream-page"], "last");
                return rows;
            }
        }
    }
}

#[tokio::test]
async fn pages_contain_the_lists_of_their_rows() {
    on_each(150, async |server, authors| {
        assert_same(whole(&get(&server.url("/authors")).await).as_array().unwrap(), authors);
        for size in [1, 7, 149, 150, 1000] {
            assert_same(&pages(&server, size).await, authors);
        }
        // In a body, `next` begins the next page.
        let (mut rows, mut after) = (Vec::new(), String::new());
        loop {
            let body = whole(&get(&server.url(&format!("/body?n=40{after}"))).await);
            let page = body["authors"].as_array().unwrap();
            let books: usize = page.iter().map(|row| row["books"].as_array().unwrap().len()).sum();
            assert_eq!(body["books"], books);
            rows.extend(page.iter().cloned());
            after = format!("&_after={}", body["next"].as_str().unwrap());
            if page.len() < 40 {
                break;
            }
        }
        assert_same(&rows, authors);
    })
    .await;
}

#[tokio::test]
async fn pages_in_arrow_contain_the_lists_of_their_rows() {
    on_each(150, async |server, authors| {
        for size in [7, 1000] {
            let (mut rows, mut path) = (Vec::new(), format!("/authors?n={size}&_format=arrow"));
            loop {
                let reply = get(&server.url(&path)).await;
                assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{path}");
                rows.extend(arrow::rows(&reply.body));
                let Some(link) = reply.headers.get("link") else { break };
                let link = link.to_str().unwrap();
                path = format!("/authors{}", &link[1..link.find('>').unwrap()]);
            }
            assert_same(&rows, authors);
        }
    })
    .await;
}

/// Each statement has its own parameters, which keep their values beside those of a cursor.
#[tokio::test]
async fn parameters_reach_their_statements() {
    on_each(60, async |server, authors| {
        let expected: Vec<_> = authors.iter().filter(|row| row["id"].as_u64() > Some(20)).cloned().collect();
        let chosen = |mut row: Value| {
            for book in row["books"].as_array_mut().unwrap() {
                book["reviews"].as_array_mut().unwrap().retain(|review| review["stars"].as_u64() < Some(3));
            }
            row
        };
        let expected: Vec<_> = expected.into_iter().map(chosen).collect();
        let (mut rows, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("/authors?least=20&most=2&n=9{after}");
            let reply = get(&server.url(&path)).await;
            let page = whole(&reply).as_array().unwrap().clone();
            rows.extend(page.iter().cloned());
            let Some(link) = reply.headers.get("link") else { break };
            let link = link.to_str().unwrap();
            after = format!("&_after={}", &link[link.find("_after=").unwrap() + 7..link.find('>').unwrap()]);
        }
        assert_same(&rows, &expected);
        // A cursor is for its parameters.
        let reply = get(&server.url(&format!("/authors?least=20&most=3&n=9{after}"))).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (400, &json!("invalid_cursor")));
    })
    .await;
}

/// The rows of a prefix of a framed list, its last mark with the number of rows before it, and true
/// if it has the end.
fn read(text: &str) -> (Vec<Value>, Option<(usize, String)>, bool) {
    let (mut rows, mut mark, mut has_end) = (Vec::new(), None, false);
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in complete.lines() {
        let record: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        match record.get("$rowstream") {
            None => rows.push(record),
            Some(_) if record.get("end").is_some() => has_end = true,
            Some(_) if record.get("mark").is_some() => {
                mark = Some((rows.len(), record["mark"]["next"].as_str().unwrap().to_owned()));
            }
            Some(_) => assert!(record.get("columns").is_some(), "{line}"),
        }
    }
    (rows, mark, has_end)
}

/// A list is cut after any byte, and continued after its last mark until it's complete.
#[tokio::test]
async fn a_list_is_resumed_after_cuts() {
    on_each(2600, async |server, authors| {
        let mut random = fastrand::Rng::with_seed(7);
        for limit in [2600, 2500] {
            for _ in 0..8 {
                let (mut rows, mut after) = (Vec::new(), String::new());
                loop {
                    let path = format!("/authors.ndjson?_end=1&n={limit}{after}");
                    let reply = get(&server.url(&path)).await;
                    assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete));
                    let text = reply.text();
                    let cut = if random.u8(..3) == 0 { text.len() } else { random.usize(..text.len()) };
                    let (mut found, mark, has_end) = read(&text[..cut]);
                    if has_end {
                        rows.extend(found);
                        break;
                    }
                    let Some((before, mark)) = mark else { continue };
                    found.truncate(before);
                    rows.extend(found);
                    after = format!("&_after={mark}");
                }
                assert_same(&rows, &authors[..limit]);
            }
        }
    })
    .await;
}

/// The id of an event continues its list.
#[tokio::test]
async fn events_have_the_cursors_of_their_rows() {
    on_each(30, async |server, authors| {
        let text = get(&server.url("/authors.sse?n=20")).await.text().to_owned();
        let events: Vec<(&str, &str)> = text
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data: ")?.split_once("\nid: "))
            .collect();
        assert_eq!(events.len(), 20);
        for (index, (_, id)) in events.iter().enumerate() {
            let rest = get(&server.url(&format!("/authors.ndjson?n=20&_after={id}"))).await;
            assert_eq!((rest.status.as_u16(), &rest.ended), (200, &Ended::Complete));
            let rest: Vec<Value> =
                rest.text().lines().map(|row| serde_json::from_str(row).unwrap()).collect();
            assert_same(&rest, &authors[index + 1..20]);
        }
        let rows: Vec<Value> = events.iter().map(|(row, _)| serde_json::from_str(row).unwrap()).collect();
        assert_same(&rows, &authors[..20]);
    })
    .await;
}

/// The database decides which rows belong together, and not the spelling of their values. Otherwise
/// a row that was spelled differently would be missing, together with all lists after it. Parents
/// with the same value have the same list.
#[tokio::test]
async fn rows_belong_together_if_the_database_finds_them_equal() {
    let sql = "create table country (id integer primary key, code varchar(9) collate nocase);
        create table city (id integer primary key, country varchar(9) collate nocase);
        insert into country values (1, 'ch'), (2, 'fr'), (3, 'CH'), (4, 'it'), (5, 'it');
        insert into city values (1, 'CH'), (2, 'ch'), (3, 'IT'), (4, 'xx'), (5, null)";
    let mariadb = MariaDb::new(&sql.replace("nocase", "utf8mb4_general_ci"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap();
    let endpoint = "/*\nkey = [\"id desc\"]\n[params]\nn = { type = \"integer\", default = 9 }\n*/
        -- name: countries :many\nselect id, code from country order by code limit :n;
        -- name: cities :many nested in countries on country = code\nselect country, id from city order by id desc";
    let city = |country: &str, id: u8| json!({"country": country, "id": id});
    let swiss = json!([city("ch", 2), city("CH", 1)]);
    let italian = json!([city("IT", 3)]);
    let expected = [
        json!({"id": 5, "code": "it", "cities": italian}),
        json!({"id": 4, "code": "it", "cities": italian}),
        json!({"id": 3, "code": "CH", "cities": swiss}),
        json!({"id": 2, "code": "fr", "cities": []}),
        json!({"id": 1, "code": "ch", "cities": swiss}),
    ];
    for url in [mariadb.url(), format!("sqlite:{}", file.display())] {
        let config = format!("[source.db]\nurl = \"{url}\"\n");
        let files = [("rowstream.toml", &*config), ("endpoints/countries.sql", endpoint)];
        let server = Server::start(&files).await;
        for size in [1, 2, 9] {
            let first = whole(&get(&server.url(&format!("/countries?n={size}"))).await);
            assert_same(first.as_array().unwrap(), &expected[..size.min(5)]);
        }
    }
}

/// Two rows of a list with the same value have lists of their own, even with others between them, and
/// with NULL in the columns that order them.
#[tokio::test]
async fn equal_rows_of_a_list_have_their_own_lists() {
    let sql = [
        "create table customer (id integer primary key)",
        "create table line (customer_id integer, pos integer, note varchar(9), product integer)",
        "create table tag (product integer, tag varchar(9))",
        "insert into customer values (1), (2)",
        "insert into line values (1, 1, 'a', 7), (1, 2, null, 8), (1, 3, 'b', 7), (2, 1, null, 7)",
        "insert into tag values (7, 'red'), (7, 'blue'), (8, 'red')",
    ];
    let (postgres, mariadb) = (TestDb::new().await, MariaDb::new("select 1"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let sqlite = rusqlite::Connection::open(&file).unwrap();
    for sql in sql {
        postgres.execute(sql).await;
        mariadb.execute(sql);
        sqlite.execute_batch(sql).unwrap();
    }
    let endpoint = "/*\nkey = [\"id\"]\n*/
        -- name: customers :many\nselect id from customer;
        -- name: lines :many nested in customers on customer_id = id
        select customer_id, pos, note, product from line order by pos, note;
        -- name: tags :many nested in lines on product = product
        select product, tag from tag where product = 7 order by tag";
    let tags = json!([{"product": 7, "tag": "blue"}, {"product": 7, "tag": "red"}]);
    let line = |customer: u8, pos: u8, note: Value, product: u8| {
        let tags = if product == 7 { tags.clone() } else { json!([]) };
        json!({"customer_id": customer, "pos": pos, "note": note, "product": product, "tags": tags})
    };
    let first = json!([line(1, 1, json!("a"), 7), line(1, 2, Value::Null, 8), line(1, 3, json!("b"), 7)]);
    let expected =
        [json!({"id": 1, "lines": first}), json!({"id": 2, "lines": [line(2, 1, Value::Null, 7)]})];
    for url in [postgres.url(), mariadb.url(), format!("sqlite:{}", file.display())] {
        let config = format!("[source.db]\nurl = \"{url}\"\n");
        let files = [("rowstream.toml", &*config), ("endpoints/customers.sql", endpoint)];
        let server = Server::start(&files).await;
        let found = whole(&get(&server.url("/customers")).await);
        assert_same(found.as_array().unwrap(), &expected);
    }
}

/// A folder with one endpoint, whose list `a` has these settings and statements.
fn folder(settings: &str, statements: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
    connection
        .execute_batch("pragma journal_mode = wal; create table a (id integer primary key, name text); create table b (id integer, a_id integer, v text)")
        .unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    std::fs::write(folder.path().join("rowstream.toml"), "[source.db]\nurl = \"sqlite:test.db\"\n").unwrap();
    let text = format!("/*\n{settings}\n*/\n{statements}");
    std::fs::write(folder.path().join("endpoints/a.sql"), text).unwrap();
    folder
}

/// The exit status of `check`, and its messages.
async fn check(settings: &str, statements: &str) -> (Option<i32>, String) {
    let folder = folder(settings, statements);
    let ran = rowstream(&["check", folder.path().to_str().unwrap()]).await;
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

const PARENT: &str =
    "-- name: a :many\nselect id, name from a order by id;\n-- name: b :many nested in a on a_id = id\n";

#[tokio::test]
async fn statements_that_cannot_be_paged_are_refused() {
    for (settings, child, message, hint) in [
        (
            "key = [\"id\"]",
            "select a_id, v from b order by lower(v)",
            "`b` is ordered by `lower(v)`, which isn't the name of a column of its result",
            "select it with a name, `… as rank`, and order by that name",
        ),
        (
            "key = [\"id\"]",
            "select a_id, v from b order by 2",
            "`b` is ordered by `2`, which isn't the name of a column",
            "order by that name",
        ),
        (
            "key = [\"id\"]",
            "select a_id, v from b order by a_id limit 5",
            "`b` limits the rows of all its lists together, but is nested in a list with a `key`",
            "remove its limit",
        ),
        (
            "key = [\"id\"]",
            "select a_id, v from b order by id",
            "its rows can't be read for those of a page",
            "order it by the names of columns of its result",
        ),
        (
            "key = [\"id\"]",
            "(select a_id, v from b order by v limit 3)",
            "`b` can't be read for the rows of a page",
            "write it as a `select` without brackets around it",
        ),
        (
            "key = [\"id\"]",
            "select a_id, v from b union all (select a_id, v from b limit 3)",
            "`b` limits the rows of all its lists together",
            "remove its limit",
        ),
        (
            "key = [\"id\"]\nfollow = { poll = \"1s\", commits = \"ordered\" }",
            "select a_id, v from b",
            "rows with lists in them can't be followed",
            "remove `follow`, or the lists",
        ),
    ] {
        let (status, messages) = check(settings, &format!("{PARENT}{child}")).await;
        assert_eq!(status, Some(1), "{child}: {messages}");
        assert!(messages.contains(message) && messages.contains(hint), "{child}: {messages}");
    }
}

/// Without a key, a response fails if a nested statement has another order or more rows than its
/// parent. Neither can be proved from the statements, so these are warnings.
#[tokio::test]
async fn lists_that_differ_from_their_parents_are_a_warning() {
    let order = "`b` is ordered in another way than `a`";
    let limit = "`a` has a limit, but `b` is read for all of its rows";
    let with = |parent: &str, child: &str| {
        format!("-- name: a :many\n{parent};\n-- name: b :many nested in a on a_id = id\n{child}")
    };
    let all = "select a_id, v from b order by a_id";
    for (parent, child, warning) in [
        ("select id from a order by id", all, None),
        ("select id from a order by id desc", all, Some(order)),
        ("select id from a order by id", "select a_id, v from b order by v", Some(order)),
        ("select id from a where name = 'x' order by name, id", all, None),
        ("select id from a order by -id", "select a_id, v from b order by a_id desc", None),
        ("select id, name from a order by name, id", all, Some(order)),
        ("select id, name from a order by name, id", "select a_id, v from b order by v, a_id", None),
        ("select id from a order by id limit 5", all, Some(limit)),
        (
            "select id from a order by id limit 5",
            "select a_id, v from b where a_id in (select id from a order by id limit 5) order by a_id",
            None,
        ),
    ] {
        let (status, messages) = check("", &with(parent, child)).await;
        assert_eq!(status, Some(0), "{messages}");
        for kind in [order, limit] {
            assert_eq!(messages.contains(kind), warning == Some(kind), "{parent}; {child}: {messages}");
        }
        // The key brings both into the same order, and reads only the lists of its rows.
        let (status, messages) =
            check("key = [\"id\"]", &with(parent, "select a_id, v from b order by a_id")).await;
        assert_eq!((status, messages.contains("warning: ")), (Some(0), false), "{messages}");
    }
}
