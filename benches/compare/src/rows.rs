//! The rows of the comparison: the subject of each, and our claims about it. [`crate::measure`]
//! runs them.

use crate::record::{Measure, RowRun};
use crate::stats::Spread;

/// The names of targets that aren't rivals, as reports print them.
pub(crate) const ROWSTREAM: &str = "rowstream";
/// An older version of it.
pub(crate) const OLDER: &str = "rowstream, older";
pub(crate) const COPY: &str = "psql \\copy binary";
pub(crate) const COPIES: &str = "20 × psql \\copy binary";
pub(crate) const BARE_LOOP: &str = "SQLite, bare loop";
pub(crate) const SQLITE_CSV: &str = "sqlite3 -csv";
pub(crate) const PGBENCH: &str = "pgbench";
pub(crate) const MARIADB_QUICK: &str = "mariadb --quick";
pub(crate) const MYSQLSLAP: &str = "mysqlslap";
pub(crate) const DUCKDB_LOOP: &str = "duckdb in Python";
pub(crate) const FLIGHT_LOOP: &str = "adbc_driver_flightsql in Python";
pub(crate) const FAR_COPY: &str = "psql \\copy binary, far database";
/// The databases' own clients.
pub(crate) const FLOORS: [&str; 10] = [
    COPY,
    FAR_COPY,
    COPIES,
    BARE_LOOP,
    SQLITE_CSV,
    PGBENCH,
    MARIADB_QUICK,
    MYSQLSLAP,
    DUCKDB_LOOP,
    FLIGHT_LOOP,
];
pub(crate) const SMALL: &str = "rowstream, 1 core and 64 MB";
pub(crate) const PARALLEL: &str = "rowstream, 3 connections";
pub(crate) const FAR_DATABASE: &str = "rowstream, far database";
pub(crate) const FAR_CLIENT: &str = "rowstream, far client";
pub(crate) const ODBC: &str = "rowstream, ODBC";
/// The formats and codings of one list. [`ROWSTREAM`] is its NDJSON.
pub(crate) const JSON: &str = "rowstream, JSON";
pub(crate) const CSV: &str = "rowstream, CSV";
pub(crate) const ARROW: &str = "rowstream, Arrow";
pub(crate) const ZSTD: &str = "rowstream, zstd";
pub(crate) const BROTLI: &str = "rowstream, br";
pub(crate) const GZIP: &str = "rowstream, gzip";
pub(crate) const LOGGING: &str = "rowstream, access log";
pub(crate) const OBSERVED: &str = "rowstream, observed";
pub(crate) const BY_ROWS: &str = "rowstream, by rows";
pub(crate) const BY_STREAMS: &str = "rowstream, by streams";
pub(crate) const BENCH_LINES: &str = "rowstream bench, NDJSON";
pub(crate) const BENCH_ARRAY: &str = "rowstream bench, JSON";
pub(crate) const CURL: &str = "curl";
pub(crate) const ALONE: &str = "rowstream, no readers";
pub(crate) const HOLD: &str = "rowstream, hold";
pub(crate) const SPILL: &str = "rowstream, spill";

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    Events,
    EventsEnvelope,
    EventsH2,
    FirstByte,
    Distance,
    Parallel,
    Formats,
    Sqlite,
    SqliteLookups,
    Mysql,
    MysqlLookups,
    Odbc,
    DuckDb,
    Flight,
    Authors,
    Slow,
    Beside,
    Lookups,
    SteadyLookups,
    FarLookups,
    Films,
    SmallMachine,
    AccessLog,
    AccessLogLookups,
    Observed,
    ObservedLookups,
    Growth,
    RivalsEvents,
    LoadTester,
}

