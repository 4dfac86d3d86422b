//! The records of a framed response, which aren't rows: they begin with a member that has the tag
//! from the response's header `Rowstream-Tag`.

/// Recognizes records by their first bytes.
pub(super) struct Records {
    /// The first bytes of each record.
    start: Box<[u8]>,
    /// How many of them the current text has so far. `None` if it's a row.
    matched: Option<usize>,
}

impl Records {
    /// The records with a tag.
    pub(super) fn new(tag: &str) -> Self {
        Self { start: format!("{{\"$rowstream\":\"{tag}\",").into_bytes().into(), matched: Some(0) }
    }

    /// Reads the next bytes of the current text.
    #[inline]
    pub(super) fn part(&mut self, part: &[u8]) {
        let Some(matched) = self.matched else { return };
        let rest = &self.start[matched..];
        let length = part.len().min(rest.len());
        self.matched = (part[..length] == rest[..length]).then_some(matched + length);
    }

    /// True if the current text is a record.
    #[inline]
    pub(super) fn has_record(&self) -> bool {
        self.matched == Some(self.start.len())
    }

    /// Begins the next text.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.matched = Some(0);
    }
}
