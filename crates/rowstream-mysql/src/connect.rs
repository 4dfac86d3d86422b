//! Opens connections: TLS, authentication, and session settings. Ends statements, too.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::settings::SourceSettings;
use rowstream_core::tls::servers;
use rowstream_database::credentials::{CredentialSource, UserPassword};
use rowstream_database::login::{self, AddressOrder, ConnectError, ReusableConnection};
use rowstream_database::password_command::PasswordCommand;
use rowstream_database::socket::Socket;
use rowstream_database::tls::{self, SslMode};
use rowstream_database::url::Host;
use rustls::pki_types::ServerName;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::look::{self, is_mariadb};
use super::packet::{self, EOF, EOF_BELOW, ERR, Greeting, OK, Reader, capability, error, push_text, status};
use super::statement::StatementCache;
use super::url::Target;
use super::value::ZeroDates;
use super::wire::{Frame, LONGEST, Wire, out_of_order};

const COM_QUERY: u8 = 3;
const COM_PING: u8 = 14;

/// `utf8mb4_general_ci`, which every server with this charset has. Comparisons use the collations
/// of the columns.
const UTF8MB4: u8 = 45;

/// The length of a text's sort key in bytes. A character has at most eight weights of two bytes.
/// The few collations with several levels have more, if all characters have that many.
const SORT_KEY: u32 = 4096;

/// Of all that a server can report of a session, we need only that it has changed. The states of transactions
/// change with each statement.
const TRACKED: &str = "session_track_state_change = 1, session_track_transaction_info = 'OFF'";

/// The longest greeting that we read; usual ones have a hundred bytes.
const GREETING_AT_MOST: usize = 4096;

/// The capabilities that we use if the server offers them.
const CAPABILITIES: u64 = capability::LONG_FLAG
    | capability::PROTOCOL_41
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::MULTI_RESULTS
    | capability::PS_MULTI_RESULTS
    | capability::PLUGIN_AUTH
    | capability::PLUGIN_AUTH_LENENC
    | capability::SESSION_TRACK
    | capability::DEPRECATE_EOF
    | capability::EXTENDED_METADATA;

/// With both, the end of a result says if the statement has changed its session.
const REPORTS_CHANGES: u64 = capability::SESSION_TRACK | capability::DEPRECATE_EOF;

/// Opens the connections of a source.
pub(super) struct Connector {
    target: Target,
    credentials: CredentialSource<UserPassword>,
    tls: Option<TlsConnector>,
    statement_timeout: Option<Duration>,
    statement_cache: usize,
    max_payload: usize,
}

/// One open connection, authenticated and set up.
pub struct Connection {
    pub(super) wire: Wire,
    pub(super) statements: StatementCache,
    /// True if the server sends MariaDB's own metadata of columns.
    pub(super) has_extended_metadata: bool,
    /// True if an EOF ends columns and rows, instead of an OK that ends the rows.
    pub(super) sends_eof: bool,
    /// True if the server reports changes of the session.
    pub(super) reports_changes: bool,
    /// True if a transaction is open.
    pub(super) in_transaction: bool,
    /// True if a statement has changed the session, until we have set our settings again.
    pub(super) is_changed: bool,
    /// True if a statement may have left something that only the end of the session removes.
    pub(super) must_close: bool,
    /// The server's name and version.
    pub(super) product: String,
    id: u32,
    /// The server's address. A name may have several addresses, and each server numbers its own
    /// connections.
    server: Option<SocketAddr>,
}

/// The parties that can read our messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    /// Only this machine's server: a Unix socket.
    Local,
    /// Only the server that the URL names: TLS with a verified certificate.
    Verified,
    /// Any server at the other end of TLS.
    Encrypted,
    Open,
}

