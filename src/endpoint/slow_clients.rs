//! `slow_clients`: the treatment of clients that read more slowly than rows arrive, for an endpoint
//! or as the default in the configuration.

use rowstream_core::diagnostic::reader::{Value, parse_size};

/// The treatment of a client that is slower than its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlowClients {
    /// The rows wait in the database.
    #[default]
    Hold,
    /// The remaining rows wait in a temporary file.
    Spill,
    /// The stream is aborted once the client reads fewer bytes per second than this.
    MinRate(usize),
}

/// `"hold"`, `"spill"` or `{ min_rate = "64KB/s" }`.
pub(crate) fn read(value: &Value<'_>) -> Option<SlowClients> {
    if !value.is_string() {
        let mut table = value.table("`slow_clients`")?;
        // The setting's name in earlier versions.
        let rate = match table.take("shed") {
            Some(rate) => {
                table.refuse(
                    "min_rate",
                    "can't be combined with `shed`, which means the same",
                    "remove `shed`",
                );
                Some(rate)
            }
            None => table.require("min_rate", HINT),
        };
        table.finish();
        return rate.and_then(|value| read_rate(&value)).map(SlowClients::MinRate);
    }
    match value.string()?.as_str() {
        "hold" => Some(SlowClients::Hold),
        "spill" => Some(SlowClients::Spill),
        text => {
            let message = format!("`slow_clients` cannot be {}", value.shown(text));
            value.error_with(message, HINT);
            None
        }
    }
}

const HINT: &str = r#"write "hold", "spill" or { min_rate = "64KB/s" }"#;

/// Bytes per second, at least one.
fn read_rate(value: &Value<'_>) -> Option<usize> {
    let text = value.string()?;
    let rate = text.trim().strip_suffix("/s").and_then(parse_size).filter(|&rate| rate > 0);
    if rate.is_none() {
        let message = format!("{} is not a rate", value.shown(&text));
        value.error_with(message, r#"write bytes a second, such as "64KB/s""#);
    }
    rate
}
