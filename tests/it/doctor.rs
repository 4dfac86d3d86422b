//! `rowstream doctor` through real proxies. It reports nothing if they pass on the server's bytes,
//! and names the problem if their settings are bad.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{Cut, Hop, Server, TcpProxy, get, rowstream, wait_until};

const CONFIG: &str = "[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n";

async fn server(config: &str) -> Server {
    let config = format!("{CONFIG}{config}");
    Server::start(&[
        ("rowstream.toml", config.as_str()),
        ("t.sql", "create table t (n)"),
        ("endpoints/t.sql", "/*\nauthorization = \"public\"\n*/\nselect n from t"),
    ])
    .await
}

fn address(server: &Server) -> SocketAddr {
    server.address().parse().expect("an address")
}

/// The doctor's report for an address: its exit status and the lines of stdout.
async fn doctor(address: SocketAddr, more: &[&str]) -> (Option<i32>, String) {
    let via = format!("http://{address}");
    let output = rowstream(&[&["doctor", "--via", &via], more].concat()).await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), format!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}

#[track_caller]
fn assert_says(report: &str, lines: &[&str]) {
    for line in lines {
        assert!(report.contains(line), "`{line}` is missing in:\n{report}");
    }
}

#[tokio::test]
async fn a_server_without_hops_is_well_over_both_versions() {
    let server = server("").await;
    let (status, report) = doctor(address(&server), &["--silence", "1"]).await;
    assert_eq!(status, Some(0), "{report}");
    assert_eq!(report.matches("  well   ").count(), 14, "{report}");
    assert_says(
        &report,
        &[
            "over HTTP/1.1 (no hop names itself",
            "arrive at the server as HTTP/2.0",
            "trailers arrive",
            "has aborted fails",
        ],
    );
    server.wait_for_stdout("probe_aborted").await;
}

#[tokio::test]
async fn nginx_is_well_as_the_how_to_has_it() {
    let server = server("").await;
    let hop = Hop::nginx_set(address(&server), "proxy_read_timeout 1h;").await;
    // In this version of nginx, a port without TLS supports only one HTTP version.
    for (port, other) in [(hop.http1, "HTTP/2"), (hop.http2, "HTTP/1.1")] {
        let (status, report) = doctor(port, &["--silence", "1"]).await;
        assert_eq!(status, Some(0), "{report}");
        assert_says(
            &report,
            &[
                &format!("over {other}: no answer"),
                "by way of nginx",
                "well   requests arrive at the server as HTTP/1.1",
                "well   rows arrive as they are sent",
                "well   a response that the server has aborted fails",
                "note   `TE: trailers` does not reach the server",
                "nginx: from 1.27.2 on: proxy_pass_trailers on;",
            ],
        );
    }
}

#[tokio::test]
async fn bad_settings_of_nginx_are_named_with_their_cures() {
    let server = server("").await;
    let hop = Hop::nginx_set(
        address(&server),
        "proxy_ignore_headers X-Accel-Buffering; proxy_read_timeout 2s; gzip on; gzip_types application/json application/x-ndjson; \
         proxy_set_header Accept-Encoding \"\";",
    )
    .await;
    let (status, report) = doctor(hop.http1, &["--silence", "5"]).await;
    assert_eq!(status, Some(1), "{report}");
    assert_says(
        &report,
        &[
            "wrong  rows are held back: one was sent every 0.2 s, but none arrived for 1.",
            "nginx: gzip off; proxy_buffering off;",
            "wrong  a silent stream is cut after ",
            "nginx: proxy_read_timeout 1h;",
            "wrong  answers are compressed on the way (gzip) although they say `no-transform`, and their `ETag` is weakened",
            "nginx: gzip off;",
            "note   `Accept-Encoding` does not reach the server",
        ],
    );
    assert!(!report.contains("HAProxy:"), "{report}");
    let (status, report) =
        doctor(Hop::nginx_by_default(address(&server)).await.http1, &["--silence", "1"]).await;
    assert_eq!(status, Some(1), "{report}");
    assert_says(
        &report,
        &["wrong  requests arrive at the server as HTTP/1.0", "nginx: proxy_http_version 1.1;"],
    );
}

