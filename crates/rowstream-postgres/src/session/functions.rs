//! Functions of the database's users that a statement calls, itself or by views and policies.
//!
//! The text of a statement shows neither what such a function leaves in the session nor which tables
//! it reads. So we look its names up in the catalog, once for each version of a source's types: its
//! functions, and the views that it may read, with the views below them. Policies of tables have
//! functions, too.
//!
//! - If a function is volatile, or if the source of a function, a view or a policy calls `set_config`, the
//!   statement may change settings. It runs in a transaction that is rolled back, and then the session
//!   releases its locks.
//! - If a source takes a lock of the session, or prepares or drops statements, the connection is closed
//!   after the statement, because no rollback undoes that.
//! - If a function is written in SQL, PostgreSQL may make it a part of the statement, and locks its
//!   tables when it plans that. Several statements are planned before their snapshot counts
//!   ([`rewritten`]).
//!
//! Functions that these functions call aren't seen, nor are their tables, nor functions of operators and
//! casts.
//!
//! [`rewritten`]: super::rewritten

use std::collections::BTreeMap;
use std::iter::repeat_n;

use rowstream_core::lock::RwLock;
use rowstream_core::sql::Outline;

use super::super::dialect::DIALECT;
use super::super::statement::SessionEffect;
use super::Session;
use super::parts::literal;

/// The strongest effect of the functions and views of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UserFunction {
    /// No function or view of a user has the name, or the view has no effect.
    #[default]
    None,
    /// It reads.
    Reads,
    /// It may change settings.
    Sets,
    /// It takes locks of the session, or changes its prepared statements.
    Locks,
}

impl UserFunction {
    fn of_digit(digit: u8) -> Self {
        match digit {
            b'1' => Self::Reads,
            b'2' => Self::Sets,
            b'3' => Self::Locks,
            _ => Self::None,
        }
    }

    /// Its effect on the session.
    pub(super) fn leaves(self) -> SessionEffect {
        match self {
            Self::None | Self::Reads => SessionEffect::Nothing,
            Self::Sets => SessionEffect::Settings,
            Self::Locks => SessionEffect::Locks,
        }
    }
}

/// The effects of the functions, views and policies that statements of a source name. A migration may replace
/// some, so they're known for one version of the types.
#[derive(Debug, Default)]
pub(in super::super) struct Functions(RwLock<KnownFunctions>);

#[derive(Debug, Default)]
struct KnownFunctions {
    version: u64,
    by_name: BTreeMap<String, UserFunction>,
}

impl Functions {
    fn unknown(&self, names: &[String], version: u64) -> Vec<String> {
        let known = self.0.read();
        let is_unknown = |name: &&String| known.version != version || !known.by_name.contains_key(*name);
        let mut unknown: Vec<_> = names.iter().filter(is_unknown).cloned().collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }

    /// Keeps an answer to a query that we sent in this version, unless a later version is known.
    fn learn(&self, found: Vec<(String, UserFunction)>, version: u64) {
        let mut known = self.0.write();
        if known.version < version {
            *known = KnownFunctions { version, ..KnownFunctions::default() };
        }
        if known.version == version {
            known.by_name.extend(found);
        }
    }

    /// The strongest effect of these names, of those that are known.
    fn most(&self, names: &[String], version: u64) -> UserFunction {
        let known = self.0.read();
        let of_version = names.iter().filter(|_| known.version == version);
        of_version.filter_map(|name| known.by_name.get(name).copied()).max().unwrap_or_default()
    }
}

impl Session {
    /// Looks up the functions and views of a statement, and returns the strongest effect of those that
    /// users have made. If the catalog can't be read, that's the strongest of all. Behind a pooler, each statement
    /// runs in a transaction anyway.
    pub(super) async fn functions_of(&mut self, sql: &str) -> UserFunction {
        let connection = self.connection();
        if connection.is_pooled || connection.other.is_some() {
            return UserFunction::None;
        }
        let names = Outline::new(sql, &DIALECT).map(|outline| names(&outline)).unwrap_or_default();
        let version = self.shared.types.version();
        let unknown = self.shared.functions.unknown(&names, version);
        let known = self.shared.functions.most(&names, version);
        if unknown.is_empty() {
            return known;
        }
        let row = self.run(&in_catalog(&unknown), 1).await;
        let Some(digits) = row.ok().flatten().and_then(|row| row.into_iter().next().flatten()) else {
            return UserFunction::Locks;
        };
        let functions = digits.bytes().map(UserFunction::of_digit);
        let found: Vec<_> = unknown.into_iter().zip(functions).collect();
        let most = found.iter().map(|&(_, function)| function).fold(known, Ord::max);
        self.shared.functions.learn(found, version);
        most
    }
}

/// The names to look up. Those of functions end in `(`. A function may be called like a column of the
/// row: `t.f`.
fn names(outline: &Outline<'_>) -> Vec<String> {
    let functions = outline.functions_or_columns().into_iter();
    let functions = functions.map(|name| format!("{}(", name.strip_prefix('.').unwrap_or(&name)));
    functions.chain(outline.tables_or_columns()).collect()
}

/// A query that returns a digit for each of these names.
fn in_catalog(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("'{}'", literal(name))).collect();
    EFFECTS
        .replace("{permanent}", PERMANENT)
        .replace("{rules of named}", &RULES.replace("{relation}", "c.oid"))
        .replace("{rules of used}", &RULES.replace("{relation}", "d.refobjid"))
        .replace("{names}", &names.join(", "))
}

