//! The configuration at work, and the state that outlives it.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use rowstream_core::Error;
use rowstream_core::error::ErrorDetail;
use tokio::sync::watch;

use super::columns::NotedColumns;
use super::documents::Documents;
use super::refine::RefinedEndpoints;
use crate::admission::{Admission, Usage};
use crate::auth::{Credentials, Verifier};
use crate::completeness::streams::Streams;
use crate::config::Config;
use crate::config::memory;
use crate::database::Actor;
use crate::endpoint::{Authorization, Endpoint, SourceRef};
use crate::metrics::{self, Metrics, Series, Subject};
use crate::rate_limit::Rates;
use crate::readiness::Readiness;
use crate::route::Router;
use crate::source::{Source, SourceConfig};
use crate::spool::file::UsedQuota;
use crate::stream::notifier::ChangeNotifiers;
use crate::traces::{SpanSender, Spans};

/// Everything that answers requests: the endpoints, their sources, and the limits.
pub struct App {
    pub(super) config: Config,
    pub(super) router: Router,
    /// In the order of the configuration.
    pub(super) sources: Vec<Source>,
    pub(super) admission: Admission,
    pub(super) notifiers: ChangeNotifiers,
    pub(super) readiness: Readiness,
    /// The detail with which a database's messages are shown to clients.
    pub(super) detail: ErrorDetail,
    /// True if requests must name this machine as their host.
    pub(super) is_for_own_hosts: bool,
    /// The limits on requests per client; `None`: no limits.
    pub(super) rates: Option<Arc<Rates>>,
    /// Verifies JSON Web Tokens of the trusted issuer.
    pub(super) verifier: Option<Arc<Verifier>>,
    pub(super) state: Arc<ServerState>,
    /// The metrics of each endpoint.
    pub(super) series: Vec<Arc<Series>>,
    pub(crate) columns: NotedColumns,
    pub(super) authorizations: Authorizations,
    /// The documents about the endpoints.
    pub(super) documents: Documents,
    /// The endpoints of requests that filter, sort or select.
    pub(super) refined: RefinedEndpoints,
}

/// The distinct authorizations of a configuration.
pub(super) struct Authorizations {
    /// Each authorization once.
    all: Vec<Authorization>,
    /// The authorization of each endpoint, by its index in `all`.
    pub(super) of: Vec<usize>,
}

impl Authorizations {
    fn new(endpoints: &[Endpoint]) -> Self {
        let mut all = Vec::new();
        let index = |endpoint: &Endpoint| {
            let wanted = &endpoint.authorization;
            all.iter().position(|known| known == wanted).unwrap_or_else(|| {
                all.push(wanted.clone());
                all.len() - 1
            })
        };
        let of = endpoints.iter().map(index).collect();
        Self { all, of }
    }

    /// For each authorization, true if `credentials` satisfy it.
    pub(super) fn satisfied_by(&self, credentials: &Credentials) -> Vec<bool> {
        self.all.iter().map(|wanted| credentials.authorize(wanted).is_ok()).collect()
    }
}

/// The state that outlives a configuration.
#[derive(Default)]
pub(super) struct ServerState {
    pub(super) streams: Streams,
    pub(super) leaving: AtomicBool,
    pub(super) metrics: Metrics,
    /// Spans that wait to be sent.
    pub(super) spans: Arc<Spans>,
    /// The bytes in temporary files.
    pub(super) spooled: Arc<UsedQuota>,
    pub(super) ending: AtomicBool,
    /// Each running probe has a reference.
    pub(super) probes: Arc<()>,
    /// True once followers should end.
    pub(super) closing: watch::Sender<bool>,
}

impl metrics::MetricsSource for App {
    fn metrics(&self) -> &Metrics {
        &self.state.metrics
    }

    fn usage(&self) -> Usage {
        self.admission.usage()
    }

    fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.sources.iter().map(|source| (source.name(), source))
    }

    fn max_connections(&self) -> usize {
        let configured = self.config.limits.max_connections;
        self.state.metrics.connections.limited_to().map_or(configured, |limit| limit.min(configured))
    }

    fn certificate_expiry(&self) -> Option<SystemTime> {
        self.config.tls.as_ref()?.identity.until()
    }
}

impl App {
    /// An app with a checked configuration. It opens no connection.
    ///
    /// # Errors
    /// The URL of a source isn't valid.
    pub fn new(config: Config) -> Result<Self, Error> {
        let admission = Admission::new(&config.limits, memory::for_streams(&config));
        Self::build(config, admission, RefinedEndpoints::new(false), Arc::default(), |_| None)
    }

