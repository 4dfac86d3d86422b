//! `_explain=1`: returns the database's plans of an endpoint's statements instead of their rows.

use bytes::Bytes;
use rowstream_core::sql::Dialect;
use rowstream_encode::Format;
use serde_json::json;

use super::{
    Authorization, Cardinality, Endpoint, Handler, Piece, Sql, Statement, TotalReading, TotalStatement,
};
use crate::database;

impl Endpoint {
    /// The endpoint that returns this one's statements and their plans to clients with this
    /// `authorization`. `None` if the endpoint has no statements, or if the database can't explain
    /// one of them.
    pub(crate) fn explained(&self, dialect: &Dialect, authorization: &Authorization) -> Option<Self> {
        let explain = dialect.explain?;
        let is_plain = |statement: &Statement| statement.opener.is_none();
        if self.statements().is_empty() || !self.statements().iter().all(is_plain) {
            return None;
        }
        let read = |(index, statement): (usize, &Statement)| {
            let below_key = self.key().and_then(|key| key.first_read(index, self));
            let (query, args) = below_key.unwrap_or((&statement.query, statement.args.clone()));
            Statement { query: query.clone(), args, ..statement.clone() }
        };
        let totals = self.total().into_iter().flat_map(|total| &total.statements);
        let totals = totals.filter(|total| !matches!(total.reads, TotalReading::Plan(_)));
        let total = |total: &TotalStatement| Statement {
            name: "total".to_owned(),
            query: total.query.clone(),
            args: total.args.clone(),
            ..self.statements()[0].clone()
        };
        let read: Vec<_> = totals.map(total).chain(self.statements().iter().enumerate().map(read)).collect();
        let statements = read.iter().map(|statement| statement.explained(explain)).collect();
        let mut endpoint = self.clone();
        endpoint.body = plans(&read);
        endpoint.handler = Handler::Sql(Sql::new(statements));
        endpoint.formats = vec![Format::Json];
        endpoint.authorization = authorization.clone();
        Some(endpoint)
    }
}

impl Statement {
    fn explained(&self, explain: &str) -> Self {
        let mut statement = self.clone();
        statement.query = database::Statement {
            sql: format!("{explain}{}", self.query.sql).into(),
            types: self.query.types.clone(),
            ad_hoc: self.query.ad_hoc,
        };
        statement.cardinality = Cardinality::Many;
        statement.nested = None;
        for (place, _) in &mut statement.origin.pieces {
            *place = place.saturating_add(explain.len());
        }
        statement
    }
}

/// `{"statements":[{"name":…,"sql":…,"plan":[…]},…]}`.
fn plans(statements: &[Statement]) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(2 * statements.len() + 1);
    let mut before = r#"{"statements":["#.to_owned();
    for (index, statement) in statements.iter().enumerate() {
        let own = json!({"name": statement.name, "sql": statement.query.sql.trim()}).to_string();
        before.push_str(own.trim_end_matches('}'));
        before.push_str(r#","plan":"#);
        pieces.push(Piece::Literal(Bytes::from(before)));
        pieces.push(Piece::Rows(index));
        before = "},".to_owned();
    }
    pieces.push(Piece::Literal(Bytes::from_static(b"}]}")));
    pieces
}
