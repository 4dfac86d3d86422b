//! The example `delegate` under more load than its pool can serve. The README's calculation is
//! correct: admitted requests get their whole response, the others are refused at once, and
//! Prometheus shows it.

use std::time::{Duration, Instant};

use crate::delegate;
use crate::support::upstream::{Speaks, Upstream, reply};
use crate::support::{Client, Ended, Launch, Prometheus, Reply, Server, get};
use crate::worked;
use http::Request;
use tokio::task::JoinSet;

/// The duration of one response without other load: 50 calls of 100 ms, 25 at a time.
const ALONE: Duration = Duration::from_millis(200);
/// The factor for a machine that compiles at the same time.
const BUSY: u32 = 5;

/// An upstream for the example.
async fn slow_upstream() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    tokio::spawn(delegate::serve(listener));
    url
}

/// The result of a request.
struct Asked {
    took: Duration,
    reply: Reply,
}

impl Asked {
    async fn of(url: String) -> Self {
        let begun = Instant::now();
        let reply = get(&url).await;
        Self { took: begun.elapsed(), reply }
    }

    /// Returns true if it got all of its rows, and false if it was refused. Nothing else is
    /// allowed.
    fn is_answered(&self, rows: usize) -> bool {
        let Reply { status, ended, .. } = &self.reply;
        assert_eq!(ended, &Ended::Complete, "{status}, {} bytes", self.reply.body.len());
        if *status == 200 {
            assert_eq!(worked::rows(&self.reply.body), rows);
            return true;
        }
        assert_eq!((status.as_u16(), &self.reply.json()["code"]), (503, &"pool_full".into()));
        assert_eq!(self.reply.header("retry-after"), Some("1"));
        false
    }
}

/// Sends this many requests, one every `period`, regardless of their duration.
async fn at_a_rate(url: &str, count: u32, period: Duration) -> Vec<Asked> {
    let begun = tokio::time::Instant::now();
    let mut requests = JoinSet::new();
    for number in 0..count {
        tokio::time::sleep_until(begun + number * period).await;
        requests.spawn(Asked::of(url.to_owned()));
    }
    requests.join_all().await
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort();
    times[times.len() / 2]
}

/// Under overload, the pool refused every call that found its queue full, even in the middle of a
/// response. Half of the responses were aborted.
#[tokio::test]
async fn a_response_of_many_calls_is_whole_or_refused_before_it_begins() {
    let upstream = Upstream::start(Speaks::Http1, |_, _| async {
        tokio::time::sleep(Duration::from_millis(2)).await;
        reply(200, "application/json", "1")
    })
    .await;
    let config = format!(
        "[source.up]\nurl = 'http://{}'\npool = {{ max = 3, waiting = 4, acquire_timeout = '60s' }}\n",
        upstream.address()
    );
    for on_error in ["fail", "row"] {
        let calls = format!("[upstream]\nrequest = 'GET /?n={{n}}'\nrepeat = 40\non_error = '{on_error}'\n");
        let server = Server::start(&[("rowstream.toml", &config), ("endpoints/calls.toml", &calls)]).await;
        let mut clients = JoinSet::new();
        for _ in 0..8 {
            let url = server.url("/calls.ndjson");
            clients.spawn(async move {
                let mut answered = 0;
                for _ in 0..20 {
                    let asked = Asked::of(url.clone()).await;
                    answered += u32::from(asked.is_answered(40));
                    assert!(!asked.reply.text().contains("is busy") || asked.reply.status == 503);
                }
                answered
            });
        }
        let answered: u32 = clients.join_all().await.into_iter().sum();
        assert!((1..8 * 20).contains(&answered), "{answered} were answered: all or none is no overload");
        assert!(upstream.most() <= 3);
        // The pool has leaked nothing, so it serves one request after another again.
        for _ in 0..10 {
            assert!(Asked::of(server.url("/calls.ndjson")).await.is_answered(40));
        }
    }
}

/// A response that times out in the queue hasn't begun, so it isn't a list of failed calls.
#[tokio::test]
async fn waiting_in_vain_is_no_row() {
    let upstream = Upstream::start(Speaks::Http1, |seen, _| async move {
        seen.gate.acquire().await.expect("it is never closed").forget();
        reply(200, "application/json", "1")
    })
    .await;
    let config = format!(
        "[source.up]\nurl = 'http://{}'\npool = {{ max = 2, waiting = 2, acquire_timeout = '300ms' }}\n",
        upstream.address()
    );
    let calls = "[upstream]\nrequest = 'GET /?n={n}'\nrepeat = 4\non_error = 'row'\n";
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/calls.toml", calls)]).await;
    let url = server.url("/calls.ndjson");
    let first = tokio::spawn(Asked::of(url.clone()));
    upstream.until_running(2).await;
    let second = get(&url).await;
    assert_eq!((second.status.as_u16(), &second.json()["code"]), (504, &"pool_timeout".into()));
    assert_eq!(second.header("retry-after"), Some("1"));
    // The first one waits longer than that, and gets all of its rows.
    upstream.seen.gate.add_permits(4);
    assert!(first.await.expect("no panic").is_answered(4));
}

