//! `[log]` in the configuration, and the command line's flag that overrides it.

use rowstream_core::log::LogFormat;

/// `[log]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogSettings {
    /// The format of all lines.
    pub format: LogFormat,
    /// True if there's an access log.
    pub access: bool,
    /// The share of successful requests that are logged. 1 logs all.
    pub sample: f64,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { format: LogFormat::Text, access: true, sample: 1.0 }
    }
}

/// `--log-format`, which overrides `[log]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFlag {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
    /// No access log.
    Off,
}

impl LogSettings {
    /// These settings, with the changes of a flag.
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
