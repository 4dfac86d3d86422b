//! A connection to a server: HTTP/2 and the login. Calls are in [`super::grpc`].
//!
//! No task drives the connection. The code that waits for a call polls the connection too, so we
//! read only while a call is awaited.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Ping, PingPong};
use http::header::{AUTHORIZATION, CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request};
use rowstream_core::Error;
use rowstream_core::diagnostic::shown;
use rowstream_core::settings::SourceSettings;
use rowstream_core::tls::{HTTP2, servers};
use rowstream_database::credentials::CredentialSource;
use rowstream_database::login::{self, AddressOrder, ConnectError, ReusableConnection};
use rowstream_database::password_command::PasswordCommand;
use rowstream_database::socket::Socket;
use rowstream_database::tls::{self, ClientFiles, SslMode};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::error::Failure;
use super::grpc::{Call, framed, timeout_field};
use super::message::{Action, HandshakeRequest, HandshakeResponse, Outcome};
use super::url::{Address, Credentials, Login, ServerTarget};
use super::{MESSAGE, PARALLEL, WINDOW};

/// The limit for the header fields of an answer, in bytes.
const HEADERS: u32 = 32 * 1024;

/// Opens the connections of a source.
pub(super) struct Connector {
    source: String,
    pub(super) target: ServerTarget,
    credentials: CredentialSource<Credentials>,
    tls: Option<TlsConnector>,
    pub(super) statement_timeout: Option<Duration>,
    /// The longest message.
    pub(super) limit: usize,
}

/// An open connection, whose calls are authenticated.
pub struct FlightConnection {
    // Boxed: it's many times larger than the rest of a response's state.
    http2: Box<client::Connection<Socket, Bytes>>,
    sender: SendRequest<Bytes>,
    ping: Option<PingPong>,
    /// The URL of a call, up to its path.
    origin: String,
    /// The header fields of each call.
    fields: HeaderMap,
    /// The credentials of its login.
    credentials: Credentials,
    /// True if the server has answered the login with a token, which may expire.
    has_session_token: bool,
    limit: usize,
    /// The reason why the connection ended, if it has.
    over: Option<String>,
    /// True after a failure that makes the connection unusable.
    pub(super) is_broken: bool,
    home: ThreadId,
}

impl Connector {
    pub(super) fn new(settings: &SourceSettings) -> Result<Self, Error> {
        let target = ServerTarget::parse(&settings.url)
            .map_err(|cause| Error::endpoint(format!("source `{}`: {cause}", settings.name)))?;
        // Even if this server doesn't use TLS, an allowed one can.
        let tls = match target.address.has_tls || !target.allowed.is_empty() {
            true => Some(http2_by_tls(&settings.name, &target)?),
            false => None,
        };
        let again = settings.clone();
        let read = move || Some(ServerTarget::parse(&again.url_now()?).ok()?.credentials);
        let command = PasswordCommand::of(settings);
        Ok(Self {
            source: settings.name.clone(),
            credentials: CredentialSource::new(target.credentials.clone(), command, read),
            target,
            tls,
            statement_timeout: settings.statement_timeout,
            limit: MESSAGE.max(settings.max_row_bytes),
        })
    }

    /// Opens a connection to the server, within the URL's `connect-timeout`.
    pub(super) async fn connect(&self) -> Result<FlightConnection, ConnectError> {
        self.connect_to(&self.target.address).await
    }

    /// Opens a connection to a server that has rows.
    pub(super) async fn connect_to(&self, address: &Address) -> Result<FlightConnection, ConnectError> {
        self.credentials.log_in(|credentials| self.open_within(address, credentials)).await
    }

    /// Opens a connection in place of one whose calls the server refuses. Returns `None` if that's
    /// impossible; the next request then opens a connection, and reports the reason.
    pub(super) fn replace(
        self: &Arc<Self>,
        refused: &FlightConnection,
    ) -> impl Future<Output = Option<FlightConnection>> + Send + use<> {
        let (this, credentials) = (Arc::clone(self), refused.credentials.clone());
        let has_session_token = refused.has_session_token;
        async move {
            let open = |credentials| this.open_within(&this.target.address, credentials);
            match this.credentials.log_in_again(&credentials, open).await.ok()? {
                // The token may have expired.
                None if has_session_token => this.connect().await.ok(),
                connection => connection,
            }
        }
    }

    async fn open_within(
        &self,
        address: &Address,
        credentials: Credentials,
    ) -> Result<FlightConnection, ConnectError> {
        let login = format!("at {}{}", shown(&address.name()), credentials.user());
        login::within(self.target.connect_timeout, self.open(address, credentials), || login).await
    }

