//! `_follow` and `feed`: how a request waits for new rows.

use rowstream_encode::{Choice, Format};

/// `_follow`: how a request waits for new rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowMode {
    /// It doesn't wait.
    No,
    /// It waits for all new rows.
    Continuously,
    /// It waits only as long as there's no row at all.
    ByLongPoll,
}

impl Choice for FollowMode {
    const ALL: &'static [Self] = &[Self::No, Self::Continuously, Self::ByLongPoll];

    fn name(self) -> &'static str {
        match self {
            Self::No => "0",
            Self::Continuously => "1",
            Self::ByLongPoll => "longpoll",
        }
    }
}

/// `feed`: CouchDB's name for `_follow`. It also selects the format that CouchDB's clients expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CouchFeed {
    /// Only the rows that exist now.
    Normal,
    /// The same as `_follow=longpoll`.
    LongPoll,
    /// The same as `_follow=1`, with a line for each row.
    Continuous,
    /// The same as `_follow=1`, with an event for each row.
    EventSource,
}

impl Choice for CouchFeed {
    const ALL: &'static [Self] = &[Self::Normal, Self::LongPoll, Self::Continuous, Self::EventSource];

    fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::LongPoll => "longpoll",
            Self::Continuous => "continuous",
            Self::EventSource => "eventsource",
        }
    }
}

impl CouchFeed {
    /// The same as a `_follow`.
    pub fn followed(self) -> FollowMode {
        match self {
            Self::Normal => FollowMode::No,
            Self::LongPoll => FollowMode::ByLongPoll,
            Self::Continuous | Self::EventSource => FollowMode::Continuously,
        }
    }

    /// The format that it selects.
    pub fn format(self) -> Option<Format> {
        match self {
            Self::Normal | Self::LongPoll => None,
            Self::Continuous => Some(Format::Ndjson),
            Self::EventSource => Some(Format::Sse),
        }
    }
}
