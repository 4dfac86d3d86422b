//! The scripts of `testdata/wire` certify a client of the framed responses. The reference client
//! there passes, and a client that reads lines until their end is caught by each cut.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

#[path = "../../xtask/src/wire/peer.rs"]
mod peer;
#[path = "../../xtask/src/wire/script.rs"]
mod script;

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{get, repository};

/// The parts that the reference client reads.
const PARTS: [&str; 5] = ["ndjson", "json-seq", "json", "csv", "trailers"];

/// Counts lines that look like rows, and trusts its library to notice a missing end.
const NAIVE: &str = r#"
import json, sys, urllib.request
for url in sys.argv[1:]:
    rows, outcome = [], "complete"
    try:
        with urllib.request.urlopen(url) as response:
            for line in response:
                if line.endswith(b"}\n") and b"$rowstream" not in line:
                    rows.append(json.loads(line))
    except Exception:
        outcome = "incomplete"
    print(json.dumps({"outcome": outcome, "rows": rows}))
"#;

/// The faults that reach it as exceptions.
const NOTICED: [&str; 3] = ["ndjson-cut-in-chunk", "ndjson-cut-in-chunk-size", "ndjson-reset"];

/// Starts a peer, and returns its URL. It ends with the tests.
pub(crate) fn start() -> String {
    let scripts = script::read(&repository().join("testdata/wire")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || peer::serve(&listener, scripts));
    url
}

/// The scripts of these parts as their files have them.
pub(crate) fn scripts(parts: &[&str]) -> Vec<Value> {
    let names = script::read(&repository().join("testdata/wire")).unwrap();
    let file = |name: &str| repository().join("testdata/wire").join(name).with_extension("json");
    let scripts = names.iter().map(|script| fs::read_to_string(file(&script.name)).unwrap());
    let scripts = scripts.map(|text| serde_json::from_str(&text).unwrap());
    scripts.filter(|script: &Value| parts.contains(&text(script, "part"))).collect()
}

pub(crate) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_else(|| panic!("{member}: {value}"))
}

/// The differences between each script's `expect` and the client's report, without those that
/// pass.
async fn failures(client: &[&str], scripts: &[Value]) -> Vec<(String, Vec<String>)> {
    let url = start();
    let mut command = Command::new("python3");
    command.args(client);
    command.args(
        scripts.iter().map(|script| format!("{url}/{}{}", text(script, "name"), text(script, "start"))),
    );
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reports = String::from_utf8(output.stdout).unwrap();
    assert_eq!(reports.lines().count(), scripts.len(), "{reports}");
    let results = get(&format!("{url}/_results")).await.json();
    let judged = scripts.iter().zip(reports.lines()).map(|(script, report)| {
        let (name, report) = (text(script, "name"), serde_json::from_str(report).unwrap());
        (name.to_owned(), judge(&script["expect"], &report, &results[name]))
    });
    judged.filter(|(_, differences)| !differences.is_empty()).collect()
}

/// Compares a report, and the requests that the peer saw, with the expected ones.
pub(crate) fn judge(expect: &Value, report: &Value, seen: &Value) -> Vec<String> {
    let mut differences: Vec<String> =
        seen["mismatches"].as_array().unwrap().iter().map(ToString::to_string).collect();
    let mut compare = |what: &str, is_met: bool, reported: &Value| {
        if !is_met {
            differences.push(format!("{what}: {reported}"));
        }
    };
    compare("outcome", report["outcome"] == expect["outcome"], report);
    compare("code", report["error"]["code"] == expect["code"], report);
    let requests = json!(seen["requests"].as_array().unwrap().len());
    compare("requests", requests == expect["requests"], seen);
    let rows = report["rows"].as_array().unwrap();
    let are_met = match &expect["rows"] {
        Value::Array(expected) if expect["outcome"] == "complete" => rows == expected,
        Value::Array(expected) => expected.starts_with(rows),
        expected => rows.len() == expected["count"] && report["sha256"] == expected["sha256"],
    };
    compare("rows", are_met, report);
    differences
}

#[tokio::test]
async fn the_reference_client_passes() {
    let client = repository().join("testdata/wire/client.py");
    let scripts = scripts(&PARTS);
    assert!(scripts.len() > 60, "{}", scripts.len());
    assert_eq!(failures(&[client.to_str().unwrap()], &scripts).await, []);
}

/// Python's library ends such a loop without an exception after most cuts.
#[tokio::test]
async fn a_client_that_reads_until_the_end_is_caught() {
    let mut scripts = scripts(&["ndjson"]);
    // It would wait in these for as long as the peer does.
    scripts.retain(|script| !text(script, "name").contains("silence"));
    let failures = failures(&["-c", NAIVE], &scripts).await;
    let passed = |name: &&str| !failures.iter().any(|(failed, _)| failed == name);
    let names = |is_complete: bool| {
        let scripts =
            scripts.iter().filter(|script| (script["expect"]["outcome"] == "complete") == is_complete);
        scripts.map(|script| text(script, "name")).filter(passed).collect::<Vec<_>>()
    };
    assert!(names(true).contains(&"ndjson-complete"), "{failures:?}");
    let missed: Vec<_> = names(false).into_iter().filter(|name| !NOTICED.contains(name)).collect();
    assert_eq!(missed, [""; 0], "the client isn't caught");
}

#[tokio::test]
async fn the_peer_notes_wrong_requests() {
    let url = start();
    for _ in 0..2 {
        get(&format!("{url}/ndjson-resume/rows.ndjson?_end=1")).await;
    }
    assert_eq!(get(&format!("{url}/ndjson-resume/rows.ndjson?_end=1")).await.status, 404);
    let seen = &get(&format!("{url}/_results")).await.json()["ndjson-resume"];
    assert_eq!(seen["requests"].as_array().unwrap().len(), 3);
    let notes = [
        "request 2: the parameter _after is missing; send \"cursor-2\"",
        "request 3: the script has no further exchange; stop after the last one",
    ];
    assert_eq!(seen["mismatches"], json!(notes));
}

#[test]
fn every_script_tells_its_story() {
    let scripts = scripts(&["ndjson", "json-seq", "json", "csv", "trailers", "sse"]);
    assert_eq!(scripts.len(), script::read(&repository().join("testdata/wire")).unwrap().len());
    for script in scripts {
        let (name, part, outcome) =
            (text(&script, "name"), text(&script, "part"), text(&script["expect"], "outcome"));
        assert!(name.starts_with(part) && text(&script, "story").ends_with('.'), "{name}");
        assert!(["complete", "incomplete", "error"].contains(&outcome), "{name}");
        assert_eq!(script["expect"]["code"].is_string(), outcome == "error", "{name}");
    }
}
