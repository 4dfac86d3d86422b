//! The types of PostgreSQL's parameters in statements with optional filters.
//!
//! `:email is null or email = :email` on a `citext` column didn't find a row with another case.
//! PostgreSQL refuses the statement without types, because it reads `$1 is null` first. Then we
//! gave *all* parameters their declared types. The same filter in the other order worked.

use std::fmt::Write as _;

use crate::support::drivers::duckdb;
use crate::support::{Ended, MariaDb, Server, TestDb, get, rowstream};
use tokio::task::spawn_blocking;

/// A column: its name, its type, the text of the value in its only row, and parameters that find
/// that row by `=`. They're declared types and values, encoded as in a URL.
type Column = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const COLUMNS: &[Column] = &[
    ("c_text", "text", "Ada", &[("text", "Ada")]),
    ("c_varchar", "varchar(9)", "Ada", &[("text", "Ada")]),
    ("c_char", "char(5)", "ab", &[("text", "ab"), ("text", "ab%20")]),
    ("c_name", "name", "Ada", &[("text", "Ada")]),
    ("c_citext", "citext", "Ada@X.ch", &[("text", "ADA@x.ch")]),
    ("c_domain", "shout", "ADA", &[("text", "ADA")]),
    ("c_mail", "mail", "Ada@X.ch", &[("text", "ADA@x.ch")]),
    ("c_digits", "text", "7", &[("integer", "7"), ("number", "7"), ("text", "7")]),
    ("c_int2", "int2", "7", &[("integer", "7"), ("number", "7"), ("text", "7")]),
    ("c_int4", "int4", "7", &[("integer", "7"), ("number", "7"), ("text", "7")]),
    ("c_int8", "int8", "7", &[("integer", "7"), ("number", "7"), ("text", "7")]),
    ("c_oid", "oid", "7", &[("integer", "7"), ("text", "7")]),
    ("c_real", "real", "0.1", &[("number", "0.1"), ("text", "0.1")]),
    ("c_double", "double precision", "0.1", &[("number", "0.1"), ("text", "0.1")]),
    ("c_numeric", "numeric(9, 3)", "0.1", &[("number", "0.1"), ("text", "0.100")]),
    ("c_money", "money", "7", &[("number", "7"), ("integer", "7"), ("text", "7")]),
    ("c_bool", "boolean", "true", &[("boolean", "true"), ("text", "yes"), ("integer", "1")]),
    (
        "c_date",
        "date",
        "2024-01-01",
        &[("date", "2024-01-01"), ("timestamp", "2024-01-01T12:00:00Z"), ("text", "2024-01-01")],
    ),
    (
        "c_timestamp",
        "timestamp",
        "2024-01-01 12:00",
        &[("timestamp", "2024-01-01T12:00:00Z"), ("text", "2024-01-01T12:00:00")],
    ),
    (
        "c_timestamptz",
        "timestamptz",
        "2024-01-01 00:00+00",
        &[("timestamp", "2024-01-01T01:00:00%2B01:00"), ("date", "2024-01-01")],
    ),
    ("c_time", "time", "12:00", &[("text", "12:00:00")]),
    ("c_interval", "interval", "90 minutes", &[("duration", "1h30m"), ("text", "90%20min")]),
    (
        "c_uuid",
        "uuid",
        "0a6a8b6e-1e35-4f5e-8d5c-3f3f3f3f3f3f",
        &[("uuid", "0A6A8B6E-1e35-4f5e-8d5c-3f3f3f3f3f3f"), ("text", "0A6A8B6E-1e35-4f5e-8d5c-3f3f3f3f3f3f")],
    ),
    ("c_inet", "inet", "10.0.0.1", &[("text", "10.0.0.1/32")]),
    ("c_macaddr", "macaddr", "08:00:2b:01:02:03", &[("text", "08002B010203")]),
    ("c_jsonb", "jsonb", "{\"a\": 1}", &[("json", "%7B%22a%22:1%7D"), ("text", "%7B%22a%22:1%7D")]),
    ("c_enum", "mood", "fine", &[("text", "fine")]),
    ("c_bytea", "bytea", "\\x01ff", &[("text", "%5Cx01FF")]),
    ("c_bit", "bit(3)", "101", &[("text", "101")]),
    ("c_range", "int4range", "[1,3)", &[("text", "[1,2]")]),
    ("c_int4s", "int4[]", "{1,2}", &[("integer[]", "1,2")]),
    ("c_texts", "text[]", "{a,b}", &[("text[]", "a&x=b")]),
];

