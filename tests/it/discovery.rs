//! Replicas can be found: by a real Prometheus through `/_rowstream/sd`, and by a Consul agent
//! through their registration.
//!
//! The agent is a fake that implements Consul's documented HTTP API.

use crate::support::upstream::{Asked, Speaks, Upstream, reply};
use crate::support::{Launch, Prometheus, Server, get, wait_until};
use serde_json::{Value, json};

const TOKEN: &str = "5c9ff0a2-2a1b-4f3b-9a4d-0c6a8e5f7b11";
const ENDPOINT: (&str, &str) = ("endpoints/n.sql", "select 1 as n");

fn config(more: &str) -> String {
    format!("{more}\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n")
}

fn launch(config: &str) -> Launch {
    Launch::files(&[("rowstream.toml", config), ("t.sql", "create table t(n)"), ENDPOINT])
}

#[tokio::test]
async fn prometheus_finds_all_replicas_by_one() {
    let peer = launch(&config("")).start().await;
    let server =
        launch(&config(&format!("discovery = {{ peers = [\"{}\"] }}", peer.address()))).start().await;
    let prometheus = Prometheus::discovering(&server).await;
    prometheus.wait_for("count(up == 1) == 2").await;
    for replica in [&server, &peer] {
        prometheus.wait_for(&format!("up{{instance=\"{}\"}} == 1", replica.address())).await;
    }
}

#[tokio::test]
async fn the_address_is_that_of_the_configuration_or_of_the_request() {
    let targets = async |server: &Server| -> Value {
        let reply = get(&server.url("/_rowstream/sd")).await;
        assert_eq!((reply.status.as_u16(), reply.header("content-type")), (200, Some("application/json")));
        reply.json()[0].clone()
    };
    let server = launch(&config("")).start().await;
    let own = targets(&server).await;
    assert_eq!(own["targets"], json!([server.address()]));
    assert_eq!(own["labels"], json!({"__metrics_path__": "/_rowstream/metrics", "__scheme__": "http"}));
    let port = server.address().rsplit(':').next().expect("a port");
    let named = launch(&config("discovery = { address = \"replica-1\" }")).start().await;
    let named_port = named.address().rsplit(':').next().expect("a port");
    assert_eq!(targets(&named).await["targets"], json!([format!("replica-1:{named_port}")]));
    let mapped = launch(&config("discovery = { address = \"replica-1:80\" }")).start().await;
    assert_eq!(targets(&mapped).await["targets"], json!(["replica-1:80"]));
    assert_ne!(port, named_port);
}

/// An agent that requires [`TOKEN`], and fails the first requests.
async fn agent(refused: usize) -> Upstream {
    Upstream::start(Speaks::Http1, move |seen, asked: Asked| async move {
        let token = asked.headers.get("x-consul-token").map(|token| token.as_bytes() == TOKEN.as_bytes());
        match (token, asked.method.as_str()) {
            (Some(true), "PUT") if seen.count() > refused => reply(200, "application/json", ""),
            (Some(true), "PUT") => reply(500, "text/plain", "No cluster leader"),
            _ => reply(403, "text/plain", "Permission denied"),
        }
    })
    .await
}

async fn until(agent: &Upstream, target: &str, count: usize) -> Asked {
    wait_until(&format!("{count} of {target}"), async || agent.count(target) >= count).await;
    agent.asked().into_iter().filter(|asked| asked.target.starts_with(target)).last().expect("it was asked")
}

const REGISTER: &str = "/v1/agent/service/register";
const DEREGISTER: &str = "/v1/agent/service/deregister/";

fn with(agent: &Upstream, more: &str) -> String {
    config(&format!(
        "drain_delay = \"2s\"\n[discovery]\nconsul = {{ url = \"http://{}\", tags = [\"orders\", \"v1\"], token = \"${{CONSUL_TOKEN}}\"{more} }}",
        agent.address()
    ))
}

#[tokio::test]
async fn a_replica_is_registered_while_it_serves() {
    let agent = agent(0).await;
    let server = launch(&with(&agent, "")).variable("CONSUL_TOKEN", TOKEN).start().await;
    let service: Value = serde_json::from_str(&until(&agent, REGISTER, 1).await.body).expect("JSON");
    let port: u16 = server.address().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    assert_eq!(
        (&service["Name"], &service["Tags"], &service["Address"], &service["Port"]),
        (&json!("rowstream"), &json!(["orders", "v1"]), &json!("127.0.0.1"), &json!(port))
    );
    // The URL that the agent polls from now on.
    let ready = service["Check"]["HTTP"].as_str().expect("a URL");
    assert_eq!(get(ready).await.status, 200);
    server.wait_for_stderr("Consul: registered as").await;
    server.terminate();
    let gone = until(&agent, DEREGISTER, 1).await;
    assert_eq!(gone.target, format!("{DEREGISTER}{}", service["ID"].as_str().expect("an id")));
    assert_eq!(gone.headers["x-consul-token"], TOKEN);
    // It still serves clients that don't know yet, until the drain ends.
    assert_eq!(get(&server.url("/n")).await.status, 200);
    assert!(!server.stderr().contains(TOKEN) && !server.stdout().contains(TOKEN));
}

#[tokio::test]
async fn an_agent_that_cannot_be_told_is_told_again() {
    let agent = agent(1).await;
    let server =
        launch(&with(&agent, ", service = \"orders\"")).variable("CONSUL_TOKEN", TOKEN).start().await;
    server.wait_for_stderr("is not registered: http://").await;
    assert!(server.stderr().contains("No cluster leader"), "{}", server.stderr());
    assert_eq!(get(&server.url("/n")).await.status, 200);
    until(&agent, REGISTER, 2).await;
    server.wait_for_stderr("registered as \"orders-127.0.0.1-").await;
}

#[tokio::test]
async fn what_nobody_can_reach_is_not_registered() {
    let agent = agent(0).await;
    let wildcard = launch(&with(&agent, "")).variable("CONSUL_TOKEN", TOKEN).listen("0.0.0.0:0");
    let mut server = wildcard.start().await;
    assert_eq!(server.wait_exit().await.code(), Some(1));
    assert!(server.stderr().contains("`address = \"10.0.0.5\"` in [discovery]"), "{}", server.stderr());
    assert_eq!(agent.count(REGISTER), 0);
    let wrong = config(
        "[discovery]\naddress = \"a b\"\npeers = [\"b\"]\nconsul = { url = \"127.0.0.1:8500\", service = \"a/b\" }",
    );
    let exit = launch(&wrong).try_start().await.err().expect("no start");
    for words in [
        "isn't an address of a replica",
        "has no port",
        "isn't the URL of a host",
        "cannot be the name of a service",
    ] {
        assert!(exit.stderr.contains(words), "{words}: {}", exit.stderr);
    }
}
