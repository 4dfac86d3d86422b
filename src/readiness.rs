//! Whether requests should come here: what `/_rowstream/ready` says.
//!
//! Yes, while the server is not on its way out, and each database can be reached and takes the
//! statements of its endpoints; HTTP upstreams are not asked, because no other replica would reach
//! them either. Whoever asks needs neither a permit nor a place in a pool: a server that is busy is
//! ready, and a proxy that took it for dead would have the others carry its load, too.
//!
//! However many ask, however often, a source is asked by one of them at a time, and its answer
//! holds for [`FRESH`]. The asking is a task: a proxy that does not wait for its end leaves an
//! answer to the next one.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::database::Probe;
use crate::endpoint::Endpoint;
use crate::lock;
use crate::source::Source;

/// How long an answer of a source holds.
const FRESH: Duration = Duration::from_secs(1);
/// How long a source may take to answer. The common checks wait for one or two seconds themselves.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is asked for the readiness of an app: each of its databases.
pub(crate) struct Readiness(Vec<Arc<Asked>>);

/// A source, and what it has answered.
struct Asked {
    name: String,
    state: tokio::sync::Mutex<State>,
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

    /// What clients get.
    fn why_not(&self, source: &str, endpoints: &[Endpoint]) -> Option<String> {
        let refused: Vec<_> = self.refused.iter().map(|&index| endpoints[index].path.as_str()).collect();
        match (self.waiting.is_empty(), refused.is_empty()) {
            (true, true) => None,
            (false, true) => Some(format!("source `{source}` has not prepared its statements yet")),
            (_, false) => Some(format!("source `{source}` refuses a statement of {}", refused.join(", "))),
        }
    }
}

struct State {
    probe: Probe,
    /// When it answered last, and why it cannot be reached, if so.
    answer: Option<(Instant, Option<String>)>,
}

impl Readiness {
    pub(crate) fn new<'a>(sources: impl Iterator<Item = &'a Source>) -> Self {
        let asked = |source: &Source| {
            let state = tokio::sync::Mutex::new(State { probe: source.probe()?, answer: None });
            Some(Arc::new(Asked {
                name: source.name().to_owned(),
                state,
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
        if leaving {
            return Err(not_ready("the server is on its way out".to_owned()));
        }
        let asking = |asked: &Arc<Asked>| {
            let asked = Arc::clone(asked);
            tokio::spawn(async move { asked.why_not().await })
        };
        let asking: Vec<_> = self.0.iter().map(asking).collect();
        let mut errors = Vec::new();
        for (asked, asking) in self.0.iter().zip(asking) {
            let why_not = asking.await.unwrap_or_else(|_| Some(unreachable(&asked.name)));
            errors.extend(why_not.or_else(|| asked.unprepared.lock().why_not(&asked.name, endpoints)));
        }
        if errors.is_empty() { Ok(()) } else { Err(not_ready(errors.join("; "))) }
    }
}

impl Asked {
    /// Why the source cannot be reached; `None`: it can.
    async fn why_not(&self) -> Option<String> {
        let mut state = self.state.lock().await;
        if let Some((at, answer)) = &state.answer
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let answer = match timeout(PATIENCE, state.probe.ask()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.message().to_owned()),
            Err(_) => Some(format!("{}: no answer within {PATIENCE:?}", unreachable(&self.name))),
        };
        state.answer = Some((Instant::now(), answer.clone()));
        answer
    }
}

fn unreachable(source: &str) -> String {
    format!("source `{source}` cannot be reached")
}

fn not_ready(why: String) -> Error {
    Error::new("not_ready", StatusCode::SERVICE_UNAVAILABLE, why).retry_after(FRESH)
}
