//! Servers that speak PostgreSQL's protocol but aren't PostgreSQL: H2 and QuestDB. Supported
//! features work, unsupported ones are refused with a reason, and no value is misread.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::support::{Client, Ended, Launch, Server, free_port, get, rowstream, wait};
use serde_json::json;
use tempfile::TempDir;

/// A Java server that ends with its test.
struct Other {
    child: Child,
    url: String,
    folder: TempDir,
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn jar(name: &str) -> PathBuf {
    let jars = std::env::var("ROWSTREAM_TEST_JARS");
    PathBuf::from(jars.expect("ROWSTREAM_TEST_JARS is not set: run `cargo xtask test`")).join(name)
}

impl Other {
    /// `command` is Java's. `url` extracts the URL from the line that says that the server listens.
    async fn start(mut command: Command, folder: TempDir, url: fn(&str) -> Option<String>) -> Self {
        command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let (found, wanted) = tokio::sync::oneshot::channel();
        // The thread keeps reading, because the server would otherwise wait.
        std::thread::spawn(move || {
            let mut found = Some(found);
            for line in lines.lines().map_while(Result::ok) {
                if let Some(url) = url(&line)
                    && let Some(found) = found.take()
                {
                    drop(found.send(url));
                }
            }
        });
        let mut this = Self { child, url: String::new(), folder };
        this.url = wait("it starts", wanted).await.expect("it listens");
        this
    }

    async fn h2() -> Self {
        let mut java = Command::new("java");
        java.arg("-Xmx128m").arg("-cp").arg(jar("h2-2.3.232.jar"));
        java.args(["org.h2.tools.Server", "-pg", "-pgPort", "0", "-ifNotExists", "-baseDir", "."]);
        let url = |line: &str| {
            let (_, after) = line.split_once("pg://localhost:")?;
            let port = after.split(' ').next()?;
            Some(format!("postgres://sa:sa@127.0.0.1:{port}/test?sslmode=disable"))
        };
        Self::start(java, tempfile::tempdir().unwrap(), url).await
    }

    async fn questdb() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // It doesn't print its port.
        let port = free_port().port();
        let quiet = ["http", "http.min", "line.tcp", "line.udp", "telemetry"]
            .map(|what| format!("{what}.enabled=false\n"));
        fs::create_dir(folder.path().join("conf")).unwrap();
        let conf = format!("{}pg.net.bind.to=127.0.0.1:{port}\n", quiet.concat());
        fs::write(folder.path().join("conf/server.conf"), conf).unwrap();
        let mut java = Command::new("java");
        java.arg("-Xmx256m").arg("-p").arg(jar("questdb-9.2.2.jar"));
        java.args(["-m", "io.questdb/io.questdb.ServerMain", "-d"]).arg(folder.path());
        let url = |line: &str| {
            let (_, after) = line.split_once("pg-server listening on ")?;
            let address = after.split(' ').next()?;
            Some(format!("postgres://admin:quest@{address}/qdb?sslmode=disable"))
        };
        Self::start(java, folder, url).await
    }

    fn config(&self) -> String {
        format!("[source.db]\nurl = \"{}\"\npool = {{ max = 2, acquire_timeout = \"10s\" }}\n", self.url)
    }

    async fn serves(&self, endpoints: &[(&str, &str)]) -> Server {
        let config = self.config();
        let named: Vec<_> =
            endpoints.iter().map(|(name, sql)| (format!("endpoints/{name}.sql"), *sql)).collect();
        let mut files = vec![("rowstream.toml", config.as_str())];
        files.extend(named.iter().map(|(name, sql)| (name.as_str(), *sql)));
        Launch::files(&files).start().await
    }

    /// The output of `check` for one endpoint.
    async fn checks(&self, sql: &str) -> String {
        let folder = self.folder.path().join("checked");
        fs::create_dir_all(folder.join("endpoints")).unwrap();
        fs::write(folder.join("rowstream.toml"), self.config()).unwrap();
        fs::write(folder.join("endpoints/t.sql"), sql).unwrap();
        let output = rowstream(&["check", folder.join("rowstream.toml").to_str().unwrap()]).await;
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }
}

const TWO: &str =
    "/* body = { a = \"$a\", b = \"$b\" } */\n-- name: a :value\nselect 1;\n-- name: b :value\nselect 2";

