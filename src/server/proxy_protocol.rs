//! The PROXY protocol (HAProxy's "The PROXY protocol, versions 1 & 2"): at the start of a
//! connection, a proxy sends the address of its client.
//!
//! We read this header only from the addresses that the configuration trusts, and they have to send
//! it. Otherwise their clients could pass for the proxy. We read nothing beyond the header, and
//! ignore the TLVs of version 2.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The first bytes of version 2 (section 2.2).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The first bytes of version 1 (section 2.1).
const NAME: &[u8] = b"PROXY ";
/// The longest line of version 1, including its end (section 2.1).
const LONGEST_LINE: usize = 107;
/// The most bytes of addresses and TLVs in version 2.
const LONGEST_V2: usize = 4096;

/// Reads the header and returns the client's address. `None` if the proxy connects for itself, for
/// example for a health check, or doesn't know its client.
///
/// # Errors
/// The header is missing or malformed, or the proxy left.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<IpAddr>> {
    // Both headers are longer than this.
    let mut first = [0; SIGNATURE.len()];
    stream.read_exact(&mut first).await?;
    if first == SIGNATURE { read_v2(stream).await } else { read_v1(&first, stream).await }
}

async fn read_v1(first: &[u8], stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<IpAddr>> {
    if !first.starts_with(NAME) {
        return Err(wrong("it is missing"));
    }
    let mut line = first.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() == LONGEST_LINE {
            return Err(wrong("its line is too long"));
        }
        line.push(stream.read_u8().await?);
    }
    let text = str::from_utf8(&line[..line.len() - 2]).map_err(|_| wrong("its line isn't text"))?;
    client_of_line(text).ok_or_else(|| wrong("its line isn't valid in version 1"))
}

/// Parses a line of version 1 without its end. `None` if it's malformed.
fn client_of_line(line: &str) -> Option<Option<IpAddr>> {
    let words: Vec<_> = line.split(' ').collect();
    match words[..] {
        ["PROXY", "UNKNOWN", ..] => Some(None),
        ["PROXY", family @ ("TCP4" | "TCP6"), client, server, from, to] => {
            from.parse::<u16>().ok().zip(to.parse::<u16>().ok())?;
            let address = |text: &str| match family {
                "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
                _ => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            };
            address(server)?;
            address(client).map(Some)
        }
        _ => None,
    }
}

async fn read_v2(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<IpAddr>> {
    let [command, family] = [stream.read_u8().await?, stream.read_u8().await?];
    let length = usize::from(stream.read_u16().await?);
    if length > LONGEST_V2 {
        return Err(wrong("it is too long"));
    }
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await?;
    client_of_block(command, family, &rest).ok_or_else(|| wrong("it isn't valid in version 2"))
}

/// Parses a block of version 2. `None` if it's malformed.
fn client_of_block(command: u8, family: u8, rest: &[u8]) -> Option<Option<IpAddr>> {
    match (command, family >> 4) {
        // LOCAL, and families without an internet address.
        (0x20, _) | (0x21, 0 | 3) => Some(None),
        (0x21, 1) => rest.get(..12)?.first_chunk::<4>().map(|client| Some(Ipv4Addr::from(*client).into())),
        (0x21, 2) => rest.get(..36)?.first_chunk::<16>().map(|client| Some(Ipv6Addr::from(*client).into())),
        _ => None,
    }
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("no header of the PROXY protocol: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The result for some bytes, and the bytes that are left.
    fn read_of(mut bytes: &[u8]) -> (Result<Option<IpAddr>, ErrorKind>, &[u8]) {
        let read = futures_util::FutureExt::now_or_never(read(&mut bytes)).expect("bytes are there at once");
        (read.map_err(|error| error.kind()), bytes)
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = (rest.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[test]
    fn lines_of_version_1() {
        for (line, expected) in [
            ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", Ok(Some("192.0.2.1"))),
            ("PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n", Ok(Some("2001:db8::1"))),
            ("PROXY UNKNOWN\r\n", Ok(None)),
            ("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", Ok(None)),
            ("PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n", Err(ErrorKind::InvalidData)),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 65536\r\n", Err(ErrorKind::InvalidData)),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n", Err(ErrorKind::InvalidData)),
            ("PROXY TCP4 192.0.2.1\r\n", Err(ErrorKind::InvalidData)),
            ("proxy UNKNOWN\r\n", Err(ErrorKind::InvalidData)),
            ("GET / HTTP/1.1\r\nhost: a\r\n\r\n", Err(ErrorKind::InvalidData)),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443", Err(ErrorKind::UnexpectedEof)),
            ("PROXY", Err(ErrorKind::UnexpectedEof)),
        ] {
            let expected = expected.map(|client| client.map(|client| client.parse().unwrap()));
            assert_eq!(read_of(line.as_bytes()).0, expected, "{line}");
        }
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
        assert_eq!(read_of(long.as_bytes()).0, Err(ErrorKind::InvalidData));
    }

    #[test]
    fn blocks_of_version_2() {
        let four = [192, 0, 2, 1, 198, 51, 100, 1, 0, 80, 0, 81];
        let six = [&Ipv6Addr::LOCALHOST.octets()[..], &[1; 16], &[0, 80, 0, 81]].concat();
        for (command, family, rest, expected) in [
            (0x21, 0x11, &four[..], Ok(Some("192.0.2.1"))),
            (0x21, 0x12, &[&four[..], &[4, 0, 1, 7]].concat(), Ok(Some("192.0.2.1"))),
            (0x21, 0x21, &six, Ok(Some("::1"))),
            (0x21, 0x31, &[0; 216], Ok(None)),
            (0x21, 0x00, &[], Ok(None)),
            (0x20, 0x11, &four, Ok(None)),
            (0x21, 0x11, &four[1..], Err(ErrorKind::InvalidData)),
            (0x21, 0x21, &four, Err(ErrorKind::InvalidData)),
            (0x22, 0x11, &four, Err(ErrorKind::InvalidData)),
            (0x11, 0x11, &four, Err(ErrorKind::InvalidData)),
            (0x21, 0x41, &four, Err(ErrorKind::InvalidData)),
            (0x20, 0x00, &[0; LONGEST_V2 + 1], Err(ErrorKind::InvalidData)),
        ] {
            let expected = expected.map(|client| client.map(|client| client.parse().unwrap()));
            assert_eq!(read_of(&v2(command, family, rest)).0, expected, "{command:x} {family:x}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in any::<Vec<u8>>(), head in 0..3_usize) {
            let begun = [&b""[..], &SIGNATURE, NAME][head];
            let _ = read_of(&[begun, &bytes].concat());
        }

        /// Leaves every byte after the header to the connection.
        #[test]
        fn nothing_else_is_read(client in any::<Ipv6Addr>(), tail in any::<Vec<u8>>(), more in proptest::collection::vec(any::<u8>(), 0..300)) {
            let line = format!("PROXY TCP6 {client} ::1 1 2\r\n");
            let block = v2(0x21, 0x21, &[&client.octets()[..], &[0; 20], &more].concat());
            for header in [line.into_bytes(), block] {
                let bytes = [&header[..], &tail].concat();
                prop_assert_eq!(read_of(&bytes), (Ok(Some(client.into())), &tail[..]));
                for cut in 0..header.len() {
                    prop_assert!(read_of(&header[..cut]).0.is_err());
                }
            }
        }
    }
}
