//! Lists of an upstream as rows: the elements of an array in its reply, as they arrive, and those
//! of the following pages.
//!
//! ```text
//!            ┌────────────────── turn: another page ◄──────────────────┐
//!            ▼                                                         │
//! execute ─► ask ─► begin: status, layout ─► read: rows ─► end of the reply ─► no other page: over
//! ```
//!
//! Invariants:
//!
//! 1. a page is requested once all rows of the previous one have been polled, and bytes are read
//!    only when they are polled;
//! 2. a request has its slot of the pool until the last byte of its reply, and no slot between two
//!    pages;
//! 3. the rows end successfully only if the reply of the last page did, and says that no other page
//!    follows. If a page can't be requested, or reports that it failed, they end with an error;
//! 4. memory: a chunk of the reply, one row, and the reference to the next page; see
//!    [`rowstream_upstream::split`].

mod next;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Method, StatusCode, header};
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_encode::{Column, RowWriter};
use rowstream_upstream::payload::Payload;
use rowstream_upstream::pointer::tree::Finder;
use rowstream_upstream::split::{CapturedValue, Layout, SplitError, Splitter};
use rowstream_upstream::template::Values;
use rowstream_upstream::{Call, Group, Reply, Source, fields};

use self::next::LinkRefusal;
use crate::endpoint::{CURSOR, MissingRows, NextPage, Pages};

/// The pages of one response.
pub(crate) struct PageRows {
    source: Source,
    pages: Arc<Pages>,
    values: Vec<ParamValue>,
    state: State,
    splitter: Splitter,
    finder: Finder,
    /// The pages as the pool has admitted them; `None` before the first page.
    group: Option<Arc<Group>>,
    /// The call of the first page, and that of the current page.
    first: Option<Arc<Call>>,
    asked: Option<Arc<Call>>,
    layout: Layout,
    /// The host of the source that answered with the page.
    host: usize,
    /// The link from this page to the next one.
    link: Option<String>,
    /// The number of pages so far, of rows so far, and of rows in the pages before this one.
    page: u64,
    rows: u64,
    rows_before: u64,
}

enum State {
    /// No page can be requested. The next poll reports the error.
    Failed(Option<Error>),
    Asking(PageReply),
    Reading(Box<Reply>),
    /// The reply has ended.
    Ended,
    Over,
}

type PageReply = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>;

impl PageRows {
    /// True if the pool has admitted the pages and none of them has had a slot yet.
    pub(crate) fn waits_for_place(&self) -> bool {
        self.group.as_ref().is_some_and(|group| !group.has_begun())
    }

    /// The columns of its rows.
    pub(super) fn columns(&self) -> Arc<[Column]> {
        self.pages.columns()
    }

    /// The pages of a response. Sends nothing yet.
    pub(crate) fn new(source: &Source, pages: &Arc<Pages>) -> Self {
        let next = pages.next.as_ref().and_then(NextPage::pointer);
        // `cursor` and `check_page` depend on this order.
        let captures = next.into_iter().chain(&pages.error);
        Self {
            source: source.clone(),
            pages: Arc::clone(pages),
            values: Vec::new(),
            state: State::Over,
            splitter: Splitter::new(&pages.rows, captures, pages.max_row),
            finder: Finder::default(),
            first: None,
            group: None,
            asked: None,
            layout: Layout::Document,
            host: 0,
            link: None,
            page: 0,
            rows: 0,
            rows_before: 0,
        }
    }

    /// See [`crate::database::Session::execute`]. `args` are the values of all parameters of the
    /// endpoint.
    pub(crate) fn execute(&mut self, args: &[&ParamValue]) {
        self.values = args.iter().map(|&value| value.clone()).collect();
        match self.first_call() {
            Ok(call) => {
                let call = Arc::new(call);
                self.first = Some(Arc::clone(&call));
                self.ask(call);
            }
            Err(error) => self.state = State::Failed(Some(error)),
        }
    }

