//! `postgres://user:password@host:port/database?parameters`, as libpq reads it (PostgreSQL manual,
//! "Connection URIs").

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rowstream_core::settings::SourceSettings;
use rowstream_database::credentials::UserPassword;
use rowstream_database::login::AddressOrder;
use rowstream_database::tls::{ClientFiles, SslMode};
use rowstream_database::url::{
    Host, Parts, UrlError, Word, ignore, parse_port, parse_seconds, refuse, to_host,
};

use super::libpq::{self, LibpqParameters, Login};

/// The most hosts of a URL.
const MOST: usize = 64;
/// The default port.
const PORT: u16 = 5432;

/// Parameters of libpq and of other drivers that change nothing, or that have another name here.
const WORDS: &[Word] = &[
    word("keepalives", &["*"], ""),
    word("keepalives_idle", &["*"], ""),
    word("keepalives_interval", &["*"], ""),
    word("keepalives_count", &["*"], ""),
    word("tcp_user_timeout", &["*"], ""),
    word("fallback_application_name", &["*"], ""),
    word("krbsrvname", &["*"], ""),
    word("gsslib", &["*"], ""),
    word("sslcompression", &["*"], ""),
    word("pgbouncer", &["*"], ""),
    word("gssdelegation", &["0"], "leave it out, because Rowstream has no GSSAPI"),
    word("gssencmode", &["disable", "prefer"], "write `disable`, and `sslmode=verify-full` for TLS"),
    word(
        "client_encoding",
        &["utf8", "utf-8", "unicode", "auto"],
        "leave it out, because sessions are in UTF-8",
    ),
    word("sslsni", &["1"], "leave it out, because TLS names the host"),
    word("sslnegotiation", &["postgres"], "write `postgres`"),
    word(
        "ssl_min_protocol_version",
        &["tlsv1", "tlsv1.1", "tlsv1.2"],
        "write `TLSv1.2`, and set it in the server",
    ),
    word("ssl_max_protocol_version", &["tlsv1.3"], "leave it out"),
    word("schema", &[], "write `options=-c%20search_path=NAME`"),
    word("currentSchema", &[], "write `options=-c%20search_path=NAME`"),
    word("search_path", &[], "write `options=-c%20search_path=NAME`"),
    word("connection_limit", &[], "set `pool.max` of the source"),
    word("pool_timeout", &[], "set `pool.acquire_timeout` of the source"),
    word("statement_cache_size", &[], "set `statement_cache` of the source"),
    word("statement_timeout", &[], "set `statement_timeout` of the source"),
    word("lock_timeout", &[], "write `options=-c%20lock_timeout=5s`"),
    word("TimeZone", &["utc"], "leave it out, because sessions are in UTC"),
    word("prepareThreshold", &[], UNNAMED),
    word("prepared_statements", &["true"], UNNAMED),
    word("default_query_exec_mode", &[], UNNAMED),
    word("pool_max_conns", &[], "set `pool.max` of the source"),
    word("require_auth", &[], "leave it out, and write `channel_binding=require` or `sslmode=verify-full`"),
    word("sslcertmode", &["allow", "disable"], "write `sslcert` and `sslkey`"),
    word("min_protocol_version", &["3.0"], "leave it out"),
    word("max_protocol_version", &["*"], ""),
    word("sslcrl", &[], "leave it out, because revocation lists aren't read"),
    word("requirepeer", &[], "leave it out, and name the socket's folder"),
];

/// The hint for words that turn off prepared statements.
const UNNAMED: &str = "behind a pooler, set `pooler = \"transaction\"` of the source, otherwise leave it out";

const fn word(name: &'static str, harmless: &'static [&'static str], instead: &'static str) -> Word {
    Word { name, harmless, instead }
}

/// The hosts of a URL.
pub(super) struct Targets {
    /// At least one.
    pub(super) hosts: Vec<Target>,
    pub(super) attrs: SessionAttrs,
}

/// The hosts that may be used (`target_session_attrs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionAttrs {
    Any,
    /// A primary that sessions can write to.
    ReadWrite,
    /// A replica, or a primary whose sessions are read-only by default.
    ReadOnly,
    Primary,
    Standby,
    /// The primary only if no replica can be used. The default if there are several hosts, because
    /// statements only read.
    PreferStandby,
}

