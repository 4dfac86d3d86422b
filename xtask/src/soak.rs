//! `cargo xtask soak`: the mixed soak of `tests/alone/soak.rs`, for longer than in a test run.

use crate::postgres::Postgres;
use crate::test::{give, test_program};
use crate::{Result, needs, target_folder};

/// The default duration.
const MINUTES: u64 = 20;
/// The variable that the soak reads.
const SECONDS: &str = "ROWSTREAM_SOAK_SECONDS";
const SEED: &str = "ROWSTREAM_SOAK_SEED";

/// Runs it for this many minutes, from the given seed or a random one.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (minutes, seed) = read(words)?;
    needs::require()?;
    let target = target_folder()?;
    let postgres = Postgres::start(&target)?;
    let mut command = test_program("alone")?;
    command.args(["--nocapture", "soak::"]);
    give(&mut command, &postgres);
    command.env(SECONDS, (minutes * 60).to_string());
    if let Some(seed) = seed {
        command.env(SEED, seed.to_string());
    }
    needs::run(&mut command)
}

/// `[MINUTES] [--seed N]`.
fn read(words: &[&str]) -> Result<(u64, Option<u64>)> {
    let number = |word: &str| word.parse().map_err(|_| format!("{word} is no number"));
    match words {
        [] => Ok((MINUTES, None)),
        [minutes] => Ok((number(minutes)?, None)),
        ["--seed", seed] => Ok((MINUTES, Some(number(seed)?))),
        [minutes, "--seed", seed] => Ok((number(minutes)?, Some(number(seed)?))),
        _ => Err("write `cargo xtask soak [MINUTES] [--seed N]`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(read(&[]), Ok((20, None)));
        assert_eq!(read(&["5"]), Ok((5, None)));
        assert_eq!(read(&["--seed", "7"]), Ok((20, Some(7))));
        assert_eq!(read(&["5", "--seed", "7"]), Ok((5, Some(7))));
        for wrong in [&["five"][..], &["--seed"], &["--seed", "x"], &["5", "6"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