    fn first_call(&self) -> Result<Call, Error> {
        let pages = &self.pages;
        let values = Values { names: &pages.names, values: &self.values, number: 0 };
        let mut call = pages.template.fill(&values)?;
        let mut headers = self.source.own_fields();
        fields::put(&mut headers, &call.headers);
        call.headers = headers;
        if let Some(payload) = &pages.payload {
            set_body(&mut call, payload, &values)?;
        }
        match &pages.next {
            Some(NextPage::Offset(name)) => call.target = next::with_parameter(&call.target, name, "0"),
            Some(NextPage::Page(name, first)) => {
                call.target = next::with_parameter(&call.target, name, &first.to_string());
            }
            _ => {}
        }
        Ok(call)
    }

    /// Requests a page. The pool admits all pages before the first. The others belong to a response
    /// that has begun, so the pool doesn't refuse them.
    fn ask(&mut self, call: Arc<Call>) {
        let group = match &self.group {
            Some(group) => Ok(Arc::clone(group)),
            None => self.source.enter(1).map(|group| Arc::clone(self.group.insert(Arc::new(group)))),
        };
        let group = match group {
            Ok(group) => group,
            Err(error) => return self.state = State::Failed(Some(error)),
        };
        self.page += 1;
        self.rows_before = self.rows;
        self.asked = Some(Arc::clone(&call));
        let source = self.source.clone();
        self.state = State::Asking(Box::pin(async move { Ok(source.send_in(&group, &call).await?.0) }));
    }

