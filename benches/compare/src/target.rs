//! The servers in the comparison: Rowstream, and the rivals in `rivals/`, with their build and
//! start.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::database::{Data, Postgres};
use crate::process::{Launch, complaint, free_port, word, words};
use crate::{Result, workspace};

/// Eight for each of two cores. Most of them wait for the database.
const PHP_WORKERS: u64 = 16;

/// Another program for the same task. Its source documents its choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rival {
    GoPgx,
    Vertx,
    SpringMvcStreaming,
    SpringMvcBuffered,
    SpringWebflux,
    Php,
    Xitca,
}

impl Rival {
    pub(crate) const ALL: [Self; 7] = [
        Self::GoPgx,
        Self::Vertx,
        Self::SpringMvcStreaming,
        Self::SpringMvcBuffered,
        Self::SpringWebflux,
        Self::Php,
        Self::Xitca,
    ];

    /// The rivals that stream.
    pub(crate) const STREAMS: [Self; 6] = [
        Self::GoPgx,
        Self::Vertx,
        Self::SpringMvcStreaming,
        Self::SpringMvcBuffered,
        Self::SpringWebflux,
        Self::Php,
    ];

    /// The rivals with different lookups. Only one of the two with Spring MVC.
    pub(crate) const LOOKUPS: [Self; 6] =
        [Self::Xitca, Self::GoPgx, Self::Vertx, Self::SpringMvcBuffered, Self::SpringWebflux, Self::Php];

    /// Its folder's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GoPgx => "go-pgx",
            Self::Vertx => "vertx",
            Self::SpringMvcStreaming => "spring-mvc-streaming",
            Self::SpringMvcBuffered => "spring-mvc-buffered",
            Self::SpringWebflux => "spring-webflux",
            Self::Php => "php",
            Self::Xitca => "xitca",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rival| rival.name() == name)
    }

    /// Its platform, which decides how much warm-up it needs.
    pub(crate) fn platform(self) -> Platform {
        match self {
            Self::GoPgx => Platform::Go,
            Self::Php => Platform::Php,
            Self::Xitca => Platform::Rust,
            Self::Vertx | Self::SpringMvcStreaming | Self::SpringMvcBuffered | Self::SpringWebflux => {
                Platform::Java
            }
        }
    }

    /// The way to start it.
    pub(crate) fn launch(self, postgres: &Postgres, pool: u64) -> Result<Launch> {
        let port = free_port()?;
        let mut environment = postgres.environment();
        environment.push(("PORT".into(), port.to_string()));
        environment.push(("POOL".into(), pool.to_string()));
        let words = match self.platform() {
            Platform::Go => vec![word(workspace::scratch()?.join(self.name()))],
            Platform::Java => self.java()?,
            Platform::Rust => vec![word(rust_target()?.join("release").join(self.name()))],
            Platform::Php => {
                // Each process handles one request at a time. More of them would only cost memory
                // and a connection each.
                let workers = pool.min(PHP_WORKERS);
                environment.push(("PHP_CLI_SERVER_WORKERS".into(), workers.to_string()));
                let script = word(folder().join("php/index.php"));
                words(["php", "-d", "opcache.enable_cli=1", "-S", &format!("127.0.0.1:{port}"), &script])
            }
        };
        Ok(Launch { name: self.name().into(), words, environment, port })
    }

    /// The heap has the size of small containers.
    fn java(self) -> Result<Vec<String>> {
        let folder = java_target()?.join(self.name());
        let jar = word(folder.join(format!("{}.jar", self.name())));
        Ok(match self {
            Self::Vertx => {
                let class_path = format!("{jar}:{}/*", folder.join("lib").display());
                words(["java", "-Xmx256m", "-cp", &class_path, "rivals.Main"])
            }
            _ => words(["java", "-Xmx256m", "-jar", &jar]),
        })
    }
}

/// The platforms of the rivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Platform {
    Go,
    Java,
    Php,
    Rust,
}

impl Platform {
    /// The programs that it needs. Without them, its rivals are skipped.
    fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Go => &["go"],
            Self::Java => &["java", "mvn"],
            Self::Php => &["php"],
            Self::Rust => &["cargo"],
        }
    }

    fn build(self) -> Result<()> {
        if let Some(program) = self.needs().iter().find(|program| workspace::find(program).is_none()) {
            return Err(format!("{program} is not here"));
        }
        match self {
            Self::Go => build(
                Command::new("go")
                    .args(["build", "-buildvcs=false", "-o"])
                    .arg(workspace::scratch()?.join(Rival::GoPgx.name()))
                    .arg(".")
                    .current_dir(folder().join(Rival::GoPgx.name())),
            ),
            Self::Java => build(
                Command::new("mvn")
                    .args(["--batch-mode", "--quiet", "--no-transfer-progress", "package"])
                    .arg(format!("-Drivals.target={}", java_target()?.display()))
                    .current_dir(folder()),
            ),
            Self::Php => php_has_postgres(),
            Self::Rust => build(
                Command::new("cargo")
                    .args(["build", "--release", "--locked", "--quiet", "--target-dir"])
                    .arg(rust_target()?)
                    .current_dir(folder().join(Rival::Xitca.name())),
            ),
        }
    }
}

