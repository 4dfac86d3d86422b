//! The columns of JSON rows: the place and the type of each.
//!
//! A [`Plan`] is made once. For each row, a [`Finder`] scans the text, which must be valid JSON,
//! and records the places of the values. Values are then written from the text. Numbers are copied
//! as text, so they aren't rounded.

use std::sync::Arc;

use rowstream_core::datetime;
use rowstream_encode::{Column, ColumnKind, RowWriter, Value, is_json_number};

use crate::pointer::Pointer;
use crate::pointer::tree::{Finder, Tree};

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// A 64-bit integer: a number without point and exponent, or a string of one.
    Integer,
    /// A 64-bit float: a number, or one of the strings `NaN`, `Infinity` and `-Infinity`.
    Float,
    /// An exact decimal: a number, or a string of one.
    Decimal,
    /// An exact decimal with its number of digits, and the number of them after the point.
    DecimalOf(u8, u8),
    /// A string.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A string `YYYY-MM-DD`.
    Date,
    /// A string in RFC 3339, or one with a blank instead of the `T` and without a zone, which means
    /// UTC. It's exact to the microsecond.
    Timestamp,
    /// A string with a UUID.
    Uuid,
    /// Any JSON, unchanged.
    Json,
}

impl JsonKind {
    /// The names of the types, in the order of our lists for users.
    pub const NAMES: [&str; 9] =
        ["integer", "float", "decimal", "text", "boolean", "date", "timestamp", "uuid", "json"];

    /// The type with this name. A decimal's digits can follow it, as in SQL: `decimal(12, 2)`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "integer" => Self::Integer,
            "float" => Self::Float,
            "decimal" => Self::Decimal,
            "text" => Self::Text,
            "boolean" => Self::Boolean,
            "date" => Self::Date,
            "timestamp" => Self::Timestamp,
            "uuid" => Self::Uuid,
            "json" => Self::Json,
            _ => {
                let digits = name.strip_prefix("decimal(")?.strip_suffix(')')?;
                let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
                let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
                let is_well = (1..=ColumnKind::MAX_PRECISION).contains(&precision) && scale <= precision;
                return is_well.then_some(Self::DecimalOf(precision, scale));
            }
        })
    }

    fn name(self) -> String {
        match self {
            Self::Integer => "integer".to_owned(),
            Self::Float => "float".to_owned(),
            Self::Decimal => "decimal".to_owned(),
            Self::DecimalOf(precision, scale) => format!("decimal({precision},{scale})"),
            Self::Text => "text".to_owned(),
            Self::Boolean => "boolean".to_owned(),
            Self::Date => "date".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::Uuid => "uuid".to_owned(),
            Self::Json => "json".to_owned(),
        }
    }

    fn column_kind(self) -> ColumnKind {
        match self {
            Self::Integer => ColumnKind::Int64,
            Self::Float => ColumnKind::Float64,
            Self::DecimalOf(precision, scale) => ColumnKind::Decimal { precision, scale },
            // The number of digits isn't known.
            Self::Decimal => ColumnKind::Number,
            Self::Text => ColumnKind::Text,
            Self::Boolean => ColumnKind::Bool,
            Self::Date => ColumnKind::Date,
            Self::Timestamp => ColumnKind::TimestampTz,
            Self::Uuid => ColumnKind::Uuid,
            Self::Json => ColumnKind::Json,
        }
    }
}

/// A column from a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredColumn {
    /// The column's name.
    pub name: String,
    /// The type of its values.
    pub kind: JsonKind,
    /// Its place in a row. By default it's the member with the column's name, or the element with
    /// its index if rows are arrays.
    pub at: Option<Pointer>,
}

/// The plan for reading rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    columns: Arc<[Column]>,
    kinds: Vec<JsonKind>,
    /// The places in rows that are objects, and in rows that are arrays.
    objects: Tree,
    arrays: Tree,
}

impl Plan {
    /// A plan for rows with these columns.
    pub fn new(declared: &[DeclaredColumn]) -> Self {
        let column = |declared: &DeclaredColumn| Column {
            name: declared.name.clone(),
            type_name: declared.kind.name(),
            kind: declared.kind.column_kind(),
        };
        let at = |named: &dyn Fn(usize, &DeclaredColumn) -> String| {
            let pointers = declared.iter().enumerate().map(|(index, declared)| {
                declared.at.clone().unwrap_or_else(|| Pointer::to_member(&named(index, declared)))
            });
            Tree::new(pointers)
        };
        Self {
            columns: declared.iter().map(column).collect(),
            kinds: declared.iter().map(|declared| declared.kind).collect(),
            objects: at(&|_, declared| declared.name.clone()),
            arrays: at(&|index, _| index.to_string()),
        }
    }

    /// The columns.
    pub fn columns(&self) -> Arc<[Column]> {
        Arc::clone(&self.columns)
    }

    fn places(&self, row: &str) -> &Tree {
        if row.trim_start().starts_with('[') { &self.arrays } else { &self.objects }
    }