    /// See [`crate::database::Session::poll_row`].
    ///
    /// # Errors
    /// A page didn't arrive or isn't valid; or a 400 if no request can be made from the parameters.
    pub(crate) fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<PageRow<'_>>, Error>> {
        if !ready!(self.poll_element(cx))? {
            return Poll::Ready(Ok(None));
        }
        self.rows += 1;
        let text = self.splitter.element().map_err(|error| self.bad_page(&error))?;
        let found = self.pages.plan.find(text, &mut self.finder);
        let row = PageRow { list: self, text };
        Poll::Ready(found.map_err(|why| row.wrong(&why)).map(|()| Some(row)))
    }

    /// Reads up to the end of a row; false if there's no other row.
    fn poll_element(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        loop {
            match &mut self.state {
                State::Failed(error) => {
                    let again = || Error::endpoint("this list has failed before");
                    return Poll::Ready(Err(error.take().unwrap_or_else(again)));
                }
                State::Asking(answer) => {
                    let reply = ready!(answer.as_mut().poll(cx))?;
                    self.begin(&reply)?;
                    self.state = State::Reading(Box::new(reply));
                }
                State::Reading(reply) => match self.splitter.advance() {
                    Ok(true) => return Poll::Ready(Ok(true)),
                    Ok(false) => match ready!(reply.poll_data(cx)) {
                        Some(data) => self.splitter.push(data?),
                        None => self.state = State::Ended,
                    },
                    Err(error) => return Poll::Ready(Err(self.bad_page(&error))),
                },
                State::Ended => {
                    if self.splitter.finish().map_err(|error| self.bad_page(&error))? {
                        return Poll::Ready(Ok(true));
                    }
                    self.check_page()?;
                    match self.next_call()? {
                        Some(call) => self.ask(Arc::new(call)),
                        None => self.state = State::Over,
                    }
                }
                State::Over => return Poll::Ready(Ok(false)),
            }
        }
    }

    /// Begins to read a page.
    fn begin(&mut self, reply: &Reply) -> Result<(), Error> {
        let (name, status) = (self.source.name(), reply.head.status);
        if !status.is_success() {
            let message = format!("source `{name}` answered page {} with {status}", self.page);
            return Err(Error::upstream_status(status, message));
        }
        let headers = &reply.head.headers;
        if fields::is_coded(headers) {
            return Err(self.bad("is compressed, although the request didn't allow that"));
        }
        self.layout = if is_lines(headers) { Layout::Lines } else { Layout::Document };
        self.host = reply.host();
        if self.layout == Layout::Lines && self.pages.error.is_some() {
            return Err(self.bad("has lines, so `error` can't be looked up in it"));
        }
        if self.pages.next == Some(NextPage::Link) {
            self.link = next::link(headers).map_err(|why| self.bad(why))?;
            // The source is another Rowstream, whose page is too long for a `Link`. The page
            // without a link may not be the last.
            if headers.get("rowstream-page").is_some_and(|page| page == "streamed") {
                let error = self.bad("is too long to name the next page in its header");
                return Err(error.hint("request at most 1,000 rows a page, or add `_wait=end`"));
            }
        }
        self.splitter.begin(self.layout);
        Ok(())
    }

    /// Fails if the page that has ended reports an error.
    fn check_page(&self) -> Result<(), Error> {
        if self.pages.error.is_some() {
            let which = usize::from(self.pages.next.as_ref().and_then(NextPage::pointer).is_some());
            let said = match self.captured(which)? {
                CapturedValue::Missing | CapturedValue::Scalar("null" | "false") => None,
                CapturedValue::Scalar(text) => Some(text),
                CapturedValue::Container => Some("an array or an object"),
            };
            if let Some(said) = said {
                let message =
                    format!("page {} of source `{}` reports a failure", self.page, self.source.name());
                // Only the log shows the text, because it may not be for clients.
                return Err(
                    Error::new("upstream_failed", StatusCode::BAD_GATEWAY, message).cause(said.to_owned())
                );
            }
        }
        match self.pages.absent {
            MissingRows::Fails if !self.splitter.has_rows() => Err(self.bad_page(&SplitError::Missing)),
            _ => Ok(()),
        }
    }

    /// The call of the next page; `None` if this was the last.
    fn next_call(&self) -> Result<Option<Call>, Error> {
        let (Some(next), Some(first), Some(asked)) = (&self.pages.next, &self.first, &self.asked) else {
            return Ok(None);
        };
        if next.pointer().is_some() && self.layout == Layout::Lines {
            return Err(self.bad("consists of lines, which can't name the next page"));
        }
        let has_rows = self.rows > self.rows_before;
        let mut call = (**first).clone();
        let with = |name: &str, value: &str| next::with_parameter(&first.target, name, value);
        call.target = match next {
            NextPage::Url(_) => match self.cursor()? {
                Some(ParamValue::Text(link)) => return self.follow(asked, &link),
                Some(_) => return Err(self.bad("names the next page by something other than a URL")),
                None => return Ok(None),
            },
            NextPage::Link => match &self.link {
                Some(link) => return self.follow(asked, link),
                None => return Ok(None),
            },
            NextPage::Offset(_) | NextPage::Page(..) if !has_rows => return Ok(None),
            NextPage::Offset(name) => with(name, &self.rows.to_string()),
            NextPage::Page(name, number) => with(name, &number.saturating_add(self.page).to_string()),
            NextPage::Cursor(name, _) => match self.cursor()? {
                Some(cursor) => with(name, &cursor.postgres_text().unwrap_or_default()),
                None => return Ok(None),
            },
            NextPage::Body(payload, _) => {
                let Some(cursor) = self.cursor()? else { return Ok(None) };
                let names: Vec<_> = self.pages.names.iter().cloned().chain([CURSOR.to_owned()]).collect();
                let values: Vec<_> = self.values.iter().cloned().chain([cursor]).collect();
                set_body(&mut call, payload, &Values { names: &names, values: &values, number: 0 })?;
                first.target.clone()
            }
        };
        // A feed repeats its last cursor while nothing follows it.
        if !has_rows && is_same(asked, &call) {
            return Ok(None);
        }
        self.admit(asked, call)
    }

    /// The call of a link.
    fn follow(&self, asked: &Call, link: &str) -> Result<Option<Call>, Error> {
        let base = self.source.base(self.host);
        let target =
            next::resolve(base, &asked.target, link).map_err(|refused| self.refuse(refused, link))?;
        let mut headers = asked.headers.clone();
        headers.remove(header::CONTENT_TYPE);
        self.admit(asked, Call { method: Method::GET, target, headers, body: None })
    }

    /// Checks that one more page is within the limit, and isn't the current one.
    fn admit(&self, asked: &Call, call: Call) -> Result<Option<Call>, Error> {
        if is_same(asked, &call) {
            return Err(self.bad("leads to itself"));
        }
        if self.page < self.pages.most {
            return Ok(Some(call));
        }
        let message = format!("source `{}` has more than {} pages", self.source.name(), self.pages.most);
        Err(Error::new("upstream_pages", StatusCode::BAD_GATEWAY, message)
            .hint("raise `pages` of the endpoint, or request longer pages"))
    }

    /// The cursor to the next page; `None` if the page has none.
    fn cursor(&self) -> Result<Option<ParamValue>, Error> {
        let text = match self.captured(0)? {
            CapturedValue::Missing | CapturedValue::Scalar("null" | "\"\"") => return Ok(None),
            CapturedValue::Scalar(text) if !matches!(text, "true" | "false") => text,
            CapturedValue::Scalar(_) | CapturedValue::Container => {
                return Err(self.bad("names the next page by something other than a string or a number"));
            }
        };
        if !text.starts_with('"') {
            return Ok(Some(ParamValue::Number(text.to_owned())));
        }
        let text = serde_json::from_str(text);
        text.map(|text| Some(ParamValue::Text(text))).map_err(|_| self.bad_page(&SplitError::NotUtf8))
    }

    fn captured(&self, which: usize) -> Result<CapturedValue<'_>, Error> {
        self.splitter.captured(which).map_err(|error| self.bad_page(&error))
    }

    #[cold]
    fn bad_page(&self, error: &SplitError) -> Error {
        match error {
            SplitError::TooLarge(bytes) => Error::row_too_large(*bytes, self.pages.max_row),
            error => self.bad(&format!("is {error}")),
        }
    }

    #[cold]
    fn bad(&self, what: &str) -> Error {
        let message = format!("page {} of source `{}` {what}", self.page, self.source.name());
        Error::new("upstream_reply", StatusCode::BAD_GATEWAY, message)
    }

    #[cold]
    fn refuse(&self, refused: LinkRefusal, link: &str) -> Error {
        let leads = match refused {
            LinkRefusal::NoUrl => "names a next page that isn't a usable URL",
            LinkRefusal::OtherOrigin => {
                "names a next page at another scheme, host or port, which isn't followed"
            }
            LinkRefusal::OutOfPrefix => {
                "names a next page outside the path of the source's URL, which isn't followed"
            }
        };
        let message = format!("page {} of source `{}` {leads}", self.page, self.source.name());
        let error = Error::new("upstream_refused", StatusCode::BAD_GATEWAY, message);
        let error = error.hint(
            "only links to the source's own scheme, host and port, below the path of its `url`, are followed",
        );
        error.cause(format!("to {}", rowstream_core::diagnostic::shown(link)))
    }
}

