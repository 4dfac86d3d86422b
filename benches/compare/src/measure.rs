//! Runs the rows.
//!
//! We start all servers of a row, prove that they respond with the database's data, and warm them
//! up. Then the targets alternate, one run each per round. While one is measured, the others idle.
//! So changes of the machine during a row affect all of them equally.

mod drivers;
pub(crate) mod versions;

use std::cell::OnceCell;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use jiff::{Timestamp, Unit};

use crate::beside::{self, Policy};
use crate::canned::{self, Canned};
use crate::client::{self, Amount, Http, Load};
use crate::database::{self, AUTHORS, Data, EVENTS, MariaDb, Postgres};
use crate::process::{Launch, Server};
use crate::proof::Digest;
use crate::quiet::Watch;
use crate::record::{self, Machine, Measure, RowRun, Run, Sample, Series};
use crate::rows::{
    ALONE, ARROW, BARE_LOOP, BENCH_ARRAY, BENCH_LINES, BROTLI, BY_ROWS, BY_STREAMS, COPIES, COPY, CSV, CURL,
    FAR_CLIENT, FAR_COPY, FAR_DATABASE, GZIP, HOLD, JSON, LOGGING, MARIADB_QUICK, MYSQLSLAP, OBSERVED,
    PARALLEL, PGBENCH, ROWSTREAM, Row, SMALL, SPILL, SQLITE_CSV, ZSTD, is_claimed_of,
};
use crate::small::Bound;
use crate::target::{self, AccessLog, Builds, Platform, Rival};
use crate::{Options, Result, Size, machine, observed, report, sockets, workspace};

/// The delays from a distant database and from a distant client to this machine. A round trip is
/// twice as long.
const DATABASE_DELAY: Duration = Duration::from_micros(500);
const CLIENT_DELAY: Duration = Duration::from_millis(20);

/// On two cores, more clients aren't faster, except for a distant database.
const PGBENCH_CLIENTS: u64 = 16;
const FAR_PGBENCH_CLIENTS: u64 = 64;

/// The default pool of Rowstream's sources, and so the rivals' pool.
const POOL: u64 = 20;

/// The number of attempts before a target is given up.
const ATTEMPTS: usize = 3;

/// The number of times that a run is repeated because other programs used the machine.
const DISTURBED: usize = 10;

/// The longest warm-up. No target needs more.
const WARM: Duration = Duration::from_secs(60);

/// A minute in windows of five seconds.
const WINDOWS: usize = 12;

/// After runs of this many seconds in total, a target isn't run again unless a claim needs it: we
/// know by then how slow it is. A failed run that lasted so long isn't repeated.
const LONG: f64 = 120.0;

/// Measures the rows, writes their raw runs, and generates the report.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut lab = Lab::new(options)?;
    let postgres = lab.postgres.program("postgres").get_program().to_string_lossy().into_owned();
    let machine = machine::describe(options, &postgres);
    let folder = match options.size {
        Size::Full => workspace::root().join("benches/runs"),
        Size::Quick => workspace::scratch()?.join("quick"),
    };
    let folder = folder.join(format!("{}-{}", machine.date, machine.commit));
    record::write(&folder.join("machine.json"), &machine)?;
    let mut failed = Vec::new();
    for row in &options.rows {
        println!("\n==> {}", row.id());
        match lab.row(*row).and_then(|run| usual(run, &machine, options.size)) {
            Ok(run) => record::write(&folder.join(format!("{}.json", row.id())), &run)?,
            Err(message) => {
                eprintln!("{message}");
                failed.push(row.id());
            }
        }
    }
    match options.size {
        Size::Full => report::publish()?,
        Size::Quick => report::write(&[Run::read(&folder)?], &folder)?,
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("rows that could not be run: {}", failed.join(" "))) }
}

fn no_place(error: &io::Error) -> String {
    format!("no place can be made that is far: {error}")
}

/// Returns the row unless a floor was slower than usual on this machine. Then something disturbed
/// the measurement.
fn usual(run: RowRun, machine: &Machine, size: Size) -> Result<RowRun> {
    match size {
        Size::Full => record::slower_than_usual(&run, machine, &record::all().unwrap_or_default()),
        Size::Quick => None,
    }
    .map_or(Ok(run), Err)
}

/// State that all rows share.
struct Lab {
    size: Size,
    runs: usize,
    rivals: Vec<Rival>,
    postgres: Postgres,
    builds: Builds,
    events: OnceCell<Digest>,
    authors: OnceCell<Digest>,
}

/// A target of a row, ready to run.
struct Contender<'a> {
    series: Series,
    server: Option<Server>,
    work: Box<dyn FnMut() -> Result<Sample> + 'a>,
}

impl<'a> Contender<'a> {
    fn new(
        name: &str,
        server: Option<Server>,
        warm_ups: usize,
        work: impl FnMut() -> Result<Sample> + 'a,
    ) -> Self {
        Self { series: Series::new(name, warm_ups), server, work: Box::new(work) }
    }

    /// Adds the failures that happened while its response was proven.
    fn after(mut self, faults: Vec<String>) -> Self {
        self.series.faults = faults;
        self
    }

    fn at(mut self, x: u64) -> Self {
        self.series.x = Some(x);
        self
    }

