//! Arguments as the one row of a batch, which is how ADBC and Flight SQL bind them.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder};
use arrow_array::new_null_array;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Int64Array, NullArray, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{ArrowError, Field, Schema};

use super::Argument;

/// The one row of `arguments`, in the order of their placeholders.
///
/// # Errors
/// A decimal is of no type that Arrow has.
pub(in crate::database) fn batch(arguments: &[Argument]) -> Result<RecordBatch, ArrowError> {
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
        Argument::Text(text) => Arc::new(StringArray::from(vec![text.as_str()])),
        Argument::Date(days) => Arc::new(Date32Array::from(vec![*days])),
        Argument::Timestamp(micros) => {
            Arc::new(TimestampMicrosecondArray::from(vec![*micros]).with_timezone("UTC"))
        }
        Argument::List(items) => list(items),
    })
}

/// A list of integers where all are, else of texts.
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

/// `-12.50` as its digits, how many there are, and how many of them stand after the point; `None`
/// where they do not fit.
fn decimal(text: &str) -> Option<(i128, u8, i8)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = i8::try_from(fraction.len()).ok().filter(|scale| *scale <= 38)?;
    // Digits before the point are kept in the precision's room.
    (digits.unsigned_abs() < 10u128.pow(38)).then_some((digits, 38, scale))
}
