//! The sources of an endpoint, bound to those of the configuration when it is read: no request has
//! to look for one by its name.

use crate::source::SourceConfig;

/// A source of a configuration. Only the reader of endpoints makes one, of a source that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRef {
    index: usize,
    name: String,
}

impl SourceRef {
    /// The source of this name. Those with an error in them are in no configuration.
    pub(super) fn bind(sources: &[(String, Option<SourceConfig>)], name: &str) -> Option<Self> {
        let mut whole = sources.iter().filter_map(|(_, source)| source.as_ref());
        let index = whole.position(|source| source.name == name)?;
        Some(Self { index, name: name.to_owned() })
    }

    /// The source of a configuration that has no other.
    pub(super) fn only(name: &str) -> Self {
        Self { index: 0, name: name.to_owned() }
    }

    /// Its place among the sources of the configuration.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}
