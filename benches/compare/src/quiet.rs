//! Checks that no other program uses the machine during a measurement.
//!
//! We compare the total CPU time (`/proc/stat`; proc(5)) with that of the measurement's processes:
//! the tree below the program that began it, including ended processes. Interrupts belong to no
//! process, so we leave them out. Time that a host takes from a virtual machine ("steal") counts as
//! other programs'.

use std::collections::HashMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{Result, Size};

/// The variable with the id of the tree's root process: `cargo xtask compare`, which also starts
/// the databases.
const ROOT: &str = "ROWSTREAM_COMPARE_ROOT";
/// The CPU share that other programs may use: a tenth of a core.
const SHARE: f64 = 0.1;
/// Additional seconds that they may use, because the kernel counts in hundredths.
const GRAIN: f64 = 0.03;
/// The kernel's unit in /proc, in seconds.
const TICK: f64 = 0.01;
/// The time limit for the machine to become quiet, and the time that it has to be quiet.
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(300);

/// A watch over the machine. `None` if the numbers mean nothing.
pub(crate) struct Watch(Option<Begun>);

struct Begun {
    at: Instant,
    /// The CPU time of other programs at the start, in seconds.
    others: f64,
}

impl Watch {
    /// Waits until the machine is quiet, and begins.
    ///
    /// # Errors
    ///
    /// The machine stays busy.
    pub(crate) fn begin(size: Size) -> Result<Self> {
        if size == Size::Quick {
            return Ok(Self(None));
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let glance = Begun::now()?;
            sleep(GLANCE);
            match glance.end() {
                Ok(()) => return Begun::now().map(|begun| Self(Some(begun))),
                Err(message) if Instant::now() > deadline => return Err(message),
                Err(_) => {}
            }
        }
    }

    /// Ends the watch.
    ///
    /// # Errors
    ///
    /// Other programs used too much CPU time, so the measurement is worthless.
    pub(crate) fn end(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), Begun::end)
    }
}

impl Begun {
    fn now() -> Result<Self> {
        Ok(Self { at: Instant::now(), others: others()? })
    }

    fn end(&self) -> Result<()> {
        let (taken, wall) = (others()? - self.others, self.at.elapsed().as_secs_f64());
        if taken <= SHARE * wall + GRAIN {
            return Ok(());
        }
        Err(format!("other processes took {:.2} of a core", taken / wall))
    }
}

/// The CPU seconds of other programs.
fn others() -> Result<f64> {
    let root = std::env::var(ROOT).ok().and_then(|pid| pid.parse().ok());
    let processes = processes();
    let ours = taken_below(root.unwrap_or_else(std::process::id), &processes);
    Ok(worked(&read("/proc/stat")?).ok_or("/proc/stat is not as proc(5) says")? - ours)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
}

/// Seconds of user, nice, system and steal, from the first line of `/proc/stat`.
fn worked(stat: &str) -> Option<f64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<f64> = fields.map_while(|field| field.parse().ok()).collect();
    Some([0, 1, 2, 7].map(|field| ticks.get(field).copied()).into_iter().sum::<Option<f64>>()? * TICK)
}

/// A process: its parent, and the CPU seconds of it and its ended children.
type Process = (u32, f64);

fn processes() -> HashMap<u32, Process> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| Some((pid, process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

/// Parses `/proc/PID/stat`. The name, in brackets before the fields that we need, can contain
/// anything.
fn process(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<f64>().ok()).sum::<Option<f64>>()?;
    Some((fields.get(1)?.parse().ok()?, ticks * TICK))
}

fn taken_below(root: u32, processes: &HashMap<u32, Process>) -> f64 {
    let is_below = |pid: u32| {
        let parent = |pid: &u32| processes.get(pid).map(|(parent, _)| *parent);
        std::iter::successors(Some(pid), parent).take(processes.len() + 1).any(|pid| pid == root)
    };
    processes.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, (_, taken))| taken).sum()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        assert_eq!(worked("cpu  100 20 3 9999 50 6 7 8 0 0\ncpu0 1 2"), Some(1.31));
        assert_eq!(worked("intr 1 2 3"), None);
        let stat = "77 (a) (b) S 12 77 77 0 -1 4194560 1 2 3 4 100 20 3 7 20 0 1 0 5 6 7";
        assert_eq!(process(stat), Some((12, 1.3)));
    }

    #[test]
    fn a_tree_is_what_is_below_its_root() {
        let processes = [(1, (0, 1.0)), (2, (1, 2.0)), (3, (2, 4.0)), (4, (1, 8.0)), (5, (99, 16.0))];
        let processes = HashMap::from(processes);
        assert_eq!(taken_below(2, &processes), 6.0);
        assert_eq!(taken_below(1, &processes), 15.0);
        assert_eq!(taken_below(7, &processes), 0.0);
    }

    /// A child's CPU time counts as ours both while it runs and after it has ended.
    #[test]
    fn a_child_that_ends_is_ours() {
        let ours = || taken_below(std::process::id(), &processes());
        let before = ours();
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", busy]).status().unwrap().success());
        assert!(ours() - before >= 0.05, "{}", ours() - before);
    }
}
