//! ODBC's C functions, as the driver manager (unixODBC) exports them, and handles that free
//! themselves.
//!
//! The driver manager is loaded at run time, so that the program starts where there is none. What
//! is here are the functions of ODBC 3 that a worker calls, in their wide variants: texts are UTF-16,
//! and so hang on no locale.

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

/// What a value's indicator says of NULL.
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
            /// What the functions are in.
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

/// The driver manager's functions, which stay loaded for as long as the process lives.
fn api() -> Result<&'static Api, Failed> {
    static API: OnceLock<Api> = OnceLock::new();
    if let Some(api) = API.get() {
        return Ok(api);
    }
    let mut last = String::new();
    for name in LIBRARIES {
        // SAFETY: what a library does when it is loaded is its own; this process is there for that.
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

/// A handle, which frees itself.
struct Handle {
    api: &'static Api,
    kind: i16,
    raw: Raw,
}

impl Handle {
    fn new(api: &'static Api, kind: i16, parent: Option<&Self>) -> Result<Self, Failed> {
        let mut raw = null_mut();
        // SAFETY: the parent lives, and the new handle is written to `raw`.
        let code =
            unsafe { (api.alloc_handle)(kind, parent.map_or(null_mut(), |parent| parent.raw), &raw mut raw) };
        match (is_well(code), parent) {
            (true, _) => Ok(Self { api, kind, raw }),
            (false, Some(parent)) => Err(parent.diagnosis()),
            (false, None) => Err(failed("ODBC has no environment".to_owned())),
        }
    }

    /// What a function said; an error with its diagnosis.
    fn check(&self, code: i16) -> Result<Code, Failed> {
        match code {
            SUCCESS => Ok(Code::Success),
            SUCCESS_WITH_INFO => Ok(Code::WithInfo),
            NO_DATA => Ok(Code::NoData),
            _ => Err(self.diagnosis()),
        }
    }

    /// What the driver says of the last error.
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
            messages.push("the driver failed without a word".to_owned());
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
        // SAFETY: it was allocated, and nobody has it any more.
        unsafe { (self.api.free_handle)(self.kind, self.raw) };
    }
}

/// How many messages of one error are read.
const LAST_RECORD: i16 = 3;

/// A message without the names of those it has passed: `[unixODBC][Driver]ERROR: …`.
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

/// Whose fault an error is, by the class of its SQLSTATE.
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

/// How a call ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    /// Well.
    Success,
    /// Well, with a warning: a text that did not fit its buffer.
    WithInfo,
    /// There is no more.
    NoData,
}

/// A connection. Its environment is its own.
pub(super) struct Connection {
    handle: Handle,
    /// Freed after the connection.
    _environment: Handle,
}

