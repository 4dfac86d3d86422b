//! PostgreSQL's values: the corpus (`testdata/`), and random ones. The oracle is PostgreSQL's own
//! `row_to_json`.
//!
//! We compare texts byte for byte, with two deliberate differences. An instant ends in `Z` instead
//! of `+00:00` (RFC 3339 allows both, and other sources use `Z`). Line breaks inside a `json` value
//! become blanks, because in NDJSON a line break ends the row. The texts of floats may differ, but
//! not their values: at some powers of two, PostgreSQL's digits aren't the shortest, because it
//! excludes the ends of the interval.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fmt::Write as _;
use std::future::poll_fn;

use crate::support::TestDb;
use crate::support::corpus::{self, Arrow, Line, POSTGRES_SETUP, Written};
use rowstream::config::Config;
use rowstream::source::Source;
use rowstream::stream::RowStream;
use rowstream_encode::{Format, Intervals, ValueOptions};

/// The rows of `sql` as NDJSON.
async fn lines(source: &Source, url: &str, sql: &str) -> Result<String, rowstream_core::Error> {
    body(source, url, sql, Format::Ndjson).await
}

async fn body(
    source: &Source,
    url: &str,
    sql: &str,
    format: Format,
) -> Result<String, rowstream_core::Error> {
    body_with(source, url, sql, (format, ValueOptions::DEFAULT)).await
}

