//! JSON Web Tokens: the accepted ones, their permissions, and the sources of keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::Request;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::{Client, Launch, Reply, Server};

pub(crate) const ISSUER: &str = "https://login.example";

type Public = signature::RsaPublicKeyComponents<Vec<u8>>;

/// The keys of an issuer.
pub(crate) struct Keys {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

impl Keys {
    pub(crate) fn new() -> Self {
        let random = SystemRandom::new();
        let ecdsa = |algorithm| {
            let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap()
        };
        let rsa: String = include_str!("../../testdata/jwt/rsa.der.base64").split_whitespace().collect();
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self {
            rsa: RsaKeyPair::from_der(&BASE64_STANDARD.decode(rsa).unwrap()).unwrap(),
            p256: ecdsa(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            p384: ecdsa(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            ed25519: Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).unwrap(),
        }
    }

    /// The JWK set.
    pub(crate) fn set(&self) -> Value {
        let Public { n, e } = self.rsa.public().into();
        let (n, e): (String, String) = (base64(&n), base64(&e));
        let point = |key: &EcdsaKeyPair| {
            let point = &key.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            (base64(x), base64(y))
        };
        let ((x256, y256), (x384, y384)) = (point(&self.p256), point(&self.p384));
        json!({"keys": [
            {"kty": "oct", "kid": "secret", "k": base64(b"secret")},
            {"kty": "RSA", "kid": "sealing", "use": "enc", "n": n, "e": e},
            {"kty": "RSA", "kid": "rsa", "use": "sig", "n": n, "e": e},
            {"kty": "EC", "kid": "p256", "crv": "P-256", "x": x256, "y": y256, "alg": "ES256"},
            {"kty": "EC", "kid": "p384", "crv": "P-384", "x": x384, "y": y384},
            {"kty": "OKP", "kid": "ed25519", "crv": "Ed25519", "x": base64(self.ed25519.public_key().as_ref())},
        ]})
    }

    /// A token with this header and these claims, signed with `algorithm`.
    fn token(&self, algorithm: &str, header: &Value, claims: &Value) -> String {
        let message =
            format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()));
        let signature = self.sign(algorithm, message.as_bytes());
        format!("{message}.{}", base64(&signature))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let rsa: &'static dyn signature::RsaEncoding = match algorithm {
            "RS256" => &signature::RSA_PKCS1_SHA256,
            "RS384" => &signature::RSA_PKCS1_SHA384,
            "RS512" => &signature::RSA_PKCS1_SHA512,
            "PS256" => &signature::RSA_PSS_SHA256,
            "PS384" => &signature::RSA_PSS_SHA384,
            "PS512" => &signature::RSA_PSS_SHA512,
            "ES256" => return self.p256.sign(&random, message).unwrap().as_ref().to_vec(),
            "ES384" => return self.p384.sign(&random, message).unwrap().as_ref().to_vec(),
            "EdDSA" => return self.ed25519.sign(message).as_ref().to_vec(),
            "none" => return Vec::new(),
            // The attack of RFC 8725, section 2.1: the public key as the secret.
            "HS256" => {
                let Public { n, .. } = self.rsa.public().into();
                return hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &n), message).as_ref().to_vec();
            }
            other => panic!("{other}"),
        };
        let mut signature = vec![0; self.rsa.public().modulus_len()];
        self.rsa.sign(rsa, &random, message, &mut signature).unwrap();
        signature
    }

    /// A valid token, except for these members of its header and claims.
    pub(crate) fn but(&self, algorithm: &str, header: Value, claims: Value) -> String {
        let mut own_header = json!({"alg": algorithm, "kid": key_of(algorithm)});
        let mut own_claims = json!({
            "iss": ISSUER, "aud": "rowstream", "sub": "7", "scope": "profile orders:read", "exp": seconds() + 600,
        });
        for (own, others) in [(&mut own_header, header), (&mut own_claims, claims)] {
            for (name, value) in others.as_object().unwrap() {
                own[name] = value.clone();
                if value.is_null() {
                    own.as_object_mut().unwrap().remove(name);
                }
            }
        }
        self.token(algorithm, &own_header, &own_claims)
    }

    fn well(&self, algorithm: &str) -> String {
        self.but(algorithm, json!({}), json!({}))
    }
}