/// The table, with enough pages to be read in parts.
async fn database() -> TestDb {
    let db = TestDb::new().await;
    let mut columns = String::new();
    let mut values = String::new();
    for (name, kind, value, _) in COLUMNS {
        write!(columns, ", {name} {kind}").unwrap();
        write!(values, ", '{value}'").unwrap();
    }
    db.execute(&format!(
        "create extension if not exists citext;
         create type mood as enum ('fine', 'bad');
         create domain shout as text check (value = upper(value));
         create domain mail as citext;
         create table t (id int primary key{columns}, filler text);
         insert into t values (1{values});
         insert into t (id, filler) select n, repeat(md5(n::text), 30) from generate_series(2, 700) n"
    ))
    .await;
    db
}

/// Filters that must find the same rows as `COL = :x`, with the settings and parameters that they
/// need in addition to `x`.
const FILTERS: &[(&str, &str, &str)] = &[
    ("null_first", "", ":x is null or COL = :x"),
    ("null_last", "", "COL = :x or :x is null"),
    ("not_null", "", "case when :x is not null then COL = :x end"),
    ("null_twice", "", "(:x is null or COL = :x) and (:x is not null or COL is null)"),
    ("beside", "y = { type = \"text\", optional = true }\n", "COL = :x and (:y is null or c_inet = :y)"),
    ("distinct", "", ":x is null or COL is not distinct from :x"),
];

