//! `_explain=1`: the databases' own plans for an endpoint's statements.

use http::Request;
use serde_json::{Value, json};

use crate::support::{Client, Launch, MariaDb, Reply, Server, TestDb, get, rowstream, sha256};

const LIST: &str = "/*\n[params]\nleast = { type = 'integer', default = 0 }\n*/\n\
    select id, name from thing where id > :least order by id";
const BODY: &str = "/*\nbody = { things = \"$things\", total = \"$total\" }\n*/\n\
    -- name: things :many\nselect id from thing order by id;\n\
    -- name: total :value\nselect count(*) from thing;";
const ONE: &str = "/*\nresult = \"one\"\n[params]\nid = 'integer'\n*/\nselect name from thing where id = :id";

async fn server(url: &str, settings: &str) -> Server {
    let config = format!("{settings}\n[source.main]\nurl = \"{url}\"\n");
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/things.sql", LIST),
        ("endpoints/things/{id}.sql", ONE),
        ("endpoints/body.sql", BODY),
        ("endpoints/nested.sql", NESTED),
    ];
    Launch::files(&files).start().await
}

/// A page of lists with lists in them.
const NESTED: &str = "/*\nkey = [\"id\"]\n[params]\nn = { type = 'integer', default = 2 }\n*/\n\
    -- name: things :many\nselect id from thing limit :n;\n\
    -- name: parts :many nested in things on thing_id = id\nselect id as thing_id, name from thing";

/// The plans of an endpoint's statements, by name.
async fn plans(server: &Server, target: &str) -> Vec<(String, String, Vec<Value>)> {
    let reply = get(&server.url(target)).await;
    assert_eq!(reply.status, 200, "{target}: {}", reply.text());
    let body = reply.json();
    let plan = |statement: &Value| {
        let text = |name: &str| statement[name].as_str().expect("a text").to_owned();
        (text("name"), text("sql"), statement["plan"].as_array().expect("rows").clone())
    };
    body["statements"].as_array().expect("a list").iter().map(plan).collect()
}

#[tokio::test]
async fn postgres_explains_what_it_would_run() {
    let db = TestDb::new().await;
    db.execute(
        "create table thing(id int primary key, name text);
         insert into thing select n, 'n' || n from generate_series(1, 10000) n; analyze thing",
    )
    .await;
    let server = server(&db.url(), "explain = true").await;
    let [(name, sql, plan)] = &plans(&server, "/things?least=9990&_explain=1").await[..] else {
        panic!("one statement")
    };
    assert_eq!(name, "rows");
    assert_eq!(sql, "select id, name from thing where id > $1 order by id");
    assert!(plan[0]["QUERY PLAN"].as_str().expect("a line").starts_with("Index Scan"), "{plan:?}");
    let [things, total] = &plans(&server, "/body?_explain=1").await[..] else { panic!("two statements") };
    assert_eq!((things.0.as_str(), total.0.as_str()), ("things", "total"));
    assert!(total.2[0]["QUERY PLAN"].as_str().expect("a line").starts_with("Aggregate"), "{total:?}");
    assert_eq!(plans(&server, "/things/7?_explain=1").await.len(), 1);
    // The nested statement reads only the rows of the page, by the index.
    let [things, parts] = &plans(&server, "/nested?_explain=1").await[..] else { panic!("two statements") };
    assert!(things.1.ends_with("limit $1") && parts.1.contains(&things.1), "{parts:?}");
    let plan: Vec<_> = parts.2.iter().filter_map(|line| line["QUERY PLAN"].as_str()).collect();
    assert!(plan.iter().any(|line| line.contains("Index Cond: (id = ")), "{plan:?}");
    // Without it, the response is the usual one.
    assert_eq!(
        get(&server.url("/things?least=9999&_explain=0")).await.text(),
        "[{\"id\":10000,\"name\":\"n10000\"}]"
    );
    let described = get(&server.url("/_rowstream/openapi.json")).await.json();
    let refers = described["paths"]["/things"]["get"]["parameters"].to_string();
    assert!(refers.contains("#/components/parameters/explain"), "{refers}");
}

/// The plan differed from the real one. In `explain`, PostgreSQL infers no type for `:n is null`,
/// so the condition stayed in the plan and the index wasn't used.
#[tokio::test]
async fn an_optional_filter_is_explained_as_it_is_run() {
    let db = TestDb::new().await;
    db.execute(
        "create table thing(id int primary key, n int); create index thing_n on thing(n);
         insert into thing select n, n from generate_series(1, 10000) n; analyze thing",
    )
    .await;
    let list = "/*\n[params]\nn = { type = 'integer', optional = true }\n*/\n\
                select id from thing where :n is null or n = :n";
    let config = format!("explain = true\n[source.main]\nurl = \"{}\"\n", db.url());
    let files = [("rowstream.toml", config.as_str()), ("endpoints/things.sql", list)];
    let server = Launch::files(&files).start().await;
    let plan = async |target| {
        let [(_, _, plan)] = &plans(&server, target).await[..] else { panic!("one statement") };
        plan[0]["QUERY PLAN"].as_str().expect("a line").to_owned()
    };
    assert!(plan("/things?n=7&_explain=1").await.starts_with("Index Scan using thing_n"));
    assert!(plan("/things?_explain=1").await.starts_with("Seq Scan"));
}

