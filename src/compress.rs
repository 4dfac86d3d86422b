//! Compression of bodies (RFC 9110, section 8.4.1): chunks in, chunks out, in any format.
//!
//! A [`Compressor`] is between the rows and HTTP. It's polled like the rows, without a task or a
//! channel. Invariants:
//!
//! 1. memory: the state of one encoder, whose size is fixed here, and the chunk that is compressed;
//! 2. input is sent within [`FLUSH_AFTER`] of the moment when the rows have nothing more ready.
//!    While rows arrive quickly, we don't flush: a flush ends a block early, which makes the output
//!    larger;
//! 3. only [`Compressor::finish`] writes the end mark. A stream that fails is dropped without it,
//!    so a decoder can't mistake a part for the whole.

use std::mem;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use bytes::Bytes;
use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::timer::Timer;
use zlib_rs::{Deflate, DeflateConfig, DeflateError, DeflateFlush, Status};
use zstd::stream::raw::{CParameter, InBuffer, Operation as _, OutBuffer};

/// The longest time that bytes are withheld once the rows have nothing ready. It's long enough that
/// a short wait for the source doesn't cause a flush. It's far too short for a reader of slow rows
/// to notice.
const FLUSH_AFTER: Duration = Duration::from_millis(5);
/// The most bytes to compress at once. A row may have megabytes, and its first output is sent
/// before the rest is compressed.
const PIECE: usize = 64 * 1024;
/// The room for output: most of a block.
const ROOM: usize = 16 * 1024;
/// The memory for compressing a stream: the encoder's state, which a test checks, and its input and
/// output.
pub(crate) const WINDOW: usize = STATE + 2 * (PIECE + ROOM);
/// The state of any encoder.
const STATE: usize = 384 * 1024;

// Levels are chosen for throughput, and windows (as powers of two) for memory. Rows resemble their
// neighbours, so larger windows save almost nothing. The memory tests check the limit for a stream.

/// 2 and 3 save nothing more in windows of this size, and need far more memory.
const ZSTD_LEVEL: i32 = 1;
/// Blocks are as large as the window.
const ZSTD_WINDOW: u32 = 15;
/// For chunks of rows it saves about as much as 2, 3 and 4. It needs less time than they do, and a
/// fraction of the memory.
const BROTLI_QUALITY: u32 = 1;
const BROTLI_WINDOW: u32 = 15;
/// The fastest; 2 saves more, but needs nearly twice the time.
const GZIP_LEVEL: i32 = 1;
const GZIP_WINDOW: i32 = 14;
/// Added to the window, it requests gzip's header and trailer (zlib's manual, `deflateInit2`).
const GZIP_FORMAT: i32 = 16;
/// At most 9; 8 is usual. A block ends after 4,096 symbols. Longer ones needed more memory and made
/// events no smaller.
const GZIP_MEMORY: i32 = 6;

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

impl Coding {
    /// Every coding, in the server's order of preference: zstd is the fastest and saves most, and
    /// brotli saves more than gzip.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// The name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }
}

/// Compresses a complete body.
///
/// # Errors
/// The encoder fails, which only happens without memory.
pub(crate) fn whole(coding: Coding, body: &[u8]) -> Result<Bytes, Error> {
    let mut encoder = CodingEncoder::new(coding)?;
    let mut out = Vec::new();
    encoder.run(OutputStep::Finish, body, &mut out)?;
    Ok(chunk(out))
}

/// Compresses the chunks of one body. The caller [puts](Self::put) a chunk, then calls
/// [`compress`](Self::compress) until that returns `None`. It calls
/// [`poll_flush`](Self::poll_flush) while no chunk is ready, and [`finish`](Self::finish) after the
/// last one.
pub(crate) struct Compressor {
    encoder: CodingEncoder,
    /// The rest of the chunk that isn't compressed yet.
    input: Bytes,
    /// True until the first chunk was sent. It's flushed at once, because the client's first byte
    /// matters more than a full block.
    first: bool,
    /// True if input was compressed since the last flush.
    withholds: bool,
    /// Runs while output is withheld and the rows have nothing ready.
    timer: Timer,
    finished: bool,
}

