//! Prepared statements: their cache on a connection, and the decoder chosen once for each column.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::BytesMut;
use postgres_protocol::message::{backend, frontend};
use postgres_types::Type;
use rowstream_core::lock::RwLock;
use rowstream_core::params::{BindType, ParamType};
use rowstream_core::sql::Outline;
use rowstream_database::Statement;
use rowstream_database::pipeline::DelayRecord;
use rowstream_database::statements::Statements;
use rowstream_encode::Column;

use super::dialect::DIALECT;
use super::error::DatabaseError;
use super::value::Decoder;

/// A statement as it's sent to the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SentStatement {
    /// Its text. A parameter may have several numbers in it.
    pub(super) text: Arc<str>,
    /// The types of its parameters, for those whose type we send.
    pub(super) types: Vec<u32>,
    /// The argument for each number; `None` if each number is its argument's own.
    pub(super) arguments: Option<Box<[usize]>>,
}

impl SentStatement {
    /// A statement as it is, without types.
    pub(super) fn plain(text: Arc<str>) -> Self {
        Self { text, types: Vec::new(), arguments: None }
    }
}

/// A statement that the server has prepared on one connection.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Its name on the server.
    pub(super) name: String,
    pub(super) statement: Statement,
    pub(super) sent: Arc<SentStatement>,
    pub(super) columns: Arc<[Column]>,
    /// One for each column.
    pub(super) decoders: Box<[Decoder]>,
    /// The columns that are refcursors.
    pub(super) refcursors: Box<[usize]>,
    /// The types of the columns that contain composites. We query the catalog for them each time.
    pub(super) composites: Box<[u32]>,
    /// The version of the types when it was described.
    pub(super) version: u64,
    pub(super) leaves: SessionEffect,
    /// The statement that plans it, if it calls functions of users.
    pub(super) plan: Option<String>,
    /// True once it has run to its end, or to that of a portion.
    pub(super) has_run: AtomicBool,
}

impl Prepared {
    /// Records that it has run.
    pub(super) fn note_run(&self) {
        self.has_run.store(true, Ordering::Relaxed);
    }

    /// True if an error shows that it can't be used any more. An error that it always had doesn't.
    pub(super) fn is_stale(&self, error: &DatabaseError) -> bool {
        let has_run = self.has_run.load(Ordering::Relaxed);
        error.is_stale_statement() || has_run && error.is_refused_again()
    }

    /// True if it should be prepared again, because it's stale, or perhaps only its parameters have
    /// other types now.
    pub(super) fn may_be_stale(&self, error: &DatabaseError) -> bool {
        self.is_stale(error) || self.has_run.load(Ordering::Relaxed) && error.is_of_value()
    }
}

/// Effects of a statement on its session that the next request would see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SessionEffect {
    Nothing,
    /// Settings, which a rollback undoes.
    Settings,
    /// Locks, which end with the session.
    Locks,
}

impl SessionEffect {
    /// Judges by the text of the statement. [`UserFunction`](super::session) has the effects of functions
    /// that users have made.
    pub(super) fn of(sql: &str) -> Self {
        let Some(outline) = Outline::new(sql, &DIALECT) else { return Self::Nothing };
        if outline.calls_any(&SESSION_LOCKS) {
            return Self::Locks;
        }
        if outline.calls_any(&["set_config"]) { Self::Settings } else { Self::Nothing }
    }
}

/// Functions that take locks for the session, and not for the transaction.
const SESSION_LOCKS: [&str; 4] =
    ["pg_advisory_lock", "pg_advisory_lock_shared", "pg_try_advisory_lock", "pg_try_advisory_lock_shared"];

/// A column of a result, as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    /// The OID of its type.
    pub(super) type_oid: u32,
    /// The limits of its values (`numeric(10, 2)`), in the type's own encoding; -1 for no limits.
    pub(super) modifier: i32,
}

impl Field {
    pub(super) fn new(column: &backend::Field<'_>) -> Self {
        let (type_oid, modifier) = (column.type_oid(), column.type_modifier());
        Self { name: column.name().to_owned(), type_oid, modifier }
    }

