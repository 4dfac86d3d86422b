//! Computed values of BIT, compared with the server's own `cast(… as unsigned)`.

use rowstream_encode::Format;

use super::{body, run, source};
use crate::support::{Ended, MariaDb, Product, Server, arrow, get, with_both};

/// Rows of each width. Some could be digits, bits or both.
const TABLE: &str = "create table b (id int primary key, o bit(1), x bit(8), y bit(17), z bit(64));
    insert into b values (1, 1, 200, 65584, 18446744073709551615), (2, 0, 5, 49, 49), (3, null, null, null, null),
      (4, 1, 49, 12593, 3544668469065756977), (5, 0, 0, 0, 0), (6, 1, 9, 100, 12345678);
    create view v as select * from b;
    create view computed as select id, coalesce(o) o, coalesce(x) x, coalesce(y) y, coalesce(z) z from b";

/// MariaDB declares `max(x)` as a BIT, but sends the digits of its number: 200 became 3289136.
async fn computed_bits_are_the_numbers_that_they_are(on: Product) {
    // MySQL doesn't say if one byte is a digit or bits.
    let low = if on == Product::MariaDb { 5 } else { 50 };
    let db = on
        .database(&format!("create table b(x bit(8), ok bit(1)); insert into b values (200, 1), ({low}, 0)"));
    let sql = format!("select max(x) m, max(ok) any_ok, (select ok from b where x={low}) s, min(x) l from b");
    let source = source(&db.url());
    let expected = format!("{{\"m\":200,\"any_ok\":1,\"s\":0,\"l\":{low}}}\n");
    assert_eq!(run(&source, &sql).await.unwrap(), expected);
    let expected = format!("m,any_ok,s,l\r\n200,1,0,{low}\r\n");
    assert_eq!(body(&source, &sql, Format::Csv).await.unwrap(), expected);
}

/// Each form of a statement, in each width. Computed values are sent as digits, or as bits if
/// they're from a temporary table of the server.
async fn bits_are_what_the_server_casts_them_to(on: Product) {
    let db = on.database(TABLE);
    let source = source(&db.url());
    let mut compared = 0;
    for column in ["o", "x", "y", "z"] {
        for form in FORMS {
            let sql = form.replace('#', column);
            let ours = match run(&source, &sql).await {
                // MySQL declares digits with the length of bits, so some could be both.
                Err(error) if on == Product::MySql8 && error.code() == "bad_value" => continue,
                ours => ours.unwrap_or_else(|error| panic!("{sql}: {error:?}")),
            };
            let theirs = db.ask(&format!("select coalesce(cast(v + 0 as unsigned), 'null') from ({sql}) s"));
            let theirs: String = theirs.lines().map(|v| format!("{{\"v\":{v}}}\n")).collect();
            assert_eq!(ours, theirs, "{sql}");
            compared += 1;
        }
    }
    assert_eq!(compared, if on == Product::MariaDb { 88 } else { 67 });
}

const FORMS: &[&str] = &[
    "select # v from b order by id limit 9",
    "select # as v from b as q order by id limit 9",
    "select max(#) v from b",
    "select min(#) v from b",
    "select max(#) v from b group by id order by id limit 9",
    "select max(#) v from b group by id order by v, id limit 9",
    "select coalesce(#) v from b order by id limit 9",
    "select ifnull(#, #) v from b order by id limit 9",
    "select case when id > 1 then # end v from b order by id limit 9",
    "select if(id > 1, #, #) v from b order by id limit 9",
    "select greatest(#, #) v from b order by id limit 9",
    "select nullif(#, 7) v from b order by id limit 9",
    "select distinct coalesce(#) v from b order by v limit 9",
    "select (select # from b i where i.id = b.id) v from b order by id limit 9",
    "select (select max(#) from b) v",
    "select # v from b where id < 4 union all select # from b where id > 3",
    "select coalesce(#) v from b where id < 4 union all select coalesce(#) from b where id > 3",
    "select # v from b union select max(#) from b",
    "select d.# v from (select * from b order by id limit 9) d",
    "select d.m v from (select max(#) m from b) d",
    "with c as (select max(#) m from b) select m v from c",
    "select # v from v order by id limit 9",
];