fn key_of(algorithm: &str) -> &'static str {
    match algorithm {
        "ES256" => "p256",
        "ES384" => "p384",
        "EdDSA" => "ed25519",
        _ => "rsa",
    }
}

fn base64(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    i64::try_from(since.as_secs()).expect("it is not that late")
}

/// A server that trusts the issuer, with additional lines in `[jwt]`.
async fn server(jwt: &str, keys: &str) -> Server {
    server_with(jwt, keys, &[]).await
}

/// The same server with additional files.
async fn server_with(jwt: &str, keys: &str, files: &[(&str, &str)]) -> Server {
    let config = format!(
        "authorization = [\"orders:read\"]\n[jwt]\naudience = [\"other\", \"rowstream\"]\nscopes = [\"orders:read\"]\n{jwt}\n\
         [source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n"
    );
    let tenant = "/*\nauthorization = \"authenticated\"\n[params]\n\"jwt.tenant\" = \"integer\"\n\"jwt.groups\" = { type = \"text[]\", optional = true }\n*/\nselect :jwt.tenant + 1 as tenant, :jwt.groups as groups";
    let own = [
        ("rowstream.toml", config.as_str()),
        ("keys.json", keys),
        ("t.sql", "create table t (n)"),
        ("endpoints/orders.sql", "select 1 as n"),
        ("endpoints/mine.sql", "/*\nauthorization = \"authenticated\"\n*/\nselect :jwt.sub as sub"),
        ("endpoints/city.sql", "/*\nauthorization = \"authenticated\"\n*/\nselect :jwt.address.city as city"),
        ("endpoints/tenant.sql", tenant),
    ];
    Launch::files(&[&own, files].concat()).start().await
}

async fn of_file(keys: &Keys) -> Server {
    server(&format!("issuer = \"{ISSUER}\"\nkeys = \"keys.json\""), &keys.set().to_string()).await
}

async fn ask(server: &Server, path: &str, token: &str) -> Reply {
    let request = Request::get(server.url(path)).header("authorization", format!("Bearer {token}"));
    Client::HTTP1.send(request.body(String::new()).expect("a request")).await
}

