//! Integers as text.

use crate::append::{Room, put};

/// Ten to the power of 8, the first number with nine digits.
const TEN_TO_8: u64 = 100_000_000;
/// `0` in each byte.
const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// Puts an integer into `room`. Returns its length.
#[inline]
pub(crate) fn put_int(int: i64, room: &mut Room) -> usize {
    room[0] = b'-';
    let sign = usize::from(int < 0);
    match int.unsigned_abs() {
        number @ ..TEN_TO_8 => put_first(number, sign, room),
        number => put_large(number, sign, room),
    }
}

/// Puts a number of nine or more digits at `at`. Returns its end.
fn put_large(number: u64, at: usize, room: &mut Room) -> usize {
    let (rest, last) = (number / TEN_TO_8, number % TEN_TO_8);
    let at = match rest {
        ..TEN_TO_8 => put_first(rest, at, room),
        _ => {
            let at = put_first(rest / TEN_TO_8, at, room);
            put_eight(rest % TEN_TO_8, at, room)
        }
    };
    put_eight(last, at, room)
}

/// Puts a number below 10^8 at `at`, without leading zeros. Returns its end.
#[inline]
fn put_first(number: u64, at: usize, room: &mut Room) -> usize {
    let digits = eight_digits(number);
    // The first digit is the lowest byte. The mark in the last byte keeps one digit of 0.
    let zeros = (digits | (1 << 63)).trailing_zeros() as usize / 8;
    put(&((digits | ZEROS) >> (8 * zeros)).to_le_bytes(), at, room);
    at + 8 - zeros
}

/// Puts a number below 10^8 at `at`, with leading zeros. Returns its end.
#[inline]
fn put_eight(number: u64, at: usize, room: &mut Room) -> usize {
    put(&(eight_digits(number) | ZEROS).to_le_bytes(), at, room)
}

/// The digits of a number below 10^8, one per byte, with the first digit in the lowest byte.
///
/// All digits are computed at once. We split the number into two numbers of four digits in one
/// word, split these into four numbers of two digits, and those into eight digits. A division by
/// 10^n is a multiplication that rounds up and a shift. The fields are wide enough not to overflow
/// into each other (P. Khuong, "How to print integers really fast").
#[inline]
pub(crate) fn eight_digits(number: u64) -> u64 {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((twos - 10 * tens) << 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(int: i64) -> String {
        let mut room = [b'x'; size_of::<Room>()];
        let length = put_int(int, &mut room);
        String::from_utf8(room[..length].to_vec()).unwrap()
    }

    #[test]
    fn writes_what_the_formatter_writes() {
        let powers = (0..19).map(|power| 10_i64.pow(power));
        let ends =
            powers.flat_map(|power| [power - 1, power, power + 1, 7 * (power / 8), power.saturating_mul(9)]);
        for int in ends.chain(0..100_000).chain([i64::MAX, i64::MAX - 1]) {
            assert_eq!(text(int), int.to_string());
            assert_eq!(text(-int), (-int).to_string());
        }
        assert_eq!(text(i64::MIN), i64::MIN.to_string());
    }

    /// Every half and every quarter has all of its possible values.
    #[test]
    fn eight_digits_are_exact() {
        for number in (0..10_000).flat_map(|four| [four, 10_000 * four, 10_000 * four + (9_999 - four)]) {
            let digits = (eight_digits(number) | ZEROS).to_le_bytes();
            assert_eq!(digits, *format!("{number:08}").as_bytes());
        }
    }
}
