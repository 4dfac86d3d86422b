//! The progress of rows, for commands that write them: a line on stderr, so that it isn't mixed
//! with the rows, and a summary.

use std::fmt::Display;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressStyle};

/// The line on stderr. It's hidden unless stderr is a terminal that the rows aren't written to.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(rows_on_stdout: bool) -> Self {
        let hidden = !io::stderr().is_terminal() || (rows_on_stdout && io::stdout().is_terminal());
        if hidden {
            return Self::hidden();
        }
        let style = ProgressStyle::with_template("{spinner} {msg}").expect("the template is valid");
        Self(ProgressBar::new_spinner().with_style(style))
    }

    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Shows the rows and bytes so far. `all` is the number of bytes at the end, if it's known.
    pub(super) fn show(&self, rows: u64, bytes: u64, all: Option<u64>) {
        if self.0.is_hidden() {
            return;
        }
        let seconds = self.0.elapsed().as_secs_f64().max(1e-3);
        let rate = |total: u64| (total as f64 / seconds) as u64;
        let left = all.filter(|_| bytes > 0).map_or_else(String::new, |all| {
            let left = all.saturating_sub(bytes) as f64 * seconds / bytes as f64;
            format!(", {} left", HumanDuration(Duration::from_secs_f64(left)))
        });
        self.0.set_message(format!(
            "{} rows, {} in {} s ({} rows/s, {}/s){left}",
            HumanCount(rows),
            HumanBytes(bytes),
            self.0.elapsed().as_secs(),
            HumanCount(rate(rows)),
            HumanBytes(rate(bytes)),
        ));
        self.0.tick();
    }

    /// Writes a line above the progress.
    pub(super) fn note(&self, text: impl Display) {
        self.0.suspend(|| eprintln!("{text}"));
    }

    /// Clears the line for the summary.
    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// `1 row`, `2,000 rows`.
pub(super) fn count(rows: u64) -> String {
    format!("{} {}", HumanCount(rows), if rows == 1 { "row" } else { "rows" })
}

/// `3.5 ms`, `2.10 s`.
pub(super) fn time(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}
