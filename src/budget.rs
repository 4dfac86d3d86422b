//! The sizes of buffers that requests and connections need. The memory limit is computed from them.
//!
//! Code that allocates a buffer of one of these sizes uses the constant from here. If you add a
//! buffer to the path of a response, add a constant. The buffers of a source are defined next to
//! it. `config::memory` computes the sums, and admission enforces the limit.

/// A full chunk. We measured that 32 to 64 KiB are as fast as larger chunks. Each stream has one.
pub(crate) const CHUNK: usize = 32 * 1024;

/// The most bytes of a request's head. It limits responses too: while hyper buffers more than this,
/// it takes no further chunk. It's half a chunk, so that a slow client usually costs one chunk and
/// not two. hyper's default is about 400 KiB.
pub(crate) const HTTP1_BUFFER: usize = 16 * 1024;
/// The most bytes that hyper buffers of an HTTP/2 stream's response.
pub(crate) const HTTP2_BUFFER: usize = 32 * 1024;
/// The most bytes that a client can send of an HTTP/2 request's body, which we don't read.
pub(crate) const HTTP2_WINDOW: u32 = 16 * 1024;
/// The memory of HTTP for one stream, without its chunks: heads, the bytes that hyper collects
/// before it writes, and the request's body, which we don't read.
pub(crate) const HTTP_STREAM: usize = 2 * HTTP1_BUFFER + HTTP2_BUFFER + HTTP2_WINDOW as usize;

/// The memory of an idle client connection: hyper's buffer for the next head, its state and ours.
pub(crate) const CONNECTION: usize = 16 * 1024;
/// The bytes that TLS may buffer before it sends them: two of its records.
pub(crate) const TLS_BUFFER: usize = 32 * 1024;
/// The memory of TLS for a connection: this buffer, the record that is being read, and the keys.
pub(crate) const TLS_CONNECTION: usize = TLS_BUFFER + 32 * 1024;
/// The unacknowledged bytes that QUIC keeps, over all streams of a connection. It's also the most
/// that a distant client receives per round trip. QUIC keeps them in our memory; TCP keeps them in
/// the kernel's.
pub(crate) const QUIC_WINDOW: u64 = 256 * 1024;
/// The bytes that a client may send on all streams of a QUIC connection before we read them.
pub(crate) const QUIC_RECEIVED: u32 = 64 * 1024;
/// The bytes of half heads that all requests of a QUIC connection may have together: a hundred of
/// 2.5 KiB, or eight of the longest.
pub(crate) const QUIC_HEADS: usize = 256 * 1024;
/// The memory of a QUIC connection: all of these, and the state of paths, packets and streams.
pub(crate) const QUIC_CONNECTION: usize =
    QUIC_WINDOW as usize + QUIC_RECEIVED as usize + QUIC_HEADS + 64 * 1024;
/// Connections reserved for health checks, in addition to all others.
pub(crate) const RESERVED_CONNECTIONS: usize = 64;

/// The memory of a request from its head to the end of its answer: its target, which the log keeps,
/// its header fields, an answer of 4 KB, and HTTP's state.
pub(crate) const REQUEST: usize = 32 * 1024;
/// The memory of parameters in the bodies of requests, if memory has no limit.
pub(crate) const BODIES: usize = 256 << 20;
/// The memory of requests for admin endpoints, in addition to all others: an operator has to see
/// the server even if all memory is in use. Half of it may also be used to tell clients that
/// there's no memory.
pub(crate) const ADMIN_REQUESTS: usize = 2 << 20;
/// The most memory of compressed documents about the server: the list of endpoints and OpenAPI, for
/// each set of rights. With 10,000 endpoints an OpenAPI document needs about a quarter of it.
pub(crate) const DOCUMENTS: usize = 2 << 20;
/// The memory of an answer that decompresses one of them: gzip's window, its state, and a chunk.
pub(crate) const UNPACKING: usize = 64 * 1024 + CHUNK;
