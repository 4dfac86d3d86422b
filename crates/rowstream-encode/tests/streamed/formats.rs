//! NDJSON, CSV and server-sent events.

use std::collections::BTreeMap;
use std::error::Error as _;

use futures_util::stream::{self, StreamExt};
use proptest::prelude::*;
use rowstream_encode::responses::{Csv, Event, Ndjson, Sse, StreamError, Streamed, StreamedJson};
use rowstream_encode::{Column, ColumnKind, CsvDialect, CsvEncoder, Quote, RowWriter, Separator, Value};
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::value::RawValue;

use crate::client::{RUNTIME, body, fetch};

fn of<T: Send + 'static>(items: impl IntoIterator<Item = T, IntoIter: Send + 'static>) -> Streamed<T> {
    Streamed::infallible(stream::iter(items))
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

#[tokio::test]
async fn the_head_says_what_comes_and_asks_proxies_to_pass_it_on() {
    let headless = CsvDialect { header: false, ..CsvDialect::default() };
    for (response, content_type) in [
        (fetch(StreamedJson::new(of([1])).unwrap()).await, "application/json"),
        (fetch(Ndjson::new(of([1]))).await, "application/x-ndjson"),
        (fetch(Csv::new(of([row(1)]))).await, "text/csv; charset=utf-8; header=present"),
        (fetch(Csv::with_dialect(of([row(1)]), headless)).await, "text/csv; charset=utf-8; header=absent"),
        (fetch(Sse::new(of([Event::new(1)]))).await, "text/event-stream"),
    ] {
        response.whole();
        assert_eq!(response.header("content-type"), Some(content_type));
        assert_eq!(response.header("cache-control"), Some("no-transform"));
        assert_eq!(response.header("x-accel-buffering"), Some("no"));
        assert_eq!(response.header("incremental"), Some("?1"));
    }
}

#[tokio::test]
async fn a_handler_can_replace_headers() {
    let response = ([("cache-control", "no-store")], Ndjson::new(of([1])));
    assert_eq!(fetch(response).await.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn a_line_has_no_raw_line_break() {
    let items = [("\r\n", raw("{\r\n\t\"a\":\n1}"), of([raw("[\n]")]))];
    let reply = fetch(Ndjson::new(of(items))).await;
    assert_eq!(reply.whole(), "[\"\\r\\n\",{  \t\"a\": 1},[[ ]]]\n");
}

#[tokio::test]
async fn no_items_are_an_empty_body() {
    assert_eq!(fetch(Ndjson::new(of::<u8>([]))).await.whole(), "");
    assert_eq!(fetch(Csv::new(of::<BTreeMap<String, u8>>([]))).await.whole(), "");
    assert_eq!(fetch(Sse::new(of::<Event<u8>>([]))).await.whole(), "");
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    #[serde(rename = "an, \"id\"")]
    id: i64,
    text: String,
    some: Option<String>,
    letter: char,
    float: f64,
    small: f32,
    flag: bool,
    unit: (),
    big: u64,
    huge: i128,
    bytes: Bytes,
    kind: RowKind,
}

#[derive(Debug, Clone, PartialEq)]
struct Bytes(Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
enum RowKind {
    Plain,
}

const NAMES: [&str; 12] = [
    "an, \"id\"",
    "text",
    "some",
    "letter",
    "float",
    "small",
    "flag",
    "unit",
    "big",
    "huge",
    "bytes",
    "kind",
];

fn row(id: i64) -> Row {
    Row {
        id,
        text: "a;b\"c\"\r\nd".to_owned(),
        some: None,
        letter: ',',
        float: 1e20,
        small: 0.1,
        flag: true,
        unit: (),
        big: u64::MAX,
        huge: i128::MIN,
        bytes: Bytes(b"hi\xff".to_vec()),
        kind: RowKind::Plain,
    }
}

/// The rows as [`CsvEncoder`] writes them.
fn encoded(rows: &[Row], dialect: &CsvDialect) -> String {
    let columns =
        NAMES.map(|name| Column { name: name.to_owned(), type_name: String::new(), kind: ColumnKind::Text });
    let mut encoder = CsvEncoder::new(dialect.clone(), &columns);
    let mut out = Vec::new();
    if !rows.is_empty() {
        encoder.start(&mut out);
    }
    for row in rows {
        encoder.begin_row(&mut out);
        let (letter, big, huge) = (row.letter.to_string(), row.big.to_string(), row.huge.to_string());
        for value in [
            Value::Int(row.id),
            Value::Text(&row.text),
            row.some.as_deref().map_or(Value::Null, Value::Text),
            Value::Text(&letter),
            Some(row.float).filter(|float| float.is_finite()).map_or(Value::Null, Value::Float),
            Some(row.small).filter(|float| float.is_finite()).map_or(Value::Null, Value::Float4),
            Value::Bool(row.flag),
            Value::Null,
            Value::Number(&big),
            Value::Number(&huge),
            Value::Bytes(&row.bytes.0),
            Value::Text("Plain"),
        ] {
            encoder.value(value, &mut out);
        }
        encoder.end_row(&mut out);
    }
    String::from_utf8(out).unwrap()
}

/// Text with characters that CSV quotes or that JSON escapes on the way.
fn text() -> impl Strategy<Value = String> {
    let special = prop::sample::select("\",;|\t\r\n=+-@'\\/\u{8}\u{c}\0\u{1f}é".chars().collect::<Vec<_>>());
    prop::collection::vec(prop_oneof![any::<char>(), special], 0..12).prop_map(String::from_iter)
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let texts = (text(), prop::option::of(text()), any::<char>());
    let numbers = (any::<i64>(), any::<f64>(), any::<f32>(), any::<u64>(), any::<i128>());
    let others = (any::<bool>(), prop::collection::vec(any::<u8>(), 0..5));
    let row = (texts, numbers, others).prop_map(|((text, some, letter), numbers, (flag, bytes))| {
        let (id, float, small, big, huge) = numbers;
        let bytes = Bytes(bytes);
        Row { id, text, some, letter, float, small, flag, unit: (), big, huge, bytes, kind: RowKind::Plain }
    });
    prop::collection::vec(row, 0..5)
}

fn dialect() -> impl Strategy<Value = CsvDialect> {
    let separator = prop::sample::select(Separator::ALL.to_vec());
    let quote = prop::sample::select(vec![Quote::Needed, Quote::All]);
    let null = prop::sample::select(vec!["", "NULL"]);
    (separator, any::<bool>(), quote, null, any::<bool>(), any::<bool>()).prop_map(
        |(separator, header, quote, null, bom, guard)| CsvDialect {
            separator,
            header,
            quote,
            null: null.to_owned(),
            bom,
            guard,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn records_are_those_of_the_encoder(rows in rows(), dialect in dialect()) {
        let expected = encoded(&rows, &dialect);
        let reply = RUNTIME.block_on(fetch(Csv::with_dialect(of(rows), dialect)));
        prop_assert_eq!(reply.whole(), expected);
    }
}

#[tokio::test]
async fn a_record_may_be_a_map_or_flattened() {
    #[derive(Serialize)]
    struct OuterRow {
        id: u8,
        #[serde(flatten)]
        inner: InnerRow,
    }
    #[derive(Serialize)]
    struct InnerRow {
        name: &'static str,
        json: Box<RawValue>,
    }
    let outer = OuterRow { id: 1, inner: InnerRow { name: "x", json: raw(r#"{"a": 1}"#) } };
    assert_eq!(fetch(Csv::new(of([outer]))).await.whole(), "id,name,json\r\n1,x,\"{\"\"a\"\": 1}\"\r\n");
    let maps = [1, 2].map(|n| BTreeMap::from([("a", n), ("b", -n)]));
    assert_eq!(fetch(Csv::new(of(maps))).await.whole(), "a,b\r\n1,-1\r\n2,-2\r\n");
}

/// The error for the items of a CSV.
async fn error_of<T: Serialize + Send + 'static>(items: Vec<T>) -> String {
    let error: StreamError = Csv::new(of(items)).first().await.unwrap_err();
    error.source().unwrap().to_string()
}

#[tokio::test]
async fn what_has_no_place_in_csv_is_an_error() {
    #[derive(Serialize)]
    struct EmptyRow {}
    #[derive(Serialize)]
    enum Variant {
        Struct { a: u8 },
    }
    for error in [
        error_of(vec![BTreeMap::from([("a", [1])])]).await,
        error_of(vec![BTreeMap::from([("a", (1, 2))])]).await,
        error_of(vec![BTreeMap::from([("a", BTreeMap::from([("b", 1)]))])]).await,
        error_of(vec![BTreeMap::from([("a", Variant::Struct { a: 1 })])]).await,
        error_of(vec![Variant::Struct { a: 1 }]).await,
    ] {
        assert!(error.starts_with("CSV has no place for a list"), "{error}");
    }
    for error in [
        error_of(vec![1]).await,
        error_of(vec!["a"]).await,
        error_of(vec![None::<u8>]).await,
        error_of(vec![[1, 2]]).await,
        error_of(vec![(1, "a")]).await,
        error_of(vec![raw("{}")]).await,
    ] {
        assert!(error.starts_with("only a struct or a map can be a record"), "{error}");
    }
    for error in
        [error_of(vec![BTreeMap::from([(1, 2)])]).await, error_of(vec![BTreeMap::from([(true, 2)])]).await]
    {
        assert!(error.starts_with("a key that is not a text"), "{error}");
    }
    assert!(error_of(vec![EmptyRow {}]).await.starts_with("an item without fields"));
    let held = BTreeMap::from([("a", of([1]))]);
    assert!(error_of(vec![held]).await.starts_with("a stream or a future can only be serialised in"));
}

/// An extra field, a missing field, another name or another order would put values under the wrong
/// names.
#[tokio::test]
async fn all_records_have_the_same_fields() {
    let record = |names: &[&'static str]| BTreeMap::from_iter(names.iter().map(|name| (*name, 1)));
    for names in [&["a"][..], &["a", "b", "c"], &["a", "c"], &["0", "a"], &[]] {
        let records = of([record(&["a", "b"]), record(names)]);
        let error = body(Csv::new(records)).into_data_stream().next().await.unwrap().unwrap_err();
        let cause = error.into_inner();
        let error = cause.source().unwrap().to_string();
        assert!(error.starts_with("the items of CSV must have the fields of the first one"), "{error}");
    }
}

#[tokio::test]
async fn events_are_those_of_the_standard() {
    let events = [
        Event::new(raw("{\n\"a\":\r\n1}")),
        Event::new(raw("1")).id("7").name("update"),
        Event::new(raw("\"\"")).id(""),
        Event::heartbeat(),
    ];
    let expected = "data: { \"a\":  1}\n\nevent: update\nid: 7\ndata: 1\n\nid: \ndata: \"\"\n\n:\n\n";
    assert_eq!(fetch(Sse::new(of(events))).await.whole(), expected);
    let nested = [Event::new(("a\nb", of([1, 2]))).id("x")];
    assert_eq!(fetch(Sse::new(of(nested))).await.whole(), "id: x\ndata: [\"a\\nb\",[1,2]]\n\n");
}

/// An id with a line break could contain another event.
#[tokio::test]
async fn an_event_cannot_be_forged() {
    for event in [
        Event::new(1).id("7\ndata: 2\n\n"),
        Event::new(1).id("7\rdata: 2"),
        Event::new(1).id("\0"),
        Event::new(1).name("a\nb"),
    ] {
        let error = Sse::new(of([event])).first().await.unwrap_err();
        assert!(error.source().unwrap().to_string().contains("holds a line break or a NUL"));
    }
}
