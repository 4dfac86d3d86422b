//! A server that sends one prepared block repeatedly, so that only its client is measured.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use crate::Result;

/// A row of the events.
const ROW: &str = r#"{"eventNo":1000000,"paymentStatus":"DECLINED","statusChangeReason":"card expired","statusChanged":"2024-06-01T12:34:56.789123Z"}"#;

/// Rows per block, which make more than a megabyte.
const ROWS_OF_A_BLOCK: usize = 10_000;

/// The kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Canned {
    Lines,
    Array,
}

impl Canned {
    fn media_type(self) -> &'static str {
        match self {
            Self::Lines => "application/x-ndjson",
            Self::Array => "application/json",
        }
    }

    fn open_between_close(self) -> [&'static str; 3] {
        match self {
            Self::Lines => ["", "\n", "\n"],
            Self::Array => ["[", ",", "]"],
        }
    }
}

/// Serves this many blocks and one row, at any path of the returned port, until this program exits.
pub(crate) fn serve(canned: Canned, blocks: u64) -> Result<u16> {
    let cannot = |error| format!("cannot serve a prepared text: {error}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cannot)?;
    let port = listener.local_addr().map_err(cannot)?.port();
    thread::spawn(move || {
        let text = Text::new(canned, blocks);
        for stream in listener.incoming().flatten() {
            // A client that disconnects early reports that itself.
            let _ = text.answer(&stream);
        }
    });
    Ok(port)
}

/// The number of rows that [`serve`] sends.
pub(crate) fn rows(blocks: u64) -> u64 {
    blocks * ROWS_OF_A_BLOCK as u64 + 1
}

struct Text {
    canned: Canned,
    block: Vec<u8>,
    blocks: u64,
}

impl Text {
    fn new(canned: Canned, blocks: u64) -> Self {
        let [_, between, _] = canned.open_between_close();
        let block = format!("{ROW}{between}").repeat(ROWS_OF_A_BLOCK).into_bytes();
        Self { canned, block, blocks }
    }

    /// Answers the only request of a connection.
    fn answer(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        for line in BufReader::new(stream).lines() {
            if line?.is_empty() {
                break;
            }
        }
        let [open, _, close] = self.canned.open_between_close();
        let length = (open.len() + ROW.len() + close.len()) as u64 + self.blocks * self.block.len() as u64;
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{open}",
            self.canned.media_type(),
        )?;
        for _ in 0..self.blocks {
            stream.write_all(&self.block)?;
        }
        write!(stream, "{ROW}{close}")
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn body(canned: Canned) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, serve(canned, 2).unwrap())).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        body.to_owned()
    }

    #[test]
    fn both_texts_are_what_they_say() {
        assert_eq!(body(Canned::Lines).lines().count() as u64, rows(2));
        let array: Vec<serde_json::Value> = serde_json::from_str(&body(Canned::Array)).unwrap();
        assert_eq!(array.len() as u64, rows(2));
    }
}
