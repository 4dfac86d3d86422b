//! `rowstream ready`: asks a server whether requests should come to it, for health checks where
//! there is no other HTTP client, such as in a container.
//!
//! It speaks HTTP/1.0, whose answers end with their connection, and believes nothing of whoever
//! answers: so many bytes within so much time, and one line of them is shown.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use http::Uri;

use super::Failure;
use crate::log::text::{bounded, one_line};

/// The path where a URL has none.
const READY: &str = "/_rowstream/ready";
/// The longest answer that is read, in bytes.
const MOST: usize = 64 * 1024;
/// What is shown of the reason, in bytes.
const MOST_SHOWN: usize = 500;

/// Asks whether a server is ready; exit status 0: yes, 1: no.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The server: http://HOST:PORT. With a path, this is asked instead of /_rowstream/ready.
    #[arg(default_value = "http://127.0.0.1:8080")]
    url: Uri,
    /// How many seconds it may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let address = address(&args.url)?;
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    let path = match args.url.path_and_query() {
        Some(path) if path != "/" => path.as_str(),
        _ => READY,
    };
    let why_not = match ask(&address, path, deadline).and_then(|answer| Answer::read(&answer)) {
        Ok(Answer { status: 200, .. }) => {
            println!("ready");
            return Ok(());
        }
        Ok(answer) => answer.reason(),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            format!("{address}: no answer within {}s", args.timeout)
        }
        Err(error) => format!("{address}: {error}"),
    };
    println!("not ready: {why_not}");
    Err(Failure::Reported)
}

/// `HOST:PORT` of a URL.
fn address(url: &Uri) -> Result<String, Failure> {
    let (Some("http"), Some(host)) = (url.scheme_str(), url.host()) else {
        return Err(Failure::Message(format!(
            "{url} is no URL of a server\n    hint: write http://HOST:PORT; a server of TLS answers at its `admin_listen`"
        )));
    };
    Ok(format!("{host}:{}", url.port_u16().unwrap_or(80)))
}

fn ask(address: &str, path: &str, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut stream = connect(address, deadline)?;
    stream.set_write_timeout(Some(left(deadline)?))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nUser-Agent: rowstream-ready\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while answer.len() < MOST {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut piece)? {
            0 => break,
            length => answer.extend_from_slice(&piece[..length]),
        }
    }
    Ok(answer)
}

/// Connects to the first address of a name that can be connected to.
fn connect(address: &str, deadline: Instant) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// The time that is left, which is some.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// What a server answered.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: String,
}

impl Answer {
    fn read(answer: &[u8]) -> io::Result<Self> {
        let text = String::from_utf8_lossy(answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status =
            head.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.get(..3)?.parse().ok());
        let Some(status) = status else { return Err(io::Error::other("no answer in HTTP/1")) };
        Ok(Self { status, body: body.to_owned() })
    }

    /// Why not, in one line: what a problem document says, or the status.
    fn reason(&self) -> String {
        let problem: Option<serde_json::Value> = serde_json::from_str(&self.body).ok();
        let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str());
        match detail {
            Some(detail) => one_line(bounded(detail, MOST_SHOWN)).into_owned(),
            None => format!("status {}", self.status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let read =
            |text: &str| Answer::read(text.as_bytes()).map(|answer| (answer.status, answer.reason())).ok();
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\n\r\nok\n", Some((200, "status 200"))),
            ("HTTP/1.0 404 Not Found\r\na: b\r\n\r\n{}", Some((404, "status 404"))),
            ("HTTP/1.1 503\r\n\r\n{\"detail\":\"a\\nb\"}", Some((503, "a\u{fffd}b"))),
            ("HTTP/1.1 2", None),
            ("SSH-2.0\r\n", None),
            ("", None),
        ] {
            assert_eq!(read(text), expected.map(|(status, reason)| (status, reason.to_owned())), "{text:?}");
        }
    }
}
