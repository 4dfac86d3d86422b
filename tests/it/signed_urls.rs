//! Signed URLs: the rights of each, everything that isn't one, and the places that never show one.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use http::{Method, Request};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::jwt::{ISSUER, Keys};
use crate::support::upstream::{Speaks, Upstream, reply};
use crate::support::{
    Browser, Client, Cut, Faults, Launch, Reply, Server, TcpProxy, TestDb, sha256, wait, wait_until,
};

const SECRET: &str = "a secret of the server with 32 bytes or more";
/// A list for more than one chunk, with a key.
const LIST: &str =
    "/* key = [\"n\"] */ with recursive r(n) as (select 1 union all select n + 1 from r where n < 3000)
    select n, 'a text that needs its room on the wire' as text from r order by n";
const PAGES: &str = "/*\nkey = [\"n\"]\n[params]\ncount = { type = \"integer\", default = 2, max = 10 }\n*/
    select n from t order by n limit :count";
const MINE: &str = "/*\n[params]\n\"jwt.team.name\" = { type = \"text\", optional = true }\n*/\nselect :jwt.sub as sub, :jwt.team.name as team";
const HEADER: &str =
    "/*\n[params]\ntenant = { type = \"integer\", in = \"header\", header = \"X-Tenant\", default = 1 }\n*/
    select :tenant as tenant";

fn token(name: &str, more: &str) -> String {
    format!("[token.{name}]\nsha256 = \"{}\"\n{more}\n", sha256(name))
}

fn config(head: &str, more: &str) -> String {
    let tokens = token("reader", "") + &token("other", "") + &token("old", "expires = \"2020-01-01\"");
    format!(
        "authorization = [\"reader\", \"orders:read\"]\n{head}\n[admin]\nauthorization = [\"reader\"]\n\
         [jwt]\nissuer = \"{ISSUER}\"\naudience = \"rowstream\"\nkeys = \"keys.json\"\nscopes = [\"orders:read\"]\n\
         [source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n{tokens}\n{more}\n"
    )
}

fn with_secret(more: &str) -> String {
    config(&format!("url_secret = \"{SECRET}\"\ncursor_secret = \"{SECRET}\"\n"), more)
}

fn launch(config: &str, keys: &Keys) -> Launch {
    let keys = keys.set().to_string();
    Launch::files(&[
        ("rowstream.toml", config),
        ("keys.json", &keys),
        ("t.sql", "create table t (n); insert into t values (1), (2), (3), (4), (5)"),
        ("endpoints/list.sql", LIST),
        ("endpoints/pages.sql", PAGES),
        ("endpoints/mine.sql", MINE),
        ("endpoints/header.sql", HEADER),
        ("endpoints/one.sql", "select 1 as n"),
        ("endpoints/open.sql", "/*\nauthorization = \"public\"\n*/\nselect 1 as n"),
        ("endpoints/others.sql", "/*\nauthorization = [\"other\"]\n*/\nselect 1 as n"),
        ("endpoints/items/all.sql", "select 'all' as item"),
        ("endpoints/items/{name}.sql", "/*\n[params]\nname = \"text\"\n*/\nselect :name as item"),
    ])
}

async fn server() -> Server {
    launch(&with_secret(""), &Keys::new()).start().await
}

async fn send(server: &Server, method: Method, target: &str, headers: &[(&str, &str)]) -> Reply {
    let request = Request::builder().method(method).uri(server.url(target));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    Client::HTTP1.send(request.body(String::new()).expect("a request")).await
}

async fn get(server: &Server, target: &str) -> Reply {
    send(server, Method::GET, target, &[]).await
}

/// The response to `_sign=60` with this token.
async fn asked_to_sign(server: &Server, target: &str, token: &str) -> Reply {
    let separator = if target.contains('?') { '&' } else { '?' };
    let target = format!("{target}{separator}_sign=60");
    send(server, Method::GET, &target, &[("authorization", &format!("Bearer {token}"))]).await
}

async fn signed(server: &Server, target: &str, token: &str) -> String {
    let reply = asked_to_sign(server, target, token).await;
    assert_eq!(reply.status, 200, "{target}: {}", reply.text());
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    reply.json()["url"].as_str().expect("it has a URL").to_owned()
}

