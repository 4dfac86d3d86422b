//! The console in a real browser, with real databases. Rows fill its table as they arrive,
//! cancelling ends the statement in the database, and a truncated response is never shown as
//! complete.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::client_js::{Package, shop};
use crate::client_python;
use crate::support::{
    BACKSPACE, Browser, Client, Cut, DOWN, ENTER, Ended, Faults, Launch, Pieces, Server, TAB, TcpProxy,
    TestDb, decode, get, repository, sha256, wait_until,
};
use crate::worked;
use http::Request;
use serde_json::json;

/// The maximum size of all files together, as they're sent.
const MOST_BYTES: usize = 150_000;
const FILES: [&str; 3] = ["index.html", "console.js", "style.css"];

const CONFIG: &str = "[source.db]\nurl = \"sqlite:test.db\"\ncreate = [\"nothing.sql\"]\n";
const ROWS: &str = "/*\nsummary = \"Numbers and texts\"\nkey = [\"id\"]\n[params]\n\
    count = { type = \"integer\", default = 1000, min = 1, summary = \"how many\" }\n*/\n\
    with recursive n(id) as (select 1 union all select id + 1 from n where id < :count)\n\
    select id, 9007199254740993 + id as big, null as missing, 'a text that takes its room' as text from n order by id";
const ONE: &str = "/*\nsummary = \"One number\"\n[params]\nid = \"integer\"\n*/\nselect :id as id";

fn folder() -> PathBuf {
    repository().join("src/respond/console")
}

async fn server() -> Server {
    server_with("").await
}

async fn server_with(settings: &str) -> Server {
    let config = format!("{settings}{CONFIG}");
    let files = [
        ("rowstream.toml", config.as_str()),
        ("nothing.sql", "create table t (a)"),
        ("endpoints/rows.sql", ROWS),
        ("endpoints/one/{id}.sql", ONE),
    ];
    Launch::files(&files).argument("--log-format=off").start().await
}

/// The console in a browser.
pub(crate) struct Console(pub(crate) Browser);

impl Console {
    pub(crate) async fn start() -> Self {
        Self(Browser::start().await)
    }

    /// Opens a server's console at an endpoint and a form.
    pub(crate) async fn open(&self, address: &str, place: &str) {
        self.0.open("about:blank").await;
        self.0.open(&format!("http://{address}/_rowstream/#/endpoints{place}")).await;
        self.wait("return document.querySelector('rs-endpoint form, nav li') !== null;").await;
    }

    pub(crate) async fn click(&self, selector: &str) {
        let found =
            format!("const found = document.querySelector({selector:?}); found?.click(); return !!found;");
        assert_eq!(self.0.run(&found).await, true, "there is no {selector}");
    }

    /// Waits until a script of the page returns true.
    pub(crate) async fn wait(&self, script: &str) {
        wait_until(script, async || {
            let found = self.0.run(script).await == true;
            if found { Ok(()) } else { Err(self.text("return document.body.innerText;").await) }
        })
        .await;
    }

    /// Waits for the end of a run. Returns the result, and the page's text about it.
    pub(crate) async fn ended(&self) -> (String, String) {
        self.wait(
            "return !['waiting', 'running', undefined].includes(document.querySelector('.state')?.dataset.state);",
        )
        .await;
        (self.text("return document.querySelector('.state').dataset.state;").await, self.result().await)
    }

    async fn result(&self) -> String {
        self.text("return document.querySelector('.result').innerText;").await
    }

    async fn text(&self, script: &str) -> String {
        self.0.run(script).await.as_str().unwrap_or_default().to_owned()
    }

    /// Writes a screenshot of the page to a file.
    async fn picture(&self, folder: &Path, name: &str) {
        use base64::Engine as _;
        let picture =
            self.0.devtools("Page.captureScreenshot", json!({"format": "webp", "quality": 82})).await;
        let data = picture["data"].as_str().expect("base64");
        let bytes = base64::prelude::BASE64_STANDARD.decode(data).expect("base64");
        std::fs::write(folder.join(format!("{name}.webp")), bytes).expect("it can be written");
    }

    /// The size of the page's heap after garbage collection, in bytes.
    async fn heap(&self) -> u64 {
        self.0.devtools("HeapProfiler.collectGarbage", json!({})).await;
        let usage = self.0.devtools("Runtime.getHeapUsage", json!({})).await;
        usage["usedSize"].as_f64().expect("a number") as u64
    }

    /// Checks that the page's policy refused nothing, no script failed, and no other host was
    /// contacted.
    async fn has_no_errors(&self) {
        assert_eq!(self.0.log().await, [""; 0]);
        let elsewhere = "return performance.getEntriesByType('resource').map((entry) => entry.name)
            .filter((url) => !url.startsWith(location.origin + '/'));";
        assert_eq!(self.0.run(elsewhere).await, json!([]));
    }
}

#[tokio::test]
async fn its_files_are_few_bytes_and_kept_by_browsers() {
    let server = server().await;
    let page = get(&server.url("/_rowstream/")).await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let mut bytes = 0;
    for (name, path) in FILES.iter().zip(["", "console.js", "style.css"]) {
        let url = server.url(&format!("/_rowstream/{path}"));
        let ask = |header: &str, value: &str| Request::get(&url).header(header, value).body(String::new());
        let compressed = Client::HTTP1.send(ask("accept-encoding", "br, gzip").unwrap()).await;
        let plain = get(&url).await;
        assert_eq!(plain.body, std::fs::read(folder().join(name)).unwrap(), "{name}");
        assert_eq!(plain.header("cache-control"), Some("no-cache"));
        if compressed.header("content-encoding").is_some() {
            assert_eq!(decode("gzip", &compressed.body).expect("all of it"), plain.body, "{name}");
        }
        bytes += compressed.body.len();
        let same = Client::HTTP1.send(ask("if-none-match", plain.header("etag").unwrap()).unwrap()).await;
        assert_eq!((same.status.as_u16(), same.body.len()), (304, 0), "{name}");
    }
    assert!((10_000..MOST_BYTES).contains(&bytes), "{bytes} bytes");
    // The page's resources have names that depend on their contents.
    for reference in page.text().split('"').filter_map(|text| text.strip_prefix("./")) {
        let file = get(&server.url(&format!("/_rowstream/{reference}"))).await;
        let kept = file.header("cache-control").expect("it is said");
        assert_eq!(kept, "public, max-age=31536000, immutable", "{reference}");
    }
}

#[tokio::test]
async fn without_it_nothing_leads_there() {
    let server = server_with("console = false\n").await;
    for path in ["/_rowstream/", "/_rowstream/console.js"] {
        assert_eq!(get(&server.url(path)).await.status.as_u16(), 404, "{path}");
    }
    let page = Request::get(server.url("/")).header("accept", "text/html").body(String::new()).unwrap();
    assert!(!Client::HTTP1.send(page).await.text().contains("console"));
}

