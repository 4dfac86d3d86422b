//! Converts arguments to the values that ODBC binds.

use jiff::civil::Date;

use super::super::super::frame::{Failed, Fault};
use super::api::{BoundValue, NULL_DATA};
use super::c;
use crate::arrow_rows::Argument;

const SQL_BIGINT: i16 = -5;
const SQL_BIT: i16 = -7;
const SQL_DECIMAL: i16 = 3;
const SQL_DOUBLE: i16 = 8;
const SQL_WVARCHAR: i16 = -9;
const SQL_WLONGVARCHAR: i16 = -10;
const SQL_DATE: i16 = 91;
const SQL_TIMESTAMP: i16 = 93;
/// The longest text that all databases accept as a `varchar`, in characters.
const LONGEST_VARCHAR: usize = 4000;

/// Returns the values to bind.
///
/// # Errors
/// ODBC can't bind one of the arguments.
pub(super) fn bound(arguments: &[Argument]) -> Result<Vec<BoundValue>, Failed> {
    arguments.iter().map(one).collect()
}

fn one(argument: &Argument) -> Result<BoundValue, Failed> {
    Ok(match argument {
        Argument::Null => BoundValue { length: NULL_DATA, ..text("") },
        Argument::NullOf(value) => BoundValue { length: NULL_DATA, ..one(value)? },
        Argument::Boolean(value) => fixed(c::BIT, SQL_BIT, 1, &[u8::from(*value)]),
        Argument::Integer(value) => fixed(c::BIGINT, SQL_BIGINT, 19, &value.to_ne_bytes()),
        Argument::Number(number) => decimal(number),
        Argument::Float(bits) => fixed(c::DOUBLE, SQL_DOUBLE, 15, &bits.to_ne_bytes()),
        Argument::Text(value) => text(value),
        Argument::Date(days) => fixed(c::DATE, SQL_DATE, 10, &date_bytes(date(*days)?)),
        Argument::Timestamp(micros) => timestamp(*micros)?,
        Argument::List(_) => {
            return Err(data_failed("ODBC has no lists: declare a parameter for each item"));
        }
    })
}

fn fixed(c_type: i16, sql_type: i16, size: usize, bytes: &[u8]) -> BoundValue {
    BoundValue { c_type, sql_type, size, digits: 0, bytes: bytes.to_vec(), length: bytes.len() as isize }
}

fn text(value: &str) -> BoundValue {
    let bytes: Vec<u8> = value.encode_utf16().flat_map(u16::to_ne_bytes).collect();
    let characters = bytes.len() / 2;
    let sql_type = if characters > LONGEST_VARCHAR { SQL_WLONGVARCHAR } else { SQL_WVARCHAR };
    // No database has texts of size 0.
    fixed(c::WCHAR, sql_type, characters.max(1), &bytes)
}

/// Binds a decimal as text. The driver converts it, with as many places as we declare, so they must
/// include those that an exponent adds.
fn decimal(number: &str) -> BoundValue {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let written = mantissa.split_once('.').map_or(0, |(_, places)| places.len());
    let places = i32::try_from(written).unwrap_or(i32::MAX).saturating_sub(exponent).max(0);
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    // The digits that an exponent adds before the point, or behind it.
    let added = exponent.unsigned_abs() as usize;
    BoundValue {
        sql_type: SQL_DECIMAL,
        size: digits.saturating_add(added).max(1),
        digits: i16::try_from(places).unwrap_or(i16::MAX),
        ..text(number)
    }
}

fn date(days: i32) -> Result<Date, Failed> {
    let span = jiff::Span::new().try_days(days);
    let date = span.and_then(|span| jiff::civil::date(1970, 1, 1).checked_add(span));
    date.map_err(|_| data_failed("a date is beyond the years that can be bound"))
}

/// `SQL_DATE_STRUCT`: a year, a month and a day, of 16 bits each.
fn date_bytes(date: Date) -> Vec<u8> {
    [date.year(), date.month().into(), date.day().into()].into_iter().flat_map(i16::to_ne_bytes).collect()
}

/// `SQL_TIMESTAMP_STRUCT`, in UTC: a date, hours, minutes and seconds of 16 bits each, and
/// nanoseconds of 32.
fn timestamp(micros: i64) -> Result<BoundValue, Failed> {
    let epoch = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);
    let time = epoch.checked_add(jiff::SignedDuration::from_micros(micros));
    let time = time.map_err(|_| data_failed("a timestamp is beyond the years that can be bound"))?;
    let mut bytes = date_bytes(time.date());
    for part in [time.hour(), time.minute(), time.second()] {
        bytes.extend(i16::from(part).to_ne_bytes());
    }
    bytes.extend(time.subsec_nanosecond().to_ne_bytes());
    Ok(BoundValue { digits: 6, ..fixed(c::TIMESTAMP, SQL_TIMESTAMP, 26, &bytes) })
}

fn data_failed(message: &str) -> Failed {
    Failed { fault: Fault::Data, message: message.to_owned(), sqlstate: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `1.5e10` was declared with four places, because its exponent counted as digits.
    #[test]
    fn decimals_have_the_digits_and_places_that_they_need() {
        for (number, size, places) in [
            ("0", 1, 0),
            ("-12.50", 4, 2),
            ("1.5e10", 12, 0),
            ("1.5e-3", 5, 4),
            ("12345678901234567890.123", 23, 3),
        ] {
            let bound = decimal(number);
            assert_eq!((bound.size, bound.digits), (size, places), "{number}");
        }
    }
}
