//! Arguments as a batch of one row, for binding by ADBC and Flight SQL.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder};
use arrow_array::new_null_array;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, NullArray, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{ArrowError, Field, Schema};

use super::Argument;

/// A batch of one row, with a column for each argument in the order of the placeholders.
///
/// # Errors
/// Arrow has no type for a decimal.
pub(crate) fn batch(arguments: &[Argument]) -> Result<RecordBatch, ArrowError> {
    let columns = arguments.iter().map(array).collect::<Result<Vec<_>, _>>()?;
    let fields = columns.iter().enumerate();
    let fields = fields.map(|(i, column)| Field::new(i.to_string(), column.data_type().clone(), true));
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns)
}

fn array(argument: &Argument) -> Result<ArrayRef, ArrowError> {
    Ok(match argument {
        Argument::Null => Arc::new(NullArray::new(1)),
        Argument::NullOf(value) => new_null_array(array(value)?.data_type(), 1),
        Argument::Boolean(value) => Arc::new(BooleanArray::from(vec![*value])),
        Argument::Integer(value) => Arc::new(Int64Array::from(vec![*value])),
        Argument::Number(text) => match decimal(text) {
            Some((digits, precision, scale)) => {
                Arc::new(Decimal128Array::from(vec![digits]).with_precision_and_scale(precision, scale)?)
            }
            None => Arc::new(StringArray::from(vec![text.as_str()])),
        },
        Argument::Float(bits) => Arc::new(Float64Array::from(vec![f64::from_bits(*bits)])),
        Argument::Text(text) => Arc::new(StringArray::from(vec![text.as_str()])),
        Argument::Date(days) => Arc::new(Date32Array::from(vec![*days])),
        Argument::Timestamp(micros) => {
            Arc::new(TimestampMicrosecondArray::from(vec![*micros]).with_timezone("UTC"))
        }
        Argument::List(items) => list(items),
    })
}

/// A list of integers if all items are integers or NULL, otherwise of texts.
fn list(items: &[Argument]) -> ArrayRef {
    let is_integer = |item: &Argument| matches!(item, Argument::Integer(_) | Argument::Null);
    if !items.is_empty() && items.iter().all(is_integer) {
        let mut list = ListBuilder::new(Int64Builder::new());
        for item in items {
            list.values().append_option(if let Argument::Integer(value) = item {
                Some(*value)
            } else {
                None
            });
        }
        list.append(true);
        return Arc::new(list.finish());
    }
    let mut list = ListBuilder::new(StringBuilder::new());
    for item in items {
        list.values().append_option(match item {
            Argument::Integer(value) => Some(value.to_string()),
            Argument::Text(text) => Some(text.clone()),
            _ => None,
        });
    }
    list.append(true);
    Arc::new(list.finish())
}

/// `-12.50` as its digits, precision (always 38) and scale. Returns `None` if they don't fit.
fn decimal(text: &str) -> Option<(i128, u8, i8)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = i8::try_from(fraction.len()).ok().filter(|scale| *scale <= 38)?;
    // The maximum precision leaves room for the digits before the point.
    (digits.unsigned_abs() < 10u128.pow(38)).then_some((digits, 38, scale))
}
