//! MariaDB's own features of lookups that share a connection; see `lookups`.

use std::time::Duration;

use crate::lookups::{BY_KEY, Db, QUEUE, all_are_right, row, server};
use crate::support::get;
use serde_json::json;

/// On a shared connection, preparing a statement waits for a locked table.
#[tokio::test]
async fn one_that_cannot_be_prepared_yet_does_not_hold_up_the_others() {
    let db = Db::mariadb().await;
    db.execute("create table o as select * from t").await;
    let other = "select n from o where n = :id";
    let settings = "pool = { waiting = 400 }\nstatement_cache = 1";
    let server = server(&db, settings, &[("t", BY_KEY), ("o", other)]).await;
    row(&get(&server.url("/o/1")).await);
    all_are_right(&server, 20).await;
    // The others need about a second.
    let locking = async { db.execute("lock tables o write; do sleep(15); unlock tables").await };
    let asking = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let url = server.url("/o/2");
        let waiting = tokio::spawn(async move { get(&url).await });
        for _ in 0..5 {
            all_are_right(&server, 50).await;
        }
        assert!(!waiting.is_finished(), "the others waited for it");
        assert_eq!(row(&waiting.await.expect("a reply")), json!({ "n": 2 }));
    };
    tokio::join!(locking, asking);
}

/// The type of the argument determines the column's type.
#[tokio::test]
async fn a_column_without_a_type_is_that_of_its_argument() {
    let db = Db::mariadb().await;
    let server = server(&db, QUEUE, &[("as", "select :id as n")]).await;
    for n in 1..=20 {
        assert_eq!(row(&get(&server.url(&format!("/as/{n}"))).await), json!({ "n": n }));
    }
}
