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
use super::head::no_endpoint;
use super::host::{is_of_other_site, names_this_machine};
use super::probe::ProbePath;
use super::tracker::RequestTracker;
use crate::admission::Holder;
use crate::completeness::streams::Stream;
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
pub(super) enum AdminEndpoint {
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
pub(super) enum RequestOrigin {
    Here,
    Elsewhere,
}

impl AdminEndpoint {
    /// True if the endpoint accepts this method, which the others don't.
    pub(super) fn is_of(&self, method: &Method) -> bool {
        matches!(self, Self::Stop(..)) && *method == Method::DELETE
    }
}

impl App {
    /// The admin endpoint of this name.
    ///
    /// # Errors
    /// 404: there's none, or not at the port of the request. The documents about endpoints, streams
    /// and errors are at any port, because clients need them, and probes have to take the clients'
    /// path. 400: the query is wrong.
    pub(super) fn find_admin(&self, name: &str, request: &Request<Arrival>) -> Result<AdminEndpoint, Error> {
        let is_here = self.config.admin_listen.is_none() || is_admin(request);
        Ok(match name {
            LIVE if is_here => AdminEndpoint::Live,
            READY if is_here => AdminEndpoint::Ready,
            METRICS if is_here => AdminEndpoint::Metrics(Exposition::choose(request.headers())),
            HISTORY if is_here => AdminEndpoint::History(after(request.uri().query())?),
            DISCOVERY if is_here => AdminEndpoint::Discovery(self.targets(request)),
            LIST if is_here => AdminEndpoint::Streams,
            OPENAPI => AdminEndpoint::OpenApi(openapi::DocumentOptions::read(request.uri().query())?),
            _ => match name.strip_prefix(PROBES).and_then(|name| ProbePath::read(name, request)) {
                Some(probe) => AdminEndpoint::Probe(probe?),
                None => {
                    self.find_for_clients(name, request).ok_or_else(|| no_endpoint(request.uri().path()))?
                }
            },
        })
    }

    /// The admin endpoint of this name, if it's also for clients.
    fn find_for_clients(&self, name: &str, request: &Request<Arrival>) -> Option<AdminEndpoint> {
        if self.config.console
            && let Some(asked) = console::RequestedFile::find(name, request)
        {
            return Some(AdminEndpoint::Console(asked));
        }
        if let Some(code) = name.strip_prefix(ERRORS) {
            return error_pages::of(code).map(AdminEndpoint::Page);
        }
        let stream = self.state.streams.find(name.strip_prefix(STREAMS)?)?;
        if request.method() != Method::DELETE {
            return Some(AdminEndpoint::Stream(stream));
        }
        let is_ours = is_admin(request) || (!is_remote(request) && names_this_machine(request));
        let asks = if is_ours && !is_of_other_site(request) {
            RequestOrigin::Here
        } else {
            RequestOrigin::Elsewhere
        };
        let is_here = self.config.admin_listen.is_none() || is_admin(request);
        is_here.then_some(AdminEndpoint::Stop(stream, asks))
    }

    /// Checks that the client may use an admin endpoint. A stream's report is also for clients that
    /// may call the stream's endpoint, as long as that exists.
    pub(super) async fn authorize_admin(
        &self,
        endpoint: &AdminEndpoint,
        headers: &HeaderMap,
        tracker: &mut RequestTracker,
    ) -> Result<(), Error> {
        let access = &self.config.admin;
        let wanted = match endpoint {
            AdminEndpoint::Live => &access.live,
            AdminEndpoint::Ready => &access.ready,
            AdminEndpoint::Metrics(_) | AdminEndpoint::History(_) | AdminEndpoint::Discovery(_) => {
                &access.metrics
            }
            AdminEndpoint::Streams => &access.streams,
            // If the server has no tokens, only clients on this machine may stop streams.
            AdminEndpoint::Stop(_, RequestOrigin::Elsewhere) if !self.asks_credentials() => {
                return Err(not_from_there());
            }
            AdminEndpoint::Stop(..) => &access.stop,
            AdminEndpoint::Stream(stream) => {
                let mut endpoints = self.config.endpoints.iter();
                let own = endpoints.find(|endpoint| endpoint.path == stream.endpoint());
                if let Some(own) = own
                    && self.authorize(&own.authorization, headers, tracker).await.is_ok()
                {
                    return Ok(());
                }
                &access.streams
            }
            AdminEndpoint::Probe(_) => &access.probe,
            AdminEndpoint::OpenApi(_) => {
                tracker.credentials = self.credentials(headers).await;
                return Ok(());
            }
            AdminEndpoint::Page(_) | AdminEndpoint::Console(_) => return Ok(()),
        };
        self.authorize(wanted, headers, tracker).await
    }

