//! HTTP sources with several hosts: the choice of a host, ejection, and hosts that stop without
//! losing requests. Also HTTP/2 connections that go away.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use crate::support::upstream::{Asked, Certificate, Payload, Seen, Speaks, Upstream, reply, stream};
use crate::support::{Client, Ended, Hop, Launch, Reply, Server, get, rowstream, wait_until};
use bytes::Bytes;
use futures_util::stream as pieces;
use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Passes `/pass/PATH` to `/PATH`.
const PASS: &str = "[params]\npath = \"text\"\n[upstream]\nrequest = \"GET /{path}\"\n";

/// Makes `count` calls of `/PATH?id=n`. A failed call becomes a row.
const CALLS: &str = "[params]\npath = \"text\"\ncount = \"integer\"\n\
    [upstream]\nrequest = \"GET /{path}?id={n}\"\nrepeat = \"count\"\non_error = \"row\"\n";

/// An address that no other test uses, even while nothing listens there, because the host restarts
/// on the same port.
fn address() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let process = std::process::id();
    let next = NEXT.fetch_add(1, Ordering::SeqCst);
    // A server on a free port of 127.0.0.1 doesn't listen here.
    format!("127.{}.{}.{next}", 1 + (process >> 8) % 250, process % 250)
}

/// Every upstream answers with its own address. `/wait` waits for a permit, and a request for
/// another address gets 421.
async fn named(seen: Arc<Seen>, asked: Asked, own: Arc<LazyAddress>) -> Response<Payload> {
    if asked.authority != own.get() {
        return reply(421, "text/plain", format!("{} is not {}", asked.authority, own.get()));
    }
    if asked.target.starts_with("/wait") {
        seen.gate.acquire().await.expect("it is never closed").forget();
    }
    if asked.target.starts_with("/busy") {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    reply(200, "text/plain", own.get())
}

/// The address of an upstream, which is set later.
#[derive(Default)]
struct LazyAddress(Mutex<String>);

impl LazyAddress {
    fn get(&self) -> String {
        self.0.lock().expect("no panic").clone()
    }
}

async fn start_at(address: &str, speaks: &Speaks) -> Upstream {
    let own = Arc::new(LazyAddress::default());
    let known = Arc::clone(&own);
    let upstream = Upstream::start_on(address, speaks.clone(), move |seen, asked| {
        named(seen, asked, Arc::clone(&known))
    })
    .await;
    *own.0.lock().expect("no panic") = upstream.address().to_string();
    upstream
}

async fn start(speaks: &Speaks) -> Upstream {
    start_at(&format!("{}:0", address()), speaks).await
}

async fn two(speaks: &Speaks) -> [Upstream; 2] {
    [start(speaks).await, start(speaks).await]
}

/// The protocols without TLS, with their settings.
fn spoken() -> [(Speaks, &'static str); 2] {
    [(Speaks::Http1, "protocol = 'http1'"), (Speaks::H2c(100), "protocol = 'http2'")]
}

fn urls(addresses: &[SocketAddr]) -> String {
    let urls: Vec<_> = addresses.iter().map(|address| format!("'http://{address}'")).collect();
    format!("[{}]", urls.join(", "))
}

fn config(url: &str, settings: &str) -> String {
    format!("[source.up]\nurl = {url}\n{settings}\n")
}

fn launch(url: &str, settings: &str) -> Launch {
    Launch::files(&[
        ("rowstream.toml", &config(url, settings)),
        ("endpoints/pass/{path}.toml", PASS),
        ("endpoints/calls/{path}.toml", CALLS),
    ])
}

async fn server(addresses: &[SocketAddr], settings: &str) -> Server {
    launch(&urls(addresses), settings).argument("--log-format=off").start().await
}

fn addresses(upstreams: &[Upstream]) -> Vec<SocketAddr> {
    upstreams.iter().map(Upstream::address).collect()
}

/// The responses to `count` requests, with at most `at_a_time` at once.
async fn ask(server: &Server, path: &str, count: usize, at_a_time: usize) -> Vec<Reply> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..at_a_time {
        let (next, url) = (Arc::clone(&next), server.url(path));
        clients.spawn(async move {
            let mut replies = Vec::new();
            while next.fetch_add(1, Ordering::SeqCst) < count {
                replies.push(get(&url).await);
            }
            replies
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

/// The number of responses with each status and text. Problems are counted by code.
fn tally(replies: &[Reply]) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    for reply in replies {
        let text = match reply.header("content-type") {
            Some("application/problem+json") => reply.json()["code"].as_str().expect("a code").to_owned(),
            _ => reply.text().to_owned(),
        };
        let ended = if reply.ended == Ended::Complete { "" } else { " broken" };
        *tally.entry(format!("{} {text}{ended}", reply.status.as_u16())).or_default() += 1;
    }
    tally
}

fn of<const N: usize>(expected: [(String, usize); N]) -> BTreeMap<String, usize> {
    BTreeMap::from(expected)
}

/// The expected responses: this many from each host.
fn answered<const N: usize>(hosts: [(SocketAddr, usize); N]) -> BTreeMap<String, usize> {
    of(hosts.map(|(address, count)| (format!("200 {address}"), count)))
}

/// A sample of `/_rowstream/metrics`.
async fn metric(server: &Server, sample: &str) -> f64 {
    let text = get(&server.url("/_rowstream/metrics")).await.text().to_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("there is no {sample} in\n{text}")).parse().expect("a number")
}

async fn of_host(server: &Server, name: &str, host: SocketAddr) -> f64 {
    metric(server, &format!("rowstream_host_{name}{{source=\"up\",host=\"{host}\"}}")).await
}

async fn requests(server: &Server, host: SocketAddr, outcome: &str) -> f64 {
    let labels = format!("source=\"up\",host=\"{host}\",outcome=\"{outcome}\"");
    metric(server, &format!("rowstream_host_requests_total{{{labels}}}")).await
}

async fn of_pool(server: &Server, name: &str) -> f64 {
    metric(server, &format!("rowstream_pool_{name}{{source=\"up\"}}")).await
}

#[tokio::test]
async fn requests_go_to_hosts_by_turns_and_connections_stay_with_theirs() {
    for (speaks, protocol) in spoken() {
        let upstreams = [start(&speaks).await, start(&speaks).await, start(&speaks).await];
        let server = server(&addresses(&upstreams), protocol).await;
        let [a, b, c] = upstreams.each_ref().map(Upstream::address);
        for at_a_time in [1, 15] {
            let replies = ask(&server, "/pass/busy", 90, at_a_time).await;
            // Each host got only the requests for it.
            assert_eq!(tally(&replies), answered([(a, 30), (b, 30), (c, 30)]), "{protocol} {at_a_time}");
        }
        let rows = get(&server.url("/calls/busy?_format=ndjson&count=300")).await;
        assert_eq!((rows.text().lines().count(), &rows.ended), (300, &Ended::Complete));
        for upstream in &upstreams {
            assert_eq!(upstream.asked().len(), 160, "{protocol}");
            assert_eq!(rows.text().matches(&format!("\"body\":\"{}\"", upstream.address())).count(), 100);
            assert_eq!(requests(&server, upstream.address(), "answered").await, 160.0);
            assert_eq!(of_host(&server, "in_flight", upstream.address()).await, 0.0);
            assert_eq!(of_host(&server, "up", upstream.address()).await, 1.0);
        }
        if protocol.contains("http2") {
            assert!(upstreams.iter().all(|upstream| upstream.connections() == 1), "one connection is shared");
        }
    }
}

/// Idle connections belong to their hosts, and their total is at most the pool's maximum.
#[tokio::test]
async fn connections_of_all_hosts_are_no_more_than_places() {
    let upstreams = two(&Speaks::Http1).await;
    let server = server(&addresses(&upstreams), "protocol = 'http1'\npool = { max = 4 }").await;
    for _ in 0..20 {
        for at_a_time in [1, 4, 3] {
            let replies = ask(&server, "/pass/busy", 12, at_a_time).await;
            assert!(replies.iter().all(|reply| reply.status == 200), "{:?}", tally(&replies));
            let (used, idle) = (of_pool(&server, "used").await, of_pool(&server, "idle").await);
            assert!(used + idle <= 4.0, "{used} and {idle}");
        }
    }
}

#[tokio::test]
async fn the_least_busy_host_is_spared_no_request_and_the_slow_one_is() {
    for (balance, to_slow) in [("least_busy", 1), ("round_robin", 10)] {
        let upstreams = two(&Speaks::Http1).await;
        let [slow, quick] = upstreams.each_ref().map(Upstream::address);
        // The first request holds the slow host as long as the test needs.
        let settings = format!("balance = '{balance}'\npool = {{ max = 50 }}");
        let server = server(&[slow, quick], &settings).await;
        let url = server.url("/pass/wait");
        let first = tokio::spawn(async move { get(&url).await });
        upstreams[0].until_running(1).await;
        let replies = ask(&server, "/pass/x", 19, 1).await;
        let expected = answered([(slow, to_slow - 1), (quick, 20 - to_slow)]);
        let expected: BTreeMap<_, _> = expected.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(tally(&replies), expected, "{balance}");
        upstreams[0].seen.gate.add_permits(1);
        assert_eq!(first.await.expect("no panic").status, 200);
    }
}

/// One of two busy hosts stops. Only its requests in flight are lost.
#[tokio::test]
async fn a_host_that_ends_takes_only_what_is_in_flight_there() {
    for (speaks, protocol) in spoken() {
        let [dying, staying] = two(&speaks).await;
        let (gone, left) = (dying.address(), staying.address());
        let settings =
            format!("{protocol}\npool = {{ max = 40 }}\nhealth = {{ failures = 3, rest = '200ms' }}");
        let server = server(&[gone, left], &settings).await;
        let clients: Vec<_> = (0..20)
            .map(|_| {
                let url = server.url("/pass/wait");
                tokio::spawn(async move { get(&url).await })
            })
            .collect();
        dying.until_running(10).await;
        staying.until_running(10).await;
        dying.stop().await;
        staying.seen.gate.add_permits(10);
        let mut replies = Vec::new();
        for client in clients {
            replies.push(client.await.expect("no panic"));
        }
        let expected = of([(format!("200 {left}"), 10), ("502 upstream_broken".to_owned(), 10)]);
        assert_eq!(tally(&replies), expected, "{protocol}");
        // From here on, every request succeeds. The host that refuses connections is detected and
        // then avoided.
        let replies = ask(&server, "/pass/busy", 100, 10).await;
        assert_eq!(tally(&replies), answered([(left, 100)]), "{protocol}");
        server.wait_for_stderr(&format!("host {gone} is ejected")).await;
        assert_eq!(of_host(&server, "set_aside_total", gone).await, 1.0);
        assert_eq!(of_host(&server, "up", gone).await, 0.0);
        // It returns at the same address.
        let back = start_at(&gone.to_string(), &speaks).await;
        let url = server.url("/pass/x");
        wait_until("the host is asked again", async || {
            assert_eq!(get(&url).await.status, 200);
            !back.asked().is_empty()
        })
        .await;
        server.wait_for_stderr(&format!("host {gone} answers again")).await;
        assert_eq!(of_host(&server, "up", gone).await, 1.0);
        let replies = ask(&server, "/pass/x", 20, 4).await;
        assert_eq!(tally(&replies), answered([(gone, 10), (left, 10)]), "{protocol}");
        assert_eq!(server.count_stderr("is ejected"), 1, "{}", server.stderr());
        assert_eq!(server.count_stderr("is restored"), 1, "{}", server.stderr());
        for host in [gone, left] {
            assert_eq!(of_host(&server, "in_flight", host).await, 0.0);
        }
    }
}

/// If a host accepts no connection, nothing was sent, so another host is tried at once, without
/// `retries`.
#[tokio::test]
async fn what_was_not_sent_fails_over_without_retries() {
    for (speaks, protocol) in spoken() {
        let [a, b] = two(&speaks).await;
        let (gone, left) = (a.address(), b.address());
        a.stop().await;
        let settings = format!("{protocol}\nhealth = {{ failures = 1000 }}");
        let server = server(&[gone, left], &settings).await;
        assert_eq!(tally(&ask(&server, "/pass/x", 40, 4).await), answered([(left, 40)]), "{protocol}");
        // It was tried and failed every time: for every second or third request, because a retried
        // request also counts for the other host.
        let failed = requests(&server, gone, "failed").await;
        assert!((10.0..=40.0).contains(&failed), "{failed}");
        assert_eq!(requests(&server, left, "answered").await, 40.0);
        b.stop().await;
        // A request that was sent before its connection was known to be closed doesn't fail over.
        let url = server.url("/pass/x");
        wait_until("no connection is left", async || get(&url).await.status == 503).await;
        let replies = ask(&server, "/pass/x", 10, 2).await;
        assert_eq!(tally(&replies), of([("503 source_unavailable".to_owned(), 10)]), "{protocol}");
    }
}

/// A request that waits for a host with room is in the pool's queue, and not in an additional one.
#[tokio::test]
async fn what_fails_over_waits_for_room_there() {
    let [a, b] = two(&Speaks::Http1).await;
    let (gone, left) = (a.address(), b.address());
    a.stop().await;
    let settings =
        "pool = { max = 4, max_per_host = 2, acquire_timeout = '60s' }\nhealth = { failures = 1000 }";
    let server = server(&[gone, left], settings).await;
    let url = server.url("/pass/wait");
    let mut clients = JoinSet::new();
    for _ in 0..6 {
        let url = url.clone();
        clients.spawn(async move { get(&url).await });
    }
    b.until_running(2).await;
    wait_until("four wait", async || of_pool(&server, "waiting").await == 4.0).await;
    assert_eq!(of_pool(&server, "used").await, 2.0);
    b.seen.gate.add_permits(6);
    assert_eq!(tally(&clients.join_all().await), answered([(left, 6)]));
    assert_eq!(b.most(), 2);
}

/// A host that accepts connections and closes them silently.
async fn mute() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(format!("{}:0", address())).await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            count.fetch_add(1, Ordering::SeqCst);
            // Otherwise the close would be a reset, which can arrive before the request was sent.
            let mut buffer = [0; 4096];
            drop(socket.read(&mut buffer).await);
        }
    });
    (address, taken)
}

