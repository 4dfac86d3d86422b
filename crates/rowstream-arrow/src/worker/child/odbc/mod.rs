//! Connections by drivers of ODBC.
//!
//! | file | contents |
//! |---|---|
//! | [`api`] | the C functions, loaded at run time, and handles |
//! | [`bind`] | the arguments to bind |
//! | [`columns`] | how to read each column, and its values as an array |
//! | [`names`] | names in the driver's quotes |
//! | [`rows`] | fetches: many rows at once, or value by value |

mod api;
mod bind;
mod columns;
mod names;
mod rows;

use std::cell::Cell;

use arrow_schema::{Field, Schema};
use rowstream_core::sql::Dialect;

use super::super::connection_string::{attributes, with_password};
use super::super::dialect::{self, may_run_twice};
use super::super::frame::{Failed, Fault, OdbcOpening};
use super::session::MortalConnection;
use super::{ChildConnection, EndReason, Run, data_failed};
use crate::arrow_rows::Argument;
use api::{Code, Statement};
use columns::ReadType;

/// The C types of values that we read and bind (`SQL_C_…`).
mod c {
    pub(super) const BIT: i16 = -7;
    pub(super) const BIGINT: i16 = -25;
    pub(super) const UBIGINT: i16 = -27;
    pub(super) const DOUBLE: i16 = 8;
    pub(super) const WCHAR: i16 = -8;
    pub(super) const BINARY: i16 = -2;
    pub(super) const DATE: i16 = 91;
    pub(super) const TIMESTAMP: i16 = 93;
}

/// How long a connection can take to open, if the driver has a login timeout. Shorter than the
/// server's limit.
const LOGIN_SECONDS: usize = 20;

/// The driver's information about itself.
mod info {
    pub(super) const DBMS_NAME: u16 = 17;
    pub(super) const IDENTIFIER_QUOTE: u16 = 29;
    pub(super) const TRANSACTION_ISOLATIONS: u16 = 72;
    pub(super) const GET_DATA: u16 = 81;
}

/// The attributes of a connection.
mod attribute {
    pub(super) const AUTOCOMMIT: i32 = 102;
    pub(super) const ISOLATION: i32 = 108;
    pub(super) const DEAD: i32 = 1209;
}

/// The settings of a MySQL or MariaDB session. `"…"` is a name, like in most databases and in our
/// lexer. No setting of the server cuts a result or a value, or moves times to another zone, unless
/// the connection string sets a zone.
fn mysql_settings(longest: usize) -> String {
    format!(
        "set session sql_mode = concat(@@sql_mode, ',ANSI_QUOTES'), sql_select_limit = 18446744073709551615, \
         completion_type = 0, group_concat_max_len = greatest(@@group_concat_max_len, {longest}), \
         max_sort_length = greatest(@@max_sort_length, 4096), \
         time_zone = if(@@session.time_zone = @@global.time_zone, '+00:00', @@session.time_zone) \
         /*M!100202 , max_recursive_iterations = 4294967295 */"
    )
}

/// How we read the values of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetch {
    /// Many rows at once. [`Statement::position`] allows us to read a value that doesn't fit its
    /// buffer.
    Positioned,
    /// Many rows at once, if all columns have a length that the database enforces.
    Declared,
    /// Value by value.
    ByValue,
}

/// A driver's connection.
pub(super) struct OdbcConnection {
    api: api::Connection,
    fetch: Cell<Fetch>,
    /// The database limits decimals to the digits of their column.
    keeps_decimals: bool,
    /// The isolation level in which a transaction reads one snapshot; `None`: the driver has none.
    snapshot: Option<usize>,
    /// The connection's default isolation level.
    isolation: Option<usize>,
    /// The quote around names.
    quote: String,
    fetch_rows: usize,
    longest: usize,
    secrets: Vec<String>,
}

