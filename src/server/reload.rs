//! Reloads the configuration for new requests. Running streams keep the old one.
//!
//! The whole configuration is read and checked first, and the databases check its statements. An
//! error changes nothing, and is reported as `rowstream check` would report it.
//!
//! ```text
//! SIGHUP, or a change ──────► read, check, prepare ──► swap the app ──► the last stream of the old app closes what's unused
//!                                            └── an error ──► reported; nothing changes
//! ```

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rowstream_core::lock::RwLock;
use rowstream_core::log;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::origin::{CheckedState, EndpointOrigin};
use super::preparing::{self, PreparationTime};
use super::systemd::{self, Roles};
use crate::access_log::LogFlag;
use crate::capacity;
use crate::config::{Config, Discovery, Limits, Tls};
use crate::respond::App;

/// The interval between checks for changes.
const LOOK: Duration = Duration::from_secs(1);

/// The app for new requests. Each request clones it once. The lock is hardly ever written, so it
/// costs no more than the reference count.
pub(super) struct CurrentApp(RwLock<Arc<App>>);

impl CurrentApp {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self(RwLock::new(app))
    }

    pub(super) fn get(&self) -> Arc<App> {
        Arc::clone(&self.0.read())
    }

    fn set(&self, app: Arc<App>) {
        *self.0.write() = app;
    }
}

/// The origin to read again, and the settings that override it.
#[derive(Debug, Clone)]
pub struct ReloadSettings {
    /// The source of the configuration.
    pub origin: EndpointOrigin,
    /// The server's address, in place of the file's.
    pub listen: Option<String>,
    /// The addresses of inherited sockets, in place of the file's.
    pub inherited: Roles<String>,
    /// The format of log lines, in place of the file's.
    pub log: Option<LogFlag>,
    /// Watches the origin for changes.
    pub watch: bool,
    /// Prepares statements before anything changes.
    pub preparing: PreparationTime,
}

/// Waits for a reason to reload, and reloads.
pub(super) struct Reloader {
    reload: ReloadSettings,
    hangup: Signal,
    ticks: Interval,
    /// The state at the last check.
    seen: CheckedState,
    /// The reload in progress.
    loading: Option<PendingReload>,
}

/// A reload in progress: the app that it replaces, and its future.
struct PendingReload {
    before: Arc<App>,
    loaded: Pin<Box<dyn Future<Output = Result<LoadedApp, String>> + Send>>,
}

/// The new app, and the changes that need a restart.
type LoadedApp = (App, Vec<&'static str>);

impl Reloader {
    /// # Errors
    /// The signal handler can't be installed, or the database can't be opened.
    pub(super) fn new(reload: ReloadSettings) -> io::Result<Self> {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let seen = reload.origin.seen().map_err(io::Error::other)?;
        Ok(Self { hangup: signal(SignalKind::hangup())?, ticks, seen, reload, loading: None })
    }

    /// Waits for a reload, and returns the previous app. Can be dropped at any point and called
    /// again; it then continues the same reload.
    pub(super) async fn reloaded(&mut self, current: &CurrentApp) -> Arc<App> {
        loop {
            let loading = match &mut self.loading {
                Some(loading) => loading,
                None => {
                    self.wanted(current).await;
                    let loading = self.load(current.get());
                    self.loading.insert(loading)
                }
            };
            let loaded = loading.loaded.as_mut().await;
            let before = Arc::clone(&loading.before);
            self.loading = None;
            match loaded {
                Ok(loaded) => {
                    self.swap(current, &before, loaded);
                    systemd::ready();
                    return before;
                }
                Err(why) => log::error!("{why}\nnot reloaded: the old configuration stays in use"),
            }
            systemd::ready();
        }
    }

    /// Waits until there is a reason to reload.
    async fn wanted(&mut self, current: &CurrentApp) {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => return,
                _ = self.ticks.tick(), if self.reload.watch => {
                    if self.seen.has_changed(&self.reload.origin, current.get().config()).await {
                        return;
                    }
                }
            }
        }
    }

    fn load(&mut self, before: Arc<App>) -> PendingReload {
        systemd::reloading();
        let loaded = Box::pin(load(self.reload.clone(), Arc::clone(&before)));
        PendingReload { before, loaded }
    }

    /// Serves new requests with the new app, and reports it.
    fn swap(&mut self, current: &CurrentApp, before: &App, (app, pending): LoadedApp) {
        for change in pending {
            log::warning!("{change} takes effect at the next start");
        }
        for unserved in &app.config().unserved {
            log::warning!("{unserved}");
        }
        for warning in capacity::warnings(app.config()) {
            log::warning!("{warning}");
        }
        if let Some(expired) = app.config().tls.as_ref().and_then(Tls::expired) {
            log::warning!("{expired}");
        }
        let (endpoints, sources) = (app.config().endpoints.len(), app.config().sources.len());
        if app.config().folder != before.config().folder {
            self.seen.other_folder(&self.reload.origin, app.config());
        }
        log::set_format(app.config().log.format);
        current.set(Arc::new(app));
        log::info!("reloaded: {endpoints} endpoints, {sources} sources");
    }
}

