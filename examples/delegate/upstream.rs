//! A slow service: `GET /demo?processDuration=PT10S` responds after ten seconds.
//!
//! `double=N` doubles the time N times, and `halve=N` halves it N times. The response repeats `id`. The
//! service speaks HTTP/1.1 and HTTP/2 without TLS on one port, and serves any number of requests at a
//! time.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

/// The most doublings; with more, a request would take for ever.
const MOST: u32 = 20;

/// Serves until the task is dropped.
pub(crate) async fn serve(listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        // A head must not wait for the acknowledgement of the previous one.
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        tokio::spawn(async move {
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http2().max_concurrent_streams(1000);
            // If a client leaves, we haven't failed.
            drop(builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await);
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let query = request.uri().query().unwrap_or_default();
    let given = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    if request.uri().path() != "/demo" {
        return Ok(reply(StatusCode::NOT_FOUND, r#"{"error":"there is only /demo"}"#.to_owned()));
    }
    let Some(duration) = duration(&given) else {
        let message = r#"{"error":"processDuration must be like PT0.1S, double and halve at most 20"}"#;
        return Ok(reply(StatusCode::BAD_REQUEST, message.to_owned()));
    };
    tokio::time::sleep(duration).await;
    let id = given("id").filter(|id| id.parse::<u64>().is_ok()).unwrap_or("null");
    Ok(reply(StatusCode::OK, format!(r#"{{"id":{id},"processed_ms":{}}}"#, duration.as_millis())))
}

/// The duration of a request; `None` if its query is invalid.
fn duration<'a>(given: &impl Fn(&str) -> Option<&'a str>) -> Option<Duration> {
    let times = |name| given(name).map_or(Some(0), |times| times.parse().ok()).filter(|times| *times <= MOST);
    let duration = given("processDuration").unwrap_or("PT0S").parse::<jiff::SignedDuration>().ok()?;
    Some(Duration::try_from(duration).ok()? * 2_u32.pow(times("double")?) / 2_u32.pow(times("halve")?))
}

fn reply(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}
