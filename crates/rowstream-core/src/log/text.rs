//! Escapes the texts of log lines. Text from outside can't begin a new line, a field or a
//! terminal's escape sequence, and it's cut.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{self, Display, Write as _};
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::lines::Lines;

thread_local! {
    /// The last second that this thread wrote, since 1970, and its text.
    static SECOND: Cell<(u64, [u8; SECOND_LENGTH])> = const { Cell::new((0, *b"1970-01-01T00:00:00")) };
    /// The buffer of the last line that this thread wrote.
    static ROOM: Cell<String> = const { Cell::new(String::new()) };
}

/// The capacity that most lines need.
const USUAL_LINE: usize = 512;
/// A larger buffer is freed.
const LONG_LINE: usize = 4096;

/// The length of `2026-11-25T14:05:26`.
const SECOND_LENGTH: usize = 19;

/// Returns true if a character isn't visible text: controls (U+009B begins a terminal's escape
/// sequence), line ends, and marks that change the direction of text.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The beginning of a text, at most `most` bytes.
pub fn bounded(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Puts a text on one line, without quotes.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let is_shown = |byte: u8| matches!(byte, b' '..=b'~');
    match text.bytes().all(is_shown) || !text.contains(is_hidden) {
        true => text.into(),
        false => text.replace(is_hidden, "\u{fffd}").into(),
    }
}

/// A text as a JSON string. It also escapes the hidden characters, which JSON doesn't require.
struct JsonString<'a>(&'a str);

impl Display for JsonString<'_> {
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
                // No hidden character needs more than four digits.
                Some(c) => write!(f, "\\u{:04x}", u32::from(c))?,
            }
        }
        f.write_char('"')
    }
}

/// Returns true if a text can be a field's value without quotes.
fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'=');
    !text.is_empty() && text.bytes().all(is_plain)
}

/// A text line that's being written.
///
/// It's built piece by piece, because each lookup has a line. For each of the twenty pieces,
/// `write!` costs more than copying it.
pub struct Line(String);

impl Line {
    /// A line that begins with the time.
    pub fn begin() -> Self {
        let mut line = ROOM.take();
        line.clear();
        line.reserve(USUAL_LINE);
        push_time(now(), &mut line);
        Self(line)
    }

    /// Appends a text unchanged, so it has to be ours or the result of [`one_line`]. It's inlined,
    /// because most texts are constants, and a few constant bytes need only one instruction.
    #[inline]
    pub fn push(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Begins a field with this name. Its value is next.
    #[inline]
    pub fn field(&mut self, name: &str) {
        self.push(" ");
        self.push(name);
        self.push("=");
    }

    /// Appends a field's value, in quotes if it could look like several.
    pub fn word(&mut self, text: &str) {
        match is_word(text) {
            true => self.push(text),
            false => self.any(JsonString(text)),
        }
    }

    /// Appends a number. Most have one digit.
    pub fn number(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(digit @ 0..=9) => self.0.push(char::from(b'0' + digit)),
            _ => self.push(itoa::Buffer::new().format(number)),
        }
    }

    /// Appends a time in milliseconds, with one decimal.
    pub fn milliseconds(&mut self, time: Duration) {
        let tenths = tenths(time);
        self.number(tenths / 10);
        self.push(".");
        self.number(tenths % 10);
    }

    /// Appends an address.
    pub fn address(&mut self, address: IpAddr) {
        let IpAddr::V4(address) = address else { return self.any(address) };
        for (number, octet) in address.octets().into_iter().enumerate() {
            self.push(if number > 0 { "." } else { "" });
            self.number(octet.into());
        }
    }

    /// Appends any other value.
    pub fn any(&mut self, value: impl Display) {
        let _ = write!(self.0, "{value}");
    }

    /// Writes the line to a log, and keeps its buffer for this thread's next line.
    pub fn write(self, lines: &'static Lines) {
        lines.write(&self.0);
        if self.0.capacity() <= LONG_LINE {
            ROOM.set(self.0);
        }
    }

    /// The line, without a line end.
    pub fn finish(self) -> String {
        self.0
    }
}

/// The time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Appends a time since 1970 in UTC as in RFC 3339, with milliseconds. Everything before the
/// milliseconds is usually the same as in the previous line.
fn push_time(time: Duration, line: &mut String) {
    let (mut second, mut text) = SECOND.get();
    if second != time.as_secs() {
        second = time.as_secs();
        let known = i64::try_from(second).ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
        let written = known.unwrap_or_default().to_string();
        text.copy_from_slice(&written.as_bytes()[..SECOND_LENGTH]);
        SECOND.set((second, text));
    }
    line.push_str(std::str::from_utf8(&text).unwrap_or_default());
    line.push('.');
    let millis = time.subsec_millis();
    for digit in [millis / 100, millis / 10 % 10, millis % 10] {
        line.push(char::from_digit(digit, 10).unwrap_or('0'));
    }
    line.push('Z');
}

/// The tenths of a millisecond, rounded. It uses only 64-bit integers: formatting a float, or five
/// 128-bit operations, would cost more than the rest of a line.
fn tenths(time: Duration) -> u64 {
    time.as_secs() * 10_000 + u64::from(time.subsec_micros() + 50) / 100
}

/// A time in milliseconds, with one decimal.
pub struct Milliseconds(pub Duration);

impl Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = tenths(self.0);
        write!(f, "{}.{}", tenths / 10, tenths % 10)
    }
}

/// A JSON object that's being written to a line.
pub struct Object(String);

impl Object {
    /// An object without members, with capacity for most lines.
    pub fn empty() -> Self {
        let mut line = String::with_capacity(USUAL_LINE);
        line.push('{');
        Self(line)
    }

    /// Adds a member with a string.
    pub fn text(&mut self, name: &str, value: &str) {
        self.raw(name, JsonString(value));
    }

    /// Adds a member whose value is already JSON. Names are ours and need no escapes.
    pub fn raw(&mut self, name: impl Display, value: impl Display) {
        let comma = if self.0.len() > 1 { "," } else { "" };
        let _ = write!(self.0, "{comma}\"{name}\":{value}");
    }

    /// The line, without a line end.
    pub fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word(text: &str) -> String {
        let mut line = Line(String::new());
        line.word(text);
        line.finish()
    }

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
            assert_eq!(word(text), expected);
        }
    }

    #[test]
    fn lines_are_what_formatting_makes_of_the_same() {
        for time in ["1970-01-01T00:00:00.000Z", "2026-11-25T14:05:26.007Z", "2026-11-25T14:05:26.980Z"] {
            let since_1970 = time.parse::<jiff::Timestamp>().unwrap().as_duration().unsigned_abs();
            let mut line = String::new();
            push_time(since_1970, &mut line);
            assert_eq!(line, time);
        }
        for micros in [0, 49, 50, 149, 999_949, 999_950, 61_234_567] {
            let mut line = Line(String::new());
            line.milliseconds(Duration::from_micros(micros));
            assert_eq!(line.finish(), Milliseconds(Duration::from_micros(micros)).to_string());
        }
        for address in ["127.0.0.1", "255.0.10.1", "::1", "2001:db8::ff"] {
            let mut line = Line(String::new());
            line.address(address.parse().unwrap());
            assert_eq!(line.finish(), address);
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
            let mut object = Object::empty();
            object.text("a", &text);
            object.raw("b", 1);
            let line = object.finish();
            prop_assert!(!line.contains(is_hidden), "{:?}", line);
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(read, serde_json::json!({ "a": text, "b": 1 }));
        }
    }
}
