//! PostgreSQL's SQL, as data.

use rowstream_core::sql::Operator;
use rowstream_core::sql::dialect::{
    Affixes, BlockComments, Catalog, CommitOrder, Commits, Counters, Decimals, Dialect, Estimate, Filters,
    Functions, Infinities, KeyComparison, Keys, LineComment, Lists, Location, Names, NullOrder,
    OpenedResults, OperatorSql, OwnOrder, ParameterTypes, Parts, Placeholders, Refusal, Strings, Syntax,
    TableName, Transactions, UniqueKeys, UnorderedTypes, Urls, ValueForm,
};

use crate::estimate;

/// The dialect of PostgreSQL and of servers that speak its protocol.
pub static DIALECT: Dialect = Dialect {
    name: "PostgreSQL",
    urls: Urls {
        schemes: &["postgres", "postgresql"],
        location: Location::Server,
        example: "postgres://user@host/database",
        variables: super::libpq::VARIABLES,
        password_places: &["PGPASSWORD", "~/.pgpass"],
    },
    // Brackets are subscripts here, and a colon in them belongs to a slice.
    syntax: Syntax {
        quote: '"',
        identifiers: &[],
        strings: &[Strings::Escape, Strings::Dollar],
        line_comments: &[LineComment::Dashes],
        block_comments: BlockComments::Nested,
        line_ends: b"\n\r",
        variables: b"$",
        names: Names::Exact,
    },
    placeholders: Placeholders::ByNumber('$'),
    parameter_types: ParameterTypes::Inferred,
    // 131,072 digits before the point, and 16,383 behind it.
    decimals: Decimals::Exact(147_455),
    null_limit: None,
    lists: Lists::Arrays,
    keys: Keys {
        cast: Affixes { before: "", behind: "::text" },
        of_union: Affixes::NOTHING,
        comparison: KeyComparison::RowValues,
        infinities: Infinities::Refused,
        bytes: Ok(()),
        alike: &[],
        unordered: &[
            UnorderedTypes {
                types: NUMBERS_WITH_NAMES,
                longest: 0,
                why: "PostgreSQL compares as numbers and writes as names",
                hint: "select the number, `c::oid as c`, or the name, `c::text as c`",
            },
            // `order by` finds the type's own operators in any schema, and `>` only in the search_path.
            UnorderedTypes {
                types: &[".citext"],
                longest: 0,
                why: "PostgreSQL ignores case when it sorts but not when it compares, because the schema of \
                    `citext` isn't in the search_path",
                hint: "add the schema to the search_path, `?options=-c search_path=public,extensions` in the URL, or select \
                       the text, `c::text as c`",
            },
        ],
    },
    filters: Ok(FILTERS),
    writes: &[
        &["for", "update"],
        &["for", "no", "key", "update"],
        &["for", "share"],
        &["for", "key", "share"],
        &["insert", "into"],
        &["merge", "into"],
    ],
    commits: Commits {
        order: CommitOrder::IfPromised(Refusal {
            message: "PostgreSQL's transactions commit in any order, so a row could become visible after the key of one that was sent",
            hint: "name the column of type xid8 that holds each row's transaction, `follow = { transaction = \"…\" }`, or promise that rows \
                   become visible in the order of their keys: `follow = { commits = \"ordered\" }`",
        }),
        // PostgreSQL manual, "Transaction ID and Snapshot Information Functions".
        transactions: Ok(Transactions {
            horizon: "pg_snapshot_xmin(pg_current_snapshot())",
            yet_to_come: "pg_snapshot_xmax(pg_current_snapshot())",
            ahead: "select 1 as found where not pg_is_in_recovery() and $1::xid8 >= pg_snapshot_xmax(pg_current_snapshot())",
        }),
        channel: Ok(()),
        counters: Some(Counters {
            ahead: AHEAD,
            table: TableName::AsWritten,
            lapse: (
                IN_BLOCKS,
                Refusal {
                    message: "the sequence of the key has a `cache`, so each session takes a block of \
                        numbers, and a row with a lower number may appear after a follower has passed it",
                    hint: "write `alter sequence … cache 1`, or follow the transactions: `follow = { transaction = \"…\" }`",
                },
            ),
        }),
    },
    refcursors: Ok(OpenedResults::Refcursors),
    interleaved: Ok(()),
    snapshots: Ok(()),
    parts: Ok(Parts {
        condition: ["ctid >= ", "::tid and ctid < ", "::tid"],
        place: "ctid::text",
        // The planner doesn't look into a CASE for conditions of an index or for joins.
        opaque: Affixes { before: "case when ", behind: " then true end" },
        refusals: NO_PARTS,
    }),
    explain: Some("explain "),
    estimate: Some(Estimate { explain: "explain ", rows: estimate::rows }),
    unique_keys: Some(UniqueKeys {
        query: UNIQUE_KEYS,
        missing: NO_UNIQUE_KEY,
        table: TableName::AsWritten,
        functions: Functions::RepeatRows,
    }),
    catalog: Some(Catalog { tables: TABLES, columns: COLUMNS, misfit: None, references: REFERENCES }),
};

