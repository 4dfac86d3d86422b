//! A statement's changes to its session aren't visible to the next request. Settings, variables and
//! locks were, because a connection serves one request after another.

use http::StatusCode;

use crate::support::logins::SCRAM;
use crate::support::{
    Ended, Launch, MariaDb, Product, Server, TestDb, drivers, get, mariadb_port, pg_port, wait_until,
    with_both,
};

async fn server(url: &str, source: &str, endpoints: &[(&str, &str)]) -> Server {
    // One connection, so that the next request gets the same one if it's kept.
    let config = format!("[source.main]\nurl = {url:?}\npool = {{ max = 1 }}\n{source}");
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let mut files = vec![("rowstream.toml", config.as_str())];
    files.extend(names.iter().zip(endpoints).map(|(name, (_, sql))| (name.as_str(), *sql)));
    Server::start(&files).await
}

async fn text(server: &Server, path: &str) -> String {
    let reply = get(&server.url(path)).await;
    assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{path}: {}", reply.text());
    reply.text().to_owned()
}

const PARAM: &str = "/*\n[params]\nx = { type = \"text\", optional = true }\n*/\n";
const ONE: &str = "/*\nresult = \"one\"\n[params]\nx = { type = \"text\", optional = true }\n*/\n";

#[tokio::test]
async fn settings_of_postgresql_end_with_their_request() {
    let db = TestDb::new().await;
    db.execute("create table t (id int); insert into t values (1)").await;
    let set = "select set_config('app.tenant', :x, false) as set, set_config('search_path', 'nowhere', false) as path";
    let shown = "select nullif(current_setting('app.tenant', true), '') as tenant, current_setting('search_path') as path";
    let endpoints = [
        ("set", [PARAM, set].concat()),
        ("set_one", [ONE, set].concat()),
        ("local", [PARAM, "select set_config('app.tenant', :x, true) as set"].concat()),
        ("shown", shown.to_owned()),
        ("shown_one", ["/*\nresult = \"one\"\n*/\n", shown].concat()),
        ("rows", "select id from t".to_owned()),
    ];
    let endpoints = endpoints.each_ref().map(|(name, sql)| (*name, sql.as_str()));
    for source in ["", "fetch_rows = 1\n", "pooler = \"transaction\"\n"] {
        let server = server(&db.url(), source, &endpoints).await;
        for _ in 0..2 {
            for set in ["/set?x=a", "/set_one?x=b", "/local?x=c"] {
                assert!(text(&server, set).await.contains("\"set\":\""));
                let nothing = "{\"tenant\":null,\"path\":\"\\\"$user\\\", public\"}";
                assert_eq!(text(&server, "/shown").await, format!("[{nothing}]"), "{source} {set}");
                assert_eq!(text(&server, "/shown_one").await, nothing, "{source} {set}");
                assert_eq!(text(&server, "/rows").await, "[{\"id\":1}]", "{source} {set}");
            }
        }
    }
}

#[tokio::test]
async fn locks_of_postgresql_end_with_their_request() {
    let db = TestDb::new().await;
    let endpoints = [
        ("lock", "select pg_try_advisory_lock(7) as ok"),
        ("lock_one", "/*\nresult = \"one\"\n*/\nselect pg_catalog.pg_advisory_lock_shared(7)::text as ok"),
    ];
    let server = server(&db.url(), "", &endpoints).await;
    let other = db.client().await;
    for _ in 0..2 {
        for path in ["/lock", "/lock_one"] {
            text(&server, path).await;
            until_unlocked(&other).await;
        }
    }
}

/// Waits until no session of the database holds an advisory lock.
async fn until_unlocked(client: &tokio_postgres::Client) {
    wait_until("the lock is free", async || {
        let sql = "select count(*) from pg_locks where locktype = 'advisory' and database = \
                   (select oid from pg_database where datname = current_database())";
        client.query_one(sql, &[]).await.expect("a count").get::<_, i64>(0) == 0
    })
    .await;
}

