//! The connection to the database is cut at every byte of its response. A client gets an error with
//! its status, the complete result, or a visibly truncated one, but never fewer rows that look
//! complete.

use crate::support::{Client, Cut, Ended, Faults, Reply, Server, TcpProxy, TestDb, pg_port, wait};
use http::Request;
use tokio::task::JoinSet;

/// The formats of the requests.
const TARGETS: [&str; 3] = ["ndjson?_end=1", "json", "csv"];
const CLIENTS: [Client; 2] = [Client::HTTP1, Client::H2C];

/// One kind of request with its own source, so that each has its own connection.
struct Asked {
    client: Client,
    target: String,
    proxy: TcpProxy,
}

impl Asked {
    async fn get(&self, server: &Server, cut: Option<(u64, Cut)>) -> Reply {
        self.proxy.set_to_client(Faults { cut, ..Faults::default() });
        let request = Request::get(server.url(&self.target)).body(String::new()).expect("a request");
        let what = format!("{}: an answer, cut at {cut:?}", self.target);
        let reply = wait(&what, self.client.send(request)).await;
        // A connection that wasn't cut isn't reused.
        self.proxy.cut_now(Cut::Close);
        reply
    }

    /// The response over an uncut connection, and the number of bytes that the database sends for
    /// it, including its greeting.
    async fn whole(&self, server: &Server) -> (Vec<u8>, u64) {
        let before = self.proxy.bytes_to_client();
        let reply = self.get(server, None).await;
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
        (without_tag(&reply), self.proxy.bytes_to_client() - before)
    }

    /// Checks the response over a connection that's cut after `at` bytes. Returns true if it was
    /// truncated.
    async fn is_broken(&self, server: &Server, whole: &[u8], at: u64) -> bool {
        let how = if at.is_multiple_of(2) { Cut::Close } else { Cut::Reset };
        let reply = self.get(server, Some((at, how))).await;
        let what = format!("{:?} {} cut at {at} ({how:?}): {:?}", self.client, self.target, reply);
        match (reply.status.as_u16(), &reply.ended) {
            (200, Ended::Complete) => assert_eq!(without_tag(&reply), whole, "{what}"),
            (200, Ended::Broken(_)) => assert!(!reply.text().contains("\"end\":{"), "{what}"),
            (502 | 503, Ended::Complete) => {
                let code = reply.json()["code"].as_str().expect("a code").to_owned();
                assert!(["source_unavailable", "source_protocol"].contains(&&*code), "{what}");
            }
            _ => panic!("{what}"),
        }
        reply.status == 200 && reply.ended != Ended::Complete
    }
}

/// The body without its tag, which differs in each response.
fn without_tag(reply: &Reply) -> Vec<u8> {
    let tag = reply.header("rowstream-tag").unwrap_or("none");
    reply.text().replace(tag, "TAG").into_bytes()
}

/// A server that has a source behind a proxy for each kind of request.
async fn setting(db: &TestDb, sql: &str) -> (Server, Vec<Asked>) {
    let (mut config, mut files, mut asked) = (String::new(), Vec::new(), Vec::new());
    for (client, name) in CLIENTS.into_iter().zip(["one", "two"]) {
        for target in TARGETS {
            let proxy = TcpProxy::transparent(([127, 0, 0, 1], pg_port()).into()).await;
            let source = format!("{name}_{}", &target[..3]);
            let url = format!("postgres://postgres@{}/{}?sslmode=disable", proxy.address(), db.name());
            config += &format!("[source.{source}]\nurl = \"{url}\"\npool = {{ max = 3 }}\n");
            files.push((format!("endpoints/{source}.sql"), format!("/*\nsource = \"{source}\"\n*/\n{sql}")));
            asked.push(Asked { client, target: format!("/{source}.{target}"), proxy });
        }
    }
    files.push(("rowstream.toml".to_owned(), config));
    let files: Vec<_> = files.iter().map(|(name, text)| (&name[..], &text[..])).collect();
    (Server::start(&files).await, asked)
}

/// Cuts at every `step`th byte, and up to `tries` times if the response is truncated. Returns the number
/// of cuts that truncated it each time.
async fn cut_everywhere(sql: &str, step: usize, tries: usize) -> usize {
    let db = TestDb::new().await;
    let (server, asked) = setting(&db, sql).await;
    let server = std::sync::Arc::new(server);
    let mut tasks = JoinSet::new();
    for asked in asked {
        let server = std::sync::Arc::clone(&server);
        tasks.spawn(async move {
            let (whole, bytes) = asked.whole(&server).await;
            assert!(bytes > 400, "{bytes} bytes are not a greeting and an answer");
            let mut broken = 0;
            for at in (0..bytes).step_by(step) {
                let mut truncated = 0;
                while truncated < tries && asked.is_broken(&server, &whole, at).await {
                    truncated += 1;
                }
                broken += usize::from(truncated == tries);
            }
            // A request may still meet a connection that was closed just before it.
            let again = async { while without_tag(&asked.get(&server, None).await) != whole {} };
            wait("the response is whole again", again).await;
            broken
        });
    }
    tasks.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_result_is_whole_or_an_error() {
    // The response is sent once it's complete, unless the machine pauses between a row and the end.
    let broken = cut_everywhere("select n, 'x' || n as t from generate_series(1, 3) as n", 1, 50).await;
    assert_eq!(broken, 0);
}

/// More than a chunk, so the head has left when the connection is cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_longer_result_is_whole_or_an_error_or_broken() {
    let sql = "select n, repeat('x', 100) as t from generate_series(1, 300) as n";
    let broken = cut_everywhere(sql, 211, 1).await;
    assert!(broken > 100, "{broken}");
}