/// The same filter as a list, a lookup, nested statements, and in parts.
fn endpoints(condition: &str, kind: &str, others: &str) -> [(&'static str, String); 4] {
    let params = format!("[params]\nx = {{ type = \"{kind}\", optional = true }}\n{others}");
    let select = format!("select id from t where ({condition})");
    [
        ("list", format!("/*\n{params}*/\n{select} order by id")),
        ("lookup", format!("/*\nresult = \"one\"\n{params}*/\n{select}")),
        ("parts", format!("/*\nparallel = 2\n{params}*/\n{select}")),
        (
            "nested",
            format!(
                "/*\n{params}*/\n-- name: ts :many\n{select} order by id;\n\
                 -- name: us :many nested in ts on id = id\n{select} order by id"
            ),
        ),
    ]
}

/// Requests and their expected responses.
struct Requests {
    files: Vec<(String, String)>,
    expected: Vec<(String, String)>,
}

impl Requests {
    fn new(db: &TestDb, settings: &str) -> Self {
        let config = format!("[source.main]\nurl = \"{}\"\n{settings}", db.url());
        Self { files: vec![("rowstream.toml".to_owned(), config)], expected: Vec::new() }
    }

    /// An endpoint for each form. For `query`, it must find the row with the number 1.
    fn add(&mut self, name: &str, (condition, kind, others): (&str, &str, &str), query: &str) {
        for (form, text) in endpoints(condition, kind, others) {
            let name = format!("{name}_{form}");
            self.files.push((format!("endpoints/{name}.sql"), text));
            let expected = match form {
                "lookup" => "{\"id\":1}",
                "nested" => "[{\"id\":1,\"us\":[{\"id\":1}]}]",
                _ => "[{\"id\":1}]",
            };
            self.expected.push((format!("/{name}?{query}"), expected.to_owned()));
        }
    }

    /// Sends each request twice. The second time, statements and types are cached.
    async fn check(&self) {
        let files: Vec<_> = self.files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let server = Server::start(&files).await;
        let mut wrong = String::new();
        for (path, expected) in self.expected.iter().chain(&self.expected) {
            let reply = get(&server.url(path)).await;
            if (reply.status.as_u16(), reply.text(), &reply.ended) != (200, expected, &Ended::Complete) {
                writeln!(wrong, "{path}: {} {}", reply.status, reply.text()).unwrap();
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }
}

async fn optional_filters_find_the_rows_of_the_plain_comparison(settings: &str) {
    let db = database().await;
    let mut requests = Requests::new(&db, settings);
    for (column, _, _, inputs) in COLUMNS {
        for (index, (kind, value)) in inputs.iter().enumerate() {
            for (filter, others, condition) in FILTERS {
                let name = format!("{column}_{index}_{filter}");
                let condition = condition.replace("COL", column);
                requests.add(&name, (&condition, kind, others), &format!("x={value}"));
            }
            if !kind.ends_with("[]") && *kind != "json" {
                let (name, list) = (format!("{column}_{index}_any"), format!("{kind}[]"));
                let condition = format!(":x is null or {column} = any(:x)");
                requests.add(&name, (&condition, &list, ""), &format!("x={value}&x={value}"));
            }
        }
    }
    requests.check().await;
}

#[tokio::test]
async fn an_optional_filter_finds_the_rows_of_the_plain_comparison() {
    optional_filters_find_the_rows_of_the_plain_comparison("").await;
}

#[tokio::test]
async fn so_it_does_in_a_transaction_for_each_response() {
    let settings = "pooler = \"transaction\"\nfetch_rows = 3\n";
    optional_filters_find_the_rows_of_the_plain_comparison(settings).await;
}

/// A parameter without any determined type gets its declared type, and the others keep theirs.
#[tokio::test]
async fn a_declared_type_is_for_its_parameter_alone() {
    let db = database().await;
    let mut requests = Requests::new(&db, "");
    let integer = |names: &[&str]| {
        let one = |name| format!("{name} = {{ type = \"integer\", optional = true }}\n");
        names.iter().map(one).collect::<String>()
    };
    for (name, (condition, kind), others, query) in [
        // 9 isn't more than 10, even if other values are texts.
        (
            "less",
            ("c_digits = :x and c_citext = 'ada@X.CH' and not :a > :b", "integer"),
            integer(&["a", "b"]),
            "x=7&a=9&b=10",
        ),
        (
            "less_or_null",
            ("(:a is null or not :a > :b) and (:x is null or c_real = :x)", "number"),
            integer(&["a", "b"]),
            "x=0.1&a=9&b=10",
        ),
        // Functions and operators that could be several.
        (
            "series",
            (
                "exists (select from generate_series(:a, :b) n where n = c_int4) and (:x is null or c_citext = :x)",
                "text",
            ),
            integer(&["a", "b"]),
            "x=ADA@x.ch&a=6&b=8",
        ),
        ("sum", ("c_int4 = :a + :b and c_real = :x", "number"), integer(&["a", "b"]), "x=0.1&a=3&b=4"),
        ("power", ("(:x is null or c_real = :x) and :x + :a > 1", "number"), integer(&["a"]), "x=0.1&a=1"),
        // PostgreSQL finds a text in a subselect and in an array, and no type in a polymorphic call.
        ("subselect", ("c_int2 = (select :x)", "integer"), String::new(), "x=7"),
        ("array", ("c_date = any(array[:x])", "date"), String::new(), "x=2024-01-01"),
        ("cardinality", ("cardinality(:x) = 0 or c_int4 = any(:x)", "integer[]"), String::new(), "x=7"),
        ("citexts", ("cardinality(:x) = 0 or c_citext = any(:x)", "text[]"), String::new(), "x=ADA@x.ch"),
        (
            "subselects",
            ("c_enum = :z and c_int2 = (select :x) and c_date = (select :y)", "integer"),
            "y = { type = \"date\", optional = true }\nz = { type = \"text\", optional = true }\n".to_owned(),
            "x=7&y=2024-01-01&z=fine",
        ),
        // A text isn't compared with an enum, so only the timestamp has its declared type. The statement
        // was refused, because the error of the text is before that of the function.
        (
            "enum",
            ("c_enum = :x and c_timestamptz >= date_trunc('day', :at)", "text"),
            "at = { type = \"timestamp\", optional = true }\n".to_owned(),
            "x=fine&at=2023-12-01T12:00:00Z",
        ),
        // Its types compare exactly.
        (
            "integers",
            (":x is null or c_int2 = :x and c_int4 = :x and c_numeric < :x", "integer"),
            String::new(),
            "x=7",
        ),
        ("days", (":x is null or c_date = :x and c_timestamptz = :x", "date"), String::new(), "x=2024-01-01"),
        // After multi-byte characters, and in a comment.
        (
            "characters",
            (
                "'é😀 $1' <> '' /* $1 é */ and :x is null or c_citext = :x and (:a is null or c_int4 = :a)",
                "text",
            ),
            integer(&["a"]),
            "x=ADA@x.ch&a=7",
        ),
    ] {
        requests.add(name, (condition, kind, &others), query);
    }
    requests.check().await;
}

/// `rowstream query` declares nothing, and parts of a table are read in a transaction, which an
/// error would end.
#[tokio::test]
async fn a_query_infers_them_too() {
    let db = database().await;
    let url = db.url();
    for arguments in [&[][..], &["--parallel", "2"]] {
        for (condition, parameter) in
            [(":x is null or c_real = :x", "x=0.1"), (":x is null or c_mail = :x", "x=ADA@x.ch")]
        {
            let sql = format!("select id from t where {condition}");
            let ran = rowstream(&[&["query", &url, &sql, "-p", parameter], arguments].concat()).await;
            let says = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(String::from_utf8_lossy(&ran.stdout), "{\"id\":1}\n", "{condition}: {says}");
        }
    }
}

/// A text, and the declared type, a value and the first value of the answer for each of its endpoints.
type SharedText = (&'static str, &'static [(&'static str, &'static str, &'static str)]);

/// Endpoints of one text: for each type, as a list, as a lookup and with two statements. Each
/// endpoint is requested three times, first in this order and then on another server in the
/// reverse order.
async fn endpoints_of_one_text_have_their_own_types(url: &str, settings: &str, texts: &[SharedText]) {
    let mut files =
        vec![("rowstream.toml".to_owned(), format!("[source.main]\nurl = \"{url}\"\n{settings}"))];
    let mut requests = Vec::new();
    for (index, (sql, types)) in texts.iter().enumerate() {
        for (kind, value, expected) in *types {
            for (form, head, body, expected) in [
                ("list", "", String::new(), format!("[{{\"x\":{expected}}}]")),
                ("lookup", "result = \"one\"\n", String::new(), format!("{{\"x\":{expected}}}")),
                (
                    "two",
                    "body = { a = \"$a\", b = \"$b\" }\n",
                    format!("-- name: b :one\n{sql};\n-- name: a :value\n"),
                    format!("{{\"a\":{expected},\"b\":{{\"x\":{expected}}}}}"),
                ),
            ] {
                let name = format!("{form}_{index}_{kind}");
                let text = format!("/*\n{head}[params]\nx = \"{kind}\"\n*/\n{body}{sql}");
                files.push((format!("endpoints/{name}.sql"), text));
                requests.push((format!("/{name}?x={value}"), expected));
            }
        }
    }
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let mut wrong = String::new();
    for _ in 0..2 {
        let server = Server::start(&files).await;
        for (path, expected) in requests.iter().chain(&requests).chain(&requests) {
            let reply = get(&server.url(path)).await;
            if (reply.status.as_u16(), reply.text()) != (200, expected) {
                writeln!(wrong, "{path}: {} {}", reply.status, reply.text()).unwrap();
            }
        }
        requests.reverse();
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Two endpoints of one text shared a prepared statement, with the types of the first one that was
/// requested: `select :x as x` of a text gave 7 for `007`, and 400 for `abc`.
#[tokio::test]
async fn endpoints_of_one_text_have_their_own_types_in_postgres() {
    let db = TestDb::new().await;
    let texts: &[SharedText] = &[
        ("select :x as x", &[("integer", "7", "7"), ("text", "007", "\"007\""), ("boolean", "true", "true")]),
        (
            "select count(*) as x from generate_series(:x, :x + interval '2 hours', interval '1 hour')",
            &[("date", "2024-01-01", "3"), ("timestamp", "2024-01-01T15:00:00Z", "3")],
        ),
        (
            "select jsonb_build_object('c', :x)::text as x",
            &[("text", "007", r#""{\"c\": \"007\"}""#), ("number", "7", r#""{\"c\": 7}""#)],
        ),
    ];
    for settings in ["", "pooler = \"transaction\"\nfetch_rows = 3\n"] {
        endpoints_of_one_text_have_their_own_types(&db.url(), settings, texts).await;
    }
}

#[tokio::test]
async fn endpoints_of_one_text_have_their_own_types_in_mariadb_and_sqlite() {
    let texts: &[SharedText] = &[(
        "select :x as x",
        &[("integer", "7", "7"), ("text", "007", "\"007\""), ("number", "1.50", "1.50")],
    )];
    let db = spawn_blocking(|| MariaDb::new("select 1")).await.unwrap();
    endpoints_of_one_text_have_their_own_types(&db.url(), "", texts).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch("create table t (n)").unwrap();
    let texts: &[SharedText] =
        &[("select :x as x", &[("integer", "7", "7"), ("text", "007", "\"007\""), ("number", "1.5", "1.5")])];
    endpoints_of_one_text_have_their_own_types(&format!("sqlite:{}", file.display()), "", texts).await;
}

/// `9999-12-31`, the usual "never expires", was refused from 22:01 of the day before on.
#[tokio::test]
async fn timestamps_reach_the_end_of_the_year_9999() {
    let (db, other) = (TestDb::new().await, MariaDb::new("select 1"));
    let duck = format!("adbc:{}?entrypoint=duckdb_adbc_init", duckdb());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch("create table t (id)").unwrap();
    for (url, select) in [
        (db.url(), "to_char(:t at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"),
        (other.url(), "cast(cast(:t as datetime(6)) as char)"),
        (format!("sqlite:{}", file.display()), "case length(:t) when 19 then :t || '.000000' else :t end"),
        (duck.clone(), "strftime(:t::timestamptz, '%Y-%m-%d %H:%M:%S.%f')"),
    ] {
        for (given, expected) in [
            ("9999-12-31T23:59:59.999999Z", "9999-12-31 23:59:59.999999"),
            ("9999-12-31T23:59:59", "9999-12-31 23:59:59.000000"),
            ("9999-12-31", "9999-12-31 00:00:00.000000"),
            ("9999-12-31T23:59:59+14:00", "9999-12-31 09:59:59.000000"),
            ("9999-12-31T00:00:00-12:00", "9999-12-31 12:00:00.000000"),
            ("1969-12-31T23:59:59.999999Z", "1969-12-31 23:59:59.999999"),
            ("0001-01-01T00:00:00Z", "0001-01-01 00:00:00.000000"),
        ] {
            let (sql, parameter) = (format!("select {select} as t"), format!("t:timestamp={given}"));
            let output = rowstream(&["query", &url, &sql, "-p", &parameter]).await;
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            assert_eq!(said, format!("{{\"t\":\"{expected}\"}}\n"), "{url}: {given}");
        }
    }
    db.execute(
        "create table far (at timestamptz primary key); insert into far values ('9999-12-31T23:59:59Z')",
    )
    .await;
    let config = format!("[source.db]\nurl = \"{}\"\n\n[source.duck]\nurl = \"{duck}\"\n", db.url());
    let never = "/*\nsource = \"duck\"\n[params]\nt = { type = \"timestamp\", default = \"9999-12-31T23:59:59Z\" }\n*/\n\
        select extract(year from :t::timestamptz) as year";
    let far = "/*\nsource = \"db\"\n[params]\nat = \"timestamp\"\n*/\nselect at from far where at = :at";
    let list = "/*\nsource = \"duck\"\nfilter = true\n*/\nselect timestamptz '9999-12-31 23:59:59+00' as at";
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/never.sql", never),
        ("endpoints/list.sql", list),
        ("endpoints/far/{at}.sql", far),
    ];
    let server = Server::start(&files).await;
    for (path, status, expected) in [
        ("/far/9999-12-31T23:59:59Z", 200, r#"[{"at":"9999-12-31T23:59:59Z"}]"#),
        ("/never", 200, r#"[{"year":9999}]"#),
        ("/list?at=eq.9999-12-31T23:59:59Z", 200, r#"[{"at":"9999-12-31T23:59:59Z"}]"#),
        ("/never?t=9999-12-31T23:59:59-00:01", 400, "is not between the years 1 and 9999 in UTC"),
        ("/never?t=0001-01-01T00:00:00%2B00:01", 400, "is not between the years 1 and 9999 in UTC"),
        ("/never?t=0000-01-01", 400, "is not between the years 1 and 9999 in UTC"),
    ] {
        let reply = get(&server.url(path)).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        assert!(reply.text().contains(expected), "{path}: {}", reply.text());
    }
}
