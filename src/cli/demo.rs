//! `rowstream demo`.
use super::Failure;

/// Demo.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::Message("not yet".into()))
}
