//! A line per type of Arrow: its JSON, and the type that clients of batches receive.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, Int32Builder, ListBuilder, MapBuilder, StringBuilder, StringDictionaryBuilder,
    StringRunBuilder,
};
use arrow_array::types::{
    Float16Type, Int8Type, Int16Type, Int32Type, IntervalDayTimeType, IntervalMonthDayNanoType, UInt8Type,
};
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, Field, Fields, Schema, UnionFields};
use rowstream_encode::{BatchEncoder, Column, ColumnKind, RowEncoder, Shape, Value};

use super::values::{JSON, KIND, of_kind};
use super::*;

type Float16 = <Float16Type as ArrowPrimitiveType>::Native;

/// A limit that no row reaches.
const ANY: usize = 1 << 30;

/// An array, the JSON of each of its rows, and the type that clients receive, if it's another.
type Line = (ArrayRef, &'static [&'static str], Option<DataType>);

fn array(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, true))
}

fn numbers() -> Vec<Line> {
    vec![
        (array(NullArray::new(2)), &["null", "null"], None),
        (array(BooleanArray::from(vec![Some(true), None, Some(false)])), &["true", "null", "false"], None),
        (array(Int8Array::from(vec![Some(-128), None])), &["-128", "null"], None),
        (array(Int16Array::from(vec![i16::MIN])), &["-32768"], None),
        (array(Int32Array::from(vec![i32::MAX])), &["2147483647"], None),
        (array(Int64Array::from(vec![i64::MIN])), &["-9223372036854775808"], None),
        (array(UInt8Array::from(vec![255])), &["255"], None),
        (array(UInt16Array::from(vec![65_535])), &["65535"], None),
        (array(UInt32Array::from(vec![u32::MAX])), &["4294967295"], None),
        (array(UInt64Array::from(vec![1, u64::MAX])), &["1", "18446744073709551615"], None),
        (
            array(Float32Array::from(vec![0.1]).unary::<_, Float16Type>(<Float16>::from_f32)),
            &["0.099975586"],
            Some(DataType::Float32),
        ),
        (array(Float32Array::from(vec![0.1, f32::NAN])), &["0.1", "\"NaN\""], None),
        (array(Float64Array::from(vec![0.1, f64::NEG_INFINITY])), &["0.1", "\"-Infinity\""], None),
        (
            array(Decimal32Array::from(vec![-125]).with_precision_and_scale(9, 2).unwrap()),
            &["-1.25"],
            Some(DataType::Decimal128(9, 2)),
        ),
        (
            array(
                Decimal64Array::from(vec![Some(5), None, Some(-5)]).with_precision_and_scale(18, 18).unwrap(),
            ),
            &["0.000000000000000005", "null", "-0.000000000000000005"],
            Some(DataType::Decimal128(18, 18)),
        ),
        (
            array(Decimal128Array::from(vec![10i128.pow(37), -7]).with_precision_and_scale(38, 0).unwrap()),
            &["10000000000000000000000000000000000000", "-7"],
            None,
        ),
        // JSON doesn't allow `000` as a number.
        (
            array(Decimal128Array::from(vec![12, 0, -5]).with_precision_and_scale(3, -2).unwrap()),
            &["1200", "0", "-500"],
            None,
        ),
        (
            array(
                Decimal256Array::from(vec![i256::from_i128(-10).wrapping_pow(75), i256::from_i128(-10)])
                    .with_precision_and_scale(76, 1)
                    .unwrap(),
            ),
            &["-100000000000000000000000000000000000000000000000000000000000000000000000000.0", "-1.0"],
            None,
        ),
    ]
}

fn texts() -> Vec<Line> {
    let long = "a text that is longer than a view";
    vec![
        (array(StringArray::from(vec![Some("é\""), None, Some("")])), &["\"é\\\"\"", "null", "\"\""], None),
        (array(LargeStringArray::from(vec!["a"])), &["\"a\""], None),
        (
            array(StringViewArray::from(vec![Some("a"), None, Some(long)])),
            &["\"a\"", "null", "\"a text that is longer than a view\""],
            Some(DataType::Utf8),
        ),
        (array(BinaryArray::from(vec![&b"ab"[..]])), &["\"\\\\x6162\""], None),
        (array(LargeBinaryArray::from(vec![&b""[..]])), &["\"\\\\x\""], None),
        (
            array(BinaryViewArray::from(vec![Some(&b"\xff"[..]), None])),
            &["\"\\\\xff\"", "null"],
            Some(DataType::Binary),
        ),
        (
            array(FixedSizeBinaryArray::try_from_iter([[1, 2], [3, 4]].iter()).unwrap()),
            &["\"\\\\x0102\"", "\"\\\\x0304\""],
            None,
        ),
    ]
}

