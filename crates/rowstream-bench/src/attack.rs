//! One run: connections spread over threads. Each thread has its own runtime, so no work moves
//! between cores.
//!
//! The calling thread sends nothing. It samples the server and the counts every 100 ms, and ends
//! the run on Ctrl-C.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{cell::RefCell, io};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{MissedTickBehavior, interval, timeout_at};

use super::connection::{Connection, Trouble, Wire};
use super::pacer::{Pacer, Turn};
use super::reply::{Failure, FailureKind, LiveCounts, Reply};
use super::tally::{Tally, Times};
use super::target::Target;
use super::watch::{Cost, Process, Sample};
use super::{Error, Plan};

const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// A thread that used more than this share of a core probably had no time to spare.
const BUSY: f64 = 0.9;

/// The pause of a connection after it was refused. Without it, the closed model would do nothing
/// but reconnect.
const AFTER_REFUSAL: Duration = Duration::from_millis(10);

/// The measurements of one run.
#[derive(Debug)]
pub struct Run {
    /// From the start to the end of the last request, and at least the duration of the plan.
    pub(super) wall: Duration,
    pub(super) tally: Tally,
    pub(super) cost: Option<Cost>,
    pub(super) client: Client,
    pub(super) timeline: Vec<Moment>,
    pub(super) interrupted: bool,
}

/// The CPU use of the load tester itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client {
    /// CPU time of the threads with connections.
    pub(super) cpu: Duration,
    /// The share of its time that the busiest thread computed, from 0 to 1.
    pub(super) busy: f64,
}

impl Client {
    /// Returns true if the load tester was too busy, so the target may be faster than measured.
    pub(super) fn limited(&self) -> bool {
        self.busy > BUSY
    }
}

/// The counts at one moment of a run. They include requests that fail later.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Since the start.
    pub(super) at: Duration,
    pub(super) requests: u64,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) server: Option<Sample>,
}

/// State that all threads of a run share.
struct RunState {
    plan: Plan,
    target: Target,
    addresses: Vec<SocketAddr>,
    pacer: Pacer,
    begin: Barrier,
}

/// A thread of connections.
struct Driver {
    runtime: Runtime,
    connections: usize,
    live: Arc<LiveCounts>,
    stop: watch::Receiver<bool>,
    /// Dropped when the thread ends, so that the observer notices.
    _running: mpsc::Sender<()>,
}

/// The measurements of one thread.
struct ThreadResult {
    tally: Tally,
    cpu: Duration,
    busy: f64,
}

/// Drives the target once, as planned.
///
/// # Errors
/// The host has no address, the process does not exist, or a thread cannot be started.
pub(super) async fn run(plan: &Plan, target: &Target, pid: Option<u32>) -> Result<Run, Error> {
    let addresses = target.resolve().await.map_err(Error::Message)?;
    let process = pid.map(Process::attach).transpose().map_err(Error::Message)?;
    let threads = plan.threads.min(plan.connections);
    let shared = Arc::new(RunState {
        plan: plan.clone(),
        target: target.clone(),
        addresses,
        pacer: Pacer::new(plan.extent, plan.rate),
        begin: Barrier::new(threads + 1),
    });
    let (stop, stopped) = watch::channel(false);
    let (running, mut ended) = mpsc::channel(1);
    // We create everything before a thread starts. Otherwise a failure would leave threads waiting
    // at the barrier.
    let drivers = (0..threads).map(|thread| {
        Ok(Driver {
            runtime: Builder::new_current_thread().enable_all().build()?,
            connections: plan.connections / threads + usize::from(thread < plan.connections % threads),
            live: Arc::default(),
            stop: stopped.clone(),
            _running: running.clone(),
        })
    });
    let drivers = drivers.collect::<io::Result<Vec<_>>>()?;
    drop(running);
    let mut observer = Observer {
        lives: drivers.iter().map(|driver| Arc::clone(&driver.live)).collect(),
        process,
        timeline: Vec::new(),
    };
    let start = |driver: Driver| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || driver.drive(&shared))
    };
    let threads: Vec<_> = drivers.into_iter().map(start).collect();
    shared.begin.wait();
    let begun = shared.pacer.start();
    let interrupted = observer.watch(begun, &mut ended, &stop).await;
    observer.look(begun);
    Ok(observer.report(&shared.pacer, collect(threads), interrupted))
}

