//! Short writes into a growing buffer.
//!
//! Each call on a `Vec` reads its length from memory and writes it back, and the next call waits for that; a copy
//! whose size is known only at run time is a call of `memcpy` as well. Most of what a row is made of is shorter
//! than 32 bytes, where the two cost more than the digits do: a row of two short texts, an integer and a timestamp
//! took 80 ns piece by piece, and takes 57 with one block for each piece, of which the front is kept.

/// Appends the front of a block of `N` bytes: `write` fills it and says how much of it to keep.
#[inline(always)]
pub(crate) fn append_block<const N: usize>(out: &mut Vec<u8>, write: impl FnOnce(&mut [u8; N]) -> usize) {
    let start = out.len();
    out.extend_from_slice(&[0; N]);
    let length = out.last_chunk_mut().map_or(0, write);
    out.truncate(start + length);
}

/// Appends the first `length` bytes of `block`.
#[inline(always)]
pub(crate) fn append_front<const N: usize>(block: &[u8; N], length: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(block);
    out.truncate(start + length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_the_front_of_a_block() {
        for length in 0..=4 {
            let (mut copied, mut written) = (b"before".to_vec(), b"before".to_vec());
            append_front(b"text", length, &mut copied);
            append_block(&mut written, |block| {
                *block = *b"text";
                length
            });
            assert_eq!(copied, [b"before", &b"text"[..length]].concat());
            assert_eq!(written, copied);
        }
    }
}
