//! Pages by keys of each type and collation of PostgreSQL and SQLite: each row appears once, or the
//! key is refused. Those of MariaDB are in `tests/library/mysql/keys.rs`.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::drivers::duckdb;
use crate::support::{Ended, Launch, MariaDb, Server, TestDb, get, rowstream};

/// A page that ended among rows with the same key lost the others, without a word. `check` warns if the catalog
/// shows that a key isn't unique, and only then.
#[tokio::test]
async fn keys_that_are_not_unique_are_a_warning() {
    let tables = "create table event (id integer primary key, at integer not null, tenant integer not null,
            code varchar(9) not null, unique (tenant, code));
        create table loose (a integer not null, b integer not null);
        create view seen as select id, at from event;";
    let all = [
        ("at", "select id, at from event order by at", true),
        ("at desc", "select * from event where at > 1 order by at desc limit 9", true),
        ("id", "select at as id from event order by id", true),
        ("code", "select code from event e order by code", true),
        ("a", "select a, b from loose where b = 1 order by a", true),
        ("id", "select id, at from event order by id", false),
        ("at\", \"id", "select id, at from event order by at, id", false),
        ("at", "select id as at from event order by at", false),
        ("code", "select code from event e where e.tenant = 1 order by code", false),
        // The catalog doesn't show if these are unique.
        ("at", "select id, at from seen order by at", false),
        ("at", "select distinct at from event order by at", false),
        ("at", "select at, count(*) as n from event group by at order by at", false),
        ("at", "select at, count(*) as n from event where tenant = 1 group by at order by at", false),
        ("at", "select id + 0 as at from event order by at", false),
        ("at", "select e.at from event e join loose l on l.a = e.id order by at", false),
        ("at", "select at from (select at from event) e order by at", false),
    ];
    let of_postgres = [
        ("p", "select p from special order by p", false),
        ("l", "select l from special order by l", false),
        ("x", "select x from excluded order by x", false),
        ("id", "select id from public.parted order by id", false),
        ("n", "select n from public.parted order by n", true),
    ];
    let of_sqlite = [
        ("p", "select p from special order by p", false),
        ("l", "select l from special order by l", false),
        ("id", "select rowid as id, a from loose order by id", false),
        ("x", "select x from keyed order by x", false),
    ];
    let special = "create table special (p integer not null, l text not null);
        create unique index of_p on special (p) where p > 0; create unique index of_l on special (lower(l));";
    let db = TestDb::new().await;
    let more = "create table excluded (x integer not null, exclude using btree (x with =));
        create table parted (id integer primary key, n integer not null) partition by range (id)";
    db.execute(&format!("{tables} {special} {more}")).await;
    let maria = MariaDb::new(tables);
    let folder = tempfile::tempdir().unwrap();
    let sqlite = folder.path().join("test.db");
    let more = "create table keyed (x text primary key) without rowid;";
    rusqlite::Connection::open(&sqlite)
        .unwrap()
        .execute_batch(&format!("{tables} {special} {more}"))
        .unwrap();
    let sqlite = format!("sqlite:{}", sqlite.display());
    for (url, own) in [(db.url(), &of_postgres[..]), (maria.url(), &[]), (sqlite, &of_sqlite)] {
        let cases: Vec<_> = all.iter().chain(own).collect();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("endpoints")).unwrap();
        let config = folder.path().join("rowstream.toml");
        std::fs::write(&config, format!("[source.db]\nurl = \"{url}\"\n")).unwrap();
        for (index, (key, sql, _)) in cases.iter().enumerate() {
            let text = format!("/* key = [\"{key}\"] */\n{sql}");
            std::fs::write(folder.path().join(format!("endpoints/c{index}.sql")), text).unwrap();
        }
        let ran = rowstream(&["check", config.to_str().unwrap(), "--format", "json"]).await;
        let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!((ran.status.code(), &found["errors"]), (Some(0), &json!([])), "{url}: {found}");
        let warnings = found["warnings"].as_array().unwrap();
        for (index, (key, sql, warns)) in cases.iter().enumerate() {
            let is_about = |warning: &&Value| warning["endpoint"] == format!("/c{index}");
            let message = warnings.iter().find(is_about).map(|warning| warning["message"].as_str().unwrap());
            let is_warned = message.is_some_and(|message| message.contains("the key may not be unique"));
            assert_eq!(is_warned, *warns, "{url}: {key}: {sql}: {message:?}");
        }
        assert_eq!(warnings.len(), cases.iter().filter(|(_, _, warns)| *warns).count(), "{url}: {found}");
    }
}