#[tokio::test]
async fn retries_go_to_another_host() {
    for (retries, lost) in [("", 10), ("retries = { max = 1, backoff = '1ms', budget = 100 }", 0)] {
        let (mute, taken) = mute().await;
        let upstream = start(&Speaks::Http1).await;
        let settings = format!("{retries}\nhealth = {{ failures = 1000 }}");
        let server = server(&[mute, upstream.address()], &settings).await;
        let replies = ask(&server, "/pass/x", 20, 1).await;
        let broken = replies.iter().filter(|reply| reply.status == 502).count();
        assert_eq!((broken, upstream.asked().len()), (lost, 20 - lost), "{retries}: {:?}", tally(&replies));
        assert_eq!(requests(&server, mute, "failed").await, taken.load(Ordering::SeqCst) as f64);
    }
}

/// A host that sends nothing is ejected too. Otherwise each request would wait for the whole
/// `first_byte`.
#[tokio::test]
async fn a_host_that_hangs_is_ejected() {
    for (speaks, protocol) in spoken() {
        let upstream = start(&speaks).await;
        let settings = format!(
            "{protocol}\ntimeout = {{ first_byte = '100ms' }}\nhealth = {{ failures = 2, rest = '1h' }}"
        );
        let server = server(&[upstream.address()], &settings).await;
        for (path, code) in [
            ("/pass/wait", "upstream_timeout"),
            ("/pass/x", ""),
            ("/pass/wait", "upstream_timeout"),
            ("/pass/wait", "upstream_timeout"),
            ("/pass/wait", "upstream_unavailable"),
            ("/pass/x", "upstream_unavailable"),
        ] {
            let reply = get(&server.url(path)).await;
            match code {
                "" => assert_eq!(reply.status, 200),
                code => assert_eq!(reply.json()["code"], code, "{protocol}"),
            }
        }
        assert_eq!(upstream.asked().len(), 4, "{protocol}");
    }
}

