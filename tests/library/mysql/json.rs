//! MariaDB's JSON: texts that are declared as documents, but needn't be valid.

use rowstream_encode::Format;

use super::{body, run, source};
use crate::support::{Ended, MariaDb, Server, get};

/// An invalid document was written unchanged, so readers saw one row of the table as two.
#[tokio::test]
async fn a_text_that_is_no_document_forges_no_rows() {
    let db = MariaDb::new(
        "create table j (id int primary key, j json); set check_constraint_checks = 0; \
         insert into j values (1, '{\"a\": [1, 2.50]}'), (2, '1},{\"id\":999,\"j\":2'), (3, '')",
    );
    let source = source(&db.url());
    assert_eq!(run(&source, "select j from j where id = 1").await.unwrap(), "{\"j\":{\"a\": [1, 2.50]}}\n");
    for sql in
        ["select * from j where id = 2", "select * from j where id = 3", "select coalesce(j, j) j from j"]
    {
        for format in Format::ALL {
            let error = body(&source, sql, format).await.unwrap_err();
            assert_eq!(error.code(), "bad_value", "{sql} {format:?}: {error:?}");
            assert!(error.to_string().contains("column `j`"), "{error:?}");
        }
    }
    let text = run(&source, "select cast(j as char) j from j where id = 2").await.unwrap();
    assert_eq!(text, r#"{"j":"1},{\"id\":999,\"j\":2"}"#.to_owned() + "\n");
}

/// MariaDB writes a BIT into its documents as a raw byte, which isn't valid JSON.
#[tokio::test]
async fn a_document_with_a_bit_in_it_is_an_error() {
    let db = MariaDb::new("create table b (ok bit(1)); insert into b values (1)");
    let source = source(&db.url());
    let error = run(&source, "select json_object('ok', ok) as o from b").await.unwrap_err();
    assert_eq!(error.code(), "bad_value");
    assert!(error.hint_text().unwrap().contains("cast(… as unsigned)"), "{error:?}");
    let cast = run(&source, "select json_object('ok', cast(ok as unsigned)) as o from b").await.unwrap();
    assert_eq!(cast, "{\"o\":{\"ok\": 1}}\n");
}

/// If rows have been sent, such a value aborts the response.
#[tokio::test]
async fn a_response_with_such_a_text_is_never_whole() {
    let db = MariaDb::new(
        "create table j (id int primary key, j json); set check_constraint_checks = 0; \
         insert into j select seq, if(seq = 20000, '1},{\"id\":0', '[1]') from seq_1_to_30000",
    );
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/list.sql", "select id, j from j order by id"),
        ("endpoints/one.sql", "/* result = \"one\" */ select id, j from j where id = 20000"),
    ])
    .await;
    for path in ["/list", "/list.ndjson", "/list.csv", "/list.arrow", "/list.sse", "/list.json-seq"] {
        let reply = get(&server.url(path)).await;
        assert!(matches!(reply.ended, Ended::Broken(_)), "{path}");
        assert!(!String::from_utf8_lossy(&reply.body).contains("\"id\":0"), "{path}");
    }
    let lookup = get(&server.url("/one")).await;
    assert_eq!((lookup.status.as_u16(), lookup.json()["code"].as_str()), (500, Some("bad_value")));
}
