//! The user and the password of a source's logins, which may change while the source is in use.
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

use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::lock::Mutex;

use super::login::ConnectError;
use super::password_command::PasswordCommand;

/// The user and the password of a login.
#[derive(Clone, PartialEq, Eq)]
pub struct UserPassword {
    /// The name of the user.
    pub user: String,
    /// The password, if there is one.
    pub password: Option<String>,
}

/// Reads the credentials again; `None` if that's impossible now.
type Reader = dyn Fn() -> Option<UserPassword> + Send + Sync;

/// The current credentials, and a way to read them again.
pub struct CredentialSource {
    current: Mutex<UserPassword>,
    read: Arc<Reader>,
    command: Option<Arc<PasswordCommand>>,
}

impl CredentialSource {
    /// The credentials of a parsed URL; `read` parses it again. The hosts of a source share its
    /// command.
    pub fn new(
        parsed: UserPassword,
        command: Option<Arc<PasswordCommand>>,
        read: impl Fn() -> Option<UserPassword> + Send + Sync + 'static,
    ) -> Self {
        Self { current: Mutex::new(parsed), read: Arc::new(read), command }
    }

    /// Opens a connection with the current credentials. If the server refuses them, reads them
    /// again. If they have changed, tries once more.
    pub async fn log_in<T, F: Future<Output = Result<T, ConnectError>>>(
        &self,
        open: impl Fn(UserPassword) -> F,
    ) -> Result<T, ConnectError> {
        let credentials = self.current().await.map_err(ConnectError::before_login)?;
        match open(credentials.clone()).await {
            Err(error) if error.is_refused_login() => match self.renewed(credentials).await {
                Ok(Some(renewed)) => open(renewed).await,
                Ok(None) => Err(error),
                Err(error) => Err(ConnectError::before_login(error)),
            },
            opened => opened,
        }
    }

    async fn current(&self) -> Result<UserPassword, Error> {
        let credentials = self.current.lock().clone();
        match &self.command {
            Some(command) => Ok(credentials.with(command.password(None).await?)),
            None => Ok(credentials),
        }
    }

    /// The credentials that replace refused ones, if they have changed.
    async fn renewed(&self, refused: UserPassword) -> Result<Option<UserPassword>, Error> {
        let renewed = match &self.command {
            Some(command) => {
                let password = command.password(refused.password.as_deref()).await?;
                Some(refused.clone().with(password))
            }
            None => self.read_again(&refused).await,
        };
        Ok(renewed.filter(|renewed| *renewed != refused))
    }

    /// Parses the URL again, unless another login has done so.
    async fn read_again(&self, refused: &UserPassword) -> Option<UserPassword> {
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

impl UserPassword {
    fn with(self, password: String) -> Self {
        Self { password: Some(password), ..self }
    }
}
