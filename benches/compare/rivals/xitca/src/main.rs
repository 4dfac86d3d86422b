//! The rival in Rust: xitca-web and xitca-postgres, only for lookups.
//!
//! The choices of experts, and of its authors in public benchmarks:
//! - a thread for each core, each with its own runtime;
//! - one connection for each thread, with all its requests pipelined. `POOL` connections would be
//!   more, and prevent the pipelining;
//! - statements prepared once for each connection, and rows borrowed from the read buffer;
//! - JSON by serde.

use std::error::Error as StdError;
use std::future::IntoFuture;

use jiff::Timestamp;
use jiff::civil::Date;
use rust_decimal::Decimal;
use serde::Serialize;
use xitca_postgres::iter::AsyncLendingIterator;
use xitca_postgres::statement::Statement;
use xitca_postgres::types::Type;
use xitca_postgres::{Client, Execute, Postgres};
use xitca_web::error::{Error, ErrorStatus};
use xitca_web::handler::handler_service;
use xitca_web::handler::params::Params;
use xitca_web::handler::state::StateRef;
use xitca_web::http::header::{CONTENT_TYPE, HeaderValue};
use xitca_web::http::{StatusCode, WebResponse};
use xitca_web::route::get;
use xitca_web::{App, body::ResponseBody};

const AUTHOR: &str = "select id, first_name, last_name, email, born, country, active, books, royalties, motto, joined \
                      from author where id = $1";
const FILM: &str = "select title from film where fid = $1";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Author<'a> {
    id: i64,
    first_name: &'a str,
    last_name: &'a str,
    email: Option<&'a str>,
    born: Option<Date>,
    country: &'a str,
    active: bool,
    books: i32,
    #[serde(with = "rust_decimal::serde::arbitrary_precision")]
    royalties: Decimal,
    motto: Option<&'a str>,
    joined: Timestamp,
}

#[derive(Serialize)]
struct Film<'a> {
    title: &'a str,
}

/// A connection and its prepared statements.
struct Database {
    client: Client,
    author: Statement,
    film: Statement,
}

impl Database {
    async fn connect() -> Result<Self, Box<dyn StdError + Send + Sync>> {
        let [host, port, user, name] =
            ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE"].map(|key| std::env::var(key).unwrap_or_default());
        let url = format!("postgres://{user}@{host}:{port}/{name}");
        let (client, driver) = Postgres::new(url).connect().await?;
        tokio::task::spawn(driver.into_future());
        let author = Statement::named(AUTHOR, &[Type::INT8]).execute(&client).await?.leak();
        let film = Statement::named(FILM, &[Type::INT8]).execute(&client).await?.leak();
        Ok(Self { client, author, film })
    }
}

async fn author(StateRef(database): StateRef<'_, Database>, Params(id): Params<i64>) -> Result<WebResponse, Error> {
    let mut rows = database.author.bind([id]).query(&database.client).await.map_err(|_| ErrorStatus::internal())?;
    let Some(row) = rows.try_next().await.map_err(|_| ErrorStatus::internal())? else {
        return Err(StatusCode::NOT_FOUND.into());
    };
    json(&Author {
        id: row.get(0),
        first_name: row.get(1),
        last_name: row.get(2),
        email: row.get(3),
        born: row.get(4),
        country: row.get(5),
        active: row.get(6),
        books: row.get(7),
        royalties: row.get(8),
        motto: row.get(9),
        joined: row.get(10),
    })
}

async fn film(StateRef(database): StateRef<'_, Database>, Params(id): Params<i64>) -> Result<WebResponse, Error> {
    let mut rows = database.film.bind([id]).query(&database.client).await.map_err(|_| ErrorStatus::internal())?;
    let Some(row) = rows.try_next().await.map_err(|_| ErrorStatus::internal())? else {
        return Err(StatusCode::NOT_FOUND.into());
    };
    json(&Film { title: row.get(0) })
}

fn json(value: &impl Serialize) -> Result<WebResponse, Error> {
    let body = serde_json::to_vec(value).map_err(|_| ErrorStatus::internal())?;
    let mut response = WebResponse::new(ResponseBody::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn main() -> std::io::Result<()> {
    let port = std::env::var("PORT").unwrap_or_default();
    App::new()
        .with_async_state(Database::connect)
        .at("/authors/{id}", get(handler_service(author)))
        .at("/films/{id}", get(handler_service(film)))
        .serve()
        .bind(format!("127.0.0.1:{port}"))?
        .run()
        .wait()
}
