//! Reads an Arrow stream with Arrow's own library.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, Schema};
use rowstream_encode::write_value;
use serde_json::{Value, json};

/// The schema and the batches received so far. The stream may be incomplete.
pub fn read(stream: &[u8]) -> (Schema, Vec<RecordBatch>) {
    let reader = StreamReader::try_new(stream, None).expect("a stream of Arrow");
    let schema = reader.schema();
    (schema.as_ref().clone(), reader.map_while(Result::ok).collect())
}

/// A value in its type's form: times in days or microseconds, bytes in hex.
fn shown(column: &dyn Array, row: usize) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if column.is_null(row) {
        return "NULL".to_owned();
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Decimal256(..) => column.as_primitive::<Decimal256Type>().value_as_string(row),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::Binary => hex(column.as_binary::<i32>().value(row)),
        DataType::FixedSizeBinary(_) => hex(column.as_fixed_size_binary().value(row)),
        DataType::Date32 => column.as_primitive::<Date32Type>().value(row).to_string(),
        DataType::Time64(_) => column.as_primitive::<Time64MicrosecondType>().value(row).to_string(),
        DataType::Timestamp(..) => column.as_primitive::<TimestampMicrosecondType>().value(row).to_string(),
        DataType::List(_) => {
            let elements = column.as_list::<i32>().value(row);
            let shown: Vec<_> = (0..elements.len()).map(|element| shown(&*elements, element)).collect();
            format!("[{}]", shown.join(", "))
        }
        other => panic!("no column is of type {other}"),
    }
}

/// The type and the values of each column.
pub fn columns(stream: &[u8]) -> Vec<(String, Vec<String>)> {
    let (schema, batches) = read(stream);
    let values = |column: usize| {
        let of_batch = |batch: &RecordBatch| {
            (0..batch.num_rows()).map(|row| shown(batch.column(column), row)).collect::<Vec<_>>()
        };
        batches.iter().flat_map(of_batch).collect()
    };
    let of_field = |(i, field): (usize, &arrow_schema::FieldRef)| (field.data_type().to_string(), values(i));
    schema.fields().iter().enumerate().map(of_field).collect()
}

/// The rows as JSON, in the form that they have in the format `json`.
pub fn rows(stream: &[u8]) -> Vec<Value> {
    let batches = read(stream).1.into_iter().map(StructArray::from);
    batches.flat_map(|batch| (0..batch.len()).map(move |row| json_of(&batch, row))).collect()
}

fn json_of(column: &dyn Array, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(column.as_struct().columns());
            columns.map(|(field, column)| (field.name().clone(), json_of(column, row))).collect()
        }
        DataType::List(_) => {
            let list = column.as_list::<i32>().value(row);
            (0..list.len()).map(|row| json_of(&list, row)).collect()
        }
        DataType::Utf8 => json!(column.as_string::<i32>().value(row)),
        DataType::Timestamp(..) => written(
            column.as_primitive::<TimestampMicrosecondType>().value(row),
            rowstream_encode::Value::Timestamp,
        ),
        DataType::Date32 => {
            written(column.as_primitive::<Date32Type>().value(row), rowstream_encode::Value::Date)
        }
        DataType::FixedSizeBinary(_) => {
            let bytes = column.as_fixed_size_binary().value(row).try_into().expect("16 bytes");
            written(bytes, rowstream_encode::Value::Uuid)
        }
        // Their text is JSON.
        _ => serde_json::from_str(&shown(column, row)).expect("a number or a boolean"),
    }
}

fn written<T>(value: T, kind: impl FnOnce(T) -> rowstream_encode::Value<'static>) -> Value {
    let mut json = Vec::new();
    write_value(kind(value), &mut json);
    serde_json::from_slice(&json).expect("it's JSON")
}
