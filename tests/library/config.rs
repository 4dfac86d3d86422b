//! Whole folders of configuration: the resulting settings, and the complete report of errors.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use http::HeaderMap;
use rowstream::config::{Argument, Config, Cors, Purpose};
use rowstream::database::DatabaseKind;
use rowstream::endpoint::{
    Authorization, Cardinality, Compression, Endpoint, FollowSettings, Piece, SlowClients, Timeout,
};
use rowstream::route::{Router, Suffix};
use rowstream::source::SourceKind;
use rowstream_core::client::ClientHeader;
use rowstream_core::params::{BindType, ParamPlace, ParamType, ParamValue, bind};
use rowstream_encode::{BytesForm, Format, Intervals, Nulls, Numbers, ValueOptions};

/// A folder with these files. The first one has no name: it's `rowstream.toml`.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(configuration: &str, files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("rowstream.toml", configuration.as_bytes());
        for (name, text) in files {
            folder.write(name, text.as_bytes());
        }
        folder
    }

    fn write(&self, name: &str, text: &[u8]) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn load(&self) -> Result<Config, String> {
        let environment = |name: &str| match name {
            "SHOP_URL" => Some("postgres://shop:hunter2@db/shop".to_owned()),
            "BAD" => Some("hunter2".to_owned()),
            _ => None,
        };
        let path = self.0.path().join("rowstream.toml");
        let loaded = Config::load_with(&path, &environment);
        loaded.map_err(|errors| errors.to_string().replace(&format!("{}/", self.0.path().display()), ""))
    }

    fn loaded(&self) -> Config {
        self.load().unwrap_or_else(|report| panic!("{report}"))
    }

    /// The report of errors.
    fn report(&self) -> String {
        let report = self.load().expect_err("there are errors");
        assert!(!report.contains("hunter2"), "{report}");
        report
    }
}

const SQLITE: &str = "[source.main]\nurl = \"sqlite:main.db\"\n";
const POSTGRES: &str = "[source.main]\nurl = \"postgres://h/d\"\n";
/// The formats of an endpoint without pages for browsers.
const DATA: &[Format] =
    &[Format::Json, Format::Ndjson, Format::Csv, Format::Sse, Format::JsonSeq, Format::Arrow];

/// The only endpoint of a folder with one file, on PostgreSQL.
fn endpoint(name: &str, text: &str) -> Endpoint {
    Folder::new(POSTGRES, &[(name, text)]).loaded().endpoints.remove(0)
}

/// The report for a folder with one endpoint file, on PostgreSQL, without the file's name.
fn errors(name: &str, text: &str) -> String {
    Folder::new(POSTGRES, &[(name, text)]).report().replace(&format!("{name}:"), "")
}

#[test]
fn everything_that_can_be_said() {
    let folder = Folder::new(
        r#"
            listen          = "[::]:0"
            endpoints       = "feeds"
            max_streams     = 10
            max_connections = 20
            drain_delay     = "5s"
            drain_timeout   = "1m30s"
            write_timeout   = "250ms"
            timeout         = { first_row = "10s", total = "10m" }
            max_streams_per_client = 3
            trusted_proxies = ["10.0.0.0/8", "::1"]
            client_header   = "Forwarded"
            authorization   = ["reader"]
            compression     = "on"
            [source.shop]
            url  = "${SHOP_URL}"
            pool = { max = 5, idle_timeout = "1h", acquire_timeout = "250ms", waiting = 0 }
            statement_cache   = 0
            fetch_rows        = 1000
            max_row_bytes     = "64KiB"
            statement_timeout = "${TIMEOUT:-10s}"
            [source.local]
            url    = "sqlite:data/local.db"
            mmap   = "256MB"
            create = ["schema.sql"]
            [token.reader]
            sha256 = ["00ffABcd00000000000000000000000000000000000000000000000000000001", "0000000000000000000000000000000000000000000000000000000000000002"]
            expires = "2027-01-01"
            scopes = ["orders"]
            [cors]
            origins = ["https://example.org", "http://localhost:3000"]
            max_age = "1h"
            [values]
            numbers = "string"
            nulls   = "omit"
        "#,
        &[
            ("schema.sql", "create table a (b)"),
            (
                "feeds/a.sql",
                "/*\nsource = \"shop\"\nauthorization = \"public\"\ncompression = \"off\"\nmax_streams = 2\ntimeout = { total = \"1s\" }\n*/ select 1",
            ),
            (
                "feeds/b.sql",
                "/*\nsource = \"local\"\n[values]\nbytes = \"base64\"\nintervals = \"iso\"\nnulls = \"null\"\n*/ select 1",
            ),
            ("feeds/_draft.sql", "not 'sql"),
            ("feeds/.hidden/a.sql", "not 'sql"),
            ("feeds/README.md", "not 'sql"),
        ],
    );
    let config = folder.loaded();
    assert_eq!(config.listen, "[::]:0");
    assert_eq!((config.limits.max_streams, config.limits.max_connections), (10, 20));
    assert_eq!(config.limits.drain_delay, Duration::from_secs(5));
    assert_eq!(config.limits.drain_timeout, Duration::from_secs(90));
    assert_eq!(config.limits.write_timeout, Duration::from_millis(250));
    assert_eq!(config.limits.max_streams_per_client, Some(3));
    let networks: Vec<_> = config.limits.proxies.trusted.iter().map(ToString::to_string).collect();
    assert_eq!(
        (&networks[..], config.limits.proxies.header),
        (&["10.0.0.0/8".into(), "::1/128".into()][..], ClientHeader::Forwarded)
    );
    let reader = &config.tokens["reader"];
    let hashes: Vec<_> = reader.hashes.iter().map(|hash| hash[..4].to_vec()).collect();
    assert_eq!(hashes, [[0x00, 0xff, 0xab, 0xcd], [0; 4]]);
    assert_eq!(reader.expires, "2027-01-01T00:00:00Z".parse().ok());
    assert_eq!(reader.scopes, ["orders"]);
    assert_eq!(
        config.cors,
        Some(Cors {
            origins: vec!["https://example.org".into(), "http://localhost:3000".into()],
            max_age: Duration::from_secs(3600)
        })
    );

    let [shop, local] = &config.sources[..] else { panic!("{:?}", config.sources) };
    assert_eq!((shop.name.as_str(), shop.url.as_str()), ("shop", "postgres://shop:hunter2@db/shop"));
    let kinds = [DatabaseKind::Postgres, DatabaseKind::Sqlite].map(SourceKind::Sql);
    assert_eq!([&shop.kind, &local.kind], [&kinds[0], &kinds[1]]);
    assert_eq!((shop.pool.max, shop.pool.waiting), (5, 0));
    assert_eq!(shop.pool.acquire_timeout, Duration::from_millis(250));
    assert_eq!((shop.statement_cache, shop.fetch_rows, shop.max_row_bytes), (0, 1000, 65_536));
    assert_eq!(shop.statement_timeout, Some(Duration::from_secs(10)));
    assert_eq!(local.url, format!("sqlite:{}", folder.0.path().join("data/local.db").display()));
    assert_eq!((shop.mmap, local.mmap), (0, 256_000_000));
    assert_eq!(local.create, [folder.0.path().join("schema.sql")]);
    assert_eq!((local.statement_cache, local.max_row_bytes, local.statement_timeout), (1000, 16 << 20, None));

    let [a, b] = &config.endpoints[..] else { panic!("{:?}", config.endpoints) };
    assert_eq!((a.path.as_str(), a.source.name(), &a.authorization), ("/a", "shop", &Authorization::Public));
    assert_eq!(b.authorization, Authorization::Tokens(vec!["reader".into()]));
    let default = ValueOptions { numbers: Numbers::String, nulls: Nulls::Omit, ..ValueOptions::default() };
    assert_eq!(a.response.values, default);
    let (bytes, intervals) = (BytesForm::Base64, Intervals::Iso);
    assert_eq!(b.response.values, ValueOptions { bytes, intervals, nulls: Nulls::Null, ..default });
    assert_eq!((a.response.compression, b.response.compression), (Compression::Off, Compression::On));
    assert_eq!((a.max_streams, b.max_streams), (Some(2), None));
    let timeout = Timeout { first_row: Some(Duration::from_secs(10)), total: Some(Duration::from_secs(1)) };
    assert_eq!(a.response.timeout, timeout);
    assert_eq!(b.response.timeout, Timeout { total: Some(Duration::from_secs(600)), ..timeout });
}

