//! The rows about sources that are asked by the drivers of others, or by Arrow Flight SQL. What
//! they need besides, `cargo xtask compare` has installed where it could; a row without it is left
//! out with a sentence.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{Answer, Contender, Lab, prove, skipped};
use crate::client::{self, Amount, Http, Load};
use crate::database::{Data, run};
use crate::process::{self, Launch, Server, free_port};
use crate::proof::Digest;
use crate::record::{Measure, Sample, Series};
use crate::rows::{ARROW, DUCKDB_LOOP, FLIGHT_LOOP, ODBC, ROWSTREAM};
use crate::{Result, target, workspace};

/// Files of the same events, so that DuckDB reads so many times as many rows.
const COPIES: u64 = 10;
/// Of the readings, those that are compared with PostgreSQL's own.
const PROVEN: u64 = 100_000;

/// The events as a driver that knows no zones sends them, which is how both sides are asked.
const EVENTS: &str = "select event_no as \"eventNo\", paymt_status as \"paymentStatus\", \
    status_chg_rsn as \"statusChangeReason\", status_chg_date at time zone 'UTC' as \"statusChanged\" \
    from payment_event order by event_no";

/// The readings of `examples/lake`, as PostgreSQL makes them.
const READINGS: &str = "select id, 'sensor-' || id % 100 as sensor, to_timestamp(1767225600 + id) as taken, \
    (id * 7919 % 6000)::numeric / 100 - 20 as celsius from generate_series(0, :most - 1) id";

impl Lab {
    /// The events by PostgreSQL's driver of ODBC, beside those of the native source.
    pub(super) fn odbc(&self) -> Result<Vec<Series>> {
        let expected = self.expect(EVENTS)?;
        let stream = |name: &str, folder: &str, url: &str| {
            let server = serve(folder, url, &[("events", EVENTS)], &[])?;
            self.proven_stream(name, server, "/events.ndjson", Answer::Lines, &expected)
        };
        let by_driver = format!(
            "odbc:Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={};Database=compare;UID=postgres;UseDeclareFetch=1;Fetch=1000",
            self.postgres.port()
        );
        let native = stream(ROWSTREAM, "odbc-native", &self.postgres.url())?;
        match stream(ODBC, "odbc-driver", &by_driver) {
            Ok(odbc) => self.alternate(vec![native, odbc], self.runs),
            Err(why) => Ok(vec![skipped(ODBC, &why)]),
        }
    }

    /// Ten times the events of Parquet files by DuckDB's driver of ADBC.
    pub(super) fn duckdb(&self) -> Result<Vec<Series>> {
        let library = match installed("ROWSTREAM_TEST_DUCKDB", "DuckDB's library") {
            Ok(library) => library,
            Err(why) => return Ok(vec![skipped(ROWSTREAM, &why), skipped(ARROW, &why)]),
        };
        let environment = [("ROWSTREAM_DUCKDB".to_owned(), process::word(library))];
        let folder = self.write_parquet(&environment)?;
        let select = |files: &str| format!("from read_parquet('{}')", folder.join(files).display());
        let (one, all) = (select("events-0.parquet"), select("events-*.parquet"));
        let rows = COPIES * Data::Events.rows(self.size);
        let stream = |name: &str, folder: &str, path: &str| {
            let server = serve(folder, "duckdb:", &[("events", &one), ("many", &all)], &environment)?;
            // All rows are the same ones, ten times.
            let faults = prove(&server.url("/events.ndjson"), Answer::Lines, self.expected_events()?)?.faults;
            client::load(&whole(&server, "/many.ndjson", rows))?;
            let url = server.url(path);
            let work = move || Ok(by_rows(client::read(&url)?, rows));
            Ok::<_, String>(Contender::new(name, Some(server), self.warm_ups(None, 0), work).after(faults))
        };
        let mut contenders = vec![
            stream(ROWSTREAM, "duckdb-lines", "/many.ndjson")?,
            stream(ARROW, "duckdb-arrow", "/many.arrow")?,
        ];
        let python = installed("ROWSTREAM_TEST_PYTHON", "Python with its libraries");
        let missing = python.map(|python| {
            contenders.push(self.bare_loop(DUCKDB_LOOP, python, "arrow_of_duckdb.py", vec![all], rows));
        });
        let mut series = self.alternate(contenders, self.runs)?;
        series.extend(missing.err().map(|why| skipped(DUCKDB_LOOP, &why)));
        Ok(series)
    }

