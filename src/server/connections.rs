//! Which connections of clients are open, and which one gives way when room is short.
//!
//! Whoever has connections open and asks nothing must not lock others out. So a new connection is
//! always accepted, and
//!
//! 1. while there is room, it has a [`Seat`] like any other;
//! 2. without room, the longest idle connection of the address that has the most gives way to it;
//! 3. where none is idle, or the address has all that it may have, it has a seat of the
//!    [reserve](RESERVED_CONNECTIONS), on which the server's checks are answered and nothing else,
//!    unless there is room when it first asks for more. Of these the oldest gives way.
//!
//! A connection is idle while no request of it is being answered: between two requests, before the
//! first, or with half of a head. HTTP/2 without a stream is idle whatever frames it sends.
//!
//! Requests come more often than connections, so they touch counts of their own connection and no
//! lock. An address has its idle connections in a queue, by the time since when they were last
//! known to be idle. Who is found to have been busy since is put back to where it belongs, and who
//! is busy leaves the queue until it is idle again: each step of a search is paid for by a request,
//! and takes the logarithm of the number of connections.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::budget::RESERVED_CONNECTIONS;
use rowstream_core::lock::Mutex;
use rowstream_core::timer::Timer;

/// How long a connection of the reserve lasts: a check asks its sources for a second.
const RESERVED_FOR: Duration = Duration::from_secs(5);

/// The connections of one port.
pub(super) struct Connections {
    /// Beside those of the reserve.
    max: AtomicUsize,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Those that count: what gives way counts no longer, though it may still be closing.
    open: HashMap<u64, Open>,
    addresses: HashMap<IpAddr, Address>,
    /// Addresses that have idle connections, by how many they have in all.
    ranks: BTreeSet<(usize, IpAddr)>,
    /// Connections of the reserve, the oldest first.
    reserved: BTreeSet<u64>,
}

struct Open {
    address: IpAddr,
    shared: Arc<Shared>,
    /// Since when it was known to be idle, where it is in its address's queue.
    queued: Option<u64>,
}

#[derive(Default)]
struct Address {
    open: usize,
    /// By the time since when they were idle.
    idle: BTreeSet<(u64, u64)>,
}

/// What a connection and those who look for room know of it.
#[derive(Default)]
struct Shared {
    /// Requests that are being answered.
    busy: AtomicUsize,
    /// Since when there is none, in nanoseconds since the start.
    idle_since: AtomicU64,
    /// Since when a connection of HTTP/1 waits for the rest of a head; 0 if none has begun.
    head_since: AtomicU64,
    /// Whether it was found busy, and has left the queue.
    is_parked: AtomicBool,
    /// Whether it is one of the reserve.
    is_reserved: AtomicBool,
    gives_way: Notify,
}

/// The room of one connection; free again when dropped.
pub(super) struct Seat {
    id: u64,
    connections: Arc<Connections>,
    shared: Arc<Shared>,
    address: IpAddr,
    /// How many of them the address may have.
    most: Option<usize>,
}

/// Whether a request of a connection is being answered.
pub(super) struct Activity {
    shared: Arc<Shared>,
    connections: Arc<Connections>,
}

impl Activity {
    pub(super) fn is_idle(&self) -> bool {
        self.shared.is_idle()
    }

    /// Bytes of a head have arrived, or have to.
    pub(super) fn begin_head(&self) {
        if self.is_idle() && self.shared.head_since.load(Ordering::Relaxed) == 0 {
            self.shared.head_since.store(self.connections.now().max(1), Ordering::Relaxed);
        }
    }
}

/// How long a connection on which nothing is answered waits for its client.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientTimeouts {
    /// For a head that has begun.
    pub(super) header: Duration,
    /// For the next request.
    pub(super) idle: Duration,
}

/// The timeout that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimedOut {
    Header,
    Idle,
}

impl Shared {
    fn is_idle(&self) -> bool {
        self.busy.load(Ordering::SeqCst) == 0
    }

