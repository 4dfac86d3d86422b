//! The report as one web page, with SVG charts that we draw here. It has no script and loads
//! nothing else.
//!
//! A target keeps its colour in all charts. For two targets the charts show the last run of each,
//! and the page says so. The table contains the medians and ratios of all runs.

use std::fmt::Write as _;

use super::report::{bytes, grouped, time};
use super::tally::Phase;
use super::{Measurements, Report, Run};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 240.0;
/// Space for the labels of the axes.
const LEFT: f64 = 78.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 30.0;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #d0d7de; --back: #fff; --a: #0969da; --b: #bc4c00 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --faint: #3d444d; --back: #0d1117; --a: #58a6ff; --b: #f0883e } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 760px; margin: 2em auto; padding: 0 1em }
pre { overflow-x: auto; font-size: 13px }
svg { width: 100%; height: auto; display: block }
svg text { fill: var(--ink); font-size: 12px }
.grid { stroke: var(--faint) }
.line { fill: none; stroke-width: 2 }
.a { stroke: var(--a) } .b { stroke: var(--b); stroke-dasharray: 7 3 }
.key { display: inline-block; width: 2em; border-top: 3px solid var(--a); margin-right: .5em; vertical-align: middle }
.key.b { border-top: 3px dashed var(--b) }
h2 { font-size: 1.1em; margin: 1.6em 0 .3em }
";

impl Report {
    /// The page.
    pub fn html(&self) -> String {
        let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
        page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>rowstream bench</title>\n";
        page += &format!("<style>{STYLE}</style>\n<h1>rowstream bench</h1>\n<p>{}</p>\n", self.started);
        let shown: Vec<ChartRun<'_>> =
            self.targets.iter().zip(["a", "b"]).filter_map(ChartRun::new).collect();
        for target in &shown {
            let url = escape(target.url);
            page += &format!("<p><span class=\"key {}\"></span>{url}</p>\n", target.class);
        }
        if shown.len() > 1 {
            page += "<p>The pictures show the last run of each; the table is of all runs.</p>\n";
        }
        page += &format!("<pre>{}</pre>\n", escape(&self.to_string()));
        for picture in pictures(&shown) {
            page += &picture.svg();
        }
        page + "</html>\n"
    }
}

/// A target's run in the charts.
struct ChartRun<'a> {
    url: &'a str,
    class: &'static str,
    run: &'a Run,
}

impl<'a> ChartRun<'a> {
    fn new((measured, class): (&'a Measurements, &'static str)) -> Option<Self> {
        Some(Self { url: &measured.url, class, run: measured.runs.last()? })
    }
}

fn pictures(shown: &[ChartRun<'_>]) -> Vec<Picture> {
    let each = |points: &dyn Fn(&Run) -> Vec<(f64, f64)>| -> Vec<Curve> {
        shown.iter().map(|target| Curve { class: target.class, points: points(target.run) }).collect()
    };
    let over_time = |title, unit: fn(f64) -> String, curves| Picture { title, x: Axis::Time, unit, curves };
    vec![
        Picture {
            title: "Latency (total) by percentile",
            x: Axis::Percentile,
            unit: time,
            curves: each(&latencies),
        },
        over_time("Rows per second", grouped, each(&|run| rates(run, |moment| moment.rows as f64))),
        over_time("Bytes of bodies per second", bytes, each(&|run| rates(run, |moment| moment.bytes as f64))),
        over_time("Memory of the server", bytes, each(&memory)),
        over_time("CPU of the server, in cores", |cores| format!("{cores:.2}"), each(&cores)),
    ]
}

/// Percentiles by their number of nines, which is the axis: 0 is the minimum, 1 is p90, 2 is p99.
fn latencies(run: &Run) -> Vec<(f64, f64)> {
    let latency = run.tally.latency(Phase::Total);
    // With n requests, percentiles above 1 - 1/n equal the maximum.
    let end = (latency.count() as f64).log10().clamp(0.0, MAX_NINES);
    match latency.count() {
        0 => Vec::new(),
        _ => (0..=100)
            .map(|step| end * f64::from(step) / 100.0)
            .map(|nines| (nines, latency.at(1.0 - 10_f64.powf(-nines))))
            .collect(),
    }
}

const MAX_NINES: f64 = 4.0;

/// The growth of a count between neighbouring moments, per second.
fn rates(run: &Run, count: fn(&super::attack::Moment) -> f64) -> Vec<(f64, f64)> {
    let points: Vec<_> = run.timeline.iter().map(|moment| (moment.at.as_secs_f64(), count(moment))).collect();
    slopes(&points)
}

fn cores(run: &Run) -> Vec<(f64, f64)> {
    let used = |moment: &super::attack::Moment| Some((moment.at.as_secs_f64(), moment.server?.cpu));
    slopes(&run.timeline.iter().filter_map(used).collect::<Vec<_>>())
}

fn memory(run: &Run) -> Vec<(f64, f64)> {
    let used = |moment: &super::attack::Moment| Some((moment.at.as_secs_f64(), moment.server?.memory as f64));
    run.timeline.iter().filter_map(used).collect()
}

/// The growth per second up to each point. Points that are too close show only noise.
fn slopes(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let slope = |pair: &[(f64, f64)]| (pair[1].0, (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0));
    points.windows(2).filter(|pair| pair[1].0 - pair[0].0 > 1e-3).map(slope).collect()
}

/// The meaning of a chart's x axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// Seconds since the start.
    Time,
    Percentile,
}

