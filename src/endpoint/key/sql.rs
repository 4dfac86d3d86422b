//! Wraps an endpoint's statement in another one, in the order of its key.
//!
//! The statement itself isn't parsed. The values that the database compares follow the columns of
//! the result, so a cursor contains them unchanged, however a format writes them:
//!
//! ```sql
//! select *, "eventNo"::text as rowstream_key_1 from (
//! select …                                    -- the statement, without its `limit`
//! ) as rowstream
//! where "eventNo" > $3                        -- only after a cursor
//! order by rowstream."eventNo"
//! limit $2                                    -- or what is left of it, within a list
//! ```
//!
//! Databases move the condition into the inner statement as long as that has no limit. So an index
//! on the key finds the next row.

use std::fmt::Write as _;
use std::sync::Arc;

use rowstream_core::params::{BindType, ParamType};
use rowstream_core::sql::dialect::{
    Affixes, Counters, Dialect, KeyComparison, ParameterTypes, Placeholders, Transactions,
};
use rowstream_core::sql::{Limit, Outline, UNIONS};

use super::{KeyColumn, KeyNulls, RestOfLimit};
use crate::database;

/// A statement, and the parts that are put around it.
pub(super) struct StatementParts<'a> {
    pub(super) query: &'a database::Statement,
    pub(super) limit: Option<&'a Limit>,
    pub(super) columns: &'a [KeyColumn],
    /// The list of columns of the response.
    pub(super) selected: &'a str,
    /// Distinguishes settled rows from unsettled ones. `None` if unsettled rows needn't be left
    /// out.
    pub(super) transactions: Option<&'a Transactions>,
    pub(super) dialect: &'static Dialect,
}