fn times() -> Vec<Line> {
    vec![
        (array(Date32Array::from(vec![19_782, -1])), &["\"2024-02-29\"", "\"1969-12-31\""], None),
        (array(Date64Array::from(vec![-1])), &["\"1969-12-31\""], None),
        (array(Time32SecondArray::from(vec![36_671])), &["\"10:11:11\""], None),
        (array(Time32MillisecondArray::from(vec![1500])), &["\"00:00:01.5\""], None),
        (array(Time64MicrosecondArray::from(vec![1])), &["\"00:00:00.000001\""], None),
        (
            array(Time64NanosecondArray::from(vec![1000, 1])),
            &["\"00:00:00.000001\"", "\"00:00:00.000000001\""],
            None,
        ),
        (array(TimestampSecondArray::from(vec![-1])), &["\"1969-12-31T23:59:59\""], None),
        (array(TimestampMillisecondArray::from(vec![1])), &["\"1970-01-01T00:00:00.001\""], None),
        (array(TimestampMicrosecondArray::from(vec![1])), &["\"1970-01-01T00:00:00.000001\""], None),
        (
            array(TimestampNanosecondArray::from(vec![1000, 1, -1])),
            &[
                "\"1970-01-01T00:00:00.000001\"",
                "\"1970-01-01T00:00:00.000000001\"",
                "\"1969-12-31T23:59:59.999999999\"",
            ],
            None,
        ),
        // The zone's name doesn't matter: the value is an instant in UTC.
        (
            array(TimestampSecondArray::from(vec![0]).with_timezone("Europe/Berlin")),
            &["\"1970-01-01T00:00:00Z\""],
            None,
        ),
        (
            array(TimestampMillisecondArray::from(vec![0]).with_timezone("+02:00")),
            &["\"1970-01-01T00:00:00Z\""],
            None,
        ),
        (
            array(TimestampMicrosecondArray::from(vec![0]).with_timezone("UTC")),
            &["\"1970-01-01T00:00:00Z\""],
            None,
        ),
        (
            array(TimestampNanosecondArray::from(vec![1]).with_timezone("UTC")),
            &["\"1970-01-01T00:00:00.000000001Z\""],
            None,
        ),
        (array(DurationSecondArray::from(vec![90])), &["\"PT90S\""], None),
        (array(DurationMillisecondArray::from(vec![-1500])), &["\"PT-1.5S\""], None),
        (array(DurationMicrosecondArray::from(vec![0])), &["\"PT0S\""], None),
        (array(DurationNanosecondArray::from(vec![1])), &["\"PT0.000000001S\""], None),
        (array(IntervalYearMonthArray::from(vec![14, -1])), &["\"P14M\"", "\"P-1M\""], None),
        (
            array(IntervalDayTimeArray::from(vec![IntervalDayTimeType::make_value(3, -500)])),
            &["\"P3DT-0.5S\""],
            None,
        ),
        (
            array(IntervalMonthDayNanoArray::from(vec![
                Some(IntervalMonthDayNanoType::make_value(1, 2, 3_000_000_000)),
                None,
            ])),
            &["\"P1M2DT3S\"", "null"],
            None,
        ),
    ]
}