/// The build takes the sources without checking them, so a call of a method that the client has renamed was
/// an error in the browser.
#[test]
fn the_types_of_its_sources_are_right() {
    let packages = PathBuf::from(std::env::var("ROWSTREAM_TEST_CONSOLE").expect("run `cargo xtask test`"));
    let copy = tempfile::tempdir().unwrap();
    for folder in ["console/src", "clients/js/src"] {
        worked::copy_folder(&repository().join(folder), &copy.path().join(folder));
    }
    let console = copy.path().join("console");
    std::fs::copy(repository().join("console/tsconfig.json"), console.join("tsconfig.json")).unwrap();
    std::os::unix::fs::symlink(&packages, console.join("node_modules")).unwrap();
    let compiler = packages.join("typescript/bin/tsc");
    let checked = Command::new("node").arg(compiler).current_dir(&console).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// The files in the repository match their sources: `npm ci && npm run build` in `console/`.
#[test]
fn packages_build_what_is_committed() {
    let packages = std::env::var("ROWSTREAM_TEST_CONSOLE").expect("run `cargo xtask test`");
    let console = repository().join("console");
    let out = tempfile::tempdir().unwrap();
    let built = Command::new("node")
        .arg(console.join("build.mjs"))
        .arg(out.path())
        .env("CONSOLE_PACKAGES", &packages)
        .output()
        .expect("node is installed");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for name in FILES {
        let [is, should] =
            [folder().join(name), out.path().join(name)].map(|path| std::fs::read(path).unwrap());
        assert!(is == should, "{name} is not what console/ gives: run `npm run build` there");
    }
}

#[tokio::test]
async fn rows_fill_the_table_and_numbers_stay_exact() {
    let (server, console) = tokio::join!(server(), Console::start());
    console.open(server.address(), "").await;
    // The first visit: the list of endpoints, and a search.
    assert_eq!(console.0.run("return document.querySelectorAll('nav li').length;").await, 2);
    console.0.run("const input = document.querySelector('[type=search]'); input.value = 'texts'; input.dispatchEvent(new Event('input'));").await;
    console.wait("return document.querySelectorAll('nav li').length === 1;").await;
    console.click("nav li a").await;
    console.wait("return document.querySelector('#param-count') !== null;").await;
    console.0.run("const input = document.querySelector('#param-count'); input.value = '2500'; input.dispatchEvent(new Event('input'));").await;
    assert!(console.text("return location.hash;").await.ends_with("/rows?count=2500"));
    console.click("button.run").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "complete", "{result}");
    assert!(result.contains("2,500 rows"), "{result}");
    // 2^53 + 2, which a JavaScript float can't distinguish from its neighbour.
    let first =
        "return [...document.querySelector('rs-table tbody tr').children].map((cell) => cell.textContent);";
    let expected = json!(["1", "1", "9007199254740994", "null", "a text that takes its room"]);
    assert_eq!(console.0.run(first).await, expected);
    console.has_no_errors().await;

    // A permalink contains the form. Every format except tables is shown unchanged.
    for (format, begins) in
        [("csv", "id,big,missing,text\r\n1,"), ("json", "[{\"id\":1,"), ("sse", "event: rowstream\ndata: ")]
    {
        console.open(server.address(), &format!("/rows?count=20&_format={format}")).await;
        console.wait("return document.querySelector('#param-count')?.value === '20';").await;
        console.click("button.run").await;
        let (state, result) = console.ended().await;
        assert_eq!(state, "complete", "{format}: {result}");
        let shown = console.text("return document.querySelector('pre.text').textContent;").await;
        assert!(shown.starts_with(begins), "{format}: {shown}");
    }
    console.has_no_errors().await;
}

#[tokio::test]
async fn a_cancelled_run_ends_its_statement() {
    let db = TestDb::new().await;
    let config = format!("explain = true\n[source.db]\nurl = \"{}\"\n", db.url());
    let sql = "select generate_series(1, 100000000) as n, repeat('x', 100) as text";
    let files = [("rowstream.toml", config.as_str()), ("endpoints/long.sql", sql)];
    let (server, console, client) = tokio::join!(Server::start(&files), Console::start(), db.client());
    console.open(server.address(), "/long").await;
    console.click("button.run").await;
    console.wait("return document.querySelectorAll('rs-table tbody tr').length > 10;").await;
    let running = "select count(*) from pg_stat_activity where state = 'active' and query like '%generate_series(1, 100000000)%'
        and pid <> pg_backend_pid() and datname = current_database()";
    let count = async || client.query_one(running, &[]).await.unwrap().get::<_, i64>(0);
    // The plan for the estimate contains the same text, and may still be read.
    wait_until("the statement runs", async || count().await == 1).await;
    let estimate = "return document.querySelector('.result').innerText.includes('of some 100,000,000');";
    console.wait(estimate).await;
    console.click("button.stop").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "cancelled", "{result}");
    wait_until("the statement ends", async || count().await == 0).await;
    console.has_no_errors().await;
}

#[tokio::test]
async fn a_million_rows_are_scrolled_in_bounded_memory() {
    let (server, console) = tokio::join!(server(), Console::start());
    console.open(server.address(), "/rows?count=30000").await;
    console.click("button.run").await;
    console.ended().await;
    let before = console.heap().await;
    console.open(server.address(), "/rows?count=1000000").await;
    console.click("button.run").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "complete", "{result}");
    assert!(result.contains("1,000,000 rows"), "{result}");
    let after = console.heap().await;
    assert!(after < before + (8 << 20), "the page grew from {before} to {after} bytes");
    let seen = "return [...document.querySelectorAll('rs-table tbody th')].map((cell) => cell.textContent);";
    let rows = console.0.run(seen).await;
    assert_eq!(rows[0], "1");
    assert!(rows.as_array().is_some_and(|rows| rows.len() < 100), "{rows}");
    console.0.run("document.querySelector('.scroller').scrollTop = 1e9;").await;
    console
        .wait(
            "return [...document.querySelectorAll('rs-table tbody th')].at(-1).textContent === '1,000,000';",
        )
        .await;
    // The page says that earlier rows were dropped.
    console.0.run("document.querySelector('.scroller').scrollTop = 10000 * 29 - 100;").await;
    console
        .wait("return document.querySelector('tr.gap')?.textContent.startsWith('rows 10,001 to 9') ?? false;")
        .await;
    console.has_no_errors().await;
}

/// Conditions got a name with an underscore in OpenAPI, and the form lost their field. Options of the response
/// had no fields. Later, the fields folded away when the only option was cleared.
#[tokio::test]
async fn conditions_and_options_have_fields() {
    let sql = "/*\nkey = [\"id\"]\nfilter = true\n*/\nselect 1 as id union all select 2 order by id";
    let files =
        [("rowstream.toml", CONFIG), ("nothing.sql", "create table t (a)"), ("endpoints/list.sql", sql)];
    let (server, console) = tokio::join!(Launch::files(&files).start(), Console::start());
    console.open(server.address(), "/list?_filters=id%3Dgt.1").await;
    let open = "return document.querySelector('details.options').open;";
    assert_eq!(console.0.run(open).await, false);
    for (name, value) in [("_digest", "sha-256"), ("_wait", "end")] {
        console.0.run(&format!("const field = document.querySelector('#param-{name}'); field.value = '{value}'; field.dispatchEvent(new Event('change'));")).await;
    }
    assert!(console.text("return location.hash;").await.ends_with("&_digest=sha-256&_wait=end"));
    console.click("button.run").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "complete", "{result}");
    assert!(result.contains("1 row\n"), "{result}");
    let curl = console.text("return document.querySelector('.code pre').textContent;").await;
    assert!(curl.contains("?id=gt.1&_digest=sha-256&_wait=end&"), "{curl}");
    console.open(server.address(), "/list?_wait=end").await;
    assert_eq!(console.0.run(open).await, true);
    console.0.run("const field = document.querySelector('#param-_wait'); field.value = ''; field.dispatchEvent(new Event('change'));").await;
    console.wait("return location.hash === '#/endpoints/list';").await;
    assert_eq!(console.0.run(open).await, true);
    console.has_no_errors().await;
}