impl OdbcConnection {
    /// Connects.
    ///
    /// # Errors
    /// The driver manager or the driver is missing, or the driver can't connect. No message
    /// contains a password.
    pub(super) fn open(opening: &OdbcOpening) -> Result<Self, Failed> {
        /// `SQL_GD_BLOCK` and `SQL_GD_BOUND`: any value of the fetched rows can be read.
        const ANY_ROW: u32 = 4 | 8;
        const REPEATABLE_READ: u32 = 4;
        const SERIALIZABLE: u32 = 8;
        let connection = match &opening.password {
            Some(password) => &with_password(&opening.connection, password),
            None => &opening.connection,
        };
        let secrets = secrets(connection);
        let api = api::Connection::open(connection, LOGIN_SECONDS)
            .map_err(|failed| Failed { fault: Fault::Connection, ..without(&secrets, failed) })?;
        let database = api.info_text(info::DBMS_NAME).to_ascii_lowercase();
        let isolations = api.info_number(info::TRANSACTION_ISOLATIONS);
        let snapshot = [REPEATABLE_READ, SERIALIZABLE].into_iter().find(|level| isolations & level != 0);
        let fetch = match api.info_number(info::GET_DATA) & ANY_ROW {
            // SQLite's values can be longer than their column's declared length.
            _ if database.contains("sqlite") => Fetch::ByValue,
            // Once this driver has returned one value of a column by itself, it returns no others
            // of that column.
            _ if database.contains("mariadb") || database.contains("mysql") => Fetch::Declared,
            ANY_ROW => Fetch::Positioned,
            _ => Fetch::Declared,
        };
        let this = Self {
            fetch: Cell::new(fetch),
            keeps_decimals: !database.contains("postgres") && !database.contains("sqlite"),
            snapshot: snapshot.map(|level| level as usize),
            isolation: api.attribute(attribute::ISOLATION),
            quote: api.info_text(info::IDENTIFIER_QUOTE),
            api,
            fetch_rows: opening.fetch_rows,
            longest: opening.longest,
            secrets,
        };
        if database.contains("mariadb") || database.contains("mysql") {
            let statement = this.api.statement()?;
            statement.prepare(&mysql_settings(opening.longest))?;
            statement.execute()?;
        }
        Ok(this)
    }