    /// The readings of `examples/lake` from Sail, beside a loop in Python that reads the same
    /// batches by another client of Arrow Flight SQL.
    pub(super) fn flight(&self) -> Result<Vec<Series>> {
        let programs = installed("ROWSTREAM_TEST_SAIL", "Sail")
            .and_then(|sail| Ok((sail, installed("ROWSTREAM_TEST_PYTHON", "Python with its libraries")?)));
        let (sail, python) = match programs {
            Ok(programs) => programs,
            Err(why) => return Ok([ROWSTREAM, ARROW, FLIGHT_LOOP].map(|name| skipped(name, &why)).into()),
        };
        let rows = self.size.of(10_000_000);
        let sail = start_sail(sail, rows)?;
        let url = format!("flightsql://127.0.0.1:{}", sail.port());
        let all = workspace::read(&workspace::root().join("examples/lake/endpoints/readings.sql"))?;
        let (_, all) = all.split_once("*/").unwrap_or(("", &all));
        let some = format!("{all} where id < {}", PROVEN.min(rows));
        let expected = self.expect(&READINGS.replace(":most", &PROVEN.min(rows).to_string()))?;
        let stream = |name: &str, folder: &str, path: &str| {
            let server = serve(folder, &url, &[("some", &some), ("readings", all)], &[])?;
            let faults = prove(&server.url("/some.ndjson"), Answer::Shuffled, &expected)?.faults;
            client::load(&whole(&server, "/readings.ndjson", rows))?;
            let url = server.url(path);
            let work = move || Ok(by_rows(client::read(&url)?, rows));
            Ok::<_, String>(Contender::new(name, Some(server), self.warm_ups(None, 0), work).after(faults))
        };
        let asked = vec![format!("grpc://127.0.0.1:{}", sail.port()), all.to_owned()];
        let contenders = vec![
            stream(ROWSTREAM, "flight-lines", "/readings.ndjson")?,
            stream(ARROW, "flight-arrow", "/readings.arrow")?,
            self.bare_loop(FLIGHT_LOOP, python, "arrow_of_flight.py", asked, rows),
        ];
        self.alternate(contenders, self.runs)
    }

    /// A server that streams rows to one `curl`, once they are what PostgreSQL says.
    fn proven_stream(
        &self,
        name: &str,
        server: Server,
        path: &str,
        answer: Answer,
        expected: &Digest,
    ) -> Result<Contender<'_>> {
        let url = server.url(path);
        let proof = prove(&url, answer, expected)?;
        let work = move || client::stream(&url, Http::One, proof.bytes);
        Ok(Contender::new(name, Some(server), self.warm_ups(None, 0), work).after(proof.faults))
    }

    /// A program in Python that reads so many rows and says how many it has seen.
    fn bare_loop(
        &self,
        name: &str,
        python: PathBuf,
        script: &str,
        arguments: Vec<String>,
        rows: u64,
    ) -> Contender<'_> {
        let script = workspace::root().join("benches/compare/loops").join(script);
        Contender::new(name, None, self.warm_ups(None, 0), move || {
            let mut command = Command::new(&python);
            command.arg(&script).args(&arguments);
            let start = Instant::now();
            let output = command.output().map_err(|error| format!("cannot run Python: {error}"))?;
            let wall = start.elapsed().as_secs_f64();
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if said == rows.to_string() {
                return Ok(by_rows(Sample::from([(Measure::Wall, wall)]), rows));
            }
            Err(format!("it read {said:?} rows: {}", String::from_utf8_lossy(&output.stderr).trim()))
        })
    }

    /// What a list is to say, by PostgreSQL's own JSON.
    fn expect(&self, select: &str) -> Result<Digest> {
        let file = workspace::scratch()?.join("expected");
        self.postgres.json_lines(select, &file)?;
        Digest::of_lines(&file)
    }

    /// PostgreSQL's events as Parquet files, which DuckDB writes; the folder that they are in.
    fn write_parquet(&self, environment: &[(String, String)]) -> Result<PathBuf> {
        println!("filling Parquet with {COPIES} × {} events", Data::Events.rows(self.size));
        let folder = emptied("parquet")?;
        let (csv, first) = (folder.join("events.csv"), folder.join("events-0.parquet"));
        self.postgres
            .csv(&format!("select {} from payment_event order by event_no", super::NAMED_EVENTS), &csv)?;
        let types = "{'eventNo': 'bigint', 'paymentStatus': 'text', 'statusChangeReason': 'text', 'statusChanged': 'timestamptz'}";
        let sql = format!(
            "copy (from read_csv('{}', header = true, columns = {types})) to '{}'",
            csv.display(),
            first.display()
        );
        let mut query = Command::new(workspace::rowstream()?);
        query.args(["query", "duckdb:", &sql]).envs(environment.iter().cloned()).stdout(Stdio::null());
        run(&mut query)?;
        for copy in 1..COPIES {
            let copy = folder.join(format!("events-{copy}.parquet"));
            std::fs::copy(&first, &copy)
                .map_err(|error| format!("cannot write {}: {error}", copy.display()))?;
        }
        Ok(folder)
    }
}

