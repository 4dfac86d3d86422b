//! The contents of packets (MySQL's and MariaDB's client/server protocol, protocol 4.1): integers
//! are little-endian, and lengths of texts have one to nine bytes.
//!
//! We check everything: a packet that is shorter than its lengths say is `None`.

use super::error::DatabaseError;

/// The capabilities of clients and servers that we use.
pub(super) mod capability {
    /// A MySQL server. Without it, MariaDB's own capabilities are in another part of the greeting.
    pub(in super::super) const MYSQL: u64 = 1;
    pub(in super::super) const LONG_FLAG: u64 = 1 << 2;
    pub(in super::super) const CONNECT_WITH_DB: u64 = 1 << 3;
    pub(in super::super) const PROTOCOL_41: u64 = 1 << 9;
    pub(in super::super) const SSL: u64 = 1 << 11;
    pub(in super::super) const TRANSACTIONS: u64 = 1 << 13;
    pub(in super::super) const SECURE_CONNECTION: u64 = 1 << 15;
    /// Procedures may answer with results, even if they are prepared.
    pub(in super::super) const MULTI_RESULTS: u64 = 1 << 17;
    pub(in super::super) const PS_MULTI_RESULTS: u64 = 1 << 18;
    pub(in super::super) const PLUGIN_AUTH: u64 = 1 << 19;
    pub(in super::super) const PLUGIN_AUTH_LENENC: u64 = 1 << 21;
    /// The server reports changes of the session.
    pub(in super::super) const SESSION_TRACK: u64 = 1 << 23;
    /// An OK ends a result, and no packet ends its columns.
    pub(in super::super) const DEPRECATE_EOF: u64 = 1 << 24;
    /// MariaDB: columns say what their text means, such as JSON.
    pub(in super::super) const EXTENDED_METADATA: u64 = 1 << 35;
}

/// Bits of a server's status.
pub(super) mod status {
    pub(in super::super) const MORE_RESULTS: u16 = 0x0008;
    pub(in super::super) const CURSOR_EXISTS: u16 = 0x0040;
    pub(in super::super) const LAST_ROW_SENT: u16 = 0x0080;
    /// The statement has changed settings, variables or temporary tables of its session.
    pub(in super::super) const SESSION_STATE_CHANGED: u16 = 0x4000;
}

/// First bytes of packets in answers.
pub(super) const OK: u8 = 0x00;
pub(super) const LOCAL_INFILE: u8 = 0xfb;
pub(super) const EOF: u8 = 0xfe;
pub(super) const ERR: u8 = 0xff;

/// A packet with the first byte of an EOF is an EOF only if it's shorter than this.
pub(super) const EOF_BELOW: usize = 9;

/// Reads a packet from its front.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (fixed, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*fixed)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.fixed::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.fixed().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.fixed().map(u32::from_le_bytes)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// An integer whose first byte determines its length.
    #[inline]
    pub(super) fn length(&mut self) -> Option<u64> {
        match self.u8()? {
            short @ 0..=0xfa => Some(short.into()),
            0xfc => self.u16().map(u64::from),
            0xfd => self.fixed::<3>().map(|[a, b, c]| u64::from(u32::from_le_bytes([a, b, c, 0]))),
            0xfe => self.fixed().map(u64::from_le_bytes),
            _ => None,
        }
    }

    /// Bytes with their length before them.
    #[inline]
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.bytes(usize::try_from(length).ok()?)
    }

    /// Bytes before a NUL, or all that are left.
    pub(super) fn until_nul(&mut self) -> &'a [u8] {
        let end = memchr::memchr(0, self.0).unwrap_or(self.0.len());
        let (text, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        text
    }
}

