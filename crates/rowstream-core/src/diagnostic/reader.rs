//! Reads TOML with the places of all values. It returns typed values by key, and reports wrong
//! types and unknown keys at their places.
//!
//! We don't derive a deserializer, because that would stop at the first error and forget the
//! places.

use std::cell::Cell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::variables::{ExpansionError, Origins, Template, expand};
use super::{File, Variables, shown, suggest};

/// A table whose keys are taken one by one.
pub struct Table<'a> {
    file: File<'a>,
    base: usize,
    offset: usize,
    /// Its name in messages: `[source.shop]`, or "this file".
    name: String,
    entries: DeTable<'a>,
    known: Vec<&'static str>,
}

/// A value with its place.
pub struct Value<'a> {
    file: File<'a>,
    base: usize,
    span: Range<usize>,
    key: String,
    raw: DeValue<'a>,
    /// True if [`Value::string`] has replaced a variable. Messages never show this text.
    secret: Cell<bool>,
}

impl<'a> Table<'a> {
    /// Parses the part `range` of a file. If it isn't TOML, records all syntax errors and returns
    /// `None`, because further errors would only follow from those.
    pub fn parse(file: File<'a>, range: Range<usize>, hint: Option<&str>) -> Option<Self> {
        let base = range.start;
        let (table, errors) = DeTable::parse_recoverable(&file.text[range]);
        for error in &errors {
            let offset = base + error.span().map_or(0, |span| span.start);
            let hint = match error.message() {
                "duplicate key" => Some("remove one of the two"),
                _ => hint,
            };
            file.error(offset, error.message(), hint.map(str::to_owned));
        }
        let name = "this file".to_owned();
        let (offset, entries) = (base, table.into_inner());
        errors.is_empty().then_some(Self { file, base, offset, name, entries, known: Vec::new() })
    }

    /// Takes the value of a key, which becomes a known one.
    pub fn take(&mut self, key: &'static str) -> Option<Value<'a>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.entries.remove(key).map(|value| self.value(key, value))
    }

