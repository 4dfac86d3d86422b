//! A PostgreSQL database in LATIN1. Names and values in it have letters beyond ASCII, and requests have
//! letters that it lacks.

use http::Request;
use serde_json::{Value, json};

use crate::jwt::{ISSUER, Keys};
use crate::support::{Client, Reply, Server, TestDb, arrow, get, program};
use crate::worked::Started;

/// A table, a view and columns with é. A stored `json` may name any character, because PostgreSQL keeps its
/// text.
const TABLE: &str = r#"
    create table "café" (id int primary key, "prénom" text, data json, tags text[]);
    insert into "café" values (1, 'René', '{"é": "ü", "euro": "\u20ac"}', '{é,ß}'), (2, 'Zoë', '{"é": "ñ"}', '{}'),
      (3, 'abc', '{}', null);
    create view "vidéo" as select id, "prénom" as "clé" from "café"
"#;
/// Two texts that LATIN1 lacks, percent-encoded.
const LACKING: [&str; 2] = ["%C5%81", "%F0%9F%98%80"];

async fn database() -> TestDb {
    let db = TestDb::encoded("LATIN1").await;
    db.execute(TABLE).await;
    db
}

async fn server(db: &TestDb) -> Server {
    let settings = "filter = true\nsort = true\nselect = true\nkey = [\"prénom\"]\n";
    let list = format!("/*\n{settings}*/\nselect id, \"prénom\", tags from \"café\" order by \"prénom\"");
    let files = [
        ("rowstream.toml", format!("[source.db]\nurl = \"{}\"\n", db.url())),
        ("endpoints/café.sql", list),
        (
            "endpoints/pages.sql",
            "/*\nkey = [\"prénom\"]\n[params]\nn = \"integer\"\n*/\nselect \"prénom\" from \"café\"\n\
             order by \"prénom\"\nlimit :n"
                .to_owned(),
        ),
        (
            "endpoints/parameter.sql",
            "/*\n[params]\nx = \"text\"\n*/\nselect id from \"café\" where \"prénom\" = :x".to_owned(),
        ),
        (
            "endpoints/one.sql",
            "/*\nresult = \"one\"\n[params]\nx = \"text\"\n*/\nselect id from \"café\" where \"prénom\" = :x"
                .to_owned(),
        ),
        ("endpoints/json.sql", "/*\n[params]\nx = \"json\"\n*/\nselect :x::json as x".to_owned()),
        ("endpoints/jsonb.sql", "/*\n[params]\nx = \"json\"\n*/\nselect :x::jsonb as x".to_owned()),
        ("endpoints/euro.sql", "select data ->> 'euro' as euro from \"café\" order by id".to_owned()),
        (
            "endpoints/data.sql",
            "select data, case when id > 1 then data ->> 'é' end as e from \"café\" where id < 3 order by id"
                .to_owned(),
        ),
    ];
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    Server::start(&files).await
}

/// The rows of a path that has a 200.
async fn rows(url: &str) -> Value {
    let reply = get(url).await;
    assert_eq!(reply.status.as_u16(), 200, "{url}: {}", reply.text());
    reply.json()
}

/// The value can't be in the database, so the request has no rows, or is the client's mistake.
fn is_refused_or_empty(reply: &Reply, path: &str) {
    let refused = [400, 404].contains(&reply.status.as_u16());
    assert!(
        refused || (reply.status == 200 && reply.text() == "[]"),
        "{path}: {} {}",
        reply.status,
        reply.text()
    );
}

#[tokio::test]
async fn values_beyond_ascii_arrive_in_every_format() {
    let db = database().await;
    let server = server(&db).await;
    let expected = json!([
        {"id": 1, "prénom": "René", "tags": ["é", "ß"]},
        {"id": 2, "prénom": "Zoë", "tags": []},
        {"id": 3, "prénom": "abc", "tags": null},
    ]);
    let mut all = rows(&server.url("/caf%C3%A9?order=id")).await;
    assert_eq!(all, expected);
    let csv = get(&server.url("/caf%C3%A9.csv?order=id&select=id,pr%C3%A9nom")).await;
    assert_eq!(csv.text(), "id,prénom\r\n1,René\r\n2,Zoë\r\n3,abc\r\n");
    let read = arrow::rows(&get(&server.url("/caf%C3%A9.arrow?order=id&select=id,pr%C3%A9nom")).await.body);
    all.as_array_mut().unwrap().iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("tags")));
    assert_eq!(Value::Array(read), all);
    let data = json!([{"data": {"é": "ü", "euro": "€"}, "e": null}, {"data": {"é": "ñ"}, "e": "ñ"}]);
    assert_eq!(rows(&server.url("/data")).await, data);
    for path in ["/caf%C3%A9?pr%C3%A9nom=eq.Ren%C3%A9", "/parameter?x=Ren%C3%A9"] {
        assert_eq!(rows(&server.url(path)).await[0]["id"], 1, "{path}");
    }
    assert_eq!(rows(&server.url("/one?x=Ren%C3%A9")).await, json!({"id": 1}));
    for path in ["/json?x=%22%C3%A9%22", "/jsonb?x=%22%C3%A9%22", "/jsonb?x=%22%5Cu00e9%22"] {
        assert_eq!(rows(&server.url(path)).await, json!([{"x": "é"}]), "{path}");
    }
}

