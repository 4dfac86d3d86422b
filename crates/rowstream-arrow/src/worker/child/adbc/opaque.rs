//! Converts DuckDB's values without a matching Arrow type to texts and decimals.
//!
//! DuckDB silently exports them as the nearest type of Arrow: a `timetz` lost its zone, a large
//! `uhugeint` was negative, and `bit` and `bignum` were DuckDB's internal bytes. So we set
//! `arrow_lossless_conversion`, which makes DuckDB name these types in the metadata of their
//! fields. We decode them here, also within lists, structs, maps and unions.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Decimal128Type, Decimal256Type, Int8Type};
use arrow_array::{Array as _, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, StringArray, make_array};
use arrow_buffer::i256;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use crate::arrow_rows::{BIGNUM, KIND};

/// A type that DuckDB names in a field's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpaqueType {
    Bool,
    HugeInt,
    UnsignedHugeInt,
    TimeWithZone,
    Bit,
    BigNum,
}

impl OpaqueType {
    fn of(field: &Field) -> Option<Self> {
        let name = field.metadata().get(EXTENSION_TYPE_NAME_KEY)?;
        if name == "arrow.bool8" {
            return (*field.data_type() == DataType::Int8).then_some(Self::Bool);
        }
        let said = field.metadata().get(EXTENSION_TYPE_METADATA_KEY).filter(|_| name == "arrow.opaque")?;
        let said: HashMap<String, String> = serde_json::from_str(said).ok()?;
        if said.get("vendor_name")? != "DuckDB" {
            return None;
        }
        match (said.get("type_name")?.as_str(), field.data_type()) {
            ("hugeint", DataType::FixedSizeBinary(16)) => Some(Self::HugeInt),
            ("uhugeint", DataType::FixedSizeBinary(16)) => Some(Self::UnsignedHugeInt),
            ("time_tz", DataType::FixedSizeBinary(8)) => Some(Self::TimeWithZone),
            ("bit", DataType::Binary) => Some(Self::Bit),
            ("bignum", DataType::Binary) => Some(Self::BigNum),
            _ => None,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::HugeInt => DataType::Decimal128(38, 0),
            Self::UnsignedHugeInt => DataType::Decimal256(39, 0),
            Self::TimeWithZone | Self::Bit | Self::BigNum => DataType::Utf8,
        }
    }

    fn array(self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Bool => {
                let values = array.as_primitive::<Int8Type>();
                Arc::new(values.iter().map(|value| value.map(|value| value != 0)).collect::<BooleanArray>())
            }
            Self::HugeInt => {
                let numbers = array.as_fixed_size_binary().iter();
                let numbers = numbers.map(|bytes| bytes.map(fixed).map(i128::from_le_bytes));
                Arc::new(numbers.collect::<PrimitiveArray<Decimal128Type>>().with_data_type(self.data_type()))
            }
            Self::UnsignedHugeInt => {
                let numbers = array.as_fixed_size_binary().iter();
                let wide = |bytes| i256::from_parts(u128::from_le_bytes(fixed(bytes)), 0);
                let numbers = numbers.map(|bytes| bytes.map(wide));
                Arc::new(numbers.collect::<PrimitiveArray<Decimal256Type>>().with_data_type(self.data_type()))
            }
            Self::TimeWithZone => {
                let times = array.as_fixed_size_binary().iter();
                Arc::new(
                    times
                        .map(|bytes| bytes.map(|bytes| time_with_zone(fixed(bytes))))
                        .collect::<StringArray>(),
                )
            }
            Self::Bit => texts(array, bits)?,
            Self::BigNum => texts(array, big_number)?,
        })
    }
}

/// Returns the schema of the batches that [`batch`] returns.
pub(super) fn schema(schema: &Schema) -> Schema {
    let fields: Fields = schema.fields().iter().map(plain).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

/// Converts a batch to the schema `to`.
///
/// # Errors
/// DuckDB's bytes don't match the type that it names.
pub(super) fn batch(batch: RecordBatch, to: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let from = batch.schema();
    if from == *to {
        return Ok(batch);
    }
    let columns = from.fields().iter().zip(batch.columns()).map(|(field, array)| values(field, array));
    RecordBatch::try_new(Arc::clone(to), columns.collect::<Result<_, _>>()?)
}

fn plain(field: &FieldRef) -> FieldRef {
    let mut metadata = field.metadata().clone();
    let data_type = match OpaqueType::of(field) {
        Some(opaque) => {
            metadata.remove(EXTENSION_TYPE_NAME_KEY);
            metadata.remove(EXTENSION_TYPE_METADATA_KEY);
            if opaque == OpaqueType::BigNum {
                metadata.insert(KIND.to_owned(), BIGNUM.to_owned());
            }
            opaque.data_type()
        }
        None => match field.data_type() {
            DataType::List(items) => DataType::List(plain(items)),
            DataType::FixedSizeList(items, size) => DataType::FixedSizeList(plain(items), *size),
            DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
            DataType::Map(entries, is_sorted) => DataType::Map(plain(entries), *is_sorted),
            DataType::Union(members, mode) => {
                DataType::Union(members.iter().map(|(id, member)| (id, plain(member))).collect(), *mode)
            }
            _ => return Arc::clone(field),
        },
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()).with_metadata(metadata))
}

