//! Checks that the statement of an endpoint can be read in parts (`parallel`, `shards`), as far as
//! its database knows.

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use tokio::time::timeout;

use super::apart::{has_row, texts};
use super::{Columns, PATIENCE, StatementRefusal, ask, of_endpoint, refusal_at, session, unanswered};
use crate::database::Snapshot;
use crate::endpoint::{Endpoint, PartStatement};
use crate::source::Source;

/// The reason why an endpoint's statement can't be read in parts. `None` if it can or needn't be,
/// or if the statement itself was refused.
///
/// # Errors
/// Those of the source.
pub(super) async fn refused(
    endpoint: &Endpoint,
    results: &[Option<Columns>],
    source: &Source,
) -> Result<Option<StatementRefusal>, Error> {
    let (Some(divided), [Some(columns)]) = (endpoint.divided(), results) else { return Ok(None) };
    let error = match columns.own() {
        None => Some(of_refcursor(divided)),
        Some(_) => reason(divided, source).await?,
    };
    let statement = &endpoint.statements()[0];
    Ok(error.map(|error| refusal_at(endpoint, statement, divided.offset, &error)))
}

/// The reason why the statement can't be read in parts.
///
/// # Errors
/// Those of the source.
pub(super) async fn reason(divided: &PartStatement, source: &Source) -> Result<Option<Error>, Error> {
    let database = source.database()?;
    if database.hosts() > 1 {
        return Ok(Some(of_several_hosts(divided)));
    }
    let Ok(rules) = &database.dialect().parts else { return Ok(None) };
    let args = [ParamValue::Text(divided.table.clone()), texts(divided.functions.clone())];
    for (question, refusal) in rules.refusals {
        let asked = timeout(PATIENCE, has_row(question, &args, source)).await;
        let asked =
            asked.unwrap_or_else(|_| Err(unanswered(source, "its catalog returned nothing", PATIENCE)));
        match of_endpoint(asked)? {
            Ok(false) => {}
            Ok(true) => return Ok(Some(Error::endpoint(refusal.message).hint(refusal.hint))),
            Err(error) => return Ok(Some(error)),
        }
    }
    let mut session = session(source, Snapshot::Statement).await?;
    Ok(of_endpoint(ask(&mut session, &divided.query, source).await)?.err())
}

fn of_refcursor(divided: &PartStatement) -> Error {
    let key = divided.key;
    Error::endpoint(format!("`{key}` needs the rows of a table, not those of a refcursor"))
        .hint("leave it out")
}

/// The error for a source with several hosts, because a snapshot belongs to one host.
fn of_several_hosts(divided: &PartStatement) -> Error {
    let key = divided.key;
    Error::endpoint("the source has several hosts, but a snapshot belongs to one of them")
        .hint(format!("name one host in the `url` of a source for this endpoint, or leave out `{key}`"))
}
