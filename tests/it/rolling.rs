//! Two replicas behind a proxy are restarted one after another while clients continue. No request
//! is lost, and no response is truncated.
//!
//! HAProxy checks if the replicas are ready, and speaks HTTP/1.1 or HTTP/2 with them. nginx has no
//! checks, and repeats a refused request on the other replica.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Client, Ended, Hop, Launch, Server, TestDb, wait_until};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The number of restarts of both replicas.
const ROUNDS: usize = 2;
const ROWS: usize = 200_000;
/// A reader's pause after each 64 KiB, so that a stream lasts longer than a replica's shutdown.
const PAUSE: Duration = Duration::from_millis(25);
const PAD: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/// A replica that keeps its port.
struct Replica {
    folder: tempfile::TempDir,
    server: Server,
}

impl Replica {
    async fn start(db: &TestDb) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = format!(
            "drain_delay = \"3s\"\ndrain_timeout = \"60s\"\n[source.db]\nurl = \"{}\"\npool = {{ max = 30 }}\n",
            db.url()
        );
        let short = "/*\nresult = \"one\"\n[params]\nvia = \"text\"\n*/\nselect :via as via";
        let long = format!(
            "/*\n[params]\nvia = \"text\"\n*/\nselect generate_series(1, {ROWS}) as n, '{PAD}' as t where :via <> ''"
        );
        let endpoints = folder.path().join("endpoints");
        std::fs::create_dir(&endpoints).expect("the folder is writable");
        for (path, text) in [
            (folder.path().join("rowstream.toml"), config.as_str()),
            (endpoints.join("short.sql"), short),
            (endpoints.join("long.sql"), &long),
        ] {
            std::fs::write(path, text).expect("the folder is writable");
        }
        let server = Launch::folder(folder.path()).release().start().await;
        Self { folder, server }
    }

    fn address(&self) -> SocketAddr {
        self.server.address().parse().expect("an address")
    }

    /// Stops it, restarts it at its port, and waits until each proxy uses it again. Returns the
    /// number of streams that it had to complete.
    async fn restart(&mut self, proxies: &[Proxy]) -> usize {
        self.server.terminate();
        let status = self.server.wait_exit().await;
        let said = self.server.stderr();
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(!said.contains("aborting"), "{said}");
        let (_, draining) = said.split_once("draining: ").expect("it says how many it drains");
        let (_, drained) = draining.split_once(" connections, ").expect("it says how many it drains");
        let drained = drained.split(' ').next().and_then(|count| count.parse().ok()).expect("a count");
        self.server = start_at(self.folder.path(), self.server.address()).await;
        for proxy in proxies {
            self.server.wait_for_stdout(&format!("GET /short?via={} ", proxy.name)).await;
        }
        drained
    }
}

/// Another test's new connection may use the port for a moment.
async fn start_at(folder: &Path, address: &str) -> Server {
    wait_until("it starts", async || {
        Launch::folder(folder).release().listen(address).try_start().await.map_err(|exit| exit.stderr)
    })
    .await
}

struct Proxy {
    name: &'static str,
    hop: Hop,
}

/// A client with a persistent connection, like browsers and pools. It opens another one only if the
/// last one was closed before the request was sent.
struct Kept {
    address: SocketAddr,
    sender: Option<SendRequest<Empty<Bytes>>>,
}

impl Kept {
    async fn sender(&mut self) -> Result<SendRequest<Empty<Bytes>>, String> {
        if let Some(mut sender) = self.sender.take()
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let socket = TcpStream::connect(self.address).await.map_err(|error| error.to_string())?;
        let made = handshake(TokioIo::new(socket)).await;
        let (sender, connection) = made.map_err(|error| error.to_string())?;
        tokio::spawn(async { drop(connection.await) });
        Ok(sender)
    }

    /// The body of a response with status 200.
    async fn get(&mut self, target: &str) -> Result<Bytes, String> {
        loop {
            let mut sender = self.sender().await?;
            let request = Request::get(target).header("host", "a").body(Empty::new()).expect("a request");
            let reply = match sender.send_request(request).await {
                Ok(reply) => reply,
                Err(error) if error.is_canceled() => continue,
                Err(error) => return Err(format!("no answer: {error:?}")),
            };
            let status = reply.status();
            let body = reply.into_body().collect().await;
            let body = body.map_err(|error| format!("{status}, truncated: {error:?}"))?.to_bytes();
            self.sender = Some(sender);
            return if status == StatusCode::OK { Ok(body) } else { Err(format!("{status}: {body:?}")) };
        }
    }
}