fn nested() -> Vec<Line> {
    let mut list = ListBuilder::new(Int32Builder::new());
    list.append_value([Some(1), None]);
    list.append_null();
    list.append_value([]);
    let list = list.finish();
    let large = LargeListArray::new(
        item(DataType::Utf8View),
        OffsetBuffer::from_lengths([1, 1]),
        array(StringViewArray::from(vec!["a", "b"])),
        None,
    );
    let mut fixed = FixedSizeListBuilder::new(Int32Builder::new(), 2);
    fixed.values().append_slice(&[1, 2]);
    fixed.append(true);
    fixed.values().append_nulls(2);
    fixed.append(false);
    let views = ListViewArray::new(
        item(DataType::Int32),
        ScalarBuffer::from(vec![1, 0, 0]),
        ScalarBuffer::from(vec![2, 1, 3]),
        array(Int32Array::from(vec![1, 2, 3])),
        Some(NullBuffer::from(vec![true, true, false])),
    );
    let large_views = LargeListViewArray::new(
        item(DataType::Date32),
        ScalarBuffer::from(vec![0]),
        ScalarBuffer::from(vec![1]),
        array(Date32Array::from(vec![0])),
        None,
    );
    let dictionary: DictionaryArray<Int8Type> = vec![Some("x"), None].into_iter().collect();
    let members = vec![array(Int32Array::from(vec![1, 2])), array(dictionary)];
    let fields = vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, true)];
    let structs = StructArray::new(
        Fields::from(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("b", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), true),
        ]),
        members,
        Some(NullBuffer::from(vec![true, false])),
    );
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("k\"");
    map.values().append_value(1);
    map.append(true).unwrap();
    map.append(false).unwrap();
    let mut by_number = MapBuilder::new(None, Int32Builder::new(), Int32Builder::new());
    by_number.keys().append_value(7);
    by_number.values().append_null();
    by_number.append(true).unwrap();
    vec![
        (array(list), &["[1,null]", "null", "[]"], None),
        (array(large), &["[\"a\"]", "[\"b\"]"], Some(DataType::LargeList(item(DataType::Utf8)))),
        (array(fixed.finish()), &["[1,2]", "null"], None),
        (array(views), &["[2,3]", "[1]", "null"], Some(DataType::List(item(DataType::Int32)))),
        (array(large_views), &["[\"1970-01-01\"]"], Some(DataType::LargeList(item(DataType::Date32)))),
        (array(structs), &["{\"a\":1,\"b\":\"x\"}", "null"], Some(DataType::Struct(fields.into()))),
        (array(map.finish()), &["{\"k\\\"\":1}", "null"], None),
        (array(by_number.finish()), &["{\"7\":null}"], None),
    ]
}

fn elsewhere() -> Vec<Line> {
    let mut texts = StringDictionaryBuilder::<UInt8Type>::new();
    texts.append_values("hello", 2);
    texts.append_null();
    texts.append_value("é");
    let days = DictionaryArray::<Int16Type>::new(
        Int16Array::from(vec![Some(1), None, Some(0)]),
        array(Date32Array::from(vec![Some(0), None])),
    );
    let mut runs = StringRunBuilder::<Int32Type>::new();
    runs.extend([Some("a"), Some("a"), None, Some("b")]);
    let numbers =
        RunArray::<Int16Type>::try_new(&Int16Array::from(vec![2, 3]), &Int64Array::from(vec![7, 8])).unwrap();
    let fields = UnionFields::try_new(
        [0, 1],
        [Field::new("n", DataType::Int32, true), Field::new("t", DataType::Utf8, true)],
    )
    .unwrap();
    let children =
        || vec![array(Int32Array::from(vec![Some(7), None])), array(StringArray::from(vec!["x", "y"]))];
    let dense =
        UnionArray::try_new(fields.clone(), vec![0, 1, 0].into(), Some(vec![0, 1, 1].into()), children());
    let sparse = UnionArray::try_new(fields, vec![1, 0].into(), None, children());
    vec![
        (array(texts.finish()), &["\"hello\"", "\"hello\"", "null", "\"é\""], Some(DataType::Utf8)),
        (array(days), &["null", "null", "\"1970-01-01\""], Some(DataType::Date32)),
        (array(runs.finish()), &["\"a\"", "\"a\"", "null", "\"b\""], Some(DataType::Utf8)),
        (array(numbers), &["7", "7", "8"], Some(DataType::Int64)),
        (array(dense.unwrap()), &["7", "\"y\"", "null"], Some(DataType::Utf8)),
        (array(sparse.unwrap()), &["\"x\"", "null"], Some(DataType::Utf8)),
    ]
}

fn all() -> Vec<Line> {
    [numbers(), texts(), times(), nested(), elsewhere()].into_iter().flatten().collect()
}

