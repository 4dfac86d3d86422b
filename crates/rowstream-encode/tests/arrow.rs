//! Arrow's own library reads our Arrow streams.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Decimal256Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray, Time64MicrosecondArray, TimestampMicrosecondArray, cast::AsArray, types::Int64Type,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::{MessageHeader, MetadataVersion};
use proptest::prelude::*;
use rowstream_encode::{ArrowEncoder, Column, ColumnKind, RowWriter, ScalarKind, Value, write_value};

/// The end-of-stream marker.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// The size of a full batch.
const BATCH: usize = 64 * 1024;

fn columns(kinds: &[ColumnKind]) -> Vec<Column> {
    let column = |(i, &kind)| Column { name: format!("c{i}"), type_name: String::new(), kind };
    kinds.iter().enumerate().map(column).collect()
}

fn write_row(encoder: &mut ArrowEncoder, row: &[Value<'_>], out: &mut Vec<u8>) {
    encoder.begin_row(out);
    row.iter().for_each(|value| encoder.value(*value, out));
    encoder.end_row(out);
}

fn encode<'a>(kinds: &[ColumnKind], rows: impl IntoIterator<Item = &'a [Value<'a>]>) -> Vec<u8> {
    let (mut encoder, mut out) = (ArrowEncoder::new(&columns(kinds)), Vec::new());
    encoder.start(&mut out);
    for row in rows {
        write_row(&mut encoder, row, &mut out);
    }
    encoder.finish(&mut out);
    assert_eq!(encoder.misfit(), None);
    out
}

fn read(stream: &[u8]) -> Vec<RecordBatch> {
    StreamReader::try_new(stream, None).unwrap().map(Result::unwrap).collect()
}

/// The only column of a stream of one batch.
fn read_column(kind: ColumnKind, values: &[Value<'_>]) -> ArrayRef {
    let rows: Vec<_> = values.iter().map(std::slice::from_ref).collect();
    let mut batches = read(&encode(&[kind], rows));
    assert_eq!(batches.len(), 1);
    batches.remove(0).remove_column(0)
}

#[test]
fn each_kind_has_its_type() {
    type I256 = <Decimal256Type as ArrowPrimitiveType>::Native;
    let wide = "1234567890123456789012345678901234567890.5";
    let utc = |micros: Vec<Option<i64>>| TimestampMicrosecondArray::from(micros).with_timezone("UTC");
    let decimal = |units: Vec<Option<i128>>, precision, scale| {
        Decimal128Array::from(units).with_precision_and_scale(precision, scale).unwrap()
    };
    let wide_units = I256::from_string("-12345678901234567890123456789012345678905").unwrap();
    let wide_array = Decimal256Array::from(vec![Some(-wide_units), None, Some(wide_units)]);
    let uuids = [Some([0xab; 16]), None, Some([0; 16])].into_iter();
    let cases: Vec<(ColumnKind, [Value<'_>; 2], ArrayRef)> = vec![
        (
            ColumnKind::Bool,
            [Value::Bool(true), Value::Bool(false)],
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        ),
        (
            ColumnKind::Int16,
            [Value::Int(-32768), Value::Int(32767)],
            Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)])),
        ),
        (
            ColumnKind::Int32,
            [Value::Int(i32::MIN.into()), Value::Int(i32::MAX.into())],
            Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)])),
        ),
        (
            ColumnKind::Int64,
            [Value::Int(i64::MIN), Value::Int(i64::MAX)],
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        ),
        (
            ColumnKind::Float32,
            [Value::Float4(0.1), Value::Float4(f32::NEG_INFINITY)],
            Arc::new(Float32Array::from(vec![Some(0.1), None, Some(f32::NEG_INFINITY)])),
        ),
        (
            ColumnKind::Float64,
            [Value::Float(-1e300), Value::Int(1 << 53)],
            Arc::new(Float64Array::from(vec![Some(-1e300), None, Some(9_007_199_254_740_992.0)])),
        ),
        (
            ColumnKind::Decimal { precision: 10, scale: 2 },
            [Value::Number("-12.50"), Value::Int(3)],
            Arc::new(decimal(vec![Some(-1250), None, Some(300)], 10, 2)),
        ),
        (
            ColumnKind::Decimal { precision: 38, scale: 0 },
            [Value::Number("99999999999999999999999999999999999999"), Value::Float(1e20)],
            Arc::new(decimal(vec![Some(10_i128.pow(38) - 1), None, Some(10_i128.pow(20))], 38, 0)),
        ),
        (
            ColumnKind::Decimal { precision: 76, scale: 1 },
            [Value::Number(wide), Value::Number("-1234567890123456789012345678901234567890.5")],
            Arc::new(wide_array.with_precision_and_scale(76, 1).unwrap()),
        ),
        (
            ColumnKind::Text,
            [Value::Text("é\u{0}"), Value::Text("")],
            Arc::new(StringArray::from(vec![Some("é\u{0}"), None, Some("")])),
        ),
        (
            ColumnKind::Text,
            [Value::Number("1e+20"), Value::Json("[1]")],
            Arc::new(StringArray::from(vec![Some("1e+20"), None, Some("[1]")])),
        ),
        (
            ColumnKind::Json,
            [Value::Json("{\n}"), Value::Json("null")],
            Arc::new(StringArray::from(vec![Some("{\n}"), None, Some("null")])),
        ),
        (
            ColumnKind::Bytes,
            [Value::Bytes(b"\x00\xff"), Value::Bytes(b"")],
            Arc::new(BinaryArray::from(vec![Some(&b"\x00\xff"[..]), None, Some(b"")])),
        ),
        (
            ColumnKind::Date,
            [Value::Date(19_782), Value::Date(-719_163)],
            Arc::new(Date32Array::from(vec![Some(19_782), None, Some(-719_163)])),
        ),
        (
            ColumnKind::Time,
            [Value::Time(0), Value::Time(86_399_999_999)],
            Arc::new(Time64MicrosecondArray::from(vec![Some(0), None, Some(86_399_999_999)])),
        ),
        (
            ColumnKind::Timestamp,
            [Value::Timestamp(-1), Value::Timestamp(i64::MAX - 1)],
            Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(i64::MAX - 1)])),
        ),
        (
            ColumnKind::TimestampTz,
            [Value::TimestampTz(1_709_208_000_250_000), Value::TimestampTz(0)],
            Arc::new(utc(vec![Some(1_709_208_000_250_000), None, Some(0)])),
        ),
        (
            ColumnKind::Uuid,
            [Value::Uuid([0xab; 16]), Value::Uuid([0; 16])],
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16).unwrap()),
        ),
    ];
    for (kind, [first, last], expected) in cases {
        assert_eq!(&read_column(kind, &[first, Value::Null, last]), &expected, "{kind:?}");
        let without_null = read_column(kind, &[first, last]);
        assert_eq!(&without_null.slice(0, 1), &expected.slice(0, 1), "{kind:?}");
        assert_eq!(
            (without_null.null_count(), &without_null.slice(1, 1)),
            (0, &expected.slice(2, 1)),
            "{kind:?}"
        );
        if !matches!((first, last), (_, Value::Json(_))) {
            let list = json(&[first, Value::Null, last]);
            let lists = read_column(ColumnKind::List(kind.into()), &[Value::Null, Value::Json(&list)]);
            assert!(lists.is_null(0) && lists.is_valid(1), "{kind:?}");
            assert_eq!(&lists.as_list::<i32>().value(1), &expected, "{list}");
        }
    }
}

