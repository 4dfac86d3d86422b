//! PostgreSQL types that are dropped and created again, for example by `pg_restore --clean` or a
//! new version of an extension. A prepared statement with a parameter of that type then always
//! failed with "cache lookup failed for type", while `ready` responded ok.

use crate::support::{Reply, Server, TestDb, get};

const CONNECTIONS: usize = 3;

#[tokio::test]
async fn a_type_that_is_created_again_costs_at_most_one_answer_for_each_connection() {
    let db = TestDb::new().await;
    let create = "create type mood as enum ('fine', 'bad'); create type pair as (a int, b text);
        create domain short as varchar(9); create extension citext;
        create table t (id int primary key, m mood, p pair, s short, c citext);
        insert into t values (1, 'fine', '(1,x)', 'short', 'Ada')";
    db.execute(create).await;
    let config = format!("[source.main]\nurl = \"{}\"\npool = {{ max = {CONNECTIONS} }}\n", db.url());
    let conditions = [
        ("mood", "m = :x", "fine"),
        ("moods", "m = any(string_to_array(:x, ',')::mood[]) and m = :x", "fine"),
        ("pair", "p = :x::pair", "(1,x)"),
        ("short", "s = :x", "short"),
        ("citext", ":x is null or c = :x", "ADA"),
    ];
    let mut files = vec![("rowstream.toml".to_owned(), config)];
    for (name, condition, _) in conditions {
        let params = "[params]\nx = { type = \"text\", optional = true }\n";
        let select = format!("select id from t where {condition}");
        files.push((format!("endpoints/{name}.sql"), format!("/*\n{params}*/\n{select}")));
        let one = format!("/*\nresult = \"one\"\n{params}*/\n{select} and id > 0");
        files.push((format!("endpoints/one/{name}.sql"), one));
    }
    let server =
        Server::start(&files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect::<Vec<_>>())
            .await;
    let paths: Vec<_> = conditions
        .iter()
        .flat_map(|(name, _, value)| [format!("/{name}?x={value}"), format!("/one/{name}?x={value}")])
        .collect();
    let is_found = |reply: &Reply| reply.status == 200 && reply.text().contains("{\"id\":1}");
    for path in &paths {
        // By now, each connection of the pool has prepared each statement.
        for reply in futures_util::future::join_all((0..20).map(|_| get_path(&server, path))).await {
            assert!(is_found(&reply), "{path}: {}", reply.text());
        }
    }
    db.execute(&format!(
        "drop table t; drop type mood; drop type pair; drop domain short; drop extension citext; {create}"
    ))
    .await;
    for path in &paths {
        let mut lost = 0;
        for _ in 0..20 {
            let reply = get_path(&server, path).await;
            if !is_found(&reply) {
                assert_eq!(
                    (reply.status.as_u16(), &reply.json()["code"]),
                    (503, &"statement_changed".into()),
                    "{path}"
                );
                lost += 1;
            }
        }
        assert!(lost <= CONNECTIONS, "{path}: {lost} answers lost");
    }
}

async fn get_path(server: &Server, path: &str) -> Reply {
    get(&server.url(path)).await
}
