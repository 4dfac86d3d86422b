//! The decoders of content codings, from the libraries' own readers and writers.

use std::io::{Read, Write};

/// The names of the server's codings.
pub const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];

/// Decodes a body.
///
/// # Errors
/// The body doesn't end with its end mark. The error contains everything that could be decoded.
pub fn decode(coding: &str, body: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
    let mut rest = body;
    let mut decoder: Box<dyn Read + '_> = match coding {
        "zstd" => Box::new(zstd::stream::read::Decoder::with_buffer(&mut rest).expect("a decoder")),
        "br" => Box::new(brotli::Decompressor::new(&mut rest, 4096)),
        "gzip" => Box::new(flate2::bufread::GzDecoder::new(&mut rest)),
        _ => panic!("there is no coding {coding}"),
    };
    let mut decoded = Vec::new();
    let read = decoder.read_to_end(&mut decoded);
    drop(decoder);
    if read.is_ok() && rest.is_empty() { Ok(decoded) } else { Err(decoded) }
}

/// A decoder for written bytes. After each flush, `into` has everything that can be decoded.
pub fn decoder<'a>(coding: &str, into: impl Write + Send + 'a) -> Box<dyn Write + Send + 'a> {
    match coding {
        "zstd" => Box::new(zstd::stream::write::Decoder::new(into).expect("a decoder")),
        "br" => Box::new(brotli::DecompressorWriter::new(into, 4096)),
        "gzip" => Box::new(flate2::write::GzDecoder::new(into)),
        _ => panic!("there is no coding {coding}"),
    }
}
