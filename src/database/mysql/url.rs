//! `mysql://user:password@host:port/database?parameters`, and the same with `mariadb`.

use std::path::PathBuf;
use std::time::Duration;

use super::super::tls::SslMode;
use super::super::url::{Host, Parts, UrlError, parse_port, parse_seconds, refuse, to_host};
use super::value::ZeroDates;
use crate::diagnostic::shown;

/// The port of servers that nobody gave another.
const PORT: u16 = 3306;

/// Where and how to connect.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) database: String,
    pub(super) ssl_mode: SslMode,
    pub(super) ssl_ca: Option<PathBuf>,
    pub(super) connect_timeout: Duration,
    pub(super) zero_dates: ZeroDates,
}

impl Target {
    /// Reads a URL.
    pub(super) fn parse(url: &str) -> Result<Self, UrlError> {
        let parts = Parts::parse(url, &["mysql://", "mariadb://"])?;
        let (host, port) = parts.address()?;
        let mut target = Self {
            host: to_host(host),
            port: parse_port(port, PORT)?,
            user: parts.user,
            password: parts.password.unwrap_or_default(),
            database: parts.database,
            ssl_mode: SslMode::Prefer,
            ssl_ca: None,
            connect_timeout: Duration::from_secs(10),
            zero_dates: ZeroDates::Refuse,
        };
        parts.query.each(|name, value| target.set(name, value))?;
        if target.user.is_empty() {
            target.user = std::env::var("USER").unwrap_or_else(|_| "root".into());
        }
        Ok(target)
    }

    /// Whether the server has to show that it is the one that the URL names, or one of its own
    /// authority.
    pub(super) fn verifies(&self) -> bool {
        match self.ssl_mode {
            SslMode::VerifyCa | SslMode::VerifyFull => true,
            SslMode::Require => self.ssl_ca.is_some(),
            SslMode::Disable | SslMode::Allow | SslMode::Prefer => false,
        }
    }

    /// The parameters have the names of the options of MySQL's own clients; `_` stands for `-`.
    fn set(&mut self, name: &str, value: String) -> Result<(), UrlError> {
        match name.replace('_', "-").as_str() {
            "host" => self.host = to_host(&value),
            "socket" => self.host = Host::Unix(value.into()),
            "port" => self.port = parse_port(&value, PORT)?,
            "user" => self.user = value,
            "password" => self.password = value,
            "ssl-mode" => self.ssl_mode = parse_ssl_mode(&value)?,
            "ssl-ca" => self.ssl_ca = Some(value.into()),
            "connect-timeout" => self.connect_timeout = parse_seconds(&value)?,
            "zero-dates" => self.zero_dates = parse_zero_dates(&value)?,
            _ => return refuse(format!("the URL's parameter `{name}` (or its value) is not supported")),
        }
        Ok(())
    }

    /// Who comes to which database, for the log; no secret.
    pub(super) fn login(&self) -> String {
        let address = self.address();
        format!("at {} as user {}, database {}", shown(&address), shown(&self.user), shown(&self.database))
    }

    /// Host and port, or the socket.
    pub(super) fn address(&self) -> String {
        match &self.host {
            Host::Tcp(host) => format!("{host}:{}", self.port),
            Host::Unix(path) => path.display().to_string(),
        }
    }
}

fn parse_ssl_mode(mode: &str) -> Result<SslMode, UrlError> {
    match mode.to_ascii_lowercase().replace('-', "_").as_str() {
        "disabled" => Ok(SslMode::Disable),
        "preferred" => Ok(SslMode::Prefer),
        "required" => Ok(SslMode::Require),
        "verify_identity" => Ok(SslMode::VerifyFull),
        _ => {
            refuse(format!("ssl-mode `{mode}` is not one of disabled, preferred, required, verify_identity"))
        }
    }
}

fn parse_zero_dates(value: &str) -> Result<ZeroDates, UrlError> {
    match value {
        "error" => Ok(ZeroDates::Refuse),
        "null" => Ok(ZeroDates::Null),
        _ => refuse(format!("zero-dates `{value}` is not one of error, null")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn a_url_has_all_its_parts() {
        let t = target(
            "mysql://ann:p%40ss@db.example:3307/shop?ssl-mode=VERIFY_IDENTITY&ssl-ca=/ca.pem&zero-dates=null",
        );
        assert_eq!(t.host, Host::Tcp("db.example".into()));
        assert_eq!((t.port, t.user.as_str(), t.database.as_str()), (3307, "ann", "shop"));
        assert_eq!((t.password.as_str(), t.zero_dates), ("p@ss", ZeroDates::Null));
        assert_eq!((t.ssl_mode, t.ssl_ca), (SslMode::VerifyFull, Some("/ca.pem".into())));
    }

    #[test]
    fn hosts_may_be_sockets_and_ipv6() {
        for (url, login) in [
            ("mysql://u@/db?socket=/run/my.sock", "at `/run/my.sock` as user `u`, database `db`"),
            ("mariadb://u@%2Frun%2Fmy.sock/db", "at `/run/my.sock` as user `u`, database `db`"),
            ("mysql://u:pass@[::1]:6000/db", "at `::1:6000` as user `u`, database `db`"),
            ("mysql://u@h/db", "at `h:3306` as user `u`, database `db`"),
        ] {
            assert_eq!(target(url).login(), login, "{url}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_without_the_password() {
        for (url, message) in [
            ("postgres://x", "must begin with mysql://"),
            ("mysql://u:secret@h:x/d", "port is not a number"),
            ("mysql://u:secret@h/d?ssl-mode=maybe", "ssl-mode `maybe`"),
            ("mysql://u:secret@h/d?charset=latin1", "`charset`"),
            ("mysql://u:secret@a,b/d", "several hosts"),
            ("mysql://u:secret@h/d?zero-dates=1", "zero-dates `1`"),
        ] {
            let error = Target::parse(url).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(message), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
