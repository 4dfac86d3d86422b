//! Dates and times as text, without quotes.
//!
//! The form is that of PostgreSQL's JSON (`JsonEncodeDateTime`, `src/backend/utils/adt/json.c`):
//! RFC 3339 if it can express the value, more digits for years beyond 9999, and ` BC` after the
//! years before 1. Only the zone differs: instants are always in UTC, marked with `Z`.

use std::ops::Range;

use crate::append::{Room, put};
use crate::integer::eight_digits;

const DAY: i64 = 24 * HOUR as i64;
const HOUR: u64 = 3_600_000_000;

/// The zone of a timestamp.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// A local date and time, without a zone.
    None,
    /// An instant, read in UTC.
    Utc,
}

/// The days of the years 1 to 9999. Almost all dates are among them, and have ten characters.
const FOUR_DIGIT_YEARS: Range<i64> = -719_162..2_932_897;

/// Puts a date of [`FOUR_DIGIT_YEARS`] with its quotes into `room`. Returns its length, or `None`
/// for any other date.
#[inline]
pub(crate) fn put_date(days: i32, room: &mut Room) -> Option<usize> {
    let days = i64::from(days);
    FOUR_DIGIT_YEARS.contains(&days).then(|| {
        room[0] = b'"';
        put(&CivilDate::from_days(days).digits(), 1, room);
        room[11] = b'"';
        12
    })
}

/// Appends a date, given in days since 1970-01-01; `i32::MAX` and `i32::MIN` are the infinities.
pub(crate) fn write_date(days: i32, out: &mut Vec<u8>) {
    match days {
        i32::MAX => out.extend_from_slice(b"infinity"),
        i32::MIN => out.extend_from_slice(b"-infinity"),
        days => {
            let date = CivilDate::from_days(i64::from(days));
            date.write(out);
            date.write_era(out);
        }
    }
}

/// Appends a time, given in microseconds since midnight.
///
/// Beyond a day it's a duration: hours have as many digits as they need, and a sign if negative.
pub(crate) fn write_time(micros: i64, out: &mut Vec<u8>) {
    // MySQL's TIME ranges from -838:59:59 to 838:59:59.
    if micros < 0 {
        out.push(b'-');
    }
    let micros = micros.unsigned_abs();
    if micros >= 100 * HOUR {
        out.extend_from_slice(itoa::Buffer::new().format(micros / HOUR).as_bytes());
    } else {
        out.extend_from_slice(&pair((micros / HOUR) as u32));
    }
    let seconds = (micros % HOUR / 1_000_000) as u32;
    let ([m1, m2], [s1, s2]) = (pair(seconds / 60), pair(seconds % 60));
    out.extend_from_slice(&[b':', m1, m2, b':', s1, s2]);
    let (fraction, length) = fraction((micros % 1_000_000) as u32);
    out.extend_from_slice(&fraction[..length]);
}

/// Appends a timestamp, given in microseconds since 1970-01-01; `i64::MAX` and `i64::MIN` are the
/// infinities.
pub(crate) fn write_timestamp(micros: i64, zone: Zone, out: &mut Vec<u8>) {
    match micros {
        i64::MAX => out.extend_from_slice(b"infinity"),
        i64::MIN => out.extend_from_slice(b"-infinity"),
        micros => {
            let date = CivilDate::from_days(micros.div_euclid(DAY));
            date.write(out);
            out.push(b'T');
            write_time(micros.rem_euclid(DAY), out);
            if zone == Zone::Utc {
                out.push(b'Z');
            }
            date.write_era(out);
        }
    }
}

/// The hour of the last timestamp. Neighbouring rows often share it, and it's half of the work.
#[derive(Debug)]
pub(crate) struct LastHour {
    /// Its start, in microseconds since 1970-01-01.
    start: i64,
    /// From the opening quote to the colon after the hour. The last byte is unused.
    text: [u8; 16],
}

impl Default for LastHour {
    fn default() -> Self {
        Self { start: 0, text: *b"\"1970-01-01T00: " }
    }
}