impl Connector {
    pub(super) fn new(config: &SourceSettings) -> Result<Self, Error> {
        let target = Target::parse(&config.url)
            .map_err(|cause| Error::endpoint(format!("source `{}`: {cause}", config.name)))?;
        let tls = match (&target.host, target.ssl_mode) {
            (Host::Unix(_), _) | (_, SslMode::Disable) => None,
            (_, mode) => Some(tls::connector(&config.name, mode, target.ssl_ca.as_deref(), &target.client)?),
        };
        let again = config.clone();
        let read = move || Some(Target::parse(&again.url_now()?).ok()?.credentials);
        Ok(Self {
            credentials: CredentialSource::new(target.credentials.clone(), PasswordCommand::of(config), read),
            target,
            tls,
            statement_timeout: config.statement_timeout,
            statement_cache: config.statement_cache,
            max_payload: config.max_row_bytes,
        })
    }

    /// The treatment of dates that no calendar has.
    pub(super) fn zero_dates(&self) -> ZeroDates {
        self.target.zero_dates
    }

    /// Host and port, or the socket.
    pub(super) fn address(&self) -> String {
        self.target.address()
    }

    /// Opens a connection, within the URL's `connect-timeout`.
    pub(super) async fn connect(&self) -> Result<Connection, ConnectError> {
        let open = |login: UserPassword| async move { self.within(&login, self.open(&login)).await };
        self.credentials.log_in(open).await
    }

    /// The server's description of itself, within the same time.
    pub(super) async fn inspect(&self) -> Result<String, ConnectError> {
        let look = |login: UserPassword| async move {
            let looking = async { look::look(&mut self.open(&login).await?).await };
            self.within(&login, looking).await
        };
        self.credentials.log_in(look).await
    }

    async fn within<T>(
        &self,
        login: &UserPassword,
        opening: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, ConnectError> {
        login::within(self.target.connect_timeout, opening, || {
            login.at(&self.target.address(), &self.target.database)
        })
        .await
    }

    async fn open(&self, login: &UserPassword) -> Result<Connection, Error> {
        let (mut wire, greeting, server) = self.log_in(login, None).await?;
        for setting in session_settings(self.statement_timeout, greeting.is_mariadb(), self.max_payload) {
            query(&mut wire, &setting).await?;
        }
        let capabilities = self.capabilities(&greeting);
        Ok(Connection {
            wire,
            statements: StatementCache::new(self.statement_cache),
            has_extended_metadata: capabilities & capability::EXTENDED_METADATA != 0,
            sends_eof: capabilities & capability::DEPRECATE_EOF == 0,
            reports_changes: capabilities & REPORTS_CHANGES == REPORTS_CHANGES,
            in_transaction: false,
            is_changed: false,
            must_close: false,
            product: greeting.product(),
            id: greeting.connection_id,
            server,
        })
    }

    /// The statement that sets our variables again.
    pub(super) fn settings(&self, product: &str) -> String {
        let [variables, _] = session_settings(self.statement_timeout, is_mariadb(product), self.max_payload);
        variables
    }

    /// Logs in to `server`, or to the first of the host's addresses that answers.
    async fn log_in(
        &self,
        login: &UserPassword,
        server: Option<SocketAddr>,
    ) -> Result<(Wire, Greeting, Option<SocketAddr>), Error> {
        let mut reached = None;
        let (socket, greeting, sequence) = match &self.target.host {
            Host::Unix(path) => {
                let mut stream = UnixStream::connect(path).await.map_err(unreachable)?;
                let greeting = greeting(&mut stream).await?;
                (Socket::Unix(stream), greeting, 1)
            }
            Host::Tcp(host) => {
                let connected = match server {
                    Some(address) => TcpStream::connect(address).await,
                    None => login::connect_tcp(host, self.target.port, AddressOrder::Given).await,
                };
                let mut stream = connected.map_err(unreachable)?;
                reached = stream.peer_addr().ok();
                let greeting = greeting(&mut stream).await?;
                self.secure(stream, greeting).await?
            }
        };
        let secrecy = match &socket {
            Socket::Tcp(_) => Secrecy::Open,
            Socket::Tls(_) if !self.target.verifies() => Secrecy::Encrypted,
            Socket::Tls(_) => Secrecy::Verified,
            Socket::Unix(_) => Secrecy::Local,
        };
        let mut wire = Wire::new(socket, self.max_payload, sequence);
        self.authenticate(&mut wire, &greeting, login, secrecy).await?;
        Ok((wire, greeting, reached))
    }

    /// Switches to TLS, if the server has it and the URL wants it. We have read exactly the
    /// greeting, so we can't mistake an attacker's bytes after it for the server's.
    async fn secure(
        &self,
        mut stream: TcpStream,
        greeting: Greeting,
    ) -> Result<(Socket, Greeting, u8), Error> {
        match &self.tls {
            Some(tls) if greeting.capabilities & capability::SSL != 0 => {
                let mut request = vec![32, 0, 0, 1];
                self.push_head(self.capabilities(&greeting) | capability::SSL, &mut request);
                stream.write_all(&request).await.map_err(unreachable)?;
                let stream = servers::connect(tls, self.server_name()?, stream).await.map_err(unreachable)?;
                Ok((Socket::Tls(Box::new(stream)), greeting, 2))
            }
            Some(_) if self.target.ssl_mode != SslMode::Prefer => {
                Err(Error::source_unavailable("the server has no TLS, but ssl-mode requires it").hint(
                    "set `ssl-cert` and `ssl-key` in the server's configuration, or `ssl-mode=disabled` in the source's `url`",
                ))
            }
            _ => Ok((Socket::Tcp(stream), greeting, 1)),
        }
    }

    fn server_name(&self) -> Result<ServerName<'static>, Error> {
        match &self.target.host {
            Host::Tcp(host) => {
                ServerName::try_from(host.clone()).map_err(|cause| unreachable(io::Error::other(cause)))
            }
            Host::Unix(_) => Err(out_of_order()),
        }
    }

