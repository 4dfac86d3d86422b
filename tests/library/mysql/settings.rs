//! A server whose global settings would change rows or their number.

use rowstream_encode::Format;

use super::{body, run, source};
use crate::support::{OwnServer, Product, with_both};

/// A server's `sql_select_limit` truncated each result, which looked complete. Other settings act
/// similarly.
async fn settings_of_the_server_change_no_rows(on: Product) {
    let server = OwnServer::start(on);
    let own = match on {
        Product::MariaDb => "max_recursive_iterations = 3; set global tx_isolation = 'READ-UNCOMMITTED'",
        Product::MySql8 => "transaction_isolation = 'READ-UNCOMMITTED'",
    };
    server.ask(&format!(
        "set global sql_select_limit = 2; set global group_concat_max_len = 10; set global autocommit = 0;
         set global completion_type = 1; set global max_sort_length = 64;
         set global time_zone = '+05:00'; set global character_set_results = latin1;
         set global sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'; set global {own}"
    ));
    let source = source(&server.url());
    let rows = run(&source, "select seq as n from seq_1_to_100").await.unwrap();
    assert_eq!(rows.lines().count(), 100);
    // MySQL's `cte_max_recursion_depth` is an error.
    let steps = if on == Product::MariaDb { 5000 } else { 1000 };
    let recursive = format!(
        "with recursive r as (select 1 as n union all select n + 1 from r where n < {steps}) select max(n) v from r"
    );
    for (sql, expected) in [
        (&*recursive, &*steps.to_string()),
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
async fn a_statement_reads_what_was_committed_before_it(on: Product) {
    let server = OwnServer::start(on);
    server
        .ask("create table mysql.t (n int); insert into mysql.t values (1); set global completion_type = 1");
    for autocommit in [1, 0] {
        server.ask(&format!("set autocommit = 1; delete from mysql.t; set global autocommit = {autocommit}"));
        let source = source(&server.url());
        // Several statements form a transaction, which ends with a rollback.
        let twice = "/* body = { a = \"$a\", b = \"$b\" } */\n-- name: a :many\nselect 1 as v;\n-- name: b :one\nselect 2 as v";
        body(&source, twice, Format::Json).await.unwrap();
        for n in 0..3 {
            let rows = run(&source, "select count(*) as v from t").await.unwrap();
            assert_eq!(rows, format!("{{\"v\":{n}}}\n"), "autocommit = {autocommit}");
            server.ask("set autocommit = 1; insert into mysql.t values (1)");
        }
    }
}

/// If a server allowed few prepared statements, we reported an error in a user's file. The start
/// failed, and with `--no-check` every request failed.
async fn the_oldest_statements_give_way_if_the_server_allows_no_more(on: Product) {
    let server = OwnServer::start(on);
    server.ask("set global max_prepared_stmt_count = 4");
    let source = source(&server.url());
    for _ in 0..2 {
        for n in 0..12 {
            assert_eq!(run(&source, &format!("select {n} v")).await.unwrap(), format!("{{\"v\":{n}}}\n"));
        }
    }
    server.ask("set global max_prepared_stmt_count = 0");
    let other = super::source(&server.url());
    let error = run(&other, "select 'another' v").await.unwrap_err();
    assert_eq!((error.code(), error.status().as_u16()), ("source_unavailable", 503));
    assert!(error.hint_text().unwrap_or_default().contains("statement_cache"), "{error:?}");
}

with_both! {
    settings_of_the_server_change_no_rows
    a_statement_reads_what_was_committed_before_it
    the_oldest_statements_give_way_if_the_server_allows_no_more
}
