//! Functions of the database's users that a statement calls, itself or by views and policies.
//!
//! The text of a statement shows neither what such a function leaves in the session nor which tables
//! it reads. So we look its names up in the catalog, once for each version of a source's types: its
//! functions, and the views that it may read, with the views below them. Policies of tables have
//! functions, too.
//!
//! - If a function is volatile, or if a text calls `set_config`, the statement may change settings. It runs
//!   in a transaction that is rolled back, and then the session gives its locks up.
//! - If a text takes a lock of the session, or prepares or drops statements, the connection is closed
//!   after it, because no rollback undoes that.
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

/// The most that the functions or views of one name do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UserFunction {
    /// No user has made one, or they call none.
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

/// The functions that statements of a source call. A migration may replace some, so they are known
/// for one version of the types.
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

    /// The most that these functions do, of those that are known.
    fn most(&self, names: &[String], version: u64) -> UserFunction {
        let known = self.0.read();
        let of_version = names.iter().filter(|_| known.version == version);
        of_version.filter_map(|name| known.by_name.get(name).copied()).max().unwrap_or_default()
    }
}

impl Session {
    /// Looks up the functions and views of a statement, and returns the strongest effect of those that
    /// users have made. If the catalog can't be read, it finds none. Behind a pooler, each statement runs in a
    /// transaction anyway.
    pub(super) async fn functions_of(&mut self, sql: &str) -> UserFunction {
        let connection = self.connection();
        if connection.is_pooled || connection.other.is_some() {
            return UserFunction::None;
        }
        let names = Outline::new(sql, &DIALECT).map(|outline| names(&outline)).unwrap_or_default();
        let version = self.shared.types.version();
        let unknown = self.shared.functions.unknown(&names, version);
        let mut most = self.shared.functions.most(&names, version);
        if !unknown.is_empty()
            && let Ok(Some(row)) = self.run(&in_catalog(&unknown), 1).await
            && let Some(Some(digits)) = row.first()
        {
            let functions = digits.bytes().map(UserFunction::of_digit);
            let found: Vec<_> = unknown.into_iter().zip(functions).collect();
            most = found.iter().map(|&(_, function)| function).fold(most, Ord::max);
            self.shared.functions.learn(found, version);
        }
        most
    }
}

/// The names to look up. Those of functions end in `(`. A function may be called like a column of the
/// row: `t.f`.
fn names(outline: &Outline<'_>) -> Vec<String> {
    let functions = outline.functions_or_columns().into_iter();
    let functions = functions.map(|name| format!("{}(", name.strip_prefix('.').unwrap_or(&name)));
    functions.chain(outline.names()).collect()
}

/// A query that returns a digit for each of these names.
fn in_catalog(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("'{}'", literal(name))).collect();
    EFFECTS.replace("{holds}", HOLDS).replace("{names}", &names.join(", "))
}

/// In a text, a lock of the session, or a statement that changes its prepared ones.
const HOLDS: &str =
    r"pg_(try_)?advisory_lock|\m(prepare\s+\S+\s*(\(|as\M)|deallocate\s|discard\s+(plans|all))";

/// The digits of names. `used` has the rules of the views, and the policies, that a statement with a name
/// reads. pg_depend doesn't list functions that are built in, so we look at the texts, too. Functions of
/// extensions are left out. A function with a body of standard SQL (`begin atomic`) has no source, only
/// a definition.
const EFFECTS: &str = "with recursive
    named as (select name, place from unnest(array[{names}]::text[]) with ordinality n(name, place)),
    rule as (
      select 'pg_catalog.pg_rewrite'::regclass as kind, r.oid as id, c.oid as relation
      from pg_catalog.pg_rewrite r join pg_catalog.pg_class c on c.oid = r.ev_class
      where r.ev_type = '1' and c.relkind = 'v'
        and c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
      union all
      select 'pg_catalog.pg_policy'::regclass, p.oid, c.oid
      from pg_catalog.pg_policy p join pg_catalog.pg_class c on c.oid = p.polrelid
      where p.polcmd in ('r', '*') and c.relrowsecurity
    ),
    used as (
      select named.place, rule.* from named
      join pg_catalog.pg_class c on c.relname = named.name join rule on rule.relation = c.oid
      union
      select used.place, rule.* from used
      join pg_catalog.pg_depend d on d.classid = used.kind and d.objid = used.id
        and d.refclassid = 'pg_catalog.pg_class'::regclass
      join rule on rule.relation = d.refobjid
    ),
    called as (
      select named.place, p.oid as id from named
      join pg_catalog.pg_proc p on p.proname = left(named.name, -1) and named.name like '%('
      union
      select used.place, d.refobjid from used
      join pg_catalog.pg_depend d on d.classid = used.kind and d.objid = used.id
        and d.refclassid = 'pg_catalog.pg_proc'::regclass
    ),
    part as (
      select place, 0 as at_least, case kind when 'pg_catalog.pg_rewrite'::regclass then pg_get_viewdef(relation)
        else (select pg_get_expr(p.polqual, p.polrelid) from pg_catalog.pg_policy p where p.oid = id) end as source
      from used
      union all
      select place, case p.provolatile when 'v' then 2 else 1 end,
        coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid))
      from called join pg_catalog.pg_proc p on p.oid = called.id
      where p.pronamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
        and not exists (select from pg_catalog.pg_depend d
          where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
    )
    select string_agg(most::text, '' order by place) from (
      select place, coalesce(max(case when source ~* '{holds}' then 3
        when source ~* 'set_config\\s*\\(' then 2 else at_least end), 0) as most
      from named left join part using (place) group by place
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
}
