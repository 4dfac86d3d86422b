//! Database errors as clients see them: a general sentence, or the database's own words with the
//! place.

use crate::support::{Launch, Server, TestDb, get};
use serde_json::Value;

/// A value that no client may see.
const SECRET: &str = "hunter2";

const PG: &[(&str, &str)] = &[
    ("first", "select 'hunter2'::text::int as n"),
    ("one", "/* result = 'one' */ select 'hunter2'::text::int as n"),
    (
        "late",
        "select case when n < 30000 then n else ('hunter2' || n)::int end as n from (select generate_series(1, 40000) as n) s",
    ),
    ("raised", "select raised() as n"),
    ("coded", "select coded() as n"),
];
const LITE: &[(&str, &str)] = &[
    ("first", "select json_extract('hunter2', '$.a') as n"),
    (
        "late",
        "with recursive c(i) as (select 1 union all select i + 1 from c where i < 60000)
        select json_extract(case when i < 50000 then '1' else 'hunter2' end, '$') as n from c",
    ),
];

async fn server(db: &TestDb, listen: &str, head: &str) -> Server {
    let lite = "[source.lite]\nurl = 'sqlite:lite.db'\ncreate = ['lite.sql']\n";
    let config = format!("{head}\n[source.pg]\nurl = '{}'\n{lite}", db.url());
    let mut files =
        vec![("rowstream.toml".to_owned(), config), ("lite.sql".to_owned(), "create table t (a)".to_owned())];
    for (source, endpoints) in [("pg", PG), ("lite", LITE)] {
        for (name, sql) in endpoints {
            let (head, sql) = match sql.strip_prefix("/* result = 'one' */") {
                Some(sql) => ("result = 'one'\n", sql),
                None => ("", *sql),
            };
            files.push((
                format!("endpoints/{source}/{name}.sql"),
                format!("/*\nsource = '{source}'\n{head}*/\n{sql}"),
            ));
        }
    }
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    Launch::files(&files).listen(listen).start().await
}

async fn database() -> TestDb {
    let db = TestDb::new().await;
    db.execute(
        "create function raised() returns int language plpgsql as $$ begin raise exception 'no such tenant'; end $$;
         create function coded() returns int language plpgsql as $$
             begin raise exception 'no such tenant' using errcode = '22023'; end $$",
    )
    .await;
    db
}

/// The text that clients get instead of the database's.
const OF_VALUE: &str = "the statement reads or computes a value that the database can't use";

/// The error in the end record of a framed stream, and in the kept result of the stream.
async fn late(server: &Server, source: &str) -> [Value; 2] {
    let reply = get(&server.url(&format!("/{source}/late.ndjson?_end=1"))).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
    let last: Value = serde_json::from_str(reply.text().lines().last().unwrap()).unwrap();
    let id = reply.header("rowstream-stream").expect("it has an id");
    let kept = get(&server.url(&format!("/_rowstream/streams/{id}"))).await.json();
    [last["error"].clone(), kept["error"].clone()]
}

/// Every client got the database's error message, which contained a value and the names of its
/// tables.
#[tokio::test]
async fn a_databases_words_are_not_for_everybody() {
    let db = database().await;
    for (listen, head) in [("127.0.0.1:0", "error_detail = 'code'"), ("0.0.0.0:0", "")] {
        let server = server(&db, listen, head).await;
        for (path, sqlstate, detail) in [
            ("/pg/first", Some("22P02"), OF_VALUE),
            ("/pg/one", Some("22P02"), OF_VALUE),
            ("/lite/first", None, OF_VALUE),
        ] {
            let reply = get(&server.url(path)).await;
            let problem = reply.json();
            assert_eq!(
                (problem["sqlstate"].as_str(), &problem["detail"]),
                (sqlstate, &detail.into()),
                "{problem}"
            );
            assert!(problem["code"].is_string() && !reply.text().contains(SECRET), "{problem}");
        }
        for source in ["pg", "lite"] {
            for error in late(&server, source).await {
                assert!(error["code"].is_string() && error["detail"].is_string(), "{error}");
                assert!(!error.to_string().contains(SECRET), "{error}");
            }
        }
        // An explicitly raised message was written for clients, whatever its code.
        for path in ["/pg/raised", "/pg/coded"] {
            assert_eq!(get(&server.url(path)).await.json()["detail"], "no such tenant", "{path}");
        }
        server.wait_for_stdout(SECRET).await;
    }
}

#[tokio::test]
async fn a_server_on_its_own_machine_tells_all() {
    let db = database().await;
    for (listen, head) in [("127.0.0.1:0", ""), ("0.0.0.0:0", "error_detail = 'database'")] {
        let server = server(&db, listen, head).await;
        for path in ["/pg/first", "/pg/one", "/lite/first"] {
            let problem = get(&server.url(path)).await.json();
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(SECRET) || detail.contains("malformed JSON"), "{problem}");
        }
        for error in late(&server, "pg").await {
            assert!(error["detail"].as_str().unwrap().contains(SECRET), "{error}");
        }
    }
}
