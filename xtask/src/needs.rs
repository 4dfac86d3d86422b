//! The programs that the tests use, their paths, and their installation on a fresh machine.
//!
//! SQLite is compiled from source, but a C compiler isn't in the table: Rust itself needs one to
//! link, so this program wouldn't run without it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::Result;

struct Tool {
    program: &'static str,
    /// Its Debian package.
    package: &'static str,
    why: &'static str,
}

/// A program that the tests newly need is a line here.
const TOOLS: &[Tool] = &[
    Tool { program: "postgres", package: "postgresql", why: "the tests run against a real PostgreSQL" },
    Tool { program: "mariadbd", package: "mariadb-server", why: "and against a real MariaDB" },
    Tool { program: "openssl", package: "openssl", why: "certificates for them, so that TLS is tested" },
    Tool {
        program: "setpriv",
        package: "util-linux",
        why: "runs the first unprivileged, and ends both when the tests end",
    },
    Tool { program: "pgbouncer", package: "pgbouncer", why: "a pooler before the first" },
    Tool { program: "nginx", package: "nginx-light", why: "what a proxy makes of a cut response" },
    Tool { program: "haproxy", package: "haproxy", why: "what another proxy makes of it" },
    Tool { program: "curl", package: "curl", why: "what the commonest client makes of a response" },
    Tool { program: "node", package: "nodejs", why: "what a client in JavaScript makes of a response" },
    Tool { program: "python3", package: "python3", why: "what a client in Python makes of it" },
    Tool { program: "valgrind", package: "valgrind", why: "counts the instructions of the hot paths" },
    Tool { program: "prometheus", package: "prometheus", why: "what scrapes the metrics, and checks them" },
    Tool { program: "jq", package: "jq", why: "a second opinion on our JSON" },
    Tool { program: "sqlite3", package: "sqlite3", why: "the documents write with it" },
    Tool { program: "chromium", package: "chromium", why: "the console and the pages, in a real browser" },
    Tool { program: "isql", package: "unixodbc", why: "the driver manager of ODBC" },
    Tool { program: "psqlodbcw.so", package: "odbc-postgresql", why: "a driver of ODBC in a worker" },
    Tool { program: "libmaodbc.so", package: "odbc-mariadb", why: "another one" },
    Tool { program: "libsqlite3odbc.so", package: "libsqliteodbc", why: "and one that promises no lengths" },
    Tool { program: "libtdsodbc.so", package: "tdsodbc", why: "that of SQL Server is at least loaded" },
    Tool { program: "ip", package: "iproute2", why: "networks in which a client or a database is far" },
    Tool { program: "chromedriver", package: "chromium-driver", why: "drives that browser" },
    Tool { program: "php", package: "php-cli", why: "an example of a client" },
    Tool { program: "curl.so", package: "php-curl", why: "its library for HTTP" },
];

/// Additional programs for `cargo xtask attack`.
const ATTACKERS: &[Tool] = &[
    Tool { program: "slowhttptest", package: "slowhttptest", why: "clients that are slow in four ways" },
    Tool { program: "testssl", package: "testssl.sh", why: "what is known to be wrong with TLS" },
];

/// Additional programs for the comparisons. If one is missing, its rows are left out, and the
/// report says so.
const COMPARED: &[Tool] = &[
    Tool { program: "postgres", package: "postgresql", why: "the database" },
    Tool { program: "sqlite3", package: "sqlite3", why: "a floor" },
    Tool { program: "ss", package: "iproute2", why: "the memory of sockets" },
    Tool { program: "java", package: "default-jdk-headless", why: "the rivals in Java" },
    Tool { program: "mvn", package: "maven", why: "builds them" },
    Tool { program: "go", package: "golang-go", why: "the rival in Go; Debian 12's own is too old for it" },
    Tool { program: "php", package: "php-cli", why: "the rival in PHP" },
];

/// Debian packages without a program.
const COMPARED_LIBRARIES: &[&str] = &["php-pgsql"];

/// Installs the missing programs of the comparisons.
pub(crate) fn install_compared() -> Result<()> {
    if !is_root() || find("apt-get").is_none() {
        return Err("--install needs root and apt-get".into());
    }
    let missing: Vec<&Tool> = COMPARED.iter().filter(|tool| find(tool.program).is_none()).collect();
    install(&[&packages(&missing), COMPARED_LIBRARIES].concat())
}