/// The README's calculation, with the example's own files.
#[tokio::test]
async fn overload_is_refused_at_once_and_prometheus_tells_of_it() {
    let folder = worked::copy("delegate");
    std::fs::copy(folder.path().join("pool25.toml"), folder.path().join("rowstream.toml")).expect("a file");
    let launch = Launch::folder(folder.path()).argument("--log-format=off");
    let server = launch.variable("DELEGATE_URL", &slow_upstream().await).start().await;
    let prometheus = Prometheus::start(&server).await;
    let url = server.url("/delegate/subcalldemo.ndjson");
    prometheus.wait_for("up == 1").await;

    // Three a second, of a capacity of five, and no more in total than the queue can hold. All are
    // answered.
    let calm = at_a_rate(&url, 7, Duration::from_millis(333)).await;
    assert!(calm.iter().all(|asked| asked.is_answered(50)));
    let alone = median(calm.iter().map(|asked| asked.took));
    assert!((ALONE..ALONE * BUSY).contains(&alone), "{alone:?}");
    assert_eq!(prometheus.query("sum(rowstream_pool_refused_total{source=\"http1\"})").await, [0.0]);

    // Fifteen a second. Admitted requests take as long as a full queue, and the rest is refused.
    let story = async {
        let waiting = "rowstream_pool_waiting{source=\"http1\"}";
        prometheus.wait_for(&format!("{waiting} > 50")).await;
        prometheus.wait_for(&format!("{waiting} > 100")).await;
        prometheus.wait_for("rowstream_pool_refused_total{source=\"http1\"} > 0").await;
        prometheus.wait_for("rowstream_pool_used{source=\"http1\"} == rowstream_pool_max").await
    };
    let (asked, used) = tokio::join!(at_a_rate(&url, 75, Duration::from_millis(66)), story);
    assert_eq!(used, 25.0);
    let (answered, refused): (Vec<_>, Vec<_>) = asked.iter().partition(|asked| asked.is_answered(50));
    // 150 calls can wait, as many as six responses have at a time. The last admitted response may
    // have one call less.
    let full = ALONE * (1 + 6 + 1);
    let (slow, quick) =
        (median(answered.iter().map(|asked| asked.took)), median(refused.iter().map(|asked| asked.took)));
    assert!((ALONE * 2..full * BUSY).contains(&slow), "{slow:?} of {full:?}");
    assert!(quick < slow / 2, "refused after {quick:?}, answered after {slow:?}");

    let of_http1 = "{source=\"http1\"}";
    let most = format!("max_over_time(rowstream_pool_waiting{of_http1}[1m])");
    let most = prometheus.wait_for(&most).await;
    assert!((100.0..=175.0).contains(&most), "{most} have waited");
    // The mean wait for a connection is longer under load than before.
    let mean = "increase(rowstream_pool_acquire_seconds_sum{source=\"http1\"}[1m]) / \
        increase(rowstream_pool_acquire_seconds_count{source=\"http1\"}[1m])";
    prometheus.wait_for(&format!("{mean} > 0.15")).await;
    let refusals = format!("rowstream_pool_refused_total{of_http1} == {}", refused.len());
    prometheus.wait_for(&refusals).await;
    let broken =
        "sum(rowstream_requests_total{endpoint=\"/delegate/subcalldemo\",outcome=~\"failed|aborted\"})";
    assert_eq!(prometheus.query(broken).await.iter().sum::<f64>(), 0.0, "there was no half answer");
    assert_eq!(prometheus.wait_for(&format!("rowstream_pool_used{of_http1} == 0")).await, 0.0);
    assert_eq!(prometheus.query("min_over_time(up[1m])").await, [1.0], "it could always be scraped");
}

/// A request that waits for a slow upstream needs little memory. Here the pool has a connection for
/// each request.
#[tokio::test]
async fn a_thousand_slow_calls_take_little_each() {
    const CALLS: usize = 1000;
    /// The memory of one request: two connections with hyper's buffers, and the futures between
    /// them.
    const EACH: u64 = 45_000;
    let config = format!(
        "max_streams = {CALLS}\n[source.up]\nurl = \"{}\"\nprotocol = 'http1'\npool = {{ max = {CALLS}, waiting = 0 }}\n",
        slow_upstream().await
    );
    let demo = "[upstream]\nrequest = 'GET /demo?processDuration=PT1S'\n";
    let files = [("rowstream.toml", config.as_str()), ("endpoints/demo.toml", demo)];
    let server = Launch::files(&files).release().argument("--log-format=off").start().await;
    assert_eq!(get(&server.url("/demo")).await.status, 200);
    let before = crate::support::peak_memory_bytes(server.pid());
    let mut requests = JoinSet::new();
    for _ in 0..CALLS {
        let request = Request::get(server.url("/demo")).body(String::new()).expect("a request");
        requests.spawn(async move { Client::HTTP1.send(request).await });
    }
    for reply in requests.join_all().await {
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete));
    }
    let grown = crate::support::peak_memory_bytes(server.pid()) - before;
    assert!(grown < EACH * CALLS as u64, "{grown} bytes for {CALLS} requests");
}
