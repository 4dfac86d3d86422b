//! `rowstream worker`: runs drivers in a separate process. The server starts it.

use rowstream_arrow::worker::child;

use super::Failure;

/// Runs the drivers of a source. The server starts it, and speaks with it over a socket.
#[derive(Debug, clap::Args)]
pub(super) struct WorkerArgs {
    /// The memory that it may use, in bytes.
    memory: u64,
}

pub(super) fn run(args: &WorkerArgs) -> Result<(), Failure> {
    let hint = "the server starts it for each source of a driver: `rowstream serve duckdb:FILE`";
    child::run(args.memory).map_err(|error| {
        Failure::Message(format!("only the server can run a worker ({error})\n    hint: {hint}"))
    })
}
