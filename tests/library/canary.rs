//! Puts a secret into every possible place, and checks that no output of the server contains one.
//!
//! Each secret is a word that occurs nowhere else, with the name of its place in it.

use std::collections::HashSet;
use std::fs;

use http::Request;
use rowstream::config::Config;

use crate::support::upstream::{Speaks, Upstream, reply};
use crate::support::{Client, Launch, Server, TestDb, pg_port, rowstream, wait_until};

/// A part of every secret, and of nothing else.
const CANARY: &str = "kanarienvogel";

fn secret(place: &str) -> String {
    format!("{CANARY}-{place}")
}

/// Fails if the text contains a secret, also in base64 as in Basic authentication.
#[track_caller]
fn is_silent(place: &str, said: &str) {
    use base64::Engine as _;
    let encoded: Vec<String> = (0..3)
        .map(|shift| {
            let text = base64::prelude::BASE64_STANDARD_NO_PAD
                .encode([&b"xxx"[..shift], CANARY.as_bytes()].concat());
            text[4..text.len() - 4].to_owned()
        })
        .collect();
    for word in [CANARY].into_iter().chain(encoded.iter().map(String::as_str)) {
        if let Some(at) = said.find(word) {
            let from = said.floor_char_boundary(at.saturating_sub(200));
            panic!("{place} has a secret: {}", &said[from..said.ceil_char_boundary(at + 60)]);
        }
    }
}

fn config(db: &TestDb, up: &Upstream, format: &str) -> String {
    use sha2::Digest as _;
    let hash: String =
        sha2::Sha256::digest(secret("token")).iter().map(|byte| format!("{byte:02x}")).collect();
    let (port, up) = (pg_port(), up.address());
    format!(
        "authorization = \"public\"\ncursor_secret = \"{cursor}\"\nurl_secret = \"{url}\"\nerror_detail = \"database\"\n\
         [log]\nformat = \"{format}\"\n\
         [admin]\npublic = [\"live\", \"ready\", \"metrics\"]\nauthorization = [\"reader\"]\n\
         [token.reader]\nsha256 = \"{hash}\"\n\
         [jwt]\nissuer = \"https://login.example\"\naudience = \"a\"\nkeys = \"keys.json\"\n\
         [source.db]\nurl = \"{db}\"\n\
         [source.refused]\nurl = \"postgres://scram_user:${{PG_SECRET}}@127.0.0.1:{port}/postgres\"\n\
         [source.gone]\nurl = \"mysql://u:{mysql}@127.0.0.1:1/d\"\n\
         [source.up]\nurl = \"http://{up}\"\nheaders = {{ authorization = \"Bearer ${{file:upstream.secret}}\" }}\n\
         [source.down]\nurl = \"http://127.0.0.1:1\"\nheaders = {{ x-key = \"${{credential:key}}\" }}\n\
         [traces]\nurl = \"http://{up}\"\nsample = 1\n\
         [discovery.consul]\nurl = \"http://{up}\"\ntoken = \"${{CONSUL_SECRET}}\"\n",
        cursor = secret("cursor"),
        url = secret("that signs the URLs of this server"),
        db = db.url(),
        mysql = secret("mysql"),
    )
}

