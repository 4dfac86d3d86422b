//! What a column's values become: SQLite types values, not columns, so a column's declared type is a wish that each
//! value is held against. What does not fit the wish stays what it is.

use serde::de::IgnoredAny;

use rowstream_encode::{ColumnKind, Value, is_json_number};

use super::batch::Cell;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// What the values of a column become; chosen once per statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// By storage class alone.
    Plain,
    /// BOOLEAN: 0 and 1 are booleans.
    Boolean,
    /// DATE: `YYYY-MM-DD` is a date.
    Date,
    /// DATETIME, TIMESTAMP: `YYYY-MM-DD HH:MM[:SS[.ffffff]]` is a timestamp, with a zone an instant.
    Timestamp,
    /// TIMESTAMPTZ: an instant also without a zone, which then is UTC.
    TimestampTz,
    /// DECIMAL, NUMERIC: text that is a number is that number, exactly; a float is a decimal that
    /// SQLite keeps as one.
    Decimal,
    /// JSON, JSONB: text that is a JSON document is written verbatim.
    Json,
}

impl Plan {
    /// The plan of a column by its declared type, in any case and without its length: `Decimal(10, 2)`.
    pub(super) fn of(declared: &str) -> Self {
        let name = declared.split('(').next().unwrap_or_default().trim();
        match name.to_ascii_uppercase().as_str() {
            "BOOLEAN" | "BOOL" => Self::Boolean,
            "DATE" => Self::Date,
            "DATETIME" | "TIMESTAMP" => Self::Timestamp,
            "TIMESTAMPTZ" => Self::TimestampTz,
            "DECIMAL" | "NUMERIC" => Self::Decimal,
            "JSON" | "JSONB" => Self::Json,
            _ => Self::Plain,
        }
    }

    /// The value of a cell.
    ///
    /// # Errors
    /// Text that is not UTF-8.
    #[inline]
    pub(super) fn value(self, cell: Cell<'_>) -> Result<Value<'_>, std::str::Utf8Error> {
        Ok(match cell {
            Cell::Null => Value::Null,
            Cell::Integer(value @ (0 | 1)) if self == Self::Boolean => Value::Bool(value == 1),
            Cell::Integer(value) => Value::Int(value),
            Cell::Real(value) if self == Self::Decimal => Value::Real(value),
            Cell::Real(value) => Value::Float(value),
            Cell::Blob(bytes) => Value::Bytes(bytes),
            Cell::Text(bytes) => match self.time(bytes) {
                Some(value) => value,
                None => self.text(std::str::from_utf8(bytes)?),
            },
        })
    }

    /// Dates and times are read before the text is checked: what they are made of is ASCII.
    #[inline]
    fn time<'a>(self, text: &[u8]) -> Option<Value<'a>> {
        match self {
            Self::Date => date(text).map(Value::Date),
            Self::Timestamp => timestamp(text).map(Timestamp::value),
            Self::TimestampTz => timestamp(text).map(|time| Value::TimestampTz(time.micros)),
            Self::Plain | Self::Boolean | Self::Decimal | Self::Json => None,
        }
    }

    #[inline]
    fn text(self, text: &str) -> Value<'_> {
        match self {
            Self::Decimal if is_json_number(text.as_bytes()) => Value::Number(text),
            Self::Json if serde_json::from_str::<IgnoredAny>(text).is_ok() => Value::Json(text),
            _ => Value::Text(text),
        }
    }
}

/// What a column of this declared type is for formats whose columns have types. What its plan does not tell, SQLite's rule of
/// affinities does ("Datatypes in SQLite", section 3.1): `VARCHAR(20)` is text, `BIGINT` an integer. That a value is what its
/// column promises is only seen when it comes. Without a declared type, as every expression is, nothing is promised.
pub(super) fn kind(declared: &str) -> ColumnKind {
    match Plan::of(declared) {
        Plan::Boolean => ColumnKind::Bool,
        Plan::Date => ColumnKind::Date,
        Plan::Timestamp => ColumnKind::Timestamp,
        Plan::TimestampTz => ColumnKind::TimestampTz,
        Plan::Decimal => decimal_kind(declared),
        Plan::Json => ColumnKind::Json,
        Plan::Plain => affinity_kind(&declared.to_ascii_uppercase()),
    }
}

