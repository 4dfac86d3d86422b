//! The articles page and an `EventSource` in a real browser. Rows are visible before the last one
//! has arrived, a truncated response is never shown as complete, and a cut stream is resumed.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{Browser, Cut, Faults, Launch, Pieces, Server, TcpProxy, program, wait_until};
use crate::worked;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The articles page in a browser.
struct Page(Browser);

impl Page {
    async fn start() -> Self {
        Self(Browser::start().await)
    }

    /// Opens the articles page, with its endpoint at `address`.
    async fn open_articles(&self, address: &str) {
        let page = worked::example("articles").join("page.html");
        self.0.open(&format!("file://{}?url=http://{address}/articles", page.display())).await;
    }

    /// Reads the current state of the page.
    async fn seen(&self) -> Seen {
        let seen = self
            .0
            .run(
                "const at = (id) => document.getElementById(id);
                 const shown = Array.from(at('body').children, (row) => Number(row.firstChild.textContent));
                 return { state: at('state').textContent, kind: at('state').className, shown,
                          rows: Number(at('rows').textContent.replaceAll(/[^0-9]/g, '')),
                          button: at('button').textContent };",
            )
            .await;
        let text = |name: &str| seen[name].as_str().unwrap_or_else(|| panic!("{seen}")).to_owned();
        Seen {
            state: text("state"),
            kind: text("kind"),
            button: text("button"),
            rows: seen["rows"].as_u64().expect("a number"),
            shown: seen["shown"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect(),
        }
    }

    /// Waits until the page shows the wanted state. `check` also checks all states until then.
    async fn wait(&self, wanted: impl Fn(&Seen) -> bool, check: impl Fn(&Seen)) -> Seen {
        wait_until("the page shows it", async || {
            let seen = self.seen().await;
            check(&seen);
            if wanted(&seen) { Ok(seen) } else { Err(format!("{seen:?}")) }
        })
        .await
    }
}

/// The page as a user sees it.
#[derive(Debug)]
struct Seen {
    state: String,
    kind: String,
    button: String,
    /// The number that it shows.
    rows: u64,
    /// The numbers of the articles in the table.
    shown: Vec<u64>,
}

async fn articles() -> (Server, TempDir) {
    let folder = worked::filled("articles", program()).await;
    let server = Launch::folder(folder.path()).argument("--log-format=off").start().await;
    (server, folder)
}

fn address(server: &Server) -> SocketAddr {
    server.address().parse().expect("an address")
}

/// The whole response has 20 MB. This is some 4,000 rows.
const SOME: u64 = 1_000_000;

#[tokio::test]
async fn the_page_shows_rows_before_the_end_and_says_complete_at_the_end() {
    let ((server, _folder), browser) = tokio::join!(articles(), Page::start());
    let stall = Faults { stall_after: Some(SOME), ..Faults::default() };
    let proxy = TcpProxy::to_client(address(&server), stall).await;
    browser.open_articles(&proxy.address().to_string()).await;

    // The rest hasn't even left the proxy.
    let seen = browser.wait(|seen| seen.rows > 1000 && seen.shown.len() == 200, |_| {}).await;
    assert!(seen.rows < 100_000, "{seen:?}");
    assert_eq!((seen.kind.as_str(), seen.state.as_str(), seen.button.as_str()), ("", "reading…", "Stop"));

    proxy.resume();
    let seen = browser.wait(|seen| seen.button == "Read", |_| {}).await;
    assert_eq!((seen.kind.as_str(), seen.state.as_str()), ("complete", "complete: 100000 of 100000"));
    assert_eq!(seen.shown, (99_801..=100_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_page_says_that_an_answer_broke_off_and_never_that_it_is_complete() {
    let ((server, _folder), browser) = tokio::join!(articles(), Page::start());
    for cut in [Cut::Close, Cut::Reset] {
        // After a reset, a browser loses unread bytes. With the pauses it has read most of them.
        let pieces = Some(Pieces { bytes: 16 * 1024, pause: Duration::from_millis(2) });
        let faults = Faults { pieces, cut: Some((SOME, cut)), ..Faults::default() };
        let proxy = TcpProxy::to_client(address(&server), faults).await;
        broke_off(&browser, &proxy.address().to_string(), 100).await;
    }
    // A proxy that turns a cut into a clean end, so that only the document shows it.
    broke_off(&browser, &half_an_answer().await.to_string(), 2).await;
}

async fn broke_off(browser: &Page, address: &str, at_least: u64) {
    browser.open_articles(address).await;
    let never_complete =
        |seen: &Seen| assert!(!seen.state.starts_with("complete") && seen.kind != "complete", "{seen:?}");
    let seen = browser.wait(|seen| seen.button == "Read", never_complete).await;
    assert_eq!(seen.kind, "broken", "{seen:?}");
    assert!(seen.state.starts_with(&format!("truncated after {} rows: ", seen.rows)), "{seen:?}");
    assert!((at_least..100_000).contains(&seen.rows), "{seen:?}");
    assert_eq!(seen.shown.last(), Some(&seen.rows), "the last row that came is seen");
}

/// The code that a page needs to read a list. It doesn't know about cursors.
const EVENT_SOURCE: &str = "
    window.seen = { ids: [], opened: 0, closed: false };
    const source = new EventSource('/rows.sse');
    source.onopen = () => { seen.opened += 1; };
    source.onmessage = (event) => { seen.ids.push(JSON.parse(event.data).id); };
    source.onerror = () => { seen.closed = source.readyState === EventSource.CLOSED; };";

#[tokio::test]
async fn an_event_source_goes_on_behind_its_last_row_and_stops_at_the_end() {
    let rows = "/* key = [\"id\"] */ with recursive n(id) as (select 1 union all select id + 1 from n where id < 3000)
                select id, 'a text that takes its room on the wire' as text from n order by id";
    let config = "[source.db]\nurl = \"sqlite:test.db\"\ncreate = [\"nothing.sql\"]";
    let files =
        [("rowstream.toml", config), ("endpoints/rows.sql", rows), ("nothing.sql", "create table t (a)")];
    let (server, browser) = tokio::join!(Server::start(&files), Browser::start());
    let faults = Faults { cut: Some((200_000, Cut::Close)), ..Faults::default() };
    let proxy = TcpProxy::to_client(address(&server), faults).await;
    browser.open(&format!("http://{}/_rowstream/live", proxy.address())).await;
    browser.run(EVENT_SOURCE).await;
    let seen = wait_until("it's closed", async || {
        let seen = browser.run("return seen;").await;
        let events = seen["ids"].as_array().map_or(0, Vec::len);
        let other = format!("{events} events, opened {} times", seen["opened"]);
        if seen["closed"] == true { Ok(seen) } else { Err(other) }
    })
    .await;
    let ids: Vec<u64> = seen["ids"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert!(
        ids == (1..=3000).collect::<Vec<_>>(),
        "{} events, of which the last is {:?}",
        ids.len(),
        ids.last()
    );
    assert!(seen["opened"].as_u64() >= Some(2), "{}", seen["opened"]);
}

/// A server whose body ends normally in the middle of the document.
async fn half_an_answer() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let body = r#"{"_embedded":{"articles":[{"id":1},{"id":2},{"id"#;
            let head = "HTTP/1.1 200 OK\r\naccess-control-allow-origin: *\r\ncontent-type: application/json";
            let answer =
                format!("{head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            tokio::spawn(async move {
                drop(socket.read(&mut [0; 4096]).await);
                drop(socket.write_all(answer.as_bytes()).await);
            });
        }
    });
    address
}