impl StatementParts<'_> {
    pub(super) fn ordered(&self) -> database::Statement {
        self.statement(self.settled().as_slice(), self.parts().1, self.query.types.clone())
    }

    pub(super) fn rest_of_limit(&self) -> Option<RestOfLimit> {
        RestOfLimit::of(self.limit?, self.query)
    }

    /// The statement after a row, and its arguments: the statement's own, after these the values of
    /// the row's key, and last what is left of the limit, if that's an argument.
    pub(super) fn rest(&self) -> (database::Statement, Vec<usize>) {
        let own = self.query.types.len();
        let mut key = KeyValues::new(self.dialect.placeholders, own);
        let after = self.after(&mut key);
        let left = own + self.columns.len();
        let limit = self.limit_of_rest(left);
        let of_limit = limit.is_some().then_some(left);
        let args: Vec<usize> = match self.dialect.placeholders {
            Placeholders::ByNumber(_) => (0..own).chain(key.args).chain(of_limit).collect(),
            // The limit follows the key.
            Placeholders::ByOccurrence => {
                let limit = own - self.limit.map_or(0, |limit| limit.only.len());
                (0..limit).chain(key.args).chain(limit..own).chain(of_limit).collect()
            }
        };
        let kind = |arg: usize| match (self.dialect.parameter_types, arg == left) {
            (ParameterTypes::Inferred, _) => BindType::Inferred,
            (ParameterTypes::Declared, true) => BindType::One(ParamType::Integer),
            (ParameterTypes::Declared, false) => BindType::One(ParamType::Text),
        };
        let types = args.iter().map(|&arg| self.query.types.get(arg).copied().unwrap_or(kind(arg))).collect();
        let conditions: Vec<_> = self.settled().into_iter().chain([after]).collect();
        let limit = limit.as_deref().unwrap_or(self.parts().1);
        (self.statement(&conditions, limit, types), args)
    }

    /// The limit with the argument `left` for what is left of it. `None`: one of the statement's
    /// own arguments is used for that.
    fn limit_of_rest(&self, left: usize) -> Option<String> {
        let (limit, sql) = (self.limit?, &self.query.sql);
        let mut placeholder = String::new();
        self.dialect.placeholders.write(left + 1, &mut placeholder);
        let count = match self.rest_of_limit()? {
            RestOfLimit::InPlaceOf(_) => return None,
            RestOfLimit::Fixed(_) => placeholder,
            RestOfLimit::Reduced => self.reduced(&sql[limit.count.clone()], &placeholder),
        };
        Some(format!("{}{count}{}", &sql[limit.start..limit.count.start], &sql[limit.count.end..]))
    }

    /// The limit `count` without the rows before a cursor. A negative limit must not arise: SQLite
    /// reads it as no limit. One that was negative or NULL before stays as it is.
    fn reduced(&self, count: &str, before: &str) -> String {
        match self.dialect.placeholders {
            Placeholders::ByNumber(_) => format!(
                "case when ({count}) > {before} then ({count}) - {before} when ({count}) >= 0 then 0 else ({count}) end"
            ),
            // Each repetition would need its own arguments.
            Placeholders::ByOccurrence => format!("({count}) - {before}"),
        }
    }

    /// The statement in the order of the key, with only the rows that meet `conditions`.
    fn statement(&self, conditions: &[String], limit: &str, types: Vec<BindType>) -> database::Statement {
        let (text, _) = self.parts();
        let mut sql = format!("select {}", self.selected);
        for (number, column) in (1..).zip(self.columns) {
            sql.push_str(", ");
            self.dialect.keys.cast.write(&mut sql, |sql| sql.push_str(&self.quoted(column)));
            let _ = write!(sql, " as rowstream_key_{number}");
        }
        // The line breaks end a comment at the end of the text.
        let _ = write!(sql, " from (\n{text}\n) as rowstream");
        if !conditions.is_empty() {
            let _ = write!(sql, " where {}", conditions.join(" and "));
        }
        let _ = write!(sql, " order by {}\n{limit}", order_by(self.columns, self.dialect));
        database::Statement { sql: Arc::from(sql), types, ad_hoc: self.query.ad_hoc }
    }

    /// The condition for settled rows, which no running transaction may still precede.
    fn settled(&self) -> Option<String> {
        let horizon = self.transactions?.horizon;
        Some(format!("{} < {horizon}", self.quoted(&self.columns[0])))
    }

    /// The SQL around a column in comparisons.
    fn compared(&self) -> Affixes {
        let outline = Outline::new(&self.query.sql, self.dialect);
        let is_union = outline.is_none_or(|outline| outline.has_any(&UNIONS));
        if is_union { self.dialect.keys.of_union } else { Affixes::NOTHING }
    }

    fn quoted(&self, column: &KeyColumn) -> String {
        self.dialect.quoted(&column.name)
    }

    /// The statement and its limit.
    fn parts(&self) -> (&str, &str) {
        match self.limit {
            Some(limit) => self.query.sql.split_at(limit.start),
            None => (&*self.query.sql, ""),
        }
    }

    pub(super) fn nulls(&self) -> database::Statement {
        let refused = self.columns.iter().filter(|column| column.nulls == KeyNulls::Refused);
        let mut lost: Vec<_> = refused.map(|column| self.quoted(column) + " is null").collect();
        if let Some(Transactions { yet_to_come, .. }) = self.transactions {
            lost.push(format!("{} >= {yet_to_come}", self.quoted(&self.columns[0])));
        }
        // The parameters of the limit stay, because each one must be used somewhere.
        let (text, limit) = self.parts();
        let sql = format!(
            "select 1 as found from (\nselect * from (\n{text}\n) as rowstream where {}\n{limit}\n) as nulls limit 1",
            lost.join(" or ")
        );
        database::Statement {
            sql: Arc::from(sql),
            types: self.query.types.clone(),
            ad_hoc: self.query.ad_hoc,
        }
    }

    /// The statement that checks if the database has yet to issue a key.
    pub(super) fn ahead(&self) -> Option<database::Statement> {
        let first = match self.dialect.parameter_types {
            ParameterTypes::Inferred => BindType::Inferred,
            ParameterTypes::Declared => BindType::One(ParamType::Text),
        };
        if let Some(Transactions { ahead, .. }) = self.transactions {
            return Some(database::Statement { sql: Arc::from(*ahead), types: vec![first], ad_hoc: false });
        }
        let counters = self.dialect.commits.counters.as_ref()?;
        let (table, column) = counted(&self.query.sql, &self.columns[0], counters, self.dialect)?;
        let sql = counters.question(self.dialect, &table, &column);
        Some(database::Statement { sql: Arc::from(sql), types: vec![first; 2], ad_hoc: false })
    }

    /// The condition for rows after the row whose key is bound.
    fn after(&self, key: &mut KeyValues) -> String {
        let terms: Vec<_> = self.columns.iter().map(|column| self.term(column)).collect();
        let Term { beyond, nulls, .. } = terms[0];
        let one_way = terms.iter().all(|term| term.beyond == beyond && term.nulls == KeyNulls::Refused);
        if one_way && (terms.len() == 1 || self.dialect.keys.comparison == KeyComparison::RowValues) {
            let columns: Vec<_> = terms.iter().map(|term| term.column.as_str()).collect();
            let values: Vec<_> = (0..terms.len()).map(|index| key.value(index)).collect();
            return format!("({}) {beyond} ({})", columns.join(", "), values.join(", "));
        }
        if nulls != KeyNulls::Refused {
            return mixed(&terms, 0, key);
        }
        // An index on the first column only helps if there's a condition on that column alone.
        let first = format!("{} {beyond}= {}", terms[0].column, key.value(0));
        format!("{first} and {}", mixed(&terms, 0, key))
    }

    fn term(&self, column: &KeyColumn) -> Term {
        let mut sql = String::new();
        self.compared().write(&mut sql, |sql| sql.push_str(&self.quoted(column)));
        Term { column: sql, beyond: if column.descending { '<' } else { '>' }, nulls: column.nulls }
    }
}

