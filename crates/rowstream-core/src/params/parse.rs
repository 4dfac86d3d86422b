//! Converts a request's text to a typed value.

use std::borrow::Cow;
use std::cmp::Ordering;

use http::StatusCode;
use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, Span};
use percent_encoding::percent_decode_str;

use super::{INFINITY, Param, ParamPlace, ParamType, ParamValue, decimal};
use crate::Error;
use crate::datetime::split_leap_second;
use crate::diagnostic::shown;
use crate::error::INVALID_DATA;

impl Param {
    /// Converts a text, and checks its type, limits and allowed values. If the parameter is a list,
    /// the result is a list of the values between commas. A list of `text` or `json` has exactly
    /// one value, because a comma is part of it.
    ///
    /// # Errors
    /// A message for the user. It shows the text cut and escaped.
    pub fn parse(&self, text: &str) -> Result<ParamValue, String> {
        if !self.list {
            return self.parse_one(text);
        }
        let items = match self.kind {
            ParamType::Text | ParamType::Json => vec![self.parse_one(text)?],
            _ => text.split(',').map(|item| self.parse_one(item)).collect::<Result<_, _>>()?,
        };
        Ok(ParamValue::List(items))
    }

    /// Converts the text of a list's element, or of a parameter that isn't a list.
    pub fn parse_one(&self, text: &str) -> Result<ParamValue, String> {
        if self.local {
            check_local(text)?;
        }
        let value = self.kind.parse(text)?;
        if self.min.as_ref().is_some_and(|min| value.order(min) == Ordering::Less) {
            return Err(format!("{} is less than {}", shown(text), shown_bound(&self.min)));
        }
        if self.max.as_ref().is_some_and(|max| value.order(max) == Ordering::Greater) {
            return Err(format!("{} is more than {}", shown(text), shown_bound(&self.max)));
        }
        if !self.allowed.is_empty() && !self.allowed.iter().any(|allowed| value.equals(allowed)) {
            return Err(format!("{} is not one of {}", shown(text), self.shown_allowed()));
        }
        Ok(value)
    }

    /// Adds a hint to the message about a text of a query or a form, if a sign or an offset wasn't
    /// percent-encoded.
    pub(super) fn hinted(&self, text: &str, message: String) -> String {
        let is_signed = |item: &str| {
            item.strip_prefix(' ').is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
        };
        let has_offset = |item: &str| {
            item.rsplit_once(' ').is_some_and(|(before, offset)| {
                has_shape(offset, "00:00") && timestamp_offset(before) == Some("")
            })
        };
        let lost_its_plus = match self.kind {
            ParamType::Integer | ParamType::Number => text.split(',').any(is_signed),
            ParamType::Timestamp => text.split(',').any(has_offset),
            _ => false,
        };
        match lost_its_plus && self.place == ParamPlace::Query {
            true => format!("{message}; a `+` in a query or a form is a space: write `%2B`"),
            false => message,
        }
    }

    /// True if an empty text is one of its values.
    pub(super) fn can_be_empty(&self) -> bool {
        let allows = |allowed: &ParamValue| *allowed == ParamValue::Text(String::new());
        self.kind == ParamType::Text && (self.allowed.is_empty() || self.allowed.iter().any(allows))
    }

    fn shown_allowed(&self) -> String {
        let texts: Vec<_> = self.allowed.iter().filter_map(ParamValue::postgres_text).collect();
        crate::diagnostic::list(texts.iter().map(String::as_str))
    }
}

fn shown_bound(bound: &Option<ParamValue>) -> String {
    bound.as_ref().and_then(ParamValue::postgres_text).unwrap_or_default()
}

impl ParamValue {
    /// Compares numbers of one type. Other values are equal.
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => decimal::compare(a, b),
            _ => Ordering::Equal,
        }
    }

    /// Checks that a database whose largest numbers are floats can have this one, or the items of this list.
    /// As a float, `1e400` would be infinite. Only a cursor's [`INFINITY`] means that.
    ///
    /// # Errors
    /// It's larger than all floats.
    pub fn check_float(&self) -> Result<(), Error> {
        match self {
            Self::Number(text) if text.trim_start_matches('-') == INFINITY => Ok(()),
            Self::Number(text) if text.parse::<f64>().is_ok_and(f64::is_infinite) => {
                let message = format!("{} is beyond the numbers of the database", shown(text));
                let error = Error::new(INVALID_DATA, StatusCode::BAD_REQUEST, message);
                Err(error.hint("its numbers are between -1.797e308 and 1.797e308"))
            }
            Self::List(items) => items.iter().try_for_each(Self::check_float),
            _ => Ok(()),
        }
    }

    /// Returns true if two values of one type are equal. Numbers are compared by value, not by
    /// text.
    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => decimal::compare(a, b) == Ordering::Equal,
            _ => self == other,
        }
    }
}