    /// Answers with an admin endpoint. Boxed if it waits for something, so that other requests
    /// don't carry its state.
    pub(super) async fn answer_admin(
        &self,
        endpoint: AdminEndpoint,
        headers: &HeaderMap,
        tracker: &mut RequestTracker,
    ) -> Result<Response<AnswerBody>, Error> {
        match endpoint {
            AdminEndpoint::Live => Ok(ok()),
            AdminEndpoint::Ready => {
                Box::pin(self.readiness.check(self.is_leaving(), &self.config.endpoints)).await?;
                Ok(ok())
            }
            AdminEndpoint::Metrics(exposition) => {
                Box::pin(self.answer_metrics(exposition, headers, tracker)).await
            }
            AdminEndpoint::History(after) => {
                let text = async { Ok(self.state.metrics.history.after(after)) };
                Box::pin(self.answer_text(text, JSON, headers, tracker)).await
            }
            AdminEndpoint::Discovery(targets) => Ok(report(Bytes::from(targets), JSON)),
            AdminEndpoint::OpenApi(asked) => Box::pin(self.answer_openapi(asked, headers, tracker)).await,
            AdminEndpoint::Streams => {
                let text = async { Ok(self.state.streams.list()) };
                Box::pin(self.answer_text(text, JSON, headers, tracker)).await
            }
            AdminEndpoint::Stream(stream) => Ok(report(Bytes::from(stream.report()), JSON)),
            AdminEndpoint::Stop(stream, _) => stream.stop().map(|()| {
                let mut response = Response::new(AnswerBody::Nothing);
                *response.status_mut() = StatusCode::NO_CONTENT;
                response
            }),
            AdminEndpoint::Probe(probe) => probe.answer(&self.state.probes),
            // Browsers show plain text, but save Markdown.
            AdminEndpoint::Page(page) => {
                Ok(report(Bytes::from_static(page.as_bytes()), "text/plain; charset=utf-8"))
            }
            AdminEndpoint::Console(asked) => Ok(asked.answer(headers)),
        }
    }

    /// The answer to `live` or `ready`, if these are public. It needs no room and doesn't wait, so
    /// it's the last known one: strangers may hold all the room, and may ask on hundreds of
    /// streams.
    pub(super) fn check_without_room(
        &self,
        request: &Request<Arrival>,
        tracker: &mut RequestTracker,
    ) -> Option<Result<Response<AnswerBody>, Error>> {
        let name = request.uri().path().strip_prefix(ADMIN)?;
        let access = match self.find_admin(name, request).ok()? {
            AdminEndpoint::Live => &self.config.admin.live,
            AdminEndpoint::Ready => &self.config.admin.ready,
            _ => return None,
        };
        if *access != Authorization::Public || !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        tracker.meter.subject = Subject::Admin;
        let is_ready = || self.readiness.last_known(self.is_leaving(), &self.config.endpoints);
        Some(if name == READY { is_ready().map(|()| ok()) } else { Ok(ok()) })
    }

    async fn answer_metrics(
        &self,
        exposition: Exposition,
        headers: &HeaderMap,
        tracker: &mut RequestTracker,
    ) -> Result<Response<AnswerBody>, Error> {
        let text = Metrics::tell(Arc::clone(&tracker.app), exposition);
        let mut response = self.answer_text(text, exposition.media_type(), headers, tracker).await?;
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
        Ok(response)
    }
}

impl App {
    /// True if clients can have credentials.
    fn asks_credentials(&self) -> bool {
        !self.config.tokens.is_empty() || self.verifier.is_some()
    }

    /// The replicas in the form of Prometheus' `http_sd`: this one and its peers. The address of
    /// this one is the configured one, or else the one to which the request was sent.
    fn targets(&self, request: &Request<Arrival>) -> String {
        let asked = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let asked = request.uri().authority().cloned().or_else(|| asked?.parse().ok());
        let own = match (&self.config.discovery.address, asked) {
            // The configured port is that of clients, and this request arrived at another.
            (Some(address), Some(asked)) if is_admin(request) => {
                Some(on_port(address.host(), asked.port_u16()))
            }
            (Some(address), asked) => {
                let port = address.port_u16().or_else(|| asked?.port_u16());
                Some(on_port(address.host(), port))
            }
            (None, asked) => asked.map(|asked| asked.to_string()),
        };
        let targets: Vec<_> = own.into_iter().chain(self.config.discovery.peers.iter().cloned()).collect();
        let is_tls = self.config.tls.is_some() && !is_admin(request);
        let labels = json!({
            "__metrics_path__": format!("{ADMIN}{METRICS}"),
            "__scheme__": if is_tls { "https" } else { "http" },
        });
        format!("{}\n", json!([{"targets": targets, "labels": labels}]))
    }

    /// The endpoints that a client may call, as an OpenAPI document.
    async fn answer_openapi(
        &self,
        asked: openapi::DocumentOptions,
        headers: &HeaderMap,
        tracker: &mut RequestTracker,
    ) -> Result<Response<AnswerBody>, Error> {
        let credentials = tracker.credentials.clone();
        let about = DocumentSubject::OpenApi(asked);
        let mut response = self.answer_document(about, headers, &credentials, tracker).await?;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(openapi::MEDIA_TYPE));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding, authorization"));
        Ok(response)
    }
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
