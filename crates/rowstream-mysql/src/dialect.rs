//! The SQL of MySQL and MariaDB, as data.

use rowstream_core::sql::Operator;
use rowstream_core::sql::dialect::{
    Affixes, BlockComments, Catalog, CommitOrder, Commits, Counters, Decimals, Dialect, Estimate, Filters,
    Functions, Infinities, KeyComparison, Keys, LineComment, Lists, Location, Names, NullOrder,
    OpenedResults, OperatorSql, OwnOrder, ParameterTypes, Placeholders, Quotes, Refusal, Strings, Syntax,
    TableName, UniqueKeys, UnorderedTypes, Urls, ValueForm,
};

use crate::estimate;

/// The dialect of MySQL and MariaDB.
pub static DIALECT: Dialect = Dialect {
    name: "MySQL",
    urls: Urls {
        schemes: &["mysql", "mariadb"],
        location: Location::Server,
        example: "mysql://user@host/database",
        variables: &[],
        password_places: &[],
    },
    syntax: Syntax {
        quote: '`',
        identifiers: &[Quotes::Doubled(b'`')],
        strings: &[Strings::Backslash],
        line_comments: &[LineComment::DashesAndBlank, LineComment::Hash],
        block_comments: BlockComments::FlatOrExecuted,
        line_ends: b"\n",
        // `@x` is a variable of the session, not a parameter.
        variables: b"?",
        names: Names::Caseless,
    },
    placeholders: Placeholders::ByOccurrence,
    parameter_types: ParameterTypes::Declared,
    decimals: Decimals::Exact(65),
    // A limit can't be an expression. If its parameter is NULL, we bind the number for all rows.
    null_limit: None,
    lists: Lists::Texts(list_items),
    keys: Keys {
        cast: Affixes::NOTHING,
        // The database doesn't use indexes to compare whole rows.
        of_union: Affixes::NOTHING,
        comparison: KeyComparison::ByColumn,
        infinities: Infinities::Refused,
        bytes: Err("use a key of texts or numbers: `hex(c) as c` is in the same order"),
        alike: &[],
        unordered: &[
            UnorderedTypes {
                types: &["enum", "set"],
                longest: 0,
                why: "MySQL and MariaDB sort by number and compare as texts",
                hint: "select the text, `cast(state as char) as state`",
            },
            // The sort key of 255 characters is at most as long as our sessions' `max_sort_length`.
            UnorderedTypes {
                types: &["char", "varchar", "text"],
                longest: 255,
                why: "MySQL and MariaDB sort only by the beginning of long ones",
                hint: "use a key of numbers or of at most 255 characters: select `left(c, 255) as c`, and \
                    add another column that makes rows unique, `key = [\"c\", \"id\"]`",
            },
        ],
    },
    filters: Ok(FILTERS),
    writes: &[&["for", "update"], &["insert", "into"]],
    commits: Commits {
        order: CommitOrder::IfPromised(Refusal {
            message: "MySQL's transactions commit in any order, so a row could become visible after the key of one that was sent",
            hint: "if one writer at a time makes rows visible in the order of their keys, promise it: \
                `follow = { commits = \"ordered\" }`",
        }),
        transactions: Err(Refusal {
            message: "`transaction` is for PostgreSQL",
            hint: "if rows become visible in the order of their keys, write `follow = { commits = \
                \"ordered\" }`",
        }),
        channel: Err(Refusal {
            message: "`channel` is for PostgreSQL",
            hint: "MySQL sends no notifications: we query it every `poll`",
        }),
        counters: Some(Counters {
            ahead: AHEAD,
            table: TableName::Bare,
            lapse: (
                INTERLEAVED,
                Refusal {
                    message: "several servers issue the key's numbers in turn (`auto_increment_increment`), so a row \
                        with a lower number may appear after a follower has passed it",
                    hint: "follow a key that one server issues",
                },
            ),
        }),
    },
    refcursors: Ok(OpenedResults::Results),
    interleaved: Ok(()),
    snapshots: Ok(()),
    parts: Err(Refusal {
        message: "connections of MySQL and MariaDB can't read one snapshot together, so parts of a table \
            would show different states",
        hint: "leave out `parallel` and `shards`",
    }),
    explain: Some("explain "),
    estimate: Some(Estimate { explain: "explain format=json ", rows: estimate::rows }),
    unique_keys: Some(UniqueKeys {
        query: UNIQUE_KEYS,
        missing: NO_UNIQUE_KEY,
        table: TableName::Bare,
        functions: Functions::MakeValues,
    }),
    catalog: Some(Catalog { tables: TABLES, columns: COLUMNS, misfit: None, references: REFERENCES }),
};

