//! The JSON Schemas that `rowstream schema` prints match the parsers: all keys, and all refused
//! values.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rowstream::config::Config;
use serde_json::{Value, json};

use crate::support::{repository, rowstream};

/// An unknown key without any similar known one.
const UNKNOWN: &str = "qqqqqqqqqq";
const SOURCES: &str = "[source.a]\nurl = \"sqlite:a.db\"\n[source.h]\nurl = \"http://127.0.0.1:1\"\n";

async fn schema(of: &str) -> Value {
    let ran = rowstream(&["schema", of]).await;
    assert!(ran.status.success());
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// The parsers' errors for these files; empty if they're valid.
fn errors(config: &str, (name, endpoint): (&str, &str)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let endpoints = folder.path().join("endpoints");
    fs::create_dir(&endpoints).unwrap();
    fs::write(folder.path().join("rowstream.toml"), config).unwrap();
    fs::write(endpoints.join(name), endpoint).unwrap();
    let read = Config::load_with(&folder.path().join("rowstream.toml"), &|_| None);
    read.map_or_else(|errors| errors.to_string(), |_| String::new())
}

const PLAIN: (&str, &str) = ("e.sql", "select 1");

/// The keys that the parser lists when it finds an unknown one.
fn known(errors: &str) -> BTreeSet<String> {
    let start = format!("unknown key `{UNKNOWN}` in ");
    let (_, rest) = errors.split_once(&start).unwrap_or_else(|| panic!("no unknown key: {errors}"));
    let (_, keys) = rest.split_once("the keys here are ").unwrap_or_else(|| panic!("{errors}"));
    let line = keys.lines().next().unwrap();
    line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Each table of rowstream.toml: its path in the schema, and a file with an unknown key in it.
const CONFIG: &[(&str, &str)] = &[
    ("", "qqqqqqqqqq = 1\nSOURCES"),
    ("/definitions/database", "[source.d]\nurl = \"sqlite:d.db\"\nqqqqqqqqqq = 1\n"),
    ("/definitions/pool", "[source.d]\nurl = \"sqlite:d.db\"\npool = { qqqqqqqqqq = 1 }\n"),
    ("/definitions/http", "[source.d]\nurl = \"http://h\"\nqqqqqqqqqq = 1\n"),
    ("/definitions/http_pool", "[source.d]\nurl = \"http://h\"\npool = { qqqqqqqqqq = 1 }\n"),
    (
        "/definitions/discover",
        "[source.d]\nurl = \"http://h\"\ndiscover = { consul = \"\", qqqqqqqqqq = 1 }\n",
    ),
    ("/definitions/discover", "[source.d]\nurl = \"http://h\"\ndiscover = { srv = \"a\", qqqqqqqqqq = 1 }\n"),
    ("/definitions/http_timeout", "[source.d]\nurl = \"http://h\"\ntimeout = { qqqqqqqqqq = 1 }\n"),
    ("/definitions/retries", "[source.d]\nurl = \"http://h\"\nretries = { qqqqqqqqqq = 1 }\n"),
    ("/definitions/health", "[source.d]\nurl = \"http://h\"\nhealth = { qqqqqqqqqq = 1 }\n"),
    ("/definitions/timeout", "timeout = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/min_rate", "slow_clients = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/csv", "csv = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/values", "values = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/tls", "tls = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/acme", "tls = { acme = { qqqqqqqqqq = 1 } }\nSOURCES"),
    (
        "/definitions/external_account",
        "tls = { acme = { domains = ['a.example'], folder = 'f', external_account = { qqqqqqqqqq = 1 } } }\nSOURCES",
    ),
    ("/definitions/token", "token.a = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/rate_limit", "rate_limit = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/jwt", "jwt = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/admin", "admin = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/discovery", "discovery = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/consul", "discovery.consul = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/cors", "cors = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/traces", "traces = { qqqqqqqqqq = 1 }\nSOURCES"),
    ("/definitions/log", "log = { qqqqqqqqqq = 1 }\nSOURCES"),
];

/// The same for endpoint files. A table that's parsed in two ways is listed twice.
const ENDPOINT: &[(&str, &str)] = &[
    ("", "sql = 'select 1'\nqqqqqqqqqq = 1"),
    ("", "qqqqqqqqqq = 1\n[upstream]\nrequest = 'GET /'"),
    ("/definitions/param", "sql = 'select :a'\nparams.a = { qqqqqqqqqq = 1 }"),
    ("/definitions/follow", "sql = 'select 1'\nfollow = { qqqqqqqqqq = 1 }"),
    ("/definitions/timeout", "sql = 'select 1'\ntimeout = { qqqqqqqqqq = 1 }"),
    ("/definitions/min_rate", "sql = 'select 1'\nslow_clients = { qqqqqqqqqq = 1 }"),
    ("/definitions/csv", "sql = 'select 1'\ncsv = { qqqqqqqqqq = 1 }"),
    ("/definitions/values", "sql = 'select 1'\nvalues = { qqqqqqqqqq = 1 }"),
    ("/definitions/enrich", "sql = 'select 1'\nenrich.a = { qqqqqqqqqq = 1 }"),
    ("/definitions/upstream", "upstream = { request = 'GET /', rows = '/a', qqqqqqqqqq = 1 }"),
    ("/definitions/upstream", "upstream = { request = 'GET /', repeat = 3, qqqqqqqqqq = 1 }"),
    ("/definitions/upstream", "upstream = { request = 'GET /', qqqqqqqqqq = 1 }"),
    ("/definitions/upstream", "upstream = { request = 'GET /', each = 'select 1', qqqqqqqqqq = 1 }"),
    ("/definitions/each", "upstream = { request = 'GET /', each = { qqqqqqqqqq = 1 } }"),
    ("/definitions/rows", "upstream = { request = 'GET /', rows = { qqqqqqqqqq = 1 } }"),
    ("/definitions/column", "upstream = { request = 'GET /', rows = '', columns.a = { qqqqqqqqqq = 1 } }"),
    ("/definitions/next", "upstream = { request = 'GET /', rows = '', next = { qqqqqqqqqq = 1 } }"),
];

/// Compares the keys of all tables of a schema with those of the parsers.
fn compare(schema: &Value, found: &BTreeMap<&str, BTreeSet<String>>) {
    let definitions = schema["definitions"].as_object().unwrap();
    let tables = definitions.iter().map(|(name, table)| (format!("/definitions/{name}"), table));
    for (place, table) in std::iter::once((String::new(), schema)).chain(tables) {
        let Some(properties) = table["properties"].as_object() else { continue };
        let described: BTreeSet<_> = properties.keys().cloned().collect();
        let read = found.get(place.as_str()).unwrap_or_else(|| panic!("no reader was asked for {place}"));
        assert_eq!(&described, read, "the keys of the schema and of the reader: {place}");
        assert_eq!(table["additionalProperties"], false, "{place}");
    }
}

#[tokio::test]
async fn each_key_that_is_read_is_in_the_schema_and_no_other() {
    let mut found: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for (place, text) in CONFIG {
        let errors = errors(&text.replace("SOURCES", SOURCES), PLAIN);
        found.entry(*place).or_default().extend(known(&errors));
    }
    compare(&schema("config").await, &found);
    found.clear();
    for (place, text) in ENDPOINT {
        found.entry(*place).or_default().extend(known(&errors(SOURCES, ("e.toml", text))));
    }
    let root = found.get_mut("").unwrap();
    root.extend(["sql", "upstream"].map(str::to_owned));
    compare(&schema("endpoint").await, &found);
}

/// Invalid contents of rowstream.toml. None of them begins with a table.
const WRONG: &[&str] = &[
    "lissten = ':80'",
    "max_streams = 0",
    "max_streams = '5'",
    "compression = 'yes'",
    "write_timeout = 'soon'",
    "write_timeout = 5",
    "memory = '5 parsecs'",
    "slow_clients = 'shed'",
    "slow_clients = { min_rate = 5 }",
    "slow_clients = {}",
    "authorization = 'nobody'",
    "authorization = []",
    "client_header = 'via'",
    "error_detail = 'all'",
    "trusted_proxies = '10.0.0.1'",
    "source.b = { url = 5 }",
    "source.b = { pool = { max = 1 } }",
    "source.b = { url = 'sqlite:b.db', pool = { max = 0 } }",
    "source.b = { url = 'sqlite:b.db', pool = { maximum = 1 } }",
    "source.b = { url = 'sqlite:b.db', protocol = 'http1' }",
    "source.b = { url = 'http://h', fetch_rows = 1 }",
    "source.b = { url = 'http://h', fetch_bytes = '1MiB' }",
    "source.b = { url = 'duckdb:', fetch_bytes = 0 }",
    "source.b = { url = 'http://h', protocol = 'http3' }",
    "source.b = { url = 'http://h', health = { statuses = [404] } }",
    "token.t = {}",
    "token.t = { sha256 = 'abc' }",
    "tls = { certificate = 'a.crt' }",
    "tls = { acme = { domains = ['a.example'] } }",
    "tls = { acme = { domains = [], folder = 'f' } }",
    "tls = { acme = { domains = ['*.a.example'], folder = 'f' } }",
    "tls = { acme = { domains = ['a.example'], folder = 'f', directory = 'http://a/dir' } }",
    "jwt = { issuer = 'https://h' }",
    "jwt = { issuer = 'https://h', audience = 'a', algorithms = ['HS256'] }",
    "admin = { public = ['all'] }",
    "discovery = { consul = {} }",
    "discovery = { consul = { url = 'http://h', service = 'a b' } }",
    "cors = {}",
    "cors = { origins = 'https://h' }",
    "log = { format = 'xml' }",
    "log = { access = 'no' }",
    "log = { sample = 2 }",
    "csv = { separator = ':' }",
    "csv = { null = ';' }",
    "values = { numbers = 'int' }",
    "values = { nulls = true }",
];

/// Invalid contents of an endpoint file.
const WRONG_ENDPOINTS: &[&str] = &[
    "",
    "sql = 'select 1'\nupstream = { request = 'GET /' }",
    "sql = 5",
    "sql = 'select 1'\npath = 'a'",
    "sql = 'select 1'\nresult = 'all'",
    "sql = 'select 1'\nformats = ['xml']",
    "sql = 'select 1'\nformats = []",
    "sql = 'select 1'\nformats = ['csv', 'csv']",
    "sql = 'select 1 as id'\nkey = 'id'",
    "sql = 'select 1 as id'\nkey = ['id']\nfollow = { commits = 'never' }",
    "sql = 'select :a'\nparams.a = 'int'",
    "sql = 'select :a'\nparams.a = { summary = 'no type' }",
    "sql = 'select :a'\nparams.a = { type = 'integer', in = 'body' }",
    "sql = 'select :a'\nparams.a = { type = 'integer', optional = 'yes' }",
    "sql = 'select :a'\nparams.a = { type = 'integer', enum = [] }",
    "sql = 'select 1'\nheartbeat = 5",
    "sql = 'select 1'\nmax_streams = 0",
    "sql = 'select a from t'\nparallel = 1",
    "sql = 'select 1'\nenrich = {}",
    "upstream = {}",
    "upstream = { request = 'PUT /' }",
    "upstream = { request = 'GET /' }\nkey = ['id']",
    "upstream = { request = 'GET /', repeat = 3, order = 'any' }",
    "upstream = { request = 'GET /', rows = '/a', columns = {} }",
    "upstream = { request = 'GET /', rows = 'a', columns = { id = 'integer' } }",
    "upstream = { request = 'GET /', rows = '/a', columns = { id = 'integer' }, next = 'more' }",
];

/// The files below a folder, by name.
fn below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { below(&path, found) } else { found.push(path) }
    }
}

