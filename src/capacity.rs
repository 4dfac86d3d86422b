//! The capacity of each endpoint, computed from its limits and from the duration of a call to its
//! source (`expected_duration`). Also finds limits that contradict each other: one of them never
//! applies, or rejects requests that another one admits.
//!
//! All of this is arithmetic on the configuration; we measure nothing. It assumes that all requests
//! are for one endpoint. In practice, requests for other endpoints of the same source use slots
//! too.

mod rows;

use std::fmt;
use std::time::Duration;

use rowstream_core::params::ParamValue;
use rowstream_upstream::Protocol;

use crate::config::{Config, memory};
use crate::endpoint::{Calls, Endpoint, Handler, RepeatCount, SlowClients};
use crate::source::{SourceConfig, SourceKind};

/// Two limits that contradict each other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Warning {
    /// The endpoint or the source that it's about.
    subject: String,
    /// The effect.
    message: String,
    /// The key to change.
    hint: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, message, hint } = self;
        write!(f, "warning: {subject}: {message}\n    hint: {hint}")
    }
}

/// Describes the capacity of endpoints, a line for each with an expected duration. Another line
/// covers its largest number of calls, and its calls for rows. Returns `None` if no endpoint has an
/// expected duration.
pub(crate) fn describe(config: &Config) -> Option<String> {
    let of_rows = rows::all(config).filter_map(|calls| calls.describe());
    let lines: Vec<_> = loads(config).filter_map(|load| load.describe()).chain(of_rows).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The limits that contradict each other.
pub(crate) fn warnings(config: &Config) -> Vec<Warning> {
    let of_sources = config.sources.iter().flat_map(|source| unused_places(config, source));
    let of_endpoints = loads(config).flat_map(EndpointLimits::warnings);
    let of_rows = rows::all(config).flat_map(|calls| calls.warnings());
    per_client(config).into_iter().chain(of_sources).chain(of_endpoints).chain(of_rows).collect()
}

fn loads(config: &Config) -> impl Iterator<Item = EndpointLimits<'_>> {
    let load = |endpoint| EndpointLimits { config, endpoint, source: config.source(&endpoint.source) };
    config.endpoints.iter().map(load)
}

/// An endpoint with all its limits.
#[derive(Clone, Copy)]
struct EndpointLimits<'a> {
    config: &'a Config,
    endpoint: &'a Endpoint,
    source: &'a SourceConfig,
}

/// The number of calls that one response makes.
struct CallCount {
    calls: u64,
    /// The number and its origin, as text. Empty if a response is one call.
    said: String,
}

