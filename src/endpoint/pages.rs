//! A list of an upstream, whose elements are rows, and how its pages follow each other.
//!
//! What a file says of it; its pages are read in [`crate::stream`].

use std::sync::Arc;

use rowstream_encode::Column;

use crate::json_columns::Plan;
use crate::pointer::Pointer;
use crate::split::LONGEST_CAPTURE;
use crate::upstream;
use crate::upstream::payload::Payload;
use crate::upstream::template::Template;

/// A list that an endpoint reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pages {
    /// What is asked for the first page.
    pub template: Template,
    /// Its body: then it is a POST.
    pub payload: Option<Payload>,
    /// The names of the endpoint's parameters.
    pub names: Vec<String>,
    /// Where in a reply the array of rows is.
    pub rows: Pointer,
    /// What it is that a reply has no array there.
    pub absent: Absent,
    /// Where a reply says that it failed.
    pub error: Option<Pointer>,
    /// The columns.
    pub plan: Plan,
    /// How the list goes on; `None`: it is one page.
    pub next: Option<Next>,
    /// The most pages of a response.
    pub most: u64,
    /// The longest row, in bytes.
    pub max_row: usize,
}

/// What it is that a reply has no array of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Absent {
    /// A failure.
    #[default]
    Fails,
    /// A page without rows.
    IsEmpty,
}

/// How the next page is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// By the URL at this place of the reply.
    Url(Pointer),
    /// By the URL of the reply's `Link` with the relation `next`.
    Link,
    /// By the same request, in which this parameter of the query is the number of rows so far.
    Offset(String),
    /// By the same request, in which this parameter of the query is the number of the page, from
    /// this on.
    Page(String, u64),
    /// By the same request, in which this parameter of the query is what stands at this place of
    /// the reply.
    Cursor(String, Pointer),
    /// By the same request with this body, in which the last of the names stands for what is at
    /// this place of the reply.
    Body(Payload, Pointer),
}

/// What stands in the body of [`Next::Body`] for what the reply says.
pub const CURSOR: &str = "cursor";

impl Next {
    /// Where a reply says how it goes on, if that is in its body.
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

    /// What one response may take, in bytes.
    pub(crate) fn budget(&self) -> usize {
        // A row stands twice while its buffer grows, and a text of it again where something in it
        // was escaped.
        let row = self.max_row.saturating_mul(3);
        // A scalar stands twice while its buffer grows, and again in the request that is made of
        // it.
        let captured = 2 * 3 * LONGEST_CAPTURE;
        row.saturating_add(captured).saturating_add(upstream::budget())
    }
}
