//! The endpoint that answers requests that ask for the same, apart from values.

use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::params::{Param, ParamType, ParamValue};
use rowstream_encode::Column;

use crate::database;
use crate::endpoint::key::{KeySettings, Selection};
use crate::endpoint::{Cardinality, Endpoint, OneRow, Piece, RequestedTotal, RowKey};

/// An endpoint for requests that ask for the same, apart from values.
pub(crate) struct RefinedEndpoint {
    /// Sets it apart from others of the same endpoint: the SQL that it runs, if it counts, and if it
    /// returns the only row.
    pub(crate) text: String,
    /// The values that follow those of the endpoint's own parameters.
    pub(crate) values: Vec<ParamValue>,
    pub(super) parts: RefinedParts,
}

/// The parts that [`RefinedEndpoint::build`] needs.
pub(super) struct RefinedParts {
    pub(super) plain: database::Statement,
    pub(super) args: Vec<usize>,
    /// The statement for a key: without an order, and with all columns.
    pub(super) keyed: database::Statement,
    pub(super) keyed_args: Vec<usize>,
    pub(super) key: Option<KeySettings>,
    /// The list of columns, as SQL. `None`: all.
    pub(super) list: Option<String>,
    pub(super) offset: Option<String>,
    /// The conditions, without their values. Cursors depend on them.
    pub(super) scope: String,
    /// True if the request has an order of its own.
    pub(super) is_ordered: bool,
    pub(super) total: Option<RequestedTotal>,
    /// True if the response is the only row.
    pub(super) only_row: bool,
}

impl RefinedEndpoint {
    /// The same without rows beside the total, if there's one.
    pub(crate) fn only_total(mut self) -> Self {
        if let Some(total) = &mut self.parts.total {
            total.is_alone = true;
            self.text.push_str(" alone");
        }
        self
    }

    /// The endpoint. Its parameters are those of `endpoint`, and after these one for each of the
    /// values.
    ///
    /// # Errors
    /// The statement can't have a key.
    pub(crate) fn build(&self, endpoint: &Endpoint, columns: &[Column]) -> Result<Endpoint, Error> {
        let Some(settings) = endpoint.refine_settings() else {
            return Err(Error::endpoint("this endpoint has no filters"));
        };
        let parts = &self.parts;
        let mut refined = endpoint.clone();
        let values = (1..=self.values.len()).map(|number| Param::new(format!("{number}"), ParamType::Text));
        refined.params.extend(values);
        if let Some(sql) = refined.sql_mut() {
            sql.refine = None;
            sql.total.clone_from(&parts.total);
            if parts.is_ordered || parts.offset.is_some() || parts.total.is_some() {
                sql.follow = None;
            }
            let statement = &mut sql.statements[0];
            statement.query = parts.keyed.clone();
            statement.args.clone_from(&parts.keyed_args);
        }
        let selection =
            parts.list.as_ref().map(|list| Selection { list: list.clone(), all: Arc::from(columns) });
        let key = match &parts.key {
            Some(key) => {
                let scope = match parts.scope.as_str() {
                    "" => endpoint.path.clone(),
                    conditions => format!("{}?{conditions}", endpoint.path),
                };
                let (dialect, secret) = (settings.dialect, &settings.secret);
                let key = RowKey::refined(&refined, key.clone(), dialect, secret, &scope, selection);
                let mut key = key.map_err(|refusal| Error::endpoint(refusal.message).hint(refusal.hint))?;
                if let Some(offset) = &parts.offset {
                    key.begin_at(offset, &parts.plain.types);
                }
                Some(key)
            }
            None => None,
        };
        if let Some(sql) = refined.sql_mut() {
            sql.key = key;
            let statement = &mut sql.statements[0];
            statement.query = parts.plain.clone();
            statement.args.clone_from(&parts.args);
            if parts.only_row {
                (sql.follow, sql.one_row) = (None, OneRow::Requested);
                statement.cardinality = Cardinality::One;
            }
        }
        if parts.only_row {
            refined.body = vec![Piece::Rows(0)];
        }
        if let Some(explained) = &endpoint.explained {
            refined.explained = refined.explained(settings.dialect, &explained.authorization).map(Box::new);
        }
        Ok(refined)
    }
}

impl Endpoint {
    /// This endpoint with another text of its only statement. No connection has prepared it, or a
    /// statement that is made of it. The number follows the text, so that places in it stay right.
    pub(crate) fn unprepared(&self, number: u64) -> Self {
        let mut fresh = self.clone();
        if let Some(sql) = fresh.sql_mut() {
            let query = &mut sql.statements[0].query;
            (query.sql, query.ad_hoc) = (format!("{}\n/* {number} */", query.sql).into(), true);
        }
        fresh
    }
}
