//! A mixed soak: what clients, databases and operators do, good and bad, all at once and at random.
//! Every answer is whole and right, or visibly failed with a reason that there was; and once it is
//! quiet, all that was taken is free again.
//!
//! `cargo xtask soak` runs it for long; a plain test run for seconds. What is drawn comes from a
//! seed, which is printed first: what is done is the same again, though not its timing.
//!
//! | file | what it holds |
//! |---|---|
//! | `soak/setting.rs` | the databases, the server, and what whole answers are |
//! | `soak/clients.rs` | what clients do, and what they may get |
//! | `soak/faults.rs` | what befalls the databases, and reloads |
//! | `soak/rest.rs` | what has to be free again |

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

/// How long it takes, in seconds, and what is drawn from; `cargo xtask soak` sets both.
const SECONDS: &str = "ROWSTREAM_SOAK_SECONDS";
const SEED: &str = "ROWSTREAM_SOAK_SEED";
/// How long it takes unless it is said.
const SHORT: u64 = 20;
/// How many clients there are at a time, but for those that come in a burst.
const CLIENTS: u64 = 16;

fn given(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

// More threads than most cores: what is compared holds one of them up, and clients that do not read
// in time are ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn what_comes_is_whole_or_fails_visibly_and_all_is_free_again() {
    let time = Duration::from_secs(given(SECONDS).unwrap_or(SHORT));
    let seed = given(SEED).unwrap_or_else(|| fastrand::u64(..));
    println!("soak of {time:?} with seed {seed}");
    let mut setting = Setting::start().await;
    // What is done once costs what is kept for the next time: the base line is after it.
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
