//! Pages: lists of a statement with a known limit. Whether rows may stand after the last one is
//! said in words, because what is absent proves nothing.

/// What is known of the rows after a page, once it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageEnd {
    /// It has as many rows as the limit lets through: others may stand after them.
    Full,
    /// It has fewer: there are no others.
    Last,
}

impl PageEnd {
    /// The end of a page of so many `rows`; `None` where the limit lets none through, which says
    /// nothing of others.
    pub(crate) fn of(limit: u64, rows: u64) -> Option<Self> {
        (limit > 0).then_some(if rows >= limit { Self::Full } else { Self::Last })
    }

    /// Its name, in the header, in trailers and in the record of the end.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Last => "last",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_last_once_a_row_is_missing() {
        for (limit, rows, end) in [
            (2, 0, Some(PageEnd::Last)),
            (2, 1, Some(PageEnd::Last)),
            (2, 2, Some(PageEnd::Full)),
            (0, 0, None),
        ] {
            assert_eq!(PageEnd::of(limit, rows), end, "{rows} of {limit}");
        }
    }
}