    /// Finds the values of a row, which must be valid JSON.
    ///
    /// # Errors
    /// It isn't an object or array, or contains a column twice.
    pub fn find(&self, row: &str, finder: &mut Finder) -> Result<(), String> {
        let places = self.places(row);
        if places.has_steps() && !row.trim_start().starts_with(['{', '[']) {
            return Err("it is neither an object nor an array".to_owned());
        }
        finder.find(places, row);
        match finder.twice(places) {
            Some(name) => Err(format!("it contains {} twice", rowstream_core::diagnostic::shown(name))),
            None => Ok(()),
        }
    }

    /// Writes a row with the values in `found`.
    ///
    /// # Errors
    /// A message about the first column whose value has the wrong type.
    pub fn encode(
        &self,
        row: &str,
        found: &Finder,
        encoder: &mut impl RowWriter,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        encoder.begin_row(out);
        let ends = self.places(row).ends();
        for ((kind, end), column) in self.kinds.iter().zip(ends).zip(&*self.columns) {
            write(*kind, found.text(*end, row).unwrap_or("null"), encoder, out)
                .map_err(|why| format!("column `{}` of {}", column.name, why))?;
        }
        encoder.end_row(out);
        Ok(())
    }
}

/// Writes a value of this type, from its JSON `text`.
///
/// # Errors
/// A message about the actual type. It doesn't contain the value, because errors are logged.
fn write(kind: JsonKind, text: &str, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), String> {
    if text == "null" {
        encoder.value(Value::Null, out);
        return Ok(());
    }
    let wrong = || format!("type {} holds {}", kind.name(), what(text));
    let unescaped;
    // The unescaped string, or the text of another value.
    let said = match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => plain,
        Some(_) if kind != JsonKind::Json => {
            let no_text = |_| format!("type {} holds a string with half a surrogate pair", kind.name());
            unescaped = serde_json::from_str::<String>(text).map_err(no_text)?;
            &unescaped
        }
        _ => text,
    };
    let is_string = text.starts_with('"');
    let value = match kind {
        JsonKind::Integer => is_integer(said).then(|| said.parse().ok()).flatten().map(Value::Int),
        JsonKind::Float => float(said, is_string).map(Value::Float),
        JsonKind::Decimal | JsonKind::DecimalOf(..) => {
            is_json_number(said.as_bytes()).then_some(Value::Number(said))
        }
        JsonKind::Text => is_string.then_some(Value::Text(said)),
        JsonKind::Boolean => match text {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        JsonKind::Date => is_string.then(|| datetime::date(said.as_bytes())).flatten().map(Value::Date),
        // Without a zone it's UTC, as in a parameter.
        JsonKind::Timestamp => is_string
            .then(|| datetime::timestamp(said.as_bytes()))
            .flatten()
            .map(|time| Value::TimestampTz(time.micros)),
        JsonKind::Uuid => is_string.then(|| uuid(said)).flatten().map(Value::Uuid),
        JsonKind::Json => Some(Value::Json(text)),
    };
    encoder.value(value.ok_or_else(wrong)?, out);
    Ok(())
}

/// The type of a JSON value, for messages.
fn what(text: &str) -> &'static str {
    match text.as_bytes().first() {
        Some(b'"') => "a string that doesn't fit",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        _ if is_integer(text) && text.parse::<i64>().is_err() => "an integer beyond 64 bits",
        _ if is_integer(text) => "an integer",
        _ => "a number that doesn't fit",
    }
}

/// Returns true if `text` is a number without a point or exponent.
fn is_integer(text: &str) -> bool {
    is_json_number(text.as_bytes()) && !text.contains(['.', 'e', 'E'])
}

