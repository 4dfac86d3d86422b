//! Texts in lines of logs. What comes from outside can begin no line of its own, no field, and no
//! terminal's command, and is no longer than it is worth.

use std::borrow::Cow;
use std::fmt::{self, Display, Write as _};

/// Whether a character is for machines alone: controls (U+009B begins a terminal's command), ends
/// of lines, and what turns the direction of text around.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The beginning of a text, of so many bytes at most.
pub(crate) fn bounded(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// A text on one line, as it stands between spaces.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    match text.contains(is_hidden) {
        true => text.replace(is_hidden, "\u{fffd}").into(),
        false => text.into(),
    }
}

/// A text as JSON writes it; plainer JSON than most, as what is hidden is escaped too.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_special = |c: char| matches!(c, '"' | '\\') || is_hidden(c);
        f.write_char('"')?;
        for piece in self.0.split_inclusive(is_special) {
            let special = piece.chars().next_back().filter(|c| is_special(*c));
            f.write_str(&piece[..piece.len() - special.map_or(0, char::len_utf8)])?;
            match special {
                None => {}
                Some('\n') => f.write_str("\\n")?,
                Some('\t') => f.write_str("\\t")?,
                Some(c @ ('"' | '\\')) => write!(f, "\\{c}")?,
                // None of them needs more than four digits.
                Some(c) => write!(f, "\\u{:04x}", u32::from(c))?,
            }
        }
        f.write_char('"')
    }
}

/// The value of a field of a text line: quoted where it could be taken for more than one.
pub(crate) struct Word<'a>(pub(crate) &'a str);

impl Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'=');
        match !self.0.is_empty() && self.0.bytes().all(is_plain) {
            true => f.write_str(self.0),
            false => Quoted(self.0).fmt(f),
        }
    }
}

/// A JSON object on its way to a line.
pub(crate) struct Object(String);

impl Object {
    /// One without members, and with room for those of most lines.
    pub(crate) fn new() -> Self {
        let mut line = String::with_capacity(512);
        line.push('{');
        Self(line)
    }

    /// A member whose value is a text.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        self.raw(name, Quoted(value));
    }

    /// A member whose value is JSON as it is written. Names are ours, and need no escape.
    pub(crate) fn raw(&mut self, name: impl Display, value: impl Display) {
        let comma = if self.0.len() > 1 { "," } else { "" };
        let _ = write!(self.0, "{comma}\"{name}\":{value}");
    }

    /// The line, without its end.
    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_stand_alone() {
        for (text, expected) in [
            ("curl/8.5.0", "curl/8.5.0"),
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("a=b", r#""a=b""#),
            ("a\" status=200", r#""a\" status=200""#),
            ("a\\", r#""a\\""#),
            ("a\nb\tc\u{9b}d\u{202e}e", r#""a\nb\tc\u009bd\u202ee""#),
            ("é", r#""é""#),
        ] {
            assert_eq!(Word(text).to_string(), expected);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(bounded("aé", 2), "a");
        assert_eq!(bounded("aé", 3), "aé");
        assert_eq!(bounded("aé", 9), "aé");
    }

    proptest! {
        #[test]
        fn objects_are_json_on_one_line(text in any::<String>()) {
            let mut object = Object::new();
            object.text("a", &text);
            object.raw("b", 1);
            let line = object.finish();
            prop_assert!(!line.contains(is_hidden), "{:?}", line);
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(read, serde_json::json!({ "a": text, "b": 1 }));
        }
    }
}