/// The TOML of the configurations and endpoint files below a folder, with the schema of each.
fn texts(folder: &Path) -> Vec<(&'static str, String)> {
    let mut files = Vec::new();
    below(folder, &mut files);
    let text = |path: &PathBuf| {
        let text = || fs::read_to_string(path).unwrap();
        let is_endpoint = path.components().any(|part| part.as_os_str() == "endpoints");
        match path.extension()?.to_str()? {
            "toml" if path.ends_with("rowstream.toml") => Some(("config", text())),
            "toml" if is_endpoint => Some(("endpoint", text())),
            "sql" if is_endpoint => {
                let text = text();
                let head = text.trim_start().strip_prefix("/*").and_then(|rest| rest.split_once("*/"));
                Some(("endpoint", format!("sql = ''\n{}", head.map_or("", |(head, _)| head))))
            }
            _ => None,
        }
    };
    files.iter().filter_map(text).collect()
}

/// The examples, the demo, and the files that `init` writes are valid. Files that the parser
/// refuses are invalid.
#[tokio::test]
async fn python_reads_the_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("written");
    let ran = rowstream(&["init", "--dir", written.to_str().unwrap()]).await;
    assert!(ran.status.success());
    assert!(
        fs::read_to_string(written.join("rowstream.toml"))
            .unwrap()
            .starts_with("#:schema rowstream.schema.json\n")
    );
    let beside: Value =
        serde_json::from_slice(&fs::read(written.join("rowstream.schema.json")).unwrap()).unwrap();
    let config = schema("config").await;
    assert_eq!(beside, config);

    let root = repository();
    let right: Vec<_> = [&written, &root.join("examples"), &root.join("src"), &root.join("benches")]
        .into_iter()
        .flat_map(|folder| texts(folder))
        .collect();
    let is_of = |wanted: &str| right.iter().filter(|(schema, _)| *schema == wanted).count();
    assert!(is_of("config") > 5 && is_of("endpoint") > 20, "{} {}", is_of("config"), is_of("endpoint"));
    let mut texts = right.clone();
    for text in WRONG {
        let text = format!("{text}\n{SOURCES}");
        assert_ne!(errors(&text, PLAIN), "", "the reader takes {text}");
        texts.push(("config", text));
    }
    for text in WRONG_ENDPOINTS {
        assert_ne!(errors(SOURCES, ("e.toml", text)), "", "the reader takes {text}");
        texts.push(("endpoint", (*text).to_owned()));
    }
    let found = validate(&json!({ "config": config, "endpoint": schema("endpoint").await }), &texts);
    for (index, (found, (_, text))) in found.iter().zip(&texts).enumerate() {
        assert_eq!(found.is_none(), index < right.len(), "{found:?}: {text}");
    }
    assert_eq!(found.len(), texts.len());
}

/// The errors that Python's validator finds in each text.
fn validate(schemas: &Value, texts: &[(&str, String)]) -> Vec<Option<String>> {
    let python = std::env::var_os("ROWSTREAM_TEST_PYTHON");
    let python = python.expect("ROWSTREAM_TEST_PYTHON is not set: run `cargo xtask test`");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), json!({ "schemas": schemas, "texts": texts }).to_string()).unwrap();
    let script = repository().join("tests/readers/schema.py");
    let ran = Command::new(python).arg(script).arg(file.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}
