//! What is configured, and what outlives a configuration.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use tokio::sync::watch;

use super::documents::Documents;
use crate::Error;
use crate::admission::{Admission, Usage};
use crate::auth::{Credentials, Verifier};
use crate::check::Columns;
use crate::completeness::streams::Streams;
use crate::config::Config;
use crate::config::memory;
use crate::database::Actor;
use crate::endpoint::{Authorization, Endpoint, SourceRef};
use crate::error::ErrorDetail;
use crate::lock::Mutex;
use crate::metrics::{self, Metrics, Series, Subject};
use crate::rate_limit::Rates;
use crate::readiness::Readiness;
use crate::route::Router;
use crate::source::{Source, SourceConfig};
use crate::spool::file::Used;
use crate::stream::notifier::ChangeNotifiers;
use crate::traces::{Sending, Spans};

/// Everything that answers requests: the endpoints, their sources, and the bounds.
pub struct App {
    pub(super) config: Config,
    pub(super) router: Router,
    /// In the order of the configuration.
    pub(super) sources: Vec<Source>,
    pub(super) admission: Admission,
    pub(super) notifiers: ChangeNotifiers,
    pub(super) readiness: Readiness,
    /// How much of what a database says reaches clients.
    pub(super) detail: ErrorDetail,
    /// How often clients may ask; `None`: as often as they like.
    pub(super) rates: Option<Arc<Rates>>,
    /// Whose JSON Web Tokens are believed.
    pub(super) verifier: Option<Arc<Verifier>>,
    pub(super) state: Arc<ServerState>,
    /// What is counted of each endpoint.
    pub(super) series: Vec<Arc<Series>>,
    /// The columns of each endpoint's statements, once its source has prepared them, and how often
    /// some were noted.
    columns: Mutex<(u64, Vec<Option<Arc<Results>>>)>,
    pub(super) authorizations: Authorizations,
    /// The documents about it.
    pub(super) documents: Documents,
}

/// The authorizations that a configuration has.
pub(super) struct Authorizations {
    /// Each of them once.
    all: Vec<Authorization>,
    /// That of each endpoint, by its index in `all`.
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
}

/// The columns of an endpoint's statements, in their order.
type Results = [Option<Columns>];

/// What outlives a configuration.
#[derive(Default)]
pub(super) struct ServerState {
    pub(super) streams: Streams,
    pub(super) leaving: AtomicBool,
    pub(super) metrics: Metrics,
    /// Spans that wait to be sent.
    pub(super) spans: Arc<Spans>,
    /// What is in temporary files.
    pub(super) spooled: Arc<Used>,
    pub(super) ending: AtomicBool,
    /// Held by each probe that runs.
    pub(super) probes: Arc<()>,
    /// Whether followers are to end.
    pub(super) closing: watch::Sender<bool>,
}

impl metrics::Observed for App {
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
    /// An app of checked configuration; opens no connection.
    ///
    /// # Errors
    /// A source whose URL is not understood.
    pub fn new(config: Config) -> Result<Self, Error> {
        let admission = Admission::new(&config.limits, memory::for_streams(&config));
        Self::build(config, admission, Arc::default(), |_| None)
    }

    /// The app of another configuration, for the requests to come. Streams that run count in it,
    /// and sources whose settings are the same are the same, with their connections.
    ///
    /// # Errors
    /// See [`App::new`].
    pub fn reloaded(&self, config: Config) -> Result<Self, Error> {
        let admission = Admission::new(&config.limits, memory::for_streams(&config));
        let admission = admission.with_streams_of(&self.admission);
        let app = Self::build(config, admission, Arc::clone(&self.state), |wanted| {
            let same = self.config.sources.iter().position(|source| source == wanted)?;
            Some(self.sources[same].clone())
        })?;
        let known =
            self.verifier.clone().filter(|own| app.config.jwt.as_ref().is_some_and(|jwt| own.is_of(jwt)));
        let limits = &app.config.limits;
        let rates = self.rates.clone().filter(|rates| rates.are(limits.rates));
        Ok(Self { verifier: known.or(app.verifier), rates: rates.or(app.rates), ..app })
    }

    fn build(
        config: Config,
        admission: Admission,
        state: Arc<ServerState>,
        open: impl Fn(&SourceConfig) -> Option<Source>,
    ) -> Result<Self, Error> {
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
        let verifier = config.jwt.as_ref().map(|jwt| Arc::new(Verifier::new(jwt)));
        let columns = Mutex::new((0, vec![None; config.endpoints.len()]));
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
            rates,
            verifier,
            state,
            series,
            columns,
            authorizations,
            documents: Documents::default(),
        })
    }

    /// What was configured.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Notes the columns of an endpoint's statements.
    pub(crate) fn note_columns(&self, endpoint: usize, results: Vec<Option<Columns>>) {
        let mut columns = self.columns.lock();
        columns.0 += 1;
        columns.1[endpoint] = Some(results.into());
    }

    /// How often columns were noted.
    pub(super) fn columns_noted(&self) -> u64 {
        self.columns.lock().0
    }

    /// The columns of each endpoint's statements, as far as they are known by now.
    pub(super) fn columns(&self) -> Vec<Option<Arc<Results>>> {
        self.columns.lock().1.clone()
    }

    /// For each of the [`authorizations`](Self::authorizations), whether `credentials` are enough.
    pub(super) fn rights(&self, credentials: &Credentials) -> Vec<bool> {
        self.authorizations.all.iter().map(|wanted| credentials.authorize(wanted).is_ok()).collect()
    }

    /// The spans that wait to be sent, and where to.
    pub(crate) fn spans(&self) -> Sending {
        Sending { spans: Arc::clone(&self.state.spans), to: self.config.traces.clone() }
    }

    /// Whether requests should come here.
    pub(crate) fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// The sources that are not those of the app `before`.
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

    /// Who may run a stream.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// From now on the server is on its way out, though it still answers:
    /// [`ready`](crate::readiness) says so.
    pub fn leave(&self) {
        self.state.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether the server is on its way out.
    pub fn is_leaving(&self) -> bool {
        self.state.leaving.load(Ordering::Relaxed)
    }

    /// From now on, a response that is dropped was ended by the server and not by its client.
    pub fn end(&self) {
        self.state.ending.store(true, Ordering::Relaxed);
    }

    /// A source.
    pub(super) fn source(&self, source: &SourceRef) -> &Source {
        &self.sources[source.index()]
    }

    /// The same, as whoever asks.
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