    /// Takes the value of a required key. If it's missing, the error is at the table's place.
    pub fn require(&mut self, key: &'static str, hint: &str) -> Option<Value<'a>> {
        let value = self.take(key);
        if value.is_none() {
            let message = format!("`{key}` is missing in {}", self.name);
            self.file.error(self.offset, message, Some(hint.to_owned()));
        }
        value
    }

    /// Takes a key that has no meaning here, and records an error if it's present.
    pub fn refuse(&mut self, key: &str, message: &str, hint: &str) {
        if let Some(value) = self.entries.remove(key) {
            self.value(key, value).error_with(format!("`{key}` {message}"), hint);
        }
    }

    fn value(&self, key: &str, value: Spanned<DeValue<'a>>) -> Value<'a> {
        Value {
            file: self.file,
            base: self.base,
            span: value.span(),
            key: key.to_owned(),
            raw: value.into_inner(),
            secret: Cell::new(false),
        }
    }

    /// All keys with their offsets and values, for a table whose keys are names: `[source.NAME]`.
    pub fn entries(mut self) -> Vec<(usize, String, Value<'a>)> {
        let entries = std::mem::take(&mut self.entries);
        let place = |key: &Spanned<_>| self.base + key.span().start;
        entries
            .into_iter()
            .map(|(key, value)| (place(&key), key.get_ref().to_string(), self.value(key.get_ref(), value)))
            .collect()
    }

    /// Ends the reading, and reports each key that wasn't taken.
    pub fn finish(self) {
        for key in self.entries.keys() {
            let message = format!("unknown key {} in {}", shown(key.get_ref()), self.name);
            let hint = suggest("the keys here are", key.get_ref(), self.known.iter().copied());
            self.file.error(self.base + key.span().start, message, Some(hint));
        }
    }
}

impl<'a> Value<'a> {
    /// The place of the value in its file, in bytes.
    pub fn offset(&self) -> usize {
        self.base + self.span.start
    }

    /// The text of the value in the file.
    pub fn source_text(&self) -> &'a str {
        &self.file.text[self.base + self.span.start..self.base + self.span.end]
    }

    /// Records an error at the value's place.
    pub fn error(&self, message: impl Into<String>) {
        self.file.error(self.offset(), message, None);
    }

    /// Records an error at the value's place, with a hint.
    pub fn error_with(&self, message: impl Into<String>, hint: impl Into<String>) {
        self.file.error(self.offset(), message, Some(hint.into()));
    }

    /// Records an error at a place within the value, from [`Value::find`].
    pub fn error_at(&self, offset: usize, message: impl Into<String>, hint: String) {
        self.file.error(offset, message, Some(hint));
    }

    /// Formats a part of this value for messages; "the value" if it contains a variable.
    pub fn shown(&self, text: &str) -> String {
        if self.secret.get() { "the value".to_owned() } else { shown(text) }
    }

    fn wrong_type<T>(&self, expected: &str) -> Option<T> {
        self.error(self.is_not(expected));
        None
    }

    fn is_not(&self, expected: &str) -> String {
        format!("{} must be {expected}, not {}", shown(&self.key), type_name(&self.raw))
    }

    /// Reads a string like [`Value::string`]. If it's an integer, `example` turns its digits into
    /// the error's hint.
    pub fn string_or_number(&self, example: impl FnOnce(&str) -> String) -> Option<String> {
        let Some(digits) = self.integer_text() else { return self.string() };
        self.error_with(self.is_not("a string"), example(&digits));
        None
    }

    /// Reads a string. `${NAME}` in it is replaced if the file allows that.
    pub fn string(&self) -> Option<String> {
        let DeValue::String(text) = &self.raw else { return self.wrong_type("a string") };
        match self.file.variables {
            Variables::Keep => Some(text.to_string()),
            Variables::Expand(environment) => {
                let origins = Origins::of(self.file.path, environment);
                let expanded = expand(text, &origins);
                self.file.errors.note_files(origins.into_files());
                match expanded {
                    Ok(expanded) => {
                        self.secret.set(expanded != **text);
                        Some(expanded)
                    }
                    Err(ExpansionError { message, hint }) => {
                        self.error_with(message, hint);
                        None
                    }
                }
            }
        }
    }

    /// A string that mentions files, which can be read again; `None` if it mentions none.
    pub fn template(&self) -> Option<Template> {
        match (&self.raw, self.file.variables) {
            (DeValue::String(text), Variables::Expand(environment)) => {
                Template::of(text, self.file.path, environment)
            }
            _ => None,
        }
    }

    /// An existing file, relative to `folder`. A reload reads it again.
    pub fn file(&self, folder: &Path) -> Option<PathBuf> {
        let name = self.string()?;
        let path = folder.join(&name);
        if !path.is_file() {
            self.error(format!("there is no file {}", self.shown(&name)));
        }
        self.file.errors.note_files([path.clone()]);
        Some(path)
    }

    /// An environment variable, if the file can have variables.
    pub fn variable(&self, name: &str) -> Option<String> {
        match self.file.variables {
            Variables::Keep => None,
            Variables::Expand(environment) => environment(name),
        }
    }

    /// `true` or `false`.
    pub fn boolean(&self) -> Option<bool> {
        self.raw.as_bool().or_else(|| self.wrong_type("`true` or `false`"))
    }

    /// A whole number of at least `least`.
    pub fn count(&self, least: usize) -> Option<usize> {
        let Some(integer) = self.integer_text() else { return self.wrong_type("an integer") };
        let count = integer.parse().ok().filter(|&count| count >= least);
        if count.is_none() {
            self.error(format!("{} must be an integer of at least {least}", shown(&self.key)));
        }
        count
    }

    /// The decimal digits of an integer.
    fn integer_text(&self) -> Option<String> {
        let integer = self.raw.as_integer()?;
        match i128::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(value) => Some(value.to_string()),
            Err(_) => Some(integer.as_str().to_owned()),
        }
    }

    /// The text of a string, number, boolean or date, as in a request; `None` for lists and tables.
    pub fn scalar_text(&self) -> Option<String> {
        match &self.raw {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(_) => self.integer_text(),
            DeValue::Float(float) => Some(float.as_str().to_owned()),
            DeValue::Boolean(boolean) => Some(boolean.to_string()),
            DeValue::Datetime(datetime) => Some(datetime.to_string()),
            DeValue::Array(_) | DeValue::Table(_) => None,
        }
    }

    /// A positive time span, for example `"1h30m"`.
    pub fn duration(&self) -> Option<Duration> {
        let text = self.string_or_number(|digits| format!("write its unit, too: \"{digits}s\""))?;
        let duration = parse_duration(&text).filter(|duration| !duration.is_zero());
        if duration.is_none() {
            let message = format!("{} of {} is not a positive duration", self.shown(&text), shown(&self.key));
            self.error_with(message, "write a number with its unit, such as \"10m\", \"5s\" or \"1h30m\", or as in ISO 8601: \"PT5S\"");
        }
        duration
    }

    /// A positive number of bytes: an integer, or a string like `"64KiB"`.
    pub fn size(&self) -> Option<usize> {
        if self.raw.is_integer() {
            return self.count(1);
        }
        if !self.raw.is_str() {
            return self.wrong_type("a size such as \"64KiB\"");
        }
        let text = self.string()?;
        let size = parse_size(&text).filter(|&size| size > 0);
        if size.is_none() {
            let message = format!("{} of {} is not a size", self.shown(&text), shown(&self.key));
            self.error_with(message, "write bytes, or a number with KB, MB, GB, KiB, MiB or GiB");
        }
        size
    }

