//! HTTP/1.1's chunked coding (RFC 9112, 7.1), read from arbitrary slices.

/// The position of the next byte in the coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the hexadecimal size, after this number of digits.
    Size(u8),
    /// In an extension, up to the end of its line.
    Extension,
    /// Before the line feed of the size.
    SizeFeed,
    Data,
    DataReturn,
    DataFeed,
    /// At the start of a line after the last chunk.
    Trailer,
    TrailerLine,
    /// Before the line feed that ends the body.
    EndFeed,
    End,
}

/// The bytes are not in the chunked coding.
#[derive(Debug, PartialEq, Eq)]
pub struct ChunkError;

/// Decodes one body.
#[derive(Debug)]
pub struct ChunkDecoder {
    state: State,
    /// Bytes of the chunk that haven't arrived yet.
    left: u64,
}

impl Default for ChunkDecoder {
    /// At the start of a body.
    fn default() -> Self {
        Self { state: State::Size(0), left: 0 }
    }
}

impl ChunkDecoder {
    /// Returns true after the last chunk and the trailers. Later bytes don't belong to this body.
    pub fn ended(&self) -> bool {
        self.state == State::End
    }

    /// Removes bytes from the front of `bytes` up to and including the next piece of data, and
    /// returns that piece. Returns `None` once `bytes` is empty or the body has ended.
    ///
    /// # Errors
    /// The bytes are not in the chunked coding.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, ChunkError> {
        while let Some((&first, rest)) = bytes.split_first() {
            match self.state {
                State::End => break,
                State::Data => {
                    let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                    let (data, rest) = bytes.split_at(length);
                    *bytes = rest;
                    self.left -= length as u64;
                    if self.left == 0 {
                        self.state = State::DataReturn;
                    }
                    return Ok(Some(data));
                }
                _ => self.state = self.step(first)?,
            }
            *bytes = rest;
        }
        Ok(None)
    }

    /// The next state after a byte that isn't data.
    fn step(&mut self, byte: u8) -> Result<State, ChunkError> {
        Ok(match (self.state, byte) {
            (State::Size(digits), _) if byte.is_ascii_hexdigit() && digits < 16 => {
                let digit = char::from(byte).to_digit(16).ok_or(ChunkError)?;
                self.left = self.left << 4 | u64::from(digit);
                State::Size(digits + 1)
            }
            (State::Size(1..), b'\r') | (State::Extension, b'\r') => State::SizeFeed,
            (State::Size(1..), b';' | b' ' | b'\t') => State::Extension,
            (State::Extension, _) if byte != b'\n' => State::Extension,
            (State::SizeFeed, b'\n') if self.left == 0 => State::Trailer,
            (State::SizeFeed, b'\n') => State::Data,
            (State::DataReturn, b'\r') => State::DataFeed,
            (State::DataFeed, b'\n') => State::Size(0),
            (State::Trailer, b'\r') => State::EndFeed,
            (State::EndFeed, b'\n') => State::End,
            (State::TrailerLine, b'\n') => State::Trailer,
            (State::Trailer | State::TrailerLine, _) => State::TrailerLine,
            _ => return Err(ChunkError),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the data, true if the body ended, and the bytes left over.
    fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool, Vec<u8>), ChunkError> {
        let (mut chunked, mut data, mut left) = (ChunkDecoder::default(), Vec::new(), Vec::new());
        for piece in pieces {
            let mut bytes = *piece;
            while let Some(part) = chunked.next(&mut bytes)? {
                data.extend_from_slice(part);
            }
            left.extend_from_slice(bytes);
        }
        Ok((data, chunked.ended(), left))
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
            extension in prop::sample::select(vec!["", ";a=b", " ;\"x\""]),
            trailer in prop::sample::select(vec!["", "a: b\r\n", "a: b\r\nc: d\r\n"]),
            size in 1_usize..50,
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend(format!("{:X}{extension}\r\n", chunk.len()).bytes().chain(chunk.iter().copied()).chain(*b"\r\n"));
            }
            text.extend(format!("0{extension}\r\n{trailer}\r\nHTTP").bytes());
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            prop_assert_eq!(decode(&pieces), Ok((chunks.concat(), true, b"HTTP".to_vec())));
            let cut = &text[..text.len() - 5];
            prop_assert_eq!(decode(&[cut]), Ok((chunks.concat(), false, Vec::new())));
        }
    }

    #[test]
    fn malformed() {
        for text in
            ["\r\n", "x\r\n", "1\n", "1\r\nab\r\n", "-1\r\n", "11111111111111111\r\n", "0\r\n\rx", "1;\n"]
        {
            assert_eq!(decode(&[text.as_bytes()]), Err(ChunkError), "{text:?}");
        }
    }
}
