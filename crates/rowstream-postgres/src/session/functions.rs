//! Functions of the database's users that a statement calls.
//!
//! The text of a statement shows neither what such a function leaves in the session nor which tables
//! it reads. So we look its name up in the catalog, once for each version of a source's types:
//!
//! - If it's volatile, it may change settings (`set_config`). Its statement runs in a transaction that
//!   is rolled back.
//! - If its source takes a lock of the session, the connection is closed after it.
//! - If it's written in SQL, PostgreSQL may make it a part of the statement, and locks its tables when
//!   it plans that. Several statements are planned before their snapshot counts ([`rewritten`]).
//!
//! Functions that are called by these functions or by views aren't seen, nor are their tables.
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

/// The most that the functions of one name do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UserFunction {
    /// No user has made one.
    #[default]
    None,
    /// It reads.
    Reads,
    /// It may change settings.
    Sets,
    /// It takes locks of the session.
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
    /// Looks up the functions that a statement calls, and returns the strongest effect of those that users
    /// have made. If the catalog can't be read, it finds none. Behind a pooler, each statement runs in a
    /// transaction anyway.
    pub(super) async fn functions_of(&mut self, sql: &str) -> UserFunction {
        let connection = self.connection();
        if connection.is_pooled || connection.other.is_some() {
            return UserFunction::None;
        }
        let names = Outline::new(sql, &DIALECT).map(|outline| outline.functions()).unwrap_or_default();
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

/// A query that returns a digit for each of these names. Functions of extensions are left out. A
/// function with a body of standard SQL (`begin atomic`) has no source, only a definition.
fn in_catalog(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("'{}'", literal(name))).collect();
    format!(
        "select string_agg(most::text, '' order by place) from (select place, \
         max(case when p.oid is null then 0 \
         when coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid)) ~ 'pg_(try_)?advisory_lock' then 3 \
         when p.provolatile = 'v' then 2 else 1 end) as most \
         from unnest(array[{}]::text[]) with ordinality n(name, place) \
         left join pg_catalog.pg_proc p on p.proname = n.name and p.pronamespace not in \
         ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) and not exists (select \
         from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid \
         and d.deptype = 'e') group by place) f",
        names.join(", ")
    )
}

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
