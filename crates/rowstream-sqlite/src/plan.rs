//! Interprets the values of a column. SQLite types values, not columns, so a column's declared type
//! is only a hint. We compare each value with it; one that doesn't match keeps its storage class.

use rowstream_core::datetime::{Timestamp, date, timestamp};
use rowstream_core::sql::Computed;
use rowstream_database::json::is_document;
use rowstream_encode::{ColumnKind, Value, is_json_number};

use super::cells::Cell;

/// The functions that return an integer or NULL, whatever their arguments are.
const INTEGERS: [&str; 14] = [
    "count",
    "dense_rank",
    "exists",
    "instr",
    "json_array_length",
    "length",
    "ntile",
    "octet_length",
    "random",
    "rank",
    "row_number",
    "rowstream_time",
    "sign",
    "unicode",
];
/// The functions that return a real or NULL.
const REALS: [&str; 6] = ["avg", "cume_dist", "julianday", "percent_rank", "round", "total"];

/// How to interpret the values of a column; chosen once per statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// By storage class alone.
    Plain,
    /// BOOLEAN: 0 and 1 are booleans.
    Boolean,
    /// DATE: `YYYY-MM-DD` is a date.
    Date,
    /// DATETIME, TIMESTAMP: `YYYY-MM-DD HH:MM[:SS[.ffffff]]` is a timestamp, or an instant if it
    /// has a zone.
    Timestamp,
    /// TIMESTAMPTZ: always an instant, in UTC if it has no zone.
    TimestampTz,
    /// DECIMAL, NUMERIC: a text that is a number is that exact number. A float is a decimal that
    /// SQLite stores as a float.
    Decimal,
    /// JSON, JSONB: a text that is a JSON document is written verbatim.
    Json,
}

impl Plan {
    /// Chooses the plan for a column by its declared type, ignoring case and length: `Decimal(10,
    /// 2)`.
    pub(super) fn of(declared: &str) -> Self {
        let name = declared.split('(').next().unwrap_or_default().trim();
        match name.to_ascii_uppercase().as_str() {
            "BOOLEAN" | "BOOL" => Self::Boolean,
            "DATE" => Self::Date,
            "DATETIME" | "TIMESTAMP" => Self::Timestamp,
            "TIMESTAMPTZ" => Self::TimestampTz,
            "DECIMAL" | "NUMERIC" => Self::Decimal,
            "JSON" | "JSONB" => Self::Json,
            _ => Self::Plain,
        }
    }

    /// Returns the value of a cell.
    ///
    /// # Errors
    /// The text isn't UTF-8.
    #[inline]
    pub(super) fn value(self, cell: Cell<'_>) -> Result<Value<'_>, std::str::Utf8Error> {
        Ok(match cell {
            Cell::Null => Value::Null,
            Cell::Integer(value @ (0 | 1)) if self == Self::Boolean => Value::Bool(value == 1),
            Cell::Integer(value) => Value::Int(value),
            Cell::Real(value) if self == Self::Decimal => Value::Real(value),
            Cell::Real(value) => Value::Float(value),
            Cell::Blob(bytes) => Value::Bytes(bytes),
            Cell::Text(bytes) => match self.time(bytes) {
                Some(value) => value,
                None => self.text(std::str::from_utf8(bytes)?),
            },
        })
    }

    /// Reads dates and times before the text is checked, because they are ASCII.
    #[inline]
    fn time<'a>(self, text: &[u8]) -> Option<Value<'a>> {
        match self {
            Self::Date => date(text).map(Value::Date),
            Self::Timestamp => timestamp(text).map(value_of),
            Self::TimestampTz => timestamp(text).map(|time| Value::TimestampTz(time.micros)),
            Self::Plain | Self::Boolean | Self::Decimal | Self::Json => None,
        }
    }

    #[inline]
    fn text(self, text: &str) -> Value<'_> {
        match self {
            Self::Decimal if is_json_number(text.as_bytes()) => Value::Number(text),
            Self::Json if is_document(text) => Value::Json(text),
            _ => Value::Text(text),
        }
    }
}

/// Returns an instant if the text has a zone, otherwise a local time.
fn value_of<'a>(time: Timestamp) -> Value<'a> {
    match time.is_zoned {
        true => Value::TimestampTz(time.micros),
        false => Value::Timestamp(time.micros),
    }
}

