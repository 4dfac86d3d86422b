//! The open connections of clients, and the choice of the one that gives way when seats run out.
//!
//! Idle connections must not lock out other clients. So a new connection is always accepted:
//!
//! 1. while seats are free and its address is below its own limit, it gets a [`Seat`] like any
//!    other;
//! 2. otherwise an idle connection gives way. At the address's own limit, this is its connection
//!    that has been idle longest. Without a free seat, it's the longest idle one of the address
//!    with the most connections;
//! 3. if none is idle, the new connection gets a seat in the [reserve](RESERVED_CONNECTIONS). There
//!    it can only run the server's checks, unless a seat is free when it first asks for more. The
//!    oldest connection in the reserve gives way to the next one.
//!
//! A connection is idle while none of its requests is being answered: between two requests, before
//! the first, or after half of a head. HTTP/2 without a stream is idle, even while it sends other
//! frames.
//!
//! Requests are more frequent than connections, so they only update counters of their own
//! connection and take no lock. Each address keeps a queue of its idle connections, ordered by the
//! time of their last known activity. A search moves connections that were active since then to
//! their new position. It removes busy ones, which return once they are idle. So each step of a
//! search is paid for by a request, and costs the logarithm of the number of connections.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use rowstream_core::lock::Mutex;
use rowstream_core::timer::Timer;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::budget::RESERVED_CONNECTIONS;

/// The life of a connection in the reserve. A check queries its sources for at most a second.
const RESERVED_FOR: Duration = Duration::from_secs(5);

/// The connections of one port.
pub(super) struct Connections {
    /// Without those in the reserve.
    max: AtomicUsize,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// The connections that count. One that gives way no longer counts, although it may still be
    /// closing.
    open: HashMap<u64, OpenConnection>,
    addresses: HashMap<IpAddr, AddressConnections>,
    /// The addresses with idle connections, by the number of all their connections.
    ranks: BTreeSet<(usize, IpAddr)>,
    /// The connections in the reserve, the oldest first.
    reserved: BTreeSet<u64>,
}

struct OpenConnection {
    address: IpAddr,
    shared: Arc<SharedActivity>,
    /// Its key in its address's queue, if it's there: the start of its known idle time.
    queued: Option<u64>,
}

#[derive(Default)]
struct AddressConnections {
    open: usize,
    /// Ordered by the start of their idle time.
    idle: BTreeSet<(u64, u64)>,
}

/// The state that a connection shares with searches for a seat.
#[derive(Default)]
struct SharedActivity {
    /// The requests being answered.
    busy: AtomicUsize,
    /// The start of its idle time, in nanoseconds since the server's start.
    idle_since: AtomicU64,
    /// When the current head of an HTTP/1 request began; 0 if none has.
    head_since: AtomicU64,
    /// True if it was found busy and removed from its queue.
    is_parked: AtomicBool,
    /// True if it's in the reserve.
    is_reserved: AtomicBool,
    gives_way: Notify,
}

/// A connection's seat, freed when dropped.
pub(super) struct Seat {
    id: u64,
    connections: Arc<Connections>,
    shared: Arc<SharedActivity>,
    address: IpAddr,
    /// The most connections that its address may have.
    most: Option<usize>,
}

/// Reports if a request of a connection is being answered.
pub(super) struct Activity {
    shared: Arc<SharedActivity>,
    connections: Arc<Connections>,
}

impl Activity {
    pub(super) fn is_idle(&self) -> bool {
        self.shared.is_idle()
    }

    /// Records that a head has begun, or has to begin.
    pub(super) fn begin_head(&self) {
        if self.is_idle() && self.shared.head_since.load(Ordering::Relaxed) == 0 {
            self.shared.head_since.store(self.connections.now().max(1), Ordering::Relaxed);
        }
    }
}

/// The time limits for a connection that answers no request.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientTimeouts {
    /// For a head that has begun.
    pub(super) header: Duration,
    /// For the next request.
    pub(super) idle: Duration,
}

/// The timeout that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassedTimeout {
    Header,
    Idle,
}

