//! The admin endpoints, below [`ADMIN`]: what the server says of itself.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::uri::Authority;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use serde_json::json;

use super::app::App;
use super::body::Answer;
use super::console;
use super::documents::About;
use super::head::no_endpoint;
use super::probe::Probe;
use super::request::{Arrived, is_remote};
use super::tracker::RequestTracker;
use crate::Error;
use crate::admission::Holder;
use crate::client::UNIX;
use crate::completeness::streams::Stream;
use crate::endpoint::Authorization;
use crate::error::pages;
use crate::metrics::{Exposition, Metrics, Subject};
use crate::openapi;
use crate::params::{self, Param, ParamType, ParamValue};

/// Before the path of each admin endpoint.
pub(super) const ADMIN: &str = "/_rowstream/";
/// Below [`ADMIN`]: whether it answers at all.
const LIVE: &str = "live";
/// Below [`ADMIN`]: whether requests should come here.
const READY: &str = "ready";
/// Where the metrics are, below [`ADMIN`].
const METRICS: &str = "metrics";
/// Below [`ADMIN`]: what the last minutes were like.
const HISTORY: &str = "history";
/// Below [`ADMIN`]: the replicas, for Prometheus.
const DISCOVERY: &str = "sd";
/// Below [`ADMIN`]: the endpoints as an OpenAPI document.
const OPENAPI: &str = "openapi.json";
/// Below [`ADMIN`]: the streams that run.
const LIST: &str = "streams";
/// Where the server reports how streams go, below [`ADMIN`].
const STREAMS: &str = "streams/";
/// Where the pages about errors are, below [`ADMIN`].
const ERRORS: &str = "errors/";
/// Below [`ADMIN`]: what `rowstream doctor` asks for.
const PROBES: &str = "probe/";

const JSON: &str = "application/json";

/// Whether a request asks how the server is.
pub(crate) fn is_check<B>(request: &Request<B>) -> bool {
    matches!(request.uri().path().strip_prefix(ADMIN), Some(LIVE | READY))
}

/// Who holds memory for a request.
pub(super) fn holder<B>(request: &Request<B>) -> Holder {
    match request.uri().path().starts_with(ADMIN) {
        true => Holder::Admin,
        false => Holder::Client,
    }
}

/// Whether a request came to the port of the admin endpoints.
pub(super) fn is_admin<B>(request: &Request<Arrived<B>>) -> bool {
    request.body().arrival.to_admin
}

/// What is asked for below [`ADMIN`].
pub(super) enum AdminEndpoint {
    Live,
    Ready,
    Metrics(Exposition),
    /// The moments of the last minutes after one, in milliseconds since 1970.
    History(u64),
    /// What Prometheus is to scrape, as JSON.
    Discovery(String),
    /// The endpoints that who asks may call.
    OpenApi(openapi::Asked),
    /// The streams that run.
    Streams,
    /// How a stream went.
    Stream(Arc<Stream>),
    /// A stream is to be stopped, by a client on another machine or on this one.
    Stop(Arc<Stream>, Asks),
    /// What an error's code means.
    Page(&'static str),
    /// What shows the hops on the way.
    Probe(Probe),
    /// A file of the console.
    Console(console::Asked),
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    Here,
    Elsewhere,
}

impl AdminEndpoint {
    /// Whether it is for this method, whatever others are for.
    pub(super) fn is_of(&self, method: &Method) -> bool {
        matches!(self, Self::Stop(..)) && *method == Method::DELETE
    }
}

impl App {
    /// The admin endpoint of this name.
    ///
    /// # Errors
    /// 404: there is none, or not at the port that the request came to. What the endpoints are, how
    /// a stream went, and what an error means, is said wherever streams are, and probes go their
    /// way. 400: its query.
    pub(super) fn find_admin<B>(
        &self,
        name: &str,
        request: &Request<Arrived<B>>,
    ) -> Result<AdminEndpoint, Error> {
        let is_here = self.config.admin_listen.is_none() || is_admin(request);
        Ok(match name {
            LIVE if is_here => AdminEndpoint::Live,
            READY if is_here => AdminEndpoint::Ready,
            METRICS if is_here => AdminEndpoint::Metrics(Exposition::choose(request.headers())),
            HISTORY if is_here => AdminEndpoint::History(after(request.uri().query())?),
            DISCOVERY if is_here => AdminEndpoint::Discovery(self.targets(request)),
            LIST if is_here => AdminEndpoint::Streams,
            OPENAPI => AdminEndpoint::OpenApi(openapi::Asked::read(request.uri().query())?),
            _ => match name.strip_prefix(PROBES).and_then(|name| Probe::read(name, request)) {
                Some(probe) => AdminEndpoint::Probe(probe?),
                None => {
                    self.find_for_clients(name, request).ok_or_else(|| no_endpoint(request.uri().path()))?
                }
            },
        })
    }