async fn status(server: &Server, path: &str, token: &str) -> (u16, String) {
    let reply = ask(server, path, token).await;
    let code = if reply.status == 200 { Value::Null } else { reply.json()["code"].clone() };
    (reply.status.as_u16(), code.as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_token_is_believed_by_its_signature_and_its_claims() {
    let keys = Keys::new();
    let server = of_file(&keys).await;
    for algorithm in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"] {
        assert_eq!(status(&server, "/orders", &keys.well(algorithm)).await.0, 200, "{algorithm}");
        // Another key of the same kind (there's only one of RSA), and a signature of another
        // message.
        if key_of(algorithm) != "rsa" {
            let forged = status(&server, "/orders", &Keys::new().well(algorithm)).await;
            assert_eq!(forged, (401, "unauthorized".to_owned()), "{algorithm}");
        }
        let token = keys.well(algorithm);
        let (_, signature) = token.rsplit_once('.').unwrap();
        let other = keys.but(algorithm, json!({}), json!({"sub": "8"}));
        let (message, _) = other.rsplit_once('.').unwrap();
        assert_eq!(status(&server, "/orders", &format!("{message}.{signature}")).await.0, 401, "{algorithm}");
    }
    let now = seconds();
    let of_rs256 = |header: Value, claims: Value| keys.but("RS256", header, claims);
    for (what, token, expected) in [
        ("no algorithm", keys.well("none"), (401, "unauthorized")),
        ("a public key as a secret", keys.well("HS256"), (401, "unauthorized")),
        ("another name of none", keys.but("none", json!({"alg": "nOnE"}), json!({})), (401, "unauthorized")),
        ("no name of an algorithm", of_rs256(json!({"alg": null}), json!({})), (401, "unauthorized")),
        (
            "another algorithm than that of the signature",
            of_rs256(json!({"alg": "RS512"}), json!({})),
            (401, "unauthorized"),
        ),
        ("a key of another kind", of_rs256(json!({"kid": "p256"}), json!({})), (401, "unauthorized")),
        ("a key for sealing", of_rs256(json!({"kid": "sealing"}), json!({})), (401, "unauthorized")),
        ("an unknown key", of_rs256(json!({"kid": "gone"}), json!({})), (401, "unauthorized")),
        ("no name of a key", of_rs256(json!({"kid": null}), json!({})), (200, "")),
        (
            "what has to be understood",
            of_rs256(json!({"crit": ["b64"], "b64": false}), json!({})),
            (401, "unauthorized"),
        ),
        (
            "a key of its own",
            of_rs256(json!({"jwk": keys.set()["keys"][2], "kid": "own"}), json!({})),
            (401, "unauthorized"),
        ),
        (
            "another issuer",
            of_rs256(json!({}), json!({"iss": "https://evil.example"})),
            (401, "unauthorized"),
        ),
        ("no issuer", of_rs256(json!({}), json!({"iss": null})), (401, "unauthorized")),
        ("for another server", of_rs256(json!({}), json!({"aud": "elsewhere"})), (401, "unauthorized")),
        ("for several", of_rs256(json!({}), json!({"aud": ["elsewhere", "rowstream"]})), (200, "")),
        ("for nobody", of_rs256(json!({}), json!({"aud": null})), (401, "unauthorized")),
        ("without an end", of_rs256(json!({}), json!({"exp": null})), (401, "unauthorized")),
        (
            "an end that isn't a valid time",
            of_rs256(json!({}), json!({"exp": "never"})),
            (401, "unauthorized"),
        ),
        (
            "over for a minute and a half",
            of_rs256(json!({}), json!({"exp": now - 90})),
            (401, "token_expired"),
        ),
        ("over for a moment", of_rs256(json!({}), json!({"exp": now - 1})), (200, "")),
        ("long before its begin", of_rs256(json!({}), json!({"nbf": now + 3600})), (401, "unauthorized")),
        ("just before its begin", of_rs256(json!({}), json!({"nbf": now + 30})), (200, "")),
        ("another scope", of_rs256(json!({}), json!({"scope": "orders:reads"})), (403, "forbidden")),
        ("no scope", of_rs256(json!({}), json!({"scope": null})), (403, "forbidden")),
        ("scopes as a list", of_rs256(json!({}), json!({"scope": null, "scp": ["orders:read"]})), (200, "")),
        ("no JSON", "e30.e30.e30".to_owned(), (401, "unauthorized")),
        ("nothing between dots", "..".to_owned(), (401, "unauthorized")),
        ("no token of this kind", "a.b".to_owned(), (401, "unauthorized")),
    ] {
        let (status, code) = status(&server, "/orders", &token).await;
        assert_eq!((status, code.as_str()), expected, "{what}");
    }
    let metrics = ask(&server, "/_rowstream/metrics", &keys.well("RS256")).await;
    assert_eq!(metrics.status, 403);
}

/// RFC 9864 names EdDSA on Ed25519 after its curve. Such a key was dropped from its set, and such a
/// token was refused.
#[tokio::test]
async fn ed25519_is_the_eddsa_that_there_is() {
    let keys = Keys::new();
    let mut of_key = keys.set()["keys"][5].clone();
    for (alg, algorithms) in [
        ("Ed25519", ""),
        ("EdDSA", "algorithms = [\"Ed25519\"]"),
        ("Ed25519", "algorithms = [\"EdDSA\", \"RS256\"]"),
    ] {
        of_key["alg"] = json!(alg);
        let jwt = format!("issuer = \"{ISSUER}\"\nkeys = \"keys.json\"\n{algorithms}");
        let server = server(&jwt, &json!({"keys": [of_key]}).to_string()).await;
        for named in ["Ed25519", "EdDSA"] {
            let token = keys.but("EdDSA", json!({"alg": named}), json!({}));
            assert_eq!(status(&server, "/orders", &token).await.0, 200, "{alg} {algorithms} {named}");
        }
        let other = Keys::new().but("EdDSA", json!({"alg": "Ed25519"}), json!({}));
        assert_eq!(status(&server, "/orders", &other).await.0, 401, "{alg} {algorithms}");
    }
}

/// If an issuer's scope had the name of a bearer token, it gave the token's access, including admin
/// endpoints.
#[tokio::test]
async fn each_credential_opens_what_is_for_it_and_nothing_else() {
    const TOKENS: [(&str, &str); 4] = [
        ("reader", ""),
        ("scraper", ""),
        ("scoped", "scopes = [\"reports\"]"),
        ("old", "expires = \"2020-01-01\""),
    ];
    // The credentials of each route. Those in `ALL` succeed. The others get 401, or 403 if the
    // client is known.
    const ALL: &[&str] = &["reader", "scraper", "scoped", "jwt", "jwt:scraper", "basic"];
    const ROUTES: [(&str, &[&str], bool); 16] = [
        ("/open", ALL, true),
        ("/open-upstream", ALL, true),
        ("/_rowstream/live", ALL, true),
        ("/_rowstream/ready", ALL, true),
        ("/_rowstream/errors/internal", ALL, true),
        ("/_rowstream/openapi.json", ALL, true),
        ("/", ALL, true),
        ("/any", ALL, false),
        ("/rows", &["reader", "basic"], false),
        ("/one", &["reader", "basic"], false),
        ("/upstream", &["reader", "basic"], false),
        ("/orders", &["jwt"], false),
        ("/reports", &["scoped"], false),
        ("/_rowstream/metrics", &["scraper"], false),
        ("/_rowstream/history", &["scraper"], false),
        ("/_rowstream/sd", &["scraper"], false),
    ];
    let keys = Keys::new();
    let tokens: String = TOKENS
        .iter()
        .map(|(name, more)| {
            use sha2::Digest as _;
            let hash: String = sha2::Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("[token.{name}]\nsha256 = \"{hash}\"\n{more}\n")
        })
        .collect();
    let (upstream, _) = issuer(|_, _| Some("[]".to_owned())).await;
    let config = format!(
        "authorization = [\"reader\"]\n[admin]\nauthorization = [\"scraper\"]\n{tokens}\
         [jwt]\nissuer = \"{ISSUER}\"\nkeys = \"keys.json\"\naudience = \"rowstream\"\nscopes = [\"orders:read\"]\n\
         [source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n[source.up]\nurl = \"{upstream}\"\n"
    );
    let sql = |authorization: &str| {
        format!("/*\nsource = \"db\"\nauthorization = {authorization}\n*/\nselect 1 as n")
    };
    let files = [
        ("rowstream.toml", config),
        ("keys.json", keys.set().to_string()),
        ("t.sql", "create table t (n)".to_owned()),
        ("endpoints/open.sql", sql("\"public\"")),
        ("endpoints/any.sql", sql("\"authenticated\"")),
        ("endpoints/orders.sql", sql("[\"orders:read\"]")),
        ("endpoints/reports.sql", sql("[\"reports\"]")),
        ("endpoints/rows.sql", "/*\nsource = \"db\"\n*/\nselect 1 as n".to_owned()),
        ("endpoints/one.sql", "/*\nsource = \"db\"\nresult = \"one\"\n*/\nselect 1 as n".to_owned()),
        ("endpoints/upstream.toml", "[upstream]\nsource = \"up\"\nrequest = \"GET /\"\n".to_owned()),
        (
            "endpoints/open-upstream.toml",
            "authorization = \"public\"\n[upstream]\nsource = \"up\"\nrequest = \"GET /\"\n".to_owned(),
        ),
    ];
    let server = Launch::files(&files.each_ref().map(|(name, text)| (*name, text.as_str()))).start().await;
    let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
    let bearer = |token: &str| format!("Bearer {token}");
    let of_es256 = |claims: Value| bearer(&keys.but("ES256", json!({}), claims));
    let credentials = [
        ("nothing", None),
        ("reader", Some(bearer("reader"))),
        ("scraper", Some(bearer("scraper"))),
        ("scoped", Some(bearer("scoped"))),
        ("a bearer token that is none", Some(bearer("nobody"))),
        ("a bearer token that has expired", Some(bearer("old"))),
        ("basic", Some(basic("reader:reader"))),
        ("a user who is none", Some(basic("scraper:reader"))),
        ("jwt", Some(bearer(&keys.well("ES256")))),
        ("jwt:scraper", Some(of_es256(json!({"scope": "scraper reader reports"})))),
        ("a JWT that has expired", Some(of_es256(json!({"exp": seconds() - 90})))),
        ("a JWT for another server", Some(of_es256(json!({"aud": "elsewhere"})))),
        ("a JWT without an algorithm", Some(bearer(&keys.well("none")))),
        ("a JWT by a public key as a secret", Some(bearer(&keys.well("HS256")))),
    ];
    for (path, opened_by, is_public) in ROUTES {
        for (who, shown) in &credentials {
            let mut request = Request::get(server.url(path));
            if let Some(shown) = shown {
                request = request.header("authorization", shown);
            }
            let reply = Client::HTTP1.send(request.body(String::new()).expect("a request")).await;
            let expected = match () {
                () if is_public || opened_by.contains(who) => 200,
                () if ALL.contains(who) => 403,
                () => 401,
            };
            assert_eq!(reply.status, expected, "{path} by {who}: {}", reply.text());
        }
    }
}

#[tokio::test]
async fn claims_are_parameters() {
    let keys = Keys::new();
    let server = of_file(&keys).await;
    let with = |claims: Value| keys.but("ES256", json!({}), claims);
    for (path, claims, expected) in [
        ("/mine", json!({}), json!([{"sub": "7"}])),
        ("/mine", json!({"sub": "' or 1=1; --"}), json!([{"sub": "' or 1=1; --"}])),
        ("/city", json!({"address": {"city": "Ulm"}}), json!([{"city": "Ulm"}])),
        (
            "/tenant",
            json!({"tenant": 4, "groups": ["a", "b"]}),
            json!([{"tenant": 5, "groups": "[\"a\",\"b\"]"}]),
        ),
        ("/tenant", json!({"tenant": "4"}), json!([{"tenant": 5, "groups": null}])),
    ] {
        let reply = ask(&server, path, &with(claims)).await;
        assert_eq!(reply.json(), expected, "{path}");
    }
    for (path, claims, name) in
        [("/mine", json!({"sub": null}), "sub"), ("/city", json!({"address": "Ulm"}), "address.city")]
    {
        let reply = ask(&server, path, &with(claims)).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (403, &json!("claim_missing")));
        assert_eq!(reply.json()["detail"], format!("the token has no claim `{name}`"));
    }
    // Two ids beyond 64 bits would be the same float.
    for (city, is_exact) in [
        ("18446744073709551615", true),
        ("-9223372036854775808", true),
        ("18446744073709551616", false),
        ("[-9223372036854775809]", false),
    ] {
        let claim: Value = serde_json::from_str(city).unwrap();
        let reply = ask(&server, "/city", &with(json!({"address": {"city": claim}}))).await;
        match is_exact {
            true => assert_eq!(reply.json(), json!([{"city": city}])),
            false => assert_eq!(
                (reply.status.as_u16(), &reply.json()["code"]),
                (401, &json!("unauthorized")),
                "{city}"
            ),
        }
    }
    // A request can't override a token's claims.
    let reply = ask(&server, "/mine?jwt.sub=8", &with(json!({}))).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (400, &json!("invalid_parameter")));
}