impl EndpointLimits<'_> {
    /// The time that a call holds its slot.
    fn duration(self) -> Option<Duration> {
        self.endpoint.expected_duration.or(self.source.expected_duration)
    }

    fn calls(&self) -> Option<&Calls> {
        match &self.endpoint.handler {
            Handler::Calls(calls) => Some(calls),
            Handler::Sql(_) | Handler::Proxy(_) | Handler::Pages(_) => None,
        }
    }

    /// The number of slots that one response uses at once.
    fn width(&self) -> usize {
        self.calls().map_or(1, |calls| calls.concurrency)
    }

    /// The number of slots that it can use. For short lookups it's the number of shared
    /// connections.
    fn places(&self) -> usize {
        match self.is_shared() {
            true => self.source.kept().shared,
            false => self.source.pool.max - self.kept_for_others(),
        }
    }

    /// Returns true if its lookups share connections.
    fn is_shared(&self) -> bool {
        let times = self.duration().zip(self.source.lookup_patience());
        let is_short = times.is_some_and(|(duration, patience)| duration < patience);
        is_short && self.endpoint.looks_up() && self.source.kept().shared > 0
    }

    /// The slots of the source that it leaves to lookups.
    fn kept_for_others(&self) -> usize {
        let is_of_source = |other: &&Endpoint| other.source == self.endpoint.source;
        let kept = self.source.kept();
        match self.config.endpoints.iter().filter(is_of_source).any(Endpoint::looks_up) {
            true if self.is_shared() => 0,
            true if self.endpoint.looks_up() => kept.shared,
            true => kept.all(),
            false => 0,
        }
    }

    /// The number of responses that may run at once, regardless of the pool.
    fn streams(&self) -> usize {
        let own = self.endpoint.max_streams.unwrap_or(usize::MAX);
        own.min(self.config.limits.max_streams).min(self.in_memory().unwrap_or(usize::MAX))
    }

    /// The number of responses that fit in `memory`.
    fn in_memory(&self) -> Option<usize> {
        let room = memory::for_streams(self.config)?;
        Some(room / memory::largest_budget(self.endpoint, self.source).max(1))
    }

    /// The number of slots that it can have in use.
    fn parallel(&self) -> usize {
        self.places().min(self.streams().saturating_mul(self.width()))
    }

    /// The most calls that the pool admits, if all are for this endpoint. While there's room, the
    /// pool admits whole responses.
    fn inside(&self) -> usize {
        let room = (self.source.pool.max - self.kept_for_others()).saturating_add(self.source.pool.waiting);
        room.div_ceil(self.width()).saturating_mul(self.width())
    }

    /// The usual number of calls of a response, and the largest possible one.
    fn counts(&self) -> Vec<CallCount> {
        let Some(calls) = self.calls() else {
            let is_paged = matches!(self.endpoint.handler, Handler::Pages(_));
            return vec![CallCount { calls: 1, said: if is_paged { " of one page" } else { "" }.to_owned() }];
        };
        let param = match calls.repeat {
            RepeatCount::Times(calls) => {
                return vec![CallCount { calls, said: format!(" of {calls} calls") }];
            }
            RepeatCount::Param(index) => &self.endpoint.params[index],
        };
        let said = |value: &Option<ParamValue>, what: &str| {
            let Some(ParamValue::Integer(count)) = value else { return None };
            let calls = u64::try_from(*count).ok().filter(|calls| *calls > 0)?;
            Some(CallCount { calls, said: format!(" of {calls} calls ({what} of `{}`)", param.name) })
        };
        let mut counts: Vec<_> =
            [said(&param.default, "the default"), said(&param.max, "`max`")].into_iter().flatten().collect();
        counts.dedup_by_key(|count| count.calls);
        if counts.is_empty() {
            counts.push(CallCount { calls: 1, said: " of one call".to_owned() });
        }
        counts
    }

    /// The duration of a response with this many calls, while nothing else runs.
    fn least(&self, calls: u64, duration: Duration) -> Duration {
        let at_a_time = self.width().min(self.places()) as u64;
        times(duration, calls.div_ceil(at_a_time) as f64)
    }

    fn describe(&self) -> Option<String> {
        let duration = self.duration()?;
        let (parallel, places) = (self.parallel(), self.places());
        let lines =
            self.counts().into_iter().filter(|count| count.calls > 0).map(|CallCount { calls, said }| {
                let rate = Rate(parallel as f64 / (calls as f64 * duration.as_secs_f64()));
                let least = self.least(calls, duration);
                let full = times(least, self.inside() as f64 / places as f64);
                format!(
                    "{}: {rate} requests/s{said}, {duration:?} each on {parallel} slots; {least:?} alone, \
                 {full:?} with a full queue",
                    self.endpoint.path,
                )
            });
        Some(lines.collect::<Vec<_>>().join("\n"))
    }

    fn warnings(self) -> Vec<Warning> {
        let of_limits = [
            self.concurrency(),
            self.idle(),
            self.streams_of_server(),
            self.streams_of_pool(),
            self.memory(),
        ];
        let of_time = self.duration().into_iter().flat_map(|duration| {
            [
                self.queue(duration),
                ends_early(&self.endpoint.path, self.source, duration),
                self.first_row(duration),
                self.total(duration),
            ]
        });
        of_limits.into_iter().chain(of_time).flatten().collect()
    }

    fn warning(&self, message: String, hint: String) -> Option<Warning> {
        Some(Warning { subject: self.endpoint.path.clone(), message, hint })
    }

    fn concurrency(&self) -> Option<Warning> {
        too_many(&self.endpoint.path, self.source, self.calls()?.wanted)
    }

    fn idle(&self) -> Option<Warning> {
        self.calls()?;
        opens_anew(&self.endpoint.path, self.source, self.width())
    }

    fn streams_of_server(&self) -> Option<Warning> {
        let (own, all) = (self.endpoint.max_streams?, self.config.limits.max_streams);
        if own <= all {
            return None;
        }
        self.warning(
            format!(
                "its `max_streams` is {own}, but is never reached: the server's own `max_streams` is {all}"
            ),
            format!(
                "raise `max_streams` of the configuration, or lower that of the endpoint to {all} or less"
            ),
        )
    }

    /// Streams that are admitted and then refused by the pool. Followed and spilled streams hold no
    /// slot for most of their time.
    fn streams_of_pool(&self) -> Option<Warning> {
        let own = self.endpoint.max_streams?;
        let room = self.inside() / self.width();
        let holds =
            self.endpoint.follow().is_none() && self.endpoint.response.slow_clients != SlowClients::Spill;
        if own <= room || !holds {
            return None;
        }
        let name = &self.source.name;
        self.warning(
            format!(
                "its `max_streams` is {own}, but is never reached: the pool of source `{name}` admits {room} \
                 at a time and refuses the others"
            ),
            format!("raise `pool.max` or `pool.waiting` of source `{name}`, or lower `max_streams` to {room} or less"),
        )
    }

    fn memory(&self) -> Option<Warning> {
        let streams = self.in_memory()?;
        let places = self.source.pool.max;
        let used = streams.saturating_mul(self.width());
        let (what, limit) = match self.endpoint.max_streams {
            Some(own) if streams < own => ("its `max_streams` is", own),
            _ if used < places => ("the pool has slots for", places),
            _ => return None,
        };
        self.warning(
            format!("`memory` has room for {streams} of its streams at a time, but {what} {limit}"),
            format!(
                "raise `memory`, lower `max_row_bytes` of source `{}`, or lower the other one",
                self.source.name
            ),
        )
    }

    /// The end of the queue times out.
    fn queue(&self, duration: Duration) -> Option<Warning> {
        let (pool, name) = (&self.source.pool, &self.source.name);
        let places = self.places() as f64;
        let last = times(duration, pool.waiting as f64 / places);
        if last <= pool.acquire_timeout {
            return None;
        }
        let in_time = (pool.acquire_timeout.as_secs_f64() / duration.as_secs_f64() * places) as usize;
        self.warning(
            format!(
                "{} calls may wait for a connection of source `{name}`, the last of them for {last:?}: those after the first {in_time} time out, \
                 after `pool.acquire_timeout` ({:?})",
                pool.waiting, pool.acquire_timeout,
            ),
            format!("lower `pool.waiting` of source `{name}` to {in_time}, or raise `pool.acquire_timeout` to {last:?}"),
        )
    }

    /// The first reply can't arrive in time. Databases are excluded, because their rows may arrive
    /// long before the end.
    fn first_row(&self, duration: Duration) -> Option<Warning> {
        let bound = self.endpoint.response.timeout.first_row.filter(|bound| *bound < duration)?;
        if let Handler::Sql(_) = self.endpoint.handler {
            return None;
        }
        self.warning(
            format!("a call is expected to take {duration:?}, and `timeout.first_row` fails the response after {bound:?}"),
            "raise `timeout.first_row`, or correct `expected_duration`".to_owned(),
        )
    }

    /// A whole response can't be complete in time.
    fn total(&self, duration: Duration) -> Option<Warning> {
        let bound = self.endpoint.response.timeout.total?;
        if self.endpoint.follow().is_some() {
            return None;
        }
        let late = |count: &CallCount| self.least(count.calls, duration) > bound;
        let CallCount { calls, said } = self.counts().into_iter().find(late)?;
        let least = self.least(calls, duration);
        self.warning(
            format!(
                "a response{said} takes {least:?} at least, and `timeout.total` aborts it after {bound:?}"
            ),
            "raise `timeout.total`, run more calls at a time, or allow fewer of them".to_owned(),
        )
    }
}