    /// The timeout that runs at the time `now`, and the rest of it. While a request is being
    /// answered none does, and all of one is left.
    fn time_left(&self, now: u64, timeouts: ClientTimeouts) -> (TimedOut, Duration) {
        let since = |begun| Duration::from_nanos(now.saturating_sub(begun));
        if !self.is_idle() {
            return (TimedOut::Idle, timeouts.idle);
        }
        match self.head_since.load(Ordering::Relaxed) {
            0 => {
                let idle_since = self.idle_since.load(Ordering::Relaxed);
                (TimedOut::Idle, timeouts.idle.saturating_sub(since(idle_since)))
            }
            begun => (TimedOut::Header, timeouts.header.saturating_sub(since(begun))),
        }
    }
}

/// What it came to that a connection was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// There was room.
    Free,
    /// Another connection gives way to it.
    InPlace,
    /// It is one of the reserve.
    Reserved,
}

/// A request that is being answered: its connection is not idle until this is dropped.
pub(crate) struct Busy {
    id: u64,
    connections: Arc<Connections>,
    shared: Arc<Shared>,
}

impl Connections {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: max.into(), started: Instant::now(), state: Mutex::default() })
    }

    /// Takes in a connection of `address`, which may have so many of them.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr, most: Option<usize>) -> (Seat, Taken) {
        let now = self.now();
        let mut state = self.state.lock();
        let taken = state.room_for(address, most, self.max());
        let (id, shared) = (state.next, Arc::<Shared>::default());
        shared.idle_since.store(now, Ordering::Relaxed);
        state.next += 1;
        state.open.insert(id, Open { address, shared: Arc::clone(&shared), queued: None });
        match taken {
            Taken::Free | Taken::InPlace => state.seat(id, address, now),
            Taken::Reserved => {
                shared.is_reserved.store(true, Ordering::Relaxed);
                state.reserve(id);
            }
        }
        drop(state);
        (Seat { id, connections: Arc::clone(self), shared, address, most }, taken)
    }

    /// Bounds their number from now on. Idle ones beyond it give way.
    pub(super) fn limit(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
        let mut state = self.state.lock();
        while state.open.len() - state.reserved.len() > max && state.give_way().is_some() {}
    }

    fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Has a connection give way, so that its descriptor is free. Whether there was one.
    pub(super) fn make_room(&self) -> bool {
        self.state.lock().give_way().is_some()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

impl State {
    /// Makes room for a connection.
    fn room_for(&mut self, address: IpAddr, most: Option<usize>, max: usize) -> Taken {
        let open = self.addresses.get(&address).map_or(0, |address| address.open);
        let gives_way = if most.is_some_and(|most| open >= most) {
            self.give_way_of(address)
        } else if self.open.len() - self.reserved.len() < max {
            return Taken::Free;
        } else {
            self.give_way()
        };
        gives_way.unwrap_or(Taken::Reserved)
    }

    /// A connection is one of those that count.
    fn seat(&mut self, id: u64, address: IpAddr, now: u64) {
        self.change(address, |address| address.open += 1);
        self.queue(id, now);
    }

    /// The longest idle connection of the address that has the most gives way.
    fn give_way(&mut self) -> Option<Taken> {
        // An address of which all are busy leaves the ranks.
        while let Some(&(_, address)) = self.ranks.last() {
            if let Some(taken) = self.give_way_of(address) {
                return Some(taken);
            }
        }
        None
    }

    /// The longest idle connection of an address gives way.
    fn give_way_of(&mut self, address: IpAddr) -> Option<Taken> {
        while let Some(&(queued, id)) = self.addresses.get(&address)?.idle.first() {
            let shared = Arc::clone(&self.open.get(&id)?.shared);
            if shared.busy.load(Ordering::SeqCst) > 0 {
                self.park(id, &shared);
                continue;
            }
            let since = shared.idle_since.load(Ordering::Relaxed);
            if since > queued {
                self.queue(id, since);
                continue;
            }
            self.forget(id);
            shared.gives_way.notify_one();
            return Some(Taken::InPlace);
        }
        None
    }

    /// Takes a busy connection out of its queue, unless it is idle by now.
    fn park(&mut self, id: u64, shared: &Shared) {
        self.unqueue(id);
        shared.is_parked.store(true, Ordering::SeqCst);
        if shared.busy.load(Ordering::SeqCst) == 0 && shared.is_parked.swap(false, Ordering::SeqCst) {
            self.queue(id, shared.idle_since.load(Ordering::Relaxed));
        }
    }

    /// Puts a connection where one belongs that is idle for so long.
    fn queue(&mut self, id: u64, since: u64) {
        self.unqueue(id);
        let Some(open) = self.open.get_mut(&id) else { return };
        open.queued = Some(since);
        let address = open.address;
        self.change(address, |address| {
            address.idle.insert((since, id));
        });
    }

    fn unqueue(&mut self, id: u64) {
        let Some(open) = self.open.get_mut(&id) else { return };
        if let Some(queued) = open.queued.take() {
            let address = open.address;
            self.change(address, |address| {
                address.idle.remove(&(queued, id));
            });
        }
    }

    /// Adds one to the reserve, in which the oldest gives way.
    fn reserve(&mut self, id: u64) {
        self.reserved.insert(id);
        if self.reserved.len() > RESERVED_CONNECTIONS
            && let Some(oldest) = self.reserved.pop_first()
            && let Some(open) = self.open.remove(&oldest)
        {
            open.shared.gives_way.notify_one();
        }
    }

    /// A connection counts no longer.
    fn forget(&mut self, id: u64) {
        self.unqueue(id);
        let Some(open) = self.open.remove(&id) else { return };
        if !self.reserved.remove(&id) {
            self.change(open.address, |address| address.open -= 1);
        }
    }

    /// Changes what is known of an address, and its rank with it.
    fn change(&mut self, name: IpAddr, change: impl FnOnce(&mut Address)) {
        let address = self.addresses.entry(name).or_default();
        self.ranks.remove(&(address.open, name));
        change(address);
        if !address.idle.is_empty() {
            self.ranks.insert((address.open, name));
        }
        if address.open == 0 && address.idle.is_empty() {
            self.addresses.remove(&name);
        }
    }
}

impl Seat {
    /// Whether nothing but the server's checks is answered.
    pub(super) fn is_reserved(&self) -> bool {
        self.shared.is_reserved.load(Ordering::Relaxed)
    }

    /// Whether everything is answered, which it is from now on if there is room by now: a
    /// connection that has just been answered may look busy to the next one of the same client.
    pub(super) fn is_common(&self) -> bool {
        if !self.is_reserved() {
            return true;
        }
        let mut state = self.connections.state.lock();
        if !state.reserved.contains(&self.id)
            || state.room_for(self.address, self.most, self.connections.max()) == Taken::Reserved
        {
            return false;
        }
        state.reserved.remove(&self.id);
        state.seat(self.id, self.address, self.connections.now());
        self.shared.is_reserved.store(false, Ordering::Relaxed);
        true
    }

    /// A request has come.
    pub(super) fn busy(&self) -> Busy {
        self.shared.busy.fetch_add(1, Ordering::SeqCst);
        self.shared.head_since.store(0, Ordering::Relaxed);
        Busy { id: self.id, connections: Arc::clone(&self.connections), shared: Arc::clone(&self.shared) }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.shared.is_idle()
    }

    /// What the connection's socket knows of its requests.
    pub(super) fn activity(&self) -> Activity {
        Activity { shared: Arc::clone(&self.shared), connections: Arc::clone(&self.connections) }
    }

    /// Ready once the client has let a timeout pass. Requests set no timer: the one that runs looks
    /// at what they have done when it ends.
    pub(super) fn times_out(&self, timeouts: ClientTimeouts) -> impl Future<Output = TimedOut> {
        let mut timer = Timer::default();
        poll_fn(move |cx| {
            while !timer.runs() || timer.poll(cx).is_ready() {
                let (timeout, left) = self.shared.time_left(self.connections.now(), timeouts);
                if left.is_zero() {
                    return Poll::Ready(timeout);
                }
                // A head may begin meanwhile.
                timer.restart(left.min(timeouts.header));
            }
            Poll::Pending
        })
    }

    /// Ready once, when the connection has to give way. One of the reserve has to in any case.
    pub(super) async fn gives_way(&self) {
        if self.is_reserved() {
            // Boxed: a timer is larger than all else that a connection waits for here.
            let woken = Box::pin(timeout(RESERVED_FOR, self.shared.gives_way.notified())).await;
            if woken.is_ok() || self.is_reserved() {
                return;
            }
        }
        self.shared.gives_way.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.state.lock().forget(self.id);
    }
}

impl Busy {
    /// True if it's the only request of its connection.
    pub(super) fn is_alone(&self) -> bool {
        self.shared.busy.load(Ordering::SeqCst) == 1
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.shared.idle_since.store(self.connections.now(), Ordering::Relaxed);
        if self.shared.busy.fetch_sub(1, Ordering::SeqCst) == 1
            && self.shared.is_parked.swap(false, Ordering::SeqCst)
        {
            let since = self.shared.idle_since.load(Ordering::Relaxed);
            self.connections.state.lock().queue(self.id, since);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    impl Seat {
        /// Whether it has just been asked to.
        fn is_asked(&self) -> bool {
            self.shared.gives_way.notified().now_or_never().is_some()
        }
    }

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    /// Who of `seats` gives way, by index.
    fn who_gives_way(seats: &[Seat]) -> Vec<usize> {
        (0..seats.len()).filter(|&index| seats[index].is_asked()).collect()
    }

    #[test]
    fn the_longest_idle_of_the_address_that_has_the_most_gives_way() {
        let connections = Connections::new(5);
        let seats: Vec<_> = [1, 2, 2, 2, 3].map(|last| connections.take(address(last), None).0).into();
        assert!(who_gives_way(&seats).is_empty());
        // The first of 192.0.2.2 has asked something since.
        drop(seats[1].busy());
        let (other, taken) = connections.take(address(4), None);
        assert_eq!((taken, who_gives_way(&seats)), (Taken::InPlace, vec![2]));
        // It has asked before the other one, and is now idle for longer.
        drop(seats[3].busy());
        connections.take(address(4), None);
        assert_eq!((who_gives_way(&seats), other.is_asked()), (vec![1], false));
    }

    #[test]
    fn who_is_answered_does_not_give_way() {
        let connections = Connections::new(3);
        let seats: Vec<_> = [1, 1, 2].map(|last| connections.take(address(last), None).0).into();
        let mut busy: Vec<_> = seats[..2].iter().map(Seat::busy).collect();
        let (other, taken) = connections.take(address(3), None);
        assert_eq!((taken, who_gives_way(&seats)), (Taken::InPlace, vec![2]));
        let more = seats[0].busy();
        busy.extend([more]);
        let _other_is_busy = other.busy();
        let (reserved, taken) = connections.take(address(4), None);
        assert_eq!((taken, reserved.is_common()), (Taken::Reserved, false));
        // Two requests of one, of which one ends; then the only one of the other.
        drop(busy.remove(0));
        assert_eq!(connections.take(address(4), None).1, Taken::Reserved);
        drop(busy.remove(0));
        assert_eq!(connections.take(address(4), None).1, Taken::InPlace);
        assert_eq!(who_gives_way(&seats), [1]);
        // By now there is room for the one of the reserve, too.
        assert!(reserved.is_common() && !other.is_asked());
    }

    #[test]
    fn an_address_has_no_more_than_it_may_have() {
        let connections = Connections::new(100);
        let (first, _) = connections.take(address(1), Some(2));
        let (second, taken) = connections.take(address(1), Some(2));
        assert_eq!(taken, Taken::Free);
        assert_eq!(connections.take(address(2), Some(2)).1, Taken::Free);
        let (third, taken) = connections.take(address(1), Some(2));
        assert_eq!((taken, first.is_asked(), second.is_asked()), (Taken::InPlace, true, false));
        let _busy = (second.busy(), third.busy());
        assert_eq!(connections.take(address(1), Some(2)).1, Taken::Reserved);
    }

    #[test]
    fn idle_ones_beyond_a_lower_limit_give_way() {
        let connections = Connections::new(4);
        let seats: Vec<_> = [1, 1, 1].map(|last| connections.take(address(last), None).0).into();
        let _busy = seats[0].busy();
        connections.limit(2);
        assert_eq!(who_gives_way(&seats), [1]);
        connections.limit(0);
        assert_eq!(who_gives_way(&seats), [2]);
    }

    #[test]
    fn of_the_reserve_the_oldest_gives_way() {
        let connections = Connections::new(1);
        let (seat, _) = connections.take(address(1), None);
        let _busy = seat.busy();
        let seats: Vec<_> =
            (0..RESERVED_CONNECTIONS + 2).map(|_| connections.take(address(2), None).0).collect();
        assert_eq!(who_gives_way(&seats), [0, 1]);
        drop((seats, _busy, seat));
        let (_seat, taken) = connections.take(address(3), None);
        assert_eq!(taken, Taken::Free);
        assert_eq!(connections.state.lock().open.len(), 1);
    }

    #[test]
    fn a_head_that_has_begun_and_the_next_request_have_their_times() {
        const SECOND: u64 = 1_000_000_000;
        let timeouts = ClientTimeouts { header: Duration::from_secs(30), idle: Duration::from_secs(75) };
        let shared = Shared::default();
        let left = |now: u64| {
            let (timeout, left) = shared.time_left(now * SECOND, timeouts);
            (timeout, left.as_secs())
        };
        shared.idle_since.store(10 * SECOND, Ordering::Relaxed);
        assert_eq!([left(10), left(50)], [(TimedOut::Idle, 75), (TimedOut::Idle, 35)]);
        assert_eq!([left(85), left(90)], [(TimedOut::Idle, 0); 2]);
        shared.head_since.store(40 * SECOND, Ordering::Relaxed);
        assert_eq!([left(40), left(69)], [(TimedOut::Header, 30), (TimedOut::Header, 1)]);
        assert_eq!(left(70), (TimedOut::Header, 0));
        shared.busy.store(1, Ordering::SeqCst);
        assert_eq!(left(1000), (TimedOut::Idle, 75));
    }

    #[test]
    fn a_head_begins_while_nothing_is_answered() {
        let connections = Connections::new(1);
        let (seat, _) = connections.take(address(1), None);
        let (activity, begun) = (seat.activity(), || seat.shared.head_since.load(Ordering::Relaxed));
        assert_eq!(begun(), 0);
        activity.begin_head();
        let first = begun();
        assert_ne!(first, 0);
        activity.begin_head();
        assert_eq!(begun(), first, "its time runs from its first byte");
        let busy = seat.busy();
        // Of the next request, before this one has its answer.
        activity.begin_head();
        assert_eq!(begun(), 0);
        drop(busy);
        activity.begin_head();
        assert_ne!(begun(), 0);
    }

    proptest! {
        /// Connections come, go, and are busy; what is known of them agrees with what there is.
        #[test]
        fn what_is_known_agrees(steps in proptest::collection::vec((0..4_u8, 0..4_u8, any::<usize>()), 0..200)) {
            let connections = Connections::new(5);
            let (mut seats, mut busy) = (Vec::<Seat>::new(), Vec::<Busy>::new());
            for (step, last, which) in steps {
                match step {
                    0 | 1 => seats.push(connections.take(address(last), (last == 3).then_some(2)).0),
                    2 if !seats.is_empty() => busy.push(seats[which % seats.len()].busy()),
                    3 if !busy.is_empty() => drop(busy.swap_remove(which % busy.len())),
                    3 if !seats.is_empty() => drop(seats.swap_remove(which % seats.len())),
                    _ => {}
                }
                seats.retain(|seat| !seat.is_asked());
                let state = connections.state.lock();
                let common = || state.open.iter().filter(|(id, _)| !state.reserved.contains(id));
                prop_assert!(common().count() <= 5);
                prop_assert_eq!(state.open.len(), seats.len());
                let of = |name: &IpAddr| common().filter(|(_, open)| open.address == *name).count();
                prop_assert!(state.addresses.iter().all(|(name, known)| known.open == of(name)));
                prop_assert_eq!(state.addresses.values().map(|known| known.open).sum::<usize>(), common().count());
                // Who is in no queue is busy, and will be put back.
                let parked = common().filter(|(_, open)| open.queued.is_none());
                for (_, open) in parked {
                    prop_assert!(open.shared.is_parked.load(Ordering::SeqCst));
                    prop_assert!(open.shared.busy.load(Ordering::SeqCst) > 0);
                }
                let ranked = state.addresses.iter().filter(|(_, known)| !known.idle.is_empty());
                let ranks: BTreeSet<_> = ranked.map(|(name, known)| (known.open, *name)).collect();
                prop_assert_eq!(&state.ranks, &ranks);
            }
        }
    }
}
