//! Rows of cursors that functions and procedures open.
//!
//! A refcursor is the name of a cursor that lives in the transaction. First we call the statement
//! that opens it. Only then do we know the columns of its rows, and the next call may have others.
//! We fetch the rows in steps:
//!
//! ```text
//!                 call                    Describe                 execute
//!   prepared ───────────────► the names ───────────► the columns ──────────► FETCH n ◄──┐
//!            (begin, Execute)                                                   │       │ n rows were read
//!                                                                               ├───────┘
//!                                                                               └── fewer rows: the end
//! ```
//!
//! A cursor is a portal, so we could send Execute for it under its own name, without FETCH. But the
//! function that opened it has chosen text for all columns. That is the most expensive format for
//! the server (numbers and timestamps), and the decoders of other statements don't read it. FETCH
//! returns columns in the formats of its own Bind. On the other hand, the server makes all rows of
//! a FETCH before it sends the first one. So steps are short, and the first ones are even shorter.
//!
//! Invariants:
//! 1. we ask for a step only once the rows of the previous one were taken, so a client that doesn't
//!    read stops the cursor;
//! 2. the server says at the end of a step how many rows it had, and after a full step we ask for
//!    another: no row is lost or repeated between steps;
//! 3. rows end with `None` only after the CommandComplete of a step that wasn't full, and
//!    ReadyForQuery.

use std::sync::Arc;

use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_database::Statement;
use rowstream_encode::Column;

use super::super::statement::{Prepared, SentStatement};
use super::super::value::text_field;
use super::super::wire::Frame;
use super::{Progress, RunningStatement, Session, State, bind, out_of_order, prepared, unsendable};

/// Rows of the first step, unless the source sets a number. Few, so that the first row doesn't wait
/// for many others.
const FIRST_STEP: i32 = 32;
/// The most rows of a step, unless the source sets a number. Measured: from some 500 rows on, the
/// number of steps makes no difference for the server, and a round trip is a small part of its
/// time.
const LONGEST_STEP: i32 = 1024;
/// One row, and a second one to prove that there is one too many.
const MAX_ROWS: i32 = 2;

/// A cursor of the transaction, and how far we have read it.
pub(super) struct Refcursor {
    /// Its name, quoted.
    identifier: String,
    /// The rows that we asked for in this step.
    step: i32,
    /// The rows that the step had, once it's complete.
    came: i32,
}

impl Session {
    /// Runs a statement that opens cursors, and returns the names in its rows.
    pub(super) async fn call_opener(
        &mut self,
        index: usize,
        args: &[&ParamValue],
    ) -> Result<Vec<Vec<Option<String>>>, Error> {
        let sent = self.write_execute(index, args, MAX_ROWS)?;
        self.answering(sent.in_flight())?;
        let prepared = Arc::clone(&self.prepared[index]);
        let columns = prepared.columns.len();
        let mut rows = Vec::new();
        let mut failed = None;
        while self.state.in_flight() > 0 {
            let frame = self.frame().await?;
            match frame.tag {
                b'D' if rows.len() < MAX_ROWS as usize => rows.push(self.names(&frame, columns)),
                b'D' => return Err(self.broken(out_of_order())),
                b'E' => {
                    let error = self.error_of(&frame)?;
                    let is_stale = self.forget_if_stale(&prepared, &error);
                    self.stop();
                    failed.get_or_insert(if is_stale { error.into_changed() } else { error.into_error() });
                }
                _ => self.note_ready(&frame)?,
            }
        }
        if let Some(failed) = failed {
            return Err(failed);
        }
        prepared.note_run();
        Ok(rows)
    }

    /// The fields of a row as text; refcursors are text.
    pub(super) fn names(&mut self, frame: &Frame, columns: usize) -> Vec<Option<String>> {
        let row = self.connection().wire.body(frame);
        (0..columns).map(|column| text_field(row, column).map(str::to_owned)).collect()
    }

    /// See [`rowstream_database::DatabaseSession::open_refcursor`].
    pub(super) async fn describe_refcursor(
        &mut self,
        index: usize,
        name: &str,
    ) -> Result<Arc<[Column]>, Error> {
        // The unnamed portal is ours.
        if name.is_empty() {
            return Err(no_cursor(name));
        }
        let version = self.shared.types.version();
        let write = &mut self.connection().wire.write;
        frontend::describe(b'P', name, write).map_err(unsendable)?;
        frontend::sync(write);
        let fields = match self.description(1).await? {
            Err(error) if error.sqlstate == "34000" => return Err(no_cursor(name).sqlstate("34000")),
            Err(error) => return Err(error.into_error()),
            Ok((_, fields)) => fields.ok_or_else(|| no_cursor(name))?,
        };
        let types = self.types_of(&fields).await?;
        let refcursor = Refcursor::new(name, self.shared.fetch_rows);
        let statement = Statement { sql: refcursor.fetch().into(), types: Vec::new(), ad_hoc: false };
        let sent = Arc::new(SentStatement::plain(Arc::clone(&statement.sql)));
        let prepared = Arc::new(prepared(String::new(), statement, sent, &fields, &types, version));
        let columns = Arc::clone(&prepared.columns);
        self.prepared[index] = prepared;
        self.refcursors.push((index, refcursor));
        Ok(columns)
    }