#[test]
fn an_endpoint_with_parameters() {
    let endpoint = endpoint(
        "endpoints/shops/{shop}/events.sql",
        r#"/*
summary = "Events after a number"
body    = { events = "$rows", at = 2024-05-06 }
key     = ["eventNo"]
[params]
shop        = "uuid"
lastEventNo = { type = "integer", default = 0, summary = "the last number you have" }
maxEvents   = { type = "integer", optional = true, min = 1, max = 1_000 }
rate        = { type = "number[]", min = 0.5, default = [1, 2.50], enum = [1, 2.5] }
since       = { type = "timestamp", default = 2024-05-06T07:08:09Z }
filter      = { type = "json", default = { a = [1] } }
tenant      = { type = "text", header = "X-Tenant" }
*/
select event_no::text from event
where shop = :shop and no > :lastEventNo and x in (:lastEventNo) and rate = any(:rate) and :tenant = :filter and :since
limit :maxEvents;
"#,
    );
    assert_eq!(endpoint.path, "/shops/{shop}/events");
    assert_eq!(endpoint.summary.as_deref(), Some("Events after a number"));
    let key = endpoint.key().unwrap();
    assert_eq!(
        (&key.columns[0].name[..], key.columns[0].descending, key.columns.len()),
        ("eventNo", false, 1)
    );
    assert_eq!((endpoint.not_found(), &endpoint.formats[..]), (false, DATA));
    let body: Vec<_> = endpoint
        .body
        .iter()
        .map(|piece| match piece {
            Piece::Literal(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Piece::Rows(i) => format!("<{i}>"),
            Piece::Count(i) => format!("<#{i}>"),
            Piece::Next => "<next>".to_owned(),
            Piece::Digest => "<digest>".to_owned(),
        })
        .collect();
    assert_eq!(body, [r#"{"events":"#, "<0>", r#","at":"2024-05-06"}"#]);

    let [statement] = endpoint.statements() else { panic!() };
    assert_eq!((statement.name.as_str(), statement.cardinality), ("rows", Cardinality::Many));
    assert!(statement.query.sql.ends_with("limit $7"), "{}", statement.query.sql);
    let names: Vec<_> = statement.args.iter().map(|&arg| endpoint.params[arg].name.as_str()).collect();
    assert_eq!(names, ["shop", "lastEventNo", "rate", "tenant", "filter", "since", "maxEvents"]);
    assert_eq!(
        statement.query.types[..3],
        [
            BindType::One(ParamType::Uuid),
            BindType::One(ParamType::Integer),
            BindType::List(ParamType::Number)
        ]
    );
    let at = statement.query.sql.find("limit").unwrap();
    assert_eq!(statement.origin.place(at), (16, 1));
    assert_eq!(statement.origin.place(at + 6), (16, 7));
    assert_eq!(statement.origin.place(statement.query.sql.find("from").unwrap()), (14, 23));

    let path = [("shop", "a0eebc999c0b4ef8bb6d6bb9bd380a11")];
    let headers = HeaderMap::from_iter([("X-Tenant".parse().unwrap(), "t".parse().unwrap())]);
    let bound = bind(&endpoint.params, &path, Some("maxEvents=5"), &headers).unwrap();
    let texts: Vec<_> = bound.values.iter().map(|v| v.postgres_text().unwrap_or("NULL".into())).collect();
    let expected = [
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "0",
        "5",
        r#"{"1","2.50"}"#,
        "2024-05-06T07:08:09Z",
        r#"{"a":[1]}"#,
        "t",
    ];
    assert_eq!(texts, expected);
    assert_eq!(
        endpoint.params[6].place,
        ParamPlace::Header { name: "x-tenant".parse().unwrap(), spelling: "X-Tenant".to_owned() }
    );
}

#[test]
fn several_statements() {
    let endpoint = endpoint(
        "endpoints/index.sql",
        "/*\nbody = { _embedded = { articles = \"$articles\" }, total = \"$total\", price = \"$$5\" }\n*/\n\
         -- name: total :value\nselect count(*) from a;\n-- name: articles :many\nselect * from a;\n",
    );
    assert_eq!(endpoint.path, "/");
    let told: Vec<_> = endpoint.statements().iter().map(|s| (s.name.as_str(), s.cardinality)).collect();
    assert_eq!(told, [("total", Cardinality::Value), ("articles", Cardinality::Many)]);
    assert_eq!(endpoint.body[1], Piece::Rows(1));
    assert_eq!(endpoint.body[3], Piece::Rows(0));
    assert_eq!(endpoint.body[4], Piece::Literal(r#","price":"$5"}"#.into()));
    assert_eq!((endpoint.rows_statement(), endpoint.formats.len()), (Some(1), DATA.len()));
    assert_eq!(endpoint.statements()[1].origin.place(1), (7, 1));
}

#[test]
fn nested_statements() {
    let endpoint = endpoint(
        "endpoints/authors.sql",
        "-- name: authors :many\nselect 1;\n-- name: books :many nested in authors on author_id = id and \"a b\" = c\nselect 2;\n\
         -- name: reviews :many nested in books on book = id\nselect 3;\n-- name: prizes :many nested in authors on a = b\nselect 4",
    );
    assert_eq!((&endpoint.body[..], endpoint.rows_statement()), (&[Piece::Rows(0)][..], Some(0)));
    assert_eq!(endpoint.formats, [Format::Json, Format::Ndjson, Format::Sse, Format::JsonSeq, Format::Arrow]);
    let children = |statement| endpoint.children(statement).collect::<Vec<_>>();
    assert_eq!([children(0), children(1), children(2), children(3)], [vec![1, 3], vec![2], vec![], vec![]]);
    assert_eq!((endpoint.nest(0), endpoint.nest(1)), (vec![0, 1, 2, 3], vec![1, 2]));
    let nested = endpoint.statements()[1].nested.as_ref().unwrap();
    let on = [("author_id".to_owned(), "id".to_owned()), ("a b".to_owned(), "c".to_owned())];
    assert_eq!((nested.parent, &nested.on[..], nested.offset), (0, &on[..], 33));
}

#[test]
fn endpoints_of_few_words() {
    let bare = endpoint("endpoints/a.sql", "select 1");
    assert_eq!((bare.path.as_str(), bare.body.len(), bare.not_found()), ("/a", 1, false));
    assert_eq!((bare.response.compression, bare.response.timeout), (Compression::Auto, Timeout::default()));
    let comment = endpoint("endpoints/a.sql", "-- not /* toml\nselect 1");
    assert_eq!(comment.path, "/a");
    let one = endpoint("endpoints/a.sql", "/* result = \"one\" */ select 1");
    assert_eq!((one.not_found(), one.statements()[0].cardinality), (true, Cardinality::One));
    let named = endpoint("endpoints/a.sql", "-- name: author :one\nselect 1");
    assert_eq!((named.not_found(), &named.body[..]), (false, &[Piece::Rows(0)][..]));
    let two = endpoint(
        "endpoints/a.sql",
        "/* body = [\"$a\", \"$b\"] */\n-- name: a :many\nselect 1;\n-- name: b :many\nselect 1",
    );
    assert_eq!((two.rows_statement(), &two.formats[..]), (None, &[Format::Json][..]));
}

#[test]
fn sql_within_toml() {
    let verbatim = endpoint("endpoints/a.toml", "path = \"/b\"\nsql = '''\nselect 1\nfrom a\n'''\n");
    assert_eq!(verbatim.path, "/b");
    assert_eq!(verbatim.statements()[0].origin.place(9), (4, 1));
    let escaped = endpoint("endpoints/a.toml", "\nsql = \"select\\n1\"\n");
    assert_eq!(&*escaped.statements()[0].query.sql, "select\n1");
    assert_eq!(
        (escaped.statements()[0].origin.place(0), escaped.statements()[0].origin.place(7)),
        ((2, 7), (2, 7))
    );
}

#[test]
fn what_becomes_of_slow_clients() {
    let endpoints = [
        ("endpoints/a.sql", "select 1"),
        ("endpoints/b.sql", "/* slow_clients = \"hold\" */ select 1"),
        ("endpoints/c.sql", "/* slow_clients = { min_rate = \"64KB/s\" } */ select 1"),
    ];
    let settings = "slow_clients = \"spill\"\nspool_limit = \"2GiB\"\nspool_quota = \"20GiB\"\n";
    let config = Folder::new(&format!("{settings}{POSTGRES}"), &endpoints).loaded();
    let policies: Vec<_> = config.endpoints.iter().map(|endpoint| endpoint.response.slow_clients).collect();
    assert_eq!(policies, [SlowClients::Spill, SlowClients::Hold, SlowClients::MinRate(64_000)]);
    assert_eq!((config.limits.spooling.limit, config.limits.spooling.quota), (2 << 30, 20 << 30));
    assert_eq!(endpoint("endpoints/a.sql", "select 1").response.slow_clients, SlowClients::Hold);
    let alias = endpoint("endpoints/a.sql", "/* slow_clients = { shed = \"64KB/s\" } */ select 1");
    assert_eq!(alias.response.slow_clients, SlowClients::MinRate(64_000));
    for (value, report) in [
        (
            "\"drop\"",
            "1:19: `slow_clients` cannot be `drop`\n    hint: write \"hold\", \"spill\" or { min_rate = \"64KB/s\" }",
        ),
        ("true", "1:19: `slow_clients` must be a table, not a boolean"),
        (
            "{ }",
            "1:19: `min_rate` is missing in `slow_clients`\n    hint: write \"hold\", \"spill\" or { min_rate = \"64KB/s\" }",
        ),
        (
            "{ min_rate = \"64KB\" }",
            "1:32: `64KB` is not a rate\n    hint: write bytes a second, such as \"64KB/s\"",
        ),
        (
            "{ shed = \"0/s\" }",
            "1:28: `0/s` is not a rate\n    hint: write bytes a second, such as \"64KB/s\"",
        ),
        (
            "{ shed = \"64KB/s\", min_rate = \"64KB/s\" }",
            "1:49: `min_rate` can't be combined with `shed`, which means the same\n    hint: remove `shed`",
        ),
    ] {
        let text = format!("/* slow_clients = {value} */ select 1");
        assert_eq!(errors("endpoints/a.sql", &text), report);
    }
    let settings = "spool_limit = \"10GiB\"\n";
    let report = Folder::new(&format!("{settings}{POSTGRES}"), &endpoints[..1]).report();
    assert_eq!(
        report,
        "rowstream.toml:1:15: `spool_limit` lets one result take 10737418240 bytes, and `spool_quota` all of them 8589934592\n    hint: raise `spool_quota`, or lower `spool_limit`"
    );
}

#[test]
fn memory_that_holds_no_stream() {
    let load = |settings: &str, source: &str| {
        let configuration = format!("{settings}\n{POSTGRES}{source}");
        Folder::new(&configuration, &[("endpoints/a.sql", "select 1")])
            .load()
            .map(|config| config.limits.memory)
    };
    assert_eq!(
        load("memory = \"64MB\"\nmax_connections = 100", "max_row_bytes = \"64KiB\""),
        Ok(Some(64_000_000))
    );
    // The documented defaults with a documented `memory` used to be refused.
    for memory in ["64MB", "256MB", "1GB"] {
        assert!(load(&format!("memory = \"{memory}\""), "").is_ok(), "{memory}");
    }
    let settings = "memory = \"64MB\"\nmax_connections = 1000";
    let report = load(settings, "max_row_bytes = \"16MiB\"").unwrap_err();
    assert!(
        report.starts_with("rowstream.toml:1:10: `memory` has no room for a stream of /a, which may take "),
        "{report}"
    );
    assert!(report.contains(" 1000 connections "), "{report}");
    // Each suggested solution works.
    let (_, ways) = report.split_once("hint: write ").expect("a hint");
    let ways: Vec<_> = ways.split('`').skip(1).step_by(2).filter(|way| way.contains(" = ")).collect();
    let [memory, row] = ways[..] else { panic!("{report}") };
    assert!(
        load(&format!("{memory}\nmax_connections = 1000"), "max_row_bytes = \"16MiB\"").is_ok(),
        "{memory}"
    );
    assert!(load(settings, row).is_ok(), "{row}");
    // With one MB less, it wouldn't.
    let lower = memory.replace("memory = \"", "").replace("MB\"", "").parse::<u32>().expect("a number") - 1;
    let lower = format!("memory = \"{lower}MB\"\nmax_connections = 1000");
    assert!(load(&lower, "max_row_bytes = \"16MiB\"").is_err());
}

#[test]
fn defaults_fit_into_the_memory() {
    let limits = |settings: &str, source: &str| {
        let configuration = format!("{settings}\n{POSTGRES}{source}");
        let config = Folder::new(&configuration, &[("endpoints/a.sql", "select 1")]).load().expect("it fits");
        let room = rowstream::config::memory::for_streams(&config).unwrap_or(usize::MAX);
        let budget = rowstream::config::memory::largest_budget(&config.endpoints[0], &config.sources[0]);
        (config.limits.max_connections, config.sources[0].max_row_bytes >> 10, room / budget)
    };
    let (connections, row, _) = limits("", "");
    assert_eq!((connections, row), (4096, 16 << 10));
    for memory in ["128MB", "256MB", "1GB", "4GB"] {
        let (connections, row, streams) = limits(&format!("memory = \"{memory}\""), "");
        assert!(
            streams >= 8 && (64..16 << 10).contains(&row) && connections >= 64,
            "{memory}: {streams} {row}"
        );
    }
    assert_eq!(limits("memory = \"1TB\"".replace("TB", "000GB").as_str(), "").1, 16 << 10);
    // Explicit settings stay unchanged.
    let (connections, row, streams) =
        limits("memory = \"1GB\"\nmax_connections = 4096", "max_row_bytes = \"16MiB\"");
    assert_eq!((connections, row, streams), (4096, 16 << 10, 1));
}

#[test]
fn batches_have_a_size_where_there_are_batches() {
    let folder = |url: &str, bytes: &str| {
        let config = format!("[source.main]\nurl = {url:?}\nfetch_bytes = {bytes}\n");
        Folder::new(&config, &[("endpoints/a.sql", "select 1")])
    };
    let drivers: &[&str] =
        if cfg!(feature = "odbc") { &["duckdb:", "adbc:x", "odbc:DSN=x"] } else { &["duckdb:", "adbc:x"] };
    for url in drivers {
        for (bytes, expected) in [("4096", 4096), ("\"64MiB\"", 64 << 20)] {
            assert_eq!(folder(url, bytes).loaded().sources[0].fetch_bytes, expected, "{url}: {bytes}");
        }
        for bytes in ["4095", "\"65MiB\""] {
            let report = folder(url, bytes).report();
            assert!(report.contains("`fetch_bytes` is between 4KiB and 64MiB"), "{url}: {report}");
            assert!(report.contains("hint: write `fetch_bytes = \"1MiB\"`"), "{url}: {report}");
        }
    }
    for url in ["postgres://h/d", "mysql://h/d", "sqlite:main.db"] {
        let report = folder(url, "\"1MiB\"").report();
        assert!(report.contains("`fetch_bytes` is for ADBC"), "{url}: {report}");
        assert!(report.contains("hint: leave it out"), "{url}: {report}");
    }
}

#[test]
fn a_command_writes_the_password_of_a_server() {
    let folder = |url: &str, command: &str| {
        let config = format!("[source.main]\nurl = {url:?}\npassword_command = {command}\n");
        Folder::new(&config, &[("endpoints/a.sql", "select 1")])
    };
    for url in ["postgres://h/d", "mysql://h/d", "mariadb://h/d", "flightsql://h"] {
        let folder = folder(url, r#"["./token.sh", "./a b"]"#);
        let [program, argument] = &folder.loaded().sources[0].password_command[..] else {
            panic!("it has two words")
        };
        assert!(program.ends_with("/./token.sh") && program.len() > "/./token.sh".len(), "{program}");
        assert_eq!(argument, "./a b");
    }
    for url in ["sqlite:main.db", "duckdb:"] {
        let report = folder(url, r#"["pass"]"#).report();
        assert!(report.contains("`password_command` is for PostgreSQL, MySQL"), "{url}: {report}");
    }
    for command in ["[]", "[\"\"]"] {
        let report = folder("postgres://h/d", command).report();
        assert!(report.contains("`password_command` names no program"), "{report}");
    }
    assert!(folder("postgres://h/d", "\"pass\"").report().contains("must be a list"));
    assert!(folder("http://h", "[\"pass\"]").report().contains("`password_command` is for databases"));
}

#[test]
fn all_faults_of_all_files_at_once() {
    let folder = Folder::new(
        r#"lisen = "127.0.0.1:80"
max_streams = 0
drain_timeout = "5 parsecs"
trusted_proxies = ["10.0.0.0/33"]
client_header = "via"
timeout = { first = "1s", total = 5 }
[source.shop]
url = "${SHOP_ULR}"
pool = { max = "20", idle_timout = "10m" }
[source.cache]
url = "redis-hunter2://h"
max_row_bytes = "1.5MB"
create = ["x.sql"]
[source.local]
url = "sqlite:local.db"
create = ["missing.sql"]
[token.reader]
sha256 = "hunter2"
[cors]
origins = ["https://example.org/"]
"#,
        &[
            (
                "endpoints/a.sql",
                "/*\nsource = \"local\"\nformats = [\"json\", \"cvs\"]\nauthorization = [\"raeder\"]\n[params]\nid = \"intger\"\nlimit = { type = \"integer\", default = 0, min = 1 }\n*/\nselect :id, :limt\n",
            ),
            ("endpoints/b/{id}.sql", "/* source = \"lokal\" */ select 1"),
            ("endpoints/b/{x}.sql", "select 'ä', $1"),
            ("endpoints/c.sql", "/*\nä = 'ö', ü\nx = \n*/ select"),
            ("endpoints/d.sql", "/* authorization = \"public\""),
            ("endpoints/e.sql", "/*authorization=\"public\"\nsource=\"local\"*/ select 'ä', $1"),
            ("endpoints/f.toml", "authorization = [\"reader\"]\nsource = \"local\"\n"),
        ],
    );
    folder.write("endpoints/g.sql", b"select '\xc3\xa4\n \xff'");
    let report = folder.report();
    assert_eq!(report, include_str!("config-errors.txt").trim_end(), "the report was:\n{report}\n");
}

#[test]
fn idle_connections_have_a_time_within_bounds() {
    for (time, fault) in [
        ("500ms", Some("`idle_timeout` must be from one second to one day")),
        ("25h", Some("`idle_timeout` must be from one second to one day")),
        ("0s", Some("is not a positive duration")),
        ("1s", None),
        ("1d", None),
    ] {
        let config = format!("idle_timeout = \"{time}\"\n{SQLITE}");
        let folder = Folder::new(&config, &[("endpoints/a.sql", "select 1")]);
        match fault {
            Some(fault) => assert!(folder.report().contains(fault), "{time}: {}", folder.report()),
            None => drop(folder.loaded()),
        }
    }
}

#[test]
fn faults_of_endpoints() {
    for (text, expected) in [
        ("", "1:1: there is no statement here"),
        ("/**/", "1:5: there is no statement here"),
        ("/* */ -- name: a :many\n", "1:23: there is no statement here"),
        (
            "select 1; select 2",
            "1:11: there are two statements, but one is expected\n    hint: give each a name in a line of \
             its own before it: `-- name: NAME :many`, `:one` or `:value`",
        ),
        (
            "select 1;\n-- name: a :many\nselect 2",
            "1:1: this statement has no name, but others in the file have\n    hint: put a line `-- name: NAME :many`, `:one` or `:value` before it",
        ),
        (
            "/*body=[\"$a\"]*/\n-- name: a :many\nselect 1;\n-- name: a :many\nselect 2",
            "4:1: two statements are named `a`\n    hint: the first is on line 2: rename one of them",
        ),
        (
            "/*body=[\"$a\"]*/\n-- name: o :refcursors\nselect f();\n-- name: a :many from o\nselect 1",
            "5:1: there is SQL below a statement that reads a refcursor of `o`\n    hint: remove it, or the words `from o`",
        ),
        (
            "/*body=[\"$a\"]*/\n-- name: open :refcursors\nselect f();\n-- name: a :many from opened\n",
            "2:1: no statement reads the refcursors of `open`\n    hint: write `-- name: NAME :many from \
             open`, NAME a column of its row",
        ),
        (
            "-- name: a :many from opened",
            "1:1: no statement `opened` opens refcursors\n    hint: write `-- name: opened :refcursors` \
             before the statement that does",
        ),
        (
            "/*body=[\"$o\", \"$a\"]*/\n-- name: o :refcursors\nselect f();\n-- name: a :many from o\n",
            "1:9: `o` opens refcursors and has no rows of its own\n    hint: use the statements that read \
             them, such as `\"$a\"`",
        ),
        (
            "-- name: o :refcursors\nselect f(:nothing);\n-- name: x :one from o\n",
            "2:10: the parameter `:nothing` is not declared\n    hint: declare it below `[params]`: `nothing = \"integer\"`, or another type",
        ),
        (
            "/*body=[\"$rows\",\n\"$row\"]*/ select 1",
            "2:1: no statement is named `row`\n    hint: did you mean `rows`? (write `$$row` for the text \
             itself)",
        ),
        (
            "/*body=[\"$rows\", \"$rows\"]*/ select 1",
            "1:9: the body has `$rows` twice\n    hint: a statement runs once: write a second one with its \
             own name",
        ),
        (
            "/*body={a=1}*/ select 1",
            "1:8: the body doesn't use the statement `rows`\n    hint: add `\"$rows\"` to the body, or \
             remove the statement",
        ),
        (
            "/*result=\"some\"*/ select 1",
            "1:10: `result` cannot be `some`\n    hint: write \"many\", \"one\" or \"value\"",
        ),
        (
            "/*result=\"one\"*/\n-- name: a :one\nselect 1",
            "1:10: `result` is for a statement without a name\n    hint: write it after the name: `-- name: \
             NAME :one`",
        ),
        (
            "/*compression=\"yes\"*/ select 1",
            "1:15: `compression` cannot be `yes`\n    hint: write \"auto\", \"on\" or \"off\"",
        ),
        (
            "/*csv={separator=\".\"}*/ select 1",
            "1:18: `separator` cannot be `.`\n    hint: write one of \",\", \";\", \"|\" and \"\\t\"",
        ),
        (
            "/*csv={quote=\"some\"}*/ select 1",
            "1:14: `quote` cannot be `some`\n    hint: write \"needed\" or \"all\"",
        ),
        (
            "/*csv={null=\"a,b\"}*/ select 1",
            "1:13: `null` cannot be `a,b`\n    hint: leave out quotes, separators and line breaks: NULL is never quoted",
        ),
        (
            "/*csv={heder=true}*/ select 1",
            "1:8: unknown key `heder` in [csv]\n    hint: did you mean `header`?",
        ),
        (
            "/*values={numbers=\"text\"}*/ select 1",
            "1:19: `numbers` cannot be `text`\n    hint: write \"number\" or \"string\"",
        ),
        (
            "/*[values]\nbytes=\"base32\"\nintervals=\"8601\"\nnulls=\"none\"*/ select 1",
            "2:7: `bytes` cannot be `base32`\n    hint: write \"hex\" or \"base64\"\n3:11: `intervals` cannot be `8601`\n    hint: write \"text\" or \"iso\"\n4:7: `nulls` cannot be `none`\n    hint: write \"null\" or \"omit\"",
        ),
        (
            "/*values={null=\"omit\"}*/ select 1",
            "1:11: unknown key `null` in [values]\n    hint: did you mean `nulls`?",
        ),
        ("/*formats=[]*/ select 1", "1:11: `formats` is empty\n    hint: leave it out to offer all"),
        (
            "/*formats=[\"ndjson\"]\nbody=[\"$a\",\"$b\"]*/\n-- name: a :many\nselect 1;\n-- name: b :many\nselect 1",
            "1:12: `ndjson` holds the rows of one list, but this endpoint has several",
        ),
        (
            "-- name: a :many\nselect 1;\n-- name: b :many nested in c on x = y\nselect 2;\n-- name: d :many nested in d on x = y\nselect 3",
            "3:1: `b` is nested in `c`, and no statement above has this name\n    hint: those above are `a`\n5:1: `d` is nested in `d`, and no statement above has this name\n    hint: those above are `a`, `b`",
        ),
        (
            "-- name: a :many\nselect 1;\n-- name: b :one nested in a on x = y\nselect 2",
            "3:1: `b` is nested in `a`, but isn't a list\n    hint: write `:many`",
        ),
        (
            "-- name: a :value\nselect 1;\n-- name: b :many nested in a on x = y\nselect 2",
            "3:1: `b` is nested in `a`, which has no rows\n    hint: nest it in a `:many` or a `:one`",
        ),
        (
            "-- name: a :many\nselect 1;\n-- name: b :many nested in a\nselect 2",
            "3:1: a line that begins with `-- name:` names a statement, but this one can't be read\n    \
             hint: write `-- name: NAME :many nested in PARENT on COLUMN = COLUMN`: its own column, then \
             that of PARENT, and further pairs after `and`",
        ),
        (
            "/*body=[\"$a\", \"$b\"]*/\n-- name: a :many\nselect 1;\n-- name: b :many nested in a on x = y\nselect 2",
            "1:15: `b` is already nested in the rows of `a`\n    hint: remove it from the body",
        ),
        (
            "/*formats=[\"json\", \"csv\"]*/\n-- name: a :many\nselect 1;\n-- name: b :many nested in a on x = y\nselect 2",
            "1:20: `csv` can't hold lists within rows, but this endpoint nests statements",
        ),
        (
            "/*body=[\"$a\"]*/\n-- name: a :many\nselect 1;\n-- name: count :many\nselect 2",
            "4:1: no statement can be named `count`: `$count` is reserved\n    hint: rename it",
        ),
        (
            "/*body=[\"$rows\", \"$next\"]*/ select 1",
            "1:18: `$next` is a cursor, but this endpoint has no `key`\n    hint: name its columns: `key = \
             [\"…\"]`",
        ),
        (
            "/*body={n=\"$count\", rows=\"$rows\"}*/ select 1",
            "1:11: `$count` precedes the rows that it counts\n    hint: put it after `\"$rows\"`: the number \
             of rows is known only at their end",
        ),
        (
            "/*body=[\"$count(b)\", \"$a\"]*/\n-- name: a :many\nselect 1;\n-- name: b :many nested in a on x = y\nselect 2",
            "1:9: `$count(b)` precedes the rows that it counts\n    hint: put it after `\"$a\"`: the number \
             of rows is known only at their end",
        ),
        (
            "/*body=[\"$a\", \"$b\", \"$count\"]*/\n-- name: a :many\nselect 1;\n-- name: b :many\nselect 2",
            "1:21: `$count` doesn't name the list that it counts\n    hint: write `$count(a)`",
        ),
        (
            "/*body=[\"$a\", \"$count\"]*/\n-- name: a :one\nselect 1",
            "1:15: `$count` counts the rows of a list, but the body has no list\n    hint: remove it",
        ),
        (
            "/*body={d=\"$digest\", rows=\"$rows\"}*/ select 1",
            "1:11: `$digest` precedes rows\n    hint: put it after all rows: it covers the bytes before it",
        ),
        (
            "/*body=[\"$a\", \"$count(b)\"]*/\n-- name: a :many\nselect 1",
            "1:15: `$count(b)` names something other than a list\n    hint: the lists are `a`",
        ),
        (
            "/*path=\"/{id}\"*/ select :id",
            "1:8: the parameter `{id}` of the path is not declared\n    hint: declare it below `[params]`: `id = \"integer\"`, or another type",
        ),
        (
            "/*path=\"/_rowstream/x\"*/ select 1",
            "1:8: the path `/_rowstream/x` is the server's own\n    hint: choose a path that isn't below \
             `/_rowstream`",
        ),
        (
            "/*[params]\na=\"text\"\n*/ select 1",
            "2:1: no statement uses the parameter `a`\n    hint: use `:a` in a statement, or remove the parameter",
        ),
        (
            "/*[params]\n_a=\"text\"\n*/ select :_a",
            "2:1: the name `_a` begins with an underscore\n    hint: names that begin with an underscore are reserved \
             for the server (`_format`): rename it",
        ),
        (
            "/*[params]\na={type=\"text\",min=\"a\"}\n*/ select :a",
            "2:20: `min` of `a` has no meaning for the type `text`\n    hint: only `integer` and `number` have bounds",
        ),
        (
            "/*[params]\na={type=\"timestamp\",local=true}\n*/ select :a",
            "2:27: `local` of `a` has no meaning for the type `timestamp`\n    hint: only a `text` can be a date and time \
             without an offset",
        ),
        (
            "/*[params]\na={type=\"integer\",min=2,max=1}\n*/ select :a",
            "2:29: `max` of `a` is less than its `min`",
        ),
        (
            "/*[params]\na={type=\"integer\",enum=[1,\"x\"],default=3}\n*/ select :a",
            "2:27: `enum` of `a`: `x` is not an integer\n2:40: `default` of `a`: `3` is not one of `1`",
        ),
        (
            "/*[params]\na={type=\"integer\",default=1,optional=true}\n*/ select :a",
            "2:38: `a` has a default, so it's already optional\n    hint: leave out one of the two: \
             `optional` makes it NULL",
        ),
        (
            "/*[params]\na={type=\"integer[]\",default=1}\n*/ select :a",
            "2:29: `default` must be a list, not an integer",
        ),
        (
            "/*[params]\na={default=1}\n*/ select :a",
            "2:3: `type` is missing in the parameter `a`\n    hint: the types are `integer`, `number`, `text`, `boolean`, `date`, `timestamp`, `duration`, `uuid`, `json`, each also as a list: `integer[]`",
        ),
        (
            "/*[params]\na={type=\"text\",in=\"cookie\"}\n*/ select :a",
            "2:19: a parameter cannot be in `cookie`\n    hint: write `in = \"query\"` or `in = \"header\"`",
        ),
        (
            "/*[params]\na={type=\"text\",header=\"x y\"}\n*/ select :a",
            "2:23: `x y` cannot be the name of a header",
        ),
        (
            "/*path=\"/{a}\"\n[params]\na={type=\"text\",default=\"\",in=\"query\"}\n*/ select :a",
            "3:24: `a` is in the path, so it's never missing\n    hint: leave out `default` and \
             `optional`\n3:30: the path already has `{a}`\n    hint: leave this out",
        ),
        (
            "/*sumary=\"x\"*/ select 1",
            "1:3: unknown key `sumary` in this file\n    hint: did you mean `summary`?",
        ),
        (
            "/* Lists all authors. */ select 1",
            "1:10: key with no value, expected `=`\n    hint: the first comment of an endpoint file is TOML: write other words with `--`",
        ),
        ("/*body=[nan]*/ select 1", "1:8: `nan` of `body` cannot be written as a JSON number"),
        (
            "/*authorization=\"nobody\"*/ select 1",
            "1:17: `authorization` cannot be `nobody`\n    hint: write \"public\", or a list of token names",
        ),
    ] {
        assert_eq!(errors("endpoints/a.sql", text), expected, "{text}");
    }
    assert_eq!(
        errors("endpoints/a.sql", "/*body=[\"$rows\", {a = \"$5\"}]*/ select 1"),
        "1:23: this text begins with a dollar, but doesn't name a statement\n    hint: write `$name` for a statement's rows, or `$$` for a dollar"
    );
}

#[test]
fn sqlite_has_no_refcursors() {
    let text = "-- name: o :refcursors\nselect 1;\n-- name: x :one from o\n";
    assert_eq!(
        Folder::new(SQLITE, &[("endpoints/a.sql", text)]).report(),
        "endpoints/a.sql:1:1: SQLite has no refcursors\n    hint: only PostgreSQL has them: write a \
         statement for each list"
    );
}

#[test]
fn following_is_read() {
    let follow = |configuration: &str, text: &str| {
        let text = format!("/*key=[\"t\", \"id\"]\n{text}*/ select 1 as t, 2 as id");
        let mut config = Folder::new(configuration, &[("endpoints/a.sql", &text)]).loaded();
        config.endpoints.remove(0).follow().cloned()
    };
    let every =
        |poll| Some(FollowSettings { transaction: None, channel: None, poll: Duration::from_millis(poll) });
    assert_eq!(follow(SQLITE, "follow=true"), every(1000));
    assert_eq!(follow(SQLITE, "follow=false"), None);
    assert_eq!(follow(SQLITE, ""), None);
    assert_eq!(follow(SQLITE, "follow={poll=\"5ms\", commits=\"ordered\"}"), every(5));
    assert_eq!(follow(POSTGRES, "follow={commits=\"ordered\"}"), every(1000));
    assert_eq!(
        follow(POSTGRES, "follow={transaction=\"t\", channel=\"c\"}"),
        Some(FollowSettings {
            transaction: Some("t".to_owned()),
            channel: Some("c".to_owned()),
            poll: Duration::from_secs(30)
        })
    );
}

#[test]
fn faults_of_following() {
    for (configuration, text, expected) in [
        (
            SQLITE,
            "follow=true",
            "1:10: `follow` needs a `key`, but this endpoint has none\n    hint: name its columns: `key = \
             [\"…\"]`",
        ),
        (SQLITE, "follow=1\nkey=[\"id\"]", "1:10: `follow` must be a table, not an integer"),
        (
            POSTGRES,
            "follow=true\nkey=[\"id\"]",
            "1:10: PostgreSQL's transactions commit in any order, so a row could become visible after the key of one that was sent\n    hint: name the column of type xid8 that holds each row's transaction, `follow = { transaction = \"…\" }`, or promise that rows become visible in the order of their keys: `follow = { commits = \"ordered\" }`",
        ),
        (
            POSTGRES,
            "key=[\"id\", \"t\"]\nfollow={transaction=\"t\"}",
            "1:7: the column of `follow.transaction` is not the first of the `key`\n    hint: rows are sent \
             in the order of their transactions: `key = [\"the transaction\", \"…\"]`",
        ),
        (
            POSTGRES,
            "key=[\"t desc\"]\nfollow={transaction=\"t\"}",
            "1:7: the column of `follow.transaction` is not the first of the `key`\n    hint: rows are sent \
             in the order of their transactions: `key = [\"the transaction\", \"…\"]`",
        ),
        (
            SQLITE,
            "key=[\"t\"]\nfollow={transaction=\"t\"}",
            "2:8: `transaction` is for PostgreSQL\n    hint: SQLite commits in order: write `follow = true`",
        ),
        (
            SQLITE,
            "key=[\"t\"]\nfollow={channel=\"c\"}",
            "2:8: `channel` is for PostgreSQL\n    hint: SQLite sends no notifications: we query it every \
             `poll`",
        ),
        (
            SQLITE,
            "key=[\"t\"]\nfollow={commits=\"any\", every=\"1s\"}",
            "2:17: `commits` cannot be `any`\n    hint: write \"ordered\", or leave it out\n2:24: unknown key `every` in `follow`\n    hint: the keys here are `commits`, `transaction`, `channel`, `poll`",
        ),
    ] {
        let report =
            Folder::new(configuration, &[("endpoints/a.sql", &format!("/*{text}*/ select 1 as id, 2 as t"))])
                .report();
        assert_eq!(report.replace("endpoints/a.sql:", ""), expected, "{text}");
    }
}

#[test]
fn faults_of_the_configuration() {
    let endpoint: &[(&str, &str)] = &[("endpoints/a.sql", "select 1")];
    for (text, files, expected) in [
        (
            "",
            endpoint,
            "1:1: the configuration has no source\n    hint: add `[source.main]` with `url = \"postgres://…\"` or `url = \"sqlite:…\"`",
        ),
        (
            SQLITE,
            &[][..],
            "1:1: there is no folder `endpoints` beside this file\n    hint: it holds the endpoint files; name it with `endpoints = \"FOLDER\"`",
        ),
        (
            SQLITE,
            &[("endpoints/x.txt", "")][..],
            "1:1: the folder `endpoints` has no endpoints\n    hint: write one: `endpoints/NAME.sql` \
             answers at `/NAME`",
        ),
        (
            "[source.a]\nurl = \"sqlite::memory:\"",
            endpoint,
            "2:7: a database in memory is not shared by the connections of a pool\n    hint: write `sqlite:file.db`",
        ),
        (
            "[source.a]\nurl = \"${BAD}\"",
            endpoint,
            "2:7: this URL has no scheme\n    hint: write one of `postgres`, `postgresql`, `sqlite`, `mysql`, `mariadb`, `adbc`, `duckdb`, `odbc`, `flightsql`, `flightsql+tls`, `http`, `https` and a colon before it",
        ),
        (
            "[source.a]\nurl = \"oracle://h\"",
            endpoint,
            "2:7: the scheme `oracle` isn't known\n    hint: the schemes are `postgres`, `postgresql`, \
             `sqlite`, `mysql`, `mariadb`, `adbc`, `duckdb`, `odbc`, `flightsql`, `flightsql+tls`, `http`, \
             `https`",
        ),
        (
            "listen = \"${BAD}\"\n[source.a]\nurl = \"sqlite:x\"",
            endpoint,
            "1:10: the value isn't an address to listen on\n    hint: write host and port: \
             \"127.0.0.1:8080\", \"[::]:80\"; or a file: \"unix:/run/rowstream/http.sock\"",
        ),
        (
            "[source.a]\nurl = \"postgres://h\"\nrole_claim = \"role\"",
            endpoint,
            "3:14: without `[jwt]`, no request has a claim that names its role\n    hint: add `[jwt]` with \
             `issuer` and `audience`",
        ),
        ("[source.a]\nurl = \"postgres://h\"\ncreate = [\"a\"]", endpoint, "3:11: there is no file `a`"),
        ("[source]\na = 1", endpoint, "2:5: `a` must be a table, not an integer"),
    ] {
        let report = Folder::new(text, files).report().replace("rowstream.toml:", "");
        assert_eq!(report, expected, "{text}");
    }
}

#[test]
fn faults_of_tokens() {
    for (token, expected) in [
        ("sha256 = []", "2:10: `sha256` has no hash\n    hint: `rowstream token` makes"),
        ("sha256 = [\"hunter2\"]", "2:11: `sha256` must be 64 hexadecimal digits\n"),
        (
            "expires = \"2027-13-01\"",
            "2:11: `expires` cannot be `2027-13-01`\n    hint: write a day or an instant",
        ),
        ("expires = \"2027-01-01T00:00\"", "2:11: `expires` cannot be `2027-01-01T00:00`\n"),
        (
            "expire = \"2027-01-01\"",
            "2:1: unknown key `expire` in [token.a]\n    hint: did you mean `expires`?",
        ),
        ("scopes = \"orders\"", "2:10: `scopes` must be a list"),
    ] {
        let report = Folder::new(&format!("[token.a]\n{token}\n{SQLITE}"), &[]).report();
        let found =
            report.lines().collect::<Vec<_>>().join("\n").contains(&format!("rowstream.toml:{expected}"));
        assert!(found, "{token}: {report}");
    }
}

#[test]
fn endpoints_must_say_who_may_call_them_once_there_are_tokens() {
    let token = format!("{SQLITE}[token.a]\nsha256 = \"{}\"\n", "0".repeat(64));
    let open = [("endpoints/a.sql", "select 1")];
    let hint = "    hint: because tokens are configured, write `authorization = \"public\"` or a list of \
        token names, here or in the configuration file for all endpoints";
    assert_eq!(
        Folder::new(&token, &open).report(),
        format!("endpoints/a.sql:1:1: this endpoint does not say who may call it\n{hint}")
    );
    for (text, expected) in [
        (format!("authorization = \"public\"\n{token}"), Authorization::Public),
        (format!("authorization = [\"a\"]\n{token}"), Authorization::Tokens(vec!["a".into()])),
        (SQLITE.to_owned(), Authorization::Public),
    ] {
        assert_eq!(Folder::new(&text, &open).loaded().endpoints[0].authorization, expected);
    }
    let report = Folder::new(&format!("authorization = [\"${{BAD}}\"]\n{token}"), &open).report();
    assert_eq!(
        report,
        "rowstream.toml:1:18: the value is not the name of a token\n    hint: the tokens are `a`"
    );
    let report = Folder::new(&format!("authorization = []\n{token}"), &open).report();
    assert!(report.starts_with("rowstream.toml:1:17: `authorization` is empty"), "{report}");
}

#[test]
fn endpoints_of_one_path_are_faults() {
    let files = [
        ("endpoints/a.sql", "select 1"),
        ("endpoints/a/index.sql", "select 1"),
        ("endpoints/b/{x}.sql", "/*[params]\nx=\"text\"*/ select :x"),
        ("endpoints/c.sql", "/*path=\"/b/{y}\"\n[params]\ny=\"text\"*/ select :y"),
    ];
    let report = Folder::new(SQLITE, &files).report();
    assert_eq!(
        report,
        "endpoints/a.sql:1:1: the path `/a` is taken by endpoints/a/index.sql (`/a`)\n    hint: give one of them another path: `path = \"/…\"`\n\
         endpoints/c.sql:1:1: the path `/b/{y}` is taken by endpoints/b/{x}.sql (`/b/{x}`)\n    hint: give one of them another path: `path = \"/…\"`"
    );
}

#[test]
fn a_file_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let report = Config::load(&folder.path().join("none.toml")).unwrap_err().to_string();
    assert!(report.ends_with("none.toml:1:1: the file doesn't exist"), "{report}");
    let report = Config::load(folder.path()).unwrap_err().to_string();
    assert!(report.ends_with(":1:1: this is a folder, not a file"), "{report}");
    assert!(Config::load(Path::new("")).is_err());
}

#[test]
fn one_statement_without_a_file() {
    let text =
        |name: &str| Argument { name: name.to_owned(), kind: Some((ParamType::Text, false)), value: None };
    let typed = [text("a"), text("b")];
    let config = Config::single_with(
        "sqlite:shop.db",
        Path::new("--sql"),
        "select :a, :b, :a",
        Purpose::Serve,
        &typed,
    )
    .unwrap();
    assert_eq!(
        (config.sources[0].name.as_str(), config.sources[0].url.as_str()),
        ("database", "sqlite:shop.db")
    );
    let endpoint = &config.endpoints[0];
    assert_eq!(
        (endpoint.path.as_str(), &*endpoint.statements()[0].query.sql),
        ("/rows", "select ?1, ?2, ?1")
    );
    assert_eq!((&endpoint.formats[..], &endpoint.statements()[0].args[..]), (DATA, &[0, 1][..]));
    let none: [(&str, &str); 0] = [];
    let bound = bind(&endpoint.params, &none, Some("a=1&b=x"), &HeaderMap::new()).unwrap();
    assert_eq!(bound.values, [ParamValue::Text("1".into()), ParamValue::Text("x".into())]);
    assert!(bind(&endpoint.params, &none, None, &HeaderMap::new()).is_err());

    for (url, sql, expected) in [
        (
            "postgres://h",
            "select 'a",
            "--sql:1:8: this quoted string has no end\n    hint: close it with `'`",
        ),
        (
            "postgres://h",
            "select\n $1",
            "--sql:2:2: the placeholder `$1` has no name\n    hint: parameters are written `:name`, and declared in `[params]`",
        ),
        (
            "postgres://h",
            "\u{feff}select :_a",
            "--sql:1:8: the name `_a` begins with an underscore\n    hint: names that begin with an underscore are \
             reserved for the server (`_format`): rename it",
        ),
        (
            "postgres://h",
            "select :_a",
            "--sql:1:8: the name `_a` begins with an underscore\n    hint: names that begin with an underscore are \
             reserved for the server (`_format`): rename it",
        ),
        (
            "shop.db",
            "select 1",
            "URL: there is no file `shop.db`, and a URL begins with its scheme\n    hint: write `postgres://user@host/database`, `sqlite:FILE` or the path of a SQLite file",
        ),
    ] {
        assert_eq!(Config::single(url, sql).unwrap_err().to_string(), expected);
    }
}

#[test]
fn what_is_loaded_can_be_routed() {
    let files = [
        ("endpoints/index.sql", "select 1"),
        ("endpoints/authors/index.sql", "select 1"),
        ("endpoints/authors/{id}.sql", "/*[params]\nid=\"integer\"*/ select :id"),
    ];
    let config = Folder::new(SQLITE, &files).loaded();
    let router = Router::new(config.endpoints.iter().map(Endpoint::route)).unwrap();
    for (path, expected) in [("/", "/"), ("/authors.ndjson", "/authors"), ("/authors/5", "/authors/{id}")] {
        let found = router.find(path).unwrap().unwrap();
        assert_eq!(config.endpoints[found.endpoint].path, expected);
    }
    let found = router.find("/authors/5.json").unwrap().unwrap();
    let bound = bind(&config.endpoints[found.endpoint].params, &found.args, None, &HeaderMap::new()).unwrap();
    assert_eq!((bound.values, found.suffix), (vec![ParamValue::Integer(5)], Suffix::Format(Format::Json)));
}
