//! The JavaScript client of `clients/js`: its package as users install it, the examples of its
//! README, types of a server, the scripts of the wire, and reads of real rows through a proxy that
//! cuts at random.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::support::{Browser, Cut, Faults, Launch, Server, TcpProxy, given, program, repository};
use crate::{wire, worked};

/// The largest bundle that a page loads, compressed.
const MOST_BYTES: usize = 8000;
/// The rows of the shop's readings.
const READINGS: u64 = 100_000;
/// Between two cuts at most this many bytes arrive, which have some marks.
const MOST_BETWEEN: u64 = 200_000;

/// Reads a list several times at once. Prints the number of rows that aren't in their place, the
/// number of rows, and the number of cuts.
const READ: &str = "
    const read = async (url) => {
      const stream = rows(url, { retries: 100 });
      let [wrong, id] = [0, 0n];
      for await (const row of stream) if (row.id !== (id += 1n)) wrong += 1;
      return [wrong, stream.rows, stream.resumed];
    };";

/// A folder with the built package, and an empty project that installed it.
pub(crate) struct Package {
    folder: TempDir,
}

impl Package {
    pub(crate) async fn build() -> Self {
        tokio::task::spawn_blocking(|| {
            let package = Self { folder: tempfile::tempdir().expect("a folder") };
            worked::copy_folder(&sources(), &package.source());
            package.compile(&package.source(), &["--project", "."]);
            package.run(&package.source(), "npm", &["pack", "--ignore-scripts", "--pack-destination", ".."]);
            std::fs::create_dir(package.project()).expect("a folder");
            let file = format!("../rowstream-{}.tgz", env!("CARGO_PKG_VERSION"));
            package.run(
                &package.project(),
                "npm",
                &["install", "--offline", "--no-audit", "--no-fund", &file],
            );
            package
        })
        .await
        .expect("it's built")
    }

    fn source(&self) -> PathBuf {
        self.folder.path().join("js")
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn compile(&self, folder: &Path, arguments: &[&str]) {
        let compiler = packages().join("typescript/bin/tsc");
        self.run(folder, "node", &[&[compiler.to_str().expect("UTF-8")], arguments].concat());
    }

    /// Compiles a module of the project.
    fn check_types(&self, text: &str) {
        std::fs::write(self.project().join("typed.mts"), text).expect("it can be written");
        let options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"];
        self.compile(&self.project(), &[&options[..], &["typed.mts"]].concat());
    }

    /// Runs a program of the project, and returns its output.
    pub(crate) async fn node(&self, text: &str) -> String {
        let project = self.project();
        std::fs::write(project.join("main.mjs"), text).expect("it can be written");
        tokio::task::spawn_blocking(move || run(&project, "node", &["main.mjs"], &[])).await.expect("it ends")
    }

    /// Runs a program of the project that may fail. Returns its output, or its messages.
    pub(crate) async fn try_node(
        &self,
        text: &str,
        variables: &[(&'static str, &str)],
    ) -> Result<String, String> {
        let project = self.project();
        std::fs::write(project.join("main.mjs"), text).expect("it can be written");
        let mut node = Command::new("node");
        node.arg("main.mjs").current_dir(project).envs(variables.iter().copied());
        let output = tokio::task::spawn_blocking(move || node.output()).await.expect("it ends");
        let output = output.expect("node is installed");
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        if output.status.success() { Ok(stdout) } else { Err(stderr) }
    }

    /// The same in Bun.
    async fn bun(&self, text: &str) -> String {
        let project = self.project();
        std::fs::write(project.join("main.mjs"), text).expect("it can be written");
        let run = move || run(&project, &given("ROWSTREAM_TEST_BUN"), &["main.mjs"], &[]);
        tokio::task::spawn_blocking(run).await.expect("it ends")
    }

    fn run(&self, folder: &Path, program: &str, arguments: &[&str]) -> String {
        let cache = self.folder.path().join("cache");
        run(folder, program, arguments, &[("npm_config_cache", cache.to_str().expect("UTF-8"))])
    }
}

/// The sources as one script, which defines `rowstream`.
fn bundle() -> String {
    let bundler = packages().join("esbuild/bin/esbuild");
    let options = ["--bundle", "--minify", "--format=iife", "--global-name=rowstream"];
    let arguments = [&[bundler.to_str().expect("UTF-8"), "src/index.ts"], &options[..]].concat();
    run(&sources(), "node", &arguments, &[])
}

fn sources() -> PathBuf {
    repository().join("clients/js")
}

/// The packages that are pinned for the console: the compiler and the bundler.
fn packages() -> PathBuf {
    given("ROWSTREAM_TEST_CONSOLE").into()
}

fn run(folder: &Path, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).envs(variables.iter().copied());
    let output =
        command.output().unwrap_or_else(|fault| panic!("{program}: {fault}: run `cargo xtask test`"));
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
    assert!(output.status.success(), "{program} {arguments:?}: {stdout}{stderr}");
    stdout
}

pub(crate) async fn shop() -> (Server, TempDir) {
    let folder = worked::filled("shop", program()).await;
    let server = Launch::folder(folder.path()).argument("--log-format=off").start().await;
    (server, folder)
}

/// A proxy that cuts each connection at a random byte, once it may.
struct RandomCuts {
    proxy: Arc<TcpProxy>,
    choosing: Option<JoinHandle<()>>,
}

impl RandomCuts {
    async fn before(server: &Server) -> Self {
        let address: SocketAddr = server.address().parse().expect("an address");
        Self { proxy: TcpProxy::transparent(address).await.into(), choosing: None }
    }

    /// Cuts the existing connections, and all further ones.
    fn begin(&mut self) {
        let proxy = Arc::clone(&self.proxy);
        self.choosing = Some(tokio::spawn(async move {
            loop {
                let how = if fastrand::bool() { Cut::Close } else { Cut::Reset };
                proxy.set_to_client(Faults {
                    cut: Some((fastrand::u64(..MOST_BETWEEN), how)),
                    ..Faults::default()
                });
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }));
        self.proxy.cut_now(Cut::Close);
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.proxy.address())
    }
}

impl Drop for RandomCuts {
    fn drop(&mut self) {
        if let Some(choosing) = &self.choosing {
            choosing.abort();
        }
    }
}

/// Checks that each of the reads has all rows once. Returns the number of their cuts.
fn check_reads(reads: &Value) -> u64 {
    let cuts = |read: &Value| {
        assert_eq!((&read[0], &read[1]), (&json!(0), &json!(READINGS)), "{reads}");
        read[2].as_u64().expect("a number")
    };
    reads.as_array().expect("a list").iter().map(cuts).sum()
}

fn document(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).expect("a document")
}

/// The scripts of a document whose output follows them, and that output.
fn examples(text: &str) -> Vec<(&str, &str)> {
    fn example<'a>(parts: &[&'a str]) -> Option<(&'a str, &'a str)> {
        let [script, "\n\n", output] = *parts else { return None };
        script.strip_prefix("js\n").zip(output.strip_prefix("text\n"))
    }
    text.split("```").collect::<Vec<_>>().windows(3).filter_map(example).collect()
}

