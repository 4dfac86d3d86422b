//! The server's own use of the machine during a run, as the kernel tells it ([`rowstream_procfs`]).

use std::fs;

use rowstream_procfs::{Cpu, ProcessFiles, kibibytes, number};

/// A process that is watched during a run.
pub(super) struct Process {
    files: ProcessFiles,
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
    cpu: Cpu,
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
        let files = ProcessFiles::of(pid);
        if files.cpu().is_none() {
            return Err(format!("there is no process {pid} in /proc (--pid needs Linux)"));
        }
        let peak = match fs::write(files.folder().join("clear_refs"), "5") {
            Ok(()) => Peak::HighWaterMark,
            Err(_) => Peak::Sampled,
        };
        let mut process =
            Self { files, peak, first: Usage::default(), last: Usage::default(), peak_memory: 0 };
        process.first = process.usage().ok_or_else(|| format!("the process {pid} cannot be read"))?;
        process.last = process.first;
        Ok(process)
    }

    /// Looks at it now; `None` if it has ended.
    pub(super) fn sample(&mut self) -> Option<Sample> {
        let status = self.files.read("status")?;
        let memory = kibibytes(&status, "VmRSS:")?;
        let peak = match self.peak {
            Peak::HighWaterMark => kibibytes(&status, "VmHWM:")?,
            Peak::Sampled => memory,
        };
        self.peak_memory = self.peak_memory.max(peak);
        self.last.cpu = self.files.cpu()?;
        let (Cpu { user, system }, first) = (self.last.cpu, self.first.cpu);
        Some(Sample { memory, cpu: user + system - first.user - first.system })
    }

    /// The difference over the run. Of a process that has ended, as far as it was seen.
    pub(super) fn cost(&mut self) -> Cost {
        self.sample();
        self.last = self.usage().unwrap_or(self.last);
        Cost {
            cpu_user: self.last.cpu.user - self.first.cpu.user,
            cpu_system: self.last.cpu.system - self.first.cpu.system,
            peak_memory: self.peak_memory,
            peak: self.peak,
            voluntary: self.last.voluntary.saturating_sub(self.first.voluntary),
            involuntary: self.last.involuntary.saturating_sub(self.first.involuntary),
        }
    }

    fn usage(&self) -> Option<Usage> {
        let mut usage = Usage { cpu: self.files.cpu()?, voluntary: 0, involuntary: 0 };
        for thread in fs::read_dir(self.files.folder().join("task")).ok()?.flatten() {
            // A thread may end while we look.
            let Ok(status) = fs::read_to_string(thread.path().join("status")) else { continue };
            usage.voluntary += number(&status, "voluntary_ctxt_switches:").unwrap_or_default();
            usage.involuntary += number(&status, "nonvoluntary_ctxt_switches:").unwrap_or_default();
        }
        Some(usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
