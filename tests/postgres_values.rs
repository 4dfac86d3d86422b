//! Every PostgreSQL type, a line per value; the oracle is PostgreSQL's own `row_to_json`.
//!
//! What is compared is text, byte for byte, with two differences that are meant: an instant ends in `Z` instead of
//! `+00:00` (RFC 3339 knows both, and `Z` is what the others write), and the line breaks inside of a `json` value
//! are blanks, because in NDJSON a line break ends the row. Floats may differ in text, never in value: at some powers of two
//! PostgreSQL's shortest digits are not the shortest (it keeps to an interval that excludes its ends).

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

mod support;

use std::fmt::Write as _;
use std::future::poll_fn;
use std::time::{Duration, Instant};

use rowstream::body::RowStream;
use rowstream::config::Config;
use rowstream::source::Source;
use rowstream_encode::{BytesForm, Format, Intervals, Nulls, Numbers, ValueOptions};
use support::TestDb;

/// The rows of `sql` as NDJSON.
async fn lines(source: &Source, url: &str, sql: &str) -> Result<String, rowstream::Error> {
    body(source, url, sql, Format::Ndjson).await
}

async fn body(source: &Source, url: &str, sql: &str, format: Format) -> Result<String, rowstream::Error> {
    body_with(source, url, sql, (format, ValueOptions::DEFAULT)).await
}

async fn body_with(
    source: &Source,
    url: &str,
    sql: &str,
    written: (Format, ValueOptions),
) -> Result<String, rowstream::Error> {
    let config = Config::single(url, sql).unwrap_or_else(|faults| panic!("{sql}: {faults:?}"));
    let mut stream = RowStream::open_with(&config.endpoints[0], source, written, Vec::new()).await?;
    let mut out = Vec::new();
    while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
        out.extend_from_slice(&chunk?);
    }
    Ok(String::from_utf8(out).unwrap())
}

fn source(url: &str) -> Source {
    let mut config = Config::single(url, "select 1").unwrap().sources.remove(0);
    config.pool.max = 1;
    Source::open(&config).unwrap()
}

/// The oracle's line with the two differences that are meant.
fn meant(oracle: &str) -> String {
    oracle.replace("+00:00\"", "Z\"").replace("+00:00 BC\"", "Z BC\"").replace(['\n', '\r'], " ")
}

/// Whether two texts differ in nothing but the digits of equal floats.
fn same_but_for_digits(ours: &str, oracle: &str) -> bool {
    let delimiters = ['{', '}', '[', ']', ',', ':'];
    let (mut ours, mut oracle) = (ours.split(delimiters), oracle.split(delimiters));
    loop {
        match (ours.next(), oracle.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a == b || same_float(a, b) => {}
            _ => return false,
        }
    }
}

/// Whether two texts are one float: a `float8`, or, where nine digits are enough, a `float4`.
fn same_float(a: &str, b: &str) -> bool {
    let short =
        |text: &str| text.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count() <= 9;
    let same = |a: Option<u64>, b: Option<u64>| a.is_some() && a == b;
    let float8 = |text: &str| text.parse::<f64>().ok().map(f64::to_bits);
    let float4 =
        |text: &str| text.parse::<f32>().ok().filter(|_| short(text)).map(|float| float.to_bits().into());
    same(float8(a), float8(b)) || same(float4(a), float4(b))
}

/// A database after `setup`, and our source on it.
struct Oracle {
    db: TestDb,
    client: tokio_postgres::Client,
    source: Source,
}

impl Oracle {
    async fn new(setup: &str) -> Self {
        let db = TestDb::new().await;
        db.execute(setup).await;
        let client = db.client().await;
        client.batch_execute("set timezone = 'UTC'").await.unwrap();
        let source = source(&db.url());
        Self { db, client, source }
    }

    async fn ours(&self, sql: &str) -> Result<String, rowstream::Error> {
        lines(&self.source, &self.db.url(), sql).await
    }

    async fn theirs(&self, sql: &str) -> String {
        let sql = format!("select row_to_json(t)::text from ({sql}) t");
        let row = self.client.query_one(&sql, &[]).await.unwrap_or_else(|fault| panic!("{sql}: {fault:?}"));
        row.get::<_, String>(0)
    }

    /// Compares each expression, and tells all that differ at once.
    async fn agree(&self, expressions: &[&str], same: impl Fn(&str, &str) -> bool) {
        self.compare(expressions.iter().map(|text| ((*text).to_owned(), (*text).to_owned())), same).await;
    }

    /// The same for types that become their text.
    async fn agree_by_text(&self, expressions: &[&str]) {
        let pairs = expressions.iter().map(|text| ((*text).to_owned(), format!("({text})::text")));
        self.compare(pairs, |ours, oracle| ours == oracle).await;
    }

    async fn compare(
        &self,
        pairs: impl Iterator<Item = (String, String)>,
        same: impl Fn(&str, &str) -> bool,
    ) {
        let mut differing = String::new();
        for (ours, oracle) in pairs {
            let expected = meant(&self.theirs(&format!("select {oracle} as v")).await) + "\n";
            match self.ours(&format!("select {ours} as v")).await {
                Ok(line) if same(&line, &expected) => {}
                Ok(line) => write!(differing, "\n{ours}\n    ours: {line}  oracle: {expected}").unwrap(),
                Err(error) => {
                    write!(differing, "\n{ours}\n    error: {error:?}\n  oracle: {expected}").unwrap();
                }
            }
        }
        assert!(differing.is_empty(), "{differing}");
    }
}

fn exactly(ours: &str, oracle: &str) -> bool {
    ours == oracle
}

#[tokio::test]
async fn booleans_and_integers() {
    let expressions = [
        "true",
        "false",
        "null::bool",
        "0::int2",
        "(-32768)::int2",
        "32767::int2",
        "null::int2",
        "0::int4",
        "(-2147483648)::int4",
        "2147483647::int4",
        "0::int8",
        "(-9223372036854775808)::int8",
        "9223372036854775807::int8",
        "null::int8",
        "0::oid",
        "4294967295::oid",
        "array[true, false, null]",
        "array[0, -32768, 32767, null]::int2[]",
        "array[0, -2147483648, 2147483647, null]::int4[]",
        "array[0, -9223372036854775808, 9223372036854775807, null]::int8[]",
        "array[0, 4294967295]::oid[]",
        "'1 -2 3'::int2vector",
        "'1 2 4294967295'::oidvector",
        "''::int2vector",
        "(select indkey from pg_index where indrelid = 'pg_class'::regclass order by 1 limit 1)",
    ];
    Oracle::new("").await.agree(&expressions, exactly).await;
}

