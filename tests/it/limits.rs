//! Limits per client: the rate of requests, and the time to send one.

use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::support::{Client, Launch, Reply, Server, TestDb, get, wait, wait_until};

async fn server(head: &str, more: &str) -> Server {
    let hash = |text: &str| {
        use sha2::Digest as _;
        sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let config = format!(
        "authorization = \"public\"\n{head}\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n\
         [admin]\npublic = [\"live\", \"ready\", \"metrics\"]\n\
         [token.a]\nsha256 = \"{}\"\n[token.b]\nsha256 = \"{}\"\n{more}\n",
        hash("a"),
        hash("b")
    );
    let files = [
        ("rowstream.toml", config.as_str()),
        ("t.sql", "create table t (n)"),
        ("endpoints/one.sql", "select 1 as n"),
        ("endpoints/mine.sql", "/*\nauthorization = \"authenticated\"\n*/\nselect 1 as n"),
    ];
    Launch::files(&files).start().await
}

async fn ask(server: &Server, path: &str, headers: &[(&str, &str)]) -> Reply {
    let request = Request::get(server.url(path));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    Client::HTTP1.send(request.body(String::new()).expect("a request")).await
}

async fn metric(server: &Server, sample: &str) -> String {
    let metrics = get(&server.url("/_rowstream/metrics")).await.text().to_owned();
    let line = metrics.lines().find_map(|line| line.strip_prefix(sample));
    line.unwrap_or_else(|| panic!("{sample} is in {metrics}")).trim().to_owned()
}

/// An address has 60 requests, and gets one more each second.
#[tokio::test]
async fn an_address_has_a_quota() {
    let server =
        server("trusted_proxies = [\"127.0.0.1\"]", "[rate_limit]\nper_address = 1\nwindow = \"1m\"").await;
    let from = |address| [("x-forwarded-for", address)];
    for left in (0..60).rev() {
        let path = ["/one", "/missing", "/mine", "/one?x=1"][left % 4];
        // Every request counts, for all addresses of an IPv6 network together.
        let reply = ask(&server, path, &from(["2001:db8::1", "2001:db8::ffff"][left % 2])).await;
        assert_ne!(reply.status, 429);
        assert_eq!(reply.header("ratelimit-policy"), Some("\"address\";q=60;w=60"));
        let quota = reply.header("ratelimit").expect("the header");
        assert!(quota.starts_with("\"address\";r=") && quota.contains(";t="), "{quota}");
    }
    // A slow machine was granted a few more meanwhile.
    let mut reply = ask(&server, "/one", &from("2001:db8::2")).await;
    for _ in 0..60 {
        if reply.status == 429 {
            break;
        }
        reply = ask(&server, "/one", &from("2001:db8::2")).await;
    }
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (429, &"rate_limited".into()));
    let after: u64 = reply.header("retry-after").and_then(|text| text.parse().ok()).expect("seconds");
    assert!((1..=60).contains(&after), "{after}");
    assert_eq!((&reply.json()["retry"], &reply.json()["retry_after"]), (&true.into(), &after.into()));
    assert!(reply.header("ratelimit").is_some_and(|quota| quota.starts_with("\"address\";r=0;t=")));
    // Other clients aren't affected, and neither are health checks.
    for (path, address) in
        [("/one", "2001:db8:0:1::1"), ("/one", "192.0.2.1"), ("/_rowstream/live", "2001:db8::1")]
    {
        assert_eq!(ask(&server, path, &from(address)).await.status, 200, "{path} from {address}");
    }
    // A browser's preflight for another origin isn't a request of the page.
    let request = Request::options(server.url("/one")).header("x-forwarded-for", "2001:db8::1");
    let request =
        request.header("origin", "https://a.example").header("access-control-request-method", "GET");
    assert_eq!(Client::HTTP1.send(request.body(String::new()).expect("a request")).await.status, 204);
    assert_eq!(metric(&server, "rowstream_rate_limited_total{by=\"address\"}").await, "1");
}

#[tokio::test]
async fn a_token_has_a_quota_wherever_it_comes_from() {
    let server = server(
        "trusted_proxies = [\"127.0.0.1\"]",
        "[rate_limit]\nper_token = 2\nper_address = 1000\nwindow = \"10s\"",
    )
    .await;
    let shown = |token, number| {
        [("authorization", token), ("x-forwarded-for", ["192.0.2.1", "192.0.2.2"][number % 2])]
    };
    let begun = Instant::now();
    let mut refused = None;
    for number in 0..200 {
        let reply = ask(&server, "/mine", &shown("Bearer a", number)).await;
        if reply.status == 429 {
            refused = Some((number, reply));
            break;
        }
        assert_eq!(reply.headers.get_all("ratelimit").iter().count(), 2, "{:?}", reply.headers);
    }
    let (number, reply) = refused.expect("it is refused");
    let came = begun.elapsed().as_secs() as usize * 2 + 2;
    assert!((20..=20 + came).contains(&number), "{number} of 20, and of {came} that have come since");
    assert_eq!(reply.json()["detail"], "this token has sent more requests than allowed");
    assert_eq!(ask(&server, "/mine", &shown("Bearer b", 0)).await.status, 200);
    assert_eq!(ask(&server, "/mine", &shown("Bearer c", 0)).await.status, 401);
    // Public endpoints don't count tokens.
    assert_eq!(ask(&server, "/one", &shown("Bearer a", 0)).await.status, 200);
    assert_eq!(metric(&server, "rowstream_rate_limited_total{by=\"token\"}").await, "1");
    assert_eq!(metric(&server, "rowstream_rate_limited_total{by=\"address\"}").await, "0");
}

