//! A server that is observed: its requests are traced, its metrics scraped, and its console open.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Duration;

use crate::database::Data;
use crate::process::{Launch, Server};
use crate::target::{self, AccessLog};
use crate::{Result, workspace};

/// The interval of scrapes, and of the console's requests.
const EVERY: Duration = Duration::from_secs(1);

/// The paths to request each time, with the `Accept` of Prometheus and of the console.
const ASKED: [(&str, &str); 3] = [
    ("metrics", "application/openmetrics-text"),
    ("history?after=0", "application/json"),
    ("streams", "application/json"),
];

/// An example that traces one in a hundred requests, and sends the traces to a collector.
pub(crate) fn example(data: Data, url: &str) -> Result<Launch> {
    let folder = workspace::scratch()?.join(format!("observed-{}", data.name()));
    let cannot = |error: io::Error| format!("cannot copy an example to {}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(cannot)?;
    }
    let config = workspace::read(&data.folder().join("rowstream.toml"))?;
    let traces = format!("\n[traces]\nurl = \"http://127.0.0.1:{}\"\nsample = 0.01\n", collect()?);
    workspace::write(&folder.join("rowstream.toml"), &(config + &traces))?;
    for part in ["endpoints", "data"] {
        symlink(data.folder().join(part), folder.join(part)).map_err(cannot)?;
    }
    let mut launch = target::example_in(&folder, data, url, AccessLog::Off)?;
    launch.name = "rowstream-observed".into();
    Ok(launch)
}

/// Observes a server for as long as it responds.
pub(crate) fn look_at(server: &Server) {
    let port = server.port();
    thread::spawn(move || {
        while ASKED.iter().all(|asked| ask(port, asked).is_ok()) {
            thread::sleep(EVERY);
        }
    });
}

fn ask(port: u16, (name, accept): &(&str, &str)) -> io::Result<u64> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    write!(
        stream,
        "GET /_rowstream/{name} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    )?;
    io::copy(&mut stream, &mut io::sink())
}

/// A collector that accepts and discards all spans. Returns its port.
fn collect() -> Result<u16> {
    let cannot = |error| format!("cannot collect spans: {error}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cannot)?;
    let port = listener.local_addr().map_err(cannot)?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A server that disconnects early has nothing more to send.
            let _ = take(&stream);
        }
    });
    Ok(port)
}

/// Reads the only request of a connection.
fn take(mut stream: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    for line in reader.by_ref().lines() {
        let line = line?.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        if line.is_empty() {
            break;
        }
    }
    io::copy(&mut reader.take(length), &mut io::sink())?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_taken() {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, collect().unwrap())).unwrap();
        let body = "x".repeat(100_000);
        write!(stream, "POST /v1/traces HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
}