fn signature_of(url: &str) -> &str {
    url.split_once("_signature=").expect("it is signed").1
}

fn content_of(url: &str) -> Value {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(signature_of(url)).expect("base64");
    serde_json::from_slice(&bytes[17..]).expect("JSON after the version and the signature")
}

/// The target, signed as the documentation says: another implementation than the server's.
fn sign(secret: &str, target: &str, content: &Value) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    for part in ["signed URL", path, query] {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part.as_bytes());
    }
    let content = content.to_string();
    mac.update(content.as_bytes());
    let bytes = [&[2], &mac.finalize().into_bytes()[..16], content.as_bytes()].concat();
    let separator = if query.is_empty() { '?' } else { '&' };
    format!("{target}{separator}_signature={}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn seconds() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn status_and_code(reply: &Reply) -> (u16, String) {
    let code = if reply.status.is_success() { Value::Null } else { reply.json()["code"].clone() };
    (reply.status.as_u16(), code.as_str().unwrap_or_default().to_owned())
}

/// Every response to a signed URL.
#[track_caller]
fn assert_private(reply: &Reply, what: &str) {
    assert_eq!(reply.header("referrer-policy"), Some("no-referrer"), "{what}");
    let control = reply.header("cache-control").unwrap_or_else(|| panic!("{what}"));
    assert!(control.starts_with("private") && !control.contains("public"), "{what}: {control}");
}

