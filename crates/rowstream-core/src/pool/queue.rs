//! The slots of a pool, and the queue of the requests that wait for one. It only counts: its caller
//! wakes the waiters.
//!
//! ```text
//! take ──► there's room: a slot
//!   │
//!   └────► join ──► next, once there's room ──► a slot
//!            │
//!            └────► leave: its time is over, or its client is gone
//! ```
//!
//! Invariants:
//!
//! 1. slots in use + free slots = `max`, at every moment;
//! 2. streams leave the slots free that are [kept](ReservedSlots) for lookups. Lookups with a
//!    connection of their own leave those free that are kept for shared connections;
//! 3. a waiter is served as soon as there's a suitable slot for its priority. Lookups go before the
//!    next stream only if they already waited when the previous stream was served. So a lookup
//!    waits for at most one stream, and a stream doesn't wait for an endless series of lookups;
//! 4. within one priority, clients take turns.

use super::sites::Choice;
use super::turns::{SearchDecision, Turns};
use crate::Error;
use crate::client::Client;

/// The use of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A connection that many lookups share.
    Shared,
    /// One row, one reply or a check: it's over soon.
    Lookup,
    /// A list, which may take as long as its client wants.
    Stream,
}

impl Priority {
    pub(super) const ALL: [Self; 3] = [Self::Shared, Self::Lookup, Self::Stream];
}

/// Slots that are kept free for short uses, or for connections that many requests share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReservedSlots {
    /// For connections that lookups share.
    pub shared: usize,
    /// For lookups that need a connection of their own.
    pub own: usize,
}

impl ReservedSlots {
    /// The slots that a pool of `max` keeps for lookups, `shared` of them for connections that
    /// lookups share.
    pub fn for_lookups(max: usize, shared: usize) -> Self {
        Self { shared, own: usize::from(max > 1) }
    }

    /// All of them.
    pub fn all(self) -> usize {
        self.shared + self.own
    }
}

/// The slots of a pool, and its waiters of type `W`.
pub(super) struct Queue<W> {
    max: usize,
    reserved: ReservedSlots,
    /// Slots in use, by priority.
    used: [usize; Priority::ALL.len()],
    lines: [Turns<W>; Priority::ALL.len()],
    /// The number of lookups that go before the next stream.
    before: usize,
}

/// Identifies a waiter in the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaiterId {
    priority: Priority,
    client: Client,
    number: u64,
}

/// A waiter that leaves the queue.
pub(super) enum NextWaiter<W, T> {
    /// It has a slot for its priority and its client, at this site.
    Served((Priority, Client), W, T),
    /// It would wait in vain.
    Exhausted(W, Error),
}

impl<W> Queue<W> {
    pub(super) fn new(max: usize) -> Self {
        let (reserved, lines) = (ReservedSlots::default(), Default::default());
        Self { max, reserved, used: [0; Priority::ALL.len()], lines, before: 0 }
    }

    /// The number of slots in use.
    pub(super) fn used(&self) -> usize {
        self.used.iter().sum()
    }

    /// The number of waiters.
    pub(super) fn len(&self) -> usize {
        self.lines.iter().map(Turns::len).sum()
    }

    /// The clients that wait, each with the number of its requests. A client may be listed once for each
    /// priority.
    pub(super) fn clients(&self) -> impl Iterator<Item = (Client, usize)> + Clone {
        self.lines.iter().flat_map(Turns::clients)
    }

    /// The number of waiters of this priority.
    pub(super) fn len_of(&self, priority: Priority) -> usize {
        self.line(priority).len()
    }

    /// Changes the number of kept slots. Slots that are in use stay so, even if that leaves too
    /// few.
    pub(super) fn keep(&mut self, reserved: ReservedSlots) {
        self.reserved = reserved;
    }

    /// Takes a slot, if there's one for this priority. No waiter could use it, by invariant 3.
    pub(super) fn take(&mut self, priority: Priority) -> bool {
        let has_room = self.has_room(priority);
        self.used[priority as usize] += usize::from(has_room);
        has_room
    }

    /// Frees a slot.
    pub(super) fn give(&mut self, priority: Priority) {
        self.used[priority as usize] -= 1;
    }

    /// Adds a waiter to the end of its client's requests.
    pub(super) fn join(&mut self, priority: Priority, client: Client, waiter: W) -> WaiterId {
        if priority == Priority::Stream && self.line(priority).len() == 0 {
            self.before = self.line(Priority::Lookup).len();
        }
        let number = self.lines[priority as usize].push(client, waiter);
        WaiterId { priority, client, number }
    }

    /// Removes a waiter that has given up. Returns `None` if it was served already.
    pub(super) fn leave(&mut self, waiter: WaiterId) -> Option<W> {
        let WaiterId { priority, client, number } = waiter;
        let left = self.lines[priority as usize].remove(client, number);
        self.before = self.before.min(self.line(Priority::Lookup).len());
        left
    }

