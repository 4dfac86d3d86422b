//! Charts: bars, and curves on two logarithmic axes. They're plain SVG with its own style, so they
//! look the same everywhere.

use std::fmt::Write as _;

const STYLE: &str = "<style>text{font:13px system-ui,sans-serif;fill:#1c2733}.title{font-weight:600}.small{font-size:11px;fill:#5b6875}\
.ours{fill:#c2410c}.floor{fill:#64748b}.rival{fill:#93b4d4}.range{stroke:#1c2733;stroke-width:1.5}.axis{stroke:#cbd5e1}\
.guide{stroke:#94a3b8;stroke-dasharray:5 4;fill:none}.curve{stroke:#c2410c;stroke-width:2;fill:none}</style>";

/// The owner of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Floor,
    Rival,
}

impl Side {
    fn class(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Floor => "floor",
            Self::Rival => "rival",
        }
    }
}

/// A bar with the range of its runs.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) side: Side,
    pub(crate) value: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// The value as in the table.
    pub(crate) text: String,
}

/// Horizontal bars on one linear scale from zero.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> String {
    const LEFT: f64 = 210.0;
    const WIDTH: f64 = 430.0;
    const STEP: f64 = 30.0;
    let greatest = bars.iter().map(|bar| bar.max).fold(f64::MIN_POSITIVE, f64::max);
    let scale = |value: f64| value / greatest * WIDTH;
    let height = 46.0 + STEP * bars.len() as f64;
    let mut svg = open(760.0, height, title);
    for (number, bar) in bars.iter().enumerate() {
        let top = 40.0 + STEP * number as f64;
        let middle = top + 10.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{}\" x=\"{LEFT}\" y=\"{top:.0}\" width=\"{:.1}\" height=\"20\" rx=\"2\"/>\
             <path class=\"range\" d=\"M{:.1} {middle:.0}H{:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{}</text>",
            LEFT - 8.0,
            top + 15.0,
            escape(&bar.label),
            bar.side.class(),
            scale(bar.value),
            LEFT + scale(bar.min),
            LEFT + scale(bar.max),
            LEFT + scale(bar.max) + 8.0,
            top + 15.0,
            escape(&bar.text),
        );
    }
    svg + "</svg>\n"
}

/// One of the curves of a chart.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    pub(crate) title: String,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) guide: Guide,
}

/// A reference line for a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guide {
    /// Twice the work, twice the time: through the last point.
    Linear,
    /// Constant for any amount of work: through the first point.
    Flat,
}

/// Curves side by side, each with its own logarithmic axes.
pub(crate) fn curves(title: &str, x_label: &str, curves: &[Curve]) -> String {
    const PANEL: f64 = 380.0;
    let mut svg = open(PANEL * curves.len() as f64, 330.0, title);
    for (number, curve) in curves.iter().enumerate() {
        svg += &panel(PANEL * number as f64, x_label, curve);
    }
    svg + "</svg>\n"
}

/// The area of a panel's axes, from its left and from the top.
const AREA: (f64, f64, f64, f64) = (58.0, 70.0, 290.0, 200.0);

