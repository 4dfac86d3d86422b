//! Merges nested statements while they stream.
//!
//! All statements are interleaved, each in the order of its parent's rows. So the merge keeps at
//! most one row of each, and compares only keys. If a row has the key of the open parent row, it
//! belongs in that row. Otherwise it waits, and ends the list. The merge doesn't know the order of
//! keys, which depends on the database's collations.
//!
//! ```text
//!            row                       row, of a child                 another key
//!   authors ─────► its object is open ─────────────────► its books ────────────────► the next child's list, or the object's end
//!      ▲                                                  (and so on, to any depth)                        │
//!      └───────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Invariants:
//! 1. no row is written before each statement has reported its first row, or that it has none:
//!    errors until then have a real status;
//! 2. one chain of lists is open at a time: `list`, and the lists around it;
//! 3. for each statement the merge keeps one encoded row, and the key of the open row. Arrow also keeps
//!    the open row of the first statement, with its lists;
//! 4. each row of each statement is written once, or the result is an error: at the end, no row may
//!    still wait for its parent;
//! 5. a row is written as a whole, so a row that fails leaves no byte;
//! 6. the end is written only when nothing can fail any more.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_encode::{
    Column, Format, ListEncoder, NestedArrowEncoder, NestedColumns, OptionsEncoder, ValueOptions,
};

use super::counts::StatementRows;
use super::cursors::Cursors;
use super::key::{KeyText, KeyedRow};
use super::nest_encoder::{JsonLevel, NestEncoder};
use super::open::{Tail, shape};
use crate::completeness::framing::RowDescription;
use crate::database::{self, Row, Session};
use crate::endpoint::{Cardinality, Endpoint, Statement};

/// A statement and those nested in it, while they are merged.
pub(super) struct Nest {
    /// Each level follows its parent, so the first one is the root.
    levels: Vec<Level>,
    encoder: NestEncoder,
    /// The position of the first statement in the session. The others follow it.
    prepared: usize,
    /// The number of levels whose first row is known, or known to be missing.
    begun: usize,
    /// The list that is being written; `None` when all lists are complete.
    list: Option<usize>,
    /// The number of levels that are known to have no row left, once all rows are written.
    over: usize,
    /// Collects the keys of the first level's rows, if the response has cursors.
    cursors: Option<Box<Cursors>>,
    /// The largest possible number of the first level's rows, if it's known.
    page: Option<u64>,
}

/// One statement.
struct Level {
    /// Its index in the endpoint.
    statement: usize,
    name: String,
    args: Vec<usize>,
    cardinality: Cardinality,
    parent: Option<Parent>,
    /// The levels whose lists are members of its rows, in their order.
    children: Vec<usize>,
    /// The columns of its rows.
    described: Arc<[Column]>,
    /// The columns that belong to keys.
    columns: Vec<usize>,
    next: NextRow,
    /// The key of the next row, which is encoded.
    next_key: KeyText,
    /// The key of the row that was written last, whose object may still be open.
    key: KeyText,
}

/// The level whose rows contain those of another level.
struct Parent {
    level: usize,
    /// The pairs of values that must be equal: of the level's own key, and of the parent's.
    on: Vec<(usize, usize)>,
}

/// The state of a level's next row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextRow {
    Unknown,
    Row,
    /// No row is left.
    None,
}

