//! One stream as NDJSON, as CSV and as server-sent events.
//!
//! ```sh
//! cargo run -p rowstream-encode --features axum --example exports
//! curl -N localhost:3000/readings.ndjson
//! curl -N localhost:3000/readings.csv
//! curl -N localhost:3000/readings.excel.csv
//! curl -N localhost:3000/readings            # one event after another
//! ```

use std::io;
use std::time::Duration;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use futures_util::stream::{self, Stream, StreamExt};
use rowstream_encode::responses::{Csv, Event, Ndjson, Sse, Streamed};
use rowstream_encode::{CsvDialect, Separator};
use serde::Serialize;

#[derive(Serialize)]
struct Reading {
    id: u32,
    place: &'static str,
    celsius: Option<f64>,
}

/// The readings of a sensor, one every `pause`.
fn readings(pause: Duration) -> impl Stream<Item = Reading> + Send {
    stream::iter(1..=20).then(move |id| async move {
        tokio::time::sleep(pause).await;
        let celsius = (id % 5 != 0).then_some(f64::from(id) * 0.5 - 3.0);
        Reading { id, place: "roof; \"north\"", celsius }
    })
}

async fn ndjson() -> Ndjson {
    Ndjson::new(Streamed::infallible(readings(Duration::ZERO)))
}

async fn csv() -> Csv {
    Csv::new(Streamed::infallible(readings(Duration::ZERO)))
}

/// For a spreadsheet in a language with decimal commas. Browsers save it as a file.
async fn excel() -> impl IntoResponse {
    let dialect = CsvDialect { separator: Separator::Semicolon, bom: true, ..CsvDialect::default() };
    let rows = Streamed::infallible(readings(Duration::ZERO));
    (
        [(header::CONTENT_DISPOSITION, "attachment; filename=\"readings.csv\"")],
        Csv::with_dialect(rows, dialect),
    )
}

/// The last event announces the end. Otherwise an `EventSource` would reconnect.
async fn events() -> Sse {
    let readings =
        readings(Duration::from_millis(50)).map(|reading| Event::new(Some(reading)).name("reading"));
    let end = stream::once(async { Event::new(None).name("end") });
    Sse::new(Streamed::infallible(readings.chain(end)))
}

pub(crate) fn app() -> Router {
    Router::new()
        .route("/readings.ndjson", get(ndjson))
        .route("/readings.csv", get(csv))
        .route("/readings.excel.csv", get(excel))
        .route("/readings", get(events))
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("try: curl -N http://{}/readings", listener.local_addr()?);
    axum::serve(listener, app()).await
}
