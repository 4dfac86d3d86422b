//! The server's CPU and memory during a run, as the kernel reports them ([`rowstream_procfs`]).

use std::fs;

use rowstream_procfs::{Cpu, ProcessFiles, kibibytes, number};

/// A process that we watch during a run.
pub(super) struct Process {
    files: ProcessFiles,
    peak: Peak,
    first: Usage,
    last: Usage,
    /// In bytes. Depending on `peak`, the largest sample or the kernel's own mark.
    peak_memory: u64,
}

/// The source of the memory peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peak {
    /// The kernel's high-water mark, reset when the run began.
    HighWaterMark,
    /// The largest of our samples, because only the owner of the process can reset the kernel's
    /// mark.
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

/// A process's counters, which only grow.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    cpu: Cpu,
    voluntary: u64,
    involuntary: u64,
}

/// A sample of the process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Resident, in bytes.
    pub(super) memory: u64,
    /// Seconds of CPU since the run began.
    pub(super) cpu: f64,
}

/// The server's use of resources in one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Seconds.
    pub(super) cpu_user: f64,
    pub(super) cpu_system: f64,
    /// In bytes.
    pub(super) peak_memory: u64,
    pub(super) peak: Peak,
    /// Context switches of the threads that exist at the end.
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
}

impl Process {
    /// Starts to watch the process: resets its high-water mark if we may.
    ///
    /// # Errors
    /// The process doesn't exist, or there's no `/proc`.
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

    /// Takes a sample. `None` if the process has ended.
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

    /// The difference over the run, up to the last sample if the process has ended.
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
            // A thread may end while we read.
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
