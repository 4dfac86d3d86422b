//! Rows as an Arrow stream, read back by Arrow's own library. A value that doesn't fit ends the
//! stream without its end mark.

use arbitrary::{Arbitrary, Result, Unstructured};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use rowstream_bench::{Counter, End};
use rowstream_encode::{ArrowEncoder, BytesForm, Column, ColumnKind, RowWriter, ScalarKind, write_value};

use crate::value::{Days, Decimal, JsonText, Micros, Owned, TimeOfDay};

/// The end-of-stream marker.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Rows with columns of every kind, in batches that are closed early.
pub fn arrow(data: &[u8]) {
    let _ = stream(&mut Unstructured::new(data));
}

fn stream(u: &mut Unstructured<'_>) -> Result<()> {
    let columns: Vec<Column> = (0..u.int_in_range(0..=4)?).map(|_| column(u)).collect::<Result<_>>()?;
    let fitting = u.ratio(7, 8)?;
    let (mut encoder, mut out) = (ArrowEncoder::new(&columns), Vec::new());
    encoder.start(&mut out);
    let mut rows = Vec::new();
    while rows.len() < 300 && u.ratio(15, 16)? && !u.is_empty() {
        let value = |column: &Column| if fitting { fitting_value(u, column.kind) } else { u.arbitrary() };
        let row: Vec<Owned> = columns.iter().map(value).collect::<Result<_>>()?;
        let before = out.len();
        encoder.begin_row(&mut out);
        row.iter().for_each(|value| encoder.value(value.lend(), &mut out));
        encoder.end_row(&mut out);
        if encoder.misfit().is_some() {
            assert!(!encoder.misfit().into_iter().any(|misfit| misfit.to_string().is_empty()));
            encoder.finish(&mut out);
            assert_eq!(
                out.len(),
                before,
                "nothing is written of a row that does not fit, and nothing after it"
            );
            break;
        }
        rows.push(row);
        if u.ratio(1, 8)? {
            encoder.flush(&mut out);
            assert!(!encoder.holds_rows());
        }
    }
    let whole = encoder.misfit().is_none();
    if whole {
        encoder.finish(&mut out);
    }
    assert!(!whole || out.ends_with(&END));
    // The load tester's reader follows the messages, because a value could contain the same last
    // bytes.
    let mut counter = Counter::for_content_type("application/vnd.apache.arrow.stream");
    counter.feed(&out);
    assert_eq!(counter.finish().end == End::Proven, whole);
    let reader = StreamReader::try_new(&out[..], None).expect("the library reads the schema");
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("the library reads the batch")).collect();
    let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert!(if whole { count == rows.len() } else { count <= rows.len() });
    let places = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
    for ((batch, row), values) in places.zip(&rows) {
        for (index, value) in values.iter().enumerate() {
            assert_value(batch.column(index), row, columns[index].kind, value);
        }
    }
    Ok(())
}

fn column(u: &mut Unstructured<'_>) -> Result<Column> {
    let kind = match kind(u)? {
        kind if u.ratio(1, 4)? => ColumnKind::List(ScalarKind::from(kind)),
        kind => kind,
    };
    Ok(Column { name: u.arbitrary()?, type_name: String::new(), kind })
}

fn kind(u: &mut Unstructured<'_>) -> Result<ColumnKind> {
    Ok(match u.int_in_range(0..=14)? {
        0 => ColumnKind::Bool,
        1 => ColumnKind::Int16,
        2 => ColumnKind::Int32,
        3 => ColumnKind::Int64,
        4 => ColumnKind::Float32,
        5 => ColumnKind::Float64,
        6 => ColumnKind::decimal(u.int_in_range(0..=80)?, u.int_in_range(-10..=80)?),
        7 => ColumnKind::Text,
        8 => ColumnKind::Json,
        9 => ColumnKind::Bytes,
        10 => ColumnKind::Date,
        11 => ColumnKind::Time,
        12 => ColumnKind::Timestamp,
        13 => ColumnKind::TimestampTz,
        _ => ColumnKind::Uuid,
    })
}

