//! Lets chunks that a slow client hasn't read wait in a temporary file, so that the database
//! needn't wait.
//!
//! A client is slow once it has kept the rows waiting for [`PATIENCE`] longer than they kept it
//! waiting. With `slow_clients = "spill"` its rows are spilled from then on. With any other setting
//! they're spilled when a request waits for a connection and the pool chooses this stream to give
//! its connection up ([`SlowReader`]). If they can't be spilled, the stream ends.
//!
//! Chunks are put into a queue: first into a block in memory, from there into the file. The client
//! gets the chunks of the file, then those in memory, and then new ones from the rows again. So
//! each chunk is sent once and in order, even if the file fails. Chunks are spilled as they're sent,
//! after compression and the digest, so neither the encoder nor the compressor waits for the
//! client.
//!
//! ```text
//!            slow, or wanted                 rows ended, or a write failed
//! flowing ─────────► queued: chunks go in ────────────────────────────────► queued: none goes in ──all taken──► holding
//!    ▲                  │
//!    └────all taken─────┘
//! ```
//!
//! Invariants:
//!
//! 1. memory: one block that is being filled or written, at most [`BLOCK`] and a chunk long, and
//!    one piece that is being read;
//! 2. while the file has no room for a block, no chunk is put into the queue. The rows wait as they
//!    would without a file, and we try again later;
//! 3. a chunk leaves the queue only through [`Spill::poll_take`]. If a write fails, its block stays
//!    in memory;
//! 4. while the client keeps up, there's no file.
//!
//! It knows nothing about rows except their number. The body polls it when its client wants more.
//! The watchdog ([`crate::watchdog`]) polls it too, because the body isn't polled while its client
//! reads nothing.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::log;
use rowstream_core::pool::SlowReader;
use tokio::time::Instant;

use super::SpoolSettings;
use super::file::{PIECE, SpoolFile, UsedQuota};
use crate::budget::CHUNK;
use crate::outcome::RowCounts;

/// How much longer a client may keep the rows waiting than they keep it waiting. A client that
/// waits as often as the database isn't slow.
const PATIENCE: Duration = Duration::from_secs(1);
/// The largest lag that we remember. A client that was slow for an hour and keeps up now isn't slow
/// for much longer.
const LONGEST_LAG: Duration = Duration::from_secs(2);
/// How long a client may leave a chunk unread while other requests wait for the connection. A
/// client that reads some 50 KB per second reads chunks more often than that.
const STANDSTILL: Duration = Duration::from_secs(2);
/// How soon to try again if there was no room. Other streams may have ended by then.
const AGAIN: Duration = Duration::from_secs(1);
/// The bytes of one write. Each stream has a block in memory; larger ones are hardly faster.
const BLOCK: usize = 32 * 1024;
/// The room for a block and the chunk that fills it, unless the chunk contains a long row.
const ROOM: usize = BLOCK + CHUNK + CHUNK / 8;
/// The memory of one stream, without a chunk for its longest row. While such a chunk makes the
/// block longer, the shorter one still exists.
pub(crate) const WINDOW: usize = BLOCK + ROOM + PIECE;

/// When the rows of a slow client are spilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpillTime {
    /// As soon as the client is slow.
    WhenSlow,
    /// Once the client is slow and a request waits for the connection of these rows.
    WhenWanted,
}

/// There's no room for a stream's rows, either in memory or in files.
#[derive(Debug)]
pub(crate) struct RoomError;

/// The chunks that a client has still to read.
pub(crate) struct Spill {
    spills: SpillTime,
    settings: SpoolSettings,
    used: Arc<UsedQuota>,
    /// The server's memory that this stream claims once chunks wait.
    spare: Box<dyn Memory>,
    pace: Pace,
    state: State,
    /// Rows whose bytes the client was given, as far as that's known while chunks wait.
    rows: RowCounts,
    /// Bytes that were written to files.
    spilled: u64,
}