impl SharedActivity {
    fn is_idle(&self) -> bool {
        self.busy.load(Ordering::SeqCst) == 0
    }

    /// The timeout that runs at `now`, and the time left. While a request is being answered none
    /// runs, so a whole idle timeout is left.
    fn time_left(&self, now: u64, timeouts: ClientTimeouts) -> (PassedTimeout, Duration) {
        let since = |begun| Duration::from_nanos(now.saturating_sub(begun));
        if !self.is_idle() {
            return (PassedTimeout::Idle, timeouts.idle);
        }
        match self.head_since.load(Ordering::Relaxed) {
            0 => {
                let idle_since = self.idle_since.load(Ordering::Relaxed);
                (PassedTimeout::Idle, timeouts.idle.saturating_sub(since(idle_since)))
            }
            begun => (PassedTimeout::Header, timeouts.header.saturating_sub(since(begun))),
        }
    }
}

/// The kind of seat that a new connection got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeatKind {
    /// There was a free one.
    Free,
    /// Another connection gives way.
    InPlace,
    /// A seat in the reserve.
    Reserved,
}

/// A request being answered. Its connection isn't idle until this is dropped.
pub(crate) struct BusyRequest {
    id: u64,
    connections: Arc<Connections>,
    shared: Arc<SharedActivity>,
}

