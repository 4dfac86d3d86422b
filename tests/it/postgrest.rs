//! PostgREST's own clients, for JavaScript and Python, read tables of PostgreSQL, MariaDB and SQLite
//! through us. Their rows are compared with those of a statement.
//!
//! `cargo xtask test` installs the clients. If they can't be installed, it skips these tests with a
//! message.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{MariaDb, TestDb, given, program};
use crate::worked::{Listening, Started};

/// The orders of the shop, with notes. Texts have the same order in all databases.
const ORDERS: &str = "create table orders (id integer primary key, customer_id integer not null,
        status varchar(10) not null, total decimal(10, 2) not null, note varchar(40));
    insert into orders values (1, 1, 'SENT', 24.95, 'gift'), (2, 2, 'SENT', 129.99, null), (3, 1, 'PAID', 7.25, 'late'),
        (4, 3, 'OPEN', 58.15, null), (5, 2, 'OPEN', 12.45, 'hara, eve (x)'), (6, 1, 'PAID', 310.75, null), (7, 3, 'OPEN', 4.95, null);";

/// A query of orders in JavaScript and in Python, and the rest of its statement.
type Query = (&'static str, &'static str, &'static str);

const QUERIES: &[Query] = &[
    ("", "", "order by id"),
    (".eq('status', 'OPEN')", ".eq('status', 'OPEN')", "where status = 'OPEN' order by id"),
    (".neq('status', 'OPEN')", ".neq('status', 'OPEN')", "where status <> 'OPEN' order by id"),
    (".gt('total', 58.15)", ".gt('total', 58.15)", "where id in (2, 6) order by id"),
    (".gte('total', 58.15)", ".gte('total', 58.15)", "where id in (2, 4, 6) order by id"),
    (".lt('total', 12.45)", ".lt('total', 12.45)", "where id in (3, 7) order by id"),
    (".lte('total', 12.45)", ".lte('total', 12.45)", "where id in (3, 5, 7) order by id"),
    (".gt('id', 2).lt('id', 6)", ".gt('id', 2).lt('id', 6)", "where id between 3 and 5 order by id"),
    (
        ".in('status', ['SENT', 'PAID'])",
        ".in_('status', ['SENT', 'PAID'])",
        "where status <> 'OPEN' order by id",
    ),
    (".in('id', [1, 3])", ".in_('id', [1, 3])", "where id in (1, 3) order by id"),
    (
        ".in('note', ['hara, eve (x)', 'gift'])",
        ".in_('note', ['hara, eve (x)', 'gift'])",
        "where note in ('hara, eve (x)', 'gift') order by id",
    ),
    (".eq('note', 'hara, eve (x)')", ".eq('note', 'hara, eve (x)')", "where id = 5"),
    (".is('note', null)", ".is_('note', None)", "where note is null order by id"),
    (".like('note', 'ha%')", ".like('note', 'ha%')", "where id = 5"),
    (".like('status', 'sent')", ".like('status', 'sent')", "where false"),
    (".ilike('status', '%pa%')", ".ilike('status', '%pa%')", "where status = 'PAID' order by id"),
    (".not('note', 'is', null)", ".not_.is_('note', None)", "where note is not null order by id"),
    (
        ".not('status', 'in', '(OPEN,PAID)')",
        ".not_.in_('status', ['OPEN', 'PAID'])",
        "where status = 'SENT' order by id",
    ),
    (".or('id.eq.2,total.lt.7')", ".or_('id.eq.2,total.lt.7')", "where id in (2, 7) order by id"),
    (
        ".or('id.eq.1,and(status.eq.OPEN,note.is.null)')",
        ".or_('id.eq.1,and(status.eq.OPEN,note.is.null)')",
        "where id in (1, 4, 7) order by id",
    ),
    (
        ".match({status: 'OPEN', customer_id: 3})",
        ".match({'status': 'OPEN', 'customer_id': 3})",
        "where id in (4, 7) order by id",
    ),
    (
        ".filter('status', 'eq', 'SENT')",
        ".filter('status', 'eq', 'SENT')",
        "where status = 'SENT' order by id",
    ),
    (".order('total')", ".order('total')", "order by total"),
    (".order('total', {ascending: false})", ".order('total', desc=True)", "order by total desc"),
    (
        ".order('note', {nullsFirst: true}).order('id', {ascending: false})",
        ".order('note', nullsfirst=True).order('id', desc=True)",
        "order by note nulls first, id desc",
    ),
    (
        ".order('note', {ascending: false, nullsFirst: false})",
        ".order('note', desc=True, nullsfirst=False)",
        "order by note desc nulls last, id",
    ),
    (".limit(3)", ".limit(3)", "order by id limit 3"),
    (".order('total').range(2, 4)", ".order('total').range(2, 4)", "order by total limit 3 offset 2"),
    (".range(5, 100)", ".range(5, 100)", "order by id limit 100 offset 5"),
];

/// The rows of a statement.
fn expected(rest: &str) -> Value {
    let open = rusqlite::Connection::open_in_memory().expect("a database");
    open.execute_batch(ORDERS).expect("orders");
    let mut statement = open.prepare(&format!("select id, status from orders {rest}")).expect("a statement");
    let row = |row: &rusqlite::Row<'_>| {
        Ok(json!({"id": row.get::<_, i64>(0)?, "status": row.get::<_, String>(1)?}))
    };
    statement.query_map([], row).expect("rows").map(|row| row.expect("a row")).collect()
}