/// Our clients ask for NDJSON, or for events of a live tail. The snippets called them even if the endpoint
/// lacked these formats: the response was a 406, or the list without its tail.
#[tokio::test]
async fn snippets_ask_only_for_formats_of_their_endpoint() {
    let follow = "key = [\"n\"]\nfollow = { poll = \"20ms\" }";
    let [events, sequence, lines] = [r#"["sse"]"#, r#"["json-seq", "csv"]"#, r#"["ndjson"]"#]
        .map(|formats| format!("/*\nformats = {formats}\n{follow}\n*/\nselect 1 as n order by n"));
    let files = [
        ("rowstream.toml", CONFIG),
        ("nothing.sql", "create table t (a)"),
        ("endpoints/events.sql", events.as_str()),
        ("endpoints/sequence.sql", sequence.as_str()),
        ("endpoints/lines.sql", lines.as_str()),
    ];
    let (server, console) = tokio::join!(Launch::files(&files).start(), Console::start());
    for (place, javascript, python) in [
        ("/events", "/events?_format=sse&_end=1\")", "requests.get("),
        ("/events?_follow=1", "of follow(", "rowstream.follow("),
        ("/sequence", "/sequence?_format=json-seq&_end=1\")", "requests.get("),
        ("/sequence?_follow=1", "&_follow=1\")", "&_follow=1\", stream=True)"),
        ("/lines", "of rows(", "rowstream.rows("),
        ("/lines?_follow=1", "&_follow=1\")", "&_follow=1\", stream=True)"),
    ] {
        console.open(server.address(), place).await;
        for (language, expected) in [("JavaScript", javascript), ("Python", python)] {
            click_button(&console, language).await;
            let is_shown = format!("return document.querySelector('.code pre').ariaLabel === '{language}';");
            console.wait(&is_shown).await;
            let snippet = console.text("return document.querySelector('.code pre').textContent;").await;
            assert!(snippet.contains(expected), "{place}: {snippet}");
        }
    }
    console.has_no_errors().await;
}

/// The JavaScript snippet read lines with code of its own, which neither resumed nor counted. It's a program
/// for Node, with the client.
#[tokio::test]
async fn packages_run_the_snippet_which_resumes_and_finds_a_cut() {
    let tokens =
        format!("authorization = \"authenticated\"\n[token.reader]\nsha256 = \"{}\"\n", sha256("reader"));
    let (server, console, package) = tokio::join!(server_with(&tokens), Console::start(), Package::build());
    let proxy = TcpProxy::transparent(address(&server)).await;
    console.0.open(&format!("http://{}/_rowstream/", proxy.address())).await;
    console.0.run("sessionStorage.setItem('rowstream.token', 'reader');").await;
    console.open(&proxy.address().to_string(), "/rows?count=50000").await;
    click_button(&console, "JavaScript").await;
    console.wait("return document.querySelector('.code pre').ariaLabel === 'JavaScript';").await;
    let snippet = console.text("return document.querySelector('.code pre').textContent;").await;

    let before = proxy.connections();
    proxy.set_to_client(Faults { cut: Some((100_000, Cut::Close)), ..Faults::default() });
    let printed = package.try_node(&snippet, &[("TOKEN", "reader")]).await.expect(&snippet);
    let ids: Vec<_> = printed.split("id: '").skip(1).map(|row| row.split('\'').next().unwrap()).collect();
    assert_eq!(ids, (1..=50_000).map(|id| id.to_string()).collect::<Vec<_>>());
    assert!(proxy.connections() > before + 1, "it was cut");

    proxy.set_to_client(Faults { cut: Some((2_000, Cut::Close)), ..Faults::default() });
    let failure = package.try_node(&snippet, &[("TOKEN", "reader")]).await.expect_err("rows are missing");
    assert!(failure.contains("IncompleteStream"), "{failure}");
    console.has_no_errors().await;
}

/// The Python snippet reads with the client too, and keeps integers beyond 53 bits.
#[tokio::test]
async fn the_python_snippet_resumes_a_cut() {
    let (server, console) = tokio::join!(server(), Console::start());
    let proxy = TcpProxy::transparent(address(&server)).await;
    console.open(&proxy.address().to_string(), "/rows?count=5000").await;
    click_button(&console, "Python").await;
    console.wait("return document.querySelector('.code pre').ariaLabel === 'Python';").await;
    let snippet = console.text("return document.querySelector('.code pre').textContent;").await;
    let before = proxy.connections();
    proxy.set_to_client(Faults { cut: Some((150_000, Cut::Close)), ..Faults::default() });
    let mut command = client_python::python();
    command.arg("-c").arg(&snippet);
    let printed = client_python::run_beside(command).await.0;
    assert_eq!(printed.lines().count(), 5_000, "{snippet}");
    assert!(printed.lines().last().is_some_and(|row| row.contains("9007199254745993")), "{printed:.300}");
    assert!(proxy.connections() > before + 1, "it was cut");
    console.has_no_errors().await;
}

/// A cut was the end, and only a button continued.
#[tokio::test]
async fn a_cut_is_resumed_without_a_button() {
    let (server, console) = tokio::join!(server(), Console::start());
    // After a cut, a browser loses unread bytes. With the pauses it has read most of them.
    let pieces = Some(Pieces { bytes: 16 * 1024, pause: Duration::from_millis(5) });
    let faults = Faults { pieces, cut: Some((400_000, Cut::Close)), ..Faults::default() };
    let proxy = TcpProxy::to_client(address(&server), faults).await;
    console.open(&proxy.address().to_string(), "/rows?count=5000").await;
    console.click("button.run").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "complete", "{result}");
    assert!(result.contains("5,000 rows") && result.contains(" × resumed"), "{result}");
    console.0.run("document.querySelector('.scroller').scrollTop = 1e9;").await;
    console.wait(LAST_OF_5000).await;
}

/// The last line of the table is the last of 5,000 rows.
const LAST_OF_5000: &str = "return [...document.querySelectorAll('rs-table tbody tr')].at(-1).innerText.startsWith('5,000\\t5000\\t');";

fn address(server: &Server) -> SocketAddr {
    server.address().parse().expect("an address")
}

#[tokio::test]
async fn a_lost_connection_is_truncated_and_goes_on_after_its_last_mark() {
    let (server, console) = tokio::join!(server(), Console::start());
    let pieces = Some(Pieces { bytes: 16 * 1024, pause: Duration::from_millis(5) });
    let stall = Faults { pieces, stall_after: Some(400_000), ..Faults::default() };
    let proxy = TcpProxy::to_client(address(&server), stall).await;
    console.open(&proxy.address().to_string(), "/rows?count=5000").await;
    console.click("button.run").await;
    console.wait("return document.querySelector('rs-endpoint').run?.rows.total > 2000;").await;
    // No further request gets a response.
    proxy.set_to_client(Faults { cut: Some((0, Cut::Close)), ..Faults::default() });
    proxy.cut_now(Cut::Close);
    console.wait("return document.querySelector('.result').innerText.includes('Trying again: the connection was lost.');").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "truncated", "{result}");
    assert!(result.contains("This answer is not whole: the connection was lost"), "{result}");
    assert!(!result.contains("Trying again"), "{result}");
    proxy.set_to_client(Faults::default());
    proxy.resume();
    // It looks like the primary action. It disappears when pressed, and the focus moved to the
    // body.
    let resume = "const found = document.querySelector('.result button.run'); found?.click();
        return found?.innerText.startsWith('Resume after row') && document.activeElement.matches('form button');";
    assert_eq!(console.0.run(resume).await, true);
    console.wait("return document.querySelector('.state').dataset.state !== 'truncated';").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "complete", "{result}");
    assert!(result.contains("5,000 rows"), "{result}");
    console.0.run("document.querySelector('.scroller').scrollTop = 1e9;").await;
    console.wait(LAST_OF_5000).await;
}

#[tokio::test]
async fn a_failure_is_shown_with_its_page() {
    let (server, console) = tokio::join!(server(), Console::start());
    console.open(server.address(), "/one/{id}?id=four").await;
    console.click("button.run").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "failed", "{result}");
    assert!(result.contains("400") && result.contains("`id`"), "{result}");
    let page = console.text("return document.querySelector('.problem a').href;").await;
    assert_eq!(page, server.url("/_rowstream/errors/invalid_parameter"));
    assert_eq!(get(&page).await.status.as_u16(), 200);
}