/// Builds a rival. If it fails, the report has a line with the reason, and the terminal all output.
fn build(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    eprintln!("{said}");
    let last = || said.lines().rfind(|line| !line.trim().is_empty()).map(String::from);
    let why = complaint(&said).or_else(last).unwrap_or_else(|| output.status.to_string());
    Err(format!("{program} cannot build it: {why}"))
}

fn php_has_postgres() -> Result<()> {
    let modules = workspace::output_of(&["php", "-m"]).unwrap_or_default();
    if modules.lines().any(|module| module == "pdo_pgsql") {
        return Ok(());
    }
    Err("PHP has no pdo_pgsql here".into())
}

/// The rivals' builds, made once and only if a row has rivals.
#[derive(Default)]
pub(crate) struct Builds(Vec<(Platform, Result<()>)>);

impl Builds {
    /// Builds a rival with its whole platform. The error is the reason why it can't run.
    pub(crate) fn build(&mut self, rival: Rival) -> Result<()> {
        let platform = rival.platform();
        if !self.0.iter().any(|(built, _)| *built == platform) {
            println!("building {}", rival.name());
            self.0.push((platform, platform.build()));
        }
        let built = self.0.iter().find(|(built, _)| *built == platform);
        built.map_or(Ok(()), |(_, result)| result.clone())
    }
}

fn folder() -> PathBuf {
    workspace::root().join("benches/compare/rivals")
}

fn java_target() -> Result<PathBuf> {
    Ok(workspace::scratch()?.join("java"))
}

fn rust_target() -> Result<PathBuf> {
    Ok(workspace::scratch()?.join(Rival::Xitca.name()))
}

/// Rowstream's access log. The rivals have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessLog {
    Off,
    /// Into a file.
    Text,
}

/// Rowstream with an example's own configuration, and its data at `url`.
pub(crate) fn example(data: Data, url: &str, log: AccessLog) -> Result<Launch> {
    example_in(&data.folder(), data, url, log)
}

/// The same with the configuration in another folder.
pub(crate) fn example_in(folder: &Path, data: Data, url: &str, log: AccessLog) -> Result<Launch> {
    let mut launch = rowstream(folder.join("rowstream.toml"), log)?;
    launch.environment.push((format!("{}_URL", data.name().to_uppercase()), url.into()));
    Ok(launch)
}

/// The same on all addresses of this machine, for clients at other places.
pub(crate) fn for_others(mut launch: Launch) -> Launch {
    let local = format!("127.0.0.1:{}", launch.port);
    for word in launch.words.iter_mut().filter(|word| **word == local) {
        *word = format!("0.0.0.0:{}", launch.port);
    }
    launch
}

/// Rowstream with a row's own configuration, if it needs another pool or other endpoints than the
/// examples.
pub(crate) fn configured(name: &str, endpoints: &str, source: &str) -> Result<Launch> {
    let file = workspace::scratch()?.join(name).join("rowstream.toml");
    workspace::write(&file, &format!("endpoints = \"{endpoints}\"\n\n{source}\n"))?;
    rowstream(file, AccessLog::Off)
}

fn rowstream(config: PathBuf, log: AccessLog) -> Result<Launch> {
    let port = free_port()?;
    let log = match log {
        AccessLog::Off => "off",
        AccessLog::Text => "text",
    };
    let (program, config) = (word(workspace::rowstream()?), word(config));
    let listen = format!("127.0.0.1:{port}");
    let words = words([&program, "serve", &config, "--listen", &listen, "--log-format", log]);
    Ok(Launch { name: "rowstream".into(), words, environment: Vec::new(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_fails_says_why() {
        let of = |script: &str| build(Command::new("sh").args(["-c", script]));
        assert_eq!(of("true"), Ok(()));
        let maven = "echo '[ERROR] Could not resolve vertx'; echo Help 1 >&2; exit 1";
        assert_eq!(of(maven), Err("sh cannot build it: [ERROR] Could not resolve vertx".into()));
        let go = "echo '# rival' >&2; echo 'main.go:5: undefined: x' >&2; exit 1";
        assert_eq!(of(go), Err("sh cannot build it: main.go:5: undefined: x".into()));
        assert_eq!(of("exit 7"), Err("sh cannot build it: exit status: 7".into()));
        let missing = build(&mut Command::new("no-such-program")).unwrap_err();
        assert!(missing.starts_with("cannot run no-such-program"), "{missing}");
    }
}