/// Runs a program in a client's language, and returns the values that it prints.
async fn run(mut command: Command) -> Vec<Value> {
    let run = move || {
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).expect("UTF-8");
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    tokio::task::spawn_blocking(run).await.expect("it ends")
}

/// Prints the outcome of each of these expressions of `db` and `orders`.
async fn javascript(server: &Listening, expressions: &[String]) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(given("ROWSTREAM_TEST_POSTGREST"), folder.path().join("node_modules"))
        .expect("a link");
    let main = folder.path().join("main.mjs");
    let calls: String = expressions
        .iter()
        .map(|expression| format!("console.log(JSON.stringify(await {expression}));\n"))
        .collect();
    let text = format!(
        "import {{ PostgrestClient }} from '@supabase/postgrest-js';
        const db = new PostgrestClient('{}');
        const orders = (...options) => db.from('orders').select('id,status', ...options);
        {calls}",
        server.url("").trim_end_matches('/')
    );
    std::fs::write(&main, text).expect("it can be written");
    let mut node = Command::new("node");
    node.arg(&main);
    run(node).await
}

/// The same in Python.
async fn python(server: &Listening, expressions: &[String]) -> Vec<Value> {
    let calls: String =
        expressions.iter().map(|expression| format!("    tell(lambda: {expression})\n")).collect();
    let text = format!(
        "import json
from postgrest import APIError, SyncPostgrestClient
def tell(query):
    try:
        found = query().execute()
        print(json.dumps(found and {{'data': found.data, 'count': found.count}}))
    except APIError as error:
        print(json.dumps({{'error': error.json()}}))
with SyncPostgrestClient('{}') as db:
    def orders(*columns, **options):
        return db.from_('orders').select(*(columns or ('id,status',)), **options)
{calls}",
        server.url("").trim_end_matches('/')
    );
    let mut python = Command::new(given("ROWSTREAM_TEST_PYTHON"));
    python.args(["-W", "ignore::DeprecationWarning", "-c", &text]);
    run(python).await
}

fn check_rows(found: &[Value], context: &str) {
    assert_eq!(found.len(), QUERIES.len(), "{context}");
    for (found, (query, _, rest)) in found.iter().zip(QUERIES) {
        assert_eq!(found["data"], expected(rest), "{query}, {context}: {found}");
    }
}

async fn javascript_reads(url: &str) {
    let server = serve(url).await;
    let queries: Vec<_> = QUERIES.iter().map(|(query, ..)| format!("orders(){query}")).collect();
    check_rows(&javascript(&server, &queries).await, url);
    let expressions = [
        "orders().eq('id', 3).single()",
        "orders().order('total', {ascending: false}).limit(1).single()",
        "orders().eq('id', 99).single()",
        "orders().eq('status', 'OPEN').single()",
        "orders().eq('id', 3).maybeSingle()",
        "orders().eq('id', 99).maybeSingle()",
        "orders().eq('status', 'OPEN').maybeSingle()",
        "orders().lt('id', 3).csv()",
        "orders({count: 'exact'}).limit(2)",
        "db.from('orders').select('*', {count: 'exact', head: true}).eq('status', 'OPEN')",
        "orders({count: 'exact'}).eq('id', 3).single()",
        "db.schema('public').from('orders').select('id').eq('id', 3)",
        "db.from('orders').select('id,stat')",
        "orders().eq('statu', 'OPEN')",
        "db.from('order').select()",
    ]
    .map(str::to_owned);
    let found = javascript(&server, &expressions).await;
    let [paid, dearest] = [json!({"id": 3, "status": "PAID"}), json!({"id": 6, "status": "PAID"})];
    for (index, data, count) in [
        (0, paid.clone(), Value::Null),
        (1, dearest, Value::Null),
        (4, paid.clone(), Value::Null),
        (5, Value::Null, Value::Null),
        (7, json!("id,status\r\n1,SENT\r\n2,SENT\r\n"), Value::Null),
        (8, expected("order by id limit 2"), json!(7)),
        (9, Value::Null, json!(3)),
        (10, paid, json!(1)),
        (11, json!([{"id": 3}]), Value::Null),
    ] {
        let told = [&found[index]["data"], &found[index]["count"], &found[index]["error"]];
        assert_eq!(told, [&data, &count, &Value::Null], "{} on {url}", expressions[index]);
    }
    check_errors(&found, &[(2, "PGRST116", "contains 0 rows"), (3, "PGRST116", "contains several rows")]);
    check_errors(&found, &[(6, "PGRST116", "multiple (or no) rows")]);
    check_errors(&found, &[(12, "invalid_parameter", "`stat` isn't a column: did you mean `status`?")]);
    check_errors(&found, &[(13, "invalid_parameter", "did you mean `status`?")]);
    check_errors(&found, &[(14, "no_endpoint", "there is no endpoint `/order`")]);
}

