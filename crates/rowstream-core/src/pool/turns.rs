//! A queue in which clients take turns: each client has one turn per round, however many of its
//! requests wait.
//!
//! It doesn't know connections. Each step costs O(log n) for n waiting requests, plus the requests
//! that a search skips.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::Client;

/// Waiting requests of type `W`.
pub(super) struct Turns<W> {
    lines: BTreeMap<Client, ClientQueue<W>>,
    /// The clients that have requests, each once, in the order of their turns.
    order: BTreeMap<u64, Client>,
    /// The same clients, by the number of their requests.
    lengths: BTreeSet<(usize, Client)>,
    length: usize,
    next: u64,
}

/// The requests of one client, first come, first served.
struct ClientQueue<W> {
    turn: u64,
    requests: BTreeMap<u64, W>,
}

/// The decision about a request during a search for the next one.
pub(super) enum SearchDecision<T> {
    /// Take it, with this value.
    Take(T),
    /// Look at the next one.
    Skip,
    /// End the search without a result.
    Stop,
}

impl<W> Default for Turns<W> {
    fn default() -> Self {
        let (lines, order, lengths) = Default::default();
        Self { lines, order, lengths, length: 0, next: 0 }
    }
}

impl<W> Turns<W> {
    /// The number of waiting requests.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The number of waiting requests of a client.
    pub(super) fn len_of(&self, client: Client) -> usize {
        self.lines.get(&client).map_or(0, |line| line.requests.len())
    }

    /// The clients with waiting requests, and how many each has.
    pub(super) fn clients(&self) -> impl Iterator<Item = (Client, usize)> + Clone {
        self.lines.iter().map(|(client, line)| (*client, line.requests.len()))
    }

    /// The client with the most waiting requests, and their number.
    pub(super) fn longest(&self) -> Option<(usize, Client)> {
        self.lengths.last().copied()
    }

    /// Appends a request to those of its client. A client without requests gets the last turn. The
    /// returned number is for [`remove`](Self::remove).
    pub(super) fn push(&mut self, client: Client, request: W) -> u64 {
        let number = self.number();
        let line = self.lines.entry(client).or_insert_with(|| {
            self.order.insert(number, client);
            ClientQueue { turn: number, requests: BTreeMap::new() }
        });
        self.lengths.remove(&(line.requests.len(), client));
        line.requests.insert(number, request);
        self.lengths.insert((line.requests.len(), client));
        self.length += 1;
        number
    }

    /// Takes the first request, in the order of turns, for which `look` says so. Its client's next
    /// turn is after those of all others.
    pub(super) fn pop<T>(&mut self, look: impl Fn(&W) -> SearchDecision<T>) -> Option<(Client, W, T)> {
        let (client, number, taken) = self.find(look)?;
        let turn = self.number();
        let line = self.lines.get_mut(&client)?;
        self.order.remove(&line.turn);
        line.turn = turn;
        self.order.insert(turn, client);
        Some((client, self.remove(client, number)?, taken))
    }

    fn find<T>(&self, look: impl Fn(&W) -> SearchDecision<T>) -> Option<(Client, u64, T)> {
        for (client, line) in self.order.values().filter_map(|client| self.lines.get_key_value(client)) {
            for (number, request) in &line.requests {
                match look(request) {
                    SearchDecision::Take(taken) => return Some((*client, *number, taken)),
                    SearchDecision::Skip => {}
                    SearchDecision::Stop => return None,
                }
            }
        }
        None
    }

    /// Takes the last request of a client.
    pub(super) fn pop_last_of(&mut self, client: Client) -> Option<W> {
        let last = *self.lines.get(&client)?.requests.last_key_value()?.0;
        self.remove(client, last)
    }

    /// Takes a request by its number, from any position.
    pub(super) fn remove(&mut self, client: Client, number: u64) -> Option<W> {
        let line = self.lines.get_mut(&client)?;
        let request = line.requests.remove(&number)?;
        self.length -= 1;
        self.lengths.remove(&(line.requests.len() + 1, client));
        match line.requests.len() {
            0 => {
                self.order.remove(&line.turn);
                self.lines.remove(&client);
            }
            left => drop(self.lengths.insert((left, client))),
        }
        Some(request)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> Client {
        Client::Address([127, 0, 0, number].into())
    }

    /// A queue of requests, given by their clients.
    fn line(clients: &[u8]) -> Turns<u8> {
        let mut turns = Turns::default();
        clients.iter().for_each(|&number| {
            turns.push(client(number), number);
        });
        turns
    }

    /// Takes the request whose turn it is.
    fn pop(turns: &mut Turns<u8>) -> Option<u8> {
        turns.pop(|_| SearchDecision::Take(())).map(|(_, request, ())| request)
    }

    fn all(turns: &mut Turns<u8>) -> Vec<u8> {
        std::iter::from_fn(|| pop(turns)).collect()
    }

    fn is_empty<W>(turns: &Turns<W>) -> bool {
        turns.len() == 0 && turns.lines.is_empty() && turns.order.is_empty() && turns.lengths.is_empty()
    }

    #[test]
    fn clients_take_turns() {
        for (came, served) in [
            (&[1, 1, 1][..], &[1, 1, 1][..]),
            (&[1, 1, 1, 2], &[1, 2, 1, 1]),
            (&[1, 1, 1, 2, 2, 3], &[1, 2, 3, 1, 2, 1]),
            (&[2, 1, 1, 3, 2], &[2, 1, 3, 2, 1]),
        ] {
            let mut turns = line(came);
            assert_eq!((turns.len(), all(&mut turns)), (came.len(), served.to_vec()), "{came:?}");
            assert!(is_empty(&turns));
        }
    }

    #[test]
    fn who_comes_again_at_once_has_no_turn_before_the_others() {
        let mut turns = line(&[1, 2, 3]);
        assert_eq!(pop(&mut turns), Some(1));
        turns.push(client(1), 1);
        assert_eq!(all(&mut turns), [2, 3, 1]);
    }

    #[test]
    fn who_is_skipped_keeps_its_turn() {
        let mut turns = line(&[1, 2, 3, 2]);
        let second = turns
            .pop(|&number| if number == 2 { SearchDecision::Take(number) } else { SearchDecision::Skip });
        assert_eq!(second, Some((client(2), 2, 2)));
        let stopped =
            turns.pop(|&number| if number == 1 { SearchDecision::Stop } else { SearchDecision::Take(()) });
        assert_eq!((stopped, all(&mut turns)), (None, vec![1, 3, 2]));
        assert!(is_empty(&turns));
    }

    #[test]
    fn requests_leave_from_anywhere() {
        let mut turns = line(&[1, 2]);
        let middle = turns.push(client(1), 11);
        turns.push(client(1), 12);
        assert_eq!((turns.remove(client(1), middle), turns.remove(client(1), middle)), (Some(11), None));
        assert_eq!((turns.longest(), turns.len_of(client(2))), (Some((2, client(1))), 1));
        assert_eq!(turns.pop_last_of(client(1)), Some(12));
        assert_eq!((turns.pop_last_of(client(2)), turns.pop_last_of(client(2))), (Some(2), None));
        assert_eq!((turns.longest(), all(&mut turns)), (Some((1, client(1))), vec![1]));
        assert!(is_empty(&turns));
    }
}
