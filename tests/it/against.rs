//! `rowstream check --against`: the changes since an older release that its clients notice.

use std::process::Output;

use serde_json::json;

use crate::support::rowstream;

const TABLES: &str = "create table orders(id integer, customer integer, status text, placed timestamp);
    create table lines(order_id integer, sku text); create table customers(id integer, name text)";
const CONFIG: &str = "[source.db]\nurl = \"sqlite:../shop.db\"\n";

/// An endpoint with most parts of a contract.
const ORDERS: &str = r#"/*
body = { version = 1, orders = "$rows", next = "$next" }
key  = ["id"]
[params]
status = { type = "text", enum = ["OPEN", "PAID", "SENT"], optional = true }
since  = { type = "integer", default = 0, min = 0 }
client = { type = "text", header = "X-Client", default = "" }
n      = { type = "integer", default = 100, max = 1000 }
*/
select id, customer, status, placed
from orders
where :status is null or status = :status and id > :since and :client <> '-'
limit :n"#;

/// Two statements without a key.
const NESTED: &str = "-- name: orders :many
select id, customer from orders order by id;
-- name: lines :many nested in orders on order_id = id
select order_id, sku from lines order by order_id";

const ONE: &str =
    "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect id, name from customers where id = :id";

/// A folder with a database and two releases, which the files of `write` fill.
struct Releases(tempfile::TempDir);

impl Releases {
    fn new(tables: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = rusqlite::Connection::open(folder.path().join("shop.db")).unwrap();
        database.execute_batch(tables).unwrap();
        Self(folder)
    }