impl Compressor {
    /// A compressor of the body that begins with the chunk `first`.
    ///
    /// # Errors
    /// See [`whole`].
    pub(crate) fn new(coding: Coding, first: Bytes) -> Result<Self, Error> {
        let encoder = CodingEncoder::new(coding)?;
        Ok(Self {
            encoder,
            input: first,
            first: true,
            withholds: false,
            timer: Timer::default(),
            finished: false,
        })
    }

    pub(crate) fn coding(&self) -> Coding {
        self.encoder.coding()
    }

    /// Takes the next chunk. The previous one must be compressed already.
    pub(crate) fn put(&mut self, chunk: Bytes) {
        debug_assert!(self.input.is_empty(), "the chunk before has not gone in");
        self.input = chunk;
    }

    /// Compresses the current chunk until output is ready. Returns `None` once all of it is
    /// compressed.
    ///
    /// # Errors
    /// See [`whole`].
    pub(crate) fn compress(&mut self) -> Result<Option<Bytes>, Error> {
        let mut out = Vec::new();
        while out.is_empty() && !self.input.is_empty() {
            let piece = self.input.split_to(self.input.len().min(PIECE));
            self.encoder.run(OutputStep::Process, &piece, &mut out)?;
            self.withholds = true;
        }
        if self.input.is_empty() && mem::take(&mut self.first) {
            self.flush(&mut out)?;
        }
        Ok((!out.is_empty()).then(|| chunk(out)))
    }

    /// Polls for withheld output, which is ready after [`FLUSH_AFTER`].
    ///
    /// # Errors
    /// See [`whole`].
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Error>> {
        if !self.withholds {
            return Poll::Pending;
        }
        self.timer.start(FLUSH_AFTER);
        ready!(self.timer.poll(cx));
        let mut out = Vec::new();
        self.flush(&mut out)?;
        // The encoder may have written everything at the end of a block. The rows will wake us.
        if out.is_empty() { Poll::Pending } else { Poll::Ready(Ok(chunk(out))) }
    }

    /// Returns all withheld output, if there is any. The body will have no end.
    ///
    /// # Errors
    /// See [`whole`].
    pub(crate) fn release(&mut self) -> Result<Option<Bytes>, Error> {
        let mut out = Vec::new();
        if self.withholds {
            self.flush(&mut out)?;
        }
        Ok((!out.is_empty()).then(|| chunk(out)))
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.withholds = false;
        self.timer.stop();
        self.encoder.run(OutputStep::Flush, &[], out)
    }

    /// Returns the last chunk, with the end mark, after every chunk was compressed. Returns `None`
    /// if called again.
    ///
    /// # Errors
    /// See [`whole`].
    pub(crate) fn finish(&mut self) -> Result<Option<Bytes>, Error> {
        if mem::replace(&mut self.finished, true) {
            return Ok(None);
        }
        let mut out = Vec::new();
        self.encoder.run(OutputStep::Finish, &[], &mut out)?;
        Ok(Some(chunk(out)))
    }

    /// Returns true after [`finish`](Self::finish).
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }
}

/// A chunk without unused room, because HTTP may hold several for a slow client.
fn chunk(mut out: Vec<u8>) -> Bytes {
    out.shrink_to_fit();
    Bytes::from(out)
}

/// The treatment of withheld output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputStep {
    /// Withhold input that compresses better together with later input.
    Process,
    /// Write everything, so that it can be decoded now.
    Flush,
    /// Write everything, and the end mark.
    Finish,
}

/// The libraries' encoders.
enum CodingEncoder {
    Zstd(zstd::stream::raw::Encoder<'static>),
    /// Boxed, because the struct itself has thousands of bytes.
    Brotli(Box<BrotliEncoderStateStruct<StandardAlloc>>),
    Gzip(Deflate),
}

impl CodingEncoder {
    fn new(coding: Coding) -> Result<Self, Error> {
        Ok(match coding {
            Coding::Zstd => Self::Zstd(new_zstd().map_err(|error| failed().cause(error))?),
            Coding::Brotli => Self::Brotli(Box::new(new_brotli())),
            Coding::Gzip => Self::Gzip(new_gzip()),
        })
    }