impl Row {
    /// In the order of the report.
    pub(crate) const ALL: [Self; 29] = [
        Self::Events,
        Self::EventsEnvelope,
        Self::EventsH2,
        Self::FirstByte,
        Self::RivalsEvents,
        Self::Distance,
        Self::Parallel,
        Self::Formats,
        Self::Sqlite,
        Self::Mysql,
        Self::Odbc,
        Self::DuckDb,
        Self::Flight,
        Self::Authors,
        Self::Slow,
        Self::Beside,
        Self::Lookups,
        Self::SteadyLookups,
        Self::FarLookups,
        Self::SqliteLookups,
        Self::MysqlLookups,
        Self::Films,
        Self::SmallMachine,
        Self::AccessLog,
        Self::AccessLogLookups,
        Self::Observed,
        Self::ObservedLookups,
        Self::Growth,
        Self::LoadTester,
    ];

    /// Its name on the command line and in file names.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::EventsEnvelope => "events-envelope",
            Self::EventsH2 => "events-h2",
            Self::FirstByte => "first-byte",
            Self::Distance => "distance",
            Self::Parallel => "parallel",
            Self::Formats => "formats",
            Self::Sqlite => "sqlite",
            Self::SqliteLookups => "sqlite-lookups",
            Self::Mysql => "mysql",
            Self::MysqlLookups => "mysql-lookups",
            Self::Odbc => "odbc",
            Self::DuckDb => "duckdb",
            Self::Flight => "flight",
            Self::Authors => "authors",
            Self::Slow => "slow",
            Self::Beside => "beside",
            Self::Lookups => "lookups",
            Self::SteadyLookups => "steady-lookups",
            Self::FarLookups => "far-lookups",
            Self::Films => "films",
            Self::SmallMachine => "small-machine",
            Self::AccessLog => "access-log",
            Self::AccessLogLookups => "access-log-lookups",
            Self::Observed => "observed",
            Self::ObservedLookups => "observed-lookups",
            Self::Growth => "growth",
            Self::RivalsEvents => "rivals-events",
            Self::LoadTester => "load-tester",
        }
    }

    pub(crate) fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|row| row.id() == id)
    }

    /// Its heading and its description.
    pub(crate) fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Events => (
                "1,000,000 events from PostgreSQL, as NDJSON",
                "One `curl` reads `/events.ndjson` of the events example and discards it. The floor \
                 is PostgreSQL's own client, which discards the same rows in PostgreSQL's binary \
                 format, without JSON and HTTP.",
            ),
            Self::EventsEnvelope => (
                "1,000,000 events as one JSON object",
                "`/events`: `{\"events\":[…]}`. The floor is the same.",
            ),
            Self::EventsH2 => (
                "1,000,000 events by HTTP/2",
                "`curl --http2-prior-knowledge` reads `/events.ndjson`. The floor is the same.",
            ),
            Self::FirstByte => {
                ("The first byte", "The first byte of the same 1,000,000 events on a warm server.")
            }
            Self::RivalsEvents => (
                "1,000,000 events from other servers",
                "The same stream from other servers, each set up as its experts would.",
            ),
            Self::Distance => (
                "1,000,000 events over a distance",
                "The same events: locally, from a database with a delay of 0.5 ms each way, and to \
                 a client with 20 ms each way. PostgreSQL's own client reads from the same far \
                 database. By default, Linux buffers up to 4 MiB for a client, which limits each \
                 round trip to a far one. The program that delays the packets runs on the same two \
                 cores.",
            ),
            Self::Parallel => (
                "1,000,000 events over several connections",
                "The same events from an endpoint with `parallel = 3`, in any order, and from one \
                 without. The floor reads them over one connection.",
            ),
            Self::Formats => (
                "100,000 authors in each format and coding",
                "One `curl` reads `/authors` in one format or coding and discards it. The ratios \
                 are to NDJSON without a coding.",
            ),
            Self::SqliteLookups => (
                "Lookups in SQLite",
                "64 connections request `/authors/{id}` of the authors example from its SQLite \
                 file, with random ids, for 5 seconds.",
            ),
            Self::Sqlite => (
                "1,000,000 events from SQLite, as NDJSON",
                "The same example from its SQLite file. The floor is a program that only steps through \
                 the same rows and reads each value in place. SQLite's own shell writes CSV to \
                 `/dev/null`.",
            ),
            Self::Mysql => (
                "1,000,000 events from MariaDB, as NDJSON",
                "The same example from MariaDB. The floor is MariaDB's own client, `mariadb \
                 --quick`, which writes the same rows to `/dev/null` as text.",
            ),
            Self::MysqlLookups => (
                "Lookups in MariaDB",
                "64 connections request `/authors/{id}` of the authors example from MariaDB, with \
                 random ids, for 5 seconds. The floor is `mysqlslap` with the same prepared \
                 statement and 64 clients, without HTTP.",
            ),
            Self::Odbc => (
                "1,000,000 events from PostgreSQL by ODBC",
                "One `curl` reads the same events as NDJSON from a server that uses PostgreSQL's \
                 ODBC driver, in a worker process, and from one that connects natively. CPU and \
                 memory include the worker's.",
            ),
            Self::DuckDb => (
                "10,000,000 events from Parquet by DuckDB",
                "DuckDB reads ten Parquet files of 1,000,000 events each in a worker process \
                 (ADBC). One `curl` reads them as NDJSON and as Arrow. The floor is a Python \
                 program with DuckDB in its process that only counts the same batches' rows.",
            ),
            Self::Flight => (
                "10,000,000 readings by Arrow Flight SQL",
                "Sail reads Parquet in one process on this machine. One `curl` reads its readings of the \
                 lake example as NDJSON and as Arrow. The floor is a Python loop over the same batches, \
                 with the ADBC driver for Flight SQL, which writes nothing.",
            ),
            Self::Authors => (
                "20 clients, 100,000 authors each",
                "100 requests of `/authors`, 20 at a time. Each response is read to its end and its \
                 rows are counted. The floor is 20 `psql` at once that copy the same table five \
                 times each.",
            ),
            Self::Slow => (
                "200 slow readers",
                "200 clients read `/events.ndjson` at 100 kB/s each for 40 seconds, over 200 \
                 connections to the database. The sockets' memory is the peak of the kernel's \
                 buffers on the server's side, to the clients and to the database.",
            ),
            Self::Beside => (
                "Lookups beside 200 slow readers",
                "200 clients read `/events.ndjson` at 100 kB/s each, while 4 connections look up \
                 200 events a second. With `hold`, each reader has a connection to the database. \
                 With `spill`, all share 10, and rows that wait are in files. The lookups are \
                 measured for 10 seconds, after all readers have begun and, with `spill`, have \
                 returned their connections; `meanwhile` has the lookups until then.",
            ),
            Self::Lookups => (
                "Lookups",
                "64 connections request `/authors/{id}` with random ids for 5 seconds. The floor is \
                 `pgbench` with the same prepared statement and 16 clients, without HTTP.",
            ),
            Self::SteadyLookups => (
                "Lookups for a minute",
                "The same requests for 60 seconds, measured in intervals of 5 seconds.",
            ),
            Self::FarLookups => (
                "Lookups over a distance",
                "The same requests for 5 seconds, with a delay of 0.5 ms each way to the database. \
                 The floor is `pgbench` with 64 clients and the same far database. The program that \
                 delays the packets runs on the same two cores.",
            ),
            Self::Films => (
                "1,000 clients and a pool of 50",
                "50,000 requests of `/films/{id}` over 1,000 connections, with 50 connections to \
                 the database. The floor is `pgbench` with 16 clients.",
            ),
            Self::SmallMachine => (
                "One core and 64 MB",
                "The first row's events from a server that is limited to one core and 64 MB, and \
                 from one without limits.",
            ),
            Self::AccessLog => (
                "The access log",
                "The first row's events from a server that writes an access log to a file, and from \
                 one that doesn't.",
            ),
            Self::AccessLogLookups => (
                "The access log of lookups",
                "Lookups for 2 seconds a run, from a server that writes an access log to a file, a \
                 line for each request, and from one that doesn't.",
            ),
            Self::Observed => (
                "Metrics and traces",
                "The first row's events from a server with traces for one request in a hundred, \
                 whose metrics and history are read every second, and from one without both.",
            ),
            Self::ObservedLookups => (
                "Metrics and traces of lookups",
                "Lookups for 2 seconds a run, from the same two servers. More than a thousand spans \
                 a second go to the collector.",
            ),
            Self::Growth => (
                "Growth",
                "More rows for one client, and more clients at a time with 10,000 rows each, over a \
                 pool of 50. Time should grow with the work, but memory shouldn't grow with the \
                 rows.",
            ),
            Self::LoadTester => (
                "The load tester itself",
                "`rowstream bench` reads and counts 2 GB of rows from a server that sends one \
                 prepared block again and again. `curl` reads and discards the same lines.",
            ),
        }
    }

    /// The target and the measure that the others of a table are divided by.
    pub(crate) fn base(self) -> Option<(&'static str, Measure)> {
        match self {
            Self::Events | Self::EventsEnvelope | Self::EventsH2 | Self::RivalsEvents | Self::Parallel => {
                Some((COPY, Measure::Wall))
            }
            Self::Distance => Some((ROWSTREAM, Measure::Wall)),
            Self::Formats => Some((ROWSTREAM, Measure::Cpu)),
            Self::Sqlite => Some((BARE_LOOP, Measure::Wall)),
            Self::Mysql => Some((MARIADB_QUICK, Measure::Wall)),
            Self::Odbc => Some((ROWSTREAM, Measure::Wall)),
            Self::DuckDb => Some((DUCKDB_LOOP, Measure::Wall)),
            Self::Flight => Some((FLIGHT_LOOP, Measure::Wall)),
            Self::MysqlLookups => Some((MYSQLSLAP, Measure::RequestsPerSecond)),
            Self::Beside => Some((ALONE, Measure::P99)),
            Self::Authors => Some((COPIES, Measure::RequestsPerSecond)),
            Self::Lookups | Self::FarLookups | Self::Films => Some((PGBENCH, Measure::RequestsPerSecond)),
            Self::SmallMachine | Self::AccessLog | Self::Observed => Some((ROWSTREAM, Measure::Wall)),
            Self::AccessLogLookups | Self::ObservedLookups => Some((ROWSTREAM, Measure::RequestsPerSecond)),
            Self::LoadTester => Some((CURL, Measure::BytesPerSecond)),
            Self::FirstByte | Self::Slow | Self::SteadyLookups | Self::SqliteLookups | Self::Growth => None,
        }
    }

    /// Measures that every run has, but that mean nothing in this row.
    pub(crate) fn beside_the_point(self) -> &'static [Measure] {
        match self {
            Self::Slow => &[
                Measure::RequestsPerSecond,
                Measure::Wall,
                Measure::P99,
                Measure::CpuPerRequest,
                Measure::Bytes,
            ],
            Self::Beside => {
                &[Measure::RequestsPerSecond, Measure::Wall, Measure::CpuPerRequest, Measure::Bytes]
            }
            Self::Growth => {
                &[Measure::RequestsPerSecond, Measure::P99, Measure::CpuPerRequest, Measure::Bytes]
            }
            Self::LoadTester => {
                &[Measure::RequestsPerSecond, Measure::P99, Measure::FirstByte, Measure::Bytes]
            }
            Self::Formats => &[],
            Self::Lookups
            | Self::SteadyLookups
            | Self::FarLookups
            | Self::SqliteLookups
            | Self::MysqlLookups
            | Self::Films
            | Self::AccessLogLookups
            | Self::ObservedLookups => &[Measure::Bytes],
            _ => &[Measure::CpuPerRequest, Measure::Bytes],
        }
    }

    /// The measure in its chart, except for [`Row::Growth`].
    pub(crate) fn pictured(self) -> Option<Measure> {
        match self {
            Self::RivalsEvents | Self::Sqlite => Some(Measure::Wall),
            Self::Authors | Self::Lookups | Self::Films => Some(Measure::RequestsPerSecond),
            _ => None,
        }
    }

    /// True if it helps users to decide. The others are only in the report.
    pub(crate) fn is_in_book(self) -> bool {
        matches!(
            self,
            Self::Events
                | Self::RivalsEvents
                | Self::Formats
                | Self::Slow
                | Self::Lookups
                | Self::Films
                | Self::Growth
        )
    }

    /// The values that Rowstream should reach.
    pub(crate) fn claims(self) -> &'static [Claim] {
        match self {
            Self::Events => &[
                Claim {
                    of: Of::Ratio(ROWSTREAM, COPY, Measure::Wall),
                    limit: Limit::AtMost(0.80, Some(0.70)),
                },
                Claim { of: Of::Median(ROWSTREAM, Measure::Cpu), limit: Limit::AtMost(0.12, Some(0.08)) },
                Claim {
                    of: Of::Greatest(ROWSTREAM, Measure::PeakMemory),
                    limit: Limit::AtMost(12e6, Some(8e6)),
                },
            ],
            Self::EventsEnvelope | Self::EventsH2 => &[Claim {
                of: Of::Ratio(ROWSTREAM, COPY, Measure::Wall),
                limit: Limit::AtMost(0.85, Some(0.75)),
            }],
            Self::FirstByte => &[Claim {
                of: Of::Median(ROWSTREAM, Measure::FirstByte),
                limit: Limit::AtMost(0.002, Some(0.001)),
            }],
            Self::Distance => &[Claim {
                of: Of::Ratio(FAR_DATABASE, FAR_COPY, Measure::Wall),
                limit: Limit::AtMost(1.2, Some(1.0)),
            }],
            Self::Parallel => &[
                Claim { of: Of::Ratio(PARALLEL, COPY, Measure::Wall), limit: Limit::AtMost(0.58, None) },
                Claim { of: Of::Greatest(PARALLEL, Measure::PeakMemory), limit: Limit::AtMost(16e6, None) },
            ],
            Self::Formats => &[
                Claim { of: Of::Ratio(CSV, ROWSTREAM, Measure::Cpu), limit: Limit::AtMost(1.0, None) },
                Claim { of: Of::Ratio(ZSTD, ROWSTREAM, Measure::Bytes), limit: Limit::AtMost(0.25, None) },
            ],
            Self::SqliteLookups => &[Claim {
                of: Of::Median(ROWSTREAM, Measure::RequestsPerSecond),
                limit: Limit::AtLeast(90_000.0, None),
            }],
            Self::Sqlite => &[Claim {
                of: Of::Ratio(ROWSTREAM, BARE_LOOP, Measure::Wall),
                limit: Limit::AtMost(1.6, Some(1.2)),
            }],
            Self::Mysql => &[
                Claim {
                    of: Of::Ratio(ROWSTREAM, MARIADB_QUICK, Measure::Wall),
                    limit: Limit::AtMost(0.7, None),
                },
                Claim { of: Of::Median(ROWSTREAM, Measure::Cpu), limit: Limit::AtMost(0.13, None) },
                Claim { of: Of::Greatest(ROWSTREAM, Measure::PeakMemory), limit: Limit::AtMost(10e6, None) },
            ],
            Self::Odbc => {
                &[Claim { of: Of::Ratio(ODBC, ROWSTREAM, Measure::Wall), limit: Limit::AtMost(4.0, None) }]
            }
            Self::DuckDb => &[
                Claim {
                    of: Of::Median(ARROW, Measure::RowsPerSecond),
                    limit: Limit::AtLeast(5_000_000.0, None),
                },
                Claim {
                    of: Of::Median(ROWSTREAM, Measure::RowsPerSecond),
                    limit: Limit::AtLeast(1_500_000.0, None),
                },
            ],
            Self::Flight => &[
                Claim { of: Of::Ratio(ARROW, FLIGHT_LOOP, Measure::Wall), limit: Limit::AtMost(1.3, None) },
                Claim {
                    of: Of::Ratio(ROWSTREAM, FLIGHT_LOOP, Measure::Wall),
                    limit: Limit::AtMost(1.3, None),
                },
                Claim { of: Of::Greatest(ROWSTREAM, Measure::PeakMemory), limit: Limit::AtMost(32e6, None) },
                Claim { of: Of::Greatest(ARROW, Measure::PeakMemory), limit: Limit::AtMost(32e6, None) },
            ],
            Self::MysqlLookups => &[Claim {
                of: Of::Ratio(ROWSTREAM, MYSQLSLAP, Measure::RequestsPerSecond),
                limit: Limit::AtLeast(0.75, None),
            }],
            Self::Authors => &[
                Claim {
                    of: Of::Ratio(ROWSTREAM, "go-pgx", Measure::RequestsPerSecond),
                    limit: Limit::AtLeast(1.5, Some(2.0)),
                },
                Claim {
                    of: Of::Greatest(ROWSTREAM, Measure::PeakMemory),
                    limit: Limit::AtMost(24e6, Some(16e6)),
                },
            ],
            Self::Slow => &[
                Claim {
                    of: Of::Greatest(ROWSTREAM, Measure::PeakMemory),
                    limit: Limit::AtMost(40e6, Some(24e6)),
                },
                Claim {
                    of: Of::Greatest(ROWSTREAM, Measure::SocketMemory),
                    limit: Limit::AtMost(0.5e6, Some(0.3e6)),
                },
                Claim { of: Of::Greatest(ROWSTREAM, Measure::Failures), limit: Limit::AtMost(0.0, None) },
            ],
            Self::Beside => &[
                Claim {
                    of: Of::Greatest(SPILL, Measure::PeakMemory),
                    limit: Limit::AtMost(40e6, Some(24e6)),
                },
                Claim { of: Of::Greatest(HOLD, Measure::PeakMemory), limit: Limit::AtMost(40e6, Some(24e6)) },
                Claim { of: Of::Median(SPILL, Measure::HeldPerStream), limit: Limit::AtMost(5.0, Some(2.0)) },
                Claim { of: Of::Ratio(SPILL, ALONE, Measure::P99), limit: Limit::AtMost(1.5, Some(1.1)) },
                Claim { of: Of::Ratio(HOLD, ALONE, Measure::P99), limit: Limit::AtMost(1.5, Some(1.1)) },
                Claim { of: Of::Greatest(SPILL, Measure::Failures), limit: Limit::AtMost(0.0, None) },
            ],
            Self::Lookups => &[
                Claim {
                    of: Of::Ratio(ROWSTREAM, PGBENCH, Measure::RequestsPerSecond),
                    limit: Limit::AtLeast(0.75, Some(1.0)),
                },
                Claim {
                    of: Of::Median(ROWSTREAM, Measure::CpuPerRequest),
                    limit: Limit::AtMost(12e-6, Some(10e-6)),
                },
            ],
            Self::SteadyLookups => &[Claim {
                of: Of::Steadiness(ROWSTREAM, Measure::RequestsPerSecond),
                limit: Limit::AtLeast(0.9, None),
            }],
            Self::FarLookups => &[Claim {
                of: Of::Ratio(ROWSTREAM, PGBENCH, Measure::RequestsPerSecond),
                limit: Limit::AtLeast(1.0, None),
            }],
            Self::Films => &[
                Claim { of: Of::Greatest(ROWSTREAM, Measure::Failures), limit: Limit::AtMost(0.0, None) },
                Claim {
                    of: Of::Ratio(ROWSTREAM, "vertx", Measure::Cpu),
                    limit: Limit::AtMost(0.35, Some(0.25)),
                },
            ],
            Self::SmallMachine => {
                &[Claim { of: Of::Ratio(SMALL, ROWSTREAM, Measure::Wall), limit: Limit::AtMost(1.3, None) }]
            }
            Self::AccessLog => &[Claim {
                of: Of::Ratio(LOGGING, ROWSTREAM, Measure::Wall),
                limit: Limit::AtMost(1.03, Some(1.01)),
            }],
            Self::AccessLogLookups => &[Claim {
                of: Of::Ratio(LOGGING, ROWSTREAM, Measure::RequestsPerSecond),
                limit: Limit::AtLeast(0.97, Some(0.99)),
            }],
            Self::Observed => &[Claim {
                of: Of::Ratio(OBSERVED, ROWSTREAM, Measure::Wall),
                limit: Limit::AtMost(1.02, Some(1.01)),
            }],
            Self::ObservedLookups => &[Claim {
                of: Of::Ratio(OBSERVED, ROWSTREAM, Measure::RequestsPerSecond),
                limit: Limit::AtLeast(0.98, Some(0.99)),
            }],
            Self::LoadTester => &[
                Claim {
                    of: Of::Median(BENCH_LINES, Measure::BytesPerSecond),
                    limit: Limit::AtLeast(1e9, None),
                },
                Claim {
                    of: Of::Median(BENCH_ARRAY, Measure::BytesPerSecond),
                    limit: Limit::AtLeast(1e9, None),
                },
            ],
            Self::Growth | Self::RivalsEvents => &[],
        }
    }
}

