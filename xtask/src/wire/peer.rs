//! The peer that plays scripts to clients.
//!
//! It checks the requests. It can't see what a client makes of the responses, so the client's
//! runner compares its report with the script's `expect`. A test includes this file too, so this
//! depends on nothing else here.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::script::{End, Exchange, Expected, Script, Step};

/// The longest request head.
const MAX_HEAD: usize = 16 << 10;
/// The most connections at a time.
const MAX_CONNECTIONS: usize = 256;
/// The most requests that the results list for a script.
const MAX_REQUESTS: usize = 100;
/// A connection on which the client neither sends nor takes anything is closed after this time.
const PATIENCE: Duration = Duration::from_secs(60);

type Result<T> = std::result::Result<T, String>;

struct Request {
    method: String,
    /// The name of the script.
    script: String,
    /// The path below it, without the query.
    path: String,
    target: String,
    query: HashMap<String, String>,
    headers: HashMap<String, String>,
}

impl Request {
    fn read(head: &[u8]) -> Option<Self> {
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let (script, path) = path.strip_prefix('/')?.split_once('/').unwrap_or((&path[1..], ""));
        let (script, path) = (script.to_owned(), format!("/{path}"));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let query = pairs.map(|(name, value)| (decoded(name), decoded(value))).collect();
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect();
        Some(Self { method, script, path, query, headers, target })
    }

    /// The differences from the expected request.
    fn mismatches(&self, expected: &Expected) -> Vec<String> {
        let mut found = Vec::new();
        for (seen, expected) in [(&self.method, &expected.method), (&self.path, &expected.path)] {
            if seen != expected {
                found.push(format!("{seen} isn't expected; send {expected}"));
            }
        }
        for (name, expected) in &expected.query {
            let seen = self.query.get(name);
            if seen != expected.as_ref() {
                found.push(difference("parameter", name, expected.as_deref(), seen));
            }
        }
        for (name, expected) in &expected.headers {
            let seen = self.headers.get(name);
            let is_part = |expected: &String| seen.is_some_and(|seen| seen.contains(expected));
            if !expected.as_ref().map_or(seen.is_none(), is_part) {
                found.push(difference("header", name, expected.as_deref(), seen));
            }
        }
        found
    }
}

fn difference(kind: &str, name: &str, expected: Option<&str>, seen: Option<&String>) -> String {
    let seen = seen.map_or("is missing".to_owned(), |seen| format!("is {seen:?}"));
    let remedy = expected.map_or("leave it out".to_owned(), |expected| format!("send {expected:?}"));
    format!("the {kind} {name} {seen}; {remedy}")
}

/// Sends the bytes of a step, or waits.
fn play(step: &Step, mut stream: &TcpStream) -> io::Result<()> {
    match step {
        Step::Send(text) => stream.write_all(text.as_bytes()),
        Step::SendBase64(bytes) => stream.write_all(&bytes.0),
        Step::Chunk(data) => stream.write_all(format!("{:x}\r\n{data}\r\n", data.len()).as_bytes()),
        Step::Repeat { times, step } => (0..*times).try_for_each(|_| play(step, stream)),
        Step::PauseMs(pause) => {
            thread::sleep(Duration::from_millis(*pause).min(PATIENCE));
            Ok(())
        }
    }
}

/// A part of a query without its percent-encoding.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The requests of one script.
#[derive(Default)]
struct Played {
    requests: Vec<String>,
    mismatches: Vec<String>,
    /// The time of the last request.
    last: Option<Instant>,
}

struct Peer {
    scripts: Vec<Script>,
    played: Mutex<BTreeMap<String, Played>>,
    connections: AtomicUsize,
}

/// Plays the scripts to all connections. Returns only if it can't accept connections.
pub(crate) fn serve(listener: &TcpListener, scripts: Vec<Script>) -> Result<()> {
    let played = scripts.iter().map(|script| (script.name.clone(), Played::default())).collect();
    let peer = Arc::new(Peer { scripts, played: Mutex::new(played), connections: AtomicUsize::new(0) });
    loop {
        let (stream, _) =
            listener.accept().map_err(|error| format!("cannot accept a connection: {error}"))?;
        if peer.connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            peer.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let peer = peer.clone();
        thread::spawn(move || {
            // An error is the client's way to end a connection.
            drop(peer.converse(&stream));
            peer.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

impl Peer {
    /// Answers the requests of a connection.
    fn converse(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        while let Some(request) = head(stream)? {
            let exchange = if request.script == "_results" { None } else { self.exchange(&request) };
            // The system resets a connection that's closed with an unread byte.
            if exchange.is_none_or(|exchange| exchange.end != End::Reset) {
                stream.read_exact(&mut [0])?;
            }
            let Some(exchange) = exchange else { return self.answer(stream, &request) };
            exchange.response.iter().try_for_each(|step| play(step, stream))?;
            match exchange.end {
                End::Keep => {}
                End::Close | End::Reset => break,
                End::Silence => return stream.read(&mut [0]).map(drop),
            }
        }
        Ok(())
    }

    /// The exchange of a request, after a note of the request. `None` if the script has no more.
    fn exchange(&self, request: &Request) -> Option<&Exchange> {
        let script = self.scripts.iter().find(|script| script.name == request.script)?;
        let mut played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
        let played = played.get_mut(&script.name)?;
        let at = played.requests.len();
        if at == MAX_REQUESTS {
            return None;
        }
        played.requests.push(format!("{} {}", request.method, request.target));
        let exchange = script.exchanges.get(at);
        let mut found = exchange.map_or_else(
            || vec!["the script has no further exchange; stop after the last one".to_owned()],
            |exchange| request.mismatches(&exchange.request),
        );
        let elapsed = played.last.replace(Instant::now()).map_or(Duration::MAX, |last| last.elapsed());
        let wait = Duration::from_millis(exchange.map_or(0, |exchange| exchange.request.after_ms));
        if elapsed < wait {
            found.push(format!("it's too early; wait {} ms", wait.as_millis()));
        }
        played.mismatches.extend(found.into_iter().map(|found| format!("request {}: {found}", at + 1)));
        exchange
    }

    /// Answers a request outside the scripts: the results, or a 404.
    fn answer(&self, mut stream: &TcpStream, request: &Request) -> io::Result<()> {
        let (status, body) = match request.script.as_str() {
            "_results" => ("200 OK", self.results()),
            _ => ("404 Not Found", json!({"detail": "no script has such an exchange; see /_results"})),
        };
        let body = body.to_string();
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close");
        write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    fn results(&self) -> Value {
        let played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
        let result = |(name, played): (&String, &Played)| {
            (name.clone(), json!({"requests": played.requests, "mismatches": played.mismatches}))
        };
        Value::Object(played.iter().map(result).collect())
    }
}

/// Reads a request up to the last byte of its empty line, which stays unread. `None` at the end of
/// the connection, or if the request is wrong or too long.
fn head(mut stream: &TcpStream) -> io::Result<Option<Request>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r") {
        if head.len() == MAX_HEAD || stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    Ok(Request::read(&head))
}