/// The results of a client's requests. It continues after a lost one, because otherwise the proxies
/// would have nothing to do.
#[derive(Debug, Default)]
struct Tally {
    answered: usize,
    lost: Vec<String>,
}

impl Tally {
    fn note(&mut self, name: &str, came: Result<(), String>) {
        match came {
            Ok(()) => self.answered += 1,
            Err(error) => self.lost.push(format!("{name}, after {} answers: {error}", self.answered)),
        }
    }
}

/// Repeatedly sends a short request.
async fn ask(address: SocketAddr, name: &str, stop: &AtomicBool) -> Tally {
    let (mut client, mut tally) = (Kept { address, sender: None }, Tally::default());
    let (target, wanted) = (format!("/short?via={name}"), format!("{{\"via\":\"{name}\"}}"));
    while !stop.load(Ordering::Relaxed) {
        let came = client.get(&target).await;
        let whole =
            came.and_then(|body| if body == wanted { Ok(()) } else { Err(format!("it is {body:?}")) });
        tally.note(name, whole);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tally
}

/// Reads one stream after another, more slowly than they could be sent.
async fn read(client: Client, address: SocketAddr, name: &str, stop: &AtomicBool) -> Tally {
    let wanted: String = (1..=ROWS).map(|n| format!("{{\"n\":{n},\"t\":\"{PAD}\"}}\n")).collect();
    let (url, mut tally) = (format!("http://{address}/long.ndjson?via={name}"), Tally::default());
    while !stop.load(Ordering::Relaxed) {
        let came = read_slowly(client, &url).await;
        let whole = came.and_then(|body| {
            if body == wanted.as_bytes() { Ok(()) } else { Err(format!("it is {} bytes", body.len())) }
        });
        tally.note(name, whole);
    }
    tally
}

/// The body of a complete response with status 200.
async fn read_slowly(client: Client, url: &str) -> Result<Vec<u8>, String> {
    let request = Request::get(url).body(String::new()).expect("a request");
    let mut stream = client.receive_buffer(64 * 1024).open(request).await?;
    let (mut body, mut pause_at) = (Vec::new(), 0);
    let ended = loop {
        match stream.chunk().await {
            Ok(chunk) => body.extend_from_slice(&chunk),
            Err(ended) => break ended,
        }
        if body.len() >= pause_at {
            pause_at += 64 * 1024;
            tokio::time::sleep(PAUSE).await;
        }
    };
    match (stream.status, ended) {
        (StatusCode::OK, Ended::Complete) => Ok(body),
        (status, ended) => Err(format!("{status} {ended:?} after {} bytes", body.len())),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_restarted_and_no_request_is_lost() {
    let db = TestDb::new().await;
    let mut replicas = [Replica::start(&db).await, Replica::start(&db).await];
    let addresses = [replicas[0].address(), replicas[1].address()];
    let proxies = [
        Proxy { name: "haproxy-http1", hop: Hop::haproxy_of(&addresses, "").await },
        Proxy { name: "haproxy-http2", hop: Hop::haproxy_of(&addresses, "proto h2").await },
        Proxy { name: "nginx", hop: Hop::nginx_of(&addresses).await },
    ];
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for proxy in &proxies {
        let (name, http1, http2) = (proxy.name, proxy.hop.http1, proxy.hop.http2);
        for _ in 0..3 {
            let stop = Arc::clone(&stop);
            clients.spawn(async move { ask(http1, name, &stop).await });
        }
        for (client, address) in [(Client::HTTP1, http1), (Client::HTTP1, http1), (Client::H2C, http2)] {
            let stop = Arc::clone(&stop);
            clients.spawn(async move { read(client, address, name, &stop).await });
        }
    }
    let mut drained = 0;
    // A replica without a stream at its end proves little.
    for round in 0.. {
        if round >= ROUNDS && drained > 0 {
            break;
        }
        assert!(round < 10 * ROUNDS, "no replica had a stream when it was ended");
        for replica in &mut replicas {
            drained += replica.restart(&proxies).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let ended = clients.join_all().await;
    let lost: Vec<_> = ended.iter().flat_map(|tally| &tally.lost).collect();
    let answered: Vec<_> = ended.iter().map(|tally| tally.answered).collect();
    println!("{answered:?} answers, {drained} streams drained");
    assert!(lost.is_empty(), "{lost:#?}");
    assert!(answered.iter().all(|&count| count > 0), "{answered:?}");
}
