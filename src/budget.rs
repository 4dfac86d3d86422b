//! The sizes of what requests and connections hold, from which the bound on memory is computed.
//!
//! Whoever holds a buffer of one of these sizes takes the constant from here, and whoever adds a
//! buffer to the way of a response adds a constant. What a source holds stands with the source.
//! The sums are `config::memory`'s, and the promise is kept by admission.

/// A full chunk. Measured: 32 to 64 KiB are as fast as larger ones, and each stream holds one.
pub(crate) const CHUNK: usize = 32 * 1024;

/// The longest head of a request; and while hyper holds more than this of a response, it takes no
/// further chunk. Half a chunk, so that a slow client costs one chunk more often than two; hyper's
/// default is about 400 KiB.
pub(crate) const HTTP1_BUFFER: usize = 16 * 1024;
/// What hyper may hold of an HTTP/2 stream's response.
pub(crate) const HTTP2_BUFFER: usize = 32 * 1024;
/// What a client may send of an HTTP/2 request's body, which nobody reads.
pub(crate) const HTTP2_WINDOW: u32 = 16 * 1024;
/// What HTTP takes for one stream, beside its chunks: heads, what hyper gathers before it writes,
/// and the body of a request, which nobody reads.
pub(crate) const HTTP_STREAM: usize = 2 * HTTP1_BUFFER + HTTP2_BUFFER + HTTP2_WINDOW as usize;

/// What an idle connection of a client takes: hyper's buffer for the next head, its states and
/// ours.
pub(crate) const CONNECTION: usize = 16 * 1024;
/// What TLS may hold of what is to be sent: two of its records.
pub(crate) const TLS_BUFFER: usize = 32 * 1024;
/// What TLS takes for a connection: that, the record that is being read, and its keys.
pub(crate) const TLS_CONNECTION: usize = TLS_BUFFER + 32 * 1024;
/// What QUIC holds of what a client has not acknowledged yet, over all streams of a connection: so
/// much comes to a far client in a round trip. It is memory of ours; for TCP it is the kernel's.
pub(crate) const QUIC_WINDOW: u64 = 256 * 1024;
/// What a client may send on all streams of a connection of QUIC before it is read.
pub(crate) const QUIC_RECEIVED: u32 = 64 * 1024;
/// Heads of requests that are received at the same time on a connection of QUIC. Others wait within
/// [`QUIC_RECEIVED`].
pub(crate) const QUIC_HEADS: usize = 4;
/// The longest head that HTTP/3 reads, in its frame. One beyond [`HTTP1_BUFFER`] is refused.
const QUIC_HEAD: usize = 32 * 1024;
/// What QUIC takes for a connection: all of that, and what it knows of paths, packets and streams.
pub(crate) const QUIC_CONNECTION: usize =
    QUIC_WINDOW as usize + QUIC_RECEIVED as usize + QUIC_HEADS * QUIC_HEAD + 64 * 1024;
/// Connections beyond all others, for the server's checks.
pub(crate) const RESERVED_CONNECTIONS: usize = 64;

/// What a request may take from its head to the end of its answer: its target, which the log keeps,
/// its header fields, an answer of 4 KB, and what HTTP knows of it.
pub(crate) const REQUEST: usize = 32 * 1024;
/// What requests for admin endpoints may take, beside all others: who looks after a server has to
/// see it when all memory is in use. Half of it also is for answers that tell clients that there is
/// none.
pub(crate) const ADMIN_REQUESTS: usize = 2 << 20;
/// The most memory of documents about the server, compressed: the list of endpoints and OpenAPI, for
/// each set of rights. With 10,000 endpoints an OpenAPI document takes about a half.
pub(crate) const DOCUMENTS: usize = 2 << 20;
/// Memory of an answer that unpacks one of them: gzip's window, its state, and a chunk.
pub(crate) const UNPACKING: usize = 64 * 1024 + CHUNK;
