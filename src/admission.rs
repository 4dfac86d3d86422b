//! Admission: the limits on streams, and on the memory of requests.
//!
//! A [`Permit`] is the right to run one stream, from before its first statement to its last byte.
//! The server, each endpoint and each client have a number of them, and all streams have to fit
//! into the memory limit. Beyond that, the answer is an error with `Retry-After`, at once. Requests
//! that may wait do so in their source's pool, whose queue is limited too.
//!
//! Requests without a stream use memory too: an HTTP/2 client that opens no window can leave 200
//! answers of each connection unread. So each request [holds](Admission::hold) some memory until
//! its answer has left. A stream's budget replaces it. The requests of one client can hold at most
//! a [part](SHARE) of all memory, and answers that a client leaves unread end during a
//! [`Shortage`].

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rowstream_core::Error;
use rowstream_core::lock::Mutex;

use crate::budget::{ADMIN_REQUESTS, BODIES, REQUEST};
use crate::config::Limits;
use crate::endpoint::Endpoint;
pub use crate::outcome::PermitRefusal;
use crate::spool::spill;

/// The requests of one client can hold `1 / SHARE` of the memory for all requests.
const SHARE: usize = 2;

/// Grants the permits of a server.
#[derive(Debug)]
pub struct Admission {
    max_streams: usize,
    max_streams_per_client: Option<usize>,
    /// The memory of all streams and requests together, in bytes. `None`: no limit.
    memory: Option<usize>,
    counts: Arc<Mutex<PermitCounts>>,
}

/// The permits and the memory in use, and the refusals.
#[derive(Debug, Default)]
struct PermitCounts {
    all: usize,
    /// Memory of streams until their last byte has left, and of clients' requests, in bytes.
    memory: usize,
    /// Memory of requests for admin endpoints, and of answers that refuse other requests, in bytes.
    reserve: usize,
    /// Memory of each client's requests without a stream.
    held: HashMap<IpAddr, HeldMemory>,
    /// When memory was last refused.
    short: Option<Instant>,
    /// Streams by the path of their endpoint, if it has a limit.
    endpoints: HashMap<Arc<str>, usize>,
    /// Streams by client, if clients have a limit.
    clients: HashMap<IpAddr, usize>,
    /// In the order of [`PermitRefusal::ALL`].
    refused: [u64; PermitRefusal::ALL.len()],
}

/// The memory of one client's requests, in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct HeldMemory {
    memory: usize,
    reserve: usize,
}

/// Permits and memory in use, and the refusals so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Permits in use.
    pub permits: usize,
    /// The number of permits.
    pub permits_max: usize,
    /// Memory of streams and requests, in bytes.
    pub memory: usize,
    /// The most memory that they may have, if it's limited.
    pub memory_max: Option<usize>,
    /// Claims that were refused, in the order of [`PermitRefusal::ALL`].
    pub refused: [u64; PermitRefusal::ALL.len()],
}

/// The kind of a request that holds memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A client's request.
    Client,
    /// A request for an admin endpoint.
    Admin,
}

/// The reason why a request can't hold more memory.
enum MemoryShortage {
    /// All memory is in use.
    Memory,
    /// The client's requests hold all that one client may have.
    Share,
}

/// Tells if memory was refused lately.
pub(crate) struct Shortage(Arc<Mutex<PermitCounts>>);

impl Shortage {
    /// True if memory was refused within this time.
    pub(crate) fn was_within(&self, time: Duration) -> bool {
        self.0.lock().short.is_some_and(|at| at.elapsed() < time)
    }
}

/// Memory that a stream may need in addition to its budget. Given back when it's dropped.
#[derive(Debug)]
pub(crate) struct SpareMemory {
    bytes: usize,
    most: Option<usize>,
    held: Permit,
}

impl spill::Memory for SpareMemory {
    fn claim(&mut self) -> bool {
        let is_there = self.held.memory == self.bytes
            || take(&mut self.held.counts.lock().memory, self.bytes, self.most);
        if is_there {
            self.held.memory = self.bytes;
        }
        is_there
    }
}

/// A request for a permit.
#[derive(Debug)]
pub struct Claim<'a> {
    /// The endpoint of the stream.
    pub endpoint: &'a Endpoint,
    /// The client, if clients have a limit.
    pub client: Option<IpAddr>,
    /// The stream's budget, in bytes; 0 if memory has no limit.
    pub memory: usize,
}

/// The right to run one stream, or to hold memory for a request. Given back when it's dropped.
#[derive(Debug)]
pub struct Permit {
    counts: Arc<Mutex<PermitCounts>>,
    /// True while a stream runs with it.
    runs: bool,
    memory: usize,
    reserve: usize,
    endpoint: Option<Arc<str>>,
    client: Option<IpAddr>,
    /// The client whose request holds the memory, until a stream runs with it.
    held_by: Option<IpAddr>,
}

