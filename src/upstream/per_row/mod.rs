//! Requests for the rows of a statement: `[enrich.NAME]` adds a member to each row, and `each` of
//! `[upstream]` what is told of a reply.
//!
//! ```text
//! poll_row ──► statement ──► window: no more rows than there may be calls ──► a row with what its calls said
//!                              │ the requests of a row          ▲
//!                              └──► lanes ──► running ──────────┘
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | [`window`] | the rows that are held, and their calls |
//! | [`row`] | a row as it is copied, read, and written with more in it |
//!
//! Invariants:
//!
//! 1. rows that are held are [`PerRow::rows`] at most, and each has one call of each kind at most:
//!    what a response holds does not hang on the number of its rows;
//! 2. of one upstream, a response has no more requests in flight than its pool has places, so that
//!    it is refused none on its own account; its pool has let it in before the first row, and
//!    counts what it has in flight;
//! 3. nothing is read or asked that is not polled, and while calls run, rows are polled that their
//!    window has room for;
//! 4. dropping the session drops the calls and the statement.

mod row;
mod window;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rowstream_encode::{Column, ColumnKind};

use self::window::Window;
use super::Source;
use super::calls::{OnError, Order, reply_budget, reply_columns};
use super::template::Template;
use crate::Error;
use crate::database::{self, Statement};
use crate::diagnostic::suggest;
use crate::params::ParamValue;
use crate::pointer::Pointer;

pub use self::row::Row;

/// What the values in a request may take together, in bytes. Percent-encoded, which makes three of
/// one, it is as much as servers take.
const LONGEST: usize = 4 * 1024;

/// The calls that an endpoint makes for the rows of one of its statements.
#[derive(Debug, Clone)]
pub struct PerRow {
    /// The index of the statement in the endpoint, and its name.
    pub statement: (usize, String),
    /// The names of the endpoint's parameters, and behind them those of the columns that stand in
    /// requests.
    pub names: Vec<String>,
    /// How many of them are parameters.
    pub params: usize,
    /// The places of the pool of each upstream that is asked.
    pub places: Vec<usize>,
    /// What is asked for each row.
    pub calls: Vec<RowCall>,
    /// What becomes of the replies.
    pub form: Form,
}

/// One of the calls that are made for each row.
#[derive(Debug, Clone)]
pub struct RowCall {
    /// The name of what it adds.
    pub name: String,
    /// The index of the upstream that is asked.
    pub upstream: usize,
    /// What is asked.
    pub template: Template,
    /// Which part of a reply is wanted.
    pub pointer: Option<Pointer>,
    /// How many run at a time.
    pub concurrency: usize,
    /// How many the file has asked for, which may be more than there are places; `None`: as many as
    /// there are.
    pub wanted: Option<usize>,
    /// What becomes of one that fails.
    pub on_error: OnError,
    /// The longest reply, in bytes.
    pub max_reply: usize,
}

/// What becomes of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Each is a member of its row, under the call's name. Rows that ask the same share a call, and
    /// keep their order.
    Enrich,
    /// There is one for each row, of which it is told how it went.
    Each(Order),
}

/// How calls fit the columns of a statement.
pub(crate) struct Bound {
    /// The columns of the rows with what is added.
    pub(crate) columns: Arc<[Column]>,
    /// Before which column of the statement that stands.
    at: usize,
    /// The columns that stand in requests, in their order, each with the index of its name.
    wanted: Vec<(usize, usize)>,
}

impl PerRow {
    /// How many rows are held at most.
    pub fn rows(&self) -> usize {
        self.calls.iter().map(|call| call.concurrency).max().unwrap_or(1)
    }

    fn added(&self) -> Vec<Column> {
        let json = |call: &RowCall| Column {
            name: call.name.clone(),
            type_name: "json".to_owned(),
            kind: ColumnKind::Json,
        };
        match self.form {
            Form::Enrich => self.calls.iter().map(json).collect(),
            Form::Each(_) => self.calls.iter().flat_map(|call| reply_columns(call.on_error)).collect(),
        }
    }

    /// Fits the calls to the columns of the statement, of which the last `keys` are those of a key.
    ///
    /// # Errors
    /// A request names a column that is not there; or there is one of a name that is added.
    pub(crate) fn bind(&self, columns: &[Column], keys: usize) -> Result<Bound, Error> {
        let (own, key) = columns.split_at(columns.len().saturating_sub(keys));
        let added = self.added();
        if let Some(column) = own.iter().find(|column| added.iter().any(|added| added.name == column.name)) {
            return Err(self.named_twice(&column.name));
        }
        let place = |(index, name): (usize, &String)| {
            let found = own.iter().position(|column| column.name == *name);
            found.map(|column| (column, index)).ok_or_else(|| self.no_column(name, own))
        };
        let names = self.names.iter().enumerate().skip(self.params);
        let mut wanted = names.map(place).collect::<Result<Vec<_>, _>>()?;
        wanted.sort_unstable();
        let columns = own.iter().cloned().chain(added).chain(key.iter().cloned()).collect();
        Ok(Bound { columns, at: own.len(), wanted })
    }

