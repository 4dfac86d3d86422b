//! `mysql://user:password@host:port/database?parameters`, and the same with `mariadb`.

use std::path::PathBuf;
use std::time::Duration;

use rowstream_database::credentials::UserPassword;
use rowstream_database::tls::{ClientFiles, SslMode};
use rowstream_database::url::{
    Host, Parts, UrlError, Word, ignore, parse_port, parse_seconds, refuse, to_host,
};

use super::value::ZeroDates;

/// The default port.
const PORT: u16 = 3306;

/// Parameters of MySQL's drivers that change nothing, or that have another name here.
const WORDS: &[Word] = &[
    word("charset", &["utf8mb4", "utf8", "utf8mb3"], "leave it out, because sessions are in utf8mb4"),
    word("useUnicode", &["true"], "leave it out, because sessions are in utf8mb4"),
    word("characterEncoding", &["utf-8", "utf8"], "leave it out, because sessions are in utf8mb4"),
    word("parseTime", &["*"], ""),
    word("loc", &["utc"], "leave it out, because sessions are in UTC"),
    word("serverTimezone", &["utc"], "leave it out, because sessions are in UTC"),
    word("autoReconnect", &["*"], ""),
    word("allowPublicKeyRetrieval", &["*"], ""),
    word("timezone", &["utc", "z", "+00:00"], "leave it out, because sessions are in UTC"),
    word("time-zone", &["utc", "z", "+00:00"], "leave it out, because sessions are in UTC"),
    word("useSSL", &[], "write `ssl-mode=required`, or `ssl-mode=disabled` for `false`"),
    word("requireSSL", &[], "write `ssl-mode=required`, or `ssl-mode=disabled` for `false`"),
    word("ssl", &[], "write `ssl-mode=required`, or `ssl-mode=disabled` for `false`"),
    word(
        "tls",
        &[],
        "write `ssl-mode=required`, `ssl-mode=verify_identity`, or `ssl-mode=disabled` for `false`",
    ),
    word("sslMode", &[], "write `ssl-mode=…`"),
    word("sslmode", &[], "write `ssl-mode=…`"),
    word(
        "verifyServerCertificate",
        &[],
        "write `ssl-mode=verify_identity`, or `ssl-mode=required` for `false`",
    ),
    word("sslaccept", &[], "write `ssl-mode=verify_identity` for `strict`, else `ssl-mode=required`"),
    word("unix-socket", &[], "write `socket`"),
    word("connection-limit", &[], "set `pool.max` of the source"),
    word("pool-timeout", &[], "set `pool.acquire_timeout` of the source"),
];

