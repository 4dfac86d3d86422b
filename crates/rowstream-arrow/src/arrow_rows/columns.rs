//! The columns of a batch. Their types are matched once per batch instead of once per value, which
//! would be a large part of the cost of packing a row.

use std::cell::Cell;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Decimal128Type;
use arrow_array::{
    Array as _, ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{DataType, TimeUnit};
use rowstream_core::Error;
use rowstream_encode::{Column, Value};

use super::{cells, values};

/// The columns of a batch.
#[derive(Default)]
pub(crate) struct Columns {
    values: Vec<ColumnValues>,
    /// A buffer for the current value, reused to save allocations.
    text: Cell<String>,
}

/// The values of a column, with variants for the most common types.
enum ColumnValues {
    Int32(Int32Array),
    Int64(Int64Array),
    Float64(Float64Array),
    Decimal(Decimal128Array, i8),
    Text(StringArray),
    Date(Date32Array),
    Timestamp(TimestampMicrosecondArray),
    TimestampTz(TimestampMicrosecondArray),
    Other(ArrayRef),
}

impl Columns {
    /// The columns of a batch. Copies no values.
    pub(crate) fn of(arrays: &[ArrayRef]) -> Self {
        Self { values: arrays.iter().map(ColumnValues::of).collect(), text: Cell::default() }
    }

    /// Appends a packed row, whose columns are `described`, to `packed`.
    ///
    /// # Errors
    /// The row is longer than `limit`, or one of its values can't be written.
    #[inline]
    pub(crate) fn pack(
        &self,
        row: usize,
        described: &[Column],
        limit: usize,
        packed: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let (start, mut text) = (packed.len(), self.text.take());
        for (values, column) in self.values.iter().zip(described) {
            text.clear();
            let value = values.value(row, &mut text)?;
            cells::push(values::of_kind(value, column.kind), packed);
        }
        self.text.set(text);
        match packed.len() - start {
            length if length > limit => {
                packed.truncate(start);
                Err(Error::row_too_large(length as u64, limit))
            }
            _ => Ok(()),
        }
    }
}

impl ColumnValues {
    fn of(array: &ArrayRef) -> Self {
        match array.data_type() {
            DataType::Int32 => Self::Int32(array.as_primitive().clone()),
            DataType::Int64 => Self::Int64(array.as_primitive().clone()),
            DataType::Float64 => Self::Float64(array.as_primitive().clone()),
            DataType::Decimal128(_, scale) => {
                Self::Decimal(array.as_primitive::<Decimal128Type>().clone(), *scale)
            }
            DataType::Utf8 => Self::Text(array.as_string().clone()),
            DataType::Date32 => Self::Date(array.as_primitive().clone()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Self::Timestamp(array.as_primitive().clone()),
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
                Self::TimestampTz(array.as_primitive().clone())
            }
            _ => Self::Other(ArrayRef::clone(array)),
        }
    }

    /// See [`values::value`].
    #[inline]
    fn value<'a>(&'a self, row: usize, text: &'a mut String) -> Result<Value<'a>, Error> {
        Ok(match self {
            Self::Int32(values) if values.is_valid(row) => Value::Int4(values.value(row).into()),
            Self::Int64(values) if values.is_valid(row) => Value::Int(values.value(row)),
            Self::Float64(values) if values.is_valid(row) => Value::Float(values.value(row)),
            Self::Decimal(values, scale) if values.is_valid(row) => {
                values::decimal(values.value(row), *scale, text)
            }
            Self::Text(values) if values.is_valid(row) => Value::Text(values.value(row)),
            Self::Date(values) if values.is_valid(row) => values::date(values.value(row)),
            Self::Timestamp(values) if values.is_valid(row) => values::timestamp_of(values.value(row)),
            Self::TimestampTz(values) if values.is_valid(row) => values::timestamp_tz_of(values.value(row)),
            Self::Other(array) => return values::value(array, row, text),
            _ => Value::Null,
        })
    }
}