impl Connections {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: max.into(), started: Instant::now(), state: Mutex::default() })
    }

    /// Takes in a connection of `address`, which may have `most` of them.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr, most: Option<usize>) -> (Seat, SeatKind) {
        let now = self.now();
        let mut state = self.state.lock();
        let taken = state.room_for(address, most, self.max());
        let (id, shared) = (state.next, Arc::<SharedActivity>::default());
        shared.idle_since.store(now, Ordering::Relaxed);
        state.next += 1;
        state.open.insert(id, OpenConnection { address, shared: Arc::clone(&shared), queued: None });
        match taken {
            SeatKind::Free | SeatKind::InPlace => state.seat(id, address, now),
            SeatKind::Reserved => {
                shared.is_reserved.store(true, Ordering::Relaxed);
                state.reserve(id);
            }
        }
        drop(state);
        (Seat { id, connections: Arc::clone(self), shared, address, most }, taken)
    }

    /// Changes the limit. Idle connections beyond it give way.
    pub(super) fn limit(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
        let mut state = self.state.lock();
        while state.open.len() - state.reserved.len() > max && state.give_way().is_some() {}
    }

    fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Makes an idle connection give way, to free its descriptor. False if there's none.
    pub(super) fn make_room(&self) -> bool {
        self.state.lock().give_way().is_some()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

impl State {
    /// Finds a seat for a connection.
    fn room_for(&mut self, address: IpAddr, most: Option<usize>, max: usize) -> SeatKind {
        let open = self.addresses.get(&address).map_or(0, |address| address.open);
        let gives_way = if most.is_some_and(|most| open >= most) {
            self.give_way_of(address)
        } else if self.open.len() - self.reserved.len() < max {
            return SeatKind::Free;
        } else {
            self.give_way()
        };
        gives_way.unwrap_or(SeatKind::Reserved)
    }

    /// Gives a connection a regular seat.
    fn seat(&mut self, id: u64, address: IpAddr, now: u64) {
        self.change(address, |address| address.open += 1);
        self.queue(id, now);
    }

    /// Makes the longest idle connection of the address with the most give way.
    fn give_way(&mut self) -> Option<SeatKind> {
        // An address without idle connections leaves `ranks`.
        while let Some(&(_, address)) = self.ranks.last() {
            if let Some(taken) = self.give_way_of(address) {
                return Some(taken);
            }
        }
        None
    }

    /// Makes an address's longest idle connection give way.
    fn give_way_of(&mut self, address: IpAddr) -> Option<SeatKind> {
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
            return Some(SeatKind::InPlace);
        }
        None
    }

    /// Removes a busy connection from its queue, unless it's idle by now.
    fn park(&mut self, id: u64, shared: &SharedActivity) {
        self.unqueue(id);
        shared.is_parked.store(true, Ordering::SeqCst);
        if shared.busy.load(Ordering::SeqCst) == 0 && shared.is_parked.swap(false, Ordering::SeqCst) {
            self.queue(id, shared.idle_since.load(Ordering::Relaxed));
        }
    }

    /// Queues a connection by the start of its idle time.
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

    /// Adds a connection to the reserve. If that is full, its oldest gives way.
    fn reserve(&mut self, id: u64) {
        self.reserved.insert(id);
        if self.reserved.len() > RESERVED_CONNECTIONS
            && let Some(oldest) = self.reserved.pop_first()
            && let Some(open) = self.open.remove(&oldest)
        {
            open.shared.gives_way.notify_one();
        }
    }

    /// Stops counting a connection.
    fn forget(&mut self, id: u64) {
        self.unqueue(id);
        let Some(open) = self.open.remove(&id) else { return };
        if !self.reserved.remove(&id) {
            self.change(open.address, |address| address.open -= 1);
        }
    }

    /// Changes an address's state, and updates its rank.
    fn change(&mut self, name: IpAddr, change: impl FnOnce(&mut AddressConnections)) {
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
    /// True if only the server's checks are answered.
    pub(super) fn is_reserved(&self) -> bool {
        self.shared.is_reserved.load(Ordering::Relaxed)
    }

    /// True if every request is answered. A connection in the reserve gets a regular seat here if
    /// one is free by now: a client's earlier connection may have looked busy just after its
    /// response.
    pub(super) fn is_common(&self) -> bool {
        if !self.is_reserved() {
            return true;
        }
        let mut state = self.connections.state.lock();
        if !state.reserved.contains(&self.id)
            || state.room_for(self.address, self.most, self.connections.max()) == SeatKind::Reserved
        {
            return false;
        }
        state.reserved.remove(&self.id);
        state.seat(self.id, self.address, self.connections.now());
        self.shared.is_reserved.store(false, Ordering::Relaxed);
        true
    }

    /// Records that a request arrived.
    pub(super) fn busy(&self) -> BusyRequest {
        self.shared.busy.fetch_add(1, Ordering::SeqCst);
        self.shared.head_since.store(0, Ordering::Relaxed);
        BusyRequest {
            id: self.id,
            connections: Arc::clone(&self.connections),
            shared: Arc::clone(&self.shared),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.shared.is_idle()
    }

    /// The socket's view of the connection's requests.
    pub(super) fn activity(&self) -> Activity {
        Activity { shared: Arc::clone(&self.shared), connections: Arc::clone(&self.connections) }
    }

    /// Ready once the client has let a timeout pass. Requests set no timer. Instead, the running
    /// timer checks their effect when it fires.
    pub(super) fn times_out(&self, timeouts: ClientTimeouts) -> impl Future<Output = PassedTimeout> {
        let mut timer = Timer::default();
        poll_fn(move |cx| {
            while !timer.runs() || timer.poll(cx).is_ready() {
                let (timeout, left) = self.shared.time_left(self.connections.now(), timeouts);
                if left.is_zero() {
                    return Poll::Ready(timeout);
                }
                // A head can begin meanwhile.
                timer.restart(left.min(timeouts.header));
            }
            Poll::Pending
        })
    }

    /// Ready once, when the connection has to give way. In the reserve it always has to.
    pub(super) async fn gives_way(&self) {
        if self.is_reserved() {
            // Boxed, because a timer is larger than everything else that a connection waits for
            // here.
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

impl BusyRequest {
    /// True if it's the only request of its connection.
    pub(super) fn is_alone(&self) -> bool {
        self.shared.busy.load(Ordering::SeqCst) == 1
    }
}

impl Drop for BusyRequest {
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
        /// True if it has just been notified to give way.
        fn is_asked(&self) -> bool {
            self.shared.gives_way.notified().now_or_never().is_some()
        }
    }

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    /// The indices of the `seats` that give way.
    fn who_gives_way(seats: &[Seat]) -> Vec<usize> {
        (0..seats.len()).filter(|&index| seats[index].is_asked()).collect()
    }

    #[test]
    fn the_longest_idle_of_the_address_that_has_the_most_gives_way() {
        let connections = Connections::new(5);
        let seats: Vec<_> = [1, 2, 2, 2, 3].map(|last| connections.take(address(last), None).0).into();
        assert!(who_gives_way(&seats).is_empty());
        // The first connection of 192.0.2.2 has sent a request since.
        drop(seats[1].busy());
        let (other, taken) = connections.take(address(4), None);
        assert_eq!((taken, who_gives_way(&seats)), (SeatKind::InPlace, vec![2]));
        // Its request was earlier than the other's, so it's now idle for longer.
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
        assert_eq!((taken, who_gives_way(&seats)), (SeatKind::InPlace, vec![2]));
        let more = seats[0].busy();
        busy.extend([more]);
        let _other_is_busy = other.busy();
        let (reserved, taken) = connections.take(address(4), None);
        assert_eq!((taken, reserved.is_common()), (SeatKind::Reserved, false));
        // One of two requests on a connection ends, then the only request of another one.
        drop(busy.remove(0));
        assert_eq!(connections.take(address(4), None).1, SeatKind::Reserved);
        drop(busy.remove(0));
        assert_eq!(connections.take(address(4), None).1, SeatKind::InPlace);
        assert_eq!(who_gives_way(&seats), [1]);
        // A seat is free by now for the connection in the reserve, too.
        assert!(reserved.is_common() && !other.is_asked());
    }

    #[test]
    fn an_address_has_no_more_than_it_may_have() {
        let connections = Connections::new(100);
        let (first, _) = connections.take(address(1), Some(2));
        let (second, taken) = connections.take(address(1), Some(2));
        assert_eq!(taken, SeatKind::Free);
        assert_eq!(connections.take(address(2), Some(2)).1, SeatKind::Free);
        let (third, taken) = connections.take(address(1), Some(2));
        assert_eq!((taken, first.is_asked(), second.is_asked()), (SeatKind::InPlace, true, false));
        let _busy = (second.busy(), third.busy());
        assert_eq!(connections.take(address(1), Some(2)).1, SeatKind::Reserved);
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
        assert_eq!(taken, SeatKind::Free);
        assert_eq!(connections.state.lock().open.len(), 1);
    }

    #[test]
    fn a_head_that_has_begun_and_the_next_request_have_their_times() {
        const SECOND: u64 = 1_000_000_000;
        let timeouts = ClientTimeouts { header: Duration::from_secs(30), idle: Duration::from_secs(75) };
        let shared = SharedActivity::default();
        let left = |now: u64| {
            let (timeout, left) = shared.time_left(now * SECOND, timeouts);
            (timeout, left.as_secs())
        };
        shared.idle_since.store(10 * SECOND, Ordering::Relaxed);
        assert_eq!([left(10), left(50)], [(PassedTimeout::Idle, 75), (PassedTimeout::Idle, 35)]);
        assert_eq!([left(85), left(90)], [(PassedTimeout::Idle, 0); 2]);
        shared.head_since.store(40 * SECOND, Ordering::Relaxed);
        assert_eq!([left(40), left(69)], [(PassedTimeout::Header, 30), (PassedTimeout::Header, 1)]);
        assert_eq!(left(70), (PassedTimeout::Header, 0));
        shared.busy.store(1, Ordering::SeqCst);
        assert_eq!(left(1000), (PassedTimeout::Idle, 75));
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
        // The next request's head begins before this one's response.
        activity.begin_head();
        assert_eq!(begun(), 0);
        drop(busy);
        activity.begin_head();
        assert_ne!(begun(), 0);
    }

    proptest! {
        /// Connections open, close and are busy. The state agrees with them.
        #[test]
        fn what_is_known_agrees(steps in proptest::collection::vec((0..4_u8, 0..4_u8, any::<usize>()), 0..200)) {
            let connections = Connections::new(5);
            let (mut seats, mut busy) = (Vec::<Seat>::new(), Vec::<BusyRequest>::new());
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
                // A connection in no queue is busy, and will return.
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