impl LastHour {
    /// Puts a timestamp with a four-digit year and its quotes into `room`. Returns its length, or
    /// `None` for any other.
    ///
    /// The text is the same as [`write_timestamp`]'s. This one doesn't call a `Vec`, and reuses the
    /// last hour.
    #[inline]
    pub(crate) fn put_timestamp(&mut self, micros: i64, zone: Zone, room: &mut Room) -> Option<usize> {
        if micros.wrapping_sub(self.start) as u64 >= HOUR {
            self.turn_to(micros)?;
        }
        let within = micros.wrapping_sub(self.start) as u32;
        let (seconds, micros) = (within / 1_000_000, within % 1_000_000);
        let ([m1, m2], [s1, s2]) = (pair(seconds / 60), pair(seconds % 60));
        let (fraction, length) = fraction(micros);
        put(&self.text, 0, room);
        put(&[m1, m2, b':', s1, s2], 15, room);
        put(&fraction, 20, room);
        let end = 20 + length;
        room[end] = b'Z';
        let end = end + usize::from(zone == Zone::Utc);
        room[end] = b'"';
        Some(end + 1)
    }

    /// Remembers the hour of a timestamp. Returns `None` unless its year has four digits.
    fn turn_to(&mut self, micros: i64) -> Option<()> {
        let days = micros.div_euclid(DAY);
        let hour = micros.rem_euclid(DAY) as u64 / HOUR;
        FOUR_DIGIT_YEARS.contains(&days).then(|| {
            self.start = days * DAY + (hour * HOUR) as i64;
            self.text[1..11].copy_from_slice(&CivilDate::from_days(days).digits());
            self.text[12..14].copy_from_slice(&pair(hour as u32));
        })
    }
}

/// `.` and the six digits of a second's microseconds, and the number of bytes without trailing
/// zeros. That's 0 for 0 microseconds. The last byte is unused.
#[inline]
fn fraction(micros: u32) -> ([u8; 8], usize) {
    // The first two of eight digits are zeros. In a little-endian word they're the lowest bytes.
    let digits = eight_digits(u64::from(micros));
    // Trailing zeros are the leading bytes of the word. A mark in the byte before the digits stops
    // the count.
    let zeros = (digits | (1 << 8)).leading_zeros() as usize / 8;
    let length = if zeros == 6 { 0 } else { 7 - zeros };
    let text = (digits >> 8) | u64::from_le_bytes(*b".000000\0");
    (text.to_le_bytes(), length)
}

/// A day of the proleptic Gregorian calendar; year 0 is 1 BC.
#[derive(Debug, PartialEq, Eq)]
struct CivilDate {
    year: i64,
    month: u32,
    day: u32,
}

impl CivilDate {
    /// The day that is `days` after 1970-01-01.
    ///
    /// C. Neri and L. Schneider, "Euclidean affine functions and their application to calendar
    /// algorithms", Software: Practice and Experience 53 (2023), figure 12. A computational year
    /// begins in March, so that the leap day is its last, and multiplications replace divisions.
    /// The names are the paper's.
    fn from_days(days: i64) -> Self {
        /// Eras of 400 years that we add first and subtract later, so that every day of an `i32` is
        /// positive.
        const ERAS: i64 = 14_700;
        const ERA_DAYS: i64 = 146_097;
        /// From 0000-03-01 to 1970-01-01.
        const EPOCH: i64 = 719_468;

        let n1 = 4 * (days + EPOCH + ERAS * ERA_DAYS) as u64 + 3;
        let century = n1 / ERA_DAYS as u64;
        let n2 = (n1 % ERA_DAYS as u64) as u32 | 3;
        let p2 = 2_939_745 * u64::from(n2);
        let year_of_century = p2 >> 32;
        let day_of_year = p2 as u32 / 2_939_745 / 4;
        let n3 = 2_141 * day_of_year + 197_913;
        let (month, day) = (n3 >> 16, n3 % (1 << 16) / 2_141 + 1);
        let next_year = day_of_year >= 306;

        Self {
            year: (100 * century + year_of_century) as i64 - 400 * ERAS + i64::from(next_year),
            month: if next_year { month - 12 } else { month },
            day,
        }
    }

    /// The date of a four-digit year, without its era.
    fn digits(&self) -> [u8; 10] {
        let year = self.year_of_era() as u32;
        let ([y1, y2], [y3, y4]) = (pair(year / 100 % 100), pair(year % 100));
        let ([m1, m2], [d1, d2]) = (pair(self.month), pair(self.day));
        [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2]
    }

