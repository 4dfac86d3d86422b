//! A real Consul agent with access control. Replicas register with it, and sources find their hosts
//! through its API and its DNS. `cargo xtask consul` builds it and runs these tests.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use http::{Method, Request};
use serde_json::{Value, json};

use crate::registry::{TOKEN, instance, server, until_from};
use crate::support::{Client, Launch, free_ports, get, wait_until};

/// A running agent, both server and client. Dropping it ends it.
struct Agent {
    child: Child,
    http: SocketAddr,
    dns: SocketAddr,
}

impl Agent {
    async fn start() -> Self {
        let program = std::env::var_os("ROWSTREAM_TEST_CONSUL").expect("run `cargo xtask consul`");
        let ((http, dns), (serf, rpc)) = (free_ports(), free_ports());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("agent.json");
        let tokens = json!({"initial_management": TOKEN, "agent": TOKEN, "dns": TOKEN});
        let ports = json!({
            "http": http.port(), "dns": dns.port(), "serf_lan": serf.port(), "server": rpc.port(),
            "serf_wan": -1, "grpc": -1, "grpc_tls": -1,
        });
        let acl = json!({"enabled": true, "default_policy": "deny", "tokens": tokens});
        std::fs::write(&file, json!({"acl": acl, "ports": ports}).to_string()).expect("it can be written");
        let mut command = Command::new(program);
        command.args(["agent", "-dev", "-bind=127.0.0.1", "-client=127.0.0.1", "-node=test"]);
        command.arg(format!("-config-file={}", file.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let agent = Self { child: command.spawn().expect("the agent can be started"), http, dns };
        // It accepts requests before it knows the permissions of tokens.
        wait_until("the agent starts", async || agent.is_ready().await).await;
        agent
    }

    async fn is_ready(&self) -> bool {
        tokio::net::TcpStream::connect(self.http).await.is_ok()
            && self
                .ask(Method::GET, "catalog/nodes", json!(null))
                .await
                .is_some_and(|nodes| nodes[0].is_object())
    }

    /// The response as JSON. `None` if the agent refuses.
    async fn ask(&self, method: Method, name: &str, body: Value) -> Option<Value> {
        let request = Request::builder().method(method).uri(format!("http://{}/v1/{name}", self.http));
        let request = request.header("x-consul-token", TOKEN).body(body.to_string()).expect("a request");
        let reply = Client::HTTP1.send(request).await;
        (reply.status == 200).then(|| serde_json::from_str(reply.text()).unwrap_or_default())
    }

    /// Waits until this many instances of a service pass their checks.
    async fn until_passing(&self, service: &str, count: usize) -> Vec<Value> {
        let name = format!("health/service/{service}?passing=true");
        wait_until(&format!("{count} of {service}"), async || {
            let found = self.ask(Method::GET, &name, json!(null)).await.unwrap_or_default();
            let found = found.as_array().cloned().unwrap_or_default();
            if found.len() == count { Ok(found) } else { Err(format!("{found:?}")) }
        })
        .await
    }

    async fn register(&self, id: &str, port: u16) {
        let service = json!({
            "Name": "orders", "ID": id, "Address": "127.0.0.1", "Port": port, "Tags": ["v2"],
            "Check": {"TTL": "10m", "Status": "passing"},
        });
        assert!(self.ask(Method::PUT, "agent/service/register", service).await.is_some(), "{id}");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test]
#[ignore = "`cargo xtask consul` has the agent"]
async fn a_replica_is_listed_while_it_serves() {
    let agent = Agent::start().await;
    let launch = |token: &'static str| {
        let config = format!(
            "drain_delay = \"2s\"\n[discovery]\nconsul = {{ url = \"http://{}\", tags = [\"orders\"], token = \"${{CONSUL_TOKEN}}\" }}\n\
             [source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n",
            agent.http
        );
        let files = [
            ("rowstream.toml", config.as_str()),
            ("t.sql", "create table t(n)"),
            ("endpoints/n.sql", "select 1 as n"),
        ];
        Launch::files(&files).variable("CONSUL_TOKEN", token).start()
    };
    let server = launch(TOKEN).await;
    let [found] = &agent.until_passing("rowstream", 1).await[..] else { panic!("one instance") };
    let address: SocketAddr = server.address().parse().expect("an address");
    assert_eq!(
        (&found["Service"]["Address"], &found["Service"]["Port"], &found["Service"]["Tags"]),
        (&json!("127.0.0.1"), &json!(address.port()), &json!(["orders"]))
    );
    server.terminate();
    agent.until_passing("rowstream", 0).await;
    assert_eq!(get(&server.url("/n")).await.status, 200, "it serves on while it drains");
    // A client that the agent doesn't know gets an error.
    let stranger = launch("00000000-0000-0000-0000-000000000009").await;
    stranger.wait_for_stderr("is not registered: http://").await;
    assert_eq!(get(&stranger.url("/n")).await.status, 200);
}

#[tokio::test]
#[ignore = "`cargo xtask consul` has the agent"]
async fn a_source_finds_its_hosts() {
    let agent = Agent::start().await;
    let (a, b) = (instance("a").await, instance("b").await);
    agent.register("a", a.address().port()).await;
    agent.register("b", b.address().port()).await;
    let api = format!(
        "consul = \"http://{}\", service = \"orders\", tag = \"v2\", token = \"${{CONSUL_TOKEN}}\"",
        agent.http
    );
    let dns = format!("srv = \"orders.service.consul\", resolver = \"{}\"", agent.dns);
    let (by_api, by_dns) = (server(&api).await, server(&dns).await);
    until_from(&by_api, &["a", "b"]).await;
    until_from(&by_dns, &["a", "b"]).await;
    assert!(agent.ask(Method::PUT, "agent/check/fail/service:b", json!(null)).await.is_some());
    until_from(&by_api, &["a"]).await;
    until_from(&by_dns, &["a"]).await;
    assert!(agent.ask(Method::PUT, "agent/service/deregister/a", json!(null)).await.is_some());
    assert!(agent.ask(Method::PUT, "agent/check/pass/service:b", json!(null)).await.is_some());
    until_from(&by_api, &["b"]).await;
    until_from(&by_dns, &["b"]).await;
    // More than its DNS returns over UDP.
    let more = [instance("c").await, instance("d").await, instance("e").await, instance("f").await];
    for (id, instance) in ["c", "d", "e", "f"].iter().zip(&more) {
        agent.register(id, instance.address().port()).await;
    }
    until_from(&by_api, &["b", "c", "d", "e", "f"]).await;
    until_from(&by_dns, &["b", "c", "d", "e", "f"]).await;
}
