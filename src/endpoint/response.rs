//! Settings of responses, for an endpoint or as the defaults in the configuration.

use std::time::Duration;

use rowstream_core::diagnostic::reader::{Table, set};
use rowstream_encode::{CsvDialect, ValueOptions};

use super::{Compression, SlowClients, Timeout, compression, csv, slow_clients, timeout, values};

/// The default silence before a heartbeat in a stream of events. Proxies consider a connection dead
/// after 30 s or more.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How responses are written and delivered, unless a request chooses otherwise.
#[derive(Debug, Clone)]
pub struct ResponseSettings {
    /// How CSV is written.
    pub csv: CsvDialect,
    /// How values are written.
    pub values: ValueOptions,
    /// The compression of responses.
    pub compression: Compression,
    /// The time limits of a response.
    pub timeout: Timeout,
    /// The treatment of clients that are slower than the rows.
    pub slow_clients: SlowClients,
    /// How long a stream of server-sent events may be silent before it sends a heartbeat.
    pub heartbeat: Duration,
}

impl Default for ResponseSettings {
    fn default() -> Self {
        Self {
            csv: CsvDialect::default(),
            values: ValueOptions::DEFAULT,
            compression: Compression::default(),
            timeout: Timeout::default(),
            slow_clients: SlowClients::default(),
            heartbeat: HEARTBEAT,
        }
    }
}

impl ResponseSettings {
    /// Takes the settings out of a file. Those that it lacks are those of `defaults`.
    pub(crate) fn take(table: &mut Table<'_>, defaults: &Self) -> Self {
        let mut settings = defaults.clone();
        if let Some(value) = table.take("csv") {
            settings.csv = csv::read(&value, settings.csv);
        }
        if let Some(value) = table.take("values") {
            settings.values = values::read(&value, settings.values);
        }
        set(&mut settings.compression, table.take("compression").and_then(|value| compression::read(&value)));
        set(&mut settings.heartbeat, table.take("heartbeat").and_then(|value| value.duration()));
        if let Some(value) = table.take("timeout") {
            settings.timeout = timeout::read(&value, settings.timeout);
        }
        set(
            &mut settings.slow_clients,
            table.take("slow_clients").and_then(|value| slow_clients::read(&value)),
        );
        settings
    }
}