    async fn open(
        &self,
        address: &Address,
        credentials: Credentials,
    ) -> Result<FlightConnection, ConnectError> {
        let stream = login::connect_tcp(&address.host, address.port, AddressOrder::Given)
            .await
            .map_err(unreachable)?;
        // A call is small, and we wait for its answer.
        stream.set_nodelay(true).map_err(unreachable)?;
        let socket = match &self.tls {
            Some(tls) if address.has_tls => {
                let stream =
                    servers::connect(tls, server_name(address)?, stream).await.map_err(unreachable)?;
                Socket::Tls(Box::new(stream))
            }
            _ => Socket::Tcp(stream),
        };
        let mut connection = FlightConnection::new(socket, address, credentials, self.limit).await?;
        connection.log_in().await.map_err(|failure| match failure.is_refused_login() {
            true => ConnectError::refused(self.error(failure)),
            false => self.error(failure).into(),
        })?;
        Ok(connection)
    }

    /// Turns a failure into an error.
    pub(super) fn error(&self, failure: Failure) -> Error {
        failure.into_error(&self.source, self.limit)
    }
}

fn http2_by_tls(name: &str, target: &ServerTarget) -> Result<TlsConnector, Error> {
    let connector =
        tls::connector(name, SslMode::VerifyFull, target.ssl_ca.as_deref(), &ClientFiles::default())?;
    let mut config = rustls::ClientConfig::clone(connector.config());
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn server_name(address: &Address) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(address.host.clone()).map_err(|cause| unreachable(io::Error::other(cause)))
}

impl FlightConnection {
    async fn new(
        socket: Socket,
        address: &Address,
        credentials: Credentials,
        limit: usize,
    ) -> Result<Self, Error> {
        let mut builder = client::Builder::new();
        let window = u32::try_from(WINDOW).unwrap_or(u32::MAX);
        let parallel = u32::try_from(PARALLEL).unwrap_or(u32::MAX);
        builder.initial_window_size(window).initial_connection_window_size(window * parallel);
        builder.max_header_list_size(HEADERS).enable_push(false);
        let (sender, mut http2) = builder.handshake(socket).await.map_err(no_http2)?;
        let scheme = if address.has_tls { "https" } else { "http" };
        let mut connection = Self {
            ping: http2.ping_pong(),
            http2: Box::new(http2),
            sender,
            origin: format!("{scheme}://{}", address.name()),
            fields: credentials.fields.iter().cloned().collect(),
            credentials,
            has_session_token: false,
            limit,
            over: None,
            is_broken: false,
            home: thread::current().id(),
        };
        // Detects a server without HTTP/2 now, not at the first statement.
        connection.ping().await.map_err(no_http2)?;
        Ok(connection)
    }

    /// Logs in, if there are credentials.
    async fn log_in(&mut self) -> Result<(), Failure> {
        let authorization = match &self.credentials.login {
            Login::Anonymous => return Ok(()),
            Login::Bearer(token) => format!("Bearer {token}"),
            Login::Basic { user, password } => {
                format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
            }
        };
        self.authorize(&authorization)?;
        if let Login::Basic { .. } = self.credentials.login {
            self.shake_hands().await?;
        }
        Ok(())
    }

    fn authorize(&mut self, authorization: &str) -> Result<(), Failure> {
        let mut value = HeaderValue::try_from(authorization)
            .map_err(|_| Failure::broken("a token contains characters that a header field can't contain"))?;
        value.set_sensitive(true);
        self.fields.insert(AUTHORIZATION, value);
        Ok(())
    }

    /// Exchanges user and password for a token, if the server offers one. The token is in a header
    /// field of the answer, or is the answer itself.
    async fn shake_hands(&mut self) -> Result<(), Failure> {
        let request = HandshakeRequest { payload: Bytes::new() };
        let mut call = self.call("Handshake", &[framed(&request)], None)?;
        let answer = match self.last(&mut call).await {
            // The server expects user and password with each call, or needs no login.
            Err(failure) if failure.is_unimplemented() => return Ok(()),
            answer => answer?,
        };
        let token = call.fields.get(AUTHORIZATION).and_then(|token| token.to_str().ok());
        if let Some(token) = token.filter(|token| token.starts_with("Bearer ")) {
            self.has_session_token = true;
            return self.authorize(token);
        }
        let payload = answer.map(decoded::<HandshakeResponse>).transpose()?.unwrap_or_default().payload;
        match std::str::from_utf8(&payload) {
            Ok(token) if !token.is_empty() => {
                self.has_session_token = true;
                self.authorize(&format!("Bearer {token}"))
            }
            _ => Ok(()),
        }
    }