/// Memory that a stream needs once chunks wait, claimed from the budget that limits it.
pub(crate) trait Memory: Send {
    /// Claims it, unless that was done before. False if there isn't enough.
    fn claim(&mut self) -> bool;
}

enum State {
    /// Chunks go directly to the client.
    Flowing,
    /// The client is behind.
    Queued(Box<Queue>),
    /// Chunks go directly to the client until the end, because the rows have ended or the file
    /// couldn't be written.
    Holding,
}

impl Spill {
    /// For one stream whose headers are being sent. `settings` limit its file.
    pub(crate) fn new(
        spills: SpillTime,
        settings: &SpoolSettings,
        used: &Arc<UsedQuota>,
        spare: Box<dyn Memory>,
    ) -> Self {
        let (settings, used, pace) = (settings.clone(), Arc::clone(used), Pace::of_head());
        Self {
            spills,
            settings,
            used,
            spare,
            pace,
            state: State::Flowing,
            rows: RowCounts::default(),
            spilled: 0,
        }
    }

    /// The speed of a slow client, which may have to give up a connection for which other requests
    /// wait.
    pub(crate) fn slow_reader(&self) -> Option<SlowReader> {
        let now = Instant::now();
        let stands_still = self.pace.standstill_at().is_some_and(|at| at <= now);
        let is_slow = stands_still || self.pace.lag(now) >= PATIENCE;
        is_slow.then(|| SlowReader { rate: self.pace.rate(now), stands_still })
    }

    /// Ready if the queue can take a chunk: there's room, and the client is slow or its connection
    /// `is_wanted`. `rows` have been sent by now.
    ///
    /// # Errors
    /// The connection is wanted, and there's no room.
    pub(crate) fn poll_room(
        &mut self,
        rows: RowCounts,
        is_wanted: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), RoomError>> {
        if matches!(self.state, State::Flowing) && self.is_behind(is_wanted) {
            if !self.spare.claim() {
                return Poll::Ready(Err(RoomError));
            }
            self.rows = rows;
            self.state = State::Queued(Box::new(Queue::new(&self.settings, &self.used)));
        }
        let (room, is_stuck) = match &mut self.state {
            State::Queued(queue) => (queue.poll_room(&mut self.spilled, cx), queue.is_stuck()),
            State::Flowing => (Poll::Pending, false),
            State::Holding => (Poll::Pending, true),
        };
        match room {
            Poll::Pending if is_wanted && is_stuck => Poll::Ready(Err(RoomError)),
            room => room.map(Ok),
        }
    }

    /// When the client will be slow if it reads nothing until then. `None` if it waits for rows.
    pub(crate) fn slow_at(&self) -> Option<Instant> {
        self.pace.slow_at()
    }

    fn is_behind(&self, is_wanted: bool) -> bool {
        match self.spills {
            SpillTime::WhenSlow => self.pace.slow_at().is_some_and(|at| at <= Instant::now()),
            SpillTime::WhenWanted => is_wanted,
        }
    }

    /// When [`poll_room`](Self::poll_room) has to be polled again even if it isn't woken.
    pub(crate) fn again(&self) -> Option<Instant> {
        let at = match &self.state {
            State::Flowing | State::Holding => self.pace.slow_at(),
            State::Queued(queue) if queue.intake == QueueState::Failed => self.pace.slow_at(),
            State::Queued(queue) => queue.again,
        };
        // While the client is slow, we check every so often if a request has begun to wait.
        let now = Instant::now();
        at.map(|at| if at <= now { now + AGAIN } else { at })
    }

    /// Adds a chunk, after [`poll_room`](Self::poll_room) was ready. It ends after `rows` rows.
    pub(crate) fn put(&mut self, chunk: &[u8], rows: RowCounts) {
        if let State::Queued(queue) = &mut self.state {
            queue.put(chunk, rows);
        }
    }