async fn python_reads(url: &str) {
    let server = serve(url).await;
    let queries: Vec<_> = QUERIES.iter().map(|(_, query, _)| format!("orders(){query}")).collect();
    check_rows(&python(&server, &queries).await, url);
    let expressions = [
        "orders().eq('id', 3).single()",
        "orders().order('total', desc=True).limit(1).single()",
        "orders().eq('id', 99).single()",
        "orders().eq('status', 'OPEN').single()",
        "orders().eq('id', 3).maybe_single()",
        "orders().eq('id', 99).maybe_single()",
        "orders().eq('status', 'OPEN').maybe_single()",
        "orders().lt('id', 3).csv()",
        "orders(count='exact').limit(2)",
        "orders('*', count='exact', head=True).eq('status', 'OPEN')",
        "orders(count='exact').eq('id', 3).single()",
        "orders('id, stat')",
        "orders().eq('statu', 'OPEN')",
        "db.from_('order').select('*')",
    ]
    .map(str::to_owned);
    let found = python(&server, &expressions).await;
    let [paid, dearest] = [json!({"id": 3, "status": "PAID"}), json!({"id": 6, "status": "PAID"})];
    for (index, data, count) in [
        (0, paid.clone(), Value::Null),
        (1, dearest, Value::Null),
        (4, paid.clone(), Value::Null),
        (7, json!("id,status\r\n1,SENT\r\n2,SENT\r\n"), Value::Null),
        (8, expected("order by id limit 2"), json!(7)),
        (9, json!([]), json!(3)),
        (10, paid, json!(1)),
    ] {
        assert_eq!(found[index], json!({"data": data, "count": count}), "{} on {url}", expressions[index]);
    }
    assert_eq!(found[5], Value::Null, "there's no row");
    check_errors(&found, &[(2, "PGRST116", "contains 0 rows"), (3, "PGRST116", "contains several rows")]);
    check_errors(&found, &[(6, "406", "single JSON object")]);
    check_errors(&found, &[(11, "invalid_parameter", "`stat` isn't a column: did you mean `status`?")]);
    check_errors(&found, &[(12, "invalid_parameter", "did you mean `status`?")]);
    check_errors(&found, &[(13, "no_endpoint", "there is no endpoint `/order`")]);
}

/// Checks the codes and the messages that reach the caller.
fn check_errors(found: &[Value], expected: &[(usize, &str, &str)]) {
    for (index, code, part) in expected {
        let error = &found[*index]["error"];
        let message = error["message"].as_str().unwrap_or_default();
        assert!(error["code"] == *code && message.contains(part), "{index}: {}", found[*index]);
    }
}

async fn serve(url: &str) -> Listening {
    Started::new(program(), &["serve", url, "--port", "0"]).listening().await
}

fn sqlite(folder: &Path) -> String {
    let file = folder.join("orders.db");
    rusqlite::Connection::open(&file).and_then(|open| open.execute_batch(ORDERS)).expect("a database");
    file.to_str().expect("UTF-8").to_owned()
}

#[tokio::test]
async fn javascript_reads_tables() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().expect("a folder"));
    db.execute(ORDERS).await;
    javascript_reads(&db.url()).await;
    javascript_reads(&MariaDb::new(ORDERS).url()).await;
    javascript_reads(&sqlite(folder.path())).await;
}

#[tokio::test]
async fn python_reads_tables() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().expect("a folder"));
    db.execute(ORDERS).await;
    python_reads(&db.url()).await;
    python_reads(&MariaDb::new(ORDERS).url()).await;
    python_reads(&sqlite(folder.path())).await;
}