    /// The capabilities that both sides have.
    fn capabilities(&self, greeting: &Greeting) -> u64 {
        let database = if self.target.database.is_empty() { 0 } else { capability::CONNECT_WITH_DB };
        (CAPABILITIES | database) & greeting.capabilities
    }

    /// Appends the part that a request for TLS and the login share.
    fn push_head(&self, capabilities: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&(capabilities as u32).to_le_bytes());
        // The longest packet.
        out.extend_from_slice(&u32::MAX.to_le_bytes());
        out.push(UTF8MB4);
        out.extend_from_slice(&[0; 19]);
        out.extend_from_slice(&((capabilities >> 32) as u32).to_le_bytes());
    }

    async fn authenticate(
        &self,
        wire: &mut Wire,
        greeting: &Greeting,
        credentials: &UserPassword,
        secrecy: Secrecy,
    ) -> Result<(), Error> {
        let capabilities = self.capabilities(greeting);
        if capabilities & capability::PLUGIN_AUTH_LENENC == 0 {
            return Err(Error::protocol("the server is too old: its protocol has no authentication plugins"));
        }
        let has_tls = matches!(secrecy, Secrecy::Verified | Secrecy::Encrypted);
        let tls = if has_tls { capability::SSL } else { 0 };
        let mut plugin = greeting.plugin.clone();
        let mut nonce = greeting.nonce.clone();
        let mut login = Vec::new();
        self.push_head(capabilities | tls, &mut login);
        login.extend_from_slice(credentials.user.as_bytes());
        login.push(0);
        // If we don't know the plugin, the user may have another one; the server says so then.
        let password = credentials.password.as_deref().unwrap_or_default().as_bytes();
        let first = scramble(password, &plugin, &nonce, secrecy).unwrap_or_default();
        push_text(&first, &mut login);
        if capabilities & capability::CONNECT_WITH_DB != 0 {
            login.extend_from_slice(self.target.database.as_bytes());
            login.push(0);
        }
        login.extend_from_slice(plugin.as_bytes());
        login.push(0);
        wire.reply(&login);
        // We accept only one switch. With more, a server could collect proofs of the password for
        // nonces of its choice.
        let mut has_switched = false;
        loop {
            let frame = wire.answer().await?;
            let body = wire.body(&frame);
            match frame.tag {
                OK => return Ok(()),
                EOF if !has_switched => {
                    has_switched = true;
                    let mut reader = Reader(&body[1..]);
                    plugin = String::from_utf8_lossy(reader.until_nul()).into_owned();
                    nonce = reader.0.strip_suffix(&[0]).unwrap_or(reader.0).to_vec();
                    let proof = scramble(password, &plugin, &nonce, secrecy)?;
                    wire.reply(&proof);
                }
                // caching_sha2_password: the server knows the password (3), or wants the password
                // itself (4).
                1 if body.get(1) == Some(&3) => {}
                1 if body.get(1) == Some(&4) => match secrecy {
                    Secrecy::Local | Secrecy::Verified | Secrecy::Encrypted => wire.reply(&clear(password)),
                    Secrecy::Open => return Err(not_in_the_open()),
                },
                _ => return Err(out_of_order()),
            }
        }
    }

    /// Ends the statement that runs on `connection`. Once this returns, the server has recorded it.
    pub(super) async fn cancel(&self, connection: &Connection) -> Result<(), Error> {
        let (id, server) = (connection.id, connection.server);
        let kill = |login: UserPassword| async move {
            let killing = async {
                let (mut wire, ..) = self.log_in(&login, server).await?;
                query(&mut wire, &format!("kill query {id}")).await
            };
            self.within(&login, killing).await
        };
        self.credentials.log_in(kill).await.map_err(ConnectError::into_cause)
    }
}