    /// Runs once, and measures the server's use of resources.
    fn once(&mut self) -> Result<Sample> {
        let Some(server) = &mut self.server else { return (self.work)() };
        server.reset_peak()?;
        let (before, said) = (server.cpu(), server.said());
        let mut sample = (self.work)().map_err(|error| server.explained(error, said))?;
        if !server.is_running() {
            return Err(server.explained("it answered, and then failed".into(), said));
        }
        let has_failed = sample.get(&Measure::Failures).is_some_and(|failures| *failures > 0.0);
        if has_failed && self.series.complaint.is_none() {
            self.series.complaint = server.complaint(said);
        }
        let cpu = server.cpu() - before;
        sample.insert(Measure::Cpu, cpu);
        let rate = sample.get(&Measure::RequestsPerSecond).copied().filter(|rate| *rate > 0.0);
        if let Some(rate) = rate {
            sample.insert(Measure::CpuPerRequest, cpu / (rate * sample[&Measure::Wall]));
        }
        sample.insert(Measure::PeakMemory, server.peak());
        Ok(sample)
    }

    /// Makes a run that counts. A failed run is reported and repeated. After too many failures, the
    /// target is left out of later rounds.
    ///
    /// # Errors
    ///
    /// Other programs keep the machine busy.
    fn measured(&mut self, size: Size) -> Result<()> {
        for _ in 0..DISTURBED {
            let watch = Watch::begin(size)?;
            let Some(sample) = self.repeated() else { return Ok(()) };
            match watch.end() {
                Ok(()) => {
                    self.series.samples.push(sample);
                    return Ok(());
                }
                Err(message) => self.series.faults.push(message),
            }
        }
        Err(self.series.faults.pop().unwrap_or_default())
    }

    fn warm_up(&mut self) {
        let begun = Instant::now();
        for done in 0..self.series.warm_ups {
            if begun.elapsed() > WARM {
                self.series.warm_ups = done;
            }
            if done == self.series.warm_ups || self.repeated().is_none() {
                return;
            }
        }
    }

    fn takes_part(&self) -> bool {
        let taken: f64 = self.series.values(Measure::Wall).iter().sum();
        self.series.missing.is_none() && (taken < LONG || is_claimed_of(&self.series.target))
    }

    fn repeated(&mut self) -> Option<Sample> {
        let begun = Instant::now();
        let mut attempts = 1;
        loop {
            match self.once() {
                Ok(sample) => return Some(sample),
                Err(message) if attempts < ATTEMPTS && begun.elapsed().as_secs_f64() < LONG => {
                    self.series.faults.push(message);
                    attempts += 1;
                }
                Err(message) => {
                    self.fail(message);
                    return None;
                }
            }
        }
    }

    fn fail(&mut self, message: String) {
        println!("{}: {message}", self.series.target);
        self.series.missing = Some(message);
    }
}

/// The load of a lookup row.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// The clients' connections.
    connections: u64,
    amount: Amount,
    java_warm_ups: usize,
}

/// The kind of response, which decides how it's compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Lines,
    /// The same in any order.
    Shuffled,
    Json,
}

impl Lab {
    fn new(options: &Options) -> Result<Self> {
        let postgres = Postgres::from_environment()?;
        postgres.fill(options.size)?;
        Ok(Self {
            size: options.size,
            runs: options.runs,
            rivals: options.rivals.clone(),
            postgres,
            builds: Builds::default(),
            events: OnceCell::new(),
            authors: OnceCell::new(),
        })
    }

    fn row(&mut self, row: Row) -> Result<RowRun> {
        let started = Timestamp::now().round(Unit::Second).map_err(|error| error.to_string())?;
        let (series, notes) = match row {
            Row::Events => (self.events("/events.ndjson", Answer::Lines, Http::One)?, vec![]),
            Row::EventsEnvelope => (self.events("/events", Answer::Json, Http::One)?, vec![]),
            Row::EventsH2 => (self.events("/events.ndjson", Answer::Lines, Http::Two)?, vec![]),
            Row::FirstByte => (self.first_byte()?, vec![]),
            Row::Distance => (self.distance()?, vec![]),
            Row::Parallel => (self.parallel()?, vec![]),
            Row::Formats => (self.formats()?, vec![]),
            Row::Sqlite => (self.sqlite()?, vec![]),
            Row::SqliteLookups => (self.sqlite_lookups()?, vec![]),
            Row::Mysql => (self.mysql()?, vec![]),
            Row::FarLookups => (self.far_lookups()?, vec![]),
            Row::MysqlLookups => (self.mysql_lookups()?, vec![]),
            Row::Odbc => (self.odbc()?, vec![]),
            Row::DuckDb => (self.duckdb()?, vec![]),
            Row::Flight => (self.flight()?, vec![]),
            Row::RivalsEvents => (self.rivals_events()?, vec![]),
            Row::Authors => (self.authors()?, vec![]),
            Row::Slow => (self.slow()?, vec![]),
            Row::Beside => (self.beside_readers()?, vec![]),
            Row::Lookups => (self.lookups()?, vec![]),
            Row::SteadyLookups => (self.steady_lookups()?, vec![]),
            Row::Films => (self.films()?, vec![]),
            Row::SmallMachine => self.small_machine()?,
            Row::AccessLog => (self.access_log()?, vec![]),
            Row::AccessLogLookups => (self.access_log_lookups()?, vec![]),
            Row::Observed => (self.observed()?, vec![]),
            Row::ObservedLookups => (self.observed_lookups()?, vec![]),
            Row::Growth => (self.growth()?, vec![]),
            Row::LoadTester => (self.load_tester()?, vec![]),
        };
        Ok(RowRun { row: row.id().into(), started, series, notes })
    }

