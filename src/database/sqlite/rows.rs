//! The rows of the statement that runs, read by SQLite's C API.
//!
//! rusqlite's row asks for each value four times (how many columns, which type, the text, its
//! length), and each of these finds the value anew: a third of the worker's instructions. Here each
//! value is found once. Everything else of the statement stays rusqlite's: what is compiled, bound,
//! stepped and reset.

#![expect(unsafe_code, reason = "rusqlite lends no `sqlite3_value`; each call says why it is sound")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};
use std::slice;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement, ffi};

/// A statement as SQLite's C API names it.
pub(super) type Handle = NonNull<ffi::sqlite3_stmt>;

/// The rows of a statement. Invariants:
///
/// 1. `found` is the statement behind `rows`, which lives as long as `rows` does;
/// 2. between two calls of [`Rows::next`], which borrows mutably, a row's values stay where they
///    are.
pub(super) struct Rows<'a> {
    connection: &'a Connection,
    rows: rusqlite::Rows<'a>,
    found: Option<Handle>,
    /// Statements that run on the connection too.
    others: Vec<Handle>,
    columns: usize,
}

impl<'a> Rows<'a> {
    /// Runs `statement` with what is bound to it. It must be the only one that runs on
    /// `connection`, but for those of [`Rows::beside`].
    pub(super) fn new(connection: &'a Connection, statement: &'a mut Statement<'_>) -> Self {
        Self { connection, rows: statement.raw_query(), found: None, others: Vec::new(), columns: 0 }
    }

    /// Before the first step: the statements that run on the connection already.
    pub(super) fn beside(&mut self, others: Vec<Handle>) {
        self.others = others;
    }

    /// The statement, once it has a row.
    pub(super) fn handle(&self) -> Option<Handle> {
        self.found
    }

    /// Steps. Whether there is a row, which then is the one that [`Rows::value`] reads.
    ///
    /// # Errors
    /// The statement failed.
    ///
    /// # Panics
    /// Another statement of the same text runs on the connection.
    #[inline]
    pub(super) fn next(&mut self) -> rusqlite::Result<bool> {
        if self.rows.next()?.is_none() {
            return Ok(false);
        }
        if self.found.is_none() {
            self.find();
        }
        Ok(true)
    }

    /// Finds what reads the values. Only now, because the first step may compile the statement
    /// anew.
    #[cold]
    fn find(&mut self) {
        let mut running = running(self.connection, &self.others);
        if running.len() > 1 {
            // Virtual tables run statements of their own while they are read.
            let own = self.statement().and_then(Statement::expanded_sql);
            running.retain(|&statement| text(statement) == own);
        }
        assert_eq!(running.len(), 1, "a statement has a row, so one runs, and no other with its text");
        self.found = running.pop();
        self.columns = self.statement().map_or(0, Statement::column_count);
    }

    /// The statement; `None` after its last row.
    pub(super) fn statement(&self) -> Option<&Statement<'_>> {
        self.rows.as_ref()
    }

    /// Values per row, once there is one.
    #[inline]
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// A value of the row that the last [`Rows::next`] found.
    #[inline]
    pub(super) fn value(&self, column: usize) -> ValueRef<'_> {
        let statement = self.found.expect("there is a row");
        // SAFETY: by invariant 1 the statement lives. Without a row, or beyond its columns, the
        // answer is a NULL of SQLite's own. The value is an unprotected one, to be used by one
        // thread at a time: the connection never leaves the worker's thread, since it is borrowed
        // and not `Sync`.
        unsafe { value(ffi::sqlite3_column_value(statement.as_ptr(), column as c_int)) }
    }
}

/// The statements of `connection` beside `others` that have been stepped and not reset.
fn running(connection: &Connection, others: &[Handle]) -> Vec<Handle> {
    let mut found = Vec::with_capacity(1);
    // SAFETY: the handle is only read here, and the connection is open.
    let mut statement = unsafe { ffi::sqlite3_next_stmt(connection.handle(), ptr::null_mut()) };
    while let Some(this) = NonNull::new(statement) {
        // SAFETY: SQLite has just said that this statement is one of the connection's.
        let busy = unsafe { ffi::sqlite3_stmt_busy(this.as_ptr()) } != 0;
        if busy && !others.contains(&this) {
            found.push(this);
        }
        // SAFETY: as above; nothing has been finalised since.
        statement = unsafe { ffi::sqlite3_next_stmt(connection.handle(), this.as_ptr()) };
    }
    found
}

/// The text of a statement with what is bound to it, as [`Statement::expanded_sql`] has it.
fn text(statement: Handle) -> Option<String> {
    // SAFETY: the statement is one of an open connection. The text is a C string that is ours to
    // free, or none where there is no memory for it; it is copied before.
    unsafe {
        let text = NonNull::new(ffi::sqlite3_expanded_sql(statement.as_ptr()))?;
        let copy = CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned();
        ffi::sqlite3_free(text.as_ptr().cast());
        Some(copy)
    }
}