/// The blocks of a document in this language.
pub(crate) fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    text.split(&begin).skip(1).map(|rest| rest.split("```").next().expect("a block")).collect()
}

#[tokio::test]
async fn the_package_is_installed_and_its_example_runs() {
    let (package, (server, _folder)) = tokio::join!(Package::build(), shop());
    let readme = document("clients/js/README.md");
    let page = document("docs/src/how-to/javascript.md");
    let pairs = [examples(&readme), examples(&page)].concat();
    assert_eq!(pairs.len(), 3);
    for (example, output) in pairs {
        let example = example.replace("http://localhost:8080", &server.url(""));
        assert_eq!(package.node(&example).await, output);
    }

    let body = format!(
        "import {{ stream }} from 'rowstream';
        for await (const {{ name, orders }} of stream('{}').at('/customers')) console.log(name, orders.length);",
        server.url("/customers")
    );
    assert_eq!(package.node(&body).await, "Ada 3\nGrace 2\nEdsger 2\nBarbara 0\n");

    let typed = "import { follow, rows, stream, type Rows, RowstreamError, IncompleteStream } from 'rowstream';
        interface Order { id: bigint; total: string }
        const orders: Rows<Order> = rows<Order>('/orders', { params: { n: 3 }, convert: { decimal: Number } });
        for await (const { name } of stream('/customers').at<{ name: string }>('/customers')) void name.length;
        for await (const { id } of orders) { const exact: bigint = id; void exact; }
        try { for await (const row of follow('/orders')) { const value: unknown = row.id; void value; } }
        catch (error) {
          if (error instanceof RowstreamError) { const code: string | undefined = error.code; void code; }
          if (error instanceof IncompleteStream) { const cursor: string | undefined = error.cursor; void cursor; }
        }";
    package.check_types(typed);

    let url = server.url("");
    package.run(&package.project(), "npx", &["--offline", "rowstream", "types", &url, "-o", "api.ts"]);
    for text in [&readme, &page] {
        blocks(text, "ts").into_iter().for_each(|example| package.check_types(example));
    }
}

