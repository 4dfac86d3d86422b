//! `rowstream ready`: asks a server if it's ready for requests, for health checks without another
//! HTTP client, as in a container.
//!
//! It speaks HTTP/1.0, whose responses end with their connection. It doesn't trust the peer: the
//! length and the time of the response are limited, and only one line of it is shown.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Uri;
use rowstream_core::log::text::{bounded, one_line};
use rowstream_core::tls::servers::{self, Roots, Trust};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::Failure;

/// The path if the URL has none.
const READY: &str = "/_rowstream/ready";
/// The longest response that we read, in bytes.
const MOST: usize = 64 * 1024;
/// The longest reason that we show, in bytes.
const MOST_SHOWN: usize = 500;

/// Checks if a server is ready. Exit status 0: yes, 1: no.
#[derive(Debug, clap::Args)]
pub(super) struct ReadyArgs {
    /// The server: http://HOST:PORT or https://HOST:PORT. A path replaces /_rowstream/ready.
    #[arg(default_value = "http://127.0.0.1:8080")]
    url: Uri,
    /// The time limit in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// A PEM file of the authorities to trust for the server's certificate, instead of the
    /// system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

pub(super) fn run(args: &ReadyArgs) -> Result<(), Failure> {
    let server = Server::read(args)?;
    let path = match args.url.path_and_query() {
        Some(path) if path != "/" => path.as_str(),
        _ => READY,
    };
    let why_not = match server.ask(path).and_then(|answer| ReadyResponse::read(&answer)) {
        Ok(ReadyResponse { status: 200, .. }) => {
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

/// The server.
struct Server {
    /// `HOST:PORT`.
    address: String,
    /// The TLS settings and the name in its certificate, if the URL is https.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    deadline: Instant,
}

impl Server {
    fn read(args: &ReadyArgs) -> Result<Self, Failure> {
        let url = &args.url;
        let (is_tls, host) = match (url.scheme_str(), url.host()) {
            (Some("http"), Some(host)) => (false, host),
            (Some("https"), Some(host)) => (true, host),
            _ => {
                let message = format!("{url} isn't the URL of a server\n    hint: write http://HOST:PORT");
                return Err(Failure::Message(message));
            }
        };
        let unusable = |error: &dyn Display| Failure::Message(format!("{url} can't be reached: {error}"));
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
        let stream =
            TimedConnection { stream: connect(&self.address, self.deadline)?, deadline: self.deadline };
        let Some((config, name)) = &self.tls else { return exchange(stream, &self.address, path) };
        let session = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        exchange(StreamOwned::new(session, stream), &self.address, path).map_err(servers::in_words)
    }
}

/// The TLS settings for servers whose certificates are from these authorities.
pub(super) fn trust(ca: Option<&Path>) -> Result<Arc<ClientConfig>, Box<dyn Error>> {
    Ok(Arc::new(servers::client(Trust::Host(Roots::read(ca)?))?))
}

/// Requests a path, and reads the response to its end.
fn exchange(mut stream: impl Read + Write, host: &str, path: &str) -> io::Result<Vec<u8>> {
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: rowstream-ready\r\n\r\n")?;
    stream.flush()?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while answer.len() < MOST {
        match stream.read(&mut piece) {
            Ok(0) => break,
            // The peer didn't send `close_notify`. The response may still be complete.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            length => answer.extend_from_slice(&piece[..length?]),
        }
    }
    Ok(answer)
}

/// A connection with a time limit.
struct TimedConnection {
    stream: TcpStream,
    deadline: Instant,
}

impl Read for TimedConnection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        self.stream.read(bytes)
    }
}

impl Write for TimedConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Connects to the first address of a name that accepts a connection.
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

/// The remaining time, which isn't zero.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The response of a server.
#[derive(Debug, PartialEq, Eq)]
struct ReadyResponse {
    status: u16,
    body: String,
}

impl ReadyResponse {
    fn read(answer: &[u8]) -> io::Result<Self> {
        let text = String::from_utf8_lossy(answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status =
            head.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.get(..3)?.parse().ok());
        let Some(status) = status else { return Err(io::Error::other("no answer in HTTP/1")) };
        Ok(Self { status, body: body.to_owned() })
    }

    /// The reason in one line: the detail of a problem document, or the status.
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
        let read = |text: &str| {
            ReadyResponse::read(text.as_bytes()).map(|answer| (answer.status, answer.reason())).ok()
        };
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