    /// The number of warm-up runs. A JIT compiler needs more of them to settle.
    fn warm_ups(&self, platform: Option<Platform>, java: usize) -> usize {
        match (self.size, platform) {
            (Size::Quick, _) => 1,
            (Size::Full, Some(Platform::Java)) => java,
            (Size::Full, _) => 2,
        }
    }

    /// Warms up all targets, then alternates between them.
    fn alternate(&self, mut contenders: Vec<Contender>, rounds: usize) -> Result<Vec<Series>> {
        for contender in &mut contenders {
            println!("warming up {} ({} runs)", contender.series.target, contender.series.warm_ups);
            contender.warm_up();
        }
        take_turns(&mut contenders, rounds, self.runs, |contender| contender.measured(self.size))?;
        Ok(contenders.into_iter().map(|contender| contender.series).collect())
    }

    /// The number of runs for rows whose runs are short, and whose differences are small.
    fn many(&self) -> usize {
        3 * self.runs
    }

    /// Rowstream serving one of the examples.
    fn example(&self, data: Data) -> Result<Server> {
        Server::start(&target::example(data, &self.postgres.url(), AccessLog::Off)?)
    }

    /// The floor of the events.
    fn copy(&self) -> Contender<'_> {
        Contender::new(COPY, None, self.warm_ups(None, 0), || {
            let wall = database::timed(&mut self.postgres.copy(EVENTS, 1))?;
            Ok(Sample::from([(Measure::Wall, wall)]))
        })
    }

    /// A server that streams rows to one `curl`. Its response is proven first.
    fn stream<'a>(
        &'a self,
        name: &str,
        server: Server,
        path: &str,
        answer: Answer,
        http: Http,
        warm_ups: usize,
    ) -> Result<Contender<'a>> {
        let url = format!("http://127.0.0.1:{}{path}", server.port());
        let Proof { bytes, faults } = prove(&url, answer, self.expected_events()?)?;
        let work = move || client::stream(&url, http, bytes);
        Ok(Contender::new(name, Some(server), warm_ups, work).after(faults))
    }

    fn events(&self, path: &str, answer: Answer, http: Http) -> Result<Vec<Series>> {
        let server = self.example(Data::Events)?;
        let rowstream = self.stream(ROWSTREAM, server, path, answer, http, self.warm_ups(None, 0))?;
        self.alternate(vec![rowstream, self.copy()], self.many())
    }

    fn first_byte(&self) -> Result<Vec<Series>> {
        let server = self.example(Data::Events)?;
        let warm_ups = self.warm_ups(None, 0);
        let rowstream =
            self.stream(ROWSTREAM, server, "/events.ndjson", Answer::Lines, Http::One, warm_ups)?;
        self.alternate(vec![rowstream], self.many())
    }

    /// The events with everything nearby, from a distant database, with the floor there, and to a
    /// distant client.
    fn distance(&self) -> Result<Vec<Series>> {
        let (path, warm_ups) = ("/events.ndjson", self.warm_ups(None, 0));
        let stream = |name, server| self.stream(name, server, path, Answer::Lines, Http::One, warm_ups);
        let near = stream(ROWSTREAM, self.example(Data::Events)?)?;

        let postgres = self.far_postgres()?;
        let launch = target::example(Data::Events, &postgres.url(), AccessLog::Off)?;
        let far_database = stream(FAR_DATABASE, Server::start(&launch)?)?;
        let floor = Contender::new(FAR_COPY, None, warm_ups, move || {
            Ok(Sample::from([(Measure::Wall, database::timed(&mut postgres.copy(EVENTS, 1))?)]))
        });

        let [here, far] = distance::from_here(CLIENT_DELAY).map_err(|error| no_place(&error))?;
        let launch = target::example(Data::Events, &self.postgres.url(), AccessLog::Off)?;
        let server = Server::start(&target::for_others(launch))?;
        let Proof { bytes, faults } = prove(&server.url(path), Answer::Lines, self.expected_events()?)?;
        let url = format!("http://{}:{}{path}", here.address, server.port());
        let work = move || client::stream_to(&far, &url, bytes);
        let far_client = Contender::new(FAR_CLIENT, Some(server), warm_ups, work).after(faults);
        self.alternate(vec![near, far_database, floor, far_client], self.many())
    }

    /// The database of all rows, at a distance.
    fn far_postgres(&self) -> Result<Postgres> {
        let [_, far] = distance::from_here(DATABASE_DELAY).map_err(|error| no_place(&error))?;
        self.postgres.relayed_at(&far)
    }

    /// The events over one connection and over three. Three return them in no particular order.
    fn parallel(&self) -> Result<Vec<Series>> {
        let source = format!("[source.events]\nurl = \"{}\"", self.postgres.url());
        let stream = |name: &str, folder: &str, keys: &str| {
            let endpoint = format!("/*\n{keys}\n*/\nselect {NAMED_EVENTS} from payment_event\n");
            workspace::write(&workspace::scratch()?.join(folder).join("endpoints/events.sql"), &endpoint)?;
            let server = Server::start(&target::configured(folder, "endpoints", &source)?)?;
            let warm_ups = self.warm_ups(None, 0);
            self.stream(name, server, "/events.ndjson", Answer::Shuffled, Http::One, warm_ups)
        };
        let one = stream(ROWSTREAM, "parallel-one", "summary = \"Payment events\"")?;
        let three = stream(PARALLEL, "parallel-three", "parallel = 3")?;
        self.alternate(vec![one, three, self.copy()], self.many())
    }

    /// One list in each format, and its NDJSON with each coding. Only the one without a coding is
    /// proven.
    fn formats(&self) -> Result<Vec<Series>> {
        let mut contenders = Vec::new();
        for (name, path, coding) in [
            (ROWSTREAM, "/authors.ndjson", "identity"),
            (JSON, "/authors", "identity"),
            (CSV, "/authors.csv", "identity"),
            (ARROW, "/authors.arrow", "identity"),
            (ZSTD, "/authors.ndjson", "zstd"),
            (BROTLI, "/authors.ndjson", "br"),
            (GZIP, "/authors.ndjson", "gzip"),
        ] {
            let server = self.example(Data::Authors)?;
            let url = format!("http://127.0.0.1:{}{path}", server.port());
            let faults = match name {
                ROWSTREAM => prove(&url, Answer::Lines, self.expected_authors()?)?.faults,
                _ => Vec::new(),
            };
            let work = move || client::coded(&url, coding);
            contenders.push(Contender::new(name, Some(server), self.warm_ups(None, 0), work).after(faults));
        }
        self.alternate(contenders, self.many())
    }

    fn sqlite_lookups(&self) -> Result<Vec<Series>> {
        let file = database::fill_sqlite(Data::Authors, self.size)?;
        let rowstream = self.authors_at(&format!("sqlite:{}", file.display()))?;
        self.alternate(vec![rowstream], self.runs)
    }

    fn far_lookups(&self) -> Result<Vec<Series>> {
        let postgres = self.far_postgres()?;
        let rowstream = self.authors_at(&postgres.url())?;
        let (statement, ids) = (format!("{} where id", author_columns()), Data::Authors.rows(self.size));
        let amount = Amount::Seconds(self.size.of(5).max(1));
        let floor = Contender::new(PGBENCH, None, self.warm_ups(None, 0), move || {
            client::pgbench(&postgres, FAR_PGBENCH_CLIENTS, &statement, ids, amount)
        });
        self.alternate(vec![rowstream, floor], self.runs)
    }

    fn mysql_lookups(&self) -> Result<Vec<Series>> {
        let mariadb = MariaDb::filled(Data::Authors, self.size)?;
        let rowstream = self.authors_at(&mariadb.url())?;
        let (statement, ids) = (format!("{} where id", author_columns()), Data::Authors.rows(self.size));
        let lookups = self.size.of(200_000);
        let floor = Contender::new(MYSQLSLAP, None, self.warm_ups(None, 0), || {
            client::mysqlslap(&mariadb, &statement, ids, lookups)
        });
        self.alternate(vec![rowstream, floor], self.runs)
    }

    /// Rowstream with the authors in the database at `url`.
    fn authors_at(&self, url: &str) -> Result<Contender<'_>> {
        let server = Server::start(&target::example(Data::Authors, url, AccessLog::Off)?)?;
        self.authors_asked(ROWSTREAM, server)
    }

    /// A server with the authors. 64 connections request random ones.
    fn authors_asked(&self, name: &str, server: Server) -> Result<Contender<'_>> {
        let (ids, seconds) = (Data::Authors.rows(self.size), self.size.of(5).max(1));
        let path = format!("http://127.0.0.1:{}/authors", server.port());
        for id in [1, ids / 3, ids] {
            self.prove_row(&format!("{path}/{id}"), &format!("{} where id = {id}", author_columns()))?;
        }
        let (url, amount) = (format!("{path}/{{1-{ids}}}"), Amount::Seconds(seconds));
        let load = Load { url, connections: 64, amount, slow: None, rate: None, rows: None };
        Ok(loaded(name, load, server, self.warm_ups(None, 0)))
    }

    fn mysql(&self) -> Result<Vec<Series>> {
        let mariadb = MariaDb::filled(Data::Events, self.size)?;
        let server = Server::start(&target::example(Data::Events, &mariadb.url(), AccessLog::Off)?)?;
        let warm_ups = self.warm_ups(None, 0);
        let rowstream =
            self.stream(ROWSTREAM, server, "/events.ndjson", Answer::Lines, Http::One, warm_ups)?;
        let floor = Contender::new(MARIADB_QUICK, None, warm_ups, || {
            Ok(Sample::from([(Measure::Wall, database::timed(&mut mariadb.quick(EVENTS))?)]))
        });
        self.alternate(vec![rowstream, floor], self.many())
    }

    fn sqlite(&self) -> Result<Vec<Series>> {
        let file = database::fill_sqlite(Data::Events, self.size)?;
        let warm_ups = self.warm_ups(None, 0);
        let url = format!("sqlite:{}", file.display());
        let server = Server::start(&target::example(Data::Events, &url, AccessLog::Off)?)?;
        let rowstream =
            self.stream(ROWSTREAM, server, "/events.ndjson", Answer::Lines, Http::One, warm_ups)?;
        let program =
            std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let floor = |name: &str, words: Vec<PathBuf>| {
            Contender::new(name, None, warm_ups, move || {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]).stdout(std::process::Stdio::null());
                Ok(Sample::from([(Measure::Wall, database::timed(&mut command)?)]))
            })
        };
        let bare = floor(BARE_LOOP, vec![program, "sqlite-floor".into(), file.clone()]);
        let mut contenders = vec![rowstream, bare];
        let shell = workspace::find("sqlite3");
        contenders.extend(
            shell.clone().map(|shell| floor(SQLITE_CSV, vec![shell, "-csv".into(), file, EVENTS.into()])),
        );
        let mut series = self.alternate(contenders, self.many())?;
        if shell.is_none() {
            series.push(skipped(SQLITE_CSV, "sqlite3 is not here"));
        }
        Ok(series)
    }

    /// Builds and starts the rivals. Those that fail become series with the reason.
    fn rivals(&mut self, rivals: &[Rival], pool: u64) -> (Vec<(Rival, Server)>, Vec<Series>) {
        let (mut servers, mut missing) = (Vec::new(), Vec::new());
        for rival in rivals {
            if !self.rivals.contains(rival) {
                missing.push(skipped(rival.name(), "left out of this run"));
                continue;
            }
            let launch = self.builds.build(*rival).and_then(|()| rival.launch(&self.postgres, pool));
            match launch.and_then(|launch| Server::start(&launch)) {
                Ok(server) => servers.push((*rival, server)),
                Err(why) => missing.push(skipped(rival.name(), &why)),
            }
        }
        (servers, missing)
    }

    fn rivals_events(&mut self) -> Result<Vec<Series>> {
        let (rivals, mut missing) = self.rivals(&Rival::STREAMS, POOL);
        let server = self.example(Data::Events)?;
        let path = "/events.ndjson";
        let mut contenders = vec![
            self.stream(ROWSTREAM, server, path, Answer::Lines, Http::One, self.warm_ups(None, 0))?,
            self.copy(),
        ];
        for (rival, server) in rivals {
            let warm_ups = self.warm_ups(Some(rival.platform()), 10);
            match self.stream(rival.name(), server, path, Answer::Lines, Http::One, warm_ups) {
                Ok(contender) => contenders.push(contender),
                Err(why) => missing.push(skipped(rival.name(), &why)),
            }
        }
        let mut series = self.alternate(contenders, self.runs)?;
        series.append(&mut missing);
        Ok(series)
    }

    fn authors(&mut self) -> Result<Vec<Series>> {
        let rivals = self.rivals(&Rival::STREAMS, POOL);
        let (clients, requests) = (20, self.size.of(100).max(20));
        let floor = self.copies(clients, requests);
        self.against(Data::Authors, floor, rivals, 1, |server| {
            let url = format!("http://127.0.0.1:{}/authors", server.port());
            let Proof { faults, .. } = prove(&url, Answer::Json, self.expected_authors()?)?;
            let rows = Some(Data::Authors.rows(self.size));
            Ok((
                Load {
                    url,
                    connections: clients,
                    amount: Amount::Requests(requests),
                    slow: None,
                    rate: None,
                    rows,
                },
                faults,
            ))
        })
    }

    /// Rowstream, a floor and the rivals under the same load. `work` creates it for a server whose
    /// responses are proven.
    fn against<'a>(
        &'a self,
        data: Data,
        floor: Contender<'a>,
        (rivals, mut missing): (Vec<(Rival, Server)>, Vec<Series>),
        java_warm_ups: usize,
        work: impl Fn(&Server) -> Result<(Load, Vec<String>)>,
    ) -> Result<Vec<Series>> {
        let server = self.example(data)?;
        let (load, faults) = work(&server)?;
        let warm_ups = self.warm_ups(None, 0);
        let mut contenders = vec![loaded(ROWSTREAM, load, server, warm_ups).after(faults), floor];
        for (rival, server) in rivals {
            match work(&server) {
                Ok((load, faults)) => {
                    let warm_ups = self.warm_ups(Some(rival.platform()), java_warm_ups);
                    contenders.push(loaded(rival.name(), load, server, warm_ups).after(faults));
                }
                Err(why) => missing.push(skipped(rival.name(), &why)),
            }
        }
        let mut series = self.alternate(contenders, self.runs)?;
        series.append(&mut missing);
        Ok(series)
    }

    /// One `psql` per client, all in parallel. They copy the authors as often as the clients
    /// request them.
    fn copies(&self, clients: u64, requests: u64) -> Contender<'_> {
        let postgres = &self.postgres;
        let times = usize::try_from(requests / clients).unwrap_or(usize::MAX);
        Contender::new(COPIES, None, self.warm_ups(None, 0), move || {
            let start = Instant::now();
            thread::scope(|scope| {
                let copying: Vec<_> = (0..clients)
                    .map(|_| scope.spawn(|| database::run(&mut postgres.copy(AUTHORS, times))))
                    .collect();
                copying
                    .into_iter()
                    .try_for_each(|copy| copy.join().unwrap_or_else(|_| Err("psql was lost".into())))
            })?;
            let wall = start.elapsed().as_secs_f64();
            Ok(Sample::from([(Measure::Wall, wall), (Measure::RequestsPerSecond, requests as f64 / wall)]))
        })
    }

    fn slow(&self) -> Result<Vec<Series>> {
        const READERS: u64 = 200;
        const BYTES_PER_SECOND: u64 = 100_000;
        /// Enough for PostgreSQL to end 200 statements of the previous run and start 200 processes,
        /// on two possibly slow cores. If necessary, all readers wait that long.
        const START: u64 = 20;
        let seconds = self.size.of(40).max(START + 2);
        let endpoints = Data::Events.folder().join("endpoints");
        let source = format!(
            "[source.events]\nurl = \"{}\"\npool = {{ max = {READERS}, waiting = {READERS}, acquire_timeout = \"{START}s\" }}",
            self.postgres.url()
        );
        let launch = target::configured("slow", &endpoints.display().to_string(), &source)?;
        let server = Server::start(&launch)?;
        let (port, database) = (server.port(), self.postgres.port());
        let url = format!("http://127.0.0.1:{port}/events.ndjson");
        let Proof { faults, .. } = prove(&url, Answer::Lines, self.expected_events()?)?;
        let load = Load {
            url,
            connections: READERS,
            amount: Amount::BrokenOff(seconds),
            slow: Some(BYTES_PER_SECOND),
            rate: None,
            rows: None,
        };
        let work = move || {
            let (mut sample, largest) = thread::scope(|scope| {
                let bench = scope.spawn(|| client::load(&load));
                let mut largest = 0;
                while !bench.is_finished() {
                    largest = largest.max(sockets::memory(port, database)?);
                    thread::sleep(Duration::from_millis(500));
                }
                let sample = bench.join().unwrap_or_else(|_| Err("the client was lost".into()))?;
                Ok::<_, String>((sample, largest))
            })?;
            let (least, read) =
                ((READERS * BYTES_PER_SECOND * (seconds - START)) as f64, sample[&Measure::Bytes]);
            if read < least {
                return Err(format!("the readers were slower than they are: {read} bytes in all"));
            }
            sample.insert(Measure::SocketMemory, largest as f64 / READERS as f64);
            Ok(sample)
        };
        let rowstream = Contender::new(ROWSTREAM, Some(server), 0, work).after(faults);
        self.alternate(vec![rowstream], self.runs)
    }

    fn beside_readers(&self) -> Result<Vec<Series>> {
        let size = self.size;
        let contender = |name, policy, warm_ups| {
            let server = beside::server(policy, &self.postgres)?;
            let port = server.port();
            let work = move || beside::beside(port, policy, size);
            Ok::<_, String>(Contender::new(name, Some(server), warm_ups, work))
        };
        let quiet = beside::server(Policy::Hold, &self.postgres)?;
        let port = quiet.port();
        let alone = Contender::new(ALONE, Some(quiet), 1, move || beside::alone(port, size));
        // The first held readers have to open 200 connections. Spilling readers need no more than
        // lookups alone.
        let contenders = vec![alone, contender(HOLD, Policy::Hold, 1)?, contender(SPILL, Policy::Spill, 0)?];
        self.alternate(contenders, self.runs)
    }

    fn lookups(&mut self) -> Result<Vec<Series>> {
        let (ids, seconds) = (Data::Authors.rows(self.size), self.size.of(5).max(1));
        let statement = format!("{} where id", author_columns());
        let work = Asked { connections: 64, amount: Amount::Seconds(seconds), java_warm_ups: 12 };
        self.asked(Data::Authors, &statement, ids, POOL, work)
    }

    /// A minute of lookups, in consecutive windows.
    fn steady_lookups(&self) -> Result<Vec<Series>> {
        let rowstream = self.authors_at(&self.postgres.url())?;
        self.alternate(vec![rowstream], WINDOWS)
    }

    fn films(&mut self) -> Result<Vec<Series>> {
        let ids = Data::Films.rows(self.size);
        let amount = Amount::Requests(self.size.of(50_000));
        let work = Asked { connections: 1000, amount, java_warm_ups: 4 };
        self.asked(Data::Films, "select title from film where fid", ids, 50, work)
    }

    /// Lookups by a number, with a pool of this many connections to the database.
    fn asked(
        &mut self,
        data: Data,
        statement: &str,
        ids: u64,
        pool: u64,
        Asked { connections, amount, java_warm_ups }: Asked,
    ) -> Result<Vec<Series>> {
        let rivals = self.rivals(&Rival::LOOKUPS, pool);
        let floor = Contender::new(PGBENCH, None, self.warm_ups(None, 0), || {
            client::pgbench(&self.postgres, PGBENCH_CLIENTS, statement, ids, amount)
        });
        self.against(data, floor, rivals, java_warm_ups, |server| {
            let path = format!("http://127.0.0.1:{}/{}", server.port(), data.name());
            for id in [1, ids / 3, ids] {
                self.prove_row(&format!("{path}/{id}"), &format!("{statement} = {id}"))?;
            }
            let url = format!("{path}/{{1-{ids}}}");
            Ok((Load { url, connections, amount, slow: None, rate: None, rows: None }, Vec::new()))
        })
    }

    fn small_machine(&self) -> Result<(Vec<Series>, Vec<String>)> {
        const MEMORY: u64 = 64 << 20;
        let bound = Bound::new(MEMORY);
        let mut launch = target::example(Data::Events, &self.postgres.url(), AccessLog::Off)?;
        launch.name = "rowstream-small".into();
        launch.words.splice(0..0, bound.prefix(MEMORY));
        let series = self.beside(SMALL, Server::start(&launch)?)?;
        Ok((series, vec![bound.description()]))
    }

    fn access_log(&self) -> Result<Vec<Series>> {
        let mut launch = target::example(Data::Events, &self.postgres.url(), AccessLog::Text)?;
        launch.name = "rowstream-log".into();
        self.beside(LOGGING, Server::start(&launch)?)
    }

    fn access_log_lookups(&self) -> Result<Vec<Series>> {
        let mut logging = target::example(Data::Authors, &self.postgres.url(), AccessLog::Text)?;
        logging.name = "rowstream-log".into();
        self.lookups_beside(LOGGING, Server::start(&logging)?)
    }

    fn observed(&self) -> Result<Vec<Series>> {
        self.beside(OBSERVED, self.observed_example(Data::Events)?)
    }

    fn observed_lookups(&self) -> Result<Vec<Series>> {
        self.lookups_beside(OBSERVED, self.observed_example(Data::Authors)?)
    }

    fn observed_example(&self, data: Data) -> Result<Server> {
        let server = Server::start(&observed::example(data, &self.postgres.url())?)?;
        observed::look_at(&server);
        Ok(server)
    }

    /// Lookups of Rowstream with another configuration, and with the usual one.
    fn lookups_beside(&self, name: &str, other: Server) -> Result<Vec<Series>> {
        let asked = |name: &str, server: Server| {
            let url =
                format!("http://127.0.0.1:{}/authors/{{1-{}}}", server.port(), Data::Authors.rows(self.size));
            let load =
                Load { url, connections: 64, amount: Amount::Seconds(2), slow: None, rate: None, rows: None };
            loaded(name, load, server, self.warm_ups(None, 0))
        };
        let servers = [asked(ROWSTREAM, self.example(Data::Authors)?), asked(name, other)];
        self.alternate(servers.into(), self.many())
    }

    /// Rowstream with another configuration, and with the usual one.
    fn beside(&self, name: &str, other: Server) -> Result<Vec<Series>> {
        let stream = |name: &str, server| {
            let warm_ups = self.warm_ups(None, 0);
            self.stream(name, server, "/events.ndjson", Answer::Lines, Http::One, warm_ups)
        };
        let rowstream = stream(ROWSTREAM, self.example(Data::Events)?)?;
        let other = stream(name, other)?;
        self.alternate(vec![rowstream, other], self.many())
    }

    fn growth(&self) -> Result<Vec<Series>> {
        let endpoint = "\
/*
[params]
rows = { type = \"integer\", min = 1 }
*/
-- In the select list, where it is not stored before the first row leaves.
select i as id, 'row ' || i as name, i * 2.5 as price, i % 2 = 0 as even
from (select generate_series(1, :rows::bigint) as i) r
";
        workspace::write(&workspace::scratch()?.join("growth/endpoints/rows.sql"), endpoint)?;
        let source = format!(
            "[source.events]\nurl = \"{}\"\npool = {{ max = 50, waiting = 1000, acquire_timeout = \"5m\" }}",
            self.postgres.url()
        );
        let launch = target::configured("growth", "endpoints", &source)?;
        let mut series = Vec::new();
        for power in 3..=7 {
            series.extend(self.grown(BY_ROWS, 10_u64.pow(power), &launch, |rows| (rows, 1))?);
        }
        for power in 0..=3 {
            series.extend(self.grown(BY_STREAMS, 10_u64.pow(power), &launch, |streams| (10_000, streams))?);
        }
        Ok(series)
    }

    /// One point of a curve, on a separate server, so that memory of an earlier point doesn't
    /// count. `work` is the number of rows and of clients.
    fn grown(
        &self,
        name: &str,
        x: u64,
        launch: &Launch,
        work: impl Fn(u64) -> (u64, u64),
    ) -> Result<Vec<Series>> {
        let (rows, streams) = work(x);
        let rows = self.size.of(rows);
        let server = Server::start(launch)?;
        let load = Load {
            url: format!("http://127.0.0.1:{}/rows.ndjson?rows={rows}", server.port()),
            connections: streams,
            amount: Amount::Requests(streams),
            slow: None,
            rate: None,
            rows: Some(rows),
        };
        let contender = loaded(name, load, server, 1).at(x);
        self.alternate(vec![contender], self.runs)
    }

    /// Each target reads the same number of rows.
    fn load_tester(&self) -> Result<Vec<Series>> {
        let blocks = self.size.of(1600);
        let url = |canned| Ok::<_, String>(format!("http://127.0.0.1:{}/", canned::serve(canned, blocks)?));
        let bench = |name: &str, canned| {
            let (connections, amount) = (1, Amount::Requests(1));
            let load = Load {
                url: url(canned)?,
                connections,
                amount,
                slow: None,
                rate: None,
                rows: Some(canned::rows(blocks)),
            };
            let warm_ups = self.warm_ups(None, 0);
            Ok::<_, String>(Contender::new(name, None, warm_ups, move || Ok(by_time(client::load(&load)?))))
        };
        let lines = url(Canned::Lines)?;
        let curl =
            Contender::new(CURL, None, self.warm_ups(None, 0), move || Ok(by_time(client::read(&lines)?)));
        let contenders = vec![bench(BENCH_LINES, Canned::Lines)?, bench(BENCH_ARRAY, Canned::Array)?, curl];
        self.alternate(contenders, self.runs)
    }

    fn expected_events(&self) -> Result<&Digest> {
        self.expected(&self.events, &format!("select {NAMED_EVENTS} from payment_event order by event_no"))
    }

    fn expected_authors(&self) -> Result<&Digest> {
        self.expected(&self.authors, &with_names(AUTHORS))
    }

    /// The expected contents of a list, from PostgreSQL's own JSON.
    fn expected<'a>(&self, known: &'a OnceCell<Digest>, select: &str) -> Result<&'a Digest> {
        if let Some(digest) = known.get() {
            return Ok(digest);
        }
        let file = workspace::scratch()?.join("expected");
        self.postgres.json_lines(select, &file)?;
        let digest = Digest::of_lines(&file)?;
        Ok(known.get_or_init(|| digest))
    }

    fn prove_row(&self, url: &str, select: &str) -> Result<()> {
        let (expected, body) = (workspace::scratch()?.join("expected"), workspace::scratch()?.join("body"));
        self.postgres.json_lines(&with_names(select), &expected)?;
        client::fetch(url, &body)?;
        Digest::of_row(&body)?.agrees_with(&Digest::of_lines(&expected)?)
    }
}