async fn body_with(
    source: &Source,
    url: &str,
    sql: &str,
    written: (Format, ValueOptions),
) -> Result<String, rowstream_core::Error> {
    let config = Config::single(url, sql).unwrap_or_else(|errors| panic!("{sql}: {errors:?}"));
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

/// The oracle's line with the two deliberate differences.
fn meant(oracle: &str) -> String {
    with_z(oracle).replace(['\n', '\r'], " ")
}

fn with_z(oracle: &str) -> String {
    oracle.replace("+00:00\"", "Z\"").replace("+00:00 BC\"", "Z BC\"")
}

/// Returns true if two texts differ only in the digits of equal floats.
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

/// Returns true if two texts are the same float: a `float8`, or a `float4` if nine digits are
/// enough.
fn same_float(a: &str, b: &str) -> bool {
    let short =
        |text: &str| text.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count() <= 9;
    let same = |a: Option<u64>, b: Option<u64>| a.is_some() && a == b;
    let float8 = |text: &str| text.parse::<f64>().ok().map(f64::to_bits);
    let float4 =
        |text: &str| text.parse::<f32>().ok().filter(|_| short(text)).map(|float| float.to_bits().into());
    same(float8(a), float8(b)) || same(float4(a), float4(b))
}

/// A database after `setup`, with our source.
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

    async fn ours(&self, sql: &str) -> Result<String, rowstream_core::Error> {
        lines(&self.source, &self.db.url(), sql).await
    }

    async fn theirs(&self, sql: &str) -> String {
        let sql = format!("select row_to_json(t)::text from ({sql}) t");
        let row = self.client.query_one(&sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        row.get::<_, String>(0)
    }

    /// The JSON of a line's value. Clients don't learn the contents of a `record`, so we use its
    /// text.
    async fn theirs_of(&self, line: &Line) -> String {
        let cast = if line.type_name == "record" { "::text" } else { "" };
        let object = self.theirs(&format!("select ({}){cast} as v", line.expression())).await;
        let json = object.strip_prefix("{\"v\":").and_then(|rest| rest.strip_suffix('}'));
        json.unwrap_or_else(|| panic!("{object}")).to_owned()
    }

    /// Compares each expression, and reports all differences together.
    async fn agree(&self, expressions: &[&str], same: impl Fn(&str, &str) -> bool) {
        let mut differing = String::new();
        for expression in expressions {
            let sql = format!("select {expression} as v");
            let expected = meant(&self.theirs(&sql).await) + "\n";
            match self.ours(&sql).await {
                Ok(line) if same(&line, &expected) => {}
                Ok(line) => {
                    write!(differing, "\n{expression}\n    ours: {line}  oracle: {expected}").unwrap();
                }
                Err(error) => {
                    write!(differing, "\n{expression}\n    error: {error:?}\n  oracle: {expected}").unwrap();
                }
            }
        }
        assert!(differing.is_empty(), "{differing}");
    }

    /// Our form of a line's value.
    async fn written(&self, line: &Line, options: ValueOptions) -> Result<Written, rowstream_core::Error> {
        let (sql, url) = (format!("select {} as v, 'x' as e", line.expression()), self.db.url());
        let ndjson = body_with(&self.source, &url, &sql, (Format::Ndjson, options)).await?;
        let csv = body_with(&self.source, &url, &sql, (Format::Csv, options)).await?;
        Ok(Written::in_bodies(&ndjson, &csv))
    }
}

fn exactly(ours: &str, oracle: &str) -> bool {
    ours == oracle
}

#[tokio::test]
async fn the_corpus_is_what_we_write() {
    let oracle = Oracle::new(POSTGRES_SETUP).await;
    let (mut wrong, mut checked) = (String::new(), 0);
    for line in corpus::postgres(oracle.db.version().await) {
        for (options, expected) in line.expected() {
            let written = oracle.written(line, options).await;
            if written.as_ref().ok() != Some(expected) {
                let by: Vec<_> = options.changes().collect();
                write!(wrong, "\n{} {by:?}\n  {written:?}\n  {expected:?}", line.name()).unwrap();
            }
            checked += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(checked > 1500, "{checked}");
}

/// A test in `tests/it/python.rs` reads the other values with an Arrow library.
#[tokio::test]
async fn what_arrow_cannot_hold_is_the_error_of_the_corpus() {
    let oracle = Oracle::new(POSTGRES_SETUP).await;
    let mut checked = 0;
    for line in corpus::postgres(oracle.db.version().await) {
        let Arrow::Error(code) = &line.arrow else { continue };
        let sql = format!("select {} as v", line.expression());
        let error = body(&oracle.source, &oracle.db.url(), &sql, Format::Arrow).await.unwrap_err();
        assert_eq!(error.code(), code, "{}", line.name());
        checked += 1;
    }
    assert!(checked > 5, "{checked}");
}

/// The corpus contains only PostgreSQL's actual output, and no assumptions about it.
#[tokio::test]
async fn the_corpus_is_what_postgres_writes() {
    let oracle = Oracle::new(POSTGRES_SETUP).await;
    let mut wrong = String::new();
    for line in corpus::postgres(oracle.db.version().await) {
        let theirs = meant(&oracle.theirs_of(line).await);
        let corpus = line.written.json.as_deref().unwrap();
        let same = if line.type_name.starts_with("float") { same_but_for_digits } else { exactly };
        if !same(corpus, &theirs) {
            write!(wrong, "\n{}\n  {corpus}\n  {theirs}", line.name()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test]
async fn the_iso_intervals_of_the_corpus_are_those_of_postgres() {
    let oracle = Oracle::new(POSTGRES_SETUP).await;
    oracle.client.batch_execute("set intervalstyle = iso_8601").await.unwrap();
    let iso = ValueOptions { intervals: Intervals::Iso, ..ValueOptions::DEFAULT };
    let mut checked = 0;
    for line in corpus::postgres(oracle.db.version().await) {
        for (_, expected) in line.expected().iter().filter(|(options, _)| *options == iso) {
            let theirs = meant(&oracle.theirs_of(line).await);
            assert_eq!(expected.json.as_ref(), Some(&theirs), "{}", line.name());
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked}");
}

/// Except those without input: statistics of the planner, summaries of indexes, and so on. Also
/// except `refcursor`, which is replaced by the cursor's rows.
#[tokio::test]
async fn every_type_of_postgres_has_a_line_in_the_corpus() {
    let oracle = Oracle::new(POSTGRES_SETUP).await;
    let types = corpus::postgres(u64::MAX).map(|line| line.type_name.as_str()).collect::<Vec<_>>();
    let sql = "select typname::text from pg_type
        where typnamespace = 'pg_catalog'::regnamespace and typtype in ('b', 'r', 'm') and typname not like '\\_%'
            and typname not in ('gtsvector', 'pg_node_tree', 'pg_ndistinct', 'pg_dependencies', 'pg_mcv_list',
                'pg_brin_bloom_summary', 'pg_brin_minmax_multi_summary', 'refcursor')
            and oid <> all (select to_regtype(name) from unnest($1::text[]) name where to_regtype(name) is not null)
        order by typname";
    let rows = oracle.client.query(sql, &[&types]).await.unwrap();
    let missing: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(missing, [""; 0]);
}

/// `COPY` writes some types differently from `row_to_json`, so it gets the texts from the JSON. The
/// NULLs and quotes are its own.
#[tokio::test]
async fn the_fields_of_the_corpus_are_those_of_copy() {
    let setup = format!("{POSTGRES_SETUP} create table fields (n int, field text)");
    let oracle = Oracle::new(&setup).await;
    let mut expected = String::new();
    for (n, line) in (0_i32..).zip(corpus::postgres(oracle.db.version().await)) {
        let json = match line.type_name.starts_with("float") {
            true => line.written.json.clone().unwrap(),
            false => with_z(&oracle.theirs_of(line).await),
        };
        let text = serde_json::from_str::<String>(&json).ok();
        let text = text.filter(|_| !matches!(&*line.type_name, "json" | "jsonb")).unwrap_or(json);
        let is_null = format!("({})::text is null", line.expression());
        let insert = format!("insert into fields select $1, case when not ({is_null}) then $2::text end");
        oracle.client.execute(&insert, &[&n, &text]).await.unwrap();
        writeln!(expected, "{n},{},END", line.written.csv).unwrap();
    }
    let copied = copy(&oracle.db, "select n, field, 'END' from fields order by n", "");
    let differs = copied.split(",END\n").zip(expected.split(",END\n")).find(|(copied, ours)| copied != ours);
    assert_eq!((differs, copied.len()), (None, expected.len()));
}

/// The rows of a query in `COPY`'s form, with or without a header.
fn copy(db: &TestDb, sql: &str, header: &str) -> String {
    let copy = format!("copy ({sql}) to stdout (format csv{header})");
    let ran = std::process::Command::new(crate::support::pg_bin().join("psql"))
        .args(["-qXc", &copy, &db.url()])
        .output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// Floats with different distances to their two neighbours.
#[tokio::test]
async fn floats_at_powers_of_two() {
    let float8 = (-1074..=1023).step_by(13).map(|n| format!("(2::float8 ^ {n})"));
    let float4 = (-149..=127).step_by(5).map(|n| format!("(2::float8 ^ {n})::float4"));
    let expressions: Vec<String> = float8.chain(float4).collect();
    let expressions: Vec<&str> = expressions.iter().map(String::as_str).collect();
    Oracle::new("").await.agree(&expressions, same_but_for_digits).await;
}

/// Values that are too long for the corpus, or that differ between servers.
#[tokio::test]
async fn long_values_and_rows_of_the_catalog() {
    let expressions = [
        "repeat('\"\\', 3000)",
        "repeat('ab', 40000)",
        "1e131071::numeric",
        "(select array_agg(n) from generate_series(1, 20000) n)",
        "(select indkey from pg_index where indrelid = 'pg_class'::regclass order by 1 limit 1)",
        "(select c from pg_class c where c.relname = 'pg_class')",
        "(select t from pg_type t where t.typname = 'int4')",
        "'unknown literal'",
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

/// Sessions have fixed settings, whatever those of the database, the user or the URL.
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

/// A table's column types, in one row.
#[tokio::test]
async fn a_row_of_user_types() {
    let moody =
        "create table moody (m mood, p positive, l short_label, ms mood[], ps positive[], ls short_label[])";
    let oracle = Oracle::new(&format!("{POSTGRES_SETUP}{moody}")).await;
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

/// After one attribute of a composite was replaced by another, its values kept the old names for
/// two seconds, because values don't show such a change.
#[tokio::test]
async fn an_altered_type_has_its_new_names_at_once() {
    let oracle = Oracle::new(
        "create type mood as enum ('fine', 'bad');
         create type pair as (a int, b int, m mood); create type outer_pair as (p pair[], t text);
         create domain couple as pair; create type span as range (subtype = pair);
         create table row_of (x int, y int, z text); insert into row_of values (1, 2, 'z');
         create table t (p pair, ps pair[], o outer_pair, c couple, cs couple[], s span);
         insert into t select v, array[v], row(array[v], 't')::outer_pair, v, array[v], span(v, v, '[]')
           from (select row(22, 33, 'fine')::pair as v) v",
    )
    .await;
    let statements = [
        "p",
        "ps",
        "o",
        "c",
        "cs",
        "s",
        "(select r from row_of r) as r",
        "(select array_agg(r) from row_of r) as r",
    ];
    let statements = statements.map(|column| format!("select {column} from t"));
    for change in [
        "select 1",
        "alter type pair drop attribute a cascade; alter type pair add attribute d int cascade; update t set p.d = 44",
        "alter type pair rename attribute b to e",
        "alter type pair drop attribute e, add attribute f text",
        "alter type mood rename value 'fine' to 'well'",
        "alter type mood add value 'best' before 'bad'; update t set p.m = 'best'",
        "alter table row_of drop column x; alter table row_of add column w text default 'w'",
        "alter table row_of rename column y to v",
        "alter table row_of alter column v type text",
        "alter type outer_pair add attribute n int, drop attribute t",
    ] {
        for change in change.split("; ") {
            oracle.db.execute(change).await;
        }
        for sql in &statements {
            let theirs = oracle.db.client().await;
            let theirs =
                theirs.query_one(&format!("select to_jsonb(q)::text from ({sql}) q"), &[]).await.unwrap();
            let theirs: serde_json::Value = serde_json::from_str(theirs.get(0)).unwrap();
            let ours = oracle.ours(sql).await.unwrap_or_else(|error| panic!("{change}: {sql}: {error:?}"));
            let ours: serde_json::Value = serde_json::from_str(&ours).unwrap();
            assert_eq!(ours, theirs, "{change}: {sql}");
        }
    }
}

/// Line ends differ: LF in `COPY`, CRLF in the RFC. The last column marks them.
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
    let theirs = copy(&oracle.db, sql, ", header").replace("END\n", "END\r\n");
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

// --- Random rows ---------------------------------------------------------------------------------

/// A small generator (SplitMix64). Its seed determines the whole run.
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

    /// An integer of random length up to `bits`, so that small ones are as frequent as large ones.
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

/// The attribute types of a `pair`, and of a `thing`.
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

/// A range, or a multirange of two ranges.
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

/// A composite literal with attributes of these types.
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

/// The years 1 to 5000, and from 5000 on the years 1 BC to 1000 BC.
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

/// An array literal of up to two dimensions, sometimes with a lower bound.
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

    /// A query for the columns that satisfy `which`.
    fn query(&self, which: impl Fn(&str) -> bool) -> String {
        let columns = self.kinds.iter().enumerate().filter(|(_, kind)| which(kind));
        let columns = columns.map(|(i, _)| format!(", c{i}")).collect::<String>();
        format!("select id{columns} from {} order by id", self.name)
    }
}

/// Compares every row of a query, and returns their number.
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

/// Random rows of random columns. `ROWSTREAM_TEST_SEED` repeats a run, and `ROWSTREAM_TEST_ROWS` is
/// the number of rows.
#[tokio::test]
async fn random_rows_are_as_to_jsonb_has_them() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("ROWSTREAM_TEST_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap().as_nanos() as u64
    });
    let wanted = number("ROWSTREAM_TEST_ROWS").unwrap_or(20_000) as usize;
    let oracle = Oracle::new(POSTGRES_SETUP).await;
    let mut random = Random(seed);
    let (mut compared, mut tables) = (0, 0);
    let is_float = |kind: &str| kind.starts_with("float");
    while compared < wanted {
        let table = Table::new(tables, 200, &mut random);
        let seed = format!("ROWSTREAM_TEST_SEED={seed}");
        let inserted = oracle.client.batch_execute(&table.sql).await;
        inserted.unwrap_or_else(|error| panic!("{seed}: {error:?} {:?}", table.kinds));
        compared += compare_rows(&oracle, &table.query(|_| true), same_but_for_digits, &seed).await;
        // The tolerance is only for floats.
        compare_rows(&oracle, &table.query(|kind| !is_float(kind)), exactly, &seed).await;
        oracle.client.batch_execute(&format!("drop table {}", table.name)).await.unwrap();
        tables += 1;
    }
    println!("{compared} random rows of {tables} tables are as PostgreSQL has them");
}