/// The schema and the columns of a table with the one column `array`.
fn of(array: &ArrayRef) -> (Schema, Vec<Column>) {
    let field = Field::new("value", array.data_type().clone(), true);
    let columns = vec![column(&field)];
    (Schema::new(vec![field]), columns)
}

/// The JSON of a column's value, encoded as a row.
fn json(array: &ArrayRef, row: usize) -> String {
    let (_, columns) = of(array);
    let (mut packed, mut line) = (Vec::new(), Vec::new());
    Columns::of(std::slice::from_ref(array)).pack(row, &columns, ANY, &mut packed).unwrap();
    let mut encoder = RowEncoder::new(Shape::Lines, &columns);
    Row::new(&packed, 1).encode(&mut encoder, &mut line).unwrap();
    let line = String::from_utf8(line).unwrap();
    line.strip_prefix("{\"value\":").unwrap().strip_suffix("}\n").unwrap().to_owned()
}

/// The stream that a client receives for `arrays` as one batch, and the number of rows of each
/// piece.
fn sent(
    schema: &Schema,
    arrays: &[ArrayRef],
    columns: &[Column],
    limit: usize,
) -> Result<(Vec<u8>, Vec<u64>), Error> {
    let mut pieces = Pieces::new(schema, columns.len()).unwrap();
    let mut encoder = BatchEncoder::new(sent_schema(schema, columns.len()));
    let (mut out, mut counts, mut from) = (Vec::new(), Vec::new(), 0);
    encoder.start(&mut out);
    while from < arrays[0].len() {
        let mut packed = Vec::new();
        from += pieces.pack(arrays, from..arrays[0].len(), columns, limit, &mut packed)?;
        let batch = piece(&packed, columns.len());
        assert!(batch.last.is_none(), "there is no key");
        counts.push(batch.rows);
        encoder.batch(batch.rows, batch.message, &mut out);
    }
    encoder.finish(&mut out);
    assert_eq!(encoder.rows(), from as u64);
    Ok((out, counts))
}

#[test]
fn every_type_has_its_json() {
    for (array, expected, _) in all() {
        let found: Vec<_> = (0..array.len()).map(|row| json(&array, row)).collect();
        assert_eq!(found, expected, "{}", array.data_type());
    }
}

#[test]
fn every_type_is_sent_with_the_same_values() {
    for (array, expected, other) in all() {
        let to = other.unwrap_or_else(|| array.data_type().clone());
        // A slice of an array has other offsets than the whole.
        for from in 0..array.len() {
            let part = array.slice(from, array.len() - from);
            let (schema, columns) = of(&part);
            let (stream, _) = sent(&schema, &[part], &columns, ANY).unwrap();
            let reader = StreamReader::try_new(&*stream, None).unwrap();
            assert_eq!(reader.schema().field(0).data_type(), &to, "{}", array.data_type());
            let found: Vec<_> = reader
                .flat_map(|batch| {
                    let column = Arc::clone(batch.unwrap().column(0));
                    // A document is JSON already.
                    let is_json = matches!(array.data_type(), DataType::Union(..));
                    let text = |row| {
                        column.as_any().downcast_ref::<StringArray>().map(|text| text.value(row).to_owned())
                    };
                    (0..column.len())
                        .map(|row| match is_json && column.is_valid(row) {
                            true => text(row).unwrap(),
                            false => json(&column, row),
                        })
                        .collect::<Vec<_>>()
                })
                .collect();
            assert_eq!(found, expected[from..], "{}", array.data_type());
        }
    }
}

/// A NULL of a union used to be the text `null` in CSV and in Arrow.
#[test]
fn a_union_is_null_where_its_member_is() {
    let unions =
        elsewhere().into_iter().filter(|(array, ..)| matches!(array.data_type(), DataType::Union(..)));
    for (union, expected, _) in unions {
        let nulls: Vec<_> = expected.iter().map(|json| *json == "null").collect();
        let (schema, columns) = of(&union);
        let (stream, _) = sent(&schema, std::slice::from_ref(&union), &columns, ANY).unwrap();
        let read = StreamReader::try_new(&*stream, None).unwrap();
        let sent: Vec<_> = read.flat_map(|batch| is_null(batch.unwrap().column(0))).collect();
        assert_eq!(sent, nulls);
        let found: Vec<_> = (0..union.len())
            .map(|row| matches!(values::value(&union, row, &mut String::new()), Ok(Value::Null)))
            .collect();
        assert_eq!(found, nulls);
    }
}

