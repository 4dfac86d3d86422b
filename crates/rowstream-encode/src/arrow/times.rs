//! Reads dates and times in the forms that [`datetime`](crate::datetime) writes.

use std::ops::RangeInclusive;

const DAY: i64 = 86_400_000_000;
/// Behind the date, and behind the zone of an instant.
const BEFORE_CHRIST: &str = " BC";

/// The days of a date since 1970-01-01.
pub(super) fn date(text: &str) -> Option<i32> {
    match text {
        "infinity" => Some(i32::MAX),
        "-infinity" => Some(i32::MIN),
        _ => {
            let (date, is_bc) = split_era(text);
            i32::try_from(days(date, is_bc)?).ok().filter(|days| !matches!(*days, i32::MIN | i32::MAX))
        }
    }
}

/// The microseconds of a timestamp since 1970-01-01T00:00:00. `zone` follows the time.
pub(super) fn timestamp(text: &str, zone: &str) -> Option<i64> {
    match text {
        "infinity" => Some(i64::MAX),
        "-infinity" => Some(i64::MIN),
        _ => {
            let (text, is_bc) = split_era(text);
            let (date, time) = text.strip_suffix(zone)?.split_once('T')?;
            let midnight = days(date, is_bc)?.checked_mul(DAY)?;
            let micros = midnight.checked_add(self::time(time)?)?;
            Some(micros).filter(|micros| !matches!(*micros, i64::MIN | i64::MAX))
        }
    }
}

/// The microseconds of a time of day, `HH:MM:SS[.ffffff]`.
pub(super) fn time(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = clock.split(':');
    let mut part = |range| parts.next().filter(|part| part.len() == 2).and_then(|part| number(part, range));
    let (hour, minute, second) = (part(0..=24)?, part(0..=59)?, part(0..=59)?);
    let micros = number(fraction, 0..=999_999).filter(|_| fraction.len() <= 6 && parts.next().is_none())?;
    let micros = micros * 10_i64.pow(6 - fraction.len() as u32);
    Some((hour * 3_600 + minute * 60 + second) * 1_000_000 + micros).filter(|time| *time <= DAY)
}

fn split_era(text: &str) -> (&str, bool) {
    match text.strip_suffix(BEFORE_CHRIST) {
        Some(text) => (text, true),
        None => (text, false),
    }
}

/// The days of `YYYY-MM-DD` since 1970-01-01. A year has at least four digits. It's Howard Hinnant's
/// `days_from_civil`, whose years begin in March.
fn days(text: &str, is_bc: bool) -> Option<i64> {
    let mut parts = text.split('-');
    let year = number(parts.next().filter(|year| year.len() >= 4)?, 1..=9_999_999)?;
    let mut part = |range| parts.next().filter(|part| part.len() == 2).and_then(|part| number(part, range));
    let (month, day) = (part(1..=12)?, part(1..=31)?);
    let year = if is_bc { 1 - year } else { year };
    if day > days_in(year, month) || parts.next().is_some() {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn days_in(year: i64, month: i64) -> i64 {
    let is_leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A number without a sign.
fn number(text: &str, range: RangeInclusive<i64>) -> Option<i64> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_digits && range.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Value, write_value};

    /// The text of a value in JSON, without its quotes.
    fn written(value: Value<'_>) -> String {
        let mut out = Vec::new();
        write_value(value, &mut out);
        String::from_utf8(out).unwrap().trim_matches('"').to_owned()
    }

    #[test]
    fn written_times_are_read_back() {
        // The first and the last date of PostgreSQL, and the ends of months and of eras between them.
        let ends = [-2_440_588 + 1, 2_145_042_541, -719_163, -719_162, 19_781, 19_782, 11_016, 2_932_897];
        for days in ends.into_iter().chain((-3_000_000..3_000_000).step_by(997)) {
            assert_eq!(date(&written(Value::Date(days))), Some(days));
        }
        for micros in [0, 1, 999_999, 1_000_000, 43_200_250_000, DAY - 1, DAY] {
            assert_eq!(time(&written(Value::Time(micros))), Some(micros));
        }
        for days in (-1_000_000..50_000_000).step_by(99_991) {
            for micros in [days * DAY, days * DAY + 1, days * DAY - 500_000] {
                let (local, instant) = (Value::Timestamp(micros), Value::TimestampTz(micros));
                assert_eq!(timestamp(&written(local), ""), Some(micros));
                assert_eq!(timestamp(&written(instant), "Z"), Some(micros));
            }
        }
        for infinite in [i64::MIN, i64::MAX] {
            assert_eq!(timestamp(&written(Value::Timestamp(infinite)), ""), Some(infinite));
        }
        for infinite in [i32::MIN, i32::MAX] {
            assert_eq!(date(&written(Value::Date(infinite))), Some(infinite));
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "2024",
            "2024-02",
            "2024-02-30",
            "2023-02-29",
            "24-02-01",
            "2024-2-01",
            "2024-13-01",
            "2024-00-01",
            "2024-01-00",
            "0000-01-01",
            "-2024-01-01",
            "2024-01-01-",
            "2024-01-01 AD",
            "+024-01-01",
            "99999999-01-01",
            "2024-04-31",
        ] {
            assert_eq!(date(text), None, "{text}");
        }
        for text in [
            "",
            "12",
            "12:00",
            "1:00:00",
            "12:60:00",
            "24:00:01",
            "25:00:00",
            "12:00:00.",
            "12:00:00.1234567",
            "12:00:00:00",
            "-1:00:00",
            "12:00:+1",
            "12:00:00Z",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
        assert_eq!(timestamp("2024-02-29T12:00:00Z", ""), None);
        assert_eq!(timestamp("2024-02-29T12:00:00", "Z"), None);
        assert_eq!(timestamp("2024-02-29 12:00:00", ""), None);
        assert_eq!(timestamp("294277-01-10T00:00:00", ""), None, "it has more than 64 bits");
    }
}
