//! The SQL that drivers' databases have in common, as data. ADBC: the SQL of DuckDB that PostgreSQL
//! shares. ODBC: the standard's SQL, with MySQL's quotes.

#[cfg(feature = "odbc")]
use rowstream_core::sql::dialect::Quotes;
use rowstream_core::sql::dialect::{
    Affixes, BlockComments, Catalog, CommitOrder, Commits, Decimals, Dialect, Filters, Infinities,
    KeyComparison, Keys, LineComment, Lists, Location, Names, NullOrder, OperatorSql, OwnOrder,
    ParameterTypes, Placeholders, Refusal, Strings, Syntax, UnorderedTypes, Urls, ValueForm,
};
use rowstream_core::sql::{Operator, Outline};
use rowstream_database::optional;

/// The environment variable with the path of DuckDB's library.
pub(super) const DUCKDB_LIBRARY: &str = "ROWSTREAM_DUCKDB";

/// The SQL of the databases of ADBC's drivers.
#[cfg(feature = "adbc")]
pub(super) static ADBC: Dialect = COMMON;

/// The quote around names that the server writes. The driver process replaces it by the driver's
/// own. No user's statement contains a NUL.
#[cfg(feature = "odbc")]
pub(super) const NAME: char = '\0';

/// The SQL of the databases of ODBC's drivers. Brackets don't quote names here, because in most
/// databases they are indexes.
#[cfg(feature = "odbc")]
pub(super) static ODBC: Dialect = Dialect {
    name: "ODBC",
    urls: Urls {
        schemes: optional::ODBC.schemes,
        location: Location::ConnectionString,
        example: "odbc:DSN=shop",
        variables: &[],
        ..COMMON.urls
    },
    syntax: Syntax {
        quote: NAME,
        identifiers: &[Quotes::Doubled(b'`'), Quotes::Doubled(NAME as u8)],
        variables: b"?",
        ..COMMON.syntax
    },
    placeholders: Placeholders::ByOccurrence,
    filters: Err(Refusal {
        message: "the SQL of a source of ODBC isn't known, so requests can't filter, sort or select",
        hint: "declare parameters, and use them in the statement",
    }),
    catalog: None,
    keys: Keys { unordered: &[], infinities: Infinities::Refused, ..COMMON.keys },
    ..COMMON
};

pub(super) const COMMON: Dialect = Dialect {
    name: "ADBC",
    urls: Urls {
        schemes: &[optional::ADBC.schemes[0], optional::DUCKDB.schemes[0]],
        location: Location::Driver { by_name: optional::ADBC.schemes },
        example: "duckdb:FILE",
        variables: &[DUCKDB_LIBRARY],
        password_places: &[],
    },
    syntax: Syntax {
        quote: '"',
        identifiers: &[],
        strings: &[Strings::Escape, Strings::Dollar],
        line_comments: &[LineComment::Dashes],
        block_comments: BlockComments::Flat,
        line_ends: b"\n\r",
        variables: b"$",
        names: Names::Caseless,
    },
    placeholders: Placeholders::ByNumber('$'),
    parameter_types: ParameterTypes::Declared,
    decimals: Decimals::Exact(38),
    null_limit: None,
    lists: Lists::LateArrays,
    keys: Keys {
        cast: Affixes::NOTHING,
        of_union: Affixes::NOTHING,
        comparison: KeyComparison::ByColumn,
        infinities: Infinities::Texts,
        bytes: Err("use a key of texts or numbers"),
        unordered: &[
            UnorderedTypes {
                // An enum's.
                types: &["Dictionary"],
                longest: 0,
                why: "DuckDB sorts by number and compares as texts",
                hint: "select the text, `k::varchar as k`",
            },
            UnorderedTypes {
                types: &["bignum"],
                longest: 0,
                why: "DuckDB doesn't compare with the numbers of a cursor",
                hint: "select `k::decimal(38) as k`, or the text, `k::varchar as k`",
            },
            UnorderedTypes {
                types: &["Interval"],
                longest: 0,
                why: "DuckDB can't read back from a cursor",
                hint: "select the seconds, `epoch(k) as k`",
            },
        ],
        alike: &[],
    },
    filters: Ok(FILTERS),
    writes: &[],
    commits: Commits {
        order: CommitOrder::Unknown(NOT_FOLLOWED),
        transactions: Err(NOT_FOLLOWED),
        channel: Err(NOT_FOLLOWED),
        counters: None,
    },
    refcursors: Err(Refusal {
        message: "drivers have no refcursors",
        hint: "only PostgreSQL has them: write a statement for each list",
    }),
    interleaved: Err(Refusal {
        message: "a driver's connection reads one statement at a time",
        hint: "join the two, or let the database nest the rows: a list of structs is a JSON array",
    }),
    snapshots: Ok(()),
    parts: Err(Refusal {
        message: "connections of a driver can't read one snapshot together",
        hint: "leave out `parallel` and `shards`",
    }),
    explain: None,
    estimate: None,
    unique_keys: None,
    catalog: Some(Catalog { tables: TABLES, columns: COLUMNS, misfit: None, references: REFERENCES }),
};

