//! Positions where streams are allowed or refused. No other data is mistaken for a stream.

use std::collections::BTreeMap;
use std::error::Error as _;

use futures_util::stream;
use rowstream_encode::responses::{Awaited, StreamError, Streamed, StreamedJson};
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::value::RawValue;

use crate::client::fetch;

fn numbers() -> Streamed<u32> {
    Streamed::infallible(stream::iter([1, 2]))
}

/// The error of a document.
fn error_of(document: impl Serialize) -> String {
    let error: StreamError = StreamedJson::new(document).unwrap_err();
    error.source().unwrap().to_string()
}

#[derive(Serialize)]
struct HeldList<L> {
    list: L,
}

#[derive(Serialize)]
enum ExternalList<L> {
    Newtype(L),
    Tuple(L, u8),
    Struct { list: L },
}

#[derive(Serialize)]
#[serde(tag = "kind")]
enum InternalList<L> {
    Newtype(L),
    Struct { list: L },
}

#[derive(Serialize)]
#[serde(tag = "kind", content = "content")]
enum AdjacentList<L> {
    Newtype(L),
    Tuple(L, u8),
    Struct { list: L },
}

#[derive(Serialize)]
#[serde(untagged)]
enum UntaggedList<L> {
    Newtype(L),
    Tuple(L, u8),
    Struct { list: L },
}

#[derive(Serialize)]
struct FlatList<L> {
    before: u8,
    #[serde(flatten)]
    inner: L,
    after: u8,
}

/// All positions where a list is allowed.
#[derive(Serialize)]
struct AllPositions<L> {
    some: Option<L>,
    none: Option<L>,
    many: Vec<L>,
    pair: (u8, L, L),
    map: BTreeMap<&'static str, L>,
    held: Box<HeldList<L>>,
    external: [ExternalList<L>; 3],
    internal: (InternalList<HeldList<L>>, InternalList<L>),
    adjacent: [AdjacentList<L>; 3],
    untagged: [UntaggedList<L>; 3],
    flat: FlatList<HeldList<L>>,
    flat_map: FlatList<BTreeMap<&'static str, L>>,
    flat_enum: FlatList<ExternalList<L>>,
    flat_tagged: FlatList<InternalList<L>>,
}

fn everywhere<L>(list: impl Fn() -> L) -> AllPositions<L> {
    AllPositions {
        some: Some(list()),
        none: None,
        many: vec![list(), list()],
        pair: (7, list(), list()),
        map: BTreeMap::from([("a", list()), ("b", list())]),
        held: Box::new(HeldList { list: list() }),
        external: [
            ExternalList::Newtype(list()),
            ExternalList::Tuple(list(), 7),
            ExternalList::Struct { list: list() },
        ],
        internal: (InternalList::Newtype(HeldList { list: list() }), InternalList::Struct { list: list() }),
        adjacent: [
            AdjacentList::Newtype(list()),
            AdjacentList::Tuple(list(), 7),
            AdjacentList::Struct { list: list() },
        ],
        untagged: [
            UntaggedList::Newtype(list()),
            UntaggedList::Tuple(list(), 7),
            UntaggedList::Struct { list: list() },
        ],
        flat: FlatList { before: 1, inner: HeldList { list: list() }, after: 2 },
        flat_map: FlatList { before: 1, inner: BTreeMap::from([("a", list())]), after: 2 },
        flat_enum: FlatList { before: 1, inner: ExternalList::Newtype(list()), after: 2 },
        flat_tagged: FlatList { before: 1, inner: InternalList::Struct { list: list() }, after: 2 },
    }
}

#[tokio::test]
async fn a_stream_may_stand_in_any_place() {
    let expected = serde_json::to_string(&everywhere(|| vec![1, 2])).unwrap();
    let reply = fetch(StreamedJson::new(everywhere(numbers)).unwrap()).await;
    assert_eq!(reply.whole(), expected);
    let expected = serde_json::to_string_pretty(&everywhere(|| vec![1, 2])).unwrap();
    let reply = fetch(StreamedJson::pretty(everywhere(numbers)).unwrap()).await;
    assert_eq!(reply.whole(), expected);
}

#[tokio::test]
async fn a_value_may_stand_in_any_place() {
    let expected = serde_json::to_string(&everywhere(|| "é\"")).unwrap();
    let value = || Awaited::infallible(async { "é\"" });
    let reply = fetch(StreamedJson::new(everywhere(value)).unwrap()).await;
    assert_eq!(reply.whole(), expected);
    let expected = serde_json::to_string_pretty(&everywhere(|| "é\"")).unwrap();
    let reply = fetch(StreamedJson::pretty(everywhere(value)).unwrap()).await;
    assert_eq!(reply.whole(), expected);
}

