//! SQLite's SQL, as data.

use rowstream_core::params::INFINITY;
use rowstream_core::sql::Operator;
use rowstream_core::sql::dialect::{
    Affixes, BlockComments, Catalog, CommitOrder, Commits, Counters, Decimals, Dialect, Filters, Functions,
    Infinities, KeyComparison, Keys, LineComment, Lists, Location, Names, NullOrder, OperatorSql, OwnOrder,
    ParameterTypes, Placeholders, Quotes, Refusal, Syntax, TableName, TimeComparisons, UniqueKeys, Urls,
    ValueForm,
};
use rowstream_database::table_files::DatabaseFile;

/// SQLite's SQL.
pub static DIALECT: Dialect = Dialect {
    name: "SQLite",
    urls: Urls {
        schemes: &[DatabaseFile::Sqlite.scheme()],
        location: Location::File,
        example: "sqlite:FILE",
        variables: &[],
        password_places: &[],
    },
    syntax: Syntax {
        quote: '"',
        identifiers: &[Quotes::Doubled(b'`'), Quotes::Pair(b'[', b']')],
        strings: &[],
        line_comments: &[LineComment::Dashes],
        block_comments: BlockComments::Flat,
        line_ends: b"\n",
        variables: b"?@$:",
        names: Names::Caseless,
    },
    placeholders: Placeholders::ByNumber('?'),
    parameter_types: ParameterTypes::Declared,
    decimals: Decimals::Rounded,
    // SQLite refuses NULL ("datatype mismatch"). -1 means no limit, and 0 as an offset.
    null_limit: Some(Affixes { before: "ifnull(", behind: ", -1)" }),
    lists: Lists::Texts(|list, _| format!("select value from json_each(:{list})")),
    keys: Keys {
        // A column with a `+` has no declared type, so formats write its value as stored.
        cast: Affixes { before: "+", behind: "" },
        // Each column of a `union` has the affinity of one of its parts, which would change the
        // value that it's compared with. No index on the column can be used then.
        of_union: Affixes { before: "+", behind: "" },
        comparison: KeyComparison::RowValues,
        infinities: Infinities::Number(INFINITY),
        bytes: Err("use a key of texts or numbers: `hex(c) as c` is in the same order"),
        unordered: &[],
        alike: &[("A", "nocase"), ("a ", "rtrim")],
    },
    filters: Ok(FILTERS),
    writes: &[],
    commits: Commits {
        order: CommitOrder::ByKey,
        transactions: Err(Refusal {
            message: "`transaction` is for PostgreSQL",
            hint: "SQLite commits in order: write `follow = true`",
        }),
        channel: Err(Refusal {
            message: "`channel` is for PostgreSQL",
            hint: "SQLite sends no notifications: we query it every `poll`",
        }),
        counters: Some(Counters {
            ahead: AHEAD,
            table: TableName::Bare,
            lapse: (
                REUSED,
                Refusal {
                    message: "if the last rows of the table are deleted, SQLite gives their keys to new rows, which followers \
                              don't see",
                    hint: "declare the key as `integer primary key autoincrement`",
                },
            ),
        }),
    },
    refcursors: Err(Refusal {
        message: "SQLite has no refcursors",
        hint: "only PostgreSQL has them: write a statement for each list",
    }),
    interleaved: Ok(()),
    snapshots: Ok(()),
    parts: Err(Refusal {
        message: "connections of SQLite can't read one snapshot together, so parts of a table would show \
            different states",
        hint: "leave out `parallel` and `shards`",
    }),
    explain: Some("explain query plan "),
    estimate: None,
    unique_keys: Some(UniqueKeys {
        query: UNIQUE_KEYS,
        missing: NO_UNIQUE_KEY,
        table: TableName::Bare,
        functions: Functions::MakeValues,
    }),
    catalog: Some(Catalog {
        tables: TABLES,
        columns: COLUMNS,
        // An index finds both, because bytes sort after all other values.
        misfit: Some(("{} is null or {} >= x''", "a row has NULL or bytes in it")),
        references: REFERENCES,
    }),
};

/// `like` ignores the case of ASCII letters, `glob` doesn't. Both would read bytes as a text.
///
/// The column of an expression has no type, and any number is less than any text. A `+` keeps a column of a
/// `union` from converting the value to the type of one of its parts. Bytes are compared as rows show them.
const FILTERS: Filters = Filters {
    operators: &[
        OperatorSql {
            operator: Operator::Like,
            sql: "({c} glob {v} and typeof({c}) <> 'blob')",
            value: ValueForm::Glob,
        },
        OperatorSql {
            operator: Operator::Ilike,
            sql: "({c} like {v} escape '\\' and typeof({c}) <> 'blob')",
            value: ValueForm::Like,
        },
    ],
    untyped: Some([
        "case typeof({c}) when 'text' then +{c} {op} {v} when 'blob' then '\\x' || lower(hex({c})) {op} {v}
          else +{c} {op} cast({n} as numeric) end",
        "case typeof({c}) when 'text' then +{c} {op} {v} when 'blob' then '\\x' || lower(hex({c})) {op} {v}
          when 'null' then null else '{op}' = '<>' end",
    ]),
    cast: &[],
    // A text begins with its local date, which differs from the date in UTC by one day at most. `date`
    // is NULL beyond the ends of the calendar.
    times: Some(TimeComparisons {
        function: "rowstream_time",
        since: "{c} >= coalesce(date({v}, '-1 day'), '')",
        until: "{c} < coalesce(date({v}, '+2 days'), '~')",
    }),
    null_tests: Filters::NULL_TESTS,
    nulls: NullOrder::Least,
    own_order: OwnOrder { quote: '`', ..OwnOrder::STANDARD },
};

