//! `rowstream check` and the start of `serve` compute the capacity of endpoints and report
//! contradictory limits. Each warning says what happens and which key to change. There are no false
//! warnings.

use std::path::Path;
use std::process::Command;

use crate::delegate;
use crate::support::upstream::{Speaks, Upstream, reply};
use crate::support::{Server, TestDb, program, rowstream};
use crate::worked;

/// The standard output and the warnings of `check` for these files, which have no errors.
async fn check(files: &[(&str, &str)]) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let config = folder.path().join("rowstream.toml").display().to_string();
    let ran = rowstream(&["check", &config]).await;
    let said = String::from_utf8(ran.stderr).expect("text");
    assert!(ran.status.success(), "{said}");
    (String::from_utf8(ran.stdout).expect("text"), warnings(&said))
}

/// The warnings, each on one line with its hint.
fn warnings(said: &str) -> Vec<String> {
    let said = said.replace("\n    hint: ", " | ");
    said.lines().filter_map(|line| Some(line.strip_prefix("warning: ")?.to_owned())).collect()
}

/// The lines with capacities.
fn carried(stdout: &str) -> Vec<&str> {
    stdout.lines().filter(|line| line.contains(" requests/s") || line.contains(" rows/s")).collect()
}

/// A running upstream, because `check` connects to it.
async fn up() -> Upstream {
    Upstream::start(Speaks::Http1, |_, _| async { reply(200, "application/json", "1") }).await
}

/// The configuration with one source, `up`. `head` precedes it, and `settings` are the source's.
fn config(upstream: &Upstream, head: &str, settings: &str) -> String {
    format!("{head}\n[source.up]\nurl = 'http://{}'\n{settings}\n", upstream.address())
}

fn calls(head: &str, more: &str) -> String {
    format!(
        "{head}\n[params]\nn1 = {{ type = 'integer', default = 50, max = 1000 }}\n\
         [upstream]\nrequest = 'GET /?n={{n}}'\nrepeat = 'n1'\n{more}\n"
    )
}

#[tokio::test]
async fn what_an_endpoint_can_carry_is_computed() {
    let upstream = up().await;
    let pass = "[upstream]\nrequest = 'GET /'\n";
    let settings = "pool = { max = 25, waiting = 150, acquire_timeout = '60s' }\nexpected_duration = '100ms'";
    let few = calls("max_streams = 2\nexpected_duration = '1s'", "concurrency = 10");
    let seven = "[upstream]\nrequest = 'GET /?n={n}'\nrepeat = 7\n";
    let unbounded = "[params]\nc = 'integer'\n[upstream]\nrequest = 'GET /?n={n}'\nrepeat = 'c'\n";
    let (stdout, warnings) = check(&[
        ("rowstream.toml", &config(&upstream, "", settings)),
        ("endpoints/calls.toml", &calls("", "")),
        ("endpoints/few.toml", &few),
        ("endpoints/pass.toml", &format!("expected_duration = '10s'\n{pass}")),
        ("endpoints/quick.toml", pass),
        ("endpoints/seven.toml", seven),
        ("endpoints/unbounded.toml", unbounded),
    ])
    .await;
    assert_eq!(
        carried(&stdout),
        [
            // 25 connections ÷ (50 × 100 ms); two rounds of 25; and there's room for seven
            // responses of 25 calls.
            "/calls: 5.00 requests/s of 50 calls (the default of `n1`), 100ms each on 25 slots; 200ms \
             alone, 1.4s with a full queue",
            "/calls: 0.2500 requests/s of 1000 calls (`max` of `n1`), 100ms each on 25 slots; 4s \
             alone, 28s with a full queue",
            // Two streams of ten calls each use 20 of the 25 connections.
            "/few: 0.4000 requests/s of 50 calls (the default of `n1`), 1s each on 20 slots; 5s alone, \
             36s with a full queue",
            "/few: 0.0200 requests/s of 1000 calls (`max` of `n1`), 1s each on 20 slots; 100s alone, \
             720s with a full queue",
            "/pass: 2.50 requests/s, 10s each on 25 slots; 10s alone, 70s with a full queue",
            "/quick: 250 requests/s, 100ms each on 25 slots; 100ms alone, 700ms with a full queue",
            "/seven: 35.7 requests/s of 7 calls, 100ms each on 25 slots; 100ms alone, 700ms with a \
             full queue",
            "/unbounded: 250 requests/s of one call, 100ms each on 25 slots; 100ms alone, 700ms with a \
             full queue",
        ]
    );
    assert_eq!(warnings, Vec::<String>::new());
}