#[tokio::test]
async fn the_keyboard_is_enough() {
    let (server, console) = tokio::join!(server(), Console::start());
    console.open(server.address(), "/rows?count=50").await;
    let focused = "return document.activeElement.className || document.activeElement.id;";
    let tab_to = async |wanted: &str| {
        for _ in 0..40 {
            if console.text(focused).await == wanted {
                return;
            }
            console.0.press(&TAB.to_string()).await;
        }
        panic!("no way to {wanted} by the keyboard");
    };
    tab_to("param-count").await;
    console.0.press(&format!("7{ENTER}")).await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "complete", "{result}");
    // The run button and the cancel button were different elements, so the focus moved to the body.
    tab_to("run").await;
    console.0.press(&ENTER.to_string()).await;
    console.wait("return document.querySelectorAll('rs-table tbody tr').length === 7;").await;
    console.ended().await;
    assert_eq!(console.text(focused).await, "run");
    tab_to("scroller").await;
    console.0.press(&format!("{DOWN}{DOWN}{DOWN}{ENTER}")).await;
    console
        .wait("return document.querySelector('dialog[open]')?.innerText.startsWith('Row 3') ?? false;")
        .await;
}

#[tokio::test]
async fn live_charts_move() {
    let (server, console) = tokio::join!(server(), Console::start());
    let moments =
        async || get(&server.url("/_rowstream/history")).await.json()["moments"].as_array().unwrap().len();
    while moments().await < 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    console.0.open(&server.url("/_rowstream/#/live")).await;
    // The server's history is there immediately, before this view has polled twice.
    console.wait("return document.querySelector('rs-live polyline')?.points.length >= 3;").await;
    let streams = |number: u32| {
        format!(
            "return document.querySelector('section[aria-label=\"Streams in flight\"] b')?.textContent === '{number}';"
        )
    };
    console.wait(&streams(0)).await;
    let mut stream =
        Client::HTTP1.receive_buffer(16 * 1024).stream(&server.url("/rows.ndjson?count=500000")).await;
    stream.at_least(1).await;
    console.wait(&streams(1)).await;
    let rows = "return [...document.querySelectorAll('section[aria-label=\"Endpoints now\"] tbody tr')]
        .map((row) => row.children[1].textContent);";
    assert_eq!(console.0.run(rows).await, json!(["0", "1"]));
    let in_flight =
        "return [...document.querySelectorAll('section[aria-label=\"Each stream in flight\"] tbody tr')]
        .map((row) => `${row.children[0].textContent} ${row.children[1].textContent}`);";
    assert_eq!(console.0.run(in_flight).await, json!(["/rows ndjson"]));
    console.0.run("document.querySelector('rs-live button.stop').focus();").await;
    console.click("rs-live button.stop").await;
    assert!(matches!(stream.rest().await.ended, Ended::Broken(_)), "it was stopped");
    console.wait("return document.querySelector('rs-live button.stop') === null;").await;
    console.wait("return document.activeElement.id === 'main';").await;
    console.wait(&streams(0)).await;
    console.has_no_errors().await;
}

/// The same rows, streamed and all at once: the first row of one costs as much as the last of the
/// other.
#[tokio::test]
async fn a_list_is_compared_with_reading_it_whole() {
    let (server, console) = tokio::join!(server(), Console::start());
    console.open(server.address(), "/rows?count=200000").await;
    console.click("rs-compare summary").await;
    console.0.run("document.querySelector('rs-compare button').focus();").await;
    console.click("rs-compare button").await;
    console.wait("return document.querySelectorAll('rs-compare thead th').length === 2;").await;
    assert_eq!(console.text("return document.activeElement.innerText;").await, "Compare");
    let cells = "return [...document.querySelectorAll('rs-compare tbody tr')].map((row) =>
        [...row.children].map((cell) => cell.textContent.trim()));";
    let cells: Vec<[String; 3]> = serde_json::from_value(console.0.run(cells).await).expect("a table");
    let names: Vec<&str> = cells.iter().map(|[name, ..]| name.as_str()).collect();
    let expected =
        ["First row after", "All rows after", "Text held in this tab", "Memory of the server, at most"];
    assert_eq!(names, expected);
    let [_, streamed, whole] = &cells[0];
    assert!(milliseconds(streamed) < milliseconds(whole), "{cells:?}");
    // A window of the 200,000 rows of 95 letters is kept, while the array is held as a whole.
    assert!(megabytes(&cells[2][1]) < 5.0 && megabytes(&cells[2][2]) > 15.0, "{cells:?}");
    let said = "return document.querySelector('rs-compare [role=status]').textContent.trim();";
    assert_eq!(console.0.run(said).await, json!("200,000 rows, twice"));
    // If the server fails, the page says so.
    console.open(server.address(), "/rows?count=0").await;
    console.click("rs-compare summary").await;
    console.click("rs-compare button").await;
    console.wait("return document.querySelector('rs-compare [role=alert]') !== null;").await;
}

/// If a page reads slowly, the server waits, and with it the database, until the page continues.
/// Before that, Chromium buffers some 60 MB.
#[tokio::test]
async fn a_slow_page_has_the_server_wait() {
    let endless = "with recursive n(id) as (select 1 union all select id + 1 from n)
        select id, 'a text that takes its room' as text from n";
    let files = [
        ("rowstream.toml", CONFIG),
        ("nothing.sql", "create table t (a)"),
        ("endpoints/endless.sql", endless),
    ];
    let server = Launch::files(&files).argument("--log-format=off").start();
    let (server, console) = tokio::join!(server, Console::start());
    let sent = async || get(&server.url("/_rowstream/streams")).await.json()["streams"][0]["rows"].as_u64();
    let read_at = async |place: &str| {
        let script = format!(
            "const slider = document.querySelector('.result input[type=range]');
             slider.value = slider.{place}; slider.dispatchEvent(new Event('input'));"
        );
        console.0.run(&script).await;
    };
    console.open(server.address(), "/endless").await;
    console.click("button.run").await;
    console.wait("return document.querySelector('.state')?.dataset.state === 'running';").await;
    read_at("max").await;
    let stands = wait_until("the server waits for its client", async || {
        let before = sent().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = sent().await;
        now.filter(|_| before == now)
    });
    let (stands, shown) = (stands.await, console.result().await);
    assert!(shown.contains("10 KB/s") && shown.contains("The server has sent"), "{shown:.300}");
    read_at("min").await;
    let sends_on = async || sent().await.filter(|now| *now > 2 * stands);
    wait_until("the server sends on", sends_on).await;
    console.click("button.stop").await;
    wait_until("the stream ends", async || sent().await.is_none()).await;
}

/// If a response is aborted, Chromium drops the bytes that the page hasn't read. The error record is
/// among them. The page asks the server for the reason.
#[tokio::test]
async fn a_slow_page_shows_why_a_stream_was_aborted() {
    let fails = "/* key = [\"id\"] */ with recursive n(id) as (select 1 union all select id + 1 from n where id < 200000)
        select id, case id when 200000 then cast(x'ff' as text) else 'a text that takes its room' end as text
        from n order by id";
    let files =
        [("rowstream.toml", CONFIG), ("nothing.sql", "create table t (a)"), ("endpoints/fails.sql", fails)];
    let server = Launch::files(&files).argument("--log-format=off").start();
    let (server, console) = tokio::join!(server, Console::start());
    console.open(server.address(), "/fails").await;
    console.click("button.run").await;
    console.wait("return document.querySelector('.state')?.dataset.state === 'running';").await;
    let slow = "const slider = document.querySelector('.result input[type=range]');
        slider.value = slider.max; slider.dispatchEvent(new Event('input'));";
    console.0.run(slow).await;
    let (state, result) = console.ended().await;
    assert!(["truncated", "failed"].contains(&&*state), "{state}: {result}");
    let page = console.text("return document.querySelector('.problem a').href;").await;
    assert_eq!(page, server.url("/_rowstream/errors/bad_value"), "{state}: {result}");
}