impl Admission {
    /// Admission within `limits` and within `memory` bytes.
    pub fn new(limits: &Limits, memory: Option<usize>) -> Self {
        let Limits { max_streams, max_streams_per_client, .. } = *limits;
        Self { max_streams, max_streams_per_client, memory, counts: Arc::default() }
    }

    /// Continues the counts of `before`, whose streams may still run.
    pub fn with_streams_of(self, before: &Self) -> Self {
        Self { counts: Arc::clone(&before.counts), ..self }
    }

    /// Reserves memory for a new request, counted per client if the address is known. `None` if
    /// memory has no limit.
    ///
    /// # Errors
    /// 503: there's no memory left, or the client has its share.
    pub(crate) fn hold(
        &self,
        holder: Holder,
        client: impl FnOnce() -> Option<IpAddr>,
    ) -> Result<Option<Permit>, Error> {
        if self.memory.is_none() && holder == Holder::Client {
            return Ok(None);
        }
        let mut held = self.holding_nothing();
        held.held_by = client();
        self.widen(&mut held, REQUEST, holder)?;
        Ok(Some(held))
    }

    /// Reserves more memory for the answer of a request.
    ///
    /// # Errors
    /// 503: there's no memory left, or the client has its share.
    pub(crate) fn widen(&self, held: &mut Permit, bytes: usize, holder: Holder) -> Result<(), Error> {
        let mut counts = self.counts.lock();
        let most = match holder {
            Holder::Client => Some(self.most_held()),
            Holder::Admin => Some(ADMIN_REQUESTS),
        };
        counts.claim(held, bytes, holder, most).map_err(|missing| match missing {
            MemoryShortage::Memory => counts.no_memory(),
            MemoryShortage::Share => {
                let message = "this client's waiting requests and unread answers use all the memory that one \
                    client may have";
                counts.refuse(PermitRefusal::Memory, message.to_owned())
            }
        })
    }

    /// A permit of a client's request that holds nothing yet.
    pub(crate) fn holding_for(&self, client: Option<IpAddr>) -> Permit {
        let mut permit = self.holding_nothing();
        permit.held_by = client;
        permit
    }

    /// The most memory that the requests of one client may hold.
    pub(crate) fn share(&self) -> usize {
        self.most_held() / SHARE
    }

    /// The most memory that requests may hold before they run. Without a limit, only the parameters in
    /// their bodies are counted.
    fn most_held(&self) -> usize {
        self.memory.unwrap_or(BODIES)
    }

    /// Tells when memory is short.
    pub(crate) fn shortage(&self) -> Shortage {
        Shortage(Arc::clone(&self.counts))
    }

    /// Reserves memory for a short answer of the server itself: its health, or an error because
    /// there's no room. Returns false if that memory is used up too.
    pub(crate) fn hold_short(&self, client: Option<IpAddr>) -> (Option<Permit>, bool) {
        let mut held = self.holding_nothing();
        held.held_by = client;
        let most = Some(ADMIN_REQUESTS / 2);
        let claimed = self.counts.lock().claim(&mut held, REQUEST, Holder::Admin, most);
        (claimed.is_ok().then_some(held), claimed.is_ok())
    }

    /// Counts a refusal and returns its error, a 503.
    pub(crate) fn no_memory(&self) -> Error {
        self.counts.lock().no_memory()
    }

    /// So many bytes that a stream may need in addition to its budget. They aren't claimed yet.
    pub(crate) fn spare(&self, bytes: usize) -> SpareMemory {
        SpareMemory { bytes, most: self.memory, held: self.holding_nothing() }
    }

    pub(crate) fn holding_nothing(&self) -> Permit {
        Permit::nothing(&self.counts)
    }

    /// Turns the memory that a request holds into the permit of a stream. The stream's memory
    /// replaces that of the request.
    ///
    /// # Errors
    /// 429 if the client runs as many streams as it may. 503 if the endpoint or the server does, or
    /// if there's no memory. The request then keeps the memory that it held.
    pub fn admit(&self, claim: &Claim<'_>, permit: &mut Option<Permit>) -> Result<(), Error> {
        let permit = permit.get_or_insert_with(|| self.holding_nothing());
        let Claim { endpoint, client, memory } = *claim;
        let mut counts = self.counts.lock();
        let client = client.zip(self.max_streams_per_client);
        if let Some((client, limit)) = client
            && counts.clients.get(&client).is_some_and(|&running| running >= limit)
        {
            let message = format!("this client already has {limit} streams");
            return Err(counts.refuse(PermitRefusal::Client, message));
        }
        let path = endpoint.max_streams.map(|limit| (Arc::<str>::from(endpoint.path.as_str()), limit));
        if let Some((path, limit)) = &path
            && counts.endpoints.get(path).is_some_and(|running| running >= limit)
        {
            let message = format!("this endpoint already has {limit} streams");
            return Err(counts.refuse(PermitRefusal::Endpoint, message));
        }
        if counts.all >= self.max_streams {
            let message = format!("{} streams are already running", self.max_streams);
            return Err(counts.refuse(PermitRefusal::Server, message));
        }
        if !take(&mut counts.memory, memory.saturating_sub(permit.memory), self.memory) {
            return Err(counts.no_memory());
        }
        let (endpoint, client) = (path.map(|(path, _)| path), client.map(|(client, _)| client));
        counts.all += 1;
        add(&mut counts.endpoints, endpoint.as_ref());
        add(&mut counts.clients, client.as_ref());
        counts.forget_held(permit);
        (permit.runs, permit.endpoint, permit.client) = (true, endpoint, client);
        permit.memory = permit.memory.max(memory);
        Ok(())
    }

