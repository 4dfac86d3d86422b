//! Computes the server's memory: the budget of a stream, which is the most that it may use, and the
//! memory that the server needs without streams.
//!
//! A budget is the sum of the buffers between the source and the client. Each module defines the
//! sizes of its own buffers. A buffer that may contain a row counts with the longest row
//! (`max_row_bytes`). Admission grants permits while the sum of the budgets fits into `memory`.
//!
//! If `memory` is set, the defaults for the length of a row and for the number of connections are
//! lowered so that some streams fit ([`fit_defaults`]). Values that the file sets stay as they are.
//!
//! Not counted are the kernel's memory for sockets, the files that `mmap` maps, and SQLite's memory
//! for sorting and grouping. SQLite needs about 1 MiB for each statement that sorts or groups, and
//! keeps the rest in a temporary file.

use rowstream_core::settings::SettingOrigin;
use rowstream_encode::{ArrowEncoder, Format};

use super::{Config, Tls};
use crate::budget::{self, ADMIN_REQUESTS, CHUNK, CONNECTION, HTTP_STREAM, QUIC_CONNECTION, TLS_CONNECTION};
use crate::compress::{self, Coding};
use crate::endpoint::{Compression, Endpoint, Handler, SlowClients};
use crate::source::{SourceConfig, SourceKind};
use crate::spool::spill;
use crate::spool::whole::IN_MEMORY;

/// The program itself with its runtimes, threads and endpoints, the buffers of the log, the free
/// memory that the allocator keeps, and the [reserve](ADMIN_REQUESTS) of admin endpoints.
const SERVER: usize = 16 << 20;
const _: () = assert!(ADMIN_REQUESTS < SERVER / 4);

/// The defaults leave room for this many streams of each endpoint, in any format.
const STREAMS: usize = 8;
/// The default of `max_row_bytes` is never lowered below this.
const LEAST_ROW: usize = 64 << 10;
/// The default of `max_connections` is never lowered below `LEAST_CONNECTIONS`. More connections
/// may together use one part in `CONNECTIONS_PART` of all memory.
const LEAST_CONNECTIONS: usize = 64;
const CONNECTIONS_PART: usize = 8;

/// The encoder's memory for each byte of a row as the database sends it. It depends on how much
/// longer a format may make the row, and on the number of copies in the encoder.
fn growth(format: Format) -> usize {
    match format {
        // Each byte of a text may be a control character, which is written as `\u001f`.
        Format::Json | Format::Ndjson | Format::JsonSeq => 6,
        // The row, its key, and the key as a cursor in base64. A page has only one cursor, but also
        // a copy of each value and of those in links.
        Format::Sse | Format::Html => 6 + 6 + 8,
        // Each byte may be a quote, which is doubled.
        Format::Csv => 2,
        // The columns of the open batch, and the encoded batch.
        Format::Arrow => 4,
    }
}

/// The longest row of `endpoint` in the encoder.
fn longest_row(endpoint: &Endpoint, source: &SourceConfig, format: Format) -> usize {
    let replies = endpoint.per_row().map_or(0, |calls| calls.plan.longest_replies());
    source.max_row_bytes.saturating_add(replies).saturating_mul(growth(format))
}

/// The longest chunk without its last row.
fn chunk(format: Format) -> usize {
    CHUNK + CHUNK / 8 + if format == Format::Arrow { 2 * ArrowEncoder::BATCH } else { 0 }
}

/// The extra memory of a stream while it's spilled for a slow client.
pub(crate) fn spilled(endpoint: &Endpoint, source: &SourceConfig, format: Format) -> usize {
    // A block of the file ends with a whole chunk, however long the chunk is.
    spill::WINDOW.saturating_add(chunk(format)).saturating_add(longest_row(endpoint, source, format))
}

