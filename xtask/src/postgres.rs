//! A private PostgreSQL for one run of the tests: its own folder, port, socket, users and
//! certificates.
//!
//! It never touches a system instance. However a run ends:
//!
//! 1. The server doesn't outlive the run: the kernel interrupts it when its parent dies (`setpriv
//!    --pdeathsig`), so even `kill -9` leaves no orphan.
//! 2. A run holds the lock of its folder while it lives. A folder with a free lock belongs to a
//!    killed run. The next start ends its remaining processes and removes it.
//! 3. Runs share nothing, so several can run in parallel.
//!
//! ```text
//! BASE/lock            held while a run removes left-overs and creates its own folder
//! BASE/run-PID/lock    held while the run lives
//!              data/   the cluster      s/  the Unix socket      tls/  ca.crt, server.crt, server.key
//!              log     the server's output
//!              installation/   a copy of its programs, if its user can't access them
//! ```

use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::installed::lock;
use crate::{Result, needs};

/// The address of a Unix socket has 108 bytes including the final zero. PostgreSQL adds a name like
/// this one.
const SOCKET_PATH_MAX: usize = 107;
const SOCKET_NAME: &str = "s/.s.PGSQL.65535";

/// Enough for a machine that compiles on all cores at the same time.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Nothing here has to survive a crash. Time zone and messages are fixed, so that tests don't
/// depend on the machine.
const SETTINGS: &str = "
fsync = off
synchronous_commit = off
full_page_writes = off
max_connections = 300
max_prepared_transactions = 10
listen_addresses = 'localhost'
ssl = on
ssl_ca_file = '../tls/ca.crt'
ssl_cert_file = '../tls/server.crt'
ssl_key_file = '../tls/server.key'
timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'
";

/// The rules for logins. `tls_user` without TLS matches no line, which is a separate error. Tests
/// create users in the role `test_users`.
const HBA: &str = "
# TYPE     DATABASE  USER           ADDRESS    METHOD
local      all       postgres                  trust
host       all       postgres       samehost   trust
local      all       nobody_user               reject
host       all       nobody_user    all        reject
local      all       scram_user                scram-sha-256
host       all       scram_user     all        scram-sha-256
local      all       md5_user                  md5
host       all       md5_user       all        md5
local      all       password_user             password
host       all       password_user  all        password
hostssl    all       tls_user       all        scram-sha-256
host       all       +test_users    all        scram-sha-256
";

/// The passwords are those of `tests/support/db.rs`. `scram_user`'s contains characters that a URL
/// must escape, and a two-byte letter. Newer servers warn about MD5, which we test deliberately.
const ROLES: &str = "
set client_min_messages = 'error';
set password_encryption = 'scram-sha-256';
create role scram_user login password 'pä ss/w@rd:%';
create role password_user login password 'plain';
create role tls_user login password 'tls';
create role nobody_user login password 'nobody';
create role test_users;
set password_encryption = 'md5';
create role md5_user login password 'md5';
";

/// Our own configuration, because OpenSSL's defaults differ between systems. The name is only
/// `localhost`, so `verify-full` with 127.0.0.1 must fail.
const OPENSSL_CONFIG: &str = "
[req]
distinguished_name = name
prompt = no
[name]
CN = Rowstream tests
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost
";

/// A CA, then a key and a certificate that it signed.
const MAKE_CERTIFICATES: &str = "
set -e
new_key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
openssl req -config openssl.cnf -x509 -extensions ca -days 30 $new_key -keyout ca.key -out ca.crt
openssl req -config openssl.cnf -new -subj /CN=localhost $new_key -keyout server.key -out server.csr
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 \
    -extfile openssl.cnf -extensions server -out server.crt
chmod 600 server.key
";

/// A running server. Dropping it stops it and removes its folder.
pub(crate) struct Postgres {
    server: Child,
    port: u16,
    /// The folder of the system's client programs.
    clients: PathBuf,
    folder: Folder,
}

impl Postgres {
    /// The system's PostgreSQL.
    pub(crate) fn start(target: &Path) -> Result<Self> {
        Self::start_from(&needs::postgres_bin()?, target)
    }

