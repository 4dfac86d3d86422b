//! `rowstream completions` and `rowstream man`: completions for shells, and manual pages. Both are
//! generated from the definition of the command line.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap_complete::Shell;
use clap_mangen::Man;

use super::{Failure, arguments};

/// Writes the completion script for a shell.
///
/// `rowstream completions bash > ~/.local/share/bash-completion/completions/rowstream`
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Writes the manual page, or with --dir one for each command.
///
/// `rowstream man | man -l -` shows it; `rowstream man --dir ~/.local/share/man/man1` installs all.
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// An existing folder for the pages of all commands: `rowstream.1`, `rowstream-serve.1`, …
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn complete(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut arguments::command(), "rowstream", &mut script);
    Ok(io::stdout().write_all(&script)?)
}

pub(super) fn man(args: &ManArgs) -> Result<(), Failure> {
    let command = arguments::command().disable_help_subcommand(true);
    let Some(folder) = &args.dir else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        return Ok(io::stdout().write_all(&page)?);
    };
    clap_mangen::generate_to(command, folder)
        .map_err(|error| Failure::Message(format!("cannot write to {}: {error}", folder.display())))
}
