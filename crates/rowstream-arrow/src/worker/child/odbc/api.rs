//! ODBC's C functions, exported by the driver manager (unixODBC), and handles that free themselves.
//!
//! We load the driver manager at run time, so that the program also starts without one. These are
//! the functions of ODBC 3 that a driver process calls. We use their wide variants: texts are
//! UTF-16, so they don't depend on a locale.

#![expect(unsafe_code, reason = "ODBC is a C library; each call says why it is sound")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;

use libloading::Library;

use super::super::super::frame::{Failed, Fault};

/// A handle of the driver manager.
pub(super) type Raw = *mut c_void;

const SUCCESS: i16 = 0;
const SUCCESS_WITH_INFO: i16 = 1;
const NO_DATA: i16 = 100;

/// The indicator of a NULL value.
pub(super) const NULL_DATA: isize = -1;

/// The kinds of handles.
const ENVIRONMENT: i16 = 1;
const CONNECTION: i16 = 2;
const STATEMENT: i16 = 3;

/// The driver managers' names, newest first.
const LIBRARIES: [&str; 3] = ["libodbc.so.2", "libodbc.so.1", "libodbc.so"];

macro_rules! functions {
    ($($name:ident: $symbol:ident($($argument:ty),*);)+) => {
        struct Api {
            $($name: unsafe extern "C" fn($($argument),*) -> i16,)+
            /// The library of the functions.
            _library: Library,
        }

        impl Api {
            fn of(library: Library) -> Result<Self, libloading::Error> {
                // SAFETY: the functions have these types by the standard (ISO/IEC 9075-3, and
                // Microsoft's ODBC 3 for the wide ones).
                unsafe {
                    Ok(Self {
                        $($name: *library.get(concat!(stringify!($symbol), "\0").as_bytes())?,)+
                        _library: library,
                    })
                }
            }
        }
    };
}

functions! {
    alloc_handle: SQLAllocHandle(i16, Raw, *mut Raw);
    free_handle: SQLFreeHandle(i16, Raw);
    set_env_attr: SQLSetEnvAttr(Raw, i32, *mut c_void, i32);
    driver_connect: SQLDriverConnectW(Raw, Raw, *const u16, i16, *mut u16, i16, *mut i16, u16);
    disconnect: SQLDisconnect(Raw);
    get_connect_attr: SQLGetConnectAttrW(Raw, i32, *mut c_void, i32, *mut i32);
    set_connect_attr: SQLSetConnectAttrW(Raw, i32, *mut c_void, i32);
    get_info: SQLGetInfoW(Raw, u16, *mut c_void, i16, *mut i16);
    end_tran: SQLEndTran(i16, Raw, i16);
    prepare: SQLPrepareW(Raw, *const u16, i32);
    num_params: SQLNumParams(Raw, *mut i16);
    bind_parameter: SQLBindParameter(Raw, u16, i16, i16, i16, usize, i16, *mut c_void, isize, *mut isize);
    execute: SQLExecute(Raw);
    num_result_cols: SQLNumResultCols(Raw, *mut i16);
    describe_col: SQLDescribeColW(Raw, u16, *mut u16, i16, *mut i16, *mut i16, *mut usize, *mut i16, *mut i16);
    col_attribute: SQLColAttributeW(Raw, u16, u16, *mut c_void, i16, *mut i16, *mut isize);
    set_stmt_attr: SQLSetStmtAttrW(Raw, i32, *mut c_void, i32);
    bind_col: SQLBindCol(Raw, u16, i16, *mut c_void, isize, *mut isize);
    fetch: SQLFetch(Raw);
    set_pos: SQLSetPos(Raw, usize, u16, u16);
    get_data: SQLGetData(Raw, u16, i16, *mut c_void, isize, *mut isize);
    more_results: SQLMoreResults(Raw);
    close_cursor: SQLCloseCursor(Raw);
    cancel: SQLCancel(Raw);
    get_diag_rec: SQLGetDiagRecW(i16, Raw, i16, *mut u16, *mut i32, *mut u16, i16, *mut i16);
}