/// Says if a login is bound to its TLS (`channel_binding`), so that a server in between can't pass
/// it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelBinding {
    Disable,
    /// If the server offers it.
    Prefer,
    Require,
}

/// The address, the login and the settings of a connection.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) host: Host,
    /// The address to connect to, if the host is only its name.
    pub(super) address: Option<IpAddr>,
    pub(super) address_order: AddressOrder,
    pub(super) port: u16,
    pub(super) credentials: UserPassword,
    pub(super) database: String,
    pub(super) ssl_mode: SslMode,
    pub(super) ssl_root_cert: Option<PathBuf>,
    /// The certificate that the user logs in with.
    pub(super) client: ClientFiles,
    pub(super) channel_binding: ChannelBinding,
    pub(super) connect_timeout: Duration,
    pub(super) application_name: String,
    /// Command-line options for the server (`-c search_path=shop`).
    pub(super) options: Option<String>,
}

impl Targets {
    /// Reads a URL. Several hosts have libpq's form: `a:1,b:2`, or `host=a,b` and `port=1,2` or one
    /// `port` for all. Missing parameters are taken from libpq's `variables`, and from the service
    /// file and the password file that they name.
    pub(super) fn parse(url: &str, variables: &BTreeMap<&str, String>) -> Result<Self, UrlError> {
        let parts = Parts::parse(url, &["postgres://", "postgresql://"])?;
        let mut parameters = said(&parts)?;
        parameters.fill(variables)?;
        let mut target = Target::default();
        let (mut hosts, mut addresses, mut ports, mut attrs) = (Vec::new(), Vec::new(), Vec::new(), None);
        let passwords = libpq::password_file(parameters.take("passfile"), variables);
        let listed = |value: &str| value.split(',').map(str::to_owned).collect();
        parameters
            .each(|name, value| {
                match name {
                    "host" => hosts = listed(&value),
                    "hostaddr" => addresses = listed(&value),
                    "port" => {
                        ports = listed(&value);
                        ports.iter().try_for_each(|port| parse_port(port, PORT).map(drop))?;
                    }
                    "target_session_attrs" => attrs = Some(parse_attrs(&value)?),
                    _ => target.set(name, value)?,
                }
                Ok(())
            })
            .map_err(|error| parts.query.unquoted(error))?;
        target.fill_defaults(variables);
        if target.ssl_mode == SslMode::VerifyCa && target.ssl_root_cert.is_none() {
            return refuse(
                "sslmode=verify-ca needs sslrootcert=FILE, the certificate of your authority: the system's \
                 authorities sign for anyone",
            );
        }
        if hosts.is_empty() {
            hosts = if addresses.is_empty() { vec![String::new()] } else { addresses.clone() };
        }
        if hosts.len() > MOST {
            return refuse(format!("the URL has {} hosts, but may have {MOST}", hosts.len()));
        }
        let several = hosts.len() > 1;
        let mut hosts = at_ports(&target, &hosts, &ports)?;
        set_addresses(&mut hosts, &addresses)?;
        if let Some(file) = passwords {
            hosts.iter_mut().for_each(|host| host.find_password(&file));
        }
        let default = if several { SessionAttrs::PreferStandby } else { SessionAttrs::Any };
        Ok(Self { hosts, attrs: attrs.unwrap_or(default) })
    }
}

/// Makes a target for each host. If there's only one port, it's for all of them.
fn at_ports(target: &Target, hosts: &[String], ports: &[String]) -> Result<Vec<Target>, UrlError> {
    if ports.len() > 1 && ports.len() != hosts.len() {
        return refuse(format!("the URL has {} hosts and {} ports", hosts.len(), ports.len()));
    }
    let at = |(index, host): (usize, &String)| {
        let port = ports.get(index).or(ports.first()).map_or("", String::as_str);
        Ok(Target { host: to_host(host), port: parse_port(port, PORT)?, ..target.clone() })
    };
    hosts.iter().enumerate().map(at).collect()
}

/// Makes the targets connect to these addresses, if there are any. For an empty address we resolve
/// the host's name.
fn set_addresses(targets: &mut [Target], addresses: &[String]) -> Result<(), UrlError> {
    if !addresses.is_empty() && addresses.len() != targets.len() {
        return refuse(format!("the URL has {} hosts, and hostaddr {}", targets.len(), addresses.len()));
    }
    for (target, text) in targets.iter_mut().zip(addresses).filter(|(_, text)| !text.is_empty()) {
        match (text.parse(), &target.host) {
            (Ok(address), Host::Tcp(_)) => target.address = Some(address),
            (Ok(_), Host::Unix(_)) => {
                return refuse("hostaddr is for a host with a name, not for a socket");
            }
            (Err(_), _) => return refuse("hostaddr isn't an IP address: write a name as `host`"),
        }
    }
    Ok(())
}

