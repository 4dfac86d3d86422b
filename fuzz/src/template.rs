//! Body templates: filling the placeholders of an accepted template restores the body.

use rowstream_encode::{Segment, Template};
use serde_json::Value as Json;

/// Parses a template from its JSON text.
pub fn template(data: &[u8]) {
    let Ok(body) = serde_json::from_slice::<Json>(data) else { return };
    match Template::new(&body) {
        Ok(template) => assert_accepted(&body, &template),
        Err(error) => {
            assert!(error.string().starts_with('$') && !error.string().starts_with("$$"));
            assert!(holds(&body, &error));
            assert!(!error.to_string().is_empty());
        }
    }
}

fn assert_accepted(body: &Json, template: &Template) {
    let is_literal = |segment: &Segment| matches!(segment, Segment::Literal(_));
    assert!(template.segments.windows(2).all(|pair| !(is_literal(&pair[0]) && is_literal(&pair[1]))));
    let joined: Vec<u8> = template.segments.iter().flat_map(restored).collect();
    let joined = String::from_utf8(joined).expect("JSON is UTF-8");
    // Compared as texts, because serde_json reads some floats as their neighbours.
    assert_eq!(joined, unescaped(body.clone()).to_string());
}

fn restored(segment: &Segment) -> Vec<u8> {
    match segment {
        Segment::Literal(bytes) => bytes.clone(),
        Segment::Placeholder(name) => format!("\"${name}\"").into_bytes(),
        Segment::Next => b"\"$next\"".to_vec(),
        Segment::Digest => b"\"$digest\"".to_vec(),
        Segment::Count(None) => b"\"$count\"".to_vec(),
        Segment::Count(Some(name)) => format!("\"$count({name})\"").into_bytes(),
    }
}

/// The body with `$$` unescaped to `$`.
fn unescaped(json: Json) -> Json {
    match json {
        Json::String(text) => Json::String(match text.strip_prefix("$$") {
            Some(rest) => format!("${rest}"),
            None => text,
        }),
        Json::Array(elements) => elements.into_iter().map(unescaped).collect(),
        Json::Object(members) => {
            Json::Object(members.into_iter().map(|(key, member)| (key, unescaped(member))).collect())
        }
        leaf => leaf,
    }
}

/// Returns true if the body contains the refused string.
fn holds(json: &Json, error: &rowstream_encode::TemplateError) -> bool {
    match json {
        Json::String(text) => text == error.string(),
        Json::Array(elements) => elements.iter().any(|element| holds(element, error)),
        Json::Object(members) => members.values().any(|member| holds(member, error)),
        _ => false,
    }
}