impl Connection {
    /// Connects by a connection string.
    ///
    /// # Errors
    /// There is no driver manager, or no driver, or it cannot connect.
    pub(super) fn open(connection: &str, timeout_seconds: usize) -> Result<Self, Failed> {
        const ODBC_VERSION: i32 = 200;
        const ODBC_3: usize = 3;
        const LOGIN_TIMEOUT: i32 = 103;
        const NO_PROMPT: u16 = 0;
        let api = api()?;
        let environment = Handle::new(api, ENVIRONMENT, None)?;
        // SAFETY: the attribute's value is an integer in the place of a pointer.
        environment
            .check(unsafe { (api.set_env_attr)(environment.raw, ODBC_VERSION, ODBC_3 as *mut c_void, 0) })?;
        let handle = Handle::new(api, CONNECTION, Some(&environment))?;
        // SAFETY: the same. Not every driver has a timeout.
        unsafe { (api.set_connect_attr)(handle.raw, LOGIN_TIMEOUT, timeout_seconds as *mut c_void, 0) };
        let text: Vec<u16> = connection.encode_utf16().chain([0]).collect();
        let length = i16::try_from(text.len() - 1)
            .map_err(|_| failed("the connection string is too long".to_owned()))?;
        // SAFETY: the text is as long as the call says, and nothing is written back.
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

    /// A text that the driver says of itself; empty where it says none.
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

    /// A number that the driver says of itself; 0 where it says none.
    pub(super) fn info_number(&self, what: u16) -> u32 {
        let mut number = 0_u32;
        // SAFETY: a number is written to four bytes.
        let code = unsafe {
            (self.handle.api.get_info)(self.handle.raw, what, (&raw mut number).cast(), 4, null_mut())
        };
        if is_well(code) { number } else { 0 }
    }

    /// A number that is an attribute.
    pub(super) fn attribute(&self, what: i32) -> Option<usize> {
        let mut number = 0_usize;
        // SAFETY: a number of 32 or 64 bits is written to eight bytes, the low ones first.
        let code = unsafe {
            (self.handle.api.get_connect_attr)(self.handle.raw, what, (&raw mut number).cast(), 0, null_mut())
        };
        is_well(code).then_some(number)
    }

    /// Sets an attribute that is a number.
    ///
    /// # Errors
    /// The driver does not take it.
    pub(super) fn set_attribute(&self, what: i32, value: usize) -> Result<(), Failed> {
        // SAFETY: the value is an integer in the place of a pointer.
        let code =
            unsafe { (self.handle.api.set_connect_attr)(self.handle.raw, what, value as *mut c_void, 0) };
        self.handle.check(code).map(drop)
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// It cannot be.
    pub(super) fn roll_back(&self) -> Result<(), Failed> {
        const ROLLBACK: i16 = 1;
        // SAFETY: the connection is open.
        let code = unsafe { (self.handle.api.end_tran)(CONNECTION, self.handle.raw, ROLLBACK) };
        self.handle.check(code).map(drop)
    }

    /// A new statement.
    ///
    /// # Errors
    /// There can be none.
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

/// What a column is, as the driver describes it.
pub(super) struct Described {
    /// Its name.
    pub(super) name: String,
    /// The number of its SQL type.
    pub(super) sql_type: i16,
    /// Its characters, bytes or digits.
    pub(super) size: usize,
    /// Digits after the point; of a time, those of a second.
    pub(super) digits: i16,
    /// The database's name of the type, in small letters.
    pub(super) type_name: String,
    /// Whether it is an integer without a sign.
    pub(super) is_unsigned: bool,
}

/// A statement.
pub(super) struct Statement<'c> {
    handle: Handle,
    _connection: &'c Connection,
}

/// Where values of a column are written by a fetch: `width` bytes each, and an indicator.
pub(super) struct Target<'b> {
    /// The number of the C type.
    pub(super) c_type: i16,
    /// Bytes of a value.
    pub(super) width: usize,
    /// The values of all rows.
    pub(super) values: &'b mut [u8],
    /// The length of each, or that it is NULL.
    pub(super) lengths: &'b mut [isize],
}

/// A value that is bound.
pub(super) struct Bound {
    /// The number of the C type.
    pub(super) c_type: i16,
    /// That of the SQL type.
    pub(super) sql_type: i16,
    /// Its characters or digits.
    pub(super) size: usize,
    /// Digits after the point.
    pub(super) digits: i16,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// How many, or that it is NULL.
    pub(super) length: isize,
}

impl Statement<'_> {
    fn check(&self, code: i16) -> Result<Code, Failed> {
        self.handle.check(code)
    }

    /// Prepares a text.
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

    /// How many placeholders it has; `None` where the driver does not know.
    pub(super) fn placeholders(&self) -> Option<usize> {
        let mut number = 0_i16;
        // SAFETY: the number is written to `number`.
        let code = unsafe { (self.handle.api.num_params)(self.handle.raw, &raw mut number) };
        is_well(code).then(|| usize::try_from(number).ok()).flatten()
    }

