//! Limits how often a token or an address may send requests: a number per second, and in a burst as
//! many as a window allows.
//!
//! This is the generic cell rate algorithm (ITU-T I.371). For each client it keeps one number, the
//! time at which the client has its whole quota again. The table of clients has a fixed size. If
//! all slots that a client may have are taken, it replaces the client with the most quota left: at
//! worst, we forget that this one sent requests before. A client without quota is forgotten only
//! while others with even less take all its slots. No attacker can aim at that, because a hash with
//! a random key chooses the slots.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::lock::Mutex;

use crate::config::RateLimits;

/// The code of a request that arrived too soon.
const CODE: &str = "rate_limited";
/// The slots of each set, and the number of sets: 32,768 clients in 0.6 MB.
const SLOTS: usize = 8;
const SETS: usize = 4096;
/// draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4.
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// The property that identifies a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientProperty {
    Address,
    Token,
}

impl ClientProperty {
    /// All of them, in order.
    pub(crate) const ALL: [Self; 2] = [Self::Address, Self::Token];

    /// The name of its policy, and the metric's label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Token => "token",
        }
    }
}

/// The limits of a server. `None`: no limit of this kind.
#[derive(Debug)]
pub(crate) struct Rates {
    settings: RateLimits,
    address: Option<Limiter>,
    token: Option<Limiter>,
}

/// The quotas that a request's client has left, for the answer.
#[derive(Debug, Default)]
pub(crate) struct Quotas([Option<Quota>; ClientProperty::ALL.len()]);

/// The quota that a client has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quota {
    remaining: u32,
    /// Seconds until the whole quota is back.
    reset: u32,
}

/// One limit, and each client's use of it.
#[derive(Debug)]
struct Limiter {
    /// The time between two requests of a client that sends them steadily.
    interval: Duration,
    /// How far ahead of its time a client may be.
    window: Duration,
    /// Its `RateLimit-Policy`.
    policy: String,
    hasher: RandomState,
    started: Instant,
    sets: Box<[Mutex<[ClientQuota; SLOTS]>]>,
}

/// A client by its hash, and when it has its whole quota again, in nanoseconds since the start.
#[derive(Debug, Clone, Copy, Default)]
struct ClientQuota {
    client: u64,
    full: u64,
}

impl Rates {
    /// `None` if nothing is limited.
    pub(crate) fn new(settings: RateLimits) -> Option<Self> {
        let RateLimits { per_address, per_token, window } = settings;
        let limiter = |rate: Option<u32>, by| rate.map(|rate| Limiter::new(rate, window, by));
        let (address, token) =
            (limiter(per_address, ClientProperty::Address), limiter(per_token, ClientProperty::Token));
        (address.is_some() || token.is_some()).then_some(Self { settings, address, token })
    }

    /// True if these limits have the same settings.
    pub(crate) fn are(&self, settings: RateLimits) -> bool {
        self.settings == settings
    }

    fn of(&self, by: ClientProperty) -> Option<&Limiter> {
        match by {
            ClientProperty::Address => self.address.as_ref(),
            ClientProperty::Token => self.token.as_ref(),
        }
    }

    /// Takes one request from a client's quota, if this kind of client is limited.
    ///
    /// # Errors
    /// 429: the client has no quota left.
    pub(crate) fn take(
        &self,
        by: ClientProperty,
        client: Option<Client>,
        quotas: &mut Quotas,
    ) -> Result<(), Error> {
        let Some((limiter, client)) = self.of(by).zip(client) else { return Ok(()) };
        let taken = limiter.take(client, limiter.started.elapsed());
        quotas.0[by as usize] = Some(taken.unwrap_or_else(Quota::none));
        taken.map(drop).map_err(|after| {
            let message = format!("this {} has sent more requests than allowed", by.name());
            Error::new(CODE, StatusCode::TOO_MANY_REQUESTS, message)
                .retry_after(Duration::from_secs(seconds(after).into()))
                .hint("wait for the time in `Retry-After`, and spread requests over time")
        })
    }

    /// Adds the limits and the remaining quotas to an answer's headers.
    pub(crate) fn tell(&self, quotas: &Quotas, headers: &mut HeaderMap) {
        for by in ClientProperty::ALL {
            let Some((limiter, quota)) = self.of(by).zip(quotas.0[by as usize]) else { continue };
            let state = format!("\"{}\";r={};t={}", by.name(), quota.remaining, quota.reset);
            for (name, value) in [(POLICY, limiter.policy.as_str()), (STATE, &state)] {
                headers.append(name, HeaderValue::from_str(value).expect("it is a name and numbers"));
            }
        }
    }
}

/// Returns how the client is identified that sent too many requests, if the error is of that kind.
pub(crate) fn refused(error: &Error, quotas: &Quotas) -> Option<ClientProperty> {
    let is_last = |by: &ClientProperty| quotas.0[*by as usize].is_some_and(|quota| quota.remaining == 0);
    ClientProperty::ALL.into_iter().rev().find(is_last).filter(|_| error.code() == CODE)
}

