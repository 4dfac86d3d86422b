//! Columns of record batches, in the types that clients receive.
//!
//! A type is kept if all common readers know it. Types that refer to values elsewhere are replaced
//! by the values: dictionaries, runs, and views of texts, bytes and lists. So a client needs only
//! the current batch, and a slice of a batch is no larger than its rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Float16Type, Float32Type,
    Int16Type, Int32Type, Int64Type, RunEndIndexType,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, FixedSizeListArray, GenericListArray, GenericListViewArray,
    MapArray, OffsetSizeTrait, PrimitiveArray, StructArray, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, i256};
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};
use arrow_select::take::take;
use rowstream_core::Error;
use rowstream_encode::{Value, decimal_units};

use super::values::{self, JSON, KIND};

/// A 16-bit float.
type HalfFloat = <Float16Type as ArrowPrimitiveType>::Native;

/// The most digits that a 128-bit decimal can have.
const MAX_DIGITS_128: u8 = 38;

/// The schema of the first `columns` columns, as clients receive it. All are nullable, as in all
/// other results.
pub(super) fn schema(schema: &Schema, columns: usize) -> Schema {
    let fields = schema.fields().iter().take(columns);
    Schema::new(fields.map(|field| self::field(field).with_nullable(true)).collect::<Vec<_>>())
}

fn field(field: &Field) -> Field {
    let said = field.metadata().get(KIND).map(String::as_str);
    let data_type = said.and_then(decimal).unwrap_or_else(|| data_type(field.data_type()));
    let metadata = field.metadata().iter();
    let mut metadata: HashMap<_, _> = metadata
        .filter(|(key, _)| [EXTENSION_TYPE_NAME_KEY, EXTENSION_TYPE_METADATA_KEY].contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if said == Some(JSON) || matches!(field.data_type(), DataType::Union(..)) {
        metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), "arrow.json".to_owned());
        metadata.insert(EXTENSION_TYPE_METADATA_KEY.to_owned(), String::new());
    }
    Field::new(field.name(), data_type, field.is_nullable()).with_metadata(metadata)
}

/// The type for texts that a driver process declares as decimals of a precision and scale.
fn decimal(said: &str) -> Option<DataType> {
    match values::decimal_kind(said)? {
        (precision @ ..=MAX_DIGITS_128, scale) => Some(DataType::Decimal128(precision, scale)),
        (precision, scale) => Some(DataType::Decimal256(precision, scale)),
    }
}

