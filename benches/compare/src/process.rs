//! Servers as processes: started, awaited, watched, and always ended.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use crate::{Result, workspace};

/// A Java server on a busy machine needs most of it.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The way to start a server.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) name: String,
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) port: u16,
}

/// A running server, including its driver processes. Dropping it ends all of them.
pub(crate) struct Server {
    child: Child,
    port: u16,
    /// The file with its standard output and error.
    log: PathBuf,
}

impl Server {
    /// Starts it and waits until its port is open.
    ///
    /// It leads its own process group, and the kernel kills it if this program dies.
    pub(crate) fn start(launch: &Launch) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let log = workspace::scratch()?.join(format!("{}.log", launch.name));
        let cannot = |error| format!("cannot start {}: {error}", launch.name);
        let output = File::create(&log).map_err(cannot)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(&launch.words).process_group(0);
        without_postgres_settings(&mut command).envs(launch.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(cannot)?).stderr(output);
        let mut server = Self { child: command.spawn().map_err(cannot)?, port: launch.port, log };
        server.wait_until_open().map_err(|error| {
            let said = fs::read_to_string(&server.log).unwrap_or_default();
            let end: Vec<&str> = said.lines().rev().take(5).collect();
            format!("{} {error}: {}", launch.name, end.into_iter().rev().collect::<Vec<_>>().join(" | "))
        })?;
        Ok(server)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn wait_until_open(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("ended ({status})"));
            }
            if Instant::now() > deadline {
                return Err("does not open its port".into());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns true if the server still runs. One that ran out of memory may not.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The number of bytes that it has written so far.
    pub(crate) fn said(&self) -> u64 {
        fs::metadata(&self.log).map_or(0, |log| log.len())
    }

    /// Extends a client's error with the server's exit status and its first complaint after byte
    /// `from`. If a server runs out of memory, its client only sees a truncated response.
    pub(crate) fn explained(&mut self, error: String, from: u64) -> String {
        let ended = self.child.try_wait().ok().flatten().map(|status| format!("the server ended ({status})"));
        let said = self.complaint(from).map(|line| format!("the server said: {line}"));
        [Some(error), ended, said].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// Its first complaint after byte `from`.
    pub(crate) fn complaint(&self, from: u64) -> Option<String> {
        let log = fs::read(&self.log).unwrap_or_default();
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        complaint(&String::from_utf8_lossy(log.get(from..).unwrap_or_default()))
    }

    /// User and system time of all its processes so far, in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        self.processes().into_iter().filter_map(cpu_of).sum()
    }

    /// Resets the peak to the current resident memory.
    ///
    /// # Errors
    ///
    /// The kernel refuses. Then the peak would be an earlier run's.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        for pid in self.processes() {
            fs::write(format!("/proc/{pid}/clear_refs"), "5")
                .map_err(|error| format!("cannot reset the peak memory of a server: {error}"))?;
        }
        Ok(())
    }

    /// The largest resident memory since the reset, in bytes. For several processes it's the sum of
    /// their peaks, which may have happened at different times.
    pub(crate) fn peak(&self) -> f64 {
        let kibibytes: u64 = self.processes().into_iter().filter_map(peak_of).sum();
        kibibytes as f64 * 1024.0
    }

    fn processes(&self) -> Vec<u32> {
        let server = self.child.id();
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(|pid| parent_and_group_of(*pid).is_some_and(|ids| ids.contains(&server))).collect()
    }

    fn ends_within(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while self.is_running() || !self.processes().is_empty() {
            if Instant::now() > deadline {
                return false;
            }
            sleep(Duration::from_millis(10));
        }
        true
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.child.id().cast_signed());
        // Sent twice: the second signal makes Rowstream stop without waiting for streams of a
        // failed row.
        for signal in [Signal::SIGTERM, Signal::SIGTERM, Signal::SIGKILL] {
            let _ = killpg(group, signal);
            if self.ends_within(STOP_TIMEOUT) {
                return;
            }
        }
        eprintln!("process group {group} does not end");
    }
}

/// The first line of a program's output that mentions an error, shortened for a report.
pub(crate) fn complaint(said: &str) -> Option<String> {
    const WORDS: [&str; 5] = ["error", "exception", "fatal", "panic", "cannot"];
    const LENGTH: usize = 200;
    let names_an_error = |line: &&str| {
        let line = line.to_lowercase();
        WORDS.iter().any(|word| line.contains(word))
    };
    Some(said.lines().find(names_an_error)?.trim().chars().take(LENGTH).collect())
}

/// A developer's own `PGHOST` or `PGSSLMODE` must not affect the measurement.
pub(crate) fn without_postgres_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command
}

/// Gets an unused port from the kernel.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.map_err(|error| format!("there is no free port: {error}"))?.port())
}

fn cpu_of(pid: u32) -> Option<f64> {
    let time = clock_getcpuclockid(Pid::from_raw(pid.cast_signed())).ok()?.now().ok()?;
    Some(Duration::from(time).as_secs_f64())
}

fn peak_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// The parent and the process group. Rowstream's driver processes have their own groups. The name,
/// in brackets before both, can contain anything.
fn parent_and_group_of(pid: u32) -> Option<[u32; 2]> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(1);
    Some([fields.next()?.parse().ok()?, fields.next()?.parse().ok()?])
}

/// The words of a command line, from paths or texts.
pub(crate) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).to_vec()
}

/// A path as a word.
pub(crate) fn word(path: PathBuf) -> String {
    path.into_os_string().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_watched_with_its_workers_and_ended() {
        let port = free_port().unwrap();
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let busy = "(i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 60) & sleep 60";
        let launch = Launch {
            name: "test-server".into(),
            words: words(["sh", "-c", busy]),
            environment: vec![],
            port,
        };
        let server = Server::start(&launch).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while server.processes().len() < 3 || server.cpu() == 0.0 {
            assert!(Instant::now() < deadline, "{:?}", server.processes());
            sleep(Duration::from_millis(10));
        }
        let pids = server.processes();
        server.reset_peak().unwrap();
        assert!(server.peak() > 0.0);
        drop(server);
        let group = |pid: &u32| parent_and_group_of(*pid).map(|[_, group]| group);
        assert!(pids.iter().all(|pid| group(pid) != Some(pids[0])), "{pids:?}");
    }

    #[test]
    fn complaints_are_found() {
        let said = "GET /authors\n  java.lang.OutOfMemoryError: Java heap space\nFATAL: later\n";
        assert_eq!(complaint(said).as_deref(), Some("java.lang.OutOfMemoryError: Java heap space"));
        assert_eq!(
            complaint("[ERROR] Failed to execute goal\n").as_deref(),
            Some("[ERROR] Failed to execute goal")
        );
        assert_eq!(complaint("listening\n"), None);
        assert_eq!(complaint(&format!("error {}", "é".repeat(1000))).unwrap().chars().count(), 200);
    }

    #[test]
    fn a_server_that_ends_is_told() {
        let launch = Launch {
            name: "test-failure".into(),
            words: words(["sh", "-c", "echo no such table; exit 3"]),
            environment: vec![],
            port: free_port().unwrap(),
        };
        let error = Server::start(&launch).err().unwrap();
        assert!(error.contains("no such table") && error.contains("exit status: 3"), "{error}");
    }
}