fn per_client(config: &Config) -> Option<Warning> {
    let (one, all) = (config.limits.max_streams_per_client?, config.limits.max_streams);
    (one > all).then(|| Warning {
        subject: "server".to_owned(),
        message: format!("`max_streams_per_client` is {one}, but is never reached: `max_streams` is {all}"),
        hint: format!("lower `max_streams_per_client` below {all}, or raise `max_streams`"),
    })
}

/// Configured concurrent calls that never run at once.
fn too_many(path: &str, source: &SourceConfig, wanted: Option<usize>) -> Option<Warning> {
    let (max, name) = (source.pool.max, &source.name);
    let wanted = wanted.filter(|wanted| *wanted > max)?;
    Some(Warning {
        subject: path.to_owned(),
        message: format!(
            "`concurrency` is {wanted}, but only {max} calls are made at a time: source `{name}` has no more \
             slots"
        ),
        hint: format!("raise `pool.max` of source `{name}` to {wanted}, or lower `concurrency` to {max}"),
    })
}

/// HTTP/1.1 connections that each response has to open again.
fn opens_anew(path: &str, source: &SourceConfig, width: usize) -> Option<Warning> {
    let SourceKind::Http(settings) = &source.kind else { return None };
    let is_http1 = match settings.protocol {
        Protocol::Http1 => true,
        Protocol::Auto => settings.hosts.iter().any(|host| !host.tls),
        Protocol::Http2 => false,
    };
    let (kept, name) = (source.pool.max_idle, &source.name);
    (is_http1 && kept < width).then(|| Warning {
        subject: path.to_owned(),
        message: format!(
            "it makes {width} calls at a time, but source `{name}` keeps {kept} idle connections: each \
             response opens the others again"
        ),
        hint: format!("raise `pool.max_idle` of source `{name}` to {width}"),
    })
}

