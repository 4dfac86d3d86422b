//! Measures the output in bytes per second and core: events as NDJSON, and texts compared with a
//! plain copy of the same bytes.
//!
//! The time is this thread's CPU time, and all cases alternate, so other work on the machine
//! affects them equally. It's for people, on an otherwise idle machine, because other programs
//! still use the caches.

use std::time::Duration;

use rowstream_micro::{Pass, cases};
use rustix::time::{ClockId, clock_gettime};

/// An odd number, so that the median is one of the values.
const ROUNDS: usize = 21;
/// Long enough to hide the clock's resolution, and short enough that the machine doesn't change
/// during a round.
const TURN: Duration = Duration::from_millis(20);

/// Whole rows: those that are only encoded, and those that are decoded first.
const ROWS: [&str; 2] = ["row: events, lines", "postgres: events, lines"];
/// Texts without escapes, for the comparison with a copy.
const TEXTS: [&str; 2] = ["text: 40 bytes", "text: 10 KB"];

/// A pass with its speed in each round.
struct Runner {
    pass: Pass,
    out: Vec<u8>,
    /// In GB/s.
    speeds: Vec<f64>,
}

impl Runner {
    fn new(mut pass: Pass) -> Self {
        let mut out = Vec::new();
        pass.run(&mut out);
        Self { pass, out, speeds: Vec::new() }
    }

    fn turn(&mut self) {
        let (begun, mut bytes) = (worked(), 0);
        while worked() - begun < TURN {
            self.pass.run(&mut self.out);
            bytes += self.out.len();
        }
        self.speeds.push(bytes as f64 / (worked() - begun).as_secs_f64() / 1e9);
    }
}

/// The CPU time of this thread.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The median of numbers, with the minimum and the maximum.
fn median(mut numbers: Vec<f64>) -> String {
    numbers.sort_by(f64::total_cmp);
    let [least, most] = [numbers[0], numbers[numbers.len() - 1]];
    format!("{:6.2} ({least:.2} to {most:.2})", numbers[numbers.len() / 2])
}

fn pass(name: &str) -> Pass {
    let case = cases().into_iter().find(|case| case.name == name);
    case.unwrap_or_else(|| panic!("there is no case `{name}`")).build()
}

fn main() {
    let mut rows = ROWS.map(|name| Runner::new(pass(name)));
    let mut texts = TEXTS.map(|name| {
        let mut text = pass(name);
        let copied = text.copied();
        [Runner::new(text), Runner::new(copied)]
    });
    for _ in 0..ROUNDS {
        rows.iter_mut().chain(texts.as_flattened_mut()).for_each(Runner::turn);
    }
    println!("GB/s of output on one core, medians of {ROUNDS} rounds (least to most)");
    for (name, row) in ROWS.iter().zip(rows) {
        println!("{name:<40} {}", median(row.speeds));
    }
    for (name, [text, copied]) in TEXTS.iter().zip(texts) {
        let ratios = text.speeds.iter().zip(&copied.speeds).map(|(text, copied)| text / copied).collect();
        println!("{name:<40} {}", median(text.speeds));
        println!("{:<40} {}", "  the same bytes, copied", median(copied.speeds));
        println!("{:<40} {}", "  ratio", median(ratios));
    }
}
