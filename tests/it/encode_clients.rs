//! Framed responses of the crate `rowstream-encode`, which Rowstream's own clients read from a server
//! of hyper: the crate's example. A part is never taken for the whole.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rowstream_encode::responses::StreamError;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::client_js::Package;
use crate::client_python;
use crate::support::{Cut, Faults, TcpProxy};

#[allow(dead_code, reason = "`main` is for people")]
#[path = "../../crates/rowstream-encode/examples/framed.rs"]
mod framed;

/// The rows of the example's list.
const ARTICLES: u64 = 10_000;
/// Bytes before a cut, in the middle of the list.
const BYTES: u64 = 200_000;

type BoxBody = UnsyncBoxBody<Bytes, StreamError>;

async fn respond(request: Request<Incoming>) -> Result<Response<BoxBody>, StreamError> {
    if request.uri().path() == "/without-end" {
        return without_end().await;
    }
    Ok(framed::respond(request).await?.map(BodyExt::boxed_unsync))
}

/// A well-formed response whose last record was lost by a proxy.
async fn without_end() -> Result<Response<BoxBody>, StreamError> {
    let request = Request::get("/articles").body(()).expect("a request");
    let (head, body) = framed::respond(request).await?.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let end = bytes.trim_ascii_end().iter().rposition(|&byte| byte == b'\n').expect("rows");
    let body = Full::new(bytes.slice(..=end)).map_err(|never: Infallible| match never {});
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

async fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service_fn(respond)));
        }
    });
    address
}

/// The example's responses, whole and not, and a proxy that cuts one of them.
struct Responses {
    server: SocketAddr,
    proxy: TcpProxy,
}

impl Responses {
    async fn start() -> Self {
        let server = start().await;
        let cuts = Faults { cut: Some((BYTES, Cut::Close)), ..Faults::default() };
        Self { server, proxy: TcpProxy::to_client(server, cuts).await }
    }

    fn urls(&self) -> [String; 5] {
        let of = |path: &str| format!("http://{}{path}", self.server);
        let cut = format!("http://{}/articles", self.proxy.address());
        [of("/articles"), of("/broken"), cut, of("/without-end"), of("/articles.csv")]
    }
}

/// Checks a client's reports: the outcome, the code of the error, the number of rows, and of wrong ones.
fn check(reports: &Value) {
    let cut = &reports[2];
    let rows = cut[2].as_u64().expect("a number");
    assert!((1..ARTICLES).contains(&rows), "{reports}");
    let expected = json!([
        ["complete", null, ARTICLES, 0],
        ["RowstreamError", "stream_failed", 3, 0],
        ["IncompleteStream", null, rows, 0],
        ["IncompleteStream", null, ARTICLES, 0],
        ["IncompleteStream", null, 0, 0],
    ]);
    assert_eq!(*reports, expected);
}

#[tokio::test]
async fn the_javascript_client_accepts_only_whole_responses() {
    let (package, responses) = tokio::join!(Package::build(), Responses::start());
    let urls = json!(responses.urls());
    let script = format!(
        "import {{ rows }} from 'rowstream';
        const read = async (url) => {{
          const stream = rows(url);
          let [wrong, id] = [0, 0n];
          const report = (outcome, code) => [outcome, code ?? null, stream.rows, wrong];
          try {{
            for await (const row of stream) {{
              const price = (id += 1n) % 10n === 0n ? null : 0.5;
              if (row.id !== id || row.title !== `Article ${{id}}` || row.price !== price) wrong += 1;
            }}
            return report('complete');
          }} catch (error) {{
            return report(error.name, error.code);
          }}
        }};
        const reports = [];
        for (const url of {urls}) reports.push(await read(url));
        console.log(JSON.stringify(reports));"
    );
    check(&serde_json::from_str(&package.node(&script).await).expect("JSON"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_accepts_only_whole_responses() {
    let responses = Responses::start().await;
    let script = "
import json, sys, rowstream

def read(url):
    count = wrong = 0
    try:
        for row in rowstream.rows(url):
            count += 1
            price = None if count % 10 == 0 else 0.5
            wrong += row != {'id': count, 'title': f'Article {count}', 'price': price}
        return ['complete', None, count, wrong]
    except rowstream.RowstreamError as error:
        return [type(error).__name__, error.code, count, wrong]

print(json.dumps([read(url) for url in sys.argv[1:]]))
";
    let mut python = client_python::python();
    python.args(["-c", script]).args(responses.urls());
    let (reports, _) = client_python::run_beside(python).await;
    check(&serde_json::from_str(&reports).expect("JSON"));
}