fn affinity_kind(declared: &str) -> ColumnKind {
    let names = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    if names(&["INT"]) {
        ColumnKind::Int64
    } else if names(&["CHAR", "CLOB", "TEXT"]) {
        ColumnKind::Text
    } else if names(&["BLOB"]) {
        ColumnKind::Bytes
    } else if names(&["REAL", "FLOA", "DOUB"]) {
        ColumnKind::Float64
    } else {
        ColumnKind::Text
    }
}

/// `DECIMAL(10, 2)`, or `DECIMAL(10)`, which has no decimal places. Without a precision the scale may be any.
fn decimal_kind(declared: &str) -> ColumnKind {
    let limits = declared.split_once('(').and_then(|(_, rest)| rest.trim_end().strip_suffix(')'));
    let limits = limits.map(|limits| limits.split_once(',').unwrap_or((limits, "0")));
    match limits.map(|(precision, scale)| (precision.trim().parse(), scale.trim().parse())) {
        Some((Ok(precision), Ok(scale))) => ColumnKind::decimal(precision, scale),
        _ => ColumnKind::Text,
    }
}

/// A timestamp in UTC, and whether its text said so.
pub(crate) struct Timestamp {
    pub(crate) micros: i64,
    zoned: bool,
}

impl Timestamp {
    fn value<'a>(self) -> Value<'a> {
        match self.zoned {
            true => Value::TimestampTz(self.micros),
            false => Value::Timestamp(self.micros),
        }
    }
}

/// `YYYY-MM-DD` as days since 1970-01-01.
pub(crate) fn date(text: &[u8]) -> Option<i32> {
    let (date, rest) = split_date(text)?;
    rest.is_empty().then_some(date)
}

/// The forms that SQLite's date functions read: `YYYY-MM-DD HH:MM[:SS[.fff]]`, `T` for the blank, then nothing, `Z` or
/// `±HH:MM`. A fraction below the microsecond is refused, not rounded.
pub(crate) fn timestamp(text: &[u8]) -> Option<Timestamp> {
    let (days, rest) = split_date(text)?;
    let ([b' ' | b'T', h1, h2, b':', m1, m2], rest) = rest.split_first_chunk()? else { return None };
    let (hour, minute) = (two_digits(*h1, *h2, 23)?, two_digits(*m1, *m2, 59)?);
    let (second, rest) = split_second(rest)?;
    let (micros, rest) = split_fraction(rest)?;
    let offset = zone(rest.trim_ascii_start())?;
    let minutes = hour * 60 + minute - offset.unwrap_or(0);
    let seconds = i64::from(days) * SECONDS_PER_DAY + minutes * 60 + second;
    Some(Timestamp { micros: seconds * MICROS_PER_SECOND + micros, zoned: offset.is_some() })
}

fn split_date(text: &[u8]) -> Option<(i32, &[u8])> {
    let ([y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2], rest) = text.split_first_chunk()? else { return None };
    let year = two_digits(*y1, *y2, 99)? * 100 + two_digits(*y3, *y4, 99)?;
    Some((days(year, two_digits(*m1, *m2, 12)?, two_digits(*d1, *d2, 31)?)?, rest))
}

/// `:SS`, or nothing, which is 0.
fn split_second(text: &[u8]) -> Option<(i64, &[u8])> {
    match text {
        [b':', s1, s2, rest @ ..] => Some((two_digits(*s1, *s2, 59)?, rest)),
        [b':', ..] => None,
        _ => Some((0, text)),
    }
}

