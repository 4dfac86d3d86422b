//! Opens connections: TLS, start-up, authentication, and session settings. Sends cancel requests,
//! too.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use rowstream_core::Error;
use rowstream_core::log;
use rowstream_core::settings::{Pooler, SourceSettings};
use rowstream_core::tls::servers;
use rowstream_database::credentials::{CredentialSource, UserPassword};
use rowstream_database::login::{self, ConnectError, ReusableConnection};
use rowstream_database::password_command::PasswordCommand;
use rowstream_database::socket::Socket;
use rowstream_database::tls::{self, SslMode};
use rowstream_database::url::Host;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::actor::{Letters, RoleSettings, Settings};
use super::error::DatabaseError;
use super::hosts::HostUse;
use super::statement::StatementCache;
use super::url::{ChannelBinding as Binding, SessionAttrs, Target};
use super::value::text_field;
use super::wire::Wire;

/// The most rounds of SCRAM's key derivation that a server may ask for; its default is 4,096. More
/// would be an attack on our CPU.
const MAX_SCRAM_ITERATIONS: u32 = 1_000_000;

/// Opens the connections of a source.
pub(super) struct Connector {
    target: Target,
    credentials: CredentialSource<UserPassword>,
    /// Its index among the source's hosts.
    host: usize,
    tls: Option<TlsConnector>,
    session: SessionSettings,
    /// The columns that return the host's role.
    pub(super) role: &'static str,
    pooler: Pooler,
    statement_cache: usize,
    max_message: usize,
    /// True once the log has said that the server isn't PostgreSQL.
    has_warned: AtomicBool,
}

/// The role of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    /// A primary whose sessions are read-only by default.
    ReadOnly,
    Replica,
}

/// One open connection, authenticated and set up.
pub struct Connection {
    pub(super) wire: Wire,
    pub(super) statements: StatementCache,
    /// The transaction status of the last ReadyForQuery: `I` idle, `T` in a transaction, `E` in a
    /// failed one.
    pub(super) status: u8,
    /// True if only a transaction has a backend of its own, as behind a pooler.
    pub(super) is_pooled: bool,
    /// The role of its host.
    pub(super) role: Role,
    /// The server's own name, if it speaks PostgreSQL's protocol but isn't PostgreSQL. Such a
    /// server has none of our settings: its sessions can write, and its responses have no snapshot.
    pub(super) other: Option<Box<str>>,
    /// True if the server sends times as integers. PostgreSQL always does since version 10.
    pub(super) has_integer_times: bool,
    /// The letters that the server accepts in claims.
    pub(super) letters: Letters,
    /// The server's idle limit for transactions; `None` if there's none.
    pub(super) idle_limit: Option<Duration>,
    /// The settings of the roles that have used this connection.
    pub(super) roles: RoleSettings,
    /// True if a statement may have left something that only the end of the session removes.
    pub(super) must_close: bool,
    /// True if functions of a statement may have taken locks of the session.
    pub(super) may_hold_locks: bool,
    /// The index of its host.
    pub(super) host: usize,
    /// Present while the connection is in use, if the source has several hosts.
    pub(super) host_use: Option<HostUse>,
    key: Option<CancelKey>,
}

/// The key that authorizes our request to cancel a connection's statement.
#[derive(Debug, PartialEq, Eq)]
struct CancelKey {
    process_id: i32,
    secret: Box<[u8]>,
}

impl CancelKey {
    /// The longest secret in bytes (PostgreSQL manual, "BackendKeyData"). In protocol 3.0 a secret
    /// has four bytes, but not every server obeys that.
    const LONGEST: usize = 256;

    /// Reads the body of a BackendKeyData.
    fn read(body: &[u8]) -> Option<Self> {
        let (process_id, secret) = body.split_first_chunk()?;
        let is_secret = (1..=Self::LONGEST).contains(&secret.len());
        is_secret.then(|| Self { process_id: i32::from_be_bytes(*process_id), secret: secret.into() })
    }