/// The rows of a table.
const ROWS: usize = 40;

/// PostgreSQL types with expressions for their values. `n` is a pseudo-random 31-bit number.
const TYPES: &[(&str, &str)] = &[
    ("smallint", "n % 60000 - 30000"),
    ("integer", "n - 1000000000"),
    ("bigint", "9223372036854775807 - n"),
    (
        "numeric",
        "case n % 9 when 0 then 'NaN' when 1 then '1.0' when 2 then '1.00' else n::numeric / 7 end::numeric",
    ),
    ("numeric(16,4)", "n / 7"),
    (
        "real",
        "(case n % 9 when 0 then 'NaN' when 1 then '-Infinity' when 2 then '-0' else (n / 7.0)::text end)::real",
    ),
    (
        "double precision",
        "(case n % 9 when 0 then 'NaN' when 1 then 'Infinity' when 2 then '-0' when 3 then '0' else (n / 7.0)::text end)::float8",
    ),
    ("boolean", "n % 2 = 0"),
    ("money", "(n / 7.0)::numeric::money"),
    (
        "date",
        "case n % 9 when 0 then 'infinity' when 1 then '0044-03-15 BC' else '2024-01-01'::date + (n % 90)::int end::date",
    ),
    (
        "timestamp",
        "case n % 9 when 0 then '-infinity' else timestamp '2024-01-01' + n % 90 * interval '1.000007 s' end",
    ),
    (
        "timestamptz",
        "case n % 9 when 0 then '4713-01-01 BC' else timestamptz '2024-01-01' + n % 90 * interval '1.000007 s' end",
    ),
    ("time", "time '00:00' + n % 90 * interval '1.000007 s'"),
    (
        "timetz",
        "((time '10:00' + n % 3 * interval '1 hour')::text || (array['+00', '+01', '+05:30', '-01'])[1 + n % 4])::timetz",
    ),
    (
        "interval",
        "(array['1 month', '30 days', '-1 mon +1 day', '720 hours', '1 mon -0.000001 s', '-00:00:01'])[1 + n % 6]::interval",
    ),
    ("uuid", "md5(n::text)::uuid"),
    ("bytea", "int4send((n % 4096)::int)"),
    ("bit(12)", "(n % 4096)::int::bit(12)"),
    ("bit varying", "substr((n % 4096)::int::bit(12)::text, 1, (n % 13)::int)::bit varying"),
    ("inet", "('10.0.' || n % 4 || '.' || n % 9 || '/' || (array['8', '24', '32'])[1 + n % 3])::inet"),
    ("cidr", "('10.0.' || n % 40 || '.0/24')::cidr"),
    ("macaddr", "('08:00:2b:01:02:' || lpad(to_hex(n % 256), 2, '0'))::macaddr"),
    ("macaddr8", "('08:00:2b:01:02:03:04:' || lpad(to_hex(n % 256), 2, '0'))::macaddr8"),
    ("pg_lsn", "pg_lsn '0/0' + n"),
    ("oid", "(n % 1000)::oid"),
    ("xid8", "n::text::xid8"),
    ("\"char\"", "chr((n % 127)::int)::\"char\""),
    ("name", "md5(n::text)::name"),
    ("mood", "(array['open', 'done', 'all', 'z', 'a'])[1 + n % 5]::mood"),
    ("integer_domain", "n - 1000000000"),
    ("mood[]", "array[(array['open', 'done', 'all'])[1 + n % 3], (array['all', 'a'])[1 + n % 2]]::mood[]"),
    (
        "mood_domain[]",
        "array[(array['open', 'done', 'all'])[1 + n % 3], (array['all', 'a'])[1 + n % 2]]::mood[]",
    ),
    ("array_domain", "array[n % 3, n % 10]"),
    (
        "integer[]",
        "case n % 3 when 0 then array[n % 3, null] when 1 then '[0:1]={1,2}' else array[n % 2, n % 10] end",
    ),
    ("text[]", "array[k, k]"),
    ("int4range", "int4range((n % 3)::int, (n % 3 + 1 + n % 5)::int, (array['[]', '()', '[)'])[1 + n % 3])"),
    ("range_domain", "int4range((n % 3)::int, null)"),
    (
        "tstzrange",
        "case n % 3 when 0 then 'empty' else tstzrange('2024-01-01', timestamptz '2024-01-01' + n % 9 * interval '1 s') end",
    ),
    ("textrange", "textrange('', k collate \"und-x-icu\", '[]')"),
    ("int4multirange", "int4multirange(int4range(0, (n % 3)::int), int4range(5, (6 + n % 3)::int))"),
    (
        "jsonb",
        "(array['1', '1.0', '\"a\"', '[1, 2]', '{\"b\": 1}', 'null', 'true', '{\"a\": null}'])[1 + n % 8]::jsonb",
    ),
    ("tsvector", "to_tsvector('simple', k)"),
    ("tsquery", "plainto_tsquery('simple', k)"),
    ("citext", "k"),
    ("citext_domain", "k"),
    ("ltree", "(array['a', 'a.b', 'A', 'b.a', 'a.c'])[1 + n % 5]::ltree"),
    ("pair[]", "array[row(n % 3, 'a')::pair]"),
];