    /// True if its values are times of day, timestamps, intervals, or arrays of times or
    /// timestamps.
    pub(super) fn is_time(&self) -> bool {
        let times = [Type::TIME, Type::TIMETZ, Type::TIMESTAMP, Type::TIMESTAMPTZ, Type::INTERVAL];
        let lists = [Type::TIME_ARRAY, Type::TIMETZ_ARRAY, Type::TIMESTAMP_ARRAY, Type::TIMESTAMPTZ_ARRAY];
        times.iter().chain(&lists).any(|time| time.oid() == self.type_oid)
    }

    /// True if its values name cursors.
    pub(super) fn is_refcursor(&self) -> bool {
        self.type_oid == Type::REFCURSOR.oid()
    }

    /// True if the server still describes the column in the same way.
    pub(super) fn is(&self, column: &backend::Field<'_>) -> bool {
        let Self { name, type_oid, modifier } = self;
        (name.as_str(), *type_oid, *modifier) == (column.name(), column.type_oid(), column.type_modifier())
    }
}

/// The server's description of a statement. It's the same on all connections, until a migration.
#[derive(Debug)]
pub(super) struct StatementDescription {
    /// Identifies the description. A description of the same statement before a migration has
    /// another number.
    pub(super) number: u64,
    /// Its name on connections that lookups share. Other connections count names of their own.
    pub(super) shared_name: String,
    pub(super) statement: Statement,
    pub(super) sent: Arc<SentStatement>,
    /// Its columns, as the server describes them.
    pub(super) fields: Vec<Field>,
    pub(super) columns: Arc<[Column]>,
    pub(super) decoders: Box<[Decoder]>,
    /// False if its rows name cursors, which live in one response's transaction, or contain
    /// composites, for which we query the catalog.
    pub(super) is_shareable: bool,
    /// The version of the types when it was described.
    pub(super) version: u64,
    /// Records when it delays other lookups.
    pub(super) slow: DelayRecord,
}

/// The statements of a source that connections have described.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    known: RwLock<BTreeMap<Statement, Arc<StatementDescription>>>,
    /// Their forms that the server accepts.
    sent: RwLock<BTreeMap<Statement, Arc<SentStatement>>>,
    /// The number of descriptions so far.
    count: AtomicU64,
    names: Names,
}

/// The prefix of names of prepared statements. Each value has a random number: several of our
/// connections may share one session of the server, through a pooler that we don't know of, and a
/// statement must never run instead of another.
#[derive(Debug)]
struct Names(u64);

impl Default for Names {
    fn default() -> Self {
        Self(fastrand::u64(..))
    }
}

impl Names {
    fn name(&self, number: u64) -> String {
        format!("rowstream_{:x}_{number}", self.0)
    }
}

impl Descriptions {
    pub(super) fn get(&self, statement: &Statement) -> Option<Arc<StatementDescription>> {
        self.known.read().get(statement).cloned()
    }

