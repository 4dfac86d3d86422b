//! Functions of the database's users that a statement calls.
//!
//! The text of a statement shows neither what such a function leaves in the session nor which tables
//! it reads. So we look its name up in the catalog, once for each source:
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

/// The functions that statements of a source call, by their names.
#[derive(Debug, Default)]
pub(in super::super) struct Functions(RwLock<BTreeMap<String, UserFunction>>);

impl Functions {
    fn unknown(&self, names: &[String]) -> Vec<String> {
        let known = self.0.read();
        let mut unknown: Vec<_> = names.iter().filter(|name| !known.contains_key(*name)).cloned().collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }

    /// Forgets all, because a migration may have replaced some.
    pub(in super::super) fn forget(&self) {
        self.0.write().clear();
    }

    fn learn(&self, names: Vec<String>, digits: &str) {
        let functions = digits.bytes().map(UserFunction::of_digit);
        self.0.write().extend(names.into_iter().zip(functions));
    }

    fn most(&self, names: &[String]) -> UserFunction {
        let known = self.0.read();
        names.iter().filter_map(|name| known.get(name).copied()).max().unwrap_or_default()
    }
}

impl Session {
    /// What the functions of users do that a statement calls. If the catalog can't be read, we know
    /// of none. Behind a pooler, each statement runs in a transaction anyway.
    pub(super) async fn functions_of(&mut self, sql: &str) -> UserFunction {
        let connection = self.connection();
        if connection.is_pooled || connection.other.is_some() {
            return UserFunction::None;
        }
        let names = Outline::new(sql, &DIALECT).map(|outline| outline.functions()).unwrap_or_default();
        let unknown = self.shared.functions.unknown(&names);
        if !unknown.is_empty()
            && let Ok(Some(row)) = self.run(&in_catalog(&unknown), 1).await
            && let Some(Some(digits)) = row.first()
        {
            self.shared.functions.learn(unknown, digits);
        }
        self.shared.functions.most(&names)
    }
}

/// A query that returns a digit for each of these names. Functions of extensions are left out.
fn in_catalog(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("'{}'", literal(name))).collect();
    format!(
        "select string_agg(most::text, '' order by place) from (select place, \
         max(case when p.oid is null then 0 when p.prosrc ~ 'pg_(try_)?advisory_lock' then 3 \
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
