//! Decimals in Arrow's form: one integer in units of the last decimal place, in two's complement,
//! little-endian.

/// Digits are processed in chunks of this many: ten to this power fits into 64 bits.
const CHUNK: u64 = 10_u64.pow(19);

/// Converts `number`, a JSON number, to units of the last of `scale` decimal places. If `precision`
/// is at most 38, the first 16 bytes are the number in 128 bits. If it's at most 76, all bytes are
/// the number in 256 bits. Returns `None` if the number has more than `precision` digits, or a
/// non-zero digit beyond the scale.
pub fn units(number: &str, precision: u8, scale: u8) -> Option<[u8; 32]> {
    let (negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number),
    };
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i64 = exponent.parse().ok()?;
    // The number of zeros after the digits. If negative, the number of digits beyond the scale.
    let zeros = exponent.checked_add(i64::from(scale))?.checked_sub(fraction.len() as i64)?;
    let beyond = usize::try_from(zeros.min(0).unsigned_abs()).unwrap_or(usize::MAX);
    // More zeros than the precision are too many, unless the number is zero.
    let zeros = usize::try_from(zeros.max(0)).unwrap_or(usize::MAX).min(usize::from(precision) + 1);
    let digits = || whole.bytes().chain(fraction.bytes()).map(|digit| digit.wrapping_sub(b'0'));
    let kept = (whole.len() + fraction.len()).saturating_sub(beyond);
    if digits().skip(kept).any(|digit| digit != 0) {
        return None;
    }
    let kept = digits().take(kept).chain(std::iter::repeat_n(0, zeros));
    let sum = sum(kept.skip_while(|digit| *digit == 0), precision)?;
    Some(if negative { sum.negated() } else { sum }.to_le_bytes())
}

/// The integer with these digits. `None` if there are more than `most`.
fn sum(digits: impl Iterator<Item = u8>, most: u8) -> Option<WideInteger> {
    let mut sum = WideInteger::default();
    let (mut count, mut factor, mut chunk) = (0, 1, 0);
    for digit in digits {
        count += 1;
        if count > most {
            return None;
        }
        (factor, chunk) = (factor * 10, chunk * 10 + u64::from(digit));
        if factor == CHUNK {
            sum.append(factor, chunk);
            (factor, chunk) = (1, 0);
        }
    }
    sum.append(factor, chunk);
    Some(sum)
}

/// An integer of 256 bits, lowest limb first. 76 digits need 253 bits.
#[derive(Default)]
struct WideInteger([u64; 4]);

impl WideInteger {
    /// Multiplies by `factor`, and adds `digits`.
    fn append(&mut self, factor: u64, digits: u64) {
        let mut carry = u128::from(digits);
        for limb in &mut self.0 {
            carry += u128::from(*limb) * u128::from(factor);
            *limb = carry as u64;
            carry >>= 64;
        }
    }

    fn negated(self) -> Self {
        let mut negated = Self(self.0.map(|limb| !limb));
        negated.append(1, 1);
        negated
    }

    fn to_le_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *bytes = limb.to_le_bytes();
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_128_bits(number: &str, precision: u8, scale: u8) -> Option<i128> {
        let units = units(number, precision, scale)?;
        let (low, high) = units.split_at(16);
        let value = i128::from_le_bytes(low.try_into().unwrap());
        let sign = if value < 0 { 0xff } else { 0 };
        assert_eq!(high, [sign; 16], "{number} in 256 bits");
        Some(value)
    }

    #[test]
    fn counts_units_of_the_last_place() {
        for (number, precision, scale, expected) in [
            ("0", 1, 0, Some(0)),
            ("-0", 1, 0, Some(0)),
            ("0.00", 2, 2, Some(0)),
            ("12.50", 4, 2, Some(1250)),
            ("-12.50", 4, 2, Some(-1250)),
            ("12.5", 4, 2, Some(1250)),
            ("12", 4, 2, Some(1200)),
            ("12.500", 4, 2, Some(1250)),
            ("12.505", 4, 2, None),
            ("123", 4, 2, None),
            ("99.99", 4, 2, Some(9999)),
            ("100.00", 4, 2, None),
            ("0.0099", 4, 4, Some(99)),
            ("1e3", 4, 0, Some(1000)),
            ("1E+3", 3, 0, None),
            ("1.25e1", 4, 2, Some(1250)),
            ("1250e-2", 4, 2, Some(1250)),
            ("1e-3", 4, 2, None),
            ("0e999999999", 4, 2, Some(0)),
            ("0e-999999999", 4, 2, Some(0)),
            ("1e999999999", 4, 2, None),
            ("1e-999999999", 4, 2, None),
            ("1e9999999999999999999999", 4, 2, None),
            ("1e9223372036854775807", 4, 2, None),
            ("1e-9223372036854775808", 4, 2, None),
            ("9999999999999999999", 19, 0, Some(9_999_999_999_999_999_999)),
            ("18446744073709551616", 20, 0, Some(1 << 64)),
            ("-99999999999999999999999999999999999999", 38, 0, Some(1 - 10_i128.pow(38))),
            ("999999999999999999999999999999.99999999", 38, 8, Some(10_i128.pow(38) - 1)),
        ] {
            assert_eq!(in_128_bits(number, precision, scale), expected, "{number} {precision} {scale}");
        }
    }

    /// The integer in decimal, by long division.
    fn text(units: [u8; 32]) -> String {
        let mut limbs = [0; 4];
        for (limb, bytes) in limbs.iter_mut().zip(units.as_chunks::<8>().0) {
            *limb = u64::from_le_bytes(*bytes);
        }
        let mut digits = Vec::new();
        while limbs != [0; 4] {
            let mut rest = 0;
            for limb in limbs.iter_mut().rev() {
                let part = (rest << 64) | u128::from(*limb);
                *limb = (part / 10) as u64;
                rest = part % 10;
            }
            digits.push(char::from(b'0' + rest as u8));
        }
        digits.iter().rev().collect()
    }

    #[test]
    fn uses_256_bits() {
        for length in 1..=76 {
            for digits in ["9", "10", "1234567890"] {
                let number: String = digits.chars().cycle().take(length).collect();
                assert_eq!(text(units(&number, 76, 0).unwrap()), number);
                assert_eq!(text(negated(units(&format!("-{number}"), 76, 0).unwrap())), number);
                assert_eq!(units(&format!("{number}0"), length as u8, 0), None, "{number}0");
            }
        }
    }

    /// Negates the integer, byte by byte.
    fn negated(units: [u8; 32]) -> [u8; 32] {
        let mut carry = true;
        units.map(|byte| {
            let (byte, next) = (!byte).overflowing_add(u8::from(carry));
            carry = next;
            byte
        })
    }
}
