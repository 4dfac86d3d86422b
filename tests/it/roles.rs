//! PostgreSQL's roles and row-level security. A request's token alone decides which rows it sees,
//! regardless of the connection's earlier requests.

use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::jwt::{ISSUER, Keys};
use crate::request_bodies::answer_to_head;
use crate::support::logins::{MD5, SCRAM};
use crate::support::{Client, Launch, Reply, Server, TestDb};

const WHO: &str = "select current_user::text as role, session_user::text as login, \
     current_setting('request.jwt.claims', true)::json->>'sub' as sub";

/// A database where `scram_user` sees the rows of the token's subject, and `md5_user` sees none.
async fn database() -> TestDb {
    let db = TestDb::new().await;
    db.execute(&format!(
        "create table note (owner text, n int);
         insert into note select owner, n from unnest(array['alice', 'bo''b\\']) owner, generate_series(1, 2000) n;
         alter table note enable row level security;
         create policy own on note using (owner = current_setting('request.jwt.claims', true)::json->>'sub');
         create table line (owner text, n int);
         insert into line select owner, n from note where n <= 3;
         alter table line enable row level security;
         create policy own on line using (owner = current_setting('request.jwt.claims', true)::json->>'sub');
         create table hidden as select 1 n;
         grant select on note, line to {}, {}",
        SCRAM.user, MD5.user
    ))
    .await;
    db
}

async fn server(url: &str, keys: &Keys, source: &str) -> Server {
    let config = format!(
        "authorization = \"public\"\n[jwt]\nissuer = \"{ISSUER}\"\nkeys = \"keys.json\"\naudience = \"rowstream\"\n\
         [source.db]\nurl = \"{url}\"\nrole_claim = \"role\"\n{source}\n"
    );
    let files = [
        ("rowstream.toml", config),
        ("keys.json", keys.set().to_string()),
        ("endpoints/hidden.sql", "select n from hidden".to_owned()),
        ("endpoints/notes.sql", "select owner, n, repeat('x', 100) as t from note order by n".to_owned()),
        ("endpoints/who.sql", format!("/*\nresult = \"one\"\n*/\n{WHO}")),
        (
            "endpoints/claimed.sql",
            "/*\nauthorization = \"authenticated\"\n*/\nselect :jwt.tenant as tenant".to_owned(),
        ),
        (
            "endpoints/mine/{n}.sql",
            "/*\nresult = \"one\"\n[params]\nn = \"integer\"\n*/\nselect owner, n from note where n = :n".to_owned(),
        ),
        (
            "endpoints/both.sql",
            "/*\nbody = { notes = \"$notes\", total = \"$total\" }\n*/\n-- name: notes :many\nselect owner from note where n <= 3 order by n;\n\
             -- name: total :value\nselect count(*) from note;\n"
                .to_owned(),
        ),
        (
            "endpoints/nested.sql",
            "-- name: notes :many\nselect owner, n from note where n <= 3 order by n;\n\
             -- name: lines :many nested in notes on n = n\nselect owner, n from line order by n;\n"
                .to_owned(),
        ),
    ];
    Launch::files(&files.each_ref().map(|(name, text)| (*name, text.as_str()))).start().await
}

async fn ask(server: &Server, path: &str, token: Option<&str>) -> Reply {
    let mut request = Request::get(server.url(path));
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    Client::HTTP1.send(request.body(String::new()).expect("a request")).await
}

fn token(keys: &Keys, role: &Value, sub: &str) -> String {
    keys.but("ES256", json!({}), json!({"role": role, "sub": sub}))
}