#[tokio::test]
async fn a_host_alone_is_ejected_only_where_the_file_says_so() {
    for (health, code, connections) in
        [("", "source_unavailable", 1), ("health = { failures = 3, rest = '1h' }", "upstream_unavailable", 0)]
    {
        let upstream = start(&Speaks::Http1).await;
        let address = upstream.address();
        upstream.stop().await;
        let server = server(&[address], health).await;
        for _ in 0..3 {
            assert_eq!(get(&server.url("/pass/x")).await.json()["code"], "source_unavailable");
        }
        let reply = get(&server.url("/pass/x")).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (503, &code.into()));
        let wait: u64 = reply.header("retry-after").expect("it says when").parse().expect("seconds");
        assert_eq!(wait > 3000, !health.is_empty(), "{wait}");
        assert!(wait <= 3600, "{wait}");
        // It runs again, but isn't tried before its backoff ends.
        let upstream = start_at(&address.to_string(), &Speaks::Http1).await;
        let status = get(&server.url("/pass/x")).await.status.as_u16();
        assert_eq!((status == 200, upstream.connections()), (health.is_empty(), connections));
    }
}

/// A host that answers `/x` with this status, and blocks `/wait`.
async fn with_status(status: Arc<AtomicUsize>) -> Upstream {
    Upstream::start(Speaks::Http1, move |seen, asked| {
        let status = Arc::clone(&status);
        async move {
            if asked.target.starts_with("/wait") {
                seen.gate.acquire().await.expect("it is never closed").forget();
            }
            let status = u16::try_from(status.load(Ordering::SeqCst)).expect("a status");
            reply(status, "text/plain", "told")
        }
    })
    .await
}