#[tokio::test]
async fn floats() {
    let mut expressions = Vec::new();
    let values = [
        "0",
        "-0",
        "1",
        "-1",
        "0.1",
        "1e15",
        "1e14",
        "123456789012345680",
        "1e16",
        "1e-4",
        "1e-5",
        "1e20",
        "1e21",
        "1e22",
        "1e23",
        "9007199254740993",
        "0.30000000000000004",
        "1.5e300",
        "5e-324",
        "2.2250738585072014e-308",
        "1.7976931348623157e308",
        "-1.7976931348623157e308",
        "9.5367431640625e-07",
        "NaN",
        "Infinity",
        "-Infinity",
    ];
    expressions.extend(values.map(|value| format!("'{value}'::float8")));
    let values = [
        "0",
        "-0",
        "1",
        "0.1",
        "0.3",
        "1e5",
        "1e6",
        "1e15",
        "123456.7",
        "16777216",
        "1e-4",
        "1e-5",
        "3.4028235e38",
        "1e-45",
        "1.1754944e-38",
        "NaN",
        "Infinity",
        "-Infinity",
    ];
    expressions.extend(values.map(|value| format!("'{value}'::float4")));
    // Powers of two, where the neighbours lie at different distances.
    expressions.extend((-1074..=1023).step_by(13).map(|n| format!("(2::float8 ^ {n})")));
    expressions.extend((-149..=127).step_by(5).map(|n| format!("(2::float8 ^ {n})::float4")));
    expressions.extend(
        [
            "array['NaN', '-Infinity', '-0', 1e15, 1e-5, 0.1, null]::float8[]",
            "array['NaN', 'Infinity', 0.1, 1e20, null]::float4[]",
        ]
        .map(str::to_owned),
    );
    let expressions: Vec<&str> = expressions.iter().map(String::as_str).collect();
    Oracle::new("").await.agree(&expressions, same_but_for_digits).await;
}

#[tokio::test]
async fn numerics_keep_every_digit() {
    let expressions = [
        "0::numeric",
        "0.00::numeric",
        "-0.0::numeric",
        "12.50::numeric(10, 2)",
        "123456789012345678901234567890::numeric",
        "-123456789012345678901234567890.123456789012345678901234567890::numeric",
        "-1e-20::numeric",
        "1e40::numeric",
        "'NaN'::numeric",
        "'Infinity'::numeric",
        "'-Infinity'::numeric",
        "null::numeric",
        "1500::numeric(4, -2)",
        "array[0.00, -1e-20, 123456789012345678901234567890, 'NaN', '-Infinity', null]::numeric[]",
    ];
    Oracle::new("").await.agree(&expressions, exactly).await;
}

#[tokio::test]
async fn texts() {
    let expressions = [
        "''",
        "'plain'",
        r#"'quotes " '' and \ backslash \n \u0041'"#,
        r"E'\x01\x02\b\t\n\x0b\f\r\x1b\x1f\x20\x7e\x7f'",
        "'é 日本 𝄞 😀'",
        "chr(128) || chr(159) || chr(8232) || chr(65533) || chr(1114111)",
        "'</script><!-- / &'",
        "repeat('\"\\', 3000)",
        "repeat('ab', 40000)",
        "null::text",
        "'short'::varchar(10)",
        "'ab'::char(5)",
        "''::char(3)",
        "'x'::\"char\"",
        "''::\"char\"",
        "'a name'::name",
        r#"array['', 'NULL', null, 'null', 'a b', ' lead', 'trail ', '{', '}', ',', ';', '"', '\', '\\', E'\n\t\x01', '😀']"#,
        "array['ab', null]::varchar(5)[]",
        "array['ab', null]::char(5)[]",
        "array['x', '{', null]::\"char\"[]",
        "array['pg_class', 'a b']::name[]",
    ];
    Oracle::new("").await.agree(&expressions, exactly).await;
}

#[tokio::test]
async fn every_character_of_the_first_planes() {
    let oracle = Oracle::new("").await;
    // 1 ..= 0x2fff in pieces, so that a failure names a piece.
    let pieces: Vec<String> = (0..48)
        .map(|piece| {
            let (from, to) = ((piece * 256).max(1), piece * 256 + 255);
            format!("(select string_agg(chr(n), '' order by n) from generate_series({from}, {to}) n)")
        })
        .collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    oracle.agree(&pieces, exactly).await;
}

#[tokio::test]
async fn bytes() {
    let expressions = [
        "''::bytea",
        r"'\x00'::bytea",
        r"'\xdeadbeef'::bytea",
        "(select string_agg(set_byte('\\x00'::bytea, 0, n), '' order by n) from generate_series(0, 255) n)",
        "null::bytea",
        r"array['\x', '\x00ff', null]::bytea[]",
    ];
    Oracle::new("").await.agree(&expressions, exactly).await;
}

#[tokio::test]
async fn dates_and_times() {
    let expressions = [
        "date '2024-02-29'",
        "date '1970-01-01'",
        "date '1969-12-31'",
        "date '2000-01-01'",
        "date '1900-02-28'",
        "date '0001-01-01'",
        "date '0001-12-31 BC'",
        "date '0005-02-29 BC'",
        "date '4713-11-24 BC'",
        "date '9999-12-31'",
        "date '10000-01-01'",
        "date '5874897-12-31'",
        "date 'infinity'",
        "date '-infinity'",
        "null::date",
        "array['2024-02-29', '0044-03-15 BC', '10000-01-01', 'infinity', '-infinity', null]::date[]",
        "time '00:00'",
        "time '24:00'",
        "time '23:59:59.999999'",
        "time '12:34:56.1'",
        "time '12:34:56.000001'",
        "null::time",
        "array['24:00', '00:00:00.5', null]::time[]",
        "timetz '12:34:56.5+02'",
        "timetz '24:00-05:30'",
        "array['12:00+02', null]::timetz[]",
    ];
    Oracle::new("").await.agree(&expressions, exactly).await;
}