#[tokio::test]
async fn statements_are_computed_as_well() {
    let db = TestDb::new().await;
    let config = format!("[source.db]\nurl = \"{}\"\npool = {{ max = 8, waiting = 8 }}\n", db.url());
    let look_up = |duration: &str| {
        format!("/*\nresult = \"one\"\nexpected_duration = \"{duration}\"\n*/\nselect 1 as n")
    };
    let (stdout, warnings) = check(&[
        ("rowstream.toml", &config),
        ("endpoints/list.sql", "/*\nexpected_duration = \"500ms\"\n*/\nselect 1 as n"),
        ("endpoints/long.sql", &look_up("100ms")),
        ("endpoints/quick.sql", &look_up("1ms")),
        ("endpoints/silent.sql", "select 1 as n"),
    ])
    .await;
    // Quick lookups share connections, one per core and at most a quarter of the pool's. Lists
    // leave these and one more to them.
    let shared = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(2);
    let (rate, full) = (1000 * shared, 16 / shared);
    let [lists, long] = [8 - shared - 1, 8 - shared];
    let behind = |millis: f64, places: usize| {
        let all = millis * (places + 8) as f64 / places as f64;
        std::time::Duration::from_millis(all.round() as u64)
    };
    assert_eq!(
        carried(&stdout),
        [
            &format!(
                "/list: {}.0 requests/s, 500ms each on {lists} slots; 500ms alone, {:?} with a full \
                 queue",
                2 * lists,
                behind(500.0, lists)
            ),
            &format!(
                "/long: {}.0 requests/s, 100ms each on {long} slots; 100ms alone, {:?} with a full \
                 queue",
                10 * long,
                behind(100.0, long)
            ),
            &format!(
                "/quick: {rate} requests/s, 1ms each on {shared} slots; 1ms alone, {full}ms with a \
                 full queue"
            ),
        ]
    );
    assert_eq!(warnings, Vec::<String>::new());
}

/// Runs `check` for an endpoint `e`, whose rows are looked up at `up`.
async fn check_enriched(db: &TestDb, config: &str, calls: &str) -> (String, Vec<String>) {
    // Two connections for the list itself, so that only the upstream's limits contradict each
    // other.
    let config = format!("{config}[source.db]\nurl = \"{}\"\npool = {{ max = 2 }}\n", db.url());
    let sql = format!("/*\nsource = 'db'\n{calls}*/\nselect 1 as id");
    check(&[("rowstream.toml", &config), ("endpoints/e.sql", &sql)]).await
}

fn member(name: &str, more: &str) -> String {
    format!("[enrich.{name}]\nsource = 'up'\nrequest = 'GET /{name}/{{id}}'\n{more}\n")
}

#[tokio::test]
async fn calls_for_rows_are_computed() {
    let (db, upstream) = (TestDb::new().await, up().await);
    for (calls, expected) in [
        // 64 connections ÷ 1 ms.
        (member("a", ""), "/e: 64000 rows/s of one call of `up`, 1ms each on 64 slots"),
        (member("a", "concurrency = 8"), "/e: 8000 rows/s of one call of `up`, 1ms each on 8 slots"),
        // Each row needs both calls, and they share the connections.
        (member("a", "") + &member("b", ""), "/e: 32000 rows/s of 2 calls of `up`, 1ms each on 64 slots"),
        (
            member("a", "concurrency = 8") + &member("b", "concurrency = 40"),
            "/e: 8000 rows/s of 2 calls of `up`, 1ms each on 16 slots",
        ),
    ] {
        let config = config(&upstream, "", "expected_duration = '1ms'\npool = { max = 64 }");
        let (stdout, warnings) = check_enriched(&db, &config, &calls).await;
        assert_eq!((carried(&stdout), warnings), (vec![expected], Vec::new()), "{calls}");
    }
}