/// serde buffers these and writes them later, which would lose the placeholder.
#[test]
fn where_serde_buffers_is_no_place() {
    let flat = |inner| FlatList { before: 1, inner, after: 2 };
    for error in [
        error_of(flat(ExternalList::Tuple(numbers(), 7))),
        error_of(flat(ExternalList::Struct { list: numbers() })),
        error_of(InternalList::Newtype(ExternalList::Tuple(numbers(), 7))),
        error_of(InternalList::Newtype(ExternalList::Struct { list: numbers() })),
    ] {
        assert!(error.starts_with("a stream cannot stand here"), "{error}");
    }
}

#[test]
fn what_is_no_object_cannot_be_flattened_or_tagged() {
    error_of(FlatList { before: 1, inner: numbers(), after: 2 });
    error_of(InternalList::Newtype(numbers()));
    error_of(FlatList { before: 1, inner: Awaited::infallible(async { HeldList { list: 1 } }), after: 2 });
}

/// Serialises its content through another serializer.
struct Detour<L>(L);

impl<L: Serialize> Serialize for Detour<L> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = serde_json::to_value(&self.0).map_err(serde::ser::Error::custom)?;
        json.serialize(serializer)
    }
}

#[test]
fn a_detour_is_no_place() {
    let error = error_of(HeldList { list: Detour(numbers()) });
    assert!(error.starts_with("a stream cannot stand here"), "{error}");
}

#[tokio::test]
async fn only_a_streamed_document_can_hold_a_stream() {
    let held = HeldList { list: numbers() };
    let error = serde_json::to_string(&held).unwrap_err().to_string();
    assert!(error.starts_with("a stream or a future can only be serialised in"), "{error}");
    assert!(serde_json::to_value(&held).is_err());
    // The stream still exists.
    assert_eq!(fetch(StreamedJson::new(&held).unwrap()).await.whole(), r#"{"list":[1,2]}"#);
    assert!(error_of(&held).starts_with("a stream or a future was serialised before"));
}

#[test]
fn one_stream_cannot_stand_twice() {
    let numbers = numbers();
    assert!(error_of((&numbers, &numbers)).starts_with("a stream or a future was serialised before"));
}

/// Serialises a whole response inside another one.
struct NestedResponse(Streamed<u32>);

impl Serialize for NestedResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        drop(StreamedJson::new((numbers(), numbers())));
        self.0.serialize(serializer)
    }
}

#[tokio::test]
async fn documents_do_not_mix() {
    let reply = fetch(StreamedJson::new((numbers(), NestedResponse(numbers()), numbers())).unwrap()).await;
    assert_eq!(reply.whole(), "[[1,2],[1,2],[1,2]]");
}

/// A type that imitates the raw JSON of `serde_json`, which placeholders use.
#[derive(Serialize)]
#[serde(rename = "$serde_json::private::RawValue")]
struct ForgedJson {
    #[serde(rename = "$serde_json::private::RawValue")]
    json: String,
}

#[tokio::test]
async fn nothing_that_reads_like_a_placeholder_is_one() {
    let forged = || ForgedJson { json: "null".to_owned() };
    let raw = || RawValue::from_string("null".to_owned()).unwrap();
    let json = serde_json::json!({"$serde_json::private::RawValue": "null", "null": [null, "null"]});
    let document = (forged(), numbers(), raw(), &json, numbers(), (forged(), raw()), "null", numbers());
    let expected = format!(r#"[null,[1,2],null,{json},[1,2],[null,null],"null",[1,2]]"#);
    assert_eq!(fetch(StreamedJson::new(document).unwrap()).await.whole(), expected);
    let items = Streamed::infallible(stream::iter([0, 1].map(|_| (raw(), numbers(), forged()))));
    assert_eq!(
        fetch(StreamedJson::new(items).unwrap()).await.whole(),
        "[[null,[1,2],null],[null,[1,2],null]]"
    );
}

#[tokio::test]
async fn raw_json_is_written_as_it_is() {
    let raw = RawValue::from_string("{ \"a\":\r\n1 }".to_owned()).unwrap();
    let expected = serde_json::to_string(&(&raw, [1, 2])).unwrap();
    assert_eq!(fetch(StreamedJson::new((&raw, numbers())).unwrap()).await.whole(), expected);
    let expected = serde_json::to_string_pretty(&(&raw, [1, 2])).unwrap();
    assert_eq!(fetch(StreamedJson::pretty((raw, numbers())).unwrap()).await.whole(), expected);
}
