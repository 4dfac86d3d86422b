//! `compression`: whether answers are compressed, of an endpoint, and of the configuration for
//! those that do not say.

use crate::diagnostic::reader::Value;

/// Whether answers are compressed for clients that ask for it (`Accept-Encoding`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// For clients on other machines. One on this machine has no network to spare, and would pay
    /// with the same processor.
    #[default]
    Auto,
    /// For all of them.
    On,
    /// For none.
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