/// A single row has one call of each kind at a time, regardless of the limit.
#[tokio::test]
async fn calls_for_a_single_row_are_no_list() {
    let (db, upstream) = (TestDb::new().await, up().await);
    for (head, settings, expected) in [
        ("", "expected_duration = '1ms'\npool = { max = 64, max_idle = 1 }", None),
        (
            "max_streams = 2",
            "pool = { max = 9, max_idle = 1 }",
            Some(
                "source up: its pool has 9 slots, but `max_streams` allows 2 streams, which use 2 of \
                 them | \
                 raise `max_streams` to 9, or lower `pool.max`",
            ),
        ),
    ] {
        let one = format!("result = 'one'\n{}", member("a", ""));
        let (stdout, warnings) = check_enriched(&db, &config(&upstream, head, settings), &one).await;
        assert_eq!(carried(&stdout), [""; 0]);
        assert_eq!(warnings, Vec::from_iter(expected), "{head} {settings}");
    }
}

#[tokio::test]
async fn limits_of_calls_for_rows_contradict_others_too() {
    let (db, upstream) = (TestDb::new().await, up().await);
    for (head, settings, calls, expected) in [
        (
            "",
            "pool = { max = 5 }",
            member("a", "concurrency = 50"),
            "/e: `concurrency` is 50, but only 5 calls are made at a time: source `up` has no more \
             slots | \
             raise `pool.max` of source `up` to 50, or lower `concurrency` to 5",
        ),
        (
            "",
            "pool = { max = 20, max_idle = 4 }",
            member("a", "concurrency = 3") + &member("b", "concurrency = 3"),
            "/e: it makes 6 calls at a time, but source `up` keeps 4 idle connections: each response opens \
             the others again | \
             raise `pool.max_idle` of source `up` to 6",
        ),
        (
            "",
            "expected_duration = '2s'\ntimeout = { first_byte = '1s' }",
            member("a", ""),
            "/e: a call is expected to take 2s, and `timeout.first_byte` of source `up` fails it after 1s | \
             raise `timeout.first_byte` of source `up`, or correct `expected_duration`",
        ),
        (
            // The rows of two streams need eight connections, while the streams themselves would
            // need two.
            "max_streams = 2",
            "pool = { max = 9 }",
            member("a", "concurrency = 4"),
            "source up: its pool has 9 slots, but `max_streams` allows 2 streams, which use 8 of them \
             | \
             raise `max_streams` to 9, or lower `pool.max`",
        ),
    ] {
        let (_, warnings) = check_enriched(&db, &config(&upstream, head, settings), &calls).await;
        assert_eq!(warnings, [expected], "{head} {settings} {calls}");
    }
}