    /// The app of another configuration, for future requests. It continues the counts of running
    /// streams. Sources whose settings haven't changed are kept, with their connections, which prepare
    /// their statements again.
    ///
    /// # Errors
    /// See [`App::new`].
    pub fn reloaded(&self, config: Config) -> Result<Self, Error> {
        let admission = Admission::new(&config.limits, memory::for_streams(&config));
        let admission = admission.with_streams_of(&self.admission);
        let refined = RefinedEndpoints::new(true);
        let app = Self::build(config, admission, refined, Arc::clone(&self.state), |wanted| {
            let same = self.config.sources.iter().position(|source| source == wanted)?;
            let same = &self.sources[same];
            same.forget_statements();
            Some(same.clone())
        })?;
        let known =
            self.verifier.clone().filter(|own| app.config.jwt.as_ref().is_some_and(|jwt| own.is_of(jwt)));
        let limits = &app.config.limits;
        let rates = self.rates.clone().filter(|rates| rates.are(limits.rates));
        Ok(Self { verifier: known.or(app.verifier), rates: rates.or(app.rates), ..app })
    }

    fn build(
        mut config: Config,
        admission: Admission,
        refined: RefinedEndpoints,
        state: Arc<ServerState>,
        open: impl Fn(&SourceConfig) -> Option<Source>,
    ) -> Result<Self, Error> {
        config.bound_rows();
        let open = |wanted: &SourceConfig| open(wanted).map_or_else(|| Source::open(wanted), Ok);
        let sources: Vec<_> = config.sources.iter().map(open).collect::<Result<_, _>>()?;
        let router = Router::new(config.endpoints.iter().map(Endpoint::route))
            .map_err(|_| Error::endpoint("two endpoints match the same paths"))?;
        let notifiers = ChangeNotifiers::new(config.endpoints.len());
        let readiness = Readiness::new(sources.iter());
        let series = state.metrics.series_of(&config.endpoints);
        for (index, source) in sources.iter().enumerate() {
            let looks_up = |endpoint: &Endpoint| endpoint.source.index() == index && endpoint.looks_up();
            source.keep_for_lookups(config.endpoints.iter().any(looks_up));
        }
        let detail = config.error_detail();
        let is_for_own_hosts = config.is_for_own_hosts();
        let verifier = config.jwt.as_ref().map(|jwt| Arc::new(Verifier::new(jwt)));
        let columns = NotedColumns::new(config.endpoints.len());
        let authorizations = Authorizations::new(&config.endpoints);
        let rates = Rates::new(config.limits.rates).map(Arc::new);
        Ok(Self {
            config,
            router,
            sources,
            admission,
            notifiers,
            readiness,
            detail,
            is_for_own_hosts,
            rates,
            verifier,
            state,
            series,
            columns,
            authorizations,
            documents: Documents::default(),
            refined,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The spans that wait to be sent, and their destination.
    pub(crate) fn spans(&self) -> SpanSender {
        SpanSender { spans: Arc::clone(&self.state.spans), to: self.config.traces.clone() }
    }

    /// What `ready` reports of the sources.
    pub(crate) fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// The sources that the app `before` doesn't have.
    pub fn new_sources(&self, before: Option<&Self>) -> impl Iterator<Item = &Source> {
        let is_new =
            move |settings: &SourceConfig| !before.is_some_and(|app| app.config.sources.contains(settings));
        let all = self.config.sources.iter().zip(&self.sources);
        all.filter(move |(settings, _)| is_new(settings)).map(|(_, source)| source)
    }

    pub(super) fn series(&self, subject: Subject) -> &Series {
        match subject {
            Subject::None => &self.state.metrics.none,
            Subject::Admin => &self.state.metrics.admin,
            Subject::Endpoint(index) => &self.series[index],
        }
    }

    /// Admits streams.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Marks the server as shutting down. It still answers, but [`ready`](crate::readiness) reports
    /// it.
    pub fn leave(&self) {
        self.state.leaving.store(true, Ordering::Relaxed);
    }

    /// True if the server is shutting down.
    pub fn is_leaving(&self) -> bool {
        self.state.leaving.load(Ordering::Relaxed)
    }

    /// From now on, the server is the reason for each response that is dropped, and not its client.
    pub fn end(&self) {
        self.state.ending.store(true, Ordering::Relaxed);
    }

    /// Ends all followers, because the server is shutting down.
    pub fn stop_following(&self) {
        self.state.closing.send_replace(true);
    }

    pub(super) fn source(&self, source: &SourceRef) -> &Source {
        &self.sources[source.index()]
    }

    /// The source, used in the role of the client.
    pub(super) fn source_as(
        &self,
        source: &SourceRef,
        actor: Option<&Arc<Actor>>,
    ) -> Result<Cow<'_, Source>, Error> {
        let source = self.source(source);
        Ok(match actor {
            None => Cow::Borrowed(source),
            Some(actor) => Cow::Owned(Source::Database(source.database()?.acting(actor)?)),
        })
    }
}