    /// Makes room for one more request of `client`: removes the last waiter of the client that has
    /// the most waiters of this priority, if it has more than `client` would then have.
    pub(super) fn displace(&mut self, priority: Priority, client: Client) -> Option<W> {
        let line = self.line(priority);
        let (longest, _) = line.longest()?;
        if longest > line.len_of(client) + 1 { self.shed(priority) } else { None }
    }

    /// Removes the last waiter of the client that has the most waiters of this priority.
    pub(super) fn shed(&mut self, priority: Priority) -> Option<W> {
        let line = &mut self.lines[priority as usize];
        let (_, client) = line.longest()?;
        let shed = line.pop_last_of(client);
        self.before = self.before.min(self.line(Priority::Lookup).len());
        shed
    }

    /// Returns the next waiter that can be served now, with a slot for its priority, or the next
    /// that no site will ever serve. `choose` says which site a waiter may have.
    pub(super) fn next<T>(&mut self, choose: impl Fn(&W) -> Choice<T>) -> Option<NextWaiter<W, T>> {
        let (first, second) = match self.before {
            0 => (Priority::Stream, Priority::Lookup),
            _ => (Priority::Lookup, Priority::Stream),
        };
        [Priority::Shared, first, second].into_iter().find_map(|priority| self.serve(priority, &choose))
    }

    fn serve<T>(&mut self, priority: Priority, choose: impl Fn(&W) -> Choice<T>) -> Option<NextWaiter<W, T>> {
        let has_room = self.has_room(priority);
        let look = |waiter: &W| match choose(waiter) {
            Choice::At(at) if has_room => SearchDecision::Take(Ok(at)),
            Choice::Nowhere(error) => SearchDecision::Take(Err(error)),
            Choice::Full => SearchDecision::Skip,
            Choice::At(_) | Choice::FullForAll => SearchDecision::Stop,
        };
        let (client, waiter, chosen) = self.lines[priority as usize].pop(look)?;
        let at = match chosen {
            Ok(at) => at,
            Err(error) => {
                self.before = self.before.min(self.line(Priority::Lookup).len());
                return Some(NextWaiter::Exhausted(waiter, error));
            }
        };
        self.used[priority as usize] += 1;
        match priority {
            Priority::Shared => {}
            Priority::Lookup => self.before = self.before.saturating_sub(1),
            Priority::Stream => self.before = self.line(Priority::Lookup).len(),
        }
        Some(NextWaiter::Served((priority, client), waiter, at))
    }

    fn has_room(&self, priority: Priority) -> bool {
        let [_, lookups, streams] = self.used;
        let own = self.max - self.reserved.shared.min(self.max);
        let fits = match priority {
            Priority::Shared => true,
            Priority::Lookup => lookups + streams < own,
            Priority::Stream => lookups + streams < own && streams + self.reserved.own < own,
        };
        fits && self.used() < self.max
    }

