//! Admission: who may run a stream.
//!
//! A [`Permit`] is the right to run one stream, from before its first statement to its last byte. There are so many of them for the
//! server, for an endpoint, and for a client, and as many as fit into the memory that streams may take. Beyond, the answer is an
//! error with `Retry-After`, at once: requests that wait do so in their source's pool, which is bounded too.

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
    /// What all streams may take together, in bytes.
    memory: Option<usize>,
    counts: Arc<Mutex<Counts>>,
}

/// The streams that run.
#[derive(Debug, Default)]
struct Counts {
    all: usize,
    /// What they may take, and what waits of those that were handed over, in bytes.
    memory: usize,
    /// By path, of those that have a limit.
    endpoints: HashMap<Arc<str>, usize>,
    /// Where clients have a limit.
    clients: HashMap<IpAddr, usize>,
    /// As in [`Refusal::ALL`].
    refused: [u64; Refusal::ALL.len()],
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The client has all of its own.
    Client,
    /// All of the endpoint's are in use.
    Endpoint,
    /// All of the server's are in use.
    Server,
    /// What runs has all the memory for streams.
    Memory,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Client, Self::Endpoint, Self::Server, Self::Memory];

    /// The code of its error.
    pub fn code(self) -> &'static str {
        match self {
            Self::Client => "too_many_streams_of_client",
            Self::Endpoint => "too_many_streams_of_endpoint",
            Self::Server => "too_many_streams",
            Self::Memory => "no_memory",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::Client => StatusCode::TOO_MANY_REQUESTS,
            Self::Endpoint | Self::Server | Self::Memory => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// What is in use at a moment, and what was refused so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Permits in use.
    pub permits: usize,
    /// Permits that there are.
    pub permits_max: usize,
    /// What the streams that run may take, in bytes.
    pub memory: usize,
    /// What they could take at most, if that is bounded.
    pub memory_max: Option<usize>,
    /// Claims that were refused, as in [`Refusal::ALL`].
    pub refused: [u64; Refusal::ALL.len()],
}

/// What a permit is asked for.
#[derive(Debug)]
pub struct Claim<'a> {
    /// Whose stream it is.
    pub endpoint: &'a Endpoint,
    /// Who asks; known where clients have a limit.
    pub client: Option<IpAddr>,
    /// What the stream may take at most, in bytes; 0 where memory has no limit.
    pub memory: usize,
}

/// The right to run one stream; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    counts: Arc<Mutex<Counts>>,
    /// Whether the stream still counts as one.
    runs: bool,
    memory: usize,
    endpoint: Option<Arc<str>>,
    client: Option<IpAddr>,
}

impl Admission {
    /// Admission of streams within `limits`, and within `memory` bytes.
    pub fn new(limits: &Limits, memory: Option<usize>) -> Self {
        let Limits { max_streams, max_streams_per_client, .. } = *limits;
        Self { max_streams, max_streams_per_client, memory, counts: Arc::default() }
    }

    /// The same, with the streams of another one, which run already.
    pub fn with_streams_of(self, before: &Self) -> Self {
        Self { counts: Arc::clone(&before.counts), ..self }
    }

    /// A permit for a stream.
    ///
    /// # Errors
    /// 429 when the client has all of its own; 503 when all of the endpoint or of the server are in use, or their memory.
    pub fn admit(&self, claim: &Claim<'_>) -> Result<Permit, Error> {
        let Claim { endpoint, client, memory } = *claim;
        let mut counts = lock(&self.counts);
        let client = client.zip(self.max_streams_per_client);
        if let Some((client, limit)) = client
            && counts.clients.get(&client).is_some_and(|&running| running >= limit)
        {
            let message = format!("{limit} streams of this client run already");
            return Err(counts.refuse(Refusal::Client, message));
        }
        let path = endpoint.max_streams.map(|limit| (Arc::<str>::from(endpoint.path.as_str()), limit));
        if let Some((path, limit)) = &path
            && counts.endpoints.get(path).is_some_and(|running| running >= limit)
        {
            let message = format!("{limit} streams of this endpoint run already");
            return Err(counts.refuse(Refusal::Endpoint, message));
        }
        if counts.all >= self.max_streams {
            let message = format!("{} streams run already", self.max_streams);
            return Err(counts.refuse(Refusal::Server, message));
        }
        if self.memory.is_some_and(|most| counts.memory.saturating_add(memory) > most) {
            let message = format!("{} streams have all the memory for streams", counts.all);
            return Err(counts.refuse(Refusal::Memory, message));
        }
        let (endpoint, client) = (path.map(|(path, _)| path), client.map(|(client, _)| client));
        counts.all += 1;
        counts.memory += memory;
        add(&mut counts.endpoints, endpoint.as_ref());
        add(&mut counts.clients, client.as_ref());
        Ok(Permit { counts: Arc::clone(&self.counts), runs: true, memory, endpoint, client })
    }

    /// Permits in use.
    pub fn in_use(&self) -> usize {
        lock(&self.counts).all
    }

    /// What is in use, and what was refused.
    pub fn usage(&self) -> Usage {
        let counts = lock(&self.counts);
        Usage {
            permits: counts.all,
            permits_max: self.max_streams,
            memory: counts.memory,
            memory_max: self.memory,
            refused: counts.refused,
        }
    }
}

impl Counts {
    /// There is no permit; the error says when to try again.
    fn refuse(&mut self, why: Refusal, message: String) -> Error {
        self.refused[why as usize] += 1;
        Error::new(why.code(), why.status(), message).retry_after(Duration::from_secs(1))
    }

    /// One that ran runs no longer.
    fn end(&mut self, permit: &mut Permit) {
        if std::mem::take(&mut permit.runs) {
            self.all -= 1;
            remove(&mut self.endpoints, permit.endpoint.as_ref());
            remove(&mut self.clients, permit.client.as_ref());
        }
    }
}

impl Permit {
    /// All of the stream was handed over: it counts no longer, so that a client which has its last byte may come again. What still
    /// waits of it takes memory until the rest of the permit is dropped; `None` where memory has no limit.
    pub fn handed_over(mut self) -> Option<Self> {
        let counts = Arc::clone(&self.counts);
        lock(&counts).end(&mut self);
        (self.memory > 0).then_some(self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let counts = Arc::clone(&self.counts);
        let mut counts = lock(&counts);
        counts.end(self);
        counts.memory -= self.memory;
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    // Nothing under this lock panics half way.
    counts.lock().unwrap_or_else(PoisonError::into_inner)
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