/// Go, for programs from its module proxy. Debian 12's version is too old.
pub(crate) fn go() -> Result<PathBuf> {
    let elsewhere = || Some(PathBuf::from("/usr/local/go/bin/go")).filter(|go| go.is_file());
    Ok(find("go").or_else(elsewhere).ok_or("it needs Go: see https://go.dev/dl")?)
}

/// Builds programs from the Go module proxy into a folder. The file `pin` contains their version.
pub(crate) fn go_install(programs: &[&str], pin: &Path, folder: &Path) -> Result<()> {
    let version = fs::read_to_string(pin).map_err(|error| format!("{}: {error}", pin.display()))?;
    let modules = programs.iter().map(|program| format!("{program}@{}", version.trim()));
    run(Command::new(go()?).arg("install").args(modules).env("GOBIN", folder))
}

/// Requires every program of the table. As root on Debian, installs missing ones; otherwise returns
/// an error that lists them.
pub(crate) fn require() -> Result<()> {
    require_all(TOOLS)
}

/// Requires the programs of `cargo xtask attack`.
pub(crate) fn require_attackers() -> Result<()> {
    require_all(ATTACKERS)
}

fn require_all(tools: &'static [Tool]) -> Result<()> {
    let missing = || tools.iter().filter(|tool| find(tool.program).is_none()).collect::<Vec<_>>();
    if !missing().is_empty() && is_root() && find("apt-get").is_some() {
        install(&packages(&missing()))?;
    }
    let missing = missing();
    if missing.is_empty() { Ok(()) } else { Err(what_to_install(&missing)) }
}

fn packages(tools: &[&Tool]) -> Vec<&'static str> {
    tools.iter().map(|tool| tool.package).collect()
}

fn what_to_install(missing: &[&Tool]) -> String {
    let reasons: String =
        missing.iter().map(|tool| format!("  {:<12} {}\n", tool.program, tool.why)).collect();
    let packages = packages(missing).join(" ");
    format!(
        "The tests need programs that are not here:\n{reasons}Install them with\n  sudo apt-get install {packages}"
    )
}

/// Installs Debian packages.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    eprintln!("installing {}", packages.join(" "));
    apt_get(&["update"])?;
    apt_get(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    // The tests start their own instances. With run level 1, Debian's packages don't start their
    // services.
    command.args(["--quiet"]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
    // apt-get's standard output would be mixed into the variables that `cargo xtask pg` prints.
    run(command.stdout(std::io::stderr()))
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

/// The path of a program, if it's installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    search_path().into_iter().map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The tests' `PATH`. Only root's `PATH` contains the folders of servers, so we append them.
pub(crate) fn path() -> std::ffi::OsString {
    let folders = inherited_path().chain(system_folders());
    env::join_paths(folders).unwrap_or_default()
}

fn search_path() -> Vec<PathBuf> {
    let folders = postgres_folders().into_iter().chain(inherited_path()).chain(system_folders());
    folders.chain(odbc_folders()).chain(php_folders()).collect()
}

/// Debian's folders of PHP's extensions, one per version of their interface.
fn php_folders() -> impl Iterator<Item = PathBuf> {
    fs::read_dir("/usr/lib/php").into_iter().flatten().flatten().map(|folder| folder.path())
}

/// Debian's folders of ODBC drivers, one per architecture.
fn odbc_folders() -> impl Iterator<Item = PathBuf> {
    let of_processors = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    of_processors.map(|folder| folder.path().join("odbc")).filter(|folder| folder.is_dir())
}

fn inherited_path() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

fn system_folders() -> impl Iterator<Item = PathBuf> {
    ["/usr/sbin", "/sbin"].into_iter().map(PathBuf::from)
}

/// Debian's folders of PostgreSQL's own programs, newest version first. They aren't in `PATH`.
fn postgres_folders() -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

/// The folder of PostgreSQL's programs. A link in `PATH` is resolved, because its neighbours may
/// not be PostgreSQL's.
pub(crate) fn postgres_bin() -> Result<PathBuf> {
    let server = find("postgres").and_then(|path| path.canonicalize().ok());
    server
        .as_deref()
        .and_then(Path::parent)
        .map(Path::to_path_buf)
        .ok_or_else(|| "there is no PostgreSQL".into())
}

/// Returns true if this process runs as root. Its folder in `/proc` belongs to the effective user.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_program_is_named_with_its_package() {
        let told = what_to_install(&TOOLS.iter().collect::<Vec<_>>());
        for tool in TOOLS {
            assert!(told.contains(tool.program) && told.contains(tool.package), "{told}");
        }
    }

    #[test]
    fn programs_are_found() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program"), None);
    }
}
