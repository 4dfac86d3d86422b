//! The families of metrics: their names, types, labels and meanings. The metrics' text and the
//! table in the documentation are both generated from this list.
//!
//! Names follow Prometheus (base units as suffixes, `_total` for counters) and its client
//! libraries' names for processes.

use std::fmt::Write as _;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FamilyType {
    /// It only grows, and starts at 0 with the process.
    Counter,
    /// The present value.
    Gauge,
    /// Counts by upper bounds, with their sum.
    Histogram,
    /// 1, with descriptive labels.
    Info,
}

/// A metric with all its labels.
#[derive(Debug)]
pub(super) struct Family {
    /// The name in queries, except for the `_bucket`, `_sum` and `_count` of a histogram.
    pub(super) name: &'static str,
    pub(super) kind: FamilyType,
    pub(super) labels: &'static [&'static str],
    /// One line, without the full stop at its end.
    pub(super) help: &'static str,
}

impl Family {
    /// The name without the suffixes that OpenMetrics adds for the unit and the type.
    pub(super) fn stem(&self) -> &'static str {
        let name = self.name.strip_suffix(self.suffix()).unwrap_or(self.name);
        ["_seconds", "_bytes"].into_iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name)
    }

    pub(super) fn unit(&self) -> Option<Unit> {
        let name = self.name.strip_suffix(self.suffix()).unwrap_or(self.name);
        match name {
            name if name.ends_with("_seconds") => Some(Unit::Seconds),
            name if name.ends_with("_bytes") => Some(Unit::Bytes),
            _ => None,
        }
    }

    fn suffix(&self) -> &'static str {
        match self.kind {
            FamilyType::Counter => "_total",
            FamilyType::Info => "_info",
            FamilyType::Gauge | FamilyType::Histogram => "",
        }
    }

    pub(super) fn metric_type(&self) -> MetricType {
        match self.kind {
            FamilyType::Counter => MetricType::Counter,
            FamilyType::Gauge => MetricType::Gauge,
            FamilyType::Histogram => MetricType::Histogram,
            FamilyType::Info => MetricType::Info,
        }
    }
}

/// Defines each family as a constant, and `ALL` as the list of them.
macro_rules! families {
    ($($constant:ident: $kind:ident $name:literal $labels:tt $help:literal;)*) => {
        $(pub(super) const $constant: Family =
            Family { name: $name, kind: FamilyType::$kind, labels: &$labels, help: $help };)*
        pub(super) const ALL: &[Family] = &[$($constant),*];
    };
}