/// The plan belongs to the current form. It's hidden unless the configuration allows it.
#[tokio::test]
async fn statements_are_explained_where_that_is_allowed() {
    let (server, silent, console) = tokio::join!(server_with("explain = true\n"), server(), Console::start());
    console.open(server.address(), "/rows").await;
    console.click("rs-plan summary").await;
    console.click("rs-plan button").await;
    console.wait("return document.querySelectorAll('rs-plan pre').length === 2;").await;
    let [sql, plan] = ["SQL", "Plan"].map(|what| {
        format!("return document.querySelector('rs-plan [aria-label=\"{what} of rows\"]').textContent;")
    });
    let sql = console.text(&sql).await;
    assert!(sql.starts_with("with recursive") && sql.contains("id < ?1"), "{sql}");
    // Nested as in SQLite's shell.
    let plan = console.text(&plan).await;
    assert!(plan.contains("\n  RECURSIVE STEP\n    SCAN n\n"), "{plan}");
    console.open(server.address(), "/one/{id}?id=x").await;
    console.click("rs-plan summary").await;
    console.click("rs-plan button").await;
    console.wait("return document.querySelector('rs-plan .problem[role=alert]') !== null;").await;
    console.open(silent.address(), "/rows").await;
    assert_eq!(console.0.run("return document.querySelector('rs-plan') === null;").await, true);
}

/// Parses a duration from the console.
fn milliseconds(shown: &str) -> f64 {
    let (number, unit) = shown.trim_start_matches("< ").split_once(' ').expect("a unit");
    number.parse::<f64>().expect("a number") * if unit == "s" { 1000.0 } else { 1.0 }
}

fn megabytes(shown: &str) -> f64 {
    shown.strip_suffix(" MB").expect("megabytes").parse().expect("a number")
}

/// Clicks the button whose text begins with `begins`.
async fn click_button(console: &Console, begins: &str) {
    let script = format!(
        "const found = [...document.querySelectorAll('button')].find((button) => button.innerText.startsWith({begins:?}));
         found?.click(); return !!found;"
    );
    assert_eq!(console.0.run(&script).await, true, "there is no button {begins}");
}

/// A pause stops the table, and no row is lost.
#[tokio::test]
async fn a_live_tail_pauses_and_goes_on() {
    let db = TestDb::new().await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let sql = "/*\nkey = [\"n\"]\nfollow = { commits = \"ordered\" }\n*/\nselect n, t from t order by n";
    let client = db.client().await;
    client.batch_execute("create table t (n bigint primary key, t text)").await.unwrap();
    let insert = async |from: i64, to: i64| {
        let sql = "insert into t select n, 'row ' || n from generate_series($1::bigint, $2::bigint) n";
        client.execute(sql, &[&from, &to]).await.unwrap();
    };
    insert(1, 2).await;
    let files = [("rowstream.toml", config.as_str()), ("endpoints/tail.sql", sql)];
    let (server, console) = tokio::join!(Server::start(&files), Console::start());
    let shown = |rows: usize| {
        format!("return document.querySelectorAll('rs-table tbody tr:not(.gap)').length === {rows};")
    };
    console.open(server.address(), "/tail?_follow=1").await;
    console.click("button.run").await;
    console.wait(&shown(2)).await;
    insert(3, 3).await;
    console.wait(&shown(3)).await;
    click_button(&console, "Pause").await;
    insert(4, 8).await;
    let waiting = "return [...document.querySelectorAll('button')].some((button) => button.innerText === 'Go on (5 new)');";
    console.wait(waiting).await;
    assert_eq!(console.0.run(&shown(3)).await, true);
    click_button(&console, "Go on").await;
    console.wait(&shown(8)).await;
    console.click("button.stop").await;
    assert_eq!(console.ended().await.0, "cancelled");
    console.has_no_errors().await;
}

/// A restart ended the live tail.
#[tokio::test]
async fn a_live_tail_survives_a_restart_and_ends_with_its_endpoint() {
    let ((mut server, folder), console) = tokio::join!(shop(), Console::start());
    let path = folder.path();
    let address = server.address().to_owned();
    let restart = || Launch::folder(path).listen(&address).argument("--log-format=off").start();
    let shown =
        |rows: usize| format!("return document.querySelectorAll('rs-table tbody tr').length === {rows};");
    console.open(&address, "/new-orders?_follow=1").await;
    console.click("button.run").await;
    console.wait(&shown(7)).await;
    server.terminate();
    server.wait_exit().await;
    console.wait("return document.querySelector('.result').innerText.includes('Trying again: ');").await;
    let row = "insert into orders values (8, 4, 'OPEN', 99.95, '2026-03-03 08:00:00Z')";
    rusqlite::Connection::open(path.join("shop.db")).expect("the database").execute_batch(row).unwrap();
    let mut server = restart().await;
    console.wait(&shown(8)).await;
    assert!(!console.result().await.contains("Trying again"));

    server.terminate();
    server.wait_exit().await;
    std::fs::remove_file(path.join("endpoints/new-orders.sql")).expect("it's removed");
    let _server = restart().await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "failed", "{result}");
    assert!(result.contains("404") && result.contains("8 rows"), "{result}");
}

/// Dates and times had text fields, and the server refused the format of `datetime-local`.
#[tokio::test]
async fn dates_and_times_have_pickers() {
    let sql = "/*\nresult = \"one\"\n[params]\nday = \"date\"\nat = \"timestamp\"\n\
        until = { type = \"timestamp\", default = \"2030-01-01T00:00:00Z\" }\n*/\n\
        select :day as day, :at as at, :until as until";
    let files =
        [("rowstream.toml", CONFIG), ("nothing.sql", "create table t (a)"), ("endpoints/at.sql", sql)];
    let (server, console) = tokio::join!(Launch::files(&files).start(), Console::start());
    console.open(server.address(), "/at").await;
    let types = "return [...document.querySelectorAll('form > .fields input')].map((input) => input.type);";
    assert_eq!(console.0.run(types).await, json!(["date", "datetime-local", "datetime-local"]));
    assert!(
        console
            .text("return document.querySelector('#param-until-more').innerText;")
            .await
            .starts_with("UTC · 2030")
    );
    for (name, value) in [("day", "2024-01-12"), ("at", "2024-01-12T13:46")] {
        let enter = format!(
            "const input = document.querySelector('#param-{name}'); input.value = '{value}'; input.dispatchEvent(new Event('input'));"
        );
        console.0.run(&enter).await;
    }
    console.click("button.run").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "complete", "{result}");
    let cells =
        "return [...document.querySelector('rs-table tbody tr').children].map((cell) => cell.textContent);";
    let cells = console.0.run(cells).await;
    for value in ["2024-01-12", "2024-01-12 13:46:00", "2030-01-01 00:00:00"] {
        assert!(cells.to_string().contains(value), "{value}: {cells}");
    }
    // A link may contain a value that pickers can't show.
    console
        .open(
            server.address(),
            "/at?day=2024-01-12&at=2024-01-12T13:46:00%2B02:00&until=2024-01-12T13:46:00Z",
        )
        .await;
    console.wait("return document.querySelector('#param-at') !== null;").await;
    assert_eq!(console.0.run(types).await, json!(["date", "text", "datetime-local"]));
    let values = "return [...document.querySelectorAll('form > .fields input')].map((input) => input.value.slice(0, 16));";
    let expected = json!(["2024-01-12", "2024-01-12T13:46", "2024-01-12T13:46"]);
    assert_eq!(console.0.run(values).await, expected);
    // Microseconds and offsets are entered as text, in a field that doesn't change its type
    // meanwhile.
    console.open(server.address(), "/at?day=2024-01-12&at=2024-01-12T13:46:00").await;
    console.wait("return document.querySelector('#param-at')?.type === 'datetime-local';").await;
    console.click("#param-at ~ button.link").await;
    console.wait("return document.querySelector('#param-at').type === 'text';").await;
    console.0.run("document.querySelector('#param-at').focus();").await;
    console.0.press(".000001").await;
    console.click("button.run").await;
    console.ended().await;
    let at = "return document.querySelector('rs-table tbody tr').children[2].textContent;";
    assert_eq!(console.text(at).await, "2024-01-12 13:46:00.000001");
    assert_eq!(console.0.run(types).await, json!(["date", "text", "datetime-local"]));
    assert_eq!(console.0.run("return document.querySelector('#param-at ~ button') === null;").await, true);
    for _ in 0..7 {
        console.0.press(&BACKSPACE.to_string()).await;
    }
    console
        .wait("return document.querySelector('#param-at ~ button')?.innerText.startsWith('Use the picker');")
        .await;
    assert_eq!(console.text("return document.querySelector('#param-at').type;").await, "text");
    console.click("#param-at ~ button.link").await;
    console.wait("return document.querySelector('#param-at').type === 'datetime-local';").await;
    assert!(
        console
            .text("return document.querySelector('#param-at').value;")
            .await
            .starts_with("2024-01-12T13:46")
    );
    console.has_no_errors().await;
}

