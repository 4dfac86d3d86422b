//! Reads a process's figures from Linux's `/proc` (proc(5)), for the server's metrics and the load
//! tester.
//!
//! A few fields of text files don't need a library. All figures are for one process, so a server
//! with several processes isn't covered.

use std::fs;
use std::path::{Path, PathBuf};

/// A process, identified by its folder.
#[derive(Debug)]
pub struct ProcessFiles(PathBuf);

/// CPU time of all threads of a process, including ended ones, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

impl ProcessFiles {
    /// This process.
    pub fn own() -> Self {
        Self("/proc/self".into())
    }

    /// The process with an id. It needn't exist.
    pub fn of(pid: u32) -> Self {
        Self(format!("/proc/{pid}").into())
    }

    /// Its folder below `/proc`.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Reads one of its files. `None` if the process has ended or there's no `/proc`.
    pub fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.join(name)).ok()
    }

    /// The CPU time that it has used. `None` if it has ended or there's no `/proc`.
    pub fn cpu(&self) -> Option<Cpu> {
        let stat = self.read("stat")?;
        Some(Cpu { user: seconds(field(&stat, 14)?), system: seconds(field(&stat, 15)?) })
    }

    /// Its start time, in seconds since 1970.
    pub fn started(&self) -> Option<f64> {
        let booted = number(&fs::read_to_string("/proc/stat").ok()?, "btime")?;
        Some(booted as f64 + seconds(field(&self.read("stat")?, 22)?))
    }

    /// Open descriptors, without the one that we use to count them.
    pub fn open_fds(&self) -> Option<u64> {
        Some((fs::read_dir(self.0.join("fd")).ok()?.count() as u64).saturating_sub(1))
    }

    /// The limit on open descriptors. `None` if there's no limit.
    pub fn max_fds(&self) -> Option<u64> {
        number(&self.read("limits")?, "Max open files")
    }
}

/// Clock ticks as seconds.
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// A field of `stat` by its number in the manual. The second one is the program's name in
/// parentheses, which can contain anything.
fn field(stat: &str, number: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(number - 3)?.parse().ok()
}

/// The number after a name at the start of a line.
pub fn number(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// The same number, converted from kibibytes to bytes.
pub fn kibibytes(text: &str, name: &str) -> Option<u64> {
    Some(number(text, name)? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = "7 (a) 1 (b)) S 1 7 7 0 -1 4194560 99 0 0 0 123 45 6 7 20 0 1 0 100";
        assert_eq!((field(stat, 14), field(stat, 15), field(stat, 22)), (Some(123), Some(45), Some(100)));
        assert_eq!((field(stat, 23), field("", 14)), (None, None));
    }

    #[test]
    fn names_are_whole() {
        let status = "VmRSS:\t    12 kB\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(number(status, "voluntary_ctxt_switches:"), Some(3));
        assert_eq!(number(status, "nonvoluntary_ctxt_switches:"), Some(4));
        assert_eq!(
            number("Max open files            unlimited    unlimited    files\n", "Max open files"),
            None
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn we_see_ourselves() {
        let own = ProcessFiles::own();
        let file = fs::File::open("/proc/self/stat").unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(own.open_fds().is_some_and(|open| open > 3));
        assert!(own.started().is_some_and(|started| started > now - 86_400.0 && started < now + 1.0));
        assert!(own.cpu().is_some_and(|cpu| cpu.user + cpu.system >= 0.0));
        assert!(ProcessFiles::of(u32::MAX).cpu().is_none());
        drop(file);
    }
}