/// A list as JSON.
fn json(values: &[Value<'_>]) -> String {
    let mut json = Vec::new();
    for value in values {
        json.push(if json.is_empty() { b'[' } else { b',' });
        write_value(*value, &mut json);
    }
    json.push(b']');
    String::from_utf8(json).unwrap()
}

#[test]
fn lists_of_texts_and_json_keep_every_character() {
    let list = ColumnKind::List(ScalarKind::Text);
    let text = read_column(
        list,
        &[Value::Json(" [ \"\" , \"],[\\\"\", null,\"\\u00e9\\ud83d\\ude00\\n\", 1.50,true ] ")],
    );
    let text = text.as_list::<i32>().value(0);
    let texts: Vec<_> = text.as_string::<i32>().iter().collect();
    assert_eq!(texts, [Some(""), Some("],[\""), None, Some("é\u{1f600}\n"), Some("1.50"), Some("true")]);
    let json = Value::Json("[{\"a\": [1, {\"]\": \"}\"}]},[[]],null,\"x\\\\\",7]");
    let documents = read_column(ColumnKind::List(ScalarKind::Json), &[json]).as_list::<i32>().value(0);
    let documents: Vec<_> = documents.as_string::<i32>().iter().collect();
    let expected = [Some("{\"a\": [1, {\"]\": \"}\"}]}"), Some("[[]]"), None, Some("\"x\\\\\""), Some("7")];
    assert_eq!(documents, expected);
    let none = read_column(list, &[Value::Json("[]"), Value::Json("[ ]")]);
    assert_eq!((none.null_count(), none.as_list::<i32>().values().len()), (0, 0));
}

#[test]
fn the_elements_of_lists_say_so() {
    let kinds = [ScalarKind::Uuid, ScalarKind::Int32].map(ColumnKind::List);
    let stream = encode(&kinds, []);
    let schema = StreamReader::try_new(&stream[..], None).unwrap().schema();
    let told: Vec<_> = schema.fields().iter().map(|field| field.data_type().to_string()).collect();
    assert!(told[0].starts_with("List(") && told[0].contains("arrow.uuid"), "{told:?}");
    assert_eq!(told[1], "List(Int32)");
    assert!(schema.fields().iter().all(|field| field.is_nullable() && field.extension_type_name().is_none()));
}

#[test]
fn a_column_that_promises_nothing_holds_texts_of_all() {
    for (value, text) in [
        (Value::Bool(true), "true"),
        (Value::Int(-1), "-1"),
        (Value::Float(1.5), "1.5"),
        (Value::Float(f64::NAN), "NaN"),
        (Value::Float4(0.1), "0.1"),
        (Value::Text("a \"b\""), "a \"b\""),
        (Value::Bytes(b"hi\xff"), "\\x6869ff"),
        (Value::Date(i32::MAX), "infinity"),
        (Value::Time(86_400_000_000), "24:00:00"),
        (Value::TimestampTz(1_709_208_000_250_000), "2024-02-29T12:00:00.25Z"),
        (Value::Uuid([0xab; 16]), "abababab-abab-abab-abab-abababababab"),
    ] {
        let array = read_column(ColumnKind::Text, &[value]);
        assert_eq!(array.as_string::<i32>().value(0), text, "{value:?}");
    }
    for (value, json) in
        [(Value::Int(1), "1"), (Value::Text("a\""), r#""a\"""#), (Value::Bool(false), "false")]
    {
        let array = read_column(ColumnKind::Json, &[value]);
        assert_eq!(array.as_string::<i32>().value(0), json, "{value:?}");
    }
}

#[test]
fn json_and_uuids_say_so() {
    let kinds = [ColumnKind::Json, ColumnKind::Uuid, ColumnKind::Text];
    let stream = encode(&kinds, []);
    let reader = StreamReader::try_new(&stream[..], None).unwrap();
    let schema = reader.schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.extension_type_name()).collect();
    assert_eq!(names, [Some("arrow.json"), Some("arrow.uuid"), None]);
    assert!(schema.fields().iter().all(|field| field.is_nullable()));
}

/// `0,` has two bytes in JSON and 32 in a column, so a short row took the memory of many.
#[test]
fn the_lists_of_a_row_are_bounded() {
    let columns = ["a", "b"].map(|name| Column {
        name: name.to_owned(),
        type_name: String::new(),
        kind: ColumnKind::List(ScalarKind::Decimal { precision: 60, scale: 0 }),
    });
    let mut encoder = ArrowEncoder::new(&columns).with_longest_lists(32 * 100);
    let mut out = Vec::new();
    encoder.start(&mut out);
    let zeros = |count: usize| format!("[{}]", vec!["0"; count].join(","));
    let mut row = |first: usize, second: usize| {
        encoder.begin_row(&mut out);
        encoder.value(Value::Json(&zeros(first)), &mut out);
        encoder.value(Value::Json(&zeros(second)), &mut out);
        encoder.end_row(&mut out);
        encoder.misfit().map(ToString::to_string)
    };
    assert_eq!(row(40, 40), None);
    assert_eq!(row(90, 0), None, "each row has its own bound");
    let refused = row(60, 60).expect("the lists of the row are too long together");
    assert!(refused.starts_with("column `b` holds a list of more elements than a row may have"), "{refused}");
}

#[test]
fn what_does_not_fit_ends_the_stream_without_its_end() {
    let decimal = ColumnKind::Decimal { precision: 4, scale: 2 };
    let list = ColumnKind::List;
    for (kind, value, message) in [
        (ColumnKind::Int16, Value::Int(32_768), "an integer, which its Arrow type Int16 cannot"),
        (ColumnKind::Int32, Value::Int(1 << 31), "an integer, which its Arrow type Int32 cannot"),
        (ColumnKind::Int64, Value::Text("x"), "a text, which its Arrow type Int64 cannot"),
        (ColumnKind::Int64, Value::Float(1.0), "a float, which its Arrow type Int64 cannot"),
        (ColumnKind::Float64, Value::Int((1 << 53) + 1), "an integer, which its Arrow type Float64 cannot"),
        (ColumnKind::Bool, Value::Int(2), "an integer, which its Arrow type Boolean cannot"),
        (ColumnKind::Bytes, Value::Text("x"), "a text, which its Arrow type Binary cannot"),
        (
            decimal,
            Value::Number("123.00"),
            "a decimal of more digits, which its Arrow type Decimal128(4, 2) cannot",
        ),
        (
            decimal,
            Value::Number("1.001"),
            "a decimal of more digits, which its Arrow type Decimal128(4, 2) cannot",
        ),
        (decimal, Value::Text("NaN"), "NaN or an infinity, which its Arrow type Decimal128(4, 2) cannot"),
        (
            decimal,
            Value::Float(f64::INFINITY),
            "NaN or an infinity, which its Arrow type Decimal128(4, 2) cannot",
        ),
        (decimal, Value::Float(0.1 + 0.2), "a float, which its Arrow type Decimal128(4, 2) cannot"),
        (ColumnKind::Date, Value::Date(i32::MAX), "an infinite date, which its Arrow type Date32 cannot"),
        (ColumnKind::Date, Value::Text("2024"), "a text, which its Arrow type Date32 cannot"),
        (
            ColumnKind::Time,
            Value::Time(86_400_000_000),
            "the time 24:00:00, which its Arrow type Time64(µs) cannot",
        ),
        (
            ColumnKind::Timestamp,
            Value::Timestamp(i64::MIN),
            "an infinite timestamp, which its Arrow type Timestamp(µs) cannot",
        ),
        (
            ColumnKind::Timestamp,
            Value::TimestampTz(0),
            "a timestamp with a time zone, which its Arrow type Timestamp(µs) cannot",
        ),
        (
            ColumnKind::TimestampTz,
            Value::TimestampTz(i64::MAX),
            "an infinite timestamp, which its Arrow type Timestamp(µs, \"UTC\") cannot",
        ),
        (
            list(ScalarKind::Int32),
            Value::Json("[[1],[2]]"),
            "an array of several dimensions, which its Arrow type List(Int32) cannot",
        ),
        (
            list(ScalarKind::Int32),
            Value::Json("[1,2147483648]"),
            "an integer, which its Arrow type List(Int32) cannot",
        ),
        (
            list(ScalarKind::Int32),
            Value::Json("[1,1.5]"),
            "a decimal, which its Arrow type List(Int32) cannot",
        ),
        (
            list(ScalarKind::Int32),
            Value::Json("{}"),
            "JSON that isn't a list, which its Arrow type List(Int32) cannot",
        ),
        (
            list(ScalarKind::Int32),
            Value::Json("[1,]"),
            "JSON that isn't a list, which its Arrow type List(Int32) cannot",
        ),
        (
            list(ScalarKind::Int32),
            Value::Json("[1,,2]"),
            "JSON that isn't a list, which its Arrow type List(Int32) cannot",
        ),
        (
            list(ScalarKind::Int32),
            Value::Json("[1]]"),
            "JSON that isn't a list, which its Arrow type List(Int32) cannot",
        ),
        (
            list(ScalarKind::Text),
            Value::Json("[\"a]"),
            "JSON that isn't a list, which its Arrow type List(Utf8) cannot",
        ),
        (list(ScalarKind::Int32), Value::Int(1), "an integer, which its Arrow type List(Int32) cannot"),
        (
            list(ScalarKind::Date),
            Value::Json("[null,\"infinity\"]"),
            "an infinite date, which its Arrow type List(Date32) cannot",
        ),
        (
            list(ScalarKind::Date),
            Value::Json("[\"2024-02-30\"]"),
            "a text, which its Arrow type List(Date32) cannot",
        ),
        (
            list(ScalarKind::Time),
            Value::Json("[\"24:00:00\"]"),
            "the time 24:00:00, which its Arrow type List(Time64(µs)) cannot",
        ),
        (
            list(ScalarKind::Float32),
            Value::Json("[1e39]"),
            "a decimal, which its Arrow type List(Float32) cannot",
        ),
        (
            list(ScalarKind::Decimal { precision: 4, scale: 2 }),
            Value::Json("[1.001]"),
            "a decimal of more digits, which its Arrow type List(Decimal128(4, 2)) cannot",
        ),
    ] {
        let (mut encoder, mut out) = (ArrowEncoder::new(&columns(&[ColumnKind::Int64, kind])), Vec::new());
        encoder.start(&mut out);
        write_row(&mut encoder, &[Value::Int(1), Value::Null], &mut out);
        assert_eq!(encoder.misfit(), None, "{kind:?}");
        let schema = out.len();
        write_row(&mut encoder, &[Value::Int(2), value], &mut out);
        let misfit = encoder.misfit().unwrap_or_else(|| panic!("{value:?} fits {kind:?}"));
        assert_eq!(misfit.to_string(), format!("column `c1` holds {message}"));
        encoder.flush(&mut out);
        encoder.finish(&mut out);
        assert_eq!(out.len(), schema, "{kind:?}: nothing is written after {value:?}");
    }
}

#[test]
fn no_rows_are_a_schema_and_the_end() {
    let stream = encode(&[ColumnKind::Int64, ColumnKind::Text], []);
    assert_eq!(messages(&stream), [(MessageHeader::Schema, 0)]);
    assert_eq!(StreamReader::try_new(&stream[..], None).unwrap().schema().fields().len(), 2);
    assert!(read(&stream).is_empty());
}

#[test]
fn rows_without_columns_are_counted() {
    let batches = read(&encode(&[], [&[][..], &[], &[]]));
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
}

#[test]
fn values_beyond_the_last_column_are_not_written() {
    let batches = read(&encode(&[ColumnKind::Int64], [&[Value::Int(1), Value::Int(2)][..]]));
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().values()[..], [1]);
}

/// Checks the rules for all messages, and returns the kind and body length of each, up to the end.
fn messages(stream: &[u8]) -> Vec<(MessageHeader, usize)> {
    let mut messages = Vec::new();
    let mut rest = stream.strip_suffix(&END).expect("the end is marked");
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        assert_eq!(head[..4], END[..4]);
        let (metadata, body) = after.split_at(u32::from_le_bytes(head[4..].try_into().unwrap()) as usize);
        let message = arrow_ipc::root_as_message(metadata).unwrap();
        let length = usize::try_from(message.bodyLength()).unwrap();
        assert_eq!((message.version(), metadata.len() % 8, length % 8), (MetadataVersion::V5, 0, 0));
        if let Some(batch) = message.header_as_record_batch() {
            assert!(batch.compression().is_none());
            assert!(batch.buffers().unwrap().iter().all(|buffer| buffer.offset() % 8 == 0));
        }
        messages.push((message.header_type(), length));
        rest = &body[length..];
    }
    assert!(rest.is_empty());
    messages
}

