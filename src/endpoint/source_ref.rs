//! References from endpoints to the sources of the configuration. They're resolved when files are
//! read, so that requests needn't search for a source by its name.

use crate::source::SourceConfig;

/// A source of the configuration. Only the reader of endpoints creates one, for a source that
/// exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRef {
    index: usize,
    name: String,
}

impl SourceRef {
    /// Finds the source with this name. Sources with an error aren't in the configuration.
    pub(super) fn bind(sources: &[(String, Option<SourceConfig>)], name: &str) -> Option<Self> {
        let mut whole = sources.iter().filter_map(|(_, source)| source.as_ref());
        let index = whole.position(|source| source.name == name)?;
        Some(Self { index, name: name.to_owned() })
    }

    /// The only source of a configuration.
    pub(super) fn only(name: &str) -> Self {
        Self { index: 0, name: name.to_owned() }
    }

    /// Its index among the sources of the configuration.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The source's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}
