//! The reason of a cut behind a proxy that serves the API below a prefix. The clients asked for it at
//! the root of the host, which belongs to something else.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use crate::get::{download, file};
use crate::replica_states::of_the_book;
use crate::support::{Hop, Server, TestDb};
use crate::{client_js, client_python};

/// Fails after half of its rows.
const FAILS: &str = "select n, 1 / (50000 - n) as x, repeat('x', 100) as t from generate_series(1, 99999) n";
/// Paths of endpoints, with the server's root in them.
const PATHS: [(&str, &str); 2] = [("/api/fails", "./"), ("/api/deep/7/fails", "../../")];

/// nginx with the `location` of the book. The rest of the host is something else.
async fn behind_prefix(db: &TestDb) -> (Server, Hop) {
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/fails.sql", FAILS),
        ("endpoints/deep/7/fails.sql", FAILS),
    ])
    .await;
    let api = of_the_book("location /api/").replace("http://127.0.0.1:8080", "http://replicas");
    let rest = "location /_rowstream/ { return 404; } location /deep/ { return 404; }";
    let hop = Hop::nginx_with_location(&[server.address().parse().unwrap()], &(api + rest)).await;
    (server, hop)
}

#[tokio::test]
async fn get_asks_below_the_prefix() {
    let db = TestDb::new().await;
    let (_server, hop) = behind_prefix(&db).await;
    for (path, root) in PATHS {
        let url = format!("http://{}{path}.csv", hop.http1);
        assert_eq!(crate::support::get(&url).await.header("rowstream-root"), Some(root));
        let (_folder, _, text) = file("rows");
        let (status, told) = download(&[&url, "-o", &text]).await;
        assert!(status == Some(1) && told.starts_with("error: bad_value: "), "{path} {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clients_ask_below_the_prefix() {
    let db = TestDb::new().await;
    let (package, (_server, hop)) = tokio::join!(client_js::Package::build(), behind_prefix(&db));
    for (path, _) in PATHS {
        let url = format!("http://{}{path}", hop.http1);
        let javascript = format!(
            "import {{ stream }} from 'rowstream';
             try {{ for await (const _ of stream('{url}').at('')); }} catch (error) {{ console.log(error.code); }}"
        );
        assert_eq!(package.node(&javascript).await, "bad_value\n", "{path}");
        let mut python = client_python::python();
        python.arg("-c").arg(format!(
            "import rowstream\ntry: rowstream.rows('{url}').to_arrow()\nexcept rowstream.RowstreamError as error: print(error.code)"
        ));
        assert_eq!(client_python::run_beside(python).await.0, "bad_value\n", "{path}");
    }
}