/// A function that sets the tenant of a request, as for row-level security, left it to the next
/// request.
#[tokio::test]
async fn effects_of_functions_of_postgresql_end_with_their_request() {
    let db = TestDb::new().await;
    db.execute(
        "create schema app;
         create function app.set_tenant(x text) returns text language plpgsql as
            $$ begin return set_config('app.tenant', x, false); end $$;
         create function app.enter(x text) returns text language sql as $$ select app.set_tenant(x) $$;
         create function \"Go\"() returns text language plpgsql as
            $$ begin set session search_path = nowhere; return 'gone'; end $$;
         create function lock_it() returns boolean language plpgsql as
            $$ begin return pg_try_advisory_lock(7); end $$;
         create function steady(x text) returns text language plpgsql stable as
            $$ begin return set_config('app.tenant', x, false); end $$;
         create function enter_role() returns text language plpgsql stable as
            $$ begin return set_config('role', 'pg_monitor', false); end $$;
         create function prepares() returns text language plpgsql as
            $$ begin execute 'prepare found as select 1'; return 'done'; end $$;
         create function forgets() returns text language plpgsql as
            $$ begin deallocate all; return 'done'; end $$",
    )
    .await;
    // Its source is empty: the catalog has the parsed body.
    let has_bodies = db.version().await >= 14;
    if has_bodies {
        db.execute(
            "create function lock_in_body() returns boolean language sql begin atomic
             select pg_try_advisory_lock(7); end",
        )
        .await;
    }
    let shown = "select nullif(current_setting('app.tenant', true), '') as tenant, current_setting('search_path') as path,
        current_setting('role') as role, (select count(*) from pg_prepared_statements where name = 'found') as prepared";
    let one = |sql: &str| [ONE, sql].concat();
    let endpoints = [
        ("set", [PARAM, "select app.set_tenant(:x) as x"].concat()),
        ("set_one", one("select app.set_tenant(:x) as x")),
        ("enter", one("select t.x from app.enter(:x) t(x)")),
        ("go", "select \"Go\"() as x".to_owned()),
        ("lock", "select lock_it() as x".to_owned()),
        ("steady", one("select steady(:x) as x")),
        ("role", "select enter_role() as x".to_owned()),
        ("prepares", "select prepares() as x".to_owned()),
        ("forgets", "select forgets() as x".to_owned()),
        ("lock_body", format!("select {}() as x", if has_bodies { "lock_in_body" } else { "lock_it" })),
        ("shown", shown.to_owned()),
        ("shown_one", ["/*\nresult = \"one\"\n*/\n", shown].concat()),
    ];
    let endpoints = endpoints.each_ref().map(|(name, sql)| (*name, sql.as_str()));
    let other = db.client().await;
    for source in ["", "fetch_rows = 1\n"] {
        let server = server(&db.url(), source, &endpoints).await;
        for _ in 0..2 {
            for path in [
                "/set?x=a",
                "/set_one?x=b",
                "/enter?x=c",
                "/go",
                "/lock",
                "/lock_body",
                "/steady?x=d",
                "/role",
                "/prepares",
                "/forgets",
            ] {
                text(&server, path).await;
                let nothing =
                    "{\"tenant\":null,\"path\":\"\\\"$user\\\", public\",\"role\":\"none\",\"prepared\":0}";
                assert_eq!(text(&server, "/shown").await, format!("[{nothing}]"), "{source} {path}");
                assert_eq!(text(&server, "/shown_one").await, nothing, "{source} {path}");
            }
            until_unlocked(&other).await;
        }
    }
}

