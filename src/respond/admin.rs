//! The admin endpoints, below [`ADMIN`]: the server's health, metrics, streams and documents.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use rowstream_core::Error;
use rowstream_core::params::{self, Param, ParamType, ParamValue};
use serde_json::json;

use super::app::App;
use super::arrival::{Arrival, is_admin, is_remote};
use super::body::AnswerBody;
use super::console;
use super::documents::DocumentSubject;
use super::exchange::Exchange;
use super::head::{ALLOW, no_endpoint};
use super::host::{is_of_other_site, names_this_machine};
use super::probe::ProbePath;
use super::signed;
use crate::admission::Holder;
use crate::completeness::streams::Stream;
use crate::config::Config;
use crate::endpoint::Authorization;
use crate::error_pages;
use crate::metrics::{Exposition, Metrics, Subject};
use crate::openapi;

/// The prefix of each admin endpoint.
pub(super) const ADMIN: &str = "/_rowstream/";
/// Below [`ADMIN`]: tells that the server answers.
const LIVE: &str = "live";
/// Below [`ADMIN`]: tells if the server should get requests.
const READY: &str = "ready";
/// Below [`ADMIN`]: the metrics.
const METRICS: &str = "metrics";
/// Below [`ADMIN`]: the metrics of the last minutes.
const HISTORY: &str = "history";
/// Below [`ADMIN`]: the replicas, for Prometheus.
const DISCOVERY: &str = "sd";
/// Below [`ADMIN`]: the endpoints as an OpenAPI document.
const OPENAPI: &str = "openapi.json";
/// Below [`ADMIN`]: the running streams.
const LIST: &str = "streams";
/// Below [`ADMIN`]: the state or the end of a stream.
const STREAMS: &str = "streams/";
/// Below [`ADMIN`]: the pages about errors.
const ERRORS: &str = "errors/";
/// Below [`ADMIN`]: the probes of `rowstream doctor`.
const PROBES: &str = "probe/";

const JSON: &str = "application/json";

/// True for requests for the server's health.
pub(crate) fn is_check<B>(request: &Request<B>) -> bool {
    matches!(request.uri().path().strip_prefix(ADMIN), Some(LIVE | READY))
}

/// The kind of memory that a request holds.
pub(super) fn holder<B>(request: &Request<B>) -> Holder {
    match request.uri().path().starts_with(ADMIN) {
        true => Holder::Admin,
        false => Holder::Client,
    }
}

/// An endpoint below [`ADMIN`].
enum AdminEndpoint {
    Live,
    Ready,
    Metrics(Exposition),
    /// The moments of the last minutes after this one, in milliseconds since 1970.
    History(u64),
    /// The targets that Prometheus should scrape, as JSON.
    Discovery(String),
    /// The endpoints that the client may call.
    OpenApi(openapi::DocumentOptions),
    /// The running streams.
    Streams,
    /// The state or the end of a stream.
    Stream(Arc<Stream>),
    /// Stops a stream, for a client on this machine or on another one.
    Stop(Arc<Stream>, RequestOrigin),
    /// The meaning of an error's code.
    Page(&'static str),
    /// Shows how the hops to the client change an answer.
    Probe(ProbePath),
    /// A file of the console.
    Console(console::RequestedFile),
}

/// The origin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestOrigin {
    Here,
    Elsewhere,
}

impl AdminEndpoint {
    /// The endpoint of a request's path.
    ///
    /// # Errors
    /// 404: there's none, or not at the port of the request. The documents about endpoints, streams
    /// and errors are at any port, because clients need them, and probes have to take the clients'
    /// path. 400: the query is wrong.
    fn find(app: &App, request: &Request<Arrival>) -> Result<Self, Error> {
        let path = request.uri().path();
        let name = path.strip_prefix(ADMIN).ok_or_else(|| no_endpoint(path))?;
        let is_here = app.config.admin_listen.is_none() || is_admin(request);
        Ok(match name {
            LIVE if is_here => Self::Live,
            READY if is_here => Self::Ready,
            METRICS if is_here => Self::Metrics(Exposition::choose(request.headers())),
            HISTORY if is_here => Self::History(after(request.uri().query())?),
            DISCOVERY if is_here => Self::Discovery(targets(&app.config, request)),
            LIST if is_here => Self::Streams,
            OPENAPI => Self::OpenApi(openapi::DocumentOptions::read(request.uri().query())?),
            _ => match name.strip_prefix(PROBES).and_then(|name| ProbePath::read(name, request)) {
                Some(probe) => Self::Probe(probe?),
                None => Self::find_for_clients(app, name, request).ok_or_else(|| no_endpoint(path))?,
            },
        })
    }

