//! The programs of "Read rows in other languages" pass the scripts of the wire, and read each row of
//! a real server once, through cuts too. The page includes them.

use std::fs;
use std::process::{Command, Output, Stdio};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{Cut, Faults, Server, TcpProxy, TestDb, get, given, program, repository};
use crate::{client_js, wire};

/// Each connection is cut after this many bytes, which have some marks.
const BYTES: u64 = 150_000;
/// The rows of the shop's readings.
const READINGS: u64 = 100_000;
/// Programs that run at once.
const AT_ONCE: usize = 4;

/// A program's command. Its last argument is the URL.
struct Client(Vec<String>);

impl Client {
    fn new(words: &[&str]) -> Self {
        Self(words.iter().map(ToString::to_string).collect())
    }

    fn go() -> Self {
        let program = built("go");
        let mut go = Command::new(given("ROWSTREAM_TEST_GO"));
        // It uses only the standard library, of this version.
        go.env("GOTOOLCHAIN", "local").env("GOPROXY", "off").current_dir(source("go"));
        run(go.args(["build", "-o", &program, "."]));
        Self::new(&[&program])
    }

    fn java() -> Self {
        let (gson, classes) = (format!("{}/gson-2.11.0.jar", given("ROWSTREAM_TEST_JARS")), built("java"));
        let options = ["-Werror", "-Xlint:all,-serial,-processing", "--release", "17"];
        let files = ["-d", &classes, "-cp", &gson, &source("java/Rows.java")];
        run(Command::new("javac").args(options).args(files));
        let path = format!("{gson}:{classes}");
        // The first two options make it start faster.
        Self::new(&["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx64m", "-cp", &path, "Rows"])
    }

    fn php() -> Self {
        Self::new(&["php", "-dmemory_limit=64M", &source("php/rows.php")])
    }

    fn rust() -> Self {
        let target = given("ROWSTREAM_TEST_RUST_CLIENT");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--locked", "--target-dir", &target]);
        run(cargo.current_dir(source("rust")));
        Self::new(&[&format!("{target}/debug/rows")])
    }

    /// Reads a list to its end.
    async fn read(&self, url: &str) -> Output {
        let (program, arguments) = self.0.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(arguments).arg(url).stdin(Stdio::null());
        let running = tokio::task::spawn_blocking(move || command.output());
        running.await.expect("it ends").expect("it starts")
    }

    async fn is_certified(&self) {
        let (peer, scripts) = (wire::start(), wire::scripts(&["ndjson"]));
        assert!(scripts.len() > 45, "{}", scripts.len());
        let outputs = scripts.iter().map(async |script| {
            let url = format!("{peer}/{}{}", wire::text(script, "name"), wire::text(script, "start"));
            (script, self.read(&url).await)
        });
        let outputs: Vec<_> = futures_util::stream::iter(outputs).buffer_unordered(AT_ONCE).collect().await;
        let results = get(&format!("{peer}/_results")).await.json();
        let judged = outputs.iter().map(|(script, output)| {
            let name = wire::text(script, "name");
            (name, wire::judge(&script["expect"], &report(output), &results[name]), output)
        });
        let failures: Vec<_> = judged.filter(|(_, differences, _)| !differences.is_empty()).collect();
        assert!(failures.is_empty(), "{failures:#?}");
    }

    async fn reads_each_row_once(&self) {
        let (server, _folder) = client_js::shop().await;
        let address = server.address().parse().expect("an address");
        let cuts = Faults { cut: Some((BYTES, Cut::Close)), ..Faults::default() };
        let proxy = TcpProxy::to_client(address, cuts).await;
        for url in [server.url("/readings.ndjson"), format!("http://{}/readings.ndjson", proxy.address())] {
            let output = self.read(&url).await;
            let rows = rows(&output);
            let wrong = rows.iter().zip(1..).find(|(row, id)| number(&row["id"]) != *id);
            assert_eq!((wrong, rows.len() as u64, output.status.code()), (None, READINGS, Some(0)));
        }
        assert!(proxy.connections() > 10, "{}", proxy.connections());
    }

    /// Large integers and decimals keep all digits.
    async fn is_exact(&self) {
        let db = TestDb::new().await;
        let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
        let sql =
            "select 9007199254740993 as big, 12345678901234567890.10 as decimal, 'a\u{2028}ü</' as text";
        let server = Server::start(&[("rowstream.toml", &config), ("endpoints/exact.sql", sql)]).await;
        let output = self.read(&server.url("/exact.ndjson")).await;
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("9007199254740993") && text.contains("12345678901234567890.10"), "{text}");
        assert_eq!(rows(&output)[0]["text"], "a\u{2028}ü</", "{text}");
    }

    async fn passes(self) {
        self.is_certified().await;
        self.reads_each_row_once().await;
        self.is_exact().await;
    }
}

/// A file or folder of the programs.
fn source(path: &str) -> String {
    repository().join("examples/clients").join(path).display().to_string()
}

/// The path of a program's build, below `target/`.
fn built(language: &str) -> String {
    let target = program().ancestors().nth(2).expect("the target folder");
    target.join("test-clients").join(language).display().to_string()
}

fn run(command: &mut Command) {
    let output =
        command.output().unwrap_or_else(|fault| panic!("{command:?}: {fault}: run `cargo xtask test`"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The printed rows.
fn rows(output: &Output) -> Vec<Value> {
    let lines = std::str::from_utf8(&output.stdout).expect("UTF-8").split_terminator('\n');
    lines.map(|line| serde_json::from_str(line).expect("a row")).collect()
}

/// An integer. PHP's program gets integers as strings.
fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).expect("an integer")
}

/// A program's report in the form of the scripts. The server's code of an error is at the end.
fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    let code = said.trim_end().strip_suffix(')').and_then(|said| Some(said.rsplit_once('(')?.1));
    let code = code.filter(|code| *code != "cut" && code.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    let outcome = match (output.status.code(), code) {
        (Some(0), None) if said.ends_with(" rows, and none is missing\n") => "complete",
        (Some(1), Some(_)) => "error",
        (Some(1), None) => "incomplete",
        _ => "neither",
    };
    let digest: String = Sha256::digest(&output.stdout).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"outcome": outcome, "error": {"code": code}, "rows": rows(output), "sha256": digest})
}

#[test]
fn the_page_has_the_programs() {
    let page = fs::read_to_string(repository().join("docs/src/how-to/other-languages.md")).expect("a page");
    for (language, file) in [
        ("go", "go/rows.go"),
        ("java", "java/Rows.java"),
        ("php", "php/rows.php"),
        ("rust", "rust/src/main.rs"),
    ] {
        let included = format!("{{{{#include ../../../examples/clients/{file}}}}}\n");
        assert_eq!(client_js::blocks(&page, language), [included], "{language}");
        assert!(fs::exists(source(file)).is_ok_and(|exists| exists), "{file}");
    }
    let manifest = fs::read_to_string(source("rust/Cargo.toml")).expect("a manifest");
    assert_eq!(client_js::blocks(&page, "toml"), [manifest]);
}

#[tokio::test]
async fn go_reads_each_row_once() {
    Client::go().passes().await;
}

#[tokio::test]
async fn java_reads_each_row_once() {
    Client::java().passes().await;
}

#[tokio::test]
async fn php_reads_each_row_once() {
    Client::php().passes().await;
}

#[tokio::test]
async fn rust_reads_each_row_once() {
    Client::rust().passes().await;
}
