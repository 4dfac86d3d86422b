//! PostgreSQL's own features of lookups that share a connection; see `lookups`.

use crate::lookups::{BY_KEY, Db, QUEUE, row, server};
use crate::support::get;
use serde_json::json;

/// A pipeline that parses a statement after the migration gets the new columns, but its readers
/// still expect the old ones.
#[tokio::test]
async fn a_description_from_before_a_migration_is_noticed() {
    let db = Db::postgres().await;
    // The second endpoint opens the pipelines before the first one's statement is known.
    let server = server(&db, QUEUE, &[("t", "select * from t where n = :id"), ("other", BY_KEY)]).await;
    row(&get(&server.url("/other/1")).await);
    row(&get(&server.url("/t/6")).await);
    db.execute("alter table t rename column text to words").await;
    for _ in 0..10 {
        let reply = get(&server.url("/t/6")).await;
        match reply.status.as_u16() {
            503 => assert_eq!(reply.json()["code"], "statement_changed"),
            _ => assert_eq!(row(&reply), json!({ "n": 6, "words": "row 6", "maybe": null })),
        }
    }
}

/// PostgreSQL doesn't announce altered types, so we query the catalog before each response, on each
/// connection.
#[tokio::test]
async fn an_altered_type_loses_no_answer() {
    let db = Db::postgres().await;
    db.execute("create type pair as (a int8, b text)").await;
    db.execute("create table typed as select n, row(n, 'x')::pair as p from generate_series(1, 9) n").await;
    let server = server(&db, QUEUE, &[("t", "select p from typed where n = :id")]).await;
    for n in 1..=3 {
        let (plain, by_options) = (format!("/t/{n}"), format!("/t/{n}?_numbers=string"));
        assert_eq!(row(&get(&server.url(&plain)).await), json!({ "p": { "a": n, "b": "x" } }));
        let a = n.to_string();
        assert_eq!(row(&get(&server.url(&by_options)).await), json!({ "p": { "a": a, "b": "x" } }));
    }
    for (change, expected) in [
        ("alter type pair add attribute c bool", json!({ "a": 1, "b": "x", "c": null })),
        ("alter type pair rename attribute c to d", json!({ "a": 1, "b": "x", "d": null })),
        ("alter type pair drop attribute b, add attribute e text", json!({ "a": 1, "d": null, "e": null })),
    ] {
        db.execute(change).await;
        for _ in 0..9 {
            assert_eq!(row(&get(&server.url("/t/1")).await), json!({ "p": expected }), "{change}");
        }
    }
}
