//! What is MySQL's and MariaDB's own in SQL, as data.

use crate::sql::dialect::{
    Around, BlockComments, Commits, Comparison, Decimals, Dialect, Functions, Keys, LineComment, Location,
    Names, ParameterTypes, Placeholders, Quotes, Refusal, Strings, Syntax, TableName, UniqueKeys, Urls,
};

/// MySQL's SQL, as MariaDB has it too.
pub static DIALECT: Dialect = Dialect {
    name: "MySQL",
    urls: Urls {
        schemes: &["mysql", "mariadb"],
        location: Location::Server,
        example: "mysql://user@host/database",
    },
    syntax: Syntax {
        quote: '`',
        identifiers: &[Quotes::Doubled(b'`')],
        strings: &[Strings::Backslash],
        line_comments: &[LineComment::DashesAndBlank, LineComment::Hash],
        block_comments: BlockComments::Flat,
        line_ends: b"\n",
        // `@x` is a variable of the session, and no parameter.
        variables: b"?",
        names: Names::Caseless,
    },
    placeholders: Placeholders::ByOccurrence,
    parameter_types: ParameterTypes::Declared,
    decimals: Decimals::Exact,
    // A limit takes no expression: what is bound to one that is not given is all rows.
    null_limit: None,
    keys: Keys {
        cast: Around::NOTHING,
        // Indexes are not searched for rows that are compared as such.
        comparison: Comparison::ByColumn,
        bytes: Err("take a key of texts or numbers: `hex(c) as c` is in the same order"),
    },
    commits: Commits {
        ordered: Err(Refusal {
            message: "MySQL's transactions commit in any order, so a row could become visible after the key of one that was sent",
            hint: "promise that rows become visible in the order of their keys, where one writer at a time sees to that: \
                   `follow = { commits = \"ordered\" }`",
        }),
        transactions: Err(Refusal {
            message: "`transaction` is for PostgreSQL",
            hint: "where rows become visible in the order of their keys, write `follow = { commits = \"ordered\" }`",
        }),
        channel: Err(Refusal {
            message: "`channel` is for PostgreSQL",
            hint: "MySQL notifies nobody: it is asked every `poll`",
        }),
    },
    refcursors: Err(Refusal {
        message: "MySQL has no refcursors",
        hint: "they are PostgreSQL's: write a statement for each list",
    }),
    unique_keys: Some(UniqueKeys {
        query: UNIQUE_KEYS,
        table: TableName::Bare,
        functions: Functions::MakeValues,
    }),
    catalog: None,
};

/// A part of a key that is an expression has no column.
const UNIQUE_KEYS: &str = "select 1 as found from information_schema.statistics
    where table_schema = database() and table_name = ? and non_unique = 0
    group by index_name
    having 0 = sum(coalesce(json_contains(lower(?), json_quote(lower(column_name))), 0) = 0)
    limit 1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Sql;

    fn parsed(text: &str) -> (String, String) {
        crate::sql::tests::parsed(text, &DIALECT)
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
}