#[tokio::test]
async fn one_request_tries_a_host_and_the_others_are_refused_at_once() {
    let status = Arc::new(AtomicUsize::new(503));
    let upstream = with_status(Arc::clone(&status)).await;
    let settings = "health = { failures = 4, rest = '300ms', statuses = [503] }\npool = { max = 50 }";
    let server = server(&[upstream.address()], settings).await;
    // The upstream's response is passed on, and a host that fails too often is ejected.
    for _ in 0..4 {
        let reply = get(&server.url("/pass/x")).await;
        assert_eq!((reply.status.as_u16(), reply.text()), (503, "told"));
    }
    assert_eq!(get(&server.url("/pass/x")).await.json()["code"], "upstream_unavailable");
    assert_eq!(upstream.asked().len(), 4);
    status.store(200, Ordering::SeqCst);
    for leaves in [true, false] {
        // Requests before the end of the backoff are refused. One probe is let through.
        let mut probes = JoinSet::new();
        wait_until("it is tried", async || {
            let url = server.url("/pass/wait");
            probes.spawn(async move { get(&url).await });
            upstream.running() > 0
        })
        .await;
        let replies = ask(&server, "/pass/x", 50, 25).await;
        assert_eq!(tally(&replies), of([("503 upstream_unavailable".to_owned(), 50)]));
        assert_eq!(upstream.running(), 1, "one tries it");
        if leaves {
            // Its client disconnects. That says nothing about the host, so the next request is a
            // probe.
            probes.shutdown().await;
            upstream.until_running(0).await;
            assert_eq!(upstream.asked().len(), 5);
            assert_eq!(of_host(&server, "up", upstream.address()).await, 0.0);
        } else {
            upstream.seen.gate.add_permits(1);
            let probes = probes.join_all().await;
            assert_eq!(probes.iter().filter(|reply| reply.status == 200).count(), 1, "{:?}", tally(&probes));
        }
    }
    assert_eq!(upstream.asked().len(), 6);
    let replies = ask(&server, "/pass/x", 50, 25).await;
    assert_eq!(tally(&replies), of([("200 told".to_owned(), 50)]));
    assert_eq!(requests(&server, upstream.address(), "aborted").await, 1.0);
    assert_eq!(requests(&server, upstream.address(), "failed").await, 4.0);
    assert_eq!(of_host(&server, "set_aside_total", upstream.address()).await, 1.0);
}

/// By default every status is a response, and a 500 is one in any case.
#[tokio::test]
async fn answers_are_no_failures() {
    let status = Arc::new(AtomicUsize::new(503));
    let upstream = with_status(Arc::clone(&status)).await;
    let server = server(&[upstream.address()], "health = { failures = 1, rest = '1h' }").await;
    for failure in [503, 500, 404, 400] {
        status.store(failure, Ordering::SeqCst);
        assert_eq!(usize::from(get(&server.url("/pass/x")).await.status.as_u16()), failure);
    }
    // A client that disconnects isn't a failure of the host either.
    let url = server.url("/pass/wait");
    let client = tokio::spawn(async move { drop(Client::HTTP1.stream(&url).await) });
    upstream.until_running(1).await;
    client.abort();
    upstream.until_running(0).await;
    assert_eq!(get(&server.url("/pass/x")).await.status, 400);
}