impl Nest {
    /// Prepares the statement `root` of an endpoint and all statements nested in it, in a session
    /// that already has `prepared` others.
    ///
    /// # Errors
    /// The database's error for a statement, or unsuitable columns.
    pub(super) async fn prepare(
        endpoint: &Endpoint,
        root: usize,
        format: Format,
        options: ValueOptions,
        tail: Option<&Tail<'_>>,
        session: &mut Session,
        prepared: usize,
    ) -> Result<Self, Error> {
        let statements = endpoint.nest(root);
        let mut columns: Vec<Arc<[Column]>> = Vec::with_capacity(statements.len());
        let mut args = Vec::with_capacity(statements.len());
        let mut cursors = None;
        for &index in &statements {
            let statement = &endpoint.statements()[index];
            let (query, bound) = read_of(statement, index, tail);
            let mut own = session.prepare(query).await?;
            statement.check_nestable(session.rows_of(prepared + columns.len()))?;
            if let Some(tail) = tail.filter(|_| index == root) {
                let (keys, shown) = Cursors::new(tail, &own, format == Format::Sse)?;
                (cursors, own) = (Some(Box::new(keys)), shown.into());
            } else if let Some(tail) = tail {
                let (path, row) = tail.key.path_of(index);
                own = own[..own.len().saturating_sub(path + row)].into();
            }
            statement.check_columns(&own)?;
            columns.push(own);
            args.push(bound);
        }
        let levels = statements.iter().zip(args).zip(&columns);
        let levels = levels.map(|((&index, args), columns)| Level::new(endpoint, index, args, columns));
        let mut levels: Vec<_> = levels.collect();
        tie(&mut levels, joins(endpoint, &statements, &columns, tail)?);
        let encoder = encoder(&levels, format, options, endpoint.longest_row)?;
        let page = tail.and_then(|tail| tail.page);
        Ok(Self { levels, encoder, prepared, begun: 0, list: Some(0), over: 0, cursors, page })
    }

    /// The number of statements.
    pub(super) fn len(&self) -> usize {
        self.levels.len()
    }

    /// True if a row has been written.
    pub(super) fn has_rows(&self) -> bool {
        self.encoder.rows(0) > 0
    }

    /// True if the headers may be sent. Arrow waits for the first row's lists, because they may be too
    /// long.
    pub(super) fn has_begun(&self) -> bool {
        self.has_rows() && (self.encoder.writes_open_rows() || !self.is_within_row())
    }

    /// True if its rows have cursors.
    pub(super) fn has_cursors(&self) -> bool {
        self.cursors.is_some()
    }

    /// The cursors after the last row; `None` before the first row, and within a row.
    pub(super) fn cursors(&self) -> Option<&Cursors> {
        self.cursors.as_deref().filter(|_| self.has_rows() && !self.is_within_row())
    }

    /// True if a row is incomplete, so that nothing else may be written.
    pub(super) fn is_within_row(&self) -> bool {
        self.has_rows() && self.list.is_some_and(|list| list > 0)
    }

    /// The cursors after the last row, and the largest possible number of rows.
    pub(super) fn into_end(self) -> (Option<Box<Cursors>>, Option<u64>) {
        (self.cursors, self.page)
    }