    /// The message that cancels the statement (PostgreSQL manual, "CancelRequest").
    fn request(&self) -> Vec<u8> {
        const CODE: u32 = 80_877_102;
        let length = (size_of::<[u32; 3]>() + self.secret.len()) as u32;
        let head = [length.to_be_bytes(), CODE.to_be_bytes(), self.process_id.to_be_bytes()];
        [head.as_flattened(), &self.secret].concat()
    }
}

impl Connector {
    /// A connector for the host with this index. `attrs` says which role the host must have.
    pub(super) fn new(
        config: &SourceSettings,
        target: Target,
        host: usize,
        attrs: SessionAttrs,
        command: Option<Arc<PasswordCommand>>,
    ) -> Result<Self, Error> {
        let tls = match (&target.host, target.ssl_mode) {
            (Host::Unix(_), _) | (_, SslMode::Disable) => None,
            (_, mode) => {
                Some(tls::connector(&config.name, mode, target.ssl_root_cert.as_deref(), &target.client)?)
            }
        };
        let statement_cache = config.statement_cache;
        let session = SessionSettings::new(config.statement_timeout, target.options.as_deref());
        let (pooler, max_message) = (config.pooler, config.max_row_bytes);
        let again = config.clone();
        let read = move || Target::read_again(&again, host).map(|target| target.credentials);
        Ok(Self {
            credentials: CredentialSource::new(target.credentials.clone(), command, read),
            target,
            host,
            tls,
            session,
            role: role_columns(attrs),
            pooler,
            statement_cache,
            max_message,
            has_warned: AtomicBool::new(false),
        })
    }

    /// Opens a connection, within the URL's `connect_timeout`.
    pub(super) async fn connect(&self) -> Result<Connection, ConnectError> {
        let Target { connect_timeout: limit, .. } = self.target;
        let open = |login: UserPassword| async move {
            login::within(limit, self.open(&login), || {
                login.at(&self.target.address(), &self.target.database)
            })
            .await
        };
        self.credentials.log_in(open).await
    }

    /// Opens a connection. With `sslmode=allow` we try without TLS first, and with TLS if the
    /// server refuses that login.
    async fn open(&self, login: &UserPassword) -> Result<Connection, Error> {
        let tls = self.tls.as_ref();
        if tls.is_none() || self.target.ssl_mode != SslMode::Allow {
            return self.open_by(tls, login).await;
        }
        let refused = match self.open_by(None, login).await {
            Err(error) if is_of_login(&error) => error,
            opened => return opened,
        };
        // The refusal says more than an error about missing TLS.
        let of_server = |error: Error| if error.sqlstate_text().is_some() { error } else { refused };
        self.open_by(tls, login).await.map_err(of_server)
    }

    async fn open_by(&self, tls: Option<&TlsConnector>, login: &UserPassword) -> Result<Connection, Error> {
        let socket = self.open_socket(tls).await.map_err(unreachable)?;
        let mut wire = Wire::new(socket, self.max_message);
        self.write_startup(&login.user, &mut wire.write)?;
        self.authenticate(&mut wire, login).await?;
        let mut connection = Connection {
            wire,
            statements: StatementCache::new(self.statement_cache),
            status: b'I',
            is_pooled: false,
            role: Role::Primary,
            other: None,
            has_integer_times: false,
            letters: Letters::Any,
            idle_limit: None,
            roles: RoleSettings::default(),
            must_close: false,
            may_hold_locks: false,
            host: self.host,
            host_use: None,
            key: None,
        };
        connection.until_ready().await?;
        self.set_up(&mut connection).await?;
        Ok(connection)
    }