/// The parameters in a URL, by libpq's names.
fn said(parts: &Parts<'_>) -> Result<LibpqParameters, UrlError> {
    let mut parameters = LibpqParameters::default();
    let mut note = |name: &str, value: String| {
        if !value.is_empty() {
            parameters.insert(name, value);
        }
    };
    // If no host has a name, or a port, the list is empty.
    let joined = |values: Vec<&str>| {
        if values.iter().all(|value| value.is_empty()) { String::new() } else { values.join(",") }
    };
    note("host", joined(parts.addresses.iter().map(|(host, _)| host.as_str()).collect()));
    note("port", joined(parts.addresses.iter().map(|(_, port)| *port).collect()));
    note("user", parts.user.clone());
    note("dbname", parts.database.clone());
    note("password", parts.password.clone().unwrap_or_default());
    parts.query.each(|name, value| {
        match (name, value.as_str()) {
            // libpq reads JDBC's URLs this way.
            ("ssl", "true") => parameters.insert("sslmode", "require".to_owned()),
            ("ssl", _) => return refuse("write `sslmode` instead of `ssl`"),
            _ => parameters.insert(name, value),
        }
        Ok(())
    })?;
    Ok(parameters)
}

impl Default for Target {
    fn default() -> Self {
        Self {
            host: Host::Tcp(String::new()),
            address: None,
            address_order: AddressOrder::Given,
            port: PORT,
            credentials: UserPassword { user: String::new(), password: None },
            database: String::new(),
            ssl_mode: SslMode::Prefer,
            ssl_root_cert: None,
            client: ClientFiles::default(),
            channel_binding: ChannelBinding::Prefer,
            connect_timeout: Duration::from_secs(10),
            application_name: "rowstream".into(),
            options: None,
        }
    }
}

impl Target {
    fn set(&mut self, name: &str, value: String) -> Result<(), UrlError> {
        match name {
            "user" => self.credentials.user = value,
            "password" => self.credentials.password = Some(value),
            "dbname" => self.database = value,
            "load_balance_hosts" => self.address_order = parse_address_order(&value)?,
            "sslmode" => self.ssl_mode = parse_ssl_mode(&value)?,
            "sslcert" => self.client.certificate = Some(value.into()),
            "sslkey" => self.client.key = Some(value.into()),
            "channel_binding" => self.channel_binding = parse_channel_binding(&value)?,
            "sslrootcert" if value == "system" => self.ssl_root_cert = None,
            "sslrootcert" => self.ssl_root_cert = Some(value.into()),
            "connect_timeout" => self.connect_timeout = parse_seconds(&value)?,
            "application_name" => self.application_name = value,
            "options" => self.options = Some(value),
            _ => ignore(WORDS, name, &value)?,
        }
        Ok(())
    }

    /// Reads the URL and its files again, and returns the host with this index.
    pub(super) fn read_again(settings: &SourceSettings, host: usize) -> Option<Self> {
        let targets = Targets::parse(&settings.url_now()?, &settings.variables).ok()?;
        targets.hosts.into_iter().nth(host)
    }

    /// Fills in libpq's defaults: the operating system's user, and a database with the user's name.
    fn fill_defaults(&mut self, variables: &BTreeMap<&str, String>) {
        let user = &mut self.credentials.user;
        if user.is_empty() {
            *user = libpq::user(variables);
        }
        if self.database.is_empty() {
            self.database = user.clone();
        }
    }

    /// Looks for a password in the password file, if the URL has none.
    fn find_password(&mut self, file: &Path) {
        let host = match &self.host {
            Host::Tcp(host) => host,
            // libpq uses this name for the socket in its default folder.
            Host::Unix(folder) if folder == Path::new("/var/run/postgresql") => "localhost",
            Host::Unix(folder) => &folder.to_string_lossy(),
        };
        let UserPassword { user, password } = &mut self.credentials;
        let login = Login { host, port: self.port, database: &self.database, user };
        if password.is_none() {
            *password = libpq::password(file, &login);
        }
    }