/// Matches a source that takes a lock of the session, or changes its prepared statements.
const PERMANENT: &str =
    r"pg_(try_)?advisory_lock|\m(prepare\s+\S+\s*(\(|as\M)|deallocate\s|discard\s+(plans|all))";

/// The rule of a view, and the policies of a table.
const RULES: &str = "lateral (
        select 'pg_catalog.pg_rewrite'::regclass as kind, r.oid as id
        from pg_catalog.pg_rewrite r join pg_catalog.pg_class v on v.oid = r.ev_class
        where r.ev_class = {relation} and r.ev_type = '1' and v.relkind = 'v'
          and v.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
        union all
        select 'pg_catalog.pg_policy'::regclass, p.oid
        from pg_catalog.pg_policy p join pg_catalog.pg_class t on t.oid = p.polrelid
        where p.polrelid = {relation} and p.polcmd in ('r', '*') and t.relrowsecurity
      ) rule";

/// Returns a digit for each name, see [`UserFunction::of_digit`]. `used` has the rules of views and the policies
/// that count if a statement has this name. pg_depend doesn't list functions that are built in, so we look
/// for their numbers in the trees of rules and policies. Functions of extensions are left out. A function
/// with a body of standard SQL (`begin atomic`) has no source, only a definition.
const EFFECTS: &str = "with recursive
    named as (select name, place from unnest(array[{names}]::text[]) with ordinality n(name, place)),
    used as (
      select named.place, rule.* from named
      join pg_catalog.pg_class c on c.relname = named.name::name cross join {rules of named}
      union
      select used.place, rule.* from used
      join pg_catalog.pg_depend d on d.classid = used.kind and d.objid = used.id
        and d.refclassid = 'pg_catalog.pg_class'::regclass
      cross join {rules of used}
    ),
    tree as (
      select used.place, r.ev_action::text as text from used
      join pg_catalog.pg_rewrite r on r.oid = used.id and used.kind = 'pg_catalog.pg_rewrite'::regclass
      union all
      select used.place, p.polqual::text from used
      join pg_catalog.pg_policy p on p.oid = used.id and used.kind = 'pg_catalog.pg_policy'::regclass
    ),
    called as (
      select named.place, p.oid as id from named
      join pg_catalog.pg_proc p on p.proname = left(named.name, -1)::name and named.name like '%('
      union
      select used.place, d.refobjid from used
      join pg_catalog.pg_depend d on d.classid = used.kind and d.objid = used.id
        and d.refclassid = 'pg_catalog.pg_proc'::regclass
    ),
    effect as (
      select tree.place, case p.proname when 'set_config' then 2 else 3 end as most
      from tree join pg_catalog.pg_proc p on p.pronamespace = 'pg_catalog'::regnamespace
        and (p.proname = 'set_config' or p.proname ~ '^pg_(try_)?advisory_lock')
        and strpos(tree.text, ':funcid ' || p.oid || ' ') > 0
      union all
      select called.place, case when source.text ~* '{permanent}' then 3
        when source.text ~* 'set_config\\s*\\(' or p.provolatile = 'v' then 2 else 1 end
      from called join pg_catalog.pg_proc p on p.oid = called.id,
        lateral (select coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid)) as text) source
      where p.pronamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
        and not exists (select from pg_catalog.pg_depend d
          where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
    )
    select string_agg(most::text, '' order by place) from (
      select place, coalesce(max(most), 0) as most
      from named left join effect using (place) group by place
    ) of_name";

/// The statement that plans a prepared statement, and so locks the tables of its functions.
pub(super) fn plan(name: &str, parameters: usize) -> String {
    let nulls: Vec<_> = repeat_n("null", parameters).collect();
    match nulls.is_empty() {
        true => format!("explain execute {name}"),
        false => format!("explain execute {name}({})", nulls.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer could arrive after a reload, and was kept although it was from before.
    #[test]
    fn an_answer_of_an_earlier_version_is_not_kept() {
        let functions = Functions::default();
        let names = ["f".to_owned()];
        let found = |function| vec![("f".to_owned(), function)];
        functions.learn(found(UserFunction::Reads), 0);
        assert_eq!(functions.most(&names, 0), UserFunction::Reads);
        assert_eq!(
            (functions.most(&names, 1), functions.unknown(&names, 1)),
            (UserFunction::None, names.to_vec())
        );
        functions.learn(found(UserFunction::Locks), 1);
        functions.learn(found(UserFunction::Reads), 0);
        assert_eq!(
            (functions.most(&names, 1), functions.unknown(&names, 1)),
            (UserFunction::Locks, Vec::new())
        );
    }

    /// Each name is looked up and kept, so a client must not choose any: `select=x1:id`.
    #[test]
    fn aliases_are_not_looked_up() {
        let sql = "select \"id\" as \"x1\", \"n\" as \"v\" from (\nselect * from t join s.u on true, f(1), only w\n) \
            as rowstream where \"n\" = $1";
        let names = names(&Outline::new(sql, &DIALECT).expect("an outline"));
        let has = |name: &&str| names.iter().any(|known| known == name);
        assert!(["t", "u", "f(", "w"].iter().all(has), "{names:?}");
        assert!(!["x1", "v", "rowstream"].iter().any(has), "{names:?}");
    }
}