#[tokio::test]
async fn no_host_has_more_requests_than_it_may() {
    for (speaks, protocol) in spoken() {
        let upstreams = two(&speaks).await;
        let pool = "max = 6, max_per_host = 3, waiting = 100, acquire_timeout = '60s'";
        let server = server(&addresses(&upstreams), &format!("{protocol}\npool = {{ {pool} }}")).await;
        let mut clients = JoinSet::new();
        for _ in 0..20 {
            let url = server.url("/pass/wait");
            clients.spawn(async move { get(&url).await });
        }
        for upstream in &upstreams {
            upstream.until_running(3).await;
        }
        wait_until("fourteen wait", async || of_pool(&server, "waiting").await == 14.0).await;
        for upstream in &upstreams {
            assert_eq!(of_host(&server, "in_flight", upstream.address()).await, 3.0);
            upstream.seen.gate.add_permits(20);
        }
        let replies = clients.join_all().await;
        assert!(replies.iter().all(|reply| reply.status == 200), "{:?}", tally(&replies));
        assert!(upstreams.iter().all(|upstream| upstream.most() == 3), "{protocol}");
        assert_eq!((of_pool(&server, "used").await, of_pool(&server, "waiting").await), (0.0, 0.0));
    }
}

/// If a host is ejected, only the other hosts' capacity remains. Requests wait for it in the pool's
/// queue as usual.
#[tokio::test]
async fn one_queue_bounds_what_waits_for_hosts() {
    let [a, b] = two(&Speaks::Http1).await;
    let (gone, left) = (a.address(), b.address());
    a.stop().await;
    let settings = "pool = { max = 4, max_per_host = 2, waiting = 2, acquire_timeout = '400ms' }\n\
        health = { failures = 1, rest = '1h' }";
    let server = server(&[gone, left], settings).await;
    assert_eq!(tally(&ask(&server, "/pass/x", 4, 1).await), answered([(left, 4)]));
    let url = server.url("/pass/wait");
    let mut held = JoinSet::new();
    for _ in 0..2 {
        let url = url.clone();
        held.spawn(async move { get(&url).await });
    }
    b.until_running(2).await;
    let replies = ask(&server, "/pass/x", 5, 5).await;
    let expected = of([("503 pool_full".to_owned(), 3), ("504 pool_timeout".to_owned(), 2)]);
    assert_eq!(tally(&replies), expected);
    assert_eq!(
        (of_pool(&server, "refused_total").await, of_pool(&server, "timeouts_total").await),
        (3.0, 2.0)
    );
    b.seen.gate.add_permits(2);
    assert_eq!(tally(&held.join_all().await), answered([(left, 2)]));
}

/// No other request ends in the meantime, so only the end of the backoff makes room.
#[tokio::test]
async fn the_end_of_a_rest_serves_those_that_wait() {
    let [a, b] = two(&Speaks::Http1).await;
    let (gone, left) = (a.address(), b.address());
    a.stop().await;
    let settings = "pool = { max = 2, max_per_host = 1, acquire_timeout = '60s' }\n\
        health = { failures = 1, rest = '500ms' }";
    let server = server(&[gone, left], settings).await;
    assert_eq!(tally(&ask(&server, "/pass/x", 2, 1).await), answered([(left, 2)]));
    let url = server.url("/pass/wait");
    let held = tokio::spawn(async move { get(&url).await });
    b.until_running(1).await;
    let back = start_at(&gone.to_string(), &Speaks::Http1).await;
    assert_eq!(tally(&ask(&server, "/pass/x", 1, 1).await), answered([(gone, 1)]));
    assert_eq!((b.running(), back.asked().len()), (1, 1));
    b.seen.gate.add_permits(1);
    assert_eq!(held.await.expect("no panic").status, 200);
}

#[tokio::test]
async fn each_host_is_known_by_its_own_name_over_tls() {
    let certificate = Certificate::new();
    let own = |name: &'static str| {
        move |_: Arc<Seen>, asked: Asked| async move {
            let host = asked.authority.rsplit_once(':').map(|(host, _)| host.to_owned());
            reply(if host.as_deref() == Some(name) { 200 } else { 421 }, "text/plain", name)
        }
    };
    let both: &[&[u8]] = &[b"h2", b"http/1.1"];
    let a = Upstream::start(Speaks::Tls(certificate.clone(), both), own("localhost")).await;
    let b = Upstream::start(Speaks::Tls(certificate.clone(), &[b"http/1.1"]), own("127.0.0.1")).await;
    let url = format!("['https://localhost:{}', 'https://{}']", a.address().port(), b.address());
    let settings = format!("roots = '{}'\nallow = ['127.0.0.1']", certificate.ca().display());
    let server = launch(&url, &settings).start().await;
    let expected = of([("200 localhost".to_owned(), 20), ("200 127.0.0.1".to_owned(), 20)]);
    assert_eq!(tally(&ask(&server, "/pass/x", 40, 8).await), expected);
    assert_eq!(a.connections(), 1, "HTTP/2 is shared");
}

