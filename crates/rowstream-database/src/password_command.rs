//! `password_command`: a program that prints the password of a source's logins. The password can be
//! a cloud token that is valid for minutes.
//!
//! A run serves every login that waits for it, even if it fails. Its password is kept until the
//! server refuses it, for ten minutes at most.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rowstream_core::Error;
use rowstream_core::diagnostic::is_invisible;
use rowstream_core::diagnostic::reader::Value;
use rowstream_core::settings::SourceSettings;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{Elsewhere, OwnSetting, SourceContext};

/// The time limit for a run.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time that a password is used. The tokens of RDS last for 15 minutes.
const KEPT: Duration = Duration::from_secs(600);
/// The longest output, in bytes.
const LONGEST: u64 = 64 << 10;
/// The number of characters of its standard error that an error shows.
const SHOWN: usize = 300;

/// The setting, for drivers whose logins have a password.
pub const SETTING: OwnSetting = OwnSetting {
    name: "password_command",
    read: |value, context, settings| settings.password_command = read(value, context).unwrap_or_default(),
    elsewhere: Elsewhere::Refused,
    hint: "leave it out; a driver of ADBC has options for secrets, which can be in files: `${file:PATH}`",
};

const HINT: &str = "run it as the server's user: the first line that it writes is the password";

/// A program and its arguments. A path of the program is relative to the configuration; a bare name
/// is searched in the PATH.
fn read(value: &Value<'_>, context: &SourceContext<'_>) -> Option<Vec<String>> {
    let mut command: Vec<_> = value.strings()?.into_iter().map(|(word, _)| word).collect();
    match command.first_mut() {
        Some(program) if program.contains('/') => {
            *program = context.folder.join(&program).to_str()?.to_owned();
        }
        Some(program) if !program.is_empty() => {}
        _ => value.error_with(
            "`password_command` names no program",
            "write a program and its arguments: `password_command = [\"/usr/bin/pass\", \"shop\"]`",
        ),
    }
    Some(command)
}

/// The command of a source, and the result of its last run.
pub struct PasswordCommand {
    /// The program and its arguments.
    arguments: Arc<[String]>,
    /// Locked during a run.
    last: Arc<Mutex<Option<CommandRun>>>,
}

struct CommandRun {
    ended: Instant,
    /// The password, or the reason of the failure.
    result: Result<String, String>,
}

impl PasswordCommand {
    /// The command of a source, if it has one.
    pub fn of(settings: &SourceSettings) -> Option<Arc<Self>> {
        let has_one = !settings.password_command.is_empty();
        has_one.then(|| Arc::new(Self::new(&settings.password_command)))
    }

    fn new(arguments: &[String]) -> Self {
        Self { arguments: arguments.into(), last: Arc::default() }
    }

    /// The password of a login. If the server has refused one, runs the command again, unless
    /// another login has done so.
    ///
    /// # Errors
    /// The command fails, takes too long or writes too much.
    pub async fn password(&self, refused: Option<&str>) -> Result<String, Error> {
        let begun = Instant::now();
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if let Some(run) = last.as_ref().filter(|run| run.serves(begun, refused)) {
            return run.password();
        }
        let arguments = Arc::clone(&self.arguments);
        // Spawned, so that a login that gives up doesn't end the run. The next login uses its
        // password.
        let running = tokio::spawn(async move {
            let result = run(&arguments).await;
            last.insert(CommandRun { ended: Instant::now(), result }).password()
        });
        running.await.unwrap_or_else(|_| Err(failed("was ended")))
    }
}

impl CommandRun {
    /// Returns true if this run serves a login that began to wait at `begun`.
    fn serves(&self, begun: Instant, refused: Option<&str>) -> bool {
        let is_kept = || self.ended.elapsed() < KEPT;
        let is_other = |password: &String| refused != Some(password);
        self.ended >= begun || self.result.as_ref().is_ok_and(is_other) && is_kept()
    }

    fn password(&self) -> Result<String, Error> {
        self.result.clone().map_err(|why| failed(&why))
    }
}

fn failed(why: &str) -> Error {
    Error::source_unavailable(format!("`password_command` {why}")).hint(HINT)
}

/// Runs the command. Kills it and its children if it doesn't end properly.
async fn run(arguments: &[String]) -> Result<String, String> {
    let (program, arguments) = arguments.split_first().ok_or("names no program")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("can't be started: {error}"))?;
    let ended = match timeout(PATIENCE, end(&mut child)).await {
        Ok(Ok(ended)) => Ok(ended),
        Ok(Err(error)) => Err(format!("can't be read: {error}")),
        Err(_) => Err(format!("hasn't ended within {PATIENCE:?}")),
    };
    let (status, output, said) = ended.inspect_err(|_| kill(&child))?;
    if !status.success() {
        return Err(format!("failed with {status}: {}", shown(&said)));
    }
    first_line(output)
}

/// Waits for the end of the output, then of the process.
async fn end(child: &mut Child) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = stdout.zip(stderr).ok_or_else(|| io::Error::other("it has no output"))?;
    let (output, said) = tokio::try_join!(whole(stdout), beginning(stderr))?;
    Ok((child.wait().await?, output, said))
}