#[tokio::test]
async fn sqlite_and_mariadb_explain_theirs() {
    let schema = "create table thing(id int primary key, name varchar(9)); insert into thing values (1, 'a')";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("things.db");
    rusqlite::Connection::open(&file).expect("a database").execute_batch(schema).expect("a table");
    let sqlite = server(&format!("sqlite:{}", file.display()), "explain = true").await;
    let [(_, sql, plan)] = &plans(&sqlite, "/things/1?_explain=1").await[..] else { panic!("one statement") };
    assert_eq!(sql, "select name from thing where id = ?1");
    assert!(plan[0]["detail"].as_str().expect("a text").starts_with("SEARCH thing USING INDEX"), "{plan:?}");
    let maria = MariaDb::new(schema);
    let maria = server(&maria.url(), "explain = true").await;
    let [(_, sql, plan)] = &plans(&maria, "/things/1?_explain=1").await[..] else { panic!("one statement") };
    assert_eq!(sql, "select name from thing where id = ?");
    assert_eq!((&plan[0]["table"], &plan[0]["key"]), (&json!("thing"), &json!("PRIMARY")), "{plan:?}");
}

fn problem(reply: &Reply) -> (u16, String) {
    (reply.status.as_u16(), reply.json()["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn what_is_not_explained_says_why() {
    let db = TestDb::new().await;
    db.execute("create table thing(id int primary key, name text)").await;
    let silent = server(&db.url(), "").await;
    let reply = get(&silent.url("/things?_explain=1")).await;
    assert_eq!(problem(&reply), (400, "invalid_parameter".to_owned()));
    assert!(reply.text().contains("`explain = true`"), "{}", reply.text());
    let speaking = server(&db.url(), "explain = true").await;
    for target in ["/things?_explain=yes", "/things?_explain=1&_after=x", "/things?_explain=1&_follow=1"] {
        let reply = get(&speaking.url(target)).await;
        assert_eq!(problem(&reply), (400, "invalid_parameter".to_owned()), "{target}");
        assert!(reply.text().contains("_explain"), "{target}: {}", reply.text());
    }
    assert_eq!(get(&speaking.url("/things.csv?_explain=1")).await.status, 406);
    // The database refuses the same statements as without it.
    db.execute("drop table thing").await;
    let reply = get(&speaking.url("/things?_explain=1")).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["sqlstate"]), (500, &json!("42P01")));
}

#[tokio::test]
async fn plans_are_for_those_who_may_see_them() {
    let db = TestDb::new().await;
    db.execute("create table thing(id int primary key, name text)").await;
    let token = |name: &str| format!("[token.{name}]\nsha256 = \"{}\"\n", sha256(name));
    let settings = |admin: &str| {
        format!(
            "explain = true\nauthorization = [\"reader\", \"operator\"]\n{}{}{}[admin]\n{admin}\n",
            token("reader"),
            token("operator"),
            token("stranger"),
        )
    };
    let asked = async |server: &Server, name: &str| {
        let request = Request::get(server.url("/things?_explain=1"));
        let request = request.header("authorization", format!("Bearer {name}"));
        Client::HTTP1.send(request.body(String::new()).expect("a request")).await.status.as_u16()
    };
    let named = server(&db.url(), &settings("authorization = [\"operator\", \"stranger\"]")).await;
    for (name, status) in [("reader", 403), ("operator", 200), ("stranger", 403), ("nobody", 401)] {
        assert_eq!(asked(&named, name).await, status, "{name}");
    }
    let open = server(&db.url(), &settings("public = [\"explain\"]")).await;
    for (name, status) in [("reader", 200), ("operator", 200), ("stranger", 403), ("nobody", 401)] {
        assert_eq!(asked(&open, name).await, status, "{name}");
    }
}

/// A list with a filter on a column with an index, behind a token.
const FILTERED: &str =
    "/*\nkey = [\"id\"]\nfilter = [\"name\"]\ntotal = true\n*/\nselect id, name from thing order by id";

