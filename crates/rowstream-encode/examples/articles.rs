//! JSON with streams in it: `{"_embedded":{"articles":[…]},"total":…}`.
//!
//! ```sh
//! cargo run -p rowstream-encode --features axum --example articles
//! curl -N localhost:3000/articles     # 100,000 articles, and how many they were
//! curl -N localhost:3000/authors      # streams in the items of a stream
//! curl -N localhost:3000/broken       # fails half way: curl says so, and exits with 18
//! ```

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use rowstream_encode::responses::{Awaited, StreamError, Streamed, StreamedJson};
use serde::Serialize;

#[derive(Serialize)]
struct Articles {
    _embedded: EmbeddedArticles,
    total: Awaited<u64>,
}

#[derive(Serialize)]
struct EmbeddedArticles {
    articles: Streamed<Article>,
}

#[derive(Serialize)]
struct Article {
    id: u64,
    title: String,
}

#[derive(Serialize)]
struct Author {
    name: String,
    articles: Streamed<Article>,
}

/// Simulates a database query: a page of articles, after a short wait.
async fn read_page(first: u64) -> io::Result<Vec<Article>> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok((first..first + 1_000).map(|id| Article { id, title: format!("Article {id}") }).collect())
}

/// The articles of `pages` pages, one by one. A page is read when its first article is needed.
fn find_articles(pages: u64) -> impl Stream<Item = io::Result<Article>> + Send {
    let pages = stream::iter(0..pages).then(|page| read_page(1 + page * 1_000));
    pages.map_ok(|page| stream::iter(page.into_iter().map(io::Result::Ok))).try_flatten()
}

/// The number after the articles is known once all of them are written.
async fn articles() -> Result<StreamedJson, StreamError> {
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    let articles = find_articles(100).inspect_ok(move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let total = Awaited::infallible(async move { count.load(Ordering::Relaxed) });
    let page = Articles { _embedded: EmbeddedArticles { articles: Streamed::new(articles) }, total };
    StreamedJson::new(page)?.first().await
}

/// The articles of an author are read when the body reaches them.
async fn authors() -> Result<StreamedJson, StreamError> {
    let author = |name: &str| Author { name: name.to_owned(), articles: Streamed::new(find_articles(1)) };
    let authors = stream::iter([author("Ada Lovelace"), author("Donald Knuth")]);
    StreamedJson::new(Streamed::infallible(authors))
}

/// Two thousand articles and then an error: the response ends without its closing brackets, and the
/// connection closes.
async fn broken() -> Result<StreamedJson, StreamError> {
    let failure = stream::once(async { Err(io::Error::other("the database went away")) });
    let articles = find_articles(2).chain(failure);
    // The client only notices that something is missing. The log has the reason.
    let log = |error: &StreamError| eprintln!("/broken: {error}: {:?}", error.source());
    Ok(StreamedJson::new(Streamed::new(articles))?.first().await?.on_error(log))
}

pub(crate) fn app() -> Router {
    Router::new()
        .route("/articles", get(articles))
        .route("/authors", get(authors))
        .route("/broken", get(broken))
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("try: curl -N http://{}/articles", listener.local_addr()?);
    axum::serve(listener, app()).await
}