/// Settings and locks of a function were left to the next request if the statement didn't call it by its
/// name: the function of a view or a policy, a function like a column, or one that another calls.
#[tokio::test]
async fn effects_of_views_and_policies_of_postgresql_end_with_their_request() {
    let db = TestDb::new().await;
    db.execute(
        "create table t (id int); insert into t values (1);
         create function set_tenant() returns text language plpgsql as
            $$ begin return set_config('app.tenant', 'a', false); end $$;
         create function of_row(t) returns text language plpgsql as $$ begin return set_tenant(); end $$;
         create function says_stable() returns text language plpgsql stable as
            $$ begin return SET_CONFIG ('app.tenant', 'a', false); end $$;
         create function lock_it() returns boolean language plpgsql as
            $$ begin return PG_TRY_ADVISORY_LOCK(7); end $$;
         create function enter() returns boolean language plpgsql as $$ begin return lock_it(); end $$;
         create view of_function as select set_tenant() as x;
         create view of_built_in as select set_config('app.tenant', 'b', false) as x;
         create view \"Of view\" as select x from of_built_in where x is not null;
         create view locks as select pg_try_advisory_lock(7) as x;
         create view enters as select x from (select enter() as x) l;
         create view of_enters as select x from enters;
         create view of_policy as select id as x from t;
         alter table t enable row level security; alter table t force row level security;
         create policy p on t using (set_config('app.tenant', 'c', false) is not null);
         grant select on all tables in schema public to public",
    )
    .await;
    let shown = "select nullif(current_setting('app.tenant', true), '') as tenant";
    let one = |sql: &str| ["/*\nresult = \"one\"\n*/\n", sql].concat();
    let endpoints = [
        ("of_function", "select x from of_function".to_owned()),
        ("one", one("select x from of_function")),
        ("of_built_in", "select x from public.of_built_in".to_owned()),
        ("of_view", "select v.x from \"Of view\" v".to_owned()),
        ("locks", "select x from locks".to_owned()),
        ("lock", "select enter() as x".to_owned()),
        ("enters", "select x from t, of_enters".to_owned()),
        ("says_stable", "select says_stable() as x".to_owned()),
        ("of_row", "select t.of_row as x from t".to_owned()),
        ("policy", "select id as x from t".to_owned()),
        ("policy_of_view", "with v as (table of_policy) select x from v".to_owned()),
        ("shown", shown.to_owned()),
        ("shown_one", one(shown)),
    ];
    let endpoints = endpoints.each_ref().map(|(name, sql)| (*name, sql.as_str()));
    let other = db.client().await;
    // Policies aren't for superusers.
    let url = db.url_of(&SCRAM, "sslmode=disable");
    for (url, source) in [(db.url(), ""), (db.url(), "fetch_rows = 1\n"), (url, "")] {
        let server = server(&url, source, &endpoints).await;
        for _ in 0..2 {
            for (name, _) in endpoints.iter().filter(|(name, _)| !name.starts_with("shown")) {
                text(&server, &format!("/{name}")).await;
                let nothing = "{\"tenant\":null}";
                assert_eq!(text(&server, "/shown").await, format!("[{nothing}]"), "{source} {name}");
                assert_eq!(text(&server, "/shown_one").await, nothing, "{source} {name}");
                until_unlocked(&other).await;
            }
        }
    }
}

/// Each reload left another prepared statement on the connections that lookups share.
#[tokio::test]
async fn a_reload_leaves_no_prepared_statements_of_postgresql() {
    let db = TestDb::new().await;
    let config = format!("[source.main]\nurl = \"{}\"\npool = {{ max = 4 }}\n", db.url());
    let count = "/*\nresult = \"one\"\n*/\nselect (select count(*) from pg_prepared_statements) as n";
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/count.sql", count)]).await;
    for reload in 0..=6 {
        if reload > 0 {
            server.hang_up();
            wait_until("it's reloaded", async || server.count_stderr("reloaded: 1 endpoints") == reload)
                .await;
        }
        // The first time, a connection of its own describes it. Then the shared one parses it.
        for _ in 0..4 {
            let reply = text(&server, "/count").await;
            let n = reply.trim_start_matches("{\"n\":").trim_end_matches('}').parse::<u32>();
            // A few of the connection itself, and one of the lookups.
            assert!(n.is_ok_and(|n| n <= 5), "reload {reload}: {reply}");
        }
    }
}