    /// Starts a call. Does no I/O.
    pub(super) fn call(
        &mut self,
        method: &str,
        messages: &[Bytes],
        timeout: Option<Duration>,
    ) -> Result<Call, Failure> {
        let uri = format!("{}/arrow.flight.protocol.FlightService/{method}", self.origin);
        let mut request = Request::post(uri)
            .body(())
            .map_err(|_| Failure::broken("the host of the URL isn't valid in HTTP"))?;
        let fields = request.headers_mut();
        fields.extend(self.fields.clone());
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        fields.insert(TE, HeaderValue::from_static("trailers"));
        fields.insert(USER_AGENT, HeaderValue::from_static(concat!("rowstream/", env!("CARGO_PKG_VERSION"))));
        if let Some(value) = timeout.and_then(|timeout| HeaderValue::try_from(timeout_field(timeout)).ok()) {
            fields.insert("grpc-timeout", value);
        }
        let lost = |error: h2::Error| Failure::Lost(error.to_string());
        let (response, mut body) = self.sender.send_request(request, false).map_err(lost)?;
        for (i, message) in messages.iter().enumerate() {
            body.send_data(message.clone(), i + 1 == messages.len()).map_err(lost)?;
        }
        Ok(Call::new(response, self.limit))
    }

    /// Sends and receives the bytes that the calls wait for.
    pub(super) fn poll_drive(&mut self, cx: &mut Context<'_>) {
        if self.over.is_none()
            && let Poll::Ready(ended) = Pin::new(&mut self.http2).poll(cx)
        {
            self.over = Some(
                ended.err().map_or_else(|| "the server closed it".to_owned(), |error| error.to_string()),
            );
        }
    }

    /// Polls for the next message of a call. Returns `None` when the answer is complete.
    pub(super) fn poll_message(
        &mut self,
        call: &mut Call,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        self.poll_drive(cx);
        match (call.poll_message(cx), &self.over) {
            // h2 doesn't notify each call that its connection was reset.
            (Poll::Pending, Some(why)) => Poll::Ready(Err(Failure::Lost(why.clone()))),
            (polled, _) => polled,
        }
    }

    /// Polls for the last message of an answer, once that is complete. Returns `None` if it has no
    /// message.
    pub(super) fn poll_last(
        &mut self,
        call: &mut Call,
        last: &mut Option<Bytes>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        loop {
            match std::task::ready!(self.poll_message(call, cx))? {
                Some(message) => *last = Some(message),
                None => return Poll::Ready(Ok(last.take())),
            }
        }
    }

    async fn last(&mut self, call: &mut Call) -> Result<Option<Bytes>, Failure> {
        let mut last = None;
        poll_fn(|cx| self.poll_last(call, &mut last, cx)).await
    }

    /// Makes a call whose answer is one message.
    pub(super) async fn ask<M: prost::Message + Default>(
        &mut self,
        method: &str,
        message: &impl prost::Message,
        timeout: Option<Duration>,
    ) -> Result<M, Failure> {
        let mut call = self.call(method, &[framed(message)], timeout)?;
        let answer = self.last(&mut call).await?;
        decoded(answer.ok_or_else(|| Failure::broken("an answer has no message"))?)
    }

    /// Performs an action on the server. Returns its result, if there is one.
    pub(super) async fn act(&mut self, kind: &str, body: Bytes) -> Result<Option<Bytes>, Failure> {
        let action = Action { kind: kind.to_owned(), body };
        let mut call = self.call("DoAction", &[framed(&action)], None)?;
        let answer = self.last(&mut call).await?;
        answer.map(|answer| Ok(decoded::<Outcome>(answer)?.body)).transpose()
    }

    /// Makes a round trip with an HTTP/2 ping.
    pub(super) async fn ping(&mut self) -> Result<(), h2::Error> {
        let Some(mut ping) = self.ping.take() else { return Ok(()) };
        ping.send_ping(Ping::opaque())?;
        let answer = poll_fn(|cx| {
            self.poll_drive(cx);
            ping.poll_pong(cx)
        });
        answer.await?;
        self.ping = Some(ping);
        Ok(())
    }
}

/// Decodes a received message.
pub(super) fn decoded<M: prost::Message + Default>(bytes: Bytes) -> Result<M, Failure> {
    M::decode(bytes).map_err(|error| Failure::broken(error.to_string()))
}

impl ReusableConnection for FlightConnection {
    fn is_here(&self) -> bool {
        self.home == thread::current().id()
    }

    /// HTTP/2 can't give up its socket, so that stays with the thread that opened it. It still
    /// works.
    fn move_here(self) -> io::Result<Self> {
        Ok(self)
    }

    fn is_alive(&mut self) -> bool {
        self.poll_drive(&mut Context::from_waker(Waker::noop()));
        self.over.is_none()
    }
}

#[cold]
fn unreachable(cause: io::Error) -> Error {
    Error::source_unavailable("the server cannot be reached").cause(cause)
}

#[cold]
fn no_http2(cause: h2::Error) -> Error {
    Error::source_unavailable(
        "the server doesn't follow the protocol of HTTP/2; is this the port of Arrow \
        Flight SQL, and does it need TLS?",
    )
    .cause(cause)
}