/// DuckDB's.
const FILTERS: Filters = Filters {
    operators: &[
        // Enums, bits and times with a zone aren't texts, and a text's collation may ignore case.
        OperatorSql {
            operator: Operator::Like,
            sql: "cast({c} as varchar) collate \"C\" like {v} escape '\\'",
            value: ValueForm::Like,
        },
        OperatorSql {
            operator: Operator::Ilike,
            sql: "cast({c} as varchar) ilike {v} escape '\\'",
            value: ValueForm::Like,
        },
        OperatorSql {
            operator: Operator::Match,
            sql: "regexp_matches(cast({c} as varchar), {v})",
            value: ValueForm::Unchanged,
        },
        OperatorSql {
            operator: Operator::Imatch,
            sql: "regexp_matches(cast({c} as varchar), {v}, 'i')",
            value: ValueForm::Unchanged,
        },
    ],
    untyped: None,
    cast: &[],
    times: None,
    null_tests: Filters::NULL_TESTS,
    nulls: NullOrder::Last,
    own_order: OwnOrder::STANDARD,
};

/// Functions after which a session has other settings, variables or locks than before: those of
/// PostgreSQL, of MySQL and MariaDB, and of DuckDB.
const SESSION_FUNCTIONS: [&str; 8] = [
    "set_config",
    "setseed",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "get_lock",
    "last_insert_id",
];

/// The first words of statements that change their session, such as `set variable` of DuckDB.
const SESSION_STATEMENTS: [&str; 5] = ["set", "reset", "use", "create", "prepare"];

/// Judges by the text of a statement if the next request on its connection could see its effects.
pub(super) fn leaves_state(sql: &str, dialect: &'static Dialect) -> bool {
    Outline::new(sql, dialect).is_some_and(|outline| {
        outline.has_session_variable()
            || outline.calls_any(&SESSION_FUNCTIONS)
            || SESSION_STATEMENTS.iter().any(|word| outline.begins_with(word))
    })
}

/// The first words of statements that read.
const READS: [&str; 5] = ["select", "with", "values", "from", "table"];

/// Words of statements that write, as in `with paid as (insert …)`.
const WRITES: [&str; 5] = ["insert", "update", "delete", "merge", "into"];

/// Judges by the text of a statement if we can run it again after a failure that doesn't show how far
/// it has got. A statement with effects may already have been committed.
pub(super) fn may_run_twice(sql: &str, dialect: &'static Dialect) -> bool {
    Outline::new(sql, dialect).is_some_and(|outline| {
        let is_read = outline.begins_with_bracket() || READS.iter().any(|word| outline.begins_with(word));
        is_read && !outline.has_any(&WRITES)
    })
}

const NOT_FOLLOWED: Refusal = Refusal {
    message: "the database of a driver has no live tail",
    hint: "it doesn't report when rows become visible: leave out `follow`",
};

const TABLES: &str =
    "select table_name as name, case table_type when 'VIEW' then 'view' else 'table' end as kind
    from information_schema.tables
    where table_schema = 'main' order by table_name";

