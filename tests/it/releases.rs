//! Two releases of an endpoint behind nginx, which sends each request to the other one, as during a
//! deploy. They accept each other's cursors, or refuse them with a clear error.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use serde_json::{Value, json};

use crate::cut_lists::{Reader, ids_of};
use crate::support::{Ended, Hop, MariaDb, Reply, Server, TestDb, get};

const ROWS: u64 = 9_000;
const PAGE: usize = 300;
/// A mark follows at most 1,000 rows of some 40 bytes.
const BYTES: u64 = 70_000;
/// The cuts that a mark continued, for each pair of releases.
const CUTS: usize = 8;

/// The endpoint without its statement.
const HEAD: &str = "key = [\"id\"]\n[params]\nn = { type = \"integer\", default = 100 }";
const PLAIN: &str = "select id, name from item order by id limit :n";

/// Changes that leave cursors valid: the statement before, the additional settings, and the
/// statement after.
const KEPT: [[&str; 4]; 5] = [
    ["a comment", PLAIN, "", "-- the stock\nselect id, name from item /* all */ order by id limit :n"],
    ["a blank", PLAIN, "", "select  id,name from  item\n\norder by id limit :n"],
    ["the columns", PLAIN, "", "select kind, name, id, upper(name) as title from item order by id limit :n"],
    [
        "a better join",
        "select id, (select title from kind where kind.id = item.kind) as title from item order by id limit :n",
        "",
        "select i.id, k.title from item as i join kind as k on k.id = i.kind order by i.id limit :n",
    ],
    [
        "a parameter that is NULL by default",
        PLAIN,
        "least = { type = \"integer\", optional = true }",
        "select id, name from item where :least is null or id > :least order by id limit :n",
    ],
];

/// Changes that make cursors invalid.
const REFUSED: [[&str; 3]; 2] = [
    ["its version", "cursor_version = 2\n", ""],
    ["a parameter that selects rows by default", "", "\nleast = { type = \"integer\", default = 0 }"],
];

/// The databases with both tables, and their URLs.
struct Databases {
    postgres: TestDb,
    mariadb: MariaDb,
    sqlite: tempfile::TempDir,
}

impl Databases {
    async fn new() -> Self {
        let items: Vec<_> = (1..=ROWS).map(|id| format!("({id}, 'item {id}', {})", id % 3)).collect();
        let tables = [
            "create table kind (id integer primary key, title varchar(9))".to_owned(),
            "insert into kind values (0, 'one'), (1, 'two'), (2, 'three')".to_owned(),
            "create table item (id integer primary key, name varchar(20), kind integer)".to_owned(),
            format!("insert into item values {}", items.join(",")),
        ];
        let postgres = TestDb::new().await;
        for sql in &tables {
            postgres.execute(sql).await;
        }
        let sqlite = tempfile::tempdir().unwrap();
        let tables = tables.join(";");
        rusqlite::Connection::open(sqlite.path().join("test.db")).unwrap().execute_batch(&tables).unwrap();
        Self { postgres, mariadb: MariaDb::new(&tables), sqlite }
    }

    fn urls(&self) -> [String; 3] {
        let file = self.sqlite.path().join("test.db");
        [self.postgres.url(), self.mariadb.url(), format!("sqlite:{}", file.display())]
    }
}

/// Two releases behind nginx.
struct Releases {
    servers: [Server; 2],
    nginx: Hop,
}

impl Releases {
    async fn start(url: &str, files: [&str; 2]) -> Self {
        let config =
            format!("cursor_secret = \"0123456789abcdef0123456789abcdef\"\n[source.db]\nurl = \"{url}\"\n");
        let server = |file| {
            let config = config.clone();
            async move { Server::start(&[("rowstream.toml", &*config), ("endpoints/items.sql", file)]).await }
        };
        let servers = [server(files[0]).await, server(files[1]).await];
        let nginx = Hop::nginx_of(&[0, 1].map(|at: usize| servers[at].address().parse().unwrap())).await;
        Self { servers, nginx }
    }

    fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.nginx.http1)
    }

    /// Reads pages by their links up to the last one, or to an error. Returns the ids, the server of
    /// each page, and the last response.
    async fn export(&self) -> (Vec<u64>, Vec<String>, Reply) {
        let (mut ids, mut servers, mut target) = (Vec::new(), Vec::new(), format!("/items?n={PAGE}"));
        loop {
            let reply = get(&self.url(&target)).await;
            assert_eq!(reply.ended, Ended::Complete);
            servers.push(reply.header("upstream").unwrap().to_owned());
            if reply.status == 200 {
                ids.extend(ids_of(reply.json().as_array().unwrap()));
            }
            let Some(link) = reply.header("link") else { return (ids, servers, reply) };
            target = format!("/items{}", &link[1..link.find('>').unwrap()]);
        }
    }
}

/// The number of requests that another server answered than the one before.
fn changes(servers: &[String]) -> usize {
    servers.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

fn endpoint(head: &str, statement: &str) -> String {
    format!("/*\n{head}\n*/\n{statement}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_releases_accept_the_cursors_of_each_other() {
    let databases = Databases::new().await;
    let all: Vec<u64> = (1..=ROWS).collect();
    for url in databases.urls() {
        for [what, before, settings, after] in KEPT {
            let files = [endpoint(HEAD, before), endpoint(&format!("{HEAD}\n{settings}"), after)];
            let releases = Releases::start(&url, [&*files[0], &*files[1]]).await;
            let (ids, servers, last) = releases.export().await;
            assert!(ids == all, "{what} of {url}: {} rows, then {}", ids.len(), last.text());
            assert_eq!(last.header("rowstream-page"), Some("last"));
            assert_eq!(changes(&servers), servers.len() - 1, "{what}: {servers:?}");

            let mut reader = Reader::new(releases.nginx.http1).await;
            let mut changed = 0;
            while reader.tally.continued < CUTS || changed < CUTS / 2 {
                let target = format!("/items.ndjson?_end=1&n={ROWS}");
                let list = reader.read(&target, None, usize::MAX, BYTES).await;
                assert!(ids_of(&list.rows).eq(1..=ROWS), "{what} of {url}: {:?}", reader.tally);
                changed += changes(&list.servers);
            }
        }
    }
}

/// The response is an error that says why, and how to go on.
fn assert_refused(reply: &Reply, what: &str) {
    let problem = reply.json();
    assert_eq!(
        (reply.status.as_u16(), &problem["code"]),
        (400, &json!("invalid_cursor")),
        "{what}: {problem}"
    );
    assert_eq!(problem["retry"], json!(false));
    let [detail, hint] = ["detail", "hint"].map(|name| problem[name].as_str().unwrap_or_default().to_owned());
    assert!(detail.contains("it's for another endpoint") && hint.contains("start again"), "{problem}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_refuses_cursors_that_it_declares_invalid() {
    let databases = Databases::new().await;
    for url in databases.urls() {
        for [what, head, parameters] in REFUSED {
            let statement = match parameters {
                "" => PLAIN,
                _ => "select id, name from item where id > :least order by id limit :n",
            };
            let files = [endpoint(HEAD, PLAIN), endpoint(&format!("{head}{HEAD}{parameters}"), statement)];
            let releases = Releases::start(&url, [&*files[0], &*files[1]]).await;
            // The second page is that of the other release.
            let (ids, servers, last) = releases.export().await;
            assert!(ids.into_iter().eq(1..=PAGE as u64) && servers.len() == 2, "{what}: {servers:?}");
            assert_refused(&last, what);

            for (from, to) in [(0, 1), (1, 0)] {
                let [from, to] = [from, to].map(|at: usize| &releases.servers[at]);
                let list = get(&from.url(&format!("/items.ndjson?_end=1&n={ROWS}"))).await;
                let marks = list.text().lines().filter_map(|line| {
                    let record: Value = serde_json::from_str(line).unwrap();
                    record["mark"]["next"].as_str().map(str::to_owned)
                });
                let marks: Vec<_> = marks.collect();
                assert!(marks.len() > 5, "{what}: {} marks", marks.len());
                for mark in marks {
                    let target = format!("/items.ndjson?_end=1&n={ROWS}&_after={mark}");
                    assert_refused(&get(&to.url(&target)).await, what);
                    assert_eq!(get(&from.url(&target)).await.status, 200);
                }
            }
        }
    }
}
