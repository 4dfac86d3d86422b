//! A real browser: headless Chromium, driven over W3C WebDriver.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Client;

/// Quiet, and without Chromium's own background traffic.
const FLAGS: [&str; 7] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// WebDriver's code for the key.
pub const TAB: char = '\u{e004}';
/// WebDriver's code for the key.
pub const ENTER: char = '\u{e007}';
/// WebDriver's code for the key.
pub const DOWN: char = '\u{e015}';
/// WebDriver's code for the key.
pub const BACKSPACE: char = '\u{e003}';

/// A browser with one window. Dropping it ends it.
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    _profile: TempDir,
}

impl Browser {
    pub async fn start() -> Self {
        Self::start_with(&["--disable-quic"]).await
    }

    /// Starts it with additional flags.
    pub async fn start_with(flags: &[&str]) -> Self {
        let (driver, port) = start_driver();
        let profile = tempfile::tempdir().expect("a temporary folder");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut browser = Self { driver, address, session: String::new(), _profile: profile };
        browser.open_session(flags).await;
        browser
    }

    async fn open_session(&mut self, flags: &[&str]) {
        let profile = format!("--user-data-dir={}", self._profile.path().display());
        let own = [profile.as_str(), "--window-size=1200,900"];
        let arguments: Vec<&str> = FLAGS.into_iter().chain(own).chain(flags.iter().copied()).collect();
        let options = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
            // The default is half a minute, which a loaded machine exceeds.
            "timeouts": { "script": 300_000 },
        });
        let opened = self.post("/session", &json!({ "capabilities": { "alwaysMatch": options } })).await;
        let id = opened["sessionId"].as_str();
        self.session = id.unwrap_or_else(|| panic!("no browser, run `cargo xtask test`: {opened}")).into();
    }

    /// Sends a command and returns its `value`.
    async fn post(&self, path: &str, body: &Value) -> Value {
        let request = Request::post(format!("http://{}{path}", self.address))
            .header("content-type", "application/json");
        let reply = Client::HTTP1.send(request.body(body.to_string()).expect("the path is one")).await;
        reply.json()["value"].take()
    }

    /// Sends a command of the window and returns its `value`.
    async fn ask(&self, what: &str, body: &Value) -> Value {
        self.post(&format!("/session/{}/{what}", self.session), body).await
    }

    /// Presses keys one after another. Keys other than letters are WebDriver's codes, such as
    /// [`TAB`].
    pub async fn press(&self, keys: &str) {
        let press =
            |key: char| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})];
        let actions: Vec<_> = keys.chars().flat_map(press).collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.ask("actions", &json!({ "actions": [keyboard] })).await;
    }

    /// The entries in the developer tools' console since the last call.
    pub async fn log(&self) -> Vec<String> {
        let log = self.ask("se/log", &json!({"type": "browser"})).await;
        let text = |entry: &Value| entry["message"].as_str().unwrap_or_default().to_owned();
        log.as_array().expect("a list").iter().map(text).collect()
    }

    /// Sends a command of the developer tools' protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.ask("goog/cdp/execute", &json!({"cmd": command, "params": parameters})).await
    }

    /// Opens a page.
    pub async fn open(&self, url: &str) {
        self.ask("url", &json!({ "url": url })).await;
    }

    /// Runs a script in the page. Returns its result, or the result of its promise.
    pub async fn run(&self, script: &str) -> Value {
        let body = json!({ "script": script, "args": [] });
        self.ask("execute/sync", &body).await
    }
}

/// A driver and its port. The system chooses a port that's free in IPv6. If it's used in IPv4, the
/// driver ends and we start another.
fn start_driver() -> (Child, u16) {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    for _ in 0..10 {
        let mut driver = command.spawn().expect("chromedriver is installed: run `cargo xtask test`");
        if let Some(port) = read_port(&mut driver) {
            return (driver, port);
        }
        drop(driver.wait());
    }
    panic!("chromedriver does not start: run `cargo xtask test`")
}

/// Parses the port from the driver's output. A thread reads the rest, so that the pipe never fills.
fn read_port(driver: &mut Child) -> Option<u16> {
    let mut lines = BufReader::new(driver.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let port = lines.by_ref().find_map(|line| {
        let (_, port) = line.split_once("started successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    });
    std::thread::spawn(move || lines.for_each(drop));
    port
}

impl Drop for Browser {
    /// Closes the session first, because a killed driver leaves its browser behind.
    fn drop(&mut self) {
        let close = || {
            let mut socket = TcpStream::connect(self.address)?;
            socket.set_read_timeout(Some(Duration::from_secs(10)))?;
            let request =
                format!("DELETE /session/{} HTTP/1.1\r\nHost: {}\r\n\r\n", self.session, self.address);
            socket.write_all(request.as_bytes())?;
            socket.read(&mut [0; 1])
        };
        drop(close());
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}