async fn load(reload: ReloadSettings, before: Arc<App>) -> Result<LoadedApp, String> {
    let mut config = reload.origin.read().await?;
    if let Some(listen) = &reload.listen {
        config.listen.clone_from(listen);
    }
    reload.inherited.apply(&mut config);
    config.log = config.log.with(reload.log);
    for source in &config.sources {
        source.create_missing().map_err(|error| format!("source {}: {error}", source.name))?;
    }
    let pending = keep_start_settings(&mut config, before.config())?;
    let app = before.reloaded(config).map_err(|error| error.to_string())?;
    let app = match reload.preparing {
        PreparationTime::Ahead => preparing::prepare(app, reload.origin.on_refusal()).await?,
        PreparationTime::Never => app,
    };
    Ok((app, pending))
}

/// Keeps the settings that only apply at the start of the process, also in everything derived from
/// them. Returns those that have changed.
///
/// # Errors
/// The file of the clients' authorities can't be read.
fn keep_start_settings(config: &mut Config, before: &Config) -> Result<Vec<&'static str>, String> {
    // The patterns name each setting, so a new one needs a decision here. A reload changes those with
    // a `_`.
    let Config {
        listen,
        socket_mode,
        admin_listen,
        discovery: Discovery { address: _, registered, consul, peers: _ },
        limits:
            Limits {
                max_connections,
                max_streams: _,
                max_streams_per_client: _,
                max_connections_by: _,
                max_connections_per_client: _,
                memory: _,
                rates: _,
                max_body: _,
                header_timeout: _,
                idle_timeout: _,
                write_timeout: _,
                drain_delay: _,
                drain_timeout: _,
                spooling: _,
                proxies: _,
            },
        tls,
        admin: _,
        console: _,
        sources: _,
        folder: _,
        endpoints: _,
        unserved: _,
        tokens: _,
        jwt: _,
        cors: _,
        hosts: _,
        log: _,
        traces: _,
        error_detail: _,
        cursor_signer: _,
        url_signer: _,
        watched: _,
    } = before;
    let mut changed = Vec::new();
    changed.extend(kept("`listen`", &mut config.listen, listen));
    changed.extend(kept("`socket_mode`", &mut config.socket_mode, socket_mode));
    changed.extend(kept("`admin_listen`", &mut config.admin_listen, admin_listen));
    changed.extend(kept("`[discovery.consul]`", &mut config.discovery.consul, consul));
    // The other replicas see the new one.
    let address =
        kept("for Consul, `address` of `[discovery]`", &mut config.discovery.registered, registered);
    changed.extend(address.filter(|_| consul.is_some()));
    changed.extend(kept("`max_connections`", &mut config.limits.max_connections, max_connections));
    changed.extend(keep_start_settings_of_tls(&mut config.tls, tls.as_ref())?);
    Ok(changed)
}

fn keep_start_settings_of_tls(
    tls: &mut Option<Tls>,
    before: Option<&Tls>,
) -> Result<Vec<&'static str>, String> {
    let (Some(tls), Some(before)) = (tls.as_mut(), before) else {
        let is_same = tls.is_none() && before.is_none();
        *tls = before.cloned();
        return Ok(if is_same { Vec::new() } else { vec!["adding or removing `[tls]`"] });
    };
    let Tls { redirect, http3, acme, identity: _, clients: _, hsts: _ } = before;
    let mut changed = Vec::new();
    changed.extend(kept("`redirect` of `[tls]`", &mut tls.redirect, redirect));
    changed.extend(kept("`http3` of `[tls]`", &mut tls.http3, http3));
    changed.extend((tls.acme != *acme).then_some("`[tls.acme]`"));
    tls.go_on(before)?;
    Ok(changed)
}

/// Sets a setting to its value before the reload. Returns its name if that was another one.
fn kept<T: Clone + PartialEq>(name: &'static str, value: &mut T, before: &T) -> Option<&'static str> {
    let has_changed = value != before;
    value.clone_from(before);
    has_changed.then_some(name)
}
