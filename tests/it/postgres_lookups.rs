//! Lookups of PostgreSQL that share a connection, as far as they are its own: see `lookups`.

use crate::lookups::{BY_KEY, Db, QUEUE, row, server};
use crate::support::{get, wait_until};
use serde_json::json;

/// A pipeline that parses a statement after the migration gets the new columns, and its readers
/// know the old ones.
#[tokio::test]
async fn a_description_from_before_a_migration_is_noticed() {
    let db = Db::postgres().await;
    // The second endpoint brings the pipelines up before the statement of the first is known.
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

/// The server tells nobody that a type was altered: one answer is lost, and those after it are
/// right, on whatever connection.
#[tokio::test]
async fn an_altered_type_loses_one_answer() {
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
    db.execute("alter type pair add attribute c bool").await;
    let lost = get(&server.url("/t/1")).await;
    assert_eq!((lost.status.as_u16(), &lost.json()["code"]), (502, &json!("source_protocol")));
    for n in 1..=9 {
        let reply = get(&server.url(&format!("/t/{n}"))).await;
        assert_eq!(row(&reply), json!({ "p": { "a": n, "b": "x", "c": null } }));
    }
    db.execute("alter type pair rename attribute c to d").await;
    wait_until("the new name is seen", async || {
        row(&get(&server.url("/t/1")).await) == json!({ "p": { "a": 1, "b": "x", "d": null } })
    })
    .await;
}