/// The row numbers used the remaining width, 480 pixels. In the view of a single row, a long name
/// took 500 pixels from its value.
#[tokio::test]
async fn columns_are_as_wide_as_their_values() {
    let name = "a_name_of_a_column_that_is_much_longer_than_the_two_digits_of_its_values";
    let wide = format!("select 85 as {name}, '{:-<90}' as note", "a long text");
    let files = [
        ("rowstream.toml", CONFIG),
        ("nothing.sql", "create table t (a)"),
        ("endpoints/narrow.sql", "select 85 as n, 'a' as text, null as missing"),
        ("endpoints/wide.sql", &wide),
    ];
    let (server, console) = tokio::join!(Launch::files(&files).start(), Console::start());
    let measure = async |script: &str| console.0.run(script).await;
    let headers = "return [...document.querySelectorAll('rs-table thead th')].map((header) =>
        `${header.innerText} ${getComputedStyle(header).textAlign}`);";
    let widths =
        "return [...document.querySelectorAll('rs-table tbody tr > *')].map((cell) => cell.offsetWidth);";
    let widths = async || serde_json::from_value::<Vec<u32>>(measure(widths).await).expect("widths");
    console.open(server.address(), "/narrow").await;
    console.click("button.run").await;
    console.ended().await;
    assert_eq!(measure(headers).await, json!(["# right", "n right", "text left", "missing left"]));
    let narrow = widths().await;
    assert!(narrow.iter().all(|width| *width < 100) && narrow[0] < 40, "{narrow:?}");
    // Values longer than a column get the remaining width, but long names don't.
    console.open(server.address(), "/wide").await;
    console.click("button.run").await;
    console.ended().await;
    let (wide, room) =
        (widths().await, measure("return document.querySelector('.scroller').clientWidth;").await.as_u64());
    assert!(wide[0] < 40 && Some(u64::from(wide.iter().sum::<u32>())) >= room, "{wide:?} of {room:?}");
    assert!(wide[1] < 420, "{wide:?}");
    console.0.run("document.querySelector('.scroller').focus();").await;
    console.0.press(&format!("{DOWN}{ENTER}")).await;
    console.wait("return document.querySelector('dialog[open] dd') !== null;").await;
    let cells =
        "return ['dt', 'dd'].map((tag) => document.querySelector(`dialog[open] ${tag}`).offsetWidth);";
    let [key, value]: [u32; 2] = serde_json::from_value(measure(cells).await).expect("widths");
    assert!(value > key, "{value} pixels for the value, {key} for its name");
}

/// A table with one row was 500 pixels high, below facts such as "1 rows", "226 rows/s" and a bar
/// for "pool < 1 ms".
#[tokio::test]
async fn a_small_answer_takes_little_room() {
    let (server, console) = tokio::join!(server(), Console::start());
    console.open(server.address(), "/one/{id}?id=4").await;
    console.click("button.run").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "complete", "{result}");
    let height = console.0.run("return document.querySelector('.scroller').offsetHeight;").await;
    assert!(height.as_u64().is_some_and(|height| height < 90), "{height}");
    let facts = "return [...document.querySelectorAll('.fact')].map((fact) => fact.innerText);";
    let facts = console.0.run(facts).await;
    assert_eq!(facts[0], "1 row");
    assert!(!result.contains("rows/s") && !result.contains("pool < 1 ms"), "{result}");
    assert_eq!(
        console.text("return document.querySelector('rs-compare ~ details').innerText;").await,
        "1 column"
    );
    // The expert tools follow the rows.
    let follows = "return document.querySelector('rs-table')
        .compareDocumentPosition(document.querySelector('.result input[type=range]'));";
    assert_eq!(console.0.run(follows).await, 4);
}

/// "347,277 rows of some 4,166 expected": the planner was wrong, and its guess doesn't help
/// readers.
#[tokio::test]
async fn an_estimate_that_was_passed_is_not_shown() {
    let db = TestDb::new().await;
    let config = format!("explain = true\n[source.db]\nurl = \"{}\"\n", db.url());
    let sql =
        "select n, repeat('x', 100) as text from (select generate_series(1, 100000000) as n) as all_of_them
        where n % 7 = abs(n % 7) and n % 5 = abs(n % 5)";
    let files = [("rowstream.toml", config.as_str()), ("endpoints/long.sql", sql)];
    let (server, console) = tokio::join!(Server::start(&files), Console::start());
    console.open(server.address(), "/long").await;
    console.click("button.run").await;
    let explained =
        "return performance.getEntriesByType('resource').some(({ name }) => name.includes('_explain'));";
    console.wait(explained).await;
    let rows = "return Number(document.querySelector('.fact b').innerText.replaceAll(',', '')) > 2500;";
    console.wait(rows).await;
    let result = console.result().await;
    assert!(result.contains("Streaming") && !result.contains("of some"), "{result:.300}");
    console.click("button.stop").await;
    console.ended().await;
}

/// The first page was a slogan without anything to do.
#[tokio::test]
async fn the_first_page_offers_endpoints() {
    let names: Vec<String> = (1..=14).map(|number| format!("endpoints/list{number}.sql")).collect();
    let sql = "/*\nsummary = \"A list\"\n[params]\nid = \"integer\"\n*/\nselect :id as id";
    let base = [("rowstream.toml", CONFIG), ("nothing.sql", "create table t (a)")];
    let files: Vec<(&str, &str)> =
        base.into_iter().chain(names.iter().map(|name| (name.as_str(), sql))).collect();
    let (server, console) = tokio::join!(Launch::files(&files).start(), Console::start());
    console.open(server.address(), "").await;
    let offers = "return [...document.querySelectorAll('main .offers a')].map((offer) => offer.innerText);";
    let offers: Vec<String> = serde_json::from_value(console.0.run(offers).await).expect("texts");
    assert_eq!((offers.len(), offers[0].as_str()), (12, "/list1\nA list\nid"));
    assert!(console.text("return document.querySelector('main').innerText;").await.contains("2 more"));
    console.0.run("document.querySelector('.offers a').focus();").await;
    console.0.press(&ENTER.to_string()).await;
    console.wait("return document.querySelector('h1').innerText === 'GET /list1';").await;
    console.wait("return document.activeElement.id === 'main';").await;
    console.has_no_errors().await;
}