/// Returns true if a claim of any row is about a target, either directly or as a divisor.
pub(crate) fn is_claimed_of(target: &str) -> bool {
    Row::ALL.iter().flat_map(|row| row.claims()).any(|claim| match claim.of {
        Of::Median(of, _) | Of::Greatest(of, _) | Of::Steadiness(of, _) => of == target,
        Of::Ratio(of, base, _) => of == target || base == target,
    })
}

/// A claim that can be reached or missed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Claim {
    pub(crate) of: Of,
    pub(crate) limit: Limit,
}

/// A number from a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Of {
    Median(&'static str, Measure),
    /// For values that must never be exceeded: memory, failures.
    Greatest(&'static str, Measure),
    /// The smallest run divided by the median.
    Steadiness(&'static str, Measure),
    /// The median of the first target's runs divided by the second's of the same rounds.
    Ratio(&'static str, &'static str, Measure),
}

impl Of {
    /// Returns `None` if it wasn't measured. An aborted target counts as not measured.
    pub(crate) fn value(self, run: &RowRun) -> Option<f64> {
        let whole = |target| run.series(target).filter(|series| series.missing.is_none());
        match self {
            Self::Median(target, measure) => Some(Spread::of(&whole(target)?.values(measure))?.median),
            Self::Greatest(target, measure) => Some(Spread::of(&whole(target)?.values(measure))?.max),
            Self::Steadiness(target, measure) => {
                let spread = Spread::of(&whole(target)?.values(measure))?;
                Some(spread.min / spread.median)
            }
            Self::Ratio(target, base, measure) => {
                let (values, bases) = (whole(target)?.values(measure), whole(base)?.values(measure));
                Some(Spread::of_ratios(&values, &bases)?.median)
            }
        }
    }

    pub(crate) fn measure(self) -> Measure {
        match self {
            Self::Median(_, measure)
            | Self::Greatest(_, measure)
            | Self::Steadiness(_, measure)
            | Self::Ratio(_, _, measure) => measure,
        }
    }
}

/// The value to reach, and an optional more ambitious aim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    AtMost(f64, Option<f64>),
    AtLeast(f64, Option<f64>),
}

/// The result of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    AimReached,
    Reached,
    NotReached,
    NotMeasured,
}