#[tokio::test]
async fn haproxy_ends_cuts_well_over_http2_alone() {
    let server = server("").await;
    let hop = Hop::haproxy_set(address(&server), "", "proto h2").await;
    // Its other port speaks HTTP/2 if the client requests it.
    let (status, report) = doctor(hop.http1, &["--silence", "1"]).await;
    assert_eq!(status, Some(1), "{report}");
    let (http1, http2) = report.split_once(" over HTTP/2 ").expect("both versions");
    assert_eq!(http1.matches("  well   ").count(), 7, "{report}");
    assert_eq!(http2.matches("  well   ").count(), 6, "{report}");
    assert_says(http1, &["requests arrive at the server as HTTP/2.0", "well   trailers arrive"]);
    assert_says(
        http2,
        &[
            "wrong  a response that the server has aborted ends as if it were whole",
            "HAProxy: bind … alpn http/1.1",
            "otherwise: clients check for the end with _end=1",
        ],
    );
}

#[tokio::test]
async fn bad_settings_of_haproxy_are_named_with_their_cures() {
    let server = server("").await;
    let lines = "  timeout server 2s\n  compression offload\n  compression algo gzip";
    let hop = Hop::haproxy_set(address(&server), lines, "").await;
    let (status, report) = doctor(hop.http1, &["--silence", "5"]).await;
    assert_eq!(status, Some(1), "{report}");
    assert_says(
        &report,
        &[
            "over HTTP/1.1 (no hop names itself",
            "wrong  a silent stream is cut after ",
            "HAProxy: timeout server 1h",
            "wrong  a silent stream is ended after ",
            " s, as if it were whole",
            "note   `Accept-Encoding` does not reach the server",
            "HAProxy: remove `compression offload`",
        ],
    );
}

/// A limit on the whole response was reported as one on silence, but `heartbeat` doesn't help
/// against it.
#[tokio::test]
async fn a_limit_of_the_whole_response_is_told_from_one_of_silence() {
    let server = server("").await;
    let proxy = TcpProxy::transparent(address(&server)).await;
    let cutting = async {
        // Each version sends one request, and then seven probes.
        wait_until("all probes run", async || proxy.connections() == 16).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        proxy.cut_now(Cut::Reset);
    };
    let ((status, report), ()) = tokio::join!(doctor(proxy.address(), &["--silence", "60"]), cutting);
    assert_eq!(status, Some(1), "{report}");
    assert_says(
        &report,
        &["wrong  a response is cut after ", "although its rows flow", "clients that resume"],
    );
    assert!(!report.contains("silent"), "{report}");
}

#[tokio::test]
async fn probes_are_for_whom_the_configuration_lets_ask() {
    // The SHA-256 of `abc` (FIPS 180-4).
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let server =
        server(&format!("[admin]\nauthorization = [\"eyes\"]\n[token.eyes]\nsha256 = \"{hash}\"\n")).await;
    assert_eq!(get(&server.url("/_rowstream/probe/plain")).await.status, 401);
    let (status, report) = doctor(address(&server), &[]).await;
    assert_eq!(status, Some(1), "{report}");
    assert_says(&report, &["status 401: the server doesn't allow you its probes", "hint: send a token"]);
    let token = ["--silence", "1", "-H", "Authorization: Bearer abc"];
    let (status, report) = doctor(address(&server), &token).await;
    assert_eq!(status, Some(0), "{report}");
}

#[tokio::test]
async fn an_answer_that_is_no_rowstreams_is_said_to_be_none() {
    let server = server("").await;
    let via = format!("http://{}/nowhere", server.address());
    let output = rowstream(&["doctor", "--via", &via]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_says(&said, &["status 404: no Rowstream answers there"]);
    assert_eq!(get(&server.url("/_rowstream/probe/silence?seconds=601")).await.status, 400);
    assert_eq!(get(&server.url("/_rowstream/probe/none")).await.status, 404);
}