    fn write(&self, release: &str, files: &[(&str, &str)]) -> &Self {
        for (name, text) in files {
            let path = self.0.path().join(release).join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self
    }

    async fn check(&self, arguments: &[&str]) -> Output {
        let path = |release: &str| self.0.path().join(release).display().to_string();
        let (old, new) = (path("old"), path("new"));
        rowstream(&[&["check", &new, "--against", &old], arguments].concat()).await
    }
}

/// The changes in a report, without the clients that they affect.
fn changes(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_change = |line: &&str| line.starts_with("breaks ") || line.starts_with("note: ");
    said.lines().filter(is_change).map(str::to_owned).collect()
}

/// Compares two versions of the endpoint `/a` or `/a/{id}`, and expects these changes.
async fn expect(story: &str, [old, new]: [&str; 2], expected: &[&str]) {
    let name = if old == ONE { "endpoints/a/{id}.sql" } else { "endpoints/a.sql" };
    let releases = Releases::new(TABLES);
    releases.write("old", &[("rowstream.toml", CONFIG), (name, old)]);
    releases.write("new", &[("rowstream.toml", CONFIG), (name, new)]);
    let output = releases.check(&[]).await;
    let breaks = expected.iter().filter(|line| line.starts_with("breaks ")).count();
    assert_eq!(changes(&output), expected, "{story}: {output:?}");
    assert_eq!(output.status.code(), Some(i32::from(breaks > 0)), "{story}: {output:?}");
}

/// A comment, a blank, a better join or another column once broke all cursors.
#[tokio::test]
async fn changes_that_no_client_notices() {
    for (story, old, new) in [
        ("a comment", "from orders", "-- by id\nfrom orders"),
        ("a blank", "select id", "select  id"),
        ("a better join", "from orders", "from (select * from orders join (select 1) on true)"),
        ("another column", "status, placed", "status, placed, 1 as more"),
        ("a new value of an enum", "\"SENT\"", "\"SENT\", \"LOST\""),
        ("a wider bound", "min = 0", "min = -5"),
        ("another member", "{ version = 1,", "{ version = 2, more = true,"),
    ] {
        assert_ne!(ORDERS.replace(old, new), ORDERS, "{story}");
        expect(story, [ORDERS, &ORDERS.replace(old, new)], &[]).await;
    }
    let declared = ORDERS.replace("[params]", "[params]\nmore = { type = \"text\", optional = true }");
    let used = declared.replace("limit", "and :more is null limit");
    expect("another optional parameter", [ORDERS, &used], &[]).await;
}

/// The endpoint without a key, so that no cursor breaks.
fn without_key() -> String {
    ORDERS.replace("key  = [\"id\"]\n", "").replace(", next = \"$next\"", "")
}

#[tokio::test]
async fn changes_of_requests() {
    for (old, new, expected) in [
        (
            "since  = { type = \"integer\", default = 0, min = 0 }",
            "since = { type = \"number\" }",
            &[
                "breaks requests: GET /a: the parameter `since` was `integer`, and is `number`",
                "breaks requests: GET /a: the parameter `since` is required now, and has no default",
            ][..],
        ),
        (
            "default = 0, min = 0",
            "default = 5, min = 1",
            &[
                "breaks requests: GET /a: `min` of the parameter `since` was `0`, and is `1`",
                "note: GET /a: the default of the parameter `since` was `0`, and is `5`",
            ],
        ),
        (
            "min = 0",
            "min = 0, max = 9",
            &["breaks requests: GET /a: `max` of the parameter `since` was none, and is `9`"],
        ),
        (
            "min = 0",
            "min = 0, enum = [0, 1]",
            &["breaks requests: GET /a: the parameter `since` accepts only the values of an `enum` now"],
        ),
        (
            "header = \"X-Client\"",
            "header = \"X-Client\", local = true",
            &[
                "breaks requests: GET /a: the header `x-client` accepts only dates and times without an offset now",
            ],
        ),
        (
            ", \"SENT\"",
            "",
            &["breaks requests: GET /a: the parameter `status` doesn't accept `SENT` anymore"],
        ),
        ("X-Client", "X-Other", &["breaks requests: GET /a: the header `x-client` is gone"]),
        (
            ":status is null or status = :status and",
            ":state = '' and",
            &[
                "breaks requests: GET /a: the parameter `status` is gone",
                "breaks requests: GET /a: the parameter `state` is new and required",
            ],
        ),
        (
            "default = 100",
            "default = 50",
            &["note: GET /a: the default of the parameter `n` was `100`, and is `50`"],
        ),
    ] {
        let changed = without_key().replace(old, new);
        let changed = match changed.contains(":state") {
            true => changed.replace("status = {", "state = { type = \"text\" }\n#"),
            false => changed,
        };
        expect(new, [&without_key(), &changed], expected).await;
    }
}

#[tokio::test]
async fn changes_of_filters() {
    const ALL: &str = "/*\nkey = [\"id\"]\nfilter = true\nsort = [\"id\", \"placed\"]\nselect = true\n*/
        select id, status, placed from orders order by id";
    for (old, new, expected) in [
        (
            "filter = true\nsort = [\"id\", \"placed\"]\nselect = true\n",
            "",
            &[
                "breaks requests: GET /a: `filters` isn't offered anymore",
                "breaks requests: GET /a: `order` isn't offered anymore",
                "breaks requests: GET /a: `select` isn't offered anymore",
                "breaks requests: GET /a: `limit` isn't offered anymore",
                "breaks requests: GET /a: `offset` isn't offered anymore",
                "breaks requests: GET /a: the format `html` isn't offered anymore",
            ][..],
        ),
        (
            "filter = true",
            "filter = [\"id\"]",
            &["breaks requests: GET /a: only some columns can be filtered now: `id`"],
        ),
        (", \"placed\"]", "]", &["breaks requests: GET /a: `placed` can't be sorted by anymore"]),
        ("sort = [\"id\", \"placed\"]", "sort = true", &[]),
    ] {
        expect(new, [ALL, &ALL.replace(old, new)], expected).await;
    }
}

#[tokio::test]
async fn changes_of_responses() {
    let plain = "select id, status from orders";
    for (story, old, new, expected) in [
        (
            "a column is renamed",
            plain,
            "select id, status as stat_us from orders",
            &["breaks responses: GET /a: `status` is gone; `stat_us` is new"][..],
        ),
        (
            "a column has another type",
            plain,
            "select id, placed as status from orders",
            &["breaks responses: GET /a: `status` was string, and is string (date-time-local)"],
        ),
        (
            "a column has no type",
            plain,
            "select id, status || '' as status from orders",
            &["note: GET /a: `status` was string, and is any value"],
        ),
        (
            "a column moves",
            plain,
            "select id, customer, status from orders",
            &["note: GET /a: the columns of CSV were id,status, and are id,customer,status"],
        ),
        (
            "integers become strings",
            plain,
            "/*\nvalues = { numbers = \"string\" }\n*/\nselect id, status from orders",
            &["breaks responses: GET /a: `id` was integer (int64), and is string (^-?[0-9]+$)"],
        ),
        (
            "formats",
            plain,
            "/*\nformats = [\"csv\", \"json\", \"sse\", \"json-seq\", \"arrow\"]\ncsv = { separator = \";\" }\n*/\nselect id, status from orders",
            &[
                "breaks requests: GET /a: the format `ndjson` isn't offered anymore",
                "breaks responses: GET /a: the default format was `json`, and is `csv`",
                "breaks responses: GET /a: `[csv]` differs",
            ],
        ),
        (
            "one row",
            plain,
            "-- name: rows :one\nselect id, status from orders limit 1",
            &["breaks responses: GET /a: the body was a list of rows, and is a row or null"],
        ),
        (
            "a member of the template",
            ORDERS,
            &ORDERS.replace("version = 1, orders", "items"),
            &["breaks responses: GET /a: `version` is gone", "breaks responses: GET /a: `orders` is gone"],
        ),
        (
            "a nested list",
            NESTED,
            "select id, customer from orders order by id",
            &["breaks responses: GET /a: `lines` is gone"],
        ),
        (
            "a column of a nested list",
            NESTED,
            &NESTED.replace("order_id, sku", "order_id"),
            &["breaks responses: GET /a: `lines.sku` is gone"],
        ),
        (
            "null instead of a 404",
            ONE,
            &ONE.replace("result = \"one\"\n", "").replace("select", "-- name: rows :one\nselect"),
            &["breaks responses: GET /a/{id}: the body was a row, and is a row or null"],
        ),
    ] {
        expect(story, [old, new], expected).await;
    }
}

#[tokio::test]
async fn changes_of_cursors() {
    let key = |key: &str| ORDERS.replace("[\"id\"]", key);
    let n = "n      = { type = \"integer\", default = 100, max = 1000 }\n";
    let unlimited = ORDERS.replace(n, "").replace("\nlimit :n", "");
    let optional = ORDERS.replace("default = 100", "optional = true");
    for (story, old, new, expected) in [
        ("a key is new", &*without_key(), ORDERS, &[][..]),
        (
            "no key",
            ORDERS,
            &without_key(),
            &["breaks responses: GET /a: `next` is gone", "breaks cursors: GET /a: `key` is gone"],
        ),
        (
            "another direction",
            ORDERS,
            &key("[\"id desc\"]"),
            &["breaks cursors: GET /a: `key` was `id`, and is `id desc`"],
        ),
        (
            "another default of the limit",
            ORDERS,
            &ORDERS.replace("default = 100,", "default = 200,"),
            &["note: GET /a: the default of the parameter `n` was `100`, and is `200`"],
        ),
        // The limit is unknown, so clients got the first page alone, and took it for the whole list.
        (
            "another limit",
            ORDERS,
            &ORDERS.replace("limit :n", "limit min(:n, 7)"),
            &[
                "breaks responses: GET /a: no response has a next page anymore: the limit is neither a number, a \
                 parameter nor `coalesce(:n, 100)`",
            ],
        ),
        // Clients got seven rows, and took them for all.
        (
            "an unknown limit of a whole list",
            &unlimited,
            &ORDERS.replace("limit :n", "limit min(:n, 7)"),
            &[
                "breaks responses: GET /a: responses end after a limit now, without a next page: it's neither a \
                 number, a parameter nor `coalesce(:n, 100)`",
            ],
        ),
        (
            "a number as the limit of a whole list",
            &unlimited,
            &format!("{unlimited}\nlimit 7"),
            &["breaks responses: GET /a: responses end after 7 rows now, and the others are on next pages"],
        ),
        (
            "a parameter as the limit of a whole list",
            &optional,
            ORDERS,
            &[
                "note: GET /a: the default of the parameter `n` was NULL, and is `100`",
                "breaks responses: GET /a: responses end after 100 rows now, and the others are on next pages",
            ],
        ),
        ("a limit that only some requests send", &unlimited, &optional, &[]),
        (
            "a fallback that means no limit",
            ORDERS,
            &ORDERS.replace("limit :n", "limit coalesce(:n, -1)"),
            &[],
        ),
        ("the same limit in other words", ORDERS, &ORDERS.replace("limit :n", "limit coalesce(:n, 7)"), &[]),
        (
            "another name of a header's parameter",
            ORDERS,
            &ORDERS.replace("client = {", "caller = {").replace(":client", ":caller"),
            &[
                "breaks cursors: GET /a: the parameter `client` is `caller`, and cursors are bound to its name",
            ],
        ),
        (
            "another version",
            ORDERS,
            &key("[\"id\"]\ncursor_version = 2"),
            &["breaks cursors: GET /a: `cursor_version` was `1`, and is `2`"],
        ),
        (
            "another type",
            ORDERS,
            &ORDERS.replace("select id,", "select status as id,"),
            &[
                "breaks responses: GET /a: `orders.id` was integer (int64), and is string",
                "breaks cursors: GET /a: `id` of `key` was `INTEGER`, and is `TEXT`",
            ],
        ),
        (
            "a required parameter",
            ORDERS,
            &ORDERS.replace("[params]", "[params]\nshop = \"integer\"").replace("'-'", "'-' and :shop = 1"),
            &[
                "breaks requests: GET /a: the parameter `shop` is new and required",
                "breaks cursors: GET /a: the parameter `shop` selects rows now, so cursors are bound to its value",
            ],
        ),
        (
            "another default",
            ORDERS,
            &ORDERS.replace("default = 0,", "default = 5,"),
            &[
                "note: GET /a: the default of the parameter `since` was `0`, and is `5`",
                "breaks cursors: GET /a: the parameter `since` has another default, and cursors are bound to its value",
            ],
        ),
    ] {
        expect(story, [old, new], expected).await;
    }
}

/// Two releases of several files.
#[tokio::test]
async fn changes_of_paths_and_settings() {
    let secret = format!("cursor_secret = \"one\"\n{CONFIG}");
    let tokens = format!(
        "cursor_secret = \"two\"\n{CONFIG}[token.ann]\nsha256 = \"{}\"\n",
        "0123456789abcdef".repeat(4)
    );
    let releases = Releases::new(TABLES);
    let orders = ORDERS.replace("/*\n", "/*\nauthorization = \"public\"\n");
    let names = "/*\nauthorization = [\"ann\"]\n*/\nselect name from customers";
    let one = ONE.replace("/*\n", "/*\nauthorization = \"public\"\n");
    releases.write(
        "old",
        &[
            ("rowstream.toml", &secret),
            ("endpoints/orders.sql", ORDERS),
            ("endpoints/customer.sql", "select name from customers"),
            ("endpoints/names.sql", "select name from customers"),
            ("endpoints/customers/{id}.sql", ONE),
        ],
    );
    releases.write(
        "new",
        &[
            ("rowstream.toml", &tokens),
            ("endpoints/orders.sql", &orders),
            ("endpoints/customers.sql", names),
            ("endpoints/names.sql", names),
            (
                "endpoints/customers/{number}.sql",
                &one.replace("id = \"", "number = \"").replace(":id", ":number"),
            ),
        ],
    );
    let output = releases.check(&[]).await;
    assert_eq!(
        changes(&output),
        [
            "breaks cursors: all endpoints: `cursor_secret` differs",
            "breaks requests: GET /customer: the path is gone; the closest path is `/customers`",
            "note: GET /customers/{id}: the path parameter `id` is `number` now",
            "note: GET /names: it accepts only these tokens or scopes now: ann",
        ],
        "{output:?}"
    );
    let said = String::from_utf8_lossy(&output.stderr);
    for words in [
        "    affects: clients that continue after an earlier response: they get a 400, `invalid_cursor`\n",
        "    affects: all its clients: they get a 404, `no_endpoint`\n",
        "hint: keep the old form until clients have moved",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
    assert_eq!(said.lines().last(), Some("2 breaking changes"));
}

#[tokio::test]
async fn an_older_release_that_cannot_be_asked() {
    let releases = Releases::new(TABLES);
    let file = |sql| [("rowstream.toml", CONFIG), ("endpoints/a.sql", sql)];
    releases.write("new", &file("select id from orders"));
    let output = releases.check(&[]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: --against ") && said.contains("old: there is no file "), "{said}");

    releases.write("old", &file("/*\nformats = [\"xml\"]\n*/\nselect 1"));
    let output = releases.check(&[]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let words = "the older release has errors, so nothing can be compared with it\n";
    assert!(
        output.status.code() == Some(1) && said.contains(words) && said.contains("a.sql:2:12: "),
        "{said}"
    );

    // Its table was dropped.
    releases.write("old", &file("/*\nformats = [\"csv\", \"json\"]\n*/\nselect id from dropped"));
    releases.write("new", &file("/*\nformats = [\"csv\"]\n*/\nselect id from orders"));
    let output = releases.check(&[]).await;
    assert_eq!(
        changes(&output),
        [
            "breaks requests: GET /a: the format `json` isn't offered anymore",
            "note: GET /a: the older columns of the body aren't compared: statement `rows`: no such table: dropped (SQLite code 1)",
        ],
        "{output:?}"
    );

    // Its database is missing.
    releases.write("old", &[("rowstream.toml", "[source.db]\nurl = \"sqlite:none.db\"\n")]);
    let found = changes(&releases.check(&[]).await);
    let words =
        "note: GET /a: the older columns of the body aren't compared: the file of source `db` does not exist";
    assert!(found.last().is_some_and(|line| line.starts_with(words)), "{found:?}");
}

#[tokio::test]
async fn a_newer_release_with_errors_is_not_compared() {
    let releases = Releases::new(TABLES);
    let file = |sql| [("rowstream.toml", CONFIG), ("endpoints/a.sql", sql)];
    releases.write("old", &file("select id from orders"));
    releases.write("new", &file("/*\nformats = [\"xml\"]\n*/\nselect 1"));
    let output = releases.check(&[]).await;
    assert_eq!(changes(&output), ["note: all endpoints: they are compared once the files have no errors"]);
    assert!(String::from_utf8_lossy(&output.stderr).ends_with("\n1 error\n"), "{output:?}");
}

#[tokio::test]
async fn changes_in_json() {
    let releases = Releases::new(TABLES);
    let file = |sql| [("rowstream.toml", CONFIG), ("endpoints/a.sql", sql)];
    releases.write("old", &file("select id, status from orders"));
    releases.write("new", &file("select id from orders"));
    let output = releases.check(&["--format", "json"]).await;
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = json!([{
        "endpoint": "/a", "breaks": "responses", "message": "`status` is gone", "affected": "clients that read it",
    }]);
    assert_eq!((&found["changes"], &found["errors"]), (&expected, &json!([])));
    assert_eq!(output.status.code(), Some(1));
}
