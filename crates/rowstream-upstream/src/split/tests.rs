use std::fmt::Write as _;

use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::*;

fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).expect("a pointer")
}

/// The result of a document: its elements, the captured values, and its end.
#[derive(Debug, PartialEq)]
struct SplitResult {
    elements: Vec<String>,
    captured: Vec<Option<String>>,
    ended: Result<bool, SplitError>,
}

fn split(splitter: &mut Splitter, layout: Layout, pieces: &[&[u8]]) -> SplitResult {
    splitter.begin(layout);
    let mut elements = Vec::new();
    let mut run = || {
        for piece in pieces {
            splitter.push(Bytes::copy_from_slice(piece));
            while splitter.advance()? {
                elements.push(splitter.element()?.to_owned());
            }
        }
        while splitter.finish()? {
            elements.push(splitter.element()?.to_owned());
        }
        Ok(splitter.has_rows())
    };
    let ended = run();
    let captured = |which| match splitter.captured(which).expect("UTF-8") {
        CapturedValue::Missing => None,
        CapturedValue::Scalar(text) => Some(text.to_owned()),
        CapturedValue::Container => Some("(container)".to_owned()),
    };
    // Captures are final only at the end.
    let captured =
        (0..splitter.captures.len()).map(|which| ended.as_ref().ok().and_then(|_| captured(which)));
    let captured = captured.collect();
    SplitResult { elements, captured, ended }
}

fn whole(rows: &str, captures: &[&str], layout: Layout, text: &[u8]) -> SplitResult {
    let captures: Vec<_> = captures.iter().map(|capture| pointer(capture)).collect();
    split(&mut Splitter::new(&pointer(rows), &captures, 1000), layout, &[text])
}

#[test]
fn elements_of_an_array() {
    for (rows, text, elements) in [
        ("", "[]", &[][..]),
        (
            "",
            " [1 , \"a\\\"]\" ,null,[ ] , {\"a\":[1,2]}] ",
            &["1", "\"a\\\"]\"", "null", "[ ]", "{\"a\":[1,2]}"],
        ),
        ("/items", "{\"items\":[1,2],\"n\":{\"items\":[3]}}", &["1", "2"]),
        ("/items", "{\"n\":{\"items\":[3]},\"it\\u0065ms\":[-0.5e+3,0]}", &["-0.5e+3", "0"]),
        (
            "/hits/hits",
            "{\"hits\":{\"total\":1,\"hits\":[{\"hits\":{\"hits\":[9]}}]}}",
            &["{\"hits\":{\"hits\":[9]}}"],
        ),
        ("/a/1", "{\"a\":[[1],[2],[3]]}", &["2"]),
        ("/a/01", "{\"a\":[[1],[2],[3]]}", &[]),
        ("/", "{\"\":[true,false]}", &["true", "false"]),
        ("/a", "{\"b\":[1]}", &[]),
        ("/a", "{\"a\":null}", &[]),
        ("/a", "12", &[]),
        ("/ä", "{\"\\u00e4\":[\"ü\"]}", &["\"ü\""]),
        // A byte order mark (RFC 8259, section 8.1).
        ("/a", "\u{feff} {\"a\":[1]}", &["1"]),
    ] {
        let split = whole(rows, &[], Layout::Document, text.as_bytes());
        assert_eq!(split.elements, elements, "{rows} {text}");
        assert!(split.ended.is_ok(), "{rows} {text}: {:?}", split.ended);
    }
}

