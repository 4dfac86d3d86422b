//! Implements `/_rowstream/ready`, which says if clients should send requests to this replica.
//!
//! The replica is ready if it isn't shutting down and each database is reachable and accepts the
//! statements of its endpoints. HTTP upstreams aren't checked, because other replicas couldn't
//! reach them either. A check needs neither a permit nor a slot in a pool. A busy server is still
//! ready: if a proxy took it for dead, the other replicas would have to carry its load, too.
//!
//! A source is checked by one request at a time, and its answer is valid for [`FRESH`]. The check
//! runs as a task, so a proxy that doesn't wait for its end still leaves an answer for the next
//! one.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::lock;
use tokio::time::{Instant, timeout};

use crate::database::Probe;
use crate::endpoint::Endpoint;
use crate::source::Source;

/// The validity of a source's answer.
const FRESH: Duration = Duration::from_secs(1);
/// The time limit for a source to answer. Usual health checks wait for only one or two seconds
/// themselves.
const PATIENCE: Duration = Duration::from_secs(1);

/// The databases that determine the readiness of an app.
pub(crate) struct Readiness(Vec<Arc<SourceReadiness>>);

/// A source, and its last answer.
struct SourceReadiness {
    name: String,
    /// Locked during a check.
    probe: tokio::sync::Mutex<Probe>,
    answered: lock::Mutex<LastAnswer>,
    unprepared: lock::Mutex<UnpreparedEndpoints>,
}

/// A source's endpoints with unprepared statements, by their indices.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct UnpreparedEndpoints {
    /// Their statements were not sent to it.
    pub(crate) waiting: Vec<usize>,
    /// It refused one of them.
    pub(crate) refused: Vec<usize>,
}

impl UnpreparedEndpoints {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.refused.is_empty()
    }

    /// The text for clients, if some statement is unprepared.
    fn why_not(&self, source: &str, endpoints: &[Endpoint]) -> Option<String> {
        let refused: Vec<_> = self.refused.iter().map(|&index| endpoints[index].path.as_str()).collect();
        match (self.waiting.is_empty(), refused.is_empty()) {
            (true, true) => None,
            (false, true) => Some(format!("source `{source}` has not prepared its statements yet")),
            (_, false) => Some(format!("source `{source}` refuses a statement of {}", refused.join(", "))),
        }
    }
}

/// The time of a source's last answer, and its error if it couldn't be reached.
type LastAnswer = Option<(Instant, Option<String>)>;

impl Readiness {
    pub(crate) fn new<'a>(sources: impl Iterator<Item = &'a Source>) -> Self {
        let asked = |source: &Source| {
            let probe = tokio::sync::Mutex::new(source.probe()?);
            Some(Arc::new(SourceReadiness {
                name: source.name().to_owned(),
                probe,
                answered: lock::Mutex::default(),
                unprepared: lock::Mutex::default(),
            }))
        };
        Self(sources.filter_map(asked).collect())
    }

    /// Records the unprepared statements of a source.
    pub(crate) fn note(&self, source: &str, unprepared: UnpreparedEndpoints) {
        if let Some(entry) = self.0.iter().find(|entry| entry.name == source) {
            *entry.unprepared.lock() = unprepared;
        }
    }

    /// The sources with unprepared statements.
    pub(crate) fn unprepared(&self) -> Vec<(String, UnpreparedEndpoints)> {
        let all = self.0.iter().map(|entry| (entry.name.clone(), entry.unprepared.lock().clone()));
        all.filter(|(_, unprepared)| !unprepared.is_empty()).collect()
    }

    /// Checks all sources at once, so it needs no longer than one of them.
    ///
    /// # Errors
    /// 503: the server is `leaving`, or a source can't be reached or refuses a statement. Names the
    /// sources and the `endpoints`.
    pub(crate) async fn check(&self, leaving: bool, endpoints: &[Endpoint]) -> Result<(), Error> {
        let asking = |entry: &Arc<SourceReadiness>| {
            let entry = Arc::clone(entry);
            tokio::spawn(async move { entry.why_not().await })
        };
        let asking: Vec<_> = if leaving { Vec::new() } else { self.0.iter().map(asking).collect() };
        let mut answers = Vec::new();
        for (entry, asking) in self.0.iter().zip(asking) {
            answers.push(asking.await.unwrap_or_else(|_| Some(unreachable(&entry.name))));
        }
        self.judge(leaving, answers, endpoints)
    }

    /// Like [`check`](Self::check), with the last answers of the sources and without waiting. An
    /// old or missing answer is renewed in the background.
    ///
    /// # Errors
    /// Those of [`check`](Self::check). Also 503 if a source hasn't answered yet.
    pub(crate) fn last_known(&self, leaving: bool, endpoints: &[Endpoint]) -> Result<(), Error> {
        self.judge(leaving, self.0.iter().map(SourceReadiness::last_known), endpoints)
    }

    /// Combines the answers of the sources, in their order.
    fn judge(
        &self,
        leaving: bool,
        answers: impl IntoIterator<Item = Option<String>>,
        endpoints: &[Endpoint],
    ) -> Result<(), Error> {
        if leaving {
            return Err(not_ready("the server is shutting down".to_owned()));
        }
        let mut errors = Vec::new();
        for (entry, why_not) in self.0.iter().zip(answers) {
            errors.extend(why_not.or_else(|| entry.unprepared.lock().why_not(&entry.name, endpoints)));
        }
        if errors.is_empty() { Ok(()) } else { Err(not_ready(errors.join("; "))) }
    }
}

impl SourceReadiness {
    /// The reason why the source can't be reached, if any.
    async fn why_not(&self) -> Option<String> {
        let mut probe = self.probe.lock().await;
        if let Some(answer) = self.fresh() {
            return answer;
        }
        let answer = match timeout(PATIENCE, probe.ask()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.message().to_owned()),
            Err(_) => Some(format!("{}: no answer within {PATIENCE:?}", unreachable(&self.name))),
        };
        *self.answered.lock() = Some((Instant::now(), answer.clone()));
        answer
    }

    /// The last answer, if it's still valid.
    fn fresh(&self) -> Option<Option<String>> {
        self.answered.lock().clone().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, answer)| answer)
    }

    /// The last answer. An outdated one is renewed in the background, by one task.
    fn last_known(self: &Arc<Self>) -> Option<String> {
        if self.fresh().is_none() && self.probe.try_lock().is_ok() {
            let entry = Arc::clone(self);
            tokio::spawn(async move { entry.why_not().await });
        }
        match &*self.answered.lock() {
            Some((_, answer)) => answer.clone(),
            None => Some(format!("source `{}` has not answered yet", self.name)),
        }
    }
}

fn unreachable(source: &str) -> String {
    format!("source `{source}` cannot be reached")
}

fn not_ready(why: String) -> Error {
    Error::new("not_ready", StatusCode::SERVICE_UNAVAILABLE, why).retry_after(FRESH)
}