    /// Records that no further chunk will arrive.
    pub(crate) fn end(&mut self) {
        if let State::Queued(queue) = &mut self.state {
            queue.intake = QueueState::Nothing;
            // The rest of a block may wait for hours, in hundreds of streams.
            queue.memory.shrink_to_fit();
        }
    }

    /// Takes the next waiting bytes, because the client wants more. `None` if the next chunk is to
    /// be made from the rows.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let State::Queued(queue) = &mut self.state {
            self.pace.wanted(Instant::now());
            let taken = ready!(queue.poll_take(&mut self.spilled, cx));
            self.rows = queue.rows().unwrap_or(self.rows);
            if let Some(taken) = taken {
                self.pace.given(Instant::now(), taken.as_ref().map_or(0, Bytes::len));
                return Poll::Ready(Some(taken.map_err(unreadable)));
            }
            self.state = match queue.intake {
                QueueState::Chunks => State::Flowing,
                QueueState::Nothing | QueueState::Failed => State::Holding,
            };
            self.pace = Pace::of_rows();
        }
        self.pace.wanted(Instant::now());
        Poll::Ready(None)
    }

    /// Records that the client was given a chunk of so many bytes directly from the rows.
    pub(crate) fn given(&mut self, bytes: usize) {
        self.pace.given(Instant::now(), bytes);
    }

    /// True if no chunk waits.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.state {
            State::Queued(queue) => queue.is_empty(),
            State::Flowing | State::Holding => true,
        }
    }

    /// True if the only thing left is that the client reads the chunks that wait.
    pub(crate) fn is_draining(&self) -> bool {
        matches!(&self.state, State::Queued(queue) if queue.intake != QueueState::Chunks)
    }

    /// Rows that the client was given, of `all` that arrived. While chunks wait, only those of
    /// which we know it.
    pub(crate) fn rows(&self, all: RowCounts) -> RowCounts {
        if self.is_empty() { all } else { self.rows }
    }

    /// Bytes that were written to files.
    pub(crate) fn spilled(&self) -> u64 {
        self.spilled
    }
}

fn unreadable(cause: io::Error) -> Error {
    let message = "the data that waited for the client could not be read";
    Error::new("spill_failed", StatusCode::INTERNAL_SERVER_ERROR, message).cause(cause)
}

/// Measures if the client or the rows keep the other side waiting.
struct Pace {
    /// How much longer the client has kept the rows waiting than they kept it waiting, at most
    /// [`LONGEST_LAG`].
    behind: Duration,
    since: Instant,
    waits_for: AwaitedSide,
    begun: Instant,
    /// Bytes that the client was given since `begun`.
    bytes: u64,
}

enum AwaitedSide {
    Rows,
    Client,
}

impl Pace {
    /// For a stream whose headers the client hasn't read yet. An HTTP/2 client that opens no window
    /// never asks for a chunk.
    fn of_head() -> Self {
        Self { waits_for: AwaitedSide::Client, ..Self::of_rows() }
    }

    /// For a stream whose client has read everything so far.
    fn of_rows() -> Self {
        let now = Instant::now();
        Self { behind: Duration::ZERO, since: now, waits_for: AwaitedSide::Rows, begun: now, bytes: 0 }
    }

    /// Records that the client wants a chunk.
    fn wanted(&mut self, now: Instant) {
        if let AwaitedSide::Client = self.waits_for {
            self.behind = self.lag(now).min(LONGEST_LAG);
            (self.since, self.waits_for) = (now, AwaitedSide::Rows);
        }
    }

    /// Records that the client was given a chunk of so many bytes.
    fn given(&mut self, now: Instant, bytes: usize) {
        self.behind = self.lag(now);
        (self.since, self.waits_for) = (now, AwaitedSide::Client);
        self.bytes += bytes as u64;
    }

    /// How much longer the client has kept the rows waiting than they kept it waiting.
    fn lag(&self, now: Instant) -> Duration {
        let waited = now - self.since;
        match self.waits_for {
            AwaitedSide::Rows => self.behind.saturating_sub(waited),
            AwaitedSide::Client => self.behind + waited,
        }
    }