/// Appends a length as [`Reader::length`] reads it.
pub(super) fn push_length(length: usize, out: &mut Vec<u8>) {
    let bytes = (length as u64).to_le_bytes();
    match length {
        0..=0xfa => out.push(length as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends bytes with their length before them.
pub(super) fn push_text(text: &[u8], out: &mut Vec<u8>) {
    push_length(text.len(), out);
    out.extend_from_slice(text);
}

/// The status in an EOF packet.
pub(super) fn eof_status(body: &[u8]) -> Option<u16> {
    let mut reader = Reader(body);
    reader.bytes(3)?;
    reader.u16()
}

/// The status in an OK packet.
pub(super) fn ok_status(body: &[u8]) -> Option<u16> {
    let mut reader = Reader(body);
    reader.u8()?;
    // The numbers of changed rows and of the last inserted row.
    reader.length()?;
    reader.length()?;
    let status = reader.u16()?;
    // The number of warnings. An EOF ends earlier.
    reader.u16()?;
    Some(status)
}

/// The longest error message that we keep, in bytes; the servers' own have 512.
const MESSAGE_AT_MOST: usize = 4096;

/// An ERR packet. If it replaces a greeting, it has no SQLSTATE.
pub(super) fn error(body: &[u8]) -> Option<DatabaseError> {
    let mut reader = Reader(body);
    reader.u8()?;
    let number = reader.u16()?;
    let (sqlstate, message) = match reader.0.split_first_chunk::<6>() {
        Some(([b'#', sqlstate @ ..], message)) => (&sqlstate[..], message),
        _ => (&b""[..], reader.0),
    };
    let message = &message[..message.len().min(MESSAGE_AT_MOST)];
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Some(DatabaseError { number, sqlstate: text(sqlstate), message: text(message) })
}

/// The first packet of a server.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) version: String,
    pub(super) connection_id: u32,
    pub(super) capabilities: u64,
    pub(super) nonce: Vec<u8>,
    pub(super) plugin: String,
}

impl Greeting {
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        if reader.u8()? != 10 {
            return None;
        }
        let version = String::from_utf8_lossy(reader.until_nul()).into_owned();
        let connection_id = reader.u32()?;
        let mut nonce = reader.bytes(8)?.to_vec();
        reader.bytes(1)?;
        let low = reader.u16()?;
        reader.bytes(3)?;
        let high = reader.u16()?;
        let nonce_length = usize::from(reader.u8()?);
        reader.bytes(6)?;
        let extended = reader.u32()?;
        let mut capabilities = u64::from(low) | u64::from(high) << 16;
        if capabilities & capability::MYSQL == 0 {
            capabilities |= u64::from(extended) << 32;
        }
        // The last byte is a NUL, which isn't part of the nonce.
        let rest = reader.bytes(nonce_length.saturating_sub(8).max(13))?;
        nonce.extend_from_slice(rest.strip_suffix(&[0]).unwrap_or(rest));
        let plugin = String::from_utf8_lossy(reader.until_nul()).into_owned();
        Some(Self { version, connection_id, capabilities, nonce, plugin })
    }

    /// Returns true if the server is MariaDB. It may call itself `5.5.5-10.…-MariaDB`.
    pub(super) fn is_mariadb(&self) -> bool {
        self.version.to_ascii_lowercase().contains("mariadb")
    }

    /// The server's product and its version. MariaDB's version follows one of MySQL, which replicas
    /// once required.
    pub(super) fn product(&self) -> String {
        let version = self.version.strip_prefix("5.5.5-").unwrap_or(&self.version);
        match version.split_once("-MariaDB") {
            Some((number, _)) => format!("MariaDB {number}"),
            None => format!("MySQL {version}"),
        }
    }
}

/// The server's definition of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: String,
    /// True if the column names a table, a view or a query after `from`.
    pub(super) has_table: bool,
    pub(super) charset: u16,
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u16,
    pub(super) decimals: u8,
    /// MariaDB's own type of a text column, such as `uuid`.
    pub(super) data_type: String,
    /// MariaDB: the text is JSON.
    pub(super) is_json: bool,
}

impl Definition {
    /// Parses a definition. With `extended`, it contains MariaDB's metadata.
    pub(super) fn parse(body: &[u8], extended: bool) -> Option<Self> {
        let mut reader = Reader(body);
        // Catalog and schema.
        for _ in 0..2 {
            reader.text()?;
        }
        let has_table = !reader.text()?.is_empty();
        // The table's own name.
        reader.text()?;
        let name = String::from_utf8_lossy(reader.text()?).into_owned();
        reader.text()?;
        let (mut data_type, mut is_json) = (String::new(), false);
        if extended {
            let mut entries = Reader(reader.text()?);
            while let Some(tag) = entries.u8() {
                match (tag, entries.text()?) {
                    (0, text) => data_type = String::from_utf8_lossy(text).into_owned(),
                    (1, text) => is_json = text == b"json",
                    _ => {}
                }
            }
        }
        let mut rest = Reader(reader.text()?);
        let (charset, length) = (rest.u16()?, rest.u32()?);
        let (kind, flags, decimals) = (rest.u8()?, rest.u16()?, rest.u8()?);
        Some(Self { name, has_table, charset, length, kind, flags, decimals, data_type, is_json })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_they_are_written() {
        for length in [0, 1, 0xfa, 0xfb, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000] {
            let mut out = Vec::new();
            push_length(length, &mut out);
            assert_eq!(Reader(&out).length(), Some(length as u64));
            assert_eq!(Reader(&out[..out.len() - 1]).length(), None, "{length}");
        }
        assert_eq!(Reader(&[0xfb]).length(), None, "NULL is no length");
    }

    #[test]
    fn errors_have_a_state_or_none() {
        let read = error(b"\xff\x7a\x04#42S02no table").unwrap();
        assert_eq!((read.number, &*read.sqlstate, &*read.message), (1146, "42S02", "no table"));
        let read = error(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!((read.number, &*read.sqlstate, &*read.message), (1040, "", "Too many connections"));
        assert!(error(b"\xff").is_none());
        let long = [b"\xff\x7a\x04#42S02", &[b'x'; 100_000][..]].concat();
        assert_eq!(error(&long).unwrap().message.len(), MESSAGE_AT_MOST);
    }

    #[test]
    fn a_greeting_that_is_cut_is_none() {
        let mut greeting = b"\x0a5.5.5-10.11.6-MariaDB\0\x07\0\0\0abcdefgh\0".to_vec();
        greeting.extend_from_slice(b"\xfe\xff\x2d\x02\0\xff\x81\x15\0\0\0\0\0\0\x08\0\0\0ijklmnopqrst\0");
        let whole = [&greeting[..], b"mysql_native_password\0"].concat();
        let read = Greeting::parse(&whole).unwrap();
        assert_eq!((read.connection_id, &read.nonce[..]), (7, &b"abcdefghijklmnopqrst"[..]));
        assert!(read.is_mariadb() && read.capabilities & capability::EXTENDED_METADATA != 0);
        for end in 0..greeting.len() {
            assert!(Greeting::parse(&greeting[..end]).is_none(), "{end}");
        }
    }
}