impl ParamType {
    /// Converts a text to this type.
    fn parse(self, text: &str) -> Result<ParamValue, String> {
        match self {
            Self::Integer => integer(text),
            Self::Number => match decimal::to_json(text) {
                Some(number) => Ok(ParamValue::Number(number)),
                None => Err(not_a_number(text, "a decimal number")),
            },
            Self::Text if text.contains('\0') => Err(format!("{} contains a NUL character", shown(text))),
            Self::Text => Ok(ParamValue::Text(text.to_owned())),
            Self::Boolean => boolean(text),
            Self::Date => date(text),
            Self::Timestamp => timestamp(text),
            Self::Duration => duration(text),
            Self::Uuid => uuid(text),
            Self::Json => json(text),
        }
    }
}

fn integer(text: &str) -> Result<ParamValue, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    match text.parse() {
        Ok(integer) => Ok(ParamValue::Integer(integer)),
        Err(error) if matches!(error.kind(), NegOverflow | PosOverflow) => {
            Err(format!("{} is beyond the integers of 64 bits", shown(text)))
        }
        Err(_) => Err(not_a_number(text, "an integer")),
    }
}

fn not_a_number(text: &str, kind: &str) -> String {
    format!("{} is not {kind}", shown(text))
}

fn boolean(text: &str) -> Result<ParamValue, String> {
    match text {
        "true" | "1" => Ok(ParamValue::Boolean(true)),
        "false" | "0" => Ok(ParamValue::Boolean(false)),
        _ => Err(format!("{} is not a boolean (`true`, `false`, `1` or `0`)", shown(text))),
    }
}

/// RFC 3339 `full-date`. The shape is checked first, because the parser accepts other forms of ISO
/// 8601 too.
fn date(text: &str) -> Result<ParamValue, String> {
    let date = has_shape(text, "0000-00-00").then(|| text.parse::<Date>().ok()).flatten();
    date.map(ParamValue::Date)
        .ok_or_else(|| format!("{} is not a date (YYYY-MM-DD, such as `2024-01-02`)", shown(text)))
}

/// RFC 3339 `date-time`, or the value of an HTML form's `datetime-local` or `date`. A date means
/// its midnight. Without an offset, the time is UTC. The second 60 is the next minute's second 0, as in
/// PostgreSQL.
fn timestamp(text: &str) -> Result<ParamValue, String> {
    let (time, seconds) = split_leap_second(text).ok_or_else(|| not_a_timestamp(text))?;
    let offset = match has_shape(&time, "0000-00-00") {
        true => "",
        false => timestamp_offset(&time).ok_or_else(|| not_a_timestamp(text))?,
    };
    let local = time[..time.len() - offset.len()].parse::<DateTime>().ok();
    let (local, east) = local.zip(seconds_east(offset)).ok_or_else(|| not_a_timestamp(text))?;
    let utc = local.checked_add(SignedDuration::from_secs(seconds - east)).ok();
    let utc = utc.filter(|utc| utc.year() > 0).ok_or_else(|| {
        format!("{} is not between the years 1 and 9999 in UTC, those of timestamps", shown(text))
    })?;
    Ok(ParamValue::Timestamp(utc))
}

/// The seconds of an offset. `None` if it has more than 59 minutes beside its hours.
fn seconds_east(offset: &str) -> Option<i64> {
    let ("+" | "-", offset_size) = offset.split_at_checked(1).unwrap_or_default() else { return Some(0) };
    let (hours, minutes) = offset_size.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = (hours * 60 + minutes) * 60;
    (minutes < 60).then_some(if offset.starts_with('-') { -seconds } else { seconds })
}

/// The offset (`Z`, `+02:00` or none) after a date and a time, which may lack its seconds. `None`
/// if the text has another shape.
fn timestamp_offset(text: &str) -> Option<&str> {
    const MINUTES: &str = "0000-00-00T00:00";
    let (head, tail) = text.split_at_checked(MINUTES.len())?;
    let head_is_well = has_shape(head, MINUTES) || has_shape(head, "0000-00-00t00:00");
    let (seconds, tail) = match tail.strip_prefix(':') {
        Some(_) => tail.split_at_checked(":00".len())?,
        None => ("", tail),
    };
    let head_is_well = head_is_well && (seconds.is_empty() || has_shape(seconds, ":00"));
    if seconds.is_empty() && tail.starts_with('.') {
        return None;
    }
    let offset = match tail.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => tail,
    };
    let has_digits = !tail.starts_with('.') || offset.len() < tail.len() - 1;
    let is_zone = |zone: &str| has_shape(zone, "+00:00") || has_shape(zone, "-00:00");
    let offset_is_well = matches!(offset, "" | "Z" | "z") || is_zone(offset) && &offset[1..3] < "24";
    (head_is_well && has_digits && offset_is_well).then_some(offset)
}