/// A list of values of this kind, as JSON, and sometimes any other JSON.
fn list(u: &mut Unstructured<'_>, kind: ColumnKind) -> Result<JsonText> {
    if u.ratio(1, 16)? {
        return JsonText::arbitrary(u);
    }
    let mut json = b"[".to_vec();
    for index in 0..u.int_in_range(0..=5)? {
        json.extend_from_slice(if index > 0 { b"," } else { b"" });
        write_value(fitting_value(u, kind)?.lend(), &mut json);
    }
    json.push(b']');
    Ok(JsonText(String::from_utf8(json).expect("JSON is UTF-8")))
}

/// A value that a source lends for a column of this kind. Even so, the infinities and long decimals
/// don't fit.
fn fitting_value(u: &mut Unstructured<'_>, kind: ColumnKind) -> Result<Owned> {
    if u.ratio(1, 5)? {
        return Ok(Owned::Null);
    }
    Ok(match kind {
        ColumnKind::Bool => Owned::Bool(u.arbitrary()?),
        ColumnKind::Int16 => Owned::Int4(u.arbitrary::<i16>()?.into()),
        ColumnKind::Int32 => Owned::Int4(u.arbitrary()?),
        ColumnKind::Int64 => Owned::Int(u.arbitrary()?),
        ColumnKind::Float32 => Owned::Float4(u.arbitrary()?),
        ColumnKind::Float64 => Owned::Float(u.arbitrary()?),
        ColumnKind::Decimal { precision, scale } => Owned::Number(decimal(u, precision, scale)?),
        ColumnKind::Number | ColumnKind::Text | ColumnKind::Any => Owned::Text(u.arbitrary()?),
        ColumnKind::Json => Owned::Json(JsonText::arbitrary(u)?),
        ColumnKind::Bytes => Owned::Bytes(u.arbitrary()?),
        ColumnKind::Date => Owned::Date(Days::arbitrary(u)?),
        ColumnKind::Time => Owned::Time(TimeOfDay::arbitrary(u)?),
        ColumnKind::Timestamp => Owned::Timestamp(Micros::arbitrary(u)?),
        ColumnKind::TimestampTz => Owned::TimestampTz(Micros::arbitrary(u)?),
        ColumnKind::Uuid => Owned::Uuid(u.arbitrary()?),
        ColumnKind::List(element) => Owned::Json(list(u, element.into())?),
    })
}