/// Each kind of path with each kind of signature. A signature opens only its own URL, and only with
/// GET and HEAD.
#[tokio::test]
async fn a_signature_opens_its_own_url_and_no_other() {
    let upstream = Upstream::start(Speaks::Http1, |_, _| async {
        let mut reply = reply(200, "application/json", "[{\"n\":1}]");
        reply.headers_mut().insert("cache-control", "public, max-age=60".parse().expect("a value"));
        reply
    })
    .await;
    let keys = Keys::new();
    let source = format!("[source.up]\nurl = \"http://{}\"\n", upstream.address());
    let launch = launch(&with_secret(&source), &keys);
    for (name, more) in [("passed", ""), ("read", "rows = \"\"\ncolumns = { n = \"integer\" }\n")] {
        let text = format!("[upstream]\nsource = \"up\"\nrequest = \"GET /up\"\n{more}");
        std::fs::write(launch.path().join(format!("endpoints/{name}.toml")), text).expect("a file");
    }
    let server = launch.start().await;
    let stream = send(&server, Method::GET, "/list.ndjson", &[("authorization", "Bearer reader")]).await;
    let stream = stream.header("rowstream-stream").expect("it is a stream").to_owned();

    let endpoints = [
        "/one",
        "/one.csv",
        "/one?_format=csv",
        "/list",
        "/list.ndjson?_end=1",
        "/list.sse",
        "/list?_wait=end",
        "/list?_digest=sha-256",
        "/pages",
        "/pages?count=3",
        "/pages.csv?count=3&_download=a.csv",
        "/header",
        "/items/all",
        "/items/x%20y",
        "/items/all%2Ejson",
        "/passed",
        "/read",
        "/read.csv",
        "/list?_nulls=omit",
    ];
    let others = [
        "/_rowstream/live",
        "/_rowstream/ready",
        "/_rowstream/metrics",
        "/_rowstream/history",
        "/_rowstream/sd",
        "/_rowstream/streams",
        &format!("/_rowstream/streams/{stream}"),
        "/_rowstream/openapi.json",
        "/_rowstream/errors/internal",
        "/_rowstream/",
        "/_rowstream/probe/stream",
        "/",
    ];
    let now = seconds();
    let content = json!({"until": now + 60, "token": "reader"});
    let target_of = |other: &str, target: &str| {
        let signature = sign(SECRET, other, &content);
        let separator = if target.contains('?') { '&' } else { '?' };
        format!("{target}{separator}_signature={}", signature_of(&signature))
    };
    for target in endpoints {
        let own = signed(&server, target, "reader").await;
        let expired = sign(SECRET, target, &json!({"until": now, "token": "reader"}));
        let gone = sign(SECRET, target, &json!({"until": now + 60, "token": "gone"}));
        let over = sign(SECRET, target, &json!({"until": now + 60, "token": "old"}));
        let wrong_right = sign(SECRET, target, &json!({"until": now + 60, "token": "other"}));
        let endless = sign(SECRET, target, &json!({"token": "reader"}));
        let both = sign(SECRET, target, &json!({"until": now + 60, "token": "reader", "claims": {}}));
        let other_secret = sign("another secret of the server with 32 bytes", target, &content);
        let mut changed = own.clone().into_bytes();
        let middle = own.len() - 20;
        changed[middle] = if changed[middle] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).expect("ASCII");
        let elsewhere = target_of("/open", target);
        let bearer = [("authorization", "Bearer reader")];
        for (kind, method, target, headers, expected) in [
            ("its own", Method::GET, own.as_str(), &[][..], (200, "")),
            ("by the documentation", Method::GET, &sign(SECRET, target, &content), &[], (200, "")),
            ("its own, with HEAD", Method::HEAD, &own, &[], (200, "")),
            ("its own, with POST", Method::POST, &own, &[], (405, "method_not_allowed")),
            ("its own, with DELETE", Method::DELETE, &own, &[], (405, "method_not_allowed")),
            ("its own, with a preflight", Method::OPTIONS, &own, &[], (204, "")),
            ("its own, with a token too", Method::GET, &own, &bearer, (400, "invalid_parameter")),
            ("another URL's", Method::GET, &elsewhere, &[], (403, "invalid_signature")),
            ("expired", Method::GET, &expired, &[], (403, "invalid_signature")),
            ("of a token that is gone", Method::GET, &gone, &[], (403, "invalid_signature")),
            ("of an expired token", Method::GET, &over, &[], (403, "invalid_signature")),
            ("of a token without the right", Method::GET, &wrong_right, &[], (403, "forbidden")),
            ("without an end", Method::GET, &endless, &[], (403, "invalid_signature")),
            ("of two holders", Method::GET, &both, &[], (403, "invalid_signature")),
            ("of another secret", Method::GET, &other_secret, &[], (403, "invalid_signature")),
            ("changed", Method::GET, &changed, &[], (403, "invalid_signature")),
            (
                "twice",
                Method::GET,
                &format!("{own}&_signature={}", signature_of(&own)),
                &[],
                (403, "invalid_signature"),
            ),
            (
                "with another parameter",
                Method::GET,
                &format!("{own}&_numbers=string"),
                &[],
                (403, "invalid_signature"),
            ),
            ("signing again", Method::GET, &format!("{own}&_sign=60"), &[], (403, "invalid_signature")),
        ] {
            let what = format!("{target}: {kind}");
            let reply = send(&server, method.clone(), target, headers).await;
            if method == Method::HEAD {
                assert_eq!(reply.status, expected.0, "{what}");
            } else {
                let (status, code) = status_and_code(&reply);
                assert_eq!((status, code.as_str()), expected, "{what}: {:?}", reply.body);
            }
            assert_private(&reply, &what);
        }
        let over_http2 = Client::H2C.get(&server.url(&own)).await;
        assert_eq!(over_http2.status, 200, "{target}");
        let with_token = send(&server, Method::GET, target, &bearer).await;
        // The tag of framed responses differs each time.
        let (rows, expected) = (get(&server, &own).await.body, with_token.body);
        assert!(rows == expected || target.contains("_end=1"), "{target}: the same rows");
    }
    for target in others {
        let own = sign(SECRET, target, &content);
        let reply = get(&server, &own).await;
        assert_eq!(status_and_code(&reply), (403, "invalid_signature".to_owned()), "{target}");
        assert_private(&reply, target);
    }
    assert_eq!(get(&server, &sign(SECRET, "/missing", &content)).await.status, 404);
    let sent = upstream.asked();
    assert!(sent.len() > 2 && sent.iter().all(|asked| asked.target == "/up"), "{sent:?}");
}