    /// Bytes per second.
    fn rate(&self, now: Instant) -> u64 {
        (self.bytes as f64 / (now - self.begun).as_secs_f64()) as u64
    }

    /// When the client will be slow if it reads nothing until then.
    fn slow_at(&self) -> Option<Instant> {
        match self.waits_for {
            AwaitedSide::Rows => None,
            AwaitedSide::Client => Some(self.since + PATIENCE.saturating_sub(self.behind)),
        }
    }

    /// When the client will be at a standstill if it reads nothing until then.
    fn standstill_at(&self) -> Option<Instant> {
        match self.waits_for {
            AwaitedSide::Rows => None,
            AwaitedSide::Client => Some(self.since + STANDSTILL),
        }
    }
}

/// Chunks that wait for the client.
struct Queue {
    intake: QueueState,
    file: SpoolFile,
    /// The block that is being written, or couldn't be. It follows the bytes in the file.
    block: Bytes,
    /// The chunks that follow the block.
    memory: Vec<u8>,
    /// When to ask for room again.
    again: Option<Instant>,
    put: u64,
    taken: u64,
    marks: Marks,
}

/// If chunks may be added to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueState {
    Chunks,
    /// No more, because the rows have ended.
    Nothing,
    /// No more, because the file couldn't be written. The rows wait.
    Failed,
}

impl Queue {
    fn new(settings: &SpoolSettings, used: &Arc<UsedQuota>) -> Self {
        Self {
            intake: QueueState::Chunks,
            file: SpoolFile::new(settings, used),
            block: Bytes::new(),
            memory: Vec::new(),
            again: None,
            put: 0,
            taken: 0,
            marks: Marks::new(),
        }
    }

    /// Writes each full block and adds its length to `spilled`. Ready when there's room for a
    /// chunk.
    fn poll_room(&mut self, spilled: &mut u64, cx: &mut Context<'_>) -> Poll<()> {
        // We ask for room now. If this kept a time in the past, the watchdog would wait for it
        // again and again.
        self.again = None;
        loop {
            ready!(self.poll_written(spilled, cx));
            if self.intake != QueueState::Chunks {
                return Poll::Pending;
            }
            if self.memory.len() < BLOCK {
                return Poll::Ready(());
            }
            if self.file.reserve(self.memory.len()).is_err() {
                self.again = Some(Instant::now() + AGAIN);
                return Poll::Pending;
            }
            self.block = Bytes::from(mem::take(&mut self.memory));
            self.file.begin_write(self.block.clone());
        }
    }

    /// Ready when no write is under way. A block that couldn't be written is kept.
    fn poll_written(&mut self, spilled: &mut u64, cx: &mut Context<'_>) -> Poll<()> {
        if self.file.is_writing() {
            match ready!(self.file.poll_written(cx)) {
                Ok(()) => {
                    *spilled += self.block.len() as u64;
                    self.reuse_block();
                }
                Err(error) => {
                    log::warning!(
                        "the rows of a slow client can't be spilled, so it holds its connection: {error}"
                    );
                    self.intake = QueueState::Failed;
                }
            }
        }
        Poll::Ready(())
    }

    /// Uses the memory of the written block for the next one, but gives back the part that only a
    /// long row needed.
    fn reuse_block(&mut self) {
        self.memory = Vec::from(mem::take(&mut self.block));
        self.memory.clear();
        self.memory.shrink_to(ROOM);
    }

    /// True if the rows wait because nothing can be written.
    fn is_stuck(&self) -> bool {
        self.again.is_some() || self.intake == QueueState::Failed
    }

    fn put(&mut self, chunk: &[u8], rows: RowCounts) {
        self.put += chunk.len() as u64;
        if self.memory.capacity() == 0 {
            self.memory.reserve_exact(ROOM);
        }
        self.memory.reserve_exact(chunk.len());
        self.memory.extend_from_slice(chunk);
        self.marks.put(self.put, rows);
    }

