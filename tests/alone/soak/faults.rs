//! Faults of the databases, and reloads, one after another at random moments.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::setting::{Reloaded, Setting};
use crate::support::{Cut, Faults, wait_until};

/// Makes a seed that no client has.
const OTHER: u64 = 0x5eed;
/// Terminates a random backend of this database.
const TERMINATE: &str = "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() order by random() limit 1) as one";

/// The faults, and the number of each.
#[derive(Debug, Default)]
pub(crate) struct Done(BTreeMap<&'static str, usize>);

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.0 {
            writeln!(f, "{count:>8}  {what}")?;
        }
        Ok(())
    }
}

/// Causes faults until the end, and then removes them.
pub(crate) async fn befall(setting: &Setting, seed: u64, end: Instant) -> Done {
    let (mut random, mut done) = (Rng::with_seed(seed ^ OTHER), Done::default());
    let database = setting.db.client().await;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(random.u64(50..600))).await;
        let what = match random.usize(..12) {
            0..=3 => {
                database.query_one(TERMINATE, &[]).await.expect("the database can be asked");
                "a backend terminated"
            }
            4..=5 => {
                setting.proxy.cut_now(if random.bool() { Cut::Close } else { Cut::Reset });
                "connections cut"
            }
            6 => {
                setting.proxy.cut_now(Cut::Stall);
                "connections stalled"
            }
            7..=8 => {
                let how = [Cut::Close, Cut::Reset, Cut::Stall][random.usize(..3)];
                let cut = Some((random.u64(1..2_000_000), how));
                setting.proxy.set_to_client(Faults { cut, ..Faults::default() });
                "connections to come cut somewhere"
            }
            9 => {
                setting.proxy.set_to_client(Faults::default());
                "connections to come left alone"
            }
            10 => {
                let statement_cache = if random.bool() { 1000 } else { 999 };
                let heartbeat = random.u64(10..20);
                reload(setting, &Reloaded { heartbeat, statement_cache, ..Reloaded::default() }).await;
                "reloads"
            }
            _ => {
                bad_reload(setting).await;
                "reloads of faults"
            }
        };
        *done.0.entry(what).or_default() += 1;
    }
    setting.proxy.set_to_client(Faults::default());
    setting.proxy.cut_now(Cut::Reset);
    done
}

/// Makes the server reload this configuration.
pub(crate) async fn reload(setting: &Setting, reloaded: &Reloaded) {
    setting.write_config(reloaded);
    hang_up(setting, "reloaded: 12 endpoints, 3 sources").await;
}

/// Makes the server reload, and waits until it has reported the result again.
async fn hang_up(setting: &Setting, said: &str) {
    let before = setting.server.count_stderr(said);
    setting.server.hang_up();
    wait_until(said, async || setting.server.count_stderr(said) != before).await;
}

/// An invalid file changes nothing.
async fn bad_reload(setting: &Setting) {
    let file = setting.server.folder().join("endpoints/direct/bad.sql");
    std::fs::write(&file, "select :x").expect("a file");
    hang_up(setting, "not reloaded: the old configuration stays in use").await;
    std::fs::remove_file(file).expect("it is there");
}