    /// Makes the session's settings, and asks for the server's role. A pooler gives us a key of its
    /// own, so the process number in it differs from the backend's.
    async fn set_up(&self, connection: &mut Connection) -> Result<(), Error> {
        let settings = self.session.set(self.pooler, connection.process_id(), self.role);
        frontend::query(&settings, &mut connection.wire.write).map_err(unreachable)?;
        let mut answered = [false; 3];
        let mut idle_limit = None;
        let fields = |row: &[u8]| {
            answered = [0, 1, 2].map(|column| text_field(row, column) == Some("t"));
            idle_limit = text_field(row, 3).and_then(duration);
        };
        match connection.until_ready_with(fields).await {
            Ok(()) => {
                let [is_pooled, is_replica, is_read_only] = answered;
                (connection.is_pooled, connection.role) = (is_pooled, Role::new(is_replica, is_read_only));
                connection.idle_limit = idle_limit;
            }
            Err(error) if error.sqlstate_text().is_some() => {
                let Ok(name) = connection.product().await else { return Err(error) };
                if is_postgres(&name) {
                    return Err(error.hint(REFUSES_SETTINGS));
                }
                if !self.has_warned.swap(true, Ordering::Relaxed) {
                    log::warning!("{}: {}", self.target.address(), no_postgres(&name));
                }
                connection.other = Some(name);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The settings that follow the start of a transaction, if a session can't keep them.
    pub(super) fn transaction_settings(&self) -> &str {
        &self.session.of_transaction
    }

    async fn open_socket(&self, tls: Option<&TlsConnector>) -> io::Result<Socket> {
        let mut stream = match &self.target.host {
            Host::Unix(_) => return UnixStream::connect(self.target.socket_path()).await.map(Socket::Unix),
            Host::Tcp(name) => {
                let Target { address, port, address_order, .. } = &self.target;
                let host = address.map_or_else(|| name.clone(), |address| address.to_string());
                login::connect_tcp(&host, *port, *address_order).await?
            }
        };
        match tls {
            Some(tls) if server_has_tls(&mut stream).await? => {
                let stream = servers::connect(tls, self.server_name()?, stream).await?;
                Ok(Socket::Tls(Box::new(stream)))
            }
            Some(_) if self.target.ssl_mode != SslMode::Prefer => Err(io::Error::other(
                "the server has no TLS, but sslmode requires it: set `ssl = on` in the server's \
                 configuration, or `sslmode=disable` in the source's `url`",
            )),
            _ => Ok(Socket::Tcp(stream)),
        }
    }

    fn server_name(&self) -> io::Result<ServerName<'static>> {
        match &self.target.host {
            Host::Tcp(host) => ServerName::try_from(host.clone()).map_err(io::Error::other),
            Host::Unix(_) => Err(io::Error::other("a Unix socket has no TLS")),
        }
    }

    fn write_startup(&self, user: &str, write: &mut BytesMut) -> Result<(), Error> {
        let target = &self.target;
        let mut parameters = vec![
            ("user", user),
            ("database", target.database.as_str()),
            ("application_name", target.application_name.as_str()),
            ("client_encoding", "UTF8"),
            ("DateStyle", "ISO"),
            ("TimeZone", "UTC"),
        ];
        if let Some(options) = &target.options {
            parameters.push(("options", options));
        }
        frontend::startup_message(parameters, write).map_err(unreachable)
    }

    async fn authenticate(&self, wire: &mut Wire, login: &UserPassword) -> Result<(), Error> {
        let mut is_bound = false;
        loop {
            match next(wire).await? {
                Message::AuthenticationOk if !is_bound && self.target.channel_binding == Binding::Require => {
                    return Err(unbound());
                }
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(password(login)?, &mut wire.write).map_err(unreachable)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(login.user.as_bytes(), password(login)?, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut wire.write).map_err(unreachable)?;
                }
                Message::AuthenticationSasl(body) => is_bound = self.scram(wire, &body, login).await?,
                Message::NoticeResponse(_) => {}
                _ => {
                    return Err(Error::protocol(
                        "the database asks for an authentication that is not supported",
                    ));
                }
            }
        }
    }

    /// Logs in with SCRAM-SHA-256 (RFC 7677) or SCRAM-SHA-256-PLUS. Returns true if the login is
    /// bound to its TLS.
    async fn scram(
        &self,
        wire: &mut Wire,
        offer: &AuthenticationSaslBody,
        login: &UserPassword,
    ) -> Result<bool, Error> {
        let offers = |mechanism| offer.mechanisms().any(|name| Ok(name == mechanism)).map_err(unreadable);
        let wants = self.target.channel_binding != Binding::Disable;
        let end_point = wire.socket().server_certificate().filter(|_| wants).and_then(servers::end_point);
        let (mechanism, binding) = match end_point {
            Some(hash) if offers(sasl::SCRAM_SHA_256_PLUS)? => {
                (sasl::SCRAM_SHA_256_PLUS, sasl::ChannelBinding::tls_server_end_point(hash))
            }
            // This tells a server that does offer it that an attacker in between has hidden the
            // offer.
            Some(_) => (sasl::SCRAM_SHA_256, sasl::ChannelBinding::unrequested()),
            None => (sasl::SCRAM_SHA_256, sasl::ChannelBinding::unsupported()),
        };
        let is_bound = mechanism == sasl::SCRAM_SHA_256_PLUS;
        if !is_bound && self.target.channel_binding == Binding::Require {
            return Err(unbound());
        }
        if !offers(mechanism)? {
            return Err(Error::protocol("the database offers no SCRAM-SHA-256"));
        }
        let mut scram = sasl::ScramSha256::new(password(login)?, binding);
        frontend::sasl_initial_response(mechanism, scram.message(), &mut wire.write).map_err(unreachable)?;
        let Message::AuthenticationSaslContinue(body) = next(wire).await? else {
            return Err(out_of_order());
        };
        check_iterations(body.data())?;
        scram.update(body.data()).map_err(unreadable)?;
        frontend::sasl_response(scram.message(), &mut wire.write).map_err(unreachable)?;
        let Message::AuthenticationSaslFinal(body) = next(wire).await? else {
            return Err(out_of_order());
        };
        scram.finish(body.data()).map_err(unreadable)?;
        Ok(is_bound)
    }

    /// Asks the server to cancel the statement of `connection`, and waits until the server has
    /// passed the request on. (Then it closes the connection; PostgreSQL manual, "Canceling
    /// Requests in Progress".)
    ///
    /// # Errors
    /// The server can't be reached, or it gave no key for the request, as some proxies don't.
    pub(super) async fn cancel(&self, connection: &Connection) -> Result<(), Error> {
        let key = connection.key.as_ref().ok_or_else(out_of_order)?;
        // No server requires TLS before it has read such a request.
        let tls = self.tls.as_ref().filter(|_| self.target.ssl_mode != SslMode::Allow);
        let mut wire = Wire::new(self.open_socket(tls).await.map_err(unreachable)?, self.max_message);
        wire.write.extend_from_slice(&key.request());
        wire.flush().await?;
        wire.until_closed().await;
        Ok(())
    }
}

impl Role {
    /// The role that the columns of [`role_columns`] describe.
    pub(super) fn new(is_replica: bool, is_read_only: bool) -> Self {
        match (is_replica, is_read_only) {
            (true, _) => Self::Replica,
            (false, true) => Self::ReadOnly,
            (false, false) => Self::Primary,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary => "primary",
            Self::ReadOnly => "primary whose `default_transaction_read_only` is on",
            Self::Replica => "replica",
        })
    }
}

