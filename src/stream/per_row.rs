//! Requests for the rows of a statement: `[enrich.NAME]` adds a member to each row, and `each` of
//! `[upstream]` adds the columns of a reply.
//!
//! ```text
//! poll_row ──► statement ──► window: no more rows than there may be calls ──► a row with its replies
//!                              │ the requests of a row          ▲
//!                              └──► lanes ──► running ──────────┘
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`window`] | the rows in memory, and their calls |
//! | [`row`] | a copied row, which is read for requests and written with its replies |
//!
//! Invariants:
//!
//! 1. at most [`PerRowCalls::rows`] rows are in memory, and each has at most one call of each kind.
//!    So the memory of a response doesn't depend on the number of its rows;
//! 2. for each upstream, a response has at most as many requests in flight as its pool has slots,
//!    so its own number never causes a refusal. The pool admits it before the first row, and counts
//!    the requests in flight;
//! 3. rows are read and requests are sent only when it's polled. While calls run, rows are polled
//!    if the window has room for them;
//! 4. dropping it drops the calls and the statement.

mod row;
mod window;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_encode::Column;
use rowstream_upstream::Source;

pub(crate) use self::row::EnrichedRow;
use self::window::Window;
use crate::database::{self, RowSource, Statement};
use crate::endpoint::{FittedCalls, PerRowCalls, of_refcursor};

/// Boxed, because it's part of the future that prepares statements of any producer.
type PreparationFuture<'a> = Pin<Box<dyn Future<Output = Result<Arc<[Column]>, Error>> + Send + 'a>>;

/// A row of a statement. One of the statements has calls for its rows.
pub(crate) enum ProducedRow<'a> {
    /// A row of a statement without calls.
    Plain(database::Row<'a>),
    /// A row with the replies to its calls.
    Enriched(EnrichedRow<'a>),
}

/// The rows of statements, with calls for the rows of one of them.
pub(crate) struct EnrichedRows {
    inner: database::Session,
    plan: Arc<PerRowCalls>,
    upstreams: Vec<Source>,
    /// The values of all parameters of the endpoint.
    values: Vec<ParamValue>,
    /// The columns of the prepared statements.
    prepared: Vec<Arc<[Column]>>,
    /// The statement whose rows have calls, by its position among the prepared ones.
    bound: Option<(usize, Arc<FittedCalls>)>,
    /// Set while its rows arrive.
    window: Option<Box<Window>>,
    /// An error for the next poll to report.
    failed: Option<Error>,
}

impl EnrichedRows {
    /// Adds the calls of `plan` to the statements of `inner`, for a request with these values of
    /// its parameters. Sends nothing yet.
    pub(crate) fn new(
        inner: database::Session,
        plan: &Arc<PerRowCalls>,
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

    /// See [`database::Session::prepare`], whose future contains this one.
    pub(crate) fn prepare<'a>(&'a mut self, statement: &'a Statement) -> PreparationFuture<'a> {
        Box::pin(async move {
            let columns = self.inner.prepare(statement).await?;
            if self.inner.rows_of(self.prepared.len()) != RowSource::Own {
                return Err(of_refcursor());
            }
            self.prepared.push(Arc::clone(&columns));
            Ok(columns)
        })
    }

    /// Makes calls for each row of the prepared statement `index`. Returns the columns that its
    /// rows then have.
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
    /// The statement's; or that of a call, if its row doesn't report it; or a 400 if no request can
    /// be made from the parameters.
    pub(crate) fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ProducedRow<'_>>, Error>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        let Some(window) = &mut self.window else {
            return self.inner.poll_row(cx).map_ok(|row| row.map(ProducedRow::Plain));
        };
        ready!(window.poll(&mut self.inner, cx))?;
        Poll::Ready(Ok(window.row().map(ProducedRow::Enriched)))
    }
}
