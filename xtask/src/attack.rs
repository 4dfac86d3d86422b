//! `cargo xtask attack`: runs third-party tools and crowds of clients against a server.
//! `tests/alone/attack.rs` judges their findings.
//!
//! slowhttptest and testssl.sh are Debian packages. h2spec is installed through the Go module proxy
//! and schemathesis from PyPI, both pinned and below `target/`.

use std::path::{Path, PathBuf};

use crate::postgres::Postgres;
use crate::test::{give, test_program, workspace};
use crate::{Result, installed, needs, python, target_folder};

/// h2spec's path in the Go module proxy.
const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec";
/// A file that contains only its version.
const H2SPEC_VERSION: &str = "tests/attackers/h2spec.txt";

/// Runs all attacks in their long form, and prints their findings.
pub(crate) fn run() -> Result<()> {
    needs::require()?;
    needs::require_attackers()?;
    let target = target_folder()?;
    let h2spec = h2spec(&target)?;
    let schemathesis = schemathesis(&target)?;
    let postgres = Postgres::start(&target)?;
    let mut command = test_program("alone")?;
    command.args(["--include-ignored", "--nocapture", "--test-threads=1", "attack::"]);
    give(&mut command, &postgres);
    command.env("ROWSTREAM_ATTACK", "1");
    command.env("ROWSTREAM_ATTACK_H2SPEC", h2spec).env("ROWSTREAM_ATTACK_SCHEMATHESIS", schemathesis);
    needs::run(&mut command)
}

fn schemathesis(target: &Path) -> Result<PathBuf> {
    let requirements = workspace().join("tests/attackers/requirements.txt");
    let pins = std::slice::from_ref(&requirements);
    installed::prepare(target, ("test-schemathesis", "bin/schemathesis"), pins, |folder| {
        python::install(folder, &requirements)
    })
}

fn h2spec(target: &Path) -> Result<PathBuf> {
    let pin = workspace().join(H2SPEC_VERSION);
    installed::prepare(target, ("test-h2spec", "h2spec"), std::slice::from_ref(&pin), |folder| {
        needs::go_install(&[H2SPEC], &pin, folder)
    })
}
