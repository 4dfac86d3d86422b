//! The smallest database, in some 130 lines. It shows the requirements for a database: [`memory`]
//! implements the traits, and its own list generates the enums. Its placeholders have no numbers.

#![allow(dead_code, private_interfaces, unreachable_pub, reason = "the list is for a server, not for a test")]

use std::future::poll_fn;

use rowstream_core::params::ParamType;
use rowstream_core::pool::{Pool, Waiter};
use rowstream_core::sql::Sql;
use rowstream_core::sql::dialect::samples;
use rowstream_database::{NoAnswer, NoParts};
use rowstream_encode::{ColumnKind, RowEncoder, Shape, Value};

use super::*;

mod memory {
    use super::*;

    /// A list of numbers. Each statement returns all of them, followed by its arguments.
    #[derive(Clone)]
    pub(in crate::database) struct Source {
        name: String,
        pool: Pool<()>,
        rows: Arc<[i64]>,
    }

    pub(in crate::database) struct Session {
        rows: Arc<[i64]>,
        runs: Vec<(usize, Vec<i64>)>,
    }

    pub(in crate::database) struct Row<'a>(&'a i64);

    pub(in crate::database) struct Layout(i64);

    pub(in crate::database) struct Changes;

    impl Database for Source {
        type Connection = ();
        type Session = Session;
        type Answer = NoAnswer<Session>;
        type Parts = NoParts<Session>;
        type Changes = Changes;
        type Probe = Changes;

        const DIALECT: &'static Dialect = &samples::ANONYMOUS;
        const SIZES: Sizes =
            Sizes { idle: 0, session: |settings| settings.max_row_bytes, portion: |row| row };

        fn open(settings: &SourceSettings) -> Result<Self, Error> {
            let rows = settings.url.split(',').filter_map(|number| number.parse().ok()).collect();
            let pool = Pool::new(&settings.name, settings.pool.clone());
            Ok(Self { name: settings.name.clone(), pool, rows })
        }

        fn name(&self) -> &str {
            &self.name
        }

        fn pool(&self) -> &Pool<()> {
            &self.pool
        }

        fn probe(&self) -> Changes {
            Changes
        }

        async fn acquire(&self, _: Snapshot, _: Priority, _: Patience<'_>) -> Result<Session, Error> {
            Ok(Session { rows: Arc::clone(&self.rows), runs: Vec::new() })
        }

        async fn changes(&self, _: Option<&str>, _: Duration) -> Result<Changes, Error> {
            Ok(Changes)
        }
    }

    impl DatabaseSession for Session {
        type Row<'a> = Row<'a>;

        async fn prepare(&mut self, _: &Statement) -> Result<Arc<[Column]>, Error> {
            Ok([Column { name: "n".into(), type_name: "int".into(), kind: ColumnKind::Int64 }].into())
        }

        fn execute(&mut self, index: usize, args: &[&ParamValue]) {
            self.execute_interleaved(&[(index, args.to_vec())]);
        }

        fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
            self.poll_row_of(0, cx)
        }

        fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
            let number = |arg: &&ParamValue| match arg {
                ParamValue::Integer(number) => *number,
                _ => 0,
            };
            self.runs = runs.iter().map(|(_, args)| (0, args.iter().map(number).collect())).collect();
        }

        fn poll_row_of(&mut self, which: usize, _: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
            let (next, args) = &mut self.runs[which];
            let row = self.rows.iter().chain(&*args).nth(*next).map(Row);
            *next += 1;
            Poll::Ready(Ok(row))
        }
    }

    impl DatabaseRow for Row<'_> {
        type Layout = Layout;

        fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
            encoder.begin_row(out);
            encoder.value(Value::Int(*self.0), out);
            encoder.end_row(out);
            Ok(())
        }

        fn layout(&self) -> Layout {
            Layout(0)
        }

        fn bytes(&self) -> &[u8] {
            &[]
        }
    }

    impl RowLayout for Layout {
        type Row<'a> = Row<'a>;

        fn row<'a>(&'a mut self, _: &'a [u8]) -> Row<'a> {
            Row(&self.0)
        }
    }

    impl Ping for Changes {
        async fn ask(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    impl ChangeSource for Changes {
        const IS_LOST_FOR_GOOD: bool = false;

        async fn next(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }
}

databases! {
    /// Numbers in memory.
    Memory => memory,
}

/// The rows of a session as lines of JSON.
async fn lines(session: &mut Session, args: &[&ParamValue]) -> String {
    let statement =
        Statement { sql: "".into(), types: vec![ParamType::Integer.into(); args.len()], ad_hoc: false };
    let columns = session.prepare(&statement).await.unwrap();
    session.execute(0, args);
    let (mut encoder, mut out) = (RowEncoder::new(Shape::Lines, &columns), Vec::new());
    let mut next = async || {
        poll_fn(|cx| {
            session.poll_row(cx).map(|row| {
                let Some(row) = row.unwrap() else { return false };
                row.encode(&mut encoder, &mut out).unwrap();
                true
            })
        })
        .await
    };
    while next().await {}
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn a_database_is_a_folder_and_a_line() {
    let settings = SourceSettings::new("numbers", "1,2,3");
    let database = AnyDatabase::open(DatabaseKind::Memory, &settings).unwrap();
    assert_eq!((database.name(), database.dialect().name), ("numbers", "Anonymous"));
    let patience = Waiter::default();
    let session = database.acquire(Snapshot::Statement, Priority::Stream, patience.begin()).await;
    assert_eq!(lines(&mut session.unwrap(), &[]).await, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
}

/// Arguments for unnumbered placeholders are in the order of the text.
#[tokio::test]
async fn placeholders_may_have_no_numbers() {
    let settings = SourceSettings::new("numbers", "");
    let database = AnyDatabase::open(DatabaseKind::Memory, &settings).unwrap();
    let sql = Sql::parse("values (:a), (:b), (:a)", database.dialect()).unwrap();
    assert_eq!(sql.text, "values (?), (?), (?)");
    let values = [("a", ParamValue::Integer(7)), ("b", ParamValue::Integer(8))];
    let value = |name: &String| values.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let args: Vec<_> = sql.names.iter().filter_map(value).collect();
    let waiter = Waiter::default();
    let session = database.acquire(Snapshot::Statement, Priority::Stream, waiter.begin()).await;
    assert_eq!(lines(&mut session.unwrap(), &args).await, "{\"n\":7}\n{\"n\":8}\n{\"n\":7}\n");
}

/// Databases can leave out the methods for optional abilities.
#[tokio::test]
async fn what_only_some_can_do_has_a_default() {
    let settings = SourceSettings::new("numbers", "1");
    let database = AnyDatabase::open(DatabaseKind::Memory, &settings).unwrap();
    let (statement, waiter) =
        (Statement { sql: "".into(), types: Vec::new(), ad_hoc: false }, Waiter::default());
    assert!(database.look_up(&statement, &[], waiter.begin()).await.unwrap().is_none());
    assert!(database.lookups().is_none());
    let mut session =
        database.acquire(Snapshot::Transaction, Priority::Stream, waiter.begin()).await.unwrap();
    assert_eq!(session.rows_of(0), RowSource::Own);
    assert!(session.open_refcursor(0, "c").await.is_err());
}