struct Curve {
    class: &'static str,
    points: Vec<(f64, f64)>,
}

struct Picture {
    title: &'static str,
    x: Axis,
    /// Formats values of the y axis.
    unit: fn(f64) -> String,
    curves: Vec<Curve>,
}

impl Picture {
    /// Empty without values.
    fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let greatest = |value: fn(&(f64, f64)) -> f64| points().map(value).fold(0.0, f64::max);
        let (right, top) = (greatest(|point| point.0), round_up(greatest(|point| point.1)));
        if points().next().is_none() || top <= 0.0 {
            return String::new();
        }
        let right = if right > 0.0 { right } else { 1.0 };
        let mut svg = format!(
            "<h2>{0}</h2>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">\n",
            self.title
        );
        for quarter in 0..=4 {
            let value = top * f64::from(quarter) / 4.0;
            svg += &horizontal(y(value / top), &(self.unit)(value));
        }
        for (at, label) in self.marks(right) {
            svg += &vertical(x(at / right), &label);
        }
        for curve in &self.curves {
            svg += &curve.svg(right, top);
        }
        svg + "</svg>\n"
    }

    /// The labels below the x axis.
    fn marks(&self, right: f64) -> Vec<(f64, String)> {
        match self.x {
            Axis::Time => (0..=4)
                .map(|part| right * f64::from(part) / 4.0)
                .map(|at| (at, format!("{at:.2} s")))
                .collect(),
            Axis::Percentile => {
                let names = [
                    (0.0, "min"),
                    (0.301, "p50"),
                    (1.0, "p90"),
                    (2.0, "p99"),
                    (3.0, "p99.9"),
                    (4.0, "p99.99"),
                ];
                let within = names.into_iter().filter(|(nines, _)| *nines <= right);
                within.map(|(nines, name)| (nines, name.to_owned())).collect()
            }
        }
    }
}

impl Curve {
    fn svg(&self, right: f64, top: f64) -> String {
        let mut points = String::new();
        for (at, value) in &self.points {
            // Writing to a String can't fail.
            let _ = write!(points, "{:.1},{:.1} ", x(at / right), y(value / top));
        }
        format!("<polyline class=\"line {}\" points=\"{}\"/>\n", self.class, points.trim_end())
    }
}

fn horizontal(y: f64, label: &str) -> String {
    let (end, text, base) = (WIDTH - RIGHT, LEFT - 8.0, y + 4.0);
    format!(
        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text x=\"{text}\" y=\"{base:.1}\" text-anchor=\"end\">{label}</text>\n"
    )
}

fn vertical(x: f64, label: &str) -> String {
    let (end, base) = (HEIGHT - BOTTOM, HEIGHT - 10.0);
    format!(
        "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{end}\"/>\
         <text x=\"{x:.1}\" y=\"{base}\" text-anchor=\"middle\">{label}</text>\n"
    )
}

/// From 0 (left) to 1 (right).
fn x(part: f64) -> f64 {
    LEFT + part * (WIDTH - LEFT - RIGHT)
}

/// From 0 (bottom) to 1 (top).
fn y(part: f64) -> f64 {
    HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP)
}

/// The next number whose quarters are easy to read.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let unit = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * unit).find(|step| *step >= value).unwrap_or(10.0 * unit)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tops_are_just_above() {
        for (value, top) in [(1.0, 1.0), (1.1, 1.2), (95.0, 100.0), (0.033, 0.04)] {
            assert!((round_up(value) - top).abs() < top * 1e-9, "{value}: {}", round_up(value));
        }
    }

    #[test]
    fn slopes_are_by_time() {
        assert_eq!(
            slopes(&[(0.0, 0.0), (0.5, 10.0), (0.5001, 90.0), (1.5, 10.0)]).first(),
            Some(&(0.5, 20.0))
        );
        assert_eq!(slopes(&[(0.0, 0.0), (0.0, 5.0)]), []);
    }

    #[test]
    fn urls_cannot_become_markup() {
        assert_eq!(escape("<a href=\"&\">"), "&lt;a href=&quot;&amp;&quot;&gt;");
    }
}