    /// Starts the server in the folder `bin`. Creates a new cluster below `target`, or below a
    /// temporary folder if the server's user can't access `target`.
    pub(crate) fn start_from(bin: &Path, target: &Path) -> Result<Self> {
        let clients = needs::postgres_bin()?;
        let owner = Owner::current()?;
        let folder = Folder::new(target, "pg", &owner)?;
        let bin = reachable(&owner, bin, &folder.path)?;
        make_certificates(&owner, &folder.path.join("tls"))?;
        make_cluster(&owner, &bin, &folder.path)?;
        let port = free_port()?;
        let server = spawn(&owner, &bin, &folder.path, port)?;
        let mut postgres = Self { server, port, clients, folder };
        let mut probe = postgres.client("pg_isready");
        wait_until_ready("PostgreSQL", &mut postgres.server, &mut probe, &postgres.folder)?;
        postgres.psql(ROLES)?;
        Ok(postgres)
    }

    /// The variables that `tests/support` reads and documents.
    pub(crate) fn environment(&self) -> [(&'static str, String); 4] {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", self.port);
        let path = |path: PathBuf| path.display().to_string();
        [
            ("ROWSTREAM_TEST_PG", url),
            ("ROWSTREAM_TEST_PG_SOCKET", path(self.folder.path.join("s"))),
            ("ROWSTREAM_TEST_PG_CA", path(self.folder.path.join("tls/ca.crt"))),
            ("ROWSTREAM_TEST_PG_BIN", path(self.clients.clone())),
        ]
    }

    /// Waits until someone else stops it.
    pub(crate) fn wait(&mut self) -> Result<()> {
        let status = self.server.wait().map_err(|error| format!("lost PostgreSQL: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("PostgreSQL ended: {status}\n{}", self.log())) }
    }

    /// Runs SQL.
    pub(crate) fn psql(&self, sql: &str) -> Result<()> {
        let mut command = self.client("psql");
        command.args([
            "--no-psqlrc",
            "--quiet",
            "--set=ON_ERROR_STOP=1",
            "--username=postgres",
            "--dbname=postgres",
        ]);
        needs::run(command.arg("--command").arg(sql).env("PGCLIENTENCODING", "UTF8"))
    }

    /// One of PostgreSQL's client programs, connected to this server.
    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.clients.join(program));
        command.arg("--host").arg(self.folder.path.join("s")).arg("--port").arg(self.port.to_string());
        command
    }

    fn log(&self) -> String {
        log_in(&self.folder)
    }
}

/// Waits until `probe`, a command of a client, succeeds. `name` is for the error.
pub(crate) fn wait_until_ready(
    name: &str,
    server: &mut Child,
    probe: &mut Command,
    folder: &Folder,
) -> Result<()> {
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    let deadline = Instant::now() + START_TIMEOUT;
    while !probe.status().is_ok_and(|status| status.success()) {
        let ended = server.try_wait().ok().flatten();
        if ended.is_some() || Instant::now() > deadline {
            return Err(format!("{name} does not start:\n{}", log_in(folder)));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The log of the server in this folder.
fn log_in(folder: &Folder) -> String {
    fs::read_to_string(folder.path.join("log")).unwrap_or_default()
}

impl Drop for Postgres {
    /// A fast shutdown ends the sessions. It only hangs if a backend is stuck; then we kill the
    /// server.
    fn drop(&mut self) {
        signal(self.server.id(), "INT");
        if !ends_within(&mut self.server, STOP_TIMEOUT) {
            eprintln!("PostgreSQL does not stop, so it is killed");
            signal(self.server.id(), "QUIT");
            if !ends_within(&mut self.server, STOP_TIMEOUT) {
                let _ = self.server.kill();
                let _ = self.server.wait();
            }
        }
    }
}

/// Returns true if the server ends before the timeout.
pub(crate) fn ends_within(server: &mut Child, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    poll_until(deadline, || !matches!(server.try_wait(), Ok(None)))
}

/// The user that runs the server. PostgreSQL refuses root, so root uses the package's user.
pub(crate) struct Owner {
    /// `None`: the user who runs the tests.
    user: Option<&'static str>,
    /// The signal that ends the server when our process dies.
    end: &'static str,
}

impl Owner {
    /// The user who runs the tests, for a server that this signal ends.
    pub(crate) fn ourselves(end: &'static str) -> Self {
        Self { user: None, end }
    }

    fn current() -> Result<Self> {
        if !needs::is_root() {
            return Ok(Self::ourselves("INT"));
        }
        let known = Command::new("id").arg("postgres").stdout(Stdio::null()).stderr(Stdio::null()).status();
        match known {
            Ok(status) if status.success() => Ok(Self { user: Some("postgres"), end: "INT" }),
            _ => {
                Err("PostgreSQL refuses to run as root, and there is no user `postgres` to run it as".into())
            }
        }
    }

    /// A command that runs as the owner in `folder`. It ends when our process dies.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
        let mut command = Command::new("setpriv");
        if let Some(user) = self.user {
            command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--init-groups"]);
        }
        command.args(["--pdeathsig", self.end, "--"]).arg(program).current_dir(folder);
        command
    }

    fn own(&self, path: &Path) -> Result<()> {
        match self.user {
            // Without following links, because temporary folders are writable by everyone.
            Some(user) => needs::run(Command::new("chown").args(["--no-dereference", user]).arg(path)),
            None => Ok(()),
        }
    }

    /// Returns true if the owner passes this option of `test` for a path.
    fn can(&self, option: &str, path: &Path) -> bool {
        let mut command = self.command("test", Path::new("/"));
        command.arg(option).arg(path).status().is_ok_and(|status| status.success())
    }
}

/// The folder of one run, removed at its end.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Creates it below `target` or elsewhere, for the database with this short name.
    pub(crate) fn new(target: &Path, name: &str, owner: &Owner) -> Result<Self> {
        let mut errors = String::new();
        for base in bases(target, name) {
            match Self::below(&base, owner) {
                Ok(folder) => return Ok(folder),
                Err(error) => errors += &format!("\n  {}: {error}", base.display()),
            }
        }
        Err(format!("there is no folder for the database `{name}`:{errors}"))
    }

    fn below(base: &Path, owner: &Owner) -> Result<Self> {
        let path = base.join(format!("run-{}", std::process::id()));
        if path.join(SOCKET_NAME).as_os_str().len() > SOCKET_PATH_MAX {
            return Err("its name is too long for a Unix socket".into());
        }
        fs::create_dir_all(base).map_err(|error| error.to_string())?;
        let _alone = lock(&base.join("lock"))?;
        remove_leftovers(base);
        fs::create_dir(&path).map_err(|error| error.to_string())?;
        let folder = Self { _lock: lock(&path.join("lock"))?, path };
        owner.own(&folder.path)?;
        if !owner.can("-w", &folder.path) {
            return Err("the user of the database cannot write there".into());
        }
        for name in ["s", "tls"] {
            let inner = folder.path.join(name);
            fs::create_dir(&inner).map_err(|error| error.to_string())?;
            owner.own(&inner)?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// The possible parents of a folder, best first. Home folders, and so `target`, are often closed
/// to other users.
fn bases(target: &Path, name: &str) -> [PathBuf; 3] {
    let mut hasher = DefaultHasher::new();
    target.hash(&mut hasher);
    let elsewhere = format!("rowstream-test-{name}-{:016x}", hasher.finish());
    [
        target.join(format!("test-{name}")),
        Path::new("/var/tmp").join(&elsewhere),
        Path::new("/tmp").join(&elsewhere),
    ]
}

/// Removes the folders of killed runs, and ends their servers if the kernel hasn't done so yet.
fn remove_leftovers(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let folder = entry.path();
        if !entry.file_name().to_string_lossy().starts_with("run-") || is_locked(&folder) {
            continue;
        }
        stop_leftover(&folder);
        if let Err(error) = fs::remove_dir_all(&folder) {
            eprintln!("cannot remove {}: {error}", folder.display());
        }
    }
}

fn is_locked(folder: &Path) -> bool {
    let file = File::open(folder.join("lock"));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn stop_leftover(folder: &Path) {
    let written = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
    let Some(pid) = written.lines().next().and_then(|line| line.parse().ok()) else { return };
    if !runs_in(pid, folder) {
        return;
    }
    for name in ["QUIT", "KILL"] {
        signal(pid, name);
        if poll_until(Instant::now() + STOP_TIMEOUT, || !runs_in(pid, folder)) {
            return;
        }
    }
}

/// Returns true if the process exists and is a server of that folder. Process ids are reused.
fn runs_in(pid: u32, folder: &Path) -> bool {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&arguments).contains(&*folder.to_string_lossy())
}

fn poll_until(deadline: Instant, mut done: impl FnMut() -> bool) -> bool {
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// The standard library can only send SIGKILL, but every shell can send the others.
pub(crate) fn signal(pid: u32, name: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", r#"kill -s "$0" "$1" 2> /dev/null"#, name, &pid.to_string()]);
    let _ = command.status();
}

/// Returns a folder with the programs of `bin` that the owner can run: a copy in its own folder if
/// it can't access `bin`.
fn reachable(owner: &Owner, bin: &Path, folder: &Path) -> Result<PathBuf> {
    if owner.can("-x", &bin.join("postgres")) {
        return Ok(bin.to_path_buf());
    }
    let installation = bin.parent().ok_or("PostgreSQL's programs are in no installation")?;
    let copy = folder.join("installation");
    needs::run(Command::new("cp").arg("--archive").arg(installation).arg(&copy))?;
    Ok(copy.join("bin"))
}

pub(crate) fn make_certificates(owner: &Owner, folder: &Path) -> Result<()> {
    write(&folder.join("openssl.cnf"), OPENSSL_CONFIG)?;
    quietly(owner.command("sh", folder).args(["-c", MAKE_CERTIFICATES]))
}

fn make_cluster(owner: &Owner, bin: &Path, folder: &Path) -> Result<()> {
    let mut command = owner.command(bin.join("initdb"), folder);
    command.args(["--pgdata=data", "--username=postgres", "--auth=trust", "--no-sync"]);
    quietly(command.args(["--encoding=UTF8", "--locale=C"]))?;
    append(&folder.join("data/postgresql.conf"), SETTINGS)?;
    write(&folder.join("data/pg_hba.conf"), HBA)
}

/// Gets an unused port from the kernel. Another process could use it before the server does, but
/// the kernel assigns ports in sequence.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.map_err(|error| format!("there is no free port: {error}"))?.port())
}

fn spawn(owner: &Owner, bin: &Path, folder: &Path, port: u16) -> Result<Child> {
    let cannot = |error| format!("cannot start PostgreSQL: {error}");
    let log = File::create(folder.join("log")).map_err(cannot)?;
    let mut command = owner.command(bin.join("postgres"), folder);
    command
        .arg("-D")
        .arg(folder.join("data"))
        .arg("-k")
        .arg(folder.join("s"))
        .args(["-p", &port.to_string()]);
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(cannot)?).stderr(log);
    command.spawn().map_err(cannot)
}

/// Runs a command whose output matters only if it fails.
pub(crate) fn quietly(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} failed: {}\n{said}", output.status))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn append(path: &Path, text: &str) -> Result<()> {
    let file = fs::OpenOptions::new().append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_tells_the_living_from_the_dead() {
        let folder = std::env::temp_dir().join(format!("rowstream-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let held = lock(&folder.join("lock")).unwrap();
        assert!(is_locked(&folder));
        drop(held);
        // A program that another test starts inherits the open file until it execs.
        let freed = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !is_locked(&folder)
        });
        assert!(freed);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_process_of_another_folder_is_left_alone() {
        assert!(!runs_in(std::process::id(), Path::new("/no/such/folder")));
    }

    #[test]
    fn a_long_target_is_no_base() {
        let long = PathBuf::from("/tmp").join("x".repeat(100));
        let refused = Folder::below(&long, &Owner::ourselves("INT")).err().unwrap();
        assert!(refused.contains("too long"), "{refused}");
        assert!(!long.exists());
    }
}