/// The most memory that one stream of `endpoint` may use, in bytes. A stream that spills only if
/// other requests wait for its connection claims the memory for that when it begins to spill.
pub fn budget(endpoint: &Endpoint, source: &SourceConfig, format: Format, coding: Option<Coding>) -> usize {
    let (row, chunk) = (longest_row(endpoint, source, format), chunk(format));
    // The chunk that's being filled, and the one that's being sent.
    let chunks = chunk.saturating_add(row).saturating_mul(2);
    let nested = endpoint.statements().iter().filter(|statement| statement.nested.is_some()).count();
    let spill = match endpoint.response.slow_clients {
        SlowClients::Spill => spilled(endpoint, source, format),
        SlowClients::Hold | SlowClients::MinRate(_) => 0,
    };
    let key = if endpoint.key().is_some() { row } else { 0 };
    let parts = [
        chunks,
        key,
        match &endpoint.handler {
            Handler::Calls(calls) => calls.budget(),
            Handler::Pages(pages) => pages.budget(),
            Handler::Sql(sql) => {
                source.budget().saturating_mul(sql.parallel.as_ref().map_or(1, |parallel| parallel.parts))
            }
            Handler::Proxy(_) => source.budget(),
        },
        endpoint.per_row().map_or(0, |calls| calls.plan.budget(source.max_row_bytes)),
        // Each interleaved statement has one encoded row that waits, and one portion in its
        // session.
        (if nested == 0 { 0 } else { nested + 1 }).saturating_mul(row.saturating_add(source.portion())),
        coding.map_or(0, |_| compress::WINDOW),
        spill,
        HTTP_STREAM,
    ];
    parts.into_iter().fold(0, usize::saturating_add)
}

/// The most memory for an upstream's response that is passed through, in bytes.
pub fn proxy_budget(source: &SourceConfig) -> usize {
    source.budget().saturating_add(HTTP_STREAM)
}

/// The most memory that a stream of `endpoint` may use in any of its formats and codings, also if
/// its result is held until its end.
pub fn largest_budget(endpoint: &Endpoint, source: &SourceConfig) -> usize {
    if let Handler::Proxy(_) = &endpoint.handler {
        return proxy_budget(source);
    }
    let coding = (endpoint.response.compression != Compression::Off).then_some(Coding::Zstd);
    let budgets = endpoint.formats.iter().map(|&format| budget(endpoint, source, format, coding));
    budgets.max().map_or(0, |budget| budget.saturating_add(IN_MEMORY))
}

/// The most memory that the server uses without streams: its own, the idle connections of clients,
/// and those of the pools.
pub fn without_streams(config: &Config) -> usize {
    // One more connection checks if the source can be reached.
    let connections = |source: &SourceConfig| source.pool.max.saturating_add(1);
    let pools = config.sources.iter().map(|source| connections(source).saturating_mul(source.idle()));
    let clients = config.limits.max_connections.saturating_add(budget::RESERVED_CONNECTIONS);
    let clients = clients.saturating_mul(connection(config));
    pools.fold(SERVER.saturating_add(clients), usize::saturating_add)
}

/// The memory of a client's idle connection.
fn connection(config: &Config) -> usize {
    let secured = |tls: &Tls| if tls.http3 { QUIC_CONNECTION.max(TLS_CONNECTION) } else { TLS_CONNECTION };
    CONNECTION + config.tls.as_ref().map_or(0, secured)
}

/// The memory that `memory` leaves for streams. `None` if `memory` isn't set.
pub fn for_streams(config: &Config) -> Option<usize> {
    Some(config.limits.memory?.saturating_sub(without_streams(config)))
}

/// The endpoints, each with its source.
fn endpoints(config: &Config) -> impl Iterator<Item = (&Endpoint, &SourceConfig)> {
    config.endpoints.iter().map(|endpoint| (endpoint, config.source(&endpoint.source)))
}