/// `report10` was before `report2`, `/x` and `/x/{id}` were apart, and a summary had four lines. An
/// endpoint with blanks in its name was listed with `%20` and couldn't be opened.
#[tokio::test]
async fn the_list_is_in_an_order_that_people_expect() {
    let summary =
        format!("/*\nsummary = \"{}\"\n*/\nselect 1 as n", "All of its columns, and more. ".repeat(9));
    let by_id = "/*\n[params]\nid = \"integer\"\n*/\nselect :id as id";
    let one = "select 1 as n";
    let files = [
        ("rowstream.toml", CONFIG),
        ("nothing.sql", "create table t (a)"),
        ("endpoints/report10.sql", summary.as_str()),
        ("endpoints/report2.sql", one),
        ("endpoints/report1.sql", one),
        ("endpoints/View With Spaces.sql", one),
        ("endpoints/x-y.sql", one),
        ("endpoints/x/{id}.sql", by_id),
        ("endpoints/x.sql", one),
    ];
    let (server, console) = tokio::join!(Launch::files(&files).start(), Console::start());
    console.open(server.address(), "").await;
    let names = "return [...document.querySelectorAll('nav li code')].map((name) => name.innerText);";
    let expected = ["/report1", "/report2", "/report10", "/View With Spaces", "/x", "/x/{id}", "/x-y"];
    assert_eq!(console.0.run(names).await, json!(expected));
    let height = console.0.run("return document.querySelector('nav li small').offsetHeight;").await;
    assert!(height.as_u64().is_some_and(|height| height < 30), "{height}");
    for (place, title) in
        [("/View%20With%20Spaces", "GET /View With Spaces"), ("/x/{id}?id=1", "GET /x/{id}")]
    {
        console.open(server.address(), place).await;
        console.wait("return document.querySelector('rs-endpoint') !== null;").await;
        assert_eq!(console.text("return document.querySelector('h1').innerText;").await, title);
        let current =
            console.text("return document.querySelector('nav [aria-current] code').innerText;").await;
        assert!(title.ends_with(&current), "{current}");
        console.click("button.run").await;
        let (state, result) = console.ended().await;
        assert_eq!(state, "complete", "{result}");
    }
    console.has_no_errors().await;
}

/// Types had JSON Schema's names, such as `int64` and "decimal or any", and a header lost its
/// spelling.
#[tokio::test]
async fn types_and_headers_are_named_as_in_the_book() {
    let db = TestDb::new().await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let sql = "/*\n[params]\nn = \"integer\"\nids = \"integer[]\"\nat = \"timestamp\"\nj = \"json\"\n\
        tenant = { type = \"text\", in = \"header\", header = \"X-Tenant\" }\n*/\n\
        select :n::int8 as n, 1.5 as d, 1.5::float8 as f, :at::timestamptz as at, now()::timestamp as local, now()::time as t,
            :ids::int[] as ids, :j::json as j, :tenant as tenant";
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/types.sql", sql),
        ("endpoints/plain.sql", "select 1 as n"),
    ];
    let (server, console) = tokio::join!(Server::start(&files), Console::start());
    console.open(server.address(), "/types").await;
    let fields = "return [...document.querySelectorAll('form > .fields label')].map((label) => label.innerText.replaceAll(/\\s+/g, ' '));";
    let expected = ["n* integer", "ids* integer[]", "at* timestamp", "j* json", "X-Tenant* text"];
    assert_eq!(console.0.run(fields).await, json!(expected));
    console.click("rs-compare ~ details summary").await;
    let columns = "return [...document.querySelectorAll('.columns dd')].map((type) => type.innerText);";
    let expected =
        ["integer", "number", "number", "timestamp", "timestamp without zone", "time", "list", "any", "text"];
    assert_eq!(console.0.run(columns).await, json!(expected));
    console.open(server.address(), "/plain").await;
    let form = console.text("return document.querySelector('form').innerText;").await;
    assert!(form.starts_with("This endpoint has no parameters."), "{form}");
    // The request and its copies have the same spelling.
    console.open(server.address(), "/types?X-Tenant=shop").await;
    let curl = console.text("return document.querySelector('.code pre').innerText;").await;
    assert!(curl.contains("-H 'X-Tenant: shop'"), "{curl}");
    console.has_no_errors().await;
}

/// A JSON parameter has no schema in the document, and the page was blank.
#[tokio::test]
async fn a_parameter_of_json_has_a_field() {
    let files = [
        ("rowstream.toml", "[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n"),
        ("t.sql", "create table t (n)"),
        ("endpoints/json.sql", "/*\n[params]\nj = \"json\"\n*/\nselect json_extract(:j, '$.a') as a"),
    ];
    let (server, console) = tokio::join!(Server::start(&files), Console::start());
    console.0.open(&server.url("/_rowstream/#/endpoints/json?j=%7B%22a%22%3A7%7D")).await;
    console.wait("return document.querySelector('button.run') !== null;").await;
    console.click("rs-endpoint button.run").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "complete", "{result}");
    console.has_no_errors().await;
}

/// An endpoint whose list has conditions, in a small table of ten rows.
const FILTERED: &str = "/*\nkey = [\"id\"]\nfilter = true\nsort = true\n*/\n\
    with recursive n(id) as (select 1 union all select id + 1 from n where id < 10)\n\
    select id, 'Nr. ' || id as text from n order by id";

/// A list with conditions that also reads a header.
const OF_TENANT: &str = "/*\nkey = [\"id\"]\nfilter = true\n[params]\n\
    tenant = { type = \"text\", in = \"header\", header = \"X-Tenant\", default = \"shop\" }\n*/\n\
    select 1 as id where :tenant <> ''";

async fn filtered() -> Server {
    let files = [
        ("rowstream.toml", CONFIG),
        ("nothing.sql", "create table t (a)"),
        ("endpoints/list.sql", FILTERED),
        ("endpoints/of-tenant.sql", OF_TENANT),
    ];
    Launch::files(&files).start().await
}

/// The conditions are named `_filters` in the OpenAPI document, and the form had no field for them. Later, a
/// plus sign in the field became a space.
#[tokio::test]
async fn conditions_have_a_field() {
    let (server, console) = tokio::join!(filtered(), Console::start());
    console.open(server.address(), "").await;
    let offer = console.text("return document.querySelector('.offers small').innerText;").await;
    assert!(offer.starts_with("filters, and, or"), "{offer}");
    console.open(server.address(), "/list").await;
    let labels = "return [...document.querySelectorAll('.field label')].map((label) => label.innerText.replaceAll(/\\s+/g, ' '));";
    let labels: Vec<String> = serde_json::from_value(console.0.run(labels).await).expect("texts");
    assert_eq!(labels[0], "filters conditions", "{labels:?}");
    // The description has code in it, not backticks.
    let described = "const more = document.querySelector('.field small');
        return [more.querySelector('code')?.innerText, more.innerText.includes('`')];";
    assert_eq!(console.0.run(described).await, json!(["column=operator.value", false]));
    let enter =
        "const input = document.querySelector('.field input'); input.value = 'id=gte.4&text=neq.Nr. 9';
        input.dispatchEvent(new Event('input'));";
    console.0.run(enter).await;
    console.click("button.run").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "complete", "{result}");
    assert!(result.contains("6 rows"), "{result}");
    console.open(server.address(), "/list?_filters=text%3Dneq.%2B41").await;
    let curl = console.text("return document.querySelector('.code pre').textContent;").await;
    assert!(curl.contains("/list?text=neq.%2B41&_format="), "{curl}");
    console.has_no_errors().await;
}

