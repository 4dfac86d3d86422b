//! Settings of a PostgreSQL database and its roles. Rowstream sets those that change the meaning of
//! a statement or a value, and leaves limits to the database's administrator.

use crate::support::{Ended, Server, TestDb, get};

async fn server(url: &str, source: &str, endpoints: &[(&str, &str)]) -> Server {
    let config = format!("[source.main]\nurl = \"{url}\"\n{source}");
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let mut files = vec![("rowstream.toml", config.as_str())];
    files.extend(names.iter().zip(endpoints).map(|(name, (_, sql))| (name.as_str(), *sql)));
    Server::start(&files).await
}

/// Without a setting in the configuration, Rowstream set `statement_timeout` to 0, which disabled
/// an administrator's limit.
#[tokio::test]
async fn a_limit_of_the_database_or_the_url_holds_unless_the_source_has_its_own() {
    let db = TestDb::new().await;
    let slow = [
        ("list", "select pg_sleep(1000)"),
        ("lookup", "/*\nresult = \"one\"\n*/\nselect pg_sleep(1000)"),
        ("shown", "/*\nresult = \"one\"\n*/\nselect current_setting('statement_timeout') as timeout"),
    ];
    let guarded = format!("{}&options=-c%20statement_timeout=100ms", db.url());
    for source in ["", "pooler = \"transaction\"\n", "fetch_rows = 10\n"] {
        let server = server(&guarded, source, &slow).await;
        for path in ["/list", "/lookup"] {
            let reply = get(&server.url(path)).await;
            assert_eq!((reply.status.as_u16(), &reply.ended), (504, &Ended::Complete), "{source} {path}");
            assert_eq!(reply.json()["code"], "statement_timeout");
        }
    }
    db.execute(&format!("alter database {} set statement_timeout = '7min'", db.name())).await;
    for (source, timeout) in [("", "7min"), ("statement_timeout = \"90s\"\n", "90s")] {
        for pooler in ["", "pooler = \"transaction\"\n"] {
            let server = server(&db.url(), &[source, pooler].concat(), &slow[2..]).await;
            let shown = get(&server.url("/shown")).await.json();
            assert_eq!(
                shown["timeout"].as_str().map(|shown| shown.replace("1min30s", "90s")).as_deref(),
                Some(timeout)
            );
        }
    }
}

/// With `standard_conforming_strings = off`, a backslash in a statement was an escape, unlike in
/// any other database. `array_nulls = off` turned the NULLs in lists into texts.
#[tokio::test]
async fn statements_mean_the_same_to_each_database() {
    let db = TestDb::new().await;
    let name = db.name();
    db.execute(&format!(
        "alter database {name} set standard_conforming_strings = off;
         alter database {name} set escape_string_warning = off;
         alter database {name} set array_nulls = off;
         alter database {name} set datestyle = 'SQL, DMY';
         alter database {name} set timezone = 'Asia/Kolkata';
         alter database {name} set intervalstyle = 'iso_8601';
         alter database {name} set bytea_output = 'escape';
         alter database {name} set extra_float_digits = -5"
    ))
    .await;
    let values = "/*\nresult = \"one\"\n[params]\nx = \"text\"\nl = \"text[]\"\n*/\n\
        select 'C:\\new\\' as path, :x::text as x, '{NULL}'::text[] as nulls, :l::text[] as l, '2024-02-03'::date as day, \
        '2024-02-03 04:05Z'::timestamptz as at, '1 day 2:00'::interval as i, '\\x00ff'::bytea as b, 0.1::float8 as f";
    for source in ["", "pooler = \"transaction\"\n"] {
        let server = server(&db.url(), source, &[("values", values)]).await;
        let reply = get(&server.url("/values?x=a%5Cb&l=NULL&l=a%5C")).await;
        assert_eq!(
            reply.text(),
            r#"{"path":"C:\\new\\","x":"a\\b","nulls":[null],"l":["NULL","a\\"],"day":"2024-02-03","at":"2024-02-03T04:05:00Z","i":"1 day 02:00:00","b":"\\x00ff","f":0.1}"#
        );
    }
}