    /// The endpoint of this name, if it's also for clients.
    fn find_for_clients(app: &App, name: &str, request: &Request<Arrival>) -> Option<Self> {
        if app.config.console
            && let Some(asked) = console::RequestedFile::find(name, request)
        {
            return Some(Self::Console(asked));
        }
        if let Some(code) = name.strip_prefix(ERRORS) {
            return error_pages::of(code).map(Self::Page);
        }
        let stream = app.state.streams.find(name.strip_prefix(STREAMS)?)?;
        if request.method() != Method::DELETE {
            return Some(Self::Stream(stream));
        }
        let is_ours = is_admin(request) || (!is_remote(request) && names_this_machine(request));
        let asks = if is_ours && !is_of_other_site(request) {
            RequestOrigin::Here
        } else {
            RequestOrigin::Elsewhere
        };
        let is_here = app.config.admin_listen.is_none() || is_admin(request);
        is_here.then_some(Self::Stop(stream, asks))
    }

    /// True if the endpoint accepts this method, which the others don't.
    fn is_of(&self, method: &Method) -> bool {
        matches!(self, Self::Stop(..)) && *method == Method::DELETE
    }
}

impl Exchange<'_> {
    /// Answers with the admin endpoint of the request's path, if the client may use it.
    pub(super) async fn answer_admin(&mut self) -> Result<Response<AnswerBody>, Error> {
        self.tracker.meter.subject = Subject::Admin;
        if self.tracker.is_signed {
            return Err(signed::only_endpoints());
        }
        let endpoint = AdminEndpoint::find(self.app, self.request)?;
        if !endpoint.is_of(self.request.method())
            && let Some(answer) = self.answer_without_query(ALLOW)?
        {
            return Ok(answer);
        }
        self.authorize_admin(&endpoint).await?;
        self.answer_from(endpoint).await
    }

    /// Checks that the client may use an admin endpoint. A stream's report is also for clients that
    /// may call the stream's endpoint, as long as that exists.
    async fn authorize_admin(&mut self, endpoint: &AdminEndpoint) -> Result<(), Error> {
        let config = &self.app.config;
        let access = &config.admin;
        let wanted = match endpoint {
            AdminEndpoint::Live => &access.live,
            AdminEndpoint::Ready => &access.ready,
            AdminEndpoint::Metrics(_) | AdminEndpoint::History(_) | AdminEndpoint::Discovery(_) => {
                &access.metrics
            }
            AdminEndpoint::Streams => &access.streams,
            // If the server has no tokens, only clients on this machine may stop streams.
            AdminEndpoint::Stop(_, RequestOrigin::Elsewhere) if !config.has_credentials() => {
                return Err(not_from_there());
            }
            AdminEndpoint::Stop(..) => &access.stop,
            AdminEndpoint::Stream(stream) => {
                let own = config.endpoints.iter().find(|endpoint| endpoint.path == stream.endpoint());
                if let Some(own) = own
                    && self.authorize(&own.authorization).await.is_ok()
                {
                    return Ok(());
                }
                &access.streams
            }
            AdminEndpoint::Probe(_) => &access.probe,
            AdminEndpoint::OpenApi(_) => {
                self.tracker.credentials = self.credentials().await;
                return Ok(());
            }
            AdminEndpoint::Page(_) | AdminEndpoint::Console(_) => return Ok(()),
        };
        self.authorize(wanted).await
    }

    /// Answers with an admin endpoint. Boxed if it waits for something, so that other requests
    /// don't carry its state.
    async fn answer_from(&mut self, endpoint: AdminEndpoint) -> Result<Response<AnswerBody>, Error> {
        let app = self.app;
        match endpoint {
            AdminEndpoint::Live => Ok(ok()),
            AdminEndpoint::Ready => {
                Box::pin(app.readiness.check(app.is_leaving(), &app.config.endpoints)).await?;
                Ok(ok())
            }
            AdminEndpoint::Metrics(exposition) => Box::pin(self.answer_metrics(exposition)).await,
            AdminEndpoint::History(after) => {
                let text = async { Ok(app.state.metrics.history.after(after)) };
                Box::pin(self.answer_text(text, JSON)).await
            }
            AdminEndpoint::Discovery(targets) => Ok(report(Bytes::from(targets), JSON)),
            AdminEndpoint::OpenApi(asked) => Box::pin(self.answer_openapi(asked)).await,
            AdminEndpoint::Streams => {
                let text = async { Ok(app.state.streams.list()) };
                Box::pin(self.answer_text(text, JSON)).await
            }
            AdminEndpoint::Stream(stream) => Ok(report(Bytes::from(stream.report()), JSON)),
            AdminEndpoint::Stop(stream, _) => stream.stop().map(|()| {
                let mut response = Response::new(AnswerBody::Nothing);
                *response.status_mut() = StatusCode::NO_CONTENT;
                response
            }),
            AdminEndpoint::Probe(probe) => probe.answer(&app.state.probes),
            // Browsers show plain text, but save Markdown.
            AdminEndpoint::Page(page) => {
                Ok(report(Bytes::from_static(page.as_bytes()), "text/plain; charset=utf-8"))
            }
            AdminEndpoint::Console(asked) => Ok(asked.answer(self.request.headers())),
        }
    }

    /// The answer to `live` or `ready`, if these are public. It needs no room and doesn't wait, so
    /// it's the last known one: strangers may hold all the room, and may ask on hundreds of
    /// streams.
    pub(super) fn answer_without_room(&mut self) -> Option<Result<Response<AnswerBody>, Error>> {
        let app = self.app;
        if !self.request.uri().path().starts_with(ADMIN) {
            return None;
        }
        let endpoint = AdminEndpoint::find(app, self.request).ok()?;
        let access = match endpoint {
            AdminEndpoint::Live => &app.config.admin.live,
            AdminEndpoint::Ready => &app.config.admin.ready,
            _ => return None,
        };
        if *access != Authorization::Public || !matches!(*self.request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        self.tracker.meter.subject = Subject::Admin;
        Some(match endpoint {
            AdminEndpoint::Ready => {
                app.readiness.last_known(app.is_leaving(), &app.config.endpoints).map(|()| ok())
            }
            _ => Ok(ok()),
        })
    }

    async fn answer_metrics(&mut self, exposition: Exposition) -> Result<Response<AnswerBody>, Error> {
        let text = Metrics::tell(Arc::clone(&self.tracker.app), exposition);
        let mut response = self.answer_text(text, exposition.media_type()).await?;
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
        Ok(response)
    }

    /// The endpoints that the client may call, as an OpenAPI document.
    async fn answer_openapi(
        &mut self,
        asked: openapi::DocumentOptions,
    ) -> Result<Response<AnswerBody>, Error> {
        let rights = self.app.authorizations.satisfied_by(&self.tracker.credentials);
        let mut response = self.answer_document(DocumentSubject::OpenApi(asked), rights).await?;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(openapi::MEDIA_TYPE));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding, authorization"));
        Ok(response)
    }
}

