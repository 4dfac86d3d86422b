//! The report, benches/report.md, and the page of the book with the rows that help users to decide.
//! Both, and their charts, are generated only from the raw runs.

use std::fmt::Write as _;
use std::path::Path;

use crate::record::{self, Machine, Measure, RowRun, Run, Series};
use crate::rows::{BY_ROWS, BY_STREAMS, Claim, FLOORS, Limit, Of, Row, Verdict};
use crate::stats::Spread;
use crate::svg::{self, Bar, Curve, Guide, Side};
use crate::{Result, workspace};

const INTRODUCTION: &str = "\
# Measurements

`cargo xtask compare report` generates this report from the raw runs in `benches/runs`.
`cargo xtask compare` measures everything on your machine; see [README.md](README.md).
";

const BOOK: &str = "\
# Performance

Rowstream next to each database's own client, and next to other servers. In the repository, `benches/report.md` has all
rows with their spread, the machines, and the goals that we missed. `cargo xtask compare` measures on your machine.

- The database, the server and the client share one machine with two cores, without TLS. Compare only figures of one
  commit. Java has a heap of 256 MB.
- Figures are medians. Ratios have the minimum and the maximum in brackets.
- CPU is the server's, without the database's. Memory is the peak of the resident set. A MB has 1,000,000 bytes.
- Each server's answer was compared with PostgreSQL's own JSON of the same statement.
";

const METHOD: &str = "\
## Method

- Database, server and client share one machine, over TCP on the loopback interface, without TLS. All servers of a row
  read the same database with the same SQL, from the `examples`.
- Before a row is measured, each server's answer is compared with PostgreSQL's own JSON of the same statement: number of
  rows, keys and values. In each run, `curl` must succeed and receive the same number of bytes.
- The targets of a row take turns, one run each a round, while the others are idle. The figures are medians, with the
  minimum and the maximum in brackets. A ratio is the median of the ratios of each round. A target without a goal isn't
  run again after two minutes of runs.
- Time is the client process's, from start to exit; with many clients, their driver's. CPU is the server's user and
  system time, without the database's. Memory is the peak of the resident set, reset before each run; with several
  processes it's their sum, with shared pages counted once. A MB has 1,000,000 bytes.
- Access logs are off, except in their own rows. Java has a heap of 256 MB. The comments of each rival's source in
  `benches/compare/rivals` explain its settings.
";

/// A document made from the runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Document {
    /// All rows, with goals, machines and spreads.
    Report,
    /// Medians of the rows that help users to decide. Only ratios have their spread.
    Book,
}

impl Document {
    /// Its path, and the folder of the pictures from there.
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Report => ("benches/report.md", "../docs/src/performance"),
            Self::Book => ("docs/src/performance.md", "performance"),
        }
    }

    fn has(self, row: Row) -> bool {
        self == Self::Report || row.is_in_book()
    }
}

/// Generates both documents from all kept runs, with the newest of each row.
pub(crate) fn publish() -> Result<()> {
    write(&record::newest(&record::all()?), workspace::root())
}

