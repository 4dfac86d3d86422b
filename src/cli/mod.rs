//! The commands, one file each.
use std::process::ExitCode;

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    ExitCode::from(2)
}
