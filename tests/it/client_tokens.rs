//! Tokens that the clients renew: each is valid for less time than the read takes.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use serde_json::json;

use crate::jwt::{ISSUER, Keys};
use crate::support::{Cut, Faults, Server, TcpProxy};
use crate::{client_js, client_python};

const ROWS: usize = 5_000;
/// A connection is cut after so many bytes, which have one mark at least.
const BYTES: u64 = 60_000;

/// Reads the rows, and returns the tokens in turn. Prints if the rows are right, their number, and the
/// number of tokens.
const JAVASCRIPT: &str = "
    import { rows } from 'rowstream';
    let [calls, isRight, n] = [0, true, 0n];
    const token = async () => tokens[calls++ % 3];
    const stream = rows(url, { token });
    for await (const row of stream) isRight &&= row.n === (n += 1n);
    console.log(isRight, stream.rows, calls);";
const PYTHON: &str = "
import itertools, rowstream
calls, tokens = 0, itertools.cycle(tokens)
def token():
    global calls
    calls += 1
    return next(tokens)
stream = rowstream.rows(url, token=token)
ids = [row['n'] for row in stream]
print(str(ids == list(range(1, len(ids) + 1))).lower(), len(ids), calls)";

/// A server whose rows need a token, behind a proxy that cuts each connection.
struct Guarded {
    _server: Server,
    url: String,
    _proxy: TcpProxy,
    /// One that has expired, one for the repeated request, and one for the reason of its cut.
    tokens: [String; 3],
}

impl Guarded {
    async fn new() -> Self {
        let keys = Keys::new();
        let config = format!(
            "authorization = \"authenticated\"\n[jwt]\nissuer = \"{ISSUER}\"\naudience = \"rowstream\"\nkeys = \"keys.json\"\n\
             [source.db]\nurl = \"sqlite:rows.db\"\ncreate = [\"data.sql\"]\n"
        );
        let data = format!(
            "create table t (n integer primary key, note text not null);
             with recursive r(n) as (select 1 union all select n + 1 from r where n < {ROWS})
             insert into t select n, 'a note of row ' || n from r;"
        );
        let server = Server::start(&[
            ("rowstream.toml", &config),
            ("keys.json", &keys.set().to_string()),
            ("data.sql", &data),
            ("endpoints/rows.sql", "/* key = [\"n\"] */ select n, note from t order by n"),
        ])
        .await;
        let cuts = Faults { cut: Some((BYTES, Cut::Close)), ..Faults::default() };
        let proxy = TcpProxy::to_client(server.address().parse().unwrap(), cuts).await;
        let expired = keys.but("ES256", json!({}), json!({"exp": 1_700_000_000}));
        let valid = keys.but("ES256", json!({}), json!({}));
        let url = format!("http://{}/rows", proxy.address());
        Self { _server: server, url, _proxy: proxy, tokens: [expired, valid.clone(), valid] }
    }

    /// The variables of the programs.
    fn variables(&self) -> String {
        format!("url = {:?}; tokens = {:?};\n", self.url, self.tokens)
    }
}

/// Each request for rows was denied once, and each row arrived once.
fn check(printed: &str) {
    let (rows, calls) = printed.trim_end().rsplit_once(' ').unwrap();
    assert_eq!(rows, format!("true {ROWS}"));
    let calls: usize = calls.parse().unwrap();
    assert!(calls > 6 && calls % 3 == 2, "{calls} tokens, two for each part and one for each cut");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn javascript_renews_its_token() {
    let (package, guarded) = tokio::join!(client_js::Package::build(), Guarded::new());
    check(&package.node(&format!("const {}{JAVASCRIPT}", guarded.variables().replace("; ", ", "))).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_renews_its_token() {
    let guarded = Guarded::new().await;
    let mut python = client_python::python();
    python.arg("-c").arg(guarded.variables() + PYTHON);
    check(&client_python::run_beside(python).await.0);
}
