//! The files in `deploy/` for Prometheus and Grafana: promtool finds no errors, alerts fire when
//! they should, servers export every named metric, and a real Prometheus can answer every query of
//! the dashboards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::metrics::ELSEWHERE;
use crate::support::{Ended, Prometheus, Server, get, repository, wait_until};
use serde_json::Value;

fn deploy(name: &str) -> PathBuf {
    repository().join("deploy").join(name)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn promtool(arguments: &[&str], file: &str) {
    let mut command = Command::new("promtool");
    command.args(arguments).arg(deploy(file));
    let output = command.output().unwrap_or_else(|error| panic!("promtool: {error}: run `cargo xtask test`"));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{file}:\n{said}");
}

#[test]
fn promtool_finds_nothing_wrong() {
    promtool(&["check", "config"], "prometheus/prometheus.yml");
    promtool(&["check", "rules"], "prometheus/rowstream.rules.yml");
}

#[test]
fn alerts_fire_when_they_should() {
    promtool(&["test", "rules"], "prometheus/tests/rowstream.test.yml");
    // Every rule has a test.
    let (rules, tests) = (
        read(&deploy("prometheus/rowstream.rules.yml")),
        read(&deploy("prometheus/tests/rowstream.test.yml")),
    );
    let alerts: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 5);
    for alert in alerts {
        let tried = tests
            .split("- alertname: ")
            .skip(1)
            .any(|test| test.lines().next() == Some(alert) && !test.contains("exp_alerts: []"));
        assert!(tried, "{alert} fires in no test");
    }
}

/// The expressions of a dashboard, with the default values of its variables.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().expect("it has panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let written = targets.map(|target| target["expr"].as_str().expect("a query").to_owned());
    let chosen = |query: String| {
        let query = query.replace("$__rate_interval", "1m");
        ["$instance", "$source", "$endpoint"].iter().fold(query, |query, name| query.replace(name, ".*"))
    };
    written.map(chosen).collect()
}

/// The names in a text that look like metrics.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    let is_metric = |word: &&str| word.starts_with("rowstream_") || word.starts_with("process_");
    words.filter(is_metric).map(str::to_owned).collect()
}

/// The names of a scrape's samples, and of those that only special servers have.
async fn told(server: &Server) -> BTreeSet<String> {
    let scrape = get(&server.url("/_rowstream/metrics")).await;
    let samples = scrape.text().lines().filter(|line| !line.starts_with('#'));
    let told = samples.filter_map(|line| Some(line.split(['{', ' ']).next()?.to_owned()));
    told.chain(ELSEWHERE.map(str::to_owned)).collect()
}

/// A server that has handled streams, lookups, and failures.
async fn used() -> Server {
    let config = "memory = '128MB'\nmax_connections = 100\n[source.db]\nurl = 'sqlite:data.db'\n\
        create = ['data.sql']\nmax_row_bytes = '64KiB'\npool = { max = 4 }\n";
    let rows = "create table t as with recursive n(n) as (select 1 union all select n + 1 from n where n < 3000) \
        select n, 'some text that is rather long' as t from n;";
    let server = Server::start(&[
        ("rowstream.toml", config),
        ("data.sql", rows),
        ("endpoints/t.sql", "select n, t from t order by n"),
        (
            "endpoints/t/{id}.sql",
            "/*\nresult = 'one'\n[params]\nid = 'integer'\n*/\nselect n from t where n = :id",
        ),
        ("endpoints/fails.sql", "select n, abs(-9223372036854775807 - n / 2900) as v, t from t"),
    ])
    .await;
    ask(&server).await;
    server
}

async fn ask(server: &Server) {
    for path in ["/t.ndjson", "/t.csv", "/t/7"] {
        assert_eq!(get(&server.url(path)).await.ended, Ended::Complete, "{path}");
    }
    assert_eq!(get(&server.url("/t/0")).await.status, 404);
}

#[tokio::test]
async fn every_question_of_the_dashboards_has_an_answer() {
    let dashboards = ["grafana/http-connections.json", "grafana/streams.json"]
        .map(|name| serde_json::from_str::<Value>(&read(&deploy(name))).expect("it is JSON"));
    let expressions: Vec<_> = dashboards.iter().flat_map(expressions).collect();
    assert!(expressions.len() >= 30, "{} are few", expressions.len());
    let server = used().await;
    let rules = deploy("prometheus/rowstream.rules.yml");
    let prometheus = Prometheus::with_rules(&server, &[&rules]).await;
    prometheus.wait_for("count(up) == 1").await;
    ask(&server).await;
    for expression in &expressions {
        // A rate needs two scrapes. An invalid query fails at once.
        wait_until(expression, async || !prometheus.query(expression).await.is_empty()).await;
    }
    let told = told(&server).await;
    let named = names(&expressions.join("\n"));
    assert!(named.is_subset(&told), "{:?} are no metrics", named.difference(&told).collect::<Vec<_>>());
    for dashboard in &dashboards {
        let variables = dashboard["templating"]["list"].to_string();
        assert!(names(&variables).is_subset(&told), "{variables}");
    }
    rules_hold(&prometheus, &server, &rules).await;
}

/// Checks that the rules are evaluated and record their metrics, and that nothing fires on a
/// healthy server until a stream is aborted.
async fn rules_hold(prometheus: &Prometheus, server: &Server, rules: &Path) {
    let text = read(rules);
    let (named, told) = (names(&text), told(server).await);
    assert!(named.is_subset(&told), "{:?} are no metrics", named.difference(&told).collect::<Vec<_>>());
    for record in text.lines().filter_map(|line| line.trim().strip_prefix("- record: ")) {
        wait_until(record, async || !prometheus.query(record).await.is_empty()).await;
    }
    assert_eq!(prometheus.query("ALERTS").await, Vec::<f64>::new(), "all is well");
    assert!(matches!(get(&server.url("/fails.ndjson")).await.ended, Ended::Broken(_)));
    prometheus
        .wait_for("ALERTS{alertname=\"RowstreamHalfAnswers\", endpoint=\"/fails\", alertstate=\"firing\"}")
        .await;
    let evaluated = prometheus.rules().await;
    let groups = evaluated["data"]["groups"].as_array().expect("a list").iter();
    let all: Vec<_> = groups.flat_map(|group| group["rules"].as_array().expect("a list")).collect();
    assert_eq!(all.len(), text.matches("\n  - ").count());
    assert!(all.iter().all(|rule| rule["health"] == "ok"), "{evaluated:#}");
}