/// Before a deploy, nothing listens, so `_explain=1` can't be asked.
async fn check_explains(url: &str, uses_index: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "authorization = [\"reader\"]\n[token.reader]\nsha256 = \"{}\"\n[source.main]\nurl = \"{url}\"\n",
        sha256("secret")
    );
    let endpoints = folder.path().join("endpoints");
    std::fs::create_dir(&endpoints).expect("a folder");
    std::fs::write(folder.path().join("rowstream.toml"), config).expect("a file");
    std::fs::write(endpoints.join("things.sql"), FILTERED).expect("a file");
    std::fs::write(endpoints.join("parts.sql"), LIST).expect("a file");
    let check = async |arguments: &[&str]| {
        let folder = folder.path().to_str().expect("a path");
        let ran = rowstream(&[&["check", folder], arguments].concat()).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
    };
    let targets = ["--explain", "/things?name=eq.n77", "--explain", "/parts?least=9990"];
    let (status, stdout, stderr) = check(&targets).await;
    assert_eq!((status, &*stderr), (Some(0), ""), "{stdout}");
    let (_, things) = stdout.split_once("\nGET /things?name=eq.n77\n").expect("the request");
    let (things, parts) = things.split_once("\nGET /parts?least=9990\n").expect("the other request");
    assert!(things.contains("    rows\n        select * from (\n"), "{things}");
    let (sql, plan) = things.split_once("    plan of rows\n").expect("a plan");
    assert!(sql.contains(") as rowstream where "), "the condition is around the statement: {sql}");
    assert!(plan.contains(uses_index), "the database uses the index of the column: {plan}");
    assert!(parts.contains("where id > "), "{parts}");
    let (_, json, _) = check(&["--format", "json", "--explain", "/parts"]).await;
    let document: Value = serde_json::from_str(&json).expect("JSON");
    let plan = &document["plans"][0];
    assert_eq!((&plan["request"], &plan["error"]), (&json!("/parts"), &Value::Null));
    assert_eq!(plan["statements"][0]["name"], "rows");
    let (status, stdout, stderr) = check(&["--explain", "/things?nam=eq.n77"]).await;
    assert!(stdout.contains("    error: parameter `nam`: this endpoint has no such parameter or column; did you mean `name`?\n"), "{stdout}");
    assert!(status == Some(1) && stderr.ends_with("1 error\n"), "{stderr}");
    let (status, _, stderr) = check(&["--explain", "things"]).await;
    assert!(status == Some(2) && stderr.contains("a path begins with `/`"), "{stderr}");
    for (target, why) in [
        ("/things#x", "write `#` as %23"),
        ("/things?name=eq.a b", "write a space as %20"),
        ("http://localhost/things", "without the server"),
        ("/things?_explain=0", "leave `_explain` out"),
    ] {
        let (status, _, stderr) = check(&["--explain", target]).await;
        assert!(status == Some(2) && stderr.contains(why), "{target}: {stderr}");
    }
    for target in ["/", "/_rowstream/live"] {
        let (status, stdout, _) = check(&["--explain", target]).await;
        assert!(
            status == Some(1) && stdout.contains("error: this isn't an endpoint with statements"),
            "{stdout}"
        );
    }
    for target in ["/things.csv?name=eq.n77", "/things.tsv?name=eq.n77", "/things?_format=csv&name=eq.n77"] {
        let (status, stdout, _) = check(&["--explain", target]).await;
        assert!(status == Some(0) && stdout.contains(uses_index), "{target}: {stdout}");
    }
    // A page for browsers has a limit, unless it's the page of all rows.
    for (target, is_limited) in [
        ("/things.html?name=eq.n77", true),
        ("/things?_format=html&name=eq.n77", true),
        ("/things.csv?_format=html", true),
        ("/things.html?name=eq.n77&limit=", false),
        ("/things.html?_format=csv&name=eq.n77", false),
        ("/things?name=eq.n77", false),
    ] {
        let (status, stdout, _) = check(&["--explain", target]).await;
        let (sql, _) = stdout.split_once("    plan of rows\n").expect("a plan");
        assert_eq!((status, sql.contains("\n        limit ")), (Some(0), is_limited), "{target}: {stdout}");
    }
    let (_, counted, _) = check(&["--explain", "/things?_count=exact"]).await;
    assert!(counted.contains("    total\n        select count(*) as "), "{counted}");
    std::fs::write(endpoints.join("wrong.sql"), "select nothing from nowhere").expect("a file");
    let (status, stdout, stderr) = check(&["--explain", "/things"]).await;
    assert!(stdout.contains("error: it isn't explained, because of the errors"), "{stdout}");
    assert!(status == Some(1) && stderr.ends_with("1 error\n"), "{stderr}");
}

const INDEXED: &str = "create table thing(id integer primary key, name varchar(20));";

#[tokio::test]
async fn check_explains_requests_of_postgres() {
    let db = TestDb::new().await;
    db.execute(&format!(
        "{INDEXED} insert into thing select n, 'n' || n from generate_series(1, 10000) n;
        create index thing_name on thing (name)"
    ))
    .await;
    db.execute("analyze thing").await;
    check_explains(&db.url(), "thing_name").await;
}

#[tokio::test]
async fn check_explains_requests_of_mariadb() {
    let db = MariaDb::new(&format!(
        "{INDEXED} insert into thing select seq, concat('n', seq) from seq_1_to_10000;
        create index thing_name on thing (name);"
    ));
    check_explains(&db.url(), "key: thing_name").await;
}

#[tokio::test]
async fn check_explains_requests_of_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("things.db");
    let made = format!("{INDEXED} create index thing_name on thing (name);");
    rusqlite::Connection::open(&file).and_then(|open| open.execute_batch(&made)).expect("a database");
    check_explains(&format!("sqlite:{}", file.display()), "INDEX thing_name").await;
}