    fn coding(&self) -> Coding {
        match self {
            Self::Zstd(_) => Coding::Zstd,
            Self::Brotli(_) => Coding::Brotli,
            Self::Gzip(_) => Coding::Gzip,
        }
    }

    /// Compresses all of `input`, and appends any output.
    fn run(&mut self, step: OutputStep, input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Zstd(encoder) => run_zstd(encoder, step, input, out).map_err(|error| failed().cause(error)),
            Self::Brotli(state) => run_brotli(state, step, input, out).then_some(()).ok_or_else(failed),
            Self::Gzip(state) => {
                run_gzip(state, step, input, out).map_err(|error| failed().cause(error.as_str()))
            }
        }
    }
}

fn failed() -> Error {
    Error::new(
        "compression_failed",
        StatusCode::INTERNAL_SERVER_ERROR,
        "the response could not be compressed",
    )
}

fn new_zstd() -> std::io::Result<zstd::stream::raw::Encoder<'static>> {
    let mut encoder = zstd::stream::raw::Encoder::new(ZSTD_LEVEL)?;
    encoder.set_parameter(CParameter::WindowLog(ZSTD_WINDOW))?;
    Ok(encoder)
}

fn run_zstd(
    encoder: &mut zstd::stream::raw::Encoder<'_>,
    step: OutputStep,
    input: &[u8],
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let mut input = InBuffer::around(input);
    while input.pos() < input.src.len() {
        encoder.run(&mut input, &mut room(out))?;
    }
    loop {
        let left = match step {
            OutputStep::Process => 0,
            OutputStep::Flush => encoder.flush(&mut room(out))?,
            OutputStep::Finish => encoder.finish(&mut room(out), true)?,
        };
        if left == 0 {
            return Ok(());
        }
    }
}

fn room(out: &mut Vec<u8>) -> OutBuffer<'_, Vec<u8>> {
    out.reserve(ROOM);
    let end = out.len();
    OutBuffer::around_pos(out, end)
}

fn new_brotli() -> BrotliEncoderStateStruct<StandardAlloc> {
    let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
    state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, BROTLI_QUALITY);
    state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, BROTLI_WINDOW);
    state
}

/// Returns false if it failed.
fn run_brotli(
    state: &mut BrotliEncoderStateStruct<StandardAlloc>,
    step: OutputStep,
    input: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let operation = match step {
        OutputStep::Process => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
        OutputStep::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
        OutputStep::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
    };
    let (mut left, mut read) = (input.len(), 0);
    loop {
        // Without a buffer of ours, it lends the output from its own.
        let (mut room, mut written, mut total) = (0, 0, None);
        let well = state.compress_stream(
            operation,
            &mut left,
            input,
            &mut read,
            &mut room,
            &mut [],
            &mut written,
            &mut total,
            &mut |_, _, _, _| (),
        );
        while state.has_more_output() {
            let mut length = 0;
            let lent = state.take_output(&mut length);
            out.extend_from_slice(&lent[..length]);
        }
        if !well || (left == 0 && (step != OutputStep::Finish || state.is_finished())) {
            return well;
        }
    }
}

fn new_gzip() -> Deflate {
    Deflate::new_with_config(DeflateConfig {
        level: GZIP_LEVEL,
        window_bits: GZIP_WINDOW + GZIP_FORMAT,
        mem_level: GZIP_MEMORY,
        ..DeflateConfig::default()
    })
}