/// Returns the driver manager's functions. They stay loaded until the process ends.
fn api() -> Result<&'static Api, Failed> {
    static API: OnceLock<Api> = OnceLock::new();
    if let Some(api) = API.get() {
        return Ok(api);
    }
    let mut last = String::new();
    for name in LIBRARIES {
        // SAFETY: loading a library runs its code. This process exists to isolate that.
        match unsafe { Library::new(name) }.and_then(Api::of) {
            Ok(api) => return Ok(API.get_or_init(|| api)),
            Err(error) => last = error.to_string(),
        }
    }
    Err(failed(format!("the driver manager of ODBC (unixODBC's libodbc.so.2) cannot be loaded: {last}")))
}

fn failed(message: String) -> Failed {
    Failed { fault: Fault::Connection, message, sqlstate: None }
}

/// A handle that frees itself.
struct Handle {
    api: &'static Api,
    kind: i16,
    raw: Raw,
}

impl Handle {
    fn new(api: &'static Api, kind: i16, parent: Option<&Self>) -> Result<Self, Failed> {
        let mut raw = null_mut();
        // SAFETY: the parent lives, and the call writes the new handle to `raw`.
        let code =
            unsafe { (api.alloc_handle)(kind, parent.map_or(null_mut(), |parent| parent.raw), &raw mut raw) };
        match (is_well(code), parent) {
            (true, _) => Ok(Self { api, kind, raw }),
            (false, Some(parent)) => Err(parent.diagnosis()),
            (false, None) => Err(failed("ODBC has no environment".to_owned())),
        }
    }

    /// Converts a function's return code. An error includes its diagnosis.
    fn check(&self, code: i16) -> Result<Code, Failed> {
        match code {
            SUCCESS => Ok(Code::Success),
            SUCCESS_WITH_INFO => Ok(Code::WithInfo),
            NO_DATA => Ok(Code::NoData),
            _ => Err(self.diagnosis()),
        }
    }

    /// Returns the driver's messages about the last error.
    fn diagnosis(&self) -> Failed {
        let mut messages = Vec::new();
        let mut sqlstate = None;
        for record in 1..=LAST_RECORD {
            let Some((state, message)) = self.record(record) else { break };
            sqlstate.get_or_insert(state);
            if !messages.contains(&message) {
                messages.push(message);
            }
        }
        if messages.is_empty() {
            messages.push("the driver failed without a message".to_owned());
        }
        let fault = sqlstate.as_deref().map_or(Fault::Statement, fault);
        Failed { fault, message: messages.join("; "), sqlstate }
    }

    fn record(&self, record: i16) -> Option<(String, String)> {
        let (mut state, mut text) = ([0_u16; 6], [0_u16; 1024]);
        let (mut native, mut length) = (0, 0_i16);
        // SAFETY: the buffers are as long as the call says (in characters), and outlive it.
        let code = unsafe {
            (self.api.get_diag_rec)(
                self.kind,
                self.raw,
                record,
                state.as_mut_ptr(),
                &raw mut native,
                text.as_mut_ptr(),
                text.len() as i16,
                &raw mut length,
            )
        };
        let length = usize::try_from(length).unwrap_or(0).min(text.len() - 1);
        is_well(code).then(|| {
            (String::from_utf16_lossy(&state[..5]), plain(&String::from_utf16_lossy(&text[..length])))
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was allocated, and no other code uses it any more.
        unsafe { (self.api.free_handle)(self.kind, self.raw) };
    }
}

/// How many messages of one error we read.
const LAST_RECORD: i16 = 3;

/// Removes the names of the components that a message has passed: `[unixODBC][Driver]ERROR: …`.
fn plain(message: &str) -> String {
    let mut message = message.trim();
    while let Some((name, rest)) = message.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        if name.contains('[') || rest.is_empty() {
            break;
        }
        message = rest.trim_start();
    }
    message.replace(['\n', '\r'], " ")
}

/// Determines the cause of an error by the class of its SQLSTATE.
fn fault(sqlstate: &str) -> Fault {
    match sqlstate {
        "HY008" | "57014" => Fault::Cancelled,
        "HYT00" | "HYT01" => Fault::Connection,
        state if state.starts_with("08") || state.starts_with("IM") => Fault::Connection,
        state if state.starts_with("22") => Fault::Data,
        _ => Fault::Statement,
    }
}

fn is_well(code: i16) -> bool {
    matches!(code, SUCCESS | SUCCESS_WITH_INFO)
}

/// The result of a call that didn't fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    /// Success.
    Success,
    /// Success with a warning: a text didn't fit its buffer.
    WithInfo,
    /// There's no more data.
    NoData,
}