/// The type that clients receive for a type.
fn data_type(of: &DataType) -> DataType {
    let nested = |field: &FieldRef| Arc::new(self::field(field));
    match of {
        DataType::Dictionary(_, values) => data_type(values),
        DataType::RunEndEncoded(_, values) => data_type(values.data_type()),
        DataType::Utf8View | DataType::Union(..) => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::List(items) | DataType::ListView(items) => DataType::List(nested(items)),
        DataType::LargeList(items) | DataType::LargeListView(items) => DataType::LargeList(nested(items)),
        DataType::FixedSizeList(items, size) => DataType::FixedSizeList(nested(items), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(nested).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(nested(entries), *is_sorted),
        same => same.clone(),
    }
}

/// Converts `array` to the type `to`, which [`schema`] has chosen.
///
/// # Errors
/// A value doesn't fit in the type.
pub(super) fn array(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Error> {
    Ok(match (array.data_type(), to) {
        (DataType::Utf8, DataType::Decimal128(precision, scale)) => {
            decimals::<Decimal128Type>(array, to, *precision, *scale, low)?
        }
        (DataType::Utf8, DataType::Decimal256(precision, scale)) => {
            decimals::<Decimal256Type>(array, to, *precision, *scale, i256::from_le_bytes)?
        }
        (DataType::Dictionary(..), _) => {
            let dictionary = array.as_any_dictionary();
            self::array(&take(dictionary.values(), dictionary.keys(), None).map_err(unlike)?, to)?
        }
        (DataType::RunEndEncoded(ends, _), _) => self::array(&runs(array, ends.data_type())?, to)?,
        (DataType::Union(..), _) => documents(array)?,
        (DataType::Utf8View, _) => texts(array),
        (DataType::BinaryView, _) => bytes(array),
        (DataType::Float16, _) => {
            Arc::new(array.as_primitive::<Float16Type>().unary::<_, Float32Type>(HalfFloat::to_f32))
        }
        (DataType::Decimal32(..), DataType::Decimal128(precision, scale)) => {
            let wide = array.as_primitive::<Decimal32Type>().unary::<_, Decimal128Type>(i128::from);
            Arc::new(wide.with_precision_and_scale(*precision, *scale).map_err(unlike)?)
        }
        (DataType::Decimal64(..), DataType::Decimal128(precision, scale)) => {
            let wide = array.as_primitive::<Decimal64Type>().unary::<_, Decimal128Type>(i128::from);
            Arc::new(wide.with_precision_and_scale(*precision, *scale).map_err(unlike)?)
        }
        (DataType::List(_), DataType::List(items)) => list::<i32>(array, items)?,
        (DataType::LargeList(_), DataType::LargeList(items)) => list::<i64>(array, items)?,
        (DataType::ListView(_), DataType::List(items)) => list_view::<i32>(array, items)?,
        (DataType::LargeListView(_), DataType::LargeList(items)) => list_view::<i64>(array, items)?,
        (DataType::FixedSizeList(..), DataType::FixedSizeList(items, size)) => {
            let list = array.as_fixed_size_list();
            let values = self::array(list.values(), items.data_type())?;
            let (items, nulls) = (Arc::clone(items), list.nulls().cloned());
            Arc::new(FixedSizeListArray::try_new(items, *size, values, nulls).map_err(unlike)?)
        }
        (DataType::Struct(_), DataType::Struct(fields)) => Arc::new(structs(array.as_struct(), fields)?),
        (DataType::Map(..), DataType::Map(entries, is_sorted)) => map(array.as_map(), entries, *is_sorted)?,
        _ => Arc::clone(array),
    })
}

/// A value for each row of a run-end encoded array.
fn runs(array: &ArrayRef, ends: &DataType) -> Result<ArrayRef, Error> {
    fn of<T: RunEndIndexType>(array: &ArrayRef) -> Result<ArrayRef, Error> {
        let runs = array.as_run::<T>();
        let places = (0..runs.len()).map(|row| runs.get_physical_index(row) as u64);
        take(runs.values(), &UInt64Array::from_iter_values(places), None).map_err(unlike)
    }
    match ends {
        DataType::Int16 => of::<Int16Type>(array),
        DataType::Int32 => of::<Int32Type>(array),
        _ => of::<Int64Type>(array),
    }
}

fn texts(array: &ArrayRef) -> ArrayRef {
    let views = array.as_string_view();
    let mut texts = StringBuilder::with_capacity(views.len(), 0);
    texts.extend(views.iter());
    Arc::new(texts.finish())
}

fn bytes(array: &ArrayRef) -> ArrayRef {
    let views = array.as_binary_view();
    let mut bytes = BinaryBuilder::with_capacity(views.len(), 0);
    bytes.extend(views.iter());
    Arc::new(bytes.finish())
}

/// Each value as a JSON document.
fn documents(array: &ArrayRef) -> Result<ArrayRef, Error> {
    let mut documents = StringBuilder::new();
    let mut json = String::new();
    for row in 0..array.len() {
        json.clear();
        match values::value(array, row, &mut json)? {
            Value::Null => documents.append_null(),
            _ => documents.append_value(&json),
        }
    }
    Ok(Arc::new(documents.finish()))
}

/// Converts texts that a driver process declares as decimals to numbers of type `to`. `of` converts
/// 32 bytes.
fn decimals<T: DecimalType>(
    array: &ArrayRef,
    to: &DataType,
    precision: u8,
    scale: i8,
    of: impl Fn([u8; 32]) -> T::Native,
) -> Result<ArrayRef, Error> {
    let units = |text: &str| {
        let number = Some(text).filter(|text| values::is_number(text));
        let units = number.and_then(|number| decimal_units(number, precision, scale.cast_unsigned()));
        units.map(&of).ok_or_else(|| {
            Error::bad_value(format!(
                "a column holds NaN or a decimal of more digits, which its Arrow type {to} cannot"
            ))
            .hint("select it as text: `cast(… as text)`")
        })
    };
    let numbers = array.as_string::<i32>().iter().map(|text| text.map(units).transpose());
    let numbers = PrimitiveArray::<T>::from_iter(numbers.collect::<Result<Vec<_>, _>>()?);
    Ok(Arc::new(numbers.with_precision_and_scale(precision, scale).map_err(unlike)?))
}

/// The lower half of a number that fits in it.
fn low(units: [u8; 32]) -> i128 {
    i128::from_le_bytes(*units.first_chunk().expect("32 bytes have 16"))
}

fn list<O: OffsetSizeTrait>(array: &ArrayRef, items: &FieldRef) -> Result<ArrayRef, Error> {
    let list = array.as_list::<O>();
    let (values, offsets) = within(list.values(), list.offsets());
    let values = self::array(&values, items.data_type())?;
    let (items, nulls) = (Arc::clone(items), list.nulls().cloned());
    Ok(Arc::new(GenericListArray::try_new(items, offsets, values, nulls).map_err(unlike)?))
}

/// The values of the lists in a slice, and the end of each list in them.
fn within<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &OffsetBuffer<O>) -> (ArrayRef, OffsetBuffer<O>) {
    let (first, last) = ends(offsets, 0, offsets.len() - 1);
    (values.slice(first, last - first), OffsetBuffer::from_lengths(offsets.lengths()))
}

fn list_view<O: OffsetSizeTrait>(array: &ArrayRef, items: &FieldRef) -> Result<ArrayRef, Error> {
    let list: &GenericListViewArray<O> = array.as_list_view();
    let lists = || (0..list.len()).map(|row| if list.is_null(row) { 0..0 } else { range(list, row) });
    let places = UInt64Array::from_iter_values(lists().flatten().map(|place| place as u64));
    let values = take(list.values(), &places, None).map_err(unlike)?;
    let values = self::array(&values, items.data_type())?;
    let offsets = OffsetBuffer::<O>::from_lengths(lists().map(|places| places.len()));
    let (items, nulls) = (Arc::clone(items), list.nulls().cloned());
    Ok(Arc::new(GenericListArray::try_new(items, offsets, values, nulls).map_err(unlike)?))
}

/// The positions of a list's items.
fn range<O: OffsetSizeTrait>(list: &GenericListViewArray<O>, row: usize) -> std::ops::Range<usize> {
    let start = list.value_offset(row).as_usize();
    start..start + list.value_size(row).as_usize()
}

fn structs(array: &StructArray, fields: &Fields) -> Result<StructArray, Error> {
    let members = array.columns().iter().zip(fields);
    let members = members.map(|(member, field)| self::array(member, field.data_type()));
    let (members, nulls) = (members.collect::<Result<Vec<_>, _>>()?, array.nulls().cloned());
    StructArray::try_new_with_length(fields.clone(), members, nulls, array.len()).map_err(unlike)
}

fn map(array: &MapArray, entries: &FieldRef, is_sorted: bool) -> Result<ArrayRef, Error> {
    let DataType::Struct(fields) = entries.data_type() else { return Err(unlike_nothing()) };
    let all: ArrayRef = Arc::new(array.entries().clone());
    let (within, offsets) = within(&all, array.offsets());
    let sent = structs(within.as_struct(), fields)?;
    let (entries, nulls): (_, Option<NullBuffer>) = (Arc::clone(entries), array.nulls().cloned());
    Ok(Arc::new(MapArray::try_new(entries, offsets, sent, nulls, is_sorted).map_err(unlike)?))
}

/// The error of a batch that doesn't match its schema.
#[cold]
pub(super) fn unlike(error: ArrowError) -> Error {
    Error::protocol("a record batch doesn't match its schema").cause(error)
}

#[cold]
fn unlike_nothing() -> Error {
    Error::protocol("the entries of a map aren't keys and values")
}

/// The encoded size of some rows' values, in bytes.
pub(super) fn size(array: &ArrayRef, from: usize, rows: usize) -> usize {
    let each = |size: &dyn Fn(usize) -> usize| (from..from + rows).map(size).fold(0, usize::saturating_add);
    let values = match array.data_type() {
        DataType::Null => 0,
        DataType::Boolean => rows / 8,
        DataType::Utf8 => between(array.as_string::<i32>().offsets(), from, rows, 1),
        DataType::LargeUtf8 => between(array.as_string::<i64>().offsets(), from, rows, 1),
        DataType::Binary => between(array.as_binary::<i32>().offsets(), from, rows, 1),
        DataType::LargeBinary => between(array.as_binary::<i64>().offsets(), from, rows, 1),
        DataType::Utf8View => views(array.as_string_view().views(), from, rows),
        DataType::BinaryView => views(array.as_binary_view().views(), from, rows),
        DataType::FixedSizeBinary(width) => rows * width.unsigned_abs() as usize,
        DataType::Dictionary(keys, _) => {
            let values = array.as_any_dictionary().values();
            each(&|row| {
                if array.is_null(row) { 16 } else { size(values, values::key_at(keys, array, row), 1) }
            })
        }
        DataType::RunEndEncoded(ends, _) => each(&|row| {
            let (values, run) = values::of_run(ends.data_type(), array, row);
            size(values, run, 1)
        }),
        DataType::Union(..) => {
            let mut json = Vec::new();
            // A value that can't be written will fail when it's sent.
            for row in from..from + rows {
                let _ = values::write_json(array, row, &mut json);
            }
            json.len() + 4 * rows
        }
        DataType::List(_) => items(array.as_list::<i32>(), from, rows),
        DataType::LargeList(_) => items(array.as_list::<i64>(), from, rows),
        DataType::ListView(_) => each(&|row| viewed(array.as_list_view::<i32>(), row)),
        DataType::LargeListView(_) => each(&|row| viewed(array.as_list_view::<i64>(), row)),
        DataType::FixedSizeList(_, length) => {
            let length = length.unsigned_abs() as usize;
            size(array.as_fixed_size_list().values(), from * length, rows * length)
        }
        DataType::Struct(_) => {
            let members = array.as_struct().columns().iter();
            members.map(|member| size(member, from, rows)).fold(0, usize::saturating_add)
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let (first, last) = ends(map.offsets(), from, rows);
            size(&entries, first, last - first) + 4 * rows
        }
        primitive => rows * primitive.primitive_width().unwrap_or(16),
    };
    values.saturating_add(rows / 8)
}

/// The start and end of some rows' values.
fn ends<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, from: usize, rows: usize) -> (usize, usize) {
    (offsets[from].as_usize(), offsets[from + rows].as_usize())
}

fn between<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, from: usize, rows: usize, width: usize) -> usize {
    let (first, last) = ends(offsets, from, rows);
    (last - first) * width + rows * size_of::<O>()
}

/// The lower half of a view contains its length.
fn views(views: &[u128], from: usize, rows: usize) -> usize {
    let lengths = views[from..from + rows].iter().map(|view| *view as u32 as usize + 4);
    lengths.fold(0, usize::saturating_add)
}

fn items<O: OffsetSizeTrait>(list: &GenericListArray<O>, from: usize, rows: usize) -> usize {
    let (first, last) = ends(list.offsets(), from, rows);
    size(list.values(), first, last - first) + rows * size_of::<O>()
}

fn viewed<O: OffsetSizeTrait>(list: &GenericListViewArray<O>, row: usize) -> usize {
    let places = if list.is_null(row) { 0..0 } else { range(list, row) };
    size(list.values(), places.start, places.len()) + size_of::<O>()
}