/// Types that PostgreSQL compares as numbers and writes as names.
const NUMBERS_WITH_NAMES: &[&str] = &[
    "regclass",
    "regcollation",
    "regconfig",
    "regdictionary",
    "regnamespace",
    "regoper",
    "regoperator",
    "regproc",
    "regprocedure",
    "regrole",
    "regtype",
];

/// The database infers the type of each value from its column.
const FILTERS: Filters = Filters {
    operators: &[
        OperatorSql { operator: Operator::Like, sql: "{c} like {v}", value: ValueForm::Like },
        OperatorSql { operator: Operator::Ilike, sql: "{c} ilike {v}", value: ValueForm::Like },
        OperatorSql { operator: Operator::Match, sql: "{c} ~ {v}", value: ValueForm::Unchanged },
        OperatorSql { operator: Operator::Imatch, sql: "{c} ~* {v}", value: ValueForm::Unchanged },
        OperatorSql { operator: Operator::Cs, sql: "{c} @> {v}", value: ValueForm::Unchanged },
        OperatorSql { operator: Operator::Cd, sql: "{c} <@ {v}", value: ValueForm::Unchanged },
        OperatorSql { operator: Operator::Ov, sql: "{c} && {v}", value: ValueForm::Unchanged },
    ],
    untyped: None,
    cast: NUMBERS_WITH_NAMES,
    times: None,
    // `is null` is also true for a composite of NULLs, and `is not null` false for one with a NULL. The
    // parser makes the same test of these.
    null_tests: ["is not distinct from null", "is distinct from null"],
    nulls: NullOrder::Greatest,
    own_order: OwnOrder::STANDARD,
};

/// The tables and views that a statement finds by bare name in the schemas of `search_path`, if the
/// role may read some of their columns. The rows of a partition belong to its table.
const TABLES: &str = "select c.relname::text as name, case when c.relkind in ('v', 'm') then 'view' else 'table' end as kind
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
      and n.nspname = any (current_schemas(false)) and pg_table_is_visible(c.oid) and has_any_column_privilege(c.oid, 'select')
    order by c.relname collate \"C\"";

/// The columns that the role may read, and the key if it may read all of it. A column whose type no
/// parameter has becomes a text. We cast to the type without its length, which would cut the text. A
/// composite can't be read back from a cursor.
const COLUMNS: &str = "select a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type, case
      when t.typtype in ('c', 'p') then null
      when t.oid in (20, 21, 23) then 'integer'
      when t.oid in (700, 701, 1700) then 'number'
      when t.oid = 16 then 'boolean'
      when t.oid = 1082 then 'date'
      when t.oid = 1114 then 'local'
      when t.oid = 1184 then 'timestamp'
      when t.oid = 2950 then 'uuid'
      else 'text' end as param, case
      when t.oid not in (16, 20, 21, 23, 25, 1043, 1082, 1184, 1700, 2950) then format_type(a.atttypid, -1)
      end as cast, coalesce(key.place, 0) as place,
      case when not inherited.is_so then a.atttypid::text || ' ' || a.attcollation::text end as comparable, case
      when inherited.is_so then 'other tables inherit from this one, whose rows may have the same key'
      when base.typtype = 'b' and base.typname like 'reg%' and base.typnamespace = 'pg_catalog'::regnamespace
        then base.typname || ' values are compared as numbers and written as names'
      when t.typtype = 'd' and base.typtype = 'e' then 'domains of enums are not compared'
      when exists (
          select from pg_opclass o join pg_amop m on m.amopfamily = o.opcfamily and m.amopmethod = o.opcmethod
            join pg_operator g on g.oid = m.amopopr
          where o.opcintype = base.oid and o.opcdefault and m.amoplefttype = base.oid and m.amoprighttype = base.oid
            and m.amopmethod = 403 and m.amopstrategy = 5 and (g.oprname <> '>' or not pg_operator_is_visible(g.oid)))
        then 'the operators of ' || base.typname || ' are not in the search_path, or not called < and >'
      end as unordered
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    join lateral (
      with recursive of(oid) as (
        select t.oid union all select d.typbasetype from of join pg_type d on d.oid = of.oid where d.typtype = 'd')
      select b.* from of join pg_type b on b.oid = of.oid where b.typtype <> 'd'
    ) base on true
    cross join lateral (
      select exists (
        select from pg_inherits h join pg_class c on c.oid = h.inhparent where c.oid = a.attrelid and c.relkind = 'r') as is_so
    ) inherited
    left join (
      select i.indrelid, k.number, k.place from pg_index i, unnest(i.indkey) with ordinality k(number, place)
      where i.indisprimary and k.place <= i.indnkeyatts
        and (select bool_and(has_column_privilege(i.indrelid, own.number, 'select'))
          from unnest(i.indkey) with ordinality own(number, place) where own.place <= i.indnkeyatts)
    ) key on key.indrelid = a.attrelid and key.number = a.attnum
    where a.attrelid = to_regclass(quote_ident(:table)) and a.attnum > 0 and not a.attisdropped
      and has_column_privilege(a.attrelid, a.attnum, 'select')
    order by a.attnum";