/// Reads a value.
///
/// # Safety
/// `value` is one of SQLite's, stays unchanged for `'a`, and no other thread uses its connection.
#[inline]
unsafe fn value<'a>(value: *mut ffi::sqlite3_value) -> ValueRef<'a> {
    // SAFETY: the caller's. The type is asked for first, since reading may change it; then the
    // bytes, since making them may move them; their length last.
    unsafe {
        match ffi::sqlite3_value_type(value) {
            ffi::SQLITE_INTEGER => ValueRef::Integer(ffi::sqlite3_value_int64(value)),
            ffi::SQLITE_FLOAT => ValueRef::Real(ffi::sqlite3_value_double(value)),
            ffi::SQLITE_TEXT => {
                let text: *const c_void = ffi::sqlite3_value_text(value).cast();
                // A text in UTF-16 is converted, which takes memory. What could not be read must
                // not become an empty text.
                assert!(!text.is_null(), "SQLite has no memory for a text");
                ValueRef::Text(bytes(text, ffi::sqlite3_value_bytes(value)))
            }
            ffi::SQLITE_BLOB => {
                let blob = ffi::sqlite3_value_blob(value);
                let length = ffi::sqlite3_value_bytes(value);
                assert!(length == 0 || !blob.is_null(), "SQLite has no memory for a blob");
                ValueRef::Blob(bytes(blob, length))
            }
            _ => ValueRef::Null,
        }
    }
}

/// The bytes at `start`; none when there are none, for which SQLite has no address.
///
/// # Safety
/// `length` bytes are there, or it is 0, and they stay unchanged for `'a`.
#[inline]
unsafe fn bytes<'a>(start: *const c_void, length: c_int) -> &'a [u8] {
    match usize::try_from(length) {
        // SAFETY: the caller's.
        Ok(length @ 1..) => unsafe { slice::from_raw_parts(start.cast(), length) },
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    #[test]
    fn values_are_those_of_rusqlite() {
        for encoding in ["UTF-8", "UTF-16le"] {
            let connection = connection();
            connection.execute_batch(&format!("pragma encoding = '{encoding}'; create table t (v)")).unwrap();
            connection
                .execute_batch(
                    "insert into t values (null), (-9223372036854775808), (1.5), ('é\u{1F600}'), (''), (x'00ff'),
                    (x''), (zeroblob(3)), ('a' || char(0) || 'b')",
                )
                .unwrap();
            let sql = "select v from t order by rowid";
            let mut expected = connection.prepare(sql).unwrap();
            let mut expected = expected.query([]).unwrap();
            let values: Vec<rusqlite::types::Value> =
                std::iter::from_fn(|| expected.next().unwrap().map(|row| row.get(0).unwrap())).collect();
            drop(expected);
            let mut statement = connection.prepare(sql).unwrap();
            let mut rows = Rows::new(&connection, &mut statement);
            for value in &values {
                assert!(rows.next().unwrap());
                assert_eq!(rows.value(0), ValueRef::from(value), "{encoding}");
                assert_eq!(
                    (rows.value(1), rows.columns()),
                    (ValueRef::Null, 1),
                    "beyond the columns is NULL"
                );
            }
            assert!(!rows.next().unwrap());
            assert_eq!(values.len(), 9);
        }
    }

    /// The second statement's rows must not be read as the first one's.
    #[test]
    #[should_panic(expected = "and no other")]
    fn two_that_run_are_not_confused() {
        let connection = connection();
        let mut both = [0; 2].map(|_| connection.prepare("values (1), (2)").unwrap());
        let [first, second] = &mut both;
        let mut first = first.query([]).unwrap();
        first.next().unwrap();
        let _ = Rows::new(&connection, second).next();
    }

    /// What a virtual table reads by statements of its own (pragmas, full-text search) ended the
    /// thread: which of those that ran was the one to be read was not known.
    #[test]
    fn statements_of_virtual_tables_are_not_read() {
        let connection = connection();
        connection
            .execute_batch(
                "create virtual table f using fts5(x); insert into f values ('one two'), ('one three')",
            )
            .unwrap();
        for (sql, first) in [
            ("select name from pragma_table_info('f') where 7 > ?1", "x"),
            ("select x from f where f match 'one' and 7 > ?1 order by rowid", "one two"),
            ("select name from pragma_table_info('f') join f on 7 > ?1", "x"),
        ] {
            let mut statement = connection.prepare(sql).unwrap();
            statement.raw_bind_parameter(1, 1).unwrap();
            let mut rows = Rows::new(&connection, &mut statement);
            assert!(rows.next().unwrap());
            assert_eq!(rows.value(0), ValueRef::Text(first.as_bytes()), "{sql}");
        }
    }

    #[test]
    fn statements_that_run_side_by_side_keep_their_rows() {
        let connection = connection();
        let mut statements: Vec<_> = (0..3)
            .map(|i| connection.prepare(&format!("values ({i}), ({i} + 10), ({i} + 20)")).unwrap())
            .collect();
        let mut rows: Vec<_> =
            statements.iter_mut().map(|statement| Rows::new(&connection, statement)).collect();
        for (round, order) in [[2, 0, 1], [0, 1, 2], [1, 2, 0]].into_iter().enumerate() {
            for i in order {
                if round == 0 {
                    let others = rows.iter().filter_map(Rows::handle).collect();
                    rows[i].beside(others);
                }
                assert!(rows[i].next().unwrap());
                assert_eq!(rows[i].value(0), ValueRef::Integer((i + 10 * round) as i64));
            }
        }
        assert!(rows.iter_mut().all(|rows| !rows.next().unwrap()));
    }

    #[test]
    fn the_statement_is_found_among_others() {
        let connection = connection();
        let mut statements: Vec<_> =
            (0..5).map(|i| connection.prepare(&format!("values ({i})")).unwrap()).collect();
        for i in [3, 0, 4] {
            let mut rows = Rows::new(&connection, &mut statements[i]);
            assert!(rows.next().unwrap());
            assert_eq!(rows.value(0), ValueRef::Integer(i as i64));
        }
    }
}