#[tokio::test]
async fn timestamps() {
    let texts = [
        "2024-02-29 12:00:00",
        "1970-01-01 00:00:00",
        "1969-12-31 23:59:59.999999",
        "2000-01-01 00:00:00",
        "1999-12-31 23:59:59.9",
        "2024-01-01 00:00:00.1",
        "2024-01-01 00:00:00.12",
        "2024-01-01 00:00:00.123",
        "2024-01-01 00:00:00.1234",
        "2024-01-01 00:00:00.12345",
        "2024-01-01 00:00:00.123456",
        "2024-01-01 00:00:00.000001",
        "0001-01-01 00:00:00",
        "0001-12-31 23:59:59.999999 BC",
        "0044-03-15 12:00:00 BC",
        "4713-11-24 00:00:00 BC",
        "9999-12-31 23:59:59.999999",
        "10000-01-01 00:00:00",
        "294276-12-31 23:59:59.999999",
        "infinity",
        "-infinity",
    ];
    let mut expressions = Vec::new();
    for kind in ["timestamp", "timestamptz"] {
        expressions.extend(texts.map(|text| format!("'{text}'::{kind}")));
        let list = texts.map(|text| format!("'{text}'")).join(", ");
        expressions.push(format!("array[{list}, null]::{kind}[]"));
        expressions.push(format!("null::{kind}"));
    }
    expressions.push("timestamptz '2024-06-01 12:00:00+05:30'".to_owned());
    expressions.push("'2024-01-01 00:00:00.5'::timestamp(0)".to_owned());
    let expressions: Vec<&str> = expressions.iter().map(String::as_str).collect();
    Oracle::new("").await.agree(&expressions, exactly).await;
}

/// Sessions have their own settings, whatever the database, the user or the URL would have them be.
#[tokio::test]
async fn the_servers_defaults_change_no_value() {
    let oracle = Oracle::new("").await;
    for setting in [
        "timezone = 'Asia/Kolkata'",
        "datestyle = 'German, DMY'",
        "intervalstyle = 'iso_8601'",
        "extra_float_digits = -15",
        "bytea_output = 'escape'",
        "client_encoding = 'LATIN1'",
    ] {
        oracle.db.execute(&format!("alter database {} set {setting}", oracle.db.name())).await;
    }
    let oracle = Oracle { source: source(&oracle.db.url()), ..oracle };
    let expressions = [
        "timestamptz '2024-06-01 12:00:00+05:30'",
        "array[timestamptz '2024-06-01 12:00:00+05:30']",
        "array[timestamp '2024-06-01 12:00:00']",
        "array[date '2024-06-01']",
        "interval '1 day -2:03:04.5'",
        "array[0.1::float8, 1e-5]",
        "'\\x00ff'::bytea",
        "array['\\x00ff'::bytea]",
        "'é😀'",
    ];
    oracle.agree(&expressions, exactly).await;
}

#[tokio::test]
async fn intervals_and_uuids() {
    let expressions = [
        "interval '0'",
        "interval '1 year 2 months 3 days 04:05:06.789'",
        "interval '-1 year -2 months +3 days -04:05:06.000001'",
        "interval '100:00:00'",
        "interval '1 day -00:00:01'",
        "interval '-178000000 years'",
        "array['1 day', '-00:00:00.5', null]::interval[]",
        "'00000000-0000-0000-0000-000000000000'::uuid",
        "'FFFFFFFF-ffff-ffff-ffff-ffffffffffff'::uuid",
        "'0123456789abcdef0123456789abcdef'::uuid",
        "array['01234567-89ab-cdef-0123-456789abcdef', null]::uuid[]",
    ];
    Oracle::new("").await.agree(&expressions, exactly).await;
}

#[tokio::test]
async fn json_stays_as_it_is_and_a_line_stays_a_line() {
    let oracle = Oracle::new("").await;
    let expressions = [
        "'{}'::json",
        "'null'::json",
        "null::json",
        r#"'{"b": 1, "a" :  [1.0, 1e400, "x\u0000\n"], "b": 2}'::json"#,
        "E'{\\n  \"a\": 1,\\r\\n\\t\"b\": [\\n]\\n}'::json",
        "E'\\n\\n1\\n'::json",
        "'null'::jsonb",
        "null::jsonb",
        r#"'{"b": 1.00, "a": [1e5, "x\n", null, true], "": {}}'::jsonb"#,
        r#"'"😀 \" \\ \/ \t"'::jsonb"#,
        r#"array['{"a": "x,y}"}', 'null', '"NULL"', '[1, {"b": "\\\""}]', null]::jsonb[]"#,
        "array[E'{\\n\"a\":\\n1}', '\"a\\\"b\"', null]::json[]",
    ];
    oracle.agree(&expressions, exactly).await;
    let line = oracle.ours("select E'{\\n\"a\"\\r\\n:1}'::json as v").await.unwrap();
    assert_eq!(line.matches(['\n', '\r']).count(), 1, "{line:?}");
}

#[tokio::test]
async fn arrays_have_any_shape() {
    let expressions = [
        "'{}'::int[]",
        "'{}'::text[]",
        "'{NULL}'::text[]",
        "'{\"NULL\"}'::text[]",
        "'{{1,2},{3,4}}'::int[]",
        "'{{{1},{2}},{{3},{NULL}}}'::int[]",
        "'{{{{{{1}}}}}}'::int[]",
        "'[2:3]={7,8}'::int[]",
        "'[0:0][-1:0]={{7,8}}'::int[]",
        "'[-2:-1]={a,\"]={\"}'::text[]",
        "'{{a,\"b c\"},{\"\",NULL}}'::text[]",
        "array[box '((0,0),(1,1))', box '((2,2),(3,3))']",
        "array[point '(1,2)', null]",
        "array[int4range(1, 5), int4range(null, 3), 'empty', null]",
        "array[inet '10.0.0.1/8', null]",
        "array[b'101', b'000']",
        "array[interval '1 day', null]",
        "array_fill(7, array[3, 2], array[-1, 5])",
        "(select array_agg(n) from generate_series(1, 20000) n)",
    ];
    Oracle::new("").await.agree(&expressions, exactly).await;
}

const TYPES: &str = "
    create extension hstore;
    create type mood as enum ('sad', 'so so', 'ha\"ppy', 'NULL', '{,}');
    create domain positive as int check (value > 0);
    create domain label as text;
    create domain short_label as label check (length(value) < 20);
    create domain flag as bool;
    create domain amount as numeric(20, 2);
    create domain document as jsonb;
    create domain moment as timestamptz;
    create domain moods as mood;
    create domain numbers as int[];
    create domain bags as int[];
    create type pair as (a int, b text);
    create type lonely as (alone text);
    create type nothing as ();
    create domain good_pair as pair check ((value).a is distinct from 0);
    create type thing as (\"the id\" int8, n numeric, \"a \"\"b\"\" \\\" text, raw bytea, at timestamptz, ts timestamp,
        day date, span interval, flag bool, doc json, binary_doc jsonb, ids int8[], moods mood[], p pair, ps pair[], f float8,
        f4 float4, u uuid, l label, r tstzrange, g good_pair, bs bags, v int2vector, pairs hstore);
    create table gone (a int, b text, c bool);
    alter table gone drop column b;
    insert into gone values (1, true);
    create table moody (m mood, p positive, l short_label, ms mood[], ps positive[], ls short_label[]);