/// The items of a list, in a type that compares as the list's.
fn list_items(list: &str, kind: &str) -> String {
    let column = match kind {
        "integer" => "bigint",
        "number" => "decimal(65, 20)",
        "timestamp" => "datetime(6)",
        "boolean" | "date" | "json" => kind,
        _ => "varchar(1000)",
    };
    format!("select v from json_table(:{list}, '$[*]' columns (v {column} path '$')) as l")
}

/// Collations usually ignore case. The first half of `like` can use an index, the second is exact.
const FILTERS: Filters = Filters {
    operators: &[
        OperatorSql {
            operator: Operator::Like,
            sql: "({c} like {v} and convert({c} using utf8mb4) collate utf8mb4_bin like {v})",
            value: ValueForm::Like,
        },
        OperatorSql {
            operator: Operator::Ilike,
            sql: "lower(convert({c} using utf8mb4)) collate utf8mb4_bin like lower({v})",
            value: ValueForm::Like,
        },
    ],
    untyped: None,
    cast: &[],
    times: None,
    null_tests: Filters::NULL_TESTS,
    nulls: NullOrder::Least,
    own_order: OwnOrder { quote: '`', nulls: None },
};

/// Finds a row if a key is beyond the counter of its table. MySQL ignores the comment `/*M! … */` and finds
/// none, because its catalog returns old counters. MariaDB finds none on a replica, which may be behind, or
/// if several servers issue numbers.
const AHEAD: &str = "select 1 as found from information_schema.tables t
    where t.table_schema = database() and t.table_name = {table_text} and cast(? as decimal(20)) >= t.auto_increment
      and exists (
        select 1 from information_schema.columns c
        where c.table_schema = database() and c.table_name = {table_text} and c.column_name = {column_text}
          and c.extra like '%auto_increment%')
      and not exists (select 1 from {table} where {column} >= cast(? as decimal(20)))
      and (1 = 0 /*M! or cast(@@global.read_only as char) in ('0', 'OFF') and @@global.auto_increment_increment = 1
        and @@global.gtid_slave_pos = '' */)";

/// Finds a row if several servers issue the numbers of a column.
const INTERLEAVED: &str = "select 1 as found from information_schema.columns
    where table_schema = database() and table_name = ? and column_name = ? and extra like '%auto_increment%'
      and @@global.auto_increment_increment > 1";

/// The tables and views that a user may read in the URL's database, and views without columns: their
/// tables are gone. The catalog compares names without regard to capital letters, so they aren't in the
/// order of their bytes.
const TABLES: &str = "select t.table_name as name, if(t.table_type = 'VIEW', 'view', 'table') as kind
    from information_schema.tables t
    where t.table_schema = database() and t.table_type in ('BASE TABLE', 'SYSTEM VERSIONED', 'VIEW')
      and coalesce((
        select max(find_in_set('select', c.privileges) > 0) from information_schema.columns c
        where c.table_schema = t.table_schema and c.table_name = t.table_name), t.table_type = 'VIEW')
    order by cast(t.table_name as binary)";

/// MariaDB sorts the three collations of latin7 with another blank than it compares them. It also
/// sorts a char in a collation without padding with blanks at its end, and compares it without them.
///
/// If a text is cast to a time, the database compares it as a time. A float isn't exactly equal to
/// its digits, and bytes and documents can't be parameters.
const COLUMNS: &str = "select c.column_name as name, c.column_type as type, case
      when c.data_type in ('tinyint', 'smallint', 'mediumint', 'int', 'year') then 'integer'
      when c.data_type = 'bigint' then if(c.column_type like '%unsigned%', 'number', 'integer')
      when c.data_type in ('decimal', 'double', 'bit') then 'number'
      when c.data_type in ('date', 'timestamp', 'uuid') then c.data_type
      when c.data_type = 'datetime' then 'local'
      when c.data_type in ('time', 'char', 'varchar', 'tinytext', 'text', 'mediumtext', 'longtext',
        'enum', 'set', 'inet4', 'inet6') then 'text'
      end as param, case
      when c.data_type in ('datetime', 'time') then concat(c.data_type, '(6)')
      end as `cast`, coalesce(k.seq_in_index, 0) as place,
      concat_ws(' ', case
        when c.data_type like '%int' or c.data_type like '%char' or c.data_type like '%text'
          then concat(c.data_type, if(c.column_type like '%unsigned%', ' unsigned', ''))
        else c.column_type end, c.collation_name) as comparable, case
      when c.data_type in ('enum', 'set') then concat(c.data_type, 's are sorted by number and compared as texts')
      when c.character_maximum_length > 255 then 'texts of more than 255 characters are sorted by their beginning'
      when c.collation_name in ('latin7_general_ci', 'latin7_general_cs', 'latin7_estonian_cs')
          or c.data_type = 'char' and c.collation_name like '%nopad%'
        then concat(c.data_type, 's in ', c.collation_name, ' are sorted otherwise than compared')
      end as unordered
    from information_schema.columns c
    left join information_schema.statistics k on k.table_schema = c.table_schema and k.table_name = c.table_name
      and cast(k.table_name as binary) = cast(c.table_name as binary)
      and k.index_name = 'PRIMARY' and k.column_name = c.column_name
    where c.table_schema = database() and c.table_name = :table
      and cast(c.table_name as binary) = cast(:table as binary) and find_in_set('select', c.privileges)
    order by c.ordinal_position";