fn not_a_timestamp(text: &str) -> String {
    format!("{} is not a timestamp (YYYY-MM-DDThh:mm:ss, with `Z` or an offset)", shown(text))
}

/// Checks that a date and time has no offset, which databases would ignore.
///
/// # Errors
/// A message for the user.
pub fn check_local(text: &str) -> Result<(), String> {
    let time = text.split_once(['T', 't', ' ']).map_or("", |(_, time)| time);
    if time.contains(['+', '-', '[', 'Z', 'z']) { Err(no_local_time(text)) } else { Ok(()) }
}

/// The message for a text that isn't a date and time without an offset.
pub fn no_local_time(text: &str) -> String {
    format!("{} is not a date and time without an offset: write `2026-03-01T09:00:00`", shown(text))
}

/// ISO 8601 without a sign and in capitals, the form that every database reads in the same way.
/// Numbers with units are converted to it.
fn duration(text: &str) -> Result<ParamValue, String> {
    let iso = match iso_duration(text) {
        Some(span) => Some((text.to_owned(), span)),
        None => friendly_duration(text),
    };
    if iso.as_ref().is_some_and(|(_, span)| span.get_nanoseconds() % 1000 != 0) {
        return Err(format!("{} is finer than a microsecond, the finest duration of databases", shown(text)));
    }
    iso.map(|(iso, _)| ParamValue::Duration(iso))
        .ok_or_else(|| format!("{} is not a duration (such as `1h30m`, `500ms` or `PT1H30M`)", shown(text)))
}

fn iso_duration(text: &str) -> Option<Span> {
    let is_iso = text.starts_with('P')
        && text.bytes().all(|byte| {
            matches!(byte, b'P' | b'T' | b'Y' | b'M' | b'W' | b'D' | b'H' | b'S' | b'.' | b'0'..=b'9')
        });
    let span = is_iso.then(|| jiff::fmt::temporal::SpanParser::new().parse_span(text));
    span?.ok()
}

/// Converts `1h30m` to `PT1H30M`.
fn friendly_duration(text: &str) -> Option<(String, Span)> {
    let span = jiff::fmt::friendly::SpanParser::new().parse_span(text).ok()?;
    let iso = span.to_string();
    let span = iso_duration(&iso)?;
    Some((iso, span))
}

fn uuid(text: &str) -> Result<ParamValue, String> {
    let hyphenated = text.len() == 36 && [8, 13, 18, 23].iter().all(|&at| text.as_bytes()[at] == b'-');
    let digits = if hyphenated { text.replace('-', "") } else { text.to_owned() };
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("{} is not a UUID", shown(text)));
    }
    let digits = digits.to_ascii_lowercase();
    let groups = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Ok(ParamValue::Uuid(groups.join("-")))
}

/// The deepest nesting of a document. Databases refuse deeper ones, each at another depth.
const DEEPEST_JSON: usize = 100;

/// Checks a document, and keeps its text, because a float can't represent all of its numbers.
fn json(text: &str) -> Result<ParamValue, String> {
    if depth(text) > DEEPEST_JSON {
        return Err(format!("{} is nested more than {DEEPEST_JSON} levels deep", shown(text)));
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Ok(ParamValue::Json(text.to_owned())),
        Err(error) => Err(format!("{} is not JSON: {error}", shown(text))),
    }
}

/// The nesting of a document; any number if it isn't one.
fn depth(text: &str) -> usize {
    let (mut open, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        let is_escaped = std::mem::take(&mut escaped);
        match byte {
            b'"' if !is_escaped => quoted = !quoted,
            b'\\' if quoted => escaped = !is_escaped,
            b'[' | b'{' if !quoted => open += 1,
            b']' | b'}' if !quoted => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

/// Returns true if `text` has the form of `shape`. A `0` in `shape` matches any digit.
fn has_shape(text: &str, shape: &str) -> bool {
    let alike =
        |(byte, wanted): (u8, u8)| if wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(alike)
}

/// Decodes `%XX` strictly. `None` if an escape is invalid, or the text isn't UTF-8.
pub fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.as_bytes().contains(&b'%') {
        return Some(text.into());
    }
    let well =
        |escape: &str| escape.len() >= 2 && escape.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if !text.split('%').skip(1).all(well) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok()
}
