//! Proves that all targets respond with the same data: the same number of rows, and the same keys
//! and values in the same order.
//!
//! The reference is PostgreSQL's own JSON for the same statement. Notations can differ (`12.50` and
//! `12.5`, an offset and `Z`, the order of keys), so we compare values in a notation of ours.

use std::fmt::Write as _;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use jiff::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::Result;

/// The contents of a response, in a short form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest {
    rows: u64,
    hash: u64,
    first: String,
    last: String,
}

impl Digest {
    /// From one JSON value per line.
    pub(crate) fn of_lines(file: &Path) -> Result<Self> {
        let mut rows = Rows::default();
        for line in BufReader::new(open(file)?).lines() {
            let line = line.map_err(|error| format!("cannot read an answer: {error}"))?;
            let row: Value =
                serde_json::from_str(&line).map_err(|error| format!("a line is no JSON: {error}"))?;
            rows.add(&row);
        }
        Ok(rows.finish())
    }

    /// From lines in any order, which are sorted by their first numbers.
    pub(crate) fn of_lines_in_any_order(file: &Path) -> Result<Self> {
        let mut lines = BufReader::new(open(file)?)
            .lines()
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(|error| format!("cannot read an answer: {error}"))?;
        lines.sort_by_cached_key(|line| first_number(line));
        let mut rows = Rows::default();
        for line in &lines {
            rows.add(&serde_json::from_str(line).map_err(|error| format!("a line is no JSON: {error}"))?);
        }
        Ok(rows.finish())
    }

    /// From an array of rows, or an object whose only member is such an array.
    pub(crate) fn of_json(file: &Path) -> Result<Self> {
        let mut rows = Rows::default();
        let mut answer =
            serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 20, open(file)?));
        let read = Envelope(&mut rows).deserialize(&mut answer).and_then(|()| answer.end());
        read.map_err(|error| format!("the answer is no JSON: {error}"))?;
        Ok(rows.finish())
    }

    /// From a response with one row.
    pub(crate) fn of_row(file: &Path) -> Result<Self> {
        let mut text = String::new();
        open(file)?.read_to_string(&mut text).map_err(|error| format!("cannot read an answer: {error}"))?;
        let mut rows = Rows::default();
        let row = serde_json::from_str(&text).map_err(|error| format!("the answer is no JSON: {error}"))?;
        rows.add(&row);
        Ok(rows.finish())
    }

    /// Succeeds if the responses have the same contents. The error shows a difference.
    pub(crate) fn agrees_with(&self, expected: &Self) -> Result<()> {
        if self == expected {
            return Ok(());
        }
        let (what, ours, theirs) = if self.rows != expected.rows {
            ("rows", self.rows.to_string(), expected.rows.to_string())
        } else if self.first != expected.first {
            ("first row", self.first.clone(), expected.first.clone())
        } else if self.last != expected.last {
            ("last row", self.last.clone(), expected.last.clone())
        } else {
            ("hash of all rows", self.hash.to_string(), expected.hash.to_string())
        };
        Err(format!("its data are not the database's: {what} {ours} instead of {theirs}"))
    }
}

fn first_number(line: &str) -> Option<u64> {
    let digits = line.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

fn open(file: &Path) -> Result<File> {
    File::open(file).map_err(|error| format!("cannot read an answer: {error}"))
}

/// The rows so far.
#[derive(Default)]
struct Rows {
    count: u64,
    hasher: DefaultHasher,
    first: Option<String>,
    text: String,
}

impl Rows {
    fn add(&mut self, row: &Value) {
        self.text.clear();
        normalise(row, &mut self.text);
        self.hasher.write(self.text.as_bytes());
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(self.text.clone());
        }
    }

    fn finish(self) -> Digest {
        Digest {
            rows: self.count,
            hash: self.hasher.finish(),
            first: self.first.unwrap_or_default(),
            last: self.text,
        }
    }
}

/// Writes a value in our notation: sorted keys, times as microseconds, and whole numbers without a
/// fraction.
fn normalise(value: &Value, to: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            for (name, member) in members {
                let _ = write!(to, "{name:?}:");
                normalise(member, to);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| normalise(item, to)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => drop(write!(to, "{whole};")),
            (None, Some(number)) => drop(write!(to, "{number};")),
            (None, None) => drop(write!(to, "{number};")),
        },
        Value::String(text) => match microseconds(text) {
            Some(time) => drop(write!(to, "{time}us;")),
            None => drop(write!(to, "{text:?};")),
        },
        Value::Bool(_) | Value::Null => drop(write!(to, "{value};")),
    }
}

