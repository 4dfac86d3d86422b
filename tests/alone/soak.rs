//! A mixed soak: clients, databases and operators do good and bad things, all at once and at
//! random. Every response is complete and correct, or visibly failed for a valid reason. Once
//! everything is quiet, all resources are free again.
//!
//! `cargo xtask soak` runs it for long, a normal test run for seconds. Random choices depend on a
//! seed, which is printed first. The same seed repeats the actions, but not their timing.
//!
//! | file | contents |
//! |---|---|
//! | `soak/setting.rs` | the databases, the server, and the expected responses |
//! | `soak/clients.rs` | the clients' actions, and the results that are allowed |
//! | `soak/faults.rs` | faults of the databases, and reloads |
//! | `soak/rest.rs` | the resources that must be free again |

mod clients;
mod faults;
mod rest;
mod setting;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::peak_memory_bytes;
use tokio::task::JoinSet;

use self::clients::{Told, client};
use self::rest::Use;
use self::setting::Setting;

/// The variables for the duration in seconds and the seed. `cargo xtask soak` sets both.
const SECONDS: &str = "ROWSTREAM_SOAK_SECONDS";
const SEED: &str = "ROWSTREAM_SOAK_SEED";
/// The default duration.
const SHORT: u64 = 20;
/// The number of concurrent clients, without those of bursts.
const CLIENTS: u64 = 16;

fn given(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

// More threads than most cores. Comparing responses blocks a thread, and the server ends clients
// that don't read in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn what_comes_is_whole_or_fails_visibly_and_all_is_free_again() {
    let time = Duration::from_secs(given(SECONDS).unwrap_or(SHORT));
    let seed = given(SEED).unwrap_or_else(|| fastrand::u64(..));
    println!("soak of {time:?} with seed {seed}");
    let mut setting = Setting::start().await;
    // First-time work allocates memory that stays, so we measure the base line after it.
    setting.learn().await;
    let before = Use::quiet(&setting).await;
    println!("before: {before}");

    let setting = Arc::new(setting);
    let end = Instant::now() + time;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client(Arc::clone(&setting), seed.wrapping_add(number), end));
    }
    let done = faults::befall(&setting, seed, end).await;
    let mut told = Told::default();
    for client in clients.join_all().await {
        told.add(client);
    }
    println!("{told}{done}");
    println!("peak memory {:.1} MB", peak_memory_bytes(setting.server.pid()) as f64 / 1e6);
    told.assert_all_was_tried(time);
    println!("after:  {}", Use::until_no_more_than(&before, &setting).await);
    rest::all_can_be_taken_again(&setting).await;
}