fn float(text: &str, is_string: bool) -> Option<f64> {
    match (text, is_string) {
        ("NaN", true) => Some(f64::NAN),
        ("Infinity", true) => Some(f64::INFINITY),
        ("-Infinity", true) => Some(f64::NEG_INFINITY),
        (_, true) => None,
        (number, false) if is_json_number(number.as_bytes()) => {
            number.parse().ok().filter(|float: &f64| float.is_finite())
        }
        (_, false) => None,
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    const GROUPS: [usize; 4] = [8, 13, 18, 23];
    let is_well = |(at, byte): (usize, u8)| match GROUPS.contains(&at) {
        true => byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    if text.len() != 36 || !text.bytes().enumerate().all(is_well) {
        return None;
    }
    let digits = text.chars().filter_map(|c| c.to_digit(16));
    Some(digits.fold(0_u128, |number, digit| number << 4 | u128::from(digit)).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use rowstream_encode::{RowEncoder, Shape};

    use super::*;

    fn plan(columns: &[(&str, &str, Option<&str>)]) -> Plan {
        let declared = |(name, kind, at): &(&str, &str, Option<&str>)| DeclaredColumn {
            name: (*name).to_owned(),
            kind: JsonKind::from_name(kind).expect("a type"),
            at: at.map(|at| Pointer::parse(at).expect("a pointer")),
        };
        Plan::new(&columns.iter().map(declared).collect::<Vec<_>>())
    }

    fn encode(plan: &Plan, row: &str) -> Result<String, String> {
        let mut finder = Finder::default();
        plan.find(row, &mut finder)?;
        let (mut out, mut encoder) = (Vec::new(), RowEncoder::new(Shape::Lines, &plan.columns()));
        plan.encode(row, &finder, &mut encoder, &mut out)?;
        Ok(String::from_utf8(out).expect("UTF-8").trim_end().to_owned())
    }

    #[test]
    fn values_stand_anywhere() {
        let columns = plan(&[
            ("id", "integer", None),
            ("city", "text", Some("/address/city")),
            ("address", "json", None),
            ("last", "json", Some("/list/2")),
        ]);
        for (row, expected) in [
            (
                r#"{"id":1,"address":{"x":{"city":1},"city":"K"},"list":[0,{"a":[1,"]"]},"two" , 3]}"#,
                r#"{"id":1,"city":"K","address":{"x":{"city":1},"city":"K"},"last":"two"}"#,
            ),
            (
                r#" {"list":[],"x":"\"}","addre\u0073s" : [1],"\"id\"":2 , "id" :7 } "#,
                r#"{"id":7,"city":null,"address":[1],"last":null}"#,
            ),
            ("{}", r#"{"id":null,"city":null,"address":null,"last":null}"#),
            (
                r#"{"address":null,"list":{"2":true}}"#,
                r#"{"id":null,"city":null,"address":null,"last":true}"#,
            ),
            // The columns without a pointer are elements at their indices.
            (r#"[1,2,[3,[4]]]"#, r#"{"id":1,"city":null,"address":[3,[4]],"last":null}"#),
            ("[]", r#"{"id":null,"city":null,"address":null,"last":null}"#),
        ] {
            assert_eq!(encode(&columns, row).as_deref(), Ok(expected), "{row}");
        }
        for (row, why) in [
            ("7", "it is neither an object nor an array"),
            (r#"{"id":1,"id":1}"#, "it contains `id` twice"),
            (r#"{"address":{"city":"a"},"address":{}}"#, "it contains `address` twice"),
        ] {
            assert_eq!(encode(&columns, row), Err(why.to_owned()), "{row}");
        }
        let whole = plan(&[("row", "json", Some(""))]);
        for row in ["7", "[1, 2]", "{\"a\":1}", "\"x\"", "null"] {
            assert_eq!(encode(&whole, row), Ok(format!("{{\"row\":{row}}}")));
        }
    }

    #[test]
    fn values_are_what_their_type_says() {
        for (kind, value, expected) in [
            ("integer", "9223372036854775807", Some("9223372036854775807")),
            ("integer", "\"-9007199254740993\"", Some("-9007199254740993")),
            ("integer", "-0", Some("0")),
            ("integer", "1.0", None),
            ("integer", "1e2", None),
            ("integer", "\"\"", None),
            ("integer", "\"+1\"", None),
            ("float", "0.1", Some("0.1")),
            ("float", "\"NaN\"", Some("\"NaN\"")),
            ("float", "\"-Infinity\"", Some("\"-Infinity\"")),
            ("float", "\"0.1\"", None),
            ("float", "-1e400", None),
            ("decimal", "123456789012345678901234567890.10", Some("123456789012345678901234567890.10")),
            ("decimal", "\"-0.50\"", Some("-0.50")),
            ("decimal(4,2)", "1e2", Some("1e2")),
            ("decimal", "\".5\"", None),
            ("text", "\"a\\u00e4\\n\"", Some("\"aä\\n\"")),
            ("text", "\"\\ud83d\"", None),
            ("text", "1", None),
            ("boolean", "false", Some("false")),
            ("boolean", "\"true\"", None),
            ("date", "\"2024-02-29\"", Some("\"2024-02-29\"")),
            ("date", "\"2024-02-30\"", None),
            ("timestamp", "\"2024-02-29T12:00:00Z\"", Some("\"2024-02-29T12:00:00Z\"")),
            ("timestamp", "\"2024-02-29 12:00:00.123456\"", Some("\"2024-02-29T12:00:00.123456Z\"")),
            ("timestamp", "\"2024-02-29T12:00:00.1234567Z\"", None),
            ("timestamp", "1709208000", None),
            (
                "uuid",
                "\"6BA7B810-9DAD-11D1-80B4-00C04FD430C8\"",
                Some("\"6ba7b810-9dad-11d1-80b4-00c04fd430c8\""),
            ),
            ("uuid", "\"6ba7b810-9dad-11d1-80b4-00c04fd430cg\"", None),
            ("json", "{\"a\" : \"\\ud83d\"}", Some("{\"a\" : \"\\ud83d\"}")),
        ] {
            let encoded = encode(&plan(&[("v", kind, None)]), &format!("{{\"v\":{value}}}"));
            let expected = expected.map(|expected| format!("{{\"v\":{expected}}}"));
            assert_eq!(encoded.clone().ok(), expected, "{kind} {value} {encoded:?}");
            assert_eq!(encode(&plan(&[("v", kind, None)]), "{\"v\":null}").as_deref(), Ok("{\"v\":null}"));
        }
    }
}