/// All owners in a response.
fn owners(reply: &Reply) -> Vec<String> {
    let text = reply.text();
    let mut found: Vec<_> =
        text.split("\"owner\":\"").skip(1).map(|rest| rest.split("\",").next().unwrap()).collect();
    found.iter_mut().for_each(|owner| *owner = owner.split("\"}").next().unwrap());
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn each_sees_the_rows_of_its_own_on_connections_that_others_had() {
    let (db, keys) = (database().await, Keys::new());
    for (pool, fetch_rows) in [(1, 0), (8, 0), (8, 100)] {
        let source = format!(
            "anonymous_role = \"{}\"\nroles = [\"{}\"]\nfetch_rows = {fetch_rows}\npool = {{ max = {pool}, acquire_timeout = \"60s\" }}",
            MD5.user, SCRAM.user
        );
        let server = Arc::new(server(&db.url(), &keys, &source).await);
        let alice = token(&keys, &json!(SCRAM.user), "alice");
        let bob = token(&keys, &json!(SCRAM.user), "bo'b\\");
        let mut asked = JoinSet::new();
        for round in 0..60 {
            let paths = ["/notes", "/mine/7", "/both", "/nested", "/who"];
            let path = paths[round % paths.len()];
            let who =
                [(Some(&alice), "alice"), (Some(&bob), "bo'b\\\\"), (None, "")][round / paths.len() % 3];
            let (server, token) = (Arc::clone(&server), who.0.cloned());
            asked.spawn(async move { (path, who.1, ask(&server, path, token.as_deref()).await) });
        }
        while let Some(answered) = asked.join_next().await {
            let (path, who, reply) = answered.expect("no panic");
            let text = reply.text();
            match (path, who) {
                ("/who", "") => {
                    assert_eq!(reply.json(), json!({"role": MD5.user, "login": "postgres", "sub": null}));
                }
                ("/who", _) => {
                    let sub = who.replace("\\\\", "\\");
                    assert_eq!(reply.json(), json!({"role": SCRAM.user, "login": "postgres", "sub": sub}));
                }
                ("/mine/7", "") => assert_eq!(reply.status, 404, "{text}"),
                (_, "") => {
                    assert_eq!((reply.status.as_u16(), owners(&reply)), (200, vec![]), "{path}: {text}");
                }
                _ => {
                    assert_eq!(
                        (reply.status.as_u16(), owners(&reply)),
                        (200, vec![who.to_owned()]),
                        "{path}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn a_token_has_no_role_but_those_that_it_may_have() {
    let (db, keys) = (database().await, Keys::new());
    let listed = server(&db.url(), &keys, &format!("roles = [\"{}\"]", SCRAM.user)).await;
    let unlisted = server(&db.url(), &keys, "").await;
    let other = server(&db.url_of(&SCRAM, "sslmode=disable"), &keys, "").await;
    for (what, server, token, status, code) in [
        ("none", &listed, None, 401, "unauthorized"),
        ("nonsense", &listed, Some("nonsense".to_owned()), 401, "unauthorized"),
        ("no role", &listed, Some(token(&keys, &Value::Null, "a")), 403, "claim_missing"),
        ("another role", &listed, Some(token(&keys, &json!(MD5.user), "a")), 403, "forbidden"),
        ("a list", &listed, Some(token(&keys, &json!([SCRAM.user]), "a")), 403, "forbidden"),
        ("the login", &unlisted, Some(token(&keys, &json!("none"), "a")), 403, "forbidden"),
        ("another", &other, Some(token(&keys, &json!(MD5.user), "a")), 403, "role_forbidden"),
        ("no SQL", &unlisted, Some(token(&keys, &json!("x'; reset role; --"), "a")), 400, "invalid_data"),
    ] {
        let reply = ask(server, "/who", token.as_deref()).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (status, &json!(code)), "{what}");
        // The connection of the refused request serves the next one.
        let own = self::token(&keys, &json!(SCRAM.user), "a");
        assert_eq!(ask(server, "/who", Some(&own)).await.json()["role"], SCRAM.user, "{what}");
    }
}

/// The token decides them, but a body was read first.
#[tokio::test]
async fn roles_and_claims_are_refused_without_a_body() {
    let (db, keys) = (database().await, Keys::new());
    let server = server(&db.url(), &keys, &format!("roles = [\"{}\"]", SCRAM.user)).await;
    for (target, role, status) in [
        ("/who", None, 401),
        ("/who", Some(json!(MD5.user)), 403),
        ("/claimed", Some(json!(SCRAM.user)), 403),
        ("/who", Some(json!(SCRAM.user)), 100),
    ] {
        let token =
            role.as_ref().map(|role| format!("Authorization: Bearer {}\r\n", token(&keys, role, "a")));
        let headers = "Content-Type: application/json\r\nContent-Length: 2";
        let headers = format!("{}{headers}", token.unwrap_or_default());
        let answer = answer_to_head(&server, target, &headers).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {role:?}: {answer}");
    }
}

/// Issuers name claims by URLs. The dot in `https://login.example/role` was parsed as a path, so
/// the claim wasn't found, and a user with a role silently got the anonymous one.
#[tokio::test]
async fn the_claim_of_the_role_may_be_a_url() {
    let (db, keys) = (database().await, Keys::new());
    let config = |claim: &str| {
        format!(
            "authorization = \"public\"\n[jwt]\nissuer = \"{ISSUER}\"\nkeys = \"keys.json\"\naudience = \"rowstream\"\n\
             [source.db]\nurl = \"{}\"\nrole_claim = \"{claim}\"\nanonymous_role = \"{}\"\n",
            db.url(),
            MD5.user
        )
    };
    let who = format!("/*\nresult = \"one\"\n*/\n{WHO}");
    let keys_of_issuer = keys.set().to_string();
    for (claim, claims) in [
        ("https://login.example/role", json!({"https://login.example/role": SCRAM.user})),
        ("https://login.example/app.role", json!({"https://login.example/app": {"role": SCRAM.user}})),
        ("realm_access.role", json!({"realm_access": {"role": SCRAM.user}})),
        ("realm_access.role", json!({"realm_access.role": SCRAM.user, "realm_access": {"role": MD5.user}})),
    ] {
        let files = [
            ("rowstream.toml", &*config(claim)),
            ("keys.json", &*keys_of_issuer),
            ("endpoints/who.sql", &*who),
        ];
        let server = Launch::files(&files).start().await;
        let shown = keys.but("ES256", json!({}), claims.clone());
        assert_eq!(ask(&server, "/who", Some(&shown)).await.json()["role"], SCRAM.user, "{claim} {claims}");
        let without = keys.but("ES256", json!({}), json!({}));
        assert_eq!(ask(&server, "/who", Some(&without)).await.json()["role"], MD5.user, "{claim}");
    }
}

#[tokio::test]
async fn what_a_role_may_not_read_is_denied() {
    let (db, keys) = (database().await, Keys::new());
    let server = server(&db.url(), &keys, &format!("anonymous_role = \"{}\"", MD5.user)).await;
    let shown = token(&keys, &json!(SCRAM.user), "alice");
    for (token, status, code, challenge) in [
        (Some(&*shown), 403, "role_forbidden", "insufficient_scope"),
        (None, 401, "unauthorized", "Bearer realm=\"rowstream\""),
    ] {
        let reply = ask(&server, "/hidden", token).await;
        let problem = reply.json();
        assert_eq!((reply.status.as_u16(), &problem["code"]), (status, &json!(code)), "{problem}");
        assert_eq!(problem["sqlstate"], "42501");
        assert!(reply.header("www-authenticate").is_some_and(|value| value.contains(challenge)));
        // A client that sees other rows must not get a cached response.
        let notes = ask(&server, "/notes", token).await;
        let vary: Vec<_> = notes.headers.get_all("vary").iter().collect();
        assert!(vary.iter().any(|value| *value == "authorization"), "{vary:?}");
    }
}

/// `set role` doesn't apply a role's settings, so its limits had no effect for tokens with that
/// role.
#[tokio::test]
async fn settings_of_a_role_hold_for_its_requests() {
    let keys = Keys::new();
    let db = TestDb::new().await;
    let (web, plain) = (format!("{}_web", db.name()), format!("{}_plain", db.name()));
    // Only a superuser may set `log_statement`, and the format of dates is fixed.
    db.execute(&format!(
        "create role {web}; create role {plain};
         alter role {web} set statement_timeout = '300ms'; alter role {web} set work_mem = '5MB';
         alter role {web} set app.tenant = 'it''s';
         alter role {web} set log_statement = 'none'; alter role {web} set datestyle = 'German';
         alter role {web} set search_path = 'nowhere'; alter role {web} set request.jwt.claims = '{{}}';
         alter role {web} in database {} set work_mem = '7MB'",
        db.name()
    ))
    .await;
    let config = format!(
        "authorization = \"public\"\n[jwt]\nissuer = \"{ISSUER}\"\nkeys = \"keys.json\"\naudience = \"rowstream\"\n\
         [source.db]\nurl = \"{}\"\nrole_claim = \"role\"\npool = {{ max = 1 }}\n",
        db.url()
    );
    let settings = "select current_setting('work_mem') as memory, current_setting('app.tenant', true) as tenant, \
        current_setting('statement_timeout') as timeout, date '2024-01-31' as day, current_user::text as role, \
        current_setting('request.jwt.claims')::json->>'sub' as sub";
    let two = format!(
        "/*\nbody = {{ a = \"$a\", b = \"$b\" }}\n*/\n-- name: a :one\n{settings};\n-- name: b :value\nselect 1"
    );
    let files = [
        ("rowstream.toml", config.as_str()),
        ("keys.json", &keys.set().to_string()),
        ("endpoints/settings.sql", settings),
        ("endpoints/two.sql", &two),
        ("endpoints/slow.sql", "select pg_sleep(60)::text as slept"),
    ];
    let server = Launch::files(&files).start().await;
    let (as_web, as_plain) = (token(&keys, &json!(web), "a"), token(&keys, &json!(plain), "a"));
    let own = |role: &str| json!({"memory": "4MB", "tenant": null, "timeout": "0", "day": "2024-01-31", "role": role, "sub": "a"});
    let of_web = json!({"memory": "7MB", "tenant": "it's", "timeout": "300ms", "day": "2024-01-31", "role": web, "sub": "a"});
    for _ in 0..2 {
        assert_eq!(ask(&server, "/settings", Some(&as_web)).await.json(), json!([of_web]));
        // From then on, PostgreSQL knows a name with a dot, but without a value.
        let mut others = ask(&server, "/settings", Some(&as_plain)).await.json();
        others[0]["tenant"].as_str().is_some_and(str::is_empty).then(|| others[0]["tenant"] = Value::Null);
        assert_eq!(others, json!([own(&plain)]));
        assert_eq!(ask(&server, "/two", Some(&as_web)).await.json(), json!({"a": of_web, "b": 1}));
    }
    let slow = ask(&server, "/slow", Some(&as_web)).await;
    assert_eq!((slow.status.as_u16(), &slow.json()["code"]), (504, &json!("statement_timeout")));
}

/// A role's own `transaction_read_only` ended the guard, so a statement wrote.
#[tokio::test]
async fn settings_of_a_role_keep_its_requests_from_writing() {
    let keys = Keys::new();
    let db = TestDb::new().await;
    let role = format!("{}_writer", db.name());
    db.execute(&format!(
        "create sequence s; create role {role}; grant usage on sequence s to {role};
         alter role {role} set transaction_read_only = off;
         alter role {role} set transaction_isolation = 'read committed'"
    ))
    .await;
    let config = format!(
        "authorization = \"public\"\n[jwt]\nissuer = \"{ISSUER}\"\nkeys = \"keys.json\"\naudience = \"rowstream\"\n\
         [source.db]\nurl = \"{}\"\nrole_claim = \"role\"\n",
        db.url()
    );
    let settings = "select current_setting('transaction_read_only') as reads, current_setting('transaction_isolation') as level";
    let two = format!(
        "/*\nbody = {{ a = \"$a\", b = \"$b\" }}\n*/\n-- name: a :one\n{settings};\n-- name: b :value\nselect 1"
    );
    let files = [
        ("rowstream.toml", config.as_str()),
        ("keys.json", &keys.set().to_string()),
        ("endpoints/writes.sql", "select nextval('s') as n"),
        ("endpoints/two.sql", &two),
    ];
    let server = Launch::files(&files).start().await;
    let token = token(&keys, &json!(role), "a");
    for _ in 0..2 {
        let writes = ask(&server, "/writes", Some(&token)).await;
        assert_eq!(writes.status, 500, "{}", writes.text());
        let two = ask(&server, "/two", Some(&token)).await;
        assert_eq!(two.json()["a"], json!({"reads": "on", "level": "repeatable read"}));
    }
}

/// Claims were sent as UTF-8. A LATIN1 database refused every request of a user whose token
/// contains an unsupported letter, even in a claim that no statement reads.
#[tokio::test]
async fn claims_may_have_letters_that_the_database_lacks() {
    let keys = Keys::new();
    for (encoding, name, read) in [
        ("LATIN1", "Łukasz", Err(400)),
        ("LATIN1", "René", Ok("René")),
        ("SQL_ASCII", "Łukasz", Ok("Łukasz")),
        ("UTF8", "Łukasz 😀", Ok("Łukasz 😀")),
    ] {
        let db = TestDb::encoded(encoding).await;
        let config = format!(
            "authorization = \"public\"\n[jwt]\nissuer = \"{ISSUER}\"\nkeys = \"keys.json\"\naudience = \"rowstream\"\n\
             [source.db]\nurl = \"{}\"\nrole_claim = \"role\"\n",
            db.url()
        );
        let name_of = "select current_setting('request.jwt.claims')::json->>'name' as name";
        let files = [
            ("rowstream.toml", config.as_str()),
            ("keys.json", &keys.set().to_string()),
            ("endpoints/role.sql", "select current_user::text as role"),
            ("endpoints/name.sql", name_of),
        ];
        let server = Launch::files(&files).start().await;
        let token = keys.but("ES256", json!({}), json!({"role": SCRAM.user, "name": name}));
        let role = ask(&server, "/role", Some(&token)).await;
        assert_eq!(role.json(), json!([{"role": SCRAM.user}]), "{encoding}: {name}");
        let reply = ask(&server, "/name", Some(&token)).await;
        match read {
            Ok(name) => assert_eq!(reply.json(), json!([{"name": name}]), "{encoding}: {name}"),
            Err(status) => assert_eq!(reply.status.as_u16(), status, "{encoding}: {name}: {}", reply.text()),
        }
    }
}