#[test]
fn lines_are_elements() {
    for (text, elements) in [
        ("", Ok(&[][..])),
        ("\n\r\n", Ok(&[])),
        ("\u{feff}1\n2", Ok(&["1", "2"])),
        ("1\n\u{feff}2", Err(SplitError::NotJson(2))),
        ("1\n{\"a\":1}\r\n\n\"x\"", Ok(&["1", "{\"a\":1}", "\"x\""])),
        ("[1]\n23", Ok(&["[1]", "23"])),
        ("1 2\n", Err(SplitError::NotJson(2))),
        ("{\"a\":\n1}", Err(SplitError::NotJson(5))),
        ("{\"a\":1", Err(SplitError::Cut)),
        ("2\n-", Err(SplitError::Cut)),
    ] {
        let split = whole("/a", &["/a"], Layout::Lines, text.as_bytes());
        match elements {
            Ok(elements) => assert_eq!(
                (split.elements, split.ended),
                (elements.iter().map(|e| (*e).to_owned()).collect(), Ok(true)),
                "{text:?}"
            ),
            Err(error) => assert_eq!(split.ended, Err(error), "{text:?}"),
        }
        assert_eq!(split.captured, [None], "members of lines aren't captured: {text:?}");
    }
}

#[test]
fn scalars_are_watched_wherever_they_stand() {
    for (text, captured) in [
        ("{\"next\":\"/p?\\\"2\",\"items\":[1]}", Some("\"/p?\\\"2\"")),
        ("{\"items\":[{\"next\":1}],\"next\":null}", Some("null")),
        ("{\"items\":[],\"next\":-1.50 }", Some("-1.50")),
        ("{\"items\":[],\"next\":[1]}", Some("(container)")),
        ("{\"items\":[],\"nexT\":1}", None),
        ("{\"o\":{\"next\":1},\"items\":[]}", None),
    ] {
        let split = whole("/items", &["/next"], Layout::Document, text.as_bytes());
        assert_eq!(split.ended, Ok(true), "{text}");
        assert_eq!(split.captured, [captured.map(str::to_owned)], "{text}");
    }
    let split = whole(
        "/items",
        &["/items/1/id", "/o/c"],
        Layout::Document,
        br#"{"items":[{"id":1},{"id":2}],"o":{"c":true}}"#,
    );
    assert_eq!(split.captured, [Some("2".to_owned()), Some("true".to_owned())]);
}

