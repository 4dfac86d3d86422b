//! A real Prometheus that scrapes one server and answers queries.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::net::TcpStream;

use super::ports::free_ports;
use super::{Server, get, wait_until};

/// A running Prometheus. Dropping it ends it.
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Scrapes `server` five times a second.
    pub async fn start(server: &Server) -> Self {
        Self::with_rules(server, &[]).await
    }

    /// Also evaluates these files of rules, equally often.
    pub async fn with_rules(server: &Server, rules: &[&Path]) -> Self {
        let rules: Vec<_> = rules.iter().map(|path| format!("{:?}", path.display().to_string())).collect();
        let config = format!(
            "global: {{ scrape_interval: 200ms, evaluation_interval: 200ms }}\nrule_files: [{}]\nscrape_configs:\n- job_name: rowstream\n  metrics_path: /_rowstream/metrics\n  \
             static_configs: [{{ targets: [\"{}\"] }}]\n",
            rules.join(", "),
            server.address()
        );
        Self::with_config(&config).await
    }

    /// Requests its scrape targets from `server`.
    pub async fn discovering(server: &Server) -> Self {
        let config = format!(
            "global: {{ scrape_interval: 200ms }}\nscrape_configs:\n- job_name: rowstream\n  \
             http_sd_configs: [{{ url: \"{}\", refresh_interval: 1s }}]\n",
            server.url("/_rowstream/sd")
        );
        Self::with_config(&config).await
    }

    async fn with_config(config: &str) -> Self {
        // Another process can take the port before Prometheus uses it. Then we choose another one.
        for _ in 0..5 {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let file = folder.path().join("prometheus.yml");
            std::fs::write(&file, config).expect("the folder is writable");
            let (address, _) = free_ports();
            let mut command = Command::new("prometheus");
            command.arg(format!("--config.file={}", file.display()));
            command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
            command.arg(format!("--web.listen-address={address}"));
            command.arg("--enable-feature=exemplar-storage");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child =
                command.spawn().unwrap_or_else(|fault| panic!("prometheus: {fault}: run `cargo xtask test`"));
            let mut prometheus = Self { child, address, _folder: folder };
            if prometheus.is_ready().await {
                return prometheus;
            }
        }
        panic!("Prometheus does not start");
    }

    async fn is_ready(&mut self) -> bool {
        let ready = format!("http://{}/-/ready", self.address);
        wait_until("it is ready or ends", async || match self.child.try_wait() {
            Ok(None) if TcpStream::connect(self.address).await.is_err() => None,
            Ok(None) => (get(&ready).await.status == 200).then_some(true),
            _ => Some(false),
        })
        .await
    }

    /// The current values of the series that a query returns.
    pub async fn query(&self, query: &str) -> Vec<f64> {
        let encoded = utf8_percent_encode(query, NON_ALPHANUMERIC);
        let reply = get(&format!("http://{}/api/v1/query?query={encoded}", self.address)).await.json();
        assert_eq!(reply["status"], "success", "{query}: {reply}");
        let series = reply["data"]["result"].as_array().expect("a vector");
        let value = |series: &Value| series["value"][1].as_str().expect("a text").parse().expect("a number");
        series.iter().map(value).collect()
    }

    /// Waits for exemplars of an endpoint's series with this name, and returns them.
    pub async fn exemplars(&self, name: &str, endpoint: &str) -> Vec<Value> {
        let query = format!("{name}{{endpoint=\"{endpoint}\"}}");
        let encoded = utf8_percent_encode(&query, NON_ALPHANUMERIC);
        let url =
            format!("http://{}/api/v1/query_exemplars?query={encoded}&start=0&end=9999999999", self.address);
        wait_until(&format!("exemplars of {query}"), async || {
            let reply = get(&url).await.json();
            assert_eq!(reply["status"], "success", "{query}: {reply}");
            let series = reply["data"].as_array().expect("a list").iter();
            let of = |series: &Value| series["exemplars"].as_array().cloned().unwrap_or_default();
            let found: Vec<_> = series.flat_map(of).collect();
            (!found.is_empty()).then_some(found)
        })
        .await
    }

    /// The response of `/api/v1/rules`.
    pub async fn rules(&self) -> Value {
        get(&format!("http://{}/api/v1/rules", self.address)).await.json()
    }

    /// Waits until a query returns one series, and returns its value. A query with a comparison
    /// returns no series until the comparison is true.
    pub async fn wait_for(&self, query: &str) -> f64 {
        wait_until(query, async || match self.query(query).await[..] {
            [value] => Ok(value),
            ref others => Err(format!("{others:?}")),
        })
        .await
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The output of `promtool check metrics` for a scrape; empty if everything is correct.
pub fn promtool(metrics: &str) -> String {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().unwrap_or_else(|fault| panic!("promtool: {fault}: run `cargo xtask test`"));
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(metrics.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success() || !said.is_empty(), "promtool failed and said nothing");
    said
}