    fn prepare(&self, sql: &str, arguments: usize) -> Result<Statement<'_>, Failed> {
        let statement = self.api.statement()?;
        statement.prepare(&names::quoted(sql, &self.quote)?)?;
        match statement.placeholders() {
            Some(placeholders) if placeholders != arguments => {
                Err(super::wrong_number(placeholders, arguments))
            }
            _ => Ok(statement),
        }
    }

    /// Returns the columns of a statement. If the driver doesn't know them before it runs, as for a
    /// procedure, we run it with NULLs and roll back its changes.
    fn columns_of(&self, sql: &str, arguments: &[Argument]) -> Result<Schema, Failed> {
        // Fails for values that can't be bound, before any request sends them.
        bind::bound(arguments)?;
        {
            let statement = self.prepare(sql, arguments.len())?;
            if !is_call(sql) && statement.columns()? > 0 {
                return Ok(self.schema(&statement)?.1);
            }
        }
        self.set_autocommit(false)?;
        let schema = self.run(sql, arguments).and_then(|statement| Ok(self.schema(&statement)?.1));
        self.api.roll_back()?;
        self.set_autocommit(true)?;
        schema
    }

    /// Runs a statement up to its first result with rows.
    fn run(&self, sql: &str, arguments: &[Argument]) -> Result<Statement<'_>, Failed> {
        let statement = self.prepare(sql, arguments.len())?;
        execute(&statement, arguments)?;
        Ok(statement)
    }

    fn schema(&self, statement: &Statement<'_>) -> Result<(Vec<ReadType>, Schema), Failed> {
        let mut reads = Vec::new();
        let mut fields: Vec<Field> = Vec::new();
        for number in 1..=statement.columns()? {
            let column = statement.describe(number)?;
            let read = ReadType::of(&column, self.keeps_decimals);
            fields.push(read.field(&column.name));
            reads.push(read);
        }
        Ok((reads, Schema::new(fields)))
    }

    fn set_autocommit(&self, on: bool) -> Result<(), Failed> {
        self.api.set_attribute(attribute::AUTOCOMMIT, on.into())
    }

    fn stream(&self, sql: &str, arguments: &[Argument], run: &Run<'_>) -> Result<(), EndReason> {
        let statement = self.prepare(sql, arguments.len())?;
        let cancel = statement.cancel();
        let _cancellable = run.cancelled_by(vec![Box::new(move || cancel.call())])?;
        // We keep the columns as described, because a driver may describe them differently once
        // there's a row.
        let before = if is_call(sql) { 0 } else { statement.columns()? };
        let known = if before > 0 { Some(self.schema(&statement)?) } else { None };
        execute(&statement, arguments)?;
        let (reads, schema) = match known {
            Some(_) if statement.columns()? != before => return Err(other_columns().into()),
            Some(known) => known,
            None => self.schema(&statement)?,
        };
        let mut rows = rows::Rows::new(&statement, &reads, self.rows_config(sql, run))?;
        let mut is_more = match rows.start() {
            Ok(is_more) => is_more,
            Err(rows::StartError::Failed(failed)) => return Err(failed.into()),
            // We can run it again: no row was sent, and we position only in statements that write
            // nothing.
            Err(rows::StartError::NotPositioned) => {
                drop(rows);
                self.fetch.set(Fetch::Declared);
                statement.close();
                execute(&statement, arguments)?;
                rows = rows::Rows::new(&statement, &reads, self.rows_config(sql, run))?;
                rows.start().map_err(rows::StartError::failed)?
            }
        };
        let schema = std::sync::Arc::new(schema);
        let mut sender = run.rows(&schema)?;
        while is_more {
            run.go_on()?;
            sender.write(&rows.batch(&schema)?)?;
            is_more = rows.fetch()?;
        }
        drop(rows);
        one_result(&statement)?;
        sender.finish()
    }

    /// Returns the failure to report to the server. It's the connection's if the driver says that
    /// the connection is dead. Some drivers report no specific SQLSTATE then.
    fn failure(&self, failed: Failed) -> Failed {
        let fault = match failed.may_be_of_connection() && self.is_dead() {
            true => Fault::Connection,
            false => failed.fault,
        };
        without(&self.secrets, Failed { fault, ..failed })
    }

    fn is_dead(&self) -> bool {
        self.api.attribute(attribute::DEAD) == Some(1)
    }

    fn rows_config(&self, sql: &str, run: &Run<'_>) -> rows::Config {
        let fetch = match self.fetch.get() {
            // If the driver couldn't position after all, we would have to run the statement again.
            Fetch::Positioned if !may_run_twice(sql, &dialect::ODBC) => Fetch::Declared,
            fetch => fetch,
        };
        let (fetch_rows, fetch_bytes, longest) = (self.fetch_rows, run.fetch_bytes, self.longest);
        rows::Config { fetch, fetch_rows, fetch_bytes, longest }
    }
}

impl ChildConnection for OdbcConnection {
    fn describe(&mut self, sql: &str, arguments: &[Argument]) -> Result<Schema, Failed> {
        self.columns_of(sql, arguments).map_err(|failed| self.failure(failed))
    }

    fn execute(&mut self, sql: &str, arguments: &[Argument], run: &Run<'_>) -> Result<(), EndReason> {
        self.stream(sql, arguments, run).map_err(|ended| match ended {
            EndReason::Failed(failed) => self.failure(failed).into(),
            gone => gone,
        })
    }

    fn begin(&mut self) -> Result<(), Failed> {
        if let Some(snapshot) = self.snapshot {
            self.api.set_attribute(attribute::ISOLATION, snapshot).map_err(|failed| self.failure(failed))?;
        }
        self.set_autocommit(false).map_err(|failed| self.failure(failed))
    }

    fn roll_back(&mut self) -> Result<(), Failed> {
        self.api.roll_back()?;
        self.set_autocommit(true)?;
        match self.isolation.filter(|_| self.snapshot.is_some()) {
            Some(isolation) => self.api.set_attribute(attribute::ISOLATION, isolation),
            None => Ok(()),
        }
    }
}

impl MortalConnection for OdbcConnection {
    const DIALECT: &'static Dialect = &dialect::ODBC;