    /// Each statement's index in the endpoint, and the number of its written rows.
    pub(super) fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.levels.iter().enumerate().map(|(which, level)| (level.statement, self.encoder.rows(which)))
    }

    /// The name of the first statement.
    pub(super) fn name(&self) -> &str {
        &self.levels[0].name
    }

    /// The written rows of the first statement, and of all statements nested in it.
    pub(super) fn count(&self) -> StatementRows {
        let nested = (1..self.levels.len()).map(|which| self.encoder.rows(which)).sum();
        let cardinality = self.levels[0].cardinality;
        StatementRows { cardinality, rows: self.encoder.rows(0), nested: Some(nested) }
    }

    /// The columns of the first statement's rows, and of the lists in them.
    pub(super) fn description(&self) -> RowDescription<'_> {
        self.describe(0)
    }

    fn describe(&self, which: usize) -> RowDescription<'_> {
        let level = &self.levels[which];
        let list = |&child: &usize| (&*self.levels[child].name, self.describe(child));
        RowDescription { columns: &level.described, lists: level.children.iter().map(list).collect() }
    }

    /// Starts all statements, and the list of the first.
    pub(super) fn execute(&mut self, session: &mut Session, values: &[ParamValue], out: &mut Vec<u8>) {
        let run = |(which, level): (usize, &Level)| {
            (self.prepared + which, level.args.iter().map(|&arg| &values[arg]).collect())
        };
        let runs: Vec<(usize, Vec<&ParamValue>)> = self.levels.iter().enumerate().map(run).collect();
        session.execute_interleaved(&runs);
        self.encoder.start(out);
    }

    /// True if it has collected complete rows that aren't written yet.
    pub(super) fn holds_rows(&self) -> bool {
        self.encoder.holds_rows()
    }

    /// Writes the complete rows that it has collected.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        self.encoder.flush(out);
    }

    /// Writes the next row, or the end of a list; false when everything is written.
    ///
    /// # Errors
    /// A statement failed, or its rows aren't in the order of their parents.
    pub(super) fn poll_step(
        &mut self,
        session: &mut Session,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<bool, Error>> {
        ready!(self.poll_begin(session, cx))?;
        let Some(list) = self.list else {
            ready!(self.poll_over(session, cx))?;
            return Poll::Ready(self.end_root(out).map(|()| false));
        };
        ready!(self.poll_next(list, session, cx))?;
        if self.has_place(list) {
            self.write_row(list, out)?;
        } else {
            self.end_list(list, out)?;
        }
        Poll::Ready(Ok(true))
    }

    /// Waits until each statement has reported its first row, or that it has none.
    fn poll_begin(&mut self, session: &mut Session, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.begun < self.levels.len() {
            ready!(self.poll_next(self.begun, session, cx))?;
            let Level { cardinality, next, name, .. } = &self.levels[self.begun];
            if (*cardinality, *next) == (Cardinality::One, NextRow::Row)
                && ready!(session.poll_row_of(self.begun, cx))?.is_some()
            {
                return Poll::Ready(Err(Error::several_rows(name)));
            }
            self.begun += 1;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until a level has its next row, or no further one.
    fn poll_next(
        &mut self,
        which: usize,
        session: &mut Session,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        let level = &mut self.levels[which];
        if level.next != NextRow::Unknown {
            return Poll::Ready(Ok(()));
        }
        let cursors = self.cursors.as_deref_mut().filter(|_| which == 0);
        match ready!(session.poll_row_of(which, cx))? {
            Some(row) => {
                self.encoder.read(which, level.reader(row, cursors))?;
                level.next = NextRow::Row;
            }
            None => level.next = NextRow::None,
        }
        Poll::Ready(self.check_key(which))
    }

    /// Refuses a row with a NULL in its key, because no parent can match it.
    fn check_key(&self, which: usize) -> Result<(), Error> {
        let Level { name, next, next_key, parent, .. } = &self.levels[which];
        match parent {
            Some(Parent { level, on })
                if *next == NextRow::Row && on.iter().any(|&(own, _)| next_key.is_null(own)) =>
            {
                let parent = &self.levels[*level].name;
                let message = format!(
                    "statement `{name}` has a row whose key is NULL, so it belongs to no row of `{parent}`"
                );
                Err(Error::endpoint(message).hint("leave such rows out: `where … is not null`"))
            }
            _ => Ok(()),
        }
    }

    /// True if the next row of a level belongs in the open row.
    fn has_place(&self, which: usize) -> bool {
        let Level { next, next_key, parent, .. } = &self.levels[which];
        match parent {
            _ if *next != NextRow::Row => false,
            None => true,
            Some(Parent { level, on }) => next_key.is_same(&self.levels[*level].key, on.iter().copied()),
        }
    }

    /// Writes the next row of a level, and begins the first list in it.
    fn write_row(&mut self, which: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        self.check_distinct(which)?;
        self.encoder.place(which, out)?;
        let level = &mut self.levels[which];
        level.open_row();
        match level.children.first() {
            Some(&child) => self.begin_list(child, out),
            None => self.encoder.end_row(which, out),
        }
        Ok(())
    }

    /// Ends a row whose lists are complete.
    fn end_row(&mut self, which: usize, out: &mut Vec<u8>) {
        self.encoder.end_row(which, out);
        if let Some(cursors) = self.cursors.as_deref().filter(|_| which == 0) {
            cursors.end_event(self.encoder.rows(0), out);
        }
    }

    /// Refuses two successive rows with the same key, because they would share their lists.
    fn check_distinct(&self, which: usize) -> Result<(), Error> {
        let Level { name, key, next_key, children, .. } = &self.levels[which];
        if key.is_empty() {
            return Ok(());
        }
        let same = |child: &&usize| {
            let on = self.levels[**child].parent.iter().flat_map(|parent| &parent.on);
            next_key.is_same(key, on.map(|&(_, value)| (value, value)))
        };
        match children.iter().find(same) {
            Some(&child) => {
                let child = &self.levels[child].name;
                let message = format!(
                    "statement `{name}` has two rows with the same key, so `{child}` can't be nested in them"
                );
                Err(Error::endpoint(message).hint("nest by columns whose values are unique in it"))
            }
            None => Ok(()),
        }
    }

    fn begin_list(&mut self, which: usize, out: &mut Vec<u8>) {
        self.encoder.begin_list(which, out);
        self.list = Some(which);
    }

    /// Ends a list, and begins the next one in the same row or continues with the surrounding rows.
    /// The end of the first level is that of the result.
    fn end_list(&mut self, which: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(Parent { level: parent, .. }) = self.levels[which].parent else {
            self.list = None;
            return Ok(());
        };
        self.encoder.end_list(which, out)?;
        self.list = Some(parent);
        let level = &self.levels[parent];
        match level.children.iter().find(|&&sibling| sibling > which) {
            Some(&sibling) => self.begin_list(sibling, out),
            None if parent == 0 && level.cardinality == Cardinality::One => {}
            None => self.end_row(parent, out),
        }
        Ok(())
    }

    /// Ends the result, once nothing can fail any more. If it were ended earlier, a result that is
    /// then aborted could look complete.
    fn end_root(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.levels[0].cardinality == Cardinality::One && self.has_rows() {
            self.encoder.end_row(0, out);
        }
        self.encoder.finish(out)
    }

    /// After the last row, waits until each statement has reported that it has no row left.
    fn poll_over(&mut self, session: &mut Session, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.over < self.levels.len() {
            ready!(self.poll_next(self.over, session, cx))?;
            if self.levels[self.over].next == NextRow::Row {
                return Poll::Ready(Err(self.left_over(self.over)));
            }
            self.over += 1;
        }
        Poll::Ready(Ok(()))
    }

    /// The error for a row whose parent didn't arrive.
    fn left_over(&self, which: usize) -> Error {
        let Level { name, parent, .. } = &self.levels[which];
        let parent = parent.as_ref().map_or(name, |parent| &self.levels[parent.level].name);
        if self.cursors.is_some() {
            let message = format!("statement `{name}` has rows that don't follow those of `{parent}`");
            let hint = format!("nest by columns whose values are unique in each list of `{parent}`");
            return Error::endpoint(message).hint(hint);
        }
        let message = format!(
            "statement `{name}` isn't in the order of `{parent}`, or has rows that belong to no row of \
             `{parent}`"
        );
        Error::endpoint(message).hint("order both by the key, and select no rows without a parent")
    }
}

impl Level {
    fn new(endpoint: &Endpoint, index: usize, args: Vec<usize>, described: &Arc<[Column]>) -> Self {
        let statement = &endpoint.statements()[index];
        Self {
            statement: index,
            name: statement.name.clone(),
            args,
            cardinality: statement.cardinality,
            parent: None,
            children: Vec::new(),
            described: Arc::clone(described),
            columns: Vec::new(),
            next: NextRow::Unknown,
            next_key: KeyText::default(),
            key: KeyText::default(),
        }
    }

    /// Reads the next row, which is written once its parent is open. `cursors` keep its key.
    fn reader<'a>(&'a mut self, row: Row<'a>, cursors: Option<&'a mut Cursors>) -> KeyedRow<'a> {
        KeyedRow {
            row,
            shown: self.described.len(),
            columns: &self.columns,
            key: &mut self.next_key,
            cursors,
        }
    }

    /// Makes the next row the open one.
    fn open_row(&mut self) {
        mem::swap(&mut self.key, &mut self.next_key);
        self.next = match self.cardinality {
            // The start has checked that there's no second row.
            Cardinality::One => NextRow::None,
            _ => NextRow::Unknown,
        };
    }
}

