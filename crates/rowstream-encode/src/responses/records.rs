//! Items as CSV: one record each, with the first item's field names as the header.
//!
//! `serde_json` walks through an item and calls a formatter for each part. Our formatter passes the
//! values to [`CsvEncoder`], and `serde_json` writes nothing.

use std::io;
use std::mem;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter};

use super::StreamError;
use super::chunks::{Piece, Pieces};
use super::streamed::NextItem;
use crate::{Column, ColumnKind, CsvDialect, CsvEncoder, RowWriter, Value};

/// The records of one stream.
pub(super) struct Records<T> {
    next: NextItem<T>,
    dialect: CsvDialect,
    /// `None` until the first item.
    table: Option<Table>,
}

struct Table {
    columns: Vec<Column>,
    encoder: CsvEncoder,
    /// The text of a name or a value, which arrives in parts.
    text: String,
}

impl<T: Serialize> Records<T> {
    pub(super) fn new(next: NextItem<T>, dialect: CsvDialect) -> Self {
        Self { next, dialect, table: None }
    }

    fn write(&mut self, item: &T, out: &mut Vec<u8>) -> Result<Piece, StreamError> {
        let table = match &mut self.table {
            Some(table) => table,
            None => {
                let table = Table::of(item, &self.dialect)?;
                table.encoder.start(out);
                self.table.insert(table)
            }
        };
        table.write(item, out)?;
        Ok(Piece::Row)
    }
}

impl<T: Serialize> Pieces for Records<T> {
    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Option<Result<Piece, StreamError>>> {
        let item = ready!((self.next)(cx)).transpose().map_err(StreamError::stream)?;
        Poll::Ready(item.map(|item| self.write(&item, out)))
    }
}

impl Table {
    /// The table that begins with the record `item`.
    fn of<T: Serialize>(item: &T, dialect: &CsvDialect) -> Result<Self, StreamError> {
        let (mut columns, mut text) = (Vec::new(), String::new());
        walk(item, WalkPurpose::Names(&mut columns), &mut text)?;
        if columns.is_empty() {
            return Err(StreamError::unserialisable(EMPTY));
        }
        let encoder = CsvEncoder::new(dialect.clone(), &columns);
        Ok(Self { columns, encoder, text })
    }

    fn write<T: Serialize>(&mut self, item: &T, out: &mut Vec<u8>) -> Result<(), StreamError> {
        self.encoder.begin_row(out);
        let columns = self.columns.iter();
        walk(item, WalkPurpose::Values { columns, encoder: &mut self.encoder, out }, &mut self.text)?;
        self.encoder.end_row(out);
        Ok(())
    }
}

const EMPTY: &str = "an item without fields cannot be a record of CSV";
const UNNAMED: &str = "only a struct or a map can be a record of CSV: its names are the header";
const OTHER_KEY: &str = "a key that is not a text cannot name a column of CSV";
const NESTED: &str =
    "CSV has no place for a list, a struct, a map or the content of an enum's variant in a field";
const UNLIKE: &str = "the items of CSV must have the fields of the first one, in the same order";

fn walk<T: Serialize>(item: &T, purpose: WalkPurpose<'_>, text: &mut String) -> Result<(), StreamError> {
    let walk = Walk { purpose, at: TextRole::Outside, text };
    let mut serializer = serde_json::Serializer::with_formatter(io::sink(), walk);
    item.serialize(&mut serializer).map_err(StreamError::unserialisable)
}

/// The purpose of a walk through an item.
enum WalkPurpose<'a> {
    /// Collect the names of its fields.
    Names(&'a mut Vec<Column>),
    /// Write a record. Its fields must match `columns`, which are consumed.
    Values { columns: std::slice::Iter<'a, Column>, encoder: &'a mut CsvEncoder, out: &'a mut Vec<u8> },
}

/// The meaning of the next text or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextRole {
    Outside,
    Name,
    Value,
}

/// A walk through one item.
struct Walk<'a> {
    purpose: WalkPurpose<'a>,
    at: TextRole,
    text: &'a mut String,
}