/// True if two calls are the same request.
fn is_same(one: &Call, other: &Call) -> bool {
    (&one.method, &one.target, &one.body) == (&other.method, &other.target, &other.body)
}

/// Gives a call a body.
fn set_body(call: &mut Call, payload: &Payload, values: &Values<'_>) -> Result<(), Error> {
    call.method = Method::POST;
    call.body = Some(payload.fill(values)?);
    call.headers.insert(header::CONTENT_TYPE, payload.content_type());
    Ok(())
}

/// True if the reply is declared as lines of JSON.
fn is_lines(headers: &HeaderMap) -> bool {
    const KINDS: [&str; 6] = [
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonl",
        "application/jsonlines",
        "application/x-jsonlines",
    ];
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    KINDS.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

/// A row of a page, lent until the next poll.
pub(crate) struct PageRow<'a> {
    list: &'a PageRows,
    text: &'a str,
}

impl PageRow<'_> {
    /// See [`crate::database::Row::encode`].
    pub(crate) fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
        let encoded = self.list.pages.plan.encode(self.text, &self.list.finder, encoder, out);
        encoded.map_err(|why| self.wrong(&why))
    }

    #[cold]
    fn wrong(&self, why: &str) -> Error {
        let (rows, source) = (self.list.rows, self.list.source.name());
        Error::new(
            "upstream_reply",
            StatusCode::BAD_GATEWAY,
            format!("row {rows} of source `{source}`: {why}"),
        )
    }
}