/// The encoder of the rows of these levels.
fn encoder(
    levels: &[Level],
    format: Format,
    options: ValueOptions,
    longest_row: usize,
) -> Result<NestEncoder, Error> {
    if format == Format::Arrow {
        let statements = levels.iter().map(|level| NestedColumns {
            name: &level.name,
            parent: level.parent.as_ref().map(|parent| parent.level),
            columns: &level.described,
        });
        // The budget of a stream counts rows of this length.
        return Ok(NestEncoder::Arrow(Box::new(NestedArrowEncoder::new(statements, longest_row))));
    }
    let shape = shape(format, levels[0].cardinality)
        .ok_or_else(|| Error::endpoint("this format has no lists within rows"))?;
    let part = ListEncoder::root(shape).part();
    let level = |level: &Level| {
        let list = match level.parent {
            None => ListEncoder::root(shape),
            Some(_) => ListEncoder::member(&level.name),
        };
        JsonLevel::new(list, OptionsEncoder::new(part, options, &level.described))
    };
    Ok(NestEncoder::Json(levels.iter().map(level).collect()))
}

/// The statement to run instead of `statement`, the endpoint's own with this index, and its
/// arguments. They differ if the response has cursors.
fn read_of<'a>(
    statement: &'a Statement,
    index: usize,
    tail: Option<&Tail<'a>>,
) -> (&'a database::Statement, Vec<usize>) {
    tail.and_then(|tail| tail.read_of(index)).unwrap_or((&statement.query, statement.args.clone()))
}

