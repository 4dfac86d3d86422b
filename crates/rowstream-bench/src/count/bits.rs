//! Positions of bytes in a block of 64, as the bits of a word: bit 0 is the first byte.
//!
//! With words instead of bytes, we skip strings and count commas 64 at a time.

use wide::u8x16;

pub(super) const BLOCK: usize = 64;

/// Sixty-four bytes, ready for comparisons.
pub(super) struct Block([u8x16; 4]);

impl Block {
    pub(super) fn new(bytes: &[u8; BLOCK]) -> Self {
        let (parts, _) = bytes.as_chunks::<16>();
        Self([u8x16::new(parts[0]), u8x16::new(parts[1]), u8x16::new(parts[2]), u8x16::new(parts[3])])
    }

    /// Sets this bit in every byte.
    pub(super) fn with_bit(&self, bit: u8) -> Self {
        Self(self.0.map(|part| part | u8x16::splat(bit)))
    }

    /// The positions of this byte.
    pub(super) fn find(&self, byte: u8) -> u64 {
        let wanted = u8x16::splat(byte);
        let mask =
            |part: usize| u64::from(self.0[part].cmp_eq(wanted).move_mask().cast_unsigned()) << (16 * part);
        mask(0) | mask(1) | mask(2) | mask(3)
    }
}

/// The bits from each odd set bit up to the next even one, exclusive: the bytes between pairs of
/// quotes.
pub(super) fn between_pairs(quotes: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].into_iter().fold(quotes, |bits, shift| bits ^ (bits << shift))
}

/// The bits from `from` (inclusive) to `to` (exclusive).
pub(super) fn range(from: u32, to: u32) -> u64 {
    let below = |at: u32| 1_u64.checked_shl(at).map_or(u64::MAX, |bit| bit - 1);
    below(to) & !below(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_places() {
        let mut bytes = [b'.'; BLOCK];
        for at in [0, 15, 16, 40, 63] {
            bytes[at] = b'[';
        }
        let expected = 1 | 1 << 15 | 1 << 16 | 1 << 40 | 1 << 63;
        assert_eq!(Block::new(&bytes).find(b'['), expected);
        assert_eq!(Block::new(&bytes).with_bit(0x20).find(b'{'), expected);
        assert_eq!(Block::new(&bytes).find(b']'), 0);
    }

    #[test]
    fn pairs_and_ranges() {
        assert_eq!(between_pairs(0b1001_0010), 0b1110 | !0 << 7);
        assert_eq!(between_pairs(0b1_0010), 0b0_1110);
        assert_eq!(between_pairs(1 << 63), 1 << 63);
        assert_eq!(range(0, 64), u64::MAX);
        assert_eq!(range(2, 5), 0b11100);
        assert_eq!((range(64, 64), range(63, 64), range(3, 3)), (0, 1 << 63, 0));
    }
}