#[test]
fn batches_are_bounded_in_bytes() {
    const ROWS: i64 = 100_000;
    let text = "twenty bytes of text";
    let rows: Vec<[Value<'_>; 3]> =
        (0..ROWS).map(|i| [Value::Int(i), Value::Text(text), Value::Bool(i % 3 == 0)]).collect();
    let stream =
        encode(&[ColumnKind::Int64, ColumnKind::Text, ColumnKind::Bool], rows.iter().map(|row| &row[..]));
    let messages = messages(&stream);
    assert_eq!(messages[0], (MessageHeader::Schema, 0));
    assert!(
        messages[1..]
            .iter()
            .all(|(kind, length)| *kind == MessageHeader::RecordBatch && *length < BATCH + 100)
    );
    assert!(messages[1].1 < 8 * 1024, "the first batch is small: {}", messages[1].1);
    let full = messages[6..messages.len() - 1].iter().filter(|(_, length)| *length > BATCH - 1000).count();
    assert!(full > 20 && full == messages.len() - 7, "{messages:?}");
    let batches = read(&stream);
    let ids = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
    assert!(ids.eq(0..ROWS));
}

/// The bytes of lists count, also those of their elements.
#[test]
fn batches_of_lists_are_bounded_in_bytes() {
    let list = format!("[{}]", vec!["\"twenty bytes of text\""; 50].join(","));
    let rows: Vec<_> = (0..2_000).map(|_| [Value::Json(&list)]).collect();
    let stream = encode(&[ColumnKind::List(ScalarKind::Text)], rows.iter().map(|row| &row[..]));
    let lengths: Vec<_> = messages(&stream).into_iter().skip(1).map(|(_, length)| length).collect();
    assert!(lengths.iter().all(|length| *length < BATCH + 2_000), "{lengths:?}");
    assert!(lengths.len() > 35, "{lengths:?}");
    let batches = read(&stream);
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2_000);
    assert!(batches.iter().all(|batch| {
        let lists = batch.column(0).as_list::<i32>();
        lists.values().len() == 50 * lists.len() && lists.value_length(lists.len() - 1) == 50
    }));
}

