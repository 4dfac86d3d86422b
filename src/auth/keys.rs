//! The keys of an issuer, and the tokens that they sign.
//!
//! Invariants:
//!
//! 1. one request for keys is on its way at a time, whoever waits for it;
//! 2. a token that names an unknown key has them fetched at most once in [`BETWEEN`], and so does an
//!    issuer that cannot be reached: nobody makes this server ask more often;
//! 3. keys that were fetched once are used until newer ones came: an issuer that is gone for a while
//!    locks nobody out.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::fetch;
use super::jwt::{Claims, Refusal, Unverified};
use crate::config::{JwtSettings, KeySource};
use crate::jwk::Key;
use crate::lock::Mutex;
use crate::log::{Level, say};

/// After how long keys are fetched again: what an issuer takes back is believed no longer.
const FRESH: Duration = Duration::from_secs(600);
/// The least time between two requests for keys.
const BETWEEN: Duration = Duration::from_secs(30);

/// Whose tokens are believed.
pub(crate) struct Verifier {
    settings: JwtSettings,
    known: Mutex<Known>,
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Known {
    keys: Arc<[Key]>,
    /// When they came; `None`: they never did.
    fetched: Option<Instant>,
    /// When they were asked for last.
    tried: Option<Instant>,
}

/// Why a token opens nothing.
pub(super) enum Unusable {
    /// It is not believed.
    Refused(Refusal),
    /// There is no key to check it by, because the issuer could not be asked yet.
    NoKeys,
}

impl Verifier {
    pub(crate) fn new(settings: &JwtSettings) -> Self {
        let (keys, fetched): (Arc<[Key]>, _) = match &settings.keys {
            KeySource::File(keys) => (keys.as_slice().into(), Some(Instant::now())),
            KeySource::Url(_) | KeySource::Discovered => (Arc::new([]), None),
        };
        let known = Mutex::new(Known { keys, fetched, tried: None });
        Self { settings: settings.clone(), known, fetching: tokio::sync::Mutex::default() }
    }

    /// Whether it believes the tokens that these settings say.
    pub(crate) fn is_of(&self, settings: &JwtSettings) -> bool {
        self.settings == *settings
    }

    /// What a token says, if it is to be believed.
    pub(super) async fn verify(self: &Arc<Self>, token: &str) -> Result<Claims, Unusable> {
        let token = Unverified::read(token, &self.settings).map_err(Unusable::Refused)?;
        let keys = self.keys_for(&token).await.ok_or(Unusable::NoKeys)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        token.verify(&keys, &self.settings, now).map_err(Unusable::Refused)
    }

    /// The keys by which a token is checked, fetched where they have to be; `None`: they never
    /// were.
    async fn keys_for(self: &Arc<Self>, token: &Unverified<'_>) -> Option<Arc<[Key]>> {
        let known = self.known();
        if token.knows(&known.keys) {
            if !known.is_fresh() && known.may_try() && !self.is_of_file() {
                // Nobody waits for it.
                drop(self.refresh());
            }
            return Some(known.keys);
        }
        if self.is_of_file() || (!known.may_try() && self.fetching.try_lock().is_ok()) {
            return known.fetched.map(|_| known.keys);
        }
        // A task, so that a client that leaves does not end what others wait for.
        let _ = self.refresh().await;
        let known = self.known();
        known.fetched.map(|_| known.keys)
    }

    fn known(&self) -> Known {
        self.known.lock().clone()
    }

    fn is_of_file(&self) -> bool {
        matches!(self.settings.keys, KeySource::File(_))
    }

    fn refresh(self: &Arc<Self>) -> tokio::task::JoinHandle<()> {
        let own = Arc::clone(self);
        tokio::spawn(async move {
            let _one = own.fetching.lock().await;
            // Whoever was first has asked for all who waited.
            if own.known().may_try() {
                own.known.lock().tried = Some(Instant::now());
                own.fetch().await;
            }
        })
    }

    async fn fetch(&self) {
        let fetched = match &self.settings.keys {
            KeySource::File(_) => return,
            KeySource::Url(url) => fetch::keys(url).await,
            KeySource::Discovered => match fetch::discover(&self.settings.issuer).await {
                Ok(url) => fetch::keys(&url).await,
                Err(error) => Err(error),
            },
        };
        match fetched {
            Ok(keys) => {
                let mut known = self.known.lock();
                (known.keys, known.fetched) = (keys.into(), Some(Instant::now()));
            }
            Err(error) => {
                say(Level::Warning, format_args!("the keys of tokens could not be fetched: {error}"));
            }
        }
    }
}

impl Known {
    fn is_fresh(&self) -> bool {
        self.fetched.is_some_and(|at| at.elapsed() < FRESH)
    }

    fn may_try(&self) -> bool {
        self.tried.is_none_or(|at| at.elapsed() >= BETWEEN)
    }
}
