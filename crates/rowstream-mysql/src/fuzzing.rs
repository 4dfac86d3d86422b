//! Entry points to private code, for the properties in `fuzz/`.

use rowstream_core::Error;
use rowstream_database::DatabaseRow as _;
use rowstream_database::socket::Socket;
use rowstream_encode::{Column, RowWriter};
use tokio::net::UnixStream;

use super::packet::{self, Definition, Greeting};
use super::value::{BitEncoding, DecodeSettings, Decoder, Row, ZeroDates};
use super::wire::Wire;

/// Reads the rows of one statement.
pub struct Rows {
    columns: Vec<Column>,
    decoders: Vec<Decoder>,
    scratch: Vec<u8>,
}

impl Rows {
    /// Reads columns with these definitions of the server; `None` if one can't be read, or has an
    /// unknown type.
    pub fn new(definitions: &[Vec<u8>]) -> Option<Self> {
        let (mut columns, mut decoders) = (Vec::new(), Vec::new());
        let reading = DecodeSettings { zero_dates: ZeroDates::Null, computed_bits: BitEncoding::Either };
        for body in definitions {
            let definition = Definition::parse(body, true)?;
            let decoder = Decoder::of(&definition, reading)?;
            columns.push(decoder.column(&definition));
            decoders.push(decoder);
        }
        Some(Self { columns, decoders, scratch: Vec::new() })
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Encodes a row of the binary protocol.
    ///
    /// # Errors
    /// It isn't such a row, or a value has no meaning.
    pub fn encode(
        &mut self,
        data: &[u8],
        encoder: &mut impl RowWriter,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Self { columns, decoders, scratch } = self;
        Row { data, decoders, columns, scratch }.encode(encoder, out)
    }
}

/// The payloads of a server until the connection ends, and the reason for its end. Each is read as
/// every kind of packet that it may be.
pub async fn payloads(server: UnixStream, limit: usize) -> (Vec<Vec<u8>>, Error) {
    let mut wire = Wire::new(Socket::Unix(server), limit, 0);
    let mut payloads = Vec::new();
    loop {
        match wire.frame().await {
            Ok(frame) => {
                let body = wire.body(&frame);
                read(body);
                payloads.push(body.to_vec());
            }
            Err(error) => return (payloads, error),
        }
    }
}

fn read(body: &[u8]) {
    if let Some(error) = packet::error(body) {
        let _ = error.is_stale_statement();
        drop(error.into_error(Some("select 'é' from x")));
    }
    let _ = (Greeting::parse(body), packet::eof_status(body), packet::ok_status(body));
    for extended in [false, true] {
        let _ = Definition::parse(body, extended);
    }
}