/// The contents of `/data`, which reveal a cut.
static DATA: LazyLock<Bytes> =
    LazyLock::new(|| (0..40_000_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>().into());

async fn flapping(address: &str, speaks: &Speaks) -> Upstream {
    Upstream::start_on(address, speaks.clone(), |_, asked| async move {
        if !asked.target.starts_with("/data") {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..3))).await;
            return reply(200, "text/plain", "told");
        }
        stream(pieces::unfold(0, |at| async move {
            let end = (at + fastrand::usize(1..20_000)).min(DATA.len());
            if at > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (at < DATA.len()).then(|| (Ok(DATA.slice(at..end)), end))
        }))
    })
    .await
}

/// Stops random hosts, one or several at a time, and restarts them, until it's stopped. Returns the
/// number of stops.
async fn flap(
    hosts: Vec<SocketAddr>,
    speaks: Speaks,
    mut random: fastrand::Rng,
    stop: Arc<AtomicBool>,
) -> usize {
    let mut up: Vec<Option<Upstream>> = Vec::new();
    for host in &hosts {
        up.push(Some(flapping(&host.to_string(), &speaks).await));
    }
    let mut ended = 0;
    while !stop.load(Ordering::SeqCst) {
        let at = random.usize(..hosts.len());
        let down = up.iter().position(Option::is_none);
        if let Some(down) = down.filter(|_| random.u8(..10) < 7) {
            up[down] = Some(flapping(&hosts[down].to_string(), &speaks).await);
        } else if let Some(upstream) = up[at].take() {
            upstream.stop().await;
            ended += 1;
        }
        let most = if up.iter().all(Option::is_some) { 120 } else { 20 };
        tokio::time::sleep(Duration::from_millis(random.u64(1..most))).await;
    }
    ended
}

/// Requests while hosts stop and restart: each response is complete or visibly failed, and the
/// final state equals the initial one.
#[tokio::test]
async fn hosts_that_come_and_go_lose_nothing_unseen() {
    for (speaks, protocol, balance) in
        [(Speaks::Http1, "http1", "round_robin"), (Speaks::H2c(20), "http2", "least_busy")]
    {
        let seed = fastrand::u64(..);
        println!("{protocol}: seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut hosts = Vec::new();
        for _ in 0..3 {
            let upstream = flapping(&format!("{}:0", address()), &speaks).await;
            hosts.push(upstream.address());
            upstream.stop().await;
        }
        let settings = format!(
            "protocol = '{protocol}'\nbalance = '{balance}'\nhealth = {{ failures = 3, rest = '20ms' }}\n\
             retries = {{ max = 2, backoff = '1ms' }}\npool = {{ max = 20, max_per_host = 8, waiting = 1000 }}"
        );
        let server = server(&hosts, &settings).await;
        let stop = Arc::new(AtomicBool::new(false));
        let flaps = tokio::spawn(flap(hosts.clone(), speaks, random.fork(), Arc::clone(&stop)));
        let (mut whole, mut failed) = (0, 0);
        let mut clients = JoinSet::new();
        for _ in 0..10 {
            let (data, calls) = (server.url("/pass/data"), server.url("/calls/x?count=100"));
            clients.spawn(async move {
                let mut ends = Vec::new();
                for n in 0..125 {
                    let reply = get(&data).await;
                    let is_whole = reply.status == 200 && reply.ended == Ended::Complete;
                    assert!(!is_whole || reply.body == *DATA, "{} bytes", reply.body.len());
                    let is_told =
                        matches!(reply.status.as_u16(), 502 | 503) || reply.ended != Ended::Complete;
                    assert!(
                        is_whole != is_told,
                        "{} {:?}: {} bytes",
                        reply.status,
                        reply.ended,
                        reply.body.len()
                    );
                    ends.push(is_whole);
                    if reply.status == 503 {
                        // All hosts are down. Without a pause, a client would send a thousand
                        // requests before one is up.
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    if n % 32 == 0 {
                        let rows = get(&calls).await;
                        assert_eq!(
                            (rows.status.as_u16(), &rows.ended),
                            (200, &Ended::Complete),
                            "{}",
                            rows.text()
                        );
                        let rows = rows.json();
                        let rows = rows.as_array().expect("rows");
                        assert_eq!(rows.len(), 100);
                        for row in rows {
                            let is_whole = row["error"].is_null();
                            assert_eq!(is_whole, row["body"] == "told", "{row}");
                            // Nothing hangs, because the hosts don't hang but stop.
                            let error = row["error"].as_str().unwrap_or_default();
                            assert!(!error.contains("within"), "{error}");
                            ends.push(is_whole);
                        }
                    }
                }
                ends
            });
        }
        for ends in clients.join_all().await {
            whole += ends.iter().filter(|is_whole| **is_whole).count();
            failed += ends.iter().filter(|is_whole| !**is_whole).count();
        }
        stop.store(true, Ordering::SeqCst);
        let ended = flaps.await.expect("no panic");
        println!("{protocol}: {whole} whole, {failed} failed, {ended} hosts ended");
        assert_eq!(whole + failed, 10 * (125 + 400));
        assert!(ended > 0 && whole > 0, "{whole} whole, {failed} failed, {ended} ended");
        wait_until("nothing is in flight", async || {
            let mut sum = of_pool(&server, "used").await + of_pool(&server, "waiting").await;
            for host in &hosts {
                sum += of_host(&server, "in_flight", *host).await;
            }
            sum == 0.0
        })
        .await;
        assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    }
}

/// The connections and requests of an HTTP/2 server with the h2 library.
#[derive(Default)]
struct Going {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

/// A server that gracefully shuts down each connection after this many requests.
async fn going_gracefully(each: usize) -> (SocketAddr, Arc<Going>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let going = Arc::new(Going::default());
    let counts = Arc::clone(&going);
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.expect("a connection");
            counts.connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(serve_and_go(socket, each, Arc::clone(&counts)));
        }
    });
    (address, going)
}

