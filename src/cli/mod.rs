//! The command line: one file per command, and the parts that several commands share
//! ([`arguments`], [`locate`], [`output`], [`param`]).
//!
//! Exit status: 0 for success, 1 for a failure, 2 for wrong usage, and 128 plus the number of a
//! signal. Results are written to stdout, everything else to stderr. The results of a server are
//! the lines of its access log.

/// `println!` for commands. The one in std panics if the reader has left (`rowstream check |
/// head`). This one ends the command successfully.
macro_rules! println {
    ($($argument:tt)*) => { $crate::cli::output::line(format_args!($($argument)*)) };
}

/// `eprintln!` for commands. The one in std panics if standard error is closed. This one continues.
macro_rules! eprintln {
    ($($argument:tt)*) => { $crate::cli::output::say(format_args!($($argument)*)) };
}

mod arguments;
mod bench;
mod check;
mod csv;
mod demo;
mod doctor;
mod get;
mod guard;
mod init;
mod listen;
mod listing;
mod locate;
mod manual;
mod output;
mod param;
mod progress;
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
use rowstream_core::Error;
use rowstream_core::diagnostic::Diagnostics;
use rowstream_core::log;

/// Turns SQL into streaming HTTP endpoints.
#[derive(Debug, Parser)]
#[command(name = "rowstream", version = env!("ROWSTREAM_VERSION"), max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Demo(demo::DemoArgs),
    Init(init::InitArgs),
    Query(query::QueryArgs),
    Get(get::Args),
    Check(check::CheckArgs),
    Ready(ready::ReadyArgs),
    Doctor(doctor::DoctorArgs),
    // Boxed, because it has three times as many options as any other.
    Bench(Box<bench::BenchArgs>),
    Token(token::TokenArgs),
    Schema(schema::SchemaArgs),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
    #[cfg(feature = "worker")]
    #[command(hide = true)]
    Worker(worker::WorkerArgs),
}

impl Command {
    /// The folder of `.env`: beside the configuration, or the current one for a command that
    /// connects without a configuration. `None`: the command reads no variables.
    fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::Serve(args) => Some(args.folder()),
            Self::Check(args) => Some(args.folder()),
            Self::Demo(args) => Some(args.folder()),
            Self::Query(_) | Self::Init(_) => Some(PathBuf::new()),
            Self::Get(_)
            | Self::Bench(_)
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

/// The failure of a command, as it's printed.
enum Failure {
    /// Errors in files, each with its position.
    Diagnostics(Diagnostics),
    /// Statements that their databases refuse, each with its position.
    Refused(String),
    /// An error with its cause.
    Error(Error),
    /// Errors that were already printed.
    Reported,
    /// Any other message.
    Message(String),
    /// A signal ended a query or a download before its last row.
    Signalled(query::EndSignal, &'static str),
    /// The reader of stdout has left, so there's no message.
    Silent,
}

impl Failure {
    fn status(&self) -> ExitCode {
        match self {
            Self::Signalled(signal, _) => signal.status(),
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
            Self::Error(error) => OperatorError(error).fmt(f),
            Self::Message(message) => write!(f, "error: {message}"),
            Self::Signalled(signal, what) => {
                write!(f, "error: {} ended the {what}: its rows are incomplete", signal.name())
            }
            Self::Reported | Self::Silent => Ok(()),
        }
    }
}

/// An error as operators see it. They may see its cause, unlike users of the server.
struct OperatorError<'a>(&'a Error);

impl fmt::Display for OperatorError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        let message = error.to_string();
        write!(f, "error: {message}")?;
        let cause = std::error::Error::source(error).map(ToString::to_string);
        // The words of a database may be in both.
        if let Some(cause) = cause.filter(|cause| !message.contains(cause)) {
            write!(f, "\n    cause: {cause}")?;
        }
        match error.hint_text() {
            Some(hint) => write!(f, "\n    hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Runs the command in the arguments.
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
        Command::Get(args) => get::run(&args),
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
        // A reader that leaves early has all it wants: `| head` isn't a failure.
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

/// Runs a future on this thread. The server starts its runtime threads itself.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}