#[test]
fn what_is_no_whole_document_fails() {
    let deep = "[".repeat(DEPTH + 1);
    let long = format!("[\"{}\"]", "x".repeat(999));
    let long_next = format!("{{\"next\":\"{}\"}}", "x".repeat(LONGEST_CAPTURE));
    for (text, error) in [
        ("", SplitError::Cut),
        ("  ", SplitError::Cut),
        ("{\"items\":[1,2]", SplitError::Cut),
        ("{\"items\":[1,2", SplitError::Cut),
        ("{\"items\":[1,2]}x", SplitError::NotJson(15)),
        ("{\"items\":[1,2]}{", SplitError::NotJson(15)),
        ("{\"items\":[1,]}", SplitError::NotJson(12)),
        ("{\"items\":[1,,2]}", SplitError::NotJson(12)),
        ("{\"items\":[01]}", SplitError::NotJson(11)),
        ("{\"items\":[1.]}", SplitError::NotJson(12)),
        ("{\"items\":[+1]}", SplitError::NotJson(10)),
        ("{\"items\":[nul]}", SplitError::NotJson(13)),
        ("{\"items\":[\"\\x\"]}", SplitError::NotJson(12)),
        ("{\"items\":[\"\\u12g4\"]}", SplitError::NotJson(15)),
        ("{\"items\":[\"\n\"]}", SplitError::NotJson(11)),
        ("{\"items\":[1]]", SplitError::NotJson(12)),
        ("{\"items\":[1}}", SplitError::NotJson(11)),
        ("{\"items\" [1]}", SplitError::NotJson(9)),
        ("{items:[1]}", SplitError::NotJson(1)),
        ("{\"a\":1,}", SplitError::NotJson(7)),
        ("{\"items\":{}}", SplitError::NoArray),
        ("{\"items\":\"\"}", SplitError::NoArray),
        ("{\"items\":[1],\"items\":[2]}", SplitError::Twice("items".to_owned())),
        ("{\"items\":[1],\"it\\u0065ms\":[2]}", SplitError::Twice("it\\u0065ms".to_owned())),
        ("<html>", SplitError::NotJson(0)),
        ("\u{feff}", SplitError::Cut),
        ("\u{feff}\u{feff}[]", SplitError::NotJson(3)),
        (" \u{feff}[]", SplitError::NotJson(1)),
        (&*deep, SplitError::TooDeep),
        (&*long_next, SplitError::LongScalar),
    ] {
        let split = whole("/items", &["/next"], Layout::Document, text.as_bytes());
        assert_eq!(split.ended, Err(error), "{text}");
    }
    assert_eq!(whole("", &[], Layout::Document, long.as_bytes()).ended, Err(SplitError::TooLarge(1001)));
    for bytes in [&b"[\"\xff\"]"[..], b"[\"\xc3\"]", b"{\"\xed\xa0\x80\":1}", b"[\"\xc3"] {
        assert!(whole("", &[], Layout::Document, bytes).ended.is_err(), "{bytes:?}");
    }
    // Names that aren't on a pointer can be repeated, as in serde_json.
    assert_eq!(
        whole("/items", &[], Layout::Document, br#"{"a":1,"a":2,"items":[{"a":1,"a":2}]}"#).ended,
        Ok(true)
    );
}

/// Skipped parts aren't kept in memory, and an element is kept once.
#[test]
fn only_an_element_is_held() {
    let mut splitter = Splitter::new(&pointer("/items"), [&pointer("/next")], 4096);
    splitter.begin(Layout::Document);
    let (mut elements, mut text) = (0, String::from("{\"skipped\":["));
    for n in 0..2000 {
        let _ = write!(text, "{{\"n\":{n},\"text\":\"{}\"}},", "x".repeat(n % 100));
    }
    text.push_str("0],\"items\":[");
    for n in 0..2000 {
        let _ = write!(text, "{{\"n\":{n},\"text\":\"{}\"}},", "y".repeat(n % 100));
    }
    text.push_str("0]}");
    for piece in text.as_bytes().chunks(7) {
        splitter.push(Bytes::copy_from_slice(piece));
        while splitter.advance().expect("it is well") {
            elements += 1;
        }
        let held = splitter.element.text.capacity() + splitter.name.text.capacity();
        assert!(held <= 512, "{held} bytes after {elements} elements");
    }
    assert_eq!((elements, splitter.finish()), (2001, Ok(false)));
}

/// The members of an object in their order, including repeated names.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// The value at a pointer, found with serde_json. It's an error if a name on the way is repeated.
fn find<'a>(value: &'a RawValue, tokens: &[String]) -> Result<Option<&'a RawValue>, ()> {
    let Some((first, rest)) = tokens.split_first() else { return Ok(Some(value)) };
    let next = match value.get().as_bytes()[0] {
        b'{' => {
            let members: Members<'_> = serde_json::from_str(value.get()).expect("an object");
            let mut named = members.0.into_iter().filter(|(name, _)| name == first);
            let found = named.next().map(|(_, value)| value);
            if named.next().is_some() {
                return Err(());
            }
            found
        }
        b'[' => {
            let elements: Vec<&RawValue> = serde_json::from_str(value.get()).expect("an array");
            first.parse::<usize>().ok().and_then(|index| elements.get(index).copied())
        }
        _ => None,
    };
    next.map_or(Ok(None), |next| find(next, rest))
}

