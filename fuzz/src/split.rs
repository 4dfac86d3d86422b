//! Extracts rows from JSON that arrives in pieces: every cut of a document gives the same result as
//! the whole, and as serde_json.

use bytes::Bytes;
use rowstream_upstream::pointer::Pointer;
use rowstream_upstream::split::{CapturedValue, Layout, SplitError, Splitter};
use serde_json::value::RawValue;

use crate::json::Members;

const POINTERS: [&str; 8] = ["", "/a", "/b", "/a/b", "/a/0", "/0", "/", "/a/0/b"];

/// The result for a document.
struct Split {
    elements: Vec<String>,
    /// The scalar that was captured.
    captured: Option<String>,
    /// True if the document is valid.
    ended_well: bool,
}

/// The first byte chooses the pointer of the rows, and if the input is lines. The second one
/// chooses the captured scalar, and the third one cuts the rest.
pub fn split(data: &[u8]) {
    let [rows, captured, cut, body @ ..] = data else { return };
    let pointer = |choice: u8| POINTERS[usize::from(choice) % POINTERS.len()];
    let (lines, rows, captured) = (*rows >= 128, pointer(*rows), pointer(*captured));
    let whole = splits((rows, captured, lines), &[body]);
    let pieces: Vec<_> = body.chunks(usize::from(*cut).max(1)).collect();
    let parts = splits((rows, captured, lines), &pieces);
    assert_eq!(whole.ended_well, parts.ended_well);
    assert_eq!(whole.elements, parts.elements);
    if whole.ended_well {
        assert_eq!(whole.captured, parts.captured);
    }
    if lines {
        assert_lines(body, &whole.elements, whole.ended_well);
    } else {
        assert_document(body, (rows, captured), &whole);
    }
}

/// Splits a document or lines, which arrive in pieces. The pointers are those of the rows and of
/// the captured scalar.
fn splits((rows, captured, lines): (&str, &str, bool), pieces: &[&[u8]]) -> Split {
    let pointer = |text| Pointer::parse(text).unwrap_or_default();
    let mut splitter = Splitter::new(&pointer(rows), [&pointer(captured)], usize::MAX);
    splitter.begin(if lines { Layout::Lines } else { Layout::Document });
    let mut elements = Vec::new();
    let ended_well = read(&mut splitter, pieces, &mut elements).is_ok();
    let captured = match splitter.captured(0) {
        Ok(CapturedValue::Scalar(text)) => Some(text.to_owned()),
        _ => None,
    };
    Split { elements, captured, ended_well }
}

fn read(splitter: &mut Splitter, pieces: &[&[u8]], elements: &mut Vec<String>) -> Result<(), SplitError> {
    for piece in pieces {
        splitter.push(Bytes::copy_from_slice(piece));
        while splitter.advance()? {
            elements.push(splitter.element()?.to_owned());
        }
    }
    while splitter.finish()? {
        elements.push(splitter.element()?.to_owned());
    }
    Ok(())
}

fn assert_lines(body: &[u8], elements: &[String], ended_well: bool) {
    let is_blank = |text: &[u8]| text.iter().all(|byte| b" \t\r".contains(byte));
    let texts = body.split(|byte| *byte == b'\n').filter(|text| !is_blank(text));
    let texts: Result<Vec<&RawValue>, _> = texts.map(serde_json::from_slice).collect();
    match texts {
        // Our depth is limited, but serde_json's isn't here.
        Ok(texts) if ended_well => assert!(texts.iter().map(|text| text.get()).eq(elements)),
        Ok(_) => assert!(body.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() > 128),
        Err(_) => assert!(!ended_well),
    }
}

fn assert_document(body: &[u8], (rows, captured): (&str, &str), whole: &Split) {
    let Ok(document) = serde_json::from_slice::<&RawValue>(body) else { return assert!(!whole.ended_well) };
    if !whole.ended_well {
        return;
    }
    let list = find(document, rows).map(RawValue::get).filter(|list| *list != "null");
    let list: Vec<&RawValue> =
        list.map(|list| serde_json::from_str(list).expect("an array")).unwrap_or_default();
    assert!(list.iter().map(|element| element.get()).eq(&whole.elements));
    let scalar = find(document, captured).map(RawValue::get).filter(|text| !text.starts_with(['[', '{']));
    assert_eq!(scalar, whole.captured.as_deref());
}

/// The value at a pointer, if no name on the path is duplicated.
fn find<'a>(value: &'a RawValue, pointer: &str) -> Option<&'a RawValue> {
    let Some(rest) = pointer.strip_prefix('/') else { return Some(value) };
    let (first, _) = rest.split_once('/').unwrap_or((rest, ""));
    let next = match value.get().as_bytes().first()? {
        b'{' => {
            let members: Members<'a> = serde_json::from_str(value.get()).ok()?;
            let mut named = members.0.into_iter().filter(|(name, _)| name == first);
            let member = named.next().map(|(_, member)| member);
            assert!(named.next().is_none(), "what is ambiguous does not end well");
            member
        }
        b'[' => {
            let elements: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
            first.parse::<usize>().ok().and_then(|number| elements.get(number).copied())
        }
        _ => None,
    };
    find(next?, &rest[first.len()..])
}
