//! Dates and times as text, without quotes.
//!
//! The form is that of PostgreSQL's JSON (`JsonEncodeDateTime`, `src/backend/utils/adt/json.c`): RFC 3339 where
//! RFC 3339 can say it, more digits for years beyond 9999, and ` BC` behind the years before 1. Only the zone
//! differs: instants are always UTC, and say so with `Z`.

use crate::append::append_front;
use std::ops::Range;

const DAY: i64 = 24 * HOUR as i64;
const HOUR: u64 = 3_600_000_000;

/// Whether a timestamp is an instant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// A reading of some clock and calendar; nothing is said of where.
    None,
    /// An instant, read in UTC.
    Utc,
}

/// Appends a date, given in days since 1970-01-01; `i32::MAX` and `i32::MIN` are the infinities.
pub(crate) fn write_date(days: i32, out: &mut Vec<u8>) {
    match days {
        i32::MAX => out.extend_from_slice(b"infinity"),
        i32::MIN => out.extend_from_slice(b"-infinity"),
        days => {
            let date = Civil::from_days(i64::from(days));
            date.write(out);
            date.write_era(out);
        }
    }
}

/// Appends a time, given in microseconds since midnight.
///
/// Beyond a day it is a span: hours have as many digits as they need, and a sign where there is one.
pub(crate) fn write_time(micros: i64, out: &mut Vec<u8>) {
    // MySQL's TIME goes from -838:59:59 to 838:59:59.
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
    append_front(&fraction, length, out);
}

/// Appends a timestamp, given in microseconds since 1970-01-01; `i64::MAX` and `i64::MIN` are the infinities.
pub(crate) fn write_timestamp(micros: i64, zone: Zone, out: &mut Vec<u8>) {
    match micros {
        i64::MAX => out.extend_from_slice(b"infinity"),
        i64::MIN => out.extend_from_slice(b"-infinity"),
        micros => {
            let date = Civil::from_days(micros.div_euclid(DAY));
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

/// The timestamps of the years 1 to 9999, which [`LastDay::put_timestamp`] can write: all but a few.
pub(crate) const FOUR_DIGIT_YEARS: Range<i64> = -719_162 * DAY..2_932_897 * DAY;

/// The longest timestamp of a year of four digits.
pub(crate) const TIMESTAMP: usize = "2024-02-29T12:00:00.123456Z".len();

/// The day of the timestamp that was written last: neighbouring rows often share it, and it is half of the work.
#[derive(Debug)]
pub(crate) struct LastDay {
    /// Its midnight, in microseconds since 1970-01-01.
    start: i64,
    date: [u8; 10],
}

impl Default for LastDay {
    fn default() -> Self {
        Self { start: 0, date: *b"1970-01-01" }
    }
}

impl LastDay {
    /// Puts a timestamp of [`FOUR_DIGIT_YEARS`] into `block`; gives its length.
    ///
    /// What [`write_timestamp`] appends, without a call on a `Vec` and with the day remembered.
    #[inline]
    pub(crate) fn put_timestamp(&mut self, micros: i64, zone: Zone, block: &mut [u8; TIMESTAMP]) -> usize {
        if !(self.start..self.start + DAY).contains(&micros) {
            self.turn_to(micros.div_euclid(DAY));
        }
        let time = (micros - self.start) as u64;
        let seconds = (time / 1_000_000) as u32;
        let ([h1, h2], [m1, m2], [s1, s2]) =
            (pair(seconds / 3600), pair(seconds / 60 % 60), pair(seconds % 60));
        let (fraction, length) = fraction((time % 1_000_000) as u32);

        block[..10].copy_from_slice(&self.date);
        block[10..19].copy_from_slice(&[b'T', h1, h2, b':', m1, m2, b':', s1, s2]);
        block[19..26].copy_from_slice(&fraction);
        block[19 + length] = b'Z';
        19 + length + usize::from(zone == Zone::Utc)
    }

    fn turn_to(&mut self, days: i64) {
        *self = Self { start: days * DAY, date: Civil::from_days(days).digits() };
    }
}

/// `.` and the digits of a second's microseconds, and how many of these bytes stand before the zeros at the end;
/// none where there are no microseconds.
#[inline]
fn fraction(micros: u32) -> ([u8; 7], usize) {
    let [[a, b], [c, d], [e, f]] = [pair(micros / 10_000), pair(micros / 100 % 100), pair(micros % 100)];
    // As a little-endian word the last digit is the highest byte: zeros behind the last other digit lead.
    let digits = u64::from_le_bytes([0, 0, a, b, c, d, e, f]) ^ u64::from_le_bytes(*b"\0\x01000000");
    let zeros = digits.leading_zeros() as usize / 8;
    let length = if zeros == 6 { 0 } else { 7 - zeros };
    ([b'.', a, b, c, d, e, f], length)
}

/// A day of the proleptic Gregorian calendar; year 0 is 1 BC.
#[derive(Debug, PartialEq, Eq)]
struct Civil {
    year: i64,
    month: u32,
    day: u32,
}

impl Civil {
    /// The day that is `days` after 1970-01-01.
    ///
    /// C. Neri and L. Schneider, "Euclidean affine functions and their application to calendar algorithms",
    /// Software: Practice and Experience 53 (2023), figure 12: a computational year begins in March, so that the
    /// leap day is its last, and multiplications stand in for divisions. The names are the paper's.
    fn from_days(days: i64) -> Self {
        /// Eras of 400 years that are added before and taken away after, so that every day of an `i32` is positive.
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

    /// The date of a year of four digits, without its era.
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

    /// The year as it is written before its era: 1 BC comes before year 1.
    fn year_of_era(&self) -> i64 {
        if self.year > 0 { self.year } else { 1 - self.year }
    }

    /// Appends the era where it is not ours.
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
            // The last days before the infinities, by the cycle of 146,097 days in 400 years.
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

    /// The day after `date`, by the rules of the calendar and nothing else.
    fn next_day(date: &Civil) -> Civil {
        let Civil { year, month, day } = *date;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 => 28 + u32::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        match (month, day) {
            (12, 31) => Civil { year: year + 1, month: 1, day: 1 },
            (month, day) if day == length => Civil { year, month: month + 1, day: 1 },
            (month, day) => Civil { year, month, day: day + 1 },
        }
    }

    /// Every day for twelve thousand years, and an era at either end of what a date can be.
    #[test]
    fn counts_days_as_the_calendar_does() {
        const END: i64 = i32::MAX as i64;
        for days in [-1_000_000..3_400_000, -END..-END + 150_000, END - 150_000..END] {
            let mut expected = Civil::from_days(days.start);
            for day in days {
                assert_eq!(Civil::from_days(day), expected);
                expected = next_day(&expected);
            }
        }
    }
}