#[tokio::test]
async fn h2_streams_what_it_sends_as_postgresql_does() {
    let h2 = Other::h2().await;
    let typed = "select 9007199254740993 as \"i\", cast(1.50 as decimal(10, 2)) as \"d\", true as \"b\", date '2024-02-29' as \"day\",
        cast(0.1 as double precision) as \"f\", x'6869' as \"x\", cast(null as varchar) as \"n\", 'ü 😀' as \"t\"";
    let found = "/*\n[params]\nn = \"integer\"\nday = \"date\"\n*/
        select \"X\" as \"i\" from system_range(1, 10) where \"X\" > :n and date '2024-02-29' = :day limit 2";
    let server = h2
        .serves(&[
            ("typed", typed),
            ("found", found),
            ("many", "select \"X\" as \"i\" from system_range(1, 200000)"),
            ("fails", "/*\n[params]\nn = \"integer\"\n*/ select 1 / :n as \"v\""),
        ])
        .await;
    assert_eq!(
        get(&server.url("/typed")).await.text(),
        r#"[{"i":9007199254740993,"d":1.50,"b":true,"day":"2024-02-29","f":0.1,"x":"\\x6869","n":null,"t":"ü 😀"}]"#
    );
    assert_eq!(get(&server.url("/found?n=4&day=2024-02-29")).await.json(), json!([{"i": 5}, {"i": 6}]));
    assert_eq!(get(&server.url("/found?n=4&day=2024-03-01")).await.json(), json!([]));
    let many = get(&server.url("/many.ndjson")).await;
    assert_eq!((many.text().lines().count(), &many.ended), (200_000, &Ended::Complete));
    let failed = get(&server.url("/fails?n=0")).await;
    assert_eq!((failed.status.as_u16(), &failed.json()["code"]), (400, &json!("invalid_data")));
    assert_eq!(get(&server.url("/fails?n=1")).await.json(), json!([{"v": 1}]));
    server.wait_for_stderr("not PostgreSQL but `PostgreSQL 8.2.23 server protocol using H2 2.3").await;
}

/// H2 sends times as floats, which became years beyond 150,000.
#[tokio::test]
async fn check_says_what_h2_cannot_do() {
    let h2 = Other::h2().await;
    for (sql, says) in [
        ("select 1 as v", "its sessions can write"),
        ("select timestamp '2024-02-29 12:00:00' as at", "column `at` is a time"),
        ("select time '12:00:00' as at", "select its text: `cast(… as varchar)`"),
        (TWO, "it gets no transactions that read one snapshot"),
        ("/* key = [\"x\"] */ select \"X\" from system_range(1, 9) order by 1", "leave out `key`"),
        ("select * from nosuch", "Table \"nosuch\" not found"),
    ] {
        let said = h2.checks(sql).await;
        assert!(said.to_lowercase().contains(&says.to_lowercase()), "{sql}: {said}");
    }
}

#[tokio::test]
async fn questdb_streams_what_it_has() {
    let questdb = Other::questdb().await;
    let typed = "select x as i, 1.5 as d, true as b, 'ü' as t, null as n,
        to_timestamp('2024-02-29T12:00:00', 'yyyy-MM-ddTHH:mm:ss') as at from long_sequence(1)";
    let server = questdb
        .serves(&[
            ("typed", typed),
            (
                "found",
                "/*\n[params]\nn = \"integer\"\n*/ select x as i from long_sequence(10) where x > :n limit 2",
            ),
            ("many", "select x as i, 'row ' || x as t from long_sequence(200000)"),
            (
                "endless",
                "select x as i, 'some more text for each of the rows' as t from long_sequence(100000000000)",
            ),
        ])
        .await;
    let row = json!({"i": 1, "d": 1.5, "b": true, "t": "ü", "n": null, "at": "2024-02-29T12:00:00"});
    assert_eq!(get(&server.url("/typed")).await.json(), json!([row]));
    assert_eq!(get(&server.url("/found?n=4")).await.json(), json!([{"i": 5}, {"i": 6}]));
    let many = get(&server.url("/many.ndjson")).await;
    assert_eq!((many.text().lines().count(), &many.ended), (200_000, &Ended::Complete));
    for _ in 0..3 {
        let mut stream = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
        stream.at_least(100_000).await;
        drop(stream);
        assert_eq!(get(&server.url("/found?n=9")).await.json(), json!([{"i": 10}]));
    }
    assert!(questdb.checks("select 1 as v").await.contains("QuestDB"));
    assert!(questdb.checks(TWO).await.contains("it gets no transactions that read one snapshot"));
    assert!(questdb.checks("select * from nosuch").await.contains("table does not exist"));
}