impl Connection {
    /// The server's process for this connection; 0 if the server hasn't said.
    fn process_id(&self) -> i32 {
        self.key.as_ref().map_or(0, |key| key.process_id)
    }

    /// The server's own name for itself.
    async fn product(&mut self) -> Result<Box<str>, Error> {
        frontend::query("select version()", &mut self.wire.write).map_err(unreachable)?;
        let mut name = None;
        let plain = |name: &str| name.chars().filter(|c| !c.is_control()).take(NAME_AT_MOST).collect();
        self.until_ready_with(|row| name = text_field(row, 0).map(plain)).await?;
        name.ok_or_else(out_of_order)
    }

    /// Learns the settings of a role, unless the connection knows them.
    ///
    /// # Errors
    /// The server refuses the query, or the connection was lost.
    pub(super) async fn learn_role(&mut self, role: &str) -> Result<(), Error> {
        if self.roles.of(role).is_some() {
            return Ok(());
        }
        frontend::query(&Settings::query(role), &mut self.wire.write).map_err(unreachable)?;
        let mut settings = Settings::default();
        self.until_ready_with(|row| {
            if let (Some(name), Some(value)) = (text_field(row, 0), text_field(row, 1)) {
                settings.push(name, value);
            }
        })
        .await?;
        self.roles.learn(role, settings);
        Ok(())
    }

