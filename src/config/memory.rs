//! The memory of a server as a number: what a stream may take at most, its budget, and what the
//! server takes beside its streams.
//!
//! A budget is the sum of what the code on the stream's way holds, each part by the constants of
//! the module that holds it, and of the longest row (`max_row_bytes`) wherever one may stand.
//! Admission hands out permits while the sum of the budgets fits into `memory`.
//!
//! Where `memory` is bounded, the defaults of what a row may have and of how many clients may be
//! connected are such that some streams fit ([`fit_defaults`]). What a file sets stays as it is.
//!
//! Not in it are what the kernel holds for sockets, the files that `mmap` maps, and what SQLite
//! takes to sort and to group, which is about 1 MiB for each statement that does, and for the rest
//! a temporary file.

use rowstream_encode::{ArrowEncoder, Format};

use super::{Config, Tls};
use crate::budget::{self, ADMIN_REQUESTS, CHUNK, CONNECTION, HTTP_STREAM, QUIC_CONNECTION, TLS_CONNECTION};
use crate::compress::{self, Coding};
use crate::endpoint::{Compression, Endpoint, Handler, SlowClients};
use crate::settings::ChosenBy;
use crate::source::{Kind, SourceConfig};
use crate::spool::spill;
use crate::spool::whole::IN_MEMORY;

/// The program itself with its runtimes, threads and endpoints, what the log may hold, what the
/// allocator keeps, and the [reserve](ADMIN_REQUESTS) of admin endpoints.
const SERVER: usize = 16 << 20;
const _: () = assert!(ADMIN_REQUESTS < SERVER / 4);

/// How many streams of any endpoint fit by default, whatever their format.
const STREAMS: usize = 8;
/// Rows that have to be possible by default.
const LEAST_ROW: usize = 64 << 10;
/// Connections of clients that have to be possible by default, and the part of all memory that more
/// of them may take.
const LEAST_CONNECTIONS: usize = 64;
const CONNECTIONS_PART: usize = 8;

/// How much longer a row may be in a format than as the database sends it, and how often it stands
/// in the encoder.
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

/// The longest row of `endpoint` as it is sent.
fn longest_row(endpoint: &Endpoint, source: &SourceConfig, format: Format) -> usize {
    let replies = endpoint.per_row().map_or(0, |calls| calls.plan.longest_replies());
    source.max_row_bytes.saturating_add(replies).saturating_mul(growth(format))
}

/// The longest chunk, but for its last row.
fn chunk(format: Format) -> usize {
    CHUNK + CHUNK / 8 + if format == Format::Arrow { 2 * ArrowEncoder::BATCH } else { 0 }
}

/// What a stream takes besides while its client is spilled.
pub(crate) fn spilled(endpoint: &Endpoint, source: &SourceConfig, format: Format) -> usize {
    // A block ends with a chunk, whatever its length.
    spill::WINDOW.saturating_add(chunk(format)).saturating_add(longest_row(endpoint, source, format))
}

/// What one stream of `endpoint` may take at most, in bytes. Where it is spilled only when others
/// wait for its connection, what it then takes is claimed then.
pub fn budget(endpoint: &Endpoint, source: &SourceConfig, format: Format, coding: Option<Coding>) -> usize {
    let (row, chunk) = (longest_row(endpoint, source, format), chunk(format));
    // One chunk in the making, and one on its way.
    let chunks = chunk.saturating_add(row).saturating_mul(2);
    let nested = endpoint.statements().iter().filter(|statement| statement.nested.is_some()).count();
    let spill = match endpoint.slow_clients {
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
        // Of each interleaved statement one row waits, encoded, and a portion in the session.
        (if nested == 0 { 0 } else { nested + 1 }).saturating_mul(row.saturating_add(source.portion())),
        coding.map_or(0, |_| compress::WINDOW),
        spill,
        HTTP_STREAM,
    ];
    parts.into_iter().fold(0, usize::saturating_add)
}

