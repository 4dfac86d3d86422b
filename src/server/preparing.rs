//! Prepares every statement in its database before requests need it.
//!
//! ```text
//! start, reload ──► prepare ──► all is well ──────────────────────────────────► serve
//!                     ├── a statement is refused ──► no start, no reload; a table is left out
//!                     └── a source can't be reached ──► a warning, serve, `ready` is 503 ──► again, after a pause
//! again ──► all is well: `ready` is 200
//!   ├── a statement is refused: reported, `ready` is 503 ──► again
//!   └── a source can't be reached ──► again
//! ```
//!
//! An unreachable source doesn't stop the server: the database may start later, or its password may
//! still be on the way. A later refusal doesn't end a server whose other endpoints work. We try
//! again, because a missing migration may be the cause.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use rowstream_core::Error;
use rowstream_core::log;
use tokio::task::JoinSet;

use crate::check::{self, CheckResult, Columns, StatementRefusal};
use crate::endpoint::Endpoint;
use crate::readiness::UnpreparedEndpoints;
use crate::respond::App;
use crate::source::{SourceConfig, SourceKind};

/// The time that a start or a reload waits to connect to a source. One that drops packets would
/// take minutes to fail.
const CONNECT: Duration = Duration::from_secs(5);
/// The first and the longest pause between two attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];

/// When statements are prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreparationTime {
    /// At the start and at each reload.
    Ahead,
    /// At the first request that needs them (`--no-check`).
    Never,
}

/// The treatment of an endpoint whose statement its database refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalTreatment {
    /// The author has to know, so there's no start and no reload.
    Stop,
    /// Rowstream wrote the endpoint for a table, so it's left out with a warning.
    LeaveOut,
}

/// Prepares the statements of an app without requests yet. Returns the app, perhaps without some
/// endpoints. A source that can't be reached now is reported and noted for [`spawn`].
///
/// # Errors
/// The refused statements, each with its position, ready to be printed; or no endpoint is left.
pub(crate) async fn prepare(mut app: App, on_refusal: RefusalTreatment) -> Result<App, String> {
    loop {
        let refusals = refusals(&app).await;
        if refusals.is_empty() {
            return Ok(app);
        }
        let mut config = app.config().clone();
        config.endpoints.retain(|endpoint| !refusals.iter().any(|refusal| refusal.endpoint == endpoint.path));
        if on_refusal == RefusalTreatment::Stop || config.endpoints.is_empty() {
            return Err(lines(&refusals));
        }
        for StatementRefusal { endpoint, diagnostic, .. } in &refusals {
            log::warning!("warning: {endpoint} is left out: {}", diagnostic.message);
        }
        app = app.reloaded(config).map_err(|error| error.to_string())?;
    }
}

/// Prepares all statements. Returns the refused ones in the order of their files.
async fn refusals(app: &App) -> Vec<StatementRefusal> {
    let config = app.config();
    let databases = config.sources.iter().filter(|source| matches!(source.kind, SourceKind::Sql(_)));
    let asked = join_all(databases.map(async |source| {
        let endpoints = of_source(&config.endpoints, source);
        let checked = ask(app, source, &endpoints).await;
        (source, endpoints, checked)
    }));
    let mut refusals = Vec::new();
    for (source, endpoints, checked) in asked.await {
        let found = SourcePreparation::new(endpoints, checked);
        if let Some(error) = &found.failed {
            warn(source, error);
        }
        for oversight in &found.oversights {
            log::warning!("warning: {oversight}");
        }
        app.readiness().note(&source.name, found.unprepared);
        note_columns(app, found.columns);
        refusals.extend(found.refusals);
    }
    refusals.sort_by(|one, other| one.diagnostic.cmp(&other.diagnostic));
    refusals
}

/// Spawns tasks that try again for the sources with unprepared statements.
pub(super) fn spawn(tasks: &mut JoinSet<()>, app: &Arc<App>) {
    for (source, _) in app.readiness().unprepared() {
        tasks.spawn(again(Arc::downgrade(app), source));
    }
}

