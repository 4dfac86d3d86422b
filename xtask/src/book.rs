//! `cargo xtask book`, and the step "book": the documentation in `docs/`, rendered by mdBook.
//!
//! A pinned release of mdBook is installed below `target/`. If that fails, the step is skipped.
//! Tests (`tests/it/docs.rs`) check in any case that pages and links exist.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::Outcome;
use crate::test::workspace;
use crate::{Result, installed, needs, python};

const PROGRAM: &str = "bin/mdbook";
const NOT_HERE: &str = "mdBook cannot be installed here";

/// Builds the book if mdBook can be installed.
pub(crate) fn check(target: &Path) -> Outcome {
    match program(target) {
        Ok(program) => Outcome::of_result(build(&program, target).map(drop)),
        Err(message) => {
            eprintln!("{message}");
            Outcome::Skipped(NOT_HERE)
        }
    }
}

/// Builds the book and prints its path.
pub(crate) fn run(target: &Path) -> Result<()> {
    let book = build(&program(target)?, target)?;
    println!("{}", book.join("index.html").display());
    Ok(())
}

/// mdBook from PyPI.
fn program(target: &Path) -> Result<PathBuf> {
    let requirements = workspace().join("xtask/book/requirements.txt");
    let pins = std::slice::from_ref(&requirements);
    installed::prepare(target, ("test-book", PROGRAM), pins, |folder| python::install(folder, &requirements))
}

/// Returns the folder of the pages.
fn build(program: &Path, target: &Path) -> Result<PathBuf> {
    let book = target.join("book");
    let docs = workspace().join("docs");
    needs::run(Command::new(program).arg("build").arg("--dest-dir").arg(&book).arg(docs))?;
    Ok(book)
}