async fn serve_and_go(socket: TcpStream, each: usize, counts: Arc<Going>) {
    socket.set_nodelay(true).expect("a socket");
    let mut connection = h2::server::handshake(socket).await.expect("a client");
    let mut taken = 0;
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        taken += 1;
        counts.requests.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..10))).await;
            let head = Response::builder().header("content-type", "text/plain").body(()).expect("a head");
            let mut body = respond.send_response(head, false).expect("the stream is there");
            body.send_data(Bytes::from_static(b"told"), true).expect("the stream is there");
        });
        if taken == each {
            connection.graceful_shutdown();
        }
    }
}

/// An HTTP/2 upstream closes its connections gracefully, as in every deployment. One request was
/// lost with each connection, and every later request opened its own connection.
#[tokio::test]
async fn no_request_is_lost_with_a_connection_that_goes_away() {
    let (address, going) = going_gracefully(50).await;
    let server = server(&[address], "protocol = 'http2'\npool = { max = 25 }").await;
    let rows = get(&server.url("/calls/x?count=2000")).await;
    assert_eq!((rows.status.as_u16(), &rows.ended), (200, &Ended::Complete));
    let rows = rows.json();
    let rows = rows.as_array().expect("rows");
    let failed: Vec<_> = rows.iter().filter(|row| row["body"] != "told").collect();
    assert!(failed.is_empty(), "{} of {}: {:?}", failed.len(), rows.len(), failed[0]);
    assert_eq!((rows.len(), going.requests.load(Ordering::SeqCst)), (2000, 2000));
    // Each connection serves fifty requests, and a few more that arrive during the shutdown.
    let connections = going.connections.load(Ordering::SeqCst);
    assert!((20..=41).contains(&connections), "{connections} connections");
    assert_eq!(of_pool(&server, "opened_total").await, connections as f64);
    assert_eq!(of_host(&server, "in_flight", address).await, 0.0);
    assert_eq!(requests(&server, address, "failed").await, 0.0);
}

/// nginx closes a connection after a thousand requests, even if more are on their way.
#[tokio::test]
async fn no_request_is_lost_when_nginx_goes_away() {
    let upstream = Upstream::start(Speaks::Http1, |_, _| async { reply(200, "text/plain", "told") }).await;
    let nginx = Hop::nginx(upstream.address()).await;
    let server = server(&[nginx.http2], "protocol = 'http2'\npool = { max = 50 }").await;
    let rows = get(&server.url("/calls/x?count=5000")).await;
    assert_eq!((rows.status.as_u16(), &rows.ended), (200, &Ended::Complete));
    let rows = rows.json();
    let rows = rows.as_array().expect("rows");
    let failed: Vec<_> = rows.iter().filter(|row| row["body"] != "told").collect();
    assert!(failed.is_empty(), "{} of {}: {:?}", failed.len(), rows.len(), failed[0]);
    assert_eq!((rows.len(), upstream.asked().len()), (5000, 5000));
    let opened = of_pool(&server, "opened_total").await;
    assert!((5.0..=10.0).contains(&opened), "{opened} connections");
}

/// HTTP/2 frames for a server that serves some requests and refuses the others.
mod frames {
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PING: u8 = 6;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const ACK: u8 = 1;

    /// One frame (RFC 9113, section 4.1).
    pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    /// `:status: 200` with the end of the stream.
    pub(super) fn answer(stream: u32) -> Vec<u8> {
        frame(HEADERS, 0x5, stream, &[0x88])
    }

    /// Streams after `last` weren't processed, and there's no error.
    pub(super) fn go_away(last: u32) -> Vec<u8> {
        let mut payload = last.to_be_bytes().to_vec();
        payload.extend([0; 4]);
        frame(7, 0, 0, &payload)
    }
}

/// A server whose connections answer this many requests each, and refuse the others unprocessed.
async fn sending_back(each: usize) -> (SocketAddr, Arc<Going>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let going = Arc::new(Going::default());
    let counts = Arc::clone(&going);
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.expect("a connection");
            counts.connections.fetch_add(1, Ordering::SeqCst);
            let counts = Arc::clone(&counts);
            // It ends with the client.
            tokio::spawn(async move { drop(send_back(socket, each, &counts).await) });
        }
    });
    (address, going)
}