families! {
    REQUESTS: Counter "rowstream_requests_total" ["endpoint", "format", "protocol", "outcome"]
        "Requests that have ended, by outcome";
    STREAMS: Counter "rowstream_streams_total" ["endpoint", "format", "protocol", "outcome"]
        "Responses that were streamed, without a Content-Length, by outcome";
    STREAMS_RUNNING: Gauge "rowstream_streams_running" ["endpoint"]
        "Responses without a Content-Length that are in flight";
    ROWS: Counter "rowstream_rows_total" ["endpoint", "format"]
        "Rows encoded; updated about once a second during a long stream";
    SENT_BYTES: Counter "rowstream_sent_bytes_total" ["endpoint", "format"]
        "Bytes of bodies handed to HTTP, as they are sent";
    FIRST_ROW: Histogram "rowstream_first_row_seconds" ["endpoint"]
        "Time from a request to its first row, or to the end of a result without rows, even if it failed";
    DURATION: Histogram "rowstream_request_duration_seconds" ["endpoint"]
        "Time from a request to its last byte, for requests that had a permit";
    PHASE: Counter "rowstream_phase_seconds_total" ["endpoint", "phase"]
        "Time of responses by phase: waiting for the pool or the database, encoding, waiting for the client";
    HELD: Counter "rowstream_connection_held_seconds_total" ["endpoint"]
        "The part of the phase `client` that held a connection of the source";

    PERMITS: Gauge "rowstream_permits" []
        "Permits in use: requests that run statements or send their results";
    PERMITS_MAX: Gauge "rowstream_permits_max" []
        "The number of permits (`max_streams`)";
    REFUSED: Counter "rowstream_refused_total" ["reason"]
        "Requests that got no permit, by the error's code";
    DENIED: Counter "rowstream_denied_total" ["reason"]
        "Requests that were denied because of their credentials: `missing`, `invalid` or `expired`, \
         `forbidden` for them or for their `role`, or without a `claim`; or of their URL's `signature`";
    RATE_LIMITED: Counter "rowstream_rate_limited_total" ["by"]
        "Requests that exceeded `[rate_limit]` of their `address` or their `token`";
    STREAM_MEMORY: Gauge "rowstream_stream_memory_bytes" []
        "Memory that the running streams may use together, if `memory` is set";
    STREAM_MEMORY_MAX: Gauge "rowstream_stream_memory_max_bytes" []
        "The most memory that streams may use together, if `memory` is set";

    POOL_MAX: Gauge "rowstream_pool_max" ["source"]
        "Slots of a pool (`pool.max`): connections, or requests in flight at an HTTP service";
    POOL_USED: Gauge "rowstream_pool_used" ["source"]
        "Slots in use: by a request, to open a connection, or to make it ready for the next request";
    POOL_IDLE: Gauge "rowstream_pool_idle" ["source"]
        "Connections that are open and wait for a request";
    POOL_WAITING: Gauge "rowstream_pool_waiting" ["source"]
        "Requests that wait for a slot";
    POOL_WAITING_MAX: Gauge "rowstream_pool_waiting_max" ["source"]
        "The number of lists that may wait for a slot, and as many lookups (`pool.waiting`)";
    POOL_ACQUIRE: Histogram "rowstream_pool_acquire_seconds" ["source"]
        "Time that requests waited for a slot, even if they got none; without the time to open a connection";
    POOL_OPENED: Counter "rowstream_pool_opened_total" ["source"]
        "Connections that were opened";
    POOL_TIMEOUTS: Counter "rowstream_pool_timeouts_total" ["source"]
        "Requests that got no slot within `pool.acquire_timeout`";
    POOL_REFUSED: Counter "rowstream_pool_refused_total" ["source"]
        "Requests that were refused at once, because the queue was full";
    FOLLOW_WAIT: Gauge "rowstream_follow_wait_seconds" ["source"]
        "Time that live tails have waited for the end of an earlier transaction; the log names it";
    POOL_LOOKUPS: Gauge "rowstream_pool_lookups" ["source"]
        "Lookups in flight on shared connections; not counted for drivers";
    POOL_BATCH_SIZE: Histogram "rowstream_pool_batch_size" ["source"]
        "Lookups that were sent together on a shared connection; not counted for drivers";

    HOST_REQUESTS: Counter "rowstream_host_requests_total" ["source", "host", "outcome"]
        "Requests to a host of an HTTP service, including retries: `answered`, `failed` by the host, or \
         `aborted` before either; connections to one of several hosts of a database: lent, or failed";
    HOST_IN_FLIGHT: Gauge "rowstream_host_in_flight" ["source", "host"]
        "Requests in flight at a host, until the last byte of the answer; for a database, connections in use";
    HOST_UP: Gauge "rowstream_host_up" ["source", "host"]
        "0 while a host is ejected, and while one request probes it; otherwise 1";
    HOST_EJECTED: Counter "rowstream_host_set_aside_total" ["source", "host"]
        "Ejections of a host";
    DISCOVERED: Gauge "rowstream_discovered_instances" ["source"]
        "Instances of an HTTP service in the last answer of its registry (`discover`)";
    DISCOVERY_FAILURES: Counter "rowstream_discovery_failures_total" ["source"]
        "Failed queries to that registry";
    HOST_LAG: Gauge "rowstream_host_lag_seconds" ["source", "host"]
        "The lag of a replica; 0 for the primary, absent while unknown";

    CONNECTIONS: Gauge "rowstream_connections" ["protocol"]
        "Connections of clients; `none` until the first request has arrived";
    CONNECTIONS_MAX: Gauge "rowstream_connections_max" []
        "Connections that may be open at a time (`max_connections`, or fewer if descriptors are short)";
    ACCEPTED: Counter "rowstream_connections_accepted_total" []
        "Connections of clients that were accepted";
    GAVE_WAY: Counter "rowstream_connections_gave_way_total" []
        "Idle connections of clients that were closed to make room";
    TIMED_OUT: Counter "rowstream_connections_timed_out_total" []
        "Connections of clients that were closed by `header_timeout` or `idle_timeout`";
    REFUSED_CONNECTIONS: Counter "rowstream_connections_refused_total" []
        "Requests on connections that exceeded the limit";
    LOG_DROPPED: Counter "rowstream_access_log_dropped_lines_total" []
        "Lines of the access log that were dropped, because standard output wasn't read in time";
    TLS_FAILURES: Counter "rowstream_tls_failures_total" []
        "Connections without a completed TLS handshake: plain HTTP, a client without its certificate or \
         without trust in ours, or one that left";
    CERTIFICATE: Gauge "rowstream_tls_certificate_expiry_timestamp_seconds" []
        "Expiry of the certificate that clients see, in seconds since 1970; absent without a certificate";

    WORKER_BUSY: Counter "rowstream_worker_busy_seconds_total" ["worker"]
        "Time that a worker's thread was busy; a rate of 1 is a whole core";
    WORKER_DELAY: Histogram "rowstream_worker_delay_seconds" ["worker"]
        "Time that ready tasks wait for the worker; up to 2 ms are the measuring timer's own";
    WORKER_CONNECTIONS: Gauge "rowstream_worker_connections" ["worker"]
        "Connections of clients by worker";

    BUILD: Info "rowstream_build_info" ["version"]
        "The version that runs";
    CPU: Counter "process_cpu_seconds_total" []
        "Processor time, of the user and of the system";
    RESIDENT: Gauge "process_resident_memory_bytes" []
        "Resident memory";
    VIRTUAL: Gauge "process_virtual_memory_bytes" []
        "Virtual memory";
    OPEN_FDS: Gauge "process_open_fds" []
        "Open descriptors";
    MAX_FDS: Gauge "process_max_fds" []
        "The limit of open descriptors, if there is one";
    THREADS: Gauge "process_threads" []
        "Threads";
    START: Gauge "process_start_time_seconds" []
        "When the process began, in seconds since 1970";
}

/// The table of all families for the documentation.
pub fn table() -> String {
    let mut table = "| metric | type | meaning |\n|---|---|---|\n".to_owned();
    for family in ALL {
        let labels = match family.labels {
            [] => String::new(),
            labels => format!("{{{}}}", labels.join(",")),
        };
        let kind = family.metric_type();
        let _ = writeln!(table, "| `{}{labels}` | {} | {} |", family.name, kind.as_str(), family.help);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_stem_unit_and_type() {
        for family in ALL {
            let unit = family.unit().map_or(String::new(), |unit| format!("_{}", unit.as_str()));
            assert_eq!(format!("{}{unit}{}", family.stem(), family.suffix()), family.name);
            assert_eq!(
                family.kind == FamilyType::Counter,
                family.name.ends_with("_total"),
                "{}",
                family.name
            );
        }
    }

    #[test]
    fn each_name_is_there_once() {
        let mut names: Vec<_> = ALL.iter().map(|family| family.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
