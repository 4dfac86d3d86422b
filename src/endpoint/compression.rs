//! `compression`: an endpoint's setting, or the default from the configuration.

use rowstream_core::diagnostic::reader::Value;

/// Decides if responses are compressed for clients that ask for it (`Accept-Encoding`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Compresses for clients on other machines. A client on this machine would gain nothing,
    /// because the same processor would compress and decompress.
    #[default]
    Auto,
    /// Compresses for every client.
    On,
    /// Never compresses.
    Off,
}

/// `"auto"`, `"on"` or `"off"`.
pub(crate) fn read(value: &Value<'_>) -> Option<Compression> {
    match value.string()?.as_str() {
        "auto" => Some(Compression::Auto),
        "on" => Some(Compression::On),
        "off" => Some(Compression::Off),
        text => {
            let message = format!("`compression` cannot be {}", value.shown(text));
            value.error_with(message, r#"write "auto", "on" or "off""#);
            None
        }
    }
}