    /// Appends the date without its era.
    fn write(&self, out: &mut Vec<u8>) {
        let (year, digits) = (self.year_of_era(), self.digits());
        if year < 10_000 {
            out.extend_from_slice(&digits);
        } else {
            out.extend_from_slice(itoa::Buffer::new().format(year).as_bytes());
            out.extend_from_slice(&digits[4..]);
        }
    }

    /// The year as written before its era: 1 BC precedes year 1.
    fn year_of_era(&self) -> i64 {
        if self.year > 0 { self.year } else { 1 - self.year }
    }

    /// Appends the era if it's BC.
    fn write_era(&self, out: &mut Vec<u8>) {
        if self.year <= 0 {
            out.extend_from_slice(b" BC");
        }
    }
}

/// The two digits of a number below 100.
#[inline]
fn pair(number: u32) -> [u8; 2] {
    static PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[0; 2]; 100];
        let mut number = 0;
        while number < 100 {
            pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
            number += 1;
        }
        pairs
    };
    PAIRS[number as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (19_782, "2024-02-29"),
            (-719_162, "0001-01-01"),
            (-719_163, "0001-12-31 BC"),
            (-735_160, "0044-03-15 BC"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "10000-01-01"),
            (i32::MAX, "infinity"),
            (i32::MIN, "-infinity"),
            // The last days before the infinities, derived from the cycle of 146,097 days in 400
            // years.
            (i32::MAX - 1, "5881580-07-10"),
            (i32::MIN + 1, "5877642-06-24 BC"),
        ] {
            assert_eq!(text(|out| write_date(days, out)), expected, "{days}");
        }
    }

    #[test]
    fn writes_times() {
        const SECOND: i64 = 1_000_000;
        for (micros, expected) in [
            (0, "00:00:00"),
            (1, "00:00:00.000001"),
            (86_399 * SECOND + 500_000, "23:59:59.5"),
            (86_399 * SECOND + 999_999, "23:59:59.999999"),
            (43_200 * SECOND + 120_000, "12:00:00.12"),
            (43_200 * SECOND + 10, "12:00:00.00001"),
            (86_400 * SECOND, "24:00:00"),
            ((838 * 3600 + 59 * 60 + 59) * SECOND, "838:59:59"),
            (-SECOND / 4, "-00:00:00.25"),
            (i64::MAX, "2562047788:00:54.775807"),
            (i64::MIN, "-2562047788:00:54.775808"),
        ] {
            assert_eq!(text(|out| write_time(micros, out)), expected, "{micros}");
        }
    }

    #[test]
    fn writes_timestamps() {
        for (micros, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_709_208_000_250_000, "2024-02-29T12:00:00.25Z"),
            (-63_517_824_000_000_000, "0044-03-15T00:00:00Z BC"),
            (253_402_300_800_000_000, "10000-01-01T00:00:00Z"),
            (i64::MAX, "infinity"),
            (i64::MIN, "-infinity"),
            (i64::MAX - 1, "294247-01-10T04:00:54.775806Z"),
            (i64::MIN + 1, "290309-12-21T19:59:05.224193Z BC"),
        ] {
            assert_eq!(text(|out| write_timestamp(micros, Zone::Utc, out)), expected, "{micros}");
            let local = expected.replace('Z', "");
            assert_eq!(text(|out| write_timestamp(micros, Zone::None, out)), local, "{micros}");
        }
    }

    /// The day after `date`, only by the rules of the calendar.
    fn next_day(date: &CivilDate) -> CivilDate {
        let CivilDate { year, month, day } = *date;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 => 28 + u32::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        match (month, day) {
            (12, 31) => CivilDate { year: year + 1, month: 1, day: 1 },
            (month, day) if day == length => CivilDate { year, month: month + 1, day: 1 },
            (month, day) => CivilDate { year, month, day: day + 1 },
        }
    }

    /// Every day of twelve thousand years, and an era at both ends of the range of dates.
    #[test]
    fn counts_days_as_the_calendar_does() {
        const END: i64 = i32::MAX as i64;
        for days in [-1_000_000..3_400_000, -END..-END + 150_000, END - 150_000..END] {
            let mut expected = CivilDate::from_days(days.start);
            for day in days {
                assert_eq!(CivilDate::from_days(day), expected);
                expected = next_day(&expected);
            }
        }
    }
}
