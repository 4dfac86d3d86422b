//! Documents with streams equal, byte for byte, `serde_json`'s output for the same documents with
//! lists.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::{self, StreamExt};
use proptest::prelude::*;
use rowstream_encode::responses::{Awaited, Ndjson, Streamed, StreamedJson};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use crate::client::{RUNTIME, fetch};

/// A structure that contains lists. Some may be streams.
#[derive(Debug, Clone)]
enum ListShape {
    Leaf(Json),
    Seq(Vec<ListShape>),
    Map(Vec<(String, ListShape)>),
    Maybe(Option<Box<ListShape>>),
    Struct(Box<[ListShape; 2]>),
    External(Box<[ListShape; 2]>),
    Internal(Box<ListShape>),
    Adjacent(Box<ListShape>),
    Flat(Vec<(String, ListShape)>),
    List(Vec<ListShape>),
    Value(Box<ListShape>),
}

/// How lists and values are serialised.
trait Mode: Serialize + Sized {
    fn of(shape: ListShape) -> Self;
    fn list<S: Serializer>(items: Vec<ListShape>, serializer: S) -> Result<S::Ok, S::Error>;
    fn value<S: Serializer>(value: ListShape, serializer: S) -> Result<S::Ok, S::Error>;
}

/// Lists are ordinary lists.
struct PlainMode(ListShape);

/// Lists are streams. Those with an odd number of items aren't ready at once.
struct LiveMode(ListShape);

impl Mode for PlainMode {
    fn of(shape: ListShape) -> Self {
        Self(shape)
    }

    fn list<S: Serializer>(items: Vec<ListShape>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(items.into_iter().map(Self))
    }

    fn value<S: Serializer>(value: ListShape, serializer: S) -> Result<S::Ok, S::Error> {
        Self(value).serialize(serializer)
    }
}

impl Mode for LiveMode {
    fn of(shape: ListShape) -> Self {
        Self(shape)
    }

    fn list<S: Serializer>(items: Vec<ListShape>, serializer: S) -> Result<S::Ok, S::Error> {
        streamed(items).serialize(serializer)
    }

    fn value<S: Serializer>(value: ListShape, serializer: S) -> Result<S::Ok, S::Error> {
        let value = async move {
            tokio::task::yield_now().await;
            Self(value)
        };
        Awaited::infallible(value).serialize(serializer)
    }
}

fn streamed(items: Vec<ListShape>) -> Streamed<LiveMode> {
    let pausing = items.len() % 2 == 1;
    Streamed::infallible(stream::iter(items).then(move |item| async move {
        if pausing {
            tokio::task::yield_now().await;
        }
        LiveMode(item)
    }))
}

impl Serialize for PlainMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize::<Self, S>(&self.0, serializer)
    }
}

impl Serialize for LiveMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize::<Self, S>(&self.0, serializer)
    }
}

#[derive(Serialize)]
struct Pair<M> {
    #[serde(rename = "fir\"st")]
    first: M,
    second: Option<M>,
}

#[derive(Serialize)]
enum ExternalEnum<M> {
    Tuple(M, u8, M),
}

#[derive(Serialize)]
#[serde(tag = "kind")]
enum InternalEnum<M> {
    Struct { inner: M },
}

#[derive(Serialize)]
#[serde(tag = "kind", content = "content")]
enum AdjacentEnum<M> {
    Newtype(M),
}

#[derive(Serialize)]
struct FlatStruct<M> {
    before: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, M>,
    after: u8,
}

fn serialize<M: Mode, S: Serializer>(shape: &ListShape, serializer: S) -> Result<S::Ok, S::Error> {
    let of = |shape: &ListShape| M::of(shape.clone());
    match shape {
        ListShape::Leaf(json) => json.serialize(serializer),
        ListShape::Seq(items) => serializer.collect_seq(items.iter().map(of)),
        ListShape::Map(members) => {
            serializer.collect_map(members.iter().map(|(key, value)| (key, of(value))))
        }
        ListShape::Maybe(value) => value.as_deref().map(of).serialize(serializer),
        ListShape::Struct(pair) => {
            Pair { first: of(&pair[0]), second: Some(of(&pair[1])) }.serialize(serializer)
        }
        ListShape::External(pair) => ExternalEnum::Tuple(of(&pair[0]), 7, of(&pair[1])).serialize(serializer),
        ListShape::Internal(inner) => InternalEnum::Struct { inner: of(inner) }.serialize(serializer),
        ListShape::Adjacent(inner) => AdjacentEnum::Newtype(of(inner)).serialize(serializer),
        ListShape::Flat(members) => {
            let rest = members.iter().map(|(key, value)| (key.clone(), of(value))).collect();
            FlatStruct { before: 1, rest, after: 2 }.serialize(serializer)
        }
        ListShape::List(items) => M::list(items.clone(), serializer),
        ListShape::Value(value) => M::value((**value).clone(), serializer),
    }
}