    /// A list.
    pub fn list(&self) -> Option<Vec<Value<'a>>> {
        let Some(array) = self.raw.as_array() else { return self.wrong_type("a list") };
        Some(array.iter().map(|item| self.item(item)).collect())
    }

    fn item(&self, item: &Spanned<DeValue<'a>>) -> Value<'a> {
        Value {
            file: self.file,
            base: self.base,
            span: item.span(),
            key: self.key.clone(),
            raw: item.get_ref().clone(),
            secret: Cell::new(false),
        }
    }

    /// A list of strings, each with its place. Other values are reported and left out.
    pub fn strings(&self) -> Option<Vec<(String, Value<'a>)>> {
        let items = self.list()?;
        Some(items.into_iter().filter_map(|item| item.string().map(|text| (text, item))).collect())
    }

    /// Returns true if the value is `true` or `false`.
    pub fn is_boolean(&self) -> bool {
        self.raw.as_bool().is_some()
    }

    /// Returns true if the value is a string.
    pub fn is_string(&self) -> bool {
        self.raw.is_str()
    }

    /// Returns true if the value is a list.
    pub fn is_list(&self) -> bool {
        self.raw.is_array()
    }

    /// Returns true if the value is a table.
    pub fn is_table(&self) -> bool {
        self.raw.is_table()
    }

    /// A table, with its `name` for messages.
    pub fn table(&self, name: impl Into<String>) -> Option<Table<'a>> {
        let Some(table) = self.raw.as_table() else { return self.wrong_type("a table") };
        Some(Table {
            file: self.file,
            base: self.base,
            offset: self.offset(),
            name: name.into(),
            entries: table.clone(),
            known: Vec::new(),
        })
    }

    /// A table, as in [`Value::table`]. For other values the error has this hint.
    pub fn table_like(&self, name: impl Into<String>, hint: &str) -> Option<Table<'a>> {
        if self.is_table() {
            return self.table(name);
        }
        self.error_with(self.is_not("a table"), hint);
        None
    }

    /// The value as JSON, with dates as strings. Infinities, NaN and integers beyond 64 bits are
    /// errors.
    pub fn json(&self) -> Option<serde_json::Value> {
        match to_json(&self.raw) {
            Ok(json) => Some(json),
            Err(number) => {
                self.error(format!(
                    "{} of {} cannot be written as a JSON number",
                    shown(&number),
                    shown(&self.key)
                ));
                None
            }
        }
    }

    /// The place of the first `wanted` string within the value, or else the value's own.
    pub fn find(&self, wanted: impl Fn(&str) -> bool) -> usize {
        find(&self.raw, &self.span, &wanted).map_or(self.offset(), |start| self.base + start)
    }
}

/// The type of a TOML value, for messages.
fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// # Errors
/// The text of a number that JSON can't represent.
fn to_json(value: &DeValue<'_>) -> Result<serde_json::Value, String> {
    use serde_json::Value as Json;
    Ok(match value {
        DeValue::String(text) => Json::String(text.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_err(|_| integer.as_str().to_owned())?
            .into(),
        DeValue::Float(float) => Json::Number(
            (float.as_str().parse().ok())
                .and_then(serde_json::Number::from_f64)
                .ok_or_else(|| float.as_str().to_owned())?,
        ),
        DeValue::Boolean(boolean) => Json::Bool(*boolean),
        DeValue::Datetime(datetime) => Json::String(datetime.to_string()),
        DeValue::Array(items) => {
            Json::Array(items.iter().map(|item| to_json(item.get_ref())).collect::<Result<_, _>>()?)
        }
        DeValue::Table(entries) => Json::Object(
            entries
                .iter()
                .map(|(key, value)| Ok((key.get_ref().to_string(), to_json(value.get_ref())?)))
                .collect::<Result<_, String>>()?,
        ),
    })
}

fn find(value: &DeValue<'_>, span: &Range<usize>, wanted: &dyn Fn(&str) -> bool) -> Option<usize> {
    let within = |value: &Spanned<DeValue<'_>>| find(value.get_ref(), &value.span(), wanted);
    match value {
        DeValue::String(text) => wanted(text).then_some(span.start),
        DeValue::Array(items) => items.iter().find_map(within),
        DeValue::Table(entries) => entries.iter().find_map(|(_, value)| within(value)),
        _ => None,
    }
}

/// Changes a setting if the file contains it.
pub fn set<T>(setting: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *setting = value;
    }
}

/// A time span in jiff's friendly format or in ISO 8601. A day has 24 hours, and a week seven days.
/// `None` if it's invalid or negative.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let span = SpanParser::new()
        .parse_span(text)
        .or_else(|_| jiff::fmt::temporal::SpanParser::new().parse_span(text))
        .ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    duration.try_into().ok()
}

