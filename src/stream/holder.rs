//! The holder of a stream's connection, as the pool sees it.

use std::time::Duration;

use rowstream_core::client::Client;
use rowstream_core::pool::{SlowReader, SlowStream};

use crate::source::Source;

/// The client that a stream reads for, and the source of its connection.
pub(super) struct ConnectionHolder {
    source: Source,
    client: Client,
    /// Set while the client is slow and the stream has a connection.
    slow: Option<SlowStream>,
}

impl ConnectionHolder {
    pub(super) fn new(source: Source, client: Client) -> Self {
        Self { source, client, slow: None }
    }

    /// The time since the stream should have given up its connection to a waiting request, because
    /// its client is slow. `None` if it may keep it, or has none. A connection to an HTTP service is
    /// never given up, because no request keeps it for long.
    pub(super) fn gives_way(
        &mut self,
        reader: Option<SlowReader>,
        holds_connection: bool,
    ) -> Option<Duration> {
        let (Some(reader), Source::Database(database), true) = (reader, &self.source, holds_connection)
        else {
            self.slow = None;
            return None;
        };
        database.gives_way(&mut self.slow, self.client, reader)
    }
}
