//! Short writes into a growing buffer.
//!
//! Each call on a `Vec` reads its length from memory and writes it back, and the next call has to
//! wait for that. A copy of a size that's known only at run time is also a call of `memcpy`. Most
//! parts of a row are shorter than 32 bytes, so these two cost more than formatting the digits. So
//! we write a key and its value together: we append a block of fixed size that begins with the key,
//! write the value into the rest, and truncate the unused part.

/// Room for a short value, the most common case: a text of 32 bytes, a timestamp or a UUID, each
/// with its quotes.
pub(crate) const ROOM: usize = 40;

/// The room for one value.
pub(crate) type Room = [u8; ROOM];

/// Puts `bytes` at `at`. Returns their end.
///
/// Unlike `copy_from_slice`, an assignment of arrays is no call, however the compiler splits the
/// crate into units.
///
/// # Panics
///
/// If `room` is too short.
#[inline(always)]
pub(crate) fn put<const N: usize>(bytes: &[u8; N], at: usize, room: &mut Room) -> usize {
    *room[at..].first_chunk_mut().expect("the value fits into its room") = *bytes;
    at + N
}

/// The bytes appended for a prefix and its value.
const BLOCK: usize = 64;
/// The longest prefix that leaves room for a value.
const SHORT: usize = BLOCK - ROOM;

/// The bytes before a value.
#[derive(Debug)]
pub(crate) struct Prefix {
    length: usize,
    /// The text, if it's short.
    block: [u8; BLOCK],
    /// The text, if it's long.
    long: Box<[u8]>,
}

impl Prefix {
    pub(crate) fn new(text: &[u8]) -> Self {
        let (short, long) = if text.len() > SHORT { (&[][..], text) } else { (text, &[][..]) };
        let mut block = [0; BLOCK];
        block[..short.len()].copy_from_slice(short);
        Self { length: text.len(), block, long: long.into() }
    }

    /// Appends the prefix and room for a value.
    #[inline]
    pub(crate) fn append<'a>(&self, out: &'a mut Vec<u8>) -> Slot<'a> {
        let taken = self.length;
        if taken > SHORT {
            out.extend_from_slice(&self.long);
            return Slot::new(out);
        }
        out.extend_from_slice(&self.block);
        Slot { out, taken }
    }
}

/// The room for one value at the end of a buffer: [`ROOM`] bytes that are written and then kept or
/// released.
pub(crate) struct Slot<'a> {
    /// Ends with a block.
    out: &'a mut Vec<u8>,
    /// Bytes of the block before the value, at most [`SHORT`].
    taken: usize,
}

impl<'a> Slot<'a> {
    /// A slot without a prefix.
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(&[0; BLOCK]);
        Self { out, taken: 0 }
    }

    /// A slot after `prefix`.
    #[inline]
    pub(crate) fn after(prefix: u8, out: &'a mut Vec<u8>) -> Self {
        let mut block = [0; BLOCK];
        block[0] = prefix;
        out.extend_from_slice(&block);
        Self { out, taken: 1 }
    }

    /// The room of [`Self::after`] together with the prefix, which the caller must restore.
    #[inline]
    pub(crate) fn with_prefix(&mut self) -> &mut [u8; 1 + ROOM] {
        let block = self.out.last_chunk_mut::<BLOCK>();
        let room = block.and_then(|block| block.first_chunk_mut());
        room.expect("a block ends in room for a value")
    }

    #[inline]
    pub(crate) fn room(&mut self) -> &mut Room {
        let block = self.out.last_chunk_mut::<BLOCK>();
        let room = block.and_then(|block| block[self.taken..].first_chunk_mut());
        room.expect("a block ends in room for a value")
    }

    /// Keeps the first `length` bytes of the room.
    #[inline]
    pub(crate) fn keep(self, length: usize) {
        self.out.truncate(self.out.len() - BLOCK + self.taken + length);
    }

    /// Releases the room of a value that may be longer. The caller appends it instead.
    #[inline]
    pub(crate) fn release(self) -> &'a mut Vec<u8> {
        self.out.truncate(self.out.len() - BLOCK + self.taken);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stands_behind_its_prefix() {
        for length in 0..100 {
            let text: Vec<u8> = (0..length).collect();
            let (mut kept, mut released) = (b"before".to_vec(), b"before".to_vec());
            let mut slot = Prefix::new(&text).append(&mut kept);
            slot.room()[..5].copy_from_slice(b"value");
            slot.keep(3);
            Prefix::new(&text).append(&mut released).release().extend_from_slice(b"val");
            assert_eq!(kept, [b"before", &text[..], b"val"].concat());
            assert_eq!(released, kept);
        }
    }
}