    /// Keeps a description, unless it's known already. It replaces another description of the same
    /// statement.
    pub(super) fn learn(&self, prepared: &Prepared, fields: Vec<Field>) {
        let Prepared { version, sent, .. } = prepared;
        let same = |known: Arc<StatementDescription>| {
            known.sent == *sent && known.fields == fields && known.version == *version
        };
        if self.get(&prepared.statement).is_some_and(same) {
            return;
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let described = StatementDescription {
            number,
            shared_name: self.names.name(number),
            statement: prepared.statement.clone(),
            sent: Arc::clone(sent),
            fields,
            columns: Arc::clone(&prepared.columns),
            decoders: prepared.decoders.clone(),
            is_shareable: prepared.refcursors.is_empty() && prepared.composites.is_empty(),
            version: *version,
            slow: DelayRecord::default(),
        };
        self.known.write().insert(prepared.statement.clone(), Arc::new(described));
    }

    /// The form of a statement that the server has accepted.
    pub(super) fn sent(&self, statement: &Statement) -> Option<Arc<SentStatement>> {
        self.sent.read().get(statement).cloned()
    }

    /// Keeps the form of a statement that the server accepts.
    pub(super) fn learn_sent(&self, statement: &Statement, sent: &Arc<SentStatement>) {
        self.sent.write().insert(statement.clone(), Arc::clone(sent));
    }

    /// Forgets the forms of all statements, and the types in them.
    pub(super) fn forget_sent(&self) {
        self.sent.write().clear();
    }

    /// Forgets `described`, unless the statement has been described again meanwhile.
    pub(super) fn forget(&self, described: &Arc<StatementDescription>) {
        let mut known = self.known.write();
        if known.get(&described.statement).is_some_and(|other| Arc::ptr_eq(other, described)) {
            known.remove(&described.statement);
        }
    }
}

/// The prepared statements of one connection, and their names.
#[derive(Debug)]
pub(super) struct StatementCache {
    kept: Statements<Statement, Prepared>,
    /// Counts statements, for names that never repeat on a connection.
    named: u64,
    names: Names,
    /// The last name that we gave out, until its statement is kept. The server may have a statement
    /// with that name, which failed after it was parsed, or whose request was dropped.
    unclaimed: Option<String>,
}

impl StatementCache {
    pub(super) fn new(limit: usize) -> Self {
        Self { kept: Statements::new(limit), named: 0, names: Names::default(), unclaimed: None }
    }

    pub(super) fn get(&mut self, statement: &Statement) -> Option<Arc<Prepared>> {
        self.kept.get(statement)
    }

    /// A name for the next statement. If the previous name wasn't kept, we close it. That's no
    /// error, even if the server doesn't know it.
    pub(super) fn next_name(&mut self, write: &mut BytesMut) -> String {
        self.named += 1;
        let name = self.names.name(self.named);
        if let Some(unclaimed) = self.unclaimed.replace(name.clone()) {
            close(&unclaimed, write);
        }
        name
    }

    /// Keeps a statement. Messages that close the evicted ones on the server are appended to
    /// `write`.
    pub(super) fn insert(&mut self, prepared: Arc<Prepared>, write: &mut BytesMut) {
        self.unclaimed.take_if(|name| *name == prepared.name);
        let statement = prepared.statement.clone();
        let ad_hoc = statement.ad_hoc;
        self.kept.insert(statement, prepared, ad_hoc, |gone| close(&gone.name, write));
    }