fn values(field: &FieldRef, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if let Some(opaque) = OpaqueType::of(field) {
        return opaque.array(array);
    }
    let to = plain(field);
    if to == *field {
        return Ok(Arc::clone(array));
    }
    let inner: Vec<&FieldRef> = match field.data_type() {
        DataType::List(items) | DataType::FixedSizeList(items, _) | DataType::Map(items, _) => vec![items],
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::Union(members, _) => members.iter().map(|(_, member)| member).collect(),
        _ => Vec::new(),
    };
    let data = array.to_data();
    let inner = inner.into_iter().zip(data.child_data());
    let inner = inner.map(|(field, data)| Ok(values(field, &make_array(data.clone()))?.to_data()));
    let inner = inner.collect::<Result<Vec<_>, ArrowError>>()?;
    Ok(make_array(data.into_builder().data_type(to.data_type().clone()).child_data(inner).build()?))
}

fn texts(array: &ArrayRef, text: fn(&[u8]) -> Option<String>) -> Result<ArrayRef, ArrowError> {
    let broken = || ArrowError::ParseError("DuckDB sent a value that isn't of its type".to_owned());
    let texts = array.as_binary::<i32>().iter();
    let texts = texts.map(|bytes| bytes.map(|bytes| text(bytes).ok_or_else(broken)).transpose());
    Ok(Arc::new(texts.collect::<Result<StringArray, _>>()?))
}

/// Returns the bytes of a fixed-size value. Arrow has checked their number.
fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap_or([0; N])
}

/// Formats `12:00:00.5+05:30`, like PostgreSQL. The upper 40 bits are microseconds. The lower 24
/// bits are the seconds from the offset to the largest one.
fn time_with_zone(bytes: [u8; 8]) -> String {
    const LARGEST_OFFSET: i64 = 16 * 3600 - 1;
    let bits = u64::from_le_bytes(bytes);
    let (micros, offset) = (bits >> 24, LARGEST_OFFSET - (bits & 0xff_ffff).cast_signed());
    let seconds = micros / 1_000_000;
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = format!(".{:06}", micros % 1_000_000);
    text.push_str(fraction.trim_end_matches('0').trim_end_matches('.'));
    let (sign, offset) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
    let _ = write!(text, "{sign}{:02}", offset / 3600);
    if offset % 3600 != 0 {
        let _ = write!(text, ":{:02}", offset / 60 % 60);
    }
    if offset % 60 != 0 {
        let _ = write!(text, ":{:02}", offset % 60);
    }
    text
}

/// Formats bits. The first byte is the number of padding bits in the second.
fn bits(bytes: &[u8]) -> Option<String> {
    let (padding, bytes) = bytes.split_first()?;
    let all: String = bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:08b}");
        text
    });
    all.get(usize::from(*padding)..).map(str::to_owned)
}

/// Formats a big number: a header of three bytes, whose first bit is the sign, and the digits in
/// base 256, most significant first. All bytes of a negative number are inverted.
fn big_number(bytes: &[u8]) -> Option<String> {
    /// The largest power of ten in 64 bits.
    const BASE: u64 = 10_000_000_000_000_000_000;
    let is_negative = bytes.first()? & 0x80 == 0;
    let inverted = if is_negative { 0xff } else { 0 };
    // Least significant first.
    let mut groups: Vec<u64> = vec![0];
    for byte in bytes.get(3..)? {
        let mut carry = u128::from(byte ^ inverted);
        for group in &mut groups {
            let value = u128::from(*group) * 256 + carry;
            *group = (value % u128::from(BASE)) as u64;
            carry = value / u128::from(BASE);
        }
        if carry > 0 {
            groups.push(carry as u64);
        }
    }
    let mut text = String::from(if is_negative { "-" } else { "" });
    let (last, rest) = groups.split_last()?;
    let _ = write!(text, "{last}");
    for group in rest.iter().rev() {
        let _ = write!(text, "{group:019}");
    }
    Some(text)
}