/// The values of a row's key, as placeholders that follow those of the statement.
struct KeyValues {
    placeholders: Placeholders,
    /// The number of the statement's own arguments.
    own: usize,
    /// The arguments of the placeholders that were written.
    args: Vec<usize>,
}

impl KeyValues {
    fn new(placeholders: Placeholders, own: usize) -> Self {
        Self { placeholders, own, args: Vec::new() }
    }

    /// The placeholder for the value `index` of the key.
    fn value(&mut self, index: usize) -> String {
        let arg = self.own + index;
        let is_known = matches!(self.placeholders, Placeholders::ByNumber(_)) && self.args.contains(&arg);
        if !is_known {
            self.args.push(arg);
        }
        let mut placeholder = String::new();
        self.placeholders.write(arg + 1, &mut placeholder);
        placeholder
    }
}

/// A column, and the operator that finds later rows.
struct Term {
    column: String,
    beyond: char,
    nulls: KeyNulls,
}

impl Term {
    /// The condition for later values than the value `index` of the key.
    fn further(&self, index: usize, key: &mut KeyValues) -> String {
        let Self { column, beyond, nulls } = self;
        let further = format!("{column} {beyond} {}", key.value(index));
        match nulls {
            KeyNulls::Refused => further,
            KeyNulls::Placed { first: true, .. } => {
                format!("({further} or {} is null and {column} is not null)", key.value(index))
            }
            KeyNulls::Placed { first: false, .. } => {
                format!("({further} or {} is not null and {column} is null)", key.value(index))
            }
        }
    }

    /// The condition for the value `index` of the key.
    fn same(&self, index: usize, key: &mut KeyValues) -> String {
        let same = format!("{} = {}", self.column, key.value(index));
        match self.nulls {
            KeyNulls::Refused => same,
            KeyNulls::Placed { .. } => {
                format!("({same} or {} is null and {} is null)", key.value(index), self.column)
            }
        }
    }
}

/// The condition for columns with different directions, from the column `index` on. A comparison of
/// row values can't express it.
fn mixed(terms: &[Term], index: usize, key: &mut KeyValues) -> String {
    let further = terms[index].further(index, key);
    if index + 1 == terms.len() {
        return further;
    }
    let same = terms[index].same(index, key);
    format!("({further} or {same} and {})", mixed(terms, index + 1, key))
}

/// The table of a statement and its column that orders the rows, if these may be in the order of a
/// counter.
pub(super) fn counted(
    sql: &str,
    column: &KeyColumn,
    counters: &Counters,
    dialect: &'static Dialect,
) -> Option<(String, String)> {
    let outline = Outline::new(sql, dialect).filter(|_| !column.descending)?;
    Some((outline.table_name(counters.table)?, outline.column_of(&column.name)?))
}