/// Something that `cargo xtask compare` installs below `target/`.
fn installed(variable: &str, what: &str) -> Result<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.exists());
    path.ok_or_else(|| format!("{what} is not here"))
}

/// A folder of ours, with nothing in it.
fn emptied(name: &str) -> Result<PathBuf> {
    let folder = workspace::scratch()?.join(name);
    let cannot = |error| format!("cannot make {}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(cannot)?;
    }
    std::fs::create_dir_all(&folder).map_err(cannot)?;
    Ok(folder)
}

/// Rowstream with these endpoints over one source.
fn serve(
    folder: &str,
    url: &str,
    endpoints: &[(&str, &str)],
    environment: &[(String, String)],
) -> Result<Server> {
    let below = workspace::scratch()?.join(folder).join("endpoints");
    for (name, sql) in endpoints {
        workspace::write(&below.join(format!("{name}.sql")), sql)?;
    }
    let mut launch = target::configured(folder, "endpoints", &format!("[source.main]\nurl = {url:?}"))?;
    launch.environment.extend_from_slice(environment);
    Server::start(&launch)
}

/// Sail, with the readings of the example as Parquet below its folder.
fn start_sail(program: PathBuf, rows: u64) -> Result<Server> {
    let (folder, port) = (emptied("lake")?, free_port()?);
    let words = ["flight", "server", "--port", &port.to_string(), "--directory"].map(String::from);
    let words = [vec![process::word(program)], words.into(), vec![process::word(folder)]].concat();
    let environment = vec![("SAIL_MODE".to_owned(), "local".to_owned())];
    let sail = Server::start(&Launch { name: "sail".into(), words, environment, port })?;
    println!("filling Sail with {rows} readings");
    let script = workspace::read(Path::new(&workspace::root().join("examples/lake/data/readings.sql")))?;
    let script = script.replace("10000000", &rows.to_string());
    let url = format!("flightsql://127.0.0.1:{port}");
    run(Command::new(workspace::rowstream()?).args(["query", &url, &script]).stdout(Stdio::null()))?;
    Ok(sail)
}

/// One client that counts the rows of an answer.
fn whole(server: &Server, path: &str, rows: u64) -> Load {
    let (connections, amount) = (1, Amount::Requests(1));
    Load { url: server.url(path), connections, amount, slow: None, rate: None, rows: Some(rows) }
}

/// With the rows by the client's time.
fn by_rows(mut sample: Sample, rows: u64) -> Sample {
    sample.insert(Measure::RowsPerSecond, rows as f64 / sample[&Measure::Wall]);
    sample
}