#[tokio::test]
async fn without_limits_nothing_is_said_of_them() {
    let server = server("", "").await;
    let reply = ask(&server, "/one", &[]).await;
    assert!(reply.header("ratelimit").is_none() && reply.header("ratelimit-policy").is_none());
}

/// Each of 20,000 refusals per second was logged in its own line.
#[tokio::test]
async fn a_flood_of_refusals_has_few_lines_and_none_is_lost() {
    let server = server("", "[rate_limit]\nper_address = 1").await;
    let mut client = Kept::connect(&server).await;
    let (mut answers, mut refused) = (Vec::new(), 0);
    for _ in 0..10 {
        client.say(&"GET /one HTTP/1.1\r\nhost: a\r\n\r\n".repeat(100)).await;
        answers.clear();
        while String::from_utf8_lossy(&answers).matches("HTTP/1.1 ").count() < 100 {
            assert_ne!(wait("answers", client.0.read_buf(&mut answers)).await.expect("a connection"), 0);
        }
        refused += String::from_utf8_lossy(&answers).matches("HTTP/1.1 429").count();
    }
    assert!(refused > 500, "{refused}");
    let told = || -> usize {
        let further = |line: &str| {
            line.split_once(" more requests were refused")?.0.rsplit(' ').next()?.parse::<usize>().ok()
        };
        server.stderr().lines().filter_map(further).sum()
    };
    let lines = || server.stdout().matches(" GET /one HTTP/1.1 429 ").count();
    wait_until("all are told", async || {
        get(&server.url("/_rowstream/live")).await;
        lines() + told() == refused
    })
    .await;
    // A slow machine needs some seconds for them.
    assert!(told() > 0, "{} lines", lines());
}

/// An HTTP/1.1 client with a persistent connection.
struct Kept(TcpStream);

impl Kept {
    async fn connect(server: &Server) -> Self {
        Self(TcpStream::connect(server.address()).await.expect("it listens"))
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("it reads");
    }

    /// Requests a path, and reads the response up to its end, which is `]`.
    async fn ask(&mut self, path: &str) -> String {
        self.say(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        let mut answer = Vec::new();
        while !answer.ends_with(b"]") {
            let read = wait("an answer", self.0.read_buf(&mut answer)).await.expect("a connection");
            assert_ne!(read, 0, "closed: {}", String::from_utf8_lossy(&answer));
        }
        String::from_utf8(answer).expect("a text")
    }

    async fn is_closed(&mut self) {
        let mut rest = Vec::new();
        // With a reset if it hadn't read everything.
        let _ = wait("it is closed", self.0.read_to_end(&mut rest)).await;
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
}

/// An idle connection ended after `header_timeout`, earlier than any proxy's. 5 of 300 requests
/// through HAProxy failed.
#[tokio::test]
async fn an_idle_connection_outlives_the_time_for_a_head() {
    let server = server("header_timeout = \"300ms\"", "").await;
    let mut client = Kept::connect(&server).await;
    client.ask("/one").await;
    // Another client's connection was closed for its incomplete head, so the same time has passed
    // for this one.
    let mut slow = Kept::connect(&server).await;
    slow.ask("/one").await;
    slow.say("GET /one HTTP/1.1\r\nho").await;
    slow.is_closed().await;
    client.ask("/one").await;
    // A head in two pieces.
    client.say("GET /one HTTP/1.1\r\nh").await;
    client.say("ost: a\r\n\r\n").await;
    client.ask("/one").await;
}

#[tokio::test]
async fn idle_connections_end() {
    let server = server("idle_timeout = \"1s\"\nheader_timeout = \"1h\"", "").await;
    let mut client = Kept::connect(&server).await;
    client.ask("/one").await;
    client.is_closed().await;
    let mut http2 = TcpStream::connect(server.address()).await.expect("it listens");
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    http2.write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat()).await.expect("it reads");
    let mut said = Vec::new();
    let _ = wait("it is closed", http2.read_to_end(&mut said)).await;
    // GOAWAY without an error, with 8 bytes.
    let go_away = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    assert!(said.windows(go_away.len()).any(|bytes| bytes == go_away), "{said:?}");
    wait_until("both are counted", async || {
        metric(&server, "rowstream_connections_timed_out_total").await.parse::<u64>().unwrap_or(0) >= 2
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_is_answered_is_not_idle() {
    let db = TestDb::new().await;
    let config = format!("idle_timeout = \"1s\"\n[source.db]\nurl = \"{}\"\n", db.url());
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/one.sql", "select 1 as n"),
        ("endpoints/slow.sql", "select 1 as n from pg_sleep(3)"),
    ];
    let server = Launch::files(&files).start().await;
    let mut client = Kept::connect(&server).await;
    for path in ["/slow", "/one"] {
        let answer = client.ask(path).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("[{\"n\":1}]"), "{answer}");
    }
    client.is_closed().await;
}

/// A client's bytes before its time runs out.
#[tokio::test]
async fn who_does_not_ask_in_time_is_closed() {
    let server = server("header_timeout = \"300ms\"", "").await;
    for (number, said) in ["", "GET /one HTTP/1.1\r\nhost:", "PRI * HTTP/2.0\r\n"].into_iter().enumerate() {
        let mut client = TcpStream::connect(server.address()).await.expect("it listens");
        client.write_all(said.as_bytes()).await.expect("it reads");
        let mut answer = Vec::new();
        // Either normally, or with a reset if it hadn't read everything.
        let _ = wait("it is closed", client.read_to_end(&mut answer)).await;
        assert!(answer.is_empty(), "{said:?}: {answer:?}");
        wait_until(&format!("{said:?} is counted"), async || {
            let counted = metric(&server, "rowstream_connections_timed_out_total").await;
            counted.parse::<usize>().unwrap_or(0) > number
        })
        .await;
    }
    assert_eq!(ask(&server, "/one", &[]).await.status, 200);
}