/// Tries again until a source has prepared all statements, as long as the app is in use.
async fn again(app: Weak<App>, source: String) {
    let [mut pause, longest] = PAUSES;
    let mut reported = HashSet::new();
    loop {
        tokio::time::sleep(pause).await;
        let Some(app) = app.upgrade() else { return };
        if once_more(&app, &source, &mut reported).await {
            return;
        }
        pause = longest.min(2 * pause);
    }
}

/// Tries once to prepare the rest of a source's statements, without reporting the `reported` errors
/// again. True if all are prepared now.
async fn once_more(app: &App, source: &str, reported: &mut HashSet<String>) -> bool {
    let all = app.readiness().unprepared();
    let settings = app.config().sources.iter().find(|settings| settings.name == source);
    let unprepared = all.into_iter().find(|(name, _)| name == source);
    let (Some(settings), Some((_, unprepared))) = (settings, unprepared) else { return true };
    let endpoints = [unprepared.waiting, unprepared.refused].concat();
    let checked = ask(app, settings, &endpoints).await;
    let found = SourcePreparation::new(endpoints, checked);
    for refusal in &found.refusals {
        let words = refusal.to_string();
        if !reported.contains(&words) {
            log::error!("{words}");
            reported.insert(words);
        }
    }
    let is_done = found.unprepared.is_empty();
    if is_done {
        log::info!("source {source}: all statements are prepared");
    }
    app.readiness().note(source, found.unprepared);
    note_columns(app, found.columns);
    is_done
}

fn note_columns(app: &App, columns: Vec<(usize, Vec<Option<Columns>>)>) {
    for (endpoint, results) in columns {
        app.columns.note(endpoint, results);
    }
}

/// The indices of the endpoints that belong to a source.
fn of_source(endpoints: &[Endpoint], source: &SourceConfig) -> Vec<usize> {
    let endpoints = endpoints.iter().enumerate();
    endpoints.filter(|(_, endpoint)| endpoint.source.name() == source.name).map(|(index, _)| index).collect()
}

async fn ask<'a>(app: &'a App, source: &SourceConfig, endpoints: &[usize]) -> CheckResult<'a> {
    let all = &app.config().endpoints;
    check::check(source, endpoints.iter().map(|&index| &all[index]), CONNECT).await
}

/// The result of preparing a source's statements.
struct SourcePreparation {
    /// The columns of each endpoint's statements, with its index.
    columns: Vec<(usize, Vec<Option<Columns>>)>,
    unprepared: UnpreparedEndpoints,
    refusals: Vec<StatementRefusal>,
    oversights: Vec<StatementRefusal>,
    failed: Option<Error>,
}

impl SourcePreparation {
    /// The last of the `endpoints` may not have been checked.
    fn new(mut endpoints: Vec<usize>, checked: CheckResult<'_>) -> Self {
        let waiting = endpoints.split_off(checked.endpoints.len());
        let (mut refused, mut columns) = (Vec::new(), Vec::new());
        let (mut refusals, mut oversights) = (Vec::new(), Vec::new());
        for (index, endpoint) in endpoints.into_iter().zip(checked.endpoints) {
            oversights.extend(endpoint.oversights);
            oversights.extend(endpoint.warnings);
            columns.push((index, endpoint.results));
            if !endpoint.refusals.is_empty() {
                refused.push(index);
                refusals.extend(endpoint.refusals);
            }
        }
        let unprepared = UnpreparedEndpoints { waiting, refused };
        Self { columns, unprepared, refusals, oversights, failed: checked.failed }
    }
}

fn warn(source: &SourceConfig, error: &Error) {
    log::warning!(
        "warning: {}\n    hint: `ready` answers 503 until source {} has prepared its statements; the server \
         keeps trying",
        error.for_operators(),
        source.name
    );
}

fn lines(refusals: &[StatementRefusal]) -> String {
    refusals.iter().map(StatementRefusal::to_string).collect::<Vec<_>>().join("\n")
}