impl Quota {
    /// No quota for so long.
    fn none(after: Duration) -> Self {
        Self { remaining: 0, reset: seconds(after) }
    }
}

impl Limiter {
    fn new(rate: u32, window: Duration, by: ClientProperty) -> Self {
        let policy = format!("\"{}\";q={};w={}", by.name(), quota(rate, window), seconds(window));
        Self {
            interval: Duration::from_secs(1) / rate,
            window,
            policy,
            hasher: RandomState::new(),
            started: Instant::now(),
            sets: (0..SETS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes one request from a client's quota, at a time since the start. Otherwise returns how
    /// long the client has to wait.
    fn take(&self, client: Client, now: Duration) -> Result<Quota, Duration> {
        let client = self.hasher.hash_one(client);
        let (now, interval, window) = (nanos(now), nanos(self.interval), nanos(self.window));
        let mut set = self.sets[client as usize % SETS].lock();
        let known = set.iter_mut().min_by_key(|slot| (slot.client != client, slot.full));
        let slot = known.expect("there are slots");
        let full = if slot.client == client { slot.full.max(now) } else { now } + interval;
        let ahead = full - now;
        if ahead > window {
            return Err(Duration::from_nanos(ahead - window));
        }
        *slot = ClientQuota { client, full };
        Ok(Quota {
            remaining: u32::try_from((window - ahead) / interval).unwrap_or(u32::MAX),
            reset: seconds(Duration::from_nanos(ahead)),
        })
    }
}

/// The number of requests in a window.
fn quota(rate: u32, window: Duration) -> u128 {
    window.as_nanos() * u128::from(rate) / Duration::from_secs(1).as_nanos()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}

/// Whole seconds, rounded up.
fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_nanos().div_ceil(Duration::from_secs(1).as_nanos())).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn address(number: u128) -> Client {
        Client::Address(IpAddr::V6(Ipv6Addr::from_bits(number << 64)))
    }

    fn limiter(rate: u32, window: u64) -> Limiter {
        Limiter::new(rate, Duration::from_secs(window), ClientProperty::Address)
    }

    #[test]
    fn a_window_comes_at_once_and_then_one_at_a_time() {
        let limiter = limiter(10, 2);
        assert_eq!(limiter.policy, "\"address\";q=20;w=2");
        let at = Duration::from_millis;
        for left in (0..20).rev() {
            assert_eq!(limiter.take(address(1), at(0)).map(|quota| quota.remaining), Ok(left));
        }
        assert_eq!(limiter.take(address(1), at(0)), Err(at(100)));
        assert_eq!(limiter.take(address(1), at(99)), Err(at(1)));
        assert_eq!(limiter.take(address(1), at(100)), Ok(Quota { remaining: 0, reset: 2 }));
        assert_eq!(limiter.take(address(2), at(100)), Ok(Quota { remaining: 19, reset: 1 }));
        // A client that has waited has its whole quota again, and no more.
        assert_eq!(limiter.take(address(1), at(9000)).map(|quota| quota.remaining), Ok(19));
    }

    /// The table keeps its size however many addresses arrive. A client that has sent too many
    /// requests stays known while the others send fewer.
    #[test]
    fn a_crowd_makes_nobody_forgotten() {
        let limiter = limiter(10, 10);
        while limiter.take(address(0), Duration::ZERO).is_ok() {}
        for number in 1..200_000 {
            assert!(limiter.take(address(number), Duration::ZERO).is_ok());
        }
        assert!(limiter.take(address(0), Duration::ZERO).is_err());
        assert_eq!(limiter.sets.len(), SETS);
    }

    #[test]
    fn what_is_not_limited_costs_nothing() {
        assert!(Rates::new(RateLimits::default()).is_none());
        let only = RateLimits { per_token: Some(5), ..RateLimits::default() };
        let (rates, mut quotas) = (Rates::new(only).unwrap(), Quotas::default());
        for _ in 0..100 {
            assert!(rates.take(ClientProperty::Address, Some(address(1)), &mut quotas).is_ok());
        }
        let mut headers = HeaderMap::new();
        rates.tell(&quotas, &mut headers);
        assert!(headers.is_empty());
    }

    proptest! {
        /// In any period, a client gets at most its window plus the requests that its rate adds
        /// meanwhile.
        #[test]
        fn nobody_gets_more(rate in 1..1000_u32, window in 1..20_u64, pauses in proptest::collection::vec(0..500_u64, 1..200)) {
            let limiter = limiter(rate, window);
            let (mut now, mut got) = (Duration::ZERO, Vec::new());
            for pause in pauses {
                now += Duration::from_millis(pause);
                if let Err(after) = limiter.take(address(1), now) {
                    now += after;
                    prop_assert!(limiter.take(address(1), now).is_ok(), "who waits as was said is let in");
                }
                got.push(now);
            }
            for (index, since) in got.iter().enumerate() {
                let most = quota(rate, Duration::from_secs(window)) + quota(rate, now - *since) + 1;
                prop_assert!((got.len() - index) as u128 <= most);
            }
        }
    }
}