/// MySQL hides the columns of a key that the role can't read, so a key could look whole without them.
const REFERENCES: &str =
    "select table_name as name, constraint_name as id, column_name as `column`, referenced_table_name as parent,
      referenced_column_name as parent_column, ordinal_position as place
    from information_schema.key_column_usage
    where table_schema = database() and referenced_table_schema = database()
      and table_name not in (
        select table_name from information_schema.column_privileges
        where table_schema = database() and privilege_type = 'SELECT'
          and grantee = concat('''', replace(current_user(), '@', '''@'''), ''''))
    order by cast(table_name as binary), cast(constraint_name as binary), ordinal_position";

/// If a part of a key is an expression, it has no column.
const UNIQUE_KEYS: &str = "select 1 as found from information_schema.statistics
    where table_schema = database() and table_name = ? and non_unique = 0
    group by index_name
    having 0 = sum(coalesce(json_contains(lower(?), json_quote(lower(column_name))), 0) = 0)
    limit 1";

/// Expressions of an index have no name.
const NO_UNIQUE_KEY: &str = "select 1 as found from information_schema.tables t
    where t.table_schema = database() and t.table_name = ? and t.table_type in ('BASE TABLE', 'SYSTEM VERSIONED')
      and not exists (
        select 1 from information_schema.statistics s
        where s.table_schema = t.table_schema and s.table_name = t.table_name and s.non_unique = 0
        group by s.index_name
        having 0 = sum(coalesce(json_contains(lower(?), json_quote(lower(s.column_name))) = 0, 0)))";

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
            (r"select 'it\'s :a', :b", r"select 'it\'s :a', ?", "b"),
            (r#"select "it's \" :a", :b"#, r#"select "it's \" :a", ?"#, "b"),
            (r"select '\\', :b", r"select '\\', ?", "b"),
            ("select 'a''b :c', :d", "select 'a''b :c', ?", "d"),
            ("select `:a```, `\\`, :b", "select `:a```, `\\`, ?", "b"),
            ("select 1 # :a\n, :b", "select 1 # :a\n, ?", "b"),
            ("select 1 -- :a\n, :b", "select 1 -- :a\n, ?", "b"),
            ("select 1--:b", "select 1--?", "b"),
            ("select 1 /* :a /* */, :b", "select 1 /* :a /* */, ?", "b"),
            ("select :a, :b, :a", "select ?, ?, ?", "a b a"),
            ("select @x := 1, @@sql_mode, :a", "select @x := 1, @@sql_mode, ?", "a"),
            ("select 1 limit :n offset :o", "select 1 limit ? offset ?", "n o"),
            ("select $$ from t where a = :b", "select $$ from t where a = ?", "b"),
        ] {
            assert_eq!(parsed(text), (expected.to_owned(), names.to_owned()), "{text}");
        }
        assert!(Sql::parse("select ?", &DIALECT).is_err());
    }

    #[test]
    fn types_whose_order_is_another() {
        let is_unordered = |name: &str| DIALECT.keys.unordered.iter().any(|other| other.has(name));
        for name in ["enum", "set", "text", "varchar(256)", "char(300)"] {
            assert!(is_unordered(name), "{name}");
        }
        for name in
            ["varchar(255)", "char(36)", "uuid", "inet6", "bigint unsigned", "decimal(30,10)", "bit(8)"]
        {
            assert!(!is_unordered(name), "{name}");
        }
    }

    /// The server executes their content as SQL, whose strings and placeholders we wouldn't see.
    #[test]
    fn comments_that_are_executed_are_refused() {
        for text in [
            "select /*! :a, */ 1",
            "select /*!50000 ?, */ :b",
            "select 1 /*M!100100 limit 5 */",
            "select /*! '*/' :a */ 1",
        ] {
            let error = Sql::parse(text, &DIALECT).unwrap_err();
            assert_eq!(&text[error.offset..][..2], "/*", "{text}");
            assert!(error.message.contains("executes"), "{text}: {error}");
        }
        for text in ["select /*+ hint */ 1", "select /* ! */ 1", "select '/*! :a */'", "select 1 -- /*! :a"] {
            assert_eq!(parsed(text), (text.to_owned(), String::new()), "{text}");
        }
    }
}
