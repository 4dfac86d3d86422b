//! Spans of requests reach an OpenTelemetry collector by OTLP over HTTP, as JSON.
//!
//! The collector is an HTTP server that keeps its requests' bodies. The protocol requires no more.

use http::Request;
use serde_json::{Value, json};

use crate::support::upstream::{Speaks, Upstream, reply};
use crate::support::{Client, Ended, Launch, Prometheus, Reply, Server, TestDb, get, wait_until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

async fn collector() -> Upstream {
    Upstream::start(Speaks::Http1, |_, _| async { reply(200, "application/json", "{}") }).await
}

async fn server(collector: &Upstream, db: &TestDb, sample: &str) -> Server {
    let config = format!(
        "[traces]\nurl = \"http://{}\"\nservice = \"orders\"\n{sample}\n[source.db]\nurl = \"{}\"\n\
         [source.up]\nurl = \"http://{}\"\n",
        collector.address(),
        db.url(),
        collector.address(),
    );
    let fails = "select 1 / (3000 - n) as n, repeat('x', 1000) as t from generate_series(1, 3000) n";
    let files = [
        ("rowstream.toml", config.as_str()),
        (
            "endpoints/n/{id}.sql",
            "/*\nsource = \"db\"\n[params]\nid = \"integer\"\n*/\nselect :id as id, pg_sleep(1.1)::text as s",
        ),
        (
            "endpoints/forms.sql",
            "/*\nsource = \"db\"\n[params]\nn = { type = \"integer\", optional = true }\n*/\n\
             select 1 as one, 2 as two /*if n*/ where :n = 1 /*end*/",
        ),
        ("endpoints/list.sql", "/*\nsource = \"db\"\nfilter = true\n*/\nselect 1 as one, 2 as two"),
        ("endpoints/fails.sql", &format!("/*\nsource = \"db\"\n*/\n{fails}")),
        ("endpoints/proxy.toml", "[upstream]\nsource = \"up\"\nrequest = \"GET /asked\"\n"),
    ];
    Launch::files(&files).start().await
}

async fn ask(server: &Server, path: &str, flags: &str) -> Reply {
    let request =
        Request::get(server.url(path)).header("traceparent", format!("00-{TRACE}-{PARENT}-{flags}"));
    Client::HTTP1.send(request.body(String::new()).expect("a request")).await
}

/// All received spans.
fn spans(collector: &Upstream) -> Vec<Value> {
    let sent = collector.asked().into_iter().filter(|asked| asked.target == "/v1/traces");
    let documents = sent.map(|asked| {
        assert_eq!(
            (asked.method.as_str(), asked.headers["content-type"].as_bytes()),
            ("POST", &b"application/json"[..])
        );
        serde_json::from_str::<Value>(&asked.body).expect("JSON")
    });
    let of = |document: Value| {
        let resource = &document["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "orders");
        resource["scopeSpans"][0]["spans"].as_array().expect("a list").clone()
    };
    documents.flat_map(of).collect()
}

/// Waits for the span with this name.
async fn span(collector: &Upstream, name: &str) -> Value {
    let look = async || spans(collector).into_iter().find(|span| span["name"] == name);
    wait_until(&format!("the span {name}"), look).await
}

/// An attribute of a span as a text.
fn attribute(span: &Value, name: &str) -> String {
    let mut all = span["attributes"].as_array().expect("a list").iter();
    let found = all.find(|attribute| attribute["key"] == name).unwrap_or_else(|| panic!("{name}: {span:#}"));
    let value = found["value"].as_object().and_then(|value| value.values().next()).expect("a value");
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn time(span: &Value, name: &str) -> u64 {
    span[name].as_str().and_then(|text| text.parse().ok()).expect("nanoseconds")
}

/// The span had the statement of the file, which isn't the one that runs without an optional part or
/// with a filter.
#[tokio::test]
async fn a_span_has_the_statement_that_ran() {
    let (collector, db) = (collector().await, TestDb::new().await);
    let server = server(&collector, &db, "sample = 0").await;
    for (path, texts) in [
        ("/forms?n=1", ["where $1 = 1", "select 1 as one"]),
        ("/forms", ["select 1 as one", "as two"]),
        ("/list?two=eq.2", ["as rowstream where \"two\" =", "select 1 as one"]),
    ] {
        let before = queries(&collector).len();
        assert_eq!(ask(&server, path, "01").await.status, 200, "{path}");
        wait_until("the span arrives", async || queries(&collector).len() > before).await;
        let text = queries(&collector).pop().expect("a span");
        assert!(texts.iter().all(|part| text.contains(part)), "{path}: {text}");
        assert_eq!(text.contains("= 1"), path.contains("n=1"), "{path}: {text}");
    }
}

/// The statements of all received spans.
fn queries(collector: &Upstream) -> Vec<String> {
    let all = spans(collector).into_iter().filter(|span| span["name"] == "PostgreSQL db");
    all.map(|span| attribute(&span, "db.query.text")).collect()
}

/// The collector's credentials are in the same variable as for OpenTelemetry's own exporters.
#[tokio::test]
async fn the_variable_of_otlp_has_headers_for_the_collector() {
    let collector = collector().await;
    let config = format!(
        "[traces]\nurl = \"http://{}\"\nservice = \"orders\"\nsample = 1\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n",
        collector.address()
    );
    let files = [
        ("rowstream.toml", config.as_str()),
        ("t.sql", "create table t(n)"),
        ("endpoints/n.sql", "select 1 as n"),
    ];
    let launch = |headers| Launch::files(&files).variable("OTEL_EXPORTER_OTLP_HEADERS", headers);
    let server = launch("authorization=Bearer%20a+b==, x-tenant = shop").start().await;
    assert_eq!(get(&server.url("/n")).await.ended, Ended::Complete);
    span(&collector, "GET /n").await;
    let sent = collector.asked().remove(0);
    assert_eq!(
        (&sent.headers["authorization"], &sent.headers["x-tenant"]),
        (&"Bearer a+b==".parse().unwrap(), &"shop".parse().unwrap())
    );
    assert!(!server.stderr().contains("a+b") && !server.stdout().contains("a+b"));
    let exit = launch("no secret").try_start().await.err().expect("no start");
    assert!(exit.stderr.contains("OTEL_EXPORTER_OTLP_HEADERS isn't a list of headers"), "{}", exit.stderr);
    assert!(!exit.stderr.contains("no secret"), "{}", exit.stderr);
}

#[tokio::test]
async fn a_request_is_a_span_with_its_head_its_statement_and_its_body() {
    let (collector, db) = (collector().await, TestDb::new().await);
    let server = server(&collector, &db, "sample = 0").await;
    assert_eq!(ask(&server, "/n/7", "01").await.ended, Ended::Complete);
    let whole = span(&collector, "GET /n/{id}").await;
    assert_eq!((whole["traceId"].as_str(), whole["parentSpanId"].as_str()), (Some(TRACE), Some(PARENT)));
    assert_eq!((whole["kind"].as_u64(), &whole["status"]), (Some(2), &Value::Null));
    for (name, expected) in [
        ("http.request.method", "GET"),
        ("http.route", "/n/{id}"),
        ("url.path", "/n/7"),
        ("http.response.status_code", "200"),
        ("network.protocol.version", "1.1"),
        ("client.address", "127.0.0.1"),
        ("rowstream.rows", "1"),
        ("rowstream.ended", "complete"),
    ] {
        assert_eq!(attribute(&whole, name), expected);
    }
    assert_eq!(whole["events"][0]["name"], "slow phase");
    let all = spans(&collector);
    let of_name = |name: &str| all.iter().find(|span| span["name"] == name).expect("a span");
    let (head, body, query) = (of_name("head"), of_name("body"), of_name("PostgreSQL db"));
    for part in [head, body, query] {
        assert_eq!((&part["parentSpanId"], part["traceId"].as_str()), (&whole["spanId"], Some(TRACE)));
        assert!(time(part, "startTimeUnixNano") >= time(&whole, "startTimeUnixNano"));
        assert!(time(part, "endTimeUnixNano") <= time(&whole, "endTimeUnixNano"));
    }
    assert_eq!(time(head, "endTimeUnixNano"), time(body, "startTimeUnixNano"));
    assert!(time(head, "endTimeUnixNano") - time(head, "startTimeUnixNano") > 1_000_000_000);
    assert_eq!(
        (attribute(query, "db.system.name"), query["kind"].as_u64()),
        ("postgresql".to_owned(), Some(3))
    );
    assert!(attribute(query, "db.query.text").contains("select $1"), "{query}");
    server.wait_for_stdout(&format!("trace_id={TRACE}")).await;
    // Requests that aren't recorded and admin requests leave no span.
    ask(&server, "/n/8", "00").await;
    assert_eq!(get(&server.url("/_rowstream/live")).await.status, 200);
    assert_eq!(get(&server.url("/n/9")).await.status, 200);
    let reply = ask(&server, "/fails.ndjson", "01").await;
    assert!(matches!(reply.ended, Ended::Broken(_)));
    let failed = span(&collector, "GET /fails").await;
    let id = reply.header("rowstream-stream").expect("an id");
    assert_eq!(attribute(&failed, "rowstream.stream.id"), id);
    server.wait_for_stdout(&format!("stream_id={id}")).await;
    assert_eq!(failed["status"]["code"], 2);
    assert_eq!(attribute(&failed, "http.response.status_code"), "200");
    assert_eq!(attribute(&failed, "error.type"), "bad_value");
    let names: Vec<_> = spans(&collector).into_iter().map(|span| span["name"].clone()).collect();
    assert_eq!(
        names.iter().filter(|name| name.as_str().is_some_and(|name| name.starts_with("GET"))).count(),
        2,
        "{names:?}"
    );
}

/// A user who sees a slow request in a histogram can find its trace.
#[tokio::test]
async fn exemplars_lead_from_a_bucket_to_its_trace_and_its_stream() {
    let (collector, db) = (collector().await, TestDb::new().await);
    let server = server(&collector, &db, "sample = 0").await;
    let prometheus = Prometheus::start(&server).await;
    let stream = ask(&server, "/fails.ndjson", "01").await;
    let stream = stream.header("rowstream-stream").expect("an id").to_owned();
    assert_eq!(ask(&server, "/n/7", "01").await.status, 200);
    assert_eq!(get(&server.url("/proxy")).await.status, 200);
    let expected = [
        ("/fails", json!({"trace_id": TRACE, "stream_id": stream})),
        ("/n/{id}", json!({"trace_id": TRACE})),
    ];
    for (endpoint, ids) in expected {
        let found = prometheus.exemplars("rowstream_request_duration_seconds_bucket", endpoint).await;
        assert_eq!(found[0]["labels"], ids, "{found:?}");
        let took: f64 = found[0]["value"].as_str().and_then(|text| text.parse().ok()).expect("seconds");
        assert!((endpoint == "/n/{id}") == (took > 1.1), "{found:?}");
    }
    // A request without a trace or a stream has no exemplar, and the older format has no exemplars.
    let reply = get(&server.url("/_rowstream/metrics")).await;
    let text = reply.text();
    assert!(text.contains("rowstream_request_duration_seconds_bucket") && !text.contains(" # {"), "{text}");
    let asked =
        Request::get(server.url("/_rowstream/metrics")).header("accept", "application/openmetrics-text");
    let reply = Client::HTTP1.send(asked.body(String::new()).expect("a request")).await;
    let exemplars: Vec<_> = reply.text().lines().filter(|line| line.contains(" # {")).collect();
    assert!(!exemplars.is_empty() && exemplars.iter().all(|line| !line.contains("/proxy")), "{exemplars:?}");
}

#[tokio::test]
async fn upstreams_are_asked_in_the_span_and_the_last_spans_are_sent_at_the_end() {
    let (collector, db) = (collector().await, TestDb::new().await);
    let mut server = server(&collector, &db, "sample = 1").await;
    assert_eq!(get(&server.url("/proxy")).await.status, 200);
    server.terminate();
    server.wait_drained().await;
    let whole = span(&collector, "GET /proxy").await;
    let asked = collector.asked().into_iter().find(|asked| asked.target == "/asked").expect("it was asked");
    let (trace, id) = (whole["traceId"].as_str().expect("an id"), whole["spanId"].as_str().expect("an id"));
    assert_eq!(asked.headers["traceparent"], format!("00-{trace}-{id}-01"));
    assert!(server.stdout().contains(&format!("trace_id={trace}")), "{}", server.stdout());
}

#[tokio::test]
async fn a_collector_that_is_away_costs_no_request() {
    let (collector, db) = (collector().await, TestDb::new().await);
    let server = server(&collector, &db, "sample = 1").await;
    collector.stop().await;
    assert_eq!(get(&server.url("/n/1")).await.status, 200);
    server.wait_for_stderr("doesn't accept spans").await;
    assert_eq!(get(&server.url("/n/1")).await.status, 200);
    assert_eq!(server.count_stderr("doesn't accept spans"), 1);
}