/// A connection with its own environment.
pub(super) struct Connection {
    handle: Handle,
    /// Freed after the connection.
    _environment: Handle,
}

impl Connection {
    /// Connects by a connection string.
    ///
    /// # Errors
    /// The driver manager or the driver is missing, or the driver can't connect.
    pub(super) fn open(connection: &str, timeout_seconds: usize) -> Result<Self, Failed> {
        const ODBC_VERSION: i32 = 200;
        const ODBC_3: usize = 3;
        const LOGIN_TIMEOUT: i32 = 103;
        const NO_PROMPT: u16 = 0;
        let api = api()?;
        let environment = Handle::new(api, ENVIRONMENT, None)?;
        // SAFETY: the attribute's value is an integer, passed as a pointer.
        environment
            .check(unsafe { (api.set_env_attr)(environment.raw, ODBC_VERSION, ODBC_3 as *mut c_void, 0) })?;
        let handle = Handle::new(api, CONNECTION, Some(&environment))?;
        // SAFETY: the same. We ignore errors, because not every driver has a timeout.
        unsafe { (api.set_connect_attr)(handle.raw, LOGIN_TIMEOUT, timeout_seconds as *mut c_void, 0) };
        let text: Vec<u16> = connection.encode_utf16().chain([0]).collect();
        let length = i16::try_from(text.len() - 1)
            .map_err(|_| failed("the connection string is too long".to_owned()))?;
        // SAFETY: the text is as long as the call says, and the call writes nothing back.
        let code = unsafe {
            (api.driver_connect)(
                handle.raw,
                null_mut(),
                text.as_ptr(),
                length,
                null_mut(),
                0,
                null_mut(),
                NO_PROMPT,
            )
        };
        handle.check(code)?;
        Ok(Self { handle, _environment: environment })
    }

    /// Returns the driver's text about itself; empty if it has none.
    pub(super) fn info_text(&self, what: u16) -> String {
        let mut text = [0_u16; 128];
        let mut length = 0_i16;
        // SAFETY: the buffer is as long as the call says, in bytes.
        let code = unsafe {
            (self.handle.api.get_info)(
                self.handle.raw,
                what,
                text.as_mut_ptr().cast(),
                (text.len() * 2) as i16,
                &raw mut length,
            )
        };
        let length = if is_well(code) { usize::try_from(length / 2).unwrap_or(0) } else { 0 };
        String::from_utf16_lossy(&text[..length.min(text.len())])
    }

    /// Returns the driver's number about itself; 0 if it has none.
    pub(super) fn info_number(&self, what: u16) -> u32 {
        let mut number = 0_u32;
        // SAFETY: the call writes a number of four bytes.
        let code = unsafe {
            (self.handle.api.get_info)(self.handle.raw, what, (&raw mut number).cast(), 4, null_mut())
        };
        if is_well(code) { number } else { 0 }
    }

    /// Returns a numeric attribute.
    pub(super) fn attribute(&self, what: i32) -> Option<usize> {
        let mut number = 0_usize;
        // SAFETY: the call writes 32 or 64 bits into eight bytes, the low ones first.
        let code = unsafe {
            (self.handle.api.get_connect_attr)(self.handle.raw, what, (&raw mut number).cast(), 0, null_mut())
        };
        is_well(code).then_some(number)
    }

    /// Sets a numeric attribute.
    ///
    /// # Errors
    /// The driver rejects the value.
    pub(super) fn set_attribute(&self, what: i32, value: usize) -> Result<(), Failed> {
        // SAFETY: the value is an integer, passed as a pointer.
        let code =
            unsafe { (self.handle.api.set_connect_attr)(self.handle.raw, what, value as *mut c_void, 0) };
        self.handle.check(code).map(drop)
    }