fn run_gzip(
    state: &mut Deflate,
    step: OutputStep,
    mut input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), DeflateError> {
    let flush = match step {
        OutputStep::Process => DeflateFlush::NoFlush,
        OutputStep::Flush => DeflateFlush::SyncFlush,
        OutputStep::Finish => DeflateFlush::Finish,
    };
    loop {
        let (end, read, written) = (out.len(), state.total_in(), state.total_out());
        out.resize(end + ROOM, 0);
        let status = state.compress(input, &mut out[end..], flush)?;
        let written = (state.total_out() - written) as usize;
        out.truncate(end + written);
        input = input.get((state.total_in() - read) as usize..).unwrap_or_default();
        // Unused room means that no output is pending.
        if status == Status::StreamEnd || (input.is_empty() && written < ROOM && step != OutputStep::Finish) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    /// The memory that this process uses, in bytes (proc(5)).
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    /// Runs in a separate process, because memory of other tests would count too.
    #[test]
    fn the_state_of_an_encoder_is_bounded() {
        let alone = "compress::tests::the_state_of_an_encoder_is_bounded_alone";
        let test = std::env::current_exe().unwrap();
        let output = std::process::Command::new(test).args(["--ignored", "--exact", alone]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    #[ignore = "measures its process, and is run by the test of its name"]
    fn the_state_of_an_encoder_is_bounded_alone() {
        const ENCODERS: usize = 100;
        let text: String = (0..40_000).map(|n| format!("{{\"n\":{},\"t\":\"{n:x}\"}}\n", n * 7919)).collect();
        for coding in Coding::ALL {
            let before = resident();
            let encoders: Vec<_> = (0..ENCODERS)
                .map(|_| {
                    let mut encoder = CodingEncoder::new(coding).unwrap();
                    for piece in text.as_bytes().chunks(PIECE) {
                        encoder.run(OutputStep::Process, piece, &mut Vec::new()).unwrap();
                    }
                    encoder
                })
                .collect();
            let each = resident().saturating_sub(before) / encoders.len();
            println!("{}: {each} bytes", coding.name());
            assert!(each < STATE, "{} takes {each} bytes", coding.name());
        }
    }

    use std::future::poll_fn;
    use std::io::Read;
    use std::task::Waker;

    use proptest::prelude::*;

    use super::*;

    /// The decoded bytes, and true if the end mark was present.
    fn decode(coding: Coding, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut decoder: Box<dyn Read + '_> = match coding {
            Coding::Zstd => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
            Coding::Brotli => Box::new(brotli::Decompressor::new(bytes, 4096)),
            Coding::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
        };
        let mut decoded = Vec::new();
        let ended = decoder.read_to_end(&mut decoded).is_ok();
        (decoded, ended)
    }

    /// Rows that compress like real ones.
    fn rows(from: usize, count: usize) -> Bytes {
        let row = |n: usize| {
            format!(
                "{{\"n\":{n},\"hash\":\"{:x}\",\"status\":\"paid\"}}\n",
                n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            )
        };
        (from..from + count).map(row).collect::<String>().into()
    }

    /// Puts a chunk, and appends the output.
    fn put(compressor: &mut Compressor, chunk: Bytes, out: &mut Vec<u8>) {
        compressor.put(chunk);
        while let Some(chunk) = compressor.compress().unwrap() {
            out.extend_from_slice(&chunk);
        }
    }

    fn begun(coding: Coding, first: Bytes) -> (Compressor, Vec<u8>) {
        let mut compressor = Compressor::new(coding, first).unwrap();
        let mut out = Vec::new();
        while let Some(chunk) = compressor.compress().unwrap() {
            out.extend_from_slice(&chunk);
        }
        (compressor, out)
    }

    /// The withheld output after its time. Empty if everything was written already.
    async fn flushed(compressor: &mut Compressor) -> Bytes {
        poll_fn(|cx| match compressor.poll_flush(cx) {
            Poll::Pending if compressor.withholds => Poll::Pending,
            Poll::Pending => Poll::Ready(Bytes::new()),
            Poll::Ready(chunk) => Poll::Ready(chunk.unwrap()),
        })
        .await
    }

    #[test]
    fn the_first_chunk_leaves_at_once_and_what_is_withheld_in_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(async {
            for coding in Coding::ALL {
                let first = rows(0, 50);
                let (mut compressor, mut out) = begun(coding, first.clone());
                assert_eq!(decode(coding, &out), (first.to_vec(), false), "{coding:?}");
                let idle = compressor.poll_flush(&mut Context::from_waker(Waker::noop()));
                assert!(idle.is_pending(), "{coding:?}: nothing is withheld");

                let mut expected = first.to_vec();
                for n in 1..4 {
                    let slow = rows(n * 50, 1);
                    expected.extend_from_slice(&slow);
                    put(&mut compressor, slow, &mut out);
                    let early = compressor.poll_flush(&mut Context::from_waker(Waker::noop()));
                    assert!(early.is_pending(), "{coding:?}: others may come");
                    out.extend_from_slice(&flushed(&mut compressor).await);
                    assert_eq!(decode(coding, &out), (expected.clone(), false), "{coding:?}");
                }
                out.extend_from_slice(&compressor.finish().unwrap().unwrap());
                assert!(compressor.is_finished() && compressor.finish().unwrap().is_none());
                assert_eq!(decode(coding, &out), (expected, true), "{coding:?}");
            }
        });
    }

    /// A flush costs bytes, so we don't flush while rows arrive quickly.
    #[test]
    fn rows_that_come_fast_are_not_flushed() {
        for coding in Coding::ALL {
            let chunks: Vec<_> = (0..200).map(|n| rows(n * 10, 10)).collect();
            let (mut compressor, mut fast) = begun(coding, chunks[0].clone());
            let mut encoder = CodingEncoder::new(coding).unwrap();
            let mut flushed = Vec::new();
            encoder.run(OutputStep::Flush, &chunks[0], &mut flushed).unwrap();
            for chunk in &chunks[1..] {
                put(&mut compressor, chunk.clone(), &mut fast);
                encoder.run(OutputStep::Flush, chunk, &mut flushed).unwrap();
            }
            fast.extend_from_slice(&compressor.finish().unwrap().unwrap());
            assert_eq!(decode(coding, &fast), (chunks.concat(), true), "{coding:?}");
            assert!(fast.len() < flushed.len(), "{coding:?}: {} and {}", fast.len(), flushed.len());
        }
    }

    #[test]
    fn a_large_row_comes_out_in_pieces() {
        // Random letters, because input that compresses well would have almost no output.
        let mut random = 1u64;
        let mut letter = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            b'a' + (random >> 60) as u8
        };
        let row: Vec<u8> = (0..2_000_000).map(|_| letter()).collect();
        for coding in Coding::ALL {
            let mut compressor = Compressor::new(coding, row.clone().into()).unwrap();
            let mut out = Vec::new();
            while let Some(chunk) = compressor.compress().unwrap() {
                assert!(chunk.len() < 4 * PIECE, "{coding:?}: a chunk of {} bytes", chunk.len());
                out.extend_from_slice(&chunk);
            }
            assert_eq!(decode(coding, &out), (row.clone(), false), "{coding:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_goes_in_comes_out(
            chunks in prop::collection::vec((any::<u8>(), 0..3000usize, any::<bool>()), 1..8)
        ) {
            for coding in Coding::ALL {
                let mut encoder = CodingEncoder::new(coding).unwrap();
                let (mut plain, mut out) = (Vec::new(), Vec::new());
                for (byte, length, flush) in &chunks {
                    let chunk: Vec<u8> = (0..*length).map(|i| byte.wrapping_mul(((i * i) >> 5) as u8)).collect();
                    plain.extend_from_slice(&chunk);
                    encoder.run(if *flush { OutputStep::Flush } else { OutputStep::Process }, &chunk, &mut out).unwrap();
                    if *flush {
                        prop_assert_eq!(decode(coding, &out), (plain.clone(), false));
                    }
                }
                encoder.run(OutputStep::Finish, &[], &mut out).unwrap();
                prop_assert_eq!(decode(coding, &out), (plain.clone(), true));
                prop_assert_eq!(decode(coding, &whole(coding, &plain).unwrap()), (plain, true));
            }
        }
    }
}