/// The proof that we know the password, by the rules of `plugin`.
fn scramble(password: &[u8], plugin: &str, nonce: &[u8], secrecy: Secrecy) -> Result<Vec<u8>, Error> {
    match plugin {
        "mysql_native_password" | "caching_sha2_password" if password.is_empty() => Ok(Vec::new()),
        "mysql_native_password" => {
            let once = Sha1::digest(password);
            let twice = Sha1::digest(once);
            Ok(xor(&once, &Sha1::new().chain_update(nonce).chain_update(twice).finalize()))
        }
        "caching_sha2_password" => {
            let once = Sha256::digest(password);
            let twice = Sha256::digest(once);
            Ok(xor(&once, &Sha256::new().chain_update(twice).chain_update(nonce).finalize()))
        }
        // Any server can ask for it, even if the user has another plugin.
        "mysql_clear_password" => match secrecy {
            Secrecy::Local | Secrecy::Verified => Ok(clear(password)),
            Secrecy::Encrypted => Err(not_to_anybody()),
            Secrecy::Open => Err(not_in_the_open()),
        },
        "sha256_password" => match secrecy {
            Secrecy::Verified | Secrecy::Encrypted => Ok(clear(password)),
            // The server accepts it only over TLS.
            Secrecy::Local | Secrecy::Open => Err(Error::source_unavailable(
                "the user's plugin sha256_password needs TLS, even over a Unix socket: change the plugin to \
                 caching_sha2_password, or connect over TCP with `ssl-mode=required`",
            )),
        },
        _ => Err(Error::source_unavailable(format!(
            "the server asks for the authentication plugin `{plugin}`: the supported ones are \
             mysql_native_password, caching_sha2_password, sha256_password and mysql_clear_password"
        ))),
    }
}

/// The password itself, for the server to read.
fn clear(password: &[u8]) -> Vec<u8> {
    [password, &[0]].concat()
}

impl Connection {
    /// Runs a statement without rows.
    pub(super) async fn query(&mut self, sql: &str) -> Result<(), Error> {
        self.wire.command(&query_command(sql));
        let frame = self.wire.answer().await?;
        let status = (frame.tag == OK).then(|| packet::ok_status(self.wire.body(&frame))).flatten();
        self.note(status.ok_or_else(out_of_order)?);
        Ok(())
    }