impl Walk<'_> {
    fn name(&mut self) -> io::Result<()> {
        match &mut self.purpose {
            WalkPurpose::Names(columns) => {
                let (name, kind) = (self.text.clone(), ColumnKind::Text);
                columns.push(Column { name, type_name: String::new(), kind });
            }
            WalkPurpose::Values { columns, .. } => {
                if columns.next().is_none_or(|column| column.name != *self.text) {
                    return Err(io::Error::other(UNLIKE));
                }
            }
        }
        Ok(())
    }

    fn value(&mut self, value: Value<'_>) -> io::Result<()> {
        match (self.at, &mut self.purpose) {
            (TextRole::Outside, _) => Err(io::Error::other(UNNAMED)),
            (TextRole::Name, _) => Err(io::Error::other(OTHER_KEY)),
            (TextRole::Value, WalkPurpose::Names(_)) => Ok(()),
            (TextRole::Value, WalkPurpose::Values { encoder, out, .. }) => {
                encoder.value(value, out);
                Ok(())
            }
        }
    }

    fn integer<I: itoa::Integer + TryInto<i64> + Copy>(&mut self, integer: I) -> io::Result<()> {
        match integer.try_into() {
            Ok(int) => self.value(Value::Int(int)),
            Err(_) => self.value(Value::Number(itoa::Buffer::new().format(integer))),
        }
    }

    fn text(&mut self) -> io::Result<()> {
        let text = mem::take(self.text);
        let taken = self.value(Value::Text(&text));
        *self.text = text;
        taken
    }
}

/// Integers of all widths.
macro_rules! integers {
    ($($write:ident: $integer:ty),*) => {
        $(fn $write<W: ?Sized + io::Write>(&mut self, _: &mut W, integer: $integer) -> io::Result<()> {
            self.integer(integer)
        })*
    };
}

impl Formatter for Walk<'_> {
    integers!(
        write_i8: i8, write_i16: i16, write_i32: i32, write_i64: i64, write_i128: i128,
        write_u8: u8, write_u16: u16, write_u32: u32, write_u64: u64, write_u128: u128
    );

    /// Called for non-finite floats too.
    fn write_null<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.value(Value::Null)
    }

    fn write_bool<W: ?Sized + io::Write>(&mut self, _: &mut W, value: bool) -> io::Result<()> {
        self.value(Value::Bool(value))
    }

    fn write_f32<W: ?Sized + io::Write>(&mut self, _: &mut W, value: f32) -> io::Result<()> {
        self.value(Value::Float4(value))
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, _: &mut W, value: f64) -> io::Result<()> {
        self.value(Value::Float(value))
    }

    fn write_number_str<W: ?Sized + io::Write>(&mut self, _: &mut W, value: &str) -> io::Result<()> {
        self.value(Value::Number(value))
    }

    fn write_byte_array<W: ?Sized + io::Write>(&mut self, _: &mut W, value: &[u8]) -> io::Result<()> {
        self.value(Value::Bytes(value))
    }

    fn write_raw_fragment<W: ?Sized + io::Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.value(Value::Json(fragment))
    }

    fn begin_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.text.clear();
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.text.push_str(fragment);
        Ok(())
    }

    fn write_char_escape<W: ?Sized + io::Write>(&mut self, _: &mut W, escape: CharEscape) -> io::Result<()> {
        self.text.push(match escape {
            CharEscape::Quote => '"',
            CharEscape::ReverseSolidus => '\\',
            CharEscape::Solidus => '/',
            CharEscape::Backspace => '\u{8}',
            CharEscape::FormFeed => '\u{c}',
            CharEscape::LineFeed => '\n',
            CharEscape::CarriageReturn => '\r',
            CharEscape::Tab => '\t',
            CharEscape::AsciiControl(byte) => char::from(byte),
        });
        Ok(())
    }

    /// The text of a key is read as a name when the key ends.
    fn end_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        if self.at == TextRole::Name { Ok(()) } else { self.text() }
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        Err(io::Error::other(if self.at == TextRole::Outside { UNNAMED } else { NESTED }))
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        if self.at == TextRole::Outside { Ok(()) } else { Err(io::Error::other(NESTED)) }
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        match &mut self.purpose {
            WalkPurpose::Values { columns, .. } if columns.len() > 0 => Err(io::Error::other(UNLIKE)),
            WalkPurpose::Values { .. } | WalkPurpose::Names(_) => Ok(()),
        }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, _: &mut W, _first: bool) -> io::Result<()> {
        self.at = TextRole::Name;
        Ok(())
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.name()
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.at = TextRole::Value;
        Ok(())
    }
}