#[tokio::test]
async fn letters_that_the_database_lacks_are_the_clients_mistake() {
    let db = database().await;
    let server = server(&db).await;
    for letter in LACKING {
        for path in [
            format!("/parameter?x={letter}"),
            format!("/one?x={letter}"),
            format!("/caf%C3%A9?pr%C3%A9nom=eq.{letter}"),
            format!("/caf%C3%A9?pr%C3%A9nom=in.(abc,{letter}x)&id=gt.5"),
            format!("/caf%C3%A9?pr%C3%A9nom=like.{letter}*"),
            format!("/caf%C3%A9?tags=cs.%7B{letter}%7D"),
            format!("/caf%C3%A9?or=(pr%C3%A9nom.eq.{letter},id.eq.9)"),
            format!("/jsonb?x=%22{letter}%22"),
            "/jsonb?x=%22%5Cu20ac%22".to_owned(),
            format!("/caf%C3%A9?{letter}=eq.1"),
            format!("/caf%C3%A9?select={letter}"),
            format!("/caf%C3%A9?order={letter}"),
        ] {
            // Each connection prepares it first, and has it prepared then.
            for _ in 0..3 {
                is_refused_or_empty(&get(&server.url(&path)).await, &path);
            }
        }
    }
    // A stored one is the database's.
    let reply = get(&server.url("/euro")).await;
    assert_eq!(
        (reply.status.as_u16(), &reply.json()["sqlstate"]),
        (500, &json!("22P05")),
        "{}",
        reply.text()
    );
    // The connections still work.
    assert_eq!(rows(&server.url("/parameter?x=Ren%C3%A9")).await, json!([{"id": 1}]));
}

/// The row and the cursor of each page.
async fn pages(server: &Server) -> Vec<(Value, String)> {
    let mut pages = Vec::new();
    let mut query = "?n=1".to_owned();
    while pages.len() < 9 {
        let reply = get(&server.url(&format!("/pages{query}"))).await;
        assert_eq!(reply.status.as_u16(), 200, "{query}: {}", reply.text());
        let next =
            reply.header("link").and_then(|link| link.strip_prefix('<')?.strip_suffix(">; rel=\"next\""));
        let Some(next) = next else { break };
        query = next.to_owned();
        pages.push((reply.json()[0]["prénom"].clone(), query.clone()));
    }
    pages
}

/// Cursors without a secret are the same on each server.
#[tokio::test]
async fn cursors_have_letters_beyond_ascii_or_are_refused() {
    let (latin1, utf8) = (database().await, TestDb::new().await);
    utf8.execute(&format!("{TABLE}; update \"café\" set \"prénom\" = 'Łukasz 😀'")).await;
    let (server, other) = (server(&latin1).await, server(&utf8).await);
    let names: Vec<_> = pages(&server).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["René", "Zoë", "abc"]);
    let lacking = pages(&other).await;
    assert_eq!(lacking[0].0, "Łukasz 😀");
    for form in ["", ".csv", ".ndjson"] {
        let path = format!("/pages{form}{}", lacking[0].1);
        let reply = get(&server.url(&path)).await;
        assert_eq!(reply.status.as_u16(), 400, "{path}: {}", reply.text());
    }
}

/// Tables and columns with é, without any endpoint file.
#[tokio::test]
async fn tables_with_names_beyond_ascii_are_served() {
    let db = database().await;
    let server = Started::new(program(), &["serve", &db.url(), "--port", "0"]).listening().await;
    assert_eq!(rows(&server.url("/caf%C3%A9/1")).await["prénom"], "René");
    assert_eq!(rows(&server.url("/vid%C3%A9o?cl%C3%A9=eq.Zo%C3%AB")).await, json!([{"id": 2, "clé": "Zoë"}]));
    for letter in LACKING {
        let path = format!("/vid%C3%A9o?cl%C3%A9=eq.{letter}");
        is_refused_or_empty(&get(&server.url(&path)).await, &path);
    }
}

#[tokio::test]
async fn roles_with_names_beyond_ascii_have_their_requests() {
    let db = database().await;
    let role = format!("{}_rené", db.name());
    db.execute(&format!("create role \"{role}\"; grant select on \"café\" to \"{role}\"")).await;
    let keys = Keys::new();
    let config = format!(
        "authorization = \"public\"\n[jwt]\nissuer = \"{ISSUER}\"\nkeys = \"keys.json\"\naudience = \"rowstream\"\n\
         [source.db]\nurl = \"{}\"\nrole_claim = \"role\"\n",
        db.url()
    );
    let role_of =
        "select current_user::text as role, current_setting('request.jwt.claims')::json->>'sub' as sub";
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("keys.json", &keys.set().to_string()),
        ("endpoints/role.sql", role_of),
    ])
    .await;
    let ask = async |role: &str, sub: &str| {
        let token = keys.but("ES256", json!({}), json!({"role": role, "sub": sub}));
        let request = Request::get(server.url("/role")).header("authorization", format!("Bearer {token}"));
        Client::HTTP1.send(request.body(String::new()).unwrap()).await
    };
    let reply = ask(&role, "Zoë").await;
    assert_eq!(reply.json(), json!([{"role": role, "sub": "Zoë"}]), "{}", reply.text());
    // The database has none of these roles, and its encoding can't have two of them.
    for unknown in ["inconnu", "inconnu_é", "Łukasz", "😀"] {
        let reply = ask(unknown, "a").await;
        assert_eq!(reply.status.as_u16(), 400, "{unknown}: {}", reply.text());
    }
    let reply = ask(&role, "Łukasz").await;
    assert_eq!(reply.status.as_u16(), 400, "{}", reply.text());
    db.execute(&format!("drop owned by \"{role}\"; drop role \"{role}\"")).await;
}
