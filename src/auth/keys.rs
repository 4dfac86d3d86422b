//! The keys of an issuer, and the verification of its tokens.
//!
//! Invariants:
//!
//! 1. at most one request for keys is under way, and all tokens wait for that one;
//! 2. a token with an unknown key causes at most one request within [`BETWEEN`], and so does an
//!    issuer that can't be reached. So no client can make this server send more;
//! 3. keys that were fetched are used until newer ones arrive, so clients aren't locked out while
//!    the issuer is unavailable.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rowstream_core::lock::Mutex;
use rowstream_core::log::{Level, say};

use super::fetch;
use super::jwt::{Claims, TokenRefusal, UnverifiedToken};
use crate::config::{JwtSettings, KeySource};
use crate::jwk::PublicKey;

/// Keys are fetched again at this age, so that keys that the issuer revokes aren't trusted longer.
const FRESH: Duration = Duration::from_secs(600);
/// The least time between two requests for keys.
const BETWEEN: Duration = Duration::from_secs(30);

/// Verifies the tokens of an issuer.
pub(crate) struct Verifier {
    settings: JwtSettings,
    known: Mutex<KeySet>,
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct KeySet {
    keys: Arc<[PublicKey]>,
    /// When they arrived; `None` if they never did.
    fetched: Option<Instant>,
    /// When they were last requested.
    tried: Option<Instant>,
}

/// The reason why a token can't be used.
pub(super) enum TokenError {
    /// It isn't accepted.
    Refused(TokenRefusal),
    /// Keys to check it are missing, because the issuer couldn't be reached yet.
    NoKeys,
}

impl Verifier {
    pub(crate) fn new(settings: &JwtSettings) -> Self {
        let (keys, fetched): (Arc<[PublicKey]>, _) = match &settings.keys {
            KeySource::File(keys) => (keys.as_slice().into(), Some(Instant::now())),
            KeySource::Url(_) | KeySource::Discovered => (Arc::new([]), None),
        };
        let known = Mutex::new(KeySet { keys, fetched, tried: None });
        Self { settings: settings.clone(), known, fetching: tokio::sync::Mutex::default() }
    }

    /// True if it has the same settings.
    pub(crate) fn is_of(&self, settings: &JwtSettings) -> bool {
        self.settings == *settings
    }

    /// The claims of a token, if it's valid.
    pub(super) async fn verify(self: &Arc<Self>, token: &str) -> Result<Claims, TokenError> {
        let token = UnverifiedToken::read(token, &self.settings).map_err(TokenError::Refused)?;
        let keys = self.keys_for(&token).await.ok_or(TokenError::NoKeys)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        token.verify(&keys, &self.settings, now).map_err(TokenError::Refused)
    }

    /// The keys for a token, fetched if necessary; `None` if they never arrived.
    async fn keys_for(self: &Arc<Self>, token: &UnverifiedToken<'_>) -> Option<Arc<[PublicKey]>> {
        let known = self.known();
        if token.knows(&known.keys) {
            if !known.is_fresh() && known.may_try() && !self.is_of_file() {
                // The token doesn't wait for this.
                drop(self.refresh());
            }
            return Some(known.keys);
        }
        if self.is_of_file() || (!known.may_try() && self.fetching.try_lock().is_ok()) {
            return known.fetched.map(|_| known.keys);
        }
        // A separate task, so that a client that leaves doesn't end it for other clients.
        let _ = self.refresh().await;
        let known = self.known();
        known.fetched.map(|_| known.keys)
    }

    fn known(&self) -> KeySet {
        self.known.lock().clone()
    }

    fn is_of_file(&self) -> bool {
        matches!(self.settings.keys, KeySource::File(_))
    }

    fn refresh(self: &Arc<Self>) -> tokio::task::JoinHandle<()> {
        let own = Arc::clone(self);
        tokio::spawn(async move {
            let _one = own.fetching.lock().await;
            // The first task has fetched the keys for all that waited.
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

impl KeySet {
    fn is_fresh(&self) -> bool {
        self.fetched.is_some_and(|at| at.elapsed() < FRESH)
    }

    fn may_try(&self) -> bool {
        self.tried.is_none_or(|at| at.elapsed() >= BETWEEN)
    }
}