    /// Permits in use.
    pub fn in_use(&self) -> usize {
        self.counts.lock().all
    }

    /// Permits and memory in use, and refusals.
    pub fn usage(&self) -> Usage {
        let counts = self.counts.lock();
        Usage {
            permits: counts.all,
            permits_max: self.max_streams,
            memory: counts.memory,
            memory_max: self.memory,
            refused: counts.refused,
        }
    }
}

impl PermitCounts {
    /// Adds to the memory of a request. All requests of its kind may have `most` bytes.
    fn claim(
        &mut self,
        held: &mut Permit,
        bytes: usize,
        holder: Holder,
        most: Option<usize>,
    ) -> Result<(), MemoryShortage> {
        let mut unknown = HeldMemory::default();
        let of_client = match held.held_by {
            Some(client) => self.held.entry(client).or_default(),
            None => &mut unknown,
        };
        let (all, of_client, own) = match holder {
            Holder::Client => (&mut self.memory, &mut of_client.memory, &mut held.memory),
            Holder::Admin => (&mut self.reserve, &mut of_client.reserve, &mut held.reserve),
        };
        if !take(of_client, bytes, most.map(|most| most / SHARE)) {
            return Err(MemoryShortage::Share);
        }
        if !take(all, bytes, most) {
            *of_client -= bytes;
            return Err(MemoryShortage::Memory);
        }
        *own += bytes;
        Ok(())
    }

    fn no_memory(&mut self) -> Error {
        let message =
            format!("{} streams, and the answers that wait for their clients, use all the memory", self.all);
        self.short = Some(Instant::now());
        self.refuse(PermitRefusal::Memory, message)
    }

    /// Counts a refusal. The error says when to try again.
    fn refuse(&mut self, why: PermitRefusal, message: String) -> Error {
        self.refused[why as usize] += 1;
        Error::new(why.code(), why.status(), message).retry_after(Duration::from_secs(1))
    }

    /// Stops counting the memory of a request as its client's.
    fn forget_held(&mut self, permit: &mut Permit) {
        let Some(client) = permit.held_by.take() else { return };
        if let Some(held) = self.held.get_mut(&client) {
            held.memory -= permit.memory;
            held.reserve -= permit.reserve;
            if *held == HeldMemory::default() {
                self.held.remove(&client);
            }
        }
    }

    /// Stops counting a stream that ran.
    fn end(&mut self, permit: &mut Permit) {
        if std::mem::take(&mut permit.runs) {
            self.all -= 1;
            remove(&mut self.endpoints, permit.endpoint.as_ref());
            remove(&mut self.clients, permit.client.as_ref());
        }
    }
}

impl Permit {
    fn nothing(counts: &Arc<Mutex<PermitCounts>>) -> Self {
        let (endpoint, client) = (None, None);
        Self {
            counts: Arc::clone(counts),
            runs: false,
            memory: 0,
            reserve: 0,
            endpoint,
            client,
            held_by: None,
        }
    }

    /// True if it holds memory, which other requests may lack.
    pub(crate) fn holds_memory(&self) -> bool {
        self.memory + self.reserve > 0
    }

    /// Stops counting the stream, so that a client that has its last byte may start the next one.
    /// The rest of the permit, if it's `Some`, keeps the memory until the last bytes have left.
    /// `None` if memory has no limit.
    pub fn handed_over(mut self) -> Option<Self> {
        let counts = Arc::clone(&self.counts);
        counts.lock().end(&mut self);
        self.holds_memory().then_some(self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let counts = Arc::clone(&self.counts);
        let mut counts = counts.lock();
        counts.end(self);
        counts.forget_held(self);
        counts.memory -= self.memory;
        counts.reserve -= self.reserve;
    }
}

/// Takes memory if there's enough.
fn take(taken: &mut usize, bytes: usize, most: Option<usize>) -> bool {
    let is_there = most.is_none_or(|most| taken.saturating_add(bytes) <= most);
    if is_there {
        *taken += bytes;
    }
    is_there
}

fn add<K: Clone + Eq + Hash>(counts: &mut HashMap<K, usize>, key: Option<&K>) {
    if let Some(key) = key {
        *counts.entry(key.clone()).or_default() += 1;
    }
}

/// Removes keys that are no longer used, because clients can have any address.
fn remove<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: Option<&K>) {
    let Some(key) = key else { return };
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(key)),
    }
}