/// Returns the kind of a column of this declared type, for formats with typed columns. If its plan
/// doesn't determine the kind, SQLite's affinity does ("Datatypes in SQLite", section 3.1):
/// `VARCHAR(20)` is text, `BIGINT` an integer. Each value still has to be compared with its kind.
/// Expressions have no declared type; see [`computed_type`].
pub(super) fn kind(declared: &str) -> ColumnKind {
    match Plan::of(declared) {
        Plan::Boolean => ColumnKind::Bool,
        Plan::Date => ColumnKind::Date,
        Plan::Timestamp => ColumnKind::Timestamp,
        Plan::TimestampTz => ColumnKind::TimestampTz,
        Plan::Decimal => decimal_kind(declared),
        Plan::Json => ColumnKind::Json,
        Plan::Plain => affinity_kind(&declared.to_ascii_uppercase()),
    }
}

/// Returns the type of a computed column, in the words of declared ones. It's empty if values of
/// several types are possible.
pub(super) fn computed_type(computed: &Computed<'_>) -> &'static str {
    match computed {
        Computed::Integer => "integer",
        Computed::Call(function) if INTEGERS.contains(&function.as_str()) => "integer",
        Computed::Call(function) if REALS.contains(&function.as_str()) => "real",
        Computed::Call(_) => "",
        Computed::Cast(declared) => match affinity_kind(&declared.to_ascii_uppercase()) {
            ColumnKind::Int64 => "integer",
            ColumnKind::Float64 => "real",
            ColumnKind::Text => "text",
            ColumnKind::Bytes => "blob",
            _ => "",
        },
    }
}

/// Returns true if a computed column can have this type.
pub(super) fn is_computed_type(name: &str) -> bool {
    matches!(name, "" | "integer" | "real" | "text" | "blob")
}

fn affinity_kind(declared: &str) -> ColumnKind {
    let names = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    if names(&["INT"]) {
        ColumnKind::Int64
    } else if names(&["CHAR", "CLOB", "TEXT"]) {
        ColumnKind::Text
    } else if names(&["BLOB"]) {
        ColumnKind::Bytes
    } else if names(&["REAL", "FLOA", "DOUB"]) {
        ColumnKind::Float64
    } else {
        ColumnKind::Any
    }
}

/// `DECIMAL(10, 2)`, or `DECIMAL(10)`, which has no decimal places. Without a precision, any scale
/// is possible.
fn decimal_kind(declared: &str) -> ColumnKind {
    let limits = declared.split_once('(').and_then(|(_, rest)| rest.trim_end().strip_suffix(')'));
    let limits = limits.map(|limits| limits.split_once(',').unwrap_or((limits, "0")));
    match limits.map(|(precision, scale)| (precision.trim().parse(), scale.trim().parse())) {
        Some((Ok(precision), Ok(scale))) => ColumnKind::decimal(precision, scale),
        _ => ColumnKind::Number,
    }
}

#[cfg(test)]
mod tests {
    use rowstream_core::sql::Outline;

    use super::*;
    use crate::dialect::DIALECT;

    #[test]
    fn declared_types_promise_kinds() {
        let decimal = |precision, scale| ColumnKind::Decimal { precision, scale };
        for (declared, kind) in [
            ("integer", ColumnKind::Int64),
            ("UNSIGNED BIG INT", ColumnKind::Int64),
            ("tinyint(1)", ColumnKind::Int64),
            ("varchar(255)", ColumnKind::Text),
            ("CLOB", ColumnKind::Text),
            ("blob", ColumnKind::Bytes),
            ("DOUBLE PRECISION", ColumnKind::Float64),
            ("real", ColumnKind::Float64),
            ("float", ColumnKind::Float64),
            ("", ColumnKind::Any),
            ("uuid", ColumnKind::Any),
            ("Boolean", ColumnKind::Bool),
            ("DATE", ColumnKind::Date),
            ("datetime", ColumnKind::Timestamp),
            ("timestamp", ColumnKind::Timestamp),
            ("TimestampTZ", ColumnKind::TimestampTz),
            ("json", ColumnKind::Json),
            ("decimal(10,2)", decimal(10, 2)),
            ("Numeric ( 10 , 2 ) ", decimal(10, 2)),
            ("NUMERIC(5)", decimal(5, 0)),
            ("decimal", ColumnKind::Number),
            ("decimal(80,2)", ColumnKind::Number),
            ("decimal(a)", ColumnKind::Number),
            ("decimal(1,2,3)", ColumnKind::Number),
            ("decimal(-1)", ColumnKind::Number),
        ] {
            assert_eq!(super::kind(declared), kind, "{declared}");
        }
    }

    /// SQLite's manual doesn't give the types of all functions' results.
    #[test]
    fn functions_return_the_type_of_their_column() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        crate::time::define(&connection).unwrap();
        let values = "(null), (0), (-7), (9223372036854775807), (0.5), (-1e300), (9e999), (''), ('x'), ('7'),
            ('[1]'), ('2026-03-01'), (x''), (x'07')";
        for (functions, storage) in [(&INTEGERS[..], "integer"), (&REALS[..], "real")] {
            for function in functions {
                let call = match *function {
                    "instr" => "instr(a, b)".to_owned(),
                    "ntile" => "ntile(3) over (order by a)".to_owned(),
                    "random" => "random()".to_owned(),
                    "exists" => "exists (select a)".to_owned(),
                    "json_array_length" => "case when json_valid(a) then json_array_length(a) end".to_owned(),
                    "rank" | "dense_rank" | "row_number" | "percent_rank" | "cume_dist" => {
                        format!("{function}() over (order by a)")
                    }
                    _ => format!("{function}(a)"),
                };
                let sql = format!(
                    "with v(a) as (values {values}), w as (select v.a, u.a as b from v, v as u)
                     select distinct typeof({call}) from w group by a, b order by 1"
                );
                let mut statement = connection.prepare(&sql).unwrap();
                let types = statement.query_map([], |row| row.get(0)).unwrap();
                let types: Vec<String> = types.collect::<Result<_, _>>().unwrap();
                assert!(types.iter().any(|name| name == storage), "{function}: {types:?}");
                assert!(types.iter().all(|name| name == storage || name == "null"), "{function}: {types:?}");
            }
        }
    }

    /// Comments, quotes and repeated names gave columns the type of another one. Each column has the
    /// type on the right, and its values have it, too.
    #[test]
    fn values_have_the_type_of_their_column() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "create table t (id integer primary key, s text, d); insert into t values (7, 'v', '1.5')",
            )
            .unwrap();
        for (sql, expected) in [
            ("select cast(d as decimal /* an int */) from t", ""),
            ("select cast(d as numeric -- a point\n) from t", ""),
            ("select cast(d as varchar /* int */ (20)) from t", ""),
            ("select cast(d as /* int */ varchar (20) -- int\n) from t", "text"),
            ("select cast(d as \"a\" int) from t", ""),
            ("select cast(d as \"int\") from t", "integer"),
            ("select cast(d as [text]) from t", "text"),
            ("select n from (select 'x' as 'n', count(*) as n from t)", ""),
            ("select s from (select s collate nocase, count(*) as s from t)", ""),
            ("select \"n:1\" from (select 1 as n, 2.5 as n, 5 as \"n:1\")", ""),
            ("select \"'q'\" as k from (select 'q', 5 as \"'q'\")", ""),
            ("select \"x'07'\" as k from (select x'07', 5 as \"x'07'\")", ""),
            ("select column1 from (select true, 'x' as column1)", ""),
            ("select k from (select x.*, 5 as k from (select 1 as n) x join (select 'a' as k) x)", ""),
            ("select id from (select rowid, cast(s as text) as id from t)", "text"),
            ("select a from (select \"a\", count(*) as \"\"\"a\"\"\" from t)", ""),
            ("select count(*) as 'n' from t", "integer"),
            ("select \"n\" from (select count(*) as 'n' from t) as x", "integer"),
            ("select \"it's\" from (select count(*) 'it''s' from t)", "integer"),
            ("select k from (select id as 'n', 5 k, s collate nocase from t)", "integer"),
            ("select pr from (select percent_rank() over w pr from t window w as (order by id))", "real"),
            ("select 9223372036854775807 k", "integer"),
        ] {
            let outline = Outline::new(sql, &DIALECT).unwrap();
            let computed = outline.computed(1)[0].as_ref().map_or("", computed_type);
            assert_eq!(computed, expected, "{sql}");
            let value: rusqlite::types::Value = connection.query_row(sql, [], |row| row.get(0)).unwrap();
            let stored = value.data_type().to_string().to_ascii_lowercase();
            assert!(expected.is_empty() || stored == expected, "{sql}: {stored}");
        }
    }

    #[test]
    fn computed_columns_have_the_type_of_their_expression() {
        let call = |name: &str| Computed::Call(name.to_owned());
        for (computed, name) in [
            (Computed::Integer, "integer"),
            (call("count"), "integer"),
            (call("avg"), "real"),
            (call("sum"), ""),
            (call("max"), ""),
            (Computed::Cast("INT"), "integer"),
            (Computed::Cast("varchar(20)"), "text"),
            (Computed::Cast("double"), "real"),
            (Computed::Cast("blob"), "blob"),
            (Computed::Cast("numeric"), ""),
            (Computed::Cast("boolean"), ""),
        ] {
            assert_eq!(computed_type(&computed), name, "{computed:?}");
            assert!(is_computed_type(name));
        }
        assert!(!is_computed_type("DATE"));
    }
}