    /// Records that a statement has changed its session, if this status says so.
    fn note(&mut self, status: u16) {
        if status & status::SESSION_STATE_CHANGED != 0 {
            self.is_changed = true;
            self.must_close = true;
        }
    }

    /// Returns true if this packet ends columns or rows.
    pub(super) fn is_end(&self, frame: &Frame) -> bool {
        frame.tag == EOF && frame.len() < if self.sends_eof { EOF_BELOW } else { LONGEST }
    }

    /// The status in the packet that ends columns or rows. If the statement has changed its session, records
    /// that.
    pub(super) fn end_status(&mut self, frame: &Frame) -> Option<u16> {
        let body = self.wire.body(frame);
        let status = if self.sends_eof { packet::eof_status(body) } else { packet::ok_status(body) }?;
        self.note(status);
        Some(status)
    }

    /// An empty round trip.
    pub(super) async fn ping(&mut self) -> Result<(), Error> {
        self.wire.command(&[COM_PING]);
        expect_ok(&mut self.wire).await
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

/// The payload of a COM_QUERY.
pub(super) fn query_command(sql: &str) -> Vec<u8> {
    [&[COM_QUERY], sql.as_bytes()].concat()
}

async fn query(wire: &mut Wire, sql: &str) -> Result<(), Error> {
    wire.command(&query_command(sql));
    expect_ok(wire).await
}

async fn expect_ok(wire: &mut Wire) -> Result<(), Error> {
    match wire.answer().await? {
        Frame { tag: OK, .. } => Ok(()),
        _ => Err(out_of_order()),
    }
}

/// Reads the server's greeting, and nothing after it.
async fn greeting(stream: &mut (impl AsyncReadExt + Unpin)) -> Result<Greeting, Error> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).await.map_err(unreachable)?;
    let [a, b, c, sequence] = header;
    let length = u32::from_le_bytes([a, b, c, 0]) as usize;
    if sequence != 0 || length > GREETING_AT_MOST {
        return Err(Error::protocol("this isn't MySQL or MariaDB: its greeting can't be read"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.map_err(unreachable)?;
    if body.first() == Some(&ERR) {
        return Err(error(&body).ok_or_else(out_of_order)?.into_error(None));
    }
    Greeting::parse(&body)
        .ok_or_else(|| Error::protocol("this isn't MySQL or MariaDB: its greeting can't be read"))
}

/// The statements that prepare each session. They need no privileges. For all defaults of servers,
/// they set the variables that could change rows without an error:
///
/// - a string is a string: if the server's `sql_mode` reads quotes in another way, or an empty string as
///   NULL, we set our own;
/// - no limit cuts a result: `sql_select_limit`, and `max_recursive_iterations` of MariaDB;
/// - a statement sees the rows that were committed before it. With `autocommit = 0` or
///   `completion_type = 1`, a transaction would stay open, and its snapshot with it;
/// - `group_concat` and similar functions return the whole value, or a row that is too long for us
///   ([`SORT_KEY`] does the same for sort orders). MySQL 8 computes the greatest of a signed and an unsigned number as
///   a decimal, which can't be a setting, so we cast it.
///
/// A session only reads. The database shouldn't judge how slowly clients take their rows, so it
/// waits for them as long as it can.
fn session_settings(
    statement_timeout: Option<Duration>,
    is_mariadb: bool,
    max_row_bytes: usize,
) -> [String; 2] {
    let timeout = match (statement_timeout, is_mariadb) {
        (None, _) => String::new(),
        (Some(timeout), true) => format!(", max_statement_time = {:.3}", timeout.as_secs_f64().max(0.001)),
        (Some(timeout), false) => format!(", max_execution_time = {}", timeout.as_millis().max(1)),
    };
    [
        format!(
            "set names utf8mb4, time_zone = '+00:00', net_write_timeout = 31536000, autocommit = 1, \
             completion_type = 0, sql_select_limit = 18446744073709551615 \
             /*M!100202 , max_recursive_iterations = 4294967295, {TRACKED} */ /*!50708 , {TRACKED} */, \
             group_concat_max_len = cast(greatest(@@group_concat_max_len, {max_row_bytes}) as unsigned), \
             max_sort_length = cast(greatest(@@max_sort_length, {SORT_KEY}) as unsigned), sql_mode = \
             if(@@sql_mode regexp 'ANSI|NO_BACKSLASH|EMPTY_STRING|ORACLE|DB2|MAXDB|MSSQL|POSTGRESQL', \
             'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', @@sql_mode){timeout}"
        ),
        "set session transaction isolation level repeatable read, read only".to_owned(),
    ]
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

fn not_in_the_open() -> Error {
    Error::source_unavailable(
        "the server asks for the password itself, which isn't sent without encryption: the URL needs \
         `ssl-mode=required`, and the server needs TLS",
    )
}

fn not_to_anybody() -> Error {
    Error::source_unavailable(
        "the server asks for the password itself, but nothing proves its identity: the URL needs \
         `ssl-mode=verify_identity`, and `ssl-ca` if its authority is your own",
    )
}

fn unreachable(cause: io::Error) -> Error {
    Error::source_unavailable("the connection to the database failed").cause(cause)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn connector(url: &str) -> Connector {
        Connector::new(&SourceSettings::new("db", url)).unwrap()
    }

    /// A name may have several addresses, and their servers use the same numbers for connections. A
    /// KILL QUERY that reached the wrong server ended another client's statement.
    #[tokio::test]
    async fn a_statement_is_ended_at_the_server_that_runs_it() {
        let (named, reached) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
        let (named, reached) = (named.await.unwrap(), reached.await.unwrap());
        let connector = connector(&format!("mysql://u@{}/d", named.local_addr().unwrap()));
        let (socket, _other) = UnixStream::pair().unwrap();
        let connection = Connection {
            wire: Wire::new(Socket::Unix(socket), 0, 0),
            statements: StatementCache::new(1),
            has_extended_metadata: false,
            sends_eof: true,
            reports_changes: false,
            in_transaction: false,
            is_changed: false,
            must_close: false,
            product: String::new(),
            id: 7,
            server: reached.local_addr().ok(),
        };
        let hang_up = async { drop(reached.accept().await.unwrap()) };
        let both = async { tokio::join!(connector.cancel(&connection), hang_up) };
        let (cancelled, ()) = tokio::time::timeout(Duration::from_secs(10), both).await.expect("it is asked");
        assert_eq!(cancelled.unwrap_err().code(), "source_unavailable");
    }

    /// The lengths are those that MySQL's own client library sends.
    #[test]
    fn passwords_are_proven_and_not_told() {
        let nonce = &b"abcdefghijklmnopqrst"[..];
        let proof = |plugin: &str| scramble(b"secret", plugin, nonce, Secrecy::Open);
        assert_eq!(proof("mysql_native_password").unwrap().len(), 20);
        assert_eq!(proof("caching_sha2_password").unwrap().len(), 32);
        for plugin in ["mysql_clear_password", "sha256_password", "client_ed25519"] {
            assert!(proof(plugin).is_err(), "{plugin}");
        }
        let local = |plugin: &str| scramble(b"secret", plugin, nonce, Secrecy::Local);
        assert!(local("mysql_clear_password").is_ok() && local("sha256_password").is_err());
        let encrypted = |plugin: &str| scramble(b"secret", plugin, nonce, Secrecy::Encrypted);
        assert!(encrypted("mysql_clear_password").is_err() && encrypted("sha256_password").is_ok());
        let verified = scramble(b"secret", "mysql_clear_password", nonce, Secrecy::Verified);
        assert_eq!(verified.unwrap(), b"secret\0");
    }
}
