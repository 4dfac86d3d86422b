//! `cargo xtask book`, and the step "book": the documentation in `docs/` as mdBook renders it.
//!
//! A pinned release of mdBook lies below `target/`. Where it cannot be had, the step is skipped;
//! that pages and links are there is looked for by tests (`tests/it/docs.rs`) in any case.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::Outcome;
use crate::test::workspace;
use crate::{Result, installed, needs, python};

const PROGRAM: &str = "bin/mdbook";
const NOT_HERE: &str = "mdBook cannot be installed here";

/// Builds the book, where mdBook can be installed.
pub(crate) fn check(target: &Path) -> Outcome {
    match program(target) {
        Ok(program) => Outcome::of_result(build(&program, target).map(drop)),
        Err(message) => {
            eprintln!("{message}");
            Outcome::Skipped(NOT_HERE)
        }
    }
}

/// Builds the book and says where it is.
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

/// The folder of the pages.
fn build(program: &Path, target: &Path) -> Result<PathBuf> {
    let book = target.join("book");
    let docs = workspace().join("docs");
    needs::run(Command::new(program).arg("build").arg("--dest-dir").arg(&book).arg(docs))?;
    Ok(book)
}