async fn variables_and_locks_of_mysql_end_with_their_request(on: Product) {
    let db = on.database("create table t (id int primary key); insert into t values (1), (2), (3)");
    let numbered = "select cast(@rn := coalesce(@rn, 0) + 1 as signed) as n from t order by id";
    let lock = format!("select get_lock('{}', 0) as ok", db.url().rsplit('/').next().expect("a name"));
    let endpoints = [
        ("numbered", numbered.to_owned()),
        (
            "one",
            "/*\nresult = \"one\"\n*/\nselect cast(@rn := coalesce(@rn, 0) + 1 as signed) as n".to_owned(),
        ),
        ("lock", lock.clone()),
        ("quoted", lock.replace("get_lock", "`get_lock`")),
        ("free", lock.replace("get_lock", "is_free_lock").replace(", 0)", ")")),
        ("mode", "select @@sql_mode is null as n".to_owned()),
    ];
    let endpoints = endpoints.each_ref().map(|(name, sql)| (*name, sql.as_str()));
    let server = server(&db.url(), "", &endpoints).await;
    for _ in 0..3 {
        assert_eq!(text(&server, "/numbered").await, "[{\"n\":1},{\"n\":2},{\"n\":3}]");
        assert_eq!(text(&server, "/one").await, "{\"n\":1}");
        for path in ["/lock", "/quoted"] {
            assert_eq!(text(&server, path).await, "[{\"ok\":1}]", "{path}");
            wait_until("the lock is free", async || text(&server, "/free").await == "[{\"ok\":1}]").await;
        }
        assert_eq!(text(&server, "/mode").await, "[{\"n\":0}]");
    }
}

/// The variable that is 1 if transactions only read.
fn read_only(on: Product) -> &'static str {
    match on {
        Product::MariaDb => "tx_read_only",
        Product::MySql8 => "transaction_read_only",
    }
}

/// Variables and settings of a procedure reached the next request. If the procedure ended the read-only
/// transaction, functions of later requests could write.
async fn changes_of_procedures_end_with_their_request(on: Product) {
    let db = on.script(
        "create table written(v int);
         delimiter $$
         create procedure counts() begin set @n = coalesce(@n, 0) + 1; select @n as x; end $$
         create procedure zone() begin set time_zone = '+05:00'; select 1 as x; end $$
         create procedure commits() begin
           commit; set session transaction read write; start transaction read write;
           insert into written values (1); commit; select 1 as x; end $$
         create procedure begins() begin
           commit; start transaction read write; insert into written values (2); select 1 as x; end $$",
    );
    let read_only = read_only(on);
    let endpoints = [
        ("counts", "call counts()"),
        ("zone", "call zone()"),
        ("commits", "call commits()"),
        ("begins", "call begins()"),
        ("shown", &format!("select @@{read_only} as only_reads, @@time_zone = '+00:00' as utc")),
        ("written", "select v from written"),
    ];
    let server = server(&db.url(), "", &endpoints).await;
    for _ in 0..2 {
        for path in ["/counts", "/zone", "/commits", "/begins"] {
            assert_eq!(text(&server, path).await, "[{\"x\":1}]", "{path}");
            assert_eq!(text(&server, "/shown").await, "[{\"only_reads\":1,\"utc\":1}]", "{path}");
        }
    }
    // An open transaction ends with its connection.
    assert_eq!(text(&server, "/written").await, "[{\"v\":1},{\"v\":1}]");
}

