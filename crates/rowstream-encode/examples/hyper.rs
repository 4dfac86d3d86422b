//! The same responses without axum, in a server of hyper.
//!
//! ```sh
//! cargo run -p rowstream-encode --features http-body --example hyper
//! curl -N localhost:3000/rows.json
//! curl -N localhost:3000/rows.csv
//! curl -N localhost:3000/broken      # fails after the last row: curl says so, and exits with 18
//! ```

use std::io;

use futures_util::stream::{self, Stream, StreamExt};
use http::{Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rowstream_encode::responses::{Csv, Ndjson, StreamError, Streamed, StreamedBody, StreamedJson};
use serde::Serialize;
use tokio::net::TcpListener;

#[derive(Serialize)]
struct Row {
    id: u32,
    name: String,
}

fn rows() -> impl Stream<Item = io::Result<Row>> + Send {
    stream::iter(1..=100_000).map(|id| Ok(Row { id, name: format!("Row {id}") }))
}

fn broken() -> impl Stream<Item = io::Result<Row>> + Send {
    rows().chain(stream::once(async { Err(io::Error::other("the database went away")) }))
}

async fn respond<B>(request: Request<B>) -> Result<Response<StreamedBody>, StreamError> {
    Ok(match request.uri().path() {
        "/rows.json" => StreamedJson::new(Streamed::new(rows()))?.first().await?.into_http(),
        "/rows.csv" => Csv::new(Streamed::new(rows())).first().await?.into_http(),
        "/broken" => Ndjson::new(Streamed::new(broken())).into_http(),
        _ => {
            let mut response = StreamedJson::new("there's no such path")?.into_http();
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    })
}

/// Serves each connection until its client leaves.
pub(crate) async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        tokio::spawn(async move {
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(socket), service_fn(respond));
            if let Err(error) = connection.await {
                eprintln!("a connection ended early: {error}");
            }
        });
    }
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("try: curl -N http://{}/rows.json", listener.local_addr()?);
    serve(listener).await
}