#[test]
fn a_huge_row_closes_its_batch() {
    let huge = "x".repeat(10 << 20);
    let (small, large) = ([Value::Text("a")], [Value::Text(&huge)]);
    let stream = encode(&[ColumnKind::Text], [&small[..], &large, &small, &small]);
    let rows: Vec<_> = read(&stream).iter().map(RecordBatch::num_rows).collect();
    assert_eq!(rows, [2, 2]);
}

/// Lists of a few values, and NULLs in both places.
fn lists_of<T: Arbitrary>() -> impl Strategy<Value = Option<Vec<Option<T>>>> {
    prop::option::of(prop::collection::vec(any::<Option<T>>(), 0..5))
}

proptest! {
    /// Wherever the stream is flushed, all lists are present and in order.
    #[test]
    fn any_lists_come_back(
        rows in prop::collection::vec((lists_of::<i64>(), lists_of::<String>(), 0..9_u8), 0..20),
    ) {
        let kinds = [ScalarKind::Int64, ScalarKind::Text].map(ColumnKind::List);
        let (mut encoder, mut out) = (ArrowEncoder::new(&columns(&kinds)), Vec::new());
        encoder.start(&mut out);
        for (ints, texts, flush) in &rows {
            let lists = [serde_json::to_string(ints).unwrap(), serde_json::to_string(texts).unwrap()];
            let row = [0, 1].map(|i| if lists[i] == "null" { Value::Null } else { Value::Json(&lists[i]) });
            write_row(&mut encoder, &row, &mut out);
            if *flush == 0 {
                encoder.flush(&mut out);
            }
        }
        encoder.finish(&mut out);
        messages(&out);
        let mut expected = rows.iter();
        for batch in read(&out) {
            let lists = [0, 1].map(|i| batch.column(i).as_list::<i32>());
            for row in 0..batch.num_rows() {
                let (ints, texts, _) = expected.next().unwrap();
                let [of_ints, of_texts] = lists.map(|lists| lists.is_valid(row).then(|| lists.value(row)));
                let of_ints = of_ints.map(|list| list.as_primitive::<Int64Type>().iter().collect());
                let of_texts: Option<Vec<Option<String>>> = of_texts
                    .map(|list| list.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect());
                prop_assert_eq!((&of_ints, &of_texts), (ints, texts));
            }
        }
        prop_assert!(expected.next().is_none());
    }

    /// Wherever the stream is flushed, all rows are present and in order.
    #[test]
    fn any_rows_come_back(
        rows in prop::collection::vec(
            (any::<Option<i64>>(), any::<Option<String>>(), any::<Option<bool>>(), any::<Option<[u8; 16]>>(), 0..9_u8), 0..100),
    ) {
        let kinds = [ColumnKind::Int64, ColumnKind::Text, ColumnKind::Bool, ColumnKind::Uuid];
        let (mut encoder, mut out) = (ArrowEncoder::new(&columns(&kinds)), Vec::new());
        encoder.start(&mut out);
        for (int, text, bool, uuid, flush) in &rows {
            let row = [
                int.map_or(Value::Null, Value::Int),
                text.as_deref().map_or(Value::Null, Value::Text),
                bool.map_or(Value::Null, Value::Bool),
                uuid.map_or(Value::Null, Value::Uuid),
            ];
            write_row(&mut encoder, &row, &mut out);
            prop_assert!(encoder.holds_rows() || out.len() > 4096);
            if *flush == 0 {
                encoder.flush(&mut out);
                prop_assert!(!encoder.holds_rows());
            }
        }
        encoder.finish(&mut out);
        messages(&out);
        let mut expected = rows.iter();
        for batch in read(&out) {
            let (ints, texts) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
            let (bools, uuids) = (batch.column(2).as_boolean(), batch.column(3).as_fixed_size_binary());
            for row in 0..batch.num_rows() {
                let (int, text, bool, uuid, _) = expected.next().unwrap();
                prop_assert_eq!(ints.is_valid(row).then(|| ints.value(row)), *int);
                prop_assert_eq!(texts.is_valid(row).then(|| texts.value(row)), text.as_deref());
                prop_assert_eq!(bools.is_valid(row).then(|| bools.value(row)), *bool);
                prop_assert_eq!(uuids.is_valid(row).then(|| uuids.value(row)), uuid.as_ref().map(|uuid| &uuid[..]));
            }
        }
        prop_assert!(expected.next().is_none());
    }
}