    fn may_be_dead(failed: &Failed) -> bool {
        failed.is_of_connection() || failed.may_be_of_connection()
    }

    fn ping(&mut self) -> Result<(), Failed> {
        let pinged = self.api.statement().and_then(|statement| {
            statement.prepare("select 1")?;
            statement.execute()
        });
        match pinged.map_err(|failed| self.failure(failed)) {
            Err(failed) if failed.is_of_connection() => Err(failed),
            _ => Ok(()),
        }
    }
}

fn other_columns() -> Failed {
    data_failed("the columns of the statement differ from the prepared ones".to_owned())
}

/// Runs a prepared statement up to its first result with rows.
fn execute(statement: &Statement<'_>, arguments: &[Argument]) -> Result<(), Failed> {
    let mut bound = bind::bound(arguments)?;
    #[expect(unsafe_code, reason = "the driver reads the values while it executes, and no longer")]
    // SAFETY: `bound` lives until the statement has been executed.
    unsafe {
        statement.bind(&mut bound)?;
    }
    statement.execute()?;
    while statement.columns()? == 0 {
        if statement.more_results()? == Code::NoData {
            return Err(data_failed("the statement has no rows, so it isn't a query".to_owned()));
        }
    }
    Ok(())
}

/// Checks that no error and no second result with rows follows. Its rows would be lost.
fn one_result(statement: &Statement<'_>) -> Result<(), Failed> {
    while statement.more_results()? != Code::NoData {
        if statement.columns()? > 0 {
            return Err(data_failed(
                "the statement has several results, but an endpoint reads one".to_owned(),
            ));
        }
    }
    Ok(())
}

/// Returns true if a statement calls a procedure: `{call p(?)}`, `call p(?)`, `exec p ?`.
fn is_call(sql: &str) -> bool {
    let first = sql.trim_start().trim_start_matches(['{', '?', '=', ' ']);
    let word: String = first.chars().take_while(char::is_ascii_alphabetic).collect();
    ["call", "exec", "execute"].iter().any(|call| word.eq_ignore_ascii_case(call))
}

/// Returns the values of a connection string that must not appear in messages. A message may have a
/// value in braces as it's written or without its escapes, so both are returned.
fn secrets(connection: &str) -> Vec<String> {
    let mut secrets = Vec::new();
    for (key, value) in attributes(connection) {
        let key = key.to_ascii_lowercase();
        let is_secret = ["pwd", "pass", "secret", "token", "key"].iter().any(|part| key.contains(part));
        if is_secret && !value.is_empty() {
            secrets.push(value.to_owned());
            secrets.extend(Some(value.replace("}}", "}")).filter(|unescaped| unescaped != value));
        }
    }
    secrets
}

/// Removes the secrets from a failure's message.
fn without(secrets: &[String], mut failed: Failed) -> Failed {
    for secret in secrets {
        failed.message = failed.message.replace(secret, "…");
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_secret() {
        for (connection, expected) in [
            ("DSN=shop;UID=u;PWD=p;Port=1", vec!["p"]),
            ("Driver={A;b};Password={x;y};", vec!["x;y"]),
            ("DSN=shop;Token=t", vec!["t"]),
            // `b` was shown in messages: `}}` is a brace of the password, and doesn't end it.
            ("PWD={a}}b};Port=1", vec!["a}}b", "a}b"]),
            ("PWD={}}};Secret=s", vec!["}}", "}", "s"]),
            ("PWD={open", vec!["{open"]),
            ("DSN=shop", vec![]),
            ("PWD=", vec![]),
        ] {
            assert_eq!(secrets(connection), expected, "{connection}");
        }
        let failed = without(&["hush".to_owned()], data_failed("no user u with hush".to_owned()));
        assert_eq!(failed.message, "no user u with …");
    }

    #[test]
    fn calls_are_known() {
        for call in ["{call p(?)}", "call p()", "{ CALL p }", "{? = call p}", "exec p", "  Execute p ?"] {
            assert!(is_call(call), "{call}");
        }
        for other in ["select 1", "with called as (select 1) select 1", "executive"] {
            assert!(!is_call(other), "{other}");
        }
    }
}