/// Types that aren't allowed in keys.
const REFUSED: &[(&str, &str)] = &[
    ("json", "'1'::json"),
    ("xml", "'<a/>'::xml"),
    ("point", "point(n, 1)"),
    ("pair", "row(n % 3, 'a')::pair"),
    ("pair_domain", "row(n % 3, 'a')::pair"),
    ("pg_snapshot", "('10:' || 20 + n % 9 || ':')::pg_snapshot"),
    ("hstore", "hstore('a', k)"),
    ("mood_domain", "(array['open', 'done', 'all', 'z', 'a'])[1 + n % 5]::mood"),
    ("regclass", "(array['pg_class', 'pg_type', 'pg_proc', 'k0', 'k1'])[1 + n % 5]::regclass"),
    ("regtype", "(array['int', 'text', 'mood'])[1 + n % 3]::regtype"),
    ("regrole", "'postgres'::regrole"),
];

const COLLATIONS: &[&str] =
    &["\"C\"", "\"und-x-icu\"", "\"de-AT-x-icu\"", "caseless", "accentless", "blankless", "uppers", "digits"];

const SETUP: &str = "
    create extension citext; create extension ltree; create extension hstore;
    create schema elsewhere; create domain elsewhere.hidden as citext;
    create type mood as enum ('open', 'done', 'all', 'z', 'a');
    create domain mood_domain as mood; create domain integer_domain as integer check (value <> 0);
    create domain array_domain as integer[]; create domain range_domain as int4range;
    create domain citext_domain as citext;
    create type textrange as range (subtype = text, collation = \"und-x-icu\");
    create type pair as (a integer, b text); create domain pair_domain as pair;
    create collation caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    create collation accentless (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
    create collation blankless (provider = icu, locale = 'und-u-ka-shifted-ks-level1', deterministic = false);
    create collation uppers (provider = icu, locale = 'und-u-kf-upper');
    create collation digits (provider = icu, locale = 'und-u-kn-true-kb-true', deterministic = false);
    create table chance (n bigint, id int, k text);
    insert into chance select abs(hashint4(id))::bigint, id, (
        select coalesce(string_agg((array['a', 'A', 'b', ' ', '  ', E'\\t', 'ä', 'ß', 'ss', 'é', E'e\\u0301', E'\\u00ad', '1', '-', '10'])
            [1 + abs(hashint4(id * 7 + i)) % 15], ''), '')
        from generate_series(1, abs(hashint4(id + 99)) % 5) i)
      from generate_series(1, 40) id;";

/// The rows of all pages, or the error if the endpoint is refused.
async fn pages(server: &Server, path: &str, rows: usize) -> Result<Vec<u64>, String> {
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let reply = get(&server.url(&format!("{path}?n={rows}{after}"))).await;
        assert_eq!(reply.ended, Ended::Complete, "{path}");
        let json = reply.json();
        let Some(page) = json["rows"].as_array() else { return Err(json.to_string()) };
        seen.extend(page.iter().map(|row| row["id"].as_u64().unwrap()));
        assert!(seen.len() < 1000, "{path}: the pages do not end");
        match json["next"].as_str() {
            Some(next) if page.len() == rows => after = format!("&_after={next}"),
            _ => return Ok(seen),
        }
    }
}

/// An endpoint for each order of a statement's rows.
fn endpoints(name: &str, select: &str) -> Vec<(String, String)> {
    let shapes = [
        ("up", r#""k", "id""#),
        ("down", r#""k desc", "id desc""#),
        ("mixed", r#""k desc", "id""#),
        ("other", r#""id desc", "k""#),
    ];
    let file = |(shape, key)| {
        let sql = format!(
            "/* key = [{key}]\nbody = {{ rows = \"$rows\", next = \"$next\" }}\n[params]\nn = \"integer\" */\n\
             {select} limit :n"
        );
        (format!("{name}_{shape}"), sql)
    };
    shapes.map(file).into()
}

/// A server with these endpoints, without the check at its start.
async fn unchecked(url: &str, endpoints: &[(String, String)]) -> Server {
    let config = format!("[source.db]\nurl = \"{url}\"\n");
    let named: Vec<_> =
        endpoints.iter().map(|(name, sql)| (format!("endpoints/{name}.sql"), sql.as_str())).collect();
    let mut files = vec![("rowstream.toml", config.as_str())];
    files.extend(named.iter().map(|(name, sql)| (name.as_str(), *sql)));
    Launch::files(&files).argument("--no-check").start().await
}

/// The problem with the pages of an endpoint, if any. `None` for `expected` means that it must be
/// refused.
async fn fault(server: &Server, file: &str, expected: Option<usize>) -> Option<String> {
    for rows in [3, 7] {
        let seen = match (pages(server, &format!("/{file}"), rows).await, expected) {
            (Ok(seen), _) => seen,
            (Err(_), None) => continue,
            (Err(why), Some(_)) => return Some(format!("{file}: {why}")),
        };
        let unique = seen.iter().collect::<HashSet<_>>().len();
        if (Some(seen.len()), Some(unique)) != (expected, expected) {
            return Some(format!("{file}: {unique} rows, {} in all", seen.len()));
        }
    }
    None
}

/// A `citext` outside the search_path was sorted by its own operators but compared as a text, so
/// rows were lost. The names of a `regclass` were parsed as numbers.
#[tokio::test]
async fn postgres_pages_have_each_row_once_or_are_refused() {
    let db = TestDb::new().await;
    let mut kinds: Vec<_> =
        TYPES.iter().chain(REFUSED).map(|(kind, value)| ((*kind).to_owned(), *value)).collect();
    for collation in COLLATIONS {
        for (kind, value) in
            [("char(9)", "k"), ("varchar(20)", "k"), ("text", "k"), ("text[]", "array[k, k]")]
        {
            kinds.push((format!("{kind} collate {collation}"), value));
        }
    }
    let mut sql = SETUP.to_owned();
    for (number, (kind, value)) in kinds.iter().enumerate() {
        let (name, _) = kind.split_once(" collate").unwrap_or((kind, ""));
        let _ = write!(
            sql,
            "create table k{number} (k {kind} not null, id int primary key);
             insert into k{number} select ({value})::{name}, id from chance;"
        );
    }
    db.execute(&sql).await;
    let files: Vec<_> = (0..kinds.len())
        .map(|number| endpoints(&format!("k{number}"), &format!("select k, id from k{number}")))
        .collect();
    let server = unchecked(&db.url(), &files.concat()).await;
    let mut wrong = Vec::new();
    for (files, (kind, _)) in files.iter().zip(&kinds) {
        let refused = REFUSED.iter().any(|(other, _)| other == kind);
        for (file, _) in files {
            let fault = fault(&server, file, (!refused).then_some(ROWS)).await;
            wrong.extend(fault.map(|fault| format!("{kind}: {fault}")));
        }
    }
    // The same if the types of extensions aren't in the search_path.
    db.execute("alter extension citext set schema elsewhere; alter extension ltree set schema elsewhere")
        .await;
    let server = unchecked(&db.url(), &files.concat()).await;
    for (files, (kind, _)) in files.iter().zip(&kinds) {
        if matches!(kind.as_str(), "citext" | "citext_domain" | "ltree") {
            for (file, _) in files {
                wrong.extend(fault(&server, file, None).await.map(|fault| format!("{kind}: {fault}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The start refuses these keys, and its hint suggests another one.
#[tokio::test]
async fn postgres_keys_without_an_order_are_refused() {
    let db = TestDb::new().await;
    db.execute(
        "create schema elsewhere; create extension citext schema elsewhere; create type mood as enum ('open');
         create domain fine as mood; create table t (c regclass, d fine, e elsewhere.citext, f json)",
    )
    .await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    for (key, select, expected) in [
        ("c", "c", Some("`c::oid as c`")),
        ("c", "c::oid as c", None),
        ("d", "d", Some("`c::mood as c`")),
        ("d", "d::mood as d", None),
        ("e", "e", Some("`c::text as c`")),
        ("e", "e::text as e", None),
        ("f", "f", Some("`c::text as c`")),
        ("f", "f::text as f", None),
    ] {
        let file = format!("/* key = [\"{key}\"] */ select {select} from t limit 1");
        let files = [("rowstream.toml", config.as_str()), ("endpoints/t.sql", &file)];
        match (expected, Launch::files(&files).try_start().await) {
            (None, started) => drop(started.unwrap_or_else(|exit| panic!("{select}: {}", exit.stderr))),
            (Some(_), Ok(_)) => panic!("{select}: it starts"),
            (Some(hint), Err(exit)) => {
                let said = exit.stderr;
                assert!(said.contains(&format!("`key` names `{key}`, whose values")), "{select}: {said}");
                assert!(said.contains(hint), "{select}: {said}");
            }
        }
    }
}

/// SQLite values, in groups.
const VALUES: [(&str, &[&str]); 4] = [
    (
        "integers",
        &[
            "9007199254740993",
            "9007199254740992",
            "-9223372036854775808",
            "9223372036854775807",
            "0",
            "-7",
            "12",
            "5",
        ],
    ),
    (
        "numbers",
        &[
            "9007199254740993",
            "9007199254740992.0",
            "9007199254740994.0",
            "0",
            "-0.0",
            "0.1",
            "1e300",
            "9e999",
            "-9e999",
            "9223372036854775807",
            "9223372036854775808.0",
            "1e19",
            "5e-324",
            "-1.5",
            "3",
        ],
    ),
    (
        "texts",
        &[
            "''",
            "' '",
            "'a'",
            "'A'",
            "'a '",
            "'b'",
            "'ä'",
            "'Ä'",
            "'10'",
            "'9'",
            "'1e3'",
            "'9007199254740993'",
            "'a' || char(0) || 'b'",
            "'a' || char(0)",
            "'😀'",
            "'￿'",
            "'null'",
            "'\"'",
            "'0x10'",
            "'1.0'",
            "' 1'",
        ],
    ),
    (
        "all",
        &[
            "9007199254740993",
            "9007199254740992.0",
            "'9007199254740993'",
            "9e999",
            "-9e999",
            "'10'",
            "10",
            "9.5",
            "'9.5'",
            "''",
            "'a'",
            "'A'",
            "'a '",
            "'1e400'",
            "'inf'",
            "-1",
            "'-1'",
            "1e19",
            "'10000000000000000000'",
        ],
    ),
];

/// Declared types of SQLite columns.
const DECLARED: [&str; 14] = [
    "",
    "any",
    "integer",
    "int",
    "real",
    "numeric",
    "text",
    "text collate nocase",
    "text collate rtrim",
    "collate nocase",
    "varchar(3)",
    "boolean",
    "datetime",
    "decimal(9, 2) collate nocase",
];

/// Ways to read them in a statement. The rows of `other` have other `id`s.
const READ: [(&str, &str, usize); 11] = [
    ("plain", "select k, id from {}", ROWS),
    ("untyped", "select +k as k, id from {}", ROWS),
    ("nocase", "select k collate nocase as k, id from {}", ROWS),
    ("rtrim", "select k collate rtrim as k, id from {}", ROWS),
    ("cast", "select cast(k as text) as k, id from {}", ROWS),
    ("distinct", "select distinct k, id from {}", ROWS),
    ("grouped", "select max(k) as k, id from {} group by id", ROWS),
    ("joined", "select a.k, b.id from {} a join {} b using (id)", ROWS),
    ("limited", "select * from (select k, id from {} limit 100)", ROWS),
    ("union", "select k, id from {} union all select k, id + 100 from other", ROWS + 19),
    ("union_of_texts", "select k, id + 100 as id from other union all select k, id from {}", ROWS + 19),
];

#[tokio::test]
async fn sqlite_pages_have_each_row_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "pragma synchronous = off; create table other (k text, id integer);
         with s(id) as (select 1 union all select id + 1 from s where id < 19)
           insert into other select (id * 7919) % 13, id from s",
    )
    .unwrap();
    let (mut files, mut expected) = (Vec::new(), Vec::new());
    for (number, declared) in (0..).zip(DECLARED) {
        for (group, values) in VALUES {
            let table = format!("{group}_{number}");
            let value = |id: usize| format!("({}, {id})", values[id * 7919 % 101 % values.len()]);
            let rows: Vec<_> = (1..=ROWS).map(value).collect();
            db.execute_batch(&format!(
                "create table {table} (k {declared}, id integer primary key); insert into {table} values {}",
                rows.join(", ")
            ))
            .unwrap();
            for (turn, (name, read, count)) in (number..).zip(READ) {
                let mut shapes = endpoints(&format!("{table}_{name}"), &read.replace("{}", &table));
                if name != "plain" {
                    shapes = vec![shapes.remove(turn % 4)];
                }
                expected.extend(shapes.iter().map(|(file, _)| (file.clone(), declared, count)));
                files.extend(shapes);
            }
        }
    }
    let server = unchecked(&format!("sqlite:{}", path.display()), &files).await;
    let mut wrong = Vec::new();
    for (file, declared, count) in expected {
        wrong.extend(fault(&server, &file, Some(count)).await.map(|fault| format!("{declared}: {fault}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// DuckDB's types, with values in their order.
const DUCKDB_TYPES: &[(&str, &[&str])] = &[
    ("boolean", &["false", "true"]),
    ("utinyint", &["5", "200"]),
    ("bigint", &["-9223372036854775808", "9007199254740992", "9007199254740993"]),
    ("ubigint", &["3", "18446744073709551614", "18446744073709551615"]),
    ("hugeint", &["-170141183460469231731687303715884105728", "1", "10000000000000000000000000000000000001"]),
    (
        "uhugeint",
        &["0", "340282366920938463463374607431768211454", "340282366920938463463374607431768211455"],
    ),
    ("float", &["-2.25", "0.1", "16777216"]),
    ("double", &["-2.25", "5e-324", "0.1", "1e300"]),
    ("decimal(38, 10)", &["-2.253", "1.5", "1234567890123456789012345678.0123456789"]),
    ("varchar", &["", "B", "a", "b "]),
    ("bit", &["0001", "101", "1"]),
    ("date", &["-infinity", "0001-01-01", "9999-12-31", "20000-01-01", "infinity"]),
    ("timestamp", &["-infinity", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "infinity"]),
    ("timestamptz", &["0001-01-01 00:00:00+00", "2024-01-01 12:00:00.5+01", "20000-01-01 00:00:00+00"]),
    ("timestamp_ns", &["1700-01-01", "2024-01-01 12:00:00.123456", "2024-01-01 12:00:00.123456789"]),
    ("time", &["00:00:00.5", "12:00:00.000001", "24:00:00"]),
    ("timetz", &["13:00:00+01", "12:00:00+00", "11:00:00-01:30"]),
];

/// Types of DuckDB that aren't allowed in keys and orders, with values in their order.
const DUCKDB_REFUSED: &[(&str, &[&str])] = &[
    ("enum('low', 'medium', 'high')", &["low", "medium", "high"]),
    ("bignum", &["9", "10", "123456789012345678901234567890123456789012345678901234567890"]),
    ("interval", &["-1 second", "24 hours", "30 days"]),
    ("uuid", &["00000000-0000-0000-0000-000000000001", "ffffffff-0000-0000-0000-000000000001"]),
    ("blob", &["a", "b"]),
    ("integer[]", &["[1]", "[1, 2]"]),
    ("struct(a integer)", &["{'a': 1}", "{'a': 2}"]),
];

/// A statement with two rows for each of these values.
fn duckdb_rows(kind: &str, values: &[&str]) -> String {
    let texts = values.iter().chain(values).map(|value| value.replace('\'', "''"));
    let rows: Vec<_> = (1..).zip(texts).map(|(id, value): (usize, _)| format!("('{value}', {id})")).collect();
    format!("select k::{kind} as k, id from (values {}) as t(k, id)", rows.join(", "))
}

/// The rows of all pages by `order`, or the error if the order is refused.
async fn ordered_pages(server: &Server, list: &str, order: &str) -> Result<Vec<u64>, String> {
    let (mut seen, mut query) = (Vec::new(), format!("?order={order}&limit=2"));
    loop {
        let reply = get(&server.url(&format!("{list}{query}"))).await;
        assert_eq!(reply.ended, Ended::Complete, "{list}{query}");
        let json = reply.json();
        let Some(page) = json.as_array() else {
            assert!(seen.is_empty(), "{list}: a later page fails: {json}");
            return Err(json.to_string());
        };
        seen.extend(page.iter().map(|row| row["id"].as_u64().unwrap()));
        assert!(seen.len() < 100, "{list}: the pages do not end");
        match reply.header("link").and_then(|link| link.strip_prefix('<')?.split_once('>')) {
            Some((next, _)) => query = next.to_owned(),
            None => return Ok(seen),
        }
    }
}

/// Pages by each of these types have the rows in order, or are refused.
async fn check_duckdb_pages(types: &[(&str, &[&str])], expected: Expected) {
    let (mut files, mut wrong) = (Vec::new(), Vec::new());
    for (number, (kind, values)) in types.iter().enumerate() {
        let rows = duckdb_rows(kind, values);
        files.extend(endpoints(&format!("k{number}"), &rows).into_iter().take(2));
        files
            .push((format!("s{number}"), format!("/*\nkey = [\"id\"]\nsort = true\n*/\n{rows} order by id")));
    }
    let url = format!("adbc:{}?entrypoint=duckdb_adbc_init", duckdb());
    let server = unchecked(&url, &files).await;
    for (number, (kind, values)) in types.iter().enumerate() {
        let rows = (expected == Expected::Rows).then_some(2 * values.len());
        for shape in ["up", "down"] {
            let fault = fault(&server, &format!("k{number}_{shape}"), rows).await;
            wrong.extend(fault.map(|fault| format!("{kind}: {fault}")));
        }
        let up: Vec<_> = (1..=values.len()).flat_map(|id| [id as u64, (id + values.len()) as u64]).collect();
        let down: Vec<_> = up.chunks(2).rev().flatten().copied().collect();
        for (order, ids) in [("k,id", up), ("k.desc,id", down)] {
            let pages = ordered_pages(&server, &format!("/s{number}"), order).await;
            if pages.as_ref().ok() != rows.map(|_| &ids) {
                wrong.push(format!("{kind}: {order}: {pages:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The answer to a request for pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Rows,
    Refusal,
}

#[tokio::test]
async fn duckdb_pages_have_each_row_once() {
    check_duckdb_pages(DUCKDB_TYPES, Expected::Rows).await;
}

/// DuckDB sorts an `enum` by number, but a cursor's text was compared with its text, so pages lost rows. Pages by a
/// `bignum` or an `interval` failed after the first one.
#[tokio::test]
async fn duckdb_pages_without_an_order_are_refused() {
    check_duckdb_pages(DUCKDB_REFUSED, Expected::Refusal).await;
    let config = format!("[source.db]\nurl = \"adbc:{}?entrypoint=duckdb_adbc_init\"\n", duckdb());
    for (select, hint) in [
        ("'low'::enum('low') as k", "`k::varchar as k`"),
        ("'9'::bignum as k", "`k::decimal(38) as k`"),
        ("interval '1 day' as k", "`epoch(k) as k`"),
    ] {
        let file = format!("/* key = [\"k\"] */ select {select} limit 1");
        let files = [("rowstream.toml", config.as_str()), ("endpoints/t.sql", &file)];
        let said = match Launch::files(&files).try_start().await {
            Ok(_) => panic!("{select}: it starts"),
            Err(exit) => exit.stderr,
        };
        assert!(
            said.contains("`key` names `k`, whose values DuckDB") && said.contains(hint),
            "{select}: {said}"
        );
    }
}

/// A cursor had a date of DuckDB as `0044-03-15 BC`, which DuckDB read as the year 44 after Christ. Pages lost
/// rows, or began again for ever. Pages by timestamps failed.
#[tokio::test]
async fn duckdb_pages_by_times_before_christ_have_each_row_once() {
    const DAYS: &[&str] = &[
        "-infinity",
        "5877642-06-25 (BC)",
        "0044-03-15 (BC)",
        "0002-01-01 (BC)",
        "0001-12-31 (BC)",
        "0001-01-01",
        "2024-01-01",
    ];
    const TIMES: &[&str] = &[
        "-infinity",
        "290309-12-22 (BC) 00:00:00",
        "0044-03-15 (BC) 10:00:00",
        "0044-03-15 (BC) 10:00:00.5",
        "0001-12-31 (BC) 23:59:59",
        "0001-01-01 00:00:00",
    ];
    const SECONDS: &[&str] = &["0044-03-15 (BC) 10:00:00", "0001-12-31 (BC) 23:59:59", "0001-01-01 00:00:00"];
    let types = [
        ("date", DAYS),
        ("timestamp", TIMES),
        ("timestamptz", TIMES),
        ("timestamp_s", SECONDS),
        ("timestamp_ms", SECONDS),
        // A text that looks like a date isn't one.
        ("varchar", &["0044-03-15 BC", "0045-01-01"]),
    ];
    check_duckdb_pages(&types, Expected::Rows).await;
}

/// A date that no calendar has was NULL in a cursor, but MariaDB sorts it as it's stored. Pages lost rows, or began
/// again for ever.
#[tokio::test]
async fn mariadb_pages_by_zero_dates_fail() {
    let db = MariaDb::new(
        "set sql_mode = ''; create table z (id int primary key, d datetime, day date not null); \
         insert into z values (1, '2024-01-01', '2024-01-01'), (2, '0000-00-00', '0000-00-00'), (3, null, '2024-03-01'),
           (4, '2024-02-01', '2024-02-01'), (5, '2024-00-00', '2024-04-01'), (6, '2023-12-31', '2023-12-31')",
    );
    let list = "/*\nkey = [\"id\"]\nsort = true\n*/\nselect id, d, day from z order by id";
    let config = format!("[source.db]\nurl = \"{}&zero-dates=null\"\n", db.url());
    let server =
        Launch::files(&[("rowstream.toml", config.as_str()), ("endpoints/z.sql", list)]).start().await;
    let all = get(&server.url("/z?order=d")).await;
    assert_eq!((all.status.as_u16(), all.json().as_array().map(Vec::len)), (200, Some(6)), "{}", all.text());
    for order in ["d", "d.desc", "day", "day.desc", "d.nullslast", "day.nullsfirst"] {
        let mut query = format!("?order={order}&limit=2");
        let mut pages = 0;
        let failed = loop {
            let reply = get(&server.url(&format!("/z{query}"))).await;
            match reply.header("link").and_then(|link| link.strip_prefix('<')?.split_once('>')) {
                Some((next, _)) if pages < 4 => query = next.to_owned(),
                _ => break reply,
            }
            pages += 1;
        };
        assert_eq!(
            (failed.status.as_u16(), &failed.json()["code"]),
            (500, &json!("bad_value")),
            "{order}: {}",
            failed.text()
        );
        assert!(failed.text().contains("sort by another column"), "{order}: {}", failed.text());
    }
}
