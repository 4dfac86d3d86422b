//! Options for values: for readers whose numbers are floats, or that need bytes in another form.
//!
//! By default values are those of PostgreSQL's `to_jsonb`. An option that doesn't apply changes
//! nothing: in CSV every value is text anyway, and all columns are present.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::append::Slot;
use crate::datetime::LastHour;
use crate::{Format, Value, float, json};

/// The forms of values that can be written in several ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueOptions {
    /// 64-bit integers and decimals.
    pub numbers: Numbers,
    /// Bytes.
    pub bytes: BytesForm,
    /// Intervals.
    pub intervals: Intervals,
    /// Members of an object that are NULL.
    pub nulls: Nulls,
}

impl ValueOptions {
    /// The values of `to_jsonb`.
    pub const DEFAULT: Self = Self {
        numbers: Numbers::Number,
        bytes: BytesForm::Hex,
        intervals: Intervals::Text,
        nulls: Nulls::Null,
    };

    /// Only the options that change anything in a format.
    pub fn in_format(self, format: Format) -> Self {
        match format {
            Format::Json | Format::Ndjson | Format::Sse | Format::JsonSeq => self,
            Format::Csv | Format::Html => Self { numbers: Numbers::Number, nulls: Nulls::Null, ..self },
            // Arrow's columns have types.
            Format::Arrow => Self::DEFAULT,
        }
    }

    /// The options that aren't the default, each as `option=choice`.
    pub fn changes(self) -> impl Iterator<Item = &'static str> {
        let changes = [
            (self.numbers == Numbers::String).then_some("numbers=string"),
            (self.bytes == BytesForm::Base64).then_some("bytes=base64"),
            (self.intervals == Intervals::Iso).then_some("intervals=iso"),
            (self.nulls == Nulls::Omit).then_some("nulls=omit"),
        ];
        changes.into_iter().flatten()
    }

    /// Appends `value` as one JSON value.
    pub fn write(self, value: Value<'_>, out: &mut Vec<u8>) {
        let mut scratch = String::new();
        let value = self.apply(value, &mut scratch);
        json::write_next_value(value, &mut LastHour::default(), Slot::new(out));
    }

    /// The value to write instead of `value`. `scratch` holds its text.
    #[inline]
    pub(crate) fn apply<'a>(self, value: Value<'a>, scratch: &'a mut String) -> Value<'a> {
        match (value, self.numbers, self.bytes) {
            (Value::Int(int), Numbers::String, _) => {
                scratch.clear();
                scratch.push_str(itoa::Buffer::new().format(int));
                Value::Text(scratch)
            }
            (Value::Number(text), Numbers::String, _) => Value::Text(text),
            (Value::Real(float), Numbers::String, _) => {
                put_float(float, scratch);
                Value::Text(scratch)
            }
            (Value::Bytes(bytes), _, BytesForm::Base64) => {
                put_base64(bytes, scratch);
                Value::Text(scratch)
            }
            (value, ..) => value,
        }
    }
}

impl Default for ValueOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Replaces `text` by the digits of a float, in the same memory.
fn put_float(number: f64, text: &mut String) {
    let mut bytes = std::mem::take(text).into_bytes();
    bytes.clear();
    float::write_f64(number, &mut bytes);
    *text = String::from_utf8(bytes).expect("digits are ASCII");
}

/// Replaces `text` by bytes as base64 (RFC 4648, section 4).
pub(crate) fn put_base64(bytes: &[u8], text: &mut String) {
    text.clear();
    STANDARD.encode_string(bytes, text);
}

/// A choice by name, as configuration, requests and the command line contain it.
pub trait Choice: Copy + 'static {
    /// All choices, the default first.
    const ALL: &'static [Self];

    /// The name.
    fn name(self) -> &'static str;

    /// The choice with a name.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|choice| choice.name() == name)
    }
}

/// The form of 64-bit integers and decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// JSON numbers, exactly.
    Number,
    /// Strings, because JavaScript's numbers are floats, which are exact only up to 2^53.
    String,
}

impl Choice for Numbers {
    const ALL: &'static [Self] = &[Self::Number, Self::String];

    fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::String => "string",
        }
    }
}

/// The form of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BytesForm {
    /// PostgreSQL's hexadecimal digits (`\x6869`).
    Hex,
    /// Base64 with padding (RFC 4648, section 4).
    Base64,
}

impl Choice for BytesForm {
    const ALL: &'static [Self] = &[Self::Hex, Self::Base64];

    fn name(self) -> &'static str {
        match self {
            Self::Hex => "hex",
            Self::Base64 => "base64",
        }
    }
}

/// The form of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intervals {
    /// PostgreSQL's text (`1 year 2 days 03:04:05`).
    Text,
    /// ISO 8601 durations (`P1Y2DT3H4M5S`).
    Iso,
}

impl Choice for Intervals {
    const ALL: &'static [Self] = &[Self::Text, Self::Iso];

    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Iso => "iso",
        }
    }
}

/// The form of an object's member that is NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    /// `null`.
    Null,
    /// Omit the member.
    Omit,
}

impl Choice for Nulls {
    const ALL: &'static [Self] = &[Self::Null, Self::Omit];

    fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Omit => "omit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: ValueOptions = ValueOptions {
        numbers: Numbers::String,
        bytes: BytesForm::Base64,
        intervals: Intervals::Iso,
        nulls: Nulls::Omit,
    };

    #[test]
    fn each_value() {
        for (value, expected) in [
            (Value::Int(0), r#""0""#),
            (Value::Int(i64::MIN), r#""-9223372036854775808""#),
            (Value::Int4(-7), "-7"),
            (Value::Number("-12.50"), r#""-12.50""#),
            (
                Value::Number("1234567890123456789012345678901234567890.1"),
                r#""1234567890123456789012345678901234567890.1""#,
            ),
            (Value::Float(1.5), "1.5"),
            (Value::Real(-12.5), r#""-12.5""#),
            (Value::Real(1e20), r#""1e+20""#),
            (Value::Real(f64::INFINITY), r#""Infinity""#),
            (Value::Float4(0.1), "0.1"),
            (Value::Text("1"), r#""1""#),
            (Value::Json("[1]"), "[1]"),
            (Value::Null, "null"),
            // Examples from RFC 4648, section 10.
            (Value::Bytes(b""), r#""""#),
            (Value::Bytes(b"f"), r#""Zg==""#),
            (Value::Bytes(b"fo"), r#""Zm8=""#),
            (Value::Bytes(b"foo"), r#""Zm9v""#),
            (Value::Bytes(b"\xfb\xff"), r#""+/8=""#),
        ] {
            let mut out = Vec::new();
            ALL.write(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{value:?}");
        }
    }

    #[test]
    fn what_changes_depends_on_the_format() {
        for (format, expected) in [
            (Format::Json, "numbers=string bytes=base64 intervals=iso nulls=omit"),
            (Format::Ndjson, "numbers=string bytes=base64 intervals=iso nulls=omit"),
            (Format::JsonSeq, "numbers=string bytes=base64 intervals=iso nulls=omit"),
            (Format::Csv, "bytes=base64 intervals=iso"),
            (Format::Html, "bytes=base64 intervals=iso"),
            (Format::Arrow, ""),
        ] {
            assert_eq!(ALL.in_format(format).changes().collect::<Vec<_>>().join(" "), expected);
            assert_eq!(ValueOptions::default().in_format(format).changes().next(), None);
        }
    }

    #[test]
    fn choices_have_names() {
        assert_eq!(Numbers::from_name("string"), Some(Numbers::String));
        assert_eq!(BytesForm::from_name("base64"), Some(BytesForm::Base64));
        assert_eq!(Intervals::from_name("iso"), Some(Intervals::Iso));
        assert_eq!(Nulls::from_name("omit"), Some(Nulls::Omit));
        assert_eq!(Nulls::from_name("Omit"), None);
        let defaults = ValueOptions {
            numbers: Numbers::ALL[0],
            bytes: BytesForm::ALL[0],
            intervals: Intervals::ALL[0],
            nulls: Nulls::ALL[0],
        };
        assert_eq!(defaults, ValueOptions::DEFAULT);
    }
}
