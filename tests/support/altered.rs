//! Conversations with a server whose bytes are altered.

use std::cell::Cell;
use std::time::{Duration, UNIX_EPOCH};

use tokio::task::JoinSet;

/// The number of conversations, each altered differently.
const CONVERSATIONS: usize = 800;

/// Alters the responses of a good conversation at random. `meets` plays each to our client, and has
/// to end. A panic in one of our tasks would only be printed, so we count panics.
/// `ROWSTREAM_TEST_SEED` repeats a run.
pub async fn altered_conversations<F>(good: &[Vec<u8>], meets: impl Fn(Vec<Vec<u8>>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    thread_local! { static PANICS: Cell<u32> = const { Cell::new(0) }; }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.with(|panics| panics.set(panics.get() + 1));
        before(info);
    }));
    let seed = std::env::var("ROWSTREAM_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| UNIX_EPOCH.elapsed().expect("it is after 1970").as_nanos() as u64);
    let mut random = Random(seed | 1);
    let mut all = JoinSet::new();
    for _ in 0..CONVERSATIONS {
        let mut script = good.to_vec();
        for _ in 0..=random.below(2) {
            let index = random.below(script.len());
            random.alter(&mut script[index]);
        }
        if all.len() >= 256 {
            let ended: Result<(), _> = all.join_next().await.expect("there are conversations");
            ended.unwrap_or_else(|error| panic!("ROWSTREAM_TEST_SEED={seed}: {error}"));
        }
        all.spawn(meets(script));
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap_or_else(|error| panic!("ROWSTREAM_TEST_SEED={seed}: {error}"));
    }
    // Recycling a connection ends within two seconds.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert_eq!(PANICS.get(), 0, "ROWSTREAM_TEST_SEED={seed}");
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn alter(&mut self, answer: &mut Vec<u8>) {
        if answer.is_empty() {
            return;
        }
        let at = self.below(answer.len());
        match self.below(5) {
            0 => answer.truncate(at),
            1 => drop(answer.remove(at)),
            2 => answer.insert(at, self.below(256) as u8),
            3 => answer[at] ^= 1 << self.below(8),
            _ => answer[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
        }
    }
}