#[test]
fn the_package_is_small_and_needs_no_other() {
    let manifest = std::fs::read_to_string(sources().join("package.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!(manifest["dependencies"], Value::Null);
    let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    zip.write_all(bundle().as_bytes()).expect("it's compressed");
    let bytes = zip.finish().expect("it's compressed").len();
    assert!((1000..MOST_BYTES).contains(&bytes), "{bytes} bytes");
}

#[tokio::test]
async fn its_own_tests_and_the_scripts_pass() {
    let (package, peer) = (Package::build().await, wire::start());
    let scripts = repository().join("testdata/wire");
    let variables = [
        ("ROWSTREAM_WIRE", peer),
        ("ROWSTREAM_WIRE_SCRIPTS", scripts.display().to_string()),
        ("ROWSTREAM_BIN", program().display().to_string()),
        // The compiler.
        ("NODE_PATH", packages().display().to_string()),
    ];
    let source = package.source();
    let run = move || {
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let files = ["body", "filter", "rows", "types", "wire"].map(|name| format!("test/{name}.test.mjs"));
        let files = files.iter().map(String::as_str);
        run(&source, "node", &["--test"].into_iter().chain(files).collect::<Vec<_>>(), &variables)
    };
    let output = tokio::task::spawn_blocking(run).await.expect("it ends");
    assert!(output.contains("\n# skipped 0\n"), "{output}");
}

/// Reads a list through random cuts, with a program that the runtime `run` executes.
async fn reads_each_row_once(run: impl AsyncFnOnce(Package, String) -> String) {
    let (package, (server, _folder)) = tokio::join!(Package::build(), shop());
    let mut cuts = RandomCuts::before(&server).await;
    cuts.begin();
    let url = cuts.url("/readings");
    let reads = format!(
        "import {{ rows }} from 'rowstream'; {READ}
        console.log(JSON.stringify(await Promise.all(Array(3).fill('{url}').map(read))));"
    );
    let reads: Value = serde_json::from_str(&run(package, reads).await).expect("JSON");
    let cuts = check_reads(&reads);
    assert!(cuts >= 100, "{cuts} cuts");
}

#[tokio::test]
async fn node_reads_each_row_once_through_random_cuts() {
    reads_each_row_once(async |package, program| package.node(&program).await).await;
}

/// Without those that need bytes that arrived right before a cut, which Bun drops.
#[tokio::test]
async fn bun_passes_its_own_tests() {
    let package = Package::build().await;
    let run = move || {
        let files = ["body", "filter", "rows"].map(|name| format!("./test/{name}.test.mjs"));
        let files = files.iter().map(String::as_str);
        let arguments: Vec<_> = ["test", "--timeout=60000"].into_iter().chain(files).collect();
        run(&package.source(), &given("ROWSTREAM_TEST_BUN"), &arguments, &[])
    };
    tokio::task::spawn_blocking(run).await.expect("they pass");
}

#[tokio::test]
async fn bun_reads_each_row_once_through_random_cuts() {
    reads_each_row_once(async |package, program| package.bun(&program).await).await;
}

#[tokio::test]
async fn chromium_reads_each_row_once_through_random_cuts() {
    let ((server, _folder), browser) = tokio::join!(shop(), Browser::start());
    let mut cuts = RandomCuts::before(&server).await;
    // Its policy allows requests to its own origin.
    browser.open(&cuts.url("/_rowstream/")).await;
    let bundle = bundle();
    let read = format!(
        "{bundle}; const {{ rows }} = rowstream; {READ} return read('/readings').then((read) => [read]);"
    );
    assert_eq!(check_reads(&browser.run(&read).await), 0);
    cuts.begin();
    let cuts = check_reads(&browser.run(&read).await);
    assert!(cuts >= 10, "{cuts} cuts");
}

#[tokio::test]
async fn a_live_tail_has_each_row_once_after_a_restart() {
    let (package, (mut server, folder)) = tokio::join!(Package::build(), shop());
    let insert = |id: u32| {
        let shop = rusqlite::Connection::open(folder.path().join("shop.db")).expect("the database");
        let row = format!("insert into orders values ({id}, 4, 'OPEN', 99.95, '2026-03-03 08:00:00Z')");
        shop.execute_batch(&row).expect("it's inserted");
    };
    let main = package.project().join("main.mjs");
    let text = format!(
        "import {{ follow }} from 'rowstream';
        for await (const {{ id }} of follow('{}')) {{ console.error(`row ${{id}}`); if (id === 9n) break; }}",
        server.url("/new-orders")
    );
    std::fs::write(&main, text).expect("it can be written");
    let reader =
        worked::Started::new(Path::new("node"), &[main.to_str().expect("UTF-8")]).said("row 7").await;
    insert(8);
    let reader = reader.said("row 8").await;

    let address = server.address().to_owned();
    server.terminate();
    server.wait_exit().await;
    let _server = Launch::folder(folder.path()).listen(&address).argument("--log-format=off").start().await;
    insert(9);
    let (status, rows) = reader.ended().await;
    let expected: String = (1..=9).map(|id| format!("row {id}\n")).collect();
    assert!(status.success() && rows == expected, "{status}: {rows}");
}
