//! JSON pointers (RFC 6901), which are resolved in a text without parsing it into values.

pub mod tree;

use serde::de::IgnoredAny;

use self::tree::{Finder, Tree};

/// The place of a value in a JSON document, for example `/hits/hits`. An empty one means the
/// document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// Reads a pointer; `None` if it's invalid.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        text.strip_prefix('/')?.split('/').map(unescape).collect::<Option<_>>().map(Self)
    }

    /// A pointer to a member of the document, or to an element if `name` is an index.
    pub(crate) fn to_member(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }

    /// The names and indices on the way to the value.
    pub fn tokens(&self) -> &[String] {
        &self.0
    }

    /// The value in `json`; `None` if it doesn't exist. If a name is repeated, the last member
    /// counts.
    ///
    /// # Errors
    /// `json` isn't JSON.
    pub fn find<'a>(&self, json: &'a str) -> serde_json::Result<Option<&'a str>> {
        serde_json::from_str::<IgnoredAny>(json)?;
        let tree = Tree::new([self.clone()]);
        let mut finder = Finder::default();
        finder.find(&tree, json);
        Ok(tree.ends().first().and_then(|end| finder.text(*end, json)))
    }
}

/// Replaces `~1` by a slash and `~0` by a tilde.
fn unescape(token: &str) -> Option<String> {
    let is_well = |escape: &str| escape.starts_with(['0', '1']);
    token.split('~').skip(1).all(is_well).then(|| token.replace("~1", "/").replace("~0", "~"))
}

/// Returns true if a member's name is `wanted`. `name` is the text between the quotes, with its
/// escapes.
pub fn names(name: &[u8], wanted: &str) -> bool {
    if !name.contains(&b'\\') {
        return name == wanted.as_bytes();
    }
    let quoted = [b"\"", name, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|name| name == wanted)
}

/// The index of an element, from digits without leading zeros.
pub fn index(token: &str) -> Option<u64> {
    let is_plain = token == "0" || !token.starts_with(['0', '+']);
    is_plain.then(|| token.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The document and the pointers of RFC 6901, section 5, and invalid ones.
    #[test]
    fn pointers_lead_where_they_say() {
        let document = r#" {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8,
            "deep": {"list": [{"x": -1.50e3}, null]}, "twice": 1, "twice": {"y": 2}, "again": {"y": 2},
            "again": {}, "no": null} "#;
        for (pointer, expected) in [
            ("/foo", Some(r#"["bar", "baz"]"#)),
            ("/foo/0", Some(r#""bar""#)),
            ("/foo/1", Some(r#""baz""#)),
            ("/foo/2", None),
            ("/foo/-", None),
            ("/foo/00", None),
            ("/foo/+1", None),
            ("/foo/0/0", None),
            ("/", Some("0")),
            ("/a~1b", Some("1")),
            ("/c%d", Some("2")),
            ("/i\\j", Some("5")),
            ("/k\"l", Some("6")),
            ("/ ", Some("7")),
            ("/m~0n", Some("8")),
            ("/deep/list/0/x", Some("-1.50e3")),
            ("/deep/list/1", Some("null")),
            ("/deep/list/1/x", None),
            ("/deep/list/18446744073709551616", None),
            ("/twice", Some(r#"{"y": 2}"#)),
            ("/twice/y", Some("2")),
            ("/again", Some("{}")),
            ("/again/y", None),
            ("/no/x", None),
            ("/other", None),
            ("", Some(document.trim())),
        ] {
            let found = Pointer::parse(pointer).unwrap();
            assert_eq!(found.find(document).unwrap(), expected, "{pointer}");
        }
        for pointer in ["a", "a/b", "/~", "/~2", "/a~", "#/a"] {
            assert_eq!(Pointer::parse(pointer), None, "{pointer}");
        }
        for json in ["", "{", "{\"a\":1", "{\"a\":1}x", "{\"a\":01}", "{\"b\":[1,]}"] {
            assert!(Pointer::parse("/a").unwrap().find(json).is_err(), "{json}");
        }
    }

    #[test]
    fn tokens() {
        for (text, tokens) in [
            ("", Some(&[][..])),
            ("/", Some(&[""])),
            ("/a", Some(&["a"])),
            ("/a//0", Some(&["a", "", "0"])),
            ("/a~1b/m~0n/~01", Some(&["a/b", "m~n", "~1"])),
            ("/größe x", Some(&["größe x"])),
            ("a", None),
            ("/~", None),
            ("/~2", None),
            ("/a~", None),
        ] {
            let pointer = Pointer::parse(text);
            let found = pointer
                .as_ref()
                .map(|pointer| pointer.tokens().iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(found.as_deref(), tokens, "{text}");
        }
    }

    proptest! {
        /// We find the same value in the text as serde_json in its parsed value.
        #[test]
        fn a_tree_leads_there_too(
            keys in proptest::collection::vec("[a-c/~0]{0,2}", 1..4),
            tokens in proptest::collection::vec("[a-c/~0-2]{0,2}", 0..3),
        ) {
            let leaf = |value: serde_json::Value, key: &String| serde_json::json!({key: value, "x": [value, 1]});
            let tree = keys.iter().fold(serde_json::json!([1, "a"]), leaf);
            let escaped = |token: &String| format!("/{}", token.replace('~', "~0").replace('/', "~1"));
            let pointer: String = tokens.iter().map(escaped).collect();
            let text = tree.to_string();
            let found = Pointer::parse(&pointer).unwrap().find(&text).unwrap();
            let found = found.map(|json| serde_json::from_str::<serde_json::Value>(json).unwrap());
            prop_assert_eq!(found.as_ref(), tree.pointer(&pointer));
        }
    }
}