/// A function could cut the next list on its connection: it set `sql_select_limit`, and the statement that calls
/// it, or a view, doesn't show that. Other settings, variables and locks reached the next request, too.
async fn effects_of_functions_and_views_end_with_their_request(on: Product) {
    let read_only = read_only(on);
    let db = on.script(&format!(
        "create table t(id int primary key); insert into t values (1), (2), (3);
         delimiter $$
         create function cuts() returns int begin set session sql_select_limit = 1; return 1; end $$
         create function cuts_all() returns int begin set @@sql_select_limit = 1; return 1; end $$
         create function zone() returns int begin set time_zone = '+05:00'; return 1; end $$
         create function sets() returns int begin set @x = 5; return 1; end $$
         create function selects() returns int begin select 5 into @x; return 1; end $$
         create function inserts() returns int return last_insert_id(7) - 6 $$
         create function takes() returns int return get_lock(concat(database(), '.a'), 0) $$
         create function enters() returns int begin return takes(); end $$
         create function writes() returns int begin set session {read_only} = 0; return 1; end $$
         create function fails() returns int begin
           set session sql_select_limit = 1; signal sqlstate '45000' set message_text = 'no'; return 1; end $$
         create function kept() returns int return @x $$
         create view of_function as select cuts() as x $$
         create view of_view as select v.x from of_function v $$
         create view enters as select enters() as x $$
         create view Upper as select x from enters $$",
    ));
    let statements = [
        ("cuts", "select cuts() as x"),
        ("cuts_all", "select cuts_all() as x"),
        ("each", "select id as x from t where cuts() = 1 and id = 1"),
        ("of_function", "select x from of_function"),
        ("of_view", "select t.id as x from t straight_join of_view where t.id = 1"),
        ("zone", "select `zone` () as x"),
        ("sets", "select sets() as x"),
        ("selects", "select selects() as x"),
        ("inserts", "select inserts() as x"),
        ("locks", "select takes() as x"),
        ("enters", "select x from Upper"),
        ("writes", "select writes() as x"),
    ];
    let one = |sql: &str| ["/*\nresult = \"one\"\n*/\n", sql].concat();
    let shown = format!(
        "select kept() as x, last_insert_id() as id, cast(@@time_zone as char) as zone, @@{read_only} as ro,
        is_used_lock(concat(database(), '.a')) = connection_id() as locked"
    );
    let nothing = "{\"x\":null,\"id\":0,\"zone\":\"+00:00\",\"ro\":1,\"locked\":null}";
    let mut endpoints: Vec<_> =
        statements.iter().map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned())).collect();
    endpoints.extend(statements.iter().map(|(name, sql)| (format!("{name}_one"), one(sql))));
    endpoints.push(("fails".to_owned(), "select fails() as x".to_owned()));
    endpoints.push(("fails_one".to_owned(), one("select fails() as x")));
    endpoints.push(("ids".to_owned(), "select id from t order by id".to_owned()));
    endpoints.push(("shown".to_owned(), shown));
    let endpoints: Vec<_> = endpoints.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).collect();
    let server = server(&db.url(), "", &endpoints).await;
    for _ in 0..2 {
        for (name, sql) in statements.iter().chain(&[("fails", "fails()")]) {
            for path in [format!("/{name}"), format!("/{name}_one")] {
                let reply = get(&server.url(&path)).await;
                let is_whole = reply.status == StatusCode::OK && reply.text().contains("{\"x\":1}");
                assert!(is_whole || *name == "fails", "{path} {sql}: {}", reply.text());
                assert_eq!(text(&server, "/ids").await, "[{\"id\":1},{\"id\":2},{\"id\":3}]", "{path}");
                // The server ends a closed connection's lock soon.
                wait_until("nothing is left", async || {
                    text(&server, "/shown").await == format!("[{nothing}]")
                })
                .await;
            }
        }
    }
}

/// A function of one statement cut the next one of the same response, and its times had another zone.
async fn effects_of_functions_end_with_their_statement(on: Product) {
    let db = on.script(
        "create table t(id int primary key); insert into t values (1), (2), (3);
         delimiter $$
         create function cuts() returns int begin
           set session sql_select_limit = 1; set time_zone = '+05:00'; return 1; end $$",
    );
    let body = "/*\nbody = { a = \"$a\", b = \"$b\" }\n*/\n-- name: a :many\nselect cuts() as x;\n-- name: b :many\n\
                select id, cast(@@time_zone as char) as z from t order by id";
    let nested = "-- name: a :many\nselect cuts() as x;\n-- name: b :many nested in a on x = x\n\
                  select 1 as x, id, cast(@@time_zone as char) as z from t order by id";
    let server = server(&db.url(), "", &[("body", body), ("nested", nested)]).await;
    let rows = |first: &str| [1, 2, 3].map(|id| format!("{{{first}\"id\":{id},\"z\":\"+00:00\"}}")).join(",");
    for _ in 0..2 {
        let (of_body, of_nested) = (rows(""), rows("\"x\":1,"));
        assert_eq!(text(&server, "/body").await, format!("{{\"a\":[{{\"x\":1}}],\"b\":[{of_body}]}}"));
        assert_eq!(text(&server, "/nested").await, format!("[{{\"x\":1,\"b\":[{of_nested}]}}]"));
    }
}