/// An empty list of groups was NULL, or the parameter's default, so a user without groups saw all rows.
/// A NULL in a list was the text `null`, and `5.0` wasn't an integer.
#[tokio::test]
async fn a_claim_is_a_value_as_in_a_body() {
    let keys = Keys::new();
    let settings = |param: &str| format!("/*\nauthorization = \"authenticated\"\n[params]\n{param}\n*/\n");
    let of_groups = "select own.value as n from json_each('[1, 2]') own
        where :jwt.groups is null or own.value in (select value from json_each(:jwt.groups)) order by 1";
    let optional = settings(r#""jwt.groups" = { type = "integer[]", optional = true }"#) + of_groups;
    let preset = settings(r#""jwt.groups" = { type = "integer[]", default = [1] }"#) + of_groups;
    let names = settings(r#""jwt.names" = "text[]""#) + "select :jwt.names as names";
    let tenant =
        settings(r#""jwt.tenant" = { type = "integer", optional = true }"#) + "select :jwt.tenant as tenant";
    let any = settings(r#""jwt.any" = "json""#) + "select :jwt.any as any";
    let undeclared = settings("") + "select :jwt.aud as aud, :jwt.roles as roles";
    let files = [
        ("endpoints/optional.sql", optional.as_str()),
        ("endpoints/preset.sql", &preset),
        ("endpoints/names.sql", &names),
        ("endpoints/id.sql", &tenant),
        ("endpoints/any.sql", &any),
        ("endpoints/undeclared.sql", &undeclared),
    ];
    let server =
        server_with(&format!("issuer = \"{ISSUER}\"\nkeys = \"keys.json\""), &keys.set().to_string(), &files)
            .await;
    let rows = |numbers: &[i64]| Ok(numbers.iter().map(|n| json!({"n": n})).collect::<Vec<_>>().into());
    let one = |name: &str, value: Value| Ok(json!([{name: value}]));
    for (path, claims, expected) in [
        ("/optional", json!({"groups": []}), rows(&[])),
        ("/optional", json!({"groups": [2]}), rows(&[2])),
        ("/optional", json!({"groups": [2.0]}), rows(&[2])),
        ("/optional", json!({"groups": "1,2"}), rows(&[1, 2])),
        ("/optional", json!({}), rows(&[1, 2])),
        ("/optional", json!({"groups": ""}), Err("`` is not an integer")),
        ("/optional", json!({"groups": [null]}), Err("it has a `null`")),
        ("/optional", json!({"groups": {}}), Err("it is an object")),
        ("/preset", json!({"groups": []}), rows(&[])),
        ("/preset", json!({"groups": ""}), Err("`` is not an integer")),
        ("/preset", json!({}), rows(&[1])),
        ("/names", json!({"names": []}), one("names", json!("[]"))),
        ("/names", json!({"names": ["a,b", 7]}), one("names", json!("[\"a,b\",\"7\"]"))),
        ("/names", json!({"names": ["a", null]}), Err("it has a `null`")),
        ("/names", json!({"names": [["a"]]}), Err("it is a list")),
        ("/id", json!({"tenant": 5.0}), one("tenant", json!(5))),
        ("/id", json!({"tenant": ""}), Err("`` is not an integer")),
        ("/id", json!({"tenant": [5]}), Err("it is a list")),
        ("/any", json!({"any": []}), one("any", json!("[]"))),
        ("/any", json!({"any": {"a": [null, 5.0]}}), one("any", json!("{\"a\":[null,5.0]}"))),
        ("/any", json!({"any": "x"}), one("any", json!("\"x\""))),
        // The client can't change its token, so a text has any claim.
        (
            "/undeclared",
            json!({"aud": ["rowstream", "a"], "roles": {"a": ["b"]}}),
            Ok(json!([{"aud": "[\"rowstream\",\"a\"]", "roles": "{\"a\":[\"b\"]}"}])),
        ),
    ] {
        let reply = ask(&server, path, &keys.but("ES256", json!({}), claims.clone())).await;
        match expected {
            Ok(rows) => assert_eq!(reply.json(), rows, "{path} {claims}"),
            Err(why) => {
                assert_eq!(reply.status, 400, "{path} {claims}: {}", reply.text());
                assert!(reply.text().contains(why), "{path} {claims}: {}", reply.text());
            }
        }
    }
}

/// Two `Authorization` headers were accepted if the first one was a valid token of the issuer. Another
/// program on the path may have read the other one.
#[tokio::test]
async fn two_authorization_headers_are_denied() {
    let keys = Keys::new();
    let server = of_file(&keys).await;
    let own = format!("Bearer {}", keys.well("ES256"));
    let forged = format!("Bearer {}", Keys::new().well("ES256"));
    let basic = format!("Basic {}", BASE64_STANDARD.encode("reader:reader"));
    for client in [Client::HTTP1, Client::H2C] {
        for (first, second) in [
            (&own, &own),
            (&own, &forged),
            (&forged, &own),
            (&own, &basic),
            (&basic, &own),
            (&own, &String::new()),
        ] {
            let request = Request::get(server.url("/orders"));
            let request = request.header("authorization", first).header("authorization", second);
            let reply = client.send(request.body(String::new()).expect("a request")).await;
            assert_eq!(reply.status, 401, "{first} {second}: {}", reply.text());
            assert_eq!(reply.json()["detail"], "the request has two `Authorization` headers");
        }
    }
    assert_eq!(status(&server, "/orders", &keys.well("ES256")).await.0, 200);
}

/// An HTTP server that answers each path with the result of `answer`, and counts its requests.
async fn issuer(
    answer: impl Fn(&str, &str) -> Option<String> + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    let (count, own, answer) = (Arc::new(AtomicUsize::new(0)), base.clone(), Arc::new(answer));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let (answer, own) = (Arc::clone(&answer), own.clone());
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n")
                    && socket.read_buf(&mut head).await.is_ok_and(|read| read > 0)
                {}
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default();
                let reply = match answer(&own, path) {
                    Some(body) => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
                    None => "HTTP/1.1 302 Found\r\nlocation: /moved\r\ncontent-length: 0\r\n\r\n".to_owned(),
                };
                drop(socket.write_all(reply.as_bytes()).await);
            });
        }
    });
    (base, count)
}