/// A key of a partitioned table, or to one, has copies for its partitions.
const REFERENCES: &str =
    "select c.relname::text as name, k.oid::text as id, a.attname::text as column, p.relname::text as parent,
      b.attname::text as parent_column, pair.place
    from pg_constraint k
    join pg_class c on c.oid = k.conrelid and not c.relispartition and pg_table_is_visible(c.oid)
    join pg_class p on p.oid = k.confrelid and not p.relispartition and pg_table_is_visible(p.oid)
    cross join unnest(k.conkey, k.confkey) with ordinality pair(own, other, place)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = pair.own
    join pg_attribute b on b.attrelid = p.oid and b.attnum = pair.other
    where k.contype = 'f'
    order by c.relname collate \"C\", k.conname collate \"C\", k.oid, pair.place";

/// Statements that can't be read in parts. A part is a range of `ctid`, which PostgreSQL reads by a
/// Tid Range Scan since version 14. An aggregate would have a result for each part. A plan doesn't
/// always show one (`max(id)` is an index scan), so we refuse its name in every call.
const NO_PARTS: &[(&str, Refusal)] = &[
    (
        "select 1 where current_setting('server_version_num')::int < 140000 and $1::text is not null and $2::text[] is not null",
        Refusal {
            message: "PostgreSQL reads parts of a table from version 14 on",
            hint: "leave out `parallel` and `shards`",
        },
    ),
    (
        "select 1 where $2::text[] is not null and not exists (
           select from pg_class where oid = to_regclass($1) and relkind = 'r')",
        Refusal {
            message: "only ordinary tables are read in parts: no views, materialized views, partitioned or foreign tables, nor functions",
            hint: "select from the table, or leave out `parallel` and `shards`",
        },
    ),
    (
        "select 1 from pg_inherits where inhparent = to_regclass($1) and $2::text[] is not null",
        Refusal {
            message: "other tables inherit from this one, and their rows would be read with it",
            hint: "select from one of them, or leave out `parallel` and `shards`",
        },
    ),
    (
        "select 1 where $1::text is not null and ($2::text[] && array['json_arrayagg', 'json_objectagg']
           or exists (
             select from pg_proc p where p.prokind in ('a', 'w') and (p.proname::text = any ($2)
               or '.' || p.proname = any ($2) and not exists (
                 select from pg_attribute a
                 where a.attrelid = to_regclass($1) and a.attname = p.proname and not a.attisdropped))))",
        Refusal {
            message: "the statement calls an aggregate or a window function, which would have a result for each part",
            hint: "select only rows of the table, or leave out `parallel` and `shards`",
        },
    ),
];

/// Finds nothing for a sequence that this role may not read, and nothing on a replica, which may
/// lag behind the primary. A sequence that was restarted has no last value.
const AHEAD: &str = "select 1 as found from pg_sequence s
    where s.seqrelid = pg_get_serial_sequence({table_text}, {column_text})::regclass
      and s.seqincrement > 0 and not s.seqcycle and case
        when pg_is_in_recovery() or not has_sequence_privilege(s.seqrelid, 'usage, select') or $2::text !~ '^[0-9]+$' then false
        else $2::text::numeric > coalesce(pg_sequence_last_value(s.seqrelid), s.seqstart - 1) end
      and not exists (select from {table} where {column} >= $1)";