/// Every byte of a signed URL counts. The last letter of base64 has unused bits, and is tried with
/// all others.
#[tokio::test]
async fn no_byte_can_be_changed_and_none_is_missing() {
    let server = server().await;
    let url = signed(&server, "/items/x?_numbers=string", "reader").await;
    assert_eq!(get(&server, &url).await.text(), "[{\"item\":\"x\"}]");
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut changed = Vec::new();
    for at in 1..url.len() {
        let others: &[u8] = if at == url.len() - 1 { letters } else { b"AB.%" };
        for other in others.iter().filter(|other| **other != url.as_bytes()[at]) {
            let mut bytes = url.clone().into_bytes();
            bytes[at] = *other;
            changed.push(String::from_utf8(bytes).expect("ASCII"));
        }
    }
    // Only a slash is the public list of endpoints.
    changed.extend((2..url.len()).map(|cut| url[..cut].to_owned()));
    changed.extend(["=", "A", "%3D", "&_signature", "&"].map(|more| url.clone() + more));
    changed.extend((1..20).map(|cut| format!("{}{}", &url[..url.len() - 40], &url[url.len() - 40 + cut..])));
    for changed in &changed {
        let reply = get(&server, changed).await;
        let expected = [400, 401, 403, 404, 406];
        // Without its signature, it's a request without credentials: 401.
        assert!(expected.contains(&reply.status.as_u16()), "{changed}: {} {:?}", reply.status, reply.body);
        if changed.contains("_signature=") && changed.starts_with("/items/x?_numbers=string&") {
            assert_eq!(status_and_code(&reply), (403, "invalid_signature".to_owned()), "{changed}");
            assert!(reply.json()["hint"].as_str().is_some_and(|hint| hint.contains("_sign=")), "{changed}");
        }
    }
    // The same path to people, and another endpoint to the server.
    let all = signed(&server, "/items/all.json", "reader").await;
    assert_eq!(get(&server, &all).await.text(), "[{\"item\":\"all\"}]");
    assert_eq!(get(&server, &all.replace("all.json", "all%2Ejson")).await.status, 403);
    // A cursor is signed too, here with the same secret.
    let page = send(&server, Method::GET, "/pages", &[("authorization", "Bearer reader")]).await;
    let link = page.header("link").expect("there is a next page");
    let cursor = link.split_once("_after=").and_then(|(_, rest)| rest.split_once('>')).expect("a cursor").0;
    assert_eq!(get(&server, &format!("/pages?_signature={cursor}")).await.status, 403);
    assert_eq!(get(&server, &format!("/pages?_after={}", signature_of(&url))).await.status, 401);
}

/// The rights and the claims are those of the token, and a URL can't add any.
#[tokio::test]
async fn a_url_has_the_claims_of_its_token() {
    let keys = Keys::new();
    let server = launch(&with_secret(""), &keys).start().await;
    let claims =
        json!({"team": {"name": "red", "size": 3}, "team.other": 1, "email": "a@example.org", "name": "A"});
    let token = keys.but("ES256", json!({}), claims);
    let url = signed(&server, "/mine", &token).await;
    assert_eq!(get(&server, &url).await.text(), "[{\"sub\":\"7\",\"team\":\"red\"}]");
    // Anyone can read them, so there are only those that the endpoint uses.
    let content = content_of(&url);
    let names: Vec<_> = content["claims"].as_object().expect("claims").keys().map(String::as_str).collect();
    assert_eq!(names, ["iss", "aud", "sub", "scope", "exp", "team"]);

    let mut forged = content.clone();
    forged["claims"]["sub"] = json!("8");
    let (_, tag) = (17, BASE64_URL_SAFE_NO_PAD.decode(signature_of(&url)).expect("base64"));
    let forged = BASE64_URL_SAFE_NO_PAD.encode([&tag[..17], forged.to_string().as_bytes()].concat());
    assert_eq!(get(&server, &format!("/mine?_signature={forged}")).await.status, 403);

    // The same checks as those of a token.
    let base = content["claims"].as_object().expect("claims");
    let until = seconds() + 60;
    for (what, name, value, expected) in [
        ("nothing", "sub", json!("7"), (200, "")),
        ("another issuer", "iss", json!("https://other.example"), (403, "invalid_signature")),
        ("another audience", "aud", json!("other"), (403, "invalid_signature")),
        ("an expired token", "exp", json!(seconds() - 90), (403, "invalid_signature")),
        ("a token that isn't valid yet", "nbf", json!(seconds() + 90), (403, "invalid_signature")),
        ("no scope", "scope", json!("profile"), (403, "forbidden")),
        ("the name of a bearer token as a scope", "scope", json!("reader"), (403, "forbidden")),
        ("no subject", "sub", json!(null), (403, "claim_missing")),
    ] {
        let mut claims = base.clone();
        claims.insert(name.to_owned(), value);
        let reply = get(&server, &sign(SECRET, "/mine", &json!({"until": until, "claims": claims}))).await;
        let (status, code) = status_and_code(&reply);
        assert_eq!((status, code.as_str()), expected, "{what}");
    }

    // Signing needs the same rights as reading.
    let without_scope = keys.but("ES256", json!({}), json!({"scope": "profile"}));
    let expired = keys.but("ES256", json!({}), json!({"exp": seconds() - 90}));
    for (target, token, expected) in [
        ("/mine", &*token, (200, "")),
        ("/mine", &without_scope, (403, "forbidden")),
        ("/mine", &expired, (401, "token_expired")),
        ("/mine", "reader", (403, "claim_missing")),
        ("/others", "reader", (403, "forbidden")),
        ("/one", "old", (401, "token_expired")),
        ("/one", "none", (401, "unauthorized")),
        ("/missing", "reader", (404, "no_endpoint")),
        ("/one?unknown=1", "reader", (400, "invalid_parameter")),
        ("/one.xml", "reader", (406, "not_acceptable")),
        ("/open", "reader", (400, "invalid_parameter")),
        ("/_rowstream/metrics", "reader", (200, "")),
    ] {
        let reply = asked_to_sign(&server, target, token).await;
        let (status, code) = status_and_code(&reply);
        assert_eq!((status, code.as_str()), expected, "{target} {token}");
        assert_eq!(reply.text().contains("_signature="), target == "/mine" && status == 200, "{target}");
    }
}