/// Clients can't make the server request keys repeatedly. Concurrent requests wait for the same
/// response.
#[tokio::test]
async fn keys_are_found_and_asked_for_once() {
    let keys = Arc::new(Keys::new());
    let set = keys.set().to_string();
    let (base, count) = issuer(move |base, path| match path {
        "/.well-known/openid-configuration" => {
            Some(json!({"issuer": base, "jwks_uri": format!("{base}/keys")}).to_string())
        }
        "/keys" => Some(set.clone()),
        _ => None,
    })
    .await;
    let server = Arc::new(server(&format!("issuer = \"{base}\""), "").await);
    let mut asked = JoinSet::new();
    for _ in 0..20 {
        let token = keys.but("ES384", json!({}), json!({"iss": base}));
        let server = Arc::clone(&server);
        asked.spawn(async move { status(&server, "/orders", &token).await });
    }
    while let Some(answered) = asked.join_next().await {
        assert_eq!(answered.expect("no panic").0, 200);
    }
    for kid in 0..20 {
        let token = keys.but("ES384", json!({"kid": kid.to_string()}), json!({"iss": base}));
        assert_eq!(status(&server, "/orders", &token).await, (401, "unauthorized".to_owned()));
    }
    assert_eq!(count.load(Ordering::Relaxed), 2, "the configuration and the keys");
}

#[tokio::test]
async fn an_issuer_without_keys_is_no_reason_to_believe_a_token() {
    let keys = Keys::new();
    for (what, answer) in [
        ("a redirect", None),
        ("no keys", Some("[]".to_owned())),
        ("no end", Some(format!("{}\n{}", " ".repeat(300_000), keys.set()))),
    ] {
        let (base, _) = issuer(move |_, _| answer.clone()).await;
        let server = server(&format!("issuer = \"{ISSUER}\"\nkeys = \"{base}/keys\""), "").await;
        let reply = ask(&server, "/orders", &keys.well("RS256")).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["code"]),
            (503, &json!("keys_unavailable")),
            "{what}"
        );
        assert_eq!(reply.header("retry-after"), Some("30"));
        server.wait_for_stderr("the keys of tokens could not be fetched").await;
    }
}
