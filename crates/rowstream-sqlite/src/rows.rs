//! Reads the rows of a running statement by SQLite's C API.
//!
//! For each value, rusqlite's row makes four calls (the number of columns, the type, the text, its
//! length), and each of them looks the value up again: a third of the worker's instructions. Here
//! we look up each value once. rusqlite still compiles, binds, steps and resets the statement.

#![expect(unsafe_code, reason = "rusqlite lends no `sqlite3_value`; each call says why it is sound")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};
use std::slice;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement, ffi};

/// A statement in SQLite's C API.
pub(super) type Handle = NonNull<ffi::sqlite3_stmt>;

/// The rows of a statement. Invariants:
///
/// 1. `found` is the statement behind `rows`, which lives as long as `rows` does;
/// 2. between two calls of [`Rows::next`], which borrows mutably, a row's values don't move.
pub(super) struct Rows<'a> {
    connection: &'a Connection,
    rows: rusqlite::Rows<'a>,
    found: Option<Handle>,
    /// The other statements that run on the connection.
    others: Vec<Handle>,
    columns: usize,
}

impl<'a> Rows<'a> {
    /// Runs `statement` with its bound values. No other statement may run on `connection`, except
    /// those of [`Rows::beside`].
    pub(super) fn new(connection: &'a Connection, statement: &'a mut Statement<'_>) -> Self {
        Self { connection, rows: statement.raw_query(), found: None, others: Vec::new(), columns: 0 }
    }

    /// Sets the statements that already run on the connection. Called before the first step.
    pub(super) fn beside(&mut self, others: Vec<Handle>) {
        self.others = others;
    }

    /// The statement, once it has a row.
    pub(super) fn handle(&self) -> Option<Handle> {
        self.found
    }

    /// Steps to the next row, which [`Rows::value`] then reads. Returns true if there is one.
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

    /// Finds the handle that reads the values. Called after the first step, which can recompile the
    /// statement.
    #[cold]
    fn find(&mut self) {
        let mut running = running(self.connection, &self.others);
        if running.len() > 1 {
            // Virtual tables run their own statements while they are read.
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

    /// The number of values per row, once there is a row.
    #[inline]
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Returns a value of the current row.
    #[inline]
    pub(super) fn value(&self, column: usize) -> ValueRef<'_> {
        let statement = self.found.expect("there is a row");
        // SAFETY: the statement lives (invariant 1). Without a row, or beyond its columns, SQLite
        // returns a static NULL. The value is an unprotected one, which only one thread at a time
        // may use. The connection never leaves the worker's thread, because it is borrowed and not
        // `Sync`.
        unsafe { value(ffi::sqlite3_column_value(statement.as_ptr(), column as c_int)) }
    }
}

/// Returns the statements of `connection`, without `others`, that have been stepped and not reset.
fn running(connection: &Connection, others: &[Handle]) -> Vec<Handle> {
    let mut found = Vec::with_capacity(1);
    // SAFETY: the handle is only read here, and the connection is open.
    let mut statement = unsafe { ffi::sqlite3_next_stmt(connection.handle(), ptr::null_mut()) };
    while let Some(this) = NonNull::new(statement) {
        // SAFETY: SQLite has just returned this statement as one of the connection's.
        let busy = unsafe { ffi::sqlite3_stmt_busy(this.as_ptr()) } != 0;
        if busy && !others.contains(&this) {
            found.push(this);
        }
        // SAFETY: as above; no statement has been finalised since.
        statement = unsafe { ffi::sqlite3_next_stmt(connection.handle(), this.as_ptr()) };
    }
    found
}

/// Returns the text of a statement with its bound values, like [`Statement::expanded_sql`].
fn text(statement: Handle) -> Option<String> {
    // SAFETY: the statement belongs to an open connection. The text is a C string that we own, or
    // null if SQLite has no memory for it. We copy it before we free it.
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
/// `value` belongs to SQLite, stays unchanged for `'a`, and no other thread uses its connection.
#[inline]
unsafe fn value<'a>(value: *mut ffi::sqlite3_value) -> ValueRef<'a> {
    // SAFETY: the caller's. We read the type first, because reading the value may change it. Then
    // the bytes, because converting them may move them, and their length last.
    unsafe {
        match ffi::sqlite3_value_type(value) {
            ffi::SQLITE_INTEGER => ValueRef::Integer(ffi::sqlite3_value_int64(value)),
            ffi::SQLITE_FLOAT => ValueRef::Real(ffi::sqlite3_value_double(value)),
            ffi::SQLITE_TEXT => {
                let text: *const c_void = ffi::sqlite3_value_text(value).cast();
                // SQLite converts a text in UTF-16, which needs memory. If that fails, the text
                // must not become an empty one.
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

/// Returns the bytes at `start`. SQLite has no address for an empty value.
///
/// # Safety
/// `length` is 0, or `start` points to that many bytes, which stay unchanged for `'a`.
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

    /// We must not read the second statement's rows as the first one's.
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

    /// Virtual tables (pragmas, full-text search) run their own statements. We couldn't identify
    /// ours among the running statements, so the thread panicked.
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
