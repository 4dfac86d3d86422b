//! `[log]` of a configuration, and the flag of the command line that overrides it.

use rowstream_core::log::LogFormat;

/// `[log]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogSettings {
    /// How all lines look.
    pub format: LogFormat,
    /// Whether there is an access log.
    pub access: bool,
    /// The part of the requests that went well that the access log has: 1 is all of them.
    pub sample: f64,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { format: LogFormat::Text, access: true, sample: 1.0 }
    }
}

/// `--log-format`, which wins over `[log]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFlag {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
    /// No access log.
    Off,
}

impl LogSettings {
    /// These settings, and what a flag changes of them.
    #[must_use]
    pub fn with(self, flag: Option<LogFlag>) -> Self {
        match flag {
            None => self,
            Some(LogFlag::Text) => Self { format: LogFormat::Text, ..self },
            Some(LogFlag::Json) => Self { format: LogFormat::Json, ..self },
            Some(LogFlag::Off) => Self { access: false, ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_wins() {
        let settings = LogSettings { format: LogFormat::Json, access: true, sample: 0.5 };
        assert_eq!(settings.with(None), settings);
        assert_eq!(settings.with(Some(LogFlag::Text)).format, LogFormat::Text);
        assert_eq!(settings.with(Some(LogFlag::Off)), LogSettings { access: false, ..settings });
    }
}