    /// Its host and port, or its socket; its name in metrics and in the log.
    pub(super) fn address(&self) -> String {
        match &self.host {
            Host::Tcp(host) => format!("{host}:{}", self.port),
            Host::Unix(_) => self.socket_path().display().to_string(),
        }
    }

    /// The path of the Unix socket.
    pub(super) fn socket_path(&self) -> PathBuf {
        match &self.host {
            Host::Unix(folder) => folder.join(format!(".s.PGSQL.{}", self.port)),
            Host::Tcp(_) => PathBuf::new(),
        }
    }
}

fn parse_attrs(attrs: &str) -> Result<SessionAttrs, UrlError> {
    match attrs {
        "any" => Ok(SessionAttrs::Any),
        "read-write" => Ok(SessionAttrs::ReadWrite),
        "read-only" => Ok(SessionAttrs::ReadOnly),
        "primary" => Ok(SessionAttrs::Primary),
        "standby" => Ok(SessionAttrs::Standby),
        "prefer-standby" => Ok(SessionAttrs::PreferStandby),
        _ => refuse(
            "target_session_attrs is not one of any, read-write, read-only, primary, standby, prefer-standby",
        ),
    }
}

fn parse_address_order(order: &str) -> Result<AddressOrder, UrlError> {
    match order {
        "disable" => Ok(AddressOrder::Given),
        "random" => Ok(AddressOrder::Random),
        _ => refuse("load_balance_hosts is not one of disable, random"),
    }
}

fn parse_channel_binding(mode: &str) -> Result<ChannelBinding, UrlError> {
    match mode {
        "disable" => Ok(ChannelBinding::Disable),
        "prefer" => Ok(ChannelBinding::Prefer),
        "require" => Ok(ChannelBinding::Require),
        _ => refuse(format!("channel_binding `{mode}` is not one of disable, prefer, require")),
    }
}

