//! The credentials of a source's logins, which may change while the source is in use.
//!
//! ```text
//! login ──► with the current credentials ──► the connection, or any other error
//!               └── refused ──► read again ──► new ones ──► one more login with these
//!                                    └── the same ──► the refusal
//! ```
//!
//! We read them by parsing the URL again, with its files as they are now. So an unattended rotation
//! that changes the file first causes no errors. If the source has a command for its password, we
//! run that instead.
//!
//! A server may also refuse the credentials later, at a call. That is a login that was refused.

use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::diagnostic::shown;
use rowstream_core::lock::Mutex;

use super::login::ConnectError;
use super::password_command::PasswordCommand;

/// The secrets of a login, in the form of the database's protocol.
pub trait Credentials: Clone + PartialEq + Send + Sync + 'static {
    /// The password, if there is one.
    fn password(&self) -> Option<&str>;

    /// The same credentials with another password.
    #[must_use]
    fn with_password(self, password: String) -> Self;
}

/// The user and the password of a login.
#[derive(Clone, PartialEq, Eq)]
pub struct UserPassword {
    /// The name of the user.
    pub user: String,
    /// The password, if there is one.
    pub password: Option<String>,
}

impl UserPassword {
    /// The address, the user and the database of a login, for the log.
    pub fn at(&self, address: &str, database: &str) -> String {
        format!("at {} as user {}, database {}", shown(address), shown(&self.user), shown(database))
    }
}

impl Credentials for UserPassword {
    fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    fn with_password(self, password: String) -> Self {
        Self { password: Some(password), ..self }
    }
}

/// Reads the credentials again; `None` if that's impossible now.
type Reader<C> = dyn Fn() -> Option<C> + Send + Sync;

/// The current credentials, and a way to read them again.
pub struct CredentialSource<C> {
    current: Mutex<C>,
    read: Arc<Reader<C>>,
    command: Option<Arc<PasswordCommand>>,
}

impl<C: Credentials> CredentialSource<C> {
    /// The credentials of a parsed URL; `read` parses it again. The hosts of a source share its
    /// command.
    pub fn new(
        parsed: C,
        command: Option<Arc<PasswordCommand>>,
        read: impl Fn() -> Option<C> + Send + Sync + 'static,
    ) -> Self {
        Self { current: Mutex::new(parsed), read: Arc::new(read), command }
    }

    /// Opens a connection with the current credentials. If the server refuses them, reads them
    /// again. If they have changed, tries once more.
    ///
    /// # Errors
    /// The connection can't be opened, or the command fails.
    pub async fn log_in<T, F: Future<Output = Result<T, ConnectError>>>(
        &self,
        open: impl Fn(C) -> F,
    ) -> Result<T, ConnectError> {
        let credentials = self.current().await?;
        match open(credentials.clone()).await {
            Err(error) if error.is_refused_login() => match self.renewed(credentials).await? {
                Some(renewed) => open(renewed).await,
                None => Err(error),
            },
            opened => opened,
        }
    }

    /// Opens a connection in place of one whose credentials the server has `refused`. Returns `None`
    /// if there are no others.
    ///
    /// # Errors
    /// The connection can't be opened, or the command fails.
    pub async fn log_in_again<T, F: Future<Output = Result<T, ConnectError>>>(
        &self,
        refused: &C,
        open: impl Fn(C) -> F,
    ) -> Result<Option<T>, ConnectError> {
        let current = self.current().await?;
        if current != *refused {
            return self.log_in(open).await.map(Some);
        }
        match self.renewed(current).await? {
            Some(renewed) => open(renewed).await.map(Some),
            None => Ok(None),
        }
    }

    async fn current(&self) -> Result<C, Error> {
        let credentials = self.current.lock().clone();
        match &self.command {
            Some(command) => Ok(credentials.with_password(command.password(None).await?)),
            None => Ok(credentials),
        }
    }

    /// The credentials that replace refused ones, if they have changed.
    async fn renewed(&self, refused: C) -> Result<Option<C>, Error> {
        let renewed = match &self.command {
            Some(command) => {
                let password = command.password(refused.password()).await?;
                Some(refused.clone().with_password(password))
            }
            None => self.read_again(&refused).await,
        };
        Ok(renewed.filter(|renewed| *renewed != refused))
    }

    /// Parses the URL again, unless another login has done so.
    async fn read_again(&self, refused: &C) -> Option<C> {
        let current = self.current.lock().clone();
        if current != *refused {
            return Some(current);
        }
        let read = Arc::clone(&self.read);
        // Reading files can be slow.
        let renewed = tokio::task::spawn_blocking(move || read()).await.ok()??;
        *self.current.lock() = renewed.clone();
        Some(renewed)
    }
}