#[tokio::test]
async fn limits_that_contradict_each_other_are_told() {
    let upstream = up().await;
    let pass = |head: &str| format!("{head}\n[upstream]\nrequest = 'GET /'\n");
    for (head, settings, endpoint, expected) in [
        (
            "",
            "pool = { max = 5 }",
            calls("", "concurrency = 50"),
            "/e: `concurrency` is 50, but only 5 calls are made at a time: source `up` has no more \
             slots | \
             raise `pool.max` of source `up` to 50, or lower `concurrency` to 5",
        ),
        (
            "",
            "pool = { max = 20, max_idle = 4 }",
            calls("", ""),
            "/e: it makes 20 calls at a time, but source `up` keeps 4 idle connections: each response opens \
             the others again | \
             raise `pool.max_idle` of source `up` to 20",
        ),
        (
            "max_streams = 30",
            "",
            pass("max_streams = 31"),
            "/e: its `max_streams` is 31, but is never reached: the server's own `max_streams` is 30 | \
             raise `max_streams` of the configuration, or lower that of the endpoint to 30 or less",
        ),
        (
            "",
            "pool = { max = 4, waiting = 6 }",
            pass("max_streams = 11"),
            "/e: its `max_streams` is 11, but is never reached: the pool of source `up` admits 10 at a time \
             and refuses the others | \
             raise `pool.max` or `pool.waiting` of source `up`, or lower `max_streams` to 10 or less",
        ),
        (
            "",
            "pool = { max = 4, waiting = 6 }",
            calls("max_streams = 4", ""),
            "/e: its `max_streams` is 4, but is never reached: the pool of source `up` admits 3 at a time \
             and refuses the others | \
             raise `pool.max` or `pool.waiting` of source `up`, or lower `max_streams` to 3 or less",
        ),
        (
            "",
            "expected_duration = '10s'\npool = { max = 5, waiting = 100, acquire_timeout = '1m' }",
            pass(""),
            "/e: 100 calls may wait for a connection of source `up`, the last of them for 200s: those after the first 30 time out, \
             after `pool.acquire_timeout` (60s) | \
             lower `pool.waiting` of source `up` to 30, or raise `pool.acquire_timeout` to 200s",
        ),
        (
            "",
            "expected_duration = '2s'\ntimeout = { first_byte = '1s' }\npool = { waiting = 0 }",
            pass(""),
            "/e: a call is expected to take 2s, and `timeout.first_byte` of source `up` fails it after 1s | \
             raise `timeout.first_byte` of source `up`, or correct `expected_duration`",
        ),
        (
            "",
            "expected_duration = '2s'\ntimeout = { total = '1s' }\npool = { waiting = 0 }",
            pass(""),
            "/e: a call is expected to take 2s, and `timeout.total` of source `up` fails it after 1s | \
             raise `timeout.total` of source `up`, or correct `expected_duration`",
        ),
        (
            "timeout = { first_row = '1s' }",
            "pool = { waiting = 0 }",
            calls("expected_duration = '2s'", ""),
            "/e: a call is expected to take 2s, and `timeout.first_row` fails the response after 1s | \
             raise `timeout.first_row`, or correct `expected_duration`",
        ),
        (
            // The default of 50 calls finishes in time, but the largest number doesn't.
            "timeout = { total = '3s' }",
            "expected_duration = '100ms'\npool = { max = 25 }",
            calls("", ""),
            "/e: a response of 1000 calls (`max` of `n1`) takes 4s at least, and `timeout.total` aborts it after 3s | \
             raise `timeout.total`, run more calls at a time, or allow fewer of them",
        ),
        (
            "max_streams = 5\nmax_streams_per_client = 6",
            "pool = { max = 5 }",
            pass(""),
            "server: `max_streams_per_client` is 6, but is never reached: `max_streams` is 5 | \
             lower `max_streams_per_client` below 5, or raise `max_streams`",
        ),
        (
            "max_streams = 5",
            "pool = { max = 9 }",
            pass(""),
            "source up: its pool has 9 slots, but `max_streams` allows 5 streams, which use 5 of them \
             | \
             raise `max_streams` to 9, or lower `pool.max`",
        ),
    ] {
        let config = config(&upstream, head, settings);
        let files = [("rowstream.toml", config.as_str()), ("endpoints/e.toml", &endpoint)];
        let (_, warnings) = check(&files).await;
        assert_eq!(warnings, [expected], "{head} {settings}\n{endpoint}");
        // A server prints the same when it starts, and does start.
        let server = Server::start(&files).await;
        assert_eq!(self::warnings(&server.stderr()), [expected]);
    }
}