/// Generates the documents of these runs, newest first, below a folder. Each row is in one run only.
pub(crate) fn write(runs: &[Run], root: &Path) -> Result<()> {
    for (document, text) in [(Document::Report, markdown(runs)), (Document::Book, book(runs))] {
        let path = root.join(document.place().0);
        workspace::write(&path, &text)?;
        println!("wrote {}", shown(&path));
    }
    for (name, svg) in pictures(runs) {
        workspace::write(&root.join("docs/src/performance").join(name), &svg)?;
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    path.strip_prefix(workspace::root()).unwrap_or(path).display().to_string()
}

fn markdown(runs: &[Run]) -> String {
    let mut page = String::from(INTRODUCTION);
    if runs.iter().any(|run| run.machine.quick) {
        page +=
            "\n**This is a trial at a tenth of the size, with one run each. Its figures mean nothing.**\n";
    }
    page += &claims(runs);
    page += &machines(runs);
    page += "\n";
    page += METHOD;
    page += &sections(runs, Document::Report);
    page
}

fn book(runs: &[Run]) -> String {
    let mut page = String::from(BOOK);
    page += &against_floors(runs);
    page += &sections(runs, Document::Book);
    page
}

fn sections(runs: &[Run], document: Document) -> String {
    let rows = measured(runs).filter(|(row, ..)| document.has(*row));
    rows.map(|(row, measured, run)| section(row, measured, &run.machine, document)).collect()
}

/// Rowstream's ratios to the databases' own clients, a line for each claim about one.
fn against_floors(runs: &[Run]) -> String {
    let mut text = String::from(
        "\n## Next to the databases' own clients\n\n\
         The clients read the same rows and write nothing, or in SQLite a loop steps through them. Only that of \
         Flight SQL uses HTTP. With time, less than 1 is faster than the client; with requests/s, more than 1. \
         \"rowstream\" sends NDJSON. A distance is a delay of 0.5 ms each way to the database. The rows were \
         measured on several days and on two kinds of processor, so compare only within a row; \
         `benches/report.md` has their commits.\n\n\
         | data | ratio | measured |\n|---|---|---|\n",
    );
    for (row, measured, _) in measured(runs) {
        for claim in row.claims() {
            let Of::Ratio(target, base, measure) = claim.of else { continue };
            let Some((own, base)) = measured.series(target).zip(measured.series(base)) else { continue };
            if FLOORS.contains(&base.target.as_str()) {
                let ratio = Spread::of_ratios(&own.values(measure), &base.values(measure));
                let ratio = spread(ratio, Document::Report, |value| format!("{value:.2}"));
                let _ = writeln!(text, "| {} | {} | {ratio} |", row.text().0, figure(claim.of));
            }
        }
    }
    text
}

/// The rows in their order, each with its run.
fn measured(runs: &[Run]) -> impl Iterator<Item = (Row, &RowRun, &Run)> {
    Row::ALL.into_iter().filter_map(|row| {
        let (measured, run) = find(runs, row)?;
        Some((row, measured, run))
    })
}

fn find(runs: &[Run], row: Row) -> Option<(&RowRun, &Run)> {
    runs.iter().find_map(|run| Some((run.row(row.id())?, run)))
}

/// The machine of each row: all facts of the first run, and of the others those that differ from it.
fn machines(runs: &[Run]) -> String {
    let mut text = String::from("\n## Machines\n");
    for (index, run) in runs.iter().enumerate() {
        let rows: Vec<&str> = Row::ALL.into_iter().map(Row::id).filter(|id| run.row(id).is_some()).collect();
        let machine = &run.machine;
        let _ = write!(
            text,
            "\nCommit `{}`, {}, at least {} runs of each target with a goal: {}. Raw runs: `{}`.\n",
            machine.commit,
            machine.date,
            machine.runs,
            rows.join(", "),
            shown(&run.folder),
        );
        text += &facts(run, if index == 0 { &[] } else { &runs[0].machine.facts });
    }
    text
}

/// The facts of a run's machine, without the known ones.
fn facts(run: &Run, known: &[(String, String)]) -> String {
    let facts: Vec<_> = run.machine.facts.iter().filter(|fact| !known.contains(fact)).collect();
    if facts.is_empty() {
        return "\nThe machine of the first commit.\n".into();
    }
    let lines = facts.iter().map(|(name, value)| format!("| {name} | {} |\n", cell(value)));
    format!("\n| | |\n|---|---|\n{}", lines.collect::<String>())
}

fn claims(runs: &[Run]) -> String {
    let mut text =
        String::from("\n## Goals\n\n| row | figure | goal | aim | measured | |\n|---|---|---|---|---|---|\n");
    for row in Row::ALL {
        for claim in row.claims() {
            let value = find(runs, row).and_then(|(measured, _)| claim.of.value(measured));
            text += &claim_line(row, *claim, value);
        }
    }
    text
}

fn claim_line(row: Row, claim: Claim, value: Option<f64>) -> String {
    let (sign, reach, aim) = match claim.limit {
        Limit::AtMost(reach, aim) => ("≤", reach, aim),
        Limit::AtLeast(reach, aim) => ("≥", reach, aim),
    };
    let show = |value: f64| match claim.of {
        Of::Ratio(..) | Of::Steadiness(..) => format!("{value:.2}"),
        Of::Median(..) | Of::Greatest(..) => with_unit(claim.of.measure(), value),
    };
    let aim = aim.map_or_else(|| "–".into(), |aim| format!("{sign} {}", show(aim)));
    let verdict = match claim.verdict(value) {
        Verdict::AimReached => "reached, the aim too",
        Verdict::Reached => "reached",
        Verdict::NotReached => "**not reached**",
        Verdict::NotMeasured => "not measured",
    };
    format!(
        "| [{id}](#{id}) | {} | {sign} {} | {aim} | {} | {verdict} |\n",
        figure(claim.of),
        show(reach),
        value.map_or_else(|| "–".into(), show),
        id = row.id(),
    )
}

fn figure(of: Of) -> String {
    match of {
        Of::Median(target, measure) => format!("{target}: {}", heading(measure)),
        Of::Greatest(target, measure) => format!("{target}: {}, the greatest", heading(measure)),
        Of::Steadiness(target, measure) => {
            format!("{target}: {}, the least ÷ the median", heading(measure))
        }
        Of::Ratio(target, base, measure) => format!("{}: {target} ÷ {base}", heading(measure)),
    }
}

fn section(row: Row, run: &RowRun, machine: &Machine, document: Document) -> String {
    let (title, text) = row.text();
    // The anchor is the row's id, because headings change.
    let mut section = format!("\n<a id=\"{}\"></a>\n\n## {title}\n\n{text}\n\n", row.id());
    section += &table(row, run, document);
    for note in &run.notes {
        let _ = write!(section, "\n{note}\n");
    }
    let _ = write!(section, "\nCommit `{}`, {}.\n", machine.commit, machine.date);
    for (name, title) in picture_names(row, run) {
        let _ = write!(section, "\n![{title}]({}/{name})\n", document.place().1);
    }
    section
}

/// A line for each target, with all measures that any of them has.
fn table(row: Row, run: &RowRun, document: Document) -> String {
    // The duration of a series of requests, and their CPU time, follow from the figures per request.
    let has_rate = is_measured(run, Measure::RequestsPerSecond)
        && !row.beside_the_point().contains(&Measure::RequestsPerSecond);
    let is_left_out = |measure: &Measure| match document {
        Document::Report => false,
        Document::Book => {
            *measure == Measure::Failures || has_rate && [Measure::Wall, Measure::Cpu].contains(measure)
        }
    };
    let said = |measure: &Measure| {
        is_measured(run, *measure) && !row.beside_the_point().contains(measure) && !is_left_out(measure)
    };
    let measures: Vec<Measure> = COLUMNS.into_iter().filter(said).collect();
    let base = row.base().and_then(|(target, measure)| Some((run.series(target)?, measure)));
    let mut head = vec!["".to_owned()];
    head.extend(run.series.iter().any(|series| series.x.is_some()).then(|| "of".into()));
    head.extend(base.map(|(series, measure)| format!("{} ÷ {}", heading(measure), series.target)));
    head.extend(measures.iter().map(|measure| {
        format!("{}, {}", heading(*measure), unit(*measure)).replace(", requests", "").replace(", rows", "")
    }));
    head.extend(
        (document == Document::Report)
            .then(|| ["warm-up".to_owned(), "runs".to_owned()])
            .into_iter()
            .flatten(),
    );
    let mut table = line(&head) + &line(&vec!["---".into(); head.len()]);
    for series in
        run.series.iter().filter(|series| document == Document::Report || !series.samples.is_empty())
    {
        table += &line(&cells(series, base, &measures, document));
    }
    for series in &run.series {
        table += &told(series, document);
    }
    table
}

/// The failures of a target.
fn told(series: &Series, document: Document) -> String {
    let mut text = String::new();
    if let Some(error) = series.faults.first().filter(|_| document == Document::Report) {
        let (runs, error) = (series.faults.len(), cell(error.trim_end_matches('.')));
        let _ = write!(
            text,
            "\n{}: runs that failed and were repeated: {runs}. The first: {error}.\n",
            series.target
        );
    }
    let failures = series.values(Measure::Failures);
    let failed = failures.iter().filter(|failures| **failures > 0.0).count();
    if failed > 0 {
        let (runs, most) = (failures.len(), failures.iter().copied().fold(0.0, f64::max));
        let said = series.complaint.as_deref().map(|said| format!("; the server said: {}", cell(said)));
        let said = said.unwrap_or_default();
        let _ = write!(
            text,
            "\n{}: in {failed} of {runs} runs requests failed, at most {most} in a run{said}.\n",
            series.target
        );
    }
    if let Some(why) = &series.missing {
        let how_far = if series.samples.is_empty() { "not measured" } else { "not measured to the end" };
        let why = match document {
            Document::Report => why.trim_end_matches('.'),
            Document::Book => why.split(':').next().unwrap_or_default(),
        };
        let _ = write!(text, "\n{} was {how_far}: {}.\n", series.target, cell(why));
    }
    text
}

fn cells(
    series: &Series,
    base: Option<(&Series, Measure)>,
    measures: &[Measure],
    document: Document,
) -> Vec<String> {
    let mut cells = vec![series.target.clone()];
    cells.extend(series.x.map(thousands));
    cells.extend(base.map(|(base, measure)| {
        let ratio = Spread::of_ratios(&series.values(measure), &base.values(measure));
        spread(ratio, Document::Report, |value| format!("{value:.2}"))
    }));
    cells.extend(measures.iter().map(|measure| {
        spread(Spread::of(&series.values(*measure)), document, |value| number(*measure, value))
    }));
    if document == Document::Report {
        cells.extend([series.warm_ups.to_string(), series.samples.len().to_string()]);
    }
    cells
}

fn spread(spread: Option<Spread>, document: Document, show: impl Fn(f64) -> String) -> String {
    let Some(Spread { median, min, max }) = spread else { return "–".into() };
    let (median, min, max) = (show(median), show(min), show(max));
    if min == max || document == Document::Book { median } else { format!("{median} ({min}–{max})") }
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A text that may be a program's output, on one line and without Markdown's special characters.
fn cell(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|").replace('<', "&lt;")
}

/// The order of columns.
const COLUMNS: [Measure; 15] = [
    Measure::BytesPerSecond,
    Measure::RowsPerSecond,
    Measure::RequestsPerSecond,
    Measure::Wall,
    Measure::FirstByte,
    Measure::P99,
    Measure::P99Meanwhile,
    Measure::Freed,
    Measure::HeldPerStream,
    Measure::Cpu,
    Measure::CpuPerRequest,
    Measure::PeakMemory,
    Measure::SocketMemory,
    Measure::Bytes,
    Measure::Failures,
];

fn is_measured(run: &RowRun, measure: Measure) -> bool {
    run.series.iter().any(|series| !series.values(measure).is_empty())
}

pub(crate) fn heading(measure: Measure) -> &'static str {
    match measure {
        Measure::Wall => "time",
        Measure::FirstByte => "first byte",
        Measure::Cpu => "server CPU",
        Measure::CpuPerRequest => "server CPU per request",
        Measure::PeakMemory => "peak memory",
        Measure::RequestsPerSecond => "requests/s",
        Measure::P99 => "p99",
        Measure::P99Meanwhile => "p99 meanwhile",
        Measure::Freed => "all connections free after",
        Measure::HeldPerStream => "connection held per reader",
        Measure::Failures => "failures",
        Measure::SocketMemory => "socket memory per stream",
        Measure::Bytes => "bytes",
        Measure::BytesPerSecond => "read",
        Measure::RowsPerSecond => "rows/s",
    }
}

fn unit(measure: Measure) -> &'static str {
    match measure {
        Measure::Wall | Measure::Cpu | Measure::Freed | Measure::HeldPerStream => "s",
        Measure::FirstByte | Measure::P99 | Measure::P99Meanwhile => "ms",
        Measure::CpuPerRequest => "µs",
        Measure::PeakMemory | Measure::SocketMemory | Measure::Bytes => "MB",
        Measure::RequestsPerSecond | Measure::Failures => "requests",
        Measure::RowsPerSecond => "rows",
        Measure::BytesPerSecond => "GB/s",
    }
}

