//! The databases, each by each way to it, and in what they differ, as data: how a value is written,
//! and what cannot be asked of one.

use rowstream::database::DatabaseKind;
use rowstream_core::sql::dialect::Dialect;

/// What holds the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Sqlite,
    Postgres,
    MariaDb,
    DuckDb,
    Sail,
}

/// A database and by what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) engine: Engine,
    pub(super) by: DatabaseKind,
}

/// What not every database can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// A parameter of this type.
    Parameter(&'static str),
    /// `_after` a row.
    Resume,
    /// A limit and an offset that are not given.
    AbsentLimit,
    /// Rows in the rows of another statement.
    Nested,
    /// Several statements in one body.
    Statements,
    /// `_follow`.
    Follow,
}

/// Who refuses what cannot be done, and what is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// `check`, so that no such endpoint is served.
    ByCheck(&'static str),
    /// The driver, which knows it no sooner: each request has a status that says so.
    WhenAsked(&'static str),
}

/// How the values of the table `typed` are written, where databases differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) number: &'static str,
    pub(super) boolean: &'static str,
    pub(super) instant: &'static str,
    pub(super) time: &'static str,
    pub(super) uuid: &'static str,
    pub(super) document: &'static str,
    /// An integer that is computed, and no column.
    pub(super) computed: fn(usize) -> String,
}

/// As PostgreSQL writes them.
const WRITTEN: Written = Written {
    number: "1234.5",
    boolean: "true",
    instant: r#""2024-02-29T12:00:00.25Z""#,
    time: r#""12:00:00.5""#,
    uuid: r#""5f0c5f0c-0000-4000-8000-000000000001""#,
    document: r#"{"a": [1, 2.50]}"#,
    computed: |n| n.to_string(),
};
/// A document that the driver takes for any text.
const DOCUMENT_AS_TEXT: &str = r#""{\"a\": [1, 2.50]}""#;
/// An instant in the zone of the session, which the driver does not say.
const INSTANT_WITHOUT_ZONE: &str = r#""2024-02-29T12:00:00.25""#;

impl Way {
    pub(super) const ALL: [Self; 10] = [
        Self::of(Engine::Postgres, DatabaseKind::Postgres),
        Self::of(Engine::Sqlite, DatabaseKind::Sqlite),
        Self::of(Engine::MariaDb, DatabaseKind::Mysql),
        Self::of(Engine::DuckDb, DatabaseKind::Adbc),
        Self::of(Engine::Postgres, DatabaseKind::Adbc),
        Self::of(Engine::Sail, DatabaseKind::Adbc),
        Self::of(Engine::Postgres, DatabaseKind::Odbc),
        Self::of(Engine::MariaDb, DatabaseKind::Odbc),
        Self::of(Engine::Sqlite, DatabaseKind::Odbc),
        Self::of(Engine::Sail, DatabaseKind::Flight),
    ];

    pub(super) const fn of(engine: Engine, by: DatabaseKind) -> Self {
        Self { engine, by }
    }

    pub(super) fn dialect(self) -> &'static Dialect {
        self.by.dialect()
    }

    /// For those who read the documentation.
    pub(super) fn name(self) -> String {
        let engine = match self.engine {
            Engine::Sqlite => "SQLite",
            Engine::Postgres => "PostgreSQL",
            Engine::MariaDb => "MariaDB",
            Engine::DuckDb => "DuckDB",
            Engine::Sail => "Sail",
        };
        match self.by {
            DatabaseKind::Adbc | DatabaseKind::Odbc | DatabaseKind::Flight => {
                format!("{engine} by {}", self.dialect().name)
            }
            _ => engine.to_owned(),
        }
    }

    /// What is said where this is asked for; `None`: it can be done.
    pub(super) fn refuses(self, ask: Ask) -> Option<Refused> {
        let dialect = self.dialect();
        let refusal = match ask {
            Ask::Nested => dialect.interleaved.err(),
            Ask::Statements => dialect.snapshots.err(),
            Ask::Follow => dialect.commits.order.check(true).err(),
            Ask::Parameter(_) | Ask::Resume | Ask::AbsentLimit => None,
        };
        refusal.map(|refusal| Refused::ByCheck(refusal.message)).or_else(|| self.lacks(ask))
    }

    /// What no dialect says, because it is the engine's or the driver's.
    fn lacks(self, ask: Ask) -> Option<Refused> {
        let said = match (self.engine, self.by, ask) {
            (Engine::Sail, DatabaseKind::Adbc, Ask::Statements) => {
                return Some(Refused::WhenAsked("does not report transaction support"));
            }
            (Engine::Sail, DatabaseKind::Adbc, Ask::Parameter(_) | Ask::Resume | Ask::AbsentLimit) => {
                "do_action_create_prepared_statement"
            }
            (Engine::Sail, _, Ask::Parameter(_) | Ask::Resume | Ask::AbsentLimit) => {
                "doesn't prepare statements"
            }
            // Its driver wants the type of what a row is compared with when it prepares.
            (Engine::Postgres, DatabaseKind::Adbc, Ask::Resume) => "operator does not exist",
            (_, DatabaseKind::Odbc, Ask::Parameter(list)) if list.ends_with("[]") => "ODBC has no lists",
            _ => return None,
        };
        Some(Refused::ByCheck(said))
    }

    /// How many rows a statement has before the one that fails, so that some are sent by then;
    /// `None`: the driver has all rows before it gives one.
    pub(super) fn rows_before_an_error(self) -> Option<usize> {
        match (self.engine, self.by) {
            (Engine::Sqlite | Engine::MariaDb, DatabaseKind::Odbc) => None,
            // It begins with 16 MB of rows.
            (Engine::Postgres, DatabaseKind::Adbc) => Some(1_500_000),
            // DuckDB begins with a megabyte.
            _ => Some(200_000),
        }
    }

    pub(super) fn written(self) -> Written {
        match (self.engine, self.by) {
            (Engine::MariaDb, DatabaseKind::Mysql) => Written { boolean: "1", ..WRITTEN },
            (Engine::DuckDb | Engine::Sail, _) => Written { document: DOCUMENT_AS_TEXT, ..WRITTEN },
            (Engine::Postgres, DatabaseKind::Adbc) => Written {
                // The driver has a text of what has no bound in Arrow.
                number: r#""1234.5""#,
                document: DOCUMENT_AS_TEXT,
                ..WRITTEN
            },
            (Engine::Postgres, DatabaseKind::Odbc) => {
                Written { instant: INSTANT_WITHOUT_ZONE, document: DOCUMENT_AS_TEXT, ..WRITTEN }
            }
            (Engine::MariaDb, DatabaseKind::Odbc) => Written {
                boolean: "1",
                instant: INSTANT_WITHOUT_ZONE,
                time: r#""12:00:00.500000""#,
                document: DOCUMENT_AS_TEXT,
                ..WRITTEN
            },
            // SQLite has types of columns alone, and its driver takes all others for texts.
            (Engine::Sqlite, DatabaseKind::Odbc) => Written {
                number: r#""1234.5""#,
                instant: INSTANT_WITHOUT_ZONE,
                computed: |n| format!("\"{n}\""),
                ..WRITTEN
            },
            _ => WRITTEN,
        }
    }
}