    /// Reads until the server is ready for the next query, and records the key and the parameters.
    ///
    /// # Errors
    /// The first error that the server reports meanwhile (the connection is ready even so), or a
    /// lost connection.
    pub(super) async fn until_ready(&mut self) -> Result<(), Error> {
        self.until_ready_with(|_| {}).await
    }

    /// Like [`until_ready`](Self::until_ready), and passes each row to `take_row`.
    pub(super) async fn until_ready_with(&mut self, mut take_row: impl FnMut(&[u8])) -> Result<(), Error> {
        let mut failed = None;
        loop {
            let frame = match self.wire.frame().await {
                Ok(frame) => frame,
                // After a fatal error the server ends the connection; then the error is the reason.
                Err(lost) => return Err(failed.unwrap_or(lost)),
            };
            match frame.tag {
                b'D' => {
                    take_row(self.wire.body(&frame));
                    continue;
                }
                b'K' => {
                    self.key = Some(CancelKey::read(self.wire.body(&frame)).ok_or_else(out_of_order)?);
                    continue;
                }
                _ => {}
            }
            match self.wire.parse(&frame)? {
                Message::ReadyForQuery(body) => {
                    self.status = body.status();
                    return failed.map_or(Ok(()), Err);
                }
                Message::ParameterStatus(body) => match (body.name(), body.value()) {
                    (Ok(INTEGER_TIMES), Ok(value)) => self.has_integer_times = value == "on",
                    (Ok("server_encoding"), Ok(value)) => self.letters = Letters::of(value),
                    _ => {}
                },
                Message::ErrorResponse(body) => {
                    failed.get_or_insert(DatabaseError::new(&body).into_error());
                }
                _ => {}
            }
        }
    }
}

impl Connection {
    /// The connection in the form that the pool keeps.
    pub(super) fn unlent(self) -> Self {
        Self { host_use: None, ..self }
    }

    /// Returns true if the next statements should go to its host, too.
    pub(super) fn is_welcome(&self) -> bool {
        self.host_use.as_ref().is_none_or(HostUse::is_welcome)
    }
}

impl ReusableConnection for Connection {
    fn is_here(&self) -> bool {
        self.wire.is_here()
    }

    fn move_here(self) -> io::Result<Self> {
        Ok(Self { wire: self.wire.move_here()?, ..self })
    }

    fn is_alive(&mut self) -> bool {
        self.wire.is_quiet()
    }
}

fn password(login: &UserPassword) -> Result<&[u8], Error> {
    login.password.as_deref().map(str::as_bytes).ok_or_else(|| {
        Error::source_unavailable(login::NO_PASSWORD)
            .hint("put it into the URL with `${VARIABLE}`, or into PGPASSWORD or ~/.pgpass")
    })
}

/// The next message of the start-up; an error of the server ends it.
async fn next(wire: &mut Wire) -> Result<Message, Error> {
    let frame = wire.frame().await?;
    match wire.parse(&frame)? {
        Message::ErrorResponse(body) => Err(DatabaseError::new(&body).into_error()),
        message => Ok(message),
    }
}

/// Asks for TLS (PostgreSQL manual, "SSL Session Encryption"). Reads exactly one byte, because we
/// must not mistake an attacker's next bytes for the server's (CVE-2021-23222).
async fn server_has_tls(stream: &mut TcpStream) -> io::Result<bool> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all(&request).await?;
    match stream.read_u8().await? {
        b'S' => Ok(true),
        b'N' => Ok(false),
        _ => Err(io::Error::other("the server answers the request for TLS in an unknown way")),
    }
}