/// The terms of the order of a key.
pub(in crate::endpoint) fn order_by(columns: &[KeyColumn], dialect: &Dialect) -> String {
    let term = |column: &KeyColumn| {
        // A bare name could mean another column that a request gave this name.
        let name = format!("rowstream.{}", dialect.quoted(&column.name));
        let by_value = format!("{name}{}", direction(column));
        match column.nulls {
            KeyNulls::Placed { first, by_default: false } => {
                let direction = if first { " desc" } else { "" };
                format!("case when {name} is null then 1 else 0 end{direction}, {by_value}")
            }
            KeyNulls::Refused | KeyNulls::Placed { by_default: true, .. } => by_value,
        }
    };
    columns.iter().map(term).collect::<Vec<_>>().join(", ")
}

pub(in crate::endpoint) fn direction(column: &KeyColumn) -> &'static str {
    if column.descending { " desc" } else { "" }
}

#[cfg(test)]
mod tests {
    use rowstream_core::sql::dialect::samples::ANONYMOUS;

    use super::*;
    use {rowstream_postgres as postgres, rowstream_sqlite as sqlite};

    /// The statement in the order of a key, the statement after a row, and the arguments of the
    /// latter.
    fn parts(sql: &str, key: &[&str], dialect: &'static Dialect) -> ([String; 2], Vec<usize>) {
        let sql = rowstream_core::sql::Sql::parse(sql, dialect).unwrap();
        let types = sql.names.iter().map(|_| ParamType::Integer.into()).collect();
        let query = database::Statement { sql: Arc::from(sql.text), types, ad_hoc: false };
        let columns: Vec<_> = key.iter().map(|text| KeyColumn::read(text)).collect();
        let limit = Limit::find(&query.sql, dialect);
        let limit = limit.as_ref();
        let wrapped = StatementParts {
            query: &query,
            limit,
            columns: &columns,
            selected: "*",
            transactions: None,
            dialect,
        };
        let (ordered, (rest, args)) = (wrapped.ordered(), wrapped.rest());
        assert_eq!((ordered.types.len(), rest.types.len()), (query.types.len(), args.len()));
        ([ordered, rest].map(|statement| statement.sql.replace('\n', " ")), args)
    }

    fn wrapped(sql: &str, key: &[&str], dialect: &'static Dialect) -> [String; 2] {
        parts(sql, key, dialect).0
    }