/// Alternates between the targets, round after round. If other programs use the machine, the row
/// ends early, once it has `least` rounds.
///
/// # Errors
///
/// Other programs use the machine before that.
fn take_turns<'a>(
    contenders: &mut [Contender<'a>],
    rounds: usize,
    least: usize,
    mut measured: impl FnMut(&mut Contender<'a>) -> Result<()>,
) -> Result<()> {
    for round in 1..=rounds {
        println!("round {round} of {rounds}");
        for contender in contenders.iter_mut().filter(|contender| contender.takes_part()) {
            match measured(contender) {
                Ok(()) => {}
                Err(message) if round > least => {
                    println!("this was the last round: {message}");
                    contender.series.faults.push(message);
                    return Ok(());
                }
                Err(message) => return Err(message),
            }
        }
    }
    Ok(())
}

/// The events' columns with their names in JSON.
const NAMED_EVENTS: &str = "event_no as \"eventNo\", paymt_status as \"paymentStatus\", \
                            status_chg_rsn as \"statusChangeReason\", status_chg_date as \"statusChanged\"";

/// The authors' columns, without an order.
fn author_columns() -> &'static str {
    AUTHORS.trim_end_matches(" order by id")
}

/// Adds the authors' names in JSON.
fn with_names(select: &str) -> String {
    select
        .replace("first_name", "first_name as \"firstName\"")
        .replace("last_name", "last_name as \"lastName\"")
}

