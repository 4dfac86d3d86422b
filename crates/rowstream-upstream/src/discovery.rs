//! Finds an upstream's instances in a registry: Consul's health API, or SRV records of DNS
//! ([`srv`]).
//!
//! No task runs in the background. A request that opens a connection queries the registry if the
//! last answer is older than `refresh`; other requests wait for the same answer. While the registry
//! can't be queried, its last answer stays valid, however old it is. We trust its answers: if it
//! lists no instance, there's none.

#[cfg(all(feature = "discovery", feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(feature = "discovery")]
mod srv;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderName, HeaderValue, Request, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rowstream_core::fetch::{self, Failure};
use rowstream_core::log;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::hosts::MOST;

/// The time limit for the registry if we know no instances, and if its last answer is still valid.
const PATIENCE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(1)];
const TOKEN: HeaderName = HeaderName::from_static("x-consul-token");

/// The registry of an upstream.
#[derive(Clone, PartialEq, Eq)]
pub struct DiscoverySettings {
    /// The registry.
    pub registry: Registry,
    /// How long an answer is valid.
    pub refresh: Duration,
}

impl DiscoverySettings {
    /// The default of `refresh`.
    pub const REFRESH: Duration = Duration::from_secs(10);
}

/// A registry that lists the instances of an upstream.
#[derive(Clone, PartialEq, Eq)]
pub enum Registry {
    /// A Consul agent.
    Consul {
        /// The agent's URL, without a path.
        url: Uri,
        /// The name of the service.
        service: String,
        /// A tag that the instances must have. `None`: any instance.
        tag: Option<String>,
        /// The ACL token.
        token: Option<HeaderValue>,
    },
    /// The SRV records of a name.
    Srv {
        /// The name: `_service._proto.domain`.
        name: String,
        /// The DNS server. `None`: the system's.
        resolver: Option<SocketAddr>,
    },
}

/// An instance of the upstream. Those with a smaller `rank` are tried first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Instance {
    rank: u16,
    host: String,
    port: u16,
}

/// The known instances of an upstream.
pub(super) struct Discovery {
    source: String,
    discover: DiscoverySettings,
    /// Held by the request that queries the registry.
    known: Mutex<KnownInstances>,
    instances: AtomicUsize,
    failures: AtomicU64,
}

#[derive(Default)]
struct KnownInstances {
    instances: Vec<Instance>,
    /// The time of the last query, and its error if it failed.
    asked: Option<(Instant, Result<(), String>)>,
}

/// The metrics of a registry: the known instances, and the number of failed queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscoveryStats {
    /// The number of known instances.
    pub instances: usize,
    /// The number of queries that failed.
    pub failures: u64,
}

impl Discovery {
    pub(super) fn new(source: &str, discover: &DiscoverySettings) -> Self {
        Self {
            source: source.to_owned(),
            discover: discover.clone(),
            known: Mutex::default(),
            instances: AtomicUsize::new(0),
            failures: AtomicU64::new(0),
        }
    }