async fn send_back(mut socket: TcpStream, each: usize, counts: &Going) -> std::io::Result<()> {
    const PREFACE: usize = 24;
    socket.set_nodelay(true)?;
    let mut preface = [0; PREFACE];
    socket.read_exact(&mut preface).await?;
    socket.write_all(&frames::frame(frames::SETTINGS, 0, 0, &[])).await?;
    let mut streams = Vec::new();
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        socket.read_exact(&mut payload).await?;
        match (head[3], head[4]) {
            (frames::SETTINGS, 0) => {
                socket.write_all(&frames::frame(frames::SETTINGS, frames::ACK, 0, &[])).await?;
            }
            (frames::PING, 0) => {
                socket.write_all(&frames::frame(frames::PING, frames::ACK, 0, &payload)).await?;
            }
            (frames::HEADERS, _) => {
                streams.push(u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
                // The requests after these are never read.
                if streams.len() == each + 1 {
                    socket.write_all(&frames::go_away(streams[each - 1])).await?;
                    for stream in &streams[..each] {
                        socket.write_all(&frames::answer(*stream)).await?;
                        counts.requests.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Each connection serves ten of twenty requests. The refused ones are sent again, without
/// `retries`.
#[tokio::test]
async fn requests_that_are_sent_back_go_to_another_connection() {
    let (address, going) = sending_back(10).await;
    let settings = "protocol = 'http2'\npool = { max = 20 }\nhealth = { failures = 1, rest = '1h' }";
    let server = server(&[address], settings).await;
    let mut clients = JoinSet::new();
    for _ in 0..21 {
        let url = server.url("/pass/x");
        clients.spawn(async move { get(&url).await.status.as_u16() });
    }
    // Ten, ten, and one that waits for more on the third connection.
    let mut statuses = Vec::new();
    while statuses.len() < 20 {
        statuses.push(clients.join_next().await.expect("twenty are answered").expect("no panic"));
    }
    assert_eq!(statuses, [200; 20]);
    assert_eq!(going.requests.load(Ordering::SeqCst), 20);
    wait_until("a third connection is there", async || going.connections.load(Ordering::SeqCst) == 3).await;
    assert_eq!(requests(&server, address, "failed").await, 0.0);
}

#[tokio::test]
async fn check_reaches_every_host() {
    let upstreams = two(&Speaks::Http1).await;
    let launched = server(&addresses(&upstreams), "pool = { max = 10, max_per_host = 5 }").await;
    let file = launched.folder().join("rowstream.toml").display().to_string();
    let checked = rowstream(&["check", &file]).await;
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert!(told.contains("source up: connected to 2 hosts, pool of 10"), "{told}");
    let [a, b] = upstreams;
    a.until_connections(1).await;
    b.until_connections(1).await;
    let gone = [a.address(), b.address()];
    a.stop().await;
    b.stop().await;
    let checked = rowstream(&["check", &file]).await;
    let told = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!checked.status.success() && gone.iter().all(|host| told.contains(&host.to_string())), "{told}");
}

#[tokio::test]
async fn faults_have_their_place() {
    let many: Vec<_> = (1..=65).map(|port| format!("'http://127.0.0.1:{port}'")).collect();
    let many = format!("[{}]", many.join(", "));
    for (url, settings, words) in [
        ("[]", "", "`url` lists 0 hosts"),
        (many.as_str(), "", "`url` lists 65 hosts"),
        ("['http://a', 'http://A:80/v2']", "", "`url` lists this host twice"),
        ("['http://a', 'postgres://b']", "", "a list is for the hosts of an HTTP service"),
        ("['sqlite:a.db']", "", "a list is for the hosts of an HTTP service"),
        ("['http://a', 'b']", "", "this URL has no scheme"),
        ("['http://a', 'http://u:hunter2@b']", "", "this URL has a name or a password"),
        ("['http://a', 3]", "", "`url` must be a string"),
        ("3", "", "`url` must be a string"),
        ("['http://a', 'http://b']", "balance = 'random'", "`balance` cannot be `random`"),
        ("'http://a'", "health = { failures = 0 }", "`failures` must be an integer of at least 1"),
        ("'http://a'", "health = { rest = 'x' }", "is not a positive duration"),
        ("'http://a'", "health = { after = 3 }", "unknown key `after`"),
        ("'http://a'", "health = { statuses = [404] }", "404 can't be a failure of a host"),
        ("'http://a'", "health = true", "`health` must be a table"),
        ("'http://a'", "pool = { max_per_host = 0 }", "`max_per_host` must be an integer of at least 1"),
        (
            "['http://a', 'http://b']",
            "pool = { max = 50, max_per_host = 20 }",
            "with `max_per_host = 20` 2 hosts have 40 requests at most, but `max` is 50",
        ),
        (
            "'http://a'",
            "pool = { max_per_host = 5 }",
            "with `max_per_host = 5` the one host has 5 requests at most, but `max` is 20",
        ),
        ("'postgres://a'", "pool = { max_per_host = 5 }", "unknown key `max_per_host`"),
        ("['http://a', 'http://b']", "roots = 'x.pem'", "`roots` is for TLS"),
        ("['http://a', 'http://127.0.0.1']", "allow = ['public']", "`allow` leaves out the address"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("x.pem"), "").expect("a file");
        let file = folder.path().join("rowstream.toml");
        std::fs::write(&file, config(url, settings)).expect("a file");
        std::fs::create_dir(folder.path().join("endpoints")).expect("a folder");
        let (name, text) = match url.contains("postgres://a") {
            true => ("a.sql", "select 1 as n"),
            false => ("{path}.toml", PASS),
        };
        std::fs::write(folder.path().join("endpoints").join(name), text).expect("a file");
        let checked = rowstream(&["check", &file.display().to_string()]).await;
        let told = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(!checked.status.success() && told.contains(words), "{url} {settings}: {words}\n{told}");
        assert!(!told.contains("hunter2"), "{told}");
        assert_eq!(
            told.lines().filter(|line| line.contains(".toml:")).count(),
            1,
            "{url} {settings}\n{told}"
        );
    }
}