    /// Rolls back the transaction.
    ///
    /// # Errors
    /// The driver can't roll it back.
    pub(super) fn roll_back(&self) -> Result<(), Failed> {
        const ROLLBACK: i16 = 1;
        // SAFETY: the connection is open.
        let code = unsafe { (self.handle.api.end_tran)(CONNECTION, self.handle.raw, ROLLBACK) };
        self.handle.check(code).map(drop)
    }

    /// Creates a statement.
    ///
    /// # Errors
    /// The driver can't create another statement.
    pub(super) fn statement(&self) -> Result<Statement<'_>, Failed> {
        let handle = Handle::new(self.handle.api, STATEMENT, Some(&self.handle))?;
        Ok(Statement { handle, _connection: self })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: it is open, and its statements, which borrow it, are gone.
        unsafe { (self.handle.api.disconnect)(self.handle.raw) };
    }
}

/// The driver's description of a column.
pub(super) struct ColumnDescription {
    /// Its name.
    pub(super) name: String,
    /// The number of its SQL type.
    pub(super) sql_type: i16,
    /// The number of its characters, bytes or digits.
    pub(super) size: usize,
    /// Digits after the decimal point; for a time, fractional digits of a second.
    pub(super) digits: i16,
    /// The database's name of the type, in lower case.
    pub(super) type_name: String,
    /// It is an unsigned integer.
    pub(super) is_unsigned: bool,
}

/// A statement.
pub(super) struct Statement<'c> {
    handle: Handle,
    _connection: &'c Connection,
}

/// The memory where a fetch writes the values of a column: `width` bytes each, and an indicator.
pub(super) struct Target<'b> {
    /// The number of the C type.
    pub(super) c_type: i16,
    /// Bytes of a value.
    pub(super) width: usize,
    /// The values of all rows.
    pub(super) values: &'b mut [u8],
    /// The length of each value, or [`NULL_DATA`].
    pub(super) lengths: &'b mut [isize],
}

/// A bound value.
pub(super) struct BoundValue {
    /// The number of the C type.
    pub(super) c_type: i16,
    /// The number of the SQL type.
    pub(super) sql_type: i16,
    /// The number of its characters or digits.
    pub(super) size: usize,
    /// Digits after the decimal point.
    pub(super) digits: i16,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// The number of bytes, or [`NULL_DATA`].
    pub(super) length: isize,
}

