//! Upstreams from a registry: a fake Consul agent that implements the documented HTTP API, and a
//! small DNS server with SRV records. [`crate::consul`] uses the real agent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use simple_dns::rdata::{RData, SRV};
use simple_dns::{CLASS, Name, Packet, ResourceRecord};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, UdpSocket};

use crate::support::upstream::{Asked, Speaks, Upstream, reply};
use crate::support::{Launch, Server, get, wait_until};
use serde_json::json;

pub(crate) const TOKEN: &str = "5c9ff0a2-2a1b-4f3b-9a4d-0c6a8e5f7b11";

/// An instance that responds with its own name and the request's `Host`.
pub(crate) async fn instance(name: &'static str) -> Upstream {
    Upstream::start(Speaks::Http1, move |_, asked: Asked| async move {
        let host = asked.headers["host"].to_str().unwrap_or_default().to_owned();
        reply(200, "application/json", json!({"name": name, "host": host}).to_string())
    })
    .await
}

/// A server whose source `orders` is found by a registry. Each connection serves one request.
pub(crate) async fn server(discover: &str) -> Server {
    let config = format!(
        "[source.orders]\nurl = \"http://orders.internal/v1\"\ndiscover = {{ {discover}, refresh = \"1s\" }}\n\
         allow = [\"127.0.0.1\", \"::1\"]\npool = {{ max_age = \"1ms\" }}\n"
    );
    let endpoint = "[upstream]\nsource = \"orders\"\nrequest = \"GET /who\"";
    let files = [("rowstream.toml", config.as_str()), ("endpoints/who.toml", endpoint)];
    Launch::files(&files).variable("CONSUL_TOKEN", TOKEN).start().await
}