";

#[tokio::test]
async fn enums_and_domains() {
    let expressions = [
        "'so so'::mood",
        "'ha\"ppy'::mood",
        "null::mood",
        "7::positive",
        "null::positive",
        "'la\"bel'::label",
        "'short'::short_label",
        "true::flag",
        "12.50::amount",
        "'{\"a\": 1}'::document",
        "'2024-01-01 12:00+02'::moment",
        "'sad'::moods",
        "'{1,2,NULL}'::numbers",
        "array['sad', 'so so', 'ha\"ppy', 'NULL', '{,}', null]::mood[]",
        "array[1, 2, null]::positive[]",
        "array['a', 'NULL', null, ' ']::label[]",
        "array['a', 'b c']::short_label[]",
        "array[true, null]::flag[]",
        "array[0.00, 123456789012345678.91]::amount[]",
        "array['{\"a\": \"}\"}', null]::document[]",
        "array['2024-01-01 12:00+02', '0044-03-15 BC', 'infinity']::moment[]",
        "array['sad', 'so so']::moods[]",
        "'{{sad,NULL},{\"so so\",sad}}'::mood[]",
        "'{{1},{2}}'::positive[]",
    ];
    Oracle::new(TYPES).await.agree(&expressions, exactly).await;
}

/// The types of a table's columns, in one row.
#[tokio::test]
async fn a_row_of_user_types() {
    let oracle = Oracle::new(TYPES).await;
    let insert = "insert into moody values ('sad', 1, 'x', '{sad,NULL}', '{1,2}', '{\"a b\"}'), (default)";
    oracle
        .db
        .execute(&insert.replace("(default)", "(default, default, default, default, default, default)"))
        .await;
    let ours = oracle.ours("select * from moody order by m nulls last").await.unwrap();
    let theirs = oracle
        .theirs("select string_agg(row_to_json(t)::text, E'\\n' order by m nulls last) as v from moody t")
        .await;
    let theirs: serde_json::Value = serde_json::from_str(&theirs).unwrap();
    assert_eq!(ours.trim_end(), theirs["v"].as_str().unwrap());
}

#[tokio::test]
async fn other_types_are_their_text() {
    let expressions = [
        "point '(1.5,-2)'",
        "lseg '[(0,0),(1,1)]'",
        "box '((0,0),(1,1))'",
        "path '((0,0),(1,1))'",
        "polygon '((0,0),(1,1),(1,0))'",
        "circle '<(0,0),1>'",
        "line '{1,2,3}'",
        "inet '10.0.0.1/8'",
        "inet '::1'",
        "cidr '10.0.0.0/8'",
        "macaddr '08:00:2b:01:02:03'",
        "int4range(1, 5)",
        "numrange(null, 1.50, '(]')",
        "tstzrange('2024-01-01', null)",
        "'{[1,3),[5,7)}'::int4multirange",
        "'a fat cat''s \"rat\"'::tsvector",
        "'fat & (rat | cat)'::tsquery",
        "xmlparse(content '<a b=\"c\">d</a>')",
        "12.5::money",
        "b'10110'",
        "b'101'::varbit",
        "'pg_class'::regclass",
        "'int4'::regtype",
        "'0/16B3748'::pg_lsn",
        "'unknown literal'",
        "txid_current_snapshot()",
        "'(0,1)'::tid",
        "'1'::xid",
        "'$.a[*]'::jsonpath",
    ];
    let oracle = Oracle::new(TYPES).await;
    oracle.agree(&expressions, exactly).await;
    // `to_jsonb` makes objects of these; what they hold is not told, and we keep to the text.
    oracle
        .agree_by_text(&["row(1, 'a \"b\" c', null)", "(select t from (select 1 as a, 'x y' as b) t)"])
        .await;
}

/// What a `thing` looks like with values that need every kind of quotes.
const THING: &str = r#"row(9007199254740993, -0.10, E'a"b\\c (d), {e}\n', '\x00ff', '2024-06-01 12:00+02', '0044-03-15 01:02:03.5 BC',
    '-infinity', '-1 day 02:03:04', true, E'{\n"a": "\\"x\\""}', '["\\", "(", 1.0]', array[1, null, 9223372036854775807], '{sad,NULL,"ha\"ppy"}',
    row(1, 'x "y", (z)'), array[row(2, 'a "b" \c'), null, row(null, ''), row(3, null)]::pair[], 'NaN', 0.1, '0123456789abcdef0123456789abcdef',
    'NULL', '["2024-01-01 00:00:00+00",)', row(1, 'é😀'), array[1, 2], '1 2', '"k \"1\""=>"v\\", n=>NULL')::thing"#;

#[tokio::test]
async fn composites_are_objects() {
    let things = [
        "(null::thing)".to_owned(),
        "row(null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null)::thing".to_owned(),
        THING.to_owned(),
        format!("array[{THING}, null, {THING}]"),
        format!("array[array[{THING}], array[null]]::thing[]"),
    ];
    let expressions = [
        "null::pair",
        "row(null, null)::pair",
        "row(1, '')::pair",
        "row(-1, 'NULL')::pair",
        "row(1, 'x,y')::pair",
        r#"row(1, E'"\\ ()\n\t\r\x01''{};')::pair"#,
        "row(1, ' lead and trail ')::pair",
        "row(1, '\u{a0}\u{2028}é😀')::pair",
        r#"array[row(1, 'x,y'), null, row(null, '"'), row(null, null)]::pair[]"#,
        "'{}'::pair[]",
        r#"'{{"(1,a)","(2,b)"},{"(3,\"c d\")",NULL}}'::pair[]"#,
        r#"'[2:3]={"(1,a)",NULL}'::pair[]"#,
        "row(null)::lonely",
        "row('')::lonely",
        "row('()')::lonely",
        "array[row(null), row('x'), null]::lonely[]",
        "'()'::nothing",
        "array['()']::nothing[]",
        "row(1, 'a b')::good_pair",
        "array[row(1, 'a b'), null]::good_pair[]",
        "array['{1,2}', null, '{}']::bags[]",
        "array['1 2', '']::int2vector[]",
        "(select g from gone g)",
        "(select array_agg(g) from gone g)",
        "(select c from pg_class c where c.relname = 'pg_class')",
        "(select t from pg_type t where t.typname = 'int4')",
        "int4range(1, 5)",
        "array[numrange(1.50, null), 'empty', '(,)', null]",
        r#"array['{}', '{[1,3),[5,7)}', null]::int4multirange[]"#,
        r#"tstzmultirange(tstzrange('2024-01-01', null))"#,
    ];
    let expressions: Vec<&str> =
        expressions.iter().copied().chain(things.iter().map(String::as_str)).collect();
    Oracle::new(TYPES).await.agree(&expressions, exactly).await;
}