/// A value in the unit of its column.
fn number(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Wall | Measure::Cpu if value < 0.1 && value != 0.0 => format!("{value:.4}"),
        Measure::Wall | Measure::Cpu => format!("{value:.3}"),
        Measure::Freed | Measure::HeldPerStream => format!("{value:.1}"),
        Measure::FirstByte | Measure::P99 | Measure::P99Meanwhile => format!("{:.2}", value * 1e3),
        Measure::CpuPerRequest => format!("{:.1}", value * 1e6),
        Measure::PeakMemory | Measure::Bytes => format!("{:.1}", value / 1e6),
        Measure::SocketMemory => format!("{:.3}", value / 1e6),
        Measure::BytesPerSecond => format!("{:.2}", value / 1e9),
        Measure::RequestsPerSecond if value < 1000.0 => format!("{value:.1}"),
        Measure::RequestsPerSecond | Measure::RowsPerSecond => thousands(value.round() as u64),
        Measure::Failures => thousands(value as u64),
    }
}

pub(crate) fn with_unit(measure: Measure, value: f64) -> String {
    match measure {
        Measure::RequestsPerSecond | Measure::RowsPerSecond | Measure::Failures => number(measure, value),
        _ => format!("{} {}", number(measure, value), unit(measure)),
    }
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

/// The file names and titles of a row's charts.
fn picture_names(row: Row, run: &RowRun) -> Vec<(String, String)> {
    drawn(row, run).into_iter().map(|(name, title, _)| (name, title)).collect()
}

/// All charts with their file names.
fn pictures(runs: &[Run]) -> Vec<(String, String)> {
    measured(runs).flat_map(|(row, run, _)| drawn(row, run)).map(|(name, _, svg)| (name, svg)).collect()
}

/// Name, title and chart.
fn drawn(row: Row, run: &RowRun) -> Vec<(String, String, String)> {
    if row == Row::Growth {
        let kinds = [("rows", BY_ROWS), ("streams", BY_STREAMS)];
        return kinds.into_iter().filter_map(|(kind, target)| growth(kind, target, run)).collect();
    }
    let Some(measure) = row.pictured() else { return Vec::new() };
    let bars: Vec<Bar> = run.series.iter().filter_map(|series| bar(series, measure)).collect();
    if bars.is_empty() {
        return Vec::new();
    }
    let less_or_more =
        if measure == Measure::RequestsPerSecond { "more is better" } else { "less is better" };
    let title = format!("{}: {} ({less_or_more})", row.text().0, heading(measure));
    let svg = svg::bars(&title, &bars);
    vec![(format!("{}.svg", row.id()), title, svg)]
}

fn bar(series: &Series, measure: Measure) -> Option<Bar> {
    let Spread { median, min, max } = Spread::of(&series.values(measure))?;
    let side = match series.target.as_str() {
        target if FLOORS.contains(&target) => Side::Floor,
        target if target.starts_with("rowstream") => Side::Ours,
        _ => Side::Rival,
    };
    let text = with_unit(measure, median);
    Some(Bar { label: series.target.clone(), side, value: median, min, max, text })
}

fn growth(kind: &str, target: &str, run: &RowRun) -> Option<(String, String, String)> {
    let points = |measure: Measure, scale: f64| -> Vec<(f64, f64)> {
        let series = run.series.iter().filter(|series| series.target == target && series.missing.is_none());
        let medians = series.filter_map(|series| {
            Some((series.x? as f64, Spread::of(&series.values(measure))?.median * scale))
        });
        medians.collect()
    };
    let (time, memory) = (points(Measure::Wall, 1.0), points(Measure::PeakMemory, 1e-6));
    if time.is_empty() {
        return None;
    }
    let title = format!("Time and peak memory by the number of {kind}");
    let curves = [
        Curve { title: "time in s; dashed: linear".into(), points: time, guide: Guide::Linear },
        Curve { title: "peak memory in MB; dashed: flat".into(), points: memory, guide: Guide::Flat },
    ];
    let svg = svg::curves(&title, kind, &curves);
    Some((format!("growth-{kind}.svg"), title, svg))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Sample;

    /// A small run in the form that is kept on disk.
    fn fixture() -> [Run; 1] {
        [Run::read(&workspace::root().join("benches/compare/fixtures/run")).unwrap()]
    }

    fn lines_with<'a>(page: &'a str, word: &str) -> Vec<&'a str> {
        page.lines().filter(|line| line.contains(word)).collect()
    }

    #[test]
    fn the_page_has_what_was_measured() {
        let page = markdown(&fixture());
        assert!(page.contains("Commit `abc1234`, 2026-01-02, at least 3 runs"), "{page}");
        assert!(page.contains("Raw runs: `benches/compare/fixtures/run`"), "{page}");
        assert!(page.contains("| Processor | 2 cores, Example |"), "{page}");
        let rowstream = lines_with(&page, "| rowstream | 0.75 (0.70–0.80) |");
        assert_eq!(
            rowstream,
            [
                "| rowstream | 0.75 (0.70–0.80) | 0.300 (0.280–0.320) | 0.90 (0.80–1.00) | 0.0800 (0.0750–0.0900) | 5.0 (4.0–6.0) | 2 | 3 |"
            ]
        );
        let floor = lines_with(&page, "| psql \\copy binary | 1.00 |");
        assert_eq!(floor, ["| psql \\copy binary | 1.00 | 0.400 | – | – | – | 2 | 3 |"]);
    }

    #[test]
    fn each_row_says_which_commit_it_is_of() {
        let [older] = fixture();
        let mut newer = older.clone();
        newer.machine.commit = "def5678".into();
        newer.rows.retain(|row| row.row == "authors");
        newer.rows[0].started = jiff::Timestamp::MAX;
        let page = markdown(&record::newest(&[older, newer]));
        let of = |id: &str| {
            let section = page.split_once(&format!("<a id=\"{id}\">")).unwrap().1;
            lines_with(section, "Commit `")[0].to_owned()
        };
        assert_eq!(of("authors"), "Commit `def5678`, 2026-01-02.");
        assert_eq!(of("events"), "Commit `abc1234`, 2026-01-02.");
        assert_eq!(lines_with(&page, "| Processor |").len(), 1, "{page}");
        assert_eq!(lines_with(&page, "The machine of the first commit.").len(), 1, "{page}");
    }

    #[test]
    fn a_second_machine_has_only_its_differences() {
        let [first] = fixture();
        let mut second = first.clone();
        second.machine.facts[0].1 = "2 cores, Other".into();
        let page = machines(&[first, second]);
        assert_eq!(page.matches("\n| | |\n").count(), 2, "{page}");
        assert!(page.ends_with("\n| | |\n|---|---|\n| Processor | 2 cores, Other |\n"), "{page}");
    }

    #[test]
    fn claims_are_judged_honestly() {
        let page = claims(&fixture());
        let expected = [
            ("time: rowstream ÷ psql \\copy binary | ≤ 0.80 | ≤ 0.70 | 0.75 | reached |", "events"),
            ("rowstream: server CPU | ≤ 0.120 s | ≤ 0.0800 s | 0.0800 s | reached, the aim too |", "events"),
            (
                "rowstream: peak memory, the greatest | ≤ 12.0 MB | ≤ 8.0 MB | 6.0 MB | reached, the aim too |",
                "events",
            ),
            ("requests/s: rowstream ÷ go-pgx | ≥ 1.50 | ≥ 2.00 | 1.20 | **not reached** |", "authors"),
            ("first byte | ≤ 2.00 ms | ≤ 1.00 ms | – | not measured |", "first-byte"),
        ];
        for (line, row) in expected {
            assert!(page.lines().any(|found| found.contains(line) && found.contains(row)), "{line}\n{page}");
        }
    }

    #[test]
    fn what_could_not_be_run_is_told() {
        let page = markdown(&fixture());
        assert!(page.contains("\nphp was not measured: php is not here.\n"), "{page}");
        assert!(
            page.contains("\nspring-mvc-buffered was not measured to the end: curl: (52) Empty reply.\n"),
            "{page}"
        );
    }

    #[test]
    fn requests_that_failed_are_told() {
        let mut series = Series::new("buffered", 0);
        series.samples = vec![Sample::from([(Measure::Failures, 0.0)]); 2];
        assert_eq!(told(&series, Document::Report), "");
        series.samples.push(Sample::from([(Measure::Failures, 100.0)]));
        series.complaint = Some("java.lang.OutOfMemoryError: Java heap space".into());
        let expected = "\nbuffered: in 1 of 3 runs requests failed, at most 100 in a run; \
             the server said: java.lang.OutOfMemoryError: Java heap space.\n";
        assert_eq!(told(&series, Document::Report), expected);
    }

    #[test]
    fn runs_that_were_repeated_are_told() {
        let page = markdown(&fixture());
        let told = "go-pgx: runs that failed and were repeated: 2. The first: curl: (18) transfer closed.";
        assert!(page.contains(told), "{page}");
    }

    #[test]
    fn every_picture_that_is_named_is_drawn() {
        let run = fixture();
        let page = markdown(&run);
        let drawn: Vec<String> = pictures(&run).into_iter().map(|(name, _)| name).collect();
        assert_eq!(drawn, ["authors.svg", "growth-rows.svg"]);
        assert_eq!(page.matches("](../docs/src/performance/").count(), drawn.len());
        for name in drawn {
            assert!(page.contains(&format!("](../docs/src/performance/{name})")), "{page}");
        }
    }

    #[test]
    fn the_book_has_medians() {
        let page = book(&fixture());
        assert!(page.contains("\n| 1,000,000 events from PostgreSQL, as NDJSON | time: rowstream ÷ psql \\copy binary | 0.75 (0.70–0.80) |\n"), "{page}");
        assert!(page.contains("](performance/growth-rows.svg)"), "{page}");
        assert!(!page.contains("warm-up") && !page.contains("## Goals"), "{page}");
    }

    #[test]
    fn a_trial_says_so() {
        let mut run = fixture();
        assert!(!markdown(&run).contains("trial"));
        run[0].machine.quick = true;
        assert!(markdown(&run).contains("This is a trial"));
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(number(Measure::RequestsPerSecond, 53_456.7), "53,457");
        assert_eq!(number(Measure::RequestsPerSecond, 33.25), "33.2");
        assert_eq!(with_unit(Measure::PeakMemory, 5_242_880.0), "5.2 MB");
        assert_eq!(thousands(1_000_000), "1,000,000");
        assert_eq!(thousands(999), "999");
    }
}
