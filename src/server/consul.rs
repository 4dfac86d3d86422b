//! Registers this replica with a Consul agent, over the agent's HTTP API ("Service - Agent HTTP
//! API"), and deregisters it as soon as the server begins to shut down.
//!
//! The agent polls `ready`, so clients aren't sent to a replica that can't reach its databases. It
//! forgets a replica that doesn't respond for [`FORGOTTEN`].

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderName, Method, Request, Uri};
use rowstream_core::fetch::{self, Failure};
use rowstream_core::log;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::config::{Config, Consul};

/// The interval between registrations. An agent that has lost its data then knows us again.
const AGAIN: Duration = Duration::from_secs(60);
/// The pause after a failed registration.
const RETRY: Duration = Duration::from_secs(5);
/// The agent's interval between checks, and its timeout for each.
const CHECKED: [&str; 2] = ["5s", "2s"];
/// An unresponsive replica, for example a killed one, stays registered for this long.
const FORGOTTEN: &str = "10m";
const TOKEN: HeaderName = HeaderName::from_static("x-consul-token");

/// A replica that is registered, or about to be.
pub(super) struct Registration {
    consul: Consul,
    id: String,
    telling: JoinHandle<()>,
}

impl Registration {
    /// Registers the replica at `public`, if the configuration asks for it. `admin` is the address
    /// of the admin endpoints, if they have a separate port.
    ///
    /// # Errors
    /// The address that other hosts use isn't known.
    pub(super) fn begin(
        config: &Config,
        public: SocketAddr,
        admin: Option<SocketAddr>,
    ) -> Result<Option<Self>, String> {
        let Some(consul) = config.discovery.consul.clone() else { return Ok(None) };
        let (host, port) = match &config.discovery.registered {
            Some(address) => (address.host().to_owned(), address.port_u16().unwrap_or(public.port())),
            None if public.ip().is_unspecified() => return Err(NOWHERE.to_owned()),
            None => (public.ip().to_string(), public.port()),
        };
        let id = format!("{}-{}-{port}", consul.service, host.trim_matches(['[', ']']));
        let ready = match (admin, &config.tls) {
            (Some(admin), _) => format!("http://{}/_rowstream/ready", authority(&host, admin.port())),
            (None, None) => format!("http://{}/_rowstream/ready", authority(&host, port)),
            (None, Some(_)) => format!("https://{}/_rowstream/ready", authority(&host, port)),
        };
        let service = json!({
            "ID": id,
            "Name": consul.service,
            "Tags": consul.tags,
            "Address": host.trim_matches(['[', ']']),
            "Port": port,
            "Check": {
                "Name": "ready",
                "HTTP": ready,
                "Interval": CHECKED[0],
                "Timeout": CHECKED[1],
                // The check asks only if the replica responds, so its certificate doesn't matter.
                "TLSSkipVerify": config.tls.is_some(),
                "DeregisterCriticalServiceAfter": FORGOTTEN,
            },
        });
        let telling = tokio::spawn(keep_telling(consul.clone(), service));
        Ok(Some(Self { consul, id, telling }))
    }

    /// Deregisters the replica.
    pub(super) async fn end(self) {
        self.telling.abort();
        let path = format!("/v1/agent/service/deregister/{}", self.id);
        match put(&self.consul, &path, String::new()).await {
            Ok(()) => log::info!("Consul: deregistered {}", self.id),
            Err(cause) => log::warning!("Consul: {} is not deregistered: {cause}", self.id),
        }
    }
}

const NOWHERE: &str = "[discovery.consul]: the server listens on all addresses, so the one that others use \
    isn't known\n    hint: set `address = \"10.0.0.5\"` in [discovery]";

fn authority(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Registers the service again and again. Logs only a changed result.
async fn keep_telling(consul: Consul, service: Value) {
    let mut said = None;
    loop {
        let told = put(&consul, "/v1/agent/service/register", service.to_string()).await;
        let (words, pause) = match told {
            Ok(()) => (format!("Consul: registered as {}", service["ID"]), AGAIN),
            Err(cause) => (format!("Consul: {} is not registered: {cause}", service["ID"]), RETRY),
        };
        if said.as_ref() != Some(&words) {
            match pause {
                AGAIN => log::info!("{words}"),
                _ => log::warning!("{words}"),
            }
            said = Some(words);
        }
        tokio::time::sleep(pause).await;
    }
}

async fn put(consul: &Consul, path: &str, body: String) -> Result<(), Failure> {
    let mut url = consul.url.clone().into_parts();
    url.path_and_query = Some(path.parse()?);
    let mut request = Request::builder().method(Method::PUT).uri(Uri::from_parts(url)?);
    if let Some(token) = &consul.token {
        request = request.header(TOKEN, token);
    }
    match fetch::send(request.body(body)?).await? {
        (status, _) if status.is_success() => Ok(()),
        // Consul explains an error in one line.
        (status, said) => {
            let said: String = String::from_utf8_lossy(&said).chars().take(200).collect();
            Err(format!("{} answers {status}: {}", consul.url, said.trim().escape_debug()).into())
        }
    }
}