/// Refuses a server-first-message (RFC 5802, section 7: `r=…,s=…,i=…`) with an excessive iteration
/// count.
fn check_iterations(message: &[u8]) -> Result<(), Error> {
    let iterations = message
        .split(|&byte| byte == b',')
        .find_map(|attribute| attribute.strip_prefix(b"i="))
        .and_then(|count| std::str::from_utf8(count).ok()?.parse::<u32>().ok());
    match iterations {
        Some(1..=MAX_SCRAM_ITERATIONS) => Ok(()),
        _ => Err(Error::protocol("the database asks for an impossible number of SCRAM iterations")),
    }
}

/// The settings of each session. With them, statements only read, and values have one text form for
/// all defaults of servers.
struct SessionSettings {
    settings: Vec<(&'static str, String)>,
    /// The same settings for a transaction, each after a semicolon.
    of_transaction: String,
}

impl SessionSettings {
    fn new(statement_timeout: Option<Duration>, options: Option<&str>) -> Self {
        let mut settings: Vec<_> = [
            ("default_transaction_read_only", "on"),
            ("intervalstyle", "postgres"),
            ("extra_float_digits", "1"),
            ("bytea_output", "hex"),
            ("xmloption", "content"),
            // These give statements the same meaning for every role and database.
            ("standard_conforming_strings", "on"),
            ("array_nulls", "on"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .into();
        if let Some(timeout) = statement_timeout {
            settings.push(("statement_timeout", timeout.as_millis().to_string()));
        }
        // We don't read notices, and a statement can raise millions of them. But the URL may ask
        // for them.
        if !options.is_some_and(|options| options.contains("client_min_messages")) {
            settings.push(("client_min_messages", "error".to_owned()));
        }
        // Not every pooler keeps the settings of the start-up.
        let of_transaction = settings.iter().map(|(name, value)| (*name, value.as_str()));
        let of_transaction = of_transaction.chain([("datestyle", "ISO"), ("timezone", "UTC")]);
        let of_transaction =
            of_transaction.map(|(name, value)| format!("; set local {name} = '{value}'")).collect();
        Self { of_transaction, settings }
    }

    /// The statement that makes the settings. It also asks if there's a pooler in between, and if
    /// the server is a replica. Behind a pooler, the settings apply to that statement only, because
    /// the backend serves another client next, who may want to write.
    fn set(&self, pooler: Pooler, process_id: i32, role: &str) -> String {
        let is_pooled = match pooler {
            Pooler::Detected => format!("pg_backend_pid() <> ({process_id})"),
            Pooler::Transaction => "true".to_owned(),
            Pooler::Session => "false".to_owned(),
        };
        let set = |(name, value): &(_, String)| format!(", set_config('{name}', '{value}', {is_pooled})");
        let set: String = self.settings.iter().map(set).collect();
        format!("select {is_pooled}, {role}, current_setting('{IDLE_LIMIT}'){set}")
    }
}

/// The setting that limits how long a transaction may be idle.
pub(super) const IDLE_LIMIT: &str = "idle_in_transaction_session_timeout";

/// A time as PostgreSQL writes its settings (`1500ms`, `2min`; its manual, "Parameter Names and
/// Values"); `None` for 0, which sets no limit.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let time = number.parse::<u64>().ok()?.checked_mul(milliseconds)?;
    (time > 0).then(|| Duration::from_millis(time))
}

/// The columns that return a host's role. We select the second one only if it matters, because its
/// view lists all settings. Our own sessions are always read-only, so it returns the default of
/// other sessions.
fn role_columns(attrs: SessionAttrs) -> &'static str {
    match attrs {
        SessionAttrs::ReadWrite | SessionAttrs::ReadOnly => {
            "pg_is_in_recovery(), \
             (select reset_val = 'on' from pg_settings where name = 'default_transaction_read_only')"
        }
        _ => "pg_is_in_recovery(), false",
    }
}

/// The most letters that we show of a server's own name.
const NAME_AT_MOST: usize = 200;
/// The parameter that reports how the server sends times; H2's are floats.
const INTEGER_TIMES: &str = "integer_datetimes";

const REFUSES_SETTINGS: &str =
    "each session begins with settings; if a pooler or a proxy refuses them, connect to the database itself";

/// Describes a server that isn't PostgreSQL, by its own name.
pub(super) fn no_postgres(name: &str) -> String {
    format!(
        "not PostgreSQL but `{name}`: its sessions can write, a response has one statement, and it doesn't \
         know `statement_timeout`"
    )
}

/// True if it's PostgreSQL's name: `PostgreSQL 17.1 on x86_64-…, compiled by gcc …, 64-bit`. Other
/// servers with its protocol add a name of their own.
fn is_postgres(name: &str) -> bool {
    name.starts_with("PostgreSQL ") && name.contains(" on ") && name.ends_with("-bit")
}

/// Returns true if the server refuses the login, as a line of pg_hba.conf does that requires TLS:
/// the SQLSTATE is of class 28.
fn is_of_login(error: &Error) -> bool {
    error.sqlstate_text().is_some_and(|sqlstate| sqlstate.starts_with("28"))
}

#[cold]
fn unbound() -> Error {
    Error::source_unavailable("the server doesn't bind the login to TLS, but `channel_binding=require` needs \
        that")
        .hint("use TLS, and `scram-sha-256` for the user in the server's pg_hba.conf; a proxy that ends TLS can't bind a login")
}

fn unreachable(cause: io::Error) -> Error {
    Error::source_unavailable("the connection to the database failed").cause(cause)
}

fn unreadable(cause: io::Error) -> Error {
    Error::protocol("the database sent a message that cannot be read").cause(cause)
}

fn out_of_order() -> Error {
    Error::protocol("the database sent a message out of order")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_none_is_called_so() {
        for (name, is) in [
            (
                "PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14) 12.2.0, 64-bit",
                true,
            ),
            (
                "PostgreSQL 16.4 on x86_64-pc-linux-gnu, compiled by emcc (Emscripten gcc/clang-like) 3.1.56, 32-bit",
                true,
            ),
            (
                "PostgreSQL 11.2-YB-2.13.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 12.0.1, 64-bit",
                true,
            ),
            ("PostgreSQL 8.2.23 server protocol using H2 2.3.232 (2024-08-11)", false),
            ("PostgreSQL 12.3, compiled by Visual C++ build 1914, 64-bit, QuestDB", false),
            (
                "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2, Redshift 1.0.12103",
                false,
            ),
            ("CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu, built 2024/05/20 00:00:00, go1.22.2)", false),
        ] {
            assert_eq!(is_postgres(name), is, "{name}");
        }
    }

    #[test]
    fn times_of_settings_are_read() {
        for (text, milliseconds) in
            [("0", 0), ("1500ms", 1500), ("250", 250), ("2min", 120_000), ("1d", 86_400_000)]
        {
            assert_eq!(duration(text).map_or(0, |time| time.as_millis()), milliseconds, "{text}");
        }
        assert_eq!((duration("soon"), duration("99999999999999999999s")), (None, None));
    }

    #[test]
    fn a_key_is_sent_back_as_it_came() {
        for secret in [&[7; 4][..], &[7; 32], &[7; 256]] {
            let key = CancelKey::read(&[&42_i32.to_be_bytes()[..], secret].concat()).unwrap();
            let request = key.request();
            assert_eq!(request[..4], u32::try_from(request.len()).unwrap().to_be_bytes());
            assert_eq!(request[4..12], [4, 210, 22, 46, 0, 0, 0, 42]);
            assert_eq!(&request[12..], secret);
        }
        for body in [&[][..], &[0; 4], &[0; 4 + 257]] {
            assert_eq!(CancelKey::read(body), None, "{} bytes", body.len());
        }
    }

    #[test]
    fn an_excessive_iteration_count_is_refused() {
        for (message, accepted) in [
            ("r=abc,s=c2FsdA==,i=4096", true),
            ("r=abc,s=c2FsdA==,i=1000000", true),
            ("r=abc,s=c2FsdA==,i=4000000000", false),
            ("r=abc,s=c2FsdA==,i=0", false),
            ("r=abc,s=c2FsdA==", false),
        ] {
            assert_eq!(check_iterations(message.as_bytes()).is_ok(), accepted, "{message}");
        }
    }
}
