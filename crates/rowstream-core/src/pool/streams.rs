//! The streams that have slots. Counts the slots of each client, and chooses streams that give way
//! when requests wait. Only a stream with a slow reader can be chosen, because it keeps its slot
//! longer than the database needs.
//!
//! At most as many streams give way as requests wait. Streams whose client has stopped reading go
//! first. Then the slowest streams of the client with the most slots go, until it has as many as a
//! client that waits.

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
    slow: BTreeMap<u64, SlowStreamEntry>,
    next: u64,
}

/// A stream with a slow reader.
#[derive(Debug)]
struct SlowStreamEntry {
    client: Client,
    reader: SlowReader,
    gives_way: Option<Instant>,
}

/// The speed of a client that reads slower than the database sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowReader {
    /// Bytes per second that it has read so far.
    pub rate: u64,
    /// True if it has read nothing for some time.
    pub stands_still: bool,
}

/// A slot of a client's stream. It counts until it's dropped.
pub(super) struct ClientSlot {
    streams: Arc<Mutex<Streams>>,
    client: Client,
}

/// A stream with a slow reader, which may have to give way. Registered until it's dropped.
#[derive(Debug)]
pub struct SlowStream {
    streams: Arc<Mutex<Streams>>,
    number: u64,
}

impl Streams {
    /// Counts one more slot of `client`.
    pub(super) fn take(streams: &Arc<Mutex<Self>>, client: Client) -> ClientSlot {
        *streams.lock().places.entry(client).or_default() += 1;
        ClientSlot { streams: Arc::clone(streams), client }
    }

    /// Registers a stream of `client` that has become slow.
    pub(super) fn slow(streams: &Arc<Mutex<Self>>, client: Client) -> SlowStream {
        let mut all = streams.lock();
        let number = all.next;
        all.next += 1;
        let reader = SlowReader { rate: u64::MAX, stands_still: false };
        all.slow.insert(number, SlowStreamEntry { client, reader, gives_way: None });
        SlowStream { streams: Arc::clone(streams), number }
    }

    /// The slots that clients keep: without those of their streams that give way.
    fn kept(&self) -> HashMap<Client, usize> {
        let mut kept = self.places.clone();
        for slow in self.slow.values().filter(|slow| slow.gives_way.is_some()) {
            kept.entry(slow.client).and_modify(|places| *places = places.saturating_sub(1));
        }
        kept
    }

    /// True if the slow stream of this number has to give way. `left` more streams have to, and
    /// `waiting` has the clients that wait, each with the number of its requests.
    fn is_chosen(
        &self,
        number: u64,
        reader: SlowReader,
        left: usize,
        waiting: impl Iterator<Item = (Client, usize)>,
    ) -> bool {
        let Some(SlowStreamEntry { client, .. }) = self.slow.get(&number) else { return false };
        if left == 0 || reader.stands_still {
            return left > 0;
        }
        let staying = || self.slow.iter().filter(|(_, slow)| slow.gives_way.is_none());
        let still = staying().filter(|(_, slow)| slow.reader.stands_still).count();
        let of_clients = self.kept();
        let kept_by = |client: Client| of_clients.get(&client).copied().unwrap_or_default();
        let kept = kept_by(*client);
        let most = self.slow.values().map(|slow| kept_by(slow.client)).max();
        // A waiting client may get any of the slots that are being given up.
        let given = self.slow.len() - staying().count();
        let entitled = waiting.map(|(waiting, requests)| (kept_by(waiting) + given, requests));
        let entitled: Vec<_> = entitled.filter(|(has, _)| has + 1 < kept).collect();
        let requests = entitled.iter().map(|(_, requests)| requests).sum::<usize>();
        // So many that both clients then have as many slots.
        let share = entitled.iter().map(|(has, _)| (kept - has - 1).div_ceil(2)).max().unwrap_or_default();
        let left = left.saturating_sub(still).min(requests.saturating_sub(given)).min(share);
        let slower = staying().filter(|(other, slow)| {
            slow.client == *client && (slow.reader.rate, **other) < (reader.rate, number)
        });
        most == Some(kept) && slower.count() < left
    }
}