fn parse_ssl_mode(mode: &str) -> Result<SslMode, UrlError> {
    match mode {
        "disable" => Ok(SslMode::Disable),
        "allow" => Ok(SslMode::Allow),
        "prefer" => Ok(SslMode::Prefer),
        "require" => Ok(SslMode::Require),
        "verify-ca" => Ok(SslMode::VerifyCa),
        "verify-full" => Ok(SslMode::VerifyFull),
        _ => refuse(format!(
            "sslmode `{mode}` is not one of disable, allow, prefer, require (which checks no authority), verify-ca, \
             verify-full"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(url: &str) -> Targets {
        Targets::parse(url, &BTreeMap::new()).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    fn target(url: &str) -> Target {
        targets(url).hosts.remove(0)
    }

    #[test]
    fn words_of_other_programs_change_nothing() {
        for query in [
            "sslmode=require&channel_binding=prefer&keepalives=1&keepalives_idle=30&tcp_user_timeout=9",
            "client_encoding=UTF8&fallback_application_name=psql&sslcompression=0&sslsni=1",
            "gssencmode=disable&load_balance_hosts=disable&sslnegotiation=postgres&pgbouncer=true",
            "ssl_min_protocol_version=TLSv1.2&connect_timeout=0",
            "sslcertmode=disable&max_protocol_version=latest&TimeZone=UTC&prepared_statements=true",
        ] {
            assert_eq!(target(&format!("postgres://u@h/d?{query}")).database, "d", "{query}");
        }
        assert_eq!(target("postgres://u@h/d?ssl=true").ssl_mode, SslMode::Require);
        assert_eq!(target("postgres://u@h/d?connect_timeout=0").connect_timeout, Duration::MAX);
    }

    /// Ignored words need no remedy.
    #[test]
    fn each_word_that_can_be_refused_has_a_remedy() {
        for word in WORDS {
            assert_eq!(word.instead.is_empty(), word.harmless == ["*"], "{}", word.name);
        }
    }

    #[test]
    fn a_host_may_have_an_address_of_its_own() {
        let address = |text: &str| text.parse::<IpAddr>().ok();
        for (url, names, addresses) in [
            ("postgres://u@a/d?hostaddr=10.0.0.1", "a:5432", vec![address("10.0.0.1")]),
            (
                "postgres://u@a,b/d?hostaddr=10.0.0.1,::1",
                "a:5432 b:5432",
                vec![address("10.0.0.1"), address("::1")],
            ),
            ("postgres://u@a,b/d?hostaddr=,::1", "a:5432 b:5432", vec![None, address("::1")]),
            ("postgres://u@/d?hostaddr=10.0.0.1&port=7", "10.0.0.1:7", vec![address("10.0.0.1")]),
        ] {
            let hosts = targets(url).hosts;
            let found: Vec<_> = hosts.iter().map(Target::address).collect();
            assert_eq!(found.join(" "), names, "{url}");
            assert_eq!(hosts.iter().map(|host| host.address).collect::<Vec<_>>(), addresses, "{url}");
        }
        let order =
            |value: &str| target(&format!("postgres://u@h/d?load_balance_hosts={value}")).address_order;
        assert_eq!((order("disable"), order("random")), (AddressOrder::Given, AddressOrder::Random));
    }

    #[test]
    fn several_hosts() {
        for (url, addresses, attrs) in [
            ("postgres://u@a/d", "a:5432", SessionAttrs::Any),
            ("postgres://u@a,b:2/d", "a:5432 b:2", SessionAttrs::PreferStandby),
            ("postgres://u@[::1]:1,b/d?target_session_attrs=any", "::1:1 b:5432", SessionAttrs::Any),
            ("postgres://u@/d?host=a,b&port=7", "a:7 b:7", SessionAttrs::PreferStandby),
            (
                "postgres://u@/d?host=a,/s&port=7,8&target_session_attrs=read-only",
                "a:7 /s/.s.PGSQL.8",
                SessionAttrs::ReadOnly,
            ),
            ("postgres://u@a,b/d?target_session_attrs=primary", "a:5432 b:5432", SessionAttrs::Primary),
            ("postgres://u@a/d?target_session_attrs=read-write", "a:5432", SessionAttrs::ReadWrite),
        ] {
            let targets = targets(url);
            let told: Vec<_> = targets.hosts.iter().map(Target::address).collect();
            assert_eq!((told.join(" ").as_str(), targets.attrs), (addresses, attrs), "{url}");
        }
    }

    #[test]
    fn a_url_has_all_its_parts() {
        let t = target(
            "postgres://ann:p%40ss%2Fw%3Ard@db.example:6432/shop?sslmode=verify-full&sslrootcert=/ca.pem",
        );
        assert_eq!(t.host, Host::Tcp("db.example".into()));
        assert_eq!((t.port, t.credentials.user.as_str(), t.database.as_str()), (6432, "ann", "shop"));
        assert_eq!(t.credentials.password.as_deref(), Some("p@ss/w:rd"));
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
            let target = target(url);
            assert_eq!(target.credentials.at(&target.address(), &target.database), login, "{url}");
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
            ("postgres://u:secret@h/d?sslmode=verify-ca", "needs sslrootcert=FILE"),
            ("postgres://u:secret@h/d?sslmode=verify-ca&sslrootcert=system", "needs sslrootcert=FILE"),
            ("postgres://u:secret@h/d?replication=true", "`replication`"),
            ("postgres://u:secret@a,b/d?port=1,2,3", "2 hosts and 3 ports"),
            ("postgres://u:secret@a,b/d?target_session_attrs=secret", "target_session_attrs is not one of"),
            ("postgres://u:secret@h/d?connect_timeout=-1", "connect_timeout"),
            ("postgres://u:secret@h/d?channel_binding=maybe", "channel_binding `maybe`"),
            ("postgres://u:secret@h/d?schema=shop", "search_path=NAME"),
            ("postgres://u:secret@h/d?statement_timeout=5000", "set `statement_timeout` of the source"),
            ("postgres://u:secret@h/d?prepareThreshold=0", "set `pooler = \"transaction\"`"),
            ("postgres://u:secret@h/d?require_auth=scram-sha-256", "write `channel_binding=require`"),
            ("postgres://u:secret@h/d?client_encoding=latin1", "sessions are in UTF-8"),
            ("postgres://u:secret@h/d?sslmode=no-verify", "require (which checks no authority)"),
            ("postgres://u:secret@h/d?ssl=false", "write `sslmode`"),
            ("postgres://u:secret@h/d?no_such=1", "`no_such` isn't known: leave it out"),
            ("postgres://u:secret@h/%ff", "not UTF-8"),
        ] {
            let error = Targets::parse(url, &BTreeMap::new())
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(error.contains(message), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