/// The instant of a text with a date, a time and an offset.
fn microseconds(text: &str) -> Option<i64> {
    let is_time = text.len() >= 20 && text.as_bytes()[10] == b'T';
    Some(text.parse::<Timestamp>().ok().filter(|_| is_time)?.as_microsecond())
}

/// Reads rows one by one, because all of them as values would need gigabytes.
struct Envelope<'a>(&'a mut Rows);

impl<'de> DeserializeSeed<'de> for Envelope<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Envelope<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<(), A::Error> {
        while let Some(row) = items.next_element::<Value>()? {
            self.0.add(&row);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<(), A::Error> {
        if members.next_key::<String>()?.as_deref() != Some("events") {
            return Err(A::Error::custom("the member `events` is missing"));
        }
        members.next_value_seed(self)?;
        match members.next_key::<String>()? {
            None => Ok(()),
            Some(name) => Err(A::Error::custom(format!("there is a member `{name}`"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(name: &str, text: &str, read: fn(&Path) -> Result<Digest>) -> Result<Digest> {
        let file = std::env::temp_dir().join(format!("compare-proof-{name}-{}", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let digest = read(&file);
        std::fs::remove_file(&file).unwrap();
        digest
    }

    const LINES: &str =
        "{\"no\":1,\"at\":\"2024-01-01T00:00:31.5Z\",\"sum\":12.50,\"why\":null}\n{\"no\":2}\n";

    #[test]
    fn notations_do_not_matter() {
        let lines = digest("lines", LINES, Digest::of_lines).unwrap();
        let array = r#"[{"sum":12.5,"why":null,"no":1,"at":"2024-01-01T01:00:31.500000+01:00"},{"no":2.0}]"#;
        let array = digest("array", array, Digest::of_json).unwrap();
        let object =
            r#"{"events":[{"no":1,"at":"2024-01-01T00:00:31.500Z","sum":1.25e1,"why":null},{"no":2}]}"#;
        let object = digest("object", object, Digest::of_json).unwrap();
        assert_eq!(lines.rows, 2);
        array.agrees_with(&lines).unwrap();
        object.agrees_with(&lines).unwrap();
    }

    #[test]
    fn lines_in_any_order_are_in_that_of_their_numbers() {
        let lines = digest("ordered", "{\"no\":2}\n{\"no\":10}\n", Digest::of_lines).unwrap();
        let shuffled = "{\"no\":10}\n{\"no\":2}\n";
        digest("shuffled", shuffled, Digest::of_lines_in_any_order).unwrap().agrees_with(&lines).unwrap();
        let twice = "{\"no\":10}\n{\"no\":10}\n";
        let twice = digest("twice", twice, Digest::of_lines_in_any_order).unwrap();
        assert!(twice.agrees_with(&lines).is_err());
    }

    #[test]
    fn differences_are_found() {
        let lines = digest("good", LINES, Digest::of_lines).unwrap();
        let others = [
            (r#"[{"no":2}]"#, "rows 1 instead of 2"),
            (r#"[{"no":1,"at":"2024-01-01T00:00:31.5Z","sum":12.51,"why":null},{"no":2}]"#, "first row"),
            (r#"[{"no":1,"at":"2024-01-01T00:00:31.5Z","sum":12.5},{"no":2}]"#, "first row"),
            (r#"[{"no":1,"at":"2024-01-01T00:00:31.5Z","sum":12.5,"why":null},{"no":"2"}]"#, "last row"),
        ];
        for (number, (text, word)) in others.into_iter().enumerate() {
            let other = digest(&format!("bad-{number}"), text, Digest::of_json).unwrap();
            let error = other.agrees_with(&lines).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_cut_answer_is_no_answer() {
        assert!(digest("cut", r#"{"events":[{"no":1}"#, Digest::of_json).is_err());
        assert!(digest("more", r#"{"events":[],"error":"x"}"#, Digest::of_json).is_err());
        assert!(digest("other", r#"{"rows":[]}"#, Digest::of_json).is_err());
    }
}
