//! PostgreSQL's functions and procedures: rows of the tables that they return and of the cursors
//! that they open, compared with those of the query itself. Also failures before and after the
//! first row, and leaks.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use rowstream_core::Error;

use crate::support::{
    Client, Cut, Ended, Faults, Launch, Pieces, Reply, Server, TcpProxy, TestDb, get, pg_port, rowstream,
    wait, wait_until,
};
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::SchemaRef;
use http::StatusCode;
use rowstream::config::Config;
use rowstream::source::Source;
use rowstream::stream::RowStream;
use rowstream_encode::Format;
use serde_json::json;

/// Rows of many types, the query of `rows(n)`, and functions that open cursors for it.
const ROWS: &str = r#"
create type pair as (a int, "b c" text);
create table all_rows as
    select i as n, i::int2 % 100 as small, i::bigint * 4000000000 as large, (i * 1.25)::numeric(12, 2) as price, i / 7.0::float8 as ratio,
        i % 2 = 0 as even, case when i % 3 > 0 then repeat('é"\', i % 5) end as words, timestamptz '2024-01-01' + i * interval '1 hour' as at,
        date '2024-01-01' + i as day, decode(to_hex(i + 4096), 'hex') as bytes, array[i, null] as list, row(i, 'x')::pair as pair,
        json_build_object('i', i) as doc, md5(i::text)::uuid as id
    from generate_series(1, 5000) i;
create function open_rows(count int) returns refcursor language plpgsql stable as $$
    declare c refcursor; begin open c for select * from all_rows where n <= count order by n; return c; end $$;
create procedure call_rows(count int, inout "a ""name""" refcursor) language plpgsql as $$
    begin "a ""name""" := 'the "cursor"'; open "a ""name""" for select * from all_rows where n <= count order by n; end $$;
create function table_rows(count int) returns table (n int, words text) language sql stable as $$
    select n, words from all_rows where n <= count order by n $$;
create function setof_rows(count int) returns setof all_rows language plpgsql stable as $$
    begin return query select * from all_rows where n <= count order by n; end $$;
"#;

const COUNT: &str = "/*\n[params]\ncount = \"integer\"\n*/\n";

/// A server with one source and these endpoints. It has one connection unless `settings` change
/// that.
async fn server(db: &TestDb, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    launch(db, settings, endpoints).start().await
}

/// The same, even if the database refuses the statements.
async fn unchecked(db: &TestDb, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    launch(db, settings, endpoints).argument("--no-check").start().await
}

fn launch(db: &TestDb, settings: &str, endpoints: &[(&str, &str)]) -> Launch {
    let config = config(db, settings);
    let files: Vec<_> =
        endpoints.iter().map(|(name, sql)| (format!("endpoints/{name}.sql"), (*sql).to_owned())).collect();
    let files: Vec<_> = [("rowstream.toml", &config[..])]
        .into_iter()
        .chain(files.iter().map(|(name, sql)| (&name[..], &sql[..])))
        .collect();
    Launch::files(&files)
}

fn config(db: &TestDb, settings: &str) -> String {
    let pool = if settings.contains("pool") { "" } else { "pool = { max = 1, acquire_timeout = \"10s\" }\n" };
    format!("write_timeout = \"1h\"\n[source.db]\nurl = \"{}\"\n{pool}{settings}\n", db.url())
}

/// Asserts that the response is complete, and returns its text.
#[track_caller]
fn whole(reply: &Reply) -> &str {
    assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{:?}", reply.text());
    reply.text()
}

/// Asserts that an error has its real status, and a document with these words.
#[track_caller]
fn refused(what: &str, reply: &Reply, status: u16, words: &[&str]) {
    assert_eq!((reply.status.as_u16(), &reply.ended), (status, &Ended::Complete), "{what}: {}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{what}");
    for words in words {
        assert!(reply.text().contains(words), "{what}: {}", reply.text());
    }
}

/// Waits until a query returns the number `wanted`.
async fn until(db: &TestDb, sql: &str, wanted: i64) {
    let client = db.client().await;
    let look = async || {
        let got: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
        if got == wanted { Ok(()) } else { Err(got) }
    };
    wait_until(&format!("{wanted}: {sql}"), look).await;
}

// --- Rows ----------------------------------------------------------------------------------------

/// The rows of an Arrow stream, each as a separate batch, because the boundaries of batches depend
/// on time.
fn arrow(stream: &[u8]) -> (SchemaRef, Vec<RecordBatch>) {
    let reader = StreamReader::try_new(stream, None).unwrap();
    let schema = reader.schema();
    let rows = |batch: RecordBatch| (0..batch.num_rows()).map(|row| batch.slice(row, 1)).collect::<Vec<_>>();
    (schema, reader.map(Result::unwrap).flat_map(rows).collect())
}

#[tokio::test]
async fn rows_of_a_refcursor_are_those_of_its_query() {
    let db = TestDb::new().await;
    db.execute(ROWS).await;
    let sql = |text: &str| format!("{COUNT}{text}");
    let endpoints = [
        ("query", sql("select * from all_rows where n <= :count order by n")),
        ("function", sql("select open_rows(:count)")),
        ("from", sql("select * from open_rows(:count)")),
        ("procedure", sql("call call_rows(:count, null)")),
        ("setof", sql("select * from setof_rows(:count)")),
    ];
    let endpoints: Vec<_> = endpoints.iter().map(|(name, sql)| (*name, &sql[..])).collect();
    // The first step ends after 32 rows and the second after 96, or each after the source's number
    // of rows.
    for (settings, counts) in [
        ("", &[0, 1, 31, 32, 33, 95, 96, 97, 2015, 2016, 2017, 5000][..]),
        ("fetch_rows = 1", &[0, 1, 2, 100]),
        ("fetch_rows = 100", &[0, 99, 100, 101, 200, 5000]),
        ("fetch_rows = 10000", &[0, 5000]),
    ] {
        let server = server(&db, settings, &endpoints).await;
        for (count, suffix) in
            counts.iter().flat_map(|n| ["", ".ndjson", ".json-seq", ".csv"].map(|f| (n, f)))
        {
            let path = |endpoint: &str| server.url(&format!("/{endpoint}{suffix}?count={count}"));
            let expected = get(&path("query")).await;
            for endpoint in ["function", "from", "procedure", "setof"] {
                let reply = get(&path(endpoint)).await;
                let what = format!("{endpoint}{suffix} of {count} with {settings:?}");
                assert!(whole(&reply) == whole(&expected), "{what}:\n{}", reply.text());
            }
        }
        for count in counts {
            let path = |endpoint: &str| server.url(&format!("/{endpoint}.arrow?count={count}"));
            let (reply, expected) = (get(&path("procedure")).await, get(&path("query")).await);
            assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{count}");
            let (told, rows) = (arrow(&reply.body), arrow(&expected.body));
            assert!(told == rows, "{count} with {settings:?}");
        }
        db.until_none_active().await;
    }
}

#[tokio::test]
async fn a_cursor_may_have_other_columns_at_each_call() {
    let db = TestDb::new().await;
    db.execute(
        "create function any_rows(kind int) returns refcursor language plpgsql as $$
           declare c refcursor; begin
             if kind = 1 then open c for select 1 as n;
             elsif kind = 2 then open c for select 'a' as t, 1.50 as n, null::bool as b;
             else open c for execute 'show server_encoding'; end if;
             return c;
           end $$;
         create function positioned() returns refcursor language plpgsql as $$
           declare c refcursor; r record; begin
             open c for select generate_series(1, 5) as n; fetch c into r; fetch c into r; return c; end $$",
    )
    .await;
    let any = "/*\n[params]\nkind = \"integer\"\n*/ select any_rows(:kind)";
    let server = server(&db, "", &[("any", any), ("positioned", "select positioned()")]).await;
    for _ in 0..3 {
        for (kind, rows) in [
            (1, r#"[{"n":1}]"#),
            (2, r#"[{"t":"a","n":1.50,"b":null}]"#),
            (3, r#"[{"server_encoding":"UTF8"}]"#),
        ] {
            assert_eq!(whole(&get(&server.url(&format!("/any?kind={kind}"))).await), rows);
        }
        assert_eq!(whole(&get(&server.url("/positioned")).await), r#"[{"n":3},{"n":4},{"n":5}]"#);
    }
}

/// A lookup shares its connection with others, where a cursor would end with its statement.
#[tokio::test]
async fn a_look_up_of_a_refcursor_has_a_connection_of_its_own() {
    let db = TestDb::new().await;
    db.execute(ROWS).await;
    let one = "/*\nresult = \"one\"\n[params]\nn = \"integer\"\n*/ select open_rows(:n)";
    let value = "-- name: v :value\nselect open_one() as v";
    db.execute(
        "create function open_one() returns refcursor language plpgsql as $$
           declare c refcursor; begin open c for select 42 as answer; return c; end $$",
    )
    .await;
    let server = server(&db, "pool = { max = 8 }", &[("one", one), ("value", value)]).await;
    for _ in 0..5 {
        assert!(whole(&get(&server.url("/one?n=1")).await).starts_with(r#"{"n":1,"small":1,"#));
        refused("none", &get(&server.url("/one?n=0")).await, 404, &["not_found"]);
        refused("two", &get(&server.url("/one?n=2")).await, 500, &["`rows` must return one row"]);
        assert_eq!(whole(&get(&server.url("/value")).await), "42");
    }
    db.until_none_active().await;
}

/// Rows of a function in SQL arrive as its query finds them. This one's first row arrives before a
/// billion others are computed.
#[tokio::test]
async fn a_table_of_a_function_in_sql_streams() {
    let db = TestDb::new().await;
    db.execute(
        "create function numbers(most bigint) returns table (n bigint, x text) language sql stable as $$
           select generate_series(1, most), repeat('x', 100) $$",
    )
    .await;
    let server = server(&db, "", &[("numbers", "select * from numbers(1000000000)")]).await;
    let mut stream = Client::HTTP1.stream(&server.url("/numbers.ndjson")).await;
    let chunk = stream.chunk().await.unwrap();
    assert!(chunk.starts_with(br#"{"n":1,"x":"xxx"#));
    drop(stream);
    db.until_none_active().await;
}

// --- Several -------------------------------------------------------------------------------------

const SEVERAL: &str = r#"
create table item (id int primary key, name text);
insert into item select i, 'item ' || i from generate_series(1, 100) i;
create function open_items(lowest int, out items refcursor, out total refcursor, out first refcursor) language plpgsql stable as $$
    begin
        open items for select * from item where id >= lowest order by id;
        open total for select count(*) from item where id >= lowest;
        open first for select id from item where id >= lowest order by id limit 1;
    end $$;
create procedure call_items(lowest int, inout items refcursor, inout total refcursor, inout first refcursor) language plpgsql as $$
    begin select * into items, total, first from open_items(lowest); end $$;
"#;

const READERS: &str = ";\n-- name: items :many from opened\n-- name: total :value from opened\n\n-- name: first :one from opened\n";

#[tokio::test]
async fn several_refcursors_have_their_places() {
    let db = TestDb::new().await;
    db.execute(SEVERAL).await;
    let head = "/*\nbody = { total = \"$total\", page = { items = \"$items\", count = \"$count(items)\" }, first = \"$first\", plain = \"$plain\" }
        [params]\nlowest = \"integer\"\n*/\n-- name: opened :refcursors\n";
    let plain = "-- name: plain :many\nselect id from item where id > :lowest + 1 order by id limit 2;
        -- name: same :many nested in plain on id = id\nselect id from item where id > :lowest + 1 order by id limit 2";
    let function = format!("{head}select * from open_items(:lowest){READERS}{plain}");
    let procedure = format!("{head}call call_items(:lowest, null, null, null){READERS}{plain}");
    let only = "/*\nformats = [\"json\", \"ndjson\", \"csv\"]\n*/\n-- name: o :refcursors
        select items, total from open_items(99);\n-- name: items :many from o\n-- name: total :value from o\n";
    let only = only.replace("formats", "body = { items = \"$items\", n = \"$total\" }\nformats");
    let twice =
        "/*\nbody = { a = \"$total\", b = \"$items\" }\n[params]\na = \"integer\"\nb = \"integer\"\n*/
        -- name: one :refcursors\nselect total from open_items(:a);
        -- name: other :refcursors\nselect items from open_items(:b);
        -- name: total :value from one\n-- name: items :many from other\n";
    for settings in ["", "fetch_rows = 7"] {
        let endpoints =
            [("function", &function[..]), ("procedure", &procedure), ("only", &only), ("twice", twice)];
        let server = server(&db, settings, &endpoints).await;
        for lowest in [1, 50, 100, 101] {
            let rows = |from: i32| (from..=100).map(|id| json!({"id": id, "name": format!("item {id}")}));
            let expected = json!({
                "total": 101 - lowest,
                "page": { "items": rows(lowest).collect::<Vec<_>>(), "count": 101 - lowest },
                "first": (lowest..=100).next().map(|id| json!({ "id": id })),
                "plain": (lowest + 2..=100).take(2).map(|id| json!({ "id": id, "same": [{ "id": id }] })).collect::<Vec<_>>(),
            });
            for endpoint in ["function", "procedure"] {
                let reply = get(&server.url(&format!("/{endpoint}?lowest={lowest}"))).await;
                whole(&reply);
                assert_eq!(reply.json(), expected, "{endpoint} from {lowest} with {settings:?}");
            }
        }
        let rows = "{\"id\":99,\"name\":\"item 99\"}\n{\"id\":100,\"name\":\"item 100\"}\n";
        assert_eq!(whole(&get(&server.url("/only.ndjson")).await), rows);
        assert_eq!(whole(&get(&server.url("/only.csv")).await), "id,name\r\n99,item 99\r\n100,item 100\r\n");
        // The same text with other arguments.
        let reply = get(&server.url("/twice?a=41&b=100")).await;
        assert_eq!(whole(&reply), r#"{"a":60,"b":[{"id":100,"name":"item 100"}]}"#);
        db.until_none_active().await;
    }
}

/// The output of `rowstream check` for these endpoints, on stdout and on stderr.
async fn check(db: &TestDb, endpoints: &[(&str, &str)]) -> (bool, String, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rowstream.toml"), config(db, "")).unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    for (name, sql) in endpoints {
        std::fs::write(folder.path().join(format!("endpoints/{name}.sql")), sql).unwrap();
    }
    let toml = folder.path().join("rowstream.toml");
    ran(&["check", toml.to_str().unwrap()]).await
}

/// Runs the program. Returns its success and its output.
async fn ran(arguments: &[&str]) -> (bool, String, String) {
    let output = rowstream(arguments).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn check_calls_nothing_and_says_so() {
    let db = TestDb::new().await;
    db.execute(SEVERAL).await;
    db.execute(
        "create function never() returns refcursor language plpgsql as $$ begin raise exception 'it was called'; end $$",
    )
    .await;
    let several = format!(
        "/*\nbody = [\"$items\", \"$total\", \"$first\"]\n*/\n-- name: opened :refcursors\nselect * from open_items(1){READERS}"
    );
    let (well, told, errors) = check(&db, &[("never", "select never()"), ("several", &several)]).await;
    assert!(well, "{errors}");
    for line in [
        "rows :many -> a refcursor, whose columns are known once it is open",
        "items :many -> a refcursor of opened, whose columns are known once it is open",
        "total :value -> a refcursor of opened,",
        "first :one -> a refcursor of opened,",
    ] {
        assert!(told.contains(line), "{told}");
    }
    let (well, _, errors) = check(&db, &[("keyed", "/* key = [\"n\"] */ select never()")]).await;
    assert!(!well && errors.contains("the rows of a refcursor can't have a `key`"), "{errors}");
}

/// Errors that only the database's description of a statement reveals. `check` reports them, and so
/// does each request.
#[tokio::test]
async fn refcursors_that_do_not_suit_are_faults() {
    let db = TestDb::new().await;
    db.execute(SEVERAL).await;
    let of = |body: &str, opener: &str, readers: &str| {
        format!("/*\nbody = [{body}]\n*/\n-- name: opened :refcursors\n{opener};\n{readers}")
    };
    let items = "-- name: items :many from opened\n";
    let unread = of("\"$items\"", "select items, total from open_items(1)", items);
    for (name, sql, errors) in [
        (
            "beside",
            "select 1 as n, items from open_items(1)".to_owned(),
            &["statement `rows` has a refcursor `items` beside other columns", "`-- name: items :many from opened`"][..],
        ),
        (
            "two",
            "select items, total from open_items(1)".to_owned(),
            &["statement `rows` has a refcursor `items` beside other columns"],
        ),
        (
            "unknown",
            of("\"$item\"", "select items from open_items(1)", "-- name: item :many from opened\n"),
            &["statement `opened` opens no refcursor `item`", "did you mean `items`?"],
        ),
        (
            "plain",
            of("\"$items\"", "select items, 1 as status from open_items(1)", items),
            &["statement `opened` has a column `status` of type int4 instead of refcursor"],
        ),
        (
            "none",
            of("\"$items\"", "select 'x' as items", items),
            &["statement `opened` has a column `items` of type text instead of refcursor"],
        ),
        (
            "nested",
            "-- name: a :many\nselect 1 as id;\n-- name: b :many nested in a on id = id\nselect items as id from open_items(1)"
                .to_owned(),
            &["statement `b` reads a refcursor, so its rows can't be nested", "functions that return a \
                table"],
        ),
        (
            "above",
            "-- name: a :many\nselect items as id from open_items(1);\n-- name: b :many nested in a on id = id\nselect 1 as id"
                .to_owned(),
            &["statement `a` reads a refcursor, so its rows can't be nested"],
        ),
    ] {
        let (well, told, said) = check(&db, &[(name, &sql)]).await;
        assert!(!well, "{name}: {told}");
        let server = unchecked(&db, "", &[(name, &sql)]).await;
        let reply = get(&server.url(&format!("/{name}"))).await;
        refused(name, &reply, 500, &["\"endpoint\""]);
        for error in errors {
            assert!(said.contains(error), "{name}: {said}");
            assert!(reply.json().to_string().contains(error), "{name}: {}", reply.text());
        }
    }
    // Opening an unused cursor is an error in the file, but requests are answered anyway.
    let (well, _, said) = check(&db, &[("unread", &unread)]).await;
    assert!(!well && said.contains("no statement reads the refcursor `total` of `opened`"), "{said}");
    assert!(said.contains("endpoints/unread.sql:5:1:") && said.ends_with("1 error\n"), "{said}");
    let server = server(&db, "", &[("unread", &unread)]).await;
    assert!(server.stderr().contains("unread.sql:5:1:"), "{}", server.stderr());
    assert!(whole(&get(&server.url("/unread")).await).starts_with(r#"[[{"id":1,"#));
    // The database's error is reported once, regardless of the number of statements that read from
    // it.
    let missing = of(
        "\"$a\", \"$b\"",
        "select * from missing()",
        "-- name: a :many from opened\n-- name: b :many from opened\n",
    );
    let (_, _, said) = check(&db, &[("missing", &missing)]).await;
    assert!(said.contains("missing() does not exist") && said.ends_with("1 error\n"), "{said}");
}

// --- Errors --------------------------------------------------------------------------------------

/// Two statements that read one cursor.
const SHARED: &str = "/*\nbody = [\"$a\", \"$b\"]\n*/\n-- name: o :refcursors
    select c as a, c as b from fine() c;\n-- name: a :many from o\n-- name: b :many from o\n";

#[tokio::test]
async fn what_fails_before_the_first_row_has_its_status() {
    let db = TestDb::new().await;
    db.execute(
        "create function raises() returns refcursor language plpgsql as $$ begin raise exception 'not today'; end $$;
         create function divides() returns refcursor language plpgsql as $$
           declare c refcursor; begin open c for select 1 / (n - n) as x from generate_series(1, 3) n; return c; end $$;
         create function nothing() returns refcursor language sql as 'select null::refcursor';
         create function unknown() returns refcursor language sql as $$ select 'gone'::refcursor $$;
         create function unnamed() returns refcursor language sql as $$ select ''::refcursor $$;
         create function closed() returns refcursor language plpgsql as $$
           declare c refcursor; begin open c for select 1; close c; return c; end $$;
         create function caught() returns refcursor language plpgsql as $$
           declare c refcursor; begin
             begin open c for select 1; perform 1 / 0; exception when division_by_zero then null; end;
             return c; end $$;
         create function many(n int) returns setof refcursor language plpgsql as $$
           declare c refcursor; begin for i in 1..n loop c := 'c' || i; open c for select 1; return next c; end loop; end $$;
         create table t (n int);
         create procedure writes(inout c refcursor) language plpgsql as $$ begin insert into t values (1); open c for select 1; end $$;
         create procedure commits(inout c refcursor) language plpgsql as $$ begin commit; open c for select 1; end $$;
         create function twins() returns refcursor language plpgsql as $$
           declare c refcursor; begin open c for select 1 as n, 2 as n; return c; end $$;
         create function fine() returns refcursor language plpgsql as $$
           declare c refcursor; begin open c for select 1 as n; return c; end $$",
    )
    .await;
    for (sql, status, words) in [
        ("select raises()", 400, &["not today", "P0001"][..]),
        ("select divides()", 500, &["division by zero", "22012"]),
        ("select nothing()", 500, &["the refcursor of statement `rows` is NULL", "hint"]),
        ("select unknown()", 500, &["cursor `gone`, which isn't open", "34000", "hint"]),
        ("select unnamed()", 500, &["cursor ``, which isn't open", "hint"]),
        ("select closed()", 500, &["which isn't open", "34000"]),
        ("select caught()", 500, &["which isn't open", "34000"]),
        ("select many(0)", 500, &["statement `rows` opens no cursor", "hint"]),
        ("select many(2)", 500, &["must return one row of refcursors, but returns more", ":refcursors"]),
        ("select * from many(1000)", 500, &["must return one row of refcursors, but returns more"]),
        ("call writes(null)", 500, &["25006"]),
        ("call commits(null)", 500, &["2D000"]),
        ("select twins()", 500, &["statement `rows` has two columns called `n`"]),
        ("select missing()", 500, &["42883"]),
        // The second statement was an empty list, because the first one had read all rows.
        (SHARED, 500, &["the refcursor of statement `b` is that of another statement", "hint"]),
    ] {
        for settings in ["", "fetch_rows = 1"] {
            let server = unchecked(&db, settings, &[("t", sql), ("fine", "select fine()")]).await;
            for _ in 0..2 {
                refused(sql, &get(&server.url("/t")).await, status, words);
                assert_eq!(whole(&get(&server.url("/fine")).await), r#"[{"n":1}]"#, "after {sql}");
            }
        }
        db.until_none_active().await;
    }
}

/// Wide rows, so that some have left before one fails.
const FAILS: &str = "create function fails(last int, bad int) returns refcursor language plpgsql as $$
    declare c refcursor; begin
      open c for select n, repeat('x', 200) as x, 1 / (n - bad) as y from generate_series(1, last) n; return c; end $$";

#[tokio::test]
async fn an_error_within_the_rows_breaks_off() {
    let db = TestDb::new().await;
    db.execute(FAILS).await;
    for settings in ["", "fetch_rows = 1", "fetch_rows = 100"] {
        let server = server(
            &db,
            settings,
            &[("fails", "select fails(1000, 500)"), ("whole", "select fails(1000, 0)")],
        )
        .await;
        for suffix in ["", ".ndjson", ".csv", ".arrow"] {
            let reply = get(&server.url(&format!("/fails{suffix}"))).await;
            assert_eq!(reply.status, StatusCode::OK, "{suffix}");
            assert!(matches!(reply.ended, Ended::Broken(_)), "{suffix} with {settings:?}: {:?}", reply.ended);
        }
        let reply = get(&server.url("/fails.ndjson")).await;
        assert!(reply.text().lines().count() < 500, "no row after the one that failed");
        assert_eq!(whole(&get(&server.url("/whole.ndjson")).await).lines().count(), 1000);
        db.until_none_active().await;
    }
}

const ENDLESS: &str = "create function endless() returns refcursor language plpgsql as $$
    declare c refcursor; begin
      open c for select generate_series(1, 1000000000) as n, repeat('x', 100) as x; return c; end $$";

#[tokio::test]
async fn a_client_that_leaves_leaves_nothing_behind() {
    let db = TestDb::new().await;
    db.execute(ENDLESS).await;
    db.execute(
        "create function sleeps() returns refcursor language plpgsql as $$
           declare c refcursor; begin open c for select pg_sleep(1000)::text as v; return c; end $$;
         create function slow() returns refcursor language plpgsql as $$
           declare c refcursor; begin perform pg_sleep(1000); open c for select 1 as n; return c; end $$",
    )
    .await;
    let server = server(
        &db,
        "",
        &[
            ("endless", "select endless()"),
            ("sleeps", "select sleeps()"),
            ("slow", "select slow()"),
            ("pid", "select pg_backend_pid() as pid"),
        ],
    )
    .await;
    let pid = whole(&get(&server.url("/pid")).await).to_owned();
    for client in [Client::HTTP1, Client::H2C] {
        let mut stream = client.stream(&server.url("/endless.ndjson")).await;
        for _ in 0..3 {
            stream.chunk().await.unwrap();
        }
        drop(stream);
        db.until_none_active().await;
    }
    let asleep =
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'";
    for path in ["/sleeps", "/slow"] {
        let url = server.url(path);
        let mut waits = Box::pin(get(&url));
        tokio::select! {
            reply = &mut waits => panic!("{:?}", reply.status),
            () = until(&db, asleep, 1) => {}
        }
        drop(waits);
        db.until_none_active().await;
    }
    assert_eq!(whole(&get(&server.url("/pid")).await), pid, "it is the same connection");
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_cursor() {
    let db = TestDb::new().await;
    db.execute(ENDLESS).await;
    let server = server(&db, "", &[("endless", "select endless()")]).await;
    let mut stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/endless.ndjson")).await;
    stream.chunk().await.unwrap();
    // Each step is a separate query. When no further step begins, the last one's rows wait to be
    // read.
    let client = db.client().await;
    let step = "select query_start::text from pg_stat_activity
        where datname = current_database() and application_name = 'rowstream' and query like 'fetch %'";
    let mut before = String::new();
    wait_until("no further step begins", async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now: String = client.query_one(step, &[]).await.unwrap().get(0);
        std::mem::replace(&mut before, now) == before
    })
    .await;
    let mut rows = 0;
    while rows < 100_000 {
        rows += stream.chunk().await.unwrap().iter().filter(|&&byte| byte == b'\n').count();
    }
    drop(stream);
    db.until_none_active().await;
}

#[tokio::test]
async fn a_backend_that_ends_within_the_rows_breaks_off() {
    let db = TestDb::new().await;
    db.execute(ENDLESS).await;
    let server = server(&db, "", &[("endless", "select endless()"), ("one", "select 1 as n")]).await;
    let mut stream = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
    stream.chunk().await.unwrap();
    db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name = 'rowstream'",
    )
    .await;
    let ended = loop {
        if let Err(ended) = stream.chunk().await {
            break ended;
        }
    };
    assert!(matches!(ended, Ended::Broken(_)), "{ended:?}");
    assert_eq!(whole(&get(&server.url("/one")).await), r#"[{"n":1}]"#);
}

/// A source with one connection, an endpoint with several refcursors, and one with a single row.
struct Asked {
    source: Source,
    config: Config,
}

impl Asked {
    fn new(url: &str, fetch_rows: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (toml, endpoints) = (folder.path().join("rowstream.toml"), folder.path().join("endpoints"));
        std::fs::create_dir(&endpoints).unwrap();
        let settings = format!("pool = {{ max = 1 }}\nfetch_rows = {fetch_rows}\n");
        std::fs::write(&toml, format!("[source.db]\nurl = \"{url}\"\n{settings}")).unwrap();
        let opened = "-- name: opened :refcursors\nselect * from open_items(1)";
        let sql = format!("/*\nbody = [\"$items\", \"$total\", \"$first\"]\n*/\n{opened}{READERS}");
        std::fs::write(endpoints.join("t.sql"), sql).unwrap();
        std::fs::write(endpoints.join("u.sql"), "select 1 as n").unwrap();
        let config = Config::load(&toml).unwrap();
        Self { source: Source::open(&config.sources[0]).unwrap(), config }
    }

    async fn several(&self) -> Result<String, Error> {
        self.body(0).await
    }

    async fn one(&self) -> Result<String, Error> {
        self.body(1).await
    }

    async fn body(&self, endpoint: usize) -> Result<String, Error> {
        let endpoint = &self.config.endpoints[endpoint];
        let mut stream = RowStream::open(endpoint, &self.source, Format::Json, Vec::new()).await?;
        let mut out = Vec::new();
        while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
            out.extend_from_slice(&chunk?);
        }
        Ok(String::from_utf8(out).unwrap())
    }
}

#[tokio::test]
async fn a_response_of_refcursors_may_be_dropped_at_every_poll() {
    let db = TestDb::new().await;
    db.execute(SEVERAL).await;
    let pieces = Some(Pieces { bytes: 512, pause: Duration::ZERO });
    let (proxy, url) = proxied(&db, Faults { pieces, ..Faults::default() }).await;
    let asked = Asked::new(&url, 20);
    let expected = asked.several().await.unwrap();
    assert!(expected.starts_with(r#"[[{"id":1,"#) && expected.ends_with(r#"],100,{"id":1}]"#), "{expected}");
    for polls in 0.. {
        let done = proxy.polled(asked.several(), polls).await;
        let other = wait("a connection", asked.one()).await;
        assert_eq!(other.unwrap(), r#"[{"n":1}]"#, "after {polls} polls");
        if let Some(done) = done {
            assert_eq!(done.unwrap(), expected);
            assert!(polls > 8, "{polls} polls are no test");
            return;
        }
    }
}

async fn proxied(db: &TestDb, faults: Faults) -> (TcpProxy, String) {
    let proxy = TcpProxy::to_client(SocketAddr::from(([127, 0, 0, 1], pg_port())), faults).await;
    let url = format!("postgres://postgres@{}/{}?sslmode=disable", proxy.address(), db.name());
    (proxy, url)
}

#[tokio::test]
async fn refcursors_in_fragments_of_any_size_are_the_same() {
    let db = TestDb::new().await;
    db.execute(SEVERAL).await;
    let whole = Asked::new(&db.url(), 0).several().await.unwrap();
    for bytes in 1..=24 {
        let pieces = Some(Pieces { bytes, pause: Duration::ZERO });
        let (_proxy, url) = proxied(&db, Faults { pieces, ..Faults::default() }).await;
        let body = Asked::new(&url, (bytes % 3) as u32 * 7).several().await;
        assert_eq!(body.unwrap(), whole, "in pieces of {bytes} bytes");
    }
}

#[tokio::test]
async fn refcursors_on_a_connection_that_is_cut_are_an_error() {
    let db = TestDb::new().await;
    db.execute(SEVERAL).await;
    let (proxy, url) = proxied(&db, Faults::default()).await;
    Asked::new(&url, 0).several().await.unwrap();
    let bytes = proxy.bytes_to_client();
    for at in (0..bytes).step_by(23).chain(bytes - 40..bytes) {
        let how = if at % 2 == 0 { Cut::Close } else { Cut::Reset };
        let (_proxy, url) = proxied(&db, Faults { cut: Some((at, how)), ..Faults::default() }).await;
        match wait("its end", Asked::new(&url, 0).several()).await {
            Err(error) => assert_eq!(error.code(), "source_unavailable", "cut at {at}: {error:?}"),
            Ok(body) => panic!("cut at {at} of {bytes}, and still {body}"),
        }
    }
}

// --- The command ---------------------------------------------------------------------------------

#[tokio::test]
async fn query_reads_refcursors() {
    let db = TestDb::new().await;
    db.execute(ROWS).await;
    let url = db.url();
    let mut outputs = Vec::new();
    for sql in [
        "call call_rows(2000, null)",
        "select open_rows(2000)",
        "select * from all_rows where n <= 2000 order by n",
    ] {
        let (well, rows, said) = ran(&["query", &url, sql]).await;
        assert!(well, "{sql}: {said}");
        assert_eq!(rows.lines().count(), 2000, "{sql}");
        outputs.push(rows);
    }
    assert!(outputs[0] == outputs[2] && outputs[1] == outputs[2]);
    let (well, rows, said) = ran(&["query", &url, "call call_rows(0, null)", "--format", "csv"]).await;
    assert!(well && rows.starts_with("n,small,large,"), "{rows}{said}");
    let (well, _, said) = ran(&["query", &url, "select 'x'::refcursor as r"]).await;
    assert!(!well && said.contains("cursor `x`, which isn't open"), "{said}");
}