/// A URL ends at the requested time, and with its token.
#[tokio::test]
async fn a_url_ends_with_its_time_and_its_token() {
    let keys = Keys::new();
    let soon = jiff::Timestamp::from_second(seconds() + 100).expect("a time");
    let more = token("brief", &format!("expires = \"{soon}\"\nscopes = [\"orders:read\"]"));
    let server = launch(&with_secret(&more), &keys).start().await;
    let expires = async |token: &str, seconds: &str| {
        let bearer = format!("Bearer {token}");
        let target = format!("/one?_sign={seconds}");
        let reply = send(&server, Method::GET, &target, &[("authorization", &bearer)]).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let until = content_of(reply.json()["url"].as_str().expect("a URL"))["until"].as_i64();
        let expires = reply.json()["expires"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        assert_eq!(expires.map(jiff::Timestamp::as_second), until);
        until.expect("it has an end")
    };
    let begun = seconds();
    let hour = expires("reader", "3600").await;
    assert!((begun + 3600..=seconds() + 3600).contains(&hour), "{hour}");
    assert_eq!(expires("brief", "3600").await, soon.as_second());
    let end = begun + 50;
    let jwt = keys.but("ES256", json!({}), json!({"exp": end as f64 + 0.5}));
    assert_eq!(expires(&jwt, "3600").await, end);
    for wrong in ["0", "3601", "-1", "5m", "", "1e3", "99999999999999999999", "60&_sign=60"] {
        let target = format!("/one?_sign={wrong}");
        let reply = send(&server, Method::GET, &target, &[("authorization", "Bearer reader")]).await;
        assert_eq!(status_and_code(&reply), (400, "invalid_parameter".to_owned()), "{wrong}");
        assert!(reply.text().contains("from 1 to 3600"), "{}", reply.text());
    }
    // Clocks may differ, so the token itself is still accepted.
    let over = keys.but("ES256", json!({}), json!({"exp": seconds() - 1}));
    assert_eq!(
        status_and_code(&asked_to_sign(&server, "/one", &over).await),
        (401, "token_expired".to_owned())
    );
}

#[tokio::test]
async fn a_reload_voids_urls() {
    let keys = Keys::new();
    let launch = launch(&config("cursor_secret = \"c\"\nurl_secret = \"${file:url.secret}\"", ""), &keys);
    let folder = launch.path().to_owned();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file");
    write("url.secret", SECRET);
    let server = launch.start().await;
    let reload = async |count: usize| {
        server.hang_up();
        wait_until("it reloads", async || {
            let found = server.count_stderr("reloaded: ");
            if found == count { Ok(()) } else { Err(server.stderr()) }
        })
        .await;
    };
    let url = signed(&server, "/one", "reader").await;
    let of_other = signed(&server, "/others", "other").await;
    for url in [&url, &of_other] {
        assert_eq!(get(&server, url).await.status, 200);
    }
    let all = std::fs::read_to_string(folder.join("rowstream.toml")).expect("it is there");
    write("rowstream.toml", &all.replace(&token("other", ""), &token("another", "scopes = [\"other\"]")));
    reload(1).await;
    assert_eq!(get(&server, &url).await.status, 200);
    assert_eq!(get(&server, &of_other).await.status, 403, "its token is gone");
    write("url.secret", "another secret of the server with 32 bytes");
    reload(2).await;
    assert_eq!(status_and_code(&get(&server, &url).await), (403, "invalid_signature".to_owned()));
    assert_eq!(get(&server, &signed(&server, "/one", "reader").await).await.status, 200);

    // Without a secret there are no signed URLs.
    write("rowstream.toml", &config("", ""));
    reload(3).await;
    let refused = asked_to_sign(&server, "/one", "reader").await;
    assert_eq!(status_and_code(&refused), (400, "invalid_parameter".to_owned()));
    assert!(refused.text().contains("set `url_secret` in rowstream.toml"), "{}", refused.text());
    for url in [url, sign("", "/one", &json!({"until": seconds() + 60, "token": "reader"}))] {
        let reply = get(&server, &url).await;
        assert_eq!(status_and_code(&reply), (403, "invalid_signature".to_owned()));
        assert!(reply.text().contains("no `url_secret`"), "{}", reply.text());
    }
}

#[tokio::test]
async fn weak_secrets_are_refused_and_not_shown() {
    for (head, expected) in [
        (
            "cursor_secret = \"c\"\nurl_secret = \"too short a secret\"",
            "`url_secret` is shorter than 32 bytes",
        ),
        (&*format!("url_secret = \"{SECRET}\""), "`url_secret` needs `cursor_secret`"),
    ] {
        let exit = launch(&config(head, ""), &Keys::new()).try_start().await.err().expect("it doesn't start");
        assert!(exit.stderr.contains(expected) && exit.stderr.contains("hint: "), "{}", exit.stderr);
        assert!(
            !exit.stderr.contains("too short a secret") && !exit.stderr.contains(SECRET),
            "{}",
            exit.stderr
        );
    }
}

/// A URL can't contain headers, so a parameter in a header has its default, regardless of who sends
/// one.
#[tokio::test]
async fn a_header_is_no_part_of_a_url() {
    let server = server().await;
    let headers = [("authorization", "Bearer reader"), ("x-tenant", "2")];
    assert_eq!(send(&server, Method::GET, "/header", &headers).await.text(), "[{\"tenant\":2}]");
    let reply = send(&server, Method::GET, "/header?_sign=60", &headers).await;
    let url = reply.json()["url"].as_str().expect("a URL").to_owned();
    for headers in [&[][..], &headers[1..]] {
        assert_eq!(send(&server, Method::GET, &url, headers).await.text(), "[{\"tenant\":1}]");
    }
}

#[tokio::test]
async fn a_long_url_is_refused_when_it_is_signed() {
    let server = server().await;
    for (bytes, expected) in [(3000, 200), (4050, 400)] {
        let target = format!("/items/{}", "x".repeat(bytes));
        let reply = asked_to_sign(&server, &target, "reader").await;
        assert_eq!(reply.status, expected, "{bytes}");
        if expected == 200 {
            let url = reply.json()["url"].as_str().expect("a URL").to_owned();
            assert_eq!(get(&server, &url).await.status, 200);
        } else {
            assert!(reply.text().contains("at most 4096 are allowed"), "{}", reply.text());
        }
    }
}

/// A page's link has no signature: the next page is another URL.
#[tokio::test]
async fn no_log_link_or_message_shows_a_signature() {
    for format in ["text", "json"] {
        let more = format!("[log]\nformat = \"{format}\"\n");
        let server = launch(&with_secret(&more), &Keys::new()).start().await;
        let url = signed(&server, "/pages?count=3", "reader").await;
        let signature = signature_of(&url);
        let page = get(&server, &url).await;
        assert!(page.header("link").is_some_and(|link| link.starts_with("<?count=3&_after=")), "{page:?}");
        let encoded = url.replace("_signature", "%5f%73ignature");
        assert_eq!(get(&server, &encoded).await.status, 200);
        let cut = &url[..url.len() - 1];
        let missing = format!("/missing?_signature={signature}");
        let metrics = format!("/_rowstream/metrics?_signature={signature}");
        let wrong = format!("{url}&_signature=x&unknown=1");
        for target in [cut, &missing, &metrics, &wrong, &format!("/?_signature={signature}")] {
            let reply = get(&server, target).await;
            assert!(!reply.status.is_success(), "{target}");
            assert!(!format!("{reply:?}").contains(&signature[..20]), "{reply:?}");
        }
        let post = send(&server, Method::POST, &url, &[]).await;
        assert!(!format!("{post:?}").contains(&signature[..20]), "{post:?}");
        let bearer = [("authorization", "Bearer reader")];
        for target in ["/_rowstream/metrics", "/_rowstream/streams", "/_rowstream/history"] {
            let reply = send(&server, Method::GET, target, &bearer).await;
            assert!(reply.status == 200 && !reply.text().contains(&signature[..20]), "{target}");
        }
        get(&server, "/open?last").await;
        server.wait_for_stdout("/open?last").await;
        let said = server.stdout() + &server.stderr();
        assert!(!said.contains(&signature[..20]) && !said.contains("ignature="), "{said}");
        let marked =
            if format == "text" { " credentials=signed_url" } else { "\"credentials\":\"signed_url\"" };
        let served =
            said.lines().filter(|line| line.contains("/pages?count=3 ") || line.contains("/pages?count=3\""));
        let served: Vec<_> = served.filter(|line| line.contains("200")).collect();
        assert_eq!(served.len(), 2, "{said}");
        for line in served {
            assert!(line.contains(marked) && line.contains("reader"), "{line}");
        }
    }
}

#[tokio::test]
async fn a_page_of_another_origin_can_read_a_signed_url() {
    let server =
        launch(&with_secret("[cors]\norigins = [\"https://app.example\"]\n"), &Keys::new()).start().await;
    let url = signed(&server, "/one", "reader").await;
    let reply = send(&server, Method::GET, &url, &[("origin", "https://app.example")]).await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("access-control-allow-origin")),
        (200, Some("https://app.example"))
    );
    assert_private(&reply, "across origins");
}