/// The source ends calls before their expected duration.
fn ends_early(path: &str, source: &SourceConfig, duration: Duration) -> Option<Warning> {
    let bounds = match &source.kind {
        SourceKind::Sql(_) => vec![("statement_timeout", source.statement_timeout)],
        SourceKind::Http(settings) => vec![
            ("timeout.first_byte", Some(settings.timeouts.first_byte)),
            ("timeout.total", settings.timeouts.total),
        ],
    };
    let name = &source.name;
    let short = |(key, bound): (&'static str, Option<Duration>)| {
        Some((key, bound.filter(|bound| *bound < duration)?))
    };
    let (key, bound) = bounds.into_iter().find_map(short)?;
    Some(Warning {
        subject: path.to_owned(),
        message: format!(
            "a call is expected to take {duration:?}, and `{key}` of source `{name}` fails it after {bound:?}"
        ),
        hint: format!("raise `{key}` of source `{name}`, or correct `expected_duration`"),
    })
}

/// Slots that all streams together can't use.
fn unused_places(config: &Config, source: &SourceConfig) -> Option<Warning> {
    let of_endpoints = loads(config).filter(|load| load.source.name == source.name).map(|load| load.width());
    let of_rows = rows::all(config).filter(|calls| calls.source.name == source.name);
    let streams = config.limits.max_streams;
    let used = streams.saturating_mul(of_endpoints.chain(of_rows.map(|calls| calls.width())).max()?);
    (used < source.pool.max).then(|| Warning {
        subject: format!("source {}", source.name),
        message: format!(
            "its pool has {} slots, but `max_streams` allows {streams} streams, which use {used} of \
             them",
            source.pool.max
        ),
        hint: format!("raise `max_streams` to {}, or lower `pool.max`", source.pool.max),
    })
}

/// Multiplies a duration, rounded to milliseconds. The result is at most the longest duration.
fn times(duration: Duration, factor: f64) -> Duration {
    let seconds = duration.as_secs_f64() * factor;
    Duration::try_from_secs_f64((seconds * 1e3).round() / 1e3).unwrap_or(Duration::MAX)
}

/// A rate for people: with at least three digits.
struct Rate(f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.0 {
            100.0.. => 0,
            10.0.. => 1,
            1.0.. => 2,
            _ => 4,
        };
        write!(f, "{:.digits$}", self.0)
    }
}
