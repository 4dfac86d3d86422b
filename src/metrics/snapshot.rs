//! The state of the server at one moment, written family by family.

use std::array;
use std::fmt;
use std::time::{Duration, SystemTime};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use rowstream_core::error::denial::Denial;
use rowstream_core::histogram::{Histogram, Measure};
use rowstream_core::log::lines::ACCESS;
use rowstream_core::pool;
use rowstream_upstream::discovery::DiscoveryStats as Discovered;

use super::MetricsSource;
use super::exemplars::{Exemplar, Exemplars};
use super::families::{self as family, Family};
use super::history::SeriesKey;
use super::requests::{ADMIN, EndpointCounts, NONE, Protocol, Totals};
use super::runtime::WorkerMetrics;
use crate::admission::{self, PermitRefusal};
use crate::database::SharedLookups;
use crate::outcome::OutcomeName;
use crate::rate_limit::ClientProperty;
use rowstream_procfs::{ProcessFiles, kibibytes, number};

/// All metrics at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// By template.
    endpoints: Vec<(String, EndpointCounts)>,
    /// For requests without an endpoint, and for the admin endpoints.
    others: [(&'static str, EndpointCounts); 2],
    admission: admission::Usage,
    denied: [(Denial, u64); Denial::ALL.len()],
    rate_limited: [(ClientProperty, u64); ClientProperty::ALL.len()],
    pools: Vec<PoolSample>,
    connections: Vec<(Option<Protocol>, usize)>,
    connections_max: usize,
    accepted: u64,
    gave_way: u64,
    timed_out: u64,
    refused: u64,
    log_dropped: u64,
    tls_failures: u64,
    certificate_expiry: Option<SystemTime>,
    workers: Vec<WorkerSample>,
    process: ProcessSample,
}

#[derive(Debug)]
struct PoolSample {
    source: String,
    stats: pool::Stats,
    follow_wait: Option<Duration>,
    lookups: Option<SharedLookups>,
    hosts: Vec<pool::HostStats>,
    discovered: Option<Discovered>,
}

#[derive(Debug)]
struct WorkerSample {
    number: String,
    busy: f64,
    delays: Histogram,
    connections: usize,
}

/// Reads a value from a pool's statistics.
type PoolValue<T> = fn(&pool::Stats) -> T;

/// The process's numbers. Unknown ones are left out.
#[derive(Debug)]
struct ProcessSample {
    cpu: Option<f64>,
    resident: Option<u64>,
    virtual_memory: Option<u64>,
    open_fds: Option<u64>,
    max_fds: Option<u64>,
    threads: Option<u64>,
    started: Option<f64>,
}

impl Snapshot {
    /// Reads the present state of a server.
    pub(super) fn take(server: &impl MetricsSource) -> Self {
        let metrics = server.metrics();
        Self {
            endpoints: metrics.totals(),
            others: [(NONE, metrics.none.total()), (ADMIN, metrics.admin.total())],
            admission: server.usage(),
            denied: metrics.denied.counts(),
            rate_limited: metrics.rate_limited.counts(),
            pools: server
                .sources()
                .map(|(name, source)| PoolSample {
                    source: name.to_owned(),
                    stats: source.pool_stats(),
                    follow_wait: source.longest_wait(),
                    lookups: source.lookups(),
                    hosts: source.host_stats(),
                    discovered: source.discovered(),
                })
                .collect(),
            connections: metrics.connections.open(),
            connections_max: server.max_connections(),
            accepted: metrics.connections.accepted(),
            gave_way: metrics.connections.gave_way(),
            timed_out: metrics.connections.timed_out(),
            refused: metrics.connections.refused(),
            log_dropped: ACCESS.dropped(),
            tls_failures: metrics.connections.no_tls(),
            certificate_expiry: server.certificate_expiry(),
            workers: metrics.workers.map(WorkerSample::of),
            process: ProcessSample::look(&ProcessFiles::own()),
        }
    }

    /// The numbers for the history: sums over all endpoints, and the load of each pool and host.
    pub(super) fn lately(&self) -> Vec<(SeriesKey, f64)> {
        let clients = || self.all().filter(|(path, _)| *path != ADMIN).map(|(_, counts)| counts);
        let totals = || clients().flat_map(|counts| &counts.kinds).map(|(_, totals)| totals);
        let ended = |ended: OutcomeName| totals().map(|totals| totals.requests[ended as usize]).sum::<u64>();
        let (complete, all) =
            (ended(OutcomeName::Complete), OutcomeName::ALL.into_iter().map(ended).sum::<u64>());
        let of_server = [
            (&family::REQUESTS, "complete", Some(complete as f64)),
            (&family::REQUESTS, "other", Some((all - complete) as f64)),
            (&family::STREAMS_RUNNING, "", Some(clients().map(EndpointCounts::running).sum::<u64>() as f64)),
            (&family::ROWS, "", Some(totals().map(|totals| totals.rows).sum::<u64>() as f64)),
            (&family::SENT_BYTES, "", Some(totals().map(|totals| totals.bytes).sum::<u64>() as f64)),
            (&family::RESIDENT, "", self.process.resident.map(|bytes| bytes as f64)),
            (&family::CPU, "", self.process.cpu),
        ];
        let of_server = of_server.into_iter().filter_map(|(family, outcome, value)| {
            let labels = [("outcome", outcome)];
            Some((SeriesKey::new(family, if outcome.is_empty() { &[] } else { &labels }), value?))
        });
        let of_pools = self.pools.iter().flat_map(|pool| {
            let labels = [("source", &*pool.source)];
            let stats = &pool.stats;
            [
                (&family::POOL_USED, stats.usage.used),
                (&family::POOL_WAITING, stats.usage.waiting),
                (&family::POOL_MAX, stats.max),
            ]
            .map(|(family, value)| (SeriesKey::new(family, &labels), value as f64))
        });
        let of_hosts = self.pools.iter().flat_map(|pool| {
            pool.hosts.iter().map(|host| {
                let labels = [("source", &*pool.source), ("host", &*host.name)];
                (SeriesKey::new(&family::HOST_IN_FLIGHT, &labels), host.in_flight as f64)
            })
        });
        of_server.chain(of_pools).chain(of_hosts).collect()
    }

    /// The prefix of the bucket lines in each family with exemplars, and an exemplar for each
    /// bucket, in the order of the lines.
    pub(super) fn exemplars(&self) -> [(String, std::vec::IntoIter<Option<Exemplar>>); Exemplars::OF.len()] {
        Exemplars::OF.map(|family| {
            let of_endpoint = |(_, counts): (&str, &EndpointCounts)| match &counts.exemplars {
                Some(exemplars) => exemplars.of(family)[..counts.buckets(family)].to_vec(),
                None => vec![None; counts.buckets(family)],
            };
            let all: Vec<_> = self.endpoints().flat_map(of_endpoint).collect();
            (format!("{}_bucket{{", family.name), all.into_iter())
        })
    }

    fn endpoints(&self) -> impl Iterator<Item = (&str, &EndpointCounts)> {
        self.endpoints.iter().map(|(path, counts)| (path.as_str(), counts))
    }

    fn all(&self) -> impl Iterator<Item = (&str, &EndpointCounts)> {
        self.others.iter().map(|(name, counts)| (*name, counts)).chain(self.endpoints())
    }

    fn requests(&self, out: &mut Families<'_>) -> fmt::Result {
        let requests = |seen| by_outcome(seen, &OutcomeName::ALL, |totals| totals.requests);
        out.counters(&family::REQUESTS, self.all().flat_map(requests))?;
        let streams = |seen| by_outcome(seen, &OutcomeName::OF_STREAMS, |totals| totals.streams);
        out.counters(&family::STREAMS, self.endpoints().flat_map(streams))?;
        let running = |(path, counts): (_, &EndpointCounts)| ([path], counts.running());
        out.gauges(&family::STREAMS_RUNNING, self.endpoints().map(running))?;
        let rows = |seen| by_format(seen, |totals| totals.rows);
        out.counters(&family::ROWS, self.endpoints().flat_map(rows))?;
        let bytes = |seen| by_format(seen, |totals| totals.bytes);
        out.counters(&family::SENT_BYTES, self.all().flat_map(bytes))?;
        let times = || self.endpoints().map(|(path, counts)| ([path], counts));
        out.histograms(&family::FIRST_ROW, times().map(|(path, counts)| (path, &counts.first_rows)))?;
        out.histograms(&family::DURATION, times().map(|(path, counts)| (path, &counts.durations)))?;
        out.counters(&family::PHASE, self.endpoints().flat_map(by_phase))?;
        let held = times().map(|(path, counts)| (path, counts.times.held.as_secs_f64()));
        out.counters(&family::HELD, held)
    }

    fn admission(&self, out: &mut Families<'_>) -> fmt::Result {
        let seen = &self.admission;
        out.gauges(&family::PERMITS, [([], seen.permits)])?;
        out.gauges(&family::PERMITS_MAX, [([], seen.permits_max)])?;
        let refused = PermitRefusal::ALL.iter().zip(seen.refused);
        out.counters(&family::REFUSED, refused.map(|(refusal, count)| ([refusal.code()], count)))?;
        let denied = self.denied.iter().map(|(denial, count)| ([denial.reason()], *count));
        out.counters(&family::DENIED, denied)?;
        let limited = self.rate_limited.iter().map(|(by, count)| ([by.name()], *count));
        out.counters(&family::RATE_LIMITED, limited)?;
        out.gauges(&family::STREAM_MEMORY, seen.memory_max.map(|_| ([], seen.memory)))?;
        out.gauges(&family::STREAM_MEMORY_MAX, seen.memory_max.map(|most| ([], most)))
    }

    fn pools(&self, out: &mut Families<'_>) -> fmt::Result {
        let gauges: [(&Family, PoolValue<usize>); 5] = [
            (&family::POOL_MAX, |stats| stats.max),
            (&family::POOL_USED, |stats| stats.usage.used),
            (&family::POOL_IDLE, |stats| stats.usage.idle),
            (&family::POOL_WAITING, |stats| stats.usage.waiting),
            (&family::POOL_WAITING_MAX, |stats| stats.waiting_max),
        ];
        for (family, value) in gauges {
            out.gauges(family, self.pools.iter().map(|pool| ([&*pool.source], value(&pool.stats))))?;
        }
        out.histograms(
            &family::POOL_ACQUIRE,
            self.pools.iter().map(|pool| ([&*pool.source], &pool.stats.waits)),
        )?;
        let counters: [(&Family, PoolValue<u64>); 3] = [
            (&family::POOL_OPENED, |stats| stats.opened),
            (&family::POOL_TIMEOUTS, |stats| stats.timed_out),
            (&family::POOL_REFUSED, |stats| stats.refused),
        ];
        for (family, value) in counters {
            out.counters(family, self.pools.iter().map(|pool| ([&*pool.source], value(&pool.stats))))?;
        }
        let waits =
            self.pools.iter().filter_map(|pool| Some(([&*pool.source], pool.follow_wait?.as_secs_f64())));
        out.gauges(&family::FOLLOW_WAIT, waits)?;
        let lookups = || self.pools.iter().filter_map(|pool| Some(([&*pool.source], pool.lookups.as_ref()?)));
        out.gauges(&family::POOL_LOOKUPS, lookups().map(|(source, seen)| (source, seen.pending)))?;
        out.histograms(&family::POOL_BATCH_SIZE, lookups().map(|(source, seen)| (source, &seen.batches)))
    }

    fn hosts(&self, out: &mut Families<'_>) -> fmt::Result {
        let hosts = || {
            self.pools
                .iter()
                .flat_map(|pool| pool.hosts.iter().map(|host| ([&*pool.source, &*host.name], host)))
        };
        let requests = hosts().flat_map(|([source, name], host)| {
            let counts = host.counts;
            [("answered", counts.answered), ("failed", counts.failed), ("aborted", counts.aborted)]
                .map(|(outcome, count)| ([source, name, outcome], count))
        });
        out.counters(&family::HOST_REQUESTS, requests)?;
        out.gauges(&family::HOST_IN_FLIGHT, hosts().map(|(labels, host)| (labels, host.in_flight)))?;
        out.gauges(&family::HOST_UP, hosts().map(|(labels, host)| (labels, usize::from(host.is_up))))?;
        out.counters(&family::HOST_EJECTED, hosts().map(|(labels, host)| (labels, host.counts.ejected)))?;
        let registries = || self.pools.iter().filter_map(|pool| Some(([&*pool.source], pool.discovered?)));
        out.gauges(&family::DISCOVERED, registries().map(|(source, seen)| (source, seen.instances)))?;
        out.counters(
            &family::DISCOVERY_FAILURES,
            registries().map(|(source, seen)| (source, seen.failures)),
        )?;
        let lags = hosts().filter_map(|(labels, host)| Some((labels, host.lag?.as_secs_f64())));
        out.gauges(&family::HOST_LAG, lags)
    }

    fn server(&self, out: &mut Families<'_>) -> fmt::Result {
        let connections = self.connections.iter();
        out.gauges(
            &family::CONNECTIONS,
            connections.map(|(protocol, open)| ([protocol.map_or(NONE, Protocol::name)], *open)),
        )?;
        out.gauges(&family::CONNECTIONS_MAX, [([], self.connections_max)])?;
        out.counters(&family::ACCEPTED, [([], self.accepted)])?;
        out.counters(&family::GAVE_WAY, [([], self.gave_way)])?;
        out.counters(&family::TIMED_OUT, [([], self.timed_out)])?;
        out.counters(&family::REFUSED_CONNECTIONS, [([], self.refused)])?;
        out.counters(&family::LOG_DROPPED, [([], self.log_dropped)])?;
        out.counters(&family::TLS_FAILURES, [([], self.tls_failures)])?;
        let expiry =
            self.certificate_expiry.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        out.gauges(&family::CERTIFICATE, expiry.map(|since| ([], since.as_secs_f64())))?;
        let workers = || self.workers.iter().map(|worker| ([&*worker.number], worker));
        out.counters(&family::WORKER_BUSY, workers().map(|(number, worker)| (number, worker.busy)))?;
        out.histograms(&family::WORKER_DELAY, workers().map(|(number, worker)| (number, &worker.delays)))?;
        out.gauges(
            &family::WORKER_CONNECTIONS,
            workers().map(|(number, worker)| (number, worker.connections)),
        )
    }

    fn process(&self, out: &mut Families<'_>) -> fmt::Result {
        let seen = &self.process;
        out.info(&family::BUILD, [env!("CARGO_PKG_VERSION")])?;
        out.counters(&family::CPU, seen.cpu.map(|cpu| ([], cpu)))?;
        for (family, value) in [
            (&family::RESIDENT, seen.resident),
            (&family::VIRTUAL, seen.virtual_memory),
            (&family::OPEN_FDS, seen.open_fds),
            (&family::MAX_FDS, seen.max_fds),
            (&family::THREADS, seen.threads),
        ] {
            out.gauges(family, value.map(|value| ([], value)))?;
        }
        out.gauges(&family::START, seen.started.map(|started| ([], started)))
    }
}

impl Collector for Snapshot {
    fn encode(&self, out: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Families(out);
        self.requests(&mut out)?;
        self.admission(&mut out)?;
        self.pools(&mut out)?;
        self.hosts(&mut out)?;
        self.server(&mut out)?;
        self.process(&mut out)
    }
}

/// Returns all `outcomes` of each kind with requests, so that the rate of failures is known from
/// the first failure on.
fn by_outcome<'a>(
    (path, counts): (&'a str, &'a EndpointCounts),
    outcomes: &'static [OutcomeName],
    of: fn(&Totals) -> [u64; OutcomeName::ALL.len()],
) -> impl Iterator<Item = ([&'a str; 4], u64)> {
    let kinds = counts.kinds.iter().map(move |(kind, totals)| (*kind, of(totals)));
    let asked_for = kinds.filter(|(_, counts)| counts.iter().any(|&count| count > 0));
    asked_for.flat_map(move |(kind, counts)| {
        let labels = move |ended: OutcomeName| [path, kind.format_name(), kind.protocol.name(), ended.name()];
        outcomes.iter().map(move |&ended| (labels(ended), counts[ended as usize]))
    })
}

/// Sums over all protocols.
fn by_format<'a>(
    (path, counts): (&'a str, &EndpointCounts),
    of: fn(&Totals) -> u64,
) -> Vec<([&'a str; 2], u64)> {
    let mut sums: Vec<([&str; 2], u64)> = Vec::new();
    for (kind, totals) in &counts.kinds {
        let labels = [path, kind.format_name()];
        match sums.iter_mut().find(|(known, _)| *known == labels) {
            Some((_, sum)) => *sum += of(totals),
            None => sums.push((labels, of(totals))),
        }
    }
    sums
}

fn by_phase<'a>((path, counts): (&'a str, &EndpointCounts)) -> [([&'a str; 2], f64); 4] {
    let times = counts.times;
    [("pool", times.pool), ("database", times.database), ("encode", times.encode), ("client", times.client)]
        .map(|(phase, time)| ([path, phase], time.as_secs_f64()))
}

impl WorkerSample {
    fn of((number, worker): (usize, &WorkerMetrics)) -> Self {
        Self {
            number: number.to_string(),
            busy: worker.busy().as_secs_f64(),
            delays: worker.delays(),
            connections: worker.connections(),
        }
    }
}

impl ProcessSample {
    fn look(files: &ProcessFiles) -> Self {
        let status = files.read("status").unwrap_or_default();
        Self {
            cpu: files.cpu().map(|cpu| cpu.user + cpu.system),
            resident: kibibytes(&status, "VmRSS:"),
            virtual_memory: kibibytes(&status, "VmSize:"),
            open_fds: files.open_fds(),
            max_fds: files.max_fds(),
            threads: number(&status, "Threads:"),
            started: files.started(),
        }
    }
}

/// Writes families. A sample consists of its label values, in the order of the family's labels, and
/// its own value.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    /// Leaves out a family without samples.
    fn each<'a, const N: usize, V>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([&'a str; N], V)>,
        write: impl Fn(&mut MetricEncoder<'_>, V) -> fmt::Result,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let unit = family.unit();
        let mut out =
            self.0.encode_descriptor(family.stem(), family.help, unit.as_ref(), family.metric_type())?;
        for (values, value) in samples {
            let labels = labels(family, values);
            match N {
                0 => write(&mut out, value)?,
                _ => write(&mut out.encode_family(&labels)?, value)?,
            }
        }
        Ok(())
    }

    fn gauges<'a, const N: usize, V: EncodeGaugeValue>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([&'a str; N], V)>,
    ) -> fmt::Result {
        self.each(family, samples, |out, value| out.encode_gauge(&value))
    }

    fn counters<'a, const N: usize, V: EncodeCounterValue>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([&'a str; N], V)>,
    ) -> fmt::Result {
        self.each(family, samples, |out, value| out.encode_counter::<NoLabelSet, V, f64>(&value, None))
    }

    fn histograms<'a, M: Measure, const N: usize>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([&'a str; N], &'a Histogram<M>)>,
    ) -> fmt::Result {
        self.each(family, samples, |out, value| {
            let sum = value.sum().value();
            out.encode_histogram::<NoLabelSet>(sum, value.count(), &value.buckets(), None)
        })
    }

    fn info<const N: usize>(&mut self, family: &Family, values: [&str; N]) -> fmt::Result {
        let labels = labels(family, values);
        self.each(family, [([], labels)], |out, labels| out.encode_info(&labels))
    }
}

fn labels<'a, const N: usize>(family: &Family, values: [&'a str; N]) -> [(&'static str, &'a str); N] {
    array::from_fn(|i| (family.labels[i], values[i]))
}