/// The console neither sorts nor links rows. The server's page of the same list does, but the console
/// only showed its source.
#[tokio::test]
async fn a_list_opens_as_a_page() {
    let (server, plain, console) = tokio::join!(filtered(), server(), Console::start());
    console.open(server.address(), "/list?order=id.desc").await;
    let formats = console.text("return document.querySelector('form .actions select').innerText;").await;
    assert!(formats.contains("CSV") && !formats.to_lowercase().contains("html"), "{formats}");
    console.0.run("window.open = (url) => { window.opened = String(url); };").await;
    click_button(&console, "Open as a page").await;
    let url = console.text("return window.opened;").await;
    assert_eq!(url, server.url("/list?order=id.desc&_format=html"));
    let page = get(&url).await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{}", page.text());
    // A page can't be opened with a header, and was opened without it.
    let obstacle = "const found = [...document.querySelectorAll('button')]
            .find((button) => button.innerText.startsWith('Open as a page'));
        return [found.disabled, found.title.includes('X-Tenant')];";
    for (place, is_disabled) in [("/of-tenant", false), ("/of-tenant?X-Tenant=other", true)] {
        console.open(server.address(), place).await;
        assert_eq!(console.0.run(obstacle).await, json!([is_disabled, is_disabled]), "{place}");
    }
    // Lists without conditions have no page.
    console.open(plain.address(), "/rows").await;
    let offers = "return document.querySelector('header.title').innerText.includes('page');";
    assert_eq!(console.0.run(offers).await, false);
}

/// The list of endpoints at `/` had no link to an endpoint whose path needs a value.
#[tokio::test]
async fn the_list_of_endpoints_leads_to_their_forms() {
    let (server, console) = tokio::join!(server(), Console::start());
    for name in ["GET /one/{id}", "GET /rows"] {
        console.0.open(&server.url("/")).await;
        let link =
            format!("[...document.querySelectorAll('h2 a')].find((link) => link.innerText === '{name}')");
        assert_eq!(console.0.run(&format!("return {link} !== undefined;")).await, true, "{name}");
        console.0.run(&format!("{link}.click();")).await;
        console.wait("return document.querySelector('rs-endpoint form') !== null;").await;
        assert_eq!(console.text("return document.querySelector('h1').innerText;").await, name);
    }
}

/// A token gives access, and is never displayed.
#[tokio::test]
async fn a_token_is_entered_and_not_shown() {
    let (token, hash) =
        ("a-token-of-the-console", "52f7bab45ed08d24c9e634b27aad9f939e53c82b5da7aba72270336e3e378b8e");
    let settings = format!("authorization = [\"reader\"]\n[token.reader]\nsha256 = \"{hash}\"\n");
    let (server, console) = tokio::join!(server_with(&settings), Console::start());
    console.0.open(&server.url("/_rowstream/")).await;
    console.wait("return document.body.innerText.includes('No endpoint is open to everybody.');").await;
    click_button(&console, "Enter a token").await;
    let enter = |token: &str| {
        format!(
            "document.querySelector('#token').value = {token:?};
             document.querySelector('dialog.token button.run').click(); return true;"
        )
    };
    console.0.run(&enter("wrong")).await;
    console.wait("return document.body.innerText.includes('Your token opens no endpoint');").await;
    console.wait("return document.body.innerText.includes('Token ✗');").await;
    click_button(&console, "Enter a token").await;
    console.0.run(&enter(token)).await;
    console.wait("return document.body.innerText.includes('Token ✓');").await;
    console.wait("return document.querySelectorAll('nav li').length === 2;").await;
    console.click("nav li a[href$='rows']").await;
    console.wait("return document.querySelector('button.run') !== null;").await;
    console.click("rs-endpoint button.run").await;
    let (state, result) = console.ended().await;
    assert_eq!(state, "complete", "{result}");
    let seen = console.text("return location.href + document.documentElement.outerHTML;").await;
    assert!(!seen.contains(token), "the page shows the token");
    console.has_no_errors().await;
}

#[tokio::test]
async fn all_of_it_is_downloaded() {
    let (server, console) = tokio::join!(server(), Console::start());
    let folder = tempfile::tempdir().expect("a folder");
    let behaviour = json!({"behavior": "allow", "downloadPath": folder.path()});
    console.0.devtools("Page.setDownloadBehavior", behaviour).await;
    console.open(server.address(), "/rows?count=30000&_format=csv").await;
    click_button(&console, "Download").await;
    let file = folder.path().join("rows.csv");
    wait_until("the file is downloaded", async || file.is_file()).await;
    let text = std::fs::read_to_string(&file).expect("text");
    assert_eq!(text.lines().count(), 1 + 30_000);
    assert!(
        text.ends_with("\r\n30000,9007199254770993,,a text that takes its room\r\n"),
        "{}",
        &text[text.len() - 80..]
    );
}

#[tokio::test]
async fn packages_axe_finds_nothing_serious() {
    let packages = std::env::var("ROWSTREAM_TEST_CONSOLE").expect("run `cargo xtask test`");
    let axe = std::fs::read_to_string(Path::new(&packages).join("axe-core/axe.min.js")).unwrap();
    let (server, console) = tokio::join!(server_with("explain = true\n"), Console::start());
    for (scheme, width) in [("light", 1200), ("dark", 1200), ("dark", 390)] {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        console.0.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 1000});
        console.0.devtools("Emulation.setDeviceMetricsOverride", size).await;
        for (place, runs) in [("", false), ("/rows?count=50", true), ("/one/{id}?id=x", true)] {
            console.open(server.address(), place).await;
            if runs {
                console.click("button.run").await;
                console.ended().await;
                console.click("rs-plan summary").await;
                console.click("rs-plan button").await;
                console
                    .wait("return document.querySelector('rs-plan pre, rs-plan .problem') !== null;")
                    .await;
            }
            let check = format!(
                "{axe}; return axe.run().then(({{ violations }}) => violations.map(({{ id, impact, nodes }}) =>
                    `${{id}} (${{impact}}): ${{nodes.map((node) => node.html).join(' ')}}`));"
            );
            assert_eq!(console.0.run(&check).await, json!([]), "{scheme}, {width} wide, {place}");
        }
    }
}

/// Screenshots of the authors example, to review changes of the design and for the documents, which
/// use `rows-light-1280` and `rows-dark-1280` in `docs/src/pictures`:
/// `ROWSTREAM_TEST_PICTURES=FOLDER cargo test --test it -- --ignored console::pictures`.
#[tokio::test]
#[ignore = "it asserts nothing, and writes files"]
async fn pictures() {
    let folder = PathBuf::from(std::env::var_os("ROWSTREAM_TEST_PICTURES").expect("a folder"));
    let database = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", database.path().join("authors.db").display());
    let example = repository().join("examples/authors");
    let server = Launch::folder(example).release().variable("AUTHORS_URL", &url).start();
    let (server, console) = tokio::join!(server, Console::start());
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)] {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        console.0.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
        let size = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 1000});
        console.0.devtools("Emulation.setDeviceMetricsOverride", size).await;
        for (name, place) in [("rows", "/authors"), ("problem", "/authors/{id}?id=x")] {
            console.open(server.address(), place).await;
            console.click("button.run").await;
            console.ended().await;
            console.0.run("scrollTo(0, 0);").await;
            console.picture(&folder, &format!("{name}-{scheme}-{width}")).await;
        }
        console.open(server.address(), "/authors").await;
        console.click("rs-compare summary").await;
        console.click("rs-compare button").await;
        console.wait("return document.querySelectorAll('rs-compare thead th').length === 2;").await;
        console.0.run("document.querySelector('rs-compare').scrollIntoView({ block: 'center' });").await;
        console.picture(&folder, &format!("compare-{scheme}-{width}")).await;
        console.0.open(&server.url("/_rowstream/#/live")).await;
        console.wait("return document.querySelector('rs-live .charts') !== null;").await;
        console.picture(&folder, &format!("live-{scheme}-{width}")).await;
    }
}
