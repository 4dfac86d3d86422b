//! Parses ISO 8601 dates and timestamps.
//!
//! SQLite and JSON store them as text. `rowstream_encode` formats them for clients.

use std::borrow::Cow;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// A timestamp in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp {
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub micros: i64,
    /// True if the text had a zone. Without one, the time is read as UTC.
    pub is_zoned: bool,
}

/// `YYYY-MM-DD` as days since 1970-01-01.
pub fn date(text: &[u8]) -> Option<i32> {
    let (date, rest) = split_date(text)?;
    rest.is_empty().then_some(date)
}

/// Parses the forms of SQLite's date functions: `YYYY-MM-DD HH:MM[:SS[.fff]]`, with a blank or a
/// `T`, and then nothing, `Z` or `±HH:MM`. A fraction finer than a microsecond is refused, not
/// rounded.
pub fn timestamp(text: &[u8]) -> Option<Timestamp> {
    match read(text)? {
        (timestamp, Precision::Micros) => Some(timestamp),
        (_, Precision::Finer) => None,
    }
}

/// Parses the same forms and dates, whose instant is midnight, as microseconds since 1970. Finer digits
/// are cut off.
pub fn instant(text: &[u8]) -> Option<i64> {
    let midnight = || date(text).map(|days| i64::from(days) * SECONDS_PER_DAY * MICROS_PER_SECOND);
    read(text).map(|(timestamp, _)| timestamp.micros).or_else(midnight)
}

/// A date and time without a second 60, and the seconds to add to it: `12:00:60` is `12:00:59` and another
/// second, as in PostgreSQL. `None`: it's after the end of its day, as `23:59:60.5` is.
pub fn split_leap_second(text: &str) -> Option<(Cow<'_, str>, i64)> {
    let Some(second) = leap_second(text) else { return Some((text.into(), 0)) };
    let (before, rest) = (&text[..second], &text[second + "60".len()..]);
    let fraction = rest.strip_prefix(['.', ',']).unwrap_or_default();
    let has_fraction = fraction.bytes().take_while(u8::is_ascii_digit).any(|digit| digit != b'0');
    let is_last = before.ends_with("23:59:") || before.ends_with("2359");
    (!(has_fraction && is_last)).then(|| (format!("{before}59{rest}").into(), 1))
}

/// The offset of the second of a date and time, if it's 60.
fn leap_second(text: &str) -> Option<usize> {
    let time = text.find(['T', 't', ' '])? + 1;
    let second = match text.get(time..)?.as_bytes() {
        [_, _, b':', _, _, b':', ..] => time + "hh:mm:".len(),
        _ => time + "hhmm".len(),
    };
    text.get(second..)?.starts_with("60").then_some(second)
}

/// The precision of a fraction of a second.
#[derive(PartialEq, Eq)]
enum Precision {
    /// It's a number of microseconds.
    Micros,
    /// It has more digits, and not only zeros.
    Finer,
}

fn read(text: &[u8]) -> Option<(Timestamp, Precision)> {
    let (days, rest) = split_date(text)?;
    let ([b' ' | b'T', h1, h2, b':', m1, m2], rest) = rest.split_first_chunk()? else { return None };
    let (hour, minute) = (two_digits(*h1, *h2, 23)?, two_digits(*m1, *m2, 59)?);
    let (second, rest) = split_second(rest)?;
    let (micros, precision, rest) = split_fraction(rest)?;
    let offset = zone(rest.trim_ascii_start())?;
    let minutes = hour * 60 + minute - offset.unwrap_or(0);
    let seconds = i64::from(days) * SECONDS_PER_DAY + minutes * 60 + second;
    let micros = seconds * MICROS_PER_SECOND + micros;
    Some((Timestamp { micros, is_zoned: offset.is_some() }, precision))
}

fn split_date(text: &[u8]) -> Option<(i32, &[u8])> {
    let ([y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2], rest) = text.split_first_chunk()? else { return None };
    let year = two_digits(*y1, *y2, 99)? * 100 + two_digits(*y3, *y4, 99)?;
    Some((days(year, two_digits(*m1, *m2, 12)?, two_digits(*d1, *d2, 31)?)?, rest))
}

/// `:SS`, or 0 if it's missing.
fn split_second(text: &[u8]) -> Option<(i64, &[u8])> {
    match text {
        [b':', s1, s2, rest @ ..] => Some((two_digits(*s1, *s2, 59)?, rest)),
        [b':', ..] => None,
        _ => Some((0, text)),
    }
}

/// `.fff` in microseconds, or 0 if it's missing.
fn split_fraction(text: &[u8]) -> Option<(i64, Precision, &[u8])> {
    let Some(fraction) = text.strip_prefix(b".") else { return Some((0, Precision::Micros, text)) };
    let (digits, rest) = fraction.split_at(fraction.iter().take_while(|byte| byte.is_ascii_digit()).count());
    if digits.is_empty() {
        return None;
    }
    let (kept, below) = digits.split_at(digits.len().min(6));
    let is_finer = below.iter().any(|&digit| digit != b'0');
    let precision = if is_finer { Precision::Finer } else { Precision::Micros };
    let value = kept.iter().fold(0, |value, &digit| value * 10 + i64::from(digit - b'0'));
    Some((value * 10_i64.pow(6 - kept.len() as u32), precision, rest))
}

/// The offset in minutes; `Some(None)` without a zone. Like SQLite, we allow at most 14 hours.
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

/// Days since 1970-01-01. `None` for a day that doesn't exist in its month, and for the year 0,
/// which no calendar has. It's Howard Hinnant's `days_from_civil` for non-negative years.
pub fn days(year: i64, month: i64, day: i64) -> Option<i32> {
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
