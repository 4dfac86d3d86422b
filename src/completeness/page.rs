//! Pages: lists of a statement with a known limit. The answer always says if rows may follow the
//! last one, because a missing statement proves nothing.

/// Tells if rows may follow a page, once it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageEnd {
    /// It has as many rows as the limit allows, so others may follow.
    Full,
    /// It has fewer rows, so no others follow.
    Last,
}

impl PageEnd {
    /// The end of a page of so many `rows`. `None` if the limit is 0, because then the page doesn't
    /// show if there are others.
    pub(crate) fn of(limit: u64, rows: u64) -> Option<Self> {
        (limit > 0).then_some(if rows >= limit { Self::Full } else { Self::Last })
    }

    /// Its name in the header, in trailers and in the end record.
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
