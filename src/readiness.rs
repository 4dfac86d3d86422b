//! The answer of `/_rowstream/ready`: is this replica one to send requests to?
//!
//! Yes, while the server is not on its way out, and each database can be reached and takes the
//! statements of its endpoints; HTTP upstreams are not asked, because no other replica would reach
//! them either. The question needs neither a permit nor a place in a pool: a server that is busy is
//! ready, and a proxy that took it for dead would have the others carry its load, too.
//!
//! A source gets one question at a time, from all who ask, and its answer holds for [`FRESH`]. The
//! question is a task: a proxy that does not wait for its end leaves an answer to the next one.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, timeout};

use crate::database::Probe;
use crate::endpoint::Endpoint;
use crate::source::Source;
use rowstream_core::Error;
use rowstream_core::lock;

/// How long an answer of a source holds.
const FRESH: Duration = Duration::from_secs(1);
/// How long a source may take to answer. The common checks wait for one or two seconds themselves.
const PATIENCE: Duration = Duration::from_secs(1);

/// The databases that tell the readiness of an app.
pub(crate) struct Readiness(Vec<Arc<Asked>>);

/// A source, and its last answer.
struct Asked {
    name: String,
    /// Locked during a question.
    probe: tokio::sync::Mutex<Probe>,
    answered: lock::Mutex<Answered>,
    unprepared: lock::Mutex<Unprepared>,
}

/// The endpoints of a source, by their indices, whose statements it has not prepared.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Unprepared {
    /// It was not asked for them.
    pub(crate) waiting: Vec<usize>,
    /// It refused one of them.
    pub(crate) refused: Vec<usize>,
}

impl Unprepared {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.refused.is_empty()
    }

    /// The text for clients.
    fn why_not(&self, source: &str, endpoints: &[Endpoint]) -> Option<String> {
        let refused: Vec<_> = self.refused.iter().map(|&index| endpoints[index].path.as_str()).collect();
        match (self.waiting.is_empty(), refused.is_empty()) {
            (true, true) => None,
            (false, true) => Some(format!("source `{source}` has not prepared its statements yet")),
            (_, false) => Some(format!("source `{source}` refuses a statement of {}", refused.join(", "))),
        }
    }
}

/// When a source answered last, and why it cannot be reached, if so.
type Answered = Option<(Instant, Option<String>)>;

impl Readiness {
    pub(crate) fn new<'a>(sources: impl Iterator<Item = &'a Source>) -> Self {
        let asked = |source: &Source| {
            let probe = tokio::sync::Mutex::new(source.probe()?);
            Some(Arc::new(Asked {
                name: source.name().to_owned(),
                probe,
                answered: lock::Mutex::default(),
                unprepared: lock::Mutex::default(),
            }))
        };
        Self(sources.filter_map(asked).collect())
    }

    /// Notes which statements of a source are not prepared.
    pub(crate) fn note(&self, source: &str, unprepared: Unprepared) {
        if let Some(asked) = self.0.iter().find(|asked| asked.name == source) {
            *asked.unprepared.lock() = unprepared;
        }
    }

    /// The sources that have not prepared all of their statements.
    pub(crate) fn unprepared(&self) -> Vec<(String, Unprepared)> {
        let all = self.0.iter().map(|asked| (asked.name.clone(), asked.unprepared.lock().clone()));
        all.filter(|(_, unprepared)| !unprepared.is_empty()).collect()
    }

    /// Asks all sources at once; it takes no longer than one of them may.
    ///
    /// # Errors
    /// 503: the server is `leaving`, or which sources cannot be reached, or do not take the
    /// statements of which of `endpoints`.
    pub(crate) async fn check(&self, leaving: bool, endpoints: &[Endpoint]) -> Result<(), Error> {
        let asking = |asked: &Arc<Asked>| {
            let asked = Arc::clone(asked);
            tokio::spawn(async move { asked.why_not().await })
        };
        let asking: Vec<_> = if leaving { Vec::new() } else { self.0.iter().map(asking).collect() };
        let mut answers = Vec::new();
        for (asked, asking) in self.0.iter().zip(asking) {
            answers.push(asking.await.unwrap_or_else(|_| Some(unreachable(&asked.name))));
        }
        self.judge(leaving, answers, endpoints)
    }

    /// The same by the last answers of the sources, without waiting. If one is old or missing, a
    /// task in the background gets a new one.
    ///
    /// # Errors
    /// Those of [`check`](Self::check); 503 also if a source has not answered yet.
    pub(crate) fn last_known(&self, leaving: bool, endpoints: &[Endpoint]) -> Result<(), Error> {
        self.judge(leaving, self.0.iter().map(Asked::last_known), endpoints)
    }

    /// The answer for clients, from those of the sources in their order.
    fn judge(
        &self,
        leaving: bool,
        answers: impl IntoIterator<Item = Option<String>>,
        endpoints: &[Endpoint],
    ) -> Result<(), Error> {
        if leaving {
            return Err(not_ready("the server is on its way out".to_owned()));
        }
        let mut errors = Vec::new();
        for (asked, why_not) in self.0.iter().zip(answers) {
            errors.extend(why_not.or_else(|| asked.unprepared.lock().why_not(&asked.name, endpoints)));
        }
        if errors.is_empty() { Ok(()) } else { Err(not_ready(errors.join("; "))) }
    }
}

impl Asked {
    /// Why the source cannot be reached; `None`: it can.
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

    /// The last answer, if it still holds.
    fn fresh(&self) -> Option<Option<String>> {
        self.answered.lock().clone().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, answer)| answer)
    }

    /// The last answer. One that no longer holds is renewed in the background, by one task.
    fn last_known(self: &Arc<Self>) -> Option<String> {
        if self.fresh().is_none() && self.probe.try_lock().is_ok() {
            let asked = Arc::clone(self);
            tokio::spawn(async move { asked.why_not().await });
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