/// Text that JSON escapes, and texts that `serde_json` uses for its special values.
fn text() -> impl Strategy<Value = String> {
    let private =
        ["$serde_json::private::RawValue", "$serde_json::private::Number", "null", "[]", "\u{0}", "\u{1e}"];
    prop_oneof![
        3 => prop::collection::vec(any::<char>(), 0..10).prop_map(String::from_iter),
        1 => prop::sample::select(private.map(str::to_owned).to_vec()),
    ]
}

fn leaf() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        text().prop_map(Json::from),
        (text(), text())
            .prop_map(|(key, value)| Json::Object([(key, Json::from(value))].into_iter().collect())),
    ]
}

fn shape() -> impl Strategy<Value = ListShape> {
    leaf().prop_map(ListShape::Leaf).prop_recursive(5, 60, 5, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let pair = [inner.clone(), inner.clone()].prop_map(Box::new);
        let items = prop::collection::vec(inner.clone(), 0..5);
        let members = prop::collection::vec((text(), inner), 0..4).boxed();
        prop_oneof![
            4 => items.clone().prop_map(ListShape::List),
            2 => boxed.clone().prop_map(ListShape::Value),
            1 => items.prop_map(ListShape::Seq),
            1 => members.clone().prop_map(ListShape::Map),
            1 => prop::option::of(boxed.clone()).prop_map(ListShape::Maybe),
            1 => pair.clone().prop_map(ListShape::Struct),
            1 => pair.prop_map(ListShape::External),
            1 => boxed.clone().prop_map(ListShape::Internal),
            1 => boxed.prop_map(ListShape::Adjacent),
            1 => members.prop_map(ListShape::Flat),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_document_is_that_of_its_lists(shape in shape()) {
        let expected = serde_json::to_string(&PlainMode(shape.clone())).unwrap();
        let reply = RUNTIME.block_on(fetch(StreamedJson::new(LiveMode(shape)).unwrap()));
        prop_assert_eq!(reply.whole(), expected);
    }

    #[test]
    fn a_pretty_document_is_that_of_its_lists(shape in shape()) {
        let expected = serde_json::to_string_pretty(&PlainMode(shape.clone())).unwrap();
        let reply = RUNTIME.block_on(fetch(StreamedJson::pretty(LiveMode(shape)).unwrap()));
        prop_assert_eq!(reply.whole(), expected);
    }

    #[test]
    fn waiting_for_the_first_item_changes_nothing(shape in shape()) {
        let expected = serde_json::to_string(&PlainMode(shape.clone())).unwrap();
        let waited = async { fetch(StreamedJson::new(LiveMode(shape)).unwrap().first().await.unwrap()).await };
        let reply = RUNTIME.block_on(waited);
        prop_assert_eq!(reply.whole(), expected);
    }

    #[test]
    fn each_line_is_an_item(items in prop::collection::vec(shape(), 0..6)) {
        let line = |item: &ListShape| serde_json::to_string(&PlainMode(item.clone())).unwrap() + "\n";
        let expected: String = items.iter().map(line).collect();
        let reply = RUNTIME.block_on(fetch(Ndjson::new(streamed(items))));
        prop_assert_eq!(reply.whole(), expected);
    }
}

#[tokio::test]
async fn a_document_may_be_a_stream() {
    let numbers = Streamed::infallible(stream::iter([1, 2, 3]));
    assert_eq!(fetch(StreamedJson::new(numbers).unwrap()).await.whole(), "[1,2,3]");
    let nothing = Streamed::infallible(stream::empty::<u8>());
    assert_eq!(fetch(StreamedJson::new(nothing).unwrap()).await.whole(), "[]");
}

#[tokio::test]
async fn a_document_may_have_no_stream() {
    let reply = fetch(StreamedJson::new(("a", [1, 2])).unwrap()).await;
    assert_eq!(reply.whole(), r#"["a",[1,2]]"#);
}

/// Streams are read one after another, so a value after a list knows its items.
#[tokio::test]
async fn a_value_may_count_the_list_before_it() {
    let counted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&counted);
    let items = stream::iter(0..1_000).inspect(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let total = Awaited::infallible(async move { count.load(Ordering::Relaxed) });
    let document = StreamedJson::new((Streamed::infallible(items), total)).unwrap();
    assert!(fetch(document).await.whole().ends_with(",999],1000]"));
}