impl Claim {
    pub(crate) fn verdict(self, value: Option<f64>) -> Verdict {
        let Some(value) = value else { return Verdict::NotMeasured };
        let (reached, aimed) = match self.limit {
            Limit::AtMost(reach, aim) => (value <= reach, aim.is_some_and(|aim| value <= aim)),
            Limit::AtLeast(reach, aim) => (value >= reach, aim.is_some_and(|aim| value >= aim)),
        };
        match (reached, aimed) {
            (_, true) => Verdict::AimReached,
            (true, false) => Verdict::Reached,
            (false, false) => Verdict::NotReached,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Sample, Series};

    fn run(targets: &[(&str, &[f64], Option<&str>)]) -> RowRun {
        let series = targets.iter().map(|(target, walls, missing)| Series {
            samples: walls.iter().map(|wall| Sample::from([(Measure::Wall, *wall)])).collect(),
            missing: missing.map(String::from),
            ..Series::new(target, 0)
        });
        RowRun {
            row: "events".into(),
            started: jiff::Timestamp::UNIX_EPOCH,
            series: series.collect(),
            notes: vec![],
        }
    }

    #[test]
    fn targets_are_known_by_their_claims() {
        assert!(is_claimed_of(ROWSTREAM));
        assert!(is_claimed_of("go-pgx"));
        assert!(!is_claimed_of("spring-webflux"));
    }

    #[test]
    fn figures_are_taken_from_a_row() {
        let run = run(&[(ROWSTREAM, &[1.0, 2.0, 6.0], None), (COPY, &[2.0, 2.0, 2.0], None)]);
        assert_eq!(Of::Median(ROWSTREAM, Measure::Wall).value(&run), Some(2.0));
        assert_eq!(Of::Greatest(ROWSTREAM, Measure::Wall).value(&run), Some(6.0));
        assert_eq!(Of::Steadiness(ROWSTREAM, Measure::Wall).value(&run), Some(0.5));
        assert_eq!(Of::Ratio(ROWSTREAM, COPY, Measure::Wall).value(&run), Some(1.0));
        assert_eq!(Of::Median(ROWSTREAM, Measure::Cpu).value(&run), None);
        assert_eq!(Of::Median("go-pgx", Measure::Wall).value(&run), None);
    }

    #[test]
    fn what_broke_off_was_not_measured() {
        let run = run(&[(ROWSTREAM, &[1.0], Some("out of memory"))]);
        assert_eq!(Of::Median(ROWSTREAM, Measure::Wall).value(&run), None);
    }

    #[test]
    fn limits_are_inclusive_and_have_two_directions() {
        let claim = |limit| Claim { of: Of::Median(ROWSTREAM, Measure::Wall), limit };
        let most = claim(Limit::AtMost(0.8, Some(0.7)));
        assert_eq!(most.verdict(Some(0.7)), Verdict::AimReached);
        assert_eq!(most.verdict(Some(0.8)), Verdict::Reached);
        assert_eq!(most.verdict(Some(0.81)), Verdict::NotReached);
        assert_eq!(most.verdict(None), Verdict::NotMeasured);
        let least = claim(Limit::AtLeast(1.5, Some(2.0)));
        assert_eq!(least.verdict(Some(2.1)), Verdict::AimReached);
        assert_eq!(least.verdict(Some(1.5)), Verdict::Reached);
        assert_eq!(least.verdict(Some(1.4)), Verdict::NotReached);
        assert_eq!(claim(Limit::AtMost(0.0, None)).verdict(Some(0.0)), Verdict::Reached);
    }

    #[test]
    fn a_row_is_found_by_its_id() {
        for row in Row::ALL {
            assert_eq!(Row::from_id(row.id()), Some(row));
        }
    }
}