/// Usually with as many digits as fit.
fn decimal(u: &mut Unstructured<'_>, precision: u8, scale: u8) -> Result<Decimal> {
    if u.ratio(1, 16)? {
        return u.arbitrary();
    }
    let digits: Vec<u8> = (0..precision).map(|_| u.int_in_range(b'0'..=b'9')).collect::<Result<_>>()?;
    let text = String::from_utf8_lossy(&digits);
    let (whole, fraction) = text.split_at(usize::from(precision - scale));
    let whole = Some(whole.trim_start_matches('0')).filter(|whole| !whole.is_empty()).unwrap_or("0");
    let sign = if u.arbitrary()? { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    Ok(Decimal(format!("{sign}{whole}{point}{fraction}")))
}

fn assert_value(array: &dyn Array, row: usize, kind: ColumnKind, value: &Owned) {
    assert_eq!(array.is_null(row), value.is_null());
    if value.is_null() {
        return;
    }
    let is = match (kind, value) {
        (ColumnKind::Bool, Owned::Bool(bool)) => array.as_boolean().value(row) == *bool,
        (ColumnKind::Int16, value) => {
            Some(array.as_primitive::<Int16Type>().value(row).into()) == integer(value)
        }
        (ColumnKind::Int32, value) => {
            Some(array.as_primitive::<Int32Type>().value(row).into()) == integer(value)
        }
        (ColumnKind::Int64, value) => Some(array.as_primitive::<Int64Type>().value(row)) == integer(value),
        (ColumnKind::Float32, Owned::Float4(float)) => {
            array.as_primitive::<Float32Type>().value(row).to_bits() == float.to_bits()
        }
        (ColumnKind::Float64, Owned::Float(float)) => {
            array.as_primitive::<Float64Type>().value(row).to_bits() == float.to_bits()
        }
        (ColumnKind::Float64, value) => {
            let float = array.as_primitive::<Float64Type>().value(row);
            integer(value).is_some_and(|int| float as i128 == i128::from(int))
        }
        // If a float has several shortest texts, ours is PostgreSQL's, which is never midway
        // between two floats.
        (ColumnKind::Decimal { .. }, Owned::Float(float)) => decimal_text(array, row).parse() == Ok(*float),
        (ColumnKind::Decimal { .. }, value) => {
            number(value).is_some_and(|text| digits(&decimal_text(array, row)) == digits(&text))
        }
        (ColumnKind::Number | ColumnKind::Text | ColumnKind::Any, value) => {
            return value.assert_plain(array.as_string::<i32>().value(row), BytesForm::Hex);
        }
        (ColumnKind::Json, Owned::Json(json)) => array.as_string::<i32>().value(row) == json.0,
        (ColumnKind::Json, value) => {
            let text = array.as_string::<i32>().value(row);
            return value.assert_json(text, rowstream_encode::ValueOptions::DEFAULT);
        }
        (ColumnKind::Bytes, Owned::Bytes(bytes)) => array.as_binary::<i32>().value(row) == bytes,
        (ColumnKind::Date, Owned::Date(days)) => array.as_primitive::<Date32Type>().value(row) == days.0,
        (ColumnKind::Time, Owned::Time(time)) => {
            array.as_primitive::<Time64MicrosecondType>().value(row) == time.0
        }
        (ColumnKind::Timestamp, Owned::Timestamp(micros))
        | (ColumnKind::TimestampTz, Owned::TimestampTz(micros)) => {
            array.as_primitive::<TimestampMicrosecondType>().value(row) == micros.0
        }
        (ColumnKind::List(element), Owned::Json(json)) => {
            is_list(&*array.as_list::<i32>().value(row), element, &json.0)
        }
        (ColumnKind::Uuid, Owned::Uuid(uuid)) => array.as_fixed_size_binary().value(row) == uuid,
        _ => false,
    };
    assert!(is, "{value:?} became another value in a column of {kind:?}");
}

/// Compares the number of elements, their NULLs, and the values that have one form in JSON. The tests of
/// the encoder compare all kinds.
fn is_list(elements: &dyn Array, kind: ScalarKind, json: &str) -> bool {
    let list: Vec<serde_json::Value> = serde_json::from_str(json).expect("a list of JSON");
    let is_element = |(row, value): (usize, &serde_json::Value)| {
        if elements.is_null(row) || value.is_null() {
            return elements.is_null(row) && value.is_null();
        }
        match kind {
            ScalarKind::Bool => Some(elements.as_boolean().value(row)) == value.as_bool(),
            ScalarKind::Int64 => Some(elements.as_primitive::<Int64Type>().value(row)) == value.as_i64(),
            ScalarKind::Text if value.is_string() => {
                Some(elements.as_string::<i32>().value(row)) == value.as_str()
            }
            _ => true,
        }
    };
    elements.len() == list.len() && list.iter().enumerate().all(is_element)
}

fn integer(value: &Owned) -> Option<i64> {
    match value {
        Owned::Int(int) => Some(*int),
        Owned::Int4(int) => Some((*int).into()),
        _ => None,
    }
}

/// The text of a value for a column of decimals.
fn number(value: &Owned) -> Option<String> {
    match value {
        Owned::Number(number) => Some(number.0.clone()),
        value => integer(value).map(|int| int.to_string()),
    }
}

fn decimal_text(array: &dyn Array, row: usize) -> String {
    match array.as_primitive_opt::<Decimal128Type>() {
        Some(array) => array.value_as_string(row),
        None => array.as_primitive::<Decimal256Type>().value_as_string(row),
    }
}

/// A decimal as its sign, its digits without leading and trailing zeros, and the power of ten of
/// the last digit. `None` for zero.
fn digits(text: &str) -> Option<(bool, String, i64)> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let trimmed = digits.trim_end_matches('0');
    let exponent: i64 = exponent.parse().expect("the exponents made here are short");
    let power = exponent - fraction.len() as i64 + (digits.len() - trimmed.len()) as i64;
    let digits = trimmed.trim_start_matches('0');
    (!digits.is_empty()).then(|| (negative, digits.to_owned(), power))
}
