//! The commands, one file each.
pub mod demo;

use std::process::ExitCode;

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    ExitCode::from(2)
}