    #[test]
    fn a_statement_is_continued_behind_its_key() {
        let [ordered, rest] = wrapped(
            "select a, b from t where a > :a limit :n -- all",
            &["a", "b \"x\" asc"],
            &postgres::DIALECT,
        );
        let head = r#"select *, "a"::text as rowstream_key_1, "b ""x"""::text as rowstream_key_2 from ( select a, b from t where a > $1  ) as rowstream"#;
        let tail = r#" order by rowstream."a", rowstream."b ""x""" limit $2 -- all"#;
        assert_eq!(ordered, format!("{head}{tail}"));
        assert_eq!(rest, format!(r#"{head} where ("a", "b ""x""") > ($3, $4){tail}"#));
    }

    #[test]
    fn rows_are_read_once_they_are_settled() {
        let query = database::Statement { sql: Arc::from("select 1"), types: Vec::new(), ad_hoc: false };
        let columns = [KeyColumn::read("tx"), KeyColumn::read("id")];
        let wrapped = StatementParts {
            query: &query,
            limit: None,
            columns: &columns,
            selected: "*",
            transactions: postgres::DIALECT.commits.transactions.as_ref().ok(),
            dialect: &postgres::DIALECT,
        };
        let [ordered, rest] =
            [wrapped.ordered(), wrapped.rest().0].map(|statement| statement.sql.replace('\n', " "));
        let settled = r#") as rowstream where "tx" < pg_snapshot_xmin(pg_current_snapshot())"#;
        assert!(
            ordered.ends_with(&format!("{settled} order by rowstream.\"tx\", rowstream.\"id\" ")),
            "{ordered}"
        );
        let after = r#" and ("tx", "id") > ($1, $2) order by rowstream."tx", rowstream."id" "#;
        assert!(rest.ends_with(&format!("{settled}{after}")), "{rest}");
    }

    #[test]
    fn directions() {
        let [ordered, rest] = wrapped("select 1", &["a DESC", "b", "c desc"], &sqlite::DIALECT);
        let order = r#" order by rowstream."a" desc, rowstream."b", rowstream."c" desc "#;
        assert_eq!(
            ordered,
            format!(
                r#"select *, +"a" as rowstream_key_1, +"b" as rowstream_key_2, +"c" as rowstream_key_3 from ( select 1 ) as rowstream{order}"#
            )
        );
        let condition = r#""a" <= ?1 and ("a" < ?1 or "a" = ?1 and ("b" > ?2 or "b" = ?2 and "c" < ?3))"#;
        assert!(rest.ends_with(&format!(" where {condition}{order}")), "{rest}");
        let [_, rest] = wrapped("select 1", &["a desc", "b desc"], &sqlite::DIALECT);
        assert!(rest.contains(r#" where ("a", "b") < (?1, ?2) order by"#), "{rest}");
    }

    /// Each part of a union converts a compared value by its own rules, unless the column is in an
    /// expression.
    #[test]
    fn columns_of_a_union_are_compared_as_values() {
        let sql = "select a from (select a from t union all select b from u)";
        let [_, rest] = wrapped(sql, &["a"], &sqlite::DIALECT);
        assert!(rest.ends_with(r#" where (+"a") > (?1) order by rowstream."a" "#), "{rest}");
        let [_, rest] = wrapped(sql, &["a"], &postgres::DIALECT);
        assert!(rest.ends_with(r#" where ("a") > ($1) order by rowstream."a" "#), "{rest}");
    }

    /// If placeholders have no numbers, arguments follow the order of the text: the limit is after
    /// the key, and a value that's compared twice is sent twice.
    #[test]
    fn a_key_is_bound_in_the_order_of_the_text() {
        let sql = "select a from t where a > :a and b > :a limit :n";
        let ([_, rest], args) = parts(sql, &["a"], &ANONYMOUS);
        let head = "select *, text(`a`) as rowstream_key_1 from ( select a from t where a > ? and b > ?  ) as rowstream";
        assert_eq!(rest, format!("{head} where (`a`) > (?) order by rowstream.`a` limit ?"));
        assert_eq!(args, [0, 1, 3, 2]);
        let ([_, rest], args) = parts(sql, &["a", "b desc"], &ANONYMOUS);
        assert!(rest.contains("where `a` >= ? and (`a` > ? or `a` = ? and `b` < ?) order by"), "{rest}");
        assert_eq!(args, [0, 1, 3, 3, 3, 4, 2]);
        assert_eq!(parts(sql, &["a", "b desc"], &postgres::DIALECT).1, [0, 1, 2, 3]);
    }

    /// Within a list, the statement gets what is left of its limit: in place of the limit's own
    /// parameter, as a parameter, or as a number that's subtracted.
    #[test]
    fn a_limit_is_continued() {
        for (limit, expected, args) in [
            ("limit $1", "limit $1", &[0, 1][..]),
            ("limit coalesce($1, 9) -- n", "limit coalesce($1, 9) -- n", &[0, 1]),
            ("limit 9 -- nine", "limit $2 -- nine", &[0, 1]),
            (
                "limit $1 + 1",
                "limit case when ($1 + 1) > $3 then ($1 + 1) - $3 when ($1 + 1) >= 0 then 0 else ($1 + 1) end",
                &[0, 1, 2],
            ),
            ("limit all", "limit all", &[0]),
            ("limit null", "limit null", &[0]),
            ("limit 10%", "limit 10%", &[0]),
        ] {
            let text = format!("select a from t {limit}").replace("$1", ":n");
            let ([ordered, rest], found) = parts(&text, &["a"], &postgres::DIALECT);
            assert!(ordered.ends_with(limit), "{ordered}");
            assert!(rest.ends_with(expected), "{rest}");
            assert_eq!(found, args, "{limit}");
        }
        let ([_, rest], args) = parts("select a from t where b = :b limit 9", &["a"], &ANONYMOUS);
        assert!(rest.ends_with("limit ?"), "{rest}");
        assert_eq!(args, [0, 1, 2]);
        let ([_, rest], args) = parts("select a from t limit :n + 1", &["a"], &ANONYMOUS);
        assert!(rest.ends_with("limit (? + 1) - ?"), "{rest}");
        assert_eq!(args, [1, 0, 2]);
    }

    /// Some databases can't compare row values, or don't use an index for it.
    #[test]
    fn rows_are_compared_column_by_column() {
        let [_, rest] = wrapped("select 1", &["a", "b"], &ANONYMOUS);
        assert!(rest.contains("where `a` >= ? and (`a` > ? or `a` = ? and `b` > ?) order by"), "{rest}");
    }
}