/// Any JSON document, with all kinds of blanks and escapes.
fn document() -> impl Strategy<Value = String> {
    let blank = prop_oneof![5 => Just(""), 1 => Just(" "), 1 => Just("\r\n\t ")];
    let name = prop_oneof![
        6 => prop_oneof![Just("a"), Just("b"), Just("\\u0061"), Just("0"), Just("")].prop_map(|name| format!("\"{name}\"")),
        1 => any::<String>().prop_map(|name| serde_json::to_string(&name).expect("a string")),
    ];
    let scalar = prop_oneof![
        prop_oneof![
            Just("null"),
            Just("true"),
            Just("false"),
            Just("-0"),
            Just("12.50e-7"),
            Just("12345678901234567890")
        ]
        .prop_map(str::to_owned),
        any::<String>().prop_map(|text| serde_json::to_string(&text).expect("a string")),
        Just("\"\\\"\\\\\\/\\ud83d\\ude00 größe ☃\"".to_owned()),
    ];
    let value = scalar.prop_recursive(5, 60, 5, move |inner| {
        let joined = |(parts, blank): (Vec<String>, &'static str)| parts.join(&format!("{blank},{blank}"));
        let member = (name.clone(), blank.clone(), inner.clone())
            .prop_map(|(name, blank, value)| format!("{name}{blank}:{value}"));
        prop_oneof![
            (prop::collection::vec(inner, 0..5), blank.clone())
                .prop_map(joined)
                .prop_map(|list| format!("[{list}]")),
            (prop::collection::vec(member, 0..5), blank.clone())
                .prop_map(joined)
                .prop_map(|list| format!("{{{list}}}")),
        ]
    });
    prop_oneof![
        2 => value.clone(),
        3 => prop::collection::vec(value.clone(), 0..4).prop_map(|list| format!("{{\"b\":1,\"a\": [{}]}}", list.join(", "))),
        1 => prop::collection::vec(value, 0..4).prop_map(|list| format!(" [{}]\n", list.join("\n,"))),
    ]
}

const POINTERS: [&str; 7] = ["", "/a", "/b", "/a/a", "/a/0", "/0", "/a/0/b"];

proptest! {
    /// With any cuts, we find the same elements and scalars as serde_json.
    #[test]
    fn any_cut_gives_what_serde_json_finds(
        text in document(),
        rows in prop::sample::select(&POINTERS),
        capture in prop::sample::select(&POINTERS),
        cuts in prop::collection::vec(1usize..12, 1..20),
    ) {
        let document: &RawValue = serde_json::from_str(&text).expect("JSON");
        let (rows, capture) = (pointer(rows), pointer(capture));
        let found = find(document, rows.tokens()).and_then(|list| match list.map(RawValue::get) {
            None | Some("null") => Ok((Vec::new(), false)),
            Some(list) => serde_json::from_str::<Vec<&RawValue>>(list).map(|list| (list, true)).map_err(|_| ()),
        });
        let captured = find(document, capture.tokens());
        let mut splitter = Splitter::new(&rows, [&capture], usize::MAX);
        let all = split(&mut splitter, Layout::Document, &[text.as_bytes()]);
        match (found, captured) {
            (Ok((list, is_there)), Ok(captured)) => {
                let list: Vec<_> = list.iter().map(|element| element.get().to_owned()).collect();
                prop_assert_eq!(&all.elements, &list);
                prop_assert_eq!(&all.ended, &Ok(is_there));
                let shown = |value: &RawValue| match value.get().as_bytes()[0] {
                    b'{' | b'[' => "(container)".to_owned(),
                    _ => value.get().to_owned(),
                };
                prop_assert_eq!(&all.captured[0], &captured.map(shown));
            }
            _ => prop_assert!(all.ended.is_err()),
        }
        let mut pieces = Vec::new();
        let mut rest = text.as_bytes();
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at(rest.len().min(*cut));
            pieces.push(piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&split(&mut splitter, Layout::Document, &pieces), &all);
        // A truncated document doesn't end well. A number is complete wherever it's cut.
        let ends = if text.trim_start().starts_with(['[', '{']) { text.trim_end().len() } else { 0 };
        for end in (0..ends).step_by(1 + text.len() / 64) {
            let cut = split(&mut splitter, Layout::Document, &[&text.as_bytes()[..end]]);
            prop_assert!(cut.ended.is_err(), "{:?} of {:?}", end, text);
            prop_assert!(all.elements.starts_with(&cut.elements) || all.ended.is_err());
        }
    }
}