/// Policies of the database see the claims and the role of the token that signed the URL.
#[tokio::test]
async fn a_url_has_the_role_of_its_token() {
    let db = TestDb::new().await;
    let keys = Keys::new();
    let role = crate::support::logins::SCRAM.user;
    let config = format!(
        "authorization = \"public\"\ncursor_secret = \"c\"\nurl_secret = \"{SECRET}\"\n[jwt]\nissuer = \"{ISSUER}\"\nkeys = \"keys.json\"\n\
         audience = \"rowstream\"\n[source.db]\nurl = \"{}\"\nrole_claim = \"role\"\nroles = [\"{role}\"]\n",
        db.url()
    );
    let who = "select current_user::text as role, current_setting('request.jwt.claims', true)::json->>'team' as team";
    let keys_json = keys.set().to_string();
    let files = [("rowstream.toml", &*config), ("keys.json", &keys_json), ("endpoints/who.sql", who)];
    let server = Launch::files(&files).start().await;
    let token = keys.but("ES256", json!({}), json!({"role": role, "team": "red"}));
    let url = signed(&server, "/who", &token).await;
    assert_eq!(get(&server, &url).await.json(), json!([{"role": role, "team": "red"}]));
    let mut content = content_of(&url);
    content["claims"]["role"] = json!("postgres");
    let reply = get(&server, &sign(SECRET, "/who", &content)).await;
    assert_eq!(status_and_code(&reply), (403, "forbidden".to_owned()), "a role that isn't allowed");
    assert_eq!(get(&server, "/who").await.status, 401);
}

