//! The server's messages on standard error, each a text or a JSON object on its own line. The
//! access log on standard output belongs to `access_log`, which uses the format, the escapes and
//! the [`lines`] of this module.
//!
//! There are three levels and no filter: the server logs little, and all of it matters.

pub mod lines;
pub mod text;

use std::fmt::Arguments;
use std::io::{self, Write as _};
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};

use self::lines::MESSAGES;
use self::text::Object;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The importance of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// An event.
    Info,
    /// A likely mistake, or a problem in the future.
    Warning,
    /// A failure.
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Logs an event.
#[macro_export]
macro_rules! log_info {
    ($($argument:tt)*) => { $crate::log::say($crate::log::Level::Info, format_args!($($argument)*)) };
}

/// Logs a likely mistake, or a problem in the future.
#[macro_export]
macro_rules! log_warning {
    ($($argument:tt)*) => { $crate::log::say($crate::log::Level::Warning, format_args!($($argument)*)) };
}

/// Logs a failure.
#[macro_export]
macro_rules! log_error {
    ($($argument:tt)*) => { $crate::log::say($crate::log::Level::Error, format_args!($($argument)*)) };
}

pub use {log_error as error, log_info as info, log_warning as warning};

/// True if messages are JSON. It's global, because the process has one standard error.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Sets the format of all further messages, including panics.
pub fn set_format(format: LogFormat) {
    let is_json = format == LogFormat::Json;
    if IS_JSON.swap(is_json, Ordering::Relaxed) != is_json {
        drop(panic::take_hook());
        if is_json {
            panic::set_hook(Box::new(panicked));
        }
    }
}

/// Logs a message. A slow or missing reader doesn't affect the server.
pub fn say(level: Level, message: Arguments<'_>) {
    let message = message.to_string();
    match IS_JSON.load(Ordering::Relaxed) {
        true => MESSAGES.write(&object(level, &message)),
        false => MESSAGES.write(&message),
    };
}

/// Waits until all lines of both logs are written.
pub fn flush() {
    lines::ACCESS.flush();
    MESSAGES.flush();
}

fn object(level: Level, message: &str) -> String {
    let (level, message) = without_prefix(level, message);
    let mut object = Object::empty();
    object.raw("time", format_args!("\"{:.3}\"", jiff::Timestamp::now()));
    object.text("level", level.name());
    object.text("message", message);
    object.finish()
}

/// Replaces a level's prefix in the text with the level, which has its own member in JSON.
fn without_prefix(level: Level, message: &str) -> (Level, &str) {
    let prefixes = [("note: ", Level::Info), ("warning: ", Level::Warning), ("error: ", Level::Error)];
    let mut found =
        prefixes.into_iter().filter_map(|(prefix, level)| Some((level, message.strip_prefix(prefix)?)));
    found.next().unwrap_or((level, message))
}

/// Writes the line directly, because the panicked thread may be the one that writes lines.
fn panicked(info: &PanicHookInfo<'_>) {
    let mut line = object(Level::Error, &info.to_string());
    line.push('\n');
    let _ = io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_objects() {
        for (level, message, expected) in [
            (Level::Info, "listening", ("info", "listening")),
            (Level::Warning, "slow", ("warning", "slow")),
            (Level::Info, "warning: it is slow", ("warning", "it is slow")),
            (Level::Info, "error: \"a\"\n    hint: b\u{9b}", ("error", "\"a\"\n    hint: b\u{9b}")),
            (Level::Warning, "note: not served", ("info", "not served")),
        ] {
            let line = object(level, message);
            assert!(!line.contains(char::is_control), "{line:?}");
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!((&line["level"], &line["message"]), (&expected.0.into(), &expected.1.into()));
            assert!(line["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{line}");
        }
    }
}