impl Statement<'_> {
    fn check(&self, code: i16) -> Result<Code, Failed> {
        self.handle.check(code)
    }

    /// Prepares a statement's text.
    ///
    /// # Errors
    /// The database refuses it.
    pub(super) fn prepare(&self, sql: &str) -> Result<(), Failed> {
        let text: Vec<u16> = sql.encode_utf16().chain([0]).collect();
        let length =
            i32::try_from(text.len() - 1).map_err(|_| failed("the statement is too long".to_owned()))?;
        // SAFETY: the text is as long as the call says.
        self.check(unsafe { (self.handle.api.prepare)(self.handle.raw, text.as_ptr(), length) }).map(drop)
    }

    /// Returns the number of placeholders; `None`: the driver doesn't know it.
    pub(super) fn placeholders(&self) -> Option<usize> {
        let mut number = 0_i16;
        // SAFETY: the call writes the number to `number`.
        let code = unsafe { (self.handle.api.num_params)(self.handle.raw, &raw mut number) };
        is_well(code).then(|| usize::try_from(number).ok()).flatten()
    }

    /// Binds values to the placeholders, in order.
    ///
    /// # Safety
    /// `bound` must not move until the statement has been executed.
    ///
    /// # Errors
    /// The driver rejects a value.
    pub(super) unsafe fn bind(&self, bound: &mut [BoundValue]) -> Result<(), Failed> {
        const INPUT: i16 = 1;
        for (number, value) in (1..).zip(bound) {
            // SAFETY: the value has as many bytes as the call says. The caller guarantees their
            // lifetime.
            let code = unsafe {
                (self.handle.api.bind_parameter)(
                    self.handle.raw,
                    number,
                    INPUT,
                    value.c_type,
                    value.sql_type,
                    value.size,
                    value.digits,
                    value.bytes.as_mut_ptr().cast(),
                    value.bytes.len() as isize,
                    &raw mut value.length,
                )
            };
            self.check(code)?;
        }
        Ok(())
    }

    /// Runs the statement.
    ///
    /// # Errors
    /// The statement failed.
    pub(super) fn execute(&self) -> Result<Code, Failed> {
        // SAFETY: the statement was prepared, and the bound values live.
        self.check(unsafe { (self.handle.api.execute)(self.handle.raw) })
    }

    /// Returns the number of columns; 0: the statement has no rows, or not yet.
    ///
    /// # Errors
    /// The driver can't determine it.
    pub(super) fn columns(&self) -> Result<u16, Failed> {
        let mut number = 0_i16;
        // SAFETY: the call writes the number to `number`.
        self.check(unsafe { (self.handle.api.num_result_cols)(self.handle.raw, &raw mut number) })?;
        Ok(u16::try_from(number).unwrap_or(0))
    }

    /// Describes the column `number`, counted from 1.
    ///
    /// # Errors
    /// The driver can't describe it.
    pub(super) fn describe(&self, number: u16) -> Result<ColumnDescription, Failed> {
        const UNSIGNED: u16 = 8;
        const TYPE_NAME: u16 = 14;
        let mut name = [0_u16; 512];
        let (mut length, mut sql_type, mut digits, mut nullable) = (0_i16, 0_i16, 0_i16, 0_i16);
        let mut size = 0_usize;
        // SAFETY: the buffer is as long as the call says, in characters.
        let code = unsafe {
            (self.handle.api.describe_col)(
                self.handle.raw,
                number,
                name.as_mut_ptr(),
                name.len() as i16,
                &raw mut length,
                &raw mut sql_type,
                &raw mut size,
                &raw mut digits,
                &raw mut nullable,
            )
        };
        self.check(code)?;
        let length = usize::try_from(length).unwrap_or(0).min(name.len() - 1);
        Ok(ColumnDescription {
            name: String::from_utf16_lossy(&name[..length]),
            sql_type,
            size,
            digits,
            type_name: self.column_text(number, TYPE_NAME).to_ascii_lowercase(),
            is_unsigned: self.column_number(number, UNSIGNED) == 1,
        })
    }

    fn column_text(&self, number: u16, what: u16) -> String {
        let mut text = [0_u16; 128];
        let mut length = 0_i16;
        // SAFETY: the buffer is as long as the call says, in bytes.
        let code = unsafe {
            (self.handle.api.col_attribute)(
                self.handle.raw,
                number,
                what,
                text.as_mut_ptr().cast(),
                (text.len() * 2) as i16,
                &raw mut length,
                null_mut(),
            )
        };
        let length = if is_well(code) { usize::try_from(length / 2).unwrap_or(0) } else { 0 };
        String::from_utf16_lossy(&text[..length.min(text.len())])
    }

    fn column_number(&self, number: u16, what: u16) -> isize {
        let mut value = 0_isize;
        // SAFETY: the call writes the number to `value`.
        let code = unsafe {
            (self.handle.api.col_attribute)(
                self.handle.raw,
                number,
                what,
                null_mut(),
                0,
                null_mut(),
                &raw mut value,
            )
        };
        if is_well(code) { value } else { 0 }
    }

    /// Makes each fetch read as many rows as `states` has elements. It writes their number to
    /// `fetched`, and the state of each to `states`.
    ///
    /// # Safety
    /// Neither may move while rows are fetched.
    ///
    /// # Errors
    /// The driver only fetches one row at a time.
    pub(super) unsafe fn fetch_many(&self, fetched: &mut usize, states: &mut [u16]) -> Result<(), Failed> {
        const ROW_STATUS: i32 = 25;
        const ROWS_FETCHED: i32 = 26;
        const ROW_ARRAY_SIZE: i32 = 27;
        let rows = states.len() as *mut c_void;
        for (what, value) in [
            (ROW_ARRAY_SIZE, rows),
            (ROWS_FETCHED, std::ptr::from_mut(fetched).cast()),
            (ROW_STATUS, states.as_mut_ptr().cast()),
        ] {
            // SAFETY: the caller guarantees the pointers' lifetime, and `states` has an element per
            // row.
            let code = unsafe { (self.handle.api.set_stmt_attr)(self.handle.raw, what, value, 0) };
            self.check(code)?;
        }
        Ok(())
    }

    /// Makes each fetch write the column `number`, counted from 1.
    ///
    /// # Safety
    /// The target must not move while rows are fetched.
    ///
    /// # Errors
    /// The driver rejects the target.
    pub(super) unsafe fn bind_column(&self, number: u16, target: &mut Target<'_>) -> Result<(), Failed> {
        // SAFETY: the target has `width` bytes and a length for each row. The caller guarantees its
        // lifetime.
        let code = unsafe {
            (self.handle.api.bind_col)(
                self.handle.raw,
                number,
                target.c_type,
                target.values.as_mut_ptr().cast(),
                target.width as isize,
                target.lengths.as_mut_ptr(),
            )
        };
        self.check(code).map(drop)
    }

    /// Fetches rows.
    ///
    /// # Errors
    /// The statement failed.
    pub(super) fn fetch(&self) -> Result<Code, Failed> {
        // SAFETY: the caller of `fetch_many` or `bind_column` has guaranteed the lifetime of the
        // buffers.
        self.check(unsafe { (self.handle.api.fetch)(self.handle.raw) })
    }

    /// Makes [`Statement::get_data`] read the fetched row `row`, counted from 0.
    ///
    /// # Errors
    /// The driver can't position.
    pub(super) fn position(&self, row: usize) -> Result<(), Failed> {
        const POSITION: u16 = 0;
        const NO_LOCK: u16 = 0;
        // SAFETY: rows have been fetched.
        self.check(unsafe { (self.handle.api.set_pos)(self.handle.raw, row + 1, POSITION, NO_LOCK) })
            .map(drop)
    }

    /// Reads a piece of a value into `piece`. Returns the result, and the number of bytes that
    /// remained before this call.
    ///
    /// # Errors
    /// The driver can't read the value.
    pub(super) fn get_data(
        &self,
        number: u16,
        c_type: i16,
        piece: &mut [u8],
    ) -> Result<(Code, isize), Failed> {
        let mut length = 0_isize;
        // SAFETY: the buffer is as long as the call says.
        let code = unsafe {
            (self.handle.api.get_data)(
                self.handle.raw,
                number,
                c_type,
                piece.as_mut_ptr().cast(),
                piece.len() as isize,
                &raw mut length,
            )
        };
        Ok((self.check(code)?, length))
    }

    /// Moves to the next result.
    ///
    /// # Errors
    /// The statement failed.
    pub(super) fn more_results(&self) -> Result<Code, Failed> {
        // SAFETY: the statement was executed.
        self.check(unsafe { (self.handle.api.more_results)(self.handle.raw) })
    }

    /// Makes the statement ready to be executed again.
    pub(super) fn close(&self) {
        // SAFETY: the statement was executed. We ignore the error if there's no cursor.
        unsafe { (self.handle.api.close_cursor)(self.handle.raw) };
    }

    /// Returns a handle that ends the statement from another thread. It must not be called once the
    /// statement is gone.
    pub(super) fn cancel(&self) -> Cancel {
        Cancel { api: self.handle.api, raw: self.handle.raw }
    }

    /// Returns the diagnosis of a warning.
    pub(super) fn diagnosis(&self) -> Failed {
        self.handle.diagnosis()
    }
}

/// Ends a statement from another thread.
pub(super) struct Cancel {
    api: &'static Api,
    raw: Raw,
}

// SAFETY: the standard allows calls of `SQLCancel` from another thread, unlike all other functions.
unsafe impl Send for Cancel {}

impl Cancel {
    /// Ends the statement.
    pub(super) fn call(&self) {
        // SAFETY: the owner of this handle guarantees that the statement lives.
        unsafe { (self.api.cancel)(self.raw) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_lose_the_names_of_who_passed_them() {
        for (message, expected) in [
            ("[unixODBC][Driver]ERROR: no table \"[t]\"", "ERROR: no table \"[t]\""),
            ("[SQLite]near \"selct\": syntax error (1)", "near \"selct\": syntax error (1)"),
            ("plain", "plain"),
            ("[all of it]", "[all of it]"),
        ] {
            assert_eq!(plain(message), expected);
        }
    }
}