/// Lowers the defaults of `max_connections` and of each database's `max_row_bytes` so that, if
/// possible, [`STREAMS`] streams of each endpoint fit into `memory`.
pub(crate) fn fit_defaults(config: &mut Config) {
    let Some(memory) = config.limits.memory else { return };
    if config.limits.max_connections_by == SettingOrigin::Default {
        let most = memory / CONNECTIONS_PART / connection(config);
        config.limits.max_connections = config.limits.max_connections.min(most.max(LEAST_CONNECTIONS));
    }
    let each = for_streams(config).unwrap_or(usize::MAX) / STREAMS;
    for source in &mut config.sources {
        if source.max_row_bytes_by == SettingOrigin::Default && matches!(source.kind, SourceKind::Sql(_)) {
            let row = row_that_fits(source, &config.endpoints, each);
            source.max_row_bytes = row.unwrap_or(LEAST_ROW);
        }
    }
}

/// Halves the source's longest row until each of its streams fits into `most` bytes.
fn row_that_fits(source: &SourceConfig, endpoints: &[Endpoint], most: usize) -> Option<usize> {
    let halves = std::iter::successors(Some(source.max_row_bytes), |row| Some(row / 2));
    let mut rows = halves.take_while(|row| *row >= LEAST_ROW);
    let own = || endpoints.iter().filter(|endpoint| endpoint.source.name() == source.name);
    rows.find(|&row| {
        let mut source = source.clone();
        source.max_row_bytes = row;
        own().all(|endpoint| largest_budget(endpoint, &source) <= most)
    })
}

/// The message and the hint if `memory` is too small for one stream of some endpoint.
pub(crate) fn error(config: &Config) -> Option<(String, String)> {
    let (memory, room) = (config.limits.memory?, for_streams(config)?);
    let sized =
        endpoints(config).map(|(endpoint, source)| (endpoint, source, largest_budget(endpoint, source)));
    let (endpoint, source, budget) = sized.max_by_key(|(_, _, budget)| *budget)?;
    if budget <= room {
        return None;
    }
    let own = without_streams(config);
    let connections = config.limits.max_connections;
    let message = format!(
        "`memory` has no room for a stream of {}, which may take {}: {} of it are for the server itself, \
         {connections} connections and the pools",
        endpoint.path,
        megabytes(budget),
        megabytes(own),
    );
    let needed = own.saturating_add(budget);
    let mut ways = vec![format!("`memory = \"{}MB\"`", needed.div_ceil(1_000_000))];
    if let Some(row) = row_that_fits(source, &config.endpoints, room) {
        ways.push(format!("`max_row_bytes = \"{}\"` of source `{}`", size(row), source.name));
    }
    let too_many = needed.saturating_sub(memory).div_ceil(connection(config));
    if let Some(fewer) = connections.checked_sub(too_many).filter(|fewer| *fewer > 0) {
        ways.push(format!("`max_connections = {fewer}`"));
    }
    Some((message, format!("write {}", ways.join(", or "))))
}

/// A number of bytes as configuration files write it.
pub(crate) fn size(bytes: usize) -> String {
    const UNITS: [(&str, usize); 6] = [
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("KB", 1_000),
    ];
    let whole = UNITS.into_iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    let (name, unit) = whole.unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

/// Describes the limit for people, with the memory of a stream of each endpoint.
pub(crate) fn describe(config: &Config) -> Option<String> {
    let (memory, room) = (config.limits.memory?, for_streams(config)?);
    let streams = endpoints(config).map(|(endpoint, source)| {
        let budget = largest_budget(endpoint, source).max(1);
        format!("    {}: {} each, {} at a time\n", endpoint.path, megabytes(budget), room / budget)
    });
    let streams: String = streams.collect();
    let databases = config.sources.iter().filter(|source| matches!(source.kind, SourceKind::Sql(_)));
    let rows: String = databases
        .map(|source| format!("; rows of source {} of at most {}", source.name, size(source.max_row_bytes)))
        .collect();
    let connections = config.limits.max_connections;
    let own = without_streams(config);
    let (memory, own, room) = (megabytes(memory), megabytes(own), megabytes(room));
    Some(format!(
        "at most {memory} of memory: {own} without streams, {room} for streams\n    {connections} connections of clients{rows}\n{}",
        streams.trim_end()
    ))
}

/// A number of bytes for people.
fn megabytes(bytes: usize) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}