/// Lookups share connections, so the effect of one reached those behind it.
async fn effects_of_lookups_end_with_their_request(on: Product) {
    let db = on.script(
        "create table t(id int primary key); insert into t values (1), (2), (3);
         delimiter $$
         create function zone() returns int begin set time_zone = '+05:00'; return 1; end $$
         create view of_function as select zone() as x $$",
    );
    let one = |sql: &str| ["/*\nresult = \"one\"\n*/\n", sql].concat();
    let (sets, of_view) = (one("select zone() as x"), one("select x from of_function"));
    let shown = one("select (select count(*) from t) as n, cast(@@time_zone as char) as zone");
    let config = format!("[source.main]\nurl = {:?}\npool = {{ max = 8 }}\n", db.url());
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/sets.sql", sets.as_str()),
        ("endpoints/of_view.sql", of_view.as_str()),
        ("endpoints/shown.sql", shown.as_str()),
    ];
    let server = Server::start(&files).await;
    for _ in 0..20 {
        let paths = ["/sets", "/shown", "/of_view", "/shown"];
        let [sets, shown, of_view, shown_again] = paths.map(|path| text(&server, path));
        let replies = tokio::join!(sets, shown, of_view, shown_again);
        let whole = "{\"n\":3,\"zone\":\"+00:00\"}";
        assert_eq!(replies, ("{\"x\":1}".into(), whole.into(), "{\"x\":1}".into(), whole.into()));
    }
}

/// The same by drivers: settings and variables reached the next request, and locks stayed.
#[tokio::test]
async fn settings_variables_and_locks_of_odbc_end_with_their_request() {
    let db = TestDb::new().await;
    let endpoints = [
        ("set", [PARAM, "select set_config('app.tenant', :x, false) as x"].concat()),
        ("shown", "select current_setting('app.tenant', true) as x".to_owned()),
        ("lock", "select pg_try_advisory_lock(7) as x".to_owned()),
        (
            "locks",
            "select count(*) as x from pg_locks where locktype = 'advisory' and database = \
             (select oid from pg_database where datname = current_database())"
                .to_owned(),
        ),
    ];
    let endpoints = endpoints.each_ref().map(|(name, sql)| (*name, sql.as_str()));
    let server = server(&drivers::odbc_postgres(db.name(), pg_port()), "", &endpoints).await;
    for _ in 0..2 {
        assert_eq!(text(&server, "/set?x=a").await, "[{\"x\":\"a\"}]");
        assert_eq!(text(&server, "/shown").await, "[{\"x\":null}]");
        text(&server, "/lock").await;
        wait_until("the lock is free", async || text(&server, "/locks").await == "[{\"x\":0}]").await;
    }
    let db = MariaDb::new("create table t (id int primary key); insert into t values (1), (2), (3)");
    let numbered = "select cast(@rn := coalesce(@rn, 0) + 1 as signed) as n from t order by id";
    let server =
        self::server(&drivers::odbc_mariadb(db.name(), mariadb_port()), "", &[("numbered", numbered)]).await;
    for _ in 0..3 {
        assert_eq!(text(&server, "/numbered").await, "[{\"n\":1},{\"n\":2},{\"n\":3}]");
    }
}

/// A variable of DuckDB belongs to its connection.
#[tokio::test]
async fn variables_of_duckdb_end_with_their_request() {
    let config = "[source.main]\nurl = \"duckdb:\"\npool = { max = 1 }\n";
    let files = [
        ("rowstream.toml", config),
        ("endpoints/set.sql", "set variable x = 42"),
        ("endpoints/shown.sql", "select getvariable('x') as x"),
    ];
    let server = Launch::files(&files).variable("ROWSTREAM_DUCKDB", &drivers::duckdb()).start().await;
    for _ in 0..2 {
        text(&server, "/set").await;
        assert_eq!(text(&server, "/shown").await, "[{\"x\":null}]");
    }
}

with_both! {
    variables_and_locks_of_mysql_end_with_their_request
    changes_of_procedures_end_with_their_request
    effects_of_functions_and_views_end_with_their_request
    effects_of_functions_end_with_their_statement
    effects_of_lookups_end_with_their_request
}