/// A browser's `EventSource` and downloads can't send headers. An `EventSource` that loses its
/// connection continues with the same URL and its last event.
#[tokio::test]
async fn a_browser_reads_and_saves_protected_rows() {
    let (server, browser) = tokio::join!(server(), Browser::start());
    let faults = Faults { cut: Some((250_000, Cut::Close)), ..Faults::default() };
    let proxy = TcpProxy::to_client(server.address().parse().expect("an address"), faults).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    browser.open(&format!("http://{}/_rowstream/live", proxy.address())).await;
    let events = signed(&server, "/list.sse", "reader").await;
    browser
        .run(&format!(
            "window.seen = {{ last: 0, count: 0, opened: 0, closed: false }};
             const source = new EventSource('{events}');
             source.onopen = () => {{ seen.opened += 1; }};
             source.onmessage = (event) => {{ seen.last = JSON.parse(event.data).n; seen.count += 1; }};
             source.onerror = () => {{ seen.closed = source.readyState === EventSource.CLOSED; }};"
        ))
        .await;
    let seen = wait_until("all events are there", async || {
        let seen = browser.run("return seen;").await;
        if seen["closed"] == true { Ok(seen) } else { Err(seen.to_string()) }
    })
    .await;
    assert_eq!((&seen["last"], &seen["count"]), (&json!(3000), &json!(3000)));
    assert!(seen["opened"].as_u64() >= Some(2), "{seen}");

    let download = signed(&server, "/pages.csv?count=3&_download=pages.csv", "reader").await;
    let path = folder.path().display().to_string();
    let allowed = json!({"behavior": "allow", "downloadPath": path});
    browser.devtools("Browser.setDownloadBehavior", allowed).await;
    let link = format!(
        "const link = document.createElement('a'); link.href = '{download}'; link.download = ''; link.click();"
    );
    browser.run(&link).await;
    let saved = folder.path().join("pages.csv");
    // Chromium first makes an empty file of this name.
    wait_until("the file is saved", async || {
        let text = std::fs::read_to_string(&saved).unwrap_or_default();
        if text == "n\r\n1\r\n2\r\n3\r\n" { Ok(()) } else { Err(text) }
    })
    .await;
}