    fn line(&self, priority: Priority) -> &Turns<W> {
        &self.lines[priority as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Client = Client::Address(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));
    const B: Client = Client::Address(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)));

    fn queue(max: usize, shared: usize, own: usize) -> Queue<&'static str> {
        let mut queue = Queue::new(max);
        queue.keep(ReservedSlots { shared, own });
        queue
    }

    /// The number of slots that a priority can take.
    fn take_all(queue: &mut Queue<&str>, priority: Priority) -> usize {
        std::iter::repeat_with(|| queue.take(priority)).take_while(|taken| *taken).count()
    }

    /// The waiters in the order in which they're served, if each gives its slot back at once.
    fn served(queue: &mut Queue<&'static str>) -> Vec<&'static str> {
        let next = || match queue.next(|_| Choice::At(()))? {
            NextWaiter::Served((priority, _), waiter, ()) => {
                queue.give(priority);
                Some(waiter)
            }
            NextWaiter::Exhausted(..) => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn streams_leave_what_is_kept_and_lookups_leave_what_is_shared() {
        let mut queue = queue(10, 2, 1);
        assert_eq!(take_all(&mut queue, Priority::Stream), 7);
        assert_eq!(take_all(&mut queue, Priority::Lookup), 1);
        assert_eq!(take_all(&mut queue, Priority::Shared), 2);
        assert_eq!(queue.used(), 10);
        queue.give(Priority::Stream);
        assert!(queue.take(Priority::Lookup) && !queue.take(Priority::Stream));
        queue.give(Priority::Shared);
        assert!(!queue.take(Priority::Lookup) && queue.take(Priority::Shared));
    }

    #[test]
    fn a_pool_of_one_place_keeps_none() {
        let mut queue: Queue<&str> = Queue::new(1);
        queue.keep(ReservedSlots::for_lookups(1, 0));
        assert_eq!(take_all(&mut queue, Priority::Stream), 1);
    }

    #[test]
    fn a_look_up_waits_for_one_stream_and_a_stream_for_those_that_waited_before_it() {
        let mut queue = queue(1, 0, 0);
        assert!(queue.take(Priority::Stream));
        for (priority, waiter) in [
            (Priority::Stream, "first stream"),
            (Priority::Stream, "second stream"),
            (Priority::Lookup, "first lookup"),
            (Priority::Lookup, "second lookup"),
        ] {
            queue.join(priority, A, waiter);
        }
        assert!(queue.next(|_| Choice::At(())).is_none());
        queue.give(Priority::Stream);
        let expected = ["first stream", "first lookup", "second lookup", "second stream"];
        assert_eq!(served(&mut queue), expected);

        assert!(queue.take(Priority::Lookup));
        queue.join(Priority::Lookup, A, "before");
        queue.join(Priority::Stream, A, "stream");
        queue.join(Priority::Lookup, A, "after");
        queue.give(Priority::Lookup);
        assert_eq!(served(&mut queue), ["before", "stream", "after"]);
    }

    /// The next waiter that leaves the queue, with a slot or without.
    fn next_at(queue: &mut Queue<&'static str>, choose: impl Fn(&str) -> Choice<()>) -> Option<&'static str> {
        queue.next(|waiter| choose(waiter)).map(|next| match next {
            NextWaiter::Served(_, waiter, ()) | NextWaiter::Exhausted(waiter, _) => waiter,
        })
    }

    #[test]
    fn who_suits_is_served_in_the_order_of_turns() {
        let mut queue = queue(3, 0, 0);
        for waiter in ["first", "second", "third"] {
            queue.join(Priority::Stream, A, waiter);
        }
        let only = |wanted: &'static str| {
            move |waiter: &str| if waiter == wanted { Choice::At(()) } else { Choice::Full }
        };
        assert_eq!(next_at(&mut queue, only("second")), Some("second"));
        assert_eq!(next_at(&mut queue, only("second")), None);
        assert_eq!(next_at(&mut queue, |_| Choice::FullForAll), None);
        assert_eq!(next_at(&mut queue, only("third")), Some("third"));
        assert_eq!((queue.len(), queue.used()), (1, 2));
    }

    #[test]
    fn who_waits_in_vain_is_told_though_no_place_is_free() {
        let mut queue = queue(1, 0, 0);
        assert!(queue.take(Priority::Stream));
        queue.join(Priority::Lookup, A, "lookup");
        queue.join(Priority::Stream, A, "stream");
        let nowhere = |_: &str| Choice::Nowhere(Error::endpoint("there is none"));
        assert_eq!(next_at(&mut queue, nowhere), Some("lookup"));
        assert_eq!(next_at(&mut queue, nowhere), Some("stream"));
        assert_eq!((queue.len(), queue.used()), (0, 1));
    }

    #[test]
    fn who_leaves_is_not_waited_for() {
        let mut queue = queue(1, 0, 0);
        assert!(queue.take(Priority::Stream));
        let gone = queue.join(Priority::Lookup, A, "gone");
        queue.join(Priority::Stream, A, "stream");
        queue.join(Priority::Lookup, A, "lookup");
        assert_eq!((queue.leave(gone), queue.leave(gone).is_none()), (Some("gone"), true));
        queue.give(Priority::Stream);
        // It goes before the stream, as the lookup that left would have.
        assert_eq!(served(&mut queue), ["lookup", "stream"]);
        assert_eq!((queue.len(), queue.used()), (0, 0));
    }

    #[test]
    fn streams_that_find_no_room_hold_up_no_look_up() {
        let mut queue = queue(2, 0, 1);
        assert!(queue.take(Priority::Stream) && queue.take(Priority::Lookup));
        queue.join(Priority::Stream, A, "stream");
        queue.join(Priority::Lookup, B, "lookup");
        queue.give(Priority::Lookup);
        assert_eq!(served(&mut queue), ["lookup"]);
        queue.give(Priority::Stream);
        assert_eq!(served(&mut queue), ["stream"]);
    }

    #[test]
    fn one_more_client_finds_room_where_another_has_most_of_the_queue() {
        let mut queue = queue(1, 0, 0);
        assert!(queue.take(Priority::Stream));
        for waiter in ["first", "second", "third"] {
            queue.join(Priority::Stream, A, waiter);
        }
        assert_eq!(queue.displace(Priority::Stream, A), None, "for no other of its own");
        assert_eq!(queue.displace(Priority::Stream, B), Some("third"));
        queue.join(Priority::Stream, B, "other");
        assert_eq!(queue.displace(Priority::Stream, B), None, "both have as many");
        queue.give(Priority::Stream);
        assert_eq!(served(&mut queue), ["first", "other", "second"]);
    }
}
