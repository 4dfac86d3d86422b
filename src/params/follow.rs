//! Whether a request waits for rows that are not there yet: `_follow`, or `feed`.

use rowstream_encode::{Choice, Format};

/// `_follow`: whether a request waits for rows that are not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// No.
    No,
    /// Yes, for all that come.
    Continuously,
    /// Yes, but only while there is none at all.
    ByLongPoll,
}

impl Choice for Followed {
    const ALL: &'static [Self] = &[Self::No, Self::Continuously, Self::ByLongPoll];

    fn name(self) -> &'static str {
        match self {
            Self::No => "0",
            Self::Continuously => "1",
            Self::ByLongPoll => "longpoll",
        }
    }
}

/// `feed`: the same in the words of CouchDB, with the format that its readers expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CouchFeed {
    /// What is there.
    Normal,
    /// `_follow=longpoll`.
    LongPoll,
    /// `_follow=1`, a line for each row.
    Continuous,
    /// `_follow=1`, an event for each row.
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
    /// What it is in our words.
    pub fn followed(self) -> Followed {
        match self {
            Self::Normal => Followed::No,
            Self::LongPoll => Followed::ByLongPoll,
            Self::Continuous | Self::EventSource => Followed::Continuously,
        }
    }

    /// The format that comes with it.
    pub fn format(self) -> Option<Format> {
        match self {
            Self::Normal | Self::LongPoll => None,
            Self::Continuous => Some(Format::Ndjson),
            Self::EventSource => Some(Format::Sse),
        }
    }
}