fn launch(db: &TestDb, up: &Upstream, format: &str) -> Launch {
    let sql = |source: &str, more: &str, sql: &str| format!("/*\nsource = \"{source}\"\n{more}\n*/\n{sql}");
    let files = [
        ("rowstream.toml", config(db, up, format)),
        ("keys.json", format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{}"}}]}}"#, "A".repeat(43))),
        ("upstream.secret", secret("file")),
        ("credentials/key", secret("credential")),
        (".env", format!("PG_SECRET={}\n", secret("postgres"))),
        ("endpoints/rows.sql", sql("db", "key = [\"n\"]", "select generate_series(1, 5000) as n order by n")),
        ("endpoints/fails.sql", sql("db", "", "select 1 / (3000 - n) as n from generate_series(1, 4000) n")),
        ("endpoints/mine.sql", sql("db", "authorization = [\"reader\"]", "select 1 as n")),
        ("endpoints/claims.sql", sql("db", "authorization = \"authenticated\"", "select :jwt.sub as n")),
        ("endpoints/refused.sql", sql("refused", "", "select 1 as n")),
        ("endpoints/gone.sql", sql("gone", "", "select 1 as n")),
        ("endpoints/up.toml", "[upstream]\nsource = \"up\"\nrequest = \"GET /asked\"\n".to_owned()),
        (
            "endpoints/bad.toml",
            "[upstream]\nsource = \"up\"\nrequest = \"GET /bad\"\nrows = \"\"\ncolumns = { n = \"integer\" }\n".to_owned(),
        ),
        ("endpoints/down.toml", "[upstream]\nsource = \"down\"\nrequest = \"GET /\"\n".to_owned()),
    ];
    let launch = Launch::files(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let credentials = launch.path().join("credentials").display().to_string();
    launch
        .variable("CREDENTIALS_DIRECTORY", &credentials)
        .variable("CONSUL_SECRET", &secret("consul"))
        .argument("--no-check")
}

/// The credentials that a client can show.
fn credentials() -> Vec<String> {
    use base64::Engine as _;
    let basic = |pair: String| format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(pair));
    let part = |text: &str| base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(text);
    let jwt =
        [part("{\"alg\":\"EdDSA\"}"), part(&format!("{{\"sub\":\"{}\"}}", secret("jwt"))), part(CANARY)];
    vec![
        format!("Bearer {}", secret("token")),
        format!("Bearer {}", secret("nobody")),
        basic(format!("reader:{}", secret("token"))),
        basic(format!("reader:{}", secret("password"))),
        format!("Bearer {}", jwt.join(".")),
        format!("Bearer {CANARY}.a.b"),
        format!("Digest {CANARY}"),
    ]
}

async fn ask_everything(server: &Server) {
    let paths = [
        "/rows",
        "/rows.ndjson?_end=1",
        "/fails",
        "/mine",
        "/claims",
        "/refused",
        "/gone",
        "/up",
        "/bad",
        "/down",
        "/missing",
        "/",
        "/rows?_after=x",
        "/mine?_signature=kanarienvogel",
        "/rows?_nulls=omit&%5Fsignature=kanarienvogel&unknown=1",
        "/missing?_signature=kanarienvogel",
        "/_rowstream/metrics?_signature=kanarienvogel",
        "/_rowstream/",
        "/_rowstream/streams",
        "/_rowstream/metrics",
        "/_rowstream/history",
        "/_rowstream/openapi.json",
        "/_rowstream/ready",
        "/_rowstream/sd",
        "/_rowstream/streams/x",
    ];
    let mut opened = HashSet::new();
    for path in paths {
        for shown in [None].into_iter().chain(credentials().into_iter().map(Some)) {
            let request = Request::get(server.url(path));
            let request = match &shown {
                Some(shown) => request.header("authorization", shown),
                None => request,
            };
            let reply = Client::HTTP1.send(request.body(String::new()).expect("a request")).await;
            let place = path.replace(CANARY, "");
            is_silent(&place, &format!("{:?} {}", reply.headers, reply.text()));
            if reply.status == 200 {
                opened.insert(path);
            }
        }
    }
    let pages = ["/_rowstream/", "/_rowstream/openapi.json", "/_rowstream/metrics", "/fails"];
    assert!(pages.iter().all(|page| opened.contains(page)), "{opened:?}");
}

/// Runs `doctor` with a header that grants all access, and with a password in its URL.
async fn the_doctor_is_silent(server: &Server) {
    let shown = format!("Authorization: Bearer {}", secret("token"));
    let via = server.url("");
    let with_password = via.replace("http://", &format!("http://u:{}@", secret("url")));
    for arguments in [
        &["doctor", "--via", &via, "--silence", "1", "-H", &shown][..],
        &["doctor", "--via", "http://127.0.0.1:1", "--silence", "1", "-H", &shown],
        &["doctor", "--via", &with_password, "--silence", "1"],
    ] {
        let output = rowstream(arguments).await;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        is_silent("the doctor", &said);
        assert!(!said.is_empty());
    }
}

#[tokio::test]
async fn no_secret_is_said() {
    let db = TestDb::new().await;
    for format in ["text", "json"] {
        let up = Upstream::start(Speaks::Http1, |_, asked| async move {
            match asked.target.as_str() {
                "/asked" => reply(200, "application/json", "{}"),
                "/v1/traces" => reply(200, "application/json", "{}"),
                "/bad" => reply(200, "application/json", "{{{"),
                _ => reply(403, "text/plain", "no"),
            }
        })
        .await;
        let server = launch(&db, &up, format).start().await;
        ask_everything(&server).await;
        if format == "text" {
            the_doctor_is_silent(&server).await;
        }
        // An invalid reload, in the presence of all secrets.
        let file = server.folder().join("rowstream.toml");
        let text = fs::read_to_string(&file).expect("it is there");
        fs::write(&file, format!("listen = \"${{PG_SECRET}}\"\nmemory = \"${{CONSUL_SECRET}}\"\n{text}"))
            .expect("a file");
        server.hang_up();
        server.wait_for_stderr("rowstream.toml").await;
        wait_until("spans are sent", async || up.count("/v1/traces") > 0).await;
        server.terminate();
        is_silent("standard error", &server.stderr());
        is_silent("standard output", &server.stdout());
        assert!(
            server.stdout().contains("/mine") && server.stderr().contains("Consul"),
            "they say something"
        );
        let (mut upstream, mut consul, mut spans) = (0, 0, 0);
        for asked in up.asked() {
            is_silent(&format!("the body sent to {}", asked.target), &asked.body);
            is_silent("a target", &asked.target);
            // Checks that the intended recipient gets the secret.
            let got = |name: &str, place: &str| {
                asked
                    .headers
                    .get(name)
                    .is_some_and(|value| value.to_str().unwrap_or_default().contains(&secret(place)))
            };
            upstream += usize::from(got("authorization", "file"));
            consul += usize::from(got("x-consul-token", "consul"));
            if asked.target == "/v1/traces" {
                is_silent("what a collector gets", &format!("{:?}", asked.headers));
                spans += usize::from(asked.body.contains("/fails"));
            }
        }
        assert!(upstream > 0 && consul > 0 && spans > 0, "{upstream} {consul} {spans}");
    }
}

/// Checks `check`, a panic that shows a configuration, and failing starts.
#[tokio::test]
async fn no_command_says_a_secret() {
    let db = TestDb::new().await;
    let up = Upstream::start(Speaks::Http1, |_, _| async { reply(403, "text/plain", "no") }).await;
    let launch = launch(&db, &up, "text");
    let folder = launch.path().to_owned();
    let config = folder.join("rowstream.toml");
    let text = fs::read_to_string(&config).expect("it is there");
    let plain = |text: &str| {
        let credentials = folder.join("credentials");
        let text =
            text.replace("${credential:key}", &format!("${{file:{}}}", credentials.join("key").display()));
        fs::write(&config, text.replace("${CONSUL_SECRET}", &secret("consul"))).expect("a file");
    };
    plain(&text);
    let path = config.to_str().expect("text");
    for arguments in
        [&["check", path][..], &["check", "--openapi", path], &["check", "--format", "json", path]]
    {
        let output = rowstream(arguments).await;
        for said in [&output.stdout, &output.stderr] {
            is_silent(&format!("{arguments:?}"), &String::from_utf8_lossy(said));
        }
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty());
    }
    let loaded = Config::load(&config).unwrap_or_else(|errors| panic!("{errors}"));
    is_silent("a configuration that is shown", &format!("{loaded:?} {loaded:#?}"));
    // A secret in the wrong place.
    for (broken, place) in [
        ("[source.x]\nurl = \"${PG_SECRET}\"\n", "url"),
        ("[source.x]\nurl = \"postgres://u:${PG_SECRET}@h:x/d\"\n", "port"),
        ("[source.x]\nurl = \"mysql://u:${PG_SECRET}@h/d?ssl-mode=no\"\n", "parameter"),
        ("[source.x]\nurl = \"http://u:${PG_SECRET}@h\"\n", "userinfo"),
        ("[source.x]\nurl = \"postgres://u:kanarienvogel-plain@h/d?sslmode=no\"\n", "plain"),
        ("[source.x]\nurl = \"adbc:none?password=${PG_SECRET}\"\n", "driver"),
        ("[token.x]\nsha256 = \"${PG_SECRET}\"\n", "hash"),
        ("[token.x]\nsha256 = \"${file:upstream.secret}\"\n", "file"),
        ("[token.x]\nsha256 = \"00\"\nexpires = \"${PG_SECRET}\"\n", "expiry"),
        ("[tls]\ncertificate = \"upstream.secret\"\nkey = \"upstream.secret\"\n", "key"),
        ("[cors]\norigins = [\"${PG_SECRET}\"]\n", "origin"),
        ("[rate_limit]\nwindow = \"${PG_SECRET}\"\n", "window"),
    ] {
        plain(&(text.clone() + broken));
        let output = rowstream(&["check", path]).await;
        assert_ne!(output.status.code(), Some(0), "{broken}");
        is_silent(place, &String::from_utf8_lossy(&output.stderr));
        is_silent(place, &String::from_utf8_lossy(&output.stdout));
    }
    fs::write(folder.join(".env"), format!("PG SECRET {CANARY}\n{CANARY}=\"x\n")).expect("a file");
    plain(&text);
    is_silent(
        "a file .env with an error",
        &String::from_utf8_lossy(&rowstream(&["check", path]).await.stderr),
    );
}
