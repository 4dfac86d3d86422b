//! Requests for the rows of a statement: `[enrich.NAME]` adds a member to each row, and `each` of
//! `[upstream]` what is reported of a reply.
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
//! 4. dropping it drops the calls and the statement.

mod row;
mod window;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use rowstream_encode::Column;

pub(crate) use self::row::EnrichedRow;
use self::window::Window;
use crate::Error;
use crate::database::{self, RowsOf, Statement};
use crate::endpoint::{Bound, PerRow, of_refcursor};
use crate::params::ParamValue;
use crate::upstream::Source;

/// Boxed: it is a part of the future that prepares any producer's statements.
type Preparing<'a> = Pin<Box<dyn Future<Output = Result<Arc<[Column]>, Error>> + Send + 'a>>;

/// A row of statements, of which one has calls made for its rows.
pub(crate) enum Produced<'a> {
    /// Of a statement without calls.
    Plain(database::Row<'a>),
    /// With what its calls have answered.
    Enriched(EnrichedRow<'a>),
}

/// Rows of statements, with calls for those of one of them.
pub(crate) struct EnrichedRows {
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
    /// Why it cannot go on; the next poll reports it.
    failed: Option<Error>,
}

impl EnrichedRows {
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

    /// See [`database::Session::read_by`].
    pub(crate) fn read_by(&self) -> Option<Instant> {
        self.inner.read_by()
    }

    /// See [`database::Session::begin`].
    ///
    /// # Errors
    /// The connection failed, or a table can't be read now.
    pub(crate) async fn begin(&mut self) -> Result<(), Error> {
        self.inner.begin().await
    }

    /// See [`database::Session::prepare`], which it is a part of.
    pub(crate) fn prepare<'a>(&'a mut self, statement: &'a Statement) -> Preparing<'a> {
        Box::pin(async move {
            let columns = self.inner.prepare(statement).await?;
            if self.inner.rows_of(self.prepared.len()) != RowsOf::Own {
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
    /// The statement's; or a call failed, where that does not stand in its row; or 400 where the
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