/// What an answer of an upstream may take that is passed through, in bytes.
pub fn proxy_budget(source: &SourceConfig) -> usize {
    source.budget().saturating_add(HTTP_STREAM)
}

/// The most that a stream of `endpoint` may take, in any format and coding that it may be asked
/// for, and waiting for its end.
pub fn largest_budget(endpoint: &Endpoint, source: &SourceConfig) -> usize {
    if let Handler::Proxy(_) = &endpoint.handler {
        return proxy_budget(source);
    }
    let coding = (endpoint.compression != Compression::Off).then_some(Coding::Zstd);
    let budgets = endpoint.formats.iter().map(|&format| budget(endpoint, source, format, coding));
    budgets.max().map_or(0, |budget| budget.saturating_add(IN_MEMORY))
}

/// What the server may take without any stream: itself, idle connections of clients, and those of
/// the pools.
pub fn without_streams(config: &Config) -> usize {
    // One connection more tells whether the source can be reached.
    let connections = |source: &SourceConfig| source.pool.max.saturating_add(1);
    let pools = config.sources.iter().map(|source| connections(source).saturating_mul(source.idle()));
    let clients = config.limits.max_connections.saturating_add(budget::RESERVED_CONNECTIONS);
    let clients = clients.saturating_mul(connection(config));
    pools.fold(SERVER.saturating_add(clients), usize::saturating_add)
}

/// What a connection of a client takes while nothing is asked.
fn connection(config: &Config) -> usize {
    let secured = |tls: &Tls| if tls.http3 { QUIC_CONNECTION.max(TLS_CONNECTION) } else { TLS_CONNECTION };
    CONNECTION + config.tls.as_ref().map_or(0, secured)
}

/// What `memory` leaves for streams; `None` where it is not bounded.
pub fn for_streams(config: &Config) -> Option<usize> {
    Some(config.limits.memory?.saturating_sub(without_streams(config)))
}

/// The endpoints with the settings of their sources.
fn endpoints(config: &Config) -> impl Iterator<Item = (&Endpoint, &SourceConfig)> {
    config.endpoints.iter().map(|endpoint| (endpoint, config.source(&endpoint.source)))
}

/// Lowers the defaults of `max_connections` and of each database's `max_row_bytes`, so that
/// [`STREAMS`] of each endpoint fit into `memory` where they can.
pub(crate) fn fit_defaults(config: &mut Config) {
    let Some(memory) = config.limits.memory else { return };
    if config.limits.max_connections_by == ChosenBy::Default {
        let most = memory / CONNECTIONS_PART / connection(config);
        config.limits.max_connections = config.limits.max_connections.min(most.max(LEAST_CONNECTIONS));
    }
    let each = for_streams(config).unwrap_or(usize::MAX) / STREAMS;
    for source in &mut config.sources {
        if source.max_row_bytes_by == ChosenBy::Default && matches!(source.kind, Kind::Sql(_)) {
            let row = row_that_fits(source, &config.endpoints, each);
            source.max_row_bytes = row.unwrap_or(LEAST_ROW);
        }
    }
}

/// The longest row of a source, by halves, with which each of its streams takes `most` at most.
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

/// What is wrong with a `memory` that cannot hold one stream of each endpoint, and what to do about
/// it.
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
        "`memory` holds no stream of {}, which may take {}: {} of it are for the server itself, {connections} connections and the pools",
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

/// Bytes as files write them.
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

/// The bound in words, for people; with what a stream of each endpoint may take.
pub(crate) fn describe(config: &Config) -> Option<String> {
    let (memory, room) = (config.limits.memory?, for_streams(config)?);
    let streams = endpoints(config).map(|(endpoint, source)| {
        let budget = largest_budget(endpoint, source).max(1);
        format!("    {}: {} each, {} at a time\n", endpoint.path, megabytes(budget), room / budget)
    });
    let streams: String = streams.collect();
    let databases = config.sources.iter().filter(|source| matches!(source.kind, Kind::Sql(_)));
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

/// Bytes as people read them.
fn megabytes(bytes: usize) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}