    /// Binds values to the placeholders, in order.
    ///
    /// # Safety
    /// `bound` must stay where it is until the statement was executed.
    ///
    /// # Errors
    /// The driver does not take them.
    pub(super) unsafe fn bind(&self, bound: &mut [Bound]) -> Result<(), Failed> {
        const INPUT: i16 = 1;
        for (number, value) in (1..).zip(bound) {
            // SAFETY: the value's bytes are as many as the call says; how long they live is the
            // caller's promise.
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

    /// Runs it.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn execute(&self) -> Result<Code, Failed> {
        // SAFETY: it was prepared, and what is bound lives.
        self.check(unsafe { (self.handle.api.execute)(self.handle.raw) })
    }

    /// How many columns its rows have; 0: it has no rows, or not yet.
    ///
    /// # Errors
    /// The driver cannot say it.
    pub(super) fn columns(&self) -> Result<u16, Failed> {
        let mut number = 0_i16;
        // SAFETY: the number is written to `number`.
        self.check(unsafe { (self.handle.api.num_result_cols)(self.handle.raw, &raw mut number) })?;
        Ok(u16::try_from(number).unwrap_or(0))
    }

    /// What the column `number` is, from 1.
    ///
    /// # Errors
    /// The driver cannot say it.
    pub(super) fn describe(&self, number: u16) -> Result<Described, Failed> {
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
        Ok(Described {
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
        // SAFETY: the number is written to `value`.
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

    /// Has a fetch read so many rows, whose number is written to `fetched` and the state of each to
    /// `states`.
    ///
    /// # Safety
    /// Both must stay where they are for as long as rows are fetched.
    ///
    /// # Errors
    /// The driver fetches one row at a time.
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
            // SAFETY: the pointers live by the caller's promise, and `states` has a place per row.
            let code = unsafe { (self.handle.api.set_stmt_attr)(self.handle.raw, what, value, 0) };
            self.check(code)?;
        }
        Ok(())
    }

    /// Has a fetch write the column `number`, from 1.
    ///
    /// # Safety
    /// The target must stay where it is for as long as rows are fetched.
    ///
    /// # Errors
    /// The driver does not take it.
    pub(super) unsafe fn bind_column(&self, number: u16, target: &mut Target<'_>) -> Result<(), Failed> {
        // SAFETY: the target has `width` bytes and a length for each row; the rest is the caller's
        // promise.
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
        // SAFETY: what is bound lives, as those promised who bound it.
        self.check(unsafe { (self.handle.api.fetch)(self.handle.raw) })
    }

    /// Has [`Statement::get_data`] read the row `row` of those that were fetched, from 0.
    ///
    /// # Errors
    /// The driver cannot.
    pub(super) fn position(&self, row: usize) -> Result<(), Failed> {
        const POSITION: u16 = 0;
        const NO_LOCK: u16 = 0;
        // SAFETY: rows were fetched.
        self.check(unsafe { (self.handle.api.set_pos)(self.handle.raw, row + 1, POSITION, NO_LOCK) })
            .map(drop)
    }

    /// Reads a piece of a value into `piece`. Gives how it ended, and how many bytes there were
    /// before.
    ///
    /// # Errors
    /// The driver cannot.
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

    /// Goes on to the next result.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn more_results(&self) -> Result<Code, Failed> {
        // SAFETY: it was executed.
        self.check(unsafe { (self.handle.api.more_results)(self.handle.raw) })
    }

    /// Makes it ready to be executed again.
    pub(super) fn close(&self) {
        // SAFETY: it was executed; that there is no cursor is no error of ours.
        unsafe { (self.handle.api.close_cursor)(self.handle.raw) };
    }

    /// What ends it from another thread. It must not be called once the statement is gone.
    pub(super) fn cancel(&self) -> Cancel {
        Cancel { api: self.handle.api, raw: self.handle.raw }
    }

    /// The diagnosis of what a function only warned of.
    pub(super) fn diagnosis(&self) -> Failed {
        self.handle.diagnosis()
    }
}

/// What ends a statement from another thread.
pub(super) struct Cancel {
    api: &'static Api,
    raw: Raw,
}

// SAFETY: the standard has `SQLCancel`, and no other function, called from another thread.
unsafe impl Send for Cancel {}

impl Cancel {
    /// Ends it.
    pub(super) fn call(&self) {
        // SAFETY: the statement lives, as those promised who have this.
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