fn is_null(array: &ArrayRef) -> Vec<bool> {
    (0..array.len()).map(|row| array.is_null(row)).collect()
}

#[test]
fn pieces_are_bounded_whatever_the_values_refer_to() {
    let long = "x".repeat(10_000);
    let mut dictionary = StringDictionaryBuilder::<Int32Type>::new();
    let mut runs = StringRunBuilder::<Int32Type>::new();
    let (mut views, mut plain) = (builder::StringViewBuilder::new(), StringBuilder::new());
    for _ in 0..1000 {
        dictionary.append_value(&long);
        runs.append_value(&long);
        plain.append_value(&long);
    }
    let block = views.append_block(long.as_bytes().into());
    for _ in 0..1000 {
        views.try_append_view(block, 0, 10_000).unwrap();
    }
    let lists = ListViewArray::new(
        item(DataType::Utf8),
        ScalarBuffer::from(vec![0; 1000]),
        ScalarBuffer::from(vec![1; 1000]),
        array(StringArray::from(vec![long.as_str()])),
        None,
    );
    for array in [
        array(dictionary.finish()),
        array(runs.finish()),
        array(views.finish()),
        array(plain.finish()),
        array(lists),
    ] {
        let (schema, columns) = of(&array);
        let (stream, counts) = sent(&schema, std::slice::from_ref(&array), &columns, ANY).unwrap();
        assert!(counts.iter().all(|rows| *rows <= 6), "{}: {counts:?}", array.data_type());
        let batches = StreamReader::try_new(&*stream, None).unwrap().map(Result::unwrap);
        let largest = batches.map(|batch| batch.column(0).to_data().get_slice_memory_size().unwrap()).max();
        assert!((60_000..66 * 1024).contains(&largest.unwrap()), "{}: {largest:?}", array.data_type());
        let refused = sent(&schema, &[array], &columns, 9_999).unwrap_err();
        assert_eq!(refused.code(), "row_too_large");
    }
}

#[test]
fn rows_of_a_batch_that_are_too_long_are_refused_wherever_they_stand() {
    let texts =
        |long: usize| (0..5000).map(move |row| if row == long { "x".repeat(2000) } else { "y".repeat(10) });
    for long in [0, 1, 63, 64, 4999] {
        let array = array(StringArray::from_iter_values(texts(long)));
        let (schema, columns) = of(&array);
        let refused = sent(&schema, std::slice::from_ref(&array), &columns, 1000).unwrap_err();
        assert_eq!(refused.code(), "row_too_large", "{long}");
        assert!(sent(&schema, &[array], &columns, 3000).is_ok(), "{long}");
    }
}

/// A client resumes a piece after its last row. A row without a key is found anywhere in a piece.
#[test]
fn the_last_columns_may_be_those_of_a_key() {
    let fields = vec![Field::new("text", DataType::Utf8, true), Field::new("key", DataType::Int64, true)];
    let columns: Vec<_> = fields.iter().map(column).collect();
    let schema = Schema::new(fields);
    let texts = array(StringArray::from(vec!["a", "b", "c"]));
    for (keys, expected) in [
        (vec![Some(1), Some(2), Some(3)], "{\"text\":\"c\",\"key\":3}\n"),
        (vec![Some(1), None, Some(3)], "{\"text\":\"b\",\"key\":null}\n"),
    ] {
        let arrays = [Arc::clone(&texts), array(Int64Array::from(keys))];
        let mut pieces = Pieces::new(&schema, 1).unwrap();
        let mut packed = b"before".to_vec();
        assert_eq!(pieces.pack(&arrays, 0..3, &columns, ANY, &mut packed).unwrap(), 3);
        let batch = piece(packed.strip_prefix(b"before").unwrap(), 2);
        let mut line = Vec::new();
        let mut encoder = RowEncoder::new(Shape::Lines, &columns);
        batch.last.unwrap().encode(&mut encoder, &mut line).unwrap();
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }
    assert_eq!(sent_schema(&schema, 1).fields().len(), 1);
}