/// `64KiB`, `16 MB`, `4096`: a whole number of bytes. `None` if it's invalid, or exceeds the
/// address space.
pub fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: usize = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Collector;
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("10m", Some(600.0)),
            ("5s", Some(5.0)),
            ("1h30m", Some(5400.0)),
            ("250ms", Some(0.25)),
            ("7d", Some(604_800.0)),
            ("1 hour, 5 minutes", Some(3900.0)),
            ("PT5S", Some(5.0)),
            ("PT1H30M", Some(5400.0)),
            ("-PT5S", None),
            ("P1M", None),
            ("-5s", None),
            ("5s ago", None),
            ("5", None),
            ("", None),
            ("1 month", None),
        ] {
            assert_eq!(parse_duration(text).map(|duration| duration.as_secs_f64()), seconds, "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("64KiB", Some(65_536)),
            ("16MB", Some(16_000_000)),
            ("1 gib", Some(1 << 30)),
            ("4096", Some(4096)),
            ("12b", Some(12)),
            ("1.5MB", None),
            ("-1", None),
            ("MB", None),
            ("5 parsecs", None),
            ("99999999999999GiB", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }

    /// The errors from reading `text` with `read`.
    fn errors(text: &str, read: impl Fn(&mut Table<'_>)) -> String {
        let errors = Collector::default();
        let environment = |name: &str| (name == "SECRET").then(|| "hunter2".to_owned());
        let file =
            File { path: Path::new("f"), text, variables: Variables::Expand(&environment), errors: &errors };
        if let Some(mut table) = Table::parse(file, 0..text.len(), None) {
            read(&mut table);
            table.finish();
        }
        errors.finish(()).map_or_else(|errors| errors.to_string(), |()| String::new())
    }

    #[test]
    fn wrong_types_have_their_place() {
        for (text, expected) in [
            ("k = 1", "f:1:5: `k` must be a string, not an integer"),
            ("\n  k = [1]", "f:2:7: `k` must be a string, not a list"),
            (
                "k = \"${NO}\"",
                "f:1:5: the environment variable `NO` is not set\n    hint: set it, or give a default: `${NO:-…}`",
            ),
            ("kk = \"x\"", "f:1:1: unknown key `kk` in this file\n    hint: did you mean `k`?"),
            (
                "k = \"x\"\n[table.name]\nx = 1",
                "f:2:2: unknown key `table` in this file\n    hint: the keys here are `k`",
            ),
        ] {
            let read = |table: &mut Table<'_>| {
                table.take("k").and_then(|value| value.string());
            };
            assert_eq!(errors(text, read), expected, "{text}");
        }
    }

    /// `write_timeout = 60` "must be a string" and `timeout = "10s"` "must be a table" once didn't
    /// suggest the right value.
    #[test]
    fn wrong_types_have_hints() {
        for (text, expected) in [
            ("d = 60", "f:1:5: `d` must be a string, not an integer\n    hint: write its unit, too: \"60s\""),
            ("d = true", "f:1:5: `d` must be a string, not a boolean"),
            ("t = \"10s\"", "f:1:5: `t` must be a table, not a string\n    hint: write more"),
            ("d = \"1s\"\nd = \"2s\"", "f:2:1: duplicate key\n    hint: remove one of the two"),
        ] {
            let report = errors(text, |table| {
                table.take("d").and_then(|value| value.duration());
                table.take("t").and_then(|value| value.table_like("t", "write more"));
            });
            assert_eq!(report, expected, "{text}");
        }
    }

    #[test]
    fn every_syntax_error_is_told() {
        let report = errors("a = \nb = 1\nc = 'x\nd = ]\n", |_| ());
        assert_eq!(report.lines().filter(|line| line.starts_with("f:")).count(), 3, "{report}");
    }

    #[test]
    fn values_of_the_environment_are_never_shown() {
        for text in ["k = \"${SECRET}\"", "k = \"1${SECRET}s\""] {
            let report = errors(text, |table| {
                table.take("k").and_then(|value| value.duration());
            });
            assert!(report.contains("the value of `k` is not a positive duration"), "{report}");
            assert!(!report.contains("hunter2"), "{report}");
        }
    }

    #[test]
    fn json_of_toml() {
        let text = "k = { a = 1, b = [true, 1.5, \"x\"], c = 2024-01-02, d = { e = 0x10 } }";
        let report = errors(text, |table| {
            let json = table.take("k").unwrap().json().unwrap();
            assert_eq!(json.to_string(), r#"{"a":1,"b":[true,1.5,"x"],"c":"2024-01-02","d":{"e":16}}"#);
        });
        assert_eq!(report, "");
        let report = errors("k = [nan]", |table| assert!(table.take("k").unwrap().json().is_none()));
        assert_eq!(report, "f:1:5: `nan` of `k` cannot be written as a JSON number");
    }
}