/// Reads all of its output.
async fn whole(stdout: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    stdout.take(LONGEST + 1).read_to_end(&mut output).await?;
    if output.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it writes more than {LONGEST} bytes")));
    }
    Ok(output)
}

/// Reads the beginning of its output. The rest is read and discarded, so that the command doesn't
/// block.
async fn beginning(mut stderr: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    (&mut stderr).take(4 * SHOWN as u64).read_to_end(&mut said).await?;
    tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
    Ok(said)
}

fn first_line(output: Vec<u8>) -> Result<String, String> {
    let mut output = String::from_utf8(output).map_err(|_| "writes a password that isn't UTF-8")?;
    let line = output.split('\n').next().unwrap_or_default();
    output.truncate(line.strip_suffix('\r').unwrap_or(line).len());
    if output.is_empty() { Err("writes an empty first line".to_owned()) } else { Ok(output) }
}

/// The standard error of a command as one short line.
fn shown(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let plain = |c: char| if is_invisible(c) { ' ' } else { c };
    said.trim().chars().map(plain).take(SHOWN).collect()
}

/// Kills a command that wasn't waited for, with its children.
fn kill(child: &Child) {
    let Some(group) = child.id().and_then(|id| libc::pid_t::try_from(id).ok()) else { return };
    #[expect(unsafe_code, reason = "the standard library kills no groups of processes")]
    // SAFETY: the call only gets two numbers. The group belongs to the child, and its number isn't
    // reused before we have waited for the child.
    unsafe {
        libc::kill(-group, libc::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    fn command(script: &str) -> PasswordCommand {
        PasswordCommand::new(&["/bin/sh", "-c", script].map(str::to_owned))
    }

    async fn said(command: &PasswordCommand, refused: Option<&str>) -> Result<String, String> {
        command.password(refused).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_first_line_is_the_password() {
        for (script, expected) in [
            ("printf 'a b\\r\\nc\\n'", Ok("a b")),
            ("printf secret", Ok("secret")),
            ("cat; echo no-input", Ok("no-input")),
            ("head -c 300000 /dev/zero >&2; echo quiet", Ok("quiet")),
            ("echo", Err("writes an empty first line")),
            ("printf '\\377\\n'", Err("isn't UTF-8")),
            ("echo secret; printf 'no\\ttoken\\n' >&2; exit 3", Err("failed with exit status: 3: no token")),
            ("kill -9 $$", Err("failed with signal: 9")),
            ("yes secret", Err("it writes more than 65536 bytes")),
        ] {
            let said = said(&command(script), None).await;
            match expected {
                Ok(password) => assert_eq!(said.as_deref(), Ok(password), "{script}"),
                Err(why) => {
                    let error = said.expect_err(script);
                    assert!(error.contains(why) && !error.contains("secret"), "{script}: {error}");
                }
            }
        }
        let missing = PasswordCommand::new(&["/no/such/program".to_owned()]);
        assert!(said(&missing, None).await.expect_err("no program").contains("can't be started"));
    }

    /// Each run writes a line to a file.
    #[tokio::test]
    async fn logins_share_runs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("runs").display().to_string();
        let counting = |end: &str| command(&format!("echo >> {file}; wc -l < {file}; {end}"));
        let good = counting("sleep 0.1");
        let (one, other) = tokio::join!(said(&good, None), said(&good, None));
        assert_eq!((one.as_deref(), other.as_deref()), (Ok("1"), Ok("1")));
        assert_eq!(said(&good, None).await.as_deref(), Ok("1"));
        // The server refuses it to two logins, and later to a third one.
        let (one, other) = tokio::join!(said(&good, Some("1")), said(&good, Some("1")));
        assert_eq!((one.as_deref(), other.as_deref()), (Ok("2"), Ok("2")));
        assert_eq!(said(&good, Some("1")).await.as_deref(), Ok("2"));
        // A login that gives up doesn't end the run.
        let mut impatient = Box::pin(good.password(Some("2")));
        let mut context = Context::from_waker(Waker::noop());
        assert!(impatient.as_mut().poll(&mut context).is_pending());
        drop(impatient);
        assert_eq!(said(&good, None).await.as_deref(), Ok("3"));
        let bad = counting("sleep 0.1; exit 1");
        let (one, other) = tokio::join!(said(&bad, None), said(&bad, None));
        assert_eq!(one, other);
        assert_eq!(std::fs::read_to_string(&file).unwrap().len(), 4);
        one.expect_err("it fails");
    }

    /// A command that hangs is killed, with its children.
    #[tokio::test]
    async fn a_command_that_hangs_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let hanging = command(&format!("mkfifo {0}; (exec 9<>{0}; sleep 1000) & wait", fifo.display()));
        // A FIFO without a reader can't be opened for writing.
        let is_open = || {
            let mut options = std::fs::OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::custom_flags(options.write(true), libc::O_NONBLOCK);
            options.open(&fifo).is_ok()
        };
        let skip = async {
            while !is_open() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            // Now it hangs, so skip its time.
            tokio::time::pause();
        };
        let (said, ()) = tokio::join!(said(&hanging, None), skip);
        assert!(said.expect_err("it hangs").contains("hasn't ended within 10s"));
        while is_open() {
            std::thread::yield_now();
        }
    }
}