/// The metadata of a driver process is used; other metadata is ignored.
#[test]
fn texts_that_are_more_say_so() {
    let said = |name: &str, said: &str| {
        Field::new(name, DataType::Utf8, false)
            .with_metadata(HashMap::from([(KIND.to_owned(), said.to_owned())]))
    };
    let fields = vec![
        said("json", JSON),
        said("number", "number"),
        said("decimal", "5,2"),
        said("wide", "40,0"),
        Field::new("mood", DataType::Utf8, true)
            .with_metadata(HashMap::from([("secret".to_owned(), "1".to_owned())])),
    ];
    let sent_fields = sent_schema(&Schema::new(fields.clone()), 5);
    let types: Vec<_> = sent_fields.fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types, ["Utf8", "Utf8", "Decimal128(5, 2)", "Decimal256(40, 0)", "Utf8"]);
    assert!(sent_fields.fields().iter().all(|field| field.is_nullable()));
    assert_eq!(sent_fields.field(0).metadata()["ARROW:extension:name"], "arrow.json");
    assert!(sent_fields.fields()[1..].iter().all(|field| field.metadata().is_empty()));

    let text = |text: &str| array(StringArray::from(vec![Some(text), None]));
    let schema = Schema::new(fields);
    let columns: Vec<_> = schema.fields().iter().map(|field| column(field)).collect();
    let arrays = [text("{}"), text("1e9"), text("-1.25"), text("12"), text("x")];
    let (stream, _) = sent(&schema, &arrays, &columns, ANY).unwrap();
    let batch = StreamReader::try_new(&*stream, None).unwrap().next().unwrap().unwrap();
    let found: Vec<_> = batch.columns().iter().map(|column| json(column, 0)).collect();
    assert_eq!(found, ["\"{}\"", "\"1e9\"", "-1.25", "12", "\"x\""]);
    for lie in ["NaN", "1234.5", "1.255"] {
        let refused = sent(&schema, &[text("{}"), text("1"), text(lie), text("1"), text("x")], &columns, ANY);
        assert_eq!(refused.unwrap_err().code(), "bad_value", "{lie}");
    }
}

/// A server of Flight SQL can declare any text as a document, which would allow it to forge rows.
#[test]
fn texts_that_are_no_documents_stay_texts() {
    for (text, expected) in [("[1]", Value::Json("[1]")), ("1},{", Value::Text("1},{"))] {
        assert_eq!(of_kind(Value::Text(text), ColumnKind::Json), expected);
    }
}

/// An extension type counts only if the field's type can contain a UUID.
#[test]
fn bytes_that_are_a_uuid_say_so() {
    let said = |width: i32, name: &str| {
        let named = HashMap::from([("ARROW:extension:name".to_owned(), name.to_owned())]);
        Field::new("id", DataType::FixedSizeBinary(width), true).with_metadata(named)
    };
    for (field, byte, expected) in [
        (said(16, "arrow.uuid"), 0xab, "\"abababab-abab-abab-abab-abababababab\""),
        (said(16, "arrow.opaque"), 1, "\"\\\\x01010101010101010101010101010101\""),
        (said(2, "arrow.uuid"), 1, "\"\\\\x0101\""),
    ] {
        let DataType::FixedSizeBinary(width) = *field.data_type() else { unreachable!("it is one") };
        let ids = [Some(vec![byte; width.unsigned_abs() as usize]), None].into_iter();
        let ids = array(FixedSizeBinaryArray::try_from_sparse_iter_with_size(ids, width).unwrap());
        let columns = [column(&field)];
        for (row, expected) in [(0, expected), (1, "null")] {
            let (mut packed, mut line) = (Vec::new(), Vec::new());
            Columns::of(std::slice::from_ref(&ids)).pack(row, &columns, ANY, &mut packed).unwrap();
            let mut encoder = RowEncoder::new(Shape::Lines, &columns);
            Row::new(&packed, 1).encode(&mut encoder, &mut line).unwrap();
            assert_eq!(String::from_utf8(line).unwrap(), format!("{{\"id\":{expected}}}\n"));
        }
    }
}