fn skipped(target: &str, why: &str) -> Series {
    println!("{target} is skipped: {why}");
    Series::missing(target, why)
}

fn loaded<'a>(name: &str, load: Load, server: Server, warm_ups: usize) -> Contender<'a> {
    Contender::new(name, Some(server), warm_ups, move || client::load(&load))
}

/// Adds the bytes per second of the client's time.
fn by_time(mut sample: Sample) -> Sample {
    sample.insert(Measure::BytesPerSecond, sample[&Measure::Bytes] / sample[&Measure::Wall]);
    sample
}

/// A response that matches the database.
struct Proof {
    bytes: f64,
    /// Earlier failed attempts.
    faults: Vec<String>,
}

/// Reads a response and compares it with the database. A truncated response is repeated, but a
/// complete one with other contents isn't.
fn prove(url: &str, answer: Answer, expected: &Digest) -> Result<Proof> {
    let body = workspace::scratch()?.join("body");
    let mut faults = Vec::new();
    let bytes = loop {
        match client::fetch(url, &body) {
            Ok(bytes) => break bytes,
            Err(message) => faults.push(message),
        }
        if faults.len() == ATTEMPTS {
            return Err(faults.join("; "));
        }
    };
    let digest = match answer {
        Answer::Lines => Digest::of_lines(&body),
        Answer::Shuffled => Digest::of_lines_in_any_order(&body),
        Answer::Json => Digest::of_json(&body),
    }?;
    digest.agrees_with(expected)?;
    Ok(Proof { bytes, faults })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> [Contender<'static>; 2] {
        let run = |wall| move || Ok(Sample::from([(Measure::Wall, wall)]));
        [Contender::new(ROWSTREAM, None, 0, run(1.0)), Contender::new(COPY, None, 0, run(2.0))]
    }

    /// The number of runs of each of two targets, if other programs use the machine during the n-th
    /// run in total.
    fn runs_until(busy: usize) -> Result<[usize; 2]> {
        let (mut pair, mut begun) = (pair(), 0);
        take_turns(&mut pair, 6, 2, |contender| {
            begun += 1;
            if begun == busy { Err("the machine was busy".into()) } else { contender.measured(Size::Quick) }
        })?;
        let [rowstream, copy] = pair;
        assert_eq!(rowstream.series.faults.len() + copy.series.faults.len(), usize::from(busy <= 12));
        Ok([rowstream.series.samples.len(), copy.series.samples.len()])
    }

    /// A busy machine in round 21 once discarded twenty good rounds.
    #[test]
    fn a_busy_machine_ends_a_row_that_has_its_rounds() {
        assert_eq!(runs_until(13), Ok([6, 6]));
        assert_eq!(runs_until(12), Ok([6, 5]));
        assert_eq!(runs_until(5), Ok([2, 2]));
        assert_eq!(runs_until(4), Err("the machine was busy".into()));
    }

    #[test]
    fn a_server_that_fails_says_why() {
        let port = crate::process::free_port().unwrap();
        let _listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
        let words = crate::process::words(["sh", "-c", "sleep 0.3; echo java.lang.OutOfMemoryError; exit 3"]);
        let launch = Launch { name: "test-explained".into(), words, environment: vec![], port };
        let server = Server::start(&launch).unwrap();
        let mut contender = Contender::new("rival", Some(server), 0, || {
            thread::sleep(Duration::from_secs(1));
            Err("curl: (52) Empty reply from server".into())
        });
        let error = contender.once().unwrap_err();
        for part in ["curl: (52)", "exit status: 3", "OutOfMemoryError"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
