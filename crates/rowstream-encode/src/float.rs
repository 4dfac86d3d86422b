//! Floats as text: the shortest digits that parse to the same float, in PostgreSQL's layout.
//!
//! The digits are zmij's. The layout is that of `float8out` and `float4out` (`src/common/d2s.c` and
//! `f2s.c`, `to_chars`). It's scientific if the decimal exponent is below -4, or at least the
//! type's precision in whole digits (15 and 6). Otherwise it's fixed, without an empty fraction.

/// Appends a 64-bit float; NaN and infinities as PostgreSQL spells them, without quotes.
pub(crate) fn write_f64(float: f64, out: &mut Vec<u8>) {
    let magnitude = float.abs();
    if !float.is_finite() {
        write_non_finite(float, out);
    } else if float == 0.0 || (1e-4..1e15).contains(&magnitude) {
        write_fixed(zmij::Buffer::new().format_finite(float), out);
    } else {
        let neighbours = [magnitude.next_down() as u128, magnitude as u128, magnitude.next_up() as u128];
        let shortest = Decimal::parse(zmij::Buffer::new().format_finite(magnitude));
        write_scientific(float.is_sign_negative(), shortest.inside(neighbours), out);
    }
}

/// Appends a 32-bit float; NaN and infinities as PostgreSQL spells them, without quotes.
pub(crate) fn write_f32(float: f32, out: &mut Vec<u8>) {
    let magnitude = float.abs();
    if !float.is_finite() {
        write_non_finite(f64::from(float), out);
    } else if float == 0.0 || (1e-4..1e6).contains(&magnitude) {
        write_fixed(zmij::Buffer::new().format_finite(float), out);
    } else {
        let neighbours = [magnitude.next_down() as u128, magnitude as u128, magnitude.next_up() as u128];
        let shortest = Decimal::parse(zmij::Buffer::new().format_finite(magnitude));
        write_scientific(float.is_sign_negative(), shortest.inside(neighbours), out);
    }
}

fn write_non_finite(float: f64, out: &mut Vec<u8>) {
    let name: &[u8] = match float {
        f64::INFINITY => b"Infinity",
        f64::NEG_INFINITY => b"-Infinity",
        _ => b"NaN",
    };
    out.extend_from_slice(name);
}

/// Appends zmij's text `shortest` without an empty fraction. zmij's fixed range covers both of
/// PostgreSQL's.
fn write_fixed(shortest: &str, out: &mut Vec<u8>) {
    let text = shortest.strip_suffix(".0").unwrap_or(shortest);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a decimal with one digit before the point, and the exponent as in C's `%e`: a sign and
/// at least two digits.
fn write_scientific(negative: bool, decimal: Decimal, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let (first, rest) = buffer.format(decimal.digits).split_at(1);
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(first.as_bytes());
    if !rest.is_empty() {
        out.push(b'.');
        out.extend_from_slice(rest.as_bytes());
    }
    let exponent = decimal.exponent + rest.len() as i32;
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    if exponent.abs() < 10 {
        out.push(b'0');
    }
    out.extend_from_slice(itoa::Buffer::new().format(exponent.abs()).as_bytes());
}

/// `digits`·10^`exponent`; the last digit is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    /// Parses zmij's text of a float above 0: `1250000.0`, `0.00001`, `1.25e-7`.
    fn parse(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = whole.bytes().chain(fraction.bytes());
        // At most 17 digits and a three-digit exponent, so neither can overflow.
        let digits = digits.fold(0_u64, |digits, digit| 10 * digits + u64::from(digit - b'0'));
        Self::new(digits.into(), exponent.parse::<i32>().unwrap_or_default() - fraction.len() as i32)
    }

    fn new(mut digits: u128, mut exponent: i32) -> Self {
        while digits != 0 && digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        Self { digits, exponent }
    }

    /// Returns this decimal, or the shortest one inside the float's interval if this is on its
    /// edge.
    ///
    /// The decimals that parse to a float lie between the midpoints to its neighbours. A midpoint
    /// itself depends on the reader's rounding. So PostgreSQL excludes midpoints (`d2s.c`,
    /// `acceptBounds`), but zmij includes them: `1e23` is a midpoint, and PostgreSQL writes
    /// `9.999999999999999e+22`. `neighbours` are the float before, the float, and the one after. A
    /// midpoint can be as short as this decimal only if they're whole numbers, from 2^53 and 2^24
    /// on. Beyond 2^128 it affects a handful of floats, which we leave as they are.
    fn inside(self, neighbours: [u128; 3]) -> Self {
        let [below, float, above] = neighbours;
        match self.whole() {
            Some(whole) if whole < float && float - whole == (float - below) / 2 => {
                self.rounded(float, whole)
            }
            Some(whole) if whole > float && whole - float == (above - float) / 2 => {
                self.rounded(float, whole)
            }
            _ => self,
        }
    }

    /// This decimal as a whole number, if it's one below 2^128.
    fn whole(self) -> Option<u128> {
        let exponent = u32::try_from(self.exponent).ok()?;
        self.digits.checked_mul(10_u128.checked_pow(exponent)?)
    }

    /// `float`, rounded to the fewest digits whose value isn't `edge`.
    fn rounded(self, float: u128, edge: u128) -> Self {
        let round = |exponent: i32| Self::new(round_half_even(float, 10_u128.pow(exponent as u32)), exponent);
        (0..self.exponent).rev().map(round).find(|decimal| decimal.whole() != Some(edge)).unwrap_or(self)
    }
}

