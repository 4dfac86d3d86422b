//! A configuration without a file: a database, and endpoints that the program itself generated.

use std::path::PathBuf;

use rowstream_core::cursor::Signer;
use rowstream_core::diagnostic::{Collector, Diagnostic, File, Variables};

use super::{AdminAccess, AllowedHosts, Config, Discovery, Limits, read};
use crate::access_log::LogSettings;
use crate::endpoint::Endpoint;
use crate::endpoint::read::{self as endpoint, ClientIdentification, Defaults};
use crate::source::SourceConfig;

/// See [`Config::of_endpoints`].
pub(super) fn read(source: SourceConfig, files: &[(PathBuf, String)]) -> (Config, Vec<Diagnostic>) {
    let mut refused = Vec::new();
    let sources = [(source.name.clone(), Some(source.clone()))];
    let known = ClientIdentification::default();
    let defaults = Defaults::new(&sources, &known);
    let endpoint = |(path, text): &(PathBuf, String)| {
        let errors = Collector::default();
        let file = File { path, text, variables: Variables::Keep, errors: &errors };
        let read = endpoint::read(file, path, &defaults);
        let read = errors.finish(read);
        read.unwrap_or_else(|errors| {
            refused.extend(errors.iter().next().cloned());
            None
        })
    };
    let mut endpoints: Vec<_> = files.iter().filter_map(endpoint).collect();
    let conflicts = Collector::default();
    read::check_conflicts(&endpoints, &conflicts);
    if let Err(conflicts) = conflicts.finish(()) {
        let is_second = |endpoint: &Endpoint| conflicts.iter().any(|second| second.file == endpoint.file);
        endpoints.retain(|endpoint| !is_second(endpoint));
        refused.extend(conflicts.iter().cloned());
    }
    let mut config = Config { endpoints, ..bare(source) };
    // A user who serves a file wants to look into it, so plans are on.
    config.explain();
    // Without roles, the planner knows no more than a client may read.
    for endpoint in &mut config.endpoints {
        endpoint.allow_planned_totals();
    }
    (config, refused)
}

/// A configuration with one source and otherwise the defaults.
pub(super) fn bare(source: SourceConfig) -> Config {
    Config {
        listen: Config::LISTEN.to_owned(),
        socket_mode: Config::SOCKET_MODE,
        admin_listen: None,
        tls: None,
        sources: vec![source],
        folder: PathBuf::new(),
        endpoints: Vec::new(),
        unserved: Vec::new(),
        tokens: std::collections::BTreeMap::new(),
        admin: AdminAccess::PUBLIC,
        console: true,
        discovery: Discovery::default(),
        jwt: None,
        cors: None,
        hosts: AllowedHosts::ThisMachine,
        limits: Limits::default(),
        log: LogSettings::default(),
        traces: None,
        error_detail: None,
        cursor_signer: Signer::new("", &[]),
        url_signer: None,
        watched: Vec::new(),
    }
}
