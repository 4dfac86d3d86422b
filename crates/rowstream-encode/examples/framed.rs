//! Rows for Rowstream's clients, from a server of your own: each row once, or an error.
//!
//! ```sh
//! cargo run -p rowstream-encode --features http-body --example framed
//! curl -N localhost:3000/articles     # a record at the end proves that nothing is missing
//! curl -N localhost:3000/broken       # the last record is an error
//! curl -N --raw -H 'TE: trailers' localhost:3000/articles.csv     # trailers prove it
//! ```
//!
//! With the JavaScript client:
//!
//! ```js
//! import { rows } from "rowstream";
//! for await (const { id, title } of rows("http://localhost:3000/articles")) console.log(id, title);
//! ```

use std::error::Error as _;
use std::io;

use futures_util::stream::{self, Stream, StreamExt};
use http::{Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rowstream_encode::responses::{Csv, Ndjson, StreamError, Streamed, StreamedBody, StreamedJson};
use rowstream_encode::{Column, ColumnKind};
use serde::Serialize;
use tokio::net::TcpListener;

#[derive(Serialize)]
struct Article {
    /// Clients get all digits, because its type is known.
    id: i64,
    title: String,
    price: Option<f64>,
}

fn columns() -> [Column; 3] {
    [
        Column::new("id", ColumnKind::Int64),
        Column::new("title", ColumnKind::Text),
        Column::new("price", ColumnKind::Float64),
    ]
}

fn articles() -> impl Stream<Item = io::Result<Article>> + Send {
    stream::iter(1..=10_000).map(|id| {
        let price = (id % 10 != 0).then_some(0.5);
        Ok(Article { id, title: format!("Article {id}"), price })
    })
}

fn broken() -> impl Stream<Item = io::Result<Article>> + Send {
    articles().take(3).chain(stream::once(async { Err(io::Error::other("the database went away")) }))
}

fn framed(articles: impl Stream<Item = io::Result<Article>> + Send + 'static) -> Result<Ndjson, StreamError> {
    // The client gets an error without its cause. The log has it.
    let log = |error: &StreamError| eprintln!("{error}: {:?}", error.source());
    Ok(Ndjson::new(Streamed::new(articles)).framed(&columns())?.digest().on_error(log))
}

pub(crate) async fn respond<B>(request: Request<B>) -> Result<Response<StreamedBody>, StreamError> {
    Ok(match request.uri().path() {
        "/articles" => framed(articles())?.first().await?.into_http(),
        "/broken" => framed(broken())?.into_http(),
        "/articles.csv" => Csv::new(Streamed::new(articles())).trailers().digest().into_http(),
        _ => {
            let mut response = StreamedJson::new("there's no such path")?.into_http();
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    })
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("try: curl -N http://{}/articles", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        // A failed response ends its connection; `on_error` has logged the reason.
        let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service_fn(respond));
        tokio::spawn(connection);
    }
}