/// Leaves out the tables that store the rows of virtual tables (`shadow`).
const TABLES: &str = "select name, case type when 'view' then 'view' else 'table' end as kind
    from pragma_table_list
    where schema = 'main' and type in ('table', 'view', 'virtual') and name not like 'sqlite\\_%' escape '\\'
    order by name";

/// The parameter has the column's affinity: a text gets the affinity of the column that it's
/// compared with ("Datatypes In SQLite", section 3.1). Columns without affinity contain values of
/// any type. Columns with `hidden = 1` are arguments of virtual tables.
///
/// Booleans and times are written in another form than they're stored in, so they're compared by value.
/// The condition of a time begins with a range of its column, which the last columns of an index can have too.
/// A key that's unique by its bytes is compared by them, because its column's collation may find several rows.
const COLUMNS: &str = "select name, ifnull(nullif(lower(type), ''), 'any') as type, case
      when type like '%int%' then 'integer'
      when type like '%char%' or type like '%clob%' or type like '%text%' then 'text'
      when type like '%blob%' or type = '' or upper(type) = 'ANY' then null
      else 'text' end as param, case
      when other_collation then '{c} = {v} collate binary'
      when base in ('boolean', 'bool') then '{c} in ({v}, case {v} when ''true'' then 1 when ''false'' then 0 end)'
      when base in ('datetime', 'timestamp', 'timestamptz') then
        '{c} >= case when rowstream_time({v}) is null then {v} else min({v}, coalesce(date({v}, ''-1 day''), '''')) end'
          || ' and {c} <= case when rowstream_time({v}) is null then {v} else max({v}, coalesce(date({v}, ''+2 days''), ''~'')) end'
          || ' and ({c} = {v} or rowstream_time({c}) = rowstream_time({v}))'
      when type like '%int%' or type like '%char%' or type like '%clob%' or type like '%text%' or type like '%blob%'
        or base in ('', 'any', 'date', 'time', 'json', 'jsonb') then null
      else '{c} = rowstream_number({v})'
      end as equal, pk as place, case
      when type like '%int%' then 'integer'
      when upper(type) = 'ANY' or (select sql like '%collate%' from sqlite_schema where name = :table) then null
      when type like '%char%' or type like '%clob%' or type like '%text%' then 'text'
      when type like '%blob%' or type = '' then 'blob'
      when type like '%real%' or type like '%floa%' or type like '%doub%' then 'real'
      else 'numeric' end as comparable,
      case when other_collation then 'its values may be different in the key and alike in the column, by their collations' end
        as unordered
    from (
      select *, lower(trim(substr(type, 1, instr(type || '(', '(') - 1))) as base,
        pk > 0 and exists (
          select 1 from pragma_index_list(:table, 'main') i, pragma_index_xinfo(i.name, 'main') k
          where i.origin = 'pk' and k.key and upper(k.coll) = 'BINARY' and lower(k.name) = lower(c.name))
        and (select sql like '%collate%collate%' and sql like '%collate%binary%' from sqlite_schema where name = :table)
          as other_collation
      from pragma_table_xinfo(:table, 'main') c
    ) where hidden <> 1 order by cid";

/// A foreign key has the names as they're written, in any case. A key that names no columns refers to
/// the primary key.
const REFERENCES: &str = "with t as materialized (
      select name from pragma_table_list where schema = 'main' and type = 'table')
    select t.name, f.id, f.\"from\" as \"column\", p.name as parent, f.\"to\" as parent_column, f.seq + 1 as place
    from t
    join pragma_foreign_key_list(t.name, 'main') f
    join t p on p.name = f.\"table\" collate nocase
    order by t.name, f.id desc, f.seq";

/// `sqlite_sequence` has no row for a table before its first key, or if the row was deleted.
const AHEAD: &str = "select 1 as found from sqlite_schema s, pragma_table_info(s.name) c
    where s.type = 'table' and s.name = {table_text} collate nocase and s.sql like '%autoincrement%'
      and c.pk = 1 and c.name = {column_text} collate nocase and typeof(?2) = 'integer'
      and ?2 > coalesce((select seq from sqlite_sequence q where q.name = s.name), 0)
      and not exists (select 1 from {table} where {column} >= ?1)";

const REUSED: &str = "select 1 as found from sqlite_schema s, pragma_table_info(s.name) c
    where s.type = 'table' and s.name = ?1 collate nocase and s.sql not like '%autoincrement%'
      and s.sql not like '%without%rowid%' and c.pk = 1 and upper(c.type) = 'INTEGER'
      and c.name = ?2 collate nocase
      and 1 = (select count(*) from pragma_table_info(s.name) where pk > 0)";

/// A key that is the rowid has no index, so the second part reads the table's primary key.
const UNIQUE_KEYS: &str = "select 1 where 0 < (
      select count(*) from pragma_index_list(?1) i where i.\"unique\" and not i.partial and 0 = (
        select count(*) from pragma_index_info(i.name) k
        where k.name is null or lower(k.name) not in (select value from json_each(?2))))
    or 0 = (
      select max(lower(name) not in (select value from json_each(?2))) from pragma_table_info(?1) where pk > 0)";

/// An integer as the primary key has no index. Expressions of an index have no name. A table may have rowids.
const NO_UNIQUE_KEY: &str = "select 1 from pragma_table_list t
    where t.schema = 'main' and lower(t.name) = lower(?1) and t.type = 'table'
      and not exists (select 1 from json_each(?2) where value in ('rowid', 'oid', '_rowid_'))
      and not exists (
        select 1 from pragma_index_list(?1) i where i.\"unique\" and not exists (
          select 1 from pragma_index_info(i.name) k
          where k.name is not null and lower(k.name) not in (select value from json_each(?2))))
      and 0 <> coalesce((
        select max(lower(name) not in (select value from json_each(?2))) from pragma_table_info(?1) where pk > 0), 1)";

#[cfg(test)]
mod tests {
    use rowstream_core::sql::Sql;

    use super::*;

    fn parsed(text: &str) -> (String, String) {
        let sql = Sql::parse(text, &DIALECT).unwrap_or_else(|error| panic!("{text}: {error}"));
        (sql.text, sql.names.join(" "))
    }

    #[test]
    fn parameters() {
        for (text, expected, names) in [
            ("select [:a], :b", "select [:a], ?1", "b"),
            ("select [a'b], :b", "select [a'b], ?1", "b"),
            ("select `:a```, :b", "select `:a```, ?1", "b"),
            (r"select e'\', :b", r"select e'\', ?1", "b"),
            ("select /* a /* :b */ :c", "select /* a /* :b */ ?1", "c"),
            ("select a$b, :c", "select a$b, ?1", "c"),
            ("select a->>'$[0]', :c", "select a->>'$[0]', ?1", "c"),
        ] {
            assert_eq!(parsed(text), (expected.to_owned(), names.to_owned()), "{text}");
        }
    }

    /// The README's first example failed on SQLite: an absent optional `:maxEvents` is NULL, which
    /// SQLite refuses as a limit ("datatype mismatch"). So a parameter that is the whole limit or
    /// offset is replaced by a number if it's NULL. Part of an expression stays as it is.
    #[test]
    fn limits_may_be_null() {
        for (text, expected) in [
            ("select 1 LIMIT :n;", "select 1 LIMIT ifnull(?1, -1)"),
            (
                "select :n limit :n /* all */ offset :o -- none",
                "select ?1 limit ifnull(?1, -1) /* all */ offset ifnull(?2, -1) -- none",
            ),
            (
                "select 1 limit (:n) offset ((:o))",
                "select 1 limit (ifnull(?1, -1)) offset ((ifnull(?2, -1)))",
            ),
            ("select 1 limit :o, :n", "select 1 limit ifnull(?1, -1), ifnull(?2, -1)"),
            ("select 1 limit 10 + 5, :n", "select 1 limit 10 + 5, ifnull(?1, -1)"),
            ("select 1 limit max(1, 2), :n", "select 1 limit max(1, 2), ifnull(?1, -1)"),
            (
                "with a as (select 1 limit :n) select :m",
                "with a as (select 1 limit ifnull(?1, -1)) select ?2",
            ),
            ("select (select 1 limit :n), :m", "select (select 1 limit ifnull(?1, -1)), ?2"),
            ("select 1 limit min(:n, 10)", "select 1 limit min(?1, 10)"),
            ("select 1 limit coalesce(:n, 10)", "select 1 limit coalesce(?1, 10)"),
            ("select 1 limit :n + 1", "select 1 limit ?1 + 1"),
            ("select 1 limit (:n) + 1", "select 1 limit (?1) + 1"),
            ("select a, :n, :m from t where x in (:a, :b)", "select a, ?1, ?2 from t where x in (?3, ?4)"),
            ("select 'limit' :n", "select 'limit' ?1"),
        ] {
            assert_eq!(parsed(text).0, expected, "{text}");
        }
        // The text after the limit keeps its position in the file.
        let sql = Sql::parse("select 1 limit :n offset x", &DIALECT).unwrap();
        assert_eq!(sql.pieces, [(0, 0), ("select 1 limit ifnull(?1, -1)".len(), "select 1 limit :n".len())]);
    }
}
