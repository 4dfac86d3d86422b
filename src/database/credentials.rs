//! The user and the password of a source's logins, which may change while the source is in use.
//!
//! ```text
//! login ──► by the current credentials ──► the connection, or any other error
//!               └── refused ──► read again ──► others ──► one more login by these
//!                                    └── the same ──► the refusal
//! ```
//!
//! They're read by parsing the URL again, with its files as they are now. So an unattended rotation
//! that changes the file first costs no request an error.

use std::sync::Arc;

use super::login::ConnectError;
use crate::lock::Mutex;

/// The user and the password of a login.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: Option<String>,
}

/// Reads the credentials again; `None` if that's impossible now.
type Reader = dyn Fn() -> Option<Credentials> + Send + Sync;

/// The current credentials, and their source.
pub(super) struct CredentialSource {
    current: Mutex<Credentials>,
    read: Arc<Reader>,
}

impl CredentialSource {
    /// Those of a URL that was parsed; `read` parses it again.
    pub(super) fn new(
        parsed: Credentials,
        read: impl Fn() -> Option<Credentials> + Send + Sync + 'static,
    ) -> Self {
        Self { current: Mutex::new(parsed), read: Arc::new(read) }
    }

    /// Opens a connection by the current credentials. If the server refuses them, reads them again
    /// once, and opens it by these if they are others.
    pub(super) async fn log_in<T, F: Future<Output = Result<T, ConnectError>>>(
        &self,
        open: impl Fn(Credentials) -> F,
    ) -> Result<T, ConnectError> {
        let credentials = self.current.lock().clone();
        match open(credentials.clone()).await {
            Err(error) if error.is_refused_login() => match self.renewed(credentials).await {
                Some(renewed) => open(renewed).await,
                None => Err(error),
            },
            opened => opened,
        }
    }

    /// The credentials that replace those that a server has refused.
    async fn renewed(&self, refused: Credentials) -> Option<Credentials> {
        let current = self.current.lock().clone();
        if current != refused {
            return Some(current);
        }
        let read = Arc::clone(&self.read);
        // Files may be slow to read.
        let renewed = tokio::task::spawn_blocking(move || read()).await.ok()??;
        *self.current.lock() = renewed.clone();
        (renewed != refused).then_some(renewed)
    }
}