    /// The cursor that we read instead of a statement.
    pub(super) fn take_refcursor(&mut self, index: usize) -> Option<Refcursor> {
        let at = self.refcursors.iter().position(|(statement, _)| *statement == index)?;
        Some(self.refcursors.swap_remove(at).1)
    }

    /// Asks for the first step.
    pub(super) fn execute_refcursor(
        &mut self,
        index: usize,
        refcursor: Refcursor,
    ) -> Result<RunningStatement, Error> {
        let prepared = Arc::clone(&self.prepared[index]);
        self.write_fetch(&refcursor.fetch(), &prepared)?;
        Ok(RunningStatement::new(prepared, Progress::Rows, Some(refcursor)))
    }

    /// Asks for the next step.
    pub(super) fn fetch_step(&mut self) -> Result<(), Error> {
        let fetch_rows = self.shared.fetch_rows;
        let State::Running(RunningStatement { prepared, refcursor: Some(refcursor), .. }) = &mut self.state
        else {
            return Err(self.broken(out_of_order()));
        };
        refcursor.lengthen(fetch_rows);
        let (fetch, prepared) = (refcursor.fetch(), Arc::clone(prepared));
        self.write_fetch(&fetch, &prepared)?;
        self.progress(Progress::Rows);
        Ok(())
    }

    /// Parses the FETCH again for each step, which takes a small part of the step's time. If it had
    /// a name, we would have to close it however the response ends.
    fn write_fetch(&mut self, fetch: &str, prepared: &Prepared) -> Result<(), Error> {
        let write = &mut self.connection().wire.write;
        frontend::parse("", fetch, [], write).map_err(unsendable)?;
        bind("", &prepared.name, &prepared.sent, &prepared.decoders, &[], write)?;
        frontend::execute("", 0, write).map_err(unsendable)?;
        frontend::sync(write);
        Ok(())
    }

    /// Records the number of rows at the end of a step.
    pub(super) fn note_step(&mut self, frame: &Frame) -> Result<(), Error> {
        let State::Running(RunningStatement { refcursor: Some(_), .. }) = self.state else { return Ok(()) };
        let Message::CommandComplete(body) = self.parse(frame)? else {
            return Err(self.broken(out_of_order()));
        };
        let count = body.tag().ok().and_then(|tag| tag.strip_prefix("FETCH ")?.parse().ok());
        match (&mut self.state, count) {
            (State::Running(RunningStatement { refcursor: Some(refcursor), .. }), Some(came))
                if came <= refcursor.step =>
            {
                refcursor.came = came;
            }
            _ => return Err(self.broken(out_of_order())),
        }
        Ok(())
    }
}

impl RunningStatement {
    /// Returns true if the cursor may have rows left.
    pub(super) fn has_more_steps(&self) -> bool {
        self.refcursor.as_ref().is_some_and(|refcursor| refcursor.came == refcursor.step)
    }
}

impl Refcursor {
    fn new(name: &str, fetch_rows: i32) -> Self {
        let identifier = format!("\"{}\"", name.replace('"', "\"\""));
        Self { identifier, step: if fetch_rows > 0 { fetch_rows } else { FIRST_STEP }, came: 0 }
    }

    /// The statement that returns the rows of a step.
    fn fetch(&self) -> String {
        format!("fetch forward {} from {}", self.step, self.identifier)
    }

    /// Sets the length of the next step: the source's number, or else more than the previous step.
    fn lengthen(&mut self, fetch_rows: i32) {
        self.step = if fetch_rows > 0 { fetch_rows } else { (2 * self.step).min(LONGEST_STEP) };
        self.came = 0;
    }
}

#[cold]
fn no_cursor(name: &str) -> Error {
    let message =
        format!("a refcursor names cursor {}, which isn't open", rowstream_core::diagnostic::shown(name));
    Error::endpoint(message).hint(
        "the function must open it and leave it open: it must not close it, nor \
        catch an error after opening it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        for (name, sql) in [
            ("c", "fetch forward 7 from \"c\""),
            ("<unnamed portal 1>", "fetch forward 7 from \"<unnamed portal 1>\""),
            ("a\"; drop \"b", "fetch forward 7 from \"a\"\"; drop \"\"b\""),
        ] {
            assert_eq!(Refcursor::new(name, 7).fetch(), sql);
        }
    }

    #[test]
    fn steps_grow_unless_the_source_says_their_length() {
        let mut refcursor = Refcursor::new("c", 0);
        let mut steps = Vec::new();
        for _ in 0..8 {
            steps.push(refcursor.step);
            refcursor.lengthen(0);
        }
        assert_eq!(steps, [32, 64, 128, 256, 512, 1024, 1024, 1024]);
        let mut refcursor = Refcursor::new("c", 5000);
        refcursor.lengthen(5000);
        assert_eq!(refcursor.step, 5000);
    }
}