    /// Takes the oldest bytes; `None` if the queue is empty.
    fn poll_take(&mut self, spilled: &mut u64, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let taken = loop {
            if let Some(piece) = ready!(self.file.poll_read(cx)) {
                break piece;
            }
            ready!(self.poll_written(spilled, cx));
            if self.file.unread() == 0 {
                let block = self.take_block();
                if block.is_empty() {
                    return Poll::Ready(None);
                }
                break Ok(block);
            }
        };
        if let Ok(taken) = &taken {
            self.taken += taken.len() as u64;
        }
        Poll::Ready(Some(taken))
    }

    /// Takes the block in memory: the one that couldn't be written, or else the one that is being
    /// filled.
    fn take_block(&mut self) -> Bytes {
        if self.block.is_empty() {
            self.memory.shrink_to_fit();
            return Bytes::from(mem::take(&mut self.memory));
        }
        mem::take(&mut self.block)
    }

    fn is_empty(&self) -> bool {
        self.put == self.taken
    }

    /// The number of rows that have been taken; `None` if no mark was passed since the last call.
    fn rows(&mut self) -> Option<RowCounts> {
        self.marks.passed(self.taken)
    }
}

/// Positions of row numbers among the bytes of a queue. There are only a few marks; the more bytes,
/// the further they're apart.
struct Marks {
    marks: VecDeque<SpilledMark>,
    /// The least distance of two marks, in bytes.
    apart: u64,
}

struct SpilledMark {
    end: u64,
    rows: RowCounts,
}

impl Marks {
    const MOST: usize = 64;

    fn new() -> Self {
        Self { marks: VecDeque::new(), apart: BLOCK as u64 }
    }

    /// Notes that `rows` rows end at the byte `end`.
    fn put(&mut self, end: u64, rows: RowCounts) {
        if self.marks.back().is_some_and(|last| end - last.end < self.apart) {
            return;
        }
        if self.marks.len() == Self::MOST {
            let mut number = 0;
            self.marks.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.apart *= 2;
        }
        self.marks.push_back(SpilledMark { end, rows });
    }

    /// The rows before the byte `taken`, by the last mark passed; `None` if no mark was passed.
    fn passed(&mut self, taken: u64) -> Option<RowCounts> {
        let passed = self.marks.iter().take_while(|mark| mark.end <= taken).count();
        self.marks.drain(..passed).next_back().map(|mark| mark.rows)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use super::*;

    /// The bytes of each chunk. Each row is one byte, and differs from those near it.
    const PUT: usize = 10_000;

    /// Unlimited memory.
    struct UnlimitedMemory;

    impl Memory for UnlimitedMemory {
        fn claim(&mut self) -> bool {
            true
        }
    }

    fn chunk(number: usize) -> Vec<u8> {
        (0..PUT).map(|i| ((number * PUT + i) % 251) as u8).collect()
    }

    fn chunks(numbers: std::ops::Range<usize>) -> Vec<u8> {
        numbers.flat_map(chunk).collect()
    }

    fn rows(chunks: usize) -> u64 {
        (chunks * PUT) as u64
    }

    /// A stream whose client was given a chunk, and hasn't read it for so long that it's slow.
    fn slow(settings: &SpoolSettings, used: &Arc<UsedQuota>) -> Spill {
        let mut spill = Spill::new(SpillTime::WhenSlow, settings, used, Box::new(UnlimitedMemory));
        spill.given(0);
        spill.pace.behind = PATIENCE;
        spill
    }

    /// Adds chunks while there's room. Returns the number of the first one that wasn't added.
    async fn fill(spill: &mut Spill, from: usize, to: usize) -> usize {
        for number in from..to {
            let room = tokio::time::timeout(
                Duration::from_millis(200),
                poll_fn(|cx| spill.poll_room(RowCounts::default(), false, cx)),
            );
            if room.await.is_err() {
                return number;
            }
            spill.put(&chunk(number), RowCounts::of(rows(number + 1)));
        }
        to
    }

    async fn until_room(spill: &mut Spill) {
        let room = async {
            while spill
                .poll_room(RowCounts::default(), false, &mut Context::from_waker(Waker::noop()))
                .is_pending()
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), room).await.expect("there is room");
    }

