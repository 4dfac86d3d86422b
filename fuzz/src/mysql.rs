//! The decoders of MySQL and MariaDB with arbitrary bytes: packets equal those of a simple parser,
//! and rows are JSON, CSV or an error.

use arbitrary::{Arbitrary, Result, Unstructured};
use rowstream_encode::{CsvDialect, CsvEncoder, Nulls, OptionsEncoder, RowWriter, Shape, ValueOptions};
use rowstream_mysql::fuzzing::{Rows as MysqlRows, payloads};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

use crate::json::Members;
use crate::value::options;

/// The protocol's type numbers (`enum_field_types`). JSON isn't included, because it's passed
/// through unchanged.
const TYPES: [u8; 28] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 246, 247, 249, 250, 252, 253, 254,
    255,
];

/// A column in the server's description.
#[derive(Debug, Clone, Copy, Arbitrary)]
struct Described {
    is_binary: bool,
    length: u32,
    flags: u16,
    decimals: u8,
}

impl Described {
    fn body(self, number: usize, kind: u8) -> Vec<u8> {
        let mut body = b"\x03def\0\0\0\x02c".to_vec();
        body.extend_from_slice(&[b'0' + number as u8, 0, 0, 12]);
        body.extend_from_slice(&(if self.is_binary { 63_u16 } else { 45 }).to_le_bytes());
        body.extend_from_slice(&self.length.to_le_bytes());
        body.push(kind);
        body.extend_from_slice(&self.flags.to_le_bytes());
        body.extend_from_slice(&[self.decimals, 0, 0]);
        body
    }
}

/// Rows of arbitrary bytes, for columns of all types.
pub fn mysql_row(data: &[u8]) {
    let _ = any_rows(&mut Unstructured::new(data));
}

fn any_rows(u: &mut Unstructured<'_>) -> Result<()> {
    let options = options(u)?;
    let count = u.int_in_range(0..=3)?;
    let column = |number| Ok(u.arbitrary::<Described>()?.body(number, *u.choose(&TYPES)?));
    let columns: Vec<_> = (0..count).map(column).collect::<Result<_>>()?;
    let rows_of = || MysqlRows::new(&columns).expect("the columns can be read");
    let mut rows = rows_of();
    while !u.is_empty() {
        let data = row(u, count)?;
        let (line, record) = (json_line(&mut rows, options, &data), csv_record(&mut rows, options, &data));
        assert_eq!(line.is_some(), record.is_some());
        assert_eq!(line, json_line(&mut rows_of(), options, &data), "no row changes the next");
        if let Some(line) = line {
            let members: Members<'_> = serde_json::from_slice(&line).expect("a row is an object");
            let omits = options.nulls == Nulls::Omit;
            assert!(members.0.len() == count || (omits && members.0.len() < count));
            assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        }
    }
    Ok(())
}

/// Arbitrary bytes, or NULLs and values with correct lengths.
fn row(u: &mut Unstructured<'_>, count: usize) -> Result<Vec<u8>> {
    if u.ratio(1, 8)? {
        return u.arbitrary();
    }
    let mut row = vec![0, u.arbitrary::<u8>()? & 0b0101_0100];
    for _ in 0..count {
        let value: &[u8] = u.arbitrary()?;
        match u.int_in_range(0..=2)? {
            0 => row.extend_from_slice(&u.arbitrary::<[u8; 8]>()?[..*u.choose(&[1, 2, 4, 8])?]),
            _ => {
                let value = &value[..value.len().min(250)];
                row.push(value.len() as u8);
                row.extend_from_slice(value);
            }
        }
    }
    Ok(row)
}

/// `None` if the row is invalid.
fn json_line(rows: &mut MysqlRows, options: ValueOptions, data: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = OptionsEncoder::new(Shape::Lines, options, rows.columns());
    encoded(rows, data, &mut encoder)
}

fn csv_record(rows: &mut MysqlRows, options: ValueOptions, data: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = CsvEncoder::new(CsvDialect::default(), rows.columns()).with_options(options);
    encoded(rows, data, &mut encoder)
}