impl SlowStream {
    /// For how long the stream has had to give way; `None` if it may keep its slot. `waiting` has the
    /// clients that wait, each with the number of its requests.
    pub(super) fn gives_way(
        &self,
        reader: SlowReader,
        waiting: impl Iterator<Item = (Client, usize)> + Clone,
    ) -> Option<Duration> {
        let mut streams = self.streams.lock();
        let others = streams.slow.iter().filter(|(number, _)| **number != self.number);
        let given = others.filter(|(_, slow)| slow.gives_way.is_some()).count();
        let left = waiting.clone().map(|(_, requests)| requests).sum::<usize>().saturating_sub(given);
        let before = streams.slow.get(&self.number)?.gives_way;
        let is_chosen = match before {
            Some(_) => left > 0,
            None => streams.is_chosen(self.number, reader, left, waiting),
        };
        let slow = streams.slow.get_mut(&self.number)?;
        slow.reader = reader;
        slow.gives_way = is_chosen.then(|| before.unwrap_or_else(Instant::now));
        slow.gives_way.map(|since| since.elapsed())
    }
}

impl Drop for ClientSlot {
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
    /// reading. Returns the streams that give way when clients wait with so many requests.
    fn given_way(readers: &[(u8, u64)], waiting: &[(u8, usize)]) -> Vec<usize> {
        let streams = Arc::default();
        let _places: Vec<_> =
            readers.iter().map(|(number, _)| Streams::take(&streams, client(*number))).collect();
        let slow: Vec<_> =
            readers.iter().map(|(number, _)| Streams::slow(&streams, client(*number))).collect();
        let ask = |index: usize, waiting: &[(u8, usize)]| {
            let rate = readers[index].1;
            let reader = SlowReader { rate, stands_still: rate == 0 };
            let waiting = waiting.iter().map(|(number, requests)| (client(*number), *requests));
            slow[index].gives_way(reader, waiting).is_some()
        };
        // All rates are known after one round. Before that, any stream could be chosen.
        assert!(!(0..readers.len()).any(|index| ask(index, &[])));
        let round = || (0..readers.len()).filter(|index| ask(*index, waiting)).collect::<Vec<_>>();
        round();
        round()
    }

    #[test]
    fn the_slowest_of_the_client_with_the_most_places_gives_way() {
        let four = &[(1, 65), (1, 20), (1, 30), (1, 70)][..];
        for (readers, waiting, expected) in [
            (&[(1, 65), (1, 20), (1, 65), (2, 10)][..], &[(3, 1)][..], &[1][..]),
            // As many give way as wait, until both clients have as many slots.
            (four, &[(2, 1), (3, 1)], &[1, 2]),
            (four, &[(2, 5)], &[1, 2]),
            // No stream gives way to requests of its own client.
            (four, &[(1, 2), (2, 1)], &[1]),
            // No request waits, or only those of clients that have as many slots already.
            (&[(1, 65), (1, 20)], &[], &[]),
            (&[(1, 65), (1, 20)], &[(1, 1)], &[]),
            (&[(1, 65), (1, 20), (2, 10)], &[(2, 1)], &[]),
            (&[(1, 65), (2, 20)], &[(3, 1)], &[]),
            // A client that has stopped reading loses its slot, even if it has few, and it's the first.
            (&[(1, 65), (1, 20), (2, 0)], &[(1, 1)], &[2]),
            (&[(1, 65), (1, 20), (2, 0)], &[(3, 1)], &[2]),
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
            (all.kept()[&client(1)], all.slow.len())
        };
        assert_eq!((places, slow), (1, 0));
        drop(other);
        assert!(streams.lock().places.is_empty());
    }
}