fn panel(offset: f64, x_label: &str, curve: &Curve) -> String {
    let (left, top, width, height) = (offset + AREA.0, AREA.1, AREA.2, AREA.3);
    let guide = guide(curve);
    let x_axis = Axis::around(curve.points.iter().map(|(x, _)| *x), left, width);
    let y_axis = Axis::around(curve.points.iter().chain(&guide).map(|(_, y)| *y), top + height, -height);
    let at = |(x, y): &(f64, f64)| format!("{:.1} {:.1}", x_axis.at(*x), y_axis.at(*y));
    let path = |points: &[(f64, f64)]| points.iter().map(at).collect::<Vec<_>>().join("L");
    let mut svg = format!("<text x=\"{left}\" y=\"56\">{}</text>\n", escape(&curve.title));
    for mark in x_axis.marks() {
        let x = x_axis.at(mark);
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{x:.1} {top}V{:.0}\"/><text class=\"small\" x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            top + height,
            top + height + 16.0,
            decimal(mark),
        );
    }
    for mark in y_axis.marks() {
        let y = y_axis.at(mark);
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{left:.1} {y:.1}H{:.1}\"/><text class=\"small\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left + width,
            left - 6.0,
            y + 4.0,
            decimal(mark),
        );
    }
    let _ = writeln!(svg, "<path class=\"guide\" d=\"M{}\"/>", path(&guide));
    let _ = writeln!(svg, "<path class=\"curve\" d=\"M{}\"/>", path(&curve.points));
    for (x, y) in &curve.points {
        let _ = writeln!(
            svg,
            "<circle class=\"ours\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"/>",
            x_axis.at(*x),
            y_axis.at(*y)
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"small\" x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
        left + width / 2.0,
        top + height + 36.0,
        escape(x_label),
    );
    svg
}

/// The dashed line, from the first x to the last.
fn guide(curve: &Curve) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) else { return Vec::new() };
    match curve.guide {
        Guide::Linear => vec![(first.0, last.1 * first.0 / last.0), *last],
        Guide::Flat => vec![*first, (last.0, first.1)],
    }
}

/// A logarithmic axis between whole powers of ten.
struct Axis {
    low: i32,
    high: i32,
    start: f64,
    length: f64,
}

impl Axis {
    fn around(values: impl Iterator<Item = f64>, start: f64, length: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(value.log10()), high.max(value.log10()));
        }
        let low = low.floor() as i32;
        // At least one power of ten, to avoid a division by zero.
        Self { low, high: (high.ceil() as i32).max(low + 1), start, length }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.start + share * self.length
    }

    fn marks(&self) -> impl Iterator<Item = f64> + use<> {
        (self.low..=self.high).map(|power| 10_f64.powi(power))
    }
}

/// A power of ten in decimal notation.
fn decimal(value: f64) -> String {
    match value {
        value if value < 1.0 => format!("{value}"),
        value if value < 1e3 => format!("{value:.0}"),
        value if value < 1e6 => format!("{:.0}k", value / 1e3),
        value => format!("{:.0}M", value / 1e6),
    }
}

fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
         <title>{title}</title>\n{STYLE}\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text class=\"title\" x=\"16\" y=\"24\">{title}</text>\n",
        title = escape(title),
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |label: &str, value: f64| Bar {
            label: label.into(),
            side: Side::Rival,
            value,
            min: value,
            max: value,
            text: format!("{value} s"),
        };
        let svg = bars("Time & more", &[bar("a<b", 1.0), bar("c", 4.0)]);
        assert!(svg.contains("width=\"107.5\"") && svg.contains("width=\"430.0\""), "{svg}");
        assert!(svg.contains("Time &amp; more") && svg.contains("a&lt;b"), "{svg}");
    }

    #[test]
    fn axes_end_at_powers_of_ten() {
        let axis = Axis::around([2.0, 500.0].into_iter(), 100.0, 300.0);
        assert_eq!(axis.marks().collect::<Vec<_>>(), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!((axis.at(1.0), axis.at(10.0), axis.at(1000.0)), (100.0, 200.0, 400.0));
        let flat = Axis::around([10.0].into_iter(), 0.0, 1.0);
        assert_eq!(flat.at(10.0), 0.0);
    }

    #[test]
    fn guides_are_linear_or_flat() {
        let curve = |guide| Curve { title: String::new(), points: vec![(1.0, 3.0), (10.0, 20.0)], guide };
        assert_eq!(guide(&curve(Guide::Linear)), [(1.0, 2.0), (10.0, 20.0)]);
        assert_eq!(guide(&curve(Guide::Flat)), [(1.0, 3.0), (10.0, 3.0)]);
        let svg = curves("Growth", "rows", &[curve(Guide::Linear), curve(Guide::Flat)]);
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(!svg.contains("NaN"), "{svg}");
    }
}