/// A window function is declared like `max(x)`, but sent as bits. So a value that could be either
/// is an error, and all others are read.
#[tokio::test]
async fn bits_that_could_be_digits_are_refused() {
    let db = MariaDb::new(TABLE);
    let source = source(&db.url());
    for (sql, expected) in [
        ("select lag(o) over (order by id) v from b order by id limit 2", Ok("{\"v\":null}\n{\"v\":1}\n")),
        ("select max(x) over () v from b limit 1", Ok("{\"v\":200}\n")),
        ("select max(z) over () v from b limit 1", Ok("{\"v\":18446744073709551615}\n")),
        ("select last_value(id, y) v from b where id = 4", Ok("{\"v\":12593}\n")),
        ("select x v from computed where id = 1", Ok("{\"v\":200}\n")),
        ("select o v from computed where id = 2", Ok("{\"v\":0}\n")),
        ("select last_value(id, x) v from b where id = 4", Err("`cast(… as unsigned)`")),
        ("select min(x) over () v from b where id = 4", Err("`cast(… as unsigned)`")),
        ("select z v from computed where id = 6", Err("`cast(… as unsigned)`")),
        ("select cast(z as unsigned) v from computed where id = 6", Ok("{\"v\":12345678}\n")),
    ] {
        match (run(&source, sql).await, expected) {
            (Ok(rows), expected) => assert_eq!(Ok(&*rows), expected, "{sql}"),
            (Err(error), Err(hint)) => {
                assert_eq!(error.code(), "bad_value", "{sql}: {error:?}");
                assert!(error.to_string().contains("column `v`"), "{sql}: {error:?}");
                assert!(error.hint_text().unwrap().contains(hint), "{sql}: {error:?}");
            }
            (Err(error), Ok(_)) => panic!("{sql}: {error:?}"),
        }
    }
}

/// A lookup uses a shared connection, and nested statements are read from temporary tables.
async fn every_way_to_read_bits_gives_the_same_numbers(on: Product) {
    let db = on.database(&format!("{TABLE}; create procedure p() select max(x) m, max(z) z from b"));
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let nested = "-- name: rows :many\nselect 1 as one;\n\
        -- name: of :many nested in rows on own = one\nselect 1 as own, max(x) m, max(z) z from b";
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/list.sql", "select max(x) m, max(z) z from b"),
        ("endpoints/one.sql", "/* result = \"one\" */ select max(x) m, max(z) z from b"),
        ("endpoints/called.sql", "call p()"),
        ("endpoints/nested.sql", nested),
    ])
    .await;
    for (path, expected) in [
        ("/list", r#"[{"m":200,"z":18446744073709551615}]"#),
        ("/list.csv", "m,z\r\n200,18446744073709551615\r\n"),
        ("/one", r#"{"m":200,"z":18446744073709551615}"#),
        ("/called", r#"[{"m":200,"z":18446744073709551615}]"#),
        ("/nested", r#"[{"one":1,"of":[{"own":1,"m":200,"z":18446744073709551615}]}]"#),
    ] {
        let reply = get(&server.url(path)).await;
        assert_eq!(reply.ended, Ended::Complete, "{path}");
        assert_eq!(reply.text(), expected, "{path}");
    }
    let columns = arrow::columns(&get(&server.url("/list.arrow")).await.body);
    let values: Vec<_> = columns.iter().map(|(_, values)| values.concat()).collect();
    assert_eq!(values, ["200", "18446744073709551615"]);
}

with_both! {
    computed_bits_are_the_numbers_that_they_are
    bits_are_what_the_server_casts_them_to
    every_way_to_read_bits_gives_the_same_numbers
}