/// A key is unique by its bytes, but a column may be compared and sorted by another collation. The catalog has
/// it only in the table's SQL.
const COLUMNS: &str = "select c.column_name as name, lower(c.data_type) as type, case
      when c.data_type in ('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'UTINYINT', 'USMALLINT', 'UINTEGER') then 'integer'
      when c.data_type = 'VARCHAR' then 'text'
      when c.data_type = 'DATE' then 'date'
      when c.data_type = 'UUID' then 'uuid'
      end as param, null as \"cast\",
      case when c.data_type = 'VARCHAR' and t.sql ilike '%collate%' then '{c} collate \"C\" = {v}' end as equal,
      coalesce(list_position(k.constraint_column_names, c.column_name), 0) as place,
      case when c.data_type <> 'VARCHAR' or t.sql not ilike '%collate%' then c.data_type end as comparable, case
      when c.data_type = 'UUID' then 'drivers have UUIDs as bytes, which a cursor can''t hold'
      when c.data_type = 'VARCHAR' and t.sql ilike '%collate%'
        then 'its values may be different in the key and alike in the column, by their collations'
      end as unordered
    from information_schema.columns c
    left join duckdb_tables() t on t.database_name = c.table_catalog and t.schema_name = 'main' and t.table_name = c.table_name
    left join duckdb_constraints() k on k.table_oid = t.table_oid and k.constraint_type = 'PRIMARY KEY'
      and k.database_name = c.table_catalog
    where c.table_schema = 'main' and c.table_name = :table order by c.ordinal_position";

/// A foreign key has the names as they're written, in any case.
const REFERENCES: &str = "with pair as (
      select table_name, constraint_index, unnest(constraint_column_names) as own, referenced_table,
        unnest(referenced_column_names) as other, generate_subscripts(constraint_column_names, 1) as place
      from duckdb_constraints()
      where constraint_type = 'FOREIGN KEY' and schema_name = 'main')
    select c.table_name as name, constraint_index as id, own as \"column\", p.table_name as parent,
      other as parent_column, place
    from pair
    join information_schema.tables c on c.table_schema = 'main' and lower(c.table_name) = lower(pair.table_name)
    join information_schema.tables p on p.table_schema = 'main' and lower(p.table_name) = lower(pair.referenced_table)
    order by c.table_name, constraint_index, place";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_statement_shows_what_it_leaves() {
        for sql in [
            "select set_config('a', ?, false)",
            "select pg_catalog.pg_try_advisory_lock(1)",
            "select @n := coalesce(@n, 0) + 1",
            "select Get_Lock('a', 0)",
            "SET variable x = 1",
            "create temp table t as select 1",
        ] {
            assert!(leaves_state(sql, &COMMON), "{sql}");
        }
        for sql in [
            "select a @> b, b <@ a, c @@ d, @ e, '@n', 'set_config(' from t -- @n",
            "select @@sql_mode, pg_advisory_xact_lock(1), set_config from t",
            "with created as (select 1) select * from created",
            "{call set_it(?)}",
        ] {
            assert!(!leaves_state(sql, &COMMON), "{sql}");
        }
    }

    #[test]
    fn statements_with_effects_run_once() {
        for sql in [
            "-- reads\nSelect updated, 'insert' from t",
            "(select 1) union (select 2)",
            "with t as (select 1) select * from t",
            "values (1)",
            "from 'sales.parquet'",
            "table t",
        ] {
            assert!(may_run_twice(sql, &COMMON), "{sql}");
        }
        for sql in [
            "call pay($1)",
            "{call pay(?)}",
            "{? = call pay(?)}",
            "exec pay ?",
            "insert into paid values (1) returning n",
            "-- select\nupdate paid set n = 1 returning n",
            "with new as (insert into paid values (1) returning n) select n from new",
            "select 1 into paid",
            "selected",
            "select 'open",
        ] {
            assert!(!may_run_twice(sql, &COMMON), "{sql}");
        }
    }
}
