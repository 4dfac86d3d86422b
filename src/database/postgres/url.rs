//! `postgres://user:password@host:port/database?parameters`, as libpq reads it (PostgreSQL manual,
//! "Connection URIs").

use std::path::PathBuf;
use std::time::Duration;

use super::super::tls::SslMode;
use super::super::url::{Host, Parts, UrlError, parse_port, parse_seconds, refuse, to_host};
use crate::diagnostic::shown;

/// The port of servers that nobody gave another.
const PORT: u16 = 5432;

/// Where and how to connect.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) database: String,
    pub(super) ssl_mode: SslMode,
    pub(super) ssl_root_cert: Option<PathBuf>,
    pub(super) connect_timeout: Duration,
    pub(super) application_name: String,
    /// Command-line options for the server (`-c search_path=shop`).
    pub(super) options: Option<String>,
}

impl Target {
    /// Reads a URL.
    pub(super) fn parse(url: &str) -> Result<Self, UrlError> {
        let parts = Parts::parse(url, &["postgres://", "postgresql://"])?;
        let mut target = Self {
            host: to_host(&parts.host),
            port: parse_port(parts.port, PORT)?,
            user: parts.user,
            password: parts.password,
            database: parts.database,
            ssl_mode: SslMode::Prefer,
            ssl_root_cert: None,
            connect_timeout: Duration::from_secs(10),
            application_name: "rowstream".into(),
            options: None,
        };
        parts.query.each(|name, value| target.set(name, value))?;
        target.fill_defaults();
        Ok(target)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), UrlError> {
        match name {
            "host" => self.host = to_host(&value),
            "port" => self.port = parse_port(&value, PORT)?,
            "user" => self.user = value,
            "password" => self.password = Some(value),
            "dbname" => self.database = value,
            "sslmode" => self.ssl_mode = parse_ssl_mode(&value)?,
            "sslrootcert" if value == "system" => self.ssl_root_cert = None,
            "sslrootcert" => self.ssl_root_cert = Some(value.into()),
            "connect_timeout" => self.connect_timeout = parse_seconds(&value)?,
            "application_name" => self.application_name = value,
            "options" => self.options = Some(value),
            // Both are met: no channel binding is asked for, and nothing hangs on its absence.
            "channel_binding" if matches!(value.as_str(), "disable" | "prefer") => {}
            "target_session_attrs" if value == "any" => {}
            _ => return refuse(format!("the URL's parameter `{name}` (or its value) is not supported")),
        }
        Ok(())
    }

    /// What libpq fills in: the operating system's user, and a database of the user's name.
    fn fill_defaults(&mut self) {
        if self.user.is_empty() {
            self.user = std::env::var("USER").unwrap_or_else(|_| "postgres".into());
        }
        if self.database.is_empty() {
            self.database = self.user.clone();
        }
    }

    /// Who comes to which database, for the log; no secret.
    pub(super) fn login(&self) -> String {
        let address = match &self.host {
            Host::Tcp(host) => format!("{host}:{}", self.port),
            Host::Unix(_) => self.socket_path().display().to_string(),
        };
        format!("at {} as user {}, database {}", shown(&address), shown(&self.user), shown(&self.database))
    }

    /// The path of the Unix socket.
    pub(super) fn socket_path(&self) -> PathBuf {
        match &self.host {
            Host::Unix(folder) => folder.join(format!(".s.PGSQL.{}", self.port)),
            Host::Tcp(_) => PathBuf::new(),
        }
    }
}

fn parse_ssl_mode(mode: &str) -> Result<SslMode, UrlError> {
    match mode {
        "disable" => Ok(SslMode::Disable),
        "prefer" => Ok(SslMode::Prefer),
        "require" => Ok(SslMode::Require),
        "verify-full" => Ok(SslMode::VerifyFull),
        _ => refuse(format!("sslmode `{mode}` is not one of disable, prefer, require, verify-full")),
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
            "postgres://ann:p%40ss%2Fw%3Ard@db.example:6432/shop?sslmode=verify-full&sslrootcert=/ca.pem",
        );
        assert_eq!(t.host, Host::Tcp("db.example".into()));
        assert_eq!((t.port, t.user.as_str(), t.database.as_str()), (6432, "ann", "shop"));
        assert_eq!(t.password.as_deref(), Some("p@ss/w:rd"));
        assert_eq!((t.ssl_mode, t.ssl_root_cert), (SslMode::VerifyFull, Some("/ca.pem".into())));
    }

    #[test]
    fn hosts_may_be_sockets_and_ipv6() {
        for (url, login) in [
            (
                "postgres://u@/db?host=/run/pg&port=5433",
                "at `/run/pg/.s.PGSQL.5433` as user `u`, database `db`",
            ),
            ("postgres://u@%2Frun%2Fpg/db", "at `/run/pg/.s.PGSQL.5432` as user `u`, database `db`"),
            ("postgres://u:pass@[::1]:6000/db", "at `::1:6000` as user `u`, database `db`"),
            ("postgresql://u@/?password=pass", "at `localhost:5432` as user `u`, database `u`"),
        ] {
            assert_eq!(target(url).login(), login, "{url}");
        }
    }

    #[test]
    fn the_database_is_the_users_by_default() {
        assert_eq!(target("postgres://ann@localhost").database, "ann");
    }

    #[test]
    fn what_is_not_understood_is_refused_without_the_password() {
        for (url, message) in [
            ("mysql://x", "must begin with postgres://"),
            ("postgres://u:secret@h:x/d", "port is not a number"),
            ("postgres://u:secret/x@h/d", "`/` is written as %2F"),
            ("postgres://u:12?secret=x@h/d", "`?` as %3F"),
            ("postgres://u:secret@h/d?sslmode=maybe", "sslmode `maybe`"),
            ("postgres://u:secret@h/d?replication=true", "`replication`"),
            ("postgres://u:secret@a,b/d", "several hosts"),
            ("postgres://u:secret@h/d?connect_timeout=0", "connect_timeout"),
            ("postgres://u:secret@h/d?channel_binding=require", "channel_binding"),
            ("postgres://u:secret@h/%ff", "not UTF-8"),
        ] {
            let error = Target::parse(url).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(message), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