const fn word(name: &'static str, harmless: &'static [&'static str], instead: &'static str) -> Word {
    Word { name, harmless, instead }
}

/// The address, the login and the settings of a connection.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) credentials: UserPassword,
    pub(super) database: String,
    pub(super) ssl_mode: SslMode,
    pub(super) ssl_ca: Option<PathBuf>,
    /// The certificate that the user logs in with.
    pub(super) client: ClientFiles,
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
            credentials: UserPassword { user: parts.user, password: parts.password },
            database: parts.database,
            ssl_mode: SslMode::Prefer,
            ssl_ca: None,
            client: ClientFiles::default(),
            connect_timeout: Duration::from_secs(10),
            zero_dates: ZeroDates::Refuse,
        };
        parts.query.each(|name, value| target.set(name, value))?;
        if target.ssl_mode == SslMode::VerifyCa && target.ssl_ca.is_none() {
            return refuse("ssl-mode=verify_ca needs ssl-ca=FILE, the certificate of your authority");
        }
        if target.credentials.user.is_empty() {
            target.credentials.user = std::env::var("USER").unwrap_or_else(|_| "root".into());
        }
        Ok(target)
    }

    /// Returns true if the server must prove that it's the one in the URL, or one of our authority.
    pub(super) fn verifies(&self) -> bool {
        match self.ssl_mode {
            SslMode::VerifyCa | SslMode::VerifyFull => true,
            SslMode::Require => self.ssl_ca.is_some(),
            SslMode::Disable | SslMode::Allow | SslMode::Prefer => false,
        }
    }

    /// Sets a parameter. Parameters have the names of the options of MySQL's own clients, with `_`
    /// or `-`.
    fn set(&mut self, name: &str, value: String) -> Result<(), UrlError> {
        match name.replace('_', "-").as_str() {
            "host" => self.host = to_host(&value),
            "socket" => self.host = Host::Unix(value.into()),
            "port" => self.port = parse_port(&value, PORT)?,
            "user" => self.credentials.user = value,
            "password" => self.credentials.password = Some(value),
            "ssl-mode" => self.ssl_mode = parse_ssl_mode(&value)?,
            "ssl-ca" => self.ssl_ca = Some(value.into()),
            "ssl-cert" => self.client.certificate = Some(value.into()),
            "ssl-key" => self.client.key = Some(value.into()),
            "connect-timeout" => self.connect_timeout = parse_seconds(&value)?,
            "zero-dates" => self.zero_dates = parse_zero_dates(&value)?,
            hyphened => ignore(WORDS, hyphened, &value)?,
        }
        Ok(())
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
        "verify_ca" => Ok(SslMode::VerifyCa),
        "verify_identity" => Ok(SslMode::VerifyFull),
        _ => refuse(format!(
            "ssl-mode `{mode}` is not one of disabled, preferred, required, verify_ca, verify_identity"
        )),
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
        assert_eq!((t.port, t.credentials.user.as_str(), t.database.as_str()), (3307, "ann", "shop"));
        assert_eq!((t.credentials.password.as_deref(), t.zero_dates), (Some("p@ss"), ZeroDates::Null));
        assert_eq!((t.ssl_mode, t.ssl_ca), (SslMode::VerifyFull, Some("/ca.pem".into())));
    }

    #[test]
    fn words_of_other_programs_change_nothing() {
        let url =
            "mysql://u@h/d?charset=utf8mb4&parseTime=true&loc=UTC&useUnicode=true&characterEncoding=UTF-8";
        assert_eq!(target(url).database, "d");
        let t = target("mysql://u@h/d?ssl-mode=VERIFY_CA&ssl-ca=/ca.pem");
        assert_eq!((t.ssl_mode, t.verifies()), (SslMode::VerifyCa, true));
        for word in WORDS {
            assert_eq!(word.instead.is_empty(), word.harmless == ["*"], "{}", word.name);
        }
    }

    #[test]
    fn hosts_may_be_sockets_and_ipv6() {
        for (url, login) in [
            ("mysql://u@/db?socket=/run/my.sock", "at `/run/my.sock` as user `u`, database `db`"),
            ("mariadb://u@%2Frun%2Fmy.sock/db", "at `/run/my.sock` as user `u`, database `db`"),
            ("mysql://u:pass@[::1]:6000/db", "at `::1:6000` as user `u`, database `db`"),
            ("mysql://u@h/db", "at `h:3306` as user `u`, database `db`"),
        ] {
            let target = target(url);
            assert_eq!(target.credentials.at(&target.address(), &target.database), login, "{url}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_without_the_password() {
        for (url, message) in [
            ("postgres://x", "must begin with mysql://"),
            ("mysql://u:secret@h:x/d", "port is not a number"),
            ("mysql://u:secret@h/d?ssl-mode=maybe", "ssl-mode `maybe`"),
            (
                "mysql://u:secret@h/d?charset=latin1",
                "`charset` isn't supported with this value: leave it out",
            ),
            ("mysql://u:secret@h/d?useSSL=true", "write `ssl-mode=required`"),
            ("mysql://u:secret@h/d?sslMode=VERIFY_CA", "`sslMode` isn't supported: write `ssl-mode=…`"),
            ("mysql://u:secret@h/d?ssl-mode=verify-ca", "needs ssl-ca=FILE"),
            ("mysql://u:secret@h/d?no_such=1", "`no-such` isn't known: leave it out"),
            ("mysql://u:secret@a,b/d", "several hosts"),
            ("mysql://u:secret@h/d?zero-dates=1", "zero-dates `1`"),
        ] {
            let error = Target::parse(url).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(message), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
