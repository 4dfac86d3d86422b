//! Entry points to private code, for the properties in `fuzz/`.

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::Message as Parsed;
use rowstream_core::Error;
use rowstream_database::DatabaseRow as _;
use rowstream_database::socket::Socket;
use rowstream_encode::{Column, RowWriter};
use tokio::net::UnixStream;

use super::error::DatabaseError;
use super::statement::Field;
use super::types::Types;
use super::value::{Decoder, Row};
use super::wire::{Frame, Wire};

/// Reads the rows of one statement.
pub struct Rows {
    columns: Vec<Column>,
    decoders: Vec<Decoder>,
    scratch: Vec<u8>,
}

impl Rows {
    /// Reads columns with these types and modifiers. `catalog` has DataRows in the form of the
    /// catalog's answers about types that aren't built in; `None` if one of them can't be read.
    pub fn new(catalog: &[Vec<u8>], columns: &[(u32, i32)]) -> Option<Self> {
        let types = Types::default();
        catalog.iter().try_for_each(|row| types.learn(row))?;
        let kinds = types.of_columns(columns.iter().map(|(oid, _)| *oid));
        let column = |(index, kind): (usize, &super::types::ColumnType)| Column {
            name: format!("c{index}"),
            type_name: kind.name.clone(),
            kind: kind.decoder.kind(columns[index].1),
        };
        let columns = kinds.iter().enumerate().map(column).collect();
        let decoders = kinds.into_iter().map(|kind| kind.decoder).collect();
        Some(Self { columns, decoders, scratch: Vec::new() })
    }

    /// The columns, named `c0`, `c1` and so on.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns true if the values of a column have the binary format.
    pub fn is_binary(&self, column: usize) -> bool {
        self.decoders[column].wire_format() == 1
    }

    /// Encodes a DataRow.
    ///
    /// # Errors
    /// See [`Row::encode`].
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

/// A complete message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its tag.
    pub tag: u8,
    /// The bytes after its length.
    pub body: Vec<u8>,
}

/// The messages of a server until the connection ends, and the reason for its end. Each message is
/// read as far as we read its kind.
pub async fn messages(server: UnixStream, limit: usize) -> (Vec<Message>, Error) {
    let mut wire = Wire::new(Socket::Unix(server), limit);
    let mut messages = Vec::new();
    loop {
        match wire.frame().await {
            Ok(frame) => {
                let _ = read(&wire, &frame);
                messages.push(Message { tag: frame.tag, body: wire.body(&frame).to_vec() });
            }
            Err(error) => return (messages, error),
        }
    }
}

fn read(wire: &Wire, frame: &Frame) -> Result<(), Error> {
    match wire.parse(frame)? {
        Parsed::ErrorResponse(body) => {
            let error = DatabaseError::new(&body);
            let _ = error.is_stale_statement();
            let offset = error.offset("select 'é' from x");
            drop(error.into_refusal(offset));
        }
        Parsed::RowDescription(body) => {
            let fields = body.fields().map(|field| Ok(Field::new(&field))).collect::<Vec<_>>();
            drop(fields);
        }
        Parsed::ParameterDescription(body) => drop(body.parameters().collect::<Vec<_>>()),
        Parsed::AuthenticationSasl(body) => {
            drop(body.mechanisms().map(|name| Ok(name.to_owned())).collect::<Vec<_>>());
        }
        Parsed::CommandComplete(body) => drop(body.tag().map(str::to_owned)),
        _ => {}
    }
    Ok(())
}