    fn named_twice(&self, name: &str) -> Error {
        let statement = &self.statement.1;
        let message = match self.form {
            Form::Enrich => {
                format!("statement `{statement}` has a column `{name}`, and `[enrich.{name}]` adds another")
            }
            Form::Each(_) => {
                format!(
                    "statement `{statement}` has a column `{name}`, which is what a part of each reply is called"
                )
            }
        };
        Error::endpoint(message).hint("name the column otherwise with `as`")
    }

    fn no_column(&self, name: &str, columns: &[Column]) -> Error {
        let statement = &self.statement.1;
        let message =
            format!("a request names `{{{name}}}`, which is no parameter and no column of `{statement}`");
        let names = columns.iter().map(|column| column.name.as_str());
        Error::endpoint(message).hint(suggest("the columns are", name, names))
    }

    /// What replies add to a row, in bytes.
    pub(crate) fn longest_replies(&self) -> usize {
        self.calls.iter().map(|call| call.max_reply).fold(0, usize::saturating_add)
    }

    /// What the rows that are held and their calls may take, of rows of at most so many bytes.
    pub(crate) fn budget(&self, row: usize) -> usize {
        // A request stands as it is told from others, as it was filled, and as it is sent; each
        // time percent-encoded.
        let calls = self.calls.iter().map(|call| reply_budget(call.max_reply).saturating_add(12 * LONGEST));
        let held = calls.fold(row, usize::saturating_add).saturating_mul(self.rows());
        // One is lent, one copied, and of that the columns are texts that stand in requests.
        held.saturating_add(row.saturating_mul(3))
    }
}

/// A refcursor's rows come from other statements than the one that was prepared.
pub(crate) fn of_refcursor() -> Error {
    Error::endpoint("no calls can be made for the rows of a refcursor, nor beside them")
        .hint("write a query, or a function that returns a table")
}

/// Boxed, because a session that has another in it prepares by way of that one.
type Preparing<'a> = Pin<Box<dyn Future<Output = Result<Arc<[Column]>, Error>> + Send + 'a>>;

/// A row of a session some of whose statements' rows have calls made for them.
pub(crate) enum Produced<'a> {
    /// Of a statement without calls.
    Plain(database::Row<'a>),
    /// With what its calls have answered.
    Enriched(Row<'a>),
}

/// The session of a statement, with calls for its rows.
pub struct Session {
    inner: database::Session,
    plan: Arc<PerRow>,
    upstreams: Vec<Source>,
    /// Those of all of the endpoint's parameters.
    values: Vec<ParamValue>,
    /// The columns of the statements that were prepared.
    prepared: Vec<Arc<[Column]>>,
    /// The one that calls are made for, by its place among these.
    bound: Option<(usize, Arc<Bound>)>,
    /// While its rows come.
    window: Option<Box<Window>>,
    /// Why it cannot go on; told by the next poll.
    failed: Option<Error>,
}

impl Session {
    /// `inner` with the calls of `plan`, for a request with these values of its parameters. Asks
    /// nothing yet.
    pub(crate) fn new(
        inner: database::Session,
        plan: &Arc<PerRow>,
        upstreams: &[Source],
        values: &[ParamValue],
    ) -> Self {
        Self {
            inner,
            plan: Arc::clone(plan),
            upstreams: upstreams.to_vec(),
            values: values[..plan.params].to_vec(),
            prepared: Vec::new(),
            bound: None,
            window: None,
            failed: None,
        }
    }

    pub(crate) fn holds_connection(&self) -> bool {
        self.inner.holds_connection()
    }

    /// See [`database::Session::prepare`], which it is a part of.
    pub(crate) fn prepare<'a>(&'a mut self, statement: &'a Statement) -> Preparing<'a> {
        Box::pin(async move {
            let columns = self.inner.prepare(statement).await?;
            if !self.inner.refcursors(self.prepared.len()).is_empty() {
                return Err(of_refcursor());
            }
            self.prepared.push(Arc::clone(&columns));
            Ok(columns)
        })
    }

    /// Has calls made for each row of the prepared statement `index`; the columns of its rows then.
    pub(crate) fn call_per_row(&mut self, index: usize, keys: usize) -> Result<Arc<[Column]>, Error> {
        let bound = Arc::new(self.plan.bind(&self.prepared[index], keys)?);
        let columns = Arc::clone(&bound.columns);
        self.bound = Some((index, bound));
        Ok(columns)
    }

    /// See [`database::Session::execute`].
    pub(crate) fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        self.inner.execute(index, args);
        self.window = None;
        if let Some((_, bound)) = self.bound.as_ref().filter(|(which, _)| *which == index) {
            match Window::new(&self.plan, bound, &self.upstreams, &self.values) {
                Ok(window) => self.window = Some(Box::new(window)),
                Err(error) => self.failed = Some(error),
            }
        }
    }

    /// See [`database::Session::poll_row`].
    ///
    /// # Errors
    /// The statement's; or a call failed, where that is not told in its row; or 400 where the
    /// parameters make no request.
    pub(crate) fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Produced<'_>>, Error>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        let Some(window) = &mut self.window else {
            return self.inner.poll_row(cx).map_ok(|row| row.map(Produced::Plain));
        };
        ready!(window.poll(&mut self.inner, cx))?;
        Poll::Ready(Ok(window.row().map(Produced::Enriched)))
    }
}
