//! Two versions of Rowstream with the same work, by turns. So a slow decline over many changes shows.

use std::fmt::Write as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use jiff::{Timestamp, Unit};

use super::{Answer, Contender, Lab};
use crate::client::Http;
use crate::database::{self, Data, MariaDb};
use crate::process::Server;
use crate::record::{self, Measure, RowRun, Series};
use crate::report;
use crate::rows::{OLDER, ROWSTREAM, Row};
use crate::stats::Spread;
use crate::target::{self, AccessLog};
use crate::{Options, Result, workspace};

/// The rows that two versions can run.
const ROWS: [Row; 6] =
    [Row::Events, Row::Lookups, Row::Mysql, Row::MysqlLookups, Row::Sqlite, Row::SqliteLookups];

const MEASURES: [Measure; 7] = [
    Measure::Wall,
    Measure::FirstByte,
    Measure::RequestsPerSecond,
    Measure::P99,
    Measure::Cpu,
    Measure::CpuPerRequest,
    Measure::PeakMemory,
];

/// Until a server has connected to its database and has prepared its statements.
const SETTLED: Duration = Duration::from_secs(1);

/// Measures this version beside an older program, prints their ratios, and keeps the raw runs in
/// `target/compare/versions`.
pub(crate) fn run(options: &Options, older: &Path) -> Result<()> {
    let rows = if options.rows == Row::ALL { &ROWS[..] } else { &options.rows };
    if let Some(row) = rows.iter().find(|row| !ROWS.contains(row)) {
        let known: Vec<_> = ROWS.iter().map(|row| row.id()).collect();
        return Err(format!("--beside does not measure {}; it measures {}", row.id(), known.join(", ")));
    }
    let lab = Lab::new(options)?;
    let folder = workspace::scratch()?.join("versions");
    for row in rows {
        println!("\n==> {}", row.id());
        let run = lab.versions(*row, older)?;
        record::write(&folder.join(format!("{}.json", row.id())), &run)?;
        println!("\n{}", table(&run));
    }
    println!("raw runs: {}", folder.display());
    Ok(())
}

impl Lab {
    fn versions(&self, row: Row, older: &Path) -> Result<RowRun> {
        let started = Timestamp::now().round(Unit::Second).map_err(|error| error.to_string())?;
        let data = match row {
            Row::Lookups | Row::MysqlLookups | Row::SqliteLookups => Data::Authors,
            _ => Data::Events,
        };
        let url = match row {
            Row::Mysql | Row::MysqlLookups => MariaDb::filled(data, self.size)?.url(),
            Row::Sqlite | Row::SqliteLookups => {
                format!("sqlite:{}", database::fill_sqlite(data, self.size)?.display())
            }
            _ => self.postgres.url(),
        };
        let newer = workspace::rowstream()?;
        let (mut contenders, mut notes) = (Vec::new(), Vec::new());
        for (name, program) in [(ROWSTREAM, newer.as_path()), (OLDER, older)] {
            let mut launch = target::example(data, &url, AccessLog::Off)?;
            launch.name = name.replace(' ', "-");
            launch.words[0] = program.display().to_string();
            let server = Server::start(&launch)?;
            thread::sleep(SETTLED);
            notes.push(format!("{name}, at the start: {:.1} MB", server.peak() / 1e6));
            contenders.push(self.version(name, server, data)?);
        }
        let rounds = self.many();
        Ok(RowRun { row: row.id().into(), started, series: self.alternate(contenders, rounds)?, notes })
    }

    fn version(&self, name: &str, server: Server, data: Data) -> Result<Contender<'_>> {
        let warm_ups = self.warm_ups(None, 0);
        match data {
            Data::Events => self.stream(name, server, "/events.ndjson", Answer::Lines, Http::One, warm_ups),
            _ => self.authors_asked(name, server),
        }
    }
}

/// A line for each measure: both medians, and the ratio of neighbouring runs.
fn table(run: &RowRun) -> String {
    let mut table = format!("|  | {ROWSTREAM} | {OLDER} | ratio |\n|---|---|---|---|\n");
    let values = |target: &str, measure| run.series(target).map(|series: &Series| series.values(measure));
    for measure in MEASURES {
        let (newer, older) =
            (values(ROWSTREAM, measure).unwrap_or_default(), values(OLDER, measure).unwrap_or_default());
        let spreads = (Spread::of(&newer), Spread::of(&older), Spread::of_ratios(&newer, &older));
        let (Some(newer), Some(older), Some(ratio)) = spreads else { continue };
        let [newer, older] = [newer, older].map(|spread| report::with_unit(measure, spread.median));
        let heading = report::heading(measure);
        let Spread { median, min, max } = ratio;
        let _ = writeln!(table, "| {heading} | {newer} | {older} | {median:.2} ({min:.2}–{max:.2}) |");
    }
    for note in &run.notes {
        let _ = write!(table, "\n{note}\n");
    }
    table
}
