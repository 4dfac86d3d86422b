//! Admission: who may run a stream.
//!
//! A [`Permit`] is the right to run one stream, from before its first statement to its last byte. There are so many of them for the
//! server, for an endpoint, and for a client. Beyond, the answer is an error with `Retry-After`, at once: requests that wait do so
//! in their source's pool, which is bounded too.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::Error;
use crate::config::Limits;
use crate::endpoint::Endpoint;

/// Hands out the permits of a server.
#[derive(Debug)]
pub struct Admission {
    max_streams: usize,
    max_streams_per_client: Option<usize>,
    counts: Arc<Mutex<Counts>>,
}

/// The streams that run.
#[derive(Debug, Default)]
struct Counts {
    all: usize,
    /// By path, of those that have a limit.
    endpoints: HashMap<Arc<str>, usize>,
    /// Where clients have a limit.
    clients: HashMap<IpAddr, usize>,
}

/// The right to run one stream; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    counts: Arc<Mutex<Counts>>,
    endpoint: Option<Arc<str>>,
    client: Option<IpAddr>,
}

impl Admission {
    /// Admission of streams within `limits`.
    pub fn new(limits: &Limits) -> Self {
        Self::with(limits, Arc::default())
    }

    /// Admission within other limits, which counts the streams that run already.
    pub fn limited(&self, limits: &Limits) -> Self {
        Self::with(limits, Arc::clone(&self.counts))
    }

    fn with(limits: &Limits, counts: Arc<Mutex<Counts>>) -> Self {
        let Limits { max_streams, max_streams_per_client, .. } = *limits;
        Self { max_streams, max_streams_per_client, counts }
    }

    /// A permit for a stream of `endpoint` to `client`, who is known where clients have a limit.
    ///
    /// # Errors
    /// 429 when the client has all of its own; 503 when all of the endpoint or of the server are in use.
    pub fn admit(&self, endpoint: &Endpoint, client: Option<IpAddr>) -> Result<Permit, Error> {
        let mut counts = lock(&self.counts);
        let client = client.zip(self.max_streams_per_client);
        if let Some((client, limit)) = client
            && counts.clients.get(&client).is_some_and(|&running| running >= limit)
        {
            let message = format!("{limit} streams of this client run already");
            return Err(refused("too_many_streams_of_client", StatusCode::TOO_MANY_REQUESTS, message));
        }
        let path: Option<(Arc<str>, usize)> = match endpoint.max_streams {
            Some(limit) => Some((endpoint.path.as_str().into(), limit)),
            None => None,
        };
        if let Some((path, limit)) = &path
            && counts.endpoints.get(path).is_some_and(|running| running >= limit)
        {
            let message = format!("{limit} streams of this endpoint run already");
            return Err(refused("too_many_streams_of_endpoint", StatusCode::SERVICE_UNAVAILABLE, message));
        }
        if counts.all >= self.max_streams {
            let message = format!("{} streams run already", self.max_streams);
            return Err(refused("too_many_streams", StatusCode::SERVICE_UNAVAILABLE, message));
        }
        let (endpoint, client) = (path.map(|(path, _)| path), client.map(|(client, _)| client));
        counts.all += 1;
        add(&mut counts.endpoints, endpoint.as_ref());
        add(&mut counts.clients, client.as_ref());
        Ok(Permit { counts: Arc::clone(&self.counts), endpoint, client })
    }

    /// Permits in use.
    pub fn in_use(&self) -> usize {
        lock(&self.counts).all
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        counts.all -= 1;
        remove(&mut counts.endpoints, self.endpoint.as_ref());
        remove(&mut counts.clients, self.client.as_ref());
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    // Nothing under this lock panics half way.
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(code: &'static str, status: StatusCode, message: String) -> Error {
    Error::new(code, status, message).retry_after(Duration::from_secs(1))
}

fn add<K: Clone + Eq + Hash>(counts: &mut HashMap<K, usize>, key: Option<&K>) {
    if let Some(key) = key {
        *counts.entry(key.clone()).or_default() += 1;
    }
}

/// Names that nobody uses any more are forgotten: clients come with any address.
fn remove<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: Option<&K>) {
    let Some(key) = key else { return };
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(key)),
    }
}
