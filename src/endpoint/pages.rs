//! An upstream's list, whose elements become rows, and the way from one page to the next.
//!
//! This module has the settings; [`crate::stream`] reads the pages.

use std::sync::Arc;

use rowstream_encode::Column;

use rowstream_upstream::json_columns::Plan;
use rowstream_upstream::payload::Payload;
use rowstream_upstream::pointer::Pointer;
use rowstream_upstream::split::LONGEST_CAPTURE;
use rowstream_upstream::template::Template;

/// A list that an endpoint reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pages {
    /// The request for the first page.
    pub template: Template,
    /// The request's body. If there is one, the request is a POST.
    pub payload: Option<Payload>,
    /// The names of the endpoint's parameters.
    pub names: Vec<String>,
    /// The position of the array of rows in a reply.
    pub rows: Pointer,
    /// The meaning of a reply without that array.
    pub absent: MissingRows,
    /// The position of an error message in a reply.
    pub error: Option<Pointer>,
    /// The columns of the rows.
    pub plan: Plan,
    /// How to find the next page. `None`: there's only one.
    pub next: Option<NextPage>,
    /// The most pages of a response.
    pub most: u64,
    /// The longest row, in bytes.
    pub max_row: usize,
}

/// The meaning of a reply without an array of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingRows {
    /// The request failed.
    #[default]
    Fails,
    /// The page has no rows.
    IsEmpty,
}

/// How to request the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextPage {
    /// Use the URL at this position of the reply.
    Url(Pointer),
    /// Use the URL of the reply's `Link` header with the relation `next`.
    Link,
    /// Repeat the request. This query parameter is the number of rows so far.
    Offset(String),
    /// Repeat the request. This query parameter is the number of the page, beginning with the given
    /// one.
    Page(String, u64),
    /// Repeat the request. This query parameter is the value at this position of the reply.
    Cursor(String, Pointer),
    /// Repeat the request with this body. The last of its names is the value at this position of
    /// the reply.
    Body(Payload, Pointer),
}

/// The name in the body of [`NextPage::Body`] for the value from the reply.
pub const CURSOR: &str = "cursor";

impl NextPage {
    /// The position in a reply that leads to the next page, if it's in the reply's body.
    pub(crate) fn pointer(&self) -> Option<&Pointer> {
        match self {
            Self::Url(at) | Self::Cursor(_, at) | Self::Body(_, at) => Some(at),
            Self::Link | Self::Offset(_) | Self::Page(..) => None,
        }
    }
}

impl Pages {
    /// The columns of the rows.
    pub fn columns(&self) -> Arc<[Column]> {
        self.plan.columns()
    }

    /// The most memory for one response, in bytes.
    pub(crate) fn budget(&self) -> usize {
        // A row counts twice because its buffer is copied while it grows. A text in it counts once
        // more because it's copied if something in it was escaped.
        let row = self.max_row.saturating_mul(3);
        // A scalar counts twice because its buffer is copied while it grows, and once more in the
        // request that's built from it.
        let captured = 2 * 3 * LONGEST_CAPTURE;
        row.saturating_add(captured).saturating_add(rowstream_upstream::budget())
    }
}