/// Joins the threads.
fn collect(threads: Vec<JoinHandle<ThreadResult>>) -> Vec<ThreadResult> {
    let join = |thread: JoinHandle<ThreadResult>| match thread.join() {
        Ok(driven) => driven,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    threads.into_iter().map(join).collect()
}

/// Samples a run from outside.
struct Observer {
    lives: Vec<Arc<LiveCounts>>,
    process: Option<Process>,
    timeline: Vec<Moment>,
}

impl Observer {
    /// Waits until all threads have ended. Ctrl-C stops them; returns true if that happened.
    async fn watch(
        &mut self,
        begun: Instant,
        ended: &mut mpsc::Receiver<()>,
        stop: &watch::Sender<bool>,
    ) -> bool {
        let mut ticks = interval(SAMPLE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let interrupt = tokio::signal::ctrl_c();
        tokio::pin!(interrupt);
        let mut interrupted = false;
        loop {
            tokio::select! {
                _ = ended.recv() => return interrupted,
                _ = ticks.tick() => self.look(begun),
                _ = &mut interrupt, if !interrupted => {
                    interrupted = true;
                    stop.send_replace(true);
                }
            }
        }
    }

    fn look(&mut self, begun: Instant) {
        let sum = |count: fn(&LiveCounts) -> u64| self.lives.iter().map(|live| count(live)).sum();
        self.timeline.push(Moment {
            at: begun.elapsed(),
            requests: sum(|live| live.requests.load(Ordering::Relaxed)),
            rows: sum(|live| live.rows.load(Ordering::Relaxed)),
            bytes: sum(|live| live.bytes.load(Ordering::Relaxed)),
            server: self.process.as_mut().and_then(Process::sample),
        });
    }

    fn report(mut self, pacer: &Pacer, driven: Vec<ThreadResult>, interrupted: bool) -> Run {
        let mut tally = Tally::default();
        let mut client = Client { cpu: Duration::ZERO, busy: 0.0 };
        for thread in driven {
            client.cpu += thread.cpu;
            client.busy = client.busy.max(thread.busy);
            tally.add(thread.tally);
        }
        let end = if interrupted { Some(Instant::now()) } else { tally.last_end.max(pacer.end()) };
        Run {
            wall: end.unwrap_or_else(Instant::now).saturating_duration_since(pacer.start()),
            tally,
            cost: self.process.as_mut().map(Process::cost),
            client,
            timeline: self.timeline,
            interrupted,
        }
    }
}

impl Driver {
    /// Runs the connections of this thread until they end or the run is stopped.
    fn drive(mut self, shared: &Arc<RunState>) -> ThreadResult {
        let tally = Rc::new(RefCell::new(Tally::default()));
        let wire = Rc::new(Wire::new(&shared.plan, &shared.target, &shared.addresses));
        let connections = LocalSet::new();
        shared.begin.wait();
        let (begun, cpu_before) = (Instant::now(), thread_cpu());
        connections.block_on(&self.runtime, async {
            let mut workers = JoinSet::new();
            for _ in 0..self.connections {
                let worker = Worker {
                    shared: Arc::clone(shared),
                    wire: Rc::clone(&wire),
                    tally: Rc::clone(&tally),
                    live: Arc::clone(&self.live),
                    connection: None,
                };
                workers.spawn_local(worker.work());
            }
            let all = async {
                while let Some(worker) = workers.join_next().await {
                    worker.expect("no worker panics");
                }
            };
            tokio::select! {
                () = all => {}
                // Requests in flight are neither complete nor failed, so they aren't counted.
                _ = self.stop.wait_for(|stop| *stop) => {}
            }
        });
        let cpu = thread_cpu().saturating_sub(cpu_before);
        let busy = cpu.as_secs_f64() / begun.elapsed().as_secs_f64().max(1e-9);
        ThreadResult { tally: tally.take(), cpu, busy: busy.min(1.0) }
    }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// One of the `-c` connections, across reconnects.
struct Worker {
    shared: Arc<RunState>,
    wire: Rc<Wire>,
    tally: Rc<RefCell<Tally>>,
    live: Arc<LiveCounts>,
    connection: Option<Connection>,
}

impl Worker {
    async fn work(mut self) {
        let shared = Arc::clone(&self.shared);
        let overdue = shared.pacer.end().map(|end| end + shared.plan.timeout);
        while let Some(turn) = shared.pacer.next().await {
            match overdue {
                None => self.request(turn).await,
                Some(overdue) => match timeout_at(overdue.into(), self.request(turn)).await {
                    Ok(()) => {}
                    Err(_) => self.overdue(),
                },
            }
            self.live.requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that a request was still running long after the end of the run.
    fn overdue(&mut self) {
        self.connection = None;
        let detail = format!("not ended {:?} after the end of the run", self.shared.plan.timeout);
        self.tally.borrow_mut().fail(Failure::new(FailureKind::Timeout, detail), Instant::now());
    }

    /// Sends one request, reads the response and records the result.
    async fn request(&mut self, turn: Turn) {
        let live = Arc::clone(&self.live);
        let mut reply = Reply::new(&live);
        let path = self.shared.target.path();
        let begun = match turn {
            Turn::Closed => Instant::now(),
            Turn::Open(due) => due,
        };
        let mut connect = None;
        let (ended, sent) = loop {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => match self.connect(&mut connect).await {
                    Ok(connection) => connection,
                    Err(failure) => return self.refused(failure).await,
                },
            };
            let sent = Instant::now();
            let ended = match connection.exchange(&path, &self.wire, &mut reply).await {
                Ok(framing) => Ok(framing),
                Err(Trouble::Failed(failure)) => Err(failure),
                // A new connection can't be stale, so we retry only once.
                Err(Trouble::Stale) => continue,
            };
            if connection.reusable() {
                self.connection = Some(connection);
            }
            break (ended, sent);
        };
        let end = Instant::now();
        let awaited = if turn == Turn::Closed { sent } else { begun };
        let (first_byte, first_row) = (reply.first_byte, reply.first_row);
        let mut tally = self.tally.borrow_mut();
        if let Some(status) = reply.status {
            tally.status(status);
        }
        match reply.verdict(ended, self.shared.plan.expect_rows) {
            Ok(rows) => {
                let times = Times { connect, begun, awaited, first_byte, first_row, end };
                tally.complete(rows, reply.bytes, &times);
            }
            Err(failure) => tally.fail(failure, end),
        }
    }

    async fn connect(&self, took: &mut Option<Duration>) -> Result<Connection, Failure> {
        let before = Instant::now();
        let connection = Connection::open(&self.wire).await?;
        *took = Some(before.elapsed());
        Ok(connection)
    }

    async fn refused(&self, failure: Failure) {
        self.tally.borrow_mut().fail(failure, Instant::now());
        tokio::time::sleep(AFTER_REFUSAL).await;
    }
}