#[tokio::test]
async fn memory_and_statements_have_contradictions_too() {
    let config = |head: &str, source: &str| {
        format!("{head}\n[source.db]\nurl = 'sqlite:data.db'\ncreate = ['data.sql']\n{source}\n")
    };
    let files = |config: &str, endpoint: &str| {
        let files =
            [("rowstream.toml", config), ("data.sql", "create table t (n);"), ("endpoints/e.sql", endpoint)];
        files.map(|(name, text)| (name.to_owned(), text.to_owned()))
    };
    const MEMORY: &str = "memory = '80MB'\nmax_connections = 100";
    for (head, source, endpoint, expected) in [
        (
            MEMORY,
            "pool = { max = 90 }\nmax_row_bytes = '64KiB'",
            "",
            &["/e: `memory` has room for ", "but the pool has slots for 90 | raise `memory`"][..],
        ),
        (
            MEMORY,
            "pool = { max = 4 }\nmax_row_bytes = '64KiB'",
            "/*\nmax_streams = 90\n*/\n",
            &["/e: `memory` has room for ", "but its `max_streams` is 90 | raise `memory`"],
        ),
        (
            "",
            "statement_timeout = '1s'\npool = { waiting = 0 }",
            "/*\nexpected_duration = \"2s\"\n*/\n",
            &[
                "/e: a call is expected to take 2s, and `statement_timeout` of source `db` fails it after 1s | raise",
            ],
        ),
        (
            "timeout = { total = '1s', first_row = '500ms' }",
            "pool = { waiting = 0 }",
            "/*\nexpected_duration = \"2s\"\n*/\n",
            // Its first row may arrive long before that.
            &["/e: a response takes 2s at least, and `timeout.total` aborts it after 1s | raise"],
        ),
    ] {
        let files = files(&config(head, source), &format!("{endpoint}select 1 as n"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        drop(folder);
        let server =
            Server::start(&files.each_ref().map(|(name, text)| (name.as_str(), text.as_str()))).await;
        let warnings = warnings(&server.stderr());
        assert_eq!(warnings.len(), 1, "{head} {source}: {warnings:#?}");
        assert!(expected.iter().all(|words| warnings[0].contains(words)), "{warnings:#?}");
    }
}

#[tokio::test]
async fn what_does_not_contradict_is_no_warning() {
    let upstream = up().await;
    // All limits at their boundary.
    let settings = "expected_duration = '1s'\ntimeout = { first_byte = '1s', total = '1s' }\n\
        pool = { max = 5, waiting = 25, acquire_timeout = '5s', max_idle = 5 }";
    let head = "max_streams = 6\nmax_streams_per_client = 6\ntimeout = { first_row = '1s', total = '200s' }";
    let (_, warnings) = check(&[
        ("rowstream.toml", &config(&upstream, head, settings)),
        ("endpoints/calls.toml", &calls("max_streams = 6", "concurrency = 5")),
        ("endpoints/pass.toml", "max_streams = 6\n[upstream]\nrequest = 'GET /'\n"),
    ])
    .await;
    assert_eq!(warnings, Vec::<String>::new());
    // Neither do the defaults of a database or an upstream cause warnings.
    let both =
        format!("{}[source.db]\nurl = 'sqlite:data.db'\ncreate = ['data.sql']\n", config(&upstream, "", ""));
    let server = Server::start(&[
        ("rowstream.toml", &both),
        ("data.sql", "create table t (n);"),
        ("endpoints/calls.toml", &calls("", "")),
        ("endpoints/rows.sql", "select 1 as n"),
    ])
    .await;
    assert_eq!(self::warnings(&server.stderr()), Vec::<String>::new());
}

/// The example's own numbers are those of its README.
#[tokio::test]
async fn the_example_computes_what_its_readme_says() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    tokio::spawn(delegate::serve(listener));
    let readme = std::fs::read_to_string(worked::example("delegate").join("README.md")).expect("it has one");
    for (pool, warned) in [("rowstream", 3), ("pool25", 3), ("pool50", 0)] {
        let config = worked::example("delegate").join(format!("{pool}.toml"));
        let (stdout, warnings) = checked(&config, &url).await;
        assert_eq!(warnings.len(), warned, "{warnings:#?}");
        assert!(warnings.iter().all(|warning| warning.contains("`concurrency` is 50")), "{warnings:#?}");
        let told: Vec<_> =
            carried(&stdout).into_iter().filter(|line| line.starts_with("/delegate/")).collect();
        assert_eq!(told.len(), 3, "{stdout}");
        if pool == "pool25" {
            assert!(readme.contains(&told.join("\n")), "the README should say\n{}", told.join("\n"));
        }
    }
}

async fn checked(config: &Path, url: &str) -> (String, Vec<String>) {
    let mut command = Command::new(program());
    command.arg("check").arg(config).env("DELEGATE_URL", url);
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    let output = ran.expect("no panic").expect("the program can be started");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{said}");
    (String::from_utf8(output.stdout).expect("text"), warnings(&said))
}
