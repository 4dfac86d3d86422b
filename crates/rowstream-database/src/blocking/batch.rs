//! Packs rows into bytes in the worker, so that the session can read them in place.
//!
//! ```text
//! row = length of its values (u32, little-endian), values
//! ```
//!
//! The driver defines the values. Both the writer and the reader of lengths are in this file, so
//! the reader trusts the bytes and panics on broken ones.

use rowstream_core::Error;

/// The number of bytes of a row's length.
const HEAD: usize = 4;

/// Appends the row that `pack` writes to `batch`.
///
/// # Errors
/// The error of `pack`; `batch` is then unchanged.
#[inline]
pub(super) fn push_row(
    batch: &mut Vec<u8>,
    pack: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    let start = batch.len();
    batch.extend_from_slice(&[0; HEAD]);
    if let Err(error) = pack(batch) {
        batch.truncate(start);
        return Err(error);
    }
    let length = u32::try_from(batch.len() - start - HEAD).expect("rows are below 4 GiB");
    batch[start..start + HEAD].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Returns the values of the row at `at`, and the position of the next row.
#[inline]
pub(super) fn row_at(batch: &[u8], at: usize) -> (&[u8], usize) {
    let (length, rest) = batch[at..].split_first_chunk::<HEAD>().expect("a length has 4 bytes");
    let length = u32::from_le_bytes(*length) as usize;
    (&rest[..length], at + HEAD + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut batch = Vec::new();
        for row in [&b"one"[..], b"", b"three"] {
            push_row(&mut batch, |batch| {
                batch.extend_from_slice(row);
                Ok(())
            })
            .unwrap();
        }
        let (first, at) = row_at(&batch, 0);
        let (second, at) = row_at(&batch, at);
        let (third, at) = row_at(&batch, at);
        assert_eq!((first, second, third, at), (&b"one"[..], &b""[..], &b"three"[..], batch.len()));
    }

    #[test]
    fn a_row_that_cannot_be_packed_leaves_the_batch_as_it_was() {
        let mut batch = vec![7];
        let error = push_row(&mut batch, |batch| {
            batch.extend_from_slice(b"half");
            Err(Error::row_too_large(113, 112))
        });
        assert_eq!(error.unwrap_err().message(), "a row of 113 bytes is over the limit of 112 bytes");
        assert_eq!(batch, [7]);
    }
}