    pub(super) fn seen(&self) -> DiscoveryStats {
        DiscoveryStats {
            instances: self.instances.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    /// The addresses of the instances. Each connection begins with another instance.
    ///
    /// # Errors
    /// The registry lists none, or has never answered. Or no instance's name has an address.
    pub(super) async fn addresses(&self, begun: usize) -> Result<Vec<SocketAddr>, Failure> {
        let mut instances = self.instances().await?;
        let first = instances.iter().take_while(|one| one.rank == instances[0].rank).count();
        if first > 0 {
            instances[..first].rotate_left(begun % first);
        }
        let (mut addresses, mut failed) = (Vec::new(), None);
        for Instance { host, port, .. } in &instances {
            match tokio::net::lookup_host((host.as_str(), *port)).await {
                Ok(found) => addresses.extend(found),
                Err(error) => failed = Some(format!("{host}: {error}")),
            }
        }
        match addresses.is_empty() {
            true => Err(failed.unwrap_or_else(|| format!("{} lists no instance", self.discover)).into()),
            false => Ok(addresses),
        }
    }

    async fn instances(&self) -> Result<Vec<Instance>, Failure> {
        let came = Instant::now();
        let mut known = self.known.lock().await;
        match &known.asked {
            // A request that waited for another one's query uses its result. If every request tried
            // again after a timeout, each would wait for all of those before it.
            Some((at, answer)) if *at >= came && known.instances.is_empty() => {
                let unasked = |cause| format!("{} can't be queried: {cause}", self.discover);
                return answer.clone().map(|()| Vec::new()).map_err(|cause| unasked(cause).into());
            }
            Some((at, _)) if at.elapsed() < self.discover.refresh && !known.instances.is_empty() => {
                return Ok(known.instances.clone());
            }
            _ => {}
        }
        let patience = PATIENCE[usize::from(!known.instances.is_empty())];
        let asked = tokio::time::timeout(patience, self.discover.registry.ask()).await;
        let answer = asked.unwrap_or_else(|_| Err("no answer in time".into()));
        let could_be_asked = known.asked.as_ref().is_none_or(|(_, answer)| answer.is_ok());
        let learnt = answer.as_ref().map(|_| ()).map_err(ToString::to_string);
        known.asked = Some((Instant::now(), learnt));
        match answer {
            Ok(instances) => self.learn(&mut known, instances, could_be_asked),
            Err(cause) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if could_be_asked {
                    log::warning!("{}", self.cannot_be_asked(&cause, known.instances.len()));
                }
                if known.instances.is_empty() {
                    return Err(format!("{} can't be queried: {cause}", self.discover).into());
                }
            }
        }
        Ok(known.instances.clone())
    }

    fn cannot_be_asked(&self, cause: &Failure, instances: usize) -> String {
        let (source, registry) = (&self.source, &self.discover);
        match instances {
            0 => format!("source {source}: {registry} can't be queried: {cause}"),
            count => format!(
                "source {source}: {registry} can't be queried, so the {count} instances of its last answer \
                 stay in use: {cause}"
            ),
        }
    }

    fn learn(&self, known: &mut KnownInstances, mut instances: Vec<Instance>, could_be_asked: bool) {
        let (source, registry) = (&self.source, &self.discover);
        instances.sort();
        instances.dedup();
        if instances.len() > MOST {
            log::warning!("source {source}: {registry} lists {} instances; {MOST} are used", instances.len());
            instances.truncate(MOST);
        }
        if known.instances != instances || !could_be_asked {
            let places: Vec<_> = instances.iter().map(|one| format!("{}:{}", one.host, one.port)).collect();
            log::info!(
                "source {source}: {registry} lists {}: {}",
                places.len(),
                places.join(" ").escape_debug()
            );
        }
        self.instances.store(instances.len(), Ordering::Relaxed);
        known.instances = instances;
    }
}

impl Registry {
    async fn ask(&self) -> Result<Vec<Instance>, Failure> {
        match self {
            Self::Consul { url, service, tag, token } => {
                ask_consul(url, service, tag.as_deref(), token.as_ref()).await
            }
            #[cfg(feature = "discovery")]
            Self::Srv { name, resolver } => srv::ask(name, *resolver).await,
            #[cfg(not(feature = "discovery"))]
            Self::Srv { .. } => Err("this program was built without service discovery".into()),
        }
    }
}

/// For messages, without the token.
impl std::fmt::Display for DiscoverySettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.registry {
            Registry::Consul { url, service, .. } => {
                write!(
                    f,
                    "Consul at {} (service {service})",
                    url.authority().map_or("", |host| host.as_str())
                )
            }
            Registry::Srv { name, .. } => write!(f, "DNS (SRV {name})"),
        }
    }
}

/// An instance in Consul's format ("Health HTTP Endpoint", "List Service Instances").
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    node: Node,
    service: Service,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    address: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Service {
    /// Empty if it's the node's address.
    #[serde(default)]
    address: String,
    port: u16,
}

/// The instances whose checks pass.
async fn ask_consul(
    url: &Uri,
    service: &str,
    tag: Option<&str>,
    token: Option<&HeaderValue>,
) -> Result<Vec<Instance>, Failure> {
    let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    let tag = tag.map(|tag| format!("&tag={}", encoded(tag))).unwrap_or_default();
    let mut parts = url.clone().into_parts();
    parts.path_and_query =
        Some(format!("/v1/health/service/{}?passing=true{tag}", encoded(service)).parse()?);
    let mut request = Request::get(Uri::from_parts(parts)?);
    if let Some(token) = token {
        request = request.header(TOKEN, token);
    }
    let (status, answer) = fetch::send(request.body(String::new())?).await?;
    if !status.is_success() {
        let said: String = String::from_utf8_lossy(&answer).chars().take(200).collect();
        return Err(format!("it answers {status}: {}", said.trim().escape_debug()).into());
    }
    listed(&answer)
}

/// The instances in an answer.
fn listed(answer: &[u8]) -> Result<Vec<Instance>, Failure> {
    let entries: Vec<Entry> = serde_json::from_slice(answer)?;
    let instance = |Entry { node, service }| {
        let host = if service.address.is_empty() { node.address } else { service.address };
        Instance { rank: 0, host, port: service.port }
    };
    Ok(entries.into_iter().map(instance).collect())
}