const IN_BLOCKS: &str = "select 1 from pg_sequence s
    where s.seqrelid = pg_get_serial_sequence($1, $2)::regclass and s.seqcache > 1";

/// Reading a table also returns the rows of the tables that inherit from it, but its indexes don't
/// include them.
const UNIQUE_KEYS: &str = "select 1 from pg_index i join pg_class c on c.oid = i.indrelid
    where i.indrelid = to_regclass($1) and i.indisunique and i.indisvalid and i.indpred is null
      and (c.relkind = 'p' or not c.relhassubclass)
      and not exists (
        select from unnest(i.indkey) with ordinality k(number, place)
        left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
        where k.place <= i.indnkeyatts and (a.attname is null or a.attname::text <> all ($2)))
      and not exists (select from pg_proc where proretset and proname::text = any ($3))
    limit 1";

/// An exclusion constraint may make rows unique, too. The columns of an expression have the number 0.
const NO_UNIQUE_KEY: &str = "select 1 from pg_class c
    where c.oid = to_regclass($1) and c.relkind in ('r', 'p') and 'ctid' <> all ($2)
      and not exists (select from pg_constraint x where x.conrelid = c.oid and x.contype = 'x')
      and not exists (
        select from pg_index i where i.indrelid = c.oid and i.indisunique and not exists (
          select from unnest(i.indkey) with ordinality k(number, place)
          join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
          where k.place <= i.indnkeyatts and a.attname::text <> all ($2)))";

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
            (r"select E'it\'s :a', :b", r"select E'it\'s :a', $1", "b"),
            (r"select e'\\', :b", r"select e'\\', $1", "b"),
            (r"select e'''', :b", r"select e'''', $1", "b"),
            ("select e'x'\n'\\' :a', :b", "select e'x'\n'\\' :a', $1", "b"),
            ("select e'x' -- it's\n  '\\' :a', :b", "select e'x' -- it's\n  '\\' :a', $1", "b"),
            (r"select e'x' '\', :b", r"select e'x' '\', $1", "b"),
            (r"select e'x' - '\', :b", r"select e'x' - '\', $1", "b"),
            (r"select some'\', :b", r"select some'\', $1", "b"),
            ("select $$ :a ' $$, :b", "select $$ :a ' $$, $1", "b"),
            ("select $q$ :a $$ $Q$ $q$, :b", "select $q$ :a $$ $Q$ $q$, $1", "b"),
            ("select $größe$ :a $größe$, :b", "select $größe$ :a $größe$, $1", "b"),
            ("select a$b$c, :d, e$b$", "select a$b$c, $1, e$b$", "d"),
            ("select /* a /* :b */ :c */ :d", "select /* a /* :b */ :c */ $1", "d"),
            ("select 1 -- :a\r, :b", "select 1 -- :a\r, $1", "b"),
            ("select a[1:2]", "select a[1:2]", ""),
            ("select a[x:y]", "select a[x:y]", ""),
            ("select a[1:n]", "select a[1:n]", ""),
            ("select a[f(1):n]", "select a[f(1):n]", ""),
            ("select a[b[1]:n]", "select a[b[1]:n]", ""),
            ("select a[\"x\":n]", "select a[\"x\":n]", ""),
            ("select a['1':n]", "select a['1':n]", ""),
            ("select a[ß:n]", "select a[ß:n]", ""),
            ("select a[:n]", "select a[$1]", "n"),
            ("select a[:m:n]", "select a[$1:n]", "m"),
            ("select a[1 : :n]", "select a[1 : $1]", "n"),
            ("select a[:m : :n]", "select a[$1 : $2]", "m n"),
            ("select a[1: :n]", "select a[1: $1]", "n"),
            ("select a[1:]", "select a[1:]", ""),
            ("select a[:n::int]", "select a[$1::int]", "n"),
            ("select a[1], b :n", "select a[1], b $1", "n"),
            ("select array[1,:n], x(:m)", "select array[1,$1], x($2)", "n m"),
            ("select a ? 'b', c ?| d, e ?& f, g @> :h", "select a ? 'b', c ?| d, e ?& f, g @> $1", "h"),
            ("select a  :b, c @? d, e #>> :f", "select a  $1, c @? d, e #>> $2", "b f"),
            ("select @ -5 + :a", "select @ -5 + $1", "a"),
            ("select `a :b", "select `a $1", "b"),
        ] {
            assert_eq!(parsed(text), (expected.to_owned(), names.to_owned()), "{text}");
        }
        assert_eq!(parsed("select 1 limit :n offset :o").0, "select 1 limit $1 offset $2");
    }
}
