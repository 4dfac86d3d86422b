//! `rowstream ready`: asks a server whether requests should come to it, for health checks where
//! there is no other HTTP client, such as in a container.
//!
//! It speaks HTTP/1.0, whose answers end with their connection, and believes nothing of whoever
//! answers: so many bytes within so much time, and one line of them is shown.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Uri;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::Failure;
use crate::log::text::{bounded, one_line};
use crate::tls::servers::{self, Roots, Trust};

/// The path where a URL has none.
const READY: &str = "/_rowstream/ready";
/// The longest answer that is read, in bytes.
const MOST: usize = 64 * 1024;
/// What is shown of the reason, in bytes.
const MOST_SHOWN: usize = 500;

/// Asks whether a server is ready; exit status 0: yes, 1: no.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The server: http://HOST:PORT or https://HOST:PORT. With a path, this is asked instead of
    /// /_rowstream/ready.
    #[arg(default_value = "http://127.0.0.1:8080")]
    url: Uri,
    /// How many seconds it may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// A PEM file of authorities that the server's certificate may be of, instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let server = Server::read(args)?;
    let path = match args.url.path_and_query() {
        Some(path) if path != "/" => path.as_str(),
        _ => READY,
    };
    let why_not = match server.ask(path).and_then(|answer| Answer::read(&answer)) {
        Ok(Answer { status: 200, .. }) => {
            println!("ready");
            return Ok(());
        }
        Ok(answer) => answer.reason(),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            format!("{}: no answer within {}s", server.address, args.timeout)
        }
        Err(error) => format!("{}: {error}", server.address),
    };
    println!("not ready: {why_not}");
    Err(Failure::Reported)
}

/// Who is asked.
struct Server {
    /// `HOST:PORT`.
    address: String,
    /// Where TLS is spoken: how, and whose certificate it has to be.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    deadline: Instant,
}

impl Server {
    fn read(args: &Args) -> Result<Self, Failure> {
        let url = &args.url;
        let (is_tls, host) = match (url.scheme_str(), url.host()) {
            (Some("http"), Some(host)) => (false, host),
            (Some("https"), Some(host)) => (true, host),
            _ => {
                let message = format!("{url} is no URL of a server\n    hint: write http://HOST:PORT");
                return Err(Failure::Message(message));
            }
        };
        let unusable = |error: &dyn Display| Failure::Message(format!("{url} cannot be asked: {error}"));
        let tls = match is_tls {
            false => None,
            true => {
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
                let name = name.map_err(|error| unusable(&error))?;
                Some((trust(args.ca.as_deref()).map_err(|error| unusable(&error))?, name))
            }
        };
        let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let deadline = Instant::now() + Duration::from_secs(args.timeout);
        Ok(Self { address: format!("{host}:{port}"), tls, deadline })
    }

    fn ask(&self, path: &str) -> io::Result<Vec<u8>> {
        let stream = Timed { stream: connect(&self.address, self.deadline)?, deadline: self.deadline };
        let Some((config, name)) = &self.tls else { return exchange(stream, &self.address, path) };
        let session = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        exchange(StreamOwned::new(session, stream), &self.address, path).map_err(servers::in_words)
    }
}

/// How TLS is spoken with servers of these authorities.
pub(super) fn trust(ca: Option<&Path>) -> Result<Arc<ClientConfig>, Box<dyn Error>> {
    Ok(Arc::new(servers::client(Trust::Host(Roots::read(ca)?))?))
}

/// Asks for a path; the answer, to its end.
fn exchange(mut stream: impl Read + Write, host: &str, path: &str) -> io::Result<Vec<u8>> {
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: rowstream-ready\r\n\r\n")?;
    stream.flush()?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while answer.len() < MOST {
        match stream.read(&mut piece) {
            Ok(0) => break,
            // Without its `close_notify`; what there is may be all.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            length => answer.extend_from_slice(&piece[..length?]),
        }
    }
    Ok(answer)
}

/// A connection that takes no longer than it may.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        self.stream.read(bytes)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
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
