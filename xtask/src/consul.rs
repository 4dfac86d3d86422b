//! `cargo xtask consul`: runs `tests/it/consul.rs` with a real Consul agent.
//!
//! The agent is built once from the source in the Go module proxy, which needs some minutes.
//! Everyday tests use a fake that implements its documented API.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test::{test_program, workspace};
use crate::{Result, installed, needs, target_folder};

const MODULE: &str = "github.com/hashicorp/consul";
/// A file that contains only its version.
const VERSION: &str = "tests/registries/consul.txt";
/// Consul's own modules that are separate in its repository and in the proxy.
const PARTS: [&str; 5] = ["api", "envoyextensions", "proto-public", "sdk", "troubleshoot"];

/// Builds the agent, and runs the tests that need it.
pub(crate) fn run() -> Result<()> {
    needs::require()?;
    let agent = agent(&target_folder()?)?;
    let mut command = test_program("it")?;
    command.args(["--include-ignored", "consul::"]).env("ROWSTREAM_TEST_CONSUL", agent);
    needs::run(&mut command)
}

fn agent(target: &Path) -> Result<PathBuf> {
    let pin = workspace().join(VERSION);
    installed::prepare(target, ("test-consul", "consul"), std::slice::from_ref(&pin), |folder| {
        let version = std::fs::read_to_string(&pin).map_err(|error| format!("{}: {error}", pin.display()))?;
        let go = needs::go()?;
        let source = folder.join("source");
        let cannot = |error| format!("{}: {error}", source.display());
        if source.exists() {
            std::fs::remove_dir_all(&source).map_err(cannot)?;
        }
        std::fs::create_dir_all(&source).map_err(cannot)?;
        let module = format!("{MODULE}@{}", version.trim());
        needs::run(Command::new(&go).args(["mod", "download", &module]))?;
        let cache = Command::new(&go).args(["env", "GOMODCACHE"]).output();
        let cache = cache.map_err(|error| format!("go env GOMODCACHE: {error}"))?.stdout;
        let downloaded = Path::new(String::from_utf8_lossy(&cache).trim()).join(module);
        needs::run(Command::new("cp").args(["-r", "--no-preserve=mode", "-T"]).arg(downloaded).arg(&source))?;
        let dropped = PARTS.map(|part| format!("-dropreplace={MODULE}/{part}"));
        needs::run(Command::new(&go).args(["mod", "edit"]).args(dropped).current_dir(&source))?;
        let mut build = Command::new(&go);
        build.args(["build", "-mod=mod", "-o"]).arg(folder.join("consul")).arg(".").current_dir(&source);
        needs::run(build.env("CGO_ENABLED", "0"))?;
        std::fs::remove_dir_all(&source).map_err(cannot)
    })
}