/// Sends requests until the responses of twelve consecutive ones are from these instances.
pub(crate) async fn until_from(server: &Server, names: &[&str]) {
    wait_until(&format!("all answers are from {names:?}"), async || {
        let mut seen = Vec::new();
        for _ in 0..12 {
            let reply = get(&server.url("/who")).await;
            assert_eq!(reply.status, 200, "{} {}", reply.text(), server.stderr());
            assert_eq!(reply.json()["host"], "orders.internal");
            seen.push(reply.json()["name"].as_str().expect("a name").to_owned());
            // A connection serves no request after its maximum age of a millisecond.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        seen.sort();
        seen.dedup();
        if seen == names { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

async fn metric(server: &Server, name: &str) -> f64 {
    let text = get(&server.url("/_rowstream/metrics")).await.text().to_owned();
    let line = format!("{name}{{source=\"orders\"}} ");
    let value = text.lines().find_map(|line_of| line_of.strip_prefix(&line));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// An agent's response: a status, and a list in the form of "List Service Instances for a Service".
type Said = Arc<Mutex<(u16, String)>>;

async fn agent(said: &Said) -> Upstream {
    let said = Arc::clone(said);
    Upstream::start(Speaks::Http1, move |_, asked: Asked| {
        let said = Arc::clone(&said);
        async move {
            let is_known = asked.headers.get("x-consul-token").is_some_and(|token| token == TOKEN);
            let is_asked = asked.target == "/v1/health/service/orders?passing=true&tag=v2";
            let (status, list) = said.lock().expect("nobody panics").clone();
            match (is_known, is_asked) {
                (true, true) => reply(status, "application/json", list),
                (true, false) => reply(404, "text/plain", asked.target),
                (false, _) => reply(403, "text/plain", "Permission denied"),
            }
        }
    })
    .await
}

/// Instances in Consul's form. One of them has the address of its node.
fn listed(instances: &[&Upstream]) -> String {
    let entry = |(at, one): (usize, &&Upstream)| {
        let (node, own) = if at == 0 { ("127.0.0.1", "") } else { ("192.0.2.1", "127.0.0.1") };
        json!({
            "Node": {"ID": "40e4a748-2192-161a-0510-9bf59fe950b5", "Node": "n", "Address": node, "Datacenter": "dc1"},
            "Service": {"ID": "orders", "Service": "orders", "Tags": ["v2"], "Address": own, "Port": one.address().port()},
            "Checks": [{"CheckID": "service:orders", "Status": "passing"}],
        })
    };
    json!(instances.iter().enumerate().map(entry).collect::<Vec<_>>()).to_string()
}

#[tokio::test]
async fn consul_says_where_a_service_is() {
    let (a, b) = (instance("a").await, instance("b").await);
    let said: Said = Arc::new(Mutex::new((200, listed(&[&a, &b]))));
    let agent = agent(&said).await;
    let discover = format!(
        "consul = \"http://{}\", service = \"orders\", tag = \"v2\", token = \"${{CONSUL_TOKEN}}\"",
        agent.address()
    );
    let server = server(&discover).await;
    until_from(&server, &["a", "b"]).await;
    server.wait_for_stderr("(service orders) lists 2: ").await;
    assert_eq!(metric(&server, "rowstream_discovered_instances").await, 2.0);
    let say = |status, list: String| *said.lock().expect("nobody panics") = (status, list);

    say(200, listed(&[&b]));
    until_from(&server, &["b"]).await;
    assert_eq!(metric(&server, "rowstream_discovered_instances").await, 1.0);

    // While it can't be reached, its last response stays valid.
    say(500, "No cluster leader".to_owned());
    let asked = agent.count("/v1/health");
    while agent.count("/v1/health") < asked + 2 {
        until_from(&server, &["b"]).await;
    }
    server.wait_for_stderr("so the 1 instances of its last answer stay in use: it answers 500").await;
    assert!(metric(&server, "rowstream_discovery_failures_total").await >= 2.0);
    assert_eq!(server.count_stderr("of its last answer"), 1, "it is said once");

    say(200, listed(&[&a]));
    until_from(&server, &["a"]).await;
    // An empty list is a valid response.
    say(200, "[]".to_owned());
    wait_until("a refusal", async || get(&server.url("/who")).await.status == 503).await;
    server.wait_for_stdout("lists no instance").await;
    assert!(!server.stderr().contains(TOKEN) && !server.stdout().contains(TOKEN));
}

/// Each waiting request queried the registry again, one after another. With twenty of them and a
/// registry that hangs, the last one waited for twenty timeouts.
#[tokio::test]
async fn those_who_wait_for_a_registry_have_one_answer() {
    let hanging = Upstream::start(Speaks::Http1, |_, _| async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        reply(500, "text/plain", "No cluster leader")
    })
    .await;
    let server = server(&format!("consul = \"http://{}\", service = \"orders\"", hanging.address())).await;
    let asked_before = hanging.count("/v1/health");
    let url = server.url("/who");
    let ask = || async { get(&url).await.json()["code"].clone() };
    let codes = futures_util::future::join_all((0..20).map(|_| ask())).await;
    assert!(codes.iter().all(|code| code == "source_unavailable"), "{codes:?}");
    let asked = hanging.count("/v1/health") - asked_before;
    // One query for the first request, one for those that arrived after it had begun, and one for
    // late requests on a busy machine.
    assert!((1..=5).contains(&asked), "{asked}");
}

#[tokio::test]
async fn a_registry_that_never_answered_is_an_error_that_says_so() {
    let said: Said = Arc::new(Mutex::new((500, String::new())));
    let agent = agent(&said).await;
    let server = server(&format!("consul = \"http://{}\", service = \"orders\"", agent.address())).await;
    assert_eq!(get(&server.url("/who")).await.json()["code"], "source_unavailable");
    server.wait_for_stderr("can't be queried: it answers 403").await;
    assert_eq!(metric(&server, "rowstream_discovered_instances").await, 0.0);
}

/// A DNS server with SRV records for these ports of `localhost`, by priority, under one name. If it
/// speaks TCP, it returns only the first record over UDP without the truncation flag, like
/// Consul's.
async fn dns(ports: Vec<(u16, u16)>, speaks_tcp: bool) -> SocketAddr {
    let (tcp, udp) = same_port().await;
    let address = udp.local_addr().expect("it is bound");
    let over_tcp = ports.clone();
    let over_udp = if speaks_tcp { ports[..1].to_vec() } else { ports };
    tokio::spawn(async move {
        let mut question = [0; 512];
        while let Ok((length, from)) = udp.recv_from(&mut question).await {
            let answer = answer(&question[..length], &over_udp);
            udp.send_to(&answer, from).await.expect("it is there");
        }
    });
    tokio::spawn(async move {
        while speaks_tcp && let Ok((mut stream, _)) = tcp.accept().await {
            let mut question = vec![0; usize::from(stream.read_u16().await.expect("a length"))];
            stream.read_exact(&mut question).await.expect("a question");
            let answer = answer(&question, &over_tcp);
            stream.write_u16(answer.len() as u16).await.expect("it is there");
            stream.write_all(&answer).await.expect("it is there");
        }
    });
    address
}

/// A port that's free for TCP and UDP. Clients of other tests have ports of UDP, too.
async fn same_port() -> (TcpListener, UdpSocket) {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().expect("it is bound")).await {
            return (tcp, udp);
        }
    }
}

fn answer(question: &[u8], ports: &[(u16, u16)]) -> Vec<u8> {
    let asked = Packet::parse(question).expect("a question");
    let mut answer = Packet::new_reply(asked.id());
    let name = asked.questions[0].qname.clone();
    assert_eq!(name.to_string(), "_http._tcp.orders.test");
    answer.questions = asked.questions.clone();
    for (priority, port) in ports {
        let target = Name::new_unchecked("localhost");
        let srv = SRV { priority: *priority, weight: 0, port: *port, target };
        answer.answers.push(ResourceRecord::new(name.clone(), CLASS::IN, 5, RData::SRV(srv)));
    }
    answer.build_bytes_vec_compressed().expect("a packet")
}

#[tokio::test]
async fn srv_records_say_where_a_service_is() {
    let (a, b, c) = (instance("a").await, instance("b").await, instance("c").await);
    let ports = |one: &Upstream, priority| (priority, one.address().port());
    for speaks_tcp in [false, true] {
        let resolver = dns(vec![ports(&a, 1), ports(&b, 1), ports(&c, 9)], speaks_tcp).await;
        let server = server(&format!("srv = \"_http._tcp.orders.test\", resolver = \"{resolver}\"")).await;
        until_from(&server, &["a", "b"]).await;
        assert_eq!(metric(&server, "rowstream_discovered_instances").await, 3.0);
    }
    // Records with a higher number are used if the others can't be reached.
    let refuses = TcpSocket::new_v4().expect("a socket");
    refuses.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let port = refuses.local_addr().expect("it is bound").port();
    let resolver = dns(vec![(1, port), ports(&c, 9)], false).await;
    let server = server(&format!("srv = \"_http._tcp.orders.test\", resolver = \"{resolver}\"")).await;
    until_from(&server, &["c"]).await;
}

#[tokio::test]
async fn what_is_wrong_in_discover_is_said() {
    let wrong = "[source.a]\nurl = [\"http://a\", \"http://b\"]\ndiscover = { consul = \"x\", service = \"a/b\", refresh = \"10ms\" }\n\
                 [source.b]\nurl = \"http://b\"\nallow = [\"10.0.0.0/8\"]\ndiscover = { srv = \"a b\", resolver = \"x\" }\n\
                 [source.c]\nurl = \"http://c\"\nallow = [\"10.0.0.0/8\"]\ndiscover = { refresh = \"10s\" }\n";
    let endpoint = "[upstream]\nsource = \"b\"\nrequest = \"GET /who\"";
    let files = [("rowstream.toml", wrong), ("endpoints/who.toml", endpoint)];
    let exit = Launch::files(&files).try_start().await.err().expect("no start");
    for words in [
        "isn't the URL of a host",
        "cannot be the name of a service",
        "a registry can't be queried that often",
        "with `discover`, `url` is one URL with a name",
        "no setting says which of them are allowed",
        "isn't a name of SRV records",
        "isn't the address of a DNS server",
        "`discover` asks one registry",
    ] {
        assert!(exit.stderr.contains(words), "{words}: {}", exit.stderr);
    }
}
