//! The streams that have slots. Counts the slots of each client, and chooses streams that give way
//! when requests wait. Only a stream with a slow reader can be chosen, because it keeps its slot
//! longer than the database needs.
//!
//! As many streams give way as requests wait. Streams whose client has stopped reading go first.
//! Then the slowest streams of the client with the most slots go, if that client has more than a
//! waiting one would have with one more.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::Client;
use crate::lock::Mutex;

/// The streams of a pool.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Slots of streams, by client.
    places: HashMap<Client, usize>,
    /// The streams with slow readers, by number.
    slow: BTreeMap<u64, Slow>,
    next: u64,
}

/// A stream with a slow reader.
#[derive(Debug)]
struct Slow {
    client: Client,
    /// Bytes per second.
    rate: u64,
    gives_way: Option<Instant>,
}

/// The speed of a client that reads slower than the database sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlowReader {
    /// Bytes per second that it has read so far.
    pub(crate) rate: u64,
    /// True if it has read nothing for some time.
    pub(crate) stands_still: bool,
}

/// A slot of a client's stream. It counts until it's dropped.
pub(super) struct Place {
    streams: Arc<Mutex<Streams>>,
    client: Client,
}

/// A stream with a slow reader, which may have to give way. Registered until it's dropped.
#[derive(Debug)]
pub(crate) struct SlowStream {
    streams: Arc<Mutex<Streams>>,
    number: u64,
}

impl Streams {
    /// Counts one more slot of `client`.
    pub(super) fn take(streams: &Arc<Mutex<Self>>, client: Client) -> Place {
        *streams.lock().places.entry(client).or_default() += 1;
        Place { streams: Arc::clone(streams), client }
    }

    /// Registers a stream of `client` that has become slow.
    pub(super) fn slow(streams: &Arc<Mutex<Self>>, client: Client) -> SlowStream {
        let mut all = streams.lock();
        let number = all.next;
        all.next += 1;
        all.slow.insert(number, Slow { client, rate: u64::MAX, gives_way: None });
        SlowStream { streams: Arc::clone(streams), number }
    }

    fn places(&self, client: Client) -> usize {
        self.places.get(&client).copied().unwrap_or_default()
    }

    /// True if the slow stream of this number has to give way, when `left` more streams should: its
    /// client has stopped reading, or it's one of the slowest of the client with the most slots.
    fn is_chosen(
        &self,
        (number, reader): (u64, SlowReader),
        left: usize,
        waiting: impl Iterator<Item = Client>,
    ) -> bool {
        let Some(Slow { client, .. }) = self.slow.get(&number) else { return false };
        if reader.stands_still {
            return true;
        }
        let places = self.places(*client);
        let most = self.slow.values().map(|slow| self.places(slow.client)).max();
        let fewest = waiting.map(|client| self.places(client)).min();
        if most > Some(places) || fewest.is_none_or(|fewest| places <= fewest + 1) {
            return false;
        }
        let stays = self.slow.iter().filter(|(_, slow)| slow.client == *client && slow.gives_way.is_none());
        stays.filter(|(other, slow)| (slow.rate, **other) < (reader.rate, number)).count() < left
    }
}

impl SlowStream {
    /// For how long the stream has had to give way; `None` if it may keep its slot. `wait` requests
    /// wait, from the clients `waiting`.
    pub(super) fn gives_way(
        &self,
        reader: SlowReader,
        wait: usize,
        waiting: impl Iterator<Item = Client>,
    ) -> Option<Duration> {
        let mut streams = self.streams.lock();
        let others = streams.slow.iter().filter(|(number, _)| **number != self.number);
        let left = wait.saturating_sub(others.filter(|(_, slow)| slow.gives_way.is_some()).count());
        let before = streams.slow.get(&self.number)?.gives_way;
        let chosen =
            left > 0 && (before.is_some() || streams.is_chosen((self.number, reader), left, waiting));
        let slow = streams.slow.get_mut(&self.number)?;
        slow.rate = reader.rate;
        slow.gives_way = chosen.then(|| before.unwrap_or_else(Instant::now));
        slow.gives_way.map(|since| since.elapsed())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut streams = self.streams.lock();
        match streams.places.get_mut(&self.client) {
            Some(places) if *places > 1 => *places -= 1,
            _ => drop(streams.places.remove(&self.client)),
        }
    }
}

impl Drop for SlowStream {
    fn drop(&mut self) {
        self.streams.lock().slow.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> Client {
        Client::Address([127, 0, 0, number].into())
    }

    /// Each reader is the number of a client and a rate in bytes per second; rate 0 has stopped
    /// reading. Returns the streams that give way, one after the other, when requests of these
    /// clients wait.
    fn given_way(readers: &[(u8, u64)], waiting: &[u8]) -> Vec<usize> {
        let streams = Arc::default();
        let _places: Vec<_> =
            readers.iter().map(|(number, _)| Streams::take(&streams, client(*number))).collect();
        let slow: Vec<_> =
            readers.iter().map(|(number, _)| Streams::slow(&streams, client(*number))).collect();
        let ask = |index: usize| {
            let rate = readers[index].1;
            let reader = SlowReader { rate, stands_still: rate == 0 };
            let clients = waiting.iter().map(|number| client(*number));
            slow[index].gives_way(reader, waiting.len(), clients).is_some()
        };
        // All rates are known after one round. Before that, any stream could be chosen.
        let nobody = |index: usize| {
            let reader = SlowReader { rate: readers[index].1, stands_still: false };
            slow[index].gives_way(reader, 0, std::iter::empty()).is_some()
        };
        assert!(!(0..readers.len()).any(nobody));
        (0..readers.len()).filter(|index| ask(*index)).collect()
    }

    #[test]
    fn the_slowest_of_the_client_with_the_most_places_gives_way() {
        for (readers, waiting, expected) in [
            (&[(1, 65), (1, 20), (1, 65), (2, 10)][..], &[3][..], &[1][..]),
            // As many give way as wait.
            (&[(1, 65), (1, 20), (1, 30), (1, 70)], &[2, 3], &[1, 2]),
            // No request waits, or only those of clients that have as many slots already.
            (&[(1, 65), (1, 20)], &[], &[]),
            (&[(1, 65), (1, 20)], &[1], &[]),
            (&[(1, 65), (1, 20), (2, 10)], &[2], &[]),
            (&[(1, 65), (2, 20)], &[3], &[]),
            // A client that has stopped reading loses its slot, even if it has few.
            (&[(1, 65), (1, 20), (2, 0)], &[1], &[2]),
        ] {
            assert_eq!(given_way(readers, waiting), expected, "{readers:?} {waiting:?}");
        }
    }

    #[test]
    fn nothing_is_kept_of_streams_that_have_ended() {
        let streams = Arc::default();
        let (place, other) = (Streams::take(&streams, client(1)), Streams::take(&streams, client(1)));
        let slow = Streams::slow(&streams, client(1));
        drop((place, slow));
        let (places, slow) = {
            let all = streams.lock();
            (all.places(client(1)), all.slow.len())
        };
        assert_eq!((places, slow), (1, 0));
        drop(other);
        assert!(streams.lock().places.is_empty());
    }
}
