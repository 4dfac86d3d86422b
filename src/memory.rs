//! The memory of a server as a number: what a stream may take at most, its window, and what the server takes beside its streams.
//!
//! A window is the sum of what the code on the stream's way holds, each part by the constants of the module that holds it, and of the
//! longest row (`max_row_bytes`) wherever one may stand. Admission hands out permits while the sum of the windows fits into `memory`.
//!
//! Not in it are what the kernel holds for sockets, the files that `mmap` maps, and what SQLite takes to sort and to group, which is
//! about 1 MiB for each statement that does, and for the rest a temporary file.

use rowstream_encode::{ArrowEncoder, Format};

use crate::body::CHUNK;
use crate::compress::{self, Coding};
use crate::config::Config;
use crate::endpoint::{Compression, Endpoint, SlowClients, Upstream};
use crate::proof::spool::IN_MEMORY;
use crate::server::{CONNECTION, HTTP_STREAM};
use crate::source::SourceConfig;
use crate::spill;

/// The program itself with its runtimes, threads and endpoints, what the log may hold, and what the allocator keeps.
const SERVER: usize = 16 << 20;

/// How much longer a row may be in a format than as the database sends it, and how often it stands in the encoder.
fn growth(format: Format) -> usize {
    match format {
        // Each byte of a text may be a control character, which is `\u001f`.
        Format::Json | Format::Ndjson | Format::JsonSeq => 6,
        // The row, its key, and the key as a cursor, which is in base64.
        Format::Sse => 6 + 6 + 8,
        // Each may be a quote.
        Format::Csv => 2,
        // The columns of the open batch, and the batch as bytes.
        Format::Arrow => 4,
    }
}

/// What one stream of `endpoint` may take at most, in bytes.
pub fn window(endpoint: &Endpoint, source: &SourceConfig, format: Format, coding: Option<Coding>) -> usize {
    let replies = endpoint.per_row.as_ref().map_or(0, |plan| plan.longest_replies());
    let row = source.max_row_bytes.saturating_add(replies).saturating_mul(growth(format));
    let batch = if format == Format::Arrow { 2 * ArrowEncoder::BATCH } else { 0 };
    let chunk = CHUNK + CHUNK / 8 + batch;
    // One chunk in the making, and one on its way.
    let chunks = chunk.saturating_add(row).saturating_mul(2);
    let nested = endpoint.statements.iter().filter(|statement| statement.nested.is_some()).count();
    let spill = match endpoint.slow_clients {
        // A block ends with a chunk, whatever its length.
        SlowClients::Spill => spill::WINDOW.saturating_add(chunk).saturating_add(row),
        SlowClients::Hold | SlowClients::Shed(_) => 0,
    };
    let key = if endpoint.key.is_some() { row } else { 0 };
    let parts = [
        chunks,
        key,
        match &endpoint.upstream {
            Some(Upstream::Calls(calls)) => calls.window(),
            Some(Upstream::Pages(pages)) => pages.window(),
            Some(Upstream::Pass(_)) | None => source.window(),
        },
        endpoint.per_row.as_ref().map_or(0, |plan| plan.window(source.max_row_bytes)),
        // Of each statement that is read by turns one row waits, encoded, and a portion in the session.
        (if nested == 0 { 0 } else { nested + 1 }).saturating_mul(row.saturating_add(source.portion())),
        coding.map_or(0, |_| compress::WINDOW),
        spill,
        HTTP_STREAM,
    ];
    parts.into_iter().fold(0, usize::saturating_add)
}

/// What an answer of an upstream may take that is passed through, in bytes.
pub fn passed_window(source: &SourceConfig) -> usize {
    source.window().saturating_add(HTTP_STREAM)
}

/// The most that a stream of `endpoint` may take, in any format and coding that it may be asked for, and waiting for its end.
pub fn largest_window(endpoint: &Endpoint, source: &SourceConfig) -> usize {
    if let Some(Upstream::Pass(_)) = &endpoint.upstream {
        return passed_window(source);
    }
    let coding = (endpoint.compression != Compression::Off).then_some(Coding::Zstd);
    let windows = endpoint.formats.iter().map(|&format| window(endpoint, source, format, coding));
    windows.max().map_or(0, |window| window.saturating_add(IN_MEMORY))
}

/// What the server may take without any stream: itself, idle connections of clients, and those of the pools.
pub fn without_streams(config: &Config) -> usize {
    // One connection more tells whether the source can be reached.
    let connections = |source: &SourceConfig| source.pool.max.saturating_add(1);
    let pools = config.sources.iter().map(|source| connections(source).saturating_mul(source.idle()));
    let clients = config.limits.max_connections.saturating_mul(CONNECTION);
    pools.fold(SERVER.saturating_add(clients), usize::saturating_add)
}

/// What `memory` leaves for streams; `None` where it is not bounded.
pub fn for_streams(config: &Config) -> Option<usize> {
    Some(config.limits.memory?.saturating_sub(without_streams(config)))
}

/// The endpoints with the settings of their sources.
fn endpoints(config: &Config) -> impl Iterator<Item = (&Endpoint, &SourceConfig)> {
    let source = |name: &str| config.sources.iter().find(|source| source.name == name);
    config.endpoints.iter().filter_map(move |endpoint| Some((endpoint, source(&endpoint.source)?)))
}

/// What is wrong with a `memory` that cannot hold one stream of each endpoint, and what to do about it.
pub(crate) fn fault(config: &Config) -> Option<(String, String)> {
    let room = for_streams(config)?;
    let sized =
        endpoints(config).map(|(endpoint, source)| (endpoint, source, largest_window(endpoint, source)));
    let (endpoint, source, window) = sized.max_by_key(|(_, _, window)| *window)?;
    if window <= room {
        return None;
    }
    let message = format!(
        "`memory` holds no stream of {}, which may take {}: {} of it are for the server itself, {} connections and the pools",
        endpoint.path,
        megabytes(window),
        megabytes(without_streams(config)),
        config.limits.max_connections,
    );
    let hint = format!("raise it, or lower `max_row_bytes` of source `{}` or `max_connections`", source.name);
    Some((message, hint))
}

/// The bound in words, for people; with what a stream of each endpoint may take.
pub(crate) fn describe(config: &Config) -> Option<String> {
    let (memory, room) = (config.limits.memory?, for_streams(config)?);
    let streams = endpoints(config).map(|(endpoint, source)| {
        let window = largest_window(endpoint, source).max(1);
        format!("    {}: {} each, {} at a time\n", endpoint.path, megabytes(window), room / window)
    });
    let streams: String = streams.collect();
    let own = without_streams(config);
    let (memory, own, room) = (megabytes(memory), megabytes(own), megabytes(room));
    Some(format!(
        "at most {memory} of memory: {own} without streams, {room} for streams\n{}",
        streams.trim_end()
    ))
}

/// Bytes as people read them.
pub(crate) fn megabytes(bytes: usize) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}
