//! The command line: one file per command, and beside them what several of them need
//! ([`arguments`], [`locate`], [`output`], [`param`]).
//!
//! Exit status: 0 well, 1 it failed, 2 wrong usage, 128 and its number for a signal. Results go to stdout, talk goes to stderr; a
//! server's results are the lines of its access log.

/// `println!` for commands: std's panics when the reader has gone (`rowstream check | head`), and
/// this ends the command well.
macro_rules! println {
    ($($argument:tt)*) => { $crate::cli::output::line(format_args!($($argument)*)) };
}

/// `eprintln!` for commands: std's panics when nobody reads standard error any more, and this goes
/// on.
macro_rules! eprintln {
    ($($argument:tt)*) => { $crate::cli::output::say(format_args!($($argument)*)) };
}

mod arguments;
mod bench;
mod check;
mod csv;
mod demo;
mod doctor;
mod guard;
mod init;
mod listen;
mod listing;
mod locate;
mod manual;
mod output;
mod param;
mod query;
mod ready;
mod schema;
mod serve;
mod tables;
mod token;
#[cfg(feature = "worker")]
mod worker;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::diagnostic::Diagnostics;
use crate::{Error, log};

/// Turns SQL into streaming HTTP endpoints.
#[derive(Debug, Parser)]
#[command(name = "rowstream", version = env!("ROWSTREAM_VERSION"), max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Demo(demo::Args),
    Init(init::Args),
    Query(query::Args),
    Check(check::Args),
    Ready(ready::Args),
    Doctor(doctor::Args),
    // Boxed, as it has three times the options of any other.
    Bench(Box<bench::Args>),
    Token(token::Args),
    Schema(schema::Args),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
    #[cfg(feature = "worker")]
    #[command(hide = true)]
    Worker(worker::Args),
}

impl Command {
    /// Where `.env` stands: beside the configuration, and in the current folder for a command that
    /// connects without one. `None`: it reads no variables.
    fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::Serve(args) => Some(args.folder()),
            Self::Check(args) => Some(args.folder()),
            Self::Demo(args) => Some(args.folder()),
            Self::Query(_) | Self::Init(_) => Some(PathBuf::new()),
            Self::Bench(_)
            | Self::Ready(_)
            | Self::Doctor(_)
            | Self::Schema(_)
            | Self::Token(_)
            | Self::Completions(_)
            | Self::Man(_) => None,
            #[cfg(feature = "worker")]
            Self::Worker(_) => None,
        }
    }
}

/// Why a command failed, as it is printed.
enum Failure {
    /// Diagnostics of files, each with its place.
    Diagnostics(Diagnostics),
    /// Statements that their databases refuse, each with its place.
    Refused(String),
    /// One error, with its cause.
    Error(Error),
    /// What was found, which has been printed.
    Reported,
    /// Anything else, in words.
    Message(String),
    /// A signal ended a query before its last row.
    Signalled(query::EndSignal),
    /// The reader of stdout has gone; there is nobody to tell.
    Silent,
}

impl Failure {
    fn status(&self) -> ExitCode {
        match self {
            Self::Signalled(signal) => signal.status(),
            _ => ExitCode::FAILURE,
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(errors: Diagnostics) -> Self {
        Self::Diagnostics(errors)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if output::is_left(&error) { Self::Silent } else { Self::Message(error.to_string()) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Diagnostics(errors) => write!(f, "{errors}"),
            Self::Refused(refusals) => f.write_str(refusals),
            Self::Error(error) => Told(error).fmt(f),
            Self::Message(message) => write!(f, "error: {message}"),
            Self::Signalled(signal) => {
                write!(f, "error: {} ended the query: its rows are not whole", signal.name())
            }
            Self::Reported | Self::Silent => Ok(()),
        }
    }
}

/// An error as operators read it, who may see the cause, which users of the server may not.
struct Told<'a>(&'a Error);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        write!(f, "error: {error}")?;
        if let Some(cause) = std::error::Error::source(error) {
            write!(f, "\n    cause: {cause}")?;
        }
        match error.hint_text() {
            Some(hint) => write!(f, "\n    hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let cli = match arguments::parse() {
        Ok(cli) => cli,
        Err(error) => arguments::refuse(&error),
    };
    arguments::warn_of_passwords();
    let result = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Query(args) => query::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Ready(args) => ready::run(&args),
        Command::Doctor(args) => doctor::run(args),
        Command::Bench(args) => bench::run(*args),
        Command::Token(args) => token::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => manual::complete(&args),
        Command::Man(args) => manual::man(&args),
        #[cfg(feature = "worker")]
        Command::Worker(args) => worker::run(&args),
    };
    let status = match result {
        // Whoever stops reading has what they wanted: `| head` is no failure.
        Ok(()) | Err(Failure::Silent) => ExitCode::SUCCESS,
        Err(Failure::Reported) => ExitCode::FAILURE,
        Err(failure) => {
            log::error!("{failure}");
            failure.status()
        }
    };
    log::flush();
    status
}

/// Runs a future on this thread. The server starts its workers by itself.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}