fn encoded(rows: &mut MysqlRows, data: &[u8], encoder: &mut impl RowWriter) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match rows.encode(data, encoder, &mut out) {
        Ok(()) => Some(out),
        Err(error) => {
            assert!(matches!(error.code(), "source_protocol" | "bad_value"), "{error}");
            None
        }
    }
}

/// The output of a server, in pieces.
pub fn mysql_wire(data: &[u8]) {
    let _ = connection(&mut Unstructured::new(data));
}

/// A part of a server's output.
#[derive(Debug, Arbitrary)]
enum Sent<'a> {
    /// A packet with a correct or wrong number.
    Packet { wrong: bool, body: &'a [u8] },
    /// A packet of a kind that we parse.
    Known { first: First, body: &'a [u8] },
    /// A packet that may be longer than a buffer.
    Long { length: u16, byte: u8 },
    /// Bytes that needn't be packets.
    Raw(&'a [u8]),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum First {
    Greeting,
    Ok,
    Eof,
    Error,
    Column,
}

impl Sent<'_> {
    fn write(&self, number: &mut u8, out: &mut Vec<u8>) {
        let mut write = |number: u8, body: &[u8]| {
            out.extend_from_slice(&(body.len() as u32).to_le_bytes()[..3]);
            out.push(number);
            out.extend_from_slice(body);
        };
        match *self {
            Self::Packet { wrong, body } => write(number.wrapping_add(wrong.into()), body),
            Self::Known { first, body } => {
                let first = match first {
                    First::Greeting => &b"\x0a5.5.5\0"[..],
                    First::Ok => b"\0",
                    First::Eof => b"\xfe",
                    First::Error => b"\xff\x7a\x04#42S02",
                    First::Column => b"\x03def\0\0\0\x01n\0",
                };
                write(*number, &[first, body].concat());
            }
            Self::Long { length, byte } => write(*number, &vec![byte; 2 * usize::from(length)]),
            Self::Raw(bytes) => return out.extend_from_slice(bytes),
        }
        *number = number.wrapping_add(1);
    }
}

fn connection(u: &mut Unstructured<'_>) -> Result<()> {
    let limit = *u.choose(&[65_536, 100_000, 1 << 20])?;
    let mut step = usize::from(u.arbitrary::<u16>()?);
    let (mut bytes, mut number) = (Vec::new(), 0);
    while !u.is_empty() && bytes.len() < 400_000 {
        u.arbitrary::<Sent<'_>>()?.write(&mut number, &mut bytes);
    }
    // Thousands of pieces of a long packet find no more bugs than hundreds.
    step = step.max(bytes.len() / 500).max(1);
    let (expected, end) = plainly_cut(&bytes, limit);
    let (read, error) = RUNTIME.with(|runtime| runtime.block_on(received(bytes, step, limit)));
    assert_eq!(read, expected);
    assert_eq!(error.code(), end, "{error}");
    Ok(())
}

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
}

/// The packets that we read if a server sends `bytes` in pieces and closes the connection.
async fn received(bytes: Vec<u8>, step: usize, limit: usize) -> (Vec<Vec<u8>>, rowstream_core::Error) {
    let (server, client) = UnixStream::pair().expect("a pair of sockets can be made");
    let sending = tokio::spawn(async move {
        let mut server = server;
        for piece in bytes.chunks(step) {
            // Writing fails after the reader's first error.
            if server.write_all(piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    let received = payloads(client, limit).await;
    sending.await.expect("the sender does not panic");
    received
}

/// The payloads, and the code of the error after them. They're too short to be continued in another
/// packet.
fn plainly_cut(mut bytes: &[u8], limit: usize) -> (Vec<Vec<u8>>, &'static str) {
    let mut payloads: Vec<Vec<u8>> = Vec::new();
    while let [a, b, c, number, rest @ ..] = bytes {
        let length = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        if length > limit {
            return (payloads, "row_too_large");
        }
        let Some((body, after)) = rest.split_at_checked(length) else { break };
        if *number != payloads.len() as u8 || body.is_empty() {
            return (payloads, "source_protocol");
        }
        payloads.push(body.to_vec());
        bytes = after;
    }
    (payloads, "source_unavailable")
}
