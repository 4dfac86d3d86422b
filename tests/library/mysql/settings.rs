//! A server whose global settings would change rows or their number.

use rowstream_encode::Format;

use super::{body, run, source};
use crate::support::MariaReplica;

/// A server's `sql_select_limit` truncated each result, which looked complete. Other settings act
/// similarly.
#[tokio::test]
async fn settings_of_the_server_change_no_rows() {
    let servers = MariaReplica::start();
    servers.ask(
        0,
        "set global sql_select_limit = 2; set global group_concat_max_len = 10; set global autocommit = 0;
         set global completion_type = 1; set global max_recursive_iterations = 3; set global max_sort_length = 64;
         set global time_zone = '+05:00'; set global character_set_results = latin1;
         set global sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES';
         set global tx_isolation = 'READ-UNCOMMITTED'",
    );
    let source = source(&servers.url(0, "ssl-mode=disabled"));
    let rows = run(&source, "select seq as n from seq_1_to_100").await.unwrap();
    assert_eq!(rows.lines().count(), 100);
    for (sql, expected) in [
        (
            "with recursive r as (select 1 as n union all select n + 1 from r where n < 5000) select max(n) v from r",
            "5000",
        ),
        ("select length(group_concat(seq)) v from seq_1_to_400000", "2688894"),
        ("select json_valid(json_arrayagg(seq)) v from seq_1_to_400000", "1"),
        ("select \"a\\\"b\" v", "\"a\\\"b\""),
        ("select from_unixtime(0) v", "\"1970-01-01T00:00:00\""),
        ("select 'ü中' v", "\"ü中\""),
        (
            "select concat(repeat('p', 250), (seq * 37) % 10) v from seq_1_to_10 order by v collate utf8mb4_bin limit 1",
            &format!("\"{}0\"", "p".repeat(250)),
        ),
    ] {
        assert_eq!(run(&source, sql).await.unwrap(), format!("{{\"v\":{expected}}}\n"), "{sql}");
    }
}

/// With `autocommit = 0`, the first statement of a connection began a transaction, and all later
/// ones read its snapshot. A `rollback` with `completion_type = 1` had the same effect.
#[tokio::test]
async fn a_statement_reads_what_was_committed_before_it() {
    let servers = MariaReplica::start();
    servers.ask(
        0,
        "create table mysql.t (n int); insert into mysql.t values (1); set global completion_type = 1",
    );
    for autocommit in [1, 0] {
        servers.ask(
            0,
            &format!("set autocommit = 1; delete from mysql.t; set global autocommit = {autocommit}"),
        );
        let source = source(&servers.url(0, "ssl-mode=disabled"));
        // Several statements form a transaction, which ends with a rollback.
        let twice = "/* body = { a = \"$a\", b = \"$b\" } */\n-- name: a :many\nselect 1 as v;\n-- name: b :one\nselect 2 as v";
        body(&source, twice, Format::Json).await.unwrap();
        for n in 0..3 {
            let rows = run(&source, "select count(*) as v from t").await.unwrap();
            assert_eq!(rows, format!("{{\"v\":{n}}}\n"), "autocommit = {autocommit}");
            servers.ask(0, "set autocommit = 1; insert into mysql.t values (1)");
        }
    }
}

/// If a server allowed few prepared statements, we reported an error in a user's file. The start
/// failed, and with `--no-check` every request failed.
#[tokio::test]
async fn the_oldest_statements_give_way_if_the_server_allows_no_more() {
    let servers = MariaReplica::start();
    servers.ask(0, "set global max_prepared_stmt_count = 4");
    let source = source(&servers.url(0, "ssl-mode=disabled"));
    for _ in 0..2 {
        for n in 0..12 {
            assert_eq!(run(&source, &format!("select {n} v")).await.unwrap(), format!("{{\"v\":{n}}}\n"));
        }
    }
    servers.ask(0, "set global max_prepared_stmt_count = 0");
    let other = super::source(&servers.url(0, "ssl-mode=disabled"));
    let error = run(&other, "select 'another' v").await.unwrap_err();
    assert_eq!((error.code(), error.status().as_u16()), ("source_unavailable", 503));
    assert!(error.hint_text().unwrap_or_default().contains("statement_cache"), "{error:?}");
}