#[tokio::test]
async fn an_hstore_is_what_its_cast_makes_of_it() {
    let expressions = [
        "''::hstore",
        "'a=>1'::hstore",
        "null::hstore",
        r#"'a=>1, "b c"=>NULL, ""=>"NULL", "x\"y\\"=>"=>, "'::hstore"#,
        r#"hstore(array['a', E'\n', 'é', '"'], array[E'\t\x01', '😀', null, '\'])"#,
        r#"array['a=>1', '', null, '"x y"=>"{,}"']::hstore[]"#,
    ];
    Oracle::new(TYPES).await.agree(&expressions, exactly).await;
}

/// Each with the option that is meant for it, and none with the others: an integer of 32 bits and a float stay numbers, JSON stays
/// as it is, and an element of an array is never left out.
#[tokio::test]
async fn values_by_options() {
    let oracle = Oracle::new(TYPES).await;
    let all = ValueOptions {
        numbers: Numbers::String,
        bytes: BytesForm::Base64,
        intervals: Intervals::Iso,
        nulls: Nulls::Omit,
    };
    for (expression, expected) in [
        ("1::int2", "1"),
        ("1::int4", "1"),
        ("9007199254740993", r#""9007199254740993""#),
        ("-1.50", r#""-1.50""#),
        ("'NaN'::numeric", r#""NaN""#),
        ("0.5::float8", "0.5"),
        ("0.1::float4", "0.1"),
        ("1::oid", r#""1""#),
        ("array[1, null]::int4[]", "[1,null]"),
        ("array[1, null]::int8[]", r#"["1",null]"#),
        ("array[[1.50, 'NaN'], [0, null]]::numeric[]", r#"[["1.50","NaN"],["0",null]]"#),
        ("array[0.5, 'NaN']::float8[]", r#"[0.5,"NaN"]"#),
        ("array[12.5]::amount[]", r#"["12.50"]"#),
        (r"'\x'::bytea", r#""""#),
        (r"'\x6869'::bytea", r#""aGk=""#),
        (r"array['\xfbff', null, '\x']::bytea[]", r#"["+/8=",null,""]"#),
        ("interval '1 year 2 days -03:04:05.6'", r#""P1Y2DT-3H-4M-5.6S""#),
        ("array[interval '0', '-1 month']", r#"["PT0S","P-1M"]"#),
        (r#"'{"a": 1, "b": null}'::json"#, r#"{"a": 1, "b": null}"#),
        ("'[9007199254740993, null]'::jsonb", "[9007199254740993, null]"),
        ("'a=>NULL'::hstore", r#"{"a": null}"#),
        ("row(null, null)::pair", "{}"),
        ("row(7, null)::pair", r#"{"a":7}"#),
        ("array[row(null, 'x'), null]::pair[]", r#"[{"b":"x"},null]"#),
    ] {
        let sql = format!("select {expression} as v, null as n, null::int8 as m");
        for (format, line) in [
            (Format::Ndjson, format!("{{\"v\":{expected}}}\n")),
            (Format::Json, format!("[{{\"v\":{expected}}}]")),
            (Format::JsonSeq, format!("\u{1e}{{\"v\":{expected}}}\n")),
        ] {
            let ours = body_with(&oracle.source, &oracle.db.url(), &sql, (format, all)).await;
            assert_eq!(ours.unwrap(), line, "{expression}");
        }
    }
    // As the server itself writes them.
    for text in
        ["1 year", "-1 year -2 months +3 days -04:05:06.000001", "100:00:00.5", "0", "-0.5 s", "1 mon -1 s"]
    {
        let style = "set intervalstyle = iso_8601";
        oracle.client.batch_execute(style).await.unwrap();
        let theirs =
            oracle.theirs(&format!("select interval '{text}' as v, array[interval '{text}'] as a")).await;
        let sql = format!("select interval '{text}' as v, array[interval '{text}'] as a");
        let ours = body_with(&oracle.source, &oracle.db.url(), &sql, (Format::Ndjson, all)).await;
        assert_eq!(ours.unwrap(), theirs + "\n", "{text}");
    }
}

#[tokio::test]
async fn csv_has_its_own_options() {
    let oracle = Oracle::new(TYPES).await;
    let options = ValueOptions {
        numbers: Numbers::String,
        bytes: BytesForm::Base64,
        intervals: Intervals::Iso,
        nulls: Nulls::Omit,
    };
    let sql = r"select 1::int8 as i, null as n, '\xfbff'::bytea as b, interval '1 day' as v, array['\xfbff'::bytea] as bs,
        array[1::int8] as ns, row(1, null)::pair as p";
    let csv = body_with(&oracle.source, &oracle.db.url(), sql, (Format::Csv, options)).await.unwrap();
    let expected =
        "i,n,b,v,bs,ns,p\r\n1,,+/8=,P1D,\"[\"\"+/8=\"\"]\",[1],\"{\"\"a\"\":1,\"\"b\"\":null}\"\r\n";
    assert_eq!(csv, expected);
}

/// What no value shows is seen within seconds: a name, or that one attribute stands for another.
#[tokio::test]
async fn a_renamed_attribute_is_seen_soon() {
    let oracle = Oracle::new(
        "create type pair as (a int, b text); create table t as select array[row(1, 'x')::pair] as p",
    )
    .await;
    let sql = "select p from t";
    assert_eq!(oracle.ours(sql).await.unwrap(), "{\"p\":[{\"a\":1,\"b\":\"x\"}]}\n");
    for (change, expected) in [
        ("alter type pair rename attribute b to c", "{\"p\":[{\"a\":1,\"c\":\"x\"}]}\n"),
        ("alter type pair drop attribute c, add attribute d text", "{\"p\":[{\"a\":1,\"d\":null}]}\n"),
    ] {
        oracle.db.execute(change).await;
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut line = String::new();
        while line != expected {
            line = oracle.ours(sql).await.unwrap();
            assert!(Instant::now() < deadline, "{change} is not seen: {line}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The server tells nobody that a type was altered. What was described then fits no more: one answer fails, and those behind it
/// are right.
#[tokio::test]
async fn an_altered_type_is_described_anew() {
    let oracle =
        Oracle::new("create type pair as (a int, b text); create table t as select row(1, 'x')::pair as p")
            .await;
    let sql = "select p from t";
    assert_eq!(oracle.ours(sql).await.unwrap(), "{\"p\":{\"a\":1,\"b\":\"x\"}}\n");
    for (change, expected) in [
        ("alter type pair add attribute c bool cascade", "{\"p\":{\"a\":1,\"b\":\"x\",\"c\":null}}\n"),
        ("alter type pair drop attribute a cascade", "{\"p\":{\"b\":\"x\",\"c\":null}}\n"),
    ] {
        oracle.db.execute(change).await;
        let error = oracle.ours(sql).await.unwrap_err();
        assert_eq!((error.code(), error.status().as_u16()), ("source_protocol", 502), "{change}");
        for _ in 0..2 {
            assert_eq!(oracle.ours(sql).await.unwrap(), expected, "{change}");
        }
    }
}

/// But for the line ends, which `COPY` has as LF and the RFC as CRLF: the last column marks them.
#[tokio::test]
async fn csv_is_that_of_copy() {
    let oracle = Oracle::new(
        "select setseed(0.5);
         create table t as
         select n, n * 0.25 as \"a,b\", date '2024-01-01' + n as d, array_to_json(array[n, n]) as j, a.text as a, b.text as b, 'END' as \"END\"
         from generate_series(1, 20000) n,
              lateral (select case when random() < 0.1 then null else
                  (select coalesce(string_agg(substr(E'xy,;\"\\n\\r\\té= |', 1 + floor(random() * 12)::int, 1), ''), '')
                   from generate_series(1, floor(random() * 7)::int + n * 0)) end as text) a,
              lateral (select repeat('z', n % 100) || case n % 3 when 0 then ',' when 1 then '\"\"' else '' end as text) b",
    )
    .await;
    let sql = "select * from t order by n";
    let ours = body(&oracle.source, &oracle.db.url(), sql, Format::Csv).await.unwrap();
    let copy = format!("copy ({sql}) to stdout (format csv, header)");
    let copied = std::process::Command::new(support::pg_bin().join("psql"))
        .args(["-qc", &copy, &oracle.db.url()])
        .output();
    let theirs = String::from_utf8(copied.unwrap().stdout).unwrap().replace("END\n", "END\r\n");
    let differs = ours.split("END\r\n").zip(theirs.split("END\r\n")).find(|(ours, theirs)| ours != theirs);
    assert_eq!((differs, ours.len()), (None, theirs.len()));
    let records = ::csv::Reader::from_reader(ours.as_bytes()).into_records();
    assert_eq!(records.filter_map(Result::ok).count(), 20_000);
}

#[tokio::test]
async fn columns_may_be_many_or_none_and_have_any_name() {
    let oracle = Oracle::new("create table empty_one (); insert into empty_one default values").await;
    assert_eq!(oracle.ours("select from empty_one").await.unwrap(), "{}\n");
    let sql = r#"select 1 as " ", 2 as "a""b", 3 as "é😀", 4 as "x\y", 5 as "new
line""#;
    assert_eq!(
        oracle.ours(sql).await.unwrap(),
        "{\" \":1,\"a\\\"b\":2,\"é😀\":3,\"x\\\\y\":4,\"new\\nline\":5}\n"
    );
    let many = (0..1600).map(|n| format!("{n} as c{n}")).collect::<Vec<_>>().join(", ");
    let many = format!("select {many}");
    assert_eq!(oracle.ours(&many).await.unwrap(), oracle.theirs(&many).await + "\n");
}

// --- Random rows -------------------------------------------------------------------------------------------------------

/// A small generator of our own (SplitMix64): the whole run is told by its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    /// An integer of a random length of up to `bits`, so that small ones are as frequent as large ones.
    fn integer(&mut self, bits: u32) -> i64 {
        (self.next() as i64) >> (64 - bits + self.below(u64::from(bits)) as u32)
    }
}

/// The types of random columns.
const KINDS: [&str; 40] = [
    "bool",
    "int2",
    "int4",
    "int8",
    "oid",
    "float4",
    "float8",
    "numeric",
    "text",
    "varchar",
    "bpchar",
    "name",
    "bytea",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "uuid",
    "json",
    "jsonb",
    "mood",
    "positive",
    "timetz",
    "money",
    "varbit",
    "inet",
    "macaddr",
    "int4range",
    "numrange",
    "tstzrange",
    "int4multirange",
    "point",
    "tsvector",
    "xml",
    "hstore",
    "pair",
    "lonely",
    "good_pair",
    "thing",
];

/// The types of the attributes of a `pair`, and of a `thing`.
const PAIR: [&str; 2] = ["int4", "text"];
const THING_KINDS: [&str; 24] = [
    "int8",
    "numeric",
    "text",
    "bytea",
    "timestamptz",
    "timestamp",
    "date",
    "interval",
    "bool",
    "json",
    "jsonb",
    "int8[]",
    "mood[]",
    "pair",
    "pair[]",
    "float8",
    "float4",
    "uuid",
    "text",
    "tstzrange",
    "good_pair",
    "bags",
    "int2vector",
    "hstore",
];

/// A random value of a type, as its input text.
fn value(kind: &str, random: &mut Random) -> String {
    match kind {
        "bool" => random.pick(&["t", "f"]).to_owned(),
        "int2" => random.integer(16).to_string(),
        "int4" => random.integer(32).to_string(),
        "int8" => random.integer(64).to_string(),
        "oid" => (random.next() as u32).to_string(),
        "positive" => (random.integer(31).unsigned_abs() + 1).to_string(),
        "float4" => match random.below(4) {
            0 => random.pick(&["NaN", "Infinity", "-Infinity", "-0", "1e-45", "3.4028235e38"]).to_owned(),
            1 => (random.integer(24) as f32 / 100.0).to_string(),
            _ => finite32(random).to_string(),
        },
        "float8" => match random.below(4) {
            0 => random.pick(&["NaN", "Infinity", "-Infinity", "-0", "5e-324", "1e15", "1e-5"]).to_owned(),
            1 => (random.integer(53) as f64 / 1000.0).to_string(),
            _ => finite64(random).to_string(),
        },
        "numeric" => match random.below(8) {
            0 => random.pick(&["NaN", "Infinity", "-Infinity", "0.00", "-1e-20"]).to_owned(),
            1 => random.integer(64).to_string(),
            _ => format!(
                "{}{:018}.{}",
                random.integer(40),
                random.below(1_000_000_000_000_000_000),
                random.below(1 << 40)
            ),
        },
        "text" | "varchar" | "bpchar" => text(random, 40),
        "name" => text(random, 12),
        "bytea" => {
            (0..random.below(30)).fold("\\x".to_owned(), |hex, _| hex + &format!("{:02x}", random.below(256)))
        }
        "date" => match random.below(10) {
            0 => random
                .pick(&["infinity", "-infinity", "0001-01-01 BC", "5874897-12-31", "2000-02-29"])
                .to_owned(),
            _ => era(random.below(6000), &format!("{:02}-{:02}", random.below(12) + 1, random.below(28) + 1)),
        },
        "time" => clock(random),
        "timestamp" | "timestamptz" => match random.below(10) {
            0 => random.pick(&["infinity", "-infinity", "294276-12-31 23:59:59.999999"]).to_owned(),
            _ => {
                let day =
                    format!("{:02}-{:02} {}", random.below(12) + 1, random.below(28) + 1, clock(random));
                era(random.below(6000), &day)
            }
        },
        "interval" => {
            format!("{} months {} days {} us", random.integer(20), random.integer(20), random.integer(50))
        }
        "uuid" => format!("{:016x}{:016x}", random.next(), random.next()),
        "json" | "jsonb" => json(random, 3, kind == "json"),
        "mood" => random.pick(&["sad", "so so", "ha\"ppy", "NULL", "{,}"]).to_owned(),
        "timetz" => clock(random) + random.pick(&["+00", "-05:30", "+14", "+01:02:03"]),
        "money" => format!("{}.{:02}", random.integer(50), random.below(100)),
        "varbit" => (0..random.below(20)).map(|_| random.pick(&["0", "1"])).collect(),
        "inet" => match random.below(2) {
            0 => format!(
                "{:x}:{:x}::{:x}/{}",
                random.below(65536),
                random.below(65536),
                random.below(65536),
                random.below(129)
            ),
            _ => {
                let mut byte = || random.below(256);
                format!("{}.{}.{}.{}/{}", byte(), byte(), byte(), byte(), byte() % 33)
            }
        },
        "macaddr" => format!("{:012x}", random.next() >> 16),
        "int4range" | "numrange" | "tstzrange" | "int4multirange" => range(kind, random),
        "point" => format!("({},{})", random.integer(20) as f64 / 8.0, finite64(random)),
        "tsvector" => {
            random.pick(&["", "'a fat cat''s':1A,2 'rat'", "'x\\\\y' '\"' '{,}'", "é:3 日"]).to_owned()
        }
        "xml" => random.pick(&["", "<a b=\"c\">d &amp; {e}</a>", "<x>\n\\</x>", "plain, text"]).to_owned(),
        "hstore" => hstore(random),
        "lonely" => record(&["text"], random),
        "pair" => record(&PAIR, random),
        "good_pair" => record(&["positive", "text"], random),
        "thing" => record(&THING_KINDS, random),
        "bags" => array("int4", random),
        "int2vector" => (0..random.below(4)).map(|_| random.integer(16).to_string() + " ").collect(),
        _ => unreachable!("{kind}"),
    }
}

/// A range, or a multirange of two of them.
fn range(kind: &str, random: &mut Random) -> String {
    let mut ends: Vec<_> = (0..4).map(|_| random.integer(29)).collect();
    ends.sort_unstable();
    let end = |end: i64| match kind {
        "numrange" => format!("{end}.50"),
        "tstzrange" => {
            format!("\"{:04}-02-03 04:05:06.{}+00\"", 3000 + end.rem_euclid(2000), end.unsigned_abs())
        }
        _ => end.to_string(),
    };
    match (kind, random.below(5)) {
        ("int4multirange", 0) => "{}".to_owned(),
        ("int4multirange", _) => format!("{{[{},{}),[{},{}]}}", ends[0], ends[1], ends[2], ends[3]),
        (_, 0) => "empty".to_owned(),
        (_, 1) => format!("(,{}]", end(ends[0])),
        (_, 2) => format!("[{},)", end(ends[0])),
        ("tstzrange", _) => {
            format!("[\"2024-01-01 00:00:00.{}+00\",{})", random.below(1_000_000), end(ends[0]))
        }
        _ => format!("({},{}]", end(ends[0]), end(ends[1])),
    }
}

fn hstore(random: &mut Random) -> String {
    let quoted =
        |random: &mut Random| format!("\"{}\"", text(random, 8).replace('\\', "\\\\").replace('"', "\\\""));
    let pairs: Vec<_> = (0..random.below(4))
        .map(|_| {
            let key = quoted(random);
            let value = if random.below(4) == 0 { "NULL".to_owned() } else { quoted(random) };
            format!("{key}=>{value}")
        })
        .collect();
    pairs.join(",")
}

/// A composite literal of attributes of these types.
fn record(kinds: &[&str], random: &mut Random) -> String {
    let field = |kind: &&str| match (random.below(6), kind.strip_suffix("[]")) {
        (0, _) => String::new(),
        (_, Some(element)) => in_record(&array(element, random)),
        (_, None) => in_record(&value(kind, random)),
    };
    let fields: Vec<_> = kinds.iter().map(field).collect();
    format!("({})", fields.join(","))
}

fn in_record(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\""))
}

fn finite64(random: &mut Random) -> f64 {
    std::iter::repeat_with(|| f64::from_bits(random.next())).find(|float| float.is_finite()).unwrap()
}

fn finite32(random: &mut Random) -> f32 {
    std::iter::repeat_with(|| f32::from_bits(random.next() as u32)).find(|float| float.is_finite()).unwrap()
}

/// Years from 2000 on up to 4999, and before that back to 1000 BC.
fn era(year: u64, rest: &str) -> String {
    match year {
        0..5000 => format!("{:04}-{rest}", year + 1),
        _ => format!("{:04}-{rest} BC", year - 4999),
    }
}

fn clock(random: &mut Random) -> String {
    let fraction = match random.below(3) {
        0 => String::new(),
        _ => format!(".{:0width$}", random.below(10), width = random.below(6) as usize + 1),
    };
    format!("{:02}:{:02}:{:02}{fraction}", random.below(24), random.below(60), random.below(60))
}

fn text(random: &mut Random, most: u64) -> String {
    let alphabet = [
        "a", "Z", "0", " ", "\"", "\\", "'", "{", "}", ",", ";", ":", "\n", "\r", "\t", "\u{1}", "\u{1f}",
        "\u{7f}", "é", "日", "\u{2028}", "😀", "NULL", "null", "/", "<", "(", ")", "[", "]", "=",
    ];
    (0..random.below(most)).map(|_| random.pick(&alphabet)).collect()
}

fn json(random: &mut Random, depth: u64, blanks: bool) -> String {
    let blank = if blanks { random.pick(&["", " ", "\n", "\t", "\r\n"]) } else { "" };
    let text = |random: &mut Random| serde_json::Value::from(text(random, 8)).to_string();
    match random.below(5 + 2 * depth.min(1)) {
        0 => "null".to_owned(),
        1 => random.pick(&["true", "false"]).to_owned(),
        2 => format!("{}{blank}", random.integer(64)),
        3 => format!("{}e{}", random.integer(20), random.integer(6)),
        4 => text(random),
        5 => {
            let items: Vec<_> = (0..random.below(4)).map(|_| json(random, depth - 1, blanks)).collect();
            format!("[{blank}{}{blank}]", items.join(","))
        }
        _ => {
            let members: Vec<_> = (0..random.below(4))
                .map(|_| format!("{}{blank}:{blank}{}", text(random), json(random, depth - 1, blanks)))
                .collect();
            format!("{{{blank}{}}}", members.join(","))
        }
    }
}

/// An array literal of up to two dimensions, now and then with a lower bound.
fn array(kind: &str, random: &mut Random) -> String {
    let element = |random: &mut Random| match random.below(6) {
        0 => "NULL".to_owned(),
        _ => format!("\"{}\"", value(kind, random).replace('\\', "\\\\").replace('"', "\\\"")),
    };
    let list = |random: &mut Random, length: u64| {
        let items: Vec<_> = (0..length).map(|_| element(random)).collect();
        format!("{{{}}}", items.join(","))
    };
    let length = random.below(5);
    match (random.below(4), length) {
        (_, 0) => "{}".to_owned(),
        (0, _) => format!("[-1:{}]={}", length as i64 - 2, list(random, length)),
        (1, _) => format!("{{{},{}}}", list(random, length), list(random, length)),
        _ => list(random, length),
    }
}

fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A table of random columns with random rows.
struct Table {
    name: String,
    kinds: Vec<String>,
    sql: String,
}

impl Table {
    fn new(number: u64, rows: usize, random: &mut Random) -> Self {
        let name = format!("random_{number}");
        let kinds: Vec<String> = (0..=random.below(12))
            .map(|_| random.pick(&KINDS).to_owned() + if random.below(3) == 0 { "[]" } else { "" })
            .collect();
        let columns = kinds.iter().enumerate().map(|(i, kind)| format!(", c{i} {kind}")).collect::<String>();
        let mut sql = format!("create table {name} (id int{columns}); insert into {name} values ");
        for row in 0..rows {
            sql += if row == 0 { "(" } else { ",\n(" };
            sql += &row.to_string();
            for kind in &kinds {
                sql += ", ";
                sql += &match (random.below(8), kind.strip_suffix("[]")) {
                    (0, _) => "null".to_owned(),
                    (_, Some(element)) => literal(&array(element, random)),
                    _ => literal(&value(kind, random)),
                };
            }
            sql += ")";
        }
        Self { name, kinds, sql }
    }

    /// The columns that satisfy `which`, in a query.
    fn query(&self, which: impl Fn(&str) -> bool) -> String {
        let columns = self.kinds.iter().enumerate().filter(|(_, kind)| which(kind));
        let columns = columns.map(|(i, _)| format!(", c{i}")).collect::<String>();
        format!("select id{columns} from {} order by id", self.name)
    }
}

/// Compares every row of a query; how many there are.
async fn compare_rows(oracle: &Oracle, sql: &str, same: impl Fn(&str, &str) -> bool, seed: &str) -> usize {
    let ours = oracle.ours(sql).await.unwrap_or_else(|error| panic!("{error:?}, {seed}: {sql}"));
    let theirs =
        oracle.client.query(&format!("select row_to_json(t)::text from ({sql}) t"), &[]).await.unwrap();
    assert_eq!(ours.lines().count(), theirs.len(), "{seed}: {sql}");
    for (ours, theirs) in ours.lines().zip(&theirs) {
        let theirs = meant(theirs.get(0));
        assert!(same(ours, &theirs), "{seed}: {sql}\n  ours: {ours}\noracle: {theirs}");
    }
    theirs.len()
}

/// Random rows of random columns. `ROWSTREAM_TEST_SEED` repeats a run, `ROWSTREAM_TEST_ROWS` says how many there are.
#[tokio::test]
async fn random_rows_are_as_to_jsonb_has_them() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("ROWSTREAM_TEST_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap().as_nanos() as u64
    });
    let wanted = number("ROWSTREAM_TEST_ROWS").unwrap_or(20_000) as usize;
    let oracle = Oracle::new(TYPES).await;
    let mut random = Random(seed);
    let (mut compared, mut tables) = (0, 0);
    let is_float = |kind: &str| kind.starts_with("float");
    while compared < wanted {
        let table = Table::new(tables, 200, &mut random);
        let seed = format!("ROWSTREAM_TEST_SEED={seed}");
        let inserted = oracle.client.batch_execute(&table.sql).await;
        inserted.unwrap_or_else(|fault| panic!("{seed}: {fault:?} {:?}", table.kinds));
        compared += compare_rows(&oracle, &table.query(|_| true), same_but_for_digits, &seed).await;
        // The tolerance is for floats alone.
        compare_rows(&oracle, &table.query(|kind| !is_float(kind)), exactly, &seed).await;
        oracle.client.batch_execute(&format!("drop table {}", table.name)).await.unwrap();
        tables += 1;
    }
    println!("{compared} random rows of {tables} tables are as PostgreSQL has them");
}