    /// Forgets a statement and closes it on the server.
    pub(super) fn remove(&mut self, statement: &Statement, write: &mut BytesMut) {
        if let Some(gone) = self.kept.remove(statement) {
            close(&gone.name, write);
        }
    }
}

pub(super) fn close(name: &str, write: &mut BytesMut) {
    frontend::close(b'S', name, write).expect("our names hold no NUL");
}

/// The type that we send for a parameter if the server can't infer it from the statement: the
/// declared one, or 0 if none is declared.
pub(super) fn parameter_type(declared: BindType) -> u32 {
    match declared {
        BindType::One(kind) => element_type(kind).oid(),
        BindType::List(kind) => array_type(kind).oid(),
        BindType::Inferred => 0,
    }
}

/// True if a parameter may have another type than the server says. The server says text for a
/// parameter if the statement doesn't determine its type (`:a > :b`), just as for one that is
/// compared with a text.
pub(super) fn may_differ(declared: BindType, inferred: u32) -> bool {
    inferred == Type::TEXT.oid() && !matches!(declared, BindType::One(ParamType::Text) | BindType::Inferred)
}

fn element_type(kind: ParamType) -> Type {
    match kind {
        ParamType::Integer => Type::INT8,
        ParamType::Number => Type::NUMERIC,
        ParamType::Text => Type::TEXT,
        ParamType::Boolean => Type::BOOL,
        ParamType::Date => Type::DATE,
        ParamType::Timestamp => Type::TIMESTAMPTZ,
        ParamType::Duration => Type::INTERVAL,
        ParamType::Uuid => Type::UUID,
        ParamType::Json => Type::JSONB,
    }
}

fn array_type(kind: ParamType) -> Type {
    match kind {
        ParamType::Integer => Type::INT8_ARRAY,
        ParamType::Number => Type::NUMERIC_ARRAY,
        ParamType::Text => Type::TEXT_ARRAY,
        ParamType::Boolean => Type::BOOL_ARRAY,
        ParamType::Date => Type::DATE_ARRAY,
        ParamType::Timestamp => Type::TIMESTAMPTZ_ARRAY,
        ParamType::Duration => Type::INTERVAL_ARRAY,
        ParamType::Uuid => Type::UUID_ARRAY,
        ParamType::Json => Type::JSONB_ARRAY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Prepared {
        /// A statement without columns.
        pub(in super::super) fn of_test(sql: &str, version: u64) -> Self {
            let statement = Statement { sql: sql.into(), types: Vec::new(), ad_hoc: false };
            Self {
                name: String::new(),
                sent: Arc::new(SentStatement::plain(Arc::clone(&statement.sql))),
                statement,
                columns: Arc::new([]),
                decoders: Box::new([]),
                refcursors: Box::new([]),
                composites: Box::new([]),
                version,
                leaves: SessionEffect::Nothing,
                plan: None,
                has_run: AtomicBool::new(false),
            }
        }
    }

    fn has(cache: &mut StatementCache, sql: &str) -> bool {
        cache.get(&Prepared::of_test(sql, 0).statement).is_some()
    }

    fn prepared(cache: &mut StatementCache, sql: &str) -> Arc<Prepared> {
        let name = cache.next_name(&mut BytesMut::new());
        Arc::new(Prepared { name, ..Prepared::of_test(sql, 0) })
    }

    #[test]
    fn what_a_statement_leaves_is_known_by_its_functions() {
        for (sql, leaves) in [
            ("select set_config('a', $1, false)", SessionEffect::Settings),
            ("select PG_CATALOG.Set_Config ('a', $1, true)", SessionEffect::Settings),
            ("select \"set_config\"('a', $1, true)", SessionEffect::Settings),
            ("select pg_try_advisory_lock(1), set_config('a', 'b', false)", SessionEffect::Locks),
            ("select pg_advisory_xact_lock(1)", SessionEffect::Nothing),
            (
                "select 'set_config(' as set_config, set_config from t -- set_config('a'",
                SessionEffect::Nothing,
            ),
        ] {
            assert_eq!(SessionEffect::of(sql), leaves, "{sql}");
        }
    }

    #[test]
    fn the_least_recently_used_statement_is_closed_first() {
        let mut cache = StatementCache::new(2);
        let mut write = BytesMut::new();
        let [a, b] = ["a", "b"].map(|sql| prepared(&mut cache, sql));
        let second = b.name.clone();
        [a, b].into_iter().for_each(|statement| cache.insert(statement, &mut write));
        assert!(write.is_empty());
        assert!(has(&mut cache, "a"));
        let third = prepared(&mut cache, "c");
        cache.insert(third, &mut write);
        assert!(!has(&mut cache, "b") && has(&mut cache, "a") && has(&mut cache, "c"));
        assert_eq!(&write[5..], format!("S{second}\0").as_bytes());
    }

    #[test]
    fn a_statement_in_use_stays_beyond_the_limit() {
        let mut cache = StatementCache::new(1);
        let mut write = BytesMut::new();
        let held = prepared(&mut cache, "a");
        cache.insert(Arc::clone(&held), &mut write);
        let second = prepared(&mut cache, "b");
        cache.insert(second, &mut write);
        assert!(write.is_empty() && has(&mut cache, "a") && has(&mut cache, "b"));
        drop(held);
        let third = prepared(&mut cache, "c");
        cache.insert(third, &mut write);
        assert!(!has(&mut cache, "a") && !has(&mut cache, "b") && has(&mut cache, "c"));
    }

    #[test]
    fn a_name_that_nobody_kept_is_closed() {
        let mut cache = StatementCache::new(1);
        let mut write = BytesMut::new();
        let first = cache.next_name(&mut write);
        assert!(write.is_empty());
        assert_ne!(cache.next_name(&mut write), first);
        assert_eq!(&write[5..], format!("S{first}\0").as_bytes());
        assert_ne!(StatementCache::new(1).next_name(&mut write), first);
    }
}