/// OpenAPI names the scheme only if the server has signed URLs.
#[tokio::test]
async fn openapi_describes_signed_urls() {
    for (config, expected) in [(with_secret(""), true), (config("", ""), false)] {
        let server = launch(&config, &Keys::new()).start().await;
        let bearer = [("authorization", "Bearer reader")];
        let document = send(&server, Method::GET, "/_rowstream/openapi.json", &bearer).await.json();
        let scheme = &document["components"]["securitySchemes"]["signedUrl"];
        assert_eq!((scheme["in"] == "query" && scheme["name"] == "_signature"), expected, "{scheme}");
        let security = &document["paths"]["/one"]["get"]["security"];
        let names: BTreeMap<String, Vec<String>> = security
            .as_array()
            .expect("a list")
            .iter()
            .flat_map(|one| {
                serde_json::from_value::<BTreeMap<String, Vec<String>>>(one.clone()).expect("an object")
            })
            .collect();
        assert_eq!(names.contains_key("signedUrl"), expected, "{security}");
    }
}

/// `get` sent the token of the environment, too, which is a 400, and dropped an empty parameter, which the signature
/// covers.
#[tokio::test]
async fn get_reads_a_signed_url_beside_a_token() {
    let keys = Keys::new();
    let server = launch(&with_secret(""), &keys).start().await;
    let url = signed(&server, "/list.csv?_csv_bom=0&&_csv_null=x", "reader").await;
    let mut getting = std::process::Command::new(crate::support::program());
    getting.arg("get").arg(server.url(&url)).env("ROWSTREAM_TOKEN", "reader");
    let got = wait("its rows", tokio::task::spawn_blocking(move || getting.output())).await.unwrap().unwrap();
    let told = String::from_utf8_lossy(&got.stderr);
    assert!(got.status.success(), "{told}");
    assert_eq!(got.stdout.split(|byte| *byte == b'\n').count(), 3002, "{told}");
}
