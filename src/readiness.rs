//! Whether requests should come here: what `/_rowstream/ready` says.
//!
//! Yes, while the server is not on its way out and each database can be reached; HTTP upstreams are not asked, because no other replica
//! would reach them either. Whoever asks needs neither a permit nor a place in a
//! pool: a server that is busy is ready, and a proxy that took it for dead would have the others carry its load, too.
//!
//! However many ask, however often, a source is asked by one of them at a time, and its answer holds for [`FRESH`]. The asking is a
//! task: a proxy that does not wait for its end leaves an answer to the next one.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::source::{Probe, Source};

/// How long an answer of a source holds.
const FRESH: Duration = Duration::from_secs(1);
/// How long a source may take to answer. The common checks wait for one or two seconds themselves.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is asked for the readiness of an app: each of its databases.
pub(crate) struct Readiness(Vec<Arc<Asked>>);

/// A source, and what it has answered.
struct Asked {
    name: String,
    state: Mutex<State>,
}

struct State {
    probe: Probe,
    /// When it answered last, and why it cannot be reached, if so.
    answer: Option<(Instant, Option<String>)>,
}

impl Readiness {
    pub(crate) fn new<'a>(sources: impl Iterator<Item = &'a Source>) -> Self {
        let asked = |source: &Source| {
            let state = Mutex::new(State { probe: source.probe()?, answer: None });
            Some(Arc::new(Asked { name: source.name().to_owned(), state }))
        };
        Self(sources.filter_map(asked).collect())
    }

    /// Asks all sources at once; it takes no longer than one of them may.
    ///
    /// # Errors
    /// 503: the server is `leaving`, or which sources cannot be reached.
    pub(crate) async fn check(&self, leaving: bool) -> Result<(), Error> {
        if leaving {
            return Err(not_ready("the server is on its way out".to_owned()));
        }
        let asking = |asked: &Arc<Asked>| {
            let asked = Arc::clone(asked);
            tokio::spawn(async move { asked.why_not().await })
        };
        let asking: Vec<_> = self.0.iter().map(asking).collect();
        let mut faults = Vec::new();
        for (asked, asking) in self.0.iter().zip(asking) {
            faults.extend(asking.await.unwrap_or_else(|_| Some(unreachable(&asked.name))));
        }
        if faults.is_empty() { Ok(()) } else { Err(not_ready(faults.join("; "))) }
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
