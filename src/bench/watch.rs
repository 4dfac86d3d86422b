//! The server's own use of the machine, as Linux's `/proc` tells it (proc(5)).
//!
//! Five fields of text files need no library. All are of one process: a server of several is not seen whole.

use std::fs;
use std::path::PathBuf;

/// A process that is watched during a run.
pub(super) struct Process {
    folder: PathBuf,
    /// Clock ticks per second, in which CPU time is counted.
    ticks: f64,
    peak: Peak,
    first: Usage,
    last: Usage,
    /// Bytes: the greatest that a sample saw, or the kernel's own mark, by `peak`.
    peak_memory: u64,
}

/// Where the peak of memory is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peak {
    /// The kernel's high-water mark, reset when the run began.
    HighWaterMark,
    /// It could not be reset, as that needs the owner of the process: the greatest of our samples.
    Sampled,
}

impl Peak {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::HighWaterMark => "hwm",
            Self::Sampled => "sampled",
        }
    }
}

/// Counters of a process that only grow.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    /// Clock ticks.
    user: u64,
    system: u64,
    voluntary: u64,
    involuntary: u64,
}

/// What is seen of the process at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Resident, in bytes.
    pub(super) memory: u64,
    /// Seconds of CPU since the run began.
    pub(super) cpu: f64,
}

/// What a run cost the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Seconds.
    pub(super) cpu_user: f64,
    pub(super) cpu_system: f64,
    /// Bytes.
    pub(super) peak_memory: u64,
    pub(super) peak: Peak,
    /// Of the threads that live at the end.
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
}

impl Process {
    /// Begins to watch: resets its high-water mark, where we may.
    ///
    /// # Errors
    /// There is no such process, or no `/proc`.
    pub(super) fn attach(pid: u32) -> Result<Self, String> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        if !folder.join("stat").exists() {
            return Err(format!("there is no process {pid} in /proc (--pid needs Linux)"));
        }
        let peak = match fs::write(folder.join("clear_refs"), "5") {
            Ok(()) => Peak::HighWaterMark,
            Err(_) => Peak::Sampled,
        };
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let mut process =
            Self { folder, ticks, peak, first: Usage::default(), last: Usage::default(), peak_memory: 0 };
        process.first = process.usage().ok_or_else(|| format!("the process {pid} cannot be read"))?;
        process.last = process.first;
        Ok(process)
    }

    /// Looks at it now; `None` if it has ended.
    pub(super) fn sample(&mut self) -> Option<Sample> {
        let status = self.read("status")?;
        let memory = kibibytes(&status, "VmRSS:")?;
        let peak = match self.peak {
            Peak::HighWaterMark => kibibytes(&status, "VmHWM:")?,
            Peak::Sampled => memory,
        };
        self.peak_memory = self.peak_memory.max(peak);
        let (user, system) = self.cpu()?;
        (self.last.user, self.last.system) = (user, system);
        let ticks = (user + system).saturating_sub(self.first.user + self.first.system);
        Some(Sample { memory, cpu: ticks as f64 / self.ticks })
    }

    /// The difference over the run. Of a process that has ended, as far as it was seen.
    pub(super) fn cost(&mut self) -> Cost {
        self.sample();
        self.last = self.usage().unwrap_or(self.last);
        let seconds = |last: u64, first: u64| last.saturating_sub(first) as f64 / self.ticks;
        Cost {
            cpu_user: seconds(self.last.user, self.first.user),
            cpu_system: seconds(self.last.system, self.first.system),
            peak_memory: self.peak_memory,
            peak: self.peak,
            voluntary: self.last.voluntary.saturating_sub(self.first.voluntary),
            involuntary: self.last.involuntary.saturating_sub(self.first.involuntary),
        }
    }

    fn usage(&self) -> Option<Usage> {
        let (user, system) = self.cpu()?;
        let mut usage = Usage { user, system, voluntary: 0, involuntary: 0 };
        for thread in fs::read_dir(self.folder.join("task")).ok()?.flatten() {
            // A thread may end while we look.
            let Ok(status) = fs::read_to_string(thread.path().join("status")) else { continue };
            usage.voluntary += number(&status, "voluntary_ctxt_switches:").unwrap_or_default();
            usage.involuntary += number(&status, "nonvoluntary_ctxt_switches:").unwrap_or_default();
        }
        Some(usage)
    }

    /// Ticks of user and system time of all its threads, also of those that have ended.
    fn cpu(&self) -> Option<(u64, u64)> {
        times(&self.read("stat")?)
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok()
    }
}

/// Fields 14 and 15. The second one is the program's name in parentheses, which may hold anything.
fn times(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn number(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

fn kibibytes(status: &str, name: &str) -> Option<u64> {
    Some(number(status, name)? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = "7 (a) 1 (b)) S 1 7 7 0 -1 4194560 99 0 0 0 123 45 6 7 20 0 1 0 100";
        assert_eq!(times(stat), Some((123, 45)));
    }

    #[test]
    fn names_are_whole() {
        let status = "VmRSS:\t    12 kB\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(number(status, "voluntary_ctxt_switches:"), Some(3));
        assert_eq!(number(status, "nonvoluntary_ctxt_switches:"), Some(4));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn we_see_ourselves() {
        let mut process = Process::attach(std::process::id()).unwrap();
        let sample = process.sample().unwrap();
        let cost = process.cost();
        assert!(sample.memory > 0 && cost.peak_memory >= sample.memory, "{sample:?} {cost:?}");
        assert!(Process::attach(u32::MAX).is_err());
    }
}
