//! The databases, with each way to query them and their differences as data: the form of values,
//! and unsupported features.

use rowstream::database::DatabaseKind;
use rowstream_core::sql::dialect::Dialect;

/// The database that contains the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Sqlite,
    Postgres,
    MariaDb,
    DuckDb,
    Sail,
}

/// A database and the driver to query it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) engine: Engine,
    pub(super) by: DatabaseKind,
}

/// Features that not every database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// A parameter of this type.
    Parameter(&'static str),
    /// `_after` a row.
    Resume,
    /// A limit and an offset that are missing.
    AbsentLimit,
    /// Rows nested in another statement's rows.
    Nested,
    /// Several statements in one body.
    Statements,
    /// `_follow`.
    Follow,
}

/// The place where an unsupported feature is refused, with the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// By `check`, so such an endpoint is never served.
    ByCheck(&'static str),
    /// By the driver, which can't tell earlier. Each request gets an error status.
    WhenAsked(&'static str),
}

/// The values of the table `typed` whose form differs between databases.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) number: &'static str,
    pub(super) boolean: &'static str,
    pub(super) instant: &'static str,
    pub(super) time: &'static str,
    pub(super) uuid: &'static str,
    pub(super) document: &'static str,
    /// A computed integer that isn't a column.
    pub(super) computed: fn(usize) -> String,
}

/// PostgreSQL's form.
const WRITTEN: Written = Written {
    number: "1234.5",
    boolean: "true",
    instant: r#""2024-02-29T12:00:00.25Z""#,
    time: r#""12:00:00.5""#,
    uuid: r#""5f0c5f0c-0000-4000-8000-000000000001""#,
    document: r#"{"a": [1, 2.50]}"#,
    computed: |n| n.to_string(),
};
/// A document, if the driver treats it as any text.
const DOCUMENT_AS_TEXT: &str = r#""{\"a\": [1, 2.50]}""#;
/// An instant in the session's zone, which the driver doesn't report.
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

    /// The name in the documentation.
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

    /// The refusal of this feature. `None` if it's supported.
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

    /// Limitations of the engine or the driver, which no dialect describes.
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
            // When preparing, its driver needs the type of the value that a row is compared with.
            (Engine::Postgres, DatabaseKind::Adbc, Ask::Resume) => "operator does not exist",
            (_, DatabaseKind::Odbc, Ask::Parameter(list)) if list.ends_with("[]") => "ODBC has no lists",
            _ => return None,
        };
        Some(Refused::ByCheck(said))
    }

    /// The number of rows before the failing one, so that some rows have been sent by then. `None`
    /// if the driver reads all rows before it returns one.
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
                // The driver returns a text if the value has no limit in Arrow.
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
            // SQLite only has types for columns, so its driver treats all other values as texts.
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