fn round_half_even(number: u128, unit: u128) -> u128 {
    let (quotient, rest) = (number / unit, number % unit);
    let up = rest > unit - rest || (rest == unit - rest && quotient % 2 == 1);
    quotient + u128::from(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f64_text(float: f64) -> String {
        let mut out = Vec::new();
        write_f64(float, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn f32_text(float: f32) -> String {
        let mut out = Vec::new();
        write_f32(float, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lays_out_64_bits_as_float8out() {
        for (float, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (100_000.0, "100000"),
            (0.0001, "0.0001"),
            (0.000_123_4, "0.0001234"),
            (0.00001, "1e-05"),
            (0.000_099_999_999_999_999_98, "9.999999999999998e-05"),
            (0.000_012_5, "1.25e-05"),
            (-0.000_001_25, "-1.25e-06"),
            (999_999_999_999_999.0, "999999999999999"),
            (999_999_999_999_999.9, "999999999999999.9"),
            (1e15, "1e+15"),
            (-1_234_567_890_123_456.0, "-1.234567890123456e+15"),
            (9_007_199_254_740_992.0, "9.007199254740992e+15"),
            (12_345_678_901_234_567.0, "1.2345678901234568e+16"),
            (1e20, "1e+20"),
            // Cut by one digit, the next two lie midway between two floats.
            (1e23, "9.999999999999999e+22"),
            (-70_129_655_170_432_416.0, "-7.0129655170432416e+16"),
            (2_f64.powi(60), "1.152921504606847e+18"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(f64_text(float), expected);
        }
    }

    #[test]
    fn lays_out_32_bits_as_float4out() {
        for (float, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (999_999.0, "999999"),
            (999_999.94, "999999.94"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (16_777_216.0, "1.6777216e+07"),
            (-85_449_536.0, "-8.5449536e+07"),
            (107_495_296.0, "1.07495296e+08"),
            (0.0001, "0.0001"),
            (0.000_099, "9.9e-05"),
            (1e-5, "1e-05"),
            (1.25e-6, "1.25e-06"),
            (1e-45, "1e-45"),
            (f32::MAX, "3.4028235e+38"),
            (f32::MIN_POSITIVE, "1.1754944e-38"),
            (f32::NAN, "NaN"),
            (f32::INFINITY, "Infinity"),
            (f32::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(f32_text(float), expected);
        }
    }
}