/// For each level except the first, its parent level, and the pairs of columns that must be equal:
/// its own, and the parent's. Below a key, those of the paths behind the columns of the results.
type Join = (usize, Vec<(usize, usize)>);

fn joins(
    endpoint: &Endpoint,
    statements: &[usize],
    columns: &[Arc<[Column]>],
    tail: Option<&Tail<'_>>,
) -> Result<Vec<Join>, Error> {
    let parent =
        |statement: usize| statements.iter().position(|&other| endpoint.parent(statement) == Some(other));
    let join = |(level, &statement): (usize, &usize)| {
        let parent = parent(statement)?;
        let on = endpoint.join(statement, &columns[level], &columns[parent]);
        Some(on.map(|on| match tail {
            None => (parent, on),
            Some(tail) => {
                let shown = (columns[level].len(), columns[parent].len());
                let path = 0..tail.key.path_of(statement).0;
                (parent, path.map(|column| (shown.0 + column, shown.1 + column)).collect())
            }
        }))
    };
    statements.iter().enumerate().filter_map(join).collect()
}

/// Connects each level to its parent.
fn tie(levels: &mut [Level], joins: Vec<Join>) {
    for (level, (parent, on)) in (1..).zip(&joins) {
        levels[*parent].children.push(level);
        levels[level].columns.extend(on.iter().map(|&(own, _)| own));
        levels[*parent].columns.extend(on.iter().map(|&(_, other)| other));
    }
    for level in &mut *levels {
        level.columns.sort_unstable();
        level.columns.dedup();
    }
    for (level, (parent, on)) in (1..).zip(joins) {
        let value =
            |level: usize, column: usize| levels[level].columns.partition_point(|&before| before < column);
        let on = on.iter().map(|&(own, other)| (value(level, own), value(parent, other))).collect();
        levels[level].parent = Some(Parent { level: parent, on });
    }
}