/// `.fff` in microseconds, or nothing, which is 0.
fn split_fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(fraction) = text.strip_prefix(b".") else { return Some((0, text)) };
    let (digits, rest) = fraction.split_at(fraction.iter().take_while(|byte| byte.is_ascii_digit()).count());
    if digits.is_empty() {
        return None;
    }
    let (kept, below) = digits.split_at(digits.len().min(6));
    if below.iter().any(|&digit| digit != b'0') {
        return None;
    }
    let value = kept.iter().fold(0, |value, &digit| value * 10 + i64::from(digit - b'0'));
    Some((value * 10_i64.pow(6 - kept.len() as u32), rest))
}

/// The offset in minutes; `Some(None)` when there is no zone. SQLite's own bound on its hours is 14.
fn zone(text: &[u8]) -> Option<Option<i64>> {
    match text {
        [] => Some(None),
        [b'Z' | b'z'] => Some(Some(0)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let minutes = two_digits(*h1, *h2, 14)? * 60 + two_digits(*m1, *m2, 59)?;
            Some(Some(if *sign == b'-' { -minutes } else { minutes }))
        }
        _ => None,
    }
}

fn two_digits(tens: u8, ones: u8, max: i64) -> Option<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    let value = i64::from(tens) * 10 + i64::from(ones);
    (tens < 10 && ones < 10 && value <= max).then_some(value)
}

/// Days since 1970-01-01; `None` for a day that its month does not have, and for the year 0, which no calendar has.
/// The arithmetic is Howard Hinnant's `days_from_civil`, for years that are not negative.
fn days(year: i64, month: i64, day: i64) -> Option<i32> {
    if year == 0 || month == 0 || day == 0 || day > days_in(year, month) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let era = year / 400;
    let year_of_era = year % 400;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    i32::try_from(era * 146_097 + day_of_era - 719_468).ok()
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types_promise_kinds() {
        let decimal = |precision, scale| ColumnKind::Decimal { precision, scale };
        for (declared, kind) in [
            ("integer", ColumnKind::Int64),
            ("UNSIGNED BIG INT", ColumnKind::Int64),
            ("tinyint(1)", ColumnKind::Int64),
            ("varchar(255)", ColumnKind::Text),
            ("CLOB", ColumnKind::Text),
            ("blob", ColumnKind::Bytes),
            ("DOUBLE PRECISION", ColumnKind::Float64),
            ("real", ColumnKind::Float64),
            ("float", ColumnKind::Float64),
            ("", ColumnKind::Text),
            ("uuid", ColumnKind::Text),
            ("Boolean", ColumnKind::Bool),
            ("DATE", ColumnKind::Date),
            ("datetime", ColumnKind::Timestamp),
            ("timestamp", ColumnKind::Timestamp),
            ("TimestampTZ", ColumnKind::TimestampTz),
            ("json", ColumnKind::Json),
            ("decimal(10,2)", decimal(10, 2)),
            ("Numeric ( 10 , 2 ) ", decimal(10, 2)),
            ("NUMERIC(5)", decimal(5, 0)),
            ("decimal", ColumnKind::Text),
            ("decimal(80,2)", ColumnKind::Text),
            ("decimal(a)", ColumnKind::Text),
            ("decimal(1,2,3)", ColumnKind::Text),
            ("decimal(-1)", ColumnKind::Text),
        ] {
            assert_eq!(super::kind(declared), kind, "{declared}");
        }
    }

    #[test]
    fn days_agree_with_jiff() {
        for year in (1..=9999).step_by(7).chain([1600, 1900, 1970, 2000, 2024]) {
            for (month, day) in [(1, 1), (2, 28), (3, 1), (12, 31)] {
                let date = jiff::civil::date(year, month, day);
                let expected = jiff::civil::date(1970, 1, 1).until(date).unwrap().get_days();
                assert_eq!(days(year.into(), month.into(), day.into()), Some(expected), "{date}");
            }
        }
    }
}