    /// The admin endpoint of this name that is for clients, too.
    fn find_for_clients<B>(&self, name: &str, request: &Request<Arrived<B>>) -> Option<AdminEndpoint> {
        if self.config.console
            && let Some(asked) = console::Asked::find(name, request)
        {
            return Some(AdminEndpoint::Console(asked));
        }
        if let Some(code) = name.strip_prefix(ERRORS) {
            return pages::of(code).map(AdminEndpoint::Page);
        }
        let stream = self.state.streams.find(name.strip_prefix(STREAMS)?)?;
        if request.method() != Method::DELETE {
            return Some(AdminEndpoint::Stream(stream));
        }
        let is_ours = is_admin(request) || (!is_remote(request) && names_this_machine(request));
        let asks = if is_ours && !is_of_other_site(request) { Asks::Here } else { Asks::Elsewhere };
        let is_here = self.config.admin_listen.is_none() || is_admin(request);
        is_here.then_some(AdminEndpoint::Stop(stream, asks))
    }

    /// Checks that who asks may. How a stream went is also for whoever may call its endpoint, as
    /// long as that is there.
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
            // Nobody shows who they are: then only those on this machine may.
            AdminEndpoint::Stop(_, Asks::Elsewhere) if !self.asks_credentials() => {
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

    /// What an admin endpoint answers. Boxed where something is waited for: every request would
    /// carry what that needs.
    pub(super) async fn answer_admin(
        &self,
        endpoint: AdminEndpoint,
        headers: &HeaderMap,
        tracker: &mut RequestTracker,
    ) -> Result<Response<Answer>, Error> {
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
                let mut response = Response::new(Answer::Nothing);
                *response.status_mut() = StatusCode::NO_CONTENT;
                response
            }),
            AdminEndpoint::Probe(probe) => probe.answer(&self.state.probes),
            // Browsers show plain text, and save Markdown.
            AdminEndpoint::Page(page) => {
                Ok(report(Bytes::from_static(page.as_bytes()), "text/plain; charset=utf-8"))
            }
            AdminEndpoint::Console(asked) => Ok(asked.answer(headers)),
        }
    }

    /// The answer to `live` or `ready`, if these are public. It needs no room and doesn't wait, so it's
    /// the last known one: strangers may hold all the room, and may ask on hundreds of streams.
    pub(super) fn check_without_room<B>(
        &self,
        request: &Request<Arrived<B>>,
        tracker: &mut RequestTracker,
    ) -> Option<Result<Response<Answer>, Error>> {
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
    ) -> Result<Response<Answer>, Error> {
        let text = Metrics::tell(Arc::clone(&tracker.app), exposition);
        let mut response = self.answer_text(text, exposition.media_type(), headers, tracker).await?;
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
        Ok(response)
    }
}

impl App {
    /// Whether there is anything by which clients show who they are.
    fn asks_credentials(&self) -> bool {
        !self.config.tokens.is_empty() || self.verifier.is_some()
    }

    /// The replicas as Prometheus' `http_sd` reads them: this one, by the address that is configured
    /// or else by that which the request was sent to, and its peers.
    fn targets<B>(&self, request: &Request<Arrived<B>>) -> String {
        let asked = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let asked = request.uri().authority().cloned().or_else(|| asked?.parse().ok());
        let own = match (&self.config.discovery.address, asked) {
            // The port that it names is that of clients.
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

    /// The endpoints that a request may call, as an OpenAPI document.
    async fn answer_openapi(
        &self,
        asked: openapi::Asked,
        headers: &HeaderMap,
        tracker: &mut RequestTracker,
    ) -> Result<Response<Answer>, Error> {
        let credentials = tracker.credentials.clone();
        let about = About::OpenApi(asked);
        let mut response = self.answer_document(about, headers, &credentials, tracker).await?;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(openapi::MEDIA_TYPE));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding, authorization"));
        Ok(response)
    }
}

/// What a query for the history says: `after`, in milliseconds since 1970, or nothing.
///
/// # Errors
/// 400 that names what is unknown or wrong.
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

/// The host that a request names, without its port.
fn host<B>(request: &Request<B>) -> Option<String> {
    let header = || request.headers().get(header::HOST)?.to_str().ok()?.parse().ok();
    let authority: Authority = request.uri().authority().cloned().or_else(header)?;
    Some(authority.host().to_owned())
}

/// True if a request from this machine also asks for this machine. A page whose name was made to
/// lead here (DNS rebinding) names another host, and so do most proxies on this machine.
fn names_this_machine<B>(request: &Request<Arrived<B>>) -> bool {
    let is_unix = request.body().arrival.peer == Some(UNIX);
    is_unix
        || host(request).is_some_and(|host| {
            let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
        })
}

/// True if a page of another host made the request (Fetch standard, "`Origin` header").
fn is_of_other_site<B>(request: &Request<B>) -> bool {
    let Some(origin) = request.headers().get(header::ORIGIN) else { return false };
    let own = || Some(origin.to_str().ok()?.parse::<Uri>().ok()?.host()?.to_owned());
    own().is_none() || own() != host(request)
}

/// 403: without tokens, streams are stopped from the server's own machine.
fn not_from_there() -> Error {
    Error::new(
        "forbidden",
        StatusCode::FORBIDDEN,
        "without tokens, a stream is stopped on the server's machine",
    )
    .hint(
        "ask at `localhost` there, or at the port of `admin_listen`, and not by a page of another site; or let \
         a `[token.…]` by `[admin] authorization`",
    )
}

fn on_port(host: &str, port: Option<u16>) -> String {
    port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn ok() -> Response<Answer> {
    report(Bytes::from_static(b"ok\n"), "text/plain")
}

/// What the server says of itself, now.
fn report(body: Bytes, media_type: &'static str) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