/// The replicas in the form of Prometheus' `http_sd`: this one and its peers. The address of
/// this one is the configured one, or else the one to which the request was sent.
fn targets(config: &Config, request: &Request<Arrival>) -> String {
    let asked = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let asked = request.uri().authority().cloned().or_else(|| asked?.parse().ok());
    let own = match (&config.discovery.address, asked) {
        // The configured port is for clients, and this request arrived at another.
        (Some(address), Some(asked)) if is_admin(request) => Some(on_port(address.host(), asked.port_u16())),
        (Some(address), asked) => {
            let port = address.port_u16().or_else(|| asked?.port_u16());
            Some(on_port(address.host(), port))
        }
        (None, asked) => asked.map(|asked| asked.to_string()),
    };
    let targets: Vec<_> = own.into_iter().chain(config.discovery.peers.iter().cloned()).collect();
    let is_tls = config.tls.is_some() && !is_admin(request);
    let labels = json!({
        "__metrics_path__": format!("{ADMIN}{METRICS}"),
        "__scheme__": if is_tls { "https" } else { "http" },
    });
    format!("{}\n", json!([{"targets": targets, "labels": labels}]))
}

/// Reads the query of the history: `after`, in milliseconds since 1970, or nothing.
///
/// # Errors
/// 400: it names the parameters that are unknown or wrong.
fn after(query: Option<&str>) -> Result<u64, Error> {
    let param = Param {
        default: Some(ParamValue::Integer(0)),
        min: Some(ParamValue::Integer(0)),
        ..Param::new("after", ParamType::Integer)
    };
    let bound = params::bind(&[param], &[] as &[(&str, &str)], query, &HeaderMap::new())?;
    Ok(match bound.values.first() {
        Some(ParamValue::Integer(at)) => at.unsigned_abs(),
        _ => 0,
    })
}

/// 403: without tokens, only the server's own machine can stop streams.
fn not_from_there() -> Error {
    Error::new(
        "forbidden",
        StatusCode::FORBIDDEN,
        "without tokens, a stream can be stopped only on the server's machine",
    )
    .hint(
        "send the request to `localhost` there, or to the port of `admin_listen`, and not from a page of \
         another site; or allow a `[token.…]` with `[admin] authorization`",
    )
}

fn on_port(host: &str, port: Option<u16>) -> String {
    port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn ok() -> Response<AnswerBody> {
    report(Bytes::from_static(b"ok\n"), "text/plain")
}

/// An answer about the server's current state.
fn report(body: Bytes, media_type: &'static str) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Whole(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