    async fn take(spill: &mut Spill) -> Option<Vec<u8>> {
        poll_fn(|cx| spill.poll_take(cx)).await.map(|piece| piece.unwrap().to_vec())
    }

    async fn take_all(spill: &mut Spill) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = take(spill).await {
            all.extend(piece);
        }
        all
    }

    #[tokio::test]
    async fn who_takes_what_there_is_is_not_slow() {
        let mut spill = Spill::new(
            SpillTime::WhenSlow,
            &SpoolSettings::default(),
            &Arc::default(),
            Box::new(UnlimitedMemory),
        );
        let mut cx = Context::from_waker(Waker::noop());
        for number in 0..3 {
            assert!(matches!(spill.poll_take(&mut cx), Poll::Ready(None)));
            assert!(spill.again().is_none(), "it waits for rows");
            spill.given(PUT);
            assert!(spill.again().is_some_and(|at| at > Instant::now()));
            assert!(spill.poll_room(RowCounts::of(number), false, &mut cx).is_pending());
        }
        assert_eq!((spill.spilled(), spill.rows(RowCounts::of(7))), (0, RowCounts::of(7)));
    }

    /// A client that needs half as long as the rows is never slow. One that needs twice as long is
    /// slow, although it never stops.
    #[test]
    fn what_counts_is_who_waits_longer() {
        for (of_rows, of_client, end) in [(20, 10, None), (10, 20, Some(99)), (0, 500, Some(2))] {
            let mut now = Instant::now();
            let mut pace = Pace { since: now, ..Pace::of_rows() };
            let slow = (1..1000).find(|_| {
                now += Duration::from_millis(of_rows);
                pace.given(now, PUT);
                now += Duration::from_millis(of_client);
                let slow = pace.slow_at().is_some_and(|at| at <= now);
                pace.wanted(now);
                slow
            });
            assert_eq!(slow, end, "{of_rows} {of_client}");
        }
    }

    /// A client that was slow for an hour and keeps up now is no longer slow after two seconds.
    #[test]
    fn what_was_long_ago_does_not_count() {
        let mut pace = Pace::of_rows();
        let begun = pace.since;
        pace.given(begun, 3600 * PUT);
        let now = begun + Duration::from_secs(3600);
        assert!(pace.lag(now) > PATIENCE && pace.rate(now) == PUT as u64);
        pace.wanted(now);
        assert_eq!(pace.lag(now + Duration::from_secs(2)), Duration::ZERO);
    }

    #[tokio::test]
    async fn what_is_put_comes_out_in_order_while_more_is_put() {
        let used = Arc::<UsedQuota>::default();
        let mut spill = slow(&SpoolSettings::default(), &used);
        assert_eq!(fill(&mut spill, 0, 30).await, 30);
        assert!(!spill.is_empty() && used.bytes() > 200_000);
        let mut all = Vec::new();
        for _ in 0..2 {
            all.extend(take(&mut spill).await.unwrap());
        }
        let known = spill.rows(RowCounts::of(rows(30))).rows;
        assert!(known <= all.len() as u64 && known > 0, "{known} of {} are known", all.len());
        assert_eq!(fill(&mut spill, 30, 50).await, 50);
        all.extend(take_all(&mut spill).await);
        assert!(all == chunks(0..50), "{} bytes", all.len());
        let all = RowCounts::of(rows(50));
        assert_eq!(spill.rows(all), all);
        used.until_none().await;
        // It has caught up: chunks go directly to it again, and may be spilled again later.
        assert!(matches!(spill.state, State::Flowing));
    }

    #[tokio::test]
    async fn the_end_of_the_rows_waits_too() {
        let mut spill = slow(&SpoolSettings::default(), &Arc::default());
        assert_eq!(fill(&mut spill, 0, 9).await, 9);
        spill.end();
        let State::Queued(queue) = &spill.state else { panic!("nothing waits") };
        assert_eq!(queue.memory.capacity(), queue.memory.len(), "it may wait for long");
        assert!(spill.is_draining());
        assert!(
            spill
                .poll_room(RowCounts::default(), false, &mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        assert!(take_all(&mut spill).await == chunks(0..9));
        assert!(spill.is_empty() && !spill.is_draining());
    }

    #[tokio::test]
    async fn without_room_the_rows_wait_and_nothing_is_lost() {
        let used = Arc::<UsedQuota>::default();
        for settings in [
            SpoolSettings { limit: 200_000, ..SpoolSettings::default() },
            SpoolSettings { quota: 200_000, ..SpoolSettings::default() },
        ] {
            let mut spill = slow(&settings, &used);
            let put = fill(&mut spill, 0, 100).await;
            assert!((20..30).contains(&put), "{put} chunks went in");
            assert!(spill.again().is_some(), "room may come");
            assert!(used.bytes() <= 200_000);
            assert!(take_all(&mut spill).await == chunks(0..put));
            used.until_none().await;
        }
    }

    /// The time to ask for room again was kept after it was over, and so the watchdog waited for it
    /// again and again.
    #[tokio::test]
    async fn room_that_is_not_wanted_is_not_asked_for() {
        let settings = SpoolSettings { limit: 200_000, ..SpoolSettings::default() };
        let mut spill = slow(&settings, &Arc::default());
        fill(&mut spill, 0, 100).await;
        assert!(spill.again().is_some(), "room may come");
        spill.end();
        assert!(
            spill
                .poll_room(RowCounts::default(), false, &mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        assert_eq!(spill.again(), None);
    }

    #[tokio::test]
    async fn there_is_room_again_once_another_stream_has_ended() {
        let used = Arc::<UsedQuota>::default();
        let settings = SpoolSettings { quota: 300_000, ..SpoolSettings::default() };
        let (mut first, mut second) = (slow(&settings, &used), slow(&settings, &used));
        let of_first = fill(&mut first, 0, 100).await;
        let of_second = fill(&mut second, 0, 100).await;
        assert!(of_first > 20 && of_second < 10, "{of_first} and {of_second}");
        drop(first);
        until_room(&mut second).await;
        let more = fill(&mut second, of_second, 100).await;
        assert!(more > 20, "{more}");
        assert!(take_all(&mut second).await == chunks(0..more));
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_not_lost() {
        let settings = SpoolSettings { folder: Some("/nowhere/at/all".into()), ..SpoolSettings::default() };
        let mut spill = slow(&settings, &Arc::default());
        let put = fill(&mut spill, 0, 100).await;
        assert_eq!(put, 4, "a block is held");
        assert!(take_all(&mut spill).await == chunks(0..put));
        // Chunks go directly to the client again, and no further write is tried.
        assert!(matches!(spill.state, State::Holding) && spill.spilled() == 0);
    }

    #[test]
    fn marks_are_few_and_tell_of_all() {
        let mut marks = Marks::new();
        let (ends, row) = (100_000_u64, 1000);
        for number in 1..=ends {
            marks.put(number * row, RowCounts::of(number));
            assert!(marks.marks.len() <= Marks::MOST);
        }
        let mut known = 0;
        for taken in (0..=ends * row).step_by(50_000) {
            known = marks.passed(taken).map_or(known, |passed| passed.rows);
            assert!(known * row <= taken, "{known} rows are more than {taken} bytes");
            assert!(known + ends / 16 >= taken / row, "{known} rows of {taken} bytes");
        }
    }
}
