//! Describes a server for `rowstream check`: its version, its role as a replica and its lag, and
//! the features that it doesn't support.

use rowstream_core::Error;

use super::answer::{Stage, Step};
use super::connect::{Connection, query_command};
use super::error::DatabaseError;
use super::packet::{Definition, ERR, Reader};
use super::wire::out_of_order;

/// The most columns that a table can have.
const COLUMNS_AT_MOST: usize = 4096;

/// NULL in a row of texts, instead of a length.
const NULL: u8 = 0xfb;

/// ER_PARSE_ERROR: an older server has another keyword.
const SYNTAX: u16 = 1064;

/// ER_SPECIFIC_ACCESS_DENIED_ERROR: a privilege is missing.
const DENIED: u16 = 1227;

/// The role of a server in replication.
#[derive(Debug, PartialEq, Eq)]
enum Role {
    Primary,
    /// The lag in seconds; `None` if it isn't replicating now.
    Replica(Option<u64>),
    /// The user may not see it.
    Hidden,
    /// The query failed, for the reason that the server gives.
    Unknown(String),
}

/// The columns and the values of a row.
type Texts = Vec<(String, Option<String>)>;

/// Describes the version, the role, the lag, and the missing features.
pub(super) async fn look(connection: &mut Connection) -> Result<String, Error> {
    let role = role(connection).await?;
    let product = &connection.product;
    let is_mariadb = is_mariadb(product);
    let role = match role {
        Role::Primary => "primary".to_owned(),
        Role::Replica(Some(seconds)) => format!("replica, {seconds} s late"),
        Role::Replica(None) => "replica, which isn't replicating now".to_owned(),
        Role::Hidden if is_mariadb => "of a role that `grant slave monitor` lets this user see".to_owned(),
        Role::Hidden => "of a role that `grant replication client` lets this user see".to_owned(),
        Role::Unknown(why) => format!("of a role that it doesn't report ({why})"),
    };
    let lacks = lacks(product).join(", ");
    let lacks = if lacks.is_empty() { lacks } else { format!("; not supported there: {lacks}") };
    Ok(format!("{product}, {role}{lacks}"))
}

async fn role(connection: &mut Connection) -> Result<Role, Error> {
    let mut said = first_row(connection, "show replica status").await?;
    if said.as_ref().is_err_and(|error| error.number == SYNTAX) {
        said = first_row(connection, "show slave status").await?;
    }
    Ok(match said {
        Ok(None) => Role::Primary,
        Ok(Some(row)) => Role::Replica(seconds_late(&row)),
        Err(error) if error.number == DENIED => Role::Hidden,
        Err(error) => Role::Unknown(error.message),
    })
}

fn seconds_late(row: &Texts) -> Option<u64> {
    let is_lag = |name: &str| matches!(name, "Seconds_Behind_Master" | "Seconds_Behind_Source");
    let (_, seconds) = row.iter().find(|(name, _)| is_lag(name))?;
    seconds.as_ref()?.parse().ok()
}

/// Recognises MariaDB by the product's name.
pub(super) fn is_mariadb(product: &str) -> bool {
    product.starts_with("MariaDB ")
}

/// The features that a server of this version doesn't have yet.
fn lacks(product: &str) -> Vec<&'static str> {
    const LISTS: &str = "lists as parameters (`json_table`)";
    const TIMEOUT: &str = "`statement_timeout`";
    const JSON: &str = "JSON columns as JSON";
    let since: &[((u64, u64, u64), &str)] = match is_mariadb(product) {
        true => &[((10, 6, 0), LISTS), ((10, 5, 2), JSON), ((10, 1, 1), TIMEOUT)],
        false => &[((8, 0, 4), LISTS), ((5, 7, 8), TIMEOUT)],
    };
    let version = version(product);
    since.iter().filter(|(first, _)| version < *first).map(|(_, what)| *what).collect()
}

/// The numbers of `MySQL 8.0.36-0ubuntu0.22.04.1`.
fn version(product: &str) -> (u64, u64, u64) {
    let (_, version) = product.split_once(' ').unwrap_or_default();
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

/// The first row of a statement without parameters. Fails like [`rows`].
async fn first_row(
    connection: &mut Connection,
    sql: &str,
) -> Result<Result<Option<Texts>, DatabaseError>, Error> {
    let mut first = None;
    let (columns, ended) = rows_with_columns(connection, sql, |row| {
        first.get_or_insert(row);
    })
    .await?;
    Ok(ended.map(|()| first.map(|row| columns.into_iter().zip(row).collect())))
}

/// Hands over the rows of a statement without parameters.
///
/// # Errors
/// The connection failed, or the answer can't be read. An error that the server reports for the
/// statement is in the inner result.
pub(super) async fn rows(
    connection: &mut Connection,
    sql: &str,
    each: impl FnMut(Vec<Option<String>>),
) -> Result<Result<(), DatabaseError>, Error> {
    rows_with_columns(connection, sql, each).await.map(|(_, ended)| ended)
}

async fn rows_with_columns(
    connection: &mut Connection,
    sql: &str,
    mut each: impl FnMut(Vec<Option<String>>),
) -> Result<(Vec<String>, Result<(), DatabaseError>), Error> {
    connection.wire.command(&query_command(sql));
    let (mut stage, mut columns) = (Stage::Head, Vec::new());
    loop {
        let frame = connection.wire.frame().await?;
        if stage == Stage::Rows && frame.tag != ERR && !connection.is_end(&frame) {
            each(texts(connection.wire.body(&frame), columns.len()).ok_or_else(out_of_order)?);
            continue;
        }
        match stage.step(connection, &frame) {
            Step::Column { .. } if columns.len() < COLUMNS_AT_MOST => {
                let body = connection.wire.body(&frame);
                let column = Definition::parse(body, connection.has_extended_metadata);
                columns.push(column.ok_or_else(out_of_order)?.name);
            }
            Step::Counted(_) | Step::Described => {}
            Step::End { .. } | Step::Done => return Ok((columns, Ok(()))),
            Step::Failed(error) => return Ok((columns, Err(error))),
            _ => return Err(out_of_order()),
        }
    }
}

/// Reads a row of this many texts.
fn texts(row: &[u8], columns: usize) -> Option<Vec<Option<String>>> {
    let mut rest = Reader(row);
    let mut value = || match rest.0.first()? {
        &NULL => rest.u8().map(|_| None),
        _ => rest.text().map(|text| Some(String::from_utf8_lossy(text).into_owned())),
    };
    (0..columns).map(|_| value()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_version_lacks() {
        for (product, lacks_so_many) in [
            ("MariaDB 10.11.19", 0),
            ("MariaDB 10.6.0", 0),
            ("MariaDB 10.5.29", 1),
            ("MariaDB 10.3.39", 2),
            ("MariaDB 5.5.68", 3),
            ("MySQL 8.4.0", 0),
            ("MySQL 8.0.36-0ubuntu0.22.04.1", 0),
            ("MySQL 5.7.44-log", 1),
            ("MySQL 5.6.51", 2),
            ("MySQL ", 2),
        ] {
            assert_eq!(lacks(product).len(), lacks_so_many, "{product}");
        }
    }

    #[test]
    fn a_row_of_texts_is_read() {
        let read = texts(b"\x02hi\xfb\x00", 3).unwrap();
        let values: Vec<_> = read.iter().map(Option::as_deref).collect();
        assert_eq!(values, [Some("hi"), None, Some("")]);
        for cut in [&b"\x02hi\xfb"[..], b"\x02h", b""] {
            assert!(texts(cut, 3).is_none(), "{cut:?}");
        }
    }
}
