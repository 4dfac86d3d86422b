//! Text as a JSON string.
//!
//! We escape the same bytes in the same way as PostgreSQL's `escape_json`
//! (`src/backend/utils/adt/json.c`): the seven bytes with a short form, and the other controls
//! below 0x20 as `\u00xx`. RFC 8259, section 7, requires no others.

use crate::append::{ROOM, Room, put};

/// Puts `text` in quotes into `room`. Returns its length, or `None` if it's longer than 32 bytes or
/// contains a quote, a control below 0x20, or `special`, which is the backslash in JSON.
#[inline(always)]
pub(crate) fn put_string(text: &str, special: u8, room: &mut Room) -> Option<usize> {
    let bytes = text.as_bytes();
    match bytes.len() {
        8..=16 => put_clean::<8>(bytes, room, |first, last| {
            marks(word(first), special) | marks(word(last), special) != 0
        }),
        4..=7 => put_clean::<4>(bytes, room, |first, last| marks(halves(first, last), special) != 0),
        17..=32 => {
            put_clean::<16>(bytes, room, |first, last| is_dirty(first, special) | is_dirty(last, special))
        }
        2..=3 => {
            put_clean::<2>(bytes, room, |first, last| is_dirty(first, special) | is_dirty(last, special))
        }
        1 => put_clean::<1>(bytes, room, |first, _| is_dirty(first, special)),
        0 => Some(put(b"\"\"", 0, room)),
        _ => None,
    }
}

/// Puts a clean string of `N` to 2·`N` bytes as its first and last `N`, which may overlap.
#[inline]
fn put_clean<const N: usize>(
    bytes: &[u8],
    room: &mut Room,
    dirty: impl FnOnce([u8; N], [u8; N]) -> bool,
) -> Option<usize> {
    const { assert!(2 * N + 2 <= ROOM) };
    let (first, last) = (*bytes.first_chunk()?, *bytes.last_chunk()?);
    if dirty(first, last) {
        return None;
    }
    let end = bytes.len() + 1;
    room[0] = b'"';
    put(&first, 1, room);
    put(&last, end - N, room);
    room[end] = b'"';
    Some(end + 1)
}

/// Appends `text` as a JSON string with its quotes and escapes.
#[inline(never)]
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    // Space for the quotes and the text together, so that a clean string grows the buffer at most
    // once.
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    write_escaped(bytes, out);
    out.push(b'"');
}

/// Appends `rest` with its escapes. Runs of clean bytes are copied in one piece.
#[inline]
fn write_escaped(mut rest: &[u8], out: &mut Vec<u8>) {
    loop {
        let (clean, dirty) = rest.split_at(clean_prefix(rest));
        out.extend_from_slice(clean);
        let Some((&byte, tail)) = dirty.split_first() else { return };
        write_escape(byte, out);
        rest = tail;
    }
}

/// Appends the escape of one byte.
#[inline]
fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let [high, low] = crate::hex::digits(byte);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// The number of bytes at the start of `bytes` that need no escape.
#[inline]
fn clean_prefix(bytes: &[u8]) -> usize {
    let mut at = clean_blocks(bytes);
    while let Some(word) = bytes[at..].first_chunk() {
        if let Some(offset) = first_escape(*word) {
            return at + offset;
        }
        at += WORD;
    }
    at + clean_tail(bytes, at)
}

/// The number of clean bytes at the start, in whole blocks. The block with the first escape is left
/// to the scan by words.
///
/// The test of a block has no branch, so the compiler can vectorise it. 10 KB of clean text need a
/// third of the time of a scan by words alone.
#[inline]
fn clean_blocks(bytes: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    blocks.iter().position(|block| is_dirty(*block, b'\\')).unwrap_or(blocks.len()) * BLOCK
}

/// The number of clean bytes from `at` to the end, which is less than a word away. All bytes before
/// `at` are clean.
#[inline]
fn clean_tail(bytes: &[u8], at: usize) -> usize {
    let left = bytes.len() - at;
    let Some(last) = bytes.last_chunk() else {
        return bytes.iter().position(|&byte| needs_escape(byte, b'\\')).unwrap_or(left);
    };
    // The last word of the text begins with bytes that we know to be clean, so one test replaces
    // seven.
    first_escape(*last).map_or(left, |offset| offset + left - WORD)
}

#[inline]
fn is_dirty<const N: usize>(block: [u8; N], special: u8) -> bool {
    block.into_iter().fold(false, |dirty, byte| dirty | needs_escape(byte, special))
}

#[inline]
fn needs_escape(byte: u8, special: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == special)
}

const WORD: usize = size_of::<u64>();

fn word(bytes: [u8; WORD]) -> u64 {
    u64::from_le_bytes(bytes)
}

fn halves(low: [u8; WORD / 2], high: [u8; WORD / 2]) -> u64 {
    u64::from(u32::from_le_bytes(low)) | (u64::from(u32::from_le_bytes(high)) << 32)
}

/// The offset of the first byte of a word that needs an escape.
#[inline]
fn first_escape(bytes: [u8; WORD]) -> Option<usize> {
    let marks = marks(word(bytes), b'\\');
    (marks != 0).then(|| marks.trailing_zeros() as usize / 8)
}

/// Marks the high bit of each byte that needs an escape, with one test for all eight bytes.
///
/// `x - n·ONES & !x & HIGH` has the high bit of each byte below `n` (for `n` up to 0x80; "Bit
/// Twiddling Hacks", S. E. Anderson). A borrow can also mark a clean byte, but only above a byte
/// that really needs an escape, and only the lowest mark counts. Flipping bit 1 turns `"` (0x22)
/// into 0x20 and maps controls to controls, so one comparison finds both.
#[inline]
fn marks(word: u64, special: u8) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let control_or_quote = (word ^ (0x02 * ONES)).wrapping_sub(0x21 * ONES);
    let special = (word ^ (u64::from(special) * ONES)).wrapping_sub(ONES);
    (control_or_quote | special) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = Vec::new();
        write_string(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn escapes_what_postgres_escapes() {
        for (text, expected) in [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{8}\u{c}\n\r\t", r#""\b\f\n\r\t""#),
            ("\0\u{1}\u{1f}", r#""\u0000\u0001\u001f""#),
            ("/<>&'", r#""/<>&'""#),
            ("\u{7f}é\u{2028}😀", "\"\u{7f}é\u{2028}😀\""),
        ] {
            assert_eq!(escaped(text), expected, "{text:?}");
        }
    }

    /// Words, blocks and the overlapping tail meet at different offsets, so we test each byte at
    /// all of them.
    #[test]
    fn finds_every_special_byte_at_every_offset() {
        for length in 1..=72 {
            for offset in 0..length {
                for byte in 0..0x80 {
                    let mut text = vec![b'x'; length];
                    text[offset] = byte;
                    let text = String::from_utf8(text).unwrap();
                    let expected = if needs_escape(byte, b'\\') { offset } else { length };
                    assert_eq!(clean_prefix(text.as_bytes()), expected, "{text:?}");
                }
            }
        }
    }

    /// The tests of one byte and of eight must agree.
    #[test]
    fn a_word_agrees_with_its_bytes() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                let word = [b'x', first, second, 0xff, 0x80, 0x21, 0x7f, b'x'];
                assert_eq!(
                    first_escape(word),
                    word.iter().position(|&byte| needs_escape(byte, b'\\')),
                    "{word:?}"
                );
            }
        }
    }
}
