//! Decimal numbers as text. They're checked and compared, but never converted to a float, which
//! would round them.

use std::cmp::Ordering;

/// The greatest exponent that we accept. Otherwise the database would expand a few characters to
/// megabytes of digits.
const GREATEST_EXPONENT: u32 = 9_999;

/// Writes a decimal number as JSON does, which doesn't allow `+1`, `01`, `.5` and `5.`; `None` if
/// `text` isn't digits with at most one point, and optionally a sign and an exponent. Zeros at the end
/// stay.
pub(super) fn to_json(text: &str) -> Option<String> {
    Decimal::read(text)?;
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = unsigned.split_at(unsigned.find(['e', 'E']).unwrap_or(unsigned.len()));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}{exponent}"))
}

/// Writes a whole number without a point and an exponent: `3` for `3.0`, `100` for `1e2`. `None` if it
/// has neither of them, or isn't whole.
pub(super) fn whole(text: &str) -> Option<String> {
    if !text.contains(['.', 'e', 'E']) {
        return None;
    }
    let Decimal { negative, exponent, mut digits } = Decimal::read(text)?;
    let length = usize::try_from(exponent).ok().filter(|&length| digits.len() <= length)?;
    digits.resize(length.max(1), b'0');
    let digits = String::from_utf8(digits).ok()?;
    Some(if negative { format!("-{digits}") } else { digits })
}

/// The digits of 128-bit integers, which databases compare even if their decimals have fewer digits.
const INTEGER_DIGITS: usize = 39;

/// Writes a decimal number without an exponent, and without zeros at its end. `None` if the text isn't a number,
/// or if it needs more than `most` digits. Integers may always have 39.
pub fn without_exponent(text: &str, most: usize) -> Option<String> {
    let Decimal { negative, exponent, digits } = Decimal::read(text)?;
    let sign = if negative { "-" } else { "" };
    let length = i64::try_from(digits.len()).ok()?;
    let [whole, zeros] = [exponent, -exponent].map(|count| usize::try_from(count).unwrap_or(0));
    if length <= exponent {
        let digits = String::from_utf8(digits).ok().filter(|_| whole <= most.max(INTEGER_DIGITS))?;
        return Some(if whole == 0 { "0".to_owned() } else { format!("{sign}{digits:0<whole$}") });
    }
    if digits.len() + zeros > most {
        return None;
    }
    let (before, behind) = digits.split_at(whole);
    let [before, behind] = [before, behind].map(|digits| String::from_utf8_lossy(digits));
    let before = if before.is_empty() { "0" } else { &before };
    Some(format!("{sign}{before}.{}{behind}", "0".repeat(zeros)))
}

/// Compares two decimal numbers by value (`1.0` equals `1`, `1e2` is greater than `99`). Texts that
/// aren't decimal numbers are equal.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    match (Decimal::read(a), Decimal::read(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => Ordering::Equal,
    }
}

/// A number as 0.DIGITS × 10^exponent. The digits have no zeros at either end; zero has no digits.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    exponent: i64,
    digits: Vec<u8>,
}

impl Decimal {
    fn read(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], read_exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
        digits.drain(..zeros);
        digits.truncate(digits.iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1));
        let exponent = if digits.is_empty() { 0 } else { exponent + whole.len() as i64 - zeros as i64 };
        Some(Self { negative: negative && !digits.is_empty(), exponent, digits })
    }

    fn cmp(&self, other: &Self) -> Ordering {
        match (self.sign(), other.sign()) {
            (1, 1) => self.cmp_magnitude(other),
            (-1, -1) => other.cmp_magnitude(self),
            (a, b) => a.cmp(&b),
        }
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => -1,
        }
    }

    /// Digits without leading zeros compare like fractions: from the left, and a prefix is less
    /// than the longer number.
    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        self.exponent.cmp(&other.exponent).then_with(|| self.digits.cmp(&other.digits))
    }
}

fn read_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse::<u32>().ok().filter(|&magnitude| magnitude <= GREATEST_EXPONENT)?;
    let magnitude = i64::from(magnitude);
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_expanded() {
        for (text, expected) in [
            ("0", Some("0")),
            ("-0.0e5", Some("0")),
            ("1.50", Some("1.5")),
            ("1e3", Some("1000")),
            ("-9.9994e2", Some("-999.94")),
            ("1.05e-3", Some("0.00105")),
            ("-12e-2", Some("-0.12")),
            ("1e-8", Some("0.00000001")),
            ("1e-9", None),
            ("123456.789", None),
            ("1234567890123", Some("1234567890123")),
            ("12345.6780", Some("12345.678")),
        ] {
            assert_eq!(without_exponent(text, 8).as_deref(), expected, "{text}");
        }
        let length = |text| without_exponent(text, 8).map(|text| text.len());
        assert_eq!((length("1e38"), length("1e39")), (Some(39), None));
    }

    #[test]
    fn grammar() {
        for text in ["0", "-0", "+1", "12.50", ".5", "5.", "1e3", "1E-3", "-1.5e+10", "00.10", "1e9999"] {
            assert!(to_json(text).is_some(), "{text}");
        }
        for text in [
            "", "-", "+", ".", "e3", "1e", "1e+", "1e10000", "NaN", "inf", "1,5", "1 ", "0x10", "1_0",
            "1.2.3", "--1", "1e1.5", "١",
        ] {
            assert_eq!(to_json(text), None, "{text}");
        }
    }

    #[test]
    fn whole_numbers() {
        for (text, expected) in [
            ("3.0", Some("3")),
            ("3.00", Some("3")),
            ("1e2", Some("100")),
            ("-1.50E+1", Some("-15")),
            ("100e-2", Some("1")),
            ("0.0", Some("0")),
            ("-0.0", Some("0")),
            ("0e5", Some("0")),
            ("9007199254740993.0", Some("9007199254740993")),
            ("3.5", None),
            ("0.5", None),
            ("1e-2", None),
            ("3", None),
            ("1e10000", None),
            ("true", None),
        ] {
            assert_eq!(whole(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn order() {
        let ascending = [
            "-1e10",
            "-100",
            "-99.5",
            "-1",
            "-0.001",
            "0",
            "1e-9999",
            "0.001",
            "0.0011",
            "0.5",
            "1",
            "1.0001",
            "9",
            "10",
            "99",
            "1e2",
            "100.000000000000000000001",
            "123456789012345678901234567890",
            "1e9999",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        for (a, b) in [("1", "1.0"), ("100", "1e2"), ("0", "-0.00"), ("0.5", ".50"), ("-1e1", "-10.")] {
            assert_eq!(compare(a, b), Ordering::Equal, "{a} {b}");
        }
    }
}
